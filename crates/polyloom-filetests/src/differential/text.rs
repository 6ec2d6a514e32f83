//! Random kernels as C++ text, through a C++ compiler: many in one file, since it takes long to start.

use super::compare::{Disagreement, EngineSet, LaunchOutcome, ProgramArguments, compare};
use super::program::RandomProgram;
use polyloom::{LaunchError, TextOptions, TextTarget, write_text};
use polyloom_codegen::LaunchContext;
use polyloom_codegen::LoadedCode as _;
use polyloom_codegen::conformance::text::{BLOCK_WORDS, CompiledTexts, CppCompiler, KernelBatch, TextEntry};
use polyloom_frontend::{FileEnvironment, FrontendOptions as Defaults, SourceUnit, compile_kernel};
use polyloom_ir::LaunchConfig;
use polyloom_ir::{FuncId, Function, MAX_DIMS, Module, SourceFile, Type};
use polyloom_passes::PipelineOptions;
use polyloom_passes::text::for_text;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = "C++ text";

/// C++ text as an engine.
pub struct TextEngine {
    compiler: CppCompiler,
    folder: PathBuf,
}

impl TextEngine {
    /// The engine with this compiler, which leaves its files in `folder`; `None` if there is no such compiler.
    pub fn new(compiler: &str, folder: PathBuf) -> Option<TextEngine> {
        let compiler = CppCompiler::find(compiler)?.without_warnings();
        Some(TextEngine { compiler, folder })
    }

    /// Runs programs with arguments drawn from their seeds and compares them with the interpreter. Gives the numbers of
    /// those that differ.
    pub fn check(&self, engines: &EngineSet, programs: &[(u64, RandomProgram)]) -> Vec<(usize, Box<Disagreement>)> {
        let mut found = Vec::new();
        let mut batch = KernelBatch::default();
        let mut texts = Vec::new();
        for (index, (_, program)) in programs.iter().enumerate() {
            match text_of(program) {
                Ok((text, function)) => {
                    batch.add(&text, &function);
                    texts.push(Some((text, function)));
                }
                Err(error) => {
                    found.push((index, error));
                    texts.push(None);
                }
            }
        }
        let library = batch.compile(&self.compiler, &self.folder).unwrap_or_default();
        for (index, (text, (seed, program))) in texts.into_iter().zip(programs).enumerate() {
            let Some((text, function)) = text else { continue };
            if let Err(error) = self.compare(engines, program, *seed, &text, &function, &library) {
                found.push((index, error));
            }
        }
        found
    }

    fn compare(
        &self,
        engines: &EngineSet,
        program: &RandomProgram,
        seed: u64,
        text: &str,
        function: &Function,
        library: &CompiledTexts,
    ) -> Result<(), Box<Disagreement>> {
        let expected = engines.reference(program, seed)?;
        let alone;
        let entry = match library.get(text) {
            Some(entry) => entry,
            None => {
                // Something in its file does not compile: perhaps not this.
                let mut batch = KernelBatch::default();
                batch.add(text, function);
                let compiled = batch.compile(&self.compiler, &self.folder);
                alone = compiled.map_err(|error| Box::new(Disagreement::Text(error)))?;
                let missing = || Box::new(Disagreement::Text("the kernel is missing".to_owned()));
                alone.get(text).ok_or_else(missing)?
            }
        };
        let ProgramArguments { dim, scalars, mut buffers } = ProgramArguments::draw(program, seed);
        let mut block: Vec<u64> = Vec::new();
        let (mut scalars, mut arrays) = (scalars.into_iter(), buffers.iter_mut());
        for &param in function.params() {
            for ty in function.ty(param).components() {
                match ty {
                    Type::Scalar(_) | Type::Composite(_) => block.push(scalars.next().unwrap_or(0)),
                    Type::Array { .. } | Type::CompositeArray { .. } => {
                        let Some(buffer) = arrays.next() else { continue };
                        block.push(buffer.base() as u64);
                        block.extend(&buffer.shape);
                        block.extend(buffer.strides.iter().map(|&stride| stride as u64));
                    }
                }
            }
        }
        let n_threads: u64 = dim.iter().product();
        let grid = program.is_in_blocks().then(|| {
            let metadata = &function.metadata;
            LaunchConfig::of_threads(n_threads, metadata.block(), metadata.shared_bytes.unwrap_or(0))
        });
        // SAFETY: the block is laid out as the function's parameters say and its arrays outlive the call; the
        // interpreter has run the same program with the same arguments.
        let trapped = unsafe { launch(&entry, block, &dim, grid) };
        match (&expected.done, trapped) {
            (Ok(()), false) => compare(NAME, &expected, &LaunchOutcome::of_buffers(buffers, n_threads)),
            // Stored values depend on where the other threads stop.
            (Err(LaunchError::Trap(_)), true) => Ok(()),
            (Ok(()), true) => Err(Box::new(Disagreement::Text("reports a failed check".to_owned()))),
            (Err(LaunchError::Trap(trap)), false) => {
                Err(Box::new(Disagreement::Text(format!("does not report `{trap}`"))))
            }
            (Err(error), _) => Err(Box::new(Disagreement::Failed { engine: "interpreter", error: error.clone() })),
        }
    }
}

