//! The backward kernel as it is handed over: without what nothing needs, and with what a launch has to know.

use super::sweep::{Array, Sweep};
use crate::analysis::effects::CallEffects;
use crate::transform::{cse, dce, fold};
use cranelift_entity::EntitySet;
use polyloom_ir::op::Effect;
use polyloom_ir::{FuncId, Function, FunctionKind, Inst, Module, Op, Scalar, Type, Value, ValueDef, verify_module};
use smallvec::SmallVec;

/// A backward kernel.
#[derive(Clone, Debug)]
pub struct Backward {
    /// A module with nothing else in it.
    pub module: Module,
    /// The backward kernel.
    pub kernel: FuncId,
    /// The kernel's parameters that the parameters behind those of the kernel are the adjoints of, in order.
    pub adjoints: Vec<usize>,
    /// Of each tape, which follow, which number of `sizes` says how long it has to be: its extents are this and the
    /// number of threads that have a place on it. The last parameter is the latter, if there are tapes.
    pub tapes: Vec<usize>,
    /// A kernel with the parameters of the kernel and, last, an array of numbers, each of which it raises to how long
    /// tapes have to be. There is one if there are tapes.
    pub sizes: Option<(Module, FuncId)>,
    /// How many such numbers there are.
    pub n_sizes: usize,
    /// By parameter of the kernel: whether the backward kernel writes it, so that it has to be given a copy.
    pub replayed: Vec<bool>,
    /// By parameter of the kernel: whether what the array held before the kernel ran matters.
    pub reads: Vec<bool>,
    /// By parameter of the kernel: whether the kernel itself writes the array.
    pub writes: Vec<bool>,
}

/// How long a tape has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TapeLength {
    /// As often as the loop runs.
    Loop(Inst),
    /// As often as this load is executed.
    Reads(Inst),
}

/// A tape of the backward kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tape {
    pub(super) param: Value,
    pub(super) length: TapeLength,
}

/// Takes out of a backward kernel what nothing needs: what was recorded and is not asked for, copies of memory that
/// is not read, and tapes that are not used.
pub(super) fn finish(
    mut func: Function,
    n_params: usize,
    adjoints: Vec<usize>,
    tapes: Vec<Tape>,
    n_places: Option<Value>,
) -> (Backward, Vec<TapeLength>) {
    let mut private: Vec<Value> = func.params()[..n_params].to_vec();
    private.extend(tapes.iter().map(|tape| tape.param));
    clean(&mut func, &private);

    let mut is_used = EntitySet::new();
    let mut is_written = EntitySet::new();
    let mut is_read = EntitySet::new();
    func.walk(func.body, &mut |_, data| {
        data.operands.iter().for_each(|&operand| _ = is_used.insert(operand));
        if data.op == Op::ArrayStore {
            is_written.insert(data.operands[0]);
        }
        if data.op.info().effect == Effect::Read && !data.operands.is_empty() {
            is_read.insert(data.operands[0]);
        }
    });
    let of_params = |set: &EntitySet<Value>| private[..n_params].iter().map(|&param| set.contains(param)).collect();
    let (replayed, reads): (Vec<bool>, Vec<bool>) = (of_params(&is_written), of_params(&is_read));
    let tapes: Vec<Tape> = tapes.into_iter().filter(|tape| is_used.contains(tape.param)).collect();
    let n_places = n_places.filter(|&param| is_used.contains(param));
    let n_fixed = n_params + adjoints.len();
    let body = func.body;
    let mut params: SmallVec<[Value; 4]> = func.params()[..n_fixed].into();
    let mut names = func.param_names[..n_fixed].to_vec();
    for (number, tape) in tapes.iter().enumerate() {
        params.push(tape.param);
        names.push(format!("tape_{number}").into());
    }
    if let Some(param) = n_places {
        params.push(param);
        names.push("tape_places".into());
    }
    for (index, &param) in params.iter().enumerate() {
        func.values[param].def = ValueDef::Param(body, index as u32);
    }
    func.regions[body].params = params;
    func.param_names = names;
    let mut module = Module::new();
    let kernel = module.functions.push(func);
    debug_assert_eq!(verify_module(&module), Ok(()), "the backward kernel is valid\n{module}");
    let mut lengths: Vec<TapeLength> = Vec::new();
    let mut numbers = Vec::new();
    for tape in &tapes {
        let known = lengths.iter().position(|length| *length == tape.length);
        numbers.push(known.unwrap_or(lengths.len()));
        if known.is_none() {
            lengths.push(tape.length);
        }
    }
    let n_sizes = lengths.len();
    let writes = vec![false; n_params];
    let backward = Backward { module, kernel, adjoints, tapes: numbers, sizes: None, n_sizes, replayed, reads, writes };
    (backward, lengths)
}

/// The kernel that finds out how long tapes have to be.
pub(super) fn sizes(forward: &Function, lengths: Vec<TapeLength>, arrays: Vec<Array>) -> (Module, FuncId) {
    let params = forward.param_names.iter().zip(forward.params()).map(|(name, &param)| (&**name, forward.ty(param)));
    let params = params.chain([("tape_sizes", Type::array(Scalar::I32, 1))]);
    let name = format!("{}_tape_sizes", forward.name);
    let mut new = Function::new(name, FunctionKind::Kernel, params, &[]);
    new.metadata = forward.metadata.clone();
    new.constraints = forward.constraints.clone();
    new.span = forward.span;
    let new_params: Vec<Value> = new.params().to_vec();
    let n_params = forward.params().len();
    let mut sweep = Sweep::new(forward, &mut new, EntitySet::new(), arrays);
    for (&old, &param) in forward.params().iter().zip(&new_params) {
        sweep.values[old] = param.into();
    }
    sweep.sizes = Some((new_params[n_params], lengths));
    sweep.run_sizes();
    sweep.builder.return_(&[]);
    clean(&mut new, &new_params[..n_params]);
    let mut module = Module::new();
    let kernel = module.functions.push(new);
    debug_assert_eq!(verify_module(&module), Ok(()), "the kernel of sizes is valid\n{module}");
    (module, kernel)
}

/// Takes out what nothing needs, where nobody else looks at the `private` arrays.
pub(super) fn clean(func: &mut Function, private: &[Value]) {
    let calls = CallEffects::default();
    fold::fold(func);
    dce::dce_private(func, &calls, private);
    cse::cse(func, &calls);
    fold::fold(func);
    dce::dce_private(func, &calls, private);
}
