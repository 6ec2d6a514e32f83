//! Slices of arrays: `a[1:n]`, `a[::2, 1]`, `a[i, ::-1]`.
//!
//! A slice is a view as a row is, with a [`ExprKind::Slice`] among its indices for every axis that is left: an index of
//! the view is one of the array by `start + index * step`. Bounds may be run-time values of any integer type, and are
//! clamped as Python's are; all three of a slice's numbers are `int32`, as the extents of arrays are.
//!
//! Design: `docs/design/array-views.md`.

use super::component_expr::constant_index;
use super::function::FunctionChecker;
use super::temporaries::Temporaries;
use crate::builtin_function::BuiltinFunction;
use crate::dotted_path::dotted;
use crate::environment::CapturedMeaning;
use crate::typed_ast::{ElementPlace, ExprKind, ExprType, TypedExpr};
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Code, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use ruff_python_ast::visitor::{self, Visitor};
use smallvec::smallvec;

/// How many values a starred slice may stand for: as many as a vector has components.
const MAX_SPREAD: i128 = 1024;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// `start:stop:step` along an axis of this extent.
    pub(super) fn array_slice(&mut self, slice: &'a ast::ExprSlice, extent: TypedExpr) -> Option<TypedExpr> {
        let span = self.span(slice);
        let int = |n: i32| TypedExpr::constant(n as u32 as u64, Scalar::I32, span);
        let mut bounds = [None, None, None];
        for (bound, expr) in bounds.iter_mut().zip([&slice.lower, &slice.upper, &slice.step]) {
            let Some(expr) = expr else { continue };
            if self.has_effect(expr) {
                let at = self.span(&**expr);
                let help = "assign the bound to a variable first";
                self.reject(Code::Unsupported, at, "the bound of a slice would be computed several times", help);
                return None;
            }
            let index = self.index(expr);
            if index.is_error() {
                return None;
            }
            *bound = Some(saturated(index));
        }
        let [lower, upper, step] = bounds;
        let step = step.unwrap_or_else(|| int(1));
        let last = || add(extent.clone(), int(-1));
        // A step of -2^31 has no magnitude. Counting by one more gives the same elements, because no array has 2^31.
        let smallest = -i32::MAX;
        let step = match constant_index(&step) {
            Some(known) => int((known as i32).max(smallest)),
            None => op(Op::Max, step, int(smallest), Type::I32),
        };
        // Counting backwards may begin and end before the first element.
        let (least, most, length, size) = match constant_index(&step) {
            Some(0) => {
                self.reject(Code::ConstantRange, span, "Slice step cannot be zero", "write another step");
                return None;
            }
            Some(known) if known > 0 => (int(0), extent.clone(), None, int(known as i32)),
            Some(known) => (int(-1), last(), Some(true), int(-known as i32)),
            None => {
                let forward = op(Op::Gt, step.clone(), int(0), Type::BOOL);
                let pick = |a, b| select(forward.clone(), a, b);
                let size = pick(step.clone(), op(Op::Sub, int(0), step.clone(), Type::I32));
                (pick(int(0), int(-1)), pick(extent.clone(), last()), Some(false), size)
            }
        };
        let clamped = |bound: TypedExpr| {
            let from_start = match constant_index(&bound) {
                Some(known) if known >= 0 => bound,
                Some(_) => add(bound, extent.clone()),
                None => {
                    let is_negative = op(Op::Lt, bound.clone(), int(0), Type::BOOL);
                    select(is_negative, add(bound.clone(), extent.clone()), bound)
                }
            };
            op(Op::Min, op(Op::Max, from_start, least.clone(), Type::I32), most.clone(), Type::I32)
        };
        if lower.is_none() && upper.is_none() && length.is_none() && constant_index(&size) == Some(1) {
            return Some(sliced(int(0), step, extent, span));
        }
        let is_backward = |a: TypedExpr, b: TypedExpr| match length {
            None => b,
            Some(true) => a,
            Some(false) => select(op(Op::Gt, step.clone(), int(0), Type::BOOL), b, a),
        };
        let start = match lower {
            Some(lower) => clamped(lower),
            None => is_backward(most.clone(), least.clone()),
        };
        let stop = match upper {
            Some(upper) => clamped(upper),
            None => is_backward(least.clone(), most.clone()),
        };
        let sub = |a: &TypedExpr, b: &TypedExpr| op(Op::Sub, a.clone(), b.clone(), Type::I32);
        let reach = is_backward(sub(&start, &stop), sub(&stop, &start));
        let n = match constant_index(&size) {
            Some(1) => op(Op::Max, reach, int(0), Type::I32),
            known => {
                // Not `(reach + size - 1) / size`, which overflows. The division by a step of 0, which gives no
                // elements, is what checked mode reports.
                let whole = op(Op::Div, op(Op::Sub, reach.clone(), int(1), Type::I32), size.clone(), Type::I32);
                let mut n = op(Op::Add, whole, int(1), Type::I32);
                if known.is_none() {
                    n = select(op(Op::Gt, size, int(0), Type::BOOL), n, int(0));
                }
                select(op(Op::Gt, reach, int(0), Type::BOOL), n, int(0))
            }
        };
        Some(sliced(start, step, n, span))
    }

    /// Returns the elements that `*array[start:stop]` stands for among arguments; `None` if this is no slice of an array
    /// of one dimension. How many there are is known when the kernel is compiled.
    pub(super) fn spread_slice(&mut self, subscript: &'a ast::ExprSubscript, span: Span) -> Option<Vec<TypedExpr>> {
        let ast::Expr::Slice(slice) = &*subscript.slice else { return None };
        let (ast::Expr::Name(_) | ast::Expr::Attribute(_)) = &*subscript.value else { return None };
        let array = self.value(&subscript.value);
        let (_, 1) = array.ty.as_value()?.as_any_array()? else { return None };
        let Some(upper) = &slice.upper else {
            let message = "a starred slice of an array requires explicit upper bound";
            return Some(vec![self.reject(Code::Unsupported, span, message, "write where it ends: `*a[:3]`")]);
        };
        let mut bounds = [0, 0, 1];
        for (place, (bound, expr)) in
            bounds.iter_mut().zip([slice.lower.as_ref(), Some(upper), slice.step.as_ref()]).enumerate()
        {
            let Some(expr) = expr else { continue };
            let index = self.index(expr);
            if index.is_error() {
                return Some(vec![index]);
            }
            let (message, help) = match constant_index(&index) {
                None => {
                    ("Slice component must be a compile-time constant", "write numbers, or each element by its index")
                }
                Some(known) if known < 0 && place == 2 => {
                    ("the step cannot be negative in a starred slice of an array", "write each element by its index")
                }
                Some(known) if known < 0 => {
                    ("the bounds of a starred slice cannot be negative for arrays", "count from the first element")
                }
                Some(0) if place == 2 => ("Slice step cannot be zero", "write another step"),
                Some(known) => {
                    *bound = known;
                    continue;
                }
            };
            return Some(vec![self.reject(Code::Unsupported, index.span, message, help)]);
        }
        let [start, stop, step] = bounds;
        let n = if stop > start { (stop - start - 1) / step + 1 } else { 0 };
        if n > MAX_SPREAD {
            let message = format!("a starred slice stands for at most {MAX_SPREAD} values, not {n}");
            return Some(vec![self.reject(Code::Unsupported, span, message, "write a loop over the elements")]);
        }
        Some((0..n).map(|k| self.element_at(array.clone(), start + k * step, span)).collect())
    }

    /// The element of an array of one dimension at a constant index.
    fn element_at(&mut self, array: TypedExpr, index: i128, span: Span) -> TypedExpr {
        let Some((elem, _)) = array.ty.as_value().and_then(Type::as_any_array) else { return TypedExpr::error(span) };
        let index = TypedExpr::constant(index as u64, Scalar::I32, span);
        let (array, indices) = match array.kind {
            ExprKind::View { array: local, indices } => {
                let all = self.composed(indices, vec![index]);
                if self.fixed.contains_key(&local) {
                    let element = self.indexed_own(local, all, smallvec![], span);
                    return self.indexed_value(element, span);
                }
                let whole = self.local_type(local);
                (TypedExpr::new(ExprKind::Local(local), ExprType::Value(whole), array.span), all.into())
            }
            _ => (array, smallvec![index]),
        };
        let element = ElementPlace { array: Box::new(array), indices, span };
        TypedExpr::new(ExprKind::Load(Box::new(element)), ExprType::Value(elem), span)
    }

    /// Returns true if an expression calls what may do more than give a value.
    pub(super) fn has_effect(&mut self, expr: &'a ast::Expr) -> bool {
        struct CallFinder<'a>(Vec<&'a ast::Expr>);
        impl<'a> Visitor<'a> for CallFinder<'a> {
            fn visit_expr(&mut self, expr: &'a ast::Expr) {
                if let ast::Expr::Call(call) = expr {
                    self.0.push(&call.func);
                }
                visitor::walk_expr(self, expr);
            }
        }
        let mut calls = CallFinder(Vec::new());
        calls.visit_expr(expr);
        calls.0.into_iter().any(|callee| match dotted(callee).and_then(|path| self.capture(&path)) {
            Some(CapturedMeaning::Builtin(BuiltinFunction::Op(op))) => {
                let mut params = op.info().signatures.iter().flat_map(|signature| &signature.params);
                op.info().effect != OpEffect::Pure || params.any(|param| param.inout)
            }
            Some(CapturedMeaning::Builtin(_) | CapturedMeaning::Type(_) | CapturedMeaning::Composite(_)) => false,
            _ => true,
        })
    }

    /// The view that an indexed array is, of its array and the indices for each axis.
    pub(super) fn indexed_array(&self, leaves: Vec<TypedExpr>, span: Span) -> Option<TypedExpr> {
        let mut leaves = leaves.into_iter();
        let ExprKind::Local(array) = leaves.next()?.kind else { return None };
        let axes = leaves
            .map(|indices| TypedExpr::new(ExprKind::Gather(Box::new(indices)), ExprType::scalar(Scalar::I32), span));
        self.view(array, axes.collect(), span)
    }

    /// The indices of an array that those of a view come to, which has these itself.
    pub(super) fn composed(&mut self, view: Vec<TypedExpr>, given: Vec<TypedExpr>) -> Vec<TypedExpr> {
        let mut given = given.into_iter();
        let mut all: Vec<TypedExpr> = Vec::with_capacity(view.len());
        for index in view {
            let parts = match &index.kind {
                ExprKind::Slice(parts) => parts,
                ExprKind::Gather(indices) => {
                    let gathered = match given.next() {
                        None => index,
                        Some(at) if is_slice(&at) => {
                            let help = "index single elements, in a loop if there are several";
                            self.reject(
                                Code::Unsupported,
                                at.span,
                                "a slice of an indexed array is not supported",
                                help,
                            )
                        }
                        Some(at) => gathered(indices, at),
                    };
                    all.push(gathered);
                    continue;
                }
                _ => {
                    all.push(index);
                    continue;
                }
            };
            let [start, step, extent] = &**parts;
            let at = |index| add(start.clone(), multiply(index, step.clone()));
            all.push(match given.next() {
                None => index,
                Some(inner) => match inner.kind {
                    ExprKind::Slice(inner_parts) => {
                        let [first, inner_step, n] = *inner_parts;
                        sliced(at(first), multiply(inner_step, step.clone()), n, inner.span)
                    }
                    _ => {
                        let span = inner.span;
                        let mut held = Temporaries::default();
                        let is_wide = inner.ty.as_value().is_some_and(|ty| !fits_in_int(ty));
                        let inner = self.hold(saturated(inner), &mut held);
                        let inner = match constant_index(&inner) {
                            Some(known) if known >= 0 => inner,
                            Some(_) => add(inner, extent.clone()),
                            None => {
                                let zero = TypedExpr::constant(0, Scalar::I32, span);
                                let is_negative = op(Op::Lt, inner.clone(), zero, Type::BOOL);
                                select(is_negative, add(inner.clone(), extent.clone()), inner)
                            }
                        };
                        let inner = held.around(inner);
                        if is_wide {
                            // An index out of bounds stays out of bounds, because it is computed in 64 bits: an `int32`
                            // would wrap around.
                            let [start, step, index] = [start, step, &inner].map(|e| cast(e.clone(), Scalar::I64));
                            let moved = op(Op::Mul, index, step, Scalar::I64.into());
                            all.push(op(Op::Add, start, moved, Scalar::I64.into()));
                            continue;
                        }
                        at(inner)
                    }
                },
            });
        }
        all.extend(given);
        all
    }
}

