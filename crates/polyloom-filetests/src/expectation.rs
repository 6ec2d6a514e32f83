//! Comparing an output with the file that holds what was expected.

use crate::diff::diff;
use std::path::Path;

/// Describes what comparing came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompareOutcome {
    /// The output is as expected.
    Same,
    /// It was not, and the expectation has been written.
    Blessed,
}

/// Compares `output` with the file, or writes the file if `bless`.
pub(crate) fn compare(path: &Path, output: &str, bless: bool) -> Result<CompareOutcome, String> {
    let expected = std::fs::read_to_string(path).ok();
    if expected.as_deref() == Some(output) {
        return Ok(CompareOutcome::Same);
    }
    if bless {
        std::fs::write(path, output).map_err(|error| format!("cannot write the expectation: {error}"))?;
        return Ok(CompareOutcome::Blessed);
    }
    match expected {
        Some(expected) => Err(format!("not as expected (- expected, + found)\n{}", diff(&expected, output))),
        None => Err(format!("there is no expectation yet; POLYLOOM_BLESS=1 writes it. Found:\n{output}")),
    }
}
