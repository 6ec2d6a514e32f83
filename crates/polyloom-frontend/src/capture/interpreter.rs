//! The abstract interpreter: what each piece of a function reads, writes, runs and makes.
//!
//! It walks the function once in Python's evaluation order (loops until nothing changes), keeps for each name the
//! objects that it may refer to, and records events. What may have escaped and what containers may hold only grows,
//! so that branches need not keep that apart.

use super::environment::{CaptureEnvironment, HelperFunction, OpCatalogue};
use super::frame::{BlockExitCounts, CaptureFrame, CaptureState, LoopExits};
use super::limits::CaptureLimits;
use super::numpy_capture::NumpyCapture;
use super::object::{
    ContainerContents, ContainerKind, EXTERNAL, FunctionObject, FunctionSource, ObjectId, ObjectKind, ObjectSet,
    ObjectSite, ObjectTable, PLAIN, ValueId, normalise, union,
};
use super::plain::{PlainSource, PlainUse};
use super::result::CaptureGuard;
use super::result::LeftCall;
use super::rewrite::edits::PlainRequirement;
use super::timeline::{CaptureBlock, CaptureEvent, EventKind, Timeline};
use crate::source::SourceUnit;
use polyloom_ir::{FileId, SourceMap, Span};
use ruff_text_size::TextRange;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct CaptureInterpreter<'c> {
    pub(crate) catalogue: &'c dyn OpCatalogue,
    /// Says what is taken for granted, if NumPy is captured.
    pub(crate) numpy: Option<NumpyCapture>,
    /// The calls of NumPy on arrays that are not captured, with their names and whether other arguments would be.
    pub(crate) left_calls: Vec<LeftCall>,
    /// Values from outside that guards hold to be arrays.
    pub(crate) array_values: FxHashSet<ValueId>,
    /// Objects that are certainly arrays, results of ops aside.
    pub(crate) array_objects: FxHashSet<ObjectId>,
    pub(crate) table: ObjectTable,
    pub(crate) heap: FxHashMap<ObjectId, ContainerContents>,
    /// Objects and roots that code outside may have references to.
    pub(crate) escaped: Rc<ObjectSet>,
    /// Functions among them.
    pub(crate) escaped_functions: Vec<Rc<FunctionObject>>,
    pub(crate) timeline: Timeline,
    pub(crate) frames: Vec<CaptureFrame>,
    pub(crate) state: CaptureState,
    pub(crate) loops: Vec<LoopExits>,
    pub(crate) exits: BlockExitCounts,
    pub(crate) block: u32,
    /// The timeline of new blocks.
    pub(crate) current_timeline: u32,
    pub(crate) n_timelines: u32,
    pub(crate) tries: Rc<Vec<usize>>,
    pub(crate) statement: Span,
    pub(crate) inlined_at: Vec<Span>,
    pub(crate) environments: Vec<Arc<dyn CaptureEnvironment>>,
    pub(crate) units: Vec<(Arc<SourceUnit>, FileId)>,
    pub(crate) sources: SourceMap,
    pub(crate) guards: Vec<CaptureGuard>,
    pub(crate) rebound_globals: FxHashSet<String>,
    /// Dotted paths that the function itself stores to. `rebound_globals` has the globals that it binds.
    pub(crate) patched_paths: FxHashSet<String>,
    pub(crate) global_values: FxHashMap<ValueId, String>,
    /// The requirements on types of values from outside, and those of them that make each value plain.
    pub(crate) plain: Vec<PlainRequirement>,
    pub(crate) plain_sources: FxHashMap<ValueId, Vec<PlainSource>>,
    /// True if something may have changed the attributes of objects from outside, or rebound globals.
    pub(crate) has_run_code: bool,
    named_objects: FxHashMap<String, ObjectId>,
    frame_ids: FxHashMap<(u32, u32, u32), u32>,
    helper_environments: FxHashMap<(usize, u32), usize>,
    /// The work that has been done. Whatever takes time in proportion to the program adds to it.
    steps: Cell<usize>,
    /// The part of it that was done in helpers.
    pub(crate) inlined_steps: usize,
    depth: usize,
    /// True if a limit has been reached, after which nothing that is recorded counts.
    pub(crate) has_given_up: bool,
}

