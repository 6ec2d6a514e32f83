//! What launches read of NumPy arrays, through the C API: types, extents, addresses.

use numpy::npyffi;
use polyloom::{Composite, Scalar};
use pyo3::prelude::*;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicI32, Ordering};

/// The NumPy arrays that an array parameter takes.
#[derive(Clone, Copy)]
pub(crate) struct ArrayType {
    pub(crate) elem: Scalar,
    /// Number of dimensions, those of `element` included.
    pub(crate) rank: u8,
    /// Whose components the last axes are.
    pub(crate) element: Option<Composite>,
}

impl ArrayType {
    pub(crate) fn of_composites(element: Composite, ndim: u8) -> ArrayType {
        ArrayType { elem: element.elem(), rank: ndim + element.shape().len() as u8, element: Some(element) }
    }

    /// The element type as Python code names it.
    pub(crate) fn element_text(self) -> String {
        let name = self.element_name();
        if name.contains('(') { name } else { format!("loom.{name}") }
    }

    pub(crate) fn element_name(self) -> String {
        self.element.map_or_else(|| self.elem.python_name().to_owned(), Composite::python_name)
    }
}

/// Checks the type of an array's elements and its rank.
///
/// # Errors
///
/// The end of a sentence that starts with the argument's name.
///
/// # Safety
///
/// `object` is a live NumPy array.
#[inline]
pub(crate) unsafe fn check_array(object: *mut npyffi::PyArrayObject, ty: ArrayType) -> Result<(), String> {
    // SAFETY: a live array's descriptor is valid.
    let (array, descr) = unsafe { (&(*object).fields, &*(*object).fields.descr) };
    if !has_type(descr, ty.elem) {
        // SAFETY: as before, and the caller holds the GIL.
        let given = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), array.descr.cast()) };
        let given = given.to_string();
        // The type the kernel would be written for to take the array as it is.
        let own = Scalar::from_python_name(&given).filter(|own| *own != ty.elem);
        let message = match ty.element {
            None => format!("must have elements of type {}, not {given}", ty.element_name()),
            Some(element) => {
                let (name, elem) = (element.python_name(), ty.elem.python_name());
                format!("must have components of type {elem}, those of a {name}, not {given}")
            }
        };
        let other = match (ty.element, own) {
            (None, Some(own)) => format!(", or dtype=loom.{} in the kernel", own.python_name()),
            _ => String::new(),
        };
        return Err(format!("{message}: convert it before the launch with .astype({}){other}", numpy_text(ty.elem)));
    }
    if array.nd != c_int::from(ty.rank) {
        if let Some(element) = ty.element {
            // SAFETY: a live array has `nd` extents.
            return Err(wrong_shape(element, ty.rank, unsafe { extents(array) }));
        }
        let plural = if ty.rank == 1 { "" } else { "s" };
        return Err(format!("must have {} dimension{plural}, not {}", ty.rank, array.nd));
    }
    if let Some(element) = ty.element {
        // SAFETY: as before.
        let given = unsafe { extents(array) };
        let inner = element.shape();
        let last = given.get(given.len().saturating_sub(inner.len())..).unwrap_or_default();
        if !last.iter().copied().eq(inner.iter().map(|&n| n as npyffi::npy_intp)) {
            return Err(wrong_shape(element, ty.rank, given));
        }
    }
    Ok(())
}

/// An array's extents.
///
/// # Safety
///
/// The array is alive, and is given no other shape meanwhile.
pub(crate) unsafe fn extents(array: &npyffi::objects::PyArrayObject_fields) -> &[npyffi::npy_intp] {
    match usize::try_from(array.nd) {
        // SAFETY: the caller's promise; there are `nd` extents.
        Ok(nd @ 1..) => unsafe { std::slice::from_raw_parts(array.dimensions, nd) },
        _ => &[],
    }
}

