//! Arrays of Rust programs: a library that computes nodes by the evaluator that defines them.
//!
//! A Rust program without NumPy measures and runs native paths with it; tests compare mixed paths by it.

use super::elements::{copy_dense, read_elements, write_elements};
use super::library::{ArrayLibrary, CallOperand, LibraryCall};
use crate::fusion::RunNumber;
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::{Graph, Layout, Residence, TensorDef, TensorId, TensorType, TensorValue};
use polyloom_ir::Scalar;
use std::cell::Cell;
use std::rc::Rc;

/// An array in memory of its own.
#[derive(Clone, Debug)]
pub struct HostArray {
    memory: Rc<[Cell<u64>]>,
    /// The bytes from the beginning of the memory to the element whose indices are all 0.
    first: usize,
    dtype: Scalar,
    layout: Layout,
}

impl HostArray {
    /// Makes an array whose elements lie so and are 0.
    pub fn new(dtype: Scalar, layout: &Layout) -> HostArray {
        let (least, most) = layout.place_range().unwrap_or((0, 0));
        let n_bytes = (most - least + 1) as usize * dtype.bytes() as usize;
        let memory = std::iter::repeat_with(|| Cell::new(0)).take(n_bytes.div_ceil(8).max(1)).collect();
        HostArray { memory, first: (-least) as usize * dtype.bytes() as usize, dtype, layout: layout.clone() }
    }

    /// Makes a dense array of a tensor's elements.
    pub fn of(tensor: &DenseTensor) -> HostArray {
        let array = HostArray::new(tensor.dtype, &Layout::dense(&tensor.extents));
        // SAFETY: the memory is new and has these elements.
        unsafe { write_elements(array.dtype, &array.layout, array.address(), &tensor.bits) };
        array
    }

    /// The address of the element whose indices are all 0.
    pub fn address(&self) -> usize {
        self.memory.as_ptr() as usize + self.first
    }

    /// Reads the elements.
    pub fn read(&self) -> DenseTensor {
        // SAFETY: the memory is the array's.
        unsafe { read_elements(self.dtype, &self.layout, self.address()) }
    }
}

/// The library: the inputs of a run.
#[derive(Clone, Debug, Default)]
pub struct HostArrays {
    /// The inputs, which a path that calls the library reads.
    pub inputs: Vec<HostArray>,
}

/// A node as a graph of its own.
#[derive(Clone, Debug)]
pub struct NodeKernel {
    op: TensorDef,
    operands: Vec<CallOperand>,
    result: TensorType,
}

impl ArrayLibrary for HostArrays {
    type Array = HostArray;
    type Kernel = NodeKernel;
    type Error = String;

    fn kernel(&self, call: &LibraryCall<'_>) -> Result<NodeKernel, String> {
        let operands: Vec<CallOperand> =
            call.operands.iter().copied().filter(|operand| *operand != CallOperand::Absent).collect();
        let ids = (0..operands.len() as u32).map(TensorId).collect();
        let op = TensorDef::Op { op: call.op, operands: ids, attributes: call.attributes.clone() };
        Ok(NodeKernel { op, operands, result: call.result.clone() })
    }

    fn with_inputs(&self, inputs: Vec<HostArray>) -> HostArrays {
        HostArrays { inputs }
    }

    fn call(&self, kernel: &NodeKernel, operands: &[HostArray], numbers: &[RunNumber]) -> Result<HostArray, String> {
        let mut graph = Graph::default();
        let mut tensors = Vec::new();
        let mut arrays = operands.iter();
        for (index, operand) in kernel.operands.iter().enumerate() {
            let scalar = |dtype| TensorType { dtype, shape: polyloom_graph::Shape::SCALAR };
            let (ty, def) = match operand {
                CallOperand::Array => {
                    let tensor = arrays.next().ok_or("an operand is missing")?.read();
                    let shape = polyloom_graph::Shape::of(&tensor.extents);
                    let ty = TensorType { dtype: tensor.dtype, shape };
                    tensors.push(tensor);
                    (ty, TensorDef::Input(format!("v{index}").into()))
                }
                CallOperand::Constant { dtype, bits } => (scalar(*dtype), TensorDef::Constant(*bits)),
                CallOperand::Number { index, dtype } => {
                    let number = numbers.get(*index as usize).ok_or("a number is missing")?;
                    let bits = number.bits(*dtype).map_err(|error| error.to_string())?;
                    (scalar(*dtype), TensorDef::Constant(bits))
                }
                CallOperand::Absent => continue,
            };
            graph.values.push(TensorValue { ty, def });
        }
        graph.values.push(TensorValue { ty: kernel.result.clone(), def: kernel.op.clone() });
        graph.outputs = vec![TensorId(graph.values.len() as u32 - 1)];
        let results = evaluate(&graph, &tensors).map_err(|error| error.to_string())?;
        results.first().map(HostArray::of).ok_or_else(|| "the node has no result".to_owned())
    }

    fn input(&self, index: usize) -> Result<HostArray, String> {
        self.inputs.get(index).cloned().ok_or_else(|| format!("there is no input {index}"))
    }

    fn new_array(&self, dtype: Scalar, layout: &Layout) -> Result<(HostArray, usize), String> {
        let array = HostArray::new(dtype, layout);
        let address = array.address();
        Ok((array, address))
    }

    fn copy_to(&self, array: &HostArray, _: Scalar, _: Residence, _: Residence) -> Result<HostArray, String> {
        Ok(array.clone())
    }

    fn dense(&self, array: &HostArray) -> Result<(HostArray, usize), String> {
        if array.layout.is_dense() {
            return Ok((array.clone(), array.address()));
        }
        let dense = HostArray::new(array.dtype, &Layout::dense(&array.layout.extents));
        // SAFETY: both are memory of their own, with these elements.
        unsafe { copy_dense(array.dtype, &array.layout, array.address(), dense.address()) };
        let address = dense.address();
        Ok((dense, address))
    }
}
