//! Reverse-mode differentiation: from a kernel, its backward kernel.
//!
//! ```text
//! kernel ── inline, expand ──► structured ── activity ──► sweeps ── clean ──► backward kernel
//! ```
//!
//! For each active array `x` of the kernel, the backward kernel takes another, `adj_x`, with the same shape. The
//! caller fills in the adjoints of what the kernel wrote; the backward kernel adds what follows to the adjoints of
//! what it read. Of a scalar, the adjoint is an array of one element. The arrays of the kernel itself hold what they
//! held before the kernel ran; those that it both reads and writes are written again, so callers pass copies of them.
//!
//! Architecture invariant: HIR in, HIR out. What comes out is a kernel like any other: it is verified, goes through the
//! pipeline, and runs on every target.

mod activity;
mod expand;
mod plan;
mod rules;
mod structure;
mod sweep;
mod updates;

pub use plan::Backward;

use crate::pipeline::extract;
use crate::transform::{fold, inline, strip_asserts};
use cranelift_entity::EntitySet;
use polyloom_ir::op::{Convergence, Effect, Group};
use polyloom_ir::{
    Builder, Code, Diagnostic, FuncId, Function, FunctionKind, Imm, KernelMetadata, Module, Op, Scalar, Type, Value,
};
use smallvec::SmallVec;
use sweep::Sweep;

/// What a backward kernel is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// By parameter of the kernel: whether derivatives with respect to it are wanted, or flow through it. Integers have
    /// none, whatever this says.
    pub active: Vec<bool>,
    /// The rank of launches.
    pub rank: u8,
}

/// Differentiates a kernel of verified HIR, as the front end made it.
///
/// # Errors
///
/// Where the kernel has no derivative, or none that could be told: what to write instead.
pub fn backward(module: &Module, kernel: FuncId, request: &Request) -> Result<Backward, Vec<Diagnostic>> {
    let (mut module, kernel) = extract(module, kernel);
    for function in module.functions.values_mut() {
        strip_asserts::strip_asserts(function);
    }
    expand::expand(&mut module);
    inline::inline(&mut module, kernel, inline::Keep::NoCalls)?;
    let mut forward = module.functions[kernel].clone();
    fold::fold(&mut forward);
    refuse_collectives(&forward)?;
    updates::own_updates(&mut forward, request);
    refuse_reads_of_updates(&forward)?;
    let forward = structure::structured(&forward);
    debug_assert_eq!(polyloom_ir::verify_function(&forward, None), Ok(()), "structured form is valid");

    let is_active: Vec<bool> = forward
        .params()
        .iter()
        .enumerate()
        .map(|(index, &param)| request.active.get(index).copied().unwrap_or(false) && is_float(forward.ty(param)))
        .collect();
    let values = activity::active_values(&forward, &is_active);
    let mut arrays = activity::arrays(&forward, request);

    let names: Vec<String> = forward.param_names.iter().map(|name| name.to_string()).collect();
    let mut params: Vec<(String, Type)> =
        names.iter().cloned().zip(forward.params().iter().map(|&param| forward.ty(param))).collect();
    let mut adjoints = Vec::new();
    for (index, &param) in forward.params().iter().enumerate().filter(|&(index, _)| is_active[index]) {
        let ty = match forward.ty(param) {
            Type::Scalar(scalar) => Type::array(scalar, 1),
            Type::Composite(composite) => Type::composite_array(composite, 1),
            array => array,
        };
        params.push((format!("adj_{}", names[index]), ty));
        adjoints.push(index);
    }
    let typed = params.iter().map(|(name, ty)| (name.as_str(), *ty));
    let mut new = Function::new(forward.name.clone(), FunctionKind::Kernel, typed, &[]);
    new.metadata = KernelMetadata { backward: true, ..forward.metadata.clone() };
    new.constraints = forward.constraints.clone();
    new.span = forward.span;
    let n_params = forward.params().len();
    let new_params: Vec<Value> = new.params().to_vec();
    for (number, &index) in adjoints.iter().enumerate() {
        if forward.ty(forward.params()[index]).as_any_array().is_some() {
            arrays[index].adjoint = Some(new_params[n_params + number]);
        }
    }
    let mut sweep = Sweep::new(&forward, &mut new, values, arrays.clone());
    for (&old, &param) in forward.params().iter().zip(&new_params) {
        sweep.values[old] = param.into();
    }
    sweep.run();
    // What is left is the adjoints of scalars, to which every thread adds its part.
    for (number, &index) in adjoints.iter().enumerate() {
        let param = forward.params()[index];
        if let Some(adjoint) = sweep.adjoints[param].take() {
            let ty = forward.ty(param);
            let zero = sweep.builder.const_int(Scalar::I32, 0);
            let target = new_params[n_params + number];
            sweep.builder.inst(Op::AtomicAdd, &[target, zero, adjoint], &[ty], Imm::None);
        }
    }
    sweep.builder.return_(&[]);
    let (errors, tapes, n_places) =
        (std::mem::take(&mut sweep.errors), std::mem::take(&mut sweep.tapes), sweep.n_places);
    if !errors.is_empty() {
        return Err(errors);
    }
    let (mut backward, lengths) = plan::finish(new, n_params, adjoints, tapes, n_places);
    backward.writes = forward.written_arrays();
    if !lengths.is_empty() {
        backward.sizes = Some(plan::sizes(&forward, lengths, arrays));
    }
    Ok(backward)
}

