//! `polyloom dataset`: data sets of kernels.

mod interrupt;
mod ray;
mod show;
mod warp;

use crate::{CommandFailure, Outcome, print};
use clap::{Subcommand, ValueEnum};
use polyloom_dataset::{
    Category, DatasetManifest, DedupKey, DeviceColumns, FileFormat, KernelFiles, ProduceError, ProduceSettings,
    ProofLevel, RunOptions, RunProgress, ShardNumber, ValidateError, ValidationFinding, ValidationReport, WarpEmitter,
    all_columns, columns_to_validate_by, fingerprint, merge, produce, structures, validate, wants_warp,
};
use serde::Serialize;
use std::fmt::{Display, Write as _};
use std::io::{IsTerminal, Write as _};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;
use warp::WarpProcess;

/// The exit status of a command that Ctrl-C has ended.
pub(crate) const INTERRUPTED: i32 = interrupt::STATUS;

#[derive(clap::Args)]
pub(crate) struct DatasetArguments {
    #[command(subcommand)]
    command: DatasetCommand,
}

#[derive(Subcommand)]
enum DatasetCommand {
    /// Generate kernels, verify them, and write them with their code
    Produce(Box<ProduceArguments>),
    /// Put the shards of a data set together
    Merge(MergeArguments),
    /// Prove a data set right: every row from its text alone
    Validate(ValidateArguments),
    /// Print the statistics of a data set
    Stats(StatsArguments),
    /// Print a row, its Python beside its code
    Show(ShowArguments),
}

