//! PTX of every kernel of the file tests, for every architecture: LLVM ends the process on what an architecture lacks,
//! so that this ends is what is shown. Where ptxas is at hand, it must take what comes out.

use crate::ptxas::ptxas;
use polyloom_codegen::{ArgFacts, CodeVariant, EmitRequest, Emitter as _, Form};
use polyloom_ir::{Arch, FileId, FuncId, Module, PtxVersion, check_arch, least_version, parse_module};
use polyloom_llvm::{GpuOptions, NvptxBackend};
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
    let options = pipeline::PipelineOptions { checked: module.functions[kernel].metadata.check, gpu: true };
    pipeline::prepared(module, kernel, &options).expect("the kernel verifies")
}

pub(crate) fn ptx(module: &Module, kernel: FuncId, arch: Arch) -> String {
    ptx_of_version(module, kernel, arch, version_for(module, kernel, arch))
}

/// The version of PTX that a kernel is written in for an architecture if nobody asks for another.
fn version_for(module: &Module, kernel: FuncId, arch: Arch) -> PtxVersion {
    let version = arch.ptx_version().max("7.0".parse().expect("it is a version"));
    version.max(least_version(module, kernel).unwrap_or(version))
}

pub(crate) fn ptx_of_version(module: &Module, kernel: FuncId, arch: Arch, version: PtxVersion) -> String {
    named_ptx(module, kernel, arch, version, "kernel")
}

fn named_ptx(module: &Module, kernel: FuncId, arch: Arch, version: PtxVersion, entry: &str) -> String {
    let variant = CodeVariant::new(1, ArgFacts::default());
    let request = EmitRequest { entry, ..EmitRequest::new(module, kernel, &variant) };
    let text = NvptxBackend::new(arch, version, GpuOptions::default())
        .emit(&request, Form::Ptx)
        .unwrap_or_else(|error| panic!("{arch}: {error}"));
    String::from_utf8(text).expect("PTX is text")
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

/// Shows that ptxas takes the PTX of kernels for each architecture that it knows and that has what they need: in one
/// run an architecture.
pub(crate) fn ptxas_takes<'m>(kernels: impl Iterator<Item = (&'m str, &'m Module, FuncId)>) {
    let Some(ptxas) = ptxas() else { return };
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let run = |command: &mut Command| command.current_dir(folder.path()).output().expect("ptxas runs");
    let help = run(Command::new(&ptxas).arg("--help"));
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let is_known = |arch: &Arch| help.contains(&format!("'{arch}'"));
    let kernels: Vec<_> = kernels.collect();
    let archs: Vec<Arch> = Arch::all().filter(is_known).collect();
    assert!(archs.len() > 10, "ptxas knows {archs:?}");
    for arch in archs {
        let mut command = Command::new(&ptxas);
        command.arg(format!("-arch={arch}")).args(["-o", "all.cubin"]);
        for (number, (name, module, kernel)) in kernels.iter().enumerate() {
            if check_arch(module, *kernel, arch).is_empty() {
                let version = version_for(module, *kernel, arch);
                let code = named_ptx(module, *kernel, arch, version, &format!("kernel_{number}"));
                // The files are one module, in which names are there once.
                let code = with_own_names(&code, number);
                let file = format!("{number}_{name}.ptx");
                std::fs::write(folder.path().join(&file), code).expect("the file is written");
                command.arg(file);
            }
        }
        let done = run(&mut command);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arch}: {said}");
    }
}

/// A text with a number behind the names of its functions and variables, but for those that are from elsewhere.
fn with_own_names(code: &str, number: usize) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_$.%".contains(c);
    let mut own: Vec<&str> = Vec::new();
    for line in code
        .lines()
        .filter(|line| [".func", ".visible .func", ".const", ".global"].iter().any(|start| line.starts_with(start)))
    {
        // A function's name stands behind its results, a variable's before its extents.
        let line = line.split_once(')').map_or(line, |(_, rest)| rest);
        let name = line.split(['(', '[', ' ', '\t']).filter(|word| !word.is_empty() && !word.starts_with('.'));
        own.extend(name.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || "_$".contains(c))).take(1));
    }
    let mut renamed = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(begin) = rest.find(is_part) {
        let length = rest[begin..].find(|c| !is_part(c)).unwrap_or(rest.len() - begin);
        let (before, word) = (&rest[..begin], &rest[begin..begin + length]);
        renamed.push_str(before);
        renamed.push_str(word);
        if own.contains(&word) {
            renamed.push_str(&format!("_{number}"));
        }
        rest = &rest[begin + length..];
    }
    renamed + rest
}
