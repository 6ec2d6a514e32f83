//! Data sets of kernels, for `polyloom.synth`.

use crate::packages;
use polyloom_dataset::{Category, How, ProduceError, Settings, fingerprint, structures};
use pyo3::exceptions::{PyFileExistsError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// The names of the categories of generated kernels.
#[pyfunction]
pub(crate) fn kernel_categories() -> Vec<&'static str> {
    Category::ALL.iter().map(|category| category.name()).collect()
}

/// A generated kernel: its name, its text and its difficulty.
#[pyfunction]
pub(crate) fn generate_kernel(category: &str, seed: u64) -> PyResult<(String, String, u8)> {
    let category: Category = category.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?;
    let program = polyloom_dataset::generate(category, seed);
    Ok((program.name, program.source, program.difficulty))
}

/// The settings of a data set of so many rows, as JSON.
#[pyfunction]
pub(crate) fn dataset_settings(count: u64, seed: u64) -> PyResult<String> {
    serde_json::to_string(&Settings::new(count, seed)).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Writes a data set. `observe` is called now and then with the rows there are, the kernels rejected and the seconds
/// since the beginning; what it raises ends the run, which can be gone on with.
#[pyfunction]
pub(crate) fn produce_dataset(
    py: Python<'_>,
    settings: &str,
    output: PathBuf,
    jobs: usize,
    resume: bool,
    exclude: Vec<PathBuf>,
    observe: Option<Py<PyAny>>,
) -> PyResult<()> {
    packages::tell(py)?;
    let mut settings: Settings =
        serde_json::from_str(settings).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut raised = None;
    let mut observe = |progress: &polyloom_dataset::Progress| {
        let told = Python::attach(|py| {
            py.check_signals()?;
            let Some(observe) = &observe else { return Ok(()) };
            observe.call1(py, (progress.rows, progress.rejects, progress.time.as_secs_f64())).map(drop)
        });
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let done = py.detach(|| {
        let excluded = structures(&exclude).map_err(|error| PyValueError::new_err(error.to_string()))?;
        settings.excluded = fingerprint(&excluded);
        let how = How { jobs, resume, excluded: &excluded, observe: &mut observe };
        polyloom_dataset::produce(&settings, &output, how).map_err(failure)
    });
    match (raised, done) {
        (Some(error), _) | (None, Err(error)) => Err(error),
        (None, Ok(_)) => Ok(()),
    }
}

fn failure(error: ProduceError) -> PyErr {
    let message = error.to_string();
    match error {
        ProduceError::Setting(_) | ProduceError::OtherSettings { .. } => PyValueError::new_err(message),
        ProduceError::Exists { .. } => PyFileExistsError::new_err(message),
        ProduceError::File { .. } => PyOSError::new_err(message),
        ProduceError::Session(_) | ProduceError::Interrupted => PyRuntimeError::new_err(message),
    }
}
