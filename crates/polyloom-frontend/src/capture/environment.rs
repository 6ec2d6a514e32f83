//! The world of a captured function: what its free names refer to, and what is known of ops.
//!
//! Capture starts no Python and knows no tensor engine. The package answers from live objects, the command line from the
//! text of the file ([`FileCaptureEnvironment`]).

use super::scope::ScopeBindings;
use crate::dotted_path::dotted;
use crate::source::{SourceUnit, imported};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::Ranged;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// Resolves the names that a function takes from outside: its globals, closure and Python's builtins.
pub trait CaptureEnvironment: Send + Sync {
    /// Returns the object that a name refers to. Guards of identity hold it to this at run time.
    fn meaning(&self, name: &str) -> GlobalMeaning;

    /// Returns which module's global a name is, as a number that two functions of one module have in common; `None` if it is
    /// no global or that is not known.
    fn module_of_global(&self, _name: &str) -> Option<u64> {
        None
    }

    /// Returns the object that is an attribute of a module, or of a member of one.
    fn member(&self, path: &str, name: &str) -> GlobalMeaning {
        GlobalMeaning::Path(format!("{path}.{name}").into())
    }
}

/// The object that a free name refers to.
#[derive(Clone)]
pub enum GlobalMeaning {
    /// A module, or a member of one, by its dotted path: `polyloom.ops`, `numpy.exp`.
    Path(Arc<str>),
    /// A Python function with source text, whose body may be inlined.
    Helper(HelperFunction),
    /// Python's own function or type of this name.
    Builtin,
    /// A value that is a NumPy array now.
    Array,
    /// Anything else.
    Unknown,
}

/// A Python function that capture can look into.
#[derive(Clone)]
pub struct HelperFunction {
    /// Its file.
    pub unit: Arc<SourceUnit>,
    /// Its index in the file.
    pub function: usize,
    /// The names that it takes from outside.
    pub environment: Arc<dyn CaptureEnvironment>,
}

/// Knows the ops.
pub trait OpCatalogue {
    /// Returns the facts about the op with this dotted path, if it is one: `polyloom.ops.add`.
    fn op(&self, path: &str) -> Option<TensorOpFacts>;
}

/// The facts about an op that decide what its calls may fuse with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorOpFacts {
    /// True if it does nothing but compute its results from the contents of its arguments.
    pub is_pure: bool,
    /// True if a result may share memory with an argument, or be one, as of a reshape.
    pub aliases: bool,
    /// The number of results; several come as a tuple.
    pub n_results: usize,
}

impl TensorOpFacts {
    /// A pure op with one new tensor as its result.
    pub const PURE: TensorOpFacts = TensorOpFacts { is_pure: true, aliases: false, n_results: 1 };
    /// A pure op whose result may be a view of its argument.
    pub const VIEW: TensorOpFacts = TensorOpFacts { aliases: true, ..TensorOpFacts::PURE };
}

/// The meanings of names as the text of a file has them, with no Python running.
pub struct FileCaptureEnvironment {
    names: FxHashMap<String, GlobalMeaning>,
    /// Names that some scope around the function binds to what the text does not tell.
    unknown: ScopeBindings,
    /// The environment of the scopes around.
    outer: Option<Arc<FileCaptureEnvironment>>,
}

/// Decorators that leave a function what it is.
const TRANSPARENT_DECORATORS: [&str; 2] = ["polyloom.fuse", "typing.no_type_check"];

/// True if calls of a decorated function run its body and nothing else.
pub(crate) fn is_transparent_decorator(path: &str) -> bool {
    TRANSPARENT_DECORATORS.contains(&path)
}

/// The deepest chain of module-level aliases that is followed.
const MAX_ALIASES: usize = 8;

impl FileCaptureEnvironment {
    /// Returns the environment of a function of a file.
    pub fn new(unit: &Arc<SourceUnit>, function: usize) -> Arc<FileCaptureEnvironment> {
        let enclosing = unit.functions().get(function).map_or(&[][..], |info| &info.enclosing);
        let mut environment =
            FileCaptureEnvironment::of_scope(unit, unit.body(), ScopeBindings::of_body(unit.body()), None);
        for def in enclosing.iter().filter_map(|&start| unit.definition_at(start)) {
            let names = ScopeBindings::of_function(&def.parameters, &def.body);
            environment = FileCaptureEnvironment::of_scope(unit, &def.body, names, Some(environment));
        }
        environment
    }

