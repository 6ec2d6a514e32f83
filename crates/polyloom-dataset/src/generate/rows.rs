//! Kernels that go along the rows of an array: reductions and scans.

use super::elementwise::begin;
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use super::program::{Category, DatasetProgram, ProgramExtent};
use crate::catalogue::OperandNeed;
use crate::number_range::NumberRange;
use polyloom::{Random, Type};

/// Rows are not longer than this.
const LONGEST: f64 = 32.0;

/// Describes what a thread goes along.
struct ThreadLine {
    /// The name of the index, and what it counts to.
    index: String,
    extent: String,
    /// The arrays, with the element at the index.
    elements: Vec<String>,
    types: Vec<Type>,
    ranges: Vec<NumberRange>,
}

/// Arrays whose last, or first, axis threads go along.
fn rows(g: &mut KernelGenerator, difficulty: u8) -> ThreadLine {
    let rank = g.random.pick(&[2, 2, 2, 3]);
    let outer = rank - 1;
    let first_axis = rank == 2 && g.random.one_in(4);
    let names: &[&str] = match outer {
        1 if first_axis => g.random.pick(&[&["i"], &["col"], &["j"], &["b"]]),
        1 => g.random.pick(&[&["i"], &["row"], &["r"], &["b"]]),
        _ => g.random.pick(&[&["i", "j"], &["b", "row"]]),
    };
    let dim: Vec<ProgramExtent> = (0..outer).map(|axis| ProgramExtent::Free(axis as u8)).collect();
    g.threads_over(&dim, names);
    let last = ProgramExtent::Free(outer as u8);
    g.by_column = first_axis;
    let shape: Vec<ProgramExtent> =
        if first_axis { vec![last, dim[0]] } else { dim.iter().copied().chain([last]).collect() };
    let index = g.like(if first_axis { &["k", "r", "row", "n", "m"] } else { &["j", "k", "c", "col", "n", "m"] });
    let indices = match first_axis {
        true => format!("{index}, {}", g.indices[0]),
        false => format!("{}, {index}", g.indices.join(", ")),
    };
    let n = 1 + g.random.below(2) * g.random.below(2) + usize::from(difficulty > 2);
    let real = g.real;
    let names: &[&str] = &["x", "values", "samples", "scores", "weights", "logits", "signal", "matrix", "data"];
    let mut row = ThreadLine { index, extent: String::new(), elements: vec![], types: vec![], ranges: vec![] };
    for at in 0..n {
        let ty = match g.composites.first() {
            Some(&composite) if at == 0 && g.random.one_in(2) => composite.into(),
            _ if at == 0 && g.scalars.len() > 1 && g.random.one_in(3) => g.whole,
            _ => real,
        };
        let (low, high) = g.limits(ty);
        // A vector that all rows share, or as many numbers as the first array has.
        let (name, element) = match at > 0 && g.random.one_in(3) {
            true => {
                let name = g.array_like(&["w", "coefs", "profile", "pattern"], ty, &[last], low, high);
                let element = format!("{name}[{}]", row.index);
                (name, element)
            }
            false => {
                let name = g.array_like(names, ty, &shape, low, high);
                let element = format!("{name}[{indices}]");
                (name, element)
            }
        };
        if at == 0 {
            let axis = if first_axis { 0 } else { outer };
            row.extent = format!("{name}.shape[{axis}]");
        }
        row.elements.push(element);
        row.types.push(ty);
        row.ranges.push(NumberRange::new(low, high));
    }
    if g.random.one_in(3) {
        let name = g.like(&[if first_axis { "n_rows" } else { "n_cols" }, "length", "n_items"]);
        g.line(&format!("{name} = {}", row.extent));
        row.extent = name;
    }
    row
}

