//! Shape rules of views and of ops that move elements.

use super::ShapeQuery;
use crate::attribute::AttributeValue;
use crate::error::GraphError;
use crate::shape::{Dim, Shape};

impl ShapeQuery<'_> {
    pub(super) fn reshape(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        let target = self.target_shape("shape", Some(&shape))?;
        if !shape.has_as_many_elements_as(&target) {
            return Err(self.shape_error(0, format!("which has not as many elements as {target}")));
        }
        Ok(target)
    }

    pub(super) fn permute(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        let axes = self.ints("axes", shape.rank())?;
        let axes = axes.iter().map(|&axis| self.normalise("axes", axis, shape.rank()));
        let axes: Vec<usize> = axes.collect::<Result<_, _>>()?;
        if let Some(axis) = (0..shape.rank()).find(|axis| !axes.contains(axis)) {
            return Err(self.attribute_error("axes", format!("lacks axis {axis} of a tensor of shape {shape}")));
        }
        *self.attribute("axes")? = AttributeValue::Ints(axes.iter().map(|&axis| axis as i64).collect());
        Ok(Shape(axes.iter().map(|&axis| shape.0[axis].clone()).collect()))
    }

    pub(super) fn transpose(&mut self) -> Result<Shape, GraphError> {
        let mut shape = self.shapes[0].clone();
        let axis1 = self.axis("axis1", shape.rank())?;
        let axis2 = self.axis("axis2", shape.rank())?;
        shape.0.swap(axis1, axis2);
        Ok(shape)
    }

    pub(super) fn slice(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        let rank = shape.rank();
        let starts = self.ints("starts", rank)?;
        let steps = self.ints("steps", rank)?;
        let sizes = self.target_shape("sizes", None)?;
        if sizes.rank() != rank {
            return Err(self.attribute_error("sizes", format!("is {sizes}, not of {rank} extents")));
        }
        for (axis, (dim, size)) in shape.0.iter().zip(&sizes.0).enumerate() {
            let (start, step) = (i128::from(starts[axis]), i128::from(steps[axis]));
            let is_within = match (dim.as_static(), size.as_static()) {
                _ if dim == size && start == 0 && step == 1 => true,
                (extent, Some(0)) => step != 0 && (0..=i128::from(extent.unwrap_or(0))).contains(&start),
                (Some(extent), Some(size)) => {
                    let extent = i128::from(extent);
                    let last = start + (i128::from(size) - 1) * step;
                    step != 0 && (0..extent).contains(&start) && (0..extent).contains(&last)
                }
                _ => false,
            };
            if !is_within {
                let reason = format!(
                    "of which {size} elements of axis {axis} from {start} in steps of {step} are not known to exist"
                );
                return Err(self.shape_error(0, reason));
            }
        }
        Ok(sizes)
    }

    pub(super) fn flip(&mut self) -> Result<Shape, GraphError> {
        self.axes()?;
        Ok(self.shapes[0].clone())
    }

    pub(super) fn broadcast_to(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        let target = self.target_shape("shape", None)?;
        if shape.broadcast(&target).as_ref() != Some(&target) {
            return Err(self.shape_error(0, format!("which does not broadcast to {target}")));
        }
        Ok(target)
    }

    pub(super) fn concat(&mut self) -> Result<Shape, GraphError> {
        let mut result = self.shapes[0].clone();
        let axis = self.axis("axis", result.rank())?;
        for (index, shape) in self.shapes.iter().enumerate().skip(1) {
            let is_alike = |other: usize| other == axis || result.0[other] == shape.0[other];
            if shape.rank() != result.rank() || !(0..result.rank()).all(is_alike) {
                return Err(self.shapes_error(0, index, format!("which differ in more than axis {axis}")));
            }
            let sum = match (&result.0[axis], &shape.0[axis]) {
                (Dim::Static(a), Dim::Static(b)) => a.checked_add(*b),
                _ => None,
            };
            let Some(sum) = sum else {
                return Err(self.shapes_error(0, index, format!("whose extents of axis {axis} have no known sum")));
            };
            result.0[axis] = Dim::Static(sum);
        }
        Ok(result)
    }

    pub(super) fn stack(&mut self) -> Result<Shape, GraphError> {
        let mut result = self.shapes[0].clone();
        if let Some(index) = (1..self.shapes.len()).find(|&index| self.shapes[index] != result) {
            return Err(self.shapes_error(0, index, "which must be the same"));
        }
        let axis = self.axis("axis", result.rank() + 1)?;
        result.0.insert(axis, Dim::Static(self.shapes.len() as u64));
        Ok(result)
    }

    pub(super) fn pad(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        let widths = self.ints("widths", 2 * shape.rank())?;
        if let Some(width) = widths.iter().find(|&&width| width < 0) {
            return Err(self.attribute_error("widths", format!("has {width}, but a width is not negative")));
        }
        let grow = |(axis, dim): (usize, &Dim)| match (widths[2 * axis] as u64 + widths[2 * axis + 1] as u64, dim) {
            (0, dim) => Ok(dim.clone()),
            (width, Dim::Static(extent)) if extent.checked_add(width).is_some() => Ok(Dim::Static(extent + width)),
            _ => Err(self.shape_error(0, format!("whose axis {axis} cannot be padded"))),
        };
        shape.0.iter().enumerate().map(grow).collect::<Result<Vec<_>, _>>().map(Shape)
    }

    pub(super) fn tile(&mut self) -> Result<Shape, GraphError> {
        let shape = self.shapes[0].clone();
        let repeats = self.ints("repeats", shape.rank())?;
        if let Some(factor) = repeats.iter().find(|&&factor| factor < 0) {
            return Err(self.attribute_error("repeats", format!("has {factor}, but a number is not negative")));
        }
        let grow = |(axis, dim): (usize, &Dim)| match (repeats[axis] as u64, dim) {
            (1, dim) => Ok(dim.clone()),
            (factor, Dim::Static(extent)) if extent.checked_mul(factor).is_some() => Ok(Dim::Static(extent * factor)),
            _ => Err(self.shape_error(0, format!("whose axis {axis} cannot be repeated"))),
        };
        shape.0.iter().enumerate().map(grow).collect::<Result<Vec<_>, _>>().map(Shape)
    }
}
