//! The device's global memory: allocations with addresses of their own, out of a terabyte.
//!
//! An access past the end of an allocation always misses and is reported, and one to an allocation that was freed is
//! until its addresses are used again; no host memory can be reached through a device address.

use super::addresses::{AddressRuns, AddressUse};
use super::heap::DeviceHeap;
use super::region::{HostMemory, MemoryRegion};
use super::window;
use crate::texture::{ImageObjects, TexelImage, Texture, TextureError};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Describes what a request for memory may fail with.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MemoryError {
    /// The device or the host has not as many bytes, or there is no gap of as many addresses in the terabyte.
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
        /// Says how many.
        length: usize,
    },
    /// Some of the bytes are an allocation already.
    #[error("memory at 0x{0:x} is mapped already")]
    AlreadyMapped(u64),
}

/// One allocation.
pub(crate) struct Allocation {
    pub(crate) address: u64,
    /// Holds what was asked for, with padding around it that makes whole words.
    pub(crate) region: MemoryRegion,
    /// The place where in the region it is.
    given: Range<usize>,
    /// A bit per byte: it was written. `None`: all are, as of variables, which have initial values.
    written: Option<MemoryRegion>,
    /// Holds what it is called in reports, if it has a name.
    pub(crate) name: Option<String>,
    /// A `.const` variable.
    pub(crate) constant: bool,
    /// The blocks in it of the part of memory that `malloc` gives kernels.
    pub(crate) heap: Option<DeviceHeap>,
    /// True if the bytes are the device's and count against what it has; others are lent by the host.
    is_owned: bool,
    /// Kept by a mapping of memory that has no address of its own.
    _backing: Option<DeviceBacking>,
}

/// Memory of a device that has no address: it is where it is [mapped](DeviceMemory::map), in several places if one likes. It
/// counts against what the device has until the last clone and the last mapping are gone.
#[derive(Clone)]
pub struct DeviceBacking {
    bytes: Arc<BackingBytes>,
}

struct BackingBytes {
    region: Arc<MemoryRegion>,
    /// A bit per byte: it was written.
    written: Arc<MemoryRegion>,
    device: Weak<Mutex<DeviceMemoryState>>,
}

impl DeviceBacking {
    /// Bytes that it has.
    pub fn n_bytes(&self) -> usize {
        self.bytes.region.len()
    }
}

impl Drop for BackingBytes {
    fn drop(&mut self) {
        if let Some(device) = self.device.upgrade() {
            device.lock().unwrap_or_else(PoisonError::into_inner).in_use -= self.region.len();
        }
    }
}

/// Describes what an allocation is for.
pub(crate) enum AllocationPurpose {
    /// Whatever a program does with it.
    Plain,
    /// Texels of an array.
    Texels { name: String },
    /// A `.global` variable of a module.
    Variable { name: String },
    /// A `.const` variable.
    Constant { name: String },
    /// `malloc` of kernels.
    Heap,
}

impl AddressUse for Allocation {
    fn n_bytes(&self) -> u64 {
        self.region.len() as u64
    }

    fn given(&self, start: u64) -> Range<u64> {
        start + self.given.start as u64..start + self.given.end as u64
    }
}

