//! Sorts as sorts of unsigned keys, which have the order of what they stand for.
//!
//! Keys of equal elements are equal in all bits, and indices that stand beside them tell them apart, so that any way of sorting
//! gives the same result.

use super::build::{Built, binary, count, reduce, reshape, unary};
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
    let descending = attributes[1].flag();
    let keys = keys_of(b, x[0], descending)?;
    let sorted = sort_keys(b, keys, &attributes[0])?;
    number_of(b, sorted, dtype, descending)
}

pub(crate) fn argsort(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axis = &attributes[0];
    let keys = keys_of(b, x[0], attributes[1].flag())?;
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
    let (k, axis) = (attributes[0].int() as u64, attributes[1].int());
    if let Some(split) = TopkSplit::choose(b, x[0], k, axis as usize)? {
        return split.indices(b, x[0], &attributes[2]);
    }
    if k > 0 && key_dtypes(b.ty(x[0])?.dtype)[2] == Scalar::U32 {
        // Of sorted keys the first ones are read alone, so that no others need be sorted.
        let place = index_along(b, x[0], axis as usize)?;
        let keys = indexed_keys(b, x[0], place, attributes[2].flag())?;
        let sorted = sort_keys(b, keys, &axis.into())?;
        let first = slice_along(b, sorted, axis as usize, 0, k)?;
        let place = place_of(b, first)?;
        return unary(b, TensorOp::Contiguous, place);
    }
    let order = [("axis", axis.into()), ("descending", attributes[2].clone())];
    let index = b.op(TensorOp::Argsort, &[x[0].into()], &order)?;
    let first = slice_along(b, index, axis as usize, 0, k)?;
    unary(b, TensorOp::Contiguous, first)
}

/// The least number of elements of an axis, and how many times as many as are chosen, from which on some are left out of the sort.
const MIN_SPLIT: u64 = 1024;
const MIN_RATIO: u64 = 64;

/// A choice of the first `k` keys without a sort of all: none of them is in a column whose least key is not among the `k` least of
/// columns, because in each of those there is a key before it. So the columns' least keys are sorted, and then what is in `k` columns.
/// Column `j` has the elements `j`, `j + n_columns`, and so on, so that neighbours belong to different ones.
struct TopkSplit {
    axis: usize,
    k: u64,
    n: u64,
    n_rows: u64,
    n_columns: u64,
}

impl TopkSplit {
    /// Chooses how elements are dealt out, so that as many keys are sorted the first time as the second; `None` if all are better sorted.
    fn choose(
        b: &GraphBuilder,
        x: TensorId,
        k: u64,
        axis: usize,
    ) -> Result<Option<TopkSplit>, crate::error::GraphError> {
        let ty = b.ty(x)?;
        let Some(n) = ty.shape.0[axis].as_static() else { return Ok(None) };
        let has_index = key_dtypes(ty.dtype)[2] == Scalar::U32;
        if !has_index || k == 0 || n < MIN_SPLIT.max(k.saturating_mul(MIN_RATIO)) || n > INDEX_MASK as u64 {
            return Ok(None);
        }
        let n_rows = 1 << ((n / k).ilog2() / 2);
        Ok(Some(TopkSplit { axis, k, n, n_rows, n_columns: n / n_rows }))
    }

