//! A docstring that has much to say is a list: an item for each sentence, and below it one for each of its parts.
//!
//! Sentences are of one grammar wherever they come from. Parts follow each other with semicolons, behind a colon or in
//! brackets; the cases of a branch do, too, and what each does is in brackets if it is more than one thing.

use crate::generate::generator::capitalised;

/// The longest text that is prose.
const LONGEST_PROSE: usize = 480;

/// Spaces that an item stands further in than the one it is a part of.
const STEP: usize = 2;

/// The sentences in lines of this length.
pub(in crate::generate) fn laid_out(sentences: &[String], length: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let n_bytes: usize = sentences.iter().map(|sentence| sentence.len() + 1).sum();
    let is_short = n_bytes <= LONGEST_PROSE || sentences.len() < 2 && items(&sentences.join(" ")).len() < 2;
    if is_short && !sentences.iter().any(|sentence| has_lists_in_brackets(sentence)) {
        wrap(&sentences.join(" "), "", "", length, &mut lines);
        return lines;
    }
    for item in sentences.iter().flat_map(|sentence| items(sentence)) {
        item.write(0, length, &mut lines);
    }
    lines
}

/// Returns true if a text is several parts, which brackets have to hold together in another.
pub(in crate::generate) fn has_parts(text: &str) -> bool {
    clauses(text).len() > 1
}

/// Returns true if brackets hold clauses, and not a formula.
fn has_lists_in_brackets(text: &str) -> bool {
    let mut opening = outside(text).filter(|&(_, c)| c == '(');
    opening.any(|(at, _)| {
        let code = text[at + 1..].strip_prefix('`').and_then(|rest| rest.split_once('`'));
        code.is_none_or(|(_, rest)| !rest.starts_with(')'))
    })
}

/// A sentence or a part of one, without its end, and its own parts.
#[derive(PartialEq, Eq, Debug)]
struct SentenceItem {
    text: String,
    parts: Vec<SentenceItem>,
}

impl SentenceItem {
    fn new(text: &str, parts: Vec<SentenceItem>) -> SentenceItem {
        SentenceItem { text: capitalised(text), parts }
    }

    fn write(&self, depth: usize, length: usize, lines: &mut Vec<String>) {
        let indent = " ".repeat(depth * STEP);
        let end = if self.parts.is_empty() { '.' } else { ':' };
        wrap(&format!("{}{end}", self.text), &format!("{indent}- "), &format!("{indent}  "), length, lines);
        for part in &self.parts {
            part.write(depth + 1, length, lines);
        }
    }
}

/// Returns what a text is a list of.
fn items(text: &str) -> Vec<SentenceItem> {
    let text = text.trim_end_matches(['.', ';']);
    // Two places, but one statement.
    if text.starts_with("Inside the grid ") {
        return vec![SentenceItem::new(text, Vec::new())];
    }
    if let Some((head, rest)) = head(text) {
        let parts = items(rest);
        return match parts.len() > 1 || parts.iter().any(|part| !part.parts.is_empty()) {
            true => vec![SentenceItem::new(head, parts)],
            false => vec![SentenceItem::new(text, Vec::new())],
        };
    }
    let clauses = clauses(text);
    let is_case = |at: usize| {
        let follows = |at: usize| clauses.get(at).is_some_and(|clause| goes_on(clause));
        follows(at) || follows(at + 1)
    };
    clauses.iter().enumerate().flat_map(|(at, text)| clause(text, is_case(at))).collect()
}

/// A clause: what stands in brackets at its end are parts of what is before, and what is done in one case of several is
/// a part of that case.
fn clause(text: &str, is_case: bool) -> Vec<SentenceItem> {
    let text = text.strip_prefix("and ").unwrap_or(text);
    if let Some((lead, done)) = case(text)
        && (is_case || in_brackets(done).is_some_and(|(before, _)| before.is_empty()))
    {
        return vec![SentenceItem::new(lead, items(done))];
    }
    let Some((before, inner)) = in_brackets(text) else {
        // A list of its own, in the brackets that this has been in.
        return match head(text) {
            Some(_) => items(text),
            None => vec![SentenceItem::new(text, Vec::new())],
        };
    };
    match before.trim_end_matches([' ', ',']) {
        "" => items(inner),
        head => vec![SentenceItem::new(head, items(inner))],
    }
}

