//! Ops by their names.

use super::{TensorOp, TensorOpInfo, table};
use crate::error::GraphError;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

impl TensorOp {
    /// Finds an op by its name or an alias.
    ///
    /// # Errors
    ///
    /// [`GraphError::UnknownOp`], with the op of the nearest name.
    pub fn from_name(name: &str) -> Result<TensorOp, GraphError> {
        static NAMES: LazyLock<FxHashMap<&'static str, TensorOp>> = LazyLock::new(|| {
            let names = |info: &'static TensorOpInfo| std::iter::once(info.name).chain(info.aliases.iter().copied());
            table::TABLE.iter().flat_map(|info| names(info).map(|name| (name, info.op))).collect()
        });
        NAMES.get(name).copied().ok_or_else(|| {
            let shared = |other: &str| other.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
            let candidates = NAMES.keys().copied().filter(|other| shared(other) >= 2);
            // The length decides between names that begin alike, and the alphabet in the end, so that the text is stable.
            let nearest = candidates.max_by_key(|other| {
                (shared(other), std::cmp::Reverse(other.len().abs_diff(name.len())), std::cmp::Reverse(*other))
            });
            GraphError::UnknownOp { name: name.to_owned(), nearest }
        })
    }
}
