//! Blocks, warps and shared memory.
//!
//! All intrinsics are looked up under the names LLVM 22 knows: older ones would become calls of functions that do not
//! exist. Warp operations name all 32 lanes; those that have exited take no part in them.

use crate::ir::*;
use crate::lower::{ArrayArg, FunctionLowering, Result, ValueRep, alias_scope};
use polyloom_codegen::{ArrayFacts, CodegenError};
use polyloom_ir::arch::WARP_SIZE;
use polyloom_ir::function::{MemoryScope, NamedBarrier};
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Imm, Inst, Op, Scalar, Type};
use smallvec::SmallVec;

/// Holds what dynamic shared memory begins at a multiple of.
const DYNAMIC_ALIGN: u32 = 16;

const AXES: [&str; 3] = ["x", "y", "z"];

/// Reads a special register of 32 bits.
pub(super) fn special(ir: &IrEmitter<'_>, name: &str) -> Val {
    ir.intrinsic(&format!("llvm.nvvm.read.ptx.sreg.{name}"), &[], &[])
}

/// Returns the linear number of a coordinate in extents, x first.
pub(super) fn row_major(ir: &IrEmitter<'_>, coordinate: &str, extent: &str) -> Val {
    let at = |register: &str, axis: usize| special(ir, &format!("{register}.{}", AXES[axis]));
    let inner = ir.add(ir.mul(at(coordinate, 2), at(extent, 1)), at(coordinate, 1));
    ir.add(ir.mul(inner, at(extent, 0)), at(coordinate, 0))
}

