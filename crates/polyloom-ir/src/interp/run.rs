//! Running linear code.

use super::blocks::RunningBlock;
use super::memory::{InterpMemory, SHARED};
use super::prepare::{CodeStep, ElementAccess, ForLoop, LinearCode, Slot};
use super::{ArrayArg, InterpArg, InterpError, InterpHost, InterpTrap, Interpreter, ObservedOp};
use crate::entity::Inst;
use crate::types::{MAX_DIMS, Scalar};
use smallvec::SmallVec;

/// One thread after another, and what they share.
pub(super) struct ThreadMachine<'a> {
    pub(super) interpreter: &'a Interpreter,
    /// Indexed by argument; scalars have an empty one. Then those in shared memory.
    pub(super) arrays: SmallVec<[ArrayArg; 4]>,
    memory: &'a mut dyn InterpMemory,
    host: &'a mut dyn InterpHost,
    shape: [u64; MAX_DIMS],
    rank: usize,
    coordinates: [u64; MAX_DIMS],
    pub(super) thread: u64,
    steps_left: u64,
    pub(super) block: RunningBlock,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, Default)]
struct CallFrame {
    code: u32,
    /// The step it goes on with.
    next: u32,
    /// The place where on the stack its frame is.
    base: u32,
    /// The call in it that is being executed.
    call: u32,
}

/// Says where a thread is: the calls it is in, outermost first, without the last.
#[derive(Clone, Debug, Default)]
pub(super) struct CallStack {
    outer: Vec<CallFrame>,
    current: CallFrame,
}

impl CallStack {
    /// Returns true if the thread has not begun.
    pub(super) fn is_new(&self) -> bool {
        self.outer.is_empty() && self.current.next == 0
    }
}

/// Describes what a thread stopped at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThreadStop {
    /// Its end.
    Done,
    /// `collectives[index]` of a function, whose frame begins at `base`.
    Waits { code: u32, index: u32, base: u32 },
}

