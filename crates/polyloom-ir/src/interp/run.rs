//! Running linear code.

use super::blocks::Block;
use super::memory::{Memory, SHARED};
use super::prepare::{Access, Code, ForLoop, Slot, Step};
use super::{Arg, ArrayArg, Host, InterpError, Interpreter, Observed, Trap};
use crate::entity::Inst;
use crate::types::{MAX_DIMS, Scalar};
use smallvec::SmallVec;

/// One thread after another, and what they share.
pub(super) struct Machine<'a> {
    pub(super) interpreter: &'a Interpreter,
    /// Indexed by argument; scalars have an empty one. Then those in shared memory.
    pub(super) arrays: SmallVec<[ArrayArg; 4]>,
    memory: &'a mut dyn Memory,
    host: &'a mut dyn Host,
    shape: [u64; MAX_DIMS],
    rank: usize,
    coordinates: [u64; MAX_DIMS],
    pub(super) thread: u64,
    steps_left: u64,
    pub(super) block: Block,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, Default)]
struct Activation {
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
pub(super) struct Calls {
    outer: Vec<Activation>,
    current: Activation,
}

impl Calls {
    /// Returns true if the thread has not begun.
    pub(super) fn is_new(&self) -> bool {
        self.outer.is_empty() && self.current.next == 0
    }
}

/// Describes what a thread stopped at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// Its end.
    Done,
    /// `collectives[index]` of a function, whose frame begins at `base`.
    Waits { code: u32, index: u32, base: u32 },
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        interpreter: &'a Interpreter,
        args: &[Arg],
        memory: &'a mut dyn Memory,
        host: &'a mut dyn Host,
    ) -> Machine<'a> {
        let array = |arg: &Arg| match arg {
            Arg::Array(array) => *array,
            Arg::Scalar(_) => ArrayArg::default(),
        };
        Machine {
            interpreter,
            arrays: args.iter().map(array).collect(),
            memory,
            host,
            shape: [1; MAX_DIMS],
            rank: 1,
            coordinates: [0; MAX_DIMS],
            thread: 0,
            steps_left: interpreter.max_steps,
            block: Block::default(),
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
    pub(super) fn run(&mut self, calls: &mut Calls, stack: &mut [u64]) -> Result<Stop, InterpError> {
        loop {
            match self.activation(calls.current, stack)? {
                Left::Called(callee, caller) => {
                    calls.outer.push(caller);
                    calls.current = callee;
                }
                Left::Waits(current, index) => {
                    calls.current = current;
                    return Ok(Stop::Waits { code: current.code, index, base: current.base });
                }
                Left::Returned => {
                    let Some(caller) = calls.outer.pop() else {
                        calls.current = Activation::default();
                        return Ok(Stop::Done);
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
    fn activation(&mut self, current: Activation, stack: &mut [u64]) -> Result<Left, InterpError> {
        let interpreter = self.interpreter;
        let code = &interpreter.codes[current.code as usize];
        let (frame, rest) = stack[current.base as usize..].split_at_mut(code.frame.len());
        let mut next = current.next as usize;
        while let Some(&step) = code.steps.get(next) {
            next += 1;
            match step {
                Step::Unary { f, to, x } => frame[to as usize] = f(frame[x as usize]),
                Step::Binary { f, to, a, b } => frame[to as usize] = f(frame[a as usize], frame[b as usize]),
                Step::Ternary { f, to, operands: [a, b, c] } => {
                    frame[to as usize] = f(frame[a as usize], frame[b as usize], frame[c as usize]);
                }
                Step::Copy { to, from } => frame[to as usize] = frame[from as usize],
                Step::Jump { target } => next = target as usize,
                Step::Again { target } => {
                    self.step()?;
                    next = target as usize;
                }
                Step::JumpUnless { cond, target } => {
                    if frame[cond as usize] == 0 {
                        next = target as usize;
                    }
                }
                Step::ForEnter { index, exit } => {
                    let this = &code.loops[index as usize];
                    let n_iterations = n_iterations(this, frame);
                    frame[this.left as usize] = n_iterations;
                    frame[this.counter as usize] = frame[this.lo as usize];
                    if n_iterations == 0 {
                        next = exit as usize;
                    }
                }
                Step::ForNext { index, body } => {
                    let this = &code.loops[index as usize];
                    frame[this.left as usize] -= 1;
                    if frame[this.left as usize] != 0 {
                        self.step()?;
                        let counter = frame[this.counter as usize].wrapping_add(frame[this.step as usize]);
                        frame[this.counter as usize] = counter & (u64::MAX >> (64 - this.ty.bits()));
                        next = body as usize;
                    }
                }
                Step::Tid { to, axis } => {
                    let coordinate = self.coordinates.get(usize::from(axis)).copied().unwrap_or(0);
                    frame[to as usize] = u64::from(coordinate as u32);
                }
                Step::TidLinear { to } => frame[to as usize] = u64::from(self.thread as u32),
                Step::Dim { to, array, axis } => {
                    let array = &self.arrays[frame[array as usize] as usize];
                    let extent = array.extents.get(usize::from(axis)).copied().unwrap_or(0);
                    frame[to as usize] = u64::from(extent as u32);
                }
                Step::Load { to, access } => {
                    let access = &code.accesses[access as usize];
                    let (buffer, offset) = self.address(code, access, frame)?;
                    let bits = self.memory(buffer).load(buffer, offset, access.elem.bytes());
                    let bits = bits.ok_or_else(|| self.outside_buffer(code, access))?;
                    // Any byte but 0 is true, whoever wrote it.
                    frame[to as usize] = if access.elem == Scalar::Bool { u64::from(bits != 0) } else { bits };
                }
                Step::Store { value, access } => {
                    let access = &code.accesses[access as usize];
                    let (buffer, offset) = self.address(code, access, frame)?;
                    let stored = self.memory(buffer).store(buffer, offset, access.elem.bytes(), frame[value as usize]);
                    stored.ok_or_else(|| self.outside_buffer(code, access))?;
                }
                Step::Atomic { f, to, value, access } => {
                    let value = frame[value as usize];
                    frame[to as usize] = self.update(code, access, frame, &mut |old| f(old, value))?;
                }
                Step::CompareExchange { to, compare, value, access } => {
                    let (compare, value) = (frame[compare as usize], frame[value as usize]);
                    let exchange = &mut |old| if old == compare { value } else { old };
                    frame[to as usize] = self.update(code, access, frame, exchange)?;
                }
                Step::Check { cond, index, extent, site } => {
                    if frame[cond as usize] == 0 {
                        return Err(self.trap(code, site, frame[index as usize], frame[extent as usize]));
                    }
                }
                Step::Assert { cond, site } => {
                    if frame[cond as usize] == 0 {
                        return Err(self.trap(code, site, 0, 0));
                    }
                }
                Step::Print { print } => {
                    let print = &code.prints[print as usize];
                    let values: SmallVec<[u64; 8]> = print.values.iter().map(|&slot| frame[slot as usize]).collect();
                    self.host.print(&print.format, &print.types, &values);
                }
                Step::Observe { index } => {
                    let watched = &code.watched[index as usize];
                    let operands: SmallVec<[u64; 4]> =
                        watched.operands.iter().map(|&slot| frame[slot as usize]).collect();
                    let (op, span, result) = (watched.op, watched.span, frame[watched.result as usize]);
                    self.host.observe(&Observed { op, span, operands: &operands, result });
                }
                Step::Call { call } => {
                    self.step()?;
                    let caller = Activation { next: next as u32, call, ..current };
                    let call = &code.calls[call as usize];
                    let callee = &interpreter.codes[call.callee];
                    rest[..callee.frame.len()].copy_from_slice(&callee.frame);
                    for (&param, &arg) in callee.params.iter().zip(&call.args) {
                        rest[param as usize] = frame[arg as usize];
                    }
                    let base = current.base + frame.len() as u32;
                    let callee = Activation { code: call.callee as u32, next: 0, base, call: 0 };
                    return Ok(Left::Called(callee, caller));
                }
                Step::BlockIndex { to, op, axis } => frame[to as usize] = self.block.index(op, axis.into()).into(),
                Step::Clock { to } => frame[to as usize] = interpreter.max_steps - self.steps_left,
                Step::DynamicShared { to, index } => {
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
                Step::Collective { index } => {
                    return Ok(Left::Waits(Activation { next: next as u32, ..current }, index));
                }
                Step::Return { index } => {
                    let values = code.returns[index as usize].iter().map(|&slot| frame[slot as usize]);
                    let values: SmallVec<[u64; 8]> = values.collect();
                    frame[..values.len()].copy_from_slice(&values);
                    return Ok(Left::Returned);
                }
                Step::Unreachable { site } => {
                    return Err(InterpError::Unreachable { site: code.site(site), thread: self.thread });
                }
            }
        }
        Ok(Left::Returned)
    }

    /// Returns where a buffer is.
    #[inline]
    fn memory(&mut self, buffer: u32) -> &mut dyn Memory {
        if buffer == SHARED { &mut self.block.shared } else { &mut *self.memory }
    }

    #[inline]
    fn address(&self, code: &Code, access: &Access, frame: &[u64]) -> Result<(u32, i64), InterpError> {
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
        code: &Code,
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
    fn out_of_bounds(&self, code: &Code, access: &Access, axis: usize, frame: &[u64]) -> InterpError {
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
    fn outside_buffer(&self, code: &Code, access: &Access) -> InterpError {
        InterpError::OutsideBuffer { site: code.site(access.inst), thread: self.thread }
    }

    #[cold]
    fn trap(&self, code: &Code, site: Inst, index: u64, extent: u64) -> InterpError {
        let (index, extent) = (index as i64, extent as i64);
        InterpError::Trap(Trap { site: code.site(site), index, extent, thread: self.thread })
    }
}

/// Describes how a function was left.
enum Left {
    /// For a function it calls, and where it goes on then.
    Called(Activation, Activation),
    /// For other threads, at this one of its collectives.
    Waits(Activation, u32),
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
