//! Memory of a CUDA device by way of its pool, and the order of the streams that use it.

use super::device::CudaDevice;
use super::driver::has_symbols;
use super::memory_pool::{MemoryKind, MemoryPool, Released, StreamOrder as _, UnusedBlock, UseHistory};
use super::stream::CudaStream;
use crate::device::waits::note_wait;
use crate::device::{DeviceFailure, DeviceMemoryReport};
use cudarc::driver::sys::CUresult as E;
use cudarc::driver::{DriverError, result, sys};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Describes what a piece of work does with memory: an address in it, and true if it is written.
pub(super) type MemoryUse = (u64, bool);

/// A memory pool of the driver's that nobody else uses, and the stream that its memory comes and goes in.
pub(super) struct DriverPool {
    pool: sys::CUmemoryPool,
    stream: sys::CUstream,
    /// The addresses of its allocations.
    allocations: Mutex<HashSet<u64>>,
}

// SAFETY: both are handles, which any thread with the context may use, several at once.
unsafe impl Send for DriverPool {}
// SAFETY: as above.
unsafe impl Sync for DriverPool {}

const POOL_SYMBOLS: [&str; 5] =
    ["cuMemPoolCreate", "cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuMemAllocFromPoolAsync", "cuMemFreeAsync"];

impl DriverPool {
    /// Makes one, if the driver and the device have pools. The caller is in the context.
    fn new(device: sys::CUdevice) -> Result<Option<DriverPool>, DriverError> {
        let supported = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        // SAFETY: the handle is the driver's.
        let is_supported = unsafe { result::device::get_attribute(device, supported) }.is_ok_and(|value| value != 0);
        if !is_supported || !has_symbols(&POOL_SYMBOLS) {
            return Ok(None);
        }
        // SAFETY: all of it may be zero.
        let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = device;
        let (mut pool, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // What is given back stays in the driver's pool until it is trimmed, because what is kept is for this crate to say.
        let mut threshold = u64::MAX;
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointers are to this function's variables, and the attribute is a number of 64 bits.
        unsafe {
            sys::cuMemPoolCreate(&mut pool, &properties).result()?;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()).result()?;
            sys::cuStreamCreate(&mut stream, flags).result()?;
        }
        Ok(Some(DriverPool { pool, stream, allocations: Mutex::default() }))
    }

