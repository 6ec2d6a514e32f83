//! The generator's random choices, the same on every machine.

use polyloom_ir::generate;

/// A seeded source of random choices.
pub(super) struct SeededChoices(generate::Random);

impl SeededChoices {
    /// The source of a seed.
    pub(super) fn new(seed: u64) -> SeededChoices {
        SeededChoices(generate::Random::new(seed))
    }

    /// 64 random bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number from 0 to `n - 1`; `n` is at least 1.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    /// True in `percent` of 100 cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the items; there is at least one.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
