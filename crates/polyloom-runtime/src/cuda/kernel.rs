//! Kernels on a CUDA device.

use super::device::CudaDevice;
use super::memory::MemoryUse;
use super::queue::CudaQueue;
use super::stdout;
use super::stream_target::StreamTarget;
use crate::args::{ArgBlock, KernelParams};
use crate::device::entry::DeviceEntry;
use crate::device::{Device as _, DeviceFailure, DeviceId, DeviceKernel, Queue};
use crate::error::LaunchError;
use crate::launch_options::{LaunchOptions, LaunchStats};
use cudarc::driver::sys::CUfunction_attribute as Attribute;
use cudarc::driver::sys::CUresult as E;
use cudarc::driver::{DriverError, result, sys};
use polyloom_ir::Function;
use polyloom_ir::LaunchConfig;
use smallvec::SmallVec;
use std::ffi::{CString, c_void};
use std::sync::Arc;
use std::time::Instant;

/// A kernel's PTX, compiled by the driver.
pub struct CudaKernel {
    entry: DeviceEntry,
    device: Arc<CudaDevice>,
    code: Arc<LoadedCode>,
}

/// A module of the driver's, and the kernel in it. Graphs keep it as long as they launch the kernel.
struct LoadedCode {
    device: Arc<CudaDevice>,
    module: sys::CUmodule,
    function: sys::CUfunction,
}

// SAFETY: both are handles, which any thread with the context may use, several at once.
unsafe impl Send for LoadedCode {}
// SAFETY: as above.
unsafe impl Sync for LoadedCode {}

/// Room for what the driver's compiler has to say, in bytes.
const LOG_BYTES: usize = 16 << 10;

impl CudaKernel {
    /// Has the driver compile a kernel: its HIR as the back end got it, and the PTX made of it for the device's
    /// architecture with its entry's name.
    ///
    /// # Errors
    ///
    /// What the driver says of the PTX.
    pub fn new(
        device: &Arc<CudaDevice>,
        function: &Function,
        params: KernelParams,
        ptx: &str,
        entry: &str,
    ) -> Result<CudaKernel, DeviceFailure> {
        let id = device.id();
        let code = |reason: String| DeviceFailure::Code { device: id, reason };
        let no_text = |_| code("internal error: PTX with a zero byte".to_owned());
        let (text, name) = (CString::new(ptx).map_err(no_text)?, CString::new(entry).map_err(no_text)?);
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
            // SAFETY: the text ends in a zero byte, there are as many options as values, the log has the room that is
            // said, and all outlive the call.
            unsafe {
                let n_options = options.len() as u32;
                let image = text.as_ptr().cast();
                sys::cuModuleLoadDataEx(&mut module, image, n_options, options.as_mut_ptr(), values.as_mut_ptr())
                    .result()?;
            }
            // SAFETY: the module has just been loaded.
            let found = unsafe { result::module::get_function(module, name) };
            let found = found.and_then(|function| {
                // SAFETY: as above.
                unsafe { allow_shared(function, device.max_shared_bytes()) }?;
                Ok(function)
            });
            match found {
                Ok(function) => Ok(Arc::new(LoadedCode { device: device.clone(), module, function })),
                Err(error) => {
                    // SAFETY: nobody else knows the module.
                    let _ = unsafe { result::module::unload(module) };
                    Err(error)
                }
            }
        });
        let made =
            made.map(|code| CudaKernel { entry: DeviceEntry::new(function, params), device: device.clone(), code });
        made.map_err(|failure| {
            let log = String::from_utf8_lossy(&log);
            let log = log.trim_end_matches(['\0', '\n', ' ']);
            match driver_error(&failure) {
                Some(E::CUDA_ERROR_NOT_FOUND) => DeviceFailure::KernelNotFound { device: id, kernel: entry.to_owned() },
                Some(E::CUDA_ERROR_FILE_NOT_FOUND | E::CUDA_ERROR_NO_BINARY_FOR_GPU) => {
                    DeviceFailure::ModuleNotFound { device: id, reason: failure.to_string() }
                }
                Some(E::CUDA_ERROR_OUT_OF_MEMORY) => failure,
                _ if log.is_empty() => code(failure.to_string()),
                _ => code(format!("{failure}\n{log}")),
            }
        })
    }

    /// Puts a launch into a stream. The driver copies the parameters.
    fn start(
        &self,
        target: &StreamTarget,
        grid: &LaunchConfig,
        params: &[Vec<u8>],
        uses: &[MemoryUse],
    ) -> Result<(), DeviceFailure> {
        let mut pointers: Vec<*mut c_void> =
            params.iter().map(|bytes| bytes.as_ptr().cast_mut().cast::<c_void>()).collect();
        let triple = |[x, y, z]: [u32; 3]| (x, y, z);
        let name = &*self.entry.name;
        target.submit("launch the kernel", name, uses, |stream| {
            if let Some(capture) = self.device.capture_of(stream)? {
                self.device.keep_for_capture(capture, self.code.clone());
            }
            // SAFETY: the function is of a live module; the pointers are to the bytes of its parameters, of the sizes
            // that its entry declares, which the driver reads before it returns.
            unsafe {
                let (blocks, threads) = (triple(grid.grid), triple(grid.block));
                let function = self.code.function;
                result::launch_kernel(function, blocks, threads, grid.shared_bytes, stream.handle(), &mut pointers)
            }
        })
    }

    /// An error if a launch is captured whose outcome the host has to look at.
    fn check_captured(&self, target: &StreamTarget, args: &ArgBlock) -> Result<(), DeviceFailure> {
        let name = &self.entry.name;
        let reason = match (self.entry.has_sites(), self.entry.has_host_arrays(args)) {
            (true, _) => "has checks or prints, of which the host is told when it is done: launch it without",
            (_, true) => "is given arrays of the host, which are copied for the launch: give it arrays of the device",
            (false, false) => return Ok(()),
        };
        target.check_not_captured(&format!("a launch of `{name}`, which {reason}"))
    }
}

