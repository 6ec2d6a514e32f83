//! The surroundings of the kernels of a `.py` file, worked out from its text.
//!
//! Module-level constants, imports, functions with their overloads and type aliases are known, and so are attributes of
//! classes that stand for themselves; a kernel defined inside a function sees that function's constants too. Whatever
//! only running the program would tell is captured as
//! [`CapturedMeaning::Unknown`], so that using it is an error with a reason.
//!
//! As in a running program, a function takes names as they stand where it is defined: every name has all the meanings
//! that the text gives it, each from some offset on. What has none there means what it means at the end of the file.
//!
//! Design: `docs/design/names-and-instances.md`.

use crate::annotation::{AnnotationError, AnnotationReader};
use crate::assigned_names::{AssignedNames, PatternNames, is_call_of_globals};
use crate::assignment_expressions::assignment_expressions;
use crate::constant;
use crate::custom::CustomDerivative;
use crate::dotted_path::dotted;
use crate::environment::{CapturedMeaning, FunctionHandle, NameEnvironment};
use crate::function_info::FunctionRole;
use crate::loom::{ANY, scalar};
use crate::members;
use crate::package_names::{PACKAGES, package_members};
use crate::param_type::{ParamType, ScalarSet, TypePattern};
use crate::source::{SourceUnit, blocks_of, imported};
use crate::structure::{StructType, ValueType};
use polyloom_ir::{Code, Type};
use ruff_python_ast::visitor::Visitor;
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Modules whose members [`members::library_member`] knows.
const LIBRARIES: [&str; 3] = ["math", "numpy", "typing"];

/// The names of a `.py` file, as one of its functions sees them.
pub struct FileEnvironment {
    file: Arc<FileNames>,
    scope: usize,
    /// The place where the function is defined; names of the scope that it is in are taken as they stand there.
    at: u32,
}

/// Past the end of every file: names as they stand then.
const END: u32 = u32::MAX;

struct FileNames {
    unit: Arc<SourceUnit>,
    /// Scope 0 is the module; the others are functions that contain functions, and classes.
    scopes: Vec<FileScope>,
    /// Holds what is wrong with its structs.
    errors: Vec<AnnotationError>,
    /// The scope of each such function, by the offset of its definition.
    scope_of: FxHashMap<u32, usize>,
    /// The environments of the files that a `.loom` file imports, by the names that stand for them as a whole.
    modules: FxHashMap<String, Arc<FileEnvironment>>,
    /// The environments of the files of which a `.loom` file imports names, by these.
    imported: FxHashMap<String, Arc<FileEnvironment>>,
    /// The environments handed out, so that a function has one as long as it lives.
    environments: Mutex<FxHashMap<(usize, u32), Weak<FileEnvironment>>>,
    /// Offset of the statement that is being bound.
    offset: u32,
}

struct FileScope {
    /// Offset of the definition of the function or class.
    start: Option<u32>,
    /// The place where names are looked up that this has not: nothing in a class sees the names of a class around it.
    parent: Option<usize>,
    is_class: bool,
    /// The class whose attributes it has beside its own of a class.
    base: Option<usize>,
    /// The meanings of each name in the order of the text, with the offset from which on it has them.
    names: FxHashMap<String, Vec<(u32, NameBinding)>>,
}

#[derive(Clone)]
enum NameBinding {
    Value(CapturedMeaning),
    Functions(OverloadSet),
    /// A class, whose attributes are the names of this scope.
    Class(usize),
    /// An import of this path.
    Import(Arc<str>),
}

/// The definitions of one name that are overloads of one another.
#[derive(Clone, Default)]
struct OverloadSet {
    /// In the order of the text.
    functions: Vec<OverloadDefinition>,
    /// The place where the one for these parameter types is.
    by_types: FxHashMap<SmallVec<[ParamType; 4]>, usize>,
}

#[derive(Clone)]
struct OverloadDefinition {
    index: usize,
    start: u32,
    /// The place where the one is defined that replaces it.
    replaced: Option<u32>,
}

