//! Expressions: what one element of a stored value is computed from.
//!
//! Equal expressions are one, and all but numbers stand for an element at the same place of the same space. A view is
//! applied to the loads of an expression.

use crate::layout::Layout;
use crate::op::TensorOp;
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// An expression: its place in an [`ExpressionArena`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct ExpressionId(pub(super) u32);

/// The memory that elements are loaded from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Source {
    /// An input of the graph.
    Input(u32),
    /// A stored value.
    Stored(u32),
}

/// The order in which [`ExpressionKind::Combined`] combines elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum CombineOrder {
    /// As the lanes of a block.
    Lanes,
    /// As the totals of blocks. They are overwritten.
    Pairs,
}

/// The ways to compute an element.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum ExpressionKind {
    /// It is loaded.
    Load(Source, Layout),
    /// The place that the layout gives, an `i64`.
    Place(Layout),
    /// It is a constant, by its bits.
    Constant(u64),
    /// It is a number of elements, by its bits: a constant of the plan, and a parameter of its kernels.
    Count(u64),
    /// It is a number given at each run.
    Number(u32),
    /// It is loaded from the place that an index tells.
    Gather {
        /// The memory.
        source: Source,
        /// Says where the element of index 0 lies.
        layout: Layout,
        /// The index. Below 0 it counts from the end, and out of range it is the nearest that is not.
        index: ExpressionId,
        /// The number of elements that there are to choose from.
        n: u64,
        /// Their distance.
        stride: i64,
    },
    /// It is the result of an elementwise op.
    Apply(TensorOp, Vec<ExpressionId>),
    /// It is drawn from the state of a seed and a place.
    Random(TensorOp, ExpressionId, ExpressionId),
    /// It combines `n` elements of a stored value that lie at a distance from each other.
    Combined {
        /// The reduction.
        op: TensorOp,
        /// The order.
        order: CombineOrder,
        /// The stored value.
        source: u32,
        /// Says where the first element lies.
        layout: Layout,
        /// The number of elements.
        n: u64,
        /// The distance in elements.
        distance: i64,
    },
}

/// An expression with what is known of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Expression {
    pub(super) kind: ExpressionKind,
    /// The type of the element.
    pub(super) dtype: Scalar,
}

/// A map of indices: where the elements of a view lie among those of its operand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum ViewMap {
    Permute(Vec<usize>),
    Slice {
        starts: Vec<i64>,
        sizes: Vec<u64>,
        steps: Vec<i64>,
    },
    Broadcast(Vec<u64>),
    Reshape(Vec<u64>),
    /// New axes at the end, along which elements are repeated.
    Repeat(Vec<u64>),
    /// Axes cut into windows, whose elements are new axes at the end.
    Windows {
        axes: Vec<usize>,
        extents: Vec<u64>,
        steps: Vec<i64>,
        dilations: Vec<i64>,
    },
}

impl ViewMap {
    /// Applies the map to a layout; `None` if no layout has the elements in this order.
    pub(super) fn apply(&self, layout: &Layout) -> Option<Layout> {
        Some(match self {
            ViewMap::Permute(axes) => layout.permuted(axes),
            ViewMap::Slice { starts, sizes, steps } => layout.sliced(starts, sizes, steps),
            ViewMap::Broadcast(extents) => layout.broadcast_to(extents),
            ViewMap::Reshape(extents) => return layout.reshaped(extents),
            ViewMap::Repeat(extents) => layout.repeated(extents),
            ViewMap::Windows { axes, extents, steps, dilations } => layout.windows(axes, extents, steps, dilations),
        })
    }
}

/// The expressions of a plan, each once.
#[derive(Default, Debug)]
pub(super) struct ExpressionArena {
    expressions: Vec<Expression>,
    known: FxHashMap<Expression, ExpressionId>,
    views: FxHashMap<(ExpressionId, ViewMap), Option<ExpressionId>>,
    /// The memory of the last visit.
    visits: RefCell<VisitedExpressions>,
}

/// The expressions that a visit has seen: those with the number of the visit.
#[derive(Default, Debug)]
struct VisitedExpressions {
    numbers: Vec<u32>,
    number: u32,
    stack: Vec<(ExpressionId, bool)>,
}

