//! Groups in which the program's own kernels are called: stages of calls that run as one, and launches between them.

use crate::fused_calls::FusedCalls;
use crate::group_calls::{GroupCall, OperandSource};
use crate::kernel::Kernel;
use crate::numpy_calls::NumpyCall;
use polyloom::FloatMode;
use polyloom::graph::TensorOp;
use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;

/// Says what is called.
pub(crate) enum Callee {
    /// An op of the table.
    Op(TensorOp),
    /// A function of arrays, such as a `polyloom.op`.
    Function(Py<PyAny>),
}

/// A call with its operands, by position and by name.
pub(crate) struct CallSource {
    pub(crate) callee: Callee,
    pub(crate) args: Vec<OperandSource>,
    pub(crate) keywords: Vec<(String, OperandSource)>,
    /// The call itself, if it is one of NumPy.
    pub(crate) numpy: Option<NumpyCall>,
}

/// A value that a stage is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StageInput {
    External(usize),
    Result(usize),
}

enum CallStage {
    Fused { calls: FusedCalls, inputs: Vec<StageInput>, numbers: Vec<usize>, results: Vec<usize> },
    Function { call: CallSource, number: usize },
}

/// Holds what a stage runs: the kernels of a plan, or one kernel of the program.
pub(crate) enum StageForm<'a> {
    Fused(&'a FusedCalls),
    Kernel(Arc<polyloom::Kernel>),
}

/// Calls in stages.
pub(crate) struct StagedCalls {
    stages: Vec<CallStage>,
    outputs: Vec<usize>,
    n_calls: usize,
}

/// Calls of a stage that is not complete.
#[derive(Default)]
struct StageBuilder {
    calls: Vec<GroupCall>,
    /// The numbers of the calls in the group.
    numbers: Vec<usize>,
    inputs: Vec<StageInput>,
}

impl StageBuilder {
    /// Returns an operand as the stage sees it.
    fn localise(&mut self, source: OperandSource) -> OperandSource {
        let input = match source {
            OperandSource::External(index) => StageInput::External(index),
            OperandSource::Call(call) => match self.numbers.iter().position(|&number| number == call) {
                Some(local) => return OperandSource::Call(local),
                None => StageInput::Result(call),
            },
            OperandSource::Constant(object) => return OperandSource::Constant(object),
            OperandSource::List(items) => {
                return OperandSource::List(items.into_iter().map(|item| self.localise(item)).collect());
            }
        };
        let known = self.inputs.iter().position(|&other| other == input);
        OperandSource::External(known.unwrap_or_else(|| {
            self.inputs.push(input);
            self.inputs.len() - 1
        }))
    }

    fn finish(self, name: &str, is_used: impl Fn(usize) -> bool, float_mode: FloatMode) -> Option<CallStage> {
        if self.calls.is_empty() {
            return None;
        }
        let outputs: Vec<usize> = (0..self.numbers.len()).filter(|&local| is_used(self.numbers[local])).collect();
        let results = outputs.iter().map(|&local| self.numbers[local]).collect();
        let calls = FusedCalls::new(name.to_owned(), self.calls, outputs, self.inputs.len(), float_mode);
        Some(CallStage::Fused { calls, inputs: self.inputs, numbers: self.numbers, results })
    }
}

impl StagedCalls {
    /// Cuts calls to stages.
    ///
    /// # Errors
    ///
    /// `TypeError` of a call that does not fit its op's parameters.
    pub(crate) fn new(
        name: &str,
        calls: Vec<CallSource>,
        outputs: Vec<usize>,
        float_mode: FloatMode,
    ) -> PyResult<StagedCalls> {
        let n_calls = calls.len();
        // For each result the stage that makes it, and whether another one reads it.
        let mut used = vec![false; n_calls];
        let mut stage_of = Vec::with_capacity(n_calls);
        let mut stage = 0;
        for call in &calls {
            stage += usize::from(matches!(call.callee, Callee::Function(_)));
            stage_of.push(stage);
            for source in call.args.iter().chain(call.keywords.iter().map(|(_, source)| source)) {
                source.visit(&mut |source| {
                    if let OperandSource::Call(other) = source {
                        used[*other] |= stage_of[*other] != stage || matches!(call.callee, Callee::Function(_));
                    }
                });
            }
            stage += usize::from(matches!(call.callee, Callee::Function(_)));
        }
        outputs.iter().for_each(|&output| used[output] = true);
        let mut stages = Vec::new();
        let mut builder = StageBuilder::default();
        for (number, call) in calls.into_iter().enumerate() {
            match call.callee {
                Callee::Op(op) => {
                    let args = call.args.into_iter().map(|source| builder.localise(source)).collect();
                    let named = call.keywords.into_iter();
                    let keywords = named.map(|(name, source)| (name, builder.localise(source))).collect();
                    builder.calls.push(GroupCall::new(op, args, keywords)?);
                    builder.numbers.push(number);
                }
                Callee::Function(_) => {
                    stages.extend(std::mem::take(&mut builder).finish(name, |call| used[call], float_mode));
                    stages.push(CallStage::Function { call, number });
                }
            }
        }
        stages.extend(builder.finish(name, |call| used[call], float_mode));
        Ok(StagedCalls { stages, outputs, n_calls })
    }

