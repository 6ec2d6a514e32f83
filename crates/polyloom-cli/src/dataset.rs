//! `polyloom dataset`: data sets of kernels.

use crate::{Failure, Outcome, print};
use clap::{Subcommand, ValueEnum};
use polyloom_dataset::{
    COLUMNS, Category, Dedup, Finding, How, Level, Manifest, Progress, Settings, Shard, fingerprint, merge, produce,
    structures, validate,
};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generate kernels, verify them, and write them with their code
    Produce(Produce),
    /// Put the shards of a data set together
    Merge(Merge),
    /// Prove a data set right: every row from its text alone
    Validate(Validate),
}

#[derive(clap::Args)]
struct Merge {
    /// The folders of all shards
    #[arg(required = true, value_name = "DIR")]
    shards: Vec<PathBuf>,
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// How many rows to write; by default all
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

#[derive(clap::Args)]
struct Validate {
    /// The folder of the data set
    #[arg(long, value_name = "DIR")]
    input: PathBuf,
    /// How many threads look at rows; by default one for each core
    #[arg(long, value_name = "J")]
    jobs: Option<NonZero<usize>>,
}

#[derive(clap::Args)]
struct Produce {
    /// How many rows to write
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Categories, by commas; by default all, as many rows of each
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    categories: Vec<Category>,
    /// The same seed gives the same rows
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The rows of these indices, such as 0..1000, as many as there are
    #[arg(long, value_name = "A..B", conflicts_with = "count")]
    index_range: Option<IndexRange>,
    /// How many threads make rows; by default one for each core
    #[arg(long, value_name = "J")]
    jobs: Option<NonZero<usize>>,
    /// The level of verification that rows must pass: parse, compile, run, grad or full
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    verify: Level,
    /// What tells rows from each other
    #[arg(long, value_enum, default_value_t = Telling::Structure)]
    dedup: Telling,
    /// The columns to write, by commas; by default all
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    columns: Vec<String>,
    /// Which code goes into the rows: of cuda, cpu or both
    #[arg(long, default_value = "both")]
    device: String,
    /// The GPU architecture of PTX and LLVM IR
    #[arg(long, value_name = "sm_NN")]
    arch: Option<polyloom::Arch>,
    /// Indices whose rows are finished together: a run that is interrupted loses no more than these
    #[arg(long, value_name = "N", default_value = "10000")]
    indices_per_file: NonZero<u64>,
    /// Make the i-th of N parts of the data set, such as 0/4, which `merge` puts together
    #[arg(long, value_name = "I/N", conflicts_with = "index_range")]
    shard: Option<ShardOf>,
    /// Leave out kernels that are like those of these files, .py or .jsonl
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Go on with what the folder holds
    #[arg(long)]
    resume: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Telling {
    /// Their text
    Exact,
    /// Their code, whatever its names are
    Alpha,
    /// Their code without names and values of constants
    Structure,
}

#[derive(Clone, Copy)]
struct ShardOf(Shard);

impl std::str::FromStr for ShardOf {
    type Err = String;

    fn from_str(text: &str) -> Result<ShardOf, String> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if number < of => Ok(ShardOf(Shard { number, of })),
            _ => Err(format!("`{text}` is no shard such as 0/4, the first of four")),
        }
    }
}

#[derive(Clone, Copy)]
struct IndexRange {
    first: u64,
    end: u64,
}

impl std::str::FromStr for IndexRange {
    type Err = String;

    fn from_str(text: &str) -> Result<IndexRange, String> {
        let range = text.split_once("..").and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
        match range {
            Some((first, end)) if first < end => Ok(IndexRange { first, end }),
            _ => Err(format!("`{text}` is no range of indices such as 0..1000")),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Produce(arguments) => run_produce(arguments),
        Command::Merge(arguments) => run_merge(arguments),
        Command::Validate(arguments) => run_validate(arguments),
    }
}

fn run_merge(arguments: &Merge) -> Outcome {
    let done = merge(&arguments.shards, &arguments.output, arguments.count);
    let (manifest, progress) = done.map_err(|error| Failure::Failed(error.to_string()))?;
    print(table(&manifest, &progress).as_bytes())?;
    match arguments.count {
        Some(count) if progress.rows < count => {
            let rows = progress.rows;
            Err(Failure::Failed(format!("the shards have {rows} rows for {count}: make them with a larger --count")))
        }
        _ => Ok(()),
    }
}

fn jobs(jobs: Option<NonZero<usize>>) -> usize {
    jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get)
}

