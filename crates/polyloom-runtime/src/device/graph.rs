//! Graphs: work of a device that is put together once and launched any number of times.

use super::{DeviceFailure, DeviceId, Queue};
use std::any::Any;

/// Work that [`Queue::begin_capture`] has put together.
pub trait DeviceGraph: Send + Sync {
    /// Returns which device's it is.
    fn device(&self) -> DeviceId;
    /// Gives itself to the device's own code.
    fn as_any(&self) -> &dyn Any;
    /// Returns how many launches, copies and fills it has, with those that only order others.
    fn n_nodes(&self) -> usize;
    /// Puts all of it into a queue. In a queue that is captured it becomes part of the other graph.
    ///
    /// # Errors
    ///
    /// When the queue is another device's, or the device fails.
    ///
    /// # Safety
    ///
    /// Arrays that it was captured with are live, unless they are the device's own allocations, which it keeps.
    unsafe fn launch(&self, queue: &dyn Queue) -> Result<(), DeviceFailure>;
    /// Takes the parameters of another graph of the same shape: the same kernels, copies and fills in the same order.
    /// Returns false, and stays what it is, if the other one is of another shape.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn update(&self, other: &dyn DeviceGraph) -> Result<bool, DeviceFailure>;
}
