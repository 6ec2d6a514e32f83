//! `fold`: computes what is known and drops what is decided.
//!
//! Instructions whose operands are constants become constants, through [`polyloom_ir::eval`]; [`algebra`] rewrites
//! instructions by identities that keep every bit in strict mode; and control flow whose course is known is spliced
//! into the region around it: an `if` with a constant condition, a loop that runs once or never, a block that nothing
//! leaves early.

mod algebra;

use crate::analysis::exits::{falls_through, is_target_in};
use crate::edit::ValueReplacements;
use algebra::{FoldOutcome, simplify};
use polyloom_ir::{Function, Imm, Inst, Op, Region, Scalar, Span, Value, ValueDef, eval};
use smallvec::SmallVec;

/// Folds constants, applies identities and splices decided control flow, in one walk.
pub fn fold(func: &mut Function) {
    let body = func.body;
    let mut fold = ConstantFolder { func, replaced: ValueReplacements::default() };
    fold.region(body, false);
}

struct ConstantFolder<'f> {
    func: &'f mut Function,
    replaced: ValueReplacements,
}

/// Describes how a list of instructions ended.
#[derive(PartialEq, Eq)]
enum ListFlow {
    /// In the `yield` of the spliced region, so that what follows its owner goes on.
    On,
    /// In another terminator, which has been emitted.
    Ended,
}

/// A region whose instructions are emitted into the region around its owner.
#[derive(Clone, Copy)]
struct SplicedRegion<'a> {
    /// Breaks out of this instruction at the region's end count as its `yield`.
    owner: Inst,
    /// Holds what the region's `yield` defines.
    results: &'a [Value],
}

