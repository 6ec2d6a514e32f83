//! CUDA devices: what they are, and the context that everything of them happens in.
//!
//! That is the primary context, which other libraries of the process share.

use super::captures::Captures;
use super::driver::{describe, driver, error_name, is_started};
use super::memory::DriverPool;
use super::memory_pool::MemoryPool;
use super::stream::{CudaStream, SharedEvent};
use crate::device::{DeviceFailure, DeviceId, DeviceProperties};
use crate::fork::PerProcess;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{DriverError, result, sys};
use polyloom_ir::{Arch, PtxVersion};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A device, ready to run kernels.
pub struct CudaDevice {
    number: u32,
    properties: DeviceProperties,
    arch: Arch,
    handle: sys::CUdevice,
    context: PrimaryContext,
    /// The allocations, and those that arrays have given back.
    pub(super) memory: Mutex<MemoryPool<Arc<CudaStream>>>,
    /// The pool of the driver's that memory comes from; nothing if it has none.
    pub(super) driver_pool: OnceLock<Option<DriverPool>>,
    /// True unless memory is to come from the driver without its pools.
    pub(super) uses_driver_pool: AtomicBool,
    pub(super) legacy: OnceLock<Arc<CudaStream>>,
    /// True once there are other streams than the default one.
    pub(super) has_streams: AtomicBool,
    /// An event for one stream to wait for another.
    pub(super) order_event: Mutex<SharedEvent>,
    /// Holds what is known of streams that are captured.
    pub(super) captures: Captures,
}

/// A device's primary context. It is kept for the rest of the process, because arrays may live as long.
struct PrimaryContext(sys::CUcontext);

// SAFETY: a context is a handle, which any thread may make its current one, several at once.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above.
unsafe impl Sync for PrimaryContext {}

/// The devices that are in use.
static DEVICES: PerProcess<Mutex<BTreeMap<u32, Arc<CudaDevice>>>> = PerProcess::new();

/// The devices of this machine that kernels can run on. Others, too old or out of order, are left out.
///
/// # Errors
///
/// When there is no driver, or none of its devices will do: why the first does not.
pub fn devices() -> Result<Vec<DeviceProperties>, DeviceFailure> {
    let driver = driver().map_err(|reason| absent(DeviceId::Cuda(0), reason))?;
    usable((0..driver.n_devices).map(properties))
}

