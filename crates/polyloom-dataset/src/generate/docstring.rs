//! What a kernel says of itself: a line that sums it up, and sentences.
//!
//! A name in backticks is a parameter, or a sentence before has introduced it: what cannot be said so is left out.

use super::program::Category;
use polyloom::Random;

/// The longest text after the first line.
const LONG: usize = 430;
const LONGEST: usize = 900;

/// The same, where otherwise the outputs would not be described.
const LONGEST_ESSENCE: usize = 1200;

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
        // What a function calls its own the kernel does not know.
        if is_of_function(sentence) {
            self.0.truncate(before);
        }
        true
    }
}

/// Whether a sentence is about a function, and not about the kernel.
fn is_of_function(sentence: &str) -> bool {
    let inner = sentence.strip_prefix("In `").or_else(|| sentence.strip_prefix('`'));
    let call = inner.and_then(|rest| rest.split_once('`'));
    call.is_some_and(|(call, rest)| call.ends_with(')') && (rest.starts_with(", ") || rest.starts_with(" gives ")))
}

/// The names that a sentence changes.
fn changed(sentence: &str) -> impl Iterator<Item = &str> {
    const BEFORE: [&str; 6] = [" to ", "ake ", "ultiply ", "aise ", "ower ", " from "];
    const AFTER: [&str; 8] = [
        " becomes ",
        " grows by ",
        " falls by ",
        " is multiplied ",
        " counts ",
        " approaches ",
        " changes at ",
        " its place",
    ];
    let is_told = !is_of_function(sentence);
    spans(sentence).filter_map(move |(at, span)| {
        let (lead, rest) = (&sentence[..at - 1], &sentence[at + span.len() + 1..]);
        let keeps = lead.ends_with(" as ") && sentence.contains("eep ");
        let adds = lead.ends_with(" to ") && lead.contains("dd ") || lead.ends_with(" from ") && lead.contains("ake ");
        let is_changed = AFTER.iter().any(|word| rest.starts_with(word))
            || BEFORE[1..5].iter().any(|word| lead.ends_with(word))
            || adds
            || keeps;
        (is_told && is_changed && names_of(span).next() == Some(span)).then_some(span)
    })
}

/// Whether a name between these is said to be something.
fn introduces(lead: &str, rest: &str) -> bool {
    const ANYWHERE: [&str; 2] = [" starts as ", " being "];
    const AFTER: [&str; 7] = [" is ", " are ", " starts ", " adds up ", " counts ", " gives ", " grows by "];
    const BEFORE: [&str; 9] = [
        "et ",
        "or each ",
        "ach element ",
        "In ",
        "as long as ",
        "As long as ",
        "the mean ",
        "the coordinates ",
        "Inside the grid ",
    ];
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

/// What a docstring is about.
pub(super) struct Subject<'a> {
    pub(super) category: Category,
    pub(super) inputs: &'a [Given<'a>],
    pub(super) outputs: &'a [&'a str],
    /// Names that the code has for what a sentence need not introduce.
    pub(super) indices: &'a [String],
    /// Whether how things are computed is left to comments.
    pub(super) has_comments: bool,
    /// What kinds of steps there are, if there is nothing better to say.
    pub(super) steps: &'a str,
    /// The names that loops count with.
    pub(super) counters: &'a [&'a str],
}

/// A parameter that a kernel reads.
pub(super) struct Given<'a> {
    pub(super) name: &'a str,
    pub(super) rank: usize,
    pub(super) is_struct: bool,
}

