//! Calls: what is called, its arguments, and the choice among a user function's overloads.

use super::Given;
use super::function::{Checker, Name, error_of, span_of};
use super::scope::is_library;
use crate::annotation::AnnotationReader;
use crate::constant;
use crate::environment::{Captured, Constructor, FunctionHandle};
use crate::members;
use crate::number::Number;
use crate::param_type::ParamType;
use crate::source::{PACKAGES, dotted};
use crate::structure::{StructType, ValueType};
use crate::typed_ast::{Expr, ExprKind, ExprType, LocalId, Locals};
use polyloom_ir::{Code, Diagnostic, FunctionKind, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::SmallVec;

/// An argument of a call.
#[derive(Clone)]
pub(super) struct Argument<'a> {
    /// The keyword it is given by.
    pub(super) name: Option<&'a str>,
    /// Its value.
    pub(super) value: Expr,
}

/// An argument of a call of a user's function.
#[derive(Clone)]
enum Actual {
    /// A value.
    Value(Expr),
    /// A function or a type.
    Known(Captured),
}

/// Arguments of a call of a user's function: their keywords, what they are, and their text.
type Actuals<'a> = Vec<(Option<&'a str>, Actual, Option<&'a ast::Expr>)>;

/// A parameter of a user function.
struct Parameter<'f> {
    name: &'f str,
    ty: ParamType,
    default: Option<&'f ast::Expr>,
    positional: bool,
    keyword: bool,
}

/// An overload's parameters with their values.
struct Bound {
    /// How far it is from taking just these arguments: see [`cost`].
    cost: usize,
    values: Vec<Actual>,
    /// The parameters by reference: their place among all, their name and the argument.
    references: Vec<(usize, String, usize)>,
    /// What is wrong with a default that is used.
    bad_default: Option<Diagnostic>,
}

/// Overloads that a message lists.
const MAX_LISTED: usize = 10;

/// Why an overload does not take the arguments.
enum Misfit {
    /// Their number or names, in words.
    Arity(String),
    /// One of them has another type: which, the parameter's name and type.
    Type(usize, String, ParamType),
}

/// What it costs an overload to take an argument otherwise than by its exact type: one for the very type is better than
/// one for some types, that better than one for any, and a number that changes its type comes last.
mod cost {
    pub(super) const SOME: usize = 1;
    pub(super) const ANY: usize = 16;
    pub(super) const NUMBER: usize = 256;
}

