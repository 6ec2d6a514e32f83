//! The 256-bit hashes that records are known by, in every database and on every machine.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The hash of what a record says: a graph, a recipe, code, an environment. In text it is 64 hexadecimal digits.
///
/// ```
/// use polyloom_store::ContentHash;
///
/// let hash = ContentHash::of(b"recipe");
/// assert_eq!(hash.to_string().parse(), Ok(hash));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

/// A text that is no hash.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no hash: one has 64 hexadecimal digits")]
pub struct ContentHashError(String);

impl ContentHash {
    /// Hashes bytes with BLAKE3.
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the first 16 digits, which are enough to tell the records of one database apart for a reader.
    pub fn short(&self) -> String {
        self.to_string()[..16].to_owned()
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = ContentHashError;

    fn from_str(text: &str) -> Result<ContentHash, ContentHashError> {
        let wrong = || ContentHashError(text.to_owned());
        let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len() == 64).ok_or_else(wrong)?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::try_from(16 * pair[0] + pair[1]).map_err(|_| wrong())?;
        }
        Ok(ContentHash(bytes))
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ContentHash, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
