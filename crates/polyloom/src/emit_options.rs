//! What code can be asked for, and why there may be none.

use polyloom_codegen::{CodegenError, GridShape};
use polyloom_frontend::CompileError;
use polyloom_ir::{Arch, PtxVersion};
use polyloom_runtime::{DeviceFailure, Tier};

/// Holds what is written unless the architecture needs a later version.
const OLDEST_VERSION: PtxVersion = PtxVersion { major: 7, minor: 0 };

/// Describes what GPU code is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GpuTarget {
    /// The architecture.
    pub arch: Arch,
    /// The version of PTX; by default the least that the architecture needs, or 7.0.
    pub ptx_version: Option<PtxVersion>,
    /// Says how the threads of a launch come to their elements.
    pub shape: GridShape,
    /// True if the code says which lines of source it is for.
    pub lines: bool,
    /// True if the code is for launches of at most 2^27 threads with arrays that are dense, begin at multiples of 64
    /// bytes and do not overlap, or for any.
    pub dense: bool,
}

impl GpuTarget {
    /// Code for any arrays, with line information, by this architecture's own version of PTX.
    pub fn new(arch: Arch) -> GpuTarget {
        GpuTarget { arch, ptx_version: None, shape: GridShape::default(), lines: true, dense: false }
    }

    /// The version of PTX that is written.
    ///
    /// # Errors
    ///
    /// When the version asked for does not know the architecture or is not one that there is.
    pub fn version(&self) -> Result<PtxVersion, CodegenError> {
        let least = self.arch.ptx_version();
        let Some(version) = self.ptx_version else { return Ok(least.max(OLDEST_VERSION)) };
        if version < least {
            let message = format!("PTX {version} does not know {}, which needs PTX {least}", self.arch);
            return Err(CodegenError::new(message));
        }
        if !PtxVersion::ALL.contains(&version) {
            let known: Vec<String> = PtxVersion::ALL.iter().map(|version| version.to_string()).collect();
            let message = format!("PTX {version} cannot be written; the versions are {}", known.join(", "));
            return Err(CodegenError::new(message));
        }
        Ok(version)
    }
}

/// Describes the code that is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmitOptions {
    /// The tier whose back end makes LLVM IR, assembly and object files; unless given, the best there is, and of code of
    /// many thousand instructions the one that does not take seconds for it.
    pub tier: Option<Tier>,
    /// What code for GPUs is made for; unless given, any arrays on the architecture that the kernel names, or on
    /// [`Arch::DEFAULT`].
    pub gpu: Option<GpuTarget>,
    /// True if lines of the kernel's source stand in C++ and CUDA C++ before what they became.
    pub comments: bool,
}

impl EmitOptions {
    /// Code for this GPU.
    pub fn for_gpu(target: GpuTarget) -> EmitOptions {
        EmitOptions { gpu: Some(target), ..EmitOptions::default() }
    }
}

/// Why a kernel has no code in a form.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// This build does not make the form, or the back end is not up to the kernel.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// The kernel asks for more than the architecture has.
    #[error(transparent)]
    Rejected(#[from] CompileError),
    /// A device does not take the code.
    #[error(transparent)]
    Device(#[from] DeviceFailure),
}
