//! The order in which a function does things: events, the blocks that they are in, and bindings of names.
//!
//! Events stand in evaluation order. Those of branches, loops and inlined helpers stand between those of the block
//! around them, so that whatever may happen between two calls of a block stands between their events.

use super::object::{EXTERNAL, ObjectId, ObjectSet, ValueId};
use polyloom_ir::Span;
use rustc_hash::FxHashSet;
use std::rc::Rc;

/// Something that reads or writes memory, or runs code that may.
#[derive(Clone, Debug)]
pub(crate) struct CaptureEvent {
    /// Events of other timelines, as of a generator that is made but not run, do not happen in between.
    pub(crate) timeline: u32,
    /// Roots whose contents it may read. [`EXTERNAL`] stands for all that has escaped, too.
    pub(crate) reads: ObjectSet,
    /// Roots whose contents it may write.
    pub(crate) writes: ObjectSet,
    /// True if it may read and write everything, local names included.
    pub(crate) reaches_all: bool,
    /// True if it may raise an exception, on which what has escaped is seen.
    pub(crate) raises: bool,
    /// The roots that had escaped by then.
    pub(crate) escaped: Rc<ObjectSet>,
    pub(crate) kind: EventKind,
    /// The expression or statement.
    pub(crate) span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventKind {
    /// The call of an op.
    Op(usize),
    /// Something that only reads.
    Read,
    /// A view that is made of a tensor.
    View,
    /// An operator in place.
    InPlace,
    /// A store to an element, a slice or an attribute, or the deletion of one.
    Store,
    /// A call of, or something that runs, code that is not known.
    UnknownCode,
    /// A `yield` or `await`.
    Suspend,
    /// A call that reaches every name: `exec`, `eval`, `locals`.
    Dynamic,
}

impl CaptureEvent {
    /// True if it may read the contents of a root.
    pub(crate) fn reads(&self, root: ObjectId) -> bool {
        self.reaches_all || contains(&self.reads, &self.escaped, root)
    }

    /// True if it may write the contents of a root.
    pub(crate) fn writes(&self, root: ObjectId) -> bool {
        self.reaches_all || contains(&self.writes, &self.escaped, root)
    }

    /// True if it may write one of the roots.
    pub(crate) fn writes_any(&self, roots: &[ObjectId]) -> bool {
        roots.iter().any(|&root| self.writes(root))
    }
}

fn contains(set: &ObjectSet, escaped: &ObjectSet, root: ObjectId) -> bool {
    let is_escaped = || escaped.binary_search(&root).is_ok();
    let has_external = || set.binary_search(&EXTERNAL).is_ok();
    // An external object may be what has escaped, and what has escaped may be reached from an external one.
    set.binary_search(&root).is_ok()
        || (has_external() && is_escaped())
        || (root == EXTERNAL && set.iter().any(|each| escaped.binary_search(each).is_ok()))
}

/// A block: statements that run one after the other, equally often.
#[derive(Clone, Debug)]
pub(crate) struct CaptureBlock {
    /// The `try` statements around it, as indices.
    pub(crate) tries: Rc<Vec<usize>>,
}

/// A `try` statement that has handlers or a `finally`.
#[derive(Clone, Debug)]
pub(crate) struct TryRegion {
    pub(crate) frame: u32,
    /// Names that are read where an exception of its body leads to.
    pub(crate) read_after: FxHashSet<String>,
    pub(crate) span: Span,
}

/// The binding of a name.
#[derive(Clone, Debug)]
pub(crate) struct NameBindingEvent {
    /// The number of events before it.
    pub(crate) at: u32,
    /// The frame, or nothing for a global.
    pub(crate) frame: Option<u32>,
    pub(crate) name: Rc<str>,
    pub(crate) value: ValueId,
}

/// A call of an op, as analysis meets it.
#[derive(Clone, Debug)]
pub(crate) struct CallEvent {
    pub(crate) op: std::sync::Arc<str>,
    /// The call as the program writes it.
    pub(crate) label: std::sync::Arc<str>,
    /// The op's parameter of each argument, of a call of NumPy.
    pub(crate) parameters: Vec<&'static str>,
    /// The index, as it is written, of one that indexes an array.
    pub(crate) index: Option<std::sync::Arc<str>>,
    /// The dotted path of the op.
    pub(crate) path: std::sync::Arc<str>,
    /// The index of its event.
    pub(crate) at: u32,
    pub(crate) block: u32,
    pub(crate) operands: Vec<OperandEvent>,
    /// The arguments as they are passed, keyword and operands.
    pub(crate) arguments: Vec<(Option<std::sync::Arc<str>>, OperandTree)>,
    /// The objects that are its results.
    pub(crate) results: Vec<ObjectId>,
    pub(crate) is_fusable: bool,
    pub(crate) span: Span,
    pub(crate) statement: Span,
    pub(crate) inlined_at: Vec<Span>,
    /// The local names that hold values when it runs, the function's own before those of helpers.
    pub(crate) names: Vec<(Rc<str>, ValueId)>,
    /// The number of the function's own among them.
    pub(crate) n_own_names: usize,
}

/// An argument of an op: one operand, or those of a list whose elements are known.
#[derive(Clone, Debug)]
pub(crate) enum OperandTree {
    /// An operand, by its index.
    One(usize),
    List(Vec<OperandTree>),
}

/// A name that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameLoadEvent {
    /// The number of events before it.
    pub(crate) at: u32,
    pub(crate) value: ValueId,
    /// The expression, or nothing if the name is read by a statement in place.
    pub(crate) span: Span,
    /// The outermost helper call around it.
    pub(crate) inlined_at: Option<Span>,
}

