//! Kernels whose threads work together: shared memory and warps.

use super::elementwise::begin;
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use super::program::{Category, DatasetProgram, ProgramExtent};
use crate::catalogue::OperandNeed;
use crate::number_range::NumberRange;
use polyloom::{Random, Type};

/// Blocks of this shape, and what threads read.
struct BlockShape {
    /// Threads of a block.
    n: u32,
    /// Threads of the launch.
    total: u32,
    /// The names of the thread's number in its block and in the launch.
    thread: String,
    index: String,
    ty: Type,
}

/// A kernel of blocks of some size: its array, loaded and worked on.
fn begin_block(g: &mut KernelGenerator, sizes: &[u32], ty: Type, difficulty: u8) -> (BlockShape, usize, Vec<usize>) {
    let n = g.random.pick(sizes);
    let n_blocks = g.random.pick(&[2, 3, 4]);
    let total = n * n_blocks;
    g.in_blocks(n, total);
    let thread = g.like(&["t", "lane", "tx", "local_id"]);
    let index = g.like(&["i", "idx", "gid", "pos"]);
    let lines = match g.random.below(3) {
        // Warps have lanes.
        _ if sizes.len() == 4 && sizes[1] == 32 => vec![format!("{index} = loom.tid()")],
        0 => vec![format!("{thread} = loom.thread_idx()"), format!("{index} = loom.block_idx() * {n} + {thread}")],
        1 => {
            g.explain(format!("`{thread}` is `{index} % {n}`."));
            vec![format!("{index} = loom.tid()"), format!("{thread} = {index} % {n}")]
        }
        _ => vec![format!("{thread} = loom.thread_idx()"), format!("{index} = loom.tid()")],
    };
    for line in lines {
        g.line(&line);
    }
    g.indices = vec![index.clone()];
    let (low, high) = g.limits(ty);
    let names = ["data", "x", "values", "src", "signal", "samples", "field"];
    let shape = [ProgramExtent::Is(total)];
    let source = g.array_like(&names, ty, &shape, low, high);
    let text = format!("{source}[{index}]");
    let element = match g.random.one_in(2) {
        true => {
            let own = g.let_like(&["x", "v", "value", "own", "item"], &text, ty, NumberRange::new(low, high));
            let name = g.text(own);
            g.explain(format!("`{name}` is `{text}`."));
            own
        }
        false => g.declare(text, format!("`{source}`"), ty, NumberRange::new(low, high)),
    };
    let mut extras = Vec::new();
    for _ in 0..g.random.below(2 + usize::from(difficulty) / 2) {
        let real = g.real;
        let (low, high) = g.limits(real);
        extras.push(match g.random.one_in(2) {
            true => g.scalar(real, low, high),
            false => g.elements(real, low, high),
        });
    }
    (BlockShape { n, total, thread, index, ty }, element, extras)
}

fn type_of(g: &mut KernelGenerator) -> Type {
    let (real, whole) = (g.real, g.whole);
    match g.composites.first() {
        Some(&composite) if g.random.one_in(2) => composite.into(),
        _ if g.scalars.contains(&polyloom::Scalar::I32) && g.random.one_in(2) => whole,
        _ => real,
    }
}

/// A kernel with shared memory.
pub(super) fn shared_memory(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::SharedMemory);
    let ty = type_of(&mut g);
    let (block, element, extras) = begin_block(&mut g, &[32, 64, 64, 128], ty, difficulty);
    let depth = g.some_depth(difficulty);
    let value = g.moderate_weave(element, &extras, depth);
    let tile = g.like(&["tile", "shared", "cache", "buf"]);
    let dtype = g.type_name(ty);
    let n = block.n;
    let square = n == 64 && g.random.one_in(2);
    let shape = if square { "(8, 8)".to_owned() } else { n.to_string() };
    g.line(&format!("{tile} = loom.shared_array(shape={shape}, dtype={dtype})"));
    let range = NumberRange::within(8.0);
    let own = if square {
        let (row, col) = (g.like(&["row", "ty", "r"]), g.like(&["col", "tcol", "c"]));
        g.line(&format!("{row} = {} // 8", block.thread));
        g.line(&format!("{col} = {} % 8", block.thread));
        g.line(&format!("{tile}[{row}, {col}] = {}", value.text));
        g.line("loom.sync_threads()");
        g.say(format!("Blocks of {n} threads keep {} in a tile of 8 by 8, row by row.", value.words));
        on_square(&mut g, &tile, &row, &col, ty, range)
    } else {
        g.line(&format!("{tile}[{}] = {}", block.thread, value.text));
        g.line("loom.sync_threads()");
        g.say(format!("`{tile}` is shared by blocks of {n} threads, each of which keeps {} there.", value.words));
        on_line(&mut g, &block, &tile, range, difficulty)
    };
    let mut seen = own.clone();
    seen.extend(&extras);
    if g.random.one_in(2) {
        seen.push(element);
    }
    let goal = g.goal(difficulty);
    g.work_until(&mut seen, goal - 1, 1 + usize::from(difficulty > 2));
    let depth = g.some_depth(difficulty).max(usize::from(difficulty > 0));
    let result = g.concluded(own[0], &seen, depth);
    g.finish_block(&block, result);
    g.finish(Category::SharedMemory)
}

