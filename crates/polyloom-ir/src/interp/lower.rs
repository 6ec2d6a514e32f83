//! From structured HIR to the interpreter's linear form, a function at a time.
//!
//! Relies on what the verifier guarantees: terminators, counts and types of operands, targets that enclose.

use super::prepare::{
    CallStep, CodeStep, CollectiveOp, DynamicShared, ElementAccess, ElementIndex, ForLoop, LinearCode, PreparedCallee,
    PrintStep, ProgramBuilder, Slot, WatchedStep,
};
use super::{GlobalSums, InterpError};
use crate::entity::{FuncId, Inst, Region, Value};
use crate::eval::{OpEvaluator, evaluator};
use crate::function::{Function, Imm, InstData};
use crate::op::{Convergence, Op};
use crate::types::{AddressSpace, Scalar, Type};
use cranelift_entity::{EntityRef, SecondaryMap};
use smallvec::SmallVec;

/// Brings a function into linear form, and those it calls. Gives the code and the stack its callees need.
pub(super) fn lower(
    preparation: &mut ProgramBuilder<'_>,
    func: &Function,
    id: Option<FuncId>,
) -> Result<(LinearCode, usize), InterpError> {
    let mut lower = InterpLowering {
        preparation,
        func,
        code: LinearCode {
            func: id,
            frame: vec![0; func.values.len().max(func.results.len()).max(1)],
            ..LinearCode::default()
        },
        slots: SecondaryMap::new(),
        labels: Vec::new(),
        last_label_at: 0,
        owners: Vec::new(),
        callees_need: 0,
    };
    for value in func.values.keys() {
        lower.slots[value] = value.index() as Slot;
    }
    lower.code.params = func.params().iter().map(|&param| lower.slots[param]).collect();
    lower.region(func.body)?;
    lower.resolve_labels();
    Ok((lower.code, lower.callees_need))
}

type Slots = SmallVec<[Slot; 4]>;

/// An instruction with regions that is being lowered.
struct OpenRegionInst {
    inst: Inst,
    /// The place where its end is.
    end: u32,
    results: Slots,
    /// A loop's next iteration begins here, with these carried values.
    next: Option<(u32, Slots)>,
}

struct InterpLowering<'p, 'a> {
    preparation: &'p mut ProgramBuilder<'a>,
    func: &'p Function,
    code: LinearCode,
    slots: SecondaryMap<Value, Slot>,
    /// The step each label stands before.
    labels: Vec<u32>,
    last_label_at: usize,
    owners: Vec<OpenRegionInst>,
    callees_need: usize,
}

impl InterpLowering<'_, '_> {
    fn slots_of(&self, values: &[Value]) -> Slots {
        values.iter().map(|&value| self.slots[value]).collect()
    }

    fn scratch(&mut self) -> Slot {
        self.code.frame.push(0);
        self.code.frame.len() as Slot - 1
    }

    fn emit(&mut self, step: CodeStep) {
        self.code.steps.push(step);
    }

    fn label(&mut self) -> u32 {
        self.labels.push(u32::MAX);
        self.labels.len() as u32 - 1
    }

    fn bind(&mut self, label: u32) {
        let steps = &mut self.code.steps;
        let nothing_between = matches!(steps.last(), Some(CodeStep::Jump { target }) if *target == label);
        if nothing_between && self.last_label_at < steps.len() {
            steps.pop();
        }
        self.labels[label as usize] = steps.len() as u32;
        self.last_label_at = steps.len();
    }

    fn resolve_labels(&mut self) {
        for step in &mut self.code.steps {
            match step {
                CodeStep::Jump { target } | CodeStep::Again { target } | CodeStep::JumpUnless { target, .. } => {
                    *target = self.labels[*target as usize];
                }
                CodeStep::ForEnter { exit: target, .. } | CodeStep::ForNext { body: target, .. } => {
                    *target = self.labels[*target as usize];
                }
                _ => {}
            }
        }
    }

