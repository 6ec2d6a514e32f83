//! The loops over the threads of a launch: over rows, and in it over groups.

use super::calls::CompiledCallees;
use super::entry::{BodyUnit, GroupThread};
use super::group_loop::GroupLoop;
use super::memory::GroupAddress;
use super::prefetch;
use super::private_arrays::PrivateArray;
use super::{ExecMask, FunctionLowering, Result};
use crate::ir::*;
use polyloom_codegen::LaunchContext;
use polyloom_ir::{Function, Inst, MAX_DIMS, Op, Scalar, Value, ValueDef};
use smallvec::SmallVec;

/// Number of groups that make a row long enough for stores to be aligned in it.
const LONG_ROW: i64 = 8;

/// Bytes of a cache line.
const LINE: u64 = 64;

impl<'a, 'c> BodyUnit<'a, 'c> {
    /// The loop over rows, and in it the loop over groups. At its end, what copies hold is brought to their arrays.
    pub(super) fn emit_row_loop(
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
            self.emit_group_loop(callees, thread, begin, end, None)?;
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
        self.emit_group_loop(callees, thread, column, last_column, Some(row_start))?;
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
    fn emit_group_loop(
        &self,
        callees: &mut CompiledCallees,
        mut thread: GroupThread,
        from: Val,
        to: Val,
        row_start: Option<Val>,
    ) -> Result<()> {
        let ir = self.ir;
        thread.column = from;
        thread.linear = row_start.map_or(from, |start| ir.add(start, from));
        let first_end = self.first_group_end(callees, &thread, to)?;
        let groups = GroupLoop::begin(ir, (self.lanes, self.masked_lanes), from, first_end, to);
        thread.column = groups.first;
        thread.linear = row_start.map_or(thread.column, |start| ir.add(start, thread.column));
        groups.run(ir, |exec, bail_out| {
            if self.lanes > 1 && exec == ExecMask::Full {
                for (array, offsets) in self.streams {
                    prefetch::emit(ir, &thread, self.lanes, array, offsets);
                }
            }
            let lanes = if exec == ExecMask::Full { self.lanes } else { self.masked_lanes };
            BodyUnit { lanes, ..*self }.lower_body_copy(callees, thread, exec, bail_out)
        })
    }

    /// Returns where the first group of a long row ends so that those after it store whole cache lines. `None` if no
    /// array is known to be stored to in the order of the threads.
    fn first_group_end(&self, callees: &mut CompiledCallees, thread: &GroupThread, to: Val) -> Result<Option<Val>> {
        let ir = self.ir;
        let Some(store) = self.store_in_order() else { return Ok(None) };
        let mut lower = self.lower(callees, *thread, ExecMask::Full, None);
        let Some((elem, first)) = lower.first_stored(store)? else { return Ok(None) };
        let bytes = u64::from(self.lanes * elem.bytes()).min(LINE);
        if bytes < 16 {
            return Ok(None);
        }
        let address = ir.ptr_to_int(first, ir.int(64));
        let bytes_to_boundary = ir.and(ir.neg(address), ir.int_const(ir.int(64), bytes - 1));
        let n_threads = ir.udiv(bytes_to_boundary, ir.i64_const(elem.bytes().into()));
        let is_long = ir.icmp(SGE, ir.sub(to, thread.column), ir.i64_const(i64::from(self.lanes) * LONG_ROW));
        let is_aligned = ir.icmp(EQ, n_threads, ir.i64_const(0));
        let first_end = ir.add(thread.column, n_threads);
        Ok(Some(ir.select(ir.and(is_long, ir.not(is_aligned)), first_end, to)))
    }

    /// The first store whose indices are sums and products of coordinates and parameters.
    fn store_in_order(&self) -> Option<Inst> {
        let mut found = None;
        self.func.walk(self.func.body, &mut |inst, data| {
            if data.op == Op::ArrayStore && found.is_none() && self.lanes > 1 {
                let indices = &data.operands[1..data.operands.len() - 1];
                let is_known = indices.iter().all(|&index| is_of_coordinates(self.func, index));
                found = (is_known && self.func.param_index(data.operands[0]).is_some()).then_some(inst);
            }
        });
        found
    }
}

/// Returns true for what is computed of a thread's coordinates and parameters by additions and multiplications.
fn is_of_coordinates(func: &Function, value: Value) -> bool {
    let ValueDef::Result(inst, _) = func.values[value].def else { return func.param_index(value).is_some() };
    let data = &func.insts[inst];
    match data.op {
        Op::Tid | Op::TidLinear | Op::Const => true,
        Op::Add | Op::Sub | Op::Mul | Op::Cast => data.operands.iter().all(|&operand| is_of_coordinates(func, operand)),
        _ => false,
    }
}

impl FunctionLowering<'_, '_> {
    /// The element type of an array and where a group's first lane stores to it; `None` if the lanes' elements are no row.
    fn first_stored(&mut self, store: Inst) -> Result<Option<(Scalar, Val)>> {
        let func = self.func;
        let [array, indices @ .., _] = &func.insts[store].operands[..] else { return Ok(None) };
        let index = self.array(*array)?;
        let arg = self.array_arg(index)?;
        let (elem, is_dense) = (arg.elem, arg.known_strides.last().is_some_and(Option::is_some));
        if !is_dense {
            return Ok(None);
        }
        for &value in indices {
            self.compute(value)?;
        }
        let reps = self.reps(indices)?;
        match self.address(index, indices, &reps)? {
            GroupAddress::Row(first) => Ok(Some((elem, first))),
            _ => Ok(None),
        }
    }

    /// Computes a value from a thread's coordinates, wherever its instructions stand.
    fn compute(&mut self, value: Value) -> Result<()> {
        let func = self.func;
        let ValueDef::Result(inst, _) = func.values[value].def else { return Ok(()) };
        if self.values[value].is_some() {
            return Ok(());
        }
        for &operand in &func.insts[inst].operands {
            self.compute(operand)?;
        }
        self.lower_instruction(inst)
    }
}
