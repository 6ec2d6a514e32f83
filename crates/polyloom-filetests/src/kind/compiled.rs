//! What file tests run, as C++ text through a C++ compiler: launches of kernels that end well, and programs on which
//! engines once disagreed.

use super::differential;
use super::python;
use super::run::RunDirective;
use super::value::ValueReader;
use crate::case::{TestCase, find_inputs};
use crate::differential::{EngineSet, TextEngine, launch, written};
use polyloom_codegen::conformance::text::{CppCompiler, KernelBatch, TextEntry};
use polyloom_ir::interp::{BufferMemory, InterpArg, Interpreter};
use polyloom_ir::{FunctionKind, Module};
use polyloom_passes::PipelineOptions;
use polyloom_passes::transform::scalarise::scalarise;
use std::path::Path;

/// A launch of a file test.
struct TestLaunch {
    /// The file and the line.
    place: String,
    directive: RunDirective,
    /// The module with composites taken apart, to which the directive refers.
    module: Module,
    text: String,
}

/// Runs what the file tests under `root` launch as C++ text through a compiler, which leaves its files in `folder`.
/// Gives how many launches and programs there were, or what went wrong; `None` if there is no such compiler.
///
/// # Errors
///
/// What differs from what the files say, a text for each.
pub fn run_texts(root: &Path, compiler: &str, folder: &Path) -> Option<Result<usize, Vec<String>>> {
    let found = CppCompiler::find(compiler)?;
    // Beside the libraries of the launches, which stay loaded.
    let engine = TextEngine::new(compiler, folder.join("programs"))?;
    let (mut failures, mut launches, mut programs) = (Vec::new(), Vec::new(), Vec::new());
    let made = std::fs::create_dir_all(folder.join("programs"));
    failures.extend(made.err().map(|error| format!("{}: {error}", folder.display())));
    let mut batch = KernelBatch::default();
    for path in find_inputs(root).0 {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let done = TestCase::read(&path, &name).and_then(|case| match case.test.as_str() {
            "run" => collect(&case, &name, &mut batch, &mut launches),
            "differential" => differential::program(&case).map(|program| programs.push(program)),
            _ => Ok(()),
        });
        failures.extend(done.err().map(|message| format!("{name}: {message}")));
    }
    match batch.compile(&found, folder) {
        Ok(library) => {
            for launch in &launches {
                let entry = library.get(&launch.text).ok_or_else(|| "its text is missing".to_owned());
                let done = entry.and_then(|entry| launch.check(&entry));
                failures.extend(done.err().map(|message| format!("{}: {message}\n{}", launch.place, launch.text)));
            }
        }
        Err(message) => failures.push(message),
    }
    match EngineSet::new() {
        Ok(engines) => {
            let found = engine.check(&engines, &programs);
            failures.extend(found.into_iter().map(|(index, error)| format!("{error}\n{}", programs[index].1.text)));
        }
        Err(error) => failures.push(error.to_string()),
    }
    Some(if failures.is_empty() { Ok(launches.len() + programs.len()) } else { Err(failures) })
}

/// Writes the texts of the kernels that a file launches.
fn collect(case: &TestCase, name: &str, batch: &mut KernelBatch, launches: &mut Vec<TestLaunch>) -> Result<(), String> {
    let hir = if case.is_python() { None } else { Some(case.module(true)?) };
    for (line, text) in case.directives("run:") {
        let module = match &hir {
            Some(module) => module.clone(),
            None => python::module(case, &ValueReader::new(text).function_name()?)?,
        };
        let mut flat = module.clone();
        scalarise(&mut flat);
        let directive = RunDirective::parse(text, &flat)?;
        if flat.functions[directive.func].kind != FunctionKind::Kernel || !directive.leaves_arrays() {
            continue;
        }
        let options = PipelineOptions { checked: module.functions[directive.func].metadata.check, gpu: false };
        let (text, function) =
            written(&module, directive.func, &options).map_err(|message| format!("line {line}: {message}"))?;
        batch.add(&text, &function);
        launches.push(TestLaunch { place: format!("{name}, line {line}"), directive, module: flat, text });
    }
    Ok(())
}

impl TestLaunch {
    fn check(&self, entry: &TextEntry) -> Result<(), String> {
        let func = self.directive.func;
        let interpreter = Interpreter::new(&self.module, func).map_err(|error| error.to_string())?;
        let mut memory = BufferMemory::default();
        let arguments = self.directive.arguments(&mut memory);
        let mut block: Vec<u64> = Vec::new();
        for (argument, &param) in arguments.iter().zip(self.module.functions[func].params()) {
            match *argument {
                InterpArg::Scalar(bits) => block.push(bits),
                InterpArg::Array(array) => {
                    let ndim =
                        self.module.functions[func].ty(param).as_array().map_or(0, |(_, ndim)| usize::from(ndim));
                    let buffer = &mut memory.buffers[array.buffer as usize];
                    block.push(buffer.as_mut_ptr() as u64 + array.offset as u64);
                    block.extend(array.extents[..ndim].iter().map(|&extent| extent as u64));
                    block.extend(array.strides[..ndim].iter().map(|&stride| stride as u64));
                }
            }
        }
        let shape = &self.directive.shape;
        let grid = interpreter.needs_blocks().then(|| interpreter.default_grid(shape.iter().product()));
        // SAFETY: the block is laid out as the kernel's parameters say, its arrays outlive the call, and the
        // interpreter runs the same launch to its end in the file's own test.
        if unsafe { launch(entry, block, shape, grid) } {
            return Err("reports a failed check".to_owned());
        }
        self.directive.compare_arrays(&memory, &arguments)
    }
}