    /// Runs the stages; gives nothing if one refuses its values.
    ///
    /// # Errors
    ///
    /// Those that are not about the values.
    pub(crate) fn run<'py>(
        &self,
        py: Python<'py>,
        externals: &[Bound<'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut results: Vec<Option<Bound<'py, PyAny>>> = vec![None; self.n_calls];
        for stage in &self.stages {
            match stage {
                CallStage::Fused { calls, inputs, results: made, .. } => {
                    let value = |input: &StageInput| match *input {
                        StageInput::External(index) => externals.get(index).map(Bound::as_ptr),
                        StageInput::Result(call) => results[call].as_ref().map(Bound::as_ptr),
                    };
                    let args: Option<SmallVec<[*mut ffi::PyObject; 8]>> = inputs.iter().map(value).collect();
                    let Some(args) = args else { return Ok(None) };
                    // SAFETY: `externals` and `results` keep them alive.
                    let Some(given) = (unsafe { calls.run(py, &args, false)? }) else { return Ok(None) };
                    match made[..] {
                        [one] => results[one] = Some(given),
                        _ => {
                            for (&call, result) in made.iter().zip(given.cast::<PyTuple>()?.iter()) {
                                results[call] = Some(result);
                            }
                        }
                    }
                }
                CallStage::Function { call, number } => match call.run(py, externals, &results) {
                    Ok(result) => results[*number] = Some(result),
                    Err(error) if error.is_instance_of::<PyMemoryError>(py) => return Err(error),
                    // The original code calls it again, and raises what it raises; nothing but results was written.
                    Err(error) if error.is_instance_of::<PyException>(py) => return Ok(None),
                    Err(error) => return Err(error),
                },
            }
        }
        let outputs: Option<Vec<Bound<'py, PyAny>>> = self.outputs.iter().map(|&call| results[call].clone()).collect();
        Ok(match outputs {
            Some(mut outputs) if outputs.len() == 1 => outputs.pop(),
            Some(outputs) => Some(PyTuple::new(py, outputs)?.into_any()),
            None => None,
        })
    }

    /// Returns true if a call would take these values, as far as is known.
    pub(crate) fn check<'py>(&self, py: Python<'py>, call: usize, values: &[Bound<'py, PyAny>]) -> PyResult<bool> {
        for stage in &self.stages {
            let CallStage::Fused { calls, inputs, numbers, .. } = stage else { continue };
            let Some(local) = numbers.iter().position(|&number| number == call) else { continue };
            let mut own = Vec::new();
            for input in inputs {
                match input {
                    StageInput::External(index) => own.extend(values.get(*index).cloned()),
                    // What kernels of the program give is not known before they run.
                    StageInput::Result(_) => return Ok(true),
                }
            }
            return calls.check(py, local, &own);
        }
        Ok(true)
    }

    /// The stages with the code that they have.
    ///
    /// # Errors
    ///
    /// `TypeError` of a function that is no kernel.
    pub(crate) fn stages(&self, py: Python<'_>) -> PyResult<Vec<StageForm<'_>>> {
        let mut stages = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            stages.push(match stage {
                CallStage::Fused { calls, .. } => StageForm::Fused(calls),
                CallStage::Function { call, .. } => StageForm::Kernel(call.kernel(py)?),
            });
        }
        Ok(stages)
    }

    /// Returns the functions of the program that are called.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &Py<PyAny>> {
        self.stages.iter().filter_map(|stage| match stage {
            CallStage::Function { call: CallSource { callee: Callee::Function(function), .. }, .. } => Some(function),
            _ => None,
        })
    }

    /// The calls that run as one, in stages.
    pub(crate) fn fused(&self) -> impl Iterator<Item = &FusedCalls> {
        self.stages.iter().filter_map(|stage| match stage {
            CallStage::Fused { calls, .. } => Some(calls),
            CallStage::Function { .. } => None,
        })
    }
}

impl CallSource {
    /// The kernel that a function of arrays launches.
    fn kernel(&self, py: Python<'_>) -> PyResult<Arc<polyloom::Kernel>> {
        let Callee::Function(function) = &self.callee else { return Err(PyTypeError::new_err("an op is no kernel")) };
        let kernel = function.bind(py).getattr("kernel")?;
        kernel.cast::<Kernel>()?.get().one().cloned()
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        externals: &[Bound<'py, PyAny>],
        results: &[Option<Bound<'py, PyAny>>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let Callee::Function(function) = &self.callee else { return Ok(py.None().into_bound(py)) };
        let args =
            self.args.iter().map(|source| source.object(py, externals, results)).collect::<PyResult<Vec<_>>>()?;
        let keywords = PyDict::new(py);
        for (name, source) in &self.keywords {
            keywords.set_item(name, source.object(py, externals, results)?)?;
        }
        function.bind(py).call(PyTuple::new(py, args)?, Some(&keywords))
    }
}

impl OperandSource {
    /// Returns the object that an operand is.
    fn object<'py>(
        &self,
        py: Python<'py>,
        externals: &[Bound<'py, PyAny>],
        results: &[Option<Bound<'py, PyAny>>],
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            OperandSource::External(index) => externals[*index].clone(),
            OperandSource::Call(call) => results[*call].clone().unwrap_or_else(|| py.None().into_bound(py)),
            OperandSource::Constant(object) => object.bind(py).clone(),
            OperandSource::List(items) => {
                let items = items.iter().map(|item| item.object(py, externals, results));
                PyTuple::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
        })
    }
}
