//! Rows, columns and tiles of products that become numbers, and rows that are normalised.

use super::operand::for_each;
use super::outcome::{SharedTile, concluded, joined};
use super::tiling::{TileFragment, WarpTiling};
use crate::generate::expr::GeneratedExpr;
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::Type;

/// A number for each row or column of a tile.
pub(super) fn fold(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    place: &SharedTile<'_>,
    by_row: bool,
    c: &str,
    target: &dyn Fn(&str) -> String,
) {
    let (lines, length) = if by_row { (place.height, place.width) } else { (place.width, place.height) };
    let lane = g.let_text(&["lane", "line_idx", "mine"], "loom.lane_id()");
    let is_float = t.sum == Type::F32;
    let (cast, zero) = if is_float { ("float", "0.0") } else { ("int", "0") };
    let kind = g.random.below(9);
    let names = match kind {
        0 => ["place", "spot"],
        1 => ["highest", "line_max"],
        2 => ["lowest", "line_min"],
        3 => ["projected", "readout_value"],
        _ => ["folded", "line_sum"],
    };
    let total = g.like(&names);
    let j = g.like(&["j", "n", "m", "along"]);
    let element = |j: &str| match by_row {
        true => format!("{}[{lane}, {j}]", place.tile),
        false => format!("{}[{j}, {lane}]", place.tile),
    };
    let big = t.range(16 * t.inner).size();
    let line = if by_row { "row" } else { "column" };
    let body = |g: &mut KernelGenerator| {
        let mut found = None;
        let words;
        match kind {
            // The place of the largest.
            0 => {
                let sign = g.random.pick(&[">", "<"]);
                let names = if sign == ">" { ["top", "largest", "peak"] } else { ["bottom", "smallest", "least"] };
                let top = g.let_text(&names, &element("0"));
                g.line(&format!("{total} = int(0)"));
                g.line(&format!("for {j} in range(1, {length}):"));
                g.indented(|g| {
                    g.line(&format!("if {} {sign} {top}:", element(&j)));
                    g.indented(|g| {
                        g.line(&format!("{top} = {}", element(&j)));
                        g.line(&format!("{total} = {j}"));
                    });
                });
                let what = if sign == ">" { "largest" } else { "smallest" };
                g.say(format!("`{top}` is the {what} element of the {line}"));
                words = format!("`{total}` is its place");
                let own = g.declare(top.clone(), format!("`{top}`"), t.sum, NumberRange::within(big));
                g.taken(&[own]);
                found = Some(own);
            }
            1 | 2 => {
                let call = if kind == 1 { "max" } else { "min" };
                g.line(&format!("{total} = {}", element("0")));
                g.line(&format!("for {j} in range(1, {length}):"));
                g.indented(|g| g.line(&format!("{total} = loom.{call}({total}, {})", element(&j))));
                let what = if kind == 1 { "largest" } else { "smallest" };
                words = format!("`{total}` is the {what} element of the {line}");
            }
            3 => {
                let names = ["proj", "readout", "coefs", "mix"];
                let (low, high) = (t.low.max(-4.0), t.high.min(4.0));
                let weights = g.array_like(&names, t.sum, &[ProgramExtent::Is(length)], low, high);
                g.line(&format!("{total} = {cast}({zero})"));
                g.line(&format!("for {j} in range({length}):"));
                g.indented(|g| g.line(&format!("{total} += {} * {weights}[{j}]", element(&j))));
                words = format!("`{total}` is the dot product of the {line} with `{weights}`");
            }
            _ => {
                g.line(&format!("{total} = {cast}({zero})"));
                g.line(&format!("for {j} in range({length}):"));
                let (mut added, mut own) = (String::new(), String::new());
                let clauses = g.nested(|g| {
                    let x = g.let_like(&["x", "item", "cell"], &element(&j), t.sum, NumberRange::within(big));
                    let depth = 1 + g.random.below(2);
                    let woven = g.moderate_weave(x, &t.extras, depth);
                    own = g.text(x);
                    g.line(&format!("{total} += {}", woven.text));
                    added = woven.words;
                });
                words = match clauses.is_empty() {
                    true => format!("`{total}` is the sum along the {line}, for each element `{own}`, of {added}"),
                    false => {
                        for_each(&format!("`{own}` of the {line}"), &clauses, &format!("`{total}` adds up {added}"))
                    }
                };
            }
        }
        let (ty, text) = if kind == 0 { (t.sum, format!("{cast}({total})")) } else { (t.sum, total.clone()) };
        let range =
            if kind == 0 { NumberRange::new(0.0, length.into()) } else { NumberRange::within(big * f64::from(length)) };
        let value = g.declare(text, format!("`{total}`"), ty, range);
        let mut seen = t.extras.clone();
        seen.push(value);
        seen.extend(found);
        g.say(words);
        let count = g.random.below(1 + usize::from(t.difficulty) / 2);
        g.work(&mut seen, count, 1);
        let depth = 1 + g.random.below(2);
        let result = concluded(g, t, value, &seen, depth);
        g.line(&format!("{} = {}", target(&lane), result.text));
        g.say(format!("`{c}` is {}", result.words));
    };
    let clauses = g.collected(|g| {
        if lines == 32 {
            return body(g);
        }
        g.line(&format!("if {lane} < {lines}:"));
        g.indented(body);
    });
    g.say(format!("For each {line} of {}: {clauses}.", place.words()));
}

