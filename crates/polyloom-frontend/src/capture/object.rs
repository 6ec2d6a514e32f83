//! Abstract objects and values: what the names of a function may refer to, and which memory that shares.
//!
//! An object stands for what one place of the program makes. Everything that exists outside of the function is one
//! object, [`EXTERNAL`], because any two arguments or globals may share memory. A root is an object that owns memory;
//! views name the roots that they look into. Memory that is made in a function is disjoint from all other until a
//! reference to it escapes.

use polyloom_ir::Span;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Names an object of an [`ObjectTable`].
pub(crate) type ObjectId = u32;

/// Names a value of an [`ObjectTable`].
pub(crate) type ValueId = u32;

/// A sorted set of objects.
pub(crate) type ObjectSet = Vec<ObjectId>;

/// All that exists outside of the function: arguments, globals, results of unknown calls.
pub(crate) const EXTERNAL: ObjectId = 0;

/// Numbers, texts and other objects that cannot change and refer to nothing that can.
pub(crate) const PLAIN: ObjectId = 1;

/// The value of literals.
pub(crate) const CONSTANT: ValueId = 0;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ObjectKind {
    External,
    Plain,
    /// A module or a member of one.
    Path(Arc<str>),
    /// Python's own function of this name.
    Builtin(Arc<str>),
    /// A result of a call of an op.
    OpResult {
        call: usize,
        index: usize,
    },
    /// A tensor or number that Python computes anew.
    Computed,
    /// A tensor that shares memory with its roots.
    View,
    /// A list, tuple, dict, set, or iterator over such.
    Container(ContainerKind),
    /// A function or lambda of the program.
    Function(Rc<FunctionObject>),
    /// A method, bound to the objects that the heap has as its contents.
    Method(Arc<str>),
    /// A generator, which runs code when it is iterated over.
    Generator(Rc<FunctionObject>),
    /// The object that stands for one of an earlier iteration of a loop.
    Older(Rc<ObjectKind>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerKind {
    List,
    Tuple,
    Dict,
    Set,
    Iterator,
}

/// The objects that a container may hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ContainerContents {
    pub(crate) objects: ObjectSet,
    /// Its elements with their keys, if they are known.
    pub(crate) exact: Option<Vec<(ElementKey, ValueId)>>,
}

/// The key of an element of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElementKey {
    Index(usize),
    Text(String),
}

/// A function of the program, or a generator expression.
#[derive(Debug, PartialEq)]
pub(crate) struct FunctionObject {
    pub(crate) code: FunctionSource,
    /// The frame in which it is defined, if it is defined in one.
    pub(crate) frame: Option<u32>,
    /// The environment of its globals.
    pub(crate) environment: usize,
    /// Names of enclosing frames that it may read.
    pub(crate) captured: Vec<String>,
    /// Names of enclosing frames that it may rebind.
    pub(crate) rebinds: Vec<String>,
    /// The values of default arguments, by parameter.
    pub(crate) defaults: Vec<(String, ValueId)>,
}

/// The place where the text of a function is: a unit and the offset, or the range of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FunctionSource {
    Definition { unit: usize, start: u32 },
    Lambda { unit: usize, start: u32, end: u32 },
}

#[derive(Clone, Debug)]
pub(crate) struct AbstractObject {
    pub(crate) kind: ObjectKind,
    /// The memory that it lies in.
    pub(crate) roots: ObjectSet,
    /// Results of ops that Python computed it from, and [`EXTERNAL`] if it may be a list of what is outside.
    pub(crate) sources: ObjectSet,
    /// The expression that makes it.
    pub(crate) span: Span,
}

/// The values that an expression may evaluate to, at one place of the program.
#[derive(Clone, Debug)]
pub(crate) struct AbstractValue {
    pub(crate) objects: Rc<ObjectSet>,
    /// The first event at which it is available.
    pub(crate) ready: u32,
    /// True if it is made of literals alone, and so available at any time.
    pub(crate) is_constant: bool,
    /// True if guards hold it to be a tensor, a number, a plain container or an object with plain attributes.
    pub(crate) is_guarded: bool,
    /// True if a name that holds it may be unbound on a path.
    pub(crate) may_be_unbound: bool,
}

/// The place that makes an object: frame, range, and what of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ObjectSite {
    pub(crate) frame: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) tag: u32,
}

/// Holds every object and value that analysis has met.
#[derive(Debug)]
pub(crate) struct ObjectTable {
    pub(crate) objects: Vec<AbstractObject>,
    values: Vec<AbstractValue>,
    by_site: FxHashMap<ObjectSite, ObjectId>,
    older: FxHashMap<ObjectId, ObjectId>,
    /// Objects in the order in which they were made, those made again included.
    pub(crate) made: Vec<ObjectId>,
}

