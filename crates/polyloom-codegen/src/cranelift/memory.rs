//! Executable memory.
//!
//! Each function has pages of its own: written while writable, then made executable and never writable again.

use crate::backend::CodegenError;

/// Code that can be called. Dropping it unmaps the code.
#[derive(Debug)]
pub(super) struct ExecutableMemory {
    start: std::ptr::NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping is owned, and after construction nobody writes to it.
unsafe impl Send for ExecutableMemory {}
// SAFETY: as above; reading and executing from several threads needs no coordination.
unsafe impl Sync for ExecutableMemory {}

impl ExecutableMemory {
    /// Returns where the code starts.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as usize as u64
    }

    /// Returns where the code starts, to be called.
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }
}

#[cfg(unix)]
impl ExecutableMemory {
    /// Copies code into fresh pages, after writing each address of `patches` at its offset.
    pub(super) fn new(code: &[u8], patches: &[(usize, u64)]) -> Result<ExecutableMemory, CodegenError> {
        let failed = |what: &str| {
            let error = std::io::Error::last_os_error();
            CodegenError::new(format!("cannot {what} {} bytes of memory for code: {error}", code.len()))
        };
        if code.is_empty() {
            return Err(CodegenError::new("a compiled function has no code"));
        }
        // SAFETY: a fresh anonymous mapping at an address of the system's choosing touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                code.len(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(failed("map"));
        }
        let Some(start) = std::ptr::NonNull::new(start.cast::<u8>()) else { return Err(failed("map")) };
        let memory = ExecutableMemory { start, size: code.len() };
        // SAFETY: the mapping is `code.len()` bytes, writable, and not shared yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), code.len()) };
        bytes.copy_from_slice(code);
        for &(offset, address) in patches {
            let place = offset.checked_add(8).and_then(|end| bytes.get_mut(offset..end));
            let Some(place) = place else { return Err(CodegenError::new("an address lies outside its function")) };
            place.copy_from_slice(&address.to_le_bytes());
        }
        // SAFETY: the range is the mapping made above.
        if unsafe { libc::mprotect(start.as_ptr().cast(), code.len(), libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(failed("protect"));
        }
        memory.synchronize();
        Ok(memory)
    }

    /// Makes instruction fetch see what was written, on machines where it does not by itself.
    fn synchronize(&self) {
        #[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
        {
            unsafe extern "C" {
                fn __clear_cache(begin: *mut std::ffi::c_void, end: *mut std::ffi::c_void);
            }
            // SAFETY: the range is the mapping, which outlives the call.
            unsafe {
                let begin = self.start.as_ptr();
                __clear_cache(begin.cast(), begin.add(self.size).cast());
            }
        }
    }
}

#[cfg(not(unix))]
impl ExecutableMemory {
    /// Not on this system.
    pub(super) fn new(_code: &[u8], _patches: &[(usize, u64)]) -> Result<ExecutableMemory, CodegenError> {
        Err(CodegenError::new("compiled kernels cannot be loaded on this system: executable memory needs Unix"))
    }
}

impl Drop for ExecutableMemory {
    fn drop(&mut self) {
        #[cfg(unix)]
        // SAFETY: the range is the mapping this value owns, and whoever could call into it keeps this value alive.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.size);
        }
    }
}

#[cfg(all(test, unix, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn code_with_a_patched_constant_can_be_called() {
        // movabs rax, imm64; ret
        let code = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xc3];
        let memory = ExecutableMemory::new(&code, &[(2, 0x1122_3344_5566_7788)]).expect("executable memory");
        // SAFETY: the bytes above are a function of this type.
        let function: extern "C" fn() -> u64 = unsafe { std::mem::transmute(memory.as_ptr()) };
        assert_eq!(function(), 0x1122_3344_5566_7788);
    }

    #[test]
    fn a_patch_outside_the_code_is_refused() {
        assert!(ExecutableMemory::new(&[0xc3; 8], &[(1, 0)]).is_err());
        assert!(ExecutableMemory::new(&[0xc3; 8], &[(usize::MAX, 0)]).is_err());
        assert!(ExecutableMemory::new(&[], &[]).is_err());
    }
}
