//! Rows, columns and tiles of products that become numbers, and rows that are normalised.

use super::outcome::{Place, concluded, joined};
use super::tiling::{Fragment, Tiling};
use crate::generate::expr::Expr;
use crate::generate::generator::{Generator, capitalised};
use crate::generate::program::Extent;
use crate::generate::range::Range;
use polyloom::Type;

/// A number for each row or column of a tile: what it is, in words.
pub(super) fn fold(
    g: &mut Generator,
    t: &Tiling,
    place: &Place<'_>,
    by_row: bool,
    target: &dyn Fn(&str) -> String,
) -> String {
    let (lines, length) = if by_row { (place.height, place.width) } else { (place.width, place.height) };
    let lane = g.let_text(&["lane", "line_idx", "mine"], "loom.lane_id()");
    let is_float = t.sum == Type::F32;
    let (cast, zero) = if is_float { ("float", "0.0") } else { ("int", "0") };
    let kind = g.random.below(9);
    let total = g.like(&["folded", "summary", "found", "joined"]);
    let j = g.like(&["j", "n", "m", "along"]);
    let element = |j: &str| match by_row {
        true => format!("{}[{lane}, {j}]", place.tile),
        false => format!("{}[{j}, {lane}]", place.tile),
    };
    let big = t.range(16 * t.inner).size();
    let line = if by_row { "row" } else { "column" };
    let mut words = String::new();
    let mut body = |g: &mut Generator| {
        let mut found = None;
        let clauses;
        match kind {
            // The place of the largest.
            0 => {
                let sign = g.random.pick(&[">", "<"]);
                let names = if sign == ">" { ["top", "largest", "peak"] } else { ["bottom", "smallest", "least"] };
                let top = g.let_text(&names, &element("0"));
                g.line(&format!("{total} = int(0)"));
                g.line(&format!("for {j} in range(1, {length}):"));
                clauses = g.nested(|g| {
                    g.line(&format!("if {} {sign} {top}:", element(&j)));
                    g.nested(|g| {
                        g.line(&format!("{top} = {}", element(&j)));
                        g.line(&format!("{total} = {j}"));
                    });
                });
                let what = if sign == ">" { "largest" } else { "smallest" };
                words = format!("the place of the {what} element of the {line}");
                let own = g.declare(top.clone(), format!("`{top}`"), t.sum, Range::within(big));
                g.taken(&[own]);
                found = Some(own);
            }
            1 | 2 => {
                let call = if kind == 1 { "max" } else { "min" };
                g.line(&format!("{total} = {}", element("0")));
                g.line(&format!("for {j} in range(1, {length}):"));
                clauses = g.nested(|g| g.line(&format!("{total} = loom.{call}({total}, {})", element(&j))));
                words = format!("the {} element of the {line}", if kind == 1 { "largest" } else { "smallest" });
            }
            3 => {
                let names = ["proj", "readout", "coefs", "mix"];
                let (low, high) = (t.low.max(-4.0), t.high.min(4.0));
                let weights = g.array_like(&names, t.sum, &[Extent::Is(length)], low, high);
                g.line(&format!("{total} = {cast}({zero})"));
                g.line(&format!("for {j} in range({length}):"));
                clauses = g.nested(|g| g.line(&format!("{total} += {} * {weights}[{j}]", element(&j))));
                words = format!("the dot product of the {line} with `{weights}`");
            }
            _ => {
                g.line(&format!("{total} = {cast}({zero})"));
                g.line(&format!("for {j} in range({length}):"));
                clauses = g.nested(|g| {
                    let x = g.let_like(&["x", "item", "cell"], &element(&j), t.sum, Range::within(big));
                    let depth = 1 + g.random.below(2);
                    let woven = g.moderate_weave(x, &t.extras, depth);
                    let name = g.text(x);
                    g.line(&format!("{total} += {}", woven.text));
                    words = format!("the sum along the {line}, for each element `{name}`, of {}", woven.words);
                });
            }
        }
        if !clauses.is_empty() {
            g.explain(format!("For each element: {clauses}."));
        }
        let (ty, text) = if kind == 0 { (t.sum, format!("{cast}({total})")) } else { (t.sum, total.clone()) };
        let range = if kind == 0 { Range::new(0.0, length.into()) } else { Range::within(big * f64::from(length)) };
        let value = g.declare(text, format!("`{total}`"), ty, range);
        let mut seen = t.extras.clone();
        seen.push(value);
        seen.extend(found);
        g.explain(format!("`{total}` is {words}."));
        let count = g.random.below(1 + usize::from(t.difficulty) / 2);
        g.work(&mut seen, count, 1);
        let result = concluded(g, t, value, &seen, 1 + g.random.clone().below(2));
        g.line(&format!("{} = {}", target(&lane), result.text));
        words = result.words;
    };
    if lines == 32 {
        body(g);
    } else {
        g.line(&format!("if {lane} < {lines}:"));
        let clauses = g.nested(body);
        if !clauses.is_empty() {
            g.explain(format!("For each {line} of a tile: {clauses}."));
        }
    }
    words
}

