//! `polyloom plan`: the ways in which a tensor function can run here, with their times, what is chosen and why.
//!
//! A function is loaded by Python, and paths call Python's libraries, so that the work is done by the module `polyloom._plan_command` in a
//! process of its own, which is given what has been parsed as JSON.

use crate::dataset::python;
use crate::{CommandFailure, Outcome, named};
use serde_json::{Value, json};
use std::process::Command;

#[derive(clap::Subcommand)]
pub(crate) enum PlanCommand {
    /// Print candidates with predicted and measured times, errors, the choice and why
    Explain(PlanArguments),
    /// List the paths that the search finds
    Paths(PlanArguments),
}

#[derive(clap::Args)]
pub(crate) struct PlanArguments {
    /// A .py file and the name of a function in it
    #[arg(value_name = "FILE:FUNCTION")]
    function: String,
    /// The shape of an argument, such as x=1024x1024
    #[arg(long = "shape", value_name = "NAME=4x5", num_args = 1..)]
    shapes: Vec<String>,
    /// The element type of an argument, float32 unless given
    #[arg(long = "dtype", value_name = "NAME=TYPE", num_args = 1..)]
    dtypes: Vec<String>,
    /// The value of an argument that is a number
    #[arg(long = "number", value_name = "NAME=VALUE", num_args = 1..)]
    numbers: Vec<String>,
    /// The policy that chooses
    #[arg(long, default_value = "fastest", value_parser = ["default", "heuristic", "fastest"])]
    policy: String,
    /// Allow paths that differ by rounding, by so much of the scale of a result
    #[arg(long)]
    tolerance: Option<f64>,
    /// A backend that takes part, such as CPU_TORCH; all that are at hand unless given
    #[arg(long = "backend", value_name = "BACKEND")]
    backends: Vec<String>,
    /// Measure the candidates first, and keep what is found in the database
    #[arg(long)]
    measure: bool,
    /// The seconds that measuring a group may take
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    budget: f64,
    /// The most paths that are looked at
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// A file of SQLite, or postgres://USER@HOST/NAME; by default POLYLOOM_DATABASE, or a file in the data directory
    #[arg(long, value_name = "PLACE")]
    database: Option<String>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &PlanCommand) -> Outcome {
    let (arguments, lists) = match command {
        PlanCommand::Explain(arguments) => (arguments, false),
        PlanCommand::Paths(arguments) => (arguments, true),
    };
    if arguments.function.rsplit_once(':').is_none_or(|(path, name)| path.is_empty() || name.is_empty()) {
        let message = format!("`{}` is no FILE:FUNCTION, such as `model.py:forward`", arguments.function);
        return Err(CommandFailure::Usage(message));
    }
    run_python(&json!({
        "command": "plan",
        "lists": lists,
        "function": arguments.function,
        "shapes": named(&arguments.shapes, "--shape")?,
        "dtypes": named(&arguments.dtypes, "--dtype")?,
        "numbers": named(&arguments.numbers, "--number")?,
        "policy": arguments.policy,
        "tolerance": arguments.tolerance,
        "backends": arguments.backends,
        "measure": arguments.measure,
        "budget": arguments.budget,
        "n_paths": arguments.limit.unwrap_or(if lists { 256 } else { 16 }),
        "database": arguments.database,
        "json": arguments.json,
    }))
}

/// Runs the module that does the work, with the same standard streams.
pub(crate) fn run_python(request: &Value) -> Outcome {
    let python = python();
    let status = Command::new(&python).args(["-m", "polyloom._plan_command", &request.to_string()]).status();
    match status {
        Err(error) => Err(CommandFailure::Failed(format!("cannot run {}: {error}", python.display()))),
        Ok(status) if status.success() => Ok(()),
        // The process has said what is wrong, or was interrupted.
        Ok(status) if matches!(status.code(), Some(1)) => Err(CommandFailure::Silent),
        Ok(status) => Err(CommandFailure::Interrupted(format!("{} ended with {status}", python.display()))),
    }
}
