//! Estimates how often LLVM's loop vectoriser would ask whether the iterations of a loop share a value.
//!
//! It asks that of every value, and of a value's operands each time the value comes up (`vputils::isSingleScalar`, which
//! remembers no answer): a chain in which each value is used twice by the next takes time that doubles with each link.
//! Most of what all iterations share has been moved in front of the loop; there remain values that depend on an
//! operation that cannot be executed early, such as a division under a condition, and choices by a branch.

use cranelift_entity::SecondaryMap;
use polyloom_ir::op::{OpEffect, OpGroup};
use polyloom_ir::{Function, Imm, Inst, InstData, Module, Op, Region, Value};
use rustc_hash::FxHashMap;

/// The most questions: at about 10 ns each, more than a second of them.
const MOST_QUESTIONS: u64 = 1 << 27;
/// The most instructions of a loop after its iterations have been written out: LLVM writes out none that is longer.
const LONGEST_UNROLLED: u64 = 2_048;
/// The most iterations that LLVM writes out where it knows no more than a bound on their number.
const MOST_BOUNDED_ITERATIONS: u64 = 8;

/// Returns true if the loop vectoriser would not come to an end soon in one of the function's loops, or in the loop over
/// threads around its body.
pub(crate) fn exceeds_vectorizer_budget(module: &Module, func: &Function) -> bool {
    let mut loops = vec![func.body];
    func.walk(func.body, &mut |_, data| {
        // The condition of a `while` is part of what is repeated, and shorter than the body.
        loops.extend(data.regions.last().filter(|_| matches!(data.op, Op::ForRange | Op::While)));
    });
    loops.iter().any(|&body| Iteration::of(module, func, body).questions > MOST_QUESTIONS)
}

/// A value in an iteration, as far as it is known.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// True if all iterations may have the same.
    is_shared: bool,
    /// The questions until that is known.
    questions: u64,
    /// True if it can be computed before the loop. Of the condition under which code is executed: if there is none.
    is_early: bool,
}

impl Default for Shared {
    /// Returns a value that is there before the loop.
    fn default() -> Shared {
        Shared { is_shared: true, questions: 1, is_early: true }
    }
}

impl Shared {
    /// A value that differs between iterations, as LLVM sees at once.
    const DIFFERS: Shared = Shared { is_shared: false, questions: 1, is_early: false };

    /// Returns a value in the loop that is shared if all these are: they are asked in order, up to the first that is not.
    fn if_all(operands: impl IntoIterator<Item = Shared>) -> Shared {
        let mut all = Shared { is_early: false, ..Shared::default() };
        for operand in operands {
            all.questions = all.questions.saturating_add(operand.questions);
            all.is_shared = operand.is_shared;
            if !all.is_shared {
                break;
            }
        }
        all
    }
}

/// The values of one iteration of a loop, loops inside written out.
struct Iteration<'a> {
    module: &'a Module,
    func: &'a Function,
    values: SecondaryMap<Value, Shared>,
    /// The values that loops and blocks were left with so far.
    exits: FxHashMap<Inst, Vec<Shared>>,
    /// The values that the function returned so far.
    returned: Vec<Shared>,
    questions: u64,
}

