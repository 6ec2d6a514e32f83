//! Sums that are scattered beside the threads' own elements, gathered instead: by a kernel whose threads are the
//! elements, each of which works out what the threads around it would have added.
//!
//! ```text
//! thread i:   adj_x[i - 1] += f(i)          element e:   adj_x[e] += f(e + 1) + g(e - 1)
//!             adj_x[i + 1] += g(i)
//! ```
//!
//! No two threads of it write one element, so there are no atomic updates, and sums have an order. What the threads add
//! is computed once for each element that it goes to, which pays where it is little. Several launches then do what the
//! backward kernel does: gathers, which write nothing but their sums, and the rest. The backward kernel itself stays
//! complete; whoever launches it may launch its stages instead.
//!
//! Design: `docs/design/gradient-sums.md`.

use super::activity::counts_from_end;
use super::cleanup::{clean, distinct_names};
use super::constants::nothing;
use super::sums::{LoopSum, is_sum, taken_out};
use super::{decides_by_floats, make_strict};
use crate::analysis::range::possibly_negative_indices;
use crate::edit::ValueReplacements;
use crate::pipeline::extract;
use crate::transform::inline::{KeptCalls, inline};
use crate::transform::{if_convert, known_conditions};
use cranelift_entity::EntitySet;
use polyloom_ir::analysis::affine::AffineSum;
use polyloom_ir::op::{Lowering, OpEffect, OpGroup};
use polyloom_ir::{
    Builder, Diagnostic, FuncId, Function, FunctionKind, Imm, Inst, InstData, KernelMetadata, Module, Op, Region,
    Scalar, Type, Value, verify_module,
};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Most that the threads around an element may compute for it, in simple operations.
const MAX_COST: u32 = 96;
/// Says how far an element may be from the thread's own along an axis. In launches of so many threads at most, which
/// alone are split, no coordinate then overflows.
const MAX_DISTANCE: u32 = 1 << 30;
/// Holds what a mathematical function costs, in these.
const FUNCTION_COST: u32 = 16;

/// One of the launches that do what a backward kernel does. It takes what that takes.
#[derive(Clone, Debug)]
pub struct GatherStage {
    /// A module with nothing else in it.
    pub module: Module,
    /// The kernel.
    pub kernel: FuncId,
    /// Of a kernel that gathers, which of the adjoints it is launched over the elements of; it takes, last, the extents
    /// of the whole launch. Of the one for the rest, which is launched over these, nothing.
    pub over: Option<usize>,
}

/// Describes how far an index is from the thread's coordinate along an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
struct IndexOffset {
    axis: u8,
    distance: i32,
}

type Offsets = SmallVec<[IndexOffset; 4]>;

/// The sums that all threads add to the elements with these offsets.
struct ScatteredSums {
    place: SmallVec<[Value; 4]>,
    offsets: Offsets,
}

/// Splits a backward kernel without tapes into stages for launches of so many dimensions and 2^30 threads at most, if
/// some of its sums are better gathered; otherwise there are none. `adjoints` are the numbers of the parameters that
/// are adjoints.
///
/// # Errors
///
/// When a kernel grows beyond the compiler's limits.
pub fn split(
    module: &Module,
    kernel: FuncId,
    adjoints: Range<usize>,
    rank: u8,
) -> Result<Vec<GatherStage>, Vec<Diagnostic>> {
    // Indices that a branch on the way forward has computed are themselves in the same branch on the way back.
    let mut func = module.functions[kernel].clone();
    if_convert::if_convert(&mut func);
    known_conditions::known_conditions(&mut func);
    clean(&mut func, &[]);
    let func = &func;
    let mut stages = Vec::new();
    let mut gathered = EntitySet::new();
    for (number, &array) in func.params()[adjoints].iter().enumerate() {
        let Some(sums) = scattered(func, array, rank) else { continue };
        if let Some((module, kernel)) = gather(func, array, &sums, rank)? {
            stages.push(GatherStage { module, kernel, over: Some(number) });
            gathered.insert(array);
        }
    }
    if stages.is_empty() {
        return Ok(stages);
    }
    let mut rest = func.clone();
    let body = rest.body;
    let is_gathered = |data: &InstData| data.operands.first().is_some_and(|&array| gathered.contains(array));
    retain(&mut rest, body, &|data| data.op == Op::Dim || !is_gathered(data));
    clean(&mut rest, &[]);
    let mut module = Module::new();
    let kernel = module.functions.push(rest);
    debug_assert_eq!(verify_module(&module), Ok(()), "what is left is valid\n{module}");
    stages.push(GatherStage { module, kernel, over: None });
    // Otherwise two stages that took different branches would sum to the gradient of neither.
    if stages.iter().filter(|stage| decides_by_floats(&stage.module.functions[stage.kernel])).count() > 1 {
        stages.iter_mut().for_each(|stage| make_strict(&mut stage.module));
    }
    Ok(stages)
}

