//! The evaluator of widened graphs in pairs of `float64`.
//!
//! Ops that move elements are those of [`crate::reference`], on the first parts and on the second ones; so is everything that has no floats.
//! Sums go in ascending order, which is as good as any with 104 bits.

use super::double_double::DoubleDouble;
use super::wide_elementwise;
use crate::attribute::AttributeValue;
use crate::decompose::decompose;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorType};
use crate::layout::Layout;
use crate::op::{OpDefinition, TensorOp};
use crate::reference::{DenseTensor, evaluate_op, evaluate_value};
use polyloom_ir::Scalar;
use std::cmp::Ordering;

/// A tensor whose floats have a second part.
#[derive(Clone, Debug)]
pub(super) struct WideTensor {
    /// The tensor; of floats the first parts.
    pub(super) high: DenseTensor,
    /// The second parts, empty if the elements are not floats.
    pub(super) low: Vec<f64>,
}

impl WideTensor {
    fn exact(high: DenseTensor) -> WideTensor {
        let low = if high.dtype == Scalar::F64 { vec![0.0; high.bits.len()] } else { Vec::new() };
        WideTensor { high, low }
    }

    pub(super) fn of_floats(extents: &[u64], values: impl IntoIterator<Item = DoubleDouble>) -> WideTensor {
        let values = values.into_iter();
        let (mut bits, mut low) = (Vec::with_capacity(values.size_hint().0), Vec::with_capacity(values.size_hint().0));
        for value in values {
            bits.push(value.high.to_bits());
            low.push(value.low);
        }
        WideTensor { high: DenseTensor { dtype: Scalar::F64, extents: extents.to_vec(), bits }, low }
    }

    pub(super) fn is_float(&self) -> bool {
        self.high.dtype == Scalar::F64
    }

    pub(super) fn get(&self, place: usize) -> DoubleDouble {
        DoubleDouble { high: f64::from_bits(self.high.bits[place]), low: self.low[place] }
    }

    /// Returns the second parts as a tensor.
    fn low_tensor(&self) -> DenseTensor {
        let bits = self.low.iter().map(|low| low.to_bits()).collect();
        DenseTensor { dtype: Scalar::F64, extents: self.high.extents.clone(), bits }
    }
}

/// Evaluates a widened graph of known extents, and rounds its outputs to `float64`.
pub(super) fn evaluate(graph: &Graph, inputs: &[DenseTensor]) -> Result<Vec<DenseTensor>, GraphError> {
    let graph = decompose(graph)?;
    let mut inputs = inputs.iter();
    let mut values: Vec<WideTensor> = Vec::with_capacity(graph.values.len());
    for value in &graph.values {
        let tensor = match &value.def {
            TensorDef::Op { op, operands, attributes } => {
                let operands: Vec<&WideTensor> = operands.iter().map(|operand| &values[operand.0 as usize]).collect();
                evaluate_wide_op(*op, &operands, &attributes.0, &value.ty)?
            }
            TensorDef::Input(_) => WideTensor::exact(evaluate_value(value, &[], inputs.next().cloned())?),
            _ => WideTensor::exact(evaluate_value(value, &[], None)?),
        };
        values.push(tensor);
    }
    Ok(graph.outputs.iter().map(|output| values[output.0 as usize].high.clone()).collect())
}

