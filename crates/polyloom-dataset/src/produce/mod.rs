//! Producing data sets: kernels are generated, verified, told from those before, and written, a chunk of files at a time.

mod chunk;
mod file_names;
mod journal;
mod key_files;
mod manifest;
mod parquet;
mod reject_record;
mod row_keys;
mod settings;
mod sink;
mod source_settings;
mod work;

pub use manifest::{ChunkFiles, DatasetManifest, FileRecord};
pub use settings::{DedupKey, FileFormat, ProduceSettings, ShardNumber};
pub use source_settings::SourceSettings;

pub(crate) use chunk::OpenChunk;
pub(crate) use file_names::FOLDERS;
pub(crate) use key_files::{count_chunk_keys, read_chunk_keys};
pub(crate) use manifest::{NAME as MANIFEST, read_file};
pub(crate) use reject_record::{DUPLICATE, GIVEN_UP, NEARLY_ALIKE, RejectRecord};
pub(crate) use row_keys::{Key, RowKeys, SPLITS, split_name};
pub(crate) use sink::{Lines, RowEncoder, read_lines};
pub(crate) use work::drafts;

use crate::card::{DatasetSummary, UniqueRatios, card};
use crate::found::KernelFiles;
use crate::generate::Category;
use crate::repeats::{Located, n_different};
use crate::row::Row;
use crate::similarity::BandSketch;
use crate::text::{DeviceColumns, KernelTexts};
use crate::tools::{ColumnTools, WarpEmitter, wants_warp};
use crate::verify::KernelVerifier;
use key_files::read_keys;
use manifest::{FolderLock, replace};
use polyloom::{Arch, SessionError};
use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use work::{IndexOutcome, IndexResult, WorkShared};

/// Why a run ended before it was done. What was finished before stays, and can be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum ProduceError {
    /// A setting that there is not.
    #[error("{0}")]
    Setting(String),
    /// These shards are not those of one data set; the text says why.
    #[error("{0}")]
    Shards(String),
    /// The folder holds a data set already.
    #[error("{} holds {rows} rows of a data set already: --resume goes on with it", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
        /// Number of rows it has.
        rows: u64,
    },
    /// The folder holds a data set that was begun with other settings.
    #[error("{} was begun with other settings:\n  {}", folder.display(), differences.join("\n  "))]
    OtherSettings {
        /// The folder.
        folder: PathBuf,
        /// The settings that differ, with both values.
        differences: Vec<String>,
    },
    /// Something else stands where a data set is to be written.
    #[error("{}: {what} is in the way: write to another folder", folder.display())]
    InTheWay {
        /// The folder.
        folder: PathBuf,
        /// Holds what is there.
        what: String,
    },
    /// Another run writes to the folder.
    #[error("{}: another run is writing to it", .0.display())]
    Busy(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Holds what is wrong.
        error: io::Error,
    },
    /// A file cannot be written while rows are made.
    #[error("{}: {error}; what was finished before is kept, --resume goes on with it", path.display())]
    Stopped {
        /// The folder.
        path: PathBuf,
        /// Holds what is wrong.
        error: io::Error,
    },
    /// Whoever was told how far the run is ended it.
    #[error("the run was ended; what was finished before is kept, --resume goes on with it")]
    Interrupted,
    /// Whoever was told how far the merging is ended it.
    #[error("the merging was ended: the same command begins it anew")]
    MergeInterrupted,
    /// No more rows are found. The data set is finished with those that there are.
    #[error(
        "the last {MOST_BARREN} indices gave no row (the last of them: {why}): there is no more to find, or \
             something is wrong; the data set ends with {rows} rows"
    )]
    Barren {
        /// Holds what became of the last one.
        why: String,
        /// The rows.
        rows: u64,
    },
    /// No kernel of the files that kernels are found in became a row.
    #[error("none of the kernels became a row: {} says why of {rejects}", path.display())]
    NoRows {
        /// The place where it stands.
        path: PathBuf,
        /// Says how many were rejected.
        rejects: u64,
    },
    /// A back end does not work here.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Holds what stands beside the rows.
pub(crate) const DESCRIPTION: [&str; 2] = [README, STATS];
const README: &str = "README.md";
pub(crate) const STATS: &str = "stats.json";

/// After so many indices without a row, a run that is to reach a number of rows ends.
pub(crate) const MOST_BARREN: u64 = 1000;

