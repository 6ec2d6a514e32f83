//! Kernels whose threads write to the same elements, so that the order makes no difference.

use super::elementwise::begin;
use super::expr::{BindingStrength, GeneratedExpr};
use super::generator::{KernelGenerator, held_together};
use super::program::{Category, DatasetProgram, ProgramExtent};
use crate::catalogue::OperandNeed;
use crate::number_range::NumberRange;
use polyloom::{Op, Random, Type};

/// A kernel of atomics.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Atomic);
    g.parameters(difficulty);
    let goal = g.goal(difficulty);
    let n_updates = match difficulty {
        0 | 1 => 1,
        2 => 1 + g.random.below(2),
        3 => 2 + g.random.below(2),
        _ => 3 + g.random.below(3),
    };
    g.fill(goal.saturating_sub(3 * n_updates), difficulty);
    for at in 0..n_updates {
        g.gap();
        if g.random.one_in(4) {
            let condition = g.condition_of_threads();
            let condition = condition.unwrap_or_else(|| g.condition(1));
            g.line(&format!("if {}:", condition.text));
            let done = g.nested(|g| g.update_shared(false, difficulty));
            g.say(format!("Where {}, {}.", condition.words, held_together(&done)));
            if at + 1 == n_updates {
                g.update_shared(true, difficulty);
            }
        } else {
            g.update_shared(at + 1 == n_updates, difficulty);
        }
    }
    g.finish(Category::Atomic)
}

