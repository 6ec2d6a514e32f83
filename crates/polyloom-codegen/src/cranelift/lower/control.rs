//! Regions: branches, loops, blocks and the terminators that leave them.
//!
//! A `for_range` never computes `counter + step` past the end: after the test at its entry it knows the distance left
//! to the end, and goes round again only while that exceeds the step. Step 1, by far the most common, needs no
//! distance: `counter + 1` cannot overflow below the end.

use super::{CraneliftLowering, Lowered, clif_type};
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, TrapCode};
use polyloom_ir::{FunctionKind, Imm, Inst, InstData, MAX_REGION_DEPTH, Op, Region, Value};
use smallvec::SmallVec;

/// Says where an enclosing loop or block is left or continued.
pub(super) struct JumpTarget {
    inst: Inst,
    /// Takes the results.
    exit: ir::Block,
    /// Takes the carried values; loops only.
    again: Option<ir::Block>,
}

/// Describes what the `yield` that ends a region means.
#[derive(Clone, Copy)]
pub(super) enum YieldMeaning {
    /// The values go to a block's parameters.
    To(ir::Block),
    /// The one value decides between a loop's body and its exit, to which the loop's carried values go.
    Condition { header: ir::Block, body: ir::Block, exit: ir::Block },
    /// A function's body does not yield.
    Invalid,
}

/// Code of a trap that verified HIR never reaches.
const UNREACHABLE: TrapCode = TrapCode::unwrap_user(1);

