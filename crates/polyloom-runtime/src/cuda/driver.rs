//! NVIDIA's driver: whether it is there, what it takes, and what its errors say.

use crate::fork::PerProcess;
use cudarc::driver::{DriverError, result, sys};
use polyloom_ir::PtxVersion;
use std::sync::OnceLock;

/// The driver, once it has started.
pub(super) struct CudaDriver {
    /// The latest version of PTX that it compiles.
    pub(super) ptx_version: PtxVersion,
    /// Number of devices it has.
    pub(super) n_devices: u32,
}

/// The driver does not survive a fork, and says so to the child.
static DRIVER: PerProcess<OnceLock<Result<CudaDriver, String>>> = PerProcess::new();

/// The driver, started by the first call of a process.
///
/// # Errors
///
/// Why there is none.
pub(super) fn driver() -> Result<&'static CudaDriver, String> {
    DRIVER.get().get_or_init(start).as_ref().map_err(Clone::clone)
}

/// Returns true if a driver has been asked for and is there.
pub(super) fn is_started() -> bool {
    DRIVER.get().get().is_some_and(Result::is_ok)
}

fn start() -> Result<CudaDriver, String> {
    // SAFETY: looking loads the library, whose initialisers do nothing but set it up.
    if !unsafe { sys::is_culib_present() } {
        return Err("NVIDIA's driver is not installed: there is no library libcuda".to_owned());
    }
    if let Some(symbol) = missing_symbol() {
        return Err(format!("NVIDIA's driver is damaged or none that there is: libcuda has no `{symbol}`"));
    }
    let failed = |error| format!("NVIDIA's driver does not start: {}", describe(error));
    result::init().map_err(failed)?;
    let mut version = 0;
    // SAFETY: the pointer is to an integer of this function's.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(failed)?;
    let Some(ptx_version) = ptx_version_of(version) else {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(format!("NVIDIA's driver is for CUDA {major}.{minor}, and 11.0 is the first that will do"));
    };
    let n_devices = result::device::get_count().map_err(failed)?;
    Ok(CudaDriver { ptx_version, n_devices: u32::try_from(n_devices).unwrap_or(0) })
}

/// A function that the library lacks. All are looked for, because cudarc panics when one that is missing is called.
fn missing_symbol() -> Option<&'static str> {
    const SYMBOLS: [&str; 62] = [
        "cuInit",
        "cuDriverGetVersion",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuDeviceGet",
        "cuDeviceGetCount",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuDeviceTotalMem_v2",
        "cuDevicePrimaryCtxRetain",
        "cuCtxPushCurrent_v2",
        "cuCtxPopCurrent_v2",
        "cuCtxSynchronize",
        "cuMemGetInfo_v2",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuMemcpy2DUnaligned_v2",
        "cuMemsetD8Async",
        "cuMemsetD16Async",
        "cuMemsetD32Async",
        "cuMemsetD2D8Async",
        "cuMemsetD2D16Async",
        "cuMemsetD2D32Async",
        "cuStreamCreate",
        "cuStreamDestroy_v2",
        "cuStreamSynchronize",
        "cuStreamWaitEvent",
        "cuEventCreate",
        "cuEventDestroy_v2",
        "cuEventRecord",
        "cuEventQuery",
        "cuEventSynchronize",
        "cuEventElapsedTime",
        "cuModuleLoadDataEx",
        "cuModuleUnload",
        "cuModuleGetFunction",
        "cuFuncGetAttribute",
        "cuFuncSetAttribute",
        "cuLaunchKernel",
        "cuLaunchHostFunc",
        "cuCtxGetStreamPriorityRange",
        "cuStreamCreateWithPriority",
        "cuStreamGetFlags",
        "cuStreamGetPriority",
        "cuStreamQuery",
        "cuPointerGetAttribute",
        "cuMemcpy2DAsync_v2",
        "cuMemHostAlloc",
        "cuMemFreeHost",
        "cuMemHostRegister_v2",
        "cuMemHostUnregister",
        "cuMemAllocManaged",
        "cuMemPrefetchAsync",
        "cuDeviceCanAccessPeer",
        "cuCtxEnablePeerAccess",
        "cuCtxDisablePeerAccess",
        "cuLaunchCooperativeKernel",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuOccupancyMaxPotentialBlockSize",
    ];
    SYMBOLS.into_iter().find(|symbol| !has_symbols(&[symbol]))
}