    /// Moves values as if all at once.
    fn copy(&mut self, to: &[Slot], from: &[Slot]) {
        let mut moves: SmallVec<[(Slot, Slot); 4]> = to.iter().copied().zip(from.iter().copied()).collect();
        moves.retain(|(to, from)| to != from);
        let overwritten = (1..moves.len()).any(|later| moves[..later].iter().any(|(to, _)| *to == moves[later].1));
        if overwritten {
            for index in 0..moves.len() {
                let scratch = self.scratch();
                self.emit(CodeStep::Copy { to: scratch, from: moves[index].1 });
                moves[index].1 = scratch;
            }
        }
        for (to, from) in moves {
            self.emit(CodeStep::Copy { to, from });
        }
    }

    fn region(&mut self, region: Region) -> Result<(), InterpError> {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            self.inst(inst)?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: Inst) -> Result<(), InterpError> {
        let func = self.func;
        let data = &func.insts[inst];
        let operands = self.slots_of(&data.operands);
        let results = self.slots_of(&data.results);
        if data.op.info().needs_blocks() {
            self.preparation.needs_blocks();
        }
        match data.op {
            Op::If => self.lower_if(inst, data)?,
            Op::Block => {
                let end = self.enter(inst, results, None);
                self.region(data.regions[0])?;
                self.leave(end);
            }
            Op::ForRange => self.lower_for(inst, data)?,
            Op::While => self.lower_while(inst, data)?,
            Op::Yield | Op::Break | Op::Continue => self.lower_jump(data),
            Op::Return => {
                let index = self.code.returns.len() as u32;
                self.code.returns.push(operands);
                self.emit(CodeStep::Return { index });
            }
            Op::Unreachable => {
                self.code.spans.insert(inst, data.span);
                self.emit(CodeStep::Unreachable { site: inst });
            }

            Op::Const => {
                if let Imm::Bits(bits) = data.imm {
                    self.code.frame[results[0] as usize] = bits;
                }
            }
            Op::Tid => self.emit(CodeStep::Tid { to: results[0], axis: axis(data) }),
            Op::TidLinear => self.emit(CodeStep::TidLinear { to: results[0] }),
            Op::Dim => self.emit(CodeStep::Dim { to: results[0], array: operands[0], axis: axis(data) }),

            Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim | Op::LaneId | Op::WarpId => {
                self.emit(CodeStep::BlockIndex { to: results[0], op: data.op, axis: axis(data) });
            }
            Op::SharedArray => {
                if let (Imm::Shared(array), Some((elem, _))) = (&data.imm, func.ty(data.results[0]).as_array()) {
                    self.code.frame[results[0] as usize] = self.preparation.shared_array(array, elem);
                }
            }
            Op::DynamicShared => {
                let index = self.code.dynamic.len() as u32;
                let elem = func.ty(data.results[0]).as_array().map_or(Scalar::U8, |(elem, _)| elem);
                let extents = operands[1..].into();
                self.code.dynamic.push(DynamicShared { offset: operands[0], extents, elem });
                self.emit(CodeStep::DynamicShared { to: results[0], index });
            }
            Op::Clock => self.emit(CodeStep::Clock { to: results[0] }),
            // Threads run one after another and see each other's writes at once, so that nobody measures how long they
            // sleep.
            Op::ThreadFence | Op::Nanosleep | Op::AsyncCommit | Op::AsyncWait => {}
            Op::AsyncCopy => self.async_copy(inst, data),
            op if op.info().convergence != Convergence::None => self.collective(inst, data)?,

            Op::ArrayLoad | Op::LoadReadonly => {
                let (access, ..) = self.access(inst, data);
                self.emit(CodeStep::Load { to: results[0], access });
            }
            Op::ArrayStore => {
                let (access, values, _) = self.access(inst, data);
                self.emit(CodeStep::Store { value: values[0], access });
            }
            Op::AtomicCas => {
                let (access, values, _) = self.access(inst, data);
                self.emit(CodeStep::CompareExchange { to: results[0], compare: values[0], value: values[1], access });
            }
            Op::AtomicExch => {
                let (access, values, _) = self.access(inst, data);
                self.emit(CodeStep::Atomic { f: |_, value| value, to: results[0], value: values[0], access });
            }
            Op::AtomicInc | Op::AtomicDec => {
                let (access, values, elem) = self.access(inst, data);
                let f = count(data.op, elem);
                self.emit(CodeStep::Atomic { f, to: results[0], value: values[0], access });
            }
            Op::AtomicAdd
            | Op::AtomicSub
            | Op::AtomicMin
            | Op::AtomicMax
            | Op::AtomicAnd
            | Op::AtomicOr
            | Op::AtomicXor => {
                let (access, values, elem) = self.access(inst, data);
                let is_global = matches!(func.ty(data.operands[0]), Type::Array { space: AddressSpace::Global, .. });
                let sums = if is_global { self.preparation.options.sums } else { GlobalSums::Exact };
                let ty = Type::Scalar(elem);
                let f = match (data.op, sums) {
                    (Op::AtomicAdd, GlobalSums::Flushed) if elem == Scalar::F32 => flushed_sum::<1>,
                    (Op::AtomicSub, GlobalSums::Flushed) if elem == Scalar::F32 => flushed_sum::<-1>,
                    (Op::AtomicAdd | Op::AtomicSub, GlobalSums::Magnitudes) if elem == Scalar::F32 => {
                        |old, value| (f32_of(old) + f32_of(value).abs()).to_bits().into()
                    }
                    (Op::AtomicAdd | Op::AtomicSub, GlobalSums::Magnitudes) if elem == Scalar::F64 => {
                        |old, value| (f64::from_bits(old) + f64::from_bits(value).abs()).to_bits()
                    }
                    (op, _) => match op.combination().and_then(|op| evaluator(op, &[ty, ty], ty)) {
                        Some(OpEvaluator::Binary(f)) => f,
                        _ => return Err(self.no_definition(data)),
                    },
                };
                self.emit(CodeStep::Atomic { f, to: results[0], value: values[0], access });
            }

            Op::Check => {
                self.code.spans.insert(inst, data.span);
                self.emit(CodeStep::Check { cond: operands[0], index: operands[1], extent: operands[2], site: inst });
            }
            Op::Assert => {
                self.code.spans.insert(inst, data.span);
                self.emit(CodeStep::Assert { cond: operands[0], site: inst });
            }
            Op::Print => {
                if let Imm::Text(format) = &data.imm {
                    let print = self.code.prints.len() as u32;
                    let types = data.operands.iter().map(|&value| func.ty(value)).collect();
                    self.code.prints.push(PrintStep { format: format.clone(), types, values: operands.to_vec() });
                    self.emit(CodeStep::Print { print });
                }
            }
            Op::Call => {
                if let Imm::Func(callee) = data.imm {
                    self.call(PreparedCallee::User(callee), operands, results)?;
                }
            }
            _ => {
                self.scalar_op(data, operands.clone(), results.clone())?;
                if let [result] = results[..] {
                    self.observe(data, &operands, result);
                }
            }
        }
        Ok(())
    }

