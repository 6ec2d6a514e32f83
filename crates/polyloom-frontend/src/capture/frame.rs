//! Frames and states: which value each name has at a place of the program.

use super::interpreter::CaptureInterpreter;
use super::object::{AbstractValue, EXTERNAL, FunctionSource, ObjectSet, ValueId, union};
use super::rewrite::edits::OutsideRoot;
use super::scope::ScopeBindings;
use crate::capture::environment::GlobalMeaning;
use crate::capture::object::{ObjectKind, PLAIN};
use crate::capture::timeline::{NameBindingEvent, NameLoadEvent};
use polyloom_ir::Span;
use ruff_text_size::TextRange;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// A scope that is being executed.
#[derive(Debug)]
pub(crate) struct CaptureFrame {
    /// The identity of the frame, equal each time that analysis comes by.
    pub(crate) id: u32,
    pub(crate) scope: ScopeBindings,
    /// The frame around it in the text, by its place among the active ones.
    pub(crate) parent: Option<usize>,
    pub(crate) kind: FrameKind,
    pub(crate) environment: usize,
    pub(crate) unit: usize,
    /// The function that it executes, if it executes one.
    pub(crate) code: Option<FunctionSource>,
    /// The states in which it returns, each with the result.
    pub(crate) returns: Vec<(CaptureState, ValueId)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameKind {
    Function,
    Class,
    Comprehension,
}

/// The values of names, and whether the place is reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaptureState {
    pub(crate) is_reachable: bool,
    /// The names of each active frame.
    pub(crate) frames: Vec<Rc<FxHashMap<String, ValueId>>>,
    /// The globals that have been read or written, by environment.
    pub(crate) globals: Rc<FxHashMap<(usize, String), ValueId>>,
    /// The first event at which globals have had their values.
    pub(crate) globals_since: u32,
}

/// Counts the statements that leave blocks early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockExitCounts {
    pub(crate) returns: u32,
    pub(crate) raises: u32,
    pub(crate) of_loops: u32,
}

/// The states in which the innermost loop is left or goes on.
#[derive(Debug, Default)]
pub(crate) struct LoopExits {
    pub(crate) breaks: Vec<CaptureState>,
    pub(crate) continues: Vec<CaptureState>,
    /// The states in which it ends because it is exhausted.
    pub(crate) ends: Vec<CaptureState>,
}

/// The place where a name is looked up.
pub(crate) enum NameScope {
    /// An active frame.
    Frame(usize),
    /// The globals and the closure of an environment.
    Outside(usize),
}

