//! Proving a data set that somebody hands over: every row from its text alone, and the files from the manifest.
//!
//! A row is compiled anew from its Python text. All code that it holds has to be what comes out, byte for byte, so that
//! a character more or less anywhere is found; and the kernel is proved right once more to the level that the row says.

use crate::card::{Summary, card};
use crate::found::programs;
use crate::generate::{Category, Program};
use crate::produce::{
    DESCRIPTION, Lines, Manifest, STATS, Settings, categories, drafts, is_file_name, key, read_lines, split_name,
    unique_ratios,
};
use crate::row::{Row, all_columns};
use crate::text::{Device, GENERATOR, Place, Texts, hashes};
use crate::tools::{Emitter, Tools, WARP, WARP_VERSION, wants_warp};
use crate::verify::{Level, Reject, Verifier};
use polyloom::{Arch, SessionError};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The columns that a row is proved right by.
const NEEDED: [&str; 6] = ["id", "kernel_name", "category", "python_source", "device", "metadata"];

/// How many rows are in memory at a time.
const BATCH: usize = 256;

/// What is wrong with a data set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// The row's `id`, where it has one.
    pub id: String,
    /// What is wrong with it.
    pub what: String,
}

/// What validation found.
#[derive(Clone, Debug, Default)]
pub struct Quality {
    /// Rows that were looked at.
    pub rows: u64,
    /// Rows by category.
    pub categories: BTreeMap<String, u64>,
    /// Rows by the level they have passed again.
    pub levels: BTreeMap<Level, u64>,
    /// Rows with a backward kernel.
    pub with_backward: u64,
    /// The version of NVRTC that has compiled the CUDA C++ of all rows, if it has.
    pub nvrtc: Option<String>,
    /// Why Warp's columns were not looked at, if there are some and they were not.
    pub warp_unchecked: Option<String>,
    /// All that is wrong.
    pub findings: Vec<Finding>,
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
        /// What is wrong.
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
/// whether NVRTC compiles the CUDA C++ of rows of the highest level, if it is installed.
///
/// # Errors
///
/// Where it cannot be looked at. What is wrong with it is part of the result.
pub fn validate(
    folder: &Path,
    jobs: usize,
    nvrtc: bool,
    emitter: Result<Emitter<'_>, String>,
) -> Result<Quality, ValidateError> {
    let at = |path: PathBuf| move |error| ValidateError::File { path, error };
    let manifest = Manifest::read(folder).map_err(at(folder.join("manifest.json")))?;
    let manifest = manifest.ok_or_else(|| ValidateError::NoManifest(folder.to_owned()))?;
    let settings = &manifest.settings;
    if settings.polyloom != env!("CARGO_PKG_VERSION") || settings.generator != GENERATOR {
        let there = settings.polyloom.clone();
        return Err(ValidateError::OtherVersion { there, generator_there: settings.generator });
    }
    let missing: Vec<&str> = NEEDED.into_iter().filter(|name| !settings.columns.iter().any(|c| c == name)).collect();
    if !missing.is_empty() {
        return Err(ValidateError::MissingColumns(missing));
    }
    let mut quality = Quality::default();
    let emitter = wants_warp(&settings.columns).then(|| usable(emitter, settings));
    let emitter = emitter.and_then(|usable| usable.map_err(|why| quality.warp_unchecked = Some(why)).ok());
    let tools = tools(settings, nvrtc, emitter).map_err(ValidateError::Tool)?;
    quality.nvrtc = tools.proof().map(str::to_owned);
    let mut versions = tools.versions().map_err(ValidateError::Tool)?;
    if quality.warp_unchecked.is_some()
        && let Some(version) = settings.tools.get(WARP_VERSION)
    {
        versions.insert(WARP_VERSION.to_owned(), version.clone());
    }
    let here = Settings { tools: versions, ..settings.clone() };
    let differences = here.differences(settings);
    if !differences.is_empty() {
        return Err(ValidateError::Tool(differences.join(", ")));
    }
    let arch: Arch = settings.arch.parse().unwrap_or(Arch::DEFAULT);
    let verifier = |_| match settings.source {
        Some(_) => Verifier::of_strangers(arch),
        None => Verifier::new(arch),
    };
    let mut verifiers = (0..jobs.clamp(1, BATCH)).map(verifier).collect::<Result<Vec<_>, _>>()?;
    let mut seen = HashMap::new();
    for file in manifest.chunks.iter().flat_map(|chunk| &chunk.files) {
        let path = folder.join(&file.path);
        let found = |line, id: &str, what: String| Finding { file: file.path.clone(), line, id: id.to_owned(), what };
        // A manifest may be anybody's.
        if !is_file_name(&file.path) || !path.metadata().is_ok_and(|found| found.is_file()) {
            quality.findings.push(found(0, "", "is no file of a data set, or is gone".to_owned()));
            continue;
        }
        let mut hash = blake3::Hasher::new();
        match File::open(&path).and_then(|mut open| io::copy(&mut open, &mut hash)) {
            Err(error) => {
                quality.findings.push(found(0, "", format!("cannot be read: {error}")));
                continue;
            }
            Ok(bytes) if bytes != file.bytes || hash.finalize().to_hex().as_str() != file.blake3 => {
                quality.findings.push(found(0, "", "is not the file that the manifest lists".to_owned()));
            }
            Ok(_) => {}
        }
        if !file.path.starts_with("data/") {
            continue;
        }
        let mut n_rows = 0;
        for batch in batches(read_lines(&path, settings.format)) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    quality.findings.push(found(n_rows, "", format!("cannot be read: {error}")));
                    break;
                }
            };
            for Looked { row, mut wrong } in look_at(&batch, &manifest, &tools, &mut verifiers) {
                n_rows += 1;
                let metadata = row.metadata.as_ref();
                if let Some(metadata) = metadata {
                    let key = key(&metadata.hashes, settings.dedup);
                    if let Some(other) = seen.insert(key, row.id.clone()) {
                        wrong.push(format!("is the same as row {other}"));
                    }
                    let split = split_name(&metadata.hashes.structure);
                    if !file.path.starts_with(&format!("data/{split}-")) {
                        wrong.push(format!("belongs to the part `{split}`"));
                    }
                    *quality.levels.entry(metadata.verified).or_default() += u64::from(wrong.is_empty());
                    quality.with_backward += u64::from(metadata.has_backward);
                }
                *quality.categories.entry(row.category.clone()).or_default() += 1;
                quality.findings.extend(wrong.into_iter().map(|what| found(n_rows, &row.id, what)));
            }
        }
        quality.rows += n_rows;
        if n_rows != file.rows {
            quality.findings.push(found(0, "", format!("has {n_rows} rows, the manifest says {}", file.rows)));
        }
    }
    let whole = |file: &str, what: String| Finding { file: file.to_owned(), line: 0, id: String::new(), what };
    if quality.rows != manifest.rows() {
        let what = format!("lists {} rows, the files have {}", manifest.rows(), quality.rows);
        quality.findings.push(whole("manifest.json", what));
    }
    if !manifest.is_finished {
        let what = "the run that makes the data set is not finished: produce --resume goes on with it";
        quality.findings.push(whole("manifest.json", what.to_owned()));
    }
    for path in manifest.unlisted(folder).map_err(at(folder.to_owned()))? {
        quality.findings.push(whole(&path, "is not in the manifest".to_owned()));
    }
    if manifest.is_finished {
        let found = description(&manifest, folder);
        quality.findings.extend(found.into_iter().map(|(file, what)| whole(file, what)));
    }
    Ok(quality)
}

