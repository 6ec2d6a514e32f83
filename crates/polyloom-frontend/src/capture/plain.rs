//! Values from outside whose operators, attributes and subscripts run no code of the program.
//!
//! Whatever an operator of an unknown class does, it may do it between two calls of a group. An operation is taken to be
//! plain only if a check of types when the function is entered can tell: the value is a parameter, a global, or has come
//! out of one of these while nothing could have changed it. Every other operation is a call of unknown code.

use super::interpreter::CaptureInterpreter;
use super::object::{EXTERNAL, ObjectKind, ObjectSet, ValueId, normalise};
use super::result::CaptureGuard;
use super::rewrite::edits::{OutsideRoot, PlainRequirement};
use super::timeline::EventKind;
use ruff_text_size::TextRange;

/// The operation on a value that is taken to be plain.
#[derive(Clone, Copy)]
pub(crate) enum PlainUse<'a> {
    Operator,
    Load(&'a str),
    Store(&'a str),
}

/// A requirement that makes a value plain, and whether it must hold of a value without elements.
pub(crate) type PlainSource = (usize, bool);

/// The deepest nesting of containers that is looked into.
const MAX_DEPTH: usize = 4;

impl CaptureInterpreter<'_> {
    /// Notes that a value is that of a name when the function is entered, or of an attribute of such a value.
    pub(crate) fn note_outside(&mut self, value: ValueId, root: OutsideRoot, path: Vec<String>) {
        let known = self.plain.iter().position(|each| each.root == root && each.path == path);
        let index = known.unwrap_or_else(|| {
            self.plain.push(PlainRequirement {
                root,
                path,
                has_operators: false,
                is_single: false,
                is_array: false,
                loaded: Vec::new(),
                stored: Vec::new(),
            });
            self.plain.len() - 1
        });
        self.plain_sources.insert(value, vec![(index, false)]);
    }

    /// Notes that a value has come out of others as an element or a view.
    pub(crate) fn note_derived(&mut self, value: ValueId, of: &[ValueId]) {
        let mut sources: Vec<PlainSource> = Vec::new();
        for each in of.iter().filter(|&&each| self.table.objects_of(each).contains(&EXTERNAL)) {
            let Some(known) = self.plain_sources.get(each) else { return };
            sources.extend(known.iter().map(|&(index, is_single)| (index, is_single || self.has_run_code)));
        }
        if !sources.is_empty() {
            sources.sort_unstable();
            sources.dedup();
            self.plain_sources.insert(value, sources);
        }
    }

    /// Notes the attribute of a value.
    pub(crate) fn note_attribute(&mut self, value: ValueId, of: ValueId, name: &str) {
        let sources = self.plain_sources.get(&of).cloned().unwrap_or_default();
        let &[(index, false)] = &sources[..] else { return self.note_derived(value, &[of]) };
        if self.has_run_code || self.table.objects_of(of)[..] != [EXTERNAL] {
            return self.note_derived(value, &[of]);
        }
        let (root, mut path) = (self.plain[index].root.clone(), self.plain[index].path.clone());
        path.push(name.to_owned());
        if path.len() <= MAX_DEPTH {
            self.note_outside(value, root, path);
        }
    }

    /// Returns true if an operation on a value runs no code of the program, which guards then hold at run time.
    pub(crate) fn hold_plain(&mut self, range: TextRange, value: ValueId, operation: PlainUse<'_>) -> bool {
        self.hold_plain_at(range, value, operation, 0)
    }

    fn hold_plain_at(&mut self, range: TextRange, value: ValueId, operation: PlainUse<'_>, depth: usize) -> bool {
        let objects = self.table.objects_of(value);
        for &object in objects.iter() {
            let is_container = matches!(self.table.present_kind(object), ObjectKind::Container(_));
            if !is_container || !matches!(operation, PlainUse::Operator) {
                continue;
            }
            let Some(contents) = self.heap.get(&object) else { continue };
            let is_foreign = |object: &u32| {
                *object == EXTERNAL || matches!(self.table.present_kind(*object), ObjectKind::Container(_))
            };
            match contents.exact.clone() {
                Some(elements) if depth < MAX_DEPTH => {
                    let elements: Vec<ValueId> = elements.into_iter().map(|(_, element)| element).collect();
                    if !elements.into_iter().all(|each| self.hold_plain_at(range, each, operation, depth + 1)) {
                        return false;
                    }
                }
                _ if contents.objects.iter().any(is_foreign) => return false,
                _ => {}
            }
        }
        if !objects.contains(&EXTERNAL) {
            return true;
        }
        let Some(sources) = self.plain_sources.get(&value).cloned() else { return false };
        for (index, is_single) in sources {
            let required = &mut self.plain[index];
            required.is_single |= is_single;
            match operation {
                _ if is_single => required.has_operators = true,
                PlainUse::Operator => required.has_operators = true,
                PlainUse::Load(name) => add_name(&mut required.loaded, name),
                PlainUse::Store(name) => add_name(&mut required.stored, name),
            }
        }
        let span = self.span(range);
        self.add_guard(CaptureGuard::PlainOperation { span });
        true
    }

    /// Runs an operation on values as unknown code, unless all are held to be plain. Returns true if it did.
    pub(crate) fn run_unless_plain(&mut self, range: TextRange, values: &[ValueId], operation: PlainUse<'_>) -> bool {
        let are_plain: Vec<bool> = values.iter().map(|&value| self.hold_plain(range, value, operation)).collect();
        if are_plain.iter().all(|&is_plain| is_plain) {
            return false;
        }
        let mut objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        normalise(&mut objects);
        self.run_unknown_code(range, EventKind::UnknownCode, &objects);
        true
    }
}

fn add_name(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}