impl ThreadLine {
    /// The elements as variables of a loop's body: the first with a name, often.
    fn loaded(&self, g: &mut KernelGenerator) -> Vec<usize> {
        let mut found = Vec::new();
        for ((element, &ty), &range) in self.elements.iter().zip(&self.types).zip(&self.ranges) {
            let index = match g.random.one_in(2) {
                true => {
                    let index = g.let_like(&["x", "v", "item", "e", "value", "cur"], element, ty, range);
                    let name = g.text(index);
                    g.explain(format!("`{name}` is `{element}`"));
                    index
                }
                false => {
                    let name = element.split('[').next().unwrap_or(element).to_owned();
                    g.declare(element.clone(), format!("the element of `{name}`"), ty, range)
                }
            };
            found.push(index);
        }
        found
    }

    fn first(&self) -> &str {
        self.elements[0].split('[').next().unwrap_or_default()
    }

    fn is_column(&self) -> bool {
        self.elements[0].contains(&format!("[{},", self.index))
    }

    fn head(&self) -> String {
        format!("for {} in range({}):", self.index, self.extent)
    }
}

/// A value of an element, all elements read: what is reduced.
fn term(g: &mut KernelGenerator, row: &ThreadLine, extras: &[usize], difficulty: u8, goal: usize) -> GeneratedExpr {
    let mark = g.mark();
    let loaded = row.loaded(g);
    let mut seen: Vec<usize> = loaded.clone();
    seen.extend(extras);
    if g.random.one_in(4) {
        seen.push(g.declare_index(&row.index.clone(), Type::I32, NumberRange::new(0.0, LONGEST)));
    }
    let n = match difficulty {
        0 => 0,
        1 | 2 => g.random.below(2),
        _ => 1 + g.random.below(4),
    };
    g.work(&mut seen, n, 1);
    g.work_until(&mut seen, goal, 1 + usize::from(difficulty > 3));
    let depth = g.some_depth(difficulty).max(g.random.below(3).min(1));
    let value = g.weave(loaded[0], &seen, depth);
    let value = g.with_unused_from(value, mark);
    let value = g.constrain(value, OperandNeed::Moderate);
    g.short(value)
}

/// Rows to numbers.
pub(super) fn reduction(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Reduction);
    let row = rows(&mut g, difficulty);
    let mut extras = g.extras(difficulty);
    let goal = g.goal(difficulty);
    let mut results = Vec::new();
    for at in 0..8 {
        if at > 0 && g.n_lines() + 4 >= goal {
            break;
        }
        g.gap();
        results.push(reduce(&mut g, &row, &extras, difficulty, at));
    }
    extras.extend(&results);
    g.gap();
    if difficulty > 2 {
        g.work_until(&mut extras, goal - 1, 2);
    }
    let base = results[0];
    let depth = g.some_depth(difficulty.max(1));
    let value = g.concluded(base, &extras, depth);
    if g.random.one_in(6) && value.ty == g.real {
        let name = g.zeros_like(&["highest", "peak", "largest"], value.ty, &[ProgramExtent::Is(1)]);
        let (line, first) = (if row.is_column() { "column" } else { "row" }, row.first());
        g.sum_up(format!("Reduce each {line} of `{first}` and keep the largest result in `{name}`."));
        let call = g.builtin("atomic_max");
        let value = g.constrain(value, OperandNeed::NotNegative);
        g.line(&format!("{call}({name}, 0, {})", value.text));
        g.say(format!("`{name}` is raised to {} if that is larger, over all threads.", value.words));
    } else {
        g.store(value);
    }
    g.finish(Category::Reduction)
}

