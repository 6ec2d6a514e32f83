//! The driver's errors: numbers, names and meanings (CUDA Driver API 13.0 §6.1).

use std::ffi::{CStr, c_int};

/// The value that an entry point returns: zero, or the number of an error.
pub(crate) type CuResult = c_int;

/// An error of the driver API.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CudaError(pub(crate) CuResult);

macro_rules! errors {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        impl CudaError {
            $(#[doc = $meaning] #[allow(dead_code, reason = "programs ask for names of errors that are never returned")] pub(crate) const $name: CudaError = CudaError($number);)*
        }

        /// Numbers, names and meanings.
        const ERRORS: &[(CuResult, &str, &str)] = &[
            (0, "CUDA_SUCCESS\0", "no error\0"),
            $(($number, concat!("CUDA_ERROR_", stringify!($name), "\0"), concat!($meaning, "\0")),)*
        ];
    };
}

errors! {
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_IMAGE = 200, "device kernel image is invalid";
    INVALID_CONTEXT = 201, "invalid device context";
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    UNSUPPORTED_LIMIT = 215, "limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these two devices";
    INVALID_PTX = 218, "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "the provided PTX was compiled with an unsupported toolchain.";
    INVALID_SOURCE = 300, "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "file not found";
    OPERATING_SYSTEM = 304, "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "invalid resource handle";
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709, "context is destroyed";
    ASSERT = 710, "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "operation not supported on global/shared address space";
    INVALID_PC = 718, "invalid program counter";
    LAUNCH_FAILED = 719, "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch";
    NOT_PERMITTED = 800, "operation not permitted";
    NOT_SUPPORTED = 801, "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = 902, "operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = 903, "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capturing stream";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    INVALID_CLUSTER_SIZE = 912, "cluster misconfiguration";
    UNKNOWN = 999, "unknown error";
}

/// The result of a call of the driver.
pub(crate) type Outcome<T = ()> = Result<T, CudaError>;

impl CudaError {
    /// Returns true if nothing works in the process after it: "This leaves the process in an inconsistent state".
    pub(crate) fn loses_the_device(self) -> bool {
        matches!(
            self,
            CudaError::ILLEGAL_ADDRESS
                | CudaError::LAUNCH_TIMEOUT
                | CudaError::ASSERT
                | CudaError::HARDWARE_STACK_ERROR
                | CudaError::ILLEGAL_INSTRUCTION
                | CudaError::MISALIGNED_ADDRESS
                | CudaError::INVALID_ADDRESS_SPACE
                | CudaError::INVALID_PC
                | CudaError::LAUNCH_FAILED
        )
    }

    /// Its name, such as `CUDA_ERROR_INVALID_VALUE`.
    pub(crate) fn name(number: CuResult) -> Option<&'static CStr> {
        let (_, name, _) = ERRORS.iter().find(|(known, _, _)| *known == number)?;
        CStr::from_bytes_with_nul(name.as_bytes()).ok()
    }

    /// Returns its meaning, in words.
    pub(crate) fn meaning(number: CuResult) -> Option<&'static CStr> {
        let (_, _, meaning) = ERRORS.iter().find(|(known, _, _)| *known == number)?;
        CStr::from_bytes_with_nul(meaning.as_bytes()).ok()
    }
}
