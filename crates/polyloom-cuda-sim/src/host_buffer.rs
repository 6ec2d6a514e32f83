//! Memory of the host that kernels see at its own address: pinned and managed.

#![expect(unsafe_code, reason = "the allocator of the host")]

use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Zeroed pages of the host's.
pub(crate) struct HostBuffer {
    address: usize,
    layout: Layout,
}

impl HostBuffer {
    pub(crate) fn new(n_bytes: usize) -> Option<HostBuffer> {
        let layout = Layout::from_size_align(n_bytes.max(1).checked_next_multiple_of(16)?, 4096).ok()?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        (!start.is_null()).then(|| HostBuffer { address: start.expose_provenance(), layout })
    }

    pub(crate) fn address(&self) -> usize {
        self.address
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, and it is freed once.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(self.address), self.layout) };
    }
}
