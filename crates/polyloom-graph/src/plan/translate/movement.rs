//! Views, and ops whose results are put together from parts.

use super::{OpCall, ScatterTarget, StoredKind, TranslatedValue, Translator};
use crate::attribute::AttributeValue;
use crate::builder::convert;
use crate::graph::{TensorDef, TensorId};
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::plan::expression::{ExpressionId, ExpressionKind, ViewMap};
use crate::plan::sort::SortOrder;
use polyloom_ir::Scalar;

impl Translator<'_> {
    pub(super) fn scan(&mut self, call: &OpCall<'_>, operands: &[TranslatedValue], axis: usize) -> ExpressionId {
        let whole = Layout::dense(call.extents);
        let order: Vec<usize> = (0..whole.extents.len()).filter(|&other| other != axis).chain([axis]).collect();
        let map = ViewMap::Permute(order.clone());
        let row_of = |translator: &mut Self, operand: &TranslatedValue| {
            let broadcast = translator.broadcast(operand, call.extents);
            translator.viewed(broadcast, call.extents, &map)
        };
        let rows = operands.iter().map(|operand| row_of(self, operand)).collect();
        let layout = whole.permuted(&order);
        let kind = StoredKind::Scan { op: call.op, operands: rows, extents: layout.extents.clone(), layout };
        let stored = self.store(call.dtype, call.extents, kind);
        self.load(stored, whole)
    }

    pub(super) fn gather(
        &mut self,
        x: &TranslatedValue,
        index: &TranslatedValue,
        axis: usize,
        extents: &[u64],
    ) -> ExpressionId {
        let loaded = match self.arena.get(x.expression).kind {
            ExpressionKind::Load(..) => x.expression,
            _ => self.load_stored(x.expression, &x.extents),
        };
        let index = self.broadcast(index, extents);
        let dtype = self.arena.dtype(loaded);
        let ExpressionKind::Load(source, layout) = self.arena.get(loaded).kind.clone() else { return loaded };
        let (n, stride) = (layout.extents[axis], layout.strides[axis]);
        let mut first = layout;
        first.extents[axis] = 1;
        let layout = first.broadcast_to(extents);
        self.arena.intern(ExpressionKind::Gather { source, layout, index, n, stride }, dtype)
    }

    pub(super) fn scatter_add(&mut self, operands: &[TranslatedValue], axis: usize, dtype: Scalar) -> ExpressionId {
        let [x, index, updates] = operands else { return operands[0].expression };
        let rank = x.extents.len();
        let order: Vec<usize> = (0..rank).filter(|&other| other != axis).chain([axis]).collect();
        let rows = ViewMap::Permute(order.clone());
        let index = self.broadcast(index, &updates.extents);
        let index = self.viewed(index, &updates.extents, &rows);
        let ordered = self.viewed(updates.expression, &updates.extents, &rows);
        let mut layout = Layout::dense(&x.extents).permuted(&order);
        let target = ScatterTarget { index, n: x.extents[axis], stride: layout.strides[rank - 1] };
        let extents: Vec<u64> = order.iter().map(|&axis| updates.extents[axis]).collect();
        layout.extents.clone_from(&extents);
        layout.strides[rank - 1] = 0;
        let kind = StoredKind::Scattered { base: x.expression, updates: ordered, extents, layout, target };
        let stored = self.store(dtype, &x.extents, kind);
        self.load(stored, Layout::dense(&x.extents))
    }

    /// Returns how many of the first elements along an axis are read of a value, if only those are.
    pub(super) fn n_read_of_first(&self, id: TensorId, axis: usize) -> Option<u64> {
        if self.graph.outputs.contains(&id) {
            return None;
        }
        let mut most = 0;
        for (_, value) in self.graph.iter().skip(id.0 as usize + 1) {
            let TensorDef::Op { op, operands, attributes } = &value.def else { continue };
            if !operands.contains(&id) {
                continue;
            }
            let (TensorOp::Slice, Some(extents)) = (op, value.ty.shape.as_static()) else { return None };
            let (start, step) = (attributes.0[0].ints()[axis], attributes.0[2].ints()[axis]);
            if start != 0 || step != 1 {
                return None;
            }
            most = most.max(extents[axis]);
        }
        Some(most)
    }

    /// Sorts along an axis. Of the result, the first `n_read` elements are enough.
    pub(super) fn sort_keys(
        &mut self,
        operand: &TranslatedValue,
        axis: usize,
        n_read: Option<u64>,
        dtype: Scalar,
    ) -> ExpressionId {
        let extents = &operand.extents;
        if extents[axis] <= 1 || extents.contains(&0) {
            return operand.expression;
        }
        let rank = extents.len();
        let n_rows = extents.iter().product::<u64>() / extents[axis];
        let sort_order = SortOrder::choose(n_rows, extents[axis], n_read, dtype, self.options);
        let others = (0..rank).filter(|&other| other != axis);
        let order: Vec<usize> = match sort_order {
            SortOrder::Rows => others.chain([axis]).collect(),
            _ => std::iter::once(axis).chain(others).collect(),
        };
        let base = self.viewed(operand.expression, extents, &ViewMap::Permute(order.clone()));
        let rows: Vec<u64> = order.iter().map(|&axis| extents[axis]).collect();
        let stored = self.store_once(dtype, &rows, StoredKind::Sorted { base, order: sort_order });
        let back = (0..rank).map(|axis| order.iter().position(|&other| other == axis).unwrap_or(axis));
        let layout = Layout::dense(&rows).permuted(&back.collect::<Vec<_>>());
        self.load(stored, layout)
    }

    pub(super) fn concat(
        &mut self,
        operands: &[TranslatedValue],
        axis: usize,
        extents: &[u64],
        dtype: Scalar,
    ) -> ExpressionId {
        let constant_of = |translator: &Self, operand: &TranslatedValue| {
            let is_constant = matches!(translator.arena.get(operand.expression).kind, ExpressionKind::Constant(_));
            is_constant.then_some(operand.expression)
        };
        // Several parts of one number are filled at once, before the others.
        let mut constants = operands.iter().filter_map(|operand| constant_of(self, operand));
        let fill = constants.next().filter(|first| constants.any(|other| other == *first));
        let mut start = vec![0; extents.len()];
        let steps = vec![1; extents.len()];
        let mut parts = Vec::new();
        for operand in operands {
            if fill.is_none() || constant_of(self, operand) != fill {
                parts.push((operand.expression, Layout::dense(extents).sliced(&start, &operand.extents, &steps)));
            }
            start[axis] += operand.extents[axis] as i64;
        }
        let stored = self.store(dtype, extents, StoredKind::Assembled { parts, fill });
        self.load(stored, Layout::dense(extents))
    }

    pub(super) fn pad(
        &mut self,
        operand: &TranslatedValue,
        attributes: &[AttributeValue],
        extents: &[u64],
        dtype: Scalar,
    ) -> ExpressionId {
        let value = if let AttributeValue::Float(value) = attributes[1] { value } else { 0.0 };
        let bits = convert(Scalar::F64, value.to_bits(), dtype);
        let fill = self.arena.intern(ExpressionKind::Constant(bits), dtype);
        let starts: Vec<i64> = attributes[0].ints().chunks(2).map(|widths| widths[0]).collect();
        let layout = Layout::dense(extents).sliced(&starts, &operand.extents, &vec![1; extents.len()]);
        let parts = vec![(operand.expression, layout)];
        let stored = self.store(dtype, extents, StoredKind::Assembled { parts, fill: Some(fill) });
        self.load(stored, Layout::dense(extents))
    }
}

