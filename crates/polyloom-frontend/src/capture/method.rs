//! Methods and functions of libraries whose effects are known: those of tensors, lists, dicts and texts.

use super::call::CallArguments;
use super::interpreter::CaptureInterpreter;
use super::object::{ContainerKind, EXTERNAL, ObjectId, ObjectKind, ObjectSet, PLAIN, ValueId, normalise};
use super::plain::PlainUse;
use super::timeline::EventKind;
use ruff_text_size::TextRange;

/// Methods of tensors that read and make something new.
const COPYING_METHODS: [&str; 36] = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "choose",
    "clip",
    "clone",
    "compress",
    "copy",
    "cumprod",
    "cumsum",
    "dot",
    "item",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "repeat",
    "round",
    "searchsorted",
    "std",
    "sum",
    "take",
    "tobytes",
    "tolist",
    "trace",
    "var",
    "exp",
    "log",
    "sqrt",
    "abs",
    "tanh",
    "sigmoid",
    "relu",
];

/// Methods of tensors whose result may share memory with them.
const VIEW_METHODS: [&str; 19] = [
    "astype",
    "contiguous",
    "detach",
    "diagonal",
    "expand",
    "flatten",
    "narrow",
    "numpy",
    "permute",
    "ravel",
    "reshape",
    "squeeze",
    "swapaxes",
    "to",
    "transpose",
    "unsqueeze",
    "view",
    "cpu",
    "conj",
];

/// Attributes of tensors that share memory with them.
const VIEW_ATTRIBUTES: [&str; 9] = ["T", "mT", "H", "real", "imag", "flat", "base", "data", "grad"];

/// Methods of lists, dicts and sets that put their arguments into them, or take elements out.
const CONTAINER_METHODS: [&str; 17] = [
    "append",
    "extend",
    "insert",
    "add",
    "update",
    "setdefault",
    "pop",
    "popitem",
    "remove",
    "discard",
    "clear",
    "reverse",
    "appendleft",
    "popleft",
    "extendleft",
    "rotate",
    "fromkeys",
];

/// Methods of lists, dicts and sets that only read.
const CONTAINER_READS: [&str; 6] = ["get", "items", "keys", "values", "copy", "count"];

/// Functions of libraries that read their arguments and make something new.
const PURE_NUMPY: [&str; 40] = [
    "abs",
    "add",
    "all",
    "any",
    "allclose",
    "amax",
    "amin",
    "arange",
    "argmax",
    "argmin",
    "array_equal",
    "ceil",
    "cos",
    "divide",
    "dot",
    "empty",
    "exp",
    "float32",
    "float64",
    "floor",
    "full",
    "int32",
    "int64",
    "isfinite",
    "isnan",
    "log",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "ones",
    "prod",
    "sin",
    "sqrt",
    "subtract",
    "sum",
    "tanh",
    "zeros",
];

pub(crate) fn is_view_attribute(name: &str) -> bool {
    VIEW_ATTRIBUTES.contains(&name)
}

/// NumPy's functions of one argument, of which a second positional one is the array that receives the result.
const UNARY_NUMPY: [&str; 12] =
    ["abs", "ceil", "cos", "exp", "floor", "isfinite", "isnan", "log", "sin", "sqrt", "tanh", "all"];

/// Methods of tensors that take two positional arguments before the array that receives the result.
const TWO_ARGUMENTS: [&str; 9] = ["clip", "sum", "mean", "prod", "std", "var", "take", "cumsum", "cumprod"];

/// True if a function of a library, called with so many positional arguments and without `out=`, does nothing but
/// compute a new value.
pub(crate) fn is_pure_function(path: &str, n_positional: usize) -> bool {
    match path.split_once('.') {
        Some(("math", _)) => true,
        Some(("numpy", name)) if UNARY_NUMPY.contains(&name) => n_positional <= 1,
        Some(("numpy", name)) => PURE_NUMPY.contains(&name) && n_positional <= 2,
        _ => false,
    }
}

