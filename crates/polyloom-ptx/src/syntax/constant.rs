//! Constant expressions (PTX ISA 9.0 §4.5.4 to §4.5.6): C's operators and precedence over 64-bit integers, signed and
//! not, and over doubles. What the ISA leaves open is as ptxas has it: amounts of shifts count modulo 64, and a
//! conditional has the type of the branch that is taken.

use super::ast::FloatLiteral;
use super::lexer::PtxTokenKind;
use super::parser::{Parse, PtxParser};
use crate::error::PtxError;
use std::cmp::Ordering;

/// The value of a constant expression.
pub(super) enum ConstantValue {
    /// Bits of 64.
    Integer(u64),
    Float(FloatLiteral),
}

/// The value of a part of one, which has a type.
#[derive(Clone, Copy, PartialEq, Debug)]
enum PartialConstant {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
    /// `0f…`, which no operator takes.
    Single(u32),
}

use PartialConstant::{Double, Signed, Single, Unsigned};

impl PartialConstant {
    /// An integer literal: signed, unless it says otherwise or does not fit.
    fn literal(value: u64, unsigned: bool) -> PartialConstant {
        match i64::try_from(value) {
            Ok(value) if !unsigned => Signed(value),
            _ => Unsigned(value),
        }
    }

    fn truth(holds: bool) -> PartialConstant {
        Signed(holds.into())
    }

    /// The bits of an integer.
    fn bits(self) -> Option<u64> {
        match self {
            Signed(value) => Some(value as u64),
            Unsigned(value) => Some(value),
            Double(_) | Single(_) => None,
        }
    }
}

/// Returns how tightly a binary operator binds.
fn level(operator: &str) -> Option<u32> {
    Some(match operator {
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" => 6,
        "<" | "<=" | ">" | ">=" => 7,
        "<<" | ">>" => 8,
        "+" | "-" => 9,
        "*" | "/" | "%" => 10,
        _ => return None,
    })
}

/// Returns what a relation says of two values.
fn holds(operator: &str, order: Option<Ordering>) -> Option<bool> {
    Some(match operator {
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        "<" => order.is_some_and(Ordering::is_lt),
        "<=" => order.is_some_and(Ordering::is_le),
        ">" => order.is_some_and(Ordering::is_gt),
        ">=" => order.is_some_and(Ordering::is_ge),
        _ => return None,
    })
}

fn unary(operator: char, a: PartialConstant) -> Result<PartialConstant, String> {
    match (operator, a, a.bits()) {
        (_, Single(_), _) => Err(format!("`0f…` stands alone, not after `{operator}`")),
        ('+', _, _) => Ok(a),
        ('-', Signed(a), _) => Ok(Signed(a.wrapping_neg())),
        ('-', Unsigned(a), _) => Ok(Unsigned(a.wrapping_neg())),
        ('-', Double(a), _) => Ok(Double(-a)),
        ('~', _, Some(bits)) => Ok(Unsigned(!bits)),
        ('!', _, Some(bits)) => Ok(PartialConstant::truth(bits == 0)),
        _ => Err(format!("`{operator}` takes an integer")),
    }
}

fn binary(operator: &str, a: PartialConstant, b: PartialConstant) -> Result<PartialConstant, String> {
    if let (Double(a), Double(b)) = (a, b) {
        return floats(operator, a, b);
    }
    let (Some(x), Some(y)) = (a.bits(), b.bits()) else {
        return Err(format!("`{operator}` takes two integers or two floating-point numbers, and no `0f…`"));
    };
    let both_signed = matches!((a, b), (Signed(_), Signed(_)));
    let order = if both_signed { (x as i64).cmp(&(y as i64)) } else { x.cmp(&y) };
    if let Some(holds) = holds(operator, Some(order)) {
        return Ok(PartialConstant::truth(holds));
    }
    let divided = || "division by zero in a constant".to_owned();
    let result = match operator {
        "&&" => return Ok(PartialConstant::truth(x != 0 && y != 0)),
        "||" => return Ok(PartialConstant::truth(x != 0 || y != 0)),
        // The right operand has no say in the type.
        "<<" | ">>" => {
            let left = operator == "<<";
            return Ok(match a {
                Signed(a) => Signed(if left { a.wrapping_shl(y as u32) } else { a.wrapping_shr(y as u32) }),
                _ => Unsigned(if left { x.wrapping_shl(y as u32) } else { x.wrapping_shr(y as u32) }),
            });
        }
        "%" => return x.checked_rem(y).map(Unsigned).ok_or_else(divided),
        "|" => x | y,
        "^" => x ^ y,
        "&" => x & y,
        "+" => x.wrapping_add(y),
        "-" => x.wrapping_sub(y),
        "*" => x.wrapping_mul(y),
        _ if y == 0 => return Err(divided()),
        _ if both_signed => (x as i64).wrapping_div(y as i64) as u64,
        _ => x / y,
    };
    Ok(if both_signed { Signed(result as i64) } else { Unsigned(result) })
}

