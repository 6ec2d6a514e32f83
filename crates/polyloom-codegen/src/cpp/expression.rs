//! Expressions: values written where they are used.
//!
//! An integer expression that may overflow is computed in an unsigned type, where C++ says that it wraps: `i + 1u`. The
//! text of such an expression has the unsigned type; where the type matters it is converted back, `int(i + 1u)`, and
//! where a variable is assigned that happens by itself.

use super::body::FunctionWriter;
use super::plan::is_table;
use super::prelude::Helper;
use super::target::TextTarget;
use super::types;
use super::unit::DefinitionCallee;
use polyloom_ir::analysis::interval::Interval;
use polyloom_ir::op::Lowering;
use polyloom_ir::{Composite, Imm, Inst, InstData, Op, Scalar, Type, Value, ValueDef};
use std::fmt::Write as _;

/// Describes how tightly an expression holds together, from `? :` to a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Precedence {
    /// Anything.
    Any,
    Conditional,
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equality,
    Relation,
    Shift,
    Sum,
    Product,
    Unary,
    Postfix,
}

/// Describes how many places an axis has.
#[derive(Clone, Copy)]
enum AxisLength {
    Known(u32),
    /// As an array has along the axis of this number.
    Of(Value, usize),
}

/// Describes what an expression looks like from outside.
#[derive(Clone, Copy)]
pub(super) struct ExpressionShape {
    pub(super) precedence: Precedence,
    /// True if its type is the unsigned one of the value's width.
    pub(super) is_modular: bool,
}

const CALL: ExpressionShape = ExpressionShape { precedence: Precedence::Postfix, is_modular: false };

fn exact(precedence: Precedence) -> ExpressionShape {
    ExpressionShape { precedence, is_modular: false }
}

impl FunctionWriter<'_, '_> {
    /// The instruction that a value is the folded result of.
    pub(super) fn folded_inst(&self, value: Value) -> Option<Inst> {
        match self.func.values[value].def {
            ValueDef::Result(inst, _) if self.plan.folded.contains(value) => Some(inst),
            _ => None,
        }
    }

    /// The bits of a constant that is written where it is used, not a variable: one of its own, or a component of a
    /// composite.
    pub(super) fn written_constant(&self, value: Value) -> Option<u64> {
        let data = &self.func.insts[self.folded_inst(value)?];
        self.func.as_const(value).or_else(|| self.constant_component(data))
    }

    pub(super) fn scalar_of(&self, value: Value) -> Option<Scalar> {
        self.func.ty(value).as_scalar()
    }

    /// Writes a value of its own type.
    pub(super) fn value(&mut self, value: Value, least: Precedence) {
        if self.shared_array(value).is_some() {
            self.static_view(value);
            return;
        }
        let shape = self.shape(value);
        if shape.is_modular
            && let Some(ty) = self.scalar_of(value)
        {
            self.out.push_str(types::scalar(ty));
            self.out.push('(');
            self.raw(value);
            self.out.push(')');
            return;
        }
        self.bits(value, least);
    }

    /// Writes a value of its own type or of the unsigned one of its width: for what is converted anyway.
    pub(super) fn bits(&mut self, value: Value, least: Precedence) {
        let parenthesised = self.shape(value).precedence < least;
        if parenthesised {
            self.out.push('(');
        }
        self.raw(value);
        if parenthesised {
            self.out.push(')');
        }
    }

    pub(super) fn shape(&self, value: Value) -> ExpressionShape {
        let Some(inst) = self.folded_inst(value) else { return CALL };
        let data = &self.func.insts[inst];
        self.inst_shape(data, value)
    }

