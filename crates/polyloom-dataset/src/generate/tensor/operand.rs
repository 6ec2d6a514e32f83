//! Factors of products: where they are, and by which way they come to the tensor core.

use super::tiling::{ProductKind, WarpTiling};
use crate::catalogue::OperandNeed;
use crate::generate::expr::GeneratedExpr;
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::Scalar;

/// Describes how tiles come from global memory to the tensor core.
#[derive(Clone, PartialEq, Eq)]
enum TileTransport {
    /// They are loaded as they are.
    Direct,
    /// Through a tile of shared memory: element by element, and these may change on the way.
    Staged { tile: String, changes: bool },
    /// By an asynchronous copy to shared memory.
    Copied { tile: String },
}

/// A factor.
pub(super) struct TensorFactor {
    pub(super) name: String,
    /// True if its array is indexed by the column first.
    pub(super) by_col: bool,
    /// Holds what its rows count along the axis of batches, in one product.
    pub(super) extent: u32,
    /// The extents of its array.
    pub(super) shape: [u32; 2],
    /// Holds what is said of it before its name.
    pub(super) before: &'static str,
    is_left: bool,
    width: u32,
    way: TileTransport,
}

impl TensorFactor {
    /// A left factor of `m` rows.
    pub(super) fn left(g: &mut KernelGenerator, t: &WarpTiling, names: &[&str], m: u32, k: u32) -> TensorFactor {
        TensorFactor::new(g, t, names, [m, k], true)
    }

    /// A right factor of `k` rows.
    pub(super) fn right(g: &mut KernelGenerator, t: &WarpTiling, names: &[&str], k: u32, n: u32) -> TensorFactor {
        TensorFactor::new(g, t, names, [k, n], false)
    }

    fn new(
        g: &mut KernelGenerator,
        t: &WarpTiling,
        names: &[&str],
        [rows, cols]: [u32; 2],
        is_left: bool,
    ) -> TensorFactor {
        let by_col = g.random.one_in(3);
        let all = [rows * t.batches, cols];
        let shape = if by_col { [all[1], all[0]] } else { all };
        let name = g.array_like(names, t.factor.into(), &shape.map(ProgramExtent::Is), t.low, t.high);
        let before = transpose(by_col);
        let width = if is_left { 16 } else { t.width };
        TensorFactor { name, by_col, extent: rows, shape, before, is_left, width, way: TileTransport::Direct }
    }

    /// The same array as the right factor, its rows as columns.
    pub(super) fn transposed(&self) -> TensorFactor {
        let (name, by_col) = (self.name.clone(), !self.by_col);
        TensorFactor { name, by_col, before: transpose(by_col), is_left: false, way: TileTransport::Direct, ..*self }
    }

    /// Chooses its way; what shared memory it needs is declared.
    pub(super) fn stage(&mut self, g: &mut KernelGenerator, t: &WarpTiling, kind: ProductKind) {
        // A tile has one place on its way.
        let is_single = !matches!(
            (kind, self.is_left),
            (ProductKind::Halves | ProductKind::Gram, _) | (ProductKind::Wide, false) | (ProductKind::Tall, true)
        );
        if !is_single || !g.random.one_in(if t.difficulty > 1 { 2 } else { 3 }) {
            return;
        }
        let tile = g.like(if self.is_left { &["tile", "stage_a", "staged"] } else { &["tile_b", "stage_b", "cache"] });
        let dtype = g.type_name(t.factor.into());
        g.line(&format!("{tile} = loom.shared_array(shape=(16, {}), dtype={dtype})", self.width));
        let copies = self.width == 16 && !self.by_col && matches!(t.factor, Scalar::F16 | Scalar::BF16);
        self.way = match copies && g.random.one_in(3) {
            true => TileTransport::Copied { tile },
            false => TileTransport::Staged { tile, changes: !g.random.one_in(3) },
        };
        if matches!(self.way, TileTransport::Staged { changes: true, .. }) {
            self.before = if self.by_col { "the transpose of the changed " } else { "the changed " };
        }
    }

    pub(super) fn is_staged(&self) -> bool {
        self.way != TileTransport::Direct
    }