/// Writes each row's softmax by `write`, which is given a column and the text of a value.
pub(super) fn softmax(
    g: &mut Generator,
    tile: &str,
    (height, width): (u32, u32),
    write: impl FnOnce(&mut Generator, &str, &str),
) {
    let (top, total) = (g.like(&["top", "largest", "peak"]), g.like(&["norm", "denom", "total_exp"]));
    let j = g.like(&["j", "n", "m"]);
    let lane = "loom.lane_id()";
    let body = |g: &mut Generator| {
        g.line(&format!("{top} = {tile}[{lane}, 0]"));
        g.line(&format!("for {j} in range(1, {width}):"));
        g.nested(|g| g.line(&format!("{top} = loom.max({top}, {tile}[{lane}, {j}])")));
        g.line(&format!("{total} = float(0.0)"));
        g.line(&format!("for {j} in range({width}):"));
        let keeps = g.random.one_in(2);
        let power = format!("loom.exp({tile}[{lane}, {j}] - {top})");
        g.nested(|g| match keeps {
            true => {
                g.line(&format!("{tile}[{lane}, {j}] = {power}"));
                g.line(&format!("{total} = {total} + {tile}[{lane}, {j}]"));
            }
            false => g.line(&format!("{total} += {power}")),
        });
        g.line(&format!("for {j} in range({width}):"));
        let power = if keeps { format!("{tile}[{lane}, {j}]") } else { power };
        g.nested(|g| write(g, &j, &format!("{power} / {total}")));
    };
    if height == 32 {
        body(g);
    } else {
        g.line(&format!("if {lane} < {height}:"));
        g.nested(body);
    }
}

