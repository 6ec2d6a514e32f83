//! The linear form of HIR that the interpreter runs.
//!
//! Every value has a slot in its function's frame; carried values and results are moved there where control joins.
//! Constants are in the frame from the start, and nothing else is written to their slots. Library ops are calls of
//! functions made from [`crate::math`].

use super::lower::lower;
use super::memory::SHARED;
use super::{ArrayArg, InterpError, InterpOptions, MAX_CALL_DEPTH, TrapSite};
use crate::entity::{FuncId, Inst};
use crate::function::{Module, NamedBarrier, SharedArray};
use crate::math;
use crate::op::{Convergence, Op};
use crate::span::Span;
use crate::types::{Scalar, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// A slot of a frame.
pub(super) type Slot = u32;

/// One step of a prepared function. Jump targets are labels until the function is finished, then indices of steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum CodeStep {
    Unary {
        f: fn(u64) -> u64,
        to: Slot,
        x: Slot,
    },
    Binary {
        f: fn(u64, u64) -> u64,
        to: Slot,
        a: Slot,
        b: Slot,
    },
    Ternary {
        f: fn(u64, u64, u64) -> u64,
        to: Slot,
        operands: [Slot; 3],
    },
    Copy {
        to: Slot,
        from: Slot,
    },
    Jump {
        target: u32,
    },
    /// A jump back: the next iteration of a loop.
    Again {
        target: u32,
    },
    JumpUnless {
        cond: Slot,
        target: u32,
    },
    /// Enters `loops[index]` or, if it runs no iteration, jumps.
    ForEnter {
        index: u32,
        exit: u32,
    },
    /// Goes on to the next iteration of `loops[index]`, if there is one.
    ForNext {
        index: u32,
        body: u32,
    },
    Tid {
        to: Slot,
        axis: u8,
    },
    TidLinear {
        to: Slot,
    },
    /// `thread_idx` and its like.
    BlockIndex {
        to: Slot,
        op: Op,
        axis: u8,
    },
    /// A view of dynamic shared memory, `dynamic[index]`.
    DynamicShared {
        to: Slot,
        index: u32,
    },
    Clock {
        to: Slot,
    },
    /// Waits for the other threads of `collectives[index]`, which give it its result.
    Collective {
        index: u32,
    },
    Dim {
        to: Slot,
        array: Slot,
        axis: u8,
    },
    Load {
        to: Slot,
        access: u32,
    },
    Store {
        value: Slot,
        access: u32,
    },
    /// The element becomes `f(element, value)`.
    Atomic {
        f: fn(u64, u64) -> u64,
        to: Slot,
        value: Slot,
        access: u32,
    },
    CompareExchange {
        to: Slot,
        compare: Slot,
        value: Slot,
        access: u32,
    },
    /// Traps unless the condition holds; index and extent are slots of `i64` values.
    Check {
        cond: Slot,
        index: Slot,
        extent: Slot,
        site: Inst,
    },
    Assert {
        cond: Slot,
        site: Inst,
    },
    Print {
        print: u32,
    },
    /// Tells of the op of `watched[index]`.
    Observe {
        index: u32,
    },
    Call {
        call: u32,
    },
    /// Leaves with the values of `returns[index]`.
    Return {
        index: u32,
    },
    Unreachable {
        site: Inst,
    },
}

/// A `for_range`.
#[derive(Debug)]
pub(super) struct ForLoop {
    pub(super) ty: Scalar,
    pub(super) lo: Slot,
    pub(super) hi: Slot,
    pub(super) step: Slot,
    pub(super) counter: Slot,
    /// The place where the number of iterations left is kept.
    pub(super) left: Slot,
}

/// An index of an element.
#[derive(Debug)]
pub(super) struct ElementIndex {
    pub(super) slot: Slot,
    pub(super) is_signed: bool,
    /// Says how many of its 64 bits are above the index's type.
    pub(super) unused_bits: u32,
}

