//! `static(expression)`: computed by Python when the kernel is compiled, not by the kernel.
//!
//! Where there is no Python, constant expressions are computed here. What it decides, the branch of an `if` or the
//! calls of a loop, is decided in the checker too: a branch not taken is not looked at, and a loop whose counter a
//! static expression names is unrolled.

use super::component_expr::integer;
use super::flow::LocalSet;
use super::function::{FunctionChecker, NameMeaning};
use super::loops::range_scalar;
use super::unrolled_copy::UnrolledCopy;
use crate::builtin_function::BuiltinFunction;
use crate::constant;
use crate::dotted_path::dotted;
use crate::environment::{CapturedMeaning, KernelVariable};
use crate::number::PythonNumber;
use crate::static_calls::{is_static, names_in};
use crate::typed_ast::{AssignTarget, ExprKind, ExprType, LocalId, StmtKind, TypedExpr, TypedStmt};
use polyloom_ir::eval::eval;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Code, Op, Scalar, Span, Type};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast};
use ruff_text_size::Ranged;
use smallvec::smallvec;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Returns what a call of `static` is; `None` if that is reported.
    pub(super) fn static_value(&mut self, call: &'a ast::ExprCall) -> Option<CapturedMeaning> {
        let span = self.span(call);
        let name = self.unit.text(call.func.range());
        let ([expr], []) = (&*call.arguments.args, &*call.arguments.keywords) else {
            let message = format!("`{name}` takes one expression");
            self.reject(Code::BadCapture, span, message, "write an expression that Python can compute");
            return None;
        };
        let mut variables = Vec::new();
        for name in names_in(expr) {
            let value = match self.names.get(name) {
                None => continue,
                Some(NameMeaning::Known(index)) => self.known[*index].clone(),
                Some(NameMeaning::Local(local)) if let Some(value) = self.static_local(name, *local) => {
                    variables.push((name, value));
                    continue;
                }
                Some(NameMeaning::Local(local)) if let Some(Type::Composite(ty)) = Some(self.local_type(*local)) => {
                    variables.push((name, KernelVariable::OfLength(ty.shape()[0])));
                    continue;
                }
                Some(NameMeaning::View(view)) if let ExprType::Values(types) = &self.views[*view].ty => {
                    variables.push((name, KernelVariable::OfLength(types.len() as u16)));
                    continue;
                }
                Some(NameMeaning::Poisoned) => {
                    self.failed = true;
                    return None;
                }
                Some(
                    NameMeaning::Local(_)
                    | NameMeaning::Struct(_)
                    | NameMeaning::Later(_)
                    | NameMeaning::View(_)
                    | NameMeaning::Diverged,
                ) => {
                    let message = format!(
                        "Error evaluating static expression: name '{name}' is not defined. Make sure all variables used in \
                         the static expression are constant."
                    );
                    let help = "use names from outside, constants, and counters of loops over constant ranges";
                    self.reject(Code::BadCapture, span, message, help);
                    return None;
                }
            };
            if let Some(number) = number_of(&value) {
                variables.push((name, number));
            }
        }
        let text = self.unit.text(expr.range());
        match self.environment.evaluate(text, expr.range().start().to_u32(), &variables) {
            Some(Ok(value)) => return Some(value),
            Some(Err(error)) => {
                // `ZeroDivisionError: float division by zero` without the name of the class.
                let what = error.split_once("Error: ").map_or(&*error, |(_, what)| what);
                let message = match what.starts_with("Static expression returns") {
                    true => what.to_owned(),
                    false => format!("Error evaluating static expression: {what}"),
                };
                self.reject(Code::BadCapture, span, message, "static expressions are computed before the kernel runs");
                return None;
            }
            None => {}
        }
        let lookup = |path: &[&str]| self.static_local_lookup(path).or_else(|| self.constant_lookup(path));
        let value = constant::evaluate(expr, &lookup).or_else(|| self.meaning(expr));
        if value.is_none() {
            let message = "only running the program would tell what this is";
            let help = "use literals and constants of the file, or compile the kernel from Python";
            self.reject(Code::BadCapture, span, message, help);
        }
        value
    }

    /// Returns the value of a variable that is certainly the same constant whenever this place is reached.
    fn static_local(&self, name: &str, local: LocalId) -> Option<KernelVariable> {
        let (value, depth) = self.constant_values.get(&local).filter(|_| self.flow.set.contains(local))?;
        // In a loop within that of the assignment, what stands further down in the text has run before.
        if *depth < self.loops.len() + self.n_loop_conditions {
            let def = self.unit.definition(self.function)?;
            let mut changes = ChangeCounter { checker: self, name, n_changes: 0 };
            changes.visit_body(&def.body);
            if changes.n_changes != 1 {
                return None;
            }
        }
        Some(value.clone())
    }

    /// Notes the value of a variable that has just been given it, if it is a constant.
    pub(super) fn note_constant(&mut self, local: LocalId, value: &TypedExpr) {
        if let Some(value) = constant_variable(value) {
            self.constant_values.insert(local, (value, self.loops.len()));
        }
    }

    /// Forgets the values of variables that the branch which has just been looked at assigns: another one comes next.
    pub(super) fn forget_assigned_constants(&mut self) {
        if let Some(assigned) = self.assigned.pop() {
            self.forget_constants(&assigned);
            self.assigned.push(assigned);
        }
    }

    /// Forgets the values of variables that only some of the paths to this point assign.
    pub(super) fn forget_constants(&mut self, assigned: &LocalSet) {
        if !self.constant_values.is_empty() {
            for local in assigned.iter() {
                self.constant_values.remove(&local);
            }
        }
    }

    /// Returns what the name of a variable means that is certainly one constant here.
    fn static_local_lookup(&self, path: &[&str]) -> Option<CapturedMeaning> {
        let &[name] = path else { return None };
        let Some(&NameMeaning::Local(local)) = self.names.get(name) else { return None };
        Some(match self.static_local(name, local)? {
            KernelVariable::Bool(value) => CapturedMeaning::Bool(value),
            KernelVariable::Int(value) => CapturedMeaning::Int(value),
            KernelVariable::Float(bits) => CapturedMeaning::Float(f64::from_bits(bits)),
            KernelVariable::Composite(bits, composite) => CapturedMeaning::CompositeConstant(bits, composite),
            KernelVariable::OfLength(_) => return None,
        })
    }

    /// Returns what names mean in a constant expression of the function's body.
    fn constant_lookup(&self, path: &[&str]) -> Option<CapturedMeaning> {
        match self.known_or_outside(path)? {
            // Counters of unrolled loops, whose type does not matter here.
            CapturedMeaning::Constant(bits, scalar) if scalar.is_int() => {
                Some(CapturedMeaning::Int(integer(bits, scalar)))
            }
            other => Some(other),
        }
    }

    /// Returns what a condition is, if that is known when the kernel is compiled.
    pub(super) fn choice(&mut self, test: &'a ast::Expr) -> Option<bool> {
        match test {
            ast::Expr::Name(name)
                if let Some(&(_, taken)) = self.decided.iter().find(|(known, _)| *known == name.id.as_str()) =>
            {
                Some(taken)
            }
            ast::Expr::UnaryOp(unary) if unary.op == ast::UnaryOp::Not => Some(!self.choice(&unary.operand)?),
            ast::Expr::BoolOp(logic) => {
                let is_or = logic.op == ast::BoolOp::Or;
                let mut values = logic.values.iter();
                let first = self.choice(values.next()?)?;
                let mut last = first;
                while last != is_or {
                    let Some(next) = values.next() else { break };
                    last = self.choice(next)?;
                }
                Some(last)
            }
            ast::Expr::Compare(compare) => {
                if let ([op], [right]) = (&*compare.ops, &*compare.comparators)
                    && let Some(same) = self.same_type_as(&compare.left, right)
                {
                    return match op {
                        ast::CmpOp::Eq | ast::CmpOp::Is => Some(same),
                        ast::CmpOp::NotEq | ast::CmpOp::IsNot => Some(!same),
                        _ => None,
                    };
                }
                let lookup = |path: &[&str]| self.constant_lookup(path);
                constant::truth(&constant::evaluate(test, &lookup)?)
            }
            ast::Expr::BooleanLiteral(_) | ast::Expr::NumberLiteral(_) => {
                constant::truth(&constant::evaluate(test, &|_| None)?)
            }
            ast::Expr::Name(_) | ast::Expr::Attribute(_) | ast::Expr::Call(_) => {
                let value = self.meaning(test)?;
                if let CapturedMeaning::Constant(bits, scalar) = value {
                    return (!scalar.is_float()).then_some(bits != 0);
                }
                constant::truth(&value)
            }
            _ => None,
        }
    }

    /// Tells whether two expressions are the same type; `None` if one of them is no type.
    fn same_type_as(&mut self, left: &'a ast::Expr, right: &'a ast::Expr) -> Option<bool> {
        let type_of = |meaning| match meaning {
            CapturedMeaning::Type(scalar) => Some(Type::Scalar(scalar)),
            CapturedMeaning::Composite(composite) => Some(Type::Composite(composite)),
            _ => None,
        };
        let is_type_like =
            |e: &ast::Expr| matches!(e, ast::Expr::Name(_) | ast::Expr::Attribute(_) | ast::Expr::Call(_));
        if !is_type_like(left) || !is_type_like(right) {
            return None;
        }
        let left = type_of(self.meaning(left)?)?;
        Some(left == type_of(self.meaning(right)?)?)
    }

    /// Returns true if a static expression or the index of a tuple in a loop names its counter.
    pub(super) fn must_unroll(&self, stmt: &'a ast::StmtFor) -> bool {
        let ast::Expr::Name(counter) = &*stmt.target else { return false };
        let mut finder = StaticFinder { checker: self, counter: counter.id.as_str(), found: false };
        finder.visit_body(&stmt.body);
        finder.found
    }

    /// Checks the body of a loop once for each value of its counter.
    ///
    /// The counter is a variable like that of any loop, so that it has its last value afterwards. In the text between
    /// the start of an iteration and an assignment to it, its name stands for the iteration's value.
    pub(super) fn unrolled(&mut self, stmt: &'a ast::StmtFor, range: ConstantRange, out: &mut Vec<TypedStmt>) {
        let ast::Expr::Name(counter) = &*stmt.target else { return };
        let name = counter.id.as_str();
        let Some(local) = self.counter(&stmt.target, Some(range.scalar)) else { return };
        let is_reassigned = assigns_any(&stmt.body, |assigned| assigned == name);
        let counter_span = self.span(counter);
        let value_of = |value: i128| {
            TypedExpr::constant(PythonNumber::Int(value).convert(range.scalar), range.scalar, counter_span)
        };
        let set_counter = |checker: &mut Self, value: i128, out: &mut Vec<TypedStmt>| {
            let value = value_of(value);
            checker.lint_assigned(local, &value);
            checker.mark_assigned(local);
            checker.flow.set.insert(local);
            let kind = StmtKind::Assign { targets: smallvec![AssignTarget::Local(local)], values: smallvec![value] };
            out.push(TypedStmt { kind, span: counter_span });
        };
        let mut is_left = false;
        let mut last = None;
        for value in range.values {
            if !self.spend(1, stmt) {
                break;
            }
            last = Some(value);
            if is_reassigned {
                set_counter(self, value, out);
            }
            self.known.push(CapturedMeaning::Constant(PythonNumber::Int(value).convert(range.scalar), range.scalar));
            self.names.insert(name, NameMeaning::Known(self.known.len() - 1));
            let copy = UnrolledCopy {
                n_loops: self.loops.len(),
                n_open: self.assigned.len(),
                counter: (name, local),
                jump: None,
            };
            self.unrolled.push(copy);
            self.block(&stmt.body, out);
            if let Some((left, flow)) = self.unrolled.pop().and_then(|copy| copy.jump) {
                self.flow = flow;
                is_left = left;
            }
            if is_left || !self.flow.reachable {
                break;
            }
        }
        self.names.insert(name, NameMeaning::Local(local));
        if let Some(last) = last.filter(|_| !is_reassigned && self.flow.reachable) {
            set_counter(self, last, out);
        }
        // Reads in the loop count as reads at its end, because a variable that one iteration sets is read at the start
        // of the text of the next.
        let span = self.span(stmt);
        for local in &mut self.locals {
            if (span.start..span.end).contains(&local.last_read) {
                local.last_read = span.end;
            }
        }
        if !is_left {
            self.block(&stmt.orelse, out);
        }
    }

    /// Makes a counter of an unrolled loop around a variable for the rest of the iteration, as it is once it may be
    /// assigned.
    pub(super) fn release_counter(&mut self, name: &str) {
        if let Some(NameMeaning::Known(_)) = self.names.get(name)
            && let Some(&(name, local)) = self.unrolled.iter().rev().map(|copy| &copy.counter).find(|c| c.0 == name)
        {
            self.names.insert(name, NameMeaning::Local(local));
        }
    }

    /// Does so with those that a loop assigns, each iteration of which may read what another has assigned.
    pub(super) fn release_counters_assigned_in(&mut self, body: &'a [ast::Stmt]) {
        for at in 0..self.unrolled.len() {
            let name = self.unrolled[at].counter.0;
            if matches!(self.names.get(name), Some(NameMeaning::Known(_)))
                && assigns_any(body, |assigned| assigned == name)
            {
                self.release_counter(name);
            }
        }
    }

    /// `break` or `continue` of a loop that is unrolled, which a condition known when the kernel is compiled decides;
    /// gives whether it is one.
    pub(super) fn leave_unrolled(&mut self, span: Span, is_break: bool) -> bool {
        let (n_loops, n_open) = (self.loops.len(), self.assigned.len());
        let Some(copy) = self.unrolled.last_mut().filter(|copy| copy.n_loops == n_loops) else { return false };
        if copy.n_open == n_open {
            copy.jump = Some((is_break, self.flow.clone()));
            self.flow.reachable = false;
            self.chosen_end = true;
        } else {
            let help = "decide it by `static`, or use `if` around what follows";
            let message = "a loop that `static` unrolls cannot be left or continued by what happens when it runs";
            self.reject(Code::Unsupported, span, message, help);
        }
        true
    }

    /// The values of a `range` of constants.
    pub(super) fn constant_range(&mut self, iter: &'a ast::Expr) -> Option<ConstantRange> {
        let Some((BuiltinFunction::Range, call)) = self.called_builtin(iter) else { return None };
        let arguments = self.arguments(call)?;
        let scalar = range_scalar(arguments.iter().map(|argument| &argument.value))?;
        let mut values = Vec::new();
        for argument in &arguments {
            values.push(match (argument.value.number(), &argument.value.kind) {
                (Some(PythonNumber::Int(value)), _) => value,
                (None, ExprKind::Const(_)) => super::component_expr::constant_index(&argument.value)?,
                _ => return None,
            });
        }
        let (start, stop, step) = match values[..] {
            [stop] => (0, stop, 1),
            [start, stop] => (start, stop, 1),
            [start, stop, step] if step != 0 => (start, stop, step),
            _ => return None,
        };
        let inside = |value: &i128| if step > 0 { *value < stop } else { *value > stop };
        // An argument that the type does not have is reported where the range is read.
        let fits = |value: &i128| PythonNumber::Int(*value).fit(scalar).is_some();
        let values = std::iter::successors(Some(start), |value| Some(value + step));
        let values = values.take_while(inside).take(MAX_UNROLLED).collect();
        [start, stop, step].iter().all(fits).then_some(ConstantRange { scalar, values })
    }
}

