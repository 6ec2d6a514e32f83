//! Kernels that no row may be like: those of a test that a model is to be judged by.

use crate::row::Row;
use crate::text::hashes;
use crate::verify::Verifier;
use polyloom::{Arch, CompileError, SessionError, SourceFile, SourceUnit};
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
        /// What is wrong.
        error: io::Error,
    },
    /// A kernel of a file cannot be compiled, so that nothing is known of its structure.
    #[error("{}: {what}", path.display())]
    Kernel {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A back end does not work here.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// The structures of all kernels of these files: `.py`, or `.jsonl` with rows of a data set.
///
/// # Errors
///
/// [`ExcludeError`].
pub fn structures(files: &[PathBuf]) -> Result<HashSet<u128>, ExcludeError> {
    let verifier = Verifier::new(Arch::DEFAULT)?;
    let mut found = HashSet::new();
    for path in files {
        let text = std::fs::read_to_string(path).map_err(|error| ExcludeError::File { path: path.clone(), error })?;
        let wrong = |what: String| ExcludeError::Kernel { path: path.clone(), what };
        let mut add = |source: &str, name: &str| -> Result<(), ExcludeError> {
            let kernel = verifier.compile(name, source).map_err(|reject| wrong(reject.detail))?;
            found.insert(u128::from_str_radix(&hashes(source, &kernel).structure, 16).unwrap_or_default());
            Ok(())
        };
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            for (line, text) in text.lines().enumerate() {
                let row: Row =
                    serde_json::from_str(text).map_err(|error| wrong(format!("line {}: {error}", line + 1)))?;
                add(&row.python_source, &row.kernel_name)?;
            }
        } else {
            for name in kernels(path, &text).map_err(|error| wrong(error.to_string()))? {
                add(&text, &name)?;
            }
        }
    }
    Ok(found)
}

/// The names of a file's kernels.
pub(crate) fn kernels(path: &Path, text: &str) -> Result<BTreeSet<String>, CompileError> {
    let unit = SourceUnit::parse(SourceFile::new(path.to_string_lossy().as_ref(), text, 1))?;
    let names = unit.kernels().filter_map(|index| unit.functions().get(index));
    Ok(names.map(|function| function.name.to_string()).collect())
}

/// What tells sets of structures from each other, for a run's settings.
pub fn fingerprint(structures: &HashSet<u128>) -> Option<String> {
    let sorted: BTreeSet<u128> = structures.iter().copied().collect();
    let bytes: Vec<u8> = sorted.into_iter().flat_map(u128::to_le_bytes).collect();
    (!bytes.is_empty()).then(|| blake3::hash(&bytes).to_hex().to_string())
}
