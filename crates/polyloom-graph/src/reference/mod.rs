//! The reference: what a graph computes, bit for bit, on dense row-major tensors.
//!
//! Everything else that runs graphs must give these bits in `strict`, whatever it fuses, tiles or deals out to threads.
//! Composite ops are what their decomposition gives. Elementwise ops apply their scalar function in HIR
//! ([`crate::op::scalar_function`]), interpreted.
//!
//! # The order of reductions
//!
//! A reduction combines, for each element of its result, a row of N elements: those along the reduced axes, in row-major
//! order of their indices, numbered k = 0, 1, …, N - 1. The order in which `keepdims` or the memory lays axes does not matter.
//!
//! `sum` and `prod` start from e, which is 0 for sums, +0.0 of floats, and 1 for products. A lane without elements is e and
//! changes no bit, because no partial sum is -0.0: that is a sum of two -0.0 alone. So a row of -0.0 sums to +0.0, as in NumPy.
//!
//! 1. The row is cut into blocks of [`BLOCK_LENGTH`] = 4,096 elements, the last of which may be shorter: block j has the
//!    elements from 4,096 j on.
//! 2. A block has [`N_LANES`] = 32 lanes, each of which starts as e. Lane l combines with the block's elements number l, l + 32,
//!    l + 64, … in this order: `lane = lane + x`.
//! 3. The lanes of a block are combined as a tree: for d = 16, 8, 4, 2, 1, lane l becomes lane l + lane (l + d), for all l
//!    below d. Lane 0 is then the block's result.
//! 4. The results of blocks are combined pairwise: neighbours (0, 1), (2, 3), … become one, a last one without a neighbour
//!    stays as it is, and this repeats until one is left.
//! 5. The result of an empty row is e.
//!
//! Elements that are 16-bit floats become `f32` first, all steps are done in `f32`, and the result is rounded once. Integers
//! wrap, so that their order is of no account.
//!
//! `max`, `min`, `all`, `any`, `argmax` and `argmin` give the same in every order: NaN, which is canonical, is above and below
//! all numbers, -0.0 is below +0.0 for `max` and `min`, and of equal elements the first counts for `argmax` and `argmin`, for
//! which -0.0 equals +0.0.
//!
//! # The order of scans
//!
//! `cumsum` and `cumprod` cut the row along their axis into blocks of 4,096 elements too. Within a block, element k is the
//! ascending chain `((x[0] + x[1]) + x[2]) + … + x[k]`. The carry into block 1 is the last value of block 0, and that into block
//! j + 1 is the carry into block j plus the last value of the chain of block j. The result is the carry plus the chain, and in
//! block 0 the chain itself. 16-bit floats are computed in `f32`, carries too, and each result is rounded.
//!
//! `cummax` and `cummin` are the maxima and minima of the elements up to each. `linear_recurrence` is one chain: it starts as
//! `b[0]` and becomes `fma(a[k], chain, b[k])`, in `f32` for 16-bit floats, of which each result is rounded and the chain is not.
//!
//! # The order of products of matrices
//!
//! An element of the result is the ascending chain of fused multiply-adds over k: it starts as +0.0, and for k = 0, 1, …
//! becomes `fma(a[i, k], b[k, j], element)`, with one rounding each. Factors that are 16-bit floats become `f32` first, the chain
//! is in `f32`, and the result is rounded once. Integers wrap; of `bool` the product is `and` and the sum `or`.
//!
//! `contract` is the same over several axes, whose elements are in row-major order of the axes as the first operand has them.
//!
//! # The order of attention
//!
//! A query has a greatest score m, which starts as minus infinity, a sum l and sums of values, which start as +0.0. It goes over
//! blocks of [`N_KEYS`] = 64 keys, up to the last one with a key that it looks at:
//!
//! 1. The score of a key is the ascending chain of `fma(q, k, score)` over the width, from +0.0, times the scale; minus infinity
//!    for a key that it does not look at.
//! 2. m becomes the maximum of m and all scores of the block, and the factor is `exp` of the old m less the new one.
//! 3. The weight of a key is `exp(score - m)`, and 0 for one that it does not look at. Lane j adds the weights of keys j and j + 32, and
//!    the 32 lanes become one as those of a block of a sum. l becomes `l * factor + lane 0`.
//! 4. A sum of values becomes its product with the factor, and then, for the keys of the block in ascending order,
//!    `fma(weight, v, sum)`.
//!
//! The result is each sum of values times `1 / l`. 16-bit floats become `f32` first, and the result is rounded once.
//!
//! # The order of sums by indices
//!
//! `scatter_add` adds one update after the other in ascending order along its axis, each rounded to the type of the result.
//!
//! # Random numbers
//!
//! Element i of `rand` and `randn`, in row-major order, is drawn from the state `rand_init(seed, i)`, of whose arguments the low 32
//! bits count, by HIR's `randf` and `randn`, which are `f32`, and converted.

