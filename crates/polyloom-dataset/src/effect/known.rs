//! What is known of values: each has a number, the same for all that are equal by how they are made.

use crate::generate::Range;
use polyloom::{Imm, Op, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The number of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Id(u32);

/// How a value is made.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Origin {
    /// By an operation on others; it is the result of this index, and depends on memory as of this time.
    Op { op: Op, operands: SmallVec<[Id; 4]>, imm: Text, time: u32, result: u32 },
    /// Each term times a number, and a number, by their bits.
    Sum { terms: SmallVec<[(Id, u64); 4]>, constant: u64 },
    /// Nobody knows.
    Unknown(u32),
}

/// What an operation says beyond its operands.
pub(super) type Text = Option<Box<str>>;

pub(super) fn text(imm: &Imm) -> Text {
    (*imm != Imm::None).then(|| format!("{imm:?}").into())
}

/// Terms with the number each is multiplied by, in the order of their ids, and a number.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Sum {
    pub(super) terms: SmallVec<[(Id, f64); 4]>,
    pub(super) constant: f64,
}

impl Sum {
    pub(super) fn number(constant: f64) -> Sum {
        Sum { constant, ..Sum::default() }
    }

    /// Its number, if it has no terms.
    pub(super) fn as_number(&self) -> Option<f64> {
        self.terms.is_empty().then_some(self.constant)
    }

    pub(super) fn times(mut self, factor: f64) -> Sum {
        if factor == 0.0 {
            return Sum::default();
        }
        self.terms.iter_mut().for_each(|(_, times)| *times *= factor);
        self.constant *= factor;
        self
    }

    /// The sum of both, and whether a term of one takes away a term of the other.
    pub(super) fn plus(&self, other: &Sum) -> (Sum, bool) {
        let mut terms: SmallVec<[(Id, f64); 4]> = SmallVec::new();
        let mut cancels = false;
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            match (left.peek(), right.peek()) {
                (Some(&&(a, x)), Some(&&(b, y))) if a == b => {
                    cancels |= x + y == 0.0;
                    if x + y != 0.0 {
                        terms.push((a, x + y));
                    }
                    left.next();
                    right.next();
                }
                (Some(&&(a, _)), Some(&&(b, _))) if a < b => terms.extend(left.next().copied()),
                (_, Some(_)) => terms.extend(right.next().copied()),
                (_, None) => match left.next() {
                    Some(&term) => terms.push(term),
                    None => break,
                },
            }
        }
        (Sum { terms, constant: self.constant + other.constant }, cancels)
    }
}

/// Factors in the order of their ids.
pub(super) type Factors = SmallVec<[(Id, i32); 2]>;

/// What is known of a value by its number.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) origin: Origin,
    pub(super) sum: Sum,
    pub(super) range: Range,
    /// Of a vector, one that it is a multiple of.
    pub(super) direction: Id,
    /// Of a product its factors, each with how often it is one; those divided by are so less than no times.
    pub(super) factors: Factors,
}

/// The numbers of values.
#[derive(Default)]
pub(super) struct Table {
    ids: FxHashMap<Origin, Id>,
    known: Vec<Known>,
}

impl Table {
    pub(super) fn get(&self, id: Id) -> &Known {
        &self.known[id.0 as usize]
    }

    /// A value of which its range alone is known.
    pub(super) fn unknown(&mut self, range: Range) -> Id {
        let origin = Origin::Unknown(self.known.len() as u32);
        self.atom(origin, range, None)
    }

    pub(super) fn number(&mut self, number: f64) -> Id {
        self.sum(Sum::number(number), Range::of(number))
    }

    /// What an operation gives that is no sum.
    pub(super) fn atom(&mut self, origin: Origin, range: Range, direction: Option<Id>) -> Id {
        if let Some(&id) = self.ids.get(&origin) {
            return id;
        }
        let id = Id(self.known.len() as u32);
        let sum = Sum { terms: SmallVec::from_slice(&[(id, 1.0)]), constant: 0.0 };
        self.ids.insert(origin.clone(), id);
        let factors = SmallVec::from_slice(&[(id, 1)]);
        self.known.push(Known { origin, sum, range, direction: direction.unwrap_or(id), factors });
        id
    }

    /// A sum, within this range by what is known otherwise.
    pub(super) fn sum(&mut self, sum: Sum, range: Range) -> Id {
        if let ([(id, times)], 0.0) = (&sum.terms[..], sum.constant)
            && *times == 1.0
        {
            return *id;
        }
        let terms = sum.terms.iter().map(|&(id, times)| (id, times.to_bits())).collect();
        let origin = Origin::Sum { terms, constant: sum.constant.to_bits() };
        if let Some(&id) = self.ids.get(&origin) {
            return id;
        }
        let id = Id(self.known.len() as u32);
        let mut directions = sum.terms.iter().map(|&(term, _)| self.get(term).direction);
        let direction = match directions.next() {
            Some(first) if sum.constant == 0.0 && directions.all(|other| other == first) => first,
            _ => id,
        };
        self.ids.insert(origin.clone(), id);
        let factors = match &sum.terms[..] {
            [(term, _)] if sum.constant == 0.0 => self.get(*term).factors.clone(),
            _ => SmallVec::from_slice(&[(id, 1)]),
        };
        self.known.push(Known { origin, sum, range, direction, factors });
        id
    }

    /// The factors of a product of both, or of a quotient, and whether some of one take away those of the other.
    pub(super) fn product(&self, a: Id, b: Id, times: i32) -> (Factors, bool) {
        let (mut factors, mut cancels) = (self.get(a).factors.clone(), false);
        for &(factor, n) in &self.get(b).factors {
            match factors.binary_search_by_key(&factor, |&(id, _)| id) {
                Ok(at) => {
                    let all = factors[at].1 + n * times;
                    cancels |= all.abs() < factors[at].1.abs().max(n.abs());
                    factors[at].1 = all;
                }
                Err(at) => factors.insert(at, (factor, n * times)),
            }
        }
        factors.retain(|&mut (_, n)| n != 0);
        (factors, cancels)
    }

    pub(super) fn set_factors(&mut self, id: Id, factors: Factors) {
        self.known[id.0 as usize].factors = factors;
    }

    /// The numbers that a sum may be.
    pub(super) fn range_of(&self, sum: &Sum) -> Range {
        let terms = sum.terms.iter().map(|&(term, times)| self.get(term).range * Range::of(times));
        terms.fold(Range::of(sum.constant), |all, term| all + term)
    }

    /// The range of a difference.
    pub(super) fn difference(&self, a: Id, b: Id) -> Range {
        let (sum, _) = self.get(a).sum.plus(&self.get(b).sum.clone().times(-1.0));
        let range = self.range_of(&sum);
        // What is known of the two beyond their terms.
        let apart = self.get(a).range - self.get(b).range;
        meet(range, apart)
    }
}

/// What two ranges of one value leave; bounds that came of infinities alone say nothing.
pub(super) fn meet(a: Range, b: Range) -> Range {
    let both = Range::new(a.low.max(b.low), a.high.min(b.high));
    if both.low.is_nan() || both.high.is_nan() { Range::ANY } else { both }
}

/// What an integer may be that is known by its type alone.
pub(super) fn range_of_type(ty: Type) -> Range {
    let elem = ty.as_composite().map(|composite| composite.elem()).or(ty.as_scalar());
    match elem {
        Some(polyloom::Scalar::Bool) => Range::new(0.0, 1.0),
        Some(elem) if elem.is_unsigned_int() => Range::new(0.0, f64::INFINITY),
        _ => Range::ANY,
    }
}
