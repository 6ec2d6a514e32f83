//! Attributes and elements: what they are, and what memory they share with what they are of.

use super::environment::GlobalMeaning;
use super::interpreter::CaptureInterpreter;
use super::object::ElementKey;
use super::object::{ContainerKind, EXTERNAL, ObjectId, ObjectKind, ObjectSet, PLAIN, ValueId, normalise};
use super::plain::PlainUse;
use super::timeline::EventKind;
use ruff_python_ast::{self as ast, Expr};
use ruff_text_size::TextRange;

/// Attributes of tensors that describe them and have nothing to do with their contents.
const METADATA: [&str; 13] = [
    "shape",
    "dtype",
    "ndim",
    "size",
    "itemsize",
    "nbytes",
    "strides",
    "flags",
    "device",
    "layout",
    "is_cuda",
    "names",
    "requires_grad",
];

impl CaptureInterpreter<'_> {
    pub(crate) fn load_attribute(&mut self, range: TextRange, object: ValueId, name: &str) -> ValueId {
        let objects = self.table.objects_of(object);
        let mut loaded = ObjectSet::new();
        // One object stands for all that a place makes, so that loops come to an end.
        let (mut viewed, mut receivers) = (ObjectSet::new(), ObjectSet::new());
        let mut is_unknown = false;
        for &each in objects.iter() {
            match self.table.present_kind(each).clone() {
                ObjectKind::Path(path) => loaded.push(self.member_object(&path, name)),
                ObjectKind::Plain => loaded.push(PLAIN),
                _ if METADATA.contains(&name) => {
                    is_unknown |= !self.hold_plain(range, object, PlainUse::Load(name));
                    loaded.push(PLAIN);
                }
                ObjectKind::OpResult { .. } | ObjectKind::Computed | ObjectKind::View => {
                    match super::method::is_view_attribute(name) {
                        true => viewed.push(each),
                        false => receivers.push(each),
                    }
                    if self.table.object(each).sources.contains(&EXTERNAL) {
                        loaded.push(EXTERNAL);
                    }
                }
                ObjectKind::Container(_) => receivers.push(each),
                ObjectKind::External => {
                    is_unknown |= !self.hold_plain(range, object, PlainUse::Load(name));
                    loaded.push(EXTERNAL);
                }
                _ => {
                    loaded.push(EXTERNAL);
                    // An attribute of a function may be what was stored to it.
                    loaded.extend(self.contents(each));
                }
            }
        }
        if is_unknown {
            self.run_unknown_code(range, EventKind::UnknownCode, &objects);
        }
        if !viewed.is_empty() {
            let reads = self.table.roots(&viewed);
            self.record(range, EventKind::View, reads, Vec::new());
            loaded.push(self.view(range, 16, &viewed));
        }
        if !receivers.is_empty() {
            let kind = ObjectKind::Method(name.into());
            let method = self.make(range, 17, kind, Some(Vec::new()), Vec::new());
            self.heap.remove(&method);
            self.add_contents(method, &receivers);
            loaded.push(method);
        }
        normalise(&mut loaded);
        let has_external = loaded.contains(&EXTERNAL);
        let value = self.value_of(loaded);
        if has_external && !is_unknown {
            self.note_attribute(value, object, name);
        }
        value
    }

    /// Returns the object that is an attribute of a path.
    fn member_object(&mut self, path: &str, name: &str) -> ObjectId {
        let whole = format!("{path}.{name}");
        if self.patched_paths.contains(&whole) {
            return EXTERNAL;
        }
        let meaning = self.environments.first().map(|environment| environment.member(path, name));
        match meaning {
            Some(GlobalMeaning::Helper(helper)) if !self.has_run_code => self.helper_object(&helper),
            Some(GlobalMeaning::Path(path)) => self.path_object(&path),
            _ => EXTERNAL,
        }
    }

    /// Makes a view of some tensors.
    fn view(&mut self, range: TextRange, tag: u32, tensors: &[ObjectId]) -> ObjectId {
        let roots = self.table.roots(tensors);
        let sources = self.table.sources(tensors);
        self.make(range, tag, ObjectKind::View, Some(roots), sources)
    }

    /// Loads an element, or a slice.
    pub(crate) fn load_element(
        &mut self,
        range: TextRange,
        container: ValueId,
        index_expr: &Expr,
        index: ValueId,
    ) -> ValueId {
        let objects = self.table.objects_of(container);
        if let &[only] = &objects[..]
            && let ObjectKind::Container(_) = self.table.kind(only)
            && let Some(key) = element_key(index_expr)
            && let Some(exact) = self.heap.get(&only).and_then(|contents| contents.exact.as_ref())
            && let Some((_, value)) = exact.iter().find(|(known, _)| *known == key)
        {
            return *value;
        }
        let is_unknown = self.run_unless_plain(range, &[container, index], PlainUse::Operator);
        if !is_unknown {
            self.read(range, &[index]);
        }
        let mut loaded = ObjectSet::new();
        let mut reads = ObjectSet::new();
        let (mut tensors, mut parts) = (ObjectSet::new(), ObjectSet::new());
        for &each in objects.iter() {
            match self.table.present_kind(each) {
                ObjectKind::Container(_) => {
                    loaded.extend(self.contents(each));
                    parts.extend(self.contents(each));
                }
                _ if self.table.is_tensor(each) => tensors.push(each),
                ObjectKind::Plain => loaded.push(PLAIN),
                _ => {
                    reads.push(EXTERNAL);
                    loaded.push(EXTERNAL);
                }
            }
        }
        if !parts.is_empty() && index_expr.is_slice_expr() {
            // A part of a list is a list of the same elements.
            normalise(&mut parts);
            let part = self.make(range, 16, ObjectKind::Container(ContainerKind::List), None, Vec::new());
            self.heap.remove(&part);
            self.add_contents(part, &parts);
            loaded.push(part);
        }
        if !tensors.is_empty() {
            reads.extend(self.table.roots(&tensors));
            let sources = self.table.sources(&tensors);
            let is_result = |&id: &ObjectId| matches!(self.table.kind(id), ObjectKind::OpResult { .. });
            if sources.contains(&EXTERNAL) {
                loaded.push(EXTERNAL);
            }
            // An index that is a list copies.
            loaded.push(match index_expr.is_list_expr() && tensors.iter().all(is_result) {
                true => self.make(range, 17, ObjectKind::Computed, None, sources),
                false => self.view(range, 17, &tensors),
            });
        }
        if !reads.is_empty() {
            self.record(range, EventKind::View, reads, Vec::new());
        }
        normalise(&mut loaded);
        let has_external = loaded.contains(&EXTERNAL);
        let value = self.value_of(loaded);
        if has_external && !is_unknown {
            self.note_derived(value, &[container]);
        }
        value
    }

    /// Returns the objects that are elements of some objects.
    pub(crate) fn element_objects(&mut self, range: TextRange, objects: &[ObjectId]) -> ObjectSet {
        let mut elements = ObjectSet::new();
        let mut tensors = ObjectSet::new();
        for &each in objects {
            match self.table.present_kind(each) {
                ObjectKind::Container(_) => elements.extend(self.contents(each)),
                ObjectKind::Plain => elements.push(PLAIN),
                _ if self.table.is_tensor(each) => tensors.push(each),
                _ => {
                    elements.push(EXTERNAL);
                    elements.extend(self.reach(&[each]));
                }
            }
        }
        if !tensors.is_empty() {
            if self.table.sources(&tensors).contains(&EXTERNAL) {
                elements.push(EXTERNAL);
            }
            elements.push(self.view(range, 18, &tensors));
        }
        normalise(&mut elements);
        elements
    }

    /// Iterates over a value, and returns what its elements may be.
    pub(crate) fn iterate(&mut self, range: TextRange, value: ValueId) -> ValueId {
        let objects = self.table.objects_of(value);
        let runs_code = objects.iter().any(|&each| match self.table.present_kind(each) {
            ObjectKind::Plain => false,
            ObjectKind::Container(ContainerKind::Iterator) => self.contents(each).contains(&EXTERNAL),
            ObjectKind::Container(_) => false,
            _ => !self.table.is_tensor(each),
        });
        let tensors: ObjectSet = objects.iter().copied().filter(|&each| self.table.is_tensor(each)).collect();
        if runs_code {
            self.run_unknown_code(range, EventKind::UnknownCode, &objects);
        } else if !tensors.is_empty() {
            let reads = self.table.roots(&tensors);
            self.record(range, EventKind::View, reads, Vec::new());
        }
        let elements = self.element_objects(range, &objects);
        self.value_of(elements)
    }
}

/// Returns the key of an element, if it is a literal.
pub(crate) fn element_key(index: &Expr) -> Option<ElementKey> {
    match index {
        Expr::NumberLiteral(number) => match &number.value {
            ast::Number::Int(value) => value.as_usize().map(ElementKey::Index),
            _ => None,
        },
        Expr::StringLiteral(text) => Some(ElementKey::Text(text.value.to_str().to_owned())),
        _ => None,
    }
}