mod attention;
mod elementwise;
mod indexing;
mod matmul;
mod movement;
mod random;
mod reduce;
mod scan;

pub use attention::N_KEYS;
pub use reduce::{BLOCK_LENGTH, N_LANES};

use crate::attribute::AttributeValue;
use crate::decompose::decompose;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorType, TensorValue};
use crate::layout::Layout;
use crate::op::{OpDefinition, TensorOp};
use crate::shape::{Dim, Shape};
use crate::specialise::{SymbolValues, specialise};
use crate::verify::verify;
use polyloom_ir::Scalar;

/// A tensor of known extents, in row-major order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DenseTensor {
    /// The element type.
    pub dtype: Scalar,
    /// The extents.
    pub extents: Vec<u64>,
    /// The bits of the elements, zero-extended.
    pub bits: Vec<u64>,
}

impl DenseTensor {
    /// Makes a tensor of numbers, which are rounded to the type.
    ///
    /// # Errors
    ///
    /// [`GraphError::Evaluation`] if the number of values is not that of the elements.
    pub fn of_numbers(dtype: Scalar, extents: &[u64], values: &[f64]) -> Result<DenseTensor, GraphError> {
        let bits = values.iter().map(|value| crate::builder::convert(Scalar::F64, value.to_bits(), dtype)).collect();
        let tensor = DenseTensor { dtype, extents: extents.to_vec(), bits };
        tensor.check()?;
        Ok(tensor)
    }

    /// Returns the elements as numbers. 64-bit integers are rounded.
    pub fn numbers(&self) -> Vec<f64> {
        let convert = |&bits: &u64| f64::from_bits(crate::builder::convert(self.dtype, bits, Scalar::F64));
        self.bits.iter().map(convert).collect()
    }

    fn check(&self) -> Result<(), GraphError> {
        let shape = Shape::of(&self.extents);
        if shape.n_elements() == Some(self.bits.len() as u64) {
            return Ok(());
        }
        Err(GraphError::Evaluation(format!("a tensor of shape {shape} has {} elements", self.bits.len())))
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::dense(&self.extents)
    }
}

/// Evaluates a graph.
///
/// # Errors
///
/// [`GraphError::Evaluation`] if the inputs are not those of the graph, and the errors of [`specialise`] and [`decompose`].
///
/// ```
/// use polyloom_graph::reference::{DenseTensor, evaluate};
/// use polyloom_ir::Scalar;
///
/// let graph = polyloom_graph::parse_graph("%x = input \"x\" : f32[n]\n%y = sum %x\nreturn %y").unwrap();
/// let x = DenseTensor::of_numbers(Scalar::F32, &[3], &[1.0, 2.0, 4.0]).unwrap();
/// assert_eq!(evaluate(&graph, &[x]).unwrap()[0].numbers(), [7.0]);
/// ```
pub fn evaluate(graph: &Graph, inputs: &[DenseTensor]) -> Result<Vec<DenseTensor>, GraphError> {
    verify(graph)?;
    let symbols = bind_symbols(graph, inputs)?;
    let graph = decompose(&specialise(graph, &symbols)?)?;
    let mut inputs = inputs.iter();
    let mut values: Vec<DenseTensor> = Vec::with_capacity(graph.values.len());
    for value in &graph.values {
        let operands: Vec<&DenseTensor> = match &value.def {
            TensorDef::Op { operands, .. } => operands.iter().map(|operand| &values[operand.0 as usize]).collect(),
            _ => Vec::new(),
        };
        let input = if matches!(value.def, TensorDef::Input(_)) { inputs.next().cloned() } else { None };
        let tensor = evaluate_value(value, &operands, input)?;
        values.push(tensor);
    }
    Ok(graph.outputs.iter().map(|output| values[output.0 as usize].clone()).collect())
}

/// Evaluates one value of a decomposed graph of known extents, given its operands, or the tensor of an input.
pub(crate) fn evaluate_value(
    value: &TensorValue,
    operands: &[&DenseTensor],
    input: Option<DenseTensor>,
) -> Result<DenseTensor, GraphError> {
    let failed = |reason: &str| GraphError::Evaluation(reason.to_owned());
    match &value.def {
        TensorDef::Input(_) => input.ok_or_else(|| failed("an input is missing")),
        TensorDef::Number(_) => Err(failed("a number that is given at each run has no value here")),
        TensorDef::Constant(bits) => Ok(DenseTensor { dtype: value.ty.dtype, extents: Vec::new(), bits: vec![*bits] }),
        TensorDef::Op { op, attributes, .. } => evaluate_op(*op, operands, &attributes.0, &value.ty),
    }
}

