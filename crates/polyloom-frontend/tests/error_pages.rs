//! `docs/errors`: every code has a page, whose wrong example gives the code and the message shown, and whose right
//! example compiles. `POLYLOOM_BLESS=1` writes the messages.

use polyloom_frontend::capture::ChainBreak;
use polyloom_frontend::{CompileError, FrontendOptions, SourceUnit, check_file, no_such_kernel};
use polyloom_ir::{Code, Diagnostic, SourceFile, SourceMap, diagnostic, parse_module, verify_module};
use std::path::{Path, PathBuf};

/// A page's parts.
struct Page<'t> {
    /// The language of the examples.
    language: &'t str,
    wrong: &'t str,
    message: &'t str,
    right: &'t str,
}

fn path(code: Code) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/errors/{code}.md"))
}

/// The blocks of code of a page: language and text.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let mut parts = text.split("```");
    parts.next();
    let mut found = Vec::new();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        found.push(block.split_once('\n').unwrap_or((block, "")));
    }
    found
}

fn page(text: &str) -> Option<Page<'_>> {
    let [(language, wrong), ("text", message), (right_language, right)] = blocks(text)[..] else { return None };
    (language == right_language && text.contains("\n## Wrong\n") && text.contains("\n## Right\n")).then_some(Page {
        language,
        wrong,
        message,
        right,
    })
}

/// Returns what the compiler has to say about an example.
fn diagnostics(language: &str, text: &str) -> (Vec<Diagnostic>, SourceMap) {
    let file = SourceFile::new(if language == "hir" { "example.hir" } else { "example.py" }, text, 1);
    if language == "hir" {
        let mut sources = SourceMap::new();
        let id = sources.add(file);
        let found = parse_module(text, id).and_then(|module| verify_module(&module));
        return (found.err().unwrap_or_default(), sources);
    }
    let found = match language {
        "loom" => SourceUnit::parse_loom(SourceFile::new("example.loom", text, 1), &|_, _| Err("not here".to_owned())),
        _ => SourceUnit::parse(file),
    };
    let found = found.and_then(|unit| {
        if text.contains("@loom.fuse") {
            let captured = crate::capture::capture(text);
            let diagnostics = captured.breaks.iter().map(ChainBreak::diagnostic).collect();
            return Err(CompileError { diagnostics, sources: captured.sources });
        }
        if unit.kernels().next().is_none() {
            return Err(no_such_kernel(&unit, None));
        }
        check_file(&unit, &FrontendOptions { lint: true, ..FrontendOptions::default() })
    });
    match found {
        Ok(checked) => (checked.warnings, checked.sources),
        Err(CompileError { diagnostics, sources }) => (diagnostics, sources),
    }
}

#[test]
fn every_code_has_a_page_whose_examples_do_what_it_says() {
    let bless = std::env::var_os("POLYLOOM_BLESS").is_some_and(|value| value != "0");
    let mut failures = Vec::new();
    for &code in Code::ALL {
        let Ok(text) = std::fs::read_to_string(path(code)) else {
            failures.push(format!("{code} has no page"));
            continue;
        };
        if !text.starts_with(&format!("# {code}: {}\n", code.title())) {
            failures.push(format!("{code}: the heading is not `# {code}: {}`", code.title()));
        }
        // What a back end cannot do depends on the build and the machine, and what a GPU cannot on which it is.
        // Kernels are differentiated, and made native functions, behind the front end.
        if matches!(code, Code::Backend | Code::Arch | Code::NotDifferentiable | Code::NotNative) {
            continue;
        }
        let Some(page) = page(&text) else {
            failures.push(format!("{code}: the page has no wrong example with its message and right example"));
            continue;
        };
        let (found, sources) = diagnostics(page.language, page.wrong);
        if !found.iter().any(|d| d.code == code) {
            failures.push(format!("{code}: the wrong example gives {:?}", found));
        }
        let rendered: Vec<String> = found.iter().map(|d| diagnostic::render(d, &sources, false)).collect();
        let rendered = rendered.join("\n");
        if rendered != page.message {
            if bless {
                let shown = format!("```text\n{}```", page.message);
                let blessed = text.replacen(&shown, &format!("```text\n{rendered}```"), 1);
                std::fs::write(path(code), blessed).expect("the page can be written");
            } else {
                failures.push(format!("{code}: the message is now\n{rendered}"));
            }
        }
        let (found, sources) = diagnostics(page.language, page.right);
        for found in found {
            failures.push(format!("{code}: the right example: {}", diagnostic::render(&found, &sources, false)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
