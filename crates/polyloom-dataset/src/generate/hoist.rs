//! What a loop computes in each round although it is always the same stands before the loop.

use std::collections::BTreeSet;

/// Holds what gives another value each time, waits, or reads what other threads write.
const IMPURE: [&str; 10] =
    [".rand", ".sample_", "atomic_", "shuffle", ".warp_", ".ballot", "shared_array", ".mma", "async_", "sync_"];

/// Moves assignments that nothing in a loop changes to before the loop, from the innermost loops outwards. Their names,
/// each once for each loop that it has been moved to before, in this order.
pub(super) fn out_of_loops(lines: &mut Vec<String>) -> Vec<String> {
    let mut moved = Vec::new();
    while let Some((head, at)) = next_constant(lines) {
        let line = lines.remove(at)[4..].to_owned();
        if lines.get(at).is_some_and(String::is_empty) && (lines[at - 1].ends_with(':') || lines[at - 1].is_empty()) {
            lines.remove(at);
        }
        moved.extend(assigned(&line).first().map(|&name| name.to_owned()));
        lines.insert(head, line);
    }
    moved
}

/// Returns true if rounds of a loop compute a quotient or the result of a function that is the same in each, inside of
/// what is not.
pub(super) fn recomputes(lines: &[String]) -> bool {
    (0..lines.len()).filter(|&head| is_loop(&lines[head])).any(|head| {
        let body = &lines[head..end_of_loop(lines, head)];
        let changed = changed(body);
        let waits = body.iter().any(|line| line.contains("sync_") || line.contains("async_"));
        let is_constant = |code: &str| {
            let mut read = names(code).filter(|name| !PACKAGES.contains(name)).peekable();
            read.peek().is_some() && !(waits && code.contains('[')) && read.all(|name| !changed.contains(name))
        };
        let statements = body[1..].iter().map(|line| line.trim_start()).filter(|line| !line.starts_with('#'));
        statements.flat_map(costly).any(|code| !IMPURE.iter().any(|call| code.contains(call)) && is_constant(code))
    })
}

/// The names by which kernels call the packages of functions.
const PACKAGES: [&str; 2] = ["wp", "loom"];

/// Functions that cost nothing, without the digits of their types: conversions, what makes composites, places.
const FREE: [&str; 12] =
    ["float", "int", "uint", "bool", "range", "vec", "mat", "quat", "lane_id", "thread_idx", "block_idx", "tid"];

/// The quotients and calls in a statement.
fn costly(statement: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in statement.match_indices('(') {
        let call = atom_before(statement, at);
        let function = call.rsplit('.').next().unwrap_or(call);
        let stem = function.split(|c: char| c.is_ascii_digit()).next().unwrap_or(function);
        if !call.is_empty() && !FREE.contains(&stem) {
            let end = at + 1 + closing(&statement[at + 1..]);
            found.push(&statement[at - call.len()..end]);
        }
    }
    for (at, sign) in statement.match_indices(" / ") {
        let left = atom_before(statement, at);
        let before = &statement[..at - left.len()];
        let right = atom(&statement[at + sign.len()..]);
        let is_number = right.starts_with(|c: char| c.is_ascii_digit());
        // A part of a product is no operand, because the whole product is moved.
        if !left.is_empty()
            && !is_number
            && ![" * ", " / ", " % ", "// ", " @ ", "**"].iter().any(|sign| before.ends_with(sign))
        {
            found.push(&statement[at - left.len()..at + sign.len() + right.len()]);
        }
    }
    found
}

/// The name, number, call, element or bracket that ends here.
fn atom_before(code: &str, end: usize) -> &str {
    let mut depth = 0;
    let is_outside = |c: char| {
        depth += i32::from(matches!(c, ')' | ']')) - i32::from(matches!(c, '(' | '['));
        depth < 0 || depth == 0 && !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '(' | '['))
    };
    let start = code[..end].rfind(is_outside).map_or(0, |at| at + 1);
    &code[start..end]
}

/// The name, number, call, element or bracket that begins here.
fn atom(code: &str) -> &str {
    let mut depth = 0;
    let is_outside = |c: char| {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        depth < 0 || depth == 0 && !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ')' | ']'))
    };
    &code[..code.find(is_outside).unwrap_or(code.len())]
}

/// Returns how far it is to behind the bracket that closes.
fn closing(code: &str) -> usize {
    let mut depth = 0;
    let closes = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0
    };
    code.find(closes).map_or(code.len(), |at| at + 1)
}

/// Returns where the body of a loop ends.
fn end_of_loop(lines: &[String], head: usize) -> usize {
    let depth = indent(&lines[head]);
    let after = |line: &String| !line.is_empty() && indent(line) <= depth;
    lines[head + 1..].iter().position(after).map_or(lines.len(), |n| head + 1 + n)
}

