//! What a kernel says of itself: a line that sums it up, and sentences.
//!
//! A name in backticks is a parameter, or a sentence before has introduced it: what cannot be said so is left out.

use super::program::Category;
use polyloom::Random;

/// The longest text after the first line.
const LONG: usize = 430;
const LONGEST: usize = 900;

/// The longest sentence of a docstring that is brief.
const LONG_SENTENCE: usize = 300;

/// The longest first line, with what else is in it.
const FIRST: usize = 75;

/// A sentence of the docstring.
pub(super) struct Sentence {
    pub(super) text: String,
    /// Whether it says how something is computed on the way, and not what the kernel leaves.
    pub(super) is_detail: bool,
}

/// What a function before the kernel does: its variables one after the other, and what it gives.
pub(super) struct Told {
    pub(super) steps: Vec<String>,
    pub(super) result: String,
}

impl Told {
    /// A sentence about a call.
    pub(super) fn sentence(&self, call: &str) -> String {
        match self.steps.is_empty() {
            true => format!("`{call}` gives {}.", self.result),
            false => format!("In `{call}`, {}; the result is {}.", self.steps.join("; "), self.result),
        }
    }
}

/// The names that a docstring may use.
#[derive(Default)]
pub(super) struct Known<'a>(Vec<&'a str>);

impl<'a> Known<'a> {
    pub(super) fn new(names: impl Iterator<Item = &'a str>) -> Known<'a> {
        Known(names.collect())
    }

    /// Whether a sentence uses names alone that are known, or that it introduces, which are known from there on.
    pub(super) fn take_in(&mut self, sentence: &'a str) -> bool {
        let before = self.0.len();
        let mut last_end = 0;
        let mut lists = false;
        for (at, span) in spans(sentence) {
            let lead = &sentence[last_end..at - 1];
            let end = at + span.len() + 1;
            last_end = end;
            let introduced = introduces(lead, &sentence[end..]) || lists && matches!(lead, ", " | " and ");
            lists = introduced;
            for name in names_of(span) {
                if self.0.contains(&name) {
                    continue;
                }
                if !introduced || name != span && !span.ends_with(')') {
                    self.0.truncate(before);
                    return false;
                }
                self.0.push(name);
            }
        }
        true
    }
}

/// Whether a name between these is said to be something.
fn introduces(lead: &str, rest: &str) -> bool {
    const ANYWHERE: [&str; 2] = [" starts as ", " being "];
    const AFTER: [&str; 7] = [" is ", " are ", " starts ", " adds up ", " counts ", " gives ", " grows by "];
    const BEFORE: [&str; 8] =
        ["et ", "or each ", "In ", "as long as ", "As long as ", "the mean ", "the coordinates ", "Inside the grid "];
    if BEFORE.iter().any(|word| lead.ends_with(word)) || ANYWHERE.iter().any(|word| rest.starts_with(word)) {
        return true;
    }
    let begins = lead.is_empty() || [". ", "; ", ": ", ", "].iter().any(|end| lead.ends_with(end));
    let lists = [", `", " and `"].iter().any(|next| rest.starts_with(next)) && rest.contains("` are ");
    begins && (lists || AFTER.iter().any(|word| rest.starts_with(word)))
}

/// What stands in backticks, and where.
fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split('`').enumerate().filter_map(move |(number, part)| {
        let start = at;
        at += part.len() + 1;
        (number % 2 == 1).then_some((start, part))
    })
}

/// The names in code that are no functions, fields or keywords.
fn names_of(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut rest = code;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(is_part)?;
            let word = &rest[start..];
            let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            let closes = rest[..start].ends_with([')', ']']);
            rest = after;
            let is_keyword = matches!(word, "and" | "or" | "not" | "if" | "else" | "True" | "False");
            let begins = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if begins && !closes && !is_keyword && !after.starts_with('(') {
                return word.split('.').next();
            }
        }
    })
}

/// The docstring's lines: the first, and what follows it.
pub(super) fn body<'a>(
    random: &mut Random,
    mut known: Known<'a>,
    summary: Option<String>,
    sentences: &'a [Sentence],
) -> (Option<String>, String) {
    let total: usize = sentences.iter().map(|sentence| sentence.text.len() + 1).sum();
    let is_brief = total > LONGEST || total > LONG && random.one_in(2);
    let is_told = |sentence: &&Sentence| !(is_brief && (sentence.is_detail || sentence.text.len() > LONG_SENTENCE));
    let told = sentences.iter().filter(is_told);
    let kept: Vec<&str> = told.map(|sentence| sentence.text.as_str()).filter(|text| known.take_in(text)).collect();
    // Of one result the whole docstring is what it is.
    if let [one] = kept[..]
        && summary.is_none()
        && sentences.len() == 1
        && let Some((name, what)) = one.split_once("` is ")
        && let (Some(name), Some(what)) = (name.strip_prefix('`'), what.strip_suffix('.'))
        && !name.contains('`')
        && one.len() < 66
    {
        let line = match random.below(4) {
            0 => format!("Set `{name}` to {what}."),
            1 => format!("Store {what} in `{name}`."),
            2 => format!("Compute {what} for each element."),
            _ => format!("Write {what} to `{name}`."),
        };
        return (Some(line), String::new());
    }
    let rest = kept.join(" ");
    // Without more to say the line ends with quotes.
    let room = if rest.is_empty() { FIRST + 3 } else { FIRST + 6 };
    (summary.filter(|line| line.len() <= room), rest)
}

