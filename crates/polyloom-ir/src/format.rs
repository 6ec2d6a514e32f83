//! The text that `print` makes: C format strings over typed values.
//!
//! Conversions are those of C's `printf` without the argument-width letters, which are accepted and ignored because
//! values carry their types. Nothing is undefined: a number that a conversion is not made for is converted first
//! (`%d` of a float truncates, `%f` of an integer does what one expects), a conversion without a value left prints
//! itself, and values left over are not printed. `%s` prints any value as Python's `print` would.

use crate::eval::eval;
use crate::op::Op;
use crate::types::{Scalar, Type};
use std::fmt::Write;

/// The most characters a width or precision may ask for; more counts as this.
pub const MAX_WIDTH: usize = 1024;

/// A part of a format string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatPiece<'a> {
    /// Text that stands for itself, `%%` included as `%`.
    Text(&'a str),
    /// A value's place.
    Conversion(FormatConversion<'a>),
    /// Something that begins with `%` and is no conversion. It prints as it is.
    Malformed(&'a str),
}

/// Describes how a value is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FormatConversion<'a> {
    /// As written.
    pub text: &'a str,
    /// The letter: one of `d i u x X o c f F e E g G s`.
    pub letter: char,
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

/// The parts of a format string in order.
///
/// ```
/// use polyloom_ir::format::{FormatPiece, pieces};
///
/// let letters: Vec<char> = pieces("%5.2f of %d%%\n")
///     .filter_map(|piece| if let FormatPiece::Conversion(c) = piece { Some(c.letter) } else { None })
///     .collect();
/// assert_eq!(letters, ['f', 'd']);
/// ```
pub fn pieces(format: &str) -> impl Iterator<Item = FormatPiece<'_>> {
    let mut rest = format;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, length) = match rest.find('%') {
            Some(0) => directive(rest),
            Some(length) => (FormatPiece::Text(&rest[..length]), length),
            None => (FormatPiece::Text(rest), rest.len()),
        };
        rest = &rest[length..];
        Some(piece)
    })
}

/// The piece that begins with the `%` at the start of the text, and its length.
fn directive(text: &str) -> (FormatPiece<'_>, usize) {
    if text.starts_with("%%") {
        return (FormatPiece::Text(&text[..1]), 2);
    }
    let mut conversion = FormatConversion {
        text: "",
        letter: ' ',
        left: false,
        plus: false,
        space: false,
        alternate: false,
        zero: false,
        width: 0,
        precision: None,
    };
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some(&(_, c)) = chars.peek() {
        match c {
            '-' => conversion.left = true,
            '+' => conversion.plus = true,
            ' ' => conversion.space = true,
            '#' => conversion.alternate = true,
            '0' => conversion.zero = true,
            _ => break,
        }
        chars.next();
    }
    let number = |chars: &mut std::iter::Peekable<std::iter::Skip<std::str::CharIndices<'_>>>| {
        let mut value = 0;
        while let Some(digit) = chars.peek().and_then(|(_, c)| c.to_digit(10)) {
            value = (value * 10 + digit as usize).min(MAX_WIDTH);
            chars.next();
        }
        value
    };
    conversion.width = number(&mut chars);
    if chars.next_if(|(_, c)| *c == '.').is_some() {
        conversion.precision = Some(number(&mut chars));
    }
    while chars.next_if(|(_, c)| matches!(c, 'h' | 'l' | 'L' | 'q' | 'j' | 'z' | 't')).is_some() {}
    match chars.next() {
        Some((index, letter)) if "diuxXocfFeEgGs".contains(letter) => {
            let length = index + 1;
            (FormatPiece::Conversion(FormatConversion { text: &text[..length], letter, ..conversion }), length)
        }
        Some((index, letter)) => {
            let length = index + letter.len_utf8();
            (FormatPiece::Malformed(&text[..length]), length)
        }
        None => (FormatPiece::Malformed(text), text.len()),
    }
}

