//! The way from the front end's HIR to a back end's.

use crate::pass::PassContext;
use crate::transform::scalarise::{FragmentLoads, LengthUse};
use crate::transform::*;
use polyloom_ir::{CallEffects, Diagnostic, FuncId, Function, Imm, Module, verify_function};

/// Describes how kernels are prepared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PipelineOptions {
    /// True if array indices, integer divisors and assertions are checked, in functions that do not refuse it
    /// (constraint `unchecked`). A kernel's own `check` asks for the same.
    pub checked: bool,
    /// True if the kernel is for a GPU: what only these have is kept.
    pub gpu: bool,
}

/// Brings a kernel into the form back ends take, in place: see [`polyloom_ir`]'s verifier for what HIR is, and
/// `Backend` for what back ends rely on.
///
/// Functions the kernel calls are changed as well; the functions of the module keep their handles, and library
/// functions are added.
///
/// The order matters. After `scalarise`, which all others rely on (and the checks of what it takes apart), checks come
/// first, in the user's own functions, so that they name the user's arrays and no library function is checked. Indices
/// are normalised after inlining and `cse`: what a caller's conditions say about an index then counts in the callee,
/// and an index and a condition on it are one value.
///
/// # Errors
///
/// When the kernel grows beyond the compiler's limits, with a diagnostic that names the function at fault.
pub fn prepare(module: &mut Module, kernel: FuncId, options: &PipelineOptions) -> Result<(), Vec<Diagnostic>> {
    let is_gpu_code = options.gpu && !is_checked(&module.functions[kernel], options);
    let fragments = if is_gpu_code { FragmentLoads::Shared } else { FragmentLoads::Apart };
    scalarise_checked(module, kernel, options, fragments);
    for id in module.reachable(kernel) {
        expand_library::expand_library(module, id);
    }
    inline::inline(module, kernel, if options.gpu { inline::KeptCalls::Marked } else { inline::KeptCalls::Nothing })?;
    if !options.gpu {
        cpu_ops::cpu_ops(&mut module.functions[kernel]);
    }
    let calls = CallEffects::of(module, kernel);
    refine(&mut module.functions[kernel], &calls);
    if options.gpu {
        // Functions of the user's that stay; those of the library are as they should be.
        for id in module.reachable(kernel).into_iter().skip(1) {
            if module.functions[id].constraints.inline_never {
                refine(&mut module.functions[id], &calls);
            }
        }
    }
    debug_assert_eq!(verify_function(&module.functions[kernel], Some(module)), Ok(()), "prepared HIR is valid");
    Ok(())
}

/// Runs the passes that make the code of one function good, and such as back ends take.
fn refine(func: &mut Function, calls: &CallEffects) {
    early_exits::early_exits(func);
    legalize_half::legalize_half(func);
    fold::fold(func);
    if_convert::if_convert(func);
    cse::cse(func, calls);
    known_conditions::known_conditions(func);
    if normalize_indices::normalize_indices(func) {
        cse::cse(func, calls);
    }
    licm::licm(func, calls);
    dce::dce(func, calls);
}

/// Takes composites apart, and puts checks into the kernel and the functions it calls, or takes assertions out.
fn scalarise_checked(module: &mut Module, kernel: FuncId, options: &PipelineOptions, fragments: FragmentLoads) {
    let context = PassContext { checked: is_checked(&module.functions[kernel], options) };
    for id in module.reachable(kernel) {
        let func = &mut module.functions[id];
        if context.checks(func) {
            insert_checks::insert_component_checks(func);
        }
    }
    scalarise::scalarise_to(module, LengthUse::Apart, fragments);
    for id in module.reachable(kernel) {
        let func = &mut module.functions[id];
        if inline::is_library_name(&func.name) {
            continue;
        }
        if context.checks(func) {
            insert_checks::insert_checks(func);
        } else {
            strip_asserts::strip_asserts(func);
        }
    }
}

/// A module of the kernel and what it calls in the form the interpreter runs: composites are taken apart, checks are
/// put in or assertions taken out, and nothing else is done. Gives the kernel's handle there.
pub fn interpretable(module: &Module, kernel: FuncId, options: &PipelineOptions) -> (Module, FuncId) {
    let (mut copy, id) = extract(module, kernel);
    scalarise_checked(&mut copy, id, options, FragmentLoads::Apart);
    (copy, id)
}

/// A module of the kernel and the pure functions it calls, in the form that is split at barriers for readers:
/// composites are taken apart, assertions are out and other calls inlined, and library ops are still there. Gives the
/// kernel's handle there.
///
/// # Errors
///
/// As [`prepare`].
pub fn readable(
    module: &Module,
    kernel: FuncId,
    options: &PipelineOptions,
) -> Result<(Module, FuncId), Vec<Diagnostic>> {
    let (mut copy, id) = interpretable(module, kernel, options);
    inline::inline(&mut copy, id, inline::KeptCalls::Everything)?;
    let calls = CallEffects::of(&copy, id);
    let func = &mut copy.functions[id];
    early_exits::early_exits(func);
    fold::fold(func);
    dce::dce(func, &calls);
    Ok(extract(&copy, id))
}

/// Returns true if a kernel is compiled with checks. If it refuses them, the functions it calls are not checked either.
pub fn is_checked(kernel: &Function, options: &PipelineOptions) -> bool {
    (options.checked || kernel.metadata.check) && !kernel.constraints.unchecked
}

/// Works like [`prepare`], but leaves `module` alone: gives a module that holds nothing but the prepared kernel and the
/// library functions it calls, and the kernel's handle there.
///
/// # Errors
///
/// As [`prepare`].
pub fn prepared(
    module: &Module,
    kernel: FuncId,
    options: &PipelineOptions,
) -> Result<(Module, FuncId), Vec<Diagnostic>> {
    let (mut copy, id) = extract(module, kernel);
    prepare(&mut copy, id, options)?;
    if copy.functions.len() > 1 {
        return Ok(extract(&copy, id));
    }
    Ok((copy, id))
}

/// A module of only `root`, which comes first, and what it calls.
pub fn extract(module: &Module, root: FuncId) -> (Module, FuncId) {
    extracted(module, &module.reachable(root))
}

/// [`extract`] with the functions that stand in for derivatives.
pub(crate) fn extract_with_derivatives(module: &Module, root: FuncId) -> (Module, FuncId) {
    extracted(module, &reachable_with_derivatives(module, root))
}

fn extracted(module: &Module, kept: &[FuncId]) -> (Module, FuncId) {
    let mut copy = Module::new();
    let number = |id: FuncId| kept.iter().position(|&k| k == id).map(|index| FuncId::from_u32(index as u32));
    for &id in kept {
        let mut function: Function = module.functions[id].clone();
        function.gradient = function.gradient.and_then(number);
        function.replay = function.replay.and_then(number);
        for data in function.insts.values_mut() {
            if let Imm::Func(callee) = &mut data.imm {
                // A call that is no longer part of the code may name a function that is left behind.
                *callee = number(*callee).unwrap_or(FuncId::from_u32(0));
            }
        }
        copy.functions.push(function);
    }
    (copy, FuncId::from_u32(0))
}

/// Returns what [`Module::reachable`] gives, and the functions that stand in for derivatives of these.
pub(crate) fn reachable_with_derivatives(module: &Module, root: FuncId) -> Vec<FuncId> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        next += 1;
        let function = &module.functions[id];
        for callee in function.callees().into_iter().chain(function.gradient).chain(function.replay) {
            if !found.contains(&callee) {
                found.push(callee);
            }
        }
    }
    found
}