fn reduce(g: &mut KernelGenerator, row: &ThreadLine, extras: &[usize], difficulty: u8, at: usize) -> usize {
    let ty = row.types[0];
    let is_number = ty.as_composite().is_none();
    let (real, whole) = (g.real, g.whole);
    let kind = if is_number { g.random.below(9) } else { 0 };
    let head = row.head();
    match kind {
        // The largest or smallest, and perhaps where it is.
        1 | 2 => {
            let largest = kind == 1;
            let mut start = g.number(if largest { -1.0e3 } else { 1.0e3 });
            if ty == whole {
                start = g.int(if largest { -1000 } else { 1000 });
            }
            let names = if largest { ["highest", "best", "top"] } else { ["lowest", "least", "bottom"] };
            let best = g.mutable_like(&names, &start, NumberRange::within(8.0));
            let name = g.text(best);
            let with_place = g.random.one_in(2);
            let place = with_place.then(|| {
                let zero = GeneratedExpr::int(0);
                g.mutable_like(&["place", "at", "where_found"], &zero, NumberRange::new(0.0, LONGEST))
            });
            g.taken(&[best]);
            g.line(&head);
            let done = g.nested(|g| {
                let value = term(g, row, extras, difficulty, 0);
                let (sign, call) = if largest { (">", "max") } else { ("<", "min") };
                let place = place.map(|place| g.text(place));
                if let Some(place) = &place {
                    let value = if value.binding == super::expr::BindingStrength::Atom && value.text.len() < 10 {
                        value
                    } else {
                        g.name(value)
                    };
                    g.line(&format!("if {} {sign} {name}:", value.text));
                    g.nested(|g| {
                        g.line(&format!("{name} = {}", value.text));
                        g.line(&format!("{place} = {}", row.index));
                    });
                    let which = if largest { "largest" } else { "smallest" };
                    g.say(format!("`{name}` becomes the {which} {} so far, and `{place}` its place", value.words));
                } else {
                    let call = g.builtin(call);
                    g.line(&format!("{name} = {call}({name}, {})", value.text));
                    g.say(format!(
                        "`{name}` becomes the {} of itself and {}",
                        if largest { "larger" } else { "smaller" },
                        value.words
                    ));
                }
            });
            g.explain(format!("For each `{}`: {done}.", row.index));
            g.must_be_read(best);
            match place {
                Some(place) if !g.types().contains(&Type::I32) => {
                    g.must_be_read(place);
                    let index = g.read(place);
                    let fraction = g.cast(index, real);
                    g.name(fraction);
                    best
                }
                Some(place) => {
                    g.must_be_read(place);
                    best
                }
                None => best,
            }
        }
        // Number of rows.
        3 => {
            let zero = GeneratedExpr::int(0);
            let count = g.mutable_like(&["count", "n_found", "n_hits"], &zero, NumberRange::new(0.0, LONGEST));
            let name = g.text(count);
            g.taken(&[count]);
            g.line(&head);
            let done = g.nested(|g| {
                let value = term(g, row, extras, difficulty, 0);
                let limit = g.threshold(&value);
                let sign = g.random.pick(&["<", ">"]);
                g.line(&format!("if {} {sign} {}:", value.text, limit.text));
                g.nested(|g| g.line(&format!("{name} += 1")));
                let word = if sign == "<" { "less" } else { "more" };
                g.say(format!("`{name}` counts where {} is {word} than {}", value.words, limit.words));
            });
            g.explain(format!("For each `{}`: {done}.", row.index));
            g.must_be_read(count);
            let count = g.read(count);
            let count = if ty == real || whole != Type::I32 { g.cast(count, ty) } else { count };
            let index = g.assign_new(count);
            g.must_be_read(index);
            index
        }
        // A mean and what is about it.
        4 if row.types.iter().all(|ty| *ty == real) => {
            let mean = plain_sum(g, row);
            let name = g.text(mean);
            let cast = g.cast_name(real);
            g.line(&format!("{name} = {name} / {cast}({})", row.extent));
            let line = if row.is_column() { "column" } else { "row" };
            g.explain(format!("Divide `{name}` by the length of the {line}."));
            let zero = g.zero(real);
            // All arrays enter into it, because what others have beside the deviation are its weights.
            let others = row.elements[1..].to_vec();
            let (names, low): (&[&str], f64) = match others.is_empty() {
                true => (&["spread", "deviation", "scatter"], 0.0),
                false => (&["moment", "covariance", "joint"], -256.0 * LONGEST),
            };
            let spread = g.mutable_like(names, &zero, NumberRange::new(low, 256.0 * LONGEST));
            let total = g.text(spread);
            g.taken(&[spread]);
            g.line(&head);
            let done = g.nested(|g| {
                let element = row.elements[0].clone();
                let power = g.random.below(3);
                let difference = g.like(&["d", "dev", "off"]);
                g.line(&format!("{difference} = {element} - {name}"));
                let abs = g.builtin("abs");
                g.say(format!("`{difference}` is the difference of `{element}` and `{name}`"));
                let weight = match &others[..] {
                    [one] => one.clone(),
                    others => format!("({})", others.join(" + ")),
                };
                g.line(&match power {
                    _ if !others.is_empty() => format!("{total} += {difference} * {weight}"),
                    0 => format!("{total} += {abs}({difference})"),
                    _ => format!("{total} += {difference} * {difference}"),
                });
                g.say(match power {
                    _ if !others.is_empty() => {
                        format!("`{total}` adds up the product of `{difference}` and `{weight}`")
                    }
                    0 => format!("`{total}` adds up the absolute value of `{difference}`"),
                    _ => format!("`{total}` adds up the square of `{difference}`"),
                });
            });
            g.explain(format!("For each `{}`: {done}.", row.index));
            g.must_be_read(spread);
            spread
        }
        // A product of factors near one.
        5 if ty == real => {
            let one = g.number(1.0);
            let product = g.mutable_like(&["growth", "compounded", "factor_so_far"], &one, NumberRange::new(0.0, 30.0));
            let name = g.text(product);
            g.taken(&[product]);
            g.line(&head);
            let done = g.nested(|g| {
                let value = term(g, row, extras, difficulty, 0);
                let value = g.constrain(value, OperandNeed::Unit);
                let value = g.short(value);
                let (one, small) = (g.real(1.0), g.pick_number(&[0.1, 0.05, 0.02]));
                g.line(&format!("{name} *= {one} + {} * {}", small.text, value.within_product()));
                g.say(format!("`{name}` is multiplied by one plus {} times {}", small.words, value.words));
            });
            g.explain(format!("For each `{}`: {done}.", row.index));
            g.must_be_read(product);
            product
        }
        _ => {
            let names = ["total", "acc", "sum", "s"];
            sum(g, row, extras, difficulty, names[at.min(3)])
        }
    }
}

