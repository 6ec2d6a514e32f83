//! Data sets of kernels: what they are made of, proved right by, and written as.
//!
//! [`generate`] writes kernels and [`Source`] finds them in files, [`verify`] proves them right by running them, [`Row`]
//! is what a data set holds of one.
//! [`produce`] does all three for as many as are asked for.

mod card;
mod effect;
mod exclude;
mod found;
mod generate;
mod merge;
mod produce;
mod repeats;
mod row;
mod similarity;
mod statistics;
mod text;
mod tools;
mod validate;
mod verify;

pub use card::{Summary, UniqueRatios};
pub use exclude::{ExcludeError, fingerprint, structures};
pub use found::{Source, SourceError};
pub use generate::{Category, Extent, Input, Program, UnknownCategory, Values, generate};
pub use merge::{columns_to_merge_by, merge};
pub use produce::{
    Chunk, Dedup, FileRecord, Format, How, Manifest, ProduceError, Progress, Settings, Shard, SourceSettings, produce,
    rows,
};
pub use row::{COLUMNS, EXTRA_COLUMNS, Hashes, Metadata, Row, Versions, all_columns};
pub use statistics::{Histogram, Statistics};
pub use text::{Device, GpuCode, Texts, backward};
pub use tools::{Emit, Emitter, wants_warp};
pub use validate::{Finding, Metrics, Quality, ValidateError, columns_to_validate_by, validate};
pub use verify::{Level, Reason, Reject, Verifier};