#[derive(clap::Args)]
struct MergeArguments {
    /// The folders of all shards
    #[arg(required = true, value_name = "DIR")]
    shards: Vec<PathBuf>,
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// How many rows to write; by default all
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print the statistics as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct StatsArguments {
    /// The folder of the data set
    #[arg(long, value_name = "DIR")]
    input: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ShowArguments {
    /// The folder of the data set
    #[arg(long, value_name = "DIR")]
    input: PathBuf,
    /// The row's `id`
    #[arg(long, conflicts_with = "row")]
    id: Option<String>,
    /// The row's number, from 0, in the order of the files
    #[arg(long, default_value_t = 0, value_name = "N")]
    row: usize,
    /// The column to show beside the Python
    #[arg(long, default_value = "cuda_forward", value_name = "NAME")]
    column: String,
    /// C++ and CUDA C++ with all that stands before the kernel
    #[arg(long)]
    whole: bool,
    /// The whole row, as JSON
    #[arg(long, conflicts_with_all = ["column", "whole"])]
    json: bool,
}

#[derive(clap::Args)]
struct ValidateArguments {
    /// The folder of the data set
    #[arg(long, value_name = "DIR")]
    input: PathBuf,
    /// How many threads look at rows; by default one for each core
    #[arg(long, value_name = "J", value_parser = from_one::<NonZero<usize>>)]
    jobs: Option<NonZero<usize>>,
    /// Do not have the CUDA C++ of rows of the level `full` compiled by NVRTC, or checked by clang or g++ without it
    #[arg(long)]
    no_nvrtc: bool,
    /// Print what is found as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ProduceArguments {
    /// How many rows to write
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    /// The folder to write to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Categories, by commas or one after the other; by default all, as many rows of each
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "NAMES")]
    categories: Vec<Category>,
    /// Take the kernels of these .py files, and of those in these folders, instead of generating some
    #[arg(long, value_name = "PATH", conflicts_with = "categories")]
    from: Vec<PathBuf>,
    /// What the rows of kernels of files have as their category
    #[arg(long, requires = "from", default_value = "user", value_name = "NAME")]
    category: String,
    /// The licence of the kernels of files, as SPDX names it
    #[arg(long, requires = "from", default_value = "unknown", value_name = "NAME")]
    license: String,
    /// The same seed gives the same rows
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The rows of these indices, such as 0..1000, as many as there are
    #[arg(long, value_name = "A..B", conflicts_with = "count")]
    index_range: Option<IndexRange>,
    /// How many threads make rows; by default one for each core
    #[arg(long, value_name = "J", value_parser = from_one::<NonZero<usize>>)]
    jobs: Option<NonZero<usize>>,
    /// The level of verification that rows must pass: parse, compile, run, grad or full
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    verify: ProofLevel,
    /// Make code and run nothing: short for `--verify compile --no-nvrtc`
    #[arg(long, conflicts_with_all = ["verify", "no_nvrtc"])]
    codegen_only: bool,
    /// Do not have the CUDA C++ of every row compiled, as is done at the level `full` by NVRTC, which takes most of the
    /// time, or where there is none by the syntax check of clang or g++
    #[arg(long)]
    no_nvrtc: bool,
    /// What tells rows from each other
    #[arg(long, value_enum, default_value_t = ProgressTelling::Structure)]
    dedup: ProgressTelling,
    /// The columns to write, by commas; by default all but those of NVIDIA's tools and of Warp
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    columns: Vec<String>,
    /// The format of the files
    #[arg(long, value_enum, default_value_t = FormatChoice::Jsonl)]
    format: FormatChoice,
    /// Compress lines of JSON by zstd
    #[arg(long)]
    zstd: bool,
    /// Which code goes into the rows: of cuda, cpu or both
    #[arg(long, default_value = "both")]
    device: DeviceColumns,
    /// The GPU architecture of PTX and LLVM IR
    #[arg(long, value_name = "sm_NN")]
    arch: Option<polyloom::Arch>,
    /// Indices whose rows are finished together: a run that is interrupted loses no more than these
    #[arg(long, value_name = "N", default_value = "10000", value_parser = from_one::<NonZero<u64>>)]
    indices_per_file: NonZero<u64>,
    /// Make the i-th of N parts of the data set, such as 0/4, which `merge` puts together. Files are dealt out whole: with
    /// fewer of them than parts, some parts are empty
    #[arg(long, value_name = "I/N", conflicts_with = "index_range")]
    shard: Option<ShardOf>,
    /// Leave out kernels that are like those of these files: .py, .jsonl, .jsonl.zst or .parquet
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Go on with what the folder holds
    #[arg(long)]
    resume: bool,
    /// Say in each row how long it took to make, and whether there was a GPU: no two runs are alike then
    #[arg(long)]
    timings: bool,
    /// Where rows are made; on a Ray cluster, --jobs is the cores of a task
    #[arg(long, value_enum, default_value_t = EngineChoice::Local, conflicts_with_all = ["shard", "index_range", "from"])]
    engine: EngineChoice,
    /// Print the statistics as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatChoice {
    Jsonl,
    Parquet,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineChoice {
    /// In this process
    Local,
    /// As tasks of a Ray cluster, by the Python package `polyloom[ray]`
    Ray,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProgressTelling {
    /// Their text
    Exact,
    /// Their code, whatever its names are
    Alpha,
    /// Their code without names and values of constants
    Structure,
}

fn from_one<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "it is a number from 1".to_owned())
}

#[derive(Clone, Copy)]
struct ShardOf(ShardNumber);

impl std::str::FromStr for ShardOf {
    type Err = String;

