//! C++ text as an engine: many kernels in few files, each a namespace of its own, compiled into a shared library and
//! called like any compiled kernel.
//!
//! A C++ compiler takes a second for what back ends do in a millisecond, so a suite runs twice: the first time the
//! interpreter stands in and the kernels are collected, the second time they are there.

use super::EngineSubject;
use super::launch::ReadyKernel;
use crate::abi::{ArgLayout, KernelEntry};
use crate::backend::{CodeVariant, LoadedCode};
use crate::cpp::{CppOptions, TextSemantics, TextTarget, emit, kernel_name};
use polyloom_ir::interp::Interpreter;
use polyloom_ir::{FuncId, Function, Module, Scalar, Type};
use rustc_hash::FxHashMap;
use std::ffi::{CString, c_void};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// A C++ compiler and how it is called.
#[derive(Clone, Debug)]
pub struct CppCompiler {
    /// The program.
    pub program: String,
    /// Its arguments before those of the file.
    pub arguments: Vec<String>,
}

impl CppCompiler {
    /// A compiler of this name with warnings as errors; `None` if there is none.
    pub fn find(program: &str) -> Option<CppCompiler> {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        let arguments =
            ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared", "-x", "c++"];
        let arguments = arguments.map(str::to_owned).to_vec();
        found.is_ok_and(|status| status.success()).then(|| CppCompiler { program: program.to_owned(), arguments })
    }
}

impl CppCompiler {
    /// The same compiler for kernels that nobody wrote, of which it may well warn.
    #[must_use]
    pub fn without_warnings(mut self) -> CppCompiler {
        self.arguments.retain(|argument| argument != "-Werror" && !argument.starts_with("-W"));
        self.arguments.push("-w".to_owned());
        self
    }
}

/// Kernels to be compiled together.
#[derive(Default)]
pub struct KernelBatch {
    /// For each text, its number.
    numbers: FxHashMap<String, usize>,
    units: Vec<String>,
}

impl KernelBatch {
    /// Adds a kernel's text.
    pub fn add(&mut self, text: &str, kernel: &Function) {
        if !self.numbers.contains_key(text) {
            let number = self.units.len();
            self.numbers.insert(text.to_owned(), number);
            self.units.push(unit(text, kernel, number));
        }
    }

    /// Returns the number of kernels there are.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Compiles all of them, two files at a time.
    ///
    /// # Errors
    ///
    /// What the compiler says, and what goes wrong on the way to it.
    pub fn compile(&self, compiler: &CppCompiler, folder: &Path) -> Result<CompiledTexts, String> {
        let files: Vec<Vec<usize>> = (0..self.units.len().div_ceil(PER_FILE))
            .map(|file| (file * PER_FILE..((file + 1) * PER_FILE).min(self.units.len())).collect())
            .collect();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let compiled = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(numbers) = files.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                        let result = self.compile_file(compiler, folder, numbers);
                        compiled.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                });
            }
        });
        let mut entries = FxHashMap::default();
        for result in compiled.into_inner().unwrap_or_else(PoisonError::into_inner) {
            entries.extend(result?);
        }
        let by_text = self.numbers.iter();
        let by_text = by_text.filter_map(|(text, number)| Some((text.clone(), entries.get(number)?.clone())));
        Ok(CompiledTexts { entries: by_text.collect() })
    }

    fn compile_file(
        &self,
        compiler: &CppCompiler,
        folder: &Path,
        numbers: &[usize],
    ) -> Result<Vec<(usize, Arc<TextEntry>)>, String> {
        let Some(first) = numbers.first() else { return Ok(Vec::new()) };
        let source = folder.join(format!("kernels_{first}.cpp"));
        let object: PathBuf = folder.join(format!("kernels_{first}.so"));
        let mut text = String::from(SHARED);
        for &number in numbers {
            text.push_str(&self.units[number]);
        }
        std::fs::write(&source, text).map_err(|error| error.to_string())?;
        let output = Command::new(&compiler.program)
            .args(&compiler.arguments)
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .output()
            .map_err(|error| format!("{} does not run: {error}", compiler.program))?;
        if !output.status.success() {
            return Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&output.stderr)));
        }
        let handle = Arc::new(LibraryHandle::open(&object)?);
        numbers
            .iter()
            .map(|&number| {
                let entry = handle.symbol(&format!("entry_{number}"))?;
                // SAFETY: the library defines it with this type.
                let entry = unsafe { std::mem::transmute::<*mut c_void, KernelEntry>(entry) };
                Ok((number, Arc::new(TextEntry { entry, _handle: handle.clone() })))
            })
            .collect()
    }
}

