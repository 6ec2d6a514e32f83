//! The types that choose a specialisation of a generic kernel: those of a launch's arguments, or those of an overload.

use crate::argument_types;
use crate::capture::capture;
use crate::errors::argument_type_error;
use crate::generic::{Generic, Types};
use crate::kernel::Kernel;
use polyloom::frontend::{CapturedMeaning, ParamType};
use polyloom::{Type, ValueType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

impl Generic {
    /// The specialisation for the arguments of a launch.
    ///
    /// # Errors
    ///
    /// If the type of an argument is not known or not taken, and if the kernel cannot be compiled for it.
    pub(crate) fn for_arguments<'py>(
        &self,
        py: Python<'py>,
        args: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Bound<'py, Kernel>> {
        self.check_count(args.len())?;
        let mut types = Types::new();
        for (arg, (name, wanted)) in args.iter().zip(&self.params) {
            let ty = match *wanted {
                ParamType::Exact(ty) => ty,
                wanted => argument_types::type_of(arg, wanted).map_err(|error| self.at(py, name, &error))?,
            };
            self.check_type(name, *wanted, ty)?;
            types.push(ty);
        }
        self.specialised(py, types)
    }

    /// The specialisation for these types: a list, or a dictionary that has one for each generic parameter.
    ///
    /// # Errors
    ///
    /// As [`Generic::for_arguments`].
    pub(crate) fn for_types<'py>(&self, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Kernel>> {
        let mut types = Types::new();
        if let Ok(named) = given.cast::<PyDict>() {
            for name in named.keys() {
                let name: String = name.extract()?;
                if !self.param_names().any(|known| known == name) {
                    return Err(PyValueError::new_err(format!("kernel '{}' has no parameter '{name}'", self.name)));
                }
            }
            for (name, wanted) in &self.params {
                types.push(match (named.get_item(&**name)?, wanted) {
                    (Some(ty), _) => self.type_given(name, *wanted, &ty)?,
                    (None, ParamType::Exact(ty)) => *ty,
                    (None, _) => {
                        let message = format!("parameter '{name}' of kernel '{}' needs a type", self.name);
                        return Err(PyTypeError::new_err(message));
                    }
                });
            }
        } else if given.cast::<PyList>().is_ok() || given.cast::<PyTuple>().is_ok() {
            self.check_count(given.len()?)?;
            for (ty, (name, wanted)) in given.try_iter()?.zip(&self.params) {
                types.push(self.type_given(name, *wanted, &ty?)?);
            }
        } else {
            let message = "the types of an overload are a list, or a dictionary by parameter names";
            return Err(PyTypeError::new_err(message));
        }
        self.specialised(given.py(), types)
    }

    fn type_given(&self, name: &str, wanted: ParamType, given: &Bound<'_, PyAny>) -> PyResult<ValueType> {
        let ty = match capture(given) {
            CapturedMeaning::Type(scalar) => scalar.into(),
            CapturedMeaning::Composite(composite) => Type::Composite(composite).into(),
            CapturedMeaning::Struct(of) => ValueType::Struct(of),
            CapturedMeaning::Annotation(ParamType::Exact(ty)) => ty,
            _ => {
                let message = format!("parameter '{name}' of kernel '{}': {given} is not one type", self.name);
                return Err(PyTypeError::new_err(message));
            }
        };
        self.check_type(name, wanted, ty)?;
        Ok(ty)
    }

    fn check_count(&self, n_given: usize) -> PyResult<()> {
        let n = self.params.len();
        if n_given == n {
            return Ok(());
        }
        let names: Vec<&str> = self.param_names().collect();
        let plural = if n == 1 { "" } else { "s" };
        let message =
            format!("kernel '{}' takes {n} argument{plural} ({}), {n_given} given", self.name, names.join(", "));
        Err(argument_type_error(message))
    }

    fn check_type(&self, name: &str, wanted: ParamType, given: ValueType) -> PyResult<()> {
        if wanted.takes(given) {
            return Ok(());
        }
        let message =
            format!("argument '{name}' of kernel '{}' must be {wanted}, not {}", self.name, given.python_name());
        Err(argument_type_error(message))
    }

    /// An error about an argument, with its name.
    fn at(&self, py: Python<'_>, name: &str, error: &PyErr) -> PyErr {
        if !error.is_instance_of::<PyTypeError>(py) {
            return error.clone_ref(py);
        }
        argument_type_error(format!("argument '{name}' of kernel '{}' {}", self.name, error.value(py)))
    }
}
