//! PyTorch's tensors: read by its function of DLPack's C interface, or through capsules where it has none.

use crate::dlpack::DlTensor;
use crate::tensor_view::{TensorFields, TensorPackage, TensorView};
use polyloom::{DeviceId, Scalar};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyTuple};
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The classes of tensors: `torch.Tensor` and `torch.nn.Parameter`, once one has been seen.
static CLASSES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Says what is used of PyTorch.
struct TorchFunctions {
    to_dlpack: Py<PyAny>,
    from_numpy: Py<PyAny>,
    bfloat16: Py<PyAny>,
    is_grad_enabled: Py<PyAny>,
    /// None in PyTorch before 2.10.
    read_tensor: Option<ReadTensor>,
}

/// `DLPackDLTensorFromPyObjectNoSync`: fills in what a tensor is, which stays the tensor's.
type ReadTensor = unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int;

/// `DLPackExchangeAPI` of DLPack 1.3, up to the function that is used (`dlpack.h`).
#[repr(C)]
struct ExchangeInterface {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    read_tensor: Option<ReadTensor>,
}

static FUNCTIONS: PyOnceLock<TorchFunctions> = PyOnceLock::new();

/// `kDLCPU`.
const CPU: i32 = 1;

fn functions(py: Python<'_>) -> PyResult<&TorchFunctions> {
    FUNCTIONS.get_or_try_init(py, || {
        let torch = py.import("torch")?;
        Ok(TorchFunctions {
            to_dlpack: py.import("torch.utils.dlpack")?.getattr("to_dlpack")?.unbind(),
            from_numpy: torch.getattr("from_numpy")?.unbind(),
            bfloat16: torch.getattr("bfloat16")?.unbind(),
            is_grad_enabled: torch.getattr("is_grad_enabled")?.unbind(),
            read_tensor: find_read_tensor(&torch.getattr("Tensor")?),
        })
    })
}

/// Finds the function that reads tensors, which lives as long as the process.
fn find_read_tensor(class: &Bound<'_, PyAny>) -> Option<ReadTensor> {
    let capsule = class.getattr("__dlpack_c_exchange_api__").ok()?;
    let capsule = capsule.cast::<PyCapsule>().ok()?;
    let interface = capsule.pointer_checked(Some(c"dlpack_exchange_api")).ok()?.cast::<ExchangeInterface>();
    // SAFETY: a capsule of this name holds such an interface, whose fields are those of version 1.
    let interface = unsafe { interface.as_ref() };
    if interface.major == 1 { interface.read_tensor } else { None }
}

/// Returns true if an object is a tensor of a class that has been seen.
#[inline]
pub(crate) fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    let class = object.get_type_ptr() as usize;
    CLASSES.iter().any(|known| known.load(Ordering::Relaxed) == class)
}

/// Looks whether an object is a tensor, whose class is then known.
pub(crate) fn learn(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    // A program that has a tensor has imported PyTorch.
    let Ok(torch) = py.import("sys")?.getattr("modules")?.get_item("torch") else { return Ok(false) };
    if !object.is_instance(&torch.getattr("Tensor")?)? {
        return Ok(false);
    }
    let classes = [torch.getattr("Tensor")?, torch.getattr("nn")?.getattr("Parameter")?];
    for (known, class) in CLASSES.iter().zip(&classes) {
        known.store(class.as_ptr() as usize, Ordering::Relaxed);
    }
    functions(py)?;
    Ok(true)
}

/// Reads a tensor; its capsule is put into `held`. One on a device, of another layout, or that PyTorch records, is no
/// tensor here.
///
/// # Safety
///
/// As [`crate::tensor_view::view_of`].
pub(crate) unsafe fn view_of<'a>(tensor: &Bound<'_, PyAny>, held: &mut SmallVec<[Py<PyAny>; 4]>) -> TensorView<'a> {
    let py = tensor.py();
    let Some(functions) = FUNCTIONS.get(py) else { return TensorView::Other };
    let requires_grad = tensor.getattr(pyo3::intern!(py, "requires_grad")).and_then(|flag| flag.is_truthy());
    // The memory of such a tensor holds the negatives of its numbers.
    let is_negated = tensor.call_method0(pyo3::intern!(py, "is_neg")).and_then(|flag| flag.is_truthy());
    if is_negated.unwrap_or(true) {
        return TensorView::Other;
    }
    let capsule = match (requires_grad, functions.read_tensor) {
        (Ok(false), Some(read)) => {
            let mut dl = MaybeUninit::<DlTensor>::zeroed();
            // SAFETY: it is a tensor of PyTorch, and the function fills in what it is.
            let status = unsafe { read(tensor.as_ptr().cast(), dl.as_mut_ptr()) };
            if status != 0 {
                // SAFETY: the GIL is held.
                unsafe { ffi::PyErr_Clear() };
                return TensorView::Other;
            }
            // SAFETY: zeros are a value, and extents and strides are the tensor's.
            return unsafe { fields_of(dl.assume_init_ref()) };
        }
        (Ok(false), None) => functions.to_dlpack.bind(py).call1((tensor,)),
        // PyTorch records nothing within `torch.no_grad()`, and gives no capsule of a parameter all the same.
        (Ok(true), _) if !is_recording(py, functions) => tensor
            .call_method0(pyo3::intern!(py, "detach"))
            .and_then(|detached| functions.to_dlpack.bind(py).call1((detached,))),
        _ => return TensorView::Other,
    };
    let Ok(capsule) = capsule else { return TensorView::Other };
    // SAFETY: PyTorch gives a capsule of this name, which holds a managed tensor that begins with the tensor.
    let view = unsafe {
        let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dltensor".as_ptr());
        if pointer.is_null() {
            ffi::PyErr_Clear();
            return TensorView::Other;
        }
        fields_of(&*pointer.cast::<DlTensor>())
    };
    held.push(capsule.unbind());
    view
}

