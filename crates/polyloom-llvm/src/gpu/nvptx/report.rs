//! What a GPU thread does where one of the host would call back into the runtime.
//!
//! A failed check fills the launch's report, if it is the first to fail, and ends the thread; with no report to fill
//! it stops the launch (`trap`). `print` goes to `vprintf`, which CUDA's driver and the simulator have.

use crate::ir::*;
use crate::lower::{FunctionLowering, Result, ValueRep, cast};
use crate::target::DEVICE_SCOPE;
use polyloom_codegen::{CodegenError, GpuLaunch, GpuReport};
use polyloom_ir::format::{FormatConversion, FormatPiece, pieces};
use polyloom_ir::{Imm, Inst, Scalar};

impl FunctionLowering<'_, '_> {
    /// Reports a failed check. The thread ends afterwards.
    pub(crate) fn report_to_host(&mut self, site: Val, index: Val, extent: Val, thread: Val) -> Result<()> {
        let ir = self.ir;
        let (byte, wide) = (ir.int(8), ir.int(64));
        let context = self.thread.ok_or_else(|| CodegenError::new("internal error: a function reports"))?.context;
        let at = |base, offset: u32| ir.offset(byte, base, ir.i64_const(offset.into()));
        let address = ir.load(wide, at(context, GpuLaunch::REPORT_OFFSET), 8);
        let (claim, nowhere, fill, end) =
            (ir.block(c"claim"), ir.block(c"nowhere"), ir.block(c"fill"), ir.block(c"reported"));
        ir.cond_br(ir.icmp(NE, address, ir.zero(wide)), claim, nowhere);
        ir.switch_to(nowhere);
        ir.intrinsic("llvm.trap", &[], &[]);
        ir.br(end);
        ir.switch_to(claim);
        let report = ir.int_to_ptr(address, ir.global_ptr());
        let (_, first) =
            ir.cmpxchg(at(report, GpuReport::CLAIMED_OFFSET), ir.zero(wide), ir.i64_const(1), DEVICE_SCOPE);
        ir.cond_br(first, fill, end);
        ir.switch_to(fill);
        let fields = [
            (GpuReport::SITE_OFFSET, ir.int_cast(site, wide)),
            (GpuReport::INDEX_OFFSET, index),
            (GpuReport::EXTENT_OFFSET, extent),
            (GpuReport::THREAD_OFFSET, thread),
        ];
        for (offset, value) in fields {
            ir.store(value, at(report, offset), 8);
        }
        ir.br(end);
        ir.switch_to(end);
        Ok(())
    }

    /// `print`, with the format and values made such as C's `printf` takes.
    pub(crate) fn print_on_gpu(&mut self, inst: Inst) -> Result<()> {
        let ir = self.ir;
        let func = self.func;
        let data = &func.insts[inst];
        let Imm::Text(format) = &data.imm else { return Err(self.unsupported(inst)) };
        let mut operands = data.operands.iter();
        let (mut text, mut values) = (String::new(), Vec::new());
        for piece in pieces(format) {
            let conversion = match piece {
                FormatPiece::Conversion(conversion) => conversion,
                FormatPiece::Text(plain) | FormatPiece::Malformed(plain) => {
                    text.push_str(&plain.replace('%', "%%"));
                    continue;
                }
            };
            let Some(&operand) = operands.next() else {
                text.push_str(&conversion.text.replace('%', "%%"));
                continue;
            };
            let ValueRep::Uniform(value) = self.rep(operand)? else { return Err(self.unsupported(inst)) };
            values.push(self.printed(conversion, value, self.scalar_of(operand)?, &mut text));
        }
        let types: Vec<Ty> = values.iter().map(|&value| ir.type_of(value)).collect();
        let block = match values.is_empty() {
            true => ir.zero(ir.ptr()),
            false => {
                let structure = ir.structure(&types);
                let block = ir.alloca(structure);
                let mut all = ir.poison(structure);
                for (index, &value) in values.iter().enumerate() {
                    all = ir.insert_field(all, value, index as u32);
                }
                ir.set(block, all);
                block
            }
        };
        let print = ir.external(c"vprintf", &[ir.ptr(), ir.ptr()], ir.int(32));
        ir.call(print, &[ir.text(&text), block]);
        Ok(())
    }

    /// Writes a conversion for `printf` and gives the value it takes.
    fn printed(&self, conversion: FormatConversion<'_>, value: Val, from: Scalar, text: &mut String) -> Val {
        let ir = self.ir;
        let to = |scalar| cast::cast(&self.arith, value, from, scalar);
        let before = conversion.text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        // A number that `%s` is given is shown whole, because a precision would mean its digits.
        let before = match conversion.letter {
            's' if from != Scalar::Bool => before.split('.').next().unwrap_or(before),
            _ => before,
        };
        text.push_str(before);
        match conversion.letter {
            'c' => {
                text.push('c');
                to(Scalar::I32)
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
                text.push_str("ll");
                // `%d` of an unsigned number is that number.
                let letter = if conversion.letter != 'd' || from != Scalar::U64 { conversion.letter } else { 'u' };
                text.push(letter);
                match from {
                    _ if from.is_unsigned_int() => to(Scalar::U64),
                    // A negative number is printed by its bits for `%u` and `%x`.
                    _ if from.is_signed_int() && !matches!(letter, 'd' | 'i') => ir.int_cast(value, ir.int(64)),
                    _ => to(Scalar::I64),
                }
            }
            's' if from == Scalar::Bool => {
                text.push('s');
                ir.select(value, ir.text("True"), ir.text("False"))
            }
            's' if from.is_float() => {
                // `printf` has no shortest form; this many digits tell all numbers apart.
                let digits = match from {
                    Scalar::BF16 => 4,
                    Scalar::F16 => 5,
                    Scalar::F32 => 9,
                    _ => 17,
                };
                text.push_str(&format!(".{digits}g"));
                to(Scalar::F64)
            }
            's' if from.is_unsigned_int() => {
                text.push_str("llu");
                to(Scalar::U64)
            }
            's' => {
                text.push_str("lld");
                to(Scalar::I64)
            }
            letter => {
                text.push(letter);
                to(Scalar::F64)
            }
        }
    }
}