fn evaluate_wide_op(
    op: TensorOp,
    operands: &[&WideTensor],
    attributes: &[AttributeValue],
    ty: &TensorType,
) -> Result<WideTensor, GraphError> {
    let extents =
        ty.shape.as_static().ok_or_else(|| GraphError::Evaluation(format!("`{}` has unknown extents", op.name())))?;
    let high: Vec<&DenseTensor> = operands.iter().map(|operand| &operand.high).collect();
    if operands.iter().all(|operand| !operand.is_float()) && op != TensorOp::Cast {
        return evaluate_op(op, &high, attributes, ty).map(WideTensor::exact);
    }
    let axes = |index: usize| -> Vec<usize> { attributes[index].axes() };
    let floats = |values: Vec<DoubleDouble>| WideTensor::of_floats(&extents, values);
    let x = operands[0];
    Ok(match op {
        TensorOp::Sum => floats(reduce(x, &axes(0), |row| row.iter().fold(DoubleDouble::default(), |sum, &x| sum + x))),
        TensorOp::Prod => floats(reduce(x, &axes(0), |row| row.iter().fold(1.0.into(), |product, &x| product * x))),
        TensorOp::Max | TensorOp::Min => {
            floats(reduce(x, &axes(0), |row| row[place_of_extremum(row, op == TensorOp::Max)]))
        }
        TensorOp::Argmax | TensorOp::Argmin => {
            let all = attributes[0] == AttributeValue::None;
            let axes = if all { (0..x.high.extents.len()).collect() } else { axes(0) };
            let bits = reduce(x, &axes, |row| place_of_extremum(row, op == TensorOp::Argmax) as u64);
            WideTensor::exact(DenseTensor { dtype: ty.dtype, extents, bits })
        }
        TensorOp::Cumsum => floats(scan(x, axes(0)[0], |sum, x| sum + x)),
        TensorOp::Cumprod => floats(scan(x, axes(0)[0], |product, x| product * x)),
        TensorOp::Cummax | TensorOp::Cummin => {
            floats(scan(x, axes(0)[0], |best, x| [best, x][place_of_extremum(&[best, x], op == TensorOp::Cummax)]))
        }
        TensorOp::LinearRecurrence => floats(recurrence(x, operands[1], axes(0)[0], &extents)),
        TensorOp::MatMul => floats(matmul(x, operands[1], &extents)),
        TensorOp::Contract => {
            floats(contract(x, operands[1], [0, 1, 2].map(|index| attributes[index].ints()), &extents))
        }
        TensorOp::Attention => floats(attention(operands, attributes, &extents)),
        TensorOp::ScatterAdd => floats(scatter_add(operands, axes(0)[0])),
        TensorOp::Contiguous | TensorOp::Gather | TensorOp::Concat | TensorOp::Pad => {
            move_elements(op, operands, attributes, ty)?
        }
        _ if op.info().is_view() => move_elements(op, operands, attributes, ty)?,
        _ if matches!(op.info().definition, OpDefinition::Scalar(_)) => {
            wide_elementwise::evaluate(op, operands, &extents, ty.dtype)?
        }
        _ => WideTensor::exact(evaluate_op(op, &high, attributes, ty)?),
    })
}

/// Moves both parts alike. What a `pad` adds has no second part.
fn move_elements(
    op: TensorOp,
    operands: &[&WideTensor],
    attributes: &[AttributeValue],
    ty: &TensorType,
) -> Result<WideTensor, GraphError> {
    let high: Vec<&DenseTensor> = operands.iter().map(|operand| &operand.high).collect();
    let high = evaluate_op(op, &high, attributes, ty)?;
    if high.dtype != Scalar::F64 {
        return Ok(WideTensor::exact(high));
    }
    let mut attributes = attributes.to_vec();
    if op == TensorOp::Pad {
        attributes[1] = AttributeValue::Float(0.0);
    }
    let low: Vec<DenseTensor> = operands
        .iter()
        .map(|operand| if operand.is_float() { operand.low_tensor() } else { operand.high.clone() })
        .collect();
    let low = evaluate_op(op, &low.iter().collect::<Vec<_>>(), &attributes, ty)?;
    let low = low.bits.iter().zip(&high.bits).map(|(&low, &high)| {
        // The second part of an infinity or NaN is nothing.
        if f64::from_bits(high).is_finite() { f64::from_bits(low) } else { 0.0 }
    });
    Ok(WideTensor { low: low.collect(), high })
}

/// Calls a function on each row of the elements along axes.
fn reduce<T>(x: &WideTensor, axes: &[usize], combine: impl Fn(&[DoubleDouble]) -> T) -> Vec<T> {
    let (reduced, kept): (Vec<usize>, Vec<usize>) = (0..x.high.extents.len()).partition(|axis| axes.contains(axis));
    let length = reduced.iter().map(|&axis| x.high.extents[axis]).product::<u64>() as usize;
    let n_rows = kept.iter().map(|&axis| x.high.extents[axis]).product::<u64>() as usize;
    let layout = x.high.layout().permuted(&[kept, reduced].concat());
    let elements: Vec<DoubleDouble> = layout.places().map(|place| x.get(place)).collect();
    (0..n_rows).map(|row| combine(&elements[row * length..(row + 1) * length])).collect()
}

