//! `polyloom.sim`: the simulator's settings and reports, and PTX from elsewhere.

use crate::device::memory_of;
use crate::launch::{interruptible, three};
use polyloom::ptx::{Class, DeviceMemory, Fault, FindingKind, Report, Sanitizers, Simulator};
use polyloom::{
    Arch, Grid, SimOptions, UnknownArch, describe_fault, describe_report, merged_spans, num_threads, run_on_simulator,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What launches on `sim:0` go by.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) arch: Arch,
    sanitize: Sanitizers,
    counters: bool,
}

static SETTINGS: Mutex<Settings> = Mutex::new(Settings { arch: Arch::DEFAULT, sanitize: NO_CHECKS, counters: false });

const NO_CHECKS: Sanitizers = Sanitizers { uninitialised: false, races: false, barriers: false, async_copies: false };

/// What the last launch that ran to its end did, and for how many seconds it ran.
static LAST: Mutex<Option<(Report, f64)>> = Mutex::new(None);

impl Settings {
    pub(crate) fn get() -> Settings {
        *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn options(&self) -> SimOptions {
        SimOptions { sanitize: self.sanitize, counters: self.counters, n_threads: num_threads() }
    }
}

/// Keeps what a launch did.
pub(crate) fn set_last_report(report: Report, elapsed: Duration) {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some((report, elapsed.as_secs_f64()));
}

/// Sets how launches on `sim:0` run; what is not given stays as it is.
///
/// Parameters
/// ----------
/// arch : str, optional
///     The GPU architecture that is simulated, `"sm_80"` at first.
/// sanitize : str or sequence of str, optional
///     Checks besides those of bounds and alignment, which are always made: any of `"races"`, `"uninitialised"`,
///     `"barriers"` and `"async"`, or `"all"`, or `"none"`.
/// counters : bool, optional
///     Whether to count instructions, memory transactions and the like, for `last_report`.
#[pyfunction]
#[pyo3(signature = (*, arch = None, sanitize = None, counters = None))]
pub(crate) fn configure_simulator(
    arch: Option<&str>,
    sanitize: Option<&Bound<'_, PyAny>>,
    counters: Option<bool>,
) -> PyResult<()> {
    let mut settings = Settings::get();
    if let Some(arch) = arch {
        settings.arch = arch.parse().map_err(|error: UnknownArch| PyValueError::new_err(error.to_string()))?;
    }
    if let Some(checks) = sanitize {
        settings.sanitize = sanitizers(checks)?;
    }
    settings.counters = counters.unwrap_or(settings.counters);
    *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    Ok(())
}

fn sanitizers(checks: &Bound<'_, PyAny>) -> PyResult<Sanitizers> {
    let known = "'races', 'uninitialised', 'barriers', 'async', 'all' or 'none'";
    let names: Vec<String> = match checks.extract::<String>() {
        Ok(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
        Err(_) => {
            checks.extract().map_err(|_| PyTypeError::new_err(format!("sanitize is {checks}: it may be {known}")))?
        }
    };
    let mut chosen = NO_CHECKS;
    for name in names {
        match name.as_str() {
            "all" => chosen = Sanitizers::ALL,
            "none" => chosen = NO_CHECKS,
            "races" => chosen.races = true,
            "uninitialised" | "uninitialized" => chosen.uninitialised = true,
            "barriers" => chosen.barriers = true,
            "async" => chosen.async_copies = true,
            _ => {
                return Err(PyValueError::new_err(format!("sanitize is '{name}': it may be {known}")));
            }
        }
    }
    Ok(chosen)
}

/// What the last launch on `sim:0` did: a dictionary with `thread_instructions`, `warp_instructions`, `seconds`,
/// `table` (the text that the command line prints) and, if counting is on, `classes` (instructions by class, once a
/// thread), `divergent_branches`, `global_loads`, `global_stores`, `global_sectors`, `coalescing`, `shared_accesses`,
/// `shared_conflicts` and `occupancy`. `None` before the first launch.
#[pyfunction]
pub(crate) fn last_simulator_report(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some((report, seconds)) = last else { return Ok(None) };
    let found = PyDict::new(py);
    found.set_item("thread_instructions", report.thread_instructions)?;
    found.set_item("warp_instructions", report.warp_instructions)?;
    found.set_item("seconds", seconds)?;
    found.set_item("table", describe_report(&report, seconds))?;
    if let Some(counters) = &report.counters {
        let classes = PyDict::new(py);
        for class in Class::ALL {
            classes.set_item(class.name(), counters.class(class).1)?;
        }
        found.set_item("classes", classes)?;
        found.set_item("divergent_branches", counters.divergent_branches)?;
        found.set_item("global_loads", counters.global_loads)?;
        found.set_item("global_stores", counters.global_stores)?;
        found.set_item("global_sectors", counters.global_sectors)?;
        found.set_item("coalescing", counters.coalescing())?;
        found.set_item("shared_accesses", counters.shared_accesses)?;
        found.set_item("shared_conflicts", counters.shared_conflicts)?;
        found.set_item("occupancy", counters.occupancy.as_ref().map(|occupancy| occupancy.fraction))?;
    }
    Ok(Some(found))
}

/// `polyloom.SanitizerError` of what the simulator found; `ValueError` if the launch was wrong before it began.
pub(crate) fn simulator_error(py: Python<'_>, fault: &Fault) -> PyErr {
    if fault.findings.iter().all(|finding| finding.kind == FindingKind::InvalidLaunch) {
        return PyValueError::new_err(describe_fault(fault));
    }
    let make = || -> PyResult<PyErr> {
        let findings = PyList::empty(py);
        let class = py.import("polyloom._errors")?.getattr("Finding")?;
        for finding in &fault.findings {
            let source = finding.site.as_ref().and_then(|site| site.source.clone());
            let (file, line) = source.map_or((None, None), |(file, line, _)| (Some(file), Some(line)));
            let other = finding.other.as_ref().and_then(|site| site.source.as_ref());
            let other = other.map(|(file, line, _)| (file, *line));
            let threads: Vec<([u32; 3], [u32; 3])> =
                finding.threads.iter().map(|thread| (thread.block, thread.thread)).collect();
            let kind = finding.kind.name();
            let arguments = (kind, &finding.kernel, &finding.message, file, line, threads, finding.address, other);
            findings.append(class.call1(arguments)?)?;
        }
        let class = py.import("polyloom._errors")?.getattr("SanitizerError")?;
        Ok(PyErr::from_value(class.call1((describe_fault(fault), findings))?))
    };
    make().unwrap_or_else(|error| error)
}

/// PTX that is loaded into a simulator of its own.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct SimModule {
    module: polyloom::ptx::Module,
    simulator: Simulator,
    loaded: polyloom::ptx::Loaded,
}

/// Host memory of arguments in the simulator, freed when dropped.
struct Staged<'m> {
    memory: &'m DeviceMemory,
    host: Range<u64>,
    address: u64,
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // It was allocated, and nobody else knows the address.
        let _ = self.memory.free(self.address);
    }
}

