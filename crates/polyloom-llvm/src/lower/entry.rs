//! A kernel's entry: the loop over the threads of a launch.
//!
//! Threads `begin..end` are walked row by row along the innermost launch axis, a group of lanes at a time. The body
//! stands there twice: once for full groups, where the mask is known and vanishes, and once under a mask, for the
//! end of a row and for groups the first copy gives up on ([`super::BailOut`]).

use super::arguments::KernelArguments;
use super::arith::ArithContext;
use super::calls::{self, CompiledCallees};
use super::control_frame::MergeEdge;
use super::control_frame::ReturnTarget;
use super::full_blocks::FullBlocks;
use super::group_loop::GroupLoop;
use super::indices;
use super::memory::ArrayArg;
use super::prefetch::{self, Offsets};
use super::private_arrays::PrivateArray;
use super::reciprocals::divisions_by_invariants;
use super::strategy::Strategy;
use super::totals::UpdateTotal;
use super::{BailOut, ExecMask, FunctionLowering, RegionFlow, Reps, Result, ValueRep, width};
use crate::ir::*;
use crate::target::{HostProcessor, OptimizerMode};
use cranelift_entity::SecondaryMap;
use polyloom_codegen::{ArgFacts, ArgLayout, CodeVariant, CodegenError, LaunchContext, SiteTable};
use polyloom_ir::analysis::uniformity::Uniformity;
use polyloom_ir::{FloatMode, FuncId, Function, Imm, Inst, MAX_DIMS, Module, Op, Value, ValueDef};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ffi::CString;

/// Number of groups that make a row long enough for stores to be aligned in it.
const LONG_ROW: i64 = 8;

/// Says where in the launch the current group is.
#[derive(Clone, Copy)]
pub(crate) struct GroupThread {
    /// The launch's rank.
    pub(crate) rank: u8,
    /// Coordinates along the outer axes, `i64`.
    pub(crate) outer: [Option<Val>; MAX_DIMS],
    /// The first lane's coordinate along the innermost axis, `i64`.
    pub(crate) column: Val,
    /// The first lane's index in the launch, `i64`.
    pub(crate) linear: Val,
    /// The launch context.
    pub(crate) context: Val,
}

/// Lowers a kernel into the module and gives where LLVM looks for vectors in it: in code for one thread at a time.
pub(crate) fn kernel(
    ir: &IrEmitter<'_>,
    processor: &HostProcessor,
    module: &Module,
    id: FuncId,
    variant: &CodeVariant,
    name: &str,
) -> Result<OptimizerMode> {
    let func = &module.functions[id];
    let Strategy { uniformity, rank, width, parallel, copied } = Strategy::of(module, id, variant, processor);
    let lanes = width.lanes;
    let parallel: Vec<(Inst, u32)> = parallel.into_iter().map(|(inst, width)| (inst, width.lanes)).collect();
    let name = CString::new(name.replace('\0', "_")).map_err(|e| CodegenError::new(e.to_string()))?;
    let (ptr, wide) = (ir.ptr(), ir.int(64));
    let function = ir.add_function(&name, &[ptr, ptr, wide, wide], ir.void(), false);
    calls::set_attributes(ir, processor, function);
    for attribute in ["noalias", "readonly", "nonnull"] {
        ir.enum_attribute(function, 1, attribute);
    }
    ir.begin(function);
    let [args, context, begin, end] = [0, 1, 2, 3].map(|i| ir.param(function, i));
    let mut callees = CompiledCallees::default();
    ir.set_fast_math(fast_math(func.metadata.float_mode));
    let (params, arrays) = KernelArguments::Block { args, layout: ArgLayout::of(func) }.load(ir, func, variant)?;
    let used = calls::used_values(func);
    let indexes = indices::index_values(func);
    let by_invariants = divisions_by_invariants(func, true);
    let sites = SiteTable::of(func);
    let loads_ahead = func.metadata.hint("prefetch") != Ok(Some(0));
    let streams = if loads_ahead { prefetch::streams(func, rank) } else { Vec::new() };
    let array_of = |param: Value| func.param_index(param).and_then(|index| arrays[index].as_ref());
    let streams: Vec<_> = streams.into_iter().filter_map(|(param, at)| Some((array_of(param)?, at))).collect();
    let full_blocks = FullBlocks::of(func, &variant.facts);
    let unit = BodyUnit {
        ir,
        processor,
        module,
        func,
        lanes,
        parallel: &parallel,
        alone: variant.facts.alone,
        uniformity: Some(&uniformity),
        used: &used,
        indexes: &indexes,
        by_invariants: &by_invariants,
        sites: &sites,
        arrays: &arrays,
        params: &params,
        facts: Some(&variant.facts),
        full_blocks: full_blocks.as_ref(),
        streams: &streams,
        totals: &[],
        rank,
        lines: None,
    };
    let totals = unit.totals();
    let unit = BodyUnit { totals: &totals, ..unit };
    let private = unit.private_arrays(&copied);
    if private.is_empty() {
        unit.rows(&mut callees, context, begin, end, &[])?;
    } else {
        let (copied, shared) = (ir.block(c"copied"), ir.block(c"shared"));
        ir.cond_br(unit.copies_pay(&private, ir.sub(end, begin)), copied, shared);
        ir.switch_to(copied);
        let arrays = unit.with_copies(&private);
        BodyUnit { arrays: &arrays, ..unit }.rows(&mut callees, context, begin, end, &private)?;
        ir.switch_to(shared);
        unit.rows(&mut callees, context, begin, end, &[])?;
    }
    ir.set_fast_math(0);
    let slp = lanes == 1;
    let level = func.metadata.hint("opt_level").unwrap_or_default();
    Ok(OptimizerMode { loops: slp && !width::chooses_again(func, &uniformity), slp, level })
}