/// Returns what stands before the brackets that end a clause, and what in them, if that is a list.
fn in_brackets(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    let brackets: Vec<(usize, char)> = outside(text).filter(|(_, c)| matches!(c, '(' | ')')).collect();
    brackets.last().filter(|(at, c)| *c == ')' && at + 1 == text.len())?;
    let (open, _) = brackets.into_iter().rev().find(|(_, c)| {
        depth += if *c == ')' { 1 } else { -1 };
        depth == 0
    })?;
    let inner = &text[open + 1..text.len() - 1];
    (open == 0 || has_parts(inner) || inner.starts_with('(') || case(inner).is_some()).then_some((&text[..open], inner))
}

/// One case of a branch: which, and what is done then.
fn case(text: &str) -> Option<(&str, &str)> {
    let lower = text.strip_prefix("Else w").or(text.strip_prefix("else w")).or(text.strip_prefix(['W', 'w']));
    if lower.is_some_and(|rest| rest.starts_with("here ")) {
        let (at, _) = outside(text).find(|&(at, c)| c == ',' && text[at..].starts_with(", "))?;
        return Some((&text[..at], &text[at + 2..]));
    }
    let done = text.strip_prefix("elsewhere ").or(text.strip_prefix("Elsewhere "))?;
    Some((&text[.."elsewhere".len()], done.trim_start_matches(", ")))
}

/// Returns true if a clause is a case that others are before.
fn goes_on(clause: &str) -> bool {
    ["else where ", "elsewhere "].iter().any(|lead| clause.starts_with(lead))
}

/// The list in a clause, in brackets or of one case, and what stands before it.
pub(super) fn in_clause(text: &str) -> Option<(&str, &str)> {
    let (before, inner) = match case(text) {
        Some((_, done)) => (&text[..text.len() - done.len()], done),
        None => in_brackets(text)?,
    };
    match in_brackets(inner) {
        Some(("", inner)) => Some((before, inner)),
        _ => Some((before, inner)),
    }
}

/// Returns what a list is of, and the list: behind a colon, or in a function.
pub(super) fn head(text: &str) -> Option<(&str, &str)> {
    if case(text).is_some() {
        return None;
    }
    let colon = outside(text).find(|&(at, c)| c == ':' && text[at..].starts_with(": "));
    let bracket = outside(text).find(|&(_, c)| c == '(' || c == ';').map_or(text.len(), |(at, _)| at);
    let comma = || {
        let is_function = text.starts_with("In `");
        outside(text).find(|&(at, c)| is_function && c == ',' && text[at..].starts_with(", "))
    };
    let (at, _) = colon.filter(|(at, _)| *at < bracket).or_else(comma)?;
    Some((&text[..at], &text[at + 2..]))
}

/// The parts between semicolons outside brackets.
pub(super) fn clauses(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut clauses) = (0usize, 0, Vec::new());
    for (at, c) in outside(text) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => {
                clauses.push(text[begin..at].trim_start());
                begin = at + 1;
            }
            _ => {}
        }
    }
    clauses.push(text[begin..].trim_start());
    clauses
}

/// The characters that are not code, with their places.
fn outside(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut is_code = false;
    text.char_indices().filter(move |&(_, c)| {
        is_code ^= c == '`';
        !is_code
    })
}

