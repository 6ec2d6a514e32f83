//! What the tests around a statement have decided, so that nothing is asked twice.

use super::condition_tests::{ConditionTest, KnownTest, Roots, ValueBound};
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use super::sum_parts::SumParts;
use smallvec::smallvec;

impl KernelGenerator {
    /// Returns what a value comes from.
    pub(super) fn roots(&self, expr: &GeneratedExpr) -> Roots {
        if let [index] = expr.uses[..]
            && expr.is_bare()
            && expr.text != self.variables[index].text
        {
            return smallvec![SumParts::of(&expr.text).terms[0]];
        }
        let mut roots: Roots =
            expr.uses.iter().flat_map(|&index| self.variables[index].roots.iter().copied()).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// `a OPERATOR b` as a test.
    pub(super) fn ask(&self, operator: &str, a: &GeneratedExpr, b: &GeneratedExpr) -> ConditionTest {
        let mut roots = self.roots(a);
        roots.extend(self.roots(b));
        roots.sort_unstable();
        roots.dedup();
        let of = a.uses.first().copied().filter(|&index| a.uses.len() == 1 && self.variables[index].text == a.text);
        let (is_below, is_strict) = (operator.starts_with('<'), !operator.ends_with('='));
        // A fraction is not the bound of its range.
        let is_real = a.ty == self.real;
        let is_less = |low: f64, high: f64| low < high || is_real && low <= high;
        let is_plain = match operator {
            "<" | ">=" => is_less(a.range.high, b.range.low) || a.range.low >= b.range.high,
            ">" | "<=" => is_less(b.range.high, a.range.low) || a.range.high <= b.range.low,
            _ => false,
        };
        // A comparison of the last two whole numbers asks in a roundabout way which it is.
        let is_plain = is_plain || a.ty == self.whole && b.is_constant() && a.range.high - a.range.low < 2.0;
        let bounds = b.is_constant() && matches!(operator, "<" | ">" | "<=" | ">=");
        let bound = bounds.then_some(ValueBound { is_below, is_strict, at: b.range.low, is_bare: of.is_some() });
        ConditionTest { roots, bound, of, is_plain }
    }

    /// Returns true if the answer to one of a condition's tests follows from what is known.
    pub(super) fn is_decided(&self, condition: &GeneratedExpr) -> bool {
        match condition.asks.is_empty() {
            true => self.follows(&self.roots(condition), None),
            false => condition.asks.iter().any(|ask| ask.is_plain || self.follows(&ask.roots, ask.of)),
        }
    }

    fn follows(&self, roots: &Roots, of: Option<usize>) -> bool {
        // The next test takes account of a variable's known range.
        let is_other = |known: &&KnownTest| known.narrowed.is_none_or(|(index, _)| Some(index) != of);
        let others = || self.known.iter().filter(is_other);
        let alone = |root: &i64| others().any(|known| known.roots[..] == [*root]);
        !roots.is_empty() && (others().any(|known| known.roots == *roots) || roots.iter().all(alone))
    }

    /// From here on the condition holds, or does not.
    pub(super) fn learn(&mut self, condition: &GeneratedExpr, holds: bool) {
        if condition.asks.is_empty() {
            let roots = self.roots(condition);
            self.known.push(KnownTest { roots, narrowed: None });
        }
        let is_one = condition.asks.len() == 1;
        for ask in &condition.asks {
            let narrowed = match (ask.bound, ask.of) {
                (Some(bound), Some(index)) if is_one && bound.is_bare && !self.variables[index].changes => {
                    let bound = if holds { bound } else { bound.negated() };
                    let variable = &mut self.variables[index];
                    let before = variable.range;
                    let is_whole = variable.ty.as_scalar().is_some_and(|scalar| scalar.is_int());
                    let range = bound.narrowed(before, is_whole);
                    if range.low <= range.high {
                        variable.range = range;
                    }
                    Some((index, before))
                }
                _ => None,
            };
            self.known.push(KnownTest { roots: ask.roots.clone(), narrowed });
        }
    }

    /// Forgets after the body what is learnt in it.
    pub(super) fn learning<T>(&mut self, body: impl FnOnce(&mut KernelGenerator) -> T) -> T {
        let n_known = self.known.len();
        let done = body(self);
        for known in self.known.drain(n_known..).rev() {
            if let Some((index, before)) = known.narrowed {
                self.variables[index].range = before;
            }
        }
        done
    }
}
