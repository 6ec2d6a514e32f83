//! CUDA devices: what they are, and their memory.
//!
//! Everything of a device happens in its primary context, which other libraries of the process share, and on the
//! default stream: what is asked for later happens later.

use super::driver::{describe, driver, is_started};
use crate::device::layout::RowLayout;
use crate::device::{CudaInfo, Device, DeviceFailure, FillWord, MemoryBackend};
use crate::fork::PerProcess;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{DriverError, result, sys};
use polyloom_ir::{Arch, PtxVersion};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A device, ready to run kernels.
pub struct CudaDevice {
    info: CudaInfo,
    arch: Arch,
    max_shared_bytes: i32,
    context: PrimaryContext,
}

/// A device's primary context. It is kept for the rest of the process: arrays may live as long.
struct PrimaryContext(sys::CUcontext);

// SAFETY: a context is a handle, which any thread may make its current one, several at once.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above.
unsafe impl Sync for PrimaryContext {}

/// The devices that are in use.
static DEVICES: PerProcess<Mutex<BTreeMap<u32, Arc<CudaDevice>>>> = PerProcess::new();

/// The shared memory that a block may ask for.
const MAX_SHARED: Attribute = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;

/// The devices of this machine that kernels can run on. Others, too old or out of order, are left out.
///
/// # Errors
///
/// When there is no driver, or none of its devices will do: why the first does not.
pub fn devices() -> Result<Vec<CudaInfo>, DeviceFailure> {
    let driver = driver().map_err(|reason| absent(Device::Cuda(0), reason))?;
    usable((0..driver.n_devices).map(device_info))
}

