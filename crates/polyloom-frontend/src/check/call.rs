//! Calls: what is called, and its arguments.

use super::SpecialisationArg;
use super::function::{FunctionChecker, NameMeaning};
use super::overload::{ActualArgument, Actuals};
use super::scope::is_library;
use super::structure::{incomplete, unset, with_empty_arrays};
use super::temporaries::Temporaries;
use crate::builtin_function::{BuiltinFunction, CompositeConstructor};
use crate::dotted_path::dotted;
use crate::environment::{CapturedMeaning, FunctionHandle};
use crate::members;
use crate::package_names::PACKAGES;
use crate::param_type::ParamType;
use crate::structure::ValueType;
use crate::typed_ast::{ExprKind, ExprType, LocalId, Locals, TypedExpr};
use polyloom_ir::op::SignatureParam;
use polyloom_ir::{Code, Diagnostic, FunctionKind, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

/// An argument of a call.
#[derive(Clone)]
pub(super) struct CallArgument<'a> {
    /// The keyword it is given by.
    pub(super) name: Option<&'a str>,
    /// Its value.
    pub(super) value: TypedExpr,
}

/// Says where an argument stands in a call.
#[derive(Clone, Copy)]
enum ArgumentPlace<'a> {
    /// At this position.
    Position(usize),
    /// By this keyword.
    Keyword(&'a str),
}

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// A call. Where its text has another order than its operands, arguments are held in variables in that of the text.
    pub(super) fn call(&mut self, call: &'a ast::ExprCall, span: Span) -> TypedExpr {
        let outer = std::mem::take(&mut self.held_arguments);
        let value = self.call_inner(call, span);
        std::mem::replace(&mut self.held_arguments, outer).around(value)
    }

    fn call_inner(&mut self, call: &'a ast::ExprCall, span: Span) -> TypedExpr {
        if let ast::Expr::Call(grad) = &*call.func
            && self.is_grad(grad)
        {
            return match self.gradient(grad) {
                Some(gradient) => self.call_of(gradient, call, &[], span),
                None => {
                    self.actuals(call);
                    self.refuse_grad(grad)
                }
            };
        }
        let path = dotted(&call.func);
        let is_outside = path.as_ref().is_some_and(|path| !self.is_variable(path[0]));
        if !is_outside && let Some(meaning) = self.meaning(&call.func) {
            let text = self.unit.text(ruff_text_size::Ranged::range(&*call.func));
            return self.call_of(meaning, call, &[text], span);
        }
        let Some(path) = path else {
            // Errors of `f(x)` come first in `f(x)(y)`.
            if call.func.is_call_expr() && self.expr(&call.func).is_error() {
                return TypedExpr::error(span);
            }
            let arguments = self.arguments(call);
            if let (None, ast::Expr::Attribute(_)) = (arguments, &*call.func) {
                return TypedExpr::error(span);
            }
            let help = self
                .as_function(call)
                .unwrap_or_else(|| format!("call a builtin or a function decorated with `@{}.func`", self.package()));
            return self.reject(Code::Unsupported, span, "only functions known by name can be called", help);
        };
        if let Some(name) = self.names.get(path[0]) {
            let poisoned = matches!(name, NameMeaning::Poisoned);
            self.arguments(call);
            if poisoned {
                return TypedExpr::error(span);
            }
            let (message, help) = match path[..] {
                [name]
                    if matches!(
                        self.environment.lookup(&[name]),
                        Some(CapturedMeaning::Function(_) | CapturedMeaning::Builtin(_))
                    ) =>
                {
                    (
                        format!("`{name}` is a variable here, not a function"),
                        "use a variable of another name".to_owned(),
                    )
                }
                [name] => (
                    format!("`{name}` is a variable, not a function"),
                    "variables cannot be called: write `x[i]` for an element of an array".to_owned(),
                ),
                _ => (
                    format!("`{}` is no function: variables have no methods", path.join(".")),
                    self.as_function(call).unwrap_or_else(|| {
                        format!("call a builtin, or a function decorated with `@{}.func`", self.package())
                    }),
                ),
            };
            return self.reject(Code::UnknownName, self.span(&*call.func), message, help);
        }
        let meaning = self.capture(&path).or_else(|| self.meaning(&call.func));
        let meaning = meaning.or_else(|| self.unqualified(&path, call));
        let Some(meaning) = meaning else {
            self.arguments(call);
            let callee_span = self.span(&*call.func);
            return self.unknown(&path, callee_span);
        };
        self.call_of(meaning, call, &path, span)
    }

    /// The builtin or type of the package that a name stands for which nothing defines, since Warp knows these by their
    /// bare names, which Python does not.
    fn unqualified(&mut self, path: &[&'a str], call: &'a ast::ExprCall) -> Option<CapturedMeaning> {
        let [name] = path[..] else { return None };
        let is_function =
            |what: &CapturedMeaning| matches!(what, CapturedMeaning::Builtin(_) | CapturedMeaning::Composite(_));
        let what = members::package_member(name).filter(is_function)?;
        let span = self.span(&*call.func);
        let warning = Diagnostic::warning(Code::UnknownName, span, format!("`{name}` is not defined in Python"));
        self.report(warning.help(format!("write `{}.{name}`", self.package())));
        Some(what)
    }

    /// A call of what `path` names.
    fn call_of(&mut self, callee: CapturedMeaning, call: &'a ast::ExprCall, path: &[&'a str], span: Span) -> TypedExpr {
        let callee_span = self.span(&*call.func);
        match callee {
            CapturedMeaning::Builtin(builtin) => {
                if path == ["round"] {
                    self.lint_round(span);
                }
                self.builtin(builtin, call, path, span)
            }
            CapturedMeaning::Type(scalar) => self.conversion_call(scalar, call, path, span),
            CapturedMeaning::Composite(composite) => self.construction(composite, call, path, span),
            CapturedMeaning::Struct(of) => self.struct_construction(of, call, path, span),
            CapturedMeaning::TypeConstructor(kind) => {
                self.constructor(CompositeConstructor::of(kind), call, path, span)
            }
            CapturedMeaning::Function(handles) => {
                let actuals = self.actuals(call);
                self.user_call(&handles, &path.join("."), actuals, span)
            }
            CapturedMeaning::Gradient(of, name) => self.gradient_call(&of, &name, call, span),
            CapturedMeaning::Kernel(name) => {
                self.arguments(call);
                let message = format!("`{name}` is a kernel and cannot be called here");
                let help = format!("put the shared code in a function decorated with `@{}.func`", self.package());
                self.reject(Code::BadCapture, callee_span, message, help)
            }
            CapturedMeaning::Absent(sentence) => {
                self.arguments(call);
                self.reject_absent(&sentence, callee_span)
            }
            CapturedMeaning::Unsupported(_) if self.is_in_library(path) => {
                if self.is_zeros(path) {
                    // Errors of its arguments are told first.
                    if self.zeros(call, span).is_none() {
                        return TypedExpr::error(span);
                    }
                } else {
                    self.arguments(call);
                }
                self.unknown(path, callee_span)
            }
            CapturedMeaning::Unsupported(type_name) if &*type_name == "function" => {
                self.arguments(call);
                let message = format!("`{}` is a plain Python function", path.join("."));
                let help = format!("decorate it with `@{}.func`", self.package());
                self.reject(Code::BadCapture, callee_span, message, help)
            }
            other => {
                self.arguments(call);
                let message = format!("`{}` is {} and cannot be called", path.join("."), other.describe());
                self.reject(Code::BadCapture, callee_span, message, "call a builtin or a function")
            }
        }
    }

    /// The call of a method as that of the builtin of its name: `loom.dot(a, b)` for `a.dot(b)`.
    fn as_function(&self, call: &ast::ExprCall) -> Option<String> {
        let ast::Expr::Attribute(method) = &*call.func else { return None };
        let text = |range| self.unit.text(range);
        let name = method.attr.as_str();
        if name == "sum" {
            return members::instead_of_python(name, self.package());
        }
        let own = members::other_name(name).unwrap_or(name);
        let Some(CapturedMeaning::Builtin(_)) = members::package_member(own) else { return None };
        let object = text(ruff_text_size::Ranged::range(&*method.value));
        let mut arguments = vec![object];
        arguments.extend(call.arguments.args.iter().map(|arg| text(ruff_text_size::Ranged::range(arg))));
        let arguments = arguments.join(", ");
        let shown = if arguments.len() > 60 || arguments.contains('\n') { "…" } else { &arguments };
        Some(format!("write `{}.{own}({shown})`", self.package()))
    }

    /// Returns true if a path leads into the package, `math` or NumPy.
    fn is_in_library(&mut self, path: &[&'a str]) -> bool {
        match path {
            [owner @ .., _] if !owner.is_empty() => {
                matches!(self.capture(owner), Some(CapturedMeaning::Module(m)) if is_library(&m) || PACKAGES.contains(&&*m))
            }
            _ => false,
        }
    }

    /// A positional argument, or those that `*value` stands for.
    pub(super) fn positional(&mut self, arg: &'a ast::Expr) -> Vec<TypedExpr> {
        match arg {
            ast::Expr::Starred(starred) => {
                if let Some(parts) = self.tuple_named(&starred.value) {
                    return parts.clone();
                }
                let span = self.span(starred);
                if let ast::Expr::Subscript(subscript) = &*starred.value
                    && let Some(elements) = self.spread_slice(subscript, span)
                {
                    return elements;
                }
                let value = self.value(&starred.value);
                self.spread(value, span)
            }
            arg => vec![self.expr(arg)],
        }
    }

    /// True if the arguments of a call may be operands in another order than they are written in, and it would be seen
    /// in which they are evaluated.
    fn order_matters(&mut self, call: &'a ast::ExprCall) -> bool {
        let is_select = dotted(&call.func).is_some_and(|path| path.last() == Some(&"select"));
        let is_reordered = is_select || !call.arguments.keywords.is_empty();
        let values = call.arguments.args.iter().chain(call.arguments.keywords.iter().map(|keyword| &keyword.value));
        is_reordered && call.arguments.len() > 1 && values.into_iter().any(|value| self.has_effect(value))
    }

    /// An argument, evaluated into variables where it is written. What the call may change stays the variable or
    /// element that it is, because what is passed by reference is read when the function runs.
    fn held_argument(&mut self, value: TypedExpr, call: &'a ast::ExprCall, place: ArgumentPlace<'a>) -> TypedExpr {
        if self.may_change(call, place) {
            return value;
        }
        let mut held = std::mem::take(&mut self.held_arguments);
        let value = self.held_value(value, &mut held);
        self.held_arguments = held;
        value
    }

    /// True if what a call names may change this argument: a random state, or what is passed by reference.
    fn may_change(&mut self, call: &'a ast::ExprCall, place: ArgumentPlace<'a>) -> bool {
        match self.meaning(&call.func) {
            Some(CapturedMeaning::Builtin(BuiltinFunction::Op(op))) => {
                let is_it = |(i, param): (usize, &SignatureParam)| match place {
                    ArgumentPlace::Position(position) => position == i,
                    ArgumentPlace::Keyword(name) => name == param.name,
                };
                let mut signatures = op.info().signatures.iter();
                signatures.any(|signature| signature.params.iter().enumerate().any(|at| at.1.inout && is_it(at)))
            }
            Some(CapturedMeaning::Function(handles)) => handles.iter().any(|handle| {
                let Some(def) = handle.unit.definition(handle.function) else { return false };
                let types = handle.parameter_types(Some(ParamType::ANY)).unwrap_or_default();
                let position = match place {
                    ArgumentPlace::Position(position) => Some(position),
                    ArgumentPlace::Keyword(name) => {
                        def.parameters.iter_non_variadic_params().position(|p| p.parameter.name.as_str() == name)
                    }
                };
                position.is_some_and(|at| matches!(types.get(at), Some(ParamType::Reference(_))))
            }),
            _ => false,
        }
    }

    fn held_value(&mut self, value: TypedExpr, held: &mut Temporaries) -> TypedExpr {
        let span = value.span;
        match value.kind {
            ExprKind::View { array, indices } => {
                let indices = indices.into_iter().map(|index| match index.kind {
                    ExprKind::Slice(parts) => {
                        let parts = parts.map(|part| self.held_value(part, held));
                        TypedExpr { kind: ExprKind::Slice(Box::new(parts)), ..index }
                    }
                    ExprKind::Gather(_) => index,
                    _ => self.held_value(index, held),
                });
                let kind = ExprKind::View { array, indices: indices.collect() };
                TypedExpr { kind, ..value }
            }
            ExprKind::Local(local)
                if self.fixed.contains_key(&local) || self.local_type(local).as_any_array().is_some() =>
            {
                value
            }
            ExprKind::Local(local) => {
                let ty = self.local_type(local);
                let copy = self.new_local("", ty, span);
                held.push(smallvec![copy], value);
                TypedExpr::new(ExprKind::Local(copy), ExprType::Value(ty), span)
            }
            ExprKind::Tuple(parts) => {
                let parts = parts.into_iter().map(|part| self.held_value(part, held)).collect();
                TypedExpr { kind: ExprKind::Tuple(parts), ..value }
            }
            _ if value.ty.is_struct() => {
                let ty = value.ty.clone();
                let leaves = self.leaves_of(value, held);
                let leaves = leaves.into_iter().map(|leaf| self.held_value(leaf, held)).collect();
                TypedExpr::new(ExprKind::Tuple(leaves), ty, span)
            }
            _ if value.ty.as_value().is_some_and(|ty| ty.as_any_array().is_some()) => value,
            _ => self.hold(value, held),
        }
    }

    /// The arguments of a call, each one value; `None` if one of them is rejected.
    pub(super) fn arguments(&mut self, call: &'a ast::ExprCall) -> Option<Vec<CallArgument<'a>>> {
        self.arguments_without(call, &[])
    }

    /// Works like [`FunctionChecker::arguments`], without those of these keywords.
    pub(super) fn arguments_without(
        &mut self,
        call: &'a ast::ExprCall,
        left_out: &[&str],
    ) -> Option<Vec<CallArgument<'a>>> {
        let arguments = self.arguments_but(call, left_out)?;
        let mut failed = false;
        for argument in arguments.iter().filter(|argument| argument.value.ty.is_struct()) {
            self.settle(argument.value.clone());
            failed = true;
        }
        (!failed).then_some(arguments)
    }

    /// The arguments of a call, structs among them; `None` if one of them is rejected.
    pub(super) fn all_arguments(&mut self, call: &'a ast::ExprCall) -> Option<Vec<CallArgument<'a>>> {
        self.arguments_but(call, &[])
    }

    /// Works like [`FunctionChecker::all_arguments`], without those of these keywords.
    pub(super) fn arguments_but(
        &mut self,
        call: &'a ast::ExprCall,
        left_out: &[&str],
    ) -> Option<Vec<CallArgument<'a>>> {
        let mut arguments = Vec::with_capacity(call.arguments.args.len() + call.arguments.keywords.len());
        let mut failed = false;
        let order_matters = self.order_matters(call);
        for arg in &call.arguments.args {
            for value in self.positional(arg) {
                failed |= value.is_error();
                let place = ArgumentPlace::Position(arguments.len());
                let value = if order_matters { self.held_argument(value, call, place) } else { value };
                arguments.push(CallArgument { name: None, value });
            }
        }
        for keyword in &call.arguments.keywords {
            if keyword.arg.as_ref().is_some_and(|arg| left_out.contains(&arg.as_str())) {
                continue;
            }
            let value = self.expr(&keyword.value);
            failed |= value.is_error();
            let value = match &keyword.arg {
                Some(name) if order_matters => self.held_argument(value, call, ArgumentPlace::Keyword(name.as_str())),
                _ => value,
            };
            match &keyword.arg {
                Some(name) => arguments.push(CallArgument { name: Some(name.as_str()), value }),
                None => {
                    let span = self.span(keyword);
                    self.reject(Code::Unsupported, span, "`**` is not supported", "write each argument by name");
                    failed = true;
                }
            }
        }
        for argument in &mut arguments {
            if let ExprType::Values(_) = argument.value.ty {
                let value = std::mem::replace(&mut argument.value, TypedExpr::error(Span::NONE));
                argument.value = self.settle(value);
                failed = true;
            }
        }
        (!failed).then_some(arguments)
    }

    /// The arguments of a call of a user's function, functions and types among them; `None` if one is rejected.
    pub(super) fn actuals(&mut self, call: &'a ast::ExprCall) -> Option<Actuals<'a>> {
        let positional = call.arguments.args.iter().map(|arg| (None, arg));
        let named = call.arguments.keywords.iter().map(|keyword| (Some(keyword), &keyword.value));
        let mut actuals = Vec::with_capacity(call.arguments.args.len() + call.arguments.keywords.len());
        let mut failed = false;
        let order_matters = self.order_matters(call);
        for (keyword, arg) in positional.chain(named) {
            if let ast::Expr::Starred(_) = arg {
                for value in self.positional(arg) {
                    failed |= value.is_error();
                    let place = ArgumentPlace::Position(actuals.len());
                    let value = if order_matters { self.held_argument(value, call, place) } else { value };
                    actuals.push((None, ActualArgument::Value(value), None));
                }
                continue;
            }
            let actual = match self.function_or_type(arg) {
                Some(known) => ActualArgument::Known(known),
                None => match self.expr(arg) {
                    // A tuple is passed as its parts.
                    value @ TypedExpr { kind: ExprKind::Tuple(_), .. } => ActualArgument::Value(value),
                    value @ TypedExpr { ty: ExprType::Values(_), .. } => ActualArgument::Value(self.settle(value)),
                    value => ActualArgument::Value(value),
                },
            };
            failed |= matches!(&actual, ActualArgument::Value(value) if value.is_error());
            let actual = match actual {
                ActualArgument::Value(value) if order_matters => {
                    let name = keyword.and_then(|keyword| keyword.arg.as_ref());
                    let place = name
                        .map_or(ArgumentPlace::Position(actuals.len()), |name| ArgumentPlace::Keyword(name.as_str()));
                    ActualArgument::Value(self.held_argument(value, call, place))
                }
                actual => actual,
            };
            match keyword.map(|keyword| &keyword.arg) {
                None => actuals.push((None, actual, Some(arg))),
                Some(Some(name)) => actuals.push((Some(name.as_str()), actual, Some(arg))),
                Some(None) => {
                    let span = keyword.map_or(Span::NONE, |keyword| self.span(keyword));
                    self.reject(Code::Unsupported, span, "`**` is not supported", "write each argument by name");
                    failed = true;
                }
            }
        }
        (!failed).then_some(actuals)
    }

    /// `float(x)`, `loom.float64(x)`.
    fn conversion_call(&mut self, to: Scalar, call: &'a ast::ExprCall, path: &[&'a str], span: Span) -> TypedExpr {
        let Some(mut arguments) = self.arguments(call) else { return TypedExpr::error(span) };
        match (arguments.pop(), arguments.is_empty()) {
            (None, _) => TypedExpr::constant(0, to, span),
            (Some(CallArgument { name: None, value }), true) => self.convert(value, to, span),
            _ => {
                let name = path.join(".");
                let message = format!("`{name}` converts one value");
                self.reject(Code::NoOverload, span, message, format!("write `{name}(x)`"))
            }
        }
    }

    /// A call of a user's function.
    pub(super) fn user_call(
        &mut self,
        handles: &[FunctionHandle],
        name: &str,
        arguments: Option<Actuals<'a>>,
        span: Span,
    ) -> TypedExpr {
        let Some(arguments) = arguments else { return TypedExpr::error(span) };
        let Some((bound, handle)) = self.overload(handles, name, &arguments, span) else {
            return TypedExpr::error(span);
        };
        if let Some(wrong) = bound.bad_default {
            self.report(wrong);
            return TypedExpr::error(span);
        }
        let mut args = Vec::with_capacity(bound.values.len());
        let mut given: SmallVec<[SpecialisationArg; 4]> = SmallVec::new();
        for (place, value) in bound.values.into_iter().enumerate() {
            match value {
                ActualArgument::Known(what) => given.push(SpecialisationArg::Known(what)),
                ActualArgument::Value(mut value) => {
                    if let Some((_, parameter, i)) = bound.references.iter().find(|(at, ..)| *at == place) {
                        match self.by_reference(value, arguments[*i].2, parameter, span) {
                            Some(passed) => value = passed,
                            None => return TypedExpr::error(span),
                        }
                    }
                    if let (ExprKind::Tuple(parts), ExprType::Values(types)) = (&value.kind, &value.ty) {
                        if let Some(part) = parts.iter().find(|part| matches!(part.kind, ExprKind::View { .. })) {
                            return self.not_kept(part);
                        }
                        given.push(SpecialisationArg::Tuple(types.clone()));
                        args.extend(parts.iter().cloned());
                        continue;
                    }
                    if let Some((ty, unset)) = incomplete(&value) {
                        args.extend(with_empty_arrays(value));
                        given.push(SpecialisationArg::Incomplete(ty, unset));
                        continue;
                    }
                    let value = if value.ty.is_struct() { value } else { self.settle(value) };
                    match value.ty.full() {
                        Some(ty) => given.push(self.given(&value, ty)),
                        None => return TypedExpr::error(span),
                    }
                    args.extend(self.passed(value));
                }
            }
        }
        if let Some(open) = self.compilation.open_calls(handle, &given) {
            let through: Vec<String> = open.iter().skip(1).map(|h| format!("`{}`", h.name())).collect();
            let message = match &through[..] {
                [] => format!("`{name}` calls itself"),
                through => format!("`{}` calls itself through {}", handle.name(), through.join(", ")),
            };
            return self.reject(Code::Recursion, span, message, "write the recursion as a loop");
        }
        let depth = self.depth + self.n_elifs;
        self.compilation.spent.depth += depth;
        let function = self.compilation.check_instance(handle, FunctionKind::Func, &given, span);
        self.compilation.spent.depth -= depth;
        let Some(function) = function else {
            self.failed = true;
            return TypedExpr::error(span);
        };
        let Some(callee) = self.compilation.program.functions.get(function.0 as usize) else {
            return TypedExpr::error(span);
        };
        let ty = match &callee.results[..] {
            [one] => ExprType::from(*one),
            several => ExprType::Values(several.into()),
        };
        let changed = callee.updated.clone();
        let (results, returned_arrays) = (callee.results.clone(), callee.returned_arrays.clone());
        let mut updates = Locals::new();
        // The parameters have a local for each leaf.
        let mut first = 0;
        for argument in &args {
            let leaves = match &argument.kind {
                ExprKind::Tuple(leaves) => leaves,
                _ => std::slice::from_ref(argument),
            };
            for (leaf, parameter) in leaves.iter().zip(first..) {
                let (true, ExprKind::Local(local)) = (changed.contains(&LocalId(parameter)), &leaf.kind) else {
                    continue;
                };
                if updates.contains(local) {
                    let message = format!("`{name}` changes the same variable or array as two of its arguments");
                    let help = "make a copy, element by element if it is an array";
                    return self.reject(Code::BadAssignment, argument.span, message, help);
                }
                updates.push(*local);
            }
            first += argument.ty.full().map_or(1, ValueType::n_leaves) as u32;
        }
        for local in &updates {
            self.mark_assigned(*local);
        }
        let call = TypedExpr::new(ExprKind::Call { function, args, updates }, ty, span);
        if returned_arrays.is_empty() {
            return call;
        }
        self.with_returned_arrays(call, &results, &returned_arrays)
    }

    /// Puts the arrays that a function returns, which are its parameters, back into the result of a call.
    fn with_returned_arrays(
        &mut self,
        mut call: TypedExpr,
        results: &[ValueType],
        returned: &[Option<LocalId>],
    ) -> TypedExpr {
        let (ty, span) = (call.ty, call.span);
        let ExprKind::Call { args, .. } = &call.kind else { return TypedExpr::error(span) };
        let arrays: Vec<Option<TypedExpr>> = returned.iter().map(|array| argument_leaf(args, (*array)?)).collect();
        let mut arrays = arrays.into_iter();
        let mut held = Temporaries::default();
        let (mut locals, mut types) = (Locals::new(), SmallVec::new());
        let mut leaf = |ty: Type| {
            if ty.as_any_array().is_some() {
                return arrays.next().flatten().unwrap_or_else(|| unset(ty, span));
            }
            let local = self.new_local("", ty, span);
            locals.push(local);
            types.push(ty.into());
            TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), span)
        };
        let parts = results.iter().map(|&result| match result {
            ValueType::Plain(ty) => leaf(ty),
            ValueType::Struct(_) | ValueType::StructArray { .. } => {
                let leaves = result.leaf_types().into_iter().map(&mut leaf).collect();
                TypedExpr::new(ExprKind::Tuple(leaves), result.into(), span)
            }
        });
        let mut parts: Vec<TypedExpr> = parts.collect();
        call.ty = ExprType::Values(types);
        held.push(locals, call);
        let whole = match parts.len() {
            1 => parts.remove(0),
            _ => TypedExpr::new(ExprKind::Tuple(parts), ty, span),
        };
        held.around(whole)
    }
}

