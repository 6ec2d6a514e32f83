//! Tokens of PTX text (PTX ISA 9.0 §4.3 to §4.5).

use super::ast::Float;
use crate::error::{Error, Position};

/// What a token is; texts are slices of the input.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind<'a> {
    /// A name: `%r1`, `$L__BB0_1`, `add`.
    Name(&'a str),
    /// A dot and a word: `.f32`, `.shared::cta`; the text has no dot.
    Word(&'a str),
    /// An integer literal, as bits of 64.
    Integer(u64),
    /// A floating-point literal.
    Float(Float),
    /// A string literal's text between the quotes, escapes as written.
    Text(&'a str),
    /// One character of punctuation.
    Mark(char),
    /// `<<` or `>>`.
    Shift(char),
    /// The end of the text.
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) position: Position,
    /// The text as written.
    pub(super) text: &'a str,
}

/// All tokens of `text`, `End` last. What is no token is an error and skipped.
pub(super) fn tokens<'a>(text: &'a str, errors: &mut Vec<Error>) -> Vec<Token<'a>> {
    let mut lexer = Lexer { text, at: 0, line: 1, line_start: 0 };
    let mut all = Vec::with_capacity(text.len() / 4);
    loop {
        lexer.skip_blank(errors);
        let position = lexer.position();
        let start = lexer.at;
        let Some(first) = text[start..].chars().next() else {
            all.push(Token { kind: Kind::End, position, text: "" });
            return all;
        };
        match lexer.token(first) {
            Ok(kind) => all.push(Token { kind, position, text: &text[start..lexer.at] }),
            Err(message) => {
                if errors.len() < super::MAX_ERRORS {
                    errors.push(Error::new(position, message));
                }
                if lexer.at == start {
                    lexer.at += first.len_utf8();
                }
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

fn in_name(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'$'
}

impl<'a> Lexer<'a> {
    fn position(&self) -> Position {
        let column = u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX);
        Position { line: self.line, column }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn skip_blank(&mut self, errors: &mut Vec<Error>) {
        while let Some(&c) = self.rest().first() {
            if c == b'\n' {
                self.at += 1;
                self.line += 1;
                self.line_start = self.at;
            } else if c.is_ascii_whitespace() || c == 0 {
                self.at += 1;
            } else if self.rest().starts_with(b"//") {
                self.at += self.rest().iter().position(|&c| c == b'\n').unwrap_or(self.rest().len());
            } else if self.rest().starts_with(b"/*") {
                let position = self.position();
                match self.text[self.at + 2..].find("*/") {
                    Some(length) => self.skip_lines(length + 4),
                    None => {
                        errors.push(Error::new(position, "this comment has no end"));
                        self.skip_lines(self.rest().len());
                    }
                }
            } else {
                return;
            }
        }
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

    fn token(&mut self, first: char) -> Result<Kind<'a>, String> {
        let start = self.at;
        let second = self.rest().get(1).copied().unwrap_or(0);
        match first {
            '0'..='9' => self.number(),
            '.' if in_name(second) => {
                self.at += 1;
                self.take_while(in_name);
                while self.rest().starts_with(b"::") && self.rest().get(2).is_some_and(|&c| in_name(c)) {
                    self.at += 2;
                    self.take_while(in_name);
                }
                Ok(Kind::Word(&self.text[start + 1..self.at]))
            }
            'a'..='z' | 'A'..='Z' | '_' | '$' => Ok(Kind::Name(self.take_while(in_name))),
            '%' if in_name(second) => {
                self.at += 1;
                self.take_while(in_name);
                Ok(Kind::Name(&self.text[start..self.at]))
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
                            return Ok(Kind::Text(&self.text[start + 1..self.at - 1]));
                        }
                        _ => escaped = c == b'\\' && !escaped,
                    }
                }
                Err("this string has no closing quote on its line".to_owned())
            }
            '<' | '>' if second == first as u8 => {
                self.at += 2;
                Ok(Kind::Shift(first))
            }
            ',' | ';' | ':' | '{' | '}' | '[' | ']' | '(' | ')' | '<' | '>' | '|' | '!' | '+' | '-' | '*' | '/'
            | '%' | '&' | '^' | '~' | '=' | '@' | '?' => {
                self.at += 1;
                Ok(Kind::Mark(first))
            }
            _ => Err(format!("`{}` begins no token of PTX", first.escape_default())),
        }
    }

    fn number(&mut self) -> Result<Kind<'a>, String> {
        let start = self.at;
        let prefix = self.rest().get(1).map(u8::to_ascii_lowercase);
        if self.rest()[0] == b'0' && matches!(prefix, Some(b'x' | b'b' | b'f' | b'd')) {
            self.at += 2;
            let digits = self.take_while(|c| c.is_ascii_alphanumeric());
            let fail = || format!("`{}` is no number", &self.text[start..self.at]);
            return match prefix {
                Some(b'f') if digits.len() == 8 => {
                    let bits = u32::from_str_radix(digits, 16).map_err(|_| fail())?;
                    Ok(Kind::Float(Float::Single(bits)))
                }
                Some(b'd') if digits.len() == 16 => {
                    let bits = u64::from_str_radix(digits, 16).map_err(|_| fail())?;
                    Ok(Kind::Float(Float::Double(bits)))
                }
                Some(b'x' | b'b') => {
                    let radix = if prefix == Some(b'x') { 16 } else { 2 };
                    let digits = digits.strip_suffix('U').unwrap_or(digits);
                    u64::from_str_radix(digits, radix).map(Kind::Integer).map_err(|_| fail())
                }
                _ => Err(fail()),
            };
        }
        let digits = self.take_while(|c| c.is_ascii_digit());
        let fraction = self.rest().first() == Some(&b'.') && !self.rest().get(1).is_some_and(u8::is_ascii_alphabetic);
        let exponent = matches!(self.rest().first(), Some(b'e' | b'E'));
        if fraction || exponent {
            if fraction {
                self.at += 1;
                self.take_while(|c| c.is_ascii_digit());
            }
            if matches!(self.rest().first(), Some(b'e' | b'E')) {
                self.at += 1;
                if matches!(self.rest().first(), Some(b'+' | b'-')) {
                    self.at += 1;
                }
                self.take_while(|c| c.is_ascii_digit());
            }
            let text = &self.text[start..self.at];
            let value: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
            return Ok(Kind::Float(Float::Double(value.to_bits())));
        }
        let octal = digits.len() > 1 && digits.starts_with('0');
        let value = u64::from_str_radix(digits, if octal { 8 } else { 10 });
        self.take_while(|c| c == b'U');
        let rest = self.take_while(in_name);
        match value {
            Ok(value) if rest.is_empty() => Ok(Kind::Integer(value)),
            Ok(_) => Err(format!("`{}` is no number", &self.text[start..self.at])),
            Err(_) => Err(format!("`{digits}` does not fit 64 bits")),
        }
    }
}