/// The head of a loop, and a line of its body that could stand before it.
fn next_constant(lines: &[String]) -> Option<(usize, usize)> {
    // The inner one of two nested loops begins later.
    (0..lines.len()).rev().filter(|&head| is_loop(&lines[head])).find_map(|head| {
        let depth = indent(&lines[head]);
        let end = end_of_loop(lines, head);
        let body = &lines[head..end];
        let is_alone = |line: &&String| !line.is_empty() && indent(line) == depth + 4;
        if body.iter().filter(is_alone).count() < 2 {
            return None;
        }
        let waits = body.iter().any(|line| line.contains("sync_") || line.contains("async_"));
        let changed = changed(body);
        let is_constant = |at: &usize| {
            let line = &lines[*at];
            let Some((name, value)) = line.trim_start().split_once(" = ") else { return false };
            let is_single = || lines.iter().filter(|line| assigned(line).contains(&name)).count() == 1;
            indent(line) == depth + 4
                && is_name(name)
                && !lines[*at - 1].trim_start().starts_with('#')
                && !IMPURE.iter().any(|call| value.contains(call))
                && !(waits && value.contains('['))
                && names(value).all(|read| read != name && !changed.contains(read))
                && is_single()
        };
        (head + 1..end).find(is_constant).map(|at| (head, at))
    })
}

/// Returns true if a loop begins here whose body only counts decide to run, because in others a test may have to come
/// first.
fn is_loop(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with("for ") || text.starts_with("while ") && !text.contains(" and ")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns what lines of a loop give new values, its own head among them.
fn changed(body: &[String]) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for line in body {
        let text = line.trim_start();
        let words = ["if ", "elif ", "else:", "while ", "return", "continue", "break", "#"];
        let targets = assigned(line);
        let is_statement = targets.is_empty() && !words.iter().any(|word| text.starts_with(word));
        found.extend(targets);
        // A call may write to whatever it is given; a draw changes the state.
        if is_statement || IMPURE.iter().any(|call| text.contains(call)) {
            found.extend(names(text));
        }
    }
    found
}

/// The names that a line assigns to, those of arrays of which it writes an element among them.
fn assigned(line: &str) -> Vec<&str> {
    let text = line.trim_start();
    if let Some((target, _)) = text.strip_prefix("for ").and_then(|rest| rest.split_once(" in ")) {
        return target.split(", ").collect();
    }
    if ["if ", "elif ", "while ", "return", "#"].iter().any(|word| text.starts_with(word)) {
        return Vec::new();
    }
    let ends = [" = ", " += ", " -= ", " *= ", " /= ", " |= ", " @= "];
    let Some(end) = ends.iter().filter_map(|sign| text.find(sign)).min() else { return Vec::new() };
    match text[..end].contains('[') {
        true => names(&text[..end]).take(1).collect(),
        false => text[..end].split(", ").map(|name| name.split('.').next().unwrap_or(name)).collect(),
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The names in a piece of code, without those behind dots.
fn names(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let words = code.split(move |c| !is_part(c)).map(|word| word.split('.').next().unwrap_or(word));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str, names: &[&str]) {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let moved = out_of_loops(&mut lines);
        assert_eq!(moved, names);
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn what_no_round_changes_stands_before_the_loop() {
        check(
            "for k in range(3):\n    m = x - 1.0\n    acc += m * k",
            "m = x - 1.0\nfor k in range(3):\n    acc += m * k",
            &["m"],
        );
        check(
            "for k in range(3):\n    for n in range(2):\n        m = x - 1.0\n        s = m * k\n        acc += s * n",
            "m = x - 1.0\nfor k in range(3):\n    s = m * k\n    for n in range(2):\n        acc += s * n",
            &["m", "s", "m"],
        );
    }

    #[test]
    fn what_is_the_same_in_each_round_is_found_inside_of_other_values() {
        let check = |statement: &str, expected: bool| {
            let lines = ["for k in range(3):".to_owned(), format!("    {statement}"), "    acc += k".to_owned()];
            assert_eq!(recomputes(&lines), expected, "{statement}");
        };
        check("acc += v / (0.5 + margin) * k", true);
        check("acc += k * (v / (0.5 + margin))", true);
        check("acc += wp.log(total) / (1.0 + float(k))", true);
        check("acc = 0.9 * acc + m / (1.5 + wp.abs(m))", true);
        check("acc += k * v / (0.5 + margin)", false);
        check("acc += v / (1.0 + float(k))", false);
        check("acc += v / 2.0 * k", false);
        check("acc += wp.log(acc) * float(total)", false);
        check("acc += wp.vec3(1.0, 2.0, x) * k", false);
        check("acc += wp.randf(state) * k", false);
        check("acc += x[i] * k", false);
    }

    #[test]
    fn what_rounds_change_stays() {
        for text in [
            "for k in range(3):\n    m = x * k\n    acc += m",
            "for k in range(3):\n    m = acc - 1.0\n    acc += m",
            "for k in range(3):\n    m = wp.randf(state)\n    acc += m",
            "for k in range(3):\n    m = a[i]\n    a[j] = m + k",
            "for k in range(3):\n    m = x - 1.0\n    m += k\n    acc += m",
            "for k in range(3):\n    if k > 1:\n        m = x - 1.0\n        acc += m",
            "m = 0.0\nfor k in range(3):\n    m = x\n    acc += k",
        ] {
            check(text, text, &[]);
        }
    }
}