/// The flags of floating-point instructions in this mode.
pub(crate) fn fast_math(mode: FloatMode) -> u32 {
    match mode {
        FloatMode::Strict => 0,
        FloatMode::Contract => FAST_CONTRACT,
        FloatMode::Fast => FAST_REASSOCIATE | FAST_NO_SIGNED_ZEROS | FAST_RECIPROCAL | FAST_CONTRACT | FAST_APPROXIMATE,
    }
}

/// Describes what all copies of the body share.
#[derive(Clone, Copy)]
pub(crate) struct BodyUnit<'a, 'c> {
    pub(crate) ir: &'a IrEmitter<'c>,
    pub(crate) processor: &'a HostProcessor,
    pub(crate) module: &'a Module,
    pub(crate) func: &'a Function,
    pub(crate) lanes: u32,
    /// The parallel loops and the lanes that each has.
    pub(crate) parallel: &'a [(Inst, u32)],
    /// True if no two threads of the processor share what is updated.
    pub(crate) alone: bool,
    pub(crate) uniformity: Option<&'a Uniformity>,
    pub(crate) used: &'a SecondaryMap<Value, bool>,
    pub(crate) indexes: &'a SecondaryMap<Value, bool>,
    pub(crate) by_invariants: &'a SecondaryMap<Inst, bool>,
    pub(crate) sites: &'a SiteTable,
    pub(crate) arrays: &'a [Option<ArrayArg>],
    pub(crate) params: &'a [ValueRep],
    /// The facts of full blocks, if the extents of blocks are known.
    pub(crate) full_blocks: Option<&'a FullBlocks>,
    /// The facts of the arguments, where loops may be lowered as tiles.
    pub(crate) facts: Option<&'a ArgFacts>,
    pub(crate) streams: &'a [(&'a ArrayArg, Offsets)],
    pub(crate) totals: &'a [UpdateTotal],
    pub(crate) rank: u8,
    /// Says which lines of source instructions are for, if that is wanted.
    pub(crate) lines: Option<&'a super::line_table::LineTable<'a>>,
}

