//! Programs that are a product of two matrices and nothing else, which the tensor engine computes on CPUs.
//!
//! The engine's products are chains of fused multiply-adds in ascending order, from 0. `sum = fma(a, b, sum)` is such a chain, so
//! that the bits are the same. `sum += a * b` rounds twice a term; the engine may compute it only where the float mode allows
//! to contract.

use super::program::{Extent, MatrixFactor, MatrixProduct, ProgramParam, ShapeSymbol};
use super::syntax::{BinaryOp, Expr, ExprKind, FunctionItem, LoopIndex, Stmt, StmtKind};
use rustc_hash::FxHashSet;

/// The product that a program is; `None` for any other program. `globals` has the names that the file gives a meaning.
pub(super) fn product_of(
    function: &FunctionItem,
    results: &[ProgramParam],
    symbols: &[ShapeSymbol],
    globals: &FxHashSet<&str>,
) -> Option<MatrixProduct> {
    let [Stmt { kind: StmtKind::For(outer), .. }] = &function.body.statements[..] else { return None };
    let ([row, column], [result]) = (&outer.indices[..], results) else { return None };
    let [declaration, inner, store] = &outer.body.statements[..] else { return None };
    if outer.is_serial || function.params.len() != 2 {
        return None;
    }
    let StmtKind::Declare { is_var: true, targets, ty: None, value: Some(zero) } = &declaration.kind else {
        return None;
    };
    let ([sum], ExprKind::Float(start, None)) = (&targets[..], &zero.kind) else { return None };
    if start.to_bits() != 0 {
        return None;
    }
    let StmtKind::For(inner) = &inner.kind else { return None };
    let ([depth], [term]) = (&inner.indices[..], &inner.body.statements[..]) else { return None };
    let StmtKind::Assign { targets, value } = &store.kind else { return None };
    let [stored] = &targets[..] else { return None };
    if value.as_name() != Some(&sum.name) || !is_element(stored, &result.name, row, column) {
        return None;
    }
    let (a, b, is_fused) = match &term.kind {
        StmtKind::Update { target, op: BinaryOp::Add, value } if target.as_name() == Some(&sum.name) => {
            match &value.kind {
                ExprKind::Binary(BinaryOp::Mul, a, b) => (&**a, &**b, false),
                _ => return None,
            }
        }
        StmtKind::Assign { targets, value } if matches!(&targets[..], [only] if only.as_name() == Some(&sum.name)) => {
            let ExprKind::Call { function, arguments, .. } = &value.kind else { return None };
            let [a, b, c] = &arguments[..] else { return None };
            // A function of the file may compute anything.
            if function.as_name() != Some("fma") || globals.contains("fma") || c.value.as_name() != Some(&sum.name) {
                return None;
            }
            (&a.value, &b.value, true)
        }
        _ => return None,
    };
    let factor = |of: &Expr, first: &LoopIndex, second: &LoopIndex| {
        let as_is =
            |first, second| function.params.iter().position(|param| is_element(of, &param.name.name, first, second));
        let found = as_is(first, second).map(|param| MatrixFactor { param, is_transposed: false });
        found.or_else(|| as_is(second, first).map(|param| MatrixFactor { param, is_transposed: true }))
    };
    // Factors may stand in either order: a product does not depend on it.
    let (left, right) = match (factor(a, row, depth), factor(b, depth, column)) {
        (Some(left), Some(right)) => (left, right),
        _ => (factor(b, row, depth)?, factor(a, depth, column)?),
    };
    // The loops run through all of the arrays.
    let runs_through = |index: &LoopIndex, factor: MatrixFactor, axis: usize| {
        let name = &function.params[factor.param].name.name;
        let [axis, _] = factor.turned([axis, 1 - axis]);
        let is_whole =
            matches!(index.start.kind, ExprKind::Int(0, None)) && index.step.is_none() && !index.is_inclusive;
        let symbol = index.end.as_name().and_then(|end| symbols.iter().find(|symbol| *symbol.name == *end));
        is_whole && symbol.is_some_and(|symbol| symbol.axes.iter().any(|(array, at)| **array == **name && *at == axis))
    };
    let is_whole = runs_through(row, left, 0)
        && runs_through(depth, left, 1)
        && runs_through(depth, right, 0)
        && runs_through(column, right, 1);
    let symbol = |index: &LoopIndex| Some(Some(Extent::Symbol(index.end.as_name()?.into())));
    let shape = [symbol(row)?, symbol(column)?];
    (is_whole && left.param != right.param && result.extents.as_ref()?[..] == shape).then_some(MatrixProduct {
        left,
        right,
        is_fused,
    })
}

/// Returns true for the element of an array at two indices alone.
fn is_element(expr: &Expr, array: &str, first: &LoopIndex, second: &LoopIndex) -> bool {
    let ExprKind::Index(of, indices) = &expr.kind else { return false };
    let [a, b] = &indices[..] else { return false };
    of.as_name() == Some(array) && a.as_name() == Some(&first.name.name) && b.as_name() == Some(&second.name.name)
}
