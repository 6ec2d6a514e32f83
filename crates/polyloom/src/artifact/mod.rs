//! Artifacts: kernels and functions compiled ahead of time, for programs that have no compiler when they run.
//!
//! An artifact is a folder: a static and a shared library, a C header, a Rust module, a Python module and a manifest.
//! Kernels, functions of values and functions of tensors (`fused.rs`) are in it.
//! Its functions have the ABI of native functions ([`polyloom_codegen::native`]), and there is code of each for several
//! kinds of processors, among which the library chooses when it is loaded. Design: `docs/design/native-functions.md`.

mod archive;
mod c_header;
mod fused;
mod link;
mod manifest;
mod python_module;
mod rust_module;

pub use c_header::prototype;
pub use fused::{FusedExtent, FusedFunction, FusedRecipe, FusedVariant};
pub use manifest::{
    MANIFEST_SCHEMA, Manifest, ManifestEntry, ManifestError, ManifestExtent, ManifestFile, ManifestParameter,
    ManifestTarget,
};
pub use polyloom_codegen::NativeCpu;

use crate::emit_options::{EmitError, EmitOptions, GpuTarget};
use crate::kernel::Kernel;
use crate::native_function::{NativeParts, describe_site};
use crate::session::Session;
use crate::value_function::ValueKernel;
use crate::{Defaults, Form};
use fused::CpuSequence;
use polyloom_codegen::sequence::SequenceChecks;
use polyloom_codegen::{CodegenError, NativeSignature, is_reserved_symbol};
use polyloom_frontend::FunctionHandle;
use polyloom_ir::text::attributes;
use polyloom_ir::{Arch, Code, Diagnostic, FloatMode, Function, KernelMetadata};
use polyloom_passes::autodiff::DerivativeRequest;
use std::path::{Path, PathBuf};

/// Says why an artifact was not made.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// A function cannot be compiled.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// Two functions have one symbol, or one of the library's own.
    #[error("two functions are called `{0}` in C: build them into libraries of their own, or give a prefix")]
    Symbol(String),
    /// A function has a name that means something else in a program that uses the library.
    #[error(
        "no function of a library can be called `{0}`, which is a word of C, C++, Rust or Python, a function of the C \
         library, or one of the loader: give a prefix"
    )]
    Reserved(String),
    /// A function of tensors cannot be in a library.
    #[error("`{name}` cannot be in a library: {message}")]
    Fused {
        /// The function.
        name: String,
        /// Says why not.
        message: String,
    },
    /// A name that is no identifier of C.
    #[error("`{0}` is no name for a library: use letters, digits and underscores, and no digit first")]
    Name(String),
    /// There is nothing in it.
    #[error("there is no function to build")]
    Empty,
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// There is no linker for the shared library.
    #[error(
        "no C compiler to link the shared library with (tried {tried}): install one, set CC, or build without it \
         (--no-shared)"
    )]
    NoLinker {
        /// The compilers that were looked for.
        tried: String,
    },
    /// The linker fails.
    #[error("`{compiler}` cannot link the shared library: {message}")]
    Linker {
        /// The compiler.
        compiler: String,
        /// What it says.
        message: String,
    },
    /// The manifest cannot be written.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl From<CodegenError> for ArtifactError {
    fn from(error: CodegenError) -> ArtifactError {
        ArtifactError::Emit(error.into())
    }
}

/// What an artifact's function was in its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArtifactKind {
    /// A kernel.
    Kernel,
    /// A function of values.
    Function,
    /// The backward kernel of one.
    Backward,
    /// A function of tensors.
    Fused,
    /// The value and the gradients of one that gives one number, or what carries cotangents of its results back.
    Gradient,
}

impl ArtifactKind {
    /// `kernel`, `function`, `backward`, `fused` or `gradient`.
    pub fn name(self) -> &'static str {
        match self {
            ArtifactKind::Kernel => "kernel",
            ArtifactKind::Function => "function",
            ArtifactKind::Backward => "backward",
            ArtifactKind::Fused => "fused",
            ArtifactKind::Gradient => "gradient",
        }
    }
}

/// Says what is compiled of a function.
#[cfg_attr(not(feature = "_llvm"), expect(dead_code, reason = "without LLVM nothing is written"))]
enum ArtifactCode {
    /// One kernel.
    Kernel(Box<NativeParts>),
    /// Kernels that are called in order, for each kind of processor.
    Sequence(Vec<CpuSequence>),
}

