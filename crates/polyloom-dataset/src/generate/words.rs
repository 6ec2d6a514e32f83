//! Expressions in words, for docstrings: the outermost operation in prose, what it is of as formulas.

use crate::catalogue;
use polyloom::Op;

/// An operand: words, or code that stands in backticks.
#[derive(Clone, Copy)]
pub(super) enum OperandWords<'a> {
    Words(&'a str),
    Code(&'a str),
}

impl OperandWords<'_> {
    fn push_to(self, text: &mut String) {
        match self {
            OperandWords::Words(words) => text.push_str(words),
            OperandWords::Code(code) => {
                text.push('`');
                text.push_str(code);
                text.push('`');
            }
        }
    }
}

/// `a OPERATOR b`.
pub(super) fn binary(operator: &str, a: OperandWords<'_>, b: OperandWords<'_>) -> String {
    let noun = match operator {
        "@" => "the matrix product of {} and {}",
        "whole /" => "the integer quotient of {} and {}",
        "and" => "{} and {}",
        "or" => "{} or {}",
        _ => catalogue::op_of_operator(operator, 2).and_then(|op| catalogue::facts(op).noun).unwrap_or("{} with {}"),
    };
    match (operator, a, b) {
        ("*", OperandWords::Words(first), OperandWords::Words(second))
        | ("*", OperandWords::Code(first), OperandWords::Code(second))
            if first == second =>
        {
            fill("the square of {}", &[a])
        }
        _ => fill(noun, &[a, b]),
    }
}

/// `OPERATOR x`.
pub(super) fn unary(operator: &str, x: OperandWords<'_>) -> String {
    let noun = catalogue::op_of_operator(operator, 1).and_then(|op| catalogue::facts(op).noun);
    fill(noun.unwrap_or("{}"), &[x])
}

/// A condition that does not hold, of which `text` is the code.
pub(super) fn negated(condition: &str, text: &str) -> String {
    let verbs = [(" is ", " is not "), (" equals ", " does not equal "), (" differs ", " does not differ ")];
    let mut found = verbs.iter().filter(|(verb, _)| condition.contains(verb));
    match (found.next(), found.next()) {
        (Some((verb, negated)), None) if condition.matches(verb).count() == 1 => condition.replacen(verb, negated, 1),
        _ => formula(text),
    }
}

/// Code in a sentence.
pub(super) fn formula(text: &str) -> String {
    fill("{}", &[OperandWords::Code(text)])
}

/// A sentence without the names by which its code calls the package.
pub(super) fn without_package(sentence: &str) -> String {
    if sentence.contains("wp.") || sentence.contains("loom.") {
        return sentence.replace("wp.", "").replace("loom.", "");
    }
    sentence.to_owned()
}

/// Returns where code has the name.
pub(super) fn places<'a>(code: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.match_indices(name).map(|(at, _)| at).filter(move |&at| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        !before.ends_with(|c| is_part(c) || c == '.') && !after.starts_with(is_part)
    })
}

/// The code with another name in place of one.
pub(super) fn renamed(code: &str, name: &str, fresh: &str) -> String {
    let (mut text, mut end) = (String::with_capacity(code.len() + 8), 0);
    for at in places(code, name) {
        text.push_str(&code[end..at]);
        text.push_str(fresh);
        end = at + name.len();
    }
    text.push_str(&code[end..]);
    text
}

/// The sentence with another name in place of one wherever it stands as code, because in prose it is a word.
pub(super) fn renamed_in_prose(sentence: &str, name: &str, fresh: &str) -> String {
    let is_aside = |c: char| matches!(c, '\u{2}' | '\u{3}');
    let mut text = String::with_capacity(sentence.len() + 8);
    for (at, part) in sentence.split_inclusive(|c: char| c == '`' || is_aside(c)).enumerate() {
        match at % 2 {
            0 => text.push_str(part),
            _ => text.push_str(&renamed(part, name, fresh)),
        }
    }
    text
}

