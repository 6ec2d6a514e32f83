//! The Python front end: source text to HIR, with no Python interpreter.
//!
//! ```text
//! .py text ── SourceUnit::parse ──► syntax tree ── check ──► typed AST ── lower ──► HIR module
//!                                        ▲
//!                     Environment: what names mean outside the kernel
//! ```
//!
//! A file is parsed once into a [`SourceUnit`]; a kernel in it is compiled by [`compile_kernel`], given an
//! [`NameEnvironment`] that resolves the names its text does not define. [`FileEnvironment`] is the one for `.py` files
//! given to the command line; the Python package brings its own, over live objects.
//!
//! ```
//! use polyloom_frontend::{FileEnvironment, FrontendOptions, SourceUnit, compile_kernel};
//! use polyloom_ir::SourceFile;
//!
//! let text = "
//! import polyloom as loom
//!
//! @loom.kernel
//! def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
//!     i = loom.tid()
//!     y[i] = a * x[i] + y[i]
//! ";
//! let unit = SourceUnit::parse(SourceFile::new("saxpy.py", text, 1))?;
//! let environment = FileEnvironment::new(&unit);
//! let kernel = environment.function(unit.find("saxpy").expect("the file has this kernel"));
//! let compiled = compile_kernel(&kernel, &FrontendOptions::default())?;
//! assert_eq!(&*compiled.module.functions[compiled.kernel].name, "saxpy");
//! # Ok::<(), polyloom_frontend::CompileError>(())
//! ```
//!
//! # The language
//!
//! Kernels are statically typed. Every variable has one type in a function, that of its first assignment. Python
//! numbers, literal or captured, have no type of their own: in `x * 2` the 2 is what `x` is. Alone they are `int32`
//! and `float32`. Nothing else converts implicitly: `float(i)` and its like do.
//!
//! Architecture invariants: nothing here knows a pass, a back end or the runtime. Inference is in `check`, lowering in
//! `lower`; the lowering reports nothing and the inference builds no HIR.

#![forbid(unsafe_code)]

mod adjoints;
mod annotation;
mod assigned_names;
mod assignment_expressions;
mod builtin_function;
pub mod capture;
mod check;
mod constant;
mod custom;
mod decorator;
mod dotted_path;
mod environment;
mod error;
mod excerpt;
mod file_environment;
mod free_names;
mod function_info;
mod function_signature;
mod local_array;
mod loom;
mod lower;
mod members;
mod number;
mod options;
mod package_names;
mod param_type;
mod source;
mod static_calls;
mod structure;
pub mod typed_ast;

pub use annotation::read_type;
pub use builtin_function::BuiltinFunction;
pub use custom::CustomDerivative;
pub use environment::{CapturedMeaning, FunctionHandle, KernelVariable, NameEnvironment};
pub use error::CompileError;
pub use file_environment::FileEnvironment;
pub use free_names::FreeNames;
pub use function_info::{FunctionInfo, FunctionRole};
pub use loom::program::{
    BoundProgram, BoundStage, DevicePreference, Extent, ExtentOp, LoomProgram, MatrixFactor, MatrixProduct, PlainLoop,
    ProgramParam, ProgramStage, ShapeArgument, ShapeSymbol,
};
pub use loom::{ImportLoader, format_loom, loom_of_python};
pub use members::{library_member, package_member, python_builtin, types_member};
pub use number::PythonNumber;
pub use options::FrontendOptions;
pub use package_names::package_members;
pub use param_type::{ParamType, ScalarSet, TypePattern};
pub use source::SourceUnit;
pub use structure::{StructField, StructLeaf, StructType, ValueType};

use check::KernelCompilation;
use polyloom_ir::{Code, Diagnostic, FuncId, FunctionKind, Module, SourceFile, SourceMap, Span};
use smallvec::SmallVec;
use std::sync::Arc;

/// A kernel in HIR, with what it was made from.
#[derive(Debug, Clone)]
pub struct CompiledKernel {
    /// The kernel and the functions it calls.
    pub module: Module,
    /// The kernel.
    pub kernel: FuncId,
    /// Functions that are declared only, each with the function whose derivatives it is to give: of the same
    /// parameters, with respect to each that is a floating-point number or a composite of such. Those that others need
    /// come first.
    pub gradients: Vec<(FuncId, FuncId)>,
    /// The typed AST.
    pub typed: typed_ast::TypedProgram,
    /// Holds what is suspicious but accepted.
    pub warnings: Vec<Diagnostic>,
    /// The files the spans point into.
    pub sources: SourceMap,
}

