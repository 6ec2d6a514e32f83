//! The first line of a docstring, where a kernel has nothing better to say than its category.

use super::dataflow::NameDataflow;
use super::names::names_of;
use super::{DocSubject, ReadParameter, list};
use crate::generate::program::Category;
use polyloom::Random;

/// The longest first line, with what else is in it.
pub(super) const LONGEST: usize = 75;

/// A line that sums up what a kernel does, which calls these functions.
pub(in crate::generate) fn summary(random: &mut Random, subject: &DocSubject<'_>, functions: &[&str]) -> String {
    let DocSubject { category, inputs, outputs, lines, .. } = *subject;
    let has = |texts: &[&str]| lines.iter().any(|line| texts.iter().any(|text| line.contains(text)));
    let names: Vec<&str> = inputs.iter().map(|given| given.name).collect();
    let (ins, outs) = (list(&names), list(outputs));
    // Rows, neighbourhoods and structs are parameters of a kind.
    let fits = |given: &&ReadParameter<'_>| match category {
        Category::Struct => given.is_struct,
        Category::Reduction | Category::Scan => given.rank == inputs[0].rank,
        _ => given.rank > 0 || given.is_struct,
    };
    let of_kind = |wanted: bool| -> Vec<&str> {
        inputs.iter().filter(|given| fits(given) == wanted).map(|given| given.name).collect()
    };
    let (main, others) = (of_kind(true), of_kind(false));
    let first = main.first().or(names.first()).copied().unwrap_or_default();
    let after = |names: &[&str], lead: &str| match names {
        [] => String::new(),
        names => format!(" {lead} {}", list(names)),
    };
    let rest: Vec<&str> = names.iter().copied().filter(|name| *name != first).collect();
    let (mains, with) = (list(&main), after(&others, "with"));
    if outputs.is_empty() {
        let lines =
            [format!("Update `{first}` in place{}.", after(&rest, "by")), format!("Update `{first}` in place.")];
        return lines.into_iter().find(|line| line.len() <= LONGEST).unwrap_or_default();
    }
    let lines: Vec<String> = match category {
        Category::ControlFlow => by_tests(subject, &outs),
        Category::Loop => vec![
            format!("Compute {outs} from {ins} with loops."),
            format!("Run loops on {ins} to get {outs}."),
            format!("Find {outs} by iteration from {ins}."),
        ],
        Category::Struct => vec![
            format!("Evaluate {outs} for each of `{first}`{}.", after(&rest, "with")),
            format!("Derive {outs} from the fields of {mains}{with}."),
            match outputs {
                [_] => format!("Combine the fields of {mains}{with} into {outs}."),
                _ => format!("Compute {outs} from the fields of {mains}{with}."),
            },
        ],
        Category::Function => match functions {
            _ if !all_call(subject, functions) => vec![format!("Compute {outs} from {ins}.")],
            [one] => vec![
                format!("Use `{one}` to compute {outs} from {ins}."),
                format!("Compute {outs} from {ins} with the helper `{one}`."),
                format!("Call `{one}` to find {outs} from {ins}."),
            ],
            _ => vec![
                format!("Compute {outs} from {ins} with {} helper functions.", functions.len()),
                format!("Call helper functions to find {outs} from {ins}."),
            ],
        },
        Category::Stencil => vec![
            format!("Work out {outs} from `{first}` and its neighbours{}.", after(&rest, "with")),
            format!("Combine each element of `{first}` with its neighbours{} into {outs}.", after(&rest, "and")),
            format!("Apply a stencil to `{first}`{} and store {outs}.", after(&rest, "with")),
        ],
        Category::Reduction => vec![
            format!("Reduce each row of `{first}` to {outs}{}.", after(&rest, "with")),
            format!("Fold the rows of {mains}{with} into {outs}."),
        ],
        Category::Scan => vec![
            format!("Scan the rows of `{first}` into {outs}{}.", after(&rest, "with")),
            format!("Run along the rows of {mains}{with} and fill {outs}."),
            format!("Carry values along the rows of {mains}{with} into {outs}."),
        ],
        Category::Random if has(&["randf(", "randn(", "randi(", ".sample_"]) => vec![
            format!("Combine {} into {outs}.", with_first("random numbers", &names)),
            format!("Draw random numbers and combine them with {ins} into {outs}."),
            format!("Sample {outs} from {}.", with_first("random numbers", &names)),
        ],
        Category::Random => vec![format!("Combine {} into {outs}.", with_first("noise", &names))],
        Category::Atomic if !has(&["atomic_max", "atomic_min", "atomic_or", "atomic_xor", "|="]) => vec![
            format!("Accumulate results from {ins} in {outs} with atomics."),
            format!("Scatter results from {ins} over {outs}."),
            format!("Add results from {ins} to {outs} from all threads."),
        ],
        Category::Atomic => vec![
            format!("Collect results from {ins} in {outs} over all threads."),
            format!("Merge results from {ins} into {outs} with atomics."),
        ],
        Category::SharedMemory => vec![
            format!("Share `{first}` within blocks of threads to get {outs}{}.", after(&rest, "with")),
            format!("Exchange `{first}` through shared memory to get {outs}{}.", after(&rest, "with")),
        ],
        Category::Warp => vec![
            format!("Combine `{first}` across the lanes of a warp{} into {outs}.", after(&rest, "with")),
            format!("Exchange `{first}` between lanes to get {outs}{}.", after(&rest, "with")),
        ],
        Category::TensorCore => vec![format!("Compute {outs} from {ins} on the tensor core.")],
        _ if inputs.len() == 1 => vec![
            format!("Map {ins} to {outs}, element by element."),
            format!("Turn each element of {ins} into one of {outs}."),
            format!("Transform {ins} into {outs}, element by element."),
        ],
        _ if outputs.len() > 1 => vec![
            format!("Derive {outs} from {ins}."),
            format!("Compute {outs} from {ins}, element by element."),
            format!("Work out {outs} from {ins}."),
        ],
        _ => vec![
            format!("Combine {ins} into {outs}."),
            format!("Derive {outs} from {ins}."),
            format!("Merge {ins} into {outs}, element by element."),
        ],
    };
    let start = random.below(lines.len());
    let verb = random.pick(&["Compute", "Derive", "Evaluate", "Determine", "Produce", "Obtain"]);
    let more = match inputs.len() {
        0..=2 => "one more input".to_owned(),
        n => format!("{} more inputs", n - 1),
    };
    let others = match outputs.len() {
        0 | 1 => String::new(),
        2 => " and one more result".to_owned(),
        n => format!(" and {} more results", n - 1),
    };
    let fallbacks = [
        format!("{verb} {outs} from {ins}."),
        format!("{verb} {outs} from `{first}` and {more}."),
        format!("{verb} {outs}."),
        format!("{verb} `{}`{others} from {} inputs.", outputs[0], inputs.len()),
    ];
    let mut all = lines[start..].iter().chain(&lines[..start]).chain(&fallbacks);
    all.find(|line| line.len() <= LONGEST).cloned().unwrap_or_default()
}

