//! The order in which a processor runs the threads of its chunk.
//!
//! Threads run in row-major order, in which most kernels go along their arrays. A transposition goes along one array
//! and down the columns of another, where each thread touches a cache line of its own: a column of some hundred lines
//! is out of the cache before the next column comes to the same lines. Such kernels run in tiles: some threads of a
//! row, the ones below them in the next rows, and so on, so that a line is used up while it is there. On a Zen 4, the
//! transposition of 2048 x 1536 `float32` takes 10.2 ms by rows and 6.1 ms by tiles.
//!
//! Rows are those of a launch with several axes, or the threads of one quotient where a kernel of one axis computes row
//! and column itself, as `i // n` and `i % n`. Which arrays are walked down is estimated, not proved, because any order
//! is right.

use crate::args::KernelParams;
use polyloom_codegen::ArgLayout;
use polyloom_ir::analysis::effects::CallEffects;
use polyloom_ir::op::{OpEffect, OpGroup};
use polyloom_ir::{FuncId, Function, Imm, InstData, MAX_DIMS, Module, Op, Value, ValueDef};
use std::collections::HashMap;
use std::ops::Range;

/// Rows of a tile: `float32` of two cache lines, which are a tenth faster than those of one.
pub(crate) const TILE_ROWS: u64 = 32;
/// Threads of a tile in a row: a call of the code for fewer costs too much, and lines and pages for more do not stay in
/// the nearest caches.
const TILE_COLUMNS: u64 = 64;
/// Shorter rows touch so few lines that these stay in the cache.
const MIN_ROW: u64 = 256;
/// Bounds how far back a value's computation is followed.
const MAX_DEPTH: u32 = 16;
/// A constant step from this many elements on leads to another cache line.
const LONG_STEP: u64 = 16;

/// Says where the length of a row of threads is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RowLength {
    /// The launch's last extent.
    LastAxis,
    /// A word of the argument block, as `int32`.
    Word(usize),
    /// A number in the code.
    Constant(u64),
}

/// Says that a kernel's threads are run in tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TiledOrder {
    row: RowLength,
}

impl TiledOrder {
    /// The order for a kernel in prepared HIR, if it is better run in tiles.
    pub(crate) fn of(module: &Module, kernel: FuncId, params: &KernelParams) -> Option<TiledOrder> {
        let calls = CallEffects::of(module, kernel);
        let kernel = &module.functions[kernel];
        if !may_run_in_any_order(kernel, &calls) {
            return None;
        }
        let mut n_axes = 1;
        let mut divisors = Vec::new();
        kernel.walk(kernel.body, &mut |_, data| match (data.op, &data.imm) {
            (Op::Tid, &Imm::Axis(axis)) => n_axes = n_axes.max(usize::from(axis) + 1),
            (Op::Mod, _) if !divisors.contains(&data.operands[1]) => divisors.push(data.operands[1]),
            _ => {}
        });
        if n_axes > 1 {
            let walks_down = ThreadSteps::new(kernel, Rows::OfAxes(n_axes)).walks_down();
            return walks_down.then_some(TiledOrder { row: RowLength::LastAxis });
        }
        divisors.into_iter().find_map(|divisor| {
            let row = row_length(kernel, params, divisor)?;
            ThreadSteps::new(kernel, Rows::OfQuotients(divisor)).walks_down().then_some(TiledOrder { row })
        })
    }

    /// Threads of a row of this launch, if it is worth running in tiles.
    pub(crate) fn row(self, words: &[u64], grid: &[u64; MAX_DIMS], rank: u8) -> Option<u64> {
        let row = match self.row {
            RowLength::LastAxis if rank < 2 => return None,
            RowLength::LastAxis => grid[usize::from(rank).min(MAX_DIMS) - 1],
            RowLength::Word(word) => u64::try_from(*words.get(word)? as u32 as i32).ok()?,
            RowLength::Constant(row) => row,
        };
        (row >= MIN_ROW).then_some(row)
    }
}

