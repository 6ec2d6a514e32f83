//! `polyloom db`: the benchmark database is made, migrated, checked, carried elsewhere, and shown (`serve`).

use crate::serve::{self, ServeArguments};
use crate::{CommandFailure, Outcome, print, print_json};
use clap::{Subcommand, ValueEnum};
use polyloom_store::{
    CheckReport, DatabaseLocation, PutCounts, SchemaState, Store, StoreError, TunerFormat, create, export_for_tuners,
    export_jsonl, import_jsonl, migrate, open, open_read_only,
};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Progress is shown of work that takes longer, and so often.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

#[derive(Subcommand)]
pub(crate) enum DatabaseCommand {
    /// Make the benchmark database, if it is not there
    Init(DatabaseArguments),
    /// Bring a database of an older version to this one's schema
    Migrate(DatabaseArguments),
    /// Write what the database holds, for another database or another tool
    Export(ExportArguments),
    /// Read what another database has exported; what is there already stays as it is
    Import(ImportArguments),
    /// Compare everything with its hashes, checksums and summaries
    Check(DatabaseArguments),
    /// Show the database in a browser of this machine: graphs, paths, times, choices and why. Nothing is written
    Serve(ServeArguments),
}

#[derive(clap::Args)]
pub(crate) struct DatabaseArguments {
    #[command(flatten)]
    place: DatabasePlace,
    /// Print what is found or done as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct DatabasePlace {
    /// A file of SQLite, or postgres://USER@HOST/NAME; by default POLYLOOM_DATABASE, or a file in the data directory
    #[arg(long, value_name = "PLACE")]
    database: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    place: DatabasePlace,
    /// jsonl is what `import` reads; the others are for tools that show or search tuning results
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    format: ExportFormat,
    /// The file to write; of the formats for tools the folder, which they need
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Print what is written as JSON
    #[arg(long, requires = "output")]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct ImportArguments {
    #[command(flatten)]
    place: DatabasePlace,
    /// Files of lines of JSON; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print what is new as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// Lines of JSON, all records
    Jsonl,
    /// Kernel Tuner's cache files, 1.1.0: one for each graph, workload, environment and policy
    KernelTuner,
    /// Results in the format T4, 1.0.0, in the same files
    T4,
}

impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> CommandFailure {
        CommandFailure::Failed(error.to_string())
    }
}

impl DatabasePlace {
    pub(crate) fn location(&self) -> Result<DatabaseLocation, CommandFailure> {
        let given = self.database.as_deref().map(DatabaseLocation::parse);
        given.or_else(DatabaseLocation::from_env).ok_or_else(|| {
            CommandFailure::Failed(
                "there is no home directory to keep the database in: --database or POLYLOOM_DATABASE names a place"
                    .to_owned(),
            )
        })
    }
}

pub(crate) fn run(command: &DatabaseCommand) -> Outcome {
    match command {
        DatabaseCommand::Init(arguments) => init(arguments),
        DatabaseCommand::Migrate(arguments) => run_migrations(arguments),
        DatabaseCommand::Export(arguments) => export(arguments),
        DatabaseCommand::Import(arguments) => import(arguments),
        DatabaseCommand::Check(arguments) => check(arguments),
        DatabaseCommand::Serve(arguments) => serve::run(arguments),
    }
}

/// Says in one line what database there is, for `doctor`. False if it cannot be used.
pub(crate) fn finding() -> (bool, String) {
    let Some(location) = DatabaseLocation::from_env() else { return (false, "none: no home directory".to_owned()) };
    let counts = open_read_only(&location).and_then(|mut store| store.counts());
    match counts {
        Ok(counts) => (true, format!("{location}, {} measurements", counts["benchmark_traces"])),
        Err(StoreError::Missing { .. }) => (false, format!("none at {location}: `polyloom db init` makes one")),
        Err(error) => (false, error.to_string()),
    }
}

#[derive(Serialize)]
struct DatabaseState {
    database: String,
    schema: SchemaState,
}

fn init(arguments: &DatabaseArguments) -> Outcome {
    let location = arguments.place.location()?;
    let schema = create(&location)?.schema()?;
    let database = location.to_string();
    match arguments.json {
        true => print_json(&DatabaseState { database, schema }),
        false => print(format!("{database}, schema {}\n", schema.version).as_bytes()),
    }
}

#[derive(Serialize)]
struct MigrationOutcome {
    database: String,
    n_migrations: i64,
}

fn run_migrations(arguments: &DatabaseArguments) -> Outcome {
    let location = arguments.place.location()?;
    let n_migrations = migrate(&location)?;
    let database = location.to_string();
    match arguments.json {
        true => print_json(&MigrationOutcome { database, n_migrations }),
        false => print(format!("{database}: {n_migrations} migrations run\n").as_bytes()),
    }
}

