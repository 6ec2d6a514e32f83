//! Memory of the device, and memory of the host that it shares: who owns which, of what kind it is, and copies between.
//!
//! Addresses of device memory are the simulator's own, in a part of the address space that the host leaves alone. Managed
//! and pinned memory is the host's, mapped into the simulator at the address that it has there.

use crate::abi::{DeviceAddress, Handle};
use crate::driver::Driver;
use crate::host_buffer::HostBuffer;
use crate::order::{self, MemoryAccess};
use crate::pointers::{host_bytes, host_bytes_mut, lend};
use crate::registry::Registry;
use crate::status::{CudaError, Outcome};
use crate::virtual_memory::VirtualMemory;
use polyloom_ptx::{DeviceBacking, DeviceMemory, MemoryError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Describes memory, for those who ask for its attributes and those who free it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockKind {
    Device,
    /// Of a pool, which is named by its handle.
    Pooled(Handle),
    Managed,
    /// Host memory that the driver allocated.
    Pinned,
    /// Host memory of the program's own.
    Registered,
    /// Memory of the device that is mapped at reserved addresses.
    Mapped,
}

impl BlockKind {
    /// Returns true if the host may access it.
    pub(crate) fn is_of_host(self) -> bool {
        matches!(self, BlockKind::Managed | BlockKind::Pinned | BlockKind::Registered)
    }
}

/// Memory that somebody has asked for.
pub(crate) struct MemoryBlock {
    pub(crate) address: DeviceAddress,
    pub(crate) n_bytes: usize,
    pub(crate) kind: BlockKind,
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    /// A number that no other block has.
    pub(crate) id: u64,
    /// The host's bytes, if they are the driver's: they are freed with the block.
    _buffer: Option<HostBuffer>,
}

impl MemoryBlock {
    /// Returns true if it ends with a context; what is mapped stays until it is unmapped.
    fn is_of(&self, context: Handle) -> bool {
        self.context == context && self.kind != BlockKind::Mapped
    }
}

/// All memory.
pub(crate) struct Memory {
    pub(crate) device: DeviceMemory,
    /// The addresses that programs reserve, beside those of allocations.
    pub(crate) reserved: VirtualMemory,
    span: Range<u64>,
    blocks: Mutex<BTreeMap<DeviceAddress, Arc<MemoryBlock>>>,
    next_id: AtomicU64,
}

/// Says where one side of a copy begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyPlace {
    Host(usize),
    Device(DeviceAddress),
}

impl CopyPlace {
    /// The place so many bytes further.
    pub(crate) fn moved(self, offset: usize) -> CopyPlace {
        match self {
            CopyPlace::Host(address) => CopyPlace::Host(address + offset),
            CopyPlace::Device(address) => CopyPlace::Device(address + offset as u64),
        }
    }
}

/// Addresses of device memory are multiples of this, as NVIDIA's driver gives them.
const ALIGN: u64 = 512;

impl Memory {
    /// Memory whose addresses are in a span: allocations are in its first half, what programs reserve is in the second.
    pub(crate) fn new(span: Range<u64>, capacity: usize) -> Memory {
        let half = span.start + (span.end - span.start) / 2;
        let (device, reserved) =
            (DeviceMemory::in_span(span.start..half, capacity), VirtualMemory::new(half..span.end));
        Memory { device, reserved, span, blocks: Mutex::default(), next_id: AtomicU64::new(1) }
    }

