//! `.loom` files on disk, with those that they import.

use polyloom_frontend::{CompileError, SourceUnit};
use polyloom_ir::SourceFile;
use std::path::Path;
use std::sync::Arc;

/// Reads a `.loom` file whose text is known; those that it imports are read from its folder.
///
/// # Errors
///
/// All that is wrong with it, or with a file that it imports.
pub fn read_loom(name: &str, text: &str) -> Result<Arc<SourceUnit>, CompileError> {
    SourceUnit::parse_loom(SourceFile::new(name, text, 1), &load_import)
}

/// Reads the file that another imports, which names it from its own folder.
fn load_import(importer: &str, path: &str) -> Result<(String, String), String> {
    let folder = Path::new(importer).parent().unwrap_or(Path::new(""));
    let path = folder.join(path);
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    Ok((path.to_string_lossy().into_owned(), text))
}
