//! The components of vectors, matrices, quaternions and transforms.

use super::component_expr::{axis_extent, component, constant_index, construct, inner_indices};
use super::component_parts::ComponentSlice;
use super::function::FunctionChecker;
use super::temporaries::Temporaries;
use crate::number::PythonNumber;
use crate::typed_ast::{
    AssignTarget, ComponentIndex, ComponentOrdinal, ElementPlace, ElementPlaces, ExprKind, ExprType, LocalId, TypedExpr,
};
use polyloom_ir::{AxisExtent, Code, Composite, Op, Scalar, Span, Type};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// The names of a vector's first components, and of a quaternion's.
const NAMES: [&str; 4] = ["x", "y", "z", "w"];

impl FunctionChecker<'_, '_, '_> {
    /// The value as an expression that may be written any number of times, so that what is not a variable or a constant
    /// is held in a variable.
    pub(super) fn hold(&mut self, value: TypedExpr, held: &mut Temporaries) -> TypedExpr {
        let Some(ty) = value.ty.as_value() else { return value };
        if matches!(value.kind, ExprKind::Local(_) | ExprKind::Const(_)) {
            return value;
        }
        let local = self.new_local("", ty, value.span);
        let variable = TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), value.span);
        held.push(smallvec![local], value);
        variable
    }

    /// A row of a matrix, by its index.
    pub(super) fn row(&mut self, matrix: TypedExpr, composite: Composite, index: TypedExpr, span: Span) -> TypedExpr {
        let (elem, n_cols) = (composite.elem(), composite.shape()[1]);
        let mut held = Temporaries::default();
        let matrix = self.hold(matrix, &mut held);
        let index = self.hold(index, &mut held);
        let components = (0..n_cols).map(|col| {
            let indices = smallvec![index.clone(), TypedExpr::constant(col.into(), Scalar::I32, span)];
            match self.component_at(composite, indices, span) {
                Some(place) => component(matrix.clone(), composite, place, span),
                None => TypedExpr::error(span),
            }
        });
        let components: Vec<TypedExpr> = components.collect();
        if components.iter().any(TypedExpr::is_error) {
            return TypedExpr::error(span);
        }
        held.around(construct(Composite::Vector { elem, len: n_cols }, components, span))
    }

    /// Returns what `*value` stands for among arguments: the components, of a matrix the rows. The first computes the
    /// value that all are taken of, so that they must be evaluated in this order.
    pub(super) fn spread(&mut self, value: TypedExpr, span: Span) -> Vec<TypedExpr> {
        let Some(ty) = value.ty.as_value() else { return vec![TypedExpr::error(span)] };
        let Some(composite) = ty.as_composite() else {
            let message = format!(
                "Starred expressions are only supported for vectors, matrices and slices of arrays, not {}",
                ty.python_name()
            );
            let help = match ty.as_any_array() {
                Some((_, 1)) => "write a slice with an end: `*a[:3]`",
                _ => "write each argument on its own",
            };
            return vec![self.reject(Code::TypeMismatch, span, message, help)];
        };
        let mut held = Temporaries::default();
        let value = self.hold(value, &mut held);
        let n = composite.shape()[0];
        let mut values: Vec<TypedExpr> = match composite {
            Composite::Matrix { .. } => (0..n)
                .map(|row| self.row(value.clone(), composite, TypedExpr::constant(row.into(), Scalar::I32, span), span))
                .collect(),
            _ => (0..n).map(|place| component(value.clone(), composite, ComponentIndex::Is(place), span)).collect(),
        };
        if !values.is_empty() {
            let first = values.remove(0);
            values.insert(0, held.around(first));
        }
        values
    }

    /// Several components as a value.
    pub(super) fn parts(&mut self, parts: ComponentSlice, span: Span) -> TypedExpr {
        let ComponentSlice { base, composite, places, part, mut held } = parts;
        let base = self.hold(base, &mut held);
        let components = places.into_iter().map(|place| component(base.clone(), composite, place, span));
        let components = components.collect();
        held.around(construct(part, components, span))
    }

    /// The composite that a local variable holds, with other values for some components: those of `value`, or `value`
    /// for each if it is a scalar.
    fn with_parts(&mut self, parts: ComponentSlice, value: TypedExpr, span: Span) -> Option<TypedExpr> {
        let (value, part) = self.slice_value(&parts, value)?;
        let ComponentSlice { base, composite, places, mut held, .. } = parts;
        let (elem, name) = (composite.elem(), self.name_of(&base));
        let value = self.hold(value, &mut held);
        let mut components: Vec<TypedExpr> = (0..composite.n_components() as u16)
            .map(|place| component(base.clone(), composite, ComponentIndex::Is(place), span))
            .collect();
        for (k, place) in places.into_iter().enumerate() {
            let new = match part {
                None => value.clone(),
                Some(part) => component(value.clone(), part, ComponentIndex::Is(k as u16), span),
            };
            match self.ordinal(composite, &name, place, span) {
                ComponentOrdinal::Is(place) => components[usize::from(place)] = new,
                ComponentOrdinal::Computed(index) => {
                    let index = self.hold(index, &mut held);
                    for (place, old) in components.iter_mut().enumerate() {
                        let here = TypedExpr::constant(place as u64, Scalar::I32, span);
                        let is_here = op(Op::Eq, [index.clone(), here], Type::BOOL, span);
                        *old = op(Op::Select, [is_here, new.clone(), old.clone()], elem.into(), span);
                    }
                }
            }
        }
        Some(held.around(construct(composite, components, span)))
    }

    /// The matrix that a local variable holds, with another row.
    fn with_row(
        &mut self,
        matrix: &TypedExpr,
        composite: Composite,
        index: TypedExpr,
        row: TypedExpr,
        span: Span,
    ) -> Option<TypedExpr> {
        let (elem, shape) = (composite.elem(), composite.shape());
        let part = Composite::Vector { elem, len: shape[1] };
        let row = self.expect_value(row, part.into(), Code::TypeMismatch, "the row");
        let zero = TypedExpr::constant(0, Scalar::I32, span);
        // It also says whether there is such a row.
        self.component_at(composite, smallvec![index.clone(), zero], span)?;
        if row.is_error() {
            return None;
        }
        let mut held = Temporaries::default();
        let row = self.hold(row, &mut held);
        let index = self.wrapped(index, &axis_extent(self.name_of(matrix), 0, shape[0]));
        let index = self.hold(index, &mut held);
        let mut components = Vec::with_capacity(composite.n_components());
        for place in 0..composite.n_components() as u16 {
            let here = TypedExpr::constant((place / shape[1]).into(), Scalar::I32, span);
            let is_here = op(Op::Eq, [index.clone(), here], Type::BOOL, span);
            let new = component(row.clone(), part, ComponentIndex::Is(place % shape[1]), span);
            let old = component(matrix.clone(), composite, ComponentIndex::Is(place), span);
            components.push(op(Op::Select, [is_here, new, old], elem.into(), span));
        }
        Some(held.around(construct(composite, components, span)))
    }

    /// `x[index]` of a matrix as the target of an assignment.
    pub(super) fn row_target(
        &mut self,
        base: &TypedExpr,
        composite: Composite,
        index: TypedExpr,
        value: TypedExpr,
        span: Span,
    ) -> Option<(AssignTarget, TypedExpr)> {
        let ExprKind::Load(element) = &base.kind else {
            let local = self.changed_local(base, span)?;
            let matrix = self.with_row(base, composite, index, value, span)?;
            self.mark_assigned(local);
            return Some((AssignTarget::Local(local), matrix));
        };
        let [n_rows, n_cols] = composite.shape()[..] else { return None };
        let part = Composite::Vector { elem: composite.elem(), len: n_cols };
        let value = self.expect_value(value, part.into(), Code::TypeMismatch, "the row");
        let index = match constant_index(&index) {
            Some(known) if !self.names_component(composite, known, n_rows, span) => return None,
            Some(known) => TypedExpr::constant(known.rem_euclid(n_rows.into()) as u64, Scalar::I32, span),
            None => index,
        };
        let mut element = (**element).clone();
        element.indices.push(index);
        (!value.is_error())
            .then(|| self.components_target(element, part, (0..n_cols).map(ComponentIndex::Is), Some(part), value))
    }

    /// `x[a:b]` of a composite as the target of an assignment.
    pub(super) fn parts_target(
        &mut self,
        parts: ComponentSlice,
        value: TypedExpr,
        span: Span,
    ) -> Option<(AssignTarget, TypedExpr)> {
        let ExprKind::Load(element) = &parts.base.kind else {
            let local = self.changed_local(&parts.base, span)?;
            let whole = self.with_parts(parts, value, span)?;
            self.mark_assigned(local);
            return Some((AssignTarget::Local(local), whole));
        };
        let (value, part) = self.slice_value(&parts, value)?;
        let (target, value) = self.components_target((**element).clone(), parts.composite, parts.places, part, value);
        Some((target, parts.held.around(value)))
    }

    /// The value of a slice, and what it is if it is not a scalar for every component.
    fn slice_value(&mut self, parts: &ComponentSlice, value: TypedExpr) -> Option<(TypedExpr, Option<Composite>)> {
        let is_scalar = value.is_waiting() || matches!(value.ty.as_value(), Some(Type::Scalar(_)));
        let wanted = if is_scalar { parts.composite.elem().into() } else { parts.part.into() };
        if let Some(message) = slice_mismatch(&value, parts.part) {
            self.reject(Code::TypeMismatch, value.span, message, "both must have one shape and one element type");
            return None;
        }
        let value = self.expect_value(value, wanted, Code::TypeMismatch, "the slice");
        (!value.is_error()).then_some((value, (!is_scalar).then_some(parts.part)))
    }

    /// Components of an array's element as the target of an assignment: those of `part`, or `value` for each.
    fn components_target(
        &mut self,
        element: ElementPlace,
        composite: Composite,
        places: impl IntoIterator<Item = ComponentIndex>,
        part: Option<Composite>,
        value: TypedExpr,
    ) -> (AssignTarget, TypedExpr) {
        let ElementPlace { array, indices, span } = element;
        let mut held = Temporaries::default();
        let value = self.hold(value, &mut held);
        let (mut each, mut components) = (Vec::new(), Vec::new());
        for (k, place) in places.into_iter().enumerate() {
            each.push(((*array).clone(), inner_indices(composite, place, span)));
            components.push(match part {
                Some(part) => component(value.clone(), part, ComponentIndex::Is(k as u16), span),
                None => value.clone(),
            });
        }
        let types = components.iter().filter_map(|component| component.ty.full()).collect();
        let values = TypedExpr::new(ExprKind::Tuple(components), ExprType::Values(types), span);
        (AssignTarget::Places(Box::new(ElementPlaces { each, indices, span })), held.around(values))
    }

    /// `x.name`: a component of vectors of up to four components and of quaternions, `p` and `q` of transforms.
    pub(super) fn member(&mut self, base: TypedExpr, composite: Composite, name: &str, span: Span) -> TypedExpr {
        if name == "length" && matches!(composite, Composite::Vector { .. }) {
            return super::scope::number(PythonNumber::Int(composite.n_components() as i128), span);
        }
        match self.members_named(composite, name, span) {
            Some((first, None)) => component(base, composite, ComponentIndex::Is(first), span),
            Some((first, Some(part))) => {
                let mut held = Temporaries::default();
                let base = self.hold(base, &mut held);
                let places = first..first + part.n_components() as u16;
                let components =
                    places.map(|place| component(base.clone(), composite, ComponentIndex::Is(place), span));
                let components = components.collect();
                held.around(construct(part, components, span))
            }
            None => TypedExpr::error(span),
        }
    }

    /// The first component a name means, and what the components are together if it means several.
    pub(super) fn members_named(
        &mut self,
        composite: Composite,
        name: &str,
        span: Span,
    ) -> Option<(u16, Option<Composite>)> {
        let n_names = match composite {
            Composite::Vector { len, .. } if len <= 4 => usize::from(len),
            Composite::Quaternion { .. } => 4,
            Composite::Transform { elem } if name == "p" => {
                return Some((0, Some(Composite::Vector { elem, len: 3 })));
            }
            Composite::Transform { elem } if name == "q" => return Some((3, Some(Composite::Quaternion { elem }))),
            _ => 0,
        };
        let found = NAMES[..n_names].iter().position(|known| *known == name);
        if found.is_none() {
            let help = match (n_names, composite) {
                (_, Composite::Transform { .. }) => "its parts are p, the translation, and q, the rotation".to_owned(),
                (0, _) => "write an index: `x[0]`".to_owned(),
                _ => format!("its components are {}", NAMES[..n_names].join(", ")),
            };
            let message = format!("{} has no member `{name}`", composite.python_name());
            self.reject(Code::UnknownName, span, message, help);
        }
        found.map(|index| (index as u16, None))
    }

    /// `x.name` as the target of an assignment.
    pub(super) fn member_target(
        &mut self,
        base: &TypedExpr,
        composite: Composite,
        name: &str,
        value: TypedExpr,
        span: Span,
    ) -> Option<(AssignTarget, TypedExpr)> {
        let (first, part) = self.members_named(composite, name, span)?;
        let Some(part) = part else {
            return self.component_target(base, composite, ComponentIndex::Is(first), value, span);
        };
        let value = self.expect_value(value, part.into(), Code::TypeMismatch, "the part");
        if let ExprKind::Load(element) = &base.kind {
            let element = (**element).clone();
            let places = (first..first + part.n_components() as u16).map(ComponentIndex::Is);
            return (!value.is_error()).then(|| self.components_target(element, composite, places, Some(part), value));
        }
        let local = self.changed_local(base, span)?;
        if value.is_error() {
            return None;
        }
        let mut held = Temporaries::default();
        let value = self.hold(value, &mut held);
        let components = (0..composite.n_components() as u16).map(|place| {
            let in_part = place.checked_sub(first).filter(|&place| usize::from(place) < part.n_components());
            match in_part {
                Some(place) => component(value.clone(), part, ComponentIndex::Is(place), span),
                None => component(base.clone(), composite, ComponentIndex::Is(place), span),
            }
        });
        let whole = construct(composite, components.collect(), span);
        self.mark_assigned(local);
        Some((AssignTarget::Local(local), held.around(whole)))
    }

    /// The component that indices mean.
    pub(super) fn component_at(
        &mut self,
        composite: Composite,
        indices: SmallVec<[TypedExpr; 2]>,
        span: Span,
    ) -> Option<ComponentIndex> {
        let shape = composite.shape();
        if indices.iter().any(TypedExpr::is_error) {
            return None;
        }
        if indices.len() != shape.len() {
            let message =
                format!("{} is indexed by {} numbers, not {}", composite.python_name(), shape.len(), indices.len());
            let help = if shape.len() == 1 { "write `x[i]`" } else { "write `x[row, column]`" };
            self.reject(Code::BadRank, span, message, help);
            return None;
        }
        let mut known = Some(0);
        let mut at = SmallVec::new();
        for (index, &extent) in indices.into_iter().zip(&shape) {
            let constant = constant_index(&index);
            if constant.is_some_and(|index| !self.names_component(composite, index, extent, span)) {
                return None;
            }
            let constant = constant.map(|index| index.rem_euclid(extent.into()));
            known = known.zip(constant).map(|(place, index)| place * i128::from(extent) + index);
            at.push(match constant {
                Some(constant) => TypedExpr::constant(constant as u64, Scalar::I32, index.span),
                None => self.as_index(index),
            });
        }
        Some(known.map_or(ComponentIndex::At(at), |place| ComponentIndex::Is(place as u16)))
    }

    /// A component of a composite that is in a variable of this name, by its number in row-major order.
    pub(super) fn ordinal(
        &mut self,
        composite: Composite,
        name: &Arc<str>,
        index: ComponentIndex,
        span: Span,
    ) -> ComponentOrdinal {
        match index {
            ComponentIndex::Is(place) => ComponentOrdinal::Is(place),
            ComponentIndex::Flat(place) => ComponentOrdinal::Computed(place),
            ComponentIndex::At(indices) => {
                let axes = (0..).zip(composite.shape()).map(|(axis, extent)| axis_extent(name.clone(), axis, extent));
                self.flat_index(indices, axes, span).map_or(ComponentOrdinal::Is(0), ComponentOrdinal::Computed)
            }
        }
    }

    /// The row-major number of what the indices choose along these axes.
    pub(super) fn flat_index(
        &mut self,
        indices: impl IntoIterator<Item = TypedExpr>,
        axes: impl IntoIterator<Item = AxisExtent>,
        span: Span,
    ) -> Option<TypedExpr> {
        let mut place: Option<TypedExpr> = None;
        for (index, axis) in indices.into_iter().zip(axes) {
            let index = self.wrapped(index, &axis);
            place = Some(match place {
                None => index,
                Some(place) => {
                    let extent = TypedExpr::constant(axis.extent.into(), Scalar::I32, span);
                    let first = op(Op::Mul, [place, extent], Type::I32, span);
                    op(Op::Add, [first, index], Type::I32, span)
                }
            });
        }
        place
    }

    /// Returns true if a constant index is one of an axis of this extent; reports if it is not.
    pub(super) fn names_component(&mut self, composite: Composite, index: i128, extent: u16, span: Span) -> bool {
        let n = i128::from(extent);
        let found = (-n..n).contains(&index);
        if !found {
            let message = format!("{} has no component {index}", composite.python_name());
            let help = format!("an index here is from {} to {}", -n, n - 1);
            self.reject(Code::BadRank, span, message, help);
        }
        found
    }

    /// An `int32` index counted from the start of an axis, whichever end it counts from.
    pub(super) fn wrapped(&mut self, index: TypedExpr, of: &AxisExtent) -> TypedExpr {
        let span = index.span;
        if let Some(known) = constant_index(&index).filter(|_| of.extent > 0) {
            let place = known.rem_euclid(of.extent.into()) as u64;
            return TypedExpr::constant(place, Scalar::I32, span);
        }
        let index = self.as_index(index);
        TypedExpr::new(ExprKind::WrapIndex(Box::new(index), of.clone()), ExprType::scalar(Scalar::I32), span)
    }

    /// An index as it is if it is an integer, otherwise as an `int32`.
    fn as_index(&mut self, index: TypedExpr) -> TypedExpr {
        let is_int = index.ty.as_value().and_then(Type::as_scalar).is_some_and(Scalar::is_int);
        let span = index.span;
        if is_int { index } else { self.convert(index, Scalar::I32, span) }
    }

    /// The name of a variable; nothing for what has no name.
    pub(super) fn name_of(&self, expr: &TypedExpr) -> Arc<str> {
        match expr.kind {
            ExprKind::Local(local) => self.locals[local.0 as usize].name.clone(),
            _ => Arc::default(),
        }
    }

    /// A component of a variable as the target of an assignment.
    pub(super) fn component_target(
        &mut self,
        base: &TypedExpr,
        composite: Composite,
        index: ComponentIndex,
        value: TypedExpr,
        span: Span,
    ) -> Option<(AssignTarget, TypedExpr)> {
        let value = self.component_value(value, composite);
        let local = match component(base.clone(), composite, index.clone(), span).kind {
            ExprKind::Load(element) => return (!value.is_error()).then_some((AssignTarget::Element(element), value)),
            _ => self.changed_local(base, span)?,
        };
        if value.is_error() {
            return None;
        }
        self.mark_assigned(local);
        Some((AssignTarget::Component(local, Box::new(index)), value))
    }

    /// The value that a component is assigned.
    fn component_value(&mut self, value: TypedExpr, composite: Composite) -> TypedExpr {
        let elem = composite.elem();
        if let Some(Type::Composite(given)) = value.ty.as_value() {
            let (wanted, given) = (elem.python_name(), Type::Composite(given).python_name());
            let message = format!("Composite slot assignment expects value of type {wanted}, but this is {given}");
            return self.reject(
                Code::TypeMismatch,
                value.span,
                message,
                "write one of its components, or its `length`",
            );
        }
        self.expect_value(value, elem.into(), Code::TypeMismatch, "the component")
    }

    /// The variable that an expression is, for a part of it to be changed.
    fn changed_local(&mut self, base: &TypedExpr, span: Span) -> Option<LocalId> {
        if let ExprKind::Local(local) = base.kind {
            return Some(local);
        }
        if !base.is_error() {
            let help = "assign the value to a variable, change that, and store it back";
            self.reject(
                Code::BadAssignment,
                span,
                "only variables and array elements, and components, rows and parts of them, can be assigned",
                help,
            );
        }
        None
    }
}

fn op<const N: usize>(op: Op, args: [TypedExpr; N], ty: Type, span: Span) -> TypedExpr {
    TypedExpr::new(ExprKind::Op { op, args: args.into(), updates: smallvec![] }, ExprType::Value(ty), span)
}

/// Says in Warp's words why a value cannot be assigned to components that make a vector; `None` if it can, or if they
/// make something else.
fn slice_mismatch(value: &TypedExpr, part: Composite) -> Option<String> {
    let Composite::Vector { elem, len } = part else { return None };
    let name = elem.python_name();
    match value.ty.as_value()? {
        Type::Composite(Composite::Vector { len: given, .. }) if given != len => Some(format!(
            "The length of the provided vector ({given}) isn't compatible with the given slice (expected {len})."
        )),
        Type::Composite(Composite::Vector { elem: given, .. }) if given != elem => {
            Some(format!("The provided vector is expected to be of length {len} with dtype {name}."))
        }
        Type::Composite(Composite::Vector { .. }) => None,
        Type::Scalar(given) if given == elem => None,
        _ => Some(format!("The provided value is expected to be a vector of length {len}, with dtype {name}.")),
    }
}
