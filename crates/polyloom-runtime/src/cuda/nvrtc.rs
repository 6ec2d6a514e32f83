//! `libnvrtc`, NVIDIA's compiler of CUDA C++ as a library (NVRTC 12 and 13, `nvrtc.h`): text to PTX. It needs no driver
//! and no GPU.

use super::assembler::ToolkitPlaces;
use libloading::Library;
use polyloom_ir::Arch;
use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// Holds what the library is called.
#[cfg(not(windows))]
const NAMES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];

/// Why there is no PTX.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NvrtcError {
    /// The library is not on this machine.
    #[error(
        "NVRTC was not found: looked for {}. `pip install nvidia-cuda-nvrtc` brings it, as does a CUDA tool kit",
        .looked.join("; ")
    )]
    NotFound {
        /// Holds what was looked for, and where.
        looked: Vec<String>,
    },
    /// The library does not work.
    #[error("{} does not work: {reason}", .library.display())]
    Broken {
        /// The place where it is.
        library: PathBuf,
        /// Holds what happened.
        reason: String,
    },
    /// It does not take the text.
    #[error("NVRTC does not take the code for {arch}: {log}")]
    Rejected {
        /// For which architecture.
        arch: Arch,
        /// Holds what it says.
        log: String,
    },
}

type Program = *mut c_void;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Program, *mut u8) -> c_int;

/// The library, loaded for the rest of the process.
#[derive(Clone, Debug)]
pub struct NvrtcLibrary {
    path: PathBuf,
    functions: NvrtcFunctions,
}

#[derive(Clone, Copy, Debug)]
struct NvrtcFunctions {
    version: Version,
    create: Create,
    destroy: Destroy,
    compile: Compile,
    ptx_size: Size,
    ptx: Bytes,
    log_size: Size,
    log: Bytes,
}

impl NvrtcLibrary {
    /// The first that is found in a CUDA tool kit (`CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`), in NVIDIA's packages for
    /// Python, or where the system keeps libraries.
    ///
    /// # Errors
    ///
    /// [`NvrtcError::NotFound`].
    pub fn find() -> Result<NvrtcLibrary, NvrtcError> {
        let places = ToolkitPlaces::of_environment();
        let loaded =
            places.libraries(&NAMES).find_map(|path| Some(NvrtcLibrary { functions: functions(&path).ok()?, path }));
        loaded.ok_or_else(|| NvrtcError::NotFound { looked: places.describe_libraries("libnvrtc").to_vec() })
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version, such as `13.0`.
    ///
    /// # Errors
    ///
    /// [`NvrtcError::Broken`].
    pub fn version(&self) -> Result<String, NvrtcError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are written and nothing is kept.
        let status = unsafe { (self.functions.version)(&mut major, &mut minor) };
        if status == 0 { Ok(format!("{major}.{minor}")) } else { Err(self.broken(format!("error {status}"))) }
    }

    /// Compiles CUDA C++ that includes nothing to PTX.
    ///
    /// # Errors
    ///
    /// [`NvrtcError`].
    pub fn compile(&self, text: &str, arch: Arch) -> Result<String, NvrtcError> {
        let option = CString::new(format!("--gpu-architecture={}", arch.to_string().replace("sm_", "compute_")));
        let (Ok(source), Ok(option)) = (CString::new(text), option) else {
            return Err(self.broken("the code has a zero byte".to_owned()));
        };
        let mut unit = NvrtcUnit { functions: self.functions, program: std::ptr::null_mut() };
        let none = std::ptr::null();
        // SAFETY: the texts outlive the calls, there are no headers, and the program is live from `create` on.
        unsafe {
            let made =
                (self.functions.create)(&mut unit.program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, none, none);
            if made != 0 {
                // There is nothing to destroy.
                std::mem::forget(unit);
                return Err(self.broken(format!("it takes no program: error {made}")));
            }
            if (self.functions.compile)(unit.program, 1, [option.as_ptr()].as_ptr()) != 0 {
                let log = unit.read(self.functions.log_size, self.functions.log).unwrap_or_default();
                return Err(NvrtcError::Rejected { arch, log: log.trim().to_owned() });
            }
            let ptx = unit.read(self.functions.ptx_size, self.functions.ptx);
            ptx.map_err(|status| self.broken(format!("it gave no PTX: error {status}")))
        }
    }

