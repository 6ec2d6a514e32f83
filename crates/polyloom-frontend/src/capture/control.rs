//! Branches, `try`, `with` and `match`: what may or may not run, and where it goes on.

use super::frame::{CaptureState, FrameKind};
use super::interpreter::CaptureInterpreter;
use super::object::{FunctionSource, PLAIN, ValueId, union};
use super::scope::UsedNames;
use super::timeline::{EventKind, TryRegion};
use ruff_python_ast::{self as ast, ExceptHandler, Pattern, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashSet;
use std::rc::Rc;

/// The numbers of ways out of a function and of its innermost loop.
#[derive(Clone, Copy)]
struct ExitCounts {
    returns: usize,
    breaks: usize,
    continues: usize,
}

impl CaptureInterpreter<'_> {
    pub(crate) fn branch(&mut self, stmt: &ast::StmtIf) {
        let exits = self.exits;
        self.test(&stmt.test);
        let mut others = self.state.clone();
        self.in_block(|this| this.statements(&stmt.body));
        let mut states = vec![std::mem::take(&mut self.state)];
        let outer = self.block;
        let mut has_else = false;
        for clause in &stmt.elif_else_clauses {
            self.state = others;
            // Each condition is evaluated only if those before it are false.
            self.block = self.new_block();
            match &clause.test {
                Some(test) => _ = self.test(test),
                None => has_else = true,
            }
            others = self.state.clone();
            self.in_block(|this| this.statements(&clause.body));
            states.push(std::mem::take(&mut self.state));
        }
        self.block = outer;
        if !has_else {
            states.push(others);
        }
        self.state = self.join_all(states);
        self.split_block_after(exits);
    }

    /// Returns how many ways out of the innermost function and loop have been found.
    fn exit_counts(&self) -> ExitCounts {
        let function = self.frames.iter().rfind(|frame| frame.kind == FrameKind::Function);
        let exits = self.loops.last();
        ExitCounts {
            returns: function.map_or(0, |frame| frame.returns.len()),
            breaks: exits.map_or(0, |exits| exits.breaks.len()),
            continues: exits.map_or(0, |exits| exits.continues.len()),
        }
    }

    /// Lets the ways out that have been found since `counts` go through code that has made some bindings: that of a
    /// `finally`, or of the manager of a `with`.
    fn amend_exits(&mut self, counts: ExitCounts, first_binding: usize) {
        let function = self.frames.iter().rposition(|frame| frame.kind == FrameKind::Function);
        if let Some(index) = function {
            let known = &mut self.frames[index].returns;
            let returns = known.split_off(counts.returns.min(known.len()));
            for (state, value) in returns {
                let state = self.state_during(&state, first_binding);
                self.frames[index].returns.push((state, value));
            }
        }
        let Some(mut exits) = self.loops.pop() else { return };
        for (states, count) in [(&mut exits.breaks, counts.breaks), (&mut exits.continues, counts.continues)] {
            for state in states.iter_mut().skip(count) {
                *state = self.state_during(state, first_binding);
            }
        }
        self.loops.push(exits);
    }

    /// Returns a state that may be that of any moment since some bindings were made.
    fn state_during(&mut self, before: &CaptureState, first_binding: usize) -> CaptureState {
        let mut state = before.clone();
        let bindings: Vec<(Option<u32>, Rc<str>, ValueId)> = self
            .timeline
            .bindings
            .get(first_binding..)
            .unwrap_or_default()
            .iter()
            .map(|binding| (binding.frame, binding.name.clone(), binding.value))
            .collect();
        for (frame, name, value) in bindings {
            let Some(index) = self.frames.iter().position(|active| Some(active.id) == frame) else { continue };
            let known = state.frames.get(index).and_then(|names| names.get(&*name)).copied();
            let value = match known {
                Some(known) => self.join_values(known, value),
                None => {
                    let objects = self.table.objects_of(value).to_vec();
                    self.value_that_may_be_unbound(objects)
                }
            };
            if let Some(names) = state.frames.get_mut(index) {
                Rc::make_mut(names).insert(name.to_string(), value);
            }
        }
        state.globals = Rc::default();
        state.globals_since = self.timeline.now();
        state
    }

    pub(crate) fn try_statement(&mut self, stmt: &ast::StmtTry) {
        let exits = self.exits;
        let before = self.state.clone();
        let first_binding = self.timeline.bindings.len();
        let counts = self.exit_counts();
        let region = self.try_region(stmt);
        let tries = self.tries.clone();
        if let Some(region) = region {
            self.timeline.tries.push(region);
            let mut inner = tries.to_vec();
            inner.push(self.timeline.tries.len() - 1);
            self.tries = Rc::new(inner);
        }
        self.in_block(|this| this.statements(&stmt.body));
        self.tries = tries;
        let after_body = std::mem::take(&mut self.state);
        let thrown = self.state_during(&before, first_binding);
        self.state = after_body;
        self.in_block(|this| this.statements(&stmt.orelse));
        let mut states = vec![std::mem::take(&mut self.state)];
        for handler in &stmt.handlers {
            let ExceptHandler::ExceptHandler(handler) = handler;
            self.state = thrown.clone();
            self.in_block(|this| {
                if let Some(class) = &handler.type_ {
                    this.eval(class);
                }
                if let Some(name) = &handler.name {
                    let value = this.external();
                    this.bind(name, value);
                }
                this.statements(&handler.body);
                if let Some(name) = handler.name.as_ref().filter(|_| this.state.is_reachable) {
                    this.unbind(name);
                }
            });
            states.push(std::mem::take(&mut self.state));
        }
        let after = self.join_all(states);
        if stmt.finalbody.is_empty() {
            self.state = after;
        } else {
            let is_reachable = after.is_reachable;
            let during = self.state_during(&before, first_binding);
            self.state = self.join_states(after, during);
            let first_binding = self.timeline.bindings.len();
            self.in_block(|this| this.statements(&stmt.finalbody));
            self.state.is_reachable &= is_reachable;
            self.amend_exits(counts, first_binding);
        }
        self.split_block_after(exits);
    }

    /// Finds the names that are read where exceptions of the body of a `try` lead to: in its handlers and its `finally`,
    /// and after it if a handler ends.
    fn try_region(&self, stmt: &ast::StmtTry) -> Option<TryRegion> {
        let frame = self.frames.last()?;
        let mut read = FxHashSet::default();
        for handler in &stmt.handlers {
            let ExceptHandler::ExceptHandler(handler) = handler;
            read.extend(UsedNames::of_body(&handler.body, Vec::new()).loaded);
        }
        read.extend(UsedNames::of_body(&stmt.finalbody, Vec::new()).loaded);
        let goes_on = |handler: &ExceptHandler| {
            let ExceptHandler::ExceptHandler(handler) = handler;
            !matches!(handler.body.last(), Some(Stmt::Return(_) | Stmt::Raise(_)))
        };
        if stmt.handlers.iter().any(goes_on) {
            let excluded = [&stmt.body, &stmt.orelse].into_iter().filter_map(|block| block_range(block)).collect();
            let (unit, _) = self.units.get(frame.unit)?;
            match frame.code {
                Some(FunctionSource::Definition { start, .. }) => {
                    let def = unit.definition_at(start)?;
                    read.extend(UsedNames::of_body(&def.body, excluded).loaded);
                }
                _ => read.extend(UsedNames::of_body(unit.body(), excluded).loaded),
            }
        }
        Some(TryRegion {
            frame: frame.id,
            read_after: read,
            span: self.span(TextRange::at(stmt.range.start(), 3.into())),
        })
    }

    pub(crate) fn with(&mut self, stmt: &ast::StmtWith) {
        let exits = self.exits;
        let mut managers = Vec::new();
        for item in &stmt.items {
            let manager = self.eval(&item.context_expr);
            let objects = self.table.objects_of(manager);
            self.run_unknown_code(item.range, EventKind::UnknownCode, &objects);
            managers.extend(objects.iter().copied());
            if let Some(target) = &item.optional_vars {
                let value = self.external();
                self.assign(target, value);
            }
        }
        let before = self.state.clone();
        let counts = self.exit_counts();
        let first_binding = self.timeline.bindings.len();
        self.in_block(|this| this.statements(&stmt.body));
        // The manager may end an exception of the body.
        let after = std::mem::take(&mut self.state);
        let during = self.state_during(&before, first_binding);
        self.state = self.join_states(after, during);
        let range = stmt.items.last().map_or(stmt.range, |item| item.range);
        let first_binding = self.timeline.bindings.len();
        self.run_unknown_code(range, EventKind::UnknownCode, &managers);
        self.amend_exits(counts, first_binding);
        self.split_block_after(exits);
    }

    pub(crate) fn match_statement(&mut self, stmt: &ast::StmtMatch) {
        let exits = self.exits;
        let subject = self.eval(&stmt.subject);
        let mut others = self.state.clone();
        let mut states = Vec::new();
        let outer = self.block;
        for case in &stmt.cases {
            self.state = others;
            self.block = self.new_block();
            self.pattern(&case.pattern, subject);
            if let Some(guard) = &case.guard {
                self.test(guard);
            }
            others = self.state.clone();
            self.in_block(|this| this.statements(&case.body));
            states.push(std::mem::take(&mut self.state));
        }
        self.block = outer;
        states.push(others);
        self.state = self.join_all(states);
        self.split_block_after(exits);
    }

    /// Matches a value against a pattern. What a class of the program does to be matched is not known.
    fn pattern(&mut self, pattern: &Pattern, subject: ValueId) {
        let range = pattern.range();
        if !self.enter() {
            self.leave();
            return;
        }
        match pattern {
            Pattern::MatchValue(each) => {
                let value = self.eval(&each.value);
                self.read(range, &[value, subject]);
            }
            Pattern::MatchSingleton(_) => {}
            Pattern::MatchSequence(each) => {
                let element = self.matched_parts(range, subject);
                each.patterns.iter().for_each(|inner| self.part(inner, element));
            }
            Pattern::MatchMapping(each) => {
                let element = self.matched_parts(range, subject);
                each.patterns.iter().for_each(|inner| self.part(inner, element));
                if let Some(rest) = &each.rest {
                    self.bind(rest, element);
                }
            }
            Pattern::MatchClass(each) => {
                self.eval(&each.cls);
                let objects = self.table.objects_of(subject);
                self.run_unknown_code(range, EventKind::UnknownCode, &objects);
                let part = self.matched_parts(range, subject);
                let inner = each.arguments.patterns.iter();
                let named = each.arguments.keywords.iter().map(|keyword| &keyword.pattern);
                inner.chain(named).for_each(|inner| self.part(inner, part));
            }
            Pattern::MatchStar(each) => {
                if let Some(name) = &each.name {
                    let list = self.container(range, 12, super::object::ContainerKind::List, &[subject]);
                    self.bind(name, list);
                }
            }
            Pattern::MatchAs(each) => {
                if let Some(inner) = &each.pattern {
                    self.pattern(inner, subject);
                }
                if let Some(name) = &each.name {
                    self.bind(name, subject);
                }
            }
            Pattern::MatchOr(each) => each.patterns.iter().for_each(|inner| self.pattern(inner, subject)),
        }
        self.leave();
    }

    /// Matches one of several parts of a value, each of which is another, against a pattern.
    fn part(&mut self, pattern: &Pattern, part: ValueId) {
        let own = self.another(part);
        self.pattern(pattern, own);
    }

    /// Returns what the parts of a value may be, itself among them.
    fn matched_parts(&mut self, range: TextRange, subject: ValueId) -> ValueId {
        let objects = self.table.objects_of(subject);
        let elements = self.element_objects(range, &objects);
        let parts = union(&union(&elements, &objects), &[PLAIN]);
        self.read(range, &[subject]);
        self.value_of(parts)
    }
}

fn block_range(block: &[Stmt]) -> Option<TextRange> {
    Some(TextRange::new(block.first()?.range().start(), block.last()?.range().end()))
}
