//! The files of keys of finished chunks, as they are read.

use super::manifest::{ChunkFiles, DatasetManifest, FileRecord, read_file};
use super::row_keys::RowKeys;
use std::path::Path;
use std::{fs, io};

/// Hands over the keys of all rows of a folder.
pub(super) fn read_keys(manifest: &DatasetManifest, folder: &Path, mut take: impl FnMut(RowKeys)) -> io::Result<()> {
    for chunk in &manifest.chunks {
        read_chunk_keys(chunk, folder)?.into_iter().for_each(&mut take);
    }
    Ok(())
}

/// Returns the number of keys the files of a chunk hold.
pub(crate) fn count_chunk_keys(chunk: &ChunkFiles, folder: &Path) -> io::Result<u64> {
    let bytes = key_files(chunk).map(|file| Ok(fs::metadata(folder.join(&file.path))?.len()));
    Ok(bytes.sum::<io::Result<u64>>()? / RowKeys::BYTES as u64)
}

fn key_files(chunk: &ChunkFiles) -> impl Iterator<Item = &FileRecord> {
    chunk.files.iter().filter(|file| file.path.starts_with("keys/"))
}

/// The keys of the rows of a chunk, in order.
pub(crate) fn read_chunk_keys(chunk: &ChunkFiles, folder: &Path) -> io::Result<Vec<RowKeys>> {
    let mut keys = Vec::new();
    for file in key_files(chunk) {
        let bytes = read_file(&folder.join(&file.path))?;
        if blake3::hash(&bytes).to_hex().as_str() != file.blake3 || bytes.len() % RowKeys::BYTES != 0 {
            return Err(file.changed());
        }
        keys.extend(bytes.as_chunks::<{ RowKeys::BYTES }>().0.iter().map(RowKeys::from_bytes));
    }
    Ok(keys)
}
