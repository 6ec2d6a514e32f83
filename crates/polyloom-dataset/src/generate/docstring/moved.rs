//! What has been moved to before a loop is told before the loop.

use super::DocSentence;
use super::layout::{clauses, head, in_clause};
use crate::generate::generator::{capitalised, held_together};

/// Takes what is said of each of these names out of the innermost loop whose rounds compute it, to before that loop: once
/// for each time that a name is listed.
pub(in crate::generate) fn told_before_loops(sentences: &mut Vec<DocSentence>, names: &[String]) {
    for name in names {
        let taken = sentences.iter().enumerate().find_map(|(at, sentence)| {
            let text = sentence.text.trim_end_matches('.');
            Some((at, lifted(text, name)?))
        });
        let Some((at, lifted)) = taken else { continue };
        match lifted {
            LiftedClause::Here(text) => sentences[at].text = format!("{}.", capitalised(&text)),
            LiftedClause::Out { clause, rest } => {
                sentences[at].text = format!("{}.", capitalised(&rest));
                let text = format!("{}.", capitalised(&clause));
                sentences.insert(at, DocSentence { text, is_detail: true, is_comment: sentences[at].is_comment });
            }
        }
    }
}

/// A text from a loop of which a clause has been taken.
#[derive(PartialEq, Eq, Debug)]
enum LiftedClause {
    /// The text has it before the loop.
    Here(String),
    /// The text is the loop itself, so that the clause belongs before it.
    Out { clause: String, rest: String },
}

fn lifted(text: &str, name: &str) -> Option<LiftedClause> {
    match head(text) {
        Some((lead, body)) if is_of_loop(lead) => match lifted(body, name) {
            Some(lifted) => Some(LiftedClause::Here(format!("{lead}: {}", lifted.one_after_the_other()))),
            None => {
                let mut body = clauses(body);
                let at = body.iter().position(|clause| is_about(clause, name))?;
                let clause = body.remove(at).to_owned();
                let rest = format!("{lead}: {}", body.join("; "));
                (!body.is_empty()).then_some(LiftedClause::Out { clause, rest })
            }
        },
        _ => {
            let all = clauses(text);
            let (at, clause) = all.iter().enumerate().find_map(|(at, clause)| {
                let (before, inner) = in_clause(clause)?;
                let text = match lifted(inner, name)? {
                    // The loop is part of the list that it is in.
                    out @ LiftedClause::Out { .. } if before.is_empty() => out.one_after_the_other(),
                    lifted => format!("{before}{}", held_together(&lifted.one_after_the_other())),
                };
                Some((at, text))
            })?;
            let mut all: Vec<String> = all.into_iter().map(str::to_owned).collect();
            all[at] = clause;
            Some(LiftedClause::Here(all.join("; ")))
        }
    }
}

impl LiftedClause {
    fn one_after_the_other(self) -> String {
        match self {
            LiftedClause::Here(text) => text,
            LiftedClause::Out { clause, rest } => format!("{clause}; {}", held_together(&rest)),
        }
    }
}

fn is_of_loop(lead: &str) -> bool {
    ["For each ", "for each ", "While ", "while "].iter().any(|head| lead.starts_with(head)) || lead.ends_with(" times")
}

/// Returns true if a clause says what the name is, and no more.
fn is_about(clause: &str, name: &str) -> bool {
    [format!("let `{name}` be "), format!("`{name}` is ")].iter().any(|lead| clause.starts_with(lead.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_stand_before_the_loop_that_they_were_in() {
        let check = |text: &str, clause: &str, rest: &str| {
            let expected = LiftedClause::Out { clause: clause.to_owned(), rest: rest.to_owned() };
            assert_eq!(lifted(text, "m"), Some(expected));
        };
        check(
            "For each `k` below 3: let `m` be `f(x)`; add `m` to `s`",
            "let `m` be `f(x)`",
            "For each `k` below 3: add `m` to `s`",
        );
        check("For each `k`: let `a` be `k`; let `m` be `x`", "let `m` be `x`", "For each `k`: let `a` be `k`");
        check("`n` times: `m` is `x`; `s` grows by 1", "`m` is `x`", "`n` times: `s` grows by 1");
        assert_eq!(lifted("Let `m` be `x`", "m"), None);
        assert_eq!(lifted("For each `k`: let `m` be `x`", "m"), None);
    }

    #[test]
    fn clauses_of_inner_loops_stay_in_the_outer_ones() {
        let check = |text: &str, expected: &str| {
            assert_eq!(lifted(text, "m"), Some(LiftedClause::Here(expected.to_owned())));
        };
        check(
            "3 times: (for each `n`: `m` is `x`; add `m` to `s`); add 1 to `s`",
            "3 times: `m` is `x`; (for each `n`: add `m` to `s`); add 1 to `s`",
        );
        check(
            "While `h` is more than 1: `s` is `h`; `r` starts as 1; (while `r` is less than 9: `m` is `s`; add `m` to `r`)",
            "While `h` is more than 1: `s` is `h`; `r` starts as 1; `m` is `s`; (while `r` is less than 9: add `m` to `r`)",
        );
        check(
            "3 times: for each `n`: `m` is `x`; add `m` to `s`",
            "3 times: `m` is `x`; (for each `n`: add `m` to `s`)",
        );
        check(
            "Where `x > 1.0`, (for each `n`: `m` is `x`; add `m` to `s`); elsewhere `s` is 1",
            "Where `x > 1.0`, (`m` is `x`; (for each `n`: add `m` to `s`)); elsewhere `s` is 1",
        );
    }

    #[test]
    fn what_two_loops_compute_is_told_before_both() {
        let text = "3 times: (for each `n`: `m` is `x`; add `m` to `s`); add 1 to `s`.".to_owned();
        let mut sentences = vec![DocSentence { text, is_detail: true, is_comment: false }];
        told_before_loops(&mut sentences, &["m".to_owned(), "m".to_owned()]);
        let texts: Vec<&str> = sentences.iter().map(|sentence| sentence.text.as_str()).collect();
        // In a list it is one of its own.
        assert_eq!(texts, ["`m` is `x`.", "3 times: (for each `n`: add `m` to `s`); add 1 to `s`."]);
    }
}