impl OverloadSet {
    fn add(&mut self, index: usize, start: u32, types: Option<SmallVec<[ParamType; 4]>>) {
        if let Some(types) = types
            && let Some(replaced) = self.by_types.insert(types, self.functions.len())
        {
            self.functions[replaced].replaced = Some(start);
        }
        self.functions.push(OverloadDefinition { index, start, replaced: None });
    }

    /// Those that a function sees which is defined at an offset: as they stand there. A kernel is compiled there, too; a
    /// function goes on gaining overloads, unless one of them replaces one.
    fn seen_at(&self, at: u32, by_kernel: bool) -> impl Iterator<Item = &OverloadDefinition> {
        let is_there =
            move |each: &OverloadDefinition| each.start <= at && each.replaced.is_none_or(|replaced| replaced > at);
        let mut there = self.functions.iter().filter(|each| is_there(each)).peekable();
        let is_fixed = by_kernel && there.peek().is_some();
        let is_fixed = is_fixed || there.any(|each| each.replaced.is_some());
        let comes = move |each: &OverloadDefinition| each.start > at && !is_fixed && each.replaced.is_none();
        self.functions.iter().filter(move |each| is_there(each) || comes(each))
    }
}

impl FileEnvironment {
    /// The environment of the module-level functions of a file.
    pub fn new(unit: &Arc<SourceUnit>) -> Arc<FileEnvironment> {
        let mut file = FileNames {
            unit: unit.clone(),
            scopes: Vec::new(),
            errors: Vec::new(),
            scope_of: FxHashMap::default(),
            modules: FxHashMap::default(),
            imported: FxHashMap::default(),
            environments: Mutex::default(),
            offset: 0,
        };
        if let Some(loom) = unit.loom() {
            let mut known: Vec<(*const SourceUnit, Arc<FileEnvironment>)> = Vec::new();
            let mut environment = |of: &Arc<SourceUnit>| match known.iter().find(|(unit, _)| *unit == Arc::as_ptr(of)) {
                Some((_, environment)) => environment.clone(),
                None => {
                    let made = FileEnvironment::new(of);
                    known.push((Arc::as_ptr(of), made.clone()));
                    made
                }
            };
            file.modules = loom.modules.iter().map(|(name, of)| (name.clone(), environment(of))).collect();
            file.imported = loom.names.iter().map(|(name, of)| (name.clone(), environment(of))).collect();
        }
        file.add_scope(None, None, unit.body());
        file.forget_what_calls_change(unit.body());
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
        FileNames::environment(&Arc::new(file), 0, END)
    }

    /// Returns what is wrong with the structs of the file.
    pub(crate) fn errors(&self) -> &[AnnotationError] {
        &self.file.errors
    }

    /// A function of the file with the names it sees.
    pub fn function(&self, index: usize) -> FunctionHandle {
        let mut handle = self.file.handle(index);
        handle.custom = self.file.custom(index);
        handle
    }
}

impl FileNames {
    /// Returns what stands in for the derivative of a function, in the scope that it is in.
    fn custom(self: &Arc<FileNames>, index: usize) -> Arc<CustomDerivative> {
        let custom = Arc::<CustomDerivative>::default();
        let functions = self.unit.functions();
        let Some(of) = functions.get(index) else { return custom };
        let handle = |function: usize| self.handle(function);
        for (other, info) in functions.iter().enumerate() {
            let (Some(role), Some(name)) = (info.role, &info.of) else { continue };
            if *name == of.name && info.enclosing == of.enclosing && handle(other).goes_with(&handle(index)) {
                custom.set(role, Some(handle(other)));
            }
        }
        custom
    }

    /// A function with the names it sees, without what stands in for its derivative.
    fn handle(self: &Arc<FileNames>, index: usize) -> FunctionHandle {
        let info = self.unit.functions().get(index);
        let enclosing = info.and_then(|info| info.enclosing.last());
        let scope = enclosing.and_then(|start| self.scope_of.get(start)).copied().unwrap_or(0);
        FunctionHandle {
            unit: self.unit.clone(),
            function: index,
            environment: FileNames::environment(self, scope, info.map_or(END, |info| info.start)),
            arguments: None,
            custom: Default::default(),
        }
    }

