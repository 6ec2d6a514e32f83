//! What there is to say of a file before anything of it is compiled.

use polyloom_frontend::{CheckedFile, CompileError, FrontendOptions, SourceUnit};
use polyloom_ir::{Diagnostic, SourceMap};
use polyloom_passes::autodiff::write_gradients;
use std::sync::Arc;

/// Checks every kernel and every function of a file whose annotations say all its types. Gives warnings, and the errors
/// of derivatives that functions ask for by `grad`, which the front end does not know.
///
/// # Errors
///
/// All errors that the front end finds, each once.
pub fn check_file(
    unit: &Arc<SourceUnit>,
    options: &FrontendOptions,
) -> Result<(Vec<Diagnostic>, SourceMap), CompileError> {
    let CheckedFile { mut module, gradients, warnings: mut diagnostics, sources } =
        polyloom_frontend::check_file(unit, options)?;
    if let Err(errors) = write_gradients(&mut module, &gradients) {
        diagnostics.extend(errors);
    }
    Ok((diagnostics, sources))
}
