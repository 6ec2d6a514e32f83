//! The tensor op table: every op of tensor graphs, declared once.
//!
//! The builder, shape inference, the verifier, the text form, decomposition, gradients and the evaluator read this table; nothing
//! else lists the ops. An op is simple or composite. A simple one is defined by its arm in [`crate::reference`] or by a
//! scalar function ([`OpDefinition`]); a composite one by the simpler ops that it decomposes into.
//!
//! Adding an op is one entry in `table.rs`, with its scalar function in `scalar.rs` or its decomposition in [`crate::decompose()`],
//! and, if the entry says so, its gradient rule in `gradient/rules`.

mod cost;
mod function;
mod law;
mod names;
mod parameter;
mod scalar;
mod table;

pub use cost::{CostModel, TensorCost};
pub(crate) use function::apply_scalar;
pub use function::scalar_function;
pub use parameter::{AttributeKind, AttributeParameter, TensorArity, TensorParameter, TensorSignature};
pub use table::TensorOp;

use polyloom_ir::Expr;

/// The kind of kernel that computes an op by itself. Fusion starts from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TensorKernelKind {
    /// Each element of the result depends on the elements at one index of each operand.
    Elementwise,
    /// Elements along axes are combined.
    Reduce,
    /// A product of matrices.
    Matmul,
    /// A convolution over two axes.
    Conv2d,
    /// Attention.
    Attention,
    /// Each element depends on those before it along an axis.
    Scan,
    /// Elements change places by their values.
    Sort,
    /// Elements change places by their indices alone, and no memory need be touched.
    View,
    /// Anything else.
    Custom,
}

/// The way in which the shape of the result follows from the operands and attributes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ShapeRule {
    /// The operands broadcast as in NumPy.
    Broadcast,
    /// It is that of the first operand.
    First,
    /// It is that of the first operand, along whose `axis` the op works.
    AlongAxis,
    /// As `AlongAxis`, with a word for what elements are combined by.
    Scan,
    /// It is what the tensors broadcast to, which has the axis `axis`.
    Recurrence,
    /// The `axes` of the first operand are dropped, or kept with extent 1; none of them may be empty if `nonempty`.
    Reduce {
        /// True if an empty reduction has no value.
        nonempty: bool,
    },
    /// The one `axis`, or all, is dropped or kept with extent 1. It may not be empty.
    ReduceAxis,
    /// It is the attribute `shape`, of as many elements.
    Reshape,
    /// The axes are ordered by `axes`.
    Permute,
    /// Two axes change places.
    Transpose,
    /// It is `sizes`.
    Slice,
    /// Extents along `axis` are added.
    Concat,
    /// There is a new axis for the operands, which are of one shape.
    Stack,
    /// Each axis grows by two numbers of `widths`.
    Pad,
    /// It is that of the operand, whose `axes` are reversed.
    Flip,
    /// It is the attribute `shape`, which the operand broadcasts to.
    BroadcastTo,
    /// Each axis grows by a factor of `repeats`.
    Tile,
    /// It is the attribute `shape`; a seed is a scalar.
    Given,
    /// The result is a scalar.
    Scalar,
    /// Products of matrices, batches of which broadcast.
    Matmul,
    /// It is that of the labels, which both operands have between them.
    Contract,
    /// It is that of the equation.
    Einsum,
    /// It is that of the first operand with the rows of the second in place of the last axis.
    Linear,
    /// Queries by columns of values; leading axes are batches, which broadcast.
    Attention,
    /// Windows over so many last axes, of all channels of a group for each output.
    Convolution(usize),
    /// Windows over the last two axes.
    Pool,
    /// That of the index along `axis`, and what both broadcast to along the other axes.
    Gather,
    /// The axes of the index in place of `axis`.
    Take,
    /// The axes of the index, and those of a row.
    Embedding,
    /// It is that of the first operand; index and updates have their own extent along `axis`, and its others.
    ScatterAdd,
    /// That of the index with a new last axis of `classes`.
    OneHot,
    /// The axes that are cut number windows, and new ones at the end are their elements.
    Windows,
    /// It is that of the first operand; weight and bias have the shape of its axes from `axis` on.
    LayerNorm,
    /// It is that of the first operand, of at least two axes, whose second is split into `groups`.
    GroupNorm,
    /// Logits and one class for each place; none, or one number for all places.
    CrossEntropy,
    /// It is that of the first operand, with `k` elements along `axis`.
    Topk,
}

