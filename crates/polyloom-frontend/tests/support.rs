//! Compiling a source text in one call.

use polyloom_frontend::{CompileError, Compiled, FileEnvironment, Options, SourceUnit, compile_kernel};
use polyloom_ir::SourceFile;

/// What every test's source starts with.
pub(crate) const IMPORTS: &str = "import math\nimport numpy as np\nimport polyloom as loom\n";

/// Compiles the last kernel of a file.
pub(crate) fn compile_file(text: &str) -> Result<Compiled, CompileError> {
    let unit = SourceUnit::parse(SourceFile::new("test.py", text, 1))?;
    let environment = FileEnvironment::new(&unit);
    let kernel = unit.kernels().last().unwrap_or(0);
    compile_kernel(&environment.function(kernel), &Options::default())
}

/// Compiles the last kernel of a text that starts after [`IMPORTS`].
pub(crate) fn compile(text: &str) -> Result<Compiled, CompileError> {
    compile_file(&format!("{IMPORTS}{text}"))
}

/// The HIR of the last kernel of a text, and of the functions it calls.
pub(crate) fn hir(text: &str) -> String {
    match compile(text) {
        Ok(compiled) => compiled.module.to_string(),
        Err(error) => panic!("{error}"),
    }
}
