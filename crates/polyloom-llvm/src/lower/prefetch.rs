//! Prefetching in stencils.
//!
//! Threads that read several rows of an array go through as many streams at once, each of which starts anew with every
//! row: more than hardware prefetchers keep up with. There a group asks for the cache lines that groups some way ahead
//! will be the first to touch, which saved up to a third of the time of 5- to 9-point stencils (Zen 5). Where each
//! thread has one element of each array, asking gained nothing, and cost some percent.

use super::entry::GroupThread;
use super::memory::ArrayArg;
use crate::ir::*;
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Function, Op, Region, Value, ValueDef};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Bytes between an access and its prefetch: some groups further than a line takes to arrive, and less than half a page.
const DISTANCE: i64 = 2048;

const LINE: i64 = 64;

/// Number of rows of an array make a stencil.
const MIN_ROWS: usize = 3;

/// Most lines of one array worth asking for in each group.
const MAX_LINES: i64 = 4;

/// Describes what is added to a thread's coordinates to get the element it accesses.
pub(super) type Offsets = SmallVec<[i64; 4]>;

/// The elements of an array that a thread accesses at fixed distances from its coordinates.
struct AccessStream {
    array: Value,
    /// The first of them that the threads come to.
    newest: Offsets,
    /// The distances along the outer axes, each once.
    rows: SmallVec<[Offsets; 4]>,
}

/// Returns what to ask for: arrays, and which of a thread's elements in each. Empty but for stencils.
pub(super) fn streams(func: &Function, rank: u8) -> Vec<(Value, Offsets)> {
    let mut streams = Vec::new();
    collect(func, func.body, rank, &mut streams);
    let is_stencil = streams.iter().any(|stream| stream.rows.len() >= MIN_ROWS);
    let streams = if is_stencil { streams } else { Vec::new() };
    streams.into_iter().map(|stream| (stream.array, stream.newest)).collect()
}

fn collect(func: &Function, region: Region, rank: u8, streams: &mut Vec<AccessStream>) {
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        let indices = match data.op {
            Op::ArrayLoad => &data.operands[1..],
            Op::ArrayStore => &data.operands[1..data.operands.len() - 1],
            Op::Block => {
                collect(func, data.regions[0], rank, streams);
                continue;
            }
            Op::If if is_about_coordinates(func, data.operands[0]) => {
                for &inner in &data.regions {
                    collect(func, inner, rank, streams);
                }
                continue;
            }
            _ => continue,
        };
        let Some(offsets) = offsets(func, indices, rank) else { continue };
        let array = data.operands[0];
        let at = streams.iter().position(|stream| stream.array == array).unwrap_or_else(|| {
            streams.push(AccessStream { array, newest: offsets.clone(), rows: SmallVec::new() });
            streams.len() - 1
        });
        let row = Offsets::from_slice(&offsets[..usize::from(rank) - 1]);
        let stream = &mut streams[at];
        if !stream.rows.contains(&row) {
            stream.rows.push(row);
        }
        stream.newest = offsets.max(stream.newest.clone());
    }
}

/// The distances of an element from its thread's coordinates; further indices, those of components, must be constant.
fn offsets(func: &Function, indices: &[Value], rank: u8) -> Option<Offsets> {
    let (coordinates, components) = indices.split_at_checked(rank.into())?;
    let are_constant = components.iter().all(|&index| func.as_const(index).is_some());
    let offset = |(axis, &index): (usize, &Value)| offset(func, index, axis as u8);
    are_constant.then(|| coordinates.iter().enumerate().map(offset).collect()).flatten()
}

fn offset(func: &Function, index: Value, axis: u8) -> Option<i64> {
    AffineSum::of(func, plain_index(func, index)).distance(axis)
}

/// Lines from the beginning of an array that a function on the critical path asks for when it is entered.
const LINES_AT_ENTRY: i64 = 2;