/// An element of an array.
#[derive(Debug)]
pub(super) struct ElementAccess {
    pub(super) array: Slot,
    pub(super) indices: SmallVec<[ElementIndex; 4]>,
    pub(super) elem: Scalar,
    pub(super) inst: Inst,
}

/// Describes what the threads of a warp or of a block execute together.
#[derive(Debug)]
pub(super) struct CollectiveOp {
    pub(super) op: Op,
    pub(super) convergence: Convergence,
    pub(super) operands: SmallVec<[Slot; 2]>,
    /// The operands' types.
    pub(super) types: SmallVec<[Type; 2]>,
    /// None for a barrier, several for `mma`.
    pub(super) to: SmallVec<[Slot; 1]>,
    /// Lanes in a group.
    pub(super) width: u8,
    /// The barrier of a `named_barrier`.
    pub(super) barrier: Option<NamedBarrier>,
    /// `warp_reduce_add` and its like: what combines two values.
    pub(super) combine: Option<fn(u64, u64) -> u64>,
    pub(super) inst: Inst,
}

impl CollectiveOp {
    /// Returns true if a warp executes it without waiting for other warps.
    pub(super) fn is_of_warp(&self) -> bool {
        self.convergence == Convergence::Warp && self.barrier.is_none()
    }
}

/// A view of dynamic shared memory.
#[derive(Debug)]
pub(super) struct DynamicShared {
    pub(super) offset: Slot,
    pub(super) extents: SmallVec<[Slot; 4]>,
    pub(super) elem: Scalar,
}

/// A `print`.
#[derive(Debug)]
pub(super) struct PrintStep {
    pub(super) format: Arc<str>,
    pub(super) types: Vec<Type>,
    pub(super) values: Vec<Slot>,
}

/// An op that is watched.
#[derive(Debug)]
pub(super) struct WatchedStep {
    pub(super) op: Op,
    pub(super) span: Span,
    pub(super) operands: SmallVec<[Slot; 4]>,
    pub(super) result: Slot,
}

/// A call. The callee leaves its results at the start of its frame.
#[derive(Debug)]
pub(super) struct CallStep {
    /// Index into the interpreter's codes.
    pub(super) callee: usize,
    pub(super) args: SmallVec<[Slot; 4]>,
    pub(super) results: SmallVec<[Slot; 4]>,
}

/// A function in linear form.
#[derive(Debug, Default)]
pub(super) struct LinearCode {
    /// `None` for a library function.
    pub(super) func: Option<FuncId>,
    /// The frame on entry, but for the parameters.
    pub(super) frame: Vec<u64>,
    pub(super) params: Vec<Slot>,
    pub(super) steps: Vec<CodeStep>,
    pub(super) loops: Vec<ForLoop>,
    pub(super) accesses: Vec<ElementAccess>,
    pub(super) prints: Vec<PrintStep>,
    pub(super) watched: Vec<WatchedStep>,
    pub(super) calls: Vec<CallStep>,
    pub(super) collectives: Vec<CollectiveOp>,
    pub(super) dynamic: Vec<DynamicShared>,
    pub(super) returns: Vec<SmallVec<[Slot; 4]>>,
    /// The spans of instructions that can fail.
    pub(super) spans: FxHashMap<Inst, Span>,
}

impl LinearCode {
    pub(super) fn site(&self, inst: Inst) -> TrapSite {
        let span = self.spans.get(&inst).copied().unwrap_or(Span::NONE);
        TrapSite { func: self.func, inst, span }
    }
}

/// Describes what a call leads to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum PreparedCallee {
    User(FuncId),
    Library(Op, SmallVec<[Type; 4]>),
}

/// A function and all it calls.
pub(super) struct PreparedProgram {
    pub(super) codes: Vec<LinearCode>,
    pub(super) stack_size: usize,
    pub(super) blocks: BlockNeeds,
}

