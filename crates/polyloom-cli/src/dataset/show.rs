//! `polyloom dataset show`: a row, its Python beside its code.

use std::fmt::Write as _;

/// Words of Python, C++ and CUDA that are shown as such.
const KEYWORDS: [&str; 34] = [
    "and",
    "break",
    "const",
    "continue",
    "def",
    "double",
    "elif",
    "else",
    "extern",
    "float",
    "for",
    "from",
    "if",
    "import",
    "in",
    "inline",
    "int",
    "int64",
    "is",
    "kernel",
    "not",
    "or",
    "return",
    "static",
    "struct",
    "template",
    "typedef",
    "typename",
    "uint64",
    "unsigned",
    "void",
    "while",
    "__device__",
    "__global__",
];

const RESET: &str = "\x1b[0m";
const KEYWORD: &str = "\x1b[35m";
const NUMBER: &str = "\x1b[36m";
const TEXT: &str = "\x1b[32m";
const COMMENT: &str = "\x1b[2m";

/// What is left of CUDA C++ or C++ without what every kernel has: the kernel, and before it the functions of its source
/// that it calls.
pub(super) fn without_prelude(code: &str, source: &str) -> String {
    let (before, kernel) = code.split_at(code.find("extern \"C\"").unwrap_or(0));
    let names = source.lines().filter_map(|line| line.strip_prefix("def ")?.split_once('(')).map(|(name, _)| name);
    let names: Vec<String> = names.map(|name| format!(" {name}(")).collect();
    let is_own = |paragraph: &&str| {
        paragraph.lines().next().is_some_and(|first| names.iter().any(|name| first.contains(name.as_str())))
    };
    let own = before.split("\n\n").filter(is_own).map(|paragraph| format!("{}\n\n", paragraph.trim_start()));
    own.collect::<String>() + kernel
}

/// Two texts in columns of this width together, with titles.
pub(super) fn side_by_side(left: (&str, &str), right: (&str, &str), width: usize, colours: bool) -> String {
    let widest = left.1.lines().chain([left.0]).map(|line| line.chars().count()).max().unwrap_or(0);
    let column = widest.min(width.saturating_sub(3) / 2).max(20);
    let rest = width.saturating_sub(column + 3).max(20);
    let mut text = String::new();
    let _ = writeln!(text, "{:<column$} │ {}", left.0, right.0);
    let _ = writeln!(text, "{}─┼─{}", "─".repeat(column), "─".repeat(rest));
    let (left, right) = (wrapped(left.1, column), wrapped(right.1, rest));
    let mut is_text = [false; 2];
    for row in 0..left.len().max(right.len()) {
        let line = |lines: &[String]| lines.get(row).cloned().unwrap_or_default();
        let (left, right) = (line(&left), line(&right));
        let padding = " ".repeat(column - left.chars().count());
        let [of_left, of_right] = &mut is_text;
        let (left, right) = match colours {
            true => (coloured(&left, of_left), coloured(&right, of_right)),
            false => (left, right),
        };
        let _ = writeln!(text, "{}", format!("{left}{padding} │ {right}").trim_end());
    }
    text
}

/// Lines no longer than this; what is longer goes on in the next, set in as far and a bit more.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > width {
            let at = (width / 2..width).rev().find(|&at| rest[at] == ' ').map_or(width, |at| at + 1);
            lines.push(rest[..at].iter().collect::<String>().trim_end().to_owned());
            let gap = (indent + 4).min(width / 2);
            rest = " ".repeat(gap).chars().chain(rest[at..].iter().copied()).collect();
        }
        lines.push(rest.into_iter().collect());
    }
    lines
}

/// A line with colours. `is_text` says whether it begins within a docstring, and then whether it ends so.
fn coloured(line: &str, is_text: &mut bool) -> String {
    let n_quotes = line.matches("\"\"\"").count();
    if *is_text || n_quotes > 0 {
        *is_text ^= n_quotes == 1;
        return format!("{TEXT}{line}{RESET}");
    }
    let comment = ["//", "# "].into_iter().filter_map(|mark| line.find(mark)).min().unwrap_or(line.len());
    let (code, comment) = line.split_at(comment);
    let mut text = String::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let end = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            '"' => rest[1..].find('"').map_or(rest.len(), |at| at + 2),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        let colour = match first {
            '0'..='9' => NUMBER,
            '"' => TEXT,
            _ if KEYWORDS.contains(&token) => KEYWORD,
            _ => "",
        };
        if colour.is_empty() {
            text.push_str(token)
        } else {
            text = text + colour + token + RESET
        };
        rest = after;
    }
    if comment.is_empty() { text } else { text + COMMENT + comment + RESET }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_beside_each_other() {
        let text = side_by_side(("Python", "def f(x):\n    return x"), ("CUDA", "int f(int x) {\n}"), 60, false);
        let expected = "\
Python               │ CUDA
─────────────────────┼──────────────────────────────────────
def f(x):            │ int f(int x) {
    return x         │ }
";
        assert_eq!(text, expected);
    }

    #[test]
    fn long_lines_go_on_below() {
        assert_eq!(wrapped("    a = bbbbbbbb + cccccccc", 20), ["    a = bbbbbbbb +", "        cccccccc"]);
    }

    #[test]
    fn colours_take_no_text_away() {
        let mut is_text = false;
        let line = coloured("    for x in range(10):  # ten \"times\"", &mut is_text);
        let plain =
            [RESET, KEYWORD, NUMBER, TEXT, COMMENT].iter().fold(line.clone(), |line, code| line.replace(code, ""));
        assert_eq!(plain, "    for x in range(10):  # ten \"times\"");
        assert!(line.contains("\x1b[35mfor\x1b[0m") && line.contains("\x1b[36m10\x1b[0m"));
    }
}
