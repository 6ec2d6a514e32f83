//! Messages of the checker in the words of `.loom`.
//!
//! The checker is one for all front ends, and its messages name types and constructs as Python spells them. Where a
//! message is about `.loom`, what stands between backquotes is spelled as `.loom` has it.

use super::types::scalar_name;
use polyloom_ir::{Code, Diagnostic, Scalar};
use rustc_hash::FxHashMap;

/// Maps what the checker says to what is said here. The names of the package are taken away before.
const PHRASES: [(&str, &str); 34] = [
    ("write `import math` at the top of the file", "builtins are called by their names alone: `sqrt(x)`"),
    (
        "before its use, or define it outside the kernel",
        "by `let` or `var` before its use, or by `const` outside functions",
    ),
    ("unpack it: `a, b = …`", "unpack it: `let a, b = …`"),
    ("write a plain string; print values with `print(…)` before the `assert`", "write a text in quotes"),
    ("`a if cond else b`", "`if cond then a else b`"),
    ("write a loop over `range(…)`", "write a loop over a range"),
    (
        "write `range(stop)`, `range(start, stop)` or `range(start, stop, step)`",
        "write `0..stop` or `start..stop step s`",
    ),
    ("`for` loops run over `range(…)` only", "`for` loops run over ranges only"),
    ("write `a // b` and `a % b`", "write `floordiv(a, b)` and `a % b`"),
    ("write `i = tid()` or `i, j = tid()`", "write `let i = tid()` or `let i, j = tid()`"),
    ("decorate a function with `@kernel`", "begin a function with `kernel`"),
    ("a function decorated with `@func`", "a function that begins with `fn`"),
    ("a function under `@func`", "a function that begins with `fn`"),
    (" under `@func`", ""),
    ("decorate it with `@func`", "begin it with `fn`"),
    ("define a function with `@func` outside the kernel", "write a function, `fn`, outside the kernel"),
    ("define it outside with `@func`", "write it outside the kernel"),
    (
        "nothing of the file is run here: write the value as a constant, or use the file from Python",
        "write it as a `const`",
    ),
    ("write an expression that Python can compute", "write a constant expression"),
    (
        "use literals and constants of the file, or compile the kernel from Python",
        "use numbers and constants of the file",
    ),
    (" is not defined in Python", " is not defined"),
    ("is a plain Python function", "is no function of the file"),
    ("only variables can be annotated", "only variables are declared with a type"),
    ("the function's annotation", "the type that the function returns"),
    ("has its return type annotated as", "is declared to return"),
    ("is annotated to return", "is declared to return"),
    ("annotate it as", "declare it as"),
    ("leave the annotation out", "leave the type out"),
    ("remove the annotation", "remove the type"),
    ("change the annotation", "change the type"),
    ("the annotation", "the type"),
    ("write `block_dim=256` or `workgroup_size=(16, 16)`", "write `@workgroup(256)` or `@workgroup(16, 16)`"),
    ("out of the decorator", "out of the annotations"),
    ("write it in the decorators of the kernels", "write it at the kernels"),
];

/// The arguments of decorators that annotations become, with these.
const ANNOTATIONS: [(&str, &str); 12] = [
    ("cpu_affinity", "cpu_affinity"),
    ("critical_path", "critical_path"),
    ("inline_always", "inline"),
    ("kind", "kernel"),
    ("no_allocation", "no_allocation"),
    ("no_syscalls", "no_syscalls"),
    ("opt_level", "opt_level"),
    ("target_latency_ns", "target_latency_ns"),
    ("unchecked", "unchecked"),
    ("unroll", "unroll"),
    ("vector_width", "vectorize"),
    ("workgroup_size", "workgroup"),
];

/// A message about a `.loom` text. `renamed` has the names that the checker sees in place of those of the text.
pub(crate) fn in_loom(mut diagnostic: Diagnostic, renamed: &FxHashMap<String, String>) -> Diagnostic {
    let is_of_annotations = matches!(diagnostic.code, Code::BadDecorator | Code::BrokenPromise | Code::Unenforced);
    let reworded = |text: &str| reworded(text, is_of_annotations, renamed);
    diagnostic.message = reworded(&diagnostic.message);
    for (_, label) in &mut diagnostic.labels {
        *label = reworded(label);
    }
    diagnostic.help = diagnostic.help.map(|help| reworded(&help));
    diagnostic
}

fn reworded(text: &str, is_of_annotations: bool, renamed: &FxHashMap<String, String>) -> String {
    let mut text = text.replace("polyloom.", "").replace("loom.", "").replace("$.", "");
    for (python, loom) in PHRASES {
        if text.contains(python) {
            text = text.replace(python, loom);
        }
    }
    // A name that Python has and kernels do not.
    if let Some(rest) = text.strip_prefix("Python's `") {
        text = format!("`{}", rest.replace(" is not available in a kernel", " is no builtin"));
    }
    let text = in_code(&in_array_types(&text), |code| {
        let code = in_ranges(code);
        let code = match code.strip_suffix(':') {
            Some(header) if ["for ", "if ", "while "].iter().any(|word| header.starts_with(word)) => header.to_owned(),
            _ => code,
        };
        if is_of_annotations { as_annotation(&code).unwrap_or(code) } else { code }
    });
    in_words(&text, renamed)
}

/// A text with what stands between backquotes made anew.
fn in_code(text: &str, made: impl Fn(&str) -> String) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 1 { made(part) } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

/// `range(n)` as `0..n`.
fn in_ranges(code: &str) -> String {
    let mut made = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("range(") {
        let inside = at + "range(".len();
        let is_word = rest[..at].ends_with(|before: char| before == '_' || before.is_alphanumeric());
        let Some(end) = closing(&rest[inside..]).filter(|_| !is_word) else { break };
        let bounds: Vec<&str> = rest[inside..inside + end].split(", ").collect();
        made.push_str(&rest[..at]);
        made.push_str(&match bounds[..] {
            [end] => format!("0..{end}"),
            [start, end] => format!("{start}..{end}"),
            [start, end, step] => format!("{start}..{end} step {step}"),
            _ => rest[at..=inside + end].to_owned(),
        });
        rest = &rest[inside + end + 1..];
    }
    made.push_str(rest);
    made
}

/// `no_syscalls=True` as `@no_syscalls`, and `vector_width=8` as `@vectorize(8)`.
fn as_annotation(code: &str) -> Option<String> {
    let (name, value) = code.split_once('=').map_or((code, None), |(name, value)| (name, Some(value)));
    let (_, annotation) = ANNOTATIONS.iter().find(|(known, _)| *known == name)?;
    Some(match value {
        None | Some("True") => format!("@{annotation}"),
        Some(value) => format!("@{annotation}({value})"),
    })
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
