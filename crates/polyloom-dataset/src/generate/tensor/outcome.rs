//! What becomes of products: elements change in the lanes' parts or in a tile of shared memory, and the result is stored.

use super::operand::{for_each, walk};
use super::rows::{fold, normalise, whole};
use super::tiling::{Fragment, Kind, Tiling};
use super::{begins, plus, stored};
use crate::generate::docstring::list;
use crate::generate::domain::Need;
use crate::generate::expr::Expr;
use crate::generate::generator::Generator;
use crate::generate::program::Extent;
use crate::generate::range::Range;
use polyloom::{Scalar, Type};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The lanes' parts are stored.
    Fragment,
    /// Lanes store elements of a tile, of which they know the places.
    Tile,
    /// A number for each row of a tile, or each column.
    Rows,
    Columns,
    /// Rows that are normalised.
    Normalised,
    /// A number for each warp.
    Whole,
}

/// Describes what a kernel leaves.
pub(super) struct Outcome {
    form: Form,
    /// True if the result is added to what its array holds.
    adds: bool,
    /// True if its array is indexed by the column first.
    by_col: bool,
    ty: Type,
}

impl Outcome {
    pub(super) fn draw(g: &mut Generator, t: &Tiling, kind: Kind) -> Outcome {
        let is_float = t.sum == Type::F32;
        let form = g.random.pick(&[
            Form::Fragment,
            Form::Fragment,
            Form::Tile,
            Form::Tile,
            Form::Tile,
            Form::Rows,
            Form::Rows,
            Form::Columns,
            if is_float { Form::Normalised } else { Form::Columns },
            Form::Whole,
        ]);
        let adds = form == Form::Fragment && !matches!(kind, Kind::Chain | Kind::Gated) && g.random.one_in(2);
        let by_col = matches!(form, Form::Fragment | Form::Tile | Form::Normalised) && g.random.one_in(4);
        let narrow = matches!(form, Form::Tile | Form::Normalised) && is_float && g.random.one_in(4);
        let ty = if narrow { g.random.pick(&[Scalar::F16, Scalar::BF16]).into() } else { t.sum };
        Outcome { form, adds, by_col, ty }
    }

    /// The array of the result.
    pub(super) fn declare(&self, g: &mut Generator, t: &Tiling, kind: Kind) -> String {
        let (m, n, _) = t.extents(kind);
        let (m, bands) = (m * t.batches, t.rows * t.batches);
        let shape = match self.form {
            Form::Fragment | Form::Tile | Form::Normalised if self.by_col => vec![n, m],
            Form::Fragment | Form::Tile | Form::Normalised => vec![m, n],
            Form::Rows if t.cols == 1 => vec![m],
            Form::Rows => vec![m, t.cols],
            Form::Columns if bands == 1 => vec![n],
            Form::Columns => vec![bands, n],
            Form::Whole => vec![bands * t.cols],
        };
        let c = g.like(&["c", "out", "result", "dst"]);
        g.param(&c, self.ty, shape.into_iter().map(Extent::Is).collect(), begins(self.adds));
        c
    }

    pub(super) fn adds(&self) -> bool {
        self.adds
    }

    /// The kernel in one line.
    pub(super) fn summary(&self, c: &str, product: &str) -> String {
        let what = match self.form {
            _ if self.adds => format!("Add {product} to `{c}`, then change its elements."),
            Form::Fragment | Form::Tile => format!("Store {product}, its elements changed, in `{c}`."),
            Form::Rows => format!("Reduce the rows of {product} to `{c}`."),
            Form::Columns => format!("Reduce the columns of {product} to `{c}`."),
            Form::Normalised => format!("Normalise the rows of {product} into `{c}`."),
            Form::Whole => format!("Reduce tiles of {product} to `{c}`."),
        };
        let short = match self.form {
            _ if self.adds => format!("Add tensor-core products to `{c}`, then change its elements."),
            Form::Fragment | Form::Tile => format!("Store tensor-core products, their elements changed, in `{c}`."),
            Form::Normalised => format!("Normalise the rows of tensor-core products into `{c}`."),
            _ => format!("Reduce tensor-core products to `{c}`."),
        };
        [what, short].into_iter().find(|line| line.len() <= 78).unwrap_or_default()
    }

