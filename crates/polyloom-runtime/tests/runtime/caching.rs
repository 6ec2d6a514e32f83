//! The code cache as devices use it: what is compiled once, and what damage does.

use crate::fake::{FakeBackend, run_saxpy, saxpy, saxpy_source};
use polyloom_runtime::{CodeCache, CpuDevice, CpuKernel};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Launches saxpy on a fresh device over this directory; gives how often it was compiled and loaded.
fn launch_afresh(directory: &Path, name: &str) -> (usize, usize) {
    let backend = FakeBackend::new("fake", saxpy);
    let cache = CodeCache::in_directory(directory, 1 << 20);
    let device = Arc::new(CpuDevice::new(backend.clone(), None).with_cache(cache));
    let kernel = CpuKernel::new(device.clone(), saxpy_source(name));
    run_saxpy(&kernel, 1000);
    device.wait_for_background();
    (backend.n_compiled.load(Ordering::SeqCst), backend.n_loaded.load(Ordering::SeqCst))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(directory).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn another_process_finds_the_code_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(launch_afresh(directory.path(), "saxpy"), (1, 1));
    assert_eq!(entries(directory.path()).len(), 1);
    assert_eq!(launch_afresh(directory.path(), "saxpy"), (0, 1));
    assert_eq!(launch_afresh(directory.path(), "other"), (1, 1), "other HIR is other code");
    assert_eq!(entries(directory.path()).len(), 2);
}

#[test]
fn damaged_files_are_compiled_anew() {
    let directory = tempfile::tempdir().unwrap();
    launch_afresh(directory.path(), "saxpy");
    let file = entries(directory.path()).remove(0);
    let whole = std::fs::read(&file).unwrap();
    for damage in 0..4 {
        let mut bytes = whole.clone();
        match damage {
            0 => bytes.truncate(20),
            1 => bytes.truncate(whole.len() - 1),
            2 => bytes[whole.len() / 2] ^= 0x10,
            _ => bytes.clear(),
        }
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(launch_afresh(directory.path(), "saxpy"), (1, 1), "damage {damage}");
        assert_eq!(std::fs::read(&file).unwrap(), whole, "written anew");
    }
}

#[test]
fn an_intact_object_that_the_back_end_refuses_is_compiled_anew() {
    let directory = tempfile::tempdir().unwrap();
    launch_afresh(directory.path(), "saxpy");
    let backend = FakeBackend::refusing("fake", saxpy, 1);
    let device =
        Arc::new(CpuDevice::new(backend.clone(), None).with_cache(CodeCache::in_directory(directory.path(), 1 << 20)));
    run_saxpy(&CpuKernel::new(device, saxpy_source("saxpy")), 10);
    assert_eq!(backend.n_compiled.load(Ordering::SeqCst), 1);
}

#[test]
fn kernels_of_a_device_share_code() {
    let backend = FakeBackend::new("fake", saxpy);
    let device = Arc::new(CpuDevice::new(backend.clone(), None));
    let kernels: Vec<CpuKernel> = (0..3).map(|_| CpuKernel::new(device.clone(), saxpy_source("saxpy"))).collect();
    kernels.iter().for_each(|kernel| run_saxpy(kernel, 10));
    assert_eq!(backend.n_compiled.load(Ordering::SeqCst), 1);
    assert_eq!(backend.n_loaded.load(Ordering::SeqCst), 1);
    drop(kernels);
    run_saxpy(&CpuKernel::new(device, saxpy_source("saxpy")), 10);
    assert_eq!(backend.n_compiled.load(Ordering::SeqCst), 1, "the object outlives the code");
    assert_eq!(backend.n_loaded.load(Ordering::SeqCst), 2);
}

#[test]
fn an_unwritable_directory_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    assert_eq!(launch_afresh(&file.join("below"), "saxpy"), (1, 1));
}
