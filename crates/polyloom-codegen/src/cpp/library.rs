//! Texts of the functions that define ops, kept by whoever has texts written: most texts have functions that others
//! had.
//!
//! A function is written as if nothing else were in the text, and what it asks of the text around it is noted. It is
//! not used where something of the user's has a name that stands in it: there it is written anew, with other names.

use super::prelude::Helper;
use super::target::TextTarget;
use polyloom_ir::{FuncId, Op, Scalar, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::{Arc, PoisonError, RwLock};

/// The most functions that are kept.
const MAX_KEPT: usize = 4096;

/// An op for operands of these types.
pub(super) type Defined = (Op, SmallVec<[Type; 4]>);

/// Describes what a function's text depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct LibraryKey {
    pub(super) target: TextTarget,
    /// The op whose definition it is or is called by, and its handle there.
    pub(super) defined: Defined,
    pub(super) id: FuncId,
    /// Its name and the type of its result in the text.
    pub(super) name: String,
    pub(super) result: String,
}

/// Describes what a function asks of the text around it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum TextNeeds {
    Helper(Helper),
    HelperFor(Helper, Scalar),
    Scalar(Scalar),
    Type(Type),
    /// The definition of another op, with the types of its results.
    Definition(Op, SmallVec<[Type; 4]>, SmallVec<[Type; 2]>),
    /// Another function of the same definition.
    Function(FuncId),
    ComparesWithLimits,
}

/// The text of a function.
pub(super) struct LibraryText {
    pub(super) text: String,
    /// In the order of its asking, each once.
    pub(super) asked: Vec<TextNeeds>,
    words: FxHashSet<String>,
}

impl LibraryText {
    pub(super) fn new(text: String, asked: Vec<TextNeeds>) -> LibraryText {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let words = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
        LibraryText { text, asked, words }
    }

    /// Returns true if a word stands in it.
    pub(super) fn has(&self, word: &str) -> bool {
        self.words.contains(word)
    }
}

/// Texts of functions that define ops, all by the same [`super::TextSemantics`].
#[derive(Default)]
pub struct LibraryTexts {
    /// `None` for a function that can only be written in its place.
    known: RwLock<FxHashMap<LibraryKey, Option<Arc<LibraryText>>>>,
}

impl LibraryTexts {
    /// Returns what is known under this key, or else what `write` gives.
    pub(super) fn get_or(
        &self,
        key: LibraryKey,
        write: impl FnOnce() -> Option<LibraryText>,
    ) -> Option<Arc<LibraryText>> {
        // Entries are inserted whole, so that a poisoned lock protects nothing broken.
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let written = write().map(Arc::new);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_KEPT {
            known.insert(key, written.clone());
        }
        written
    }
}
