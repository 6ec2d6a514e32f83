//! Kernels over the neighbours of an element.

use super::elementwise::begin;
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use super::program::{Category, DatasetProgram, ProgramExtent};
use crate::number_range::NumberRange;
use polyloom::{Random, Type};

/// Describes what happens at the edges.
#[derive(Clone, Copy, PartialEq)]
enum StencilEdge {
    /// Threads there copy the element, and leave.
    Return,
    /// Threads inside do the work, the others copy.
    Inside,
    /// The nearest element stands in for the missing one.
    Clamped,
    /// The grid is periodic.
    Periodic,
    /// Zeros stand beyond.
    Padded,
}

/// A kernel over neighbours.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Stencil);
    let rank = g.random.pick(&[1, 1, 2, 2, 2, 3]);
    let dim: Vec<ProgramExtent> = (0..rank).map(|axis| ProgramExtent::Free(axis as u8)).collect();
    let names: &[&str] = match rank {
        1 => g.random.pick(&[&["i"], &["x"], &["cell"]]),
        2 => g.random.pick(&[&["i", "j"], &["row", "col"], &["y", "x"]]),
        _ => g.random.pick(&[&["i", "j", "k"], &["z", "y", "x"]]),
    };
    g.threads_over(&dim, names);
    let real = g.real;
    let ty = match g.composites.first() {
        Some(&composite) if g.random.one_in(2) => composite.into(),
        _ => real,
    };
    let (low, high) = g.limits(ty);
    let fields: &[&str] = &["field", "u", "grid", "height", "temperature", "density", "phi", "pressure", "image"];
    let source = g.array_like(fields, ty, &dim, low, high);
    let edge = g.random.pick(&[
        StencilEdge::Return,
        StencilEdge::Inside,
        StencilEdge::Clamped,
        StencilEdge::Periodic,
        StencilEdge::Padded,
    ]);
    let radius = if rank == 1 { g.random.pick(&[1, 1, 2]) } else { 1 };
    let extents: Vec<String> = (0..rank).map(|axis| format!("{source}.shape[{axis}]")).collect();
    let mut extras = g.extras(difficulty);
    let range = NumberRange::new(low, high);
    let stencil = StencilKernel { source, edge, radius, rank, extents, ty, range };
    match edge {
        StencilEdge::Return | StencilEdge::Inside => stencil.guarded(&mut g, &mut extras, difficulty),
        _ => {
            let value = stencil.value(&mut g, &mut extras, difficulty);
            g.store(value);
            Some(())
        }
    }?;
    g.finish(Category::Stencil)
}

struct StencilKernel {
    source: String,
    edge: StencilEdge,
    radius: usize,
    rank: usize,
    extents: Vec<String>,
    ty: Type,
    range: NumberRange,
}

impl StencilKernel {
    fn here(&self, g: &KernelGenerator) -> String {
        format!("{}[{}]", self.source, g.indices.join(", "))
    }

    /// The work under a condition, and a copy elsewhere.
    fn guarded(&self, g: &mut KernelGenerator, extras: &mut Vec<usize>, difficulty: u8) -> Option<()> {
        let radius = self.radius;
        let here = self.here(g);
        let (element, name) = g.output(self.ty);
        let indices = g.indices.clone();
        let is_return = self.edge == StencilEdge::Return;
        let tests: Vec<String> = indices
            .iter()
            .zip(&self.extents)
            .flat_map(|(index, extent)| match is_return {
                true => [format!("{index} < {radius}"), format!("{index} >= {extent} - {radius}")],
                false => [format!("{index} >= {radius}"), format!("{index} < {extent} - {radius}")],
            })
            .collect();
        let condition = tests.join(if is_return { " or " } else { " and " });
        // Three axes do not fit on a line.
        if condition.len() > 78 {
            for (axis, extent) in self.extents.clone().into_iter().enumerate() {
                let short = g.like(&[["nx", "ny", "nz"][axis], ["rows", "cols", "depth"][axis]]);
                g.line(&format!("{short} = {extent}"));
            }
            return None;
        }
        g.line(&format!("if {condition}:"));
        if is_return {
            g.nested(|g| {
                g.line(&format!("{element} = {here}"));
                g.line("return");
            });
            let value = self.value(g, extras, difficulty);
            g.line(&format!("{element} = {}", value.text));
            g.say(format!("Inside the grid `{name}` is {}; at its edges a copy of `{}`.", value.words, self.source));
            return Some(());
        }
        g.indented(|g| {
            let value = self.value(g, extras, difficulty);
            g.line(&format!("{element} = {}", value.text));
            g.say(format!("Inside the grid `{name}` is {}; at its edges a copy of `{}`.", value.words, self.source));
        });
        g.line("else:");
        g.nested(|g| g.line(&format!("{element} = {here}")));
        Some(())
    }

