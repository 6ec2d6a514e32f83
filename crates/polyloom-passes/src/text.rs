//! What back ends that write source text get: HIR as the front end made it, and definitions of its ops.
//!
//! Design: `docs/design/cpp-text.md`.

mod random;

use crate::pipeline::{self, PipelineOptions, extract, is_checked};
use crate::transform::blocks::split_for_text;
use crate::transform::inline::KeptCalls;
use crate::transform::scalarise::{FragmentLoads, LengthUse, scalarise_to};
use crate::transform::{cse, dce, early_exits, expand_library, fold, inline, strip_asserts};
use polyloom_ir::block_plan::BlockPlan;
use polyloom_ir::op::{Lowering, OpGroup};
use polyloom_ir::{
    Builder, CallEffects, Code, Diagnostic, FuncId, Function, FunctionKind, Imm, Module, Op, Type, Value,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// A kernel to be written as text.
pub struct ForText<'m> {
    /// The kernel and what it calls.
    pub module: Cow<'m, Module>,
    /// Its handle there.
    pub kernel: FuncId,
    /// Says how it was split into loops over the threads of a block, if it was, so that its threads are blocks then.
    pub blocks: Option<BlockPlan>,
}

/// A kernel as text is written from it. Composites, calls and library ops are still there; assertions are taken out.
/// With checks it is the kernel as other back ends get it, so that its sites have the same numbers. What is launched
/// in blocks is split at barriers for a CPU: without composites, and with calls of pure functions alone.
///
/// # Errors
///
/// As [`pipeline::prepare`], when functions call themselves, and when a kernel cannot be split.
pub fn for_text<'m>(
    module: &'m Module,
    kernel: FuncId,
    options: &PipelineOptions,
) -> Result<ForText<'m>, Vec<Diagnostic>> {
    let checked = is_checked(&module.functions[kernel], options);
    if !options.gpu && module.reachable(kernel).iter().any(|&id| module.functions[id].needs_blocks()) {
        let prepare = if checked { pipeline::prepared } else { pipeline::readable };
        let (mut copy, id) = prepare(module, kernel, options)?;
        return match split_for_text(&mut copy, id) {
            Ok(plan) => Ok(ForText { module: Cow::Owned(copy), kernel: id, blocks: Some(plan) }),
            Err(impossible) => {
                let message = format!("the kernel has no form in C++ for the CPU: {}", impossible.reason);
                let help = "CUDA C++ text has a form for it, and launches on the CPU run it by the interpreter";
                Err(vec![Diagnostic::error(Code::Backend, impossible.span, message).help(help)])
            }
        };
    }
    if checked {
        let (prepared, kernel) = pipeline::prepared(module, kernel, options)?;
        return Ok(ForText { module: Cow::Owned(prepared), kernel, blocks: None });
    }
    let asserts = |func: &Function| func.insts.values().any(|data| data.op == Op::Assert);
    if !module.functions.values().any(asserts) {
        return Ok(ForText { module: Cow::Borrowed(module), kernel, blocks: None });
    }
    let (mut copy, kernel) = extract(module, kernel);
    for func in copy.functions.values_mut() {
        strip_asserts::strip_asserts(func);
    }
    Ok(ForText { module: Cow::Owned(copy), kernel, blocks: None })
}

type Types = SmallVec<[Type; 4]>;

/// The function that defines an op for operands of these types, first in its module, followed by what it calls. `None`
/// where back ends have to define the op themselves.
///
/// It takes and gives what the op does, composites included.
pub fn definition(op: Op, types: &[Type]) -> Option<Arc<Module>> {
    type Cache = RwLock<FxHashMap<(Op, Types), Option<Arc<Module>>>>;
    static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);
    let draws = op.info().group == OpGroup::Random;
    if !types.iter().any(|ty| ty.as_composite().is_some()) && !gives_composites(op) && !draws {
        return match op.info().lowering {
            Lowering::Library => expand_library::definition(op, types),
            Lowering::Native | Lowering::Scalarised => None,
        };
    }
    let key = (op, Types::from_slice(types));
    // Entries are inserted whole, so that a poisoned lock protects nothing broken.
    if let Some(entry) = CACHE.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return entry.clone();
    }
    let mut built = definition_of_composites(op, types, LengthUse::Apart, true);
    if let Some(module) = built.as_mut().filter(|_| draws) {
        random::outline_steps(module);
    }
    let built = built.map(Arc::new);
    CACHE.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(built).clone()
}