/// Finds the argument for a leaf of a parameter by its local.
fn argument_leaf(args: &[TypedExpr], local: LocalId) -> Option<TypedExpr> {
    let mut first = 0;
    for argument in args {
        let leaves = match &argument.kind {
            ExprKind::Tuple(leaves) => leaves,
            _ => std::slice::from_ref(argument),
        };
        let n_leaves = argument.ty.full().map_or(leaves.len(), ValueType::n_leaves);
        if (first..first + n_leaves).contains(&(local.0 as usize)) {
            return leaves.get(local.0 as usize - first).cloned();
        }
        first += n_leaves;
    }
    None
}

/// `float32, number`, for messages.
pub(super) fn argument_types(arguments: &[CallArgument<'_>]) -> String {
    let types = arguments.iter().map(|a| with_name(a.name, type_of(&a.value)));
    types.collect::<Vec<_>>().join(", ")
}

pub(super) fn type_of(value: &TypedExpr) -> String {
    match (value.ty.full(), value.untyped()) {
        (Some(ty), _) => ty.python_name(),
        (_, Some(number)) => number.default_scalar().python_name().to_owned(),
        _ if let ExprType::Values(_) = value.ty => "a tuple".to_owned(),
        _ => "?".to_owned(),
    }
}

pub(super) fn with_name(name: Option<&str>, ty: String) -> String {
    match name {
        Some(name) => format!("{name}={ty}"),
        None => ty,
    }
}

/// Code snippets in backticks, separated by commas.
pub(super) fn list(items: &[String]) -> String {
    items.iter().map(|i| format!("`{i}`")).collect::<Vec<_>>().join(", ")
}

/// `1 argument is`, `2 arguments are`.
pub(super) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