/// The ranges, in the order in which they run, that the threads `range` are cut into.
pub(crate) fn tiles(range: Range<u64>, row: u64) -> impl Iterator<Item = Range<u64>> {
    let (first, last) = (range.start.div_ceil(row), range.end / row);
    let whole = if first < last { first..last } else { 0..0 };
    let (head, tail) = match whole.is_empty() {
        true => (range.clone(), range.end..range.end),
        false => (range.start..whole.start * row, whole.end * row..range.end),
    };
    let of_rows = move |top: u64| {
        let rows = top..(top + TILE_ROWS).min(whole.end);
        let of_columns =
            move |left: u64| rows.clone().map(move |r| r * row + left..r * row + (left + TILE_COLUMNS).min(row));
        (0..row).step_by(TILE_COLUMNS as usize).flat_map(of_columns)
    };
    let tiles = whole.step_by(TILE_ROWS as usize).flat_map(of_rows);
    [head].into_iter().chain(tiles).chain([tail]).filter(|range| !range.is_empty())
}

/// Returns true if nobody sees in which order threads run: none prints, checks, or updates what others update.
fn may_run_in_any_order(kernel: &Function, calls: &CallEffects) -> bool {
    let mut may = true;
    kernel.walk(kernel.body, &mut |_, data: &InstData| {
        may &= match data.op {
            Op::Call => matches!(calls.of_inst(data), OpEffect::Pure | OpEffect::Read),
            op => !matches!(op.info().group, OpGroup::Atomic | OpGroup::Debug | OpGroup::Gpu),
        };
    });
    may
}

/// Finds where a row's length is when the kernel is launched.
fn row_length(kernel: &Function, params: &KernelParams, divisor: Value) -> Option<RowLength> {
    if let Some(number) = kernel.as_const(divisor) {
        return Some(RowLength::Constant(number));
    }
    let word_of = |value: Value| {
        let param = kernel.params().iter().position(|&param| param == value)?;
        Some(*params.layout().offsets.get(param)?)
    };
    match kernel.values[divisor].def {
        ValueDef::Param(..) => Some(RowLength::Word(word_of(divisor)? as usize / 8)),
        ValueDef::Result(inst, _) => match (kernel.insts[inst].op, &kernel.insts[inst].imm) {
            (Op::Dim, &Imm::Axis(axis)) => {
                let array = word_of(kernel.insts[inst].operands[0])?;
                Some(RowLength::Word((array + ArgLayout::extent(axis)) as usize / 8))
            }
            (Op::Cast, _) => row_length(kernel, params, kernel.insts[inst].operands[0]),
            _ => None,
        },
    }
}

/// Says what a kernel's rows of threads are.
#[derive(Clone, Copy)]
enum Rows {
    /// Threads that differ along the last of so many axes.
    OfAxes(usize),
    /// Threads of one quotient by this value.
    OfQuotients(Value),
}

/// Says how far an integer moves from one thread to the next, in most places.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    None,
    /// By less than a cache line of elements.
    Short,
    Long,
    Unknown,
}

impl Step {
    fn and(self, other: Step) -> Step {
        match (self, other) {
            (Step::Unknown, _) | (_, Step::Unknown) => Step::Unknown,
            (Step::Long, _) | (_, Step::Long) => Step::Long,
            (Step::None, step) | (step, Step::None) => step,
            (Step::Short, Step::Short) => Step::Short,
        }
    }
}

/// Says how far an integer moves to the next thread of the row, and to the one below.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Steps {
    along: Step,
    down: Step,
}

impl Steps {
    const NONE: Steps = Steps { along: Step::None, down: Step::None };
    const UNKNOWN: Steps = Steps { along: Step::Unknown, down: Step::Unknown };

    fn and(self, other: Steps) -> Steps {
        Steps { along: self.along.and(other.along), down: self.down.and(other.down) }
    }

    /// The steps of a multiple by more than a cache line.
    fn lengthened(self) -> Steps {
        let long = |step| if step == Step::Short { Step::Long } else { step };
        Steps { along: long(self.along), down: long(self.down) }
    }
}

/// Computes how far integers of a kernel move from thread to thread.
struct ThreadSteps<'a> {
    kernel: &'a Function,
    rows: Rows,
    /// Otherwise a value that is used twice, again and again, would be followed exponentially often.
    known: HashMap<Value, Steps>,
}