/// Returns true if an op makes composites of scalars: `quat_rpy`, random directions.
fn gives_composites(op: Op) -> bool {
    op.info().signatures.iter().any(|signature| signature.has_composites())
}

/// Works like [`definition`]; the library's scalar ops in it, which have derivatives of their own, stay unless they are
/// asked to be expanded.
pub(crate) fn definition_of_composites(
    op: Op,
    types: &[Type],
    lengths: LengthUse,
    expands_library: bool,
) -> Option<Module> {
    let results = op.info().signatures.iter().find_map(|signature| signature.result_types(types))?;
    let is_composite = |ty: &Type| ty.as_composite().is_some();
    if !types.iter().chain(&results).any(is_composite) {
        return match op.info().lowering {
            Lowering::Library => expand_library::definition(op, types).map(|module| Module::clone(&module)),
            Lowering::Native | Lowering::Scalarised => None,
        };
    }
    // The op by itself, taken apart.
    let params =
        (0..types.len()).map(|index| (op.info().signatures[0].params.get(index).map_or("x", |p| p.name), types[index]));
    let params: SmallVec<[(&str, Type); 4]> = params.collect();
    let mut flat = Function::new("components", FunctionKind::Func, params.iter().copied(), &results);
    let operands: SmallVec<[Value; 4]> = flat.params().into();
    let mut builder = Builder::new(&mut flat);
    let inst = builder.inst(op, &operands, &results, Imm::None);
    let values = builder.func.insts[inst].results.clone();
    builder.return_(&values);
    let mut module = Module::new();
    let flat = module.functions.push(flat);
    scalarise_to(&mut module, lengths, FragmentLoads::Apart);
    if expands_library {
        expand_library::expand_library(&mut module, flat);
    }

    // A function of composites around it.
    let flat_results = module.functions[flat].results.clone();
    let mut whole = Function::new(op.name(), FunctionKind::Func, params.iter().copied(), &results);
    let operands: SmallVec<[Value; 4]> = whole.params().into();
    let mut builder = Builder::new(&mut whole);
    let mut components: SmallVec<[Value; 8]> = SmallVec::new();
    for &operand in &operands {
        match builder.func.ty(operand) {
            Type::Composite(composite) => components.extend((0..composite.n_components()).map(|number| {
                let ty = [composite.elem().into()];
                let inst = builder.inst(Op::Component, &[operand], &ty, Imm::Component(number as u16));
                builder.func.insts[inst].results[0]
            })),
            _ => components.push(operand),
        }
    }
    let values = builder.call(flat, &components, &flat_results);
    let mut values = values.into_iter();
    let wholes: SmallVec<[Value; 2]> = results
        .iter()
        .map(|&ty| {
            let parts: SmallVec<[Value; 8]> = values.by_ref().take(ty.components().len()).collect();
            match ty {
                Type::Composite(_) => {
                    let inst = builder.inst(Op::Construct, &parts, &[ty], Imm::None);
                    builder.func.insts[inst].results[0]
                }
                _ => parts[0],
            }
        })
        .collect();
    builder.return_(&wholes);
    let whole = module.functions.push(whole);
    inline::inline(&mut module, whole, KeptCalls::Nothing).ok()?;
    let calls = CallEffects::of(&module, whole);
    let func = &mut module.functions[whole];
    early_exits::early_exits(func);
    fold::fold(func);
    cse::cse(func, &calls);
    dce::dce(func, &calls);
    debug_assert!(func.callees().iter().all(|&callee| callee != flat), "the function is inlined");
    Some(extract(&module, whole).0)
}
