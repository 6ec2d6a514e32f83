//! Builds graphs: infers types, and converts operands to the types that the ops take.

use crate::attribute::{AttributeValue, Attributes};
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType, TensorValue};
use crate::infer::{Inference, arrange_attributes, infer};
use crate::op::TensorOp;
use crate::promotion::OperandDtype;
use crate::shape::Shape;
use polyloom_ir::eval::eval;
use polyloom_ir::{Op, Scalar, Type};

/// An operand: a value of the graph or a Python number, which takes its type from the values beside it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TensorOperand {
    /// A value.
    Value(TensorId),
    /// A Python `bool`.
    Bool(bool),
    /// A Python `int`.
    Int(i64),
    /// A Python `float`.
    Float(f64),
    /// A Python `int` or `float` that is given at each run.
    Number {
        /// Its place among the numbers that are given.
        index: u32,
        /// True for a `float`.
        is_float: bool,
    },
}

impl From<TensorId> for TensorOperand {
    fn from(id: TensorId) -> TensorOperand {
        TensorOperand::Value(id)
    }
}

impl From<bool> for TensorOperand {
    fn from(value: bool) -> TensorOperand {
        TensorOperand::Bool(value)
    }
}

impl From<i64> for TensorOperand {
    fn from(value: i64) -> TensorOperand {
        TensorOperand::Int(value)
    }
}

impl From<f64> for TensorOperand {
    fn from(value: f64) -> TensorOperand {
        TensorOperand::Float(value)
    }
}

/// A graph under construction. Every method that fails leaves it as it was.
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    graph: Graph,
}

impl GraphBuilder {
    /// Begins an empty graph.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Continues a graph, whose values keep their ids.
    pub(crate) fn continue_graph(graph: Graph) -> GraphBuilder {
        GraphBuilder { graph }
    }

    /// Returns the number of values.
    pub(crate) fn n_values(&self) -> usize {
        self.graph.values.len()
    }

    /// Takes the last values away again, but for so many.
    pub(crate) fn truncate(&mut self, n_values: usize) {
        self.graph.values.truncate(n_values);
    }

    /// Returns a value, if there is one of this id.
    pub(crate) fn value(&self, id: TensorId) -> Option<&TensorValue> {
        self.graph.value(id)
    }

    /// Adds an input.
    ///
    /// # Errors
    ///
    /// [`GraphError::Invalid`] if the graph has an input of this name.
    pub fn input(&mut self, name: &str, dtype: Scalar, shape: Shape) -> Result<TensorId, GraphError> {
        if self.graph.inputs().any(|(other, _)| other == name) {
            let value = TensorId(self.graph.values.len() as u32);
            return Err(GraphError::Invalid { value, reason: format!("there is an input `{name}` already") });
        }
        Ok(self.push(TensorType { dtype, shape }, TensorDef::Input(name.into())))
    }

    /// Adds a scalar, given its bits, zero-extended.
    pub fn constant(&mut self, dtype: Scalar, bits: u64) -> TensorId {
        self.push(TensorType { dtype, shape: Shape::SCALAR }, TensorDef::Constant(bits))
    }

    /// Adds a scalar, given its value, which is rounded to the type.
    pub fn number(&mut self, dtype: Scalar, value: f64) -> TensorId {
        self.constant(dtype, convert(Scalar::F64, value.to_bits(), dtype))
    }

    /// Adds a scalar that is given at each run, by its place among those that are.
    pub(crate) fn given_number(&mut self, dtype: Scalar, index: u32) -> TensorId {
        self.push(TensorType { dtype, shape: Shape::SCALAR }, TensorDef::Number(index))
    }

    /// Returns the type of a value.
    ///
    /// # Errors
    ///
    /// [`GraphError::UnknownValue`].
    pub fn ty(&self, id: TensorId) -> Result<&TensorType, GraphError> {
        self.graph.value(id).map(|value| &value.ty).ok_or(GraphError::UnknownValue(id))
    }

