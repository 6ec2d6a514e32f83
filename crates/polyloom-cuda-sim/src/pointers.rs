//! Reads and writes what C callers hand over by pointer: where to write results, structs, lists and texts to read.
//!
//! Entry points take these types in place of raw pointers, so that the promise of the caller's, that a pointer that is
//! not null is to what the driver API says, is relied on here alone.

#![expect(unsafe_code, reason = "a C interface reads and writes through its callers' pointers")]

use crate::status::{CudaError, Outcome};
use polyloom_ptx::HostMemory;
use std::ffi::{CStr, c_char, c_void};

/// Points to the place of a result. The caller vouches that it is null or writable.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// For results that nobody wants.
    pub(crate) const NOWHERE: Out<T> = Out(std::ptr::null_mut());

    /// A place that a list of pointers names.
    pub(crate) fn of_address(address: usize) -> Out<T> {
        Out(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Writes the result; without a place for it that is an invalid value.
    pub(crate) fn set(self, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the C caller vouches for pointers that are not null; they need not be aligned.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result if somebody wants it.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T: Copy> Out<T> {
    /// Reads what is there before the call: sizes of lists, for example.
    pub(crate) fn get(self) -> Outcome<T> {
        In(self.0.cast_const()).get()
    }

    /// Writes the first of so many results.
    pub(crate) fn set_all(self, values: &[T]) -> Outcome {
        if self.0.is_null() && !values.is_empty() {
            return Err(CudaError::INVALID_VALUE);
        }
        for (index, value) in values.iter().enumerate() {
            // SAFETY: the C caller vouches that there is room for as many.
            unsafe { self.0.add(index).write_unaligned(*value) };
        }
        Ok(())
    }
}

impl Out<c_void> {
    /// Writes a value of whatever type the call is about.
    pub(crate) fn set_as<T>(self, value: T) -> Outcome {
        Out(self.0.cast::<T>()).set(value)
    }

    pub(crate) fn get_as<T: Copy>(self) -> Outcome<T> {
        In(self.0.cast::<T>().cast_const()).get()
    }
}

impl Out<c_char> {
    /// Writes a text that ends in a zero byte, as much of it as there is room for.
    pub(crate) fn set_text(self, text: &str, room: usize) -> Outcome {
        let kept = &text.as_bytes()[..text.len().min(room.saturating_sub(1))];
        let bytes: Vec<c_char> = kept.iter().map(|byte| *byte as c_char).chain([0]).collect();
        if room == 0 { Err(CudaError::INVALID_VALUE) } else { self.set_all(&bytes) }
    }
}

/// A struct, or the first element of a list. The caller vouches that it is null or readable.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    pub(crate) fn get(self) -> Outcome<T> {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the C caller vouches for pointers that are not null; they need not be aligned.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The first elements of a list; none of a list that is null and has none.
    pub(crate) fn list(self, length: usize) -> Outcome<Vec<T>> {
        if self.0.is_null() && length > 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the C caller vouches that there are as many.
        Ok((0..length).map(|index| unsafe { self.0.add(index).read_unaligned() }).collect())
    }
}

impl<T> In<T> {
    /// For lists that there are not.
    pub(crate) const NOWHERE: In<T> = In(std::ptr::null());

    pub(crate) fn at(address: usize) -> In<T> {
        In(std::ptr::with_exposed_provenance(address))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// A text that ends in a zero byte.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(self) -> Outcome<String> {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the C caller vouches for a text that ends in a zero byte.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| CudaError::INVALID_VALUE)
    }
}

/// Reads a text of unknown length at an address.
pub(crate) fn text_at(address: usize) -> Outcome<String> {
    Text(std::ptr::with_exposed_provenance(address)).get()
}

/// Reads bytes of the host's.
pub(crate) fn read_host(address: usize, length: usize) -> Vec<u8> {
    host_bytes(address, length).to_vec()
}

/// Bytes of the host's, which the caller of the C interface vouches for.
pub(crate) fn host_bytes<'a>(address: usize, length: usize) -> &'a [u8] {
    match length {
        0 => &[],
        // SAFETY: the C caller vouches for so many readable bytes, for the time of the call or until its stream is done.
        _ => unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), length) },
    }
}

/// Bytes of the host's to be written.
pub(crate) fn host_bytes_mut<'a>(address: usize, length: usize) -> &'a mut [u8] {
    match length {
        0 => &mut [],
        // SAFETY: as above, writable.
        _ => unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(address), length) },
    }
}

/// A function of the caller's that takes the pointer it gave.
#[derive(Clone, Copy)]
pub(crate) struct HostCall {
    pub(crate) function: extern "C" fn(*mut c_void),
    pub(crate) data: usize,
}

impl HostCall {
    pub(crate) fn run(self) {
        (self.function)(std::ptr::with_exposed_provenance_mut(self.data));
    }
}

/// Lends bytes of the host's to the simulated device.
pub(crate) fn lend(address: usize, length: usize) -> Option<HostMemory> {
    // SAFETY: the bytes are a buffer of the driver's, freed after the mapping is gone, or the C caller vouches for them
    // until they are unregistered; those around them up to multiples of 16 are on the same pages.
    unsafe { HostMemory::new(std::ptr::with_exposed_provenance_mut(address), length) }
}