/// Writes each row's softmax by `write`, which is given a column and the text of a value.
pub(super) fn softmax(
    g: &mut KernelGenerator,
    tile: &str,
    (height, width): (u32, u32),
    write: impl FnOnce(&mut KernelGenerator, &str, &str),
) {
    let (top, total) = (g.like(&["top", "largest", "peak"]), g.like(&["norm", "denom", "total_exp"]));
    let j = g.like(&["j", "n", "m"]);
    let lane = "loom.lane_id()";
    let body = |g: &mut KernelGenerator| {
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
        g.indented(|g| write(g, &j, &format!("{power} / {total}")));
    };
    if height == 32 {
        return body(g);
    }
    g.line(&format!("if {lane} < {height}:"));
    g.indented(body);
}

/// Writes the rows of a tile, normalised, by `write`, which is given a column and a value, and says where that is.
pub(super) fn normalise(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    place: &SharedTile<'_>,
    write: impl FnOnce(&mut KernelGenerator, &str, GeneratedExpr),
) {
    let clauses = g.collected(|g| normalised(g, t, place, write));
    g.say(format!("For each element of {}: {clauses}.", place.words()));
}

fn normalised(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    place: &SharedTile<'_>,
    write: impl FnOnce(&mut KernelGenerator, &str, GeneratedExpr),
) {
    let (tile, height, width) = (place.tile, place.height, place.width);
    let kind = g.random.below(3);
    let (low, high) = (t.low, t.high);
    let gain = g.random.one_in(2).then(|| {
        let n = t.cols * width;
        g.array_like(&["gamma", "gain", "col_weights", "scales"], Type::F32, &[ProgramExtent::Is(n)], low, high)
    });
    let eps = g.random.pick(&["1e-5", "0.001", "0.1"]);
    let finish = |g: &mut KernelGenerator, j: &str, value: &str, range: NumberRange| {
        let names = if kind == 0 { ["share", "softmax_value"] } else { ["normed", "rescaled"] };
        let value = g.let_like(&names, value, Type::F32, range);
        let name = g.text(value);
        g.say(match kind {
            0 => format!("`{name}` is its share of the softmax of the row"),
            1 => {
                format!(
                    "`{name}` is the element less the mean of the row, over the square root of {eps} plus the row's variance"
                )
            }
            _ => format!("`{name}` is the element over the square root of {eps} plus the mean square of the row"),
        });
        let mut seen = t.extras.clone();
        seen.push(value);
        if let Some(gain) = &gain {
            let text = format!("{gain}[{}]", joined(&t.col, j));
            let index = g.let_like(&[&format!("{gain}_value")], &text, Type::F32, NumberRange::new(low, high));
            let element = g.text(index);
            g.say(format!("`{element}` is the element of `{gain}` of the element's column"));
            seen.push(index);
        }
        let result = concluded(g, t, value, &seen, 1);
        write(g, j, result);
    };
    if kind == 0 {
        return softmax(g, tile, (height, width), |g, j, value| finish(g, j, value, NumberRange::new(0.0, 1.0)));
    }
    let lane = "loom.lane_id()";
    let (sum, squares) = (g.like(&["mean", "centre"]), g.like(&["sq_sum", "squares"]));
    let (j, item) = (g.like(&["j", "n", "m"]), g.like(&["x", "item", "cell"]));
    let body = |g: &mut KernelGenerator| {
        let inverse = g.like(&["inv", "rscale"]);
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
        g.indented(|g| finish(g, &j, &format!("{centred} * {inverse}"), NumberRange::within(8.0)));
    };
    if height == 32 {
        return body(g);
    }
    g.line(&format!("if {lane} < {height}:"));
    g.indented(body);
}

/// A number for each warp.
pub(super) fn whole(g: &mut KernelGenerator, t: &WarpTiling, c: &str, results: &[TileFragment]) {
    let is_float = t.sum == Type::F32;
    let (cast, zero) = if is_float { ("float", "0.0") } else { ("int", "0") };
    let range = t.range(16 * t.inner);
    let total = g.like(&["folded", "lane_sum", "part_sum"]);
    g.line(&format!("{total} = {cast}({zero})"));
    let e = g.like(&["e", "n_e", "part_idx"]);
    g.line(&format!("for {e} in range({}):", t.lanes()));
    let (mut own, mut added) = (Vec::new(), Vec::new());
    let clauses = g.nested(|g| {
        for fragment in results {
            let x = g.let_like(&["x", "item", "cell"], &format!("{}[{e}]", fragment.name), t.sum, range);
            let depth = 1 + usize::from(t.difficulty > 1);
            let woven = g.moderate_weave(x, &t.extras, depth);
            g.line(&format!("{total} += {}", woven.text));
            own.push(format!("`{}` of `{}`", g.text(x), fragment.name));
            added.push(woven.words);
        }
    });
    let last = format!("`{total}` adds up {} in its lane", added.join(" and "));
    g.say(for_each(&own.join(" and each element "), &clauses, &last));
    // Otherwise the largest would depend on which elements a lane has.
    let range = NumberRange::within(8.0 * 512.0);
    let joint = g.let_like(&["joint", "whole", "tile_total"], &format!("loom.warp_reduce_add({total})"), t.sum, range);
    let name = g.text(joint);
    g.explain(format!("`{name}` is the sum of the lanes' `{total}`."));
    let mut seen = t.extras.clone();
    seen.push(joint);
    let result = concluded(g, t, joint, &seen, 1);
    g.line("if loom.lane_id() == 0:");
    g.nested(|g| g.line(&format!("{c}[loom.block_idx()] = {}", result.text)));
    g.say(format!("For each warp, `{c}` is {}.", result.words));
}