/// The array parameters that loops read at indices that are sums of multiples of what they count: code on the critical
/// path asks for the first lines of all of them at once, where the loops would come to one after the other.
pub(super) fn read_in_loops(func: &Function) -> Vec<usize> {
    let mut found = Vec::new();
    func.walk(func.body, &mut |_, data| {
        for &region in data.regions.iter().filter(|_| data.op == Op::ForRange) {
            let Some(&counter) = func.regions[region].params.first() else { continue };
            func.walk(region, &mut |_, inner| {
                let Some((&array, indices)) = inner.operands.split_first().filter(|_| inner.op == Op::ArrayLoad) else {
                    return;
                };
                let counts = |&index: &Value| {
                    let sum = AffineSum::of(func, plain_index(func, index));
                    sum.terms.iter().any(|&(term, _)| term == AffineTerm::Value(counter))
                };
                if let Some(param) = func.param_index(array)
                    && indices.iter().any(counts)
                    && !found.contains(&param)
                {
                    found.push(param);
                }
            });
        }
    });
    found
}

/// Asks for the first lines of the arrays that loops go through, unless the hint `prefetch` says not to.
pub(super) fn emit_at_entry(ir: &IrEmitter<'_>, func: &Function, arrays: &[Option<ArrayArg>]) {
    if func.metadata.hint("prefetch") == Ok(Some(0)) {
        return;
    }
    for array in read_in_loops(func).into_iter().filter_map(|param| arrays[param].as_ref()) {
        for line in 0..LINES_AT_ENTRY {
            ask_for(ir, ir.offset(ir.int(8), array.pointer, ir.i64_const(line * LINE)));
        }
    }
}

/// Asks for a line, to read it, in all caches.
fn ask_for(ir: &IrEmitter<'_>, pointer: Val) {
    let narrow = |bits: u64| ir.int_const(ir.int(32), bits);
    let (to_read, into_all_caches, data) = (narrow(0), narrow(3), narrow(1));
    ir.intrinsic("llvm.prefetch", &[ir.ptr()], &[pointer, to_read, into_all_caches, data]);
}

/// An index that may count from the end is mostly one that does not.
fn plain_index(func: &Function, index: Value) -> Value {
    match func.values[index].def {
        ValueDef::Result(inst, _) if func.insts[inst].op == Op::Select => func.insts[inst].operands[2],
        _ => index,
    }
}

/// Returns true if a condition is computed from thread coordinates, parameters and extents alone, so that neighbouring
/// threads then mostly agree on it.
fn is_about_coordinates(func: &Function, cond: Value) -> bool {
    let mut seen = FxHashSet::default();
    let mut open = vec![cond];
    while let Some(value) = open.pop() {
        if let ValueDef::Result(inst, _) = func.values[value].def
            && seen.insert(inst)
        {
            let data = &func.insts[inst];
            if data.op.info().effect != OpEffect::Pure || !data.regions.is_empty() {
                return false;
            }
            open.extend(&data.operands);
        }
    }
    true
}

/// Asks for what groups of `lanes` threads some way ahead will touch.
pub(super) fn emit(ir: &IrEmitter<'_>, thread: &GroupThread, lanes: u32, array: &ArrayArg, offsets: &[i64]) {
    let Some(&Some(stride)) = array.known_strides.get(offsets.len() - 1) else { return };
    let n_lines = (i64::from(lanes) * stride + LINE - 1) / LINE;
    if !(1..=MAX_LINES).contains(&n_lines) {
        return;
    }
    let byte = ir.int(8);
    let coordinates = thread.outer.iter().copied().flatten().chain([thread.column]);
    let mut pointer = array.pointer;
    for ((coordinate, &offset), &stride) in coordinates.zip(offsets).zip(&array.strides) {
        let index = ir.add(coordinate, ir.i64_const(offset));
        pointer = ir.offset(byte, pointer, ir.mul(index, stride));
    }
    for line in 0..n_lines {
        ask_for(ir, ir.offset(byte, pointer, ir.i64_const(DISTANCE + line * LINE)));
    }
}