fn run_validate(arguments: &Validate) -> Outcome {
    let quality =
        validate(&arguments.input, jobs(arguments.jobs)).map_err(|error| Failure::Failed(error.to_string()))?;
    let mut text = format!("{} rows, {} with a backward kernel\n", quality.rows, quality.with_backward);
    let _ = writeln!(text, "rows");
    for (name, n) in &quality.categories {
        let _ = writeln!(text, "  {name:<20} {n:>10}");
    }
    let _ = writeln!(text, "right again to the level");
    for (level, n) in &quality.levels {
        let _ = writeln!(text, "  {:<20} {n:>10}", level.name());
    }
    for Finding { file, line, id, what } in &quality.findings {
        let row = if *line > 0 { format!(":{line}: {id}") } else { ":".to_owned() };
        let _ = writeln!(text, "{file}{row} {what}");
    }
    print(text.as_bytes())?;
    match quality.findings.len() {
        0 => Ok(()),
        n => Err(Failure::Failed(format!("{n} findings: this data set is not what it should be"))),
    }
}

fn run_produce(arguments: &Produce) -> Outcome {
    if arguments.count.is_none() && arguments.index_range.is_none() {
        return Err(Failure::Usage("say how many rows: --count N, or --index-range A..B".to_owned()));
    }
    if let Some(column) = arguments.columns.iter().find(|column| !COLUMNS.contains(&column.as_str())) {
        let known = COLUMNS.join(", ");
        return Err(Failure::Usage(format!("there is no column `{column}`; there are {known}")));
    }
    let mut settings = Settings::new(0, arguments.seed);
    settings.count = arguments.count;
    settings.indices_per_chunk = arguments.indices_per_file.get();
    if let Some(range) = arguments.index_range {
        (settings.first, settings.end) = (range.first, Some(range.end));
    }
    if let (Some(ShardOf(shard)), Some(count)) = (arguments.shard, arguments.count) {
        // So many indices give as many rows, with room for those that are known already.
        (settings.shard, settings.count) = (Some(shard), None);
        settings.end = Some((count + count / 4).next_multiple_of(settings.indices_per_chunk));
    }
    if !arguments.categories.is_empty() {
        settings.categories = arguments.categories.iter().map(|category| category.name().to_owned()).collect();
    }
    if !arguments.columns.is_empty() {
        settings.columns.retain(|column| arguments.columns.contains(column));
    }
    settings.verify = arguments.verify;
    settings.dedup = match arguments.dedup {
        Telling::Exact => Dedup::Exact,
        Telling::Alpha => Dedup::Alpha,
        Telling::Structure => Dedup::Structure,
    };

    settings.device.clone_from(&arguments.device);
    if let Some(arch) = arguments.arch {
        settings.arch = arch.to_string();
    }
    let jobs = jobs(arguments.jobs);
    let shows = std::io::stderr().is_terminal();
    let mut observe = |progress: &Progress| {
        if shows {
            eprint!("\r{}\x1b[K", bar(progress));
            let _ = std::io::stderr().flush();
        }
        ControlFlow::Continue(())
    };
    let excluded = structures(&arguments.exclude).map_err(|error| Failure::Failed(error.to_string()))?;
    settings.excluded = fingerprint(&excluded);
    let how = How { jobs, resume: arguments.resume, excluded: &excluded, observe: &mut observe };
    let done = produce(&settings, &arguments.output, how);
    if shows {
        eprintln!();
    }
    let (manifest, progress) = done.map_err(|error| Failure::Failed(error.to_string()))?;
    print(table(&manifest, &progress).as_bytes())
}

/// `[#####     ] 512 of 1000 rows, 34 a second, 20 rejected, 14 s left`.
fn bar(progress: &Progress) -> String {
    let speed = progress.made as f64 / progress.time.as_secs_f64().max(1e-3);
    let mut text = String::new();
    if let Some(wanted) = progress.wanted {
        let filled = (30 * progress.rows / wanted.max(1)).min(30) as usize;
        let _ = write!(text, "[{:<30}] {} of {wanted} rows", "#".repeat(filled), progress.rows);
    } else {
        let _ = write!(text, "{} rows", progress.rows);
    }
    let _ = write!(text, ", {speed:.0} a second, {} rejected, {} known", progress.rejects, progress.duplicates);
    if let Some(wanted) = progress.wanted {
        let left = wanted.saturating_sub(progress.rows) as f64 / speed.max(1e-3);
        let _ = write!(text, ", {left:.0} s left");
    }
    text
}

/// What there is, by category and by reason.
fn table(manifest: &Manifest, progress: &Progress) -> String {
    let seconds = progress.time.as_secs_f64();
    let speed = progress.made as f64 / seconds.max(1e-3);
    let mut text = format!("{} rows; {} made in {seconds:.1} s, {speed:.0} a second\n", manifest.rows(), progress.made);
    for (title, sums) in [("rows", manifest.statistics().categories), ("not taken", manifest.rejects())] {
        let _ = writeln!(text, "{title}");
        for (name, n) in sums {
            let _ = writeln!(text, "  {name:<20} {n:>10}");
        }
    }
    text
}
