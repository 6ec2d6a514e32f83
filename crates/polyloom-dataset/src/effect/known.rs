//! What is known of values: each has a number, the same for all that are equal by how they are made.

use crate::number_range::{NumberRange, elem, numbers_of};
use crate::whole_number::WholeNumber;
use polyloom::{Imm, Op, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The number of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct NumberId(u32);

/// Describes how a value is made.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum ValueOrigin {
    /// By an operation on others; it is the result of this index, and depends on memory as of this time.
    Op { op: Op, operands: SmallVec<[NumberId; 4]>, imm: Text, time: u32, result: u32 },
    /// Each term times a number, and a number, by their bits.
    Sum { terms: SmallVec<[(NumberId, u64); 4]>, constant: u64 },
    /// Nobody knows.
    Unknown(u32),
}

/// Describes what an operation says beyond its operands.
pub(super) type Text = Option<Box<str>>;

pub(super) fn text(imm: &Imm) -> Text {
    (*imm != Imm::None).then(|| format!("{imm:?}").into())
}

/// Terms with the number each is multiplied by, in the order of their ids, and a number.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct LinearSum {
    pub(super) terms: SmallVec<[(NumberId, f64); 4]>,
    pub(super) constant: f64,
}

impl LinearSum {
    pub(super) fn number(constant: f64) -> LinearSum {
        LinearSum { constant, ..LinearSum::default() }
    }

    /// Its number, if it has no terms.
    pub(super) fn as_number(&self) -> Option<f64> {
        self.terms.is_empty().then_some(self.constant)
    }

    pub(super) fn times(mut self, factor: f64) -> LinearSum {
        if factor == 0.0 {
            return LinearSum::default();
        }
        self.terms.iter_mut().for_each(|(_, times)| *times *= factor);
        self.constant *= factor;
        self
    }

    /// Returns what this is times the other, constants aside, if it is a multiple of it.
    pub(super) fn ratio(&self, other: &LinearSum) -> Option<f64> {
        let (&(_, first), &(_, second)) = (self.terms.first()?, other.terms.first()?);
        let ratio = first / second;
        let is_same = |(&(a, x), &(b, y)): (&(NumberId, f64), &(NumberId, f64))| a == b && x == y * ratio;
        (self.terms.len() == other.terms.len() && self.terms.iter().zip(&other.terms).all(is_same)).then_some(ratio)
    }

    /// The sum of both, and whether a term of one takes away a term of the other.
    pub(super) fn plus(&self, other: &LinearSum) -> (LinearSum, bool) {
        let mut terms: SmallVec<[(NumberId, f64); 4]> = SmallVec::new();
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
        let constant = self.constant + other.constant;
        cancels |= constant == 0.0 && self.constant != 0.0 && !terms.is_empty();
        (LinearSum { terms, constant }, cancels)
    }
}

/// Factors in the order of their ids.
pub(super) type Factors = SmallVec<[(NumberId, i32); 2]>;

/// Describes what is known of a value, however it is made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ValueFacts {
    pub(super) range: NumberRange,
    /// The number that a whole number, even one stored as a float, is a multiple of.
    pub(super) whole: Option<WholeNumber>,
    /// True if all threads of a warp have the same.
    pub(super) is_uniform: bool,
}

impl ValueFacts {
    /// Returns what a type says.
    pub(super) fn of_type(ty: Type) -> ValueFacts {
        let is_whole = elem(ty).is_some_and(polyloom::Scalar::is_int);
        ValueFacts { range: range_of_type(ty), whole: is_whole.then_some(WholeNumber::ANY), is_uniform: false }
    }

    /// Returns what is so of either.
    pub(super) fn or(self, other: ValueFacts) -> ValueFacts {
        ValueFacts {
            range: self.range.or(other.range),
            whole: self.whole.zip(other.whole).map(|(a, b)| a.or(b)),
            is_uniform: self.is_uniform && other.is_uniform,
        }
    }
}

/// Describes what is known of a value by its number.
#[derive(Clone, Debug)]
pub(super) struct KnownValues {
    pub(super) origin: ValueOrigin,
    pub(super) sum: LinearSum,
    pub(super) facts: ValueFacts,
    /// A vector that this vector is a multiple of.
    pub(super) direction: NumberId,
    /// Factors of a product with their exponents, which are negative for divisors.
    pub(super) factors: Factors,
}

/// The numbers of values.
#[derive(Default)]
pub(super) struct NumberTable {
    ids: FxHashMap<ValueOrigin, NumberId>,
    known: Vec<KnownValues>,
    /// Products of numbers by their factors.
    products: FxHashMap<Factors, NumberId>,
    /// Values of which a condition says more, with what was known of them.
    narrowed: Vec<(NumberId, NumberRange)>,
}

/// Describes how much was known at some point.
#[derive(Clone, Copy)]
pub(super) struct KnowledgeMark {
    n_known: usize,
    n_narrowed: usize,
}

