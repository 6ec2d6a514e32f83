//! Kernels in modules of the driver: how modules are loaded, what the driver says of a kernel, and its launch.

use super::device::CudaDevice;
use super::driver::has_symbols;
use super::memory::MemoryUse;
use super::stream_target::StreamTarget;
use crate::device::{DeviceFailure, DeviceId, KernelAttributes};
use cudarc::driver::sys::CUfunction_attribute as Attribute;
use cudarc::driver::sys::CUresult as E;
use cudarc::driver::{DriverError, result, sys};
use polyloom_ir::LaunchConfig;
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// Room for what the driver's compiler has to say, in bytes.
const LOG_BYTES: usize = 16 << 10;

/// A module of the driver's. Kernels and graphs keep it.
pub(super) struct LoadedModule {
    device: Arc<CudaDevice>,
    module: sys::CUmodule,
}

// SAFETY: a module is a handle, which any thread with the context may use, several at once.
unsafe impl Send for LoadedModule {}
// SAFETY: as above.
unsafe impl Sync for LoadedModule {}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // The driver is waited for, because launches may not have run yet. What fails here, a launch or a copy has said
        // or will say.
        let _ = self.device.within("unload the kernel", || {
            result::ctx::synchronize()?;
            // SAFETY: the module is unloaded once, and nothing of it runs.
            unsafe { result::module::unload(self.module) }
        });
    }
}

impl LoadedModule {
    /// Returns true if it is loaded into this very device.
    pub(super) fn is_of(&self, device: &Arc<CudaDevice>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Loads an image: PTX that ends in a zero byte, a cubin or a fat binary.
    ///
    /// # Errors
    ///
    /// Holds what the driver says of it.
    pub(super) fn load(device: &Arc<CudaDevice>, image: &[u8]) -> Result<Arc<LoadedModule>, DeviceFailure> {
        let id = DeviceId::Cuda(device.number());
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            sys::CUjit_option::CU_JIT_GENERATE_LINE_INFO,
        ];
        // Numbers are passed as pointers that are these numbers.
        let mut values: [*mut c_void; 3] =
            [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES), std::ptr::without_provenance_mut(1)];
        let made = device.within("compile the kernel", || {
            let mut module = std::ptr::null_mut();
            // SAFETY: the image is one of the driver's forms, which say where they end, there are as many options as values,
            // the log has the room that is said, and all outlive the call.
            unsafe {
                let n_options = options.len() as u32;
                let image = image.as_ptr().cast();
                sys::cuModuleLoadDataEx(&mut module, image, n_options, options.as_mut_ptr(), values.as_mut_ptr())
                    .result()?;
            }
            Ok(Arc::new(LoadedModule { device: device.clone(), module }))
        });
        made.map_err(|failure| {
            let log = String::from_utf8_lossy(&log);
            let log = log.trim_end_matches(['\0', '\n', ' ']);
            match driver_error(&failure) {
                Some(E::CUDA_ERROR_FILE_NOT_FOUND | E::CUDA_ERROR_NO_BINARY_FOR_GPU) => {
                    DeviceFailure::ModuleNotFound { device: id, reason: failure.to_string() }
                }
                Some(E::CUDA_ERROR_OUT_OF_MEMORY) => failure,
                _ if log.is_empty() => DeviceFailure::Code { device: id, reason: failure.to_string() },
                _ => DeviceFailure::Code { device: id, reason: format!("{failure}\n{log}") },
            }
        })
    }

    /// The kernel of a name.
    ///
    /// # Errors
    ///
    /// [`DeviceFailure::KernelNotFound`].
    pub(super) fn function(self: &Arc<Self>, name: &str) -> Result<LoadedFunction, DeviceFailure> {
        let id = DeviceId::Cuda(self.device.number());
        let absent = || DeviceFailure::KernelNotFound { device: id, kernel: name.to_owned() };
        let text = CString::new(name).map_err(|_| absent())?;
        let found = self.device.within("find the kernel", || {
            // SAFETY: the module is live.
            let function = unsafe { result::module::get_function(self.module, text) }?;
            // SAFETY: as above.
            unsafe { allow_shared(function, self.device.max_shared_bytes()) }?;
            Ok(function)
        });
        let function = found.map_err(|failure| match driver_error(&failure) {
            Some(E::CUDA_ERROR_NOT_FOUND) => absent(),
            _ => failure,
        })?;
        Ok(LoadedFunction { module: self.clone(), function })
    }
}

/// A kernel in a module of the driver's.
pub(super) struct LoadedFunction {
    module: Arc<LoadedModule>,
    function: sys::CUfunction,
}

// SAFETY: as of the module.
unsafe impl Send for LoadedFunction {}
// SAFETY: as above.
unsafe impl Sync for LoadedFunction {}

impl LoadedFunction {
    fn device(&self) -> &Arc<CudaDevice> {
        &self.module.device
    }

    /// Keeps its code until no stream is captured, if one is.
    pub(super) fn unload_later(&self) {
        self.device().unload_later(self.module.clone());
    }

