//! `cpu_ops`: what only GPUs have, in a kernel that runs thread by thread on the CPU.
//!
//! A block is one thread there, so `block_dim` is 1; and there is one cache for all loads. Kernels that are launched in
//! blocks are left as they are.

use polyloom_ir::{Function, Imm, Op};

/// Replaces what has a meaning of its own on GPUs alone.
pub fn cpu_ops(func: &mut Function) {
    if func.needs_blocks() {
        return;
    }
    for data in func.insts.values_mut() {
        match data.op {
            Op::BlockDim => (data.op, data.imm) = (Op::Const, Imm::Bits(1)),
            Op::LoadReadonly => data.op = Op::ArrayLoad,
            _ => {}
        }
    }
}