impl ConstantFolder<'_> {
    /// Folds a region in place. The condition of a `while` may end in `yield` and `unreachable` alone, so nothing that
    /// ends otherwise is spliced into it.
    fn region(&mut self, region: Region, is_condition: bool) {
        let capacity = self.func.regions[region].insts.len();
        let insts = std::mem::replace(&mut self.func.regions[region].insts, Vec::with_capacity(capacity));
        self.list(&insts, region, is_condition, None);
    }

    fn list(&mut self, insts: &[Inst], out: Region, is_condition: bool, splice: Option<SplicedRegion<'_>>) -> ListFlow {
        for &inst in insts {
            self.replaced.apply(&mut self.func.insts[inst].operands);
            let data = &self.func.insts[inst];
            if data.op.info().is_terminator() {
                if let Some(splice) = splice
                    && (data.op == Op::Yield || (data.op == Op::Break && data.imm == Imm::Target(splice.owner)))
                {
                    for (&result, &value) in splice.results.iter().zip(&self.func.insts[inst].operands) {
                        self.replaced.set(result, value);
                    }
                    return ListFlow::On;
                }
                self.emit(out, inst);
                return ListFlow::Ended;
            }
            if !data.regions.is_empty() {
                if self.control(inst, out, is_condition) == ListFlow::Ended {
                    return ListFlow::Ended;
                }
                continue;
            }
            match self.plain(inst, out) {
                FoldOutcome::Keep => self.emit(out, inst),
                FoldOutcome::Value(value) => {
                    let result = self.func.insts[inst].results[0];
                    self.replaced.set(result, value);
                }
                FoldOutcome::Drop => {}
            }
        }
        // Verified regions end in a terminator, so this is the end of a region that has none only while it is built.
        ListFlow::On
    }

    fn emit(&mut self, out: Region, inst: Inst) {
        self.func.regions[out].insts.push(inst);
    }

    /// An instruction without regions, its operands rewritten already.
    fn plain(&mut self, inst: Inst, out: Region) -> FoldOutcome {
        // Each round replaces the instruction by a simpler one, and no identity leads back.
        for _ in 0..8 {
            if let Some(bits) = self.evaluate(inst) {
                let data = &mut self.func.insts[inst];
                data.op = Op::Const;
                data.operands.clear();
                data.imm = Imm::Bits(bits);
                return FoldOutcome::Keep;
            }
            match simplify(self.func, inst, out) {
                Some(outcome) => return outcome,
                None => continue,
            }
        }
        FoldOutcome::Keep
    }

    fn evaluate(&self, inst: Inst) -> Option<u64> {
        let data = &self.func.insts[inst];
        if let (Op::Dim, Imm::Axis(axis)) = (data.op, &data.imm) {
            return self.shared_extent(data.operands[0], *axis);
        }
        if !(1..=3).contains(&data.operands.len()) || data.results.len() != 1 || !data.op.info().is_pure() {
            return None;
        }
        let mut bits: SmallVec<[u64; 3]> = SmallVec::new();
        for &operand in &data.operands {
            bits.push(self.func.as_const(operand)?);
        }
        let types: SmallVec<[_; 3]> = data.operands.iter().map(|&v| self.func.ty(v)).collect();
        eval::eval(data.op, &types, &bits, self.func.ty(data.results[0]))
    }

    /// An extent of a static shared array.
    fn shared_extent(&self, array: Value, axis: u8) -> Option<u64> {
        let ValueDef::Result(inst, _) = self.func.values[array].def else { return None };
        let Imm::Shared(array) = &self.func.insts[inst].imm else { return None };
        array.extents.get(usize::from(axis)).map(|&extent| extent.into())
    }

    fn control(&mut self, inst: Inst, out: Region, is_condition: bool) -> ListFlow {
        match self.func.insts[inst].op {
            Op::If => self.if_(inst, out, is_condition),
            Op::ForRange => self.for_range(inst, out, is_condition),
            Op::While => self.while_(inst, out, is_condition),
            _ => self.block(inst, out, is_condition),
        }
    }

    /// Folds the instructions of `region` into `out`.
    fn splice(&mut self, region: Region, out: Region, is_condition: bool, owner: Inst, results: &[Value]) -> ListFlow {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        self.list(&insts, out, is_condition, Some(SplicedRegion { owner, results }))
    }

    /// Returns true if `region` may be spliced into a region for which `is_condition` holds.
    fn may_splice(&self, region: Region, is_condition: bool) -> bool {
        let last = self.func.terminator(region).map(|inst| self.func.insts[inst].op);
        last == Some(Op::Yield) || !is_condition
    }

    fn if_(&mut self, inst: Inst, out: Region, is_condition: bool) -> ListFlow {
        let data = &self.func.insts[inst];
        let regions = [data.regions[0], data.regions[1]];
        if let Some(bits) = self.func.as_const(data.operands[0]) {
            let taken = regions[usize::from(bits == 0)];
            if self.may_splice(taken, is_condition) {
                let results = data.results.clone();
                return self.splice(taken, out, is_condition, inst, &results);
            }
        }
        self.region(regions[0], false);
        self.region(regions[1], false);
        self.emit(out, inst);
        if !falls_through(self.func, inst) {
            let end = self.func.make_inst(Op::Unreachable, [].as_slice(), &[], Imm::None, Span::NONE);
            self.emit(out, end);
            return ListFlow::Ended;
        }
        self.same_results(inst, regions);
        ListFlow::On
    }

    /// Values that both regions of an `if` yield need not go through it.
    fn same_results(&mut self, inst: Inst, regions: [Region; 2]) {
        let yielded = regions.map(|region| {
            let last = self.func.terminator(region)?;
            (self.func.insts[last].op == Op::Yield).then_some(last)
        });
        let [Some(then), Some(otherwise)] = yielded else { return };
        for (index, &result) in self.func.insts[inst].results.iter().enumerate() {
            let value = self.func.insts[then].operands[index];
            if value == self.func.insts[otherwise].operands[index] {
                self.replaced.set(result, value);
            }
        }
    }

    fn for_range(&mut self, inst: Inst, out: Region, is_condition: bool) -> ListFlow {
        let data = &self.func.insts[inst];
        let region = data.regions[0];
        let (operands, results) = (data.operands.clone(), data.results.clone());
        match self.trips(&operands) {
            Some(TripCount::None) => {
                for (&result, &init) in results.iter().zip(&operands[3..]) {
                    self.replaced.set(result, init);
                }
                return ListFlow::On;
            }
            Some(TripCount::One) if self.may_splice(region, is_condition) && !is_target_in(self.func, region, inst) => {
                let params = self.func.regions[region].params.clone();
                let values = std::iter::once(operands[0]).chain(operands[3..].iter().copied());
                for (&param, value) in params.iter().zip(values) {
                    self.replaced.set(param, value);
                }
                return self.splice(region, out, is_condition, inst, &results);
            }
            _ => {}
        }
        self.invariant_slots(inst, region, 3);
        self.region(region, false);
        self.emit(out, inst);
        ListFlow::On
    }

    fn trips(&self, operands: &[Value]) -> Option<TripCount> {
        let scalar = self.func.ty(operands[0]).as_scalar()?;
        let constant = |v: Value| self.func.as_const(v).map(|bits| signed(bits, scalar));
        let step = constant(operands[2]);
        if step == Some(0) || operands[0] == operands[1] {
            return Some(TripCount::None);
        }
        let (low, high, step) = (constant(operands[0])?, constant(operands[1])?, step?);
        let before_end = |counter: i128| if step > 0 { counter < high } else { counter > high };
        if !before_end(low) {
            Some(TripCount::None)
        } else if !before_end(low + step) {
            Some(TripCount::One)
        } else {
            None
        }
    }

    fn while_(&mut self, inst: Inst, out: Region, is_condition: bool) -> ListFlow {
        let data = &self.func.insts[inst];
        let (condition, body) = (data.regions[0], data.regions[1]);
        self.invariant_slots(inst, body, 0);
        self.region(condition, true);
        let data = &self.func.insts[inst];
        let (operands, results) = (data.operands.clone(), data.results.clone());
        let never = self.func.terminator(condition).is_some_and(|last| {
            let last = &self.func.insts[last];
            last.op == Op::Yield && self.func.as_const(last.operands[0]) == Some(0)
        });
        if never && !is_target_in(self.func, condition, inst) {
            let params = self.func.regions[condition].params.clone();
            for (&param, &init) in params.iter().zip(&operands) {
                self.replaced.set(param, init);
            }
            for (&result, &init) in results.iter().zip(&operands) {
                self.replaced.set(result, init);
            }
            return self.splice(condition, out, is_condition, inst, &[]);
        }
        self.region(body, false);
        self.emit(out, inst);
        ListFlow::On
    }

    fn block(&mut self, inst: Inst, out: Region, is_condition: bool) -> ListFlow {
        let region = self.func.insts[inst].regions[0];
        let leaves_itself = |fold: &Self, inner: Inst| {
            let data = &fold.func.insts[inner];
            data.regions.iter().any(|&region| is_target_in(fold.func, region, inst))
        };
        let left_early = self.func.regions[region].insts.iter().any(|&inner| leaves_itself(self, inner));
        let last = self.func.terminator(region).map(|last| &self.func.insts[last]);
        let completes = last.is_some_and(|last| last.op == Op::Yield || last.imm == Imm::Target(inst));
        if !left_early && (completes || !is_condition) {
            let results = self.func.insts[inst].results.clone();
            return self.splice(region, out, is_condition, inst, &results);
        }
        self.region(region, false);
        self.emit(out, inst);
        ListFlow::On
    }

    /// Loop-carried values that no iteration changes are their initial values.
    ///
    /// Looks at the body before it is folded: each of its `yield`s and `continue`s must hand on the very parameter.
    fn invariant_slots(&mut self, inst: Inst, body: Region, n_fixed: usize) {
        let n_slots = self.func.insts[inst].results.len();
        if n_slots == 0 {
            return;
        }
        let n_counters = self.func.regions[body].params.len() - n_slots;
        let mut next: SmallVec<[Inst; 4]> = SmallVec::new();
        let mut breaks: SmallVec<[Inst; 4]> = SmallVec::new();
        for &region in &self.func.insts[inst].regions {
            self.func.walk(region, &mut |exit, data| match data.op {
                Op::Continue if data.imm == Imm::Target(inst) => next.push(exit),
                Op::Break if data.imm == Imm::Target(inst) => breaks.push(exit),
                _ => {}
            });
        }
        next.extend(self.func.terminator(body).filter(|&last| self.func.insts[last].op == Op::Yield));
        for slot in 0..n_slots {
            let param = self.func.regions[body].params[n_counters + slot];
            let init = self.func.insts[inst].operands[n_fixed + slot];
            let given = |exit: Inst| self.replaced.get(self.func.insts[exit].operands[slot]);
            let hands_on = |exit: &Inst| given(*exit) == param || given(*exit) == init;
            if !next.iter().all(hands_on) {
                continue;
            }
            let broken = breaks.iter().all(hands_on);
            self.replaced.set(param, init);
            if self.func.insts[inst].op == Op::While {
                let condition = self.func.insts[inst].regions[0];
                let param = self.func.regions[condition].params[slot];
                self.replaced.set(param, init);
            }
            if broken {
                let result = self.func.insts[inst].results[slot];
                self.replaced.set(result, init);
            }
        }
    }
}

