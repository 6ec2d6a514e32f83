//! The surroundings of the kernels of a `.py` file, worked out from its text.
//!
//! Module-level constants, imports, functions with their overloads and type aliases are known, and so are attributes of
//! classes that stand for themselves; a kernel defined inside a function sees that function's constants too. Whatever
//! only running the program would tell is captured as
//! [`Captured::Unknown`], so that using it is an error with a reason.

use crate::annotation::{AnnotationError, AnnotationReader};
use crate::assignment_expressions::assignment_expressions;
use crate::constant;
use crate::custom::CustomDerivative;
use crate::environment::{Captured, Environment, FunctionHandle};
use crate::members;
use crate::param_type::{ParamType, Pattern, ScalarSet};
use crate::source::{PACKAGES, Role, SourceUnit, blocks_of, dotted};
use crate::structure::{StructType, ValueType};
use polyloom_ir::{Code, Type};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};
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
    /// Scope 0 is the module; the others are functions that contain functions, and classes.
    scopes: Vec<Scope>,
    /// What is wrong with its structs.
    errors: Vec<AnnotationError>,
    /// The scope of each such function, by the offset of its definition.
    scope_of: FxHashMap<u32, usize>,
    /// The environments handed out, so that a function has one as long as it lives.
    environments: Mutex<Vec<Weak<FileEnvironment>>>,
}

struct Scope {
    /// Offset of the definition of the function or class.
    start: Option<u32>,
    /// Where names are looked up that this has not: nothing in a class sees the names of a class around it.
    parent: Option<usize>,
    is_class: bool,
    /// Of a class, the class whose attributes it has beside its own.
    base: Option<usize>,
    names: FxHashMap<String, Binding>,
}

enum Binding {
    Value(Captured),
    Functions(Overloads),
    /// A class, whose attributes are the names of this scope.
    Class(usize),
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
            errors: Vec::new(),
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

    /// What is wrong with the structs of the file.
    pub(crate) fn errors(&self) -> &[AnnotationError] {
        &self.file.errors
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
            custom: self.file.custom(index),
        }
    }
}

