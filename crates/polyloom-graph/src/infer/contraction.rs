//! Shape rules of contractions, convolutions and windows.

use super::ShapeQuery;
use crate::attribute::AttributeValue;
use crate::equation::Equation;
use crate::error::GraphError;
use crate::shape::{Dim, Shape};

impl ShapeQuery<'_> {
    /// Finds the extents of labels, given those of each operand.
    fn labelled(&self, operands: &[Vec<i64>], result: &[i64]) -> Result<Shape, GraphError> {
        let mut known: Vec<(i64, usize, Dim)> = Vec::new();
        for (operand, labels) in operands.iter().enumerate() {
            if labels.len() != self.shapes[operand].rank() {
                let reason = format!("but it has {} labels", labels.len());
                return Err(self.shape_error(operand, reason));
            }
            for (&label, dim) in labels.iter().zip(&self.shapes[operand].0) {
                match known.iter_mut().find(|(other, ..)| *other == label) {
                    Some((_, _, other)) if *other == *dim => {}
                    Some((_, first, other)) => {
                        let reason = format!("of which axes of one label have the extents {other} and {dim}");
                        return Err(match *first == operand {
                            true => self.shape_error(operand, reason),
                            false => self.shapes_error(*first, operand, reason),
                        });
                    }
                    None => known.push((label, operand, dim.clone())),
                }
            }
        }
        let dim = |label: &i64| known.iter().find(|(other, ..)| other == label).map(|(_, _, dim)| dim.clone());
        let dims: Option<Vec<Dim>> = result.iter().map(dim).collect();
        dims.map(Shape).ok_or_else(|| self.attribute_error("labels", "has a label that no operand has"))
    }

    pub(super) fn contract(&mut self) -> Result<Shape, GraphError> {
        let mut lists = Vec::new();
        for name in ["a_labels", "b_labels", "labels"] {
            let AttributeValue::Ints(labels) = self.attribute(name)?.clone() else {
                return Err(self.attribute_error(name, "is no list"));
            };
            if let Some(label) = labels.iter().find(|label| **label < 0) {
                return Err(self.attribute_error(name, format!("has {label}, but labels are not negative")));
            }
            if let Some(label) = labels.iter().find(|label| labels.iter().filter(|other| other == label).count() > 1) {
                return Err(self.attribute_error(name, format!("has {label} twice")));
            }
            lists.push(labels);
        }
        let [a, b, labels] = &lists[..] else { return Err(self.attribute_error("labels", "is missing")) };
        let alone = a.iter().chain(b).find(|label| !(labels.contains(label) || a.contains(label) && b.contains(label)));
        if let Some(label) = alone {
            return Err(self.attribute_error("labels", format!("lacks {label}, which one operand alone has")));
        }
        self.labelled(&[a.clone(), b.clone()], labels)
    }

    pub(super) fn einsum(&mut self) -> Result<Shape, GraphError> {
        let AttributeValue::Text(text) = self.attribute("equation")?.clone() else {
            return Err(self.attribute_error("equation", "is no text"));
        };
        let equation = Equation::parse(&text).map_err(|reason| self.attribute_error("equation", reason))?;
        if equation.operands.len() != self.shapes.len() {
            let reason = format!("is of {} operands, not {}", equation.operands.len(), self.shapes.len());
            return Err(self.attribute_error("equation", reason));
        }
        self.labelled(&equation.operands, &equation.result)
    }

    pub(super) fn attention(&mut self) -> Result<Shape, GraphError> {
        for operand in 0..3 {
            if self.shapes[operand].rank() < 2 {
                return Err(self.shape_error(operand, "but it must have at least two axes"));
            }
        }
        let split = |shape: &Shape| {
            let (batch, matrix) = shape.0.split_at(shape.rank() - 2);
            (Shape(batch.to_vec()), matrix.to_vec())
        };
        let [(q_batch, q), (k_batch, k), (v_batch, v)] = [0, 1, 2].map(|operand| split(&self.shapes[operand]));
        if q[1] != k[1] {
            return Err(self.shapes_error(0, 1, "whose last extents differ"));
        }
        if k[0] != v[0] {
            return Err(self.shapes_error(1, 2, "which have not as many keys as values"));
        }
        if k[0] == Dim::Static(0) {
            return Err(self.shape_error(1, "but there must be keys to look at"));
        }
        let Some(batch) = q_batch.broadcast(&k_batch) else {
            return Err(self.shapes_error(0, 1, "whose batches do not broadcast"));
        };
        let Some(mut result) = batch.broadcast(&v_batch) else {
            return Err(self.shapes_error(0, 2, "whose batches do not broadcast"));
        };
        result.0.extend([q[0].clone(), v[1].clone()]);
        Ok(result)
    }

    pub(super) fn linear(&mut self) -> Result<Shape, GraphError> {
        let mut result = self.shapes[0].clone();
        let [outputs, inputs] = &self.shapes[1].0[..] else {
            return Err(self.shape_error(1, "but a weight has two axes, outputs and inputs"));
        };
        if result.0.last() != Some(inputs) {
            return Err(self.shapes_error(0, 1, "whose last extents differ"));
        }
        if self.shapes.get(2).is_some_and(|bias| bias.0 != [outputs.clone()]) {
            return Err(self.shapes_error(1, 2, "but a bias has one element for each output"));
        }
        result.0.pop();
        result.0.push(outputs.clone());
        Ok(result)
    }

    /// Brings an attribute to so many numbers that are not below a least one; a single number is for all.
    fn spatial(&mut self, name: &str, counts: &[usize], otherwise: &[i64], least: i64) -> Result<Vec<i64>, GraphError> {
        let values = match self.attribute(name)?.clone() {
            AttributeValue::Ints(values) if values.len() == 1 => vec![values[0]; counts[0]],
            AttributeValue::Ints(values) if counts.contains(&values.len()) => values,
            AttributeValue::None => otherwise.to_vec(),
            other => {
                let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
                return Err(
                    self.attribute_error(name, format!("is {other}, not 1 or {} integers", counts.join(" or ")))
                );
            }
        };
        if let Some(value) = values.iter().find(|&&value| value < least) {
            return Err(self.attribute_error(name, format!("has {value}, but its numbers are at least {least}")));
        }
        *self.attribute(name)? = AttributeValue::Ints(values.clone());
        Ok(values)
    }

    /// Brings a padding to pairs of numbers.
    fn padding(&mut self, n: usize) -> Result<Vec<i64>, GraphError> {
        let values = self.spatial("padding", &[n, 2 * n], &vec![0; n], 0)?;
        let pairs = if values.len() == n { values.iter().flat_map(|&width| [width, width]).collect() } else { values };
        *self.attribute("padding")? = AttributeValue::Ints(pairs.clone());
        Ok(pairs)
    }

    /// Returns the number of windows along an axis after padding.
    fn n_windows(&self, axis: usize, widths: i64, size: i64, step: i64, dilation: i64) -> Result<Dim, GraphError> {
        let Some(extent) = self.shapes[0].0[axis].as_static() else {
            return Err(self.shape_error(0, format!("of which axis {axis} has no known extent to cut into windows")));
        };
        let reach = i128::from(dilation) * (i128::from(size) - 1) + 1;
        let room = i128::from(extent) + i128::from(widths) - reach;
        if room < 0 {
            let reason = format!("of which axis {axis} is shorter than a window, which takes {reach} elements");
            return Err(self.shape_error(0, reason));
        }
        Ok(Dim::Static((room / i128::from(step) + 1) as u64))
    }

    pub(super) fn convolution(&mut self, n: usize) -> Result<Shape, GraphError> {
        let (x, weight) = (self.shapes[0].clone(), self.shapes[1].clone());
        for (operand, shape) in [&x, &weight].into_iter().enumerate() {
            if shape.rank() != n + 2 {
                return Err(self.shape_error(operand, format!("but it must have {} axes", n + 2)));
            }
        }
        let known = |dim: &Dim| dim.as_static().map(|extent| extent as i64);
        let groups = self.int("groups")?;
        let (Some(outputs), Some(channels), Some(own)) = (known(&weight.0[0]), known(&x.0[1]), known(&weight.0[1]))
        else {
            return Err(self.shapes_error(0, 1, "whose numbers of channels and outputs must be known"));
        };
        if groups < 1 || channels % groups != 0 || outputs % groups != 0 {
            let reason = format!("is {groups}, which does not divide {channels} channels and {outputs} outputs");
            return Err(self.attribute_error("groups", reason));
        }
        if own != channels / groups {
            let reason = format!("but a weight of {groups} groups has {} channels", channels / groups);
            return Err(self.shapes_error(0, 1, reason));
        }
        if self.shapes.get(2).is_some_and(|bias| bias.0 != [weight.0[0].clone()]) {
            return Err(self.shapes_error(1, 2, "but a bias has one element for each output"));
        }
        let strides = self.spatial("stride", &[n], &vec![1; n], 1)?;
        let padding = self.padding(n)?;
        let dilations = self.spatial("dilation", &[n], &vec![1; n], 1)?;
        let mut result = vec![x.0[0].clone(), weight.0[0].clone()];
        for axis in 0..n {
            let Some(size) = known(&weight.0[2 + axis]).filter(|&size| size > 0) else {
                return Err(self.shape_error(1, "but the extents of its windows must be known and not 0"));
            };
            let widths = padding[2 * axis].saturating_add(padding[2 * axis + 1]);
            result.push(self.n_windows(2 + axis, widths, size, strides[axis], dilations[axis])?);
        }
        Ok(Shape(result))
    }

    pub(super) fn pool(&mut self) -> Result<Shape, GraphError> {
        let x = self.shapes[0].clone();
        let Some(first) = x.rank().checked_sub(2) else {
            return Err(self.shape_error(0, "but pooling takes at least two axes"));
        };
        let sizes = self.spatial("size", &[2], &[1, 1], 1)?;
        let strides = self.spatial("stride", &[2], &sizes, 1)?;
        let padding = self.padding(2)?;
        let dilations = match self.info.signature.attribute_index("dilation") {
            Some(_) => self.spatial("dilation", &[2], &[1, 1], 1)?,
            None => vec![1, 1],
        };
        let mut result = x.0[..first].to_vec();
        for axis in 0..2 {
            let [before, after] = [padding[2 * axis], padding[2 * axis + 1]];
            if before.max(after) > dilations[axis].saturating_mul(sizes[axis] - 1) {
                let reason = format!("has {}, so that a window would have nothing but padding", before.max(after));
                return Err(self.attribute_error("padding", reason));
            }
            result.push(self.n_windows(first + axis, before + after, sizes[axis], strides[axis], dilations[axis])?);
        }
        Ok(Shape(result))
    }

    pub(super) fn windows(&mut self) -> Result<Shape, GraphError> {
        let mut result = self.shapes[0].clone();
        let rank = result.rank();
        let AttributeValue::Ints(axes) = self.attribute("axes")?.clone() else {
            return Err(self.attribute_error("axes", "is no list of integers"));
        };
        let axes = axes.iter().map(|&axis| self.normalise("axes", axis, rank));
        let axes: Vec<usize> = axes.collect::<Result<_, _>>()?;
        if let Some(axis) = axes.iter().find(|axis| axes.iter().filter(|other| other == axis).count() > 1) {
            return Err(self.attribute_error("axes", format!("names axis {axis} twice")));
        }
        let mut numbers = Vec::new();
        for name in ["sizes", "steps", "dilations"] {
            let values = self.ints(name, axes.len())?;
            if let Some(value) = values.iter().find(|&&value| value < 1) {
                return Err(self.attribute_error(name, format!("has {value}, but its numbers are at least 1")));
            }
            numbers.push(values);
        }
        for (index, &axis) in axes.iter().enumerate() {
            let [size, step, dilation] = [0, 1, 2].map(|list| numbers[list][index]);
            result.0[axis] = self.n_windows(axis, 0, size, step, dilation)?;
            result.0.push(Dim::Static(size as u64));
        }
        *self.attribute("axes")? = AttributeValue::Ints(axes.iter().map(|&axis| axis as i64).collect());
        Ok(result)
    }
}