/// A list that begins with what has no name.
fn with_first(first: &str, names: &[&str]) -> String {
    match names {
        [] => first.to_owned(),
        [one] => format!("{first} and `{one}`"),
        [others @ .., last] => format!("{first}, `{}` and `{last}`", others.join("`, `")),
    }
}

/// Lines of a kernel that branches, because they name what its tests are on.
fn by_tests(subject: &DocSubject<'_>, outs: &str) -> Vec<String> {
    let names: Vec<&str> = subject.inputs.iter().map(|given| given.name).collect();
    let tested = tested(subject.lines, &names);
    let others: Vec<&str> = names.iter().copied().filter(|name| !tested.contains(name)).collect();
    let from = if others.is_empty() { String::new() } else { format!(" from {}", list(&others)) };
    if tested.is_empty() {
        return vec![format!("Choose {outs}{from}, case by case.")];
    }
    let tested = list(&tested);
    vec![
        format!("Choose {outs}{from} by conditions on {tested}."),
        format!("Branch on {tested} to get {outs}{from}."),
        format!("Tell cases of {tested} apart to find {outs}{from}."),
    ]
}

/// The inputs that have a say in the tests of these lines.
pub(in crate::generate) fn tested<'a>(lines: &'a [String], inputs: &[&'a str]) -> Vec<&'a str> {
    let mut found = vec![false; inputs.len()];
    for (at, line) in lines.iter().enumerate() {
        let tests = tests(line);
        if tests.is_empty() {
            continue;
        }
        // A test does not see later values of a name, unless both stand in a loop.
        let is_in_loop = line.starts_with("        ") || line.trim_start().starts_with("while ");
        let flow = NameDataflow::of(if is_in_loop { lines } else { &lines[..at] }, inputs);
        for (number, given) in inputs.iter().enumerate() {
            let comes_from =
                |name: &str| name == *given || flow.origin(name).is_some_and(|origin| origin.has_param(number));
            found[number] |= tests.iter().any(|test| names_of(test).any(comes_from));
        }
    }
    inputs.iter().copied().zip(found).filter(|(_, found)| *found).map(|(name, _)| name).collect()
}

/// Those of the inputs that a kernel is called by which tests them, because its tests read them.
pub(in crate::generate) fn read_in_tests<'a>(lines: &[String], inputs: &[&'a str]) -> Vec<&'a str> {
    let tests: Vec<&str> = lines.iter().flat_map(|line| tests(line)).collect();
    let is_read = |given: &&str| tests.iter().any(|test| names_of(test).any(|name| name == *given));
    inputs.iter().copied().filter(is_read).collect()
}

