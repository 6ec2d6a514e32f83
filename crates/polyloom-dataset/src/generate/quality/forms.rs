//! Names that say what is not so, and forms that no programmer would write.

use super::*;
use crate::generate::{hoist, names};

/// Lines of loops: the head of each and those of its body.
fn loops(source: &str) -> Vec<(&str, Vec<&str>)> {
    let lines: Vec<&str> = source.lines().filter(|line| !line.trim().is_empty()).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_head = |line: &str| line.trim_start().starts_with("for ") || line.trim_start().starts_with("while ");
    let mut found = Vec::new();
    for (at, head) in lines.iter().enumerate().filter(|(_, line)| is_head(line)) {
        let body = lines[at + 1..].iter().copied().take_while(|line| indent(line) > indent(head));
        found.push((head.trim_start(), body.collect()));
    }
    found
}

#[test]
fn loops_compute_what_changes_in_them() {
    for program in kernels(200) {
        let (_, code) = parts(&program.source);
        for function in code.split("\n@") {
            let lines: Vec<String> = function.lines().map(str::to_owned).collect();
            let mut moved = lines.clone();
            hoist::out_of_loops(&mut moved);
            assert_eq!(lines, moved, "{}", program.source);
            assert!(!hoist::recomputes(&lines), "{}", program.source);
        }
    }
}

#[test]
fn no_guard_drops_the_first_rounds_or_the_last() {
    for program in kernels(300) {
        for (head, body) in loops(&program.source) {
            let Some(name) = head.strip_prefix("for ").and_then(|rest| rest.split(' ').next()) else { continue };
            for pair in body.windows(2).filter(|pair| matches!(pair[1].trim_start(), "continue" | "break")) {
                let test = pair[0].trim_start();
                let is_cut = ["<", ">", "<=", ">="].iter().any(|sign| {
                    let rest = test.strip_prefix(&format!("if {name} {sign} "));
                    rest.is_some_and(|rest| rest.trim_end_matches(':').parse::<f64>().is_ok())
                });
                assert!(!is_cut, "{test}\n{}", program.source);
            }
        }
    }
}

#[test]
fn loops_that_count_for_nothing_count_from_zero() {
    for program in kernels(300).filter(|program| program.category == "loop" || program.category == "control_flow") {
        for (head, body) in loops(&program.source) {
            let Some((name, range)) = head.strip_prefix("for ").and_then(|rest| rest.split_once(" in range(")) else {
                continue;
            };
            let is_read = body.iter().any(|line| words(line).any(|word| word == name));
            assert!(is_read || !range.contains(','), "{head}\n{}", program.source);
        }
    }
}

#[test]
fn what_while_loops_count_is_read_in_them() {
    for program in kernels(300).filter(|program| program.category == "loop") {
        for (head, body) in loops(&program.source) {
            let Some(test) = head.strip_prefix("while ").filter(|test| !test.contains(" and ")) else { continue };
            let name = words(test).next().unwrap_or_default();
            let counts = |line: &&str| line.trim_start().starts_with(&format!("{name} "));
            let is_read = body.iter().filter(|line| !counts(line)).any(|line| words(line).any(|word| word == name));
            assert!(is_read, "{head}\n{}", program.source);
        }
    }
}

#[test]
fn no_largest_is_of_itself() {
    for program in kernels(300).filter(|program| program.category == "loop") {
        let (_, code) = parts(&program.source);
        for line in statements(&code) {
            let Some((name, value)) = line.split_once(" = ") else { continue };
            let of = ["max", "min"].iter().find_map(|call| value.split_once(&format!(".{call}({name}, ")));
            assert!(of.is_none_or(|(_, of)| words(of).all(|word| word != name)), "{line}\n{}", program.source);
        }
    }
}

#[test]
fn arms_are_not_alike() {
    for program in kernels(400).filter(|program| program.category == "control_flow") {
        let lines: Vec<&str> = program.source.lines().filter(|line| !line.is_empty()).collect();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let arm = |head: usize| {
            let inner = |line: &&&str| indent(line) > indent(lines[head]);
            lines[head + 1..].iter().take_while(inner).copied().collect::<Vec<_>>()
        };
        for head in (0..lines.len()).filter(|&at| lines[at].ends_with(':')) {
            let next = head + 1 + arm(head).len();
            let is_next = lines.get(next).is_some_and(|line| {
                let text = line.trim_start();
                indent(line) == indent(lines[head]) && (text.starts_with("elif ") || text == "else:")
            });
            assert!(!is_next || arm(head) != arm(next), "{}\n{}", lines[head], program.source);
        }
    }
}