/// Returns the place of the first NaN, or else of the first of the greatest or smallest elements. A zero that is negative is below one
/// that is positive only where values are asked for, which are equal anyway.
fn place_of_extremum(row: &[DoubleDouble], is_max: bool) -> usize {
    let mut best = 0;
    for (place, &element) in row.iter().enumerate() {
        if row[best].is_nan() {
            break;
        }
        let wanted = if is_max { Ordering::Greater } else { Ordering::Less };
        if element.is_nan() || element.compare(row[best]) == Some(wanted) {
            best = place;
        }
    }
    best
}

/// Returns the places of each row along an axis.
fn rows(extents: &[u64], axis: usize) -> Vec<Vec<usize>> {
    let order: Vec<usize> = (0..extents.len()).filter(|&other| other != axis).chain([axis]).collect();
    let places: Vec<usize> = Layout::dense(extents).permuted(&order).places().collect();
    places.chunks(extents[axis].max(1) as usize).map(<[usize]>::to_vec).collect()
}

fn scan(
    x: &WideTensor,
    axis: usize,
    combine: impl Fn(DoubleDouble, DoubleDouble) -> DoubleDouble,
) -> Vec<DoubleDouble> {
    let mut results = vec![DoubleDouble::default(); x.high.bits.len()];
    for row in rows(&x.high.extents, axis) {
        let mut state: Option<DoubleDouble> = None;
        for place in row {
            let next = state.map_or(x.get(place), |state| combine(state, x.get(place)));
            results[place] = next;
            state = Some(next);
        }
    }
    results
}

fn recurrence(a: &WideTensor, b: &WideTensor, axis: usize, extents: &[u64]) -> Vec<DoubleDouble> {
    let spread = |x: &WideTensor| -> Vec<DoubleDouble> {
        x.high.layout().broadcast_to(extents).places().map(|place| x.get(place)).collect()
    };
    let (a, b) = (spread(a), spread(b));
    let mut results = vec![DoubleDouble::default(); a.len()];
    for row in rows(extents, axis) {
        let mut state: Option<DoubleDouble> = None;
        for place in row {
            let next = state.map_or(b[place], |state| a[place] * state + b[place]);
            results[place] = next;
            state = Some(next);
        }
    }
    results
}

/// Returns the extents of a matrix, in which a vector is a row or a column.
fn matrix_extents(extents: &[u64], is_row: bool) -> Vec<u64> {
    match extents {
        [n] if is_row => vec![1, *n],
        [n] => vec![*n, 1],
        _ => extents.to_vec(),
    }
}

/// Returns the first place of each matrix of a batch.
fn matrix_starts(extents: &[u64], batch: &[u64]) -> Vec<usize> {
    let own = extents.len() - 2;
    let size = extents[own..].iter().product::<u64>() as usize;
    Layout::dense(&extents[..own]).broadcast_to(batch).places().map(|place| place * size).collect()
}

fn matmul(a: &WideTensor, b: &WideTensor, extents: &[u64]) -> Vec<DoubleDouble> {
    let [of_a, of_b] = [matrix_extents(&a.high.extents, true), matrix_extents(&b.high.extents, false)];
    let n_dropped = usize::from(a.high.extents.len() == 1) + usize::from(b.high.extents.len() == 1);
    let batch = &extents[..extents.len() + n_dropped - 2];
    let [n_rows, length, n_columns] =
        [of_a[of_a.len() - 2], of_a[of_a.len() - 1], of_b[of_b.len() - 1]].map(|extent| extent as usize);
    let mut results = Vec::new();
    for (a_start, b_start) in matrix_starts(&of_a, batch).into_iter().zip(matrix_starts(&of_b, batch)) {
        for (i, j) in (0..n_rows).flat_map(|i| (0..n_columns).map(move |j| (i, j))) {
            results.push((0..length).fold(DoubleDouble::default(), |sum, k| {
                sum + a.get(a_start + i * length + k) * b.get(b_start + k * n_columns + j)
            }));
        }
    }
    results
}

