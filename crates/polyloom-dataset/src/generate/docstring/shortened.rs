//! Loops whose sentence is too long for a docstring: what they compute on the way is counted, and the rest is told.

use super::dataflow::{LineSources, NameDataflow};
use super::layout::clauses;
use super::names::{NameMentions, names_of, spans};
use super::{DocSentence, DocSubject, LONGEST_OUTLINE, list};

/// The sentences, those that are too long shortened; none if there are no such sentences.
pub(super) fn shortened(subject: &DocSubject<'_>, sentences: &[DocSentence]) -> Vec<DocSentence> {
    let is_long = |sentence: &DocSentence| !sentence.is_detail && sentence.text.len() > LONGEST_OUTLINE;
    if !sentences.iter().any(is_long) {
        return Vec::new();
    }
    let flow = subject.dataflow();
    let text = |sentence: &DocSentence| match is_long(sentence) {
        true => shorter(subject, &flow, &sentence.text).unwrap_or_else(|| sentence.text.clone()),
        false => sentence.text.clone(),
    };
    let all = sentences.iter();
    all.map(|s| DocSentence { text: text(s), is_detail: s.is_detail, is_comment: s.is_comment }).collect()
}

fn shorter(subject: &DocSubject<'_>, flow: &NameDataflow<'_>, text: &str) -> Option<String> {
    let (head, rest) = text.strip_suffix('.')?.split_once(": ").filter(|(head, _)| head.starts_with("For each "))?;
    // Text in brackets, or in code, has no part that can be left out.
    if rest.contains([':']) || rest.contains("; (") {
        return None;
    }
    let clauses = clauses(rest);
    let kept: Vec<bool> = clauses.iter().map(|clause| defined(clause).is_none()).collect();
    let told = || clauses.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(clause, _)| *clause);
    let is_read = |name: &str| told().flat_map(spans).any(|(_, span)| names_of(span).any(|other| other == name));
    let mut parts: Vec<String> = Vec::new();
    let mut waiting: Vec<&str> = Vec::new();
    for (clause, kept) in clauses.iter().zip(&kept) {
        if !kept {
            waiting.extend(defined(clause).filter(|name| is_read(name)));
            continue;
        }
        if !waiting.is_empty() {
            parts.push(counted(subject, flow, &waiting)?);
            waiting.clear();
        }
        parts.push((*clause).to_owned());
    }
    Some(format!("{head}: {}.", parts.join("; ")))
}

/// Returns what a clause gives a name to, if it does no more.
fn defined(clause: &str) -> Option<&str> {
    let rest = clause.strip_prefix("let `").or_else(|| clause.strip_prefix('`'))?;
    let (name, what) = rest.split_once('`')?;
    let is_definition =
        [" be ", " is "].iter().any(|verb| what.starts_with(verb)) && !what.starts_with(" is multiplied");
    let mentions = NameMentions::of(clause);
    (is_definition && mentions.changed.is_empty() && names_of(name).next() == Some(name)).then_some(name)
}

fn counted(subject: &DocSubject<'_>, flow: &NameDataflow<'_>, names: &[&str]) -> Option<String> {
    let mut origin = LineSources::default();
    for name in names {
        origin.join(&flow.origin(name).filter(|origin| origin.params != 0)?);
    }
    let given = subject.inputs.iter().map(|given| given.name).enumerate();
    let sources: Vec<&str> = given.filter(|(at, _)| origin.has_param(*at)).map(|(_, name)| name).collect();
    let n_steps = flow.way(&origin).n_steps;
    let together = if names.len() > 1 { " together" } else { "" };
    Some(format!("let {} be computed from {} in {n_steps} steps{together}", list(names), list(&sources)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_have_names() {
        let check = |clause: &str, name: Option<&str>| assert_eq!(defined(clause), name, "{clause}");
        check("let `a` be the sine of `x`", Some("a"));
        check("`a` is `x[i]`", Some("a"));
        check("`a` is multiplied by 2.0", None);
        check("`out` there is the sum of `a` and `b`", None);
        check("`a` becomes the larger of itself and `b`", None);
    }
}
