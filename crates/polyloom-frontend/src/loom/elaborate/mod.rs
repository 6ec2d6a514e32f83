//! Syntax trees of `.loom` to those that the checker takes.
//!
//! Types, builtins, structs, generics and everything else that a program means is the checker's, once for all front ends:
//! a function of `.loom` becomes a function of Python's syntax tree with the places of the `.loom` text. Worked out here
//! is what Python has not: blocks as scopes, what may be assigned, loops that are parallel, names for extents, results
//! that callers allocate.

mod body;
mod carried;
mod extents;
mod function;
mod staged;
mod stages;
mod structure;

use super::parallel::Collision;
use super::parse::SyntaxError;
use super::program::LoomProgram;
use super::python_nodes as node;
use super::syntax::{
    Argument, Expr, ExprKind, FunctionItem, FunctionKeyword, Ident, Import, Item, LoomFile, StmtKind, TypeExpr,
    walk_block, walk_expr,
};
use super::types;
use crate::function_info::FunctionRole;
use crate::package_names::package_members;
use polyloom_ir::{Code, Composite};
use ruff_python_ast::{Identifier, Stmt};
use ruff_text_size::TextRange;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

pub(crate) use structure::ANY;

/// A function of the file that the checker sees, beside its node.
#[derive(Clone, Debug)]
pub(crate) struct ElaboratedFunction {
    pub(crate) name: Arc<str>,
    pub(crate) role: FunctionRole,
    pub(crate) start: u32,
    /// The type variables, each with the parameters whose types, or the types of whose elements, it is.
    pub(crate) generics: Vec<(Arc<str>, Vec<usize>)>,
    /// The parameters whose types are those of what is stored there.
    pub(crate) inferred: Vec<usize>,
}

/// A file as the checker sees it.
#[derive(Default)]
pub(crate) struct ElaboratedFile {
    pub(crate) body: Vec<Stmt>,
    pub(crate) functions: Vec<ElaboratedFunction>,
    pub(crate) programs: Vec<LoomProgram>,
    /// Names that stand for others in the nodes, as the text has them.
    pub(crate) renamed: FxHashMap<String, String>,
    /// The functions of the file, with the parameters that they write to.
    pub(crate) writes: FxHashMap<String, Vec<bool>>,
    pub(crate) errors: Vec<SyntaxError>,
}

/// The state of elaborating one file.
struct FileElaboration<'a> {
    text: &'a str,
    file: &'a LoomFile,
    made: ElaboratedFile,
    /// The names that the file gives a meaning.
    globals: FxHashSet<&'a str>,
    /// Constants that are integers, for extents.
    constants: FxHashMap<&'a str, &'a Expr>,
    /// The type variables of the function being elaborated, with what they are bound to.
    generics: FxHashMap<String, Option<String>>,
}

/// Elaborates a file. `writes_of` says which parameters the functions of imported files write to.
pub(crate) fn elaborate(file: &LoomFile, text: &str, imported: &FxHashMap<String, Vec<bool>>) -> ElaboratedFile {
    let mut elaboration = FileElaboration {
        text,
        file,
        made: ElaboratedFile { writes: imported.clone(), ..ElaboratedFile::default() },
        globals: FxHashSet::default(),
        constants: FxHashMap::default(),
        generics: FxHashMap::default(),
    };
    elaboration.collect_names();
    elaboration.find_writes();
    for item in &file.items {
        match item {
            Item::Import(_) => {}
            Item::Constant(constant) => elaboration.constant(constant),
            Item::Alias(alias) => elaboration.alias(alias),
            Item::Struct(structure) => elaboration.structure(structure),
            Item::Function(function) => match function.keyword {
                FunctionKeyword::Fn => elaboration.function(function),
                FunctionKeyword::Kernel | FunctionKeyword::Compute => elaboration.program(function),
            },
        }
    }
    elaboration.made
}

/// The name of a function.
fn name_of(function: &FunctionItem) -> Ident {
    if let Some(name) = &function.name {
        return name.clone();
    }
    let kind = function.annotations.iter().find(|annotation| annotation.name.name == "kernel");
    let kind = kind.and_then(|annotation| annotation.arguments.first()?.value.as_name());
    Ident { name: kind.unwrap_or("compute").to_owned(), range: function.keyword_range }
}

impl<'a> FileElaboration<'a> {
    fn error(&mut self, code: Code, range: TextRange, message: impl Into<String>, help: impl Into<String>) {
        self.made.errors.push(SyntaxError { code, range, message: message.into(), help: help.into(), label: None });
    }

    /// Notes the names of the file, and reports those that are there twice.
    fn collect_names(&mut self) {
        let mut seen: FxHashMap<String, TextRange> = FxHashMap::default();
        for item in &self.file.items {
            let names: Vec<Ident> = match item {
                Item::Import(Import { alias, names, .. }) => alias.iter().chain(names).cloned().collect(),
                Item::Constant(constant) => vec![constant.name.clone()],
                Item::Alias(alias) => vec![alias.name.clone()],
                Item::Struct(structure) => vec![structure.name.clone()],
                // Several functions of a name are overloads.
                Item::Function(function) if function.keyword == FunctionKeyword::Fn => continue,
                Item::Function(function) => vec![name_of(function)],
            };
            for name in names {
                if seen.contains_key(&name.name) {
                    let message = format!("`{}` is declared twice", name.name);
                    let help = "give one of the two another name";
                    self.error(Code::BadAssignment, name.range, message, help);
                }
                seen.insert(name.name.clone(), name.range);
            }
        }
        self.globals = self.file.names().collect();
        for item in &self.file.items {
            if let Item::Constant(constant) = item {
                self.constants.insert(&constant.name.name, &constant.value);
            }
        }
    }

