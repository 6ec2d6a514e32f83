//! Loops, and what their rounds do.

use crate::catalogue::{OpTrait, OperandNeed};
use crate::generate::elementwise;
use crate::generate::expr::GeneratedExpr;
use crate::generate::generator::{GeneratedVariable, KernelGenerator, capitalised, held_together};
use crate::generate::program::{Category, DatasetProgram};
use crate::number_range::NumberRange;
use polyloom::{Op, Random, Type};

/// The most iterations that ranges of accumulators are worked out for.
const MOST: f64 = 100.0;

/// Describes what a loop counts, by the text of its bounds and in words; of values that the launch decides those that
/// are certain.
struct LoopBounds {
    text: String,
    words: String,
    values: Vec<i32>,
}

/// A loop's index, and the values that it has.
struct LoopIndex {
    index: usize,
    values: Vec<i32>,
}

/// A kernel about loops.
pub(in crate::generate) fn loops(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = elementwise::begin(random, Category::Loop);
    g.parameters(difficulty);
    let size = usize::from(difficulty);
    let n_before = g.random.below(1 + size);
    g.statements(n_before, 1);
    let goal = g.goal(difficulty);
    for at in 0..8 {
        if at > 0 && g.n_lines() >= goal {
            break;
        }
        g.gap();
        match g.random.below(8) {
            0 => g.polynomial(),
            1 => g.fixed_point(),
            2 => g.series(),
            _ => g.any_loop(usize::from(difficulty > 1) + usize::from(difficulty > 2)),
        }
        if g.random.one_in(3) {
            g.statements(1, 1);
        }
    }
    g.gap();
    g.outputs(1 + usize::from(difficulty > 2));
    g.finish(Category::Loop)
}

impl KernelGenerator {
    /// Changes a variable in a loop, so that it stays in a range that the loop's length decides.
    fn accumulate(&mut self, target: usize, first: usize) {
        let (ty, name) = (self.variables[target].ty, self.variables[target].text.clone());
        let value = self.variable(ty, 2);
        let value = self.with_unused_from(value, first);
        let value = self.of_more_than_counts(value);
        let value = self.constrain(value, OperandNeed::Moderate);
        let value = self.fitting(value);
        let (mut value, is_negative) = self.with_sign(value);
        // The same in each round is no loop's work.
        let mut is_same = !self.moves(&value);
        if is_same && let Some(counter) = self.counter_for(ty) {
            value = self.at_count(value, &counter);
            is_same = false;
        }
        let grows = value.range.high;
        let is_number = ty.as_composite().is_none();
        // The larger of numbers one of which always is, is no change.
        let start = self.variables[target].start;
        let takes_itself = value.uses.contains(&target);
        // Nor is that of what always rises: it is the last one.
        let turns = !takes_itself && !self.keeps_on(&value);
        let (rises, falls) = (turns && value.range.high > start.high, turns && value.range.low < start.low);
        let (line, words) = match if is_same { 5 } else { self.random.below(12) } {
            _ if is_negative => (format!("{name} -= {}", value.text), format!("take {} from `{name}`", value.words)),
            0..=3 => (format!("{name} += {}", value.text), format!("add {} to `{name}`", value.words)),
            4 => (format!("{name} -= {}", value.text), format!("take {} from `{name}`", value.words)),
            5 | 8 if ty != self.whole && !takes_itself => {
                let factor = self.random.pick(&[0.5, 0.9, 0.25, 0.75, 0.8]);
                let elem = ty.as_composite().map_or(ty, |composite| composite.elem().into());
                let factor = self.number_of(elem, factor);
                (
                    format!("{name} = {} * {name} + {}", factor.text, value.within_sum()),
                    format!("multiply `{name}` by {} and add {}", factor.words, value.words),
                )
            }
            6 if is_number && rises => {
                let call = self.builtin("max");
                (
                    format!("{name} = {call}({name}, {})", value.text),
                    format!("raise `{name}` to at least {}", value.words),
                )
            }
            7 if is_number && falls => {
                let call = self.builtin("min");
                (
                    format!("{name} = {call}({name}, {})", value.text),
                    format!("lower `{name}` to at most {}", value.words),
                )
            }
            _ => (format!("{name} += {}", value.text), format!("add {} to `{name}`", value.words)),
        };
        self.line(&line);
        self.explain(format!("{}.", capitalised(&words)));
        let becomes = &mut self.variables[target].becomes;
        *becomes = Some(NumberRange::of(becomes.map_or(grows, |before| before.high.min(grows))));
    }

