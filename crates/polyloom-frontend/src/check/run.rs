//! Components that follow each other in a variable or an array's element and are one value together: `p` and `q` of a
//! transform, and an element of an array of the kernel's own, with the rows and parts of that.
//!
//! Such a run is assigned as a whole, and its own components are components of what it is in: `t.p[1] = x` changes the
//! second component of `t`.

use super::component_expr::{axis_extent, constant_index, inner_indices};
use super::component_parts::{ComponentRange, ComponentSlice};
use super::function::{FunctionChecker, NameMeaning};
use super::subscript_meaning::{SubscriptIndex, SubscriptMeaning, TargetBase};
use super::temporaries::Temporaries;
use super::view::int_op;
use crate::structure::ValueType;
use crate::typed_ast::{AssignTarget, ComponentIndex, ComponentOrdinal, ExprKind, ExprType, TypedExpr};
use polyloom_ir::{Code, Composite, Op, Scalar, Span};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Returns what is before the dot or the brackets of a target.
    pub(super) fn target_base(&mut self, expr: &'a ast::Expr) -> TargetBase {
        let span = self.span(expr);
        match expr {
            ast::Expr::Attribute(attribute) if self.may_be_part(attribute) => {
                let name = attribute.attr.as_str();
                let run = match self.target_base(&attribute.value) {
                    TargetBase::Run(run) => run,
                    TargetBase::Value(base) => {
                        let Some(ty) = base.ty.as_value() else { return TargetBase::Value(TypedExpr::error(span)) };
                        let Some(whole) = ty.as_composite() else {
                            let message = format!("{} has no member `{name}`", ty.python_name());
                            let help = "only transforms have parts of this name";
                            return TargetBase::Value(self.reject(Code::UnknownName, span, message, help));
                        };
                        ComponentRange { base, whole, first: ComponentOrdinal::Is(0), part: whole }
                    }
                };
                match self.run_member(run, name, span) {
                    Some(SubscriptMeaning::Run(run)) => TargetBase::Run(run),
                    _ => TargetBase::Value(TypedExpr::error(span)),
                }
            }
            ast::Expr::Subscript(subscript) if self.is_own(&subscript.value) => match self.indexed(subscript, span) {
                Some(SubscriptMeaning::Run(run)) => TargetBase::Run(run),
                indexed => TargetBase::Value(self.indexed_value(indexed, span)),
            },
            ast::Expr::Subscript(subscript) => {
                if let Some(value) = self.tuple_subscript(subscript, span) {
                    return TargetBase::Value(self.settle(value));
                }
                match self.indexed_target(subscript, span) {
                    Some(SubscriptMeaning::Row(matrix, composite, index)) => {
                        self.row_base(matrix, composite, index, span)
                    }
                    Some(SubscriptMeaning::Run(run)) => TargetBase::Run(run),
                    indexed => {
                        let value = self.indexed_value(indexed, span);
                        TargetBase::Value(self.settle(value))
                    }
                }
            }
            _ => TargetBase::Value(self.value(expr)),
        }
    }

    /// A row of a matrix that a component or a part is assigned of.
    fn row_base(&mut self, matrix: TypedExpr, composite: Composite, index: TypedExpr, span: Span) -> TargetBase {
        let row = Composite::Vector { elem: composite.elem(), len: composite.shape()[1] };
        match matrix.kind {
            ExprKind::Local(_) => {
                let run =
                    ComponentRange { base: matrix, whole: composite, first: ComponentOrdinal::Is(0), part: composite };
                match self.indexed_run(run, smallvec![SubscriptIndex::At(index)], span) {
                    Some(SubscriptMeaning::Run(run)) => TargetBase::Run(run),
                    _ => TargetBase::Value(TypedExpr::error(span)),
                }
            }
            ExprKind::Load(mut element) => {
                let zero = TypedExpr::constant(0, Scalar::I32, span);
                let Some(place) = self.component_at(composite, smallvec![index, zero], span) else {
                    return TargetBase::Value(TypedExpr::error(span));
                };
                element.indices.extend(inner_indices(composite, place, span).into_iter().take(1));
                TargetBase::Value(TypedExpr::new(ExprKind::Load(element), ExprType::Value(row.into()), span))
            }
            _ => TargetBase::Value(self.row(matrix, composite, index, span)),
        }
    }

    /// Returns true if `x.p` or `x.q` is a part of a variable rather than a field of a struct or a constant.
    fn may_be_part(&self, attribute: &ast::ExprAttribute) -> bool {
        let mut root = &*attribute.value;
        while let ast::Expr::Attribute(ast::ExprAttribute { value, .. })
        | ast::Expr::Subscript(ast::ExprSubscript { value, .. }) = root
        {
            root = value;
        }
        matches!(attribute.attr.as_str(), "p" | "q")
            && matches!(root, ast::Expr::Name(name) if self.is_variable(name.id.as_str()))
            && !matches!(self.place_type(&attribute.value), Some(ValueType::Struct(_)))
    }

    /// Returns true if an expression is an array of the kernel's own with none, some or all indices.
    fn is_own(&self, expr: &ast::Expr) -> bool {
        let mut root = expr;
        while let ast::Expr::Subscript(subscript) = root {
            root = &subscript.value;
        }
        let ast::Expr::Name(name) = root else { return false };
        match self.names.get(name.id.as_str()) {
            Some(NameMeaning::Local(local)) => self.fixed.contains_key(local),
            Some(NameMeaning::View(view)) => {
                matches!(&self.views[*view].kind, ExprKind::View { array, .. } if self.fixed.contains_key(array))
            }
            _ => false,
        }
    }

    /// Returns what indices mean of a run.
    pub(super) fn indexed_run(
        &mut self,
        run: ComponentRange,
        indices: SmallVec<[SubscriptIndex<'a>; 2]>,
        span: Span,
    ) -> Option<SubscriptMeaning> {
        let shape = run.part.shape();
        let name = self.name_of(&run.base);
        let is_slice = |index: &SubscriptIndex<'_>| matches!(index, SubscriptIndex::Slice(_));
        if indices.iter().any(is_slice) && indices.len() <= shape.len() {
            let mut parts = self.sliced(run.base.clone(), run.part, indices, span)?;
            let run = self.first_held(run, &mut parts.held);
            parts.places = parts.places.into_iter().map(|place| self.place_of(&run, place, span)).collect();
            return Some(SubscriptMeaning::Parts(ComponentSlice { base: run.base, composite: run.whole, ..parts }));
        }
        let mut at: SmallVec<[TypedExpr; 2]> = SmallVec::new();
        for index in indices {
            at.push(match index {
                SubscriptIndex::At(index) => index,
                // There are too many of them: that is what is reported.
                SubscriptIndex::Slice(slice) => TypedExpr::constant(0, Scalar::I32, self.span(slice)),
            });
        }
        if at.iter().any(TypedExpr::is_error) {
            return None;
        }
        if let (Composite::Matrix { .. }, [index], [n_rows, n_cols]) = (run.part, &at[..], &shape[..]) {
            let first = match constant_index(index) {
                Some(known) if !self.names_component(run.part, known, *n_rows, span) => return None,
                Some(known) => ComponentOrdinal::Is(known.rem_euclid((*n_rows).into()) as u16 * n_cols),
                None => {
                    let index = self.wrapped(index.clone(), &axis_extent(name, 0, *n_rows));
                    let n_cols = TypedExpr::constant((*n_cols).into(), Scalar::I32, span);
                    ComponentOrdinal::Computed(int_op(Op::Mul, index, n_cols, span))
                }
            };
            let row = Composite::Vector { elem: run.part.elem(), len: *n_cols };
            return Some(SubscriptMeaning::Run(self.run_within(run, first, row, span)));
        }
        let place = self.component_at(run.part, at, span)?;
        let place = self.place_of(&run, place, span);
        Some(SubscriptMeaning::Component(run.base, run.whole, place))
    }

    /// `x.name` of a run.
    pub(super) fn run_member(&mut self, run: ComponentRange, name: &str, span: Span) -> Option<SubscriptMeaning> {
        let (first, part) = self.members_named(run.part, name, span)?;
        let first = ComponentOrdinal::Is(first);
        Some(match part {
            Some(part) => SubscriptMeaning::Run(self.run_within(run, first, part, span)),
            None => {
                let place = from(&run, first, span);
                SubscriptMeaning::Component(run.base, run.whole, place.into())
            }
        })
    }

    /// `x.name` of a run as the target of an assignment.
    pub(super) fn run_member_target(
        &mut self,
        run: ComponentRange,
        name: &str,
        value: TypedExpr,
        span: Span,
    ) -> Option<(AssignTarget, TypedExpr)> {
        match self.run_member(run, name, span)? {
            SubscriptMeaning::Component(base, composite, index) => {
                self.component_target(&base, composite, index, value, span)
            }
            SubscriptMeaning::Run(run) => {
                let value = self.expect_value(value, run.part.into(), Code::TypeMismatch, "the part");
                self.run_target(run, value, span)
            }
            _ => None,
        }
    }

    /// A run as the target of an assignment.
    pub(super) fn run_target(
        &mut self,
        run: ComponentRange,
        value: TypedExpr,
        span: Span,
    ) -> Option<(AssignTarget, TypedExpr)> {
        let value = self.expect_value(value, run.part.into(), Code::TypeMismatch, "what is assigned to");
        if value.is_error() {
            return None;
        }
        let parts = self.run_parts(run, span);
        self.parts_target(parts, value, span)
    }

    /// The components of a run.
    pub(super) fn run_parts(&mut self, run: ComponentRange, span: Span) -> ComponentSlice {
        let mut held = Temporaries::default();
        let run = self.first_held(run, &mut held);
        let places =
            (0..run.part.n_components() as u16).map(|place| from(&run, ComponentOrdinal::Is(place), span).into());
        ComponentSlice { places: places.collect(), base: run.base, composite: run.whole, part: run.part, held }
    }

    /// The part of a run that begins at this component of it.
    fn run_within(
        &mut self,
        run: ComponentRange,
        first: ComponentOrdinal,
        part: Composite,
        span: Span,
    ) -> ComponentRange {
        ComponentRange { first: from(&run, first, span), part, ..run }
    }

    /// A component of a run as one of what it is in.
    fn place_of(&mut self, run: &ComponentRange, place: ComponentIndex, span: Span) -> ComponentIndex {
        let name = self.name_of(&run.base);
        let place = self.ordinal(run.part, &name, place, span);
        from(run, place, span).into()
    }

    /// The run with a first component that may be written any number of times.
    fn first_held(&mut self, run: ComponentRange, held: &mut Temporaries) -> ComponentRange {
        let first = match run.first {
            ComponentOrdinal::Computed(first) => ComponentOrdinal::Computed(self.hold(first, held)),
            first => first,
        };
        ComponentRange { first, ..run }
    }
}

/// A component that is counted from the first of a run.
fn from(run: &ComponentRange, place: ComponentOrdinal, span: Span) -> ComponentOrdinal {
    let number = |place: ComponentOrdinal| match place {
        ComponentOrdinal::Is(place) => TypedExpr::constant(place.into(), Scalar::I32, span),
        ComponentOrdinal::Computed(index) => index,
    };
    match (run.first.clone(), place) {
        (ComponentOrdinal::Is(first), ComponentOrdinal::Is(place)) => ComponentOrdinal::Is(first + place),
        (ComponentOrdinal::Is(0), place) | (place, ComponentOrdinal::Is(0)) => place,
        (first, place) => ComponentOrdinal::Computed(int_op(Op::Add, number(first), number(place), span)),
    }
}
