//! The `polyloom` command as a library, so that the Python package offers it without carrying a second binary.
//!
//! Exit status: 0 for success, 1 when a program is rejected or fails, 2 for wrong usage. Diagnostics go to standard
//! error, results to standard output.

mod build;
mod check;
mod compile;
mod database;
mod dataset;
mod doctor;
mod explain;
mod format;
mod fuse;
mod fused_build;
mod gpu;
mod kernel_file;
mod latency;
mod loom;
mod plan;
mod profile;
mod run;
mod run_ptx;
mod serve;
mod simulate;
mod types;
mod value;

pub use fuse::{TensorOpCatalogue, explanation};

use clap::{Parser, Subcommand};
use polyloom::{CodeCache, CompileError, Session};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Write as _};

#[derive(Parser)]
#[command(
    name = "polyloom",
    version,
    about = "A kernel compiler: numerical Python to fast code for CPUs and GPUs, with gradients"
)]
struct CommandLine {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Report what is wrong with the kernels of a file
    Check(check::CheckArguments),
    /// Lay .loom files out in one way
    Fmt(format::FormatArguments),
    /// Compile a kernel and write one of its forms
    Compile(compile::CompileArguments),
    /// Build kernels and functions into a library for C, C++, Rust and Python, with no compiler at run time
    Build(Box<build::BuildArguments>),
    /// Say how kernels run on this machine's CPU, and why
    Explain(explain::ExplainArguments),
    /// Measure how long single calls of a kernel take
    Latency(latency::LatencyArguments),
    /// Say what becomes of tensor functions
    #[command(subcommand)]
    Fuse(fuse::FuseCommand),
    /// Say in which ways a tensor function can run here, and which one is chosen
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Measure the ways in which tensor functions can run, or the rates of this machine
    Profile(profile::ProfileArguments),
    /// Run a kernel on arguments given on the command line
    Run(run::RunArguments),
    /// Make, migrate, check, merge and show the benchmark database
    #[command(subcommand)]
    Db(database::DatabaseCommand),
    /// Make data sets of kernels with their code
    Dataset(dataset::DatasetArguments),
    /// Run GPU programs of any kind without a GPU
    #[command(subcommand)]
    Gpu(gpu::GpuCommand),
    /// Say what this build and this machine have
    Doctor(doctor::DoctorArguments),
}

/// Why a command did not succeed.
enum CommandFailure {
    /// The program is rejected.
    Rejected(Box<CompileError>),
    /// Something else failed; the message says what.
    Failed(String),
    /// The command line asks for something that makes no sense; the message says what.
    Usage(String),
    /// Ctrl-C has ended it; the message says what is left.
    Interrupted(String),
    /// Everything has been said already.
    Silent,
    /// A program that was run has ended with this status, and has said why.
    Status(i32),
}

impl From<CompileError> for CommandFailure {
    fn from(error: CompileError) -> CommandFailure {
        CommandFailure::Rejected(Box::new(error))
    }
}

type Outcome = Result<(), CommandFailure>;

/// Runs the command with these arguments, the program's name not among them, and gives its exit status.
pub fn run(arguments: Vec<OsString>) -> i32 {
    let parsed = match CommandLine::try_parse_from(std::iter::once("polyloom".into()).chain(arguments)) {
        Ok(parsed) => parsed,
        Err(error) => {
            // The parser chooses where it prints and the exit status, because help and version are no failures, and
            // go to standard output.
            let _ = error.print();
            return error.exit_code();
        }
    };
    let outcome = match parsed.command {
        CliCommand::Check(arguments) => check::run(&arguments),
        CliCommand::Fmt(arguments) => format::run(&arguments),
        CliCommand::Compile(arguments) => compile::run(&arguments),
        CliCommand::Build(arguments) => build::run(&arguments),
        CliCommand::Explain(arguments) => explain::run(&arguments),
        CliCommand::Latency(arguments) => latency::run(&arguments),
        CliCommand::Fuse(command) => fuse::run(&command),
        CliCommand::Plan(command) => plan::run(&command),
        CliCommand::Profile(arguments) => profile::run(&arguments),
        CliCommand::Run(arguments) => run::run(&arguments),
        CliCommand::Db(command) => database::run(&command),
        CliCommand::Dataset(arguments) => dataset::run(&arguments),
        CliCommand::Gpu(command) => gpu::run(&command),
        CliCommand::Doctor(arguments) => doctor::run(&arguments),
    };
    match outcome {
        Ok(()) => 0,
        Err(CommandFailure::Silent) => 1,
        Err(CommandFailure::Status(status)) => status,
        Err(CommandFailure::Rejected(error)) => {
            report(&error);
            1
        }
        Err(CommandFailure::Failed(message)) => {
            eprintln!("polyloom: {message}");
            1
        }
        Err(CommandFailure::Usage(message)) => {
            eprintln!("polyloom: {message}");
            2
        }
        Err(CommandFailure::Interrupted(message)) => {
            eprintln!("polyloom: {message}");
            dataset::INTERRUPTED
        }
    }
}

/// Prints diagnostics to standard error.
fn report(error: &CompileError) {
    let text = error.render(std::io::stderr().is_terminal());
    eprint!("{text}");
}

/// Writes a result to standard output. A reader that went away is no failure.
fn print(bytes: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CommandFailure::Failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn print_json(value: &impl serde::Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    print(format!("{text}\n").as_bytes())
}

fn session(no_cache: bool) -> Result<Session, CommandFailure> {
    let device = Session::default_device().map(|device| match no_cache {
        true => device.with_cache(CodeCache::in_memory()),
        false => device,
    });
    device.and_then(Session::on).map_err(|error| CommandFailure::Failed(error.to_string()))
}

/// `NAME=VALUE` options by name.
fn named<'a>(options: &'a [String], flag: &str) -> Result<BTreeMap<&'a str, &'a str>, CommandFailure> {
    let mut found = BTreeMap::new();
    for option in options {
        let Some((name, value)) = option.split_once('=') else {
            return Err(CommandFailure::Usage(format!("{flag} takes NAME=VALUE, not `{option}`")));
        };
        if found.insert(name, value).is_some() {
            return Err(CommandFailure::Usage(format!("{flag} {name} is given twice")));
        }
    }
    Ok(found)
}
