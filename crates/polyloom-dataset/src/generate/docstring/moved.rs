//! What has been moved to before a loop is told before the loop's sentence.

use super::Sentence;
use crate::generate::generator::capitalised;

/// Takes the clauses about these names out of the sentences about loops, to where each name is computed.
pub(in crate::generate) fn told_before_loops(sentences: &mut Vec<Sentence>, names: &[String]) {
    for name in names {
        let taken = sentences.iter().enumerate().find_map(|(at, sentence)| {
            let (clause, rest) = without_clause(&sentence.text, name)?;
            Some((at, clause, rest))
        });
        if let Some((at, clause, rest)) = taken {
            sentences[at].text = rest;
            let text = format!("{}.", capitalised(&clause));
            sentences.insert(at, Sentence { text, is_detail: true, is_comment: sentences[at].is_comment });
        }
    }
}

/// The clause of a loop's sentence that says what the name is, and the sentence without it.
fn without_clause(sentence: &str, name: &str) -> Option<(String, String)> {
    let is_of_loop = ["For each ", "While "].iter().any(|head| sentence.starts_with(head));
    if !is_of_loop && !sentence.split(": ").next()?.ends_with(" times") {
        return None;
    }
    let start = [format!("let `{name}` be "), format!("`{name}` is ")].iter().find_map(|lead| {
        let is_clause = |at: &usize| [": ", "; ", "("].iter().any(|end| sentence[..*at].ends_with(end));
        sentence.match_indices(lead.as_str()).map(|(at, _)| at).find(is_clause)
    })?;
    let mut depth = 0;
    let closes = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0 || depth == 0 && c == ';'
    };
    let end = sentence[start..].find(closes).map_or(sentence.len() - 1, |length| start + length);
    let (before, after) = (&sentence[..start], &sentence[end..]);
    let rest = match (after.strip_prefix("; "), before.strip_suffix("; ")) {
        (Some(after), _) => format!("{before}{after}"),
        (None, Some(before)) => format!("{before}{after}"),
        _ => return None,
    };
    Some((sentence[start..end].to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_taken_out() {
        let check = |text: &str, clause: &str, rest: &str| {
            assert_eq!(without_clause(text, "m"), Some((clause.to_owned(), rest.to_owned())));
        };
        check(
            "For each `k` below 3: let `m` be `f(x)`; add `m` to `s`.",
            "let `m` be `f(x)`",
            "For each `k` below 3: add `m` to `s`.",
        );
        check("For each `k`: let `a` be `k`; let `m` be `x`.", "let `m` be `x`", "For each `k`: let `a` be `k`.");
        check(
            "3 times: (for each `n`: `m` is `x`; add `m` to `s`); add 1 to `s`.",
            "`m` is `x`",
            "3 times: (for each `n`: add `m` to `s`); add 1 to `s`.",
        );
        assert_eq!(without_clause("Let `m` be `x`.", "m"), None);
        assert_eq!(without_clause("For each `k`: let `m` be `x`.", "m"), None);
    }
}