/// Those that are none of the failures; the first failure if there is nothing else.
fn usable(
    devices: impl Iterator<Item = Result<DeviceProperties, DeviceFailure>>,
) -> Result<Vec<DeviceProperties>, DeviceFailure> {
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

/// Describes the device of this number, without setting it up.
///
/// # Errors
///
/// When there is none, or it is too old.
pub fn properties(number: u32) -> Result<DeviceProperties, DeviceFailure> {
    described(number).map(|(properties, _, _)| properties)
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
    devices.iter().try_for_each(|device| device.synchronize_all())
}

/// The numbers of the devices that are in use.
pub fn open_devices() -> Vec<u32> {
    if !is_started() {
        return Vec::new();
    }
    DEVICES.get().lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
}

/// Returns true if kernels of a device may use memory of another one, where both are told to.
///
/// # Errors
///
/// When one is not there, or the driver fails.
pub fn can_access_peer(target: u32, peer: u32) -> Result<bool, DeviceFailure> {
    let (target, peer) = (CudaDevice::get(target)?, CudaDevice::get(peer)?);
    if target.number == peer.number {
        return Ok(true);
    }
    let mut can = 0;
    target.within("say whether another device reaches it", || {
        // SAFETY: the handles are the driver's, and the pointer is to an integer of this function's.
        unsafe { sys::cuDeviceCanAccessPeer(&mut can, peer.handle, target.handle) }.result()
    })?;
    Ok(can != 0)
}

/// Says whether kernels of a device reach the memory of another one that comes from the driver without its pools.
///
/// # Errors
///
/// When the device cannot, or the driver fails.
pub fn set_peer_access(target: u32, peer: u32, is_wanted: bool) -> Result<(), DeviceFailure> {
    let (target, peer) = (CudaDevice::get(target)?, CudaDevice::get(peer)?);
    if target.number == peer.number {
        return Ok(());
    }
    peer.within("reach the memory of another device", || {
        // SAFETY: both contexts are live for the rest of the process.
        let done = unsafe {
            match is_wanted {
                true => sys::cuCtxEnablePeerAccess(target.context.0, 0),
                false => sys::cuCtxDisablePeerAccess(target.context.0),
            }
        };
        use sys::CUresult as E;
        match done {
            E::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED | E::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED => Ok(()),
            other => other.result(),
        }
    })
}

fn absent(device: DeviceId, reason: String) -> DeviceFailure {
    DeviceFailure::Absent { device, reason }
}

fn failed(number: u32, what: &'static str) -> impl Fn(DriverError) -> DeviceFailure {
    move |error| DeviceFailure::Driver {
        device: DeviceId::Cuda(number),
        what,
        reason: describe(error),
        code: error.0 as u32,
        name: error_name(error),
    }
}

/// Describes a device; gives the architecture that code for it is made for, and the driver's handle of it.
fn described(number: u32) -> Result<(DeviceProperties, Arch, sys::CUdevice), DeviceFailure> {
    let device = DeviceId::Cuda(number);
    let driver = driver().map_err(|reason| absent(device, reason))?;
    let n_devices = driver.n_devices;
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
    let asked = || -> Result<(DeviceProperties, sys::CUdevice), DriverError> {
        let handle = result::device::get(ordinal)?;
        // SAFETY: the handle is the driver's.
        let attribute = |attribute| unsafe { result::device::get_attribute(handle, attribute) };
        let unsigned = |value: i32| u16::try_from(value).unwrap_or(0);
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        // A driver that does not know one says nothing of it.
        let number = |which| attribute(which).ok().and_then(|value| u32::try_from(value).ok());
        let properties = DeviceProperties {
            id: device.to_string(),
            name: result::device::get_name(handle)?,
            architecture: String::new(),
            capability: Some((unsigned(major), unsigned(minor))),
            n_multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            warp_size: number(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
            threads_per_block: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            threads_per_multiprocessor: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
            blocks_per_multiprocessor: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
            shared_bytes_per_block: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
            opt_in_shared_bytes_per_block: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            shared_bytes_per_multiprocessor: number(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            ),
            registers_per_block: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
            registers_per_multiprocessor: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
            clock_khz: number(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            memory_clock_khz: number(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
            memory_bus_bits: number(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
            // SAFETY: as above.
            memory_bytes: Some(unsafe { result::device::total_mem(handle)? } as u64),
            l2_bytes: number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).map(u64::from),
        };
        Ok((properties, handle))
    };
    let (properties, handle) = asked().map_err(failed(number, "say what it is"))?;
    let arch = supported_arch(number, &properties, driver.ptx_version)?;
    Ok((DeviceProperties { architecture: arch.to_string(), ..properties }, arch, handle))
}

/// The latest architecture whose code runs on a device of this compute capability and that a driver for this version of
/// PTX knows.
fn arch_for((major, minor): (u16, u16), ptx_version: PtxVersion) -> Option<Arch> {
    let number = major * 10 + minor;
    let is_fit = |arch: &Arch| *arch == arch.base() && arch.number() <= number && arch.ptx_version() <= ptx_version;
    Arch::all().filter(is_fit).max_by_key(|arch| arch.number())
}

/// The architecture that code for a device is made for.
fn supported_arch(number: u32, device: &DeviceProperties, ptx_version: PtxVersion) -> Result<Arch, DeviceFailure> {
    let (major, minor) = device.capability.unwrap_or_default();
    arch_for((major, minor), ptx_version).ok_or_else(|| {
        let name = &device.name;
        let reason = format!("{name} has compute capability {major}.{minor}, and 7.5 is the least that will do");
        absent(DeviceId::Cuda(number), reason)
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
        let (properties, arch, handle) = described(number)?;
        // SAFETY: the handle is the driver's.
        let context = unsafe { result::primary_ctx::retain(handle) }.map_err(failed(number, "be set up"))?;
        let quarter = usize::try_from(properties.memory_bytes.unwrap_or(0) / 4).unwrap_or(usize::MAX);
        Ok(CudaDevice {
            number,
            properties,
            arch,
            handle,
            context: PrimaryContext(context),
            memory: Mutex::new(MemoryPool::new(quarter)),
            driver_pool: OnceLock::new(),
            uses_driver_pool: AtomicBool::new(true),
            legacy: OnceLock::new(),
            has_streams: AtomicBool::new(false),
            order_event: Mutex::default(),
            captures: Captures::default(),
        })
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Describes it.
    pub(super) fn described(&self) -> &DeviceProperties {
        &self.properties
    }

    /// Its context.
    pub(super) fn context(&self) -> sys::CUcontext {
        self.context.0
    }

    /// The driver's handle of it.
    pub(super) fn handle(&self) -> sys::CUdevice {
        self.handle
    }

    /// Shared memory that a block may have if it asks, in bytes.
    pub(super) fn max_shared_bytes(&self) -> i32 {
        let bytes = self.properties.opt_in_shared_bytes_per_block.or(self.properties.shared_bytes_per_block);
        bytes.and_then(|bytes| i32::try_from(bytes).ok()).unwrap_or(0)
    }

    /// The architecture that code for it is made for.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Waits until all its queues have done everything.
    ///
    /// # Errors
    ///
    /// Those of the kernels that ran.
    pub fn synchronize_all(&self) -> Result<(), DeviceFailure> {
        self.check_not_captured("waiting for the device")?;
        self.within("finish", result::ctx::synchronize)
    }

    /// Calls the driver in the device's context.
    pub(super) fn within<R>(
        &self,
        what: &'static str,
        call: impl FnOnce() -> Result<R, DriverError>,
    ) -> Result<R, DeviceFailure> {
        let _entered = EnteredContext::new(&self.context).map_err(failed(self.number, what))?;
        call().map_err(failed(self.number, what))
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
            let (name, id) = (format!("GPU {number}"), format!("cuda:{number}"));
            let info = DeviceProperties { id, name, capability: Some(capability), ..DeviceProperties::default() };
            supported_arch(number, &info, "9.0".parse().unwrap()).map(|_| info)
        };
        let broken = || DeviceFailure::Driver {
            device: DeviceId::Cuda(3),
            what: "say what it is",
            reason: "it is out of order".to_owned(),
            code: 1,
            name: "CUDA_ERROR_INVALID_VALUE".to_owned(),
        };
        let all = [info(0, (7, 0)), info(1, (7, 5)), info(2, (9, 0)), Err(broken())];
        let ids: Vec<String> = usable(all.into_iter()).unwrap().into_iter().map(|info| info.id).collect();
        assert_eq!(ids, ["cuda:1", "cuda:2"]);
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
        assert!(matches!(error, DeviceFailure::Absent { device: DeviceId::Cuda(1000), .. }), "{message}");
        assert!(message.starts_with("device 'cuda:1000' is not available: "), "{message}");
        if devices().is_err() {
            assert_eq!(synchronize(), Ok(()));
        }
    }
}
