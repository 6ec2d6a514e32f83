//! Expressions that stand for something known when a kernel is compiled: types and functions.
//!
//! `type(x)`, `a.dtype`, a captured type or function, a parameter that was given one, and variables set to any of them.

use super::function::{Checker, Name};
use crate::annotation::AnnotationReader;
use crate::environment::Captured;
use crate::param_type::ParamType;
use crate::source::dotted;
use polyloom_ir::{Code, Span, Type};
use ruff_python_ast as ast;

impl<'a> Checker<'_, '_, 'a> {
    /// What an expression stands for, if it is no value computed when the kernel runs.
    pub(super) fn meaning(&mut self, expr: &'a ast::Expr) -> Option<Captured> {
        match expr {
            ast::Expr::Name(name) => match self.names.get(name.id.as_str()) {
                Some(Name::Known(index)) => self.known.get(*index).cloned(),
                Some(_) => None,
                None => self.capture(&[name.id.as_str()]),
            },
            ast::Expr::Attribute(attribute) => {
                if let Some(path) = dotted(expr)
                    && !self.is_variable(path[0])
                    && let Some(captured) = self.capture(&path)
                {
                    return Some(captured);
                }
                if attribute.attr.as_str() == "dtype" { self.element_type(&attribute.value) } else { None }
            }
            ast::Expr::Call(call) => self.type_call(call),
            _ => None,
        }
    }

    /// What an expression stands for, if that is a function or a type.
    pub(super) fn function_or_type(&mut self, expr: &'a ast::Expr) -> Option<Captured> {
        self.meaning(expr).filter(|meaning| {
            matches!(meaning, Captured::Type(_) | Captured::Composite(_) | Captured::Function(_) | Captured::Builtin(_))
        })
    }

    /// `x.dtype`: the type of an array's elements or of a vector's components.
    fn element_type(&mut self, of: &'a ast::Expr) -> Option<Captured> {
        let ty = match self.meaning(of) {
            Some(Captured::Composite(composite) | Captured::CompositeConstant(_, composite)) => composite.into(),
            Some(Captured::Annotation(ParamType::Exact(ty))) => ty,
            Some(_) => return None,
            None => self.value(of).ty.as_value()?,
        };
        match (ty.as_any_array(), ty) {
            (Some((elem, _)), _) => Some(Captured::of_type(elem)),
            (None, Type::Composite(composite)) => Some(Captured::Type(composite.elem())),
            _ => None,
        }
    }

    /// `type(x)`, `vector(length=3, dtype=type(x))`.
    fn type_call(&mut self, call: &'a ast::ExprCall) -> Option<Captured> {
        let path = dotted(&call.func)?;
        if self.is_variable(path[0]) {
            return None;
        }
        match self.capture(&path) {
            None if path == ["type"] => {
                let ([of], []) = (&*call.arguments.args, &*call.arguments.keywords) else { return None };
                Some(Captured::of_type(self.value(of).ty.as_value()?))
            }
            Some(Captured::TypeConstructor(kind)) => {
                let text = &self.unit.file().text;
                let known = |path: &[&str]| self.known_or_outside(path);
                match (AnnotationReader { text, lookup: &known }).composite_call(call, kind) {
                    Ok(ParamType::Exact(ty)) => Some(Captured::of_type(ty)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What a path means where types are read: a name of the function that stands for a type, or one from outside.
    pub(super) fn known_or_outside(&self, path: &[&str]) -> Option<Captured> {
        match (path, path.first().and_then(|root| self.names.get(root))) {
            ([_], Some(Name::Known(index))) => self.known.get(*index).cloned(),
            _ => self.environment.lookup(path),
        }
    }

    /// Makes a name stand for a function or a type.
    pub(super) fn bind_known(&mut self, name: &'a ast::ExprName, what: Captured, span: Span) {
        let text = name.id.as_str();
        let is_first = matches!(self.names.get(text), Some(Name::Later(_)) | None);
        if !is_first || self.assigned.len() > 1 {
            let message = match is_first {
                true => format!("`{text}` is set to {} inside a branch or loop", what.describe()),
                false => format!("`{text}` has a value already and cannot stand for {}", what.describe()),
            };
            self.names.insert(text, Name::Poisoned);
            let help = "functions and types are chosen when the kernel is compiled: set it once, before";
            self.reject(Code::BadAssignment, span, message, help);
            return;
        }
        self.known.push(what);
        self.names.insert(text, Name::Known(self.known.len() - 1));
    }
}
