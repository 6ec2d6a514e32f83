//! What becomes of products: elements change in the lanes' parts or in a tile of shared memory, and the result is stored.

use super::operand::{for_each, walk};
use super::rows::{fold, normalise, whole};
use super::tiling::{ProductKind, TileFragment, WarpTiling};
use super::{begins, plus, stored};
use crate::catalogue::OperandNeed;
use crate::generate::docstring::list;
use crate::generate::expr::GeneratedExpr;
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::{Scalar, Type};

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutcomeForm {
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
pub(super) struct TensorOutcome {
    form: OutcomeForm,
    /// True if the result is added to what its array holds.
    adds: bool,
    /// True if its array is indexed by the column first.
    by_col: bool,
    ty: Type,
}

impl TensorOutcome {
    pub(super) fn draw(g: &mut KernelGenerator, t: &WarpTiling, kind: ProductKind) -> TensorOutcome {
        let is_float = t.sum == Type::F32;
        let form = g.random.pick(&[
            OutcomeForm::Fragment,
            OutcomeForm::Fragment,
            OutcomeForm::Tile,
            OutcomeForm::Tile,
            OutcomeForm::Tile,
            OutcomeForm::Rows,
            OutcomeForm::Rows,
            OutcomeForm::Columns,
            if is_float { OutcomeForm::Normalised } else { OutcomeForm::Columns },
            OutcomeForm::Whole,
        ]);
        let adds = form == OutcomeForm::Fragment
            && !matches!(kind, ProductKind::Chain | ProductKind::Gated)
            && g.random.one_in(2);
        let by_col =
            matches!(form, OutcomeForm::Fragment | OutcomeForm::Tile | OutcomeForm::Normalised) && g.random.one_in(4);
        let narrow = matches!(form, OutcomeForm::Tile | OutcomeForm::Normalised) && is_float && g.random.one_in(4);
        let ty = if narrow { g.random.pick(&[Scalar::F16, Scalar::BF16]).into() } else { t.sum };
        TensorOutcome { form, adds, by_col, ty }
    }

    /// The array of the result.
    pub(super) fn declare(&self, g: &mut KernelGenerator, t: &WarpTiling, kind: ProductKind) -> String {
        let (m, n, _) = t.extents(kind);
        let (m, bands) = (m * t.batches, t.rows * t.batches);
        let shape = match self.form {
            OutcomeForm::Fragment | OutcomeForm::Tile | OutcomeForm::Normalised if self.by_col => vec![n, m],
            OutcomeForm::Fragment | OutcomeForm::Tile | OutcomeForm::Normalised => vec![m, n],
            OutcomeForm::Rows if t.cols == 1 => vec![m],
            OutcomeForm::Rows => vec![m, t.cols],
            OutcomeForm::Columns if bands == 1 => vec![n],
            OutcomeForm::Columns => vec![bands, n],
            OutcomeForm::Whole => vec![bands * t.cols],
        };
        let c = g.like(&["c", "out", "result", "dst"]);
        g.param(&c, self.ty, shape.into_iter().map(ProgramExtent::Is).collect(), begins(self.adds));
        c
    }

    pub(super) fn adds(&self) -> bool {
        self.adds
    }

    /// The kernel in one line.
    pub(super) fn summary(&self, c: &str, product: &str) -> String {
        let what = match self.form {
            _ if self.adds => format!("Add {product} to `{c}`, then change its elements."),
            OutcomeForm::Fragment | OutcomeForm::Tile => format!("Store {product}, its elements changed, in `{c}`."),
            OutcomeForm::Rows => format!("Reduce the rows of {product} to `{c}`."),
            OutcomeForm::Columns => format!("Reduce the columns of {product} to `{c}`."),
            OutcomeForm::Normalised => format!("Normalise the rows of {product} into `{c}`."),
            OutcomeForm::Whole => format!("Reduce tiles of {product} to `{c}`."),
        };
        let short = match self.form {
            _ if self.adds => format!("Add tensor-core products to `{c}`, then change its elements."),
            OutcomeForm::Fragment | OutcomeForm::Tile => {
                format!("Store tensor-core products, their elements changed, in `{c}`.")
            }
            OutcomeForm::Normalised => format!("Normalise the rows of tensor-core products into `{c}`."),
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
    pub(super) fn write(
        &self,
        g: &mut KernelGenerator,
        t: &WarpTiling,
        kind: ProductKind,
        c: &str,
        fragments: &[TileFragment],
    ) {
        let (m, ..) = t.extents(kind);
        let (gate, results) = match kind {
            ProductKind::Gated => (Some(&fragments[1]), &fragments[..1]),
            _ => (None, fragments),
        };
        g.gap();
        if self.form == OutcomeForm::Fragment || gate.is_some() || g.random.one_in(2) {
            each_element(g, t, results, gate);
        }
        let row = t.of_batch(&t.row, m);
        if self.form == OutcomeForm::Fragment {
            for fragment in results {
                let (row, col) = (plus(&row, fragment.down), plus(&t.col, fragment.right));
                g.line(&format!("loom.mma_store({c}, {row}, {col}, {}{})", fragment.name, self.layout()));
            }
            let names: Vec<&str> = results.iter().map(|fragment| fragment.name.as_str()).collect();
            let turned = if self.by_col { ", transposed" } else { "" };
            return g.say(format!("`{c}` is made up of the warps' {}{turned}.", list(&names)));
        }
        if self.form == OutcomeForm::Whole {
            return whole(g, t, c, results);
        }
        let (down, right) = WarpTiling::strips(kind);
        let (height, width) = (16 * down, t.width * right);
        let tile = g.like(&["tile_c", "block_out", "result_tile", "patch"]);
        let dtype = if t.sum == Type::F32 { "float" } else { "int" };
        g.line(&format!("{tile} = loom.shared_array(shape=({height}, {width}), dtype={dtype})"));
        for TileFragment { name, down, right } in results {
            g.line(&format!("loom.mma_store({tile}, {down}, {right}, {name})"));
        }
        g.line("loom.sync_threads()");
        let element = |r: &str, q: &str| {
            let (r, q) = (joined(&row, r), joined(&t.col, q));
            if self.by_col { format!("{c}[{q}, {r}]") } else { format!("{c}[{r}, {q}]") }
        };
        let place = SharedTile { tile: &tile, row: &row, height, width, n_parts: results.len() };
        match self.form {
            OutcomeForm::Rows | OutcomeForm::Columns => {
                let by_row = self.form == OutcomeForm::Rows;
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
            OutcomeForm::Normalised => normalise(g, t, &place, |g, j, value| {
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
pub(super) struct SharedTile<'a> {
    pub(super) tile: &'a str,
    /// The row of the result that it begins with.
    row: &'a str,
    pub(super) height: u32,
    pub(super) width: u32,
    /// Number of parts of the product are in it.
    n_parts: usize,
}

impl SharedTile<'_> {
    /// Returns what it is called.
    pub(super) fn words(&self) -> &'static str {
        if self.n_parts > 1 { "both tiles together" } else { "the tile" }
    }
}

pub(super) fn joined(place: &str, more: &str) -> String {
    if place == "0" { more.to_owned() } else { format!("{place} + {more}") }
}

/// Changes each element of the lanes' parts, of which nobody knows the places.
pub(super) fn each_element(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    results: &[TileFragment],
    gate: Option<&TileFragment>,
) {
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
pub(super) fn concluded(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    base: usize,
    seen: &[usize],
    depth: usize,
) -> GeneratedExpr {
    if t.sum != Type::F32 || !g.random.one_in(3) {
        return g.concluded(base, seen, depth);
    }
    let value = g.concluded(base, seen, depth.saturating_sub(1));
    let value = g.name(value);
    let (x, high) = (&value.text, value.range.size());
    let (text, what, range) = match g.random.below(8) {
        0 => (format!("loom.max({x}, 0.0)"), "{} rectified", NumberRange::new(0.0, high)),
        1 => (
            format!("loom.where({x} > 0.0, {x}, 0.01 * {x})"),
            "{} rectified with a leak of 0.01",
            NumberRange::within(high),
        ),
        2 => (format!("{x} / (1.0 + loom.exp(-{x}))"), "{} times its own logistic function", NumberRange::within(high)),
        3 => (format!("1.0 / (1.0 + loom.exp(-{x}))"), "the logistic function of {}", NumberRange::new(0.0, 1.0)),
        4 => (
            format!("0.5 * {x} * (1.0 + loom.erf(0.70710677 * {x}))"),
            "{} times the normal distribution up to it",
            NumberRange::within(high),
        ),
        5 => {
            (format!("{x} * loom.clamp({x} / 6.0 + 0.5, 0.0, 1.0)"), "the hard swish of {}", NumberRange::within(high))
        }
        6 => (format!("{x} / (1.0 + loom.abs({x}))"), "the soft sign of {}", NumberRange::within(1.0)),
        _ => (
            format!("loom.max({x}, 0.0) + loom.log(1.0 + loom.exp(-loom.abs({x})))"),
            "the softplus of {}",
            NumberRange::new(0.0, high + 1.0),
        ),
    };
    let mut expr = GeneratedExpr::atom(text, Type::F32, range);
    expr.words = what.replace("{}", &value.words);
    expr.uses = value.uses;
    let expr = g.name(expr);
    g.constrain(expr, OperandNeed::Finite)
}

/// Each element of a tile, with what depends on its place, by `write`, which says where that is.
fn each_place(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    kind: ProductKind,
    place: &SharedTile<'_>,
    ty: Type,
    write: impl FnOnce(&mut KernelGenerator, &str, &str, GeneratedExpr),
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
                let name = g.array_like(&["bias", "shift", "col_scale"], t.sum, &[ProgramExtent::Is(n)], low, high);
                beside.push((name, None, Some(col)));
            }
            2 => {
                let name = g.array_like(&["row_scale", "gain", "row_bias"], t.sum, &[ProgramExtent::Is(m)], low, high);
                beside.push((name, Some(row), None));
            }
            3 => {
                let shape = [ProgramExtent::Is(m), ProgramExtent::Is(n)];
                let name = g.array_like(&["residual", "skip", "base", "target"], t.sum, &shape, low, high);
                beside.push((name, Some(row), Some(col)));
            }
            _ => {}
        }
    }
    let mask = g.random.one_in(3);
    let mut own = String::new();
    let clauses = walk(g, place.height, place.width, |g, r, q| {
        let value =
            g.let_like(&["stored", "kept", "own"], &format!("{tile}[{r}, {q}]"), t.sum, NumberRange::within(1e4));
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
            let index = g.let_like(&[&format!("{name}_value")], &text, t.sum, NumberRange::new(low, high));
            let element = g.text(index);
            g.say(format!("`{element}` is the element of `{name}` {what}"));
            seen.push(index);
        }
        seen.push(value);
        let count = g.random.below(1 + usize::from(t.difficulty) / 2);
        g.work(&mut seen, count, 1);
        let mut woven = concluded(g, t, value, &seen, 1);
        if ty != t.sum {
            woven = g.constrain(woven, OperandNeed::Moderate);
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
            let mut masked =
                GeneratedExpr::atom(text, t.sum, kept.range.or(NumberRange::of(-1.0)).or(NumberRange::of(0.0)));
            masked.words = format!("{}, or {other} {when}", kept.words);
            masked.uses = kept.uses;
            woven = g.name(masked);
        }
        write(g, r, q, woven);
    });
    g.say(format!("For each element `{own}` of {}: {clauses}.", place.words()));
}