impl KernelGenerator {
    /// An update of an element that other threads update too.
    fn update_shared(&mut self, is_last: bool, difficulty: u8) {
        let kind = self.random.below(7);
        let real = self.real;
        let n_bins = self.random.pick(&[4, 8, 10, 16, 32]);
        let two = self.random.one_in(6);
        let place = match self.random.below(6) {
            0 => None,
            _ => Some(self.bin(n_bins, difficulty)),
        };
        let (index, shape, at) = match (&place, two) {
            (None, _) => ("0".to_owned(), vec![ProgramExtent::Is(1)], "over all threads".to_owned()),
            (Some(place), false) => {
                let at = format!("in bin {} of {n_bins}", place.words);
                (place.text.clone(), vec![ProgramExtent::Is(n_bins)], at)
            }
            (Some(place), true) => {
                let second = self.bin(4, 0);
                let at = format!("in the bin of row {} and column {} of {n_bins} by 4", place.words, second.words);
                (format!("{}, {}", place.text, second.text), vec![ProgramExtent::Is(n_bins), ProgramExtent::Is(4)], at)
            }
        };
        let bins: &[&str] = match place {
            Some(_) => &["bins", "buckets", "totals", "tally", "binned"],
            None => &["sums", "totals", "joint"],
        };
        // Bits of all threads together are soon all set.
        let kind = if place.is_none() { kind.min(5) } else { kind };
        match kind {
            // Counts.
            0 | 1 => {
                let step = match is_last {
                    true => {
                        let ty = self.whole_or_real();
                        let value = self.computed(ty, 1);
                        let value = self.with_unused(value);
                        self.as_count(value)
                    }
                    false => GeneratedExpr::int(1),
                };
                let names: &[&str] = match (place.is_none(), step.is_constant()) {
                    (true, true) => &["count", "n_threads", "n_seen"],
                    (true, false) => &["sums", "sum_of_all", "joint"],
                    (false, true) => &["counts", "hits", "histogram", "bins", "tally"],
                    (false, false) => &["bins", "tally", "sums", "binned"],
                };
                let name = self.zeros_like(names, Type::I32, &shape);
                let step = self.short(step);
                self.add(&name, &index, &step);
                self.say(match step.is_constant() {
                    true if place.is_none() => format!("`{name}` counts the threads."),
                    true => format!("`{name}` counts the threads {at}."),
                    false => format!("`{name}` adds up {} {at}.", step.words),
                });
            }
            2 | 3 => {
                let value = self.computed(real, 1);
                let value = if is_last { self.with_unused(value) } else { value };
                // Sums of multiples of a half, a quarter and the like that are not too large are exact in any order.
                let value = self.constrain(value, OperandNeed::Finite);
                let value = self.constrain(value, OperandNeed::Moderate);
                let value = self.short(value);
                let parts = self.random.pick(&[8.0, 4.0, 16.0, 32.0, 2.0]);
                let scaled = self.times(&value, parts);
                let rounding = self.random.pick(&["floor", "ceil", "rint"]);
                let whole = GeneratedExpr::call(&self.builtin(rounding), &[&scaled], real, scaled.range);
                let (sign, number) = if self.random.one_in(2) { ("*", 1.0 / parts) } else { ("/", parts) };
                let step = GeneratedExpr::binary(sign, &whole, &self.number(number), real, value.range);
                let step = self.short(step);
                let name = self.zeros_like(bins, real, &shape);
                self.add(&name, &index, &step);
                self.say(format!("`{name}` adds up {} {at}.", step.words));
            }
            4 | 5 => {
                let value = self.computed(real, 1);
                let value = if is_last { self.with_unused(value) } else { value };
                let value = self.constrain(value, OperandNeed::Finite);
                // Otherwise the larger of it and zero would often be zero for all threads.
                let value = match value.range.low < 0.0 {
                    true => {
                        let value = self.short(value);
                        let size = value.range.size();
                        match size <= 50.0 && self.random.one_in(2) {
                            true => GeneratedExpr::binary("*", &value, &value, real, value.range.squared()),
                            false => GeneratedExpr::call(&self.builtin("abs"), &[&value], real, value.range.abs()),
                        }
                    }
                    false => value,
                };
                let largest = kind == 4;
                let value = match largest || value.binding < BindingStrength::Sum {
                    true => value,
                    false => GeneratedExpr::unary("-", &value, real, -value.range),
                };
                let value = self.short(value);
                let names = if largest { ["highest", "peak", "largest"] } else { ["lowest", "smallest", "least"] };
                let name = self.zeros_like(&names, real, &shape);
                let call = self.builtin(if largest { "atomic_max" } else { "atomic_min" });
                self.line(&format!("{call}({name}, {index}, {})", value.text));
                let (verb, word) = if largest { ("raised", "larger") } else { ("lowered", "smaller") };
                self.say(format!("`{name}` is {verb} to {} if that is {word}, {at}.", value.words));
            }
            _ => {
                let ty = self.whole_or_real();
                let value = self.computed(ty, 1);
                let value = if is_last { self.with_unused(value) } else { value };
                let value = self.as_count(value);
                let value = self.short(value);
                let name = self.zeros_like(&["mask", "flags", "bits", "marks"], Type::I32, &shape);
                let op = self.random.pick(&["atomic_or", "atomic_xor", "atomic_xor"]);
                let call = self.builtin(op);
                match op {
                    "atomic_or" if self.random.one_in(2) => {
                        self.line(&format!("{name}[{index}] |= 1 << {}", value.within_sum()));
                        self.say(format!("The bit of the number {} is set in `{name}`, {at}.", value.words));
                    }
                    _ => {
                        self.line(&format!("{call}({name}, {index}, {})", value.text));
                        let bits = if op == "atomic_or" { "OR" } else { "XOR" };
                        self.say(format!("`{name}` is combined with {} by bitwise {bits}, {at}.", value.words));
                    }
                }
            }
        }
    }

    fn add(&mut self, name: &str, index: &str, step: &GeneratedExpr) {
        match self.random.below(3) {
            0 => self.line(&format!("{name}[{index}] += {}", step.text)),
            _ => {
                let call = self.builtin("atomic_add");
                self.line(&format!("{call}({name}, {index}, {})", step.text));
            }
        }
    }

    /// A fraction that is about to be made a whole number: rounded in some way, or cut off.
    fn stepped(&mut self, value: GeneratedExpr) -> GeneratedExpr {
        let range = value.range.rising(f64::floor).or(value.range.rising(f64::ceil));
        match self.random.below(6) {
            0 => self.applied_within(Op::Floor, &[&value], range),
            1 => self.applied_within(Op::Round, &[&value], range),
            2 => self.applied_within(Op::Ceil, &[&value], range),
            _ => value,
        }
    }

