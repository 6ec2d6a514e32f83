//! Rows of elements, one after the other in registers as they are in memory, to a register for each place in a row, and
//! back.
//!
//! `n` rows of `k` elements fill `k` registers of `n` lanes, `n` being a power of two. A transposition takes about
//! `k log k` shuffles of two registers. Most of them are blends where `k` is odd.

use crate::ir::*;

/// The bytes of a register between whose parts, of so many bytes each, shuffles without a table of lanes do not exchange
/// single elements.
const BLOCK_BYTES: u32 = 16;

/// A register for each place in a row, from the registers with the rows. `elem_bytes` are those of an element.
pub(super) fn columns(ir: &IrEmitter<'_>, rows: &[Val], elem_bytes: u32) -> Vec<Val> {
    match is_square(ir, rows, elem_bytes) {
        true => square(ir, rows, BLOCK_BYTES / elem_bytes),
        false => columns_of_any(ir, rows),
    }
}

/// The registers with the rows, from one for each place in a row.
pub(super) fn rows(ir: &IrEmitter<'_>, columns: &[Val], elem_bytes: u32) -> Vec<Val> {
    match is_square(ir, columns, elem_bytes) {
        true => square(ir, columns, BLOCK_BYTES / elem_bytes),
        false => rows_of_any(ir, columns),
    }
}

/// Returns true for as many registers as these have lanes, of some whole blocks.
fn is_square(ir: &IrEmitter<'_>, registers: &[Val], elem_bytes: u32) -> bool {
    let n = ir.n_lanes(registers[0]);
    n as usize == registers.len() && elem_bytes < BLOCK_BYTES && n.is_multiple_of(BLOCK_BYTES / elem_bytes)
}

/// Transposes a square: within blocks of `width` lanes first, by interleaving, and then whole blocks between registers.
fn square(ir: &IrEmitter<'_>, registers: &[Val], width: u32) -> Vec<Val> {
    let n = ir.n_lanes(registers[0]);
    let interleave = |a: Val, b: Val, from: u32| {
        let lane_of = move |lane: u32| lane / width * width + from + lane % width / 2 + lane % 2 * n;
        ir.shuffle(a, b, (0..n).map(lane_of))
    };
    let in_blocks = |group: &[Val]| {
        let mut turned = group.to_vec();
        for _ in 0..width.ilog2() {
            let (first, second) = turned.split_at(turned.len() / 2);
            let pairs = first.iter().zip(second);
            turned = pairs.flat_map(|(&a, &b)| [0, width / 2].map(|from| interleave(a, b, from))).collect();
        }
        turned
    };
    let groups: Vec<Vec<Val>> = registers.chunks(width as usize).map(in_blocks).collect();
    let mut columns = registers.to_vec();
    for place in 0..width as usize {
        let group: Vec<Val> = groups.iter().map(|group| group[place]).collect();
        for (block, column) in blocks(ir, &group, width).into_iter().enumerate() {
            columns[block * width as usize + place] = column;
        }
    }
    columns
}

/// Transposes a square whose elements are blocks of `width` lanes.
fn blocks(ir: &IrEmitter<'_>, rows: &[Val], width: u32) -> Vec<Val> {
    if rows.len() == 1 {
        return rows.to_vec();
    }
    let n = ir.n_lanes(rows[0]);
    let half = |odd: u32| {
        let lane_of = move |lane: u32| (2 * (lane / width) + odd) * width + lane % width;
        let every_second = |pair: &[Val]| ir.shuffle(pair[0], pair[1], (0..n).map(lane_of));
        blocks(ir, &rows.chunks(2).map(every_second).collect::<Vec<_>>(), width)
    };
    half(0).into_iter().zip(half(1)).flat_map(|(even, odd)| [even, odd]).collect()
}

fn columns_of_any(ir: &IrEmitter<'_>, rows: &[Val]) -> Vec<Val> {
    let (n, k) = (ir.n_lanes(rows[0]), rows.len() as u32);
    if k == 1 {
        return rows.to_vec();
    }
    if k.is_multiple_of(2) {
        // Elements at even places make rows of half the length, and so does the rest.
        let half = |odd: u32| {
            let every_second = |pair: &[Val]| ir.shuffle(pair[0], pair[1], (0..n).map(|lane| 2 * lane + odd));
            columns_of_any(ir, &rows.chunks(2).map(every_second).collect::<Vec<_>>())
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

fn rows_of_any(ir: &IrEmitter<'_>, columns: &[Val]) -> Vec<Val> {
    let (n, k) = (ir.n_lanes(columns[0]), columns.len() as u32);
    if k == 1 {
        return columns.to_vec();
    }
    if k.is_multiple_of(2) {
        let half = |odd: usize| rows_of_any(ir, &columns.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>());
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
