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
                    [" gives ", ", `", " approximates "].iter().any(|verb| rest.starts_with(verb))
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
        for input in program.inputs.iter().filter(|input| matches!(input.values, Values::Zeros)) {
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
        for input in program.inputs.iter().filter(|input| matches!(input.values, Values::Zeros)) {
            let n = match input.shape[..] {
                [Extent::Is(1)] => continue,
                [Extent::Is(n)] => format!(" of {n}"),
                [Extent::Is(n), Extent::Is(m)] => format!(" of {n} by {m}"),
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