impl ExpressionArena {
    pub(super) fn get(&self, id: ExpressionId) -> &Expression {
        &self.expressions[id.0 as usize]
    }

    pub(super) fn dtype(&self, id: ExpressionId) -> Scalar {
        self.get(id).dtype
    }

    pub(super) fn intern(&mut self, kind: ExpressionKind, dtype: Scalar) -> ExpressionId {
        let expression = Expression { kind, dtype };
        if let Some(&id) = self.known.get(&expression) {
            return id;
        }
        let id = ExpressionId(self.expressions.len() as u32);
        self.known.insert(expression.clone(), id);
        self.expressions.push(expression);
        id
    }

    /// Calls a function on an expression and all that it is computed from, each once, operands first.
    pub(super) fn visit(&self, roots: &[ExpressionId], mut visit: impl FnMut(ExpressionId)) {
        // Visits are many and short. One within another begins with new memory.
        let mut seen = self.visits.take();
        seen.numbers.resize(self.expressions.len(), 0);
        seen.number = seen.number.checked_add(1).unwrap_or_else(|| {
            seen.numbers.fill(0);
            1
        });
        let VisitedExpressions { numbers, number, stack } = &mut seen;
        stack.extend(roots.iter().rev().map(|&root| (root, false)));
        while let Some((id, is_ready)) = stack.pop() {
            if is_ready {
                visit(id);
            } else if std::mem::replace(&mut numbers[id.0 as usize], *number) != *number {
                stack.push((id, true));
                match &self.get(id).kind {
                    ExpressionKind::Apply(_, operands) => {
                        stack.extend(operands.iter().rev().map(|&operand| (operand, false)));
                    }
                    ExpressionKind::Gather { index, .. } => stack.push((*index, false)),
                    ExpressionKind::Random(_, seed, place) => stack.extend([(*place, false), (*seed, false)]),
                    _ => {}
                }
            }
        }
        self.visits.replace(seen);
    }

    /// Returns the arithmetic operations that computing an element takes.
    pub(super) fn flops(&self, id: ExpressionId) -> u64 {
        let mut sum = 0;
        self.visit(&[id], |id| {
            sum += match &self.get(id).kind {
                ExpressionKind::Apply(op, _) | ExpressionKind::Random(op, ..) => op.flops_per_element(),
                _ => 0,
            };
        });
        sum
    }

    /// Applies a view to the loads of an expression; `None` if a load has no such layout.
    pub(super) fn view(&mut self, id: ExpressionId, map: &ViewMap) -> Option<ExpressionId> {
        let key = (id, map.clone());
        if let Some(&viewed) = self.views.get(&key) {
            return viewed;
        }
        let Expression { kind, dtype } = self.get(id).clone();
        let viewed = match kind {
            ExpressionKind::Load(source, layout) => {
                map.apply(&layout).map(|layout| ExpressionKind::Load(source, layout))
            }
            ExpressionKind::Place(layout) => map.apply(&layout).map(ExpressionKind::Place),
            ExpressionKind::Constant(_) | ExpressionKind::Count(_) | ExpressionKind::Number(_) => Some(kind),
            ExpressionKind::Apply(op, operands) => {
                let operands: Option<Vec<_>> = operands.iter().map(|&operand| self.view(operand, map)).collect();
                operands.map(|operands| ExpressionKind::Apply(op, operands))
            }
            ExpressionKind::Gather { source, layout, index, n, stride } => {
                let parts = map.apply(&layout).zip(self.view(index, map));
                parts.map(|(layout, index)| ExpressionKind::Gather { source, layout, index, n, stride })
            }
            ExpressionKind::Random(op, seed, place) => {
                let parts = self.view(seed, map).zip(self.view(place, map));
                parts.map(|(seed, place)| ExpressionKind::Random(op, seed, place))
            }
            ExpressionKind::Combined { op, order, source, layout, n, distance } => {
                map.apply(&layout).map(|layout| ExpressionKind::Combined { op, order, source, layout, n, distance })
            }
        };
        let viewed = viewed.map(|kind| self.intern(kind, dtype));
        self.views.insert(key, viewed);
        viewed
    }
}
