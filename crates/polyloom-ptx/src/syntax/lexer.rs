//! Tokens of PTX text (PTX ISA 9.0 §4.3 to §4.5).

use super::ast::FloatLiteral;
use crate::error::{PtxError, TextPosition};
use std::num::IntErrorKind;

/// Describes what a token is; texts are slices of the input.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum PtxTokenKind<'a> {
    /// A name: `%r1`, `$L__BB0_1`, `add`.
    Name(&'a str),
    /// A dot and a word: `.f32`, `.shared::cta`; the text has no dot.
    Word(&'a str),
    /// An integer literal, as bits of 64, and whether it says that it is unsigned. `WARP_SZ` is one.
    Integer { value: u64, unsigned: bool },
    /// A floating-point literal.
    Float(FloatLiteral),
    /// A string literal's text between the quotes, escapes as written (see `unescaped`).
    Text(&'a str),
    /// One character of punctuation.
    Mark(char),
    /// An operator of two characters, which the token's text says.
    Operator,
    /// The end of the text.
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PtxToken<'a> {
    pub(super) kind: PtxTokenKind<'a>,
    pub(super) position: TextPosition,
    /// The text as written.
    pub(super) text: &'a str,
}

/// All tokens of `text`, `End` last. What is no token is an error and skipped.
pub(super) fn tokens<'a>(text: &'a str, errors: &mut Vec<PtxError>) -> Vec<PtxToken<'a>> {
    let mut lexer = PtxLexer { text, at: 0, line: 1, line_start: 0 };
    let mut all = Vec::with_capacity(text.len() / 4);
    loop {
        lexer.skip_blank(errors);
        let position = lexer.position();
        let start = lexer.at;
        let Some(first) = text[start..].chars().next() else {
            all.push(PtxToken { kind: PtxTokenKind::End, position, text: "" });
            return all;
        };
        match lexer.token(first) {
            Ok(kind) => all.push(PtxToken { kind, position, text: &text[start..lexer.at] }),
            Err(message) => {
                if errors.len() < super::MAX_ERRORS {
                    errors.push(PtxError::new(position, message));
                }
                if lexer.at == start {
                    lexer.at += first.len_utf8();
                }
            }
        }
    }
}