/// Those of the inputs that loops read.
pub(in crate::generate) fn read_in_loops<'a>(lines: &[String], inputs: &[&'a str]) -> Vec<&'a str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut loop_indent = usize::MAX;
    let mut found = vec![false; inputs.len()];
    for line in lines.iter().filter(|line| !line.is_empty()) {
        if indent(line) <= loop_indent {
            let is_loop = ["for ", "while "].iter().any(|head| line.trim_start().starts_with(head));
            loop_indent = if is_loop { indent(line) } else { usize::MAX };
        }
        if loop_indent != usize::MAX {
            for (found, given) in found.iter_mut().zip(inputs) {
                *found |= names_of(line).any(|name| name == *given);
            }
        }
    }
    inputs.iter().copied().zip(found).filter(|(_, found)| *found).map(|(name, _)| name).collect()
}

/// The conditions in a line.
fn tests(line: &str) -> Vec<&str> {
    let text = line.trim_start();
    let heads = ["if ", "elif ", "while "];
    if let Some(test) = heads.iter().find_map(|head| text.strip_prefix(head)) {
        return vec![test.trim_end_matches(':')];
    }
    let mut found = Vec::new();
    if let Some((_, rest)) = text.split_once(" if ")
        && let Some((test, _)) = rest.split_once(" else ")
    {
        found.push(test);
    }
    for (at, call) in text.match_indices("where(") {
        found.push(first_argument(&text[at + call.len()..]));
    }
    found
}

/// Returns what stands before the first comma that is in no brackets.
fn first_argument(text: &str) -> &str {
    let mut depth = 0;
    let ends = |c: char| {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        depth < 0 || depth == 0 && c == ','
    };
    text.find(ends).map_or(text, |end| &text[..end])
}

/// Returns true if calls of these functions have a say in all outputs.
fn all_call(subject: &DocSubject<'_>, functions: &[&str]) -> bool {
    let flow: NameDataflow<'_> = subject.dataflow();
    let calls = |line: &str| functions.iter().any(|name| line.contains(&format!("{name}(")));
    subject.outputs.iter().all(|output| flow.origin(output).is_some_and(|origin| flow.passes(&origin, calls)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loops_read_is_found() {
        let lines =
            ["a = x[i]", "for k in range(n):", "    s += y[k]", "", "    s += a", "b = z[i]"].map(str::to_owned);
        assert_eq!(read_in_loops(&lines, &["x", "y", "z", "n"]), ["y", "n"]);
    }

    #[test]
    fn tests_are_found_with_what_they_are_on() {
        let check = |line: &str, expected: &[&str]| assert_eq!(tests(line), expected);
        check("    elif x[i] > 0.5:", &["x[i] > 0.5"]);
        check("a = b if c < 1.0 else d", &["c < 1.0"]);
        check("a = wp.where(wp.max(b, c) < 1.0, d, e)", &["wp.max(b, c) < 1.0"]);
        check("for k in range(n):", &[]);
        let lines = ["s = x[i] * 2.0", "t = y[i]", "if s > 1.0:", "    t = z", "out[i] = t"].map(str::to_owned);
        let inputs = ["x", "y", "z"].map(|name| ReadParameter { name, rank: 1, is_struct: false });
        let (outputs, indices) = (["out"], []);
        let subject = DocSubject {
            category: Category::ControlFlow,
            inputs: &inputs,
            outputs: &outputs,
            indices: &indices,
            lines: &lines,
        };
        assert_eq!(tested(&lines, &["x", "y", "z"]), ["x"]);
        assert!(!all_call(&subject, &["bend"]));
    }
}