/// Number of kernels that go into one file.
const PER_FILE: usize = 40;

/// Holds what the entries of a file share: the context that launches hand over.
const SHARED: &str = "
struct launch_context {
    unsigned long long shape[4];
    void (*trap)(const launch_context *, unsigned int, long long, long long, unsigned long long);
    void (*print)(const launch_context *, unsigned int, const unsigned long long *);
    void *data;
};

// Stands for `printf` where that is not wanted.
template <typename... Values>
inline void ignore(Values...) {}
";

/// A kernel's text in a namespace of its own, with an entry that takes arguments as compiled kernels do. Behind those
/// of a kernel that runs a block at a time stand the words of its [`BLOCK_WORDS`], and its range is one of blocks.
fn unit(text: &str, kernel: &Function, number: usize) -> String {
    let body = text.replace("namespace polyloom {", &format!("namespace unit_{number} {{"));
    let end = body.rfind('}').unwrap_or(body.len());
    let mut unit = body[..end].replace("_cpu_kernel_forward(", &format!("_cpu_kernel_{number}("));
    let reports = text.contains("struct trap_report");
    let _ = write!(
        unit,
        "\nextern \"C\" void entry_{number}(const unsigned char *args, const launch_context *context, uint64 begin, \
         uint64 end) {{\n    launch_bounds dim = {{}};\n    for (int axis = 0; axis < 4; ++axis) {{\n        \
         dim.shape[axis] = context->shape[axis];\n    }}\n    (void)args;\n"
    );
    if reports {
        unit.push_str("    trap_report report = {};\n    dim.report = reinterpret_cast<uint64>(&report);\n");
    }
    let name = kernel_name(kernel, TextTarget::Cpp).replace("_cpu_kernel_forward", &format!("_cpu_kernel_{number}"));
    let layout = ArgLayout::of(kernel);
    let in_blocks = text.contains("struct launch_blocks");
    if in_blocks {
        let at = layout.size.next_multiple_of(8);
        let words: Vec<String> = (0..BLOCK_WORDS).map(|word| format!("int(words[{word}])")).collect();
        let _ = write!(
            unit,
            "    const uint64 *words = reinterpret_cast<const uint64 *>(args + {at});\n    \
             const launch_blocks blocks = {{{{{}}}, {{{}}}, {}}};\n",
            words[..3].join(", "),
            words[3..6].join(", "),
            words[6]
        );
    }
    let _ = write!(unit, "    {name}(dim{}", if in_blocks { ", blocks" } else { "" });
    for (&param, &offset) in kernel.params().iter().zip(&layout.offsets) {
        for (part, ty) in kernel.ty(param).components().into_iter().enumerate() {
            let at = offset as usize + 8 * part;
            let _ = match ty {
                Type::Scalar(Scalar::Bool) => write!(unit, ", args[{at}] != 0"),
                ty => write!(unit, ", *reinterpret_cast<const {} *>(args + {at})", crate::cpp::type_name(ty)),
            };
        }
    }
    unit.push_str(", begin, end);\n");
    if reports {
        unit.push_str(
            "    if (report.claimed) {\n        context->trap(context, (unsigned int)report.site, report.index, \
             report.extent, report.thread);\n    }\n",
        );
    }
    unit.push_str("}\n\n}\n");
    unit
}

