//! Assignments: what their targets are, and what becomes of names and their types.

use super::conversion::has_quotient;
use super::function::{FunctionChecker, NameMeaning};
use super::subscript_meaning::{SubscriptMeaning, TargetBase};
use super::temporaries::Temporaries;
use crate::builtin_function::BuiltinFunction;
use crate::number::PythonNumber;
use crate::param_type::ParamType;
use crate::structure::ValueType;
use crate::typed_ast::{AssignTarget, ExprKind, ExprType, LocalId, StmtKind, Targets, TypedExpr, TypedStmt};
use polyloom_ir::{Code, Diagnostic, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// `target = value`, `a = b = value`, `a, b = value`.
    pub(super) fn assign(&mut self, assign: &'a ast::StmtAssign, span: Span, out: &mut Vec<TypedStmt>) {
        if let [target] = &assign.targets[..] {
            return self.assign_one(target, &assign.value, span, out);
        }
        // Several targets: the first variable holds the value for the others.
        let value = self.expr(&assign.value);
        let mut value = if value.number().is_some() || value.ty.is_struct() { value } else { self.settle(value) };
        if value.ty.is_struct() {
            value = self.copy_struct(value, span, out);
        }
        if let ExprKind::View { .. } = value.kind {
            value = self.not_kept(&value);
        }
        let simple = |e: &TypedExpr| match e.kind {
            ExprKind::Const(_) | ExprKind::Number(_) => true,
            // A composite is held in a variable of its own, since a part of it may be the next target.
            ExprKind::Local(_) => e.ty.as_value().is_some_and(|ty| ty.as_composite().is_none()),
            _ => false,
        };
        if !simple(&value)
            && let Some(ty) = value.ty.as_value()
        {
            let value_span = value.span;
            let held = self.held_local(ty, value_span, span);
            out.push(TypedStmt {
                kind: StmtKind::Assign { targets: smallvec![AssignTarget::Local(held)], values: smallvec![value] },
                span,
            });
            value = TypedExpr::new(ExprKind::Local(held), ExprType::Value(ty), value_span);
        }
        for target in &assign.targets {
            self.assign_value(target, value.clone(), span, out);
        }
    }

    /// Assigns a value to one target.
    pub(super) fn assign_value(
        &mut self,
        target: &'a ast::Expr,
        value: TypedExpr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        let mut targets = Targets::new();
        if let Some(value) = self.target(target, value, &mut targets) {
            out.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![value] }, span });
        }
    }

    /// A struct, or the values of a call, as variables of their own.
    pub(super) fn hold_struct(&mut self, value: TypedExpr, span: Span, out: &mut Vec<TypedStmt>) -> TypedExpr {
        if matches!(&value.kind, ExprKind::Tuple(leaves) if leaves.iter().all(|leaf| matches!(leaf.kind, ExprKind::Local(_))))
        {
            return value;
        }
        self.copy_struct(value, span, out)
    }

    /// Copies a struct, each leaf into a new variable, so that no later assignment changes it.
    fn copy_struct(&mut self, value: TypedExpr, span: Span, out: &mut Vec<TypedStmt>) -> TypedExpr {
        let Some(ty) = value.ty.full() else { return value };
        let value_span = value.span;
        let mut held = Temporaries::default();
        let leaves = self.leaves_of(value, &mut held);
        let mut targets = Targets::new();
        let (mut stored, mut locals) = (Vec::new(), Vec::new());
        for leaf in leaves {
            match leaf.ty.as_value().filter(|ty| ty.as_any_array().is_none()) {
                Some(ty) => {
                    let local = self.held_local(ty, value_span, span);
                    targets.push(AssignTarget::Local(local));
                    stored.push(leaf);
                    locals.push(TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), value_span));
                }
                None => locals.push(leaf),
            }
        }
        let types = stored.iter().filter_map(|leaf| leaf.ty.full()).collect();
        let stored = held.around(TypedExpr::new(ExprKind::Tuple(stored), ExprType::Values(types), value_span));
        out.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![stored] }, span });
        TypedExpr::new(ExprKind::Tuple(locals), ty.into(), value_span)
    }

    /// A variable without a name that the rest of a statement reads.
    pub(super) fn held_local(&mut self, ty: Type, value: Span, statement: Span) -> LocalId {
        let held = self.new_local("", ty, value);
        self.mark_assigned(held);
        self.locals[held.0 as usize].first_read = value.start;
        self.locals[held.0 as usize].last_read = statement.end;
        held
    }

    pub(super) fn assign_one(
        &mut self,
        target: &'a ast::Expr,
        value: &'a ast::Expr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        let targets = match target {
            ast::Expr::Tuple(tuple) => &tuple.elts,
            ast::Expr::List(list) => &list.elts,
            _ => {
                if let ast::Expr::Name(name) = target
                    && let Some(what) = self.function_or_type(value)
                {
                    return self.bind_known(name, what, span);
                }
                if let ast::Expr::Name(name) = target
                    && (self.assign_array(name, value, span, out) || self.assign_shared(name, value, span, out))
                {
                    return;
                }
                self.assigning = match target {
                    ast::Expr::Name(name) => match self.names.get(name.id.as_str()) {
                        Some(NameMeaning::Local(local)) => Some(*local),
                        _ => None,
                    },
                    _ => None,
                };
                let mut value = self.expr(value);
                self.assigning = None;
                if value.ty.as_value().is_some_and(|ty| ty.as_any_array().is_some()) {
                    value = unwrapped(value, span, out);
                }
                if let ast::Expr::Name(name) = target {
                    // An array of the kernel's own has its elements in itself, so that another name is a copy.
                    if let ExprKind::View { array, indices } = &value.kind
                        && indices.is_empty()
                        && let Some(fixed) = self.fixed.get(array).cloned()
                    {
                        self.lint_copy(span);
                        let ty = ExprType::Value(self.local_type(*array));
                        let value = TypedExpr::new(ExprKind::Local(*array), ty, value.span);
                        return self.bind_own(name, fixed, value, span, out);
                    }
                    if self.bind_view(name, &value, out) {
                        return;
                    }
                    if let Some(fixed) = self.own_result_of(&value) {
                        return self.bind_own(name, fixed, value, span, out);
                    }
                }
                return self.assign_value(target, value, span, out);
            }
        };
        let values: SmallVec<[TypedExpr; 1]> = match value {
            ast::Expr::Tuple(tuple) => tuple.elts.iter().map(|e| self.expr(e)).collect(),
            ast::Expr::List(list) => list.elts.iter().map(|e| self.expr(e)).collect(),
            _ => match self.called_builtin(value) {
                Some((BuiltinFunction::Tid, call)) if call.arguments.is_empty() && (2..=4).contains(&targets.len()) => {
                    let value_span = self.span(value);
                    smallvec![self.tid_coordinates(targets.len(), value_span)]
                }
                _ => match self.tuple_named(value) {
                    Some(parts) => parts.iter().cloned().collect(),
                    None => smallvec![self.expr(value)],
                },
            },
        };
        self.unpack(targets, values, span, out);
    }

    /// Assigns several values to several targets.
    pub(super) fn unpack(
        &mut self,
        targets: &'a [ast::Expr],
        values: SmallVec<[TypedExpr; 1]>,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        let values = self.parts_of_call(values, span, out);
        // One expression of several values is assigned as it is; otherwise there is one value for each target.
        let from_call: Option<SmallVec<[ValueType; 2]>> = match &values[..] {
            [TypedExpr { ty: ExprType::Values(types), .. }] => Some(types.clone()),
            _ => None,
        };
        let failed = values.iter().any(TypedExpr::is_error);
        let n_values = from_call.as_ref().map_or(values.len(), |types| types.len());
        let is_tid = matches!(&values[..], [TypedExpr { kind: ExprKind::Tid(_), .. }]);
        if !failed && is_tid && targets.len() > 4 {
            let message = format!("a launch has at most 4 coordinates, not {}", targets.len());
            self.reject(Code::TypeMismatch, span, message, "unpack `tid()` to 2, 3 or 4 variables");
        } else if !failed && n_values != targets.len() {
            let message = format!("{n_values} values are unpacked to {} targets", targets.len());
            let message = if n_values == 1 { "one value cannot be unpacked".to_owned() } else { message };
            self.reject(Code::TypeMismatch, span, message, "write as many targets as there are values");
        }
        if failed || n_values != targets.len() {
            for target in targets {
                self.target(target, TypedExpr::error(span), &mut Targets::new());
            }
            return;
        }
        let all_variables = targets.iter().all(|target| matches!(target, ast::Expr::Name(_)));
        let all_plain = |types: &SmallVec<[ValueType; 2]>| types.iter().all(|ty| ty.as_plain().is_some());
        let mut values = values;
        let from_call = match from_call {
            // Variables hold the call's values first, because more is stored than these one by one.
            Some(types) if !all_variables || !all_plain(&types) => {
                values = self.hold_values(values, &types, span, out);
                None
            }
            from_call => from_call,
        };
        if !all_variables && targets.len() > 1 {
            // A target may be a part of what another one changes, or have an index that another one sets, so that, as
            // in Python, all values are known first, and then the targets are assigned from left to right.
            let values: SmallVec<[TypedExpr; 4]> =
                values.into_iter().map(|value| self.hold_assigned(value, span, out)).collect();
            for (target, value) in targets.iter().zip(values) {
                self.assign_value(target, value, span, out);
            }
            return;
        }
        let mut bound = Targets::new();
        let mut given = SmallVec::new();
        let mut values = values.into_iter();
        let tuple = if from_call.is_some() { values.next() } else { None };
        for (i, target) in targets.iter().enumerate() {
            let value = match &from_call {
                // Stands for one of the call's values, because its type is what matters.
                Some(types) => TypedExpr::new(ExprKind::Tuple(Vec::new()), ExprType::from(types[i]), span),
                None => match values.next() {
                    Some(value) => value,
                    None => return,
                },
            };
            if let Some(value) = self.target(target, value, &mut bound) {
                given.push(value);
            }
        }
        let values = match tuple {
            // Calls give no arrays, so that a target is missing only if it is rejected, and the function with it.
            Some(_) if bound.len() != targets.len() => return,
            Some(tuple) => smallvec![tuple],
            // A name that now stands for an array leaves nothing to store, but the others do.
            None => given,
        };
        if !bound.is_empty() {
            out.push(TypedStmt { kind: StmtKind::Assign { targets: bound, values }, span });
        }
    }

    /// A value that no assignment after it changes. What has no value of its own yet, a number or an array, is itself.
    fn hold_assigned(&mut self, value: TypedExpr, span: Span, out: &mut Vec<TypedStmt>) -> TypedExpr {
        if value.is_error() || matches!(value.ty, ExprType::Values(_)) {
            return value;
        }
        if value.is_waiting() {
            let mut value = value;
            self.hold_conditions(&mut value, span, out);
            return value;
        }
        if value.ty.is_struct() {
            return self.copy_struct(value, span, out);
        }
        let value = self.settle(value);
        let Some(ty) = value.ty.as_value().filter(|ty| ty.as_any_array().is_none()) else { return value };
        if matches!(value.kind, ExprKind::Const(_)) {
            return value;
        }
        let value_span = value.span;
        let held = self.held_local(ty, value_span, span);
        let kind = StmtKind::Assign { targets: smallvec![AssignTarget::Local(held)], values: smallvec![value] };
        out.push(TypedStmt { kind, span });
        TypedExpr::new(ExprKind::Local(held), ExprType::Value(ty), value_span)
    }

    /// Holds the conditions by which an expression of numbers alone chooses among these.
    fn hold_conditions(&mut self, value: &mut TypedExpr, span: Span, out: &mut Vec<TypedStmt>) {
        match &mut value.kind {
            ExprKind::If { cond, then, otherwise, .. } => {
                let condition = std::mem::replace(&mut **cond, TypedExpr::error(span));
                **cond = self.hold_assigned(condition, span, out);
                self.hold_conditions(then, span, out);
                self.hold_conditions(otherwise, span, out);
            }
            ExprKind::Op { args, .. } => args.iter_mut().for_each(|arg| match arg.is_waiting() {
                true => self.hold_conditions(arg, span, out),
                false => {
                    let held = std::mem::replace(arg, TypedExpr::error(span));
                    *arg = self.hold_assigned(held, span, out);
                }
            }),
            _ => {}
        }
    }

    /// The values of a call with arrays among its results, which is held in variables first; others as they are.
    pub(super) fn parts_of_call(
        &mut self,
        values: SmallVec<[TypedExpr; 1]>,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) -> SmallVec<[TypedExpr; 1]> {
        let [TypedExpr { ty: ExprType::Values(types), .. }] = &values[..] else { return values };
        if !types.iter().any(|ty| ty.has_arrays()) {
            return values;
        }
        let mut parts = SmallVec::new();
        for value in values {
            let value = unwrapped(value, span, out);
            match value.kind {
                ExprKind::Tuple(of) => parts.extend(of),
                _ => parts.push(value),
            }
        }
        parts
    }

    /// Puts the values of an expression that gives several into variables of their own.
    pub(super) fn hold_values(
        &mut self,
        values: SmallVec<[TypedExpr; 1]>,
        types: &[ValueType],
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) -> SmallVec<[TypedExpr; 1]> {
        let mut targets = Targets::new();
        let mut leaf = |checker: &mut Self, ty: Type| {
            let local = checker.held_local(ty, span, span);
            targets.push(AssignTarget::Local(local));
            TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), span)
        };
        let held = types.iter().map(|&ty| match ty {
            ValueType::Plain(ty) => leaf(self, ty),
            _ => {
                let leaves = ty.leaf_types().into_iter().map(|ty| leaf(self, ty)).collect();
                TypedExpr::new(ExprKind::Tuple(leaves), ty.into(), span)
            }
        });
        let held = held.collect();
        out.push(TypedStmt { kind: StmtKind::Assign { targets, values }, span });
        held
    }

    /// Appends what a target writes, and gives the value as it is stored there; `None` if either is rejected, or if
    /// nothing is to be stored: the target now stands for an array.
    pub(super) fn target(
        &mut self,
        target: &'a ast::Expr,
        value: TypedExpr,
        targets: &mut Targets,
    ) -> Option<TypedExpr> {
        let span = self.span(target);
        if self.shows_type_of_result(target, &value) {
            return None;
        }
        match target {
            ast::Expr::Name(name) if value.ty.is_struct() => self.bind_struct(name, value, targets),
            ast::Expr::Name(name) => {
                let (local, value) = self.bind_name(name, value)?;
                targets.push(AssignTarget::Local(local));
                Some(value)
            }
            ast::Expr::Subscript(subscript) if is_shape(&subscript.value) => {
                self.reject(
                    Code::BadAssignment,
                    span,
                    "the shape of an array cannot be assigned",
                    "assign a variable or an array element",
                );
                None
            }
            ast::Expr::Subscript(subscript) => {
                let indexed = self.indexed_target(subscript, span);
                let indexed = match indexed? {
                    SubscriptMeaning::Struct(place) => return self.assign_place(place, value, targets),
                    indexed => indexed,
                };
                let value = if value.is_waiting() { value } else { self.settle(value) };
                let (target, value) = match indexed {
                    SubscriptMeaning::View(view) => {
                        self.too_few_indices(&view);
                        return None;
                    }
                    SubscriptMeaning::Element(element, elem) => {
                        let value = self.expect_value(value, elem, Code::TypeMismatch, "the array's element");
                        (AssignTarget::Element(Box::new(element)), value)
                    }
                    SubscriptMeaning::Component(base, composite, index) => {
                        self.component_target(&base, composite, index, value, span)?
                    }
                    SubscriptMeaning::Parts(parts) => self.parts_target(parts, value, span)?,
                    SubscriptMeaning::Run(run) => self.run_target(run, value, span)?,
                    SubscriptMeaning::Row(base, composite, index) => {
                        self.row_target(&base, composite, index, value, span)?
                    }
                    SubscriptMeaning::Struct(_) => return None,
                };
                targets.push(target);
                (!value.is_error()).then_some(value)
            }
            ast::Expr::Attribute(attribute)
                if matches!(self.place_type(&attribute.value), Some(ValueType::Struct(_))) =>
            {
                let place = self.field_place(attribute, span)?;
                self.assign_place(place, value, targets)
            }
            ast::Expr::Attribute(attribute) => {
                let base = self.target_base(&attribute.value);
                let value = if value.is_waiting() { value } else { self.settle(value) };
                let base = match base {
                    TargetBase::Run(run) => {
                        let name = attribute.attr.as_str();
                        let (target, value) = self.run_member_target(run, name, value, span)?;
                        targets.push(target);
                        return (!value.is_error()).then_some(value);
                    }
                    TargetBase::Value(base) => base,
                };
                if let Some(composite) = base.ty.as_value()?.as_composite() {
                    let (target, value) = self.member_target(&base, composite, attribute.attr.as_str(), value, span)?;
                    targets.push(target);
                    return Some(value);
                }
                self.reject(
                    Code::BadAssignment,
                    span,
                    "an attribute cannot be assigned in a kernel",
                    "assign a variable or an array element",
                );
                None
            }
            ast::Expr::Starred(_) => {
                self.reject(Code::Unsupported, span, "`*` is not supported in a target", "write each target by name");
                None
            }
            ast::Expr::Tuple(_) | ast::Expr::List(_) => {
                self.reject(
                    Code::Unsupported,
                    span,
                    "nested targets are not supported",
                    "unpack the inner values on a line of their own",
                );
                None
            }
            _ => {
                self.reject(
                    Code::BadAssignment,
                    span,
                    "this cannot be assigned",
                    "assign a variable or an array element",
                );
                None
            }
        }
    }

    /// Gives a variable a value, and a type if it is its first.
    pub(super) fn bind_name(&mut self, name: &'a ast::ExprName, value: TypedExpr) -> Option<(LocalId, TypedExpr)> {
        let span = self.span(name);
        let text = name.id.as_str();
        self.release_counter(text);
        match self.names.get(text).copied() {
            Some(NameMeaning::Local(id)) => {
                self.mark_assigned(id);
                if self.local_type(id).as_any_array().is_some() {
                    self.settle(value);
                    self.reject(
                        Code::NotSupportedYet,
                        span,
                        format!("`{text}` names an array and cannot be assigned again"),
                        "use a variable of another name",
                    );
                    return None;
                }
                let given = value.ty.clone();
                self.lint_assigned(id, &value);
                let value = self.retyped(id, value, span);
                if let Some(value) = &value {
                    self.note_constant(id, value);
                }
                if value.is_none() && given != ExprType::Error {
                    // The variable's value is not known from here on.
                    self.names.insert(text, NameMeaning::Poisoned);
                }
                Some((id, value?))
            }
            Some(NameMeaning::Poisoned) => {
                self.settle(value);
                None
            }
            Some(NameMeaning::View(view)) => {
                self.settle(value);
                let what = self.kind_of_view(&self.views[view]);
                let message = format!("`{text}` stands for {what} and cannot be assigned a value");
                self.reject(Code::BadAssignment, span, message, "use a variable of another name");
                None
            }
            Some(NameMeaning::Known(index)) => {
                self.settle(value);
                self.reject_known_target(text, index, span);
                None
            }
            Some(NameMeaning::Struct(variable)) => {
                let value = self.settle(value);
                let known = &self.structs[variable];
                let (was, first) = (known.ty.python_name(), known.span);
                self.names.insert(text, NameMeaning::Poisoned);
                let given = value.ty.as_value()?.python_name();
                let message = format!("`{text}` is {given} here but was {was} before");
                self.report(
                    Diagnostic::error(Code::Retyped, span, message)
                        .label(first, format!("{was} here"))
                        .help("use a variable of another name"),
                );
                None
            }
            Some(NameMeaning::Later(_) | NameMeaning::Diverged) | None => {
                let number = value.number();
                let is_number = number.is_some();
                let value = if is_number { self.as_shown(value, span) } else { value };
                let value = self.settle(value);
                let Some(ty) = value.ty.as_value() else {
                    self.names.insert(text, NameMeaning::Poisoned);
                    return None;
                };
                if ty.as_any_array().is_some() {
                    self.alias(text, &value, span);
                    return None;
                }
                let id = self.new_local(text, ty, span);
                if let Some(number) = number {
                    self.begins_as_number(id, number, span);
                }
                if is_number || has_quotient(&value) {
                    self.first_values.insert(id, value.clone());
                }
                self.lint_assigned(id, &value);
                self.names.insert(text, NameMeaning::Local(id));
                self.mark_assigned(id);
                self.note_constant(id, &value);
                Some((id, value))
            }
        }
    }

    /// Makes a name stand for an array, until the branch or loop body ends.
    fn alias(&mut self, name: &'a str, array: &TypedExpr, span: Span) {
        match array.kind {
            ExprKind::Local(id) => self.stand_for(name, NameMeaning::Local(id), "an array", span),
            ExprKind::View { .. } => {
                self.names.insert(name, NameMeaning::Poisoned);
                self.not_kept(array);
            }
            _ => {
                self.names.insert(name, NameMeaning::Poisoned);
                let help = "use the array by its own name";
                self.reject(Code::BadAssignment, span, format!("`{name}` is set to an array without a name"), help);
            }
        }
    }

    /// A value for a variable that has a type.
    fn retyped(&mut self, id: LocalId, value: TypedExpr, span: Span) -> Option<TypedExpr> {
        let local = &self.locals[id.0 as usize];
        let (ty, first, name) = (local.ty, local.span, local.name.clone());
        if let Some(number) = value.untyped()
            && ty.as_scalar().is_some_and(|s| number.adapts_to(s))
        {
            return Some(self.adapt(value, ty)).filter(|v| !v.is_error());
        }
        let value = self.settle(value);
        let given = value.ty.as_value()?;
        if given == ty {
            return Some(value);
        }
        self.shows_type_of_number(id, given);
        let message = format!("`{name}` is {} here but was {} before", given.python_name(), ty.python_name());
        let help = match (ty, given) {
            (_, Type::Scalar(given)) if let Some(help) = self.retype_help(id, given) => help,
            (Type::Scalar(Scalar::I32), Type::Scalar(Scalar::F32)) if (id.0 as usize) >= self.n_params => {
                format!("to make it a float write `{name} = 0.0` (or `float(…)`) where it is first set")
            }
            (Type::Scalar(ty), Type::Scalar(_)) => {
                format!("{}, or use a variable of another name", self.conversion_help(&value, ty))
            }
            _ => "use a variable of another name".to_owned(),
        };
        self.report(
            Diagnostic::error(Code::Retyped, span, message)
                .label(first, format!("{} here", ty.python_name()))
                .help(help),
        );
        None
    }

    pub(super) fn mark_assigned(&mut self, id: LocalId) {
        self.flow.set.insert(id);
        self.constant_values.remove(&id);
        if let Some(assigned) = self.assigned.last_mut() {
            assigned.insert(id);
        }
    }

    /// `name: type = value`.
    pub(super) fn annotated(&mut self, assign: &'a ast::StmtAnnAssign, span: Span, out: &mut Vec<TypedStmt>) {
        let ast::Expr::Name(name) = &*assign.target else {
            let span = self.span(&*assign.target);
            self.reject(Code::BadAssignment, span, "only variables can be annotated", "remove the annotation");
            return;
        };
        let ty = self.annotation(&assign.annotation);
        let value = assign.value.as_deref().map(|v| self.expr(v));
        let ty = match ty {
            Some(ParamType::Exact(ty)) => ty,
            Some(_) => match &value {
                Some(value) => match (value.ty.full(), value.untyped()) {
                    (Some(ty), _) => ty,
                    (None, Some(PythonNumber::Float(_))) => Type::F32.into(),
                    (None, _) => Type::I32.into(),
                },
                None => return,
            },
            None => {
                self.names.insert(name.id.as_str(), NameMeaning::Poisoned);
                return;
            }
        };
        let name_span = self.span(name);
        let ValueType::Plain(ty) = ty else {
            let Some(value) = value else { return };
            let value = self.expect(value, ty, Code::TypeMismatch, "the annotation");
            let mut targets = Targets::new();
            if value.is_error() {
                self.names.insert(name.id.as_str(), NameMeaning::Poisoned);
            } else if let Some(value) = self.bind_struct(name, value, &mut targets) {
                out.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![value] }, span });
            }
            return;
        };
        if let Some(NameMeaning::Later(_)) = self.names.get(name.id.as_str())
            && ty.as_any_array().is_none()
        {
            let id = self.new_local(name.id.as_str(), ty, name_span);
            self.names.insert(name.id.as_str(), NameMeaning::Local(id));
        } else if let Some(NameMeaning::Local(id)) = self.names.get(name.id.as_str()).copied()
            && self.local_type(id) != ty
        {
            self.retyped(id, TypedExpr::new(ExprKind::Error, ExprType::Value(ty), name_span), name_span);
            return;
        }
        let Some(value) = value else { return };
        let value = self.expect_value(value, ty, Code::TypeMismatch, "the annotation");
        if value.is_error() {
            // The annotation says what the variable is, whatever its value, so that its uses are still checked.
            if let Some(NameMeaning::Local(id)) = self.names.get(name.id.as_str()).copied() {
                self.mark_assigned(id);
            }
            return;
        }
        if let Some((local, value)) = self.bind_name(name, value) {
            let kind = StmtKind::Assign { targets: smallvec![AssignTarget::Local(local)], values: smallvec![value] };
            out.push(TypedStmt { kind, span });
        }
    }
}

/// Returns true if an expression is `….shape`.
fn is_shape(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Attribute(attribute) if attribute.attr.as_str() == "shape")
}

/// A value without the variables that it needs, which statements before it hold.
fn unwrapped(mut value: TypedExpr, span: Span, out: &mut Vec<TypedStmt>) -> TypedExpr {
    let mut held = Temporaries::default();
    while let ExprKind::Let { locals, value: inner, body } = value.kind {
        held.push(locals, *inner);
        value = *body;
    }
    out.extend(held.statements(span));
    value
}
