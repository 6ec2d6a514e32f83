//! Branches.

use crate::catalogue::OperandNeed;
use crate::generate::elementwise;
use crate::generate::expr::GeneratedExpr;
use crate::generate::generator::{KernelGenerator, capitalised, held_together};
use crate::generate::program::{Category, DatasetProgram};
use crate::number_range::NumberRange;
use polyloom::{Random, Type};

/// A kernel about branches.
pub(in crate::generate) fn branches(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = elementwise::begin(random, Category::ControlFlow);
    g.parameters(difficulty);
    let size = usize::from(difficulty);
    let n_before = g.random.below(1 + size);
    g.statements(n_before, 1);
    if g.random.one_in(5) {
        g.early_return();
    }
    let goal = g.goal(difficulty);
    for at in 0..12 {
        if at > 0 && g.n_lines() >= goal {
            break;
        }
        g.gap();
        match g.random.below(5) {
            _ if difficulty == 0 => {
                let ty = g.some_type();
                let chosen = g.conditional(ty, 1);
                g.assign_new(chosen);
            }
            0 => {
                let (ty, depth) = (g.some_type(), 1 + g.random.below(2));
                let chosen = g.conditional(ty, depth);
                g.assign_new(chosen);
            }
            _ => g.branch(usize::from(difficulty > 1) + usize::from(difficulty > 3)),
        }
        if g.random.one_in(2) {
            g.statements(1, 1);
        }
    }
    if !g.has_control_flow() {
        g.branch(0);
    }
    g.gap();
    g.outputs(1 + usize::from(difficulty > 1));
    g.finish(Category::ControlFlow)
}

impl KernelGenerator {
    pub(super) fn some_type(&mut self) -> Type {
        let types = self.types();
        self.random.pick(&types)
    }

    /// A value that a condition chooses.
    fn conditional(&mut self, ty: Type, depth: usize) -> GeneratedExpr {
        let condition = self.condition(1);
        let condition = self.short(condition);
        let yes = self.variable(ty, depth);
        let yes = self.short(yes);
        let mut no = self.value(ty, depth.saturating_sub(1));
        for _ in 0..4 {
            if yes.text != no.text {
                break;
            }
            no = self.value(ty, depth);
        }
        if yes.text == no.text {
            no = self.more_than_bare(no);
        }
        let no = self.short(no);
        if yes.text == no.text {
            return yes;
        }
        let range = yes.range.or(no.range);
        GeneratedExpr::conditional(&condition, &yes, &no, range)
    }

    /// Threads for which a condition holds leave at once, all but one output unwritten.
    fn early_return(&mut self) {
        // If all threads leave, or all stay, one output would have nothing.
        let Some(condition) = self.condition_of_threads() else { return };
        let types = self.types();
        let ty = types[types.len() - 1];
        let (element, name) = self.output(ty);
        let value = self.variable(ty, 1);
        self.line(&format!("if {}:", condition.text));
        self.nested(|g| {
            g.line(&format!("{element} = {}", value.text));
            g.line("return");
        });
        self.say(format!("Where {}, `{name}` is {}, and nothing else is written.", condition.words, value.words));
        self.learn(&condition, false);
    }

    /// A condition that holds for some threads, if there is one, because it is on what each has of its own.
    pub(in crate::generate) fn condition_of_threads(&mut self) -> Option<GeneratedExpr> {
        let is_own = |index: &usize| self.variables[*index].visible && self.variables[*index].text.contains('[');
        let own: Vec<usize> = (0..self.variables.len()).filter(is_own).collect();
        self.only(&own, |g| (0..4).find_map(|_| g.open_condition(1).filter(|condition| g.differs(condition))))
    }

