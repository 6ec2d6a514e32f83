//! What docstrings must not keep to themselves.

use super::*;

#[test]
fn docstrings_tell_steps_rather_than_count_them() {
    let (mut n, mut n_counted) = (0, 0);
    for program in kernels(300) {
        let text = told(&parts(&program.source).0);
        n += 1;
        n_counted += usize::from(text.contains(" computed from "));
    }
    assert!(n_counted * 200 <= n, "{n_counted} of {n}");
}

#[test]
fn helpers_that_are_called_are_told() {
    for category in [Category::Function, Category::Struct, Category::Composite] {
        for seed in 0..500 {
            let program = generate(category, seed);
            let (doc, code) = parts(&program.source);
            let text = told(&doc);
            for name in code.lines().filter_map(|line| line.strip_prefix("def ")) {
                let name = name.split('(').next().unwrap_or_default();
                let call = format!("`{name}(");
                let is_told = text.match_indices(&call).any(|(at, _)| {
                    let rest = text[at + 1..].split_once('`').map_or("", |(_, rest)| rest);
                    [" gives ", ", `", ", let `", ", Let `", " approximates "].iter().any(|verb| rest.starts_with(verb))
                });
                assert!(is_told || name == program.name, "{name}\n{}", program.source);
            }
        }
    }
}

#[test]
fn fields_of_what_is_written_are_told() {
    for seed in 0..1000 {
        let program = generate(Category::Struct, seed);
        let text = told(&parts(&program.source).0);
        for input in program.inputs.iter().filter(|input| matches!(input.values, InputValues::Zeros)) {
            assert!(text.contains(&format!("`{}`", input.name)), "{}\n{}", input.name, program.source);
        }
    }
}

#[test]
fn first_words_vary() {
    let mut found = BTreeMap::<String, usize>::new();
    let mut n = 0;
    for program in kernels(100) {
        let (doc, _) = parts(&program.source);
        let first = doc.split_whitespace().next().unwrap_or_default().to_owned();
        *found.entry(first).or_default() += 1;
        n += 1;
    }
    assert!(found.values().all(|&n_found| n_found * 6 <= n), "{found:?} of {n}");
    assert!(found.len() >= 30, "{found:?}");
}

#[test]
fn ends_of_bins_are_told() {
    for seed in 0..1000 {
        let program = generate(Category::Atomic, seed);
        let text = told(&parts(&program.source).0);
        for wrong in ["`atomic_", "of zero and", "adds up of"] {
            assert!(!text.contains(wrong), "{wrong}\n{}", program.source);
        }
        for input in program.inputs.iter().filter(|input| matches!(input.values, InputValues::Zeros)) {
            let n = match input.shape[..] {
                [ProgramExtent::Is(1)] => continue,
                [ProgramExtent::Is(n)] => format!(" of {n}"),
                [ProgramExtent::Is(n), ProgramExtent::Is(m)] => format!(" of {n} by {m}"),
                _ => continue,
            };
            assert!(text.contains(&n), "{}{n}\n{}", input.name, program.source);
        }
    }
}

#[test]
fn skeletons_sum_themselves_up() {
    for seed in 0..1000 {
        let program = generate(Category::Composite, seed);
        let (doc, _) = parts(&program.source);
        let first = doc.lines().next().unwrap_or_default();
        let is_of_any =
            ["Derive `", "Combine `", "Merge `", "Map `", "Transform `"].iter().any(|verb| first.starts_with(verb));
        assert!(!is_of_any && !first.contains(" more input"), "{first}\n{}", program.source);
    }
}

#[test]
fn titles_count_helpers_and_merge_into_one() {
    for program in kernels(200) {
        let (doc, code) = parts(&program.source);
        let first = doc.lines().next().unwrap_or_default();
        let n_helpers = code.lines().filter(|line| line.starts_with("def ")).count() - 1;
        assert!(!first.contains("helper functions") || n_helpers > 1, "{first}\n{}", program.source);
        let is_merged = ["Merge `", "Combine `", "Combine the fields"].iter().any(|lead| first.starts_with(lead));
        let merged = is_merged.then_some(first);
        let into = merged.and_then(|rest| rest.split_once(" into ")).map_or("", |(_, into)| into);
        assert!(!into.contains("` and `"), "{first}\n{}", program.source);
    }
}

