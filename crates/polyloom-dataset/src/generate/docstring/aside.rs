//! Formulas beside what a sentence says in words: left out where a reader does not know their names.

use super::names::{KnownNames, NameMentions, names_of};
use super::{DocSentence, DocSubject};

/// Holds what stands around a formula until the docstring is put together.
const BEGIN: char = '\u{2}';
const END: char = '\u{3}';

/// The longest formula beside words.
const LONGEST: usize = 88;

/// A formula to stand behind words that name it, if it is short.
pub(in crate::generate) fn aside(formula: &str) -> String {
    match formula.len() <= LONGEST {
        true => format!("{BEGIN}{formula}{END}"),
        false => String::new(),
    }
}

/// The sentences with those formulas whose names are known where they stand.
pub(super) fn settled(subject: &DocSubject<'_>, sentences: &[DocSentence]) -> Vec<DocSentence> {
    let texts: Vec<String> = sentences.iter().map(|sentence| without(&sentence.text)).collect();
    let mut known = subject.known();
    let mut settled = Vec::with_capacity(sentences.len());
    for (sentence, plain) in sentences.iter().zip(&texts) {
        let text = match plain.len() == sentence.text.len() {
            true => plain.clone(),
            false => with_known(&sentence.text, &known),
        };
        let mentions = NameMentions::of(plain);
        mentions.defined().for_each(|name| known.add(name));
        settled.push(DocSentence { text, ..*sentence });
    }
    settled
}

/// The text without formulas beside it.
fn without(text: &str) -> String {
    let mut parts = text.split(BEGIN);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(END).map_or(part, |(_, rest)| rest))
}

/// The text with the formulas of names that are known, or that the sentence introduces before them.
fn with_known(text: &str, known: &KnownNames<'_>) -> String {
    let mut parts = text.split(BEGIN);
    let mut settled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((formula, rest)) = part.split_once(END) else { continue };
        let is_told = {
            let before = NameMentions::of(&settled);
            names_of(formula).all(|name| known.contains(name) || before.introduced.contains(&name))
        };
        if is_told {
            settled.push_str(&format!(" (`{formula}`)"));
        }
        settled.push_str(rest);
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_of_unknown_names_are_left_out() {
        let check = |text: &str, expected: &str| {
            let known = KnownNames::new(["x", "gain"].into_iter());
            assert_eq!(with_known(text, &known), expected);
        };
        check(&format!("`y` is the sum{}.", aside("x + gain")), "`y` is the sum (`x + gain`).");
        check(&format!("`y` is the sum{}.", aside("x + z")), "`y` is the sum.");
        check(&format!("Let `z` be 2; `y` is it{}.", aside("x + z")), "Let `z` be 2; `y` is it (`x + z`).");
        assert_eq!(without(&format!("`y` is it{}, or not.", aside("x"))), "`y` is it, or not.");
    }
}
