//! Bodies with rows: passes over the elements of each.

use super::accumulate::Accumulator;
use super::{BodyEmitter, Element};
use crate::plan::body::{BodyForm, BodyPass};
use crate::reference::{BLOCK_LENGTH, N_LANES};
use polyloom_ir::{Expr, Op, Scalar};

/// The states of all reductions of a pass, one after the other.
pub(super) type States<'g> = Vec<Vec<Expr<'g>>>;

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn rows(&self) {
        let lane = match &self.staged {
            Some(staged) => Some(staged.member),
            None => self.body.form.has_blocks().then(|| self.widened(self.b.thread_idx(0))),
        };
        let stores_row = |lane: Expr<'g>| {
            let is_first = lane.eq(0);
            self.staged.as_ref().map_or(is_first, |staged| is_first & staged.is_own)
        };
        for (index, pass) in self.body.passes.iter().enumerate() {
            for store in &pass.row_stores {
                let value = self.row_value(store.value);
                let zeros: Vec<Expr<'g>> = self.body.inner.iter().map(|_| self.b.int(self.place_type(), 0)).collect();
                match lane {
                    Some(lane) => self.b.if_then(stores_row(lane), || self.store(&store.address, &zeros, value)),
                    None => self.store(&store.address, &zeros, value),
                }
            }
            self.compute_of_row(index, pass);
            let accumulators: Vec<Accumulator> =
                pass.reductions.iter().map(|reduction| self.accumulator(reduction)).collect();
            let totals = if pass.element_stores.is_empty() && pass.kept.is_empty() && accumulators.is_empty() {
                Vec::new()
            } else {
                self.pass(pass, &accumulators, lane)
            };
            let finish = |((accumulator, state), reduction): (
                (&Accumulator, &Vec<Expr<'g>>),
                &crate::plan::body::BodyReduction,
            )| { accumulator.finish(state, reduction.dtype) };
            let totals = accumulators.iter().zip(&totals).zip(&pass.reductions).map(finish).collect();
            self.totals.borrow_mut().push(totals);
        }
    }

    /// Computes what is the same for all elements before the loop over them.
    pub(super) fn compute_of_row(&self, index: usize, pass: &BodyPass) {
        let stores = pass.element_stores.iter().map(|store| store.value);
        let mut needed: Vec<u32> = stores
            .chain(pass.kept.iter().map(|&(value, _)| value))
            .chain(pass.reductions.iter().flat_map(|reduction| reduction.values.iter().copied()))
            .collect();
        let mut seen = vec![false; self.body.expressions.len()];
        while let Some(next) = needed.pop() {
            if std::mem::replace(&mut seen[next as usize], true) {
                continue;
            }
            let expression = &self.body.expressions[next as usize];
            if expression.is_of_row && usize::from(expression.pass) <= index {
                self.row_value(next);
                continue;
            }
            match &expression.kind {
                crate::plan::body::BodyExpressionKind::Apply(_, operands) => needed.extend(operands),
                crate::plan::body::BodyExpressionKind::Gather { index, .. } => needed.push(*index),
                crate::plan::body::BodyExpressionKind::Random(_, seed, place) => needed.extend([seed, place]),
                _ => {}
            }
        }
    }

    fn pass(&self, pass: &BodyPass, accumulators: &[Accumulator], lane: Option<Expr<'g>>) -> States<'g> {
        let int = |value: i64| self.b.int(self.place_type(), value);
        let length = self.row_length();
        let initial = || -> States<'g> { accumulators.iter().map(|accumulator| accumulator.initial(self.b)).collect() };
        let block = int(BLOCK_LENGTH as i64);
        let n_lanes = int(N_LANES as i64);
        let first_arrays = self.first_arrays(pass);
        match (self.body.form, lane) {
            (BodyForm::Staged(rows), Some(member)) => self.staged_pass(rows, pass, accumulators, member, &first_arrays),
            (BodyForm::Unrolled(n), _) => self.unrolled(pass, accumulators, n),
            (BodyForm::Block { n_levels: 0 }, Some(lane)) => {
                let states = self.loop_over(pass, accumulators, (lane, length, n_lanes), initial());
                across_lanes(accumulators, &first_arrays, &states)
            }
            (BodyForm::Block { n_levels }, Some(lane)) => self.long_row(pass, accumulators, lane, n_levels),
            (BodyForm::SplitBlock, Some(lane)) => {
                let first = self.outer.last().map_or(int(0), |&number| number * block);
                let end = (first + block).min(length);
                let states = self.loop_over(pass, accumulators, (first + lane, end, n_lanes), initial());
                across_lanes(accumulators, &first_arrays, &states)
            }
            (BodyForm::SplitLane, _) => {
                let first = self.outer[0] * block;
                let end = (first + block).min(length);
                self.loop_over(pass, accumulators, (first + self.outer[1], end, n_lanes), initial())
            }
            _ => self.loop_over(pass, accumulators, (int(0), length, int(1)), initial()),
        }
    }

    /// Returns the numbers of the first shared arrays of a pass's reductions. No two reductions of a kernel share one.
    fn first_arrays(&self, pass: &BodyPass) -> Vec<u32> {
        let n_before = self.body.passes.iter().take_while(|before| !std::ptr::eq(*before, pass));
        let of_pass = |pass: &BodyPass| -> u32 {
            pass.reductions.iter().map(|reduction| self.accumulator(reduction).n_arrays()).sum()
        };
        let mut next = n_before.map(of_pass).sum();
        let mut first = Vec::new();
        for reduction in &pass.reductions {
            first.push(next);
            next += self.accumulator(reduction).n_arrays();
        }
        first
    }

    /// Goes over the elements from a first one on in steps.
    pub(super) fn loop_over(
        &self,
        pass: &BodyPass,
        accumulators: &[Accumulator],
        (first, end, step): (Expr<'g>, Expr<'g>, Expr<'g>),
        initial: States<'g>,
    ) -> States<'g> {
        let flat: Vec<Expr<'g>> = initial.concat();
        let results = self.b.for_range_many(first, end, step, &flat, |number, carried| {
            let states = divide(&initial, carried);
            self.visit(pass, accumulators, number, &states).concat()
        });
        divide(&initial, &results)
    }

    /// Stores what is stored of an element, and combines it with the states.
    fn visit(
        &self,
        pass: &BodyPass,
        accumulators: &[Accumulator],
        number: Expr<'g>,
        states: &States<'g>,
    ) -> States<'g> {
        let element: Element<'g> = self.element(number);
        let mut next = Vec::new();
        for ((reduction, accumulator), state) in pass.reductions.iter().zip(accumulators).zip(states) {
            let values: Vec<Expr<'g>> = reduction.values.iter().map(|&value| self.value(value, &element)).collect();
            next.push(accumulator.step(state, &values, number));
        }
        // All is loaded before anything is stored, because a value may wait in the place of another.
        let values: Vec<Expr<'g>> = pass.element_stores.iter().map(|store| self.value(store.value, &element)).collect();
        let kept: Vec<Expr<'g>> = pass.kept.iter().map(|&(value, _)| self.value(value, &element)).collect();
        for (&(_, slot), value) in pass.kept.iter().zip(kept) {
            self.keep(slot, &element, value);
        }
        for (store, value) in pass.element_stores.iter().zip(values) {
            self.store(&store.address, &element.inner, value);
        }
        next
    }

    /// A short row: each element is a lane of its own.
    fn unrolled(&self, pass: &BodyPass, accumulators: &[Accumulator], n: u8) -> States<'g> {
        let mut lanes: Vec<States<'g>> = vec![Vec::new(); accumulators.len()];
        for number in 0..n {
            let number = self.b.int(self.place_type(), i64::from(number));
            let initial: States<'g> = accumulators.iter().map(|accumulator| accumulator.initial(self.b)).collect();
            for (of_one, state) in lanes.iter_mut().zip(self.visit(pass, accumulators, number, &initial)) {
                of_one.push(state);
            }
        }
        let combine = |(accumulator, lanes): (&Accumulator, States<'g>)| match lanes.is_empty() {
            true => accumulator.initial(self.b),
            false => accumulator.tree(lanes),
        };
        accumulators.iter().zip(lanes).map(combine).collect()
    }

    /// A row of many blocks, whose totals are combined pairwise: the totals of 1, 2, 4, … blocks that have no neighbour yet
    /// are kept, as the ones of a binary counter.
    fn long_row(&self, pass: &BodyPass, accumulators: &[Accumulator], lane: Expr<'g>, n_levels: u8) -> States<'g> {
        let b = self.b;
        let int = |value: i64| b.int(self.place_type(), value);
        let (length, block) = (self.row_length(), int(BLOCK_LENGTH as i64));
        let n_blocks = b.op(Op::FloorDiv, &[length + int(BLOCK_LENGTH as i64 - 1), block]);
        let first_arrays = self.first_arrays(pass);
        // What needs no order is carried through all blocks; what does, level by level.
        let carried_of = |accumulator: &Accumulator| -> Vec<Expr<'g>> {
            let n_copies = if accumulator.has_order() { usize::from(n_levels) } else { 1 };
            (0..n_copies).flat_map(|_| accumulator.initial(b)).collect()
        };
        let initial: States<'g> = accumulators.iter().map(carried_of).collect();
        let results = b.for_range_many(0, n_blocks, 1, &initial.concat(), |number, carried| {
            let carried = divide(&initial, carried);
            let start = |(accumulator, state): (&Accumulator, &Vec<Expr<'g>>)| match accumulator.has_order() {
                true => accumulator.initial(b),
                false => state.clone(),
            };
            let states: States<'g> = accumulators.iter().zip(&carried).map(start).collect();
            let first = number * block;
            let end = (first + block).min(length);
            let states = self.loop_over(pass, accumulators, (first + lane, end, int(N_LANES as i64)), states);
            let mut next = Vec::new();
            for (((accumulator, &first), state), carried) in
                accumulators.iter().zip(&first_arrays).zip(&states).zip(&carried)
            {
                if !accumulator.has_order() {
                    next.extend(state.clone());
                    continue;
                }
                let mut total = accumulator.across_lanes(state, first);
                let mut is_open = b.int(Scalar::I32, 1).ne(0);
                for (level, kept) in carried.iter().enumerate() {
                    let has_neighbour = ((number >> level as i64) & 1).ne(0);
                    let merged = accumulator.merge(&[*kept], &total);
                    next.push((is_open & !has_neighbour).select(total[0], *kept));
                    total = vec![(is_open & has_neighbour).select(merged[0], total[0])];
                    is_open = is_open & has_neighbour;
                }
            }
            // The next block of the row uses the same shared arrays.
            b.sync_threads();
            next
        });
        let carried = divide(&initial, &results);
        let finish = |((accumulator, &first), carried): ((&Accumulator, &u32), &Vec<Expr<'g>>)| {
            if !accumulator.has_order() {
                return accumulator.across_lanes(carried, first);
            }
            let (mut total, mut has_total) = (accumulator.initial(b)[0], b.int(Scalar::I32, 0).ne(0));
            for (level, kept) in carried.iter().enumerate() {
                let is_kept = ((n_blocks >> level as i64) & 1).ne(0);
                let merged = accumulator.merge(&[*kept], &[total])[0];
                total = is_kept.select(has_total.select(merged, *kept), total);
                has_total = has_total | is_kept;
            }
            vec![total]
        };
        accumulators.iter().zip(&first_arrays).zip(&carried).map(finish).collect()
    }
}

fn across_lanes<'g>(accumulators: &[Accumulator], first_arrays: &[u32], states: &States<'g>) -> States<'g> {
    let combine =
        |((accumulator, &first), state): ((&Accumulator, &u32), &Vec<Expr<'g>>)| accumulator.across_lanes(state, first);
    accumulators.iter().zip(first_arrays).zip(states).map(combine).collect()
}

/// Divides values as others are divided.
fn divide<'g>(like: &States<'g>, flat: &[Expr<'g>]) -> States<'g> {
    let mut rest = flat;
    like.iter()
        .map(|state| {
            let (own, others) = rest.split_at(state.len());
            rest = others;
            own.to_vec()
        })
        .collect()
}