/// `must have the shape (n, 3) for elements of type vec3, not (8, 2)`.
fn wrong_shape(element: Composite, rank: u8, given: &[npyffi::npy_intp]) -> String {
    let inner = element.shape();
    let outer = usize::from(rank).saturating_sub(inner.len());
    let free = ["n", "m", "k", "l"].iter().take(outer).map(|extent| (*extent).to_owned());
    let wanted: Vec<String> = free.chain(inner.iter().map(u16::to_string)).collect();
    let given: Vec<String> = given.iter().map(npyffi::npy_intp::to_string).collect();
    let comma = if given.len() == 1 { "," } else { "" };
    let (wanted, given, name) = (wanted.join(", "), given.join(", "), element.python_name());
    format!("must have the shape ({wanted}) for elements of type {name}, not ({given}{comma})")
}

/// A scalar type as NumPy code names it.
pub(crate) fn numpy_text(scalar: Scalar) -> String {
    match scalar {
        Scalar::Bool => "np.bool_".to_owned(),
        Scalar::BF16 => "ml_dtypes.bfloat16".to_owned(),
        _ => format!("np.{}", scalar.python_name()),
    }
}

// NumPy's extents and strides are read in place.
const _: () = assert!(size_of::<npyffi::npy_intp>() == size_of::<i64>());

/// Returns where an array's memory begins, its extents and its strides in bytes.
///
/// # Safety
///
/// `object` is a NumPy array of rank `ndim` that is alive and is given no other shape during `'a`.
#[inline]
pub(crate) unsafe fn memory<'a>(object: *mut npyffi::PyArrayObject, ndim: u8) -> (*mut u8, &'a [u64], &'a [i64]) {
    // SAFETY: dimensions and strides have `ndim` entries, and no dimension is negative.
    unsafe {
        let array = &(*object).fields;
        let shape = std::slice::from_raw_parts(array.dimensions.cast::<u64>(), ndim.into());
        let strides = std::slice::from_raw_parts(array.strides.cast::<i64>(), ndim.into());
        (array.data.cast(), shape, strides)
    }
}

/// NumPy's number for `ml_dtypes.bfloat16`, once it has been seen.
static BFLOAT16: AtomicI32 = AtomicI32::new(-1);

/// Returns true if an array's elements are of type `elem`, in this machine's byte order.
#[inline]
pub(crate) fn has_type(descr: &npyffi::PyArray_Descr, elem: Scalar) -> bool {
    use npyffi::NPY_TYPES as T;
    let number = descr.fields.type_num;
    let is = |ty: T| number == ty as c_int;
    let long_is = |bytes: usize| size_of::<c_long>() == bytes;
    let fits = match elem {
        Scalar::Bool => is(T::NPY_BOOL),
        Scalar::I8 => is(T::NPY_BYTE),
        Scalar::I16 => is(T::NPY_SHORT),
        Scalar::I32 => is(T::NPY_INT) || is(T::NPY_LONG) && long_is(4),
        Scalar::I64 => is(T::NPY_LONG) && long_is(8) || is(T::NPY_LONGLONG),
        Scalar::U8 => is(T::NPY_UBYTE),
        Scalar::U16 => is(T::NPY_USHORT),
        Scalar::U32 => is(T::NPY_UINT) || is(T::NPY_ULONG) && long_is(4),
        Scalar::U64 => is(T::NPY_ULONG) && long_is(8) || is(T::NPY_ULONGLONG),
        Scalar::F16 => is(T::NPY_HALF),
        Scalar::BF16 => is(T::NPY_USHORT) || is_bfloat16(descr),
        Scalar::F32 => is(T::NPY_FLOAT),
        Scalar::F64 => is(T::NPY_DOUBLE),
    };
    let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    fits && descr.fields.byteorder as u8 != foreign
}

/// `ml_dtypes` registers its types while the program runs, so their numbers are found by name.
fn is_bfloat16(descr: &npyffi::PyArray_Descr) -> bool {
    if descr.fields.type_num < npyffi::NPY_TYPES::NPY_USERDEF as c_int {
        return false;
    }
    let known = BFLOAT16.load(Ordering::Relaxed);
    if known != -1 {
        return known == descr.fields.type_num;
    }
    // SAFETY: callers hold the GIL, and the descriptor is a live object.
    let name = unsafe {
        let object = std::ptr::from_ref(descr).cast_mut();
        Bound::from_borrowed_ptr(Python::assume_attached(), object.cast()).to_string()
    };
    let found = name == "bfloat16";
    if found {
        BFLOAT16.store(descr.fields.type_num, Ordering::Relaxed);
    }
    found
}