/// Returns what threads read of a tile of 8 by 8.
fn on_square(g: &mut KernelGenerator, tile: &str, row: &str, col: &str, ty: Type, range: NumberRange) -> Vec<usize> {
    let mut found = Vec::new();
    let kinds = 1 + g.random.below(2);
    for _ in 0..kinds {
        let (names, text, words): (&[&str], String, &str) = match g.random.below(7) {
            0 => (&["mirror", "across"], format!("{tile}[{col}, {row}]"), "the element across the diagonal"),
            1 => (
                &["flipped", "mirror"],
                format!("{tile}[7 - {row}, {col}]"),
                "the element of the same column in the row counted from the last",
            ),
            2 => (
                &["next_one", "right"],
                format!("{tile}[{row}, ({col} + 1) % 8]"),
                "the next element of the row, or after the last the first",
            ),
            3 => (
                &["above", "upper"],
                format!("{tile}[loom.max({row} - 1, 0), {col}]"),
                "the element above, or in the first row its own",
            ),
            4 => (
                &["opposite", "partner"],
                format!("{tile}[{row} ^ 1, {col} ^ 1]"),
                "the element across in its square of four",
            ),
            kind => {
                let zero = g.zero(ty);
                let by_row = kind == 5;
                let product = ty.as_composite().is_none() && g.random.one_in(2);
                let names: &[&str] = match (product, by_row) {
                    (true, _) => &["dotted", "overlap"],
                    (false, true) => &["row_sum", "row_total"],
                    (false, false) => &["col_sum", "col_total"],
                };
                let total = g.mutable_like(names, &zero, KernelGenerator::many(range.or(-range), 8.0));
                g.take_back_sentence();
                let name = g.text(total);
                let k = g.like(&["k", "m", "s"]);
                g.line(&format!("for {k} in range(8):"));
                let place = if by_row { format!("{row}, {k}") } else { format!("{k}, {col}") };
                let across = if by_row { format!("{k}, {col}") } else { format!("{row}, {k}") };
                g.nested(|g| {
                    g.line(&match product {
                        true => format!("{name} += {tile}[{place}] * {tile}[{across}]"),
                        false => format!("{name} += {tile}[{place}]"),
                    });
                });
                g.variables[total].range = NumberRange::within(if product { 512.0 } else { 64.0 });
                let what = if by_row { "row" } else { "column" };
                g.explain(match product {
                    true => format!("`{name}` is the dot product of the thread's row and its column."),
                    false => format!("`{name}` is the sum of the thread's {what}."),
                });
                g.must_be_read(total);
                found.push(total);
                continue;
            }
        };
        let index = g.let_like(names, &text, ty, range);
        let name = g.text(index);
        g.explain(format!("`{name}` is {words}."));
        found.push(index);
    }
    found
}