    /// The lanes' part of the tile that begins at this row and column, after the lines that bring it there.
    pub(super) fn load(&self, g: &mut KernelGenerator, t: &WarpTiling, row: &str, col: &str) -> String {
        let call = if self.is_left { "loom.mma_load_a" } else { "loom.mma_load_b" };
        let n = if self.is_left { "" } else { t.n_option() };
        let name = &self.name;
        let element = |r: &str, q: &str| match self.by_col {
            true => format!("{name}[{}, {}]", plus(col, q), plus(row, r)),
            false => format!("{name}[{}, {}]", plus(row, r), plus(col, q)),
        };
        match &self.way {
            TileTransport::Direct => {
                let layout = if self.by_col { ", layout=\"col\"" } else { "" };
                return format!("{call}({name}, {row}, {col}{n}{layout})");
            }
            TileTransport::Copied { tile } => {
                let r = g.let_text(&["r", "rr", "tile_y"], "loom.lane_id() // 2");
                let q = g.let_text(&["s", "cc", "tile_x"], "loom.lane_id() % 2 * 8");
                g.line(&format!("loom.async_copy({tile}[{r}, {q}], {}, count=8)", element(&r, &q)));
                g.line("loom.async_commit()");
                g.line("loom.async_wait()");
                g.explain(format!("`{tile}` keeps tiles of `{name}`, copied asynchronously."));
            }
            TileTransport::Staged { tile, changes: false } => {
                walk(g, 16, self.width, |g, r, q| g.line(&format!("{tile}[{r}, {q}] = {}", element(r, q))));
                g.explain(format!("`{tile}` keeps tiles of `{name}`."));
            }
            TileTransport::Staged { tile, changes: true } => {
                let (mut words, mut own) = (String::new(), String::new());
                let clauses = walk(g, 16, self.width, |g, r, q| {
                    let text = match t.sum == t.factor.into() {
                        true => element(r, q),
                        false => format!("{}({})", g.cast_name(t.sum), element(r, q)),
                    };
                    let raw = g.let_like(&["x", "raw", "item"], &text, t.sum, NumberRange::new(t.low, t.high));
                    let (value, done) = narrowed(g, t, raw, &t.extras);
                    g.line(&format!("{tile}[{r}, {q}] = {value}"));
                    (words, own) = (done, g.text(raw));
                });
                g.say(for_each(&format!("`{own}` of `{name}`"), &clauses, &format!("`{tile}` keeps {words}")));
            }
        }
        g.line("loom.sync_threads()");
        format!("{call}({tile}, 0, 0{n})", tile = self.tile())
    }

    fn tile(&self) -> &str {
        match &self.way {
            TileTransport::Direct => &self.name,
            TileTransport::Staged { tile, .. } | TileTransport::Copied { tile } => tile,
        }
    }
}

/// A sentence about each element: what is computed on the way, and what comes of it.
pub(super) fn for_each(element: &str, clauses: &str, last: &str) -> String {
    match clauses.is_empty() {
        true => format!("For each element {element}, {last}."),
        false => format!("For each element {element}: {clauses}; {last}."),
    }
}

fn plus(place: &str, more: &str) -> String {
    if place == "0" { more.to_owned() } else { format!("{place} + {more}") }
}

/// Lines for each element of a tile, by a warp: `body` is given the names of its row and its column there. What it says of
/// them, in words.
pub(super) fn walk(
    g: &mut KernelGenerator,
    height: u32,
    width: u32,
    body: impl FnOnce(&mut KernelGenerator, &str, &str),
) -> String {
    let n = height * width / 32;
    let e = g.like(&["e", "n_e", "w", "u"]);
    let head = format!("for {e} in range({n}):");
    let (rows, cols) = (["r", "rr", "tile_y"], ["s", "cc", "tile_x"]);
    match g.random.below(3) {
        // A row is of two lanes.
        0 if height == 16 => {
            let r = g.let_text(&rows, "loom.lane_id() // 2");
            g.line(&head);
            g.nested(|g| {
                let q = g.let_text(&cols, &format!("loom.lane_id() % 2 * {n} + {e}"));
                body(g, &r, &q);
            })
        }
        1 if width < 32 => {
            let q = g.let_text(&cols, &format!("loom.lane_id() % {width}"));
            g.line(&head);
            g.nested(|g| {
                let r = g.let_text(&rows, &format!("{e} * {} + loom.lane_id() // {width}", 32 / width));
                body(g, &r, &q);
            })
        }
        _ => {
            g.line(&head);
            g.nested(|g| {
                let p = g.let_text(&["p", "flat", "spot"], &format!("{e} * 32 + loom.lane_id()"));
                let r = g.let_text(&rows, &format!("{p} // {width}"));
                let q = g.let_text(&cols, &format!("{p} % {width}"));
                body(g, &r, &q);
            })
        }
    }
}

/// A value in the type of the factors that depends on this one, and its words.
pub(super) fn narrowed(g: &mut KernelGenerator, t: &WarpTiling, raw: usize, others: &[usize]) -> (String, String) {
    let woven = g.weave(raw, others, 1);
    // Factors stay small, and whole ones in a byte.
    let woven = match t.factor.is_float() {
        true => g.constrain(woven, OperandNeed::Moderate),
        false => {
            let woven = woven.without_sign().unwrap_or(woven);
            let woven = g.short(woven);
            let size = match woven.range.low >= 0.0 {
                true => woven,
                false => GeneratedExpr::call("loom.abs", &[&woven], t.sum, woven.range.abs()),
            };
            if size.range.high < 7.0 {
                return narrowed_text(g, t, size);
            }
            GeneratedExpr::binary("%", &size, &GeneratedExpr::int(7), t.sum, NumberRange::new(0.0, 6.0))
        }
    };
    narrowed_text(g, t, woven)
}

fn narrowed_text(g: &KernelGenerator, t: &WarpTiling, woven: GeneratedExpr) -> (String, String) {
    let kept = g.kept_as(woven, t.factor.into());
    (kept.text, kept.words)
}

/// Returns what is said before the name of an array that is indexed by the column first.
fn transpose(by_col: bool) -> &'static str {
    if by_col { "the transpose of " } else { "" }
}
