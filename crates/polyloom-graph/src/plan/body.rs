//! Kernel bodies: what a kernel computes, with extents and strides as parameters.

use super::expression::CombineOrder;
use super::sort::SortStep;
use super::staged::StagedRows;
use super::tile::{AttentionTile, MatrixTile, PipelinedTile, ProductTile, TileShape};
use crate::op::TensorOp;
use crate::reference::N_LANES;
use polyloom_ir::{BuildError, FloatMode, Function, Scalar};

/// Holds what one kernel of a plan computes. Plans for other sizes have equal bodies, by which compiled code is found again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KernelBody {
    pub(super) float_mode: FloatMode,
    pub(super) params: Vec<BodyParam>,
    pub(super) form: BodyForm,
    /// The axes that threads, or blocks of them, are dealt out along.
    pub(super) outer: Vec<BodyExtent>,
    /// The axes of a row.
    pub(super) inner: Vec<BodyExtent>,
    /// The expressions, each after its operands.
    pub(super) expressions: Vec<BodyExpression>,
    pub(super) passes: Vec<BodyPass>,
    /// Holds the slots in shared memory for the rows of a [`BodyForm::Staged`].
    pub(super) slots: BodySlots,
    /// True if places are beyond 32 bits.
    pub(super) is_wide: bool,
}

impl KernelBody {
    /// Builds the kernel in HIR. Its parameters are arrays of one axis without gaps, and scalars.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] would be a fault of the planner.
    pub fn function(&self) -> Result<Function, BuildError> {
        super::emit::emit(self)
    }

    /// Returns the number of threads of a block, for bodies whose threads work together.
    pub fn block_size(&self) -> Option<u32> {
        match self.form {
            BodyForm::Product { tile, .. } => Some(tile.shape.columns.into()),
            BodyForm::MatrixProduct(tile) => Some(tile.n_threads()),
            BodyForm::PipelinedProduct(tile) => Some(tile.n_threads()),
            BodyForm::Staged(rows) => Some(rows.n_threads()),
            BodyForm::Batched(_) | BodyForm::Squares { .. } => Some(BATCH_THREADS),
            BodyForm::Totals => Some(TOTALS_THREADS),
            BodyForm::ScanTiles => Some(SCAN_THREADS),
            form => form.has_blocks().then_some(N_LANES as u32),
        }
    }

    /// Returns the form of a body that has parameters which tuning may choose.
    pub fn tunable_form(&self) -> Option<TunableForm> {
        match self.form {
            BodyForm::Product { tile, .. } => Some(TunableForm::Product(tile.shape)),
            BodyForm::Attention(_) => Some(TunableForm::Attention),
            BodyForm::Block { .. }
            | BodyForm::Loop
            | BodyForm::Unrolled(_)
            | BodyForm::SplitBlock
            | BodyForm::SplitLane => Some(TunableForm::Rows),
            _ => None,
        }
    }

    /// Returns a name that tells the ops, in order, each once.
    pub fn name(&self) -> String {
        let mut ops: Vec<&str> = Vec::new();
        let named = self.expressions.iter().filter_map(|expression| match &expression.kind {
            BodyExpressionKind::Apply(op, _) | BodyExpressionKind::Random(op, ..) => Some(op.name()),
            BodyExpressionKind::Gather { .. } => Some(TensorOp::Gather.name()),
            BodyExpressionKind::Combined { op, .. } => Some(op.name()),
            BodyExpressionKind::Total { pass, index } => {
                Some(self.passes[*pass as usize].reductions[*index as usize].op.name())
            }
            _ => None,
        });
        let combined = self.passes.iter().flat_map(|pass| &pass.reductions).map(|reduction| reduction.op.name());
        let stores = self.passes.iter().flat_map(|pass| &pass.element_stores);
        let scattered = stores.filter_map(|store| store.target.map(|_| TensorOp::ScatterAdd.name()));
        for name in named.chain(combined).chain(scattered) {
            if !ops.contains(&name) && name != TensorOp::Cast.name() {
                ops.push(name);
            }
        }
        match ops.len() {
            0 => "copy".to_owned(),
            1..=4 => ops.join("_"),
            n => format!("{}_and_{}_more", ops[..3].join("_"), n - 3),
        }
    }
}

/// The forms of bodies that have parameters. No choice of them changes a bit of a result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TunableForm {
    /// Tiles of a product. How many are grouped, and how long pieces are, is no part of a body, and 0 here.
    Product(TileShape),
    /// Queries of attention, of which a block of threads has some by the width of vectors.
    Attention,
    /// Rows, which are cut to pieces by the number of threads.
    Rows,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct BodyParam {
    pub(super) is_array: bool,
    pub(super) dtype: Scalar,
}

/// The threads of a block that has a batch of elements, or a square.
pub(super) const BATCH_THREADS: u32 = 256;
/// The threads of a block that combines totals.
pub(super) const TOTALS_THREADS: u32 = 1024;
/// The threads of a block that scans rows.
pub(super) const SCAN_THREADS: u32 = 128;

