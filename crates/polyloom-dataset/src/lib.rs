//! Data sets of kernels: what they are made of, proved right by, and written as.
//!
//! [`generate`] writes kernels and [`KernelFiles`] finds them in files, [`verify`] proves them right by running them, [`Row`]
//! is what a data set holds of one.
//! [`produce`] does all three for as many as are asked for.

mod card;
mod catalogue;
mod effect;
mod exclude;
mod found;
mod generate;
mod merge;
mod number_range;
mod produce;
mod proof;
mod repeats;
mod row;
mod similarity;
mod statistics;
mod text;
mod tools;
mod validate;
mod verify;
mod whole_number;

pub use card::{DatasetSummary, UniqueRatios};
pub use exclude::{ExcludeError, fingerprint, structures};
pub use found::{KernelFiles, SourceError};
pub use generate::{Category, DatasetProgram, InputValues, ProgramExtent, ProgramInput, UnknownCategory, generate};
pub use merge::{columns_to_merge_by, merge};
pub use produce::{
    ChunkFiles, DatasetManifest, DedupKey, FileFormat, FileRecord, ProduceError, ProduceSettings, RunOptions,
    RunProgress, ShardNumber, SourceSettings, produce, rows,
};
pub use proof::{ProofLevel, Reason, RejectedProof};
pub use row::{COLUMNS, EXTRA_COLUMNS, KernelHashes, Row, RowMetadata, ToolVersions, all_columns};
pub use statistics::{Histogram, RowStatistics};
pub use text::{DeviceColumns, GpuCode, KernelTexts, backward};
pub use tools::{Emit, WarpEmitter, wants_warp};
pub use validate::{
    DatasetMetrics, ValidateError, ValidationFinding, ValidationReport, columns_to_validate_by, validate,
};
pub use verify::KernelVerifier;
