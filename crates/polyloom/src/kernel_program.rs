//! Holds what a kernel is: its HIR, its parameters and its source.

use polyloom_frontend::ValueType;
use polyloom_frontend::typed_ast::{TypedParam, TypedProgram};
use polyloom_ir::{ArrayWrites, Composite, Diagnostic, FuncId, Function, Module, SourceMap, Type};
use polyloom_passes::transform::scalarise;
use polyloom_runtime::KernelParams;
use std::sync::Arc;

/// A kernel as it was compiled, whatever it is to run on.
pub(crate) struct KernelProgram {
    /// The HIR as the front end made it, with the functions that the kernel calls.
    pub(crate) module: Arc<Module>,
    pub(crate) id: FuncId,
    /// The syntax tree it was lowered from; absent if it was made of HIR.
    pub(crate) typed: Option<Arc<TypedProgram>>,
    pub(crate) sources: SourceMap,
    pub(crate) warnings: Vec<Diagnostic>,
    /// The parameters as the source has them.
    pub(crate) arguments: Box<[TypedParam]>,
    /// The types of the parameters as HIR has them.
    pub(crate) types: Box<[Type]>,
    /// The parameters of the scalarised kernel.
    pub(crate) params: KernelParams,
    /// True for each of `params` that is an array that may be written: a fact of the HIR, since what a back end makes
    /// of it may not exist for every device.
    pub(crate) written: Box<[bool]>,
    pub(crate) needs_blocks: bool,
    pub(crate) has_structs: bool,
}

impl KernelProgram {
    pub(crate) fn new(
        module: Module,
        id: FuncId,
        sources: SourceMap,
        warnings: Vec<Diagnostic>,
        typed: Option<Arc<TypedProgram>>,
        arguments: Box<[TypedParam]>,
    ) -> KernelProgram {
        let types = module.functions[id].params().iter().map(|&param| module.functions[id].ty(param)).collect();
        let has_structs = arguments.iter().any(|param| param.ty.as_plain().is_none());
        let params =
            KernelParams::new(scalarise::params(&module.functions[id]), scalarise::elements(&module.functions[id]));
        let reads_size = module.functions.values().any(|function| function.metadata.reads_size);
        KernelProgram {
            params: if reads_size { params.with_int32_sizes() } else { params },
            needs_blocks: module.functions.values().any(Function::needs_blocks),
            written: written_params(&module, id),
            module: Arc::new(module),
            id,
            typed,
            sources,
            warnings,
            arguments,
            types,
            has_structs,
        }
    }
}

/// Returns the parameters of a function as its HIR has them.
pub(crate) fn plain_params(function: &Function) -> Box<[TypedParam]> {
    let params = function.param_names.iter().zip(function.params());
    params.map(|(name, &param)| TypedParam { name: name.clone(), ty: ValueType::Plain(function.ty(param)) }).collect()
}

/// Returns true for each parameter of the scalarised kernel that is an array the kernel may write.
fn written_params(module: &Module, kernel: FuncId) -> Box<[bool]> {
    let (writes, function) = (ArrayWrites::of(module, kernel), &module.functions[kernel]);
    let params = function.params().iter().zip(writes.of_function(kernel));
    let scalarised = params.flat_map(|(&param, &is_written)| {
        let n_components = function.ty(param).as_composite().map_or(1, Composite::n_components);
        std::iter::repeat_n(is_written, n_components)
    });
    scalarised.collect()
}