fn ptx_errors(errors: &[polyloom::ptx::Error]) -> PyErr {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    PyValueError::new_err(lines.join("\n"))
}

#[pymethods]
impl SimModule {
    #[new]
    fn new(text: &str) -> PyResult<SimModule> {
        let module = polyloom::ptx::Module::parse(text).map_err(|errors| ptx_errors(&errors))?;
        let simulator = Simulator::default();
        let loaded = simulator.load(&module).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(SimModule { module, simulator, loaded })
    }

    /// The names of its kernels.
    #[getter]
    fn kernels(&self) -> Vec<String> {
        self.module.kernels().into_iter().map(|kernel| kernel.name).collect()
    }

    /// A kernel's parameters: name, type and size in bytes.
    fn parameters(&self, kernel: &str) -> PyResult<Vec<(String, String, u32)>> {
        let kernel = self.loaded.kernel(kernel).map_err(|errors| ptx_errors(&errors))?;
        Ok(kernel.parameters().iter().map(|p| (p.name.clone(), p.ty.clone(), p.size)).collect())
    }

    /// Runs a kernel. Each argument is the bytes of a parameter, or a contiguous NumPy array that is copied to the
    /// simulator and, if it is writable, back.
    fn launch(
        &self,
        py: Python<'_>,
        kernel: &str,
        grid: &Bound<'_, PyAny>,
        block: &Bound<'_, PyAny>,
        args: Vec<Argument<'_>>,
        shared_bytes: u32,
    ) -> PyResult<()> {
        let kernel = self.loaded.kernel(kernel).map_err(|errors| ptx_errors(&errors))?;
        let memory = self.simulator.memory();
        let failed = |error: polyloom::ptx::MemoryError| PyRuntimeError::new_err(error.to_string());
        // Arrays that share memory share it in the simulator.
        let mut spans = Vec::new();
        for argument in &args {
            if let Argument::Array(array) = argument {
                let (host, n_bytes) = memory_of(array)?;
                spans.push(host as u64..(host + n_bytes) as u64);
            }
        }
        let mut staged = Vec::new();
        for host in merged_spans(spans) {
            let n_bytes = (host.end - host.start) as usize;
            let block = Staged { memory, address: memory.alloc(n_bytes, 256).map_err(failed)?, host };
            // SAFETY: arrays, which NumPy says are contiguous, cover the range, and are held until the launch is done.
            let bytes = unsafe { std::slice::from_raw_parts(block.host.start as *const u8, n_bytes) };
            memory.write(block.address, bytes).map_err(failed)?;
            staged.push(block);
        }
        let (mut params, mut written, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (argument, param) in args.iter().zip(kernel.parameters()) {
            match argument {
                Argument::Bytes(bytes) => params.push(bytes.as_bytes().to_vec()),
                Argument::Array(array) => {
                    let (host, n_bytes) = memory_of(array)?;
                    let block = staged.iter().find(|block| block.host.contains(&(host as u64)));
                    // An array of no elements is nowhere.
                    let address = block.map_or(0, |block| block.address + (host as u64 - block.host.start));
                    params.push(address.to_le_bytes().to_vec());
                    names.push((address, param.name.as_str().into()));
                    let writable: bool = array.getattr("flags")?.getattr("writeable")?.extract()?;
                    if writable && block.is_some() {
                        written.push((host, n_bytes, address));
                    }
                }
            }
        }
        let settings = Settings::get();
        let grid = Grid { grid: three("grid", grid)?, block: three("block", block)?, shared_bytes };
        let started = Instant::now();
        let (result, interrupt) = interruptible(py, |options| {
            let arch = settings.arch.number().into();
            run_on_simulator(&kernel, arch, &params, &names, &grid, options, &settings.options())
        })?;
        for (host, n_bytes, address) in written {
            // SAFETY: as above, and NumPy says that the array may be written.
            let bytes = unsafe { std::slice::from_raw_parts_mut(host as *mut u8, n_bytes) };
            memory.read(address, bytes).map_err(failed)?;
        }
        if let Some(interrupt) = interrupt {
            return Err(interrupt);
        }
        let report = result.map_err(|fault| simulator_error(py, &fault))?;
        set_last_report(report, started.elapsed());
        Ok(())
    }

    /// The module as PTX.
    fn __str__(&self) -> String {
        self.module.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<PTX module with kernels {}>", self.kernels().join(", "))
    }
}

/// What a parameter of a foreign kernel is given.
#[derive(FromPyObject)]
enum Argument<'py> {
    Bytes(Bound<'py, PyBytes>),
    Array(Bound<'py, PyAny>),
}
