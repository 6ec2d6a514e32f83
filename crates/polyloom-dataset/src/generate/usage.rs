//! Which names the lines of a program read: what nothing reads is there for nothing.

use super::words::places;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The names that lines read, each with the last line that does. Names are known by their hashes, of which the few that
/// a kernel has do not collide.
#[derive(Default)]
pub(super) struct NameUsage {
    last: HashMap<u64, usize, BuildHasherDefault<AsItIs>>,
    n_lines: usize,
}

/// Describes what is a hash already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| with(hash, byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl NameUsage {
    /// Takes in the lines that have been added.
    pub(super) fn scan(&mut self, lines: &[String]) {
        for (at, line) in lines.iter().enumerate().skip(self.n_lines) {
            let line = line.trim_start();
            // A target of an assignment is not read, even if it is added to.
            let rest = match assignment(line) {
                Some((_, value)) => value,
                None if line.starts_with('#') => "",
                None => line,
            };
            let (mut hash, mut is_part) = (EMPTY, false);
            for byte in rest.bytes().chain([b' ']) {
                if byte.is_ascii_alphanumeric() || byte == b'_' {
                    hash = with(hash, byte);
                    continue;
                }
                // `p.mass` reads `p` too.
                if hash != EMPTY && !is_part {
                    self.last.insert(hash, at);
                }
                // A field's name is no name of a variable, so that `b[i].y` does not read `y`.
                is_part = byte == b'.' && (hash == EMPTY || is_part);
                hash = if byte == b'.' && hash != EMPTY && !is_part { with(hash, byte) } else { EMPTY };
            }
        }
        self.n_lines = lines.len();
    }

    /// The last line that reads a name.
    pub(super) fn last_of(&self, name: &str) -> Option<usize> {
        self.last.get(&name.bytes().fold(EMPTY, with)).copied()
    }

    /// Returns true if one of these lines, which have been taken in, computes what no other reads, or nothing new.
    pub(super) fn finds_idle(&self, lines: &[String]) -> bool {
        lines.iter().filter_map(|line| assignment(line.trim_start())).any(|(target, value)| {
            let mut names = target.trim_end_matches([' ', '+', '-', '*', '/']).split(", ");
            target == value || names.any(|name| self.last_of(name).is_none())
        })
    }
}

/// The hash of no name: FNV-1a.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

fn with(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Returns true if two lines in a row of them give the same value two names, or leave it in two arrays that are not
/// their own, because what they leave in tiles of shared memory is read again.
pub(super) fn repeats(lines: &[String]) -> bool {
    let tile =
        |line: &String| Some(line.split_once(" = ").filter(|(_, made)| made.contains("shared_array"))?.0.to_owned());
    let tiles: Vec<String> = lines.iter().filter_map(tile).collect();
    let is_tile = |array: &str| tiles.iter().any(|tile| tile.trim_start() == array);
    let plain = |line: &str| {
        let text = line.trim_start();
        let store = text.split_once("] = ").and_then(|(place, value)| Some((place.split_once('[')?.0, value)));
        let (target, value) = store.or_else(|| assignment(text))?;
        if store.is_some() && is_tile(target) {
            return None;
        }
        let is_new = target.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        let draws = [".rand", ".sample_", "shuffle", "noise(", "float(", "int(", "zeros", "vector(", "shared_array"];
        let is_value = match store {
            Some(_) => value.contains(|c: char| c.is_ascii_alphabetic()),
            None => value.contains(['(', '[', ' ']),
        };
        let is_computed = is_value && !draws.iter().any(|call| value.contains(call));
        (is_new && is_computed).then(|| (target.to_owned(), value.to_owned()))
    };
    let mut known: Vec<(usize, String, String)> = Vec::new();
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        known.retain(|(at, ..)| *at <= depth);
        // A variable that changes is not known any more.
        if let Some((targets, _)) = text.split_once(" = ").or_else(|| text.split_once("= ")) {
            let target = targets.split(['[', '.', ' ', ',']).next().unwrap_or(targets);
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if let Some((name, value)) = plain(line)
                && known.iter().any(|(_, other, same)| *same == value && *other != name)
            {
                return true;
            }
            known.retain(|(_, name, value)| name != target && value.split(|c| !is_part(c)).all(|word| word != target));
        }
        if text.contains("sync_") {
            known.clear();
        }
        if let Some((name, value)) = plain(line) {
            known.push((depth, name, value));
        }
    }
    false
}

