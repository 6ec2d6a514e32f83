//! Calls and returns: what is passed, and whose lanes go where.

use super::block::BlockState;
use super::grid::GridContext;
use super::registers::{FrameBase, LANES, PredicateTest, RegisterWord, SourceOperand, lanes_of, put};
use super::warp::{LanePath, PathStep, WarpRun};
use crate::decode::op::{CallOp, CallTarget, DecodedInst, DecodedOp, HostFunction, ParamPlace};
use crate::memory::window;
use crate::report::{Finding, FindingKind};

impl WarpRun {
    pub(super) fn call(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        inst: &DecodedInst,
        call: &CallOp,
        lanes: u32,
    ) -> Result<PathStep, Box<Finding>> {
        let (function, lanes) = match &call.target {
            CallTarget::Host(function) => {
                match function {
                    HostFunction::Print => self.print(context, block, inst, call, lanes)?,
                    HostFunction::Assertion => {
                        return Err(self.failed_assertion(context, block, inst, call, lanes));
                    }
                    HostFunction::Alloc => self.alloc(context, block, call, lanes),
                    HostFunction::Free => self.free(context, block, inst, call, lanes)?,
                    HostFunction::SetConditional => self.set_conditional(context, block, inst, call, lanes)?,
                }
                return Ok(PathStep::Next);
            }
            CallTarget::Function(function) => (*function, lanes),
            CallTarget::Pointer(pointer) => {
                // Only lanes that call the first lane's function go, because a frame is that of one function; the
                // others stay here.
                let addresses = pointer.get(&self.registers);
                let first = addresses[lanes.trailing_zeros() as usize];
                let same = lanes_of(lanes).fold(0, |set, lane| set | u32::from(addresses[lane] == first) << lane);
                let Some(function) = context.function_at(first) else {
                    let message = format!("0x{first:x} is the address of no function this kernel may call");
                    return Err(self.finding(context, block, inst, FindingKind::IllegalCall, &message, same));
                };
                debug_assert!(first >= window::FUNCTIONS);
                (function, same)
            }
        };
        let Some(frame) = self.enter(context, path, function as u32, lanes) else {
            let message = "calls nest too deep for local memory or registers";
            return Err(self.finding(context, block, inst, FindingKind::StackOverflow, message, lanes));
        };
        if context.program.stack_bytes > 0 {
            self.keep_stack(frame, lanes);
        }
        let (caller, callee) = (self.frames[path.frame as usize].base, self.frames[frame as usize].base);
        for (given, taken) in call.arguments.iter().zip(&context.program.functions[function].parameters) {
            self.pass(given, caller, taken, callee, lanes);
        }
        let entry = context.program.functions[function].entry;
        self.paths.push(LanePath { pc: entry, mask: lanes, frame, ..*path });
        let CallTarget::Pointer(_) = call.target else { return self.split_off(path, lanes) };
        path.mask &= !lanes;
        if path.mask == 0 {
            return Ok(PathStep::End);
        }
        // The path stays at the call, because lanes in it may call other functions; the next turn finds out, and lets
        // those go on whose predicate is off.
        Ok(PathStep::Pause)
    }

    pub(super) fn ret(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        lanes: u32,
    ) -> Result<PathStep, Box<Finding>> {
        let frame = self.frames[path.frame as usize];
        if frame.depth == 0 {
            return self.exit(context, block, path, lanes);
        }
        let (callee, caller) = (frame.base, self.frames[frame.parent as usize].base);
        if let DecodedOp::Call(call) = &context.program.code[frame.call as usize].op {
            let results = &context.program.functions[frame.function as usize].results;
            for (given, taken) in results.iter().zip(&call.results) {
                self.pass(given, callee, taken, caller, lanes);
            }
        }
        if context.program.stack_bytes > 0 {
            self.restore_stack(path.frame, lanes);
        }
        self.leave(path.frame, lanes);
        self.paths.push(LanePath { pc: frame.call + 1, mask: lanes, frame: frame.parent, ..*path });
        self.split_off(path, lanes)
    }

