//! Data sets of kernels, for `polyloom.synth`.

use crate::kernel::Kernel;
use crate::packages;
use polyloom_dataset::{
    Category, KernelFiles, ProduceError, ProduceSettings, RunOptions, ShardNumber, WarpEmitter, fingerprint, structures,
};
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
    serde_json::to_string(&ProduceSettings::new(count, seed))
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The settings, as JSON, of the part of this number, from 0, of so many that make the data set of these settings.
#[pyfunction]
pub(crate) fn dataset_part(settings: &str, number: u64, of: u64) -> PyResult<String> {
    let wrong = |error: serde_json::Error| PyValueError::new_err(error.to_string());
    let mut settings: ProduceSettings = serde_json::from_str(settings).map_err(wrong)?;
    settings.take_part(ShardNumber { number, of });
    serde_json::to_string(&settings).map_err(wrong)
}

/// Writes a data set; of kernels of files, if `source` says which, of what category they are and under which licence.
/// `observe` is called now and then with the rows there are, the kernels rejected and the seconds since the beginning;
/// what it raises ends the run, which can be gone on with. `emit` is Warp's version, and gives Warp's CUDA C++ and C++ of a
/// kernel, by its name and its text, or None.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are Python's")]
pub(crate) fn produce_dataset(
    py: Python<'_>,
    settings: &str,
    output: PathBuf,
    jobs: usize,
    resume: bool,
    exclude: Vec<PathBuf>,
    source: Option<(Vec<PathBuf>, String, String)>,
    emit: Option<(String, Py<PyAny>)>,
    observe: Option<Py<PyAny>>,
) -> PyResult<()> {
    packages::tell(py)?;
    let mut settings: ProduceSettings =
        serde_json::from_str(settings).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut raised = None;
    let mut observe = |progress: &polyloom_dataset::RunProgress| {
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
        let call = |name: &str, source: &str| {
            let Some((_, emit)) = &emit else { return Ok(None) };
            Python::attach(|py| {
                let texts = emit.call1(py, (name, source))?;
                let pair = texts.extract::<Option<(String, String)>>(py)?;
                Ok(pair.map(|(cuda, cpp)| [cuda, cpp]))
            })
            .map_err(|error: PyErr| error.to_string())
        };
        let emitter = emit.as_ref().map(|(version, _)| WarpEmitter { version, emit: &call });
        let excluded = structures(&exclude).map_err(|error| PyValueError::new_err(error.to_string()))?;
        settings.excluded = fingerprint(&excluded);
        let found = match &source {
            Some((paths, category, license)) => {
                let found = KernelFiles::read(paths).map_err(|error| PyOSError::new_err(error.to_string()))?;
                if found.is_empty() {
                    return Err(PyValueError::new_err("no kernel is in these files"));
                }
                settings.take_from(&found, category, license);
                Some(found)
            }
            None => None,
        };
        let how =
            RunOptions { jobs, resume, excluded: &excluded, source: found.as_ref(), emitter, observe: &mut observe };
        polyloom_dataset::produce(&settings, &output, how).map_err(failure)
    });
    match (raised, done) {
        (Some(error), _) | (None, Err(error)) => Err(error),
        (None, Ok(_)) => Ok(()),
    }
}

/// Puts the shards of a data set together, and gives how many rows there are then.
#[pyfunction]
#[pyo3(signature = (shards, output, count))]
pub(crate) fn merge_datasets(
    py: Python<'_>,
    shards: Vec<PathBuf>,
    output: PathBuf,
    count: Option<u64>,
) -> PyResult<u64> {
    let mut raised = None;
    let mut observe = |_: &polyloom_dataset::RunProgress| match Python::attach(|py| py.check_signals()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            raised = Some(error);
            ControlFlow::Break(())
        }
    };
    let done = py.detach(|| polyloom_dataset::merge(&shards, &output, count, &mut observe));
    let (_, progress) = match raised {
        Some(error) => return Err(error),
        None => done.map_err(failure)?,
    };
    Ok(progress.rows)
}

/// The columns that shards need to be put together and these are not.
#[pyfunction]
pub(crate) fn dataset_columns_to_merge_by(columns: Vec<String>) -> Vec<&'static str> {
    polyloom_dataset::columns_to_merge_by(&columns)
}

/// What tells the kernels of files, which no row may be like, from others; None if there are none.
#[pyfunction]
pub(crate) fn dataset_exclusion(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<Option<String>> {
    let found = py.detach(|| structures(&files)).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(fingerprint(&found))
}

/// Whether rows have a backward kernel of this kernel.
#[pyfunction]
pub(crate) fn has_backward(py: Python<'_>, kernel: &Kernel) -> PyResult<bool> {
    let kernel = kernel.one()?;
    let backward = py.detach(|| polyloom_dataset::backward(kernel));
    backward.map(|backward| backward.is_some()).map_err(|reject| PyValueError::new_err(reject.to_string()))
}

/// The names of all columns that a data set may have.
#[pyfunction]
pub(crate) fn dataset_columns() -> Vec<&'static str> {
    polyloom_dataset::all_columns().collect()
}

fn failure(error: ProduceError) -> PyErr {
    let message = error.to_string();
    match error {
        ProduceError::Setting(_) | ProduceError::Shards(_) | ProduceError::OtherSettings { .. } => {
            PyValueError::new_err(message)
        }
        ProduceError::Exists { .. } | ProduceError::InTheWay { .. } | ProduceError::Busy(_) => {
            PyFileExistsError::new_err(message)
        }
        ProduceError::File { .. } | ProduceError::Stopped { .. } => PyOSError::new_err(message),
        ProduceError::Session(_)
        | ProduceError::Interrupted
        | ProduceError::MergeInterrupted
        | ProduceError::Barren { .. }
        | ProduceError::NoRows { .. } => PyRuntimeError::new_err(message),
    }
}