    /// Tells of an op, if it is watched. Those of the math library are nobody's to watch.
    fn observe(&mut self, data: &InstData, operands: &[Slot], result: Slot) {
        if self.code.func.is_some() && self.preparation.options.watched.is_some_and(|watched| watched(data.op)) {
            let index = self.code.watched.len() as u32;
            self.code.watched.push(WatchedStep { op: data.op, span: data.span, operands: operands.into(), result });
            self.emit(CodeStep::Observe { index });
        }
    }

    fn collective(&mut self, inst: Inst, data: &InstData) -> Result<(), InterpError> {
        let elem = data.operands.first().map_or(Type::BOOL, |&value| self.func.ty(value));
        let combine = match data.op.info().reduces_by().map(|op| evaluator(op, &[elem, elem], elem)) {
            None => None,
            Some(Some(OpEvaluator::Binary(f))) => Some(f),
            Some(_) => return Err(self.no_definition(data)),
        };
        let index = self.code.collectives.len() as u32;
        self.code.collectives.push(CollectiveOp {
            op: data.op,
            convergence: data.op.info().convergence,
            operands: data.operands.iter().map(|&value| self.slots[value]).collect(),
            to: data.results.iter().map(|&value| self.slots[value]).collect(),
            types: data.operands.iter().map(|&value| self.func.ty(value)).collect(),
            width: if let Imm::Width(width) = data.imm { width } else { 32 },
            barrier: if let Imm::Barrier(barrier) = data.imm { Some(barrier) } else { None },
            combine,
            inst,
        });
        self.code.spans.insert(inst, data.span);
        self.emit(CodeStep::Collective { index });
        Ok(())
    }

