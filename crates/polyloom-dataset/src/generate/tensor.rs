//! Matrix products by the tensor core, with what is done to the factors and to the product.

use super::domain::Need;
use super::elementwise::begin;
use super::expr::Expr;
use super::generator::Generator;
use super::program::{Category, Extent, Program, Values};
use super::range::Range;
use polyloom::{Random, Scalar, Type};

/// A kernel of matrix products.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<Program> {
    let mut g = begin(random, Category::TensorCore);
    // A product with nothing done to it is one kernel.
    let difficulty = difficulty.max(1);
    g.of_polyloom();
    let factor = g.random.pick(&[Scalar::F16, Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::I8, Scalar::U8]);
    let sum: Type = if factor.is_float() { Type::F32 } else { Type::I32 };
    (g.real, g.whole) = (Type::F32, Type::I32);
    g.scalars = vec![if factor.is_float() { Scalar::F32 } else { Scalar::I32 }];
    g.composites.clear();
    let factor_ty = Type::Scalar(factor);
    // Extents in tiles.
    let (rows, cols, inner) = (g.random.pick(&[1, 2]), g.random.pick(&[1, 2]), g.random.pick(&[1, 2, 3]));
    let width: u32 = g.random.pick(&[16, 16, 8]);
    let warps = rows * cols;
    g.in_blocks(32, 32 * warps);
    let (m, n, k) = (16 * rows, width * cols, 16 * inner);
    let (a_by_col, b_by_col) = (g.random.one_in(4), g.random.one_in(4));
    let (low, high) = match factor {
        Scalar::U8 => (0.0, 9.0),
        Scalar::I8 => (-6.0, 6.0),
        _ => (-1.0, 1.0),
    };
    let turned = |by_col: bool, rows: u32, cols: u32| match by_col {
        true => [Extent::Is(cols), Extent::Is(rows)],
        false => [Extent::Is(rows), Extent::Is(cols)],
    };
    let a = g.array_like(&["a", "left", "lhs", "q"], factor_ty, &turned(a_by_col, m, k), low, high);
    let b = g.array_like(&["b", "right", "rhs", "weights"], factor_ty, &turned(b_by_col, k, n), low, high);
    let from_c = g.random.one_in(3);
    let shape = [Extent::Is(m), Extent::Is(n)];
    let c = g.like(&["c", "out", "product", "dst"]);
    let values = if from_c { Values::Between { low: -1.0, high: 1.0 } } else { Values::Zeros };
    g.param(&c, sum, shape.to_vec(), values);
    let (row, col) = (g.like(&["row", "tile_row", "r0"]), g.like(&["col", "tile_col", "c0"]));
    match (rows, cols) {
        (_, 1) => {
            g.line(&format!("{row} = loom.block_idx() * 16"));
            g.line(&format!("{col} = 0"));
        }
        (1, _) => {
            g.line(&format!("{row} = 0"));
            g.line(&format!("{col} = loom.block_idx() * {width}"));
        }
        _ => {
            g.line(&format!("{row} = loom.block_idx() // {cols} * 16"));
            g.line(&format!("{col} = loom.block_idx() % {cols} * {width}"));
        }
    }
    let part = if width == 8 { ", n=8" } else { "" };
    let total = g.like(&["total", "acc", "sums", "frag"]);
    let lanes = width / 2;
    let zeros = g.random.one_in(2) && !from_c && sum == Type::F32 && width == 8;
    match zeros {
        true => g.line(&format!("{total} = loom.vec4(0.0, 0.0, 0.0, 0.0)")),
        false => g.line(&format!("{total} = loom.mma_load_c({c}, {row}, {col}{part})")),
    }
    let mut extras: Vec<usize> = Vec::new();
    for _ in 0..g.random.below(2 + usize::from(difficulty) / 2) {
        let (low, high) = g.limits(sum);
        extras.push(g.scalar(sum, low, high));
    }
    let staged = difficulty > 1 && g.random.one_in(3) && !a_by_col;
    let step = g.like(&["k", "step", "s"]);
    let sentence = format!("`{c}` is the product of `{a}` and `{b}`");
    let mut prologue = String::new();
    let tile = staged.then(|| {
        let tile = g.like(&["tile", "stage", "staged"]);
        let dtype = g.type_name(factor_ty);
        g.line(&format!("{tile} = loom.shared_array(shape=(16, 16), dtype={dtype})"));
        tile
    });
    let bound = match g.random.one_in(2) {
        true => inner.to_string(),
        false => format!("{a}.shape[{}] // 16", usize::from(!a_by_col)),
    };
    g.line(&format!("for {step} in range({bound}):"));
    let place = |array: &str, by_col: bool, row: &str, col: &str, more: &str| {
        let layout = if by_col { ", layout=\"col\"" } else { "" };
        format!("({array}, {row}, {col}{more}{layout})")
    };
    let at = format!("{step} * 16");
    let named = g.random.one_in(2);
    let names = (g.like(&["fa", "part_a", "left_frag"]), g.like(&["fb", "part_b", "right_frag"]));
    g.nested(|g| {
        let load_a = match &tile {
            Some(tile) => {
                let e = g.like(&["e", "n_e", "w"]);
                g.line(&format!("for {e} in range(8):"));
                g.nested(|g| {
                    let at_tile = g.like(&["p", "flat", "spot"]);
                    g.line(&format!("{at_tile} = {e} * 32 + loom.lane_id()"));
                    let source = format!("{a}[{row} + {at_tile} // 16, {at} + {at_tile} % 16]");
                    let cast = if factor.is_float() { "float" } else { "int" };
                    let value =
                        g.let_like(&["x", "raw", "item"], &format!("{cast}({source})"), sum, Range::new(low, high));
                    let woven = g.weave(value, &extras, 1);
                    // Factors stay small, and whole ones in a byte.
                    let woven = match factor.is_float() {
                        true => g.constrain(woven, Need::Moderate),
                        false => {
                            let woven = g.short(woven);
                            let size = Expr::call("loom.abs", &[&woven], sum, Range::ANY);
                            Expr::binary("%", &size, &Expr::int(7), sum, Range::new(0.0, 6.0))
                        }
                    };
                    let dtype = g.type_name(factor_ty);
                    let stored =
                        if factor == Scalar::F32 { woven.text.clone() } else { format!("{dtype}({})", woven.text) };
                    g.line(&format!("{tile}[{at_tile} // 16, {at_tile} % 16] = {stored}"));
                    prologue = format!(" after each element of `{a}` has become {}, it being the raw one", woven.words);
                });
                g.line("loom.sync_threads()");
                format!("loom.mma_load_a({tile}, 0, 0)")
            }
            None => format!("loom.mma_load_a{}", place(&a, a_by_col, &row, &at, "")),
        };
        let load_b = format!("loom.mma_load_b{}", place(&b, b_by_col, &at, &col, part));
        let single = format!("{total} = loom.mma({load_a}, {load_b}, {total})");
        if named || single.len() > 72 {
            g.line(&format!("{} = {load_a}", names.0));
            g.line(&format!("{} = {load_b}", names.1));
            g.line(&format!("{total} = loom.mma({}, {}, {total})", names.0, names.1));
        } else {
            g.line(&single);
        }
        if tile.is_some() {
            g.line("loom.sync_threads()");
        }
    });
    g.explain(format!("The product is made in tiles of 16 by {width}, each by a warp."));
    let added = if from_c { ", added to what was there" } else { "" };
    let mut epilogue = String::new();
    g.gap();
    let with_bias = g.random.one_in(3);
    let element = g.like(&["e", "n_e", "part_idx"]);
    let body = |g: &mut Generator, epilogue: &mut String| {
        // In a fragment the elements have no place that a program knows.
        let item = format!("{total}[{element}]");
        let big = f64::from(k) * low.abs().max(high.abs()).max(8.0).powi(2) + 1.0;
        let value = g.let_like(&["y", "z", "v", "entry"], &item, sum, Range::within(big));
        let mut seen = extras.clone();
        seen.push(value);
        let n = g.random.below(2 + usize::from(difficulty));
        g.work(&mut seen, n, 1);
        let depth = 1 + usize::from(difficulty > 1 || g.random.one_in(2));
        let woven = g.concluded(value, &seen, depth);
        let name = g.text(value);
        g.line(&format!("{item} = {}", woven.text));
        *epilogue = format!(", each element `{name}` of which has become {}", woven.words);
    };
    g.line(&format!("for {element} in range({lanes}):"));
    let clauses = g.nested(|g| body(g, &mut epilogue));
    if !clauses.is_empty() {
        g.explain(format!("For each element: {clauses}."));
    }
    g.line(&format!("loom.mma_store({c}, {row}, {col}, {total})"));
    if with_bias {
        // The store is seen by the other lanes after the barrier.
        let bias =
            g.array_like(&["bias", "shift", "row_scale", "mask"], sum, &[Extent::Is(n)], low.max(-4.0), high.min(4.0));
        g.line("loom.sync_threads()");
        let (e, p) = (g.like(&["q_e", "u", "each"]), g.like(&["q", "at_out", "cell"]));
        g.line(&format!("for {e} in range({}):", 16 * width / 32));
        let range = Range::within(1e4);
        let done = g.nested(|g| {
            g.line(&format!("{p} = {e} * 32 + loom.lane_id()"));
            let (r, q) = (g.like(&["r", "rr", "y_at"]), g.like(&["s_at", "cc", "x_at"]));
            g.line(&format!("{r} = {row} + {p} // {width}"));
            g.line(&format!("{q} = {col} + {p} % {width}"));
            let value = g.let_like(&["stored", "kept", "own"], &format!("{c}[{r}, {q}]"), sum, range);
            let shift = g.declare(format!("{bias}[{q}]"), format!("`{bias}`"), sum, Range::new(low, high));
            let woven = g.weave(value, &[shift], 1);
            let woven = g.with_unused_from(woven, value);
            g.line(&format!("{c}[{r}, {q}] = {}", woven.text));
            let value = g.text(value);
            g.say(format!("`{value}` becomes {}", woven.words));
        });
        g.explain(format!("Then each element goes through one more step: {done}."));
    }
    g.say(format!("{sentence}{prologue}{added}{epilogue}."));
    g.review();
    if extras.iter().any(|&index| !g.variables[index].used) {
        return None;
    }
    g.finish(Category::TensorCore, difficulty)
}
