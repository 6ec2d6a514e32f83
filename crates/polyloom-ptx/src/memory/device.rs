//! The device's global memory: allocations with addresses of their own.
//!
//! Addresses are never used twice and allocations never touch, so an access past the end of one, or to one that was
//! freed, always misses and is reported; no host memory can be reached through a device address.

use super::region::{REGION_ALIGN, Region};
use super::window;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What a request for memory may fail with.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MemoryError {
    /// The host has not as many bytes, or the limit of 1 TiB is reached.
    #[error("out of simulated device memory: {0} bytes were asked for")]
    OutOfMemory(usize),
    /// No allocation begins at the address.
    #[error("0x{0:x} is not the address of an allocation")]
    NotAllocated(u64),
    /// The bytes asked for are not inside one allocation.
    #[error("{length} bytes at 0x{address:x} are not inside one allocation")]
    OutOfBounds {
        /// Where.
        address: u64,
        /// How many.
        length: usize,
    },
}

/// One allocation.
pub(crate) struct Allocation {
    pub(crate) address: u64,
    pub(crate) region: Region,
    /// A bit per byte: it was written. `None` until a launch asks (everything before that was the host's).
    pub(crate) written: Vec<AtomicU8>,
    /// What it is called in reports, if it has a name.
    pub(crate) name: Option<String>,
    /// A `.const` variable.
    pub(crate) constant: bool,
}

impl Allocation {
    pub(crate) fn end(&self) -> u64 {
        self.address + self.region.len() as u64
    }

    /// Notes that bytes have a value now.
    pub(crate) fn set_written(&self, offset: usize, length: usize) {
        let mut at = offset;
        let end = offset + length;
        while at < end {
            if at.is_multiple_of(8) && end - at >= 8 {
                self.written[at / 8].store(0xff, Relaxed);
                at += 8;
            } else {
                self.written[at / 8].fetch_or(1 << (at % 8), Relaxed);
                at += 1;
            }
        }
    }

    /// Whether all of some bytes have a value.
    pub(crate) fn is_written(&self, offset: usize, length: usize) -> bool {
        (offset..offset + length).all(|at| self.written[at / 8].load(Relaxed) >> (at % 8) & 1 != 0)
    }
}

#[derive(Default)]
struct Inner {
    live: BTreeMap<u64, Arc<Allocation>>,
    freed: FxHashMap<u64, u64>,
    next: u64,
}

/// The global memory of one simulated device; clones share it.
///
/// ```
/// let memory = polyloom_ptx::DeviceMemory::default();
/// let address = memory.alloc(8, 4)?;
/// memory.write(address, &1.5f32.to_le_bytes())?;
/// let mut back = [0; 4];
/// memory.read(address, &mut back)?;
/// assert_eq!(f32::from_le_bytes(back), 1.5);
/// memory.free(address)?;
/// # Ok::<(), polyloom_ptx::MemoryError>(())
/// ```
#[derive(Clone, Default)]
pub struct DeviceMemory {
    inner: Arc<Mutex<Inner>>,
}

/// How far apart allocations are kept.
const GAP: u64 = 4096;
/// The most memory a device hands out over its life; addresses are not reused.
const SPAN: u64 = 1 << 40;

impl DeviceMemory {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `length` bytes at an address that is a multiple of `align` (a power of two) and of 256. They are zero, but count
    /// as uninitialised.
    pub fn alloc(&self, length: usize, align: u64) -> Result<u64, MemoryError> {
        self.alloc_named(length, align, None, false)
    }