    /// Copies at once, because nothing may look at the elements before `async_wait`.
    fn async_copy(&mut self, inst: Inst, data: &InstData) {
        let Imm::Copy(copy) = data.imm else { return };
        let n_to = 1 + usize::from(self.func.ty(data.operands[0]).as_array().map_or(0, |(_, ndim)| ndim));
        let (to, from) = data.operands.split_at(n_to);
        for number in 0..copy.count {
            let value = self.scratch();
            let access = self.element_behind(inst, from, number);
            self.emit(CodeStep::Load { to: value, access });
            let access = self.element_behind(inst, to, number);
            self.emit(CodeStep::Store { value, access });
        }
        self.code.spans.insert(inst, data.span);
    }

    /// The element so many places behind that of these operands, an array and indices, along the last axis.
    fn element_behind(&mut self, inst: Inst, operands: &[Value], number: u8) -> u32 {
        let (elem, _) = self.func.ty(operands[0]).as_array().unwrap_or((Scalar::U8, 0));
        let mut indices: SmallVec<[ElementIndex; 4]> = operands[1..].iter().map(|&value| self.index(value)).collect();
        if let (Some(last), Some(&value)) = (indices.last_mut(), operands.last())
            && let ty = self.func.ty(value)
            && let (Some(scalar), Some(OpEvaluator::Binary(f))) = (ty.as_scalar(), evaluator(Op::Add, &[ty, ty], ty))
        {
            let offset = self.scratch();
            self.code.frame[offset as usize] = u64::from(number) & (u64::MAX >> (64 - scalar.bits()));
            let moved = self.scratch();
            self.emit(CodeStep::Binary { f, to: moved, a: last.slot, b: offset });
            last.slot = moved;
        }
        let access = self.code.accesses.len() as u32;
        self.code.accesses.push(ElementAccess { array: self.slots[operands[0]], indices, elem, inst });
        access
    }

    fn index(&self, value: Value) -> ElementIndex {
        let ty = self.func.ty(value).as_scalar().unwrap_or(Scalar::I32);
        ElementIndex { slot: self.slots[value], is_signed: ty.is_signed_int(), unused_bits: 64 - ty.bits() }
    }

    fn no_definition(&self, data: &InstData) -> InterpError {
        InterpError::NoDefinition {
            op: data.op,
            types: data.operands.iter().map(|&value| self.func.ty(value)).collect(),
        }
    }

    fn scalar_op(&mut self, data: &InstData, operands: Slots, results: Slots) -> Result<(), InterpError> {
        let types: SmallVec<[Type; 4]> = data.operands.iter().map(|&value| self.func.ty(value)).collect();
        let result_types: SmallVec<[Type; 4]> = data.results.iter().map(|&value| self.func.ty(value)).collect();
        if let [result] = result_types[..]
            && let Some(evaluator) = evaluator(data.op, &types, result)
        {
            self.evaluate(evaluator, results[0], &operands);
            return Ok(());
        }
        // Library functions of 16-bit floats are those of `f32`, with casts around them.
        let wide = |ty: &Type| if is_half(*ty) { Type::F32 } else { *ty };
        let wide_types: SmallVec<[Type; 4]> = types.iter().map(wide).collect();
        let operands = (0..operands.len()).map(|i| self.converted(operands[i], types[i], wide_types[i])).collect();
        let wide_results =
            (0..results.len()).map(|i| if is_half(result_types[i]) { self.scratch() } else { results[i] });
        let wide_results: Slots = wide_results.collect();
        self.call(PreparedCallee::Library(data.op, wide_types), operands, wide_results.clone())?;
        for (index, &ty) in result_types.iter().enumerate() {
            if let Some(cast) = evaluator(Op::Cast, &[Type::F32], ty)
                && is_half(ty)
            {
                self.evaluate(cast, results[index], &[wide_results[index]]);
            }
        }
        Ok(())
    }