fn contract(a: &WideTensor, b: &WideTensor, labels: [Vec<i64>; 3], extents: &[u64]) -> Vec<DoubleDouble> {
    let [a_labels, b_labels, labels] = labels;
    let sums: Vec<usize> = (0..a_labels.len()).filter(|&axis| !labels.contains(&a_labels[axis])).collect();
    let sum_extents: Vec<u64> = sums.iter().map(|&axis| a.high.extents[axis]).collect();
    let all: Vec<i64> = labels.iter().copied().chain(sums.iter().map(|&axis| a_labels[axis])).collect();
    let space = [extents, &sum_extents].concat();
    let layout = |x: &WideTensor, own: &[i64]| {
        let dense = x.high.layout();
        let stride = |label: &i64| own.iter().position(|other| other == label).map_or(0, |axis| dense.strides[axis]);
        Layout { extents: space.clone(), strides: all.iter().map(stride).collect(), offset: 0 }
    };
    let (of_a, of_b) = (layout(a, &a_labels), layout(b, &b_labels));
    let mut places = of_a.places().zip(of_b.places());
    let length = sum_extents.iter().product::<u64>() as usize;
    let n_results = extents.iter().product::<u64>() as usize;
    let mut sum = |_| {
        let terms = places.by_ref().take(length);
        terms.fold(DoubleDouble::default(), |sum, (x, y)| sum + a.get(x) * b.get(y))
    };
    (0..n_results).map(&mut sum).collect()
}

/// Evaluates attention by its formula, without blocks of keys.
fn attention(operands: &[&WideTensor], attributes: &[AttributeValue], extents: &[u64]) -> Vec<DoubleDouble> {
    let [q, k, v] = [operands[0], operands[1], operands[2]];
    let n = extents.len() - 2;
    let [n_queries, n_columns] = [extents[n] as usize, extents[n + 1] as usize];
    let [n_keys, width] = [k.high.extents[k.high.extents.len() - 2], k.high.extents[k.high.extents.len() - 1]]
        .map(|extent| extent as usize);
    let is_causal = attributes[0] == AttributeValue::Bool(true);
    let scale: DoubleDouble = match attributes[1] {
        AttributeValue::Float(scale) => scale.into(),
        _ => DoubleDouble::from(1.0) / DoubleDouble::from(width as f64).sqrt(),
    };
    let starts = |x: &WideTensor| matrix_starts(&x.high.extents, &extents[..n]);
    let mut results = Vec::new();
    for ((of_q, of_k), of_v) in starts(q).into_iter().zip(starts(k)).zip(starts(v)) {
        for query in 0..n_queries {
            let n_seen = if is_causal { (query + 1 + n_keys).saturating_sub(n_queries) } else { n_keys };
            let score = |key: usize| {
                let dot = (0..width).fold(DoubleDouble::default(), |sum, d| {
                    sum + q.get(of_q + query * width + d) * k.get(of_k + key * width + d)
                });
                dot * scale
            };
            let scores: Vec<DoubleDouble> = (0..n_seen).map(score).collect();
            let greatest = scores.get(place_of_extremum(&scores, true)).copied().unwrap_or_default();
            let weights: Vec<DoubleDouble> = scores.iter().map(|&score| (score - greatest).exp()).collect();
            let total = weights.iter().fold(DoubleDouble::default(), |sum, &weight| sum + weight);
            results.extend((0..n_columns).map(|column| {
                let weighted = weights.iter().enumerate().fold(DoubleDouble::default(), |sum, (key, &weight)| {
                    sum + weight * v.get(of_v + key * n_columns + column)
                });
                weighted / total
            }));
        }
    }
    results
}

fn scatter_add(operands: &[&WideTensor], axis: usize) -> Vec<DoubleDouble> {
    let [x, index, updates] = [operands[0], operands[1], operands[2]];
    let whole = x.high.layout();
    let (n, stride) = (whole.extents[axis] as i64, whole.strides[axis]);
    let mut to = Layout { extents: updates.high.extents.clone(), ..whole };
    to.strides[axis] = 0;
    let indices = index.high.layout().broadcast_to(&updates.high.extents);
    let mut results: Vec<DoubleDouble> = (0..x.low.len()).map(|place| x.get(place)).collect();
    let places: Vec<usize> = to.places().collect();
    for ((place, of_index), of_update) in places.into_iter().zip(indices.places()).zip(0..) {
        let index = index.high.bits[of_index] as i64;
        let index = if index < 0 { index + n } else { index };
        if (0..n).contains(&index) {
            let place = (place as i64 + index * stride) as usize;
            results[place] = results[place] + updates.get(of_update);
        }
    }
    results
}