/// Returns true if lines read a composite as a whole, or more than one of its components.
pub(super) fn reads_whole(lines: &[String], name: &str) -> bool {
    let mut component: Option<&str> = None;
    for line in lines {
        let line = line.trim_start();
        let code = assignment(line).map_or(line, |(_, value)| value);
        for at in places(code, name) {
            let rest = &code[at + name.len()..];
            let length = match rest.chars().next() {
                Some('.') => 2,
                Some('[') => rest.find(']').map_or(0, |end| end + 1),
                _ => return true,
            };
            let part = &rest[..length];
            if component.is_some_and(|other| other != part) {
                return true;
            }
            component = Some(part);
        }
    }
    false
}

/// The names that a line assigns, and what it assigns.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let at = line.find('=')?;
    let target = line[..at].trim_end();
    let is_name = target.bytes().all(|c| c.is_ascii_alphanumeric() || b" _+-*/,".contains(&c));
    let value = line[at + 1..].strip_prefix(' ')?;
    let is_statement = ["for ", "if ", "elif ", "while ", "return "].iter().any(|word| target.starts_with(word));
    (is_name && !is_statement).then_some((target, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_assigned_is_not_read() {
        let lines = lines("a = p.mass + b[i].h\nc += d\n# e\nif f == 1:\n    x[k] = g");
        let mut reads = NameUsage::default();
        reads.scan(&lines[..1]);
        reads.scan(&lines);
        for (name, line) in [("p", 0), ("p.mass", 0), ("b", 0), ("i", 0), ("d", 1), ("f", 3), ("x", 4), ("g", 4)] {
            assert_eq!(reads.last_of(name), Some(line), "{name}");
        }
        for name in ["a", "c", "e", "mass", "h"] {
            assert_eq!(reads.last_of(name), None, "{name}");
        }
    }

    #[test]
    fn repeated_values_are_found() {
        assert!(repeats(&lines("a = b[i] * 2.0\nc = d\ne = b[i] * 2.0")));
        assert!(!repeats(&lines("a = b[i] * 2.0\nb[i] = d\ne = b[i] * 2.0")));
        assert!(!repeats(&lines("a = wp.randf(state)\nc = wp.randf(state)")));
        assert!(!repeats(&lines("if x:\n    a = b - 1\n    c += a\nelse:\n    d = b - 1\n    c += d")));
        assert!(!repeats(&lines("a = c - 1\nc = a\nb = c - 1")));
        assert!(repeats(&lines("a[i] = x[i] * x[i]\nb[i] = x[i] * x[i]")));
        assert!(repeats(&lines("a[i] = c\nb[i] = c")));
        assert!(!repeats(&lines("a = loom.shared_array(shape=32, dtype=float)\na[i] = c\nb[i] = c")));
        assert!(!repeats(&lines("a[i] = c\nc = c + 1\nb[i] = c")));
        assert!(!repeats(&lines("a[i] = 0.0\nb[i] = 0.0")));
    }

    #[test]
    fn what_is_read_of_composites_is_found() {
        let whole = |text: &str| reads_whole(&lines(text), "v");
        assert!(whole("v = a\nb = v * 2.0") && whole("b = v.x + v.y") && whole("b = v[0, 1]\nc = v[1, 0]"));
        assert!(!whole("v = a + b\nc = v.x * 2.0\nd = v.x") && !whole("b = c.v + d") && !whole("v += 1.0"));
    }

    #[test]
    fn idle_lines_are_found() {
        let is_idle = |text: &str| {
            let lines = lines(text);
            let mut reads = NameUsage::default();
            reads.scan(&lines);
            reads.finds_idle(&lines)
        };
        assert!(is_idle("a = b\nout[i] = c"));
        assert!(is_idle("a, c = f(b)\nout[i] = c"));
        assert!(is_idle("a = float(1.0)\na += 1.0"));
        assert!(is_idle("c = c\nout[i] = c"));
        assert!(!is_idle("a = b\nc = a\nout[i] = c"));
    }
}