/// The ways in which threads share the work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum BodyForm {
    /// A thread has an element.
    Each,
    /// A thread has an element, and its number among all in row-major order tells which.
    Numbered,
    /// A block of 256 threads has so many times 256 elements of a row along the last axis: a thread loads what all of its own take
    /// before it stores any.
    Batched(u8),
    /// A block of 1,024 threads has an element, whose totals of blocks it combines.
    Totals,
    /// A block of 32 threads has a square of 32 rows, along this axis, and 32 columns, along the last axis: a thread has a
    /// column of it.
    Tiled { row_axis: u8 },
    /// A block of 256 threads has such a square. What leaps along the last axis comes through shared memory.
    Squares { row_axis: u8 },
    /// A block of 32 threads has a row, of so many levels of pairs of blocks of 4,096 elements.
    Block { n_levels: u8 },
    /// A block of threads has a row, or each of its warps, which waits in shared memory.
    Staged(StagedRows),
    /// A thread has a row, in a loop.
    Loop,
    /// A thread has a row of so many elements, without a loop.
    Unrolled(u8),
    /// A block of 32 threads has the block of a row that the last outer axis tells.
    SplitBlock,
    /// A thread has the lane of the block of a row that the first two outer axes tell.
    SplitLane,
    /// A thread has a row, and stores what its elements up to each are combined to. Threads of few rows run one by one.
    Scan { has_few_rows: bool },
    /// A block of 128 threads has 32 rows, of which it loads and stores squares; each thread of one warp goes along a row.
    ScanTiles,
    /// A block of threads has tiles of a product, whose rows and columns are the last two outer axes.
    Product { tile: ProductTile, params: TileParams },
    /// A block of threads has a tile of a product, which tensor cores compute.
    MatrixProduct(MatrixTile),
    /// A block of threads has a tile of a product, whose factors are copied to shared memory as they lie in memory.
    PipelinedProduct(PipelinedTile),
    /// A block of 32 threads has some queries of attention, which are along the last outer axis.
    Attention(AttentionTile),
    /// A block of 32 threads does a step of a sorting network in place, with the number that the step depends on.
    Sort { step: SortStep, param: u16 },
}

/// The parameters by which a product is dealt out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct TileParams {
    /// The number of tiles of a block.
    pub(super) n_grouped: u16,
    /// The length of the pieces that chains are cut into, if they are.
    pub(super) piece: u16,
}

impl BodyForm {
    pub(super) fn has_blocks(self) -> bool {
        matches!(
            self,
            BodyForm::Tiled { .. }
                | BodyForm::Squares { .. }
                | BodyForm::Batched(_)
                | BodyForm::Totals
                | BodyForm::ScanTiles
                | BodyForm::Block { .. }
                | BodyForm::Staged(_)
                | BodyForm::SplitBlock
                | BodyForm::Product { .. }
                | BodyForm::MatrixProduct(_)
                | BodyForm::PipelinedProduct(_)
                | BodyForm::Attention(_)
                | BodyForm::Sort { .. }
        )
    }
}

/// The slots that rows wait in.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct BodySlots {
    /// The types of their elements.
    pub(super) dtypes: Vec<Scalar>,
    /// The inputs that are copied to slots before the first pass.
    pub(super) inputs: Vec<(BodyAddress, u16)>,
}

/// The extent of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum BodyExtent {
    Constant(u64),
    Param(u16),
}

/// The distance between neighbours along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum BodyStride {
    Zero,
    One,
    Param(u16),
}

/// A place that depends on the thread's coordinates, along outer axes and then inner ones.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct BodyPlace {
    pub(super) strides: Vec<BodyStride>,
    /// The parameter that is added, if any.
    pub(super) offset: Option<u16>,
    /// True if it is the number of the element, and the offset, in a [`BodyForm::Numbered`].
    pub(super) is_number: bool,
}

/// An element of an array parameter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct BodyAddress {
    pub(super) array: u16,
    pub(super) place: BodyPlace,
}

/// An expression of a body.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct BodyExpression {
    pub(super) kind: BodyExpressionKind,
    pub(super) dtype: Scalar,
    /// True if it is the same for all elements of a row.
    pub(super) is_of_row: bool,
    /// The pass that computes it first.
    pub(super) pass: u16,
}

/// The ways to compute an expression. Operands are places in [`KernelBody::expressions`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum BodyExpressionKind {
    Load(BodyAddress),
    /// An element that waits in a slot.
    Kept(u16),
    Place(BodyPlace),
    Constant(u64),
    Number(u16),
    Apply(TensorOp, Vec<u32>),
    /// An element of those from an address on, by its index.
    Gather {
        address: BodyAddress,
        index: u32,
        n: u16,
        stride: u16,
    },
    Random(TensorOp, u32, u32),
    /// The result of a reduction of an earlier pass.
    Total {
        pass: u16,
        index: u16,
    },
    Combined {
        op: TensorOp,
        order: CombineOrder,
        address: BodyAddress,
        n: u16,
        distance: u16,
    },
}

/// One pass over the elements of a row; of bodies without rows, the only one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct BodyPass {
    /// Says what is stored once for a row, before the pass.
    pub(super) row_stores: Vec<BodyStore>,
    /// Says what is stored for each element.
    pub(super) element_stores: Vec<BodyStore>,
    /// The expressions that are kept for later passes, or for the sums of this one, with their slots.
    pub(super) kept: Vec<(u32, u16)>,
    pub(super) reductions: Vec<BodyReduction>,
}

/// A store of an expression.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct BodyStore {
    pub(super) address: BodyAddress,
    pub(super) value: u32,
    /// The expression that is the index of the element that the value is added to, of those from the address on; with their
    /// number and their distance.
    pub(super) target: Option<(u32, u16, u16)>,
}

/// A reduction of expressions along the row.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct BodyReduction {
    pub(super) op: TensorOp,
    /// The type of the result.
    pub(super) dtype: Scalar,
    pub(super) values: Vec<u32>,
    /// Says where a scan stores what the elements up to each are combined to, attention what it finds, and a sort its keys.
    pub(super) scanned: Option<BodyAddress>,
}
