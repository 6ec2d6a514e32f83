//! Proving a data set that somebody hands over: every row from its text alone, and the files from the manifest.
//!
//! A row is compiled anew from its Python text. All code that it holds has to be what comes out, byte for byte, so that
//! a character more or less anywhere is found; and the kernel is proved right once more to the level that the row says.

mod chunk;
mod row;

use crate::card::{DatasetSummary, UniqueRatios, card};
use crate::generate::GENERATOR;
use crate::produce::{DESCRIPTION, DatasetManifest, MANIFEST, ProduceSettings, STATS, read_file, unique_ratios};
use crate::proof::ProofLevel;
use crate::similarity::BandSketch;
use crate::statistics::{Histogram, OpCounts, RowStatistics};
use crate::text::KernelTexts;
use crate::tools::{ColumnTools, WARP_VERSION, WarpEmitter, wants_warp};
use crate::verify::KernelVerifier;
use chunk::{BATCH, ChunkExaminer};
use polyloom::{Arch, SessionError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The columns that a row is proved right by.
const NEEDED: [&str; 6] = ["id", "kernel_name", "category", "python_source", "device", "metadata"];

/// Describes what is wrong with a data set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ValidationFinding {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// The row's `id`, where it has one.
    pub id: String,
    /// Holds what is wrong with it.
    pub what: String,
}

/// Describes what validation found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ValidationReport {
    /// Rows that were looked at.
    pub rows: u64,
    /// Rows by category.
    pub categories: BTreeMap<String, u64>,
    /// Rows by the level they have passed again.
    pub levels: BTreeMap<ProofLevel, u64>,
    /// Rows with a backward kernel.
    pub with_backward: u64,
    /// The version of NVRTC that has compiled the CUDA C++ of all rows, if it has.
    pub nvrtc: Option<String>,
    /// Why Warp's columns were not looked at, if there are some and they were not.
    pub warp_unchecked: Option<String>,
    /// Rows by what compiled or checked their CUDA C++ when they were made, as they say.
    pub cuda_compilers: BTreeMap<String, u64>,
    /// Metrics of the rows; none if files of the data set are wrong.
    pub metrics: Option<DatasetMetrics>,
    /// Holds what is wrong, the first thousand findings.
    pub findings: Vec<ValidationFinding>,
    /// Number of more there are.
    pub further_findings: u64,
}

/// Metrics of a data set, counted from its rows.
#[derive(Clone, Debug, Serialize)]
pub struct DatasetMetrics {
    /// The share of rows that differ from all others by their text.
    pub unique_exact: f64,
    /// The same with names taken out.
    pub unique_alpha: f64,
    /// The same with constants taken out, too.
    pub unique_structure: f64,
    /// Ops that occur, and pairs of ops of which one takes what the other gives.
    pub distinct_ops: usize,
    /// Such pairs.
    pub distinct_op_pairs: usize,
    /// The mean depth of data flow.
    pub mean_depth: f64,
    /// From 0 to 4, on average.
    pub mean_difficulty: f64,
    /// Lines of forward code, on average.
    pub mean_forward_lines: f64,
    /// Lines of backward code, on average of the rows that have some.
    pub mean_backward_lines: f64,
}

impl DatasetMetrics {
    fn of(statistics: &RowStatistics, unique: UniqueRatios) -> DatasetMetrics {
        let rows = statistics.rows.max(1) as f64;
        let mean = |histogram: &Histogram| {
            let sum: f64 = histogram.iter().filter_map(|(name, &n)| Some(name.parse::<f64>().ok()? * n as f64)).sum();
            sum / rows
        };
        let histograms = &statistics.histograms;
        DatasetMetrics {
            unique_exact: unique.exact,
            unique_alpha: unique.alpha,
            unique_structure: unique.structure,
            distinct_ops: histograms.ops.len(),
            distinct_op_pairs: histograms.op_bigrams.len(),
            mean_depth: mean(&histograms.depth),
            mean_difficulty: mean(&histograms.difficulty),
            mean_forward_lines: statistics.forward_lines as f64 / rows,
            mean_backward_lines: statistics.backward_lines as f64 / statistics.with_backward.max(1) as f64,
        }
    }
}

impl ValidationReport {
    const MOST_FINDINGS: usize = 1000;