fn floats(operator: &str, a: f64, b: f64) -> Result<PartialConstant, String> {
    if let Some(holds) = holds(operator, a.partial_cmp(&b)) {
        return Ok(PartialConstant::truth(holds));
    }
    match operator {
        "+" => Ok(Double(a + b)),
        "-" => Ok(Double(a - b)),
        "*" => Ok(Double(a * b)),
        "/" if b == 0.0 => Err("division by zero in a constant".to_owned()),
        "/" => Ok(Double(a / b)),
        _ => Err(format!("`{operator}` takes two integers")),
    }
}

impl PtxParser<'_> {
    /// A constant expression.
    pub(super) fn number(&mut self) -> Parse<ConstantValue> {
        Ok(match self.expression()? {
            Signed(value) => ConstantValue::Integer(value as u64),
            Unsigned(value) => ConstantValue::Integer(value),
            Double(value) => ConstantValue::Float(FloatLiteral::Double(value.to_bits())),
            Single(bits) => ConstantValue::Float(FloatLiteral::Single(bits)),
        })
    }

    /// One whose value is an integer.
    pub(super) fn constant(&mut self) -> Parse<u64> {
        let position = self.position();
        match self.number()? {
            ConstantValue::Integer(value) => Ok(value),
            ConstantValue::Float(_) => {
                Err(PtxError::new(position, "expected an integer, found a floating-point number"))
            }
        }
    }

    fn expression(&mut self) -> Parse<PartialConstant> {
        let position = self.position();
        let condition = self.binary(1)?;
        if !self.eat('?') {
            return Ok(condition);
        }
        let then = self.nested(Self::expression)?;
        self.expect(':')?;
        let otherwise = self.nested(Self::expression)?;
        match (condition.bits(), then.bits(), otherwise.bits()) {
            (Some(0), Some(_), Some(_)) => Ok(otherwise),
            (Some(_), Some(_), Some(_)) => Ok(then),
            _ => Err(PtxError::new(position, "`?` takes integers, before it and on both sides of `:`")),
        }
    }

    /// Operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u32) -> Parse<PartialConstant> {
        let mut left = self.unary()?;
        while let PtxTokenKind::Mark(_) | PtxTokenKind::Operator = self.peek() {
            let position = self.position();
            let operator = self.peek_text();
            let Some(level) = level(operator).filter(|level| *level >= least) else { break };
            self.next();
            let right = self.binary(level + 1)?;
            left = binary(operator, left, right).map_err(|message| PtxError::new(position, message))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parse<PartialConstant> {
        let position = self.position();
        match self.peek() {
            PtxTokenKind::Integer { value, unsigned } => {
                self.next();
                Ok(PartialConstant::literal(value, unsigned))
            }
            PtxTokenKind::Float(value) => {
                self.next();
                Ok(match value {
                    FloatLiteral::Single(bits) => Single(bits),
                    FloatLiteral::Double(bits) => Double(f64::from_bits(bits)),
                })
            }
            PtxTokenKind::Mark(mark @ ('-' | '+' | '~' | '!')) => {
                self.next();
                let value = self.nested(Self::unary)?;
                unary(mark, value).map_err(|message| PtxError::new(position, message))
            }
            PtxTokenKind::Mark('(') => {
                self.next();
                let PtxTokenKind::Word(ty @ ("u64" | "s64")) = self.peek() else {
                    let value = self.nested(Self::expression)?;
                    self.expect(')')?;
                    return Ok(value);
                };
                self.next();
                self.expect(')')?;
                let value = self.nested(Self::unary)?.bits();
                let Some(bits) = value else {
                    return Err(PtxError::new(position, format!("`(.{ty})` takes an integer")));
                };
                Ok(if ty == "s64" { Signed(bits as i64) } else { Unsigned(bits) })
            }
            _ => self.fail("an integer"),
        }
    }
}
