//! Plans: recorded launches and calls of Python that run in one call.

use crate::boundary::guarded;
use crate::config;
use crate::errors::{device_error, launch_error};
use crate::held_launch::HeldLaunch;
use crate::launch_run::run_long;
use crate::recorded_launch::RecordedLaunch;
use crate::recorded_tasks::run_recorded;
use crate::tape_recording::TapeRecording;
use polyloom::{PlanError, PlanErrorCause, PlanStep};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

enum Step {
    Launch(Py<RecordedLaunch>),
    Call(Py<PyAny>),
}

/// Recorded launches, and functions without parameters, that `launch()` runs in order.
///
/// Launches run with no frame of Python between them. With `fuses`, neighbouring launches over the same threads become
/// one kernel where no thread needs what another one has written: the same elements are the same bits. `explain()` says
/// what became one and what did not. A launch that is changed later, by its `set_…` methods, changes the plan, also while
/// it runs: a function may change launches after it.
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
    launches: Vec<ScheduledLaunch>,
    is_checking: bool,
}

/// A launch of a schedule.
struct ScheduledLaunch {
    /// Its number among the steps.
    step: usize,
    /// Counts how often it had been changed.
    n_changes: u64,
    /// Holds what its arguments point into; absent if it is bound at each run.
    held: Option<HeldLaunch>,
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

    /// Runs the steps in order. While a graph is captured, they become steps of the graph instead, launches with the
    /// arguments that they have now.
    ///
    /// Raises
    /// ------
    /// Exception
    ///     What a launch or a function raises; the steps after it do not run.
    fn launch(&self, py: Python<'_>) -> PyResult<()> {
        run_recorded(py)?;
        match TapeRecording::now(true) {
            TapeRecording::Nothing => guarded(|| self.run(py)),
            TapeRecording::Graphs => self.steps.iter().try_for_each(|step| step.capture(py)),
            // Tapes record launches one by one.
            TapeRecording::Writes | TapeRecording::Launches => self.steps.iter().try_for_each(|step| step.run(py)),
        }
    }

    /// Returns which steps run as one kernel and which do not, and why: a line for each kernel or function.
    fn explain(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        guarded(|| Ok(self.schedule(py)?.plan.explain()))
    }

    /// The steps.
    #[getter]
    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.steps.iter().map(|step| step.object(py)))
    }

    // There is no `__clear__`, because the steps are given when the plan is made: a cycle goes through something that was
    // made before and refers to the plan since, which has one.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for step in &self.steps {
            match step {
                Step::Launch(launch) => visit.call(launch)?,
                Step::Call(function) => visit.call(function)?,
            }
        }
        let schedule = match self.schedule.try_lock() {
            Ok(schedule) => schedule,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // What is not shown is held from outside, as far as garbage collection is concerned.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let launches = schedule.iter().flat_map(|schedule| &schedule.launches);
        launches.filter_map(|launch| launch.held.as_ref()).try_for_each(|held| held.traverse(&visit))
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

    /// Adds it to the graph that this thread captures.
    fn capture(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Step::Launch(launch) => launch.get().launch(py),
            Step::Call(function) => {
                py.import("polyloom._graphs")?.call_method1("captured", (function.bind(py),)).map(drop)
            }
        }
    }
}

