//! Sorts as sorts of unsigned keys, which have the order of what they stand for.
//!
//! Keys of equal elements are equal in all bits, and indices that stand beside them tell them apart, so that any way of sorting
//! gives the same result.

use super::build::{Built, binary, flag, int, unary};
use crate::attribute::AttributeValue;
use crate::builder::GraphBuilder;
use crate::graph::TensorId;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;

/// The bits of an index beside a key.
const INDEX_BITS: i64 = 32;
const INDEX_MASK: i64 = (1 << INDEX_BITS) - 1;

pub(crate) fn sort(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let dtype = b.ty(x[0])?.dtype;
    let descending = flag(&attributes[1]);
    let keys = keys_of(b, x[0], descending)?;
    let sorted = sort_keys(b, keys, &attributes[0])?;
    number_of(b, sorted, dtype, descending)
}

pub(crate) fn argsort(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axis = &attributes[0];
    let keys = keys_of(b, x[0], flag(&attributes[1]))?;
    if b.ty(keys)?.dtype == Scalar::U32 {
        return sorting_index(b, keys, axis);
    }
    // The lower halves first; the upper ones, with the places that this gives, keep the order of equal ones.
    let lower = binary(b, TensorOp::BitwiseAnd, keys, INDEX_MASK)?;
    let first = sorting_index(b, lower, axis)?;
    let upper = binary(b, TensorOp::RightShift, keys, INDEX_BITS)?;
    let upper = gather(b, upper, first, axis)?;
    let second = sorting_index(b, upper, axis)?;
    gather(b, first, second, axis)
}

pub(crate) fn topk_indices(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let (k, axis) = (int(&attributes[0]) as u64, int(&attributes[1]));
    let shape = b.ty(x[0])?.shape.clone();
    let order = [("axis", axis.into()), ("descending", attributes[2].clone())];
    let index = b.op(TensorOp::Argsort, &[x[0].into()], &order)?;
    let mut sizes = shape.clone();
    sizes.0[axis as usize] = Dim::Static(k);
    let attributes =
        [("starts", vec![0; shape.rank()].into()), ("sizes", sizes.into()), ("steps", vec![1; shape.rank()].into())];
    let first = b.op(TensorOp::Slice, &[index.into()], &attributes)?;
    unary(b, TensorOp::Contiguous, first)
}

fn sort_keys(b: &mut GraphBuilder, keys: TensorId, axis: &AttributeValue) -> Built {
    b.op(TensorOp::SortKeys, &[keys.into()], &[("axis", axis.clone())])
}

fn gather(b: &mut GraphBuilder, x: TensorId, index: TensorId, axis: &AttributeValue) -> Built {
    b.op(TensorOp::Gather, &[x.into(), index.into()], &[("axis", axis.clone())])
}

/// Returns the indices that sort keys of 32 bits, in numbers of 32 or 64; of equal ones the lower index comes first.
fn sorting_index(b: &mut GraphBuilder, keys: TensorId, axis: &AttributeValue) -> Built {
    let axis_idx = int(axis) as usize;
    let mut shape = vec![Dim::Static(1); b.ty(keys)?.shape.rank()];
    shape[axis_idx] = b.ty(keys)?.shape.0[axis_idx].clone();
    let attributes = [("shape", Shape(shape).into()), ("axis", axis.clone()), ("dtype", Scalar::U64.into())];
    let index = b.op(TensorOp::Iota, &[], &attributes)?;
    let wide = b.cast(keys, Scalar::U64)?;
    let shifted = binary(b, TensorOp::LeftShift, wide, INDEX_BITS)?;
    let both = binary(b, TensorOp::BitwiseOr, shifted, index)?;
    let sorted = sort_keys(b, both, axis)?;
    let index = binary(b, TensorOp::BitwiseAnd, sorted, INDEX_MASK)?;
    b.cast(index, Scalar::I64)
}

fn bitcast(b: &mut GraphBuilder, x: TensorId, dtype: Scalar) -> Built {
    b.op(TensorOp::Bitcast, &[x.into()], &[("dtype", dtype.into())])
}

/// The types that a number goes through on its way to a key: one of 32 or 64 bits that has all its values, and those of a
/// signed integer and of a key as wide.
fn key_dtypes(dtype: Scalar) -> [Scalar; 3] {
    let wide = match dtype {
        Scalar::F64 | Scalar::I64 | Scalar::U64 => dtype,
        _ if dtype.is_float() => Scalar::F32,
        _ if dtype.is_signed_int() => Scalar::I32,
        _ => Scalar::U32,
    };
    if wide.bits() == 64 { [wide, Scalar::I64, Scalar::U64] } else { [wide, Scalar::I32, Scalar::U32] }
}

/// Returns the least number of a signed type, whose only bit is the sign.
fn sign_bit(signed: Scalar) -> i64 {
    i64::MIN >> (64 - signed.bits())
}

/// Returns unsigned numbers in the order of the elements: an integer with its sign exchanged, and a float by its bits, all of
/// which are exchanged if it is below 0.
fn keys_of(b: &mut GraphBuilder, x: TensorId, descending: bool) -> Built {
    let [wide, signed, key] = key_dtypes(b.ty(x)?.dtype);
    let x = b.cast(x, wide)?;
    let keys = if wide.is_unsigned_int() {
        x
    } else {
        let bits = if wide.is_float() { bitcast(b, x, signed)? } else { x };
        let exchanged = if wide.is_float() {
            let is_below = binary(b, TensorOp::RightShift, bits, i64::from(signed.bits()) - 1)?;
            let mask = binary(b, TensorOp::BitwiseOr, is_below, sign_bit(signed))?;
            binary(b, TensorOp::BitwiseXor, bits, mask)?
        } else {
            binary(b, TensorOp::BitwiseXor, bits, sign_bit(signed))?
        };
        bitcast(b, exchanged, key)?
    };
    if descending { unary(b, TensorOp::Invert, keys) } else { Ok(keys) }
}

/// Returns the elements that keys stand for: the inverse of [`keys_of`].
fn number_of(b: &mut GraphBuilder, keys: TensorId, dtype: Scalar, descending: bool) -> Built {
    let [wide, signed, _] = key_dtypes(dtype);
    let keys = if descending { unary(b, TensorOp::Invert, keys)? } else { keys };
    if wide.is_unsigned_int() {
        return b.cast(keys, dtype);
    }
    let bits = bitcast(b, keys, signed)?;
    if !wide.is_float() {
        let number = binary(b, TensorOp::BitwiseXor, bits, sign_bit(signed))?;
        return b.cast(number, dtype);
    }
    // The bit of the sign is that of numbers above 0.
    let is_above = binary(b, TensorOp::RightShift, bits, i64::from(signed.bits()) - 1)?;
    let is_below = unary(b, TensorOp::Invert, is_above)?;
    let mask = binary(b, TensorOp::BitwiseOr, is_below, sign_bit(signed))?;
    let bits = binary(b, TensorOp::BitwiseXor, bits, mask)?;
    let number = bitcast(b, bits, wide)?;
    b.cast(number, dtype)
}