/// Returns what threads read of a line of elements, or make of it together.
fn on_line(g: &mut KernelGenerator, block: &BlockShape, tile: &str, range: NumberRange, difficulty: u8) -> Vec<usize> {
    let (n, t, ty) = (block.n, block.thread.clone(), block.ty);
    let is_number = ty.as_composite().is_none();
    match g.random.below(6) {
        // A tree.
        0 | 1 => {
            let operation = if is_number { g.random.below(3) } else { 0 };
            let stride = g.like(&["stride", "half", "step", "s"]);
            let joined = match operation {
                0 => format!("{tile}[{t}] += {tile}[{t} + {stride}]"),
                1 => format!("{tile}[{t}] = loom.max({tile}[{t}], {tile}[{t} + {stride}])"),
                _ => format!("{tile}[{t}] = loom.min({tile}[{t}], {tile}[{t} + {stride}])"),
            };
            // Updates of shared memory with `+=` are atomic; of a thread's own element plain ones do.
            let joined = if operation == 0 && g.random.one_in(2) {
                format!("{tile}[{t}] = {tile}[{t}] + {tile}[{t} + {stride}]")
            } else {
                joined
            };
            if g.random.one_in(2) {
                g.line(&format!("{stride} = int({})", n / 2));
                g.line(&format!("while {stride} > 0:"));
                g.nested(|g| {
                    g.line(&format!("if {t} < {stride}:"));
                    g.nested(|g| g.line(&joined));
                    g.line("loom.sync_threads()");
                    g.line(&format!("{stride} = {stride} // 2"));
                });
            } else {
                let k = g.like(&["k", "level", "turn"]);
                let levels = n.ilog2();
                g.line(&format!("for {k} in range({levels}):"));
                g.nested(|g| {
                    g.line(&format!("{stride} = {} >> {k}", n / 2));
                    g.line(&format!("if {t} < {stride}:"));
                    g.nested(|g| g.line(&joined));
                    g.line("loom.sync_threads()");
                });
            }
            let what = ["the sum", "the largest", "the smallest"][operation];
            let total = match operation {
                0 => KernelGenerator::many(range, n.into()),
                _ => range,
            };
            let names =
                [["total", "block_sum", "joint"], ["highest", "block_max", "peak"], ["lowest", "block_min", "least"]];
            let index = g.let_like(&names[operation], &format!("{tile}[0]"), ty, total);
            let name = g.text(index);
            g.explain(format!("`{name}` is {what} of the block, found by a tree."));
            vec![index]
        }
        // Prefix sums.
        2 => {
            let (distance, before) = (g.like(&["offset", "dist", "step"]), g.like(&["before", "prev", "carry"]));
            let zero = g.zero(ty).text;
            let start = match ty {
                Type::F32 => format!("float({zero})"),
                Type::I32 => format!("int({zero})"),
                _ => zero,
            };
            g.line(&format!("{distance} = int(1)"));
            g.line(&format!("while {distance} < {n}:"));
            let largest = is_number && g.random.one_in(3);
            g.nested(|g| {
                let first = if largest { format!("{tile}[{t}]") } else { start };
                g.line(&format!("{before} = {first}"));
                g.line(&format!("if {t} >= {distance}:"));
                g.nested(|g| g.line(&format!("{before} = {tile}[{t} - {distance}]")));
                g.line("loom.sync_threads()");
                g.line(&match largest {
                    true => format!("{tile}[{t}] = loom.max({tile}[{t}], {before})"),
                    false => format!("{tile}[{t}] = {tile}[{t}] + {before}"),
                });
                g.line("loom.sync_threads()");
                g.line(&format!("{distance} *= 2"));
            });
            let range = if largest { range } else { KernelGenerator::many(range, n.into()) };
            let index = g.let_like(&["prefix", "running", "so_far"], &format!("{tile}[{t}]"), ty, range);
            let name = g.text(index);
            let what = if largest { "the largest" } else { "the sum" };
            g.explain(format!("`{name}` is {what} of the elements up to the thread's own."));
            vec![index]
        }
        // A loop over all of them.
        3 => {
            let k = g.like(&["k", "m", "other_t"]);
            let zero = g.zero(ty);
            let total = g.mutable_like(&["total", "acc", "sum_of_all"], &zero, NumberRange::of(0.0));
            let name = g.text(total);
            g.taken(&[total]);
            let every = g.random.pick(&[1, 1, 2, 4]);
            g.line(&match every {
                1 => format!("for {k} in range({n}):"),
                every => format!("for {k} in range(0, {n}, {every}):"),
            });
            let mut added = NumberRange::of(0.0);
            let done = g.nested(|g| {
                let other = g.let_like(&["other", "theirs", "y"], &format!("{tile}[{k}]"), ty, range);
                let theirs = g.text(other);
                g.say(format!("let `{theirs}` be the element of thread `{k}`"));
                let mine = g.declare(format!("{tile}[{t}]"), "the thread's own element".to_owned(), ty, range);
                let depth = 1 + usize::from(difficulty > 2);
                let value = g.moderate_weave(other, &[other, mine], depth);
                added = value.range;
                g.line(&format!("{name} += {}", value.text));
                g.say(format!("add {} to `{name}`", value.words));
            });
            g.variables[total].range = KernelGenerator::many(added, f64::from(n));
            g.explain(match every {
                1 => format!("For each `{k}` below {n}: {done}."),
                every => format!("For each `{k}` below {n} in steps of {every}: {done}."),
            });
            g.must_be_read(total);
            vec![total]
        }
        _ => {
            let last = n - 1;
            let mut found = Vec::new();
            let kinds = 1 + g.random.below(3);
            for _ in 0..kinds {
                let shift = g.random.pick(&[1, 2, 3, 5, 8, 16]);
                let (names, text, words): (&[&str], String, String) = match g.random.below(6) {
                    0 => (
                        &["mirror", "from_end"],
                        format!("{tile}[{last} - {t}]"),
                        "the element as far from the last as the thread's own is from the first".to_owned(),
                    ),
                    1 => (
                        &["ahead", "later"],
                        format!("{tile}[({t} + {shift}) % {n}]"),
                        format!("the element {}, wrapping round the block", places(shift, "later")),
                    ),
                    2 => {
                        let mask = g.random.pick(&[1, 2, 4, 8, 16]);
                        (
                            &["partner", "paired"],
                            format!("{tile}[{t} ^ {mask}]"),
                            format!("the element of the thread whose number differs in bit {}", u32::ilog2(mask)),
                        )
                    }
                    3 => (
                        &["behind", "earlier"],
                        format!("{tile}[loom.max({t} - {shift}, 0)]"),
                        format!("the element {}, or the first", places(shift, "earlier")),
                    ),
                    4 => (
                        &["ahead", "later"],
                        format!("{tile}[loom.min({t} + {shift}, {last})]"),
                        format!("the element {}, or the last", places(shift, "later")),
                    ),
                    _ => (
                        &["leader", "first_of_four"],
                        format!("{tile}[{t} // 4 * 4]"),
                        "the first element of the thread's group of four".to_owned(),
                    ),
                };
                let index = g.let_like(names, &text, ty, range);
                let name = g.text(index);
                g.explain(format!("`{name}` is {words}."));
                found.push(index);
            }
            found
        }
    }
}

