//! GPU code of a kernel, as text: no GPU is needed to make it.

#[cfg(not(feature = "_compute"))]
mod absent;
#[cfg(feature = "_compute")]
mod llvm;

use crate::emit_options::{EmitError, EmitOptions, GpuTarget};
use crate::kernel::Kernel;
#[cfg(not(feature = "_compute"))]
use absent as backend;
#[cfg(feature = "_compute")]
use llvm as backend;
use polyloom_codegen::{CodegenError, Emitter, Form, entry_name, gpu_parameter_bytes};
use polyloom_frontend::CompileError;
use polyloom_ir::verify::{check_arch, check_version, least_version};
use polyloom_ir::{Arch, Code, Diagnostic, PtxVersion};
use polyloom_ptx::FatBinaryWriter;
use std::fmt::Display;
use std::path::PathBuf;

/// Bytes of parameters that any version of PTX allows.
const OLDEST_PARAMETER_BYTES: u32 = 4352;

/// Bytes of parameters that the versions from [`LARGE_PARAMETERS`] on allow.
const MOST_PARAMETER_BYTES: u32 = 32_764;

/// Since when a kernel may have more than [`OLDEST_PARAMETER_BYTES`] (PTX ISA, "Kernel Function Parameters").
const LARGE_PARAMETERS: PtxVersion = PtxVersion { major: 8, minor: 1 };

/// Returns true if this build makes PTX.
pub const fn has_compute() -> bool {
    cfg!(feature = "_compute")
}

impl Kernel {
    /// The name of the kernel's entry in GPU code.
    pub fn gpu_entry(&self) -> String {
        entry_name(self.function(), "cuda")
    }

    /// The kernel's PTX, assembled: a cubin, which runs on GPUs of the target's architecture alone. No GPU is needed,
    /// but NVIDIA's assembler is, which [`find_assembler`] looks for.
    ///
    /// # Errors
    ///
    /// As [`Kernel::emit`], and if there is no assembler or it does not take the PTX.
    pub(crate) fn cubin(&self, target: &GpuTarget) -> Result<Vec<u8>, EmitError> {
        let ptx = self.emit_text(Form::Ptx, &EmitOptions::for_gpu(*target))?;
        Ok(backend::assemble(self, &ptx, target.arch).map_err(failed)?)
    }

    /// The kernel's code for several targets in one image, of which a driver loads what fits its GPU best: the PTX of each
    /// and, where [`find_assembler`] finds NVIDIA's assembler, a cubin of each. No GPU is needed.
    ///
    /// # Errors
    ///
    /// As [`Kernel::emit`] for the first of the targets for which there is no code, and if there is an assembler that does
    /// not take the PTX.
    pub fn fatbin(&self, targets: &[GpuTarget]) -> Result<Vec<u8>, EmitError> {
        let has_assembler = find_assembler().is_ok();
        let mut writer = FatBinaryWriter::new();
        for (index, target) in targets.iter().enumerate() {
            if targets[..index].iter().any(|before| before.arch == target.arch) {
                continue;
            }
            let ptx = self.emit_text(Form::Ptx, &EmitOptions::for_gpu(*target))?;
            writer.add_ptx(target.arch, &ptx);
            if has_assembler {
                writer.add_cubin(target.arch, &backend::assemble(self, &ptx, target.arch).map_err(failed)?);
            }
        }
        Ok(writer.finish())
    }

    /// Tells whether GPUs of an architecture have all that the kernel asks for.
    ///
    /// # Errors
    ///
    /// What they have not.
    pub fn check_arch(&self, arch: Arch) -> Result<(), CompileError> {
        let (module, kernel) = self.for_gpus()?;
        let beyond = check_arch(module, kernel, arch);
        if beyond.is_empty() { Ok(()) } else { Err(self.rejected(beyond)) }
    }

