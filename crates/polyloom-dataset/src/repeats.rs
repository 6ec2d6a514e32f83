//! Which rows are like earlier ones, for any number of rows: their keys are gone through once for each part of them, those
//! with the same last bits, so that no more than a part's are in memory.

use crate::produce::{ChunkFiles, DedupKey, Key, count_chunk_keys, read_chunk_keys};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// About as many keys are in memory at a time.
pub(crate) const KEYS_AT_A_TIME: u64 = 1 << 20;

/// A chunk with the folder that its files are in.
pub(crate) type Located<'a> = (&'a Path, &'a ChunkFiles);

/// The folder whose keys cannot be read, and why.
pub(crate) type Unread = (PathBuf, io::Error);

/// Hands over the keys of a part of the rows, each with the row's number in the order of all chunks; then the next part's.
/// Rows with the same key are in the same part. `end` is told of the end of each part.
fn by_parts<S: Default>(
    chunks: &[Located<'_>],
    dedup: DedupKey,
    keys_at_a_time: u64,
    mut take: impl FnMut(&mut S, u64, Key),
    mut end: impl FnMut(S),
) -> Result<(), Unread> {
    let unread = |folder: &Path| {
        let folder = folder.to_owned();
        move |error| (folder, error)
    };
    // Not what manifests say, because they may be anybody's.
    let mut n_rows = 0;
    for (folder, chunk) in chunks {
        n_rows += count_chunk_keys(chunk, folder).map_err(unread(folder))?;
    }
    let n_parts = n_rows.div_ceil(keys_at_a_time).max(1).next_power_of_two();
    for part in 0..n_parts {
        let mut state = S::default();
        let mut number = 0;
        for (folder, chunk) in chunks {
            for keys in read_chunk_keys(chunk, folder).map_err(unread(folder))? {
                let key = keys.key(dedup);
                // A hash, because any of its bits are as good as others.
                if key as u64 & (n_parts - 1) == part {
                    take(&mut state, number, key);
                }
                number += 1;
            }
        }
        end(state);
    }
    Ok(())
}

/// The numbers of rows that have the key of an earlier one, with the number of the first that has it.
pub(crate) fn repeats(
    chunks: &[Located<'_>],
    dedup: DedupKey,
    keys_at_a_time: u64,
) -> Result<HashMap<u64, u64>, Unread> {
    let mut repeats = HashMap::new();
    let take = |firsts: &mut HashMap<Key, u64>, number, key| {
        let first = *firsts.entry(key).or_insert(number);
        if first != number {
            repeats.insert(number, first);
        }
    };
    by_parts(chunks, dedup, keys_at_a_time, take, drop)?;
    Ok(repeats)
}

/// Returns the number of different keys the rows have.
pub(crate) fn n_different(chunks: &[Located<'_>], dedup: DedupKey) -> Result<u64, Unread> {
    let mut n = 0;
    let take = |keys: &mut Vec<Key>, _, key| keys.push(key);
    let end = |mut keys: Vec<Key>| {
        keys.sort_unstable();
        keys.dedup();
        n += keys.len() as u64;
    };
    by_parts(chunks, dedup, KEYS_AT_A_TIME, take, end)?;
    Ok(n)
}
