//! Copies of small arrays that a kernel only updates, for each range of threads.
//!
//! A histogram is updated by every thread, and each update is an exclusive access. Where the order of updates makes no
//! difference to the bits, those of integers, a range of threads that is long beside the array updates a copy on its
//! stack instead, without exclusive access, and brings that to the array once, at its end.
//!
//! Design: `docs/design/atomic-updates.md`.

use super::Result;
use super::arith::ArithContext;
use super::entry::BodyUnit;
use super::memory::ArrayArg;
use super::private_copies::{N_COPIES, PrivateCopies};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::{Op, Scalar};
use smallvec::SmallVec;

/// Most bytes of all copies.
const MAX_BYTES: u64 = 32 << 10;
/// Threads of a range for every element of a copy that make up for its being set and read.
const THREADS_PER_ELEMENT: i64 = 16;

/// An array with copies.
pub(crate) struct PrivateArray {
    /// Its index among the parameters.
    array: usize,
    /// The op that brings what a copy holds to the array.
    op: Op,
    elem: Scalar,
    pointer: Val,
    n_elements: Val,
    /// The memory of the copies that each range makes.
    table: Val,
}

/// The way in which a copy of an element and the element become one.
struct Merging {
    /// The update of the array's element by what the copy holds.
    update: RmwOp,
    /// The bits of the value that changes no element.
    identity: u64,
}

impl Merging {
    fn by(op: Op, elem: Scalar) -> Merging {
        let (ones, half) = (u64::MAX >> (64 - elem.bits()), 1u64 << (elem.bits() - 1));
        let (update, identity) = match (op, elem.is_signed_int()) {
            (Op::AtomicMin, true) => (RmwOp::LLVMAtomicRMWBinOpMin, half - 1),
            (Op::AtomicMin, false) => (RmwOp::LLVMAtomicRMWBinOpUMin, ones),
            (Op::AtomicMax, true) => (RmwOp::LLVMAtomicRMWBinOpMax, half),
            (Op::AtomicMax, false) => (RmwOp::LLVMAtomicRMWBinOpUMax, 0),
            (Op::AtomicAnd, _) => (RmwOp::LLVMAtomicRMWBinOpAnd, ones),
            (Op::AtomicOr, _) => (RmwOp::LLVMAtomicRMWBinOpOr, 0),
            (Op::AtomicXor, _) => (RmwOp::LLVMAtomicRMWBinOpXor, 0),
            _ => (RmwOp::LLVMAtomicRMWBinOpAdd, 0),
        };
        Merging { update, identity }
    }
}

impl BodyUnit<'_, '_> {
    /// The arrays that ranges of threads may have copies of.
    pub(crate) fn private_arrays(&self, copied: &[(usize, Op)]) -> SmallVec<[PrivateArray; 2]> {
        let mut found: SmallVec<[PrivateArray; 2]> = SmallVec::new();
        for &(index, op) in copied {
            let Some(arg) = self.arrays[index].as_ref() else { continue };
            let n_elements = arg.extents.iter().copied().reduce(|a, b| self.ir.mul(a, b));
            let n_elements = n_elements.unwrap_or_else(|| self.ir.i64_const(1));
            let (elem, pointer) = (arg.elem, arg.pointer);
            found.push(PrivateArray { array: index, op, elem, pointer, n_elements, table: pointer });
        }
        let bytes_each = MAX_BYTES / found.len().max(1) as u64;
        for private in &mut found {
            private.table = self.ir.alloca(self.ir.array(self.ir.int(64), (bytes_each / 8) as u32));
        }
        found
    }

    /// Returns a condition that holds if copies of these arrays pay in a range of so many threads.
    pub(crate) fn is_worth_copying(&self, private: &[PrivateArray], n_threads: Val) -> Val {
        let ir = self.ir;
        let bytes_each = (MAX_BYTES / private.len().max(1) as u64) as i64;
        let mut pays = ir.bool_const(true);
        for array in private {
            let most = ir.i64_const(bytes_each / (N_COPIES as i64 * i64::from(array.elem.bytes())));
            pays = ir.and(pays, ir.icmp(ULE, array.n_elements, most));
            let worth = ir.mul(array.n_elements, ir.i64_const(THREADS_PER_ELEMENT));
            pays = ir.and(pays, ir.icmp(ULE, worth, n_threads));
        }
        pays
    }

    /// The arrays of the kernel with the copies in place of those that have some. The copies hold nothing yet.
    pub(crate) fn with_copies(&self, private: &[PrivateArray]) -> Vec<Option<ArrayArg>> {
        let ir = self.ir;
        let mut arrays = self.arrays.to_vec();
        for array in private {
            let ty = ir.int(array.elem.bits());
            let nothing = ir.int_const(ty, Merging::by(array.op, array.elem).identity);
            ir.for_each(ir.mul(array.n_elements, ir.i64_const(N_COPIES as i64)), |index| {
                ir.store(nothing, ir.offset(ty, array.table, index), array.elem.bytes());
            });
            if let Some(arg) = &mut arrays[array.array] {
                arg.pointer = array.table;
                let bytes = ir.i64_const(array.elem.bytes().into());
                arg.copies = Some(PrivateCopies { bytes_apart: ir.mul(array.n_elements, bytes) });
            }
        }
        arrays
    }

    /// Brings what the copies hold to the arrays.
    pub(crate) fn merge_copies(&self, private: &[PrivateArray]) -> Result<()> {
        let ir = self.ir;
        let arith = ArithContext { ir, processor: self.processor };
        for array in private {
            let ty = ir.int(array.elem.bits());
            let Merging { update: op, identity } = Merging::by(array.op, array.elem);
            let nothing = ir.int_const(ty, identity);
            let combine = array.op.combination();
            let mut failed = false;
            ir.for_each(array.n_elements, |index| {
                let copy = |number: u64| {
                    let place = ir.add(index, ir.mul(array.n_elements, ir.i64_const(number as i64)));
                    ir.load(ty, ir.offset(ty, array.table, place), array.elem.bytes())
                };
                let value = (1..N_COPIES).try_fold(copy(0), |sum, number| {
                    arith.emit(combine?, array.elem, array.elem, &[sum, copy(number)])
                });
                failed |= value.is_none();
                let value = value.unwrap_or(nothing);
                let (update, next) = (ir.block(c"update"), ir.block(c"next"));
                ir.cond_br(ir.icmp(NE, value, nothing), update, next);
                ir.switch_to(update);
                ir.atomic_rmw(op, ir.offset(ty, array.pointer, index), value, self.processor.atomic_scope());
                ir.br(next);
                ir.switch_to(next);
            });
            if failed {
                return Err(CodegenError::new(format!(
                    "internal error: nothing merges copies by `{}`",
                    array.op.name()
                )));
            }
        }
        Ok(())
    }
}
