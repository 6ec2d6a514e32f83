//! Expressions over tensors, in which gradient rules read as the mathematics does.
//!
//! An op that cannot be built leaves its error here and gives its first operand, so that a rule need not ask after each step.
//! The pass asks once, at its end.

use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, TensorOperand};
use crate::decompose::build::count;
use crate::error::GraphError;
use crate::graph::{TensorDef, TensorId, TensorType};
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A graph under construction, shared by the expressions over it.
pub(super) struct TensorExprBuilder {
    graph: RefCell<GraphBuilder>,
    error: RefCell<Option<GraphError>>,
}

/// A value of a graph under construction.
#[derive(Clone, Copy)]
pub(super) struct TensorExpr<'g> {
    builder: &'g TensorExprBuilder,
    id: TensorId,
}

impl TensorExprBuilder {
    pub(super) fn new(graph: GraphBuilder) -> TensorExprBuilder {
        TensorExprBuilder { graph: RefCell::new(graph), error: RefCell::new(None) }
    }

    /// Returns the expression of a value that the graph has.
    pub(super) fn value(&self, id: TensorId) -> TensorExpr<'_> {
        TensorExpr { builder: self, id }
    }

    /// Returns a tensor whose elements are all one number.
    pub(super) fn filled(&self, ty: &TensorType, number: f64) -> TensorExpr<'_> {
        let number = self.graph.borrow_mut().number(ty.dtype, number);
        self.value(number).broadcast_to(&ty.shape)
    }

    /// Adds an input.
    pub(super) fn input(&self, name: &str, ty: &TensorType) -> Result<TensorExpr<'_>, GraphError> {
        let id = self.graph.borrow_mut().input(name, ty.dtype, ty.shape.clone())?;
        Ok(self.value(id))
    }

    /// Returns the graph, or the first error of an expression over it.
    pub(super) fn finish(self) -> Result<GraphBuilder, GraphError> {
        self.error.into_inner().map_or(Ok(self.graph.into_inner()), Err)
    }

    fn try_build(
        &self,
        otherwise: TensorId,
        build: impl FnOnce(&mut GraphBuilder) -> Result<TensorId, GraphError>,
    ) -> TensorExpr<'_> {
        let built = build(&mut self.graph.borrow_mut());
        let id = built.unwrap_or_else(|error| {
            self.error.borrow_mut().get_or_insert(error);
            otherwise
        });
        self.value(id)
    }
}

impl<'g> TensorExpr<'g> {
    pub(super) fn id(self) -> TensorId {
        self.id
    }

    pub(super) fn ty(self) -> TensorType {
        // The id comes from this graph, so that the scalar is never needed.
        let scalar = TensorType { dtype: Scalar::F32, shape: Shape::SCALAR };
        self.builder.graph.borrow().ty(self.id).cloned().unwrap_or(scalar)
    }

    pub(super) fn shape(self) -> Shape {
        self.ty().shape
    }

    pub(super) fn rank(self) -> usize {
        self.shape().rank()
    }

    /// Returns the number, if this is a constant or one converted to another type.
    pub(super) fn as_constant(self) -> Option<f64> {
        let graph = self.builder.graph.borrow();
        let mut id = self.id;
        loop {
            let value = graph.value(id)?;
            match &value.def {
                TensorDef::Constant(bits) => {
                    return Some(f64::from_bits(crate::builder::convert(value.ty.dtype, *bits, Scalar::F64)));
                }
                TensorDef::Op { op: TensorOp::Cast, operands, .. } => id = *operands.first()?,
                _ => return None,
            }
        }
    }