impl<'a> Subject<'a> {
    fn known(&self) -> Known<'a> {
        let inputs = self.inputs.iter().map(|given| given.name);
        Known::new(inputs.chain(self.outputs.iter().copied()).chain(self.indices.iter().map(String::as_str)))
    }

    /// The sentences of these that can stand without the others.
    ///
    /// A sentence uses names that are introduced, and what it says of a variable holds only where every change of that
    /// variable is told.
    fn standing(&self, sentences: &'a [Sentence], mut is_told: Vec<bool>) -> Vec<bool> {
        loop {
            let mut known = self.known();
            let before = is_told.clone();
            for (sentence, is_told) in sentences.iter().zip(&mut is_told) {
                *is_told = *is_told && known.take_in(&sentence.text);
            }
            let of = |wanted: bool| sentences.iter().zip(&is_told).filter(move |(_, told)| **told == wanted);
            let told: Vec<&str> = of(true).flat_map(|(sentence, _)| changed(&sentence.text)).collect();
            let left_out: Vec<&str> = of(false).flat_map(|(sentence, _)| changed(&sentence.text)).collect();
            let leaves = of(false).any(|(sentence, _)| sentence.text.contains("nothing else is written"));
            let fields = of(false).any(|(sentence, _)| is_field_update(&sentence.text));
            let is_false = |name: &str, text: &str| {
                left_out.contains(&name) || text.contains(&format!("`{name}` starts as ")) && !told.contains(&name)
            };
            let mut next = is_told.clone();
            for (sentence, is_told) in sentences.iter().zip(&mut next) {
                let text = sentence.text.as_str();
                let relies = !is_of_function(text)
                    && spans(text).flat_map(|(_, code)| names_of(code)).any(|name| is_false(name, text));
                if relies || leaves || fields && is_field_update(text) {
                    *is_told = false;
                }
            }
            is_told = next;
            if is_told == before {
                return is_told;
            }
        }
    }

    /// The sentences that say what the outputs are, and what these rely on.
    fn essence(&self, sentences: &'a [Sentence]) -> Vec<bool> {
        let mut is_told: Vec<bool> = sentences.iter().map(|sentence| !sentence.is_detail).collect();
        loop {
            let used: Vec<&str> = sentences
                .iter()
                .zip(&is_told)
                .filter(|(sentence, told)| **told && !is_of_function(&sentence.text))
                .flat_map(|(sentence, _)| spans(&sentence.text).flat_map(|(_, code)| names_of(code)))
                .collect();
            let defines = |text: &'a str| {
                let params = self.known();
                let is_new = |name: &&str| !params.0.contains(name);
                !is_of_function(text)
                    && spans(text).map(|(_, span)| span).filter(is_new).any(|name| {
                        let mut defined = changed(text).chain(introduced(text));
                        used.contains(&name) && defined.any(|other| other == name)
                    })
            };
            let next: Vec<bool> =
                sentences.iter().zip(&is_told).map(|(sentence, told)| *told || defines(&sentence.text)).collect();
            if next == is_told {
                return is_told;
            }
            is_told = next;
        }
    }

    fn describes_outputs(&self, text: &str) -> bool {
        let mentions = |name: &&str| text.contains(&format!("`{name}`")) || text.contains(&format!("`{name}."));
        match self.outputs {
            [] => self.inputs.iter().map(|given| given.name).any(|name| mentions(&name) && !text.is_empty()),
            outputs => outputs.iter().any(mentions),
        }
    }
}

/// The names that a sentence introduces.
fn introduced(sentence: &str) -> impl Iterator<Item = &str> {
    let mut last_end = 0;
    let mut lists = false;
    spans(sentence).filter_map(move |(at, span)| {
        let lead = &sentence[last_end..at - 1];
        let end = at + span.len() + 1;
        last_end = end;
        lists = introduces(lead, &sentence[end..]) || lists && matches!(lead, ", " | " and ");
        (lists && names_of(span).next() == Some(span)).then_some(span)
    })
}

/// Whether a sentence says what a field of a struct becomes.
fn is_field_update(sentence: &str) -> bool {
    let field = sentence.strip_prefix('`').and_then(|rest| rest.split_once("` becomes "));
    field.is_some_and(|(field, _)| field.contains('.'))
}

