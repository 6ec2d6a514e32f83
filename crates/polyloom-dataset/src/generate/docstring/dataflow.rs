//! What the values of a kernel are computed from, told from its lines.

use super::names::names_of;

/// The most lines of a kernel that are told apart.
const MOST_LINES: usize = 192;

/// Parameters, and lines, that have a say in a value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineSources {
    /// Bit `n` is the parameter of that number.
    pub(super) params: u64,
    lines: [u64; MOST_LINES / 64],
}

impl LineSources {
    pub(super) fn join(&mut self, other: &LineSources) {
        self.params |= other.params;
        for (own, other) in self.lines.iter_mut().zip(&other.lines) {
            *own |= other;
        }
    }

    fn add_line(&mut self, at: usize) {
        if at < MOST_LINES {
            self.lines[at / 64] |= 1 << (at % 64);
        }
    }

    pub(super) fn has_param(&self, at: usize) -> bool {
        at < 64 && self.params >> at & 1 == 1
    }

    pub(super) fn n_lines(&self) -> u32 {
        self.lines.iter().map(|lines| lines.count_ones()).sum()
    }

    fn has_line(&self, at: usize) -> bool {
        at < MOST_LINES && self.lines[at / 64] >> (at % 64) & 1 == 1
    }
}

/// The names of a kernel, each with what it may come from.
type Names<'a> = Vec<(&'a str, LineSources)>;

fn find(names: &Names<'_>, name: &str) -> Option<LineSources> {
    names.iter().find(|(known, _)| *known == name).map(|(_, origin)| *origin)
}

fn join<'a>(names: &mut Names<'a>, name: &'a str, origin: &LineSources) {
    match names.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => known.join(origin),
        None => names.push((name, *origin)),
    }
}

/// Describes what the names of a kernel come from, whatever they are at.
pub(super) struct NameDataflow<'a> {
    lines: Vec<KernelLine<'a>>,
    origins: Names<'a>,
}

struct KernelLine<'a> {
    text: &'a str,
    depth: usize,
    kind: LineKind<'a>,
}

enum LineKind<'a> {
    /// The names, whether what they were stays part of them, and what they are assigned.
    Assign { targets: Vec<&'a str>, is_update: bool, is_element: bool, reads: Vec<&'a str> },
    /// A loop, with the name it counts with.
    Loop { counter: Option<&'a str>, over: &'a str, reads: Vec<&'a str> },
    /// A branch; whether it goes on with one before.
    Branch { test: &'a str, reads: Vec<&'a str>, follows: bool, is_else: bool },
    /// Something that leaves a loop, or the kernel.
    Leave { is_of_loop: bool },
}

impl<'a> NameDataflow<'a> {
    pub(super) fn of(lines: &'a [String], params: &[&'a str]) -> NameDataflow<'a> {
        let lines: Vec<KernelLine<'a>> = lines.iter().filter_map(|line| parsed(line)).collect();
        let given: Names<'a> = params
            .iter()
            .enumerate()
            .map(|(at, &name)| {
                (name, LineSources { params: 1u64.checked_shl(at as u32).unwrap_or(0), ..LineSources::default() })
            })
            .collect();
        let mut flow = NameDataflow { lines, origins: Vec::new() };
        let n_lines = flow.lines.len();
        let mut names = given;
        let mut walk = LineWalk {
            lines: &flow.lines,
            all: &mut flow.origins,
            left: LineSources::default(),
            returned: LineSources::default(),
        };
        walk.block(0..n_lines, &mut names, LineSources::default());
        flow
    }

    pub(super) fn origin(&self, name: &str) -> Option<LineSources> {
        find(&self.origins, name)
    }

    /// Returns true if a name is computed from parameters.
    pub(super) fn has_origin(&self, name: &str) -> bool {
        self.origin(name).is_some_and(|origin| origin.params != 0)
    }

    /// Tells whether a line of this kind has a say in a value.
    pub(super) fn passes(&self, origin: &LineSources, is_meant: impl Fn(&str) -> bool) -> bool {
        self.lines.iter().enumerate().any(|(at, line)| origin.has_line(at) && is_meant(line.text))
    }

    /// Returns what the lines are that have a say in a value.
    pub(super) fn way(&self, origin: &LineSources) -> ValueDerivation<'a> {
        let mut way = ValueDerivation::default();
        let outermost = self.lines.iter().map(|line| line.depth).min().unwrap_or_default();
        for (_, line) in self.lines.iter().enumerate().filter(|(at, _)| origin.has_line(*at)) {
            match line.kind {
                LineKind::Assign { .. } => way.n_steps += 1,
                LineKind::Loop { over, .. } => way.loops.push(over),
                LineKind::Branch { test, is_else: false, .. } => {
                    way.n_branches += 1;
                    if line.depth == outermost {
                        way.tests.push(test);
                    }
                }
                LineKind::Branch { .. } | LineKind::Leave { .. } => {}
            }
        }
        way
    }
}

