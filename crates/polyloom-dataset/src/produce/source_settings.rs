//! The setting that says where kernels are found which are not generated.

use serde::{Deserialize, Serialize};

/// Says where kernels are found, and what rows say of that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSettings {
    /// The BLAKE3 hash of the files: [`KernelFiles::fingerprint`](crate::KernelFiles::fingerprint).
    pub fingerprint: String,
    /// The category of all rows.
    pub category: String,
    /// The licence of all rows, as SPDX names it.
    pub license: String,
}