impl DeviceKernel for CudaKernel {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    unsafe fn launch(
        &self,
        queue: &dyn Queue,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        let started = options.timed.then(Instant::now);
        let stats = || LaunchStats { elapsed: started.map(|started| started.elapsed()), ..LaunchStats::default() };
        let (device, found) = (self.device.id(), queue.device());
        let Some(target) = queue.as_any().downcast_ref::<StreamTarget>().filter(|_| found == device) else {
            return Err(self.entry.failed(DeviceFailure::OtherDevice { device, found, what: "a queue" }));
        };
        // The whole launch is in the stream that is the current one now.
        let stream = target.stream();
        let target = &StreamTarget::of_stream(self.device.clone(), stream.clone());
        let queue = &CudaQueue::of_stream(self.device.clone(), stream);
        if self.device.is_capturing_anywhere() {
            self.check_captured(target, args).map_err(|failure| self.entry.failed(failure))?;
        }
        // SAFETY: the caller vouches for the arrays.
        let prepared = unsafe { self.entry.prepare(self.device.id(), queue, shape, args)? };
        let Some(prepared) = prepared else { return Ok(stats()) };
        let grid = self.entry.grid(prepared.n_threads, options)?;
        let uses: SmallVec<[MemoryUse; 8]> = match self.device.has_streams() {
            true => self.entry.resident_arrays(args).collect(),
            false => SmallVec::new(),
        };
        self.start(target, &grid, &prepared.params, &uses).map_err(|failure| self.entry.failed(failure))?;
        if !self.entry.has_sites() && !prepared.has_staged_arrays() && !options.timed {
            return Ok(stats());
        }
        let waited = match self.entry.prints() {
            true => stdout::handed_on(|| queue.synchronize()),
            false => queue.synchronize(),
        };
        waited.map_err(|failure| self.entry.failed(failure))?;
        // SAFETY: as above.
        match unsafe { self.entry.finish(&prepared)? } {
            Some(trap) => Err(trap),
            None => Ok(stats()),
        }
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

impl Drop for CudaKernel {
    fn drop(&mut self) {
        self.device.unload_later(self.code.clone());
    }
}

impl Drop for LoadedCode {
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