#[test]
fn titles_name_what_is_tested() {
    let mut n_named = 0;
    for seed in 0..1000 {
        let program = generate(Category::ControlFlow, seed);
        let (doc, code) = parts(&program.source);
        let first = doc.lines().next().unwrap_or_default();
        let Some(named) = ["conditions on ", "Branch on ", "cases of "].iter().find_map(|lead| first.split_once(lead))
        else {
            continue;
        };
        let named =
            [" to get ", " apart "].iter().fold(named.1, |text, end| text.split_once(end).map_or(text, |t| t.0));
        for name in named.split('`').skip(1).step_by(2) {
            n_named += 1;
            // Nothing else is read by a test, nor is what is made of it.
            let mut known = BTreeSet::from([name]);
            let lines: Vec<&str> = statements(&code).collect();
            let is_test = |line: &str| ["if ", "while ", "where("].iter().any(|word| line.contains(word));
            for _ in 0..lines.len() {
                for line in &lines {
                    let reads =
                        words(line.split_once("= ").map_or(line, |(_, value)| value)).any(|word| known.contains(word));
                    if let (true, Some(target)) = (reads, words(line).next()) {
                        known.insert(target);
                    }
                }
            }
            let is_tested = lines.iter().any(|line| is_test(line) && words(line).any(|word| known.contains(word)));
            assert!(is_tested, "{name}: {first}\n{}", program.source);
        }
    }
    assert!(n_named > 800, "{n_named}");
}

#[test]
fn what_no_round_changes_is_told_before_the_loop() {
    for program in kernels(200).filter(|program| program.category != "composite") {
        let (doc, code) = parts(&program.source);
        let text = told(&doc);
        let body = code.split(".kernel").nth(1).unwrap_or_default();
        let outside: BTreeSet<&str> = body
            .lines()
            .filter(|line| line.starts_with("    ") && !line.starts_with("     "))
            .filter_map(|line| line.trim_start().split_once(" = ").map(|(name, _)| name))
            .collect();
        for sentence in text.split(". ").filter(|sentence| sentence.starts_with("For each `")) {
            for clause in sentence.split("; ").filter_map(|clause| clause.split_once("let `")) {
                let name = clause.1.split('`').next().unwrap_or_default();
                assert!(!outside.contains(name), "{name}\n{}", program.source);
            }
        }
    }
}

#[test]
fn neighbours_have_places() {
    for seed in 0..500 {
        let program = generate(Category::Stencil, seed);
        let text = told(&parts(&program.source).0);
        let has_place = |(_, rest): (&str, &str)| rest.trim_start_matches('s').starts_with(" at `");
        let said = [" are its neighbour", " is its neighbour"].iter().find_map(|said| text.split_once(said));
        assert!(said.is_none_or(has_place), "{}", program.source);
    }
}

#[test]
fn nothing_is_written_that_is_no_value_yet() {
    for seed in 0..1000 {
        let program = generate(Category::Scan, seed);
        let (_, code) = parts(&program.source);
        let lines: Vec<&str> = statements(&code).collect();
        let has_none = |line: &&&str| line.contains("= float(-1000.0)") || line.contains("= float(1000.0)");
        for line in lines.iter().filter(has_none) {
            let name = line.split(' ').next().unwrap_or_default();
            let taken = lines.iter().position(|line| line.starts_with(&format!("{name} = ")) && line.contains(name));
            let changed = lines.iter().rposition(|line| line.starts_with(&format!("{name} = ")));
            let read = lines.iter().position(|line| !line.starts_with(name) && words(line).any(|word| word == name));
            assert!(taken.is_some() && read.is_none_or(|read| changed < Some(read)), "{name}\n{}", program.source);
        }
    }
}

#[test]
fn loops_do_more_than_count() {
    let (mut n, mut n_counted) = (0, 0);
    for seed in 0..600 {
        let program = generate(Category::Loop, seed);
        for line in program.source.lines().map(str::trim) {
            n += usize::from(line.contains(" += "));
            // A number times what is counted, summed up, is a formula.
            n_counted += usize::from(line.contains(" += ") && line.contains(" * float(") && !line.contains("sin("));
        }
    }
    assert!(n_counted * 12 <= n, "{n_counted} of {n}");
}

