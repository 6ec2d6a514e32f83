//! Ops as functions of Python: a call is a group of one call, which raises the op's errors itself.
//!
//! They are built-in functions that take their arguments without a tuple. Arguments are matched with parameters once for
//! each form of a call: so many by position, these by name.

use crate::errors::argument_type_error;
use crate::fused_calls::FusedCalls;
use crate::group_calls::{GroupCall, OperandSource};
use polyloom::FloatMode;
use polyloom::graph::op::TensorArity;
use polyloom::graph::{TensorOp, TensorOpInfo};
use polyloom::tensor_op::documentation_with_signature;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use smallvec::SmallVec;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// Forms of calls that are kept of an op. Lists of other lengths are other forms.
const MAX_FORMS: usize = 64;

/// Says what an op's function holds.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct EagerOp {
    op: TensorOp,
    /// True if the first argument is a list of tensors.
    takes_list: bool,
    forms: Mutex<Vec<Arc<CallForm>>>,
}

/// A form of calls.
struct CallForm {
    n_positional: usize,
    keywords: Vec<Py<PyAny>>,
    /// The tensors in the list, of an op that takes one.
    n_listed: Option<usize>,
    calls: FusedCalls,
}

impl CallForm {
    /// Returns true if a call has this form.
    ///
    /// # Safety
    ///
    /// The names are live strings.
    unsafe fn is_of(&self, n_positional: usize, keywords: &[*mut ffi::PyObject], n_listed: Option<usize>) -> bool {
        self.n_positional == n_positional
            && self.n_listed == n_listed
            && self.keywords.len() == keywords.len()
            && self.keywords.iter().zip(keywords).all(|(known, &given)| {
                // SAFETY: both are strings.
                known.as_ptr() == given || unsafe { ffi::PyUnicode_Compare(known.as_ptr(), given) == 0 }
            })
    }
}

impl EagerOp {
    fn new(info: &'static TensorOpInfo) -> EagerOp {
        let takes_list = info.signature.tensors.first().is_some_and(|tensor| tensor.arity == TensorArity::Many);
        EagerOp { op: info.op, takes_list, forms: Mutex::default() }
    }