/// A `range` of constants.
pub(super) struct ConstantRange {
    /// The type of its counter.
    scalar: Scalar,
    values: Vec<i128>,
}

/// Iterations of a loop beyond this are too many for it to be unrolled; the limit of a kernel's length is reached
/// before.
const MAX_UNROLLED: usize = 1 << 20;

/// A value that Python can be given back.
fn number_of(value: &CapturedMeaning) -> Option<KernelVariable> {
    Some(match *value {
        CapturedMeaning::Bool(value) => KernelVariable::Bool(value),
        CapturedMeaning::Int(value) => KernelVariable::Int(value),
        CapturedMeaning::Float(value) => KernelVariable::Float(value.to_bits()),
        CapturedMeaning::Constant(bits, scalar) => scalar_variable(bits, scalar),
        _ => return None,
    })
}

/// A number of the kernel as Python is given it.
fn scalar_variable(bits: u64, scalar: Scalar) -> KernelVariable {
    match scalar {
        Scalar::Bool => KernelVariable::Bool(bits != 0),
        _ if scalar.is_float() => {
            KernelVariable::Float(eval(Op::Cast, &[scalar.into()], &[bits], Type::F64).unwrap_or_default())
        }
        _ => KernelVariable::Int(integer(bits, scalar)),
    }
}

