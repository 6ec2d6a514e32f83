//! Random kernels as `.loom` text: they are the kernels that they were.

use super::compare::{Disagreement, EngineSet, compare, run_unit};
use super::program::RandomProgram;
use polyloom::LaunchError;
use polyloom_frontend::{CompileError, FileEnvironment, FrontendOptions, SourceUnit, compile_kernel, loom_of_python};
use polyloom_ir::SourceFile;
use std::sync::Arc;

/// The name of the kernel, because `kernel` is a word of `.loom`.
const NAME: &str = "generated";

/// Says how a kernel and its `.loom` text compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LoomComparison {
    /// Both have the same HIR.
    SameHir,
    /// Their HIR differs, and what they compute is the same.
    SameResults,
    /// There is no such text, because the kernel uses what `.loom` does not have.
    NoText,
}

impl EngineSet {
    /// Writes a program as `.loom`, reads it back and compares the two, by their HIR and, where that differs, by what the
    /// interpreter computes.
    ///
    /// # Errors
    ///
    /// If one of them is rejected, or they compute different things.
    pub fn check_loom(&self, program: &RandomProgram, seed: u64) -> Result<LoomComparison, Box<Disagreement>> {
        let rejected = |error| Box::new(Disagreement::Rejected(Box::new(error)));
        // Checks of indices are said by the caller of a `.loom` kernel.
        let python = program.text.replace("check=True, ", "").replace("check=True", "");
        let python = python.replace("def kernel(", &format!("def {NAME}("));
        let loom = match loom_of_python(&python) {
            Ok(loom) => loom,
            Err(_) => return Ok(LoomComparison::NoText),
        };
        let python = SourceUnit::parse(SourceFile::new("generated.py", python, 1)).map_err(rejected)?;
        let load = |_: &str, _: &str| Err("nothing is imported".to_owned());
        let described = |error: CompileError| {
            let message = format!("`.loom` text: {}\n{loom}", error.render(false));
            Box::new(Disagreement::Text(message))
        };
        let file = SourceFile::new("generated.loom", loom.as_str(), 1);
        let written = SourceUnit::parse_loom(file, &load).map_err(described)?;
        let original = hir(&python).map_err(rejected)?;
        if original == hir(&written).map_err(described)? {
            return Ok(LoomComparison::SameHir);
        }
        let session = &self.all()[0].session;
        let expected = run_unit(session, &python, NAME, program, seed)?;
        let got = run_unit(session, &written, NAME, program, seed)?;
        match (&expected.done, &got.done) {
            (Ok(()), Ok(())) => compare(".loom", &expected, &got)?,
            // An index is outside of its array, which the launch finds, or a thread.
            (
                Err(LaunchError::Trap(_) | LaunchError::Outside(_)),
                Err(LaunchError::Trap(_) | LaunchError::Outside(_)),
            ) => {}
            (Err(error), Ok(())) | (_, Err(error)) => {
                return Err(Box::new(Disagreement::Failed { engine: ".loom", error: error.clone() }));
            }
        }
        Ok(LoomComparison::SameResults)
    }
}

fn hir(unit: &Arc<SourceUnit>) -> Result<String, CompileError> {
    let Some(index) = unit.find(NAME) else { return Ok(String::new()) };
    let compiled = compile_kernel(&FileEnvironment::new(unit).function(index), &FrontendOptions::default())?;
    Ok(compiled.module.to_string())
}
