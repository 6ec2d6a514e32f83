//! `polyloom gpu run`: a program of somebody else's with a driver over the simulator in the place of NVIDIA's.

use crate::dataset::python;
use crate::{CommandFailure, Outcome};
use polyloom::Arch;
use polyloom::ptx::Sanitizers;
use std::process::Command;

#[derive(clap::Subcommand)]
pub(crate) enum GpuCommand {
    /// Run a program whose GPU kernels the simulator executes, and say what they did
    Run(GpuRunArguments),
}

#[derive(clap::Args)]
pub(crate) struct GpuRunArguments {
    /// The architecture that is simulated. For later ones compilers emit instructions that the simulator lacks
    #[arg(long, default_value = "sm_86")]
    arch: Arch,
    /// The checks, by their names with commas between: races, uninitialised, barriers and async beside bounds and
    /// alignment, which are on; or all
    #[arg(long, value_name = "CHECKS", value_parser = checks)]
    sanitize: Option<String>,
    /// The most instructions that the threads of one launch may execute, such as 1e9
    #[arg(long, value_name = "N")]
    limit: Option<String>,
    /// Print only what is wrong
    #[arg(long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    program: Vec<String>,
}

/// The names of checks, which have to be known.
fn checks(names: &str) -> Result<String, String> {
    names.parse::<Sanitizers>().map(|_| names.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn run(command: &GpuCommand) -> Outcome {
    let GpuCommand::Run(arguments) = command;
    let GpuRunArguments { arch, sanitize, limit, quiet, program } = arguments;
    let python = python();
    let mut run = Command::new(&python);
    run.args(["-m", "polyloom.gpu", "run", "--arch", &arch.to_string()]);
    for (name, value) in [("--sanitize", sanitize), ("--limit", limit)] {
        run.args(value.iter().flat_map(|value| [name, value.as_str()]));
    }
    if *quiet {
        run.arg("--quiet");
    }
    let status = run.arg("--").args(program).status();
    let failed = |error| CommandFailure::Failed(format!("cannot run {}: {error}", python.display()));
    match status.map_err(failed)?.code() {
        Some(0) => Ok(()),
        Some(code) => Err(CommandFailure::Status(code)),
        None => Err(CommandFailure::Silent),
    }
}
