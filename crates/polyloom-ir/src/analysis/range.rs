//! Where the integers lie that every analysis of ranges begins with: coordinates of threads and counters of loops.
//!
//! A launch has fewer than 2^31 threads, and no block without one of them runs.

use super::interval::Interval;
use crate::arch::MAX_BLOCK_SIZE;
use crate::function::{Function, FunctionKind, Imm, InstData};
use crate::op::Op;

/// Returns what an op gives that says where a thread is in its launch, block or warp, or how many threads or blocks
/// there are; of other ops nothing.
pub fn of_coordinate(func: &Function, data: &InstData) -> Option<Interval> {
    let (low, high) = match (data.op, &data.imm) {
        (Op::Tid | Op::TidLinear, _) => (0, i128::from(i32::MAX) - 1),
        (Op::ThreadIdx, &Imm::Axis(axis)) => (0, last_thread_idx(func, axis).into()),
        (Op::BlockIdx, _) => (0, last_block_idx(func).into()),
        (Op::BlockDim, _) => (1, MAX_BLOCK_SIZE.into()),
        (Op::GridDim, _) => (1, i32::MAX.into()),
        (Op::LaneId | Op::WarpId, _) => (0, 31),
        _ => return None,
    };
    Some(Interval::new(low, high))
}

/// Returns what a loop counts through, by where its first number, its end and its step lie. Of a loop that never runs,
/// the least may be above the greatest.
pub fn of_counter(first: Interval, end: Interval, step: Interval) -> Interval {
    let mut up = Interval::new(first.low, end.high - 1);
    if let (Some(first), Some(step @ 1..)) = (first.single(), step.single()) {
        // The last multiple of the step.
        up.high -= (up.high - first).max(0) % step;
    }
    let down = Interval::new(end.low + 1, first.high);
    match step {
        _ if step.low > 0 => up,
        _ if step.high < 0 => down,
        _ => up.union(down),
    }
}

/// The comparison of integers that holds where another one does not.
pub fn negated(comparison: Op) -> Option<Op> {
    Some(match comparison {
        Op::Lt => Op::Ge,
        Op::Ge => Op::Lt,
        Op::Gt => Op::Le,
        Op::Le => Op::Gt,
        Op::Eq => Op::Ne,
        Op::Ne => Op::Eq,
        _ => return None,
    })
}

/// Leaves of a range the numbers `v` for which a comparison of `factor * v + constant` with 0 holds; an empty range ends
/// before it begins. False if a number between others does not belong to them, so that the range is left as it is.
#[inline]
pub fn narrow(range: &mut Interval, comparison: Op, factor: i128, constant: i128) -> bool {
    let Interval { low: first, high: last } = range;
    // A factor of 1 is not divided by, because division of such wide integers takes longer than all the rest of a
    // launch's tests.
    let floored = |number: i128, by: i128| if by == 1 { number } else { number.div_euclid(by) };
    let mut at_most = |factor: i128, constant: i128, is_less: bool| {
        let most = -constant - i128::from(is_less);
        match factor.signum() {
            1 => *last = (*last).min(floored(most, factor)),
            -1 => *first = (*first).max(-floored(most, -factor)),
            _ if most < 0 => *last = *first - 1,
            _ => {}
        }
    };
    match comparison {
        Op::Lt => at_most(factor, constant, true),
        Op::Le => at_most(factor, constant, false),
        Op::Gt => at_most(-factor, -constant, true),
        Op::Ge => at_most(-factor, -constant, false),
        Op::Eq => {
            at_most(factor, constant, false);
            at_most(-factor, -constant, false);
        }
        _ if factor == 0 && constant == 0 => *last = *first - 1,
        _ if factor != 0 && constant % factor == 0 => {
            let without = -constant / factor;
            match () {
                () if !(*first..=*last).contains(&without) => {}
                () if without == *first => *first += 1,
                () if without == *last => *last -= 1,
                () => return false,
            }
        }
        _ => {}
    }
    true
}