    /// The shape of an instruction with one result.
    fn inst_shape(&self, data: &InstData, result: Value) -> ExpressionShape {
        use Precedence::*;
        let Some(ty) = self.func.ty(result).as_scalar() else {
            return match data.op {
                Op::Add | Op::Sub => exact(Sum),
                Op::Mul | Op::Div if self.operator(data).is_some() => exact(Product),
                Op::Neg => exact(Unary),
                Op::Select | Op::If => exact(Conditional),
                _ => CALL,
            };
        };
        match data.op {
            Op::Const => match data.imm {
                Imm::Bits(bits) if types::is_negative(ty, bits) => exact(Unary),
                _ => CALL,
            },
            // Unsigned in CUDA.
            Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim => {
                ExpressionShape { precedence: Postfix, is_modular: self.unit.target() == TextTarget::Cuda }
            }
            Op::Component => match self.constant_component(data) {
                Some(bits) if types::is_negative(ty, bits) => exact(Unary),
                _ => CALL,
            },
            Op::WrapIndex if self.is_inside(data) => self.shape(data.operands[0]),
            Op::Add | Op::Sub if ty.bits() >= 32 => {
                ExpressionShape { precedence: Sum, is_modular: self.is_unsigned(data, result, ty) }
            }
            Op::Mul if ty.bits() >= 32 && self.is_rounded_product(result) => CALL,
            Op::Mul if ty.bits() >= 32 => {
                ExpressionShape { precedence: Product, is_modular: self.is_unsigned(data, result, ty) }
            }
            Op::Neg if ty.bits() >= 32 => ExpressionShape { precedence: Unary, is_modular: self.wraps(data, ty) },
            Op::Add | Op::Sub if ty.is_float() => exact(Sum),
            Op::Mul if ty.is_float() => exact(Product),
            Op::Neg if ty.is_float() => exact(Unary),
            Op::Div if ty.is_float() => exact(Product),
            Op::Div | Op::Mod if self.has_plain_divisor(data, ty) && ty.bits() >= 32 => exact(Product),
            Op::FloorDiv if ty.is_int() && ty.bits() >= 32 && self.divides_naturals(data, ty) => exact(Product),
            Op::Eq | Op::Ne => exact(Equality),
            Op::Lt | Op::Le | Op::Gt | Op::Ge => exact(Relation),
            Op::BitAnd if ty == Scalar::Bool => exact(And),
            Op::BitOr if ty == Scalar::Bool => exact(Or),
            Op::BitXor if ty == Scalar::Bool => exact(Equality),
            Op::BitAnd if ty.bits() >= 32 => self.bitwise(data, BitAnd),
            Op::BitOr if ty.bits() >= 32 => self.bitwise(data, BitOr),
            Op::BitXor if ty.bits() >= 32 => self.bitwise(data, BitXor),
            Op::Invert if ty.bits() >= 32 => exact(Unary),
            Op::Not => exact(Unary),
            Op::Lshift if self.has_plain_count(data, ty) && ty.bits() >= 32 => {
                ExpressionShape { precedence: Shift, is_modular: ty.is_signed_int() }
            }
            Op::Rshift if self.has_plain_count(data, ty) && ty.bits() >= 32 => exact(Shift),
            Op::Cast if ty == Scalar::Bool => exact(Equality),
            Op::Select => exact(Conditional),
            Op::If => match self.logical(data) {
                Some(Op::BitAnd) => exact(And),
                Some(_) => exact(Or),
                None => exact(Conditional),
            },
            _ => CALL,
        }
    }

    fn bitwise(&self, data: &InstData, precedence: Precedence) -> ExpressionShape {
        ExpressionShape { precedence, is_modular: data.operands.iter().any(|&v| self.shape(v).is_modular) }
    }

    /// Returns true if a sum, difference or product of signed integers is computed as unsigned.
    fn is_unsigned(&self, data: &InstData, result: Value, ty: Scalar) -> bool {
        if !ty.is_signed_int() {
            return false;
        }
        let known = self.unsigned.borrow()[result];
        known.unwrap_or_else(|| {
            let is_unsigned = self.wraps(data, ty) || data.operands.iter().any(|&v| self.shape(v).is_modular);
            self.unsigned.borrow_mut()[result] = Some(is_unsigned);
            is_unsigned
        })
    }

