//! The harness for `tests/filetests`: inputs are files, expectations stand beside them.
//!
//! An input is a `.hir` or `.py` file whose first line says what to do with it, in a comment of its language:
//!
//! ```text
//! ; test pass fold, dce
//! kernel @k(%0 x: f32) { …
//! ```
//!
//! What comes out is compared with the file of the same name that ends in `.expect`. `POLYLOOM_BLESS=1` writes those
//! files; they are reviewed like code and never edited by hand. `POLYLOOM_FILETESTS=text` runs only the inputs whose
//! path contains the text. Every input is run, also after failures, and a panic fails only its own file.
//!
//! | first line | input | output |
//! |---|---|---|
//! | `test parse` | HIR | the module printed, or the reader's diagnostics; what is printed must read back the same |
//! | `test verify` | HIR | the verifier's diagnostics |
//! | `test pass NAME[, NAME…]` | HIR | the module after the passes, each run on every function and verified after |
//! | `test prepare` | HIR | every kernel as back ends get it |
//! | `test hir` | Python | the HIR of every kernel, verified |
//! | `test backward` | Python | the HIR of every kernel's backward kernel |
//! | `test ast` | Python | the typed AST of every kernel |
//! | `test cpp`, `test cuda` | HIR or Python | every kernel as C++ or CUDA C++ text, without the prelude |
//! | `test diagnostics` | Python | all diagnostics, rendered |
//! | `test run` | HIR or Python | none: `; run:` lines say what calls and launches come to |
//! | `test differential` | Python | none: every engine of the build gives the same bits |
//! | `test gradients` | Python | none: both modes and differences agree on every engine of the build |
//!
//! Lines after the first may set options: `; option checked` compiles with checks; `prelude` and `comments` are those
//! of texts. A kind is a function in [`kind`].

pub mod case;
mod diff;
pub mod differential;
mod expectation;
pub mod fuzz;
pub mod kind;
mod split;

use case::{TestCase, find_inputs};
use expectation::{CompareOutcome, compare};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The folder of the inputs in this repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests")
}

/// Describes what a run of the file tests found.
#[derive(Debug, Default)]
pub struct TestReport {
    /// Number of inputs passed, by the test they name.
    pub passed: BTreeMap<String, usize>,
    /// Number of expectations that were written.
    pub n_blessed: usize,
    /// Holds what is wrong, one text per file.
    pub failures: Vec<String>,
}

impl TestReport {
    /// One line of counts.
    pub fn summary(&self) -> String {
        let mut text = String::from("file tests:");
        for (name, count) in &self.passed {
            // Writing to a string does not fail.
            let _ = write!(text, " {count} {name},");
        }
        let _ = write!(text, " {} failed", self.failures.len());
        if self.n_blessed > 0 {
            let _ = write!(text, "; {} expectations written", self.n_blessed);
        }
        text
    }
}

/// Runs every input under `root` whose path contains `filter`, writing expectations instead of comparing if `bless`.
pub fn run(root: &Path, filter: &str, bless: bool) -> TestReport {
    let mut report = TestReport::default();
    let (inputs, strays) = find_inputs(root);
    for stray in strays {
        report.failures.push(format!("{}: no input has this expectation", stray.display()));
    }
    for path in inputs {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if !name.contains(filter) {
            continue;
        }
        match run_one(&path, &name, bless) {
            Ok((test, blessed)) => {
                *report.passed.entry(test).or_default() += 1;
                report.n_blessed += usize::from(blessed);
            }
            Err(message) => report.failures.push(format!("{name}: {message}")),
        }
    }
    report
}

/// The name of the test and whether its expectation was written.
fn run_one(path: &Path, name: &str, bless: bool) -> Result<(String, bool), String> {
    let case = TestCase::read(path, name)?;
    let output = catch_unwind(AssertUnwindSafe(|| kind::run(&case)))
        .map_err(|panic| format!("panicked: {}", panic_message(&*panic)))??;
    let outcome = match output {
        Some(text) => compare(&path.with_extension("expect"), &text, bless)?,
        None => CompareOutcome::Same,
    };
    Ok((case.test, outcome == CompareOutcome::Blessed))
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("with no message")
}