/// The lines that have a say in a value.
#[derive(Default)]
pub(super) struct ValueDerivation<'a> {
    /// Number of assign something.
    pub(super) n_steps: usize,
    /// Holds what loops go over.
    pub(super) loops: Vec<&'a str>,
    pub(super) n_branches: usize,
    /// The conditions of branches that are in no other.
    pub(super) tests: Vec<&'a str>,
}

struct LineWalk<'w, 'a> {
    lines: &'w [KernelLine<'a>],
    all: &'w mut Names<'a>,
    /// Holds what decides whether a line of a loop is reached at all.
    left: LineSources,
    /// Holds what decides whether a thread goes on: its values are the same if it does, but not what it leaves.
    returned: LineSources,
}

impl<'a> LineWalk<'_, 'a> {
    fn end_of(&self, at: usize, end: usize) -> usize {
        let depth = self.lines[at].depth;
        (at + 1..end).find(|&next| self.lines[next].depth <= depth).unwrap_or(end)
    }

    fn block(&mut self, lines: std::ops::Range<usize>, names: &mut Names<'a>, control: LineSources) {
        let mut at = lines.start;
        while at < lines.end {
            let line = &self.lines[at];
            let read = |names: &Names<'a>, reads: &[&'a str], control: &LineSources| {
                let mut origin = *control;
                reads.iter().filter_map(|name| find(names, name)).for_each(|other| origin.join(&other));
                origin
            };
            match &line.kind {
                LineKind::Assign { targets, is_update, is_element, reads } => {
                    let mut origin = read(names, reads, &control);
                    origin.join(&self.left);
                    if *is_element {
                        origin.params |= self.returned.params;
                    }
                    origin.add_line(at);
                    for &target in targets {
                        let mut origin = origin;
                        if *is_update {
                            find(names, target).iter().for_each(|before| origin.join(before));
                        }
                        match names.iter_mut().find(|(known, _)| *known == target) {
                            Some((_, known)) => *known = origin,
                            None => names.push((target, origin)),
                        }
                        join(self.all, target, &origin);
                    }
                    at += 1;
                }
                LineKind::Leave { is_of_loop } => {
                    let left = if *is_of_loop { &mut self.left } else { &mut self.returned };
                    left.join(&control);
                    at += 1;
                }
                LineKind::Loop { counter, reads, .. } => {
                    let end = self.end_of(at, lines.end);
                    let left = self.left;
                    // Each loop counts anew, whatever the name counted before.
                    names.retain(|(known, _)| Some(*known) != *counter);
                    loop {
                        let (before, left) = (names.clone(), self.left);
                        let mut inner = read(names, reads, &control);
                        inner.add_line(at);
                        if let Some(counter) = counter {
                            join(names, counter, &inner);
                            join(self.all, counter, &inner);
                        }
                        self.block(at + 1..end, names, inner);
                        for (name, origin) in &before {
                            join(names, name, origin);
                        }
                        if *names == before && self.left == left {
                            break;
                        }
                    }
                    // The place where the name is left does not matter behind it.
                    self.left = left;
                    at = end;
                }
                LineKind::Branch { .. } => {
                    let before = names.clone();
                    let mut merged: Names<'a> = Vec::new();
                    let mut tested = control;
                    let mut has_else = false;
                    while at < lines.end {
                        let LineKind::Branch { reads, is_else, .. } = &self.lines[at].kind else { break };
                        let end = self.end_of(at, lines.end);
                        tested = read(&before, reads, &tested);
                        tested.add_line(at);
                        has_else |= is_else;
                        let mut arm = before.clone();
                        self.block(at + 1..end, &mut arm, tested);
                        for (name, origin) in &arm {
                            join(&mut merged, name, origin);
                        }
                        at = end;
                        let goes_on =
                            at < lines.end && matches!(self.lines[at].kind, LineKind::Branch { follows: true, .. });
                        if !goes_on {
                            break;
                        }
                    }
                    // An assignment in one arm depends on the test even if another arm is taken.
                    for (name, origin) in &mut merged {
                        let was = find(&before, name);
                        if was != Some(*origin) {
                            origin.join(&tested);
                        }
                        if !has_else && let Some(was) = was {
                            origin.join(&was);
                        }
                    }
                    *names = merged;
                }
            }
        }
    }
}

