//! `split_blocks`: a kernel of blocks of threads becomes an ordinary one, for CPUs, whose threads are the blocks.
//!
//! What stands between two barriers becomes a loop over the threads of the block, and control flow around barriers
//! stays outside those loops: it is the same for all of these threads, as the verifier has seen to. Between two
//! barriers, what has warp operations becomes a loop over warps, split in the same way at these into loops over lanes:
//!
//! ```text
//! x = a[i]                        for warp in 0 .. n_warps:
//! s = warp_reduce_add(x)              for lane in 0 .. 32: e[lane] = a[…]
//! if lane_id() == 0:                  s = the sum of e
//!     part[warp_id()] = s             for lane in 0 .. 32: if lane == 0: part[warp] = s
//! sync_threads()
//! y = part[0]                     for t in 0 .. n: …
//! ```
//!
//! So threads run in the interpreter's order, and prints and atomic updates of a block come in that order too, except
//! that threads also wait for each other at the ends of loops and branches around barriers.
//!
//! - A value that differs between threads and lives longer than such a loop is kept in memory, an element for each
//!   thread, or for each lane if only its warp needs it ([`SpillSlot`]). What is cheap is made again instead. A value that
//!   is the same for all threads of the loop is one value outside ([`BlockSplitter::outer`]).
//! - A thread that leaves early, which it may where no barrier follows, is marked as away until it meets the others
//!   again (`outer.rs`).
//! - Shared arrays, kept values and what warp operations exchange are parameters that the launch makes
//!   ([`polyloom_ir::block_plan`]); so back ends learn nothing new.
//! - Atomic updates of shared memory are plain, since one thread of the CPU runs a block; so are barriers nothing.
//!
//! Threads past the end of the launch are not there, as in the interpreter; loops run over those that are.
//!
//! What becomes text ([`split_for_text`]) is split in the same way and written for its readers (`text.rs`).
//!
//! Design: `docs/design/block-splitting.md`.

mod collective;
mod element;
mod emit;
mod facts;
mod loops;
mod memory;
mod narrow;
mod op;
mod outer;
mod phrases;
mod text;
mod thread;
mod thread_loops;