#[test]
fn functions_are_not_given_one_value_twice() {
    for program in kernels(300).filter(|program| program.category == "function") {
        let names = program.source.lines().filter_map(|line| line.strip_prefix("def ")?.split_once('('));
        let names: Vec<&str> = names.map(|(name, _)| name).filter(|name| *name != program.name).collect();
        let (_, code) = parts(&program.source);
        for line in statements(&code).filter(|line| !line.starts_with("def ")) {
            for name in &names {
                for (at, call) in line.match_indices(&format!("{name}(")) {
                    let Some((given, _)) = line[at + call.len()..].split_once(')') else { continue };
                    let given: Vec<&str> = given.split(", ").collect();
                    let is_twice = given.iter().enumerate().any(|(at, arg)| given[..at].contains(arg));
                    let is_plain = given.iter().all(|arg| !arg.contains(['(', '[']));
                    assert!(!is_plain || !is_twice, "{line}\n{}", program.source);
                }
            }
        }
    }
}

#[test]
fn what_shrinks_does_so_several_times() {
    for program in kernels(300) {
        let lines: Vec<&str> = program.source.lines().map(str::trim).collect();
        for three in lines.windows(3) {
            let Some((name, least)) = three[1].strip_prefix("while ").and_then(|rest| rest.split_once(" > ")) else {
                continue;
            };
            let start = three[0].strip_prefix(&format!("{name} = float("));
            let factor = three[2].strip_prefix(&format!("{name} *= "));
            let number =
                |text: Option<&str>| text.and_then(|text| text.trim_end_matches([')', ':']).parse::<f64>().ok());
            let (Some(start), Some(factor), Some(least)) = (number(start), number(factor), number(Some(least))) else {
                continue;
            };
            assert!(start * factor * factor > least, "{}\n{}", three[1], program.source);
        }
    }
}

#[test]
fn no_form_is_one_that_a_programmer_would_shorten() {
    let wrong = [" + -", " - -", "rand_init(seed + ", "rand_init(key + ", "rand_init(rng_seed + "];
    for program in kernels(300) {
        let (_, code) = parts(&program.source);
        for line in statements(&code) {
            let is_literal = |at: usize| line[at..].starts_with(|c: char| c.is_ascii_digit());
            for form in wrong {
                let found = line.match_indices(form).any(|(at, _)| !is_literal(at + form.len()));
                assert!(!found, "{line}\n{}", program.source);
            }
            let is_negated = line.contains("if not ") && !line.contains("not (");
            assert!(!is_negated, "{line}\n{}", program.source);
            assert!(!["r0 = 0", "c0 = 0", "tile_row = 0", "tile_col = 0"].contains(&line), "{}", program.source);
        }
    }
}

#[test]
fn nothing_is_named_as_a_builtin_of_python() {
    for program in kernels(200) {
        let (_, code) = parts(&program.source);
        for line in statements(&code) {
            let target = line.split_once(" = ").map_or("", |(target, _)| target);
            let counter =
                line.strip_prefix("for ").and_then(|rest| rest.split_once(" in ")).map_or("", |(name, _)| name);
            for name in [target, counter] {
                assert!(!names::is_builtin(name), "{line}\n{}", program.source);
            }
        }
        for input in &program.inputs {
            assert!(!names::is_builtin(&input.name), "{}\n{}", input.name, program.source);
        }
    }
}

#[test]
fn what_is_called_a_mean_is_divided() {
    for program in kernels(200).filter(|program| program.category != "composite") {
        let (_, code) = parts(&program.source);
        for name in ["mean", "average"] {
            let set: Vec<&str> = statements(&code).filter(|line| line.starts_with(&format!("{name} = "))).collect();
            assert!(set.is_empty() || set.iter().any(|line| line.contains(" / ") || line.contains("0.")), "{set:?}");
        }
        assert!(!code.contains("def compare_") && !code.contains("def gather_totals_"), "{}", program.name);
    }
}

#[test]
fn names_say_what_is_done_with_them() {
    let mut n_named = 0;
    for program in kernels(200).filter(|program| program.category != "composite") {
        let (_, code) = parts(&program.source);
        let kernel = code.split(".kernel").nth(1).unwrap_or_default();
        for input in program.inputs.iter().filter(|input| input.shape.is_empty() && !input.name.contains('.')) {
            let is_term = ["bias", "offset", "margin", "drift", "threshold", "cutoff"].contains(&input.name.as_str());
            n_named += u32::from(is_term);
            let is_factor =
                |at: usize| kernel[..at].ends_with(" * ") || kernel[at + input.name.len()..].starts_with(" * ");
            let found = crate::generate::words::places(kernel, &input.name).any(is_factor);
            assert!(!is_term || !found, "{}\n{}", input.name, program.source);
        }
        let targets = statements(kernel).filter_map(|line| line.split_once(" = ")).map(|(target, _)| target);
        let heads = code.lines().filter_map(|line| line.strip_prefix("def ")).filter_map(|head| head.split('(').next());
        let names: BTreeSet<&str> = targets.chain(heads).collect();
        for pair in [["prod", "product"], ["ratio", "quotient"], ["clipped", "bounded"], ["diff", "delta"]] {
            let both = pair.iter().all(|name| names.contains(name));
            let is_given = program.inputs.iter().any(|input| pair.contains(&input.name.as_str()));
            assert!(!both || is_given, "{pair:?}\n{}", program.source);
        }
        for name in names {
            assert!(!name.ends_with("_of") && !name.ends_with("_at") && name != "outer", "{name}\n{}", program.source);
        }
    }
    assert!(n_named > 100, "{n_named}");
}

