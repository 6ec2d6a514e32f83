//! What functions return: annotated results, results inferred from the returns, and `return` itself.

use super::function::FunctionChecker;
use super::report::error_of;
use super::return_merge::{InferredReturns, ReturnMerge};
use super::structure::is_unset;
use super::temporaries::Temporaries;
use crate::annotation::AnnotationReader;
use crate::dotted_path::dotted;
use crate::local_array::LocalArray;
use crate::structure::ValueType;
use crate::typed_ast::{ExprKind, ExprType, LocalId, StmtKind, TypedExpr, TypedStmt};
use polyloom_ir::{Code, Diagnostic, FunctionKind, Span, Type};
use ruff_python_ast as ast;
use ruff_text_size::Ranged as _;
use smallvec::SmallVec;

/// Says that a kernel gives no value, in Warp's words.
const KERNEL_RETURNS: &str = "Warp kernels cannot return values. Write results to output arguments, and omit the return \
                              annotation or use `-> None`.";

impl<'a> FunctionChecker<'_, '_, 'a> {
    pub(super) fn declared_results(&mut self, def: &'a ast::StmtFunctionDef) {
        if self.kind == FunctionKind::Kernel {
            self.results = ReturnMerge::Declared(SmallVec::new());
        }
        let Some(annotation) = &def.returns else { return };
        let environment = self.environment;
        let reader = AnnotationReader { text: &self.unit.file().text, lookup: &|path| environment.lookup(path) };
        if self.kind == FunctionKind::Func
            && let Some(fixed) = reader.read_fixed_array(annotation)
        {
            self.declared_own = Some(fixed);
            return;
        }
        match reader.read_results(annotation) {
            Ok(Some(types)) if self.kind == FunctionKind::Func => self.results = ReturnMerge::Declared(types),
            Ok(Some(types)) if !types.is_empty() => {
                let span = self.span(&**annotation);
                self.reject(
                    Code::ReturnMismatch,
                    span,
                    KERNEL_RETURNS,
                    "write its results to arrays that are its parameters",
                );
            }
            Ok(_) => {}
            Err(error) => self.report(error_of(self.file, error)),
        }
    }

    /// The function's result types; gives numbers in returns their types.
    pub(super) fn finish_results(
        &mut self,
        def: &ast::StmtFunctionDef,
        body: &mut Vec<TypedStmt>,
    ) -> SmallVec<[ValueType; 2]> {
        let falls_off = self.flow.reachable;
        let types: SmallVec<[ValueType; 2]> = match std::mem::replace(&mut self.results, ReturnMerge::Inferred(None)) {
            ReturnMerge::Declared(types) => types,
            ReturnMerge::Inferred(None) => SmallVec::new(),
            ReturnMerge::Inferred(Some(inferred)) => {
                let default = |float: bool| if float { Type::F32 } else { Type::I32 };
                let types: SmallVec<[ValueType; 2]> = inferred
                    .types
                    .iter()
                    .zip(&inferred.floats)
                    .map(|(ty, float)| ty.full().unwrap_or_else(|| default(*float).into()))
                    .collect();
                self.type_returns(body, &types);
                types
            }
        };
        if falls_off && !types.is_empty() {
            self.return_zeros(def, &types, body);
        }
        types
    }

    fn type_returns(&mut self, body: &mut [TypedStmt], types: &[ValueType]) {
        for stmt in body {
            match &mut stmt.kind {
                StmtKind::Return(values) => {
                    for (value, ty) in values.iter_mut().zip(types) {
                        if let Some(ty) = ty.as_plain().filter(|_| value.is_waiting()) {
                            let number = std::mem::replace(value, TypedExpr::error(value.span));
                            *value = self.adapt(number, ty);
                        }
                    }
                }
                StmtKind::If { then, otherwise, .. } => {
                    self.type_returns(then, types);
                    self.type_returns(otherwise, types);
                }
                StmtKind::For { body, .. } | StmtKind::While { body, .. } => {
                    self.type_returns(&mut body.body, types);
                    self.type_returns(&mut body.otherwise, types);
                }
                _ => {}
            }
        }
    }

