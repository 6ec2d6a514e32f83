//! Array elements: extents, loads and stores.
//!
//! How a group's elements lie in memory decides the instruction: one scalar access if all lanes mean the same element,
//! one vector access if they are neighbours, vector accesses and shuffles if they are one component of vectors or
//! matrices that follow each other or are loaded from anywhere (see [`super::interleaved`]), else a gather or scatter.
//! Everything the lanes share goes into a scalar base address.

use super::interleaved::{RowBlock, ScatteredElements};
use super::private_copies::PrivateCopies;
use super::{FunctionLowering, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::{ArrayFacts, CodegenError};
use polyloom_ir::{Inst, Scalar, Value};
use smallvec::SmallVec;

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

    /// Says which arrays an access has nothing to do with.
    pub(crate) fn tag(&self, access: Val, array: usize) -> Result<()> {
        let arg = self.array_arg(array)?;
        self.ir.attach(access, "alias.scope", arg.scope);
        if let Some(no_alias) = arg.no_alias {
            self.ir.attach(access, "noalias", no_alias);
        }
        Ok(())
    }

    pub(crate) fn array_load(&mut self, inst: Inst) -> Result<ValueRep> {
        let func = self.func;
        let data = &func.insts[inst];
        if let Some(stored) = self.stored_row(inst)? {
            return Ok(stored);
        }
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
        self.note_stored_row(inst)
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
