//! Queues: what a device does, in order.

use super::graph::DeviceGraph;
use super::layout::RowLayout;
use super::{DeviceFailure, DeviceId};
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// Describes what memory is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillWord {
    /// One byte.
    U8(u8),
    /// Two bytes.
    U16(u16),
    /// Four bytes.
    U32(u32),
}

impl FillWord {
    /// The shortest word that bytes are a repetition of.
    pub(crate) fn of(bytes: &[u8]) -> Option<FillWord> {
        let is_period = |n: usize| bytes.len() >= n && bytes.chunks(n).all(|chunk| chunk == &bytes[..n]);
        match *bytes {
            [a, ..] if is_period(1) => Some(FillWord::U8(a)),
            [a, b, ..] if is_period(2) => Some(FillWord::U16(u16::from_le_bytes([a, b]))),
            [a, b, c, d, ..] if is_period(4) => Some(FillWord::U32(u32::from_le_bytes([a, b, c, d]))),
            _ => None,
        }
    }

    /// Its size.
    pub fn n_bytes(self) -> u64 {
        match self {
            FillWord::U8(_) => 1,
            FillWord::U16(_) => 2,
            FillWord::U32(_) => 4,
        }
    }
}

/// What a device does, in the order in which it is asked: launches, copies, fills, and giving memory back.
///
/// Those of the CPU and the simulator do everything at once, before the call returns. Those of CUDA devices are streams:
/// copies to and from pageable memory of the host return when they are done, everything else may happen later. Addresses
/// are those that kernels use on the device.
///
/// Memory that is used in one queue after another is in order: what a queue does with an allocation waits for the queue
/// that wrote it last and, if it writes, for those that read it since. Memory that is reached through pointers in memory
/// is not known, and events order its use.
pub trait Queue: Send + Sync {
    /// Returns which device's it is.
    fn device(&self) -> DeviceId;
    /// Gives itself to the device's own code.
    fn as_any(&self) -> &dyn Any;
    /// The driver's handle of it, a `CUstream`; 0 for the default stream of a device, and where there is no driver.
    fn native_handle(&self) -> u64 {
        0
    }
    /// Returns how urgent its work is: numbers below 0 are more urgent.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn priority(&self) -> Result<i32, DeviceFailure> {
        Ok(0)
    }
    /// Returns true if its work is in order with that of the device's default queue.
    fn is_blocking(&self) -> bool {
        true
    }
    /// Makes it the queue of all work of this thread on the device that names none; gives the one that was it before.
    fn make_current(self: Arc<Self>) -> Arc<dyn Queue>;
    /// So many bytes, at least one, at an address that is `skew`, below 256, past a multiple of 256. What they hold is
    /// undefined.
    ///
    /// # Errors
    ///
    /// When the device has no more.
    fn alloc(&self, n_bytes: usize, skew: u8) -> Result<u64, DeviceFailure>;
    /// Gives an allocation back once everything before it in the queue is done. One that the device has lost meanwhile
    /// is gone anyway.
    ///
    /// # Safety
    ///
    /// `alloc` has given the address, and nobody uses the allocation any more but by what is in the queue.
    unsafe fn free(&self, address: u64);
    /// Copies to the host, after what kernels that were launched before have written.
    ///
    /// # Errors
    ///
    /// When the device fails, or one of these kernels has.
    ///
    /// # Safety
    ///
    /// There are as many bytes of a live allocation on the device at the address.
    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure>;
    /// Copies from the host, where the rows follow each other: as many bytes as they have. They do not overlap on the
    /// device.
    ///
    /// # Errors
    ///
    /// When the device fails.
    ///
    /// # Safety
    ///
    /// The rows are in live allocations on the device.
    unsafe fn write(&self, to: RowLayout, bytes: &[u8]) -> Result<(), DeviceFailure>;
    /// Sets whole words, at addresses that are multiples of their size.
    ///
    /// # Errors
    ///
    /// When the device fails.
    ///
    /// # Safety
    ///
    /// As of `write`.
    unsafe fn fill(&self, to: RowLayout, word: FillWord) -> Result<(), DeviceFailure>;
    /// Copies rows of the same length, as many, within the device. No two overlap.
    ///
    /// # Errors
    ///
    /// When the device fails.
    ///
    /// # Safety
    ///
    /// As of `write`.
    unsafe fn copy(&self, to: RowLayout, from: RowLayout) -> Result<(), DeviceFailure>;
    /// Copies to memory of the host that the device shares, pinned or registered, and may return before.
    ///
    /// # Errors
    ///
    /// When the device fails.
    ///
    /// # Safety
    ///
    /// As of `read`, and the memory of the host is shared with the device and lives until the copy is done.
    unsafe fn read_later(&self, address: u64, to: *mut u8, n_bytes: usize) -> Result<(), DeviceFailure> {
        // SAFETY: the caller vouches for both.
        unsafe { self.read(address, std::slice::from_raw_parts_mut(to, n_bytes)) }
    }
    /// Copies from memory of the host that the device shares, pinned or registered, where the rows follow each other, and
    /// may return before.
    ///
    /// # Errors
    ///
    /// When the device fails.
    ///
    /// # Safety
    ///
    /// As of `write`, and the memory of the host is shared with the device and lives until the copy is done.
    unsafe fn write_later(&self, to: RowLayout, from: *const u8) -> Result<(), DeviceFailure> {
        // SAFETY: the caller vouches for both.
        unsafe { self.write(to, std::slice::from_raw_parts(from, to.n_bytes() as usize)) }
    }
    /// Has the queue wait for those that use memory, as a piece of work does that reads or writes it: what somebody else puts
    /// into the queue comes after them.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn begin_use(&self, address: u64, is_written: bool) -> Result<(), DeviceFailure> {
        let _is_in_order = (address, is_written);
        Ok(())
    }
    /// Marks the place in the queue where it is now. Events that are not timed are cheaper.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn record(&self, is_timed: bool) -> Result<Arc<dyn Event>, DeviceFailure>;
    /// Has whatever is asked of the queue from now on wait for an event, of whatever queue and device.
    ///
    /// # Errors
    ///
    /// When the device fails, or the event's.
    fn wait(&self, event: &dyn Event) -> Result<(), DeviceFailure>;
    /// Waits until everything in the queue is done.
    ///
    /// # Errors
    ///
    /// Those of the kernels that ran.
    fn synchronize(&self) -> Result<(), DeviceFailure>;
    /// Returns true if everything in the queue is done.
    ///
    /// # Errors
    ///
    /// Those of the kernels that ran.
    fn is_done(&self) -> Result<bool, DeviceFailure> {
        Ok(true)
    }
    /// Calls a function of the host after everything that is in the queue now, and before what is asked of it later. The
    /// function must not use the device.
    ///
    /// # Errors
    ///
    /// When the device fails; the function is not called then.
    fn call(&self, function: HostFunction) -> Result<(), DeviceFailure> {
        function();
        Ok(())
    }
    /// Returns true if what is asked of the queue becomes part of a graph.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn is_capturing(&self) -> Result<bool, DeviceFailure> {
        Ok(false)
    }
    /// Has everything that is asked of the queue, and of queues that wait for its events, become part of a graph instead of
    /// being done, until [`Queue::end_capture`].
    ///
    /// # Errors
    ///
    /// When the device has no graphs, or fails.
    fn begin_capture(&self) -> Result<(), DeviceFailure> {
        Err(DeviceFailure::NotCapturable {
            device: self.device(),
            what: "a queue that does everything at once".to_owned(),
        })
    }
    /// Begins a branch of the graph that the queue is captured for: what is asked of the result becomes its body, which runs
    /// by the 32-bit integer at an address when the graph comes to it.
    ///
    /// # Errors
    ///
    /// When the queue is not captured, the device's graphs have no branches, or the device fails.
    ///
    /// # Safety
    ///
    /// The address is in a live allocation on the device.
    unsafe fn begin_branch(&self, kind: BranchKind, condition: u64) -> Result<Arc<dyn Branch>, DeviceFailure> {
        let _are_of_graphs = (kind, condition);
        Err(DeviceFailure::NotCapturable {
            device: self.device(),
            what: "a branch of a graph that there is not".to_owned(),
        })
    }
    /// Ends what [`Queue::begin_capture`] began.
    ///
    /// # Errors
    ///
    /// When something that is no part of a graph was asked meanwhile, or the device fails.
    fn end_capture(&self) -> Result<Arc<dyn DeviceGraph>, DeviceFailure> {
        Err(DeviceFailure::NotCapturable {
            device: self.device(),
            what: "a queue that does everything at once".to_owned(),
        })
    }
}