    /// The value as it is in a round: so that no formula gives the sum of all, not a multiple of what is counted.
    fn at_count(&mut self, value: GeneratedExpr, counter: &GeneratedExpr) -> GeneratedExpr {
        let (ty, range) = (value.ty, value.range * counter.range);
        if ty == self.whole {
            let value = self.short(value);
            let product = GeneratedExpr::binary("*", &value, counter, ty, range);
            let modulus = self.random.pick(&[7, 11, 13]);
            let rest = NumberRange::within(f64::from(modulus - 1));
            return GeneratedExpr::binary("%", &product, &self.int(modulus), ty, rest);
        }
        if ty == self.real && self.random.one_in(2) {
            let value = self.short(value);
            let product = GeneratedExpr::binary("*", &value, counter, ty, range);
            let wave = self.random.pick(&[Op::Sin, Op::Cos]);
            return self.applied_within(wave, &[&product], NumberRange::within(1.0));
        }
        let one = self.number_of(counter.ty, 1.0);
        let divisor = GeneratedExpr::binary("+", &one, counter, counter.ty, counter.range.abs() + NumberRange::of(1.0));
        let value = self.short(value);
        GeneratedExpr::binary("/", &value, &divisor, ty, value.range.or(NumberRange::of(0.0)))
    }

    /// The value, times something else if it comes from nothing but what loops count, because of that alone a formula
    /// would do.
    fn of_more_than_counts(&mut self, value: GeneratedExpr) -> GeneratedExpr {
        let ty = value.ty;
        if !self.only_counts(&value) {
            return value;
        }
        let elem = ty.as_composite().map_or(ty, |composite| composite.elem().into());
        let is_number = |variable: &GeneratedVariable| variable.ty == self.real || variable.ty == self.whole;
        let fits = |variable: &GeneratedVariable| {
            variable.visible && is_number(variable) && !variable.counts && !variable.changes
        };
        let mut others: Vec<usize> = (0..self.variables.len()).filter(|&index| fits(&self.variables[index])).collect();
        others.sort_by_key(|&index| self.variables[index].ty != elem);
        for index in others {
            let other = self.read(index);
            if self.only_counts(&other) {
                continue;
            }
            let other =
                if elem == self.whole && other.ty != elem { self.as_whole(other) } else { self.cast(other, elem) };
            let (value, other) = (self.short(value), self.short(other));
            let range = value.range * other.range;
            return GeneratedExpr::binary("*", &other, &value, ty, range);
        }
        value
    }

    /// Returns true if nothing but what loops count changes the value from round to round, and no wave is made of that.
    fn keeps_on(&self, value: &GeneratedExpr) -> bool {
        let mut moving = value.uses.iter().filter(|&&index| self.variables[index].moves);
        let is_counted = |&index: &usize| self.only_counts_of(&self.variables[index].roots);
        !value.has(OpTrait::Cycles) && moving.all(is_counted)
    }

    /// Returns true if the value is another in each round of the loop.
    fn moves(&self, value: &GeneratedExpr) -> bool {
        value.uses.iter().any(|&index| self.variables[index].moves)
    }

    /// Returns what a loop counts, as a factor of this type's values.
    fn counter_for(&mut self, ty: Type) -> Option<GeneratedExpr> {
        let elem = ty.as_composite().map_or(ty, |composite| composite.elem().into());
        let counts = |variable: &GeneratedVariable| {
            let is_number = variable.ty == Type::I32 || variable.ty == elem;
            variable.visible && variable.counts && is_number && variable.range.size() <= 16.0
        };
        let index = self.variables.iter().rposition(counts)?;
        let counter = self.read(index);
        Some(self.cast(counter, elem))
    }

