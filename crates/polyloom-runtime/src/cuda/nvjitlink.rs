//! `libnvJitLink`, NVIDIA's linker as a library, as far as it assembles PTX (nvJitLink 13, `nvJitLink.h`).

use super::AssembleError;
use libloading::Library;
use polyloom_ir::Arch;
use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;

/// Holds what the library is called.
#[cfg(not(windows))]
pub(super) const NAMES: [&str; 2] = ["libnvJitLink.so.13", "libnvJitLink.so.12"];
#[cfg(windows)]
pub(super) const NAMES: [&str; 2] = ["nvJitLink_130_0.dll", "nvJitLink_120_0.dll"];

/// `NVJITLINK_INPUT_PTX`.
const INPUT_PTX: c_int = 2;

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type AddData = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int;
type Complete = unsafe extern "C" fn(Handle) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Handle, *mut u8) -> c_int;

/// The library's functions.
#[derive(Clone, Copy)]
struct NvJitLinkFunctions {
    create: Create,
    destroy: Destroy,
    add_data: AddData,
    complete: Complete,
    cubin_size: Size,
    cubin: Bytes,
    log_size: Size,
    log: Bytes,
}

/// Returns true if the library is there and one that we know.
pub(super) fn can_load(path: &Path) -> bool {
    functions(path).is_ok()
}

/// Loads the library, for the rest of the process.
fn functions(path: &Path) -> Result<NvJitLinkFunctions, String> {
    // SAFETY: loading it runs its initialisers, which do nothing but set it up. It is never unloaded: the functions
    // stay valid. The types are those of its header, of which versions 12 and 13 are alike in these functions.
    unsafe {
        let library = ManuallyDrop::new(Library::new(path).map_err(|error| error.to_string())?);
        // Names end in the version they came with, and later libraries of a major version have them all.
        let version = ["13_0", "12_0"]
            .into_iter()
            .find(|version| library.get::<Create>(format!("__nvJitLinkCreate_{version}").as_bytes()).is_ok());
        let version = version.ok_or("it has no functions of nvJitLink 12 or 13")?;
        macro_rules! function {
            ($name:literal) => {{
                let symbol = library.get(format!(concat!("__nvJitLink", $name, "_{}"), version).as_bytes());
                *symbol.map_err(|error| error.to_string())?
            }};
        }
        Ok(NvJitLinkFunctions {
            create: function!("Create"),
            destroy: function!("Destroy"),
            add_data: function!("AddData"),
            complete: function!("Complete"),
            cubin_size: function!("GetLinkedCubinSize"),
            cubin: function!("GetLinkedCubin"),
            log_size: function!("GetErrorLogSize"),
            log: function!("GetErrorLog"),
        })
    }
}

/// A linker at work.
struct NvJitLinker {
    functions: NvJitLinkFunctions,
    handle: Handle,
}

impl Drop for NvJitLinker {
    fn drop(&mut self) {
        // SAFETY: the handle came from `create` and is destroyed once.
        unsafe { (self.functions.destroy)(&mut self.handle) };
    }
}

impl NvJitLinker {
    /// Returns what the library wrote: `size` says how many bytes, `bytes` writes them.
    ///
    /// # Safety
    ///
    /// The two belong together.
    unsafe fn read(&self, size: Size, bytes: Bytes) -> Result<Vec<u8>, c_int> {
        let mut n_bytes = 0;
        // SAFETY: the handle is live, and there is as much room as is asked for.
        unsafe {
            succeeded(size(self.handle, &mut n_bytes))?;
            let mut text = vec![0; n_bytes];
            succeeded(bytes(self.handle, text.as_mut_ptr()))?;
            Ok(text)
        }
    }
}

fn succeeded(status: c_int) -> Result<(), c_int> {
    if status == 0 { Ok(()) } else { Err(status) }
}

/// Assembles PTX for one architecture.
pub(super) fn assemble(library: &Path, ptx: &str, arch: Arch) -> Result<Vec<u8>, AssembleError> {
    let broken = |reason: String| AssembleError::Broken { assembler: library.to_owned(), reason };
    let functions = functions(library).map_err(&broken)?;
    let options = [format!("-arch={arch}"), "-lineinfo".to_owned()].map(|option| CString::new(option).ok());
    let [Some(target), Some(lines)] = &options else { return Err(broken("an option has a zero byte".to_owned())) };
    let options = [target.as_ptr(), lines.as_ptr()];
    let source = CString::new(ptx).map_err(|_| broken("the code has a zero byte".to_owned()))?;
    let mut linker = NvJitLinker { functions, handle: std::ptr::null_mut() };
    // SAFETY: the options and the code outlive the calls, and the handle is live from `create` on.
    unsafe {
        if let Err(status) = succeeded((functions.create)(&mut linker.handle, options.len() as u32, options.as_ptr())) {
            // There is nothing to destroy.
            std::mem::forget(linker);
            return Err(broken(format!("it cannot be set up for {arch}: error {status}")));
        }
        let text = source.as_bytes_with_nul();
        let added =
            (functions.add_data)(linker.handle, INPUT_PTX, text.as_ptr().cast(), text.len(), c"kernel".as_ptr());
        let done = succeeded(added).and_then(|()| succeeded((functions.complete)(linker.handle)));
        if let Err(status) = done {
            let log = linker.read(functions.log_size, functions.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).trim_matches(['\0', '\n', ' ']).to_owned();
            let log = if log.is_empty() { format!("error {status}") } else { log };
            return Err(AssembleError::Rejected { assembler: library.to_owned(), arch, log });
        }
        let cubin = linker.read(functions.cubin_size, functions.cubin);
        cubin.map_err(|status| broken(format!("it gave no cubin: error {status}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_such_library_is_said() {
        let missing = Path::new("/nonexistent/libnvJitLink.so.13");
        assert!(!can_load(missing));
        let error = assemble(missing, "", Arch::DEFAULT).unwrap_err();
        assert!(matches!(&error, AssembleError::Broken { assembler, .. } if assembler == missing), "{error}");
    }

    /// Where Python's environment has the library.
    #[test]
    fn it_assembles_as_the_program_does() {
        let folders =
            std::env::var_os("VIRTUAL_ENV").map(|folder| super::super::assembler::package_folders(folder.as_ref()));
        let libraries = folders.unwrap_or_default().into_iter().flat_map(|folder| {
            let folders = std::fs::read_dir(folder.join("nvidia")).into_iter().flatten().flatten();
            folders.flat_map(|folder| NAMES.map(|name| folder.path().join("lib").join(name)))
        });
        let Some(library) = libraries.into_iter().find(|path| can_load(path)) else {
            return super::super::without_tool("no libnvJitLink in an active Python environment");
        };
        let text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";
        let made = assemble(&library, text, Arch::DEFAULT).unwrap();
        assert_eq!(&made[..4], b"\x7fELF");
        let error = assemble(&library, &text.replace("ret", "rte"), Arch::DEFAULT).unwrap_err();
        assert!(matches!(&error, AssembleError::Rejected { log, .. } if log.contains("rte")), "{error}");
    }
}
