//! Bound launches with the objects of Python that their arguments point into, and what is replaced of them.

use crate::arguments::{self, Arguments, CheckedArgument, Writes};
use crate::errors::launch_error;
use crate::launch_dimensions::LaunchDimensions;
use crate::launch_run::{queue_of, run_long};
use crate::numpy_array::memory;
use polyloom::{ArgBlock, BoundLaunch, LaunchOptions, Scalar, Type};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use smallvec::SmallVec;
use std::sync::Arc;

/// A bound launch with what its arguments point into. Whoever owns one shows its objects to Python's garbage collection:
/// a reference that two would show would be counted twice.
pub(crate) struct HeldLaunch {
    pub(crate) bound: Arc<BoundLaunch>,
    /// The arguments, and the arrays made of some of them.
    held: Vec<Py<PyAny>>,
}

impl HeldLaunch {
    /// Runs the launch, which is known not to be short.
    pub(crate) fn run_long(&self, py: Python<'_>) -> PyResult<()> {
        let bound = &*self.bound;
        // SAFETY: this holds the arrays, whose memory NumPy keeps in place; their types, ranks and that they may be written
        // have been checked when they were bound.
        run_long(py, bound.kernel(), bound.device(), |options| unsafe { bound.run(options) })
    }

    /// Runs the launch.
    pub(crate) fn run(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: as above.
        match unsafe { self.bound.run_if_short() } {
            Some(done) => done.map_err(|error| launch_error(py, self.bound.kernel(), &error, None)),
            None => self.run_long(py),
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.held.iter().try_for_each(|object| visit.call(object))
    }
}

/// The arguments of a recorded launch as its kernel takes them.
pub(crate) struct ReadyLaunch {
    pub(crate) bound: Arc<BoundLaunch>,
    /// Arrays that were made of some of the arguments.
    pub(crate) made: Vec<Py<PyAny>>,
}

impl ReadyLaunch {
    pub(crate) fn new(
        py: Python<'_>,
        kernel: &Arc<polyloom::Kernel>,
        dimensions: &LaunchDimensions,
        args: &[Py<PyAny>],
    ) -> PyResult<ReadyLaunch> {
        let borrowed: Arguments<'_, '_> = args.iter().map(|a| a.bind_borrowed(py)).collect();
        let (mut block, mut made) = (ArgBlock::new(), SmallVec::new());
        arguments::fill(py, kernel, dimensions.device, &borrowed, &mut block, &mut made, &mut Writes::new())?;
        let LaunchDimensions { shape, grid, device, unchecked } = dimensions;
        let options = LaunchOptions { grid: *grid, unchecked: *unchecked, ..LaunchOptions::default() };
        let bound = Arc::new(BoundLaunch::new(kernel.clone(), queue_of(py, *device)?, shape, block, &options));
        Ok(ReadyLaunch { bound, made: made.into_iter().map(Bound::unbind).collect() })
    }

    /// The launch with its arguments, which are given.
    pub(crate) fn held(&self, py: Python<'_>, args: &[Py<PyAny>]) -> HeldLaunch {
        let held = args.iter().chain(&self.made).map(|object| object.clone_ref(py)).collect();
        HeldLaunch { bound: self.bound.clone(), held }
    }

    /// Returns true if this is a launch of the kernel, and not of the one that it was with checks, or without. The values
    /// of structs are read at each run.
    pub(crate) fn is_of(&self, kernel: &Arc<polyloom::Kernel>) -> bool {
        Arc::ptr_eq(self.bound.kernel(), kernel) && !kernel.has_structs()
    }

    /// Replaces an argument. Gives false, and may have replaced parts, if the launch has to be bound anew: what was made of
    /// arguments would have to change as well, or the array may have elements in common with another one that is written,
    /// which binding finds out.
    ///
    /// It runs no Python code.
    pub(crate) fn rebind(&mut self, argument: &CheckedArgument<'_>) -> bool {
        match argument {
            CheckedArgument::Struct => false,
            CheckedArgument::Numbers { slot, ty, bits } => {
                let Some(elem) = number_type(*ty) else { return false };
                let bound = Arc::make_mut(&mut self.bound);
                (*slot..).zip(bits).all(|(slot, &bits)| bound.rebind_scalar(slot, elem, bits).is_ok())
            }
            CheckedArgument::Array { slot, ty, array, is_resident, made } => {
                let is_elsewhere = self.bound.args().is_resident(*slot) != *is_resident;
                if is_elsewhere || !made.is_empty() || !self.made.is_empty() {
                    return false;
                }
                // SAFETY: the caller holds the array, whose rank has been checked, and no Python code runs here.
                let (base, extents, strides) = unsafe { memory(*array, ty.rank) };
                let bound = Arc::make_mut(&mut self.bound);
                bound.rebind_array(*slot, ty.elem, base, extents, strides).is_ok() && is_apart(bound, *slot)
            }
        }
    }
}

fn number_type(ty: Type) -> Option<Scalar> {
    ty.as_scalar().or_else(|| Some(ty.as_composite()?.elem()))
}

/// Returns true if an array of a launch is in other memory than each that the kernel writes besides, as far as the bytes
/// from the first to the last show, or is not written itself.
fn is_apart(bound: &BoundLaunch, slot: usize) -> bool {
    let kernel = bound.kernel();
    if !kernel.writes(slot) {
        return true;
    }
    let arrays = kernel.params().types().iter().enumerate().filter(|(_, ty)| ty.as_array().is_some());
    let written = arrays.zip(bound.args().footprints()).filter(|((slot, _), _)| kernel.writes(*slot));
    let own = written.clone().find(|((number, _), _)| *number == slot).map(|(_, footprint)| footprint);
    own.is_some_and(|own| written.clone().all(|((number, _), footprint)| number == slot || !own.overlaps(footprint)))
}