    /// Variables that a loop changes.
    fn accumulators(&mut self) -> Vec<usize> {
        let n = 1 + self.random.below(2) * self.random.below(2);
        let mut begun = Vec::new();
        for _ in 0..n {
            // A variable that has only begun is a number still.
            let next = self.without(begun.clone(), KernelGenerator::accumulator);
            begun.push(next);
        }
        begun
    }

    fn accumulator(&mut self) -> usize {
        let ty = self.some_type();
        let start = match self.random.below(4) {
            0 | 3 => {
                let value = self.variable(ty, 1);
                let value = self.constrain(value, OperandNeed::Moderate);
                if ty.as_composite().is_some() { self.more_than_bare(value) } else { value }
            }
            1 => self.constant(ty),
            _ => self.zero(ty),
        };
        let step = if ty == self.whole { 128.0 } else { 16.0 };
        self.mutable(&start, NumberRange::within(step * MOST))
    }

    /// Zeros of the type.
    pub(in crate::generate) fn zero(&self, ty: Type) -> GeneratedExpr {
        match ty {
            _ if ty == self.whole => self.int(0),
            Type::I32 => GeneratedExpr::int(0),
            Type::Scalar(_) => self.number_of(ty, 0.0),
            _ => {
                let mut zero = GeneratedExpr::atom(format!("{}()", self.type_name(ty)), ty, NumberRange::of(0.0));
                zero.words = "zero".to_owned();
                zero
            }
        }
    }

    /// A loop of any kind, with loops in it if `depth` allows.
    pub(in crate::generate) fn any_loop(&mut self, depth: usize) {
        let targets = self.accumulators();
        for &target in &targets {
            self.variables[target].is_free = true;
            self.variables[target].moves = true;
        }
        self.loop_over(&targets, depth);
        for target in targets {
            self.must_be_read(target);
        }
    }

    fn loop_over(&mut self, targets: &[usize], depth: usize) {
        if self.random.one_in(4) {
            return self.while_loop(targets, depth);
        }
        let name = self.like(&["i", "j", "k", "n", "step", "s", "it"]);
        let LoopBounds { text, words, values } = self.bounds_of_loop();
        let head = self.n_lines();
        self.line(&format!("for {name} in range({text}):"));
        let given = words.ends_with('`').then(|| text.clone());
        let done = self.nested(|g| {
            let high = values.iter().copied().max().unwrap_or_default();
            let low = values.iter().copied().min().unwrap_or_default();
            let range = NumberRange::new(low.into(), if given.is_some() { 9.0 } else { high.into() });
            let index = g.declare_index(&name, Type::I32, range);
            g.body(targets, depth, Some(&LoopIndex { index, values: values.clone() }));
        });
        if self.is_read_from(head + 1, &name) {
            return self.explain(format!("For each `{name}` {words}: {done}."));
        }
        // A variable that is never read only counts rounds.
        let (count, times) = match given {
            Some(given) => (given.clone(), format!("`{given}` times")),
            None => (values.len().to_string(), format!("{} times", values.len())),
        };
        let name = if self.names.take("_") { "_" } else { &name };
        self.rewrite_line(head, &format!("for {name} in range({count}):"));
        self.explain(format!("{}: {done}.", capitalised(&times)));
    }

    /// Returns what a loop counts from and to.
    fn bounds_of_loop(&mut self) -> LoopBounds {
        let (text, words, values): (String, String, Vec<i32>) = match self.random.below(6) {
            0 | 1 => {
                let n = self.random.pick(&[2, 3, 4, 5, 6, 8, 10]);
                (n.to_string(), format!("below {n}"), (0..n).collect())
            }
            2 => {
                let low = 1 + self.random.below(3) as i32;
                let high = low + 2 + self.random.below(6) as i32;
                (format!("{low}, {high}"), format!("from {low} to {}", high - 1), (low..high).collect())
            }
            3 => {
                let (high, step) = (6 + self.random.below(8) as i32, self.random.pick(&[2, 3]));
                let words = format!("below {high} in steps of {step}");
                (format!("0, {high}, {step}"), words, (0..high).step_by(step).collect())
            }
            _ => {
                let names = ["count", "n_steps", "iterations", "n_terms", "order", "rounds", "n_samples"];
                let name = self.scalar_like(&names, Type::I32, 2.0, 9.0);
                (name.clone(), format!("below `{name}`"), vec![0, 1])
            }
        };
        LoopBounds { text, words, values }
    }

