//! Lowering expressions.
//!
//! What Python evaluates only if needed becomes an `if`, unless evaluating it always is cheap and cannot be observed.

use super::{AstLowering, leaf_types};
use crate::number::PythonNumber;
use crate::typed_ast::{ChainLink, ComponentIndex, ExprKind, ExprType, LocalId, TypedExpr};
use polyloom_ir::op::{Lowering as OpLowering, OpEffect};
use polyloom_ir::{AxisExtent, Composite, Imm, Op, Scalar, Span, Type, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// Operands of `and`, `or` and conditional expressions with at most this many operations are always evaluated.
const SPECULATED_OPS: u32 = 8;

/// The terms of `and` and `or` that nest, each in the one before.
const MAX_NESTED_TERMS: usize = 64;

impl AstLowering<'_, '_> {
    /// The value of an expression that has one.
    pub(super) fn expr(&mut self, expr: &TypedExpr) -> Value {
        self.builder.set_span(expr.span);
        match &expr.kind {
            ExprKind::Const(bits) => {
                let scalar = expr.ty.as_value().and_then(Type::as_scalar).unwrap_or(polyloom_ir::Scalar::I32);
                self.builder.const_bits(scalar, *bits)
            }
            ExprKind::Number(number) => {
                let scalar = number.default_scalar();
                self.builder.const_bits(scalar, number.convert(scalar))
            }
            ExprKind::Local(local) => {
                debug_assert!(self.vars[local.0 as usize].is_some(), "`{}` has a value", self.name(*local));
                self.local(*local)
            }
            ExprKind::View { array, .. } => self.local(*array),
            ExprKind::Slice(parts) => self.expr(&parts[0]),
            ExprKind::Gather(indices) => self.expr(indices),
            ExprKind::Cast(x) => {
                let value = self.expr(x);
                self.builder.set_span(expr.span);
                match expr.ty.as_value().and_then(Type::as_scalar) {
                    Some(scalar) => self.builder.cast(value, scalar),
                    None => value,
                }
            }
            ExprKind::Bitcast(x) => {
                let value = self.expr(x);
                self.builder.set_span(expr.span);
                match expr.ty.as_value().and_then(Type::as_scalar) {
                    Some(scalar) => self.builder.bitcast(value, scalar),
                    None => value,
                }
            }
            ExprKind::Tid(axis) => self.builder.tid(*axis),
            ExprKind::Dim(array, axis) => {
                let array = self.expr(array);
                self.builder.set_span(expr.span);
                self.builder.dim(array, *axis)
            }
            ExprKind::WrapIndex(index, of) => {
                let index = self.expr(index);
                self.builder.set_span(expr.span);
                self.wrap_index(index, of.clone())
            }
            ExprKind::Load(element) => {
                let operands = self.element(element);
                self.builder.set_span(expr.span);
                self.builder.op(Op::ArrayLoad, &operands)
            }
            ExprKind::Component(x, index) => {
                let value = self.expr(x);
                let name = match &x.kind {
                    ExprKind::Local(local) => self.name(*local).into(),
                    ExprKind::Named(name, _) => name.clone(),
                    _ => Arc::default(),
                };
                let index = self.component_index(index, value, name, expr.span);
                if let (Err(_), ExprKind::Named(name, _)) = (&index, &x.kind) {
                    // Back ends may make a table of it.
                    self.builder.func.value_names[value] = Some(name.clone());
                }
                self.component(value, index)
            }
            ExprKind::Named(_, value) => self.expr(value),
            ExprKind::Let { locals, value, body } => {
                self.hold(locals, value);
                self.expr(body)
            }
            ExprKind::Power(x, power) => {
                let value = self.expr(x);
                self.builder.set_span(expr.span);
                self.power(value, *power)
            }
            ExprKind::Logic { all, terms, assigns } => self.logic(*all, terms, assigns),
            ExprKind::Chain { first, rest, assigns } => {
                let first = self.expr(first);
                self.chain(first, rest, assigns)
            }
            ExprKind::If { cond, then, otherwise, assigns } => {
                if let ExprKind::Const(bits) = cond.kind {
                    return self.expr(if bits != 0 { then } else { otherwise });
                }
                let cond = self.expr(cond);
                if is_cheap(then) && is_cheap(otherwise) {
                    let (a, b) = (self.expr(then), self.expr(otherwise));
                    self.builder.set_span(expr.span);
                    return self.builder.op(Op::Select, &[cond, a, b]);
                }
                let ty = expr.ty.as_value().unwrap_or(Type::I32);
                self.builder.set_span(expr.span);
                self.choose(cond, ty, assigns, |l| l.expr(then), |l| l.expr(otherwise))
            }
            ExprKind::Op { .. }
            | ExprKind::OpWith { .. }
            | ExprKind::Call { .. }
            | ExprKind::Tuple(_)
            | ExprKind::Error => {
                let mut results = SmallVec::new();
                self.values(expr, &mut results);
                match results.first() {
                    Some(value) => *value,
                    None => self.zero(expr.ty.as_value().unwrap_or(Type::I32)),
                }
            }
        }
    }

    /// Appends all values of an expression.
    pub(super) fn values(&mut self, expr: &TypedExpr, out: &mut SmallVec<[Value; 2]>) {
        match &expr.kind {
            ExprKind::Op { .. } => out.extend(self.op(expr)),
            ExprKind::OpWith { op, imm, args } => {
                let operands: SmallVec<[Value; 4]> = args.iter().map(|a| self.expr(a)).collect();
                let types = result_types(&expr.ty);
                self.builder.set_span(expr.span);
                let inst = self.builder.inst(*op, &operands, &types, imm.clone());
                out.extend_from_slice(&self.builder.func.insts[inst].results);
            }
            ExprKind::Call { function, args, updates } => {
                let mut operands = SmallVec::new();
                for arg in args {
                    self.values(arg, &mut operands);
                }
                let callee = self.program.functions.get(function.0 as usize);
                let results = callee.map(super::handed_back).unwrap_or_default();
                self.builder.set_span(expr.span);
                let results = self.builder.call(super::func_id(*function), &operands, &results);
                let (values, updated) = results.split_at(results.len() - updates.len());
                self.set_all(updates, updated);
                out.extend_from_slice(values);
            }
            ExprKind::Let { locals, value, body } => {
                self.hold(locals, value);
                self.values(body, out);
            }
            ExprKind::If { cond, then, otherwise, assigns } if expr.ty.is_struct() => {
                if let ExprKind::Const(bits) = cond.kind {
                    return self.values(if bits != 0 { then } else { otherwise }, out);
                }
                let cond = self.expr(cond);
                let types = result_types(&expr.ty);
                self.builder.set_span(expr.span);
                out.extend(self.choose_all(cond, &types, assigns, |l| l.all_values(then), |l| l.all_values(otherwise)));
            }
            ExprKind::Tuple(parts) => {
                for part in parts {
                    self.values(part, out);
                }
            }
            ExprKind::Error => {}
            _ => out.push(self.expr(expr)),
        }
    }

    /// The values of an operation. Those that are first operands of each other, as in a sum, are not nested calls here,
    /// because there may be thousands.
    fn op(&mut self, expr: &TypedExpr) -> SmallVec<[Value; 2]> {
        let mut outer: SmallVec<[&TypedExpr; 2]> = SmallVec::new();
        let mut innermost = expr;
        while let ExprKind::Op { args, .. } = &innermost.kind
            && let [first, ..] = &args[..]
        {
            outer.push(innermost);
            innermost = first;
        }
        let mut values = match (outer.is_empty(), &innermost.kind) {
            // An operation without operands.
            (_, ExprKind::Op { .. }) => self.op_of(innermost, SmallVec::new()),
            _ => SmallVec::from_elem(self.expr(innermost), 1),
        };
        for expr in outer.into_iter().rev() {
            let first = values.first().copied();
            let first = first.unwrap_or_else(|| self.zero(expr.ty.as_value().unwrap_or(Type::I32)));
            values = self.op_of(expr, SmallVec::from_elem(first, 1));
        }
        values
    }

    /// The values of an operation whose first operands are there.
    fn op_of(&mut self, expr: &TypedExpr, mut operands: SmallVec<[Value; 4]>) -> SmallVec<[Value; 2]> {
        let ExprKind::Op { op, args, updates } = &expr.kind else { return SmallVec::new() };
        for arg in args.iter().skip(operands.len()) {
            operands.push(self.expr(arg));
        }
        let mut types = result_types(&expr.ty);
        let n_values = types.len();
        types.extend(updates.iter().map(|l| self.ty(*l)));
        self.builder.set_span(expr.span);
        let inst = self.builder.inst(*op, &operands, &types, Imm::None);
        let results = self.builder.func.insts[inst].results.clone();
        let (values, updated) = results.split_at(n_values);
        self.set_all(updates, updated);
        values.into()
    }

    fn all_values(&mut self, expr: &TypedExpr) -> SmallVec<[Value; 2]> {
        let mut values = SmallVec::new();
        self.values(expr, &mut values);
        values
    }

    /// Gives variables the values of an expression.
    fn hold(&mut self, locals: &[LocalId], value: &TypedExpr) {
        let values = self.all_values(value);
        self.set_all(locals, &values);
    }

    /// The number of a component of `whole`, or the value that counts it in row-major order. Leaves `span` set.
    pub(super) fn component_index(
        &mut self,
        index: &ComponentIndex,
        whole: Value,
        name: Arc<str>,
        span: Span,
    ) -> Result<u16, Value> {
        let number = match index {
            ComponentIndex::Is(component) => Ok(*component),
            ComponentIndex::At(indices) => {
                let shape = self.builder.func.ty(whole).as_composite().map(Composite::shape).unwrap_or_default();
                let mut place = None;
                for ((index, extent), axis) in indices.iter().zip(shape).zip(0..) {
                    let index = self.expr(index);
                    self.builder.set_span(span);
                    let index = self.wrap_index(index, AxisExtent { name: name.clone(), axis, extent });
                    place = Some(match place {
                        None => index,
                        Some(first) => {
                            let extent = self.builder.const_bits(Scalar::I32, extent.into());
                            let first = self.builder.op(Op::Mul, &[first, extent]);
                            self.builder.op(Op::Add, &[first, index])
                        }
                    });
                }
                place.map_or(Ok(0), Err)
            }
            ComponentIndex::Flat(index) => Err(self.expr(index)),
        };
        self.builder.set_span(span);
        number
    }

    fn wrap_index(&mut self, index: Value, of: AxisExtent) -> Value {
        let inst = self.builder.inst(Op::WrapIndex, &[index], &[Type::I32], Imm::Extent(of));
        self.builder.func.insts[inst].results[0]
    }

    fn component(&mut self, value: Value, index: Result<u16, Value>) -> Value {
        let elem = self.builder.func.ty(value).as_composite().map_or(Type::F32, |composite| composite.elem().into());
        let inst = match index {
            Ok(component) => self.builder.inst(Op::Component, &[value], &[elem], Imm::Component(component)),
            Err(index) => self.builder.inst(Op::ComponentAt, &[value, index], &[elem], Imm::None),
        };
        self.builder.func.insts[inst].results[0]
    }

    /// `value` to a small power, by multiplications.
    pub(super) fn power(&mut self, value: Value, power: u32) -> Value {
        let Some(scalar) = self.builder.func.ty(value).as_scalar() else { return value };
        if power == 0 {
            return self.builder.const_bits(scalar, PythonNumber::Int(1).convert(scalar));
        }
        let half = if power > 1 { self.power(value, power / 2) } else { return value };
        let square = self.builder.op(Op::Mul, &[half, half]);
        if power % 2 == 1 { self.builder.op(Op::Mul, &[square, value]) } else { square }
    }

    /// `and` and `or`.
    fn logic(&mut self, all: bool, terms: &[TypedExpr], assigns: &[LocalId]) -> Value {
        if terms.len() > MAX_NESTED_TERMS {
            // Each half is one term of two, so that the depth is the logarithm of their number.
            let (before, after) = terms.split_at(terms.len() / 2);
            let value = self.logic(all, before, assigns);
            return self.unless_decided(all, value, after, assigns);
        }
        let Some((first, rest)) = terms.split_first() else { return self.builder.const_bool(all) };
        let op = if all { Op::BitAnd } else { Op::BitOr };
        let mut value = self.expr(first);
        for (i, term) in rest.iter().enumerate() {
            if is_cheap(term) {
                let term_value = self.expr(term);
                value = self.builder.op(op, &[value, term_value]);
                continue;
            }
            return self.unless_decided(all, value, &rest[i..], assigns);
        }
        value
    }

    /// The terms of `and` or `or` after those that came to `value`, evaluated if that does not decide.
    fn unless_decided(&mut self, all: bool, value: Value, terms: &[TypedExpr], assigns: &[LocalId]) -> Value {
        let decided = |l: &mut Self| l.builder.const_bool(!all);
        let open = |l: &mut Self| l.logic(all, terms, assigns);
        if all {
            self.choose(value, Type::BOOL, assigns, open, decided)
        } else {
            self.choose(value, Type::BOOL, assigns, decided, open)
        }
    }

    /// The comparisons of a chain from the one whose left operand is `left`.
    fn chain(&mut self, left: Value, links: &[ChainLink], assigns: &[LocalId]) -> Value {
        let Some((link, rest)) = links.split_first() else { return self.builder.const_bool(true) };
        let left = match &link.left {
            Some(typed) => self.expr(typed),
            None => left,
        };
        let right = self.expr(&link.right);
        let value = self.builder.op(link.op, &[left, right]);
        if rest.is_empty() {
            return value;
        }
        if rest.iter().all(|link| is_cheap(&link.right)) {
            let others = self.chain(right, rest, assigns);
            return self.builder.op(Op::BitAnd, &[value, others]);
        }
        let open = |l: &mut Self| l.chain(right, rest, assigns);
        self.choose(value, Type::BOOL, assigns, open, |l| l.builder.const_bool(false))
    }

    /// An `if` that gives a value and merges the variables either side assigns.
    fn choose(
        &mut self,
        cond: Value,
        ty: Type,
        assigns: &[LocalId],
        then: impl FnOnce(&mut Self) -> Value,
        otherwise: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let one = |value| SmallVec::from_elem(value, 1);
        self.choose_all(cond, &[ty], assigns, |l| one(then(l)), |l| one(otherwise(l)))[0]
    }

    /// An `if` that gives values of these types and merges the variables either side assigns.
    fn choose_all(
        &mut self,
        cond: Value,
        result_types: &[Type],
        assigns: &[LocalId],
        then: impl FnOnce(&mut Self) -> SmallVec<[Value; 2]>,
        otherwise: impl FnOnce(&mut Self) -> SmallVec<[Value; 2]>,
    ) -> SmallVec<[Value; 2]> {
        let span = self.builder.set_span(polyloom_ir::Span::NONE);
        self.builder.set_span(span);
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let mut types: SmallVec<[Type; 4]> = SmallVec::from_slice(result_types);
        types.extend(self.types(assigns));
        let inst = self.builder.region_inst(Op::If, &[cond], &types, &regions);
        let before = self.changes.len();
        let outer = self.builder.switch_to(regions[0]);
        let values = then(self);
        self.yield_choice(&values, assigns, span);
        self.restore(before);
        self.builder.switch_to(regions[1]);
        let values = otherwise(self);
        self.yield_choice(&values, assigns, span);
        self.restore(before);
        self.builder.switch_to(outer);
        let results = self.builder.func.insts[inst].results.clone();
        let (values, assigned) = results.split_at(result_types.len());
        self.set_all(assigns, assigned);
        values.into()
    }

    fn yield_choice(&mut self, values: &[Value], assigns: &[LocalId], span: polyloom_ir::Span) {
        let mut values: SmallVec<[Value; 4]> = SmallVec::from_slice(values);
        values.extend(self.locals(assigns));
        self.builder.set_span(span);
        self.builder.yield_(&values);
    }
}

fn result_types(ty: &ExprType) -> SmallVec<[Type; 4]> {
    match ty {
        ExprType::Value(ty) => SmallVec::from_slice(&[*ty]),
        ExprType::Values(types) => leaf_types(types),
        ExprType::Struct(_) | ExprType::StructArray { .. } => leaf_types(ty.full().as_slice()),
        ExprType::Number | ExprType::Error => SmallVec::new(),
    }
}

/// Returns true if evaluating an expression when it is not needed costs little and changes nothing.
fn is_cheap(expr: &TypedExpr) -> bool {
    fn spend(expr: &TypedExpr, left: &mut u32) -> bool {
        if !matches!(expr.kind, ExprKind::Const(_) | ExprKind::Number(_) | ExprKind::Local(_)) {
            match left.checked_sub(1) {
                Some(rest) => *left = rest,
                None => return false,
            }
        }
        match &expr.kind {
            ExprKind::Const(_) | ExprKind::Number(_) | ExprKind::Local(_) | ExprKind::Tid(_) | ExprKind::Dim(..) => {
                true
            }
            ExprKind::Op { op, args, .. } => {
                let info = op.info();
                let fast = !matches!(op, Op::Div | Op::FloorDiv | Op::Mod | Op::Sqrt);
                info.effect == OpEffect::Pure
                    && info.lowering == OpLowering::Native
                    && args.iter().all(|a| a.ty.as_value().is_some_and(|ty| ty.as_scalar().is_some()))
                    && fast
                    && args.iter().all(|a| spend(a, left))
            }
            ExprKind::Cast(x) | ExprKind::Bitcast(x) | ExprKind::Power(x, 0..=2) | ExprKind::Named(_, x) => {
                spend(x, left)
            }
            ExprKind::Component(x, index) => matches!(**index, ComponentIndex::Is(_)) && spend(x, left),
            ExprKind::Logic { terms, .. } => terms.iter().all(|t| spend(t, left)),
            ExprKind::Chain { first, rest, .. } => {
                spend(first, left) && rest.iter().all(|link| spend(&link.right, left))
            }
            ExprKind::If { cond, then, otherwise, .. } => {
                spend(cond, left) && spend(then, left) && spend(otherwise, left)
            }
            _ => false,
        }
    }
    spend(expr, &mut { SPECULATED_OPS })
}