/// Returns true if an index of a view leaves its axis: a slice, or the indices of an indexed array.
pub(super) fn is_slice(index: &TypedExpr) -> bool {
    matches!(index.kind, ExprKind::Slice(_) | ExprKind::Gather(_))
}

/// The index that an indexed array has at a place.
fn gathered(indices: &TypedExpr, at: TypedExpr) -> TypedExpr {
    let span = at.span;
    let element = ElementPlace { array: Box::new(indices.clone()), indices: smallvec![at], span };
    TypedExpr::new(ExprKind::Load(Box::new(element)), ExprType::scalar(Scalar::I32), span)
}

/// A slice among the indices of a view.
pub(super) fn sliced(start: TypedExpr, step: TypedExpr, extent: TypedExpr, span: Span) -> TypedExpr {
    TypedExpr::new(ExprKind::Slice(Box::new([start, step, extent])), ExprType::scalar(Scalar::I32), span)
}

/// True if an `int32` holds every value of an integer type.
fn fits_in_int(ty: Type) -> bool {
    ty.as_scalar().is_some_and(|scalar| scalar.bits() < 32 || scalar == Scalar::I32)
}

/// An index or bound of any integer type as the nearest `int32`, because no axis is so long that it makes a difference,
/// while the lowest 32 bits would be those of another element.
pub(super) fn saturated(index: TypedExpr) -> TypedExpr {
    let span = index.span;
    if let Some(known) = constant_index(&index) {
        let nearest = known.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        return TypedExpr::constant(nearest as u32 as u64, Scalar::I32, span);
    }
    let Some(ty) = index.ty.as_value() else { return index };
    let Some(scalar) = ty.as_scalar().filter(|_| !fits_in_int(ty)) else { return cast(index, Scalar::I32) };
    let bound = |bound: i32| TypedExpr::constant(i64::from(bound) as u64, scalar, span);
    let mut nearest = op(Op::Min, index, bound(i32::MAX), ty);
    if scalar.is_signed_int() {
        nearest = op(Op::Max, nearest, bound(i32::MIN), ty);
    }
    cast(nearest, Scalar::I32)
}

