//! Checking augmented assignments: what a target names is evaluated once, read and written.

use super::component_expr::{component, inner_indices};
use super::component_parts::ComponentSlice;
use super::function::{FunctionChecker, NameMeaning};
use super::struct_variable::StructPlace;
use super::subscript_meaning::{SubscriptMeaning, TargetBase};
use super::temporaries::Temporaries;
use crate::environment::CapturedMeaning;
use crate::structure::ValueType;
use crate::typed_ast::{
    AssignTarget, ComponentIndex, ElementPlace, ExprKind, ExprType, StmtKind, Targets, TypedExpr, TypedStmt, UpdateOp,
};
use polyloom_ir::{Code, Composite, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::smallvec;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Rejects an assignment of a value to a name that stands for what is no value.
    pub(super) fn reject_known_target(&mut self, text: &str, index: usize, span: Span) {
        let known = &self.known[index];
        let message = match known {
            CapturedMeaning::Function(_) | CapturedMeaning::Builtin(_) => {
                format!("rebinding function-valued local `{text}` to a value, which is a non-function")
            }
            CapturedMeaning::Gradient(..) => {
                format!("Cannot reassign local '{text}', which stands for the derivative that `wp.grad` gives")
            }
            _ => format!("`{text}` stands for {} and cannot be assigned a value", known.describe()),
        };
        self.reject(Code::BadAssignment, span, message, "use a variable of another name");
    }

    /// `target op= value`.
    pub(super) fn augmented(&mut self, assign: &'a ast::StmtAugAssign, span: Span, out: &mut Vec<TypedStmt>) {
        match &*assign.target {
            ast::Expr::Name(name) => {
                if let Some(NameMeaning::Known(index)) = self.names.get(name.id.as_str())
                    && matches!(self.known[*index], CapturedMeaning::Function(_) | CapturedMeaning::Gradient(..))
                {
                    let index = *index;
                    self.expr(&assign.value);
                    return self.reject_known_target(name.id.as_str(), index, self.span(name));
                }
                let old = self.name(name);
                let value = self.expr(&assign.value);
                self.assigning = match old.kind {
                    ExprKind::Local(local) => Some(local),
                    _ => None,
                };
                let value = self.binary_op(assign.op, old, value, span);
                self.assigning = None;
                if value.ty.is_struct() {
                    return self.assign_value(&assign.target, value, span, out);
                }
                if let Some((local, value)) = self.bind_name(name, value) {
                    let kind =
                        StmtKind::Assign { targets: smallvec![AssignTarget::Local(local)], values: smallvec![value] };
                    out.push(TypedStmt { kind, span });
                }
            }
            ast::Expr::Subscript(subscript) => {
                let target_span = self.span(&*assign.target);
                if !self.awaited_results.is_empty() {
                    let value = self.expr(&assign.value);
                    if self.shows_type_of_result(&assign.target, &value) {
                        return;
                    }
                }
                let indexed = self.indexed_target(subscript, target_span);
                let value = self.expr(&assign.value);
                match indexed {
                    Some(SubscriptMeaning::Element(element, elem)) => {
                        self.update_element(element, elem, assign.op, value, span, out);
                    }
                    Some(SubscriptMeaning::Component(base, composite, index)) => {
                        self.update_component(&base, composite, index, (assign.op, value), span, out);
                    }
                    Some(SubscriptMeaning::View(view)) => {
                        self.too_few_indices(&view);
                    }
                    Some(SubscriptMeaning::Parts(parts)) => {
                        self.update_slice(parts, (assign.op, value), target_span, span, out)
                    }
                    Some(SubscriptMeaning::Run(run)) => {
                        let parts = self.run_parts(run, target_span);
                        self.update_slice(parts, (assign.op, value), target_span, span, out);
                    }
                    Some(SubscriptMeaning::Row(base, composite, index)) => {
                        let base = self.element_once(base, out);
                        let index = self.index_once(index, out);
                        let old = self.row(base.clone(), composite, index.clone(), target_span);
                        let row = self.binary_op(assign.op, old, value, span);
                        if self.update_row(&base, composite, &index, &row, span, out) {
                            return;
                        }
                        let Some((target, value)) = self.row_target(&base, composite, index, row, target_span) else {
                            return;
                        };
                        let kind = StmtKind::Assign { targets: smallvec![target], values: smallvec![value] };
                        out.push(TypedStmt { kind, span });
                    }
                    Some(SubscriptMeaning::Struct(place)) => self.update_place(place, (assign.op, value), span, out),
                    None => {}
                }
            }
            ast::Expr::Attribute(attribute)
                if matches!(self.place_type(&attribute.value), Some(ValueType::Struct(_))) =>
            {
                let target_span = self.span(&*assign.target);
                let place = self.field_place(attribute, target_span);
                let value = self.expr(&assign.value);
                if let Some(place) = place {
                    self.update_place(place, (assign.op, value), span, out);
                }
            }
            ast::Expr::Attribute(attribute) => {
                let target_span = self.span(&*assign.target);
                let base = self.target_base(&attribute.value);
                let value = self.expr(&assign.value);
                let base = match base {
                    TargetBase::Run(run) => {
                        let member = self.run_member(run, attribute.attr.as_str(), target_span);
                        return self.update_member(member, (assign.op, value), target_span, span, out);
                    }
                    TargetBase::Value(base) => base,
                };
                let Some(ty) = base.ty.as_value() else { return };
                let Some(composite) = ty.as_composite() else {
                    self.target(&assign.target, TypedExpr::error(span), &mut Targets::new());
                    return;
                };
                let name = attribute.attr.as_str();
                match self.members_named(composite, name, target_span) {
                    Some((index, None)) => {
                        let index = ComponentIndex::Is(index);
                        self.update_component(&base, composite, index, (assign.op, value), span, out);
                    }
                    Some((first, Some(part))) => {
                        let base = self.element_once(base, out);
                        let old = self.member(base.clone(), composite, name, target_span);
                        let value = self.binary_op(assign.op, old, value, span);
                        let places = (first..first + part.n_components() as u16).map(ComponentIndex::Is).collect();
                        if self.update_parts(&base, (composite, part), places, &value, span, out) {
                            return;
                        }
                        let Some((target, value)) = self.member_target(&base, composite, name, value, span) else {
                            return;
                        };
                        let kind = StmtKind::Assign { targets: smallvec![target], values: smallvec![value] };
                        out.push(TypedStmt { kind, span });
                    }
                    None => {}
                }
            }
            other => {
                self.expr(&assign.value);
                self.target(other, TypedExpr::error(span), &mut Targets::new());
            }
        }
    }

    /// `x.name op= value` of a part of a variable or of an array's element.
    fn update_member(
        &mut self,
        member: Option<SubscriptMeaning>,
        update: (ast::Operator, TypedExpr),
        target_span: Span,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        match member {
            Some(SubscriptMeaning::Component(base, composite, index)) => {
                self.update_component(&base, composite, index, update, span, out);
            }
            Some(SubscriptMeaning::Run(run)) => {
                let parts = self.run_parts(run, target_span);
                self.update_slice(parts, update, target_span, span, out);
            }
            _ => {}
        }
    }

    /// `v[0:2] op= value`, and other parts of a variable or of an array's element.
    fn update_slice(
        &mut self,
        parts: ComponentSlice,
        (operator, value): (ast::Operator, TypedExpr),
        target_span: Span,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        let parts = ComponentSlice { base: self.element_once(parts.base, out), ..parts };
        out.extend(parts.held.statements(span));
        let parts = ComponentSlice { held: Temporaries::default(), ..parts };
        let old = self.parts(parts.clone(), target_span);
        let new = self.binary_op(operator, old, value, span);
        let places = parts.places.clone();
        if self.update_parts(&parts.base, (parts.composite, parts.part), places, &new, span, out) {
            return;
        }
        let Some((target, value)) = self.parts_target(parts, new, target_span) else { return };
        out.push(TypedStmt { kind: StmtKind::Assign { targets: smallvec![target], values: smallvec![value] }, span });
    }

    /// `s.x op= value`, `bodies[i].x op= value`.
    fn update_place(
        &mut self,
        place: StructPlace,
        (operator, value): (ast::Operator, TypedExpr),
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        if let Some((element, elem)) = self.as_element(&place) {
            return self.update_element(element, elem, operator, value, span, out);
        }
        let old = self.read_place(place.clone());
        let value = self.binary_op(operator, old, value, span);
        let mut targets = Targets::new();
        if let Some(value) = self.assign_place(place, value, &mut targets) {
            out.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![value] }, span });
        }
    }

    /// `v.x op= value`, `v[i] op= value`.
    fn update_component(
        &mut self,
        base: &TypedExpr,
        composite: Composite,
        index: ComponentIndex,
        (operator, value): (ast::Operator, TypedExpr),
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        let index = match index {
            ComponentIndex::At(indices) => {
                ComponentIndex::At(indices.into_iter().map(|index| self.index_once(index, out)).collect())
            }
            ComponentIndex::Flat(index) => ComponentIndex::Flat(self.index_once(index, out)),
            constant => constant,
        };
        let old = component(base.clone(), composite, index.clone(), base.span);
        if let ExprKind::Load(element) = old.kind {
            return self.update_element(*element, composite.elem().into(), operator, value, span, out);
        }
        let value = self.binary_op(operator, old, value, span);
        if let Some((target, value)) = self.component_target(base, composite, index, value, span) {
            out.push(TypedStmt {
                kind: StmtKind::Assign { targets: smallvec![target], values: smallvec![value] },
                span,
            });
        }
    }

    /// `t.p op= value`, `v[0:2] op= value` of an array's element as an update of each component, where these are
    /// atomic. `new` is the part's new value. Gives whether it is one.
    fn update_parts(
        &mut self,
        base: &TypedExpr,
        (composite, part): (Composite, Composite),
        places: Vec<ComponentIndex>,
        new: &TypedExpr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) -> bool {
        let elements = |element: &ElementPlace| {
            let of = |place| {
                let mut element = element.clone();
                element.indices.extend(inner_indices(composite, place, element.span));
                element
            };
            places.into_iter().map(of).collect()
        };
        self.update_each(base, elements, part, new, span, out)
    }

    /// `m[i] op= value` of an array's element, likewise.
    fn update_row(
        &mut self,
        base: &TypedExpr,
        composite: Composite,
        index: &TypedExpr,
        new: &TypedExpr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) -> bool {
        let len = composite.shape()[1];
        let elements = |element: &ElementPlace| {
            let of = |col: u16| {
                let mut element = element.clone();
                element.indices.extend([index.clone(), TypedExpr::constant(col.into(), Scalar::I32, span)]);
                element
            };
            (0..len).map(of).collect()
        };
        self.update_each(base, elements, Composite::Vector { elem: composite.elem(), len }, new, span, out)
    }

    fn update_each(
        &mut self,
        base: &TypedExpr,
        elements: impl FnOnce(&ElementPlace) -> Vec<ElementPlace>,
        part: Composite,
        new: &TypedExpr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) -> bool {
        let (ExprKind::Load(element), ExprKind::Op { op, args, .. }) = (&base.kind, &new.kind) else { return false };
        let (true, Some(value)) = (matches!(op, Op::Add | Op::Sub), args.last()) else { return false };
        if value.ty.as_value() != Some(part.into()) {
            return false;
        }
        let value = self.index_once(value.clone(), out);
        for (place, element) in (0..).zip(elements(element)) {
            let value = component(value.clone(), part, ComponentIndex::Is(place), span);
            out.push(TypedStmt { kind: StmtKind::Update { element, op: UpdateOp::Op(*op), value }, span });
        }
        true
    }

    /// An array element of which parts are read and written, with indices that are evaluated once; anything else as it
    /// is.
    fn element_once(&mut self, mut base: TypedExpr, out: &mut Vec<TypedStmt>) -> TypedExpr {
        if let ExprKind::Load(element) = &mut base.kind {
            for index in &mut element.indices {
                let once = self.index_once(index.clone(), out);
                *index = once;
            }
        }
        base
    }

    /// An index that is read and written by, evaluated once, so that anything but a variable or a constant is put into
    /// a variable first.
    pub(super) fn index_once(&mut self, index: TypedExpr, out: &mut Vec<TypedStmt>) -> TypedExpr {
        let Some(ty) = index.ty.as_value() else { return index };
        if matches!(index.kind, ExprKind::Local(_) | ExprKind::Const(_)) {
            return index;
        }
        let span = index.span;
        let local = self.new_local("", ty, span);
        let targets = smallvec![AssignTarget::Local(local)];
        out.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![index] }, span });
        TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), span)
    }

    fn update_element(
        &mut self,
        element: ElementPlace,
        elem: Type,
        operator: ast::Operator,
        value: TypedExpr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        let old = TypedExpr::new(ExprKind::Load(Box::new(element.clone())), ExprType::Value(elem), element.span);
        if let Some((op, value)) = self.update(operator, &old, value, span) {
            out.push(TypedStmt { kind: StmtKind::Update { element, op, value }, span });
        }
    }
}
