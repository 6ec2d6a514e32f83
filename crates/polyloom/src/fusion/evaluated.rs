//! Graphs that the planner refuses, run by the evaluator that defines them.

use super::FusionError;
use polyloom_graph::plan::{BufferKind, InputLayout, PlanBuffer, PlanOutput};
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::{Graph, GraphError, Layout};
use polyloom_ir::Scalar;

/// A graph with the layouts of its inputs.
#[derive(Debug)]
pub(super) struct EvaluatedGraph {
    graph: Graph,
    inputs: Vec<(Scalar, Layout)>,
}

impl EvaluatedGraph {
    pub(super) fn new(graph: &Graph, inputs: &[InputLayout]) -> Result<EvaluatedGraph, FusionError> {
        let with_layout = |((_, ty), input): ((_, &polyloom_graph::TensorType), &InputLayout)| {
            let layout = Layout { extents: input.extents.clone(), strides: input.strides.clone(), offset: 0 };
            (ty.dtype, layout)
        };
        let inputs = graph.inputs().zip(inputs).map(with_layout).collect();
        Ok(EvaluatedGraph { graph: graph.clone(), inputs })
    }

    /// The buffers and results: each result is dense, in a buffer of its own after those of the inputs.
    pub(super) fn memory(&self) -> Result<(Vec<PlanBuffer>, Vec<PlanOutput>), FusionError> {
        let mut buffers: Vec<PlanBuffer> = Vec::new();
        for (index, (dtype, layout)) in self.inputs.iter().enumerate() {
            let n_elements = layout.n_elements();
            buffers.push(PlanBuffer { dtype: *dtype, n_elements, kind: BufferKind::Input(index) });
        }
        let mut outputs = Vec::new();
        for (index, &output) in self.graph.outputs.iter().enumerate() {
            let value = self.graph.value(output).ok_or(GraphError::UnknownValue(output))?;
            let extents = value.ty.shape.as_static().ok_or(GraphError::UnknownValue(output))?;
            let layout = Layout::dense(&extents);
            outputs.push(PlanOutput { buffer: buffers.len(), layout: layout.clone() });
            let kind = BufferKind::Output(index);
            buffers.push(PlanBuffer { dtype: value.ty.dtype, n_elements: layout.n_elements(), kind });
        }
        Ok((buffers, outputs))
    }

    /// Evaluates the graph, given the addresses of the buffers.
    ///
    /// # Safety
    ///
    /// The buffers are valid and large enough.
    pub(super) unsafe fn run(&self, addresses: &[usize]) -> Result<(), FusionError> {
        // SAFETY: passed on to the caller.
        let read = |((dtype, layout), &address): (&(Scalar, Layout), &usize)| unsafe { read(*dtype, layout, address) };
        let inputs: Vec<DenseTensor> = self.inputs.iter().zip(addresses).map(read).collect();
        for (tensor, &address) in evaluate(&self.graph, &inputs)?.iter().zip(&addresses[inputs.len()..]) {
            for (index, &bits) in tensor.bits.iter().enumerate() {
                let n_bytes = tensor.dtype.bytes() as usize;
                let bytes = bits.to_le_bytes();
                // SAFETY: the buffer has all elements of the result.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), (address + index * n_bytes) as *mut u8, n_bytes);
                }
            }
        }
        Ok(())
    }
}

/// Reads a tensor.
///
/// # Safety
///
/// The elements are valid to read.
unsafe fn read(dtype: Scalar, layout: &Layout, address: usize) -> DenseTensor {
    let n_bytes = dtype.bytes() as usize;
    let element = |place: usize| {
        let mut bytes = [0u8; 8];
        let at = (address as isize).wrapping_add((place as isize).wrapping_mul(n_bytes as isize));
        // SAFETY: passed on to the caller.
        unsafe { std::ptr::copy_nonoverlapping(at as *const u8, bytes.as_mut_ptr(), n_bytes) };
        u64::from_le_bytes(bytes)
    };
    DenseTensor { dtype, extents: layout.extents.clone(), bits: layout.places().map(element).collect() }
}
