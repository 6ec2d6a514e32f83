//! Products of the tensor core: `mma.sync` (PTX ISA 9.0 §9.7.14.5).
//!
//! How the elements of HIR's fragments lie in the instruction's registers is what [`polyloom_ir::fragment`] says:
//! several elements of a factor that follow each other share a register of 32 bits.

use crate::ir::*;
use crate::lower::{FunctionLowering, Reps, Result, ValueRep};
use polyloom_codegen::CodegenError;
use polyloom_ir::fragment::{TF32_BITS, flat_operands};
use polyloom_ir::{Inst, Scalar, Type};
use smallvec::SmallVec;

impl FunctionLowering<'_, '_> {
    /// The product of a warp's matrices: what this lane holds of it.
    pub(crate) fn mma(&mut self, inst: Inst) -> Result<Reps> {
        let data = &self.func.insts[inst];
        let types: SmallVec<[Type; 24]> = data.operands.iter().map(|&value| self.func.ty(value)).collect();
        let Some((factor, n)) = flat_operands(&types) else { return Err(self.unsupported(inst)) };
        let mut values: SmallVec<[Val; 24]> = SmallVec::new();
        for rep in self.reps(&data.operands)? {
            match rep {
                ValueRep::Uniform(value) => values.push(value),
                _ => return Err(self.unsupported(inst)),
            }
        }
        let (a, rest) = values.split_at(8);
        let (b, c) = rest.split_at(usize::from(n) / 2);
        let mut results = Reps::new();
        // One instruction has 8 columns.
        for (b, c) in b.chunks_exact(4).zip(c.chunks_exact(4)) {
            results.extend(self.eight_columns(factor, a, b, c)?.into_iter().map(ValueRep::Uniform));
        }
        Ok(results)
    }

    /// The product with 8 columns.
    fn eight_columns(&self, factor: Scalar, a: &[Val], b: &[Val], c: &[Val]) -> Result<SmallVec<[Val; 4]>> {
        let (name, a, b) = match factor {
            Scalar::F32 => {
                let name = "llvm.nvvm.mma.m16n8k8.row.col.tf32";
                let [a, b] = [a, b].map(|part| part.iter().map(|&x| self.tf32(x)).collect::<SmallVec<[Val; 8]>>());
                let first = self.instruction(name, &a[..4], &b[..2], c);
                return Ok(self.instruction(name, &a[4..], &b[2..], &first));
            }
            Scalar::F16 if self.has_least_tensor_core() => {
                let name = "llvm.nvvm.mma.m16n8k8.row.col.f32.f32";
                let (a, b) = (self.pairs(a), self.pairs(b));
                let first = self.instruction(name, &a[..2], &b[..1], c);
                return Ok(self.instruction(name, &a[2..], &b[1..], &first));
            }
            Scalar::F16 => ("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", self.pairs(a), self.pairs(b)),
            Scalar::BF16 => ("llvm.nvvm.mma.m16n8k16.row.col.bf16", self.words(a, 2), self.words(b, 2)),
            Scalar::I8 => ("llvm.nvvm.mma.m16n8k16.row.col.s8", self.words(a, 4), self.words(b, 4)),
            Scalar::U8 => ("llvm.nvvm.mma.m16n8k16.row.col.u8", self.words(a, 4), self.words(b, 4)),
            _ => return Err(CodegenError::new(format!("internal error: no product of {factor}"))),
        };
        Ok(self.instruction(name, &a, &b, c))
    }

    /// Calls the intrinsic, which all lanes execute together. LLVM 22 does not know that of it by itself.
    fn instruction(&self, name: &str, a: &[Val], b: &[Val], c: &[Val]) -> SmallVec<[Val; 4]> {
        let ir = self.ir;
        let args: SmallVec<[Val; 16]> = a.iter().chain(b).chain(c).copied().collect();
        let call = ir.intrinsic(name, &[], &args);
        ir.set_convergent(call);
        (0..4).map(|number| ir.extract_field(call, number)).collect()
    }

    /// Elements of 8 or 16 bits as words of 32, `each` in one, the first in the lowest bits.
    fn words(&self, elements: &[Val], each: usize) -> SmallVec<[Val; 4]> {
        let ir = self.ir;
        let pack = |elements: &[Val]| {
            let parts = ir.lanes(ir.type_of(elements[0]), each as u32);
            let insert = |vector, (number, &element): (usize, &Val)| {
                ir.insert(vector, element, ir.int_const(ir.int(32), number as u64))
            };
            let vector = elements.iter().enumerate().fold(ir.poison(parts), insert);
            ir.bitcast(vector, ir.int(32))
        };
        elements.chunks_exact(each).map(pack).collect()
    }

    /// Two elements of `float16` in each word.
    fn pairs(&self, elements: &[Val]) -> SmallVec<[Val; 4]> {
        let pair = self.ir.lanes(self.ir.half(), 2);
        self.words(elements, 2).into_iter().map(|word| self.ir.bitcast(word, pair)).collect()
    }

    /// Returns true if products are 8 deep, and of `float16` alone: before `sm_80`.
    fn has_least_tensor_core(&self) -> bool {
        self.arith.processor.gpu_number() < Some(80)
    }

    /// A `float32` cut to `tf32`, because what the tensor core does with its other bits is not said anywhere.
    fn tf32(&self, value: Val) -> Val {
        let ir = self.ir;
        let word = ir.int(32);
        ir.and(ir.bitcast(value, word), ir.int_const(word, TF32_BITS.into()))
    }
}
