//! Walks code that runs several times, loops and comprehensions, and generators, which run later.
//!
//! A body is walked until the values at its head do not change. Between two walks, what it has made becomes what
//! earlier iterations have made, so that a tensor of this iteration is never taken for that of the one before.

use super::frame::{CaptureState, FrameKind, LoopExits};
use super::interpreter::CaptureInterpreter;
use super::limits::CaptureLimits;
use super::object::ContainerContents;
use super::object::{
    ContainerKind, EXTERNAL, FunctionObject, ObjectId, ObjectKind, ObjectSet, ValueId, normalise, union,
};
use super::scope::{ScopeBindings, UsedNames};
use crate::capture::object::FunctionSource;
use ruff_python_ast::{self as ast, Expr};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

impl CaptureInterpreter<'_> {
    pub(crate) fn for_loop(&mut self, stmt: &ast::StmtFor) {
        let iterated = self.eval(&stmt.iter);
        let exits = self.exits;
        let bound = ScopeBindings::bound_by_loop(Some(&stmt.target), &stmt.body);
        let ends = self.repeat(&bound, |this| {
            let element = this.iterate(stmt.iter.range(), iterated);
            if stmt.is_async {
                let objects = this.table.objects_of(iterated);
                this.run_unknown_code(stmt.iter.range(), super::timeline::EventKind::Suspend, &objects);
            }
            let end = this.state.clone();
            this.end_of_loop(end);
            this.assign(&stmt.target, element);
            this.statements(&stmt.body);
        });
        self.after_loop(ends, &stmt.orelse, exits);
    }

    pub(crate) fn while_loop(&mut self, stmt: &ast::StmtWhile) {
        let exits = self.exits;
        let bound = ScopeBindings::bound_by_loop(None, &stmt.body);
        let ends = self.repeat(&bound, |this| {
            this.test(&stmt.test);
            let end = this.state.clone();
            this.end_of_loop(end);
            this.statements(&stmt.body);
        });
        self.after_loop(ends, &stmt.orelse, exits);
    }

    /// Notes a state in which the innermost loop ends because it is exhausted.
    fn end_of_loop(&mut self, state: CaptureState) {
        if let Some(exits) = self.loops.last_mut() {
            exits.ends.push(state);
        }
    }

    fn after_loop(&mut self, exits: LoopExits, orelse: &[ast::Stmt], before: super::frame::BlockExitCounts) {
        self.exits.of_loops = before.of_loops;
        self.state = self.join_all(exits.ends);
        self.in_block(|this| this.statements(orelse));
        let mut states = exits.breaks;
        states.push(std::mem::take(&mut self.state));
        self.state = self.join_all(states);
        self.split_block_after(before);
    }

    pub(crate) fn join_all(&mut self, states: Vec<CaptureState>) -> CaptureState {
        let mut joined = CaptureState::default();
        for state in states {
            joined = self.join_states(joined, state);
        }
        joined
    }

    /// Walks a body, in a block of its own, until nothing changes at its head. Returns the states that leave it.
    ///
    /// The names that it binds have values of their own from the head on, because what one is bound to in an iteration is not
    /// what it was before the loop, even if both may be the same objects.
    fn repeat(&mut self, bound: &FxHashSet<String>, mut body: impl FnMut(&mut Self)) -> LoopExits {
        let before = self.state.clone();
        self.renew_values(bound);
        let entry = self.state.clone();
        let mut head = entry.clone();
        let n_made = self.table.made.len();
        for _ in 0..CaptureLimits::PASSES {
            let mark = self.timeline.mark();
            self.add_work((self.heap.len() + self.escaped.len()) / 4);
            let timelines = self.n_timelines;
            let heap = self.heap.clone();
            let escaped = self.escaped.clone();
            let rebound = (self.rebound_globals.len(), self.patched_paths.len(), self.has_run_code);
            // What globals are at the head is looked up anew, because an iteration may have bound them.
            head.globals = Rc::default();
            head.globals_since = self.timeline.now();
            self.state = head.clone();
            self.loops.push(LoopExits::default());
            self.in_block(&mut body);
            let mut exits = self.loops.pop().unwrap_or_default();
            if self.has_given_up {
                return exits;
            }
            exits.continues.push(std::mem::take(&mut self.state));
            let mut back = self.join_all(std::mem::take(&mut exits.continues));
            let mut made: ObjectSet = self.table.made[n_made..].to_vec();
            normalise(&mut made);
            self.add_work(made.len() / 4);
            let (heap_after, escaped_after) = (self.heap.clone(), self.escaped.clone());
            self.age(&made, &mut back);
            let new_head = self.join_states(entry.clone(), back);
            let is_done = self.is_same_state(&new_head, &head, &before)
                && is_same_heap(&heap, &self.heap, &made)
                && is_same_escape(&escaped, &self.escaped, &made)
                && rebound == (self.rebound_globals.len(), self.patched_paths.len(), self.has_run_code);
            if is_done {
                // What leaves the loop may be of its last iteration.
                for (object, contents) in heap_after {
                    let known = self.heap.entry(object).or_default();
                    known.objects = union(&known.objects, &contents.objects);
                    if contents.exact.is_some() && known.exact.is_none() && made.binary_search(&object).is_ok() {
                        known.exact = contents.exact;
                    }
                }
                self.escaped = Rc::new(union(&self.escaped, &escaped_after));
                return exits;
            }
            self.timeline.cut(mark);
            self.n_timelines = timelines;
            head = new_head;
        }
        self.has_given_up = true;
        LoopExits::default()
    }

    /// Turns what an iteration has made into what earlier iterations have made.
    fn age(&mut self, made: &[ObjectId], state: &mut CaptureState) {
        let ageing: FxHashMap<ObjectId, ObjectId> = made
            .iter()
            .filter(|&&id| self.ages(id))
            .map(|&id| (id, id))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(id, _)| (id, self.table.older(id)))
            .collect();
        if ageing.is_empty() {
            return;
        }
        let aged = |set: &[ObjectId]| {
            let mut set: ObjectSet = set.iter().map(|id| ageing.get(id).copied().unwrap_or(*id)).collect();
            normalise(&mut set);
            set
        };
        // Roots of views that were made on what has aged, and on what has not.
        for (&id, &older) in &ageing {
            let roots = aged(&self.table.object(id).roots);
            let sources = aged(&self.table.object(id).sources);
            if let Some(object) = self.table.objects.get_mut(older as usize) {
                object.roots = union(&object.roots, &roots);
                object.sources = union(&object.sources, &sources);
            }
        }
        let heap: Vec<(ObjectId, ContainerContents)> =
            self.heap.iter().map(|(id, contents)| (*id, contents.clone())).collect();
        for (id, contents) in heap {
            let objects = aged(&contents.objects);
            if let Some(&older) = ageing.get(&id) {
                let known = self.heap.entry(older).or_default();
                known.objects = union(&known.objects, &objects);
                known.exact = None;
            } else if objects != contents.objects {
                self.heap.insert(id, ContainerContents { objects, exact: None });
            }
        }
        self.escaped = Rc::new(aged(&self.escaped));
        for names in &mut state.frames {
            let mut changed: Vec<(String, ValueId)> = Vec::new();
            for (name, &value) in names.iter() {
                let objects = self.table.objects_of(value);
                let after = aged(&objects);
                if after != **objects {
                    changed.push((name.clone(), value));
                }
            }
            for (name, before) in changed {
                let objects = aged(&self.table.objects_of(before));
                let value = self.value_of(objects);
                if self.table.value(before).may_be_unbound {
                    self.table.set_unbound(value);
                }
                self.note_derived(value, &[before]);
                Rc::make_mut(names).insert(name, value);
            }
        }
    }

    /// True if each iteration has an object of its own for a place. Paths and the like are the same always.
    fn ages(&self, id: ObjectId) -> bool {
        // A helper of the file is the same always, a function that the body defines is another each time.
        if let ObjectKind::Function(function) = self.table.kind(id) {
            return function.frame.is_some();
        }
        matches!(
            self.table.kind(id),
            ObjectKind::OpResult { .. }
                | ObjectKind::Computed
                | ObjectKind::View
                | ObjectKind::Container(_)
                | ObjectKind::Method(_)
                | ObjectKind::Generator(_)
        )
    }

    /// Evaluates a list, set or dict comprehension.
    pub(crate) fn comprehension(
        &mut self,
        range: TextRange,
        kind: ContainerKind,
        generators: &[ast::Comprehension],
        elements: &[&Expr],
    ) -> ValueId {
        let Some(first) = generators.first() else { return self.external() };
        // The first iterable is evaluated in the scope around.
        let iterated = self.eval(&first.iter);
        let exits = self.exits;
        self.push_frame(range, ScopeBindings::of_comprehension(generators), FrameKind::Comprehension);
        let mut made: FxHashSet<ObjectId> = FxHashSet::default();
        self.comprehension_level(generators, Some(iterated), elements, &mut made);
        let mut objects: ObjectSet = made.into_iter().collect();
        normalise(&mut objects);
        self.pop_frame();
        self.exits = exits;
        let list = self.make(range, 0, ObjectKind::Container(kind), None, Vec::new());
        self.heap.remove(&list);
        // The elements are of this iteration and of earlier ones, so that none is known to be the last.
        let older: ObjectSet =
            objects.iter().map(|&id| if self.ages(id) { self.table.older(id) } else { id }).collect();
        self.add_contents(list, &union(&objects, &older));
        self.value_of(vec![list])
    }

    fn comprehension_level(
        &mut self,
        generators: &[ast::Comprehension],
        iterated: Option<ValueId>,
        elements: &[&Expr],
        made: &mut FxHashSet<ObjectId>,
    ) {
        let Some((generator, inner)) = generators.split_first() else {
            for element in elements {
                let value = self.eval(element);
                made.extend(self.table.objects_of(value).iter());
            }
            return;
        };
        let iterated = match iterated {
            Some(iterated) => iterated,
            None => self.eval(&generator.iter),
        };
        let bound = ScopeBindings::bound_by_loop(Some(&generator.target), &[]);
        let exits = self.repeat(&bound, |this| {
            let element = this.iterate(generator.iter.range(), iterated);
            if generator.is_async {
                let objects = this.table.objects_of(iterated);
                this.run_unknown_code(generator.iter.range(), super::timeline::EventKind::Suspend, &objects);
            }
            let end = this.state.clone();
            this.end_of_loop(end);
            this.assign(&generator.target, element);
            let block = this.block;
            for condition in &generator.ifs {
                this.test(condition);
                let skipped = this.state.clone();
                if let Some(exits) = this.loops.last_mut() {
                    exits.continues.push(skipped);
                }
                this.block = this.new_block();
            }
            this.comprehension_level(inner, None, elements, made);
            this.block = block;
        });
        self.state = self.join_all(exits.ends);
    }

    /// Makes a generator. Its body is walked on a timeline of its own, because it runs later, if at all.
    pub(crate) fn generator(&mut self, generator: &ast::ExprGenerator) -> ValueId {
        let Some(first) = generator.generators.first() else { return self.external() };
        let iterated = self.eval(&first.iter);
        let whole = Expr::Generator(generator.clone());
        let used = UsedNames::of_expr(&whole);
        let scope = ScopeBindings::of_comprehension(&generator.generators);
        let (start, end) = (generator.range.start().to_u32(), generator.range.end().to_u32());
        let unit = self.frames.last().map_or(0, |frame| frame.unit);
        let function = FunctionObject {
            code: FunctionSource::Lambda { unit, start, end },
            frame: self.frames.last().map(|frame| frame.id),
            environment: self.frames.last().map_or(0, |frame| frame.environment),
            captured: used.loaded.into_iter().filter(|name| !scope.locals.contains(name)).collect(),
            rebinds: walrus_targets(&whole),
            defaults: Vec::new(),
        };
        let kind = ObjectKind::Generator(Rc::new(function));
        let object = self.make(generator.range, 0, kind, Some(Vec::new()), Vec::new());
        self.heap.remove(&object);
        let contents = self.table.objects_of(iterated);
        self.add_contents(object, &contents);
        let value = self.value_of(vec![object]);

        let (state, outer, exits, block) = (self.state.clone(), self.current_timeline, self.exits, self.block);
        self.current_timeline = self.n_timelines;
        self.n_timelines += 1;
        self.block = self.new_block();
        // By then its names may have other values.
        self.forget_names(0..self.state.frames.len());
        self.push_frame(generator.range, scope, FrameKind::Comprehension);
        let mut made = FxHashSet::default();
        let elements = self.value_of(union(&self.contents(object), &[EXTERNAL]));
        self.comprehension_level(&generator.generators, Some(elements), &[&generator.elt], &mut made);
        self.pop_frame();
        self.state = state;
        self.current_timeline = outer;
        self.exits = exits;
        self.block = block;
        value
    }
}

