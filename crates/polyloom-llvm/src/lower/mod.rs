//! HIR to LLVM IR, a group of threads at a time.
//!
//! A function is lowered for a number of lanes: as many consecutive threads of a row, executed in step. With one lane
//! this is ordinary scalar code. With more, every HIR value is held as [`ValueRep`] says, scalar wherever the uniformity
//! analysis allows, and [`ExecMask`] says which lanes are executing.
//!
//! Two invariants keep that sound:
//!
//! * Lanes that are not executing compute harmless values: no poison that is used, no undefined behaviour. Memory is
//!   touched under the mask alone.
//! * Where code with an effect on the whole group runs (a scalar load, a loop with a uniform condition), at least one
//!   lane is executing. Branches around masked code see to that, except where the code is cheap and free of such
//!   effects (`FunctionLowering::is_cheap`).
//!
//! [`entry`] and [`launch_rows`] build the loop over the threads of a launch around two copies of a kernel's body;
//! [`branches`], [`control`] and [`loops`] lower structured control flow, [`addresses`], [`memory`], [`interleaved`],
//! [`transpose`], [`prefetch`], [`atomics`] and [`group_updates`] array elements, [`totals`] sums over a launch, [`host`]
//! what calls back into the runtime, [`calls`] calls of library functions, [`arith`], [`reciprocals`], [`approximate`]
//! and [`cast`] everything pure.
//!
//! Design: `docs/design/vectorisation.md`.

mod addresses;
mod approximate;
mod arguments;
mod arith;
mod atomics;
mod branches;
mod calls;
pub(crate) mod cast;
mod choice_tables;
mod compare_exchange;
mod control;
mod control_frame;
mod copy_updates;
mod cost;
mod entry;
mod full_blocks;
mod group_loop;
mod group_updates;
mod host;
mod indices;
mod interleaved;
mod lane_facts;
mod launch_rows;
mod line_table;
mod loop_forms;
mod loop_state;
mod loop_vectorizer;
mod loops;
mod memory;
mod native;
mod parallel;
mod prefetch;
mod private_arrays;
mod private_copies;
mod reciprocals;
mod row_tiles;
mod stored_rows;
mod strategy;
mod tile_access;
mod tiled_loop;
mod totals;
mod transpose;
mod value_rep;
mod values;
mod width;

pub(crate) use entry::{GroupThread, lower_kernel};
pub(crate) use line_table::{LineTable, SpanNumbers};
pub(crate) use native::lower_native;
pub(crate) use strategy::Strategy;
pub(crate) use value_rep::{ExecMask, RegionFlow, Reps, ValueRep};
pub(crate) use {
    arguments::{KernelArguments, alias_scope},
    calls::{CompiledCallees, set_attributes, used_values},
    entry::{BodyUnit, fast_math},
    memory::{ArrayArg, GroupAddress},
};

