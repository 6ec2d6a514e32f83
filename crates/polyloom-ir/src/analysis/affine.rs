//! Integers that are sums of multiples and a constant: of a thread's coordinates, of what loops count, of extents, and of
//! what is computed otherwise.
//!
//! Which element of an array a thread accesses is mostly such a sum, and whether two threads come to the same one is
//! read off it. The sum is of numbers without bounds; the integer itself is that modulo two to the power of its bits.
//!
//! The analysis says what is multiplied: values of a function ([`AffineTerm`]), what a launch is given, or expressions
//! of it. How ops add up to sums is the same for all of them ([`AffineSum::of_op`]).

use crate::entity::Value;
use crate::function::{Function, Imm, ValueDef};
use crate::op::Op;
use smallvec::SmallVec;

/// Says how far back a value's computation is looked at.
const MAX_DEPTH: u32 = 8;
/// Most terms of a sum, so that comparing two takes no time: what would have more is a term itself.
const MAX_TERMS: usize = 8;
/// No factor and no offset is larger than this, so that what is computed with them does not overflow.
const MAX_FACTOR: i64 = 1 << 40;

/// Describes what is multiplied and added in a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AffineTerm {
    /// The thread's coordinate along an axis of the launch.
    Coordinate(u8),
    /// A value that is no sum.
    Value(Value),
}

/// A sum of multiples and a constant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AffineSum<Term = AffineTerm> {
    /// Terms and their factors, none of which is zero, in order and none twice.
    pub terms: SmallVec<[(Term, i64); 2]>,
    /// The constant.
    pub offset: i64,
}

impl<Term> Default for AffineSum<Term> {
    fn default() -> AffineSum<Term> {
        AffineSum { terms: SmallVec::new(), offset: 0 }
    }
}

impl<Term: Copy + Ord> AffineSum<Term> {
    /// One term alone.
    pub fn one(term: Term) -> AffineSum<Term> {
        AffineSum { terms: SmallVec::from_iter([(term, 1)]), offset: 0 }
    }

    /// A constant; `None` if it is too large.
    pub fn constant(number: i128) -> Option<AffineSum<Term>> {
        Some(AffineSum { terms: SmallVec::new(), offset: within(i64::try_from(number).ok()?)? })
    }

    /// The constant, if there are no terms.
    pub fn as_const(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.offset)
    }

    /// The one term that it is.
    pub fn as_term(&self) -> Option<Term> {
        match self.terms[..] {
            [(term, 1)] if self.offset == 0 => Some(term),
            _ => None,
        }
    }

    /// This and a multiple of another one; `None` if that has too many terms or too large numbers.
    pub fn plus(mut self, other: &AffineSum<Term>, times: i64) -> Option<AffineSum<Term>> {
        for &(term, factor) in &other.terms {
            self.add(term, factor.checked_mul(times)?)?;
        }
        self.offset = within(self.offset + within(other.offset.checked_mul(times)?)?)?;
        self.is_short().then_some(self)
    }

    /// The same sum of other terms, of which several may have become one; `None` if one of them is none.
    pub fn try_map<Other: Copy + Ord>(&self, other: impl Fn(Term) -> Option<Other>) -> Option<AffineSum<Other>> {
        let mut mapped = AffineSum { offset: self.offset, ..AffineSum::default() };
        self.terms.iter().try_for_each(|&(term, factor)| mapped.add(other(term)?, factor))?;
        mapped.is_short().then_some(mapped)
    }

    /// The result of an op of integers with this many bits, from its operands, if these and the op say that it is a sum.
    pub fn of_op(
        op: Op,
        bits: u32,
        mut operand: impl FnMut(usize) -> Option<AffineSum<Term>>,
    ) -> Option<AffineSum<Term>> {
        let zero = AffineSum::default();
        match op {
            Op::Add => operand(0)?.plus(&operand(1)?, 1),
            Op::Sub => operand(0)?.plus(&operand(1)?, -1),
            Op::Neg => zero.plus(&operand(0)?, -1),
            Op::Mul => {
                let (a, b) = (operand(0)?, operand(1)?);
                match (a.as_const(), b.as_const()) {
                    (_, Some(factor)) => zero.plus(&a, factor),
                    (Some(factor), _) => zero.plus(&b, factor),
                    _ => None,
                }
            }
            Op::Lshift => {
                let by = operand(1)?.as_const().filter(|by| (0..i64::from(bits)).contains(by) && *by < 40)?;
                zero.plus(&operand(0)?, 1 << by)
            }
            _ => None,
        }
    }

    /// Adds a multiple of a term.
    fn add(&mut self, term: Term, factor: i64) -> Option<()> {
        let factor = within(factor)?;
        match self.terms.binary_search_by_key(&term, |&(term, _)| term) {
            Ok(at) => self.terms[at].1 = within(self.terms[at].1 + factor)?,
            Err(at) => self.terms.insert(at, (term, factor)),
        }
        self.terms.retain(|(_, factor)| *factor != 0);
        Some(())
    }

    fn is_short(&self) -> bool {
        self.terms.len() <= MAX_TERMS
    }
}

