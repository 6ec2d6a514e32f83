//! Statements that are no control flow: what each evaluates, binds and writes, in Python's order.

use super::interpreter::CaptureInterpreter;
use super::object::{EXTERNAL, FunctionObject, FunctionSource, ObjectKind, ValueId};
use super::plain::PlainUse;
use super::scope::{ScopeBindings, UsedNames};
use super::timeline::EventKind;
use crate::capture::frame::{CaptureFrame, FrameKind};
use crate::source::imported;
use polyloom_ir::Span;
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Modules whose import runs no code of the program.
const INERT_MODULES: [&str; 5] = ["polyloom", "numpy", "math", "typing", "warp"];

impl CaptureInterpreter<'_> {
    /// Walks statements until one that nothing goes on after.
    pub(crate) fn statements(&mut self, body: &[Stmt]) {
        for stmt in body {
            if !self.state.is_reachable {
                return;
            }
            if self.enter() {
                let statement = self.statement;
                self.statement = self.statement_span(stmt);
                self.visit_statement(stmt);
                self.statement = statement;
            }
            self.leave();
            if self.has_given_up {
                return;
            }
        }
    }

    /// The part of a statement that a caret points at: a compound statement's head alone.
    fn statement_span(&self, stmt: &Stmt) -> Span {
        let start = stmt.range().start();
        let end = match stmt {
            Stmt::If(stmt) => stmt.test.range().end(),
            Stmt::For(stmt) => stmt.iter.range().end(),
            Stmt::While(stmt) => stmt.test.range().end(),
            Stmt::With(stmt) => stmt.items.last().map_or(start, |item| item.range.end()),
            Stmt::Match(stmt) => stmt.subject.range().end(),
            Stmt::FunctionDef(def) => return self.span(def.name.range),
            Stmt::ClassDef(class) => return self.span(class.name.range),
            Stmt::Try(_) => return self.span(TextRange::at(start, 3.into())),
            _ => stmt.range().end(),
        };
        self.span(TextRange::new(start, end))
    }

    fn visit_statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Expr(stmt) => _ = self.eval(&stmt.value),
            Stmt::Assign(assign) => {
                let value = self.eval(&assign.value);
                for target in &assign.targets {
                    self.assign(target, value);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    let value = self.eval(value);
                    self.assign(&assign.target, value);
                }
            }
            Stmt::AugAssign(assign) => self.augmented_assignment(assign),
            Stmt::Return(stmt) => {
                let value = match &stmt.value {
                    Some(value) => self.eval(value),
                    None => super::object::CONSTANT,
                };
                let state = self.state.clone();
                let function = self.frames.iter().rposition(|frame| frame.kind == FrameKind::Function);
                if let Some(frame) = function.and_then(|index| self.frames.get_mut(index)) {
                    frame.returns.push((state, value));
                }
                self.exits.returns += 1;
                self.state.is_reachable = false;
            }
            Stmt::Raise(stmt) => {
                for value in stmt.exc.iter().chain(&stmt.cause) {
                    let value = self.eval(value);
                    self.escape_value(value);
                }
                self.exits.raises += 1;
                self.state.is_reachable = false;
            }
            Stmt::Assert(stmt) => {
                self.test(&stmt.test);
                if let Some(message) = &stmt.msg {
                    let state = self.state.clone();
                    self.in_block(|this| {
                        let message = this.eval(message);
                        this.escape_value(message);
                    });
                    self.state = state;
                }
            }
            Stmt::Delete(stmt) => stmt.targets.iter().for_each(|target| self.delete(target)),
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.import(stmt),
            Stmt::FunctionDef(def) => self.define_function(def),
            Stmt::ClassDef(class) => self.define_class(class),
            Stmt::Break(_) | Stmt::Continue(_) => {
                let mut state = self.state.clone();
                state.is_reachable = self.state.is_reachable;
                if let Some(exits) = self.loops.last_mut() {
                    match stmt {
                        Stmt::Break(_) => exits.breaks.push(state),
                        _ => exits.continues.push(state),
                    }
                }
                self.exits.of_loops += 1;
                self.state.is_reachable = false;
            }
            Stmt::If(stmt) => self.branch(stmt),
            Stmt::For(stmt) => self.for_loop(stmt),
            Stmt::While(stmt) => self.while_loop(stmt),
            Stmt::With(stmt) => self.with(stmt),
            Stmt::Try(stmt) => self.try_statement(stmt),
            Stmt::Match(stmt) => self.match_statement(stmt),
            Stmt::TypeAlias(stmt) => {
                let value = self.external();
                self.assign(&stmt.name, value);
            }
            Stmt::Pass(_) | Stmt::Global(_) | Stmt::Nonlocal(_) | Stmt::IpyEscapeCommand(_) => {}
        }
    }

    fn import(&mut self, stmt: &Stmt) {
        for (name, path) in imported(stmt) {
            let root = path.split('.').next().unwrap_or_default();
            if !INERT_MODULES.contains(&root) {
                self.run_unknown_code(stmt.range(), EventKind::UnknownCode, &[]);
            }
            let object = self.path_object(&path);
            let value = self.value_of(vec![object]);
            self.bind(&name, value);
        }
    }

    /// Evaluates the defaults of parameters, those of keyword-only ones last, and the annotations.
    fn defaults(&mut self, parameters: &ast::Parameters, has_annotations: bool) -> Vec<(String, ValueId)> {
        let mut defaults = Vec::new();
        for each in parameters.posonlyargs.iter().chain(&parameters.args).chain(&parameters.kwonlyargs) {
            if let Some(default) = &each.default {
                let value = self.eval(default);
                defaults.push((each.parameter.name.to_string(), value));
            }
        }
        if has_annotations {
            let annotations = parameters.iter().filter_map(|parameter| parameter.annotation());
            annotations.for_each(|annotation| _ = self.eval(annotation));
        }
        defaults
    }

    fn function_value(
        &mut self,
        range: TextRange,
        code: FunctionSource,
        scope: &ScopeBindings,
        used: UsedNames,
        defaults: Vec<(String, ValueId)>,
    ) -> ValueId {
        let held: Vec<_> = defaults.iter().flat_map(|(_, value)| self.table.objects_of(*value).to_vec()).collect();
        let captured = used.loaded.into_iter().filter(|name| !scope.locals.contains(name)).collect();
        let function = FunctionObject {
            code,
            frame: self.frames.last().map(|frame| frame.id),
            environment: self.frames.last().map_or(0, |frame| frame.environment),
            captured,
            rebinds: used.nonlocals.into_iter().collect(),
            defaults,
        };
        let object = self.make(range, 0, ObjectKind::Function(Rc::new(function)), Some(Vec::new()), Vec::new());
        self.heap.remove(&object);
        self.add_contents(object, &held);
        self.value_of(vec![object])
    }

    fn define_function(&mut self, def: &ast::StmtFunctionDef) {
        let mut decorators: Vec<ValueId> = Vec::new();
        for decorator in &def.decorator_list {
            // `@loom.fuse(strict=True)` leaves the function what it is, as `@loom.fuse` does.
            let transparent = match &decorator.expression {
                Expr::Call(call) => Some(self.eval(&call.func)).filter(|&value| self.is_transparent_value(value)),
                _ => None,
            };
            let value = transparent.unwrap_or_else(|| self.eval(&decorator.expression));
            decorators.push(value);
        }
        let defaults = self.defaults(&def.parameters, true);
        if let Some(returns) = &def.returns {
            self.eval(returns);
        }
        let unit = self.frames.last().map_or(0, |frame| frame.unit);
        let code = FunctionSource::Definition { unit, start: def.range().start().to_u32() };
        let scope = ScopeBindings::of_function(&def.parameters, &def.body);
        let used = UsedNames::of_body(&def.body, Vec::new());
        let mut value = self.function_value(def.range(), code, &scope, used, defaults);
        for decorator in decorators.iter().rev() {
            if !self.is_transparent_value(*decorator) {
                let objects = super::object::union(&self.table.objects_of(value), &self.table.objects_of(*decorator));
                self.run_unknown_code(def.name.range, EventKind::UnknownCode, &objects);
                value = self.external();
            }
        }
        self.bind(&def.name, value);
    }

    /// True if a decorator leaves a function what it is.
    fn is_transparent_value(&self, decorator: ValueId) -> bool {
        match &self.table.objects_of(decorator)[..] {
            [only] => match self.table.kind(*only) {
                ObjectKind::Path(path) => super::environment::is_transparent_decorator(path),
                _ => false,
            },
            _ => false,
        }
    }

    pub(crate) fn lambda(&mut self, lambda: &ast::ExprLambda) -> ValueId {
        let defaults = lambda.parameters.as_ref().map(|parameters| self.defaults(parameters, false));
        let unit = self.frames.last().map_or(0, |frame| frame.unit);
        let (start, end) = (lambda.range.start().to_u32(), lambda.range.end().to_u32());
        let scope = ScopeBindings::of_lambda(lambda);
        let used = UsedNames::of_expr(&lambda.body);
        let code = FunctionSource::Lambda { unit, start, end };
        self.function_value(lambda.range, code, &scope, used, defaults.unwrap_or_default())
    }

    /// Walks the body of a class, which runs at once, and hands all that it binds to unknown code: metaclasses and
    /// hooks of base classes.
    fn define_class(&mut self, class: &ast::StmtClassDef) {
        let mut handed: Vec<ValueId> = class.decorator_list.iter().map(|each| self.eval(&each.expression)).collect();
        if let Some(arguments) = &class.arguments {
            let bases = arguments.args.iter().chain(arguments.keywords.iter().map(|keyword| &keyword.value));
            handed.extend(bases.map(|base| self.eval(base)).collect::<Vec<_>>());
        }
        let scope = ScopeBindings::of_body(&class.body);
        self.push_frame(class.range, scope, FrameKind::Class);
        self.in_block(|this| this.statements(&class.body));
        let bound = self.state.frames.last().map(|names| names.values().copied().collect::<Vec<_>>());
        handed.extend(bound.unwrap_or_default());
        let objects: Vec<_> = handed.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        self.run_unknown_code(class.name.range, EventKind::UnknownCode, &objects);
        self.pop_frame();
        let value = self.external();
        self.bind(&class.name, value);
    }

    /// Makes a scope inside of the innermost frame the innermost.
    pub(crate) fn push_frame(&mut self, range: TextRange, scope: ScopeBindings, kind: FrameKind) {
        let id = self.frame_id(range);
        let parent = self.frames.len().checked_sub(1);
        let (environment, unit) = self.frames.last().map_or((0, 0), |frame| (frame.environment, frame.unit));
        self.frames.push(CaptureFrame { id, scope, parent, kind, environment, unit, code: None, returns: Vec::new() });
        self.state.frames.push(Rc::new(FxHashMap::default()));
    }

    /// Leaves the innermost frame. Functions that were defined in it keep the values of the names that they read.
    pub(crate) fn pop_frame(&mut self) {
        let id = self.frames.last().map(|frame| frame.id);
        self.add_work(self.table.objects.len() / 32);
        let defined: Vec<(u32, Rc<FunctionObject>)> = (0u32..)
            .zip(&self.table.objects)
            .filter_map(|(index, object)| match &object.kind {
                ObjectKind::Function(function) | ObjectKind::Generator(function) if function.frame == id => {
                    Some((index, function.clone()))
                }
                _ => None,
            })
            .collect();
        for (object, function) in defined {
            let values = self.captured_values(function.frame, &function.captured);
            let objects: Vec<_> = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
            self.add_contents(object, &objects);
        }
        self.frames.pop();
        self.state.frames.pop();
    }

    /// Deletes what a `del` names.
    fn delete(&mut self, target: &Expr) {
        match target {
            Expr::Name(name) => self.unbind(&name.id),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|each| self.delete(each)),
            Expr::List(list) => list.elts.iter().for_each(|each| self.delete(each)),
            Expr::Subscript(subscript) => {
                let container = self.eval(&subscript.value);
                self.eval(&subscript.slice);
                self.delete_element(subscript.range, container);
            }
            Expr::Attribute(attribute) => {
                let object = self.eval(&attribute.value);
                self.delete_element(attribute.range, object);
            }
            _ => {}
        }
    }

    fn delete_element(&mut self, range: TextRange, container: ValueId) {
        let objects = self.table.objects_of(container);
        if objects.contains(&EXTERNAL) {
            self.run_unless_plain(range, &[container], PlainUse::Operator);
            self.has_run_code = true;
        }
        for &object in objects.iter() {
            if matches!(self.table.present_kind(object), ObjectKind::Container(_)) {
                self.add_contents(object, &[]);
            }
        }
        let writes = self.table.roots(&objects);
        self.record(range, EventKind::Store, Vec::new(), writes);
    }
}