/// The value of a constant expression.
fn constant_variable(value: &TypedExpr) -> Option<KernelVariable> {
    match (&value.kind, value.ty.as_value()?) {
        (ExprKind::Const(bits), Type::Scalar(scalar)) => Some(scalar_variable(*bits, scalar)),
        (ExprKind::Named(_, value), _) => constant_variable(value),
        (ExprKind::Op { op: Op::Construct, args, .. }, Type::Composite(composite)) => {
            let bits = args.iter().map(|component| match component.kind {
                ExprKind::Const(bits) => Some(bits),
                _ => None,
            });
            Some(KernelVariable::Composite(bits.collect::<Option<_>>()?, composite))
        }
        _ => None,
    }
}

/// True if statements, or those in them, assign a name for which `is_sought` holds.
pub(super) fn assigns_any(body: &[ast::Stmt], is_sought: impl Fn(&str) -> bool) -> bool {
    struct AssignedVariables<F>(F, bool);
    impl<'a, F: Fn(&str) -> bool> Visitor<'a> for AssignedVariables<F> {
        fn visit_expr(&mut self, expr: &'a ast::Expr) {
            if let ast::Expr::Name(name) = expr {
                self.1 |= name.ctx.is_store() && (self.0)(name.id.as_str());
            }
            visitor::walk_expr(self, expr);
        }
    }
    let mut assigned = AssignedVariables(is_sought, false);
    assigned.visit_body(body);
    assigned.1
}

