//! Values in `; run:` lines: reading, comparing, showing.

use polyloom_ir::generate::is_nan;
use polyloom_ir::text::{TypedConstant, parse_constant};
use polyloom_ir::{Scalar, Type};
use std::fmt;

/// A scalar or an array, with the bits of its elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TestValue {
    /// A scalar.
    Scalar(Scalar, u64),
    /// A dense row-major array: element type, extents, elements.
    Array(Scalar, Vec<usize>, Vec<u64>),
}

impl fmt::Display for TestValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestValue::Scalar(ty, bits) => TypedConstant(Some(*ty), *bits).fmt(f),
            TestValue::Array(elem, extents, bits) => f.write_str(&show(*elem, extents, bits)),
        }
    }
}

fn show(elem: Scalar, extents: &[usize], bits: &[u64]) -> String {
    let parts: Vec<String> = match extents {
        [_, inner @ ..] if !inner.is_empty() => {
            let n_inner: usize = inner.iter().product();
            bits.chunks(n_inner.max(1)).map(|chunk| show(elem, inner, chunk)).collect()
        }
        _ => bits.iter().map(|&bits| TypedConstant(Some(elem), bits).to_string()).collect(),
    };
    format!("[{}]", parts.join(", "))
}

/// Returns true if a value is the expected one. A NaN equals any NaN.
pub(super) fn matches_value(expected: &TestValue, found: &TestValue) -> bool {
    match (expected, found) {
        (TestValue::Scalar(ty, a), TestValue::Scalar(_, b)) => same(*ty, *a, *b),
        (TestValue::Array(elem, extents, a), TestValue::Array(_, found_extents, b)) => {
            extents == found_extents && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(*elem, *a, *b))
        }
        _ => false,
    }
}

/// Returns true if two scalars of a type are the same bits, or both NaN.
fn same(ty: Scalar, a: u64, b: u64) -> bool {
    a == b || (is_nan(ty, a) && is_nan(ty, b))
}

/// Reads a `; run:` line from left to right.
pub(super) struct ValueReader<'t> {
    rest: &'t str,
}

impl<'t> ValueReader<'t> {
    pub(super) fn new(text: &'t str) -> ValueReader<'t> {
        ValueReader { rest: text.trim() }
    }

    /// Returns what has not been read.
    pub(super) fn rest(&self) -> &'t str {
        self.rest.trim()
    }

    pub(super) fn eat(&mut self, mark: &str) -> bool {
        let after = self.rest.trim_start().strip_prefix(mark);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    pub(super) fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.eat(mark) { Ok(()) } else { Err(format!("expected `{mark}` at `{}`", self.rest)) }
    }

    /// The text up to the next mark or blank.
    fn word(&mut self) -> &'t str {
        let rest = self.rest.trim_start();
        let (word, after) = rest.split_at(rest.find([',', '(', ')', '[', ']', ' ']).unwrap_or(rest.len()));
        self.rest = after;
        word
    }

    pub(super) fn function_name(&mut self) -> Result<String, String> {
        self.expect("@")?;
        Ok(self.word().to_owned())
    }

    pub(super) fn number(&mut self) -> Result<u64, String> {
        let word = self.word();
        word.parse().map_err(|_| format!("`{word}` is not a number"))
    }

    /// A string in double quotes with Rust's short escapes.
    pub(super) fn string(&mut self) -> Result<String, String> {
        self.expect("\"")?;
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, c)) => text.push(c),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err("a string is not closed".to_owned())
    }

    /// Items between commas up to a closing mark; the opening mark has been read.
    pub(super) fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut ValueReader<'t>) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut list = Vec::new();
        while !self.eat(close) {
            if !list.is_empty() {
                self.expect(",")?;
            }
            list.push(item(self)?);
        }
        Ok(list)
    }

    /// A value of a type: a constant, or an array as lists in lists.
    pub(super) fn value(&mut self, ty: Type) -> Result<TestValue, String> {
        match ty {
            Type::Scalar(ty) => Ok(TestValue::Scalar(ty, self.constant(ty)?)),
            Type::Array { elem, ndim, .. } => {
                let mut extents = vec![0; ndim.into()];
                let mut elements = Vec::new();
                self.nested(elem, &mut extents, &mut elements)?;
                if elements.len() != extents.iter().product::<usize>() {
                    return Err("the lists of an array differ in length".to_owned());
                }
                Ok(TestValue::Array(elem, extents, elements))
            }
            Type::Composite(_) | Type::CompositeArray { .. } => {
                Err(format!("{ty} has no values: functions are scalarised before they run"))
            }
        }
    }

    fn nested(&mut self, elem: Scalar, extents: &mut [usize], elements: &mut Vec<u64>) -> Result<(), String> {
        let Some((extent, inner)) = extents.split_first_mut() else {
            elements.push(self.constant(elem)?);
            return Ok(());
        };
        self.expect("[")?;
        *extent = self.list("]", |reader| reader.nested(elem, inner, elements))?.len();
        Ok(())
    }

    fn constant(&mut self, ty: Scalar) -> Result<u64, String> {
        let word = self.word();
        let bits = parse_constant(ty, word).filter(|bits| ty.bits() == 64 || bits >> ty.bits() == 0);
        bits.ok_or_else(|| format!("`{word}` is not a constant of type {ty}"))
    }
}