#[test]
fn loops_do_not_depend_on_what_they_count_alone() {
    let (mut n, mut n_counting) = (0, 0);
    for seed in 0..600 {
        let program = generate(Category::Loop, seed);
        let lines: Vec<&str> = statements(&program.source).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((name, range)) = line.strip_prefix("for ").and_then(|rest| rest.split_once(" in range(")) else {
                continue;
            };
            // A loop of one line that takes in nothing else.
            let Some((target, value)) = lines.get(at + 1).and_then(|line| line.split_once(" += ")) else { continue };
            let is_name = |word: &&str| !["wp", "loom", "float", "int", "float64"].contains(word);
            let reads: BTreeSet<&str> = words(value).filter(is_name).collect();
            let calls = ["sin", "cos", "atan", "tanh"];
            n += 1;
            let is_plain = reads.iter().all(|word| *word == name || calls.contains(word));
            n_counting += usize::from(is_plain && !range.is_empty() && target != name);
        }
    }
    assert!(n > 40 && n_counting * 30 <= n, "{n_counting} of {n}");
}

/// The items of a docstring that is a list, each with how far it stands in.
fn items(doc: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    for line in doc.lines().skip(2).filter(|line| !line.trim().is_empty()) {
        let text = line.trim_start();
        match (text.strip_prefix("- "), items.last_mut()) {
            (Some(text), _) => items.push((line.len() - text.len(), text.to_owned())),
            (None, Some((_, last))) => last.extend([" ", text]),
            (None, None) => {}
        }
    }
    items
}

#[test]
fn items_are_sentences() {
    for program in kernels(300) {
        let items = items(&parts(&program.source).0);
        for (at, (depth, item)) in items.iter().enumerate() {
            let is_whole = item.starts_with(|c: char| c == '`' || c.is_ascii_uppercase() || c.is_ascii_digit());
            let has_parts = items.get(at + 1).is_some_and(|(next, _)| next > depth);
            assert!(is_whole && item.ends_with(if has_parts { ':' } else { '.' }), "{item}\n{}", program.source);
            // Work that is done elsewhere is a part of that.
            let is_case = ["Elsewhere", "Else where"].iter().any(|lead| item.starts_with(lead));
            assert!(!is_case || has_parts, "{item}\n{}", program.source);
            let follows = items[..at].iter().rfind(|(before, _)| before <= depth);
            let is_after = follows.is_some_and(|(_, before)| before.starts_with("Where") || before.starts_with("Else"));
            assert!(!is_case || is_after, "{item}\n{}", program.source);
        }
    }
}

#[test]
fn statements_are_not_spliced_with_commas() {
    for program in kernels(300) {
        let text = told(&parts(&program.source).0).replace("Let `", "let `");
        for clause in text.split("let `").skip(1).filter_map(|rest| rest.split([';', ':', '.']).next()) {
            for verb in ["becomes", "grows", "falls", "starts", "adds"] {
                let spliced = clause
                    .split(", `")
                    .skip(1)
                    .any(|rest| rest.split_once("` ").is_some_and(|(_, rest)| rest.starts_with(&format!("{verb} "))));
                assert!(!spliced, "{clause}\n{}", program.source);
            }
        }
    }
}

#[test]
fn what_some_threads_do_is_told_of_them() {
    let mut n = 0;
    for seed in 0..1000 {
        let program = generate(Category::Atomic, seed);
        let (doc, code) = parts(&program.source);
        let items = items(&doc);
        let inside = code.lines().filter(|line| line.starts_with("        ") && line.contains("atomic_"));
        for line in inside {
            let name = line.split(['(', ',']).nth(1).unwrap_or_default();
            let verbs = ["adds up", "keeps", "counts"];
            let is_of_it = |item: &str| verbs.iter().any(|verb| item.starts_with(&format!("`{name}` {verb} ")));
            for (depth, item) in items.iter().filter(|(_, item)| is_of_it(item)) {
                n += 1;
                assert!(*depth > items[0].0, "{item}\n{}", program.source);
            }
        }
    }
    assert!(n > 20, "{n}");
}