    /// Describes a loop whose index is the variable declared last.
    fn body(&mut self, targets: &[usize], depth: usize, counter: Option<&LoopIndex>) {
        // A variable that changes in each round of an outer loop is the same in all rounds of this one.
        let last = self.variables.len() - 1;
        let before: Vec<bool> = self.variables.iter().map(|variable| variable.moves).collect();
        for (index, variable) in self.variables.iter_mut().enumerate() {
            variable.moves = index == last || targets.contains(&index);
        }
        // A product with what begins with zero stays there.
        let zeros =
            targets.iter().copied().filter(|&target| self.variables[target].start == NumberRange::of(0.0)).collect();
        self.learning(|g| g.without(zeros, |g| g.statements_of_body(targets, depth, counter)));
        for (variable, moves) in self.variables.iter_mut().zip(before) {
            variable.moves = moves;
        }
    }

    /// Statements that do not read these variables.
    pub(in crate::generate) fn without<T>(
        &mut self,
        hidden: Vec<usize>,
        body: impl FnOnce(&mut KernelGenerator) -> T,
    ) -> T {
        let before: Vec<bool> =
            hidden.iter().map(|&index| std::mem::replace(&mut self.variables[index].visible, false)).collect();
        let done = body(self);
        for (index, was) in hidden.into_iter().zip(before) {
            self.variables[index].visible = was;
        }
        done
    }

    fn statements_of_body(&mut self, targets: &[usize], depth: usize, counter: Option<&LoopIndex>) {
        let first = self.variables.len();
        // Values computed before a guard are read by the guard; otherwise they would be for nothing where it holds.
        if self.random.one_in(5) {
            // One that holds of what is never reached then holds for ever. A `break` at an index is a shorter loop.
            let goes_on = self.random.below(3) < 2;
            let hidden = if goes_on { targets.to_vec() } else { Vec::new() };
            self.without(hidden, |g| g.guard(goes_on, counter.filter(|_| goes_on)));
        }
        let n_before = self.random.below(2 + depth);
        self.moving_statements(n_before);
        if depth > 0 && self.random.one_in(2) {
            let condition = if self.random.one_in(2) { None } else { self.inline_condition_of(counter) };
            match condition {
                None => self.loop_over(targets, depth - 1),
                Some(condition) => {
                    self.line(&format!("if {}:", condition.text));
                    let done = self.learning(|g| {
                        g.learn(&condition, true);
                        g.nested(|g| g.accumulate_all(targets, first))
                    });
                    self.explain(format!("Where {}, {}.", condition.words, held_together(&done)));
                }
            }
        }
        if let Some(counter) = counter.filter(|_| self.random.one_in(2)) {
            self.use_index(counter.index);
        }
        self.accumulate_all(targets, first);
        if self.random.one_in(8) {
            let target = self.random.pick(targets);
            let value = self.read(target);
            if value.ty.as_composite().is_some() {
                return;
            }
            // It must be more than the start, and come within reach.
            let n_rounds = counter.map_or(4, |counter| counter.values.len().max(2)) as f64;
            let grows = self.variables[target].becomes.map_or(0.0, |range| range.high);
            let start = self.variables[target].start.high;
            let is_reached = |limit: &i32| {
                let limit = f64::from(*limit);
                limit > start && limit <= start + 0.5 * n_rounds * grows
            };
            let limits: Vec<i32> = [2, 5, 10, 20, 50].into_iter().filter(is_reached).collect();
            if limits.is_empty() {
                return;
            }
            let limit = self.random.pick(&limits);
            let limit = if value.ty == self.whole { self.int(limit) } else { self.number(limit.into()) };
            self.line(&format!("if {} > {}:", value.text, limit.text));
            self.nested(|g| g.line("break"));
            self.explain(format!("Stop once {} is more than {}.", value.words, limit.words));
        }
    }