impl NumberTable {
    pub(super) fn get(&self, id: NumberId) -> &KnownValues {
        &self.known[id.0 as usize]
    }

    pub(super) fn range(&self, id: NumberId) -> NumberRange {
        self.get(id).facts.range
    }

    /// Its number, if it is one.
    pub(super) fn as_number(&self, id: NumberId) -> Option<f64> {
        self.get(id).sum.as_number()
    }

    pub(super) fn mark(&self) -> KnowledgeMark {
        KnowledgeMark { n_known: self.known.len(), n_narrowed: self.narrowed.len() }
    }

    /// The value is in this range, until [`NumberTable::forget`].
    pub(super) fn narrow(&mut self, id: NumberId, range: NumberRange) {
        let before = self.range(id);
        let both = meet(before, range);
        if both != before {
            self.narrowed.push((id, before));
            self.known[id.0 as usize].facts.range = both;
        }
    }

    /// Takes back what has been learnt since, and what follows from it for values that came up meanwhile.
    pub(super) fn forget(&mut self, since: KnowledgeMark) {
        let mut depends = FxHashSet::default();
        for (id, range) in self.narrowed.drain(since.n_narrowed..).rev() {
            self.known[id.0 as usize].facts.range = range;
            depends.insert(id);
        }
        if depends.is_empty() {
            return;
        }
        for (at, known) in self.known.iter().enumerate().skip(since.n_known) {
            let follows = match &known.origin {
                ValueOrigin::Op { operands, .. } => operands.iter().any(|operand| depends.contains(operand)),
                ValueOrigin::Sum { terms, .. } => terms.iter().any(|(term, _)| depends.contains(term)),
                ValueOrigin::Unknown(_) => false,
            };
            if follows {
                depends.insert(NumberId(at as u32));
                self.ids.remove(&known.origin);
                self.products.retain(|_, id| id.0 as usize != at);
            }
        }
    }

    /// A value of which nothing else is known.
    pub(super) fn unknown(&mut self, facts: ValueFacts) -> NumberId {
        let origin = ValueOrigin::Unknown(self.known.len() as u32);
        self.atom(origin, facts, None)
    }

    pub(super) fn number(&mut self, number: f64) -> NumberId {
        let facts = ValueFacts { range: NumberRange::of(number), whole: WholeNumber::of(number), is_uniform: true };
        self.sum_of(LinearSum::number(number), facts)
    }

    /// Returns what an operation gives that is no sum.
    pub(super) fn atom(&mut self, origin: ValueOrigin, facts: ValueFacts, direction: Option<NumberId>) -> NumberId {
        if let Some(&id) = self.ids.get(&origin) {
            return id;
        }
        let id = NumberId(self.known.len() as u32);
        let sum = LinearSum { terms: SmallVec::from_slice(&[(id, 1.0)]), constant: 0.0 };
        self.ids.insert(origin.clone(), id);
        let factors = SmallVec::from_slice(&[(id, 1)]);
        self.known.push(KnownValues { origin, sum, facts, direction: direction.unwrap_or(id), factors });
        id
    }

    /// A sum of this type, within this range by what is known otherwise.
    pub(super) fn sum(&mut self, sum: LinearSum, range: NumberRange, ty: Type) -> NumberId {
        let is_uniform = sum.terms.iter().all(|&(term, _)| self.get(term).facts.is_uniform);
        let whole = self.whole_of(&sum).map(|whole| stored(whole, self.range_of(&sum), ty));
        self.sum_of(sum, ValueFacts { range, whole, is_uniform })
    }

    fn sum_of(&mut self, sum: LinearSum, facts: ValueFacts) -> NumberId {
        if let ([(id, times)], 0.0) = (&sum.terms[..], sum.constant)
            && *times == 1.0
        {
            return *id;
        }
        let terms = sum.terms.iter().map(|&(id, times)| (id, times.to_bits())).collect();
        let origin = ValueOrigin::Sum { terms, constant: sum.constant.to_bits() };
        if let Some(&id) = self.ids.get(&origin) {
            return id;
        }
        let id = NumberId(self.known.len() as u32);
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
        self.known.push(KnownValues { origin, sum, facts, direction, factors });
        id
    }

    /// Returns what the value is a multiple of.
    pub(super) fn base(&self, id: NumberId) -> NumberId {
        match (&self.get(id).sum.terms[..], self.get(id).sum.constant) {
            (&[(term, _)], 0.0) => term,
            _ => id,
        }
    }

    /// Returns the number of times [that](NumberTable::base) it is.
    pub(super) fn times(&self, id: NumberId) -> f64 {
        match (&self.get(id).sum.terms[..], self.get(id).sum.constant) {
            (&[(_, times)], 0.0) => times,
            _ => 1.0,
        }
    }