    fn converted(&mut self, slot: Slot, from: Type, to: Type) -> Slot {
        match evaluator(Op::Cast, &[from], to) {
            Some(cast) if from != to => {
                let scratch = self.scratch();
                self.evaluate(cast, scratch, &[slot]);
                scratch
            }
            _ => slot,
        }
    }

    fn evaluate(&mut self, evaluator: OpEvaluator, to: Slot, operands: &[Slot]) {
        self.emit(match (evaluator, operands) {
            (OpEvaluator::Unary(f), &[x, ..]) => CodeStep::Unary { f, to, x },
            (OpEvaluator::Binary(f), &[a, b, ..]) => CodeStep::Binary { f, to, a, b },
            (OpEvaluator::Ternary(f), &[a, b, c, ..]) => CodeStep::Ternary { f, to, operands: [a, b, c] },
            // An evaluator is asked for with the operands' types, so that it takes as many.
            _ => return,
        });
    }

    fn call(&mut self, callee: PreparedCallee, args: Slots, results: Slots) -> Result<(), InterpError> {
        let (callee, need) = self.preparation.function(callee)?;
        self.callees_need = self.callees_need.max(need);
        let call = self.code.calls.len() as u32;
        self.code.calls.push(CallStep { callee, args, results });
        self.emit(CodeStep::Call { call });
        Ok(())
    }

    /// The element an instruction accesses, the operands after its indices, and the element's type.
    fn access(&mut self, inst: Inst, data: &InstData) -> (u32, Slots, Scalar) {
        let (elem, ndim) = self.func.ty(data.operands[0]).as_array().unwrap_or((Scalar::U8, 0));
        let indices = data.operands[1..].iter().take(ndim.into()).map(|&value| self.index(value)).collect();
        let access = self.code.accesses.len() as u32;
        self.code.accesses.push(ElementAccess { array: self.slots[data.operands[0]], indices, elem, inst });
        self.code.spans.insert(inst, data.span);
        (access, self.slots_of(&data.operands[1 + usize::from(ndim)..]), elem)
    }

    // ---- control flow
    // ------------------------------------------------------------------------------------------------

    fn enter(&mut self, inst: Inst, results: Slots, next: Option<(u32, Slots)>) -> u32 {
        let end = self.label();
        self.owners.push(OpenRegionInst { inst, end, results, next });
        end
    }

    fn leave(&mut self, end: u32) {
        self.owners.pop();
        self.bind(end);
    }

    fn lower_if(&mut self, inst: Inst, data: &InstData) -> Result<(), InterpError> {
        let results = self.slots_of(&data.results);
        let end = self.enter(inst, results, None);
        let otherwise = self.label();
        self.emit(CodeStep::JumpUnless { cond: self.slots[data.operands[0]], target: otherwise });
        self.region(data.regions[0])?;
        self.bind(otherwise);
        self.region(data.regions[1])?;
        self.leave(end);
        Ok(())
    }

    fn lower_for(&mut self, inst: Inst, data: &InstData) -> Result<(), InterpError> {
        let params = self.slots_of(&self.func.regions[data.regions[0]].params);
        let operands = self.slots_of(&data.operands);
        let results = self.slots_of(&data.results);
        let (counter, carried) = (params[0], Slots::from_slice(&params[1..]));
        let index = self.code.loops.len() as u32;
        let left = self.scratch();
        self.code.loops.push(ForLoop {
            ty: self.func.ty(data.operands[0]).as_scalar().unwrap_or(Scalar::I32),
            lo: operands[0],
            hi: operands[1],
            step: operands[2],
            counter,
            left,
        });
        let (next, body, done) = (self.label(), self.label(), self.label());
        self.copy(&carried, &operands[3..]);
        self.emit(CodeStep::ForEnter { index, exit: done });
        self.bind(body);
        let end = self.enter(inst, results.clone(), Some((next, carried.clone())));
        self.region(data.regions[0])?;
        self.bind(next);
        self.emit(CodeStep::ForNext { index, body });
        self.bind(done);
        self.copy(&results, &carried);
        self.leave(end);
        Ok(())
    }