    fn from_str(text: &str) -> Result<ShardOf, String> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if number < of => Ok(ShardOf(ShardNumber { number, of })),
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

pub(crate) fn run(arguments: &DatasetArguments) -> Outcome {
    match &arguments.command {
        DatasetCommand::Produce(arguments) => run_produce(arguments),
        DatasetCommand::Merge(arguments) => run_merge(arguments),
        DatasetCommand::Validate(arguments) => run_validate(arguments),
        DatasetCommand::Stats(arguments) => run_stats(arguments),
        DatasetCommand::Show(arguments) => run_show(arguments),
    }
}

fn run_merge(arguments: &MergeArguments) -> Outcome {
    let shows = std::io::stderr().is_terminal();
    interrupt::listen();
    let done = merge(&arguments.shards, &arguments.output, arguments.count, &mut |progress| observed(progress, shows));
    let progress = print_made(done, &arguments.output, shows, arguments.json)?;
    match arguments.count {
        Some(count) if progress.rows < count => {
            let rows = progress.rows;
            Err(CommandFailure::Failed(format!(
                "the shards have {rows} rows for {count}: make them with a larger --count"
            )))
        }
        _ => Ok(()),
    }
}

/// Shows how far a run is, on a terminal; Ctrl-C ends it.
fn observed(progress: &RunProgress, shows: bool) -> ControlFlow<()> {
    if shows {
        eprint!("\r{}\x1b[K", bar(progress));
        let _ = std::io::stderr().flush();
    }
    if interrupt::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn failure(error: ProduceError) -> CommandFailure {
    match error {
        ProduceError::Interrupted | ProduceError::MergeInterrupted => CommandFailure::Interrupted(error.to_string()),
        ProduceError::Setting(_) => CommandFailure::Usage(error.to_string()),
        error => CommandFailure::Failed(error.to_string()),
    }
}

fn unread(path: &Path, error: &dyn Display) -> CommandFailure {
    CommandFailure::Failed(format!("cannot read {}: {error}", path.display()))
}

/// The statistics of a data set, as JSON.
fn stats(folder: &Path) -> Result<String, CommandFailure> {
    let path = folder.join("stats.json");
    std::fs::read_to_string(&path).map_err(|error| unread(&path, &error))
}

fn print_stats(folder: &Path) -> Outcome {
    print(stats(folder)?.as_bytes())
}

/// Ends the bar, and prints what there is now, or its statistics as JSON.
fn print_made(
    done: Result<(DatasetManifest, RunProgress), ProduceError>,
    output: &Path,
    shows: bool,
    json: bool,
) -> Result<RunProgress, CommandFailure> {
    if shows {
        eprintln!();
    }
    let (manifest, progress) = done.map_err(failure)?;
    match json {
        true => print_stats(output)?,
        false => print(table(&manifest, &progress).as_bytes())?,
    }
    Ok(progress)
}

fn print_json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    print(format!("{text}\n").as_bytes())
}

fn run_stats(arguments: &StatsArguments) -> Outcome {
    if arguments.json {
        return print_stats(&arguments.input);
    }
    let text = stats(&arguments.input)?;
    let stats: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| unread(&arguments.input.join("stats.json"), &error))?;
    let mut text = String::new();
    describe(&stats, 0, &mut text);
    print(text.as_bytes())
}

/// Most lines of a histogram that are printed.
const MOST_LINES: usize = 20;

/// Numbers by their names, those below another set in, the most frequent first unless the names are numbers themselves.
fn describe(value: &serde_json::Value, depth: usize, text: &mut String) {
    let Some(fields) = value.as_object() else { return };
    let indent = "  ".repeat(depth);
    let mut fields: Vec<_> = fields.iter().collect();
    let is_histogram = depth > 0 && fields.iter().all(|(_, value)| value.is_u64()) && fields.len() > 4;
    let is_of_numbers = fields.iter().all(|(name, _)| name.starts_with(|c: char| c.is_ascii_digit()));
    if is_histogram && !is_of_numbers {
        fields.sort_by_key(|(_, value)| std::cmp::Reverse(value.as_u64()));
    }
    for (name, value) in fields.iter().take(if is_histogram { MOST_LINES } else { usize::MAX }) {
        match value {
            serde_json::Value::Object(_) => {
                let _ = writeln!(text, "{indent}{name}");
                describe(value, depth + 1, text);
            }
            serde_json::Value::Number(number) if number.is_f64() => {
                let number = number.as_f64().unwrap_or_default();
                let _ = writeln!(text, "{indent}{name:<28} {number:>12.2}");
            }
            serde_json::Value::String(value) => {
                let _ = writeln!(text, "{indent}{name:<28} {value:>12}");
            }
            value => {
                let _ = writeln!(text, "{indent}{name:<28} {value:>12}");
            }
        }
    }
    if is_histogram && fields.len() > MOST_LINES {
        let _ = writeln!(text, "{indent}and {} more", fields.len() - MOST_LINES);
    }
}

