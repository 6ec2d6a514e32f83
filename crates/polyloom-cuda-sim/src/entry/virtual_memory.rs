//! Virtual memory: reserving addresses, making memory, and mapping one to the other.

use super::entry_points;
use crate::abi::{AccessDescription, AllocationProperties, DeviceAddress, Handle, MemoryLocation};
use crate::context;
use crate::driver::Driver;
use crate::pointers::{In, Out};
use crate::status::{CudaError, Outcome};
use crate::virtual_memory::{GRANULARITY, PhysicalMemory};
use std::ffi::c_uint;

/// Numbers of `CUmemLocationType` and `CUmemAllocationType`.
const LOCATION_DEVICE: c_uint = 1;
const ALLOCATION_PINNED: c_uint = 1;

/// Numbers of `CUmemAccess_flags`.
mod access {
    pub(super) const NONE: u32 = 0;
    pub(super) const READ_WRITE: u32 = 3;
}

/// Refuses what the device does not have: memory of the host, and memory for other processes.
fn check(driver: &Driver, properties: &AllocationProperties) -> Outcome {
    let MemoryLocation { kind, id } = properties.location;
    if properties.kind != ALLOCATION_PINNED {
        return Err(CudaError::INVALID_VALUE);
    }
    if kind == LOCATION_DEVICE && id != 0 {
        return Err(CudaError::INVALID_DEVICE);
    }
    if properties.handle_kinds != 0 || kind != LOCATION_DEVICE {
        driver.journal.missing("cuMemCreate of memory that other processes or the host share");
        return Err(CudaError::NOT_SUPPORTED);
    }
    Ok(())
}

entry_points! { VIRTUAL_MEMORY:
    fn cuMemAddressReserve(
        out: Out<DeviceAddress>,
        n_bytes: usize,
        align: usize,
        _hint: DeviceAddress,
        flags: u64,
    ) [driver] {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        out.set(driver.memory.reserved.reserve(n_bytes as u64, align as u64)?)
    }

    fn cuMemAddressFree(address: DeviceAddress, n_bytes: usize) [driver] {
        driver.memory.reserved.give_back(address, n_bytes as u64)
    }

    fn cuMemCreate(out: Out<u64>, n_bytes: usize, properties: In<AllocationProperties>, flags: u64) [driver] {
        let properties = properties.get()?;
        check(driver, &properties)?;
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        out.set(PhysicalMemory::create(driver, n_bytes, properties)? as u64)
    }

    fn cuMemRelease(memory: u64) [_driver] {
        PhysicalMemory::release(memory as Handle)
    }

    fn cuMemMap(address: DeviceAddress, n_bytes: usize, offset: usize, memory: u64, flags: u64) [driver] {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        driver.memory.reserved.map(address, n_bytes as u64, offset as u64, memory as Handle)
    }

    fn cuMemUnmap(address: DeviceAddress, n_bytes: usize) [driver] {
        driver.memory.reserved.unmap(driver, (address, n_bytes as u64))
    }

    fn cuMemSetAccess(address: DeviceAddress, n_bytes: usize, access: In<AccessDescription>, n: usize) [driver] {
        for AccessDescription { location, flags } in access.list(n)? {
            if location.kind != LOCATION_DEVICE || location.id != 0 {
                return Err(CudaError::INVALID_DEVICE);
            }
            let is_accessible = match flags {
                access::NONE => false,
                access::READ_WRITE => true,
                // Memory that is only read is the host's and of files; NVIDIA's GPUs have none of it here.
                _ => return Err(CudaError::NOT_SUPPORTED),
            };
            let context = is_accessible.then(|| context::current().map_or(0, |context| context.handle));
            driver.memory.reserved.set_access(driver, (address, n_bytes as u64), context)?;
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: Out<u64>, location: In<MemoryLocation>, address: DeviceAddress) [driver] {
        let MemoryLocation { kind, id } = location.get()?;
        if kind != LOCATION_DEVICE || id != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let is_accessible = driver.memory.reserved.is_accessible(address)?;
        flags.set(if is_accessible { access::READ_WRITE } else { access::NONE }.into())
    }

    fn cuMemGetAllocationGranularity(
        granularity: Out<usize>,
        properties: In<AllocationProperties>,
        _option: c_uint,
    ) [driver] {
        check(driver, &properties.get()?)?;
        granularity.set(GRANULARITY as usize)
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: Out<AllocationProperties>, memory: u64) [_driver] {
        properties.set(PhysicalMemory::of(memory as Handle)?.properties)
    }

    fn cuMemRetainAllocationHandle(out: Out<u64>, address: usize) [driver] {
        out.set(driver.memory.reserved.memory_at(address as u64)?.retain() as u64)
    }
}
