//! Where work of a queue goes: to a stream, in order with other uses of the memory that it uses.

use super::device::CudaDevice;
use super::memory::MemoryUse;
use super::stream::CudaStream;
use crate::device::{DeviceFailure, DeviceId};
use cudarc::driver::DriverError;
use std::sync::Arc;

/// A stream of a device, or whichever the calling thread has made its current one.
pub(super) struct StreamTarget {
    device: Arc<CudaDevice>,
    /// Absent for the current stream.
    stream: Option<Arc<CudaStream>>,
}

impl StreamTarget {
    /// The current stream, whichever that is when something is asked.
    pub(super) fn current_of(device: Arc<CudaDevice>) -> StreamTarget {
        StreamTarget { device, stream: None }
    }

    /// A stream.
    pub(super) fn of_stream(device: Arc<CudaDevice>, stream: Arc<CudaStream>) -> StreamTarget {
        StreamTarget { device, stream: Some(stream) }
    }

    /// The device.
    pub(super) fn device(&self) -> &Arc<CudaDevice> {
        &self.device
    }

    /// Returns true if it is one of this device.
    pub(super) fn is_of(&self, device: &CudaDevice) -> bool {
        self.device.number() == device.number()
    }

    /// The stream that something is asked of now.
    pub(super) fn stream(&self) -> Arc<CudaStream> {
        self.stream.clone().unwrap_or_else(|| CudaStream::current(&self.device))
    }

    /// Puts work that uses memory into the stream, in order with other uses of it.
    pub(super) fn submit<R>(
        &self,
        what: &'static str,
        who: &str,
        uses: &[MemoryUse],
        work: impl FnOnce(&Arc<CudaStream>) -> Result<R, DriverError>,
    ) -> Result<R, DeviceFailure> {
        let stream = self.stream();
        self.device.within(what, || {
            self.device.begin_uses(&stream, uses, who)?;
            let done = work(&stream)?;
            if !uses.is_empty() {
                stream.mark_use()?;
            }
            Ok(done)
        })
    }

    /// Returns true if what is asked becomes part of a graph.
    pub(super) fn is_capturing(&self) -> Result<bool, DeviceFailure> {
        if !self.device.is_capturing_anywhere() {
            return Ok(false);
        }
        let stream = self.stream();
        self.device.within("ask for a stream", || Ok(self.device.capture_of(&stream)?.is_some()))
    }

    /// An error if the stream is captured, because something cannot be part of a graph.
    pub(super) fn check_not_captured(&self, what: &str) -> Result<(), DeviceFailure> {
        match self.is_capturing()? {
            true => {
                let device = DeviceId::Cuda(self.device.number());
                Err(DeviceFailure::NotCapturable { device, what: what.to_owned() })
            }
            false => Ok(()),
        }
    }
}