    fn environment(self: &Arc<FileNames>, scope: usize, at: u32) -> Arc<FileEnvironment> {
        let mut environments = self.environments.lock().unwrap_or_else(PoisonError::into_inner);
        let known = environments.entry((scope, at)).or_default();
        known.upgrade().unwrap_or_else(|| {
            let environment = Arc::new(FileEnvironment { file: self.clone(), scope, at });
            *known = Arc::downgrade(&environment);
            environment
        })
    }

    fn add_scope(&mut self, start: Option<u32>, parent: Option<usize>, body: &[Stmt]) -> usize {
        let scope = self.scopes.len();
        if let Some(start) = start {
            self.scope_of.insert(start, scope);
        }
        self.scopes.push(FileScope { start, parent, is_class: false, base: None, names: FxHashMap::default() });
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
            ([Expr::Name(base)], []) if base.id == "object" && self.find(scope, &["object"], END).is_none() => {
                Some(None)
            }
            ([base], []) => self.class_of(scope, base).map(Some),
            _ => None,
        };
        let Some(base) = base else {
            return self.bind(scope, class.name.as_str(), unknown("a class known only when the program runs"));
        };
        let inner = self.scopes.len();
        self.scopes.push(FileScope {
            start: Some(class.range().start().to_u32()),
            parent: Some(self.enclosing_function(scope)),
            is_class: true,
            base,
            names: FxHashMap::default(),
        });
        self.bind_statements(inner, &class.body, certain);
        self.bind(scope, class.name.as_str(), NameBinding::Class(inner));
    }

    /// Returns true if a decorator is the package's `struct`.
    fn is_struct_decorator(&self, scope: usize, decorator: &Expr) -> bool {
        let Some(path) = dotted(decorator) else { return false };
        let Some(FoundPath::Import(import, members)) = self.find(scope, &path, END) else { return false };
        let full: Vec<&str> = import.split('.').chain(members.iter().copied()).collect();
        matches!(full[..], [package, "struct"] if PACKAGES.contains(&package))
    }

    /// Binds a struct type, or notes what is wrong with it.
    fn bind_struct(&mut self, scope: usize, class: &ast::StmtClassDef) {
        let binding = match self.struct_type(scope, class) {
            Ok(of) => NameBinding::Value(CapturedMeaning::Struct(of)),
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
        let lookup = |path: &[&str]| self.lookup(scope, path, END, None);
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
            FileScope { is_class: true, parent: Some(parent), .. } => *parent,
            _ => scope,
        }
    }

    /// The scope of the class that an expression names.
    fn class_of(&self, scope: usize, expr: &Expr) -> Option<usize> {
        match self.find(scope, &dotted(expr)?, END)? {
            FoundPath::Name(NameBinding::Class(class), []) => Some(*class),
            _ => None,
        }
    }

    fn add_function_scope(&mut self, start: u32, parent: usize, def: &ast::StmtFunctionDef) -> usize {
        let scope = self.add_scope(Some(start), Some(parent), &def.body);
        for parameter in def.parameters.iter_non_variadic_params() {
            let name = parameter.parameter.name.to_string();
            let parameter = || vec![(start, unknown("a parameter of the function around it"))];
            self.scopes[scope].names.entry(name).or_insert_with(parameter);
        }
        scope
    }

    /// Binds the names statements define; `certain` if the statements certainly run.
    fn bind_statements(&mut self, scope: usize, body: &[Stmt], certain: bool) {
        for stmt in body {
            self.offset = stmt.range().start().to_u32();
            for (named, runs) in assignment_expressions(stmt) {
                self.bind_target(scope, &named.target, Some(&*named.value).filter(|_| certain && runs));
            }
            match stmt {
                Stmt::Import(_) | Stmt::ImportFrom(_) => self.bind_imports(scope, stmt),
                Stmt::Assign(assign) => {
                    for target in &assign.targets {
                        self.bind_target(scope, target, Some(&assign.value).filter(|_| certain).map(|v| &**v));
                    }
                }
                Stmt::Expr(stmt) => {
                    if let Expr::Call(call) = &*stmt.value {
                        self.bind_attribute_set(scope, call);
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
                        Stmt::Match(stmt) => {
                            let mut names = PatternNames(Vec::new());
                            stmt.cases.iter().for_each(|case| names.visit_pattern(&case.pattern));
                            names.0.iter().for_each(|name| self.bind(scope, name, unknown(WHEN_IT_RUNS)));
                        }
                        Stmt::Try(stmt) => {
                            for ast::ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
                                if let Some(name) = &handler.name {
                                    self.bind(scope, name.as_str(), unknown(WHEN_IT_RUNS));
                                }
                            }
                        }
                        _ => {}
                    }
                    for block in blocks_of(stmt) {
                        self.bind_statements(scope, block, false);
                    }
                    if let Stmt::Try(stmt) = stmt {
                        // Imports in a `try` are taken as done, because `except ImportError: loom = None` is for
                        // machines without what reads this.
                        let imports = stmt.body.iter().filter(|inner| imports_known(inner));
                        imports.for_each(|import| self.bind_imports(scope, import));
                    }
                }
            }
        }
    }

    fn bind(&mut self, scope: usize, name: &str, binding: NameBinding) {
        let meanings = self.scopes[scope].names.entry(name.to_owned()).or_default();
        meanings.push((self.offset, binding));
    }

    fn bind_imports(&mut self, scope: usize, stmt: &Stmt) {
        for (name, path) in imported(stmt) {
            self.bind(scope, &name, NameBinding::Import(path.into()));
        }
    }

    /// Binds the targets of an assignment, all of whose values are computed first.
    fn bind_target(&mut self, scope: usize, target: &Expr, value: Option<&Expr>) {
        let mut bindings = Vec::new();
        self.bindings_of_target(scope, target, value, &mut bindings);
        for (scope, name, binding) in bindings {
            self.bind(scope, &name, binding);
        }
    }

    fn bindings_of_target(
        &self,
        scope: usize,
        target: &Expr,
        value: Option<&Expr>,
        bindings: &mut Vec<(usize, String, NameBinding)>,
    ) {
        match target {
            Expr::Name(name) => bindings.push((scope, name.id.to_string(), self.binding_of(scope, value))),
            Expr::Attribute(attribute) => {
                if let Some(class) = self.class_of(scope, &attribute.value) {
                    bindings.push((class, attribute.attr.to_string(), self.binding_of(scope, value)));
                }
            }
            Expr::Subscript(subscript) if is_call_of_globals(&subscript.value) => {
                if let Expr::StringLiteral(name) = &*subscript.slice {
                    bindings.push((0, name.value.to_str().to_owned(), self.binding_of(scope, value)));
                }
            }
            Expr::Tuple(ast::ExprTuple { elts, .. }) | Expr::List(ast::ExprList { elts, .. }) => {
                let values = match value {
                    Some(Expr::Tuple(values)) if values.elts.len() == elts.len() => Some(&values.elts),
                    Some(Expr::List(values)) if values.elts.len() == elts.len() => Some(&values.elts),
                    _ => None,
                };
                for (i, target) in elts.iter().enumerate() {
                    self.bindings_of_target(scope, target, values.map(|v| &v[i]), bindings);
                }
            }
            Expr::Starred(starred) => self.bindings_of_target(scope, &starred.value, None, bindings),
            _ => {}
        }
    }

    /// `setattr(Class, "name", value)`, and of anything else a name of the module that is no longer known.
    fn bind_attribute_set(&mut self, scope: usize, call: &ast::ExprCall) {
        let (Expr::Name(function), [object, Expr::StringLiteral(name), value]) = (&*call.func, &*call.arguments.args)
        else {
            return;
        };
        if function.id != "setattr" {
            return;
        }
        let class = self.class_of(scope, object);
        let binding = if class.is_some() { self.binding_of(scope, Some(value)) } else { unknown(WHEN_IT_RUNS) };
        self.bind(class.unwrap_or(0), name.value.to_str(), binding);
    }

    /// Forgets names of the module that functions assign which the module's own statements name, because these may call
    /// the functions, and what the names are then, only running the program would tell.
    fn forget_what_calls_change(&mut self, body: &[Stmt]) {
        let mut assigned = AssignedNames::default();
        body.iter().for_each(|stmt| assigned.visit_stmt(stmt));
        for (first, name) in assigned.changes() {
            let is_named = name.is_some();
            let names = match name {
                Some(name) => vec![name],
                None => self.scopes[0].names.keys().cloned().collect(),
            };
            for name in names {
                let meanings = self.scopes[0].names.entry(name).or_default();
                let after = meanings.partition_point(|(offset, _)| *offset <= first);
                // Functions, classes and imports are hardly ever replaced by code that does not say so.
                let is_value = |meanings: &[(u32, NameBinding)]| {
                    after.checked_sub(1).is_none_or(|last| matches!(meanings[last].1, NameBinding::Value(_)))
                };
                if is_named || is_value(meanings) {
                    let binding = unknown("a name that code of the module assigns when the program runs");
                    meanings.insert(after, (first, binding));
                }
            }
        }
    }

    /// Returns what a name assigned this value stands for.
    fn binding_of(&self, scope: usize, value: Option<&Expr>) -> NameBinding {
        let Some(value) = value else { return unknown(WHEN_IT_RUNS) };
        if let Some(class) = self.class_of(scope, value) {
            return NameBinding::Class(class);
        }
        match (self.evaluate(scope, value), value) {
            (Some(value), _) => NameBinding::Value(value),
            (None, Expr::Dict(_) | Expr::DictComp(_)) => unsupported("dict"),
            (None, Expr::List(_) | Expr::ListComp(_)) => unsupported("list"),
            (None, Expr::Set(_) | Expr::SetComp(_)) => unsupported("set"),
            (None, Expr::Tuple(_)) => unsupported("tuple"),
            (None, Expr::NoneLiteral(_)) => unsupported("NoneType"),
            (None, Expr::Lambda(_)) => unsupported("function"),
            _ => unknown(WHEN_IT_RUNS),
        }
    }

    fn bind_function(&mut self, scope: usize, def: &ast::StmtFunctionDef) {
        let start = def.range().start().to_u32();
        let name = def.name.as_str();
        let Some(index) = self.unit.function_starting_at(start) else { return };
        let binding = match self.unit.functions()[index].role {
            Some(FunctionRole::Func) => {
                let lookup = |path: &[&str]| self.lookup(scope, path, END, None);
                let reader = AnnotationReader { text: &self.unit.file().text, lookup: &lookup };
                let types = reader.parameter_types(def, Some(ParamType::ANY));
                let known = self.scopes[scope].names.get_mut(name).and_then(|meanings| meanings.last_mut());
                if let Some((_, NameBinding::Functions(overloads))) = known {
                    return overloads.add(index, start, types);
                }
                let mut overloads = OverloadSet::default();
                overloads.add(index, start, types);
                NameBinding::Functions(overloads)
            }
            Some(FunctionRole::Kernel) => NameBinding::Value(CapturedMeaning::Kernel(name.into())),
            Some(FunctionRole::Gradient | FunctionRole::Replay) | None => unsupported("function"),
        };
        self.bind(scope, name, binding);
    }

    fn evaluate(&self, scope: usize, expr: &Expr) -> Option<CapturedMeaning> {
        let lookup = |path: &[&str]| self.lookup(scope, path, END, None);
        if let Some(value) = constant::evaluate(expr, &lookup) {
            return Some(value);
        }
        let reader = AnnotationReader { text: &self.unit.file().text, lookup: &lookup };
        match expr {
            Expr::Call(call) if let Some(variable) = type_variable(call, &lookup) => {
                Some(CapturedMeaning::Annotation(ParamType::Generic(variable)))
            }
            Expr::Call(_) | Expr::Subscript(_) => Some(match reader.read(expr).ok()? {
                ParamType::Exact(ValueType::Plain(Type::Composite(composite))) => CapturedMeaning::Composite(composite),
                annotation => CapturedMeaning::Annotation(annotation),
            }),
            _ => None,
        }
    }

    /// The meaning of a path in a scope as it stands at an offset; functions need the file to make their handles.
    fn lookup(&self, scope: usize, path: &[&str], at: u32, file: Option<&Arc<FileNames>>) -> Option<CapturedMeaning> {
        let found = self.find(scope, path, at);
        if found.is_none() && self.unit.is_loom() {
            return self.loom_member(path);
        }
        let binding = match found? {
            FoundPath::Name(binding, []) => binding,
            FoundPath::Name(..) => return None,
            FoundPath::Import(import, members) => {
                let full: Vec<&str> = import.split('.').chain(members.iter().copied()).collect();
                return resolve(&full);
            }
        };
        match binding {
            NameBinding::Value(value) => Some(value.clone()),
            NameBinding::Class(_) => Some(CapturedMeaning::Unsupported("type".into())),
            NameBinding::Import(_) => None,
            NameBinding::Functions(overloads) => {
                let file = file?;
                let handle = |overload: &OverloadDefinition| {
                    let mut handle = file.handle(overload.index);
                    handle.custom = file.custom(overload.index);
                    handle
                };
                let function = self.unit.function_starting_at(at).and_then(|index| self.unit.functions().get(index));
                let by_kernel = function.is_some_and(|info| info.role == Some(FunctionRole::Kernel));
                Some(CapturedMeaning::Function(overloads.seen_at(at, by_kernel).map(handle).collect()))
            }
        }
    }

    /// The meaning of a path in a `.loom` file that the file does not declare: a name that it imports, or one that
    /// every file knows.
    fn loom_member(&self, path: &[&str]) -> Option<CapturedMeaning> {
        let (first, rest) = path.split_first()?;
        if let Some(module) = self.modules.get(*first) {
            return match rest {
                [] => Some(CapturedMeaning::Module((*first).into())),
                rest => module.lookup(rest),
            };
        }
        if let Some(from) = self.imported.get(*first) {
            return from.lookup(path);
        }
        match path {
            [ANY] => Some(CapturedMeaning::Any),
            [name] => scalar(name)
                .map(CapturedMeaning::Type)
                .or_else(|| members::package_member(name))
                .or_else(|| members::python_builtin(name).filter(|_| matches!(*name, "abs" | "round" | "pow"))),
            _ => None,
        }
    }

    /// Follows a path from a scope, as it stands at an offset, through classes as far as they lead. Of the scopes around
    /// it names are as they stand at the end of the file: when a function runs, only running the program would tell.
    fn find<'a>(&'a self, scope: usize, path: &'a [&'a str], at: u32) -> Option<FoundPath<'a>> {
        let (root, mut members) = path.split_first()?;
        let (mut next, mut at) = (Some(scope), at);
        while let Some(index) = next {
            let scope = &self.scopes[index];
            if let Some(meanings) = scope.names.get(*root)
                && let Some(mut found) = meaning(meanings, at)
            {
                while let (NameBinding::Class(class), [member, rest @ ..]) = (found, members) {
                    found = self.attribute(*class, member, at)?;
                    members = rest;
                }
                return Some(match found {
                    NameBinding::Import(path) => FoundPath::Import(path, members),
                    found => FoundPath::Name(found, members),
                });
            }
            if let Some(import) = self.unit.import(scope.start, root) {
                return Some(FoundPath::Import(import, members));
            }
            next = scope.parent;
            at = END;
        }
        None
    }

    /// An attribute of a class, its own or inherited.
    fn attribute(&self, class: usize, name: &str, at: u32) -> Option<&NameBinding> {
        let classes = std::iter::successors(Some(class), |&class| self.scopes[class].base);
        classes.into_iter().find_map(|class| meaning(self.scopes[class].names.get(name)?, at))
    }
}