/// A function of an artifact.
pub(crate) struct ArtifactFunction {
    kind: ArtifactKind,
    /// Its name and parameters in the source.
    source_signature: String,
    signature: NativeSignature,
    #[cfg_attr(not(feature = "_llvm"), expect(dead_code, reason = "without LLVM nothing is written"))]
    code: ArtifactCode,
    /// Says what a function of tensors demands of its arguments.
    demands: Option<SequenceChecks>,
    /// The texts of its checks.
    checks: Vec<String>,
    float_mode: FloatMode,
    /// What its decorator promises, as HIR text has it.
    promises: Vec<String>,
    /// The cores that it is to be called on, if it says.
    cores: Vec<u32>,
    /// PTX by architecture.
    ptx: Vec<(Arch, Vec<u8>)>,
    /// One image of the code for all architectures, if there are any.
    fat_binary: Option<Vec<u8>>,
}

impl ArtifactFunction {
    /// Returns the extents of an argument of a function of tensors, with nothing for one that callers choose; nothing of other functions.
    fn extents(&self, argument: usize) -> Option<Vec<Option<u64>>> {
        let shape = self.demands.as_ref()?.shapes.get(argument)?.as_ref()?;
        Some(shape.iter().map(|extent| (extent.slope == 0).then_some(extent.constant as u64)).collect())
    }

    /// Returns the shape of an argument of a function of tensors in words: `64, N`.
    fn shape_in_words(&self, argument: usize) -> Option<String> {
        let demands = self.demands.as_ref()?;
        let shape = demands.shapes.get(argument)?.as_ref()?;
        let extents: Vec<String> = shape.iter().map(|extent| demands.describe(*extent)).collect();
        Some(extents.join(", "))
    }
}

/// Describes the machines and files of an artifact.
#[derive(Clone, Debug)]
pub struct ArtifactOptions {
    /// The library's name: `lib{name}.a`, `{name}.h` and so on.
    pub name: String,
    /// Comes before the name of each function.
    pub prefix: String,
    /// LLVM's name of the platform, such as `aarch64-unknown-linux-gnu`; this machine's unless given.
    pub triple: Option<String>,
    /// The kinds of processors; all that the platform has unless given.
    pub cpus: Vec<NativeCpu>,
    /// The architectures of GPUs for which PTX is written beside the library, and a fat binary of all of them.
    pub archs: Vec<Arch>,
    /// True if the shared library is linked, for which a C compiler is called.
    pub has_shared_library: bool,
}

impl ArtifactOptions {
    /// An artifact for this machine's platform.
    pub fn new(name: &str) -> ArtifactOptions {
        ArtifactOptions {
            name: name.to_owned(),
            prefix: String::new(),
            triple: None,
            cpus: Vec::new(),
            archs: Vec::new(),
            has_shared_library: true,
        }
    }
}

