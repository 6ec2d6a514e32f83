//! Definitions of terms without their operands, each once: a graph of a million values has a few dozen.

use super::term::TermHead;
use super::types::TypeId;
use rustc_hash::FxHashMap;

/// Identifies a term, but for its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Definition {
    pub(crate) head: TermHead,
    pub(crate) ty: TypeId,
}

/// A definition, by its place in a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct DefinitionId(u32);

impl DefinitionId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The definitions of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct DefinitionTable {
    definitions: Vec<Definition>,
    ids: FxHashMap<Definition, DefinitionId>,
}

impl DefinitionTable {
    /// Adds a definition, unless it is there.
    pub(crate) fn intern(&mut self, definition: Definition) -> DefinitionId {
        if let Some(&id) = self.ids.get(&definition) {
            return id;
        }
        let id = DefinitionId(self.definitions.len() as u32);
        self.definitions.push(definition.clone());
        self.ids.insert(definition, id);
        id
    }

    pub(crate) fn get(&self, id: DefinitionId) -> &Definition {
        self.at(id.index())
    }

    pub(super) fn at(&self, index: usize) -> &Definition {
        &self.definitions[index]
    }
}
