//! `test cpp` and `test cuda`: kernels as C++ and CUDA C++ text.

use super::python;
use crate::case::TestCase;
use polyloom::{TextOptions, TextTarget, write_text};
use polyloom_ir::FunctionKind;
use polyloom_passes::PipelineOptions;

/// The text of every kernel and of the functions it calls, and, with the option `prelude`, of all else. With the option
/// `comments` the lines of the source stand in it.
pub(super) fn text(case: &TestCase, target: TextTarget) -> Result<String, String> {
    let modules = match case.is_python() {
        true => python::modules(case)?,
        false => vec![case.module(true)?],
    };
    let (sources, _) = case.sources();
    let form = TextOptions {
        sources: case.has_option("comments").then_some(&sources),
        without_prelude: !case.has_option("prelude"),
    };
    let options = PipelineOptions { checked: case.has_option("checked"), ..Default::default() };
    let mut texts = Vec::new();
    for module in &modules {
        for (id, function) in &module.functions {
            if function.kind == FunctionKind::Kernel {
                texts.push(write_text(module, id, &options, target, &form).map_err(|error| error.to_string())?);
            }
        }
    }
    Ok(texts.join("\n"))
}
