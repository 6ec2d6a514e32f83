//! Atomic updates, printing, and library ops that are statements.

use super::body::FunctionWriter;
use super::expression::Precedence;
use super::prelude::Helper;
use super::target::TextTarget;
use super::unit::DefinitionCallee;
use polyloom_ir::format::{FormatPiece, pieces};
use polyloom_ir::function::MemoryScope;
use polyloom_ir::{Imm, Inst, InstData, Op, Scalar, Type, Value};
use std::fmt::Write as _;

impl FunctionWriter<'_, '_> {
    /// An atomic update of an element.
    pub(super) fn atomic(&mut self, inst: Inst, data: &InstData) {
        let func = self.func;
        let n_values = if data.op == Op::AtomicCas { 2 } else { 1 };
        let (indices, values) = data.operands[1..].split_at(data.operands.len() - 1 - n_values);
        let ty = func.ty(values[0]);
        let cuda = match ty.as_scalar() {
            Some(ty) if self.unit.target() == TextTarget::Cuda => cuda_atomic(data.op, ty),
            _ => None,
        };
        let scope = match data.imm {
            Imm::Memory(order) if self.unit.target() == TextTarget::Cuda => order.scope,
            _ => MemoryScope::Device,
        };
        if let Some(name) = cuda {
            let scope = match scope {
                MemoryScope::Thread | MemoryScope::Block => "_block",
                MemoryScope::Device => "",
                MemoryScope::System => "_system",
            };
            let _ = write!(self.out, "{name}{scope}(&");
            self.element(inst, data.operands[0], indices);
        } else {
            let helper = atomic_helper(data.op);
            match ty {
                Type::Composite(composite) => self.unit.need_for(
                    match (data.op, self.shared_array(data.operands[0]).is_some()) {
                        (Op::AtomicSub, false) => Helper::CompositeSub,
                        (Op::AtomicMin, false) => Helper::CompositeMin,
                        (Op::AtomicMax, false) => Helper::CompositeMax,
                        (_, false) => Helper::CompositeAdd,
                        (Op::AtomicSub, true) => Helper::SharedCompositeSub,
                        (Op::AtomicMin, true) => Helper::SharedCompositeMin,
                        (Op::AtomicMax, true) => Helper::SharedCompositeMax,
                        (_, true) => Helper::SharedCompositeAdd,
                    },
                    composite.elem(),
                ),
                ty => {
                    let ty = ty.as_scalar().unwrap_or(Scalar::I32);
                    self.unit.need_scalar(ty);
                    self.unit.need_for(helper, ty);
                }
            }
            if scope != MemoryScope::Device {
                self.unit.need(Helper::AtomicScopes);
            }
            let scope = match scope {
                MemoryScope::Thread | MemoryScope::Block => "<block_scope>",
                MemoryScope::Device => "",
                MemoryScope::System => "<system_scope>",
            };
            let _ = write!(self.out, "{}{scope}(", helper.name());
            self.element(inst, data.operands[0], indices);
        }
        for &value in values {
            self.out.push_str(", ");
            self.whole(value);
        }
        self.out.push(')');
    }

    /// A library op without a result, or with several.
    pub(super) fn library_statement(&mut self, data: &InstData) {
        let types: Vec<Type> = data.operands.iter().map(|&v| self.func.ty(v)).collect();
        let results: Vec<Type> = data.results.iter().map(|&v| self.func.ty(v)).collect();
        let (name, is_widened) = match self.unit.definition(data.op, &types, &results) {
            Some(DefinitionCallee::Function(name)) => (name, false),
            Some(DefinitionCallee::Widened(name)) => (name, true),
            _ => {
                self.unit.refuse(format!("`{}` has no form in C++", data.op.name()), data.span);
                return;
            }
        };
        let _ = write!(self.out, "{name}(");
        for (index, &operand) in data.operands.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            if is_widened && self.scalar_of(operand).is_some_and(Scalar::is_half) {
                self.out.push_str("float(");
                self.value(operand, Precedence::Any);
                self.out.push(')');
            } else {
                self.value(operand, Precedence::Any);
            }
        }
        self.out.push(')');
    }

    /// `printf` with a conversion for each value that fits its type.
    pub(super) fn print_call(&mut self, data: &InstData) {
        let Imm::Text(format) = &data.imm else { return };
        self.unit.need_printf();
        let mut text = String::new();
        let mut arguments: Vec<(Value, &'static str)> = Vec::new();
        for piece in pieces(format) {
            match piece {
                FormatPiece::Text(piece) => text.push_str(&piece.replace('%', "%%")),
                FormatPiece::Malformed(piece) => text.push_str(&piece.replace('%', "%%")),
                FormatPiece::Conversion(conversion) => {
                    let Some(&value) = data.operands.get(arguments.len()) else {
                        text.push_str(&conversion.text.replace('%', "%%"));
                        continue;
                    };
                    let ty = self.scalar_of(value).unwrap_or(Scalar::I32);
                    let (letters, convert) = conversion_of(conversion.letter, ty);
                    let flags = conversion.text.trim_end_matches(char::is_alphabetic);
                    let flags = if letters == "s" { "%" } else { flags };
                    text.push_str(flags);
                    text.push_str(letters);
                    arguments.push((value, convert));
                }
            }
        }
        let _ = write!(self.out, "printf({}", literal(&text));
        for (value, convert) in arguments {
            self.out.push_str(", ");
            match convert {
                "" => self.value(value, Precedence::Any),
                "truth" => {
                    self.value(value, Precedence::Or);
                    self.out.push_str(" ? \"True\" : \"False\"");
                }
                convert => {
                    let _ = write!(self.out, "{convert}(");
                    self.value(value, Precedence::Any);
                    self.out.push(')');
                }
            }
        }
        self.out.push(')');
    }
}

