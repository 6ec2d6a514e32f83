//! Expressions that stand for something known when a kernel is compiled: types and functions.
//!
//! `type(x)`, `a.dtype`, a captured type or function, a parameter that was given one, and variables set to any of them.

use super::component_expr::constant_index;
use super::function::{FunctionChecker, NameMeaning};
use crate::annotation::elements;
use crate::builtin_function::BuiltinFunction;
use crate::dotted_path::dotted;
use crate::environment::CapturedMeaning;
use crate::number::PythonNumber;
use crate::param_type::ParamType;
use crate::structure::ValueType;
use polyloom_ir::{Code, Composite, CompositeKind, Span, Type};
use ruff_python_ast as ast;
use smallvec::SmallVec;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Returns what an expression stands for, if it is no value computed when the kernel runs.
    pub(super) fn meaning(&mut self, expr: &'a ast::Expr) -> Option<CapturedMeaning> {
        match expr {
            ast::Expr::Name(name) => match self.names.get(name.id.as_str()) {
                Some(NameMeaning::Known(index)) => self.known.get(*index).cloned(),
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
            ast::Expr::Call(call) if self.is_grad(call) => self.gradient(call),
            ast::Expr::Call(call) => self.type_call(call),
            _ => None,
        }
    }

    /// Returns what an expression stands for, if that is a function or a type.
    pub(super) fn function_or_type(&mut self, expr: &'a ast::Expr) -> Option<CapturedMeaning> {
        // `matrix(shape=(2, 2), dtype=float)` is a matrix of zeros here; where it is called it is the type.
        if let ast::Expr::Call(call) = expr
            && let Some(path) = dotted(&call.func)
            && matches!(self.known_or_outside(&path), Some(CapturedMeaning::TypeConstructor(_)))
        {
            return None;
        }
        self.meaning(expr).filter(|meaning| {
            matches!(
                meaning,
                CapturedMeaning::Type(_)
                    | CapturedMeaning::Composite(_)
                    | CapturedMeaning::Struct(_)
                    | CapturedMeaning::Function(_)
                    | CapturedMeaning::Gradient(..)
                    | CapturedMeaning::Builtin(_)
            )
        })
    }

    /// `x.dtype`: the type of an array's elements or of a vector's components.
    fn element_type(&mut self, of: &'a ast::Expr) -> Option<CapturedMeaning> {
        let ty = match self.meaning(of) {
            Some(CapturedMeaning::Composite(composite) | CapturedMeaning::CompositeConstant(_, composite)) => {
                Type::Composite(composite).into()
            }
            Some(CapturedMeaning::Annotation(ParamType::Exact(ty))) => ty,
            Some(_) => return None,
            None => self.expr(of).ty.full()?,
        };
        let ty = match ty {
            ValueType::Plain(ty) => ty,
            ValueType::StructArray { elem, .. } => return Some(CapturedMeaning::Struct(elem)),
            ValueType::Struct(_) => return None,
        };
        match (ty.as_any_array(), ty) {
            (Some((elem, _)), _) => Some(CapturedMeaning::of_type(elem.into())),
            (None, Type::Composite(composite)) => Some(CapturedMeaning::Type(composite.elem())),
            (None, Type::Scalar(scalar)) => Some(CapturedMeaning::Type(scalar)),
            _ => None,
        }
    }

    /// `type(x)`, `vector(length=3, dtype=type(x))`.
    fn type_call(&mut self, call: &'a ast::ExprCall) -> Option<CapturedMeaning> {
        let path = dotted(&call.func)?;
        if self.is_variable(path[0]) {
            return None;
        }
        match self.capture(&path) {
            None if path == ["type"] => {
                let ([of], []) = (&*call.arguments.args, &*call.arguments.keywords) else { return None };
                let value = self.expr(of);
                let value = if value.ty.is_struct() { value } else { self.settle(value) };
                Some(CapturedMeaning::of_type(value.ty.full()?))
            }
            Some(CapturedMeaning::Builtin(BuiltinFunction::Constant)) => self.static_value(call),
            Some(CapturedMeaning::TypeConstructor(kind)) => {
                self.composite_type(call, kind).map(CapturedMeaning::Composite)
            }
            _ => None,
        }
    }

    /// `vector(length=3, dtype=a.dtype)`, `matrix((2, 2), float)`.
    fn composite_type(&mut self, call: &'a ast::ExprCall, kind: CompositeKind) -> Option<Composite> {
        let n_extents = match kind {
            CompositeKind::Vector | CompositeKind::Matrix => 1,
            CompositeKind::Quaternion | CompositeKind::Transform => 0,
        };
        let CapturedMeaning::Type(elem) = self.meaning(call.arguments.find_argument_value("dtype", n_extents)?)? else {
            return None;
        };
        let extents = match kind {
            CompositeKind::Vector => std::slice::from_ref(call.arguments.find_argument_value("length", 0)?),
            CompositeKind::Matrix => elements(call.arguments.find_argument_value("shape", 0)?),
            CompositeKind::Quaternion | CompositeKind::Transform => &[],
        };
        let mut shape: SmallVec<[i128; 2]> = SmallVec::new();
        for extent in extents {
            let extent = self.expr(extent);
            shape.push(match extent.number() {
                Some(PythonNumber::Int(value)) => value,
                _ => constant_index(&extent)?,
            });
        }
        Composite::new(kind, elem, &shape).ok()
    }

    /// Returns what a path means outside expressions, where types and constants are read: a name of the function that
    /// stands for one, or a name from outside.
    pub(super) fn known_or_outside(&self, path: &[&str]) -> Option<CapturedMeaning> {
        match (path, path.first().and_then(|root| self.names.get(root))) {
            ([_], Some(NameMeaning::Known(index))) => self.known.get(*index).cloned(),
            (_, Some(_)) => None,
            (_, None) => self.environment.lookup(path),
        }
    }

    /// Makes a name stand for a function or a type, until the branch or loop body ends.
    pub(super) fn bind_known(&mut self, name: &'a ast::ExprName, what: CapturedMeaning, span: Span) {
        let text = name.id.as_str();
        let before = self.names.get(text).copied();
        if let Some(NameMeaning::Local(_) | NameMeaning::View(_) | NameMeaning::Struct(_)) = before {
            let message = format!("`{text}` is a variable and cannot stand for {}", what.describe());
            self.reject(Code::BadAssignment, span, message, "use another name");
            return;
        }
        if !self.may_rebind(text) {
            let message = format!("`{text}` stands for something set outside this branch or loop");
            let help = "functions and types are chosen when the kernel is compiled: use another name";
            self.reject(Code::BadAssignment, span, message, help);
            return;
        }
        self.known.push(what);
        self.names.insert(text, NameMeaning::Known(self.known.len() - 1));
        self.rebound.push((text, before));
    }

    /// Returns true if what a name stands for may be changed: nothing, or something that it was set to in the same
    /// branch or loop body, so that the text is read in the order in which it runs. A part of an array may also be
    /// changed in a branch, after which the name stands for neither part.
    pub(super) fn may_rebind(&self, name: &str) -> bool {
        let outside = match self.names.get(name) {
            Some(NameMeaning::Known(_)) => self.n_rebound_outside,
            Some(NameMeaning::View(_) | NameMeaning::Struct(_)) => self.n_rebound_outside_loop,
            _ => return true,
        };
        self.rebound[outside..].iter().any(|(known, _)| *known == name)
    }

    /// Begins a branch: what it sets names to stand for holds in it.
    pub(super) fn open_scope(&mut self) -> usize {
        std::mem::replace(&mut self.n_rebound_outside, self.rebound.len())
    }

    /// Ends the branch that [`FunctionChecker::open_scope`] has begun.
    pub(super) fn close_scope(&mut self, outer: usize) {
        let is_left = !self.flow.reachable;
        for (name, before) in self.rebound.drain(self.n_rebound_outside..).rev() {
            match before {
                // A name that is set again in the same branch has an entry of its own from before it.
                Some(NameMeaning::View(_) | NameMeaning::Struct(_)) if !is_left => {
                    self.names.insert(name, NameMeaning::Diverged)
                }
                Some(before) => self.names.insert(name, before),
                None => self.names.remove(name),
            };
        }
        self.n_rebound_outside = outer;
    }

    /// Begins a loop body, as [`FunctionChecker::open_scope`] does a branch.
    pub(super) fn open_loop_scope(&mut self) -> (usize, usize) {
        (self.open_scope(), std::mem::replace(&mut self.n_rebound_outside_loop, self.rebound.len()))
    }

    /// Ends the loop body that [`FunctionChecker::open_loop_scope`] has begun.
    pub(super) fn close_loop_scope(&mut self, (outer, outside_loop): (usize, usize)) {
        self.close_scope(outer);
        self.n_rebound_outside_loop = outside_loop;
    }
}