/// The element types that an op takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DtypeClass {
    /// All.
    Any,
    /// All but `bool`, which is refused, as by NumPy.
    Number,
    /// Numbers; `bool` counts as `int8`, as in NumPy.
    BoolAsInt8,
    /// Integers and `bool`.
    Bits,
    /// Integers; `bool` counts as `int8`, as in NumPy.
    Integer,
    /// `uint32` and `uint64`.
    SortKey,
}

/// The way in which element types follow from those of the operands, and what operands are converted to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DtypeRule {
    /// Operands are promoted to one type, which is that of the result.
    Promoted(DtypeClass),
    /// Operands are promoted and made floats: 8-bit integers `float16`, 16-bit ones `float32`, others `float64`.
    Float,
    /// Operands are promoted; integers become `float64`.
    Quotient,
    /// Operands are promoted; the result is `bool`.
    Compared(DtypeClass),
    /// Operands are made floats; the result is `bool`.
    Classified,
    /// Operands are converted to `bool`, which the result is too.
    Logical,
    /// The first operand is converted to `bool`, the others are promoted to the type of the result.
    Selected,
    /// The result is 64 bits wide if the operand is an integer or `bool`.
    Summed,
    /// As `Summed` if `combine` adds or multiplies; otherwise that of the operand.
    Scanned,
    /// The result is `int64`.
    Indexed,
    /// It is the attribute `dtype`.
    Given,
    /// It is the attribute `dtype`, of as many bits as the operand.
    Reinterpreted,
    /// It is the attribute `dtype`, a float; a seed is an integer, converted to `uint32`.
    Random,
    /// The operands but the second are as with `Quotient`; the second is a seed, converted to `uint32`.
    Seeded,
    /// The first operand is as with `Quotient`; the second, of classes, is converted to `int64`.
    Classes,
    /// The second operand, of indices, is converted to `int64`; the others are promoted to the type of the result.
    Indices,
}

/// The definition of what an op computes.
#[derive(Clone, Copy, Debug)]
pub enum OpDefinition {
    /// A function of one element of each operand, in HIR. Operands that are 16-bit floats arrive as `f32`.
    Scalar(for<'g> fn(&[Expr<'g>]) -> Expr<'g>),
    /// An arm of the evaluator, [`crate::reference`].
    Native,
    /// A map of indices: the result may share memory with the operand.
    View,
    /// Simpler ops: its [decomposition](crate::decomposition).
    Composite,
}

/// The way in which the gradient of an op follows from that of its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GradientRule {
    /// By a rule of its own, in `gradient/rules`. A composite op has one only if it gives more digits than
    /// its decomposition would, or no NaN.
    Rule,
    /// By the gradients of the ops that it decomposes into.
    OfDecomposition,
    /// Zero: the result is an integer or `bool`, is constant in pieces (`floor`, `sign`), or depends on no float. No gradient goes on.
    Zero,
}

/// Everything that the table says about one op.
#[derive(Debug)]
pub struct TensorOpInfo {
    /// The op.
    pub op: TensorOp,
    /// Its one name, in the text of graphs, in Python and in the docs.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// The kind of its kernel.
    pub kind: TensorKernelKind,
    /// Its tensors and attributes.
    pub signature: TensorSignature,
    /// Its shape rule.
    pub shape_rule: ShapeRule,
    /// Its rule for element types.
    pub dtype_rule: DtypeRule,
    /// Its definition.
    pub definition: OpDefinition,
    /// Its costs.
    pub cost: CostModel,
    /// Its gradient.
    pub gradient: GradientRule,
    /// A sentence on what the gradient is where there is none in the strict sense, if there are such places.
    pub kinks: Option<&'static str>,
    /// Its documentation: one sentence on what it computes, then the edge cases.
    pub doc: &'static str,
}

impl TensorOpInfo {
    /// Returns true if the result may share memory with the operand. A `reshape` of a tensor that is not dense copies.
    pub fn is_view(&self) -> bool {
        matches!(self.definition, OpDefinition::View)
    }

    /// Returns true if elements change places by their indices alone, also where the op is defined by such ones.
    pub fn moves_by_index(&self) -> bool {
        self.kind == TensorKernelKind::View
    }

    /// Returns true if the op is defined by simpler ones.
    pub fn is_composite(&self) -> bool {
        matches!(self.definition, OpDefinition::Composite)
    }
}

impl TensorOp {
    /// Returns the op's table entry.
    pub fn info(self) -> &'static TensorOpInfo {
        &table::TABLE[self as usize]
    }

    /// Returns the op's name.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns every op, in table order.
    pub fn all() -> impl Iterator<Item = &'static TensorOpInfo> {
        table::TABLE.iter()
    }
}