/// The greatest coordinate in its block, along an axis, of a thread that runs this.
fn last_thread_idx(func: &Function, axis: u8) -> u32 {
    let block = func.metadata.workgroup_size.filter(|_| func.kind == FunctionKind::Kernel);
    let extent = block.and_then(|block| block.get(usize::from(axis)).copied());
    extent.map_or(MAX_BLOCK_SIZE, |extent| extent.max(1)) - 1
}

/// The greatest coordinate, along any axis, of a block that runs this.
fn last_block_idx(func: &Function) -> u64 {
    let n_threads = match func.kind {
        FunctionKind::Kernel => func.metadata.workgroup_threads().max(1),
        FunctionKind::Func => 1,
    };
    (i32::MAX as u64 - 1) / n_threads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::FileId;
    use crate::text::parse_module;

    /// The range of the first instruction of the one function.
    fn of_first(text: &str) -> Interval {
        let module = parse_module(text, FileId::from_u32(0)).expect("it parses");
        let func = &module.functions[module.functions.keys().next().unwrap()];
        let first = func.regions[func.body].insts[0];
        of_coordinate(func, &func.insts[first]).expect("it is a coordinate")
    }

    #[test]
    fn blocks_are_as_many_as_2_31_threads_fill() {
        let text = "{\n  %b: i32 = block_idx 0\n  return\n}\n";
        let last = |size: &str| of_first(&format!("kernel @k() [workgroup_size = {size}] {text}")).high;
        assert_eq!(last("(256, 1, 1)"), 8_388_607);
        assert_eq!(last("(8, 8, 1)"), 33_554_431);
        assert_eq!(last("(65536, 65536, 1)"), 0);
        assert_eq!(last("(4294967295, 4294967295, 4294967295)"), 0);
        assert_eq!(of_first(&format!("kernel @k() {text}")), Interval::new(0, 2_147_483_646));
    }

    #[test]
    fn threads_are_in_the_block_of_their_kernel() {
        let text = "{\n  %t: i32 = thread_idx 1\n  return\n}\n";
        assert_eq!(of_first(&format!("kernel @k() [workgroup_size = (8, 4, 1)] {text}")), Interval::new(0, 3));
        assert_eq!(of_first(&format!("kernel @k() {text}")), Interval::new(0, 1023));
    }

    #[test]
    fn a_range_is_narrowed_to_where_a_comparison_holds() {
        // Tries every number.
        for comparison in [Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Eq, Op::Ne] {
            for (factor, constant) in (-3..=3).flat_map(|factor| (-7..=7).map(move |constant| (factor, constant))) {
                let holds = |v: i128| match (comparison, factor * v + constant) {
                    (Op::Lt, x) => x < 0,
                    (Op::Le, x) => x <= 0,
                    (Op::Gt, x) => x > 0,
                    (Op::Ge, x) => x >= 0,
                    (Op::Eq, x) => x == 0,
                    (_, x) => x != 0,
                };
                let wanted: Vec<i128> = (-4..=5).filter(|&v| holds(v)).collect();
                let mut range = Interval::new(-4, 5);
                let case = format!("{factor} * v + {constant} {comparison:?} 0");
                if narrow(&mut range, comparison, factor, constant) {
                    assert_eq!((range.low..=range.high).collect::<Vec<_>>(), wanted, "{case}");
                } else {
                    assert_eq!((range, wanted.len()), (Interval::new(-4, 5), 9), "{case}");
                }
            }
        }
    }

    #[test]
    fn counters_end_at_the_last_multiple_of_a_known_step() {
        let counter = |first: (i128, i128), end: (i128, i128), step: (i128, i128)| {
            let [first, end, step] = [first, end, step].map(|(low, high)| Interval::new(low, high));
            let found = of_counter(first, end, step);
            (found.low, found.high)
        };
        assert_eq!(counter((0, 0), (0, i32::MAX.into()), (16, 16)), (0, 2_147_483_632));
        assert_eq!(counter((3, 3), (10, 10), (4, 4)), (3, 7));
        assert_eq!(counter((0, 5), (0, 10), (4, 4)), (0, 9));
        assert_eq!(counter((9, 9), (0, 0), (-2, -2)), (1, 9));
        assert_eq!(counter((2, 2), (0, 8), (-1, 1)), (1, 7));
    }
}
