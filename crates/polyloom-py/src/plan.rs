//! Plans: recorded launches and calls of Python that run in one call.

use crate::boundary::guarded;
use crate::config;
use crate::errors::{device_error, launch_error};
use crate::launch_run::run_long;
use crate::recorded_launch::{HeldLaunch, RecordedLaunch};
use crate::tape_recording::TapeRecording;
use polyloom::{LaunchOptions, PlanError, PlanErrorCause};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::{Arc, Mutex, PoisonError};

enum Step {
    Launch(Py<RecordedLaunch>),
    Call(Py<PyAny>),
}

/// Recorded launches, and functions without parameters, that `launch()` runs in order.
///
/// Launches run with no frame of Python between them. With `fuses`, neighbouring launches over the same threads become
/// one kernel where no thread needs what another one has written: the same elements are the same bits. `explain()` says
/// what became one and what did not. A launch that is changed later, by its `set_…` methods, changes the plan.
///
/// Parameters
/// ----------
/// steps : sequence of Launch and callable
///     What `polyloom.launch(…, record_cmd=True)` gives, and functions that are called without arguments.
/// fuses : bool
///     Whether launches may become one.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct Plan {
    steps: Vec<Step>,
    fuses: bool,
    schedule: Mutex<Option<Arc<Schedule>>>,
}

/// The plan of the launches as they were when it was made.
struct Schedule {
    plan: polyloom::Plan,
    /// Holds what the launches' arguments point into.
    _held: Vec<Arc<HeldLaunch>>,
    /// Counts, by launch, how often it had been changed.
    n_changes: Vec<u64>,
    is_checking: bool,
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (steps, *, fuses = true))]
    fn new(steps: &Bound<'_, PyAny>, fuses: bool) -> PyResult<Plan> {
        let step = |step: PyResult<Bound<'_, PyAny>>| {
            let step = step?;
            if let Ok(launch) = step.cast::<RecordedLaunch>() {
                return Ok(Step::Launch(launch.clone().unbind()));
            }
            if let Some(launch) = step.getattr_opt("launch")? {
                return Ok(Step::Call(launch.unbind()));
            }
            if step.is_callable() {
                return Ok(Step::Call(step.unbind()));
            }
            let given = step.get_type();
            let given = given.name()?;
            Err(PyTypeError::new_err(format!(
                "a step of a plan is a recorded launch, launch(…, record_cmd=True), or a function, not {given}"
            )))
        };
        let steps = steps.try_iter()?.map(step).collect::<PyResult<_>>()?;
        Ok(Plan { steps, fuses, schedule: Mutex::default() })
    }

    fn __len__(&self) -> usize {
        self.steps.len()
    }

    fn __repr__(&self) -> String {
        format!("<plan of {} steps>", self.steps.len())
    }

    /// Runs the steps in order.
    ///
    /// Raises
    /// ------
    /// Exception
    ///     What a launch or a function raises; the steps after it do not run.
    fn launch(&self, py: Python<'_>) -> PyResult<()> {
        if TapeRecording::now(true) != TapeRecording::Nothing {
            // Tapes record launches one by one.
            return self.steps.iter().try_for_each(|step| step.run(py));
        }
        let schedule = self.schedule(py)?;
        guarded(|| schedule.run(py))
    }

    /// Returns which steps run as one kernel and which do not, and why: a line for each kernel or function.
    fn explain(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.schedule(py)?.plan.explain())
    }

    /// The steps.
    #[getter]
    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.steps.iter().map(|step| step.object(py)))
    }
}

impl Step {
    fn object(&self, py: Python<'_>) -> Py<PyAny> {
        match self {
            Step::Launch(launch) => launch.clone_ref(py).into_any(),
            Step::Call(function) => function.clone_ref(py),
        }
    }

    fn run(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Step::Launch(launch) => launch.get().launch(py),
            Step::Call(function) => function.call0(py).map(drop),
        }
    }
}

impl Plan {
    /// The plan of the launches as they are now.
    #[inline]
    fn schedule(&self, py: Python<'_>) -> PyResult<Arc<Schedule>> {
        let known = self.schedule.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(schedule) if self.is_current(&schedule) => Ok(schedule),
            _ => self.make_schedule(py),
        }
    }

    fn launches(&self) -> impl Iterator<Item = &RecordedLaunch> {
        self.steps.iter().filter_map(|step| match step {
            Step::Launch(launch) => Some(launch.get()),
            Step::Call(_) => None,
        })
    }

    fn is_current(&self, schedule: &Schedule) -> bool {
        let mut changes = self.launches().zip(&schedule.n_changes);
        schedule.is_checking == config::is_checking() && changes.all(|(launch, &known)| launch.n_changes() == known)
    }

    #[cold]
    fn make_schedule(&self, py: Python<'_>) -> PyResult<Arc<Schedule>> {
        let n_changes = self.launches().map(RecordedLaunch::n_changes).collect();
        let is_checking = config::is_checking();
        let mut held = Vec::new();
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let launch = match step {
                Step::Launch(launch) if !launch.get().is_dynamic(py)? => launch.get().bound(py)?,
                _ => {
                    let object = step.object(py);
                    let is_call = matches!(step, Step::Call(_));
                    let run = move || {
                        let done = Python::attach(|py| match is_call {
                            true => object.call0(py).map(drop),
                            false => object.call_method0(py, "launch").map(drop),
                        });
                        done.map_err(polyloom::HostError::from)
                    };
                    steps.push(polyloom::PlanStep::Host(Arc::new(run)));
                    continue;
                }
            };
            steps.push(polyloom::PlanStep::Launch(launch.bound.clone()));
            held.push(launch);
        }
        let plan = guarded(|| Ok(py.detach(|| polyloom::Plan::new(steps, self.fuses))))?;
        let schedule = Arc::new(Schedule { plan, _held: held, n_changes, is_checking });
        let outdated = self.schedule.lock().unwrap_or_else(PoisonError::into_inner).replace(schedule.clone());
        drop(outdated);
        Ok(schedule)
    }
}

impl Schedule {
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let (plan, n_units) = (&self.plan, self.plan.n_units());
        let mut next = 0;
        loop {
            // SAFETY: this holds the arrays, and launches have checked them when they were bound.
            let done = unsafe { plan.run_short_units(next) };
            next = done.map_err(|error| plan_error(py, error))?;
            match plan.unit_launch(next) {
                Some(launch) => {
                    // SAFETY: as above.
                    run_long(py, launch.kernel(), launch.device(), |options| unsafe { launch.run(options) })?;
                }
                None if next == n_units => return Ok(()),
                None => {
                    // SAFETY: as above.
                    let done = unsafe { plan.run_unit(next, &LaunchOptions::default()) };
                    done.map_err(|error| plan_error(py, error))?;
                }
            }
            next += 1;
        }
    }
}

/// The exception that a step has raised, or that says what is wrong with a launch.
fn plan_error(py: Python<'_>, error: PlanError) -> PyErr {
    match (error.kernel, error.cause) {
        (Some(kernel), PlanErrorCause::Launch(error)) => launch_error(py, &kernel, &error, None),
        (None, PlanErrorCause::Launch(error)) => PyRuntimeError::new_err(error.to_string()),
        (_, PlanErrorCause::Copy(failure)) => device_error(py, &failure),
        (_, PlanErrorCause::Host(error)) => match error.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(error) => PyRuntimeError::new_err(error.to_string()),
        },
    }
}
