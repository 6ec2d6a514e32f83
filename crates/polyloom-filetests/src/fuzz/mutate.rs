//! Seeded mutation of texts, by bytes, by tokens and by lines.

use polyloom_ir::generate::Random;

/// Texts that are interesting wherever they land, one a line.
const PIECES: &str = "0
-1
1e400
18446744073709551616
170141183460469231731687303715884105728
0x
1j
nan
\"
\"\"\"
'
f\"{x}\"
b''
\\u{110000}
{
}
(
)
[
]
:
:=
=
,
*
**
@
not
lambda x: x
in
is
async
yield
None
True
...
%0
^0
\u{0}
é
\u{feff}
\u{2028}
\t
\r";

/// A mutation of one of the texts, which may take parts from the others.
pub fn mutate(corpus: &[String], random: &mut Random) -> String {
    let Some(text) = corpus.get(random.below(corpus.len())) else { return String::new() };
    let mut text = text.clone();
    for _ in 0..1 + random.below(4) {
        text = match random.below(4) {
            0 => bytes(text, random),
            1 => lines(&text, corpus, random),
            _ => tokens(&text, corpus, random),
        };
    }
    text
}

/// Changes, removes, doubles or inserts a few bytes; what is no longer UTF-8 becomes replacement characters.
fn bytes(text: String, random: &mut Random) -> String {
    let mut bytes = text.into_bytes();
    let at = random.below(bytes.len());
    let len = random.below(8).min(bytes.len() - at);
    match random.below(5) {
        0 if at < bytes.len() => bytes[at] = random.bits() as u8,
        1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        2 => drop(bytes.drain(at..at + len)),
        3 => {
            let copy = bytes[at..at + len].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => bytes.truncate(at),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Removes, doubles, swaps or replaces lines.
fn lines(text: &str, corpus: &[String], random: &mut Random) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
    if lines.is_empty() {
        return String::new();
    }
    match random.below(4) {
        0 => drop(lines.remove(from)),
        1 => lines.insert(to, lines[from]),
        2 => lines.swap(from, to),
        _ => {
            let other: Vec<&str> = corpus[random.below(corpus.len())].split_inclusive('\n').collect();
            if let Some(line) = other.get(random.below(other.len())) {
                lines[from] = line;
            }
        }
    }
    lines.concat()
}

/// Removes, doubles, swaps or replaces tokens. Most replacements are of the same class, so that many results are still
/// well formed and reach the layers behind the parser.
fn tokens(text: &str, corpus: &[String], random: &mut Random) -> String {
    let mut list = split(text);
    let solid: Vec<usize> = (0..list.len()).filter(|&i| !list[i].trim().is_empty()).collect();
    if solid.is_empty() {
        return piece(random).to_owned();
    }
    let at = solid[random.below(solid.len())];
    let other = split(&corpus[random.below(corpus.len())]);
    match random.below(8) {
        0 => drop(list.remove(at)),
        1 => list.insert(at, list[solid[random.below(solid.len())]]),
        2 => list.swap(at, solid[random.below(solid.len())]),
        3 => list[at] = piece(random),
        _ => {
            let source = if random.below(2) == 0 { &list } else { &other };
            let alike: Vec<&str> = source.iter().copied().filter(|t| class(t) == class(list[at])).collect();
            if !alike.is_empty() {
                list[at] = alike[random.below(alike.len())];
            }
        }
    }
    list.concat()
}

fn piece(random: &mut Random) -> &'static str {
    PIECES.split('\n').nth(random.below(PIECES.split('\n').count())).unwrap_or_default()
}

/// Words with a sigil, numbers, runs of blanks and single marks. Their concatenation is the text.
fn split(text: &str) -> Vec<&str> {
    let mut list = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let start = if matches!(first, '%' | '@' | '^') { 1 } else { 0 };
        let mut len = start + rest[start..].find(|c| !word(c)).unwrap_or(rest.len() - start);
        if len == 0 {
            let blank = |c: char| c.is_whitespace() == first.is_whitespace() && c.is_whitespace();
            len = first.len_utf8() + rest[first.len_utf8()..].find(|c| !blank(c)).unwrap_or(0);
            if !first.is_whitespace() {
                len = first.len_utf8();
            }
        }
        let (token, after) = rest.split_at(len);
        list.push(token);
        rest = after;
    }
    list
}

/// Tokens of one class may stand for each other.
fn class(token: &str) -> u8 {
    match token.chars().next() {
        Some(c @ ('%' | '@' | '^')) => c as u8,
        Some(c) if c.is_numeric() => b'0',
        Some(c) if c.is_alphabetic() || c == '_' => {
            // Types among themselves, since a wrong one ends most programs early.
            if polyloom_ir::Scalar::from_name(token).is_some() { b't' } else { b'w' }
        }
        Some(c) if c.is_whitespace() => b' ',
        _ => b'.',
    }
}
