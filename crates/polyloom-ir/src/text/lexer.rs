//! HIR text to tokens.
//!
//! The lexer never fails: what it cannot read becomes an [`TokenKind::Unknown`] token that no rule of the grammar takes.

use super::{is_word_char, is_word_start};

/// Describes what a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    /// A keyword, op, scalar type, attribute or name.
    Word,
    /// `%name`
    Value,
    /// `^name`
    Label,
    /// `@name` or `@"name"`
    Func,
    /// `"…"`, escapes not yet undone.
    Str,
    /// A decimal or `0x` number, sign included.
    Number,
    /// A mark of the grammar: one of `( ) { } [ ] < > , : = ! .. ->`.
    Mark(&'static str),
    /// Anything else, an unclosed string included.
    Unknown,
    /// The end of the text.
    End,
}

/// One token: a kind and a range of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct HirToken {
    pub(super) kind: TokenKind,
    pub(super) start: u32,
    pub(super) end: u32,
    /// True if no other token precedes it on its line.
    pub(super) starts_line: bool,
}

const MARKS: [&str; 14] = ["->", "..", "(", ")", "{", "}", "[", "]", "<", ">", ",", ":", "=", "!"];

/// All tokens of `text`, ending in one [`TokenKind::End`]. The text is shorter than 4 GiB.
pub(super) fn lex(text: &str) -> Vec<HirToken> {
    let mut tokens = Vec::with_capacity(text.len() / 3 + 1);
    let mut at = 0;
    let mut starts_line = true;
    loop {
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { break };
        if first.is_whitespace() {
            starts_line |= first == '\n';
            at += first.len_utf8();
            continue;
        }
        if first == ';' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (kind, len) = token(rest, first);
        tokens.push(HirToken { kind, start: at as u32, end: (at + len) as u32, starts_line });
        starts_line = false;
        at += len;
    }
    tokens.push(HirToken { kind: TokenKind::End, start: text.len() as u32, end: text.len() as u32, starts_line: true });
    tokens
}

fn token(rest: &str, first: char) -> (TokenKind, usize) {
    let second = rest[first.len_utf8()..].chars().next();
    match first {
        '%' | '^' => {
            let len = 1 + prefix_len(&rest[1..], |c| c.is_alphanumeric() || c == '_');
            let kind = if first == '%' { TokenKind::Value } else { TokenKind::Label };
            (if len > 1 { kind } else { TokenKind::Unknown }, len)
        }
        '@' if second == Some('"') => {
            let (kind, len) = string(&rest[1..]);
            (if kind == TokenKind::Str { TokenKind::Func } else { kind }, len + 1)
        }
        '@' => {
            let len = 1 + prefix_len(&rest[1..], is_word_char);
            (if len > 1 { TokenKind::Func } else { TokenKind::Unknown }, len)
        }
        '"' => string(rest),
        _ if is_word_start(first) => (TokenKind::Word, prefix_len(rest, is_word_char)),
        _ if first.is_ascii_digit() => (TokenKind::Number, number_len(rest)),
        '-' if second.is_some_and(|c| c.is_ascii_digit()) => (TokenKind::Number, 1 + number_len(&rest[1..])),
        '-' if rest.starts_with("-inf") => (TokenKind::Number, "-inf".len()),
        _ => match MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            Some(mark) => (TokenKind::Mark(mark), mark.len()),
            None => (TokenKind::Unknown, first.len_utf8()),
        },
    }
}

fn prefix_len(text: &str, accept: impl Fn(char) -> bool) -> usize {
    text.find(|c| !accept(c)).unwrap_or(text.len())
}

/// Length of a number without its sign. A range's `..` is not part of it.
fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut len = 0;
    while let Some(&byte) = bytes.get(len) {
        let next_is_digit = bytes.get(len + 1).is_some_and(u8::is_ascii_digit);
        let takes = byte.is_ascii_alphanumeric()
            || (byte == b'.' && next_is_digit)
            || (matches!(byte, b'+' | b'-') && next_is_digit && matches!(bytes[len - 1], b'e' | b'E'));
        if !takes {
            break;
        }
        len += 1;
    }
    len
}

/// A string that starts with a quote: its kind and its length, quotes included. It ends on its own line.
fn string(text: &str) -> (TokenKind, usize) {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return (TokenKind::Unknown, at),
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return (TokenKind::Str, at + 1),
            _ => {}
        }
    }
    (TokenKind::Unknown, text.len())
}

/// The string that a [`TokenKind::Str`] token's text stands for; `None` if an escape is malformed.
pub(super) fn unquote(token: &str) -> Option<String> {
    let inner = token.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        text.push(match rest.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            '"' => '"',
            '\\' => '\\',
            'u' => {
                let digits = rest.as_str().strip_prefix('{')?.split_once('}')?.0;
                rest = rest.as_str()[digits.len() + 2..].chars();
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            _ => return None,
        });
    }
    Some(text)
}