fn parsed<'a>(line: &'a str) -> Option<KernelLine<'a>> {
    let text = line.trim_start();
    let depth = line.len() - text.len();
    if text.is_empty() || text.starts_with('#') {
        return None;
    }
    let reads = |code: &'a str| names_of(code).collect::<Vec<&str>>();
    let branch = |code: &'a str, follows, is_else| LineKind::Branch {
        test: code.trim_end_matches(':'),
        reads: reads(code),
        follows,
        is_else,
    };
    let kind = if let Some(rest) = text.strip_prefix("for ") {
        let (counter, over) = rest.split_once(" in ").unwrap_or((rest, ""));
        LineKind::Loop { counter: Some(counter), over: over.trim_end_matches(':'), reads: reads(over) }
    } else if let Some(test) = text.strip_prefix("while ") {
        LineKind::Loop { counter: None, over: "", reads: reads(test) }
    } else if let Some(test) = text.strip_prefix("if ") {
        branch(test, false, false)
    } else if let Some(test) = text.strip_prefix("elif ") {
        branch(test, true, false)
    } else if text.starts_with("else:") {
        branch("", true, true)
    } else if matches!(text, "break" | "continue" | "return") {
        LineKind::Leave { is_of_loop: text != "return" }
    } else if let Some((left, value)) = text.split_once("= ").filter(|(left, _)| !left.contains('(')) {
        let is_update = !left.ends_with(' ') || left.trim_end().ends_with(['+', '-', '*', '/', '|', '&', '^', '%']);
        let targets = left.trim_end_matches([' ', '+', '-', '*', '/', '|', '&', '^', '%']);
        let is_element = targets.contains(['[', '.']);
        let mut read = reads(value);
        if is_element {
            let names: Vec<&str> = names_of(targets).collect();
            read.extend(&names[1.min(names.len())..]);
            let target = names.first().copied().into_iter().collect();
            LineKind::Assign { targets: target, is_update: true, is_element, reads: read }
        } else {
            LineKind::Assign { targets: targets.split(", ").collect(), is_update, is_element, reads: read }
        }
    } else {
        // A call that writes to its first argument.
        let names = reads(text);
        let (target, read) = names.split_first()?;
        LineKind::Assign { targets: vec![target], is_update: true, is_element: true, reads: read.to_vec() }
    };
    Some(KernelLine { text, depth, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, name: &str, params: &[&str], counts: [usize; 3]) {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let all = ["x", "y", "z"];
        let flow = NameDataflow::of(&lines, &all);
        let origin = flow.origin(name).unwrap_or_else(|| panic!("{name} is assigned"));
        let found: Vec<&str> = (0..3).filter(|at| origin.params >> at & 1 == 1).map(|at| all[at]).collect();
        let way = flow.way(&origin);
        assert_eq!((&found[..], [way.n_steps, way.loops.len(), way.n_branches]), (params, counts), "{text}");
    }

    #[test]
    fn values_come_from_what_is_read() {
        check("a = x[i]\nb = a + y\nc = z", "b", &["x", "y"], [2, 0, 0]);
        check("a = x\nb = a\na = y", "b", &["x"], [2, 0, 0]);
        check("a = x\na += y", "a", &["x", "y"], [2, 0, 0]);
    }

    #[test]
    fn conditions_and_loops_have_a_say() {
        check("a = x\nif y > 0.0:\n    a = z\nelse:\n    a = 1.0\nb = a", "b", &["y", "z"], [3, 0, 1]);
        check("a = x\nif y > 0.0:\n    a = z\nb = a", "b", &["x", "y", "z"], [3, 0, 1]);
        check("a = x\nb = 0.0\nfor k in range(3):\n    b += a\n    a = y", "b", &["x", "y"], [4, 1, 0]);
        check("a = 0.0\nwhile a < x:\n    if y > a:\n        break\n    a += 1.0", "a", &["x", "y"], [2, 1, 1]);
    }

    #[test]
    fn each_loop_counts_anew() {
        let first = "a = 0.0\nfor k in range(3):\n    if x > a:\n        continue\n    a += x\n";
        check(&format!("{first}b = 0.0\nfor k in range(y):\n    b += k"), "b", &["y"], [2, 1, 0]);
        check("for k in range(3):\n    for j in range(k):\n        a = j\n", "a", &[], [1, 2, 0]);
    }

    #[test]
    fn guards_are_no_branches_of_values() {
        let guard = "if x < 2 or x > 5:\n    return\n";
        check(&format!("{guard}a = y"), "a", &["y"], [1, 0, 0]);
        check(&format!("{guard}z[i] = y"), "z", &["x", "y", "z"], [1, 0, 0]);
    }

    #[test]
    fn calls_write_to_what_they_are_given() {
        check("wp.atomic_add(hist, x, y)", "hist", &["x", "y"], [1, 0, 0]);
        check("tile[t] = z\na = tile[x]", "a", &["x", "z"], [2, 0, 0]);
    }
}