impl FunctionLowering<'_, '_> {
    /// Lowers an op of blocks and warps. `None` if it gives nothing.
    pub(crate) fn gpu(&mut self, inst: Inst) -> Result<Option<ValueRep>> {
        let ir = self.ir;
        let func = self.func;
        let data = &func.insts[inst];
        debug_assert_eq!(data.op.info().group, OpGroup::Gpu);
        let mut operands: SmallVec<[Val; 4]> = SmallVec::new();
        for &operand in &data.operands {
            match self.rep(operand)? {
                ValueRep::Uniform(value) => operands.push(value),
                _ => return Err(self.unsupported(inst)),
            }
        }
        let elem = data.operands.first().and_then(|&value| func.ty(value).as_scalar());
        let call = |name: &str, args: &[Val]| ir.intrinsic(name, &[], args);
        let at_axis = |register: &str| match data.imm {
            Imm::Axis(axis) if usize::from(axis) < AXES.len() => {
                Ok(special(ir, &format!("{register}.{}", AXES[usize::from(axis)])))
            }
            _ => Err(self.unsupported(inst)),
        };
        let barrier = ir.int_const(ir.int(32), 0);
        let full = ir.ones(ir.int(32));
        let value = match (data.op, &operands[..]) {
            (Op::ThreadIdx, _) => at_axis("tid")?,
            (Op::BlockIdx, _) => at_axis("ctaid")?,
            (Op::BlockDim, _) => at_axis("ntid")?,
            (Op::GridDim, _) => at_axis("nctaid")?,
            (Op::LaneId, _) => special(ir, "laneid"),
            (Op::WarpId, _) => ir.lshr(row_major(ir, "tid", "ntid"), ir.int_const(ir.int(32), 5)),
            (Op::SharedArray, _) => return self.shared_array(inst).map(Some),
            (Op::DynamicShared, _) => return self.dynamic_shared(inst, &operands).map(Some),
            (Op::SyncThreads, _) => {
                call("llvm.nvvm.barrier.cta.sync.aligned.all", &[barrier]);
                return Ok(None);
            }
            (Op::NamedBarrier, _) => {
                let Imm::Barrier(NamedBarrier { id, count }) = data.imm else { return Err(self.unsupported(inst)) };
                let number = |number: u16| ir.int_const(ir.int(32), number.into());
                call("llvm.nvvm.barrier.cta.sync.aligned.count", &[number(id.into()), number(count)]);
                return Ok(None);
            }
            (Op::SyncThreadsAnd, &[p]) => call("llvm.nvvm.barrier.cta.red.and.aligned.all", &[barrier, p]),
            (Op::SyncThreadsOr, &[p]) => call("llvm.nvvm.barrier.cta.red.or.aligned.all", &[barrier, p]),
            (Op::SyncThreadsCount, &[p]) => call("llvm.nvvm.barrier.cta.red.popc.aligned.all", &[barrier, p]),
            (Op::ThreadFence, _) => {
                match data.imm {
                    Imm::Memory(order) => fence(ir, order.scope),
                    _ => return Err(self.unsupported(inst)),
                }
                return Ok(None);
            }
            (Op::SyncWarp, masks) => {
                call("llvm.nvvm.bar.warp.sync", &[masks.first().copied().unwrap_or(full)]);
                return Ok(None);
            }
            (Op::Shuffle | Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor, &[value, by]) => {
                let Imm::Width(width) = data.imm else { return Err(self.unsupported(inst)) };
                self.shuffle(data.op, value, by, width.into())
            }
            (Op::Ballot, &[p]) => call("llvm.nvvm.vote.ballot.sync", &[full, p]),
            (Op::WarpAny, &[p]) => call("llvm.nvvm.vote.any.sync", &[full, p]),
            (Op::WarpAll, &[p]) => call("llvm.nvvm.vote.all.sync", &[full, p]),
            (Op::MatchAny, &[value]) => {
                let (bits, width) = self.match_bits(value);
                call(&format!("llvm.nvvm.match.any.sync.i{width}"), &[full, bits])
            }
            (Op::MatchAll, &[value]) => {
                let (bits, width) = self.match_bits(value);
                ir.extract_field(call(&format!("llvm.nvvm.match.all.sync.i{width}p"), &[full, bits]), 0)
            }
            (op, &[value]) if op.info().reduces_by().is_some() => match elem {
                Some(elem) => self.warp_reduce(op, elem, value)?,
                None => return Err(self.unsupported(inst)),
            },
            (Op::AsyncCommit, _) => {
                call("llvm.nvvm.cp.async.commit.group", &[]);
                return Ok(None);
            }
            (Op::AsyncWait, _) => {
                let Imm::Pending(pending) = data.imm else { return Err(self.unsupported(inst)) };
                call("llvm.nvvm.cp.async.wait.group", &[ir.int_const(ir.int(32), pending.into())]);
                return Ok(None);
            }
            (Op::Clock, _) => call("llvm.nvvm.read.ptx.sreg.clock64", &[]),
            (Op::Nanosleep, &[duration]) => {
                call("llvm.nvvm.nanosleep", &[duration]);
                return Ok(None);
            }
            _ => return Err(self.unsupported(inst)),
        };
        Ok(Some(ValueRep::Uniform(value)))
    }

    /// A static array: a variable of the module in shared memory. Instructions of one number are one variable.
    fn shared_array(&mut self, inst: Inst) -> Result<ValueRep> {
        let ir = self.ir;
        let data = &self.func.insts[inst];
        let (Imm::Shared(array), Some(Type::Array { elem, .. })) =
            (&data.imm, data.results.first().map(|&result| self.func.ty(result)))
        else {
            return Err(self.unsupported(inst));
        };
        let bytes = array.bytes(elem.bytes());
        let align = array.align.max(elem.bytes());
        // Names it as the source does, because reports of the simulator and debuggers show that.
        let name = data.results.first().and_then(|&result| self.func.value_names[result].as_deref());
        let pointer = ir.shared_variable(&array.symbol(name), bytes, align);
        let extents = array.extents.iter().map(|&extent| ir.i64_const(extent.into())).collect();
        let strides: Vec<i64> = dense_strides(elem, &array.extents);
        Ok(self.add_array(ArrayArg {
            elem,
            pointer,
            extents,
            strides: strides.iter().map(|&bytes| ir.i64_const(bytes)).collect(),
            known_strides: strides.iter().map(|&bytes| Some(bytes)).collect(),
            copies: None,
            facts: ArrayFacts { contiguous: true, offsets_fit_i32: true, ..ArrayFacts::default() },
            scope: ir.meta_node(&[alias_scope(ir, &format!("shared {}", array.id))]),
            no_alias: None,
        }))
    }