    /// Returns what is computed of the neighbours.
    fn value(&self, g: &mut KernelGenerator, extras: &mut Vec<usize>, difficulty: u8) -> GeneratedExpr {
        let here = self.here(g);
        let center = g.let_like(&["center", "here", "c", "mid"], &here, self.ty, self.range);
        let middle = g.text(center);
        g.explain(format!("`{middle}` is the element itself."));
        if self.rank == 1 && g.random.one_in(4) && self.edge != StencilEdge::Padded {
            let total = self.looped(g);
            extras.extend([center, total]);
            let depth = g.some_depth(difficulty);
            let extras = extras.clone();
            return g.concluded(total, &extras, depth);
        }
        let (neighbours, places): (Vec<usize>, Vec<String>) = self.neighbours(g, difficulty).into_iter().unzip();
        let names: Vec<String> = neighbours.iter().map(|&index| g.text(index)).collect();
        let [names, places] = [&names, &places].map(|all| all.iter().map(String::as_str).collect::<Vec<&str>>());
        let verb = if names.len() == 1 { "is its neighbour" } else { "are its neighbours" };
        g.explain(format!("{} {verb} at {}.", super::docstring::list(&names), super::docstring::list(&places)));
        let mut seen = neighbours.clone();
        seen.push(center);
        let real = g.real;
        let words = match self.edge {
            StencilEdge::Clamped => "Neighbours beyond the edge are the nearest elements.",
            StencilEdge::Periodic => "The grid is periodic.",
            StencilEdge::Padded => "Elements beyond the edge are zero.",
            _ => "",
        };
        if !words.is_empty() {
            g.say(words);
        }
        let base = match g.random.below(6) {
            4 | 5 => self.differences(g, &neighbours).unwrap_or(center),
            0 => {
                let names: Vec<String> = neighbours.iter().map(|&index| g.text(index)).collect();
                let n = names.len() as f64;
                let elem = self.ty.as_composite().map_or(self.ty, |composite| composite.elem().into());
                let sum = names.join(" + ");
                let range = KernelGenerator::many(self.range, 2.0 * n);
                let (text, words) = match g.random.below(3) {
                    0 => {
                        let count = g.number_of(elem, n).text;
                        let middle = g.text(center);
                        match neighbours.len() {
                            1 => (format!("{sum} - {middle}"), "the difference to the neighbour"),
                            _ => (format!("{sum} - {count} * {middle}"), "the discrete Laplacian"),
                        }
                    }
                    1 if n > 1.0 => (format!("({sum}) / {}", g.number_of(elem, n).text), "the mean of the neighbours"),
                    _ if n == 1.0 => (format!("{} * {sum}", g.number_of(elem, 0.5).text), "half the neighbour"),
                    _ => (format!("{} * ({sum})", g.number_of(elem, 0.5 / n).text), "half the mean of the neighbours"),
                };
                let names: &[&str] = match words {
                    "the discrete Laplacian" => &["lap", "laplacian", "spread"],
                    "the difference to the neighbour" => &["slope", "rise"],
                    "the mean of the neighbours" => &["around", "average", "nearby"],
                    _ => &["around", "nearby", "mixed"],
                };
                let index = g.let_like(names, &text, self.ty, range);
                let name = g.text(index);
                g.explain(format!("`{name}` is {words}."));
                index
            }
            1 if self.ty == real && neighbours.len() > 1 => {
                let names: Vec<String> = neighbours.iter().map(|&index| g.text(index)).collect();
                let is_largest = g.random.one_in(2);
                let call = g.builtin(if is_largest { "max" } else { "min" });
                let text =
                    names.iter().skip(1).fold(names[0].clone(), |so_far, name| format!("{call}({so_far}, {name})"));
                let (names, what) = match is_largest {
                    true => (["highest", "peak", "top"], "largest"),
                    false => (["lowest", "trough", "least"], "smallest"),
                };
                let index = g.let_like(&names, &text, self.ty, self.range);
                let name = g.text(index);
                g.explain(format!("`{name}` is the {what} of the neighbours."));
                index
            }
            2 if self.ty == real && neighbours.len() > 1 => self.unevenness(g, center, &neighbours),
            _ => center,
        };
        seen.extend(extras.iter());
        let goal = g.goal(difficulty);
        g.work_until(&mut seen, goal - 1, 1 + usize::from(difficulty > 2));
        let depth = g.some_depth(difficulty).max(1 + usize::from(g.random.one_in(2)));
        g.concluded(base, &seen, depth)
    }

