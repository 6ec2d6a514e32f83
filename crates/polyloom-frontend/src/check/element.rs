//! Array elements and extents: `a[i, j]`, `a.shape`, `a.ndim`, `a.size`.

use super::component_expr::{component, constant_index};
use super::component_parts::ComponentSlice;
use super::function::FunctionChecker;
use super::scope::number;
use super::slice::{extent_along, is_slice, saturated};
use super::subscript_meaning::{SubscriptIndex, SubscriptMeaning, TargetBase};
use super::temporaries::Temporaries;
use crate::annotation::elements;
use crate::dotted_path::dotted;
use crate::environment::CapturedMeaning;
use crate::number::PythonNumber;
use crate::structure::ValueType;
use crate::typed_ast::{ElementPlace, ExprKind, ExprType, TypedExpr};
use polyloom_ir::{Code, Composite, CompositeKind, Diagnostic, MAX_DIMS, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// `x.name`.
    pub(super) fn attribute(&mut self, attribute: &'a ast::ExprAttribute, span: Span) -> TypedExpr {
        if let Some(mut path) = dotted(&attribute.value)
            && !self.is_variable(path[0])
            && !matches!(self.capture(&path), Some(CapturedMeaning::CompositeConstant(..)))
        {
            path.push(attribute.attr.as_str());
            return self.captured_value(&path, span);
        }
        let name = attribute.attr.as_str();
        let base = match self.place_type(&attribute.value) {
            Some(ValueType::Struct(_)) => {
                return match self.field_place(attribute, span) {
                    Some(place) => self.read_place(place),
                    None => TypedExpr::error(span),
                };
            }
            Some(ValueType::StructArray { .. }) => match self.place(&attribute.value) {
                Some(place) => self.first_array(&place),
                None => TypedExpr::error(span),
            },
            _ => self.expr(&attribute.value),
        };
        if let ExprType::Struct(of) = base.ty {
            return self.field_of(base, of, name, span);
        }
        let base = self.settle(base);
        let Some(ty) = base.ty.as_value() else { return TypedExpr::error(span) };
        if let Some(composite) = ty.as_composite() {
            return self.member(base, composite, name, span);
        }
        let Some((_, ndim)) = ty.as_any_array() else {
            let message = format!("{} has no member `{name}`", ty.python_name());
            return self.reject(Code::UnknownName, span, message, "a scalar is used as it is");
        };
        let dims = self.extents_of(&base, span);
        match name {
            "shape" => {
                let types = (0..ndim).map(|_| Type::I32.into()).collect();
                TypedExpr::new(ExprKind::Tuple(dims), ExprType::Values(types), span)
            }
            "ndim" => number(PythonNumber::Int(ndim.into()), span),
            "size" => {
                self.reads_size |= dims.len() > 1;
                let product = |a, b| {
                    let kind = ExprKind::Op { op: Op::Mul, args: vec![a, b], updates: smallvec![] };
                    TypedExpr::new(kind, ExprType::scalar(Scalar::I32), span)
                };
                dims.into_iter().reduce(product).unwrap_or_else(|| TypedExpr::error(span))
            }
            _ => {
                let message = format!("an array has no member `{name}` that a kernel can use");
                self.reject(Code::UnknownName, span, message, "it has `shape`, `ndim` and `size`")
            }
        }
    }

    /// `x[…]` as a value.
    pub(super) fn subscript(&mut self, subscript: &'a ast::ExprSubscript, span: Span) -> TypedExpr {
        if let Some(value) = self.tuple_subscript(subscript, span) {
            return value;
        }
        let indexed = self.indexed(subscript, span);
        self.indexed_value(indexed, span)
    }

    /// `a.shape[axis]`, and a part of a tuple.
    pub(super) fn tuple_subscript(&mut self, subscript: &'a ast::ExprSubscript, span: Span) -> Option<TypedExpr> {
        if let ast::Expr::Attribute(attribute) = &*subscript.value
            && attribute.attr.as_str() == "shape"
            && dotted(&attribute.value).is_none_or(|path| self.is_variable(path[0]))
        {
            return Some(self.extent(attribute, &subscript.slice, span));
        }
        let parts = self.tuple_named(&subscript.value).cloned()?;
        Some(self.tuple_part(parts, &subscript.slice, span))
    }

    /// Returns what a subscript means as a value.
    pub(super) fn indexed_value(&mut self, indexed: Option<SubscriptMeaning>, span: Span) -> TypedExpr {
        match indexed {
            Some(SubscriptMeaning::Element(element, elem)) => {
                TypedExpr::new(ExprKind::Load(Box::new(element)), ExprType::Value(elem), span)
            }
            Some(SubscriptMeaning::Component(base, composite, index)) => component(base, composite, index, span),
            Some(SubscriptMeaning::Row(matrix, composite, index)) => self.row(matrix, composite, index, span),
            Some(SubscriptMeaning::Parts(parts)) => self.parts(parts, span),
            Some(SubscriptMeaning::Run(run)) => {
                let parts = self.run_parts(run, span);
                self.parts(parts, span)
            }
            Some(SubscriptMeaning::Struct(place)) => self.read_place(place),
            Some(SubscriptMeaning::View(view)) => view,
            None => TypedExpr::error(span),
        }
    }

    /// `a.shape[axis]`.
    fn extent(&mut self, shape: &'a ast::ExprAttribute, axis: &'a ast::Expr, span: Span) -> TypedExpr {
        let dims = self.attribute(shape, span);
        let axis = self.expr(axis);
        let ExprKind::Tuple(mut dims) = dims.kind else { return TypedExpr::error(span) };
        if axis.is_error() {
            return TypedExpr::error(span);
        }
        let n_dims = dims.len() as i128;
        match axis.number() {
            Some(PythonNumber::Int(axis)) if (-n_dims..n_dims).contains(&axis) => {
                dims.swap_remove(axis.rem_euclid(n_dims) as usize)
            }
            Some(PythonNumber::Int(axis)) => {
                let message =
                    format!("the array has {}, and no axis {axis}", count(dims.len(), "dimension", "dimensions"));
                let help = match n_dims {
                    1 => "write `shape[0]`".to_owned(),
                    _ => format!("write an axis from 0 to {}", n_dims - 1),
                };
                if (n_dims..MAX_DIMS as i128).contains(&axis) {
                    // Warp's shapes have four extents, of which those of no axis are 0.
                    self.report(Diagnostic::warning(Code::BadRank, span, format!("{message}: this is 0")).help(help));
                    return TypedExpr::constant(0, Scalar::I32, span);
                }
                self.reject(Code::BadRank, span, message, help)
            }
            _ => {
                let axis = self.settle(axis);
                let is_int = |ty: Type| ty.as_scalar().is_some_and(|scalar| scalar.is_int());
                if !axis.ty.as_value().is_some_and(is_int) {
                    let help = "write an integer: `a.shape[0]`";
                    return self.reject(Code::TypeMismatch, axis.span, "the axis of `shape` is no integer", help);
                }
                let mut held = Temporaries::default();
                let axis = self.hold(saturated(axis), &mut held);
                held.around(extent_along(dims, &axis, span))
            }
        }
    }

    /// Returns what `x[…]` means: an array element, or a component of a composite.
    pub(super) fn indexed(&mut self, subscript: &'a ast::ExprSubscript, span: Span) -> Option<SubscriptMeaning> {
        self.indexed_as(subscript, false, span)
    }

    /// Returns what `x[…]` means as a target: also an element or a component of a part of a variable or of an array's
    /// element.
    pub(super) fn indexed_target(&mut self, subscript: &'a ast::ExprSubscript, span: Span) -> Option<SubscriptMeaning> {
        self.indexed_as(subscript, true, span)
    }

    fn indexed_as(
        &mut self,
        subscript: &'a ast::ExprSubscript,
        is_target: bool,
        span: Span,
    ) -> Option<SubscriptMeaning> {
        let mut base = &*subscript.value;
        if let (array, _) = super::structure::subscripted(subscript)
            && let Some(ValueType::StructArray { .. }) = self.place_type(array)
        {
            return self.element_place(subscript, span).map(SubscriptMeaning::Struct);
        }
        let mut subscripts: SmallVec<[&'a ast::Expr; 2]> = smallvec![&*subscript.slice];
        let has_slice = |slice: &ast::Expr| elements(slice).iter().any(|index| matches!(index, ast::Expr::Slice(_)));
        while let ast::Expr::Subscript(inner) = base
            && !has_slice(&inner.slice)
            && self.tuple_named(&inner.value).is_none()
        {
            subscripts.push(&inner.slice);
            base = &inner.value;
        }
        let array = if is_target { self.target_base(base) } else { TargetBase::Value(self.value(base)) };
        let ty = match &array {
            TargetBase::Run(run) => Some(run.part.into()),
            TargetBase::Value(array) => array.ty.as_value(),
        };
        let mut indices: SmallVec<[SubscriptIndex<'a>; 2]> = SmallVec::new();
        for index in subscripts.iter().rev().flat_map(|slice| elements(slice)) {
            indices.push(match index {
                ast::Expr::Slice(slice)
                    if ty.is_none_or(|ty| ty.composite_within().is_some() || ty.as_any_array().is_some()) =>
                {
                    SubscriptIndex::Slice(slice)
                }
                index => SubscriptIndex::At(self.index(index)),
            });
        }
        let ty = ty?;
        let array = match array {
            TargetBase::Run(run) => return self.indexed_run(run, indices, span),
            TargetBase::Value(array) => array,
        };
        if let Some(composite) = ty.as_composite() {
            return match array.kind {
                ExprKind::Load(element) => self.element_part(*element, ty, composite, indices, span),
                _ => self.indexed_composite(array, composite, indices, span),
            };
        }
        let Some((elem, ndim)) = ty.as_any_array() else {
            let message = format!("{} cannot be indexed", ty.python_name());
            self.reject(Code::TypeMismatch, span, message, "only arrays, vectors and matrices can be indexed");
            return None;
        };
        // `a[i][0]`: what is behind the array's own dimensions are the element's.
        let inner: SmallVec<[SubscriptIndex<'a>; 2]> = match elem.as_composite() {
            Some(_) if indices.len() > usize::from(ndim) => indices.drain(usize::from(ndim)..).collect(),
            _ => SmallVec::new(),
        };
        let mut outer: SmallVec<[TypedExpr; 2]> = SmallVec::new();
        let extents = self.extents_of(&array, span);
        for (axis, index) in indices.into_iter().enumerate() {
            outer.push(match (index, extents.get(axis)) {
                (SubscriptIndex::At(index), _) => index,
                (SubscriptIndex::Slice(slice), Some(extent)) => self.array_slice(slice, extent.clone())?,
                // There are too many indices, which is what is reported.
                (SubscriptIndex::Slice(slice), None) => TypedExpr::constant(0, Scalar::I32, self.span(slice)),
            });
        }
        if let (Some(slice), false) = (outer.iter().find(|index| is_slice(index)), inner.is_empty()) {
            let help = "give the slice a name, and index that";
            self.reject(
                Code::Unsupported,
                slice.span,
                "a slice of components of several elements is not supported",
                help,
            );
            return None;
        }
        let mut indices = outer;
        let (mut array, mut ndim) = (array, ndim);
        if let ExprKind::View { array: local, indices: first } = array.kind {
            let all = self.composed(first, indices.into_vec());
            if self.fixed.contains_key(&local) {
                return self.indexed_own(local, all, inner, span);
            }
            let whole = self.local_type(local);
            ndim = whole.as_any_array()?.1;
            array = TypedExpr::new(ExprKind::Local(local), ExprType::Value(whole), array.span);
            indices = all.into_iter().take(ndim.into()).collect();
        }
        if let ExprKind::Local(local) = array.kind
            && ((1..usize::from(ndim)).contains(&indices.len())
                || indices.len() <= usize::from(ndim) && indices.iter().any(is_slice))
        {
            return match indices.iter().any(TypedExpr::is_error) {
                true => None,
                false => self.view(local, indices.into_vec(), span).map(SubscriptMeaning::View),
            };
        }
        if !self.fits_rank(base, ndim, indices.len(), span) {
            return None;
        }
        if indices.iter().any(TypedExpr::is_error) {
            return None;
        }
        let element = ElementPlace { array: Box::new(array), indices, span };
        let Some(composite) = elem.as_composite().filter(|_| !inner.is_empty()) else {
            return Some(SubscriptMeaning::Element(element, elem));
        };
        self.element_part(element, elem, composite, inner, span)
    }

    /// Returns what indices behind those of an array element mean, whose type `elem` is this composite.
    fn element_part(
        &mut self,
        mut element: ElementPlace,
        elem: Type,
        composite: Composite,
        inner: SmallVec<[SubscriptIndex<'a>; 2]>,
        span: Span,
    ) -> Option<SubscriptMeaning> {
        let shape = composite.shape();
        if inner.len() != shape.len() || inner.iter().any(|index| matches!(index, SubscriptIndex::Slice(_))) {
            let base = TypedExpr::new(ExprKind::Load(Box::new(element)), ExprType::Value(elem), span);
            return self.indexed_composite(base, composite, inner, span);
        }
        for (index, &extent) in inner.into_iter().zip(&shape) {
            let SubscriptIndex::At(index) = index else { continue };
            let index = match constant_index(&index) {
                Some(known) if !self.names_component(composite, known, extent, span) => return None,
                Some(known) => TypedExpr::constant(known.rem_euclid(extent.into()) as u64, Scalar::I32, span),
                None => index,
            };
            element.indices.push(index);
        }
        Some(SubscriptMeaning::Element(element, composite.elem().into()))
    }

    /// The indices of `x[…]`; those of `x[i][j]` are those of `x[i, j]`.
    pub(super) fn indices(&mut self, subscript: &'a ast::ExprSubscript) -> SmallVec<[TypedExpr; 2]> {
        let mut base = &*subscript.value;
        let mut slices: SmallVec<[&'a ast::Expr; 2]> = smallvec![&*subscript.slice];
        while let ast::Expr::Subscript(inner) = base {
            slices.push(&inner.slice);
            base = &inner.value;
        }
        slices.iter().rev().flat_map(|slice| elements(slice)).map(|index| self.index(index)).collect()
    }

    /// Returns true if an array of this many dimensions is given as many indices; reports if it is not.
    pub(super) fn fits_rank(&mut self, array: &'a ast::Expr, ndim: u8, n_indices: usize, span: Span) -> bool {
        let fits = n_indices == usize::from(ndim);
        if !fits {
            let name = self.unit.text(ruff_text_size::Ranged::range(array));
            let message = format!(
                "`{name}` has {}, but {} given",
                count(ndim.into(), "dimension", "dimensions"),
                count(n_indices, "index is", "indices are"),
            );
            let names = &["i", "j", "k", "l"][..usize::from(ndim).min(4)];
            let help = format!("write one index for each dimension: `{name}[{}]`", names.join(", "));
            self.reject(Code::BadRank, span, message, help);
        }
        fits
    }

    /// Returns what `x[…]` means of a composite.
    fn indexed_composite(
        &mut self,
        base: TypedExpr,
        composite: Composite,
        indices: SmallVec<[SubscriptIndex<'a>; 2]>,
        span: Span,
    ) -> Option<SubscriptMeaning> {
        let shape = composite.shape();
        let is_slice = |index: &SubscriptIndex<'_>| matches!(index, SubscriptIndex::Slice(_));
        if indices.iter().any(is_slice) && indices.len() <= shape.len() {
            return self.sliced(base, composite, indices, span).map(SubscriptMeaning::Parts);
        }
        let mut at: SmallVec<[TypedExpr; 2]> = SmallVec::new();
        for index in indices {
            match index {
                SubscriptIndex::At(index) => at.push(index),
                SubscriptIndex::Slice(slice) => {
                    // Any index will do in place of the slice, since there are too many indices, which is what is
                    // reported.
                    let span = self.span(slice);
                    at.push(TypedExpr::constant(0, Scalar::I32, span));
                }
            }
        }
        if matches!(composite, Composite::Matrix { .. }) && at.len() == 1 {
            let index = at.swap_remove(0);
            return (!index.is_error()).then_some(SubscriptMeaning::Row(base, composite, index));
        }
        let index = self.component_at(composite, at, span)?;
        Some(SubscriptMeaning::Component(base, composite, index))
    }

    /// `v[1:3]`, `m[0:2, 1]`, `m[i, ::2]`.
    pub(super) fn sliced(
        &mut self,
        base: TypedExpr,
        composite: Composite,
        indices: SmallVec<[SubscriptIndex<'a>; 2]>,
        span: Span,
    ) -> Option<ComponentSlice> {
        let shape = composite.shape();
        let mut held = Temporaries::default();
        let mut axes: SmallVec<[Vec<TypedExpr>; 2]> = SmallVec::new();
        let mut extents: SmallVec<[i128; 2]> = SmallVec::new();
        for (axis, &extent) in shape.iter().enumerate() {
            let places = match indices.get(axis) {
                Some(SubscriptIndex::At(index)) => {
                    if index.is_error() {
                        return None;
                    }
                    axes.push(vec![self.hold(index.clone(), &mut held)]);
                    continue;
                }
                Some(SubscriptIndex::Slice(slice)) => self.slice(slice, extent)?,
                None => (0..extent).collect(),
            };
            extents.push(places.len() as i128);
            axes.push(places.iter().map(|&place| TypedExpr::constant(place.into(), Scalar::I32, span)).collect());
        }
        let kind = if extents.len() == 2 { CompositeKind::Matrix } else { CompositeKind::Vector };
        let part = match Composite::new(kind, composite.elem(), &extents) {
            Ok(part) => part,
            Err(message) => {
                self.reject(Code::Unsupported, span, message, "write a slice of one component or more");
                return None;
            }
        };
        let mut places = Vec::with_capacity(part.n_components());
        let (first, second) = (&axes[0], axes.get(1));
        for row in first {
            match second {
                None => places.push(self.component_at(composite, smallvec![row.clone()], span)?),
                Some(columns) => {
                    for column in columns {
                        let index = smallvec![row.clone(), column.clone()];
                        places.push(self.component_at(composite, index, span)?);
                    }
                }
            }
        }
        Some(ComponentSlice { base, composite, places, part, held })
    }

    /// The places that a slice of constants chooses of an axis of this extent, as Python counts them.
    fn slice(&mut self, slice: &'a ast::ExprSlice, extent: u16) -> Option<Vec<u16>> {
        let n = i128::from(extent);
        let mut bounds = [None; 3];
        for (bound, expr) in bounds.iter_mut().zip([&slice.lower, &slice.upper, &slice.step]) {
            let Some(expr) = expr else { continue };
            let index = self.index(expr);
            if index.is_error() {
                return None;
            }
            *bound = constant_index(&index);
            if bound.is_none() {
                let help = "write numbers, or index single components";
                self.reject(Code::Unsupported, index.span, "a slice has constant bounds in a kernel", help);
                return None;
            }
        }
        let [lower, upper, step] = bounds;
        let step = step.unwrap_or(1);
        if step == 0 {
            let span = self.span(slice);
            self.reject(Code::ConstantRange, span, "Slice step cannot be zero", "write another step");
            return None;
        }
        // A backward slice ends before the first component.
        let (least, most) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let clamp = |bound: i128| (if bound < 0 { bound + n } else { bound }).clamp(least, most);
        let start = lower.map_or(if step > 0 { least } else { most }, clamp);
        let stop = upper.map_or(if step > 0 { most } else { least }, clamp);
        let inside = |place: &i128| if step > 0 { *place < stop } else { *place > stop };
        let places = std::iter::successors(Some(start), |place| Some(place + step)).take_while(inside);
        Some(places.filter_map(|place| u16::try_from(place).ok()).collect())
    }

    /// An index: any integer.
    pub(super) fn index(&mut self, index: &'a ast::Expr) -> TypedExpr {
        let checked = self.expr(index);
        if let Some(PythonNumber::Int(value)) = checked.number() {
            let scalar = if PythonNumber::Int(value).fit(Scalar::I32).is_some() { Scalar::I32 } else { Scalar::I64 };
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
pub(super) fn dim(array: &TypedExpr, axis: u8, span: Span) -> TypedExpr {
    TypedExpr::new(ExprKind::Dim(Box::new(array.clone()), axis), ExprType::scalar(Scalar::I32), span)
}
