//! Constants, structs and types.

use super::body::{BodyContext, BodyElaboration};
use super::{FileElaboration, identifier};
use crate::loom::python_nodes as node;
use crate::loom::syntax::{Annotation, Constant, Expr, ExprKind, StructItem, TypeAlias, TypeArgument, TypeExpr};
use crate::loom::types;
use crate::members::package_member;
use polyloom_ir::Code;
use polyloom_ir::diagnostic::near_names;
use ruff_python_ast::{self as ast, ExprContext, Identifier};
use ruff_text_size::TextRange;
use rustc_hash::FxHashMap;

/// The name that stands for a type of whatever kind, which no text can spell.
pub(crate) const ANY: &str = "$any";

/// Annotations of loops and functions.
pub(super) const ANNOTATIONS: [&str; 15] = [
    "cpu_affinity",
    "critical_path",
    "device",
    "gpu_compute",
    "inline",
    "kernel",
    "no_allocation",
    "no_syscalls",
    "opt_level",
    "shared",
    "target_latency_ns",
    "unchecked",
    "unroll",
    "vectorize",
    "workgroup",
];

impl FileElaboration<'_> {
    pub(super) fn constant(&mut self, constant: &Constant) {
        let annotation = constant.ty.as_ref().map(|ty| self.type_node(ty, false));
        let value = BodyElaboration::new(self, BodyContext::Function, FxHashMap::default()).expr(&constant.value);
        // The type's constructor makes a constant of that type.
        let value = match annotation {
            Some(ty) => node::call(ty, vec![value], Vec::new(), constant.value.range),
            None => value,
        };
        let target = node::target(&constant.name.name, constant.name.range);
        self.made.body.push(node::assign(target, value, constant.range));
    }

    pub(super) fn alias(&mut self, alias: &TypeAlias) {
        let made = self.type_node(&alias.ty, false);
        self.made.body.push(node::assign(node::target(&alias.name.name, alias.name.range), made, alias.range));
    }

    pub(super) fn structure(&mut self, structure: &StructItem) {
        let mut fields = Vec::new();
        for (name, ty) in &structure.fields {
            let range = name.range.cover(ty.range);
            fields.push(node::annotated(node::target(&name.name, name.range), self.type_node(ty, false), None, range));
        }
        if fields.is_empty() {
            fields.push(node::pass(structure.range));
        }
        self.made.body.push(node::structure(identifier(&structure.name), fields, structure.range));
    }

    /// A type as an annotation. In the signature of a function type variables stand for whatever is given.
    pub(super) fn type_node(&mut self, ty: &TypeExpr, in_signature: bool) -> ast::Expr {
        let range = ty.range;
        let [name] = &ty.path[..] else {
            let mut path = ty.path.iter();
            let first =
                path.next().map_or_else(|| node::name(ANY, range), |first| node::name(&first.name, first.range));
            return path.fold(first, |of, member| node::attribute(of, &member.name, member.range));
        };
        match name.name.as_str() {
            "array" => return self.array_node(ty, in_signature),
            "vector" | "matrix" | "quaternion" | "transformation" => return self.composite_node(ty, &name.name),
            "ref" => {
                let [TypeArgument::Value(Expr { kind: ExprKind::Name(_), .. }) | TypeArgument::Type(_)] =
                    &ty.arguments[..]
                else {
                    self.error(Code::BadAnnotation, range, "`ref` takes one type", "write `ref<f32>`");
                    return node::name(ANY, range);
                };
                let inner = self.type_argument(ty.arguments.first(), range, in_signature);
                return node::subscript(node::member("ref", name.range), inner, range, ExprContext::Load);
            }
            _ => {}
        }
        if let Some(argument) = ty.arguments.first() {
            let at = match argument {
                TypeArgument::Type(ty) => ty.range,
                TypeArgument::Value(value) => value.range,
            };
            let message = format!("`{}` takes nothing between `<` and `>`", name.name);
            self.error(Code::BadAnnotation, at, message, format!("write `{}`", name.name));
        }
        if self.globals.contains(name.name.as_str()) {
            return node::name(&name.name, range);
        }
        if let Some(scalar) = types::scalar(&name.name) {
            return node::member(scalar.python_name(), range);
        }
        if self.generics.contains_key(&name.name) {
            return match in_signature {
                true => self.generic_node(&name.name, range),
                false => node::name(&name.name, range),
            };
        }
        // Python's own names of types are none here.
        if package_member(&name.name).is_some() && !matches!(name.name.as_str(), "float" | "int") {
            return node::member(&name.name, range);
        }
        let known = types::SCALARS.iter().map(|(name, _)| *name).chain(["array", "vec2", "vec3", "vec4", "quat"]);
        let help = match (&*name.name, near_names(&name.name, known).first()) {
            ("float", _) => "write `f32`".to_owned(),
            ("double", _) => "write `f64`".to_owned(),
            ("int", _) => "write `i32`".to_owned(),
            (_, Some(near)) => format!("did you mean `{near}`?"),
            _ => "types are `f32`, `i32`, `bool`, `vec3`, structs, and arrays such as `array<f32, n>`".to_owned(),
        };
        self.error(Code::UnknownName, range, format!("there is no type `{}`", name.name), help);
        node::name(ANY, range)
    }

    /// The annotation of a type variable in a signature.
    fn generic_node(&self, name: &str, range: TextRange) -> ast::Expr {
        match self.generics.get(name).and_then(|bound| bound.as_deref()) {
            Some(bound) => node::member(bound, range),
            None => node::name(ANY, range),
        }
    }

    fn type_argument(&mut self, argument: Option<&TypeArgument>, range: TextRange, in_signature: bool) -> ast::Expr {
        match argument {
            Some(TypeArgument::Type(ty)) => self.type_node(ty, in_signature),
            Some(TypeArgument::Value(value)) => match path_of(value) {
                Some(path) => {
                    let ty = TypeExpr { path, arguments: Vec::new(), range: value.range };
                    self.type_node(&ty, in_signature)
                }
                None => {
                    let help = "types are `f32`, `i32`, `bool`, `vec3` and structs";
                    self.error(Code::BadAnnotation, value.range, "this is no type", help);
                    node::name(ANY, range)
                }
            },
            None => {
                let help = "write `array<f32, n>`";
                self.error(Code::BadAnnotation, range, "an array type needs the type of its elements", help);
                node::name(ANY, range)
            }
        }
    }

    fn array_node(&mut self, ty: &TypeExpr, in_signature: bool) -> ast::Expr {
        let range = ty.range;
        let element = self.type_argument(ty.arguments.first(), range, in_signature);
        let n_axes = ty.arguments.len().saturating_sub(1).max(1);
        let parts = vec![element, node::int(n_axes as u64, range)];
        let slice = node::tuple(parts, range, ExprContext::Load);
        node::subscript(node::member("array", range), slice, range, ExprContext::Load)
    }

    /// `vector<f32, 5>`, `matrix<f64, 3, 4>` and their like.
    fn composite_node(&mut self, ty: &TypeExpr, name: &str) -> ast::Expr {
        let range = ty.range;
        let element = self.type_argument(ty.arguments.first(), range, false);
        let extents: Vec<ast::Expr> = ty
            .arguments
            .iter()
            .skip(1)
            .map(|argument| match argument {
                TypeArgument::Value(value) => {
                    BodyElaboration::new(self, BodyContext::Function, FxHashMap::default()).expr(value)
                }
                TypeArgument::Type(ty) => node::int(0, ty.range),
            })
            .collect();
        let keyword = |name: &str, value: ast::Expr| (Identifier::new(name, range), value);
        let mut keywords = vec![keyword("dtype", element)];
        match (name, extents.len()) {
            ("vector", 1) => keywords.extend(extents.into_iter().map(|extent| keyword("length", extent))),
            ("matrix", 2) => keywords.push(keyword("shape", node::tuple(extents, range, ExprContext::Load))),
            ("quaternion" | "transformation", 0) => {}
            _ => {
                let usage = match name {
                    "vector" => "write `vector<f32, 5>`",
                    "matrix" => "write `matrix<f32, 3, 4>`",
                    _ => "write `quaternion<f32>`",
                };
                self.error(Code::BadAnnotation, range, format!("`{name}` takes other extents"), usage);
            }
        }
        let constructor = node::attribute(node::member("types", range), name, range);
        node::call(constructor, Vec::new(), keywords, range)
    }

    /// Says what is wrong with an annotation of a loop that runs in order.
    pub(super) fn check_loop_annotation(&mut self, annotation: &Annotation) {
        let name = &annotation.name.name;
        if matches!(name.as_str(), "unroll" | "vectorize") {
            return;
        }
        if ANNOTATIONS.contains(&name.as_str()) {
            let message = format!("`@{name}` is of parallel loops and kernels");
            let help = "write it before the outermost `for`, or after the parameters";
            return self.error(Code::BadDecorator, annotation.range, message, help);
        }
        self.unknown_annotation(annotation);
    }

    pub(super) fn unknown_annotation(&mut self, annotation: &Annotation) {
        let name = &annotation.name.name;
        let help = match near_names(name, ANNOTATIONS).first() {
            Some(near) => format!("did you mean `@{near}`?"),
            None => format!("there are {}", ANNOTATIONS.map(|name| format!("`@{name}`")).join(", ")),
        };
        self.error(Code::BadDecorator, annotation.name.range, format!("there is no annotation `@{name}`"), help);
    }
}

/// The names of `a.b.c`.
pub(super) fn path_of(expr: &Expr) -> Option<Vec<crate::loom::syntax::Ident>> {
    match &expr.kind {
        ExprKind::Name(name) => Some(vec![crate::loom::syntax::Ident { name: name.clone(), range: expr.range }]),
        ExprKind::Member(of, member) => {
            let mut path = path_of(of)?;
            path.push(member.clone());
            Some(path)
        }
        _ => None,
    }
}