/// Words in lines, the first of which begins so and the others as `rest`. None begins with a sign that could be that of
/// an item.
fn wrap(text: &str, first: &str, rest: &str, length: usize, lines: &mut Vec<String>) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    let begins = |at: &usize| *at == 0 || text[..*at].ends_with(' ') && !text[*at..].starts_with("- ");
    let starts: Vec<usize> = (0..text.len()).filter(|at| text.is_char_boundary(*at)).filter(begins).collect();
    let ends = starts.iter().skip(1).map(|at| at - 1).chain([text.len()]);
    for word in starts.iter().zip(ends).map(|(start, end)| &text[*start..end]) {
        if !is_empty && line.len() + 1 + word.len() > length {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let mut lines = Vec::new();
        items(text).iter().for_each(|item| item.write(0, 60, &mut lines));
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn parts_are_items() {
        check("`a` is the sine of `x`.", &["- `a` is the sine of `x`."]);
        check(
            "`a` is the difference of `f(x)` and 2.0 (`x - 2.0`).",
            &["- `a` is the difference of `f(x)` and 2.0 (`x - 2.0`)."],
        );
        check(
            "For each `row`: `a` is `x[row]`; `sum` adds up `a`.",
            &["- For each `row`:", "  - `a` is `x[row]`.", "  - `sum` adds up `a`."],
        );
        check("For each `row`: `sum` adds up `x[row]`.", &["- For each `row`: `sum` adds up `x[row]`."]);
        check(
            "In `f(a, b)`, `c` is `a + b`; the result is `c`.",
            &["- In `f(a, b)`:", "  - `c` is `a + b`.", "  - The result is `c`."],
        );
        check(
            "`f(a, b)` gives two results: `a + b`; and `a - b`.",
            &["- `f(a, b)` gives two results:", "  - `a + b`.", "  - `a - b`."],
        );
    }

    #[test]
    fn cases_are_items() {
        check(
            "Where `x > 0.0`, `a` is 1; elsewhere `a` is 2.",
            &["- Where `x > 0.0`:", "  - `a` is 1.", "- Elsewhere:", "  - `a` is 2."],
        );
        let text =
            "Where `x > 0.0`, (let `b` be `x`; (where `b < 2`, `a` is 1; elsewhere `a` is `b`)); elsewhere `a` is 2.";
        check(
            text,
            &[
                "- Where `x > 0.0`:",
                "  - Let `b` be `x`.",
                "  - Where `b < 2`:",
                "    - `a` is 1.",
                "  - Elsewhere:",
                "    - `a` is `b`.",
                "- Elsewhere:",
                "  - `a` is 2.",
            ],
        );
        check(
            "Where `x > 0.0`, (let `b` be `x`; `a` is `b`); `c` is 1.",
            &["- Where `x > 0.0`:", "  - Let `b` be `x`.", "  - `a` is `b`.", "- `c` is 1."],
        );
        check("Where `x > 0.0`, `a` becomes 1.", &["- Where `x > 0.0`, `a` becomes 1."]);
        check(
            "Inside the grid `a` is 1; at its edges a copy of `b`.",
            &["- Inside the grid `a` is 1; at its edges a copy of `b`."],
        );
    }

    #[test]
    fn brackets_belong_to_what_is_before_them() {
        check(
            "`x` is the sum (`a`; `b`) and (`c`; `d`).",
            &["- `x` is the sum (`a`; `b`) and:", "  - `c`.", "  - `d`."],
        );
        check(
            "For each `i`: (for each `j`: `a` is `x`; add `a` to `s`).",
            &["- For each `i`:", "  - For each `j`:", "    - `a` is `x`.", "    - Add `a` to `s`."],
        );
    }

    #[test]
    fn words_are_wrapped_within_their_item() {
        check(
            "`minus` is the sum of the first of all `values` that have - 1.0.",
            &["- `minus` is the sum of the first of all `values` that", "  have - 1.0."],
        );
        check(
            "`long` is the sum of the first of all of `values` and the last of them.",
            &["- `long` is the sum of the first of all of `values` and the", "  last of them."],
        );
    }

    #[test]
    fn what_is_short_is_prose() {
        let check = |sentences: &[&str], expected: &[&str]| {
            let sentences: Vec<String> = sentences.iter().map(|sentence| (*sentence).to_owned()).collect();
            assert_eq!(laid_out(&sentences, 80), expected);
        };
        check(&["`a` is 1.", "`b` is 2."], &["`a` is 1. `b` is 2."]);
        check(
            &["`a` is 1 less 2 (`1 - 2`).", "For each `k`: `b` is 2; `c` is 3."],
            &["`a` is 1 less 2 (`1 - 2`). For each `k`: `b` is 2; `c` is 3."],
        );
        // Brackets are there for lists.
        check(
            &["Where `x > 0.0`, (`b` is 2; `c` is `b`)."],
            &["- Where `x > 0.0`:", "  - `b` is 2.", "  - `c` is `b`."],
        );
    }
}
