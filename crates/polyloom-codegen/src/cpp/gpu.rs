//! Blocks, warps and shared memory, in CUDA C++.
//!
//! All lanes that have not exited take part in operations of a warp, so these name all lanes: CUDA does not wait for
//! those that have exited.

use super::body::FunctionWriter;
use super::expression::{Precedence, axis};
use super::prelude::Helper;
use super::target::TextTarget;
use polyloom_ir::function::{AtomicOrdering, MemoryScope, SharedArray};
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Imm, Inst, InstData, Op, Scalar, Type, Value, ValueDef};
use std::fmt::Write as _;

/// The mask of all lanes.
const ALL: &str = "0xffffffffu";

const AXES: [&str; 3] = ["x", "y", "z"];

impl FunctionWriter<'_, '_> {
    /// An operation of blocks or warps. False for others.
    pub(super) fn gpu(&mut self, inst: Inst, data: &InstData) -> bool {
        if data.op.info().group != OpGroup::Gpu {
            return false;
        }
        if self.unit.target() != TextTarget::Cuda {
            match data.op {
                Op::BlockDim if self.unit.blocks.is_some() => self.text(&format!("blocks.block[{}]", axis(data))),
                Op::GridDim if self.unit.blocks.is_some() => self.text(&format!("blocks.grid[{}]", axis(data))),
                // A block is one thread.
                Op::BlockDim if !self.unit.in_blocks => self.text("1"),
                Op::ThreadFence => self.text("__atomic_thread_fence(__ATOMIC_SEQ_CST)"),
                _ => self.refuse_for_cpu(data),
            }
            return true;
        }
        let at = AXES.get(usize::from(axis(data))).copied().unwrap_or("x");
        self.cuda(inst, data, at);
        true
    }

    /// An operation of blocks or warps in C++ of a kernel that was not split.
    fn refuse_for_cpu(&mut self, data: &InstData) {
        let name = data.op.name();
        let message = format!("C++ text is for kernels whose threads stand for themselves; `{name}` needs CUDA C++");
        self.unit.refuse(message, data.span);
    }

    fn cuda(&mut self, inst: Inst, data: &InstData, at: &str) {
        match data.op {
            Op::ThreadIdx => self.text(&format!("threadIdx.{at}")),
            Op::BlockIdx => self.text(&format!("blockIdx.{at}")),
            Op::BlockDim => self.text(&format!("blockDim.{at}")),
            Op::GridDim => self.text(&format!("gridDim.{at}")),
            Op::LaneId => self.call(Helper::LaneId, &[]),
            Op::WarpId => self.call(Helper::WarpId, &[]),
            Op::SyncThreads => self.text("__syncthreads()"),
            Op::NamedBarrier => self.named_barrier(data),
            Op::SyncThreadsAnd => self.predicate("__syncthreads_and(", data, ") != 0"),
            Op::SyncThreadsOr => self.predicate("__syncthreads_or(", data, ") != 0"),
            Op::SyncThreadsCount => self.predicate("__syncthreads_count(", data, ")"),
            Op::ThreadFence => self.text(fence(match data.imm {
                Imm::Memory(order) => order.scope,
                _ => MemoryScope::Device,
            })),
            Op::SyncWarp => self.predicate("__syncwarp(", data, ")"),
            Op::Ballot => self.predicate(&format!("__ballot_sync({ALL}, "), data, ")"),
            Op::WarpAny => self.predicate(&format!("__any_sync({ALL}, "), data, ") != 0"),
            Op::WarpAll => self.predicate(&format!("__all_sync({ALL}, "), data, ") != 0"),
            Op::Shuffle => self.shuffle("__shfl_sync", Helper::FromLane, data),
            Op::ShuffleUp => self.shuffle("__shfl_up_sync", Helper::FromBefore, data),
            Op::ShuffleDown => self.shuffle("__shfl_down_sync", Helper::FromBehind, data),
            Op::ShuffleXor => self.shuffle("__shfl_xor_sync", Helper::FromFlipped, data),
            Op::MatchAny => self.call(Helper::MatchAny, &data.operands),
            Op::MatchAll => self.call(Helper::MatchAll, &data.operands),
            Op::WarpReduceAdd => self.warp_reduce(Helper::WarpReduceAdd, data),
            Op::WarpReduceMin => self.warp_reduce(Helper::WarpReduceMin, data),
            Op::WarpReduceMax => self.warp_reduce(Helper::WarpReduceMax, data),
            Op::WarpReduceAnd => self.warp_reduce(Helper::WarpReduceAnd, data),
            Op::WarpReduceOr => self.warp_reduce(Helper::WarpReduceOr, data),
            Op::WarpReduceXor => self.warp_reduce(Helper::WarpReduceXor, data),
            Op::Clock => self.text("uint64(clock64())"),
            Op::Nanosleep => self.predicate("__nanosleep(", data, ")"),
            Op::DynamicShared => self.shared_view(data),
            Op::MmaLoadA => self.fragment(Helper::MmaLoadA, data),
            Op::MmaLoadB => self.fragment(Helper::MmaLoadB, data),
            Op::MmaLoadC => self.fragment(Helper::MmaLoadC, data),
            Op::MmaStore => self.fragment(Helper::MmaStore, data),
            Op::Mma => self.product(data),
            Op::AsyncCopy => self.async_copy(inst, data),
            Op::AsyncCommit => self.async_commit(),
            Op::AsyncWait => self.async_wait(data),
            _ => self.unsupported(data),
        }
    }