/// Reads what DLPack says of a tensor.
///
/// # Safety
///
/// Extents and strides are as many as it says, and live during `'a`.
#[inline]
unsafe fn fields_of<'a>(dl: &DlTensor) -> TensorView<'a> {
    if dl.device_type != CPU || dl.lanes != 1 {
        return TensorView::Other;
    }
    let n = usize::try_from(dl.ndim).unwrap_or(0);
    // SAFETY: passed on to the caller.
    let slice = |first: *mut i64| if n == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(first, n) } };
    TensorView::Tensor(TensorFields {
        package: TensorPackage::Torch,
        device: DeviceId::Cpu,
        type_number: i32::from(dl.code) << 8 | i32::from(dl.bits),
        is_plain: true,
        address: dl.data as usize + dl.byte_offset as usize,
        extents: slice(dl.shape),
        strides: slice(dl.strides),
    })
}

/// Returns a tensor whose memory holds its numbers: a copy if it holds their negatives.
pub(crate) fn with_signs<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match tensor.call_method0("is_neg")?.is_truthy()? {
        true => tensor.call_method0("resolve_neg"),
        false => Ok(tensor.clone()),
    }
}

/// Returns true if PyTorch records what is done with tensors that ask for a gradient.
fn is_recording(py: Python<'_>, functions: &TorchFunctions) -> bool {
    functions.is_grad_enabled.bind(py).call0().and_then(|flag| flag.is_truthy()).unwrap_or(true)
}

/// Returns the element type by DLPack's number.
pub(crate) fn scalar_of(type_number: i32) -> Option<Scalar> {
    let (code, bits) = (type_number >> 8, type_number & 0xff);
    Some(match (code, bits) {
        (0, 8) => Scalar::I8,
        (0, 16) => Scalar::I16,
        (0, 32) => Scalar::I32,
        (0, 64) => Scalar::I64,
        (1, 8) => Scalar::U8,
        (1, 16) => Scalar::U16,
        (1, 32) => Scalar::U32,
        (1, 64) => Scalar::U64,
        (2, 16) => Scalar::F16,
        (2, 32) => Scalar::F32,
        (2, 64) => Scalar::F64,
        (4, 16) => Scalar::BF16,
        (6, 8) => Scalar::Bool,
        _ => return None,
    })
}

/// Says why a tensor is no argument.
pub(crate) fn refusal(tensor: &Bound<'_, PyAny>) -> PyErr {
    let reads = |name: &str| tensor.getattr(name).and_then(|flag| flag.is_truthy()).unwrap_or(false);
    if reads("requires_grad") {
        return PyTypeError::new_err(
            "is a tensor that PyTorch records, and ops have no gradients there: pass x.detach(), or call within torch.no_grad()",
        );
    }
    if !reads("is_cpu") {
        return PyValueError::new_err("is a tensor on a device, and ops run on the CPU: pass x.cpu()");
    }
    PyTypeError::new_err("is a tensor that cannot be read through DLPack as CPU memory: pass a dense copy")
}

/// Makes a tensor of a NumPy array, which keeps its memory.
pub(crate) fn of_numpy(array: Bound<'_, PyAny>, dtype: Scalar) -> PyResult<Bound<'_, PyAny>> {
    let py = array.py();
    let functions = functions(py)?;
    if dtype == Scalar::BF16 {
        let bits = array.call_method1("view", ("int16",))?;
        return functions.from_numpy.bind(py).call1((bits,))?.call_method1("view", (&functions.bfloat16,));
    }
    functions.from_numpy.bind(py).call1((array,))
}

/// Makes a view of a tensor. Strides and offset are in elements, from the tensor's first.
pub(crate) fn strided_view<'py>(
    tensor: &Bound<'py, PyAny>,
    extents: &[i64],
    strides: &[i64],
    offset: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let first: i64 = tensor.call_method0("storage_offset")?.extract()?;
    let (extents, strides) = (PyTuple::new(py, extents)?, PyTuple::new(py, strides)?);
    tensor.call_method1("as_strided", (extents, strides, first + offset))
}