impl Plan {
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let mut schedule = self.schedule(py)?;
        let mut next = 0;
        loop {
            // SAFETY: the schedule holds the arrays, and launches have checked them when they were bound.
            let done = unsafe { schedule.plan.run_short_units(next) };
            next = done.map_err(|error| plan_error(py, error))?;
            if let Some(launch) = schedule.plan.unit_launch(next) {
                // SAFETY: as above.
                run_long(py, launch.kernel(), launch.device(), |options| unsafe { launch.run(options) })?;
                next += 1;
                continue;
            }
            let number = schedule.plan.unit_steps(next).start;
            let Some(step) = self.steps.get(number) else { return Ok(()) };
            step.run(py)?;
            next += 1;
            if !self.is_current(&schedule) {
                // The step has changed launches, which acts on those after it. No launch runs as one with any before a step
                // of the host.
                drop(schedule);
                schedule = self.schedule(py)?;
                next = schedule.plan.unit_of(number + 1);
            }
        }
    }

    /// The plan of the launches as they are now.
    #[inline]
    fn schedule(&self, py: Python<'_>) -> PyResult<Arc<Schedule>> {
        let known = self.locked().clone();
        match known {
            Some(schedule) if self.is_current(&schedule) => Ok(schedule),
            known => self.renewed(py, known),
        }
    }

    /// Its contents are dropped once the lock is free, because that may run Python code, which may come back for it.
    fn locked(&self) -> MutexGuard<'_, Option<Arc<Schedule>>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launches(&self) -> impl Iterator<Item = &RecordedLaunch> {
        self.steps.iter().filter_map(|step| match step {
            Step::Launch(launch) => Some(launch.get()),
            Step::Call(_) => None,
        })
    }

    fn is_current(&self, schedule: &Schedule) -> bool {
        let mut changes = self.launches().zip(&schedule.launches);
        schedule.is_checking == config::is_checking()
            && changes.all(|(launch, known)| launch.n_changes() == known.n_changes)
    }

    /// The plan of the launches as they are now: the known one with other arguments if that is all that has changed.
    #[cold]
    fn renewed(&self, py: Python<'_>, known: Option<Arc<Schedule>>) -> PyResult<Arc<Schedule>> {
        let is_checking = config::is_checking();
        let mut changed = Vec::new();
        if let Some(known) = known.filter(|known| known.is_checking == is_checking) {
            for (number, (launch, known)) in self.launches().zip(&known.launches).enumerate() {
                let n_changes = launch.n_changes();
                if n_changes != known.n_changes {
                    let held = known.held.is_some().then(|| launch.bound(py)).transpose()?;
                    changed.push((number, n_changes, held));
                }
            }
        }
        let taken = self.locked().take();
        // Another thread, or a step of it that launches the plan, may run it now.
        let owned = taken.and_then(|taken| Arc::try_unwrap(taken).ok());
        let schedule = match owned {
            Some(mut owned) if owned.is_checking == is_checking => match owned.rebind(changed) {
                true => owned,
                false => self.scheduled(py, Some(owned))?,
            },
            outdated => self.scheduled(py, outdated)?,
        };
        let schedule = Arc::new(schedule);
        let outdated = self.locked().replace(schedule.clone());
        drop(outdated);
        Ok(schedule)
    }

    /// Makes the plan of the launches as they are now, which takes over what it can from another one.
    fn scheduled(&self, py: Python<'_>, outdated: Option<Schedule>) -> PyResult<Schedule> {
        let is_checking = config::is_checking();
        let mut launches = Vec::new();
        let mut steps = Vec::with_capacity(self.steps.len());
        // Steps of the host are run here, so that the references to them are those that garbage collection is shown.
        let host = || PlanStep::Host(Arc::new(|| Ok(())));
        for (number, step) in self.steps.iter().enumerate() {
            let Step::Launch(launch) = step else {
                steps.push(host());
                continue;
            };
            let launch = launch.get();
            let n_changes = launch.n_changes();
            let held = if launch.is_dynamic(py)? { None } else { Some(launch.bound(py)?) };
            steps.push(held.as_ref().map_or_else(host, |held| PlanStep::Launch(held.bound.clone())));
            launches.push(ScheduledLaunch { step: number, n_changes, held });
        }
        let plan = guarded(|| {
            let fuses = self.fuses;
            let outdated = outdated.map(|outdated| outdated.plan);
            Ok(py.detach(|| match outdated {
                Some(outdated) => outdated.with_steps(steps),
                None => polyloom::Plan::new(steps, fuses),
            }))
        })?;
        Ok(Schedule { plan, launches, is_checking })
    }
}

impl Schedule {
    /// Replaces arguments of launches, which are given by their numbers, with how often they had been changed. Gives false
    /// if another plan is to be made.
    fn rebind(&mut self, changed: Vec<(usize, u64, Option<HeldLaunch>)>) -> bool {
        let mut launches = Vec::with_capacity(changed.len());
        for (number, _, held) in &changed {
            if let (Some(known), Some(held)) = (self.launches.get(*number), held) {
                launches.push((known.step, held.bound.clone()));
            }
        }
        if !self.plan.rebind(&launches) {
            return false;
        }
        for (number, n_changes, held) in changed {
            if let Some(known) = self.launches.get_mut(number) {
                *known = ScheduledLaunch { step: known.step, n_changes, held };
            }
        }
        true
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
