//! The kernels and indices that become no row, with the reasons, and the records in which files list them.

use super::row_keys::Key;
use crate::generate::DatasetProgram;
use crate::proof::RejectedProof;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Why an index has no row whose every kernel was rejected.
pub(crate) const GIVEN_UP: &str = "given_up";
/// Why a row is not taken that is like one that is.
pub(crate) const DUPLICATE: &str = "duplicate";
/// Why a row is not taken that too many are nearly like.
pub(crate) const NEARLY_ALIKE: &str = "nearly_alike";

/// A kernel that was not taken.
pub(super) struct RejectedKernel {
    pub(super) category: Cow<'static, str>,
    pub(super) origin: Option<String>,
    pub(super) source: Option<String>,
    pub(super) reject: Box<RejectedProof>,
}

impl RejectedKernel {
    pub(super) fn program(program: DatasetProgram, reject: Box<RejectedProof>) -> RejectedKernel {
        RejectedKernel { category: program.category, origin: None, source: Some(program.source), reject }
    }
}

/// Why a kernel is no row, or an index has none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RejectRecord {
    pub(crate) index: u64,
    pub(crate) reason: String,
    /// Holds what tells the kernel from others, if it is a duplicate: its hash, as hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    python_source: Option<String>,
}

impl RejectRecord {
    /// An index without a row.
    pub(crate) fn of_index(index: u64, reason: &str) -> RejectRecord {
        RejectRecord {
            index,
            reason: reason.to_owned(),
            key: None,
            category: None,
            origin: None,
            detail: None,
            python_source: None,
        }
    }

    /// An index whose kernel a row is like.
    pub(crate) fn duplicate(index: u64, key: Key) -> RejectRecord {
        RejectRecord { key: Some(format!("{key:032x}")), ..RejectRecord::of_index(index, DUPLICATE) }
    }

    pub(super) fn of_kernel(index: u64, rejected: &RejectedKernel) -> RejectRecord {
        let RejectedKernel { category, origin, source, reject } = rejected;
        RejectRecord {
            category: Some(category.to_string()),
            origin: origin.clone(),
            detail: Some(reject.detail.clone()),
            python_source: source.clone(),
            ..RejectRecord::of_index(index, reject.reason.name())
        }
    }

    /// Returns true if it is of this kernel.
    pub(crate) fn is_of(&self, program: &DatasetProgram) -> bool {
        let (category, source) = (self.category.as_deref(), self.python_source.as_deref());
        (category, source) == (Some(&*program.category), Some(&*program.source))
    }

    /// Returns what tells the kernel from others, if it is a duplicate.
    pub(crate) fn key(&self) -> Option<Key> {
        Key::from_str_radix(self.key.as_deref()?, 16).ok()
    }
}
