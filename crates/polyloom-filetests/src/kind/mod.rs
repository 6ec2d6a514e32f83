//! What each kind of file test does with its input.

mod backward;
mod compiled;
mod differential;
mod hir;
mod passes;
mod python;
mod run;
mod text;
mod value;

pub use compiled::run_texts;

use crate::case::TestCase;
use polyloom::TextTarget;

/// The output to compare with the expectation, or `None` for a test that carries its own.
type Output = Result<Option<String>, String>;

/// Runs the test the input names.
///
/// # Errors
///
/// What is wrong besides the output.
pub fn run(case: &TestCase) -> Output {
    match case.test.as_str() {
        "parse" => hir::parse(case).map(Some),
        "backward" => backward::backward(case).map(Some),
        "differential" => differential::differential(case).map(|()| None),
        "gradients" => differential::gradients(case).map(|()| None),
        "verify" => hir::verify(case).map(Some),
        "hir" => python::hir(case).map(Some),
        "ast" => python::ast(case).map(Some),
        "cpp" => text::text(case, TextTarget::Cpp).map(Some),
        "cuda" => text::text(case, TextTarget::Cuda).map(Some),
        "diagnostics" => python::diagnostics(case).map(Some),
        "pass" => passes::pass(case).map(Some),
        "prepare" => passes::prepare(case).map(Some),
        "run" => run::run(case).map(|()| None),
        unknown => Err(format!("there is no test `{unknown}`")),
    }
}