/// What is wrong with the files beside the rows, with their names.
fn description(manifest: &Manifest, folder: &Path) -> Vec<(&'static str, String)> {
    // Without the keys that it takes, nothing is known: they are found to be wrong themselves.
    let Ok(unique) = unique_ratios(manifest, folder) else { return Vec::new() };
    let json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text);
    let without_time = |mut value: serde_json::Value| {
        if let serde_json::Value::Object(fields) = &mut value {
            fields.retain(|name, _| !["generation_time_seconds", "pairs_per_second"].contains(&name.as_str()));
        }
        value
    };
    let expected = serde_json::to_vec(&Summary::new(manifest, unique, 0, 0.0)).and_then(|text| json(&text));
    let is_stats = |text: &[u8]| match (json(text), &expected) {
        (Ok(there), Ok(expected)) => without_time(there) == without_time(expected.clone()),
        _ => false,
    };
    let is_card = |text: &[u8]| text == card(manifest, unique).as_bytes();
    let wrong = DESCRIPTION.into_iter().filter_map(|name| match std::fs::read(folder.join(name)) {
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

/// A row and what is wrong with it.
struct Looked {
    row: Row,
    wrong: Vec<String>,
}

/// Lines, so many at a time; an error is the last that there is.
fn batches(lines: io::Result<Lines>) -> impl Iterator<Item = io::Result<Vec<Vec<u8>>>> {
    let (mut lines, mut failed) = match lines {
        Ok(lines) => (Some(lines), None),
        Err(error) => (None, Some(error)),
    };
    std::iter::from_fn(move || {
        let mut batch = Vec::new();
        while batch.len() < BATCH
            && let Some(line) = lines.as_mut().and_then(Iterator::next)
        {
            match line {
                Ok(line) => batch.push(line),
                Err(error) => (lines, failed) = (None, Some(error)),
            }
        }
        if batch.is_empty() { failed.take().map(Err) } else { Some(Ok(batch)) }
    })
}

/// What is to be said of each line, by a thread for each verifier.
fn look_at(lines: &[Vec<u8>], manifest: &Manifest, tools: &Tools<'_>, verifiers: &mut [Verifier]) -> Vec<Looked> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Looked)>> = Mutex::new(Vec::with_capacity(lines.len()));
    std::thread::scope(|scope| {
        for verifier in verifiers {
            let (next, done) = (&next, &done);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(line) = lines.get(index) else { break };
                    let looked = look(line, manifest, tools, verifier);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, looked));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, looked)| looked).collect()
}

fn look(line: &[u8], manifest: &Manifest, tools: &Tools<'_>, verifier: &Verifier) -> Looked {
    let row: Row = match serde_json::from_slice(line) {
        Ok(row) => row,
        Err(error) => return Looked { row: Row::default(), wrong: vec![format!("is no row: {error}")] },
    };
    let mut wrong = Vec::new();
    if let Err(what) = compare(&row, manifest, tools, verifier, &mut wrong) {
        wrong.push(what);
    }
    Looked { row, wrong }
}

/// Compiles the row's text anew and compares all it holds.
fn compare(
    row: &Row,
    manifest: &Manifest,
    tools: &Tools<'_>,
    verifier: &Verifier,
    wrong: &mut Vec<String>,
) -> Result<(), String> {
    let metadata = row.metadata.as_ref().ok_or("has no metadata")?;
    let device: Device = row.device.parse()?;
    let arch: Arch = metadata.arch.parse().map_err(|error| format!("{error}"))?;
    let program = Program {
        name: row.kernel_name.clone(),
        category: row.category.clone().into(),
        difficulty: metadata.difficulty,
        source: row.python_source.clone(),
        inputs: metadata.inputs.clone(),
        dim: metadata.launch.clone(),
    };
    let settings = &manifest.settings;
    if metadata.verified < manifest.settings.verify {
        let wanted = manifest.settings.verify;
        wrong.push(format!("is verified to `{}`, the manifest says `{wanted}`", metadata.verified));
    }
    for (what, is, wanted) in [("device", &row.device, &settings.device), ("arch", &metadata.arch, &settings.arch)] {
        if is != wanted {
            wrong.push(format!("{what} is {is}, the manifest says {wanted}"));
        }
    }
    if metadata.origin.is_some() && settings.source.is_none() {
        wrong.push("has the origin of a kernel of a file, and was generated".to_owned());
    }
    let is_timed = metadata.generation_time_ms.map_or(!settings.timings, |time| settings.timings && time >= 0.0);
    if !is_timed || metadata.cuda_available_at_generation.is_some() != settings.timings {
        wrong.push("does not say how long it took to make as the manifest has it".to_owned());
    }
    let text = |reject: Box<Reject>| reject.to_string();
    let source = settings.source.as_ref();
    if source.is_none() {
        row.category.parse::<Category>().map_err(|error| error.to_string())?;
        let categories = categories(settings).map_err(|error| error.to_string())?;
        if !drafts(&categories, settings.seed, metadata.index).any(|draft| draft == program) {
            wrong.push(format!("is not what seed {} and index {} give", settings.seed, metadata.index));
        }
    }
    let kernel = verifier.compile(&program.name, &program.source).map_err(text)?;
    if let Some(source) = source {
        let mut expected = programs(&program.name, &program.source, &source.category, &kernel);
        if !expected.any(|expected| expected == program) {
            wrong.push(
                "is not given the category, the difficulty and one of the inputs that such a kernel is".to_owned(),
            );
        }
    }
    let wants = |name: &str| manifest.settings.columns.iter().any(|column| column == name);
    let texts = Texts { device, arch, columns: settings.columns.clone() };
    let code = texts.gpu_code(&kernel, metadata.verified).map_err(text)?;
    let found = hashes(&program.source, &kernel);
    // Where a kernel was found is not known here.
    let place = Place { seed: metadata.seed, index: metadata.index, source, origin: metadata.origin.clone() };
    let row_of = texts.row(&program, &kernel, code.clone(), found, metadata.verified, place);
    let mut expected = row_of.map_err(text)?;
    tools.fill_nvidia(&mut expected, arch).map_err(text)?;
    // Warp runs a row's text: nothing but the generator's own.
    let asks_warp = tools.has_warp() && wrong.is_empty();
    if asks_warp {
        tools.fill_warp(&mut expected, &program).map_err(text)?;
    }
    let fields = |row: &Row| match serde_json::to_value(row) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (mut have, mut want) = (fields(row), fields(&expected));
    for fields in [&mut have, &mut want] {
        // Of the machine that made the row nothing can be known here.
        if let Some(serde_json::Value::Object(metadata)) = fields.get_mut("metadata") {
            for name in ["generation_time_ms", "cuda_available_at_generation"] {
                metadata.remove(name);
            }
        }
    }
    let is_known = |name: &&str| !WARP.contains(name) || asks_warp;
    for name in all_columns().filter(|name| wants(name)).filter(is_known) {
        if have.get(name) != want.get(name) {
            wrong.push(difference(name, have.get(name), want.get(name)));
        }
    }
    for name in all_columns().filter(|name| !wants(name) && have.get(*name).is_some_and(|value| !value.is_null())) {
        wrong.push(format!("{name} is there, and the data set has no such column"));
    }
    // What is not what a run made is not run: it may ask for any memory.
    if !wrong.is_empty() {
        return Ok(());
    }
    verifier.verify(&program, &kernel, metadata.verified, || Ok(code)).map_err(text)?;
    if metadata.verified >= Level::Full {
        verifier.simulate_columns(&program, &kernel, row).map_err(text)?;
    }
    tools.prove(&kernel, row, arch).map_err(text)
}

/// What makes columns again that the compiler alone does not make.
fn tools<'a>(settings: &Settings, nvrtc: bool, emitter: Option<Emitter<'a>>) -> Result<Tools<'a>, String> {
    let (device, arch) = (settings.device.parse()?, settings.arch.parse().unwrap_or(Arch::DEFAULT));
    Tools::find(settings, &Texts { device, arch, columns: settings.columns.clone() }, nvrtc, emitter)
}