    /// The version of PTX that is written: what was asked for, or the least that the architecture and the kernel need.
    pub(crate) fn ptx_version(&self, target: &GpuTarget) -> Result<PtxVersion, EmitError> {
        let mut version = target.version()?;
        self.check_parameters()?;
        let (module, kernel) = self.for_gpus()?;
        if target.ptx_version.is_none() {
            version = version.max(least_version(module, kernel).unwrap_or(version));
        }
        let mut beyond = check_version(module, kernel, version);
        let bytes = gpu_parameter_bytes(self.function());
        if bytes > OLDEST_PARAMETER_BYTES && version < LARGE_PARAMETERS {
            if target.ptx_version.is_none() {
                return Ok(LARGE_PARAMETERS);
            }
            let message =
                format!("the kernel has {bytes} B of parameters: PTX {version} allows {OLDEST_PARAMETER_BYTES} B");
            let help = format!("ask for PTX {LARGE_PARAMETERS} or later, or for no version");
            beyond.push(Diagnostic::error(Code::Arch, self.function().span, message).help(help));
        }
        if beyond.is_empty() { Ok(version) } else { Err(self.rejected(beyond).into()) }
    }

    /// Tells whether GPUs allow the kernel as many parameters.
    pub(crate) fn check_parameters(&self) -> Result<(), CompileError> {
        let bytes = gpu_parameter_bytes(self.function());
        if bytes <= MOST_PARAMETER_BYTES {
            return Ok(());
        }
        let message = format!("the kernel has {bytes} B of parameters: GPUs allow at most {MOST_PARAMETER_BYTES} B");
        let error = Diagnostic::error(Code::Arch, self.function().span, message);
        Err(self.rejected(vec![error.help("pass some of them in arrays")]))
    }
}

/// What writes code for GPUs.
pub(crate) fn gpu_emitter(target: &GpuTarget, version: PtxVersion) -> Result<Box<dyn Emitter>, CodegenError> {
    backend::emitter(target, version)
}

/// Returns where NVIDIA's assembler is.
///
/// # Errors
///
/// When there is none: what was looked for.
pub fn find_assembler() -> Result<PathBuf, CodegenError> {
    backend::PtxAssembler::find().map(|assembler| assembler.path().to_owned()).map_err(failed)
}

/// NVIDIA's assembler, for what it says of PTX, if the machine has it.
pub struct PtxasProgram(backend::PtxasProgram);

impl PtxasProgram {
    /// Looks for the program where [`find_assembler`] does.
    ///
    /// # Errors
    ///
    /// When there is none: what was looked for.
    pub fn find() -> Result<PtxasProgram, CodegenError> {
        backend::PtxasProgram::find().map(PtxasProgram).map_err(failed)
    }

    /// Returns what `ptxas --verbose` says of PTX: registers, memory and spills.
    ///
    /// # Errors
    ///
    /// If it does not take the PTX.
    pub fn log(&self, ptx: &str, arch: Arch) -> Result<String, CodegenError> {
        self.0.log(ptx, arch).map_err(failed)
    }

    /// Its version, such as `13.0.88`.
    ///
    /// # Errors
    ///
    /// If it does not say.
    pub fn version(&self) -> Result<String, CodegenError> {
        self.0.version().map_err(failed)
    }
}

/// NVIDIA's compiler of CUDA C++, if the machine has it.
pub struct NvrtcCompiler(backend::NvrtcLibrary);

impl NvrtcCompiler {
    /// Looks for the library in CUDA tool kits and in NVIDIA's packages for Python.
    ///
    /// # Errors
    ///
    /// When there is none: what was looked for.
    pub fn find() -> Result<NvrtcCompiler, CodegenError> {
        backend::NvrtcLibrary::find().map(NvrtcCompiler).map_err(failed)
    }

    /// Compiles CUDA C++ that includes nothing, as [`Kernel::text`] gives it, to PTX.
    ///
    /// # Errors
    ///
    /// What the compiler does not take.
    pub fn compile(&self, text: &str, arch: Arch) -> Result<String, CodegenError> {
        self.0.compile(text, arch).map_err(failed)
    }

    /// Its version, such as `13.0`.
    ///
    /// # Errors
    ///
    /// If it does not say.
    pub fn version(&self) -> Result<String, CodegenError> {
        self.0.version().map_err(failed)
    }
}

fn failed(error: impl Display) -> CodegenError {
    CodegenError::new(error.to_string())
}

/// Says in which folders Python's packages are, NVIDIA's among them.
pub fn set_package_folders(folders: Vec<PathBuf>) {
    backend::set_package_folders(folders);
}
