//! A docstring that has much to say is a list: an item for each sentence, and below it one for each of its parts.
//!
//! Sentences are of one grammar wherever they come from. Parts follow each other with semicolons, behind a colon or, of a
//! branch, in brackets.

/// The longest text that is prose.
const LONGEST_PROSE: usize = 480;

/// Spaces that an item stands further in than the one it is a part of.
const STEP: usize = 2;

/// The sentences in lines of this length.
pub(in crate::generate) fn laid_out(sentences: &[String], length: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let n_bytes: usize = sentences.iter().map(|sentence| sentence.len() + 1).sum();
    if n_bytes <= LONGEST_PROSE || sentences.len() < 2 && items(&sentences.join(" ")).len() < 2 {
        wrap(&sentences.join(" "), "", "", length, &mut lines);
        return lines;
    }
    for item in sentences.iter().flat_map(|sentence| items(sentence)) {
        item.write(0, length, &mut lines);
    }
    lines
}

/// A sentence or a part of one, and its own parts.
#[derive(PartialEq, Eq, Debug)]
struct Item<'a> {
    text: &'a str,
    /// What stands in place of what has been cut off behind the text.
    end: &'static str,
    parts: Vec<Item<'a>>,
}

impl Item<'_> {
    /// Ends the last part with what stands behind the brackets that it was in.
    fn end_with(&mut self, end: &'static str) {
        match self.parts.last_mut() {
            Some(last) => last.end_with(end),
            None => self.end = end,
        }
    }

    fn write(&self, depth: usize, length: usize, lines: &mut Vec<String>) {
        let indent = " ".repeat(depth * STEP);
        let text = format!("{}{}", self.text, self.end);
        wrap(&text, &format!("{indent}- "), &format!("{indent}  "), length, lines);
        for part in &self.parts {
            part.write(depth + 1, length, lines);
        }
    }
}

/// What a text is a list of, whose parts keep the semicolons between them.
fn items(text: &str) -> Vec<Item<'_>> {
    let (head, rest) = match head(text) {
        Some((head, rest)) => (Some(head), rest),
        None => (None, text),
    };
    let parts: Vec<Item<'_>> = clauses(rest).into_iter().flat_map(clause).collect();
    match head {
        Some(head) if parts.len() > 1 => vec![Item { text: head, end: ":", parts }],
        Some(_) => vec![Item { text, end: "", parts: Vec::new() }],
        None => parts,
    }
}

/// A clause with its semicolon: what stands in brackets at its end are parts of what is before.
fn clause(text: &str) -> Vec<Item<'_>> {
    let plain = || vec![Item { text, end: "", parts: Vec::new() }];
    let Some(inner) = text.trim_end_matches([';', '.']).strip_suffix(')') else { return plain() };
    let Some((open, _)) = outside(text).find(|&(_, c)| c == '(') else { return plain() };
    let Some(inner) = inner.get(open + 1..).filter(|inner| clauses(inner).len() > 1 || inner.starts_with('(')) else {
        return plain();
    };
    let mut parts = items(inner);
    if let Some(last) = parts.last_mut() {
        last.end_with(if text.ends_with(';') { ";" } else { "." });
    }
    match text[..open].trim_end_matches([' ', ',']) {
        "" => parts,
        head => vec![Item { text: head, end: ":", parts }],
    }
}

/// What a list is of, and the list: behind a colon, or in a function.
fn head(text: &str) -> Option<(&str, &str)> {
    let colon = outside(text).find(|&(at, c)| c == ':' && text[at..].starts_with(": "));
    let bracket = outside(text).find(|&(_, c)| c == '(' || c == ';').map_or(text.len(), |(at, _)| at);
    let comma = || {
        let is_function = text.starts_with("In `");
        outside(text).find(|&(at, c)| is_function && c == ',' && text[at..].starts_with(", "))
    };
    let (at, _) = colon.filter(|(at, _)| *at < bracket).or_else(comma)?;
    Some((&text[..at], &text[at + 2..]))
}

/// The parts between semicolons, each with its own, outside brackets.
fn clauses(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut clauses) = (0usize, 0, Vec::new());
    for (at, c) in outside(text) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => {
                clauses.push(text[begin..=at].trim_start());
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

/// Words in lines, the first of which begins so and the others as `rest`.
fn wrap(text: &str, first: &str, rest: &str, length: usize, lines: &mut Vec<String>) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
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
            "`a` is the difference of `f(x)` and 2.0, (`x - 2.0`).",
            &["- `a` is the difference of `f(x)` and 2.0, (`x - 2.0`)."],
        );
        check(
            "For each `row`: `a` is `x[row]`; `sum` adds up `a`.",
            &["- For each `row`:", "  - `a` is `x[row]`;", "  - `sum` adds up `a`."],
        );
        check("For each `row`: `sum` adds up `x[row]`.", &["- For each `row`: `sum` adds up `x[row]`."]);
        check(
            "In `f(a, b)`, `c` is `a + b`; the result is `c`.",
            &["- In `f(a, b)`:", "  - `c` is `a + b`;", "  - the result is `c`."],
        );
    }

    #[test]
    fn branches_are_items() {
        check(
            "Where `x > 0.0`, `a` is 1; elsewhere `a` is 2.",
            &["- Where `x > 0.0`, `a` is 1;", "- elsewhere `a` is 2."],
        );
        let text =
            "Where `x > 0.0`, (let `b` be `x`; (where `b < 2`, `a` is 1; elsewhere `a` is `b`)); elsewhere `a` is 2.";
        check(
            text,
            &[
                "- Where `x > 0.0`:",
                "  - let `b` be `x`;",
                "  - where `b < 2`, `a` is 1;",
                "  - elsewhere `a` is `b`;",
                "- elsewhere `a` is 2.",
            ],
        );
    }

    #[test]
    fn words_are_wrapped_within_their_item() {
        check(
            "`long` is the sum of the first of all of `values` and the last of them.",
            &["- `long` is the sum of the first of all of `values` and the", "  last of them."],
        );
    }

    #[test]
    fn what_is_short_is_prose() {
        let sentences = ["`a` is 1.".to_owned(), "`b` is 2.".to_owned()];
        assert_eq!(laid_out(&sentences, 80), ["`a` is 1. `b` is 2."]);
    }
}