/// The docstring's lines: the first, and what follows it.
pub(super) fn body(
    random: &mut Random,
    subject: &Subject<'_>,
    summary: Option<String>,
    sentences: &[Sentence],
) -> (Option<String>, String) {
    let length = |told: &[bool]| {
        sentences
            .iter()
            .zip(told)
            .filter(|(_, told)| **told)
            .map(|(sentence, _)| sentence.text.len() + 1)
            .sum::<usize>()
    };
    let total = length(&vec![true; sentences.len()]);
    let is_brief = total > LONGEST || total > LONG && random.one_in(2);
    let is_composite = subject.category == Category::Composite;
    let describes = |told: &[bool]| {
        let mut outputs = sentences.iter().zip(told).filter(|(sentence, told)| **told && !sentence.is_detail);
        outputs.any(|(sentence, _)| subject.describes_outputs(&sentence.text))
    };
    let all = sentences.iter().map(|sentence| {
        let is_long = is_brief && sentence.text.len() > LONG_SENTENCE;
        !(sentence.is_detail && (is_brief || subject.has_comments) || is_long)
    });
    let mut told = subject.standing(sentences, all.collect());
    let mut lead = None;
    if is_composite {
        let mut essence = subject.essence(sentences);
        for (is_needed, told) in essence.iter_mut().zip(&told) {
            *is_needed |= *told;
        }
        // What a sentence needs and nothing says is what the skeleton has come to.
        let mut known = subject.known();
        let mut open: Vec<&str> = Vec::new();
        for (sentence, is_told) in sentences.iter().zip(&mut essence).filter(|(_, told)| **told) {
            if known.take_in(&sentence.text) {
                continue;
            }
            let defined: Vec<&str> = introduced(&sentence.text).collect();
            let names = spans(&sentence.text).flat_map(|(_, code)| names_of(code));
            let unknown: Vec<&str> = names.filter(|name| !known.0.contains(name) && !defined.contains(name)).collect();
            let is_result = |name: &&str| !subject.counters.contains(name);
            let is_plain = sentence.text.starts_with('`') && !sentence.text.contains([':', ';']);
            if sentence.is_detail && !(is_plain && unknown.iter().all(is_result)) {
                *is_told = false;
                continue;
            }
            for name in unknown {
                if !known.0.contains(&name) {
                    known.0.push(name);
                    open.push(name);
                }
            }
            known.take_in(&sentence.text);
        }
        lead = match open[..] {
            [] => None,
            [one] => Some(format!("`{one}` is what comes of that.")),
            _ => Some(format!("{} are what comes of that.", list(&open))),
        };
        told = essence;
    } else if !describes(&told) {
        let essence = subject.standing(sentences, subject.essence(sentences));
        if describes(&essence) && length(&essence) <= LONGEST_ESSENCE {
            told = essence;
        }
    }
    let is_cut = told.contains(&false);
    let mut kept: Vec<&str> = Vec::new();
    let describes = describes(&told);
    for (sentence, told) in sentences.iter().zip(&told) {
        // Without what is left in the end the steps towards it say nothing.
        if *told && (describes || !is_cut || !sentence.text.contains('`')) {
            kept.push(&sentence.text);
        }
    }
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
    if let Some(lead) = &lead {
        kept.insert(0, lead);
    }
    let mut rest = kept.join(" ");
    if is_composite {
        let first = summary.as_deref().filter(|line| line.len() <= FIRST + 6).unwrap_or_default();
        let is_left_out =
            |name: &&str| !spans(first).chain(spans(&rest)).any(|(_, code)| names_of(code).any(|other| other == *name));
        let left_out: Vec<&str> = subject.inputs.iter().map(|given| given.name).filter(is_left_out).collect();
        let verb = if left_out.len() == 1 { "takes part" } else { "take part" };
        if !left_out.is_empty() {
            rest = format!("{rest} {} {verb} on the way.", list(&left_out));
        }
    } else if !describes && !subject.steps.is_empty() {
        rest = format!("{rest} {}", subject.steps);
    }
    let rest = rest.trim().to_owned();
    // Without more to say the line ends with quotes.
    let room = if rest.is_empty() { FIRST + 3 } else { FIRST + 6 };
    (summary.filter(|line| line.len() <= room), rest)
}

/// A line that sums up what a kernel does.
pub(super) fn summary(random: &mut Random, category: Category, inputs: &[Given<'_>], outputs: &[&str]) -> String {
    let names: Vec<&str> = inputs.iter().map(|given| given.name).collect();
    let (ins, outs) = (list(&names), list(outputs));
    // What a kernel goes along, looks around in or has the fields of are parameters of a kind.
    let fits = |given: &&Given<'_>| match category {
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
        return lines.into_iter().find(|line| line.len() <= FIRST).unwrap_or_default();
    }
    let lines: Vec<String> = match category {
        Category::ControlFlow => {
            vec![format!("Compute {outs} from {ins} by cases."), format!("Choose {outs} by conditions on {ins}.")]
        }
        Category::Loop => {
            vec![format!("Compute {outs} from {ins} by iteration."), format!("Compute {outs} from {ins} with loops.")]
        }
        Category::Struct => vec![
            format!("Compute {outs} for each of `{first}`{}.", after(&rest, "with")),
            format!("Compute {outs} from the fields of {mains}{with}."),
        ],
        Category::Function => vec![format!("Apply helper functions to {ins} to get {outs}.")],
        Category::Stencil => vec![
            format!("Compute {outs} from `{first}` and its neighbours{}.", after(&rest, "with")),
            format!("Combine each element of `{first}` with its neighbours{} into {outs}.", after(&rest, "and")),
        ],
        Category::Reduction => vec![
            format!("Reduce each row of `{first}` to {outs}{}.", after(&rest, "with")),
            format!("Compute {outs} over the rows of {mains}{with}."),
        ],
        Category::Scan => vec![
            format!("Scan the rows of `{first}` into {outs}{}.", after(&rest, "with")),
            format!("Run along the rows of {mains}{with} and fill {outs}."),
        ],
        Category::Random => vec![
            format!("Compute {outs} from random numbers and {ins}."),
            format!("Draw random numbers and combine them with {ins} into {outs}."),
        ],
        Category::Atomic => vec![
            format!("Collect what comes of {ins} in {outs} over all threads."),
            format!("Accumulate what comes of {ins} in {outs} with atomics."),
        ],
        Category::SharedMemory => vec![
            format!("Compute {outs} from {ins} in blocks of threads that share memory."),
            format!("Compute {outs} from {ins} by way of shared memory."),
        ],
        Category::Warp => vec![
            format!("Compute {outs} from {ins} across the lanes of a warp."),
            format!("Compute {outs} from {ins} with warp primitives."),
        ],
        Category::TensorCore => vec![format!("Compute {outs} from {ins} on the tensor core.")],
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
        format!("Compute {} results from {} inputs.", outputs.len(), inputs.len()),
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