/// Those that are none of the failures; the first failure if there is nothing else.
fn usable(devices: impl Iterator<Item = Result<CudaInfo, DeviceFailure>>) -> Result<Vec<CudaInfo>, DeviceFailure> {
    let (mut found, mut failure) = (Vec::new(), None);
    for device in devices {
        match device {
            Ok(info) => found.push(info),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(failure) if found.is_empty() => Err(failure),
        _ => Ok(found),
    }
}

/// The device of this number, without setting it up.
///
/// # Errors
///
/// When there is none, or it is too old.
pub fn device_info(number: u32) -> Result<CudaInfo, DeviceFailure> {
    let ptx_version = driver().map_err(|reason| absent(Device::Cuda(number), reason))?.ptx_version;
    let (info, _) = info(number)?;
    supported_arch(&info, ptx_version)?;
    Ok(info)
}

/// Waits until the devices that are in use have done everything.
///
/// # Errors
///
/// Those of the kernels that ran.
pub fn synchronize() -> Result<(), DeviceFailure> {
    if !is_started() {
        return Ok(());
    }
    let devices: Vec<Arc<CudaDevice>> =
        DEVICES.get().lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
    devices.iter().try_for_each(|device| device.synchronize())
}

fn absent(device: Device, reason: String) -> DeviceFailure {
    DeviceFailure::Absent { device, reason }
}

fn failed(number: u32, what: &'static str) -> impl Fn(DriverError) -> DeviceFailure {
    move |error| DeviceFailure::Driver { device: Device::Cuda(number), what, reason: describe(error) }
}

/// Returns what a device is, and the driver's handle of it.
fn info(number: u32) -> Result<(CudaInfo, sys::CUdevice), DeviceFailure> {
    let device = Device::Cuda(number);
    let n_devices = driver().map_err(|reason| absent(device, reason))?.n_devices;
    let ordinal = i32::try_from(number).ok().filter(|_| number < n_devices);
    let ordinal = ordinal.ok_or_else(|| {
        absent(
            device,
            match n_devices {
                0 => "the driver sees no GPU".to_owned(),
                1 => "there is one GPU, 'cuda:0'".to_owned(),
                n => format!("there are {n} GPUs, 'cuda:0' to 'cuda:{}'", n - 1),
            },
        )
    })?;
    let asked = || -> Result<(CudaInfo, sys::CUdevice), DriverError> {
        let handle = result::device::get(ordinal)?;
        // SAFETY: the handle is the driver's.
        let attribute = |attribute| unsafe { result::device::get_attribute(handle, attribute) };
        let unsigned = |value: i32| u16::try_from(value).unwrap_or(0);
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let info = CudaInfo {
            number,
            name: result::device::get_name(handle)?,
            capability: (unsigned(major), unsigned(minor)),
            // SAFETY: as above.
            memory_bytes: unsafe { result::device::total_mem(handle)? } as u64,
            n_multiprocessors: u32::try_from(multiprocessors).unwrap_or(0),
        };
        Ok((info, handle))
    };
    asked().map_err(failed(number, "say what it is"))
}

/// The latest architecture whose code runs on a device of this compute capability and that a driver for this version of
/// PTX knows.
fn arch_for((major, minor): (u16, u16), ptx_version: PtxVersion) -> Option<Arch> {
    let number = major * 10 + minor;
    let is_fit = |arch: &Arch| *arch == arch.base() && arch.number() <= number && arch.ptx_version() <= ptx_version;
    Arch::all().filter(is_fit).max_by_key(|arch| arch.number())
}

/// The architecture that code for a device is made for.
fn supported_arch(info: &CudaInfo, ptx_version: PtxVersion) -> Result<Arch, DeviceFailure> {
    arch_for(info.capability, ptx_version).ok_or_else(|| {
        let ((major, minor), name) = (info.capability, &info.name);
        let reason = format!("{name} has compute capability {major}.{minor}, and 7.5 is the least that will do");
        absent(Device::Cuda(info.number), reason)
    })
}

impl CudaDevice {
    /// The device of this number.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be used.
    pub fn get(number: u32) -> Result<Arc<CudaDevice>, DeviceFailure> {
        let mut devices = DEVICES.get().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.get(&number) {
            return Ok(device.clone());
        }
        let device = Arc::new(CudaDevice::open(number)?);
        devices.insert(number, device.clone());
        Ok(device)
    }

    fn open(number: u32) -> Result<CudaDevice, DeviceFailure> {
        let (info, handle) = info(number)?;
        let ptx_version = driver().map_err(|reason| absent(Device::Cuda(number), reason))?.ptx_version;
        let arch = supported_arch(&info, ptx_version)?;
        // SAFETY: the handle is the driver's.
        let max_shared_bytes = unsafe { result::device::get_attribute(handle, MAX_SHARED) }
            .map_err(failed(number, "say how much shared memory it has"))?;
        // SAFETY: as above.
        let context = unsafe { result::primary_ctx::retain(handle) }.map_err(failed(number, "be set up"))?;
        Ok(CudaDevice { info, arch, max_shared_bytes, context: PrimaryContext(context) })
    }

    /// Returns what it is.
    pub fn info(&self) -> &CudaInfo {
        &self.info
    }

    /// Shared memory that a block may have if it asks, in bytes.
    pub(super) fn max_shared_bytes(&self) -> i32 {
        self.max_shared_bytes
    }

    /// The architecture that code for it is made for.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Waits until it has done everything it was asked for.
    ///
    /// # Errors
    ///
    /// Those of the kernels that ran.
    pub fn synchronize(&self) -> Result<(), DeviceFailure> {
        self.within("finish", result::ctx::synchronize)
    }

    /// Bytes of its memory that nothing uses.
    ///
    /// # Errors
    ///
    /// When the driver fails.
    pub fn free_bytes(&self) -> Result<u64, DeviceFailure> {
        self.within("say how much memory is free", result::mem_get_info).map(|(free, _)| free as u64)
    }

    /// Calls the driver in the device's context.
    pub(super) fn within<R>(
        &self,
        what: &'static str,
        call: impl FnOnce() -> Result<R, DriverError>,
    ) -> Result<R, DeviceFailure> {
        let _entered = EnteredContext::new(&self.context).map_err(failed(self.info.number, what))?;
        call().map_err(failed(self.info.number, what))
    }
}

/// A context is the thread's current one. Dropping it makes that the one that was it before, because other libraries of
/// the process rely on theirs.
struct EnteredContext;

impl EnteredContext {
    fn new(context: &PrimaryContext) -> Result<EnteredContext, DriverError> {
        // SAFETY: the context is live for the rest of the process.
        unsafe { sys::cuCtxPushCurrent_v2(context.0) }.result()?;
        Ok(EnteredContext)
    }
}

impl Drop for EnteredContext {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: the driver writes the context that `new` has pushed to `popped`. If it fails, the process is about to
        // end or the context is lost, and later calls say so.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
    }
}

