//! Calls of builtins: the choice among an operation's overloads, and the builtins that are no operation.

use super::call::{CallArgument, argument_types, list};
use super::function::FunctionChecker;
use super::slice::is_slice;
use super::temporaries::Temporaries;
use super::view::spread_view;
use crate::builtin_function::BuiltinFunction;
use crate::dotted_path::dotted;
use crate::environment::CapturedMeaning;
use crate::number::PythonNumber;
use crate::structure::ValueType;
use crate::typed_ast::{ExprKind, ExprType, Locals, TypedExpr};
use polyloom_ir::op::{ExtentPattern, Signature, SignatureParam, TyPattern};
use polyloom_ir::{Code, Composite, Diagnostic, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

/// The final types of the operands of an overload.
type OperandTypes = SmallVec<[Type; 4]>;

impl<'a> FunctionChecker<'_, '_, 'a> {
    pub(super) fn builtin(
        &mut self,
        builtin: BuiltinFunction,
        call: &'a ast::ExprCall,
        path: &[&'a str],
        span: Span,
    ) -> TypedExpr {
        let name = path.join(".");
        if builtin == BuiltinFunction::Cast {
            return self.bit_cast(call, &name, span);
        }
        if builtin == BuiltinFunction::Constant {
            return match self.static_value(call) {
                Some(value) => self.value_of(value, &format!("{name}(…)"), span),
                None => TypedExpr::error(span),
            };
        }
        if let BuiltinFunction::Construct(constructor) = builtin {
            return self.constructor(constructor, call, path, span);
        }
        if builtin == BuiltinFunction::Grad {
            let message = format!("`{name}(f)` is a function, which is no value");
            let help = format!("call it, `{name}(f)(x)`, or give it a name first: `g = {name}(f)`");
            return self.reject(Code::Unsupported, span, message, help);
        }
        if matches!(builtin, BuiltinFunction::Print | BuiltinFunction::Printf) {
            return self.reject(
                Code::Unsupported,
                span,
                format!("`{name}` gives no value"),
                "call it on a line of its own",
            );
        }
        if let (BuiltinFunction::Len, [array], []) = (builtin, &*call.arguments.args, &*call.arguments.keywords)
            && let Some(ValueType::StructArray { .. }) = self.place_type(array)
        {
            let Some(place) = self.place(array) else { return TypedExpr::error(span) };
            let array = self.first_array(&place);
            return if array.is_error() { array } else { super::element::dim(&array, 0, span) };
        }
        if let (BuiltinFunction::Len, [tuple], []) = (builtin, &*call.arguments.args, &*call.arguments.keywords)
            && let Some(parts) = self.tuple_named(tuple)
        {
            return TypedExpr::constant(parts.len() as u64, Scalar::I32, span);
        }
        if builtin == BuiltinFunction::Op(Op::Select) {
            let Some(mut arguments) = self.all_arguments(call) else { return TypedExpr::error(span) };
            self.prepare_selection(&mut arguments, path);
            return match <[CallArgument<'a>; 3]>::try_from(arguments) {
                Ok([cond, a, b]) if a.value.ty.is_struct() || b.value.ty.is_struct() => {
                    self.select_struct(cond.value, a.value, b.value, span)
                }
                Ok(arguments) => self.op_call(Op::Select, arguments.into(), &name, span),
                Err(arguments) => self.op_call(Op::Select, arguments, &name, span),
            };
        }
        if let BuiltinFunction::Op(op) = builtin
            && let Some(value) = self.special_call(op, call, &name, span)
        {
            return value;
        }
        let Some(arguments) = self.arguments(call) else { return TypedExpr::error(span) };
        match builtin {
            BuiltinFunction::Op(Op::Pow) => self.pow_call(arguments, &name, span),
            BuiltinFunction::Op(op) => self.op_call(op, arguments, &name, span),
            BuiltinFunction::Fold(op) => self.fold_call(op, arguments, &name, span),
            BuiltinFunction::Tid => {
                if !arguments.is_empty() {
                    let help = "write `i = loom.tid()` or `i, j = loom.tid()`".replace("loom", self.package());
                    return self.reject(Code::NoOverload, span, format!("`{name}` takes no arguments"), help);
                }
                TypedExpr::new(ExprKind::Tid(0), ExprType::scalar(Scalar::I32), span)
            }
            BuiltinFunction::Len => match &arguments[..] {
                [CallArgument { name: None, value }] => match value.ty.as_value() {
                    Some(ty) if ty.as_any_array().is_some() => {
                        self.extents_of(value, span).into_iter().next().unwrap_or_else(|| TypedExpr::error(span))
                    }
                    Some(Type::Composite(composite)) => {
                        TypedExpr::constant(composite.shape()[0].into(), Scalar::I32, span)
                    }
                    _ => {
                        let message = format!("`len` takes an array or a vector, not {}", argument_types(&arguments));
                        self.reject(Code::TypeMismatch, value.span, message, "a scalar has no length")
                    }
                },
                _ => self.reject(Code::NoOverload, span, "`len` takes one array", "write `len(a)`"),
            },
            BuiltinFunction::Range => self.reject(
                Code::Unsupported,
                span,
                format!("`{name}` outside a `for` is not supported"),
                "write `for i in range(n):`",
            ),
            BuiltinFunction::Cast
            | BuiltinFunction::Constant
            | BuiltinFunction::Print
            | BuiltinFunction::Printf
            | BuiltinFunction::Grad
            | BuiltinFunction::Construct(_) => TypedExpr::error(span),
        }
    }

    fn pow_call(&mut self, mut arguments: Vec<CallArgument<'a>>, name: &str, span: Span) -> TypedExpr {
        if arguments.len() == 2 && arguments.iter().all(|a| a.name.is_none()) {
            let (y, x) = (arguments.pop(), arguments.pop());
            if let (Some(x), Some(y)) = (x, y) {
                return self.power(x.value, y.value, span);
            }
        }
        self.op_call(Op::Pow, arguments, name, span)
    }

    /// Makes the condition of `where(cond, a, b)` a bool, and of `select(cond, b, a)` the same call.
    fn prepare_selection(&mut self, arguments: &mut [CallArgument<'a>], path: &[&'a str]) {
        if path.last() == Some(&"select") {
            for (argument, name) in arguments.iter_mut().skip(1).zip(["value_if_false", "value_if_true"]) {
                argument.name = argument.name.or(Some(name));
            }
            if let [_, a, b] = arguments
                && a.name == Some("value_if_false")
            {
                std::mem::swap(a, b);
            }
        }
        if let Some(cond) = arguments.iter_mut().find(|argument| matches!(argument.name, None | Some("cond")))
            && cond.value.ty.as_value().and_then(Type::as_scalar).is_some_and(Scalar::is_int)
        {
            let value = std::mem::replace(&mut cond.value, TypedExpr::error(Span::NONE));
            cond.value = self.truth(value);
        }
    }

    /// `min(a, b, c…)`.
    fn fold_call(&mut self, op: Op, arguments: Vec<CallArgument<'a>>, name: &str, span: Span) -> TypedExpr {
        if arguments.len() <= 2 || arguments.iter().any(|a| a.name.is_some()) {
            return self.op_call(op, arguments, name, span);
        }
        if arguments.iter().all(|a| a.value.is_waiting()) {
            let op_of = |left, right| {
                TypedExpr::new(
                    ExprKind::Op { op, args: vec![left, right], updates: smallvec![] },
                    ExprType::Number,
                    span,
                )
            };
            let values = arguments.into_iter().map(|a| a.value);
            return values.reduce(op_of).unwrap_or_else(|| TypedExpr::error(span));
        }
        // A number takes the type of the operands that have one, wherever they stand.
        let typed = arguments.iter().find_map(|a| a.value.ty.as_value()).and_then(Type::as_scalar);
        let float = arguments.iter().any(|a| matches!(a.value.untyped(), Some(PythonNumber::Float(_))));
        let scalar = typed.unwrap_or(if float { Scalar::F32 } else { Scalar::I32 });
        let mut values = arguments.into_iter().map(|a| a.value);
        let Some(first) = values.next() else { return TypedExpr::error(span) };
        let mut result = self.numbered(first, scalar);
        // Messages about the operands so far are about the first of them.
        let first_span = result.span;
        for value in values {
            let value = self.numbered(value, scalar);
            result.span = first_span;
            let Some((left, right, scalar)) = self.same_type(op, result, value, span) else {
                return TypedExpr::error(span);
            };
            let kind = ExprKind::Op { op, args: vec![left, right], updates: smallvec![] };
            result = TypedExpr::new(kind, ExprType::scalar(scalar), span);
        }
        TypedExpr { span, ..result }
    }

    fn numbered(&mut self, expr: TypedExpr, scalar: Scalar) -> TypedExpr {
        match expr.untyped() {
            Some(value) if value.adapts_to(scalar) => self.adapt(expr, scalar.into()),
            _ => expr,
        }
    }

    /// `cast(x, dtype)`: the bits of `x` as another type of its size.
    fn bit_cast(&mut self, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        let usage = format!("write `{name}(x, {}.uint32)`", self.package());
        let ([value, dtype], []) = (&*call.arguments.args, &*call.arguments.keywords) else {
            return self.reject(Code::NoOverload, span, format!("`{name}` takes a value and a type"), usage);
        };
        let value = self.value(value);
        let Some(CapturedMeaning::Type(to)) = self.meaning(dtype) else {
            let at = self.span(dtype);
            return self.reject(Code::TypeMismatch, at, format!("the second argument of `{name}` is a type"), usage);
        };
        let Some(ty) = value.ty.as_value() else { return TypedExpr::error(span) };
        match ty {
            Type::Scalar(from) if from == to => TypedExpr { span, ..value },
            Type::Scalar(from) if from.bits() == to.bits() && from != Scalar::Bool && to != Scalar::Bool => {
                TypedExpr::new(ExprKind::Bitcast(Box::new(value)), ExprType::scalar(to), span)
            }
            _ => {
                let message =
                    format!("`{name}` cannot read {} as {}: their sizes differ", ty.python_name(), to.python_name());
                let help = format!("to convert the value write `{}`", self.conversion(&value, to));
                self.reject(Code::TypeMismatch, span, message, help)
            }
        }
    }

    /// A call of an operation.
    pub(super) fn op_call(&mut self, op: Op, arguments: Vec<CallArgument<'a>>, name: &str, span: Span) -> TypedExpr {
        let info = op.info();
        for signature in &info.signatures {
            let Some(order) = argument_order(signature, &arguments) else { continue };
            let ordered: SmallVec<[&TypedExpr; 4]> = order.iter().map(|&i| &arguments[i].value).collect();
            let Some(types) = operand_types(signature, &ordered) else { continue };
            let Some(results) = signature.result_types(&types) else { continue };
            let same = |ty: &TyPattern| *ty == TyPattern::Var;
            let keeps_type = signature.params.iter().all(|p| same(&p.ty) || p.ty == TyPattern::Is(Scalar::Bool))
                && signature.results.iter().all(same);
            let waits = |(param, operand): (&SignatureParam, &&TypedExpr)| operand.is_waiting() == same(&param.ty);
            if keeps_type && results.len() == 1 && signature.params.iter().zip(&ordered).all(waits) {
                let args = ordered.into_iter().cloned().collect();
                return TypedExpr::new(ExprKind::Op { op, args, updates: smallvec![] }, ExprType::Number, span);
            }
            return self.op_expr(op, signature, &ordered, &types, results, name, span);
        }
        self.arguments_show_types(op, &arguments);
        let mut message = format!("no overload of `{name}` takes ({})", argument_types(&arguments));
        if matches!(op, Op::ExpectEq | Op::ExpectNeq) && arguments.len() == 2 {
            message = format!(
                "`{name}` of ({}): Can't test equality for objects with different types",
                argument_types(&arguments)
            );
        }
        // Overloads for vectors are left out if there are others, because they say nothing to someone without any.
        let has_composites =
            arguments.iter().filter_map(|a| a.value.ty.as_value()).any(|ty| ty.composite_within().is_some());
        let all_take_them = info.signatures.iter().all(Signature::has_composites);
        let told = info.signatures.iter().filter(|s| has_composites || all_take_them || !s.has_composites());
        let tried: Vec<String> = told.map(|s| describe_signature(name, s)).collect();
        let help = match self.arguments_converted(op, &arguments) {
            Some(converted) => {
                let converted: Vec<String> = converted.iter().map(|text| format!("`{text}`")).collect();
                format!("write {}", converted.join(" and "))
            }
            None => format!("tried {}", list(&tried)),
        };
        self.reject(Code::NoOverload, span, message, help)
    }

    /// Notes that variables which began as plain numbers meet the types of the other arguments, if an overload takes them so.
    fn arguments_show_types(&mut self, op: Op, arguments: &[CallArgument<'a>]) {
        let is_plain = |argument: &CallArgument<'_>| match argument.value.kind {
            ExprKind::Local(local) => self.plain_numbers.contains_key(&local),
            _ => false,
        };
        let others = arguments.iter().filter(|argument| !is_plain(argument));
        let others: Vec<Scalar> = others.filter_map(|a| a.value.ty.as_value().and_then(Type::as_scalar)).collect();
        for scalar in others {
            let mut changed = arguments.to_vec();
            changed
                .iter_mut()
                .filter(|argument| is_plain(argument))
                .for_each(|a| a.value.ty = ExprType::scalar(scalar));
            if takes_arguments(op, &changed) {
                let plain: Vec<TypedExpr> =
                    arguments.iter().filter(|argument| is_plain(argument)).map(|a| a.value.clone()).collect();
                plain.iter().for_each(|argument| self.operand_shows_type(argument, scalar.into()));
                return;
            }
        }
    }

    /// The arguments that, converted, make an operation take all of them: one if that is enough, otherwise all
    /// integers.
    fn arguments_converted(&self, op: Op, arguments: &[CallArgument<'a>]) -> Option<Vec<String>> {
        let scalar = |a: &CallArgument<'_>| a.value.ty.as_value().and_then(Type::as_scalar);
        let takes = |arguments: &[CallArgument<'_>]| takes_arguments(op, arguments);
        let floats = [Scalar::F32, Scalar::F64];
        let to = arguments.iter().filter_map(scalar).find(|s| s.is_float()).unwrap_or(Scalar::F32);
        // An integer is tried last, because a float that becomes one loses its fraction.
        for to in [to].into_iter().chain(floats).chain([Scalar::I32]) {
            for (i, argument) in arguments.iter().enumerate() {
                let Some(from) = scalar(argument) else { continue };
                let mut changed = arguments.to_vec();
                changed[i].value.ty = ExprType::scalar(to);
                if from != to && takes(&changed) {
                    return Some(vec![self.conversion(&argument.value, to)]);
                }
            }
        }
        let mut changed = arguments.to_vec();
        let mut converted = Vec::new();
        for argument in &mut changed {
            if scalar(argument).is_some_and(Scalar::is_int) {
                converted.push(self.conversion(&argument.value, to));
                argument.value.ty = ExprType::scalar(to);
            }
        }
        (!converted.is_empty() && takes(&changed)).then_some(converted)
    }

    #[expect(clippy::too_many_arguments, reason = "the overload is passed in its parts")]
    fn op_expr(
        &mut self,
        op: Op,
        signature: &Signature,
        operands: &[&TypedExpr],
        types: &[Type],
        results: Vec<Type>,
        name: &str,
        span: Span,
    ) -> TypedExpr {
        let mut args: Vec<TypedExpr> = Vec::with_capacity(operands.len());
        // The indices of a view with slices, until those it is given here are there.
        let mut open: Option<(Vec<TypedExpr>, Vec<TypedExpr>, usize)> = None;
        for (operand, ty) in operands.iter().zip(types) {
            let arg = self.adapt((*operand).clone(), *ty);
            if arg.is_error() {
                return TypedExpr::error(span);
            }
            let at = arg.span;
            if let Some((view, mut given, n)) = open.take() {
                given.push(arg);
                if given.len() == n {
                    args.extend(self.composed(view, given));
                } else {
                    open = Some((view, given, n));
                }
                continue;
            }
            if let ExprKind::View { array, indices } = &arg.kind
                && indices.iter().any(is_slice)
            {
                let takes_indices = signature.params.get(1).is_some_and(|param| param.ty == TyPattern::Indices);
                let Some((_, ndim)) = arg.ty.as_value().and_then(Type::as_any_array).filter(|_| takes_indices) else {
                    let message = format!("`{name}` does not take a slice of an array");
                    return self.reject(Code::Unsupported, at, message, "pass the array itself");
                };
                args.push(TypedExpr::new(ExprKind::Local(*array), ExprType::Value(self.local_type(*array)), at));
                open = Some((indices.clone(), Vec::new(), ndim.into()));
                continue;
            }
            match spread_view(arg, |local| self.local_type(local), |local| self.fixed.contains_key(&local)) {
                Some(spread) => args.extend(spread),
                None => {
                    let message = format!("`{name}` does not take an array of the kernel's own");
                    return self.reject(
                        Code::Unsupported,
                        at,
                        message,
                        "no other thread sees it: write to its elements",
                    );
                }
            }
        }
        let mut updates: Locals = smallvec![];
        let mut held = Temporaries::default();
        for (param, arg) in signature.params.iter().zip(&mut args) {
            if !param.inout {
                continue;
            }
            // A value that no one else can read is updated in a variable without a name.
            if matches!(arg.kind, ExprKind::Load(_)) {
                let message = format!("`{name}` updates a copy of this element, and not the element");
                let help =
                    format!("assign it to a variable first, and that to the element after: `{} = …`", param.name);
                let warning = Diagnostic::warning(Code::DiffersFromPython, arg.span, message);
                self.compilation.diagnostics.push(warning.help(help));
            }
            if is_temporary(arg)
                && let Some(ty) = arg.ty.as_value()
            {
                let (local, at) = (self.new_local("", ty, arg.span), arg.span);
                let variable = TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), at);
                held.push(smallvec![local], std::mem::replace(arg, variable));
                updates.push(local);
                continue;
            }
            let ExprKind::Local(local) = arg.kind else {
                let message = format!("`{name}` updates its argument `{}`, which must be a variable", param.name);
                let help = format!("assign it first: `{} = …`", param.name);
                return self.reject(Code::BadAssignment, arg.span, message, help);
            };
            if let Some(assigned) = self.assigned.last_mut() {
                assigned.insert(local);
            }
            updates.push(local);
        }
        let n_values = results.len() - updates.len();
        let ty = match &results[..n_values] {
            [one] => ExprType::Value(*one),
            several => ExprType::Values(several.iter().map(|&ty| ty.into()).collect()),
        };
        held.around(TypedExpr::new(ExprKind::Op { op, args, updates }, ty, span))
    }

    /// The coordinates `tid()` gives when it is unpacked to this many variables.
    pub(super) fn tid_coordinates(&self, n_targets: usize, span: Span) -> TypedExpr {
        let coordinates =
            (0..n_targets as u8).map(|axis| TypedExpr::new(ExprKind::Tid(axis), ExprType::scalar(Scalar::I32), span));
        let types = (0..n_targets).map(|_| Type::I32.into()).collect();
        TypedExpr::new(ExprKind::Tuple(coordinates.collect()), ExprType::Values(types), span)
    }

    /// Tells whether an expression is a call of `tid` or of another builtin.
    pub(super) fn called_builtin(&mut self, expr: &'a ast::Expr) -> Option<(BuiltinFunction, &'a ast::ExprCall)> {
        let ast::Expr::Call(call) = expr else { return None };
        let path = dotted(&call.func)?;
        let meaning = match self.is_variable(path[0]) {
            true => self.known_or_outside(&path),
            false => self.capture(&path),
        };
        match meaning {
            Some(CapturedMeaning::Builtin(builtin)) => Some((builtin, call)),
            _ => None,
        }
    }
}

/// Returns true if an overload of an operation takes the arguments.
fn takes_arguments(op: Op, arguments: &[CallArgument<'_>]) -> bool {
    op.info().signatures.iter().any(|signature| {
        let Some(order) = argument_order(signature, arguments) else { return false };
        let ordered: SmallVec<[&TypedExpr; 4]> = order.iter().map(|&i| &arguments[i].value).collect();
        operand_types(signature, &ordered).is_some_and(|types| signature.result_types(&types).is_some())
    })
}

/// True if an expression gives a value that no variable or element has.
fn is_temporary(expr: &TypedExpr) -> bool {
    match &expr.kind {
        ExprKind::Op { .. } | ExprKind::Call { .. } | ExprKind::Cast(_) | ExprKind::Load(_) => true,
        ExprKind::Let { body, .. } => is_temporary(body),
        _ => false,
    }
}

/// The arguments in the order of the operands, by index; `None` if their number or names do not fit.
fn argument_order(signature: &Signature, arguments: &[CallArgument<'_>]) -> Option<SmallVec<[usize; 4]>> {
    let n_positional = arguments.iter().take_while(|a| a.name.is_none()).count();
    if n_positional == arguments.len() {
        return Some((0..n_positional).collect());
    }
    let mut order: SmallVec<[usize; 4]> = (0..n_positional).collect();
    // Indices stand between the named parameters, because how many there are follows from the array.
    let n_indices = arguments.first().and_then(|a| a.value.ty.as_value()).and_then(Type::as_any_array);
    let mut slot = 0;
    for param in &signature.params {
        if param.ty == TyPattern::Indices {
            slot += n_indices.map_or(0, |(_, ndim)| usize::from(ndim));
            continue;
        }
        if slot >= n_positional {
            order.push(arguments.iter().position(|a| a.name == Some(param.name))?);
        }
        slot += 1;
    }
    (order.len() == arguments.len()).then_some(order)
}

/// The types the operands have if this overload is chosen: numbers take theirs from it.
fn operand_types(signature: &Signature, operands: &[&TypedExpr]) -> Option<OperandTypes> {
    let mut patterns: SmallVec<[TyPattern; 4]> = SmallVec::new();
    for param in &signature.params {
        let n = match param.ty {
            TyPattern::Indices => {
                let array = operands.first()?.ty.as_value()?;
                array.as_any_array()?.1.into()
            }
            _ => 1,
        };
        patterns.extend(std::iter::repeat_n(param.ty, n));
    }
    if patterns.len() != operands.len() {
        return None;
    }
    let (mut var, mut var2) = (None, None);
    for (pattern, operand) in patterns.iter().zip(operands) {
        let Some(ty) = operand.ty.as_value() else { continue };
        match pattern {
            TyPattern::Var => var = var.or(ty.as_scalar()),
            TyPattern::ArrayOfVar | TyPattern::ListOfVar => var = var.or(ty.as_array().map(|(elem, _)| elem)),
            TyPattern::Var2 => var2 = var2.or(ty.as_scalar()),
            TyPattern::Composite
            | TyPattern::Vector(_)
            | TyPattern::Matrix(..)
            | TyPattern::Quaternion
            | TyPattern::Transform => {
                var = var.or(ty.as_composite().map(Composite::elem));
            }
            TyPattern::ArrayOfComposite | TyPattern::ArrayOfComponents => {
                var = var.or(ty.composite_within().map(Composite::elem));
            }
            TyPattern::Is(_) | TyPattern::VectorOf(..) | TyPattern::ArrayOf(_) | TyPattern::Indices => {}
        }
    }
    // Numbers alone take their default type, or `float32` where only floats will do: `sqrt(2)`.
    let float = operands.iter().any(|o| matches!(o.untyped(), Some(PythonNumber::Float(_))));
    let default = |class: Option<polyloom_ir::op::TypeClass>| {
        if float || !class.is_some_and(|c| c.contains(Scalar::I32)) { Scalar::F32 } else { Scalar::I32 }
    };
    let types = patterns.iter().zip(operands).map(|(pattern, operand)| {
        let Some(value) = operand.untyped() else { return operand.ty.as_value() };
        let scalar = match pattern {
            TyPattern::Var => var.unwrap_or_else(|| default(signature.var)),
            TyPattern::Var2 => var2.unwrap_or_else(|| default(signature.var2)),
            TyPattern::Is(scalar) => *scalar,
            TyPattern::Indices if operand.fits(Scalar::I32) => Scalar::I32,
            TyPattern::Indices => Scalar::I64,
            _ => return None,
        };
        value.adapts_to(scalar).then_some(Type::Scalar(scalar))
    });
    types.collect()
}

/// `clamp(x: T, low: T, high: T) with T a number`, in Python's names.
fn describe_signature(name: &str, signature: &Signature) -> String {
    let params = signature.params.iter().map(|p| match p.ty {
        TyPattern::Var => format!("{}: T", p.name),
        TyPattern::Var2 => format!("{}: U", p.name),
        TyPattern::Is(scalar) => format!("{}: {}", p.name, scalar.python_name()),
        TyPattern::ArrayOfVar | TyPattern::ListOfVar => format!("{}: array(dtype=T)", p.name),
        TyPattern::ArrayOf(elem) => format!("{}: array(dtype={})", p.name, elem.python_name()),
        TyPattern::Indices => "i, …".to_owned(),
        TyPattern::Composite => format!("{}: vector or matrix of T", p.name),
        TyPattern::ArrayOfComposite | TyPattern::ArrayOfComponents => {
            format!("{}: array of vectors or matrices of T", p.name)
        }
        TyPattern::Vector(ExtentPattern::Is(len)) => format!("{}: vec{len} of T", p.name),
        TyPattern::Vector(_) => format!("{}: vector of T", p.name),
        TyPattern::VectorOf(elem, len) => format!("{}: {}", p.name, Composite::Vector { elem, len }.python_name()),
        TyPattern::Matrix(ExtentPattern::Is(rows), ExtentPattern::Is(cols)) => {
            format!("{}: mat{rows}{cols} of T", p.name)
        }
        TyPattern::Matrix(..) => format!("{}: matrix of T", p.name),
        TyPattern::Quaternion => format!("{}: quat of T", p.name),
        TyPattern::Transform => format!("{}: transform of T", p.name),
    });
    let mut text = format!("{name}({})", params.collect::<Vec<_>>().join(", "));
    for (var, class) in [("T", signature.var), ("U", signature.var2)] {
        if let Some(class) = class {
            let class = match class.name() {
                "int" => "an integer",
                "bits" => "an integer or bool",
                "float" => "a float",
                "number" => "a number",
                "wide" => "an integer, float32 or float64",
                _ => "a scalar",
            };
            text.push_str(&format!(" with {var} {class}"));
        }
    }
    text
}