/// The emitter, if it is the one that made the data set.
fn usable<'a>(emitter: Result<Emitter<'a>, String>, settings: &Settings) -> Result<Emitter<'a>, String> {
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

/// Where a column first differs from what it should be.
fn difference(name: &str, have: Option<&serde_json::Value>, want: Option<&serde_json::Value>) -> String {
    match (have, want) {
        (Some(serde_json::Value::String(have)), Some(serde_json::Value::String(want))) => {
            let line = have.lines().zip(want.lines()).position(|(have, want)| have != want);
            let line = line.unwrap_or_else(|| have.lines().count().min(want.lines().count()));
            let of = |text: &str| text.lines().nth(line).map_or("the end of it".to_owned(), |text| format!("`{text}`"));
            format!("{name}, line {}: {}, and the text compiles to {}", line + 1, of(have), of(want))
        }
        (Some(serde_json::Value::Object(have)), Some(serde_json::Value::Object(want))) => {
            let fields = have.iter().filter(|(name, value)| want.get(*name) != Some(value));
            let fields: Vec<String> = fields.map(|(name, value)| format!("{name} is {value}")).collect();
            format!("{name}: {}, which the text does not give", fields.join(", "))
        }
        (None | Some(serde_json::Value::Null), _) => format!("{name} is missing"),
        _ => format!("{name} is there, and the text gives none"),
    }
}
