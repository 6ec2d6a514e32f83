//! The loop over threads around a kernel's body.
//!
//! Threads are run in row-major order. The inner loop counts along the innermost axis to the end of the row or of the
//! range, whichever comes first; the outer one, absent in launches of rank 1, moves from row to row and carries the
//! other coordinates. Only the first row's coordinates take divisions. Coordinates that the kernel never asks for are
//! not kept.

use super::control::YieldMeaning;
use super::{CraneliftLowering, INVARIANT, Lowered};
use crate::abi::{ArgLayout, LaunchContext, SiteTable};
use crate::backend::{ArgFacts, CodeVariant};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use polyloom_ir::{Imm, MAX_DIMS, Op, Span};
use smallvec::SmallVec;

/// Describes what lowering a kernel's body needs beside the body.
pub(super) struct KernelFrame<'a> {
    pub(super) args: ir::Value,
    pub(super) context: ir::Value,
    /// Holds what was loaded from the argument block so far: byte offset, type, value.
    pub(super) loaded: Vec<(i32, ir::Type, ir::Value)>,
    pub(super) layout: ArgLayout,
    pub(super) facts: &'a ArgFacts,
    /// For each parameter, whether the kernel stores to it.
    pub(super) written: Vec<bool>,
    /// Made when the first site is met.
    pub(super) sites: Option<SiteTable>,
    /// Coordinates of the current thread as `i64`, for the axes that are kept.
    coordinates: [Option<ir::Value>; MAX_DIMS],
    /// Linear index of the current row's first thread; absent in launches of rank 1.
    row_start: Option<ir::Value>,
    /// The innermost coordinate, in launches of rank 1 the linear index.
    column: ir::Value,
    /// Goes on with the next thread.
    latch: ir::Block,
}

impl<'a> CraneliftLowering<'a> {
    /// Lowers the whole kernel.
    pub(super) fn kernel(&mut self, variant: &'a CodeVariant) -> Lowered<()> {
        let rank = usize::from(variant.launch_rank);
        if !(1..=MAX_DIMS).contains(&rank) {
            return self.error(self.func.span, format!("a launch has 1 to {MAX_DIMS} dimensions, not {rank}"));
        }
        let func = self.func;
        let written = func.written_arrays();
        // The outermost axis asked for: it and those inside it are kept.
        let mut outermost = rank - 1;
        func.walk(func.body, &mut |_, data| {
            if let (Op::Tid, Imm::Axis(axis)) = (data.op, &data.imm) {
                outermost = outermost.min(usize::from(*axis));
            }
        });

        let prologue = self.builder.create_block();
        let exit = self.builder.create_block();
        self.builder.append_block_params_for_function_params(prologue);
        self.builder.switch_to_block(prologue);
        let params: SmallVec<[ir::Value; 4]> = SmallVec::from_slice(self.builder.block_params(prologue));
        let [args, context, begin, end] = params[..] else {
            return self.error(func.span, "the entry does not have four parameters");
        };
        let some = self.builder.ins().icmp(IntCC::UnsignedLessThan, begin, end);
        let first = self.builder.create_block();
        self.prologue_end = Some(self.builder.ins().brif(some, first, &[], exit, &[]));
        self.builder.switch_to_block(first);

        let body = self.builder.create_block();
        let latch = self.builder.create_block();
        let column = self.builder.append_block_param(body, types::I64);
        self.frame = Some(KernelFrame {
            args,
            context,
            loaded: Vec::new(),
            layout: ArgLayout::of(func),
            facts: &variant.facts,
            written,
            sites: None,
            coordinates: [None; MAX_DIMS],
            row_start: None,
            column,
            latch,
        });
        if rank == 1 {
            self.set_coordinate(0, column);
            self.builder.ins().jump(body, &[begin.into()]);
            self.thread(body, latch, column, end, exit)?;
        } else {
            self.rows(RowLoop { rank, outermost, begin, end, body, latch, column, exit })?;
        }
        self.builder.switch_to_block(exit);
        self.builder.ins().return_(&[]);
        Ok(())
    }

    fn set_coordinate(&mut self, axis: usize, value: ir::Value) {
        if let Some(frame) = &mut self.frame {
            frame.coordinates[axis] = Some(value);
        }
    }

    /// The body for one thread, and the step to the next in the row.
    fn thread(
        &mut self,
        body: ir::Block,
        latch: ir::Block,
        column: ir::Value,
        end: ir::Value,
        done: ir::Block,
    ) -> Lowered<()> {
        self.builder.switch_to_block(body);
        self.region(self.func.body, YieldMeaning::Invalid)?;
        self.builder.switch_to_block(latch);
        let next = self.builder.ins().iadd_imm_u(column, 1);
        let more = self.builder.ins().icmp(IntCC::UnsignedLessThan, next, end);
        self.builder.ins().brif(more, body, &[next.into()], done, &[]);
        Ok(())
    }

    /// An extent of the launch, loaded before the loops.
    fn shape(&mut self, context: ir::Value, axis: usize) -> Lowered<ir::Value> {
        let Some(end) = self.prologue_end else { return self.error(self.func.span, "a kernel without a prologue") };
        let mut cursor = FuncCursor::new(self.builder.func).at_inst(end);
        Ok(cursor.ins().load(types::I64, INVARIANT, context, LaunchContext::shape_offset(axis)))
    }