use crate::transform::{cse, dce, fold, licm};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use emit::BlockEmitter;
use facts::{BlockFacts, ThreadLevel, Use};
use phrases::TextPhrases;
use polyloom_ir::analysis::affine::AffineSum;
use polyloom_ir::block_plan::{BlockParam, BlockPlan};
use polyloom_ir::op::{OpEffect, OpGroup};
use polyloom_ir::{CallEffects, FuncId, Function, FunctionKind, Imm, Inst, Module, Op, Scalar, Span, Type, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
pub use text::split_for_text;
use thread_loops::{SpillSlot, ThreadItem, ThreadLoop};

/// Most instructions of a kernel that is split. Longer ones would become longer still.
const MAX_INSTS: usize = 20_000;

/// Splits a prepared kernel that is launched in blocks, if it can be split, and says what parameters it has then.
pub fn split_blocks(module: &mut Module, kernel: FuncId) -> Option<BlockPlan> {
    let func = &module.functions[kernel];
    if func.kind != FunctionKind::Kernel || func.insts.len() > MAX_INSTS || !is_prepared(module, func) {
        return None;
    }
    // Code for all blocks is better than code for some, and what no lane gives no reason to run it by the interpreter.
    let blocks = [Some(None), func.metadata.workgroup_size.map(Some)];
    let ways = blocks.into_iter().flatten().flat_map(|block| [(block, false), (block, true)]);
    let (func, plan) =
        ways.into_iter().find_map(|(block, whole_warps)| split(module, func, block, whole_warps, None).ok())?;
    module.functions[kernel] = func;
    let calls = CallEffects::of(module, kernel);
    let func = &mut module.functions[kernel];
    fold::fold(func);
    cse::cse(func, &calls);
    licm::licm(func, &calls);
    dce::dce(func, &calls);
    debug_assert_eq!(polyloom_ir::verify_function(func, None), Ok(()), "split HIR is valid");
    Some(plan)
}

/// Returns true if composites are gone, and calls but those of functions that compute with what they are given alone.
fn is_prepared(module: &Module, func: &Function) -> bool {
    let mut prepared = true;
    let is_plain = |value: &Value| func.ty(*value).as_scalar().is_some() || func.ty(*value).as_array().is_some();
    func.walk(func.body, &mut |_, data| {
        prepared &= data.operands.iter().chain(&data.results).all(is_plain);
        prepared &= data.regions.iter().flat_map(|&region| &func.regions[region].params).all(is_plain);
        if let Imm::Func(callee) = data.imm {
            prepared &= CallEffects::of_function(module, callee) == OpEffect::Pure && is_anywhere(module, callee);
        }
    });
    prepared && func.params().iter().all(is_plain)
}

/// Returns true if a function gives the same in whatever thread.
fn is_anywhere(module: &Module, func: FuncId) -> bool {
    let func = &module.functions[func];
    let mut anywhere = true;
    func.walk(func.body, &mut |_, data| {
        anywhere &= data.op.info().group != OpGroup::Gpu && !matches!(data.op, Op::Tid | Op::TidLinear);
        if let Imm::Func(callee) = data.imm {
            anywhere &= is_anywhere(module, callee);
        }
    });
    anywhere
}

fn asks_for_one_coordinate(func: &Function) -> bool {
    let mut others = false;
    func.walk(func.body, &mut |_, data| others |= data.op == Op::Tid && data.imm != Imm::Axis(0));
    !others
}

/// Why a kernel cannot be split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitFailure {
    /// Holds what of it stands against it.
    pub reason: &'static str,
    /// Where.
    pub span: Span,
}

/// The kernel, split for blocks of these extents, or of any. `whole_warps`: whether what a shuffle gives a lane whose
/// source is not there, which is not defined, may be something else than the interpreter gives it. `text`: what text
/// has phrases for, if it is for text.
fn split(
    module: &Module,
    func: &Function,
    block: Option<[u32; 3]>,
    whole_warps: bool,
    text: Option<TextPhrases>,
) -> Result<(Function, BlockPlan), SplitFailure> {
    let mut barrier = None;
    func.walk(func.body, &mut |_, data| {
        if data.op == Op::NamedBarrier {
            barrier.get_or_insert(data.span);
        }
    });
    if let Some(span) = barrier {
        return Err(SplitFailure { reason: "a barrier of some of the block's warps", span });
    }
    let mut made = func.like();
    made.metadata.by_block = true;
    let region = made.body;
    let mut emit = BlockEmitter { func: made, region, span: func.span };
    let nothing = emit.int(0);
    let mut split = BlockSplitter {
        facts: BlockFacts::of(module, func, block, whole_warps, text.is_some()),
        func,
        emit,
        plan: Vec::new(),
        scalars: Vec::new(),
        shared: Vec::new(),
        dynamic: Vec::new(),
        exchanges: FxHashMap::default(),
        outer: SecondaryMap::new(),
        of_warp: Vec::new(),
        block_cells: Vec::new(),
        homes: SecondaryMap::new(),
        chunks: SecondaryMap::new(),
        use_chunks: FxHashMap::default(),
        n_chunks: 0,
        current: ThreadLoop::default(),
        is_ordered: false,
        own_element: None,
        frames: Vec::new(),
        own_counter: None,
        exits: FxHashMap::default(),
        away: Vec::new(),
        away_state: None,
        failed_thread: None,
        clock: None,
        in_a_row: text.is_none() && asks_for_one_coordinate(func),
        text,
        block,
        first: nothing,
        n_threads: nothing,
        is_flat: nothing,
        n_warps: None,
        impossible: None,
    };
    for (index, &param) in func.params().iter().enumerate() {
        split.outer[param] = split.emit.func.params()[index].into();
    }
    split.kernel();
    if let Some(impossible) = split.impossible {
        return Err(impossible);
    }
    let plan = BlockPlan { params: split.plan, block, in_a_row: split.in_a_row, phrases: Vec::new() };
    Ok((split.emit.func, plan))
}