#[test]
fn two_results_are_told_apart() {
    let mut n = 0;
    for seed in 0..1000 {
        let program = generate(Category::Function, seed);
        let text = told(&parts(&program.source).0);
        for name in program.source.lines().filter_map(|line| line.strip_prefix("def ")?.split('(').next()) {
            if !program.source.contains(&format!(" = {name}("))
                || !["pair", "split", "both_parts", "resolve"].contains(&name)
            {
                continue;
            }
            n += 1;
            let told = text.split_once(&format!("`{name}(")).and_then(|(_, rest)| rest.split_once('`'));
            let rest = told.map_or("", |(_, rest)| rest);
            let is_told = rest.starts_with(" gives two results: ")
                || rest.contains("the second result is ")
                || rest.contains("The second result is ");
            assert!(is_told, "{name}\n{}", program.source);
        }
    }
    assert!(n > 50, "{n}");
}

#[test]
fn names_are_said_to_be_something_in_one_way() {
    let (mut n, mut n_stated) = (0, 0);
    for program in kernels(200) {
        let (doc, code) = parts(&program.source);
        let text = told(&doc);
        let let_be = |rest: &str| rest.split_once('`').is_some_and(|(_, rest)| rest.starts_with(" be "));
        let gives = text.replace("Let `", "let `").split("let `").skip(1).any(let_be);
        n += 1;
        n_stated += usize::from(!gives);
        let assigned: BTreeSet<&str> = statements(&code)
            .filter_map(|line| {
                line.split_once(" = ").filter(|(_, value)| !value.contains("tid()") && !value.ends_with("_idx()"))
            })
            .map(|(name, _)| name)
            .collect();
        for (at, _) in text.match_indices("` is ").filter(|_| gives) {
            let name = text[..at].rsplit('`').next().unwrap_or_default();
            let before = &text[..at - name.len() - 1];
            let begins = [". ", "; ", ": "].iter().any(|begin| before.ends_with(begin));
            let is_value = !["multiplied", "computed", "less", "more", "greater"]
                .iter()
                .any(|word| text[at + 5..].starts_with(word));
            assert!(!(begins && is_value && assigned.contains(name)), "{name}\n{}", program.source);
        }
    }
    assert!(n_stated * 4 > n && n_stated * 4 < 3 * n, "{n_stated} of {n}");
}

#[test]
fn helpers_are_called_like_nothing_inside_them() {
    for seed in 0..1000 {
        let program = generate(Category::Function, seed);
        for item in program.source.split("\n\n\n") {
            let head = item.lines().find_map(|line| line.strip_prefix("def ")?.split('(').next());
            let Some(name) = head else { continue };
            let assigned = item.lines().any(|line| line.trim_start().starts_with(&format!("{name} = ")));
            assert!(!assigned, "{name}\n{}", program.source);
        }
    }
}

/// Returns what a kernel's code and its docstring both have in one order: names with the place where each is given a
/// value that stays, and loops.
fn in_order<'a>(found: impl Iterator<Item = (usize, &'a str)>) -> Vec<&'a str> {
    let all: Vec<(usize, &str)> = found.collect();
    let is_single = |name: &str| all.iter().filter(|(_, other)| *other == name).count() == 1;
    let mut once: Vec<(usize, &str)> = all.iter().copied().filter(|(_, name)| is_single(name)).collect();
    once.sort_unstable();
    once.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn docstrings_are_in_the_order_of_the_code() {
    let (mut n, mut n_loops) = (0, 0);
    for program in kernels(200) {
        let (doc, code) = parts(&program.source);
        let kernel = code.split(".kernel").nth(1).unwrap_or_default();
        let lines = kernel.lines().map(str::trim_start).enumerate();
        let code_order = in_order(lines.filter_map(|(at, line)| {
            let loops = ["for ", "while "].iter().find_map(|head| line.strip_prefix(head));
            let name = match loops {
                Some(rest) => rest.split(' ').next().unwrap_or_default(),
                None => line.split_once(" = ")?.0,
            };
            (words(name).next() == Some(name)).then_some((at, name))
        }));
        // Functions have names of their own.
        let told_text = told(&doc);
        let sentences = told_text.split_inclusive(". ").filter(|sentence| !sentence.trim_start().starts_with("In `"));
        let text: String = sentences.collect();
        let doc_order = in_order(
            text.split('`')
                .scan(0, |at, part| {
                    *at += part.len() + 1;
                    Some((*at - part.len() - 1, part))
                })
                .enumerate()
                .filter(|(number, _)| number % 2 == 1)
                .filter_map(|(_, (at, name))| {
                    let (before, after) = (&text[..at - 1], &text[at + name.len() + 1..]);
                    let begins = ["et ", ". ", "; ", ": "].iter().any(|end| before.ends_with(end));
                    let is_value = begins
                        && (after.starts_with(" be ")
                            || after.starts_with(" is ") && !after.starts_with(" is multiplied"));
                    let is_loop = before.ends_with("or each ") || before.ends_with("hile ");
                    (is_value || is_loop).then_some((at, name))
                }),
        );
        let told: Vec<&str> = doc_order.into_iter().filter(|name| code_order.contains(name)).collect();
        let expected: Vec<&str> = code_order.into_iter().filter(|name| told.contains(name)).collect();
        n += told.len();
        n_loops += usize::from(text.contains("or each `"));
        assert_eq!(told, expected, "{}", program.source);
    }
    assert!(n > 5000 && n_loops > 100, "{n} {n_loops}");
}

