//! Translates a graph of simple ops to expressions and the values that are stored.

mod attention;
mod movement;
mod product;
mod reduce;

use super::expression::{ExpressionArena, ExpressionId, ExpressionKind, Source, ViewMap};
use super::options::PlanOptions;
use super::reduction::ReductionSpace;
use super::sort::SortOrder;
use super::unplannable;
use crate::attribute::AttributeValue;
use crate::builder::convert;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::layout::Layout;
use crate::op::{OpDefinition, TensorOp};
use movement::view_map;
use polyloom_ir::Scalar;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// The most ops of an expression and the most arrays that it loads; beyond, operands are stored.
const MAX_OPS: usize = 64;
const MAX_LOADS: usize = 14;
/// The operations that repeating a value may cost for each element, rather than storing it once.
const CHEAP_FLOPS: u64 = 8;

/// A value that is written to memory, row-major.
#[derive(Clone, Debug)]
pub(super) struct StoredValue {
    pub(super) dtype: Scalar,
    pub(super) extents: Vec<u64>,
    pub(super) kind: StoredKind,
    pub(super) is_output: bool,
}

/// The ways in which the elements of a stored value are found.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum StoredKind {
    /// Each by itself, by an expression over the extents.
    Elementwise(ExpressionId),
    /// Each from the elements along the inner axes of a space.
    Reduction { op: TensorOp, operands: Vec<ExpressionId>, space: ReductionSpace },
    /// Along the last axis of the operands, each from those before it; with where they are stored.
    Scan { op: TensorOp, operands: Vec<ExpressionId>, extents: Vec<u64>, layout: Layout },
    /// Each by itself, and then updates are added, in ascending order along the last axis of their extents, to those of them
    /// that an index tells.
    Scattered { base: ExpressionId, updates: ExpressionId, extents: Vec<u64>, layout: Layout, target: ScatterTarget },
    /// Each by itself, and then sorted along an axis that the order tells.
    Sorted { base: ExpressionId, order: SortOrder },
    /// In parts, each by itself, with where the parts lie; the rest is a constant.
    Assembled { parts: Vec<(ExpressionId, Layout)>, fill: Option<ExpressionId> },
}

impl StoredKind {
    /// Returns a hash of the expressions that the elements are computed from. Equal kinds have equal hashes.
    fn operand_hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        std::mem::discriminant(self).hash(&mut hasher);
        match self {
            StoredKind::Elementwise(expression) | StoredKind::Sorted { base: expression, .. } => {
                expression.hash(&mut hasher);
            }
            StoredKind::Reduction { operands, .. } | StoredKind::Scan { operands, .. } => operands.hash(&mut hasher),
            StoredKind::Scattered { base, updates, .. } => (base, updates).hash(&mut hasher),
            StoredKind::Assembled { parts, .. } => parts.iter().for_each(|(part, _)| part.hash(&mut hasher)),
        }
        hasher.finish()
    }
}

/// The elements that an update may be added to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ScatterTarget {
    /// Tells which of them it is. Below 0 it counts from the end; an update with an index out of range is left out.
    pub(super) index: ExpressionId,
    /// Their number.
    pub(super) n: u64,
    /// Their distance.
    pub(super) stride: i64,
}

/// A graph as expressions and stored values, each after those that it reads.
#[derive(Debug)]
pub(super) struct TranslatedGraph {
    pub(super) arena: ExpressionArena,
    pub(super) stored: Vec<StoredValue>,
    /// The outputs: where the elements of each lie.
    pub(super) outputs: Vec<(Source, Layout)>,
    /// The types of the inputs.
    pub(super) inputs: Vec<TensorType>,
}