    /// A view of the shared memory that a launch asks for.
    fn dynamic_shared(&mut self, inst: Inst, operands: &[Val]) -> Result<ValueRep> {
        let ir = self.ir;
        let data = &self.func.insts[inst];
        let (Some(Type::Array { elem, .. }), Some((&offset, extents))) =
            (data.results.first().map(|&result| self.func.ty(result)), operands.split_first())
        else {
            return Err(self.unsupported(inst));
        };
        let wide = ir.int(64);
        let all = ir.shared_variable("dynamic_shared", 0, DYNAMIC_ALIGN);
        let pointer = ir.offset(ir.int(8), all, ir.sext(offset, wide));
        let extents: SmallVec<[Val; 4]> = extents.iter().map(|&extent| ir.sext(extent, wide)).collect();
        let mut strides: SmallVec<[Val; 4]> = SmallVec::new();
        let mut stride = ir.i64_const(elem.bytes().into());
        for &extent in extents.iter().rev() {
            strides.insert(0, stride);
            stride = ir.mul(stride, extent);
        }
        // The stride along an axis is known where the extents after it are.
        let known = |axis: usize| {
            let after = data.operands.iter().skip(axis + 2);
            after
                .map(|&extent| self.func.as_const(extent))
                .try_fold(i64::from(elem.bytes()), |stride, extent| stride.checked_mul(i64::try_from(extent?).ok()?))
        };
        Ok(self.add_array(ArrayArg {
            elem,
            pointer,
            known_strides: (0..extents.len()).map(known).collect(),
            extents,
            strides,
            copies: None,
            facts: ArrayFacts { contiguous: true, offsets_fit_i32: true, ..ArrayFacts::default() },
            scope: ir.meta_node(&[alias_scope(ir, "dynamic shared")]),
            no_alias: None,
        }))
    }

    /// `shfl.sync` of a value of up to 8 bytes. Its last operand holds the group's width and the clamp: PTX ISA 9.0
    /// §9.7.9.6.
    fn shuffle(&self, op: Op, value: Val, by: Val, width: u32) -> Val {
        let ir = self.ir;
        let word = ir.int(32);
        let name = match op {
            Op::Shuffle => "llvm.nvvm.shfl.sync.idx.i32",
            Op::ShuffleUp => "llvm.nvvm.shfl.sync.up.i32",
            Op::ShuffleDown => "llvm.nvvm.shfl.sync.down.i32",
            _ => "llvm.nvvm.shfl.sync.bfly.i32",
        };
        let clamp = (WARP_SIZE - width) << 8 | if op == Op::ShuffleUp { 0 } else { WARP_SIZE - 1 };
        let clamp = ir.int_const(word, clamp.into());
        let full = ir.ones(word);
        self.by_words(value, |bits| ir.intrinsic(name, &[], &[full, bits, by, clamp]))
    }

    /// Applies what works on 32 bits to a value of any width, word by word.
    fn by_words(&self, value: Val, each: impl Fn(Val) -> Val) -> Val {
        let ir = self.ir;
        let (word, wide) = (ir.int(32), ir.int(64));
        let (bits, n_bits) = self.bits_of(value);
        let result = match n_bits {
            64 => {
                let low = each(ir.trunc(bits, word));
                let high = each(ir.trunc(ir.lshr(bits, ir.i64_const(32)), word));
                ir.or(ir.zext(low, wide), ir.shl(ir.zext(high, wide), ir.i64_const(32)))
            }
            _ => ir.int_cast(each(ir.int_cast(bits, word)), ir.int(n_bits)),
        };
        ir.bitcast(result, ir.type_of(value))
    }

