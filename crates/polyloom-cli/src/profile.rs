//! `polyloom profile`: measures what the benchmark database knows and has not measured, or the rates of this machine.

use crate::plan::run_python;
use crate::{CommandFailure, Outcome};
use serde_json::json;

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["offline", "calibrate"])))]
pub(crate) struct ProfileArguments {
    /// Work through the graphs and workloads of the database that are not measured in this environment. Several workers share the work, and
    /// one that was killed loses one computation, which another one has a minute later
    #[arg(long)]
    offline: bool,
    /// Measure the rates that the cost model predicts with: launches, memory, arithmetic, products, copies
    #[arg(long)]
    calibrate: bool,
    /// The time after which no computation begins, such as 90s, 30m or 8h
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// The beginnings of hashes of the graphs to take
    #[arg(long, value_name = "HASH", num_args = 1..)]
    graphs: Vec<String>,
    /// The seconds for one computation
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    per_graph: f64,
    /// Measure paths that differ by rounding too
    #[arg(long)]
    rounding: bool,
    /// A file of SQLite, or postgres://USER@HOST/NAME; by default POLYLOOM_DATABASE, or a file in the data directory
    #[arg(long, value_name = "PLACE")]
    database: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ProfileArguments) -> Outcome {
    let budget = arguments.budget.as_deref().map(parse_time).transpose()?;
    run_python(&json!({
        "command": "profile",
        "calibrate": arguments.calibrate,
        "budget": budget,
        "graphs": arguments.graphs,
        "per_graph": arguments.per_graph,
        "allows_rounding": arguments.rounding,
        "database": arguments.database,
        "json": arguments.json,
    }))
}

/// Returns the seconds of a time such as `8h`; a number alone is seconds.
fn parse_time(text: &str) -> Result<f64, CommandFailure> {
    let wrong = || CommandFailure::Usage(format!("--budget takes a time such as 90s, 30m or 8h, not `{text}`"));
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let scale = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = digits.parse::<f64>().map_err(|_| wrong())? * scale;
    if seconds.is_finite() && seconds > 0.0 { Ok(seconds) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::parse_time;

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| parse_time(text).ok();
        assert_eq!(
            [seconds("8h"), seconds("1.5m"), seconds("90"), seconds("10s")],
            [Some(28800.0), Some(90.0), Some(90.0), Some(10.0)]
        );
        assert_eq!([seconds("h"), seconds("8d"), seconds("-1s"), seconds("")], [None; 4]);
    }
}
