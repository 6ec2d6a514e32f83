//! The rule of products of matrices.

use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};

/// It is `g @ transpose(b)` by `a`, and `transpose(a) @ g` by `b`, summed over the batches that an operand is repeated for.
pub(super) fn matmul<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (a, b) = (q.x[0], q.x[1]);
    let is_row = a.rank() == 1;
    let is_column = b.rank() == 1;
    // The result lacks the axis of a vector, which is a matrix of one row or one column.
    let mut shape = q.g.shape();
    if is_row {
        shape.0.insert(shape.rank() - usize::from(!is_column), Dim::Static(1));
    }
    if is_column {
        shape.0.push(Dim::Static(1));
    }
    let g = q.g.reshape(&shape);
    let a_matrix = if is_row { with_axis(a, 0) } else { a };
    let b_matrix = if is_column { with_axis(b, 1) } else { b };
    let by_a = g.binary(TensorOp::MatMul, b_matrix.transpose()).fit(&a_matrix.shape());
    let by_b = match (flattened(a_matrix), flattened(g)) {
        // A batch of matrices times one matrix is one product with all rows. So is its gradient, where a batch of products and
        // their sum would need the memory of the batch.
        (Some(a_rows), Some(g_rows)) if b_matrix.rank() == 2 && a_matrix.rank() > 2 => {
            a_rows.transpose().binary(TensorOp::MatMul, g_rows)
        }
        _ => a_matrix.transpose().binary(TensorOp::MatMul, g).fit(&b_matrix.shape()),
    };
    vec![Some(by_a.reshape(&a.shape())), Some(by_b.reshape(&b.shape()))]
}

/// Inserts an axis of extent 1 into a vector.
fn with_axis(x: TensorExpr<'_>, axis: usize) -> TensorExpr<'_> {
    let mut shape = x.shape();
    shape.0.insert(axis, Dim::Static(1));
    x.reshape(&shape)
}

/// Returns the rows of all matrices of a batch as one matrix, if their number is known.
fn flattened(x: TensorExpr<'_>) -> Option<TensorExpr<'_>> {
    let shape = x.shape();
    let (columns, rows) = shape.0.split_last()?;
    let n_rows = Shape(rows.to_vec()).n_elements()?;
    Some(x.reshape(&Shape(vec![Dim::Static(n_rows), columns.clone()])))
}

/// It is the contraction of the cotangent with the other operand, because each label of an operand is one of the result or of the
/// other operand.
pub(super) fn contract<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let [a, b, labels] = [0, 1, 2].map(|index| q.attributes[index].ints());
    let by_a = q.g.contract(q.x[1], [&labels, &b, &a]);
    let by_b = q.g.contract(q.x[0], [&labels, &a, &b]);
    vec![Some(by_a), Some(by_b)]
}