impl MemoryBackend for CudaDevice {
    fn device(&self) -> Device {
        Device::Cuda(self.info.number)
    }

    fn alloc(&self, n_bytes: usize, skew: u8) -> Result<u64, DeviceFailure> {
        // SAFETY: asking for memory touches none.
        self.within("allocate memory", || match unsafe { result::malloc_sync(n_bytes + usize::from(skew)) } {
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
            other => other.map(|address| Some(address + u64::from(skew))),
        })?
        .ok_or(DeviceFailure::OutOfMemory { device: self.device(), n_bytes })
    }

    unsafe fn free(&self, address: u64) {
        // A device that is lost has lost its memory too.
        // SAFETY: the driver has given the multiple of 256 below the address for it, as the caller vouches, who does not
        // use it afterwards. The driver waits for kernels that may.
        let _ = self.within("free memory", || unsafe { result::free_sync(address & !0xff) });
    }

    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure> {
        // SAFETY: the caller vouches for the bytes on the device.
        self.within("copy memory to the host", || unsafe { result::memcpy_dtoh_sync(bytes, address) })
    }

    unsafe fn write(&self, to: RowLayout, bytes: &[u8]) -> Result<(), DeviceFailure> {
        if bytes.len() as u64 != to.n_bytes() {
            return Err(DeviceFailure::OutOfBounds {
                device: self.device(),
                address: to.address,
                n_bytes: bytes.len(),
            });
        }
        self.within("copy memory from the host", || match by_pitch(to) {
            // SAFETY: as in `read`, and there are as many bytes as the rows have.
            true => unsafe { copy_rows(to, CopySource::Host(bytes)) },
            false => {
                let mut rows = to.addresses().zip(bytes.chunks_exact(to.length as usize));
                // SAFETY: as in `read`.
                rows.try_for_each(|(address, row)| unsafe { result::memcpy_htod_sync(address, row) })
            }
        })
    }

    unsafe fn fill(&self, to: RowLayout, word: FillWord) -> Result<(), DeviceFailure> {
        let width = (to.length / word.n_bytes()) as usize;
        let set = |address: u64, pitch: u64, n: u64| {
            let (pitch, n) = (pitch as usize, n as usize);
            // SAFETY: as in `read`.
            unsafe {
                match (word, n) {
                    (FillWord::U8(value), 1) => sys::cuMemsetD8_v2(address, value, width),
                    (FillWord::U16(value), 1) => sys::cuMemsetD16_v2(address, value, width),
                    (FillWord::U32(value), 1) => sys::cuMemsetD32_v2(address, value, width),
                    (FillWord::U8(value), _) => sys::cuMemsetD2D8_v2(address, pitch, value, width, n),
                    (FillWord::U16(value), _) => sys::cuMemsetD2D16_v2(address, pitch, value, width, n),
                    (FillWord::U32(value), _) => sys::cuMemsetD2D32_v2(address, pitch, value, width, n),
                }
            }
            .result()
        };
        self.within("set memory", || match by_pitch(to) {
            true => set(to.address, to.pitch, to.n),
            false => to.addresses().try_for_each(|address| set(address, to.length, 1)),
        })
    }

    unsafe fn copy(&self, to: RowLayout, from: RowLayout) -> Result<(), DeviceFailure> {
        self.within("copy memory", || match by_pitch(to) && by_pitch(from) {
            // SAFETY: as in `read`.
            true => unsafe { copy_rows(to, CopySource::Device(from)) },
            false => {
                let mut rows = to.addresses().zip(from.addresses());
                // SAFETY: as in `read`.
                rows.try_for_each(|(to_row, from_row)| unsafe {
                    result::memcpy_dtod_sync(to_row, from_row, to.length as usize)
                })
            }
        })
    }
}

