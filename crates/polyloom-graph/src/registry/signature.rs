//! Signatures of nodes, and the patterns of them that kernels take.

use crate::graph::{Graph, TensorDef, TensorId};
use crate::op::TensorOp;
use polyloom_ir::Scalar;

/// The element type, the rank and the layout of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OperandSignature {
    /// The element type.
    pub dtype: Scalar,
    /// The number of axes.
    pub rank: usize,
    /// True if the elements are known to be in row-major order without gaps.
    pub is_dense: bool,
}

/// The input of a kernel as far as it decides which kernels can take it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KernelSignature {
    /// The op.
    pub op: TensorOp,
    /// The operands.
    pub operands: Vec<OperandSignature>,
    /// The element type of the result.
    pub result: Scalar,
}

impl KernelSignature {
    /// Returns the signature of a node; `None` if it is no op. Inputs count as dense, views do not.
    pub fn of(graph: &Graph, id: TensorId) -> Option<KernelSignature> {
        let value = graph.value(id)?;
        let TensorDef::Op { op, operands, .. } = &value.def else { return None };
        let operand = |&operand: &TensorId| {
            let value = graph.value(operand)?;
            let is_dense = !matches!(&value.def, TensorDef::Op { op, .. } if op.info().moves_by_index());
            Some(OperandSignature { dtype: value.ty.dtype, rank: value.ty.shape.rank(), is_dense })
        };
        let operands = operands.iter().map(operand).collect::<Option<_>>()?;
        Some(KernelSignature { op: *op, operands, result: value.ty.dtype })
    }
}

/// A set of element types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DtypeSet(u16);

impl DtypeSet {
    /// All element types.
    pub const ALL: DtypeSet = DtypeSet(u16::MAX);
    /// None.
    pub const EMPTY: DtypeSet = DtypeSet(0);

    /// Returns the set with an element type.
    #[must_use]
    pub const fn with(self, dtype: Scalar) -> DtypeSet {
        DtypeSet(self.0 | 1 << dtype as u16)
    }

    /// Returns the set without an element type.
    #[must_use]
    pub const fn without(self, dtype: Scalar) -> DtypeSet {
        DtypeSet(self.0 & !(1 << dtype as u16))
    }

    /// Returns true if the set has an element type.
    pub const fn has(self, dtype: Scalar) -> bool {
        self.0 >> dtype as u16 & 1 == 1
    }
}

impl FromIterator<Scalar> for DtypeSet {
    fn from_iter<T: IntoIterator<Item = Scalar>>(dtypes: T) -> DtypeSet {
        dtypes.into_iter().fold(DtypeSet::EMPTY, DtypeSet::with)
    }
}

/// The signatures that a kernel takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KernelPattern {
    /// The element types that operands and result may have.
    pub dtypes: DtypeSet,
    /// The most axes that an operand may have.
    pub max_rank: usize,
    /// True if all operands have to be dense.
    pub needs_dense: bool,
}

impl KernelPattern {
    /// Takes everything.
    pub const ANY: KernelPattern = KernelPattern { dtypes: DtypeSet::ALL, max_rank: usize::MAX, needs_dense: false };

    /// Returns true if a kernel of this pattern takes a signature.
    pub fn matches(&self, signature: &KernelSignature) -> bool {
        let takes = |operand: &OperandSignature| {
            self.dtypes.has(operand.dtype) && operand.rank <= self.max_rank && (operand.is_dense || !self.needs_dense)
        };
        self.dtypes.has(signature.result) && signature.operands.iter().all(takes)
    }
}