/// Describes how far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunProgress {
    /// Rows there are, those of earlier runs among them.
    pub rows: u64,
    /// Rows that this run has made.
    pub made: u64,
    /// Number of rows there will be, if that is known.
    pub wanted: Option<u64>,
    /// Attempts that were rejected.
    pub rejects: u64,
    /// Rows that were there before.
    pub duplicates: u64,
    /// True if NVRTC compiles the CUDA C++ of every row.
    pub is_with_nvrtc: bool,
    /// Since the run began.
    pub time: Duration,
}

/// Describes how a run is carried out, which has no bearing on what it writes.
pub struct RunOptions<'a> {
    /// Number of threads that make rows.
    pub jobs: usize,
    /// True if to go on with what the folder holds.
    pub resume: bool,
    /// Structures that no row may have: [`ProduceSettings::excluded`] tells which they are.
    pub excluded: &'a HashSet<u128>,
    /// The files that kernels are found in: [`ProduceSettings::source`] tells which they are.
    pub source: Option<&'a KernelFiles>,
    /// Holds what gives the columns of Warp's code.
    pub emitter: Option<WarpEmitter<'a>>,
    /// Is told how far the run is, about ten times a second, and may end it.
    pub observe: &'a mut dyn FnMut(&RunProgress) -> ControlFlow<()>,
}

