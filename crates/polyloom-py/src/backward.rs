//! The way back of launches, from Python.

use crate::arguments::Arguments;
use crate::boundary::guarded;
use crate::errors::{compile_error, device_error, launch_error};
use crate::interruptible::interruptible;
use crate::kernel::Kernel;
use crate::launch_dimensions::three;
use crate::launch_run::queue_of;
use crate::{arguments, device, sim_settings};
use polyloom::{
    AdjointAccess, ArgBlock, BackwardArguments, BackwardError, BackwardOptions, DerivativeLaunch, DerivativeRequest,
    DeviceId, LaunchArgument, LaunchOptions, Queue, RepeatableBackward, SimOptions, TapeLimits,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// Describes what Python knows of an argument of a launch.
#[derive(FromPyObject)]
pub(crate) enum KnownArgument {
    Number(i64),
    Extents(Vec<u64>),
}

pub(crate) fn arguments_of(known: Vec<Option<KnownArgument>>) -> Vec<LaunchArgument> {
    let argument = |known| match known {
        Some(KnownArgument::Number(number)) => LaunchArgument::Number(number),
        Some(KnownArgument::Extents(extents)) => LaunchArgument::Extents(extents),
        None => LaunchArgument::Other,
    };
    known.into_iter().map(argument).collect()
}

/// What a backward kernel needs.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct Backward {
    backward: Arc<polyloom::BackwardKernel>,
}

impl Backward {
    pub(crate) fn of(
        py: Python<'_>,
        kernel: &polyloom::Kernel,
        active: Vec<bool>,
        dim: &[u64],
        coinciding: Vec<bool>,
        known: Vec<Option<KnownArgument>>,
    ) -> PyResult<Backward> {
        // The same request whether it says so or not.
        let coinciding = if coinciding.contains(&true) { coinciding } else { Vec::new() };
        let is_long = dim.iter().product::<u64>() > polyloom::LONG_LAUNCH;
        let request = DerivativeRequest { coinciding, is_long, ..DerivativeRequest::new(active, dim.len() as u8) };
        let arguments = arguments_of(known);
        let launch = DerivativeLaunch { dim, arguments: &arguments };
        let made = || py.detach(|| kernel.backward(&request).and_then(|made| made.check(&launch).map(|()| made)));
        let backward = guarded(|| made().map_err(|error| compile_error(py, &error)))?;
        Ok(Backward { backward })
    }
}

#[pymethods]
impl Backward {
    /// The parameters of the kernel's HIR that the adjoints are of, in order.
    #[getter]
    fn adjoints(&self) -> Vec<usize> {
        self.backward.needs.adjoints.clone()
    }

    /// The backward kernel: it takes the kernel's arguments, adjoints, and arrays as the kernel leaves them. If it
    /// takes a part of a launch, in one dimension, there follow tapes, the lengths of loops' segments, the number of
    /// the first thread, and all extents of the whole launch but the first.
    #[getter]
    fn kernel(&self) -> Kernel {
        Kernel::derived(self.backward.kernel.clone())
    }

    /// Returns which of the adjoints are of arrays that the kernel both reads and writes.
    #[getter]
    fn replaced(&self) -> Vec<usize> {
        let accesses = self.backward.needs.accesses.iter().enumerate();
        accesses.filter(|&(_, &access)| access == AdjointAccess::Both).map(|(number, _)| number).collect()
    }

    /// The launches of a kernel that takes no part: of each the kernel, its extents, and numbers that the kernel takes
    /// last. Adjoints come with their extents, or None where elements of one may be one memory.
    fn launches(&self, dim: Vec<u64>, adjoints: Vec<Option<Vec<u64>>>) -> Vec<(Kernel, Vec<u64>, Vec<u64>)> {
        let adjoints: Vec<_> = adjoints.iter().map(Option::as_deref).collect();
        let launches = self.backward.launches(&dim, &adjoints).into_iter();
        let kernel = |part| Kernel::derived(self.backward.kernel_of(part).clone());
        launches.map(|launch| (kernel(launch.part), launch.dim, launch.extents)).collect()
    }

    /// Returns how long loops are, as far as that is known before a launch.
    #[getter]
    fn lengths(&self) -> Vec<Option<u32>> {
        self.backward.needs.lengths.clone()
    }

    /// Returns true if all threads find the same lengths.
    #[getter]
    fn lengths_are_uniform(&self) -> bool {
        self.backward.needs.lengths_are_uniform
    }

    /// The kernel that finds out how long loops are, unless that is known.
    #[getter]
    fn sizes(&self) -> Option<Kernel> {
        self.backward.sizes.clone().map(Kernel::derived)
    }

    /// For each parameter of the kernel's HIR, whether what the array held before the kernel ran matters.
    #[getter]
    fn reads(&self) -> Vec<bool> {
        self.backward.needs.reads.clone()
    }

    /// For each parameter of the kernel's HIR, whether what the array holds after the kernel matters.
    #[getter]
    fn left(&self) -> Vec<bool> {
        self.backward.needs.left.clone()
    }

    /// For each parameter of the kernel's HIR, whether the kernel itself writes the array.
    #[getter]
    fn writes(&self) -> Vec<bool> {
        self.backward.needs.writes.clone()
    }
}