    fn add(&mut self, finding: ValidationFinding) {
        match self.findings.len() < ValidationReport::MOST_FINDINGS {
            true => self.findings.push(finding),
            false => self.further_findings += 1,
        }
    }
}

/// Why a data set cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// The folder holds none.
    #[error("{} holds no data set: there is no manifest.json", .0.display())]
    NoManifest(PathBuf),
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Holds what is wrong.
        error: io::Error,
    },
    /// The data set was made by another version of the compiler, whose code this one cannot know.
    #[error("the data set was made by polyloom {there} (generator {generator_there}), and this is polyloom {} \
             (generator {GENERATOR}): validate it with the version that made it", env!("CARGO_PKG_VERSION"))]
    OtherVersion {
        /// The compiler's version.
        there: String,
        /// The generator's.
        generator_there: u32,
    },
    /// The data set lacks columns without which nothing can be said of a row.
    #[error("the data set cannot be validated without the {}", in_words(.0))]
    MissingColumns(Vec<&'static str>),
    /// The data set has columns that come from a tool, and that is not here.
    #[error("columns cannot be made again: {0}")]
    Tool(String),
    /// A back end does not work here.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Proves a data set right; Warp's columns by `emitter`, or else nothing is said of them but why there is none. `nvrtc` says
/// whether NVRTC compiles the CUDA C++ of rows of the highest level, if it is installed; `observe` is told now and then
/// how many rows have been looked at, and of how many.
///
/// # Errors
///
/// Where it cannot be looked at. What is wrong with it is part of the result.
pub fn validate(
    folder: &Path,
    jobs: usize,
    nvrtc: bool,
    emitter: Result<WarpEmitter<'_>, String>,
    observe: &mut dyn FnMut(u64, u64),
) -> Result<ValidationReport, ValidateError> {
    let at = |path: PathBuf| move |error| ValidateError::File { path, error };
    let manifest = DatasetManifest::read(folder).map_err(at(folder.join(MANIFEST)))?;
    let manifest = manifest.ok_or_else(|| ValidateError::NoManifest(folder.to_owned()))?;
    let settings = &manifest.settings;
    if settings.polyloom != env!("CARGO_PKG_VERSION") || settings.generator != GENERATOR {
        let there = settings.polyloom.clone();
        return Err(ValidateError::OtherVersion { there, generator_there: settings.generator });
    }
    let missing = columns_to_validate_by(&settings.columns);
    if !missing.is_empty() {
        return Err(ValidateError::MissingColumns(missing));
    }
    let mut quality = ValidationReport::default();
    let emitter = wants_warp(&settings.columns).then(|| usable(emitter, settings));
    let emitter = emitter.and_then(|usable| usable.map_err(|why| quality.warp_unchecked = Some(why)).ok());
    let tools = tools(settings, nvrtc, emitter).map_err(ValidateError::Tool)?;
    quality.nvrtc = tools.nvrtc_version().map(str::to_owned);
    let mut versions = tools.versions().map_err(ValidateError::Tool)?;
    if quality.warp_unchecked.is_some()
        && let Some(version) = settings.tools.get(WARP_VERSION)
    {
        versions.insert(WARP_VERSION.to_owned(), version.clone());
    }
    let here = ProduceSettings { tools: versions, ..settings.clone() };
    let differences = here.differences(settings);
    if !differences.is_empty() {
        return Err(ValidateError::Tool(differences.join(", ")));
    }
    let arch: Arch = settings.arch.parse().map_err(|error| ValidateError::Tool(format!("{error}")))?;
    let verifier = |_| match settings.source {
        Some(_) => KernelVerifier::of_strangers(arch),
        None => KernelVerifier::new(arch),
    };
    let verifiers = (0..jobs.clamp(1, BATCH)).map(verifier).collect::<Result<Vec<_>, _>>()?;
    let mut examiner = ChunkExaminer {
        folder,
        manifest: &manifest,
        tools,
        verifiers,
        observe,
        sketch: settings.most_alike.zip(settings.count).map(|(most, count)| BandSketch::new(most, count)),
        quality,
        statistics: RowStatistics::default(),
        op_counts: OpCounts::default(),
        after_last_row: settings.first,
    };
    examiner.chunks();
    if settings.count.is_some_and(|count| manifest.rows() > count) {
        examiner.found(MANIFEST, "lists more rows than are asked for".to_owned());
    }
    if !manifest.is_finished {
        let what = "the run that makes the data set is not finished: produce --resume goes on with it";
        examiner.found(MANIFEST, what.to_owned());
    } else if !examiner.is_whole() {
        examiner.found(MANIFEST, "ends before all that is asked for is there".to_owned());
    }
    for path in manifest.unlisted(folder).map_err(at(folder.to_owned()))? {
        examiner.found(&path, "is not in the manifest".to_owned());
    }
    // The rest is left out after a finding, because it is about the entries of the manifest, and wrong itself where
    // they are.
    if examiner.quality.findings.is_empty() {
        examiner.repeats().map_err(at(folder.to_owned()))?;
        let ChunkExaminer { statistics, op_counts, quality, .. } = &mut examiner;
        statistics.add_ops(op_counts);
        if let Ok(unique) = unique_ratios(&manifest, folder) {
            quality.metrics = Some(DatasetMetrics::of(statistics, unique));
        }
        if *statistics != manifest.statistics {
            examiner.found(MANIFEST, "the statistics are not those of the rows".to_owned());
        }
    }
    if manifest.is_finished {
        for (file, what) in description(&manifest, folder) {
            examiner.found(file, what);
        }
    }
    Ok(examiner.quality)
}

/// The columns that rows need to be validated and these are not.
pub fn columns_to_validate_by(columns: &[String]) -> Vec<&'static str> {
    NEEDED.into_iter().filter(|name| !columns.iter().any(|column| column == name)).collect()
}

