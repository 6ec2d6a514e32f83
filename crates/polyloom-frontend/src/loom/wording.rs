//! Messages of the checker in the words of `.loom`.
//!
//! The checker is one for all front ends, and its messages name types and constructs as Python spells them. Where a
//! message is about `.loom`, what stands between backquotes is spelled as `.loom` has it.

use super::types::scalar_name;
use polyloom_ir::{Diagnostic, Scalar};
use rustc_hash::FxHashMap;

/// Maps what the checker says to write to what to write here.
const HELP: [(&str, &str); 14] = [
    ("write `import math` at the top of the file", "builtins are called by their names alone: `sqrt(x)`"),
    (
        "before its use, or define it outside the kernel",
        "by `let` or `var` before its use, or by `const` outside functions",
    ),
    ("write `for i in range(n):`", "write `for i in 0..n`"),
    ("unpack it: `a, b = …`", "unpack it: `let a, b = …`"),
    ("write a plain string; print values with `print(…)` before the `assert`", "write a text in quotes"),
    ("use fewer `elif` and inner blocks", "use fewer `else if` and inner blocks"),
    ("`a if cond else b`", "`if cond then a else b`"),
    ("write a loop over `range(…)`", "write a loop over a range"),
    ("write `a // b` and `a % b`", "write `floordiv(a, b)` and `a % b`"),
    (
        "use an array parameter, or one variable for each value",
        "use an array parameter, or one variable for each value",
    ),
    ("decorate a function with `@loom.kernel`", "begin a function with `kernel`"),
    ("write `-> float`", "write `-> f32`"),
    ("convert the bounds to `int`", "convert the bounds to `i32`"),
    ("`**` in an array type", "`**` in an array type"),
];

/// A message about a `.loom` text. `renamed` has the names that the checker sees in place of those of the text.
pub(crate) fn in_loom(mut diagnostic: Diagnostic, renamed: &FxHashMap<String, String>) -> Diagnostic {
    diagnostic.message = reworded(&diagnostic.message, renamed);
    for (_, label) in &mut diagnostic.labels {
        *label = reworded(label, renamed);
    }
    diagnostic.help = diagnostic.help.map(|help| reworded(&help, renamed));
    diagnostic
}

fn reworded(text: &str, renamed: &FxHashMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (python, loom) in HELP {
        if text.contains(python) {
            text = text.replace(python, loom);
        }
    }
    text = text.replace("polyloom.", "").replace("loom.", "").replace("$.", "");
    text = in_array_types(&text);
    in_words(&text, renamed)
}

/// `array(dtype=float32, ndim=2)` as `array<float32, _, _>`.
fn in_array_types(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("array(dtype=") {
        let inside = at + "array(dtype=".len();
        made.push_str(&rest[..at]);
        let Some(end) = closing(&rest[inside..]) else {
            made.push_str(&rest[at..inside]);
            rest = &rest[inside..];
            continue;
        };
        let arguments = &rest[inside..inside + end];
        let (element, ndim) = match arguments.rsplit_once(", ndim=") {
            Some((element, ndim)) => (element, ndim.parse::<usize>().unwrap_or(1)),
            None => (arguments, 1),
        };
        made.push_str(&format!("array<{}{}>", in_array_types(element), ", _".repeat(ndim)));
        rest = &rest[inside + end + 1..];
    }
    made.push_str(rest);
    made
}

/// The place of the bracket that closes one that is open.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' => open += 1,
            ')' if open == 0 => return Some(at),
            ')' => open -= 1,
            _ => {}
        }
    }
    None
}

/// Words as `.loom` spells them: `f32` for `float32`, and names as the text has them.
fn in_words(text: &str, renamed: &FxHashMap<String, String>) -> String {
    let mut made = String::with_capacity(text.len());
    let mut word = String::new();
    let mut in_code = false;
    for character in text.chars().chain(['\0']) {
        if character == '_' || character.is_alphanumeric() {
            word.push(character);
            continue;
        }
        if !word.is_empty() {
            let scalar = Scalar::from_python_name(&word).filter(|scalar| scalar_name(*scalar) != word);
            match scalar {
                Some(scalar) => made.push_str(scalar_name(scalar)),
                None => made.push_str(match (&*word, renamed.get(&word)) {
                    (_, Some(name)) if in_code => name,
                    ("float", _) if in_code => "f32",
                    ("int", _) if in_code => "i32",
                    ("elif", _) if in_code => "else if",
                    ("True", _) if in_code => "true",
                    ("False", _) if in_code => "false",
                    _ => &word,
                }),
            }
            word.clear();
        }
        if character == '`' {
            in_code = !in_code;
        }
        if character != '\0' {
            made.push(character);
        }
    }
    made
}