/// The sum of the elements.
fn plain_sum(g: &mut KernelGenerator, row: &ThreadLine) -> usize {
    let zero = g.zero(row.types[0]);
    let total = g.mutable_like(&["mean", "average"], &zero, NumberRange::within(8.0 * LONGEST));
    g.taken(&[total]);
    let name = g.text(total);
    g.line(&row.head());
    g.nested(|g| g.line(&format!("{name} += {}", row.elements[0])));
    g.explain(format!("`{name}` adds up the elements of `{}`.", row.first()));
    g.must_be_read(total);
    total
}

/// The sum of terms.
fn sum(g: &mut KernelGenerator, row: &ThreadLine, extras: &[usize], difficulty: u8, name: &str) -> usize {
    let ty = row.types[0];
    let zero = g.zero(ty);
    let name = g.like(&[name]);
    let start = match ty {
        Type::F32 => format!("float({})", zero.text),
        Type::I32 => format!("int({})", zero.text),
        _ => zero.text.clone(),
    };
    g.line(&format!("{name} = {start}"));
    let total = g.declare(name.clone(), format!("`{name}`"), ty, NumberRange::within(8.0 * LONGEST));
    g.taken(&[total]);
    let head = row.head();
    g.line(&head);
    let done = g.nested(|g| {
        if g.random.one_in(6) {
            let NumberRange { low, high } = row.ranges[0];
            let limits: Vec<f64> = [0.0, 0.5, -0.5, 1.0].into_iter().filter(|x| *x > low && *x < high).collect();
            if row.types[0] == g.real && !limits.is_empty() {
                let limit = g.pick_number(&limits);
                g.line(&format!("if {} < {}:", row.elements[0], limit.text));
                g.nested(|g| g.line("continue"));
                let first = row.elements[0].split('[').next().unwrap_or_default().to_owned();
                g.say(format!("skip elements of `{first}` less than {}", limit.words));
            }
        }
        let value = term(g, row, extras, difficulty, 0);
        let value = if value.ty == ty { value } else { g.cast(value, ty) };
        g.line(&format!("{name} += {}", value.text));
        g.say(format!("`{name}` adds up {}", value.words));
    });
    g.explain(format!("For each `{}`: {done}.", row.index));
    g.must_be_read(total);
    total
}

