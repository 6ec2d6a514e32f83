//! `test hir`, `test ast` and `test diagnostics`: Python source through the front end.

use crate::case::TestCase;
use polyloom_frontend::{CompileError, FileEnvironment, FrontendOptions, SourceUnit, check_file, compile_kernel};
use polyloom_ir::{FloatMode, Module, SourceFile, diagnostic, verify_module};

/// The HIR of every kernel, each with the functions it calls.
pub(super) fn hir(case: &TestCase) -> Result<String, String> {
    Ok(kernels(case)?.into_iter().map(|(_, module, _)| module.to_string()).collect::<Vec<_>>().join("\n"))
}

/// The typed AST of every kernel.
pub(super) fn ast(case: &TestCase) -> Result<String, String> {
    Ok(kernels(case)?.into_iter().map(|(_, _, ast)| ast).collect::<Vec<_>>().join("\n"))
}

/// Everything the front end has to say about the file.
pub(super) fn diagnostics(case: &TestCase) -> Result<String, String> {
    let found = SourceUnit::parse(file(case)).and_then(|unit| check_file(&unit, &options(case)));
    let (diagnostics, sources) = match found {
        Ok(checked) => (checked.warnings, checked.sources),
        Err(CompileError { diagnostics, sources }) => (diagnostics, sources),
    };
    let rendered: Vec<String> = diagnostics.iter().map(|d| diagnostic::render(d, &sources, false)).collect();
    Ok(if rendered.is_empty() { "accepted\n".to_owned() } else { rendered.join("\n") })
}

/// The module of a kernel, for `test run`.
pub(super) fn module(case: &TestCase, name: &str) -> Result<Module, String> {
    let found = kernels(case)?.into_iter().find(|(kernel, ..)| kernel == name);
    found.map(|(_, module, _)| module).ok_or_else(|| format!("there is no kernel `{name}`"))
}

/// The modules of all kernels.
pub(super) fn modules(case: &TestCase) -> Result<Vec<Module>, String> {
    Ok(kernels(case)?.into_iter().map(|(_, module, _)| module).collect())
}

/// Name, HIR and typed AST of every kernel.
fn kernels(case: &TestCase) -> Result<Vec<(String, Module, String)>, String> {
    let unit = SourceUnit::parse(file(case)).map_err(|error| error.to_string())?;
    let environment = FileEnvironment::new(&unit);
    let mut found = Vec::new();
    for index in unit.kernels() {
        let compiled =
            compile_kernel(&environment.function(index), &options(case)).map_err(|error| error.to_string())?;
        if let Err(errors) = verify_module(&compiled.module) {
            let messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
            return Err(format!("the front end made invalid HIR: {}\n{}", messages.join("; "), compiled.module));
        }
        found.push((unit.functions()[index].name.to_string(), compiled.module, compiled.typed.to_string()));
    }
    Ok(found)
}

fn file(case: &TestCase) -> SourceFile {
    SourceFile::new(case.name.as_str(), case.text.as_str(), 1)
}

fn options(case: &TestCase) -> FrontendOptions {
    let float_mode = if case.has_option("fast") { FloatMode::Fast } else { FloatMode::Strict };
    FrontendOptions { float_mode, check: case.has_option("checked"), lint: case.has_option("lint") }
}