    fn broken(&self, reason: String) -> NvrtcError {
        NvrtcError::Broken { library: self.path.clone(), reason }
    }
}

fn functions(path: &Path) -> Result<NvrtcFunctions, libloading::Error> {
    // SAFETY: loading it runs its initialisers, which do nothing but set it up. It is never unloaded: the functions
    // stay valid. The types are those of its header, of which versions 12 and 13 are alike in these functions.
    unsafe {
        let library = ManuallyDrop::new(Library::new(path)?);
        Ok(NvrtcFunctions {
            version: *library.get(b"nvrtcVersion")?,
            create: *library.get(b"nvrtcCreateProgram")?,
            destroy: *library.get(b"nvrtcDestroyProgram")?,
            compile: *library.get(b"nvrtcCompileProgram")?,
            ptx_size: *library.get(b"nvrtcGetPTXSize")?,
            ptx: *library.get(b"nvrtcGetPTX")?,
            log_size: *library.get(b"nvrtcGetProgramLogSize")?,
            log: *library.get(b"nvrtcGetProgramLog")?,
        })
    }
}

/// A text that is being compiled.
struct NvrtcUnit {
    functions: NvrtcFunctions,
    program: Program,
}

impl Drop for NvrtcUnit {
    fn drop(&mut self) {
        // SAFETY: the program came from `create` and is destroyed once.
        unsafe { (self.functions.destroy)(&mut self.program) };
    }
}

impl NvrtcUnit {
    /// Returns what the library wrote: `size` says how many bytes, the last of which is zero, and `bytes` writes them.
    ///
    /// # Safety
    ///
    /// The two belong together.
    unsafe fn read(&self, size: Size, bytes: Bytes) -> Result<String, c_int> {
        let mut n_bytes = 0;
        // SAFETY: the program is live, and there is as much room as is asked for.
        let (status, text) = unsafe {
            let status = size(self.program, &mut n_bytes);
            let mut text = vec![0; n_bytes];
            (if status == 0 { bytes(self.program, text.as_mut_ptr()) } else { status }, text)
        };
        if status != 0 {
            return Err(status);
        }
        Ok(String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(&text)).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the machine has it.
    #[test]
    fn text_is_compiled_and_nonsense_refused() {
        let nvrtc = match NvrtcLibrary::find() {
            Ok(nvrtc) => nvrtc,
            Err(error) => return super::super::without_tool(&error.to_string()),
        };
        let version = nvrtc.version().unwrap();
        assert!(version.starts_with("13.") || version.starts_with("12."), "{version}");
        let text = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }";
        let ptx = nvrtc.compile(text, Arch::DEFAULT).unwrap();
        assert!(ptx.contains(".target sm_80") && ptx.contains(".entry twice"), "{ptx}");
        let error = nvrtc.compile(&text.replace("twice", "float"), Arch::DEFAULT).unwrap_err();
        assert!(matches!(&error, NvrtcError::Rejected { log, .. } if log.contains("kernel.cu(1)")), "{error}");
    }

    #[test]
    fn what_was_looked_for_is_said() {
        let looked = ToolkitPlaces::default().describe_libraries("libnvrtc").to_vec();
        let message = NvrtcError::NotFound { looked }.to_string();
        assert!(message.contains("libnvrtc in the CUDA tool kits none"), "{message}");
        assert!(message.contains("pip install nvidia-cuda-nvrtc"), "{message}");
    }
}