    /// An `if` that changes variables, which it makes.
    pub(in crate::generate) fn branch(&mut self, depth: usize) {
        let ty = self.some_type();
        let start = match self.random.one_in(4) {
            true => self.constant(ty),
            false => {
                let value = self.variable(ty, 1);
                let value = self.constrain(value, OperandNeed::Moderate);
                if ty.as_composite().is_some() { self.more_than_bare(value) } else { value }
            }
        };
        let n_arms = self.random.pick(&[1, 1, 1, 2, 2, 3]);
        // With a branch for every case there is nothing to start with.
        let Some(condition) = self.first_condition() else { return };
        let begins = self.mutable(&start, start.range);
        self.variables[begins].is_free = true;
        // A number alone has nothing to compute or to ask.
        let hidden = if start.uses.is_empty() { vec![begins] } else { Vec::new() };
        self.without(hidden, |g| g.arms(condition, &[begins], n_arms, depth, true));
        let variable = &mut self.variables[begins];
        variable.range = variable.becomes.map_or(start.range, |range| range.or(start.range));
        self.must_be_read(begins);
    }

    /// A condition of the first of some arms, if one is open.
    fn first_condition(&mut self) -> Option<GeneratedExpr> {
        let of_threads = if self.random.one_in(2) { self.condition_of_threads() } else { None };
        of_threads.or_else(|| self.open_condition(1))
    }

    /// The arms of an `if`. What the targets start with has to be of use: with `needs_start` some arm takes it in.
    fn arms(&mut self, first: GeneratedExpr, targets: &[usize], n_arms: usize, depth: usize, needs_start: bool) {
        let mut cases: Vec<(String, String)> = Vec::new();
        let begin = self.n_lines();
        let with_else = self.random.one_in(2) || n_arms > 1;
        let is_alone = n_arms == 1 && !with_else;
        let mut last = usize::MAX;
        self.learning(|g| {
            for arm in 0..n_arms {
                // A test can ask only about values that earlier tests leave.
                let condition = if arm == 0 { Some(first.clone()) } else { g.inline_open_condition() };
                let Some(condition) = condition else { break };
                let keyword = if arm == 0 { "if" } else { "elif" };
                let before = std::mem::replace(&mut last, g.n_lines() + 1);
                g.line(&format!("{keyword} {}:", condition.text));
                let done = g.learning(|g| {
                    g.learn(&condition, true);
                    g.arm_unlike(before, |g| g.arm(targets, depth, is_alone))
                });

                let lead = if arm == 0 { "where" } else { "else where" };
                cases.push((format!("{lead} {},", condition.words), done));
                g.learn(&condition, false);
            }
            if with_else {
                g.line("else:");
                let is_read = |&target: &usize| g.is_read_in_values(begin, &g.variables[target].text);
                let grows = needs_start && !targets.iter().any(is_read);
                // Otherwise, with a branch alone behind it, it would be an `elif`.
                let done =
                    g.arm_unlike(last, |g| if grows { g.growing_arm(targets) } else { g.arm(targets, 0, false) });
                cases.push(("elsewhere".to_owned(), done));
            }
        });
        self.explain(format!("{}.", capitalised(&told(&cases))));
    }

    /// Returns what one branch does, other than the branch before it, whose first line this is.
    fn arm_unlike(&mut self, before: usize, body: impl Fn(&mut KernelGenerator)) -> String {
        let head = self.n_lines();
        let (so_far, called) = (self.so_far(), self.calls());
        let mut done = self.nested(&body);
        for _ in 0..4 {
            let lines = self.lines();
            if before >= head || lines[before..head - 1] != lines[head..] {
                break;
            }
            self.undo(so_far);
            self.set_calls(&called);
            done = self.nested(&body);
        }
        done
    }

    /// A condition before which no statement can stand, if one is open.
    pub(super) fn inline_open_condition(&mut self) -> Option<GeneratedExpr> {
        let before = std::mem::replace(&mut self.inline, true);
        let depth = usize::from(self.random.one_in(2));
        let condition = self.open_condition(depth);
        self.inline = before;
        condition
    }

    /// Describes one branch, perhaps the only one.
    fn arm(&mut self, targets: &[usize], depth: usize, is_alone: bool) {
        let first = self.variables.len();
        if depth > 0
            && self.random.one_in(3)
            && let Some(condition) = self.first_condition()
        {
            // Two branches in each other, each alone, are one on both conditions.
            let n_arms = if is_alone { 2 } else { 1 + self.random.below(2) };
            self.arms(condition, targets, n_arms, depth - 1, false);
            return;
        }
        if self.random.one_in(3) {
            self.statements(1, 1);
        }
        for &target in targets {
            self.set(target, first);
        }
    }

