//! Structs: variables of struct types, their fields, and elements of arrays of structs.
//!
//! The typed AST knows leaves alone. A variable of a struct type has a local for each leaf; a value of one is a tuple
//! of its leaves, or a call or conditional that gives them. A leaf that is an array is a name for an array, as other
//! variables are that stand for one: it is set once, and nothing is stored.
//!
//! Design: `docs/design/composites.md`.

use super::component_expr::{composite_constant, construct};
use super::function::{FunctionChecker, NameMeaning};
use super::struct_variable::{StructPlace, StructVariable};
use super::temporaries::Temporaries;
use crate::local_array::LocalArray;
use crate::structure::{StructField, StructType, ValueType};
use crate::typed_ast::{AssignTarget, ElementPlace, ElementPlaces, ExprKind, ExprType, LocalId, Targets, TypedExpr};
use polyloom_ir::diagnostic::near_names;
use polyloom_ir::{Code, Diagnostic, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// A new variable with locals for those leaves that are no arrays; with `with_arrays`, for all of them.
    pub(super) fn new_struct(&mut self, name: &str, ty: ValueType, span: Span, with_arrays: bool) -> NameMeaning {
        let leaves = ty.leaves(name).into_iter().map(|leaf| {
            let is_array = leaf.ty.as_any_array().is_some();
            (with_arrays || !is_array).then(|| self.new_local(&leaf.path, leaf.ty, span))
        });
        let leaves = leaves.collect();
        self.structs.push(StructVariable { name: name.into(), ty, span, leaves });
        NameMeaning::Struct(self.structs.len() - 1)
    }

    /// The type of what an expression names, if that is a struct variable, an element of an array of structs, or a
    /// field of either.
    pub(super) fn place_type(&self, expr: &ast::Expr) -> Option<ValueType> {
        let is_view = |ty: &ValueType| matches!(ty, ValueType::Struct(of) if of.is_indexed_array());
        self.place_type_within(expr).filter(|ty| !is_view(ty))
    }

    fn place_type_within(&self, expr: &ast::Expr) -> Option<ValueType> {
        match expr {
            ast::Expr::Name(name) => match self.names.get(name.id.as_str())? {
                NameMeaning::Struct(variable) => Some(self.structs[*variable].ty),
                _ => None,
            },
            ast::Expr::Attribute(attribute) => match self.place_type(&attribute.value)? {
                ValueType::Struct(of) => Some(of.field(attribute.attr.as_str())?.ty),
                _ => None,
            },
            ast::Expr::Subscript(subscript) => {
                let (base, n_indices) = subscripted(subscript);
                match self.place_type(base)? {
                    ValueType::StructArray { elem, ndim, .. } if n_indices == usize::from(ndim) => {
                        Some(ValueType::Struct(elem))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns what an expression names that has a [`FunctionChecker::place_type`]; `None` if an index is rejected.
    pub(super) fn place(&mut self, expr: &'a ast::Expr) -> Option<StructPlace> {
        let span = self.span(expr);
        match expr {
            ast::Expr::Name(name) => self.place_named(name.id.as_str(), span),
            ast::Expr::Attribute(attribute) => self.field_place(attribute, span),
            ast::Expr::Subscript(subscript) => self.element_place(subscript, span),
            _ => None,
        }
    }

    /// The variable of this name, if it is a struct or an array of structs.
    pub(super) fn place_named(&self, name: &str, span: Span) -> Option<StructPlace> {
        let &NameMeaning::Struct(variable) = self.names.get(name)? else { return None };
        Some(StructPlace { variable, first: 0, ty: self.structs[variable].ty, indices: None, span })
    }

    /// `place.name`; an unknown name is reported.
    pub(super) fn field_place(&mut self, attribute: &'a ast::ExprAttribute, span: Span) -> Option<StructPlace> {
        let Some(ValueType::Struct(of)) = self.place_type(&attribute.value) else { return None };
        let field = self.field(of, attribute.attr.as_str(), span);
        let mut place = self.place(&attribute.value)?;
        let field = field?;
        place.first += field.first_leaf;
        place.ty = field.ty;
        place.span = span;
        Some(place)
    }

    /// `place[i]`, of an array of structs.
    pub(super) fn element_place(&mut self, subscript: &'a ast::ExprSubscript, span: Span) -> Option<StructPlace> {
        let (base, _) = subscripted(subscript);
        let Some(ValueType::StructArray { elem, ndim, .. }) = self.place_type(base) else { return None };
        let mut place = self.place(base)?;
        let indices = self.indices(subscript);
        if !self.fits_rank(base, ndim, indices.len(), span) || indices.iter().any(TypedExpr::is_error) {
            return None;
        }
        if let Some((code, message, help)) = elem.why_no_array() {
            self.reject(code, span, message, help);
            return None;
        }
        place.indices = Some(indices);
        place.ty = ValueType::Struct(elem);
        place.span = span;
        Some(place)
    }

    /// A field by its name; reports if there is none.
    fn field(&mut self, of: StructType, name: &str, span: Span) -> Option<&'static StructField> {
        let found = of.field(name);
        if found.is_none() {
            let names: Vec<&str> = of.fields().iter().map(|field| &*field.name).collect();
            let help = match near_names(name, names.iter().copied()).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its fields are {}", names.join(", ")),
            };
            self.reject(Code::UnknownName, span, format!("`{}` has no field `{name}`", of.name()), help);
        }
        found
    }

    /// A variable's leaf as a value.
    fn leaf(&mut self, variable: usize, leaf: usize, span: Span) -> TypedExpr {
        if let Some(local) = self.structs[variable].leaves[leaf] {
            return self.own_array(local, span).unwrap_or_else(|| self.read_local(local, span));
        }
        let name = &self.structs[variable].name;
        let path = self.structs[variable].ty.leaves(name)[leaf].path.clone();
        let message = format!("`{path}` is used before it is given an array");
        self.reject(Code::MaybeUnset, span, message, format!("assign it first: `{path} = …`"))
    }

    /// Returns what a place holds.
    pub(super) fn read_place(&mut self, place: StructPlace) -> TypedExpr {
        let StructPlace { variable, first, ty, indices, span } = place;
        let Some(indices) = indices else {
            if ty.as_plain().is_some() {
                return self.leaf(variable, first, span);
            }
            let types = self.structs[variable].ty.leaf_types();
            let leaves = (first..first + ty.n_leaves()).map(|leaf| match self.structs[variable].leaves[leaf] {
                Some(local) if !self.fixed.contains_key(&local) => self.read_local(local, span),
                _ => unset(types[leaf], span),
            });
            if let ValueType::Struct(of) = ty
                && of.is_indexed_array()
            {
                let leaves = leaves.collect();
                return self.indexed_array(leaves, span).unwrap_or_else(|| TypedExpr::error(span));
            }
            return tuple(ty.into(), leaves.collect(), span);
        };
        if let Some(elem) = ty.as_plain() {
            return match self.plain_element(variable, first, indices, span) {
                Some(element) => TypedExpr::new(ExprKind::Load(Box::new(element)), ExprType::Value(elem), span),
                None => TypedExpr::error(span),
            };
        }
        let mut held = Temporaries::default();
        let indices: SmallVec<[TypedExpr; 2]> = indices.into_iter().map(|index| self.hold(index, &mut held)).collect();
        let types = ty.leaf_types();
        let leaves = types.iter().enumerate().map(|(leaf, &ty)| {
            let element = self.plain_element(variable, first + leaf, indices.clone(), span);
            element.map(|element| TypedExpr::new(ExprKind::Load(Box::new(element)), ExprType::Value(ty), span))
        });
        match leaves.collect() {
            Some(leaves) => held.around(tuple(ty.into(), leaves, span)),
            None => TypedExpr::error(span),
        }
    }

    fn plain_element(
        &mut self,
        variable: usize,
        leaf: usize,
        indices: SmallVec<[TypedExpr; 2]>,
        span: Span,
    ) -> Option<ElementPlace> {
        let array = self.leaf(variable, leaf, span);
        (!array.is_error()).then(|| ElementPlace { array: Box::new(array), indices, span })
    }

    /// The array that a place holds first: what an array of structs has extents by.
    pub(super) fn first_array(&mut self, place: &StructPlace) -> TypedExpr {
        self.leaf(place.variable, place.first, place.span)
    }

    /// An element of an array of structs that a place with one leaf is, and that leaf's type.
    pub(super) fn as_element(&mut self, place: &StructPlace) -> Option<(ElementPlace, Type)> {
        let (indices, ty) = (place.indices.clone()?, place.ty.as_plain()?);
        Some((self.plain_element(place.variable, place.first, indices, place.span)?, ty))
    }

    /// Assigns a value to a place: appends the targets, and gives the value as it is stored in them. `None` if it is
    /// rejected or nothing is to be stored.
    pub(super) fn assign_place(
        &mut self,
        place: StructPlace,
        value: TypedExpr,
        targets: &mut Targets,
    ) -> Option<TypedExpr> {
        let reason = if place.indices.is_some() && place.first == 0 && place.ty.as_plain().is_none() {
            "the array's element".to_owned()
        } else {
            format!("`{}`", self.text_of(place.span))
        };
        let value = self.expect(value, place.ty, Code::TypeMismatch, &reason);
        if value.is_error() {
            return None;
        }
        let StructPlace { variable, first, ty, indices, span } = place;
        let leaves = first..first + ty.n_leaves();
        if let Some(indices) = indices {
            let mut arrays: SmallVec<[TypedExpr; 4]> = leaves.map(|leaf| self.leaf(variable, leaf, span)).collect();
            if arrays.iter().any(TypedExpr::is_error) {
                return None;
            }
            targets.push(match arrays.len() {
                1 => AssignTarget::Element(Box::new(ElementPlace { array: Box::new(arrays.remove(0)), indices, span })),
                _ => {
                    let each = arrays.into_iter().map(|array| (array, smallvec![])).collect();
                    AssignTarget::Places(Box::new(ElementPlaces { each, indices, span }))
                }
            });
            return Some(value);
        }
        // A struct that is not set as a whole has no fields that can be.
        let is_set = self.structs[variable].leaves[leaves.clone()]
            .iter()
            .flatten()
            .all(|local| self.locals[local.0 as usize].ty.as_any_array().is_some() || self.flow.set.contains(*local));
        if !is_set && self.flow.reachable {
            let first_leaf = leaves.clone().find(|&leaf| self.structs[variable].leaves[leaf].is_some())?;
            self.leaf(variable, first_leaf, span);
            return None;
        }
        self.assign_leaves(variable, leaves, value, targets)
    }

    /// Assigns a value to some of a variable's leaves.
    fn assign_leaves(
        &mut self,
        variable: usize,
        leaves: std::ops::Range<usize>,
        value: TypedExpr,
        targets: &mut Targets,
    ) -> Option<TypedExpr> {
        let types = self.structs[variable].ty.leaf_types();
        let is_array = |leaf: usize| types[leaf].as_any_array().is_some();
        if !leaves.clone().any(is_array) {
            for leaf in leaves {
                let local = self.structs[variable].leaves[leaf]?;
                self.mark_assigned(local);
                targets.push(AssignTarget::Local(local));
            }
            return Some(value);
        }
        let (ty, span) = (value.ty.clone(), value.span);
        let mut held = Temporaries::default();
        let parts = if ty.is_struct() { self.leaves_of(value, &mut held) } else { vec![value] };
        let mut stored = Vec::new();
        for (leaf, part) in leaves.zip(parts) {
            if is_array(leaf) {
                self.set_array(variable, leaf, &part)?;
                continue;
            }
            let local = self.structs[variable].leaves[leaf]?;
            self.mark_assigned(local);
            targets.push(AssignTarget::Local(local));
            stored.push(part);
        }
        let types = stored.iter().filter_map(|part| part.ty.full()).collect();
        (!stored.is_empty()).then(|| held.around(tuple(ExprType::Values(types), stored, span)))
    }

    /// Makes a leaf stand for an array.
    fn set_array(&mut self, variable: usize, leaf: usize, array: &TypedExpr) -> Option<()> {
        let known = self.structs[variable].leaves[leaf];
        match (known, &array.kind) {
            (None, ExprKind::Local(local)) => self.structs[variable].leaves[leaf] = Some(*local),
            (Some(known), ExprKind::Local(local)) if known == *local => {}
            (None, _) if is_unset(array) => {}
            (None, ExprKind::View { .. }) => {
                self.not_kept(array);
                return None;
            }
            (Some(_), _) => {
                let name = &self.structs[variable].name;
                let path = self.structs[variable].ty.leaves(name)[leaf].path.clone();
                let message = format!("`{path}` names an array and cannot be assigned again");
                self.reject(Code::NotSupportedYet, array.span, message, "use a variable of another name");
                return None;
            }
            (None, _) => return None,
        }
        Some(())
    }

    /// Gives a variable a struct or an array of structs, and its type if it is the first value.
    pub(super) fn bind_struct(
        &mut self,
        name: &'a ast::ExprName,
        value: TypedExpr,
        targets: &mut Targets,
    ) -> Option<TypedExpr> {
        let span = self.span(name);
        let text = name.id.as_str();
        let ty = value.ty.full()?;
        self.release_counter(text);
        let (was, first) = match self.names.get(text).copied() {
            Some(NameMeaning::Struct(variable)) => {
                let known = &self.structs[variable];
                if known.ty == ty {
                    if let ValueType::StructArray { .. } = ty {
                        let message = format!("`{text}` names an array and cannot be assigned again");
                        self.reject(Code::NotSupportedYet, span, message, "use a variable of another name");
                        return None;
                    }
                    return self.assign_leaves(variable, 0..ty.n_leaves(), value, targets);
                }
                (known.ty, known.span)
            }
            Some(NameMeaning::Local(id)) => (self.local_type(id).into(), self.locals[id.0 as usize].span),
            Some(NameMeaning::Poisoned) => return None,
            Some(NameMeaning::View(view)) => {
                let what = self.kind_of_view(&self.views[view]);
                let message = format!("`{text}` stands for {what} and cannot be assigned a value");
                self.reject(Code::BadAssignment, span, message, "use a variable of another name");
                return None;
            }
            Some(NameMeaning::Known(index)) => {
                self.reject_known_target(text, index, span);
                return None;
            }
            Some(NameMeaning::Later(_) | NameMeaning::Diverged) | None => {
                let made = self.new_struct(text, ty, span, false);
                self.names.insert(text, made);
                let NameMeaning::Struct(variable) = made else { return None };
                return self.assign_leaves(variable, 0..ty.n_leaves(), value, targets);
            }
        };
        self.names.insert(text, NameMeaning::Poisoned);
        let message = format!("`{text}` is {} here but was {} before", ty.python_name(), was.python_name());
        self.report(
            Diagnostic::error(Code::Retyped, span, message)
                .label(first, format!("{} here", was.python_name()))
                .help("use a variable of another name"),
        );
        None
    }

    /// The leaves of a struct or an array of structs, each to be written at most once.
    pub(super) fn leaves_of(&mut self, value: TypedExpr, held: &mut Temporaries) -> Vec<TypedExpr> {
        let Some(ty) = value.ty.full() else { return Vec::new() };
        match value.kind {
            ExprKind::Tuple(parts) if !parts.is_empty() => parts,
            ExprKind::Let { locals, value, body } => {
                held.push(locals, *value);
                self.leaves_of(*body, held)
            }
            _ => {
                let span = value.span;
                let local = |ty| (self.new_local("", ty, span), ty);
                let leaves: Vec<(LocalId, Type)> = ty.leaf_types().into_iter().map(local).collect();
                held.push(leaves.iter().map(|(local, _)| *local).collect(), value);
                let leaf = |(local, ty)| TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), span);
                leaves.into_iter().map(leaf).collect()
            }
        }
    }

    /// A field of a struct that is no place: of a call's result.
    pub(super) fn field_of(&mut self, value: TypedExpr, of: StructType, name: &str, span: Span) -> TypedExpr {
        let Some(field) = self.field(of, name, span) else { return TypedExpr::error(span) };
        let mut held = Temporaries::default();
        let leaves = self.leaves_of(value, &mut held);
        // Those that are left out are evaluated all the same, because they may update a random state.
        let mut leaves: Vec<TypedExpr> = leaves.into_iter().map(|leaf| self.hold(leaf, &mut held)).collect();
        let mut leaves: Vec<TypedExpr> =
            leaves.drain(field.first_leaf..field.first_leaf + field.ty.n_leaves()).collect();
        let leaf = match (field.ty.as_plain(), leaves.pop()) {
            (Some(_), Some(leaf)) if is_unset(&leaf) => {
                let message = format!("the array `{name}` of this `{}` is not set", of.name());
                return self.reject(Code::MaybeUnset, span, message, "assign it first");
            }
            (Some(_), Some(leaf)) => leaf,
            (_, last) => {
                leaves.extend(last);
                tuple(field.ty.into(), leaves, span)
            }
        };
        held.around(leaf)
    }

    /// `Body()`, or with a value for every field.
    pub(super) fn struct_construction(
        &mut self,
        of: StructType,
        call: &'a ast::ExprCall,
        path: &[&'a str],
        span: Span,
    ) -> TypedExpr {
        let Some(arguments) = self.all_arguments(call) else { return TypedExpr::error(span) };
        if arguments.is_empty() {
            let leaves = of.leaves().iter().map(|leaf| zero(leaf.ty, span)).collect();
            return tuple(ExprType::Struct(of), leaves, span);
        }
        let n_fields = of.fields().len();
        let mut slots: Vec<Option<TypedExpr>> = vec![None; n_fields];
        let mut wrong = None;
        for (i, argument) in arguments.into_iter().enumerate() {
            let slot = match argument.name {
                None => (i < n_fields).then_some(i),
                Some(name) => of.fields().iter().position(|field| *field.name == *name),
            };
            match (slot, argument.name) {
                (Some(slot), _) if slots[slot].is_none() => slots[slot] = Some(argument.value),
                (Some(slot), _) => wrong = Some(format!("`{}` is given twice", of.fields()[slot].name)),
                (None, Some(name)) => wrong = Some(format!("it has no field `{name}`")),
                (None, None) => wrong = Some(format!("it has {n_fields} fields")),
            }
        }
        let missing = slots.iter().position(Option::is_none);
        if let (None, Some(missing)) = (&wrong, missing) {
            wrong = Some(format!("the field `{}` is missing", of.fields()[missing].name));
        }
        let name = path.join(".");
        if let Some(wrong) = wrong {
            let help = format!("write `{name}()` for zeros, or give a value to every field");
            return self.reject(Code::NoOverload, span, format!("`{name}` is called wrongly: {wrong}"), help);
        }
        let mut held = Temporaries::default();
        let is_tuple = |value: &TypedExpr| matches!(value.kind, ExprKind::Tuple(_));
        // Other operands are held if one is a struct, because what is evaluated for its leaves must not come before
        // operands written before it.
        let in_order = slots.iter().flatten().any(|value| value.ty.is_struct() && !is_tuple(value));
        let mut leaves = Vec::with_capacity(of.leaves().len());
        for (field, value) in of.fields().iter().zip(slots) {
            let Some(value) = value else { return TypedExpr::error(span) };
            let reason = format!("the field `{}` of `{}`", field.name, of.name());
            let value = self.expect(value, field.ty, Code::TypeMismatch, &reason);
            if value.is_error() {
                return TypedExpr::error(span);
            }
            if value.ty.is_struct() {
                let parts = self.leaves_of(value, &mut held);
                leaves.extend(parts);
            } else {
                leaves.push(if in_order { self.hold(value, &mut held) } else { value });
            }
        }
        held.around(tuple(ExprType::Struct(of), leaves, span))
    }

    /// A value that must have this type because of `reason`, as [`FunctionChecker::expect_value`].
    pub(super) fn expect(&mut self, value: TypedExpr, ty: ValueType, code: Code, reason: &str) -> TypedExpr {
        if let ValueType::Plain(ty) = ty {
            return self.expect_value(value, ty, code, reason);
        }
        let value = if value.ty.is_struct() { value } else { self.settle(value) };
        let Some(given) = value.ty.full() else { return TypedExpr::error(value.span) };
        if given == ty {
            return value;
        }
        self.struct_mismatch(given, ty, code, reason, value.span)
    }

    /// Reports that a value has another type than it must have, one of the two a struct's.
    pub(super) fn struct_mismatch(
        &mut self,
        given: ValueType,
        wanted: ValueType,
        code: Code,
        reason: &str,
        span: Span,
    ) -> TypedExpr {
        let message = format!("this is {}, but {reason} is {}", given.python_name(), wanted.python_name());
        let help = match (given, wanted) {
            (ValueType::StructArray { elem, .. }, ValueType::Struct(of)) if elem == of => {
                "index the array to get an element".to_owned()
            }
            (ValueType::Struct(of), ValueType::Plain(Type::Scalar(_) | Type::Composite(_))) => fields_help(of),
            (ValueType::Struct(a), ValueType::Struct(b)) if a.name() == b.name() => {
                format!("these are two structs `{}` of different fields", a.name())
            }
            (_, ValueType::Struct(of)) => format!("make one of it: `{}(…)`", of.name()),
            _ => "use a value of this type, or change the annotation".to_owned(),
        };
        self.reject(code, span, message, help)
    }

    /// Reports a struct where only one value will do.
    pub(super) fn no_single_value(&mut self, ty: ValueType, span: Span) -> TypedExpr {
        let message = format!("this is {}, where one value is needed", ty.python_name());
        let help = match ty {
            ValueType::Struct(of) => fields_help(of),
            _ => "write a field of an element: `a[i].name`".to_owned(),
        };
        self.reject(Code::TypeMismatch, span, message, help)
    }

    /// `a if cond else b`, of structs.
    pub(super) fn struct_choice(&mut self, then: &TypedExpr, otherwise: &TypedExpr) -> Option<StructType> {
        let (Some(a), Some(b)) = (then.ty.full(), otherwise.ty.full()) else {
            self.struct_mismatch_with_number(then, otherwise);
            return None;
        };
        match a {
            ValueType::Struct(of) if a == b => {
                let Some(path) = of.array_within() else { return Some(of) };
                let message =
                    format!("a `{}` cannot be chosen by a condition: its field `{path}` is an array", of.name());
                let span = Span::new(then.span.file, then.span.start, otherwise.span.end);
                self.reject(Code::Unsupported, span, message, "use `if` and write the code for each");
                None
            }
            _ => {
                self.struct_mismatch(b, a, Code::TypeMismatch, "the other branch", otherwise.span);
                None
            }
        }
    }

    /// `where(cond, a, b)`, of structs.
    pub(super) fn select_struct(&mut self, cond: TypedExpr, a: TypedExpr, b: TypedExpr, span: Span) -> TypedExpr {
        let cond = self.expect_value(cond, Type::BOOL, Code::TypeMismatch, "the condition");
        let Some(of) = self.struct_choice(&a, &b) else { return TypedExpr::error(span) };
        if cond.is_error() {
            return cond;
        }
        let mut held = Temporaries::default();
        let cond = self.hold(cond, &mut held);
        let [a, b] = [a, b].map(|value| {
            let leaves = self.leaves_of(value, &mut held);
            leaves.into_iter().map(|leaf| self.hold(leaf, &mut held)).collect::<Vec<_>>()
        });
        let select = |(a, b): (TypedExpr, TypedExpr)| {
            let ty = a.ty.clone();
            let kind = ExprKind::Op { op: Op::Select, args: vec![cond.clone(), a, b], updates: smallvec![] };
            TypedExpr::new(kind, ty, span)
        };
        held.around(tuple(ExprType::Struct(of), a.into_iter().zip(b).map(select).collect(), span))
    }

    fn struct_mismatch_with_number(&mut self, then: &TypedExpr, otherwise: &TypedExpr) {
        let typed = |expr: &TypedExpr| {
            let scalar = expr.untyped().map_or(Scalar::I32, crate::number::PythonNumber::default_scalar);
            expr.ty.full().unwrap_or(scalar.into())
        };
        self.struct_mismatch(typed(otherwise), typed(then), Code::TypeMismatch, "the other branch", otherwise.span);
    }
}

fn fields_help(of: StructType) -> String {
    let names: Vec<&str> = of.fields().iter().map(|field| &*field.name).collect();
    format!("write one of its fields, which are {}", names.join(", "))
}

/// The expression that `x[i][j]` indexes, and how many indices there are.
pub(super) fn subscripted(subscript: &ast::ExprSubscript) -> (&ast::Expr, usize) {
    let mut base = &*subscript.value;
    let mut n_indices = crate::annotation::elements(&subscript.slice).len();
    while let ast::Expr::Subscript(inner) = base {
        n_indices += crate::annotation::elements(&inner.slice).len();
        base = &inner.value;
    }
    (base, n_indices)
}

fn tuple(ty: ExprType, leaves: Vec<TypedExpr>, span: Span) -> TypedExpr {
    if leaves.iter().any(TypedExpr::is_error) {
        return TypedExpr::error(span);
    }
    TypedExpr::new(ExprKind::Tuple(leaves), ty, span)
}

/// An instance of a struct captured from outside, which has no arrays: `bits` are those of its leaves in order.
pub(super) fn struct_constant(mut bits: &[u64], of: StructType, span: Span) -> TypedExpr {
    let leaves = of.leaves().iter().filter_map(|leaf| {
        let n_words = match leaf.ty {
            Type::Composite(composite) => composite.n_components(),
            _ => 1,
        };
        let (these, rest) = bits.split_at_checked(n_words)?;
        bits = rest;
        match leaf.ty {
            Type::Scalar(scalar) => Some(TypedExpr::constant(these[0], scalar, span)),
            Type::Composite(composite) => Some(composite_constant(these, composite, span)),
            Type::Array { .. } | Type::CompositeArray { .. } => None,
        }
    });
    let leaves = leaves.collect();
    tuple(ExprType::Struct(of), leaves, span)
}

/// The array of a struct that has not been given one.
pub(super) fn unset(ty: Type, span: Span) -> TypedExpr {
    TypedExpr::new(ExprKind::Tuple(Vec::new()), ExprType::Value(ty), span)
}

/// Returns true if a leaf is an array that is not there.
pub(super) fn is_unset(leaf: &TypedExpr) -> bool {
    matches!(&leaf.kind, ExprKind::Tuple(parts) if parts.is_empty())
        && leaf.ty.as_value().is_some_and(|ty| ty.as_any_array().is_some())
}

/// If it is a struct some of whose arrays are not set, its type and which of its leaves they are.
pub(super) fn incomplete(value: &TypedExpr) -> Option<(ValueType, SmallVec<[usize; 4]>)> {
    let (ExprKind::Tuple(parts), true) = (&value.kind, value.ty.is_struct()) else { return None };
    let unset: SmallVec<[usize; 4]> = (0..parts.len()).filter(|&leaf| is_unset(&parts[leaf])).collect();
    (!unset.is_empty()).then(|| Some((value.ty.full()?, unset)))?
}

/// The leaves of such a struct, with the variable of an array of no elements for each that is not set.
pub(super) fn with_empty_arrays(value: TypedExpr) -> Vec<TypedExpr> {
    let ExprKind::Tuple(parts) = value.kind else { return vec![value] };
    let set = |leaf: TypedExpr| {
        let empty = is_unset(&leaf).then(|| LocalArray::empty(leaf.ty.as_value()?)?.zeros(leaf.span)).flatten();
        empty.unwrap_or(leaf)
    };
    parts.into_iter().map(set).collect()
}

/// A leaf of a new struct.
fn zero(ty: Type, span: Span) -> TypedExpr {
    match ty {
        Type::Scalar(scalar) => TypedExpr::constant(0, scalar, span),
        Type::Composite(composite) => {
            let zeros = (0..composite.n_components()).map(|_| TypedExpr::constant(0, composite.elem(), span));
            construct(composite, zeros.collect(), span)
        }
        Type::Array { .. } | Type::CompositeArray { .. } => unset(ty, span),
    }
}