fn run_show(arguments: &ShowArguments) -> Outcome {
    let failed = |error: std::io::Error| CommandFailure::Failed(format!("{}: {error}", arguments.input.display()));
    let mut rows = polyloom_dataset::rows(&arguments.input).map_err(failed)?;
    let row = match &arguments.id {
        Some(id) => rows.find(|row| row.as_ref().map_or(true, |row| row.id == *id)),
        None => rows.nth(arguments.row),
    };
    let none = || CommandFailure::Failed(format!("{} has no such row", arguments.input.display()));
    let row = row.ok_or_else(none)?.map_err(failed)?;
    if arguments.json {
        return print_json(&row);
    }
    let value = serde_json::to_value(&row).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let column = arguments.column.as_str();
    if !all_columns().any(|name| name == column) {
        let known = all_columns().collect::<Vec<_>>().join(", ");
        return Err(CommandFailure::Usage(format!("there is no column `{column}`; there are {known}")));
    }
    let code = match &value[column] {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => {
            let name = arguments.id.clone().unwrap_or_else(|| arguments.row.to_string());
            return Err(CommandFailure::Failed(format!("row {name} has no `{column}`")));
        }
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let code = if arguments.whole { code } else { show::without_prelude(&code, &row.python_source) };
    let is_terminal = std::io::stdout().is_terminal();
    let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(160);
    let metadata = row.metadata.as_ref();
    let level = metadata.map_or_else(String::new, |metadata| format!(", verified to `{}`", metadata.verified));
    let title = format!("{} · {} · {}{level}\n\n", row.id, row.category, row.kernel_name);
    let text = show::side_by_side(("python_source", &row.python_source), (column, &code), width, is_terminal);
    print((title + &text).as_bytes())
}

fn jobs(jobs: Option<NonZero<usize>>) -> usize {
    jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get)
}

fn run_validate(arguments: &ValidateArguments) -> Outcome {
    let warp = match DatasetManifest::read(&arguments.input) {
        Ok(Some(manifest)) if wants_warp(&manifest.settings.columns) => WarpProcess::start(),
        _ => Err(String::new()),
    };
    let emit = |name: &str, source: &str| match &warp {
        Ok(warp) => warp.emit(name, source),
        Err(_) => Ok(None),
    };
    let emitter = match &warp {
        Ok(warp) => Ok(WarpEmitter { version: warp.version(), emit: &emit }),
        Err(why) => Err(why.clone()),
    };
    let (shows, started) = (std::io::stderr().is_terminal(), Instant::now());
    let mut observe = |rows: u64, all: u64| {
        if shows {
            let speed = rows as f64 / started.elapsed().as_secs_f64().max(1e-3);
            let left = all.saturating_sub(rows) as f64 / speed.max(1e-3);
            eprint!("\r{}, {speed:.0} a second, {left:.0} s left\x1b[K", filled(rows, all));
            let _ = std::io::stderr().flush();
        }
    };
    let done = validate(&arguments.input, jobs(arguments.jobs), !arguments.no_nvrtc, emitter, &mut observe);
    if shows {
        eprint!("\r\x1b[K");
    }
    let quality = done.map_err(|error| match error {
        ValidateError::MissingColumns(_) => CommandFailure::Usage(error.to_string()),
        error => CommandFailure::Failed(error.to_string()),
    })?;
    match arguments.json {
        true => print_json(&quality)?,
        false => print(report(&quality).as_bytes())?,
    }
    match quality.findings.len() as u64 + quality.further_findings {
        0 => Ok(()),
        n => {
            let findings = if n == 1 { "finding" } else { "findings" };
            Err(CommandFailure::Failed(format!("{n} {findings}: this data set is not what it should be")))
        }
    }
}

