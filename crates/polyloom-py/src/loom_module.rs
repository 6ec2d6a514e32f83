//! `.loom` files as Python objects: their kernels and computations, with the launches that they are.

use crate::boundary::guarded;
use crate::captures::python_type;
use crate::errors::compile_error;
use crate::kernel::Kernel;
use crate::session;
use polyloom::frontend::{FileEnvironment, LoomProgram, ShapeArgument, read_type};
use polyloom::{SourceUnit, Type, ValueType, check_file, read_loom};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

/// A `.loom` file.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct LoomModule {
    unit: Arc<SourceUnit>,
    environment: Arc<FileEnvironment>,
}

/// A launch: its function, its grid if the program says that, the results and the scratch arrays that it takes, and further
/// arguments.
type StageLaunch = (usize, Option<Vec<u64>>, Vec<usize>, Vec<usize>, Vec<i32>);

/// The shapes of results and of scratch arrays, and each launch.
type BoundLaunches = (Vec<Vec<u64>>, Vec<Vec<u64>>, Vec<StageLaunch>);

/// The kernels of a program by the index of their function, the types of the elements of its results and of its scratch
/// arrays, and for each of its parameters whether a kernel writes it.
type CompiledStages = (Vec<(usize, Kernel)>, Vec<Option<Py<PyAny>>>, Vec<Option<Py<PyAny>>>, Vec<bool>);

/// The fields of a struct with their types.
type StructFields = Vec<(String, Py<PyAny>)>;

impl LoomModule {
    fn program(&self, index: usize) -> PyResult<&LoomProgram> {
        self.unit.programs().get(index).ok_or_else(|| PyValueError::new_err("the module has no such program"))
    }
}

#[pymethods]
impl LoomModule {
    #[new]
    fn new(py: Python<'_>, file: &str, text: &str) -> PyResult<LoomModule> {
        let defaults = session()?.defaults();
        let unit = guarded(|| {
            let unit = read_loom(file, text).map_err(|error| compile_error(py, &error))?;
            check_file(&unit, &defaults).map_err(|error| compile_error(py, &error))?;
            Ok(unit)
        })?;
        let environment = FileEnvironment::new(&unit);
        Ok(LoomModule { unit, environment })
    }

    /// The names of its kernels and computations in order, each with its documentation and whether it is a computation.
    fn programs(&self) -> Vec<(String, String, bool)> {
        let facts = |program: &LoomProgram| (program.name.to_string(), program.doc.clone(), program.is_compute);
        self.unit.programs().iter().map(facts).collect()
    }

    /// Returns the names of the parameters and of the results of a program.
    fn signature(&self, program: usize) -> PyResult<(Vec<String>, Vec<String>)> {
        let program = self.program(program)?;
        let name = |param: &polyloom::frontend::ProgramParam| param.name.to_string();
        Ok((program.params.iter().map(name).collect(), program.results.iter().map(name).collect()))
    }

    /// The device that a program prefers, and whether it runs nowhere else.
    fn device(&self, program: usize) -> PyResult<Option<(String, bool)>> {
        let device = self.program(program)?.device.as_ref();
        Ok(device.map(|device| (device.name.to_string(), device.is_required)))
    }

    /// The factors of a program that is a product of matrices, by the numbers of their parameters, each with whether it is
    /// transposed, if the tensor engine may compute it: its bits are those of the loops, or the float mode lets sums contract.
    fn product(&self, program: usize) -> PyResult<Option<[(usize, bool); 2]>> {
        let mode = session()?.defaults().float_mode;
        let product = self.program(program)?.product.filter(|product| product.may_fuse(mode));
        let factor = |factor: polyloom::frontend::MatrixFactor| (factor.param, factor.is_transposed);
        Ok(product.map(|product| [factor(product.left), factor(product.right)]))
    }

