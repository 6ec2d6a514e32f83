//! Finding inputs and reading their headers.

use polyloom_ir::{Diagnostic, FileId, Module, SourceFile, SourceMap, diagnostic, parse_module};
use std::path::{Path, PathBuf};

/// One input: what to do with it, and its text.
#[derive(Debug)]
pub struct TestCase {
    /// Its path below the root, with which diagnostics are rendered.
    pub name: String,
    /// The word after `test`.
    pub test: String,
    /// Holds what follows it on the line, split at commas.
    pub arguments: Vec<String>,
    /// The options set by header lines.
    pub options: Vec<String>,
    /// The whole text, header included.
    pub text: String,
}

impl TestCase {
    /// Reads an input.
    ///
    /// # Errors
    ///
    /// If it cannot be read or its first line names no test.
    pub fn read(path: &Path, name: &str) -> Result<TestCase, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
        let marker = if path.extension().is_some_and(|e| e == "py") { "#" } else { ";" };
        let mut header = text.lines().map_while(|line| line.strip_prefix(marker)).map(str::trim);
        let Some(test) = header.next().and_then(|line| line.strip_prefix("test ")) else {
            return Err(format!("the first line is not `{marker} test …`"));
        };
        let (test, arguments) = test.trim().split_once(' ').unwrap_or((test.trim(), ""));
        let arguments = arguments.split(',').map(str::trim).filter(|a| !a.is_empty()).map(str::to_owned).collect();
        let options = header.filter_map(|line| line.strip_prefix("option ")).map(|o| o.trim().to_owned()).collect();
        Ok(TestCase { name: name.to_owned(), test: test.to_owned(), arguments, options, text })
    }

    /// Returns true if the input is Python source.
    pub fn is_python(&self) -> bool {
        self.name.ends_with(".py")
    }

    /// Returns true if a header line sets the option.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|o| o == option)
    }

    /// The bodies of the comment lines that start with `directive`, with their line numbers.
    pub fn directives<'a>(&'a self, directive: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let lines = self.text.lines().enumerate();
        lines.filter_map(move |(index, line)| {
            let body = line.trim_start().strip_prefix([';', '#'])?.trim_start().strip_prefix(directive)?;
            Some((index + 1, body.trim()))
        })
    }

    /// The text as a source file and the map that holds nothing else.
    pub fn sources(&self) -> (SourceMap, FileId) {
        let mut sources = SourceMap::new();
        let file = sources.add(SourceFile::new(self.name.as_str(), self.text.as_str(), 1));
        (sources, file)
    }

    /// Diagnostics as people see them, an empty line between two.
    pub fn render(&self, diagnostics: &[Diagnostic]) -> String {
        let (sources, _) = self.sources();
        let rendered: Vec<String> = diagnostics.iter().map(|d| diagnostic::render(d, &sources, false)).collect();
        rendered.join("\n")
    }

    /// The input as HIR.
    ///
    /// # Errors
    ///
    /// What the reader and, if `verified`, the verifier say.
    pub fn module(&self, verified: bool) -> Result<Module, String> {
        let (_, file) = self.sources();
        let module = parse_module(&self.text, file).map_err(|errors| self.render(&errors))?;
        if verified {
            polyloom_ir::verify_module(&module).map_err(|errors| self.render(&errors))?;
        }
        Ok(module)
    }
}

/// The inputs under `root` in order, and expectations that belong to none.
pub(crate) fn find_inputs(root: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut inputs, mut expectations) = (Vec::new(), Vec::new());
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => pending.push(path),
                Some("hir" | "py") => inputs.push(path),
                Some("expect") => expectations.push(path),
                _ => {}
            }
        }
    }
    inputs.sort();
    expectations.retain(|path| !["hir", "py"].iter().any(|extension| path.with_extension(extension).exists()));
    (inputs, expectations)
}