/// Says where the results of an instruction with regions outside of the loops over threads are, and what such a loop
/// carries.
#[derive(Clone, Copy, Debug)]
enum JoinedResults {
    /// One value.
    Outer,
    /// Memory.
    Home(SpillSlot),
    /// Nobody uses it.
    Unused,
}

/// An instruction with regions, outside of the loops over threads, that is being made.
struct OuterFrame {
    /// The instruction it is made from.
    old: Inst,
    new: Inst,
    level: ThreadLevel,
    joined: SmallVec<[JoinedResults; 4]>,
}

/// The threads that code runs for.
#[derive(Clone, Copy)]
struct EmitScope {
    level: ThreadLevel,
    /// The number, in the block, of the first of them; and how many there are.
    base: Value,
    count: Value,
    /// The warp's number and the loop over warps.
    warp: Option<(Value, Inst)>,
}

/// A thread that code is made for.
struct ThreadContext {
    /// Its number in the block.
    thread: Value,
    /// Its lane and warp, if the loop is one over lanes.
    lane: Option<(Value, Value)>,
    /// Its coordinates in the block, if they are known.
    coordinates: Option<[Value; 3]>,
    /// Holds what the values of the kernel are, in this thread.
    values: FxHashMap<Value, Value>,
    /// Holds what the loops and blocks of the kernel are.
    targets: FxHashMap<Inst, Inst>,
    /// Holds what the code is left by early: `break` or `continue`, and of what.
    exit: Option<(Op, Inst)>,
    /// The loop.
    this: Option<Inst>,
    /// True if values that are made again are kept for the rest of the code.
    keeps: bool,
    /// True if nothing of the kernel follows.
    is_last: bool,
}

/// An element of shared memory that no other thread of a row of the block has: its array and indices.
type OwnElement = (Value, SmallVec<[AffineSum; 2]>);

struct BlockSplitter<'a> {
    facts: BlockFacts<'a>,
    func: &'a Function,
    emit: BlockEmitter,
    plan: Vec<BlockParam>,
    /// Parameters in the plan that are no memory.
    scalars: Vec<(BlockParam, Value)>,
    /// Static shared arrays by number.
    shared: Vec<(u32, Value)>,
    /// Dynamic shared memory as arrays of a type, with elements at each byte or not.
    dynamic: Vec<(Scalar, bool, Value)>,
    /// Holds what warp operations exchange values through.
    exchanges: FxHashMap<Inst, SmallVec<[Value; 3]>>,
    /// Holds what values of the kernel are outside of the loops over threads.
    outer: SecondaryMap<Value, PackedOption<Value>>,
    /// Those of `outer` that are so within the loop over warps alone.
    of_warp: Vec<Value>,
    /// Values that the loop over warps leaves behind in memory of one element.
    block_cells: Vec<Value>,
    homes: SecondaryMap<Value, Option<SpillSlot>>,
    chunks: SecondaryMap<Inst, ThreadLoop>,
    /// Operands that are read elsewhere than the instruction stands.
    use_chunks: FxHashMap<Use, ThreadLoop>,
    n_chunks: u32,
    current: ThreadLoop,
    /// True if a thread of the loop that is being made does something that those after it wait for.
    is_ordered: bool,
    /// The element of shared memory that each thread of that loop updates, where there is such a one.
    own_element: Option<OwnElement>,
    frames: Vec<OuterFrame>,
    /// Holds what the next region begins with.
    own_counter: Option<ThreadItem>,
    /// Numbers of the places where threads that left early are back: the end of an instruction or, with `true`, of an
    /// iteration; `None` is the kernel's end.
    exits: FxHashMap<(Option<Inst>, bool), u32>,
    /// The places for which threads may be on their way now.
    away: Vec<u32>,
    /// For each thread, the place it is on its way to, or 0.
    away_state: Option<Value>,
    failed_thread: Option<Value>,
    clock: Option<Value>,
    /// True if the code is for launches of one dimension, of a kernel that asks for the first coordinate alone, so that
    /// loads by it are seen to follow each other.
    in_a_row: bool,
    /// Holds what text has phrases for, if the code is for text.
    text: Option<TextPhrases>,
    /// The extents of blocks, where the code is for such alone.
    block: Option<[u32; 3]>,
    /// The number in the launch of the block's first thread; how many threads the block has; whether it has one row.
    first: Value,
    n_threads: Value,
    is_flat: Value,
    /// Number of warps the block has, where that is known outside of their loops.
    n_warps: Option<Value>,
    /// The first thing met that cannot be split.
    impossible: Option<SplitFailure>,
}