    /// Returns what is said of an element of the result, or of where it is.
    fn there(&self) -> &'static str {
        if self.by_col { "at the transposed place" } else { "there" }
    }

    /// Returns how a call names the array's order of axes.
    pub(super) fn layout(&self) -> &'static str {
        if self.by_col { ", layout=\"col\"" } else { "" }
    }

    /// Writes the lines after the products.
    pub(super) fn write(&self, g: &mut Generator, t: &Tiling, kind: Kind, c: &str, fragments: &[Fragment]) {
        let (m, ..) = t.extents(kind);
        let (gate, results) = match kind {
            Kind::Gated => (Some(&fragments[1]), &fragments[..1]),
            _ => (None, fragments),
        };
        g.gap();
        if self.form == Form::Fragment || gate.is_some() || g.random.one_in(2) {
            each_element(g, t, results, gate);
        }
        let row = t.of_batch(&t.row, m);
        if self.form == Form::Fragment {
            for fragment in results {
                let (row, col) = (plus(&row, fragment.down), plus(&t.col, fragment.right));
                g.line(&format!("loom.mma_store({c}, {row}, {col}, {}{})", fragment.name, self.layout()));
            }
            let names: Vec<&str> = results.iter().map(|fragment| fragment.name.as_str()).collect();
            let turned = if self.by_col { ", transposed" } else { "" };
            return g.say(format!("`{c}` is made up of the warps' {}{turned}.", list(&names)));
        }
        if self.form == Form::Whole {
            return whole(g, t, c, results);
        }
        let (down, right) = Tiling::strips(kind);
        let (height, width) = (16 * down, t.width * right);
        let tile = g.like(&["tile_c", "block_out", "result_tile", "patch"]);
        let dtype = if t.sum == Type::F32 { "float" } else { "int" };
        g.line(&format!("{tile} = loom.shared_array(shape=({height}, {width}), dtype={dtype})"));
        for Fragment { name, down, right } in results {
            g.line(&format!("loom.mma_store({tile}, {down}, {right}, {name})"));
        }
        g.line("loom.sync_threads()");
        let element = |r: &str, q: &str| {
            let (r, q) = (joined(&row, r), joined(&t.col, q));
            if self.by_col { format!("{c}[{q}, {r}]") } else { format!("{c}[{r}, {q}]") }
        };
        let place = Place { tile: &tile, row: &row, height, width, n_parts: results.len() };
        match self.form {
            Form::Rows | Form::Columns => {
                let by_row = self.form == Form::Rows;
                let target = |lane: &str| match by_row {
                    true if t.cols == 1 => format!("{c}[{}]", joined(&row, lane)),
                    true => format!("{c}[{}, {} // {width}]", joined(&row, lane), t.col),
                    false if t.rows * t.batches == 1 => format!("{c}[{}]", joined(&t.col, lane)),
                    false => {
                        let row = if row.contains(' ') { format!("({row})") } else { row.clone() };
                        format!("{c}[{row} // {height}, {}]", joined(&t.col, lane))
                    }
                };
                fold(g, t, &place, by_row, c, &target);
            }
            Form::Normalised => normalise(g, t, &place, |g, j, value| {
                let target = element("loom.lane_id()", j);
                let value = stored(g, value, self.ty);
                g.line(&format!("{target} = {}", value.text));
                g.say(format!("`{c}` {} is {}", self.there(), value.words));
            }),
            _ => each_place(g, t, kind, &place, self.ty, |g, r, q, value| {
                let value = stored(g, value, self.ty);
                g.line(&format!("{} = {}", element(r, q), value.text));
                g.say(format!("`{c}` {} is {}", self.there(), value.words));
            }),
        }
    }
}