/// Returns true if the library has functions that not all drivers have.
pub(super) fn has_symbols(symbols: &[&str]) -> bool {
    // SAFETY: the library is there, as a driver that has started is, and no symbol is called.
    let library = unsafe { sys::culib() };
    // SAFETY: as above.
    symbols.iter().all(|symbol| unsafe { library.get::<*const ()>(symbol.as_bytes()) }.is_ok())
}

/// The latest version of PTX that a driver of this version of CUDA compiles (12080 for CUDA 12.8): the release history
/// in PTX ISA 9.0 §13.
fn ptx_version_of(cuda: i32) -> Option<PtxVersion> {
    const FIRST: [(i32, u8, u8); 19] = [
        (11000, 7, 0),
        (11010, 7, 1),
        (11020, 7, 2),
        (11030, 7, 3),
        (11040, 7, 4),
        (11050, 7, 5),
        (11060, 7, 6),
        (11070, 7, 7),
        (11080, 7, 8),
        (12000, 8, 0),
        (12010, 8, 1),
        (12020, 8, 2),
        (12030, 8, 3),
        (12040, 8, 4),
        (12050, 8, 5),
        (12070, 8, 6),
        (12080, 8, 7),
        (12090, 8, 8),
        (13000, 9, 0),
    ];
    let latest = FIRST.iter().rev().find(|(first, _, _)| *first <= cuda);
    latest.map(|&(_, major, minor)| PtxVersion { major, minor })
}

/// The driver's name of an error, such as `CUDA_ERROR_INVALID_VALUE`; its number if it has none.
pub(super) fn error_name(error: DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|_| (error.0 as u32).to_string())
}

/// Returns what an error of the driver's says: its name, and what that means.
pub(super) fn describe(error: DriverError) -> String {
    let text = |text: Result<&std::ffi::CStr, DriverError>| text.map(|text| text.to_string_lossy().into_owned());
    let mut message = match (text(error.error_name()), text(error.error_string())) {
        (Ok(name), Ok(meaning)) => format!("{meaning} ({name})"),
        _ => format!("error {}", error.0 as u32),
    };
    if loses_the_device(error.0) {
        message += "; the device is lost to this process. Launch with device='sim:0' to see where a kernel goes wrong";
    }
    message
}

/// Returns true if nothing works on the device after this error: "This leaves the process in an inconsistent state"
/// (CUDA Driver API 13.0 §6.1).
fn loses_the_device(error: sys::CUresult) -> bool {
    use sys::CUresult as E;
    matches!(
        error,
        E::CUDA_ERROR_ILLEGAL_ADDRESS
            | E::CUDA_ERROR_LAUNCH_TIMEOUT
            | E::CUDA_ERROR_ASSERT
            | E::CUDA_ERROR_HARDWARE_STACK_ERROR
            | E::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | E::CUDA_ERROR_MISALIGNED_ADDRESS
            | E::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | E::CUDA_ERROR_INVALID_PC
            | E::CUDA_ERROR_LAUNCH_FAILED
            | E::CUDA_ERROR_ECC_UNCORRECTABLE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_compiles() {
        let check = |cuda, expect: Option<&str>| {
            assert_eq!(ptx_version_of(cuda).map(|version| version.to_string()).as_deref(), expect, "{cuda}");
        };
        check(10020, None);
        check(11000, Some("7.0"));
        check(11080, Some("7.8"));
        check(12060, Some("8.5"));
        check(12080, Some("8.7"));
        check(13000, Some("9.0"));
        check(14000, Some("9.0"));
    }

    /// Without a driver that is what is said, by each call; with one it has devices, or says why not.
    #[test]
    fn a_missing_driver_is_an_error() {
        // SAFETY: as in `start`.
        let is_present = unsafe { sys::is_culib_present() };
        match (driver(), is_present) {
            (Ok(driver), true) => assert!(is_started() && driver.ptx_version.major >= 7),
            (Err(reason), true) => assert!(reason.starts_with("NVIDIA's driver"), "{reason}"),
            (Err(reason), false) => assert!(reason.contains("is not installed") && !is_started(), "{reason}"),
            (Ok(_), false) => panic!("there is no driver"),
        }
        assert_eq!(driver().err(), driver().err());
    }
}
