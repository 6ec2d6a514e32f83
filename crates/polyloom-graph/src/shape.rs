//! Shapes of tensors: extents that are numbers or symbols, and how they broadcast.

use std::fmt;
use std::sync::Arc;

/// The extent of one axis.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Dim {
    /// A number known when the graph is built.
    Static(u64),
    /// A name that stands for one number in the whole graph. Two axes with the same name have the same extent.
    Symbol(Arc<str>),
}

impl Dim {
    /// Returns the number, if it is known.
    pub fn as_static(&self) -> Option<u64> {
        match self {
            Dim::Static(extent) => Some(*extent),
            Dim::Symbol(_) => None,
        }
    }
}

impl From<u64> for Dim {
    fn from(extent: u64) -> Dim {
        Dim::Static(extent)
    }
}

impl From<&str> for Dim {
    fn from(name: &str) -> Dim {
        Dim::Symbol(name.into())
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Static(extent) => write!(f, "{extent}"),
            Dim::Symbol(name) => f.write_str(name),
        }
    }
}

/// The extents of a tensor's axes, outermost first.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Shape(pub Vec<Dim>);

impl Shape {
    /// The shape of a scalar, which has no axes.
    pub const SCALAR: Shape = Shape(Vec::new());

    /// Makes a shape of known extents.
    pub fn of(extents: &[u64]) -> Shape {
        Shape(extents.iter().map(|&extent| Dim::Static(extent)).collect())
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Returns the extents, if all are numbers.
    pub fn as_static(&self) -> Option<Vec<u64>> {
        self.0.iter().map(Dim::as_static).collect()
    }

    /// Returns the number of elements, if all extents are numbers and their product is a `u64`.
    pub fn n_elements(&self) -> Option<u64> {
        self.0.iter().try_fold(1u64, |n, dim| n.checked_mul(dim.as_static()?))
    }

    /// Returns the shape that two tensors broadcast to, by NumPy's rule, or `None` if they do not.
    ///
    /// Axes are matched from the last. Two extents match if they are the same or one of them is 1. A symbol matches
    /// itself and 1 alone, because whether it is another number is not known before the graph runs.
    ///
    /// ```
    /// use polyloom_graph::Shape;
    /// assert_eq!(Shape::of(&[4, 1, 3]).broadcast(&Shape::of(&[2, 1])), Some(Shape::of(&[4, 2, 3])));
    /// assert_eq!(Shape::of(&[2]).broadcast(&Shape::of(&[3])), None);
    /// ```
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let one = Dim::Static(1);
        let extent = |shape: &Shape, axis: usize| match (axis + shape.rank()).checked_sub(rank) {
            Some(own_axis) => shape.0[own_axis].clone(),
            None => one.clone(),
        };
        let extents = (0..rank).map(|axis| match (extent(self, axis), extent(other, axis)) {
            (a, b) if a == b || b == one => Some(a),
            (a, b) if a == one => Some(b),
            _ => None,
        });
        extents.collect::<Option<Vec<Dim>>>().map(Shape)
    }

    /// Returns true if both shapes have the same number of elements for every value of their symbols.
    pub fn has_as_many_elements_as(&self, other: &Shape) -> bool {
        self.element_factors().is_some_and(|factors| Some(factors) == other.element_factors())
    }

    /// Returns the number of elements as a number and a sorted list of symbols to multiply it by.
    fn element_factors(&self) -> Option<(u64, Vec<&str>)> {
        let mut symbols: Vec<&str> = Vec::new();
        let mut factor = 1u64;
        for dim in &self.0 {
            match dim {
                Dim::Static(extent) => factor = factor.checked_mul(*extent)?,
                Dim::Symbol(name) => symbols.push(name),
            }
        }
        symbols.sort_unstable();
        // Nothing is left of the symbols in an empty tensor.
        Some(if factor == 0 { (0, Vec::new()) } else { (factor, symbols) })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<String> = self.0.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", extents.join(", "))
    }
}
