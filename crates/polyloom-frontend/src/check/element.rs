//! Array elements and extents: `a[i, j]`, `a.shape`, `a.ndim`, `a.size`.

use super::composite::{component, constant_index};
use super::function::Checker;
use super::scope::number;
use crate::annotation::elements;
use crate::environment::Captured;
use crate::number::Number;
use crate::source::dotted;
use crate::typed_ast::{ComponentIndex, Element, Expr, ExprKind, ExprType};
use polyloom_ir::{Code, Composite, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

/// What a subscript means.
pub(super) enum Indexed {
    /// An array element, and its type.
    Element(Element, Type),
    /// A component of a composite.
    Component(Expr, Composite, ComponentIndex),
    /// A row of a matrix.
    Row(Expr, Composite, Expr),
}

impl<'a> Checker<'_, '_, 'a> {
    /// `x.name`.
    pub(super) fn attribute(&mut self, attribute: &'a ast::ExprAttribute, span: Span) -> Expr {
        if let Some(mut path) = dotted(&attribute.value)
            && !self.is_variable(path[0])
            && !matches!(self.capture(&path), Some(Captured::CompositeConstant(..)))
        {
            path.push(attribute.attr.as_str());
            return self.captured_value(&path, span);
        }
        let base = self.value(&attribute.value);
        let Some(ty) = base.ty.as_value() else { return Expr::error(span) };
        let name = attribute.attr.as_str();
        if let Some(composite) = ty.as_composite() {
            return self.member(base, composite, name, span);
        }
        let Some((_, ndim)) = ty.as_any_array() else {
            let message = format!("{} has no member `{name}`", ty.python_name());
            return self.reject(Code::UnknownName, span, message, "a scalar is used as it is");
        };
        let dims = (0..ndim).map(|axis| dim(&base, axis, span));
        match name {
            "shape" => {
                let types = (0..ndim).map(|_| Type::I32).collect();
                Expr::new(ExprKind::Tuple(dims.collect()), ExprType::Values(types), span)
            }
            "ndim" => number(Number::Int(ndim.into()), span),
            "size" => dims
                .reduce(|a, b| {
                    let kind = ExprKind::Op { op: Op::Mul, args: vec![a, b], updates: smallvec![] };
                    Expr::new(kind, ExprType::scalar(Scalar::I32), span)
                })
                .unwrap_or_else(|| Expr::error(span)),
            _ => {
                let message = format!("an array has no member `{name}` that a kernel can use");
                self.reject(Code::UnknownName, span, message, "it has `shape`, `ndim` and `size`")
            }
        }
    }

    /// `x[…]` as a value.
    pub(super) fn subscript(&mut self, subscript: &'a ast::ExprSubscript, span: Span) -> Expr {
        if let ast::Expr::Attribute(attribute) = &*subscript.value
            && attribute.attr.as_str() == "shape"
            && dotted(&attribute.value).is_none_or(|path| self.is_variable(path[0]))
        {
            return self.extent(attribute, &subscript.slice, span);
        }
        match self.indexed(subscript, span) {
            Some(Indexed::Element(element, elem)) => {
                Expr::new(ExprKind::Load(Box::new(element)), ExprType::Value(elem), span)
            }
            Some(Indexed::Component(base, composite, index)) => component(base, composite, index, span),
            Some(Indexed::Row(matrix, composite, index)) => self.row(matrix, composite, index, span),
            None => Expr::error(span),
        }
    }

    /// `a.shape[axis]`.
    fn extent(&mut self, shape: &'a ast::ExprAttribute, axis: &'a ast::Expr, span: Span) -> Expr {
        let dims = self.attribute(shape, span);
        let axis = self.expr(axis);
        let ExprKind::Tuple(mut dims) = dims.kind else { return Expr::error(span) };
        if axis.is_error() {
            return Expr::error(span);
        }
        let n_dims = dims.len() as i128;
        match axis.number() {
            Some(Number::Int(axis)) if (-n_dims..n_dims).contains(&axis) => {
                dims.swap_remove(axis.rem_euclid(n_dims) as usize)
            }
            Some(Number::Int(axis)) => {
                let message =
                    format!("the array has {}, and no axis {axis}", count(dims.len(), "dimension", "dimensions"));
                let help = match n_dims {
                    1 => "write `shape[0]`".to_owned(),
                    _ => format!("write an axis from 0 to {}", n_dims - 1),
                };
                self.reject(Code::BadRank, span, message, help)
            }
            _ => self.reject(
                Code::Unsupported,
                axis.span,
                "the axis of `shape` must be a constant",
                "write the number: `a.shape[0]`",
            ),
        }
    }

    /// What `x[…]` means: an array element, or a component of a composite.
    pub(super) fn indexed(&mut self, subscript: &'a ast::ExprSubscript, span: Span) -> Option<Indexed> {
        // `a[i][j]` is `a[i, j]`.
        let mut base = &*subscript.value;
        let mut slices: SmallVec<[&'a ast::Expr; 2]> = smallvec![&*subscript.slice];
        while let ast::Expr::Subscript(inner) = base {
            slices.push(&inner.slice);
            base = &inner.value;
        }
        let array = self.value(base);
        let mut indices: SmallVec<[Expr; 2]> = SmallVec::new();
        for index in slices.iter().rev().flat_map(|slice| elements(slice)) {
            let index = self.index(index);
            indices.push(index);
        }
        let ty = array.ty.as_value()?;
        if let Some(composite) = ty.as_composite() {
            return self.indexed_composite(array, composite, indices, span);
        }
        let Some((elem, ndim)) = ty.as_any_array() else {
            let message = format!("{} cannot be indexed", ty.python_name());
            self.reject(Code::TypeMismatch, span, message, "only arrays, vectors and matrices can be indexed");
            return None;
        };
        // `a[i][0]`: what is behind the array's own dimensions are the element's.
        let inner = match elem.as_composite() {
            Some(_) if indices.len() > usize::from(ndim) => indices.drain(usize::from(ndim)..).collect(),
            _ => SmallVec::new(),
        };
        if indices.len() != usize::from(ndim) {
            let name = self.unit.text(ruff_text_size::Ranged::range(base));
            let message = format!(
                "`{name}` has {}, but {} given",
                count(ndim.into(), "dimension", "dimensions"),
                count(indices.len(), "index is", "indices are"),
            );
            let names = &["i", "j", "k", "l"][..usize::from(ndim).min(4)];
            let help = format!("write one index for each dimension: `{name}[{}]`", names.join(", "));
            self.reject(Code::BadRank, span, message, help);
            return None;
        }
        if indices.iter().any(Expr::is_error) {
            return None;
        }
        let mut element = Element { array: Box::new(array), indices, span };
        let Some(composite) = elem.as_composite().filter(|_| !inner.is_empty()) else {
            return Some(Indexed::Element(element, elem));
        };
        let shape = composite.shape();
        if inner.len() != shape.len() {
            let base = Expr::new(ExprKind::Load(Box::new(element)), ExprType::Value(elem), span);
            return self.indexed_composite(base, composite, inner, span);
        }
        for (index, &extent) in inner.into_iter().zip(&shape) {
            let index = match constant_index(&index) {
                Some(known) if !self.names_component(composite, known, extent, span) => return None,
                Some(known) => Expr::constant(known.rem_euclid(extent.into()) as u64, Scalar::I32, span),
                None => index,
            };
            element.indices.push(index);
        }
        Some(Indexed::Element(element, composite.elem().into()))
    }

    /// What `x[…]` means of a composite.
    fn indexed_composite(
        &mut self,
        base: Expr,
        composite: Composite,
        mut indices: SmallVec<[Expr; 2]>,
        span: Span,
    ) -> Option<Indexed> {
        if matches!(composite, Composite::Matrix { .. }) && indices.len() == 1 {
            let index = indices.swap_remove(0);
            return (!index.is_error()).then_some(Indexed::Row(base, composite, index));
        }
        let index = self.component_at(composite, indices, span)?;
        Some(Indexed::Component(base, composite, index))
    }

    /// An index: any integer.
    fn index(&mut self, index: &'a ast::Expr) -> Expr {
        let checked = self.expr(index);
        if let Some(Number::Int(value)) = checked.number() {
            let scalar = if Number::Int(value).fit(Scalar::I32).is_some() { Scalar::I32 } else { Scalar::I64 };
            return self.adapt(checked, scalar.into());
        }
        let checked = self.settle(checked);
        match checked.ty.as_value() {
            Some(Type::Scalar(scalar)) if scalar.is_int() => checked,
            Some(ty) => {
                let help = match ty {
                    Type::Scalar(_) => self.conversion_help(&checked, Scalar::I32),
                    Type::Composite(_) => "write one of its components".to_owned(),
                    Type::Array { .. } | Type::CompositeArray { .. } => "index that array to get an integer".to_owned(),
                };
                let message = format!("an index is an integer, not {}", ty.python_name());
                self.reject(Code::TypeMismatch, checked.span, message, help)
            }
            None => checked,
        }
    }
}

/// A number of things, in words.
pub(super) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The extent of an array along an axis.
pub(super) fn dim(array: &Expr, axis: u8, span: Span) -> Expr {
    Expr::new(ExprKind::Dim(Box::new(array.clone()), axis), ExprType::scalar(Scalar::I32), span)
}
