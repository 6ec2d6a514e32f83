//! Branches that do the same whichever way they go.

use polyloom::{Function, Inst, Region, Value};
use rustc_hash::FxHashMap;

/// Returns true if both regions of a branch do the same, and something.
pub(super) fn are_alike(function: &Function, arms: &[Region]) -> bool {
    let [a, b] = arms else { return false };
    function.regions[*a].insts.len() > 1 && CodeMatching { function, named: FxHashMap::default() }.regions(*a, *b)
}

/// A comparison of two pieces of code, by what the values of one are called in the other.
struct CodeMatching<'a> {
    function: &'a Function,
    named: FxHashMap<Value, Value>,
}

impl CodeMatching<'_> {
    fn regions(&mut self, a: Region, b: Region) -> bool {
        let (a, b) = (&self.function.regions[a], &self.function.regions[b]);
        self.named.extend(a.params.iter().copied().zip(b.params.iter().copied()));
        a.params.len() == b.params.len()
            && a.insts.len() == b.insts.len()
            && a.insts.iter().zip(&b.insts).all(|(&a, &b)| self.insts(a, b))
    }

    fn insts(&mut self, a: Inst, b: Inst) -> bool {
        let (a, b) = (&self.function.insts[a], &self.function.insts[b]);
        let is_same = |(&a, &b): (&Value, &Value)| *self.named.get(&a).unwrap_or(&a) == b;
        let ty = |value: &Value| self.function.ty(*value);
        // Jumps to loops inside are to two loops, so that what has these is taken for two things.
        let is_alike = a.op == b.op
            && a.imm == b.imm
            && a.operands.len() == b.operands.len()
            && a.operands.iter().zip(&b.operands).all(is_same)
            && a.results.iter().map(ty).eq(b.results.iter().map(ty))
            && a.regions.len() == b.regions.len();
        self.named.extend(a.results.iter().copied().zip(b.results.iter().copied()));
        is_alike && a.regions.iter().zip(&b.regions).all(|(&a, &b)| self.regions(a, b))
    }
}