/// Counts the places that may give a variable another value: assignments to it and to its parts, and calls of
/// functions, whose parameters may be references.
struct ChangeCounter<'c, 'k, 'o, 'a> {
    checker: &'c FunctionChecker<'k, 'o, 'a>,
    name: &'c str,
    n_changes: usize,
}

impl ChangeCounter<'_, '_, '_, '_> {
    /// True for the variable and its parts.
    fn is_part(&self, expr: &ast::Expr) -> bool {
        match expr {
            ast::Expr::Name(name) => name.id.as_str() == self.name,
            ast::Expr::Subscript(subscript) => self.is_part(&subscript.value),
            ast::Expr::Attribute(attribute) => self.is_part(&attribute.value),
            _ => false,
        }
    }
}

impl<'b> Visitor<'b> for ChangeCounter<'_, '_, '_, '_> {
    fn visit_expr(&mut self, expr: &'b ast::Expr) {
        let is_target = match expr {
            ast::Expr::Name(name) => name.ctx.is_store(),
            ast::Expr::Subscript(subscript) => subscript.ctx.is_store(),
            ast::Expr::Attribute(attribute) => attribute.ctx.is_store(),
            ast::Expr::Call(call) => {
                let path = dotted(&call.func).unwrap_or_default();
                let callee = self.checker.environment.lookup(&path);
                let changes_nothing = match callee {
                    Some(CapturedMeaning::Builtin(BuiltinFunction::Constant | BuiltinFunction::Range)) => true,
                    Some(CapturedMeaning::Builtin(BuiltinFunction::Op(op))) => matches!(
                        op.info().group,
                        OpGroup::Arithmetic | OpGroup::Comparison | OpGroup::Bits | OpGroup::Math
                    ),
                    Some(CapturedMeaning::Type(_) | CapturedMeaning::Composite(_) | CapturedMeaning::Struct(_)) => true,
                    Some(_) => false,
                    // `float` and its like, unless a variable stands for a function.
                    None => path.first().is_some_and(|name| !self.checker.names.contains_key(name)),
                };
                let mut arguments =
                    call.arguments.args.iter().chain(call.arguments.keywords.iter().map(|keyword| &keyword.value));
                !changes_nothing && arguments.any(|argument| self.is_part(argument))
            }
            _ => false,
        };
        if is_target && (self.is_part(expr) || matches!(expr, ast::Expr::Call(_))) {
            self.n_changes += 1;
        }
        visitor::walk_expr(self, expr);
    }
}

/// Looks for `static(…)` with a counter in it, and for tuples indexed with it.
struct StaticFinder<'c, 'k, 'o, 'a> {
    checker: &'c FunctionChecker<'k, 'o, 'a>,
    counter: &'a str,
    found: bool,
}

impl<'b> Visitor<'b> for StaticFinder<'_, '_, '_, '_> {
    fn visit_expr(&mut self, expr: &'b ast::Expr) {
        if let ast::Expr::Call(call) = expr
            && is_static(call, &|path| self.checker.environment.lookup(path))
            && call.arguments.args.iter().any(|arg| names_in(arg).contains(&self.counter))
        {
            self.found = true;
        }
        if let ast::Expr::Subscript(subscript) = expr
            && self.checker.tuple_named(&subscript.value).is_some()
            && names_in(&subscript.slice).contains(&self.counter)
        {
            self.found = true;
        }
        visitor::walk_expr(self, expr);
    }
}
