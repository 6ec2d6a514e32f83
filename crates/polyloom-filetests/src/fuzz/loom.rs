//! States what must hold for any `.loom` text.

use super::python::{check_diagnostics, check_rejection};
use super::targets::assert_verified;
use polyloom_frontend::{
    FileEnvironment, FrontendOptions, ShapeArgument, SourceUnit, check_file, compile_kernel, format_loom,
};
use polyloom_ir::SourceFile;
use std::path::Path;

/// Any text is compiled or rejected with diagnostics that can be shown. What is compiled is verified HIR, what is laid out
/// stays as it is when it is laid out again, and programs say what they launch or why they do not.
pub fn loom_source(text: &str) {
    let file = SourceFile::new("fuzz.loom", text, 1);
    if let Ok(tidy) = format_loom(&file) {
        match format_loom(&SourceFile::new("fuzz.loom", tidy.as_str(), 1)) {
            Ok(again) => assert_eq!(again, tidy, "formatting is not stable"),
            Err(error) => panic!("what was laid out cannot be read: {}\n{tidy}", error.render(false)),
        }
    }
    let unit = match SourceUnit::parse_loom(file, &|_, _| Err("there is no such file".to_owned())) {
        Ok(unit) => unit,
        Err(error) => return check_rejection(&error),
    };
    match check_file(&unit, &FrontendOptions::default()) {
        Ok(checked) => check_diagnostics(&checked.warnings, &checked.sources),
        Err(error) => return check_rejection(&error),
    }
    for program in unit.programs() {
        let argument = |rank: Option<usize>| match rank {
            Some(rank) => ShapeArgument::Array(vec![4; rank]),
            None => ShapeArgument::Int(3),
        };
        let arguments: Vec<_> =
            program.params.iter().map(|param| argument(param.extents.as_ref().map(Vec::len))).collect();
        let _ = program.bind(&arguments);
    }
    let environment = FileEnvironment::new(&unit);
    for index in unit.kernels() {
        let handle = environment.function(index);
        if handle.is_generic_kernel() {
            continue;
        }
        match compile_kernel(&handle, &FrontendOptions::default()) {
            Err(error) => check_rejection(&error),
            Ok(compiled) => assert_verified(&compiled.module, "the front end"),
        }
    }
}

/// The `.loom` files of a folder, and the `.loom` of Markdown pages in it: texts to mutate.
pub fn loom_examples(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("loom") => texts.push(text),
            Some("md") => texts.extend(super::python::blocks(&text, "loom")),
            _ => {}
        }
    }
    texts
}