/// Evaluates an elementwise op on scalars, given by their types and bits. Returns `None` if it does not take them.
pub(crate) fn evaluate_scalar(op: TensorOp, operands: &[(Scalar, u64)], dtype: Scalar) -> Option<u64> {
    let tensors: Vec<DenseTensor> =
        operands.iter().map(|&(dtype, bits)| DenseTensor { dtype, extents: Vec::new(), bits: vec![bits] }).collect();
    let tensors: Vec<&DenseTensor> = tensors.iter().collect();
    elementwise::evaluate(op, &tensors, &[], dtype).ok()?.first().copied()
}

pub(crate) fn bind_symbols(graph: &Graph, inputs: &[DenseTensor]) -> Result<SymbolValues, GraphError> {
    let n_inputs = graph.inputs().count();
    if n_inputs != inputs.len() {
        return Err(GraphError::Evaluation(format!("the graph has {n_inputs} inputs, not {}", inputs.len())));
    }
    let mut symbols = SymbolValues::default();
    for ((name, ty), tensor) in graph.inputs().zip(inputs) {
        tensor.check()?;
        let is_alike = ty.dtype == tensor.dtype && ty.shape.rank() == tensor.extents.len();
        let has_extents = ty.shape.0.iter().zip(&tensor.extents).all(|(dim, &extent)| match dim {
            Dim::Static(expected) => *expected == extent,
            Dim::Symbol(name) => *symbols.entry(name.clone()).or_insert(extent) == extent,
        });
        if !is_alike || !has_extents {
            let found = TensorType { dtype: tensor.dtype, shape: Shape::of(&tensor.extents) };
            return Err(GraphError::Evaluation(format!("input `{name}` is {found}, not {ty}")));
        }
    }
    Ok(symbols)
}

pub(crate) fn evaluate_op(
    op: TensorOp,
    operands: &[&DenseTensor],
    attributes: &[AttributeValue],
    ty: &TensorType,
) -> Result<DenseTensor, GraphError> {
    let unknown = || GraphError::Evaluation(format!("`{}` of {ty} has no evaluator", op.name()));
    let extents = ty.shape.as_static().ok_or_else(unknown)?;
    let bits = match (op, op.info().definition) {
        (_, OpDefinition::Scalar(_)) => elementwise::evaluate(op, operands, &extents, ty.dtype)?,
        (TensorOp::Sum | TensorOp::Prod, _) => reduce::evaluate_sum(op, operands[0], &attributes[0].ints()),
        (TensorOp::Max | TensorOp::Min | TensorOp::All | TensorOp::Any, _) => {
            reduce::evaluate_extremum(op, operands[0], &attributes[0].ints())
        }
        (TensorOp::Argmax | TensorOp::Argmin, _) => reduce::evaluate_index(op, operands[0], &attributes[0]),
        (TensorOp::Cumsum | TensorOp::Cumprod, _) => scan::evaluate_blocks(op, operands[0], &attributes[0].ints()),
        (TensorOp::Cummax | TensorOp::Cummin, _) => scan::evaluate_extremum(op, operands[0], &attributes[0].ints()),
        (TensorOp::LinearRecurrence, _) => scan::evaluate_recurrence(operands, &attributes[0].ints(), &extents),
        (TensorOp::MatMul, _) => matmul::evaluate(operands[0], operands[1], &extents),
        (TensorOp::Attention, _) => attention::evaluate(operands, attributes, &extents)?,
        (TensorOp::Contract, _) => {
            matmul::contract(operands[0], operands[1], [0, 1, 2].map(|index| attributes[index].ints()), &extents)
        }
        (TensorOp::Gather, _) => indexing::gather(operands[0], operands[1], &attributes[0].ints(), &extents),
        (TensorOp::ScatterAdd, _) => indexing::scatter_add(operands, &attributes[0].ints())?,
        (TensorOp::SortKeys, _) => indexing::sort_keys(operands[0], &attributes[0].ints()),
        (TensorOp::Contiguous, _) => operands[0].bits.clone(),
        (TensorOp::Concat, _) => movement::concat(operands, &attributes[0].ints(), &extents),
        (TensorOp::Pad, _) => movement::pad(operands[0], attributes, &extents),
        (TensorOp::Iota, _) => movement::iota(&extents, &attributes[1].ints(), ty.dtype),
        (TensorOp::ElementCount, _) => movement::element_count(operands[0], &attributes[0].ints(), ty.dtype),
        (TensorOp::Rand | TensorOp::Randn, _) => random::evaluate(op, operands[0], &extents, ty.dtype)?,
        (_, OpDefinition::View) => {
            let layout = movement::view(op, &operands[0].layout(), attributes, &extents).ok_or_else(unknown)?;
            layout.places().map(|place| operands[0].bits[place]).collect()
        }
        _ => return Err(unknown()),
    };
    Ok(DenseTensor { dtype: ty.dtype, extents, bits })
}
