//! Operations on scalars.

use super::body::FunctionWriter;
use super::expression::Precedence;
use super::prelude::Helper;
use super::target::TextTarget;
use super::types;
use polyloom_ir::{Inst, InstData, Op, Scalar, Type, Value, ValueDef};
use std::fmt::Write as _;

/// Says how far back operands are looked at for being constants.
const MAX_CONSTANT_DEPTH: u32 = 8;

impl FunctionWriter<'_, '_> {
    pub(super) fn scalar(&mut self, data: &InstData, result: Value, ty: Scalar) {
        use Precedence::*;
        self.unit.need_scalar(ty);
        let func = self.func;
        let operand = data.operands.first().and_then(|&v| func.ty(v).as_scalar()).unwrap_or(ty);
        match data.op {
            Op::Mul if self.is_rounded_product(result) => {
                self.out.push_str(if ty == Scalar::F32 { "__fmul_rn(" } else { "__dmul_rn(" });
                self.list(&data.operands);
                self.out.push(')');
            }
            Op::Add => self.ring(data, ty, " + ", Sum, Sum, Product),
            Op::Sub if self.is_difference_of_integer(data, ty) => {
                self.value(data.operands[0], Sum);
                self.unit.need(Helper::Converted);
                let _ = write!(self.out, " - converted<{}>(", types::scalar(ty));
                if let Some(inst) = self.folded_inst(data.operands[1]) {
                    self.value(func.insts[inst].operands[0], Any);
                }
                self.out.push(')');
            }
            Op::Sub => self.ring(data, ty, " - ", Sum, Sum, Product),
            Op::Mul => self.ring(data, ty, " * ", Product, Product, Unary),
            Op::Neg if ty.is_float() => {
                if let Some(half) = self.half_of(data.operands[0]) {
                    self.unit.need_for(Helper::HalfNegation, half);
                }
                self.prefix("-", data);
            }
            Op::Neg => self.negation(data, ty),
            Op::Div if ty.is_float() => self.binary(data, " / ", Product, Unary),
            Op::Div if self.has_plain_divisor(data, ty) => self.narrow(ty, |b| b.binary(data, " / ", Product, Unary)),
            Op::Mod if self.has_plain_divisor(data, ty) => self.narrow(ty, |b| b.binary(data, " % ", Product, Unary)),
            Op::FloorDiv => self.narrow(ty, |b| b.binary(data, " / ", Product, Unary)),
            Op::Div => self.call(Helper::Divide, &data.operands),
            Op::Mod => self.call(Helper::Remainder, &data.operands),
            Op::Eq => self.compared(data, " == ", Shift),
            Op::Ne => self.compared(data, " != ", Shift),
            Op::Lt => self.compared(data, " < ", Shift),
            Op::Le => self.compared(data, " <= ", Shift),
            Op::Gt => self.compared(data, " > ", Shift),
            Op::Ge => self.compared(data, " >= ", Shift),
            Op::BitAnd | Op::BitOr if ty == Scalar::Bool => {
                let (sign, precedence) = if data.op == Op::BitAnd { (" && ", And) } else { (" || ", Or) };
                self.logical_operand(data.operands[0], precedence);
                self.out.push_str(sign);
                // Equal operators need no parentheses, but values on the right of their own kind keep theirs.
                self.logical_operand(data.operands[1], precedence);
            }
            Op::BitXor if ty == Scalar::Bool => self.binary(data, " != ", Shift, Shift),
            Op::BitAnd => self.bit_operation(data, ty, " & ", BitAnd),
            Op::BitOr => self.bit_operation(data, ty, " | ", BitOr),
            Op::BitXor => self.bit_operation(data, ty, " ^ ", BitXor),
            Op::Not => self.prefix("!", data),
            Op::Invert => self.narrow(ty, |b| b.prefix("~", data)),
            Op::Lshift if self.has_plain_count(data, ty) => self.shifted(data, ty, " << "),
            Op::Rshift if self.has_plain_count(data, ty) => self.shifted(data, ty, " >> "),
            Op::Lshift => self.call(Helper::ShiftLeft, &data.operands),
            Op::Rshift => self.call(Helper::ShiftRight, &data.operands),
            Op::Cast => self.cast(data, operand, ty),
            Op::Bitcast => {
                self.unit.need(Helper::Bitcast);
                let _ = write!(self.out, "bitcast<{}>(", types::scalar(ty));
                self.list(&data.operands);
                self.out.push(')');
            }
            Op::Abs if ty.is_unsigned_int() => self.value(data.operands[0], Postfix),
            op => match prelude_function(op) {
                Some(helper) => self.function(helper, data, ty),
                None => self.unsupported(data),
            },
        }
    }