/// What validation found, to be read.
fn report(quality: &ValidationReport) -> String {
    let mut text = format!("{} rows, {} with a backward kernel\n", quality.rows, quality.with_backward);
    let _ = writeln!(text, "rows");
    for (name, n) in &quality.categories {
        let _ = writeln!(text, "  {name:<20} {n:>10}");
    }
    let _ = writeln!(text, "right again to the level");
    for (level, n) in &quality.levels {
        let _ = writeln!(text, "  {:<20} {n:>10}", level.name());
    }
    if let Some(metrics) = &quality.metrics {
        let _ = writeln!(text, "quality");
        for (name, value) in [
            ("different by text", format!("{:.1} %", 100.0 * metrics.unique_exact)),
            ("names taken out", format!("{:.1} %", 100.0 * metrics.unique_alpha)),
            ("constants, too", format!("{:.1} %", 100.0 * metrics.unique_structure)),
            ("ops", metrics.distinct_ops.to_string()),
            ("pairs of ops", metrics.distinct_op_pairs.to_string()),
            ("depth, mean", format!("{:.1}", metrics.mean_depth)),
            ("difficulty, mean", format!("{:.1}", metrics.mean_difficulty)),
            ("forward lines, mean", format!("{:.0}", metrics.mean_forward_lines)),
            ("backward lines, mean", format!("{:.0}", metrics.mean_backward_lines)),
        ] {
            let _ = writeln!(text, "  {name:<20} {value:>10}");
        }
    }
    for (compiler, n) in &quality.cuda_compilers {
        let _ = writeln!(text, "CUDA C++ of {n} rows went through {compiler} when they were made");
    }
    if let Some(version) = &quality.nvrtc {
        let _ = writeln!(text, "NVRTC {version} has compiled all CUDA C++");
    }
    if let Some(why) = &quality.warp_unchecked {
        let _ = writeln!(text, "Warp's columns were not checked: {why}");
    }
    for ValidationFinding { file, line, id, what } in &quality.findings {
        let line = if *line > 0 { format!(":{line}") } else { String::new() };
        let id = if id.is_empty() { String::new() } else { format!(" {id}") };
        let _ = writeln!(text, "{file}{line}:{id} {what}");
    }
    if quality.further_findings > 0 {
        let _ = writeln!(text, "and {} more", quality.further_findings);
    }
    text
}

fn run_produce(arguments: &ProduceArguments) -> Outcome {
    if arguments.count.is_none() && arguments.index_range.is_none() && arguments.from.is_empty() {
        return Err(CommandFailure::Usage("say how many rows: --count N, or --index-range A..B".to_owned()));
    }
    if let Some(column) = arguments.columns.iter().find(|column| !all_columns().any(|name| name == column.as_str())) {
        let known = all_columns().collect::<Vec<_>>().join(", ");
        return Err(CommandFailure::Usage(format!("there is no column `{column}`; there are {known}")));
    }
    let mut settings = ProduceSettings::new(0, arguments.seed);
    settings.count = arguments.count;
    settings.indices_per_chunk = arguments.indices_per_file.get();
    if let Some(range) = arguments.index_range {
        (settings.first, settings.end) = (range.first, Some(range.end));
    }
    if let Some(ShardOf(shard)) = arguments.shard {
        settings.take_part(shard);
    }
    let source = if arguments.from.is_empty() { None } else { Some(source(arguments, &mut settings)?) };
    if !arguments.categories.is_empty() {
        settings.categories = arguments.categories.iter().map(|category| category.name().to_owned()).collect();
    }
    if !arguments.columns.is_empty() {
        let asked = |name: &&str| arguments.columns.iter().any(|column| column == name);
        settings.columns = all_columns().filter(asked).map(str::to_owned).collect();
    }
    settings.verify = if arguments.codegen_only { ProofLevel::Compile } else { arguments.verify };
    settings.nvrtc = !(arguments.no_nvrtc || arguments.codegen_only);
    settings.dedup = match arguments.dedup {
        ProgressTelling::Exact => DedupKey::Exact,
        ProgressTelling::Alpha => DedupKey::Alpha,
        ProgressTelling::Structure => DedupKey::Structure,
    };

    settings.format = match (arguments.format, arguments.zstd) {
        (FormatChoice::Jsonl, false) => FileFormat::Jsonl,
        (FormatChoice::Jsonl, true) => FileFormat::JsonlZstd,
        (FormatChoice::Parquet, false) => FileFormat::Parquet,
        (FormatChoice::Parquet, true) => {
            return Err(CommandFailure::Usage("--zstd is of lines of JSON; Parquet is compressed anyway".to_owned()));
        }
    };
    settings.device = arguments.device.name().to_owned();
    if let Some(arch) = arguments.arch {
        settings.arch = arch.to_string();
    }
    settings.timings = arguments.timings;
    if arguments.engine == EngineChoice::Ray {
        let jobs = arguments.jobs.map_or(1, NonZero::get);
        ray::run(&settings, &arguments.output, jobs, arguments.resume, &arguments.exclude)?;
        return match arguments.json {
            true => print_stats(&arguments.output),
            false => ray::print_rows(&arguments.output),
        };
    }
    let jobs = jobs(arguments.jobs);
    let shows = std::io::stderr().is_terminal();
    interrupt::listen();
    let excluded = structures(&arguments.exclude).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    settings.excluded = fingerprint(&excluded);
    let how = RunOptions {
        jobs,
        resume: arguments.resume,
        excluded: &excluded,
        source: source.as_ref(),
        emitter: None,
        observe: &mut |progress| observed(progress, shows),
    };
    let done = produce(&settings, &arguments.output, how);
    print_made(done, &arguments.output, shows, arguments.json)?;
    let missing = columns_to_validate_by(&settings.columns);
    if !missing.is_empty() {
        eprintln!("polyloom: `dataset validate` cannot take this data set: it lacks {}", missing.join(", "));
    }
    Ok(())
}