impl CaptureInterpreter<'_> {
    /// Calls a method of a value.
    pub(crate) fn call_method(
        &mut self,
        range: TextRange,
        receiver: ValueId,
        name: &str,
        arguments: &CallArguments,
    ) -> ValueId {
        if let Some(made) = self.call_numpy_method(range, receiver, name, arguments) {
            return made;
        }
        let objects = self.table.objects_of(receiver);
        let is_plain = objects.iter().all(|&id| id == PLAIN);
        let is_container = |id: ObjectId| matches!(self.table.present_kind(id), ObjectKind::Container(_));
        if is_plain {
            return self.call_text_method(range, receiver, name, arguments);
        }
        if objects.iter().all(|&id| is_container(id)) {
            return self.call_container_method(range, receiver, name, arguments);
        }
        let is_guarded = self.table.value(receiver).is_guarded;
        let is_tensor = |id: ObjectId| self.table.is_tensor(id) || id == EXTERNAL && is_guarded;
        let are_tensors = objects.iter().all(|&id| is_tensor(id));
        let is_called_plainly =
            arguments.rest.is_empty() && arguments.keyword("out").is_none() && !self.may_run_code(arguments);
        // The array that receives the result may be passed by position, after these.
        let has_out = arguments.positional.len() > if TWO_ARGUMENTS.contains(&name) { 2 } else { 1 };
        let is_copy = COPYING_METHODS.contains(&name) && !has_out;
        let is_view = VIEW_METHODS.contains(&name);
        if !are_tensors || !is_called_plainly || !(is_copy || is_view) {
            return self.call_unknown(range, receiver, arguments);
        }
        self.hold_plain(range, receiver, PlainUse::Operator);
        let mut values = arguments.values();
        values.push(receiver);
        let sources = self.sources_of(&values);
        let reads = self.deep_roots(&values);
        if is_copy {
            self.record(range, EventKind::Read, reads, Vec::new());
            let object = self.make(range, 0, ObjectKind::Computed, None, sources);
            return self.value_of(vec![object]);
        }
        self.record(range, EventKind::View, reads, Vec::new());
        let mut roots = self.table.roots(&objects);
        let object = self.make(range, 0, ObjectKind::View, None, sources);
        // It may be a copy, too.
        roots.push(object);
        normalise(&mut roots);
        if let Some(made) = self.table.objects.get_mut(object as usize) {
            made.roots = roots;
        }
        let made = if objects.contains(&EXTERNAL) { vec![EXTERNAL, object] } else { vec![object] };
        self.value_of(made)
    }

    /// True if an argument is a function or a generator, which a callee may run.
    pub(crate) fn may_run_code(&self, arguments: &CallArguments) -> bool {
        let values = arguments.values();
        let objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        self.reach(&objects).iter().any(|&id| {
            let kind = self.table.present_kind(id);
            matches!(kind, ObjectKind::Function(_) | ObjectKind::Generator(_) | ObjectKind::Method(_))
        })
    }

    /// Calls a method of a number or text, which reads its arguments: `", ".join(…)`, `"{}".format(x)`.
    fn call_text_method(
        &mut self,
        range: TextRange,
        receiver: ValueId,
        name: &str,
        arguments: &CallArguments,
    ) -> ValueId {
        let values = arguments.values();
        let is_plain = values.iter().all(|&value| self.table.objects_of(value)[..] == [PLAIN]);
        if !is_plain && !matches!(name, "join" | "format") {
            return self.call_unknown(range, receiver, arguments);
        }
        if self.may_run_code(arguments) {
            let objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
            self.run_unknown_code(range, EventKind::UnknownCode, &objects);
        } else {
            self.read(range, &values);
        }
        let sources = self.sources_of(&values);
        self.text(range, sources)
    }

    fn call_container_method(
        &mut self,
        range: TextRange,
        receiver: ValueId,
        name: &str,
        arguments: &CallArguments,
    ) -> ValueId {
        let is_write = CONTAINER_METHODS.contains(&name);
        let is_known = is_write || CONTAINER_READS.contains(&name);
        let takes_any = !matches!(name, "count" | "remove" | "discard" | "fromkeys");
        if !is_known || !takes_any || self.may_run_code(arguments) {
            return self.call_unknown(range, receiver, arguments);
        }
        let values = arguments.values();
        let objects = self.table.objects_of(receiver);
        let mut loaded: ObjectSet = objects.iter().flat_map(|&id| self.contents(id)).collect();
        if is_write {
            let mut added: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
            if matches!(name, "extend" | "update" | "extendleft") {
                for &value in &values {
                    let elements = self.iterate(range, value);
                    added.extend(self.table.objects_of(elements).iter());
                }
            }
            objects.iter().for_each(|&id| self.add_contents(id, &added));
            let writes = self.table.roots(&objects);
            self.record(range, EventKind::Store, Vec::new(), writes);
            loaded.extend(added);
        } else {
            loaded.extend(values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()));
        }
        normalise(&mut loaded);
        match name {
            "items" | "keys" | "values" | "copy" => {
                let kind = match name {
                    "copy" => ContainerKind::List,
                    _ => ContainerKind::Iterator,
                };
                // The items are pairs, which hold the same objects.
                let pair = self.make(range, 1, ObjectKind::Container(ContainerKind::Tuple), None, Vec::new());
                self.heap.remove(&pair);
                self.add_contents(pair, &loaded);
                let list = self.make(range, 0, ObjectKind::Container(kind), None, Vec::new());
                self.heap.remove(&list);
                if name == "items" {
                    self.add_contents(list, &[pair]);
                } else {
                    self.add_contents(list, &loaded);
                }
                self.value_of(vec![list])
            }
            "get" | "pop" | "popitem" | "setdefault" | "popleft" => {
                // `None`, or a pair, may be what it returns.
                loaded.push(PLAIN);
                let pair = self.make(range, 1, ObjectKind::Container(ContainerKind::Tuple), None, Vec::new());
                self.heap.remove(&pair);
                self.add_contents(pair, &loaded);
                if name == "popitem" {
                    loaded = vec![pair];
                }
                normalise(&mut loaded);
                self.value_of(loaded)
            }
            _ => self.plain(),
        }
    }
}