    fn lower_while(&mut self, inst: Inst, data: &InstData) -> Result<(), InterpError> {
        let [condition, body] = [data.regions[0], data.regions[1]];
        let results = self.slots_of(&data.results);
        let carried = self.slots_of(&self.func.regions[condition].params);
        // The condition does not change what is carried, so that the body's parameters are the condition's.
        for (index, &param) in self.func.regions[body].params.iter().enumerate() {
            self.slots[param] = carried[index];
        }
        let inits = self.slots_of(&data.operands);
        self.copy(&carried, &inits);
        let (again, next, done) = (self.label(), self.label(), self.label());
        self.bind(again);
        let end = self.enter(inst, results.clone(), Some((next, carried.clone())));
        if let Some((&last, before)) = self.func.regions[condition].insts.split_last() {
            for &inst in before {
                self.inst(inst)?;
            }
            let data = &self.func.insts[last];
            if data.op == Op::Yield {
                self.emit(CodeStep::JumpUnless { cond: self.slots[data.operands[0]], target: done });
                self.region(body)?;
            } else {
                self.inst(last)?;
            }
        }
        self.bind(next);
        self.emit(CodeStep::Again { target: again });
        self.bind(done);
        self.copy(&results, &carried);
        self.leave(end);
        Ok(())
    }

    /// `yield`, `break` and `continue`.
    fn lower_jump(&mut self, data: &InstData) {
        let owner = match (data.op, &data.imm) {
            (Op::Yield, _) => self.owners.last(),
            (_, Imm::Target(target)) => self.owners.iter().rev().find(|owner| owner.inst == *target),
            _ => None,
        };
        let Some(owner) = owner else { return };
        let (label, to) = match &owner.next {
            Some((next, carried)) if data.op != Op::Break => (*next, carried.clone()),
            _ => (owner.end, owner.results.clone()),
        };
        let from = self.slots_of(&data.operands);
        self.copy(&to, &from);
        self.emit(CodeStep::Jump { target: label });
    }
}

fn axis(data: &InstData) -> u8 {
    match data.imm {
        Imm::Axis(axis) => axis,
        _ => 0,
    }
}

fn is_half(ty: Type) -> bool {
    ty.as_scalar().is_some_and(Scalar::is_half)
}

/// Returns what GPUs make of an `f32` number and another that is added to it in global memory, or taken from it.
fn flushed_sum<const SIGN: i32>(old: u64, value: u64) -> u64 {
    let flush = |x: f32| if x.is_subnormal() { f32::copysign(0.0, x) } else { x };
    let [old, value] = [old, value].map(|bits| flush(f32_of(bits)));
    flush(old + value * SIGN as f32).to_bits().into()
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Returns what `atomic_inc` and `atomic_dec` store.
fn count(op: Op, elem: Scalar) -> fn(u64, u64) -> u64 {
    /// Returns true if `a` is less than `b`, where the sign is bit `SIGN`, or there is none.
    fn less<const SIGN: u32>(a: u64, b: u64) -> bool {
        let flip = if SIGN == 0 { 0 } else { 1 << (SIGN - 1) };
        a ^ flip < b ^ flip
    }
    fn up<const SIGN: u32>(old: u64, limit: u64) -> u64 {
        // Less than a value of its type, so that one more is a value of its type; -1 and 1 more are 0.
        if less::<SIGN>(old, limit) { mask::<SIGN>(old.wrapping_add(1)) } else { 0 }
    }
    fn down<const SIGN: u32>(old: u64, limit: u64) -> u64 {
        if old == 0 || less::<SIGN>(limit, old) { limit } else { mask::<SIGN>(old.wrapping_sub(1)) }
    }
    fn mask<const SIGN: u32>(bits: u64) -> u64 {
        if SIGN == 0 { bits } else { bits & (u64::MAX >> (64 - SIGN)) }
    }
    let up_down: [fn(u64, u64) -> u64; 2] = match elem {
        Scalar::I8 => [up::<8>, down::<8>],
        Scalar::I16 => [up::<16>, down::<16>],
        Scalar::I32 => [up::<32>, down::<32>],
        Scalar::I64 => [up::<64>, down::<64>],
        _ => [up::<0>, down::<0>],
    };
    up_down[usize::from(op == Op::AtomicDec)]
}