    /// `return`.
    pub(super) fn return_statement(&mut self, stmt: &'a ast::StmtReturn, out: &mut Vec<TypedStmt>) {
        let span = self.span(stmt);
        let mut values: SmallVec<[TypedExpr; 1]> = SmallVec::new();
        match stmt.value.as_deref() {
            None | Some(ast::Expr::NoneLiteral(_)) => {}
            Some(ast::Expr::Tuple(tuple)) => values.extend(tuple.elts.iter().map(|e| self.expr(e))),
            Some(ast::Expr::Call(call)) if dotted(&call.func).is_some_and(|path| self.is_zeros(&path)) => {
                let at = self.span(call);
                let made = self.zeros(call, at).and_then(|fixed| Some((fixed.zeros(at)?, fixed)));
                values.push(match made {
                    Some((zeros, fixed)) if self.returns_own(&fixed, at) => zeros,
                    _ => TypedExpr::error(at),
                });
            }
            Some(value) => values.push(self.expr(value)),
        }
        if let [value] = &mut values[..]
            && let ExprKind::View { array, .. } = value.kind
            && let Some(fixed) = self.fixed.get(&array).filter(|_| value.is_whole_array()).cloned()
        {
            *value = match self.returns_own(&fixed, value.span) {
                true => TypedExpr::new(ExprKind::Local(array), ExprType::Value(self.local_type(array)), value.span),
                false => TypedExpr::error(value.span),
            };
        } else if self.own_result.is_none()
            && self.declared_own.is_some()
            && let [value] = &mut values[..]
            && !value.is_error()
        {
            let message = self.wrong_result(&[type_name(value)]);
            *value = self.reject(Code::ReturnMismatch, span, message, "return an array that `zeros` has made");
        }
        values = self.parts_of_call(values, span, out);
        if !values.iter().any(TypedExpr::is_error) {
            self.returned(span, &mut values);
            self.strip_arrays(&mut values);
        }
        self.flow.reachable = false;
        out.push(TypedStmt { kind: StmtKind::Return(values), span });
    }

    /// Notes that an array of the function's own is returned. False if it cannot be, which is reported.
    fn returns_own(&mut self, fixed: &LocalArray, span: Span) -> bool {
        let declared = match &self.results {
            ReturnMerge::Declared(declared) => declared.first().copied(),
            ReturnMerge::Inferred(_) => None,
        };
        let message = if let (Some(declared), FunctionKind::Func) = (declared, self.kind) {
            let (name, _) = self.name_and_annotation();
            let annotated = match declared.as_plain().and_then(Type::as_any_array) {
                Some((elem, _)) => format!("Array[{}]", elem.python_name()),
                None => declared.python_name(),
            };
            format!(
                "The function `{name}` returns a fixed-size array whereas it has its return type annotated as \
                 `{annotated}`."
            )
        } else if self.declared_own.as_ref().is_some_and(|wanted| wanted != fixed) {
            let given = format!("fixedarray(shape={:?}, dtype={})", fixed.shape, fixed.elem.python_name());
            self.wrong_result(&[given])
        } else if self.own_result.as_ref().is_some_and(|known| known != fixed) {
            "this returns an array of other extents or elements than another return".to_owned()
        } else {
            self.own_result = Some(fixed.clone());
            return true;
        };
        let help =
            format!("annotate it as `{}.fixedarray(dtype=…, shape=…)`, or leave the annotation out", self.package());
        self.reject(Code::ReturnMismatch, span, message, help);
        false
    }

