//! Slices of arrays: `a[1:n]`, `a[::2, 1]`, `a[i, ::-1]`.
//!
//! A slice is a view as a row is, with a [`ExprKind::Slice`] among its indices for every axis that is left: an index of
//! the view is one of the array by `start + index * step`. Bounds may be run-time values, and are clamped as Python's
//! are.

use super::composite::{Held, constant_index};
use super::function::Checker;
use crate::environment::{Builtin, Captured};
use crate::source::dotted;
use crate::typed_ast::{Element, Expr, ExprKind, ExprType};
use polyloom_ir::op::Effect;
use polyloom_ir::{Code, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use ruff_python_ast::visitor::{self, Visitor};
use smallvec::smallvec;

impl<'a> Checker<'_, '_, 'a> {
    /// `start:stop:step` along an axis of this extent.
    pub(super) fn array_slice(&mut self, slice: &'a ast::ExprSlice, extent: Expr) -> Option<Expr> {
        let span = self.span(slice);
        let int = |n: i32| Expr::constant(n as u32 as u64, Scalar::I32, span);
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
            let at = index.span;
            let index = self.convert(index, Scalar::I32, at);
            if index.is_error() {
                return None;
            }
            *bound = Some(index);
        }
        let [lower, upper, step] = bounds;
        let step = step.unwrap_or_else(|| int(1));
        let last = || add(extent.clone(), int(-1));
        // Where counting may begin and end: before the first element, if it goes backwards.
        let (least, most, length, size) = match constant_index(&step) {
            Some(0) => {
                self.reject(Code::ConstantRange, span, "the step of a slice must not be zero", "write another step");
                return None;
            }
            Some(known) if known > 0 => (int(0), extent.clone(), None, int(known as i32)),
            Some(known) => (int(-1), last(), Some(true), int(-known as i32)),
            None => {
                let forward = op(Op::Gt, step.clone(), int(0), Type::BOOL);
                let pick = |a, b| select(forward.clone(), a, b);
                let size =
                    op(Op::Max, pick(step.clone(), op(Op::Sub, int(0), step.clone(), Type::I32)), int(1), Type::I32);
                (pick(int(0), int(-1)), pick(extent.clone(), last()), Some(false), size)
            }
        };
        let clamped = |bound: Expr| {
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
        let is_backward = |a: Expr, b: Expr| match length {
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
        let sub = |a: &Expr, b: &Expr| op(Op::Sub, a.clone(), b.clone(), Type::I32);
        let reach = is_backward(sub(&start, &stop), sub(&stop, &start));
        let reach = op(Op::Max, reach, int(0), Type::I32);
        let n = match constant_index(&size) {
            Some(1) => reach,
            _ => op(Op::Div, add(reach, op(Op::Sub, size.clone(), int(1), Type::I32)), size, Type::I32),
        };
        Some(sliced(start, step, n, span))
    }

    /// Whether an expression calls what may do more than give a value.
    pub(super) fn has_effect(&mut self, expr: &'a ast::Expr) -> bool {
        struct Calls<'a>(Vec<&'a ast::Expr>);
        impl<'a> Visitor<'a> for Calls<'a> {
            fn visit_expr(&mut self, expr: &'a ast::Expr) {
                if let ast::Expr::Call(call) = expr {
                    self.0.push(&call.func);
                }
                visitor::walk_expr(self, expr);
            }
        }
        let mut calls = Calls(Vec::new());
        calls.visit_expr(expr);
        calls.0.into_iter().any(|callee| match dotted(callee).and_then(|path| self.capture(&path)) {
            Some(Captured::Builtin(Builtin::Op(op))) => {
                let mut params = op.info().signatures.iter().flat_map(|signature| &signature.params);
                op.info().effect != Effect::Pure || params.any(|param| param.inout)
            }
            Some(Captured::Builtin(_) | Captured::Type(_) | Captured::Composite(_)) => false,
            _ => true,
        })
    }

    /// The view that an indexed array is, of its array and the indices for each axis.
    pub(super) fn indexed_array(&self, leaves: Vec<Expr>, span: Span) -> Option<Expr> {
        let mut leaves = leaves.into_iter();
        let ExprKind::Local(array) = leaves.next()?.kind else { return None };
        let axes =
            leaves.map(|indices| Expr::new(ExprKind::Gather(Box::new(indices)), ExprType::scalar(Scalar::I32), span));
        self.view(array, axes.collect(), span)
    }

    /// The indices of an array that those of a view come to, which has these itself.
    pub(super) fn composed(&mut self, view: Vec<Expr>, given: Vec<Expr>) -> Vec<Expr> {
        let mut given = given.into_iter();
        let mut all: Vec<Expr> = Vec::with_capacity(view.len());
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
                        let mut held = Held::default();
                        let inner = self.hold(as_int(inner), &mut held);
                        let inner = match constant_index(&inner) {
                            Some(known) if known >= 0 => inner,
                            Some(_) => add(inner, extent.clone()),
                            None => {
                                let zero = Expr::constant(0, Scalar::I32, span);
                                let is_negative = op(Op::Lt, inner.clone(), zero, Type::BOOL);
                                select(is_negative, add(inner.clone(), extent.clone()), inner)
                            }
                        };
                        at(held.around(inner))
                    }
                },
            });
        }
        all.extend(given);
        all
    }
}

/// Whether an index of a view leaves its axis: a slice, or the indices of an indexed array.
pub(super) fn is_slice(index: &Expr) -> bool {
    matches!(index.kind, ExprKind::Slice(_) | ExprKind::Gather(_))
}

/// The index that an indexed array has at a place.
fn gathered(indices: &Expr, at: Expr) -> Expr {
    let span = at.span;
    let element = Element { array: Box::new(indices.clone()), indices: smallvec![at], span };
    Expr::new(ExprKind::Load(Box::new(element)), ExprType::scalar(Scalar::I32), span)
}

/// A slice among the indices of a view.
pub(super) fn sliced(start: Expr, step: Expr, extent: Expr, span: Span) -> Expr {
    Expr::new(ExprKind::Slice(Box::new([start, step, extent])), ExprType::scalar(Scalar::I32), span)
}

/// An index as `int32`.
fn as_int(index: Expr) -> Expr {
    if index.ty == ExprType::scalar(Scalar::I32) {
        return index;
    }
    let span = index.span;
    Expr::new(ExprKind::Cast(Box::new(index)), ExprType::scalar(Scalar::I32), span)
}

fn op(op: Op, a: Expr, b: Expr, ty: Type) -> Expr {
    let span = a.span;
    Expr::new(ExprKind::Op { op, args: vec![a, b], updates: smallvec![] }, ExprType::Value(ty), span)
}

fn select(cond: Expr, a: Expr, b: Expr) -> Expr {
    let span = a.span;
    let kind = ExprKind::Op { op: Op::Select, args: vec![cond, a, b], updates: smallvec![] };
    Expr::new(kind, ExprType::scalar(Scalar::I32), span)
}

fn add(a: Expr, b: Expr) -> Expr {
    match (constant_index(&a), constant_index(&b)) {
        (Some(0), _) => b,
        (_, Some(0)) => a,
        _ => op(Op::Add, a, b, Type::I32),
    }
}

fn multiply(a: Expr, b: Expr) -> Expr {
    match (constant_index(&a), constant_index(&b)) {
        (Some(1), _) => b,
        (_, Some(1)) => a,
        _ => op(Op::Mul, a, b, Type::I32),
    }
}
