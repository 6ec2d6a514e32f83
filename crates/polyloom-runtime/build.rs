//! Names this build of the compiler for the code cache: the hash of the sources of all crates. Code cached by another
//! state of the compiler is then never taken for this one's, not even between two builds of one version.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    // Relative, as scripts run in the folder of their crate: what was built in a copy of the sources is not taken for this.
    let crates = Path::new("..");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(crates).into_iter().flatten().flatten() {
        let source = entry.path().join("src");
        println!("cargo::rerun-if-changed={}", source.display());
        collect(&source, &mut files);
    }
    files.sort();
    // `DefaultHasher::new` has fixed keys, so that equal sources give the same name.
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo::rustc-env=POLYLOOM_BUILD={:016x}", hasher.finish());
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