/// A tile of the result in shared memory.
pub(super) struct Place<'a> {
    pub(super) tile: &'a str,
    /// The row of the result that it begins with.
    row: &'a str,
    pub(super) height: u32,
    pub(super) width: u32,
    /// Number of parts of the product are in it.
    n_parts: usize,
}

impl Place<'_> {
    /// Returns what it is called.
    pub(super) fn words(&self) -> &'static str {
        if self.n_parts > 1 { "both tiles together" } else { "the tile" }
    }
}

pub(super) fn joined(place: &str, more: &str) -> String {
    if place == "0" { more.to_owned() } else { format!("{place} + {more}") }
}

/// Changes each element of the lanes' parts, of which nobody knows the places.
pub(super) fn each_element(g: &mut Generator, t: &Tiling, results: &[Fragment], gate: Option<&Fragment>) {
    let element = g.like(&["e", "n_e", "part_idx"]);
    let range = t.range(16 * t.inner);
    let (mut own, last) = (Vec::new(), results.len() - 1);
    let mut outcome = String::new();
    g.line(&format!("for {element} in range({}):", t.lanes()));
    let clauses = g.nested(|g| {
        for (at, fragment) in results.iter().enumerate() {
            let item = format!("{}[{element}]", fragment.name);
            let value = g.let_like(&["y", "z", "v", "entry"], &item, t.sum, range);
            let mut seen = t.extras.clone();
            seen.push(value);
            own.push(format!("`{}` of `{}`", g.text(value), fragment.name));
            if let Some(gate) = gate {
                let text = format!("{}[{element}]", gate.name);
                let other = g.let_like(&["h", "opening", "other"], &text, t.sum, range);
                own.push(format!("`{}` of `{}` in its place", g.text(other), gate.name));
                seen.push(other);
            }
            let n = g.random.below(2 + usize::from(t.difficulty));
            g.work(&mut seen, n, 1);
            let depth = 1 + usize::from(t.difficulty > 1 || g.random.one_in(2));
            let woven = concluded(g, t, value, &seen, depth);
            let name = g.text(value);
            g.line(&format!("{item} = {}", woven.text));
            let becomes = format!("`{name}` becomes {}", woven.words);
            if at == last { outcome = becomes } else { g.say(becomes) }
        }
    });
    g.say(for_each(&own.join(" and each element "), &clauses, &outcome));
}

/// A value for a result, behind an activation now and then.
pub(super) fn concluded(g: &mut Generator, t: &Tiling, base: usize, seen: &[usize], depth: usize) -> Expr {
    if t.sum != Type::F32 || !g.random.one_in(3) {
        return g.concluded(base, seen, depth);
    }
    let value = g.concluded(base, seen, depth.saturating_sub(1));
    let value = g.name(value);
    let (x, high) = (&value.text, value.range.size());
    let (text, what, range) = match g.random.below(8) {
        0 => (format!("loom.max({x}, 0.0)"), "{} rectified", Range::new(0.0, high)),
        1 => {
            (format!("loom.where({x} > 0.0, {x}, 0.01 * {x})"), "{} rectified with a leak of 0.01", Range::within(high))
        }
        2 => (format!("{x} / (1.0 + loom.exp(-{x}))"), "{} times its own logistic function", Range::within(high)),
        3 => (format!("1.0 / (1.0 + loom.exp(-{x}))"), "the logistic function of {}", Range::new(0.0, 1.0)),
        4 => (
            format!("0.5 * {x} * (1.0 + loom.erf(0.70710677 * {x}))"),
            "{} times the normal distribution up to it",
            Range::within(high),
        ),
        5 => (format!("{x} * loom.clamp({x} / 6.0 + 0.5, 0.0, 1.0)"), "the hard swish of {}", Range::within(high)),
        6 => (format!("{x} / (1.0 + loom.abs({x}))"), "the soft sign of {}", Range::within(1.0)),
        _ => (
            format!("loom.max({x}, 0.0) + loom.log(1.0 + loom.exp(-loom.abs({x})))"),
            "the softplus of {}",
            Range::new(0.0, high + 1.0),
        ),
    };
    let mut expr = Expr::atom(text, Type::F32, range);
    expr.words = what.replace("{}", &value.words);
    expr.uses = value.uses;
    let expr = g.name(expr);
    g.constrain(expr, Need::Finite)
}

