//! The keys by which a row is told from others, and the part of the data set that they put it in.

use super::settings::DedupKey;
use crate::row::KernelHashes;
use crate::similarity::Bands;
use serde::{Deserialize, Serialize};

/// A structural hash, or another that tells rows from each other.
pub(crate) type Key = u128;

/// Parts of a data set, and how many of a hundred structures are in each.
pub(crate) const SPLITS: [(&str, u128); 3] = [("train", 90), ("validation", 5), ("test", 5)];

/// The part of the data set that a structure belongs to, wherever and whenever it is generated.
fn split(structure: Key) -> usize {
    let mut at = structure % 100;
    for (split, (_, share)) in SPLITS.iter().enumerate() {
        if at < *share {
            return split;
        }
        at -= share;
    }
    0
}

/// The name of the part of the data set that a structure belongs to.
pub(crate) fn split_name(structure: &str) -> &'static str {
    SPLITS[split(Key::from_str_radix(structure, 16).unwrap_or_default())].0
}

/// By which a row is told from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RowKeys {
    pub(super) exact: Key,
    pub(super) alpha: Key,
    pub(super) structure: Key,
    pub(crate) bands: Bands,
    pub(crate) index: u64,
}

impl RowKeys {
    pub(super) const BYTES: usize = 88;

    pub(crate) fn of(hashes: &KernelHashes, bands: Bands, index: u64) -> RowKeys {
        let key = |digits: &str| Key::from_str_radix(digits, 16).unwrap_or_default();
        let KernelHashes { exact, alpha, structure } = hashes;
        RowKeys { exact: key(exact), alpha: key(alpha), structure: key(structure), bands, index }
    }

    /// Returns which part of the data set the row belongs to.
    pub(crate) fn split(&self) -> usize {
        split(self.structure)
    }

    /// The one that counts.
    pub(crate) fn key(&self, dedup: DedupKey) -> Key {
        match dedup {
            DedupKey::Exact => self.exact,
            DedupKey::Alpha => self.alpha,
            DedupKey::Structure => self.structure,
        }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let hashes = [self.exact, self.alpha, self.structure].into_iter().flat_map(Key::to_le_bytes);
        hashes.chain(self.bands.into_iter().chain([self.index]).flat_map(u64::to_le_bytes)).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8; RowKeys::BYTES]) -> RowKeys {
        let (hashes, bands) = bytes.split_at(48);
        let mut hashes = hashes.as_chunks::<16>().0.iter().map(|bytes| Key::from_le_bytes(*bytes));
        let mut hash = || hashes.next().unwrap_or_default();
        let mut numbers = bands.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut number = || numbers.next().unwrap_or_default();
        let (exact, alpha, structure) = (hash(), hash(), hash());
        let bands = [number(), number(), number(), number()];
        RowKeys { exact, alpha, structure, bands, index: number() }
    }
}
