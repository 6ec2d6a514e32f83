//! Splitting for readers: what is written otherwise where the result becomes text rather than code.
//!
//! The loops are the same. Loops over threads count what the user's code calls them, a thread that leaves goes on with
//! the next one, and what text has a phrase for, `dim.index(first_thread + t, 0)`, is the call of a function: it
//! computes the same and [`BlockPlan::phrases`] says which it is. Extents of blocks that the kernel gives are
//! constants.

use super::phrases::TextPhrases;
use super::{BlockSplitter, EmitScope, SplitFailure, ThreadContext, ThreadLevel, is_prepared, split};
use crate::transform::{dce, fold, normalize_indices};
use polyloom_ir::arch::WARP_SIZE;
use polyloom_ir::block_plan::{BlockParam, BlockPlan};
use polyloom_ir::{Builder, CallEffects, FuncId, Imm, Module, Op, Scalar, Span, Type, Value};

/// Splits a kernel that is launched in blocks, with composites taken apart and calls left that are of pure functions,
/// for text. Back ends get kernels by [`super::split_blocks`].
///
/// # Errors
///
/// Why it cannot be split.
pub fn split_for_text(module: &mut Module, kernel: FuncId) -> Result<BlockPlan, SplitFailure> {
    let func = &module.functions[kernel];
    if !is_prepared(module, func) {
        let reason = "it calls a function that does more than compute, and that is too large to be part of it";
        return Err(SplitFailure { reason, span: func.span });
    }
    let (phrases, all) = TextPhrases::add(module);
    normalize_indices::wrap_indices(&mut module.functions[kernel], &mut |func, place| {
        let mut builder = Builder::new(func);
        builder.switch_to(place.region);
        builder.set_span(place.span);
        let index = builder.cast(place.index, Scalar::I64);
        let extent = builder.dim(place.array, place.axis);
        let extent = builder.cast(extent, Scalar::I64);
        builder.call(phrases.wrap, &[index, extent], &[Type::Scalar(Scalar::I64)])[0]
    });
    let func = &module.functions[kernel];
    let block = func.metadata.workgroup_size;
    let (func, plan) = split(module, func, block, false, Some(phrases))
        .or_else(|_| split(module, func, block, true, Some(phrases)))?;
    module.functions[kernel] = func;
    let calls = CallEffects::of(module, kernel);
    let func = &mut module.functions[kernel];
    fold::fold(func);
    dce::dce(func, &calls);
    debug_assert_eq!(polyloom_ir::verify_function(func, None), Ok(()), "split HIR is valid");
    Ok(BlockPlan { phrases: all, ..plan })
}

impl BlockSplitter<'_> {
    /// Names values as text calls them; the user's names come over these.
    pub(super) fn call_in_text(&mut self, names: &[(Value, &str)]) {
        if self.text.is_some() {
            for &(value, name) in names {
                self.emit.func.value_names[value] = Some(name.into());
            }
        }
    }

    /// Marks that the code to come is of no line of the source.
    pub(super) fn forget_line(&mut self) {
        if self.text.is_some() {
            self.emit.span = Span::NONE;
        }
    }

    /// Returns which threads there are, in text.
    pub(super) fn text_prologue(&mut self) -> EmitScope {
        self.forget_line();
        let number = self.emit.value_with(Op::Tid, &[], Type::I32, Imm::Axis(0));
        let number = self.emit.cast(number, Scalar::I64);
        let [x, y, z] = [0, 1, 2].map(|axis| self.block_extent(axis));
        let rows = self.emit.op(Op::Mul, &[y, z]);
        let size = self.emit.op(Op::Mul, &[x, rows]);
        let size = self.emit.cast(size, Scalar::I64);
        if self.block.is_none() {
            self.call_in_text(&[(size, "block_size")]);
        }
        self.first = self.emit.op(Op::Mul, &[number, size]);
        let n_launched = self.scalar_param(BlockParam::Threads);
        let n_launched = self.emit.cast(n_launched, Scalar::I64);
        let rest = self.emit.op(Op::Sub, &[n_launched, self.first]);
        let zero = self.emit.constant(Scalar::I64, 0);
        let within = self.emit.op(Op::Min, &[rest, size]);
        let count = self.emit.op(Op::Max, &[within, zero]);
        self.n_threads = self.emit.cast(count, Scalar::I32);
        self.call_in_text(&[(self.first, "first_thread"), (self.n_threads, "n_threads")]);
        let base = self.emit.int(0);
        let none = self.emit.compare(Op::Eq, self.n_threads, base);
        self.emit.leave_if(none, |emit| {
            emit.inst(Op::Return, &[], &[], Imm::None);
        });
        let n_warps = self.count_warps();
        self.call_in_text(&[(n_warps, "n_warps")]);
        self.n_warps = Some(n_warps);
        let one = self.emit.int(1);
        self.is_flat = self.emit.compare(Op::Eq, rows, one);
        EmitScope { level: ThreadLevel::Block, base, count: self.n_threads, warp: None }
    }

    /// The threads of a block along an axis.
    pub(super) fn block_extent(&mut self, axis: u8) -> Value {
        match (&self.text, self.block) {
            (None, _) => self.scalar_param(BlockParam::BlockExtent(axis)),
            (Some(_), Some(block)) => self.emit.int(block.get(usize::from(axis)).copied().unwrap_or(1)),
            (Some(_), None) => self.emit.value_with(Op::BlockDim, &[], Type::I32, Imm::Axis(axis)),
        }
    }

    /// Times or by the threads of a warp: shifted, in code.
    pub(super) fn by_warp_size(&mut self, op: Op, value: Value) -> Value {
        let size = self.emit.int(WARP_SIZE);
        let shift = self.emit.int(WARP_SIZE.trailing_zeros());
        match op {
            _ if self.text.is_some() => self.emit.op(op, &[value, size]),
            Op::Mul => self.emit.op(Op::Lshift, &[value, shift]),
            _ => self.emit.op(Op::Rshift, &[value, shift]),
        }
    }

    /// Returns where a thread is, as text says it; `None` where that is as code does.
    pub(super) fn text_index(&mut self, at: &ThreadContext, op: Op, axis: u8) -> Option<Value> {
        let phrases = self.text?;
        match op {
            Op::Tid | Op::TidLinear => {
                let thread = self.emit.cast(at.thread, Scalar::I64);
                let number = self.emit.op(Op::Add, &[self.first, thread]);
                if op == Op::TidLinear {
                    return Some(self.emit.cast(number, Scalar::I32));
                }
                let inner = self.scalar_param(BlockParam::InnerThreads(axis));
                let extent = self.scalar_param(BlockParam::LaunchExtent(axis));
                Some(self.phrase(phrases.thread, axis, &[number, inner, extent]))
            }
            Op::BlockIdx => {
                let number = self.emit.value_with(Op::Tid, &[], Type::I32, Imm::Axis(0));
                let [x, y] = [0, 1].map(|axis| self.scalar_param(BlockParam::GridExtent(axis)));
                Some(self.phrase(phrases.block, axis, &[number, x, y]))
            }
            Op::GridDim => Some(self.emit.value_with(Op::GridDim, &[], Type::I32, Imm::Axis(axis))),
            _ => None,
        }
    }

    fn phrase(&mut self, first: FuncId, axis: u8, operands: &[Value]) -> Value {
        let callee = FuncId::from_u32(first.as_u32() + u32::from(axis));
        self.emit.value_with(Op::Call, operands, Type::I32, Imm::Func(callee))
    }
}
