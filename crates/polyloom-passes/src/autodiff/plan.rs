//! The backward kernel as it is handed over: without what nothing needs, and with what a launch has to know.

use super::activity::ArrayParam;
use super::cleanup::{clean, distinct_names};
use super::custom;
use super::instructions::is_used;
use super::overwrite::AdjointAccess;
use super::races::{self, AccessRace};
use super::sweep::BackwardBuilder;
use super::tape_layout::{ExtraParam, TapeCount, TapeLength, TapeParam, ThreadRow};
use super::{sums, updates};
use crate::edit::ValueReplacements;
use crate::transform::{cse, dce, fold};
use cranelift_entity::EntitySet;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{
    Builder, CallEffects, Diagnostic, FuncId, Function, Imm, Inst, Module, Op, Scalar, Type, Value, ValueDef,
    verify_module,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// A backward kernel.
#[derive(Clone, Debug)]
pub struct BackwardProgram {
    /// A module with nothing else in it.
    pub module: Module,
    /// The backward kernel.
    pub kernel: FuncId,
    /// A kernel with the parameters of the kernel and, last, an array of numbers, each of which it raises to one of
    /// [`BackwardNeeds::lengths`]. There is one unless all are known.
    pub sizes: Option<(Module, FuncId)>,
    /// Holds what a launch has to know.
    pub needs: BackwardNeeds,
}

/// Describes what a launch of a backward kernel has to know. The kernel's parameters are those of the kernel that it
/// goes back through, and then what is said here, in order. Parameters are counted as that kernel's HIR has them.
#[derive(Clone, Default, Debug)]
pub struct BackwardNeeds {
    /// The parameters that the adjoints are of, in order.
    pub adjoints: Vec<usize>,
    /// Holds what the kernel does with each of these parameters.
    pub accesses: Vec<AdjointAccess>,
    /// The arrays of which, next, those follow that hold what the kernel leaves in them, in the mode `strict`.
    pub after: Vec<usize>,
    /// Says how long each of the tapes is that follow. Their second extent is the number of threads that have a place
    /// on them: with tapes, a launch is over so many threads, a part of those of the kernel's launch. See
    /// [`BackwardNeeds::takes_part`].
    pub tapes: Vec<TapeExtent>,
    /// Behind the tapes, for each of these loops how many iterations a segment of it has.
    pub segments: Vec<usize>,
    /// Number of times loops run and reads are executed, as far as that is known.
    pub lengths: Vec<Option<u32>>,
    /// True if all threads find the same lengths, so that one need be asked.
    pub lengths_are_uniform: bool,
    /// For each parameter, whether the backward kernel writes the array, so that it has to be given a copy.
    pub replayed: Vec<bool>,
    /// For each parameter, whether what the array held before the kernel ran matters.
    pub reads: Vec<bool>,
    /// For each parameter, whether the kernel itself writes the array.
    pub writes: Vec<bool>,
    /// For each parameter, whether what the array holds after the kernel matters, and not what it held before.
    pub left: Vec<bool>,
    /// True if loops record what they read of rows that are the threads' own:
    /// [`DerivativeRequest::rows`](super::DerivativeRequest::rows) would bound that.
    pub records_rows: bool,
    /// Launches whose threads race have no gradient.
    pub races: Vec<AccessRace>,
}

impl BackwardNeeds {
    /// Returns true if it is launched over a part of the threads: in one dimension, with the number of the first thread
    /// and all extents of the whole launch but the first as its last arguments.
    pub fn takes_part(&self) -> bool {
        !self.tapes.is_empty() || !self.segments.is_empty()
    }

    /// Returns what to say of a kernel whose threads race in every launch of so many dimensions that has more than one
    /// thread.
    pub fn race_in_any_launch(&self, rank: u8) -> Option<&Diagnostic> {
        races::in_any_launch(&self.races, rank)
    }
}

/// Describes how long a tape is, by the numbers of [`BackwardNeeds::lengths`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapeExtent {
    /// So many elements.
    Whole(usize),
    /// As many as a loop has segments.
    Checkpoints(usize),
    /// As many as a segment of a loop has iterations.
    Segment(usize),
    /// For each segment of a loop as many as a row has.
    Rows {
        /// Number of times the loop runs.
        of: usize,
        /// Number of elements the row has.
        row: usize,
    },
    /// For each iteration of a segment as many as one reads.
    SegmentReads {
        /// Number of times the loop runs.
        of: usize,
        /// Says how many an iteration reads.
        reads: usize,
    },
}

