//! A brief run of every fuzz target. `POLYLOOM_FUZZ_ITERATIONS` and `POLYLOOM_FUZZ_SEED` make it long and different.

use polyloom_filetests::fuzz::{
    Target, barriers, corpus, hir_text, loom_examples, loom_source, program, python_examples, python_source,
    random_module, run,
};
use polyloom_filetests::root;
use polyloom_ir::text::{PrintOptions, print_module};
use polyloom_ir::{FileId, parse_module, verify_module};

const DEFAULT_ITERATIONS: u64 = 2000;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn check(target: Target, corpus: &[String]) {
    assert!(!corpus.is_empty(), "nothing to mutate");
    let iterations = number("POLYLOOM_FUZZ_ITERATIONS", DEFAULT_ITERATIONS);
    if let Err(failure) = run(target, corpus, number("POLYLOOM_FUZZ_SEED", 1), iterations) {
        panic!("{failure}");
    }
}

/// Returns the number of random modules a test looks at, in proportion to the iterations asked for.
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
    check(hir_text, &corpus);
}

#[test]
fn any_hir_text_is_read_verified_and_transformed_or_rejected() {
    check(hir_text, &corpus(&root(), "hir"));
}

#[test]
fn passes_keep_what_random_programs_compute() {
    let seed = number("POLYLOOM_FUZZ_SEED", 1) << 32;
    (seed..seed + number("POLYLOOM_FUZZ_ITERATIONS", DEFAULT_ITERATIONS)).for_each(program);
}

#[test]
fn splitting_at_barriers_keeps_what_blocks_compute() {
    let seed = number("POLYLOOM_FUZZ_SEED", 1) << 32;
    let iterations = number("POLYLOOM_FUZZ_ITERATIONS", DEFAULT_ITERATIONS) / 5;
    let n_taken = (seed..seed + iterations).filter(|&seed| barriers(seed)).count() as u64;
    assert!(n_taken * 3 > iterations, "only {n_taken} of {iterations} kernels were compiled");
}

#[test]
fn any_python_source_is_compiled_or_rejected() {
    let mut texts = corpus(&root(), "py");
    texts.extend(python_examples(&root().join("../../docs/errors")));
    check(python_source, &texts);
}

#[test]
fn any_loom_text_is_compiled_or_rejected() {
    let folders = ["examples/loom", "examples/loom/library", "docs/loom", "docs/guide", "docs/errors"];
    let texts: Vec<String> =
        folders.iter().flat_map(|folder| loom_examples(&root().join("../..").join(folder))).collect();
    assert!(texts.len() > 60, "{} texts", texts.len());
    check(loom_source, &texts);
}

#[test]
fn deep_and_long_loom_is_compiled_or_rejected() {
    let kernel = |body: &str| format!("kernel k(x: array<f32, n>, m: i32) {{ for i in 0..n {{\n{body}\n}} }}\n");
    for depth in [100, 500, 2_000, 20_000] {
        for (open, close) in [
            ("(", ")"),
            ("-", ""),
            ("not ", ""),
            ("m + ", ""),
            ("m ** ", ""),
            ("m and ", ""),
            ("m < ", ""),
            ("if m then m else ", ""),
            ("abs(", ")"),
            ("x[i32(", ")]"),
            ("m.", ""),
        ] {
            loom_source(&kernel(&format!("let y = {}m{}", open.repeat(depth), close.repeat(depth))));
        }
        loom_source(&kernel(&format!("let y = m{}", "(1)".repeat(depth))));
        for header in ["if m > 0 {", "for j in 0..m {", "serial for j in 0..m {", "while m > 0 {"] {
            loom_source(&kernel(&format!("{}{}", header.repeat(depth), "}".repeat(depth))));
        }
        let lines =
            |line: &str| (0..depth).map(|i| format!("{line}\n").replace('#', &i.to_string())).collect::<String>();
        loom_source(&kernel(&lines("let v# = m + #")));
        loom_source(&kernel(&lines("if m > #: x[i] = 1.0")));
    }
}

/// A kernel with this body, indented by four spaces.
fn kernel(body: &str) -> String {
    format!("import polyloom as loom\n\n@loom.kernel\ndef k(a: loom.array(dtype=float), n: int):\n{body}\n")
}

#[test]
fn deep_and_long_python_is_compiled_or_rejected() {
    let nested = |depth: usize, open: &str, inner: &str, close: &str| {
        kernel(&format!("    x = {}{inner}{}", open.repeat(depth), close.repeat(depth)))
    };
    for depth in [100, 500, 900, 2_000, 20_000] {
        python_source(&nested(depth, "(", "n", ")"));
        python_source(&nested(depth, "-", "n", ""));
        python_source(&nested(depth, "not ", "n", ""));
        python_source(&nested(depth, "n + ", "n", ""));
        python_source(&nested(depth, "n ** ", "n", ""));
        python_source(&nested(depth, "n and ", "n", ""));
        python_source(&nested(depth, "n < ", "n", ""));
        python_source(&nested(depth, "n if n else ", "n", ""));
        python_source(&nested(depth, "loom.abs(", "n", ")"));
        python_source(&nested(depth, "a[int(", "n", ")]"));
        python_source(&nested(depth, "[", "n", "]"));
        python_source(&nested(depth, "n.", "n", ""));
        python_source(&nested(depth, "", "n", "(1)"));
        python_source(&nested(depth, "lambda: ", "n", ""));
        let defaults = ("lambda x, y=".repeat(depth), ": 0, z=0".repeat(depth - 1));
        python_source(&kernel(&format!("    x = {}0{}: 0", defaults.0, defaults.1)));
        python_source(&kernel(&format!("    {}n", "yield n, ".repeat(depth))));
        let lines =
            |line: &str| (0..depth).map(|i| format!("    {line}\n").replace('#', &i.to_string())).collect::<String>();
        python_source(&kernel(&lines("v# = n + #")));
        python_source(&kernel(&lines("n = n * n + #")));
        python_source(&kernel(&lines("if n > #: a[#] = 1.0")));
        let elifs = lines("elif n == #: a[0] = 1.0");
        python_source(&kernel(&format!("    if n < 0: a[0] = 0.0\n{elifs}")));
    }
    for n_chains in [1, 3, 13, 100] {
        let chain = "a[0] == ".repeat(63);
        let open = format!("{chain}float(");
        python_source(&kernel(&format!("    b = {}n{}", open.repeat(n_chains), ")".repeat(n_chains))));
    }
    for depth in [90, 300, 600] {
        for header in ["if n > 0:", "for i in range(n):", "while n > 0:", "def f():", "with n:", "class C:"] {
            let body: String = (0..depth).map(|i| format!("{}{header}\n", "    ".repeat(i + 1))).collect();
            python_source(&kernel(&format!("{body}{}n = n - 1", "    ".repeat(depth + 1))));
        }
    }
}