impl<'c> CaptureInterpreter<'c> {
    pub(crate) fn new(catalogue: &'c dyn OpCatalogue, numpy: Option<NumpyCapture>) -> CaptureInterpreter<'c> {
        CaptureInterpreter {
            catalogue,
            numpy,
            left_calls: Vec::new(),
            array_values: FxHashSet::default(),
            array_objects: FxHashSet::default(),
            table: ObjectTable::new(),
            heap: FxHashMap::default(),
            escaped: Rc::default(),
            escaped_functions: Vec::new(),
            timeline: Timeline::default(),
            frames: Vec::new(),
            state: CaptureState { is_reachable: true, ..CaptureState::default() },
            loops: Vec::new(),
            exits: BlockExitCounts::default(),
            block: 0,
            current_timeline: 0,
            n_timelines: 1,
            tries: Rc::default(),
            statement: Span::NONE,
            inlined_at: Vec::new(),
            environments: Vec::new(),
            units: Vec::new(),
            sources: SourceMap::new(),
            guards: Vec::new(),
            rebound_globals: FxHashSet::default(),
            patched_paths: FxHashSet::default(),
            global_values: FxHashMap::default(),
            plain: Vec::new(),
            plain_sources: FxHashMap::default(),
            has_run_code: false,
            named_objects: FxHashMap::default(),
            frame_ids: FxHashMap::default(),
            helper_environments: FxHashMap::default(),
            steps: Cell::new(0),
            inlined_steps: 0,
            depth: 0,
            has_given_up: false,
        }
    }

    /// Counts a step into the program, and returns false if analysis must give up. Each is followed by
    /// [`CaptureInterpreter::leave`].
    pub(crate) fn enter(&mut self) -> bool {
        self.add_work(1);
        self.depth += 1;
        let size = self.timeline.events.len() + self.table.n_values() / 8 + self.table.made.len() / 8;
        if self.steps() > CaptureLimits::STEPS || self.depth > CaptureLimits::DEPTH || size > CaptureLimits::EVENTS {
            self.has_given_up = true;
        }
        !self.has_given_up
    }

    pub(crate) fn add_work(&self, n: usize) {
        self.steps.set(self.steps.get().saturating_add(n));
    }

    pub(crate) fn steps(&self) -> usize {
        self.steps.get()
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    // Places.

    pub(crate) fn span(&self, range: TextRange) -> Span {
        let unit = self.frames.last().map_or(0, |frame| frame.unit);
        let file = self.units.get(unit).map_or(Span::NONE.file, |(_, file)| *file);
        Span::new(file, range.start().to_u32(), range.end().to_u32())
    }

    pub(crate) fn unit_index(&mut self, unit: &Arc<SourceUnit>) -> usize {
        if let Some(known) = self.units.iter().position(|(known, _)| Arc::ptr_eq(known, unit)) {
            return known;
        }
        let file = self.sources.add(unit.file().clone());
        self.units.push((unit.clone(), file));
        self.units.len() - 1
    }

    /// Returns the identity of the frame that is made by a place of the innermost frame.
    pub(crate) fn frame_id(&mut self, range: TextRange) -> u32 {
        let parent = self.frames.last().map_or(u32::MAX, |frame| frame.id);
        let next = u32::try_from(self.frame_ids.len()).unwrap_or(u32::MAX);
        *self.frame_ids.entry((parent, range.start().to_u32(), range.end().to_u32())).or_insert(next)
    }

    /// Makes the object of a place of the innermost frame. `tag` tells apart what one expression makes.
    pub(crate) fn make(
        &mut self,
        range: TextRange,
        tag: u32,
        kind: ObjectKind,
        roots: Option<ObjectSet>,
        sources: ObjectSet,
    ) -> ObjectId {
        let frame = self.frames.last().map_or(0, |frame| frame.id);
        let site = ObjectSite { frame, start: range.start().to_u32(), end: range.end().to_u32(), tag };
        let span = self.span(range);
        self.table.make(site, kind, roots, sources, span)
    }

    /// Returns an object that is the same wherever it is named. `key` tells it from all others.
    pub(crate) fn named_object(&mut self, kind: ObjectKind, key: String) -> ObjectId {
        if let Some(&known) = self.named_objects.get(&key) {
            return known;
        }
        let next = u32::try_from(self.table.objects.len()).unwrap_or(u32::MAX);
        let site = ObjectSite { frame: u32::MAX, start: next, end: 0, tag: 0 };
        let object = self.table.make(site, kind, Some(Vec::new()), Vec::new(), Span::NONE);
        self.named_objects.insert(key, object);
        object
    }

    pub(crate) fn path_object(&mut self, path: &str) -> ObjectId {
        if self.patched_paths.contains(path) {
            return EXTERNAL;
        }
        self.named_object(ObjectKind::Path(path.into()), format!("path {path}"))
    }

    pub(crate) fn helper_object(&mut self, helper: &HelperFunction) -> ObjectId {
        let unit = self.unit_index(&helper.unit);
        let start = helper.unit.functions().get(helper.function).map_or(0, |info| info.start);
        let next = self.environments.len();
        let environment = *self.helper_environments.entry((unit, start)).or_insert(next);
        if environment == next {
            self.environments.push(helper.environment.clone());
        }
        let function = FunctionObject {
            code: FunctionSource::Definition { unit, start },
            frame: None,
            environment,
            captured: Vec::new(),
            rebinds: Vec::new(),
            defaults: Vec::new(),
        };
        self.named_object(ObjectKind::Function(Rc::new(function)), format!("function {unit} {start}"))
    }

    // Guards.

    pub(crate) fn guard_identity(&mut self, name: &str, target: &str) {
        self.add_guard(CaptureGuard::Identity { name: name.into(), target: target.into() });
    }

    pub(crate) fn add_guard(&mut self, guard: CaptureGuard) {
        if self.guards.len() < CaptureLimits::GUARDS && !self.guards.contains(&guard) {
            self.guards.push(guard);
        }
    }

    // Memory.

    /// Returns some objects and all that can be reached from them.
    pub(crate) fn reach(&self, objects: &[ObjectId]) -> ObjectSet {
        let mut seen: FxHashSet<ObjectId> = FxHashSet::default();
        let mut pending: Vec<ObjectId> = objects.to_vec();
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            pending.extend(self.heap.get(&id).iter().flat_map(|contents| contents.objects.iter()));
            pending.extend(&self.table.object(id).roots);
            if let ObjectKind::Function(function) | ObjectKind::Generator(function) = self.table.present_kind(id) {
                let values = self.captured_values(function.frame, &function.captured);
                let defaults = function.defaults.iter().map(|(_, value)| *value);
                pending
                    .extend(values.into_iter().chain(defaults).flat_map(|value| self.table.objects_of(value).to_vec()));
            }
        }
        self.add_work(seen.len() / 8);
        let mut reached: ObjectSet = seen.into_iter().filter(|&id| id != PLAIN).collect();
        reached.sort_unstable();
        reached
    }

    /// Returns the memory that some values and all that can be reached from them lie in.
    pub(crate) fn deep_roots(&self, values: &[ValueId]) -> ObjectSet {
        let objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        self.table.roots(&self.reach(&objects))
    }

    /// Notes that code outside has references to some objects, and to all that can be reached from them.
    pub(crate) fn escape(&mut self, objects: &[ObjectId]) {
        let mut reached = self.reach(objects);
        reached.retain(|id| *id != EXTERNAL && self.escaped.binary_search(id).is_err());
        if reached.is_empty() {
            return;
        }
        for &id in &reached {
            match self.table.present_kind(id).clone() {
                ObjectKind::Function(function) | ObjectKind::Generator(function) => {
                    self.escaped_functions.push(function);
                }
                ObjectKind::Container(kind) => {
                    let contents = self.heap.entry(id).or_default();
                    if kind != ContainerKind::Tuple {
                        contents.exact = None;
                        contents.objects = union(&contents.objects, &[EXTERNAL]);
                    }
                }
                _ => {}
            }
        }
        self.escaped = Rc::new(union(&self.escaped, &reached));
    }

    pub(crate) fn escape_value(&mut self, value: ValueId) {
        let objects = self.table.objects_of(value);
        self.escape(&objects);
    }

    /// Adds to what a container may hold. Its elements are no longer known one by one.
    pub(crate) fn add_contents(&mut self, container: ObjectId, objects: &[ObjectId]) {
        let is_escaped = self.escaped.binary_search(&container).is_ok();
        let contents = self.heap.entry(container).or_default();
        contents.exact = None;
        contents.objects = union(&contents.objects, objects);
        if is_escaped {
            self.escape(objects);
        }
    }

    pub(crate) fn contents(&self, container: ObjectId) -> ObjectSet {
        self.heap.get(&container).map(|contents| contents.objects.clone()).unwrap_or_default()
    }

    // Events.

    /// Records an event, and returns its index.
    pub(crate) fn record(
        &mut self,
        range: TextRange,
        kind: EventKind,
        mut reads: ObjectSet,
        mut writes: ObjectSet,
    ) -> u32 {
        normalise(&mut reads);
        normalise(&mut writes);
        let at = self.timeline.now();
        self.timeline.events.push(CaptureEvent {
            timeline: self.current_timeline,
            reads,
            writes,
            reaches_all: kind == EventKind::Dynamic,
            raises: true,
            escaped: self.escaped.clone(),
            kind,
            span: self.span(range),
        });
        at
    }

    /// Records that values are read, with all that they contain.
    pub(crate) fn read(&mut self, range: TextRange, values: &[ValueId]) {
        if self.run_unless_plain(range, values, PlainUse::Operator) {
            return;
        }
        let reads = self.deep_roots(values);
        if !reads.is_empty() {
            self.record(range, EventKind::Read, reads, Vec::new());
        }
    }

    /// Records that code runs that is not known, with references to these objects.
    pub(crate) fn run_unknown_code(&mut self, range: TextRange, kind: EventKind, objects: &[ObjectId]) {
        self.has_run_code = true;
        self.escape(objects);
        let functions: Vec<Rc<FunctionObject>> = self.escaped_functions.clone();
        for function in &functions {
            let values = self.captured_values(function.frame, &function.captured);
            let objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
            self.escape(&objects);
        }
        self.record(range, kind, vec![EXTERNAL], vec![EXTERNAL]);
        // Only now, because what it binds is not available before.
        for function in &functions {
            self.rebind_captured(function);
        }
        self.state.globals = Rc::default();
        self.state.globals_since = self.timeline.now();
    }

    /// Gives the names that a function may rebind values that may be anything it can refer to.
    fn rebind_captured(&mut self, function: &FunctionObject) {
        let Some(mut index) = self.frames.iter().position(|active| Some(active.id) == function.frame) else { return };
        loop {
            for name in &function.rebinds {
                let known = self.state.frames.get(index).and_then(|names| names.get(name)).copied();
                if let Some(known) = known {
                    let objects = union(&self.table.objects_of(known), &[EXTERNAL]);
                    let value = self.value_that_may_be_unbound(objects);
                    self.bind_in(index, name, value);
                } else if self.frames.get(index).is_some_and(|frame| frame.scope.locals.contains(name)) {
                    let value = self.value_that_may_be_unbound(vec![EXTERNAL]);
                    self.bind_in(index, name, value);
                }
            }
            match self.frames.get(index).and_then(|frame| frame.parent) {
                Some(parent) => index = parent,
                None => return,
            }
        }
    }

    // Blocks.

    pub(crate) fn new_block(&mut self) -> u32 {
        let block = CaptureBlock { tries: self.tries.clone() };
        self.timeline.blocks.push(block);
        u32::try_from(self.timeline.blocks.len() - 1).unwrap_or(u32::MAX)
    }

    /// Runs `walk` in a block of its own.
    pub(crate) fn in_block<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.block;
        self.block = self.new_block();
        let result = walk(self);
        self.block = outer;
        result
    }

    /// Begins a new block in place of the rest of this one if something since `exits` may have left it.
    pub(crate) fn split_block_after(&mut self, exits: BlockExitCounts) {
        if self.exits != exits {
            self.block = self.new_block();
        }
    }
}