    /// Leaves the round, or the loop, where a condition on what changes in it holds.
    fn guard(&mut self, goes_on: bool, counter: Option<&LoopIndex>) {
        let condition = match self.random.one_in(2) {
            true => self.guard_of_value(),
            false => self.inline_condition_of(counter),
        };
        let Some(condition) = condition else { return };
        let (word, what) = if goes_on { ("continue", "skip the rest of this round") } else { ("break", "stop") };
        self.line(&format!("if {}:", condition.text));
        self.nested(|g| g.line(word));
        self.explain(format!("Where {}, {what}.", condition.words));
        self.learn(&condition, false);
    }

    /// A condition on a value that is computed for it, of which more than the loop's index decides.
    fn guard_of_value(&mut self) -> Option<GeneratedExpr> {
        let real = self.real;
        let value = self.moving(real, 1)?;
        let is_bounded = value.has(OpTrait::Limits);
        if is_bounded || self.only_counts(&value) {
            return None;
        }
        let value = self.name(value);
        let limit = self.threshold(&value);
        let sign = self.random.pick(&["<", ">"]);
        let asks = vec![self.ask(sign, &value, &limit)];
        let test = GeneratedExpr::binary(sign, &value, &limit, Type::BOOL, NumberRange::new(0.0, 1.0));
        Some(GeneratedExpr { asks, ..test }).filter(|test| !self.is_decided(test))
    }

    /// A value that is another in each round, if one is found.
    fn moving(&mut self, ty: Type, depth: usize) -> Option<GeneratedExpr> {
        for _ in 0..6 {
            let (before, called) = (self.so_far(), self.calls());
            let value = self.computed(ty, depth);
            if self.moves(&value) {
                return Some(value);
            }
            self.undo(before);
            self.set_calls(&called);
        }
        None
    }

    /// Statements of a loop's body, so that what does not change in it stands before it.
    pub(in crate::generate) fn moving_statements(&mut self, count: usize) {
        for _ in 0..count {
            let ty = self.some_type();
            if let Some(value) = self.moving(ty, 1) {
                self.assign_new(value);
            }
        }
    }

    /// Returns true if the value comes from nothing but numbers and what loops count, because a test of it drops the
    /// first rounds or the last.
    fn only_counts(&self, value: &GeneratedExpr) -> bool {
        value.uses.is_empty() || self.only_counts_of(&self.roots(value))
    }

    fn only_counts_of(&self, roots: &[i64]) -> bool {
        let counts = |&root: &i64| {
            let variable = usize::try_from(root).ok().and_then(|index| self.variables.get(index));
            variable.is_some_and(|variable| variable.counts || variable.is_of_numbers)
        };
        roots.iter().all(counts)
    }

    fn accumulate_all(&mut self, targets: &[usize], first: usize) {
        for &target in targets {
            self.accumulate(target, first);
        }
    }

    /// A value that depends on a loop's index.
    fn use_index(&mut self, index: usize) {
        let index = self.read(index);
        let real = self.real;
        let fraction = self.cast(index, real);
        let scaled = match self.random.below(3) {
            0 => {
                let factor = self.pick_number(&[0.5, 0.25, 0.1, 2.0, 1.5, 0.2]);
                let factor = self.number_of(real, factor.range.low);
                let range = fraction.range * factor.range;
                GeneratedExpr::binary("*", &fraction, &factor, real, range)
            }
            1 => {
                let one = self.number(1.0);
                GeneratedExpr::binary("+", &fraction, &one, real, fraction.range + one.range)
            }
            _ => fraction,
        };
        self.assign_new(scaled);
    }