/// Runs the backward kernel of a launch, of a kernel that takes leaves in place of structs.
///
/// Parameters
/// ----------
/// kernel, dim, args, device, block
///     Those of the launch. Arrays hold what they held before it.
/// adjoints : list
///     For each argument the array of its adjoint, or None. Of a scalar, an array of one element.
/// accumulate, keep_seeds, has_left : bool
///     As of `polyloom._gradients.launch_backward`.
/// tape_bytes : int
///     What the tapes of loops may take.
/// n_cores : int
///     How many cores run launches on the CPU.
///
/// Returns
/// -------
/// int, BackwardRepeat
///     The bytes that the tapes of the kernel's loops have taken, and what goes the same way again; nothing if that takes
///     more than the launches of a kernel.
#[pyfunction]
#[pyo3(signature = (
    kernel, dim, args, adjoints, device, block, *, accumulate, keep_seeds, has_left, tape_bytes, n_cores
))]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub(crate) fn launch_backward<'py>(
    py: Python<'py>,
    kernel: &Bound<'py, Kernel>,
    dim: Vec<u64>,
    args: Vec<Bound<'py, PyAny>>,
    adjoints: Vec<Option<Bound<'py, PyAny>>>,
    device: &str,
    block: Option<&Bound<'py, PyAny>>,
    accumulate: bool,
    keep_seeds: bool,
    has_left: bool,
    tape_bytes: u64,
    n_cores: u64,
) -> PyResult<(u64, Option<BackwardRepeat>)> {
    crate::recorded_tasks::run_recorded(py)?;
    let (kernel, device) = (kernel.get().one()?, device::named(device)?);
    let borrowed: Arguments<'_, '_> = args.iter().map(Bound::as_borrowed).collect();
    let (mut filled, mut held) = (ArgBlock::new(), SmallVec::new());
    arguments::fill_to_read(py, kernel, device, &borrowed, &mut filled, &mut held)?;
    let adjoint = |(index, adjoint): (usize, &Option<Bound<'py, PyAny>>)| {
        adjoint.as_ref().map(|adjoint| arguments::adjoint(py, kernel, device, index, adjoint, &mut held)).transpose()
    };
    let given = adjoints;
    let adjoints: Vec<_> = given.iter().enumerate().map(adjoint).collect::<PyResult<_>>()?;
    let read_only: Vec<bool> = adjoints.iter().map(|adjoint| matches!(adjoint, Some((_, false)))).collect();
    let adjoints: Vec<_> = adjoints.into_iter().map(|adjoint| adjoint.map(|(array, _)| array)).collect();
    let block = block.filter(|block| !block.is_none()).map(|block| three("block_dim", block)).transpose()?;
    let n_cores = (device == DeviceId::Cpu).then_some(n_cores);
    let limits = TapeLimits { bytes: tape_bytes, n_cores };
    let options = BackwardOptions { accumulate, keep_seeds, limits, block };
    let queue = queue_of(py, device)?;
    let sim =
        if device == DeviceId::Simulator { sim_settings::SimSettings::get().options() } else { SimOptions::default() };
    guarded(|| {
        let started = Instant::now();
        let (done, interrupt) = interruptible(py, |launch| {
            let arguments =
                BackwardArguments { shape: &dim, args: &filled, adjoints: &adjoints, read_only: &read_only, has_left };
            let launch = LaunchOptions { sim, ..*launch };
            // SAFETY: the caller holds the arrays; their types and ranks have been checked, and which adjoints may be written.
            unsafe { kernel.launch_backward(&queue, &arguments, &options, &launch) }
        })?;
        let (stats, repeatable) = done.map_err(|error| backward_error(py, error, interrupt))?;
        if let Some(report) = stats.report {
            sim_settings::set_last_report(*report, started.elapsed());
        }
        let held =
            || args.iter().chain(given.iter().flatten()).chain(&held).map(|each| each.clone().unbind()).collect();
        let repeatable = repeatable.filter(|_| device == DeviceId::Cpu);
        let repeat = repeatable.map(|backward| BackwardRepeat { backward, queue, _held: held() });
        Ok((stats.tape_bytes, repeat))
    })
}

/// The way back of a launch that is gone again with the same arrays.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct BackwardRepeat {
    backward: RepeatableBackward,
    queue: Arc<dyn Queue>,
    /// The arrays of the launch and its adjoints.
    _held: Vec<Py<PyAny>>,
}

#[pymethods]
impl BackwardRepeat {
    /// Goes it again, so many times.
    fn run(&self, py: Python<'_>, times: usize) -> PyResult<()> {
        guarded(|| {
            let (done, interrupt) = interruptible(py, |launch| {
                // SAFETY: this holds the arrays, whose memory NumPy keeps in place; they were checked the first time.
                unsafe { self.backward.run(&self.queue, launch, times) }
            })?;
            done.map(drop).map_err(|error| backward_error(py, error, interrupt))
        })
    }
}

fn backward_error(py: Python<'_>, error: BackwardError, interrupt: Option<PyErr>) -> PyErr {
    match error {
        BackwardError::Rejected(error) => compile_error(py, &error),
        BackwardError::Arguments(message) => PyValueError::new_err(message),
        BackwardError::NoAdjoint(message) => PyTypeError::new_err(message),
        BackwardError::Launch { kernel, error } => launch_error(py, &kernel, &error, interrupt),
        BackwardError::Device(failure) => device_error(py, &failure),
    }
}
