//! `grad(f)(x, y)`: the derivatives of what `f` gives with respect to what it is given.
//!
//! The call is one of a function that is declared here; the derivative is not known to the front end, and whoever
//! compiles further writes that function ([`crate::CompiledKernel::gradients`]).

use super::KernelCompilation;
use super::call::list;
use super::function::FunctionChecker;
use crate::builtin_function::BuiltinFunction;
use crate::dotted_path::dotted;
use crate::environment::CapturedMeaning;
use crate::structure::ValueType;
use crate::typed_ast::{
    CustomDerivative, ExprKind, ExprType, FunctionId, LocalId, LocalVariable, Locals, StmtKind, TypedExpr,
    TypedFunction, TypedParam, TypedStmt,
};
use polyloom_ir::{Code, ExecutionConstraints, FunctionKind, KernelMetadata, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Returns true if a call is one of `grad`.
    pub(super) fn is_grad(&mut self, call: &'a ast::ExprCall) -> bool {
        let Some(path) = dotted(&call.func) else { return false };
        !self.is_variable(path[0])
            && matches!(self.capture(&path), Some(CapturedMeaning::Builtin(BuiltinFunction::Grad)))
    }

    /// Returns what `grad(f)` stands for; `None` if `f` is nothing that has derivatives.
    pub(super) fn gradient(&mut self, grad: &'a ast::ExprCall) -> Option<CapturedMeaning> {
        let ([of], []) = (&*grad.arguments.args, &*grad.arguments.keywords) else { return None };
        let name = self.unit.text(ruff_text_size::Ranged::range(of));
        match self.meaning(of)? {
            of @ (CapturedMeaning::Function(_) | CapturedMeaning::Builtin(BuiltinFunction::Op(_))) => {
                Some(CapturedMeaning::Gradient(Arc::new(of), name.into()))
            }
            _ => None,
        }
    }

    /// Reports what `grad` does not take.
    pub(super) fn refuse_grad(&mut self, grad: &'a ast::ExprCall) -> TypedExpr {
        let help = format!("write `grad(f)(x)` for a function `f` under `@{}.func`", self.package());
        let span = self.span(grad);
        self.reject(Code::BadCapture, span, "`grad` takes one function", help)
    }

    /// A call of what `grad` gives.
    pub(super) fn gradient_call(
        &mut self,
        of: &CapturedMeaning,
        name: &str,
        call: &'a ast::ExprCall,
        span: Span,
    ) -> TypedExpr {
        let value = match of {
            CapturedMeaning::Function(handles) => {
                let arguments = self.actuals(call);
                self.user_call(handles, name, arguments, span)
            }
            CapturedMeaning::Builtin(builtin @ BuiltinFunction::Op(op)) => {
                let value = self.builtin(*builtin, call, &[op.name()], span);
                let value = self.settle(value);
                self.compilation.as_function(value)
            }
            _ => TypedExpr::error(span),
        };
        if value.is_error() {
            return value;
        }
        let ExprKind::Call { function, args, .. } = value.kind else {
            let message = format!("`{name}` has no derivative of its own");
            let help = format!("put it into a function under `@{}.func`", self.package());
            return self.reject(Code::BadCapture, span, message, help);
        };
        let Some(callee) = self.compilation.program.functions.get(function.0 as usize) else {
            return TypedExpr::error(span);
        };
        let is_number = |ty: &ValueType| matches!(ty, ValueType::Plain(Type::Scalar(scalar)) if scalar.is_float());
        let gives_number = matches!(&callee.results[..], [one] if is_number(one)) && callee.updated.is_empty();
        let takes_structs = callee.params.iter().any(|param| param.ty.as_plain().is_none());
        let moving = moving(callee);
        let (message, help) = if !gives_number {
            let given: Vec<String> = callee.results.iter().map(|ty| ty.python_name()).collect();
            let given = if given.is_empty() { "nothing".to_owned() } else { list(&given) };
            let message = format!("`{name}` gives {given}; `grad` is of functions that give one floating-point number");
            (message, "give a number, and nothing through parameters by reference or arrays of the caller's own")
        } else if takes_structs {
            (format!("`{name}` takes a struct, and so cannot what `grad` makes of it"), "pass the fields that it uses")
        } else if moving.is_empty() {
            let message =
                format!("no parameter of `{name}` is a floating-point number or a vector or the like of such");
            (message, "an array that is a parameter is a constant to `grad`: pass its element")
        } else {
            let gradient = self.compilation.gradient_of(function);
            let ty = match &moving[..] {
                [one] => ExprType::from(*one),
                several => ExprType::Values(several.into()),
            };
            return TypedExpr::new(ExprKind::Call { function: gradient, args, updates: Locals::new() }, ty, span);
        };
        self.reject(Code::TypeMismatch, span, message, help)
    }
}