    /// A condition on a loop's index now and then: one that holds of some values that it has, and of others not.
    fn inline_condition_of(&mut self, counter: Option<&LoopIndex>) -> Option<GeneratedExpr> {
        if let Some(LoopIndex { index, values }) = counter.filter(|_| self.random.one_in(2)) {
            let modulus = self.random.pick(&[2, 3, 4]);
            let start = self.random.below(modulus as usize) as i32;
            let holds = |wanted: i32| values.iter().filter(|&value| value % modulus == wanted).count();
            let mut all = (0..modulus).map(|at| (start + at) % modulus);
            if let Some(wanted) = all.find(|&wanted| (1..values.len()).contains(&holds(wanted))) {
                let index = self.read(*index);
                let rest = GeneratedExpr::binary(
                    "%",
                    &index,
                    &GeneratedExpr::int(modulus),
                    Type::I32,
                    NumberRange::within(4.0),
                );
                let asks = vec![self.ask("==", &rest, &GeneratedExpr::int(wanted))];
                let test = GeneratedExpr::binary(
                    "==",
                    &rest,
                    &GeneratedExpr::int(wanted),
                    Type::BOOL,
                    NumberRange::new(0.0, 1.0),
                );
                let test = GeneratedExpr { asks, ..test };
                if !self.is_decided(&test) {
                    return Some(test);
                }
            }
        }
        (0..6).find_map(|_| self.changing_condition())
    }

    /// A condition on what changes in a loop, but not on its index alone.
    fn changing_condition(&mut self) -> Option<GeneratedExpr> {
        self.inline_open_condition().filter(|condition| self.moves(condition) && !self.only_counts(condition))
    }

    /// A test that a number which the loop changes is below a limit, which it is to begin with.
    fn is_below_limit(&mut self, targets: &[usize]) -> Option<GeneratedExpr> {
        let is_number = |&index: &usize| self.variables[index].ty.as_composite().is_none();
        let target = targets.iter().copied().find(is_number)?;
        let start = self.variables[target].start.high;
        let limit = [2, 5, 10, 20, 50].into_iter().find(|&limit| f64::from(limit) > start)?;
        let value = self.read(target);
        let limit = if value.ty == self.whole { self.int(limit) } else { self.number(limit.into()) };
        Some(GeneratedExpr::binary("<", &value, &limit, Type::BOOL, NumberRange::new(0.0, 1.0)))
    }