/// A branch of a graph under construction.
pub trait Branch: Send + Sync {
    /// The queue that takes the body.
    fn queue(&self) -> Arc<dyn Queue>;
    /// Ends the body.
    ///
    /// # Errors
    ///
    /// When something that is no part of a graph was asked meanwhile, or the device fails.
    fn end(&self) -> Result<(), DeviceFailure>;
}

/// Says when the body of a branch in a graph runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BranchKind {
    /// Once if the condition is not 0.
    If,
    /// Once if the condition is 0.
    Unless,
    /// As long as the condition is not 0, which the body changes.
    While,
}

/// A function of the host that a queue calls.
pub type HostFunction = Box<dyn FnOnce() + Send>;

pub(crate) mod sealed {
    /// Keeps [`Event`](super::Event) to the queues of this crate, because a CUDA queue hands the handle that an event gives
    /// to the driver.
    pub trait SealedEvent {}
}

/// A place in the work of a queue. [`Queue::record`] makes one; there are no others.
///
/// ```compile_fail
/// use polyloom_runtime::{DeviceFailure, DeviceId, Event};
///
/// struct OtherEvent;
///
/// impl Event for OtherEvent {
///     fn device(&self) -> DeviceId {
///         DeviceId::Cpu
///     }
///     fn is_done(&self) -> Result<bool, DeviceFailure> {
///         Ok(true)
///     }
///     fn synchronize(&self) -> Result<(), DeviceFailure> {
///         Ok(())
///     }
///     fn seconds_since(&self, earlier: &dyn Event) -> Result<f64, DeviceFailure> {
///         Ok(0.0)
///     }
/// }
/// ```
pub trait Event: sealed::SealedEvent + Send + Sync {
    /// Returns which device's it is.
    fn device(&self) -> DeviceId;
    /// The driver's handle of it, a `CUevent`; 0 where there is no driver.
    fn native_handle(&self) -> u64 {
        0
    }
    /// Returns when it came, of a queue that does everything at once.
    fn host_time(&self) -> Option<Instant> {
        None
    }
    /// Returns true if everything before it is done.
    ///
    /// # Errors
    ///
    /// Those of the kernels that ran.
    fn is_done(&self) -> Result<bool, DeviceFailure>;
    /// Waits until everything before it is done.
    ///
    /// # Errors
    ///
    /// Those of the kernels that ran.
    fn synchronize(&self) -> Result<(), DeviceFailure>;
    /// Returns the seconds from an earlier event of the same device to this; both are waited for.
    ///
    /// # Errors
    ///
    /// When the two are of different devices, and those of the kernels that ran.
    fn seconds_since(&self, earlier: &dyn Event) -> Result<f64, DeviceFailure>;
}

/// An event of a queue that does everything at once.
pub(crate) struct ImmediateEvent {
    device: DeviceId,
    at: Instant,
}

impl ImmediateEvent {
    /// Makes one for now.
    pub(crate) fn now(device: DeviceId) -> Arc<dyn Event> {
        Arc::new(ImmediateEvent { device, at: Instant::now() })
    }
}

impl sealed::SealedEvent for ImmediateEvent {}

impl Event for ImmediateEvent {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn host_time(&self) -> Option<Instant> {
        Some(self.at)
    }

    fn is_done(&self) -> Result<bool, DeviceFailure> {
        Ok(true)
    }

    fn synchronize(&self) -> Result<(), DeviceFailure> {
        Ok(())
    }

    fn seconds_since(&self, earlier: &dyn Event) -> Result<f64, DeviceFailure> {
        match earlier.host_time() {
            Some(earlier) => Ok(self.at.saturating_duration_since(earlier).as_secs_f64()),
            None => {
                let (device, found) = (self.device, earlier.device());
                Err(DeviceFailure::OtherDevice { device, found, what: "an event" })
            }
        }
    }
}