/// Holds what a launch of blocks adds to the arguments: blocks along each axis, threads of a block along each, bytes of
/// dynamic shared memory.
pub const BLOCK_WORDS: usize = 7;

struct LibraryHandle(*mut c_void);

// SAFETY: the loader's functions may be called from any thread.
unsafe impl Send for LibraryHandle {}
// SAFETY: as above.
unsafe impl Sync for LibraryHandle {}

impl LibraryHandle {
    fn open(path: &Path) -> Result<LibraryHandle, String> {
        let name = CString::new(path.to_string_lossy().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the library has no initialisers but the compiler's.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(format!("{} cannot be loaded", path.display())) } else { Ok(LibraryHandle(handle)) }
    }

    fn symbol(&self, name: &str) -> Result<*mut c_void, String> {
        let text = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if symbol.is_null() { Err(format!("`{name}` is missing")) } else { Ok(symbol) }
    }
}

impl Drop for LibraryHandle {
    fn drop(&mut self) {
        // SAFETY: it was opened, and nothing of it is called any more.
        unsafe { libc::dlclose(self.0) };
    }
}

/// A compiled kernel.
pub struct TextEntry {
    entry: KernelEntry,
    _handle: Arc<LibraryHandle>,
}

impl LoadedCode for TextEntry {
    fn entry(&self) -> KernelEntry {
        self.entry
    }
}

/// Compiled kernels by their text.
#[derive(Default)]
pub struct CompiledTexts {
    entries: FxHashMap<String, Arc<TextEntry>>,
}

impl CompiledTexts {
    /// The kernel with this text.
    pub fn get(&self, text: &str) -> Option<Arc<TextEntry>> {
        self.entries.get(text).cloned()
    }
}

/// Runs a suite on C++ text made by a compiler: once to collect its kernels, once to run them.
///
/// # Panics
///
/// When the suite does, and when the text does not compile.
pub fn check(
    compiler: &CppCompiler,
    semantics: &dyn TextSemantics,
    prepare: &super::Prepare,
    suites: &[fn(&EngineSubject<'_>)],
) {
    let text = |module: &Module, kernel: FuncId| {
        emit(module, kernel, None, TextTarget::Cpp, &CppOptions::default(), semantics)
            .map_err(|error| error.to_string())
    };
    let batch = Mutex::new(KernelBatch::default());
    let collect = |module: &Module, kernel: FuncId, _: &CodeVariant| -> Result<ReadyKernel, String> {
        let text = text(module, kernel)?;
        batch.lock().unwrap_or_else(PoisonError::into_inner).add(&text, &module.functions[kernel]);
        Interpreter::new(module, kernel).map(ReadyKernel::Interpreted).map_err(|error| error.to_string())
    };
    run(prepare, suites, &collect);
    let batch = batch.into_inner().unwrap_or_else(PoisonError::into_inner);
    let folder = std::env::temp_dir().join(format!("polyloom-text-{}-{:p}", std::process::id(), &raw const batch));
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let library = batch.compile(compiler, &folder);
    let library = library.unwrap_or_else(|error| panic!("{} refuses {error}", compiler.program));
    // A loaded library needs its file no longer.
    let _ = std::fs::remove_dir_all(&folder);
    run(prepare, suites, &|module: &Module, kernel: FuncId, _: &CodeVariant| {
        let code = library.get(&text(module, kernel)?).ok_or("a kernel was not collected")?;
        Ok(ReadyKernel::Machine(code))
    });
}

fn run(prepare: &super::Prepare, suites: &[fn(&EngineSubject<'_>)], load: &super::Load<'_>) {
    for suite in suites {
        suite(&EngineSubject {
            engine: super::ConformanceEngine::Loader("C++ text", load),
            prepare,
            float_mode: polyloom_ir::FloatMode::Strict,
            lanes: None,
        });
    }
}