/// Writes a data set to a folder.
///
/// # Errors
///
/// [`ProduceError`].
pub fn produce(
    settings: &ProduceSettings,
    folder: &Path,
    how: RunOptions<'_>,
) -> Result<(DatasetManifest, RunProgress), ProduceError> {
    let started = Instant::now();
    let texts = texts(settings)?;
    if wants_warp(&settings.columns) && how.emitter.is_none() {
        let message = "Warp's columns are made in Python alone: polyloom.synth.produce(…, emitter=\"warp\")";
        return Err(ProduceError::Setting(message.to_owned()));
    }
    let tools = ColumnTools::find(settings, &texts, settings.nvrtc, how.emitter).map_err(ProduceError::Setting)?;
    let settings = &ProduceSettings { tools: tools.versions().map_err(ProduceError::Setting)?, ..settings.clone() };
    settings.check().map_err(ProduceError::Setting)?;
    let categories = if how.source.is_some() { Vec::new() } else { categories(settings)? };
    let (_lock, found) = claimed(folder)?;
    let mut manifest = begin(settings, folder, found, how.resume)?;
    manifest.clean(folder, Some(manifest.next() / settings.indices_per_chunk)).map_err(at(folder))?;
    // Only the whole data set can tell which rows a part has too many of.
    let mut sketch = settings.most_alike.zip(settings.count).map(|(most, count)| BandSketch::new(most, count));
    let mut known = HashSet::new();
    let mut after_last_row = settings.first;
    read_keys(&manifest, folder, |keys| {
        after_last_row = keys.index.saturating_add(1);
        known.insert(keys.key(settings.dedup));
        if let Some(sketch) = &mut sketch {
            sketch.count(&keys.bands);
        }
    })
    .map_err(at(folder))?;
    let nvrtc = tools.nvrtc_version().map(str::to_owned);
    let mut progress = RunProgress {
        rows: manifest.rows(),
        wanted: settings.count,
        is_with_nvrtc: nvrtc.is_some(),
        ..RunProgress::default()
    };
    if manifest.is_finished {
        // The description of the data set may be missing, because it is written after the manifest is finished.
        if !folder.join(STATS).exists() {
            describe(&manifest, folder, progress.made, progress.time)?;
        } else if !folder.join(README).exists() {
            write_card(&manifest, folder)?;
        }
        let is_short = settings.count.is_some_and(|count| progress.rows < count);
        let why = (may_be_barren(settings) && is_short).then(|| "it was so before".to_owned());
        return finished(manifest, folder, progress, why);
    }
    let mut chunk: Option<OpenChunk> = None;
    if let Some(first) = settings.next_index(manifest.next()) {
        let number = first / settings.indices_per_chunk;
        let interrupted = OpenChunk::with_journal(folder, settings, number, first, |keys| {
            after_last_row = keys.index.saturating_add(1);
            known.insert(keys.key(settings.dedup));
            if let Some(sketch) = &mut sketch {
                sketch.count(&keys.bands);
            }
        });
        let interrupted = interrupted.map_err(stopped(folder))?;
        progress.rows += interrupted.rows();
        chunk = Some(interrupted.with_nvrtc(nvrtc.as_deref()));
    }
    let next = chunk.as_ref().map_or(manifest.next(), OpenChunk::end);
    let known = RwLock::new(known);
    let work = WorkShared {
        settings,
        tools,
        categories,
        source: settings.source.as_ref().zip(how.source),
        texts,
        known: &known,
        excluded: how.excluded,
    };
    let verifier = |_| match &settings.source {
        Some(_) => KernelVerifier::of_strangers(work.texts.arch),
        None => KernelVerifier::new(work.texts.arch),
    };
    let verifiers = (0..how.jobs.clamp(1, work::AHEAD)).map(verifier).collect::<Result<Vec<_>, _>>()?;

    let mut told = started;
    let mut barren = next.saturating_sub(after_last_row);
    let mut barren_since = None;
    let is_enough = |progress: &RunProgress| settings.count.is_some_and(|count| progress.rows >= count);
    let is_already_enough = is_enough(&progress);
    let mut selection = DedupSelection { dedup: settings.dedup, known: &known, sketch };
    let mut take = |done: IndexResult| {
        let number = done.index / settings.indices_per_chunk;
        if let Some(full) = chunk.take_if(|open| open.number() != number) {
            full.finish(&mut manifest, false).map_err(stopped(folder))?;
        }
        let open = match &mut chunk {
            Some(open) => open,
            none => {
                let open = OpenChunk::with_journal(folder, settings, number, done.index, |_| ());
                let open = open.map_err(stopped(folder))?;
                none.insert(open.with_nvrtc(nvrtc.as_deref()))
            }
        };
        progress.rejects += done.rejects.len() as u64;
        let refused = match &done.outcome {
            IndexOutcome::Row(made) => selection.refuses(&made.keys),
            IndexOutcome::Known(_) => Some(DUPLICATE),
            IndexOutcome::Failed(key, _) => selection.knows(*key).then_some(DUPLICATE),
            IndexOutcome::Nothing => None,
        };
        let is_new = matches!(done.outcome, IndexOutcome::Row(_)) && refused.is_none();
        progress.rejects += u64::from(matches!(done.outcome, IndexOutcome::Failed(..)) && refused.is_none());
        progress.duplicates += u64::from(refused.is_some());
        progress.rows += u64::from(is_new);
        progress.made += u64::from(is_new);
        barren = if is_new { 0 } else { barren + 1 };
        if may_be_barren(settings) && barren >= MOST_BARREN {
            let rejected = || done.last_reject().map(|last| last.reject.to_string());
            barren_since = Some(refused.map(str::to_owned).or_else(rejected).unwrap_or_default());
        }
        open.add(&done, refused).map_err(stopped(folder))?;
        progress.time = started.elapsed();
        if told.elapsed() >= Duration::from_millis(100) {
            told = Instant::now();
            if (how.observe)(&progress).is_break() {
                open.save().map_err(stopped(folder))?;
                return Err(ProduceError::Interrupted);
            }
        }
        Ok::<bool, ProduceError>(!is_enough(&progress) && barren_since.is_none())
    };
    // A run that was killed before it could finish its last chunk has nothing more to make.
    if !is_already_enough {
        work.in_order(next, verifiers, &mut take)?;
    }
    match chunk.take() {
        Some(open) => open.finish(&mut manifest, true),
        None => manifest.finish(folder),
    }
    .map_err(stopped(folder))?;
    progress.time = started.elapsed();
    let _ = (how.observe)(&progress);
    describe(&manifest, folder, progress.made, progress.time)?;
    finished(manifest, folder, progress, barren_since)
}

/// Returns true if a run may come to where it finds no more, because indices are endless where a number of rows is to
/// be reached, unless they are those of files.
fn may_be_barren(settings: &ProduceSettings) -> bool {
    settings.count.is_some() && settings.end.is_none() && settings.source.is_none()
}

/// Returns what a run that is finished comes to, each time it is gone on with. `barren` says why it found no more.
fn finished(
    manifest: DatasetManifest,
    folder: &Path,
    progress: RunProgress,
    barren: Option<String>,
) -> Result<(DatasetManifest, RunProgress), ProduceError> {
    let settings = &manifest.settings;
    match barren {
        Some(why) => Err(ProduceError::Barren { why, rows: progress.rows }),
        None if progress.rows == 0 && settings.source.is_some() && settings.shard.is_none() => {
            Err(ProduceError::NoRows { path: folder.join("rejects"), rejects: manifest.rejects().values().sum() })
        }
        None => Ok((manifest, progress)),
    }
}

