//! A guess, from the HIR alone, of how long one thread of a kernel takes.
//!
//! It decides the very first launch of a variant (calling thread or pool, how large a chunk); from then on measured
//! time does. It only has to be right within a factor of ten or so.

use polyloom_ir::{FuncId, Function, Imm, Inst, InstData, Module, Op, Region};

/// Iterations assumed of a loop whose count is not in the code.
const UNKNOWN_TRIPS: f32 = 16.0;
/// Threads that may take longer than this by their code alone are not steady, because branches and early exits then
/// decide how much of it runs.
const LONGEST_STEADY_NS: f32 = 10_000.0;
/// Calls deeper than this are taken for one operation; HIR has no recursion, so it only bounds the walk.
const MAX_DEPTH: u32 = 8;

/// Describes what one thread costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ThreadCost {
    /// Estimated nanoseconds in code of the quick tier.
    pub(crate) ns: f32,
    /// True if no launch takes much longer a thread than another, because the code is short, with no loop whose count
    /// depends on arguments or data.
    pub(crate) steady: bool,
}

impl ThreadCost {
    /// The cost of one thread of `kernel`.
    pub(crate) fn of(module: &Module, kernel: FuncId) -> ThreadCost {
        let mut cost = ThreadCost { ns: 1.0, steady: true };
        if let Some(function) = module.functions.get(kernel) {
            cost.add_region(module, function, function.body, 1.0, 0);
        }
        cost.steady &= cost.ns < LONGEST_STEADY_NS;
        cost
    }

    fn add_region(&mut self, module: &Module, function: &Function, region: Region, times: f32, depth: u32) {
        for &inst in &function.regions[region].insts {
            self.add(module, function, inst, times, depth);
        }
    }

    fn add(&mut self, module: &Module, function: &Function, inst: Inst, times: f32, depth: u32) {
        let data = &function.insts[inst];
        let inner = match data.op {
            Op::ForRange => match constant_trips(function, data) {
                Some(trips) => times * trips,
                None => {
                    self.steady = false;
                    times * UNKNOWN_TRIPS
                }
            },
            Op::While => {
                self.steady = false;
                times * UNKNOWN_TRIPS
            }
            _ => times,
        };
        self.ns += times * nanoseconds(data.op);
        if let (Op::Call, &Imm::Func(callee)) = (data.op, &data.imm)
            && depth < MAX_DEPTH
            && let Some(callee) = module.functions.get(callee)
        {
            self.add_region(module, callee, callee.body, times, depth + 1);
        }
        for &region in &data.regions {
            self.add_region(module, function, region, inner, depth);
        }
    }
}

fn constant_trips(function: &Function, data: &InstData) -> Option<f32> {
    let bound = |index: usize| {
        let value = *data.operands.get(index)?;
        let scalar = function.ty(value).as_scalar()?;
        let unused = 64 - scalar.bits();
        // Sign-extends; unsigned bounds above i64::MAX count as unknown below.
        Some(((function.as_const(value)? << unused) as i64) >> unused)
    };
    let (low, high, step) = (bound(0)?, bound(1)?, bound(2)?);
    if step == 0 {
        return Some(0.0);
    }
    let trips = (high as f64 - low as f64) / step as f64;
    Some(trips.ceil().max(0.0) as f32)
}

/// Throughput of an op in scalar code of the quick tier, roughly.
fn nanoseconds(op: Op) -> f32 {
    use polyloom_ir::op::OpGroup;
    match (op, op.info().group) {
        (Op::Div | Op::Mod | Op::Sqrt, _) => 4.0,
        (Op::ArrayLoad | Op::ArrayStore, _) => 0.7,
        (Op::Print, _) => 500.0,
        (_, OpGroup::Atomic) => 5.0,
        // Pipelines run those that are not expanded into a call.
        (_, OpGroup::Random) => 10.0,
        _ => 0.3,
    }
}
