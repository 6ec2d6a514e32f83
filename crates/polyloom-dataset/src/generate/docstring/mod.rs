//! What a kernel says of itself: a line that sums it up, and sentences.
//!
//! A name in backticks is a parameter, or a sentence before has introduced it: what cannot be said so is left out.

mod aside;
mod choice;
mod dataflow;
mod layout;
mod moved;
pub(super) mod names;
mod origins;
mod shortened;
mod summary;
mod verb;

pub(super) use aside::aside;
pub(super) use layout::{has_parts, laid_out};
pub(super) use moved::told_before_loops;
pub(super) use summary::{read_in_loops, read_in_tests, summary};
pub(super) use verb::with_one_verb;

use super::program::Category;
use choice::{ChosenDocstring, SentenceChoice};
use dataflow::NameDataflow;
use names::KnownNames;
use polyloom::Random;

/// The longest text after the first line.
const LONG: usize = 700;
const LONGEST: usize = 1500;

/// The same, where otherwise the outputs would not be described.
const LONGEST_ESSENCE: usize = 4000;

/// The same, of outputs with the last steps towards them.
const LONGEST_OUTLINE: usize = 1200;

/// The longest sentence of a docstring that is brief.
const LONG_SENTENCE: usize = 300;

/// A sentence of the docstring.
pub(super) struct DocSentence {
    pub(super) text: String,
    /// True if it says how something is computed on the way, and not what the kernel leaves.
    pub(super) is_detail: bool,
    /// True if a comment says it, too.
    pub(super) is_comment: bool,
}

/// Describes what a function before the kernel does: its variables one after the other, and what it gives.
pub(super) struct FunctionSummary {
    pub(super) steps: Vec<String>,
    pub(super) results: Vec<String>,
}

impl FunctionSummary {
    /// Makes the docstring of a function of assignments from its lines.
    pub(super) fn of_lines(lines: &[String]) -> FunctionSummary {
        let mut summary = FunctionSummary { steps: Vec::new(), results: Vec::new() };
        let mut known: Vec<&str> = Vec::new();
        for line in lines.iter().map(|line| line.trim_start()) {
            if let Some(value) = line.strip_prefix("return ") {
                summary.results = vec![format!("`{value}`")];
            } else if let Some((name, value)) = line.split_once(" += ") {
                summary.steps.push(format!("`{name}` grows by `{value}`"));
            } else if let Some((name, value)) = line.split_once(" = ") {
                let verb = if known.contains(&name) { "becomes" } else { "is" };
                summary.steps.push(format!("`{name}` {verb} `{value}`"));
                known.push(name);
            }
        }
        summary
    }

    /// A sentence about a call.
    pub(super) fn sentence(&self, call: &str) -> String {
        let steps = self.steps.join("; ");
        match (&self.results[..], self.steps.is_empty()) {
            ([first, second], true) => format!("`{call}` gives two results: {first}; and {second}."),
            ([first, second], false) => {
                format!("In `{call}`, {steps}; the first result is {first}; the second result is {second}.")
            }
            (results, true) => format!("`{call}` gives {}.", results.concat()),
            (results, false) => format!("In `{call}`, {steps}; the result is {}.", results.concat()),
        }
    }
}

/// Describes what a docstring is about.
pub(super) struct DocSubject<'a> {
    pub(super) category: Category,
    pub(super) inputs: &'a [ReadParameter<'a>],
    pub(super) outputs: &'a [&'a str],
    /// Names that the code has for what a sentence need not introduce.
    pub(super) indices: &'a [String],
    pub(super) lines: &'a [String],
}

/// A parameter that a kernel reads.
pub(super) struct ReadParameter<'a> {
    pub(super) name: &'a str,
    pub(super) rank: usize,
    pub(super) is_struct: bool,
}

impl<'a> DocSubject<'a> {
    fn known(&self) -> KnownNames<'a> {
        let inputs = self.inputs.iter().map(|given| given.name);
        let indices = self.indices.iter().map(String::as_str);
        let own = self.lines.iter().filter_map(|line| line.trim_start().split_once(" = "));
        // A thread's place in its block has a name as its place among all has.
        let own = own.filter(|(_, value)| !value.contains(' ') && value.ends_with("_idx()")).map(|(name, _)| name);
        KnownNames::new(inputs.chain(self.outputs.iter().copied()).chain(indices).chain(own))
    }

    /// The names that loops count with.
    fn counters(&self) -> Vec<&'a str> {
        let loops = self.lines.iter().filter(|line| line.trim_start().starts_with("for "));
        loops.filter_map(|line| line.split_whitespace().nth(1)).collect()
    }

    fn dataflow(&self) -> NameDataflow<'a> {
        let inputs: Vec<&str> = self.inputs.iter().map(|given| given.name).collect();
        NameDataflow::of(self.lines, &inputs)
    }
}

/// The docstring's first line, and the sentences that follow it.
pub(super) fn body(
    random: &mut Random,
    subject: &DocSubject<'_>,
    summary: Option<String>,
    sentences: &[DocSentence],
) -> (Option<String>, Vec<String>) {
    let sentences: &[DocSentence] = &aside::settled(subject, sentences);
    let total = sentences.iter().map(|sentence| sentence.text.len() + 1).sum::<usize>();
    let is_brief = total > LONGEST || total > LONG && random.one_in(2);
    let first = summary.clone().filter(|line| line.len() <= summary::LONGEST + 6).unwrap_or_default();
    let choice = SentenceChoice::new(subject, sentences);
    let mut chosen = match subject.category {
        Category::Composite => choice.of_skeleton(&first, is_brief),
        _ => choice.of_steps(is_brief),
    };
    // The last steps of a long loop say more than how many there are.
    let short = shortened::shortened(subject, sentences);
    let mut sentences = sentences;
    if subject.category != Category::Composite && !choice.describes_all(&chosen.told) && !short.is_empty() {
        chosen = SentenceChoice::new(subject, &short).of_steps(is_brief);
        sentences = &short;
    }
    let ChosenDocstring { leads, told, tails } = chosen;
    let kept: Vec<&str> =
        sentences.iter().zip(&told).filter(|(_, told)| **told).map(|(s, _)| s.text.as_str()).collect();
    // The whole docstring of one result says what that is.
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
        return (Some(line), Vec::new());
    }
    let kept = kept.into_iter().map(str::to_owned);
    let rest: Vec<String> = leads.into_iter().chain(kept).chain(tails).collect();
    // Without more to say the line ends with quotes.
    let room = if rest.is_empty() { summary::LONGEST + 3 } else { summary::LONGEST + 6 };
    (summary.filter(|line| line.len() <= room), rest)
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
