//! What a reader of kernels taken at random would stumble over.

mod docstrings;
mod forms;

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Kernels of all categories.
fn kernels(n: u64) -> impl Iterator<Item = DatasetProgram> {
    Category::ALL.iter().flat_map(move |&category| (0..n).map(move |seed| generate(category, 77_000 + seed)))
}

/// A kernel's docstring and the rest of the text.
fn parts(source: &str) -> (String, String) {
    let mut parts = source.splitn(3, "\"\"\"");
    let before = parts.next().unwrap_or_default();
    let doc = parts.next().expect("there is a docstring");
    (doc.to_owned(), format!("{before}{}", parts.next().unwrap_or_default()))
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.split(move |c| !is_part(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// Statements without what they are indented by, and without comments.
fn statements(code: &str) -> impl Iterator<Item = &str> {
    code.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[test]
fn docstrings_use_names_that_the_code_has() {
    for program in kernels(100) {
        let (doc, code) = parts(&program.source);
        let known: BTreeSet<&str> = words(&code).collect();
        for span in doc.split('`').skip(1).step_by(2) {
            for word in words(span) {
                let is_number = span.contains(&format!(".0{word}"));
                assert!(known.contains(word) || is_number, "`{word}`\n{}", program.source);
            }
        }
    }
}

#[test]
fn docstrings_introduce_what_is_no_parameter() {
    for program in kernels(60) {
        let (doc, code) = parts(&program.source);
        let head = code.split(".kernel").nth(1).and_then(|rest| rest.split("):\n").next()).unwrap_or_default();
        let is_index = |line: &&str| line.contains(".tid()") || line.contains("_idx()");
        let indices: Vec<&str> = code.lines().filter(is_index).filter_map(|line| line.split('=').next()).collect();
        let functions = code.lines().filter_map(|line| line.strip_prefix("def "));
        let functions: Vec<&str> = functions.filter_map(|line| line.split('(').next()).collect();
        let names = words(head).chain(indices.into_iter().flat_map(words)).chain(functions);
        let mut known = docstring::names::KnownNames::new(names);
        let text = told(&doc);
        let sentences: Vec<&str> = text.split_inclusive(". ").map(str::trim).collect();
        for sentence in &sentences {
            assert!(known.take_in(&docstring::names::NameMentions::of(sentence)), "{sentence}\n{}", program.source);
        }
    }
}

#[test]
fn the_first_line_sums_up_what_the_kernel_does() {
    for program in kernels(60) {
        let (doc, _) = parts(&program.source);
        let first = doc.lines().next().unwrap_or_default();
        assert!(first.ends_with('.') && first.starts_with(|c: char| c.is_ascii_uppercase()), "{first}");
        assert_ne!(first.trim_end_matches('.').to_lowercase(), program.name.replace('_', " "));
        assert!(first.contains('`') || program.category == "composite", "{first}");
    }
}

#[test]
fn docstrings_are_sentences() {
    for program in kernels(100) {
        let (doc, _) = parts(&program.source);
        let text = doc.split_whitespace().collect::<Vec<_>>().join(" ");
        for wrong in ["``", "be let", "gives let", "is let", " . ", "..", "; .", ": .", ". else", ". where", "`. `, "] {
            assert!(!text.contains(wrong), "{wrong}\n{}", program.source);
        }
        assert_eq!(text.matches('(').count(), text.matches(')').count(), "{}", program.source);
    }
}

#[test]
fn nothing_has_two_names() {
    for program in kernels(100) {
        let (_, code) = parts(&program.source);
        let targets: Vec<&str> = statements(&code).filter_map(|line| line.split([' ', ',']).next()).collect();
        for line in statements(&code) {
            let Some((target, value)) = line.split_once(" = ") else { continue };
            let is_name = |text: &str| words(text).next() == Some(text);
            let is_alias = is_name(target) && is_name(value);
            let times = targets.iter().filter(|&&name| name == target).count();
            assert!(!is_alias || times > 1, "{line}\n{}", program.source);
        }
    }
}

#[test]
fn nothing_cancels() {
    let pairs = [
        "abs(P.abs(",
        "log(P.exp(",
        "exp(P.log(",
        "sqrt(P.sqrt(",
        "tanh(P.atanh(",
        "sin(P.asin(",
        "asin(P.sin(",
        "radians(P.degrees(",
        "degrees(P.radians(",
        "normalize(P.normalize(",
        "floor(P.round(",
        "round(P.floor(",
        "transpose(P.transpose(",
        "frac(P.frac(",
        "sign(P.sign(",
        "(--",
        "- -",
        " / 1.0\n",
        " * 1.0\n",
        " + 0.0\n",
        " ** 1.0\n",
        "= 1.0 * ",
    ];
    let mut n_found = BTreeMap::<&str, usize>::new();
    for program in kernels(100) {
        let source = program.source.replace("wp.", "P.").replace("loom.", "P.");
        for pair in pairs {
            if source.contains(pair) {
                *n_found.entry(pair).or_default() += 1;
            }
        }
    }
    // A later expression may bring two signs together.
    assert!(n_found.values().sum::<usize>() <= 5, "{n_found:?}");
}

#[test]
fn no_guard_is_everywhere() {
    let (mut n, mut found) = (0, [0; 3]);
    for program in kernels(100) {
        n += 1;
        let source = program.source.replace("wp.", "").replace("loom.", "");
        let divides = ["/ (1.0 + abs(", "/ (1.0 + length(", "/ (float64(1.0) + abs("];
        found[0] += usize::from(divides.iter().any(|guard| source.contains(guard)));
        found[1] += usize::from(source.contains("int(floor("));
        found[2] += usize::from(source.contains("sqrt(1.0 + "));
    }
    assert!(found.iter().all(|&found| found * 100 <= 9 * n), "{found:?} of {n}");
}

#[test]
fn difficulty_orders_kernels_by_length() {
    let mut lengths = BTreeMap::<u8, Vec<usize>>::new();
    let mut of_category = BTreeMap::<String, BTreeSet<u8>>::new();
    for program in kernels(100) {
        let (_, code) = parts(&program.source);
        let is_body = |line: &&str| line.starts_with("    ") && !line.ends_with(',');
        let n_lines = code.lines().filter(is_body).count();
        lengths.entry(program.difficulty).or_default().push(n_lines);
        of_category.entry(program.category.into_owned()).or_default().insert(program.difficulty);
    }
    let medians: Vec<usize> = lengths
        .values_mut()
        .map(|lengths| {
            lengths.sort_unstable();
            lengths[lengths.len() / 2]
        })
        .collect();
    assert_eq!(medians.len(), 5);
    assert!(medians.windows(2).all(|pair| pair[1] * 2 > pair[0] * 3), "{medians:?}");
    assert!(medians[4] >= 40, "{medians:?}");
    for (category, found) in of_category {
        assert!(found.len() >= 3 && found.contains(&4), "{category}: {found:?}");
    }
}

/// Returns what a docstring says, as if none of it were a list.
fn told(doc: &str) -> String {
    let mut text = String::new();
    for line in doc.lines() {
        let words = line.trim_start();
        match words.strip_prefix("- ") {
            // The subject is a part of a sentence before.
            Some(item) if line.len() - words.len() > 4 => {
                if text.ends_with('.') {
                    text.pop();
                    text.push(';');
                }
                let (first, rest) = item.split_at(1);
                text.extend([" ", &first.to_lowercase(), rest]);
            }
            Some(item) => text.extend([" ", item]),
            None => text.extend([" ", words]),
        }
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut parts = text.split("In `");
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        told.push_str("In `");
        told.push_str(&part.replacen("`: ", "`, ", 1));
    }
    told
}

#[test]
fn what_is_said_to_start_is_said_to_change() {
    for program in kernels(300) {
        let (doc, code) = parts(&program.source);
        let text = told(&doc);
        for (at, _) in text.match_indices("` starts as ") {
            let name = text[..at].rsplit('`').next().unwrap_or_default();
            let is_changed = |line: &&str| {
                let rest = line.strip_prefix(name).unwrap_or_default();
                [" = ", " += ", " -= ", " *= "].iter().any(|sign| rest.starts_with(sign))
            };
            let n_changes = statements(&code).filter(is_changed).count();
            let after = &text[at + 1..];
            assert!(n_changes < 2 || after.contains(&format!("`{name}`")), "{name}\n{}", program.source);
        }
    }
}

#[test]
fn both_places_of_a_bin_are_named() {
    for seed in 0..2000 {
        let program = generate(Category::Atomic, seed);
        let (doc, code) = parts(&program.source);
        let text = told(&doc);
        for line in statements(&code) {
            let Some((_, rest)) = line.split_once(".atomic_add(") else { continue };
            let args: Vec<&str> = rest.trim_end_matches(')').splitn(2, ", ").collect();
            let is_table = program.inputs.iter().any(|input| input.name == args[0] && input.shape.len() == 2);
            let said = text.split(". ").find(|sentence| sentence.starts_with(&format!("`{}` ", args[0])));
            if let (true, Some(said)) = (is_table, said) {
                assert!(said.contains("of row ") && said.contains(" and column "), "{}", program.source);
            }
        }
    }
}

#[test]
fn loops_take_more_than_one_step_and_conditions_on_counters_vary() {
    for program in kernels(300) {
        let mut loops: Vec<(usize, String, Vec<i64>)> = Vec::new();
        for line in program.source.lines().filter(|line| !line.trim().is_empty()) {
            let depth = line.len() - line.trim_start().len();
            loops.retain(|(at, ..)| *at < depth);
            if let Some((name, bounds)) =
                line.trim_start().strip_prefix("for ").and_then(|l| l.split_once(" in range("))
            {
                let Ok(bounds) =
                    bounds.trim_end_matches("):").split(", ").map(str::parse).collect::<Result<Vec<i64>, _>>()
                else {
                    continue;
                };
                let (low, high, step) = match bounds[..] {
                    [high] => (0, high, 1),
                    [low, high] => (low, high, 1),
                    [low, high, step] => (low, high, step),
                    _ => continue,
                };
                let is_within = |at: &i64| if step > 0 { *at < high } else { *at > high };
                let values: Vec<i64> =
                    std::iter::successors(Some(low), |at| Some(at + step)).take_while(is_within).collect();
                assert!(values.len() > 1, "{line}\n{}", program.source);
                loops.push((depth, name.to_owned(), values));
            }
            for (_, name, values) in &loops {
                let Some((_, test)) = line.split_once(&format!("if {name} % ")) else { continue };
                let Some((modulus, wanted)) = test.trim_end_matches(':').split_once(" == ") else { continue };
                let (Ok(modulus), Ok(wanted)) = (modulus.parse::<i64>(), wanted.parse::<i64>()) else { continue };
                let n = values.iter().filter(|value| *value % modulus == wanted).count();
                assert!((1..values.len()).contains(&n), "{line}\n{}", program.source);
            }
        }
    }
}

#[test]
fn control_flow_is_there() {
    for seed in 0..2000 {
        let program = generate(Category::ControlFlow, seed);
        let (_, code) = parts(&program.source);
        let words = ["if ", "where(", " and ", " or ", "while ", "for "];
        assert!(words.iter().any(|word| code.contains(word)), "{}", program.source);
    }
}

#[test]
fn composite_kernels_say_what_they_write_and_what_takes_part() {
    for seed in 0..1000 {
        let program = generate(Category::Composite, seed);
        let (doc, _) = parts(&program.source);
        let is_output = |input: &&ProgramInput| matches!(input.values, InputValues::Zeros);
        let outputs: Vec<&str> = program.inputs.iter().filter(is_output).map(|input| input.name.as_str()).collect();
        let text = told(&doc);
        let (_, rest) = text.split_once(". ").unwrap_or_default();
        let is_said = |name: &&str| rest.contains(&format!("`{name}`"));
        assert!(outputs.is_empty() || outputs.iter().any(is_said), "{}", program.source);
        for input in program.inputs.iter().filter(|input| !is_output(input)) {
            assert!(words(&text).any(|word| word == input.name), "{}\n{}", input.name, program.source);
        }
    }
}

#[test]
fn first_lines_name_what_they_speak_of() {
    for category in [Category::Struct, Category::Reduction, Category::Scan] {
        for seed in 0..500 {
            let program = generate(category, seed);
            let (doc, _) = parts(&program.source);
            let first = doc.lines().next().unwrap_or_default();
            let named = ["fields of ", "rows of ", "columns of "].iter().find_map(|lead| first.split_once(lead));
            let Some((_, named)) = named else { continue };
            let named = [" with ", " and fill ", " into ", " to ", " come "]
                .iter()
                .fold(named, |text, end| text.split_once(end).map_or(text, |(before, _)| before));
            for name in named.split('`').skip(1).step_by(2) {
                let fits = |input: &ProgramInput| match category {
                    Category::Struct => input.name.starts_with(&format!("{name}.")),
                    _ => input.name == name && input.shape.len() > 1,
                };
                assert!(program.inputs.iter().any(fits), "{name}: {first}\n{}", program.source);
            }
        }
    }
}

#[test]
fn conditions_and_elements_read_as_english() {
    for program in kernels(200) {
        let (doc, code) = parts(&program.source);
        let text = told(&doc);
        for wrong in ["goes round", "colour by it", "` is `a > b` is", "there is 2", ", of `change`"] {
            assert!(!text.contains(wrong), "{wrong}\n{}", program.source);
        }
        for sentence in text.split(". ").filter(|sentence| sentence.starts_with('`')) {
            let what = sentence.split_once("` is ").map_or("", |(_, what)| what);
            let is_condition = [" is greater than ", " is less than "].iter().any(|verb| what.contains(verb));
            let is_chosen =
                ["whether ", " if ", "where ", "Where ", " lanes ", "lane has"].iter().any(|word| what.contains(word));
            assert!(!is_condition || is_chosen || what.contains("; "), "{sentence}\n{}", program.source);
        }
        let restates = |line: &str| {
            ["# The sum of ", "# The product of ", "# The difference of "].iter().any(|c| line.contains(c))
        };
        assert!(!code.lines().any(restates) || program.category == "composite", "{}", program.source);
    }
}

#[test]
fn docstrings_say_what_each_output_becomes() {
    let (mut n, mut n_counted) = (0, 0);
    for program in kernels(100) {
        let (doc, _) = parts(&program.source);
        let text = told(&doc);
        for wrong in ["on the way", "what comes of that", "one after the other", "updated in place"] {
            assert!(!text.contains(wrong), "{wrong}\n{}", program.source);
        }
        for input in program.inputs.iter().filter(|input| matches!(input.values, InputValues::Zeros)) {
            let name = input.name.split('.').next().unwrap_or(&input.name);
            // A line alone may say what each element is.
            assert!(!doc.contains('\n') || text.contains(&format!("`{name}")), "{name}\n{}", program.source);
            // A value computed from few says no more than these.
            n += 1;
            let said = text
                .split(". ")
                .find(|sentence| sentence.contains(&format!("`{name}`")) && sentence.contains(" computed from "));
            n_counted += usize::from(said.is_some());
        }
    }
    assert!(n_counted * 100 <= n, "{n_counted} of {n}");
}

#[test]
fn elements_have_one_form_in_a_sentence() {
    for program in kernels(100).filter(|program| program.category != "composite") {
        let (doc, code) = parts(&program.source);
        let Some((indices, _)) = code.lines().find_map(|line| line.trim_start().split_once(" = wp.tid()")) else {
            continue;
        };
        let text = told(&doc);
        for input in program.inputs.iter().filter(|input| !input.shape.is_empty()) {
            let element = format!("{}[{indices}]", input.name);
            for sentence in text.split(". ").filter(|sentence| sentence.contains(&element)) {
                let is_array = [" of `", "computed from", " and `"].iter().any(|lead| sentence.contains(lead));
                assert!(is_array || !sentence.contains(&format!("`{}`", input.name)), "{sentence}\n{}", program.source);
            }
        }
    }
}

/// A comparison with a number: what is compared, whether it is to be less, and than what.
type Bound = (String, bool, f64);

fn bound(test: &str) -> Option<Bound> {
    let test = test.replace("loom.float64(", "").replace("wp.float64(", "");
    let is_one = ![" and ", " or ", "not "].iter().any(|word| test.contains(word));
    let (value, sign, number) = [" < ", " > "].iter().find_map(|sign| {
        let (value, number) = test.split_once(sign)?;
        Some((value, *sign, number.trim_end_matches(')').parse().ok()?))
    })?;
    is_one.then(|| (value.to_owned(), sign == " < ", number))
}

#[test]
fn no_test_asks_what_those_around_it_have_decided() {
    for seed in 0..3000 {
        let program = generate(Category::ControlFlow, seed);
        let mut known: Vec<(usize, Option<Bound>)> = Vec::new();
        for line in program.source.lines().filter(|line| !line.trim().is_empty()) {
            let text = line.trim_start();
            let depth = line.len() - text.len();
            let goes_on = text.starts_with("elif ") || text == "else:";
            known.retain(|(at, _)| *at < depth || *at == depth && goes_on);
            // The arm before was for those of which its test holds.
            if let Some((_, Some((_, is_below, _)))) = known.last_mut().filter(|_| goes_on) {
                *is_below = !*is_below;
            }
            let Some(test) = text.strip_prefix("if ").or_else(|| text.strip_prefix("elif ")) else { continue };
            let asked = bound(test.trim_end_matches(':'));
            if let Some((value, _, at)) = &asked {
                let decides =
                    |known: &Bound| known.0 == *value && if known.1 { *at >= known.2 } else { *at <= known.2 };
                let is_open = !known.iter().filter_map(|(_, known)| known.as_ref()).any(decides);
                assert!(is_open, "{line}\n{}", program.source);
            }
            known.push((depth, asked));
        }
    }
}

#[test]
fn factors_stand_alone() {
    let (mut n, mut n_chained) = (0, 0);
    let others = |program: &DatasetProgram| !matches!(&*program.category, "composite" | "atomic" | "tensor_core");
    for program in kernels(100).filter(others) {
        let (_, code) = parts(&program.source);
        let is_number = |part: &str| part.trim_matches(['(', ')']).parse::<f64>().is_ok();
        n += 1;
        n_chained += usize::from(statements(&code).any(|line| {
            let parts: Vec<&str> = line.split(" * ").collect();
            parts.windows(2).any(|pair| {
                let last = pair[0].rsplit([' ', '(']).next().unwrap_or_default();
                // `0.5 * (1.0 + x)` is no chain.
                let next = if pair[1].starts_with('(') {
                    pair[1]
                } else {
                    pair[1].split([' ', ')']).next().unwrap_or_default()
                };
                is_number(last) && is_number(next)
            })
        }));
    }
    // Some fractions that were made whole are left.
    assert!(n_chained * 40 <= n, "{n_chained} of {n}");
}
