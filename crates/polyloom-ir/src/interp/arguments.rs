//! Holds what an interpreted launch is given: arguments, the host it runs for, and how it is run.

use crate::op::Op;
use crate::span::Span;
use crate::types::{MAX_AXES, Scalar, Type};

/// An argument of a launch or call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterpArg {
    /// The bits of a scalar, zero-extended.
    Scalar(u64),
    /// An array.
    Array(ArrayArg),
}

/// A view of one of the [`InterpMemory`]'s buffers as an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArrayArg {
    /// Says which buffer. Arrays may share one.
    pub buffer: u32,
    /// Byte offset of element 0 in it.
    pub offset: i64,
    /// Extents; those past the array's dimensions are not looked at.
    pub extents: [i64; MAX_AXES],
    /// Byte strides.
    pub strides: [i64; MAX_AXES],
}

impl ArrayArg {
    /// A row-major array without gaps; extents past [`MAX_AXES`] are left out.
    pub(super) fn dense(buffer: u32, offset: i64, extents: &[i64], elem: Scalar) -> ArrayArg {
        let mut array = ArrayArg { buffer, offset, ..ArrayArg::default() };
        let mut stride = i64::from(elem.bytes());
        for (axis, &extent) in extents.iter().enumerate().rev().filter(|(axis, _)| *axis < MAX_AXES) {
            array.extents[axis] = extent;
            array.strides[axis] = stride;
            stride = stride.wrapping_mul(extent);
        }
        array
    }
}

/// Describes what a kernel can do to the world outside its arrays.
pub trait InterpHost {
    /// `print`: the C format, and types and bits of the operands. [`crate::format`] makes the text.
    fn print(&mut self, format: &str, types: &[Type], values: &[u64]);

    /// An op that is watched has been executed: see [`InterpOptions::watched`].
    fn observe(&mut self, _observed: &ObservedOp<'_>) {}
}

/// An op that a thread has executed.
#[derive(Clone, Copy, Debug)]
pub struct ObservedOp<'a> {
    /// The op.
    pub op: Op,
    /// The source it stands for.
    pub span: Span,
    /// The bits of its operands.
    pub operands: &'a [u64],
    /// The bits of its result.
    pub result: u64,
}

/// Describes how an interpreter differs from the definition of HIR, and what of its work it tells.
#[derive(Clone, Copy, Default)]
pub struct InterpOptions<'a> {
    /// Says how it adds to global memory.
    pub sums: GlobalSums,
    /// The scalar ops of one result of which [`InterpHost::observe`] is told whenever they are executed.
    pub watched: Option<&'a dyn Fn(Op) -> bool>,
}

/// A host that keeps the text printed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PrintingHost(pub String);

impl InterpHost for PrintingHost {
    fn print(&mut self, format: &str, types: &[Type], values: &[u64]) {
        crate::format::format_into(&mut self.0, format, types, values);
    }
}

/// Describes what `atomic_add` and `atomic_sub` make of floats in global memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum GlobalSums {
    /// Their sum, which is HIR's definition.
    #[default]
    Exact,
    /// What NVIDIA GPUs make of `f32` numbers: subnormal numbers are taken for zeros, and so is a subnormal sum (PTX ISA 9.0
    /// §9.7.13.5, `atom.add`). What the interpreter gives then is what GPUs are compared with.
    Flushed,
    /// Of `f32` and `f64` numbers the sum of the magnitudes of what is added: the rounding of sums in another order is a
    /// small part of it.
    Magnitudes,
}