impl<'a> Iteration<'a> {
    /// An iteration of the loop with this body; the function's own stands for the loop over threads.
    fn of(module: &'a Module, func: &'a Function, body: Region) -> Iteration<'a> {
        let mut iteration = Iteration::new(module, func);
        if body != func.body {
            for &param in &func.regions[body].params {
                iteration.values[param] = Shared::DIFFERS;
            }
        }
        iteration.region(body, Shared::default());
        iteration
    }

    fn new(module: &'a Module, func: &'a Function) -> Iteration<'a> {
        let (values, exits) = (SecondaryMap::new(), FxHashMap::default());
        Iteration { module, func, values, exits, returned: Vec::new(), questions: 0 }
    }

    /// Walks a region that is executed under `mask`. Returns what it yields.
    fn region(&mut self, region: Region, mask: Shared) -> Vec<Shared> {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            if self.questions > MOST_QUESTIONS {
                break;
            }
            let data = &func.insts[inst];
            let operands: Vec<_> = data.operands.iter().map(|&operand| self.values[operand]).collect();
            match data.op {
                Op::Yield => return operands,
                Op::Break | Op::Continue => {
                    if let Imm::Target(target) = data.imm {
                        join(self.exits.entry(target).or_default(), &operands, mask);
                    }
                }
                Op::Return => join(&mut self.returned, &operands, mask),
                _ => {
                    let results = self.inst(inst, data, &operands, mask);
                    for (index, &result) in data.results.iter().enumerate() {
                        let found = results.get(index).copied().unwrap_or_default();
                        self.values[result] = found;
                        self.questions = self.questions.saturating_add(found.questions);
                    }
                }
            }
        }
        Vec::new()
    }

    fn inst(&mut self, inst: Inst, data: &InstData, operands: &[Shared], mask: Shared) -> Vec<Shared> {
        let info = data.op.info();
        match data.op {
            Op::If => {
                let mask = Shared::if_all(std::iter::once(mask).chain(operands.iter().copied()));
                let mut results = self.region(data.regions[0], mask);
                join(&mut results, &self.region(data.regions[1], mask), mask);
                results
            }
            Op::Block => {
                let mut results = self.region(data.regions[0], mask);
                join(&mut results, &self.exits.remove(&inst).unwrap_or_default(), mask);
                results
            }
            Op::ForRange | Op::While => self.unrolled(inst, data, operands, mask),
            Op::Call => self.call(data, operands, mask),
            // All lanes of a group have its results from elsewhere.
            _ if info.group == OpGroup::Index && operands.is_empty() => vec![Shared::DIFFERS; data.results.len()],
            // LLVM looks no further than a load's address or an operation with an effect.
            _ if info.effect != OpEffect::Pure => {
                let is_shared = operands.iter().all(|operand| operand.is_shared);
                vec![Shared { is_shared, questions: 1, is_early: false }; data.results.len()]
            }
            _ if operands.iter().all(|operand| operand.is_early) && (mask.is_early || !may_trap(data.op)) => {
                vec![Shared::default(); data.results.len()]
            }
            _ => vec![Shared::if_all(operands.iter().copied()); data.results.len()],
        }
    }

    /// Walks the iterations of a loop that may be written out, and gives its results. Where another loop remains inside
    /// of one, LLVM leaves the outer one alone: what the inner one computes then does not matter.
    fn unrolled(&mut self, inst: Inst, data: &InstData, operands: &[Shared], mask: Shared) -> Vec<Shared> {
        let func = self.func;
        let n_iterations = unrolled_iterations(func, data);
        let is_range = data.op == Op::ForRange;
        let mut carried = operands[if is_range { 3 } else { 0 }..].to_vec();
        let mut results = Vec::new();
        if n_iterations == 0 {
            return vec![Shared::DIFFERS; data.results.len()];
        }
        for _ in 0..n_iterations {
            let mut mask = mask;
            for &region in &data.regions {
                let counter = is_range.then(Shared::default);
                for (&param, value) in
                    func.regions[region].params.iter().zip(counter.into_iter().chain(carried.clone()))
                {
                    self.values[param] = value;
                }
                let yielded = self.region(region, mask);
                if !is_range && region == data.regions[0] {
                    // The condition: a loop may end here, each time with other values.
                    mask = Shared::if_all(std::iter::once(mask).chain(yielded));
                    join(&mut results, &carried, mask);
                } else {
                    carried = yielded;
                }
            }
            if let Some(left) = self.exits.remove(&inst) {
                // `continue` and `break` alike: both are choices between this iteration's values and others.
                join(&mut results, &left, mask);
                join(&mut carried, &left, mask);
            }
        }
        join(&mut results, &carried, mask);
        results
    }

    /// A call that LLVM may write out in place.
    fn call(&mut self, data: &InstData, operands: &[Shared], mask: Shared) -> Vec<Shared> {
        let callee = match data.imm {
            Imm::Func(callee) => self.module.functions.get(callee),
            _ => None,
        };
        let Some(callee) = callee else { return vec![Shared::DIFFERS; data.results.len()] };
        let mut inner = Iteration::new(self.module, callee);
        for (&param, &operand) in callee.params().iter().zip(operands) {
            inner.values[param] = operand;
        }
        inner.region(callee.body, mask);
        self.questions = self.questions.saturating_add(inner.questions);
        inner.returned
    }
}

/// Returns true of operations that are not executed where the program does not.
fn may_trap(op: Op) -> bool {
    matches!(op, Op::Div | Op::FloorDiv | Op::Mod)
}

/// Makes each value a choice between itself and another, by `mask`.
fn join(values: &mut Vec<Shared>, others: &[Shared], mask: Shared) {
    if values.is_empty() {
        values.extend_from_slice(others);
        return;
    }
    for (value, &other) in values.iter_mut().zip(others) {
        *value = Shared::if_all([*value, other, mask]);
    }
}

/// The most iterations of a loop that LLVM may write out; 0 if it leaves the loop as it is.
fn unrolled_iterations(func: &Function, data: &InstData) -> u64 {
    let constant = |index: usize| data.operands.get(index).and_then(|&operand| func.as_const(operand));
    let known = match (constant(0), constant(1), constant(2)) {
        (Some(start), Some(end), Some(step)) if data.op == Op::ForRange => {
            // Signs and widths do not matter: a loop that is short either way is short.
            let (distance, step) = ((end as i32).abs_diff(start as i32), (step as i32).unsigned_abs());
            (step != 0).then(|| u64::from(distance.div_ceil(step)))
        }
        _ => None,
    };
    let n_iterations = known.unwrap_or(MOST_BOUNDED_ITERATIONS);
    let length = data.regions.iter().fold(0u64, |sum, &region| sum.saturating_add(unrolled_length(func, region)));
    if n_iterations.saturating_mul(length) > LONGEST_UNROLLED { 0 } else { n_iterations }
}

/// Instructions of a region once the loops in it are written out.
fn unrolled_length(func: &Function, region: Region) -> u64 {
    let insts = func.regions[region].insts.iter().map(|&inst| &func.insts[inst]);
    insts.fold(0, |sum: u64, data| {
        let regions = data.regions.iter();
        let inner = regions.fold(0u64, |sum, &region| sum.saturating_add(unrolled_length(func, region)));
        let times = match data.op {
            Op::ForRange | Op::While => unrolled_iterations(func, data).max(1),
            _ => 1,
        };
        sum.saturating_add(1).saturating_add(inner.saturating_mul(times))
    })
}