/// The types of those parameters that a function has derivatives with respect to.
fn moving(function: &TypedFunction) -> SmallVec<[ValueType; 2]> {
    let types = function.params.iter().filter_map(|param| param.ty.as_plain());
    types.filter(|ty| ty.is_float() && ty.as_any_array().is_none()).map(ValueType::Plain).collect()
}

impl KernelCompilation<'_> {
    /// An operation as the call of a function that does it; what is none stays as it is.
    fn as_function(&mut self, value: TypedExpr) -> TypedExpr {
        let (span, ty) = (value.span, value.ty.clone());
        let (ExprKind::Op { op, args, updates }, Some(result)) = (&value.kind, ty.as_value()) else { return value };
        let types: Option<SmallVec<[Type; 4]>> = args.iter().map(|arg| arg.ty.as_value()).collect();
        let Some(types) = types.filter(|_| updates.is_empty()) else { return value };
        let name = |place: usize| -> Arc<str> { format!("x{place}").into() };
        let local = |(place, &ty): (usize, &Type)| LocalVariable {
            name: name(place),
            ty,
            span,
            first_read: span.start,
            last_read: span.end,
        };
        let param = |(place, &ty): (usize, &Type)| TypedParam { name: name(place), ty: ValueType::Plain(ty) };
        let read = |(place, &ty): (usize, &Type)| {
            TypedExpr::new(ExprKind::Local(LocalId(place as u32)), ExprType::Value(ty), span)
        };
        let args_read = types.iter().enumerate().map(read).collect();
        let done = ExprKind::Op { op: *op, args: args_read, updates: Locals::new() };
        let body = StmtKind::Return(smallvec![TypedExpr::new(done, ty.clone(), span)]);
        let function = TypedFunction {
            name: self.unique_name(op.name()),
            kind: FunctionKind::Func,
            params: types.iter().enumerate().map(param).collect(),
            locals: types.iter().enumerate().map(local).collect(),
            results: smallvec![ValueType::Plain(result)],
            updated: Locals::new(),
            custom: CustomDerivative::default(),
            returned_arrays: Vec::new(),
            own_result: None,
            body: vec![TypedStmt { kind: body, span }],
            metadata: KernelMetadata::default(),
            constraints: ExecutionConstraints::default(),
            span,
        };
        self.program.functions.push(function);
        let function = FunctionId(self.program.functions.len() as u32 - 1);
        let ExprKind::Op { args, .. } = value.kind else { return TypedExpr::error(span) };
        TypedExpr::new(ExprKind::Call { function, args, updates: Locals::new() }, ty, span)
    }

    /// The function that gives the derivatives of another.
    fn gradient_of(&mut self, of: FunctionId) -> FunctionId {
        if let Some(&(gradient, _)) = self.gradients.iter().find(|(_, known)| *known == of) {
            return gradient;
        }
        let function = &self.program.functions[of.0 as usize];
        let name = format!("grad_{}", function.name);
        let declared = TypedFunction {
            name: self.unique_name(&name),
            results: moving(&self.program.functions[of.0 as usize]),
            body: Vec::new(),
            custom: CustomDerivative::default(),
            ..self.program.functions[of.0 as usize].clone()
        };
        self.program.functions.push(declared);
        let gradient = FunctionId(self.program.functions.len() as u32 - 1);
        self.gradients.push((gradient, of));
        gradient
    }
}