    /// A scalar's bits as an integer, and how many they are.
    fn bits_of(&self, value: Val) -> (Val, u32) {
        let ir = self.ir;
        let ty = ir.type_of(value);
        let n_bits = match () {
            () if ty == ir.f64() => 64,
            () if ty == ir.f32() => 32,
            () => ir.int_width(ty),
        };
        (ir.bitcast(value, ir.int(n_bits)), n_bits)
    }

    /// Returns what `match.sync` compares: 32 or 64 bits.
    fn match_bits(&self, value: Val) -> (Val, u32) {
        let (bits, n_bits) = self.bits_of(value);
        let width = if n_bits == 64 { 64 } else { 32 };
        (self.ir.int_cast(bits, self.ir.int(width)), width)
    }

    /// A value combined over the lanes of the warp that have not exited.
    fn warp_reduce(&mut self, op: Op, elem: Scalar, value: Val) -> Result<Val> {
        let ir = self.ir;
        let word = ir.int(32);
        if let Some(name) = self.redux(op, elem) {
            return Ok(ir.intrinsic(name, &[], &[value, ir.ones(word)]));
        }
        let live = ir.intrinsic("llvm.nvvm.vote.ballot.sync", &[], &[ir.ones(word), ir.bool_const(true)]);
        if !self.may_lose_lanes() {
            return self.reduce_tree(op, elem, value, live);
        }
        // Otherwise a tree, with gaps among the lanes, would leave some out.
        let (tree, in_turn, done) = (ir.block(c"tree"), ir.block(c"in_turn"), ir.block(c"reduced"));
        let no_gaps = ir.icmp(EQ, ir.and(live, ir.add(live, ir.int_const(word, 1))), ir.zero(word));
        ir.cond_br(no_gaps, tree, in_turn);
        ir.switch_to(tree);
        let by_tree = self.reduce_tree(op, elem, value, live)?;
        let tree_end = ir.current();
        ir.br(done);
        ir.switch_to(in_turn);
        let by_turns = self.reduce_in_turn(op, elem, value, live)?;
        let turns_end = ir.current();
        ir.br(done);
        ir.switch_to(done);
        let result = ir.phi(ir.type_of(value));
        ir.add_incoming(result, by_tree, tree_end);
        ir.add_incoming(result, by_turns, turns_end);
        Ok(result)
    }

    /// Each lane takes in the value of the lane half as far behind as before; lane 0 then has all.
    fn reduce_tree(&mut self, op: Op, elem: Scalar, value: Val, live: Val) -> Result<Val> {
        let ir = self.ir;
        let word = ir.int(32);
        let lane = special(ir, "laneid");
        let mut total = value;
        for distance in [16, 8, 4, 2, 1] {
            let by = ir.int_const(word, distance);
            let other = self.shuffle(Op::ShuffleDown, total, by, WARP_SIZE);
            // The shift is in 64 bits, where no lane past 31 lives, because a lane's number and the distance make up
            // to 47.
            let source = ir.zext(ir.add(lane, by), ir.int(64));
            let bit = ir.and(ir.lshr(ir.zext(live, ir.int(64)), source), ir.i64_const(1));
            let is_live = ir.icmp(NE, bit, ir.i64_const(0));
            let combined = self.combine_lanes(op, elem, total, other)?;
            total = ir.select(is_live, combined, total);
        }
        Ok(self.shuffle(Op::Shuffle, total, ir.zero(word), WARP_SIZE))
    }