/// The extent along an axis that an index says when the code runs: negative ones count from the end, and what is no axis has
/// the extent 0, as in Warp's shapes. `axis` is held, because it is compared with every axis.
pub(super) fn extent_along(extents: Vec<TypedExpr>, axis: &TypedExpr, span: Span) -> TypedExpr {
    let n_axes = extents.len() as i32;
    let is = |number: i32| {
        let number = TypedExpr::constant(number as u32 as u64, Scalar::I32, span);
        op(Op::Eq, axis.clone(), number, Type::BOOL)
    };
    let none = TypedExpr::constant(0, Scalar::I32, span);
    (0..n_axes).zip(extents).fold(none, |rest, (number, extent)| {
        let from_end = select(is(number - n_axes), extent.clone(), rest);
        select(is(number), extent, from_end)
    })
}

/// A value as another scalar type.
fn cast(value: TypedExpr, scalar: Scalar) -> TypedExpr {
    if value.ty == ExprType::scalar(scalar) {
        return value;
    }
    let span = value.span;
    TypedExpr::new(ExprKind::Cast(Box::new(value)), ExprType::scalar(scalar), span)
}

fn op(op: Op, a: TypedExpr, b: TypedExpr, ty: Type) -> TypedExpr {
    let span = a.span;
    TypedExpr::new(ExprKind::Op { op, args: vec![a, b], updates: smallvec![] }, ExprType::Value(ty), span)
}

fn select(cond: TypedExpr, a: TypedExpr, b: TypedExpr) -> TypedExpr {
    let span = a.span;
    let kind = ExprKind::Op { op: Op::Select, args: vec![cond, a, b], updates: smallvec![] };
    TypedExpr::new(kind, ExprType::scalar(Scalar::I32), span)
}

fn add(a: TypedExpr, b: TypedExpr) -> TypedExpr {
    match (constant_index(&a), constant_index(&b)) {
        (Some(0), _) => b,
        (_, Some(0)) => a,
        _ => op(Op::Add, a, b, Type::I32),
    }
}

fn multiply(a: TypedExpr, b: TypedExpr) -> TypedExpr {
    match (constant_index(&a), constant_index(&b)) {
        (Some(1), _) => b,
        (_, Some(1)) => a,
        _ => op(Op::Mul, a, b, Type::I32),
    }
}