/// Most bytes between rows that one call of the driver takes (`CU_DEVICE_ATTRIBUTE_MAX_PITCH` of all devices so far).
const MAX_PITCH: u64 = i32::MAX as u64;

/// Returns true if one call of the driver, with a pitch, does for more than one row.
fn by_pitch(rows: RowLayout) -> bool {
    rows.n > 1 && rows.pitch <= MAX_PITCH
}

/// Says where rows are copied from.
enum CopySource<'a> {
    /// Memory of the host, where they follow each other.
    Host(&'a [u8]),
    /// Memory of the device.
    Device(RowLayout),
}

/// Copies rows to a device's memory in one call: `cuMemcpy2DUnaligned`, which takes any pitch (CUDA Driver API 13.0
/// §6.13).
///
/// # Safety
///
/// There are as many bytes. The device's addresses the driver checks.
unsafe fn copy_rows(to: RowLayout, from: CopySource<'_>) -> Result<(), DriverError> {
    let mut copy = sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: to.length as usize,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: std::ptr::null_mut(),
        dstDevice: to.address,
        dstArray: std::ptr::null_mut(),
        dstPitch: to.pitch as usize,
        WidthInBytes: to.length as usize,
        Height: to.n as usize,
    };
    match from {
        CopySource::Host(bytes) => {
            copy.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
            copy.srcHost = bytes.as_ptr().cast();
        }
        CopySource::Device(rows) => {
            copy.srcDevice = rows.address;
            copy.srcPitch = rows.pitch as usize;
        }
    }
    // SAFETY: the caller vouches for the bytes of the host.
    unsafe { sys::cuMemcpy2DUnaligned_v2(&copy) }.result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_for_the_latest_architecture_that_runs() {
        let check = |capability, ptx: &str, expect: Option<&str>| {
            let found = arch_for(capability, ptx.parse().unwrap()).map(|arch| arch.to_string());
            assert_eq!(found.as_deref(), expect, "{capability:?} {ptx}");
        };
        check((7, 0), "9.0", None);
        check((7, 5), "7.0", Some("sm_75"));
        check((8, 0), "7.0", Some("sm_80"));
        check((8, 6), "9.0", Some("sm_86"));
        check((9, 0), "8.7", Some("sm_90"));
        check((9, 0), "7.4", Some("sm_87"));
        check((10, 0), "9.0", Some("sm_100"));
        check((12, 1), "8.7", Some("sm_120"));
        check((13, 0), "9.0", Some("sm_121"));
    }

    #[test]
    fn devices_that_will_not_do_are_left_out() {
        let info = |number, capability| {
            let name = format!("GPU {number}");
            let info = CudaInfo { number, name, capability, memory_bytes: 1, n_multiprocessors: 1 };
            supported_arch(&info, "9.0".parse().unwrap()).map(|_| info)
        };
        let broken = || DeviceFailure::Driver {
            device: Device::Cuda(3),
            what: "say what it is",
            reason: "it is out of order".to_owned(),
        };
        let all = [info(0, (7, 0)), info(1, (7, 5)), info(2, (9, 0)), Err(broken())];
        let numbers: Vec<u32> = usable(all.into_iter()).unwrap().iter().map(|info| info.number).collect();
        assert_eq!(numbers, [1, 2]);
        let error = usable([info(0, (6, 1)), Err(broken())].into_iter()).unwrap_err().to_string();
        assert_eq!(
            error,
            "device 'cuda:0' is not available: GPU 0 has compute capability 6.1, and 7.5 is the least that will do"
        );
        assert_eq!(usable(std::iter::empty()), Ok(Vec::new()));
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        let error = CudaDevice::get(1000).err().unwrap();
        let message = error.to_string();
        assert!(matches!(error, DeviceFailure::Absent { device: Device::Cuda(1000), .. }), "{message}");
        assert!(message.starts_with("device 'cuda:1000' is not available: "), "{message}");
        if devices().is_err() {
            assert_eq!(synchronize(), Ok(()));
        }
    }
}