    /// The factors of a product of both, or of a quotient, and whether some of one take away those of the other.
    pub(super) fn product(&self, a: NumberId, b: NumberId, times: i32) -> (Factors, bool) {
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

    /// The product of these factors that came up first, if it is not this one.
    pub(super) fn product_of(&mut self, id: NumberId, factors: Factors) -> NumberId {
        self.known[id.0 as usize].factors = factors.clone();
        *self.products.entry(factors).or_insert(id)
    }

    /// Returns what a sum is a multiple of, if it is whole.
    fn whole_of(&self, sum: &LinearSum) -> Option<WholeNumber> {
        let constant = WholeNumber::of(sum.constant)?;
        sum.terms
            .iter()
            .try_fold(constant, |all, &(term, times)| Some(all + self.get(term).facts.whole? * WholeNumber::of(times)?))
    }

    /// The numbers that a sum may be: of a square and the number itself what both can be at once.
    pub(super) fn range_of(&self, sum: &LinearSum) -> NumberRange {
        let base = |term: NumberId| square(self, term).filter(|&id| self.get(id).sum.terms[..] == [(id, 1.0)]);
        let times_of = |id: NumberId| sum.terms.iter().find(|&&(term, _)| term == id).map_or(0.0, |&(_, times)| times);
        // A value beside its own square is reported with the square, so that one fault is told once.
        fn is_in_square(sum: &LinearSum, base: &impl Fn(NumberId) -> Option<NumberId>, id: NumberId) -> bool {
            sum.terms.iter().any(|&(term, _)| base(term) == Some(id) && !is_in_square(sum, base, term))
        }
        let told = sum.terms.iter().filter(|&&(term, _)| !is_in_square(sum, &base, term));
        let terms = told.map(|&(term, times)| match base(term) {
            Some(id) => quadratic(self.range(id), times, times_of(id)),
            None => self.range(term) * NumberRange::of(times),
        });
        terms.fold(NumberRange::of(sum.constant), |all, term| all + term)
    }

    /// The range of a difference.
    pub(super) fn difference(&self, a: NumberId, b: NumberId) -> NumberRange {
        let (sum, _) = self.get(a).sum.plus(&self.get(b).sum.clone().times(-1.0));
        let range = self.range_of(&sum);
        // Facts about the two beyond their terms.
        let apart = self.range(a) - self.range(b);
        meet(range, apart)
    }
}

/// The squares of numbers times the first factor and the numbers times the second.
fn quadratic(range: NumberRange, square: f64, times: f64) -> NumberRange {
    let apex = -times / (2.0 * square);
    let at = |x: f64| match x.is_finite() {
        true => (square * x + times) * x,
        false => square * f64::INFINITY,
    };
    let ends = NumberRange::of(at(range.low)).or(NumberRange::of(at(range.high)));
    if range.low < apex && apex < range.high { ends.or(NumberRange::of(at(apex))) } else { ends }
}

/// Returns what a number is the square of. Of quaternions and matrices no factors are known.
pub(super) fn square(table: &NumberTable, id: NumberId) -> Option<NumberId> {
    let known = table.get(id);
    match &known.origin {
        ValueOrigin::Op { op: Op::Mul, operands, .. } if operands[0] == operands[1] => {
            let is_number = !known.factors.is_empty() && known.factors.iter().all(|&(_, n)| n % 2 == 0);
            is_number.then_some(operands[0])
        }
        _ => None,
    }
}

/// Returns what two ranges of one value leave; bounds that came of infinities alone say nothing. What rounding has left
/// no number in common is the first.
pub(super) fn meet(a: NumberRange, b: NumberRange) -> NumberRange {
    let both = NumberRange::new(a.low.max(b.low), a.high.min(b.high));
    match () {
        () if both.low.is_nan() || both.high.is_nan() => NumberRange::ANY,
        () if both.low > both.high => a,
        () => both,
    }
}

/// Returns what is left of a whole number that arithmetic gives in this range where a type holds it, because integers
/// wrap around, and floats round large numbers.
pub(super) fn stored(whole: WholeNumber, range: NumberRange, ty: Type) -> WholeNumber {
    match elem(ty) {
        Some(elem) if elem.is_int() && !range.lies_in(numbers_of(elem)) => whole.wrapped(elem.bits()),
        Some(elem) if elem.is_float() => {
            let digits = match elem.bits() {
                16 => 8.0_f64,
                32 => 24.0,
                _ => 53.0,
            };
            if range.lies_in(NumberRange::within(digits.exp2())) { whole } else { whole.rounded() }
        }
        _ => whole,
    }
}

/// Returns what an integer may be that is known by its type alone.
pub(super) fn range_of_type(ty: Type) -> NumberRange {
    match elem(ty) {
        Some(polyloom::Scalar::Bool) => NumberRange::new(0.0, 1.0),
        Some(elem) if elem.is_unsigned_int() => NumberRange::new(0.0, f64::INFINITY),
        _ => NumberRange::ANY,
    }
}
