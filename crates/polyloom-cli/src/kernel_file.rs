//! The files that kernels come from: Python, `.loom`, and HIR text as `polyloom compile --emit hir` writes it.

use crate::{CommandFailure, types};
use polyloom::frontend::{FileEnvironment, FunctionHandle, kernel_not_found};
use polyloom::{
    CompileError, Defaults, FloatMode, FunctionKind, Kernel, Module, Session, SourceFile, SourceMap, SourceUnit,
    check_file, parse_module, read_loom,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A file that has been read and parsed.
pub(crate) enum KernelFile {
    /// A `.py` or `.loom` file.
    Python(Arc<SourceUnit>),
    /// A `.hir` file: its module, and the file as the only one of a map.
    Hir { module: Module, file: SourceFile, sources: SourceMap },
}

impl KernelFile {
    /// Reads and parses a file, as HIR text if it is called `.hir`, else as Python.
    ///
    /// # Errors
    ///
    /// If it cannot be read, and all its syntax errors.
    pub(crate) fn read(path: &Path) -> Result<KernelFile, CommandFailure> {
        let text = std::fs::read(path)
            .map_err(|error| CommandFailure::Failed(format!("cannot read {}: {error}", path.display())))?;
        let text = String::from_utf8(text)
            .map_err(|_| CommandFailure::Failed(format!("{} is not UTF-8 text", path.display())))?;
        let file = SourceFile::new(path.to_string_lossy().as_ref(), text, 1);
        if path.extension().is_some_and(|extension| extension == "loom") {
            return Ok(KernelFile::Python(read_loom(&file.name, &file.text)?));
        }
        if path.extension().is_none_or(|extension| extension != "hir") {
            return Ok(KernelFile::Python(SourceUnit::parse(file)?));
        }
        let mut sources = SourceMap::new();
        let id = sources.add(file.clone());
        match parse_module(&file.text, id) {
            Ok(module) => Ok(KernelFile::Hir { module, file, sources }),
            Err(diagnostics) => Err(CompileError { diagnostics, sources }.into()),
        }
    }

    fn file(&self) -> &SourceFile {
        match self {
            KernelFile::Python(unit) => unit.file(),
            KernelFile::Hir { file, .. } => file,
        }
    }

    /// Returns the names of its kernels in order, each once, because a later definition in Python replaces an earlier
    /// one.
    pub(crate) fn kernel_names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut add = |name: &Arc<str>| {
            if !names.contains(name) {
                names.push(name.clone());
            }
        };
        match self {
            KernelFile::Python(unit) => {
                unit.kernels().filter_map(|index| unit.functions().get(index)).for_each(|kernel| add(&kernel.name));
            }
            KernelFile::Hir { module, .. } => {
                let kernels = module.functions.values().filter(|function| function.kind == FunctionKind::Kernel);
                kernels.for_each(|kernel| add(&kernel.name));
            }
        }
        names
    }

    /// Says what computes a kernel of the kind `matmul` of a `.loom` file, and why.
    pub(crate) fn explain_product(&self, kernel: &str, mode: FloatMode) -> Option<&'static str> {
        let KernelFile::Python(unit) = self else { return None };
        let program = unit.programs().iter().find(|program| *program.name == *kernel)?;
        program.kind.as_deref().filter(|kind| *kind == "matmul")?;
        Some(match program.product {
            None => "its loops run, which are more than a product of two whole matrices",
            Some(product) if product.may_fuse(mode) => {
                "the tensor engine computes it on the CPU and on GPUs, for `f32` and `f64`: a chain of fused multiply-adds in the \
                 order of the loop"
            }
            Some(_) => {
                "its loops run, because `sum += a * b` rounds twice a term and `strict` keeps that; `sum = fma(a, b, sum)`, \
                 or the float modes `contract` and `fast`, let the tensor engine compute it"
            }
        })
    }

    /// The names of a kernel's parameters in a Python or `.loom` file.
    pub(crate) fn parameter_names(&self, kernel: &str) -> Vec<Arc<str>> {
        let parameters = self.function(kernel).and_then(|function| function.parameters()).unwrap_or_default();
        parameters.into_iter().map(|(name, _)| name).collect()
    }

    /// The function or kernel of this name in a Python or `.loom` file: the last, which replaces earlier ones.
    pub(crate) fn function(&self, name: &str) -> Option<FunctionHandle> {
        let KernelFile::Python(unit) = self else { return None };
        let index = unit.functions().iter().rposition(|function| &*function.name == name)?;
        Some(FileEnvironment::new(unit).function(index))
    }

    /// Says how a kernel is written in such a file.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            KernelFile::Python(unit) if unit.is_loom() => "begin a function with `kernel` or `compute`",
            KernelFile::Python(_) => "decorate a function with `@loom.kernel`",
            KernelFile::Hir { .. } => "begin a function with `kernel`",
        }
    }

    fn not_found(&self, wanted: Option<&str>) -> CommandFailure {
        let names = self.kernel_names();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        kernel_not_found(self.file(), &names, wanted, self.advice()).into()
    }

    /// Compiles the kernel that is wanted, or the file's only one. `types` has the types given for the parameters of a
    /// generic kernel, and `values` the arguments that say the others.
    ///
    /// # Errors
    ///
    /// All that is wrong with the kernel, and if there is none of that name or several to choose from.
    pub(crate) fn compile(
        &self,
        session: &Session,
        wanted: Option<&str>,
        types: &BTreeMap<&str, &str>,
        values: &BTreeMap<&str, &str>,
    ) -> Result<Kernel, CommandFailure> {
        let names = self.kernel_names();
        let name = match (wanted, &names[..]) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, []) => return Err(self.not_found(None)),
            (None, _) => {
                let (file, names) = (&self.file().name, names.join(", "));
                let message = format!("{file} has several kernels, choose one with --kernel: {names}");
                return Err(CommandFailure::Usage(message));
            }
        };
        match self {
            KernelFile::Python(unit) => {
                let named = |&index: &usize| unit.functions().get(index).is_some_and(|f| *f.name == *name);
                let function = unit.kernels().filter(named).last().ok_or_else(|| self.not_found(Some(name)))?;
                types::compile(session, &FileEnvironment::new(unit).function(function), name, types, values)
            }
            KernelFile::Hir { module, sources, .. } => {
                if let Some(param) = types.keys().next() {
                    let message = format!("--type {param}: the parameters of HIR have their types");
                    return Err(CommandFailure::Usage(message));
                }
                let kernels = module.functions.iter().filter(|(_, function)| function.kind == FunctionKind::Kernel);
                let mut named = kernels.filter(|(_, function)| *function.name == *name);
                let (kernel, _) = named.next().ok_or_else(|| self.not_found(Some(name)))?;
                Ok(session.compile_module(module.clone(), kernel, sources.clone())?)
            }
        }
    }

    /// Finds all that is wrong with the kernels and functions of the file, and what is remarkable about them. A part of it
    /// that several kernels share is in the error of each.
    pub(crate) fn check(&self, session: &Session, lint: bool) -> Vec<CompileError> {
        let defaults = session.defaults();
        match self {
            KernelFile::Python(unit) => match check_file(unit, &Defaults { lint, ..defaults }) {
                Err(error) => vec![error],
                Ok((diagnostics, sources)) => {
                    // Each kernel is prepared as well, because the passes alone find some errors.
                    let environment = FileEnvironment::new(unit);
                    let kernels = unit.kernels().map(|kernel| environment.function(kernel));
                    let complete =
                        kernels.filter(|kernel| !kernel.is_generic_kernel() || kernel.example_types().is_some());
                    let prepared = |kernel: FunctionHandle| match kernel.is_generic_kernel() {
                        false => session.compile(&kernel, defaults)?.prepare(),
                        true => {
                            let types = kernel.example_types().unwrap_or_default();
                            session.compile_for(&kernel, &types, defaults)?.prepare()
                        }
                    };
                    let errors = complete.filter_map(|kernel| prepared(kernel).err());
                    std::iter::once(CompileError { diagnostics, sources }).chain(errors).collect()
                }
            },
            KernelFile::Hir { module, sources, .. } => {
                if let Err(diagnostics) = polyloom::verify_module(module) {
                    return vec![CompileError { diagnostics, sources: sources.clone() }];
                }
                let kernels = module.functions.iter().filter(|(_, function)| function.kind == FunctionKind::Kernel);
                let prepared = |kernel| session.compile_module(module.clone(), kernel, sources.clone())?.prepare();
                kernels.filter_map(|(kernel, _)| prepared(kernel).err()).collect()
            }
        }
    }
}
