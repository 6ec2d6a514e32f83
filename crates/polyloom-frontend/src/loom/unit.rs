//! `.loom` files as units of source, with those that they import.

use super::elaborate::{ElaboratedFile, elaborate};
use super::lexer::lex;
use super::parse::{SyntaxError, parse};
use super::program::LoomProgram;
use super::reduction;
use super::syntax::{Import, Item};
use crate::error::CompileError;
use crate::source::SourceUnit;
use polyloom_ir::diagnostic::near_names;
use polyloom_ir::{Code, Diagnostic, FileId, SourceFile, SourceMap, Span};
use ruff_text_size::TextRange;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Text longer than this is not read.
const MAX_BYTES: usize = 4 << 20;

/// Files that import one another, one after another, beyond this are not read.
const MAX_IMPORTS: usize = 32;

/// Reads the text of an imported file: given the name of the file that imports it and the path that it writes, gives the
/// name and the text of the other.
pub type ImportLoader<'a> = &'a dyn Fn(&str, &str) -> Result<(String, String), String>;

/// Holds what a unit of source has beside its nodes if it is `.loom`.
#[derive(Debug, Default)]
pub(crate) struct LoomUnit {
    pub(crate) programs: Vec<LoomProgram>,
    /// Names of nodes that stand for others of the text.
    pub(crate) renamed: FxHashMap<String, String>,
    /// The files that it imports, by the names that stand for them as a whole.
    pub(crate) modules: Vec<(String, Arc<SourceUnit>)>,
    /// Names that it imports, each with its file.
    pub(crate) names: Vec<(String, Arc<SourceUnit>)>,
    /// The parameters that its functions write to.
    pub(crate) writes: FxHashMap<String, Vec<bool>>,
}

/// Reads a `.loom` file and those that it imports.
pub(crate) fn read(
    file: SourceFile,
    load: ImportLoader<'_>,
    open: &mut Vec<String>,
) -> Result<Arc<SourceUnit>, CompileError> {
    let mut sources = SourceMap::new();
    let id = sources.add(file.clone());
    if file.text.len() > MAX_BYTES {
        let message = format!("the file is longer than {} MiB", MAX_BYTES >> 20);
        let diagnostic = Diagnostic::error(Code::Limit, Span::new(id, 0, 0), message).help("split the file");
        return Err(CompileError { diagnostics: vec![diagnostic], sources });
    }
    let lexed = lex(&file.text);
    let (mut tree, mut errors) = parse(&file.text, &lexed);
    if errors.is_empty() {
        errors = reduction::rewrite(&mut tree);
    }
    if !errors.is_empty() {
        return Err(rejected(id, errors, sources));
    }
    let mut unit = LoomUnit::default();
    let mut errors = Vec::new();
    open.push(file.name.to_string());
    for item in &tree.items {
        if let Item::Import(import) = item
            && let Err(error) = unit.import(&file, import, load, open)
        {
            match error {
                // An error of the other file is reported as that is.
                ImportError::Inside(inside) => return Err(*inside),
                ImportError::Here(range, message, help) => {
                    errors.push(SyntaxError { code: Code::UnknownName, range, message, help, label: None });
                }
            }
        }
    }
    open.pop();
    let mut imported: FxHashMap<String, Vec<bool>> = FxHashMap::default();
    for (name, from) in &unit.names {
        let writes = from.loom().and_then(|loom| loom.writes.get(name));
        imported.extend(writes.map(|writes| (name.clone(), writes.clone())));
    }
    for (alias, from) in &unit.modules {
        let writes = from.loom().into_iter().flat_map(|loom| &loom.writes);
        imported.extend(writes.map(|(name, writes)| (format!("{alias}.{name}"), writes.clone())));
    }
    let ElaboratedFile { body, functions, programs, renamed, writes, errors: found } =
        elaborate(&tree, &file.text, &imported);
    errors.extend(found);
    if !errors.is_empty() {
        return Err(rejected(id, errors, sources));
    }
    unit.programs = programs;
    unit.renamed = renamed;
    unit.writes = writes;
    Ok(SourceUnit::of_loom(file, body, functions, unit))
}

/// Makes the error of a text with these mistakes.
pub(super) fn rejected(file: FileId, errors: Vec<SyntaxError>, sources: SourceMap) -> CompileError {
    let span = |range: TextRange| Span::new(file, range.start().to_u32(), range.end().to_u32());
    let diagnostics = errors.into_iter().map(|error| {
        let mut diagnostic = Diagnostic::error(error.code, span(error.range), error.message).help(error.help);
        if let Some((range, text)) = error.label {
            diagnostic = diagnostic.label(span(range), text);
        }
        diagnostic
    });
    let mut diagnostics: Vec<Diagnostic> = diagnostics.collect();
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
    diagnostics.dedup();
    CompileError { diagnostics, sources }
}

/// The reason why an import fails.
enum ImportError {
    Inside(Box<CompileError>),
    Here(TextRange, String, String),
}

impl LoomUnit {
    fn import(
        &mut self,
        file: &SourceFile,
        import: &Import,
        load: ImportLoader<'_>,
        open: &mut Vec<String>,
    ) -> Result<(), ImportError> {
        let here = |message: String, help: &str| Err(ImportError::Here(import.path_range, message, help.to_owned()));
        let (name, text) = match load(&file.name, &import.path) {
            Ok(found) => found,
            Err(reason) => {
                let message = format!("`{}` cannot be read: {reason}", import.path);
                return here(message, "write the path from the folder of this file");
            }
        };
        if let Some(at) = open.iter().position(|known| *known == name) {
            let way = open[at..].iter().chain([&name]).map(|name| format!("`{name}`")).collect::<Vec<_>>();
            let message = format!("the files import each other: {}", way.join(" imports "));
            return here(message, "move what both need to a third file");
        }
        if open.len() >= MAX_IMPORTS {
            return here(format!("more than {MAX_IMPORTS} files import one another"), "import fewer files");
        }
        let unit = read(SourceFile::new(name.as_str(), text, 1), load, open)
            .map_err(|error| ImportError::Inside(Box::new(error)))?;
        let has = unit.loom_names();
        for name in &import.names {
            if !has.contains(&name.name) {
                let message = format!("`{}` has no `{}`", import.path, name.name);
                let help = match near_names(&name.name, has.iter().map(String::as_str)).first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has {}", has.join(", ")),
                };
                return Err(ImportError::Here(name.range, message, help));
            }
            self.names.push((name.name.clone(), unit.clone()));
        }
        if let Some(alias) = &import.alias {
            self.modules.push((alias.name.clone(), unit));
        }
        Ok(())
    }
}