/// Describes what a kernel needs of the block its threads are in.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockNeeds {
    /// True if it is launched in blocks at all.
    pub(super) needed: bool,
    /// Its static shared arrays, by number.
    pub(super) shared: Vec<(u32, ArrayArg)>,
    /// The bytes they take.
    pub(super) shared_bytes: u64,
}

impl BlockNeeds {
    /// The index of a static shared array.
    fn shared_array(&mut self, array: &SharedArray, elem: Scalar) -> usize {
        self.needed = true;
        if let Some(index) = self.shared.iter().position(|(id, _)| *id == array.id) {
            return index;
        }
        let offset = self.shared_bytes.next_multiple_of(array.align.into());
        self.shared_bytes = offset + array.bytes(elem.bytes());
        let extents: SmallVec<[i64; 4]> = array.extents.iter().map(|&extent| extent.into()).collect();
        self.shared.push((array.id, ArrayArg::dense(SHARED, offset as i64, &extents, elem)));
        self.shared.len() - 1
    }
}

impl PreparedProgram {
    pub(super) fn new(
        module: &Module,
        func: FuncId,
        options: InterpOptions<'_>,
    ) -> Result<PreparedProgram, InterpError> {
        let mut preparation = ProgramBuilder {
            module,
            options,
            codes: Vec::new(),
            stack_sizes: Vec::new(),
            known: FxHashMap::default(),
            depth: 0,
            n_params: module.functions[func].params().len(),
            blocks: BlockNeeds::default(),
        };
        preparation.function(PreparedCallee::User(func))?;
        let ProgramBuilder { codes, stack_sizes, blocks, .. } = preparation;
        Ok(PreparedProgram { stack_size: stack_sizes[0], codes, blocks })
    }
}

/// The functions prepared so far.
pub(super) struct ProgramBuilder<'a> {
    module: &'a Module,
    pub(super) options: InterpOptions<'a>,
    codes: Vec<LinearCode>,
    /// For each code, slots it and its callees need; 0 while it is being prepared.
    stack_sizes: Vec<usize>,
    known: FxHashMap<PreparedCallee, usize>,
    depth: usize,
    /// Parameters of the function that is launched: shared arrays are numbered after them.
    n_params: usize,
    blocks: BlockNeeds,
}

impl ProgramBuilder<'_> {
    /// Returns what stands for a static shared array.
    pub(super) fn shared_array(&mut self, array: &SharedArray, elem: Scalar) -> u64 {
        (self.n_params + self.blocks.shared_array(array, elem)) as u64
    }

    /// Notes that the kernel is launched in blocks.
    pub(super) fn needs_blocks(&mut self) {
        self.blocks.needed = true;
    }

    /// The index of the callee's code and the slots it needs on the stack.
    pub(super) fn function(&mut self, callee: PreparedCallee) -> Result<(usize, usize), InterpError> {
        if let Some(&index) = self.known.get(&callee) {
            // Every frame has a slot, so 0 means that the function calls itself.
            let size = self.stack_sizes[index];
            return if size == 0 { Err(InterpError::CallDepth) } else { Ok((index, size)) };
        }
        if self.depth == MAX_CALL_DEPTH {
            return Err(InterpError::CallDepth);
        }
        let index = self.codes.len();
        self.codes.push(LinearCode::default());
        self.stack_sizes.push(0);
        self.known.insert(callee.clone(), index);
        self.depth += 1;
        let (code, callees_need) = match &callee {
            PreparedCallee::User(id) => lower(self, &self.module.functions[*id], Some(*id))?,
            PreparedCallee::Library(op, types) => {
                let Some(function) = math::library_function(*op, types) else {
                    return Err(InterpError::NoDefinition { op: *op, types: types.to_vec() });
                };
                lower(self, &function, None)?
            }
        };
        self.depth -= 1;
        let size = code.frame.len() + callees_need;
        self.stack_sizes[index] = size;
        self.codes[index] = code;
        Ok((index, size))
    }
}