/// Returns what the threads add to an array with as many dimensions as a launch, if that is all they do with it, and
/// all of it goes to elements whose indices are their coordinates, each plus a constant, but not all to their own.
fn scattered(func: &Function, array: Value, rank: u8) -> Option<Vec<ScatteredSums>> {
    let (_, ndim) = func.ty(array).as_any_array()?;
    let mut found: Vec<ScatteredSums> = Vec::new();
    let mut used = EntitySet::new();
    let (mut n_sums, mut n_others, mut is_of_rank) = (0, 0, ndim == rank);
    func.walk(func.body, &mut |_, data| used.extend(data.operands.iter().copied()));
    func.walk(func.body, &mut |_, data| {
        // A thread has no coordinate along the axes of a launch with more dimensions, or with fewer.
        is_of_rank &= !matches!(data.imm, Imm::Axis(axis) if data.op == Op::Tid && axis >= rank);
        if data.operands.first() == Some(&array) && data.op != Op::Dim {
            let is_used = data.results.iter().any(|&result| used.contains(result));
            if is_sum(func, data) && !is_used { n_sums += 1 } else { n_others += 1 }
        }
    });
    if !is_of_rank || n_others > 0 || n_sums == 0 {
        return None;
    }
    // Indices that may count from an axis' end are left alone, and so are sums in loops.
    let negative = possibly_negative_indices(func);
    let mut pending = vec![func.body];
    while let Some(region) = pending.pop() {
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if data.op == Op::If {
                pending.extend(&data.regions);
            }
            if data.operands.first() != Some(&array) || data.op == Op::Dim {
                continue;
            }
            n_sums -= 1;
            let (_, place) = data.operands.split_last()?;
            if (1..=place.len() - 1).any(|operand| counts_from_end(func, &negative, (inst, operand as u8))) {
                return None;
            }
            if found.iter().all(|sum| sum.place[..] != *place) {
                let offsets: Offsets = place[1..].iter().map(|&index| offset(func, index)).collect::<Option<_>>()?;
                if (0..rank).any(|axis| offsets.iter().all(|offset| offset.axis != axis)) {
                    return None;
                }
                found.push(ScatteredSums { place: place.into(), offsets });
            }
        }
    }
    let is_own = |sum: &ScatteredSums| sum.offsets == found[0].offsets;
    (n_sums == 0 && !found.iter().all(is_own)).then_some(found)
}

/// A thread's coordinate plus a constant.
fn offset(func: &Function, index: Value) -> Option<IndexOffset> {
    if func.ty(index) != Type::I32 {
        return None;
    }
    let index = AffineSum::of(func, index);
    let (axis, _, _) = index.along_one_axis()?;
    let distance = i32::try_from(index.distance(axis)?).ok()?;
    (distance.unsigned_abs() <= MAX_DISTANCE).then_some(IndexOffset { axis, distance })
}

