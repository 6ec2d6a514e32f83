//! Kernels that are found in files: each with what it needs of its file, and with inputs to be proved right by.

mod inputs;

use crate::generate::DatasetProgram;
use crate::proof::{Reason, RejectedProof};
use crate::verify::KernelVerifier;
use polyloom::{Kernel, SourceFile, SourceUnit};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// Files with kernels, read once. A kernel's index is its place in them, in the order of names and then of the text.
pub struct KernelFiles {
    kernels: Vec<FoundKernel>,
    fingerprint: String,
}

/// Why files cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {error}", path.display())]
pub struct SourceError {
    /// The file or folder.
    pub path: PathBuf,
    /// Holds what is wrong.
    pub error: io::Error,
}

/// A kernel of a file, or a file that has none because it cannot be read.
pub(crate) struct FoundKernel {
    /// The file's name, from the folder that was given.
    file: Arc<str>,
    text: FileText,
}

enum FileText {
    Kernel { unit: Arc<SourceUnit>, function: usize },
    Unreadable(String),
}

impl KernelFiles {
    /// The kernels of these files, and of all `.py` files in these folders and theirs, but not in those whose names
    /// begin with a dot. Files that are no Python are found as well, to be counted as rejected.
    ///
    /// # Errors
    ///
    /// If a folder or a file cannot be read.
    pub fn read(paths: &[PathBuf]) -> Result<KernelFiles, SourceError> {
        let mut source = KernelFiles { kernels: Vec::new(), fingerprint: String::new() };
        let mut hash = blake3::Hasher::new();
        for path in paths {
            let mut files = Vec::new();
            collect(path, &mut files)?;
            files.sort();
            for file in files {
                let relative = file.strip_prefix(path).ok().filter(|name| !name.as_os_str().is_empty());
                let name = relative.or(file.file_name().map(Path::new)).unwrap_or(&file);
                let name =
                    name.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/");
                let bytes = fs::read(&file).map_err(|error| SourceError { path: file.clone(), error })?;
                for part in [name.as_bytes(), &bytes] {
                    hash.update(&(part.len() as u64).to_le_bytes());
                    hash.update(part);
                }
                source.add(name.into(), bytes);
            }
        }
        source.fingerprint = hash.finalize().to_hex().to_string();
        Ok(source)
    }

    fn add(&mut self, file: Arc<str>, bytes: Vec<u8>) {
        let unit = match String::from_utf8(bytes) {
            Ok(text) => SourceUnit::parse(SourceFile::new(&*file, text, 1)).map_err(|error| error.to_string()),
            Err(error) => Err(format!("{file} is no text in UTF-8: {error}")),
        };
        match unit {
            Ok(unit) => self.kernels.extend(unit.kernels().map(|function| FoundKernel {
                file: file.clone(),
                text: FileText::Kernel { unit: unit.clone(), function },
            })),
            Err(what) => self.kernels.push(FoundKernel { file, text: FileText::Unreadable(what) }),
        }
    }

    /// Returns how many there are.
    pub fn len(&self) -> u64 {
        self.kernels.len() as u64
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// Returns what tells it from other files, for a run's settings.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(crate) fn get(&self, index: u64) -> Option<&FoundKernel> {
        self.kernels.get(usize::try_from(index).ok()?)
    }
}

/// A kernel that stands by itself.
pub(crate) struct KernelExcerpt {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) kernel: Kernel,
}

impl FoundKernel {
    /// The file, and the line that the kernel's definition begins in.
    pub(crate) fn origin(&self) -> String {
        match &self.text {
            FileText::Kernel { unit, function } => {
                let line = unit.functions().get(*function).map_or(0, |function| function.def_line);
                format!("{}:{line}", self.file)
            }
            FileText::Unreadable(_) => self.file.to_string(),
        }
    }

    /// The kernel with what it needs of its file, which is the same kernel by itself.
    pub(crate) fn excerpt(&self, verifier: &KernelVerifier) -> Result<KernelExcerpt, Box<RejectedProof>> {
        let (unit, function) = match &self.text {
            FileText::Kernel { unit, function } => (unit, *function),
            FileText::Unreadable(what) => return Err(RejectedProof::new(Reason::Rejected, what)),
        };
        let in_file = verifier.compile_function(unit, function)?;
        let (name, source) = (in_file.name().to_owned(), unit.excerpt(function));
        let kernel = verifier.compile(&name, &source)?;
        if kernel.hash() != in_file.hash() {
            let detail = "what it needs of its file cannot be taken out: a name is bound more than once, or late";
            return Err(RejectedProof::new(Reason::Rejected, detail));
        }
        Ok(KernelExcerpt { name, source, kernel })
    }
}

/// The programs that a kernel of unknown inputs may be: the same text, with one choice of inputs after the other. They
/// depend on the kernel alone.
pub(crate) fn programs<'a>(
    name: &'a str,
    source: &'a str,
    category: &'a str,
    kernel: &'a Kernel,
) -> impl Iterator<Item = DatasetProgram> + 'a {
    let difficulty = match source.lines().filter(|line| !line.trim().is_empty()).count() {
        0..8 => 0,
        8..16 => 1,
        16..28 => 2,
        28..48 => 3,
        _ => 4,
    };
    inputs::choices(kernel).map(move |(inputs, dim)| DatasetProgram {
        name: name.to_owned(),
        category: category.to_owned().into(),
        difficulty,
        source: source.to_owned(),
        inputs,
        dim,
    })
}

/// Returns true if other inputs may be what a kernel wants that was rejected for this.
pub(crate) fn depends_on_inputs(reason: Reason) -> bool {
    match reason {
        Reason::Trap
        | Reason::Endless
        | Reason::Sanitizer
        | Reason::GradientInexact
        | Reason::GradientNotFinite
        | Reason::NotFinite
        | Reason::Constant
        | Reason::Unused => true,
        Reason::Rejected
        | Reason::Failed
        | Reason::Disagreement
        | Reason::Gradient
        | Reason::Excluded
        | Reason::NoEffect
        | Reason::Panic => false,
    }
}

/// The `.py` files of a folder and those in it, or the file itself. Links to folders are not followed, because they may
/// lead round in a circle.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    let at = |error| SourceError { path: path.to_owned(), error };
    let kind = fs::metadata(path).map_err(at)?.file_type();
    if kind.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    // Otherwise one end of a pipe would wait for the other.
    if !kind.is_dir() {
        return Err(at(io::Error::other("is neither a file nor a folder")));
    }
    for entry in fs::read_dir(path).map_err(at)? {
        let entry = entry.map_err(at)?;
        let (inner, kind) = (entry.path(), entry.file_type().map_err(at)?);
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if kind.is_dir() && !is_hidden {
            collect(&inner, files)?;
        } else if !kind.is_dir() && inner.extension().is_some_and(|extension| extension == "py") && inner.is_file() {
            files.push(inner);
        }
    }
    Ok(())
}
