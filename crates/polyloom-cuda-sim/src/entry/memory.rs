//! Memory: of the device, managed, of the host, of pools; and what addresses are of.

use super::device::checked;
use super::entry_points;
use crate::abi::{DeviceAddress, Handle, MemoryLocation, PoolProperties};
use crate::context::Context;
use crate::driver::Driver;
use crate::memory::{BlockKind, MemoryBlock, Pool, free_pooled};
use crate::pointers::{In, Out};
use crate::registry::new_handle;
use crate::status::{CudaError, Outcome};
use crate::stream::{Stream, forbid_in_capture};
use crate::work::Work;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, PoisonError};

/// Bytes that rows of pitched memory are multiples of.
const PITCH: usize = 512;

/// The pool that the device has from the start.
fn default_pool() -> Handle {
    static DEFAULT: OnceLock<Handle> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let handle = new_handle();
        crate::memory::POOLS.insert(handle, Pool::new(handle, 0));
        handle
    })
}

/// The pool that allocations which name none are of.
fn current_pool() -> Outcome<Arc<Pool>> {
    let chosen = CURRENT_POOL.load(Relaxed);
    crate::memory::POOLS.get(if chosen == 0 { default_pool() } else { chosen })
}

static CURRENT_POOL: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Memory in the order of a stream. In a capture it becomes a node of the graph.
fn alloc_in_stream(
    driver: &Driver,
    context: &Context,
    pool: &Pool,
    (n_bytes, stream): (usize, Handle),
) -> Outcome<DeviceAddress> {
    let stream = Stream::of(context, stream)?;
    let address = pool.alloc(driver, context.handle, n_bytes)?;
    if stream.capture().is_some() {
        stream.submit(driver, Work::Alloc(address, n_bytes))?;
    }
    Ok(address)
}