pub(super) fn translate(
    graph: &Graph,
    layouts: &[Layout],
    options: &PlanOptions,
) -> Result<TranslatedGraph, GraphError> {
    let mut translator = Translator {
        graph,
        options,
        arena: ExpressionArena::default(),
        stored: Vec::new(),
        by_operands: FxHashMap::default(),
        copies: FxHashMap::default(),
        values: Vec::with_capacity(graph.values.len()),
    };
    let mut inputs = Vec::new();
    for (id, value) in graph.iter() {
        let extents = value.ty.shape.as_static();
        let extents = extents.ok_or_else(|| unplannable(id, format!("{} has no known extents", value.ty)))?;
        let expression = match &value.def {
            TensorDef::Input(name) => {
                let layout = layouts.get(inputs.len()).filter(|layout| layout.extents == extents);
                let layout = layout.ok_or_else(|| unplannable(id, format!("input `{name}` has another layout")))?;
                let source = Source::Input(inputs.len() as u32);
                inputs.push(value.ty.clone());
                translator.arena.intern(ExpressionKind::Load(source, layout.clone()), value.ty.dtype)
            }
            TensorDef::Constant(bits) => translator.arena.intern(ExpressionKind::Constant(*bits), value.ty.dtype),
            TensorDef::Number(index) => translator.arena.intern(ExpressionKind::Number(*index), value.ty.dtype),
            TensorDef::Op { op, operands, attributes } => translator.translate_op(OpCall {
                id,
                op: *op,
                operands,
                attributes: &attributes.0,
                extents: &extents,
                dtype: value.ty.dtype,
            })?,
        };
        translator.values.push(TranslatedValue { expression, extents });
    }
    let outputs = translator.outputs()?;
    Ok(TranslatedGraph { arena: translator.arena, stored: translator.stored, outputs, inputs })
}

/// One op of the graph, with the type of its result.
#[derive(Clone, Copy)]
struct OpCall<'g> {
    id: TensorId,
    op: TensorOp,
    operands: &'g [TensorId],
    attributes: &'g [AttributeValue],
    extents: &'g [u64],
    dtype: Scalar,
}

#[derive(Clone, Debug)]
struct TranslatedValue {
    expression: ExpressionId,
    extents: Vec<u64>,
}

struct Translator<'g> {
    graph: &'g Graph,
    options: &'g PlanOptions,
    arena: ExpressionArena,
    stored: Vec<StoredValue>,
    /// The stored values by what they are computed from.
    by_operands: FxHashMap<u64, Vec<u32>>,
    /// Expressions that have been stored: the value.
    copies: FxHashMap<(ExpressionId, Vec<u64>), u32>,
    values: Vec<TranslatedValue>,
}

