//! One form for what names are throughout a docstring: `` let `x` be `` or `` `x` is ``.

/// Holds what stands before a clause.
const BEGINS: [&str; 6] = [". ", "; ", ": ", "(", ", ", "lsewhere "];

/// Words behind `is` that say what becomes of a name, or how it compares, and not what it is.
const NO_VALUES: [&str; 14] = [
    "multiplied ",
    "divided ",
    "computed ",
    "less ",
    "greater ",
    "more ",
    "at ",
    "not ",
    "set ",
    "added ",
    "written",
    "raised ",
    "lowered ",
    "combined ",
];

/// The sentence in the form that states what names are, or in the other of those that are local.
pub(in crate::generate) fn with_one_verb(sentence: &str, states: bool, is_local: impl Fn(&str) -> bool) -> String {
    let mut text = String::with_capacity(sentence.len() + 16);
    let mut rest = sentence;
    while let Some(at) = rest.find('`') {
        let before = &rest[..at];
        text.push_str(before);
        let (names, behind) = names(&rest[at..]);
        let list = &rest[at..rest.len() - behind.len()];
        let verb = if names.len() > 1 { "are" } else { "is" };
        let lets = ["let ", "Let "].iter().any(|lead| text.ends_with(lead));
        if states && lets && behind.starts_with(" be ") {
            text.truncate(text.len() - "let ".len());
            text.push_str(list);
            text.extend([" ", verb]);
            rest = &behind[" be".len()..];
            continue;
        }
        let value = behind.strip_prefix([' ']).and_then(|rest| rest.strip_prefix(verb)?.strip_prefix(' '));
        let begins = text.is_empty() || BEGINS.iter().any(|begin| text.ends_with(begin));
        if !states
            && begins
            && let Some(value) = value.filter(|value| !NO_VALUES.iter().any(|word| value.starts_with(word)))
            && names.iter().all(|name| is_local(name))
        {
            text.push_str(if text.is_empty() || text.ends_with(". ") { "Let " } else { "let " });
            text.push_str(list);
            text.push_str(" be ");
            rest = value;
            continue;
        }
        // One name at a time, because a list may begin with the next.
        let end = rest[at + 1..].find('`').map_or(rest.len(), |length| at + length + 2);
        text.push_str(&rest[at..end]);
        rest = &rest[end..];
    }
    text.push_str(rest);
    text
}

/// The names of a list in backticks, and what stands behind it.
fn names(text: &str) -> (Vec<&str>, &str) {
    let (mut names, mut rest) = (Vec::new(), text);
    loop {
        let lead = match names.len() {
            0 => Some(rest),
            _ => [", ", " and "].iter().find_map(|lead| rest.strip_prefix(lead)),
        };
        let Some((name, behind)) = lead.and_then(|rest| rest.strip_prefix('`')?.split_once('`')) else { break };
        names.push(name);
        rest = behind;
    }
    (names, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_said_to_be_something_in_one_way() {
        let check = |sentence: &str, stated: &str, given: &str| {
            let is_local = |name: &str| ["a", "b", "c"].contains(&name);
            assert_eq!(with_one_verb(sentence, true, is_local), stated);
            assert_eq!(with_one_verb(sentence, false, is_local), given);
        };
        check("Let `a` be `f(x)`.", "`a` is `f(x)`.", "Let `a` be `f(x)`.");
        check("`a` is `f(x)`.", "`a` is `f(x)`.", "Let `a` be `f(x)`.");
        check("`out` is `f(x)`.", "`out` is `f(x)`.", "`out` is `f(x)`.");
        check("`a` and `b` are `f(x)`.", "`a` and `b` are `f(x)`.", "Let `a` and `b` be `f(x)`.");
        check(
            "In `f(x)`, `a` is `x`; the result is `a`.",
            "In `f(x)`, `a` is `x`; the result is `a`.",
            "In `f(x)`, let `a` be `x`; the result is `a`.",
        );
        check(
            "Where `a` is less than `b`, (let `c` be 1; `a` is multiplied by `c`).",
            "Where `a` is less than `b`, (`c` is 1; `a` is multiplied by `c`).",
            "Where `a` is less than `b`, (let `c` be 1; `a` is multiplied by `c`).",
        );
    }
}