impl<'a, 'c> BodyUnit<'a, 'c> {
    /// The loop over rows, and in it the loop over groups. At its end, what copies hold is brought to their arrays.
    fn rows(
        &self,
        callees: &mut CompiledCallees,
        context: Val,
        begin: Val,
        end: Val,
        copied: &[PrivateArray],
    ) -> Result<()> {
        let ir = self.ir;
        let (byte, wide) = (ir.int(8), ir.int(64));
        let outer_axes = self.rank as usize - 1;
        let extent = |axis: usize| {
            let offset = ir.i64_const(LaunchContext::shape_offset(axis).into());
            ir.load(wide, ir.offset(byte, context, offset), 8)
        };
        let exit = ir.block(c"exit");
        let some = ir.block(c"some_threads");
        let mut thread =
            GroupThread { rank: self.rank, outer: [None; MAX_DIMS], column: begin, linear: begin, context };
        if outer_axes == 0 {
            ir.cond_br(ir.icmp(ULT, begin, end), some, exit);
            ir.switch_to(some);
            self.groups(callees, thread, begin, end, None)?;
            ir.br(exit);
            ir.switch_to(exit);
            self.add_totals(callees, thread)?;
            self.merge_copies(copied)?;
            ir.ret_void();
            return Ok(());
        }
        let shape: SmallVec<[Val; 4]> = (0..self.rank as usize).map(extent).collect();
        ir.cond_br(ir.icmp(ULT, begin, end), some, exit);
        ir.switch_to(some);
        let inner = shape[outer_axes];
        let mut rest = ir.udiv(begin, inner);
        let first_column = ir.sub(begin, ir.mul(rest, inner));
        let mut first: SmallVec<[Val; 4]> = SmallVec::new();
        for axis in (0..outer_axes).rev() {
            if axis == 0 {
                first.push(rest);
                break;
            }
            let above = ir.udiv(rest, shape[axis]);
            first.push(ir.sub(rest, ir.mul(above, shape[axis])));
            rest = above;
        }
        first.reverse();
        let row = ir.block(c"row");
        let from = ir.current();
        ir.br(row);
        ir.switch_to(row);
        let phi = |init: Val| {
            let phi = ir.phi(wide);
            ir.add_incoming(phi, init, from);
            phi
        };
        let coordinates: SmallVec<[Val; 4]> = first.iter().map(|&init| phi(init)).collect();
        let column = phi(first_column);
        let linear = phi(begin);
        for (slot, &coordinate) in thread.outer.iter_mut().zip(&coordinates) {
            *slot = Some(coordinate);
        }
        // Start of the row in the launch, and end of this range of it.
        let row_start = ir.sub(linear, column);
        let row_end = ir.binary_intrinsic("llvm.umin", end, ir.add(row_start, inner));
        let last_column = ir.sub(row_end, row_start);
        self.groups(callees, thread, column, last_column, Some(row_start))?;
        let next_row = ir.block(c"next_row");
        ir.cond_br(ir.icmp(ULT, row_end, end), next_row, exit);
        ir.switch_to(next_row);
        let mut carry = ir.bool_const(true);
        let mut next: SmallVec<[(Val, Val); 4]> = SmallVec::new();
        for axis in (0..outer_axes).rev() {
            let more = ir.add(coordinates[axis], ir.zext(carry, wide));
            let wraps = ir.icmp(EQ, more, shape[axis]);
            carry = ir.and(carry, wraps);
            next.push((coordinates[axis], ir.select(wraps, ir.i64_const(0), more)));
        }
        next.push((column, ir.i64_const(0)));
        next.push((linear, row_end));
        let from = ir.current();
        for (phi, value) in next {
            ir.add_incoming(phi, value, from);
        }
        ir.br(row);
        ir.switch_to(exit);
        self.add_totals(callees, thread)?;
        self.merge_copies(copied)?;
        ir.ret_void();
        Ok(())
    }

    /// Runs the threads of one row from column `from` up to `to`. Ends where the row is done.
    fn groups(
        &self,
        callees: &mut CompiledCallees,
        mut thread: GroupThread,
        from: Val,
        to: Val,
        row_start: Option<Val>,
    ) -> Result<()> {
        let ir = self.ir;
        thread.column = from;
        let first_end = self.first_group_end(&thread, to);
        let groups = GroupLoop::begin(ir, self.lanes, from, first_end, to);
        thread.column = groups.first;
        thread.linear = row_start.map_or(thread.column, |start| ir.add(start, thread.column));
        groups.run(ir, |exec, bail_out| {
            if self.lanes > 1 && exec == ExecMask::Full {
                for (array, offsets) in self.streams {
                    prefetch::emit(ir, &thread, self.lanes, array, offsets);
                }
            }
            self.body(callees, thread, exec, bail_out)
        })
    }

