//! Products of the tensor core, `mma.sync`, and loads of their factors, `ldmatrix` (PTX ISA 9.0 §9.7.14.5).
//!
//! How the elements of HIR's fragments lie in the instruction's registers is what [`polyloom_ir::fragment`] says:
//! several elements of a factor that follow each other share a register of 32 bits.

use super::blocks::special;
use crate::ir::*;
use crate::lower::{FunctionLowering, GroupAddress, Reps, Result, ValueRep};
use polyloom_codegen::CodegenError;
use polyloom_ir::fragment::{LanePart, MatrixRole, TF32_BITS, flat_operands, place};
use polyloom_ir::{Imm, Inst, Op, Scalar, Type, ValueDef};
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
        if let Some(before) = self.product_before(inst, factor, n) {
            let (a_before, rest) = before.split_at(8);
            let (b_before, c) = rest.split_at(usize::from(n) / 2);
            let a = [self.words(a_before, 4), self.words(a, 4)].concat();
            let name = if factor == Scalar::I8 { "s8" } else { "u8" };
            let columns = b_before.chunks_exact(4).zip(b.chunks_exact(4)).zip(c.chunks_exact(4));
            for ((b_before, b), c) in columns {
                let b = [self.words(b_before, 4), self.words(b, 4)].concat();
                let sums = self.instruction(&format!("llvm.nvvm.mma.m16n8k32.row.col.{name}"), &a, &b, c);
                results.extend(sums.into_iter().map(ValueRep::Uniform));
            }
            return Ok(results);
        }
        // One instruction has 8 columns.
        for (b, c) in b.chunks_exact(4).zip(c.chunks_exact(4)) {
            results.extend(self.eight_columns(factor, a, b, c)?.into_iter().map(ValueRep::Uniform));
        }
        Ok(results)
    }

    /// Returns the operands of the product that this one adds to, if one instruction can do both: of integers, which are
    /// exact in any order, there is one that is 32 deep and takes half the time of two.
    fn product_before(&self, inst: Inst, factor: Scalar, n: u8) -> Option<SmallVec<[Val; 24]>> {
        let n_columns = usize::from(n) / 2;
        let sums = &self.func.insts[inst].operands[8 + n_columns..];
        let ValueDef::Result(before, _) = self.func.values[*sums.first()?].def else { return None };
        let data = &self.func.insts[before];
        let is_product = factor.is_int() && data.op == Op::Mma && data.results[..] == *sums;
        if !is_product || self.func.ty(data.operands[0]) != factor.into() {
            return None;
        }
        let reps = self.reps(&data.operands).ok()?;
        let values = reps.into_iter().map(|rep| match rep {
            ValueRep::Uniform(value) => Some(value),
            _ => None,
        });
        values.collect()
    }

    /// Loads the lane's part of a factor from shared memory: by `ldmatrix` where its rows of eight elements, or of sixteen
    /// bytes, lie whole and aligned, otherwise element by element. All lanes have the same origin.
    pub(crate) fn load_fragment(&mut self, inst: Inst) -> Result<Reps> {
        let ir = self.ir;
        let data = &self.func.insts[inst];
        let Imm::Fragment(access) = data.imm else { return Err(self.unsupported(inst)) };
        let role = if data.op == Op::MmaLoadA { MatrixRole::A } else { MatrixRole::B };
        let mut indices = [data.operands[1], data.operands[2]];
        if access.by_columns {
            indices.swap(0, 1);
        }
        let array = self.array(data.operands[0])?;
        let GroupAddress::One(origin) = self.address(array, &indices, &self.reps(&indices)?)? else {
            return Err(self.unsupported(inst));
        };
        let arg = self.array_arg(array)?.clone();
        let n_elements = data.results.len();
        let wide = ir.int(64);
        let lane = ir.zext(special(ir, "laneid"), wide);
        let number = |n: i64| ir.i64_const(n);
        let by_element = |this: &Self| -> Result<SmallVec<[Val; 8]>> {
            let parts = [ir.lshr(lane, number(2)), ir.and(lane, number(3))];
            let element = |index: usize| {
                let place = place(role, arg.elem, index);
                let mut coordinates = [place.row, place.column].map(|coordinate| {
                    let part = parts[usize::from(coordinate.part == LanePart::Member)];
                    ir.add(ir.mul(part, number(coordinate.factor.into())), number(coordinate.offset.into()))
                });
                if access.by_columns {
                    coordinates.swap(0, 1);
                }
                let offsets = [0, 1].map(|axis| ir.mul(coordinates[axis], arg.strides[axis]));
                let pointer = ir.offset(ir.int(8), origin, ir.add(offsets[0], offsets[1]));
                let value = ir.load(this.memory_type(arg.elem), pointer, arg.elem.bytes());
                this.tag(value, array)?;
                Ok(value)
            };
            (0..n_elements).map(element).collect()
        };
        // Fragments hold neighbours along the chain: columns of `a`, rows of `b`.
        let is_along_chain = (role == MatrixRole::B) == access.by_columns;
        let bytes = arg.elem.bytes();
        let is_dense = arg.known_strides.last() == Some(&Some(bytes.into()));
        let has_rows = bytes == 2 || (bytes == 1 && is_along_chain);
        if !is_dense || !has_rows || self.has_least_tensor_core() {
            return Ok(by_element(self)?.into_iter().map(ValueRep::Uniform).collect());
        }
        let both = ir.or(ir.ptr_to_int(origin, wide), arg.strides[0]);
        let off = ir.and(both, number(15));
        let (whole, apart, done) = (ir.block(c"whole"), ir.block(c"apart"), ir.block(c"loaded"));
        ir.cond_br_unlikely(ir.icmp(NE, off, ir.zero(wide)), apart, whole);
        ir.switch_to(whole);
        let n_words = n_elements as u32 * bytes / 4;
        // Lane 8·i + j has the address of row j of matrix i, and gets word i of all lanes: as it lies in memory, rows follow
        // each other first where the fragment's elements do.
        let rows_first = (role == MatrixRole::A) == is_along_chain;
        let (low, high) = (ir.and(ir.lshr(lane, number(3)), number(1)), ir.lshr(lane, number(4)));
        let inner = ir.and(lane, number(7));
        let (of_rows, of_columns) = if bytes == 1 || rows_first { (low, high) } else { (high, low) };
        let row = ir.add(inner, ir.mul(of_rows, number(8)));
        let offset = match bytes {
            1 => ir.mul(row, arg.strides[0]),
            _ => ir.add(ir.mul(row, arg.strides[0]), ir.mul(of_columns, number(16))),
        };
        let pointer = ir.offset(ir.int(8), origin, offset);
        let transposed = if is_along_chain { "" } else { ".trans" };
        let name = format!("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{n_words}{transposed}.b16");
        let call = ir.intrinsic(&name, &[ir.type_of(pointer)], &[pointer]);
        ir.set_convergent(call);
        let elem = self.memory_type(arg.elem);
        let each = 4 / bytes;
        let mut loaded: SmallVec<[Val; 8]> = SmallVec::new();
        for word in 0..n_words {
            let word = if n_words == 1 { call } else { ir.extract_field(call, word) };
            let parts = ir.bitcast(word, ir.lanes(elem, each));
            loaded.extend((0..each).map(|index| ir.extract(parts, ir.int_const(ir.int(32), index.into()))));
        }
        let from_whole = ir.current();
        ir.br(done);
        ir.switch_to(apart);
        let single = by_element(self)?;
        let from_apart = ir.current();
        ir.br(done);
        ir.switch_to(done);
        let merge = |(whole, apart): (Val, Val)| {
            let merged = ir.phi(elem);
            ir.add_incoming(merged, whole, from_whole);
            ir.add_incoming(merged, apart, from_apart);
            ValueRep::Uniform(merged)
        };
        Ok(loaded.into_iter().zip(single).map(merge).collect())
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
