//! Captures of streams that are under way: which work becomes part of a graph, and what that uses.

use super::device::CudaDevice;
use super::memory::MemoryUse;
use super::memory_pool::Released;
use super::stream::CudaStream;
use crate::device::{DeviceFailure, DeviceId};
use cudarc::driver::{DriverError, sys};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The captures of a device that are under way.
#[derive(Default)]
pub(super) struct Captures {
    count: AtomicUsize,
    records: Mutex<Vec<CaptureRecord>>,
    /// Code that was to be unloaded meanwhile, which is no part of a capture.
    unloaded: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

/// Holds what a graph uses.
pub(super) struct CaptureRecord {
    /// The number of its capture, and those of captures that are part of it: of branches.
    ids: Vec<u64>,
    device: Arc<CudaDevice>,
    /// The allocations, and whether each is written.
    uses: BTreeMap<u64, bool>,
    /// Pinned memory with what is copied from the host.
    pinned: Vec<u64>,
    /// The code of kernels.
    code: Vec<Arc<dyn Any + Send + Sync>>,
}

impl CaptureRecord {
    /// The allocations, and whether each is written.
    pub(super) fn uses(&self) -> Vec<MemoryUse> {
        self.uses.iter().map(|(&base, &is_written)| (base, is_written)).collect()
    }
}

impl Drop for CaptureRecord {
    fn drop(&mut self) {
        self.code.drain(..).for_each(|code| self.device.unload_later(code));
        let _ = self.device.within("release memory", || {
            for &base in self.uses.keys().chain(&self.pinned) {
                let released = self.device.memory().drop_graph(base);
                if let Released::ToDriver(block) = released {
                    self.device.give_to_driver(vec![block])?;
                }
            }
            Ok(())
        });
    }
}

impl CudaDevice {
    fn captures(&self) -> MutexGuard<'_, Vec<CaptureRecord>> {
        self.captures.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if some stream of the device is captured.
    pub(super) fn is_capturing_anywhere(&self) -> bool {
        self.captures.count.load(Ordering::Acquire) > 0
    }

    /// The number of the capture that a stream is part of, if it is. The caller is in the context.
    pub(super) fn capture_of(&self, stream: &CudaStream) -> Result<Option<u64>, DriverError> {
        if !self.is_capturing_anywhere() || stream.is_legacy() {
            return Ok(None);
        }
        capture_id(stream)
    }

    /// Begins to note what the capture of a stream uses, which has begun in the driver. The caller is in the context.
    pub(super) fn begin_record(self: &Arc<Self>, stream: &CudaStream) -> Result<(), DriverError> {
        self.captures.count.fetch_add(1, Ordering::AcqRel);
        if let Some(id) = capture_id(stream)? {
            let (uses, pinned, code) = (BTreeMap::new(), Vec::new(), Vec::new());
            self.captures().push(CaptureRecord { ids: vec![id], device: self.clone(), uses, pinned, code });
        }
        Ok(())
    }

    /// Ends what [`CudaDevice::begin_record`] began, and gives what was noted.
    pub(super) fn end_record(&self, id: u64) -> Option<CaptureRecord> {
        let record = {
            let mut captures = self.captures();
            captures.iter().position(|record| record.ids.contains(&id)).map(|at| captures.swap_remove(at))
        };
        if self.captures.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            let unloaded = std::mem::take(&mut *self.captures.unloaded.lock().unwrap_or_else(PoisonError::into_inner));
            drop(unloaded);
        }
        record
    }

    /// Has the capture of another stream be part of one that is noted, by its number. The caller is in the context.
    pub(super) fn join_record(&self, stream: &CudaStream, outer: u64) -> Result<Option<u64>, DriverError> {
        let id = capture_id(stream)?;
        if let Some(record) = self.captures().iter_mut().find(|record| record.ids.contains(&outer)) {
            record.ids.extend(id);
        }
        Ok(id)
    }

    /// Ends what [`CudaDevice::join_record`] began.
    pub(super) fn leave_record(&self, id: Option<u64>) {
        for record in self.captures().iter_mut() {
            record.ids.retain(|known| Some(*known) != id);
        }
    }

    /// Keeps pinned memory for the graph that a stream is captured for.
    pub(super) fn keep_pinned(&self, id: u64, address: u64) {
        if let Some(record) = self.captures().iter_mut().find(|record| record.ids.contains(&id)) {
            self.memory().keep_for_graph(address);
            record.pinned.push(address);
        }
    }

    /// An error while some stream is captured.
    pub(super) fn check_not_captured(&self, what: &str) -> Result<(), DeviceFailure> {
        match self.is_capturing_anywhere() {
            true => {
                let what = format!("{what}, and a stream of it is captured");
                Err(DeviceFailure::NotCapturable { device: DeviceId::Cuda(self.number()), what })
            }
            false => Ok(()),
        }
    }

    /// Notes memory that captured work uses.
    pub(super) fn note_captured_uses(&self, id: u64, uses: &[MemoryUse]) {
        let mut captures = self.captures();
        let Some(record) = captures.iter_mut().find(|record| record.ids.contains(&id)) else { return };
        let mut memory = self.memory();
        for &(address, is_written) in uses {
            let Some(base) = memory.base_of(address) else { continue };
            *record.uses.entry(base).or_insert_with(|| {
                memory.keep_for_graph(base);
                false
            }) |= is_written;
        }
    }

    /// Keeps something for the graph that a stream is captured for.
    pub(super) fn keep_for_capture(&self, id: u64, code: Arc<dyn Any + Send + Sync>) {
        if let Some(record) = self.captures().iter_mut().find(|record| record.ids.contains(&id)) {
            record.code.push(code);
        }
    }

    /// Keeps code until no stream is captured, if one is.
    pub(super) fn unload_later(&self, code: Arc<dyn Any + Send + Sync>) {
        if self.is_capturing_anywhere() {
            self.captures.unloaded.lock().unwrap_or_else(PoisonError::into_inner).push(code);
        }
    }
}

fn capture_id(stream: &CudaStream) -> Result<Option<u64>, DriverError> {
    let (mut status, mut id) = (sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
    let (graph, dependencies, n) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the pointers are to this function's variables, and what is not asked for is null.
    unsafe { sys::cuStreamGetCaptureInfo_v2(stream.handle(), &mut status, &mut id, graph, dependencies, n) }
        .result()?;
    Ok((status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE).then_some(id))
}
