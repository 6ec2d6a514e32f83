//! Finds the names of a module that its code assigns other than by plain statements: in functions that statements name, in
//! methods and bodies of classes, and by the dictionary of its names. What these are then, only running the program would tell.

use crate::dotted_path::dotted;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::Ranged;
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns true for `globals()`.
pub(crate) fn is_call_of_globals(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if name.id == "globals"))
}

/// The names of the module that functions and classes assign, and where the module's own statements name these.
#[derive(Default)]
pub(crate) struct AssignedNames {
    /// Holds what each function, or the methods of each class, do by themselves.
    definitions: FxHashMap<String, GlobalEffects>,
    /// The offset of the first statement of the module that names something other than to define it.
    named_at: FxHashMap<String, u32>,
    /// Holds what statements of the module do at once other than by plain assignments, with their offsets.
    at_once: Vec<(u32, GlobalEffects)>,
    /// The outermost function or class that is being visited; of a class, its methods alone.
    definition: Option<String>,
    class: Option<String>,
    statement: u32,
}

/// Describes what code does to the names of its module.
#[derive(Clone, Default)]
struct GlobalEffects {
    assigned: FxHashSet<String>,
    /// True if it assigns names that the text does not say.
    assigns_any: bool,
    /// All names in it, some of which may be functions that it calls.
    named: FxHashSet<String>,
}

impl AssignedNames {
    /// Notes what the code that is being visited does.
    fn note(&mut self, note: impl FnOnce(&mut GlobalEffects)) {
        if let Some(definition) = &self.definition {
            return note(self.definitions.entry(definition.clone()).or_default());
        }
        let mut effects = GlobalEffects::default();
        note(&mut effects);
        self.at_once.push((self.statement, effects));
    }

    /// Returns what code may do with all that it names, directly or in turn.
    fn reached_by(&self, effects: &GlobalEffects) -> GlobalEffects {
        let mut all = effects.clone();
        let mut open: Vec<String> = all.named.iter().cloned().collect();
        while let Some(name) = open.pop() {
            let Some(of) = self.definitions.get(&name) else { continue };
            all.assigned.extend(of.assigned.iter().cloned());
            all.assigns_any |= of.assigns_any;
            open.extend(of.named.iter().filter(|name| all.named.insert((*name).clone())).cloned());
        }
        all
    }

    /// Returns the names that are not known from an offset on; `None` for all of them.
    pub(crate) fn changes(&self) -> Vec<(u32, Option<String>)> {
        let by_name = self.named_at.iter().filter_map(|(name, &first)| Some((first, self.definitions.get(name)?)));
        let at_once = self.at_once.iter().map(|(at, effects)| (*at, effects));
        let mut changes = Vec::new();
        for (first, effects) in by_name.chain(at_once) {
            let reached = self.reached_by(effects);
            changes.extend(reached.assigned.into_iter().map(|name| (first, Some(name))));
            changes.extend(reached.assigns_any.then_some((first, None)));
        }
        changes
    }

    /// Visits the body of a function, which runs when it is called, after what runs where it is defined.
    fn function(&mut self, def: &ast::StmtFunctionDef) {
        def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        self.visit_parameters(&def.parameters);
        let of = self.class.clone().unwrap_or_else(|| def.name.to_string());
        let (class, outside) = (self.class.take(), self.definition.replace(of));
        self.visit_body(&def.body);
        (self.class, self.definition) = (class, outside);
    }
}

/// Returns true for the names of a module as a dictionary.
fn is_namespace(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else { return false };
    matches!(&*call.func, Expr::Name(name) if matches!(name.id.as_str(), "globals" | "vars" | "locals"))
}

/// Returns true for a target that may be a name of the module, but does not say which.
fn is_any_name(target: &Expr) -> bool {
    let is_module = |expr: &Expr| matches!(expr, Expr::Subscript(of) if dotted(&of.value).is_some_and(|path| path == ["sys", "modules"]));
    match target {
        Expr::Subscript(subscript) => {
            let is_literal = is_call_of_globals(&subscript.value) && subscript.slice.is_string_literal_expr();
            is_namespace(&subscript.value) && !is_literal
        }
        Expr::Attribute(attribute) => is_module(&attribute.value),
        _ => false,
    }
}

impl<'a> Visitor<'a> for AssignedNames {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if self.definition.is_none() && self.class.is_none() {
            self.statement = stmt.range().start().to_u32();
        }
        match stmt {
            Stmt::FunctionDef(def) if self.definition.is_none() => self.function(def),
            Stmt::ClassDef(class) if self.definition.is_none() && self.class.is_none() => {
                class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                class.arguments.iter().for_each(|arguments| self.visit_arguments(arguments));
                self.class = Some(class.name.to_string());
                self.visit_body(&class.body);
                self.class = None;
            }
            Stmt::Global(global) => {
                let names: Vec<String> = global.names.iter().map(ToString::to_string).collect();
                self.note(|effects| effects.assigned.extend(names));
            }
            Stmt::Assign(assign) => {
                let named = assign.targets.iter().filter_map(|target| match target {
                    Expr::Subscript(subscript) if is_call_of_globals(&subscript.value) => match &*subscript.slice {
                        Expr::StringLiteral(name) => Some(name.value.to_str().to_owned()),
                        _ => None,
                    },
                    _ => None,
                });
                let named: Vec<String> = named.collect();
                let assigns_any = is_namespace(&assign.value) || assign.targets.iter().any(is_any_name);
                if assigns_any || !named.is_empty() && self.definition.is_some() {
                    self.note(|effects| {
                        effects.assigned.extend(named);
                        effects.assigns_any |= assigns_any;
                    });
                }
                visitor::walk_stmt(self, stmt);
            }
            // Code that runs only where the file is the program.
            Stmt::If(branch) if self.definition.is_none() && is_main_guard(&branch.test) => {}
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if self.definition.is_some() => {
                self.note(|effects| _ = effects.named.insert(name.id.to_string()));
            }
            Expr::Name(name) => _ = self.named_at.entry(name.id.to_string()).or_insert(self.statement),
            Expr::Call(call) => {
                let assigns_any = match &*call.func {
                    Expr::Name(name) => name.id == "exec",
                    Expr::Attribute(method) => {
                        let writes = ["update", "setdefault", "pop", "clear", "__setitem__"];
                        is_namespace(&method.value) && writes.contains(&method.attr.as_str())
                    }
                    _ => false,
                };
                if assigns_any {
                    self.note(|effects| effects.assigns_any = true);
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

/// The names that patterns of a `match` bind.
pub(crate) struct PatternNames(pub(crate) Vec<String>);

impl<'a> Visitor<'a> for PatternNames {
    fn visit_pattern(&mut self, pattern: &'a ast::Pattern) {
        let name = match pattern {
            ast::Pattern::MatchAs(matched) => matched.name.as_ref(),
            ast::Pattern::MatchStar(matched) => matched.name.as_ref(),
            ast::Pattern::MatchMapping(matched) => matched.rest.as_ref(),
            _ => None,
        };
        self.0.extend(name.map(ToString::to_string));
        visitor::walk_pattern(self, pattern);
    }
}

fn is_main_guard(test: &Expr) -> bool {
    matches!(test, Expr::Compare(compare) if matches!(&*compare.left, Expr::Name(name) if name.id == "__name__"))
}
