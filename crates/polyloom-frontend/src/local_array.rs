//! Arrays of a function's own, whose extents are constants.

use polyloom_ir::{Composite, Type};
use smallvec::SmallVec;

/// An array of the kernel's own: what its elements are, and its extents.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LocalArray {
    pub(crate) elem: Type,
    pub(crate) shape: SmallVec<[u16; 4]>,
}

impl LocalArray {
    /// The type of the variable that holds it.
    pub(crate) fn vector(&self) -> Option<Composite> {
        let elem = self.elem.as_scalar().or_else(|| Some(self.elem.as_composite()?.elem()))?;
        let len = self.shape.iter().map(|&n| usize::from(n)).product::<usize>() * self.n_components();
        Some(Composite::Vector { elem, len: u16::try_from(len).ok()? })
    }

    pub(crate) fn n_components(&self) -> usize {
        self.elem.as_composite().map_or(1, Composite::n_components)
    }
}
