//! What a run is asked for.

use super::source_settings::SourceSettings;
use crate::found::KernelFiles;
use crate::generate::{Category, GENERATOR};
use crate::proof::ProofLevel;
use crate::row::{COLUMNS, all_columns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The keys of a chunk are in memory at a time.
const MOST_INDICES_PER_CHUNK: u64 = 1_000_000;

/// Describes what decides which rows a run writes, byte for byte. Two runs of equal settings write the same files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProduceSettings {
    /// The compiler's version.
    pub polyloom: String,
    /// The generator's version.
    pub generator: u32,
    /// The seed.
    pub seed: u64,
    /// The first index.
    pub first: u64,
    /// The index after the last; none if there are as many as it takes.
    pub end: Option<u64>,
    /// Number of rows that are wanted; none if it is as many as the indices give, as it is of a shard.
    pub count: Option<u64>,
    /// The categories, dealt out in turn.
    pub categories: Vec<String>,
    /// The level that a row must pass.
    pub verify: ProofLevel,
    /// Whether, at the highest level, NVRTC compiles the CUDA C++ of every row, where it is installed. Chunks say whether
    /// it was.
    #[serde(default)]
    pub nvrtc: bool,
    /// Holds what tells rows from each other: `exact`, `alpha` or `structure`.
    pub dedup: DedupKey,
    /// Number of kernels that are nearly alike are taken, where so many rows are wanted; none if there is no limit. Of
    /// runs of some indices, whatever they give, merging takes so many, if it is to give so many rows.
    pub most_alike: Option<u8>,
    /// `cuda`, `cpu` or `both`.
    pub device: String,
    /// The architecture of PTX and LLVM IR.
    pub arch: String,
    /// The columns.
    pub columns: Vec<String>,
    /// The versions of NVIDIA's tools that make columns, by name. A run finds them itself.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
    /// Indices of a chunk: of the files that are finished together.
    pub indices_per_chunk: u64,
    /// Says which chunks the run makes, if others make the rest.
    pub shard: Option<ShardNumber>,
    /// The BLAKE3 hash of the structures that no row may have, if there are any.
    pub excluded: Option<String>,
    /// The files that kernels are found in; none if they are generated.
    #[serde(default)]
    pub source: Option<SourceSettings>,
    /// True if rows say how long they took to make, in which no two runs are alike.
    #[serde(default)]
    pub timings: bool,
    /// The format of the files.
    pub format: FileFormat,
}

/// One of several runs that make a data set together: that of the chunks `number`, `number + of` and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardNumber {
    /// Says which run, from 0.
    pub number: u64,
    /// Number of runs there are.
    pub of: u64,
}

/// Describes what tells rows from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DedupKey {
    /// The text.
    Exact,
    /// The code, whatever its names are.
    Alpha,
    /// The code without its names and the values of its constants.
    Structure,
}

/// The format of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// Lines of JSON.
    Jsonl,
    /// The same, compressed by zstd.
    #[serde(rename = "jsonl.zst")]
    JsonlZstd,
    /// Parquet.
    Parquet,
}

impl FileFormat {
    /// Returns how the names of its files end.
    pub fn extension(self) -> &'static str {
        match self {
            FileFormat::Jsonl => "jsonl",
            FileFormat::JsonlZstd => "jsonl.zst",
            FileFormat::Parquet => "parquet",
        }
    }
}

impl ProduceSettings {
    /// So many rows of all categories from this seed, verified to the highest level.
    pub fn new(count: u64, seed: u64) -> ProduceSettings {
        ProduceSettings {
            polyloom: env!("CARGO_PKG_VERSION").to_owned(),
            generator: GENERATOR,
            seed,
            first: 0,
            end: None,
            count: Some(count),
            categories: Category::ALL.iter().map(|category| category.name().to_owned()).collect(),
            verify: ProofLevel::ALL[ProofLevel::ALL.len() - 1],
            nvrtc: true,
            dedup: DedupKey::Structure,
            most_alike: Some(50),
            device: "both".to_owned(),
            arch: polyloom::Arch::DEFAULT.to_string(),
            columns: COLUMNS.map(str::to_owned).to_vec(),
            tools: BTreeMap::new(),
            indices_per_chunk: 10_000,
            shard: None,
            excluded: None,
            source: None,
            timings: false,
            format: FileFormat::Jsonl,
        }
    }