/// Takes out of a backward kernel what nothing needs: what was recorded and is not asked for, copies of memory that
/// is not read, and tapes that are not used. Gives, too, what has to be counted.
pub(super) fn finish(
    mut func: Function,
    n_params: usize,
    adjoints: Vec<usize>,
    extra: ExtraParam,
    rank: u8,
) -> (BackwardProgram, Vec<TapeCount>) {
    let mut private: Vec<Value> = func.params()[..n_params].to_vec();
    private.extend(extra.tapes.iter().map(|tape| tape.param));
    clean(&mut func, &private);
    if sums::leave_loops(&mut func) {
        clean(&mut func, &private);
    }
    let is_private: Vec<bool> = func.params().iter().map(|param| extra.private.contains(param)).collect();
    updates::as_loads_and_stores(&mut func, &is_private);

    let mut is_used = EntitySet::new();
    let mut is_written = EntitySet::new();
    let mut is_read = EntitySet::new();
    func.walk(func.body, &mut |_, data| {
        data.operands.iter().for_each(|&operand| _ = is_used.insert(operand));
        if data.op == Op::ArrayStore {
            is_written.insert(data.operands[0]);
        }
        if data.op.info().effect == OpEffect::Read {
            is_read.extend(data.operands.iter().copied());
        }
    });
    let of_params = |set: &EntitySet<Value>| private[..n_params].iter().map(|&param| set.contains(param)).collect();
    let (replayed, reads): (Vec<bool>, Vec<bool>) = (of_params(&is_written), of_params(&is_read));
    let tapes: Vec<TapeParam> = extra.tapes.into_iter().filter(|tape| is_used.contains(tape.param)).collect();
    let segments: Vec<(Inst, Value)> =
        extra.segments.into_iter().filter(|&(_, param)| is_used.contains(param)).collect();

    let n_fixed = n_params + adjoints.len();
    let mut params: SmallVec<[Value; 4]> = func.params()[..n_fixed].into();
    let mut names = func.param_names[..n_fixed].to_vec();
    let after: Vec<(usize, Value)> = extra.after.into_iter().filter(|&(_, param)| is_used.contains(param)).collect();
    for &(param, value) in &after {
        params.push(value);
        names.push(format!("after_{}", func.param_names[param]).into());
    }
    for (number, tape) in tapes.iter().enumerate() {
        params.push(tape.param);
        names.push(format!("tape_{number}").into());
    }
    for (number, &(_, param)) in segments.iter().enumerate() {
        params.push(param);
        names.push(format!("segment_{number}").into());
    }
    set_params(&mut func, params, names);
    if !tapes.is_empty() || !segments.is_empty() {
        take_part(&mut func, extra.place, rank);
    }
    distinct_names(&mut func);
    let mut module = Module::new();
    let kernel = module.functions.push(func);
    debug_assert_eq!(verify_module(&module), Ok(()), "the backward kernel is valid\n{module}");
    let mut counted = Vec::new();
    let records_row =
        |tape: &TapeParam| matches!(tape.length, TapeLength::Reads(read) if extra.row_reads.contains(read));
    let records_rows = tapes.iter().any(records_row);
    let tapes = tapes.iter().map(|tape| extent(tape.length, &mut counted)).collect();
    let segments = segments.iter().map(|&(inst, _)| number_of(TapeCount::Loop(inst), &mut counted)).collect();
    let after = after.into_iter().map(|(param, _)| param).collect();
    let needs =
        BackwardNeeds { adjoints, after, tapes, segments, replayed, reads, records_rows, ..BackwardNeeds::default() };
    (BackwardProgram { module, kernel, sizes: None, needs }, counted)
}

/// Returns how long a tape is, by the numbers of what is counted to know it.
fn extent(length: TapeLength, counted: &mut Vec<TapeCount>) -> TapeExtent {
    let mut number = |of: TapeCount| number_of(of, counted);
    match length {
        TapeLength::Loop(inst) => TapeExtent::Whole(number(TapeCount::Loop(inst))),
        TapeLength::Reads(read) => TapeExtent::Whole(number(TapeCount::Reads(read))),
        TapeLength::Checkpoints(inst) => TapeExtent::Checkpoints(number(TapeCount::Loop(inst))),
        TapeLength::Segment(inst) => TapeExtent::Segment(number(TapeCount::Loop(inst))),
        TapeLength::Rows(inst, param) => {
            TapeExtent::Rows { of: number(TapeCount::Loop(inst)), row: number(TapeCount::Row(param)) }
        }
        TapeLength::SegmentReads(inst, read) => {
            TapeExtent::SegmentReads { of: number(TapeCount::Loop(inst)), reads: number(TapeCount::Reads(read)) }
        }
    }
}

/// The number of what is counted.
fn number_of(what: TapeCount, counted: &mut Vec<TapeCount>) -> usize {
    let known = counted.iter().position(|known| *known == what);
    known.unwrap_or_else(|| {
        counted.push(what);
        counted.len() - 1
    })
}

/// Takes out of a function what nothing needs, with its parameters beyond the first so many, tapes among them. Gives
/// whether none of those are needed.
pub(super) fn without_tapes(func: &mut Function, n_params: usize, tapes: &[Value]) -> bool {
    clean(func, tapes);
    let params: SmallVec<[Value; 4]> = func.params()[..n_params].into();
    let extra = func.params()[n_params..].to_vec();
    if extra.iter().any(|&param| is_used(func, param)) {
        return false;
    }
    let names = func.param_names[..n_params].to_vec();
    set_params(func, params, names);
    true
}

