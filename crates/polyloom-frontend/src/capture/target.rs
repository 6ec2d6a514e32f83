//! Stores: targets of assignments, operators in place, attributes and elements.

use super::interpreter::CaptureInterpreter;
use super::object::ElementKey;
use super::object::{ContainerKind, EXTERNAL, ObjectKind, ObjectSet, PLAIN, ValueId, normalise, union};
use super::plain::PlainUse;
use super::timeline::EventKind;
use ruff_python_ast::{self as ast, Expr};
use ruff_text_size::{Ranged, TextRange};

impl CaptureInterpreter<'_> {
    /// Stores a value to a target.
    pub(crate) fn assign(&mut self, target: &Expr, value: ValueId) {
        if !self.enter() {
            self.leave();
            return;
        }
        match target {
            Expr::Name(name) => self.bind(&name.id, value),
            Expr::Tuple(tuple) => self.unpack(target.range(), &tuple.elts, value),
            Expr::List(list) => self.unpack(target.range(), &list.elts, value),
            Expr::Starred(starred) => self.assign(&starred.value, value),
            Expr::Attribute(attribute) => {
                let object = self.eval(&attribute.value);
                self.store_attribute(attribute.range, object, &attribute.attr, value);
            }
            Expr::Subscript(subscript) => {
                let container = self.eval(&subscript.value);
                let index = self.eval(&subscript.slice);
                self.store_element(subscript.range, container, index, value);
            }
            _ => {}
        }
        self.leave();
    }

    fn unpack(&mut self, range: TextRange, targets: &[Expr], value: ValueId) {
        let starred = targets.iter().position(Expr::is_starred_expr);
        let exact = self.exact_elements(value);
        let elements: Option<Vec<ValueId>> = exact.and_then(|elements| match starred {
            None => (elements.len() == targets.len()).then_some(elements),
            Some(at) => {
                let n_rest = elements.len().checked_sub(targets.len() - 1)?;
                let rest = &elements[at..at + n_rest];
                let kind = ObjectKind::Container(ContainerKind::List);
                let object = self.make(range, 1, kind, None, Vec::new());
                self.fill_exactly(object, rest.iter().copied());
                let list = self.value_of(vec![object]);
                let (before, after) = (&elements[..at], &elements[at + n_rest..]);
                Some(before.iter().chain([&list]).chain(after).copied().collect())
            }
        });
        if let Some(elements) = elements {
            for (target, element) in targets.iter().zip(elements) {
                self.assign(target, element);
            }
            return;
        }
        let element = self.iterate(range, value);
        for target in targets {
            // Each is another element: a name of one does not hold the others.
            let element = self.another(element);
            if target.is_starred_expr() {
                let kind = ObjectKind::Container(ContainerKind::List);
                let object = self.make(range, 2, kind, None, Vec::new());
                self.heap.remove(&object);
                let objects = self.table.objects_of(element);
                self.add_contents(object, &objects);
                let list = self.value_of(vec![object]);
                self.assign(target, list);
            } else {
                self.assign(target, element);
            }
        }
    }

    /// Gives a container elements that are known one by one.
    pub(crate) fn fill_exactly(&mut self, container: u32, elements: impl Iterator<Item = ValueId>) {
        let exact: Vec<_> = elements.enumerate().map(|(index, value)| (ElementKey::Index(index), value)).collect();
        self.fill_with_keys(container, exact);
    }

    pub(crate) fn fill_with_keys(&mut self, container: u32, exact: Vec<(ElementKey, ValueId)>) {
        let mut objects: ObjectSet =
            exact.iter().flat_map(|(_, value)| self.table.objects_of(*value).to_vec()).collect();
        normalise(&mut objects);
        self.heap.insert(container, super::object::ContainerContents { objects, exact: Some(exact) });
    }

    /// Returns the elements of a list or tuple, if they are known one by one.
    pub(crate) fn exact_elements(&self, value: ValueId) -> Option<Vec<ValueId>> {
        let objects = self.table.objects_of(value);
        let &[only] = &objects[..] else { return None };
        let ObjectKind::Container(ContainerKind::List | ContainerKind::Tuple) = self.table.kind(only) else {
            return None;
        };
        let exact = self.heap.get(&only)?.exact.as_ref()?;
        Some(exact.iter().map(|(_, value)| *value).collect())
    }

    pub(crate) fn augmented_assignment(&mut self, assign: &ast::StmtAugAssign) {
        match &*assign.target {
            Expr::Name(name) => {
                let before = self.load(&name.id);
                let operand = self.eval(&assign.value);
                let after = self.in_place(assign.range, before, operand);
                self.bind(&name.id, after);
            }
            Expr::Attribute(attribute) => {
                let object = self.eval(&attribute.value);
                let before = self.load_attribute(attribute.range, object, &attribute.attr);
                let operand = self.eval(&assign.value);
                let after = self.in_place(assign.range, before, operand);
                self.store_attribute(attribute.range, object, &attribute.attr, after);
            }
            Expr::Subscript(subscript) => {
                let container = self.eval(&subscript.value);
                let index = self.eval(&subscript.slice);
                let before = self.load_element(subscript.range, container, &subscript.slice, index);
                let operand = self.eval(&assign.value);
                let after = self.in_place(assign.range, before, operand);
                self.store_element(subscript.range, container, index, after);
            }
            _ => {}
        }
    }

    /// Applies an operator in place, and returns what is bound then: numbers are new, tensors and lists the same.
    fn in_place(&mut self, range: TextRange, before: ValueId, operand: ValueId) -> ValueId {
        let objects = self.table.objects_of(before);
        if self.run_unless_plain(range, &[before, operand], PlainUse::Operator) {
            let made = self.unknown_result(range, &[before, operand]);
            let objects = union(&objects, &self.table.objects_of(made));
            return self.value_of(objects);
        }
        let mut after = ObjectSet::new();
        let mut writes = ObjectSet::new();
        let mut reads = self.deep_roots(&[operand]);
        let sources = self.table.sources(&union(&objects, &self.table.objects_of(operand)));
        for &object in objects.iter() {
            match self.table.present_kind(object).clone() {
                ObjectKind::Plain => {
                    let is_number = self.table.objects_of(operand)[..] == [PLAIN];
                    after.push(match is_number {
                        true => PLAIN,
                        false => self.make(range, 3, ObjectKind::Computed, None, sources.clone()),
                    });
                }
                ObjectKind::Container(kind) => {
                    // `l += x` adds the elements of `x`, and `l += [x]` that of the list.
                    let operands = self.table.objects_of(operand);
                    let mut added = self.element_objects(range, &operands);
                    added.extend(self.contents(object));
                    if kind == ContainerKind::Tuple {
                        let tuple = self.make(range, 4, ObjectKind::Container(kind), None, Vec::new());
                        self.heap.remove(&tuple);
                        self.add_contents(tuple, &added);
                        after.push(tuple);
                    } else {
                        self.add_contents(object, &added);
                        writes.push(object);
                        after.push(object);
                    }
                }
                ObjectKind::External => {
                    writes.push(EXTERNAL);
                    reads.push(EXTERNAL);
                    after.push(EXTERNAL);
                    after.push(self.make(range, 5, ObjectKind::Computed, None, sources.clone()));
                    // A list from outside keeps references to what is added.
                    let has_containers = |id: &u32| matches!(self.table.present_kind(*id), ObjectKind::Container(_));
                    if self.table.objects_of(operand).iter().any(has_containers) {
                        self.escape_value(operand);
                    }
                }
                _ => {
                    let roots = self.table.object(object).roots.clone();
                    reads.extend(&roots);
                    writes.extend(&roots);
                    after.push(object);
                }
            }
        }
        if !writes.is_empty() || !reads.is_empty() {
            self.record(range, EventKind::InPlace, reads, writes);
        }
        normalise(&mut after);
        let after = self.value_of(after);
        self.note_derived(after, &[before]);
        after
    }

    pub(crate) fn store_attribute(&mut self, range: TextRange, object: ValueId, name: &str, value: ValueId) {
        let objects = self.table.objects_of(object);
        let mut writes = ObjectSet::new();
        for &each in objects.iter() {
            if let ObjectKind::Path(path) = self.table.kind(each).clone() {
                self.patched_paths.insert(format!("{path}.{name}"));
            }
            if self.table.is_tensor(each) {
                writes.extend(self.table.object(each).roots.clone());
            }
        }
        if objects.contains(&EXTERNAL) {
            writes.push(EXTERNAL);
            if self.run_unless_plain(range, &[object], PlainUse::Store(name)) {
                self.escape_value(value);
            }
            // Later loads may find another object.
            self.has_run_code = true;
        }
        let reads = if writes.is_empty() { Vec::new() } else { self.deep_roots(&[value]) };
        // The value escapes after the store, which writes what had escaped before.
        self.record(range, EventKind::Store, reads, writes);
        let is_own = |id: &u32| matches!(self.table.present_kind(*id), ObjectKind::Function(_));
        if objects.iter().all(is_own) {
            // An attribute of a function of this function stays with it.
            let added = self.table.objects_of(value);
            objects.iter().for_each(|&each| self.add_contents(each, &added));
        } else {
            self.escape_value(value);
        }
    }

    pub(crate) fn store_element(&mut self, range: TextRange, container: ValueId, index: ValueId, value: ValueId) {
        let objects = self.table.objects_of(container);
        let mut writes = ObjectSet::new();
        self.run_unless_plain(range, &[container, index, value], PlainUse::Operator);
        let mut reads = self.deep_roots(&[index]);
        for &each in objects.iter() {
            match self.table.present_kind(each) {
                ObjectKind::Container(_) => {
                    let mut added = self.table.objects_of(value).to_vec();
                    // A dict keeps its keys, too; `l[1:] = x` stores the elements of `x`.
                    added.extend(self.table.objects_of(index).iter());
                    let stored = self.table.objects_of(value);
                    added.extend(self.element_objects(range, &stored));
                    self.add_contents(each, &added);
                    writes.push(each);
                }
                ObjectKind::External => {
                    writes.push(EXTERNAL);
                    reads.extend(self.deep_roots(&[value]));
                }
                _ => {
                    writes.extend(self.table.object(each).roots.clone());
                    reads.extend(self.deep_roots(&[value]));
                }
            }
        }
        self.record(range, EventKind::Store, reads, writes);
        if objects.contains(&EXTERNAL) {
            self.has_run_code = true;
            // It may be a list or dict, which keeps the references from now on.
            self.escape_value(value);
            self.escape_value(index);
        }
    }
}
