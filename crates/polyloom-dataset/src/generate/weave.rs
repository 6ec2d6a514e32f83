//! What kernels grown from a skeleton are woven of: named values, and expressions that depend on what they must.

use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use crate::catalogue::OperandNeed;
use crate::number_range::NumberRange;
use polyloom::Type;

impl KernelGenerator {
    /// A variable under one of these names with a value given as text.
    pub(super) fn let_like(&mut self, names: &[&str], value: &str, ty: Type, range: NumberRange) -> usize {
        let name = self.like(names);
        self.line(&format!("{name} = {value}"));
        self.declare(name.clone(), format!("`{name}`"), ty, range)
    }

    /// The text of a variable.
    pub(super) fn text(&self, index: usize) -> String {
        self.variables[index].text.clone()
    }

    /// An expression that depends on `base`, and on some of the others perhaps.
    pub(super) fn weave(&mut self, base: usize, others: &[usize], depth: usize) -> GeneratedExpr {
        let ty = self.variables[base].ty;
        if depth == 0 {
            return self.read(base);
        }
        let mut seen = vec![base];
        seen.extend(others);
        self.only(&seen, |g| {
            let n_lines = g.n_lines();
            for _ in 0..4 {
                let value = g.computed(ty, depth);
                // A value with a name is read by the rest.
                if value.uses.contains(&base) || g.n_lines() > n_lines {
                    return g.on(base, value);
                }
            }
            g.read(base)
        })
    }

    /// The value, and `base` if it is not in it.
    fn on(&mut self, base: usize, value: GeneratedExpr) -> GeneratedExpr {
        if value.uses.contains(&base) {
            return value;
        }
        let base = self.read(base);
        let range = base.range + value.range;
        GeneratedExpr::binary("+", &base, &value, base.ty, range)
    }

    /// A depth that differs from kernel to kernel.
    pub(super) fn some_depth(&mut self, difficulty: u8) -> usize {
        match difficulty {
            0 => self.random.below(2),
            1 | 2 => self.random.below(3),
            _ => 1 + self.random.below(2),
        }
    }

    /// Inputs beside those that the skeleton needs: numbers and elements for each thread.
    pub(super) fn extras(&mut self, difficulty: u8) -> Vec<usize> {
        let n = self.random.below(2 + usize::from(difficulty) / 2);
        (0..n)
            .map(|_| {
                let real = self.real;
                let (low, high) = self.limits(real);
                match self.random.below(3) {
                    0 => self.elements(real, low, high),
                    _ => self.scalar(real, low, high),
                }
            })
            .collect()
    }

    /// Statements that use these variables alone; what they declare is added to the list.
    pub(super) fn work(&mut self, seen: &mut Vec<usize>, count: usize, depth: usize) {
        for _ in 0..count {
            let first = self.variables.len();
            self.only(&seen.clone(), |g| {
                let types = g.types();
                let ty = g.random.pick(&types);
                let value = g.computed(ty, depth);
                g.assign_new(value);
            });
            for index in first..self.variables.len() {
                self.variables[index].visible = true;
                seen.push(index);
            }
        }
    }

    /// A value for an output: it takes in `base`, and all that has not been read.
    pub(super) fn concluded(&mut self, base: usize, others: &[usize], depth: usize) -> GeneratedExpr {
        let value = self.weave(base, others, depth);
        let value = self.with_unused(value);
        self.constrain(value, OperandNeed::Finite)
    }

    /// Tells that statements of the skeleton read the variables.
    pub(super) fn taken(&mut self, indices: &[usize]) {
        for &index in indices {
            self.variables[index].is_free = true;
        }
    }

    /// The variables' numbers from here on.
    pub(super) fn mark(&self) -> usize {
        self.variables.len()
    }

    /// A finite value of moderate size, woven as [`KernelGenerator::weave`] does.
    pub(super) fn moderate_weave(&mut self, base: usize, others: &[usize], depth: usize) -> GeneratedExpr {
        let value = self.weave(base, others, depth);
        let value = self.constrain(value, OperandNeed::Moderate);
        self.short(value)
    }

    /// A number and its place among those of a kind.
    pub(super) fn pick_number(&mut self, list: &[f64]) -> GeneratedExpr {
        let number = self.random.pick(list);
        self.number(number)
    }

    /// The range of sums of so many of these.
    pub(super) fn many(range: NumberRange, n: f64) -> NumberRange {
        NumberRange::new((range.low * n).min(0.0), (range.high * n).max(0.0))
    }
}
