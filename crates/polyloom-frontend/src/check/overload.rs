//! Overloads: binding a call's arguments to a user function's parameters, and the choice among those that take them.

use super::call::{count, list, type_of, with_name};
use super::function::FunctionChecker;
use super::report::{error_of, span_of};
use crate::annotation::AnnotationReader;
use crate::constant;
use crate::environment::{CapturedMeaning, FunctionHandle};
use crate::number::PythonNumber;
use crate::param_type::ParamType;
use crate::structure::{StructType, ValueType};
use crate::typed_ast::{ExprKind, ExprType, TypedExpr};
use polyloom_ir::{Code, Diagnostic, Scalar, Span, Type};
use ruff_python_ast as ast;

/// An argument of a call of a user's function.
#[derive(Clone)]
pub(super) enum ActualArgument {
    /// A value.
    Value(TypedExpr),
    /// A function or a type.
    Known(CapturedMeaning),
}

/// Arguments of a call of a user's function: their keywords, what they are, and their text.
pub(super) type Actuals<'a> = Vec<(Option<&'a str>, ActualArgument, Option<&'a ast::Expr>)>;

/// A parameter of a user function.
struct UserParameter<'f> {
    name: &'f str,
    ty: ParamType,
    default: Option<&'f ast::Expr>,
    positional: bool,
    keyword: bool,
}

/// An overload's parameters with their values.
pub(super) struct BoundOverload {
    pub(super) values: Vec<ActualArgument>,
    /// The parameters by reference: their place among all, their name and the argument.
    pub(super) references: Vec<(usize, String, usize)>,
    /// Holds what is wrong with a default that is used.
    pub(super) bad_default: Option<Diagnostic>,
    /// The types of the parameters that take the arguments, in the order of these.
    types: Vec<ParamType>,
    /// Says which arguments are numbers that take another type than they would have alone.
    adapted: Vec<usize>,
    is_generic: bool,
}

impl BoundOverload {
    /// Returns what makes one overload better than another, least first.
    fn rank(&self) -> (usize, bool) {
        (self.adapted.len(), self.is_generic)
    }
}

/// Overloads that a message lists.
const MAX_LISTED: usize = 10;