/// A line on a terminal of how far work that takes long has come.
struct ProgressLine {
    begin: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl ProgressLine {
    fn new() -> ProgressLine {
        ProgressLine { begin: Instant::now(), shown: None, is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, line: impl FnOnce() -> String) {
        let is_due = self.shown.map_or(self.begin.elapsed() > PROGRESS_AFTER, |shown| shown.elapsed() > PROGRESS_EVERY);
        if self.is_terminal && is_due {
            eprint!("\r{}\x1b[K", line());
            self.shown = Some(Instant::now());
        }
    }

    fn show_part(&mut self, n: u64, all: u64, what: &str) {
        self.show(|| {
            let filled = (30 * n / all.max(1)).min(30) as usize;
            format!("[{:<30}] {n} of {all} {what}", "#".repeat(filled))
        });
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

fn failed_to(what: &str, path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::Failed(format!("cannot {what} {}: {error}", path.display()))
}

#[derive(Serialize)]
struct ExportOutcome {
    output: PathBuf,
    n_records: Option<u64>,
    n_files: Option<u64>,
}

fn export(arguments: &ExportArguments) -> Outcome {
    let location = arguments.place.location()?;
    let format = match arguments.format {
        ExportFormat::Jsonl => None,
        ExportFormat::KernelTuner => Some(TunerFormat::KernelTunerCache),
        ExportFormat::T4 => Some(TunerFormat::T4Results),
    };
    let output = match (&arguments.output, format) {
        (Some(output), _) => output,
        (None, Some(_)) => {
            return Err(CommandFailure::Usage("formats for tools are files in a folder: --output names it".to_owned()));
        }
        (None, None) => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            return match export_jsonl(&mut *open_read_only(&location)?, &mut out, &mut |_| {}) {
                // A reader that went away is no failure.
                Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
                outcome => Ok(outcome.map(|_| ())?),
            };
        }
    };
    let mut store = open_read_only(&location)?;
    let (n_records, n_files) = match format {
        None => (Some(export_lines(&mut *store, output)?), None),
        Some(format) => (None, Some(export_files(&mut *store, format, output)?)),
    };
    let outcome = ExportOutcome { output: output.clone(), n_records, n_files };
    let what = n_records.map_or_else(|| format!("{} files", n_files.unwrap_or(0)), |n| format!("{n} records"));
    match arguments.json {
        true => print_json(&outcome),
        false => print(format!("{}: {what}\n", output.display()).as_bytes()),
    }
}

/// Writes a file under another name first: one that is cut off is never taken for an export.
fn export_lines(store: &mut dyn Store, output: &Path) -> Result<u64, CommandFailure> {
    let total: u64 = store.counts()?.iter().filter(|(table, _)| **table != "leases").map(|(_, n)| n).sum();
    let mut name = output.as_os_str().to_owned();
    name.push(".partial");
    let partial = PathBuf::from(name);
    let file = File::create(&partial).map_err(|error| failed_to("write", &partial, &error))?;
    let mut progress = ProgressLine::new();
    let written = export_jsonl(store, &mut BufWriter::new(file), &mut |n| progress.show_part(n, total, "records"));
    let n_records = written.inspect_err(|_| {
        let _ = std::fs::remove_file(&partial);
    })?;
    std::fs::rename(&partial, output).map_err(|error| failed_to("write", output, &error))?;
    Ok(n_records)
}

fn export_files(store: &mut dyn Store, format: TunerFormat, output: &Path) -> Result<u64, CommandFailure> {
    std::fs::create_dir_all(output).map_err(|error| failed_to("make", output, &error))?;
    let mut progress = ProgressLine::new();
    let mut n_written = 0;
    let n_files = export_for_tuners(store, format, &mut |file| {
        n_written += 1;
        progress.show(|| format!("{n_written} files"));
        let path = output.join(&file.name);
        let context = format!("cannot write {}", path.display());
        std::fs::write(&path, format!("{:#}\n", file.content)).map_err(|source| StoreError::Io { context, source })
    })?;
    Ok(n_files)
}

fn import(arguments: &ImportArguments) -> Outcome {
    let mut store = open(&arguments.place.location()?)?;
    let mut counts = PutCounts::default();
    for path in &arguments.files {
        let failed = |error: StoreError| CommandFailure::Failed(format!("{}: {error}", path.display()));
        let mut progress = ProgressLine::new();
        let is_input = path.as_os_str() == "-";
        let (mut input, n_bytes): (Box<dyn BufRead>, _) = if is_input {
            (Box::new(BufReader::new(std::io::stdin())), None)
        } else {
            let file = File::open(path).map_err(|error| failed_to("read", path, &error))?;
            let n_bytes = file.metadata().map(|metadata| metadata.len()).ok();
            (Box::new(BufReader::new(file)), n_bytes)
        };
        let put = import_jsonl(&mut *store, &mut *input, &mut |n| match n_bytes {
            Some(all) => progress.show_part(n >> 10, all >> 10, "KiB"),
            None => progress.show(|| format!("{} KiB", n >> 10)),
        });
        let put = put.map_err(failed)?;
        counts.n_new += put.n_new;
        counts.n_known += put.n_known;
    }
    match arguments.json {
        true => print_json(&counts),
        false => print(format!("{} records, {} of them new\n", counts.n_new + counts.n_known, counts.n_new).as_bytes()),
    }
}

#[derive(Serialize)]
struct CheckOutcome {
    #[serde(flatten)]
    state: DatabaseState,
    #[serde(flatten)]
    report: CheckReport,
}

fn check(arguments: &DatabaseArguments) -> Outcome {
    let location = arguments.place.location()?;
    let mut store = open_read_only(&location)?;
    let mut progress = ProgressLine::new();
    let report = store.check(&mut |n, all| progress.show_part(n, all, "measurements"))?;
    drop(progress);
    let state = DatabaseState { database: location.to_string(), schema: store.schema()? };
    let is_sound = report.problems.is_empty();
    if arguments.json {
        print_json(&CheckOutcome { state, report })?;
    } else {
        let mut text = format!("{}, schema {}\n", state.database, state.schema.version);
        for (table, n) in &report.counts {
            let _ = writeln!(text, "  {table:<20} {n:>10}");
        }
        for problem in &report.problems {
            let _ = writeln!(text, "{problem}");
        }
        let n_problems = report.problems.len();
        let _ =
            writeln!(text, "{}", if is_sound { "all is well".to_owned() } else { format!("{n_problems} problems") });
        print(text.as_bytes())?;
    }
    if is_sound { Ok(()) } else { Err(CommandFailure::Silent) }
}
