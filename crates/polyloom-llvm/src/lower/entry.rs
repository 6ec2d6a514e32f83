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
use super::indices;
use super::line_table::{LineTable, SpanNumbers};
use super::memory::ArrayArg;
use super::prefetch::{self, Offsets};
use super::reciprocals::find_divisions_by_invariants;
use super::strategy::Strategy;
use super::totals::UpdateTotal;
use super::{BailOut, ExecMask, FunctionLowering, RegionFlow, Reps, Result, ValueRep, loop_vectorizer};
use crate::ir::*;
use crate::target::{HostProcessor, OptimizerMode};
use cranelift_entity::SecondaryMap;
use polyloom_codegen::{ArgFacts, ArgLayout, CodeVariant, CodegenError, SiteTable};
use polyloom_ir::analysis::uniformity::Uniformity;
use polyloom_ir::{FloatMode, FuncId, Function, Inst, MAX_DIMS, Module, OptLevel, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ffi::CString;

/// Most lanes under a mask: what is left of a row is less than a group, the less the wider groups are.
const MOST_MASKED_LANES: u32 = 32;

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

/// Lowers a kernel into the module and gives how hard LLVM is to try.
pub(crate) fn lower_kernel(
    ir: &IrEmitter<'_>,
    processor: &HostProcessor,
    module: &Module,
    id: FuncId,
    variant: &CodeVariant,
    name: &str,
    places: Option<&SpanNumbers>,
) -> Result<OptimizerMode> {
    let name = CString::new(name.replace('\0', "_")).map_err(|e| CodegenError::new(e.to_string()))?;
    let (ptr, wide) = (ir.ptr(), ir.int(64));
    let function = ir.add_function(&name, &[ptr, ptr, wide, wide], ir.void(), false);
    let callees = &mut CompiledCallees::of(&module.functions[id]);
    lower_kernel_as(ir, processor, module, id, variant, function, callees, places)
}

/// Lowers a kernel as the body of a function that has been added to the module, of type [`polyloom_codegen::KernelEntry`].
/// Where `places` is given, instructions name places by their numbers there.
#[expect(clippy::too_many_arguments, reason = "a kernel, its variant, and where its code goes")]
pub(crate) fn lower_kernel_as(
    ir: &IrEmitter<'_>,
    processor: &HostProcessor,
    module: &Module,
    id: FuncId,
    variant: &CodeVariant,
    function: LlvmFunction,
    callees: &mut CompiledCallees,
    places: Option<&SpanNumbers>,
) -> Result<OptimizerMode> {
    let func = &module.functions[id];
    let level = func.opt_level();
    let Strategy { uniformity, rank, width, parallel, copied } = Strategy::of(module, id, variant, processor);
    let lanes = width.lanes;
    let parallel: Vec<(Inst, u32)> = parallel.into_iter().map(|(inst, width)| (inst, width.lanes)).collect();
    calls::set_attributes(ir, processor, function);
    set_level(ir, processor, function, level);
    let lines = places.map(|places| LineTable::of_numbers(ir, places, function, &func.name));
    for attribute in ["noalias", "readonly", "nonnull"] {
        ir.enum_attribute(function, 1, attribute);
    }
    ir.begin(function);
    let [args, context, begin, end] = [0, 1, 2, 3].map(|i| ir.param(function, i));
    ir.set_fast_math(fast_math(func.metadata.float_mode));
    let (params, arrays) = KernelArguments::Block { args, layout: ArgLayout::of(func) }.load(ir, func, variant)?;
    if func.constraints.critical_path {
        prefetch::emit_at_entry(ir, func, &arrays);
    }
    let used = calls::used_values(func);
    let indexes = indices::index_values(func);
    let by_invariants = find_divisions_by_invariants(func, true);
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
        masked_lanes: lanes,
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
        lines: lines.as_ref(),
    };
    let totals = unit.totals();
    // Sums over a launch have a lane for each of a group's.
    let masked_lanes = if totals.is_empty() { lanes.min(MOST_MASKED_LANES) } else { lanes };
    let unit = BodyUnit { totals: &totals, masked_lanes, ..unit };
    let private = unit.private_arrays(&copied);
    if private.is_empty() {
        unit.emit_row_loop(callees, context, begin, end, &[])?;
    } else {
        let (copied, shared) = (ir.block(c"copied"), ir.block(c"shared"));
        ir.cond_br(unit.is_worth_copying(&private, ir.sub(end, begin)), copied, shared);
        ir.switch_to(copied);
        let arrays = unit.with_copies(&private);
        BodyUnit { arrays: &arrays, ..unit }.emit_row_loop(callees, context, begin, end, &private)?;
        ir.switch_to(shared);
        unit.emit_row_loop(callees, context, begin, end, &[])?;
    }
    ir.set_fast_math(0);
    if let Some(lines) = lines {
        lines.finish(ir);
    }
    // LLVM's vectoriser leaves loops with vectors alone, as those of groups are.
    let leaves_vectors = lanes == 1 && loop_vectorizer::exceeds_vectorizer_budget(module, func);
    Ok(OptimizerMode {
        leaves_vectors,
        has_groups: lanes > 1 || func.metadata.by_block,
        // The first iterations of an interleaved loop wait for elements that a short one does not have.
        interleaves: lanes == 1 && !leaves_vectors && level != Some(OptLevel::Olatency),
        level,
    })
}

/// Bytes that hot loops and their functions begin at a multiple of: no iteration of a short one crosses more lines of
/// instructions than it must.
pub(super) fn loop_alignment(processor: &HostProcessor, level: Option<OptLevel>) -> Option<u32> {
    (level == Some(OptLevel::Olatency) && !processor.is_gpu).then(|| processor.vector_bytes.clamp(32, 64))
}

/// Tells LLVM what the level asks of a function.
pub(super) fn set_level(
    ir: &IrEmitter<'_>,
    processor: &HostProcessor,
    function: LlvmFunction,
    level: Option<OptLevel>,
) {
    match level {
        Some(OptLevel::Os) => ir.enum_attribute(function, FUNCTION, "optsize"),
        Some(OptLevel::Olatency) => {
            ir.enum_attribute(function, FUNCTION, "hot");
            if let Some(bytes) = loop_alignment(processor, level) {
                ir.set_function_align(function, bytes);
            }
        }
        _ => {}
    }
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
    /// The lanes of groups under a mask, at most as many.
    pub(crate) masked_lanes: u32,
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
    /// The body for one thread.
    pub(crate) fn body_of_thread(&self, callees: &mut CompiledCallees, thread: GroupThread) -> Result<()> {
        self.lower_body_copy(callees, thread, ExecMask::Full, None).map(|_| ())
    }

    /// One copy of the body. Gives the blocks that bail out of it.
    pub(super) fn lower_body_copy(
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
        lower.lower_function_body()?;
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
        lower.lower_function_body()?;
        ir.br(done);
        ir.switch_to(partial);
        BodyUnit { parallel: &[], ..*self }.lower(callees, thread, ExecMask::Full, None).lower_function_body()?;
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
            tile_accesses: FxHashMap::default(),
            facts: self.facts,
            wide: FxHashMap::default(),
            stored_rows: super::stored_rows::StoredRows::default(),
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
    pub(crate) fn lower_function_body(&mut self) -> Result<Option<Reps>> {
        let flow = self.lower_region(self.func.body)?;
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
                self.start_unreachable_block();
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