    /// Appends an op, given its tensors and named attributes.
    ///
    /// # Errors
    ///
    /// All of [`GraphError`] up to `UnknownValue`. The message names the op, the argument and the shapes.
    pub fn op(
        &mut self,
        op: TensorOp,
        operands: &[TensorOperand],
        attributes: &[(&str, AttributeValue)],
    ) -> Result<TensorId, GraphError> {
        let attributes = arrange_attributes(op, attributes)?;
        self.op_with(op, operands, attributes)
    }

    /// Appends an op by its name or an alias.
    ///
    /// # Errors
    ///
    /// As [`GraphBuilder::op`]; also [`GraphError::UnknownOp`].
    pub fn call(
        &mut self,
        name: &str,
        operands: &[TensorOperand],
        attributes: &[(&str, AttributeValue)],
    ) -> Result<TensorId, GraphError> {
        self.op(TensorOp::from_name(name)?, operands, attributes)
    }

    /// Appends an op, given all its attributes in the order of the table.
    pub(crate) fn op_with(
        &mut self,
        op: TensorOp,
        operands: &[TensorOperand],
        attributes: Vec<AttributeValue>,
    ) -> Result<TensorId, GraphError> {
        let mut dtypes = Vec::new();
        let mut shapes = Vec::new();
        for operand in operands {
            let (dtype, shape) = match *operand {
                TensorOperand::Value(id) => {
                    let ty = self.ty(id)?;
                    (OperandDtype::Strong(ty.dtype), ty.shape.clone())
                }
                TensorOperand::Bool(_) => (OperandDtype::Strong(Scalar::Bool), Shape::SCALAR),
                TensorOperand::Int(_) => (OperandDtype::WeakInt, Shape::SCALAR),
                TensorOperand::Float(_) => (OperandDtype::WeakFloat, Shape::SCALAR),
                TensorOperand::Number { is_float: false, .. } => (OperandDtype::WeakInt, Shape::SCALAR),
                TensorOperand::Number { is_float: true, .. } => (OperandDtype::WeakFloat, Shape::SCALAR),
            };
            dtypes.push(dtype);
            shapes.push(shape);
        }
        let inference = infer(op, &dtypes, &shapes, attributes)?;
        for (operand, &dtype) in operands.iter().zip(&inference.operand_dtypes) {
            if let TensorOperand::Int(value) = *operand {
                check_range(op, value, dtype)?;
            }
        }
        let Inference { operand_dtypes, attributes, ty } = inference;
        let operands = operands.iter().zip(operand_dtypes).map(|(operand, dtype)| match *operand {
            TensorOperand::Value(id) => self.cast(id, dtype),
            TensorOperand::Bool(value) => Ok(self.number(dtype, f64::from(u8::from(value)))),
            TensorOperand::Int(value) => Ok(self.constant(dtype, convert(Scalar::I64, value as u64, dtype))),
            TensorOperand::Float(value) => Ok(self.number(dtype, value)),
            TensorOperand::Number { index, .. } => Ok(self.given_number(dtype, index)),
        });
        let operands = operands.collect::<Result<_, _>>()?;
        Ok(self.push(ty, TensorDef::Op { op, operands, attributes }))
    }

    /// Converts a value to a type, unless it is of that type.
    ///
    /// # Errors
    ///
    /// [`GraphError::UnknownValue`].
    pub fn cast(&mut self, id: TensorId, dtype: Scalar) -> Result<TensorId, GraphError> {
        let ty = self.ty(id)?;
        if ty.dtype == dtype {
            return Ok(id);
        }
        let ty = TensorType { dtype, shape: ty.shape.clone() };
        let attributes = Attributes(vec![AttributeValue::Dtype(dtype)]);
        Ok(self.push(ty, TensorDef::Op { op: TensorOp::Cast, operands: vec![id], attributes }))
    }