    /// A `while` that ends: something that it counts, halves or doubles each time.
    fn while_loop(&mut self, targets: &[usize], depth: usize) {
        let depth = depth.min(1);
        match self.random.below(4) {
            0 => {
                let name = self.like(&["step", "it", "n_done", "k", "n"]);
                let n = 3 + self.random.below(6);
                self.line(&format!("{name} = int(0)"));
                let mut also = None;
                let mut condition = format!("{name} < {n}");
                let mut words = format!("`{name}` is less than {n}");
                if self.random.one_in(2) {
                    also = self.is_below_limit(targets);
                }
                if let Some(more) = &also {
                    condition = format!("{condition} and {}", more.text);
                    words = format!("{words} and {}", more.words);
                }
                let head = self.n_lines();
                self.line(&format!("while {condition}:"));
                let done = self.nested(|g| {
                    let index = g.declare_index(&name, Type::I32, NumberRange::new(0.0, n as f64));
                    // A value carried to the next iteration must have counted.
                    g.line(&format!("{name} += 1"));
                    g.body(targets, depth, Some(&LoopIndex { index, values: (1..=n as i32).collect() }));
                });
                if also.is_none() && self.only_rounds(head, &name, &n.to_string()) {
                    return self.explain(format!("{n} times: {done}."));
                }
                self.explain(format!("`{name}` starts as 0."));
                self.explain(format!("While {words}: add 1 to `{name}`; {done}."));
            }
            1 => {
                let name = self.like(&["width", "h", "size", "scale", "gap"]);
                let (start, factor, least) = self.shrinking();
                let n = shrinking(start, factor).take_while(|&size| size > least).count();
                let (start, factor, least) = (self.number(start), self.number(factor), self.number(least));
                let (real, range) = (self.real, NumberRange::new(least.range.low, start.range.high));
                let call = self.cast_name(real);
                let value = if real == Type::F32 { format!("{call}({})", start.text) } else { start.text.clone() };
                self.line(&format!("{name} = {value}"));
                let head = self.n_lines();
                self.line(&format!("while {name} > {}:", least.text));
                let done = self.nested(|g| {
                    g.line(&format!("{name} *= {}", factor.text));
                    g.declare_index(&name, real, range * factor.range);
                    g.body(targets, depth, None);
                });
                if self.only_rounds(head, &name, &n.to_string()) {
                    return self.explain(format!("{n} times: {done}."));
                }
                self.explain(format!("`{name}` starts as {}.", start.words));
                let (least, factor) = (least.words, factor.words);
                self.explain(format!("While `{name}` is more than {least}: multiply `{name}` by {factor}; {done}."));
            }
            2 => {
                let name = self.like(&["stride", "reach", "grown", "n_pow"]);
                let (high, factor) = self.random.pick(&[(16, 2), (30, 2), (30, 3), (64, 2), (100, 3), (100, 2)]);
                self.line(&format!("{name} = int(1)"));
                let head = self.n_lines();
                self.line(&format!("while {name} < {high}:"));
                let powers = std::iter::successors(Some(factor), |&last| (last < high).then_some(last * factor));
                let powers: Vec<i32> = powers.collect();
                let n = powers.len();
                let done = self.nested(|g| {
                    let index = g.declare_index(&name, Type::I32, NumberRange::new(1.0, f64::from(high * factor)));
                    g.line(&format!("{name} *= {factor}"));
                    g.body(targets, depth, Some(&LoopIndex { index, values: powers }));
                });
                if self.only_rounds(head, &name, &n.to_string()) {
                    return self.explain(format!("{n} times: {done}."));
                }
                self.explain(format!("`{name}` starts as 1."));
                self.explain(format!("While `{name}` is less than {high}: multiply `{name}` by {factor}; {done}."));
            }
            _ => {
                let names = ["count", "remaining", "budget", "n_steps", "fuel"];
                let given = self.scalar_like(&names, Type::I32, 2.0, 9.0);
                let name = self.like(&["left", "todo", "n_left", "to_go"]);
                self.line(&format!("{name} = int({given})"));
                let head = self.n_lines();
                self.line(&format!("while {name} > 0:"));
                let done = self.nested(|g| {
                    g.line(&format!("{name} -= 1"));
                    let index = g.declare_index(&name, Type::I32, NumberRange::new(0.0, 9.0));
                    g.body(targets, depth, Some(&LoopIndex { index, values: vec![1, 0] }));
                });
                if self.only_rounds(head, &name, &given) {
                    return self.explain(format!("`{given}` times: {done}."));
                }
                self.explain(format!("`{name}` starts as `{given}`."));
                self.explain(format!("While `{name}` is more than 0: take 1 from `{name}`; {done}."));
            }
        }
    }

    /// Writes a `while` as a loop over so many rounds if nothing reads what it counts.
    fn only_rounds(&mut self, head: usize, name: &str, count: &str) -> bool {
        if self.is_read_from(head + 2, name) {
            return false;
        }
        let counter = if self.names.take("_") { "_" } else { name };
        self.rewrite_line(head, &format!("for {counter} in range({count}):"));
        self.remove_lines(head + 1..head + 2);
        self.remove_lines(head - 1..head);
        true
    }

    /// A start, a factor and an end of what shrinks in several rounds.
    fn shrinking(&mut self) -> (f64, f64, f64) {
        loop {
            let start = self.random.pick(&[4.0, 8.0, 10.0, 100.0]);
            let factor = self.random.pick(&[0.5, 0.25, 0.6, 0.7]);
            let least = self.random.pick(&[0.1, 0.5, 0.25, 1.0]);
            if shrinking(start, factor).take_while(|&size| size > least).count() > 2 {
                return (start, factor, least);
            }
        }
    }
}

/// Returns what shrinks, as it is before each round.
fn shrinking(start: f64, factor: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(start), move |last| Some(last * factor))
}
