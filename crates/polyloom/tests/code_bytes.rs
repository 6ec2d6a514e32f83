//! The code of a fixed set of kernels, byte for byte.
//!
//! A change that only moves or renames things must leave every line of `code_bytes.txt` as it is. One that means to
//! change code shows by it which kernels it reaches, and in which forms; `POLYLOOM_BLESS=1` writes the lines anew.

use polyloom::frontend::FileEnvironment;
use polyloom::{
    CpuDevice, EmitOptions, Form, FunctionKind, Kernel, Session, SourceFile, SourceMap, SourceUnit, Tier, parse_module,
};
use polyloom_codegen::Backend;
use polyloom_codegen::cranelift::CraneliftBackend;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders of the kernels, from the root of the workspace.
const FOLDERS: [&str; 7] = [
    "examples",
    "tests/filetests/backward",
    "tests/filetests/cpp",
    "tests/filetests/cuda",
    "tests/filetests/differential",
    "tests/filetests/gradients",
    "tests/filetests/run",
];

/// A hash that is the same on all machines and for all versions of Rust (FNV-1a).
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(feature = "_llvm")]
fn optimizer() -> Option<Arc<dyn Backend>> {
    Some(Arc::new(polyloom_llvm::LlvmBackend::for_cpu("x86-64-v3").unwrap()))
}

#[cfg(not(feature = "_llvm"))]
fn optimizer() -> Option<Arc<dyn Backend>> {
    None
}

/// A session whose code is the same on every x86-64 machine.
fn session() -> Session {
    Session::on(CpuDevice::new(Arc::new(CraneliftBackend::baseline().unwrap()), optimizer())).unwrap()
}

#[cfg(feature = "_compute")]
fn ptx(kernel: &Kernel) -> Option<Vec<u8>> {
    kernel.emit(Form::Ptx, &EmitOptions::for_gpu(polyloom::GpuTarget::new(polyloom::Arch::DEFAULT))).ok()
}

#[cfg(not(feature = "_compute"))]
fn ptx(_: &Kernel) -> Option<Vec<u8>> {
    None
}

/// The hashes of a kernel's forms, those that it has.
fn forms(kernel: &Kernel) -> BTreeMap<&'static str, u64> {
    let emit = |form, tier| kernel.emit(form, &EmitOptions { tier, comments: true, ..EmitOptions::default() }).ok();
    let made = [
        ("hir", emit(Form::Hir, None)),
        ("prepared", emit(Form::HirPrepared, None)),
        ("cpp", emit(Form::Cpp, None)),
        ("cuda", emit(Form::Cuda, None)),
        ("cranelift", emit(Form::Obj, Some(Tier::Quick))),
        ("llvm", emit(Form::Obj, Some(Tier::Optimized))),
        ("ptx", ptx(kernel)),
    ];
    made.into_iter().filter_map(|(form, bytes)| Some((form, hash(&bytes?)))).collect()
}

/// The kernels of a file of Python or HIR that compile: some files are of kernels that are refused.
fn kernels(session: &Session, name: &str, text: &str) -> Vec<Kernel> {
    let file = SourceFile::new(name, text, 1);
    if name.ends_with(".py") {
        let Ok(unit) = SourceUnit::parse(file) else { return Vec::new() };
        let environment = FileEnvironment::new(&unit);
        let compiled = unit.kernels().map(|index| session.compile(&environment.function(index), session.defaults()));
        return compiled.flatten().collect();
    }
    let mut sources = SourceMap::new();
    let Ok(module) = parse_module(text, sources.add(file)) else { return Vec::new() };
    let kernels = module.functions.iter().filter(|(_, function)| function.kind == FunctionKind::Kernel);
    kernels.flat_map(|(id, _)| session.compile_module(module.clone(), id, sources.clone())).collect()
}

fn sources(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = FOLDERS
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py" || extension == "hir"))
        .collect();
    files.sort();
    files
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the code that is compared is that of x86-64")]
fn code_is_what_it_was_byte_for_byte() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let session = session();
    let mut found: BTreeMap<String, BTreeMap<&'static str, u64>> = BTreeMap::new();
    for path in sources(&root) {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        for kernel in kernels(&session, &name, &std::fs::read_to_string(&path).unwrap()) {
            found.insert(format!("{name} {}", kernel.name()), forms(&kernel));
        }
    }
    let listed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code_bytes.txt");
    if std::env::var_os("POLYLOOM_BLESS").is_some() {
        let mut text = String::new();
        for (kernel, forms) in &found {
            let forms: Vec<String> = forms.iter().map(|(form, hash)| format!("{form} {hash:016x}")).collect();
            let _ = writeln!(text, "{kernel}: {}", forms.join(", "));
        }
        std::fs::write(&listed, text).unwrap();
    }
    let mut changed = Vec::new();
    let expected = std::fs::read_to_string(&listed).unwrap();
    for line in expected.lines() {
        let (kernel, forms) = line.split_once(": ").unwrap();
        let Some(now) = found.remove(kernel) else {
            changed.push(format!("{kernel} is gone"));
            continue;
        };
        for form in forms.split(", ") {
            let (form, hash) = form.split_once(' ').unwrap();
            // A build without LLVM makes some forms, and those have to be the same.
            let is_made = now.get(form).map(|now| format!("{now:016x}"));
            let can_be_absent = matches!(form, "llvm" | "ptx") && !cfg!(feature = "_compute");
            if is_made.as_deref() != Some(hash) && !(is_made.is_none() && can_be_absent) {
                changed.push(format!("{kernel}: {form}"));
            }
        }
    }
    changed.extend(found.into_keys().map(|kernel| format!("{kernel} is new")));
    assert!(changed.is_empty(), "the code of these is another than it was:\n{}", changed.join("\n"));
}