impl KernelGenerator {
    /// Writes a thread's result, or one for the block.
    fn finish_block(&mut self, block: &BlockShape, result: GeneratedExpr) {
        self.gap();
        let names = ["out", "result", "dst", "output", "answer"];
        let name = self.zeros_like(&names, block.ty, &[ProgramExtent::Is(block.total)]);
        self.line(&format!("{name}[{}] = {}", block.index, result.text));
        self.say(format!("`{name}` is {}.", result.words));
    }
}

/// A kernel of warps.
pub(super) fn warp(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Warp);
    let ty = type_of(&mut g);
    let (block, element, extras) = begin_block(&mut g, &[32, 32, 64, 128], ty, difficulty);
    let depth = g.some_depth(difficulty);
    let value = g.moderate_weave(element, &extras, depth);
    let mut own = match value.binding {
        super::expr::BindingStrength::Atom if value.uses.len() == 1 && !value.text.contains(['(', '[']) => {
            value.uses[0]
        }
        _ => g.assign_new(value),
    };
    let mut seen: Vec<usize> = extras.clone();
    let goal = g.goal(difficulty);
    for at in 0..12 {
        if at > 0 && g.n_lines() + 2 >= goal {
            break;
        }
        g.gap();
        let next = exchange(&mut g, ty, own, &extras);
        seen.extend([own, next]);
        // Values that the warp has in common do not tell lanes apart.
        if next != own {
            let (a, b) = (g.read(own), g.read(next));
            let (operator, range) = match g.random.below(3) {
                0 => ("-", a.range - b.range),
                1 => ("+", a.range + b.range),
                _ if ty.as_composite().is_some() => ("+", a.range + b.range),
                _ => ("*", a.range * b.range),
            };
            let (a, b) = if g.random.one_in(2) { (a, b) } else { (b, a) };
            let range = if operator == "-" { range.or(-range) } else { range };
            let both = GeneratedExpr::binary(operator, &a, &b, ty, range);
            let both = g.constrain(both, OperandNeed::Finite);
            own = g.assign_new(both);
        }
        if g.random.one_in(2) {
            let depth = g.some_depth(difficulty).max(1);
            let value = g.moderate_weave(own, &seen.clone(), depth);
            own = g.assign_new(value);
            seen.push(own);
        }
    }
    let depth = g.some_depth(difficulty);
    let result = g.concluded(own, &seen, depth);
    if g.random.one_in(5) {
        g.one_per_warp(&block, result);
    } else {
        g.finish_block(&block, result);
    }
    g.finish(Category::Warp)
}