    /// Returns true if a sum, difference, product or negation of integers may overflow, so that it is computed as
    /// unsigned.
    pub(super) fn wraps(&self, data: &InstData, ty: Scalar) -> bool {
        ty.is_signed_int() && !self.intervals.is_exact(data, ty)
    }

    /// Returns true if a divisor is a constant that every dividend can be divided by.
    pub(super) fn has_plain_divisor(&self, data: &InstData, ty: Scalar) -> bool {
        let Some(divisor) = data.operands.get(1).and_then(|&v| self.func.as_const(v)) else { return false };
        let minus_one = u64::MAX >> (64 - ty.bits());
        ty.is_int() && divisor != 0 && !(ty.is_signed_int() && divisor == minus_one)
    }

    pub(super) fn has_plain_count(&self, data: &InstData, ty: Scalar) -> bool {
        data.operands.get(1).is_some_and(|&count| {
            let Interval { low, high } = self.intervals.of(count);
            low >= 0 && high < ty.bits().into()
        })
    }

    /// Tells whether an `if` is `a and b` or `a or b`: which of the two.
    fn logical(&self, data: &InstData) -> Option<Op> {
        match self.choices(data)?.map(|choice| self.func.as_const(choice)) {
            _ if data.results.first().map(|&result| self.func.ty(result)) != Some(Type::BOOL) => None,
            [None, Some(0)] => Some(Op::BitAnd),
            [Some(1), None] => Some(Op::BitOr),
            _ => None,
        }
    }

    /// Writes a value without regard to what is around it.
    pub(super) fn raw(&mut self, value: Value) {
        match self.folded_inst(value) {
            Some(inst) => self.operation(inst, value),
            None => match self.variables.of(value) {
                Some(variable) => self.out.push_str(&self.variables.all[variable].name),
                // A value that is nowhere assigned, because verified HIR has none.
                None => self.out.push('0'),
            },
        }
    }

    /// Writes what an instruction with one result computes.
    pub(super) fn operation(&mut self, inst: Inst, result: Value) {
        let func = self.func;
        let data = &func.insts[inst];
        let ty = func.ty(result);
        let on_composites =
            ty.as_composite().is_some() || data.operands.iter().any(|&v| func.ty(v).as_composite().is_some());
        if self.structural(inst, data, ty) {
            return;
        }
        if on_composites || data.op.info().lowering == Lowering::Library && !self.is_native(data, ty) {
            self.defined(data, ty);
            return;
        }
        match ty.as_scalar() {
            Some(ty) => self.scalar(data, result, ty),
            None => self.unsupported(data),
        }
    }

    pub(super) fn unsupported(&mut self, data: &InstData) {
        self.unit.refuse(format!("`{}` has no form in C++", data.op.name()), data.span);
    }

    /// A library op that is native for the types it has here.
    fn is_native(&self, data: &InstData, ty: Type) -> bool {
        match (data.op, ty.as_scalar()) {
            (Op::Mod, Some(ty)) => ty.is_int(),
            (Op::FloorDiv, Some(ty)) => ty.is_int() && self.divides_naturals(data, ty),
            _ => false,
        }
    }

    /// Returns true if dividend and divisor are such that division is floor division.
    fn divides_naturals(&self, data: &InstData, ty: Scalar) -> bool {
        let dividend_is_natural = ty.is_unsigned_int() || self.intervals.of(data.operands[0]).low >= 0;
        let divisor = self.func.as_const(data.operands[1]);
        dividend_is_natural && divisor.is_some_and(|d| d != 0 && d <= (u64::MAX >> (65 - ty.bits())))
    }

