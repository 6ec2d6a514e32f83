//! The keys of plans: what a plan depends on of the values that a group is given.

use crate::tensor_view::{TensorFields, TensorPackage, TensorView};
use polyloom::DeviceId;
use polyloom::fusion::RunNumber;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use smallvec::SmallVec;
use std::ffi::c_int;

/// Says what a plan depends on of one value.
pub(crate) enum ExternalKey {
    /// Device, element type, extents and strides of a tensor.
    Tensor { package: TensorPackage, device: DeviceId, type_number: i32, layout: SmallVec<[i64; 8]> },
    /// A number that each run is given.
    Number { is_float: bool },
    /// The bits of a `float` that is part of the plan.
    Float(u64),
    /// An `int` that is part of the plan.
    Int(i64),
    /// Another object: one that does not change, or a snapshot of a list.
    Object(Py<PyAny>),
}

/// Says what a run is given: the addresses of tensors and the numbers, in the order of the values.
#[derive(Default)]
pub(crate) struct RunValues {
    pub(crate) addresses: SmallVec<[usize; 8]>,
    pub(crate) numbers: SmallVec<[RunNumber; 4]>,
}

impl ExternalKey {
    pub(crate) fn of_tensor(fields: &TensorFields<'_>) -> ExternalKey {
        let layout = fields.extents.iter().chain(fields.strides).copied().collect();
        ExternalKey::Tensor { package: fields.package, device: fields.device, type_number: fields.type_number, layout }
    }

    /// Makes the key of a value that is not a tensor and that the plan depends on.
    pub(crate) fn of_object(object: &Bound<'_, PyAny>) -> PyResult<ExternalKey> {
        Ok(ExternalKey::Object(snapshot(object, 1)?.unbind()))
    }

    /// Returns true if a value is as the plan wants it; notes its address or number.
    ///
    /// # Safety
    ///
    /// `arg` is a live object, and `view` has just been taken of it.
    #[inline]
    pub(crate) unsafe fn matches(&self, arg: *mut ffi::PyObject, view: &TensorView<'_>, run: &mut RunValues) -> bool {
        match (self, view) {
            (ExternalKey::Tensor { package, device, type_number, layout }, TensorView::Tensor(fields)) => {
                run.addresses.push(fields.address);
                let n = fields.extents.len();
                *package == fields.package
                    && *device == fields.device
                    && *type_number == fields.type_number
                    && fields.is_plain
                    && layout.len() == 2 * n
                    && is_same(&layout[..n], fields.extents)
                    && is_same(&layout[n..], fields.strides)
            }
            (ExternalKey::Number { is_float: true }, TensorView::Float(value)) => {
                run.numbers.push(RunNumber::Float(*value));
                true
            }
            (ExternalKey::Number { is_float: false }, TensorView::Int(value)) => {
                run.numbers.push(RunNumber::Int(*value));
                true
            }
            (ExternalKey::Float(bits), TensorView::Float(value)) => *bits == value.to_bits(),
            (ExternalKey::Int(known), TensorView::Int(value)) => known == value,
            // SAFETY: passed on to the caller.
            (ExternalKey::Object(known), TensorView::Other) => unsafe { is_same_value(known.as_ptr(), arg) },
            _ => false,
        }
    }
}

/// Compares short slices without a call.
#[inline]
fn is_same(a: &[i64], b: &[i64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// The deepest lists that ops take, which have lists of pairs.
const MAX_DEPTH: u32 = 8;

/// Copies lists, as tuples, so that a list that has changed is seen to have.
///
/// # Errors
///
/// `TypeError` of lists within lists beyond [`MAX_DEPTH`], such as one that is an item of itself.
fn snapshot<'py>(object: &Bound<'py, PyAny>, depth: u32) -> PyResult<Bound<'py, PyAny>> {
    let copy = |item: Bound<'py, PyAny>| match depth {
        MAX_DEPTH => {
            Err(PyTypeError::new_err(format!("lists of more than {MAX_DEPTH} levels are no argument of an op")))
        }
        _ => snapshot(&item, depth + 1),
    };
    let items = match (object.cast::<PyTuple>(), object.cast::<PyList>()) {
        (Ok(tuple), _) => tuple.iter().map(copy).collect::<PyResult<Vec<_>>>()?,
        (_, Ok(list)) => list.iter().map(copy).collect::<PyResult<Vec<_>>>()?,
        _ => return Ok(object.clone()),
    };
    Ok(PyTuple::new(object.py(), items)?.into_any())
}