    /// Takes the arrays out of what is returned, and notes which parameters they are, because the caller has these.
    fn strip_arrays(&mut self, values: &mut [TypedExpr]) {
        let mut arrays = Vec::new();
        for value in values.iter_mut() {
            let Some(ty) = value.ty.full().filter(|ty| ty.has_arrays()) else { continue };
            let span = value.span;
            let whole = std::mem::replace(value, TypedExpr::error(span));
            let mut held = Temporaries::default();
            let leaves = match ty {
                ValueType::Plain(_) => vec![whole],
                ValueType::Struct(_) | ValueType::StructArray { .. } => self.leaves_of(whole, &mut held),
            };
            let mut left = Vec::new();
            for leaf in leaves {
                match leaf.kind {
                    _ if is_unset(&leaf) => arrays.push(None),
                    _ if leaf.ty.as_value().is_none_or(|ty| ty.as_any_array().is_none()) => left.push(leaf),
                    ExprKind::Local(local) if (local.0 as usize) < self.n_params => arrays.push(Some(local)),
                    _ => return self.refuse_array(ty, span),
                }
            }
            let types = left.iter().filter_map(|leaf| leaf.ty.full()).collect();
            *value = held.around(TypedExpr::new(ExprKind::Tuple(left), ExprType::Values(types), span));
        }
        let Some(known) = &mut self.returned_arrays else {
            self.returned_arrays = Some(arrays);
            return;
        };
        // An array that one return leaves out is that of the others: nothing may be read of one that is not there.
        let differ = |(known, array): (&Option<LocalId>, &Option<LocalId>)| matches!((known, array), (Some(known), Some(array)) if known != array);
        if known.iter().zip(&arrays).any(differ)
            && let Some(span) = values.first().map(|value| value.span)
        {
            let message = "this returns other arrays than another return";
            self.reject(Code::ReturnMismatch, span, message, "make all returns give the same arrays");
            return;
        }
        for (known, array) in known.iter_mut().zip(arrays) {
            *known = known.or(array);
        }
    }

    fn refuse_array(&mut self, ty: ValueType, span: Span) {
        let name = ty.python_name();
        let (code, message, help) = match ty {
            ValueType::Struct(_) => (
                Code::NotSupportedYet,
                format!("a function cannot return {name} with an array that is none of its parameters"),
                "pass the array as a parameter, whole, and return the struct alone",
            ),
            _ => {
                let message = format!("a function cannot return {name}");
                (Code::ReturnMismatch, message, "pass the array as a parameter and write to it")
            }
        };
        self.reject(code, span, message, help);
    }

    /// Returns true if values are of the declared types, or numbers that take them.
    fn are_results(&self, values: &[TypedExpr], declared: &[ValueType]) -> bool {
        values.iter().zip(declared).all(|(value, ty)| match (value.untyped(), ty.as_plain()) {
            (Some(number), Some(plain)) => plain.as_scalar().is_some_and(|scalar| number.adapts_to(scalar)),
            _ => value.is_error() || value.ty == ExprType::from(*ty),
        })
    }

    /// The function's name, and its annotation as it is written.
    fn name_and_annotation(&self) -> (String, String) {
        let Some(def) = self.unit.definition(self.function) else { return Default::default() };
        let annotation = def.returns.as_ref().map(|returns| self.unit.text(returns.range()).to_owned());
        // `wp.int16` is `int16` whatever the package is called.
        let types = annotation.unwrap_or_default();
        let is_of_path = |c: char| !(c.is_alphanumeric() || c == '_' || c == '.');
        let shown = types.split_inclusive(is_of_path).map(|part| part.rsplit('.').next().unwrap_or(part));
        (def.name.to_string(), shown.collect())
    }

    /// Says that values of these types are not what the annotation says.
    pub(super) fn wrong_result(&self, given: &[String]) -> String {
        let (name, annotation) = self.name_and_annotation();
        let given = match given {
            [one] => format!("a value of type `{one}`"),
            several => format!("a tuple with types `({})`", several.join(", ")),
        };
        format!(
            "The function `{name}` has its return type annotated as `{annotation}` but the code returns {given} here"
        )
    }

    fn wrong_count_of_results(&self, n_declared: usize, n_given: usize) -> String {
        let (name, annotation) = self.name_and_annotation();
        let declared = match n_declared {
            0 | 1 => format!("`{annotation}`"),
            n => format!("a tuple of {n} elements"),
        };
        let given = if n_given == 1 { "1 value".to_owned() } else { format!("{n_given} values") };
        format!("The function `{name}` has its return type annotated as {declared} but the code returns {given} here")
    }