/// The kernel that gathers the sums of an array, unless they take what only the threads themselves know, or too long.
fn gather(
    func: &Function,
    array: Value,
    sums: &[ScatteredSums],
    rank: u8,
) -> Result<Option<(Module, FuncId)>, Vec<Diagnostic>> {
    let Some((elem, _)) = func.ty(array).as_any_array() else { return Ok(None) };
    let mut module = Module::new();
    let mut cost = 0;
    for (number, sum) in sums.iter().enumerate() {
        let Some(part) = part(func, sum, elem, rank) else { return Ok(None) };
        let Some(more) = cost_of(func, &part) else { return Ok(None) };
        cost += more;
        let name = format!("part_{number}").into();
        module.functions.push(Function { name, ..part });
    }
    if cost > MAX_COST {
        return Ok(None);
    }
    let index = func.param_index(array).unwrap_or_default();
    let mut new = func.like();
    new.name = format!("{}_gather_{}", func.name, func.param_names[index]).into();
    let arguments: Vec<Value> = new.params().to_vec();
    let extents: Vec<Value> = (0..rank).map(|axis| new.add_param(format!("extent_{axis}"), Type::I32)).collect();
    let mut builder = Builder::new(&mut new);
    builder.set_span(func.span);
    let place: SmallVec<[Value; 4]> = (0..rank).map(|axis| builder.tid(axis)).collect();
    let mut total = nothing(&mut builder, elem);
    for (number, sum) in sums.iter().enumerate() {
        // The thread that adds to this element, if there is one.
        let mut call = arguments.clone();
        let mut is_there = builder.const_bool(true);
        let first = builder.const_int(Scalar::I32, 0);
        for axis in 0..rank {
            let Some(at) = sum.offsets.iter().position(|offset| offset.axis == axis) else { return Ok(None) };
            let distance = builder.const_int(Scalar::I32, sum.offsets[at].distance.into());
            let coordinate = builder.op(Op::Sub, &[place[at], distance]);
            let begun = builder.op(Op::Ge, &[coordinate, first]);
            let not_past = builder.op(Op::Lt, &[coordinate, extents[usize::from(axis)]]);
            let inside = builder.op(Op::BitAnd, &[begun, not_past]);
            is_there = builder.op(Op::BitAnd, &[is_there, inside]);
            call.push(coordinate);
        }
        let (branch, regions) = builder.begin_if(is_there, &[elem]);
        let outer = builder.switch_to(regions[0]);
        let part = builder.call(FuncId::from_u32(number as u32), &call, &[elem]);
        let with = builder.op(Op::Add, &[total, part[0]]);
        builder.yield_(&[with]);
        builder.switch_to(regions[1]);
        builder.yield_(&[total]);
        builder.switch_to(outer);
        total = builder.func.insts[branch].results[0];
    }
    let target: SmallVec<[Value; 6]> = std::iter::once(arguments[index]).chain(place).collect();
    let load = builder.inst(Op::ArrayLoad, &target, &[elem], Imm::None);
    let before = builder.func.insts[load].results[0];
    let after = builder.op(Op::Add, &[before, total]);
    let stored: SmallVec<[Value; 6]> = target.iter().copied().chain([after]).collect();
    builder.inst(Op::ArrayStore, &stored, &[], Imm::None);
    builder.return_(&[]);
    let kernel = module.functions.push(new);
    inline(&mut module, kernel, KeptCalls::NoCalls)?;
    clean(&mut module.functions[kernel], &[]);
    distinct_names(&mut module.functions[kernel]);
    let (module, kernel) = extract(&module, kernel);
    debug_assert_eq!(verify_module(&module), Ok(()), "a kernel that gathers is valid\n{module}");
    Ok(Some((module, kernel)))
}