    /// A branch that adds to what is there.
    fn growing_arm(&mut self, targets: &[usize]) {
        for &target in targets {
            let (ty, name) = (self.variables[target].ty, self.variables[target].text.clone());
            let value = self.without(vec![target], |g| g.variable(ty, 1));
            let value = self.constrain(value, OperandNeed::Moderate);
            let value = self.fitting(value);
            let (value, falls) = self.with_sign(value);
            let (sign, verb, range) = match falls || self.random.one_in(3) {
                true => ("-", "falls", value.range.or(-value.range)),
                false => ("+", "grows", value.range),
            };
            self.line(&format!("{name} {sign}= {}", value.text));
            self.explain(format!("`{name}` {verb} by {}.", value.words));
            let range = self.variables[target].start + range;
            let becomes = &mut self.variables[target].becomes;
            *becomes = Some(becomes.map_or(range, |before| before.or(range)));
        }
    }

    /// The value without a sign before it, and whether it had one.
    pub(in crate::generate) fn with_sign(&mut self, value: GeneratedExpr) -> (GeneratedExpr, bool) {
        match value.without_sign() {
            Some(plain) => (plain, true),
            None => (value, false),
        }
    }

    /// Assigns to a variable something in its range.
    fn set(&mut self, target: usize, first: usize) {
        let (ty, name) = (self.variables[target].ty, self.variables[target].text.clone());
        let value = self.variable(ty, 1);
        let value = self.with_unused_from(value, first);
        let value = self.constrain(value, OperandNeed::Moderate);
        let value = self.more_than_bare(value);
        let value = self.fitting(value);
        let start = self.variables[target].range;
        let mut range = value.range;
        let (text, words) = match self.random.below(4) {
            // A part of it beside what is made of it could be one product.
            0 if self.variables[target].visible && !value.uses.contains(&target) => {
                self.variables[target].used = true;
                range = start * NumberRange::of(0.5) + value.range;
                let (value, is_negative) = self.with_sign(value.clone());
                let (sign, word) = if is_negative { ("-", "less") } else { ("+", "plus") };
                let grown = format!("{name} = {} * {name} {sign} {}", self.half(ty), value.within_sum());
                (grown, format!("`{name}` becomes half of `{name}` {word} {}", value.words))
            }
            _ => (format!("{name} = {}", value.text), format!("`{name}` becomes {}", value.words)),
        };
        // Whole numbers have no half.
        if ty == self.whole || text.contains("= 0.5 * ") && ty.as_composite().is_some_and(|c| !c.elem().is_float()) {
            range = value.range;
            self.line(&format!("{name} = {}", value.text));
            self.explain(format!("`{name}` becomes {}.", value.words));
        } else {
            self.line(&text);
            self.explain(format!("{words}."));
        }
        let becomes = &mut self.variables[target].becomes;
        *becomes = Some(becomes.map_or(range, |before| before.or(range)));
    }

    fn half(&self, ty: Type) -> String {
        let elem = ty.as_composite().map_or(ty, |composite| composite.elem().into());
        self.number_of(elem, 0.5).text
    }
}

/// Cases, each with what is done then, in one sentence.
fn told(cases: &[(String, String)]) -> String {
    let clauses: Vec<String> = cases
        .iter()
        .map(|(lead, done)| match done.starts_with("where ") {
            true => format!("{lead} ({done})"),
            false => format!("{lead} {}", held_together(done)),
        })
        .collect();
    clauses.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_case_does_is_held_together() {
        let check = |cases: &[(&str, &str)], expected: &str| {
            let cases: Vec<(String, String)> =
                cases.iter().map(|(lead, done)| ((*lead).to_owned(), (*done).to_owned())).collect();
            assert_eq!(told(&cases), expected);
        };
        check(&[("where a,", "x"), ("elsewhere", "y; z")], "where a, x; elsewhere (y; z)");
        check(&[("where a,", "where b, x; elsewhere y")], "where a, (where b, x; elsewhere y)");
        check(&[("where a,", "where b, x"), ("elsewhere", "y")], "where a, (where b, x); elsewhere y");
    }
}