impl ObjectTable {
    pub(crate) fn new() -> ObjectTable {
        let object = |kind, roots| AbstractObject { kind, roots, sources: Vec::new(), span: Span::NONE };
        let plain = AbstractValue {
            objects: Rc::new(vec![PLAIN]),
            ready: 0,
            is_constant: true,
            is_guarded: true,
            may_be_unbound: false,
        };
        ObjectTable {
            objects: vec![object(ObjectKind::External, vec![EXTERNAL]), object(ObjectKind::Plain, Vec::new())],
            values: vec![plain],
            by_site: FxHashMap::default(),
            older: FxHashMap::default(),
            made: Vec::new(),
        }
    }

    /// Makes the object of a site, or makes it anew. Its only root is itself unless `roots` says otherwise.
    pub(crate) fn make(
        &mut self,
        site: ObjectSite,
        kind: ObjectKind,
        roots: Option<ObjectSet>,
        sources: ObjectSet,
        span: Span,
    ) -> ObjectId {
        let next = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        let id = *self.by_site.entry(site).or_insert(next);
        let roots = roots.unwrap_or_else(|| vec![id]);
        let object = AbstractObject { kind, roots, sources, span };
        match self.objects.get_mut(id as usize) {
            Some(known) => *known = object,
            None => self.objects.push(object),
        }
        self.made.push(id);
        id
    }

    /// Returns the object that stands for what an object was in earlier iterations of a loop.
    pub(crate) fn older(&mut self, id: ObjectId) -> ObjectId {
        if matches!(self.kind(id), ObjectKind::Older(_)) {
            return id;
        }
        let next = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        let older = *self.older.entry(id).or_insert(next);
        if older == next {
            let object = self.object(id);
            let kind = ObjectKind::Older(Rc::new(object.kind.clone()));
            let object = AbstractObject { kind, roots: vec![older], sources: Vec::new(), span: object.span };
            self.objects.push(object);
        }
        older
    }

    /// Returns the object that stands for what an object was in earlier iterations, if there is one.
    pub(crate) fn older_of(&self, id: ObjectId) -> Option<ObjectId> {
        self.older.get(&id).copied()
    }

    pub(crate) fn object(&self, id: ObjectId) -> &AbstractObject {
        self.objects.get(id as usize).unwrap_or(&self.objects[EXTERNAL as usize])
    }

    pub(crate) fn kind(&self, id: ObjectId) -> &ObjectKind {
        &self.object(id).kind
    }

    /// Returns the kind of an object, or what it was if it is from an earlier iteration.
    pub(crate) fn present_kind(&self, id: ObjectId) -> &ObjectKind {
        match self.kind(id) {
            ObjectKind::Older(kind) => kind,
            kind => kind,
        }
    }

    pub(crate) fn add_value(&mut self, value: AbstractValue) -> ValueId {
        self.values.push(value);
        u32::try_from(self.values.len() - 1).unwrap_or(CONSTANT)
    }

    pub(crate) fn value(&self, id: ValueId) -> &AbstractValue {
        self.values.get(id as usize).unwrap_or(&self.values[CONSTANT as usize])
    }

    pub(crate) fn objects_of(&self, id: ValueId) -> Rc<ObjectSet> {
        self.value(id).objects.clone()
    }

    /// Notes that a name that holds a value may be unbound.
    pub(crate) fn set_unbound(&mut self, id: ValueId) {
        if let Some(value) = self.values.get_mut(id as usize) {
            value.may_be_unbound = true;
        }
    }

    pub(crate) fn n_values(&self) -> usize {
        self.values.len()
    }

    /// Returns the roots of some objects.
    pub(crate) fn roots(&self, objects: &[ObjectId]) -> ObjectSet {
        let mut roots: ObjectSet = objects.iter().flat_map(|&id| self.object(id).roots.iter().copied()).collect();
        normalise(&mut roots);
        roots
    }

    /// True if an object is, or may be, memory of numbers.
    pub(crate) fn is_tensor(&self, id: ObjectId) -> bool {
        matches!(self.present_kind(id), ObjectKind::OpResult { .. } | ObjectKind::Computed | ObjectKind::View)
    }

    /// Returns the results of ops that some objects are, or were computed from, and [`EXTERNAL`] if an object from outside
    /// is among these.
    pub(crate) fn sources(&self, objects: &[ObjectId]) -> ObjectSet {
        let mut sources = ObjectSet::new();
        for &id in objects {
            match self.kind(id) {
                ObjectKind::OpResult { .. } | ObjectKind::External => sources.push(id),
                _ => sources.extend(&self.object(id).sources),
            }
        }
        normalise(&mut sources);
        sources
    }
}

/// Sorts a set and removes what is in it twice.
pub(crate) fn normalise(set: &mut ObjectSet) {
    set.sort_unstable();
    set.dedup();
}

/// Returns the union of two sets.
pub(crate) fn union(a: &[ObjectId], b: &[ObjectId]) -> ObjectSet {
    let mut both: ObjectSet = a.iter().chain(b).copied().collect();
    normalise(&mut both);
    both
}