/// The reason why an overload does not take the arguments.
enum OverloadMismatch {
    /// Their number or names, in words.
    Arity(String),
    /// One of them has another type: which, the parameter's name and type.
    Type(usize, String, ParamType),
}

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// The overload that a call means, with its parameters' values; `None` if it is rejected. One that numbers keep
    /// their types for is better than one that they change for, and of those alike one that is not generic. What is
    /// left is settled as Warp settles it: by the order of the definitions.
    pub(super) fn overload<'h>(
        &mut self,
        handles: &'h [FunctionHandle],
        name: &str,
        arguments: &Actuals<'a>,
        span: Span,
    ) -> Option<(BoundOverload, &'h FunctionHandle)> {
        let mut misfits = Vec::new();
        let mut fitting: Vec<(BoundOverload, &FunctionHandle)> = Vec::new();
        for handle in handles {
            let Some(def) = handle.unit.definition(handle.function) else { continue };
            let parameters = self.parameters_of(handle, def)?;
            if !self.spend(1 + parameters.len(), def) {
                return None;
            }
            match self.bind(handle, &parameters, arguments, span) {
                Ok(bound) => fitting.push((bound, handle)),
                Err(misfit) => misfits.push((parameters, misfit)),
            }
        }
        let Some(least) = fitting.iter().map(|(bound, _)| bound.rank()).min() else {
            self.no_overload(name, misfits, arguments, span);
            return None;
        };
        let mut best = fitting.into_iter().filter(|(bound, _)| bound.rank() == least);
        let chosen = best.next()?;
        if let Some(other) = best.next()
            && !self.is_first_meant(&chosen, &other, name, arguments, span)
        {
            return None;
        }
        Some(chosen)
    }

    /// Returns true if the first of two overloads of the same rank may be taken. It is reported where a reader could
    /// take the other for the one that is meant.
    fn is_first_meant(
        &mut self,
        (first, first_handle): &(BoundOverload, &FunctionHandle),
        (second, second_handle): &(BoundOverload, &FunctionHandle),
        name: &str,
        arguments: &Actuals<'a>,
        span: Span,
    ) -> bool {
        let within = |a: &[ParamType], b: &[ParamType]| a.iter().zip(b).all(|(a, b)| a.is_within(*b));
        let (is_narrower, is_wider) = (within(&first.types, &second.types), within(&second.types, &first.types));
        let differ = |i: &&usize| first.types.get(**i) != second.types.get(**i);
        let other_number = first.adapted.iter().chain(&second.adapted).find(differ);
        if other_number.is_none() && is_narrower && !is_wider {
            return true;
        }
        let places = [first_handle, second_handle].map(|handle| {
            let file = self.compilation.file_of(&handle.unit);
            let def = handle.unit.definition(handle.function);
            def.map_or(Span::NONE, |def| span_of(file, ruff_text_size::Ranged::range(&def.name)))
        });
        let given: Vec<String> = arguments.iter().map(|(name, actual, _)| with_name(*name, describe(actual))).collect();
        let given = given.join(", ");
        let diagnostic = match other_number {
            Some(&i) => {
                let number = arguments
                    .get(i)
                    .and_then(|(.., text)| *text)
                    .map_or("x", |text| self.unit.text(ruff_text_size::Ranged::range(text)));
                let of = [first, second].map(|bound| bound.types.get(i).map(ToString::to_string).unwrap_or_default());
                let package = self.package();
                Diagnostic::error(
                    Code::AmbiguousCall,
                    span,
                    format!("two overloads of `{name}` fit a call with ({given})"),
                )
                .help(format!("write `{package}.{}({number})` or `{package}.{}({number})`", of[0], of[1]))
            }
            None => {
                let message = format!("the first of two overloads of `{name}` that take ({given}) is called");
                let help = match (is_narrower, is_wider) {
                    (true, _) => "remove one of them, or give them other types",
                    (false, true) => "define the narrower one first",
                    (false, false) => "define one for just these types before them",
                };
                Diagnostic::warning(Code::AmbiguousCall, span, message).help(help)
            }
        };
        self.report(diagnostic.label(places[0], "the first").label(places[1], "the second"));
        other_number.is_none()
    }

    /// The parameters of a function as its own file annotates them.
    fn parameters_of<'f>(
        &mut self,
        handle: &FunctionHandle,
        def: &'f ast::StmtFunctionDef,
    ) -> Option<Vec<UserParameter<'f>>> {
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
            parameters.push(UserParameter { name, ty, default, positional, keyword });
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

    /// Gives every parameter its argument. Nothing is reported, because another overload may be the one that is meant.
    fn bind(
        &mut self,
        handle: &FunctionHandle,
        parameters: &[UserParameter<'_>],
        arguments: &Actuals<'a>,
        span: Span,
    ) -> Result<BoundOverload, OverloadMismatch> {
        let mut slots: Vec<Option<usize>> = vec![None; parameters.len()];
        for (i, (name, ..)) in arguments.iter().enumerate() {
            let slot = match *name {
                None => parameters.get(i).filter(|p| p.positional).map(|_| i),
                Some(name) => parameters.iter().position(|p| p.keyword && p.name == name),
            };
            match (slot, *name) {
                (Some(slot), _) if slots[slot].is_none() => slots[slot] = Some(i),
                (Some(slot), _) => {
                    return Err(OverloadMismatch::Arity(format!("`{}` is given twice", parameters[slot].name)));
                }
                (None, Some(name)) => return Err(OverloadMismatch::Arity(format!("there is no parameter `{name}`"))),
                (None, None) => {
                    return Err(OverloadMismatch::Arity(format!(
                        "{} given, but {} taken",
                        count(arguments.len(), "argument is", "arguments are"),
                        count(parameters.len(), "is", "are"),
                    )));
                }
            }
        }
        let mut types = vec![ParamType::ANY; arguments.len()];
        let mut adapted = Vec::new();
        let mut references = Vec::new();
        let mut bad_default = None;
        let mut values = Vec::with_capacity(parameters.len());
        for (place, (parameter, slot)) in parameters.iter().zip(slots).enumerate() {
            if let ParamType::Reference(_) = parameter.ty {
                let Some(i) = slot else {
                    return Err(OverloadMismatch::Arity(format!("the argument `{}` is missing", parameter.name)));
                };
                references.push((place, parameter.name.to_owned(), i));
            }
            if let Some(i) = slot {
                types[i] = parameter.ty;
            }
            let value = match (slot, parameter.default) {
                (Some(i), _) => match &arguments[i].1 {
                    ActualArgument::Value(value) => value.clone(),
                    ActualArgument::Known(what) => {
                        let is_function = matches!(
                            what,
                            CapturedMeaning::Function(_) | CapturedMeaning::Builtin(_) | CapturedMeaning::Gradient(..)
                        );
                        match parameter.ty {
                            ParamType::Function if is_function => {}
                            ParamType::ANY => {}
                            ty => return Err(OverloadMismatch::Type(i, parameter.name.to_owned(), ty)),
                        }
                        values.push(ActualArgument::Known(what.clone()));
                        continue;
                    }
                },
                (None, Some(default)) if let Some(what) = default_function(handle, parameter.ty, default) => {
                    values.push(ActualArgument::Known(what));
                    continue;
                }
                (None, Some(default)) => match self.default_value(handle, parameter, default, span) {
                    Ok(value) => value,
                    Err(wrong) => {
                        bad_default.get_or_insert(wrong);
                        TypedExpr::error(span)
                    }
                },
                (None, None) => {
                    return Err(OverloadMismatch::Arity(format!("the argument `{}` is missing", parameter.name)));
                }
            };
            let misfit = || OverloadMismatch::Type(slot.unwrap_or(0), parameter.name.to_owned(), parameter.ty);
            let value = match (parameter.ty, value.untyped()) {
                _ if slot.is_none() && value.is_error() => value,
                (ParamType::Exact(ty), Some(number)) => {
                    let fits = |s: &Scalar| number.adapts_to(*s) && value.fits(*s);
                    let Some(scalar) = ty.as_plain().and_then(Type::as_scalar).filter(fits) else {
                        return Err(misfit());
                    };
                    if scalar != number.default_scalar() {
                        adapted.extend(slot);
                    }
                    self.adapt(value, scalar.into())
                }
                (ParamType::Exact(_), None) if value.is_error() => value,
                (ParamType::Exact(ValueType::Struct(of)), None)
                    if of.is_indexed_array() && self.is_indexed_array(&value, of) =>
                {
                    value
                }
                (ParamType::Tuple | ParamType::ANY, None) if let ExprType::Values(_) = value.ty => value,
                (wanted, number) => {
                    let given = number.map(|number| number.default_scalar().into()).or(value.ty.full());
                    if !given.is_some_and(|ty| wanted.takes(ty)) {
                        return Err(misfit());
                    }
                    value
                }
            };
            values.push(ActualArgument::Value(value));
        }
        let is_generic = parameters.iter().any(|parameter| parameter.ty.is_generic());
        Ok(BoundOverload { values, references, bad_default, types, adapted, is_generic })
    }

    /// Returns true if a value is a whole indexed array of this type.
    fn is_indexed_array(&self, value: &TypedExpr, of: StructType) -> bool {
        let ExprKind::View { indices, .. } = &value.kind else { return false };
        let is_whole = indices.iter().all(|index| matches!(index.kind, ExprKind::Gather(_)));
        is_whole && !indices.is_empty() && of.fields().first().is_some_and(|data| value.ty == ExprType::from(data.ty))
    }

    /// A parameter's default, or what is wrong with it.
    fn default_value(
        &mut self,
        handle: &FunctionHandle,
        parameter: &UserParameter<'_>,
        default: &ast::Expr,
        span: Span,
    ) -> Result<TypedExpr, Diagnostic> {
        let lookup = |path: &[&str]| handle.environment.lookup(path);
        let file = self.compilation.file_of(&handle.unit);
        let at = span_of(file, ruff_text_size::Ranged::range(default));
        let value = match constant::evaluate(default, &lookup) {
            Some(CapturedMeaning::Bool(value)) => TypedExpr::constant(value.into(), Scalar::Bool, span),
            Some(CapturedMeaning::Int(value)) => super::scope::number(PythonNumber::Int(value), span),
            Some(CapturedMeaning::Float(value)) => super::scope::number(PythonNumber::Float(value), span),
            Some(CapturedMeaning::Constant(bits, scalar)) => TypedExpr::constant(bits, scalar, span),
            Some(CapturedMeaning::CompositeConstant(bits, composite)) => {
                super::component_expr::composite_constant(&bits, composite, span)
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
        mut misfits: Vec<(Vec<UserParameter<'_>>, OverloadMismatch)>,
        arguments: &Actuals<'a>,
        span: Span,
    ) -> TypedExpr {
        if misfits.len() == 1
            && let Some((parameters, misfit)) = misfits.pop()
        {
            let signature = signature_text(name, &parameters);
            return match misfit {
                OverloadMismatch::Arity(what) => {
                    let message = format!("`{name}` is called wrongly: {what}");
                    self.reject(Code::NoOverload, span, message, format!("the function is `{signature}`"))
                }
                OverloadMismatch::Type(i, parameter, wanted) => {
                    let reason = format!("the parameter `{parameter}` of `{name}`");
                    match (arguments.get(i), wanted) {
                        (
                            Some((_, ActualArgument::Value(value), _)),
                            ParamType::Exact(ty) | ParamType::Reference(ty),
                        ) => self.expect(value.clone(), ty, Code::TypeMismatch, &reason),
                        (Some((_, actual, _)), wanted) => {
                            let at = match actual {
                                ActualArgument::Value(value) => value.span,
                                ActualArgument::Known(_) => span,
                            };
                            let message = format!("this is {}, but {reason} is {wanted}", describe(actual));
                            let help = format!("the function is `{signature}`");
                            self.reject(Code::TypeMismatch, at, message, help)
                        }
                        (None, _) => TypedExpr::error(span),
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
fn default_function(handle: &FunctionHandle, ty: ParamType, default: &ast::Expr) -> Option<CapturedMeaning> {
    let takes_functions = matches!(ty, ParamType::Function | ParamType::ANY);
    let lookup = |path: &[&str]| handle.environment.lookup(path);
    let value = takes_functions.then(|| constant::evaluate(default, &lookup)).flatten()?;
    matches!(value, CapturedMeaning::Function(_) | CapturedMeaning::Builtin(_)).then_some(value)
}

fn describe(actual: &ActualArgument) -> String {
    match actual {
        ActualArgument::Value(value) => type_of(value),
        ActualArgument::Known(what) => what.describe(),
    }
}

fn signature_text(name: &str, parameters: &[UserParameter<'_>]) -> String {
    let parameters = parameters.iter().map(|p| {
        let default = if p.default.is_some() { " = …" } else { "" };
        format!("{}: {}{default}", p.name, p.ty)
    });
    format!("{name}({})", parameters.collect::<Vec<_>>().join(", "))
}