impl File {
    /// What stands in for the derivative of a function, in the scope that it is in.
    fn custom(self: &Arc<File>, index: usize) -> Arc<CustomDerivative> {
        let custom = Arc::<CustomDerivative>::default();
        let functions = self.unit.functions();
        let Some(of) = functions.get(index) else { return custom };
        let scope = of.enclosing.last().and_then(|start| self.scope_of.get(start)).copied().unwrap_or(0);
        let handle = |function: usize| FunctionHandle {
            unit: self.unit.clone(),
            function,
            environment: File::environment(self, scope),
            arguments: None,
            custom: Default::default(),
        };
        for (other, info) in functions.iter().enumerate() {
            let (Some(role), Some(name)) = (info.role, &info.of) else { continue };
            if *name == of.name && info.enclosing == of.enclosing && handle(other).goes_with(&handle(index)) {
                custom.set(role, Some(handle(other)));
            }
        }
        custom
    }

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
        self.scopes.push(Scope { start, parent, is_class: false, base: None, names: FxHashMap::default() });
        self.bind_statements(scope, body, true);
        scope
    }

    /// Binds a class and, in a scope of its own, what its body defines. What only Python can make of a class (its
    /// decorators, a metaclass, base classes from elsewhere, `Enum` among them) hides its attributes.
    fn bind_class(&mut self, scope: usize, class: &ast::StmtClassDef, certain: bool) {
        if let [decorator] = &class.decorator_list[..]
            && self.is_struct_decorator(scope, &decorator.expression)
        {
            return self.bind_struct(scope, class);
        }
        let base = match (class.bases(), class.keywords()) {
            _ if !class.decorator_list.is_empty() => None,
            ([], []) => Some(None),
            ([Expr::Name(base)], []) if base.id == "object" && self.find(scope, &["object"]).is_none() => Some(None),
            ([base], []) => self.class_of(scope, base).map(Some),
            _ => None,
        };
        let Some(base) = base else {
            return self.bind(scope, class.name.as_str(), unknown("a class known only when the program runs"));
        };
        let inner = self.scopes.len();
        self.scopes.push(Scope {
            start: Some(class.range().start().to_u32()),
            parent: Some(self.enclosing_function(scope)),
            is_class: true,
            base,
            names: FxHashMap::default(),
        });
        self.bind_statements(inner, &class.body, certain);
        self.bind(scope, class.name.as_str(), Binding::Class(inner));
    }

    /// Whether a decorator is the package's `struct`.
    fn is_struct_decorator(&self, scope: usize, decorator: &Expr) -> bool {
        let Some(path) = dotted(decorator) else { return false };
        let Some(Found::Import(import, members)) = self.find(scope, &path) else { return false };
        let full: Vec<&str> = import.split('.').chain(members.iter().copied()).collect();
        matches!(full[..], [package, "struct"] if PACKAGES.contains(&package))
    }

    /// Binds a struct type, or notes what is wrong with it.
    fn bind_struct(&mut self, scope: usize, class: &ast::StmtClassDef) {
        let binding = match self.struct_type(scope, class) {
            Ok(of) => Binding::Value(Captured::Struct(of)),
            Err(error) => {
                self.errors.push(error);
                unknown("a struct with an error in it")
            }
        };
        self.bind(scope, class.name.as_str(), binding);
    }

    fn struct_type(&self, scope: usize, class: &ast::StmtClassDef) -> Result<StructType, AnnotationError> {
        let wrong = |range: TextRange, message: String, help: &str| AnnotationError {
            code: Code::BadAnnotation,
            range,
            message,
            help: help.to_owned(),
        };
        let name = class.name.as_str();
        if let Some(argument) = &class.arguments
            && !(argument.args.is_empty() && argument.keywords.is_empty())
        {
            let message = format!("the struct `{name}` has a base class");
            return Err(wrong(argument.range(), message, "declare all fields in the struct itself"));
        }
        let lookup = |path: &[&str]| self.lookup(scope, path, None);
        let reader = AnnotationReader { text: &self.unit.file().text, lookup: &lookup };
        let mut fields = Vec::new();
        for stmt in &class.body {
            let Stmt::AnnAssign(field) = stmt else { continue };
            let Expr::Name(field_name) = &*field.target else { continue };
            match reader.read(&field.annotation)? {
                ParamType::Exact(ty) => fields.push((field_name.id.to_string(), ty)),
                _ => {
                    let message = "the fields of a struct have one type each".to_owned();
                    return Err(wrong(field.annotation.range(), message, "name the type instead of `Any`"));
                }
            }
        }
        StructType::new(name, fields)
            .map_err(|message| wrong(class.name.range(), message, "declare fields as `name: type`"))
    }

    /// The function or module around a scope, or the scope itself if it is no class.
    fn enclosing_function(&self, scope: usize) -> usize {
        match &self.scopes[scope] {
            Scope { is_class: true, parent: Some(parent), .. } => *parent,
            _ => scope,
        }
    }

    /// The scope of the class that an expression names.
    fn class_of(&self, scope: usize, expr: &Expr) -> Option<usize> {
        match self.find(scope, &dotted(expr)?)? {
            Found::Name(Binding::Class(class), _, []) => Some(*class),
            _ => None,
        }
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
            for (named, runs) in assignment_expressions(stmt) {
                self.bind_target(scope, &named.target, Some(&*named.value).filter(|_| certain && runs));
            }
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
                Stmt::ClassDef(class) => self.bind_class(scope, class, certain),
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
                let binding = self.binding_of(scope, value);
                self.bind(scope, name.id.as_str(), binding);
            }
            Expr::Attribute(attribute) => {
                if let Some(class) = self.class_of(scope, &attribute.value) {
                    let binding = self.binding_of(scope, value);
                    self.bind(class, attribute.attr.as_str(), binding);
                }
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

    /// What a name assigned this value stands for.
    fn binding_of(&self, scope: usize, value: Option<&Expr>) -> Binding {
        let Some(value) = value else { return unknown("a value known only when the program runs") };
        if let Some(class) = self.class_of(scope, value) {
            return Binding::Class(class);
        }
        match (self.evaluate(scope, value), value) {
            (Some(value), _) => Binding::Value(value),
            (None, Expr::Dict(_) | Expr::DictComp(_)) => unsupported("dict"),
            (None, Expr::List(_) | Expr::ListComp(_)) => unsupported("list"),
            (None, Expr::Set(_) | Expr::SetComp(_)) => unsupported("set"),
            (None, Expr::Tuple(_)) => unsupported("tuple"),
            (None, Expr::NoneLiteral(_)) => unsupported("NoneType"),
            (None, Expr::Lambda(_)) => unsupported("function"),
            _ => unknown("a value known only when the program runs"),
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
                let types = reader.parameter_types(def, Some(ParamType::ANY));
                if let Some(Binding::Functions(overloads)) = self.scopes[scope].names.get_mut(name) {
                    return overloads.add(index, types);
                }
                let mut overloads = Overloads::default();
                overloads.add(index, types);
                Binding::Functions(overloads)
            }
            Some(Role::Kernel) => Binding::Value(Captured::Kernel(name.into())),
            Some(Role::Gradient | Role::Replay) | None => unsupported("function"),
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
            Expr::Call(call) if let Some(variable) = type_variable(call, &lookup) => {
                Some(Captured::Annotation(ParamType::Generic(variable)))
            }
            Expr::Call(_) | Expr::Subscript(_) => Some(match reader.read(expr).ok()? {
                ParamType::Exact(ValueType::Plain(Type::Composite(composite))) => Captured::Composite(composite),
                annotation => Captured::Annotation(annotation),
            }),
            _ => None,
        }
    }

    /// The meaning of a path; functions need the file to make their handles.
    fn lookup(&self, scope: usize, path: &[&str], file: Option<&Arc<File>>) -> Option<Captured> {
        let (binding, holder) = match self.find(scope, path)? {
            Found::Name(binding, holder, []) => (binding, holder),
            Found::Name(..) => return None,
            Found::Import(import, members) => {
                let full: Vec<&str> = import.split('.').chain(members.iter().copied()).collect();
                return resolve(&full);
            }
        };
        match binding {
            Binding::Value(value) => Some(value.clone()),
            Binding::Class(_) => Some(Captured::Unsupported("type".into())),
            Binding::Functions(overloads) => {
                let environment: Arc<dyn Environment> = File::environment(file?, self.enclosing_function(holder));
                let handle = |function: &usize| FunctionHandle {
                    unit: self.unit.clone(),
                    function: *function,
                    environment: environment.clone(),
                    arguments: None,
                    custom: file.map_or_else(Default::default, |file| file.custom(*function)),
                };
                Some(Captured::Function(overloads.functions.iter().flatten().map(handle).collect()))
            }
        }
    }

    /// Follows a path from a scope through classes as far as they lead.
    fn find<'a>(&'a self, scope: usize, path: &'a [&'a str]) -> Option<Found<'a>> {
        let (root, mut members) = path.split_first()?;
        let mut at = Some(scope);
        while let Some(index) = at {
            let scope = &self.scopes[index];
            if let Some(binding) = scope.names.get(*root) {
                let mut found = (binding, index);
                while let (Binding::Class(class), [member, rest @ ..]) = (found.0, members) {
                    found = self.attribute(*class, member)?;
                    members = rest;
                }
                return Some(Found::Name(found.0, found.1, members));
            }
            if let Some(import) = self.unit.import(scope.start, root) {
                return Some(Found::Import(import, members));
            }
            at = scope.parent;
        }
        None
    }

    /// An attribute of a class, its own or inherited, and the class that has it.
    fn attribute(&self, class: usize, name: &str) -> Option<(&Binding, usize)> {
        let classes = std::iter::successors(Some(class), |&class| self.scopes[class].base);
        classes.into_iter().find_map(|class| Some((self.scopes[class].names.get(name)?, class)))
    }
}