/// Calls an element by its index wherever it is called by its array, if the sentence does so once.
pub(super) fn with_one_form(sentence: &mut String, name: &str, element: &str) {
    if !sentence.contains(element) {
        return;
    }
    let named = format!("`{name}`");
    let mut text = String::with_capacity(sentence.len() + 16);
    let mut rest = sentence.as_str();
    while let Some((before, after)) = rest.split_once(&named) {
        text.push_str(before);
        let is_array = ["elements of ", "element of ", "rows of ", "row of ", "columns of ", "column of "];
        match is_array.iter().any(|lead| before.ends_with(lead)) {
            true => text.push_str(&named),
            false => text.extend(["`", element, "`"]),
        }
        rest = after;
    }
    text.push_str(rest);
    *sentence = text;
}

/// `NAME(args)`, of which `text` is the code.
pub(super) fn call(name: &str, args: &[OperandWords<'_>], text: &str) -> String {
    let noun = match name.rsplit('.').next().unwrap_or(name) {
        "float" => Some("{} as a float"),
        "int" => Some("{} as an integer"),
        name => Op::from_name(name).and_then(|op| catalogue::facts(op).noun),
    };
    match noun {
        Some(noun) if noun.matches('{').count() == args.len() => fill(noun, args),
        _ => formula(text),
    }
}

/// A component, of which `text` is the code.
pub(super) fn part(suffix: &str, x: OperandWords<'_>, text: &str) -> String {
    match x {
        OperandWords::Words(words) if words.ends_with('`') => format!("{}{suffix}`", words.trim_end_matches('`')),
        OperandWords::Code(_) => formula(text),
        OperandWords::Words(words) => format!("component `{suffix}` of {words}"),
    }
}

/// The noun with operands in place of `{}`, or of `{0}` and the like.
pub(super) fn fill(noun: &str, args: &[OperandWords<'_>]) -> String {
    let mut text = String::with_capacity(noun.len() + 48);
    let mut rest = noun;
    let mut next = 0;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let Some((number, after)) = after.split_once('}') else { break };
        let at = number.parse().unwrap_or(next);
        next = at + 1;
        if let Some(arg) = args.get(at) {
            arg.push_to(&mut text);
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_where_they_stand_alone() {
        assert_eq!(renamed("bias * x.bias + bias2 - f(bias)", "bias", "gain"), "gain * x.bias + bias2 - f(gain)");
    }

    #[test]
    fn words_are_no_names() {
        let text = "Add the slope of `slope * x`\u{2}slope * y\u{3}, a slope.";
        let expected = "Add the slope of `kappa * x`\u{2}kappa * y\u{3}, a slope.";
        assert_eq!(renamed_in_prose(text, "slope", "kappa"), expected);
    }

    #[test]
    fn elements_have_one_form() {
        let check = |sentence: &str, expected: &str| {
            let mut text = sentence.to_owned();
            with_one_form(&mut text, "x", "x[i]");
            assert_eq!(text, expected);
        };
        check("`a` is the sum of `x` and `sin(x[i])`.", "`a` is the sum of `x[i]` and `sin(x[i])`.");
        check("`a` is the sum of `x` and 1.", "`a` is the sum of `x` and 1.");
        check("Skip elements of `x` less than `x[i]`.", "Skip elements of `x` less than `x[i]`.");
    }

    #[test]
    fn calls_read_as_sentences() {
        use OperandWords::{Code, Words};
        assert_eq!(call("wp.sin", &[Words("`x`")], "wp.sin(x)"), "the sine of `x`");
        assert_eq!(call("wp.quat_rotate", &[Words("`q`"), Words("`v`")], ""), "`v` rotated by `q`");
        assert_eq!(call("wp.unheard_of", &[Words("`a`")], "wp.unheard_of(a)"), "`wp.unheard_of(a)`");
        assert_eq!(without_package("`wp.unheard_of(a)` is `loom.sin(a)`"), "`unheard_of(a)` is `sin(a)`");
        assert_eq!(part(".x", Words("`p`"), "p.x"), "`p.x`");
        assert_eq!(part("[0]", Code("p + q"), "(p + q)[0]"), "`(p + q)[0]`");
        assert_eq!(negated("`a` is less than 2", "not a < 2"), "`a` is not less than 2");
        assert_eq!(binary("*", Words("`a`"), Words("`a`")), "the square of `a`");
        assert_eq!(binary("-", Words("`a`"), Code("b + 1")), "the difference of `a` and `b + 1`");
    }
}