impl CaptureInterpreter<'_> {
    pub(crate) fn frame(&self) -> usize {
        self.frames.len().saturating_sub(1)
    }

    /// Finds the scope that a name belongs to, seen from the innermost frame.
    pub(crate) fn scope_of(&self, name: &str) -> NameScope {
        let innermost = self.frame();
        let mut at = Some(innermost);
        while let Some(frame) = at.and_then(|index| self.frames.get(index)) {
            let index = at.unwrap_or_default();
            // Functions do not see the names of a class around them.
            let is_seen = index == innermost || frame.kind != FrameKind::Class;
            if is_seen && frame.scope.globals.contains(name) {
                return NameScope::Outside(frame.environment);
            }
            if is_seen && frame.scope.locals.contains(name) {
                return NameScope::Frame(index);
            }
            if frame.parent.is_none() {
                return NameScope::Outside(frame.environment);
            }
            at = frame.parent;
        }
        NameScope::Outside(0)
    }

    /// Returns the value of a name that a statement reads, changes and binds again.
    pub(crate) fn load(&mut self, name: &str) -> ValueId {
        let value = self.value_of_name(name);
        self.note_load(value, Span::NONE);
        value
    }

    /// Returns the value of a name in an expression.
    pub(crate) fn load_at(&mut self, name: &str, range: TextRange) -> ValueId {
        let value = self.value_of_name(name);
        let span = self.span(range);
        self.note_load(value, span);
        value
    }

    fn note_load(&mut self, value: ValueId, span: Span) {
        let (at, inlined_at) = (self.timeline.now(), self.inlined_at.first().copied());
        self.timeline.loads.push(NameLoadEvent { at, value, span, inlined_at });
    }

    fn value_of_name(&mut self, name: &str) -> ValueId {
        match self.scope_of(name) {
            NameScope::Frame(index) => match self.state.frames.get(index).and_then(|names| names.get(name)) {
                Some(&value) => value,
                // It is not bound on any path known, or in a class around: whatever it is is from outside.
                None => self.external(),
            },
            NameScope::Outside(environment) => self.load_global(environment, name),
        }
    }

    /// Returns the environment in which a name of a helper has its meaning: that of the captured function for a global of its
    /// module that it can name, too.
    fn environment_of(&self, environment: usize, name: &str) -> usize {
        let module = |index: usize| self.environments.get(index).and_then(|known| known.module_of_global(name));
        let is_hidden = self.frames.first().is_some_and(|frame| frame.scope.locals.contains(name));
        match environment {
            0 => 0,
            _ if !is_hidden && module(environment).is_some_and(|found| module(0) == Some(found)) => 0,
            _ => environment,
        }
    }

    fn load_global(&mut self, environment: usize, name: &str) -> ValueId {
        let environment = self.environment_of(environment, name);
        let key = (environment, name.to_owned());
        if let Some(&value) = self.state.globals.get(&key) {
            return value;
        }
        let is_rebound = self.rebound_globals.contains(name);
        let meaning = match self.environments.get(environment) {
            Some(known) if !is_rebound => known.meaning(name),
            _ => GlobalMeaning::Unknown,
        };
        let is_array = matches!(meaning, GlobalMeaning::Array);
        let object = match meaning {
            GlobalMeaning::Path(path) => {
                self.guard_identity(name, &path);
                self.path_object(&path)
            }
            GlobalMeaning::Builtin => {
                self.guard_identity(name, name);
                self.named_object(ObjectKind::Builtin(name.into()), format!("builtin {name}"))
            }
            // Code that has run since the function was entered may have bound another, and nothing checks that again.
            GlobalMeaning::Helper(_) if self.has_run_code => EXTERNAL,
            GlobalMeaning::Helper(helper) => {
                self.guard_identity(name, name);
                self.helper_object(&helper)
            }
            GlobalMeaning::Unknown | GlobalMeaning::Array => EXTERNAL,
        };
        let is_outside = object == EXTERNAL && environment == 0 && !is_rebound && !self.has_run_code;
        let value = AbstractValue {
            objects: Rc::new(vec![object]),
            ready: self.state.globals_since,
            is_constant: false,
            is_guarded: false,
            may_be_unbound: false,
        };
        let value = self.table.add_value(value);
        if is_outside {
            self.note_outside(value, OutsideRoot::Free(name.to_owned()), Vec::new());
            if is_array {
                self.note_array(value);
            }
        }
        // A global of a helper's file has another meaning in the function's own.
        if environment == 0 {
            self.global_values.insert(value, name.to_owned());
        }
        Rc::make_mut(&mut self.state.globals).insert(key, value);
        value
    }

    /// Binds a name of the innermost scope that is no comprehension's, or that is its own.
    pub(crate) fn bind(&mut self, name: &str, value: ValueId) {
        match self.scope_of(name) {
            NameScope::Frame(index) => self.bind_in(index, name, value),
            NameScope::Outside(environment) => {
                // Everybody sees a global, and the closure of the function.
                self.escape_value(value);
                self.rebound_globals.insert(name.to_owned());
                Rc::make_mut(&mut self.state.globals).insert((environment, name.to_owned()), value);
                self.log_binding(None, name, value);
            }
        }
    }

    pub(crate) fn bind_in(&mut self, index: usize, name: &str, value: ValueId) {
        if let Some(names) = self.state.frames.get_mut(index) {
            Rc::make_mut(names).insert(name.to_owned(), value);
        }
        let frame = self.frames.get(index).map(|frame| frame.id);
        self.log_binding(frame, name, value);
    }

    pub(crate) fn unbind(&mut self, name: &str) {
        match self.scope_of(name) {
            NameScope::Frame(index) => {
                if let Some(names) = self.state.frames.get_mut(index) {
                    Rc::make_mut(names).remove(name);
                }
            }
            NameScope::Outside(environment) => {
                self.rebound_globals.insert(name.to_owned());
                Rc::make_mut(&mut self.state.globals).remove(&(environment, name.to_owned()));
            }
        }
    }

    fn log_binding(&mut self, frame: Option<u32>, name: &str, value: ValueId) {
        let at = self.timeline.now();
        self.timeline.bindings.push(NameBindingEvent { at, frame, name: name.into(), value });
    }

    /// Makes a value of objects that is available from now on.
    pub(crate) fn value_of(&mut self, objects: ObjectSet) -> ValueId {
        let objects = Rc::new(if objects.is_empty() { vec![PLAIN] } else { objects });
        self.table.add_value(AbstractValue {
            objects,
            ready: self.timeline.now(),
            is_constant: false,
            is_guarded: false,
            may_be_unbound: false,
        })
    }

    /// Makes another value that may be what this one may be.
    pub(crate) fn another(&mut self, value: ValueId) -> ValueId {
        self.value_of(self.table.objects_of(value).to_vec())
    }

    /// Makes a value of objects for a name that may be unbound.
    pub(crate) fn value_that_may_be_unbound(&mut self, objects: ObjectSet) -> ValueId {
        let value = self.value_of(objects);
        self.table.set_unbound(value);
        value
    }

    pub(crate) fn external(&mut self) -> ValueId {
        self.value_of(vec![EXTERNAL])
    }

    pub(crate) fn plain(&mut self) -> ValueId {
        self.value_of(vec![PLAIN])
    }

    /// Returns a value that may be either of two.
    pub(crate) fn join_values(&mut self, a: ValueId, b: ValueId) -> ValueId {
        if a == b {
            return a;
        }
        let (first, second) = (self.table.value(a), self.table.value(b));
        let is_guarded = first.is_guarded && second.is_guarded;
        let may_be_unbound = first.may_be_unbound || second.may_be_unbound;
        let objects = Rc::new(union(&first.objects, &second.objects));
        let ready = self.timeline.now();
        let value = AbstractValue { objects, ready, is_constant: false, is_guarded, may_be_unbound };
        let value = self.table.add_value(value);
        self.note_derived(value, &[a, b]);
        self.note_array_like(value, &[a, b]);
        value
    }

    /// Gives names of the current scope new values, of which no more is known than that they are the same objects.
    pub(crate) fn renew_values(&mut self, names: &FxHashSet<String>) {
        let Some(index) = self.state.frames.len().checked_sub(1) else { return };
        let known: Vec<(String, ValueId)> = self.state.frames[index]
            .iter()
            .filter(|(name, _)| names.contains(*name))
            .map(|(name, &value)| (name.clone(), value))
            .collect();
        for (name, old) in known {
            let AbstractValue { objects, is_guarded, may_be_unbound, .. } = self.table.value(old).clone();
            let ready = self.timeline.now();
            let value = AbstractValue { objects, ready, is_constant: false, is_guarded, may_be_unbound };
            let value = self.table.add_value(value);
            self.note_derived(value, &[old]);
            self.note_array_like(value, &[old]);
            Rc::make_mut(&mut self.state.frames[index]).insert(name, value);
        }
    }

    /// Returns the state where two paths meet.
    pub(crate) fn join_states(&mut self, a: CaptureState, b: CaptureState) -> CaptureState {
        if !a.is_reachable {
            return b;
        }
        if !b.is_reachable {
            return a;
        }
        let mut joined = a.clone();
        for (index, names) in joined.frames.iter_mut().enumerate() {
            let Some(others) = b.frames.get(index) else { continue };
            if Rc::ptr_eq(names, others) {
                continue;
            }
            let mut all: Vec<&String> = names.keys().chain(others.keys()).collect();
            all.sort_unstable();
            all.dedup();
            let mut merged = FxHashMap::default();
            for name in all {
                let value = match (names.get(name), others.get(name)) {
                    (Some(&a), Some(&b)) => self.join_values(a, b),
                    // It may be unbound, so that its value is not known to be available anywhere before.
                    (Some(&one), None) | (None, Some(&one)) => {
                        let objects = self.table.objects_of(one).to_vec();
                        let value = self.value_that_may_be_unbound(objects);
                        self.note_derived(value, &[one]);
                        value
                    }
                    (None, None) => continue,
                };
                merged.insert(name.clone(), value);
            }
            *names = Rc::new(merged);
        }
        if !Rc::ptr_eq(&joined.globals, &b.globals) {
            let same = |(key, value): &(&(usize, String), &ValueId)| b.globals.get(*key) == Some(*value);
            let globals = joined.globals.iter().filter(same).map(|(key, value)| (key.clone(), *value)).collect();
            joined.globals = Rc::new(globals);
        }
        if a.globals_since != b.globals_since || a.globals.len() != joined.globals.len() {
            joined.globals_since = self.timeline.now();
        }
        joined
    }

    /// Returns true if an iteration that begins with `head` leaves every name with the same objects, and with the value that it
    /// had `before` the loop if `head` takes it for that.
    pub(crate) fn is_same_state(&self, next: &CaptureState, head: &CaptureState, before: &CaptureState) -> bool {
        next.is_reachable == head.is_reachable
            && next.frames.len() == head.frames.len()
            && next.frames.iter().zip(&head.frames).enumerate().all(|(index, (next, head))| {
                let before = before.frames.get(index);
                let is_same = |name: &String, value: ValueId| match head.get(name) {
                    Some(&known) if known == value => true,
                    Some(&known) => {
                        let is_that_before = before.and_then(|names| names.get(name)) == Some(&known);
                        !is_that_before && self.table.value(value).objects == self.table.value(known).objects
                    }
                    None => false,
                };
                next.len() == head.len() && next.iter().all(|(name, &value)| is_same(name, value))
            })
    }

    /// Returns the values that a function sees of names of the frames around it, if these are still active.
    pub(crate) fn captured_values(&self, frame: Option<u32>, names: &[String]) -> Vec<ValueId> {
        let Some(mut index) = self.frames.iter().position(|active| Some(active.id) == frame) else { return Vec::new() };
        let mut values = Vec::new();
        loop {
            if let Some(bound) = self.state.frames.get(index) {
                values.extend(names.iter().filter_map(|name| bound.get(name).copied()));
            }
            match self.frames.get(index).and_then(|frame| frame.parent) {
                Some(parent) => index = parent,
                None => return values,
            }
        }
    }

    /// Leaves every name with a value that may be anything that can be referred to.
    pub(crate) fn forget_names(&mut self, frame_range: std::ops::Range<usize>) {
        for index in frame_range {
            let Some(names) = self.state.frames.get(index).cloned() else { continue };
            let mut forgotten = FxHashMap::default();
            for (name, &value) in names.iter() {
                let objects = union(&self.table.objects_of(value), &[EXTERNAL]);
                forgotten.insert(name.clone(), self.value_of(objects));
            }
            self.state.frames[index] = Rc::new(forgotten);
        }
    }
}