    /// Returns how far the neighbours are from the element, all in all.
    fn unevenness(&self, g: &mut KernelGenerator, center: usize, neighbours: &[usize]) -> usize {
        let (middle, n, size) = (g.text(center), neighbours.len() as f64, 2.0 * self.range.size());
        let (abs, max, zero) = (g.builtin("abs"), g.builtin("max"), g.number_of(self.ty, 0.0).text);
        let kind = g.random.below(3);
        let part = |name: &str| match kind {
            0 => format!("{abs}({name} - {middle})"),
            1 => format!("({name} - {middle}) * ({name} - {middle})"),
            _ => format!("{max}({name} - {middle}, {zero})"),
        };
        let parts: Vec<String> = neighbours.iter().map(|&index| part(&g.variables[index].text)).collect();
        let text = parts.join(" + ");
        if text.len() > 64 {
            return center;
        }
        let (what, high) = [
            ("the sum of the absolute differences to the neighbours", n * size),
            ("the sum of the squared differences to the neighbours", n * size * size),
            ("the sum of what the neighbours are greater by", n * size),
        ][kind];
        let index = g.let_like(&["variation", "unevenness", "activity"], &text, self.ty, NumberRange::new(0.0, high));
        let name = g.text(index);
        g.explain(format!("`{name}` is {what}."));
        index
    }

    /// Central differences along the axes, or what is made of them.
    fn differences(&self, g: &mut KernelGenerator, neighbours: &[usize]) -> Option<usize> {
        let [across, along, through] = self.sides(g);
        let pairs: [([&str; 2], &[&str]); 3] =
            [(across, &["dx", "slope_x"]), (along, &["dy", "slope_y"]), (through, &["dz", "slope_z"])];
        let elem = self.ty.as_composite().map_or(self.ty, |composite| composite.elem().into());
        let half = g.number_of(elem, 0.5).text;
        let has = |g: &KernelGenerator, name: &str| neighbours.iter().any(|&index| g.variables[index].text == name);
        let mut found = Vec::new();
        for ([low, high], names) in pairs {
            if has(g, low) && has(g, high) {
                let index =
                    g.let_like(names, &format!("{half} * ({high} - {low})"), self.ty, self.range.or(-self.range));
                let name = g.text(index);
                g.explain(format!("`{name}` is half the difference of `{high}` and `{low}`."));
                found.push(index);
            }
        }
        let names: Vec<String> = found.iter().map(|&index| g.text(index)).collect();
        let first = *found.first()?;
        if self.ty.as_composite().is_some() || names.len() < 2 && g.random.one_in(2) {
            return (names.len() == 1).then_some(first);
        }
        let size = self.range.size();
        let squares: Vec<String> = names.iter().map(|name| format!("{name} * {name}")).collect();
        let (abs, sqrt, max) = (g.builtin("abs"), g.builtin("sqrt"), g.builtin("max"));
        let sizes: Vec<String> = names.iter().map(|name| format!("{abs}({name})")).collect();
        let n = names.len() as f64;
        let (text, what, high) = match g.random.below(4) {
            0 => (squares.join(" + "), "the squared slope", n * size * size),
            1 => (
                format!("{sqrt}({} + {half})", squares.join(" + ")),
                "the square root of the squared slope plus 0.5",
                n * size + 1.0,
            ),
            2 => (sizes.join(" + "), "the sum of the absolute slopes along the axes", n * size),
            _ => {
                let text = sizes.iter().skip(1).fold(sizes[0].clone(), |text, next| format!("{max}({text}, {next})"));
                (text, "the largest absolute slope along an axis", size)
            }
        };
        let what = if sizes.len() == 1 && !what.contains("squared") && !what.contains("root") {
            "the absolute slope"
        } else {
            what
        };
        let index =
            g.let_like(&["steepness", "edge", "roughness", "grad_size"], &text, self.ty, NumberRange::new(0.0, high));
        let name = g.text(index);
        g.explain(format!("`{name}` is {what}."));
        Some(index)
    }

