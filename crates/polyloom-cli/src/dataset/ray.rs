//! `--engine ray`: Ray is a library of Python, so Python drives it.

use super::python;
use crate::{CommandFailure, Outcome, print};
use polyloom_dataset::{DatasetManifest, ProduceSettings};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Has `polyloom.synth` make the data set of these settings.
pub(super) fn run(
    settings: &ProduceSettings,
    output: &Path,
    jobs: usize,
    resume: bool,
    exclude: &[PathBuf],
) -> Outcome {
    let python = python();
    let failed = |error: &dyn std::fmt::Display| CommandFailure::Failed(format!("{}: {error}", python.display()));
    let settings = serde_json::to_vec(settings).map_err(|error| failed(&error))?;
    let mut command = Command::new(&python);
    command.args(["-m", "polyloom._synth_ray", "--jobs", &jobs.to_string(), "--output"]).arg(output);
    command.args(resume.then_some("--resume"));
    for path in exclude {
        command.arg("--exclude").arg(path);
    }
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
    if let Some(mut input) = child.stdin.take() {
        // An error is not reported, because a process that has ended before it has read all says why by itself.
        let _ = input.write_all(&settings);
    }
    if !child.wait().map_err(|error| failed(&error))?.success() {
        return Err(CommandFailure::Silent);
    }
    Ok(())
}

/// Prints how many rows a data set has, by category.
pub(super) fn print_rows(output: &Path) -> Outcome {
    let manifest = DatasetManifest::read(output).ok().flatten();
    let manifest = manifest.ok_or_else(|| CommandFailure::Failed(format!("{} holds no data set", output.display())))?;
    let mut text = format!("{} rows\n", manifest.rows());
    for (name, n) in &manifest.statistics.categories {
        let _ = writeln!(text, "  {name:<20} {n:>10}");
    }
    print(text.as_bytes())
}