impl CraneliftLowering<'_> {
    /// Lowers a region into the current block. When it returns the current block is filled.
    pub(super) fn region(&mut self, region: Region, yield_to: YieldMeaning) -> Lowered<()> {
        if self.depth >= MAX_REGION_DEPTH {
            return self.error(self.func.span, format!("control flow is nested more than {MAX_REGION_DEPTH} deep"));
        }
        self.depth += 1;
        let known_addresses = self.addresses.len();
        let func = self.func;
        let mut terminated = false;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            terminated = data.op.info().is_terminator();
            match data.op {
                Op::If => self.branch(data)?,
                Op::ForRange => self.for_range(inst, data)?,
                Op::While => self.while_loop(inst, data)?,
                Op::Block => self.block(inst, data)?,
                _ if terminated => self.terminator(data, yield_to)?,
                _ => self.simple_inst(inst, data)?,
            }
            if terminated {
                break;
            }
        }
        self.addresses.truncate(known_addresses);
        self.depth -= 1;
        if terminated { Ok(()) } else { self.error(func.span, "a region has no terminator") }
    }

    fn terminator(&mut self, data: &InstData, yield_to: YieldMeaning) -> Lowered<()> {
        match (data.op, &data.imm) {
            (Op::Yield, _) => match yield_to {
                YieldMeaning::To(block) => {
                    let args = self.block_args(&data.operands)?;
                    self.builder.ins().jump(block, &args);
                    Ok(())
                }
                YieldMeaning::Condition { header, body, exit } => {
                    let cond = self.operand(data, 0)?;
                    let cond = self.value(cond)?;
                    let carried: SmallVec<[ir::BlockArg; 4]> =
                        self.builder.block_params(header).iter().map(|&v| v.into()).collect();
                    self.branch_away(cond, body, exit, &carried);
                    Ok(())
                }
                YieldMeaning::Invalid => self.error(data.span, "`yield` ends a function"),
            },
            (Op::Break, Imm::Target(target)) => {
                let args = self.block_args(&data.operands)?;
                let exit = self.targets.iter().rev().find(|t| t.inst == *target).map(|t| t.exit);
                let Some(exit) = exit else { return self.error(data.span, "`break` leaves nothing around it") };
                self.builder.ins().jump(exit, &args);
                Ok(())
            }
            (Op::Continue, Imm::Target(target)) => {
                let args = self.block_args(&data.operands)?;
                let again = self.targets.iter().rev().find(|t| t.inst == *target).and_then(|t| t.again);
                let Some(again) = again else { return self.error(data.span, "`continue` names no loop around it") };
                self.builder.ins().jump(again, &args);
                Ok(())
            }
            (Op::Return, _) => {
                if self.func.kind == FunctionKind::Kernel {
                    return self.next_thread(data.span);
                }
                let values = self.value_list(&data.operands)?;
                self.builder.ins().return_(&values);
                Ok(())
            }
            (Op::Unreachable, _) => {
                self.builder.ins().trap(UNREACHABLE);
                Ok(())
            }
            _ => self.error(data.span, format!("`{}` names no target", data.op.name())),
        }
    }

    /// A branch that stays inside the loops around it if `cond` holds and leaves some of them, with `args`, otherwise.
    ///
    /// Cranelift moves invariant code out of the loops it is in while it walks the dominator tree, second successors
    /// before first, and forgets the loops it leaves on the way, so that what leaves must come last.
    pub(super) fn branch_away(&mut self, cond: ir::Value, stay: ir::Block, leave: ir::Block, args: &[ir::BlockArg]) {
        let zero = self.int(ir::types::I8, 0);
        let leaves = self.builder.ins().icmp(IntCC::Equal, cond, zero);
        self.builder.ins().brif(leaves, leave, args, stay, &[]);
    }

    fn owned_region(&self, data: &InstData, index: usize) -> Lowered<Region> {
        match data.regions.get(index) {
            Some(&region) => Ok(region),
            None => self.error(data.span, format!("`{}` lacks a region", data.op.name())),
        }
    }

    /// A block with one parameter per result of `data`.
    fn result_block(&mut self, data: &InstData) -> Lowered<ir::Block> {
        let block = self.builder.create_block();
        let types = self.value_types(&data.results);
        self.block_params(block, types, data.span)?;
        Ok(block)
    }

    /// Goes on in `block`, whose parameters are the results of `data`.
    fn enter_results(&mut self, data: &InstData, block: ir::Block) {
        self.builder.switch_to_block(block);
        self.set_to_params(&data.results, block, 0);
    }

    /// The values yielded by a region that does nothing else.
    fn only_yields(&self, region: Region) -> Option<&[Value]> {
        let [inst] = self.func.regions[region].insts[..] else { return None };
        let data = &self.func.insts[inst];
        (data.op == Op::Yield).then_some(&data.operands[..])
    }

    pub(super) fn branch(&mut self, data: &InstData) -> Lowered<()> {
        let cond = self.operand(data, 0)?;
        let cond = self.value(cond)?;
        let regions = [self.owned_region(data, 0)?, self.owned_region(data, 1)?];
        let merge = self.result_block(data)?;
        // A region that only yields needs no block, so that the branch goes straight to what follows.
        let mut blocks = [merge; 2];
        let mut args = [SmallVec::<[ir::BlockArg; 4]>::new(), SmallVec::new()];
        for (side, &region) in regions.iter().enumerate() {
            match self.only_yields(region).map(SmallVec::<[Value; 4]>::from_slice) {
                Some(values) => args[side] = self.block_args(&values)?,
                None => blocks[side] = self.builder.create_block(),
            }
        }
        self.builder.ins().brif(cond, blocks[0], &args[0], blocks[1], &args[1]);
        for (block, region) in blocks.into_iter().zip(regions) {
            if block != merge {
                self.builder.switch_to_block(block);
                self.region(region, YieldMeaning::To(merge))?;
            }
        }
        self.enter_results(data, merge);
        Ok(())
    }

    fn block(&mut self, inst: Inst, data: &InstData) -> Lowered<()> {
        let region = self.owned_region(data, 0)?;
        let exit = self.result_block(data)?;
        self.targets.push(JumpTarget { inst, exit, again: None });
        self.region(region, YieldMeaning::To(exit))?;
        self.targets.pop();
        self.enter_results(data, exit);
        Ok(())
    }

    fn while_loop(&mut self, inst: Inst, data: &InstData) -> Lowered<()> {
        let (condition, body) = (self.owned_region(data, 0)?, self.owned_region(data, 1)?);
        let header = self.result_block(data)?;
        let exit = self.result_block(data)?;
        let body_block = self.builder.create_block();
        let init = self.block_args(&data.operands)?;
        self.builder.ins().jump(header, &init);
        let func = self.func;
        self.set_to_params(&func.regions[condition].params, header, 0);
        self.set_to_params(&func.regions[body].params, header, 0);
        self.targets.push(JumpTarget { inst, exit, again: Some(header) });
        self.builder.switch_to_block(header);
        self.region(condition, YieldMeaning::Condition { header, body: body_block, exit })?;
        self.builder.switch_to_block(body_block);
        self.region(body, YieldMeaning::To(header))?;
        self.targets.pop();
        self.enter_results(data, exit);
        Ok(())
    }

    fn for_range(&mut self, inst: Inst, data: &InstData) -> Lowered<()> {
        let region = self.owned_region(data, 0)?;
        let (low, high, step) = (self.operand(data, 0)?, self.operand(data, 1)?, self.operand(data, 2)?);
        let counter = self.scalar(low)?;
        let ty = clif_type(counter);
        let constant_step = self.func.as_const(step);
        let init = self.block_args(&data.operands[3..])?;
        let (mut low, high) = (self.value(low)?, self.value(high)?);
        if let Some(lanes) = self.lane_loop(data) {
            low = self.lower_lanes(data, lanes, low, high)?;
        }

        let body = self.builder.create_block();
        self.builder.append_block_param(body, ty);
        let carried = self.value_types(&data.results);
        self.block_params(body, carried, data.span)?;
        let latch = self.result_block(data)?;
        let exit = self.result_block(data)?;

        // `remaining` is the distance from the counter to the end, `stride` the step's magnitude, both unsigned.
        let less = if counter.is_signed_int() { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
        let unit_step = constant_step == Some(1);
        let (enter, step, up) = if let Some(bits) = constant_step {
            let negative = counter.is_signed_int() && bits >> (counter.bits() - 1) & 1 == 1;
            let (from, to) = if negative { (high, low) } else { (low, high) };
            let enter = if bits == 0 { self.int(ir::types::I8, 0) } else { self.builder.ins().icmp(less, from, to) };
            (enter, self.constant(counter, bits), CountDirection::Known(!negative))
        } else {
            let step = self.value(step)?;
            let zero = self.int(ty, 0);
            let greater = less.swap_args();
            let up = self.builder.ins().icmp(greater, step, zero);
            let nonzero = self.builder.ins().icmp(IntCC::NotEqual, step, zero);
            let below = self.builder.ins().icmp(less, low, high);
            let above = self.builder.ins().icmp(greater, low, high);
            let enter = self.builder.ins().select(up, below, above);
            (self.builder.ins().band(enter, nonzero), step, CountDirection::Value(up))
        };
        let stride = match up {
            CountDirection::Known(true) => step,
            CountDirection::Known(false) => self.builder.ins().ineg(step),
            CountDirection::Value(up) => {
                let negated = self.builder.ins().ineg(step);
                self.builder.ins().select(up, step, negated)
            }
        };
        let mut into_body = init.clone();
        into_body.insert(0, low.into());
        self.builder.ins().brif(enter, body, &into_body, exit, &init);

        let func = self.func;
        self.set_to_params(&func.regions[region].params, body, 0);
        self.targets.push(JumpTarget { inst, exit, again: Some(latch) });
        self.builder.switch_to_block(body);
        let counter_value = self.builder.block_params(body)[0];
        self.region(region, YieldMeaning::To(latch))?;
        self.targets.pop();

        self.builder.switch_to_block(latch);
        let next = self.builder.ins().iadd(counter_value, step);
        let again = if unit_step {
            self.builder.ins().icmp(less, next, high)
        } else {
            let remaining = match up {
                CountDirection::Known(true) => self.builder.ins().isub(high, counter_value),
                CountDirection::Known(false) => self.builder.ins().isub(counter_value, high),
                CountDirection::Value(up) => {
                    let to_end = self.builder.ins().isub(high, counter_value);
                    let from_end = self.builder.ins().ineg(to_end);
                    self.builder.ins().select(up, to_end, from_end)
                }
            };
            self.builder.ins().icmp(IntCC::UnsignedGreaterThan, remaining, stride)
        };
        let results: SmallVec<[ir::BlockArg; 4]> = self.builder.block_params(latch).iter().map(|&v| v.into()).collect();
        let mut next_args = results.clone();
        next_args.insert(0, next.into());
        self.builder.ins().brif(again, body, &next_args, exit, &results);
        self.enter_results(data, exit);
        Ok(())
    }
}

/// Says whether a `for_range` counts up.
#[derive(Clone, Copy)]
enum CountDirection {
    Known(bool),
    Value(ir::Value),
}