/// Compiles a kernel to HIR.
///
/// # Errors
///
/// All errors of the kernel and of the functions it calls; that it is generic, if it is.
pub fn compile_kernel(kernel: &FunctionHandle, options: &FrontendOptions) -> Result<CompiledKernel, CompileError> {
    compile_kernel_for(kernel, &[], options)
}

/// Compiles a kernel to HIR for parameters of these types, which its annotations take.
///
/// # Errors
///
/// As [`compile_kernel`].
pub fn compile_kernel_for(
    kernel: &FunctionHandle,
    types: &[ValueType],
    options: &FrontendOptions,
) -> Result<CompiledKernel, CompileError> {
    let mut compilation = KernelCompilation::new(options);
    if types.is_empty() && kernel.is_generic_kernel() {
        return Err(no_types(kernel));
    }
    let id = compilation.check_root(kernel, FunctionKind::Kernel, types);
    let mut diagnostics = compilation.take_diagnostics();
    let Some(id) = id.filter(|_| !has_errors(&diagnostics)) else {
        if diagnostics.is_empty() {
            let missing = Diagnostic::error(Code::NoKernel, Span::NONE, "there is no such kernel");
            diagnostics.push(missing.help("decorate a function with `@loom.kernel`"));
        }
        return Err(CompileError { diagnostics, sources: compilation.sources });
    };
    let module = lower::lower(&compilation.program);
    let kernel = lower::func_id(id);
    let mut errors = polyloom_ir::check_convergence(&module);
    errors.extend(polyloom_ir::check_rules(&module));
    diagnostics.extend(errors.into_iter().map(|error| compilation.in_words_of_its_file(error)));
    if has_errors(&diagnostics) {
        return Err(CompileError { diagnostics, sources: compilation.sources });
    }
    Ok(CompiledKernel {
        module,
        kernel,
        gradients: compilation.lowered_gradients(),
        typed: compilation.program,
        warnings: diagnostics,
        sources: compilation.sources,
    })
}

/// Checks a `@loom.func` on its own, if the types of all its parameters are known, and gives the warnings.
///
/// # Errors
///
/// All errors of the function and of those it calls.
pub fn check_function(function: &FunctionHandle, options: &FrontendOptions) -> Result<Vec<Diagnostic>, CompileError> {
    let mut compilation = KernelCompilation::new(options);
    compilation.check_alone(function);
    let diagnostics = compilation.take_diagnostics();
    if has_errors(&diagnostics) {
        return Err(CompileError { diagnostics, sources: compilation.sources });
    }
    Ok(diagnostics)
}

/// The types of what a function returns, if the types of all its parameters are known.
///
/// # Errors
///
/// All errors of the function and of those it calls.
pub fn result_types(
    function: &FunctionHandle,
    options: &FrontendOptions,
) -> Result<SmallVec<[ValueType; 2]>, CompileError> {
    let mut compilation = KernelCompilation::new(options);
    let id = compilation.check_root(function, FunctionKind::Func, &parameter_types(function));
    let checked = id.and_then(|id| compilation.program.functions.get(id.0 as usize));
    match checked.map(|function| function.results.clone()) {
        Some(results) if !has_errors(&compilation.diagnostics) => Ok(results),
        _ => Err(CompileError { diagnostics: compilation.take_diagnostics(), sources: compilation.sources }),
    }
}

/// The types of a function's parameters whose annotations say them all; nothing if some do not.
fn parameter_types(function: &FunctionHandle) -> Vec<ValueType> {
    let parameters = function.parameters().unwrap_or_default();
    let exact = parameters.into_iter().map(|(_, ty)| match ty {
        ParamType::Exact(ty) => Some(ty),
        _ => None,
    });
    exact.collect::<Option<_>>().unwrap_or_default()
}

/// A file without errors that the front end could tell.
#[derive(Debug, Clone)]
pub struct CheckedFile {
    /// The kernels and functions whose annotations say all their types, and what they call.
    pub module: Module,
    /// As of [`CompiledKernel`].
    pub gradients: Vec<(FuncId, FuncId)>,
    /// Holds what is suspicious but accepted.
    pub warnings: Vec<Diagnostic>,
    /// The files the spans point into.
    pub sources: SourceMap,
}

