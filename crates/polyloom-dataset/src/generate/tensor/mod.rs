//! Matrix products by the tensor core, with what is done to the factors and to the product.
//!
//! A block is a warp, and has a tile of the result. The kernels differ in what they multiply, in how the factors come to
//! the tensor core ([`operand`]) and in what becomes of the product ([`outcome`], [`rows`]).

mod operand;
mod outcome;
mod rows;
mod tiling;

use super::docstring::list;
use super::elementwise::begin;
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use super::program::{Category, DatasetProgram, InputValues, ProgramExtent};
use crate::catalogue::OperandNeed;
use operand::TensorFactor;
use outcome::TensorOutcome;
use polyloom::{Random, Scalar, Type};
use tiling::{ProductKind, TileFragment, WarpTiling};

/// A kernel of matrix products.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::TensorCore);
    // A product with nothing done to it is one kernel.
    let difficulty = difficulty.max(1);
    g.of_polyloom();
    (g.real, g.whole) = (Type::F32, Type::I32);
    g.composites.clear();
    let kind = match difficulty {
        1 => g.random.pick(&[
            ProductKind::Plain,
            ProductKind::Plain,
            ProductKind::Halves,
            ProductKind::Gram,
            ProductKind::Sparse,
            ProductKind::Wide,
        ]),
        _ => g.random.pick(&[
            ProductKind::Plain,
            ProductKind::Halves,
            ProductKind::Gated,
            ProductKind::Wide,
            ProductKind::Tall,
            ProductKind::Gram,
            ProductKind::Pair,
            ProductKind::Chain,
            ProductKind::Sparse,
        ]),
    };
    let mut t = WarpTiling::draw(&mut g, kind, difficulty);
    let outcome = TensorOutcome::draw(&mut g, &t, kind);
    let mut factors = operands(&mut g, &t, kind);
    let c = outcome.declare(&mut g, &t, kind);
    t.place(&mut g, kind);
    let sum = t.sum;
    for _ in 0..g.random.below(2 + usize::from(difficulty) / 2) {
        let (low, high) = g.limits(sum);
        let extra = g.scalar(sum, low, high);
        t.extras.push(extra);
    }
    for factor in &mut factors {
        factor.stage(&mut g, &t, kind);
    }
    let mut fragments = accumulators(&mut g, &t, kind, &c, &outcome);
    sum_up(&mut g, &t, kind, &factors, &fragments);
    if kind == ProductKind::Halves {
        let name = fragments[0].name.clone();
        g.line(&format!("{name} = {name} + {}", fragments[1].name));
        fragments.truncate(1);
    }
    let added = if outcome.adds() { format!(", added to what `{c}` held") } else { String::new() };
    tell_product(&mut g, &t, kind, &factors, &fragments, &added);
    if kind == ProductKind::Chain {
        chain(&mut g, &t, &mut fragments);
    }
    outcome.write(&mut g, &t, kind, &c, &fragments);
    g.review();
    if t.extras.iter().any(|&index| !g.variables[index].used) {
        return None;
    }
    let of = |at: usize| format!("{}`{}`", factors[at].before, factors[at].name);
    let of = match kind {
        ProductKind::Gated => format!("the gated product of {} with {} and {}", of(0), of(1), of(2)),
        ProductKind::Pair => format!("the products of {} and {}, and {} and {},", of(0), of(1), of(2), of(3)),
        ProductKind::Chain => format!("the product of {}, {} and another matrix", of(0), of(1)),
        _ => format!("the product of {} and {}", of(0), of(1)),
    };
    let line = outcome.summary(&c, &of);
    g.sum_up(line);
    g.finish(Category::TensorCore)
}

/// The factors, as parameters: left and right ones in turn.
fn operands(g: &mut KernelGenerator, t: &WarpTiling, kind: ProductKind) -> Vec<TensorFactor> {
    let (m, n, k) = t.extents(kind);
    let left = TensorFactor::left(g, t, &["a", "left", "lhs", "q"], m, k);
    match kind {
        ProductKind::Gram => {
            let right = left.transposed();
            vec![left, right]
        }
        ProductKind::Gated => {
            let right = TensorFactor::right(g, t, &["b", "right", "weights", "up"], k, n);
            let other = TensorFactor::right(g, t, &["gate", "b2", "other", "down"], k, n);
            vec![left, right, other]
        }
        ProductKind::Pair => {
            let right = TensorFactor::right(g, t, &["b", "right", "weights", "u"], k, n);
            let left2 = TensorFactor::left(g, t, &["a2", "d", "delta", "p"], m, k);
            let right2 = TensorFactor::right(g, t, &["b2", "e", "v", "update"], k, n);
            vec![left, right, left2, right2]
        }
        _ => vec![left, TensorFactor::right(g, t, &["b", "right", "rhs", "weights"], k, n)],
    }
}

