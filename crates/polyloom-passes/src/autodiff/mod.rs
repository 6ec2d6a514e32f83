//! Differentiation: from a kernel, its backward kernel, and the kernel of its derivative in a direction.
//!
//! ```text
//! kernel ── expand, inline ──┬─► structured ── races ── elements ── activity ──► sweeps ── sums ──► backward kernel
//!                            └─► activity ── tangents ── clean ──► kernel with tangents
//! ```
//!
//! For each active array `x` of the kernel, the backward kernel takes another, `adj_x`, with the same shape. The
//! caller fills in the adjoints of what the kernel wrote; the backward kernel adds what follows to the adjoints of
//! what it read. Of a scalar, the adjoint is an array of one element. The arrays of the kernel itself hold what they
//! held before the kernel ran, but for those that replays read ([`BackwardNeeds::left`]), which hold what it has left; those that
//! it both reads and writes are written again, so callers pass copies of them.
//!
//! The kernel with tangents takes for each active parameter `x` another, `dot_x`, of the same type: in which direction
//! it moves. It does what the kernel does, and leaves in `dot_x` in which direction that moves what is in `x`.
//!
//! Architecture invariant: HIR in, HIR out. What comes out is a kernel like any other: it is verified, goes through the
//! pipeline, and runs on every target.
//!
//! Design: `docs/design/reverse-mode.md`.

mod activity;
mod axis_dependence;
mod cleanup;
mod constants;
mod custom;
mod definitions;
mod elements;
mod expand;
mod function;
mod gather;
mod guards;
mod instructions;
mod meetings;
mod overwrite;
mod plan;
mod races;
mod request;
mod rules;
mod structure;
mod sums;
mod sweep;
mod tangent;
mod tape_layout;
mod unroll;
mod updates;

pub use activity::natural_rank;
pub use function::write_gradients;
pub use gather::{GatherStage, split};
pub use guards::{DerivativeLaunch, LaunchArgument};
pub use overwrite::{AdjointAccess, OverwritingProgram, overwriting};
pub use plan::{BackwardNeeds, BackwardProgram, TapeExtent};
pub use races::{AccessRace, found_in as races_in};
pub use request::{DerivativeRequest, LONG_LAUNCH};

use crate::pipeline::{extract, extract_with_derivatives};
use crate::transform::{fold, inline, strip_asserts};
use cranelift_entity::EntitySet;
use polyloom_ir::op::{Convergence, Derivative, OpEffect, OpGroup};
use polyloom_ir::{Code, Diagnostic, FloatMode, FuncId, Function, Imm, Inst, Module, Op, Scalar, Type, Value};
use std::borrow::Cow;
use sweep::BackwardBuilder;
use tangent::TangentBuilder;
use tape_layout::ExtraParam;