/// Holds what only running the program would tell.
const WHEN_IT_RUNS: &str = "a value known only when the program runs";

/// The meaning that a name has at an offset; where it has none yet, or one that is only there until it is given another,
/// the last.
fn meaning(meanings: &[(u32, NameBinding)], at: u32) -> Option<&NameBinding> {
    let before = meanings.partition_point(|(offset, _)| *offset <= at);
    let there = before.checked_sub(1).map(|index| &meanings[index].1);
    match there {
        Some(NameBinding::Value(CapturedMeaning::Unsupported(_))) | None => meanings.last().map(|(_, binding)| binding),
        there => there,
    }
}

/// Returns true if a statement imports what is known without reading it.
fn imports_known(stmt: &Stmt) -> bool {
    let is_known = |path: &str| {
        let root = path.split('.').next().unwrap_or_default();
        PACKAGES.contains(&root) || LIBRARIES.contains(&root)
    };
    imported(stmt).iter().any(|(_, path)| is_known(path))
}

/// Returns what the type variable of `TypeVar("T", float, wp.float64)` stands for: the types it is constrained to.
fn type_variable(call: &ast::ExprCall, lookup: &dyn Fn(&[&str]) -> Option<CapturedMeaning>) -> Option<TypePattern> {
    if !matches!(lookup(&dotted(&call.func)?), Some(CapturedMeaning::TypeVariable)) {
        return None;
    }
    let (_, constraints) = call.arguments.args.split_first()?;
    if constraints.is_empty() {
        return Some(TypePattern::Any);
    }
    let scalars = constraints.iter().map(|constraint| match constant::evaluate(constraint, lookup) {
        Some(CapturedMeaning::Type(scalar)) => Some(scalar),
        _ => None,
    });
    let scalars: Option<Vec<_>> = scalars.collect();
    Some(TypePattern::Scalar(ScalarSet::of(scalars?)))
}