/// Collects functions, and writes them as an artifact.
pub struct Artifact {
    pub(crate) name: String,
    pub(crate) functions: Vec<ArtifactFunction>,
    pub(crate) triple: String,
    pub(crate) cpus: Vec<NativeCpu>,
    options: ArtifactOptions,
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Artifact {
    /// An artifact with no functions yet.
    ///
    /// # Errors
    ///
    /// When the name is no identifier, or the platform has no such processors.
    pub fn new(options: ArtifactOptions) -> Result<Artifact, ArtifactError> {
        if !is_identifier(&options.name) {
            return Err(ArtifactError::Name(options.name));
        }
        if !options.prefix.is_empty() && !is_identifier(&options.prefix) {
            return Err(ArtifactError::Name(options.prefix));
        }
        let triple = target::triple(options.triple.as_deref())?;
        let mut cpus = options.cpus.clone();
        if cpus.is_empty() {
            cpus = match triple.split('-').next() {
                Some("x86_64") => vec![NativeCpu::Baseline, NativeCpu::Avx2, NativeCpu::Avx512],
                Some("aarch64") => vec![NativeCpu::Neon],
                _ => vec![NativeCpu::Native],
            };
        }
        cpus.sort_unstable();
        cpus.dedup();
        let is_choice = |cpu: &NativeCpu| matches!(cpu, NativeCpu::Baseline | NativeCpu::Avx2 | NativeCpu::Avx512);
        if cpus.len() > 1 && !cpus.iter().all(is_choice) {
            let message =
                "code is chosen at load among `baseline`, `avx2` and `avx512`: name one kind of processor alone";
            return Err(CodegenError::new(message).into());
        }
        if cpus.len() > 1 && cpus[0] != NativeCpu::Baseline {
            cpus.insert(0, NativeCpu::Baseline);
        }
        Ok(Artifact { name: options.name.clone(), functions: Vec::new(), triple, cpus, options })
    }

    /// Adds a kernel.
    ///
    /// # Errors
    ///
    /// When it cannot be a native function, or its symbol is taken.
    pub fn add_kernel(&mut self, kernel: &Kernel) -> Result<(), ArtifactError> {
        self.add(ArtifactKind::Kernel, kernel, kernel.name(), kernel.signature(), &[])
    }

    /// Adds the backward kernel of a kernel, `NAME_backward`: it takes the kernel's parameters, and then an array for the
    /// adjoint of each that has one.
    ///
    /// # Errors
    ///
    /// As [`Artifact::add_kernel`]; when the kernel has no derivative, or a launch of the backward kernel needs tapes.
    pub fn add_backward(&mut self, kernel: &Kernel) -> Result<(), ArtifactError> {
        let request = DerivativeRequest::new(vec![true; kernel.types().len()], kernel.natural_rank());
        let backward = kernel.backward(&request).map_err(EmitError::from)?;
        let name = format!("{}_backward", kernel.name());
        if backward.needs.takes_part() || backward.sizes.is_some() {
            let message = format!("`{name}` keeps tapes, whose size a launch works out");
            let diagnostic = Diagnostic::error(Code::NotNative, kernel.function().span, message);
            let help = "launch it, or write the loop that needs them as a loop over elements that are independent";
            return Err(EmitError::from(kernel.rejected(vec![diagnostic.help(help)])).into());
        }
        self.add(ArtifactKind::Backward, &backward.kernel, &name, backward.kernel.signature(), &[])
    }

    /// Adds a function of values.
    ///
    /// # Errors
    ///
    /// As [`Artifact::add_kernel`], and all that is wrong with the function.
    pub fn add_function(
        &mut self,
        session: &Session,
        function: &FunctionHandle,
        defaults: Defaults,
    ) -> Result<(), ArtifactError> {
        let ValueKernel { kernel, results } = session.value_kernel(function, defaults)?;
        let n_params = kernel.arguments().len() - results.len();
        let params: Vec<String> = kernel.arguments()[..n_params]
            .iter()
            .map(|param| format!("{}: {}", param.name, param.ty.python_name()))
            .collect();
        let types: Vec<String> = results.iter().map(|ty| ty.python_name()).collect();
        let signature = format!("{}({}) -> {}", function.name(), params.join(", "), types.join(", "));
        self.add(ArtifactKind::Function, &kernel, &function.name(), signature, &results)
    }

    fn add(
        &mut self,
        kind: ArtifactKind,
        kernel: &Kernel,
        name: &str,
        source_signature: String,
        results: &[polyloom_ir::Type],
    ) -> Result<(), ArtifactError> {
        let name = format!("{}{name}", self.options.prefix);
        let parts = NativeParts::of(kernel, &name, results)?;
        self.check_symbol(&parts.signature)?;
        let checks = parts.sites.iter().map(|site| describe_site(kernel, site).message).collect();
        let archs = if kind == ArtifactKind::Function { &[][..] } else { &self.options.archs };
        let mut ptx = Vec::new();
        for &arch in archs {
            ptx.push((arch, kernel.emit(Form::Ptx, &EmitOptions::for_gpu(GpuTarget::new(arch)))?));
        }
        let targets: Vec<GpuTarget> = archs.iter().map(|&arch| GpuTarget::new(arch)).collect();
        let fat_binary = if targets.is_empty() { None } else { Some(kernel.fatbin(&targets)?) };
        let Function { metadata, constraints, .. } = kernel.function();
        self.functions.push(ArtifactFunction {
            kind,
            source_signature,
            signature: parts.signature.clone(),
            code: ArtifactCode::Kernel(Box::new(parts)),
            demands: None,
            checks,
            float_mode: metadata.float_mode,
            promises: attributes(&KernelMetadata::default(), constraints),
            cores: constraints.cpu_affinity.clone(),
            ptx,
            fat_binary,
        });
        Ok(())
    }

    /// Adds a function of tensors. `session` compiles its kernels.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::Fused`] if it does not run as native code alone, and those of [`Artifact::add_kernel`].
    pub fn add_fused(&mut self, session: &Session, function: &FusedFunction) -> Result<(), ArtifactError> {
        let name = format!("{}{}", self.options.prefix, function.name);
        if !is_identifier(&name) {
            return Err(ArtifactError::Name(name));
        }
        let made = function.code(session, &name, &self.cpus)?;
        self.check_symbol(&made.signature)?;
        self.functions.push(ArtifactFunction {
            kind: function.kind,
            source_signature: function.source_signature.clone(),
            signature: made.signature,
            code: ArtifactCode::Sequence(made.cpus),
            demands: Some(made.demands),
            checks: made.checks,
            float_mode: function.float_mode,
            promises: Vec::new(),
            cores: Vec::new(),
            ptx: Vec::new(),
            fat_binary: None,
        });
        Ok(())
    }

    /// Checks that a function's symbol is free and may be one.
    fn check_symbol(&self, signature: &NativeSignature) -> Result<(), ArtifactError> {
        let own = [format!("{}_abi", self.name), format!("{}_cpu", self.name)];
        let symbol = &*signature.name;
        let is_taken = |function: &ArtifactFunction| {
            let other = &*function.signature.name;
            let clashes = |suffix: &str| symbol == format!("{other}{suffix}") || other == format!("{symbol}{suffix}");
            let has_workspace = |signature: &NativeSignature| signature.workspace_bytes > 0;
            // The sizes of their workspaces are constants of Rust, whose names are in capitals.
            let in_capitals =
                other.eq_ignore_ascii_case(symbol) && has_workspace(signature) && has_workspace(&function.signature);
            other == symbol || in_capitals || clashes("_site") || clashes("_workspace_size")
        };
        if is_reserved_symbol(symbol) || python_module::OWN_NAMES.contains(&symbol) {
            return Err(ArtifactError::Reserved(symbol.to_owned()));
        }
        if own.iter().any(|own| own == symbol) || self.functions.iter().any(is_taken) {
            return Err(ArtifactError::Symbol(symbol.to_owned()));
        }
        Ok(())
    }

    /// Writes all files into a folder, which is made if need be, and gives the manifest.
    ///
    /// # Errors
    ///
    /// [`ArtifactError`].
    pub fn write(&self, folder: &Path) -> Result<Manifest, ArtifactError> {
        if self.functions.is_empty() {
            return Err(ArtifactError::Empty);
        }
        let name = &self.name;
        let file_error = |path: &Path| {
            let path = path.to_owned();
            move |error| ArtifactError::File { path, error }
        };
        std::fs::create_dir_all(folder).map_err(file_error(folder))?;
        let mut files = Vec::new();
        let mut write = |kind: &str, file: String, arch: Option<Arch>, bytes: &[u8]| {
            let path = folder.join(&file);
            std::fs::write(&path, bytes).map_err(file_error(&path))?;
            files.push(ManifestFile { kind: kind.to_owned(), path: file, arch: arch.map(|arch| arch.to_string()) });
            Ok::<(), ArtifactError>(())
        };
        let archive_name = format!("lib{name}.a");
        let objects = target::objects(self)?;
        let members: Vec<archive::ArchiveMember<'_>> = objects
            .iter()
            .enumerate()
            .map(|(index, object)| archive::ArchiveMember {
                name: format!("{index}.o"),
                bytes: &object.bytes,
                symbols: object.symbols.clone(),
            })
            .collect();
        write("static_library", archive_name.clone(), None, &archive::archive(&members))?;
        write("header", format!("{name}.h"), None, c_header::header(self).as_bytes())?;
        write("rust", format!("{name}.rs"), None, rust_module::module(self).as_bytes())?;
        if self.options.has_shared_library {
            write("python", format!("{name}.py"), None, python_module::module(self).as_bytes())?;
        }
        for function in &self.functions {
            for (arch, text) in &function.ptx {
                write("ptx", format!("{}.{arch}.ptx", function.signature.name), Some(*arch), text)?;
            }
            if let Some(image) = &function.fat_binary {
                write("fatbin", format!("{}.fatbin", function.signature.name), None, image)?;
            }
        }
        if self.options.has_shared_library {
            let shared = format!("lib{name}.so");
            link::link_shared(&folder.join(archive_name), &folder.join(&shared), self.options.triple.as_deref())?;
            files.push(ManifestFile { kind: "shared_library".to_owned(), path: shared, arch: None });
        }
        let manifest = manifest::manifest(self, files);
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, manifest.to_json()?).map_err(file_error(&path))?;
        Ok(manifest)
    }
}