impl<'a> ThreadMachine<'a> {
    pub(super) fn new(
        interpreter: &'a Interpreter,
        args: &[InterpArg],
        memory: &'a mut dyn InterpMemory,
        host: &'a mut dyn InterpHost,
    ) -> ThreadMachine<'a> {
        let array = |arg: &InterpArg| match arg {
            InterpArg::Array(array) => *array,
            InterpArg::Scalar(_) => ArrayArg::default(),
        };
        ThreadMachine {
            interpreter,
            arrays: args.iter().map(array).collect(),
            memory,
            host,
            shape: [1; MAX_DIMS],
            rank: 1,
            coordinates: [0; MAX_DIMS],
            thread: 0,
            steps_left: interpreter.max_steps,
            block: RunningBlock::default(),
        }
    }

    /// Goes to a thread of a launch of this shape, which has no extent 0.
    pub(super) fn start(&mut self, shape: &[u64], thread: u64) {
        self.rank = shape.len();
        self.shape[..shape.len()].copy_from_slice(shape);
        self.thread = thread;
        let mut rest = thread;
        for axis in (0..self.rank).rev() {
            self.coordinates[axis] = rest % self.shape[axis];
            rest /= self.shape[axis];
        }
    }

    pub(super) fn next_thread(&mut self) {
        self.thread += 1;
        for axis in (0..self.rank).rev() {
            self.coordinates[axis] += 1;
            if self.coordinates[axis] < self.shape[axis] {
                break;
            }
            self.coordinates[axis] = 0;
        }
    }

    /// Counts a thread as a step.
    pub(super) fn thread(&mut self) -> Result<(), InterpError> {
        self.step()
    }

    fn step(&mut self) -> Result<(), InterpError> {
        match self.steps_left.checked_sub(1) {
            Some(left) => self.steps_left = left,
            None => return Err(InterpError::StepLimit { thread: self.thread }),
        }
        Ok(())
    }

    /// Runs a thread from where it is. The frame of the function that was launched, arguments included, is at the start
    /// of the stack; its results are there when it has run.
    pub(super) fn run(&mut self, calls: &mut CallStack, stack: &mut [u64]) -> Result<ThreadStop, InterpError> {
        loop {
            match self.activation(calls.current, stack)? {
                FunctionExit::Called(callee, caller) => {
                    calls.outer.push(caller);
                    calls.current = callee;
                }
                FunctionExit::Waits(current, index) => {
                    calls.current = current;
                    return Ok(ThreadStop::Waits { code: current.code, index, base: current.base });
                }
                FunctionExit::Returned => {
                    let Some(caller) = calls.outer.pop() else {
                        calls.current = CallFrame::default();
                        return Ok(ThreadStop::Done);
                    };
                    let call = &self.interpreter.codes[caller.code as usize].calls[caller.call as usize];
                    for (index, &result) in call.results.iter().enumerate() {
                        stack[(caller.base + result) as usize] = stack[calls.current.base as usize + index];
                    }
                    calls.current = caller;
                }
            }
        }
    }

    /// Runs a function until it calls another, returns, or waits.
    fn activation(&mut self, current: CallFrame, stack: &mut [u64]) -> Result<FunctionExit, InterpError> {
        let interpreter = self.interpreter;
        let code = &interpreter.codes[current.code as usize];
        let (frame, rest) = stack[current.base as usize..].split_at_mut(code.frame.len());
        let mut next = current.next as usize;
        while let Some(&step) = code.steps.get(next) {
            next += 1;
            match step {
                CodeStep::Unary { f, to, x } => frame[to as usize] = f(frame[x as usize]),
                CodeStep::Binary { f, to, a, b } => frame[to as usize] = f(frame[a as usize], frame[b as usize]),
                CodeStep::Ternary { f, to, operands: [a, b, c] } => {
                    frame[to as usize] = f(frame[a as usize], frame[b as usize], frame[c as usize]);
                }
                CodeStep::Copy { to, from } => frame[to as usize] = frame[from as usize],
                CodeStep::Jump { target } => next = target as usize,
                CodeStep::Again { target } => {
                    self.step()?;
                    next = target as usize;
                }
                CodeStep::JumpUnless { cond, target } => {
                    if frame[cond as usize] == 0 {
                        next = target as usize;
                    }
                }
                CodeStep::ForEnter { index, exit } => {
                    let this = &code.loops[index as usize];
                    let n_iterations = n_iterations(this, frame);
                    frame[this.left as usize] = n_iterations;
                    frame[this.counter as usize] = frame[this.lo as usize];
                    if n_iterations == 0 {
                        next = exit as usize;
                    }
                }
                CodeStep::ForNext { index, body } => {
                    let this = &code.loops[index as usize];
                    frame[this.left as usize] -= 1;
                    if frame[this.left as usize] != 0 {
                        self.step()?;
                        let counter = frame[this.counter as usize].wrapping_add(frame[this.step as usize]);
                        frame[this.counter as usize] = counter & (u64::MAX >> (64 - this.ty.bits()));
                        next = body as usize;
                    }
                }
                CodeStep::Tid { to, axis } => {
                    let coordinate = self.coordinates.get(usize::from(axis)).copied().unwrap_or(0);
                    frame[to as usize] = u64::from(coordinate as u32);
                }
                CodeStep::TidLinear { to } => frame[to as usize] = u64::from(self.thread as u32),
                CodeStep::Dim { to, array, axis } => {
                    let array = &self.arrays[frame[array as usize] as usize];
                    let extent = array.extents.get(usize::from(axis)).copied().unwrap_or(0);
                    frame[to as usize] = u64::from(extent as u32);
                }
                CodeStep::Load { to, access } => {
                    let access = &code.accesses[access as usize];
                    let (buffer, offset) = self.address(code, access, frame)?;
                    let bits = self.memory(buffer).load(buffer, offset, access.elem.bytes());
                    let bits = bits.ok_or_else(|| self.outside_buffer(code, access))?;
                    // A `bool` becomes 0 or 1, because in memory any byte but 0 is true, whoever wrote it.
                    frame[to as usize] = if access.elem == Scalar::Bool { u64::from(bits != 0) } else { bits };
                }
                CodeStep::Store { value, access } => {
                    let access = &code.accesses[access as usize];
                    let (buffer, offset) = self.address(code, access, frame)?;
                    let stored = self.memory(buffer).store(buffer, offset, access.elem.bytes(), frame[value as usize]);
                    stored.ok_or_else(|| self.outside_buffer(code, access))?;
                }
                CodeStep::Atomic { f, to, value, access } => {
                    let value = frame[value as usize];
                    frame[to as usize] = self.update(code, access, frame, &mut |old| f(old, value))?;
                }
                CodeStep::CompareExchange { to, compare, value, access } => {
                    let (compare, value) = (frame[compare as usize], frame[value as usize]);
                    let exchange = &mut |old| if old == compare { value } else { old };
                    frame[to as usize] = self.update(code, access, frame, exchange)?;
                }
                CodeStep::Check { cond, index, extent, site } => {
                    if frame[cond as usize] == 0 {
                        return Err(self.trap(code, site, frame[index as usize], frame[extent as usize]));
                    }
                }
                CodeStep::Assert { cond, site } => {
                    if frame[cond as usize] == 0 {
                        return Err(self.trap(code, site, 0, 0));
                    }
                }
                CodeStep::Print { print } => {
                    let print = &code.prints[print as usize];
                    let values: SmallVec<[u64; 8]> = print.values.iter().map(|&slot| frame[slot as usize]).collect();
                    self.host.print(&print.format, &print.types, &values);
                }
                CodeStep::Observe { index } => {
                    let watched = &code.watched[index as usize];
                    let operands: SmallVec<[u64; 4]> =
                        watched.operands.iter().map(|&slot| frame[slot as usize]).collect();
                    let (op, span, result) = (watched.op, watched.span, frame[watched.result as usize]);
                    self.host.observe(&ObservedOp { op, span, operands: &operands, result });
                }
                CodeStep::Call { call } => {
                    self.step()?;
                    let caller = CallFrame { next: next as u32, call, ..current };
                    let call = &code.calls[call as usize];
                    let callee = &interpreter.codes[call.callee];
                    rest[..callee.frame.len()].copy_from_slice(&callee.frame);
                    for (&param, &arg) in callee.params.iter().zip(&call.args) {
                        rest[param as usize] = frame[arg as usize];
                    }
                    let base = current.base + frame.len() as u32;
                    let callee = CallFrame { code: call.callee as u32, next: 0, base, call: 0 };
                    return Ok(FunctionExit::Called(callee, caller));
                }
                CodeStep::BlockIndex { to, op, axis } => frame[to as usize] = self.block.index(op, axis.into()).into(),
                CodeStep::Clock { to } => frame[to as usize] = interpreter.max_steps - self.steps_left,
                CodeStep::DynamicShared { to, index } => {
                    let view = &code.dynamic[index as usize];
                    let extents: SmallVec<[i64; 4]> =
                        view.extents.iter().map(|&slot| (frame[slot as usize] as i32).max(0).into()).collect();
                    let offset = self.block.dynamic_base + i64::from(frame[view.offset as usize] as i32);
                    let array = ArrayArg::dense(SHARED, offset, &extents, view.elem);
                    let known = self.arrays.iter().position(|other| *other == array);
                    frame[to as usize] = known.unwrap_or_else(|| {
                        self.arrays.push(array);
                        self.arrays.len() - 1
                    }) as u64;
                }
                CodeStep::Collective { index } => {
                    return Ok(FunctionExit::Waits(CallFrame { next: next as u32, ..current }, index));
                }
                CodeStep::Return { index } => {
                    let values = code.returns[index as usize].iter().map(|&slot| frame[slot as usize]);
                    let values: SmallVec<[u64; 8]> = values.collect();
                    frame[..values.len()].copy_from_slice(&values);
                    return Ok(FunctionExit::Returned);
                }
                CodeStep::Unreachable { site } => {
                    return Err(InterpError::Unreachable { site: code.site(site), thread: self.thread });
                }
            }
        }
        Ok(FunctionExit::Returned)
    }

    /// Returns where a buffer is.
    #[inline]
    fn memory(&mut self, buffer: u32) -> &mut dyn InterpMemory {
        if buffer == SHARED { &mut self.block.shared } else { &mut *self.memory }
    }

    #[inline]
    fn address(&self, code: &LinearCode, access: &ElementAccess, frame: &[u64]) -> Result<(u32, i64), InterpError> {
        let array = &self.arrays[frame[access.array as usize] as usize];
        let mut offset = array.offset;
        for (axis, index) in access.indices.iter().enumerate() {
            let bits = frame[index.slot as usize];
            let extent = array.extents[axis];
            let position = match (bits << index.unused_bits) as i64 >> index.unused_bits {
                negative @ ..0 if index.is_signed => negative + extent,
                _ => bits as i64,
            };
            if !(0..extent).contains(&position) {
                return Err(self.out_of_bounds(code, access, axis, frame));
            }
            offset = offset.wrapping_add(position.wrapping_mul(array.strides[axis]));
        }
        Ok((array.buffer, offset))
    }

    fn update(
        &mut self,
        code: &LinearCode,
        access: u32,
        frame: &[u64],
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, InterpError> {
        let access = &code.accesses[access as usize];
        let (buffer, offset) = self.address(code, access, frame)?;
        let old = self.memory(buffer).update(buffer, offset, access.elem.bytes(), f);
        old.ok_or_else(|| self.outside_buffer(code, access))
    }

    #[cold]
    fn out_of_bounds(&self, code: &LinearCode, access: &ElementAccess, axis: usize, frame: &[u64]) -> InterpError {
        let index = &access.indices[axis];
        let bits = frame[index.slot as usize];
        let index = match index.is_signed {
            true => i128::from((bits << index.unused_bits) as i64 >> index.unused_bits),
            false => bits.into(),
        };
        let extent = self.arrays[frame[access.array as usize] as usize].extents[axis];
        let site = code.site(access.inst);
        InterpError::OutOfBounds { site, axis: axis as u8, index, extent, thread: self.thread }
    }

    #[cold]
    fn outside_buffer(&self, code: &LinearCode, access: &ElementAccess) -> InterpError {
        InterpError::OutsideBuffer { site: code.site(access.inst), thread: self.thread }
    }

    #[cold]
    fn trap(&self, code: &LinearCode, site: Inst, index: u64, extent: u64) -> InterpError {
        let (index, extent) = (index as i64, extent as i64);
        InterpError::Trap(InterpTrap { site: code.site(site), index, extent, thread: self.thread })
    }
}

/// Describes how a function was left.
enum FunctionExit {
    /// For a function it calls, and where it goes on then.
    Called(CallFrame, CallFrame),
    /// For other threads, at this one of its collectives.
    Waits(CallFrame, u32),
    Returned,
}

/// Returns the number of times a `for_range` runs: as often as lo, lo + step, … stays before its end, without overflow.
fn n_iterations(this: &ForLoop, frame: &[u64]) -> u64 {
    let [lo, hi, step] = [this.lo, this.hi, this.step].map(|slot: Slot| frame[slot as usize]);
    if !this.ty.is_signed_int() {
        return if lo < hi && step != 0 { (hi - lo - 1) / step + 1 } else { 0 };
    }
    let unused = 64 - this.ty.bits();
    let [lo, hi, step] = [lo, hi, step].map(|bits| (bits << unused) as i64 >> unused);
    let distance = lo.abs_diff(hi);
    if (step > 0 && lo < hi) || (step < 0 && lo > hi) { (distance - 1) / step.unsigned_abs() + 1 } else { 0 }
}