use crate::ir::{BasicBlock, FenceOrder, IrEmitter, Val};
use arith::ArithContext;
use control_frame::{ControlFrame, ReturnTarget};
use cranelift_entity::SecondaryMap;
use interleaved::RowStore;
use polyloom_codegen::{ArgFacts, CodegenError, SiteTable};
use polyloom_ir::analysis::uniformity::{Uniformity, ValueShape};
use polyloom_ir::{Function, Imm, Inst, Module, Op, Region, Scalar, Type, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Says where the copy of a kernel's body for full groups goes when threads part ways early on: the other copy.
pub(crate) struct BailOut {
    /// The other copy's first block.
    pub(crate) target: BasicBlock,
    /// Blocks that branch to it.
    pub(crate) from: Vec<BasicBlock>,
}

/// The lowering of one function for one number of lanes.
pub(crate) struct FunctionLowering<'a, 'c> {
    pub(crate) ir: &'a IrEmitter<'c>,
    pub(crate) arith: ArithContext<'a, 'c>,
    callees: &'a mut CompiledCallees,
    module: &'a Module,
    pub(crate) func: &'a Function,
    /// The updates that are summed up before they go to memory.
    totals: &'a [totals::UpdateTotal],
    lanes: u32,
    /// The parallel loops and the lanes that each has.
    parallel: &'a [(Inst, u32)],
    /// True if no two threads of the processor share what is updated, so that updates need no exclusive access.
    alone: bool,
    /// Says how the launch's threads differ, however many lanes there are; `None` where nobody has asked.
    uniformity: Option<&'a Uniformity>,
    /// Values that something uses. Results nobody uses are not kept through loops.
    used: &'a SecondaryMap<Value, bool>,
    /// Values that indices of arrays are computed from.
    indexes: &'a SecondaryMap<Value, bool>,
    /// Divisions by what the loop around leaves as it is.
    by_invariants: &'a SecondaryMap<Inst, bool>,
    sites: Option<&'a SiteTable>,
    arrays: &'a [Option<ArrayArg>],
    /// Arrays that are no parameters: numbered after those that are.
    own_arrays: Vec<ArrayArg>,
    pub(crate) thread: Option<GroupThread>,
    values: SecondaryMap<Value, Option<ValueRep>>,
    /// Loops around that the lanes of this group leave together, though those of others may not.
    in_step: SmallVec<[Inst; 2]>,
    /// Counters of the loops around that are not negative there.
    not_negative: SmallVec<[Value; 2]>,
    /// The accesses of the loops around that are part of tiles.
    tile_accesses: FxHashMap<Inst, tile_access::TileAccess>,
    /// The facts of a kernel's arguments.
    facts: Option<&'a ArgFacts>,
    /// 64-bit counterparts of 32-bit indices, computed in 64 bits so that addresses need no sign extension in loops.
    wide: FxHashMap<Val, Val>,
    stored_rows: stored_rows::StoredRows,
    exec: ExecMask,
    exec_slot: Option<Val>,
    /// True if no lane is executing any more on some path to here.
    maybe_none: bool,
    frames: Vec<ControlFrame>,
    returns: ReturnTarget,
    bail_out: Option<BailOut>,
    /// The facts of full blocks, in code for them.
    full_blocks: Option<&'a full_blocks::FullBlocks>,
    /// True if something that cannot be done twice has been emitted; the bail-out starts the group again.
    pub(crate) has_effects: bool,
    /// Choices among constants, for GPUs.
    pub(crate) choices: choice_tables::ChoiceTables,
    /// Says which lines of source instructions are for, if that is wanted.
    lines: Option<&'a LineTable<'a>>,
}

pub(crate) type Result<T> = std::result::Result<T, CodegenError>;

impl<'a, 'c> FunctionLowering<'a, 'c> {
    /// Lowers a region's instructions at the current position, where at least one lane is executing.
    fn lower_region(&mut self, region: Region) -> Result<RegionFlow> {
        let outside = std::mem::take(&mut self.maybe_none);
        let flow = self.region_body(region);
        self.maybe_none |= outside;
        flow
    }

    fn region_body(&mut self, region: Region) -> Result<RegionFlow> {
        let func = self.func;
        let insts = &func.regions[region].insts;
        let mut skipped: SmallVec<[BasicBlock; 4]> = SmallVec::new();
        let mut end = None;
        let mut flow = RegionFlow::Dead;
        let mut rows: SmallVec<[RowStore; 2]> = SmallVec::new();
        let mut loaded: SmallVec<[Inst; 8]> = SmallVec::new();
        for (index, &inst) in insts.iter().enumerate() {
            let data = &func.insts[inst];
            if let Some(lines) = self.lines {
                lines.at(self.ir, data.span);
            }
            if self.access_tile(inst)? {
                continue;
            }
            if data.op == Op::ArrayStore && self.part_of_row(&insts[index..], &mut rows)? {
                continue;
            }
            if data.op == Op::ArrayLoad {
                if !loaded.contains(&inst) {
                    self.load_row(&insts[index..], &mut loaded)?;
                }
                continue;
            }
            if data.op.info().is_terminator() {
                flow = self.lower_terminator(inst)?;
                break;
            }
            if data.regions.is_empty() {
                self.lower_instruction(inst)?;
                continue;
            }
            let none_before = self.maybe_none;
            let owner_flow = self.lower_region_op(inst)?;
            self.maybe_none |= none_before;
            flow = match owner_flow {
                RegionFlow::Yields(results) => {
                    for (&result, rep) in data.results.iter().zip(results) {
                        self.values[result] = Some(rep);
                    }
                    RegionFlow::Dead
                }
                other => {
                    flow = other;
                    break;
                }
            };
            let rest = insts.get(index + 1..).unwrap_or_default();
            if self.exec == ExecMask::Slot && self.maybe_none && !self.all_cheap(rest) {
                let end = *end.get_or_insert_with(|| self.ir.block(c"none_left"));
                let any = self.any_executing();
                let go_on = self.ir.block(c"go_on");
                skipped.push(self.ir.current());
                self.ir.cond_br(any, go_on, end);
                self.ir.switch_to(go_on);
                self.maybe_none = false;
            }
        }
        let Some(end) = end else { return Ok(flow) };
        self.maybe_none = true;
        let last = self.ir.current();
        Ok(match flow {
            RegionFlow::Yields(values) => {
                self.ir.br(end);
                self.ir.switch_to(end);
                // Values from outside the region are there on all paths.
                let merged =
                    values.into_iter().enumerate().map(|(i, rep)| match self.yielded_from_outside(region, i) {
                        true => rep,
                        false => self.merge_with_zero(rep, last, &skipped),
                    });
                RegionFlow::Yields(merged.collect())
            }
            RegionFlow::Dead => {
                self.ir.br(end);
                self.ir.switch_to(end);
                RegionFlow::Dead
            }
            RegionFlow::Gone => {
                self.ir.switch_to(end);
                self.exec = ExecMask::Slot;
                RegionFlow::Dead
            }
        })
    }

    /// Lowers an instruction without regions that is no terminator.
    fn lower_instruction(&mut self, inst: Inst) -> Result<()> {
        let func = self.func;
        let data = &func.insts[inst];
        if data.op != Op::ArrayStore {
            self.note_stored_row(inst)?;
        }
        let rep = match (data.op, &data.imm) {
            (Op::Const, Imm::Bits(bits)) => ValueRep::Uniform(self.constant(self.scalar_of(data.results[0])?, *bits)),
            (Op::Tid, Imm::Axis(axis)) => self.tid(*axis)?,
            (Op::TidLinear, _) => self.tid_linear()?,
            (Op::Dim, Imm::Axis(axis)) => self.dim(data.operands[0], *axis)?,
            (Op::Call, Imm::Func(callee)) => {
                let results = self.call(inst, *callee)?;
                for (&result, rep) in data.results.iter().zip(results) {
                    self.values[result] = Some(rep);
                }
                return Ok(());
            }
            (Op::LoadReadonly, _) if self.arith.processor.is_gpu => self.load_readonly(inst)?,
            (Op::ArrayLoad | Op::LoadReadonly, _) => self.array_load(inst)?,
            (Op::AsyncCopy, _) if self.arith.processor.is_gpu => return self.async_copy(inst),
            (Op::Mma | Op::MmaLoadA | Op::MmaLoadB, _) if self.arith.processor.is_gpu => {
                let results = if data.op == Op::Mma { self.mma(inst)? } else { self.load_fragment(inst)? };
                for (&result, rep) in data.results.iter().zip(results) {
                    self.values[result] = Some(rep);
                }
                return Ok(());
            }
            (Op::ArrayStore, _) => return self.array_store(inst),
            (Op::Assert | Op::Check, _) => return self.check(inst),
            (Op::Print, _) => return self.print(inst),
            (op, _) if op.info().group == polyloom_ir::op::OpGroup::Gpu && self.arith.processor.is_gpu => {
                match self.gpu(inst)? {
                    Some(rep) => rep,
                    None => return Ok(()),
                }
            }
            (Op::ThreadFence, _) => {
                self.has_effects = true;
                self.ir.fence(FenceOrder::LLVMAtomicOrderingSequentiallyConsistent, "");
                return Ok(());
            }
            (op, _) if op.info().group == polyloom_ir::op::OpGroup::Atomic => match self.atomic(inst)? {
                Some(rep) => rep,
                None => return Ok(()),
            },
            (Op::Select, _) if self.arith.processor.is_gpu => match self.load_from_table(inst)? {
                Some(rep) => rep,
                None => self.lower_pure_op(inst)?,
            },
            (Op::Lt, _) if self.is_known_not_negative(data.operands[0], data.operands[1]) => {
                ValueRep::Uniform(self.ir.bool_const(false))
            }
            (Op::Select, _) if let Some(rep) = self.wrap_index_by_branch(inst)? => rep,
            (Op::Min, _) if let Some(rep) = self.end_in_full_block(inst)? => rep,
            (Op::Min, _) if let Some(rep) = self.least_constant(inst)? => rep,
            (Op::Div | Op::Mod, _) if let Some(rep) = self.share_quotient(inst)? => rep,
            _ => match self.lower_inverse_cube(inst)? {
                Some(rep) => rep,
                None => self.lower_pure_op(inst)?,
            },
        };
        if let Some(&result) = data.results.first() {
            self.values[result] = Some(rep);
        }
        Ok(())
    }

    /// Lowers a native pure op: on scalars where the result is uniform or affine, otherwise on vectors.
    fn lower_pure_op(&mut self, inst: Inst) -> Result<ValueRep> {
        let func = self.func;
        let data = &func.insts[inst];
        let Some(&result) = data.results.first() else { return Err(self.unsupported(inst)) };
        let to = self.scalar_of(result)?;
        let typed = if data.op == Op::Select { data.operands.get(1) } else { data.operands.first() };
        let Some(&typed) = typed else { return Err(self.unsupported(inst)) };
        let from = self.scalar_of(typed)?;
        let reps: SmallVec<[ValueRep; 4]> = data.operands.iter().map(|&v| self.rep(v)).collect::<Result<_>>()?;
        let all_uniform = reps.iter().all(|rep| matches!(rep, ValueRep::Uniform(_)));
        let have_bases = reps.iter().all(|rep| !matches!(rep, ValueRep::Vector(_)));
        let shape = self.shape(result);
        let on_scalars = all_uniform || (have_bases && shape != ValueShape::Varying);
        let operands: SmallVec<[Val; 4]> = match on_scalars {
            true => reps.iter().map(|&rep| self.base(rep)).collect::<Result<_>>()?,
            false => reps.iter().map(|&rep| self.vector(rep)).collect::<Result<_>>()?,
        };
        let value = match self.divide_by_invariant(inst, from, operands[0])? {
            Some(value) => Some(value),
            None => self.arith.emit(data.op, from, to, &operands),
        };
        let Some(value) = value else { return Err(self.unsupported(inst)) };
        Ok(match shape {
            _ if !on_scalars => ValueRep::Vector(value),
            ValueShape::Affine { stride, exact } if !all_uniform => {
                let sums = matches!(data.op, Op::Add | Op::Sub | Op::Mul);
                if exact && sums && to.is_signed_int() {
                    self.ir.no_signed_wrap(value);
                    if let (Op::Add | Op::Sub, &[a, b]) = (data.op, &operands[..]) {
                        let (a, b) = (self.widen(a), self.widen(b));
                        let wide = if data.op == Op::Add { self.ir.add(a, b) } else { self.ir.sub(a, b) };
                        self.wide.insert(value, wide);
                    }
                }
                ValueRep::Affine { base: value, stride }
            }
            _ => ValueRep::Uniform(value),
        })
    }

    pub(crate) fn unsupported(&self, inst: Inst) -> CodegenError {
        let data = &self.func.insts[inst];
        let types: Vec<String> = data.operands.iter().map(|&v| self.func.ty(v).to_string()).collect();
        let message = format!("the LLVM back end has no code for `{}` on ({})", data.op.name(), types.join(", "));
        CodegenError::at(data.span, message)
    }

    pub(crate) fn scalar_of(&self, value: Value) -> Result<Scalar> {
        match self.func.ty(value) {
            Type::Scalar(scalar) => Ok(scalar),
            _ => Err(CodegenError::new("internal error: an array where a scalar is needed")),
        }
    }
}