    fn rows(&mut self, rows: RowLoop) -> Lowered<()> {
        let RowLoop { rank, outermost, begin, end, body, latch, column, exit } = rows;
        let Some(frame) = &self.frame else { return self.error(self.func.span, "rows outside a kernel") };
        let context = frame.context;
        let inner = rank - 1;
        // Along axis 0 nothing wraps, so that its extent is never asked for.
        let first_extent = outermost.max(1);
        let extents: Lowered<SmallVec<[ir::Value; MAX_DIMS]>> =
            (first_extent..rank).map(|axis| self.shape(context, axis)).collect();
        let extents = extents?;
        let width = extents[inner - first_extent];

        // Coordinates of the first thread.
        let mut rest = begin;
        let mut start: SmallVec<[ir::Value; MAX_DIMS]> = SmallVec::new();
        for axis in (outermost..rank).rev() {
            if axis == 0 {
                start.push(rest);
            } else {
                let extent = extents[axis - first_extent];
                start.push(self.builder.ins().urem(rest, extent));
                if axis > outermost {
                    rest = self.builder.ins().udiv(rest, extent);
                }
            }
        }
        start.reverse();

        // Parameters of a row: its start, the column it begins at, and the coordinates of its axes from the outermost.
        let row = self.builder.create_block();
        let row_start = self.builder.append_block_param(row, types::I64);
        let first_column = self.builder.append_block_param(row, types::I64);
        for axis in outermost..inner {
            let coordinate = self.builder.append_block_param(row, types::I64);
            self.set_coordinate(axis, coordinate);
        }
        self.set_coordinate(inner, column);
        if let Some(frame) = &mut self.frame {
            frame.row_start = Some(row_start);
        }
        let first_start = self.builder.ins().isub(begin, start[inner - outermost]);
        let mut args: SmallVec<[ir::BlockArg; MAX_DIMS]> = SmallVec::new();
        args.push(first_start.into());
        args.push(start[inner - outermost].into());
        args.extend(start[..inner - outermost].iter().map(|&v| ir::BlockArg::from(v)));
        self.builder.ins().jump(row, &args);

        self.builder.switch_to_block(row);
        let left = self.builder.ins().isub(end, row_start);
        let row_end = self.builder.ins().umin(left, width);
        self.builder.ins().jump(body, &[first_column.into()]);
        let row_done = self.builder.create_block();
        self.thread(body, latch, column, row_end, row_done)?;

        self.builder.switch_to_block(row_done);
        let next_start = self.builder.ins().iadd(row_start, width);
        let more = self.builder.ins().icmp(IntCC::UnsignedLessThan, next_start, end);
        let next_row = self.builder.create_block();
        self.builder.ins().brif(more, next_row, &[], exit, &[]);
        self.builder.switch_to_block(next_row);
        let zero = self.int(types::I64, 0);
        let mut args: SmallVec<[ir::BlockArg; MAX_DIMS]> = SmallVec::new();
        let mut carry = self.int(types::I64, 1);
        for axis in (outermost..inner).rev() {
            let coordinate = self.builder.block_params(row)[2 + axis - outermost];
            let next = self.builder.ins().iadd(coordinate, carry);
            if axis == 0 {
                args.push(next.into());
                continue;
            }
            let wraps = self.builder.ins().icmp(IntCC::Equal, next, extents[axis - first_extent]);
            let wrapped = self.builder.ins().select(wraps, zero, next);
            carry = self.builder.ins().uextend(types::I64, wraps);
            args.push(wrapped.into());
        }
        args.push(zero.into());
        args.push(next_start.into());
        args.reverse();
        self.builder.ins().jump(row, &args);
        Ok(())
    }

    /// Leaves the body for the next thread.
    pub(super) fn next_thread(&mut self, span: Span) -> Lowered<()> {
        let Some(frame) = &self.frame else { return self.error(span, "a thread ends outside a kernel") };
        let latch = frame.latch;
        self.builder.ins().jump(latch, &[]);
        Ok(())
    }

    /// The thread's coordinate as `i64`; none along axes the launch does not have.
    pub(super) fn coordinate(&self, axis: u8, span: Span) -> Lowered<Option<ir::Value>> {
        match &self.frame {
            Some(frame) => Ok(frame.coordinates.get(usize::from(axis)).copied().flatten()),
            None => self.error(span, "`tid` stands outside a kernel"),
        }
    }

    /// The thread's linear index as `i64`.
    pub(super) fn linear_thread(&mut self, span: Span) -> Lowered<ir::Value> {
        let Some(frame) = &self.frame else { return self.error(span, "`tid` stands outside a kernel") };
        let (row_start, column) = (frame.row_start, frame.column);
        Ok(match row_start {
            Some(start) => self.builder.ins().iadd(start, column),
            None => column,
        })
    }
}

/// Describes what the loop over rows is built from.
struct RowLoop {
    rank: usize,
    outermost: usize,
    begin: ir::Value,
    end: ir::Value,
    body: ir::Block,
    latch: ir::Block,
    column: ir::Value,
    exit: ir::Block,
}