    /// Holds what the driver says of it.
    pub(super) fn attributes(&self) -> Result<KernelAttributes, DeviceFailure> {
        self.device().within("describe the kernel", || {
            let attribute = |attribute| -> Result<u32, DriverError> {
                // SAFETY: the function is of a live module.
                let value = unsafe { result::function::get_function_attribute(self.function, attribute) }?;
                Ok(u32::try_from(value).unwrap_or(0))
            };
            Ok(KernelAttributes {
                registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
                local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
                shared_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
                constant_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
                threads_per_block: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
                dynamic_shared_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?,
            })
        })
    }

    /// The blocks of so many threads that a multiprocessor runs at once.
    pub(super) fn occupancy(&self, n_threads: u32, shared_bytes: u32) -> Result<u32, DeviceFailure> {
        let mut n_blocks = 0;
        self.device().within("say how many blocks run at once", || {
            let (block, shared) = (i32::try_from(n_threads).unwrap_or(i32::MAX), shared_bytes as usize);
            // SAFETY: the function is of a live module, and the pointer is to an integer of this function's.
            unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut n_blocks, self.function, block, shared) }
                .result()
        })?;
        Ok(u32::try_from(n_blocks).unwrap_or(0))
    }

    /// The threads of a block with which most threads run at once, and the fewest such blocks that fill the device.
    pub(super) fn suggested_block(&self, shared_bytes: u32) -> Result<(u32, u32), DeviceFailure> {
        let (mut grid, mut block) = (0, 0);
        self.device().within("suggest a block", || {
            // SAFETY: the function is of a live module, and the pointers are to integers of this function's.
            unsafe {
                let shared = shared_bytes as usize;
                sys::cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, self.function, None, shared, 0).result()
            }
        })?;
        Ok((u32::try_from(block).unwrap_or(0), u32::try_from(grid).unwrap_or(0)))
    }

    /// The sizes of its parameters; nothing if the driver, one for CUDA before 12.4, does not say.
    pub(super) fn parameter_sizes(&self) -> Result<Option<Vec<usize>>, DeviceFailure> {
        if !has_symbols(&["cuFuncGetParamInfo"]) {
            return Ok(None);
        }
        let mut sizes = Vec::new();
        self.device().within("describe the kernel", || {
            loop {
                let (mut offset, mut size) = (0, 0);
                // SAFETY: the function is of a live module, and the pointers are to this function's variables.
                match unsafe { sys::cuFuncGetParamInfo(self.function, sizes.len(), &mut offset, &mut size) } {
                    E::CUDA_ERROR_INVALID_VALUE => return Ok(()),
                    other => other.result()?,
                }
                sizes.push(size);
            }
        })?;
        Ok(Some(sizes))
    }

    /// Puts a launch into a stream. The driver copies the parameters.
    ///
    /// # Safety
    ///
    /// The parameters are those of the kernel, which accesses no memory that is not there.
    pub(super) unsafe fn launch(
        &self,
        target: &StreamTarget,
        name: &str,
        grid: &LaunchConfig,
        params: &[Vec<u8>],
        (uses, is_cooperative): (&[MemoryUse], bool),
    ) -> Result<(), DeviceFailure> {
        let mut pointers: Vec<*mut c_void> =
            params.iter().map(|bytes| bytes.as_ptr().cast_mut().cast::<c_void>()).collect();
        target.submit("launch the kernel", name, uses, |stream| {
            if let Some(capture) = self.device().capture_of(stream)? {
                self.device().keep_for_capture(capture, self.module.clone());
            }
            let ([gx, gy, gz], [bx, by, bz]) = (grid.grid, grid.block);
            let (shared, stream) = (grid.shared_bytes, stream.handle());
            // SAFETY: the function is of a live module; the pointers are to the bytes of its parameters, which the driver
            // reads before it returns.
            unsafe {
                match is_cooperative {
                    true => {
                        let parameters = pointers.as_mut_ptr();
                        sys::cuLaunchCooperativeKernel(
                            self.function,
                            gx,
                            gy,
                            gz,
                            bx,
                            by,
                            bz,
                            shared,
                            stream,
                            parameters,
                        )
                        .result()
                    }
                    false => {
                        let (blocks, threads) = ((gx, gy, gz), (bx, by, bz));
                        result::launch_kernel(self.function, blocks, threads, shared, stream, &mut pointers)
                    }
                }
            }
        })
    }
}

/// The driver's number of a failure, if it is one of its.
fn driver_error(failure: &DeviceFailure) -> Option<E> {
    let DeviceFailure::Driver { code, .. } = failure else { return None };
    let known = [
        E::CUDA_ERROR_NOT_FOUND,
        E::CUDA_ERROR_FILE_NOT_FOUND,
        E::CUDA_ERROR_NO_BINARY_FOR_GPU,
        E::CUDA_ERROR_OUT_OF_MEMORY,
    ];
    known.into_iter().find(|error| *error as u32 == *code)
}

/// Lets launches of a kernel ask for as much dynamic shared memory as its static one leaves of `max_bytes`. The driver
/// allows 48 KiB unless it is told, once, because launches on several threads would change it under each other.
///
/// # Safety
///
/// The function is of a live module.
unsafe fn allow_shared(function: sys::CUfunction, max_bytes: i32) -> Result<(), DriverError> {
    // SAFETY: the caller vouches for the function.
    unsafe {
        let static_bytes =
            result::function::get_function_attribute(function, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        result::function::set_function_attribute(function, attribute, (max_bytes - static_bytes).max(0))
    }
}