impl<'a> Checker<'_, '_, 'a> {
    pub(super) fn call(&mut self, call: &'a ast::ExprCall, span: Span) -> Expr {
        let path = dotted(&call.func);
        let is_outside = path.as_ref().is_some_and(|path| !self.is_variable(path[0]));
        if !is_outside && let Some(meaning) = self.meaning(&call.func) {
            let text = self.unit.text(ruff_text_size::Ranged::range(&*call.func));
            return self.call_of(meaning, call, &[text], span);
        }
        let Some(path) = path else {
            let arguments = self.arguments(call);
            if let (None, ast::Expr::Attribute(_)) = (arguments, &*call.func) {
                return Expr::error(span);
            }
            let help = self
                .as_function(call)
                .unwrap_or_else(|| format!("call a builtin or a function decorated with `@{}.func`", self.package()));
            return self.reject(Code::Unsupported, span, "only functions known by name can be called", help);
        };
        if let Some(name) = self.names.get(path[0]) {
            let poisoned = matches!(name, Name::Poisoned);
            self.arguments(call);
            if poisoned {
                return Expr::error(span);
            }
            let (message, help) = match path[..] {
                [name]
                    if matches!(
                        self.environment.lookup(&[name]),
                        Some(Captured::Function(_) | Captured::Builtin(_))
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

    /// The builtin or type of the package that a name stands for which nothing defines: Warp knows these by their bare
    /// names, which Python does not.
    fn unqualified(&mut self, path: &[&'a str], call: &'a ast::ExprCall) -> Option<Captured> {
        let [name] = path[..] else { return None };
        let is_function = |what: &Captured| matches!(what, Captured::Builtin(_) | Captured::Composite(_));
        let what = members::package_member(name).filter(is_function)?;
        let span = self.span(&*call.func);
        let warning = Diagnostic::warning(Code::UnknownName, span, format!("`{name}` is not defined in Python"));
        self.report(warning.help(format!("write `{}.{name}`", self.package())));
        Some(what)
    }

    /// A call of what `path` names.
    fn call_of(&mut self, callee: Captured, call: &'a ast::ExprCall, path: &[&'a str], span: Span) -> Expr {
        let callee_span = self.span(&*call.func);
        match callee {
            Captured::Builtin(builtin) => {
                if path == ["round"] {
                    self.lint_round(span);
                }
                self.builtin(builtin, call, path, span)
            }
            Captured::Type(scalar) => self.conversion_call(scalar, call, path, span),
            Captured::Composite(composite) => self.construction(composite, call, path, span),
            Captured::Struct(of) => self.struct_construction(of, call, path, span),
            Captured::TypeConstructor(kind) => self.constructor(Constructor::of(kind), call, path, span),
            Captured::Function(handles) => {
                let actuals = self.actuals(call);
                self.user_call(&handles, &path.join("."), actuals, span)
            }
            Captured::Kernel(name) => {
                self.arguments(call);
                let message = format!("`{name}` is a kernel and cannot be called here");
                let help = format!("put the shared code in a function decorated with `@{}.func`", self.package());
                self.reject(Code::BadCapture, callee_span, message, help)
            }
            Captured::Unsupported(_) if self.is_in_library(path) => {
                self.arguments(call);
                self.unknown(path, callee_span)
            }
            Captured::Unsupported(type_name) if &*type_name == "function" => {
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
        let Some(Captured::Builtin(_)) = members::package_member(own) else { return None };
        let object = text(ruff_text_size::Ranged::range(&*method.value));
        let mut arguments = vec![object];
        arguments.extend(call.arguments.args.iter().map(|arg| text(ruff_text_size::Ranged::range(arg))));
        let arguments = arguments.join(", ");
        let shown = if arguments.len() > 60 || arguments.contains('\n') { "…" } else { &arguments };
        Some(format!("write `{}.{own}({shown})`", self.package()))
    }

    /// Whether a path leads into the package, `math` or NumPy.
    fn is_in_library(&mut self, path: &[&'a str]) -> bool {
        match path {
            [owner @ .., _] if !owner.is_empty() => {
                matches!(self.capture(owner), Some(Captured::Module(m)) if is_library(&m) || PACKAGES.contains(&&*m))
            }
            _ => false,
        }
    }

    /// A positional argument, or those that `*value` stands for.
    pub(super) fn positional(&mut self, arg: &'a ast::Expr) -> Vec<Expr> {
        match arg {
            ast::Expr::Starred(starred) => {
                if let Some(parts) = self.tuple_named(&starred.value) {
                    return parts.clone();
                }
                let value = self.value(&starred.value);
                let span = self.span(starred);
                self.spread(value, span)
            }
            arg => vec![self.expr(arg)],
        }
    }

    /// The arguments of a call, each one value; `None` if one of them is rejected.
    pub(super) fn arguments(&mut self, call: &'a ast::ExprCall) -> Option<Vec<Argument<'a>>> {
        let arguments = self.all_arguments(call)?;
        let mut failed = false;
        for argument in arguments.iter().filter(|argument| argument.value.ty.is_struct()) {
            self.settle(argument.value.clone());
            failed = true;
        }
        (!failed).then_some(arguments)
    }

    /// The arguments of a call, structs among them; `None` if one of them is rejected.
    pub(super) fn all_arguments(&mut self, call: &'a ast::ExprCall) -> Option<Vec<Argument<'a>>> {
        let mut arguments = Vec::with_capacity(call.arguments.args.len() + call.arguments.keywords.len());
        let mut failed = false;
        for arg in &call.arguments.args {
            for value in self.positional(arg) {
                failed |= value.is_error();
                arguments.push(Argument { name: None, value });
            }
        }
        for keyword in &call.arguments.keywords {
            let value = self.expr(&keyword.value);
            failed |= value.is_error();
            match &keyword.arg {
                Some(name) => arguments.push(Argument { name: Some(name.as_str()), value }),
                None => {
                    let span = self.span(keyword);
                    self.reject(Code::Unsupported, span, "`**` is not supported", "write each argument by name");
                    failed = true;
                }
            }
        }
        for argument in &mut arguments {
            if let ExprType::Values(_) = argument.value.ty {
                let value = std::mem::replace(&mut argument.value, Expr::error(Span::NONE));
                argument.value = self.settle(value);
                failed = true;
            }
        }
        (!failed).then_some(arguments)
    }

    /// The arguments of a call of a user's function, functions and types among them; `None` if one is rejected.
    fn actuals(&mut self, call: &'a ast::ExprCall) -> Option<Actuals<'a>> {
        let positional = call.arguments.args.iter().map(|arg| (None, arg));
        let named = call.arguments.keywords.iter().map(|keyword| (Some(keyword), &keyword.value));
        let mut actuals = Vec::with_capacity(call.arguments.args.len() + call.arguments.keywords.len());
        let mut failed = false;
        for (keyword, arg) in positional.chain(named) {
            if let ast::Expr::Starred(_) = arg {
                for value in self.positional(arg) {
                    failed |= value.is_error();
                    actuals.push((None, Actual::Value(value), None));
                }
                continue;
            }
            let actual = match self.function_or_type(arg) {
                Some(known) => Actual::Known(known),
                None => match self.expr(arg) {
                    // A tuple is passed as its parts.
                    value @ Expr { kind: ExprKind::Tuple(_), .. } => Actual::Value(value),
                    value @ Expr { ty: ExprType::Values(_), .. } => Actual::Value(self.settle(value)),
                    value => Actual::Value(value),
                },
            };
            failed |= matches!(&actual, Actual::Value(value) if value.is_error());
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
    fn conversion_call(&mut self, to: Scalar, call: &'a ast::ExprCall, path: &[&'a str], span: Span) -> Expr {
        let Some(mut arguments) = self.arguments(call) else { return Expr::error(span) };
        match (arguments.pop(), arguments.is_empty()) {
            (None, _) => Expr::constant(0, to, span),
            (Some(Argument { name: None, value }), true) => self.convert(value, to, span),
            _ => {
                let name = path.join(".");
                let message = format!("`{name}` converts one value");
                self.reject(Code::NoOverload, span, message, format!("write `{name}(x)`"))
            }
        }
    }

    /// A call of a user's function.
    fn user_call(
        &mut self,
        handles: &[FunctionHandle],
        name: &str,
        arguments: Option<Actuals<'a>>,
        span: Span,
    ) -> Expr {
        let Some(arguments) = arguments else { return Expr::error(span) };
        let mut misfits = Vec::new();
        let mut best: Option<(Bound, &FunctionHandle)> = None;
        for handle in handles {
            let Some(def) = handle.unit.definition(handle.function) else { continue };
            let Some(parameters) = self.parameters_of(handle, def) else { return Expr::error(span) };
            if !self.spend(1 + parameters.len(), def) {
                return Expr::error(span);
            }
            match self.bind(handle, &parameters, &arguments, span) {
                Ok(bound) => {
                    if best.as_ref().is_none_or(|(least, _)| bound.cost < least.cost) {
                        best = Some((bound, handle));
                    }
                }
                Err(misfit) => misfits.push((parameters, misfit)),
            }
        }
        let Some((bound, handle)) = best else {
            return self.no_overload(name, misfits, &arguments, span);
        };
        if let Some(wrong) = bound.bad_default {
            self.report(wrong);
            return Expr::error(span);
        }
        let mut args = Vec::with_capacity(bound.values.len());
        let mut given: SmallVec<[Given; 4]> = SmallVec::new();
        for (place, value) in bound.values.into_iter().enumerate() {
            match value {
                Actual::Known(what) => given.push(Given::Known(what)),
                Actual::Value(mut value) => {
                    if let Some((_, parameter, i)) = bound.references.iter().find(|(at, ..)| *at == place) {
                        match self.by_reference(value, arguments[*i].2, parameter, span) {
                            Some(passed) => value = passed,
                            None => return Expr::error(span),
                        }
                    }
                    if let (ExprKind::Tuple(parts), ExprType::Values(types)) = (&value.kind, &value.ty) {
                        if let Some(part) = parts.iter().find(|part| matches!(part.kind, ExprKind::View { .. })) {
                            return self.not_kept(part);
                        }
                        given.push(Given::Tuple(types.clone()));
                        args.extend(parts.iter().cloned());
                        continue;
                    }
                    let value = if value.ty.is_struct() { self.complete(value) } else { self.settle(value) };
                    match value.ty.full() {
                        Some(ty) => given.push(self.given(&value, ty)),
                        None => return Expr::error(span),
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
        self.compilation.spent.depth += self.depth;
        let function = self.compilation.check_instance(handle, FunctionKind::Func, &given, span);
        self.compilation.spent.depth -= self.depth;
        let Some(function) = function else {
            self.failed = true;
            return Expr::error(span);
        };
        let Some(callee) = self.compilation.program.functions.get(function.0 as usize) else {
            return Expr::error(span);
        };
        let ty = match &callee.results[..] {
            [one] => ExprType::from(*one),
            several => ExprType::Values(several.into()),
        };
        let changed = callee.updated.clone();
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
        Expr::new(ExprKind::Call { function, args, updates }, ty, span)
    }

    /// The parameters of a function as its own file annotates them.
    fn parameters_of<'f>(
        &mut self,
        handle: &FunctionHandle,
        def: &'f ast::StmtFunctionDef,
    ) -> Option<Vec<Parameter<'f>>> {
        let file = self.compilation.file_of(&handle.unit);
        let lookup = |path: &[&str]| handle.environment.lookup(path);
        let reader = AnnotationReader { text: &handle.unit.file().text, lookup: &lookup };
        let n_positional_only = def.parameters.posonlyargs.len();
        let n_positional = n_positional_only + def.parameters.args.len();
        let mut parameters = Vec::new();
        let mut failed = def.parameters.vararg.is_some() || def.parameters.kwarg.is_some();
        for (i, parameter) in def.parameters.iter_non_variadic_params().enumerate() {
            let name = parameter.parameter.name.as_str();
            let ty = match parameter.parameter.annotation.as_deref().map(|a| reader.read(a)) {
                Some(Ok(ty)) => ty,
                Some(Err(error)) => {
                    self.report(error_of(file, error));
                    failed = true;
                    continue;
                }
                None => ParamType::ANY,
            };
            let default = parameter.default.as_deref();
            let (positional, keyword) = (i < n_positional, i >= n_positional_only);
            parameters.push(Parameter { name, ty, default, positional, keyword });
        }
        if failed {
            // The mistakes in the function's own text are reported once, whoever calls it.
            self.failed = true;
            for variadic in [&def.parameters.vararg, &def.parameters.kwarg].into_iter().flatten() {
                let span = span_of(file, variadic.range);
                self.reject(
                    Code::Unsupported,
                    span,
                    "a function takes a fixed number of parameters",
                    "name each parameter and give it a type",
                );
            }
            return None;
        }
        Some(parameters)
    }

    /// Gives every parameter its argument. Nothing is reported: another overload may be the one that is meant.
    fn bind(
        &mut self,
        handle: &FunctionHandle,
        parameters: &[Parameter<'_>],
        arguments: &Actuals<'a>,
        span: Span,
    ) -> Result<Bound, Misfit> {
        let mut slots: Vec<Option<usize>> = vec![None; parameters.len()];
        for (i, (name, ..)) in arguments.iter().enumerate() {
            let slot = match *name {
                None => parameters.get(i).filter(|p| p.positional).map(|_| i),
                Some(name) => parameters.iter().position(|p| p.keyword && p.name == name),
            };
            match (slot, *name) {
                (Some(slot), _) if slots[slot].is_none() => slots[slot] = Some(i),
                (Some(slot), _) => {
                    return Err(Misfit::Arity(format!("`{}` is given twice", parameters[slot].name)));
                }
                (None, Some(name)) => return Err(Misfit::Arity(format!("there is no parameter `{name}`"))),
                (None, None) => {
                    return Err(Misfit::Arity(format!(
                        "{} given, but {} taken",
                        count(arguments.len(), "argument is", "arguments are"),
                        count(parameters.len(), "is", "are"),
                    )));
                }
            }
        }
        let mut cost = 0;
        let mut references = Vec::new();
        let mut bad_default = None;
        let mut values = Vec::with_capacity(parameters.len());
        for (place, (parameter, slot)) in parameters.iter().zip(slots).enumerate() {
            if let ParamType::Reference(_) = parameter.ty {
                let Some(i) = slot else {
                    return Err(Misfit::Arity(format!("the argument `{}` is missing", parameter.name)));
                };
                references.push((place, parameter.name.to_owned(), i));
            }
            let value = match (slot, parameter.default) {
                (Some(i), _) => match &arguments[i].1 {
                    Actual::Value(value) => value.clone(),
                    Actual::Known(what) => {
                        let is_function = matches!(what, Captured::Function(_) | Captured::Builtin(_));
                        match parameter.ty {
                            ParamType::Function if is_function => {}
                            ParamType::ANY => cost += cost::ANY,
                            ty => return Err(Misfit::Type(i, parameter.name.to_owned(), ty)),
                        }
                        values.push(Actual::Known(what.clone()));
                        continue;
                    }
                },
                (None, Some(default)) if let Some(what) = default_function(handle, parameter.ty, default) => {
                    values.push(Actual::Known(what));
                    continue;
                }
                (None, Some(default)) => match self.default_value(handle, parameter, default, span) {
                    Ok(value) => value,
                    Err(wrong) => {
                        bad_default.get_or_insert(wrong);
                        Expr::error(span)
                    }
                },
                (None, None) => {
                    return Err(Misfit::Arity(format!("the argument `{}` is missing", parameter.name)));
                }
            };
            let misfit = || Misfit::Type(slot.unwrap_or(0), parameter.name.to_owned(), parameter.ty);
            let value = match (parameter.ty, value.untyped()) {
                _ if slot.is_none() && value.is_error() => value,
                (ParamType::Exact(ty), Some(number)) => {
                    let fits = |s: &Scalar| number.adapts_to(*s) && value.fits(*s);
                    let Some(scalar) = ty.as_plain().and_then(Type::as_scalar).filter(fits) else {
                        return Err(misfit());
                    };
                    cost += if scalar == number.default_scalar() { 0 } else { cost::NUMBER };
                    self.adapt(value, scalar.into())
                }
                (ParamType::Exact(_), None) if value.is_error() => value,
                (ParamType::Exact(ValueType::Struct(of)), None)
                    if of.is_indexed_array() && self.is_indexed_array(&value, of) =>
                {
                    value
                }
                (ParamType::Tuple | ParamType::ANY, None) if let ExprType::Values(_) = value.ty => {
                    cost += cost::ANY;
                    value
                }
                (wanted, number) => {
                    let given = number.map(|number| number.default_scalar().into()).or(value.ty.full());
                    if !given.is_some_and(|ty| wanted.takes(ty)) {
                        return Err(misfit());
                    }
                    // An overload with the exact type is better than a generic one.
                    cost += match wanted {
                        ParamType::Exact(_) | ParamType::Reference(_) => 0,
                        ParamType::ANY => cost::ANY,
                        _ => cost::SOME,
                    };
                    value
                }
            };
            values.push(Actual::Value(value));
        }
        Ok(Bound { cost, values, references, bad_default })
    }

    /// Whether a value is a whole indexed array of this type.
    fn is_indexed_array(&self, value: &Expr, of: StructType) -> bool {
        let ExprKind::View { indices, .. } = &value.kind else { return false };
        let is_whole = indices.iter().all(|index| matches!(index.kind, ExprKind::Gather(_)));
        is_whole && !indices.is_empty() && of.fields().first().is_some_and(|data| value.ty == ExprType::from(data.ty))
    }

    /// A parameter's default, or what is wrong with it.
    fn default_value(
        &mut self,
        handle: &FunctionHandle,
        parameter: &Parameter<'_>,
        default: &ast::Expr,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let lookup = |path: &[&str]| handle.environment.lookup(path);
        let file = self.compilation.file_of(&handle.unit);
        let at = span_of(file, ruff_text_size::Ranged::range(default));
        let value = match constant::evaluate(default, &lookup) {
            Some(Captured::Bool(value)) => Expr::constant(value.into(), Scalar::Bool, span),
            Some(Captured::Int(value)) => super::scope::number(Number::Int(value), span),
            Some(Captured::Float(value)) => super::scope::number(Number::Float(value), span),
            Some(Captured::Constant(bits, scalar)) => Expr::constant(bits, scalar, span),
            Some(Captured::CompositeConstant(bits, composite)) => {
                super::composite::composite_constant(&bits, composite, span)
            }
            _ => {
                let wrong = Diagnostic::error(Code::BadCapture, at, "a default must be a constant");
                return Err(wrong.help("write a number or a bool"));
            }
        };
        let fits = match parameter.ty {
            ParamType::Exact(ty) => match value.number() {
                Some(number) => {
                    let scalar = ty.as_plain().and_then(Type::as_scalar);
                    scalar.is_some_and(|s| number.adapts_to(s) && number.fit(s).is_some())
                }
                None => value.ty.full() == Some(ty),
            },
            generic => {
                let number = value.untyped().map(|number| number.default_scalar().into());
                number.or(value.ty.full()).is_some_and(|ty: ValueType| generic.takes(ty))
            }
        };
        if fits {
            return Ok(value);
        }
        let message = format!("the default of `{}` is not {}", parameter.name, parameter.ty);
        Err(Diagnostic::error(Code::TypeMismatch, at, message).help("write a constant of the parameter's type"))
    }

    fn no_overload(
        &mut self,
        name: &str,
        mut misfits: Vec<(Vec<Parameter<'_>>, Misfit)>,
        arguments: &Actuals<'a>,
        span: Span,
    ) -> Expr {
        if misfits.len() == 1
            && let Some((parameters, misfit)) = misfits.pop()
        {
            let signature = signature_text(name, &parameters);
            return match misfit {
                Misfit::Arity(what) => {
                    let message = format!("`{name}` is called wrongly: {what}");
                    self.reject(Code::NoOverload, span, message, format!("the function is `{signature}`"))
                }
                Misfit::Type(i, parameter, wanted) => {
                    let reason = format!("the parameter `{parameter}` of `{name}`");
                    match (arguments.get(i), wanted) {
                        (Some((_, Actual::Value(value), _)), ParamType::Exact(ty) | ParamType::Reference(ty)) => {
                            self.expect(value.clone(), ty, Code::TypeMismatch, &reason)
                        }
                        (Some((_, actual, _)), wanted) => {
                            let at = match actual {
                                Actual::Value(value) => value.span,
                                Actual::Known(_) => span,
                            };
                            let message = format!("this is {}, but {reason} is {wanted}", describe(actual));
                            let help = format!("the function is `{signature}`");
                            self.reject(Code::TypeMismatch, at, message, help)
                        }
                        (None, _) => Expr::error(span),
                    }
                }
            };
        }
        let types: Vec<String> = arguments.iter().map(|(name, actual, _)| with_name(*name, describe(actual))).collect();
        let message = format!("no overload of `{name}` takes ({})", types.join(", "));
        let tried: Vec<String> =
            misfits.iter().take(MAX_LISTED).map(|(parameters, _)| signature_text(name, parameters)).collect();
        let others = match misfits.len().saturating_sub(MAX_LISTED) {
            0 => String::new(),
            n => format!(" and {}", count(n, "other", "others")),
        };
        self.reject(Code::NoOverload, span, message, format!("tried {}{others}", list(&tried)))
    }
}

/// A default that is a function, for a parameter that takes one.
fn default_function(handle: &FunctionHandle, ty: ParamType, default: &ast::Expr) -> Option<Captured> {
    let takes_functions = matches!(ty, ParamType::Function | ParamType::ANY);
    let lookup = |path: &[&str]| handle.environment.lookup(path);
    let value = takes_functions.then(|| constant::evaluate(default, &lookup)).flatten()?;
    matches!(value, Captured::Function(_) | Captured::Builtin(_)).then_some(value)
}

/// `float32, number`, for messages.
pub(super) fn argument_types(arguments: &[Argument<'_>]) -> String {
    let types = arguments.iter().map(|a| with_name(a.name, type_of(&a.value)));
    types.collect::<Vec<_>>().join(", ")
}

fn type_of(value: &Expr) -> String {
    match (value.ty.full(), value.untyped()) {
        (Some(ty), _) => ty.python_name(),
        (_, Some(number)) => number.default_scalar().python_name().to_owned(),
        _ if let ExprType::Values(_) = value.ty => "a tuple".to_owned(),
        _ => "?".to_owned(),
    }
}

fn with_name(name: Option<&str>, ty: String) -> String {
    match name {
        Some(name) => format!("{name}={ty}"),
        None => ty,
    }
}

fn describe(actual: &Actual) -> String {
    match actual {
        Actual::Value(value) => type_of(value),
        Actual::Known(what) => what.describe(),
    }
}

/// Code snippets in backticks, separated by commas.
pub(super) fn list(items: &[String]) -> String {
    items.iter().map(|i| format!("`{i}`")).collect::<Vec<_>>().join(", ")
}

/// `1 argument is`, `2 arguments are`.
fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn signature_text(name: &str, parameters: &[Parameter<'_>]) -> String {
    let parameters = parameters.iter().map(|p| {
        let default = if p.default.is_some() { " = …" } else { "" };
        format!("{}: {}{default}", p.name, p.ty)
    });
    format!("{name}({})", parameters.collect::<Vec<_>>().join(", "))
}