    fn indices(&self, b: &mut GraphBuilder, x: TensorId, descending: &AttributeValue) -> Built {
        let TopkSplit { axis, k, n, n_rows, n_columns } = *self;
        let (descending, along) = (descending.flag(), AttributeValue::Int(axis as i64));
        let n_whole = n_rows * n_columns;
        let whole = slice_along(b, x, axis, 0, n_whole)?;
        let place = index_along(b, whole, axis)?;
        let keys = indexed_keys(b, whole, place, descending)?;
        let mut dims = b.ty(keys)?.shape.0.clone();
        dims.splice(axis..=axis, [Dim::Static(n_rows), Dim::Static(n_columns)]);
        let columns = reshape(b, keys, Shape(dims))?;
        let least = reduce(b, TensorOp::Min, columns, &[axis as i64], false)?;
        let sorted = sort_keys(b, least, &along)?;
        let chosen = slice_along(b, sorted, axis, 0, k)?;
        let place = place_of(b, chosen)?;
        // The number of columns is a parameter of kernels, as all numbers of elements.
        let n_columns = count(b, least, &[axis as i64], Scalar::I64)?;
        let column = binary(b, TensorOp::Remainder, place, n_columns)?;

        let mut dims = b.ty(column)?.shape.0.clone();
        dims.insert(axis + 1, Dim::Static(1));
        let column = reshape(b, column, Shape(dims.clone()))?;
        let mut row_dims = vec![Dim::Static(1); dims.len()];
        row_dims[axis + 1] = Dim::Static(n_rows);
        let attributes = [("shape", Shape(row_dims).into()), ("axis", (axis as i64 + 1).into())];
        let row = b.op(TensorOp::Iota, &[], &attributes)?;
        let before = binary(b, TensorOp::Multiply, row, n_columns)?;
        let places = binary(b, TensorOp::Add, column, before)?;
        dims.remove(axis + 1);
        dims[axis] = Dim::Static(k * n_rows);
        let places = reshape(b, places, Shape(dims))?;
        let near = gather(b, x, places, &along)?;
        let mut candidates = indexed_keys(b, near, places, descending)?;
        if n > n_whole {
            let rest = slice_along(b, x, axis, n_whole, n - n_whole)?;
            let place = index_along(b, rest, axis)?;
            let place = binary(b, TensorOp::Add, place, n_whole as i64)?;
            let keys = indexed_keys(b, rest, place, descending)?;
            candidates = b.op(TensorOp::Concat, &[candidates.into(), keys.into()], &[("axis", along.clone())])?;
        }
        let sorted = sort_keys(b, candidates, &along)?;
        let first = slice_along(b, sorted, axis, 0, k)?;
        let place = place_of(b, first)?;
        unary(b, TensorOp::Contiguous, place)
    }
}

/// Takes neighbouring elements along an axis.
fn slice_along(b: &mut GraphBuilder, x: TensorId, axis: usize, start: u64, size: u64) -> Built {
    let mut sizes = b.ty(x)?.shape.clone();
    let mut starts = vec![0; sizes.rank()];
    starts[axis] = start as i64;
    sizes.0[axis] = Dim::Static(size);
    let steps = vec![1; starts.len()];
    let attributes = [("starts", starts.into()), ("sizes", sizes.into()), ("steps", steps.into())];
    b.op(TensorOp::Slice, &[x.into()], &attributes)
}

/// Returns the index of each element along an axis, of extent 1 along all others.
fn index_along(b: &mut GraphBuilder, x: TensorId, axis: usize) -> Built {
    let mut dims = vec![Dim::Static(1); b.ty(x)?.shape.rank()];
    dims[axis] = b.ty(x)?.shape.0[axis].clone();
    let attributes = [("shape", Shape(dims).into()), ("axis", (axis as i64).into())];
    b.op(TensorOp::Iota, &[], &attributes)
}

/// Returns keys of 64 bits, with places in their lower halves.
fn indexed_keys(b: &mut GraphBuilder, x: TensorId, place: TensorId, descending: bool) -> Built {
    let keys = keys_of(b, x, descending)?;
    let wide = b.cast(keys, Scalar::U64)?;
    let shifted = binary(b, TensorOp::LeftShift, wide, INDEX_BITS)?;
    let place = b.cast(place, Scalar::U64)?;
    binary(b, TensorOp::BitwiseOr, shifted, place)
}

/// Returns the places in the lower halves of keys.
fn place_of(b: &mut GraphBuilder, keys: TensorId) -> Built {
    let place = binary(b, TensorOp::BitwiseAnd, keys, INDEX_MASK)?;
    b.cast(place, Scalar::I64)
}

fn sort_keys(b: &mut GraphBuilder, keys: TensorId, axis: &AttributeValue) -> Built {
    b.op(TensorOp::SortKeys, &[keys.into()], &[("axis", axis.clone())])
}

fn gather(b: &mut GraphBuilder, x: TensorId, index: TensorId, axis: &AttributeValue) -> Built {
    b.op(TensorOp::Gather, &[x.into(), index.into()], &[("axis", axis.clone())])
}

/// Returns the indices that sort keys of 32 bits, in numbers of 32 or 64; of equal ones the lower index comes first.
fn sorting_index(b: &mut GraphBuilder, keys: TensorId, axis: &AttributeValue) -> Built {
    let axis_idx = axis.int() as usize;
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
