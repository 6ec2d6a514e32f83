//! Kernels that no row may be like: those of a test that a model is to be judged by.

use crate::produce::{FileFormat, read_lines};
use crate::proof::caught;
use crate::text::hashes;
use crate::verify::KernelVerifier;
use polyloom::{Arch, CompileError, SessionError, SourceFile, SourceUnit};
use serde::Deserialize;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// Why kernels cannot be left out.
#[derive(Debug, thiserror::Error)]
pub enum ExcludeError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Holds what is wrong.
        error: io::Error,
    },
    /// A kernel of a file cannot be compiled, so that nothing is known of its structure.
    #[error("{}: {what}", path.display())]
    Kernel {
        /// The file.
        path: PathBuf,
        /// Holds what is wrong.
        what: String,
    },
    /// A back end does not work here.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Describes what counts of a line of JSON: there may be more.
#[derive(Deserialize)]
struct ToExclude {
    python_source: String,
    kernel_name: Option<String>,
}

/// The structures of all kernels of these files: `.py`, or `.jsonl`, `.jsonl.zst` or `.parquet` of objects with
/// `python_source`, such as the rows of a data set; without `kernel_name`, all kernels of that.
///
/// # Errors
///
/// [`ExcludeError`].
pub fn structures(files: &[PathBuf]) -> Result<HashSet<u128>, ExcludeError> {
    let verifier = KernelVerifier::new(Arch::DEFAULT)?;
    let mut found = HashSet::new();
    for path in files {
        let unread = |error| ExcludeError::File { path: path.clone(), error };
        // Otherwise one end of a pipe would wait for the other.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(unread(io::Error::other("it is no file")));
        }
        let wrong = |what: String| ExcludeError::Kernel { path: path.clone(), what };
        let mut add = |source: &str, name: &str| -> Result<(), String> {
            let kernel = caught(|| verifier.compile(name, source)).map_err(|reject| reject.detail)?;
            found.insert(u128::from_str_radix(&hashes(source, &kernel).structure, 16).unwrap_or_default());
            Ok(())
        };
        let mut n_kernels = 0;
        match format(path) {
            Some(format) => {
                for (line, text) in read_lines(path, format).map_err(unread)?.enumerate() {
                    let text = text.map_err(unread)?;
                    if text.trim_ascii().is_empty() {
                        continue;
                    }
                    let at_line = |what: String| wrong(format!("line {}: {what}", line + 1));
                    let row: ToExclude = serde_json::from_slice(&text).map_err(|error| at_line(error.to_string()))?;
                    let names = match row.kernel_name {
                        Some(name) => BTreeSet::from([name]),
                        None => kernels(path, &row.python_source).map_err(|error| at_line(error.to_string()))?,
                    };
                    for name in names {
                        add(&row.python_source, &name).map_err(at_line)?;
                        n_kernels += 1;
                    }
                }
            }
            None if path.extension().is_some_and(|extension| extension == "py") => {
                let text = std::fs::read_to_string(path).map_err(unread)?;
                for name in kernels(path, &text).map_err(|error| wrong(error.to_string()))? {
                    add(&text, &name).map_err(wrong)?;
                    n_kernels += 1;
                }
            }
            None => {
                let message = "kernels to leave out are in files of .py, .jsonl, .jsonl.zst or .parquet";
                return Err(wrong(message.to_owned()));
            }
        }
        if n_kernels == 0 {
            return Err(wrong("has no kernel to leave out".to_owned()));
        }
    }
    Ok(found)
}

/// The format of a file of rows, by how its name ends.
fn format(path: &Path) -> Option<FileFormat> {
    let name = path.file_name()?.to_string_lossy();
    let all = [FileFormat::Jsonl, FileFormat::JsonlZstd, FileFormat::Parquet];
    all.into_iter().find(|format| name.ends_with(&format!(".{}", format.extension())))
}

/// The names of a file's kernels.
pub(crate) fn kernels(path: &Path, text: &str) -> Result<BTreeSet<String>, CompileError> {
    let unit = SourceUnit::parse(SourceFile::new(path.to_string_lossy().as_ref(), text, 1))?;
    let names = unit.kernels().filter_map(|index| unit.functions().get(index));
    Ok(names.map(|function| function.name.to_string()).collect())
}

/// Returns what tells sets of structures from each other, for a run's settings.
pub fn fingerprint(structures: &HashSet<u128>) -> Option<String> {
    let sorted: BTreeSet<u128> = structures.iter().copied().collect();
    let bytes: Vec<u8> = sorted.into_iter().flat_map(u128::to_le_bytes).collect();
    (!bytes.is_empty()).then(|| blake3::hash(&bytes).to_hex().to_string())
}