/// The kernels of files, and what that means for the settings.
fn source(arguments: &ProduceArguments, settings: &mut ProduceSettings) -> Result<KernelFiles, CommandFailure> {
    let source = KernelFiles::read(&arguments.from).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    if source.is_empty() {
        let paths: Vec<String> = arguments.from.iter().map(|path| path.display().to_string()).collect();
        let message = format!("no kernel is in {}: functions with `@loom.kernel` or `@wp.kernel`", paths.join(", "));
        return Err(CommandFailure::Failed(message));
    }
    settings.take_from(&source, &arguments.category, &arguments.license);
    Ok(source)
}

/// `[#####     ] 512 of 1000 rows`.
fn filled(rows: u64, all: u64) -> String {
    let filled = (30 * rows / all.max(1)).min(30) as usize;
    format!("[{:<30}] {rows} of {all} rows", "#".repeat(filled))
}

/// `[#####     ] 512 of 1000 rows, 34 a second, 20 rejected, 14 s left`.
fn bar(progress: &RunProgress) -> String {
    let speed = progress.made as f64 / progress.time.as_secs_f64().max(1e-3);
    let mut text = String::new();
    if let Some(wanted) = progress.wanted {
        text.push_str(&filled(progress.rows, wanted));
    } else {
        let _ = write!(text, "{} rows", progress.rows);
    }
    let _ = write!(text, ", {speed:.0} a second, {} rejected", progress.rejects);
    if progress.duplicates > 0 {
        let _ = write!(text, ", {} known", progress.duplicates);
    }
    if progress.is_with_nvrtc {
        text.push_str(", NVRTC compiles too (--no-nvrtc leaves it out)");
    }
    if let Some(wanted) = progress.wanted {
        let left = wanted.saturating_sub(progress.rows) as f64 / speed.max(1e-3);
        let _ = write!(text, ", {left:.0} s left");
    }
    text
}

/// What there is, by category and by reason.
fn table(manifest: &DatasetManifest, progress: &RunProgress) -> String {
    let seconds = progress.time.as_secs_f64();
    let speed = progress.made as f64 / seconds.max(1e-3);
    let mut text = format!("{} rows; {} made in {seconds:.1} s, {speed:.0} a second\n", manifest.rows(), progress.made);
    for (title, sums) in [("rows", &manifest.statistics.categories), ("not taken", &manifest.rejects())] {
        if sums.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{title}");
        for (name, n) in sums {
            let _ = writeln!(text, "  {name:<20} {n:>10}");
        }
    }
    text
}

/// The interpreter that runs this, if one does (`POLYLOOM_PYTHON`, which the package sets), or that of the active
/// environment.
pub(crate) fn python() -> PathBuf {
    let given = std::env::var_os("POLYLOOM_PYTHON").map(PathBuf::from);
    let of_environment = || Some(PathBuf::from(std::env::var_os("VIRTUAL_ENV")?).join("bin").join("python"));
    given.or_else(of_environment).unwrap_or_else(|| PathBuf::from("python3"))
}
