//! What stands beside the rows: `stats.json`, and `README.md`, the data card that the Hugging Face hub shows.

use crate::produce::{ChunkFiles, DatasetManifest, ProduceSettings, texts};
use crate::proof::ProofLevel;
use crate::statistics::{Histogram, RowHistograms};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Describes how many different kernels there are at each level, over how many rows there are.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct UniqueRatios {
    /// Different texts.
    pub exact: f64,
    /// Different code, whatever its names are.
    pub alpha: f64,
    /// Different code without names and values of constants.
    pub structure: f64,
}

/// Describes what `stats.json` holds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DatasetSummary {
    /// Number of rows there are.
    pub total_pairs: u64,
    /// Rows by category.
    pub by_category: Histogram,
    /// Lines of forward code a row.
    pub avg_forward_lines: f64,
    /// Lines of backward code a row that has any.
    pub avg_backward_lines: f64,
    /// Says how long the run took that finished the data set; of one put together of shards, those that finished the
    /// shards.
    pub generation_time_seconds: f64,
    /// Rows a second that were made in this time.
    pub pairs_per_second: f64,
    /// Number of kernels that are different.
    pub unique_ratio: UniqueRatios,
    /// Kernels that were not taken, by reason.
    pub rejects: Histogram,
    /// The level of verification that all rows have passed.
    pub verified: String,
    /// Says how rows are spread.
    pub histograms: RowHistograms,
}

impl DatasetSummary {
    /// The summary of a finished data set.
    pub(crate) fn new(manifest: &DatasetManifest, unique: UniqueRatios, made: u64, seconds: f64) -> DatasetSummary {
        let statistics = manifest.statistics.clone();
        let ratio = |sum: u64, n: u64| if n == 0 { 0.0 } else { sum as f64 / n as f64 };
        DatasetSummary {
            total_pairs: statistics.rows,
            by_category: statistics.categories.clone(),
            avg_forward_lines: ratio(statistics.forward_lines, statistics.rows),
            avg_backward_lines: ratio(statistics.backward_lines, statistics.with_backward),
            generation_time_seconds: seconds,
            pairs_per_second: made as f64 / seconds.max(1e-9),
            unique_ratio: unique,
            rejects: manifest.rejects(),
            verified: manifest.settings.verify.name().to_owned(),
            histograms: statistics.histograms,
        }
    }
}

/// The data card.
pub(crate) fn card(manifest: &DatasetManifest, unique: UniqueRatios) -> String {
    let ProduceSettings { seed, device, arch, columns, format, source, .. } = &manifest.settings;
    let statistics = &manifest.statistics;
    let n = statistics.rows;
    let size = match n {
        0..1_000 => "n<1K",
        1_000..10_000 => "1K<n<10K",
        10_000..100_000 => "10K<n<100K",
        100_000..1_000_000 => "100K<n<1M",
        1_000_000..10_000_000 => "1M<n<10M",
        10_000_000..100_000_000 => "10M<n<100M",
        100_000_000..1_000_000_000 => "100M<n<1B",
        _ => "n>1B",
    };
    // The licence is written as JSON, because a string of JSON is one of YAML.
    let license = source.as_ref().map_or("apache-2.0".to_owned(), |source| source.license.to_lowercase());
    let license = serde_json::Value::from(license);
    let mut text = format!("---\nlicense: {license}\ntask_categories:\n- text-generation\n");
    let _ = writeln!(text, "language:\n- code\ntags:\n- code\n- cuda\n- ptx\n- compilers\nsize_categories:\n- {size}");
    text.push_str("pretty_name: Verified Python and CUDA kernels\nconfigs:\n- config_name: default\n  data_files:\n");
    for split in manifest.splits() {
        let _ = writeln!(text, "  - split: {split}\n    path: data/{split}-*.{}", format.extension());
    }
    let origin = match source {
        Some(_) => "They were found in files, which\n`metadata` names.".to_owned(),
        None => {
            let timed = if manifest.settings.timings { ", but for how long rows took" } else { "" };
            format!("Generated from seed {seed}:\nthe same version, seed and settings give the same bytes{timed}.")
        }
    };
    let _ = write!(
        text,
        "---\n\n# Verified Python and CUDA kernels\n\n\
         {n} numerical kernels in Python, each with the code that Polyloom {} compiles it to, forward and backward, and\n\
         each proved right to the level `{}`. Code is for {}, PTX and LLVM IR for {arch}. {origin}\n\n",
        manifest.settings.polyloom,
        manifest.settings.verify.name(),
        if device == "both" {
            "GPUs and CPUs"
        } else if device == "cuda" {
            "GPUs"
        } else {
            "CPUs"
        },
    );
    let _ = writeln!(text, "| level | what a row has passed |\n|---|---|");
    let has_ptx_backward = texts(&manifest.settings).is_ok_and(|texts| texts.wants("ptx_backward"));
    for level in ProofLevel::ALL.into_iter().filter(|level| *level <= manifest.settings.verify) {
        let _ = writeln!(text, "| `{level}` | {} |", level.description(source.is_none(), has_ptx_backward));
    }
    let with_nvrtc = |chunk: &&ChunkFiles| chunk.nvrtc.is_some();
    let versions: BTreeSet<&str> = manifest.chunks.iter().filter_map(|chunk| chunk.nvrtc.as_deref()).collect();
    if !versions.is_empty() {
        let n = manifest.chunks.iter().filter(with_nvrtc).fold(0, |sum: u64, chunk| sum.saturating_add(chunk.rows));
        let versions = versions.into_iter().collect::<Vec<_>>().join(" and ");
        let _ = writeln!(text, "\nNVRTC {versions} has compiled the CUDA C++ of {n} rows, forward and backward.");
    }
    let _ = writeln!(
        text,
        "\nDifferent kernels: {:.1} % by text, {:.1} % with names taken out, {:.1} % with constants \
         taken out too.\n\n| category | rows |\n|---|---|",
        100.0 * unique.exact,
        100.0 * unique.alpha,
        100.0 * unique.structure
    );
    for (name, n) in &statistics.categories {
        let _ = writeln!(text, "| {name} | {n} |");
    }
    text.push_str("\nNo level covers C++, which is written and not compiled.\n");
    let _ = writeln!(
        text,
        "\nColumns: {}.\n",
        columns.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    );
    text.push_str("The parts are told apart by the hash of a kernel's structure: no structure is in two of them.\n");
    text
}