/// Writes the rows of a tile, normalised, by `write`, which is given a column and a value. What they are, in words.
pub(super) fn normalise(
    g: &mut Generator,
    t: &Tiling,
    place: &Place<'_>,
    write: impl FnOnce(&mut Generator, &str, Expr),
) -> String {
    let (tile, height, width) = (place.tile, place.height, place.width);
    let mut words = String::new();
    let kind = g.random.below(3);
    let (low, high) = (t.low, t.high);
    let gain = g.random.one_in(2).then(|| {
        let n = t.cols * width;
        g.array_like(&["gamma", "gain", "col_weights", "scales"], Type::F32, &[Extent::Is(n)], low, high)
    });
    let finish = |g: &mut Generator, j: &str, value: &str, range: Range| {
        let value = g.let_like(&["unit", "normed", "share"], value, Type::F32, range);
        let mut seen = t.extras.clone();
        seen.push(value);
        if let Some(gain) = &gain {
            let text = format!("{gain}[{}]", joined(&t.col, j));
            seen.push(g.declare(text, format!("`{gain}`"), Type::F32, Range::new(low, high)));
        }
        let result = concluded(g, t, value, &seen, 1);
        let name = g.text(value);
        words = format!("{}, where `{name}` is", result.words);
        write(g, j, result);
    };
    if kind == 0 {
        softmax(g, tile, (height, width), |g, j, value| finish(g, j, value, Range::new(0.0, 1.0)));
        return format!("{words} their softmax");
    }
    let lane = "loom.lane_id()";
    let (sum, squares) = (g.like(&["mean", "row_sum", "centre"]), g.like(&["sq_sum", "squares"]));
    let (j, item) = (g.like(&["j", "n", "m"]), g.like(&["x", "item", "cell"]));
    let eps = g.random.pick(&["1e-5", "0.001", "0.1"]);
    let body = |g: &mut Generator| {
        let inverse = g.like(&["inv", "inv_std", "rscale"]);
        if kind == 1 {
            g.line(&format!("{sum} = float(0.0)"));
            g.line(&format!("for {j} in range({width}):"));
            g.nested(|g| g.line(&format!("{sum} += {tile}[{lane}, {j}]")));
            g.line(&format!("{sum} = {sum} / {width}.0"));
        }
        g.line(&format!("{squares} = float(0.0)"));
        g.line(&format!("for {j} in range({width}):"));
        let centred = if kind == 1 { format!("{tile}[{lane}, {j}] - {sum}") } else { format!("{tile}[{lane}, {j}]") };
        g.nested(|g| {
            g.line(&format!("{item} = {centred}"));
            g.line(&format!("{squares} += {item} * {item}"));
        });
        g.line(&format!("{inverse} = 1.0 / loom.sqrt({squares} / {width}.0 + {eps})"));
        g.line(&format!("for {j} in range({width}):"));
        let centred = if kind == 1 { format!("({centred})") } else { centred };
        g.nested(|g| finish(g, &j, &format!("{centred} * {inverse}"), Range::within(8.0)));
    };
    if height == 32 {
        body(g);
    } else {
        g.line(&format!("if {lane} < {height}:"));
        g.nested(body);
    }
    match kind {
        1 => format!("{words} what is left of a row without its mean, over its standard deviation"),
        _ => format!("{words} a row over the root of its mean square"),
    }
}

/// A number for each warp: what it is, in words, of elements `x`.
pub(super) fn whole(g: &mut Generator, t: &Tiling, c: &str, results: &[Fragment]) -> String {
    let is_float = t.sum == Type::F32;
    let (cast, zero) = if is_float { ("float", "0.0") } else { ("int", "0") };
    let range = t.range(16 * t.inner);
    let total = g.like(&["folded", "lane_sum", "part_sum"]);
    g.line(&format!("{total} = {cast}({zero})"));
    let e = g.like(&["e", "n_e", "part_idx"]);
    g.line(&format!("for {e} in range({}):", t.lanes()));
    let mut words = Vec::new();
    let clauses = g.nested(|g| {
        for fragment in results {
            let x = g.let_like(&["x"], &format!("{}[{e}]", fragment.name), t.sum, range);
            let depth = 1 + usize::from(t.difficulty > 1);
            let woven = g.moderate_weave(x, &t.extras, depth);
            g.line(&format!("{total} += {}", woven.text));
            words.push(woven.words);
        }
    });
    g.explain("`x` is an element of the product.".to_owned());
    if !clauses.is_empty() {
        g.explain(format!("{}.", capitalised(&clauses)));
    }
    let (call, what) = match g.random.below(3) {
        0 => ("warp_reduce_max", "the largest of the lanes' sums of"),
        1 => ("warp_reduce_min", "the smallest of the lanes' sums of"),
        _ => ("warp_reduce_add", "the sum of"),
    };
    let joint = g.let_like(
        &["joint", "whole", "tile_total"],
        &format!("loom.{call}({total})"),
        t.sum,
        Range::within(8.0 * 512.0),
    );
    let name = g.text(joint);
    g.explain(format!("`{name}` is {what} {}.", words.join(" and ")));
    let mut seen = t.extras.clone();
    seen.push(joint);
    let result = concluded(g, t, joint, &seen, 1);
    g.line("if loom.lane_id() == 0:");
    g.nested(|g| g.line(&format!("{c}[loom.block_idx()] = {}", result.text)));
    result.words
}