/// A string of C++.
fn literal(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            // The second of two is escaped, because `??` began another spelling of some signs once.
            '?' if literal.ends_with('?') => literal.push_str("\\?"),
            // Three digits, so that none that follows is taken for one of them.
            c if c.is_ascii_control() => literal.push_str(&format!("\\{:03o}", u32::from(c))),
            c => literal.push(c),
        }
    }
    literal + "\""
}

/// The letters of a conversion for a value of this type, and the type to convert it to first.
fn conversion_of(letter: char, ty: Scalar) -> (&'static str, &'static str) {
    let is_wide = ty.bits() == 64;
    match letter {
        'f' => ("f", "double"),
        'F' => ("F", "double"),
        'e' => ("e", "double"),
        'E' => ("E", "double"),
        'g' => ("g", "double"),
        'G' => ("G", "double"),
        'c' => ("c", "int"),
        's' if ty == Scalar::Bool => ("s", "truth"),
        's' if ty.is_float() => ("g", "double"),
        'd' | 'i' if ty.is_float() => ("lld", "(long long)"),
        'd' | 'i' | 's' if is_wide && ty.is_signed_int() => ("lld", ""),
        // `%d` of an unsigned number is that number.
        'd' | 'i' | 's' if is_wide => ("llu", ""),
        'd' | 'i' | 's' if ty == Scalar::U32 => ("u", ""),
        'd' | 'i' | 's' => ("d", if ty == Scalar::I32 { "" } else { "int" }),
        'u' if is_wide => ("llu", "(unsigned long long)"),
        'x' if is_wide => ("llx", "(unsigned long long)"),
        'X' if is_wide => ("llX", "(unsigned long long)"),
        'o' if is_wide => ("llo", "(unsigned long long)"),
        'u' => ("u", "(unsigned int)"),
        'x' => ("x", "(unsigned int)"),
        'X' => ("X", "(unsigned int)"),
        _ => ("o", "(unsigned int)"),
    }
}

fn atomic_helper(op: Op) -> Helper {
    match op {
        Op::AtomicSub => Helper::AtomicSub,
        Op::AtomicMin => Helper::AtomicMin,
        Op::AtomicMax => Helper::AtomicMax,
        Op::AtomicAnd => Helper::AtomicAnd,
        Op::AtomicOr => Helper::AtomicOr,
        Op::AtomicXor => Helper::AtomicXor,
        Op::AtomicCas => Helper::AtomicCas,
        Op::AtomicExch => Helper::AtomicExch,
        Op::AtomicInc => Helper::AtomicInc,
        Op::AtomicDec => Helper::AtomicDec,
        _ => Helper::AtomicAdd,
    }
}

/// CUDA's own function for an atomic update, if it has one (CUDA C++ Programming Guide, "Atomic Functions").
fn cuda_atomic(op: Op, ty: Scalar) -> Option<&'static str> {
    use Scalar::{F32, F64, I32, I64, U32, U64};
    Some(match (op, ty) {
        (Op::AtomicAdd, I32 | U32 | U64 | F32 | F64) => "atomicAdd",
        (Op::AtomicSub, I32 | U32) => "atomicSub",
        (Op::AtomicMin, I32 | U32 | I64 | U64) => "atomicMin",
        (Op::AtomicMax, I32 | U32 | I64 | U64) => "atomicMax",
        (Op::AtomicAnd, I32 | U32 | U64) => "atomicAnd",
        (Op::AtomicOr, I32 | U32 | U64) => "atomicOr",
        (Op::AtomicXor, I32 | U32 | U64) => "atomicXor",
        (Op::AtomicExch, I32 | U32 | U64 | F32) => "atomicExch",
        (Op::AtomicCas, I32 | U32 | U64) => "atomicCAS",
        (Op::AtomicInc, U32) => "atomicInc",
        (Op::AtomicDec, U32) => "atomicDec",
        _ => return None,
    })
}
