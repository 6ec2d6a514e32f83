//! Virtual memory: addresses that a program reserves, memory that it makes without an address, and where it maps which.
//!
//! Reserved addresses are in a part of the device's that ordinary allocations are not in. What is mapped is accessible once
//! the program says so, as on a GPU; a kernel that comes earlier accesses no allocation.

use crate::abi::{AllocationProperties, DeviceAddress, Handle};
use crate::driver::Driver;
use crate::registry::{Registry, new_handle};
use crate::status::{CudaError, Outcome};
use polyloom_ptx::{DeviceBacking, MemoryError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that sizes and addresses are multiples of, as on NVIDIA's GPUs.
pub(crate) const GRANULARITY: u64 = 2 << 20;

/// Memory that has no address.
pub(crate) struct PhysicalMemory {
    pub(crate) handle: Handle,
    backing: DeviceBacking,
    pub(crate) properties: AllocationProperties,
    /// Counts who has to release the handle.
    holders: AtomicU32,
}

/// All that handles stand for. Mappings keep what is released.
static PHYSICAL: Registry<PhysicalMemory> = Registry::new();

/// A mapping at an address.
struct Mapping {
    n_bytes: u64,
    offset: u64,
    memory: Arc<PhysicalMemory>,
    is_accessible: bool,
}

#[derive(Default)]
struct AddressSpace {
    /// The sizes of reservations, by address.
    reserved: BTreeMap<DeviceAddress, u64>,
    mapped: BTreeMap<DeviceAddress, Mapping>,
}

/// The addresses that programs reserve.
pub(crate) struct VirtualMemory {
    span: Range<u64>,
    space: Mutex<AddressSpace>,
}

fn end_of(address: DeviceAddress, n_bytes: u64) -> Outcome<DeviceAddress> {
    let is_whole = n_bytes > 0 && n_bytes.is_multiple_of(GRANULARITY) && address.is_multiple_of(GRANULARITY);
    address.checked_add(n_bytes).filter(|_| is_whole).ok_or(CudaError::INVALID_VALUE)
}

impl VirtualMemory {
    pub(crate) fn new(span: Range<u64>) -> VirtualMemory {
        VirtualMemory { span, space: Mutex::default() }
    }

    fn space(&self) -> MutexGuard<'_, AddressSpace> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves addresses: the first that are free.
    pub(crate) fn reserve(&self, n_bytes: u64, align: u64) -> Outcome<DeviceAddress> {
        let is_power = align == 0 || align.is_power_of_two();
        if n_bytes == 0 || !n_bytes.is_multiple_of(GRANULARITY) || !is_power {
            return Err(CudaError::INVALID_VALUE);
        }
        let (mut space, align) = (self.space(), align.max(GRANULARITY));
        let aligned = |start: u64| start.checked_next_multiple_of(align).ok_or(CudaError::OUT_OF_MEMORY);
        let mut start = aligned(self.span.start)?;
        for (other, size) in &space.reserved {
            if start.checked_add(n_bytes).ok_or(CudaError::OUT_OF_MEMORY)? <= *other {
                break;
            }
            start = aligned(other + size)?;
        }
        if start.checked_add(n_bytes).is_none_or(|end| end > self.span.end) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        space.reserved.insert(start, n_bytes);
        Ok(start)
    }

    /// Gives a reservation back, in which nothing is mapped any more.
    pub(crate) fn give_back(&self, address: DeviceAddress, n_bytes: u64) -> Outcome {
        let mut space = self.space();
        let is_mapped = space.mapped.range(address..address.saturating_add(n_bytes)).next().is_some();
        if is_mapped || space.reserved.get(&address) != Some(&n_bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        space.reserved.remove(&address);
        Ok(())
    }

    /// Maps a part of some memory at reserved addresses, where nothing is mapped yet.
    pub(crate) fn map(&self, address: DeviceAddress, n_bytes: u64, offset: u64, memory: Handle) -> Outcome {
        let memory = PHYSICAL.get(memory).map_err(|_| CudaError::INVALID_VALUE)?;
        let (end, mut space) = (end_of(address, n_bytes)?, self.space());
        let in_memory = end_of(offset, n_bytes)? <= memory.backing.n_bytes() as u64;
        let reservation = space.reserved.range(..=address).next_back();
        let is_reserved = reservation.is_some_and(|(start, size)| end <= start + size);
        let before = space.mapped.range(..end).next_back();
        let is_free = before.is_none_or(|(start, mapping)| start + mapping.n_bytes <= address);
        if !in_memory || !is_reserved || !is_free {
            return Err(CudaError::INVALID_VALUE);
        }
        space.mapped.insert(address, Mapping { n_bytes, offset, memory, is_accessible: false });
        Ok(())
    }

    /// Lets kernels and copies access all mappings of a range, on behalf of a context, or takes that back if there is none.
    pub(crate) fn set_access(&self, driver: &Driver, range: (DeviceAddress, u64), context: Option<Handle>) -> Outcome {
        // A launch or a copy that runs may access it to its end. Copies look up mappings while they run, so that this lock
        // comes first.
        let _still = driver.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut space = self.space();
        for address in space.mappings(range)? {
            if let Some(mapping) = space.mapped.get_mut(&address) {
                mapping.set_access(driver, address, context)?;
            }
        }
        Ok(())
    }

    /// Returns true if what is mapped at an address is accessible.
    pub(crate) fn is_accessible(&self, address: DeviceAddress) -> Outcome<bool> {
        Ok(self.space().mapping_at(address)?.1.is_accessible)
    }

    /// Ends all mappings of a range.
    pub(crate) fn unmap(&self, driver: &Driver, range: (DeviceAddress, u64)) -> Outcome {
        let _still = driver.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut space = self.space();
        for address in space.mappings(range)? {
            if let Some(mut mapping) = space.mapped.remove(&address) {
                mapping.set_access(driver, address, None)?;
            }
        }
        Ok(())
    }

    /// The memory that is mapped at an address.
    pub(crate) fn memory_at(&self, address: DeviceAddress) -> Outcome<Arc<PhysicalMemory>> {
        Ok(Arc::clone(&self.space().mapping_at(address)?.1.memory))
    }

    /// Returns the bytes from an address to the end of its mapping, if it is in one: copies go on in the next.
    pub(crate) fn rest_of_mapping(&self, address: DeviceAddress) -> Option<usize> {
        if !self.span.contains(&address) {
            return None;
        }
        let space = self.space();
        let (start, mapping) = space.mapping_at(address).ok()?;
        Some((start + mapping.n_bytes - address) as usize)
    }
}

impl AddressSpace {
    /// The mapping that an address is in, and where it begins.
    fn mapping_at(&self, address: DeviceAddress) -> Outcome<(DeviceAddress, &Mapping)> {
        let (start, mapping) = self.mapped.range(..=address).next_back().ok_or(CudaError::INVALID_VALUE)?;
        if address - start < mapping.n_bytes { Ok((*start, mapping)) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// Returns where the mappings begin that a range consists of, without gaps.
    fn mappings(&self, (address, n_bytes): (DeviceAddress, u64)) -> Outcome<Vec<DeviceAddress>> {
        let end = end_of(address, n_bytes)?;
        let mut next = address;
        let mut found = Vec::new();
        while next < end {
            let mapping = self.mapped.get(&next).ok_or(CudaError::INVALID_VALUE)?;
            found.push(next);
            next += mapping.n_bytes;
        }
        if next == end { Ok(found) } else { Err(CudaError::INVALID_VALUE) }
    }
}

impl Mapping {
    fn set_access(&mut self, driver: &Driver, address: DeviceAddress, context: Option<Handle>) -> Outcome {
        if self.is_accessible == context.is_some() {
            return Ok(());
        }
        if let Some(context) = context {
            let part = self.offset as usize..(self.offset + self.n_bytes) as usize;
            let backing = &self.memory.backing;
            driver.memory.map(context, address, backing, part).map_err(|_| CudaError::INVALID_VALUE)?;
        } else {
            driver.memory.unmap(address);
        }
        self.is_accessible = context.is_some();
        Ok(())
    }
}

impl PhysicalMemory {
    /// Makes memory without an address. The caller holds it until it releases it.
    pub(crate) fn create(driver: &Driver, n_bytes: usize, properties: AllocationProperties) -> Outcome<Handle> {
        if n_bytes == 0 || !n_bytes.is_multiple_of(GRANULARITY as usize) {
            return Err(CudaError::INVALID_VALUE);
        }
        let backing = driver.memory.device.back(n_bytes);
        let backing = backing.map_err(|_: MemoryError| CudaError::OUT_OF_MEMORY)?;
        let handle = new_handle();
        PHYSICAL.insert(handle, PhysicalMemory { handle, backing, properties, holders: AtomicU32::new(1) });
        Ok(handle)
    }

    /// The memory of a handle.
    pub(crate) fn of(handle: Handle) -> Outcome<Arc<PhysicalMemory>> {
        PHYSICAL.get(handle).map_err(|_| CudaError::INVALID_VALUE)
    }

    /// Adds a holder.
    pub(crate) fn retain(self: &Arc<Self>) -> Handle {
        if self.holders.fetch_add(1, Relaxed) == 0 {
            // Mappings have kept it since it was released.
            PHYSICAL.insert_shared(self.handle, Arc::clone(self));
        }
        self.handle
    }

    /// Takes a holder away.
    pub(crate) fn release(handle: Handle) -> Outcome {
        let memory = PhysicalMemory::of(handle)?;
        if memory.holders.fetch_sub(1, Relaxed) == 1 {
            PHYSICAL.remove(handle)?;
        }
        Ok(())
    }
}