    /// Ops that are a form of the language rather than a function. False for others.
    fn structural(&mut self, inst: Inst, data: &InstData, ty: Type) -> bool {
        let func = self.func;
        match data.op {
            Op::Const => {
                if let (Imm::Bits(bits), Some(ty)) = (&data.imm, ty.as_scalar()) {
                    self.constant(ty, *bits);
                }
            }
            Op::Dim if self.shared_array(data.operands[0]).is_some() => {
                let extent =
                    self.shared_array(data.operands[0]).and_then(|a| a.extents.get(usize::from(axis(data))).copied());
                let _ = write!(self.out, "{}", extent.unwrap_or(1));
            }
            Op::Dim => {
                self.unit.need(Helper::Array);
                self.value(data.operands[0], Precedence::Postfix);
                let _ = write!(self.out, ".extent({})", axis(data));
            }
            Op::Tid if !self.locals.is_empty() => self.out.push_str("int(block)"),
            Op::Tid => {
                let _ = write!(self.out, "dim.index(thread, {})", axis(data));
            }
            Op::TidLinear => self.out.push_str("int(thread)"),
            Op::Construct => {
                self.out.push_str(&self.unit.type_name(ty));
                self.components(data);
            }
            Op::Component if let (Some(bits), Some(ty)) = (self.constant_component(data), ty.as_scalar()) => {
                self.constant(ty, bits);
            }
            Op::Component => {
                self.value(data.operands[0], Precedence::Postfix);
                if let (Imm::Component(number), Type::Composite(of)) = (&data.imm, func.ty(data.operands[0])) {
                    self.place(of, usize::from(*number));
                }
            }
            Op::ComponentAt => self.component_at(data),
            Op::WrapIndex => self.wrap_index(data),
            Op::Select => {
                self.value(data.operands[0], Precedence::Or);
                self.out.push_str(" ? ");
                self.value(data.operands[1], Precedence::Or);
                self.out.push_str(" : ");
                self.value(data.operands[2], Precedence::Conditional);
            }
            Op::If => self.conditional(data),
            Op::ArrayLoad if self.is_dynamic(data.operands[0]) => {
                self.dynamic_element(data.operands[0], data.operands[1], None);
            }
            Op::ArrayLoad => {
                let indices = &data.operands[1..];
                self.element(inst, data.operands[0], indices);
            }
            Op::LoadReadonly => self.load_readonly(inst, data, ty),
            Op::Call => self.user_call(data),
            _ if data.op.info().group == polyloom_ir::op::OpGroup::Atomic => self.atomic(inst, data),
            _ => return self.gpu(inst, data),
        }
        true
    }

    /// The component of a composite that an index chooses: of a table, of a vector in place, or by a function that
    /// bounds the index.
    fn component_at(&mut self, data: &InstData) {
        let (composite, index) = (data.operands[0], data.operands[1]);
        let ty = self.func.ty(composite);
        let Interval { low, high } = self.intervals.of(index);
        let is_inside = low >= 0 && high < ty.as_composite().map_or(0, Composite::n_components) as i128;
        if let Some(table) = self.constant_table(composite) {
            if !is_inside {
                self.unit.need(Helper::Lookup);
                self.out.push_str("lookup(");
            }
            let _ = write!(self.out, "constants::{table}{}", if is_inside { "[" } else { ", " });
            self.value(index, Precedence::Any);
            self.out.push(if is_inside { ']' } else { ')' });
        } else if is_inside && matches!(ty, Type::Composite(Composite::Vector { .. })) {
            self.value(composite, Precedence::Postfix);
            self.out.push('[');
            self.value(index, Precedence::Any);
            self.out.push(']');
        } else {
            self.unit.need(Helper::Component);
            self.out.push_str("component(");
            self.whole(composite);
            self.out.push_str(", ");
            self.value(index, Precedence::Any);
            self.out.push(')');
        }
    }

