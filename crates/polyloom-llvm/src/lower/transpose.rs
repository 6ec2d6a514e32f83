//! Rows of elements, one after the other in registers as they are in memory, to a register for each place in a row, and
//! back.
//!
//! `n` rows of `k` elements fill `k` registers of `n` lanes, `n` being a power of two. A transposition takes about
//! `k log k` shuffles of two registers. Most of them are blends where `k` is odd.

use crate::ir::*;

/// A register for each place in a row, from the registers with the rows.
pub(super) fn columns(ir: &IrEmitter<'_>, rows: &[Val]) -> Vec<Val> {
    let (n, k) = (ir.n_lanes(rows[0]), rows.len() as u32);
    if k == 1 {
        return rows.to_vec();
    }
    if k.is_multiple_of(2) {
        // Elements at even places make rows of half the length, and so does the rest.
        let half = |odd: u32| {
            let every_second = |pair: &[Val]| ir.shuffle(pair[0], pair[1], (0..n).map(|lane| 2 * lane + odd));
            columns(ir, &rows.chunks(2).map(every_second).collect::<Vec<_>>())
        };
        return half(0).into_iter().zip(half(1)).flat_map(|(even, odd)| [even, odd]).collect();
    }
    let mut ordered = rows.to_vec();
    for (register, &row) in (0..k).zip(rows) {
        ordered[first_place(n, k, register)] = row;
    }
    let turned = turn(ir, ordered, |place, step| (place + k - step) % k);
    let column = |(place, vector): (u32, Val)| ir.shuffle(vector, vector, (0..n).map(|row| lane_of(n, k, row, place)));
    (0..k).zip(turned).map(column).collect()
}

/// The registers with the rows, from one for each place in a row.
pub(super) fn rows(ir: &IrEmitter<'_>, columns: &[Val]) -> Vec<Val> {
    let (n, k) = (ir.n_lanes(columns[0]), columns.len() as u32);
    if k == 1 {
        return columns.to_vec();
    }
    if k.is_multiple_of(2) {
        let half = |odd: usize| rows(ir, &columns.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>());
        let zip = |(even, odd): (Val, Val)| {
            [0, n].map(|from| ir.shuffle(even, odd, (from..from + n).map(|lane| lane / 2 + lane % 2 * n)))
        };
        return half(0).into_iter().zip(half(1)).flat_map(zip).collect();
    }
    let place_lanes = |(place, &vector): (u32, &Val)| {
        let mut row_in_lane = vec![0; n as usize];
        for row in 0..n {
            row_in_lane[lane_of(n, k, row, place) as usize] = row;
        }
        ir.shuffle(vector, vector, row_in_lane.into_iter())
    };
    let turned = turn(ir, (0..k).zip(columns).map(place_lanes).collect(), |place, step| (place + step) % k);
    (0..k).map(|register| turned[first_place(n, k, register)]).collect()
}

/// The place in its row of the element in a register's lane 0. The one in lane `p` is `p` places on, modulo `k`: for
/// odd `k` each lane has another place in every register.
fn first_place(n: u32, k: u32, register: u32) -> usize {
    (n * register % k) as usize
}

/// The lane of a row's element, in its register. For odd `k` it is another one for every row.
fn lane_of(n: u32, k: u32, row: u32, place: u32) -> u32 {
    (row * k + place) % n
}

/// Exchanges lanes between as many registers as the odd number `k`: lane `p` moves on by `p` registers, modulo `k`, in
/// steps of powers of two. `from` gives the register that is a step away.
fn turn(ir: &IrEmitter<'_>, mut registers: Vec<Val>, from: impl Fn(u32, u32) -> u32) -> Vec<Val> {
    let (n, k) = (ir.n_lanes(registers[0]), registers.len() as u32);
    let mut step = 1;
    while step < n.min(k) {
        let blend = |register: u32| {
            let (stays, comes) = (registers[register as usize], registers[from(register, step) as usize]);
            ir.shuffle(stays, comes, (0..n).map(|lane| if (lane % k) & step == 0 { lane } else { n + lane }))
        };
        registers = (0..k).map(blend).collect();
        step *= 2;
    }
    registers
}