/// Returns true if two objects are one, or equal numbers, words, or sequences of such. It runs no code of other types.
///
/// # Safety
///
/// Both are live objects, and the GIL is held. `known` is a snapshot.
unsafe fn is_same_value(known: *mut ffi::PyObject, given: *mut ffi::PyObject) -> bool {
    // SAFETY: passed on to the caller; items of exact tuples and lists are borrowed while no Python code runs.
    unsafe {
        if ffi::PyTuple_CheckExact(known) != 0 {
            let n = ffi::PyTuple_Size(known);
            let is_tuple = ffi::PyTuple_CheckExact(given) != 0;
            if !is_tuple && ffi::PyList_CheckExact(given) == 0 {
                return false;
            }
            let n_given = if is_tuple { ffi::PyTuple_Size(given) } else { ffi::PyList_Size(given) };
            let item = |index| match is_tuple {
                true => ffi::PyTuple_GetItem(given, index),
                false => ffi::PyList_GetItem(given, index),
            };
            return n == n_given && (0..n).all(|index| is_same_value(ffi::PyTuple_GetItem(known, index), item(index)));
        }
        if known == given {
            return true;
        }
        if ffi::Py_TYPE(known) != ffi::Py_TYPE(given) {
            return false;
        }
        if ffi::PyLong_CheckExact(known) != 0 {
            let mut overflows: [c_int; 2] = [0; 2];
            let a = ffi::PyLong_AsLongLongAndOverflow(known, &raw mut overflows[0]);
            let b = ffi::PyLong_AsLongLongAndOverflow(given, &raw mut overflows[1]);
            return overflows == [0; 2] && a == b;
        }
        if ffi::PyFloat_CheckExact(known) != 0 {
            return ffi::PyFloat_AsDouble(known).to_bits() == ffi::PyFloat_AsDouble(given).to_bits();
        }
        if ffi::PyUnicode_CheckExact(known) != 0 {
            return ffi::PyUnicode_Compare(known, given) == 0;
        }
        false
    }
}

/// Something that a plan relies on about the program: a name of a module, or a cell, still refers to this very object.
pub(crate) struct ObjectGuard {
    holder: Py<PyAny>,
    /// The name, if the holder is a dictionary.
    name: Option<Py<PyAny>>,
    expected: Py<PyAny>,
}

impl ObjectGuard {
    /// Makes the guard of a dictionary's item, a cell's content, or an object's own attribute.
    pub(crate) fn new(
        holder: Bound<'_, PyAny>,
        name: Option<Bound<'_, PyAny>>,
        expected: Bound<'_, PyAny>,
    ) -> PyResult<ObjectGuard> {
        let is_dict = holder.cast::<PyDict>().is_ok();
        let holder = if name.is_some() && !is_dict { holder.getattr("__dict__")? } else { holder };
        Ok(ObjectGuard { holder: holder.unbind(), name: name.map(Bound::unbind), expected: expected.unbind() })
    }

    /// Returns true if it holds.
    #[inline]
    pub(crate) fn holds(&self, py: Python<'_>) -> bool {
        match &self.name {
            Some(name) => match self.holder.bind(py).cast::<PyDict>() {
                // SAFETY: both are live objects; the item is borrowed and compared at once.
                Ok(dict) => unsafe {
                    let found = ffi::PyDict_GetItemWithError(dict.as_ptr(), name.as_ptr());
                    if found.is_null() && !ffi::PyErr_Occurred().is_null() {
                        ffi::PyErr_Clear();
                    }
                    found == self.expected.as_ptr()
                },
                // The dictionary of a class can be read, not reached.
                Err(_) => self.holder.bind(py).get_item(name).is_ok_and(|found| found.is(&self.expected)),
            },
            None => {
                let content = self.holder.bind(py).getattr(pyo3::intern!(py, "cell_contents"));
                content.is_ok_and(|found| found.is(&self.expected))
            }
        }
    }

    pub(crate) fn objects(&self) -> [&Py<PyAny>; 2] {
        [&self.holder, &self.expected]
    }
}