    /// An index that may count from the end of an axis of known extent.
    fn wrap_index(&mut self, data: &InstData) {
        if self.is_inside(data) {
            self.raw(data.operands[0]);
            return;
        }
        let Imm::Extent(of) = &data.imm else { return };
        self.unit.need(Helper::WrapPlace);
        self.out.push_str("wrap_place(");
        self.value(data.operands[0], Precedence::Any);
        let _ = write!(self.out, ", {})", of.extent);
    }

    /// Returns true if an index of an axis of known extent is known to be counted from its start and to be on it.
    fn is_inside(&self, data: &InstData) -> bool {
        let Interval { low, high } = self.intervals.of(data.operands[0]);
        matches!(&data.imm, Imm::Extent(of) if low >= 0 && high < i128::from(of.extent))
    }

    /// The component of a constant composite that stands where it is used.
    fn constant_component(&self, data: &InstData) -> Option<u64> {
        let Imm::Component(number) = data.imm else { return None };
        if data.op != Op::Component {
            return None;
        }
        let composite = &self.func.insts[self.folded_inst(data.operands[0])?];
        let component = composite.operands.get(usize::from(number)).filter(|_| composite.op == Op::Construct)?;
        self.written_constant(*component)
    }

    /// The table that a constant composite is, where an index chooses among its components.
    fn constant_table(&mut self, composite: Value) -> Option<String> {
        let data = &self.func.insts[self.folded_inst(composite)?];
        let elem = self.func.ty(composite).as_composite()?.elem();
        if !is_table(self.func, data, composite) {
            return None;
        }
        let bits: Option<Vec<u64>> = data.operands.iter().map(|&value| self.func.as_const(value)).collect();
        Some(self.unit.table(self.func.value_names[composite].as_deref(), elem, bits?))
    }

    /// The components of a composite, in braces.
    pub(super) fn components(&mut self, data: &InstData) {
        self.out.push('{');
        if data.operands.iter().any(|&component| self.written_constant(component) != Some(0)) {
            self.list(&data.operands);
        }
        self.out.push('}');
    }

    fn conditional(&mut self, data: &InstData) {
        let Some([then, otherwise]) = self.choices(data) else { return };
        let condition = data.operands[0];
        match self.logical(data) {
            Some(op) => {
                let (precedence, sign, second) = match op {
                    Op::BitAnd => (Precedence::And, " && ", then),
                    _ => (Precedence::Or, " || ", otherwise),
                };
                self.logical_operand(condition, precedence);
                self.out.push_str(sign);
                self.logical_operand(second, precedence);
            }
            None => {
                self.value(condition, Precedence::Or);
                self.out.push_str(" ? ");
                self.value(then, Precedence::Or);
                self.out.push_str(" : ");
                self.value(otherwise, Precedence::Conditional);
            }
        }
    }

    /// Returns what the two sides of an `if` with one result give.
    pub(super) fn choices(&self, data: &InstData) -> Option<[Value; 2]> {
        let given = |region| {
            let last = self.func.terminator(region)?;
            self.func.insts[last].operands.first().copied()
        };
        Some([given(data.regions[0])?, given(data.regions[1])?])
    }

    /// An operand of `&&` or `||`. One in the other stands in parentheses, because compilers warn of it otherwise.
    pub(super) fn logical_operand(&mut self, value: Value, within: Precedence) {
        let precedence = self.shape(value).precedence;
        let mixed = matches!(precedence, Precedence::And | Precedence::Or) && precedence != within;
        self.value(value, if mixed { Precedence::Postfix } else { within });
    }

    pub(super) fn constant(&mut self, ty: Scalar, bits: u64) {
        let text = types::constant(ty, bits);
        if text.contains("inf<") {
            self.unit.need(Helper::Infinity);
        } else if text.contains("nan<") {
            self.unit.need(Helper::NotANumber);
        }
        self.unit.need_scalar(ty);
        self.out.push_str(&text);
    }

    /// The component of a composite with a number.
    pub(super) fn place(&mut self, of: Composite, number: usize) {
        let _ = match of {
            Composite::Matrix { cols, .. } => {
                write!(self.out, "({}, {})", number / usize::from(cols), number % usize::from(cols))
            }
            _ => write!(self.out, "[{number}]"),
        };
    }

