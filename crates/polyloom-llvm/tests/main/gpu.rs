//! PTX of every kernel of the file tests, for every architecture: LLVM ends the process on what an architecture lacks,
//! so that this ends is what is shown. Where ptxas is at hand, it must take what comes out.

use crate::ptxas::ptxas;
use polyloom_codegen::{Emit, Facts, GridShape, Variant};
use polyloom_ir::{Arch, FileId, FuncId, Module, PtxVersion, check_arch, parse_module};
use polyloom_llvm::{GpuOptions, Nvptx};
use polyloom_passes::pipeline;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The kernels of a module as back ends get them.
fn prepared(text: &str) -> Vec<(String, Module, FuncId)> {
    let module = parse_module(text, FileId::from_u32(0)).expect("the file is HIR");
    let kernels = module.functions.iter().filter(|(_, function)| function.kind == polyloom_ir::FunctionKind::Kernel);
    let prepare = |(id, function): (FuncId, &polyloom_ir::Function)| {
        let (prepared, kernel) = prepare(&module, id);
        (function.name.to_string(), prepared, kernel)
    };
    kernels.map(prepare).collect()
}

/// A kernel as back ends get it.
pub(crate) fn prepare(module: &Module, kernel: FuncId) -> (Module, FuncId) {
    let options = pipeline::Options { checked: module.functions[kernel].metadata.check, gpu: true };
    pipeline::prepared(module, kernel, &options).expect("the kernel verifies")
}

pub(crate) fn ptx(module: &Module, kernel: FuncId, arch: Arch) -> String {
    ptx_of_version(module, kernel, arch, arch.ptx_version().max("7.0".parse().expect("it is a version")))
}

pub(crate) fn ptx_of_version(module: &Module, kernel: FuncId, arch: Arch, version: PtxVersion) -> String {
    let variant = Variant { launch_rank: 1, facts: Facts::default() };
    let options = GpuOptions { shape: GridShape::OneThreadEach, sources: None };
    let text = Nvptx::new(arch, version).emit(module, kernel, &variant, options, "kernel", Emit::Asm);
    String::from_utf8(text.unwrap_or_else(|error| panic!("{arch}: {error}"))).expect("PTX is text")
}

fn files() -> Vec<(PathBuf, String)> {
    let folder = root().join("tests/filetests/run");
    let entries =
        std::fs::read_dir(folder).expect("there are file tests").map(|entry| entry.expect("it is read").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "hir")).collect();
    files.sort();
    let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(path).expect("the file is read"));
    files.into_iter().map(read).collect()
}

#[test]
fn every_kernel_on_every_architecture() {
    for (_, text) in files() {
        for (_, module, kernel) in prepared(&text) {
            for arch in Arch::all().filter(|&arch| check_arch(&module, kernel, arch).is_empty()) {
                assert!(ptx(&module, kernel, arch).contains(&format!(".target {arch}")));
            }
        }
    }
}

#[test]
fn ptxas_takes_every_kernel() {
    let kernels: Vec<(String, Module, FuncId)> = files().iter().flat_map(|(_, text)| prepared(text)).collect();
    ptxas_takes(kernels.iter().map(|(name, module, kernel)| (name.as_str(), module, *kernel)));
}

/// Shows that ptxas takes the PTX of kernels, for some architectures that have what they need.
pub(crate) fn ptxas_takes<'m>(kernels: impl Iterator<Item = (&'m str, &'m Module, FuncId)>) {
    let Some(ptxas) = ptxas() else { return };
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let archs = ["sm_75", "sm_80", "sm_90a", "sm_120"].map(|arch| arch.parse().expect("it is an architecture"));
    for (name, module, kernel) in kernels {
        for arch in archs.into_iter().filter(|&arch: &Arch| check_arch(module, kernel, arch).is_empty()) {
            let code = ptx(module, kernel, arch);
            let source = folder.path().join("kernel.ptx");
            std::fs::write(&source, &code).expect("the file is written");
            let mut command = Command::new(&ptxas);
            command.arg(format!("-arch={arch}")).arg("-o").arg(folder.path().join("kernel.cubin")).arg(&source);
            let done = command.output().expect("ptxas runs");
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "`{name}` for {arch}: {said}\n{code}");
        }
    }
}
