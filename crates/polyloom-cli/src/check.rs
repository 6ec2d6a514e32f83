//! `polyloom check`: diagnostics only, of every kernel and function of a file, whether or not anything uses it.

use crate::{Failure, Outcome, print_json, read_unit, report, session};
use polyloom::diagnostic::{Report, render};
use polyloom::frontend::FileEnvironment;
use polyloom::{CompileError, Defaults, Severity, check_file};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A .py file
    file: PathBuf,
    /// Warn of code that means something else in Python
    #[arg(long)]
    lint: bool,
    /// Print the diagnostics as a JSON list
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let session = session(false)?;
    let mut found: Vec<CompileError> = Vec::new();
    let mut n_kernels = 0;
    match read_unit(&arguments.file) {
        Err(Failure::Rejected(error)) => found.push(*error),
        Err(other) => return Err(other),
        Ok(unit) => {
            n_kernels = unit.kernels().count();
            let defaults = session.defaults();
            match check_file(&unit, &Defaults { lint: arguments.lint, ..defaults }) {
                Err(error) => found.push(error),
                Ok((diagnostics, sources)) => {
                    found.push(CompileError { diagnostics, sources });
                    // What only the passes can tell.
                    let environment = FileEnvironment::new(&unit);
                    let kernels = unit.kernels().map(|kernel| environment.function(kernel));
                    let complete = kernels.filter(|kernel| !kernel.is_generic_kernel());
                    let prepared = |kernel| session.compile(&kernel, defaults)?.prepare();
                    found.extend(complete.filter_map(|kernel| prepared(kernel).err()));
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
        if !failed && n_kernels == 0 {
            eprintln!("{}: no kernels: decorate a function with `@loom.kernel`", arguments.file.display());
        } else if !failed && std::io::stdout().is_terminal() {
            println!(
                "{}: {n_kernels} kernel{}, no errors",
                arguments.file.display(),
                if n_kernels == 1 { "" } else { "s" }
            );
        }
    }
    if failed { Err(Failure::Silent) } else { Ok(()) }
}
