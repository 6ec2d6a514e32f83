//! Shape rules of ops that move elements by indices.

use super::ShapeQuery;
use crate::error::GraphError;
use crate::shape::{Dim, Shape};

impl ShapeQuery<'_> {
    pub(super) fn gather(&mut self) -> Result<Shape, GraphError> {
        let (mut x, mut index) = (self.shapes[0].clone(), self.shapes[1].clone());
        let axis = self.axis("axis", x.rank())?;
        if index.rank() != x.rank() {
            return Err(self.shapes_error(0, 1, "which must have as many axes"));
        }
        let taken = std::mem::replace(&mut index.0[axis], Dim::Static(1));
        let from = std::mem::replace(&mut x.0[axis], Dim::Static(1));
        let Some(mut result) = x.broadcast(&index) else {
            return Err(self.shapes_error(0, 1, format!("which do not broadcast beside axis {axis}")));
        };
        result.0[axis] = taken;
        self.check_not_empty(axis, &from, &result)?;
        Ok(result)
    }

    /// Refuses to take elements along an axis that has none.
    fn check_not_empty(&self, axis: usize, from: &Dim, result: &Shape) -> Result<(), GraphError> {
        if *from == Dim::Static(0) && !result.0.contains(&Dim::Static(0)) {
            return Err(self.shape_error(0, format!("whose axis {axis} has no element to take")));
        }
        Ok(())
    }

    pub(super) fn take(&mut self) -> Result<Shape, GraphError> {
        let mut result = self.shapes[0].clone();
        let axis = self.axis("axis", result.rank())?;
        let from = result.0[axis].clone();
        result.0.splice(axis..=axis, self.shapes[1].0.iter().cloned());
        self.check_not_empty(axis, &from, &result)?;
        Ok(result)
    }

    pub(super) fn embedding(&mut self) -> Result<Shape, GraphError> {
        let [rows, columns] = &self.shapes[0].0[..] else {
            return Err(self.shape_error(0, "but a weight has two axes, rows and what is in each"));
        };
        let result = Shape(self.shapes[1].0.iter().chain([columns]).cloned().collect());
        self.check_not_empty(0, rows, &result)?;
        Ok(result)
    }

    pub(super) fn scatter_add(&mut self) -> Result<Shape, GraphError> {
        let x = self.shapes[0].clone();
        let axis = self.axis("axis", x.rank())?;
        let updates = &self.shapes[2];
        let is_alike = |other: usize| other == axis || updates.0[other] == x.0[other];
        if updates.rank() != x.rank() || !(0..x.rank()).all(is_alike) {
            return Err(self.shapes_error(0, 2, format!("which differ in more than axis {axis}")));
        }
        if self.shapes[1].broadcast(updates).as_ref() != Some(updates) {
            return Err(self.shapes_error(1, 2, "but indices broadcast to the updates"));
        }
        Ok(x)
    }

    pub(super) fn topk(&mut self) -> Result<Shape, GraphError> {
        let mut result = self.shapes[0].clone();
        let axis = self.axis("axis", result.rank())?;
        let k = self.int("k")?;
        let extent = result.0[axis].as_static();
        if k < 0 || extent.is_some_and(|extent| k as u64 > extent) {
            let reason = format!("is {k}, but axis {axis} has {} elements to choose from", result.0[axis]);
            return Err(self.attribute_error("k", reason));
        }
        if extent.is_none() {
            return Err(self.shape_error(0, format!("of which axis {axis} has no known extent to choose from")));
        }
        result.0[axis] = Dim::Static(k as u64);
        Ok(result)
    }

    pub(super) fn one_hot(&mut self) -> Result<Shape, GraphError> {
        let classes = self.int("classes")?;
        let Ok(classes) = u64::try_from(classes) else {
            return Err(
                self.attribute_error("classes", format!("is {classes}, but a number of classes is not negative"))
            );
        };
        let mut result = self.shapes[0].clone();
        result.0.push(Dim::Static(classes));
        Ok(result)
    }
}
