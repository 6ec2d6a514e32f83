//! Finding graphs by their ops: an index that is kept by the server, because a database would read all its texts for each search.

use polyloom_store::{ContentHash, Store, StoreError, TextCursor};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// Longer words are no ops, and more words than these come from texts that are no graphs.
const MAX_WORD_LETTERS: usize = 40;
const MAX_WORDS: usize = 1 << 16;

/// The words of all graphs of one database. A canonical text has composite ops taken apart, so that the recipe of the default path
/// counts as well.
#[derive(Default)]
pub(super) struct OpIndex {
    inner: Mutex<IndexedWords>,
}

#[derive(Default)]
struct IndexedWords {
    cursor: TextCursor,
    numbers: HashMap<String, usize>,
    /// The graphs that have a word, by the word's number.
    graphs: Vec<BTreeSet<usize>>,
    /// The graphs in the order in which they came.
    hashes: Vec<ContentHash>,
    places: HashMap<ContentHash, usize>,
}

impl OpIndex {
    /// Returns the graphs that have a word with this in it, those that came last first.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub(super) fn find(&self, store: &mut dyn Store, searched: &str) -> Result<Vec<ContentHash>, StoreError> {
        let mut index = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        index.read_new(store)?;
        let searched = searched.to_lowercase();
        let mut found: BTreeSet<usize> = BTreeSet::new();
        for (_, number) in index.numbers.iter().filter(|(word, _)| word.contains(&searched)) {
            found.extend(&index.graphs[*number]);
        }
        Ok(found.into_iter().rev().map(|place| index.hashes[place]).collect())
    }

    /// Reads what is new, so that the first search need not wait for it.
    pub(super) fn prepare(&self, store: &mut dyn Store) {
        // The next search meets the same error, and tells it.
        let _ = self.inner.lock().unwrap_or_else(PoisonError::into_inner).read_new(store);
    }
}

impl IndexedWords {
    fn read_new(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        let mut cursor = self.cursor;
        let read = store.for_each_new_text(&mut cursor, &mut |bits, text| self.add(bits, text));
        // Bytes that were read before an error are kept, because they cannot be read again.
        self.cursor = cursor;
        read
    }

    fn add(&mut self, bits: ContentHash, text: &str) {
        let place = *self.places.entry(bits).or_insert_with(|| {
            self.hashes.push(bits);
            self.hashes.len() - 1
        });
        for word in words(text) {
            let next = self.graphs.len();
            let number = match self.numbers.get(word) {
                Some(number) => *number,
                None if next >= MAX_WORDS => continue,
                None => {
                    self.numbers.insert(word.to_owned(), next);
                    self.graphs.push(BTreeSet::new());
                    next
                }
            };
            self.graphs[number].insert(place);
        }
    }
}

/// Returns the ops of a text, which stand behind equals signs; all words if there are no such signs.
fn words(text: &str) -> BTreeSet<&str> {
    let is_of_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let ops = text.split(" = ").skip(1).map(|rest| &rest[..rest.find(|c| !is_of_word(c)).unwrap_or(rest.len())]);
    let mut words: BTreeSet<&str> = ops.collect();
    if words.is_empty() {
        words.extend(text.split(|c| !is_of_word(c)));
    }
    words.retain(|word| !word.is_empty() && word.len() <= MAX_WORD_LETTERS);
    words
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn ops_are_found_in_texts_and_recipes() {
        let of = |text| words(text).into_iter().collect::<Vec<_>>();
        let text = "// bits\n%0 = input 0 : f32[s0]\n%1 = exp %0 : f32[s0]\n%2 = layer_norm %1\nreturn %2";
        assert_eq!(of(text), ["exp", "input", "layer_norm"]);
        assert_eq!(
            of(r#"{"program":"%0 = input \"x\" : f32[n]\n%1 = softmax %0, axis=1 : f32[n]\n"}"#),
            ["input", "softmax"]
        );
        assert_eq!(of("softmax(x, y)"), ["softmax", "x", "y"]);
        assert_eq!(of(""), [""; 0]);
    }
}