/// Rows to rows, each element of what came before it.
pub(super) fn scan(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Scan);
    let row = rows(&mut g, difficulty);
    let extras = g.extras(difficulty);
    let ty = row.types[0];
    let (real, is_number) = (g.real, row.types[0].as_composite().is_none());
    let n = match difficulty {
        0 | 1 => 1,
        2 => 1 + g.random.below(2),
        3 => 2,
        _ => 2 + g.random.below(3),
    };
    let goal = g.goal(difficulty);
    let reverse = g.random.one_in(4);
    // Values carried along the row.
    let mut carried = Vec::new();
    for _ in 0..n {
        let n_kinds = if is_number { 5 } else { 2 };
        let mut kind = g.random.below(n_kinds);
        // Otherwise two of a kind would be the same twice.
        while carried.len() < n_kinds && carried.iter().any(|&(known, _)| known == kind) {
            kind = (kind + 1) % n_kinds;
        }
        let start = match kind {
            2 | 3 => match ty == g.whole {
                true => g.int(if kind == 2 { -1000 } else { 1000 }),
                false => g.number(if kind == 2 { -1.0e3 } else { 1.0e3 }),
            },
            4 if ty == real => g.number(1.0),
            _ if g.random.one_in(3) && is_number => g.constant(ty),
            _ => g.zero(ty),
        };
        let names: &[&str] = match kind {
            1 if ty != g.whole => &["smooth", "trend", "follower"],
            2 => &["highest", "top", "running_max"],
            3 => &["lowest", "bottom", "running_min"],
            4 if ty != g.whole => &["growth", "running_prod", "compounded"],
            _ => &["running", "acc", "carry", "so_far"],
        };
        let index = g.mutable_like(names, &start, NumberRange::within(if kind == 1 { 80.0 } else { 8.0 * LONGEST }));
        g.taken(&[index]);
        carried.push((kind, index));
    }
    let second = ty == real && g.random.one_in(4);
    let previous = second.then(|| {
        let zero = g.zero(ty);
        let index = g.mutable_like(&["previous", "last", "before"], &zero, NumberRange::within(8.0));
        g.taken(&[index]);
        index
    });
    let at = row.index.clone();
    let (element, name) = {
        let element = row.elements[0].clone();
        let inside = element.split_once('[').map(|(_, inside)| inside.trim_end_matches(']').to_owned())?;
        let mut shape: Vec<ProgramExtent> = (0..g.indices.len()).map(|axis| ProgramExtent::Free(axis as u8)).collect();
        let last = ProgramExtent::Free(g.indices.len() as u8);
        if inside.starts_with(&format!("{at},")) {
            shape.insert(0, last)
        } else {
            shape.push(last)
        }
        let name = g.zeros_like(&["out", "result", "scanned", "traced"], ty, &shape);
        (format!("{name}[{inside}]"), name)
    };
    let head = match reverse {
        false => row.head(),
        true => format!("for {at} in range({} - 1, -1, -1):", row.extent),
    };
    g.gap();
    g.line(&head);
    // Before the first element the largest so far is none.
    let exclusive = !carried.iter().any(|(kind, _)| matches!(kind, 2 | 3)) && g.random.one_in(4);
    let done = g.nested(|g| {
        let mut seen: Vec<usize> = carried.iter().map(|&(_, index)| index).collect();
        seen.extend(&extras);
        if exclusive {
            write(g, &seen, &element, &name, difficulty);
        }
        let value = term(g, &row, &extras, difficulty, goal.saturating_sub(2 + carried.len()));
        let value = match previous {
            Some(previous) => {
                let value = g.name(value);
                let before = g.read(previous);
                let sign = g.random.pick(&["+", "-"]);
                let both = GeneratedExpr::binary(sign, &value, &before, value.ty, value.range + before.range);
                let both = g.name(both);
                g.line(&format!("{} = {}", before.text, value.text));
                g.say(format!("keep {} as {}", value.words, before.words));
                both
            }
            None => value,
        };
        let value = if carried.len() > 1 && value.text.len() > 8 { g.name(value) } else { value };
        for &(kind, index) in &carried {
            advance(g, kind, index, &value);
        }
        if !exclusive {
            write(g, &seen, &element, &name, difficulty);
        }
    });
    let order = if reverse { "from the last to the first" } else { "in order" };
    g.say(format!("For each `{at}`, {order}: {done}."));
    for &(_, index) in &carried {
        g.taken(&[index]);
    }
    g.review();
    let unread = extras.iter().copied().find(|&index| !g.variables[index].used);
    if unread.is_some() {
        return None;
    }
    g.finish(Category::Scan)
}