    fn whole_or_real(&mut self) -> Type {
        let types: Vec<Type> = self.types().into_iter().filter(|ty| ty.as_composite().is_none()).collect();
        self.random.pick(&types)
    }

    /// A small number of the type `int`, from 0 on.
    fn as_count(&mut self, value: GeneratedExpr) -> GeneratedExpr {
        let value = match value.ty {
            Type::I32 => value,
            ty if ty == self.real => {
                let value = self.constrain(value, OperandNeed::Moderate);
                let value = self.short(value);
                let steps = self.random.pick(&[8.0, 16.0, 32.0]);
                let scaled = self.times(&value, steps);
                let range = scaled.range.rising(f64::floor);
                let inner = self.stepped(scaled);
                GeneratedExpr::call("int", &[&inner], Type::I32, range)
            }
            _ => GeneratedExpr::call("int", &[&value], Type::I32, value.range),
        };
        let value = self.short(value);
        let modulus = self.random.pick(&[7, 16, 31]);
        let size = self.size_of_count(value);
        if size.range.high < f64::from(modulus) {
            return size;
        }
        GeneratedExpr::binary(
            "%",
            &size,
            &GeneratedExpr::int(modulus),
            Type::I32,
            NumberRange::new(0.0, f64::from(modulus - 1)),
        )
    }

    /// The absolute value of an `int`.
    fn size_of_count(&self, value: GeneratedExpr) -> GeneratedExpr {
        match value.range.low >= 0.0 {
            true => value,
            false => GeneratedExpr::call(&self.builtin("abs"), &[&value], Type::I32, value.range.abs()),
        }
    }

    /// The number of a bin: an element of an array of them, or made of a value.
    fn bin(&mut self, n_bins: u32, difficulty: u8) -> GeneratedExpr {
        let real = self.real;
        let last = n_bins as i32 - 1;
        let range = NumberRange::new(0.0, last.into());
        if self.random.one_in(3) {
            let dim: Vec<ProgramExtent> = (0..self.indices.len()).map(|axis| ProgramExtent::Free(axis as u8)).collect();
            let names = &["keys", "labels", "cluster", "target", "bucket", "owner", "group"];
            let name = self.array_like(names, Type::I32, &dim, 0.0, last.into());
            let text = format!("{name}[{}]", self.indices.join(", "));
            let index = self.declare(text, format!("`{name}`"), Type::I32, range);
            self.taken(&[index]);
            return self.read(index);
        }
        let value = self.variable(real, usize::from(difficulty > 0));
        let value = self.constrain(value, OperandNeed::Finite);
        let value = self.short(value);
        let scale = self.random.pick(&[2.0, 4.0, 5.0, 8.0, 10.0]);
        let scaled = self.times(&value, scale);
        let scaled = self.constrain(scaled, OperandNeed::Finite);
        let range_of_whole = scaled.range.rising(f64::floor).or(scaled.range.rising(f64::ceil));
        let inner = self.stepped(scaled);
        let whole = GeneratedExpr::call("int", &[&inner], Type::I32, range_of_whole);
        let whole = self.short(whole);
        let bin = match self.random.below(2) {
            0 => {
                let size = self.size_of_count(whole);
                match size.range.high < f64::from(n_bins) {
                    true => size,
                    false => GeneratedExpr::binary("%", &size, &GeneratedExpr::int(n_bins as i32), Type::I32, range),
                }
            }
            _ if whole.range.lies_in(range) => whole,
            _ if whole.range.low >= 0.0 => {
                GeneratedExpr::call(&self.builtin("min"), &[&whole, &GeneratedExpr::int(last)], Type::I32, range)
            }
            _ => GeneratedExpr::call(
                &self.builtin("clamp"),
                &[&whole, &GeneratedExpr::int(0), &GeneratedExpr::int(last)],
                Type::I32,
                range,
            ),
        };
        if bin.is_bare() {
            return bin;
        }
        let name = self.like(&["bin_idx", "slot", "b", "cell", "at"]);
        self.line(&format!("{name} = {}", bin.text));
        self.explain(format!("Let `{name}` be {}.", bin.words));
        let index = self.declare(name.clone(), format!("`{name}`"), Type::I32, range);
        self.taken(&[index]);
        self.read(index)
    }
}