/// Each element of a tile, with what depends on its place, by `write`, which says where that is.
fn each_place(
    g: &mut Generator,
    t: &Tiling,
    kind: Kind,
    place: &Place<'_>,
    ty: Type,
    write: impl FnOnce(&mut Generator, &str, &str, Expr),
) {
    let (m, n, _) = t.extents(kind);
    let (m, tile) = (m * t.batches, place.tile);
    let (low, high) = (t.low.max(-4.0), t.high.min(4.0));
    // What is there for each column, each row or each element.
    let mut beside = Vec::new();
    for _ in 0..1 + g.random.below(2) {
        let (row, col) = (place.row.to_owned(), t.col.clone());
        match g.random.below(5) {
            0 | 1 => {
                let name = g.array_like(&["bias", "shift", "col_scale"], t.sum, &[Extent::Is(n)], low, high);
                beside.push((name, None, Some(col)));
            }
            2 => {
                let name = g.array_like(&["row_scale", "gain", "row_bias"], t.sum, &[Extent::Is(m)], low, high);
                beside.push((name, Some(row), None));
            }
            3 => {
                let shape = [Extent::Is(m), Extent::Is(n)];
                let name = g.array_like(&["residual", "skip", "base", "target"], t.sum, &shape, low, high);
                beside.push((name, Some(row), Some(col)));
            }
            _ => {}
        }
    }
    let mask = g.random.one_in(3);
    let mut own = String::new();
    let clauses = walk(g, place.height, place.width, |g, r, q| {
        let value = g.let_like(&["stored", "kept", "own"], &format!("{tile}[{r}, {q}]"), t.sum, Range::within(1e4));
        let mut seen = t.extras.clone();
        for (name, row, col) in &beside {
            let axis = |place: &Option<String>, at: &str| place.as_ref().map(|place| joined(place, at));
            let indices: Vec<String> = axis(row, r).into_iter().chain(axis(col, q)).collect();
            let text = format!("{name}[{}]", indices.join(", "));
            let what = match (row, col) {
                (Some(_), Some(_)) => "in the lane's place",
                (Some(_), None) => "of the lane's row",
                _ => "of the lane's column",
            };
            let index = g.let_like(&[&format!("{name}_value")], &text, t.sum, Range::new(low, high));
            let element = g.text(index);
            g.say(format!("`{element}` is the element of `{name}` {what}"));
            seen.push(index);
        }
        seen.push(value);
        let count = g.random.below(1 + usize::from(t.difficulty) / 2);
        g.work(&mut seen, count, 1);
        let mut woven = concluded(g, t, value, &seen, 1);
        if ty != t.sum {
            woven = g.constrain(woven, Need::Moderate);
        }
        own = g.text(value);
        if mask {
            let (test, when) = match g.random.below(4) {
                0 => (format!("{q} > {r}"), "above the diagonal of its tile"),
                1 => (format!("{q} < {r}"), "below the diagonal of its tile"),
                2 => (format!("({r} + {q}) % 2 == 0"), "on the black squares of a board"),
                _ => (format!("loom.abs({r} - {q}) > 4"), "far from the diagonal of its tile"),
            };
            let kept = g.name(woven);
            let other = if t.sum == Type::F32 { g.random.pick(&["0.0", "-1.0"]) } else { "0" };
            let text = format!("loom.where({test}, {other}, {})", kept.text);
            let mut masked = Expr::atom(text, t.sum, kept.range.or(Range::of(-1.0)).or(Range::of(0.0)));
            masked.words = format!("{}, or {other} {when}", kept.words);
            masked.uses = kept.uses;
            woven = g.name(masked);
        }
        write(g, r, q, woven);
    });
    g.say(format!("For each element `{own}` of {}: {clauses}.", place.words()));
}
