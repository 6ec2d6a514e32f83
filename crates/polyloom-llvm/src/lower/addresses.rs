//! Addresses of a group's elements: everything the lanes share goes into a scalar base address.

use super::control_frame::MergeEdge;
use super::indices::WrappedIndex;
use super::interleaved::{RowBlock, ScatteredElements};
use super::memory::{ArrayArg, GroupAddress};
use super::{FunctionLowering, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_ir::analysis::uniformity::ValueShape;
use polyloom_ir::{Op, Scalar, Value, ValueDef};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// The axis along which the lanes go from row to row.
#[derive(Clone, Copy)]
enum RowAxis {
    /// None so far: all lanes have one index.
    None,
    /// One, with this byte stride.
    Is(i64),
    /// More than one, or one along which they are not neighbours.
    Many,
}

impl FunctionLowering<'_, '_> {
    /// The address of an element, or of each lane's. `indices` are those of the array's axes.
    pub(crate) fn address(&self, array: usize, indices: &[Value], reps: &[ValueRep]) -> Result<GroupAddress> {
        let ir = self.ir;
        let arg = self.array_arg(array)?;
        let wide = ir.int(64);
        let mut pointer = arg.pointer;
        let mut step = Some(0i64);
        let mut vector_offset: Option<Val> = None;
        // Sum of the constant indices in bytes, and whether all axes so far but those are uniform or step by one.
        let (mut inner, mut row) = (0i64, RowAxis::None);
        // Number of bytes that the last other index counts in.
        let mut row_bytes = None;
        let lane_int = if arg.facts.offsets_fit_i32 { ir.int(32) } else { wide };
        let lane_type = ir.lanes(lane_int, self.lanes);
        let in_lanes_of_iterations = arg.facts.offsets_fit_i32
            && self.frames.last().is_some_and(|frame| self.runs_iterations_as_lanes(frame.inst));
        for (axis, (&index, &rep)) in indices.iter().zip(reps).enumerate() {
            let ty = self.scalar_of(index)?;
            let stride = arg.strides[axis];
            let known = arg.known_strides[axis];
            let (index, rep) = match known {
                Some(bytes) => {
                    let (index, rep, constant) = self.without_constant(index, rep)?;
                    inner += bytes * constant;
                    (index, rep)
                }
                None => (index, rep),
            };
            if let (Some(bytes), Some(index)) = (known, self.small_constant(index)) {
                inner += bytes * index;
                continue;
            }
            row_bytes = known;
            row = match (rep, row, known) {
                (ValueRep::Affine { stride: 1, .. }, RowAxis::None, Some(bytes)) => RowAxis::Is(bytes),
                (ValueRep::Uniform(_), RowAxis::None, _) => RowAxis::None,
                _ => RowAxis::Many,
            };
            let first = match rep {
                ValueRep::Uniform(value) => Some(self.widen_index(value, ty)),
                ValueRep::Affine { base, stride } if known.is_some() => self.first_index(index, base, stride, ty),
                _ => None,
            };
            if let Some(index) = first {
                let offset = match rep {
                    // Gathers take offsets of 32 bits, and LLVM does not see that these would do.
                    ValueRep::Uniform(value) if in_lanes_of_iterations && ty == Scalar::I32 => {
                        let offset = ir.mul(value, ir.int_cast(stride, ir.int(32)));
                        ir.sext_to_64(ir.no_signed_wrap(offset))
                    }
                    _ => ir.mul(index, stride),
                };
                pointer = ir.offset(ir.int(8), pointer, offset);
                if let (ValueRep::Affine { stride: lanes_apart, .. }, Some(bytes)) = (rep, known) {
                    step = step.and_then(|step| lanes_apart.checked_mul(bytes)?.checked_add(step));
                }
                continue;
            }
            let vector = self.vector(rep)?;
            let index = match ty.bits().cmp(&lane_width(arg)) {
                Ordering::Less if ty.is_signed_int() => ir.sext(vector, lane_type),
                Ordering::Less => ir.zext(vector, lane_type),
                Ordering::Equal => vector,
                Ordering::Greater => ir.trunc(vector, lane_type),
            };
            let stride = ir.splat(ir.int_cast(stride, lane_int), self.lanes);
            let offset = ir.mul(index, stride);
            vector_offset = Some(vector_offset.map_or(offset, |sum| ir.add(sum, offset)));
        }
        let bytes = i64::from(arg.elem.bytes());
        if let (None, RowAxis::Is(row_bytes)) = (vector_offset, row)
            && step == Some(row_bytes)
            && let Some((length, place)) = self.place_of(arg.elem, row_bytes, inner)
        {
            return Ok(GroupAddress::Interleaved(RowBlock { first: pointer, length, place }));
        }
        let is_near = vector_offset.is_none() && [0, bytes, -bytes].map(Some).contains(&step);
        let block = row_bytes.filter(|_| !is_near).and_then(|row_bytes| self.block_of(arg.elem, row_bytes, inner));
        if block.is_none() && inner != 0 {
            pointer = ir.offset(ir.int(8), pointer, ir.i64_const(inner));
        }
        Ok(match (vector_offset, step) {
            (None, Some(0)) => GroupAddress::One(pointer),
            (None, Some(step)) if step == bytes => GroupAddress::Row(pointer),
            (None, Some(step)) if step == -bytes => GroupAddress::ReverseRow(pointer),
            (vector_offset, step) => {
                let steps = ir.iota(lane_int, self.lanes, step.unwrap_or(0));
                let offset = vector_offset.map_or(steps, |offset| ir.add(offset, steps));
                if let Some((block, _)) = block {
                    pointer = ir.offset(ir.int(8), pointer, ir.i64_const(block));
                }
                let first = ir.offset(ir.int(8), pointer, offset);
                GroupAddress::Scattered(ScatteredElements { first, place_in_block: block.map(|(_, place)| place) })
            }
        })
    }

    /// The value of an index that is a constant, and none that counts from the end.
    pub(super) fn small_constant(&self, index: Value) -> Option<i64> {
        let bits = self.func.as_const(index)?;
        i64::try_from(bits).ok().filter(|&index| index <= i64::from(i16::MAX))
    }

    /// Takes the constant out of an index that is a sum. On GPUs, addresses then differ by constants, which instructions add.
    /// Sums of indices that count from the start do not wrap, because wrapped they would be negative.
    fn without_constant(&self, index: Value, rep: ValueRep) -> Result<(Value, ValueRep, i64)> {
        let (mut index, mut rep, mut constant) = (index, rep, 0);
        if !self.arith.processor.is_gpu || !self.func.metadata.indices_from_start {
            return Ok((index, rep, 0));
        }
        while let ValueDef::Result(inst, _) = self.func.values[index].def {
            let data = &self.func.insts[inst];
            let (Op::Add, &[a, b]) = (data.op, &data.operands[..]) else { break };
            let (rest, added) = match (self.small_constant(a), self.small_constant(b)) {
                (_, Some(added)) => (a, added),
                (Some(added), None) => (b, added),
                (None, None) => break,
            };
            (index, rep, constant) = (rest, self.rep(rest)?, constant + added);
        }
        Ok((index, rep, constant))
    }

    fn widen_index(&self, index: Val, ty: Scalar) -> Val {
        if ty.is_signed_int() { self.widen(index) } else { self.ir.int_cast(index, self.ir.int(64)) }
    }

    /// The 64-bit index of lane 0 from which an affine index grows by its stride to what it is in each lane that
    /// executes and so has a valid index. `None` if there may be no such number, as where the index wraps between
    /// lanes.
    fn first_index(&self, index: Value, base: Val, stride: i64, ty: Scalar) -> Option<Val> {
        let is_exact = matches!(self.shape(index), ValueShape::Affine { exact: true, .. });
        if is_exact || ty.bits() == 64 {
            return Some(self.widen_index(base, ty));
        }
        if !ty.is_signed_int() || !self.spans_less_than_half(stride, ty) {
            return None;
        }
        // Two valid indices that are less than half the type's range apart are so as integers. Lane 0 need not execute:
        // what precedes a valid index by that much may be negative, but what follows it may not fit the type, so that a
        // falling index is counted back from the last lane.
        let ir = self.ir;
        let distance = i64::from(self.lanes - 1) * stride;
        if distance >= 0 {
            return Some(self.widen(base));
        }
        let last = ir.add(base, ir.int_const(ir.type_of(base), distance as u64));
        Some(ir.add(self.widen(last), ir.i64_const(-distance)))
    }

    /// Returns true if the lanes of an affine value are less than half the range of its type apart.
    fn spans_less_than_half(&self, stride: i64, ty: Scalar) -> bool {
        let distance = i128::from(self.lanes - 1) * i128::from(stride);
        distance.unsigned_abs() < 1 << (ty.bits() - 1)
    }

    /// Returns the `i` of an index `where(i < 0, i + dim, i)` if `i` is affine and the choice is not. Mostly no lane of a
    /// group takes the negative side.
    fn unwrapped(&self, index: Value) -> Option<ValueRep> {
        if !matches!(self.values[index], Some(ValueRep::Vector(_))) {
            return None;
        }
        let WrappedIndex { plain, .. } = WrappedIndex::of(self.func, index)?;
        self.values[plain].filter(|rep| matches!(rep, ValueRep::Affine { .. }))
    }

    /// Emits an access for the way its indices mostly are and, if that takes a test, for the other way too. `plain`
    /// gives the values to widen by where an index was unwrapped.
    pub(super) fn with_unwrapped(
        &mut self,
        indices: &[Value],
        mut access: impl FnMut(&mut Self, &[ValueRep], &[Value]) -> Result<Reps>,
    ) -> Result<Reps> {
        let reps = self.reps(indices)?;
        let mut plain: SmallVec<[Value; 4]> = SmallVec::from_slice(indices);
        let mut fast: Reps = reps.clone();
        let mut signs: Option<Val> = None;
        for (axis, &index) in indices.iter().enumerate() {
            let Some(ValueRep::Affine { base, stride }) = self.unwrapped(index) else { continue };
            if !self.spans_less_than_half(stride, self.scalar_of(index)?) {
                continue;
            }
            let ir = self.ir;
            // Non-negative at both ends of the group, which are less than half the range apart, so that it is in all of
            // it.
            let ty = ir.type_of(base);
            let distance = i64::from(self.lanes - 1).wrapping_mul(stride);
            let last = ir.add(base, ir.int_const(ty, distance as u64));
            let ends = ir.sext_to_64(ir.or(base, last));
            signs = Some(signs.map_or(ends, |signs| ir.or(signs, ends)));
            fast[axis] = ValueRep::Affine { base, stride };
            if let ValueDef::Result(select, _) = self.func.values[index].def {
                plain[axis] = self.func.insts[select].operands[2];
            }
        }
        let Some(signs) = signs else { return access(self, &reps, indices) };
        let usual = self.ir.icmp(SGE, signs, self.ir.i64_const(0));
        let (near, wrapping) = (self.ir.block(c"near"), self.ir.block(c"wrapping"));
        self.ir.cond_br_unlikely(self.ir.not(usual), wrapping, near);
        let exec = self.exec;
        let mut edges = Vec::new();
        for (block, reps, values) in [(near, &fast, &plain[..]), (wrapping, &reps, indices)] {
            self.ir.switch_to(block);
            let result = access(self, reps, values)?;
            edges.push(MergeEdge { block: self.ir.current(), values: result, exec });
        }
        Ok(self.join(edges)?.unwrap_or_default())
    }
}

/// Bits of the integers that hold a lane's byte offset.
pub(super) fn lane_width(arg: &ArrayArg) -> u32 {
    if arg.facts.offsets_fit_i32 { 32 } else { 64 }
}