impl BlockSplitter<'_> {
    /// Notes that the kernel cannot be split where it is being made.
    fn give_up(&mut self, reason: &'static str) {
        let span = self.emit.span;
        self.impossible.get_or_insert(SplitFailure { reason, span });
    }

    /// The whole kernel.
    fn kernel(&mut self) {
        let around = self.prologue();
        let after_prologue = self.emit.func.regions[self.emit.region].insts.len();
        self.region(&around, self.func.body, true);
        self.clear_memory(after_prologue);
    }

    /// Returns which threads there are.
    fn prologue(&mut self) -> EmitScope {
        if self.text.is_some() {
            return self.text_prologue();
        }
        let extents: [Value; 3] = [0, 1, 2].map(|axis| self.scalar_param(BlockParam::BlockExtent(axis)));
        let n_launched = self.scalar_param(BlockParam::Threads);
        let one = self.emit.int(1);
        let rows = self.emit.op(Op::Mul, &[extents[1], extents[2]]);
        self.is_flat = self.emit.compare(Op::Eq, rows, one);
        let size = self.emit.op(Op::Mul, &[extents[0], rows]);
        let number = self.emit.value_with(Op::Tid, &[], Type::I32, Imm::Axis(0));
        let wide: [Value; 3] = [number, size, n_launched].map(|value| self.emit.cast(value, Scalar::I64));
        let first = self.emit.op(Op::Mul, &[wide[0], wide[1]]);
        let rest = self.emit.op(Op::Sub, &[wide[2], first]);
        let count = self.emit.op(Op::Min, &[rest, wide[1]]);
        let zero = self.emit.constant(Scalar::I64, 0);
        let none = self.emit.compare(Op::Le, count, zero);
        self.emit.leave_if(none, |emit| {
            emit.inst(Op::Return, &[], &[], Imm::None);
        });
        self.first = self.emit.cast(first, Scalar::I32);
        self.n_threads = self.emit.cast(count, Scalar::I32);
        let base = self.emit.int(0);
        EmitScope { level: ThreadLevel::Block, base, count: self.n_threads, warp: None }
    }

    /// Ends the current region with `yield`, unless its end is not reached.
    fn end_region(&mut self, values: &[Value]) {
        if self.is_at_dead_end() {
            self.emit.inst(Op::Unreachable, &[], &[], Imm::None);
        } else {
            self.emit.yield_(values);
        }
    }

    fn is_at_dead_end(&self) -> bool {
        let last = self.emit.func.regions[self.emit.region].insts.last();
        last.is_some_and(|&last| {
            let owns_regions = !self.emit.func.insts[last].regions.is_empty();
            owns_regions && !crate::analysis::exits::falls_through(&self.emit.func, last)
        })
    }

    /// Whether the user's code has a name for a value, and then the same for the one made of it.
    fn name(&mut self, old: Value, new: Value) {
        if let Some(name) = &self.func.value_names[old] {
            self.emit.func.value_names[new] = Some(name.clone());
        }
    }
}