/// An object file and the symbols that it defines for others.
struct ArtifactObject {
    bytes: Vec<u8>,
    symbols: Vec<String>,
}

#[cfg(feature = "_llvm")]
mod target {
    //! The object files of an artifact.

    use super::{Artifact, ArtifactCode, ArtifactError, ArtifactObject};
    use polyloom_codegen::sequence::SequenceCallee;
    use polyloom_codegen::{NativeCpu, NativeLibrary, NativeSequence, NativeSignature, cpu_symbol};
    use polyloom_llvm::LlvmBackend;
    use polyloom_runtime::without_fork;

    /// LLVM's name of the platform.
    pub(super) fn triple(named: Option<&str>) -> Result<String, ArtifactError> {
        match named {
            Some(triple) => Ok(triple.to_owned()),
            None => Ok(LlvmBackend::new()?.triple()),
        }
    }

    /// The code of each function for each kind of processor, and what the library has beside it.
    pub(super) fn objects(artifact: &Artifact) -> Result<Vec<ArtifactObject>, ArtifactError> {
        let triple = artifact.options.triple.as_deref();
        let mut objects = Vec::new();
        for (index, &cpu) in artifact.cpus.iter().enumerate() {
            let backend = LlvmBackend::for_processors(triple, cpu)?;
            for function in &artifact.functions {
                let symbol =
                    |name: &str| if artifact.cpus.len() == 1 { name.to_owned() } else { cpu_symbol(name, cpu) };
                let own = symbol(&function.signature.name);
                match &function.code {
                    ArtifactCode::Kernel(parts) => {
                        let bytes = parts.compile(&backend, &own, false)?;
                        objects.push(ArtifactObject { bytes, symbols: vec![own] });
                    }
                    ArtifactCode::Sequence(cpus) => {
                        let sequence = &cpus[index];
                        // C has no such identifiers, so that no function of a program is called so.
                        let of_kernel = |n: usize| symbol(&format!("{}.k{n}", function.signature.name));
                        let names: Vec<String> = (0..sequence.kernels.len()).map(of_kernel).collect();
                        for (kernel, name) in sequence.kernels.iter().zip(&names) {
                            let bytes = kernel.parts.compile(&backend, name, false)?;
                            objects.push(ArtifactObject { bytes, symbols: vec![name.clone()] });
                        }
                        let callees: Vec<SequenceCallee<'_>> = sequence
                            .kernels
                            .iter()
                            .zip(&names)
                            .map(|(kernel, symbol)| SequenceCallee {
                                symbol,
                                signature: &kernel.parts.signature,
                                first_check: kernel.first_check,
                            })
                            .collect();
                        let Some(checks) = &function.demands else { continue };
                        let bytes = without_fork(|| {
                            backend.compile_sequence(&NativeSequence {
                                signature: &function.signature,
                                symbol: &own,
                                callees: &callees,
                                variants: &sequence.variants,
                                checks,
                            })
                        })?;
                        objects.push(ArtifactObject { bytes, symbols: vec![own] });
                    }
                }
            }
        }
        let functions: Vec<(&NativeSignature, &[String])> =
            artifact.functions.iter().map(|function| (&function.signature, &function.checks[..])).collect();
        let library = NativeLibrary { name: &artifact.name, cpus: &artifact.cpus, functions: &functions };
        let least = artifact.cpus.first().copied().unwrap_or(NativeCpu::Baseline);
        let bytes = without_fork(|| LlvmBackend::for_processors(triple, least)?.compile_library(&library))?;
        let mut symbols = vec![format!("{}_abi", artifact.name), format!("{}_cpu", artifact.name)];
        for function in &artifact.functions {
            let name = &function.signature.name;
            if !function.checks.is_empty() {
                symbols.push(format!("{name}_site"));
            }
            if artifact.cpus.len() > 1 {
                symbols.push(name.to_string());
            }
        }
        objects.push(ArtifactObject { bytes, symbols });
        Ok(objects)
    }
}

#[cfg(not(feature = "_llvm"))]
mod target {
    //! Artifacts of a build without LLVM: there are none.

    use super::{Artifact, ArtifactError, ArtifactObject};
    use polyloom_codegen::CodegenError;

    pub(super) fn triple(_named: Option<&str>) -> Result<String, ArtifactError> {
        Err(CodegenError::new("artifacts are made by LLVM: this build needs the feature `llvm`").into())
    }

    pub(super) fn objects(_artifact: &Artifact) -> Result<Vec<ArtifactObject>, ArtifactError> {
        triple(None).map(|_| Vec::new())
    }
}