    /// Refuses what no data set is made by.
    ///
    /// # Errors
    ///
    /// What it is.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.count == Some(0) {
            return Err("the count is 0: a data set has one row at least".to_owned());
        }
        if let Some(end) = self.end.filter(|end| *end <= self.first) {
            return Err(format!(
                "there are no indices from {} on before {end}: a data set has one at least",
                self.first
            ));
        }
        if !(1..=MOST_INDICES_PER_CHUNK).contains(&self.indices_per_chunk) {
            let n = self.indices_per_chunk;
            return Err(format!("{n} indices cannot be finished together: it is from 1 to {MOST_INDICES_PER_CHUNK}"));
        }
        if let Some(ShardNumber { number, of }) = self.shard.filter(|shard| shard.number >= shard.of) {
            return Err(format!("there is no shard {number} of {of}: the first is 0"));
        }
        if let Some(column) = self.columns.iter().find(|column| !all_columns().any(|name| name == column.as_str())) {
            return Err(format!("there is no column `{column}`"));
        }
        if self.columns.is_empty() {
            return Err("a row has one column at least".to_owned());
        }
        let Some(SourceSettings { category, license, .. }) = &self.source else { return Ok(()) };
        for (what, text) in [("category", category), ("licence", license)] {
            if text.trim().is_empty() || text.contains(char::is_control) {
                return Err(format!("the {what} {text:?} is no name: it is empty or has a line end"));
            }
        }
        Ok(())
    }

    /// Makes one of several parts. So many indices as there are rows wanted in all give as many, with room for those that
    /// are known already; merging takes no more than are wanted.
    pub fn take_part(&mut self, shard: ShardNumber) {
        let n_indices = |count: u64| count.saturating_add(count / 4).checked_next_multiple_of(self.indices_per_chunk);
        self.end = self.count.take().map(|count| n_indices(count).unwrap_or(u64::MAX));
        self.shard = Some(shard);
    }

    /// Takes kernels from files instead of generating them.
    pub fn take_from(&mut self, source: &KernelFiles, category: &str, license: &str) {
        let fingerprint = source.fingerprint().to_owned();
        self.source = Some(SourceSettings { fingerprint, category: category.to_owned(), license: license.to_owned() });
        self.categories.clear();
        self.end = Some(self.end.map_or(source.len(), |end| end.min(source.len())));
    }

    /// The indices that the run goes through, from the first that is not before `from`.
    pub(crate) fn indices(&self, from: u64) -> impl Iterator<Item = u64> + Send {
        let settings = self.clone();
        std::iter::successors(settings.next_index(from), move |&index| settings.next_index(index.checked_add(1)?))
    }

    /// The first index of the run that is not before `from`.
    pub(crate) fn next_index(&self, from: u64) -> Option<u64> {
        let from = from.max(self.first);
        let ahead = self.shard.map_or(0, |ShardNumber { number, of }| {
            let behind = from / self.indices_per_chunk % of;
            if behind <= number { number - behind } else { of - behind + number }
        });
        let index = match ahead {
            0 => from,
            _ => (from / self.indices_per_chunk).checked_add(ahead)?.checked_mul(self.indices_per_chunk)?,
        };
        (index < self.end.unwrap_or(u64::MAX)).then_some(index)
    }

    /// The settings that are not the same in both, each with both values.
    pub fn differences(&self, other: &ProduceSettings) -> Vec<String> {
        let fields = |settings: &ProduceSettings| match serde_json::to_value(settings) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let (mine, theirs) = (fields(self), fields(other));
        let differs = mine.iter().filter(|(name, value)| theirs.get(*name) != Some(value));
        differs.map(|(name, value)| format!("{name}: {} there, {value} here", theirs[name])).collect()
    }
}