/// Returns what lanes give each other: a new variable.
fn exchange(g: &mut KernelGenerator, ty: Type, own: usize, extras: &[usize]) -> usize {
    let is_number = ty.as_composite().is_none();
    let range = g.variables[own].range;
    let x = g.read(own);
    let kind = g.random.below(if is_number { 9 } else { 4 });
    match kind {
        0 => {
            let (names, call, words): (&[&str], String, String) = match g.random.below(4) {
                0 => {
                    let mask = g.random.pick(&[1, 2, 4, 8, 16]);
                    (
                        &["partner", "other", "theirs"],
                        format!("loom.shuffle_xor({}, {mask})", x.text),
                        format!("of the lane whose number differs in bit {}", u32::ilog2(mask)),
                    )
                }
                1 => {
                    let n = g.random.pick(&[1, 2, 4, 8]);
                    (
                        &["earlier_one", "other", "theirs"],
                        format!("loom.shuffle_up({}, {n})", x.text),
                        format!("of the lane {}, or its own where there is none", places(n, "earlier")),
                    )
                }
                2 => {
                    let n = g.random.pick(&[1, 2, 4, 8]);
                    (
                        &["later_one", "other", "theirs"],
                        format!("loom.shuffle_down({}, {n})", x.text),
                        format!("of the lane {}, or its own where there is none", places(n, "later")),
                    )
                }
                _ => {
                    let lane = g.random.pick(&["0", "31", "31 - loom.lane_id()", "loom.lane_id() // 8 * 8"]);
                    (
                        &["other", "theirs"],
                        format!("loom.shuffle({}, {lane})", x.text),
                        match lane.parse::<u32>() {
                            Ok(number) => format!("of lane {number}"),
                            Err(_) => format!("of lane `{lane}`"),
                        },
                    )
                }
            };
            let index = g.let_like(names, &call, ty, range);
            let name = g.text(index);
            g.explain(format!("`{name}` is {} {words}.", x.words));
            index
        }
        1 => {
            let total = g.random.pick(&["total", "warp_sum", "joint"]);
            let index = g.let_like(
                &[total],
                &format!("loom.warp_reduce_add({})", x.text),
                ty,
                KernelGenerator::many(range, 32.0),
            );
            let name = g.text(index);
            g.explain(format!("`{name}` is the sum of {} over the warp.", x.words));
            index
        }
        // A butterfly, or a scan.
        2 | 3 => {
            let scan = kind == 3 && is_number;
            let largest = is_number && g.random.one_in(3);
            let names: &[&str] = match (largest, scan) {
                (true, true) => &["running_max", "highest_so_far"],
                (true, false) => &["highest", "largest", "top"],
                (false, true) => &["running", "so_far"],
                (false, false) => &["acc", "warp_total", "joint"],
            };
            let sum = g.mutable_like(names, &x, KernelGenerator::many(range, 32.0));
            g.take_back_sentence();
            let name = g.text(sum);
            g.taken(&[sum]);
            let k = g.like(&["k", "turn", "level"]);
            g.line(&format!("for {k} in range(5):"));
            let (up, lane) = (g.like(&["above", "got", "their"]), "loom.lane_id()");
            g.nested(|g| {
                if scan {
                    g.line(&format!("{up} = loom.shuffle_up({name}, 1 << {k})"));
                    g.line(&format!("if {lane} >= (1 << {k}):"));
                    g.nested(|g| {
                        g.line(&match largest {
                            true => format!("{name} = loom.max({name}, {up})"),
                            false => format!("{name} += {up}"),
                        });
                    });
                } else {
                    let call = format!("loom.shuffle_xor({name}, 1 << {k})");
                    g.line(&match largest {
                        true => format!("{name} = loom.max({name}, {call})"),
                        false => format!("{name} += {call}"),
                    });
                }
            });
            let what = if largest { "the largest" } else { "the sum" };
            let of = if scan { "from the lanes up to its own" } else { "from all lanes of the warp" };
            g.explain(format!("`{name}` is {what} of {} {of}, found by shuffles.", x.words));
            g.must_be_read(sum);
            sum
        }
        4 | 5 => {
            let call = g.random.pick(&["warp_reduce_min", "warp_reduce_max"]);
            let names = if call.ends_with("min") { ["lowest", "smallest"] } else { ["highest", "largest"] };
            let index = g.let_like(&names, &format!("loom.{call}({})", x.text), ty, range);
            let name = g.text(index);
            let word = if call.ends_with("min") { "smallest" } else { "largest" };
            g.explain(format!("`{name}` is the {word} of {} in the warp.", x.words));
            index
        }
        // Votes.
        _ => {
            let limit = g.threshold(&x);
            let sign = g.random.pick(&["<", ">"]);
            let mut test = format!("{} {sign} {}", x.text, limit.text);
            let word = if sign == "<" { "less" } else { "more" };
            let mut words = format!("{} {word} than {}", x.words, limit.words);
            if let Some(&extra) = extras.first()
                && g.random.one_in(3)
            {
                let other = g.read(extra);
                if other.ty == ty {
                    test = format!("{} {sign} {}", x.text, other.text);
                    words = format!("{} {word} than {}", x.words, other.words);
                }
            }
            let real = g.real;
            let cast = g.cast_name(ty);
            match g.random.below(3) {
                0 => {
                    let text = format!("{cast}(loom.bit_count(loom.ballot({test})))");
                    let index = g.let_like(&["votes", "n_hot", "agreed"], &text, ty, NumberRange::new(0.0, 32.0));
                    let name = g.text(index);
                    g.explain(format!("`{name}` is the number of lanes with {words}."));
                    index
                }
                1 if ty == real => {
                    let call = g.random.pick(&["warp_any", "warp_all"]);
                    let (yes, no) = (g.number(2.0), g.number(0.5));
                    let text = format!("loom.where(loom.{call}({test}), {}, {})", yes.text, no.text);
                    let index = g.let_like(&["mode", "setting", "level"], &text, ty, NumberRange::new(0.5, 2.0));
                    let name = g.text(index);
                    let who = if call == "warp_any" { "any lane has" } else { "all lanes have" };
                    g.explain(format!("`{name}` is 2.0 if {who} {words}, else 0.5."));
                    index
                }
                _ => {
                    // The lanes before this one that agree: places for compaction.
                    let (mask, rank) = (g.like(&["mask", "voted", "who"]), ["slot", "rank", "place"]);
                    g.line(&format!("{mask} = loom.ballot({test})"));
                    let lower = "(loom.uint32(1) << loom.uint32(loom.lane_id())) - loom.uint32(1)";
                    let below = g.named(lower).unwrap_or_else(|| {
                        let below = g.like(&["below", "lower", "earlier"]);
                        g.line(&format!("{below} = {lower}"));
                        below
                    });
                    let text = format!("{cast}(loom.bit_count({mask} & {below}))");
                    let index = g.let_like(&rank, &text, ty, NumberRange::new(0.0, 32.0));
                    let name = g.text(index);
                    g.explain(format!("`{name}` is the number of earlier lanes with {words}."));
                    index
                }
            }
        }
    }
}