/// Renders values, given as zero-extended bits, by a C format.
///
/// ```
/// use polyloom_ir::{Type, format::format};
/// let text = format("%d of %4.1f%%\n", &[Type::I32, Type::F32], &[7, 12.25f32.to_bits().into()]);
/// assert_eq!(text, "7 of 12.2%\n");
/// ```
pub fn format(format: &str, types: &[Type], values: &[u64]) -> String {
    let mut text = String::new();
    format_into(&mut text, format, types, values);
    text
}

/// Works like [`format()`], appending to `out`.
pub fn format_into(out: &mut String, format: &str, types: &[Type], values: &[u64]) {
    let scalars = types.iter().map(|ty| ty.as_scalar().unwrap_or(Scalar::U64));
    let mut values = scalars.zip(values.iter().copied());
    for piece in pieces(format) {
        match piece {
            FormatPiece::Text(text) | FormatPiece::Malformed(text) => out.push_str(text),
            FormatPiece::Conversion(conversion) => match values.next() {
                Some((ty, bits)) => conversion.write(out, ty, bits),
                None => out.push_str(conversion.text),
            },
        }
    }
}

impl FormatConversion<'_> {
    fn write(&self, out: &mut String, ty: Scalar, bits: u64) {
        match self.letter {
            'd' | 'i' => {
                let value = match ty {
                    Scalar::U64 => bits.into(),
                    _ => i128::from(cast(bits, ty, Scalar::I64) as i64),
                };
                self.write_integer(out, value < 0, value.unsigned_abs().to_string(), "");
            }
            'u' | 'x' | 'X' | 'o' => {
                // A negative number is printed by its bits in the width of its type.
                let bits = match ty {
                    _ if ty.is_float() => cast(bits, ty, Scalar::U64),
                    _ => bits,
                };
                let (digits, prefix) = match self.letter {
                    'x' => (format!("{bits:x}"), "0x"),
                    'X' => (format!("{bits:X}"), "0X"),
                    'o' => (format!("{bits:o}"), "0"),
                    _ => (bits.to_string(), ""),
                };
                let prefix = if self.alternate && bits != 0 { prefix } else { "" };
                self.write_integer(out, false, digits, prefix);
            }
            'c' => {
                let c = char::from_u32(cast(bits, ty, Scalar::U32) as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
                self.pad(out, "", &c.to_string(), false);
            }
            's' => {
                self.write_text(out, &python_text(ty, bits));
            }
            _ => self.write_float(out, f64::from_bits(cast(bits, ty, Scalar::F64))),
        }
    }

    /// Writes what `%s` is given, as far as its precision lets it, in its width.
    pub fn write_text(&self, out: &mut String, text: &str) {
        let text = self.precision.and_then(|n| text.get(..n)).unwrap_or(text);
        self.pad(out, "", text, false);
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn write_integer(&self, out: &mut String, negative: bool, mut digits: String, prefix: &str) {
        if let Some(precision) = self.precision {
            if precision == 0 && digits == "0" {
                digits.clear();
            }
            digits.insert_str(0, &"0".repeat(precision.saturating_sub(digits.len())));
        }
        let sign = if matches!(self.letter, 'd' | 'i') { self.sign(negative) } else { "" };
        self.pad(out, &format!("{sign}{prefix}"), &digits, self.precision.is_none());
    }

    fn write_float(&self, out: &mut String, value: f64) {
        let sign = self.sign(value.is_sign_negative() && !value.is_nan());
        let magnitude = value.abs();
        let precision = self.precision.unwrap_or(6);
        let mut text = match self.letter.to_ascii_lowercase() {
            _ if value.is_nan() => "nan".to_owned(),
            _ if value.is_infinite() => "inf".to_owned(),
            'f' => self.fixed(magnitude, precision),
            'e' => self.scientific(magnitude, precision),
            _ => self.general(magnitude, precision.max(1)),
        };
        if self.letter.is_ascii_uppercase() {
            text.make_ascii_uppercase();
        }
        self.pad(out, sign, &text, value.is_finite());
    }

    fn fixed(&self, magnitude: f64, precision: usize) -> String {
        let mut text = format!("{magnitude:.precision$}");
        if self.alternate && precision == 0 {
            text.push('.');
        }
        text
    }

    fn scientific(&self, magnitude: f64, precision: usize) -> String {
        let text = format!("{magnitude:.precision$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let point = if self.alternate && precision == 0 { "." } else { "" };
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}{point}e{sign}{:02}", exponent.unsigned_abs())
    }

    /// C's `%g`: as `%e` or `%f`, whichever the exponent suits, to `precision` significant digits.
    fn general(&self, magnitude: f64, precision: usize) -> String {
        let scientific = self.scientific(magnitude, precision - 1);
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent_value: i64 = exponent.parse().unwrap_or(0);
        let without_zeros = |digits: &str| match digits.contains('.') && !self.alternate {
            true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => digits.to_owned(),
        };
        if exponent_value < -4 || exponent_value >= precision as i64 {
            return format!("{}e{exponent}", without_zeros(mantissa));
        }
        let n_decimals = precision as i64 - 1 - exponent_value;
        without_zeros(&self.fixed(magnitude, usize::try_from(n_decimals).unwrap_or(0)))
    }

    /// Fills to the width: with spaces, or with zeros between prefix and digits.
    fn pad(&self, out: &mut String, prefix: &str, body: &str, zeros_allowed: bool) {
        let length = prefix.chars().count() + body.chars().count();
        let fill = self.width.saturating_sub(length);
        let zeros = self.zero && zeros_allowed && !self.left;
        if !zeros && !self.left {
            out.extend(std::iter::repeat_n(' ', fill));
        }
        out.push_str(prefix);
        if zeros {
            out.extend(std::iter::repeat_n('0', fill));
        }
        out.push_str(body);
        if self.left {
            out.extend(std::iter::repeat_n(' ', fill));
        }
    }
}

fn cast(bits: u64, from: Scalar, to: Scalar) -> u64 {
    eval(Op::Cast, &[from.into()], &[bits], to.into()).unwrap_or(0)
}

/// A value as Python's `print` shows it: `True`, `-3`, `0.1`, `1e+20`. A float has as many digits as tell it from its
/// neighbours in its own type.
pub fn python_text(ty: Scalar, bits: u64) -> String {
    match ty {
        Scalar::Bool => if bits != 0 { "True" } else { "False" }.to_owned(),
        _ if ty.is_unsigned_int() => bits.to_string(),
        _ if ty.is_signed_int() => (cast(bits, ty, Scalar::I64) as i64).to_string(),
        Scalar::F64 => python_float(f64::from_bits(bits), &format!("{:e}", f64::from_bits(bits))),
        Scalar::F32 => python_float(f32::from_bits(bits as u32).into(), &format!("{:e}", f32::from_bits(bits as u32))),
        _ => {
            let value = f64::from_bits(cast(bits, ty, Scalar::F64));
            // The fewest digits that round back are taken, of at most five, because five tell all of the 16-bit floats
            // apart.
            let candidates = (0..5).map(|n| format!("{value:.n$e}"));
            let mut shortest = candidates.filter(|text| {
                let parsed: f64 = text.parse().unwrap_or(f64::NAN);
                cast(parsed.to_bits(), Scalar::F64, ty) == bits
            });
            python_float(value, &shortest.next().unwrap_or_else(|| format!("{value:e}")))
        }
    }
}

/// Lays out digits given as `d.ddde±x` the way Python does.
fn python_float(value: f64, scientific: &str) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    let mut text = sign.to_owned();
    if (-4..16).contains(&exponent) {
        let n_whole = usize::try_from(exponent + 1).unwrap_or(0);
        let zeros = "0".repeat(usize::try_from(-1 - exponent).unwrap_or(0));
        match digits.split_at_checked(n_whole) {
            Some(("", fraction)) => text.extend(["0.", &zeros, fraction]),
            Some((whole, "")) => text.extend([whole, ".0"]),
            Some((whole, fraction)) => text.extend([whole, ".", fraction]),
            None => text.extend([digits, &"0".repeat(n_whole - digits.len()), ".0"]),
        }
    } else {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a string does not fail.
        let _ = write!(text, "{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs());
    }
    text
}

#[cfg(test)]
mod tests;