/// Says what is multiplied, and of which size it is.
fn tell_product(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    kind: ProductKind,
    factors: &[TensorFactor],
    fragments: &[TileFragment],
    added: &str,
) {
    let mut sizes: Vec<String> = Vec::new();
    for TensorFactor { name, shape: [rows, cols], .. } in factors {
        let size = format!("`{name}` is {rows} by {cols}");
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let sizes = match &sizes[..] {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        sizes => sizes.concat(),
    };
    g.say(format!("{sizes}."));
    if let Some(batch) = &t.batch {
        g.say(format!(
            "Of the arrays there are {} bands, one for each `{batch}`, that are multiplied apart.",
            t.batches
        ));
    }
    let of = |at: usize| format!("{}`{}`", factors[at].before, factors[at].name);
    let product = match kind {
        ProductKind::Gated => format!("the products of {} with {} and with {}", of(0), of(1), of(2)),
        ProductKind::Pair => format!("the product of {} and {} plus that of {} and {}", of(0), of(1), of(2), of(3)),
        ProductKind::Sparse => format!("the product of {} and {} without what is left out", of(0), of(1)),
        _ => format!("the product of {} and {}", of(0), of(1)),
    };
    let names: Vec<&str> = fragments.iter().map(|fragment| fragment.name.as_str()).collect();
    let size = format!("16 by {}", t.width);
    let tiles = match kind {
        ProductKind::Gated => format!("are a warp's tiles of {size} of"),
        ProductKind::Wide => format!("are a warp's two tiles of {size}, side by side, of"),
        ProductKind::Tall => format!("are a warp's two tiles of {size}, one above the other, of"),
        _ => format!("is a warp's tile of {size} of"),
    };
    g.say(format!("{} {tiles} {product}{added}.", list(&names)));
}

/// The sums, with what they begin with.
fn accumulators(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    kind: ProductKind,
    c: &str,
    outcome: &TensorOutcome,
) -> Vec<TileFragment> {
    let (m, ..) = t.extents(kind);
    let second: &[&str] = match kind {
        ProductKind::Halves => &["odd", "total2", "acc_odd"],
        ProductKind::Gated => &["gated", "acc2", "switch"],
        ProductKind::Wide => &["right_acc", "next_tile", "total1"],
        ProductKind::Tall => &["lower", "below_acc", "total1"],
        _ => &[],
    };
    let mut fragments = vec![TileFragment { name: g.like(&["total", "acc", "sums", "frag"]), down: 0, right: 0 }];
    if !second.is_empty() {
        let (down, right) = WarpTiling::strips(kind);
        fragments.push(TileFragment { name: g.like(second), down: 16 * (down - 1), right: t.width * (right - 1) });
    }
    for (at, fragment) in fragments.iter().enumerate() {
        let adds = outcome.adds() && (at == 0 || matches!(kind, ProductKind::Wide | ProductKind::Tall));
        let start = match adds {
            true => {
                let (row, col) = (plus(&t.row, fragment.down), plus(&t.col, fragment.right));
                let row = t.of_batch(&row, m);
                format!("loom.mma_load_c({c}, {row}, {col}{}{})", t.n_option(), outcome.layout())
            }
            false => t.zeros(g),
        };
        g.line(&format!("{} = {start}", fragment.name));
    }
    fragments
}

/// `index`, moved.
fn plus(index: &str, more: u32) -> String {
    match (index, more) {
        (_, 0) => index.to_owned(),
        ("0", _) => more.to_string(),
        _ => format!("{index} + {more}"),
    }
}

/// The products along the axis that is summed over.
fn sum_up(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    kind: ProductKind,
    factors: &[TensorFactor],
    fragments: &[TileFragment],
) {
    let stride = if kind == ProductKind::Halves { 32 } else { 16 };
    let n_steps = t.inner * 16 / stride;
    let step = g.like(&["k", "step", "s"]);
    if n_steps == 1 && kind != ProductKind::Sparse {
        return multiply(g, t, kind, factors, fragments, "0");
    }
    let keep = (kind == ProductKind::Sparse).then(|| {
        let n_blocks = t.rows * t.cols * t.batches;
        let by_block = g.random.one_in(2);
        let n = if by_block { n_blocks * t.inner } else { t.inner };
        let name = g.array_like(&["keep", "mask", "live", "block_mask"], Type::I32, &[ProgramExtent::Is(n)], 0.0, 3.0);
        let limit = g.random.below(2);
        let of = if by_block { "a warp's sums" } else { "the sums" };
        g.say(format!(
            "Every 16 terms of {of} have an element of `{name}`: where it is {limit} or less, they are left out."
        ));
        (name, by_block, limit)
    });
    if let (1, Some((name, by_block, limit))) = (n_steps, &keep) {
        let index = if *by_block { "loom.block_idx()" } else { "0" };
        g.line(&format!("if {name}[{index}] > {limit}:"));
        return g.indented(|g| multiply(g, t, kind, factors, fragments, "0"));
    }
    let shape = format!("{}.shape[{}]", factors[0].name, usize::from(!factors[0].by_col));
    let extent = t.inner * 16;
    let (head, at, number) = match g.random.below(5) {
        0 => (format!("for {step} in range({shape} // {stride}):"), format!("{step} * {stride}"), step.clone()),
        1 | 2 => (format!("for {step} in range(0, {extent}, {stride}):"), step.clone(), format!("{step} // {stride}")),
        _ => (format!("for {step} in range({n_steps}):"), format!("{step} * {stride}"), step.clone()),
    };
    g.line(&head);
    g.indented(|g| {
        let place = if at == step { at } else { g.let_text(&["at", "k0", "first", "along"], &at) };
        let Some((name, by_block, limit)) = keep else {
            return multiply(g, t, kind, factors, fragments, &place);
        };
        let index = match by_block {
            true if t.inner == 1 && number.contains(' ') => format!("loom.block_idx() + ({number})"),
            true if t.inner == 1 => format!("loom.block_idx() + {number}"),
            true => format!("loom.block_idx() * {} + {number}", t.inner),
            false => number,
        };
        if g.random.one_in(2) {
            g.line(&format!("if {name}[{index}] <= {limit}:"));
            g.nested(|g| g.line("continue"));
            multiply(g, t, kind, factors, fragments, &place);
        } else {
            g.line(&format!("if {name}[{index}] > {limit}:"));
            g.indented(|g| multiply(g, t, kind, factors, fragments, &place));
        }
    });
}

/// The products of one step.
fn multiply(
    g: &mut KernelGenerator,
    t: &WarpTiling,
    kind: ProductKind,
    factors: &[TensorFactor],
    fragments: &[TileFragment],
    at: &str,
) {
    let (row, col) = (t.row.as_str(), t.col.as_str());
    let left = |g: &mut KernelGenerator, factor: usize, row: &str, at: &str| {
        factors[factor].load(g, t, &t.of_batch(row, factors[factor].extent), at)
    };
    let right = |g: &mut KernelGenerator, factor: usize, at: &str, col: &str| {
        factors[factor].load(g, t, &t.of_batch(at, factors[factor].extent), col)
    };
    let add = |g: &mut KernelGenerator, sum: &TileFragment, a: &str, b: &str| {
        let sum = &sum.name;
        let single = format!("{sum} = loom.mma({a}, {b}, {sum})");
        if single.len() <= 68 {
            return g.line(&single);
        }
        let named = |g: &mut KernelGenerator, names: &[&str], value: &str| {
            if value.contains('(') { g.let_text(names, value) } else { value.to_owned() }
        };
        let a = named(g, &["fa", "part_a", "left_frag"], a);
        let b = named(g, &["fb", "part_b", "right_frag"], b);
        g.line(&format!("{sum} = loom.mma({a}, {b}, {sum})"));
    };
    match kind {
        ProductKind::Plain | ProductKind::Sparse | ProductKind::Chain => {
            let (a, b) = (left(g, 0, row, at), right(g, 1, at, col));
            add(g, &fragments[0], &a, &b);
        }
        ProductKind::Gram => {
            let a = left(g, 0, row, at);
            let b = factors[1].load(g, t, at, &t.of_batch(col, factors[0].extent));
            add(g, &fragments[0], &a, &b);
        }
        ProductKind::Halves => {
            for (half, fragment) in fragments.iter().enumerate() {
                let at = if at == "0" && half == 1 { "16".to_owned() } else { plus(at, 16 * half as u32) };
                let (a, b) = (left(g, 0, row, &at), right(g, 1, &at, col));
                add(g, fragment, &a, &b);
            }
        }
        ProductKind::Gated => {
            let a = left(g, 0, row, at);
            let a = g.let_text(&["fa", "part_a", "common_frag"], &a);
            for (factor, fragment) in [1, 2].into_iter().zip(fragments) {
                let b = right(g, factor, at, col);
                add(g, fragment, &a, &b);
            }
        }
        ProductKind::Wide => {
            let a = left(g, 0, row, at);
            let a = g.let_text(&["fa", "part_a", "common_frag"], &a);
            for fragment in fragments {
                let b = right(g, 1, at, &plus(col, fragment.right));
                add(g, fragment, &a, &b);
            }
        }
        ProductKind::Tall => {
            let b = right(g, 1, at, col);
            let b = g.let_text(&["fb", "part_b", "common_frag"], &b);
            for fragment in fragments {
                let a = left(g, 0, &plus(row, fragment.down), at);
                add(g, fragment, &a, &b);
            }
        }
        ProductKind::Pair => {
            for first in [0, 2] {
                let (a, b) = (left(g, first, row, at), right(g, first + 1, at, col));
                add(g, &fragments[0], &a, &b);
            }
        }
    }
    // The next tile takes the same memory.
    if at != "0" && factors.iter().any(TensorFactor::is_staged) {
        g.line("loom.sync_threads()");
    }
}

/// What has become of the product, in the type of the factors, times another matrix.
fn chain(g: &mut KernelGenerator, t: &WarpTiling, fragments: &mut [TileFragment]) {
    let first = fragments[0].name.clone();
    outcome::each_element(g, t, &fragments[..1], None);
    let tile = g.like(&["scores", "middle", "inner_tile"]);
    let dtype = if t.sum == Type::F32 { "float" } else { "int" };
    g.line(&format!("{tile} = loom.shared_array(shape=(16, 16), dtype={dtype})"));
    let staged = g.like(&["factor_tile", "packed", "narrow"]);
    let narrow = g.type_name(t.factor.into());
    g.line(&format!("{staged} = loom.shared_array(shape=(16, 16), dtype={narrow})"));
    let transposed = g.random.one_in(3);
    g.line(&format!("loom.mma_store({tile}, 0, 0, {first}{})", if transposed { ", layout=\"col\"" } else { "" }));
    g.line("loom.sync_threads()");
    let source = if transposed { format!("the transpose of `{first}`") } else { format!("`{first}`") };
    match t.sum == Type::F32 && g.random.one_in(2) {
        true => {
            rows::softmax(g, &tile, (16, 16), |g, j, value| {
                let value = if t.factor == Scalar::F32 { value.to_owned() } else { format!("{narrow}({value})") };
                g.line(&format!("{staged}[loom.lane_id(), {j}] = {value}"));
            });
            g.say(format!("`{staged}` keeps the softmax of each row of {source}."));
        }
        false => {
            let (mut words, mut own) = (String::new(), String::new());
            let clauses = operand::walk(g, 16, 16, |g, r, q| {
                let raw = g.let_like(&["x", "raw", "item"], &format!("{tile}[{r}, {q}]"), t.sum, t.range(48));
                let (value, done) = operand::narrowed(g, t, raw, &[]);
                g.line(&format!("{staged}[{r}, {q}] = {value}"));
                (words, own) = (done, g.text(raw));
            });
            let last = format!("`{staged}` keeps {words}");
            g.say(operand::for_each(&format!("`{own}` of {source}"), &clauses, &last));
        }
    }
    g.line("loom.sync_threads()");
    let (_, n, _) = t.extents(ProductKind::Chain);
    let right = TensorFactor::right(g, t, &["v", "values", "second", "proj"], 16, n);
    let other = right.load(g, t, &t.of_batch("0", 16), &t.col);
    let zeros = t.zeros(g);
    let name = g.like(&["mixed", "second_acc", "final_frag"]);
    let left = g.let_text(&["fp", "weights_frag", "part_p"], &format!("loom.mma_load_a({staged}, 0, 0)"));
    let other = g.let_text(&["fv", "values_frag", "part_v"], &other);
    g.line(&format!("{name} = loom.mma({left}, {other}, {zeros})"));
    let [rows, cols] = right.shape;
    g.say(format!("`{name}` is the product of `{staged}` and {}`{}`.", right.before, right.name));
    g.say(format!("`{}` is {rows} by {cols}.", right.name));
    fragments[0].name = name;
}

impl KernelGenerator {
    /// A name for a value that no expression reads.
    fn let_text(&mut self, names: &[&str], value: &str) -> String {
        // One name is enough for the lane alone.
        if value.starts_with("loom.lane_id()")
            && let Some(name) = self.named(value)
        {
            return name;
        }
        let name = self.like(names);
        self.line(&format!("{name} = {value}"));
        name
    }
}

/// A value that is stored in an array of this type.
fn stored(g: &mut KernelGenerator, value: GeneratedExpr, ty: Type) -> GeneratedExpr {
    if value.ty == ty {
        return value;
    }
    let value = g.constrain(value, OperandNeed::Moderate);
    g.kept_as(value, ty)
}

/// Returns what a matrix of a result holds to begin with.
fn begins(adds: bool) -> InputValues {
    if adds { InputValues::Between { low: -1.0, high: 1.0 } } else { InputValues::Zeros }
}
