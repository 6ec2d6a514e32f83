//! The surroundings of the kernels of a `.py` file, worked out from its text.
//!
//! Module-level constants, imports, functions with their overloads and type aliases are known; a kernel defined inside
//! a function sees that function's constants too. Whatever only running the program would tell is captured as
//! [`Captured::Unknown`], so that using it is an error with a reason.

use crate::annotation::AnnotationReader;
use crate::constant;
use crate::environment::{Captured, Environment, FunctionHandle, ParamType};
use crate::members;
use crate::source::{PACKAGES, Role, SourceUnit, blocks_of};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::Ranged;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Modules whose members [`members::library_member`] knows.
const LIBRARIES: [&str; 3] = ["math", "numpy", "typing"];

/// The names of a `.py` file, as one of its functions sees them.
pub struct FileEnvironment {
    file: Arc<File>,
    scope: usize,
}

struct File {
    unit: Arc<SourceUnit>,
    /// Scope 0 is the module; the others are functions that contain functions.
    scopes: Vec<Scope>,
    /// The scope of each such function, by the offset of its definition.
    scope_of: FxHashMap<u32, usize>,
    /// The environments handed out, so that a function has one as long as it lives.
    environments: Mutex<Vec<Weak<FileEnvironment>>>,
}

struct Scope {
    /// Offset of the function's definition.
    start: Option<u32>,
    parent: Option<usize>,
    names: FxHashMap<String, Binding>,
}

enum Binding {
    Value(Captured),
    Functions(Overloads),
}

/// The definitions of one name that are overloads of one another.
#[derive(Default)]
struct Overloads {
    /// By index, in the order of the text; `None` for those that a later one replaced.
    functions: Vec<Option<usize>>,
    /// Where the one for these parameter types is.
    by_types: FxHashMap<SmallVec<[ParamType; 4]>, usize>,
}

impl Overloads {
    fn add(&mut self, index: usize, types: Option<SmallVec<[ParamType; 4]>>) {
        if let Some(types) = types
            && let Some(replaced) = self.by_types.insert(types, self.functions.len())
        {
            self.functions[replaced] = None;
        }
        self.functions.push(Some(index));
    }
}

impl FileEnvironment {
    /// The environment of the module-level functions of a file.
    pub fn new(unit: &Arc<SourceUnit>) -> Arc<FileEnvironment> {
        let mut file = File {
            unit: unit.clone(),
            scopes: Vec::new(),
            scope_of: FxHashMap::default(),
            environments: Mutex::new(Vec::new()),
        };
        file.add_scope(None, None, unit.body());
        for function in unit.functions() {
            let mut parent = 0;
            for &start in &function.enclosing {
                parent = match file.scope_of.get(&start) {
                    Some(known) => *known,
                    None => match unit.definition_at(start) {
                        Some(def) => file.add_function_scope(start, parent, def),
                        None => parent,
                    },
                };
            }
        }
        File::environment(&Arc::new(file), 0)
    }

    /// A function of the file with the names it sees.
    pub fn function(&self, index: usize) -> FunctionHandle {
        let enclosing = self.file.unit.functions().get(index).and_then(|f| f.enclosing.last().copied());
        let scope = enclosing.and_then(|start| self.file.scope_of.get(&start)).copied().unwrap_or(0);
        FunctionHandle {
            unit: self.file.unit.clone(),
            function: index,
            environment: File::environment(&self.file, scope),
            arguments: None,
        }
    }
}

impl File {
    fn environment(self: &Arc<File>, scope: usize) -> Arc<FileEnvironment> {
        let mut environments = self.environments.lock().unwrap_or_else(PoisonError::into_inner);
        if scope >= environments.len() {
            environments.resize_with(scope + 1, Weak::new);
        }
        if let Some(known) = environments[scope].upgrade() {
            return known;
        }
        let environment = Arc::new(FileEnvironment { file: self.clone(), scope });
        environments[scope] = Arc::downgrade(&environment);
        environment
    }