/// Says where a path leads.
enum FoundPath<'a> {
    /// To a name, and what of the path is left.
    Name(&'a NameBinding, &'a [&'a str]),
    /// To an import of this path, and what of the path is left.
    Import(&'a str, &'a [&'a str]),
}

/// The meaning of a full path such as `numpy.pi`.
fn resolve(path: &[&str]) -> Option<CapturedMeaning> {
    match path {
        [module] => Some(CapturedMeaning::Module((*module).into())),
        [package, member] if PACKAGES.contains(package) => members::package_member(member),
        [package, "types", member] if PACKAGES.contains(package) => members::types_member(member),
        [library, member] if LIBRARIES.contains(library) => members::library_member(library, member),
        ["collections", "abc", member] => members::library_member("collections.abc", member),
        [root, ..] if PACKAGES.contains(root) || LIBRARIES.contains(root) => None,
        // A name of a module this compilation has not read.
        [.., _] => Some(CapturedMeaning::Unknown("a name of another module")),
        [] => None,
    }
}

fn unknown(what: &'static str) -> NameBinding {
    NameBinding::Value(CapturedMeaning::Unknown(what))
}

fn unsupported(type_name: &str) -> NameBinding {
    NameBinding::Value(CapturedMeaning::Unsupported(type_name.into()))
}

impl NameEnvironment for FileEnvironment {
    fn lookup(&self, path: &[&str]) -> Option<CapturedMeaning> {
        self.file.lookup(self.scope, path, self.at, Some(&self.file))
    }

    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut at = Some(self.scope);
        while let Some(index) = at {
            let scope = &self.file.scopes[index];
            names.extend(scope.names.keys().cloned());
            names.extend(self.file.unit.imports(scope.start).map(str::to_owned));
            if self.file.unit.is_loom() {
                names.retain(|name| !name.starts_with('$'));
                names.extend(self.file.modules.keys().chain(self.file.imported.keys()).cloned());
                names.extend(package_members().into_iter().map(str::to_owned));
            }
            at = scope.parent;
        }
        names.sort();
        names
    }
}
