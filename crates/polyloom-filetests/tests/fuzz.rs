//! A brief run of every fuzz target. `POLYLOOM_FUZZ_ITERATIONS` and `POLYLOOM_FUZZ_SEED` make it long and different.

use polyloom_filetests::fuzz::{Target, corpus, hir_text, program, random_module, run};
use polyloom_filetests::root;
use polyloom_ir::text::{PrintOptions, print_module};
use polyloom_ir::{FileId, parse_module, verify_module};

const DEFAULT_ITERATIONS: u64 = 2000;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn check(target: Target, extension: &str) {
    let corpus = corpus(&root(), extension);
    assert!(!corpus.is_empty(), "no .{extension} files to mutate");
    check_corpus(target, &corpus);
}

fn check_corpus(target: Target, corpus: &[String]) {
    let iterations = number("POLYLOOM_FUZZ_ITERATIONS", DEFAULT_ITERATIONS);
    if let Err(failure) = run(target, corpus, number("POLYLOOM_FUZZ_SEED", 1), iterations) {
        panic!("{failure}");
    }
}

/// How many random modules a test looks at, in proportion to the iterations asked for.
fn n_modules() -> u64 {
    number("POLYLOOM_FUZZ_ITERATIONS", DEFAULT_ITERATIONS) / 10
}

#[test]
fn random_modules_are_verified_and_print_parse_and_print_the_same() {
    for seed in 0..n_modules() {
        let module = random_module(seed);
        let errors = verify_module(&module).err().unwrap_or_default();
        assert!(errors.is_empty(), "seed {seed}: {errors:?}\n{module}");
        let text = print_module(&module, PrintOptions { spans: true });
        let again = parse_module(&text, FileId::from_u32(0)).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        assert_eq!(print_module(&again, PrintOptions { spans: true }), text, "seed {seed}");
    }
}

#[test]
fn passes_keep_random_modules_and_their_mutations_valid() {
    let corpus: Vec<String> = (0..n_modules()).map(|seed| random_module(seed).to_string()).collect();
    check_corpus(hir_text, &corpus);
}

#[test]
fn any_hir_text_is_read_verified_and_transformed_or_rejected() {
    check(hir_text, "hir");
}

#[test]
fn passes_keep_what_random_programs_compute() {
    let seed = number("POLYLOOM_FUZZ_SEED", 1) << 32;
    (seed..seed + number("POLYLOOM_FUZZ_ITERATIONS", DEFAULT_ITERATIONS)).for_each(program);
}