/// An attribute of an address (`CUpointer_attribute`), written where it is wanted.
fn write_attribute(driver: &Driver, number: c_uint, address: DeviceAddress, out: Out<c_void>) -> Outcome {
    let block = driver.memory.block_at(address);
    let whole = driver.memory.device.allocation_at(address);
    let known = || block.as_deref().ok_or(CudaError::INVALID_VALUE);
    let range = || whole.clone().ok_or(CudaError::INVALID_VALUE);
    let is_of_host = |block: &MemoryBlock| matches!(block.kind, BlockKind::Pinned | BlockKind::Registered);
    match number {
        1 => out.set_as::<Handle>(known()?.context),
        2 => {
            let (host, device) = (1, 2);
            range()?;
            out.set_as::<c_uint>(if block.as_deref().is_some_and(is_of_host) { host } else { device })
        }
        3 => out.set_as::<DeviceAddress>(range().map(|_| address)?),
        4 => match known()? {
            block if block.kind.is_of_host() => out.set_as::<usize>(address as usize),
            _ => Err(CudaError::INVALID_VALUE),
        },
        6 => out.set_as::<c_int>(0),
        7 => out.set_as::<u64>(known()?.id),
        8 => out.set_as::<c_uint>(u32::from(block.is_some_and(|block| block.kind == BlockKind::Managed))),
        9 => out.set_as::<c_int>(range().map(|_| 0)?),
        10 => out.set_as::<c_int>(0),
        11 | 19 => out.set_as::<DeviceAddress>(range()?.start),
        12 | 18 => out.set_as::<usize>(range().map(|range| (range.end - range.start) as usize)?),
        13 => out.set_as::<c_int>(c_int::from(whole.is_some())),
        14 => out.set_as::<u64>(0),
        15 | 21 => out.set_as::<c_int>(0),
        16 => out.set_as::<c_uint>(3),
        17 => match known()?.kind {
            BlockKind::Pooled(pool) => out.set_as::<Handle>(pool),
            _ => out.set_as::<Handle>(0),
        },
        20 => out.set_as::<u64>(known()?.id),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Zeroes what an attribute of unknown memory would be.
fn write_nothing(number: c_uint, out: Out<c_void>) -> Outcome {
    match number {
        2 | 6 | 8 | 10 | 13 | 15 | 16 | 21 => out.set_as::<c_uint>(0),
        9 => out.set_as::<c_int>(-2),
        _ => out.set_as::<u64>(0),
    }
}

/// Attributes of pools (`CUmemPool_attribute`) that are 64-bit numbers; the others are 32-bit ones.
mod pool_attribute {
    pub(super) const RELEASE_THRESHOLD: u32 = 4;
    pub(super) const RESERVED: u32 = 5;
    pub(super) const MOST_RESERVED: u32 = 6;
    pub(super) const USED: u32 = 7;
    pub(super) const MOST_USED: u32 = 8;
}

fn is_managed_range(driver: &Driver, address: DeviceAddress, n_bytes: usize) -> Outcome {
    let block = driver.memory.block_at(address).ok_or(CudaError::INVALID_VALUE)?;
    let fits = address + n_bytes as u64 <= block.address + block.n_bytes as u64;
    if fits && block.kind == BlockKind::Managed { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

entry_points! { MEMORY:
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) [driver, _context] {
        let device = &driver.memory.device;
        free.set_if_wanted(device.capacity() - device.in_use());
        total.set_if_wanted(device.capacity());
        Ok(())
    }

    fn cuMemAlloc_v2(out: Out<DeviceAddress>, n_bytes: usize) [driver, context] {
        forbid_in_capture(driver, "cuMemAlloc")?;
        out.set(driver.memory.alloc(context.handle, n_bytes, BlockKind::Device)?)
    }

    fn cuMemAllocPitch_v2(
        out: Out<DeviceAddress>,
        pitch: Out<usize>,
        width: usize,
        height: usize,
        _element: c_uint,
    ) [driver, context] {
        forbid_in_capture(driver, "cuMemAllocPitch")?;
        let row = width.checked_next_multiple_of(PITCH).ok_or(CudaError::INVALID_VALUE)?;
        let n_bytes = row.checked_mul(height).ok_or(CudaError::INVALID_VALUE)?;
        out.set(driver.memory.alloc(context.handle, n_bytes, BlockKind::Device)?)?;
        pitch.set(row)
    }

    fn cuMemFree_v2(address: DeviceAddress) [driver, _context] {
        if address == 0 {
            return Ok(());
        }
        forbid_in_capture(driver, "cuMemFree")?;
        free_pooled(driver, address)
    }

    fn cuMemAllocManaged(out: Out<DeviceAddress>, n_bytes: usize, flags: c_uint) [driver, context] {
        if !matches!(flags, 1 | 2) {
            return Err(CudaError::INVALID_VALUE);
        }
        out.set(driver.memory.alloc_shared(context.handle, n_bytes, BlockKind::Managed, flags)?)
    }

    fn cuMemAllocHost_v2(out: Out<usize>, n_bytes: usize) [driver, context] {
        out.set(driver.memory.alloc_shared(context.handle, n_bytes, BlockKind::Pinned, 0)? as usize)
    }

    fn cuMemHostAlloc(out: Out<usize>, n_bytes: usize, flags: c_uint) [driver, context] {
        out.set(driver.memory.alloc_shared(context.handle, n_bytes, BlockKind::Pinned, flags)? as usize)
    }

    fn cuMemFreeHost(address: usize) [driver, _context] {
        if address == 0 {
            return Ok(());
        }
        driver.memory.free(driver, address as u64, |kind| kind == BlockKind::Pinned).map(|_| ())
    }

    fn cuMemHostRegister_v2(address: usize, n_bytes: usize, flags: c_uint) [driver, context] also "cuMemHostRegister" {
        driver.memory.register(context.handle, address, n_bytes, flags)
    }

    fn cuMemHostUnregister(address: usize) [driver, _context] {
        let freed = driver.memory.free(driver, address as u64, |kind| kind == BlockKind::Registered);
        freed.map(|_| ()).map_err(|_| CudaError::HOST_MEMORY_NOT_REGISTERED)
    }

    fn cuMemHostGetDevicePointer_v2(out: Out<DeviceAddress>, address: usize, _flags: c_uint) [driver, _context] {
        let block = driver.memory.block_at(address as u64).ok_or(CudaError::INVALID_VALUE)?;
        if block.kind.is_of_host() { out.set(address as u64) } else { Err(CudaError::INVALID_VALUE) }
    }

    fn cuMemHostGetFlags(flags: Out<c_uint>, address: usize) [driver, _context] {
        let block = driver.memory.block_at(address as u64).ok_or(CudaError::INVALID_VALUE)?;
        if block.kind.is_of_host() { flags.set(block.flags) } else { Err(CudaError::INVALID_VALUE) }
    }

    fn cuMemGetAddressRange_v2(
        base: Out<DeviceAddress>,
        n_bytes: Out<usize>,
        address: DeviceAddress,
    ) [driver, _context] {
        let range = driver.memory.device.allocation_at(address).ok_or(CudaError::NOT_FOUND)?;
        base.set_if_wanted(range.start);
        n_bytes.set_if_wanted((range.end - range.start) as usize);
        Ok(())
    }

    fn cuMemAllocAsync(out: Out<DeviceAddress>, n_bytes: usize, stream: Handle) [driver, context] and "_ptsz" {
        out.set(alloc_in_stream(driver, &context, &*current_pool()?, (n_bytes, stream))?)
    }

    fn cuMemAllocFromPoolAsync(
        out: Out<DeviceAddress>,
        n_bytes: usize,
        pool: Handle,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        out.set(alloc_in_stream(driver, &context, &*crate::memory::POOLS.get(pool)?, (n_bytes, stream))?)
    }

    fn cuMemFreeAsync(address: DeviceAddress, stream: Handle) [driver, context] and "_ptsz" {
        if address == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        Stream::of(&context, stream)?.submit(driver, Work::Free(address))
    }

    fn cuMemPoolCreate(out: Out<Handle>, properties: In<PoolProperties>) [_driver] {
        let properties = properties.get()?;
        let handle = new_handle();
        crate::memory::POOLS.insert(handle, Pool::new(handle, properties.max_bytes as u64));
        out.set(handle)
    }

    fn cuMemPoolDestroy(pool: Handle) [_driver] {
        if pool == default_pool() {
            return Err(CudaError::INVALID_VALUE);
        }
        crate::memory::POOLS.remove(pool)?;
        // The device goes back to the pool it had first.
        let _ = CURRENT_POOL.compare_exchange(pool, 0, Relaxed, Relaxed);
        Ok(())
    }

    fn cuMemPoolTrimTo(pool: Handle, _keep: usize) [_driver] {
        crate::memory::POOLS.get(pool).map(|_| ())
    }

    fn cuMemPoolGetAttribute(pool: Handle, number: c_uint, value: Out<c_void>) [_driver] {
        let pool = crate::memory::POOLS.get(pool)?;
        match number {
            pool_attribute::RELEASE_THRESHOLD => value.set_as(pool.release_threshold.load(Relaxed)),
            pool_attribute::RESERVED | pool_attribute::USED => value.set_as(pool.used.load(Relaxed)),
            pool_attribute::MOST_RESERVED | pool_attribute::MOST_USED => value.set_as(pool.most_used.load(Relaxed)),
            1..=3 => {
                let settings = pool.settings.lock().unwrap_or_else(PoisonError::into_inner);
                value.set_as::<c_uint>(settings.get(&number).copied().unwrap_or(1))
            }
            13 => value.set_as(pool.max_bytes),
            9..=15 => value.set_as::<c_uint>(0),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAttribute(pool: Handle, number: c_uint, value: Out<c_void>) [_driver] {
        let pool = crate::memory::POOLS.get(pool)?;
        match number {
            pool_attribute::RELEASE_THRESHOLD => {
                pool.release_threshold.store(value.get_as()?, Relaxed);
                Ok(())
            }
            pool_attribute::MOST_RESERVED | pool_attribute::MOST_USED => {
                pool.most_used.store(pool.used.load(Relaxed), Relaxed);
                Ok(())
            }
            1..=3 => {
                let mut settings = pool.settings.lock().unwrap_or_else(PoisonError::into_inner);
                settings.insert(number, value.get_as()?);
                Ok(())
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAccess(pool: Handle, _map: In<c_void>, _n: usize) [_driver] {
        crate::memory::POOLS.get(pool).map(|_| ())
    }

    fn cuMemPoolGetAccess(flags: Out<c_uint>, pool: Handle, _location: In<MemoryLocation>) [_driver] {
        crate::memory::POOLS.get(pool)?;
        flags.set(3)
    }

    fn cuDeviceGetDefaultMemPool(out: Out<Handle>, device: c_int) [_driver] {
        checked(device)?;
        out.set(default_pool())
    }

    fn cuDeviceGetMemPool(out: Out<Handle>, device: c_int) [_driver] {
        checked(device)?;
        out.set(current_pool()?.handle)
    }

    fn cuDeviceSetMemPool(device: c_int, pool: Handle) [_driver] {
        checked(device)?;
        crate::memory::POOLS.get(pool)?;
        CURRENT_POOL.store(pool, Relaxed);
        Ok(())
    }

    fn cuMemAdvise(address: DeviceAddress, n_bytes: usize, _advice: c_uint, _device: c_int) [driver] {
        is_managed_range(driver, address, n_bytes)
    }

    fn cuMemAdvise_v2(address: DeviceAddress, n_bytes: usize, _advice: c_uint, _location: MemoryLocation) [driver] {
        is_managed_range(driver, address, n_bytes)
    }

    fn cuMemPrefetchAsync(
        address: DeviceAddress,
        n_bytes: usize,
        _device: c_int,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        is_managed_range(driver, address, n_bytes)?;
        Stream::of(&context, stream)?.submit(driver, Work::Nothing)
    }

    fn cuMemPrefetchAsync_v2(
        address: DeviceAddress,
        n_bytes: usize,
        _location: MemoryLocation,
        _flags: c_uint,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        is_managed_range(driver, address, n_bytes)?;
        Stream::of(&context, stream)?.submit(driver, Work::Nothing)
    }

    fn cuStreamAttachMemAsync(
        stream: Handle,
        address: DeviceAddress,
        _n_bytes: usize,
        _flags: c_uint,
    ) [driver, context] and "_ptsz" {
        is_managed_range(driver, address, 0)?;
        Stream::of(&context, stream)?.submit(driver, Work::Nothing)
    }

    fn cuPointerGetAttribute(out: Out<c_void>, number: c_uint, address: DeviceAddress) [driver] {
        write_attribute(driver, number, address, out)
    }

    fn cuPointerGetAttributes(
        n: c_uint,
        numbers: In<c_uint>,
        outs: In<usize>,
        address: DeviceAddress,
    ) [driver] {
        let (numbers, outs) = (numbers.list(n as usize)?, outs.list(n as usize)?);
        for (number, out) in numbers.into_iter().zip(outs) {
            let out = Out::of_address(out);
            if write_attribute(driver, number, address, out).is_err() {
                write_nothing(number, out)?;
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(_value: In<c_void>, _number: c_uint, address: DeviceAddress) [driver] {
        driver.memory.block_at(address).map(|_| ()).ok_or(CudaError::INVALID_VALUE)
    }
}