    /// The lanes' values one after the other.
    fn reduce_in_turn(&mut self, op: Op, elem: Scalar, value: Val, live: Val) -> Result<Val> {
        let ir = self.ir;
        let word = ir.int(32);
        let lowest = |mask| ir.intrinsic("llvm.cttz", &[word], &[mask, ir.bool_const(true)]);
        let without_lowest = |mask| ir.and(mask, ir.sub(mask, ir.int_const(word, 1)));
        let first = self.shuffle(Op::Shuffle, value, lowest(live), WARP_SIZE);
        let rest = without_lowest(live);
        let (from, each, done) = (ir.current(), ir.block(c"each_lane"), ir.block(c"all_lanes"));
        let ty = ir.type_of(value);
        ir.cond_br(ir.icmp(NE, rest, ir.zero(word)), each, done);
        ir.switch_to(each);
        let (left, sum) = (ir.phi(word), ir.phi(ty));
        ir.add_incoming(left, rest, from);
        ir.add_incoming(sum, first, from);
        let other = self.shuffle(Op::Shuffle, value, lowest(left), WARP_SIZE);
        let combined = self.combine_lanes(op, elem, sum, other)?;
        let next = without_lowest(left);
        let end = ir.current();
        ir.add_incoming(left, next, end);
        ir.add_incoming(sum, combined, end);
        ir.cond_br(ir.icmp(NE, next, ir.zero(word)), each, done);
        ir.switch_to(done);
        let result = ir.phi(ty);
        ir.add_incoming(result, first, from);
        ir.add_incoming(result, combined, end);
        Ok(result)
    }

    fn combine_lanes(&mut self, op: Op, elem: Scalar, a: Val, b: Val) -> Result<Val> {
        let unknown = || CodegenError::new(format!("internal error: no arithmetic for `{}`", op.name()));
        let with = op.info().reduces_by().ok_or_else(unknown)?;
        let wide = if elem.is_half() { Scalar::F32 } else { elem };
        let [a, b] = [a, b].map(|x| crate::lower::cast::cast(&self.arith, x, elem, wide));
        let result = self.arith.emit(with, wide, wide, &[a, b]).ok_or_else(unknown)?;
        Ok(crate::lower::cast::cast(&self.arith, result, wide, elem))
    }

    /// The instruction that reduces 32-bit integers, from sm_80 on.
    fn redux(&self, op: Op, elem: Scalar) -> Option<&'static str> {
        if !matches!(elem, Scalar::I32 | Scalar::U32) || self.arith.processor.gpu_number().is_none_or(|n| n < 80) {
            return None;
        }
        Some(match (op, elem) {
            (Op::WarpReduceAdd, _) => "llvm.nvvm.redux.sync.add",
            (Op::WarpReduceMin, Scalar::I32) => "llvm.nvvm.redux.sync.min",
            (Op::WarpReduceMin, _) => "llvm.nvvm.redux.sync.umin",
            (Op::WarpReduceMax, Scalar::I32) => "llvm.nvvm.redux.sync.max",
            (Op::WarpReduceMax, _) => "llvm.nvvm.redux.sync.umax",
            (Op::WarpReduceAnd, _) => "llvm.nvvm.redux.sync.and",
            (Op::WarpReduceOr, _) => "llvm.nvvm.redux.sync.or",
            (Op::WarpReduceXor, _) => "llvm.nvvm.redux.sync.xor",
            _ => return None,
        })
    }

    /// Returns true if lanes may have exited that others follow: only those past the end of the launch have, otherwise.
    fn may_lose_lanes(&self) -> bool {
        let mut n_returns = 0;
        self.func.walk(self.func.body, &mut |_, data| n_returns += usize::from(data.op == Op::Return));
        n_returns > 1 || self.func.insts.values().any(|data| matches!(data.op, Op::Check | Op::Assert))
    }
}

/// Orders the thread's accesses for the threads of a scope.
fn fence(ir: &IrEmitter<'_>, scope: MemoryScope) {
    let name = match scope {
        MemoryScope::Thread => return,
        MemoryScope::Block => "llvm.nvvm.membar.cta",
        MemoryScope::Device => "llvm.nvvm.membar.gl",
        MemoryScope::System => "llvm.nvvm.membar.sys",
    };
    ir.intrinsic(name, &[], &[]);
}

fn dense_strides(elem: Scalar, extents: &[u32]) -> Vec<i64> {
    let mut strides = vec![i64::from(elem.bytes()); extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * i64::from(extents[axis]);
    }
    strides
}
