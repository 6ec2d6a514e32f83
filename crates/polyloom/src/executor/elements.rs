//! Elements in the memory of the host: copied from one layout to another, filled and read.

use polyloom_graph::Layout;
use polyloom_graph::reference::DenseTensor;
use polyloom_ir::Scalar;

/// Copies elements to memory in row-major order without gaps.
///
/// # Safety
///
/// The elements are valid to read and the memory, which is other memory, to write.
pub(super) unsafe fn copy_dense(dtype: Scalar, layout: &Layout, from: usize, to: usize) {
    let n_bytes = dtype.bytes() as usize;
    // SAFETY: passed on to the caller.
    unsafe {
        if layout.is_dense() {
            let from = (from as isize + layout.offset as isize * n_bytes as isize) as *const u8;
            std::ptr::copy_nonoverlapping(from, to as *mut u8, layout.n_elements() as usize * n_bytes);
            return;
        }
        for (index, place) in layout.places().enumerate() {
            let from = (from as isize + place as isize * n_bytes as isize) as *const u8;
            std::ptr::copy_nonoverlapping(from, (to + index * n_bytes) as *mut u8, n_bytes);
        }
    }
}

/// Reads elements.
///
/// # Safety
///
/// The elements are valid to read.
pub(super) unsafe fn read_elements(dtype: Scalar, layout: &Layout, address: usize) -> DenseTensor {
    let n_bytes = dtype.bytes() as usize;
    let element = |place: usize| {
        let mut bytes = [0u8; 8];
        // SAFETY: passed on to the caller.
        unsafe {
            let from = (address as isize + place as isize * n_bytes as isize) as *const u8;
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), n_bytes);
        }
        u64::from_le_bytes(bytes)
    };
    DenseTensor { dtype, extents: layout.extents.clone(), bits: layout.places().map(element).collect() }
}

/// Writes elements in row-major order of their indices.
///
/// # Safety
///
/// The elements are valid to write, and there are as many as bits.
pub(crate) unsafe fn write_elements(dtype: Scalar, layout: &Layout, address: usize, bits: &[u64]) {
    let n_bytes = dtype.bytes() as usize;
    for (place, bits) in layout.places().zip(bits) {
        // SAFETY: passed on to the caller.
        unsafe {
            let to = (address as isize + place as isize * n_bytes as isize) as *mut u8;
            std::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), to, n_bytes);
        }
    }
}
