//! `polyloom check`: diagnostics only, of every kernel and function of a file, whether or not anything uses it.

use crate::kernel_file::KernelFile;
use crate::{CommandFailure, Outcome, print_json, report, session};
use polyloom::Severity;
use polyloom::diagnostic::{DiagnosticReport, render};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct CheckArguments {
    /// A .py file, a .loom file, or a .hir file
    file: PathBuf,
    /// Warn of code that means something else in Python
    #[arg(long)]
    lint: bool,
    /// Print the diagnostics as a JSON list
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CheckArguments) -> Outcome {
    let session = session(false)?;
    let (mut found, n_kernels, advice) = match KernelFile::read(&arguments.file) {
        Err(CommandFailure::Rejected(error)) => (vec![*error], 0, ""),
        Err(other) => return Err(other),
        Ok(file) => (file.check(&session, arguments.lint), file.kernel_names().len(), file.advice()),
    };
    // A text that has been seen is left out, so that a function that several kernels call is reported once.
    let mut seen = HashSet::new();
    for error in &mut found {
        let sources = &error.sources;
        error.diagnostics.retain(|d| seen.insert(render(d, sources, false)));
    }
    let failed = found.iter().flat_map(|e| &e.diagnostics).any(|d| d.severity == Severity::Error);
    if arguments.json {
        let reports: Vec<DiagnosticReport> =
            found.iter().flat_map(|e| e.diagnostics.iter().map(|d| DiagnosticReport::of(d, &e.sources))).collect();
        print_json(&reports)?;
    } else {
        found.iter().filter(|e| !e.diagnostics.is_empty()).for_each(report);
        if !failed && n_kernels == 0 {
            eprintln!("{}: no kernels: {advice}", arguments.file.display());
        } else if !failed && std::io::stdout().is_terminal() {
            println!(
                "{}: {n_kernels} kernel{}, no errors",
                arguments.file.display(),
                if n_kernels == 1 { "" } else { "s" }
            );
        }
    }
    if failed { Err(CommandFailure::Silent) } else { Ok(()) }
}