impl Translator<'_> {
    fn translate_op(&mut self, call: OpCall<'_>) -> Result<ExpressionId, GraphError> {
        let OpCall { op, attributes, extents, dtype, .. } = call;
        let operands: Vec<TranslatedValue> =
            call.operands.iter().map(|operand| self.values[operand.0 as usize].clone()).collect();
        Ok(match (op, op.info().definition) {
            (_, OpDefinition::Scalar(_)) => self.apply(op, &operands, extents, dtype),
            (TensorOp::Sum | TensorOp::Prod | TensorOp::Max | TensorOp::Min | TensorOp::All | TensorOp::Any, _) => {
                self.reduce(op, &operands[0], &attributes[0].ints(), extents, dtype)
            }
            (TensorOp::Argmax | TensorOp::Argmin, _) => {
                let axes = match &attributes[0] {
                    AttributeValue::Int(axis) => vec![*axis],
                    _ => (0..operands[0].extents.len() as i64).collect(),
                };
                self.reduce(op, &operands[0], &axes, extents, dtype)
            }
            (
                TensorOp::Cumsum | TensorOp::Cumprod | TensorOp::Cummax | TensorOp::Cummin | TensorOp::LinearRecurrence,
                _,
            ) => self.scan(&call, &operands, attributes[0].int() as usize),
            (TensorOp::MatMul, _) => self.multiply(&operands[0], &operands[1], extents, dtype),
            (TensorOp::Attention, _) => self.attend(&call, &operands),
            (TensorOp::Contract, _) => self.contract(&call, &operands[0], &operands[1]),
            (TensorOp::Gather, _) => self.gather(&operands[0], &operands[1], attributes[0].int() as usize, extents),
            (TensorOp::ScatterAdd, _) => self.scatter_add(&operands, attributes[0].int() as usize, dtype),
            (TensorOp::SortKeys, _) => {
                let axis = attributes[0].int() as usize;
                let n_read = self.n_read_of_first(call.id, axis);
                self.sort_keys(&operands[0], axis, n_read, dtype)
            }
            (TensorOp::Contiguous, _) => self.load_stored(operands[0].expression, extents),
            (TensorOp::Concat, _) => self.concat(&operands, attributes[0].int() as usize, extents, dtype),
            (TensorOp::Pad, _) => self.pad(&operands[0], attributes, extents, dtype),
            (TensorOp::Iota, _) => {
                let axis = attributes[1].int() as usize;
                let strides = (0..extents.len()).map(|other| i64::from(other == axis)).collect();
                let place = self.place(Layout { extents: extents.to_vec(), strides, offset: 0 });
                self.converted(place, dtype)
            }
            (TensorOp::ElementCount, _) => {
                let n: u64 = attributes[0].ints().iter().map(|&axis| operands[0].extents[axis as usize]).product();
                self.arena.intern(ExpressionKind::Count(convert(Scalar::U64, n, dtype)), dtype)
            }
            (TensorOp::Rand | TensorOp::Randn, _) => {
                let seed = self.broadcast(&operands[0], extents);
                let place = self.place(Layout::dense(extents));
                let drawn = self.arena.intern(ExpressionKind::Random(op, seed, place), Scalar::F32);
                self.converted(drawn, dtype)
            }
            (_, OpDefinition::View) => {
                let map = view_map(op, attributes, extents);
                let map = map.ok_or_else(|| unplannable(call.id, format!("`{}` is no view", op.name())))?;
                self.view(&operands[0], &map)
            }
            _ => return Err(unplannable(call.id, format!("`{}` has no plan", op.name()))),
        })
    }

    fn place(&mut self, layout: Layout) -> ExpressionId {
        self.arena.intern(ExpressionKind::Place(layout), Scalar::I64)
    }

    fn converted(&mut self, expression: ExpressionId, dtype: Scalar) -> ExpressionId {
        if self.arena.dtype(expression) == dtype {
            return expression;
        }
        self.arena.intern(ExpressionKind::Apply(TensorOp::Cast, vec![expression]), dtype)
    }

    fn apply(&mut self, op: TensorOp, operands: &[TranslatedValue], extents: &[u64], dtype: Scalar) -> ExpressionId {
        let mut broadcast: Vec<ExpressionId> =
            operands.iter().map(|operand| self.broadcast(operand, extents)).collect();
        let (n_ops, n_loads) = self.count(&broadcast);
        if n_ops >= MAX_OPS || n_loads > MAX_LOADS {
            for operand in &mut broadcast {
                if self.count(&[*operand]).0 > 0 {
                    *operand = self.load_stored(*operand, extents);
                }
            }
        }
        self.arena.intern(ExpressionKind::Apply(op, broadcast), dtype)
    }

    /// Returns the numbers of ops and of different loads of expressions.
    fn count(&self, expressions: &[ExpressionId]) -> (usize, usize) {
        let (mut n_ops, mut n_loads) = (0, 0);
        self.arena.visit(expressions, |id| match self.arena.get(id).kind {
            ExpressionKind::Load(..) | ExpressionKind::Gather { .. } => n_loads += 1,
            ExpressionKind::Constant(_) | ExpressionKind::Count(_) | ExpressionKind::Number(_) => {}
            _ => n_ops += 1,
        });
        (n_ops, n_loads)
    }

    /// Returns true if an expression depends on more than the results of reductions.
    fn has_elements(&self, expression: ExpressionId) -> bool {
        let mut has_elements = false;
        self.arena.visit(&[expression], |id| match &self.arena.get(id).kind {
            ExpressionKind::Load(Source::Stored(stored), _) => {
                let kind = &self.stored[*stored as usize].kind;
                has_elements |= !matches!(kind, StoredKind::Reduction { .. });
            }
            ExpressionKind::Load(..) | ExpressionKind::Gather { .. } | ExpressionKind::Combined { .. } => {
                has_elements = true;
            }
            _ => {}
        });
        has_elements
    }

    fn broadcast(&mut self, value: &TranslatedValue, extents: &[u64]) -> ExpressionId {
        if value.extents == extents {
            return value.expression;
        }
        let n_own: u64 = value.extents.iter().product();
        let n: u64 = extents.iter().product();
        let map = ViewMap::Broadcast(extents.to_vec());
        let is_dear = self.arena.flops(value.expression) > CHEAP_FLOPS;
        if n > n_own && is_dear && self.has_elements(value.expression) {
            let loaded = self.load_stored(value.expression, &value.extents);
            return self.viewed(loaded, &value.extents, &map);
        }
        self.viewed(value.expression, &value.extents, &map)
    }

    fn view(&mut self, value: &TranslatedValue, map: &ViewMap) -> ExpressionId {
        if let ViewMap::Broadcast(extents) = map {
            return self.broadcast(value, extents);
        }
        // Elements of several windows would be computed for each.
        let is_plain = matches!(self.arena.get(value.expression).kind, ExpressionKind::Load(..));
        if matches!(map, ViewMap::Windows { .. }) && !is_plain {
            let loaded = self.load_stored(value.expression, &value.extents);
            return self.viewed(loaded, &value.extents, map);
        }
        self.viewed(value.expression, &value.extents, map)
    }

    /// Applies a view, after storing the expression if it must be.
    fn viewed(&mut self, expression: ExpressionId, extents: &[u64], map: &ViewMap) -> ExpressionId {
        if let Some(viewed) = self.arena.view(expression, map) {
            return viewed;
        }
        let dense = self.load_stored(expression, extents);
        // A dense layout has every view.
        self.arena.view(dense, map).unwrap_or(dense)
    }

    fn store(&mut self, dtype: Scalar, extents: &[u64], kind: StoredKind) -> u32 {
        let stored = self.stored.len() as u32;
        self.by_operands.entry(kind.operand_hash()).or_default().push(stored);
        self.stored.push(StoredValue { dtype, extents: extents.to_vec(), kind, is_output: false });
        stored
    }

    /// Stores what a reduction gives, unless it is stored already. [`Translator::outputs`] copies what two outputs share.
    fn store_once(&mut self, dtype: Scalar, extents: &[u64], kind: StoredKind) -> u32 {
        let is_known = |stored: &u32| {
            let known = &self.stored[*stored as usize];
            known.dtype == dtype && known.extents == extents && known.kind == kind
        };
        let alike = self.by_operands.get(&kind.operand_hash());
        let known = alike.into_iter().flatten().copied().find(is_known);
        known.unwrap_or_else(|| self.store(dtype, extents, kind))
    }

    /// Stores an expression, unless it is stored already, and returns the load of it.
    fn load_stored(&mut self, expression: ExpressionId, extents: &[u64]) -> ExpressionId {
        let dtype = self.arena.dtype(expression);
        let key = (expression, extents.to_vec());
        let stored = match self.copies.get(&key) {
            Some(&stored) => stored,
            None => {
                let stored = self.store(dtype, extents, StoredKind::Elementwise(expression));
                self.copies.insert(key, stored);
                stored
            }
        };
        self.load(stored, Layout::dense(extents))
    }

    fn load(&mut self, stored: u32, layout: Layout) -> ExpressionId {
        let dtype = self.stored[stored as usize].dtype;
        self.arena.intern(ExpressionKind::Load(Source::Stored(stored), layout), dtype)
    }

    /// Finds where outputs lie, and stores those that are not stored yet.
    fn outputs(&mut self) -> Result<Vec<(Source, Layout)>, GraphError> {
        let mut owners: FxHashMap<u32, TensorId> = FxHashMap::default();
        let mut outputs = Vec::new();
        for &id in &self.graph.outputs {
            let TranslatedValue { expression, extents } = self.values[id.0 as usize].clone();
            let owner = self.graph.viewed_value(id);
            let own_memory = match &self.arena.get(expression).kind {
                // What only looks like a view, such as a conversion to the type that a value has, is a copy.
                ExpressionKind::Load(source @ Source::Input(_), layout) if owner != id => {
                    Some((*source, layout.clone()))
                }
                ExpressionKind::Load(source @ Source::Stored(stored), layout) => {
                    // Rows are sorted along an axis that may not be the last of the result.
                    let is_sorted = matches!(self.stored[*stored as usize].kind, StoredKind::Sorted { .. });
                    let is_dense = owner != id || !is_sorted || layout.is_dense();
                    let is_free = is_dense && *owners.entry(*stored).or_insert(owner) == owner;
                    is_free.then(|| (*source, layout.clone()))
                }
                _ => None,
            };
            let (source, layout) = own_memory.unwrap_or_else(|| {
                let dtype = self.arena.dtype(expression);
                let stored = self.store(dtype, &extents, StoredKind::Elementwise(expression));
                self.copies.entry((expression, extents.clone())).or_insert(stored);
                owners.insert(stored, owner);
                (Source::Stored(stored), Layout::dense(&extents))
            });
            if let Source::Stored(stored) = source {
                self.stored[stored as usize].is_output = true;
            }
            outputs.push((source, layout));
        }
        Ok(outputs)
    }
}
