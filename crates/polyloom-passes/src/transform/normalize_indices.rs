//! `normalize_indices`: the wrap of negative indices becomes code.
//!
//! In HIR an index below zero counts from the end of its axis. After this pass no index is negative and back ends do
//! not wrap: where [`crate::analysis::range`] cannot tell that an index is not negative, it is replaced by
//!
//! ```text
//! %n: i32 = dim 0 %array
//! %zero: i32 = const 0
//! %negative: bool = lt %i, %zero
//! %from_end: i32 = add %i, %n
//! %w: i32 = where %negative, %from_end, %i
//! ```
//!
//! exactly so: back ends that vectorise look for this form. `i64` indices do the same in `i64`; narrower signed ones
//! are converted to `i32` first; unsigned ones are never negative.

use crate::analysis::range::{Index, accessed, possibly_negative_indices};
use polyloom_ir::{Builder, Function, Op, Region, Scalar, Span, Type, Value};

/// Makes the wrap of indices that may be negative explicit. Gives whether there are any.
pub fn normalize_indices(func: &mut Function) -> bool {
    wrap_indices(func, &mut |func, WrapPlace { region, array, axis, index, span }| {
        wrap(func, region, array, axis, index, span)
    })
}

/// An index that may be negative: of which axis of which array, and where its wrap goes.
pub(crate) struct WrapPlace {
    pub(crate) region: Region,
    pub(crate) array: Value,
    pub(crate) axis: u8,
    pub(crate) index: Value,
    pub(crate) span: Span,
}

/// Appends to a region the wrap of an index and gives the index that is not negative.
type Wrap<'w> = &'w mut dyn FnMut(&mut Function, WrapPlace) -> Value;

/// Replaces indices that may be negative. Gives whether there are any.
pub(crate) fn wrap_indices(func: &mut Function, wrap: Wrap<'_>) -> bool {
    let wraps = possibly_negative_indices(func);
    if !wraps.is_empty() {
        insert_region(func, func.body, &wraps, &mut 0, wrap);
    }
    !wraps.is_empty()
}

/// Inserts the wraps from `next` on, which stand in the order of the walk.
fn insert_region(func: &mut Function, region: Region, wraps: &[Index], next: &mut usize, wrap: Wrap<'_>) {
    let capacity = func.regions[region].insts.len() + 8;
    let insts = std::mem::replace(&mut func.regions[region].insts, Vec::with_capacity(capacity));
    for inst in insts {
        for element in accessed(func, inst) {
            for axis in 0..element.n_indices {
                let operand = element.first + axis;
                if wraps.get(*next) != Some(&(inst, operand)) {
                    continue;
                }
                *next += 1;
                let data = &func.insts[inst];
                let (index, span) = (data.operands[operand as usize], data.span);
                let wrapped = wrap(func, WrapPlace { region, array: element.array, axis, index, span });
                func.insts[inst].operands[operand as usize] = wrapped;
            }
        }
        func.regions[region].insts.push(inst);
        for inner in 0..func.insts[inst].regions.len() {
            insert_region(func, func.insts[inst].regions[inner], wraps, next, wrap);
        }
    }
}

/// Appends the wrap of `index` to `region` and gives the index that is not negative.
pub(crate) fn wrap(func: &mut Function, region: Region, array: Value, axis: u8, index: Value, span: Span) -> Value {
    let mut builder = Builder::new(func);
    builder.switch_to(region);
    builder.set_span(span);
    let ty = match builder.func.ty(index) {
        Type::Scalar(Scalar::I64) => Scalar::I64,
        _ => Scalar::I32,
    };
    let index = builder.cast(index, ty);
    let extent = extent(&mut builder, array, axis);
    let extent = builder.cast(extent, ty);
    let zero = builder.const_int(ty, 0);
    let negative = one(&mut builder, Op::Lt, &[index, zero], Type::BOOL);
    let from_end = one(&mut builder, Op::Add, &[index, extent], ty.into());
    one(&mut builder, Op::Select, &[negative, from_end, index], ty.into())
}

/// The extent of an array along an axis of its own or, behind these, of the components of its elements.
pub(crate) fn extent(builder: &mut Builder<'_>, array: Value, axis: u8) -> Value {
    match builder.func.ty(array).as_any_array() {
        Some((Type::Composite(elem), ndim)) if axis >= ndim => {
            builder.const_int(Scalar::I32, elem.shape()[usize::from(axis - ndim)].into())
        }
        _ => builder.dim(array, axis),
    }
}

/// Appends an instruction with one result of known type.
pub(crate) fn one(builder: &mut Builder<'_>, op: Op, operands: &[Value], ty: Type) -> Value {
    let inst = builder.inst(op, operands, &[ty], polyloom_ir::Imm::None);
    builder.func.insts[inst].results[0]
}