    /// Takes elements along each axis as Python's slices do: limits are counted from the end if they are negative, and
    /// cut off at the ends of the axis. Axes without a slice are taken whole.
    ///
    /// # Errors
    ///
    /// As [`GraphBuilder::op`]. An axis whose extent is a symbol can be taken whole alone.
    pub fn slice(&mut self, x: TensorId, slices: &[(Option<i64>, Option<i64>, i64)]) -> Result<TensorId, GraphError> {
        let op = TensorOp::Slice.name();
        let shape = self.ty(x)?.shape.clone();
        let wrong = |reason: String| GraphError::Shape { op, argument: "x".to_owned(), shape: shape.clone(), reason };
        if slices.len() > shape.rank() {
            return Err(wrong(format!("which has not {} axes", slices.len())));
        }
        let (mut starts, mut sizes, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, dim) in shape.0.iter().enumerate() {
            let slice = slices.get(axis).copied().unwrap_or((None, None, 1));
            let (start, size, step) = match (slice, dim.as_static()) {
                ((_, _, 0), _) => return Err(wrong(format!("of which axis {axis} is sliced in steps of 0"))),
                (slice, Some(extent)) => {
                    let (start, size) = python_slice(slice, extent);
                    // The step to no other element may be of any size.
                    (start, size.into(), if size > 1 { slice.2 } else { 1 })
                }
                ((None, None, 1), None) => (0, dim.clone(), 1),
                _ => return Err(wrong(format!("of which axis {axis} has no known extent to slice"))),
            };
            starts.push(start);
            sizes.push(size);
            steps.push(step);
        }
        let attributes = [("starts", starts.into()), ("sizes", Shape(sizes).into()), ("steps", steps.into())];
        self.op(TensorOp::Slice, &[x.into()], &attributes)
    }

    /// Ends the graph with its results.
    ///
    /// # Errors
    ///
    /// [`GraphError::UnknownValue`].
    pub fn finish(mut self, outputs: &[TensorId]) -> Result<Graph, GraphError> {
        for &output in outputs {
            self.ty(output)?;
        }
        self.graph.outputs = outputs.to_vec();
        Ok(self.graph)
    }

    pub(crate) fn push(&mut self, ty: TensorType, def: TensorDef) -> TensorId {
        self.graph.values.push(TensorValue { ty, def });
        TensorId(self.graph.values.len() as u32 - 1)
    }
}

/// Converts the bits of a scalar as HIR's `cast` does.
pub(crate) fn convert(from: Scalar, bits: u64, to: Scalar) -> u64 {
    // There is a conversion between any two scalar types.
    eval(Op::Cast, &[Type::Scalar(from)], &[bits], Type::Scalar(to)).unwrap_or(0)
}

/// NumPy 2 refuses a Python integer that is out of range for the type of the array beside it.
fn check_range(op: TensorOp, value: i64, dtype: Scalar) -> Result<(), GraphError> {
    let bits = dtype.bits();
    let is_within = match dtype {
        _ if dtype.is_signed_int() => bits == 64 || (value >> (bits - 1)) == (value >> 63),
        _ if dtype.is_unsigned_int() => value >= 0 && (bits == 64 || value >> bits == 0),
        _ => true,
    };
    if is_within { Ok(()) } else { Err(GraphError::ScalarRange { op: op.name(), value, dtype }) }
}

/// Returns the start and the number of elements of a slice with a step that is not 0, as CPython's `PySlice_AdjustIndices`.
fn python_slice((start, stop, step): (Option<i64>, Option<i64>, i64), extent: u64) -> (i64, u64) {
    let extent = i128::from(extent);
    let step = i128::from(step);
    let (least, most) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
    let limit = |index: i64| {
        let index = i128::from(index);
        (if index < 0 { index + extent } else { index }).clamp(least, most)
    };
    let (first, last) = if step > 0 { (least, most) } else { (most, least) };
    let start = start.map_or(first, limit);
    let stop = stop.map_or(last, limit);
    let distance = if step > 0 { stop - start } else { start - stop };
    let size = if distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
    // An empty slice may begin before its axis.
    (if size == 0 { 0 } else { start as i64 }, size as u64)
}