/// Returns how far off a lane or an element is.
fn places(n: u32, way: &str) -> String {
    if n == 1 { format!("1 place {way}") } else { format!("{n} places {way}") }
}

impl KernelGenerator {
    /// The first lane writes for its warp.
    fn one_per_warp(&mut self, block: &BlockShape, result: GeneratedExpr) {
        let n_warps = block.total / 32;
        let result = self.constrain(result, OperandNeed::Finite);
        let total = match block.ty.as_composite() {
            None if self.random.one_in(2) => "loom.warp_reduce_max",
            _ => "loom.warp_reduce_add",
        };
        let is_max = total.ends_with("max");
        let names: &[&str] = if is_max { &["per_warp", "peaks", "out"] } else { &["per_warp", "sums", "out"] };
        let name = self.zeros_like(names, block.ty, &[ProgramExtent::Is(n_warps)]);
        let index = self.let_like(
            if is_max { &["highest", "top"] } else { &["joined", "warp_total"] },
            &format!("{total}({})", result.text),
            block.ty,
            result.range,
        );
        let joined = self.text(index);
        self.line("if loom.lane_id() == 0:");
        let place = format!("{name}[{} // 32]", block.index);
        self.nested(|g| g.line(&format!("{place} = {joined}")));
        let what = if is_max { "the largest" } else { "the sum" };
        self.say(format!("`{name}` is, for each warp, {what} of {}.", result.words));
    }
}
