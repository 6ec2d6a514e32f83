//! `polyloom check`: diagnostics only.

use crate::{Failure, Outcome, kernel_names, print_json, read_unit, report, session};
use polyloom::diagnostic::{Report, render};
use polyloom::{CompileError, Severity};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A .py file
    file: PathBuf,
    /// Print the diagnostics as a JSON list
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let session = session()?;
    let mut found: Vec<CompileError> = Vec::new();
    let mut n_kernels = 0;
    match read_unit(&arguments.file) {
        Err(Failure::Rejected(error)) => found.push(*error),
        Err(other) => return Err(other),
        Ok(unit) => {
            for name in kernel_names(&unit) {
                n_kernels += 1;
                match session.compile_file_kernel(&unit, &name) {
                    Ok(kernel) => found.push(CompileError {
                        diagnostics: kernel.warnings().to_vec(),
                        sources: kernel.sources().clone(),
                    }),
                    Err(error) => found.push(error),
                }
            }
        }
    }
    // A function that several kernels call is reported once.
    let mut seen = HashSet::new();
    for error in &mut found {
        let sources = &error.sources;
        error.diagnostics.retain(|d| seen.insert(render(d, sources, false)));
    }
    let failed = found.iter().flat_map(|e| &e.diagnostics).any(|d| d.severity == Severity::Error);
    if arguments.json {
        let reports: Vec<Report> =
            found.iter().flat_map(|e| e.diagnostics.iter().map(|d| Report::of(d, &e.sources))).collect();
        print_json(&reports)?;
    } else {
        found.iter().filter(|e| !e.diagnostics.is_empty()).for_each(report);
        if !failed && std::io::stdout().is_terminal() {
            println!(
                "{}: {n_kernels} kernel{} checked",
                arguments.file.display(),
                if n_kernels == 1 { "" } else { "s" }
            );
        }
    }
    if failed { Err(Failure::Silent) } else { Ok(()) }
}
