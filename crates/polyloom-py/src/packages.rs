//! Where this Python keeps its packages: NVIDIA's bring an assembler.

use pyo3::prelude::*;
use std::path::PathBuf;

/// Tells the runtime, before it looks for NVIDIA's tools.
pub(crate) fn tell(py: Python<'_>) -> PyResult<()> {
    // Entries that are no strings are not Python's to import from either.
    let entries = py.import("sys")?.getattr("path")?.try_iter()?.filter_map(|entry| entry.ok()?.extract().ok());
    polyloom::set_package_folders(entries.filter(|entry: &PathBuf| entry.join("nvidia").is_dir()).collect());
    Ok(())
}