    fn blocks(&self) -> MutexGuard<'_, BTreeMap<DeviceAddress, Arc<MemoryBlock>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(
        &self,
        (address, n_bytes): (DeviceAddress, usize),
        kind: BlockKind,
        (context, flags): (Handle, u32),
        buffer: Option<HostBuffer>,
    ) {
        let id = self.next_id.fetch_add(1, Relaxed);
        let block = MemoryBlock { address, n_bytes, kind, context, flags, id, _buffer: buffer };
        self.blocks().insert(address, Arc::new(block));
    }

    /// Memory of the device.
    pub(crate) fn alloc(&self, context: Handle, n_bytes: usize, kind: BlockKind) -> Outcome<DeviceAddress> {
        if n_bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let address = self.device.alloc(n_bytes, ALIGN).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        self.add((address, n_bytes), kind, (context, 0), None);
        Ok(address)
    }

    /// Maps a part of a backing at reserved addresses.
    pub(crate) fn map(
        &self,
        context: Handle,
        address: DeviceAddress,
        backing: &DeviceBacking,
        part: Range<usize>,
    ) -> Result<(), MemoryError> {
        let n_bytes = part.len();
        self.device.map(address, backing, part)?;
        self.add((address, n_bytes), BlockKind::Mapped, (context, 0), None);
        Ok(())
    }

    /// Ends such a mapping. The caller sees to it that nothing runs.
    pub(crate) fn unmap(&self, address: DeviceAddress) {
        self.blocks().remove(&address);
        // The simulator knows it, because it was mapped there.
        let _ = self.device.free(address);
    }

    /// Memory of the host that kernels see at the same address.
    pub(crate) fn alloc_shared(
        &self,
        context: Handle,
        n_bytes: usize,
        kind: BlockKind,
        flags: u32,
    ) -> Outcome<DeviceAddress> {
        if n_bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if kind == BlockKind::Managed && n_bytes > self.device.capacity() {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let buffer = HostBuffer::new(n_bytes).ok_or(CudaError::OUT_OF_MEMORY)?;
        let lent = lend(buffer.address(), n_bytes).ok_or(CudaError::OUT_OF_MEMORY)?;
        let address = self.device.map_host(lent).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        self.add((address, n_bytes), kind, (context, flags), Some(buffer));
        Ok(address)
    }

    /// Lets kernels see memory of the program's own.
    pub(crate) fn register(&self, context: Handle, address: usize, n_bytes: usize, flags: u32) -> Outcome {
        if n_bytes == 0 || address == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let lent = lend(address, n_bytes).ok_or(CudaError::INVALID_VALUE)?;
        let mapped = self.device.map_host(lent).map_err(|_| CudaError::HOST_MEMORY_ALREADY_REGISTERED)?;
        self.add((mapped, n_bytes), BlockKind::Registered, (context, flags), None);
        Ok(())
    }

    /// The memory that an address is in.
    pub(crate) fn block_at(&self, address: DeviceAddress) -> Option<Arc<MemoryBlock>> {
        let blocks = self.blocks();
        let (_, block) = blocks.range(..=address).next_back()?;
        (address - block.address < block.n_bytes as u64).then(|| Arc::clone(block))
    }

    /// Frees memory of one of some kinds that begins at an address.
    pub(crate) fn free(
        &self,
        driver: &Driver,
        address: DeviceAddress,
        is_fit: impl Fn(BlockKind) -> bool,
    ) -> Outcome<Arc<MemoryBlock>> {
        // A launch that runs may access it to its end.
        let _still = driver.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut blocks = self.blocks();
        let block = blocks.get(&address).filter(|block| is_fit(block.kind)).cloned();
        let Some(block) = block else {
            drop(blocks);
            let what = match self.block_at(address) {
                Some(block) if block.address != address => {
                    format!("{} bytes into memory of {} bytes", address - block.address, block.n_bytes)
                }
                Some(block) => format!("memory of another kind ({:?})", block.kind),
                None => "no memory, or memory that has been freed".to_owned(),
            };
            driver.journal.noted(&format!("invalid free: 0x{address:x} is {what}"));
            return Err(CudaError::INVALID_VALUE);
        };
        blocks.remove(&address);
        drop(blocks);
        // The simulator knows it, because it was allocated there.
        let _ = self.device.free(address);
        Ok(block)
    }

    /// Frees what a context owns.
    pub(crate) fn free_all_of(&self, driver: &Driver, context: Handle) {
        let owned: Vec<DeviceAddress> =
            self.blocks().values().filter(|block| block.is_of(context)).map(|block| block.address).collect();
        for address in owned {
            // Nobody else frees it, since its context is at its end.
            let _ = self.free(driver, address, |_| true);
        }
    }

    /// Finds an address that may be of either side.
    pub(crate) fn place(&self, address: DeviceAddress) -> CopyPlace {
        match self.span.contains(&address) {
            true => CopyPlace::Device(address),
            false => CopyPlace::Host(address as usize),
        }
    }

    /// Finds an address that has to be the device's: its own memory, or the host's that is mapped.
    fn checked(&self, place: CopyPlace, n_bytes: usize) -> Outcome<CopyPlace> {
        match place {
            CopyPlace::Host(address) if self.span.contains(&(address as u64)) => Err(CudaError::INVALID_VALUE),
            CopyPlace::Host(_) => Ok(place),
            CopyPlace::Device(address) if self.span.contains(&address) => Ok(place),
            CopyPlace::Device(address) => {
                let whole = self.device.allocation_at(address);
                let fits = whole.is_some_and(|whole| address + n_bytes as u64 <= whole.end);
                if fits { Ok(CopyPlace::Host(address as usize)) } else { Err(CudaError::INVALID_VALUE) }
            }
        }
    }

    /// Copies bytes.
    pub(crate) fn copy(&self, driver: &Driver, to: CopyPlace, from: CopyPlace, n_bytes: usize) -> Outcome {
        if n_bytes == 0 {
            return Ok(());
        }
        for (place, writes, who) in [(to, true, "a copy"), (from, false, "a copy")] {
            if let CopyPlace::Device(address) = place {
                record_access(address, n_bytes, writes, who);
            }
        }
        // Memory may be mapped piece by piece.
        let rest = |place: CopyPlace| match place {
            CopyPlace::Device(address) => self.reserved.rest_of_mapping(address).unwrap_or(usize::MAX),
            CopyPlace::Host(_) => usize::MAX,
        };
        let mut done = 0;
        while done < n_bytes {
            let (to, from) = (to.moved(done), from.moved(done));
            let piece = (n_bytes - done).min(rest(to)).min(rest(from));
            self.copy_piece(driver, to, from, piece)?;
            done += piece;
        }
        Ok(())
    }

    fn copy_piece(&self, driver: &Driver, to: CopyPlace, from: CopyPlace, n_bytes: usize) -> Outcome {
        let copied = match (self.checked(to, n_bytes)?, self.checked(from, n_bytes)?) {
            (CopyPlace::Device(to), CopyPlace::Host(from)) => self.device.write(to, host_bytes(from, n_bytes)),
            (CopyPlace::Host(to), CopyPlace::Device(from)) => self.device.read(from, host_bytes_mut(to, n_bytes)),
            (CopyPlace::Device(to), CopyPlace::Device(from)) => self.device.copy(to, from, n_bytes),
            (CopyPlace::Host(to), CopyPlace::Host(from)) => {
                // The two may overlap.
                let bytes = host_bytes(from, n_bytes).to_vec();
                host_bytes_mut(to, n_bytes).copy_from_slice(&bytes);
                Ok(())
            }
        };
        copied.map_err(|error| self.refused(driver, "a copy", &error))
    }

    /// Sets bytes to a repeated pattern.
    pub(crate) fn fill(&self, driver: &Driver, address: DeviceAddress, pattern: &[u8], n_bytes: usize) -> Outcome {
        if n_bytes == 0 {
            return Ok(());
        }
        record_access(address, n_bytes, true, "a fill");
        let mut done = 0;
        while done < n_bytes {
            let at = address + done as u64;
            let piece = (n_bytes - done).min(self.reserved.rest_of_mapping(at).unwrap_or(usize::MAX));
            self.device.fill(at, pattern, piece).map_err(|error| self.refused(driver, "a fill", &error))?;
            done += piece;
        }
        Ok(())
    }

    /// Tells what is wrong with a copy or a fill.
    fn refused(&self, driver: &Driver, what: &str, error: &MemoryError) -> CudaError {
        driver.journal.noted(&format!("{what} is out of bounds: {error}"));
        CudaError::INVALID_VALUE
    }
}