    /// Appends an op of one tensor.
    pub(super) fn unary(self, op: TensorOp) -> TensorExpr<'g> {
        self.apply(op, &[], &[])
    }

    /// Appends an op of two tensors.
    pub(super) fn binary(self, op: TensorOp, other: impl Into<TensorOperand>) -> TensorExpr<'g> {
        self.apply(op, &[other.into()], &[])
    }

    /// Appends an op of a number and this tensor.
    pub(super) fn after_number(self, op: TensorOp, number: f64) -> TensorExpr<'g> {
        let operands = [TensorOperand::Float(number), self.into()];
        self.builder.try_build(self.id, |graph| graph.op(op, &operands, &[]))
    }

    /// Appends an op of this tensor, others and attributes.
    pub(super) fn apply(
        self,
        op: TensorOp,
        others: &[TensorOperand],
        attributes: &[(&str, AttributeValue)],
    ) -> TensorExpr<'g> {
        let operands: Vec<TensorOperand> = std::iter::once(self.id.into()).chain(others.iter().copied()).collect();
        self.builder.try_build(self.id, |graph| graph.op(op, &operands, attributes))
    }

    /// Returns one value where this condition holds, and another elsewhere.
    pub(super) fn select(self, yes: impl Into<TensorOperand>, no: impl Into<TensorOperand>) -> TensorExpr<'g> {
        self.apply(TensorOp::Where, &[yes.into(), no.into()], &[])
    }

    pub(super) fn equals(self, other: impl Into<TensorOperand>) -> TensorExpr<'g> {
        self.binary(TensorOp::Equal, other)
    }

    pub(super) fn cast(self, dtype: Scalar) -> TensorExpr<'g> {
        self.builder.try_build(self.id, |graph| graph.cast(self.id, dtype))
    }

    pub(super) fn reshape(self, shape: &Shape) -> TensorExpr<'g> {
        if self.shape() == *shape {
            return self;
        }
        self.apply(TensorOp::Reshape, &[], &[("shape", shape.clone().into())])
    }

    pub(super) fn broadcast_to(self, shape: &Shape) -> TensorExpr<'g> {
        if self.shape() == *shape {
            return self;
        }
        self.apply(TensorOp::BroadcastTo, &[], &[("shape", shape.clone().into())])
    }

    /// Orders axes, which have the labels `own`, as `wanted`.
    pub(super) fn permute(self, own: &[usize], wanted: &[usize]) -> TensorExpr<'g> {
        if own == wanted {
            return self;
        }
        let place = |label: &usize| own.iter().position(|other| other == label).unwrap_or(0) as i64;
        let axes: Vec<i64> = wanted.iter().map(place).collect();
        self.apply(TensorOp::Permute, &[], &[("axes", axes.into())])
    }

    /// Exchanges the last two axes.
    pub(super) fn transpose(self) -> TensorExpr<'g> {
        self.unary(TensorOp::Transpose)
    }

    pub(super) fn flip(self, axes: &[i64]) -> TensorExpr<'g> {
        self.apply(TensorOp::Flip, &[], &[("axes", axes.into())])
    }

    /// Combines along axes, which stay with extent 1.
    pub(super) fn reduce(self, op: TensorOp, axes: &[i64]) -> TensorExpr<'g> {
        self.apply(op, &[], &[("axes", axes.into()), ("keepdims", true.into())])
    }

    /// Applies a scan along an axis.
    pub(super) fn scan(self, op: TensorOp, axis: i64) -> TensorExpr<'g> {
        self.apply(op, &[], &[("axis", axis.into())])
    }

    /// Takes elements along each axis in steps of 1.
    pub(super) fn slice(self, starts: Vec<i64>, sizes: Shape) -> TensorExpr<'g> {
        let steps = vec![1; starts.len()];
        let attributes = [("starts", starts.into()), ("sizes", sizes.into()), ("steps", steps.into())];
        self.apply(TensorOp::Slice, &[], &attributes)
    }

    /// Adds zeros before and after each axis.
    pub(super) fn pad(self, widths: Vec<i64>) -> TensorExpr<'g> {
        if widths.iter().all(|&width| width == 0) {
            return self;
        }
        self.apply(TensorOp::Pad, &[], &[("widths", widths.into())])
    }

    /// Returns a tensor of zeros of the same graph.
    pub(super) fn zeros(self, ty: &TensorType) -> TensorExpr<'g> {
        self.builder.filled(ty, 0.0)
    }

    /// Multiplies and sums, given the labels of the axes of both and of the result.
    pub(super) fn contract(self, other: TensorExpr<'g>, [a, b, labels]: [&[i64]; 3]) -> TensorExpr<'g> {
        let attributes = [("a_labels", a.into()), ("b_labels", b.into()), ("labels", labels.into())];
        self.apply(TensorOp::Contract, &[other.into()], &attributes)
    }

    /// Cuts the last axes into windows.
    pub(super) fn windows(self, sizes: &[i64], steps: &[i64], dilations: &[i64]) -> TensorExpr<'g> {
        let rank = self.rank() as i64;
        let axes: Vec<i64> = (rank - sizes.len() as i64..rank).collect();
        let attributes =
            [("axes", axes.into()), ("sizes", sizes.into()), ("steps", steps.into()), ("dilations", dilations.into())];
        self.apply(TensorOp::Windows, &[], &attributes)
    }

    /// Returns the number of elements along axes, as a scalar of this type.
    pub(super) fn element_count(self, axes: &[i64]) -> TensorExpr<'g> {
        self.extent(axes, self.ty().dtype)
    }

    /// Returns the number of elements along axes, as a scalar of a type.
    pub(super) fn extent(self, axes: &[i64], dtype: Scalar) -> TensorExpr<'g> {
        self.builder.try_build(self.id, |graph| count(graph, self.id, axes, dtype))
    }

    /// Returns the index of each element along an axis, of extent 1 along all others.
    pub(super) fn indices(self, axis: i64) -> TensorExpr<'g> {
        let mut dims = vec![Dim::Static(1); self.rank()];
        if let (Some(dim), Some(own)) = (dims.get_mut(axis as usize), self.shape().0.get(axis as usize)) {
            *dim = own.clone();
        }
        let attributes = [("shape", Shape(dims).into()), ("axis", axis.into())];
        self.builder.try_build(self.id, |graph| graph.op(TensorOp::Iota, &[], &attributes))
    }

    /// Brings a contribution into the shape of an operand: sums over the axes that the operand was repeated along, and repeats
    /// along those that it was not.
    pub(super) fn fit(self, shape: &Shape) -> TensorExpr<'g> {
        let own = self.shape();
        if own.broadcast(shape).as_ref() == Some(shape) {
            return self.broadcast_to(shape);
        }
        let n_new = own.rank().saturating_sub(shape.rank());
        let is_repeated = |axis: usize| match axis.checked_sub(n_new) {
            Some(axis_of_operand) => shape.0[axis_of_operand] != own.0[axis],
            None => true,
        };
        let axes: Vec<i64> = (0..own.rank()).filter(|&axis| is_repeated(axis)).map(|axis| axis as i64).collect();
        if axes.len() == n_new {
            return self.apply(TensorOp::Sum, &[], &[("axes", axes.into())]);
        }
        self.reduce(TensorOp::Sum, &axes).reshape(shape)
    }
}

impl From<TensorExpr<'_>> for TensorOperand {
    fn from(value: TensorExpr<'_>) -> TensorOperand {
        TensorOperand::Value(value.id)
    }
}

macro_rules! operators {
    ($($operator:ident::$method:ident = $op:ident;)*) => {
        $(impl<'g, Other: Into<TensorOperand>> $operator<Other> for TensorExpr<'g> {
            type Output = TensorExpr<'g>;

            fn $method(self, other: Other) -> TensorExpr<'g> {
                self.binary(TensorOp::$op, other)
            }
        })*
    };
}

operators! {
    Add::add = Add;
    Sub::sub = Subtract;
    Mul::mul = Multiply;
    Div::div = Divide;
}

impl<'g> Sub<TensorExpr<'g>> for f64 {
    type Output = TensorExpr<'g>;

    fn sub(self, other: TensorExpr<'g>) -> TensorExpr<'g> {
        other.after_number(TensorOp::Subtract, self)
    }
}

impl<'g> Neg for TensorExpr<'g> {
    type Output = TensorExpr<'g>;

    fn neg(self) -> TensorExpr<'g> {
        self.unary(TensorOp::Negative)
    }
}