    fn allocations(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver's answer to a question for memory: nothing if there is no more.
fn unless_out_of_memory<R>(answer: Result<R, DriverError>) -> Result<Option<R>, DriverError> {
    match answer {
        Err(DriverError(E::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
        other => other.map(Some),
    }
}

impl CudaDevice {
    /// The allocations.
    pub(super) fn memory(&self) -> MutexGuard<'_, MemoryPool<Arc<CudaStream>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if there are other streams than the default one, so that memory has to be in order.
    pub(super) fn has_streams(&self) -> bool {
        self.has_streams.load(Ordering::Acquire)
    }

    /// Orders the use of memory from now on. What was in the default stream before, blocking streams are in order with.
    pub(super) fn begin_to_order(&self) {
        self.has_streams.store(true, Ordering::Release);
    }

    /// The driver's pool, unless it has none or is not to be used.
    pub(super) fn driver_pool(&self) -> Option<&DriverPool> {
        self.driver_pool.get_or_init(|| DriverPool::new(self.handle()).unwrap_or_default()).as_ref()
    }

    /// Has a stream wait for those that have used memory before it uses the memory now. The caller is in the context, and
    /// calls [`CudaStream::mark_use`] when the work is in the stream.
    pub(super) fn begin_uses(
        self: &Arc<Self>,
        stream: &Arc<CudaStream>,
        uses: &[MemoryUse],
        who: &str,
    ) -> Result<(), DriverError> {
        if !self.has_streams() {
            return Ok(());
        }
        if let Some(capture) = self.capture_of(stream)? {
            self.note_captured_uses(capture, uses);
            return Ok(());
        }
        let mut before: SmallVec<[(Arc<CudaStream>, MemoryUse); 2]> = SmallVec::new();
        let mut pool = self.memory();
        for &(address, is_written) in uses {
            let others = match pool.begin_use(address, stream, is_written) {
                Some(others) => others,
                None => {
                    let Some((base, size)) = foreign_allocation(address) else { continue };
                    pool.add_foreign(base, size);
                    pool.begin_use(address, stream, is_written).unwrap_or_default()
                }
            };
            for other in others {
                if !before.iter().any(|(known, _)| known.is(&other)) {
                    before.push((other, (address, is_written)));
                }
            }
        }
        drop(pool);
        for (other, (address, is_written)) in &before {
            note_wait(|| {
                let verb = if *is_written { "writes" } else { "reads" };
                format!("{stream} waits for {other}, which has used the memory at 0x{address:x} that {who} {verb}")
            });
            stream.wait_for(other)?;
        }
        Ok(())
    }

    /// So many bytes for a stream; nothing if there are no more. The caller is in the context.
    pub(super) fn take_memory(
        self: &Arc<Self>,
        stream: &Arc<CudaStream>,
        n_bytes: usize,
    ) -> Result<Option<u64>, DriverError> {
        let size = MemoryPool::<Arc<CudaStream>>::rounded(n_bytes);
        let mut pool = self.memory();
        let is_usable = |history: &UseHistory<Arc<CudaStream>>| history.streams().all(|other| stream.follows(other));
        if let Some(address) = pool.take(MemoryKind::Device, (size, n_bytes), is_usable) {
            return Ok(Some(address));
        }
        if !pool.has_room(size) {
            return Ok(None);
        }
        let excess = pool.excess(size);
        let drained = if excess > 0 { pool.n_unused_bytes().saturating_sub(excess) } else { usize::MAX };
        let drained = if drained == usize::MAX { Vec::new() } else { pool.drain(drained) };
        drop(pool);
        self.give_to_driver(drained)?;
        let mut found = self.ask_driver(stream, size)?;
        if found.is_none() {
            // What other streams have used comes in order after them.
            if let Some(address) = self.memory().take(MemoryKind::Device, (size, n_bytes), |_| true) {
                return Ok(Some(address));
            }
            if self.is_capturing_anywhere() {
                return Ok(None);
            }
            self.flush(0)?;
            self.memory().note_flush();
            found = self.ask_driver(stream, size)?;
        }
        if let Some(address) = found {
            self.memory().add(MemoryKind::Device, address, (size, n_bytes), UseHistory::default());
        }
        Ok(found)
    }

    /// Memory of the driver for a stream.
    fn ask_driver(&self, stream: &CudaStream, size: usize) -> Result<Option<u64>, DriverError> {
        let pool = self.uses_driver_pool.load(Ordering::Relaxed).then(|| self.driver_pool()).flatten();
        let Some(pool) = pool else {
            // SAFETY: asking for memory touches none.
            return unless_out_of_memory(unsafe { result::malloc_sync(size) });
        };
        let mut address = 0;
        // SAFETY: the pointer is to this function's variable, and the pool and its stream are live.
        let answer = unsafe { sys::cuMemAllocFromPoolAsync(&mut address, size, pool.pool, pool.stream) }.result();
        if unless_out_of_memory(answer)?.is_none() {
            return Ok(None);
        }
        pool.allocations().insert(address);
        if self.is_capturing_anywhere() {
            // A captured stream cannot wait for what is not captured.
            // SAFETY: the stream is live, and not captured.
            unsafe { sys::cuStreamSynchronize(pool.stream) }.result()?;
        } else {
            let shared = self.order_event.lock().unwrap_or_else(PoisonError::into_inner);
            let event = shared.get()?;
            // SAFETY: the event and both streams are live.
            unsafe {
                sys::cuEventRecord(event, pool.stream).result()?;
                sys::cuStreamWaitEvent(stream.handle(), event, 0).result()?;
            }
        }
        Ok(Some(address))
    }

    /// Takes an allocation back. The caller is in the context.
    pub(super) fn release(self: &Arc<Self>, address: u64) -> Result<(), DriverError> {
        let released = self.memory().put(address, self.is_capturing_anywhere());
        match released {
            Released::Kept => Ok(()),
            Released::ToDriver(block) => self.give_to_driver(vec![block]),
        }
    }

    /// Gives memory that nobody has any more to the driver, after what streams do with it. The caller is in the context.
    pub(super) fn give_to_driver(
        self: &Arc<Self>,
        blocks: Vec<UnusedBlock<Arc<CudaStream>>>,
    ) -> Result<(), DriverError> {
        let mut has_waited = false;
        for block in blocks {
            let UnusedBlock { address, kind, history } = block;
            let of_pool = self.driver_pool.get().and_then(Option::as_ref);
            let of_pool = of_pool.filter(|pool| pool.allocations().remove(&address));
            if let Some(pool) = of_pool {
                let legacy = CudaStream::legacy(self);
                for stream in history.streams().chain([&legacy]) {
                    self.have_wait(pool.stream, stream)?;
                }
                // SAFETY: the memory is the pool's, and what uses it comes before.
                unsafe { sys::cuMemFreeAsync(address, pool.stream) }.result()?;
                continue;
            }
            if !has_waited && !matches!(kind, MemoryKind::Pinned | MemoryKind::Registered) {
                // SAFETY: the default stream is always there, and waits for all blocking ones.
                unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) }.result()?;
                has_waited = true;
            }
            history.streams().try_for_each(|stream| stream.synchronize_uses())?;
            // SAFETY: it has come from the driver in this way, and nothing uses it any more.
            unsafe {
                match kind {
                    MemoryKind::Pinned => sys::cuMemFreeHost(address as *mut _).result()?,
                    MemoryKind::Registered => sys::cuMemHostUnregister(address as *mut _).result()?,
                    MemoryKind::Device | MemoryKind::Managed => result::free_sync(address)?,
                    MemoryKind::Foreign => {}
                }
            }
        }
        Ok(())
    }

    fn have_wait(&self, stream: sys::CUstream, other: &CudaStream) -> Result<(), DriverError> {
        other.with_event(|event| {
            // SAFETY: the event and the stream are live.
            unsafe { sys::cuStreamWaitEvent(stream, event, 0) }.result()
        })
    }

    /// Gives idle memory to the driver and has it give it to the system, until at most so many bytes are kept. The caller
    /// is in the context.
    fn flush(self: &Arc<Self>, most_kept: usize) -> Result<(), DriverError> {
        let drained = self.memory().drain(most_kept);
        self.give_to_driver(drained)?;
        if let Some(pool) = self.driver_pool.get().and_then(Option::as_ref) {
            // SAFETY: the pool and its stream are live.
            unsafe {
                sys::cuStreamSynchronize(pool.stream).result()?;
                sys::cuMemPoolTrimTo(pool.pool, most_kept).result()?;
            }
        }
        Ok(())
    }

    /// Gives idle memory back until at most so many bytes are kept.
    pub(super) fn release_idle(self: &Arc<Self>, most_kept: usize) -> Result<(), DeviceFailure> {
        if self.is_capturing_anywhere() {
            return Ok(());
        }
        self.within("release memory", || self.flush(most_kept))
    }

    /// Pinned memory of the host.
    pub(super) fn take_pinned(self: &Arc<Self>, n_bytes: usize) -> Result<Option<u64>, DriverError> {
        let size = MemoryPool::<Arc<CudaStream>>::rounded(n_bytes);
        let is_usable =
            |history: &UseHistory<Arc<CudaStream>>| history.streams().all(|stream| stream.is_done_with_uses());
        if !self.is_capturing_anywhere()
            && let Some(address) = self.memory().take(MemoryKind::Pinned, (size, n_bytes), is_usable)
        {
            return Ok(Some(address));
        }
        let mut address = std::ptr::null_mut();
        // SAFETY: the pointer is to this function's variable.
        let answer = unsafe { sys::cuMemHostAlloc(&mut address, size, sys::CU_MEMHOSTALLOC_PORTABLE) }.result();
        if unless_out_of_memory(answer)?.is_none() {
            return Ok(None);
        }
        self.memory().add(MemoryKind::Pinned, address as u64, (size, n_bytes), UseHistory::default());
        Ok(Some(address as u64))
    }

    /// Managed memory, which the host and all devices reach.
    pub(super) fn take_managed(self: &Arc<Self>, n_bytes: usize) -> Result<Option<u64>, DriverError> {
        let mut address = 0;
        let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
        // SAFETY: the pointer is to this function's variable.
        let answer = unsafe { sys::cuMemAllocManaged(&mut address, n_bytes, flags) }.result();
        if unless_out_of_memory(answer)?.is_none() {
            return Ok(None);
        }
        self.memory().add(MemoryKind::Managed, address, (n_bytes, n_bytes), UseHistory::default());
        Ok(Some(address))
    }

    /// Pins memory of the host that somebody else has allocated.
    pub(super) fn register_host(self: &Arc<Self>, address: u64, n_bytes: usize) -> Result<(), DriverError> {
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
        // SAFETY: the driver checks that there is such memory.
        unsafe { sys::cuMemHostRegister_v2(address as *mut _, n_bytes, flags) }.result()?;
        self.memory().add(MemoryKind::Registered, address, (n_bytes, n_bytes), UseHistory::default());
        Ok(())
    }

    /// Waits until the streams that wrote the memory at an address have done so.
    pub(super) fn wait_for_writer(self: &Arc<Self>, address: u64) -> Result<(), DeviceFailure> {
        let writer = self.memory().writer_of(address).cloned();
        match writer {
            Some(stream) => self.within("finish", || stream.synchronize_uses()),
            None => Ok(()),
        }
    }

    /// Waits until everything is done that uses an allocation. The caller is in the context.
    pub(super) fn wait_for_uses(self: &Arc<Self>, base: u64) -> Result<(), DriverError> {
        let streams: SmallVec<[Arc<CudaStream>; 4]> = self.memory().streams_of(base).cloned().collect();
        streams.iter().try_for_each(|stream| stream.synchronize_uses())
    }

    /// Returns true if an address is in an allocation that is known.
    pub(super) fn is_known(&self, address: u64) -> bool {
        self.has_streams() && self.memory().base_of(address).is_some()
    }

    /// Says what holds the memory, as the end of a message.
    pub(super) fn holders(&self) -> String {
        let report = self.memory().report();
        let mut text = format!("; {} in {} live allocations", in_words(report.used), report.n_live);
        for (number, size) in report.largest.iter().enumerate() {
            text += if number == 0 { ", the largest of " } else { ", " };
            text += &in_words(*size);
        }
        if report.most_reserved < usize::MAX as u64 {
            text += &format!(", and the limit is {}", in_words(report.most_reserved));
        }
        text
    }

    /// Figures of its memory.
    pub(super) fn report(&self) -> DeviceMemoryReport {
        let has_driver_pool =
            self.uses_driver_pool.load(Ordering::Relaxed) && self.driver_pool.get().is_some_and(Option::is_some);
        DeviceMemoryReport { has_driver_pool, ..self.memory().report() }
    }
}

/// Bytes as people say them.
fn in_words(n_bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| n_bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", n_bytes as f64 / unit as f64),
        None => format!("{n_bytes} bytes"),
    }
}

/// The allocation of another library that an address is in: where it begins, and its size.
fn foreign_allocation(address: u64) -> Option<(u64, usize)> {
    use sys::CUpointer_attribute as Attribute;
    let (mut base, mut size) = (0u64, 0usize);
    // SAFETY: both attributes are a word, which the pointers are to.
    unsafe {
        let start = Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
        sys::cuPointerGetAttribute((&raw mut base).cast(), start, address).result().ok()?;
        let length = Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        sys::cuPointerGetAttribute((&raw mut size).cast(), length, address).result().ok()?;
    }
    (size > 0).then_some((base, size))
}