    /// The kernels of a program by the index of their function, compiled for arguments of these types, which generic
    /// parameters take and others ignore, with the types of the elements of results and of scratch arrays, and for each
    /// parameter whether a kernel writes it.
    fn compiled(&self, py: Python<'_>, program: usize, types: Vec<String>) -> PyResult<CompiledStages> {
        let program = self.program(program)?;
        let session = session()?;
        let mut kernels = Vec::new();
        let mut elements: Vec<Option<Py<PyAny>>> = program.results.iter().map(|_| None).collect();
        let mut scratch: Vec<Option<Py<PyAny>>> = program.scratch.iter().map(|_| None).collect();
        let mut written = vec![false; program.params.len()];
        for index in program.functions() {
            let handle = self.environment.function(index);
            let mut chosen: Vec<ValueType> = Vec::new();
            if handle.is_generic_kernel() {
                let params = handle.parameters().unwrap_or_default();
                for ((param, wanted), text) in params.iter().zip(&types) {
                    let ty = match wanted {
                        polyloom::frontend::ParamType::Exact(ty) => *ty,
                        _ => read_type(text, &*self.environment)
                            .map_err(|wrong| PyTypeError::new_err(format!("`{param}`: {wrong}")))?,
                    };
                    if !wanted.takes(ty) {
                        let (name, given) = (&program.name, ty.python_name());
                        return Err(PyTypeError::new_err(format!("`{param}` of `{name}` does not take {given}")));
                    }
                    chosen.push(ty);
                }
            }
            let compile = || session.compile_for(&handle, &chosen, session.defaults());
            let kernel = guarded(|| compile().map_err(|error| compile_error(py, &error)))?;
            let results = program.results.iter().zip(&mut elements);
            for (array, element) in results.chain(program.scratch.iter().zip(&mut scratch)) {
                let argument = kernel.arguments().iter().find(|argument| argument.name == array.name);
                if element.is_none()
                    && let Some(argument) = argument
                {
                    *element = Some(element_type(py, argument.ty)?);
                }
            }
            for (param, is_written) in program.params.iter().zip(&mut written) {
                *is_written |= kernel.writes_argument(&param.name);
            }
            kernels.push((index, Kernel::specialised(kernel)));
        }
        Ok((kernels, elements, scratch, written))
    }

    /// The structs that the file declares or imports by name, each with its fields; none with arrays in it. `made` is told
    /// each before those that have it among their fields.
    fn structs(&self, py: Python<'_>, made: &Bound<'_, PyAny>) -> PyResult<()> {
        for name in self.unit.struct_names() {
            let Ok(ValueType::Struct(of)) = read_type(&name, &*self.environment) else { continue };
            let mut fields: StructFields = Vec::new();
            for field in of.fields() {
                let ty = python_type(py, field.ty)?.filter(|ty| !ty.is_none());
                fields.extend(ty.map(|ty| (field.name.to_string(), ty.unbind())));
            }
            if fields.len() == of.fields().len() {
                made.call1((name, fields))?;
            }
        }
        Ok(())
    }

    /// The shapes of results and of scratch arrays, and the launches of a program for arguments: the shape of an array, an integer, or
    /// anything else. `is_cpu` says that a CPU runs them.
    fn bound(&self, program: usize, arguments: Vec<Option<Bound<'_, PyAny>>>, is_cpu: bool) -> PyResult<BoundLaunches> {
        let shape = |argument: Option<Bound<'_, PyAny>>| {
            let Some(argument) = argument else { return ShapeArgument::Other };
            if let Ok(value) = argument.extract::<i64>() {
                return ShapeArgument::Int(value);
            }
            argument.extract::<Vec<u64>>().map_or(ShapeArgument::Other, ShapeArgument::Array)
        };
        let arguments: Vec<ShapeArgument> = arguments.into_iter().map(shape).collect();
        let bound = self.program(program)?.bind(&arguments).map_err(PyValueError::new_err)?;
        let (results, scratch) = (bound.results.clone(), bound.scratch.clone());
        let launches = bound.launches_for(is_cpu).into_iter();
        let launches =
            launches.map(|launch| (launch.function, launch.dim, launch.results, launch.scratch, launch.counters));
        Ok((results, scratch, launches.collect()))
    }
}

/// The type of an array's elements.
fn element_type(py: Python<'_>, array: ValueType) -> PyResult<Py<PyAny>> {
    let elem = match array {
        ValueType::Plain(ty) => ValueType::Plain(ty.as_any_array().map_or(ty, |(elem, _): (Type, u8)| elem)),
        ValueType::Struct(of) | ValueType::StructArray { elem: of, .. } => ValueType::Struct(of),
    };
    let found = python_type(py, elem)?.filter(|ty| !ty.is_none());
    let missing = || {
        PyTypeError::new_err(format!("results have elements of {}, which has no type in Python", elem.python_name()))
    };
    found.map(Bound::unbind).ok_or_else(missing)
}