/// A call of a helper whose body has been walked.
#[derive(Clone, Debug)]
pub(crate) struct InlinedCallEvent {
    pub(crate) span: Span,
    /// The helper calls around it.
    pub(crate) inlined_at: Vec<Span>,
    /// The events of its body: the first, and the one after the last.
    pub(crate) events: std::ops::Range<u32>,
    pub(crate) source: super::object::FunctionSource,
    /// True if it is defined outside of the function.
    pub(crate) is_free: bool,
    pub(crate) positional: Vec<ValueId>,
    pub(crate) keywords: Vec<(String, ValueId)>,
    pub(crate) result: ValueId,
    /// The elements of the result, if it is one tuple and they are known.
    pub(crate) elements: Option<Vec<ValueId>>,
    /// The names of the function that hold values when its body begins.
    pub(crate) names: Vec<(Rc<str>, ValueId)>,
}

#[derive(Clone, Debug)]
pub(crate) struct OperandEvent {
    pub(crate) keyword: Option<std::sync::Arc<str>>,
    pub(crate) value: ValueId,
    /// The memory that it and all that it contains lie in.
    pub(crate) roots: ObjectSet,
}

/// All that happens, in order.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) events: Vec<CaptureEvent>,
    pub(crate) calls: Vec<CallEvent>,
    pub(crate) blocks: Vec<CaptureBlock>,
    pub(crate) bindings: Vec<NameBindingEvent>,
    pub(crate) tries: Vec<TryRegion>,
    pub(crate) inlined: Vec<InlinedCallEvent>,
    /// The names that are read, those of walks of a loop that did not count included.
    pub(crate) loads: Vec<NameLoadEvent>,
}

/// A length of a [`Timeline`], to cut it back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimelineMark {
    events: usize,
    calls: usize,
    blocks: usize,
    bindings: usize,
    tries: usize,
    inlined: usize,
}

impl Timeline {
    pub(crate) fn mark(&self) -> TimelineMark {
        TimelineMark {
            events: self.events.len(),
            calls: self.calls.len(),
            blocks: self.blocks.len(),
            bindings: self.bindings.len(),
            tries: self.tries.len(),
            inlined: self.inlined.len(),
        }
    }

    pub(crate) fn cut(&mut self, mark: TimelineMark) {
        self.events.truncate(mark.events);
        self.calls.truncate(mark.calls);
        self.blocks.truncate(mark.blocks);
        self.bindings.truncate(mark.bindings);
        self.tries.truncate(mark.tries);
        self.inlined.truncate(mark.inlined);
    }

    /// The index of the next event.
    pub(crate) fn now(&self) -> u32 {
        u32::try_from(self.events.len()).unwrap_or(u32::MAX)
    }
}