/// Writes what stands beside the rows of a finished data set, of which so many were made in so long.
pub(crate) fn describe(
    manifest: &DatasetManifest,
    folder: &Path,
    made: u64,
    time: Duration,
) -> Result<(), ProduceError> {
    let written = || -> io::Result<()> {
        let unique = unique_ratios(manifest, folder)?;
        let summary = DatasetSummary::new(manifest, unique, made, time.as_secs_f64());
        let text = serde_json::to_string_pretty(&summary).map_err(io::Error::other)?;
        replace(folder, STATS, format!("{text}\n").as_bytes())
    };
    written().map_err(stopped(folder))?;
    write_card(manifest, folder)
}

fn write_card(manifest: &DatasetManifest, folder: &Path) -> Result<(), ProduceError> {
    let written = || replace(folder, README, card(manifest, unique_ratios(manifest, folder)?).as_bytes());
    written().map_err(stopped(folder))
}

/// Says which rows are taken: those that are not known, and of those that are nearly alike so many.
struct DedupSelection<'a> {
    dedup: DedupKey,
    known: &'a RwLock<HashSet<Key>>,
    sketch: Option<BandSketch>,
}

impl DedupSelection<'_> {
    /// Returns true if a row with this key is taken.
    fn knows(&self, key: Key) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&key)
    }

    /// Why a row is not taken. One that is taken is known from now on.
    fn refuses(&mut self, keys: &RowKeys) -> Option<&'static str> {
        let key = keys.key(self.dedup);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&key) {
            return Some(DUPLICATE);
        }
        if self.sketch.as_mut().is_some_and(|sketch| !sketch.take(&keys.bands)) {
            return Some(NEARLY_ALIKE);
        }
        known.insert(key);
        None
    }
}