    fn named_barrier(&mut self, data: &InstData) {
        let Imm::Barrier(barrier) = data.imm else { return };
        self.unit.need(Helper::NamedBarrier);
        let _ = write!(self.out, "named_barrier<{}, {}>()", barrier.id, barrier.count);
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn predicate(&mut self, begin: &str, data: &InstData, end: &str) {
        self.text(begin);
        self.list(&data.operands);
        self.text(end);
    }

    fn warp_reduce(&mut self, helper: Helper, data: &InstData) {
        let Type::Composite(composite) = self.func.ty(data.operands[0]) else {
            self.call(helper, &data.operands);
            return;
        };
        self.unit.need_for(helper, composite.elem());
        self.unit.need(Helper::Components);
        self.text("components(");
        self.whole(data.operands[0]);
        let _ = write!(self.out, ", [](auto x) {{ return {}(x); }})", helper.name());
    }

    fn shuffle(&mut self, name: &str, way: Helper, data: &InstData) {
        let ty = self.func.ty(data.operands[0]);
        let is_native = matches!(
            ty.as_scalar(),
            Some(Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 | Scalar::F32 | Scalar::F64)
        );
        if is_native {
            let _ = write!(self.out, "{name}({ALL}, ");
        } else {
            self.unit.need(Helper::Shuffle);
            self.unit.need(way);
            let _ = write!(self.out, "shuffle<{}>(", way.name());
        }
        self.whole(data.operands[0]);
        self.text(", ");
        self.value(data.operands[1], Precedence::Any);
        if let Imm::Width(width) = data.imm
            && width != 32
        {
            let _ = write!(self.out, ", {width}");
        }
        self.text(")");
    }

    // ---- shared memory ---------------------------------------------------------------------------------------------

    /// The static shared array that a value is.
    pub(super) fn shared_array(&self, value: Value) -> Option<&SharedArray> {
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return None };
        match &self.func.insts[inst].imm {
            Imm::Shared(array) => Some(array),
            _ => None,
        }
    }

