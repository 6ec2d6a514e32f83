//! Attention.

use super::{OpCall, StoredKind, TranslatedValue, Translator};
use crate::attribute::AttributeValue;
use crate::builder::convert;
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::plan::expression::{ExpressionId, ExpressionKind, ViewMap};
use crate::plan::reduction::{ReductionSpace, accumulator};
use crate::plan::tile::AttentionTile;
use crate::reference::N_KEYS;
use polyloom_ir::Scalar;

/// The inner axes of the space: blocks of keys, the width of a key, the keys of a block, all keys, and the width of a value.
const BLOCK: usize = 0;
const WIDTH: usize = 1;
const KEY_OF_BLOCK: usize = 2;
const KEY: usize = 3;
const VALUE: usize = 4;

impl Translator<'_> {
    /// Keys are stored block by block, so that neighbouring threads load neighbouring keys.
    pub(super) fn attend(&mut self, call: &OpCall<'_>, operands: &[TranslatedValue]) -> ExpressionId {
        let [q, k, v] = operands else { return operands[0].expression };
        let is_causal = call.attributes[0] == AttributeValue::Bool(true);
        let dtype = accumulator(call.dtype);
        let (batch, &[n_queries, value_width]) = call.extents.split_at(call.extents.len() - 2) else {
            return q.expression;
        };
        let [n_keys, width] = [k.extents[k.extents.len() - 2], k.extents[k.extents.len() - 1]];
        let scale = match call.attributes[1] {
            AttributeValue::Float(scale) => scale,
            _ => 1.0 / (width as f64).sqrt(),
        };
        let scale = convert(Scalar::F64, scale.to_bits(), dtype);
        let scale = self.arena.intern(ExpressionKind::Constant(scale), dtype);
        let n_blocks = n_keys.div_ceil(N_KEYS);
        let inner = vec![n_blocks, width, N_KEYS, n_keys, value_width];
        let outer = [batch, &[n_queries]].concat();
        let query = batch.len();
        let first = outer.len();
        let space = [&outer[..], &inner[..]].concat();
        let q = self.along(q, batch, &space, &[query, first + WIDTH]);
        let v = self.along(v, batch, &space, &[first + KEY, first + VALUE]);
        let blocks = self.blocks_of_keys(k);
        let k = self.along(&blocks, batch, &space, &[first + BLOCK, first + WIDTH, first + KEY_OF_BLOCK]);
        let tile = AttentionTile::choose(n_queries, value_width, dtype, is_causal, self.options);
        let space = ReductionSpace::of_attention(outer, inner, tile);
        let operands = vec![q, k, v, scale];
        let kind = StoredKind::Reduction { op: TensorOp::Attention, operands, space };
        let stored = self.store(call.dtype, call.extents, kind);
        self.load(stored, Layout::dense(call.extents))
    }

    /// Returns the load of a value over a space, whose axes the last ones of the value are; those before are a batch, that
    /// broadcasts.
    fn along(&mut self, value: &TranslatedValue, batch: &[u64], space: &[u64], axes: &[usize]) -> ExpressionId {
        let own = value.extents.len() - axes.len();
        let extents = [batch, &value.extents[own..]].concat();
        let loaded = match self.arena.get(value.expression).kind {
            ExpressionKind::Load(..) => value.expression,
            _ => self.load_stored(value.expression, &value.extents),
        };
        let loaded = self.viewed(loaded, &value.extents, &ViewMap::Broadcast(extents));
        let dtype = self.arena.dtype(loaded);
        let ExpressionKind::Load(source, layout) = self.arena.get(loaded).kind.clone() else { return loaded };
        let mut strides = vec![0; space.len()];
        strides[..batch.len()].copy_from_slice(&layout.strides[..batch.len()]);
        for (&axis, &stride) in axes.iter().zip(&layout.strides[batch.len()..]) {
            strides[axis] = stride;
        }
        let layout = Layout { extents: space.to_vec(), strides, offset: layout.offset };
        self.arena.intern(ExpressionKind::Load(source, layout), dtype)
    }

    /// Stores keys as `[batch…, block, element, key of the block]`, with zeros after the last key.
    fn blocks_of_keys(&mut self, k: &TranslatedValue) -> TranslatedValue {
        let n = k.extents.len() - 2;
        let (batch, &[n_keys, width]) = k.extents.split_at(n) else { return k.clone() };
        let whole = n_keys / N_KEYS;
        let rest = n_keys % N_KEYS;
        let extents = [batch, &[n_keys.div_ceil(N_KEYS), width, N_KEYS]].concat();
        let dense = Layout::dense(&extents);
        let mut parts = Vec::new();
        for (first_block, n_blocks, n_of_block) in [(0, whole, N_KEYS), (whole, 1, rest)] {
            if n_blocks * n_of_block == 0 {
                continue;
            }
            let starts = std::iter::repeat_n(0, n).chain([(first_block * N_KEYS) as i64, 0]).collect();
            let sizes = [batch, &[n_blocks * n_of_block, width]].concat();
            let slice = ViewMap::Slice { starts, sizes: sizes.clone(), steps: vec![1; n + 2] };
            let taken = self.viewed(k.expression, &k.extents, &slice);
            let cut = [batch, &[n_blocks, n_of_block, width]].concat();
            let taken = self.viewed(taken, &sizes, &ViewMap::Reshape(cut.clone()));
            let axes = (0..n).chain([n, n + 2, n + 1]).collect();
            let value = self.viewed(taken, &cut, &ViewMap::Permute(axes));
            let starts: Vec<i64> = std::iter::repeat_n(0, n).chain([first_block as i64, 0, 0]).collect();
            let sizes = [batch, &[n_blocks, width, n_of_block]].concat();
            parts.push((value, dense.sliced(&starts, &sizes, &vec![1; n + 3])));
        }
        let dtype = self.arena.dtype(k.expression);
        let zero = self.arena.intern(ExpressionKind::Constant(0), dtype);
        let kind = StoredKind::Assembled { parts, fill: (rest > 0).then_some(zero) };
        let stored = self.store(dtype, &extents, kind);
        TranslatedValue { expression: self.load(stored, dense), extents }
    }
}