impl Allocation {
    /// The offsets at which accesses of `size` bytes are to what was asked for. Updates of words may be to some of its
    /// bytes and to padding: so are those of its last elements made, if they have 8 or 16 bits.
    pub(crate) fn bounds(&self, size: u64, of_words: bool) -> Range<u64> {
        let (start, end) = (self.given.start as u64, self.given.end as u64);
        match of_words {
            true => start.saturating_sub(size - 1)..(end + size - 1).min(self.region.len() as u64),
            false => start..end,
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.address + self.region.len() as u64
    }

    /// Returns what it is called in a report: by its name, by those that a launch gives to addresses in it, or by its
    /// own address.
    pub(crate) fn describe(&self, names: &[(u64, Arc<str>)]) -> String {
        let (bytes, address) = (self.given.len(), self.address + self.given.start as u64);
        let inside = names.iter().filter(|(at, _)| (address..self.end()).contains(at)).map(|(_, name)| &**name);
        let names: Vec<String> =
            self.name.as_deref().into_iter().chain(inside).map(|name| format!("`{name}`")).collect();
        match names.is_empty() {
            true => format!("the {bytes}-byte allocation at 0x{address:x}"),
            false => format!("{} ({bytes} bytes at 0x{address:x})", names.join(" and ")),
        }
    }

    /// In words, which byte of what is at an offset.
    pub(crate) fn describe_byte(&self, offset: usize, names: &[(u64, Arc<str>)]) -> String {
        match &self.heap {
            Some(heap) => heap.describe_byte(self.address + offset as u64),
            None => format!("byte {} of {}", offset.wrapping_sub(self.given.start), self.describe(names)),
        }
    }

    /// Notes that bytes have a value now.
    pub(crate) fn set_written(&self, offset: usize, length: usize) {
        self.mark(offset, length, true);
    }

    /// Notes that bytes have none: a block of the heap is somebody's anew.
    pub(crate) fn clear_written(&self, offset: usize, length: usize) {
        self.mark(offset, length, false);
    }

    fn mark(&self, offset: usize, length: usize, has_value: bool) {
        let Some(written) = &self.written else { return };
        let all = if has_value { 0xff } else { 0 };
        let mut at = offset;
        let end = offset + length;
        while at < end {
            if at.is_multiple_of(8) && end - at >= 8 {
                written.store8(at / 8, all);
                at += 8;
            } else {
                let bit = 1 << (at % 8);
                written.update(at / 8, 1, |bits| if has_value { bits | bit } else { bits & !bit });
                at += 1;
            }
        }
    }

    /// Notes of bytes that were copied from another allocation whether they have a value.
    fn copy_written(&self, offset: usize, from: &Allocation, from_offset: usize, length: usize) {
        let Some(written) = &self.written else { return };
        let Some(from_written) = &from.written else { return self.set_written(offset, length) };
        let mut at = 0;
        while at < length {
            let (to, from_at) = (offset + at, from_offset + at);
            if to.is_multiple_of(8) && from_at.is_multiple_of(8) && length - at >= 8 {
                written.store8(to / 8, from_written.load8(from_at / 8));
                at += 8;
                continue;
            }
            let (bit, has_value) = (1 << (to % 8), from.is_written(from_at, 1));
            written.update(to / 8, 1, |bits| if has_value { bits | bit } else { bits & !bit });
            at += 1;
        }
    }

    /// Returns true if all of some bytes have a value.
    pub(crate) fn is_written(&self, offset: usize, length: usize) -> bool {
        let Some(written) = &self.written else { return true };
        (offset..offset + length).all(|at| written.load8(at / 8) >> (at % 8) & 1 != 0)
    }
}

struct DeviceMemoryState {
    allocations: AddressRuns<Arc<Allocation>>,
    /// Bytes that are allocated.
    in_use: usize,
    /// Bytes that there are.
    capacity: usize,
    objects: ImageObjects,
}

impl DeviceMemoryState {
    fn new(span: Range<u64>, capacity: usize) -> DeviceMemoryState {
        let (allocations, objects) = (AddressRuns::new(span, GAP), ImageObjects::default());
        DeviceMemoryState { allocations, in_use: 0, capacity, objects }
    }
}

fn check_image(what: &'static str, fault: Option<String>) -> Result<(), TextureError> {
    fault.map_or(Ok(()), |fault| Err(TextureError::Invalid { what, fault }))
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
#[derive(Clone)]
pub struct DeviceMemory {
    inner: Arc<Mutex<DeviceMemoryState>>,
}

impl Default for DeviceMemory {
    fn default() -> DeviceMemory {
        DeviceMemory::in_window(0)
    }
}

/// Holds what addresses are multiples of, as CUDA's are.
const ADDRESS_ALIGN: u64 = 256;
/// Holds what the addresses of arrays are multiples of, as NVIDIA's driver has it.
const IMAGE_ALIGN: u64 = 512;
/// Bytes of a word, of which allocations have whole ones.
const WORD: usize = 4;
/// Says how far apart allocations are kept.
const GAP: u64 = 4096;
/// Number of addresses a device has.
const SPAN: u64 = 1 << 40;
/// Bytes that a device has. The host gives them when they are first touched, so that a limit has to come before.
const CAPACITY: usize = 64 << 30;
/// Number of windows of them there are, chosen so that all addresses are positive as signed numbers.
const WINDOWS: u32 = 1 << 16;

impl DeviceMemory {
    /// Holds what parts of backings that are mapped are multiples of, in bytes.
    pub const MAP_ALIGN: usize = 128;

    /// Memory whose addresses are those of no other one's with another `number`, up to some thousands.
    pub fn in_window(number: u32) -> DeviceMemory {
        let start = window::GLOBAL + SPAN * u64::from(number % WINDOWS);
        DeviceMemory::in_span(start..start + SPAN, CAPACITY)
    }

    /// Memory of so many bytes, whose addresses are in `span`: one that the host has set aside, so that memory of the
    /// host's may be mapped beside the device's own.
    pub fn in_span(span: Range<u64>, capacity: usize) -> DeviceMemory {
        DeviceMemory { inner: Arc::new(Mutex::new(DeviceMemoryState::new(span, capacity))) }
    }

    /// Bytes that it has.
    pub fn capacity(&self) -> usize {
        self.inner().capacity
    }

    /// Bytes that are allocated, without those that the host lends.
    pub fn in_use(&self) -> usize {
        self.inner().in_use
    }

    /// Lets kernels access memory of the host's at the address it has there. It counts as written, because nothing says
    /// when the host writes it.
    ///
    /// # Errors
    ///
    /// [`MemoryError::AlreadyMapped`] if some of it is an allocation already.
    pub fn map_host(&self, memory: HostMemory) -> Result<u64, MemoryError> {
        let given = memory.address();
        let (address, region, range) = memory.into_parts();
        let mut inner = self.inner();
        let end = given + range.len() as u64;
        // Words around the ends may be those of a neighbour.
        let overlaps = inner.allocations.before(end.max(given + 1) - 1).is_some_and(|(start, allocation)| {
            let other = allocation.given(start);
            other.end > given && other.start < end.max(given + 1)
        });
        if overlaps || inner.allocations.before(address).is_some_and(|(start, _)| start == address) {
            return Err(MemoryError::AlreadyMapped(given));
        }
        let allocation = Allocation {
            address,
            region,
            given: range,
            written: None,
            name: None,
            constant: false,
            heap: None,
            is_owned: false,
            _backing: None,
        };
        inner.allocations.put(address, Arc::new(allocation));
        Ok(given)
    }

    /// Memory without an address. The bytes are zero, but count as uninitialised.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfMemory`] if the device has not as many.
    pub fn back(&self, n_bytes: usize) -> Result<DeviceBacking, MemoryError> {
        let error = || MemoryError::OutOfMemory(n_bytes);
        let mut inner = self.inner();
        if n_bytes > inner.capacity - inner.in_use {
            return Err(error());
        }
        let region = Arc::new(MemoryRegion::new(n_bytes).ok_or_else(error)?);
        let written = Arc::new(MemoryRegion::new(n_bytes.div_ceil(8)).ok_or_else(error)?);
        inner.in_use += n_bytes;
        let device = Arc::downgrade(&self.inner);
        Ok(DeviceBacking { bytes: Arc::new(BackingBytes { region, written, device }) })
    }

    /// Lets kernels access a part of a backing at an address, which [`DeviceMemory::free`] ends. The part begins and ends at
    /// multiples of [`DeviceMemory::MAP_ALIGN`].
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfBounds`] if there is no such part, [`MemoryError::AlreadyMapped`] if some of the addresses are an
    /// allocation's already.
    pub fn map(&self, address: u64, backing: &DeviceBacking, part: Range<usize>) -> Result<(), MemoryError> {
        let length = part.len();
        let error = MemoryError::OutOfBounds { address, length };
        let is_aligned = part.start.is_multiple_of(Self::MAP_ALIGN) && length.is_multiple_of(Self::MAP_ALIGN);
        let end = address.checked_add(length as u64).filter(|_| is_aligned && length > 0).ok_or(error.clone())?;
        let bits = part.start / 8..part.end / 8;
        let region = MemoryRegion::part(&backing.bytes.region, part.clone()).ok_or(error.clone())?;
        let written = MemoryRegion::part(&backing.bytes.written, bits).ok_or(error)?;
        let mut inner = self.inner();
        if inner.allocations.before(end - 1).is_some_and(|(start, other)| start + other.n_bytes() > address) {
            return Err(MemoryError::AlreadyMapped(address));
        }
        let allocation = Allocation {
            address,
            region,
            given: 0..length,
            written: Some(written),
            name: None,
            constant: false,
            heap: None,
            is_owned: false,
            _backing: Some(backing.clone()),
        };
        inner.allocations.put(address, Arc::new(allocation));
        Ok(())
    }

    /// The addresses of the allocation that has this one.
    pub fn allocation_at(&self, address: u64) -> Option<Range<u64>> {
        let inner = self.inner();
        let (start, allocation) = inner.allocations.before(address)?;
        let given = allocation.given(start);
        (given.contains(&address) || given.is_empty() && given.start == address).then_some(given)
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, DeviceMemoryState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `length` bytes at an address that is a multiple of `align` (a power of two) and of 256. They are zero, but count
    /// as uninitialised. A device has 64 GiB, or as much as the host can give.
    pub fn alloc(&self, length: usize, align: u64) -> Result<u64, MemoryError> {
        self.alloc_for(length, align, AllocationPurpose::Plain)
    }

    /// `length` bytes, as [`DeviceMemory::alloc`] gives them, at an address that is `skew` past a multiple of 256.
    pub fn alloc_skewed(&self, length: usize, skew: u8) -> Result<u64, MemoryError> {
        self.alloc_padded(length, ADDRESS_ALIGN, skew.into(), AllocationPurpose::Plain)
    }

    /// A heap for `malloc` of a module's kernels.
    pub(crate) fn alloc_heap(&self) -> Result<u64, MemoryError> {
        self.alloc_for(DeviceHeap::SPAN as usize, ADDRESS_ALIGN, AllocationPurpose::Heap)
    }

    /// An allocation; a variable counts as written throughout.
    pub(crate) fn alloc_for(&self, length: usize, align: u64, purpose: AllocationPurpose) -> Result<u64, MemoryError> {
        self.alloc_padded(length, align, 0, purpose)
    }

    /// Allocations for the `.const` variables of a module, given by name, length and alignment, and the at most 4 GiB of
    /// addresses that have them.
    pub(crate) fn alloc_constants(
        &self,
        variables: &[(String, usize, u64)],
    ) -> Result<(Vec<u64>, Range<u64>), MemoryError> {
        let mut offsets = Vec::new();
        let mut end = 0u64;
        for (_, length, align) in variables {
            let start = end.next_multiple_of(ADDRESS_ALIGN.max(*align));
            offsets.push(start);
            end = start.saturating_add(*length as u64).saturating_add(GAP);
        }
        let error = MemoryError::OutOfMemory(end as usize);
        let align = variables.iter().fold(ADDRESS_ALIGN, |most, (_, _, align)| most.max(*align));
        let mut inner = self.inner();
        let in_reach = end <= 1 << 32 && end as usize <= inner.capacity - inner.in_use;
        let start = in_reach.then(|| inner.allocations.place(end, align)).flatten().ok_or(error)?;
        let mut addresses = Vec::new();
        for ((name, length, _), offset) in variables.iter().zip(offsets) {
            let purpose = AllocationPurpose::Constant { name: name.clone() };
            addresses.push(inner.put(start + offset, *length, 0, purpose)?);
        }
        Ok((addresses, start..start + end))
    }

    fn alloc_padded(
        &self,
        length: usize,
        align: u64,
        skew: usize,
        purpose: AllocationPurpose,
    ) -> Result<u64, MemoryError> {
        let error = MemoryError::OutOfMemory(length);
        let align = align.max(ADDRESS_ALIGN).checked_next_power_of_two().ok_or(error.clone())?;
        let mut inner = self.inner();
        let padded =
            skew.checked_add(length).and_then(|end| end.checked_next_multiple_of(WORD)).ok_or(error.clone())?;
        if padded > inner.capacity - inner.in_use {
            return Err(error);
        }
        let address = inner.allocations.place(padded as u64, align).ok_or(error)?;
        inner.put(address, length, skew, purpose)
    }
}

impl DeviceMemoryState {
    /// Makes an allocation of `length` bytes, `skew` past an address where there is room.
    fn put(
        &mut self,
        address: u64,
        length: usize,
        skew: usize,
        purpose: AllocationPurpose,
    ) -> Result<u64, MemoryError> {
        let error = MemoryError::OutOfMemory(length);
        let given = skew..skew.saturating_add(length);
        let padded = given.end.next_multiple_of(WORD);
        let region = MemoryRegion::new(padded).ok_or(error.clone())?;
        let written = match purpose {
            AllocationPurpose::Variable { .. } | AllocationPurpose::Constant { .. } => None,
            _ => Some(MemoryRegion::new(padded.div_ceil(8)).ok_or(error)?),
        };
        let heap = matches!(purpose, AllocationPurpose::Heap).then(|| DeviceHeap::new(address));
        let (name, constant) = match purpose {
            AllocationPurpose::Variable { name } => (Some(name), false),
            AllocationPurpose::Constant { name } => (Some(name), true),
            AllocationPurpose::Texels { name } => (Some(name), false),
            AllocationPurpose::Plain | AllocationPurpose::Heap => (None, false),
        };
        self.in_use += padded;
        let allocation =
            Allocation { address, region, given, written, name, constant, heap, is_owned: true, _backing: None };
        // Padding counts as written, because bytes that nobody can have written are read with the words that they are
        // in.
        allocation.set_written(0, allocation.given.start);
        allocation.set_written(allocation.given.end, padded - allocation.given.end);
        let start = address + allocation.given.start as u64;
        self.allocations.put(address, Arc::new(allocation));
        Ok(start)
    }
}

impl DeviceMemory {
    /// Gives an allocation back. A launch that runs keeps it until its end.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        let mut inner = self.inner();
        let found = inner.allocations.before(address);
        let begins = found.filter(|(start, allocation)| allocation.given(*start).start == address);
        let start = begins.map(|(start, _)| start).ok_or(MemoryError::NotAllocated(address))?;
        let allocation = inner.allocations.remove(start).ok_or(MemoryError::NotAllocated(address))?;
        if allocation.is_owned {
            inner.in_use -= allocation.region.len();
        }
        // The last mapping of a backing takes it back, for which it needs the lock.
        drop(inner);
        Ok(())
    }

    fn locate(&self, address: u64, length: usize) -> Result<(Arc<Allocation>, usize), MemoryError> {
        let inner = self.inner();
        let found = inner.allocations.before(address).map(|(_, allocation)| Arc::clone(allocation));
        let fits = |allocation: &Arc<Allocation>| {
            let given = allocation.given(allocation.address);
            address >= given.start && address.checked_add(length as u64).is_some_and(|end| end <= given.end)
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

    /// Sets `length` bytes to as many repetitions of a pattern as go into them.
    pub fn fill(&self, address: u64, pattern: &[u8], length: usize) -> Result<(), MemoryError> {
        let (allocation, offset) = self.locate(address, length)?;
        let n_repetitions = (4096 / pattern.len().max(1)).max(1);
        let chunk = pattern.repeat(n_repetitions);
        for start in (0..length).step_by(chunk.len().max(1)) {
            allocation.region.write(offset + start, &chunk[..chunk.len().min(length - start)]);
        }
        allocation.set_written(offset, length);
        Ok(())
    }

    /// Copies `length` bytes from one address to another, and which of them count as uninitialised. The two do not
    /// overlap.
    pub fn copy(&self, to: u64, from: u64, length: usize) -> Result<(), MemoryError> {
        let (source, source_offset) = self.locate(from, length)?;
        let (target, target_offset) = self.locate(to, length)?;
        let mut chunk = [0; 4096];
        for start in (0..length).step_by(chunk.len()) {
            let part = &mut chunk[..(length - start).min(4096)];
            source.region.read(source_offset + start, part);
            target.region.write(target_offset + start, part);
        }
        target.copy_written(target_offset, &source, source_offset, length);
        Ok(())
    }

    /// Memory for an array of a shape, which [`DeviceMemory::free`] gives back by its address. The texels count as
    /// uninitialised.
    ///
    /// # Errors
    ///
    /// [`TextureError::Invalid`] if there is no such array, [`TextureError::Memory`] if the device has not as many
    /// bytes.
    pub fn alloc_image(&self, shape: TexelImage) -> Result<TexelImage, TextureError> {
        let shape = TexelImage { address: 0, ..shape };
        check_image("array", shape.fault())?;
        let n_bytes = shape.n_bytes().ok_or(MemoryError::OutOfMemory(usize::MAX))?;
        let name = format!("array of {} texels", shape.shape());
        let address = self.alloc_for(n_bytes, IMAGE_ALIGN, AllocationPurpose::Texels { name })?;
        Ok(TexelImage { address, ..shape })
    }

    /// Makes a texture, which kernels have by its handle until it is destroyed. Its memory may be freed before: then a
    /// fetch is out of bounds.
    ///
    /// # Errors
    ///
    /// [`TextureError::Invalid`] if there is no such texture.
    pub fn create_texture(&self, texture: Texture) -> Result<u64, TextureError> {
        check_image("texture", texture.fault())?;
        Ok(self.inner().objects.add_texture(texture))
    }

    /// Makes a surface, as [`DeviceMemory::create_texture`] makes textures.
    ///
    /// # Errors
    ///
    /// [`TextureError::Invalid`] if there is no such surface.
    pub fn create_surface(&self, image: TexelImage) -> Result<u64, TextureError> {
        check_image("surface", image.fault())?;
        Ok(self.inner().objects.add_surface(image))
    }

    /// Ends a texture or a surface. A launch that runs has it until its end.
    ///
    /// # Errors
    ///
    /// [`TextureError::NotObject`] if the handle is of neither.
    pub fn destroy_object(&self, handle: u64) -> Result<(), TextureError> {
        if self.inner().objects.remove(handle) { Ok(()) } else { Err(TextureError::NotObject(handle)) }
    }

    /// Returns the textures and surfaces that a launch sees.
    pub(crate) fn image_objects(&self) -> ImageObjects {
        self.inner().objects.clone()
    }

    /// Returns what a launch sees, sorted by address.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Allocation>> {
        self.inner().allocations.runs().cloned().collect()
    }

    /// In words, where `address` lies, for a report.
    pub(crate) fn describe(&self, address: u64, names: &[(u64, Arc<str>)]) -> String {
        let inner = self.inner();
        if let Some((_, allocation)) = inner.allocations.before(address)
            && let Some(heap) = allocation.heap.as_ref().filter(|_| address < allocation.end())
        {
            return heap.describe(address);
        }
        if address < 4096 {
            return "a null pointer".to_owned();
        }
        let place = inner.allocations.describe(address, |_, allocation| allocation.describe(names));
        place.unwrap_or_else(|| "in no allocation".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_what_nobody_wrote_count_as_unwritten() {
        let memory = DeviceMemory::default();
        let (from, to) = (memory.alloc(32, 8).unwrap(), memory.alloc(32, 8).unwrap());
        memory.write(from + 3, &[1; 10]).unwrap();
        for shift in [0, 5] {
            memory.fill(to, &[9], 32).unwrap();
            memory.copy(to + shift, from, 24).unwrap();
            let (allocation, _) = memory.locate(to, 32).unwrap();
            for at in 0..32 {
                let copied = (at as u64).checked_sub(shift).filter(|at| *at < 24);
                let expect = copied.is_none_or(|at| (3..13).contains(&at));
                assert_eq!(allocation.is_written(at, 1), expect, "byte {at}, {shift} on");
            }
            let mut bytes = [0; 32];
            memory.read(to, &mut bytes).unwrap();
            assert_eq!(bytes[shift as usize..][..13], [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        }
        assert!(memory.copy(to, from, 33).is_err());
    }

    #[test]
    fn backings_are_where_they_are_mapped() {
        const PART: usize = DeviceMemory::MAP_ALIGN;
        let memory = DeviceMemory::in_span(1 << 40..1 << 41, 4 * PART);
        let backing = memory.back(3 * PART).unwrap();
        assert_eq!(
            (memory.in_use(), memory.back(2 * PART).err()),
            (3 * PART, Some(MemoryError::OutOfMemory(2 * PART)))
        );
        let (first, second) = (3 << 40, 4 << 40);
        memory.map(first, &backing, 0..2 * PART).unwrap();
        memory.map(second, &backing, PART..3 * PART).unwrap();
        let overlap = first + PART as u64;
        assert_eq!(memory.map(overlap, &backing, 0..PART), Err(MemoryError::AlreadyMapped(overlap)));
        assert!(
            memory.map(5 << 40, &backing, 2 * PART..4 * PART).is_err() && memory.map(5 << 40, &backing, 0..5).is_err()
        );
        // The two share the part in the middle, and what is known of it.
        memory.write(overlap, &[7; 16]).unwrap();
        let mut bytes = [0; 16];
        memory.read(second, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 16]);
        let (allocation, offset) = memory.locate(second, 17).unwrap();
        assert!(allocation.is_written(offset, 16) && !allocation.is_written(offset, 17));
        drop((allocation, backing));
        memory.free(first).unwrap();
        assert!(memory.read(first, &mut bytes).is_err() && memory.read(second, &mut bytes).is_ok());
        assert_eq!(memory.in_use(), 3 * PART);
        memory.free(second).unwrap();
        assert_eq!(memory.in_use(), 0);
    }
}