/// Returns what a string literal says. Compilers escape names of files as C does; what C has no escape for stays as it
/// is.
pub(super) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        let digits = |radix, from: &[u8], most| {
            let length = from.iter().take(most).take_while(|c| char::from(**c).is_digit(radix)).count();
            let value =
                std::str::from_utf8(&from[..length]).ok().and_then(|text| u32::from_str_radix(text, radix).ok());
            value.map(|value| (value as u8, length))
        };
        let escape = match tail.first().filter(|_| first == b'\\') {
            Some(b'0'..=b'7') => digits(8, tail, 3),
            Some(b'x') => digits(16, &tail[1..], 2).map(|(value, length)| (value, length + 1)),
            Some(&c) => {
                let position = b"abfnrtv\\\"'?".iter().position(|each| *each == c);
                position.map(|index| (b"\x07\x08\x0c\n\r\t\x0b\\\"'?"[index], 1))
            }
            None => None,
        };
        let (byte, length) = escape.unwrap_or((first, 0));
        bytes.push(byte);
        rest = &rest[length..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

struct PtxLexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

/// Holds what every warp's width is called.
const WARP_SIZE: &str = "WARP_SZ";

fn in_name(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'$'
}

impl<'a> PtxLexer<'a> {
    fn position(&self) -> TextPosition {
        let column = u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX);
        TextPosition { line: self.line, column }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn skip_blank(&mut self, errors: &mut Vec<PtxError>) {
        while let Some(&c) = self.rest().first() {
            if c == b'\n' {
                self.at += 1;
                self.line += 1;
                self.line_start = self.at;
            } else if c.is_ascii_whitespace() || c == 0 {
                self.at += 1;
            } else if self.rest().starts_with(b"//") {
                self.at += self.rest().iter().position(|&c| c == b'\n').unwrap_or(self.rest().len());
            } else if c == b'#' && self.is_line_directive() {
                self.at += self.rest().iter().position(|&c| c == b'\n').unwrap_or(self.rest().len());
            } else if self.rest().starts_with(b"/*") {
                let position = self.position();
                match self.text[self.at + 2..].find("*/") {
                    Some(length) => self.skip_lines(length + 4),
                    None => {
                        errors.push(PtxError::new(position, "this comment has no end"));
                        self.skip_lines(self.rest().len());
                    }
                }
            } else {
                return;
            }
        }
    }

    /// Returns true if `#line 5 "file.cu"` or `# 5 "file.cu"` begins here, as preprocessors write.
    fn is_line_directive(&self) -> bool {
        let line = self.text[self.at + 1..].lines().next().unwrap_or_default();
        let (number, file) =
            line.strip_prefix("line").unwrap_or(line).trim_start().split_once([' ', '\t']).unwrap_or_default();
        number.parse::<u32>().is_ok() && file.trim_start().starts_with('"')
    }

    fn skip_lines(&mut self, length: usize) {
        let end = self.at + length;
        while self.at < end {
            if self.text.as_bytes()[self.at] == b'\n' {
                self.line += 1;
                self.line_start = self.at + 1;
            }
            self.at += 1;
        }
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        let length = self.rest().iter().position(|&c| !keep(c)).unwrap_or(self.rest().len());
        let text = &self.text[self.at..self.at + length];
        self.at += length;
        text
    }

    fn token(&mut self, first: char) -> Result<PtxTokenKind<'a>, String> {
        let start = self.at;
        let second = self.rest().get(1).copied().unwrap_or(0);
        match first {
            '0'..='9' => self.number(),
            '.' if self.begins_fraction() => self.decimal(),
            '.' if in_name(second) => {
                self.at += 1;
                self.take_while(in_name);
                while self.rest().starts_with(b"::") && self.rest().get(2).is_some_and(|&c| in_name(c)) {
                    self.at += 2;
                    self.take_while(in_name);
                }
                Ok(PtxTokenKind::Word(&self.text[start + 1..self.at]))
            }
            'a'..='z' | 'A'..='Z' | '_' | '$' => Ok(match self.take_while(in_name) {
                WARP_SIZE => PtxTokenKind::Integer { value: 32, unsigned: false },
                name => PtxTokenKind::Name(name),
            }),
            '%' if in_name(second) => {
                self.at += 1;
                self.take_while(in_name);
                Ok(PtxTokenKind::Name(&self.text[start..self.at]))
            }
            '"' => {
                self.at += 1;
                let mut escaped = false;
                let bytes = self.rest();
                for (index, &c) in bytes.iter().enumerate() {
                    match c {
                        b'\n' => break,
                        b'"' if !escaped => {
                            self.at += index + 1;
                            return Ok(PtxTokenKind::Text(&self.text[start + 1..self.at - 1]));
                        }
                        _ => escaped = c == b'\\' && !escaped,
                    }
                }
                Err("this string has no closing quote on its line".to_owned())
            }
            '<' | '>' | '&' | '|' if second == first as u8 => {
                self.at += 2;
                Ok(PtxTokenKind::Operator)
            }
            '<' | '>' | '=' | '!' if second == b'=' => {
                self.at += 2;
                Ok(PtxTokenKind::Operator)
            }
            ',' | ';' | ':' | '{' | '}' | '[' | ']' | '(' | ')' | '<' | '>' | '|' | '!' | '+' | '-' | '*' | '/'
            | '%' | '&' | '^' | '~' | '=' | '@' | '?' => {
                self.at += 1;
                Ok(PtxTokenKind::Mark(first))
            }
            _ => Err(format!("`{}` begins no token of PTX", first.escape_default())),
        }
    }

    /// Returns true if a number such as `.5` or `.5e1` begins here, rather than a word such as `.1d`.
    fn begins_fraction(&self) -> bool {
        let digits = self.rest()[1..].iter().take_while(|c| c.is_ascii_digit()).count();
        let rest = &self.rest()[1 + digits..];
        digits > 0 && (!rest.first().is_some_and(|&c| in_name(c)) || begins_exponent(rest))
    }

    fn number(&mut self) -> Result<PtxTokenKind<'a>, String> {
        let start = self.at;
        let prefix = self.rest().get(1).map(u8::to_ascii_lowercase);
        let radix = match (self.rest()[0], prefix) {
            (b'0', Some(b'f' | b'd')) => {
                self.at += 2;
                let digits = self.take_while(in_name);
                let single = (prefix == Some(b'f') && digits.len() == 8).then(|| u32::from_str_radix(digits, 16));
                let double = (prefix == Some(b'd') && digits.len() == 16).then(|| u64::from_str_radix(digits, 16));
                return match (single, double) {
                    (Some(Ok(bits)), _) => Ok(PtxTokenKind::Float(FloatLiteral::Single(bits))),
                    (_, Some(Ok(bits))) => Ok(PtxTokenKind::Float(FloatLiteral::Double(bits))),
                    _ => Err(format!("`{}` is no number", &self.text[start..self.at])),
                };
            }
            (b'0', Some(b'x')) => 16,
            (b'0', Some(b'b')) => 2,
            _ => {
                let digits = self.rest().iter().take_while(|c| c.is_ascii_digit()).count();
                let rest = &self.rest()[digits..];
                let fraction = rest.first() == Some(&b'.') && !rest.get(1).is_some_and(u8::is_ascii_alphabetic);
                if fraction || begins_exponent(rest) || rest.first() == Some(&b'.') && begins_exponent(&rest[1..]) {
                    return self.decimal();
                }
                if digits > 1 && self.rest()[0] == b'0' { 8 } else { 10 }
            }
        };
        self.at += if matches!(radix, 2 | 16) { 2 } else { 0 };
        let written = self.take_while(in_name);
        let digits = written.strip_suffix('U').unwrap_or(written);
        let fail = |what: &str| format!("`{}` {what}", &self.text[start..self.at]);
        match u64::from_str_radix(digits, radix) {
            Ok(value) => Ok(PtxTokenKind::Integer { value, unsigned: digits.len() < written.len() }),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(fail("does not fit 64 bits")),
            Err(_) if radix == 8 && digits.bytes().all(|c| c.is_ascii_digit()) => {
                Err(fail("is no octal number, as which a first `0` marks it"))
            }
            Err(_) => Err(fail("is no number")),
        }
    }

    /// A number with a fraction or an exponent.
    fn decimal(&mut self) -> Result<PtxTokenKind<'a>, String> {
        let start = self.at;
        self.take_while(|c| c.is_ascii_digit() || c == b'.');
        if matches!(self.rest().first(), Some(b'e' | b'E')) {
            self.at += if matches!(self.rest().get(1), Some(b'+' | b'-')) { 2 } else { 1 };
        }
        self.take_while(in_name);
        let text = &self.text[start..self.at];
        let value: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
        Ok(PtxTokenKind::Float(FloatLiteral::Double(value.to_bits())))
    }
}

/// Returns true if `rest` begins with `e5`, `e+5` or `e-5`.
fn begins_exponent(rest: &[u8]) -> bool {
    let sign = usize::from(matches!(rest.get(1), Some(b'+' | b'-')));
    matches!(rest.first(), Some(b'e' | b'E')) && rest.get(1 + sign).is_some_and(u8::is_ascii_digit)
}