    fn add_scope(&mut self, start: Option<u32>, parent: Option<usize>, body: &[Stmt]) -> usize {
        let scope = self.scopes.len();
        if let Some(start) = start {
            self.scope_of.insert(start, scope);
        }
        self.scopes.push(Scope { start, parent, names: FxHashMap::default() });
        self.bind_statements(scope, body, true);
        scope
    }

    fn add_function_scope(&mut self, start: u32, parent: usize, def: &ast::StmtFunctionDef) -> usize {
        let scope = self.add_scope(Some(start), Some(parent), &def.body);
        for parameter in def.parameters.iter_non_variadic_params() {
            let name = parameter.parameter.name.to_string();
            self.scopes[scope].names.entry(name).or_insert(unknown("a parameter of the function around it"));
        }
        scope
    }

    /// Binds the names statements define; `certain` if the statements certainly run.
    fn bind_statements(&mut self, scope: usize, body: &[Stmt], certain: bool) {
        for stmt in body {
            match stmt {
                Stmt::Assign(assign) => {
                    for target in &assign.targets {
                        self.bind_target(scope, target, Some(&assign.value).filter(|_| certain).map(|v| &**v));
                    }
                }
                Stmt::AnnAssign(assign) => {
                    let value = assign.value.as_deref();
                    if value.is_some() {
                        self.bind_target(scope, &assign.target, value.filter(|_| certain));
                    }
                }
                Stmt::AugAssign(assign) => self.bind_target(scope, &assign.target, None),
                Stmt::FunctionDef(def) => self.bind_function(scope, def),
                Stmt::ClassDef(class) => self.bind(scope, class.name.as_str(), unsupported("type")),
                _ => {
                    match stmt {
                        Stmt::For(stmt) => self.bind_target(scope, &stmt.target, None),
                        Stmt::With(stmt) => {
                            for target in stmt.items.iter().filter_map(|item| item.optional_vars.as_deref()) {
                                self.bind_target(scope, target, None);
                            }
                        }
                        Stmt::Try(stmt) => {
                            for ast::ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
                                if let Some(name) = &handler.name {
                                    self.bind(
                                        scope,
                                        name.as_str(),
                                        unknown("a value known only when the program runs"),
                                    );
                                }
                            }
                        }
                        _ => {}
                    }
                    for block in blocks_of(stmt) {
                        self.bind_statements(scope, block, false);
                    }
                }
            }
        }
    }

    fn bind(&mut self, scope: usize, name: &str, binding: Binding) {
        self.scopes[scope].names.insert(name.to_owned(), binding);
    }

    fn bind_target(&mut self, scope: usize, target: &Expr, value: Option<&Expr>) {
        match target {
            Expr::Name(name) => {
                let binding = match value.map(|v| (self.evaluate(scope, v), v)) {
                    Some((Some(value), _)) => Binding::Value(value),
                    Some((None, Expr::Dict(_) | Expr::DictComp(_))) => unsupported("dict"),
                    Some((None, Expr::List(_) | Expr::ListComp(_))) => unsupported("list"),
                    Some((None, Expr::Set(_) | Expr::SetComp(_))) => unsupported("set"),
                    Some((None, Expr::Tuple(_))) => unsupported("tuple"),
                    Some((None, Expr::NoneLiteral(_))) => unsupported("NoneType"),
                    Some((None, Expr::Lambda(_))) => unsupported("function"),
                    _ => unknown("a value known only when the program runs"),
                };
                self.bind(scope, name.id.as_str(), binding);
            }
            Expr::Tuple(tuple) => {
                let values = match value {
                    Some(Expr::Tuple(values)) if values.elts.len() == tuple.elts.len() => Some(&values.elts),
                    _ => None,
                };
                for (i, target) in tuple.elts.iter().enumerate() {
                    self.bind_target(scope, target, values.map(|v| &v[i]));
                }
            }
            _ => {}
        }
    }

    fn bind_function(&mut self, scope: usize, def: &ast::StmtFunctionDef) {
        let start = def.range().start().to_u32();
        let name = def.name.as_str();
        let Some(index) = self.unit.function_starting_at(start) else { return };
        let binding = match self.unit.functions()[index].role {
            Some(Role::Func) => {
                let lookup = |path: &[&str]| self.lookup(scope, path, None);
                let reader = AnnotationReader { text: &self.unit.file().text, lookup: &lookup };
                let types = reader.parameter_types(def);
                if let Some(Binding::Functions(overloads)) = self.scopes[scope].names.get_mut(name) {
                    return overloads.add(index, types);
                }
                let mut overloads = Overloads::default();
                overloads.add(index, types);
                Binding::Functions(overloads)
            }
            Some(Role::Kernel) => Binding::Value(Captured::Kernel(name.into())),
            None => unsupported("function"),
        };
        self.bind(scope, name, binding);
    }

    fn evaluate(&self, scope: usize, expr: &Expr) -> Option<Captured> {
        let lookup = |path: &[&str]| self.lookup(scope, path, None);
        if let Some(value) = constant::evaluate(expr, &lookup) {
            return Some(value);
        }
        let reader = AnnotationReader { text: &self.unit.file().text, lookup: &lookup };
        match expr {
            Expr::Call(_) | Expr::Subscript(_) => reader.read(expr).ok().map(Captured::Annotation),
            _ => None,
        }
    }

    /// The meaning of a path; functions need the file to make their handles.
    fn lookup(&self, scope: usize, path: &[&str], file: Option<&Arc<File>>) -> Option<Captured> {
        let (root, members) = path.split_first()?;
        let mut at = Some(scope);
        while let Some(index) = at {
            let scope = &self.scopes[index];
            if let Some(binding) = scope.names.get(*root) {
                return match binding {
                    _ if !members.is_empty() => None,
                    Binding::Value(value) => Some(value.clone()),
                    Binding::Functions(overloads) => {
                        let environment: Arc<dyn Environment> = File::environment(file?, index);
                        let handle = |function: &usize| FunctionHandle {
                            unit: self.unit.clone(),
                            function: *function,
                            environment: environment.clone(),
                            arguments: None,
                        };
                        Some(Captured::Function(overloads.functions.iter().flatten().map(handle).collect()))
                    }
                };
            }
            if let Some(path) = self.unit.import(scope.start, root) {
                let full: Vec<&str> = path.split('.').chain(members.iter().copied()).collect();
                return resolve(&full);
            }
            at = scope.parent;
        }
        None
    }
}