    /// The declaration of a static shared array. Of one that several instructions name, the first declares it.
    pub(super) fn declare_shared(&mut self, inst: Inst, data: &InstData) {
        if self.unit.target() != TextTarget::Cuda {
            self.gpu(inst, data);
            return;
        }
        let (Imm::Shared(array), Some(&result)) = (&data.imm, data.results.first()) else { return };
        let (Some((elem, _)), Some(variable)) = (self.func.ty(result).as_any_array(), self.variables.of(result)) else {
            return;
        };
        let name = self.variables.all[variable].name.clone();
        let first = self.first_of_shared(array.id).filter(|&first| first != inst);
        if let Some(earlier) = first.and_then(|first| self.variables.of(*self.func.insts[first].results.first()?)) {
            let earlier = self.variables.all[earlier].name.clone();
            self.line(&format!("auto &{name} = {earlier};"));
            return;
        }
        let ty = self.unit.type_name(elem);
        let extents: String = array.extents.iter().map(|extent| format!("[{extent}]")).collect();
        let natural = elem.as_composite().map_or_else(|| elem.as_scalar(), |c| Some(c.elem())).map_or(1, Scalar::bytes);
        let align = if array.align > natural { format!("__align__({}) ", array.align) } else { String::new() };
        let unused = if self.is_only_stored(array.id) { "[[maybe_unused]] " } else { "" };
        self.line(&format!("{unused}__shared__ {align}{ty} {name}{extents};"));
    }

    /// Returns true if nothing reads a static shared array, of which compilers would warn.
    fn is_only_stored(&self, id: u32) -> bool {
        let mut is_read = false;
        self.func.walk(self.func.body, &mut |_, data| {
            let read = if data.op == Op::ArrayStore { &data.operands[1..] } else { &data.operands[..] };
            is_read |= read.iter().any(|&value| self.shared_array(value).is_some_and(|array| array.id == id));
        });
        !is_read
    }

    fn first_of_shared(&self, id: u32) -> Option<Inst> {
        let mut first = None;
        self.func.walk(self.func.body, &mut |inst, data| {
            if matches!(&data.imm, Imm::Shared(array) if array.id == id) && first.is_none() {
                first = Some(inst);
            }
        });
        first
    }

    /// A view of dynamic shared memory.
    fn shared_view(&mut self, data: &InstData) {
        let Some(&result) = data.results.first() else { return };
        self.unit.need(Helper::SharedView);
        self.unit.need(Helper::DynamicShared);
        let ty = self.unit.type_name(self.func.ty(result));
        let _ = write!(self.out, "shared_view<{ty}>(dynamic_shared + ");
        self.value(data.operands[0], Precedence::Product);
        for &extent in &data.operands[1..] {
            self.text(", ");
            self.value(extent, Precedence::Any);
        }
        self.component_extents(result);
        self.text(")");
    }

    /// A static shared array where a view is wanted: as an argument.
    pub(super) fn static_view(&mut self, value: Value) {
        let (Some(array), Some(variable)) = (self.shared_array(value).cloned(), self.variables.of(value)) else {
            return;
        };
        self.unit.need(Helper::SharedView);
        let ty = self.unit.type_name(self.func.ty(value));
        let _ = write!(self.out, "shared_view<{ty}>({}", self.variables.all[variable].name);
        for extent in array.extents {
            let _ = write!(self.out, ", {extent}");
        }
        self.component_extents(value);
        self.text(")");
    }

    fn component_extents(&mut self, array: Value) {
        if let Some((Type::Composite(composite), _)) = self.func.ty(array).as_any_array() {
            for extent in composite.shape() {
                let _ = write!(self.out, ", {extent}");
            }
        }
    }

    /// Fences that give an atomic update an order beyond the element: before it or behind it.
    pub(super) fn atomic_fence(&mut self, data: &InstData, is_before: bool) {
        let Imm::Memory(order) = data.imm else { return };
        let orders = match order.ordering {
            AtomicOrdering::Relaxed => false,
            AtomicOrdering::Acquire => !is_before,
            AtomicOrdering::Release => is_before,
            AtomicOrdering::AcqRel | AtomicOrdering::SeqCst => true,
        };
        if orders && data.op != Op::ThreadFence && self.unit.target() == TextTarget::Cuda {
            self.start();
            self.text(fence(order.scope));
            self.end();
        }
    }
}

fn fence(scope: MemoryScope) -> &'static str {
    match scope {
        MemoryScope::Thread => "asm volatile(\"\" ::: \"memory\")",
        MemoryScope::Block => "__threadfence_block()",
        MemoryScope::Device => "__threadfence()",
        MemoryScope::System => "__threadfence_system()",
    }
}