    /// Returns where the first group of a long row ends so that those after it store whole cache lines. `None` if no
    /// array is known to be stored to in the order of the threads.
    fn first_group_end(&self, thread: &GroupThread, to: Val) -> Option<Val> {
        let ir = self.ir;
        let array = self.array_stored_in_order()?;
        let bytes = u64::from(self.lanes * array.elem.bytes());
        if self.lanes == 1 || bytes < 16 {
            return None;
        }
        let size = ir.i64_const(array.elem.bytes().into());
        let mut address = ir.ptr_to_int(array.pointer, ir.int(64));
        let coordinates = thread.outer.iter().copied().flatten().chain([thread.column]);
        for (coordinate, &stride) in coordinates.zip(&array.strides) {
            address = ir.add(address, ir.mul(coordinate, stride));
        }
        let bytes_to_boundary = ir.and(ir.neg(address), ir.int_const(ir.int(64), bytes - 1));
        let n_threads = ir.udiv(bytes_to_boundary, size);
        let is_long = ir.icmp(SGE, ir.sub(to, thread.column), ir.i64_const(i64::from(self.lanes) * LONG_ROW));
        let is_aligned = ir.icmp(EQ, n_threads, ir.i64_const(0));
        let first_end = ir.add(thread.column, n_threads);
        Some(ir.select(ir.and(is_long, ir.not(is_aligned)), first_end, to))
    }

    /// An array of the launch's rank, dense along its last axis, each of whose threads stores to its own element.
    fn array_stored_in_order(&self) -> Option<&'a ArrayArg> {
        let mut found = None;
        self.func.walk(self.func.body, &mut |_, data| {
            if data.op != Op::ArrayStore || found.is_some() {
                return;
            }
            let Some(ValueRep::Array(index)) = self.func.param_index(data.operands[0]).map(|param| self.params[param])
            else {
                return;
            };
            let indices = &data.operands[1..data.operands.len() - 1];
            let in_order = indices.len() == usize::from(self.rank)
                && indices.iter().enumerate().all(|(axis, &value)| match self.func.values[value].def {
                    ValueDef::Result(inst, _) => {
                        let data = &self.func.insts[inst];
                        data.op == Op::Tid && data.imm == Imm::Axis(axis as u8)
                    }
                    ValueDef::Param(..) => false,
                });
            let is_dense = |array: &&ArrayArg| array.known_strides.last().is_some_and(|stride| stride.is_some());
            let array = self.arrays[index].as_ref().filter(is_dense);
            if in_order {
                found = array;
            }
        });
        found
    }

    /// The body for one thread.
    pub(crate) fn body_of_thread(&self, callees: &mut CompiledCallees, thread: GroupThread) -> Result<()> {
        self.body(callees, thread, ExecMask::Full, None).map(|_| ())
    }

    /// One copy of the body. Gives the blocks that bail out of it.
    fn body(
        &self,
        callees: &mut CompiledCallees,
        thread: GroupThread,
        exec: ExecMask,
        bail_out: Option<BailOut>,
    ) -> Result<Vec<BasicBlock>> {
        if let Some(full_blocks) = self.full_blocks {
            return self.body_of_block(callees, thread, full_blocks);
        }
        let mut lower = self.lower(callees, thread, exec, bail_out);
        lower.run_to_the_end()?;
        Ok(lower.bail_out.map(|bail_out| bail_out.from).unwrap_or_default())
    }

    /// The body twice: for full blocks and, with threads one by one, for those that have fewer threads.
    fn body_of_block(
        &self,
        callees: &mut CompiledCallees,
        thread: GroupThread,
        full_blocks: &'a FullBlocks,
    ) -> Result<Vec<BasicBlock>> {
        let ir = self.ir;
        let (partial, done) = (ir.block(c"partial"), ir.block(c"block_done"));
        let bail_out = BailOut { target: partial, from: Vec::new() };
        let mut lower = self.lower(callees, thread, ExecMask::Full, Some(bail_out));
        lower.full_blocks = Some(full_blocks);
        lower.run_to_the_end()?;
        ir.br(done);
        ir.switch_to(partial);
        BodyUnit { parallel: &[], ..*self }.lower(callees, thread, ExecMask::Full, None).run_to_the_end()?;
        ir.br(done);
        ir.switch_to(done);
        Ok(Vec::new())
    }

    /// Returns what lowers code of the kernel, with nothing lowered yet.
    pub(crate) fn lower<'l>(
        &'l self,
        callees: &'l mut CompiledCallees,
        thread: GroupThread,
        exec: ExecMask,
        bail_out: Option<BailOut>,
    ) -> FunctionLowering<'l, 'c> {
        let mut values = SecondaryMap::new();
        for (&param, &rep) in self.func.params().iter().zip(self.params) {
            values[param] = Some(rep);
        }
        FunctionLowering {
            ir: self.ir,
            arith: ArithContext { ir: self.ir, processor: self.processor },
            callees,
            module: self.module,
            func: self.func,
            totals: self.totals,
            lanes: self.lanes,
            parallel: self.parallel,
            alone: self.alone,
            uniformity: self.uniformity,
            used: self.used,
            indexes: self.indexes,
            by_invariants: self.by_invariants,
            sites: Some(self.sites),
            arrays: self.arrays,
            own_arrays: Vec::new(),
            thread: Some(thread),
            values,
            in_step: SmallVec::new(),
            not_negative: SmallVec::new(),
            tile_columns: FxHashMap::default(),
            facts: self.facts,
            wide: FxHashMap::default(),
            exec,
            exec_slot: None,
            maybe_none: false,
            frames: Vec::new(),
            returns: ReturnTarget::default(),
            bail_out,
            full_blocks: None,
            has_effects: false,
            choices: super::choice_tables::ChoiceTables::default(),
            lines: self.lines,
        }
    }
}