#[test]
fn conversions_of_results_are_told() {
    let mut n = 0;
    for program in kernels(300) {
        let (doc, code) = parts(&program.source);
        let text = told(&doc);
        for input in program.inputs.iter().filter(|input| matches!(input.values, InputValues::Zeros)) {
            let is_narrow = ["float16", "bfloat16", "int8", "uint8", "int16", "uint16"].contains(&input.dtype.as_str());
            let mut lines = statements(&code).filter(|line| line.starts_with(&format!("{}[", input.name)));
            let converts = lines.any(|line| {
                line.contains(&format!(" = loom.{}(", input.dtype)) || line.contains(&format!(" = wp.{}(", input.dtype))
            });
            if is_narrow && converts {
                n += 1;
                let is_told = ["a", "an"].iter().any(|article| text.contains(&format!("as {article} {}", input.dtype)));
                assert!(is_told, "{}\n{}", input.name, program.source);
            }
        }
    }
    assert!(n > 30, "{n}");
}

#[test]
fn seeds_and_periods_of_noise_are_told() {
    for seed in 0..500 {
        let program = generate(Category::Random, seed);
        let (doc, code) = parts(&program.source);
        let text = told(&doc);
        let state = code.split_once("rand_init(").and_then(|(_, rest)| rest.split_once(", ")?.1.split_once(")\n"));
        let (number, _) = state.expect("there is a state");
        assert!(text.contains(&format!("and `{number}`.")), "{number}\n{}", program.source);
        assert!(
            !code.contains("pnoise(") || text.contains("the noise of period ") || text.contains("pnoise("),
            "{}",
            program.source
        );
    }
}

#[test]
fn brackets_hold_formulas() {
    for program in kernels(200) {
        let text = told(&parts(&program.source).0);
        let mut is_code = false;
        for (at, c) in text.char_indices() {
            is_code ^= c == '`';
            let formula = || text[at + 1..].strip_prefix('`').and_then(|rest| rest.split_once('`'));
            let is_formula = is_code || c != '(' || formula().is_some_and(|(_, rest)| rest.starts_with(')'));
            assert!(is_formula, "{}\n{}", &text[at..], program.source);
        }
    }
}

#[test]
fn products_that_are_changed_are_said_to_be() {
    let mut n = 0;
    for seed in 0..500 {
        let program = generate(Category::TensorCore, seed);
        let (doc, code) = parts(&program.source);
        let first = doc.lines().next().unwrap_or_default();
        let changes = ["Add ", "Store "].iter().any(|verb| first.starts_with(verb));
        n += usize::from(changes);
        assert!(!changes || first.contains("change"), "{first}");
        assert!(!first.starts_with("Multiply "), "{first}");
        let text = told(&doc);
        assert!(
            !code.contains(", 0.01 * ") || text.contains("a leak of 0.01") || text.contains("0.01 *"),
            "{}",
            program.source
        );
    }
    assert!(n > 100, "{n}");
}

#[test]
fn wordings_that_readers_stumbled_over_are_gone() {
    let wrong = [
        "what it holds and",
        "come to",
        "their weighted mean",
        "whose tangent is",
        "largest of the larger",
        "its place, ",
        "made of its",
    ];
    for program in kernels(300) {
        let (doc, _) = parts(&program.source);
        let text = told(&doc);
        for wrong in wrong {
            assert!(!text.contains(wrong) && !doc.contains(wrong), "{wrong}\n{}", program.source);
        }
    }
}
