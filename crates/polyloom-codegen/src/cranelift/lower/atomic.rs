//! Atomic updates of array elements.
//!
//! Integers use the machine's own read-modify-write instructions. Float sums and extrema are compare-and-swap loops
//! over the element's bits; they start from a plain atomic load, so that without contention one exchange is enough.

use super::{CraneliftLowering, Lowered, bits_type};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AtomicRmwOp, InstBuilder, MemFlagsData};
use polyloom_ir::{InstData, Op, Scalar};

/// Unlike other accesses, atomic ones need aligned elements on most machines.
const FLAGS: MemFlagsData = MemFlagsData::trusted();

impl CraneliftLowering<'_> {
    /// Any of the atomic ops.
    pub(super) fn atomic(&mut self, data: &InstData) -> Lowered<()> {
        let result = self.result(data)?;
        let (address, elem) = self.element(data)?;
        let value = self.operand(data, data.operands.len() - 1)?;
        let value = self.value(value)?;
        let bits = bits_type(elem);
        let old = if data.op == Op::AtomicCas {
            let compare = self.operand(data, data.operands.len() - 2)?;
            let compare = self.value(compare)?;
            let (compare, value) = (self.bits_of(compare, elem), self.bits_of(value, elem));
            let old = self.builder.ins().atomic_cas(FLAGS, address, compare, value);
            self.with_bits(old, elem)
        } else if elem.is_float() && data.op != Op::AtomicExch {
            self.float_update(data.op, address, elem, value)
        } else {
            let signed = elem.is_signed_int();
            let op = match data.op {
                Op::AtomicAdd => AtomicRmwOp::Add,
                Op::AtomicSub => AtomicRmwOp::Sub,
                Op::AtomicMin if signed => AtomicRmwOp::Smin,
                Op::AtomicMin => AtomicRmwOp::Umin,
                Op::AtomicMax if signed => AtomicRmwOp::Smax,
                Op::AtomicMax => AtomicRmwOp::Umax,
                Op::AtomicAnd => AtomicRmwOp::And,
                Op::AtomicOr => AtomicRmwOp::Or,
                Op::AtomicXor => AtomicRmwOp::Xor,
                _ => AtomicRmwOp::Xchg,
            };
            let value = self.bits_of(value, elem);
            let old = self.builder.ins().atomic_rmw(bits, FLAGS, op, address, value);
            self.with_bits(old, elem)
        };
        self.set(result, old);
        Ok(())
    }

    fn float_update(&mut self, op: Op, address: ir::Value, elem: Scalar, value: ir::Value) -> ir::Value {
        let bits = bits_type(elem);
        let (attempt, done) = (self.builder.create_block(), self.builder.create_block());
        let expected = self.builder.append_block_param(attempt, bits);
        let first = self.builder.ins().atomic_load(bits, FLAGS, address);
        self.builder.ins().jump(attempt, &[first.into()]);
        self.builder.switch_to_block(attempt);
        let old = self.with_bits(expected, elem);
        let wide = if elem.is_half() { Scalar::F32 } else { elem };
        let (a, b) = (self.cast(old, elem, wide), self.cast(value, elem, wide));
        let new = match op {
            Op::AtomicAdd => self.builder.ins().fadd(a, b),
            Op::AtomicSub => self.builder.ins().fsub(a, b),
            Op::AtomicMin => self.float_extremum(Op::Min, wide, a, b, None),
            _ => self.float_extremum(Op::Max, wide, a, b, None),
        };
        let new = self.cast(new, wide, elem);
        let new = self.bits_of(new, elem);
        let found = self.builder.ins().atomic_cas(FLAGS, address, expected, new);
        let swapped = self.builder.ins().icmp(IntCC::Equal, found, expected);
        self.builder.ins().brif(swapped, done, &[], attempt, &[found.into()]);
        self.builder.switch_to_block(done);
        old
    }
}