enum TripCount {
    None,
    One,
}

/// The number that the bits of an integer type stand for.
fn signed(bits: u64, scalar: Scalar) -> i128 {
    if scalar.is_signed_int() {
        let shift = 64 - scalar.bits();
        i128::from(((bits << shift) as i64) >> shift)
    } else {
        i128::from(bits)
    }
}

/// Returns true if the bounds of a `for_range` are constants between which there is an iteration.
pub(super) fn runs_at_least_once(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let constant = |v: Value| Some(signed(func.as_const(v)?, func.ty(v).as_scalar()?));
    let bounds = data.operands.get(..3).map(|bounds| [constant(bounds[0]), constant(bounds[1]), constant(bounds[2])]);
    match bounds {
        Some([Some(low), Some(high), Some(step)]) if data.op == Op::ForRange => {
            (step > 0 && low < high) || (step < 0 && low > high)
        }
        _ => false,
    }
}

/// Rewrites an instruction that is about to be appended to `out` where it simplifies to another instruction.
pub(super) fn simplify_in_place(func: &mut Function, inst: Inst, out: Region) {
    // If a value stands for it, a later `fold` finds that again.
    ConstantFolder { func, replaced: ValueReplacements::default() }.plain(inst, out);
}

/// Simplifies an instruction whose two operands are the same value: `x - x`, `min(x, x)`, `a and a`. Gives the value
/// that stands for it, if there is one.
pub(super) fn simplify_equal_operands(func: &mut Function, inst: Inst) -> Option<Value> {
    match algebra::equal_operands(func, inst)? {
        FoldOutcome::Value(value) => Some(value),
        FoldOutcome::Keep | FoldOutcome::Drop => None,
    }
}

/// Simplifies an instruction that a pass is about to append to `out`, and gives the value of its one result.
pub(super) fn append_simplified(func: &mut Function, inst: Inst, out: Region) -> Value {
    let mut fold = ConstantFolder { func, replaced: ValueReplacements::default() };
    match fold.plain(inst, out) {
        FoldOutcome::Value(value) => value,
        FoldOutcome::Keep | FoldOutcome::Drop => {
            fold.emit(out, inst);
            func.insts[inst].results[0]
        }
    }
}