    /// Finds which parameters the functions of the file write to, themselves or by functions that they call.
    fn find_writes(&mut self) {
        let functions: Vec<&FunctionItem> = self
            .file
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Function(function) if function.keyword == FunctionKeyword::Fn => Some(&**function),
                _ => None,
            })
            .collect();
        for function in &functions {
            let Some(name) = &function.name else { continue };
            let known = self.made.writes.entry(name.name.clone()).or_default();
            known.resize(known.len().max(function.params.len()), false);
        }
        loop {
            let mut changed = false;
            for function in &functions {
                let Some(name) = &function.name else { continue };
                let found = self.written_params(function);
                let known = self.made.writes.entry(name.name.clone()).or_default();
                for (known, found) in known.iter_mut().zip(found) {
                    changed |= found && !*known;
                    *known |= found;
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn written_params(&self, function: &FunctionItem) -> Vec<bool> {
        let mut written = vec![false; function.params.len()];
        // Names that stand for parts of parameters count as these.
        let mut parts: FxHashMap<&str, usize> =
            function.params.iter().enumerate().map(|(index, param)| (param.name.name.as_str(), index)).collect();
        walk_block(&function.body, &mut |statement| {
            let mut mark = |expr: &Expr, must_index: bool| {
                let is_element = !matches!(expr.kind, ExprKind::Name(_));
                let is_reference = |index: usize| {
                    let param = &function.params[index];
                    expr.as_name() == Some(&param.name.name) && is_reference_type(param.ty.as_ref())
                };
                if let Some(index) = root_of(expr).and_then(|root| parts.get(root))
                    && (is_element || !must_index || is_reference(*index))
                {
                    written[*index] = true;
                }
            };
            match &statement.kind {
                StmtKind::Assign { targets, .. } => targets.iter().for_each(|target| mark(target, true)),
                StmtKind::Update { target, .. } => mark(target, true),
                _ => {}
            }
            for expr in super::syntax::expressions_of(statement) {
                walk_expr(expr, &mut |part| {
                    let ExprKind::Call { function, arguments, .. } = &part.kind else { return };
                    let name = called_name(function);
                    let writes = self.made.writes.get(&name);
                    for (index, argument) in arguments.iter().enumerate() {
                        let is_atomic = name.starts_with("atomic_") && index == 0;
                        if is_atomic || writes.is_some_and(|writes| writes.get(index).copied().unwrap_or(false)) {
                            mark(&argument.value, false);
                        }
                    }
                });
            }
            if let StmtKind::Declare { targets, value: Some(value), .. } = &statement.kind
                && let Some(index) = root_of(value).and_then(|root| parts.get(root)).copied()
            {
                parts.extend(targets.iter().map(|target| (target.name.as_str(), index)));
            }
        });
        written
    }

    /// Returns true if a call may write to the argument at this place, by what its function does.
    fn writes_argument(&self, function: &Expr, at: usize, argument: &Argument) -> bool {
        let called = called_name(function);
        if called.starts_with("atomic_") && at == 0 {
            return true;
        }
        let Some(writes) = self.made.writes.get(&called) else { return false };
        // The overload decides which parameter a named argument is.
        if argument.name.is_some() { writes.contains(&true) } else { writes.get(at).copied().unwrap_or(false) }
    }

    /// Returns true if a call changes the variable that is its argument at this place, which happens by reference alone
    /// because other values are copied.
    fn changes_variable(&self, function: &Expr, at: usize, argument: &Argument) -> bool {
        let own: Vec<&FunctionItem> = self
            .file
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Function(known) => {
                    known.name.as_ref().is_some_and(|name| function.as_name() == Some(&name.name)).then_some(&**known)
                }
                _ => None,
            })
            .collect();
        let takes_value = |known: &&FunctionItem| {
            argument.name.is_none() && known.params.get(at).is_some_and(|param| !is_reference_type(param.ty.as_ref()))
        };
        self.writes_argument(function, at, argument) && (own.is_empty() || !own.iter().all(takes_value))
    }

    /// Returns true for a name that every file knows: a builtin function or a type.
    fn is_builtin(name: &str) -> bool {
        let is_type = types::scalar(name).is_some() || Composite::from_python_name(name).is_some();
        is_type || package_members().binary_search(&name).is_ok()
    }

    /// Reports an iteration that meets another.
    fn report_collision(&mut self, found: Collision) {
        let help = "write each element in one iteration alone; or write `reduce for` to combine what iterations give, \
                    `s[i] += x`, or `serial for` to run them in order";
        self.error(Code::Collision, found.range, found.message, help);
        if let Some(other) = found.other
            && let Some(error) = self.made.errors.last_mut()
        {
            error.label = Some((other, "the other access is here".to_owned()));
        }
    }
}

/// The name that an element, a field or a part of a part begins with.
fn root_of(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        ExprKind::Index(of, _) | ExprKind::Member(of, _) => root_of(of),
        _ => None,
    }
}

/// Returns the name by which a function is called; `shapes.area` for one of an imported file.
fn called_name(function: &Expr) -> String {
    let path = structure::path_of(function).unwrap_or_default();
    path.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(".")
}

/// Returns true for `ref<T>`.
fn is_reference_type(ty: Option<&TypeExpr>) -> bool {
    ty.is_some_and(|ty| matches!(&ty.path[..], [only] if only.name == "ref"))
}

/// A name as the nodes have it.
fn identifier(ident: &Ident) -> Identifier {
    Identifier::new(ident.name.as_str(), ident.range)
}

impl FileElaboration<'_> {
    fn add_function(&mut self, node: node::FunctionNode, function: ElaboratedFunction) -> usize {
        self.made.body.push(node::function(node));
        self.made.functions.push(function);
        self.made.functions.len() - 1
    }
}