/// Differentiates a kernel of verified HIR, as the front end made it.
///
/// # Errors
///
/// Where the kernel has no derivative, or none that could be told: what to write instead.
pub fn backward(
    module: &Module,
    kernel: FuncId,
    request: &DerivativeRequest,
) -> Result<BackwardProgram, Vec<Diagnostic>> {
    let (rest, forward) = flat(module, kernel, request, has_definition, inline::KeptCalls::Custom)?;
    let request = &custom::with_arrays(&rest, &forward, request);
    let left = custom::check(&rest, &forward, request)?;
    let mut forward = structure::structured(&forward);
    let is_active = active_params(&forward, request);
    let values = activity::active_values(&forward, &is_active);
    refuse_bits(&forward, &values)?;
    let races = races::races(&forward, request, &values);
    elements::carry(&mut forward, request, &is_active);
    debug_assert_eq!(polyloom_ir::verify_function(&forward, None), Ok(()), "structured form is valid");
    let values = activity::active_values(&forward, &is_active);
    let mut arrays = activity::arrays(&forward, request);
    let n_params = forward.params().len();
    let (mut new, adjoints) = with_adjoints(&forward, &is_active, &mut arrays);
    let mut sweep = BackwardBuilder::new(&forward, &rest, &mut new, values, arrays.clone(), request.checkpoints);
    sweep.apart = activity::stores_apart(&forward, request);
    let mut rows = sweep::rows(&forward, request, &arrays);
    let row_reads = sweep::row_reads(&forward, &rows);
    if !(request.checkpoints && request.rows) {
        rows.fill(None);
    }
    sweep.rows.clone_from(&rows);
    let private = arrays.iter().filter(|array| array.is_private).filter_map(|array| array.adjoint).collect();
    let extra = ExtraParam { private, row_reads, ..swept(sweep, &forward, &adjoints)? };
    let new = custom::without_calls(&rest, Cow::Owned(new))?.into_owned();
    let (mut backward, counted) = plan::finish(new, n_params, adjoints, extra, request.rank);
    let needs = &mut backward.needs;
    let without_calls = custom::without_calls(&rest, Cow::Borrowed(&forward))?;
    needs.writes = without_calls.written_arrays();
    needs.accesses = needs.adjoints.iter().map(|&param| overwrite::access(&without_calls, param)).collect();
    needs.left = left;
    needs.races = races;
    if !needs.after.is_empty() {
        custom::refuse_second_runs(&forward, &needs.left)?;
        // The kernel is run once more to know what it leaves, from what it found.
        forward.walk(forward.body, &mut |_, data| {
            let effect = data.op.info().effect;
            let n_arrays = if data.op == Op::Call { data.operands.len() } else { 1 };
            for param in data.operands.iter().take(n_arrays).filter_map(|&array| forward.param_index(array)) {
                needs.reads[param] |= matches!(effect, OpEffect::Read | OpEffect::ReadWrite);
            }
        });
    }
    let is_strict = needs.takes_part() && decides_by_floats(&forward) || !needs.after.is_empty();
    if needs.takes_part() {
        refuse_places_in_blocks(&forward)?;
    }
    if !counted.is_empty() {
        plan::count(&mut backward, &forward, &rest, counted, arrays, rows)?;
    }
    // The kernels that count and record must decide alike, and so must the one that compares with the kernel's second
    // run.
    if is_strict {
        let sizes = backward.sizes.iter_mut().map(|(module, _)| module);
        std::iter::once(&mut backward.module).chain(sizes).for_each(make_strict);
    }
    Ok(backward)
}

/// The backward kernel with an empty body, and the parameters that it has adjoints of; notes those of arrays.
fn with_adjoints(
    forward: &Function,
    is_active: &[bool],
    arrays: &mut [activity::ArrayParam],
) -> (Function, Vec<usize>) {
    let mut new = forward.like();
    new.metadata.backward = true;
    let mut adjoints = Vec::new();
    for (index, &param) in forward.params().iter().enumerate().filter(|&(index, _)| is_active[index]) {
        let ty = forward.ty(param);
        let array = match ty {
            Type::Scalar(scalar) => Type::array(scalar, 1),
            Type::Composite(composite) => Type::composite_array(composite, 1),
            array => array,
        };
        let adjoint = new.add_param(format!("adj_{}", forward.param_names[index]), array);
        if ty.as_any_array().is_some() {
            arrays[index].adjoint = Some(adjoint);
        }
        adjoints.push(index);
    }
    (new, adjoints)
}

/// Writes both sweeps, and gives what they need.
fn swept(
    mut sweep: BackwardBuilder<'_>,
    forward: &Function,
    adjoints: &[usize],
) -> Result<ExtraParam, Vec<Diagnostic>> {
    let params: Vec<Value> = sweep.builder.func.params().to_vec();
    for (&old, &param) in forward.params().iter().zip(&params) {
        sweep.values[old] = param.into();
    }
    sweep.run();
    // The adjoints of scalars are left, to which every thread adds its part.
    for (&index, &target) in adjoints.iter().zip(&params[forward.params().len()..]) {
        let param = forward.params()[index];
        if let Some(adjoint) = sweep.adjoints[param].take() {
            let ty = forward.ty(param);
            let zero = sweep.builder.const_int(Scalar::I32, 0);
            sweep.builder.inst(Op::AtomicAdd, &[target, zero, adjoint], &[ty], Imm::None);
        }
    }
    sweep.builder.return_(&[]);
    let BackwardBuilder { errors, after, tapes, segments, place, .. } = sweep;
    if errors.is_empty() {
        Ok(ExtraParam { after, tapes, segments, place, ..ExtraParam::default() })
    } else {
        Err(errors)
    }
}