/// Returns the names that assignment expressions of a generator bind around it.
fn walrus_targets(expr: &Expr) -> Vec<String> {
    let statement = ast::Stmt::Expr(ast::StmtExpr {
        node_index: Default::default(),
        range: expr.range(),
        value: Box::new(expr.clone()),
    });
    let names = ScopeBindings::of_body(std::slice::from_ref(&statement));
    names.locals.into_iter().collect()
}

fn is_same_heap(
    before: &FxHashMap<ObjectId, ContainerContents>,
    after: &FxHashMap<ObjectId, ContainerContents>,
    made: &[ObjectId],
) -> bool {
    let is_made = |id: &ObjectId| made.binary_search(id).is_ok();
    let is_equal =
        |a: &ContainerContents, b: &ContainerContents| a.objects == b.objects && a.exact.is_some() == b.exact.is_some();
    after.iter().filter(|(id, _)| !is_made(id)).all(|(id, contents)| match before.get(id) {
        Some(known) => is_equal(known, contents),
        None => false,
    })
}

fn is_same_escape(before: &ObjectSet, after: &ObjectSet, made: &[ObjectId]) -> bool {
    let is_new = |id: &&ObjectId| made.binary_search(id).is_err();
    after.iter().filter(is_new).eq(before.iter().filter(is_new))
}