    fn returned(&mut self, span: Span, values: &mut SmallVec<[TypedExpr; 1]>) {
        // A call with several results, returned as it is, is one expression.
        let types: SmallVec<[ExprType; 2]> = match &values[..] {
            [TypedExpr { ty: ExprType::Values(types), .. }] => types.iter().map(|t| ExprType::from(*t)).collect(),
            values => values.iter().map(|v| v.ty.clone()).collect(),
        };
        if let Some(ExprType::Values(parts)) = types.iter().find(|ty| matches!(ty, ExprType::Values(_))) {
            let (code, message) = match parts.len() {
                0 => (Code::ReturnMismatch, "a returned value is none"),
                _ => (Code::NotSupportedYet, "a returned value is a tuple among others"),
            };
            self.reject(code, span, message, "assign it to variables and return those");
            return;
        }
        let is_float = |v: &TypedExpr| matches!(v.untyped(), Some(crate::number::PythonNumber::Float(_)));
        let floats: SmallVec<[bool; 2]> = (0..types.len()).map(|i| values.get(i).is_some_and(is_float)).collect();
        match &mut self.results {
            ReturnMerge::Inferred(seen @ None) => *seen = Some(InferredReturns { span, types, floats }),
            ReturnMerge::Inferred(Some(seen)) => {
                let first = seen.span;
                let fits = seen.types.len() == types.len()
                    && seen
                        .types
                        .iter()
                        .zip(&types)
                        .all(|(a, b)| a == b || *a == ExprType::Number || *b == ExprType::Number);
                if fits {
                    for (i, ty) in types.into_iter().enumerate() {
                        if seen.types[i] == ExprType::Number {
                            seen.types[i] = ty;
                        }
                        seen.floats[i] |= floats.get(i).copied().unwrap_or(false);
                    }
                } else {
                    let message = format!(
                        "this returns {}, but another return gives {}",
                        describe_types(&types),
                        describe_types(&seen.types)
                    );
                    self.report(
                        Diagnostic::error(Code::ReturnMismatch, span, message)
                            .label(first, "the other return")
                            .help("make all returns give the same number and types of values"),
                    );
                }
            }
            ReturnMerge::Declared(declared) => {
                let declared = declared.clone();
                if declared.len() != types.len() {
                    let (message, help) = if self.kind == FunctionKind::Kernel {
                        (KERNEL_RETURNS.to_owned(), "write the result to an array that is a parameter")
                    } else {
                        (
                            self.wrong_count_of_results(declared.len(), types.len()),
                            "change the annotation or the return",
                        )
                    };
                    self.reject(Code::ReturnMismatch, span, message, help);
                } else if values.len() == declared.len() {
                    if declared.len() > 1 && !self.are_results(values, &declared) {
                        let names: Vec<String> = values.iter().map(type_name).collect();
                        let message = self.wrong_result(&names);
                        self.reject(Code::ReturnMismatch, span, message, "change the annotation or the return");
                        return;
                    }
                    for (value, ty) in values.iter_mut().zip(&declared) {
                        let given = std::mem::replace(value, TypedExpr::error(span));
                        *value = self.expect(given, *ty, Code::ReturnMismatch, "the function's annotation");
                    }
                } else if types.iter().zip(&declared).any(|(a, b)| *a != ExprType::from(*b)) {
                    let wanted: SmallVec<[ExprType; 2]> = declared.iter().map(|t| ExprType::from(*t)).collect();
                    let message = format!(
                        "this returns {}, but the function is annotated to return {}",
                        describe_types(&types),
                        describe_types(&wanted)
                    );
                    self.reject(Code::ReturnMismatch, span, message, "assign the values to variables and convert them");
                }
            }
        }
    }
}

/// `float32 and int32`, `nothing`.
pub(super) fn describe_types(types: &[ExprType]) -> String {
    let names: Vec<String> = types
        .iter()
        .map(|t| match t.full() {
            Some(ty) => ty.python_name(),
            None => "a number".to_owned(),
        })
        .collect();
    match &names[..] {
        [] => "nothing".to_owned(),
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        [one, ..] => one.clone(),
    }
}

/// The name of a value's type; that of a number is the one it takes by itself.
fn type_name(value: &TypedExpr) -> String {
    match (value.untyped(), value.ty.full()) {
        (Some(number), _) => number.default_scalar().python_name().to_owned(),
        (None, Some(ty)) => ty.python_name(),
        (None, None) => "None".to_owned(),
    }
}