impl FunctionLowering<'_, '_> {
    /// Lowers the whole body; the current block afterwards is where all paths through it meet.
    pub(crate) fn run_to_the_end(&mut self) -> Result<Option<Reps>> {
        let flow = self.region(self.func.body)?;
        let mut edges = std::mem::take(&mut self.returns.edges);
        if !matches!(flow, RegionFlow::Gone) {
            let like = edges.first().map(|edge| edge.values.clone()).unwrap_or_default();
            let values = like.iter().map(|&rep| self.zero_like(rep)).collect();
            edges.push(MergeEdge { block: self.ir.current(), values, exec: self.exec });
        }
        match self.join(edges)? {
            Some(values) => Ok(Some(values)),
            None => {
                // No path leads to the end; what follows still needs a block to stand in.
                self.go_nowhere();
                Ok(None)
            }
        }
    }

    fn thread(&self) -> Result<GroupThread> {
        self.thread.ok_or_else(|| CodegenError::new("internal error: a function asks for its thread index"))
    }

    pub(crate) fn tid(&mut self, axis: u8) -> Result<ValueRep> {
        let thread = self.thread()?;
        let narrow = self.ir.int(32);
        if axis + 1 == thread.rank {
            let base = self.index(thread.column);
            return Ok(self.consecutive(base));
        }
        let coordinate = thread.outer.get(axis as usize).copied().flatten();
        Ok(ValueRep::Uniform(match coordinate {
            Some(coordinate) if axis < thread.rank => self.index(coordinate),
            _ => self.ir.int_const(narrow, 0),
        }))
    }

    pub(crate) fn tid_linear(&mut self) -> Result<ValueRep> {
        let thread = self.thread()?;
        let base = self.index(thread.linear);
        Ok(self.consecutive(base))
    }

    /// A thread's index or coordinate as `tid` gives it. A launch has fewer than 2^31 threads, so that nothing is lost.
    fn index(&mut self, value: Val) -> Val {
        let narrow = self.ir.no_signed_wrap(self.ir.int_cast(value, self.ir.int(32)));
        self.wide.insert(narrow, value);
        narrow
    }

    fn consecutive(&self, base: Val) -> ValueRep {
        // The threads of a kernel whose threads are blocks are no lanes.
        let is_one = self.lanes == 1 || self.func.metadata.by_block;
        if is_one { ValueRep::Uniform(base) } else { ValueRep::Affine { base, stride: 1 } }
    }
}