    /// Calls the op.
    ///
    /// # Safety
    ///
    /// The arguments are live objects, the last of them those of the names.
    unsafe fn call<'py>(
        &self,
        py: Python<'py>,
        args: &[*mut ffi::PyObject],
        keywords: &[*mut ffi::PyObject],
    ) -> PyResult<Bound<'py, PyAny>> {
        let n_positional = args.len() - keywords.len();
        let mut listed: SmallVec<[Bound<'py, PyAny>; 8]> = SmallVec::new();
        let mut flat: SmallVec<[*mut ffi::PyObject; 8]> = SmallVec::new();
        let mut n_listed = None;
        let externals = if self.takes_list && n_positional > 0 {
            // SAFETY: passed on to the caller.
            let list = unsafe { Bound::from_borrowed_ptr(py, args[0]) };
            listed.extend(self.items(&list)?);
            n_listed = Some(listed.len());
            flat.extend(listed.iter().map(Bound::as_ptr));
            flat.extend_from_slice(&args[1..]);
            &flat[..]
        } else {
            args
        };
        // SAFETY: passed on to the caller.
        let form = unsafe { self.form(py, n_positional, keywords, n_listed, args.len())? };
        // SAFETY: the caller, and `listed`, keep them alive.
        let result = unsafe { form.calls.run(py, externals, true)? };
        result.ok_or_else(|| PyTypeError::new_err(format!("`{}` does not take these arguments", self.op.name())))
    }

    fn items<'py>(&self, list: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if list.cast::<pyo3::types::PyList>().is_err() && list.cast::<PyTuple>().is_err() {
            let given = list.get_type().name()?;
            let name = self.op.info().signature.tensor_name(0).replace("[0]", "");
            let message = format!("`{}`: `{name}` is a list or tuple of tensors, not {given}", self.op.name());
            return Err(argument_type_error(message));
        }
        list.try_iter()?.collect()
    }

    /// Returns the form of a call.
    ///
    /// # Safety
    ///
    /// The names are live strings.
    #[inline]
    unsafe fn form(
        &self,
        py: Python<'_>,
        n_positional: usize,
        keywords: &[*mut ffi::PyObject],
        n_listed: Option<usize>,
        n_args: usize,
    ) -> PyResult<Arc<CallForm>> {
        {
            let forms = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: passed on to the caller.
            if let Some(form) = forms.iter().find(|form| unsafe { form.is_of(n_positional, keywords, n_listed) }) {
                return Ok(form.clone());
            }
        }
        // SAFETY: passed on to the caller.
        let names = keywords.iter().map(|&name| unsafe { Bound::from_borrowed_ptr(py, name) });
        let names: Vec<Bound<'_, PyAny>> = names.collect();
        let mut externals = (0..).map(OperandSource::External);
        let mut next = || externals.next().unwrap_or(OperandSource::External(0));
        let mut positional = Vec::new();
        if let Some(n) = n_listed {
            positional.push(OperandSource::List((0..n).map(|_| next()).collect()));
        }
        while positional.len() < n_positional {
            positional.push(next());
        }
        let mut named = Vec::new();
        for name in &names {
            named.push((name.extract::<String>()?, next()));
        }
        let call = GroupCall::new(self.op, positional, named)?;
        let n_externals = n_listed.map_or(n_args, |n| n_args - 1 + n);
        let name = self.op.name().to_owned();
        let calls = FusedCalls::new(name, vec![call], vec![0], n_externals, FloatMode::Strict);
        let keywords = names.into_iter().map(Bound::unbind).collect();
        let form = Arc::new(CallForm { n_positional, keywords, n_listed, calls });
        let mut forms = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
        forms.insert(0, form.clone());
        let oldest = if forms.len() > MAX_FORMS { forms.pop() } else { None };
        drop(forms);
        drop(oldest);
        Ok(form)
    }
}

/// Python's entry.
///
/// # Safety
///
/// Python calls it, with `slf` an [`EagerOp`].
unsafe extern "C" fn call_op(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    n_positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    Python::attach(|py| {
        // SAFETY: Python's promise: as many arguments follow each other as are positional and have names.
        let done = unsafe {
            let n_names = if names.is_null() { 0 } else { ffi::PyTuple_Size(names) };
            let n = (n_positional + n_names) as usize;
            let args = if n == 0 { &[][..] } else { std::slice::from_raw_parts(args, n) };
            let keywords: SmallVec<[*mut ffi::PyObject; 4]> =
                (0..n_names).map(|index| ffi::PyTuple_GetItem(names, index)).collect();
            let object = Borrowed::from_ptr(py, slf);
            object.cast_unchecked::<EagerOp>().get().call(py, args, &keywords)
        };
        match done {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                null_mut()
            }
        }
    })
}

/// The ops of the table as functions, by their names and aliases.
#[pyfunction]
pub(crate) fn tensor_ops(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let functions = PyDict::new(py);
    for info in TensorOp::all() {
        let function = function_of(py, info)?;
        functions.set_item(info.name, &function)?;
        for alias in info.aliases {
            functions.set_item(alias, &function)?;
        }
    }
    Ok(functions)
}

fn function_of<'py>(py: Python<'py>, info: &'static TensorOpInfo) -> PyResult<Bound<'py, PyAny>> {
    // Functions of the module live as long as the process, and their definitions with them.
    let text = |text: String| CString::new(text).unwrap_or_default().into_raw().cast_const();
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: text(info.name.to_owned()),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: call_op },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: text(documentation_with_signature(info)),
    }));
    let op = Bound::new(py, EagerOp::new(info))?;
    let module = PyString::new(py, "polyloom.ops");
    // SAFETY: the definition is never freed; Python takes references to the two objects.
    unsafe {
        let function = ffi::PyCFunction_NewEx(definition, op.as_ptr(), module.as_ptr());
        Bound::from_owned_ptr_or_err(py, function)
    }
}