fn record_access(address: DeviceAddress, n_bytes: usize, writes: bool, who: &str) {
    if order::is_recording() {
        let range = address..address + n_bytes as u64;
        order::record(MemoryAccess { range, writes, is_atomic: false, who: who.to_owned() });
    }
}

/// A pool of memory: what it is set to, and how much of it is in use. Memory that is freed goes back at once.
pub(crate) struct Pool {
    pub(crate) handle: Handle,
    pub(crate) release_threshold: AtomicU64,
    pub(crate) used: AtomicU64,
    pub(crate) most_used: AtomicU64,
    /// Most bytes that it may have; zero for no limit.
    pub(crate) max_bytes: u64,
    /// Attributes that are numbers and change nothing here.
    pub(crate) settings: Mutex<BTreeMap<u32, u32>>,
}

/// All pools.
pub(crate) static POOLS: Registry<Pool> = Registry::new();

impl Pool {
    pub(crate) fn new(handle: Handle, max_bytes: u64) -> Pool {
        Pool {
            handle,
            release_threshold: AtomicU64::new(0),
            used: AtomicU64::new(0),
            most_used: AtomicU64::new(0),
            max_bytes,
            settings: Mutex::default(),
        }
    }

    /// Memory of the pool.
    pub(crate) fn alloc(&self, driver: &Driver, context: Handle, n_bytes: usize) -> Outcome<DeviceAddress> {
        let limit = if self.max_bytes == 0 { u64::MAX } else { self.max_bytes };
        if self.used.load(Relaxed).saturating_add(n_bytes as u64) > limit {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let address = driver.memory.alloc(context, n_bytes, BlockKind::Pooled(self.handle))?;
        let used = self.used.fetch_add(n_bytes as u64, Relaxed) + n_bytes as u64;
        self.most_used.fetch_max(used, Relaxed);
        Ok(address)
    }

    /// Notes that memory of it has been given back.
    pub(crate) fn freed(&self, n_bytes: usize) {
        self.used.fetch_sub(n_bytes as u64, Relaxed);
    }
}

/// Gives stream-ordered memory back.
pub(crate) fn free_pooled(driver: &Driver, address: DeviceAddress) -> Outcome {
    let is_fit = |kind| matches!(kind, BlockKind::Pooled(_) | BlockKind::Device | BlockKind::Managed);
    let block = driver.memory.free(driver, address, is_fit)?;
    if let BlockKind::Pooled(pool) = block.kind
        && let Ok(pool) = crate::memory::POOLS.get(pool)
    {
        pool.freed(block.n_bytes);
    }
    Ok(())
}