/// Returns what is wrong with the files beside the rows, with their names.
fn description(manifest: &DatasetManifest, folder: &Path) -> Vec<(&'static str, String)> {
    // Without the keys that it takes, nothing is known, because they are found to be wrong themselves.
    let Ok(unique) = unique_ratios(manifest, folder) else { return Vec::new() };
    let json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text);
    let without_time = |mut value: serde_json::Value| {
        if let serde_json::Value::Object(fields) = &mut value {
            fields.retain(|name, _| !["generation_time_seconds", "pairs_per_second"].contains(&name.as_str()));
        }
        value
    };
    let expected = serde_json::to_vec(&DatasetSummary::new(manifest, unique, 0, 0.0)).and_then(|text| json(&text));
    let is_stats = |text: &[u8]| match (json(text), &expected) {
        (Ok(there), Ok(expected)) => without_time(there) == without_time(expected.clone()),
        _ => false,
    };
    let is_card = |text: &[u8]| text == card(manifest, unique).as_bytes();
    let wrong = DESCRIPTION.into_iter().filter_map(|name| match read_file(&folder.join(name)) {
        Ok(text) if if name == STATS { is_stats(&text) } else { is_card(&text) } => None,
        Ok(_) => Some((name, "is not what the manifest gives".to_owned())),
        Err(error) => Some((name, format!("cannot be read: {error}"))),
    });
    wrong.collect()
}

/// `column a`, or `columns a, b and c`.
fn in_words(columns: &[&str]) -> String {
    match columns {
        [all @ .., last] if !all.is_empty() => format!("columns {} and {last}", all.join(", ")),
        _ => format!("column {}", columns.concat()),
    }
}

/// Returns what makes columns again that the compiler alone does not make.
fn tools<'a>(
    settings: &ProduceSettings,
    nvrtc: bool,
    emitter: Option<WarpEmitter<'a>>,
) -> Result<ColumnTools<'a>, String> {
    let (device, arch) = (settings.device.parse()?, settings.arch.parse().unwrap_or(Arch::DEFAULT));
    ColumnTools::find(settings, &KernelTexts { device, arch, columns: settings.columns.clone() }, nvrtc, emitter)
}

/// The emitter, if it is the one that made the data set.
fn usable<'a>(emitter: Result<WarpEmitter<'a>, String>, settings: &ProduceSettings) -> Result<WarpEmitter<'a>, String> {
    if settings.source.is_some() {
        return Err("they are of kernels of files, which are not run".to_owned());
    }
    let emitter = emitter?;
    match settings.tools.get(WARP_VERSION) {
        Some(made) if made == emitter.version => Ok(emitter),
        Some(made) => Err(format!("they were made with Warp {made}, and this is Warp {}", emitter.version)),
        None => Err("the manifest does not say which version of Warp made them".to_owned()),
    }
}