    /// The operator of an operation on scalars that a compound assignment can stand for.
    pub(super) fn compound_operator(&self, data: &InstData, result: Value) -> Option<&'static str> {
        let ty = self.scalar_of(result)?;
        Some(match data.op {
            _ if ty == Scalar::Bool || ty.is_half() || self.func.ty(data.operands[1]) != Type::Scalar(ty) => {
                return None;
            }
            Op::Mul if self.is_rounded_product(result) => return None,
            // Adding a negative number is written as subtracting.
            Op::Add | Op::Sub
                if self.func.as_const(data.operands[1]).is_some_and(|bits| types::is_negative(ty, bits)) =>
            {
                return None;
            }
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul if ty != Scalar::U16 => "*",
            Op::Div if ty.is_float() => "/",
            Op::BitAnd => "&",
            Op::BitOr => "|",
            Op::BitXor => "^",
            _ => return None,
        })
    }

    /// The right side of a compound assignment.
    pub(super) fn changed_by(&mut self, data: &InstData, result: Value) {
        let value = data.operands[1];
        let wraps = match self.scalar_of(result) {
            Some(ty) if ty.bits() >= 32 && matches!(data.op, Op::Add | Op::Sub | Op::Mul) => {
                ty.is_signed_int() && self.wraps(data, ty)
            }
            _ => false,
        };
        let Some(ty) = self.scalar_of(value).filter(|_| wraps) else {
            self.value(value, Precedence::Any);
            return;
        };
        // An unsigned operand makes the arithmetic unsigned.
        match self.folded_inst(value).and_then(|_| self.func.as_const(value)) {
            Some(bits) => {
                let _ = write!(self.out, "{bits}{}", if ty == Scalar::I64 { "ull" } else { "u" });
            }
            None if self.shape(value).is_modular => self.bits(value, Precedence::Any),
            None => {
                let unsigned = types::unsigned(ty);
                self.unit.need_scalar(unsigned);
                let _ = write!(self.out, "{}(", types::scalar(unsigned));
                self.bits(value, Precedence::Any);
                self.out.push(')');
            }
        }
    }

    /// Writes the opposite of a condition.
    pub(super) fn negated(&mut self, condition: Value) {
        let comparison = self.folded_inst(condition).map(|inst| &self.func.insts[inst]).filter(|data| {
            let is_int = |&v: &Value| self.scalar_of(v).is_some_and(|ty| !ty.is_float());
            data.operands.first().is_some_and(is_int)
        });
        match comparison.and_then(|data| Some((data, data.op.inverse(false)?))) {
            Some((data, op)) => {
                let data = InstData { op, ..data.clone() };
                self.scalar(&data, condition, Scalar::Bool);
            }
            None => {
                self.out.push('!');
                self.value(condition, Precedence::Unary);
            }
        }
    }

    /// Returns true if an integer is converted to be subtracted from what may be a constant zero to compilers.
    fn is_difference_of_integer(&self, data: &InstData, ty: Scalar) -> bool {
        let converts = |inst: Inst| {
            let data = &self.func.insts[inst];
            data.op == Op::Cast && self.scalar_of(data.operands[0]).is_some_and(|from| !from.is_float())
        };
        self.unit.target() == TextTarget::Cpp
            && matches!(ty, Scalar::F32 | Scalar::F64)
            && self.folded_inst(data.operands[1]).is_some_and(converts)
            && self.is_made_of_constants(data.operands[0], MAX_CONSTANT_DEPTH)
    }

    fn is_made_of_constants(&self, value: Value, depth: u32) -> bool {
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return false };
        let data = &self.func.insts[inst];
        let is_computed = data.regions.is_empty() && data.op.info().is_pure() && data.op != Op::Dim;
        data.op == Op::Const
            || !data.operands.is_empty()
                && is_computed
                && (depth == 0 || data.operands.iter().all(|&operand| self.is_made_of_constants(operand, depth - 1)))
    }

    /// Writes a call of a function that the prelude has for `float`, `double` and integers.
    fn function(&mut self, helper: Helper, data: &InstData, ty: Scalar) {
        if !ty.is_half() {
            self.call(helper, &data.operands);
            return;
        }
        // A fused product of 16-bit numbers is exact in `double`.
        let wide = if data.op == Op::Fma { Scalar::F64 } else { Scalar::F32 };
        self.unit.need_for(helper, wide);
        let wide = types::scalar(wide);
        // In braces, because g++ takes `float16(min(float(x), float(x)))` in a condition for a declaration.
        let _ = write!(self.out, "{}{{{}(", types::scalar(ty), helper.name());
        for (index, &operand) in data.operands.iter().enumerate() {
            let _ = write!(self.out, "{}{wide}(", if index > 0 { ", " } else { "" });
            self.value(operand, Precedence::Any);
            self.out.push(')');
        }
        self.out.push_str(")}");
    }

    /// Writes something of a type narrower than `int`, which C++ computes as `int`.
    fn narrow(&mut self, ty: Scalar, write: impl FnOnce(&mut Self)) {
        let narrow = ty.is_int() && ty.bits() < 32;
        if narrow {
            let _ = write!(self.out, "{}(", types::scalar(ty));
        }
        write(self);
        if narrow {
            self.out.push(')');
        }
    }

    fn half_of(&self, value: Value) -> Option<Scalar> {
        self.scalar_of(value).filter(|ty| ty.is_half())
    }

    fn prefix(&mut self, sign: &str, data: &InstData) {
        self.out.push_str(sign);
        let value = data.operands[0];
        // Operands with a sign stand in parentheses, because two signs in a row may be another operator, such as `--`.
        let twice = self.shape(value).precedence == Precedence::Unary;
        self.value(value, if twice { Precedence::Postfix } else { Precedence::Unary });
    }

    fn binary(&mut self, data: &InstData, sign: &str, left: Precedence, right: Precedence) {
        let operator = match data.op {
            Op::Add => Some(Helper::HalfSum),
            Op::Sub => Some(Helper::HalfDifference),
            Op::Mul => Some(Helper::HalfProduct),
            Op::Div => Some(Helper::HalfQuotient),
            _ => None,
        };
        if let (Some(operator), Some(half)) = (operator, self.half_of(data.operands[0])) {
            self.unit.need_for(operator, half);
        }
        self.value(data.operands[0], left);
        self.out.push_str(sign);
        self.value(data.operands[1], right);
    }

    fn compared(&mut self, data: &InstData, sign: &str, side: Precedence) {
        if data.operands[0] == data.operands[1] {
            self.unit.compares_with_limits();
        }
        if let Some(ty) = self.scalar_of(data.operands[0]).filter(|ty| ty.is_int()) {
            let ends = [0, 1 << (ty.bits() - 1), u64::MAX >> (64 - ty.bits()), u64::MAX >> (65 - ty.bits())];
            let is_end = |&value: &Value| self.func.as_const(value).is_some_and(|bits| ends.contains(&bits));
            if data.operands.iter().any(is_end) {
                self.unit.compares_with_limits();
            }
        }
        let constants = [data.operands[1], data.operands[0]].map(|other| self.written_constant(other));
        let is_equality = matches!(data.op, Op::Eq | Op::Ne);
        for (index, (&value, other)) in data.operands.iter().zip(constants).enumerate() {
            if index > 0 {
                self.out.push_str(sign);
            }
            // Unsigned beside a number that is not negative, it compares alike, because equal, or if it is not negative
            // itself.
            let is_alike = self.shape(value).is_modular
                && other.is_some_and(|bits| bits >> 31 == 0 && (is_equality || bits > 0))
                && self.scalar_of(value) == Some(Scalar::I32)
                && (is_equality || self.intervals.of(value).low >= 0);
            if is_alike {
                self.bits(value, side)
            } else {
                self.value(value, side)
            };
        }
    }

    /// A sum, difference or product.
    fn ring(
        &mut self,
        data: &InstData,
        ty: Scalar,
        sign: &'static str,
        precedence: Precedence,
        left: Precedence,
        right: Precedence,
    ) {
        let [a, b] = [data.operands[0], data.operands[1]];
        if ty.is_float() || ty.is_unsigned_int() && ty.bits() >= 32 {
            self.binary(data, sign, left, right);
            return;
        }
        if ty.bits() >= 32 && !self.wraps(data, ty) {
            self.exact(data, ty, sign, left, right);
            return;
        }
        if ty.bits() < 32 {
            // Sums and products of narrow numbers fit `int`, but for products of 16 unsigned bits.
            let unsigned = ty == Scalar::U16 && precedence == Precedence::Product;
            self.narrow(ty, |body| {
                if unsigned {
                    body.unit.need_scalar(Scalar::U32);
                    body.out.push_str("uint32(");
                    body.value(a, Precedence::Any);
                    body.out.push_str(") * ");
                    body.value(b, right);
                } else {
                    body.binary(data, sign, left, right);
                }
            });
            return;
        }
        let mask = u64::MAX >> (64 - ty.bits());
        let suffix = if ty == Scalar::I64 { "ull" } else { "u" };
        if let Some(bits) = self.written_constant(b) {
            // Adding a negative number is subtracting a positive one.
            let minus = bits.wrapping_neg() & mask;
            let (sign, bits) = match sign {
                " + " if minus < bits => (" - ", minus),
                " - " if minus < bits => (" + ", minus),
                _ => (sign, bits),
            };
            self.bits(a, left);
            let _ = write!(self.out, "{sign}{bits}{suffix}");
        } else if let Some(bits) = self.written_constant(a) {
            let _ = write!(self.out, "{bits}{suffix}{sign}");
            self.bits(b, right);
        } else if self.shape(a).is_modular || self.shape(b).is_modular {
            self.as_unsigned(a, ty, left);
            self.out.push_str(sign);
            self.as_unsigned(b, ty, right);
        } else {
            let unsigned = types::unsigned(ty);
            self.unit.need_scalar(unsigned);
            let _ = write!(self.out, "{}(", types::scalar(unsigned));
            self.bits(a, Precedence::Any);
            self.out.push(')');
            self.out.push_str(sign);
            self.bits(b, right);
        }
    }

    /// A sum, difference or product of signed integers that does not overflow.
    fn exact(&mut self, data: &InstData, ty: Scalar, sign: &'static str, left: Precedence, right: Precedence) {
        let [a, b] = [data.operands[0], data.operands[1]];
        let is_unsigned = self.shape(a).is_modular || self.shape(b).is_modular;
        let write = |body: &mut Self, value: Value, least: Precedence| match is_unsigned {
            true => body.as_unsigned(value, ty, least),
            false => body.value(value, least),
        };
        write(self, a, left);
        let opposite = match sign {
            " + " => Some(" - "),
            " - " => Some(" + "),
            _ => None,
        };
        // Adding a negative number is subtracting a positive one.
        let (least, is_constant) = (self.intervals.of(b).low, self.written_constant(b).is_some());
        match opposite.filter(|_| is_constant && least < 0 && least > i64::MIN.into()) {
            Some(opposite) if ty != Scalar::I32 || least > i32::MIN.into() => {
                self.out.push_str(opposite);
                self.constant(ty, -least as u64);
            }
            _ => {
                self.out.push_str(sign);
                write(self, b, right);
            }
        }
    }

    /// An operand of unsigned arithmetic. What is computed as signed is converted explicitly: compilers convert the
    /// constants in it otherwise, and warn of negative ones.
    fn as_unsigned(&mut self, value: Value, ty: Scalar, least: Precedence) {
        let shape = self.shape(value);
        if shape.is_modular || shape.precedence == Precedence::Postfix {
            self.bits(value, least);
            return;
        }
        let unsigned = types::unsigned(ty);
        self.unit.need_scalar(unsigned);
        let _ = write!(self.out, "{}(", types::scalar(unsigned));
        self.bits(value, Precedence::Any);
        self.out.push(')');
    }

    fn negation(&mut self, data: &InstData, ty: Scalar) {
        if ty.bits() < 32 {
            self.narrow(ty, |body| body.prefix("-", data));
        } else if ty.is_unsigned_int() || !self.wraps(data, ty) {
            self.prefix("-", data);
        } else {
            let unsigned = types::unsigned(ty);
            self.unit.need_scalar(unsigned);
            let _ = write!(self.out, "-{}(", types::scalar(unsigned));
            self.bits(data.operands[0], Precedence::Any);
            self.out.push(')');
        }
    }

    fn bit_operation(&mut self, data: &InstData, ty: Scalar, sign: &str, precedence: Precedence) {
        // Operators of other kinds stand in parentheses, because compilers warn of them beside these.
        let side = |body: &Self, v: Value| {
            if body.shape(v).precedence == precedence { precedence } else { Precedence::Unary }
        };
        let is_unsigned = ty.is_unsigned_int() || data.operands.iter().any(|&v| self.shape(v).is_modular);
        self.narrow(ty, |body| {
            for (index, &operand) in data.operands.iter().enumerate() {
                if index > 0 {
                    body.out.push_str(sign);
                }
                match body.folded_inst(operand).and_then(|_| body.func.as_const(operand)) {
                    Some(bits) if is_unsigned && ty.bits() >= 32 => {
                        let suffix = if ty.bits() == 64 { "ull" } else { "u" };
                        let _ = match bits {
                            0..256 => write!(body.out, "{bits}{suffix}"),
                            _ => write!(body.out, "{bits:#x}{suffix}"),
                        };
                    }
                    _ => {
                        let least = side(body, operand);
                        body.bits(operand, if index > 0 { least.max(precedence) } else { least });
                    }
                }
            }
        });
    }

    fn shifted(&mut self, data: &InstData, ty: Scalar, sign: &str) {
        let left = data.op == Op::Lshift && ty.is_signed_int();
        self.narrow(ty, |body| {
            let constant = body.written_constant(data.operands[0]);
            if let Some(bits) = constant.filter(|_| left && ty.bits() >= 32) {
                let _ = write!(body.out, "{bits}{}", if ty == Scalar::I64 { "ull" } else { "u" });
            } else if left && !body.shape(data.operands[0]).is_modular {
                let unsigned = if ty == Scalar::I64 { Scalar::U64 } else { Scalar::U32 };
                body.unit.need_scalar(unsigned);
                let _ = write!(body.out, "{}(", types::scalar(unsigned));
                body.bits(data.operands[0], Precedence::Any);
                body.out.push(')');
            } else if data.op == Op::Lshift {
                body.bits(data.operands[0], Precedence::Unary);
            } else {
                body.value(data.operands[0], Precedence::Unary);
            }
            body.out.push_str(sign);
            match body.written_constant(data.operands[1]) {
                Some(count) => {
                    let _ = write!(body.out, "{count}");
                }
                None => body.value(data.operands[1], Precedence::Unary),
            }
        });
    }

    fn cast(&mut self, data: &InstData, from: Scalar, to: Scalar) {
        let value = data.operands[0];
        match (from, to) {
            _ if from == to => self.value(value, Precedence::Postfix),
            (_, Scalar::Bool) => {
                self.value(value, Precedence::Relation);
                let _ = write!(
                    self.out,
                    " != {}",
                    if from == Scalar::F64 {
                        "0.0"
                    } else if from.is_float() {
                        "0.0f"
                    } else {
                        "0"
                    }
                );
            }
            (_, _) if from.is_float() && to.is_int() => {
                self.unit.need(Helper::Truncate);
                let _ = write!(self.out, "truncate<{}>(", types::scalar(to));
                if from.is_half() {
                    self.out.push_str("float(");
                }
                self.value(value, Precedence::Any);
                self.out.push_str(if from.is_half() { "))" } else { ")" });
            }
            // Rounded to `double` first, where that makes a difference.
            (Scalar::I64 | Scalar::U64, Scalar::F16 | Scalar::BF16) => {
                let _ = write!(self.out, "{}(double(", types::scalar(to));
                self.value(value, Precedence::Any);
                self.out.push_str("))");
            }
            (_, Scalar::F16 | Scalar::BF16) if from != Scalar::F32 && from != Scalar::F64 => {
                let _ =
                    write!(self.out, "{}({}(", types::scalar(to), if from.bits() > 16 { "double" } else { "float" });
                self.value(value, Precedence::Any);
                self.out.push_str("))");
            }
            (Scalar::I32, Scalar::I64) if self.is_block_number(value) => self.out.push_str("int64(block)"),
            _ => {
                let _ = write!(self.out, "{}(", types::scalar(to));
                if from.is_int() && to.is_int() && from.bits() >= to.bits() {
                    self.bits(value, Precedence::Any);
                } else {
                    self.value(value, Precedence::Any);
                }
                self.out.push(')');
            }
        }
    }

    /// Returns true if a product must be written so that no compiler makes it part of a fused multiply-add: one of CUDA
    /// code that may meet a sum.
    pub(super) fn is_rounded_product(&self, product: Value) -> bool {
        let is_float = matches!(self.func.ty(product), Type::F32 | Type::F64);
        self.unit.target() == TextTarget::Cuda && self.is_strict && is_float && self.may_meet_a_sum(product)
    }

    fn may_meet_a_sum(&self, value: Value) -> bool {
        self.users[value].iter().any(|&user| {
            let data = &self.func.insts[user];
            match data.op {
                Op::Mul | Op::Div | Op::Sqrt | Op::Floor | Op::Ceil | Op::Trunc | Op::Rint | Op::Cast | Op::Print => {
                    false
                }
                Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => false,
                Op::ArrayStore => !self.is_only_written(data.operands[0]),
                _ => true,
            }
        })
    }
}

/// Returns the function of the prelude that computes an op for `float`, `double` and integers.
fn prelude_function(op: Op) -> Option<Helper> {
    Some(match op {
        Op::Min => Helper::Min,
        Op::Max => Helper::Max,
        Op::Abs => Helper::Abs,
        Op::Sqrt => Helper::Sqrt,
        Op::Floor => Helper::Floor,
        Op::Ceil => Helper::Ceil,
        Op::Trunc => Helper::Trunc,
        Op::Rint => Helper::Rint,
        Op::Fma => Helper::Fma,
        _ => return None,
    })
}
