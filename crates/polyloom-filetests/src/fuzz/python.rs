//! What must hold for any Python source.

use super::targets::assert_verified;
use polyloom_frontend::{CompileError, FileEnvironment, FrontendOptions, SourceUnit, check_file, compile_kernel};
use polyloom_ir::{Diagnostic, Severity, SourceFile, SourceMap, diagnostic};
use polyloom_passes::prepared;
use std::path::Path;

/// Any text is compiled or rejected with diagnostics that can be shown; what is compiled is verified HIR, and stays so
/// on its way to a back end.
pub fn python_source(text: &str) {
    let unit = match SourceUnit::parse(SourceFile::new("fuzz.py", text, 1)) {
        Ok(unit) => unit,
        Err(error) => return check_rejection(&error),
    };
    match check_file(&unit, &FrontendOptions::default()) {
        Ok(checked) => check_diagnostics(&checked.warnings, &checked.sources),
        Err(error) => check_rejection(&error),
    }
    let environment = FileEnvironment::new(&unit);
    for index in unit.kernels() {
        match compile_kernel(&environment.function(index), &FrontendOptions::default()) {
            Err(error) => check_rejection(&error),
            Ok(compiled) => {
                check_diagnostics(&compiled.warnings, &compiled.sources);
                assert_verified(&compiled.module, "the front end");
                let _ = compiled.typed.to_string();
                for checked in [false, true] {
                    match prepared(
                        &compiled.module,
                        compiled.kernel,
                        &polyloom_passes::PipelineOptions { checked, ..Default::default() },
                    ) {
                        Ok((module, _)) => assert_verified(&module, "prepare"),
                        Err(errors) => check_diagnostics(&errors, &compiled.sources),
                    }
                }
            }
        }
    }
}

pub(super) fn check_rejection(error: &CompileError) {
    let has_error = error.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    assert!(has_error, "rejected without an error");
    for found in &error.diagnostics {
        assert!(found.help.is_some(), "no help: {found:?}");
    }
    check_diagnostics(&error.diagnostics, &error.sources);
}

/// Spans are ranges of characters of their file, messages are phrases, or sentences as Warp says them, and all of it can
/// be rendered.
pub(super) fn check_diagnostics(diagnostics: &[Diagnostic], sources: &SourceMap) {
    for found in diagnostics {
        let spans = found.labels.iter().map(|(span, _)| *span).chain([found.span]);
        for span in spans.filter(|span| !span.is_none()) {
            let file = sources.get(span.file).unwrap_or_else(|| panic!("a span of no file: {found:?}"));
            let text = file.text.get(span.start as usize..span.end as usize);
            assert!(text.is_some(), "a span that is no range of characters: {found:?}");
        }
        let is_sentence = found.message.starts_with(|first: char| first.is_uppercase());
        assert!(!found.message.is_empty() && (is_sentence || !found.message.ends_with('.')), "not a phrase: {found:?}");
        let _ = diagnostic::render(found, sources, false);
    }
}

/// The Python code of Markdown pages in a folder: more texts to mutate.
pub fn python_examples(folder: &Path) -> Vec<String> {
    let pages = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut pages: Vec<_> = pages.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    let texts = pages.into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
    texts.flat_map(|text| blocks(&text, "python")).collect()
}

/// The code of a language in a Markdown page.
pub(super) fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let opened = text.split(fence.as_str()).skip(1);
    opened.filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect()
}
