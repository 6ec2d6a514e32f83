//! `test differential` and `test gradients`: a program on which engines, or the ways to its derivatives, once
//! disagreed. Its `# seed N: what went wrong` line says which arguments it is launched with, its `# rank …` line what its
//! parameters are.

use crate::case::TestCase;
use crate::differential::{EngineSet, RandomProgram};

pub(super) fn differential(case: &TestCase) -> Result<(), String> {
    let (seed, program) = program(case)?;
    let engines = EngineSet::new().map_err(|error| error.to_string())?;
    engines.check(&program, seed).map_err(|found| found.to_string())
}

pub(super) fn gradients(case: &TestCase) -> Result<(), String> {
    let (seed, program) = program(case)?;
    let engines = EngineSet::new().map_err(|error| error.to_string())?;
    engines.check_gradients(&program, seed).map(|_| ()).map_err(|found| found.to_string())
}

/// The program of a file and the seed of its arguments.
pub(super) fn program(case: &TestCase) -> Result<(u64, RandomProgram), String> {
    let seed = case.directives("seed ").find_map(|(_, text)| text.split(':').next()?.trim().parse().ok());
    let seed: u64 = seed.ok_or("no line says `# seed N: …`")?;
    Ok((seed, RandomProgram::from_text(case.text.clone())?))
}
