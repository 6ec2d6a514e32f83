//! Array elements: extents, loads and stores.
//!
//! How a group's elements lie in memory decides the instruction: one scalar access if all lanes mean the same element,
//! one vector access if they are neighbours, vector accesses and shuffles if they are one component of vectors or
//! matrices that follow each other or are loaded from anywhere (see [`super::interleaved`]), else a gather or scatter.
//! Everything the lanes share goes into a scalar base address.

use super::control_frame::MergeEdge;
use super::indices::WrappedIndex;
use super::interleaved::{RowBlock, ScatteredElements};
use super::private_copies::PrivateCopies;
use super::{FunctionLowering, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::{ArrayFacts, CodegenError};
use polyloom_ir::analysis::uniformity::ValueShape;
use polyloom_ir::{Inst, Scalar, Value, ValueDef};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// An array parameter, its descriptor loaded.
#[derive(Clone)]
pub(crate) struct ArrayArg {
    pub(crate) elem: Scalar,
    pub(crate) pointer: Val,
    /// Extents, `i64`.
    pub(crate) extents: SmallVec<[Val; 4]>,
    /// Byte strides, `i64`; constants where facts say so.
    pub(crate) strides: SmallVec<[Val; 4]>,
    /// The byte strides that facts say: those of a dense array with known extents behind the axis.
    pub(crate) known_strides: SmallVec<[Option<i64>; 4]>,
    pub(crate) facts: ArrayFacts,
    /// The copies that stand for it, which no other thread of the processor sees.
    pub(crate) copies: Option<PrivateCopies>,
    /// Its alias scope, and the scopes of the arrays it shares no memory with.
    pub(crate) scope: MetadataNode,
    pub(crate) no_alias: Option<MetadataNode>,
}

/// Says where a group's elements are.
pub(crate) enum GroupAddress {
    /// All lanes mean this element.
    One(Val),
    /// The first lane's element; the other lanes' follow it in memory.
    Row(Val),
    /// As `Row`, but the other lanes' elements go before it.
    ReverseRow(Val),
    /// One element of each of some neighbouring rows of a few elements each.
    Interleaved(RowBlock),
    /// Anywhere.
    Scattered(ScatteredElements),
}

impl GroupAddress {
    /// The address of each lane's element.
    pub(super) fn elements(&self, ir: &IrEmitter<'_>, elem: Ty, lanes: u32) -> Val {
        let numbers = |step| ir.iota(ir.int(64), lanes, step);
        match self {
            GroupAddress::One(pointer) => ir.splat(*pointer, lanes),
            GroupAddress::Row(pointer) => ir.offset(elem, *pointer, numbers(1)),
            GroupAddress::ReverseRow(pointer) => ir.offset(elem, *pointer, numbers(-1)),
            GroupAddress::Interleaved(block) => block.element(ir, elem, numbers(1)),
            GroupAddress::Scattered(scattered) => scattered.elements(ir, elem),
        }
    }
}

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
    pub(crate) fn array(&self, value: Value) -> Result<usize> {
        match self.rep(value)? {
            ValueRep::Array(index) => Ok(index),
            _ => Err(CodegenError::new("internal error: a scalar where an array is needed")),
        }
    }

    pub(crate) fn array_arg(&self, index: usize) -> Result<&ArrayArg> {
        let found = match index.checked_sub(self.arrays.len()) {
            None => self.arrays[index].as_ref(),
            Some(own) => self.own_arrays.get(own),
        };
        found.ok_or_else(|| CodegenError::new("internal error: no such array"))
    }

    /// Adds an array that is no parameter.
    pub(crate) fn add_array(&mut self, array: ArrayArg) -> ValueRep {
        self.own_arrays.push(array);
        ValueRep::Array(self.arrays.len() + self.own_arrays.len() - 1)
    }

    pub(crate) fn dim(&self, array: Value, axis: u8) -> Result<ValueRep> {
        let arg = self.array_arg(self.array(array)?)?;
        let extent = arg.extents.get(axis as usize).ok_or_else(|| CodegenError::new("internal error: no such axis"))?;
        Ok(ValueRep::Uniform(self.ir.int_cast(*extent, self.ir.int(32))))
    }

    /// Returns how a scalar lies in memory: `bool` takes a byte.
    pub(crate) fn memory_type(&self, elem: Scalar) -> Ty {
        if elem == Scalar::Bool { self.ir.int(8) } else { self.ir.scalar(elem) }
    }

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

    /// Says which arrays an access has nothing to do with.
    pub(crate) fn tag(&self, access: Val, array: usize) -> Result<()> {
        let arg = self.array_arg(array)?;
        self.ir.attach(access, "alias.scope", arg.scope);
        if let Some(no_alias) = arg.no_alias {
            self.ir.attach(access, "noalias", no_alias);
        }
        Ok(())
    }

    /// Indices that were made non-negative by `where(i < 0, i + dim, i)`, because their `i`, where it is affine and the
    /// choice is not. Mostly no lane of a group takes the negative side.
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

    pub(crate) fn array_load(&mut self, inst: Inst) -> Result<ValueRep> {
        let func = self.func;
        let data = &func.insts[inst];
        let array = self.array(data.operands[0])?;
        let loaded = self.with_unwrapped(&data.operands[1..], |this, reps, values| {
            let address = this.address(array, values, reps)?;
            Ok(Reps::from_slice(&[this.load_from(array, address)?]))
        })?;
        loaded.first().copied().ok_or_else(|| CodegenError::new("internal error: a load without a value"))
    }

    pub(super) fn load_from(&mut self, array: usize, address: GroupAddress) -> Result<ValueRep> {
        let ir = self.ir;
        let elem = self.array_arg(array)?.elem;
        let in_memory = self.memory_type(elem);
        let lanes = ir.lanes(in_memory, self.lanes);
        let (value, uniform) = match address {
            GroupAddress::One(pointer) => {
                let value = ir.load(in_memory, pointer, elem.bytes());
                self.tag(value, array)?;
                (value, true)
            }
            GroupAddress::Row(pointer) => {
                let mask = self.mask();
                (self.load_neighbours(array, pointer, mask, self.lanes)?, false)
            }
            GroupAddress::ReverseRow(first) => {
                let mask = self.mask().map(|mask| ir.reverse(mask));
                let last = ir.offset(in_memory, first, ir.i64_const(1 - i64::from(self.lanes)));
                (ir.reverse(self.load_neighbours(array, last, mask, self.lanes)?), false)
            }
            GroupAddress::Interleaved(rows) => (self.load_interleaved(array, rows)?, false),
            GroupAddress::Scattered(ScatteredElements { first, place_in_block: Some(place) }) => {
                (self.load_blocks(array, first, place)?, false)
            }
            GroupAddress::Scattered(ScatteredElements { first: pointers, place_in_block: None }) => {
                let mask = self.full_mask();
                let types = [lanes, ir.type_of(pointers)];
                let value = ir.intrinsic("llvm.masked.gather", &types, &[pointers, mask, ir.zero(lanes)]);
                ir.set_argument_align(value, 0, elem.bytes());
                self.tag(value, array)?;
                (value, false)
            }
        };
        let value = match elem {
            Scalar::Bool => ir.icmp(NE, value, ir.zero(ir.type_of(value))),
            _ => value,
        };
        Ok(if uniform { ValueRep::Uniform(value) } else { ValueRep::Vector(value) })
    }

    /// Loads `n` elements that follow each other.
    pub(super) fn load_neighbours(&self, array: usize, pointer: Val, mask: Option<Val>, n: u32) -> Result<Val> {
        let ir = self.ir;
        let elem = self.array_arg(array)?.elem;
        let in_memory = self.memory_type(elem);
        let lanes = ir.lanes(in_memory, n);
        let Some(mask) = mask else {
            let value = ir.load(lanes, pointer, elem.bytes());
            self.tag(value, array)?;
            return Ok(value);
        };
        // The load is disguised, because LLVM 22's InstCombine turns `select(mask, masked.load(p, mask), other)` into a
        // masked load *where the select stands*, past any store between. It does not see through a change of type, nor
        // does it touch gathers.
        let (name, disguise, address) = match elem.bytes() {
            4 if elem.is_float() => ("llvm.masked.load", ir.int(32), pointer),
            4 => ("llvm.masked.load", ir.f32(), pointer),
            8 if elem.is_float() => ("llvm.masked.load", ir.int(64), pointer),
            8 => ("llvm.masked.load", ir.f64(), pointer),
            _ => {
                let steps = ir.iota(ir.int(64), n, 1);
                ("llvm.masked.gather", in_memory, ir.offset(in_memory, pointer, steps))
            }
        };
        let disguised = ir.lanes(disguise, n);
        let types = [disguised, ir.type_of(address)];
        let value = ir.intrinsic(name, &types, &[address, mask, ir.zero(disguised)]);
        ir.set_argument_align(value, 0, elem.bytes());
        self.tag(value, array)?;
        Ok(ir.bitcast(value, lanes))
    }

    pub(crate) fn array_store(&mut self, inst: Inst) -> Result<()> {
        let func = self.func;
        let data = &func.insts[inst];
        self.has_effects = true;
        let array = self.array(data.operands[0])?;
        let Some((&value, indices)) = data.operands[1..].split_last() else { return Err(self.unsupported(inst)) };
        let value = self.rep(value)?;
        self.with_unwrapped(indices, |this, reps, values| {
            let address = this.address(array, values, reps)?;
            this.store_to(array, address, value)?;
            Ok(Reps::new())
        })?;
        Ok(())
    }

    pub(super) fn store_to(&mut self, array: usize, address: GroupAddress, value: ValueRep) -> Result<()> {
        let ir = self.ir;
        let elem = self.array_arg(array)?.elem;
        let in_memory = |value: Val| match elem {
            Scalar::Bool => ir.zext(value, ir.lanes(ir.int(8), ir.n_lanes(value))),
            _ => value,
        };
        match address {
            GroupAddress::One(pointer) => {
                // Threads of a group come in order, so that the last one's value stays.
                let value = match value {
                    ValueRep::Uniform(value) => value,
                    value => {
                        let vector = self.vector(value)?;
                        let lane = self.last_executing();
                        ir.extract(vector, lane)
                    }
                };
                let store = ir.store(in_memory(value), pointer, elem.bytes());
                self.tag(store, array)
            }
            GroupAddress::Row(pointer) => {
                let (value, mask) = (in_memory(self.vector(value)?), self.mask());
                self.store_row(array, value, pointer, mask)
            }
            GroupAddress::ReverseRow(first) => {
                let value = ir.reverse(in_memory(self.vector(value)?));
                let mask = self.mask().map(|mask| ir.reverse(mask));
                let last = ir.offset(self.memory_type(elem), first, ir.i64_const(1 - i64::from(self.lanes)));
                self.store_row(array, value, last, mask)
            }
            GroupAddress::Interleaved(rows) => {
                let lanes = ir.iota(ir.int(64), self.lanes, 1);
                let first = rows.element(ir, self.memory_type(elem), lanes);
                self.store_to(array, GroupAddress::Scattered(ScatteredElements { first, place_in_block: None }), value)
            }
            GroupAddress::Scattered(scattered) => {
                let pointers = scattered.elements(ir, self.memory_type(elem));
                let (value, mask) = (in_memory(self.vector(value)?), self.full_mask());
                let types = [ir.type_of(value), ir.type_of(pointers)];
                let store = ir.intrinsic("llvm.masked.scatter", &types, &[value, pointers, mask]);
                ir.set_argument_align(store, 1, elem.bytes());
                self.tag(store, array)
            }
        }
    }

    pub(super) fn store_row(&self, array: usize, value: Val, pointer: Val, mask: Option<Val>) -> Result<()> {
        let ir = self.ir;
        let align = self.array_arg(array)?.elem.bytes();
        let store = match mask {
            None => ir.store(value, pointer, align),
            Some(mask) => {
                let types = [ir.type_of(value), ir.ptr()];
                let store = ir.intrinsic("llvm.masked.store", &types, &[value, pointer, mask]);
                ir.set_argument_align(store, 1, align);
                store
            }
        };
        self.tag(store, array)
    }

    /// The number of the last lane executing.
    fn last_executing(&mut self) -> Val {
        let ir = self.ir;
        let Some(mask) = self.mask() else { return ir.i64_const(i64::from(self.lanes) - 1) };
        let bits = ir.int_cast(self.mask_bits(mask), ir.int(64));
        // The lowest bit stands in for an empty mask, whose value goes nowhere.
        let bits = ir.or(bits, ir.i64_const(1));
        let zeros = ir.intrinsic("llvm.ctlz", &[ir.int(64)], &[bits, ir.bool_const(false)]);
        ir.sub(ir.i64_const(63), zeros)
    }
}

/// Bits of the integers that hold a lane's byte offset.
fn lane_width(arg: &ArrayArg) -> u32 {
    if arg.facts.offsets_fit_i32 { 32 } else { 64 }
}