/// What the type variable of `TypeVar("T", float, wp.float64)` stands for: the types it is constrained to.
fn type_variable(call: &ast::ExprCall, lookup: &dyn Fn(&[&str]) -> Option<Captured>) -> Option<Pattern> {
    if !matches!(lookup(&dotted(&call.func)?), Some(Captured::TypeVariable)) {
        return None;
    }
    let (_, constraints) = call.arguments.args.split_first()?;
    if constraints.is_empty() {
        return Some(Pattern::Any);
    }
    let scalars = constraints.iter().map(|constraint| match constant::evaluate(constraint, lookup) {
        Some(Captured::Type(scalar)) => Some(scalar),
        _ => None,
    });
    let scalars: Option<Vec<_>> = scalars.collect();
    Some(Pattern::Scalar(ScalarSet::of(scalars?)))
}

/// Where a path leads.
enum Found<'a> {
    /// To a name, in this scope, and what of the path is left.
    Name(&'a Binding, usize, &'a [&'a str]),
    /// To an import of this path, and what of the path is left.
    Import(&'a str, &'a [&'a str]),
}

/// The meaning of a full path such as `numpy.pi`.
fn resolve(path: &[&str]) -> Option<Captured> {
    match path {
        [module] => Some(Captured::Module((*module).into())),
        [package, member] if PACKAGES.contains(package) => members::package_member(member),
        [package, "types", member] if PACKAGES.contains(package) => members::types_member(member),
        [library, member] if LIBRARIES.contains(library) => members::library_member(library, member),
        ["collections", "abc", member] => members::library_member("collections.abc", member),
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