/// A line that sums up what a kernel does.
pub(super) fn summary(random: &mut Random, category: Category, inputs: &[&str], outputs: &[&str]) -> String {
    let (ins, outs) = (list(inputs), list(outputs));
    let first = inputs.first().copied().unwrap_or_default();
    let rest = list(inputs.get(1..).unwrap_or_default());
    let with = |lead: &str| if rest.is_empty() { String::new() } else { format!(" {lead} {rest}") };
    if outputs.is_empty() {
        return format!("Update `{first}` in place{}.", with("by"));
    }
    let lines: Vec<String> = match category {
        Category::ControlFlow => {
            vec![format!("Compute {outs} from {ins} by cases."), format!("Choose {outs} by conditions on {ins}.")]
        }
        Category::Loop => {
            vec![format!("Compute {outs} from {ins} by iteration."), format!("Compute {outs} from {ins} with loops.")]
        }
        Category::Struct => vec![
            format!("Compute {outs} for each of `{first}`{}.", with("with")),
            format!("Compute {outs} from the fields of {ins}."),
        ],
        Category::Function => vec![format!("Apply helper functions to {ins} to get {outs}.")],
        Category::Stencil => vec![
            format!("Compute {outs} from `{first}` and its neighbours{}.", with("with")),
            format!("Combine each element of `{first}` with its neighbours{} into {outs}.", with("and")),
        ],
        Category::Reduction => vec![
            format!("Reduce each row of `{first}` to {outs}{}.", with("with")),
            format!("Compute {outs} over the rows of {ins}."),
        ],
        Category::Scan => vec![
            format!("Scan the rows of `{first}` into {outs}{}.", with("with")),
            format!("Run along the rows of {ins} and fill {outs}."),
        ],
        Category::Random => vec![
            format!("Compute {outs} from random numbers and {ins}."),
            format!("Draw random numbers and combine them with {ins} into {outs}."),
        ],
        Category::Atomic => vec![
            format!("Collect {ins} in {outs} over all threads."),
            format!("Accumulate {ins} into {outs} with atomics."),
        ],
        Category::SharedMemory => vec![
            format!("Share {ins} among the threads of a block to compute {outs}."),
            format!("Compute {outs} from {ins} by way of shared memory."),
        ],
        Category::Warp => vec![
            format!("Exchange {ins} between the lanes of a warp to compute {outs}."),
            format!("Compute {outs} from {ins} with warp primitives."),
        ],
        Category::TensorCore => vec![
            format!("Multiply matrices on the tensor core: {ins} to {outs}."),
            format!("Compute {outs} from {ins} on the tensor core."),
        ],
        _ if inputs.len() == 1 => vec![
            format!("Map {ins} to {outs}, element by element."),
            format!("Compute {outs} for each element of {ins}."),
        ],
        _ => vec![
            format!("Compute {outs} from {ins}."),
            format!("Combine {ins} into {outs}."),
            format!("Compute {outs} from {ins}, element by element."),
        ],
    };
    let start = random.below(lines.len());
    let fallbacks = [
        format!("Compute {outs} from {ins}."),
        format!("Compute {outs} from `{first}` and {} more inputs.", inputs.len().saturating_sub(1)),
        format!("Compute {outs}."),
        format!("Compute {} results for each element.", outputs.len()),
    ];
    let mut all = lines[start..].iter().chain(&lines[..start]).chain(&fallbacks);
    all.find(|line| line.len() <= FIRST).cloned().unwrap_or_default()
}

/// Names in backticks, as a list.
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match &quoted[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_to_be_introduced() {
        let check = |sentences: &[&str]| {
            let mut known = Known::new(["x", "gain"].into_iter());
            sentences.iter().map(|sentence| known.take_in(sentence)).collect::<Vec<bool>>()
        };
        assert_eq!(check(&["`out` is the sum of `x` and `gain`."]), [true]);
        assert_eq!(check(&["Let `a` be `x * gain`.", "`out` is the sine of `a + x.y`."]), [true, true]);
        assert_eq!(check(&["`out` is the sine of `a`.", "`b` is `x[i, j]`."]), [false, false]);
        assert_eq!(check(&["For each `k` below 3: let `s` be `sin(x)`; add `s` to `gain`."]), [true]);
        assert_eq!(check(&["In `ramp(y)`, `m` is `y * y`; the result is `m + y`."]), [true]);
        assert_eq!(check(&["Where `x > 1.0`, `q` becomes `x`."]), [false]);
    }
}