/// All rows of a data set, in the order of its files.
///
/// # Errors
///
/// If the folder holds none; of rows, if a file cannot be read or is damaged.
pub fn rows(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<Row>>> {
    let manifest = DatasetManifest::read(folder)?.ok_or_else(|| io::Error::other("there is no data set here"))?;
    let format = manifest.settings.format;
    let folder = folder.to_owned();
    let files = manifest.chunks.into_iter().flat_map(|chunk| chunk.files);
    let files = files.filter(|file| file.path.starts_with("data/"));
    Ok(files.flat_map(move |file| {
        let lines = read_lines(&folder.join(&file.path), format);
        let lines = lines.unwrap_or_else(|error| Box::new(std::iter::once(Err(error))));
        lines.map(|line| Ok(serde_json::from_slice(&line?)?))
    }))
}

/// Returns the number of kernels that are different.
pub(crate) fn unique_ratios(manifest: &DatasetManifest, folder: &Path) -> io::Result<UniqueRatios> {
    let chunks: Vec<Located<'_>> = manifest.chunks.iter().map(|chunk| (folder, chunk)).collect();
    let ratio = |dedup: DedupKey| -> io::Result<f64> {
        let n = n_different(&chunks, dedup).map_err(|(_, error)| error)?;
        Ok(n as f64 / manifest.rows().max(1) as f64)
    };
    Ok(UniqueRatios {
        exact: ratio(DedupKey::Exact)?,
        alpha: ratio(DedupKey::Alpha)?,
        structure: ratio(DedupKey::Structure)?,
    })
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ProduceError {
    let path = path.to_owned();
    move |error| ProduceError::File { path, error }
}

fn stopped(path: &Path) -> impl FnOnce(io::Error) -> ProduceError {
    let path = path.to_owned();
    move |error| ProduceError::Stopped { path, error }
}

/// A folder for this run alone, with the folders for files in it, and the manifest that it holds. Where it holds none,
/// nothing may be in the way of what will be written.
pub(crate) fn claimed(folder: &Path) -> Result<(FolderLock, Option<DatasetManifest>), ProduceError> {
    if folder.as_os_str().is_empty() {
        return Err(ProduceError::Setting("the folder to write to has no name".to_owned()));
    }
    let busy = || ProduceError::Busy(folder.to_owned());
    let read = || DatasetManifest::read(folder).map_err(at(&folder.join(manifest::NAME)));
    if read()?.is_none() {
        FolderLock::of(folder).ok_or_else(busy)?;
        if let Some(around) = data_set_around(folder) {
            let what = format!("the data set {}, of which it is a part,", around.display());
            return Err(ProduceError::InTheWay { folder: folder.to_owned(), what });
        }
        for name in FOLDERS {
            if let Some(inner) = manifest::names(&folder.join(name)).map_err(at(&folder.join(name)))?.first() {
                return Err(ProduceError::InTheWay { folder: folder.to_owned(), what: format!("`{name}/{inner}`") });
            }
        }
        if let Some(name) = DESCRIPTION.into_iter().find(|name| folder.join(name).exists()) {
            return Err(ProduceError::InTheWay { folder: folder.to_owned(), what: format!("`{name}`") });
        }
    }
    for inner in FOLDERS {
        let path = folder.join(inner);
        std::fs::create_dir_all(&path).map_err(at(&path))?;
    }
    let lock = FolderLock::of(folder).ok_or_else(busy)?;
    // The manifest is read again, because another run may have been there before the lock.
    Ok((lock, read()?))
}

/// The data set that has a folder, or the one that the folder is to be made in, for its files.
fn data_set_around(folder: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(folder).ok()?;
    let path = path.canonicalize().unwrap_or(path);
    let is_of_files = |path: &&Path| path.file_name().is_some_and(|name| FOLDERS.iter().any(|inner| name == *inner));
    let around = path.ancestors().filter(is_of_files).filter_map(Path::parent);
    around.map(Path::to_path_buf).find(|around| around.join(manifest::NAME).is_file())
}

/// The manifest to begin with, which is in the folder.
fn begin(
    settings: &ProduceSettings,
    folder: &Path,
    found: Option<DatasetManifest>,
    resume: bool,
) -> Result<DatasetManifest, ProduceError> {
    let Some(found) = found else {
        return DatasetManifest::begun(settings, folder).map_err(at(folder));
    };
    if !resume {
        return Err(ProduceError::Exists { folder: folder.to_owned(), rows: found.rows() });
    }
    let differences = settings.differences(&found.settings);
    if !differences.is_empty() {
        return Err(ProduceError::OtherSettings { folder: folder.to_owned(), differences });
    }
    found.check(folder).map_err(at(folder))?;
    Ok(found)
}

pub(crate) fn categories(settings: &ProduceSettings) -> Result<Vec<Category>, ProduceError> {
    let all: Result<Vec<Category>, _> = settings.categories.iter().map(|name| name.parse()).collect();
    match all {
        Ok(all) if all.is_empty() => Err(ProduceError::Setting("no category is asked for".to_owned())),
        Ok(all) => Ok(all),
        Err(error) => Err(ProduceError::Setting(error.to_string())),
    }
}

pub(crate) fn texts(settings: &ProduceSettings) -> Result<KernelTexts, ProduceError> {
    let device: DeviceColumns = settings.device.parse().map_err(ProduceError::Setting)?;
    let arch: Arch =
        settings.arch.parse().map_err(|error: polyloom::UnknownArch| ProduceError::Setting(error.to_string()))?;
    Ok(KernelTexts { device, arch, columns: settings.columns.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repeats::repeats;

    fn made(settings: &ProduceSettings, folder: &Path) -> Result<(DatasetManifest, RunProgress), ProduceError> {
        let observe = &mut |_: &RunProgress| ControlFlow::Continue(());
        let how =
            RunOptions { jobs: 2, resume: false, excluded: &HashSet::new(), observe, emitter: None, source: None };
        produce(settings, folder, how)
    }

    /// Rows of which no two may be nearly alike.
    fn few_alike() -> ProduceSettings {
        let columns = ["id", "kernel_name", "category", "python_source", "metadata"];
        ProduceSettings {
            most_alike: Some(1),
            verify: crate::proof::ProofLevel::Parse,
            columns: columns.map(str::to_owned).to_vec(),
            categories: vec!["tensor_core".to_owned()],
            indices_per_chunk: 60,
            ..ProduceSettings::new(200, 3)
        }
    }

    #[test]
    fn shards_leave_what_is_nearly_alike_to_the_whole() {
        let folder = std::env::temp_dir().join(format!("polyloom-alike-{}", std::process::id()));
        let whole = few_alike();
        let (expected, progress) = made(&whole, &folder.join("whole")).expect("there are so many");
        assert!(progress.duplicates > 0, "nothing is nearly alike");
        let shard = |number| ProduceSettings {
            count: None,
            end: Some(600),
            shard: Some(ShardNumber { number, of: 2 }),
            ..whole.clone()
        };
        let shards = [0, 1].map(|number| {
            let path = folder.join(format!("shard-{number}"));
            made(&shard(number), &path).expect("it is made");
            path
        });
        let (merged, _) = crate::merge(&shards, &folder.join("merged"), Some(200), &mut |_| ControlFlow::Continue(()))
            .expect("they fit");
        // However few keys are in memory at a time, the same rows repeat others.
        let found =
            shards.each_ref().map(|path| DatasetManifest::read(path).expect("it can be read").expect("it is there"));
        let chunks: Vec<Located<'_>> = shards
            .iter()
            .zip(&found)
            .flat_map(|(path, manifest)| manifest.chunks.iter().map(move |chunk| (path.as_path(), chunk)))
            .collect();
        let twice = [&chunks[..], &chunks].concat();
        let all_at_once = repeats(&twice, DedupKey::Structure, 1 << 20).expect("it can be read");
        assert!(all_at_once.len() as u64 >= found.iter().map(DatasetManifest::rows).sum());
        for n_keys in [1, 7, 100] {
            assert_eq!(repeats(&twice, DedupKey::Structure, n_keys).expect("it can be read"), all_at_once);
        }
        let _ = std::fs::remove_dir_all(&folder);
        let files = |manifest: &DatasetManifest| -> Vec<String> {
            let files = manifest.chunks.iter().flat_map(|chunk| &chunk.files);
            files.map(|file| format!("{} {}", file.path, file.blake3)).collect()
        };
        assert_eq!(files(&merged), files(&expected));
    }

    #[test]
    fn ranges_of_indices_keep_what_is_nearly_alike() {
        let folder = std::env::temp_dir().join(format!("polyloom-alike-ranges-{}", std::process::id()));
        let range = |first, end| ProduceSettings { first, end: Some(end), count: None, ..few_alike() };
        let (whole, _) = made(&range(0, 120), &folder.join("whole")).expect("it is made");
        let parts = [(0, 50), (50, 120)].map(|(first, end)| {
            let path = folder.join(format!("from-{first}"));
            made(&range(first, end), &path).expect("it is made");
            path
        });
        let observe = &mut |_: &RunProgress| ControlFlow::Continue(());
        let (merged, _) = crate::merge(&parts, &folder.join("merged"), None, observe).expect("they fit");
        let _ = std::fs::remove_dir_all(&folder);
        assert_eq!((merged.chunks, merged.settings), (whole.chunks, whole.settings));
    }

    #[test]
    fn what_no_data_set_is_made_by_is_refused() {
        let refused = |settings: ProduceSettings| settings.check().err().unwrap_or_default();
        assert_eq!(refused(ProduceSettings::new(1, 0)), "");
        let mut part = ProduceSettings::new(0, 0);
        part.take_part(ShardNumber { number: 0, of: 2 });
        assert!(refused(part).starts_with("there are no indices from 0 on before 0"));
        let mut part = ProduceSettings::new(u64::MAX, 0);
        part.take_part(ShardNumber { number: 0, of: 2 });
        assert_eq!((part.end, refused(part)), (Some(u64::MAX), String::new()));
        let wrong = ProduceSettings { indices_per_chunk: 0, ..ProduceSettings::new(1, 0) };
        assert!(refused(wrong).starts_with("0 indices cannot be finished together"));
        let wrong = ProduceSettings { columns: vec!["score".to_owned()], ..ProduceSettings::new(1, 0) };
        assert_eq!(refused(wrong), "there is no column `score`");
    }

    #[test]
    fn a_run_that_finds_nothing_ends() {
        let folder = std::env::temp_dir().join(format!("polyloom-barren-{}", std::process::id()));
        // No kernel is taken, however many are tried.
        let settings = ProduceSettings {
            most_alike: Some(0),
            verify: crate::proof::ProofLevel::Parse,
            columns: vec!["id".to_owned()],
            categories: vec!["arithmetic".to_owned()],
            ..ProduceSettings::new(5, 1)
        };
        let error = made(&settings, &folder).err().map(|error| error.to_string()).unwrap_or_default();
        // Going on with it finds no more.
        let observe = &mut |_: &RunProgress| ControlFlow::Continue(());
        let how = RunOptions { jobs: 2, resume: true, excluded: &HashSet::new(), observe, emitter: None, source: None };
        let again = produce(&settings, &folder, how).err().map(|error| error.to_string()).unwrap_or_default();
        let _ = std::fs::remove_dir_all(&folder);
        assert!(again.starts_with("the last 1000 indices gave no row"), "{again}");
        assert!(error.starts_with("the last 1000 indices gave no row (the last of them: nearly_alike)"), "{error}");
        assert!(error.ends_with("the data set ends with 0 rows"), "{error}");
    }
}
