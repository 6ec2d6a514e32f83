//! The simulator's settings, which launches on `sim:0` go by, and its report of the last one.

use polyloom::ptx::{InstClass, Report, Sanitizers, UnknownSanitizer};
use polyloom::{Arch, LaunchError, LaunchStats, SimOptions, UnknownArch, describe_report, num_threads};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Describes what launches on `sim:0` go by.
#[derive(Clone, Copy)]
pub(crate) struct SimSettings {
    pub(crate) arch: Arch,
    sanitize: Sanitizers,
    counters: bool,
}

static SETTINGS: Mutex<SimSettings> =
    Mutex::new(SimSettings { arch: Arch::DEFAULT, sanitize: Sanitizers::DEFAULT, counters: false });

/// Holds what the last launch did, to its end or to where something was found, and for how many seconds it ran.
static LAST: Mutex<Option<(Report, f64)>> = Mutex::new(None);

impl SimSettings {
    pub(crate) fn get() -> SimSettings {
        *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn options(&self) -> SimOptions {
        SimOptions {
            sanitize: self.sanitize,
            counters: self.counters,
            arch: Some(self.arch),
            n_threads: num_threads(),
            ..SimOptions::default()
        }
    }
}

/// Keeps what a launch did, if it was one on the simulator.
pub(crate) fn note_launch(outcome: Result<Option<&LaunchStats>, &LaunchError>, elapsed: Duration) {
    let report = match outcome {
        Ok(stats) => stats.and_then(|stats| stats.report.as_deref()),
        Err(LaunchError::Simulator(fault)) => Some(&fault.report),
        Err(_) => None,
    };
    if let Some(report) = report {
        set_last_report(report.clone(), elapsed);
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
///     The checks that are made: `"default"`, at first, which are `"bounds"` and `"alignment"`; with them any of
///     `"races"`, `"uninitialised"`, `"barriers"` and `"async"`; `"all"`; `"none"`. A name that begins with `no-` takes
///     a check away: `"all,no-races"`, or `"no-bounds"`, with which accesses outside of arrays read zeros and write
///     nothing. With `"no-alignment"` addresses are rounded down to a multiple of what is accessed.
/// counters : bool, optional
///     Whether to count instructions, memory transactions and the like, for `last_report`.
#[pyfunction]
#[pyo3(signature = (*, arch = None, sanitize = None, counters = None))]
pub(crate) fn configure_simulator(
    arch: Option<&str>,
    sanitize: Option<&Bound<'_, PyAny>>,
    counters: Option<bool>,
) -> PyResult<()> {
    let mut settings = SimSettings::get();
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
    let names = match checks.extract::<String>() {
        Ok(names) => names,
        Err(_) => {
            let names = checks.extract::<Vec<String>>();
            names.map_err(|_| PyTypeError::new_err("sanitize is a string, or a sequence of them"))?.join(",")
        }
    };
    names.parse().map_err(|error: UnknownSanitizer| PyValueError::new_err(format!("sanitize: {error}")))
}

/// Returns what the last launch on `sim:0` did: a dictionary with `thread_instructions`, `warp_instructions`,
/// `seconds`, `table` (the text that the command line prints) and, if counting is on, `classes` (instructions by class,
/// once a thread), `divergent_branches`, `global_loads`, `global_stores`, `global_sectors`, `coalescing`,
/// `shared_accesses`, `shared_conflicts` and `occupancy`. `None` before the first launch.
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
        for class in InstClass::ALL {
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