/// A kernel that computes its derivative in a direction beside what it computes.
#[derive(Clone, Debug)]
pub struct TangentProgram {
    /// A module with nothing else in it.
    pub module: Module,
    /// The kernel: it takes the kernel's parameters, and tangents.
    pub kernel: FuncId,
    /// The kernel's parameters that the tangents are of, in order.
    pub tangents: Vec<usize>,
    /// The kernel's arrays of which, behind the tangents, those follow that hold what the kernel leaves in them, in the
    /// mode `strict`.
    pub after: Vec<usize>,
    /// Launches whose threads race have no derivative.
    pub races: Vec<AccessRace>,
}

/// Differentiates a kernel of verified HIR, as the front end made it, in the direction that its caller gives.
///
/// # Errors
///
/// Where the kernel has no derivative, or none that could be told: what to write instead.
pub fn tangent(
    module: &Module,
    kernel: FuncId,
    request: &DerivativeRequest,
) -> Result<TangentProgram, Vec<Diagnostic>> {
    let (_, old) = flat(module, kernel, request, tangent::is_expanded, inline::KeptCalls::NoCalls)?;
    // An array that it writes may be read again.
    let asked = active_params(&old, request);
    let written =
        old.written_arrays().into_iter().zip(old.params()).map(|(written, &param)| written && old.ty(param).is_float());
    let is_active: Vec<bool> = asked.into_iter().zip(written).map(|(asked, written)| asked || written).collect();
    let values = activity::active_values(&old, &is_active);
    refuse_bits(&old, &values)?;
    let structured = structure::structured(&old);
    let races = races::races(&structured, request, &activity::active_values(&structured, &is_active));
    let tangents: Vec<usize> = (0..is_active.len()).filter(|&index| is_active[index]).collect();
    let mut new = old.like();
    new.name = format!("{}_tangent", old.name).into();
    let new_params: Vec<Value> = new.params().to_vec();
    let tangent_of =
        |&index: &usize| new.add_param(format!("dot_{}", old.param_names[index]), old.ty(old.params()[index]));
    let new_tangents: Vec<Value> = tangents.iter().map(tangent_of).collect();
    let mut writer = TangentBuilder::new(&old, &mut new, values);
    for (&param, &value) in old.params().iter().zip(&new_params) {
        writer.values[param] = value.into();
    }
    for (&index, &value) in tangents.iter().zip(&new_tangents) {
        writer.tangents[old.params()[index]] = value.into();
    }
    writer.run();
    let errors = std::mem::take(&mut writer.errors);
    let after: Vec<usize> = writer.after.iter().map(|&(param, _)| param).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    cleanup::clean(&mut new, &[]);
    cleanup::distinct_names(&mut new);
    let mut module = Module::new();
    let kernel = module.functions.push(new);
    debug_assert_eq!(polyloom_ir::verify_module(&module), Ok(()), "the kernel with tangents is valid\n{module}");
    if !after.is_empty() {
        make_strict(&mut module);
    }
    Ok(TangentProgram { module, kernel, tangents, after, races })
}

/// The module, and the kernel without calls but those that are kept, without ops that are differentiated by what they
/// are made of, and without updates that a load and a store do as well.
fn flat(
    module: &Module,
    kernel: FuncId,
    request: &DerivativeRequest,
    is_expanded: fn(Op, &[Type]) -> bool,
    keep: inline::KeptCalls,
) -> Result<(Module, Function), Vec<Diagnostic>> {
    let (mut module, kernel) = match keep {
        inline::KeptCalls::Custom => extract_with_derivatives(module, kernel),
        _ => extract(module, kernel),
    };
    for function in module.functions.values_mut() {
        strip_asserts::strip_asserts(function);
    }
    expand::expand(&mut module, is_expanded);
    inline::inline(&mut module, kernel, keep)?;
    let mut flat = module.functions[kernel].clone();
    fold::fold(&mut flat);
    refuse_collectives(&flat)?;
    updates::extrema_of_components(&mut flat);
    let is_read_and_own = updates::read_and_own(&flat, request);
    updates::as_loads_and_stores(&mut flat, &is_read_and_own);
    refuse_reads_of_updates(&flat)?;
    Ok((module, flat))
}

/// Returns true if an op on these types is differentiated by what it is made of.
fn has_definition(op: Op, types: &[Type]) -> bool {
    rules::derivative(op, types) == Derivative::Definition && types.iter().any(|ty| ty.is_float())
}

