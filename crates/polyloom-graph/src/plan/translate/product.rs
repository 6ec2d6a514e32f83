//! Products of matrices.

use super::reduce::kept_layout;
use super::{StoredKind, TranslatedValue, Translator};
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::plan::expression::{ExpressionId, ExpressionKind, ViewMap};
use crate::plan::reduction::ReductionSpace;
use polyloom_ir::Scalar;

impl Translator<'_> {
    pub(super) fn multiply(
        &mut self,
        a: &TranslatedValue,
        b: &TranslatedValue,
        extents: &[u64],
        dtype: Scalar,
    ) -> ExpressionId {
        let length = a.extents.last().copied().unwrap_or(1);
        let (a_is_row, b_is_column) = (a.extents.len() == 1, b.extents.len() == 1);
        let batch = &extents[..extents.len() - usize::from(!a_is_row) - usize::from(!b_is_column)];
        let rows = if a_is_row { 1 } else { a.extents[a.extents.len() - 2] };
        let columns = if b_is_column { 1 } else { b.extents[b.extents.len() - 1] };
        let space = [batch, &[rows, columns, length]].concat();
        // Elements of `a` are the same for all columns, those of `b` for all rows.
        let a_batch = &a.extents[..a.extents.len().saturating_sub(2)];
        let a_shape = [a_batch, &[rows, 1, length]].concat();
        let left = self.viewed(a.expression, &a.extents, &ViewMap::Reshape(a_shape.clone()));
        let left = self.viewed(left, &a_shape, &ViewMap::Broadcast(space.clone()));
        let b_batch = &b.extents[..b.extents.len().saturating_sub(2)];
        let b_shape = [b_batch, &[1, length, columns]].concat();
        let right = self.viewed(b.expression, &b.extents, &ViewMap::Reshape(b_shape.clone()));
        let mut axes: Vec<usize> = (0..b_shape.len()).collect();
        let last = axes.len() - 1;
        axes.swap(last, last - 1);
        let swapped = [b_batch, &[1, columns, length]].concat();
        let right = self.viewed(right, &b_shape, &ViewMap::Permute(axes));
        let right = self.viewed(right, &swapped, &ViewMap::Broadcast(space.clone()));
        let operands = [left, right].map(|factor| {
            let is_plain = matches!(self.arena.get(factor).kind, ExpressionKind::Load(..));
            if is_plain { factor } else { self.load_factor(factor, &space) }
        });
        let outer = space[..space.len() - 1].to_vec();
        let space = ReductionSpace::of_product(outer.clone(), length);
        let stored = self.store(
            dtype,
            &outer,
            StoredKind::Reduction { op: TensorOp::MatMul, operands: operands.to_vec(), space },
        );
        self.load(stored, Layout { extents: extents.to_vec(), ..kept_layout(&outer, extents) })
    }

    /// Stores a factor once for all rows or columns that it is repeated for.
    fn load_factor(&mut self, factor: ExpressionId, space: &[u64]) -> ExpressionId {
        let mut is_repeated = vec![true; space.len()];
        self.arena.visit(&[factor], |id| {
            if let ExpressionKind::Load(_, layout)
            | ExpressionKind::Place(layout)
            | ExpressionKind::Combined { layout, .. } = &self.arena.get(id).kind
            {
                for (axis, stride) in layout.strides.iter().enumerate() {
                    is_repeated[axis] &= *stride == 0;
                }
            }
        });
        let zeros = vec![0; space.len()];
        let sizes: Vec<u64> =
            space.iter().zip(&is_repeated).map(|(&n, &repeats)| if repeats { n.min(1) } else { n }).collect();
        let once = ViewMap::Slice { starts: zeros, sizes: sizes.clone(), steps: vec![1; space.len()] };
        let once = self.viewed(factor, space, &once);
        let loaded = self.load_stored(once, &sizes);
        self.viewed(loaded, &sizes, &ViewMap::Broadcast(space.to_vec()))
    }
}