impl AffineSum {
    /// An integer as a sum; as one of itself alone if nothing else is known.
    pub fn of(func: &Function, value: Value) -> AffineSum {
        of(func, value, MAX_DEPTH)
    }

    /// A multiple of one coordinate: its axis, the factor, and the rest of the sum.
    pub fn along_one_axis(&self) -> Option<(u8, i64, AffineSum)> {
        let mut rest = self.clone();
        let &(term, factor) = self.terms.iter().find(|(term, _)| matches!(term, AffineTerm::Coordinate(_)))?;
        let AffineTerm::Coordinate(axis) = term else { return None };
        rest.terms.retain(|(other, _)| *other != term);
        let is_alone = rest.terms.iter().all(|(other, _)| matches!(other, AffineTerm::Value(_)));
        is_alone.then_some((axis, factor, rest))
    }

    /// Returns how far it is from the coordinate along an axis, if that is constant.
    pub fn distance(&self, axis: u8) -> Option<i64> {
        (self.terms[..] == [(AffineTerm::Coordinate(axis), 1)]).then_some(self.offset)
    }
}

fn within(number: i64) -> Option<i64> {
    (-MAX_FACTOR..=MAX_FACTOR).contains(&number).then_some(number)
}

fn of(func: &Function, value: Value, depth: u32) -> AffineSum {
    computed(func, value, depth).unwrap_or_else(|| AffineSum::one(AffineTerm::Value(value)))
}

fn computed(func: &Function, value: Value, depth: u32) -> Option<AffineSum> {
    let ty = func.ty(value).as_scalar().filter(|ty| ty.is_int() && ty.bits() >= 32)?;
    if let Some(bits) = func.as_const(value) {
        let shift = 128 - ty.bits();
        return AffineSum::constant((i128::from(bits) << shift) >> shift);
    }
    let ValueDef::Result(inst, _) = func.values[value].def else { return None };
    let data = &func.insts[inst];
    let operand = |number: usize| match depth {
        0 => AffineSum::one(AffineTerm::Value(data.operands[number])),
        _ => of(func, data.operands[number], depth - 1),
    };
    match (data.op, &data.imm) {
        (Op::Tid, &Imm::Axis(axis)) => Some(AffineSum::one(AffineTerm::Coordinate(axis))),
        // A coordinate is never negative, and no wider type changes it.
        (Op::Cast, _) => Some(operand(0)).filter(|from| matches!(from.as_term(), Some(AffineTerm::Coordinate(_)))),
        (op, _) => AffineSum::of_op(op, ty.bits(), |number| Some(operand(number))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, parse_module};

    /// Returns what the index of the first load in a kernel is.
    fn index(body: &str) -> (AffineSum, Function) {
        let text = format!(
            "kernel @k(%x x: array<f32, 1>, %n n: i32) {{\n%i: i32 = tid 0\n{body}\n%v: f32 = array_load %x, %j\nreturn\n}}"
        );
        let module = parse_module(&text, FileId::from_u32(0)).expect("the text is HIR");
        let func = module.functions[module.find("k").expect("it has a kernel `k`")].clone();
        let mut found = None;
        func.walk(func.body, &mut |_, data| {
            if data.op == Op::ArrayLoad {
                found = Some(AffineSum::of(&func, data.operands[1]));
            }
        });
        (found.expect("it has a load"), func)
    }

    #[test]
    fn sums_of_multiples_are_collected() {
        let (sum, _) = index(
            "%c5: i32 = const 5\n%c3: i32 = const 3\n%a: i32 = mul %c5, %i\n%b: i32 = sub %a, %c3\n%j: i32 = sub %b, %i",
        );
        assert_eq!((&sum.terms[..], sum.offset), (&[(AffineTerm::Coordinate(0), 4)][..], -3));
        let (sum, func) = index("%c1: i32 = const 1\n%a: i32 = sub %n, %c1\n%j: i32 = sub %a, %i");
        let (axis, factor, rest) = sum.along_one_axis().expect("it has one coordinate");
        assert_eq!((axis, factor, rest.offset), (0, -1, -1));
        assert_eq!(rest.terms[..], [(AffineTerm::Value(func.params()[1]), 1)]);
    }

    #[test]
    fn distances_are_of_the_coordinate_itself() {
        let (sum, _) = index("%c7: i32 = const 7\n%j: i32 = add %c7, %i");
        assert_eq!((sum.distance(0), sum.distance(1)), (Some(7), None));
        let (sum, _) = index("%c1: i32 = const 1\n%j: i32 = lshift %i, %c1");
        assert_eq!((sum.distance(0), sum.along_one_axis().map(|(_, factor, _)| factor)), (None, Some(2)));
    }

    #[test]
    fn what_is_no_sum_is_a_term() {
        let (sum, _) = index("%j: i32 = mul %i, %n");
        assert!(matches!(sum.terms[..], [(AffineTerm::Value(_), 1)]));
        assert_eq!(sum.along_one_axis(), None);
        let (sum, _) = index("%z: i32 = sub %i, %i\n%c2: i32 = const 2\n%j: i32 = add %z, %c2");
        assert_eq!(sum.as_const(), Some(2));
    }
}