    /// Returns what neighbours are called along each axis, the last first, because rows of a table are counted
    /// downwards.
    fn sides(&self, g: &KernelGenerator) -> [[&'static str; 2]; 3] {
        let is_upwards = g.indices.iter().any(|index| index == "y");
        [["left", "right"], if is_upwards { ["down", "up"] } else { ["above", "below"] }, ["back", "front"]]
    }

    /// Neighbours as variables, and where they are.
    fn neighbours(&self, g: &mut KernelGenerator, difficulty: u8) -> Vec<(usize, String)> {
        let names = self.sides(g);
        let indices = g.indices.clone();
        let mut steps: Vec<Vec<i32>> = Vec::new();
        for axis in 0..self.rank {
            for distance in 1..=self.radius as i32 {
                for sign in [-1, 1] {
                    let mut step = vec![0; self.rank];
                    step[axis] = sign * distance;
                    steps.push(step);
                }
            }
        }
        if self.rank == 2 && difficulty > 1 && g.random.one_in(2) {
            for (dy, dx) in [(-1, -1), (-1, 1), (1, -1), (1, 1)] {
                steps.push(vec![dy, dx]);
            }
        }
        // One-sided differences need only some of them.
        if g.random.one_in(3) {
            let kept = g.random.below(2);
            steps.retain(|step| step.iter().sum::<i32>() > 0 || kept == 0);
        }
        // Indices beside the thread's own, once for each axis.
        let mut beside: Vec<[String; 2]> = Vec::new();
        if matches!(self.edge, StencilEdge::Clamped | StencilEdge::Periodic) {
            for axis in 0..self.rank {
                let (index, extent) = (&indices[axis], &self.extents[axis]);
                let needs = |sign: i32| steps.iter().any(|step| step[axis] * sign > 0);
                let names = [format!("{index}m"), format!("{index}p")];
                let (max, min) = (g.builtin("max"), g.builtin("min"));
                let texts = match self.edge {
                    StencilEdge::Clamped => {
                        [format!("{max}({index} - 1, 0)"), format!("{min}({index} + 1, {extent} - 1)")]
                    }
                    _ => [format!("({index} + {extent} - 1) % {extent}"), format!("({index} + 1) % {extent}")],
                };
                for ((name, text), sign) in names.iter().zip(&texts).zip([-1, 1]) {
                    if needs(sign) {
                        g.names.take(name);
                        g.line(&format!("{name} = {text}"));
                    }
                }
                beside.push(names);
            }
        }
        let zero = g.zero(self.ty);
        let mut found = Vec::new();
        for step in &steps {
            let axis = step.iter().position(|&step| step != 0).unwrap_or(0);
            let is_corner = step.iter().filter(|&&step| step != 0).count() > 1;
            let at: Vec<String> = step
                .iter()
                .enumerate()
                .map(|(axis, &step)| match (step, beside.get(axis)) {
                    (0, _) => indices[axis].clone(),
                    (-1, Some(names)) => names[0].clone(),
                    (1, Some(names)) => names[1].clone(),
                    (_, Some(_)) if self.edge == StencilEdge::Clamped => {
                        let call = g.builtin("clamp");
                        format!(
                            "{call}({} {} {}, 0, {} - 1)",
                            indices[axis],
                            sign(step),
                            step.abs(),
                            self.extents[axis]
                        )
                    }
                    (_, Some(_)) => {
                        let n = &self.extents[axis];
                        format!("({} + 2 * {n} {} {}) % {n}", indices[axis], sign(step), step.abs())
                    }
                    _ => format!("{} {} {}", indices[axis], sign(step), step.abs()),
                })
                .collect();
            let text = format!("{}[{}]", self.source, at.join(", "));
            let name = match (is_corner, step[axis].abs()) {
                (true, _) => {
                    let [down, left] = [step[0], step[1]].map(|step| usize::from(step > 0));
                    g.like(&[&format!("{}_{}", names[1][down], names[0][left])])
                }
                (_, 1) => g.like(&[names[self.rank - 1 - axis][usize::from(step[axis] > 0)]]),
                _ => g.like(&[["far_left", "far_right"][usize::from(step[axis] > 0)]]),
            };
            if self.edge == StencilEdge::Padded {
                let plain = if self.ty == Type::F32 { format!("float({})", zero.text) } else { zero.text.clone() };
                g.line(&format!("{name} = {plain}"));
                let tests: Vec<String> = step
                    .iter()
                    .enumerate()
                    .filter(|(_, step)| **step != 0)
                    .map(|(axis, &step)| match step < 0 {
                        true if step == -1 => format!("{} > 0", indices[axis]),
                        true => format!("{} >= {}", indices[axis], -step),
                        false => format!("{} + {step} < {}", indices[axis], self.extents[axis]),
                    })
                    .collect();
                g.line(&format!("if {}:", tests.join(" and ")));
                g.nested(|g| g.line(&format!("{name} = {text}")));
            } else {
                g.line(&format!("{name} = {text}"));
            }
            let range = self.range.or(NumberRange::of(0.0));
            let moved = step.iter().zip(&indices).filter(|(step, _)| **step != 0);
            let place: Vec<String> =
                moved.map(|(&step, index)| format!("{index} {} {}", sign(step), step.abs())).collect();
            found.push((g.declare(name.clone(), format!("`{name}`"), self.ty, range), place.join(", ")));
        }
        found
    }

    /// A sum over neighbours with weights from an array.
    fn looped(&self, g: &mut KernelGenerator) -> usize {
        let radius = g.random.pick(&[1, 2, 3]);
        let elem = self.ty.as_composite().map_or(self.ty, |composite| composite.elem().into());
        let n = 2 * radius + 1;
        let weights = g.array_like(&["weights", "taps", "stencil", "coefs"], elem, &[ProgramExtent::Is(n)], -0.5, 1.0);
        let zero = g.zero(self.ty);
        let range = KernelGenerator::many(self.range.or(-self.range), f64::from(n));
        let total = g.mutable_like(&["total", "weighted", "acc"], &zero, range);
        // The final value says what it begins with.
        g.take_back_sentence();
        let name = g.text(total);
        let (k, at) = (g.like(&["k", "tap", "s"]), g.like(&["at", "src", "pos"]));
        let (index, extent) = (g.indices[0].clone(), self.extents[0].clone());
        g.line(&format!("for {k} in range({n}):"));
        g.nested(|g| {
            let moved = format!("{index} + {k} - {radius}");
            let text = match self.edge {
                StencilEdge::Periodic => format!("({moved} + {n} * {extent}) % {extent}"),
                _ => format!("{}({moved}, 0, {extent} - 1)", g.builtin("clamp")),
            };
            g.line(&format!("{at} = {text}"));
            g.line(&format!("{name} += {weights}[{k}] * {}[{at}]", self.source));
        });
        let edge =
            if self.edge == StencilEdge::Periodic { "round the grid" } else { "the elements at the edges repeated" };
        g.say(format!(
            "`{name}` is the sum of the {n} elements from {radius} before to {radius} after, {edge}, weighted by `{weights}`."
        ));
        g.must_be_read(total);
        total
    }
}

fn sign(step: i32) -> &'static str {
    if step < 0 { "-" } else { "+" }
}
