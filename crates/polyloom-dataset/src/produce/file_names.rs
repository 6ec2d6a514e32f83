//! The names of a data set's files, and of the folders that they are in.

use super::row_keys::SPLITS;
use super::settings::FileFormat;

/// The folders that files are in.
pub(crate) const FOLDERS: [&str; 3] = ["data", "rejects", "keys"];

/// Says how the names of files end that are not complete.
pub(super) const TEMPORARY: &str = ".tmp";

/// Returns true if a path is that of a file of a chunk.
pub(crate) fn is_file_name(path: &str) -> bool {
    let Some((folder, name)) = path.split_once('/') else { return false };
    let Some((stem, extension)) = name.split_once('.') else { return false };
    let number = match folder {
        "data" => {
            let is_known = [FileFormat::Jsonl, FileFormat::JsonlZstd, FileFormat::Parquet]
                .iter()
                .any(|f| f.extension() == extension);
            let mut numbers = SPLITS.iter().filter_map(|(split, _)| stem.strip_prefix(split)?.strip_prefix('-'));
            numbers.next().filter(|_| is_known)
        }
        "rejects" => Some(stem).filter(|_| extension == "jsonl"),
        _ => Some(stem).filter(|_| folder == "keys" && extension == "bin"),
    };
    number.is_some_and(|digits| digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
