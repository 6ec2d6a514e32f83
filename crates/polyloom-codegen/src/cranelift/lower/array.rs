//! Array elements, extents and the other things that do not change during a launch.
//!
//! An argument's words are loaded once, before the loop over threads, when the first use of them is lowered.

use super::{CraneliftLowering, INVARIANT, Lowered, clif_type};
use crate::abi::ArgLayout;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use polyloom_ir::{Imm, InstData, Op, Scalar, Type, Value};
use smallvec::SmallVec;

/// An address computed once: of an element, or of the part of an array that its first indices select.
pub(super) struct ComputedAddress {
    array: Value,
    indices: SmallVec<[Value; 4]>,
    address: ir::Value,
}

/// Says how many of the latest addresses are searched for one to use again.
const ADDRESS_WINDOW: usize = 12;

impl CraneliftLowering<'_> {
    /// A parameter whose value was not needed before: an argument of the kernel.
    pub(super) fn param(&mut self, value: Value) -> Lowered<ir::Value> {
        let func = self.func;
        let (Some(index), Type::Scalar(scalar)) = (func.param_index(value), func.ty(value)) else {
            return self.error(func.span, "a value is used before it is defined");
        };
        let loaded = self.argument_word(index, 0, clif_type(scalar))?;
        self.values[value] = loaded;
        Ok(loaded)
    }

    /// Loads from the argument block, before the loop over threads.
    fn argument_word(&mut self, param: usize, offset: u32, ty: ir::Type) -> Lowered<ir::Value> {
        let (Some(frame), Some(prologue_end)) = (&mut self.frame, self.prologue_end) else {
            return self.error(self.func.span, "only kernels have arguments in memory");
        };
        let offset = (frame.layout.offsets[param] + offset) as i32;
        if let Some(&(.., loaded)) = frame.loaded.iter().find(|(at, loaded_ty, _)| *at == offset && *loaded_ty == ty) {
            return Ok(loaded);
        }
        let mut cursor = FuncCursor::new(self.builder.func).at_inst(prologue_end);
        let loaded = cursor.ins().load(ty, INVARIANT, frame.args, offset);
        frame.loaded.push((offset, ty, loaded));
        Ok(loaded)
    }

    fn array_param(&self, data: &InstData) -> Lowered<(Value, usize, Scalar, u8)> {
        let array = self.operand(data, 0)?;
        match (self.func.ty(array).as_array(), self.func.param_index(array)) {
            (Some((elem, ndim)), Some(index)) => Ok((array, index, elem, ndim)),
            _ => self.error(data.span, "an array is not a parameter of the kernel"),
        }
    }

    /// `tid`, `tid_linear`, `dim`.
    pub(super) fn index_op(&mut self, data: &InstData) -> Lowered<()> {
        let result = self.result(data)?;
        let value = match (data.op, &data.imm) {
            (Op::Tid, Imm::Axis(axis)) => {
                let coordinate = self.coordinate(*axis, data.span)?;
                match coordinate {
                    Some(coordinate) => self.builder.ins().ireduce(types::I32, coordinate),
                    None => self.int(types::I32, 0),
                }
            }
            (Op::TidLinear, _) => {
                let linear = self.linear_thread(data.span)?;
                self.builder.ins().ireduce(types::I32, linear)
            }
            (Op::Dim, Imm::Axis(axis)) => {
                let (_, param, _, ndim) = self.array_param(data)?;
                if *axis >= ndim {
                    return self.error(data.span, "an array has no such axis");
                }
                match self.facts(param).extents[usize::from(*axis)] {
                    Some(extent) => self.int(types::I32, extent.into()),
                    None => self.argument_word(param, ArgLayout::extent(*axis), types::I32)?,
                }
            }
            _ => return self.error(data.span, format!("`{}` lacks its axis", data.op.name())),
        };
        self.set(result, value);
        Ok(())
    }

    fn facts(&self, param: usize) -> crate::backend::ArrayFacts {
        self.frame.as_ref().map(|frame| frame.facts.array(param)).unwrap_or_default()
    }

    /// An index as `i64`. Indices are never negative here, so that extending with zeros is right for every type, and
    /// free on most machines.
    fn index(&mut self, value: Value) -> Lowered<ir::Value> {
        // These need no extending, because the thread's coordinates are kept as i64 already.
        if let polyloom_ir::ValueDef::Result(inst, _) = self.func.values[value].def
            && let InstData { op: Op::Tid, imm: Imm::Axis(axis), span, .. } = self.func.insts[inst]
        {
            return match self.coordinate(axis, span)? {
                Some(coordinate) => Ok(coordinate),
                None => Ok(self.int(types::I64, 0)),
            };
        }
        if let Some(bits) = self.func.as_const(value) {
            return Ok(self.int(types::I64, bits));
        }
        let index = self.value(value)?;
        let narrow = self.builder.func.dfg.value_type(index) != types::I64;
        Ok(if narrow { self.builder.ins().uextend(types::I64, index) } else { index })
    }

    /// Returns true if neighbours along the last axis are neighbours in memory.
    pub(super) fn has_dense_elements(&self, param: usize) -> bool {
        self.facts(param).contiguous
    }

    /// The byte stride along an axis where the facts give it.
    fn known_stride(&self, param: usize, elem: Scalar, ndim: u8, axis: u8) -> Option<u64> {
        let facts = self.facts(param);
        if !facts.contiguous {
            return None;
        }
        let inner = &facts.extents[usize::from(axis) + 1..usize::from(ndim)];
        inner.iter().try_fold(u64::from(elem.bytes()), |stride, extent| stride.checked_mul(u64::from((*extent)?)))
    }

    /// The address of the element that the operands from the second on index, and the element's type.
    pub(super) fn element(&mut self, data: &InstData) -> Lowered<(ir::Value, Scalar)> {
        let (array, param, elem, ndim) = self.array_param(data)?;
        let Some(indices) = data.operands.get(1..1 + usize::from(ndim)) else {
            return self.error(data.span, format!("`{}` has too few indices", data.op.name()));
        };
        let indices: SmallVec<[Value; 4]> = SmallVec::from_slice(indices);
        let (known, mut address) = match self.known_prefix(array, &indices) {
            Some(known) => known,
            None => (0, self.argument_word(param, 0, types::I64)?),
        };
        for axis in known..usize::from(ndim) {
            let (index, axis) = (indices[axis], axis as u8);
            if self.func.as_const(index) == Some(0) {
                continue;
            }
            let index = self.index(index)?;
            let offset = match self.known_stride(param, elem, ndim, axis) {
                Some(stride) if stride.is_power_of_two() => {
                    self.builder.ins().ishl_imm_u(index, i64::from(stride.trailing_zeros()))
                }
                Some(stride) => self.builder.ins().imul_imm_u(index, stride as i64),
                None => {
                    let stride = self.argument_word(param, ArgLayout::stride(ndim, axis), types::I64)?;
                    self.builder.ins().imul(index, stride)
                }
            };
            address = self.builder.ins().iadd(address, offset);
            let indices = SmallVec::from_slice(&indices[..=usize::from(axis)]);
            self.addresses.push(ComputedAddress { array, indices, address });
        }
        Ok((address, elem))
    }

    /// The longest run of first indices whose address is known, its length and the address.
    fn known_prefix(&self, array: Value, indices: &[Value]) -> Option<(usize, ir::Value)> {
        let window = self.addresses.iter().rev().take(ADDRESS_WINDOW);
        let matching = window.filter(|known| known.array == array && indices.starts_with(&known.indices));
        matching.max_by_key(|known| known.indices.len()).map(|known| (known.indices.len(), known.address))
    }

    /// Flags of an access, which promise no alignment, because arrays may be misaligned. A disjoint array that the
    /// kernel does not write keeps its contents during the launch.
    fn access(&self, data: &InstData) -> MemFlagsData {
        let flags = MemFlagsData::new().with_notrap();
        let param = data.operands.first().and_then(|&array| self.func.param_index(array));
        match (param, &self.frame) {
            (Some(param), Some(frame)) if frame.facts.array(param).disjoint && !frame.written[param] => {
                flags.with_readonly()
            }
            _ => flags,
        }
    }

    pub(super) fn array_load(&mut self, data: &InstData) -> Lowered<()> {
        let result = self.result(data)?;
        let (address, elem) = self.element(data)?;
        let flags = self.access(data);
        let mut loaded = self.builder.ins().load(clif_type(elem), flags, address, 0);
        if elem == Scalar::Bool {
            // It is compared with 0, because memory from elsewhere may hold any byte for `true`.
            loaded = self.builder.ins().icmp_imm_u(IntCC::NotEqual, loaded, 0);
        }
        self.set(result, loaded);
        Ok(())
    }

    pub(super) fn array_store(&mut self, data: &InstData) -> Lowered<()> {
        let (address, _) = self.element(data)?;
        let value = self.operand(data, data.operands.len() - 1)?;
        let value = self.value(value)?;
        self.builder.ins().store(MemFlagsData::new().with_notrap(), value, address, 0);
        Ok(())
    }
}
