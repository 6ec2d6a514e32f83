//! Modules: text, fat binaries, links, libraries, variables, and what is wrong with them.

use crate::driver::{in_child, is_child, start};
use crate::kernels::{SAXPY, download, function, launch, load, upload};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::process::Command;

const NO_STREAM: sys::CUstream = std::ptr::null_mut();

fn saxpy_runs(function: sys::CUfunction) {
    let (x, out) = (upload(&[1f32, 2.0]), upload(&[1f32, 1.0]));
    launch(function, (1, 32), NO_STREAM, &[&2f32, &x, &out, &2u32]).unwrap();
    assert_eq!(download::<f32>(out, 2), [3.0, 5.0]);
}

/// The log of a load that fails, and its error.
fn refused(text: &str) -> (CUresult, String) {
    let text = CString::new(text).unwrap();
    let (mut log, room) = (vec![0u8; 4096], 4096usize);
    let mut options =
        [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(room)];
    let mut module = std::ptr::null_mut();
    // SAFETY: the log has the room that is said.
    let error = unsafe {
        sys::cuModuleLoadDataEx(&mut module, text.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
    };
    let length = values[1].addr() as u32 as usize;
    (error, String::from_utf8(log[..length].to_vec()).unwrap())
}

#[test]
fn what_is_wrong_is_in_the_log() {
    start();
    let (error, log) = refused(".version 7.1\n.target sm_80\n.address_size 64\n.visible .entry k() { nonsense; }");
    // The instruction is decoded when its kernel is asked for, the text is read at once.
    assert_eq!((error, log.as_str()), (CUresult::CUDA_SUCCESS, ""), "{error:?}");
    let (error, log) = refused(".version 7.1\n.target sm_80\n.visible .entry k( { }");
    assert_eq!(error, CUresult::CUDA_ERROR_INVALID_PTX);
    assert!(log.starts_with("PTX line 3:"), "{log}");
    let (error, log) = refused(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }");
    assert_eq!(error, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_eq!(
        log,
        "the module is for sm_90a, the device is sm_86: compile for sm_86, or set POLYLOOM_GPU_ARCH to sm_90a"
    );
    let (error, log) = refused("\x7fELF\x02\x01\x01");
    assert!(error == CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU && log.contains("code=compute_80"), "{log}");
}

#[test]
fn kernels_that_are_not_there_or_cannot_run() {
    start();
    let module = load(".version 7.1\n.target sm_80\n.address_size 64\n.visible .entry k() { nonsense; }");
    let find = |name: &str| {
        // SAFETY: the module is loaded.
        unsafe { result::module::get_function(module, CString::new(name).unwrap()) }.unwrap_err().0
    };
    assert_eq!(find("k"), CUresult::CUDA_ERROR_INVALID_PTX);
    assert_eq!(find("other"), CUresult::CUDA_ERROR_NOT_FOUND);
    // SAFETY: the module is unloaded once, and then no more.
    unsafe {
        result::module::unload(module).unwrap();
        assert_eq!(result::module::unload(module).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
}

#[test]
fn variables_have_addresses_and_sizes() {
    start();
    let module = load(
        ".version 7.1\n.target sm_80\n.address_size 64\n.visible .global .align 4 .u32 counts[3] = {1, 2, 3};\n\
         .visible .const .align 8 .f64 scale = 0d3FF8000000000000;",
    );
    let find = |name: &str| {
        // SAFETY: the module is loaded.
        unsafe { result::module::get_global(module, CString::new(name).unwrap()) }
    };
    let (counts, size) = find("counts").unwrap();
    assert_eq!((size, download::<u32>(counts, 3)), (12, vec![1, 2, 3]));
    let (scale, size) = find("scale").unwrap();
    assert_eq!((size, download::<f64>(scale, 1)), (8, vec![1.5]));
    assert_eq!(find("other").unwrap_err().0, CUresult::CUDA_ERROR_NOT_FOUND);
}

#[test]
fn libraries_have_kernels_that_are_launched_as_functions() {
    start();
    let text = CString::new(SAXPY).unwrap();
    let (mut library, mut kernel, mut function) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the text ends in a zero byte, and the library is unloaded after its use.
    unsafe {
        let none = std::ptr::null_mut();
        let image = text.as_ptr().cast();
        sys::cuLibraryLoadData(&mut library, image, none, none.cast(), 0, none.cast(), none.cast(), 0)
            .result()
            .unwrap();
        let mut count = 0;
        sys::cuLibraryGetKernelCount(&mut count, library).result().unwrap();
        assert_eq!(count, 1);
        sys::cuLibraryGetKernel(&mut kernel, library, c"saxpy".as_ptr()).result().unwrap();
        sys::cuKernelGetFunction(&mut function, kernel).result().unwrap();
        saxpy_runs(function);
        saxpy_runs(kernel.cast());
        let mut name = std::ptr::null();
        sys::cuFuncGetName(&mut name, function).result().unwrap();
        assert_eq!(std::ffi::CStr::from_ptr(name), c"saxpy");
        sys::cuLibraryUnload(library).result().unwrap();
    }
}

#[test]
fn links_hand_ptx_through() {
    start();
    // A kernel that calls what another module defines.
    let caller = "
        .version 7.1
        .target sm_80
        .address_size 64
        .extern .func (.reg .u32 r) answer();
        .visible .entry ask(.param .u64 out) {
            .reg .u32 %r; .reg .u64 %rd;
            call (%r), answer;
            ld.param.u64 %rd, [out];
            st.global.u32 [%rd], %r;
            ret;
        }";
    let callee =
        ".version 7.1\n.target sm_80\n.address_size 64\n.visible .func (.reg .u32 r) answer() { mov.u32 r, 42; ret; }";
    // SAFETY: the texts outlive the calls, and the link its result.
    unsafe {
        let (mut link, none) = (std::ptr::null_mut(), std::ptr::null_mut());
        sys::cuLinkCreate_v2(0, none, none.cast(), &mut link).result().unwrap();
        for text in [caller, callee] {
            let kind = sys::CUjitInputType::CU_JIT_INPUT_PTX;
            let data = text.as_ptr().cast_mut().cast();
            sys::cuLinkAddData_v2(link, kind, data, text.len(), c"part".as_ptr(), 0, none, none.cast())
                .result()
                .unwrap();
        }
        let (mut cubin, mut size) = (std::ptr::null_mut(), 0);
        sys::cuLinkComplete(link, &mut cubin, &mut size).result().unwrap();
        assert!(size > callee.len());
        let module = result::module::load_data(cubin).unwrap();
        sys::cuLinkDestroy(link).result().unwrap();
        let out = upload(&[0u32]);
        launch(function(module, "ask"), (1, 1), NO_STREAM, &[&out]).unwrap();
        assert_eq!(download::<u32>(out, 1), [42]);
    }
}

/// NVIDIA's tool of this name, among what the tests' Python has.
fn tool(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let root = root.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../.venv-test").into());
    let libraries = std::fs::read_dir(root.join("lib")).ok()?.flatten();
    let packages = libraries.map(|folder| folder.path().join("site-packages/nvidia"));
    let tools = packages.flat_map(|packages| std::fs::read_dir(packages).into_iter().flatten().flatten());
    tools.map(|package| package.path().join("bin").join(name)).find(|path| path.exists())
}

#[test]
fn fat_binaries_give_the_ptx_that_fits() {
    let Some(fatbinary) = tool("fatbinary") else {
        assert!(!std::env::var("POLYLOOM_REQUIRE_PTXAS").is_ok_and(|value| value == "1"), "fatbinary is missing");
        eprintln!("skipped: NVIDIA's fatbinary is not installed");
        return;
    };
    start();
    let folder = std::env::temp_dir().join(format!("polyloom-fat-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (text, newer, fat) = (folder.join("a.ptx"), folder.join("b.ptx"), folder.join("all.fatbin"));
    std::fs::write(&text, SAXPY).unwrap();
    let other = SAXPY.replace(".version 7.1", ".version 8.0").replace("sm_80", "sm_90").replace("saxpy", "newer");
    std::fs::write(&newer, other).unwrap();
    for options in [&["--compress-all"][..], &["--compress=false"], &[]] {
        let mut command = Command::new(&fatbinary);
        command.arg("--create").arg(&fat).arg("-64").args(options);
        for (arch, path) in [("80", &text), ("90", &newer)] {
            command.arg(format!("--image3=kind=ptx,sm={arch},file={}", path.display()));
        }
        let done = command.output().unwrap();
        assert!(done.status.success(), "{options:?}: {}", String::from_utf8_lossy(&done.stderr));
        let bytes = std::fs::read(&fat).unwrap();
        // SAFETY: a fat binary says how long it is.
        let module = unsafe { result::module::load_data(bytes.as_ptr().cast()) };
        let module = module.unwrap_or_else(|error| panic!("{options:?}: {error:?}"));
        saxpy_runs(function(module, "saxpy"));
        // The struct by which programs of nvcc name it.
        #[repr(C)]
        struct Wrapper(u32, u32, *const u8, *const u8);
        let wrapper = Wrapper(0x4662_43b1, 1, bytes.as_ptr(), std::ptr::null());
        // SAFETY: as above.
        let module = unsafe { result::module::load_data((&raw const wrapper).cast()) }.unwrap();
        saxpy_runs(function(module, "saxpy"));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn modules_are_unloaded_whole() {
    if !is_child() {
        // Other tests of this process use memory too.
        in_child("modules::modules_are_unloaded_whole", &[]);
        return;
    }
    start();
    // The variables are as large as what has to be seen.
    let text = SAXPY.replace(".address_size 64", ".address_size 64\n.visible .global .align 8 .b8 table[4194304];");
    let in_use = || {
        let (free, total) = result::mem_get_info().unwrap();
        total - free
    };
    let use_once = || {
        let module = load(&text);
        saxpy_runs(function(module, "saxpy"));
        // SAFETY: the module is unloaded once.
        unsafe { result::module::unload(module) }.unwrap();
    };
    use_once();
    let before = in_use();
    (0..8).for_each(|_| use_once());
    // What the launches used is 16 bytes each, in blocks of 512 at most.
    assert!(in_use() < before + 64 * 1024, "{before} to {}", in_use());
    let module = load(&text);
    assert!(in_use() >= before + 4_194_304);
    // SAFETY: the module is unloaded once.
    unsafe { result::module::unload(module) }.unwrap();
    assert!(in_use() < before + 64 * 1024);
}

#[test]
fn tables_that_the_driver_lacks_are_not_found() {
    start();
    let mut table = std::ptr::dangling();
    let id = sys::CUuuid { bytes: [7; 16] };
    // SAFETY: the pointers are to variables.
    let error = unsafe { sys::cuGetExportTable(&mut table, &id) };
    assert!(error == CUresult::CUDA_ERROR_NOT_FOUND && table.is_null());
}
