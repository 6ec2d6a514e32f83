//! Random kernels give the same bits on every engine: a slice of what `make fuzz` does. Programs that once failed are
//! file tests.

use polyloom_filetests::differential::{
    EngineSet, ExtentComparison, ExtentFuzzer, GradientOutcome, LoomComparison, generate, generate_smooth,
};
use polyloom_ir::Op;
use std::collections::BTreeMap;

/// Programs run by default; `POLYLOOM_FUZZ_ITERATIONS` changes it.
const PROGRAMS: u64 = 150;

#[test]
fn random_kernels_agree_on_every_engine() {
    let engines = EngineSet::new().expect("the back ends of this build work");
    let programs = std::env::var("POLYLOOM_FUZZ_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    for seed in 0..programs {
        let program = generate(seed);
        if let Err(found) = engines.check(&program, seed) {
            panic!("seed {seed}: {found}\n{}", program.text);
        }
    }
    println!("{programs} programs on {}", engines.names().join(", "));
}

/// Programs that are differentiated by default, a fifth of those that are run.
#[test]
fn derivatives_of_random_kernels_agree() {
    let engines = EngineSet::new().expect("the back ends of this build work");
    let programs = std::env::var("POLYLOOM_FUZZ_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS) / 5;
    let mut n_agree = 0;
    for seed in 0..programs {
        let program = generate_smooth(seed);
        match engines.check_gradients(&program, seed) {
            Ok(derivatives) => n_agree += u64::from(derivatives == GradientOutcome::Agree),
            Err(found) => panic!("seed {seed}: {found}\n{}", program.text),
        }
    }
    assert!(n_agree > programs / 2, "of {programs} programs only {n_agree} have derivatives that can be compared");
}

/// Programs that are written as `.loom` by default, four times as many as those that are run.
#[test]
fn random_kernels_are_what_their_loom_text_is() {
    let engines = EngineSet::new().expect("the back ends of this build work");
    let programs = std::env::var("POLYLOOM_FUZZ_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS) * 4;
    let mut found: BTreeMap<LoomComparison, u64> = BTreeMap::new();
    for seed in 0..programs {
        let program = generate(seed);
        match engines.check_loom(&program, seed) {
            Ok(comparison) => *found.entry(comparison).or_default() += 1,
            Err(error) => panic!("seed {seed}: {error}\n{}", program.text),
        }
    }
    let n_without = found.get(&LoomComparison::NoText).copied().unwrap_or(0);
    assert!(n_without < programs / 3, "too few programs have a text to be compared: {found:?}");
    println!("{found:?}");
}

#[test]
fn the_same_seed_gives_the_same_program() {
    for seed in 0..50 {
        assert_eq!(generate_smooth(seed).text, generate_smooth(seed).text);
        assert_eq!(generate(seed).text, generate(seed).text);
    }
}

/// Builtins that are no operation of the table.
const OTHERS: [&str; 14] = [
    "cast",
    "identity",
    "matrix",
    "matrix_from_cols",
    "matrix_from_rows",
    "printf",
    "quat_identity",
    "quaternion",
    "static",
    "tid",
    "transform_identity",
    "transformation",
    "vector",
    "zeros",
];

#[test]
fn every_builtin_occurs_in_random_kernels() {
    // What the clock says differs from engine to engine.
    let table = Op::all().filter(|info| info.is_builtin() && info.op != Op::Clock);
    let mut missing: Vec<&str> = table.flat_map(|info| info.aliases.iter().copied().chain([info.name])).collect();
    missing.extend(OTHERS);
    for seed in 0..3000 {
        let text = generate(seed).text;
        missing.retain(|name| !text.contains(&format!("loom.{name}(")));
        if missing.is_empty() {
            return;
        }
    }
    panic!("3000 programs call {missing:?} nowhere");
}

/// Random kernels over other extents than they were made for: what a launch refuses, checks refuse too.
#[test]
fn launches_are_refused_where_checks_would_fail() {
    let fuzzer = ExtentFuzzer::new().expect("the interpreter works");
    let programs = std::env::var("POLYLOOM_FUZZ_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    let mut found: BTreeMap<ExtentComparison, u64> = BTreeMap::new();
    for seed in 0..programs {
        let program = generate(seed);
        match fuzzer.check(&program, seed) {
            Ok(comparison) => *found.entry(comparison).or_default() += 1,
            Err(error) => panic!("seed {seed}: {error}\n{}", program.text),
        }
    }
    println!("{found:?}");
    let n_of = |comparison| found.get(&comparison).copied().unwrap_or(0);
    assert!(n_of(ExtentComparison::Refused) * 10 > programs, "few launches are refused: {found:?}");
    assert!(n_of(ExtentComparison::Inside) * 10 > programs, "few launches are inside: {found:?}");
}
