//! Kernels on a CUDA device.

use super::device::CudaDevice;
use super::function::{LoadedFunction, LoadedModule};
use super::memory::MemoryUse;
use super::queue::CudaQueue;
use super::stdout;
use super::stream_target::StreamTarget;
use crate::args::{ArgBlock, KernelParams};
use crate::device::entry::DeviceEntry;
use crate::device::{Device as _, DeviceFailure, DeviceId, DeviceKernel, KernelProperties, Queue};
use crate::error::LaunchError;
use crate::launch_options::{LaunchOptions, LaunchStats};
use polyloom_ir::Function;
use smallvec::SmallVec;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Instant;

/// A kernel's PTX, compiled by the driver.
pub struct CudaKernel {
    entry: DeviceEntry,
    device: Arc<CudaDevice>,
    code: LoadedFunction,
}

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
        let reason = "internal error: PTX with a zero byte".to_owned();
        let text = CString::new(ptx).map_err(|_| DeviceFailure::Code { device: device.id(), reason })?;
        let code = LoadedModule::load(device, text.as_bytes_with_nul())?.function(entry)?;
        Ok(CudaKernel { entry: DeviceEntry::new(function, params), device: device.clone(), code })
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

    fn properties(&self, n_threads: u32, shared_bytes: u32) -> Result<Option<KernelProperties>, DeviceFailure> {
        Ok(Some(KernelProperties {
            attributes: self.code.attributes()?,
            blocks_at_once: self.code.occupancy(n_threads, shared_bytes)?,
            suggested_block: self.code.suggested_block(shared_bytes)?,
        }))
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
        // SAFETY: the parameters are of the sizes that the entry declares, and the caller vouches for the arrays.
        let started_kernel =
            unsafe { self.code.launch(target, &self.entry.name, &grid, &prepared.params, (&uses, false)) };
        started_kernel.map_err(|failure| self.entry.failed(failure))?;
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

impl Drop for CudaKernel {
    fn drop(&mut self) {
        self.code.unload_later();
    }
}