/// Returns true for each parameter that is asked for and has derivatives.
fn active_params(func: &Function, request: &DerivativeRequest) -> Vec<bool> {
    let is_asked = |index: usize| request.active.get(index).copied().unwrap_or(false);
    let params = func.params().iter().enumerate();
    params.map(|(index, &param)| is_asked(index) && func.ty(param).is_float()).collect()
}

/// Returns true if a decision, a trip count, an index or a number that moves in steps may be worked out from floats.
fn decides_by_floats(func: &Function) -> bool {
    let is_number = |&value: &Value| func.ty(value).as_any_array().is_none() && func.ty(value).is_float();
    let mut decides = false;
    func.walk(func.body, &mut |_, data| {
        let has_steps = data.op.info().derivative == Derivative::Zero || matches!(data.op, Op::Mod | Op::Frac);
        decides |= data.regions.is_empty()
            && data.operands.iter().any(is_number)
            && data.results.iter().any(|&result| has_steps || !func.ty(result).is_float());
    });
    decides
}

/// Has kernels round as HIR says, so that whatever else is compiled so finds the same numbers.
fn make_strict(module: &mut Module) {
    module.functions.values_mut().for_each(|function| function.metadata.float_mode = FloatMode::Strict);
}

/// Refuses barriers and warp operations, because the threads of a block would have to go back together, which is not
/// done, and `clock`, because it gives something else when the kernel runs again.
fn refuse_collectives(func: &Function) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    func.walk(func.body, &mut |_, data| {
        let info = data.op.info();
        if data.op == Op::Clock {
            let message = "`clock` gives something else when the kernel runs again, on the way back";
            let help = "measure in a kernel that is not differentiated";
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        }
        let is_shared = matches!(data.op, Op::SharedArray | Op::DynamicShared);
        if info.convergence != Convergence::None || is_shared {
            let message =
                format!("`{}` has no derivative: threads that work together are not differentiated", info.name);
            let help = "let each thread do its part alone, add up with `atomic_add`, and launch what waits for that as \
                        another kernel; or give the gradient yourself, with `Tape.record_func`";
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        }
    });
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns what asks where in its block a thread is, in kernels with tapes, since these are launched part by part, and
/// in other blocks.
fn refuse_places_in_blocks(func: &Function) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    func.walk(func.body, &mut |_, data| {
        let asks =
            matches!(data.op, Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim | Op::LaneId | Op::WarpId);
        if asks {
            let name = data.op.name();
            let message =
                format!("`{name}` in a kernel whose loops have to be recorded: the way back runs in other blocks");
            let help = "work it out from `tid()` and the extents of the launch, which the kernel is given";
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        }
    });
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Refuses loads of elements that the kernel may also update atomically, because what they gave depends on what other
/// threads had done.
fn refuse_reads_of_updates(func: &Function) -> Result<(), Vec<Diagnostic>> {
    let mut updates: Vec<(Value, Inst)> = Vec::new();
    func.walk(func.body, &mut |inst, data| {
        if data.op.info().group == OpGroup::Atomic {
            updates.push((data.operands[0], inst));
        }
    });
    if updates.is_empty() {
        return Ok(());
    }
    let negative = activity::negative_indices(func);
    let mut errors = Vec::new();
    func.walk(func.body, &mut |inst, data| {
        let is_updated = |&&operand: &&Value| {
            let mut of_it = updates.iter().filter(|(array, _)| *array == operand);
            of_it.any(|&(_, update)| !activity::are_other_elements(func, &negative, [inst, update]))
        };
        if data.op.info().effect == OpEffect::Read
            && let Some(&array) = data.operands.iter().find(is_updated)
        {
            let name = func.param_index(array).map_or("the array", |index| &*func.param_names[index]);
            let message = format!(
                "`{name}` is read and updated atomically in one kernel, so what is read depends on the order of threads"
            );
            let help = "read it in a kernel of its own, or elements that constant indices tell apart";
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        }
    });
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns what looks at the bits of a number that has derivatives, because what it makes of them may be a number
/// again.
fn refuse_bits(func: &Function, active: &EntitySet<Value>) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    func.walk(func.body, &mut |_, data| {
        if data.op == Op::Bitcast && active.contains(data.operands[0]) {
            let message = "the bits of a number that needs a gradient have no derivative";
            let help = "compute it by arithmetic, or in a kernel of its own";
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        }
    });
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