/// Checks every kernel and every function of a file whose annotations say all its types.
///
/// # Errors
///
/// All errors of the file, each once.
pub fn check_file(unit: &Arc<SourceUnit>, options: &FrontendOptions) -> Result<CheckedFile, CompileError> {
    let environment = FileEnvironment::new(unit);
    let mut compilation = KernelCompilation::new(options);
    compilation.report_structs(unit, &environment);
    for (index, function) in unit.functions().iter().enumerate() {
        match function.role {
            Some(FunctionRole::Kernel) => {
                let kernel = environment.function(index);
                if !kernel.is_generic_kernel() {
                    compilation.check_root(&kernel, FunctionKind::Kernel, &[]);
                } else if let Some(types) = kernel.example_types() {
                    compilation.check_root(&kernel, FunctionKind::Kernel, &types);
                }
            }
            Some(FunctionRole::Func) => compilation.check_alone(&environment.function(index)),
            // Those are checked with the functions that they are of.
            Some(FunctionRole::Gradient | FunctionRole::Replay) | None => {}
        }
    }
    let mut diagnostics = compilation.take_diagnostics();
    let module = if has_errors(&diagnostics) { Module::new() } else { lower::lower(&compilation.program) };
    let mut errors = polyloom_ir::check_convergence(&module);
    errors.extend(polyloom_ir::check_rules(&module));
    diagnostics.extend(errors.into_iter().map(|error| compilation.in_words_of_its_file(error)));
    let gradients = compilation.lowered_gradients();
    let sources = compilation.sources;
    match has_errors(&diagnostics) {
        true => Err(CompileError { diagnostics, sources }),
        false => Ok(CheckedFile { module, gradients, warnings: diagnostics, sources }),
    }
}

/// The error of a generic kernel that is compiled without types.
fn no_types(kernel: &FunctionHandle) -> CompileError {
    let generic = kernel.parameters().unwrap_or_default().into_iter().find(|(_, ty)| ty.is_generic());
    let (name, ty) = generic.map_or_else(Default::default, |(name, ty)| (name.to_string(), ty.to_string()));
    let message = format!("`{}` is generic: its parameter `{name}` is {ty}", kernel.name());
    let help = "it is compiled for the arguments of each launch: launch it, or name the types with `overload`";
    function_error(kernel, Code::BadAnnotation, message, help)
}

/// Makes an error about a function as a whole, at its name.
pub fn function_error(function: &FunctionHandle, code: Code, message: String, help: &str) -> CompileError {
    let mut sources = SourceMap::new();
    let file = sources.add(function.unit.file().clone());
    let def = function.unit.definition(function.function).map(|def| def.name.range);
    let span = def.map_or(Span::new(file, 0, 0), |at| Span::new(file, at.start().to_u32(), at.end().to_u32()));
    CompileError { diagnostics: vec![Diagnostic::error(code, span, message).help(help)], sources }
}

/// Makes the error of a Python file without the kernel that is wanted, or without any if no name is given.
pub fn no_such_kernel(unit: &SourceUnit, wanted: Option<&str>) -> CompileError {
    let names: Vec<&str> = unit.kernels().map(|k| &*unit.functions()[k].name).collect();
    kernel_not_found(unit.file(), &names, wanted, "decorate a function with `@loom.kernel`")
}

/// Makes the error of a file with these kernels, none of which is the one that is wanted; `advice` says how a kernel is
/// written there.
pub fn kernel_not_found(file: &SourceFile, names: &[&str], wanted: Option<&str>, advice: &str) -> CompileError {
    let mut sources = SourceMap::new();
    let id = sources.add(file.clone());
    let (message, help) = match wanted {
        _ if names.is_empty() => (format!("`{}` has no kernel", file.name), advice.to_owned()),
        None => (format!("`{}` has several kernels", file.name), format!("name one of {}", names.join(", "))),
        Some(name) => {
            let message = format!("`{}` has no kernel `{name}`", file.name);
            let help = match polyloom_ir::diagnostic::near_names(name, names.iter().copied()).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", names.join(", ")),
            };
            (message, help)
        }
    };
    let diagnostic = Diagnostic::error(Code::NoKernel, Span::new(id, 0, 0), message).help(help);
    CompileError { diagnostics: vec![diagnostic], sources }
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == polyloom_ir::Severity::Error)
}