    /// A value as an argument of a template, which must not take an element of an array for what it holds.
    pub(super) fn whole(&mut self, value: Value) {
        let is_element = self.func.ty(value).as_composite().is_some()
            && self
                .folded_inst(value)
                .is_some_and(|inst| matches!(self.func.insts[inst].op, Op::ArrayLoad | Op::Select | Op::If));
        if !is_element {
            self.value(value, Precedence::Any);
            return;
        }
        self.out.push_str(&self.unit.type_name(self.func.ty(value)));
        self.out.push('(');
        self.value(value, Precedence::Any);
        self.out.push(')');
    }

    /// Values with commas between them.
    pub(super) fn list(&mut self, values: &[Value]) {
        for (index, &value) in values.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.value(value, Precedence::Any);
        }
    }

    pub(super) fn call(&mut self, helper: Helper, operands: &[Value]) {
        match operands.first().and_then(|&operand| self.scalar_of(operand)) {
            Some(ty) => self.unit.need_for(helper, ty),
            None => self.unit.need(helper),
        }
        self.out.push_str(helper.name());
        self.out.push('(');
        self.list(operands);
        self.out.push(')');
    }

    /// An element of an array, or a component of one. The indices are operands of the instruction from the second on.
    pub(super) fn element(&mut self, inst: Inst, array: Value, indices: &[Value]) {
        self.element_at(inst, array, indices, 1);
    }

    /// As `element`, for indices that are operands from this number on.
    pub(super) fn element_at(&mut self, inst: Inst, array: Value, indices: &[Value], first: usize) {
        if self.local_element(array, indices) {
            return;
        }
        let (elem, ndim) = self.func.ty(array).as_any_array().unwrap_or((Type::F32, 0));
        let ndim = usize::from(ndim).min(indices.len());
        self.unit.need(Helper::Array);
        let (outer, inner) = indices.split_at(ndim);
        if let Some(extents) = self.shared_array(array).map(|array| array.extents.clone()) {
            // An array of arrays, as CUDA declares it.
            self.raw(array);
            for (axis, &index) in outer.iter().enumerate() {
                self.out.push('[');
                self.index(inst, index, first + axis, AxisLength::Known(extents.get(axis).copied().unwrap_or(1)));
                self.out.push(']');
            }
        } else {
            self.value(array, Precedence::Postfix);
            self.indices(inst, array, outer, first, None);
        }
        if let Some(composite) = elem.as_composite()
            && !inner.is_empty()
        {
            self.indices(inst, array, inner, first + ndim, Some(composite));
        }
    }

    fn indices(&mut self, inst: Inst, array: Value, indices: &[Value], first: usize, of: Option<Composite>) {
        let (open, close) = if indices.len() == 1 { ('[', ']') } else { ('(', ')') };
        self.out.push(open);
        for (number, &index) in indices.iter().enumerate() {
            if number > 0 {
                self.out.push_str(", ");
            }
            let extent = match of {
                Some(composite) => AxisLength::Known(composite.shape().get(number).copied().unwrap_or(1).into()),
                None => AxisLength::Of(array, number),
            };
            self.index(inst, index, first + number, extent);
        }
        self.out.push(close);
    }

    /// An index along an axis, counted from the start: the operand with this number.
    fn index(&mut self, inst: Inst, index: Value, operand: usize, extent: AxisLength) {
        let is_constant = self.written_constant(index).is_some();
        let is_natural = |body: &Self| body.intervals.of(index).low >= 0;
        if !self.negative.contains(&(inst, operand as u8)) || is_constant && is_natural(self) {
            // An index that is unsigned in the text is the same index, because it is not negative.
            if self.shape(index).is_modular && is_natural(self) {
                self.bits(index, Precedence::Any);
            } else {
                self.value(index, Precedence::Any);
            }
            return;
        }
        if is_constant {
            let from_end = -self.intervals.of(index).low;
            match extent {
                AxisLength::Known(extent) => {
                    let _ = write!(self.out, "{}", i128::from(extent) - from_end);
                }
                AxisLength::Of(array, axis) => {
                    self.value(array, Precedence::Postfix);
                    let _ = write!(self.out, ".shape[{axis}] - {from_end}");
                }
            }
            return;
        }
        self.unit.need(Helper::Wrap);
        self.out.push_str("wrap(");
        self.value(index, Precedence::Any);
        self.out.push_str(", ");
        match extent {
            AxisLength::Known(extent) => {
                let _ = write!(self.out, "{extent})");
            }
            AxisLength::Of(array, axis) => {
                self.value(array, Precedence::Postfix);
                let _ = write!(self.out, ".shape[{axis}])");
            }
        }
    }

    /// The operator that composites are combined with.
    fn operator(&self, data: &InstData) -> Option<&'static str> {
        Some(match data.op {
            Op::Add => " + ",
            Op::Sub => " - ",
            Op::Mul => " * ",
            Op::Div => " / ",
            Op::Eq => " == ",
            Op::Ne => " != ",
            _ => return None,
        })
    }

    /// A call of the function that defines an op.
    fn defined(&mut self, data: &InstData, ty: Type) {
        let func = self.func;
        let types: Vec<Type> = data.operands.iter().map(|&v| func.ty(v)).collect();
        let Some(callee) = self.unit.definition(data.op, &types, &[ty]) else {
            self.unsupported(data);
            return;
        };
        match (callee, ty.as_scalar()) {
            (DefinitionCallee::Operator(sign), _) if data.operands.len() == 2 => {
                let precedence = match data.op {
                    Op::Add | Op::Sub => Precedence::Sum,
                    Op::Mul | Op::Div => Precedence::Product,
                    _ => Precedence::Equality,
                };
                let right = if precedence == Precedence::Sum { Precedence::Product } else { Precedence::Unary };
                self.value(data.operands[0], precedence);
                let _ = write!(self.out, " {sign} ");
                self.value(data.operands[1], right);
            }
            (DefinitionCallee::Operator(sign), _) => {
                self.out.push_str(sign);
                self.value(data.operands[0], Precedence::Postfix);
            }
            (DefinitionCallee::Function(name), _) => {
                // The prelude has templates of these names, which take what they are given for what it is.
                let has_template = matches!(data.op, Op::Abs | Op::Min | Op::Max);
                self.out.push_str(&name);
                self.out.push('(');
                for (index, &operand) in data.operands.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    match self.folded_inst(operand).map(|inst| func.insts[inst].op) {
                        Some(Op::ArrayLoad) if has_template => self.whole(operand),
                        _ => self.value(operand, Precedence::Any),
                    }
                }
                self.out.push(')');
            }
            // Computed in `float` and rounded.
            (DefinitionCallee::Widened(name), Some(ty)) => {
                let is_half = ty.is_half();
                if is_half {
                    self.unit.need_scalar(ty);
                    // In braces, as in `function`.
                    let _ = write!(self.out, "{}{{", types::scalar(ty));
                }
                let _ = write!(self.out, "{name}(");
                for (index, &operand) in data.operands.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    if self.scalar_of(operand).is_some_and(Scalar::is_half) {
                        self.out.push_str("float(");
                        self.value(operand, Precedence::Any);
                        self.out.push(')');
                    } else {
                        self.value(operand, Precedence::Any);
                    }
                }
                self.out.push_str(if is_half { ")}" } else { ")" });
            }
            (DefinitionCallee::Widened(_), None) => self.unsupported(data),
        }
    }
}

pub(super) fn axis(data: &InstData) -> u8 {
    match data.imm {
        Imm::Axis(axis) => axis,
        _ => 0,
    }
}