pub(super) fn view_map(op: TensorOp, attributes: &[AttributeValue], extents: &[u64]) -> Option<ViewMap> {
    Some(match op {
        TensorOp::Reshape => ViewMap::Reshape(extents.to_vec()),
        TensorOp::Permute => ViewMap::Permute(attributes[0].axes()),
        TensorOp::Slice => {
            ViewMap::Slice { starts: attributes[0].ints(), sizes: extents.to_vec(), steps: attributes[2].ints() }
        }
        TensorOp::Flip => {
            let axes = attributes[0].ints();
            let is_flipped = |axis: usize| axes.contains(&(axis as i64));
            let start = |axis: usize| if is_flipped(axis) { extents[axis] as i64 - 1 } else { 0 };
            let rank = extents.len();
            ViewMap::Slice {
                starts: (0..rank).map(start).collect(),
                sizes: extents.to_vec(),
                steps: (0..rank).map(|axis| if is_flipped(axis) { -1 } else { 1 }).collect(),
            }
        }
        TensorOp::BroadcastTo => ViewMap::Broadcast(extents.to_vec()),
        TensorOp::Windows => ViewMap::Windows {
            axes: attributes[0].axes(),
            extents: extents.to_vec(),
            steps: attributes[2].ints(),
            dilations: attributes[3].ints(),
        },
        _ => return None,
    })
}
