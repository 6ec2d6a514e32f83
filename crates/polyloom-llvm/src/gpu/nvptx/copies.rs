//! Copies in the background, and loads of what nothing writes.

use crate::ir::*;
use crate::lower::{FunctionLowering, GroupAddress, Result, ValueRep};
use polyloom_codegen::CodegenError;
use polyloom_ir::function::CacheUse;
use polyloom_ir::{Imm, Inst, Scalar, Value};

/// Says where a run of elements begins, and how it goes on.
#[derive(Clone, Copy)]
struct ElementRun {
    array: usize,
    first: Val,
    /// Bytes from one element to the next, and whether they are known to be an element's.
    stride: Val,
    is_dense: bool,
}

impl FunctionLowering<'_, '_> {
    /// `cp.async` (PTX ISA 9.0 §9.7.9.25.3). It takes bytes that follow each other, at addresses that are multiples of
    /// how many they are; the elements of other runs are copied one by one.
    pub(crate) fn async_copy(&mut self, inst: Inst) -> Result<()> {
        let ir = self.ir;
        let data = &self.func.insts[inst];
        let Imm::Copy(copy) = data.imm else { return Err(self.unsupported(inst)) };
        self.has_effects = true;
        let n_to = 1 + self.func.ty(data.operands[0]).as_array().map_or(0, |(_, ndim)| usize::from(ndim));
        let (to, from) = data.operands.split_at(n_to);
        let (to, from) = (self.run_of(to)?, self.run_of(from)?);
        let elem = self.array_arg(to.array)?.elem;
        let bytes = elem.bytes() * u32::from(copy.count);
        let copy_whole = || {
            let name = match (bytes, copy.cache) {
                (_, CacheUse::Streaming) => {
                    // The target's address gets bits of the source's that are zero, because ptxas does not know that they
                    // are: a target at a uniform register and an offset is encoded wrongly beside a policy (CUDA 13.0
                    // for sm_90: an illegal instruction).
                    let text = format!(
                        "{{ .reg .b64 %policy, %to; createpolicy.fractional.L2::evict_first.b64 %policy, 1.0; \
                         and.b64 %to, $1, 3; or.b64 %to, %to, $0; \
                         cp.async.ca.shared.global.L2::cache_hint [%to], [$1], {bytes}, %policy; }}"
                    );
                    ir.inline_asm(ir.void(), &text, "l,l,~{memory}", &[to.first, from.first]);
                    return;
                }
                (16, CacheUse::L2) => "llvm.nvvm.cp.async.cg.shared.global.16",
                (16, _) => "llvm.nvvm.cp.async.ca.shared.global.16",
                (8, _) => "llvm.nvvm.cp.async.ca.shared.global.8",
                _ => "llvm.nvvm.cp.async.ca.shared.global.4",
            };
            ir.intrinsic(name, &[], &[to.first, from.first]);
        };
        if copy.count == 1 {
            copy_whole();
            return Ok(());
        }
        let wide = ir.int(64);
        // The beginning of an array is the same for all copies.
        let aligned = |run: ElementRun| match copy.is_in_step {
            true => self.array_arg(run.array).map(|array| array.pointer),
            false => Ok(run.first),
        };
        let both = ir.or(ir.ptr_to_int(aligned(to)?, wide), ir.ptr_to_int(aligned(from)?, wide));
        let mut off = ir.and(both, ir.i64_const(i64::from(bytes) - 1));
        for run in [to, from].iter().filter(|run| !run.is_dense) {
            off = ir.or(off, ir.xor(run.stride, ir.i64_const(elem.bytes().into())));
        }
        let (whole, apart, done) = (ir.block(c"whole"), ir.block(c"apart"), ir.block(c"copied"));
        ir.cond_br_unlikely(ir.icmp(NE, off, ir.zero(wide)), apart, whole);
        ir.switch_to(whole);
        copy_whole();
        ir.br(done);
        ir.switch_to(apart);
        // A loop, because ptxas would compute all of what is straight under predicates, beside the copies of whole runs.
        let in_memory = self.memory_type(elem);
        let (header, each) = (ir.block(c"element"), ir.block(c"copied_apart"));
        let from_apart = ir.current();
        ir.br(header);
        ir.switch_to(header);
        let number = ir.phi(wide);
        ir.add_incoming(number, ir.i64_const(0), from_apart);
        ir.cond_br(ir.icmp(EQ, number, ir.i64_const(copy.count.into())), done, each);
        ir.switch_to(each);
        let place = |run: ElementRun| ir.offset(ir.int(8), run.first, ir.mul(run.stride, number));
        let value = ir.load(in_memory, place(from), elem.bytes());
        self.tag(value, from.array)?;
        let store = ir.store(value, place(to), elem.bytes());
        self.tag(store, to.array)?;
        let next = ir.add(number, ir.i64_const(1));
        ir.add_incoming(number, next, ir.current());
        ir.br_back(header, &[("llvm.loop.unroll.disable", None)]);
        ir.switch_to(done);
        Ok(())
    }

    /// The elements from the one with these operands on, an array and its indices, along the last axis.
    fn run_of(&self, operands: &[Value]) -> Result<ElementRun> {
        let (&array, indices) = operands.split_first().ok_or_else(|| CodegenError::new("internal error: no array"))?;
        let array = self.array(array)?;
        let GroupAddress::One(first) = self.address(array, indices, &self.reps(indices)?)? else {
            return Err(CodegenError::new("internal error: a thread has several addresses"));
        };
        let arg = self.array_arg(array)?;
        let axis = indices.len().saturating_sub(1);
        let is_dense = arg.known_strides.get(axis).copied().flatten() == Some(arg.elem.bytes().into());
        let stride = arg.strides.get(axis).copied().unwrap_or_else(|| self.ir.i64_const(0));
        Ok(ElementRun { array, first, stride, is_dense })
    }

    /// A load past the cache for what may change (`ld.global.nc`).
    pub(crate) fn load_readonly(&mut self, inst: Inst) -> Result<ValueRep> {
        let ir = self.ir;
        let data = &self.func.insts[inst];
        let array = self.array(data.operands[0])?;
        let indices = &data.operands[1..];
        let address = self.address(array, indices, &self.reps(indices)?)?;
        let pointer = match address {
            // All else is loaded as usual, because only arguments are in global memory.
            GroupAddress::One(pointer) if array < self.func.params().len() => pointer,
            _ => return self.array_load(inst),
        };
        let elem = self.array_arg(array)?.elem;
        let value = ir.load(self.memory_type(elem), pointer, elem.bytes());
        self.tag(value, array)?;
        ir.attach(value, "invariant.load", ir.meta_node(&[]));
        Ok(ValueRep::Uniform(match elem {
            Scalar::Bool => ir.icmp(NE, value, ir.zero(ir.type_of(value))),
            _ => value,
        }))
    }
}
