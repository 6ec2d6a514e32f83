//! What the outcome of a condition says of the values it tests.

use super::known::{Id, Origin, Table};
use crate::generate::Range;
use polyloom::Op;
use rustc_hash::FxHashMap;

/// Conditions that are made of two others.
#[derive(Default)]
pub(super) struct Compounds {
    both: FxHashMap<Id, (Id, Id)>,
    either: FxHashMap<Id, (Id, Id)>,
}

impl Compounds {
    /// Notes what a condition chooses as another: `a and b` is `b` where `a` holds, and false elsewhere.
    pub(super) fn note(&mut self, table: &Table, id: Id, condition: Id, yes: Id, no: Id) {
        if table.as_number(no) == Some(0.0) {
            self.both.insert(id, (condition, yes));
        }
        if table.as_number(yes) == Some(1.0) {
            self.either.insert(id, (condition, no));
        }
    }

    /// Narrows what is known of values by a condition that holds, or does not, until [`Table::forget`].
    pub(super) fn assume(&self, table: &mut Table, condition: Id, holds: bool) {
        let parts = if holds { &self.both } else { &self.either };
        if let Some(&(first, second)) = parts.get(&condition) {
            self.assume(table, first, holds);
            return self.assume(table, second, holds);
        }
        let Origin::Op { op, operands, .. } = &table.get(condition).origin else { return };
        match (*op, &operands.clone()[..]) {
            (Op::Not | Op::Unot, &[inner]) => self.assume(table, inner, !holds),
            (Op::Lt, &[a, b]) => order(table, a, b, holds, true),
            (Op::Le, &[a, b]) => order(table, a, b, holds, false),
            (Op::Gt, &[a, b]) => order(table, b, a, holds, true),
            (Op::Ge, &[a, b]) => order(table, b, a, holds, false),
            (Op::Eq, &[a, b]) if holds => equate(table, a, b),
            (Op::Ne, &[a, b]) if !holds => equate(table, a, b),
            _ => {}
        }
    }
}

/// The first is less than the second, or at most that; or it is not.
fn order(table: &mut Table, a: Id, b: Id, holds: bool, is_strict: bool) {
    let ((low, high), is_strict) = if holds { ((a, b), is_strict) } else { ((b, a), !is_strict) };
    let is_whole = |id: Id| table.get(id).facts.whole.is_some();
    let gap = if is_strict && is_whole(low) && is_whole(high) { 1.0 } else { 0.0 };
    let (most, least) = (table.range(high).high - gap, table.range(low).low + gap);
    narrow(table, low, Range::new(f64::NEG_INFINITY, most));
    narrow(table, high, Range::new(least, f64::INFINITY));
}

fn equate(table: &mut Table, a: Id, b: Id) {
    let (of_a, of_b) = (table.range(a), table.range(b));
    narrow(table, a, of_b);
    narrow(table, b, of_a);
}

/// The value is in the range, and so what it is made of is in another.
fn narrow(table: &mut Table, id: Id, range: Range) {
    table.narrow(id, range);
    let known = table.get(id);
    match (&known.sum.terms[..], &known.origin) {
        (&[(term, times)], _) if term != id => {
            let range = (range - Range::of(known.sum.constant)) / Range::of(times);
            narrow(table, term, range);
        }
        (_, Origin::Op { op: Op::Abs, operands, .. }) if range.high >= 0.0 => {
            let inner = operands[0];
            narrow(table, inner, Range::within(range.high));
        }
        _ => {}
    }
}