    pub(crate) fn alloc_named(
        &self,
        length: usize,
        align: u64,
        name: Option<String>,
        constant: bool,
    ) -> Result<u64, MemoryError> {
        let error = MemoryError::OutOfMemory(length);
        let align = align.max(REGION_ALIGN as u64).checked_next_power_of_two().ok_or(error.clone())?;
        let mut inner = self.inner();
        let start = (window::GLOBAL + inner.next).next_multiple_of(align);
        let end = start.checked_add(length as u64).filter(|end| *end < window::GLOBAL + SPAN).ok_or(error.clone())?;
        let region = Region::new(length).ok_or(error)?;
        let written = (0..length.div_ceil(8)).map(|_| AtomicU8::new(0)).collect();
        inner.next = end + GAP - window::GLOBAL;
        inner.live.insert(start, Arc::new(Allocation { address: start, region, written, name, constant }));
        Ok(start)
    }

    /// Gives an allocation back. A launch that runs keeps it until its end.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        let mut inner = self.inner();
        let allocation = inner.live.remove(&address).ok_or(MemoryError::NotAllocated(address))?;
        inner.freed.insert(address, allocation.region.len() as u64);
        Ok(())
    }

    fn locate(&self, address: u64, length: usize) -> Result<(Arc<Allocation>, usize), MemoryError> {
        let inner = self.inner();
        let found = inner.live.range(..=address).next_back().map(|(_, allocation)| Arc::clone(allocation));
        let fits = |allocation: &Arc<Allocation>| {
            address.checked_add(length as u64).is_some_and(|end| end <= allocation.end())
        };
        let allocation = found.filter(fits).ok_or(MemoryError::OutOfBounds { address, length })?;
        let offset = (address - allocation.address) as usize;
        Ok((allocation, offset))
    }

    /// Copies bytes from the host.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.locate(address, bytes.len())?;
        allocation.region.write(offset, bytes);
        allocation.set_written(offset, bytes.len());
        Ok(())
    }

    /// Copies bytes to the host.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.locate(address, bytes.len())?;
        allocation.region.read(offset, bytes);
        Ok(())
    }

    /// Sets `length` bytes.
    pub fn fill(&self, address: u64, byte: u8, length: usize) -> Result<(), MemoryError> {
        let (allocation, offset) = self.locate(address, length)?;
        let chunk = [byte; 4096];
        for start in (0..length).step_by(chunk.len()) {
            allocation.region.write(offset + start, &chunk[..chunk.len().min(length - start)]);
        }
        allocation.set_written(offset, length);
        Ok(())
    }

    /// Bytes that are allocated.
    pub fn in_use(&self) -> usize {
        self.inner().live.values().map(|allocation| allocation.region.len()).sum()
    }

    /// What a launch sees, sorted by address.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Allocation>> {
        self.inner().live.values().cloned().collect()
    }

    /// In words, where `address` lies, for a report.
    pub(crate) fn describe(&self, address: u64) -> String {
        let inner = self.inner();
        let named = |allocation: &Allocation| match &allocation.name {
            Some(name) => format!("`{name}` ({} bytes at 0x{:x})", allocation.region.len(), allocation.address),
            None => format!("the {}-byte allocation at 0x{:x}", allocation.region.len(), allocation.address),
        };
        for (start, length) in &inner.freed {
            if (*start..start + length).contains(&address) {
                return format!("inside the {length}-byte allocation at 0x{start:x} that was freed");
            }
        }
        if address < 4096 {
            return "a null pointer".to_owned();
        }
        let before = inner.live.range(..=address).next_back().map(|(_, allocation)| allocation);
        let after = inner.live.range(address..).next().map(|(_, allocation)| allocation);
        let past = before.map(|allocation| (address - allocation.address, allocation));
        match (past, after) {
            (Some((distance, allocation)), _) if address < allocation.end() => {
                format!("{distance} bytes into {}", named(allocation))
            }
            (Some((_, allocation)), next)
                if next.is_none_or(|next| address - allocation.end() <= next.address - address) =>
            {
                format!("{} bytes past the end of {}", address - allocation.end(), named(allocation))
            }
            (_, Some(next)) => format!("{} bytes before {}", next.address - address, named(next)),
            _ => "in no allocation".to_owned(),
        }
    }
}
