//! Checking loops: `for … in range(…)`, `while`, and what leaves them.

use super::flow::{FlowState, LocalSet, LoopFlow};
use super::function::{FunctionChecker, NameMeaning};
use super::static_expression::assigns_any;
use crate::builtin_function::BuiltinFunction;
use crate::dotted_path::dotted;
use crate::number::PythonNumber;
use crate::typed_ast::{ExprKind, ExprType, LocalId, LoopBody, StmtKind, TypedExpr, TypedStmt};
use polyloom_ir::{Code, Diagnostic, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

/// The three values of a `range`, all of one integer type.
struct RangeBounds {
    start: TypedExpr,
    stop: TypedExpr,
    step: TypedExpr,
    scalar: Scalar,
}

impl<'a> FunctionChecker<'_, '_, 'a> {
    pub(super) fn for_loop(&mut self, stmt: &'a ast::StmtFor, span: Span, out: &mut Vec<TypedStmt>) {
        if self.must_unroll(stmt)
            && let Some(range) = self.constant_range(&stmt.iter)
        {
            return self.unrolled(stmt, range, out);
        }
        self.release_counters_assigned_in(&stmt.body);
        let backward = self.reversed_range(&stmt.iter);
        let range = self.range(backward.unwrap_or(&stmt.iter));
        let range = match (range, backward) {
            (Some(range), Some(_)) if range.scalar.is_unsigned_int() => {
                let message = format!("a range of {} cannot be reversed", range.scalar.python_name());
                let help = "its steps back are negative: convert the bounds to `int`";
                self.reject(Code::Unsupported, range.stop.span, message, help);
                None
            }
            (Some(range), Some(_)) => Some(self.backward(range, out)),
            (range, _) => range,
        };
        let counter = match (&*stmt.target, &range) {
            // One message for a loop over something else.
            (ast::Expr::Tuple(targets), None) => {
                for target in targets {
                    self.counter(target, None);
                }
                None
            }
            (target, range) => self.counter(target, range.as_ref().map(|range| range.scalar)),
        };
        let runs = range.as_ref().is_some_and(RangeBounds::runs_at_least_once);
        let last = range.as_ref().and_then(RangeBounds::last_value);
        let before = self.flow.clone();
        if let Some(counter) = counter {
            self.flow.set.insert(counter);
            if let Some(range) = &range {
                self.lint_counter(counter, &range.start, &range.stop, &range.step);
            }
        }
        let (body, assigned, mut end, loop_flow) = self.loop_body(&stmt.body, counter);
        end.join(&loop_flow.continues);
        let exhausted = if runs { end } else { before.clone() };
        let body = self.finish_loop(body, assigned, &before, exhausted, loop_flow, &stmt.orelse);
        let (Some(range), Some(counter)) = (range, counter) else { return };
        let RangeBounds { start, stop, step, scalar } = range;
        // The counter keeps its last value, which `static` may name.
        if let (Some(last), ast::Expr::Name(name), []) = (last, &*stmt.target, &stmt.orelse[..])
            && !body.has_break
            && self.flow.reachable
            && !assigns_any(&stmt.body, |assigned| assigned == name.id.as_str())
        {
            self.note_constant(counter, &TypedExpr::constant(PythonNumber::Int(last).convert(scalar), scalar, span));
        }
        out.push(TypedStmt { kind: StmtKind::For { counter, start, stop, step, body }, span });
    }

    pub(super) fn while_loop(&mut self, stmt: &'a ast::StmtWhile, span: Span, out: &mut Vec<TypedStmt>) {
        self.release_counters_assigned_in(&stmt.body);
        // It is evaluated again after each iteration.
        self.n_loop_conditions += 1;
        let (cond, cond_assigns) = self.collecting(|c| c.condition(&stmt.test));
        self.n_loop_conditions -= 1;
        let endless = matches!(cond.kind, ExprKind::Const(bits) if bits != 0) && !cond.is_error();
        let before = self.flow.clone();
        let (body, mut assigned, _, loop_flow) = self.loop_body(&stmt.body, None);
        for local in &cond_assigns {
            assigned.insert(*local);
        }
        let exhausted = if endless { FlowState::never() } else { before.clone() };
        let body = self.finish_loop(body, assigned, &before, exhausted, loop_flow, &stmt.orelse);
        if !cond.is_error() {
            out.push(TypedStmt { kind: StmtKind::While { cond, cond_assigns, body }, span });
        }
    }

    /// Checks the statements of a loop. Gives them, the variables they assign, the state at their end, and the jumps.
    fn loop_body(
        &mut self,
        body: &'a [ast::Stmt],
        counter: Option<LocalId>,
    ) -> (Vec<TypedStmt>, LocalSet, FlowState, LoopFlow) {
        let mut assigned = LocalSet::default();
        if let Some(counter) = counter {
            assigned.insert(counter);
        }
        self.assigned.push(assigned);
        self.loops.push(LoopFlow { breaks: FlowState::never(), continues: FlowState::never(), has_break: false });
        let mut out = Vec::new();
        let scope = self.open_loop_scope();
        self.block(body, &mut out);
        self.close_loop_scope(scope);
        let loop_flow = self.loops.pop().unwrap_or(LoopFlow {
            breaks: FlowState::never(),
            continues: FlowState::never(),
            has_break: false,
        });
        let assigned = self.assigned.pop().unwrap_or_default();
        let end = std::mem::replace(&mut self.flow, FlowState::never());
        (out, assigned, end, loop_flow)
    }

    /// Checks the `else` of a loop and works out which variables leave the loop with a value.
    fn finish_loop(
        &mut self,
        body: Vec<TypedStmt>,
        assigned: LocalSet,
        before: &FlowState,
        exhausted: FlowState,
        loop_flow: LoopFlow,
        orelse: &'a [ast::Stmt],
    ) -> LoopBody {
        let mut otherwise = Vec::new();
        self.flow = exhausted.clone();
        self.forget_constants(&assigned);
        self.assigned.push(LocalSet::default());
        self.block(orelse, &mut otherwise);
        let mut all_assigned = self.assigned.pop().unwrap_or_default();
        self.flow.join(&loop_flow.breaks);
        all_assigned.union_with(&assigned);
        self.forget_constants(&all_assigned);
        if let Some(outer) = self.assigned.last_mut() {
            outer.union_with(&all_assigned);
        }
        let after = &self.flow.set;
        let carried = assigned
            .select(|local| before.set.contains(local) || exhausted.set.contains(local) || after.contains(local));
        let merged = all_assigned.select(|local| after.contains(local));
        LoopBody { body, otherwise, carried, merged, has_break: loop_flow.has_break, completes: self.flow.reachable }
    }

    /// `break` or `continue`.
    pub(super) fn leave_loop(&mut self, span: Span, is_break: bool, out: &mut Vec<TypedStmt>) {
        if self.leave_unrolled(span, is_break) {
            return;
        }
        let word = if is_break { "break" } else { "continue" };
        let Some(innermost) = self.loops.last_mut() else {
            let message = format!("`{word}` outside a loop");
            self.reject(Code::Syntax, span, message, "use it in `for` or `while`, or remove it");
            return;
        };
        if is_break {
            innermost.breaks.join(&self.flow);
            innermost.has_break = true;
        } else {
            innermost.continues.join(&self.flow);
        }
        self.flow.reachable = false;
        out.push(TypedStmt { kind: if is_break { StmtKind::Break } else { StmtKind::Continue }, span });
    }

    /// The variable that counts values of a type; `None` if that is reported, or has been where there is no type.
    pub(super) fn counter(&mut self, target: &'a ast::Expr, scalar: Option<Scalar>) -> Option<LocalId> {
        let ast::Expr::Name(name) = target else {
            let span = self.span(target);
            self.reject(
                Code::Unsupported,
                span,
                "the counter of a `for` is one variable",
                "write `for i in range(n):`",
            );
            return None;
        };
        let span = self.span(name);
        let text = name.id.as_str();
        self.release_counter(text);
        let Some(ty) = scalar.map(Type::Scalar) else {
            if !matches!(self.names.get(text), Some(NameMeaning::Local(_) | NameMeaning::Struct(_))) {
                self.names.insert(text, NameMeaning::Poisoned);
            }
            return None;
        };
        let (was, first) = match self.names.get(text).copied() {
            Some(NameMeaning::Local(id)) => {
                let local = &self.locals[id.0 as usize];
                if local.ty == ty {
                    return Some(id);
                }
                // Outside all branches and loops the name means the counter from here on, whatever it was before.
                if self.assigned.len() == 1 && local.ty.as_scalar().is_some() && id.0 >= self.n_params as u32 {
                    let id = self.new_local(text, ty, span);
                    self.names.insert(text, NameMeaning::Local(id));
                    return Some(id);
                }
                (local.ty.python_name(), local.span)
            }
            Some(NameMeaning::Struct(variable)) => {
                let known = &self.structs[variable];
                (known.ty.python_name(), known.span)
            }
            Some(NameMeaning::Poisoned) => return None,
            Some(NameMeaning::View(view)) => {
                let what = self.kind_of_view(&self.views[view]);
                let message = format!("`{text}` stands for {what} and cannot count");
                self.reject(Code::BadAssignment, span, message, "use a counter of another name");
                return None;
            }
            Some(NameMeaning::Known(index)) => {
                let message = format!("`{text}` stands for {} and cannot count", self.known[index].describe());
                self.reject(Code::BadAssignment, span, message, "use a counter of another name");
                return None;
            }
            Some(NameMeaning::Later(_) | NameMeaning::Diverged) | None => {
                let id = self.new_local(text, ty, span);
                self.names.insert(text, NameMeaning::Local(id));
                return Some(id);
            }
        };
        let message = format!("`{text}` is {} here but was {was} before", ty.python_name());
        self.report(
            Diagnostic::error(Code::Retyped, span, message)
                .label(first, format!("{was} here"))
                .help("use a counter of another name"),
        );
        None
    }

    /// Returns what `reversed(…)` reverses.
    fn reversed_range(&mut self, iter: &'a ast::Expr) -> Option<&'a ast::Expr> {
        let ast::Expr::Call(call) = iter else { return None };
        let is_python = dotted(&call.func)? == ["reversed"]
            && !self.is_variable("reversed")
            && self.capture(&["reversed"]).is_none();
        match (&*call.arguments.args, &*call.arguments.keywords) {
            ([range], []) if is_python => self.called_builtin(range).map(|_| range),
            _ => None,
        }
    }

    /// The same values in the opposite order: `range(start + (n - 1) * step, start - step, -step)`, where
    /// `n = (stop - start + step ∓ 1) / step`. Where there are none, the quotient is 0 or less, and there are none
    /// either.
    fn backward(&mut self, range: RangeBounds, out: &mut Vec<TypedStmt>) -> RangeBounds {
        let RangeBounds { start, stop, step, scalar } = range;
        let span = start.span;
        let [start, stop, step] = [start, stop, step].map(|value| self.index_once(value, out));
        let ty: Type = scalar.into();
        let op = |op: Op, args: [&TypedExpr; 2]| {
            let kind = ExprKind::Op { op, args: args.map(Clone::clone).into(), updates: smallvec![] };
            TypedExpr::new(kind, ExprType::Value(ty), span)
        };
        let [zero, one] = [0, 1].map(|n| TypedExpr::constant(n, scalar, span));
        let rises = TypedExpr { ty: ExprType::BOOL, ..op(Op::Gt, [&step, &zero]) };
        let distance = op(Op::Add, [&op(Op::Sub, [&stop, &start]), &step]);
        let rounded = [op(Op::Sub, [&distance, &one]), op(Op::Add, [&distance, &one])];
        let kind = ExprKind::Op { op: Op::Select, args: [&[rises][..], &rounded].concat(), updates: smallvec![] };
        let n = op(Op::Div, [&TypedExpr::new(kind, ExprType::Value(ty), span), &step]);
        let last = op(Op::Add, [&start, &op(Op::Mul, [&op(Op::Sub, [&n, &one]), &step])]);
        let before = op(Op::Sub, [&start, &step]);
        let back = op(Op::Sub, [&zero, &step]);
        let [start, stop, step] = [last, before, back].map(|value| self.index_once(value, out));
        RangeBounds { start, stop, step, scalar }
    }

    fn range(&mut self, iter: &'a ast::Expr) -> Option<RangeBounds> {
        let span = self.span(iter);
        let Some((BuiltinFunction::Range, call)) = self.called_builtin(iter) else {
            let checked = match iter {
                ast::Expr::Name(_) => Some(self.expr(iter)),
                _ => None,
            };
            let over = match iter {
                ast::Expr::Call(call) => dotted(&call.func).and_then(|path| match path[..] {
                    ["enumerate" | "zip" | "iter"] => call.arguments.args.first(),
                    _ => None,
                }),
                _ => None,
            };
            if !checked.as_ref().is_some_and(TypedExpr::is_error) {
                let help = match &checked {
                    Some(TypedExpr { ty: ExprType::Value(Type::Array { .. }), .. }) => {
                        let name = self.unit.text(ruff_text_size::Ranged::range(iter));
                        format!("write `for i in range(len({name})):` and use `{name}[i]`")
                    }
                    _ if let Some(over) = over => {
                        let name = self.unit.text(ruff_text_size::Ranged::range(over));
                        let name = if name.contains('\n') { "a" } else { name };
                        format!("write `for i in range(len({name})):` and use `{name}[i]`")
                    }
                    _ => "write `for i in range(n):`".to_owned(),
                };
                self.reject(Code::Unsupported, span, "`for` loops run over `range(…)` only", help);
            }
            return None;
        };
        let arguments = self.arguments(call)?;
        if arguments.is_empty() || arguments.len() > 3 || arguments.iter().any(|a| a.name.is_some()) {
            self.reject(
                Code::NoOverload,
                span,
                "`range` takes one to three integers",
                "write `range(stop)`, `range(start, stop)` or `range(start, stop, step)`",
            );
            return None;
        }
        // Python's bools are integers.
        let counted = |value: TypedExpr| match (&value.kind, value.ty == ExprType::scalar(Scalar::Bool)) {
            (ExprKind::Const(bits), true) => TypedExpr::constant(*bits, Scalar::I32, value.span),
            _ => value,
        };
        let mut values: SmallVec<[TypedExpr; 3]> = arguments.into_iter().map(|a| counted(a.value)).collect();
        let Some(scalar) = range_scalar(values.iter()) else {
            let typed = values.iter().find_map(|value| value.ty.as_value().map(|ty| (ty, value.clone())));
            let (ty, value) = typed?;
            return self.not_an_integer(ty, &value);
        };
        for value in &mut values {
            let given = std::mem::replace(value, TypedExpr::error(span));
            if let (None, Some(crate::number::PythonNumber::Float(_))) = (given.ty.as_value(), given.untyped()) {
                return self.not_an_integer(Type::F32, &given);
            }
            if let Some(ty) = given.ty.as_value()
                && !ty.as_scalar().is_some_and(Scalar::is_int)
            {
                return self.not_an_integer(ty, &given);
            }
            *value = self.expect_value(given, scalar.into(), Code::TypeMismatch, "another argument of `range`");
        }
        if values.iter().any(TypedExpr::is_error) {
            return None;
        }
        let constant = |bits: u64, span: Span| TypedExpr::constant(bits, scalar, span);
        let (start, stop, step) = match values.len() {
            1 => (constant(0, span), values.pop()?, constant(1, span)),
            2 => {
                let stop = values.pop()?;
                (values.pop()?, stop, constant(1, span))
            }
            _ => {
                let step = values.pop()?;
                let stop = values.pop()?;
                (values.pop()?, stop, step)
            }
        };
        if matches!(step.kind, ExprKind::Const(0)) {
            self.reject(
                Code::ConstantRange,
                step.span,
                "the step of a `range` must not be zero",
                "use a positive or a negative step",
            );
            return None;
        }
        Some(RangeBounds { start, stop, step, scalar })
    }

    fn not_an_integer(&mut self, ty: Type, value: &TypedExpr) -> Option<RangeBounds> {
        let message = format!("`range` takes integers, not {}", ty.python_name());
        let help = match ty {
            Type::Scalar(_) => self.conversion_help(value, Scalar::I32),
            Type::Composite(_) => "write the number of its components".to_owned(),
            Type::Array { .. } | Type::CompositeArray { .. } => "write `range(len(a))`".to_owned(),
        };
        self.reject(Code::TypeMismatch, value.span, message, help);
        None
    }
}

/// The type of a `range` of these values: that of the first with one; otherwise the first of `int32` and `int64` that
/// has all numbers. `None` if the first with a type is no integer.
pub(super) fn range_scalar<'e>(mut values: impl Iterator<Item = &'e TypedExpr> + Clone) -> Option<Scalar> {
    let untyped = values.clone();
    match values.find_map(|value| value.ty.as_value()) {
        Some(ty) => ty.as_scalar().filter(|scalar| scalar.is_int()),
        None => {
            let has_all = |scalar: &Scalar| untyped.clone().all(|value| value.fits(*scalar));
            Some([Scalar::I32, Scalar::I64].into_iter().find(has_all).unwrap_or(Scalar::I32))
        }
    }
}

impl RangeBounds {
    /// Returns true if all three values are constants that give at least one iteration.
    fn runs_at_least_once(&self) -> bool {
        self.last_value().is_some()
    }

    /// Returns the last value of the counter if all three values are constants that give at least one iteration.
    fn last_value(&self) -> Option<i128> {
        let constant = |e: &TypedExpr| match e.kind {
            ExprKind::Const(bits) => {
                let shift = 64 - self.scalar.bits();
                Some(if self.scalar.is_signed_int() {
                    i128::from(((bits << shift) as i64) >> shift)
                } else {
                    i128::from(bits)
                })
            }
            _ => None,
        };
        let (start, stop, step) = (constant(&self.start)?, constant(&self.stop)?, constant(&self.step)?);
        match step {
            1.. if start < stop => Some(start + (stop - 1 - start) / step * step),
            ..=-1 if start > stop => Some(start - (start - stop - 1) / -step * -step),
            _ => None,
        }
    }
}