    /// Copies a value from a place of one frame to a place of another.
    fn pass(&mut self, from: &ParamPlace, from_base: FrameBase, to: &ParamPlace, to_base: FrameBase, lanes: u32) {
        if let (ParamPlace::Vector(from), ParamPlace::Vector(to)) = (from, to) {
            from.iter().zip(to).for_each(|(from, to)| self.pass(from, from_base, to, to_base, lanes));
            return;
        }
        if let (ParamPlace::Memory { offset: a, size }, ParamPlace::Memory { offset: b, size: room }) = (from, to) {
            let mut bytes = vec![0; (*size).min(*room) as usize];
            for lane in lanes_of(lanes) {
                let start = lane * self.local_bytes as usize;
                self.local.read(start + (from_base.local + a) as usize, &mut bytes);
                self.local.write(start + (to_base.local + b) as usize, &bytes);
            }
            return;
        }
        self.registers.set_base(from_base);
        let values: [u64; LANES] = match from {
            ParamPlace::Word(source, _) => source.get(&self.registers).map(u64::from),
            ParamPlace::Double(source) => *source.get(&self.registers),
            ParamPlace::Predicate(test) => {
                let mask = test.mask(&self.registers);
                std::array::from_fn(|lane| u64::from(mask >> lane & 1))
            }
            ParamPlace::Memory { offset, size } => {
                let (start, size) = ((from_base.local + offset) as usize, (*size).min(8));
                std::array::from_fn(|lane| self.local_bytes_at(lane, start, size))
            }
            // A vector is passed as one, since only a call through a pointer can be of another function.
            ParamPlace::Vector(_) => return self.registers.set_base(to_base),
        };
        self.registers.set_base(to_base);
        match to {
            ParamPlace::Word(SourceOperand::Register(slot), bits) => {
                let kept = u32::MAX >> (32 - bits);
                put(&mut self.registers, Some(*slot), &values.map(|value| value as u32 & kept), lanes);
            }
            ParamPlace::Double(SourceOperand::Register(slot)) => {
                put(&mut self.registers, Some(*slot), &values, lanes);
            }
            ParamPlace::Predicate(PredicateTest::Register { slot, .. }) => {
                let mask = (0..LANES).fold(0, |mask, lane| mask | u32::from(values[lane] != 0) << lane);
                self.registers.set_predicate(*slot, mask, lanes);
            }
            ParamPlace::Memory { offset, size } => {
                let size = (*size).min(8) as usize;
                for lane in lanes_of(lanes) {
                    let at = lane * self.local_bytes as usize + (to_base.local + offset) as usize;
                    self.local.write(at, &values[lane].to_le_bytes()[..size]);
                }
            }
            _ => {}
        }
    }

    /// Returns what a call of a function of the host passes in a place, zero-extended.
    pub(super) fn argument(&self, place: &ParamPlace) -> [u64; LANES] {
        match place {
            ParamPlace::Word(source, _) => source.get(&self.registers).map(u64::from),
            ParamPlace::Double(source) => *source.get(&self.registers),
            ParamPlace::Memory { offset, size } => std::array::from_fn(|lane| {
                self.local_bytes_at(lane, (self.registers.base().local + offset) as usize, (*size).min(8))
            }),
            ParamPlace::Predicate(_) | ParamPlace::Vector(_) => [0; LANES],
        }
    }

    /// Gives what a function of the host returns.
    pub(super) fn set_result(&mut self, call: &CallOp, values: &[u64; LANES], lanes: u32) {
        match call.results.first() {
            Some(ParamPlace::Memory { offset, size }) => {
                let start = (self.registers.base().local + offset) as usize;
                for lane in lanes_of(lanes) {
                    let at = lane * self.local_bytes as usize + start;
                    self.local.write(at, &values[lane].to_le_bytes()[..(*size).min(8) as usize]);
                }
            }
            Some(ParamPlace::Word(SourceOperand::Register(slot), _)) => {
                put(&mut self.registers, Some(*slot), &values.map(u32::truncated), lanes);
            }
            Some(ParamPlace::Double(SourceOperand::Register(slot))) => {
                put(&mut self.registers, Some(*slot), values, lanes)
            }
            _ => {}
        }
    }

    /// Up to eight bytes of a lane's local memory.
    pub(super) fn local_bytes_at(&self, lane: usize, offset: usize, size: u32) -> u64 {
        let mut bytes = [0; 8];
        self.local.read(lane * self.local_bytes as usize + offset, &mut bytes[..size as usize]);
        u64::from_le_bytes(bytes)
    }
}