#[test]
fn what_is_called_a_total_is_a_sum() {
    for program in kernels(300).filter(|program| program.category != "composite") {
        let (_, code) = parts(&program.source);
        for line in statements(&code).filter(|line| line.starts_with("total = ")) {
            assert!(!line.contains("_reduce_max") && !line.contains("_reduce_min"), "{line}\n{}", program.source);
        }
        let has_max_tree = code.contains("] = loom.max(") && code.contains("loom.sync_threads()");
        let is_total = statements(&code).any(|line| line.starts_with("total = ") && line.ends_with("[0]"));
        assert!(!has_max_tree || !is_total, "{}", program.source);
        // Rows are counted downwards.
        assert!(!code.contains("up = ") || !code.contains("row + 1"), "{}", program.source);
    }
}

#[test]
fn no_branch_is_all_that_another_does() {
    let indent = |line: &str| line.len() - line.trim_start().len();
    for program in kernels(300) {
        let (_, code) = parts(&program.source);
        let lines: Vec<&str> = code.lines().filter(|line| !line.trim().is_empty()).collect();
        // What follows a head and its body.
        let next = |at: usize| {
            let ends = |line: &&str| indent(line) <= indent(lines[at]);
            at + 1 + lines[at + 1..].iter().position(ends).unwrap_or(lines.len() - at - 1)
        };
        let goes_on = |at: usize| {
            lines.get(at).is_some_and(|line| ["elif ", "else:"].iter().any(|head| line.trim_start().starts_with(head)))
        };
        for (at, pair) in lines.windows(2).enumerate() {
            let [outer, inner] = [pair[0].trim_start(), pair[1].trim_start()];
            if outer.starts_with("if ") && outer.ends_with(':') && inner.starts_with("if ") && inner.ends_with(':') {
                let is_lone = next(at + 1) == next(at) && !goes_on(next(at));
                assert!(!is_lone, "{outer}\n{}", program.source);
            }
        }
    }
}

#[test]
fn names_are_true_of_what_they_are_given() {
    let mut n_mirrors = 0;
    for program in kernels(300) {
        let (_, code) = parts(&program.source);
        let kernel = code.split(".kernel").nth(1).unwrap_or_default();
        for line in statements(kernel) {
            let Some((name, value)) = line.split_once(" = ") else { continue };
            // What says nothing, or something of another value.
            let is_empty =
                ["raw", "temp", "staged", "work", "base", "shared_frag", "same_place", "found"].contains(&name);
            assert!(
                !is_empty || program.category == "composite" || value.contains("shared_array") || value.contains('['),
                "{line}\n{}",
                program.source
            );
            if name == "mirror" {
                n_mirrors += 1;
                let is_turned = value.contains(" - ") || value.contains("[") && !value.contains("max(");
                assert!(is_turned, "{line}\n{}", program.source);
            }
            let is_scaled = name == "scaled" || name == "shifted" || name == "moved";
            let has_number = value.contains(|c: char| c.is_ascii_digit());
            let is_own = ["composite", "struct"].contains(&program.category.as_ref());
            assert!(!is_scaled || is_own || has_number, "{line}\n{}", program.source);
        }
        let outputs: Vec<&str> = program.inputs.iter().map(|input| input.name.as_str()).collect();
        for pair in
            [["dst", "dest"], ["out", "output"], ["output", "outputs"], ["result", "results"], ["out", "outputs"]]
        {
            assert!(!pair.iter().all(|name| outputs.contains(name)), "{pair:?}\n{}", program.source);
        }
        for input in program.inputs.iter().filter(|input| input.shape.is_empty() && input.dtype.starts_with("int")) {
            let is_fraction = ["ratio", "rate", "damping", "decay", "slope"].contains(&input.name.as_str());
            assert!(!is_fraction || program.category == "composite", "{}\n{}", input.name, program.source);
        }
        for verb in ["convolve_around_", "tally_from_"] {
            assert!(!program.name.starts_with(verb), "{}", program.name);
        }
        let is_reverse = program.category == "scan" && kernel.contains(", -1, -1)");
        assert!(!is_reverse || !outputs.contains(&"prefix"), "{}", program.source);
    }
    assert!(n_mirrors > 3, "{n_mirrors}");
}
