//! Shape rules of elementwise ops, reductions, normalisations and products.

use super::ShapeQuery;
use crate::attribute::AttributeValue;
use crate::error::GraphError;
use crate::shape::{Dim, Shape};

/// The most elements of a tensor, so that their bytes are an `i64` whatever their type.
const MAX_ELEMENTS: u64 = i64::MAX as u64 / 16;

impl ShapeQuery<'_> {
    pub(super) fn broadcast(&mut self) -> Result<Shape, GraphError> {
        let mut result = self.shapes[0].clone();
        for (index, shape) in self.shapes.iter().enumerate().skip(1) {
            result = result.broadcast(shape).ok_or_else(|| {
                // The operand to blame is the one that does not fit by itself; of three, it may be only their combination.
                let other = (0..index).find(|&other| self.shapes[other].broadcast(shape).is_none()).unwrap_or(0);
                self.shapes_error(other, index, "which do not broadcast")
            })?;
        }
        Ok(result)
    }

    /// Refuses a shape with more elements than a 64-bit address space holds, so that arithmetic on sizes, strides and bytes never
    /// overflows. Axes of extent 0 count as 1, as in NumPy, because strides multiply the other ones.
    pub(super) fn check_size(&self, shape: &Shape) -> Result<(), GraphError> {
        let Some(extents) = shape.as_static() else { return Ok(()) };
        let n_elements = extents.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent.max(1)));
        if n_elements.is_some_and(|n| n <= MAX_ELEMENTS) {
            return Ok(());
        }
        match self.shapes {
            [] => Err(self.attribute_error("shape", format!("{shape} has too many elements"))),
            _ => Err(self.shape_error(0, format!("of which the result {shape} has too many elements"))),
        }
    }

    pub(super) fn first(&mut self) -> Result<Shape, GraphError> {
        self.check_seed(1)?;
        if self.info.signature.attribute_index("p").is_some() {
            let p = self.attribute("p")?.clone();
            if !matches!(p, AttributeValue::Float(p) if (0.0..=1.0).contains(&p)) {
                return Err(self.attribute_error("p", format!("is {p}, which is no probability")));
            }
        }
        Ok(self.shapes[0].clone())
    }

    pub(super) fn along_axis(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        self.axis("axis", shape.rank())?;
        Ok(shape)
    }

    pub(super) fn scan(&mut self) -> Result<Shape, GraphError> {
        match self.attribute("combine")?.clone() {
            AttributeValue::Text(word) if matches!(&*word, "add" | "multiply" | "maximum" | "minimum") => {
                self.along_axis()
            }
            other => {
                let reason = format!("is {other}, not \"add\", \"multiply\", \"maximum\" or \"minimum\"");
                Err(self.attribute_error("combine", reason))
            }
        }
    }

    pub(super) fn recurrence(&mut self) -> Result<Shape, GraphError> {
        let shape = self.broadcast()?;
        self.axis("axis", shape.rank())?;
        Ok(shape)
    }

    pub(super) fn reduce(&mut self, nonempty: bool) -> Result<Shape, GraphError> {
        let axes = self.axes()?;
        let keepdims = self.flag("keepdims")?;
        self.reduced(&axes, keepdims, nonempty)
    }

    pub(super) fn reduce_axis(&mut self) -> Result<Shape, GraphError> {
        let rank = self.shapes[0].rank();
        let axes = match self.attribute("axis")?.clone() {
            AttributeValue::None => (0..rank).collect(),
            _ => vec![self.axis("axis", rank)?],
        };
        let keepdims = self.flag("keepdims")?;
        self.reduced(&axes, keepdims, true)
    }

    fn reduced(&self, axes: &[usize], keepdims: bool, nonempty: bool) -> Result<Shape, GraphError> {
        let shape = &self.shapes[0];
        if let Some(axis) = axes.iter().find(|&&axis| nonempty && shape.0[axis] == Dim::Static(0)) {
            return Err(
                self.shape_error(0, format!("whose axis {axis} is empty, and that has no `{}`", self.info.name))
            );
        }
        let kept = shape.0.iter().enumerate().filter_map(|(axis, dim)| match (axes.contains(&axis), keepdims) {
            (false, _) => Some(dim.clone()),
            (true, true) => Some(Dim::Static(1)),
            (true, false) => None,
        });
        Ok(Shape(kept.collect()))
    }

    pub(super) fn given(&mut self) -> Result<Shape, GraphError> {
        let shape = self.target_shape("shape", None)?;
        if self.info.signature.attribute_index("axis").is_some() {
            let axis = self.int("axis")?;
            let axis = if axis < 0 { axis.saturating_add(shape.rank() as i64) } else { axis };
            if !(0..shape.rank() as i64).contains(&axis) {
                return Err(self.attribute_error("axis", format!("is {axis}, which is no axis of shape {shape}")));
            }
            *self.attribute("axis")? = AttributeValue::Int(axis);
        }
        self.check_seed(0)?;
        Ok(shape)
    }

    /// Checks that the operand at this place, if there is one, is a scalar.
    pub(super) fn check_seed(&self, operand: usize) -> Result<(), GraphError> {
        match self.shapes.get(operand) {
            Some(shape) if shape.rank() > 0 => Err(self.shape_error(operand, "but a seed is a scalar")),
            _ => Ok(()),
        }
    }

    pub(super) fn scalar(&mut self) -> Result<Shape, GraphError> {
        self.axes()?;
        Ok(Shape::SCALAR)
    }

    pub(super) fn matmul(&mut self) -> Result<Shape, GraphError> {
        let (a, b) = (&self.shapes[0].0, &self.shapes[1].0);
        for operand in 0..2 {
            if self.shapes[operand].rank() == 0 {
                return Err(self.shape_error(operand, "but a product of matrices takes no scalar"));
            }
        }
        let a_length = &a[a.len() - 1];
        let b_length = if b.len() == 1 { &b[0] } else { &b[b.len() - 2] };
        if a_length != b_length {
            let reason = format!("whose inner extents {a_length} and {b_length} differ");
            return Err(self.shapes_error(0, 1, reason));
        }
        let batch = |dims: &[Dim]| Shape(dims[..dims.len().saturating_sub(2)].to_vec());
        let Some(mut result) = batch(a).broadcast(&batch(b)) else {
            return Err(self.shapes_error(0, 1, "whose batches do not broadcast"));
        };
        if a.len() > 1 {
            result.0.push(a[a.len() - 2].clone());
        }
        if b.len() > 1 {
            result.0.push(b[b.len() - 1].clone());
        }
        Ok(result)
    }

    pub(super) fn layer_norm(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        let axis = self.axis("axis", shape.rank())?;
        for operand in 1..self.shapes.len() {
            if self.shapes[operand].0 != shape.0[axis..] {
                let reason = format!("but it must have the shape of the axes from {axis} on");
                return Err(self.shapes_error(0, operand, reason));
            }
        }
        Ok(shape)
    }

    pub(super) fn group_norm(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        let groups = self.int("groups")?;
        let Some(channels) = shape.0.get(1) else {
            return Err(self.shape_error(0, "but it must have an axis of channels, the second"));
        };
        let Some(n_channels) = channels.as_static() else {
            return Err(self.shape_error(0, format!("but the number of channels, {channels}, must be a number")));
        };
        if groups < 1 || n_channels % groups as u64 != 0 {
            let reason = format!("is {groups}, which does not divide the {n_channels} channels of shape {shape}");
            return Err(self.attribute_error("groups", reason));
        }
        for operand in 1..self.shapes.len() {
            if self.shapes[operand].0 != [channels.clone()] {
                return Err(self.shapes_error(0, operand, "but it must have one element for each channel"));
            }
        }
        Ok(shape)
    }

    pub(super) fn cross_entropy(&mut self) -> Result<Shape, GraphError> {
        let logits = &self.shapes[0];
        let class_axis = match logits.rank() {
            0 => return Err(self.shape_error(0, "but it must have an axis of classes")),
            1 => 0,
            _ => 1,
        };
        let mut places = logits.clone();
        if places.0.remove(class_axis) == Dim::Static(0) {
            return Err(self.shape_error(0, "but it must have classes"));
        }
        if self.shapes[1] != places {
            let reason = format!("but the second must be {places}, one class for each place");
            return Err(self.shapes_error(0, 1, reason));
        }
        match self.attribute("reduction")?.clone() {
            AttributeValue::Text(word) if &*word == "none" => Ok(places),
            AttributeValue::Text(word) if matches!(&*word, "mean" | "sum") => Ok(Shape::SCALAR),
            other => Err(self.attribute_error("reduction", format!("is {other}, not \"mean\", \"sum\" or \"none\""))),
        }
    }
}