/// One step of what is carried.
fn advance(g: &mut KernelGenerator, kind: usize, index: usize, value: &GeneratedExpr) {
    let (name, ty) = (g.text(index), value.ty);
    let elem = ty.as_composite().map_or(ty, |composite| composite.elem().into());
    let is_whole = ty == g.whole;
    match kind {
        1 if !is_whole => {
            let keep = g.random.pick(&[0.5, 0.9, 0.8, 0.25, 0.75]);
            let (keep, rest) = (g.number_of(elem, keep), g.number_of(elem, ((1.0 - keep) * 100.0).round() / 100.0));
            let value_text = value.within_product();
            g.line(&format!("{name} = {} * {name} + {} * {value_text}", keep.text, rest.text));
            g.say(format!("`{name}` becomes {} of itself plus {} of {}", keep.words, rest.words, value.words));
        }
        2 | 3 => {
            let call = g.builtin(if kind == 2 { "max" } else { "min" });
            g.line(&format!("{name} = {call}({name}, {})", value.text));
            let word = if kind == 2 { "larger" } else { "smaller" };
            g.say(format!("`{name}` becomes the {word} of itself and {}", value.words));
        }
        4 if !is_whole => {
            let value = g.constrain(value.clone(), OperandNeed::Unit);
            let value = g.short(value);
            let (one, small) = (g.real(1.0), g.pick_number(&[0.1, 0.05, 0.02]));
            g.line(&format!("{name} *= {one} + {} * {}", small.text, value.within_product()));
            g.say(format!("`{name}` is multiplied by one plus {} times {}", small.words, value.words));
        }
        _ => {
            let minus = g.random.one_in(5);
            let sign = if minus { "-" } else { "+" };
            g.line(&format!("{name} {sign}= {}", value.text));
            let word = if minus { "falls" } else { "grows" };
            g.say(format!("`{name}` {word} by {}", value.words));
        }
    }
}

/// Writes what is carried.
fn write(g: &mut KernelGenerator, seen: &[usize], element: &str, name: &str, difficulty: u8) {
    let depth = g.some_depth(difficulty);
    let first = seen[0];
    let value = g.weave(first, seen, depth);
    let value = with_carried(g, value, seen);
    let value = g.constrain(value, OperandNeed::Finite);
    g.line(&format!("{element} = {}", value.text));
    g.say(format!("`{name}` there is {}", value.words));
}

/// The value, and what else is carried.
fn with_carried(g: &mut KernelGenerator, mut value: GeneratedExpr, seen: &[usize]) -> GeneratedExpr {
    for &index in seen {
        if value.uses.contains(&index) || g.variables[index].ty != value.ty {
            continue;
        }
        g.review();
        let is_carried = g.variables[index].is_free;
        if is_carried || !g.variables[index].used {
            let other = g.read(index);
            let value_short = g.short(value);
            let range = value_short.range + other.range;
            value = GeneratedExpr::binary("+", &value_short, &other, value_short.ty, range);
        }
    }
    value
}