/// A function of the parameters and of a thread's coordinates: what the thread adds to one place.
fn part(func: &Function, sum: &ScatteredSums, elem: Type, rank: u8) -> Option<Function> {
    let mut part = func.clone();
    part.kind = FunctionKind::Func;
    part.metadata = KernelMetadata::default();
    part.results = smallvec![elem];
    let body = part.body;
    let coordinates: Vec<Value> = (0..rank).map(|axis| part.add_param(format!("thread_{axis}"), Type::I32)).collect();
    let sums = [LoopSum { place: sum.place.clone(), is_conditional: false }];
    let insts = std::mem::take(&mut part.regions[body].insts);
    let mut builder = Builder::new(&mut part);
    let nothing = nothing(&mut builder, elem);
    part.regions[body].insts.extend(insts);
    let total = taken_out(&mut part, body, &sums, smallvec![nothing]);
    // Nothing but the sum is asked for.
    let writes = |data: &InstData| matches!(data.op.info().effect, OpEffect::Write | OpEffect::ReadWrite);
    let mut lost = EntitySet::new();
    part.walk(body, &mut |_, data| lost.extend(data.results.iter().copied().filter(|_| writes(data))));
    retain(&mut part, body, &|data| !writes(data));
    let last = part.terminator(body).filter(|&last| part.insts[last].op == Op::Return)?;
    part.insts[last].operands = smallvec![total[0]];
    let mut replaced = ValueReplacements::default();
    let mut found: Vec<(Value, Value)> = Vec::new();
    part.walk(body, &mut |_, data| {
        if let (Op::Tid, &Imm::Axis(axis)) = (data.op, &data.imm) {
            found.extend(coordinates.get(usize::from(axis)).map(|&coordinate| (data.results[0], coordinate)));
        }
    });
    found.into_iter().for_each(|(from, to)| replaced.set(from, to));
    replaced.apply_to_region(&mut part, body);
    clean(&mut part, &[]);
    let mut is_known = true;
    part.walk(body, &mut |_, data| is_known &= !data.operands.iter().any(|&operand| lost.contains(operand)));
    is_known.then_some(part)
}

/// Returns what a part costs, in simple operations. `None` if it depends on what is not the same before the launch and
/// in it, or has loops.
fn cost_of(func: &Function, part: &Function) -> Option<u32> {
    let written = func.written_arrays();
    let mut cost = Some(0);
    part.walk(part.body, &mut |_, data| {
        let more = match data.op.info().effect {
            OpEffect::Pure if data.op == Op::Call || data.op.info().group == OpGroup::Index && data.op != Op::Dim => {
                None
            }
            OpEffect::Pure if matches!(data.op, Op::Div | Op::Sqrt | Op::Mod) => Some(4),
            OpEffect::Pure if data.op.info().lowering == Lowering::Library => Some(FUNCTION_COST),
            OpEffect::Pure => Some(1),
            // An array that a thread writes to is read only before anything is written to it.
            OpEffect::Read => part
                .param_index(data.operands[0])
                .filter(|&param| !written[param] || is_loaded_first(func, func.params()[param]))
                .map(|_| 1),
            OpEffect::Region => matches!(data.op, Op::If).then_some(1),
            OpEffect::Terminator => matches!(data.op, Op::Yield | Op::Return).then_some(0),
            OpEffect::Write | OpEffect::ReadWrite => None,
        };
        cost = cost.zip(more).map(|(cost, more)| cost + more);
    });
    cost
}

/// Returns true if no load from an array comes after a store to it, in the order of the text and with no loops around
/// them.
fn is_loaded_first(func: &Function, array: Value) -> bool {
    let (mut is_written, mut loads_first, mut n_outside) = (false, true, 0);
    let touches = |data: &InstData| data.operands.contains(&array) && data.op != Op::Dim;
    let mut n_all = 0;
    func.walk(func.body, &mut |_, data| {
        n_all += usize::from(touches(data));
        if touches(data) {
            let reads = data.op.info().effect == OpEffect::Read;
            loads_first &= !(reads && is_written);
            is_written |= !reads;
        }
    });
    let mut pending = vec![func.body];
    while let Some(region) = pending.pop() {
        for &inst in &func.regions[region].insts {
            n_outside += usize::from(touches(&func.insts[inst]));
            if func.insts[inst].op == Op::If {
                pending.extend(&func.insts[inst].regions);
            }
        }
    }
    loads_first && n_all == n_outside
}

/// Takes out of a region the instructions that are not kept.
fn retain(func: &mut Function, region: Region, keep: &dyn Fn(&InstData) -> bool) {
    let insts = std::mem::take(&mut func.regions[region].insts);
    let kept: Vec<Inst> = insts.into_iter().filter(|&inst| keep(&func.insts[inst])).collect();
    for &inst in &kept {
        for inner in func.insts[inst].regions.clone() {
            retain(func, inner, keep);
        }
    }
    func.regions[region].insts = kept;
}