    /// Reads the bindings of one scope. A name has a meaning only if one statement of the scope's own block binds it.
    fn of_scope(
        unit: &Arc<SourceUnit>,
        body: &[Stmt],
        bound: ScopeBindings,
        outer: Option<Arc<FileCaptureEnvironment>>,
    ) -> Arc<FileCaptureEnvironment> {
        let mut bindings: FxHashMap<String, Vec<ScopeBinding<'_>>> = FxHashMap::default();
        let mut add = |name: &str, binding| bindings.entry(name.to_owned()).or_default().push(binding);
        for stmt in body {
            match stmt {
                Stmt::Import(_) | Stmt::ImportFrom(_) => {
                    imported(stmt).into_iter().for_each(|(name, path)| add(&name, ScopeBinding::Import(path)));
                }
                Stmt::FunctionDef(def) => add(&def.name, ScopeBinding::Function(def)),
                Stmt::Assign(assign) if assign.targets.iter().all(Expr::is_name_expr) => {
                    for target in &assign.targets {
                        target.as_name_expr().iter().for_each(|name| add(&name.id, ScopeBinding::Alias(&assign.value)));
                    }
                }
                other => {
                    let names = ScopeBindings::of_body(std::slice::from_ref(other));
                    names.locals.iter().for_each(|name| add(name, ScopeBinding::Opaque));
                }
            }
        }
        // A name that `global` in a function of the file rebinds has no one meaning.
        for def in unit.functions().iter().filter_map(|info| unit.definition_at(info.start)) {
            let names = ScopeBindings::of_function(&def.parameters, &def.body);
            let rebound = names.globals.iter().filter(|_| outer.is_none()).chain(&names.nonlocals);
            rebound.filter(|name| stores(&def.body, name)).for_each(|name| add(name, ScopeBinding::Opaque));
        }
        let mut environment = FileCaptureEnvironment { names: FxHashMap::default(), unknown: bound, outer };
        // Aliases refer to one another, so that they are resolved until nothing changes.
        for _ in 0..MAX_ALIASES {
            let mut has_changed = false;
            for (name, found) in &bindings {
                if let [only] = &found[..]
                    && !environment.names.contains_key(name)
                    && let Some(meaning) = environment.resolve(unit, only)
                {
                    environment.names.insert(name.clone(), meaning);
                    has_changed = true;
                }
            }
            if !has_changed {
                break;
            }
        }
        for name in bindings.into_keys() {
            environment.names.entry(name).or_insert(GlobalMeaning::Unknown);
        }
        Arc::new(environment)
    }

    fn resolve(&self, unit: &Arc<SourceUnit>, binding: &ScopeBinding<'_>) -> Option<GlobalMeaning> {
        match binding {
            ScopeBinding::Import(path) => Some(GlobalMeaning::Path(path.as_str().into())),
            ScopeBinding::Function(def) => {
                let is_plain = def.decorator_list.iter().all(|decorator| self.is_transparent(&decorator.expression));
                let function = unit.function_starting_at(def.range().start().to_u32())?;
                // The environment of a helper is made when it is asked for, because helpers refer to one another.
                let environment = LazyFileEnvironment { unit: unit.clone(), function, environment: OnceLock::new() };
                let helper = HelperFunction { unit: unit.clone(), function, environment: Arc::new(environment) };
                is_plain.then_some(GlobalMeaning::Helper(helper))
            }
            ScopeBinding::Alias(value) => {
                let path = dotted(value)?;
                match (self.local_meaning(path[0])?, &path[1..]) {
                    (GlobalMeaning::Path(root), rest) => {
                        let parts: Vec<&str> = std::iter::once(&*root).chain(rest.iter().copied()).collect();
                        Some(GlobalMeaning::Path(parts.join(".").into()))
                    }
                    (meaning, []) => Some(meaning),
                    _ => None,
                }
            }
            ScopeBinding::Opaque => None,
        }
    }

    fn is_transparent(&self, decorator: &Expr) -> bool {
        let target = match decorator {
            Expr::Call(call) => &*call.func,
            other => other,
        };
        let Some(path) = dotted(target) else { return false };
        match self.local_meaning(path[0]) {
            Some(GlobalMeaning::Path(root)) => {
                let parts: Vec<&str> = std::iter::once(&*root).chain(path[1..].iter().copied()).collect();
                is_transparent_decorator(&parts.join("."))
            }
            _ => false,
        }
    }

    /// Returns what the scopes of the file make of a name, if they bind it.
    fn local_meaning(&self, name: &str) -> Option<GlobalMeaning> {
        if let Some(meaning) = self.names.get(name) {
            return Some(meaning.clone());
        }
        if self.unknown.locals.contains(name) || self.unknown.globals.contains(name) {
            return Some(GlobalMeaning::Unknown);
        }
        self.outer.as_ref().and_then(|outer| outer.local_meaning(name))
    }
}

impl CaptureEnvironment for FileCaptureEnvironment {
    fn meaning(&self, name: &str) -> GlobalMeaning {
        match self.local_meaning(name) {
            Some(meaning) => meaning,
            None if super::builtin_table::is_python_builtin(name) => GlobalMeaning::Builtin,
            // A file may be a fragment, as a cell of a notebook is, whose imports are elsewhere.
            None => match name {
                "ops" => GlobalMeaning::Path("polyloom.ops".into()),
                "loom" | "polyloom" => GlobalMeaning::Path("polyloom".into()),
                _ => GlobalMeaning::Unknown,
            },
        }
    }
}

/// The environment of a helper function, made on demand.
struct LazyFileEnvironment {
    unit: Arc<SourceUnit>,
    function: usize,
    environment: OnceLock<Arc<FileCaptureEnvironment>>,
}

impl CaptureEnvironment for LazyFileEnvironment {
    fn meaning(&self, name: &str) -> GlobalMeaning {
        let make = || FileCaptureEnvironment::new(&self.unit, self.function);
        self.environment.get_or_init(make).meaning(name)
    }
}

enum ScopeBinding<'a> {
    Import(String),
    Function(&'a ast::StmtFunctionDef),
    Alias(&'a Expr),
    Opaque,
}

/// True if a body stores to a name, wherever its scope is.
fn stores(body: &[Stmt], name: &str) -> bool {
    let mut finder = StoreFinder { name, is_found: false };
    ruff_python_ast::visitor::Visitor::visit_body(&mut finder, body);
    finder.is_found
}

struct StoreFinder<'n> {
    name: &'n str,
    is_found: bool,
}

impl<'a> ruff_python_ast::visitor::Visitor<'a> for StoreFinder<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        let names = ScopeBindings::of_body(std::slice::from_ref(stmt));
        self.is_found |= names.locals.contains(self.name);
        ruff_python_ast::visitor::walk_stmt(self, stmt);
    }
}
