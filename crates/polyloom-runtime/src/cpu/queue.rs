//! The queue of the CPU, which does everything at once, in the memory of the process.

use super::device::CpuDevice;
use super::kernel::CpuKernel;
use super::launch::launch;
use super::pool::num_threads;
use crate::args::ArgBlock;
use crate::device::layout::RowLayout;
use crate::device::queue::ImmediateEvent;
use crate::device::{
    Device, DeviceFailure, DeviceId, DeviceKernel, DeviceProgram, DeviceProperties, Event, FillWord, Queue,
    QueueOptions,
};
use crate::error::LaunchError;
use crate::launch_options::{LaunchOptions, LaunchStats};
use crate::processor::Processor;
use std::alloc::Layout;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Allocations begin at multiples of this, but for a skew.
const ALIGNMENT: usize = 256;

/// The queue of the CPU. There is nothing that tells one from another.
#[derive(Clone, Copy, Default, Debug)]
pub struct CpuQueue;

/// By address, what the queue has allocated: where the allocator gave it, and how large it is.
static ALLOCATIONS: Mutex<Option<HashMap<u64, (usize, Layout)>>> = Mutex::new(None);

/// Describes the CPU.
pub(crate) fn properties() -> DeviceProperties {
    let processor = Processor::host();
    let threads = u32::try_from(processor.n_threads).unwrap_or(u32::MAX);
    let l2 = processor.caches.iter().find(|cache| cache.level == 2);
    DeviceProperties {
        id: DeviceId::Cpu.to_string(),
        name: processor.name.clone(),
        architecture: processor.architecture.to_owned(),
        n_multiprocessors: Some(threads.min(num_threads() as u32)),
        threads_per_block: Some(polyloom_ir::arch::MAX_BLOCK_SIZE),
        l2_bytes: l2.map(|cache| cache.bytes),
        ..DeviceProperties::default()
    }
}

impl Device for CpuDevice {
    fn id(&self) -> DeviceId {
        DeviceId::Cpu
    }

    fn properties(&self) -> DeviceProperties {
        properties()
    }

    fn free_bytes(&self) -> Result<Option<u64>, DeviceFailure> {
        Ok(None)
    }

    fn load(self: Arc<Self>, program: DeviceProgram<'_>) -> Result<Box<dyn DeviceKernel>, DeviceFailure> {
        match program {
            DeviceProgram::Hir(source) => Ok(Box::new(CpuKernel::new(self, source))),
            DeviceProgram::Ptx { .. } => {
                let reason = "the CPU runs HIR, not PTX: load it on 'sim:0'".to_owned();
                Err(DeviceFailure::Code { device: DeviceId::Cpu, reason })
            }
        }
    }

    fn queue(self: Arc<Self>) -> Arc<dyn Queue> {
        Arc::new(CpuQueue)
    }

    fn new_queue(self: Arc<Self>, _options: QueueOptions) -> Result<Arc<dyn Queue>, DeviceFailure> {
        Ok(Arc::new(CpuQueue))
    }
}

impl DeviceKernel for CpuKernel {
    fn device(&self) -> DeviceId {
        DeviceId::Cpu
    }

    unsafe fn launch(
        &self,
        queue: &dyn Queue,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        if queue.device() != DeviceId::Cpu {
            let failure = DeviceFailure::OtherDevice { device: DeviceId::Cpu, found: queue.device(), what: "a queue" };
            return Err(LaunchError::Device { kernel: self.inner.name.clone(), failure });
        }
        // SAFETY: passed on to the caller.
        unsafe { launch(self, shape, args, options) }
    }
}

impl Queue for CpuQueue {
    fn device(&self) -> DeviceId {
        DeviceId::Cpu
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn make_current(self: Arc<Self>) -> Arc<dyn Queue> {
        self
    }

    fn alloc(&self, n_bytes: usize, skew: u8) -> Result<u64, DeviceFailure> {
        let failed = DeviceFailure::OutOfMemory { device: DeviceId::Cpu, n_bytes, holders: String::new() };
        let size = n_bytes.checked_add(skew.into()).filter(|&size| size > 0);
        let layout = size.and_then(|size| Layout::from_size_align(size, ALIGNMENT).ok()).ok_or(failed.clone())?;
        // SAFETY: the size is not zero.
        let begin = unsafe { std::alloc::alloc(layout) } as usize;
        if begin == 0 {
            return Err(failed);
        }
        let address = begin as u64 + u64::from(skew);
        let mut allocations = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        allocations.get_or_insert_default().insert(address, (begin, layout));
        Ok(address)
    }

    unsafe fn free(&self, address: u64) {
        let mut allocations = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((begin, layout)) = allocations.get_or_insert_default().remove(&address) else { return };
        drop(allocations);
        // SAFETY: `alloc` has had it from the allocator with this layout, and it was in the table once.
        unsafe { std::alloc::dealloc(begin as *mut u8, layout) };
    }

    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure> {
        // SAFETY: the caller vouches for the bytes at the address.
        unsafe { std::ptr::copy(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn write(&self, to: RowLayout, bytes: &[u8]) -> Result<(), DeviceFailure> {
        for (address, row) in to.addresses().zip(bytes.chunks_exact(to.length as usize)) {
            // SAFETY: the caller vouches for the rows.
            unsafe { std::ptr::copy(row.as_ptr(), address as *mut u8, row.len()) };
        }
        Ok(())
    }

    unsafe fn fill(&self, to: RowLayout, word: FillWord) -> Result<(), DeviceFailure> {
        for address in to.addresses() {
            let n_words = (to.length / word.n_bytes()) as usize;
            // SAFETY: the caller vouches for the rows, whose addresses are multiples of the word's size.
            unsafe {
                match word {
                    FillWord::U8(value) => std::slice::from_raw_parts_mut(address as *mut u8, n_words).fill(value),
                    FillWord::U16(value) => std::slice::from_raw_parts_mut(address as *mut u16, n_words).fill(value),
                    FillWord::U32(value) => std::slice::from_raw_parts_mut(address as *mut u32, n_words).fill(value),
                }
            }
        }
        Ok(())
    }

    unsafe fn copy(&self, to: RowLayout, from: RowLayout) -> Result<(), DeviceFailure> {
        for (to_row, from_row) in to.addresses().zip(from.addresses()) {
            // SAFETY: the caller vouches for the rows.
            unsafe { std::ptr::copy(from_row as *const u8, to_row as *mut u8, to.length as usize) };
        }
        Ok(())
    }

    fn record(&self, _is_timed: bool) -> Result<Arc<dyn Event>, DeviceFailure> {
        Ok(ImmediateEvent::now(DeviceId::Cpu))
    }

    fn wait(&self, event: &dyn Event) -> Result<(), DeviceFailure> {
        event.synchronize()
    }

    fn synchronize(&self) -> Result<(), DeviceFailure> {
        Ok(())
    }
}