/// Makes these the parameters of a function.
fn set_params(func: &mut Function, params: SmallVec<[Value; 4]>, names: Vec<Arc<str>>) {
    let body = func.body;
    for (index, &param) in params.iter().enumerate() {
        func.values[param].def = ValueDef::Param(body, index as u32);
    }
    func.regions[body].params = params;
    func.param_names = names;
}

/// Has a kernel do a part of a launch's threads: the first one and all extents but the first become parameters, from
/// which a thread works out its coordinates, and its number in the part becomes its place on tapes.
fn take_part(func: &mut Function, place: Option<Value>, rank: u8) {
    let body = func.body;
    let first = func.add_param("first_thread", Type::I32);
    let extents: SmallVec<[Value; 4]> =
        (1..rank).map(|axis| func.add_param(format!("extent_{axis}"), Type::I32)).collect();
    let behind = std::mem::take(&mut func.regions[body].insts);
    let mut builder = Builder::new(func);
    let here = builder.op(Op::TidLinear, &[]);
    let thread = builder.op(Op::Add, &[first, here]);
    // Row-major, so that the last coordinate is the one that changes first.
    let mut coordinates: SmallVec<[Value; 4]> = SmallVec::new();
    let mut rest = thread;
    for &extent in extents.iter().rev() {
        let above = builder.op(Op::Div, &[rest, extent]);
        let below = builder.op(Op::Mul, &[above, extent]);
        coordinates.push(builder.op(Op::Sub, &[rest, below]));
        rest = above;
    }
    coordinates.push(rest);
    coordinates.reverse();
    let zero = builder.const_int(Scalar::I32, 0);
    func.regions[body].insts.extend(behind);
    let mut replaced = ValueReplacements::default();
    if let Some(place) = place {
        replaced.set(place, here);
    }
    let mut found: Vec<(Value, Value)> = Vec::new();
    func.walk(func.body, &mut |_, data| match (data.op, &data.imm) {
        (Op::TidLinear, _) if data.results[0] != here => found.push((data.results[0], thread)),
        (Op::Tid, &Imm::Axis(axis)) => {
            found.push((data.results[0], coordinates.get(usize::from(axis)).copied().unwrap_or(zero)));
        }
        _ => {}
    });
    found.into_iter().for_each(|(from, to)| replaced.set(from, to));
    replaced.apply_to_region(func, body);
    let calls = CallEffects::default();
    fold::fold(func);
    cse::cse(func, &calls);
    dce::dce(func, &calls);
}

/// Finds out what has been counted to know how long tapes have to be, or has a kernel find out.
pub(super) fn count(
    backward: &mut BackwardProgram,
    forward: &Function,
    rest: &Module,
    counted: Vec<TapeCount>,
    arrays: Vec<ArrayParam>,
    rows: Vec<Option<ThreadRow>>,
) -> Result<(), Vec<Diagnostic>> {
    let n_counted = counted.len();
    let sizes = sizes(forward, rest, counted, arrays, rows)?;
    let (module, id) = &sizes;
    let func = &module.functions[*id];
    let needs = &mut backward.needs;
    needs.lengths = vec![None; n_counted];
    needs.lengths_are_uniform = true;
    let constant = |value: Value| func.as_const(value).map(|bits| bits as u32);
    func.walk(func.body, &mut |_, data| {
        let reads = data.op.info().effect == OpEffect::Read;
        needs.lengths_are_uniform &= !reads && !matches!(data.op, Op::Tid | Op::TidLinear);
    });
    // Each length is noted in one place. Where that is not reached, it is no longer than if it were.
    func.walk(func.body, &mut |_, data| {
        if data.op == Op::AtomicMax
            && let (Some(number), Some(length)) = (constant(data.operands[1]), constant(data.operands[2]))
            && let Some(known) = needs.lengths.get_mut(number as usize)
        {
            *known = Some(length);
        }
    });
    if needs.lengths.contains(&None) {
        backward.sizes = Some(sizes);
    }
    Ok(())
}

/// The kernel that counts.
fn sizes(
    forward: &Function,
    rest: &Module,
    lengths: Vec<TapeCount>,
    arrays: Vec<ArrayParam>,
    rows: Vec<Option<ThreadRow>>,
) -> Result<(Module, FuncId), Vec<Diagnostic>> {
    let mut new = forward.like();
    new.name = format!("{}_tape_sizes", forward.name).into();
    let new_params: Vec<Value> = new.params().to_vec();
    let found = new.add_param("tape_sizes", Type::array(Scalar::I32, 1));
    let mut sweep = BackwardBuilder::new(forward, rest, &mut new, EntitySet::new(), arrays, false);
    sweep.rows = rows;
    for (&old, &param) in forward.params().iter().zip(&new_params) {
        sweep.values[old] = param.into();
    }
    sweep.sizes = Some((found, lengths));
    sweep.run_sizes();
    sweep.builder.return_(&[]);
    let mut new = custom::without_calls(rest, Cow::Owned(new))?.into_owned();
    clean(&mut new, &new_params);
    distinct_names(&mut new);
    let mut module = Module::new();
    let kernel = module.functions.push(new);
    debug_assert_eq!(verify_module(&module), Ok(()), "the kernel of sizes is valid\n{module}");
    Ok((module, kernel))
}