/// Barriers and warp operations: the threads of a block go back together, which is not done.
fn refuse_collectives(func: &Function) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    func.walk(func.body, &mut |_, data| {
        let info = data.op.info();
        let is_shared = matches!(data.op, Op::SharedArray | Op::DynamicShared);
        if info.convergence != Convergence::None || is_shared {
            let message =
                format!("`{}` has no derivative: threads that work together are not differentiated", info.name);
            let help = "write the kernel without it, or give its gradient in a kernel of your own";
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        }
    });
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Loads of arrays that the kernel also updates atomically: what they gave depends on what other threads had done.
fn refuse_reads_of_updates(func: &Function) -> Result<(), Vec<Diagnostic>> {
    let mut updated = EntitySet::new();
    func.walk(func.body, &mut |_, data| {
        if data.op.info().group == Group::Atomic {
            updated.insert(data.operands[0]);
        }
    });
    let mut errors = Vec::new();
    func.walk(func.body, &mut |_, data| {
        if data.op.info().effect == Effect::Read && data.operands.first().is_some_and(|&array| updated.contains(array))
        {
            let name = func.param_index(data.operands[0]).map_or("the array", |index| &*func.param_names[index]);
            let message = format!(
                "`{name}` is read and updated atomically in one kernel, so what is read depends on the order of threads"
            );
            let help = "read it in a kernel of its own";
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        }
    });
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Whether a value of this type, or an element of such an array, has derivatives.
fn is_float(ty: Type) -> bool {
    match ty {
        Type::Scalar(elem) | Type::Array { elem, .. } => elem.is_float(),
        Type::Composite(elem) | Type::CompositeArray { elem, .. } => elem.elem().is_float(),
    }
}

/// The zero of a type.
fn zero(builder: &mut Builder<'_>, ty: Type) -> Value {
    match ty {
        Type::Composite(composite) => {
            let nothing = builder.const_bits(composite.elem(), 0);
            let components: SmallVec<[Value; 16]> = std::iter::repeat_n(nothing, composite.n_components()).collect();
            let inst = builder.inst(Op::Construct, &components, &[ty], Imm::None);
            builder.func.insts[inst].results[0]
        }
        ty => builder.const_bits(ty.as_scalar().unwrap_or(Scalar::I32), 0),
    }
}
