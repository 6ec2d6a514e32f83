//! Parts of arrays, and arrays of a kernel's own.
//!
//! `row = a[i]` of an array of two dimensions is a view: the array with the indices given so far. A view is no value of
//! the typed AST: whatever is done with it is done with the array and all indices, and a function that is given one is
//! compiled for an array and so many first indices.
//!
//! `zeros(shape=…, dtype=…)` is an array of constant extents that the thread has to itself. Its elements are the
//! components of one vector in a variable, so it needs no memory that HIR or a back end would have to know of, and an
//! element with a run-time index is a choice among them. It is seen as a view too: a function that is given one is
//! compiled for its extents, and hands back the vector as a further result if it changes it.
//!
//! Design: `docs/design/composites.md`.

use super::component_expr::axis_extent;
use super::component_parts::ComponentRange;
use super::element::count;
use super::function::{FunctionChecker, NameMeaning};
use super::slice::{is_slice, sliced};
use super::struct_variable::StructVariable;
use super::subscript_meaning::{SubscriptIndex, SubscriptMeaning};
use super::{SpecialisationArg, ViewIndex};
use crate::dotted_path::dotted;
use crate::local_array::LocalArray;
use crate::structure::ValueType;
use crate::typed_ast::{AssignTarget, ComponentOrdinal, ExprKind, ExprType, LocalId, StmtKind, TypedExpr, TypedStmt};
use polyloom_ir::{Code, MAX_COMPONENTS, MAX_DIMS, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// The array that a variable holds, if it is one of the kernel's own.
    pub(super) fn own_array(&self, local: LocalId, span: Span) -> Option<TypedExpr> {
        let fixed = self.fixed.get(&local)?;
        let ty = Type::array_of(fixed.elem, fixed.shape.len() as u8)?;
        Some(TypedExpr::new(ExprKind::View { array: local, indices: Vec::new() }, ExprType::Value(ty), span))
    }

    /// The part of an array that these first indices choose.
    pub(super) fn view(&self, array: LocalId, indices: Vec<TypedExpr>, span: Span) -> Option<TypedExpr> {
        let whole = self.local_type(array);
        let (elem, ndim) = match self.fixed.get(&array) {
            Some(fixed) => (fixed.elem, fixed.shape.len() as u8),
            None => whole.as_any_array()?,
        };
        let n_fixed = indices.iter().filter(|index| !is_slice(index)).count();
        let ty = Type::array_of(elem, ndim.checked_sub(n_fixed as u8)?)?.in_space(whole.space().unwrap_or_default());
        Some(TypedExpr::new(ExprKind::View { array, indices }, ExprType::Value(ty), span))
    }

    /// The extents of an array.
    pub(super) fn extents_of(&self, array: &TypedExpr, span: Span) -> Vec<TypedExpr> {
        let Some((_, ndim)) = array.ty.as_value().and_then(Type::as_any_array) else { return Vec::new() };
        let ExprKind::View { array: local, indices } = &array.kind else {
            return (0..ndim).map(|axis| super::element::dim(array, axis, span)).collect();
        };
        let first = indices.len() as u8;
        let slices = indices.iter().filter_map(|index| match &index.kind {
            ExprKind::Slice(parts) => Some(parts[2].clone()),
            ExprKind::Gather(indices) => Some(super::element::dim(indices, 0, span)),
            _ => None,
        });
        match self.fixed.get(local) {
            Some(fixed) => {
                let extents = fixed.shape.iter().skip(first.into());
                slices.chain(extents.map(|&n| TypedExpr::constant(n.into(), Scalar::I32, span))).collect()
            }
            None => {
                let whole =
                    TypedExpr::new(ExprKind::Local(*local), ExprType::Value(self.local_type(*local)), array.span);
                let n_dims = self.local_type(*local).as_any_array().map_or(ndim, |(_, n)| n);
                slices.chain((first..n_dims).map(|axis| super::element::dim(&whole, axis, span))).collect()
            }
        }
    }

    /// Returns what the indices of a view mean, and those behind them of an element's components; `None` if there is no
    /// such element.
    pub(super) fn indexed_own(
        &mut self,
        local: LocalId,
        indices: Vec<TypedExpr>,
        inner: SmallVec<[SubscriptIndex<'a>; 2]>,
        span: Span,
    ) -> Option<SubscriptMeaning> {
        let fixed = self.fixed.get(&local)?.clone();
        if indices.iter().any(TypedExpr::is_error) {
            return None;
        }
        let n_dims = fixed.shape.len();
        if indices.len() < n_dims || indices.len() == n_dims && indices.iter().any(is_slice) {
            return self.view(local, indices, span).map(SubscriptMeaning::View);
        }
        let vector = fixed.vector()?;
        let base = TypedExpr::new(ExprKind::Local(local), ExprType::Value(vector.into()), span);
        let name = self.name_of(&base);
        let n_indices = indices.len() + inner.len();
        let composite = fixed.elem.as_composite();
        if indices.len() > n_dims || composite.is_none() && !inner.is_empty() {
            let message = format!(
                "the array has {}, but {} given",
                count(n_dims, "dimension", "dimensions"),
                count(n_indices, "index is", "indices are"),
            );
            self.reject(Code::BadRank, span, message, "write one index for each dimension");
            return None;
        }
        let place = self.place_in(&fixed, &name, indices, span)?;
        let Some(composite) = composite else { return Some(SubscriptMeaning::Component(base, vector, place.into())) };
        let first = match place {
            ComponentOrdinal::Is(first) => ComponentOrdinal::Is(first * composite.n_components() as u16),
            ComponentOrdinal::Computed(element) => {
                let n = TypedExpr::constant(composite.n_components() as u64, Scalar::I32, span);
                ComponentOrdinal::Computed(int_op(Op::Mul, element, n, span))
            }
        };
        let run = ComponentRange { base, whole: vector, first, part: composite };
        if inner.is_empty() { Some(SubscriptMeaning::Run(run)) } else { self.indexed_run(run, inner, span) }
    }

    /// The element that indices choose of an array of the kernel's own, counted in row-major order.
    fn place_in(
        &mut self,
        fixed: &LocalArray,
        name: &Arc<str>,
        indices: Vec<TypedExpr>,
        span: Span,
    ) -> Option<ComponentOrdinal> {
        let mut known = Some(0i128);
        for (index, &extent) in indices.iter().zip(&fixed.shape) {
            let n = i128::from(extent);
            // An array that stands for one that is not set has no elements, and only a run shows whether one is asked for.
            let constant = super::component_expr::constant_index(index).filter(|_| extent > 0);
            if let Some(constant) = constant
                && !(-n..n).contains(&constant)
            {
                let message = format!("the array has no element {constant} along an axis of {extent}");
                self.reject(Code::BadRank, span, message, format!("an index here is from {} to {}", -n, n - 1));
                return None;
            }
            known = known.zip(constant).map(|(place, index)| place * n + index.rem_euclid(n));
        }
        if let Some(known) = known {
            return Some(ComponentOrdinal::Is(known as u16));
        }
        let axes = (0..).zip(&fixed.shape).map(|(axis, &extent)| axis_extent(name.clone(), axis, extent));
        self.flat_index(indices, axes, span).map(ComponentOrdinal::Computed)
    }

    /// `name = zeros(…)` and `name = view`: gives whether it is one of these, and done.
    pub(super) fn assign_array(
        &mut self,
        name: &'a ast::ExprName,
        value: &'a ast::Expr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) -> bool {
        let Some(call) = value.as_call_expr() else { return false };
        let Some(path) = dotted(&call.func) else { return false };
        if !self.is_zeros(&path) {
            return false;
        }
        match self.zeros(call, span) {
            None => {
                self.names.insert(name.id.as_str(), NameMeaning::Poisoned);
            }
            Some(fixed) => {
                if let Some(zeros) = fixed.zeros(span) {
                    self.bind_own(name, fixed, zeros, span, out);
                }
            }
        }
        true
    }

    /// True if a call of this makes an array of the kernel's own.
    pub(super) fn is_zeros(&mut self, path: &[&'a str]) -> bool {
        if path.last() != Some(&"zeros") || self.is_variable(path[0]) {
            return false;
        }
        match &path[..path.len() - 1] {
            // Every `.loom` file knows it by its name, unless it has a function of that name.
            [] => self.unit.is_loom() && self.unit.find("zeros").is_none(),
            of => {
                matches!(self.capture(of), Some(crate::environment::CapturedMeaning::Module(module))
                    if crate::package_names::PACKAGES.contains(&&*module))
            }
        }
    }

    /// Gives a name an array of the kernel's own, which `value` is the vector of.
    pub(super) fn bind_own(
        &mut self,
        name: &'a ast::ExprName,
        fixed: LocalArray,
        value: TypedExpr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        let text = name.id.as_str();
        let Some(vector) = fixed.vector() else { return };
        let local = match self.names.get(text).copied() {
            Some(NameMeaning::Local(local)) if self.fixed.get(&local) == Some(&fixed) => local,
            Some(NameMeaning::Later(_) | NameMeaning::Diverged) | None => {
                let at = self.span(name);
                let local = self.new_local(text, vector.into(), at);
                self.names.insert(text, NameMeaning::Local(local));
                self.fixed.insert(local, fixed);
                local
            }
            Some(NameMeaning::Poisoned) => return,
            Some(_) => {
                let message = format!("`{text}` has a value already and cannot become an array of its own");
                self.reject(Code::BadAssignment, span, message, "use a variable of another name");
                return;
            }
        };
        self.mark_assigned(local);
        // Its elements are read by names that the text does not show, so that it is read wherever it may be.
        self.locals[local.0 as usize].first_read = 0;
        self.locals[local.0 as usize].last_read = u32::MAX;
        let targets = smallvec![AssignTarget::Local(local)];
        out.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![value] }, span });
    }

    /// The array that `zeros(shape, dtype)` makes.
    pub(super) fn zeros(&mut self, call: &'a ast::ExprCall, span: Span) -> Option<LocalArray> {
        let usage = format!("write `{}.zeros(shape=(2, 3), dtype=float)`", self.package());
        let elem = match call.arguments.find_argument_value("dtype", 1) {
            None => Some(Type::F32),
            Some(dtype) => match self.meaning(dtype) {
                Some(crate::environment::CapturedMeaning::Type(scalar)) => Some(scalar.into()),
                Some(crate::environment::CapturedMeaning::Composite(composite)) => Some(composite.into()),
                _ => None,
            },
        };
        let (Some(elem), Some(shape)) = (elem, call.arguments.find_argument_value("shape", 0)) else {
            self.reject(Code::NoOverload, span, "an array of a kernel's own has a shape and a `dtype`", usage);
            return None;
        };
        let mut extents: SmallVec<[u16; 4]> = SmallVec::new();
        for extent in crate::annotation::elements(shape) {
            let extent = self.expr(extent);
            if extent.is_error() {
                return None;
            }
            let known = match extent.number() {
                Some(crate::number::PythonNumber::Int(value)) => Some(value),
                _ => super::component_expr::constant_index(&extent),
            };
            match known.and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0) {
                Some(n) => extents.push(n),
                None => {
                    let message =
                        "the `shape` argument must be specified as a constant when zero-initializing an array";
                    self.reject(Code::Unsupported, extent.span, message, usage);
                    return None;
                }
            }
        }
        let fixed = LocalArray { elem, shape: extents };
        let n = fixed.shape.iter().map(|&n| usize::from(n)).product::<usize>() * fixed.n_components();
        if n > MAX_COMPONENTS || !(1..=MAX_DIMS).contains(&fixed.shape.len()) {
            let message = format!(
                "an array of a kernel's own holds up to {MAX_COMPONENTS} numbers in 1 to {MAX_DIMS} dimensions"
            );
            self.reject(
                Code::Limit,
                span,
                message,
                "make a larger one outside the kernel, with a part for each thread",
            );
            return None;
        }
        Some(fixed)
    }

    /// Makes a name stand for a part of an array or a tuple, until the branch or loop body ends.
    pub(super) fn bind_view(&mut self, name: &'a ast::ExprName, view: &TypedExpr, out: &mut Vec<TypedStmt>) -> bool {
        let (text, span) = (name.id.as_str(), self.span(name));
        let view = match (&view.kind, &view.ty) {
            (ExprKind::View { array, indices }, _) => {
                let indices = indices.iter().map(|index| self.index_kept(index.clone(), out)).collect();
                let Some(view) = self.view(*array, indices, view.span) else { return false };
                view
            }
            (_, ExprType::Values(types)) if !types.is_empty() => self.kept_parts(view.clone(), span, out),
            _ => return false,
        };
        if view.is_error() {
            self.names.insert(text, NameMeaning::Poisoned);
            return true;
        }
        let what = self.kind_of_view(&view);
        let meaning = self.named_view(view);
        self.stand_for(text, meaning, what, span);
        true
    }

    /// Returns what a name is that stands for this part of an array or tuple.
    pub(super) fn named_view(&mut self, view: TypedExpr) -> NameMeaning {
        self.views.push(view);
        NameMeaning::View(self.views.len() - 1)
    }

    /// Makes a name stand for an array or a tuple, `what` in words, until the branch or loop body ends.
    pub(super) fn stand_for(&mut self, text: &'a str, meaning: NameMeaning, what: &str, span: Span) {
        let before = self.names.get(text).copied();
        if !matches!(
            before,
            None | Some(NameMeaning::Later(_) | NameMeaning::Diverged | NameMeaning::View(_) | NameMeaning::Struct(_))
        ) || !self.may_rebind(text)
        {
            let message = format!("`{text}` has a value already and cannot stand for {what}");
            self.reject(Code::BadAssignment, span, message, "use a variable of another name");
            return;
        }
        self.names.insert(text, meaning);
        self.rebound.push((text, before));
    }

    /// An index of a view, which keeps the value it has now.
    fn index_kept(&mut self, index: TypedExpr, out: &mut Vec<TypedStmt>) -> TypedExpr {
        if let ExprKind::Slice(parts) = index.kind {
            let [start, step, extent] = parts.map(|part| self.index_kept(part, out));
            return sliced(start, step, extent, index.span);
        }
        if let ExprKind::Gather(_) = index.kind {
            return index;
        }
        let ExprKind::Local(_) = index.kind else { return self.index_once(index, out) };
        let Some(ty) = index.ty.as_value() else { return index };
        let span = index.span;
        let local = self.new_local("", ty, span);
        let targets = smallvec![AssignTarget::Local(local)];
        out.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![index] }, span });
        TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), span)
    }

    /// Returns what a name of a view stands for, in words.
    pub(super) fn kind_of_view(&self, view: &TypedExpr) -> &'static str {
        if let ExprType::Values(_) = view.ty { "a tuple" } else { "a part of an array" }
    }

    /// The parameters of a function that is given a view.
    pub(super) fn view_parameter(&mut self, name: &str, array: Type, indices: &[ViewIndex], span: Span) -> NameMeaning {
        let array = self.plain_parameter(name, array, span);
        self.viewed(name, array, indices, span)
    }

    /// The parameters of a function that is given an array of the kernel's own, or a part of one.
    pub(super) fn own_parameter(
        &mut self,
        name: &str,
        fixed: &LocalArray,
        indices: &[ViewIndex],
        span: Span,
    ) -> NameMeaning {
        let Some(vector) = fixed.vector() else { return NameMeaning::Poisoned };
        let local = self.plain_parameter(name, vector.into(), span);
        self.fixed.insert(local, fixed.clone());
        self.locals[local.0 as usize].first_read = 0;
        self.locals[local.0 as usize].last_read = u32::MAX;
        if indices.is_empty() { NameMeaning::Local(local) } else { self.viewed(name, local, indices, span) }
    }

    /// The parameters of a function that is given a struct whose arrays at some leaves are not set: arrays of no
    /// elements are there instead.
    pub(super) fn incomplete_parameter(
        &mut self,
        name: &str,
        ty: ValueType,
        unset: &[usize],
        span: Span,
    ) -> NameMeaning {
        let mut leaves = SmallVec::new();
        for (at, leaf) in ty.leaves(name).into_iter().enumerate() {
            leaves.push(match LocalArray::empty(leaf.ty).filter(|_| unset.contains(&at)) {
                None => Some(self.plain_parameter(&leaf.path, leaf.ty, span)),
                Some(empty) => match self.own_parameter(&leaf.path, &empty, &[], span) {
                    NameMeaning::Local(local) => Some(local),
                    _ => return NameMeaning::Poisoned,
                },
            });
        }
        self.structs.push(StructVariable { name: name.into(), ty, span, leaves });
        NameMeaning::Struct(self.structs.len() - 1)
    }

    /// A slice is three parameters.
    fn viewed(&mut self, name: &str, array: LocalId, indices: &[ViewIndex], span: Span) -> NameMeaning {
        let indices = indices.iter().enumerate().map(|(axis, ty)| {
            let mut parameter = |part: &str, ty| {
                let local = self.plain_parameter(&format!("{name}_{axis}{part}"), ty, span);
                TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), span)
            };
            match *ty {
                ViewIndex::At(ty) => parameter("", ty),
                ViewIndex::Gather => {
                    let indices = parameter("_indices", Type::array(Scalar::I32, 1));
                    TypedExpr::new(ExprKind::Gather(Box::new(indices)), ExprType::scalar(Scalar::I32), span)
                }
                ViewIndex::Slice => {
                    let [start, step, extent] = ["_start", "_step", "_extent"].map(|part| parameter(part, Type::I32));
                    sliced(start, step, extent, span)
                }
            }
        });
        let indices = indices.collect();
        match self.view(array, indices, span) {
            Some(view) => self.named_view(view),
            None => NameMeaning::Poisoned,
        }
    }

    fn plain_parameter(&mut self, name: &str, ty: Type, span: Span) -> LocalId {
        let local = LocalId(self.locals.len() as u32);
        self.parameter(name, ty.into(), span);
        local
    }

    /// Returns what a function is given for an argument of this type.
    pub(super) fn given(&self, value: &TypedExpr, ty: ValueType) -> SpecialisationArg {
        let ExprKind::View { array, indices } = &value.kind else { return SpecialisationArg::Value(ty) };
        let given = indices.iter().filter_map(|index| match index.kind {
            ExprKind::Slice(_) => Some(ViewIndex::Slice),
            ExprKind::Gather(_) => Some(ViewIndex::Gather),
            _ => index.ty.as_value().map(ViewIndex::At),
        });
        match self.fixed.get(array) {
            Some(fixed) => SpecialisationArg::Own(fixed.clone(), given.collect()),
            None => SpecialisationArg::View(self.local_type(*array), given.collect()),
        }
    }

    /// The arguments that stand for one: of a view, the array and its first indices.
    pub(super) fn passed(&self, value: TypedExpr) -> Vec<TypedExpr> {
        match value.kind {
            ExprKind::View { array, indices } => {
                let whole = TypedExpr::new(ExprKind::Local(array), ExprType::Value(self.local_type(array)), value.span);
                let indices = indices.into_iter().flat_map(|index| match index.kind {
                    ExprKind::Slice(parts) => parts.to_vec(),
                    ExprKind::Gather(indices) => vec![*indices],
                    _ => vec![index],
                });
                std::iter::once(whole).chain(indices).collect()
            }
            _ => vec![value],
        }
    }

    /// The array that a call gives, if it is one of the function's own.
    pub(super) fn own_result_of(&self, value: &TypedExpr) -> Option<LocalArray> {
        let function = value.called()?;
        self.compilation.program.functions.get(function.0 as usize)?.own_result.clone()
    }

    /// Rejects a part of an array where an array is kept: in a field, or under several names.
    pub(super) fn not_kept(&mut self, view: &TypedExpr) -> TypedExpr {
        let help = "give it a name, or pass it to a function, on its own";
        self.reject(
            Code::Unsupported,
            view.span,
            "a part of an array, or one of the kernel's own, cannot be kept here",
            help,
        )
    }

    /// Returns what is wrong with a part of an array where one element is needed.
    pub(super) fn too_few_indices(&mut self, view: &TypedExpr) -> Option<TypedExpr> {
        let ExprKind::View { array, indices } = &view.kind else { return None };
        if indices.is_empty() {
            return None;
        }
        if indices.iter().any(is_slice) {
            let help = "assign its elements, in a loop if there are several";
            return Some(self.reject(Code::Unsupported, view.span, "a slice of an array cannot be assigned", help));
        }
        let n_dims = indices.len() + usize::from(view.ty.as_value()?.as_any_array()?.1);
        let name = self.locals[array.0 as usize].name.clone();
        let message = format!(
            "`{name}` has {}, but {} given",
            count(n_dims, "dimension", "dimensions"),
            count(indices.len(), "index is", "indices are"),
        );
        let names = &["i", "j", "k", "l"][..n_dims.min(4)];
        let help = format!("write one index for each dimension: `{name}[{}]`", names.join(", "));
        Some(self.reject(Code::BadRank, view.span, message, help))
    }
}

/// An operand array with the indices of its view before those that follow; `None` for an array of the kernel's own.
pub(super) fn spread_view(
    arg: TypedExpr,
    ty_of: impl Fn(LocalId) -> Type,
    is_own: impl Fn(LocalId) -> bool,
) -> Option<Vec<TypedExpr>> {
    match arg.kind {
        ExprKind::View { array, .. } if is_own(array) => None,
        ExprKind::View { array, indices } => {
            let whole = TypedExpr::new(ExprKind::Local(array), ExprType::Value(ty_of(array)), arg.span);
            Some(std::iter::once(whole).chain(indices).collect())
        }
        _ => Some(vec![arg]),
    }
}

pub(super) fn int_op(op: Op, left: TypedExpr, right: TypedExpr, span: Span) -> TypedExpr {
    TypedExpr::new(
        ExprKind::Op { op, args: vec![left, right], updates: smallvec![] },
        ExprType::scalar(Scalar::I32),
        span,
    )
}