/// The meaning of a full path such as `numpy.pi`.
fn resolve(path: &[&str]) -> Option<Captured> {
    match path {
        [module] => Some(Captured::Module((*module).into())),
        [package, member] if PACKAGES.contains(package) => members::package_member(member),
        [library, member] if LIBRARIES.contains(library) => members::library_member(library, member),
        [root, ..] if PACKAGES.contains(root) || LIBRARIES.contains(root) => None,
        // A name of a module this compilation has not read.
        [.., _] => Some(Captured::Unknown("a name of another module")),
        [] => None,
    }
}

fn unknown(what: &'static str) -> Binding {
    Binding::Value(Captured::Unknown(what))
}

fn unsupported(type_name: &str) -> Binding {
    Binding::Value(Captured::Unsupported(type_name.into()))
}

impl Environment for FileEnvironment {
    fn lookup(&self, path: &[&str]) -> Option<Captured> {
        self.file.lookup(self.scope, path, Some(&self.file))
    }

    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut at = Some(self.scope);
        while let Some(index) = at {
            let scope = &self.file.scopes[index];
            names.extend(scope.names.keys().cloned());
            names.extend(self.file.unit.imports(scope.start).map(str::to_owned));
            at = scope.parent;
        }
        names.sort();
        names
    }
}
