//! `grad(f)(x, y)`: the derivatives of what `f` gives with respect to what it is given.
//!
//! The call is one of a function that is declared here; the derivative is not known to the front end, and whoever
//! compiles further writes that function ([`crate::Compiled::gradients`]).

use super::Compilation;
use super::call::list;
use super::function::Checker;
use crate::environment::{Builtin, Captured};
use crate::source::dotted;
use crate::structure::ValueType;
use crate::typed_ast::{Custom, Expr, ExprKind, ExprType, Function, FunctionId, Locals};
use polyloom_ir::{Code, Span, Type};
use ruff_python_ast as ast;
use smallvec::SmallVec;

impl<'a> Checker<'_, '_, 'a> {
    /// The call `grad(f)`, if an expression is one.
    pub(super) fn grad_of(&mut self, expr: &'a ast::Expr) -> Option<&'a ast::ExprCall> {
        let ast::Expr::Call(call) = expr else { return None };
        let path = dotted(&call.func)?;
        let is_grad =
            !self.is_variable(path[0]) && matches!(self.capture(&path), Some(Captured::Builtin(Builtin::Grad)));
        is_grad.then_some(call)
    }

    /// A call of what `grad` gives.
    pub(super) fn grad_call(&mut self, grad: &'a ast::ExprCall, call: &'a ast::ExprCall, span: Span) -> Expr {
        let arguments = self.actuals(call);
        let of = match (&*grad.arguments.args, &*grad.arguments.keywords) {
            ([of], []) => self.meaning(of),
            _ => None,
        };
        let Some(Captured::Function(handles)) = of else {
            let help = format!("write `grad(f)(x)` for a function `f` under `@{}.func`", self.package());
            let message = "`grad` takes one function of the program's own";
            let grad_span = self.span(grad);
            return self.reject(Code::BadCapture, grad_span, message, help);
        };
        let name = self.unit.text(ruff_text_size::Ranged::range(&grad.arguments.args[0]));
        let value = self.user_call(&handles, name, arguments, span);
        let ExprKind::Call { function, args, .. } = value.kind else { return Expr::error(span) };
        let Some(callee) = self.compilation.program.functions.get(function.0 as usize) else {
            return Expr::error(span);
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
            return Expr::new(ExprKind::Call { function: gradient, args, updates: Locals::new() }, ty, span);
        };
        self.reject(Code::TypeMismatch, span, message, help)
    }
}

/// The types of those parameters that a function has derivatives with respect to.
fn moving(function: &Function) -> SmallVec<[ValueType; 2]> {
    let types = function.params.iter().filter_map(|param| param.ty.as_plain());
    types.filter(|ty| ty.is_float() && ty.as_any_array().is_none()).map(ValueType::Plain).collect()
}

impl Compilation<'_> {
    /// The function that gives the derivatives of another.
    fn gradient_of(&mut self, of: FunctionId) -> FunctionId {
        if let Some(&(gradient, _)) = self.gradients.iter().find(|(_, known)| *known == of) {
            return gradient;
        }
        let function = &self.program.functions[of.0 as usize];
        let name = format!("grad_{}", function.name);
        let declared = Function {
            name: self.unique_name(&name),
            results: moving(&self.program.functions[of.0 as usize]),
            body: Vec::new(),
            custom: Custom::default(),
            ..self.program.functions[of.0 as usize].clone()
        };
        self.program.functions.push(declared);
        let gradient = FunctionId(self.program.functions.len() as u32 - 1);
        self.gradients.push((gradient, of));
        gradient
    }
}
