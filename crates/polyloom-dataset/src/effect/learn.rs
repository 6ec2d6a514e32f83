//! What the outcome of a condition says of the values it tests.

use super::known::{NumberId, NumberTable, ValueOrigin};
use crate::catalogue;
use crate::number_range::NumberRange;
use polyloom::Op;
use rustc_hash::FxHashMap;

/// Conditions that are made of two others.
#[derive(Default)]
pub(super) struct CompoundConditions {
    both: FxHashMap<NumberId, (NumberId, NumberId)>,
    either: FxHashMap<NumberId, (NumberId, NumberId)>,
}

impl CompoundConditions {
    /// Notes what a condition chooses as another: `a and b` is `b` where `a` holds, and false elsewhere.
    pub(super) fn note(&mut self, table: &NumberTable, id: NumberId, condition: NumberId, yes: NumberId, no: NumberId) {
        if table.as_number(no) == Some(0.0) {
            self.both.insert(id, (condition, yes));
        }
        if table.as_number(yes) == Some(1.0) {
            self.either.insert(id, (condition, no));
        }
    }

    /// Narrows what is known of values by a condition that holds, or does not, until [`NumberTable::forget`].
    pub(super) fn assume(&self, table: &mut NumberTable, condition: NumberId, holds: bool) {
        let parts = if holds { &self.both } else { &self.either };
        if let Some(&(first, second)) = parts.get(&condition) {
            self.assume(table, first, holds);
            return self.assume(table, second, holds);
        }
        let ValueOrigin::Op { op, operands, .. } = &table.get(condition).origin else { return };
        match (*op, &operands.clone()[..]) {
            (Op::Not | Op::Unot, &[inner]) => self.assume(table, inner, !holds),
            (op, &[a, b]) if let Some(tested) = catalogue::facts(op).order => {
                let (low, high) = if tested.is_less { (a, b) } else { (b, a) };
                order(table, low, high, holds, tested.is_strict);
            }
            (Op::Eq, &[a, b]) if holds => equate(table, a, b),
            (Op::Ne, &[a, b]) if !holds => equate(table, a, b),
            _ => {}
        }
    }
}

/// The first is less than the second, or at most that; or it is not.
fn order(table: &mut NumberTable, a: NumberId, b: NumberId, holds: bool, is_strict: bool) {
    let ((low, high), is_strict) = if holds { ((a, b), is_strict) } else { ((b, a), !is_strict) };
    let is_whole = |id: NumberId| table.get(id).facts.whole.is_some();
    let gap = if is_strict && is_whole(low) && is_whole(high) { 1.0 } else { 0.0 };
    let (most, least) = (table.range(high).high - gap, table.range(low).low + gap);
    narrow(table, low, NumberRange::new(f64::NEG_INFINITY, most));
    narrow(table, high, NumberRange::new(least, f64::INFINITY));
}

fn equate(table: &mut NumberTable, a: NumberId, b: NumberId) {
    let (of_a, of_b) = (table.range(a), table.range(b));
    narrow(table, a, of_b);
    narrow(table, b, of_a);
}

/// The value is in the range, and so what it is made of is in another.
fn narrow(table: &mut NumberTable, id: NumberId, range: NumberRange) {
    table.narrow(id, range);
    let known = table.get(id);
    match (&known.sum.terms[..], &known.origin) {
        (&[(term, times)], _) if term != id => {
            let range = (range - NumberRange::of(known.sum.constant)) / NumberRange::of(times);
            narrow(table, term, range);
        }
        (_, ValueOrigin::Op { op: Op::Abs, operands, .. }) if range.high >= 0.0 => {
            let inner = operands[0];
            narrow(table, inner, NumberRange::within(range.high));
        }
        _ => {}
    }
}