extern "C" fn trap(context: *const LaunchContext, _: u32, _: i64, _: i64, _: u64) {
    // SAFETY: `launch` passes a context whose data is an `AtomicBool` that outlives the call.
    unsafe { (*(*context).data.cast::<AtomicBool>()).store(true, Ordering::Relaxed) };
}

extern "C" fn print(_: *const LaunchContext, _: u32, _: *const u64) {}

/// A program's text, and the function it is of. What it prints is not compared, and left out.
fn text_of(program: &RandomProgram) -> Result<(String, Function), Box<Disagreement>> {
    let rejected = |error| Box::new(Disagreement::Rejected(Box::new(error)));
    let file = SourceFile::new("generated.py", program.text.as_str(), 1);
    let unit = SourceUnit::parse(file).map_err(rejected)?;
    let named = |&index: &usize| unit.functions().get(index).is_some_and(|function| &*function.name == "kernel");
    let missing = || Box::new(Disagreement::Text("there is no kernel".to_owned()));
    let index = unit.kernels().find(named).ok_or_else(missing)?;
    let function = FileEnvironment::new(&unit).function(index);
    let compiled = compile_kernel(&function, &Defaults::default()).map_err(rejected)?;
    let checked = compiled.module.functions[compiled.kernel].metadata.check;
    let options = PipelineOptions { checked, gpu: false };
    let written = written(&compiled.module, compiled.kernel, &options);
    written.map_err(|message| Box::new(Disagreement::Text(message)))
}

/// A kernel's text, in which nothing is printed, and the function whose parameters it has.
///
/// # Errors
///
/// Why there is no such text.
pub(crate) fn written(
    module: &Module,
    kernel: FuncId,
    options: &PipelineOptions,
) -> Result<(String, Function), String> {
    let text = write_text(module, kernel, options, TextTarget::Cpp, &TextOptions::default())
        .map_err(|error| error.to_string())?;
    let written = for_text(module, kernel, options)
        .map_err(|errors| errors.first().map_or_else(String::new, |error| error.message.clone()))?;
    let mut function = written.module.functions[written.kernel].clone();
    if let Some(plan) = &written.blocks {
        // The text declares what the launch of compiled code makes.
        let (n, body) = (plan.n_arguments(function.params().len()), function.body);
        function.regions[body].params.truncate(n);
        function.param_names.truncate(n);
    }
    Ok((text.replace("#include <cstdio>\n", "").replace("printf(\"", "ignore(\""), function))
}

/// Launches the compiled text of a kernel over all threads of a launch or, if it runs a block at a time, all blocks of
/// the grid. Gives whether a check fails.
///
/// # Safety
///
/// The block must be laid out as the kernel's parameters say, and its arrays must hold what the kernel accesses.
pub(crate) unsafe fn launch(entry: &TextEntry, mut block: Vec<u64>, dim: &[u64], grid: Option<LaunchConfig>) -> bool {
    let mut n_steps = dim.iter().product();
    if let Some(grid) = grid {
        n_steps = grid.n_blocks();
        let words: [u32; BLOCK_WORDS] = {
            let ([a, b, c], [x, y, z]) = (grid.grid, grid.block);
            [a, b, c, x, y, z, grid.shared_bytes]
        };
        block.extend(words.map(u64::from));
    }
    let trapped = AtomicBool::new(false);
    let mut shape = [1; MAX_DIMS];
    shape[..dim.len()].copy_from_slice(dim);
    let context = LaunchContext { shape, trap, print, data: (&raw const trapped).cast_mut().cast::<c_void>() };
    // SAFETY: as the caller promises; the context outlives the call.
    unsafe { entry.entry()(block.as_ptr().cast(), &context, 0, n_steps) };
    trapped.into_inner()
}
