//! Estimates how much a thread holds at a time, from the HIR alone.

use polyloom_ir::{Function, Op, Region, Type, Value};
use std::collections::HashMap;

/// The instructions of a function in order, by number, and where values are defined and used last.
#[derive(Default)]
struct LiveRanges {
    n_insts: u32,
    /// Holds, by value, where it is defined and where it is used last.
    ranges: HashMap<Value, (u32, u32)>,
}

/// Returns the most 32-bit words of values that are live at the same time, array arguments and constants not counted:
/// an estimate of the registers that a thread takes.
pub(super) fn max_live_words(function: &Function) -> u32 {
    let mut live = LiveRanges::default();
    live.region(function, function.body);
    let mut changes = vec![0i64; live.n_insts as usize + 2];
    for (&value, &(defined, last)) in &live.ranges {
        let words = i64::from(words(function.ty(value)));
        changes[defined as usize] += words;
        changes[last as usize + 1] -= words;
    }
    let held = changes.iter().scan(0, |held, change| {
        *held += change;
        Some(*held)
    });
    held.max().unwrap_or(0).try_into().unwrap_or(u32::MAX)
}

fn words(ty: Type) -> u32 {
    let scalars = ty.components();
    scalars.iter().filter_map(|ty| ty.as_scalar()).map(|scalar| scalar.bytes().div_ceil(4)).sum()
}

impl LiveRanges {
    /// Goes through a region.
    fn region(&mut self, function: &Function, region: Region) {
        for &param in &function.regions[region].params {
            self.define(param);
        }
        for &inst in &function.regions[region].insts {
            let data = &function.insts[inst];
            self.n_insts += 1;
            for &operand in &data.operands {
                self.use_(operand, self.n_insts);
            }
            let begin = self.n_insts;
            for &inner in &data.regions {
                self.region(function, inner);
            }
            if matches!(data.op, Op::ForRange | Op::While) {
                // Values from outside are live to the end of the loop, because the next iteration needs them as well.
                for range in self.ranges.values_mut() {
                    if range.0 < begin && range.1 > begin {
                        range.1 = self.n_insts;
                    }
                }
            }
            if data.op != Op::Const {
                data.results.iter().for_each(|&result| self.define(result));
            }
        }
    }

    fn define(&mut self, value: Value) {
        self.ranges.insert(value, (self.n_insts, self.n_insts));
    }

    fn use_(&mut self, value: Value, at: u32) {
        if let Some(range) = self.ranges.get_mut(&value) {
            range.1 = range.1.max(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, parse_module};

    fn max_live(body: &str) -> u32 {
        let text = format!("kernel @k(%x x: array<f32, 1>, %n n: i32) {{\n{body}\nreturn\n}}");
        let module = parse_module(&text, FileId::from_u32(0)).expect("the text is HIR");
        max_live_words(&module.functions[module.find("k").expect("it has a kernel `k`")])
    }

    #[test]
    fn values_count_from_their_definition_to_their_last_use() {
        assert_eq!(max_live(""), 1, "the parameter alone");
        let two = "%i: i32 = tid 0\n%j: i32 = add %i, %i\n%v: f32 = array_load %x, %j";
        assert_eq!(max_live(two), 2);
        let wide = "%i: i64 = cast %n\n%j: i64 = add %i, %i\n%k: i64 = add %i, %j\n%v: f32 = array_load %x, %k";
        assert_eq!(max_live(wide), 6);
    }
}
