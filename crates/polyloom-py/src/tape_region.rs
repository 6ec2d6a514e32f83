//! Holds the part of a tape's knowledge of memory that changes with each launch, where no frame of Python is needed.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Fewer bytes are summed up with the GIL, because giving it up takes longer.
const LEAST_WITHOUT_GIL: usize = 1 << 14;

/// The part of a tape's knowledge of a region that changes with each launch: base class of `polyloom._history.Region`.
#[pyclass(subclass, module = "polyloom._native")]
pub(crate) struct RegionState {
    /// Says what has changed the memory without being recorded; empty if nothing has.
    #[pyo3(get, set)]
    pub(crate) changed: String,
    /// True if it has not become part of another region.
    #[pyo3(get, set)]
    pub(crate) is_current: bool,
    /// True if all that is needed and overwritten is one array.
    #[pyo3(get, set)]
    pub(crate) is_single: bool,
    /// True if the way back reads that array as it is.
    #[pyo3(get, set)]
    pub(crate) is_needed: bool,
    /// The address and the number of the bytes that others may write to, as far as operations were given them.
    #[pyo3(get)]
    watched: Option<(usize, usize)>,
    sum: u64,
}

#[pymethods]
impl RegionState {
    #[new]
    #[pyo3(signature = (*_given))]
    fn new(_given: &Bound<'_, PyTuple>) -> RegionState {
        let changed = String::new();
        RegionState { changed, is_current: true, is_single: true, is_needed: false, watched: None, sum: 0 }
    }

    /// Watches so many bytes, which the caller holds, from an address on.
    fn watch_bytes(this: &Bound<'_, RegionState>, address: usize, n_bytes: usize) {
        this.borrow_mut().watched = Some((address, n_bytes));
        RegionState::mark(this);
    }

    /// Takes what it holds now for what recorded operations have left there.
    pub(crate) fn mark(this: &Bound<'_, RegionState>) {
        if let Some(sum) = RegionState::sum_of(this) {
            this.borrow_mut().sum = sum;
        }
    }

    /// Returns true if it holds what recorded operations have left there, as far as it is watched.
    pub(crate) fn is_intact(this: &Bound<'_, RegionState>) -> bool {
        RegionState::sum_of(this).is_none_or(|sum| this.borrow().sum == sum)
    }
}

impl RegionState {
    /// The checksum of what is watched. No reference to the state is held meanwhile, because another thread may use it.
    fn sum_of(this: &Bound<'_, RegionState>) -> Option<u64> {
        let (address, n_bytes) = this.borrow().watched?;
        // SAFETY: whoever has the bytes watched holds the array that they are of, and NumPy does not free memory that a
        // reference is held to. Other threads of Python may write to it meanwhile, by NumPy and other libraries or by
        // launches, none of which is Rust code: such bytes count or do not. Only an operation of the package that has no
        // launch, as `zero_`, writes by Rust code; a program that runs one on an array in one thread and a launch on it in
        // another has a race of its own.
        let sum = || unsafe { polyloom::checksum(address, n_bytes) };
        Some(if n_bytes < LEAST_WITHOUT_GIL { sum() } else { this.py().detach(sum) })
    }
}