impl<'a> ThreadSteps<'a> {
    fn new(kernel: &'a Function, rows: Rows) -> ThreadSteps<'a> {
        ThreadSteps { kernel, rows, known: HashMap::new() }
    }

    /// Returns true if an array is walked down: the next thread of a row accesses another cache line, and the one below
    /// the same.
    fn walks_down(mut self) -> bool {
        let mut down = false;
        let kernel = self.kernel;
        kernel.walk(kernel.body, &mut |_, data| {
            let n_indices = match data.op {
                Op::ArrayLoad => data.operands.len() - 1,
                Op::ArrayStore => data.operands.len() - 2,
                _ => return,
            };
            let mut steps = Steps::NONE;
            for (idx, &index) in data.operands[1..=n_indices].iter().enumerate() {
                let of_axis = self.steps(index, MAX_DEPTH);
                steps = steps.and(if idx + 1 == n_indices { of_axis } else { of_axis.lengthened() });
            }
            down |= steps == Steps { along: Step::Long, down: Step::Short };
        });
        down
    }

    fn steps(&mut self, value: Value, depth: u32) -> Steps {
        if let Some(&steps) = self.known.get(&value) {
            return steps;
        }
        let steps = self.computed_steps(value, depth);
        self.known.insert(value, steps);
        steps
    }

    fn computed_steps(&mut self, value: Value, depth: u32) -> Steps {
        let ValueDef::Result(inst, _) = self.kernel.values[value].def else {
            let is_param = self.kernel.params().contains(&value);
            return if is_param { Steps::NONE } else { Steps::UNKNOWN };
        };
        let Some(depth) = depth.checked_sub(1) else { return Steps::UNKNOWN };
        let data = &self.kernel.insts[inst];
        let divides_coordinate = |by| data.operands.get(1) == Some(&by) && is_coordinate(self.kernel, data.operands[0]);
        let (rows, divides) = (self.rows, matches!(self.rows, Rows::OfQuotients(by) if divides_coordinate(by)));
        let mut operand = |number: usize| self.steps(data.operands[number], depth);
        match (data.op, &data.imm, rows) {
            (Op::Const | Op::Dim, ..) => Steps::NONE,
            (Op::Tid, _, Rows::OfQuotients(_)) => Steps { along: Step::Short, down: Step::Long },
            (Op::Tid, &Imm::Axis(axis), Rows::OfAxes(n_axes)) => match n_axes - 1 - usize::from(axis) {
                0 => Steps { along: Step::Short, down: Step::None },
                1 => Steps { along: Step::None, down: Step::Short },
                _ => Steps::NONE,
            },
            (Op::Mod, ..) if divides => Steps { along: Step::Short, down: Step::None },
            (Op::Div | Op::FloorDiv, ..) if divides => Steps { along: Step::None, down: Step::Short },
            (Op::Add | Op::Sub, ..) => operand(0).and(operand(1)),
            (Op::Mul, ..) => match (operand(0), operand(1)) {
                (Steps::NONE, steps) => times(self.kernel, steps, data.operands[0]),
                (steps, Steps::NONE) => times(self.kernel, steps, data.operands[1]),
                _ => Steps::UNKNOWN,
            },
            // A comparison comes out the same for nearly all neighbours.
            (Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne, ..) => Steps::NONE,
            (Op::BitAnd | Op::BitOr | Op::BitXor, ..) if operand(0) == operand(1) => operand(0),
            (Op::Cast | Op::Neg, ..) => operand(0),
            (Op::Select, ..) if operand(1) == operand(2) => operand(1),
            _ => Steps::UNKNOWN,
        }
    }
}

fn times(kernel: &Function, steps: Steps, factor: Value) -> Steps {
    match kernel.as_const(factor) {
        Some(number) if number < LONG_STEP => steps,
        _ => steps.lengthened(),
    }
}

fn is_coordinate(kernel: &Function, value: Value) -> bool {
    match kernel.values[value].def {
        ValueDef::Result(inst, _) => match kernel.insts[inst].op {
            Op::Tid => true,
            Op::Cast => is_coordinate(kernel, kernel.insts[inst].operands[0]),
            _ => false,
        },
        ValueDef::Param(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, Scalar, Type, parse_module};

    /// Returns the row's length if the kernel runs in tiles.
    fn order(params: &str, body: &str) -> Option<RowLength> {
        let text = format!("kernel @k({params}) {{\n{body}\nreturn\n}}");
        let module = parse_module(&text, FileId::from_u32(0)).expect("the text is HIR");
        let kernel = module.find("k").expect("it has a kernel `k`");
        TiledOrder::of(&module, kernel, &params_of(&module.functions[kernel])).map(|order| order.row)
    }

    fn params_of(kernel: &Function) -> KernelParams {
        let types: Vec<_> = kernel.params().iter().map(|&param| ("".into(), kernel.ty(param))).collect();
        let n_params = types.len();
        KernelParams::new(types, vec![None; n_params])
    }

    const MATRICES: &str = "%x x: array<f32, 2>, %y y: array<f32, 2>";
    const FLAT: &str = "%x x: array<f32, 1>, %y y: array<f32, 1>, %w w: i32, %h h: i32";
    const ROWS_AND_COLUMNS: &str = "%i: i32 = tid 0\n%j: i32 = tid 1\n";
    const QUOTIENTS: &str = "%i: i32 = tid 0\n%r: i32 = mod %i, %h\n%q: i32 = div %i, %h\n%m: i32 = mul %r, %w\n";

    #[test]
    fn transpositions_run_in_tiles() {
        let loads = "%v: f32 = array_load %x, %j, %i\narray_store %y, %i, %j, %v";
        assert_eq!(order(MATRICES, &format!("{ROWS_AND_COLUMNS}{loads}")), Some(RowLength::LastAxis));
        let stores = "%v: f32 = array_load %x, %i, %j\narray_store %y, %j, %i, %v";
        assert_eq!(order(MATRICES, &format!("{ROWS_AND_COLUMNS}{stores}")), Some(RowLength::LastAxis));
        let flat = "%a: i32 = add %m, %q\n%v: f32 = array_load %x, %a\narray_store %y, %i, %v";
        // Two arrays, the width, and then the height, each in words of 8 bytes.
        let word = 2 * ArgLayout::new([Type::array(Scalar::F32, 1)]).size as usize / 8 + 1;
        assert_eq!(order(FLAT, &format!("{QUOTIENTS}{flat}")), Some(RowLength::Word(word)));
    }

    #[test]
    fn others_run_by_rows() {
        for body in [
            // Rows of both arrays.
            "%v: f32 = array_load %x, %i, %j\narray_store %y, %i, %j, %v",
            // A row for all threads of a row, as in a product of matrices.
            "%v: f32 = array_load %x, %i, %i\narray_store %y, %i, %j, %v",
            // The diagonal: neighbours below are in another line too.
            "%k: i32 = add %i, %j\n%v: f32 = array_load %x, %k, %i\narray_store %y, %i, %j, %v",
            // Others see in which order a sum is made.
            "%v: f32 = array_load %x, %j, %i\n%o: f32 = atomic_add %y, %i, %j, %v",
        ] {
            assert_eq!(order(MATRICES, &format!("{ROWS_AND_COLUMNS}{body}")), None, "{body}");
        }
        let short = "%v: f32 = array_load %x, %r\narray_store %y, %i, %v";
        assert_eq!(order(FLAT, &format!("{QUOTIENTS}{short}")), None);
    }

    #[test]
    fn tiles_are_all_threads_once() {
        for (range, row) in
            [(0..10, 300), (0..300, 300), (5..12_345, 300), (299..601, 300), (0..70_000, 1000), (7..7, 300)]
        {
            let mut ran: Vec<u64> = tiles(range.clone(), row).flatten().collect();
            ran.sort_unstable();
            assert_eq!(ran, range.collect::<Vec<_>>());
        }
        let first: Vec<_> = tiles(0..64_000, 1000).take(3).collect();
        assert_eq!(first, [0..64, 1000..1064, 2000..2064]);
    }
}
