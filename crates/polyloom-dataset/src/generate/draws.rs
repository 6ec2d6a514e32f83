//! Kernels with random numbers.

use super::elementwise::begin;
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use super::program::{Category, DatasetProgram};
use crate::catalogue::{OpTrait, OperandNeed, facts};
use crate::number_range::NumberRange;
use polyloom::{Composite, Op, Random, Scalar, Type};

/// Returns what a draw is called, its type and what it may be.
fn kinds() -> [(&'static str, Type, NumberRange); 11] {
    let vec = |len| Type::Composite(Composite::Vector { elem: Scalar::F32, len });
    let unit = NumberRange::within(1.0);
    [
        ("randf", Type::F32, NumberRange::new(0.0, 1.0)),
        ("randn", Type::F32, NumberRange::within(6.0)),
        ("randf", Type::F32, NumberRange::new(0.0, 1.0)),
        ("sample_unit_ring", vec(2), unit),
        ("sample_unit_disk", vec(2), unit),
        ("sample_unit_square", vec(2), unit),
        ("sample_triangle", vec(2), unit),
        ("sample_unit_sphere_surface", vec(3), unit),
        ("sample_unit_sphere", vec(3), unit),
        ("sample_unit_cube", vec(3), unit),
        ("sample_unit_hemisphere", vec(3), unit),
    ]
}

/// A kernel with random numbers.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Random);
    let kinds = kinds();
    for (_, ty, _) in kinds {
        if let Some(composite) = ty.as_composite()
            && g.random.one_in(4)
            && !g.composites.contains(&composite)
        {
            g.composites.push(composite);
        }
    }
    g.parameters(difficulty);
    let seed = g.scalar_like(&["seed", "rng_seed", "key"], Type::I32, 0.0, 1000.0);
    let state = g.like(&["state", "rng", "s"]);
    let number = match &g.indices.clone()[..] {
        [i] => i.clone(),
        // Threads along several axes count as one.
        all => {
            let factors = [1009, 9176];
            let terms: Vec<String> = all
                .iter()
                .enumerate()
                .map(|(at, index)| if at == 0 { index.clone() } else { format!("{} * {index}", factors[at - 1]) })
                .collect();
            terms.join(" + ")
        }
    };
    let init = g.builtin("rand_init");
    // Otherwise the sum of both would give one thread with one seed what another has with the next.
    g.line(&format!("{state} = {init}({seed}, {number})"));
    let told_at = g.so_far().2;
    let goal = g.goal(difficulty);
    for at in 0..16 {
        if at > 0 && g.n_lines() + 2 >= goal {
            break;
        }
        match g.random.below(6) {
            0 | 1 => g.estimate(&state, difficulty),
            2 => g.noise(&state),
            _ => {
                g.draw(&state);
            }
        }
        if g.random.one_in(2) {
            g.statements(1, 1);
        }
    }
    let more = g.random.below(1 + usize::from(difficulty.min(2)));
    g.statements(more, 1);
    let draws = g.has_line_with(&["randf(", "randn(", "randi(", ".sample_"]);
    let what = match (draws, g.has_line_with(&["noise("])) {
        (true, false) => "draws random numbers from a state",
        (true, true) => "draws random numbers, and seeds noise, from a state",
        _ => "seeds noise by a state",
    };
    g.say_at(told_at, format!("Each thread {what} of its own, made of `{seed}` and `{number}`."));
    g.gap();
    g.outputs(1 + usize::from(difficulty > 1));
    g.finish(Category::Random)
}

impl KernelGenerator {
    /// A variable with a random value.
    fn draw(&mut self, state: &str) -> usize {
        let fits: Vec<(&str, Type, NumberRange)> = kinds()
            .into_iter()
            .filter(|(_, ty, _)| ty.as_composite().is_none_or(|composite| self.composites.contains(&composite)))
            .collect();
        let (name, ty, mut range) = self.random.pick(&fits);
        let mut args = state.to_owned();
        let mut words = match name {
            "randf" => "a random number from 0 to 1",
            "randn" => "a normally distributed random number",
            "sample_unit_ring" => "a random point on the unit circle",
            "sample_unit_disk" => "a random point in the unit disk",
            "sample_unit_square" => "a random point in the unit square",
            "sample_triangle" => "a random pair of barycentric coordinates",
            "sample_unit_sphere_surface" => "a random direction",
            "sample_unit_sphere" => "a random point in the unit ball",
            "sample_unit_cube" => "a random point in the unit cube",
            _ => "a random point in the unit hemisphere",
        }
        .to_owned();
        if self.random.one_in(8) && self.scalars.contains(&Scalar::I32) {
            let (low, high) = (self.random.below(4), 6 + self.random.below(20));
            let call = self.builtin("randi");
            let index = self.let_like(
                &["roll", "choice", "pick", "drawn"],
                &format!("{call}({state}, {low}, {high})"),
                Type::I32,
                NumberRange::new(low as f64, high as f64),
            );
            let roll = self.text(index);
            self.explain(format!("`{roll}` is a random whole number from {low} to {}.", high - 1));
            return index;
        }
        if name == "randf" && self.random.one_in(2) {
            let (low, high) = self.random.pick(&[(-1.0, 1.0), (0.5, 2.0), (-0.5, 0.5), (0.0, 4.0)]);
            args = format!("{state}, {low:?}, {high:?}");
            words = format!("a random number from {low:?} to {high:?}");
            range = NumberRange::new(low, high);
        }
        let call = self.builtin(name);
        let names: &[&str] = match (name, ty.as_composite()) {
            (_, Some(_)) => &["sample", "drawn", "jitter", "point", "kick"],
            ("randn", _) => &["z", "noise", "gauss", "shock", "eps_n"],
            _ => &["r", "u", "xi", "rnd", "chance"],
        };
        let is_of_one_length = Op::from_name(name).is_some_and(|op| facts(op).is(OpTrait::UnitLength));
        let index = self.let_like(names, &format!("{call}({args})"), ty, range);
        if is_of_one_length {
            self.variables[index].head = Some(Op::Normalize);
        }
        let name = self.text(index);
        self.explain(format!("`{name}` is {words}."));
        index
    }

    /// A mean over draws, or a count.
    fn estimate(&mut self, state: &str, difficulty: u8) {
        let n = self.random.pick(&[8, 10, 16, 32]);
        let zero = self.number(0.0);
        let counts = self.random.one_in(5);
        let names: &[&str] = if counts { &["n_below", "hits", "count"] } else { &["total", "acc", "drawn_sum"] };
        let total = self.mutable_like(names, &zero, NumberRange::within(8.0 * f64::from(n)));
        let name = self.text(total);
        self.taken(&[total]);
        let index = self.like(&["s", "n", "trial", "k"]);
        self.line(&format!("for {index} in range({n}):"));
        let done = self.nested(|g| {
            let first = g.mark();
            let drawn = g.draw(state);
            if difficulty > 1 && g.random.one_in(2) {
                g.draw(state);
            }
            g.variables[first..].iter_mut().for_each(|variable| variable.moves = true);
            if g.random.one_in(2) {
                g.without(vec![total], |g| g.moving_statements(1));
            }
            let real = g.real;
            // A product with what begins with zero stays there.
            let value = g.without(vec![total], |g| match g.variables[drawn].ty == real {
                true => g.weave(drawn, &[], 1),
                false => g.variable(real, 1),
            });
            let value = g.with_unused_from(value, first);
            let value = g.constrain(value, OperandNeed::Moderate);
            let value = g.short(value);
            if counts {
                let limit = g.threshold(&value);
                g.line(&format!("if {} < {}:", value.text, limit.text));
                let one = g.real(1.0);
                g.nested(|g| g.line(&format!("{name} += {one}")));
                g.say(format!("count in `{name}` where {} is less than {}", value.words, limit.words));
            } else {
                g.line(&format!("{name} += {}", value.text));
                g.say(format!("add {} to `{name}`", value.words));
            }
        });
        self.explain(format!("{n} times: {done}."));
        self.must_be_read(total);
        let sum = self.read(total);
        let count = self.number(n.into());
        let mean = GeneratedExpr::binary("/", &sum, &count, self.real, NumberRange::within(8.0));
        let names: &[&str] = if counts { &["share", "fraction", "chance"] } else { &["mean", "average", "expected"] };
        self.assign_like(names, mean);
    }

    /// Noise at a place.
    fn noise(&mut self, state: &str) {
        let name = self.random.pick(&["noise", "noise", "pnoise", "curlnoise"]);
        // Real Warp's noise is not periodic at negative places.
        let name = if name == "pnoise" && self.is_shared() { "noise" } else { name };
        let real = self.real;
        let place = match self.composites.first().copied() {
            Some(composite @ Composite::Vector { len: 2..=3, .. }) => self.variable(composite.into(), 1),
            _ => self.variable(real, 1),
        };
        let is_flat = place.ty.as_composite().is_none();
        let place = if is_flat { self.constrain(place, OperandNeed::Finite) } else { place };
        let place = self.short(place);
        if name == "curlnoise" && is_flat {
            return;
        }
        let (ty, bound) = if name == "curlnoise" { (place.ty, 8.0) } else { (real, 1.0) };
        let mut args = vec![GeneratedExpr::atom(state, self.whole, NumberRange::ANY), place.clone()];
        let n_axes = place.ty.as_composite().map_or(1, Composite::n_components);
        let noun = match name {
            "pnoise" => {
                let period = GeneratedExpr::int(self.random.pick(&[4, 8, 16]));
                args.extend(vec![period; n_axes]);
                if n_axes > 1 {
                    "the noise of period {1} along each axis at {0}"
                } else {
                    "the noise of period {1} at {0}"
                }
            }
            "curlnoise" => "the curl noise at {}",
            _ => "the noise at {}",
        };
        let args: Vec<&GeneratedExpr> = args.iter().collect();
        let call =
            GeneratedExpr::call(&self.builtin(name), &args, ty, NumberRange::within(bound)).told(noun, &args[1..]);
        self.assign_new(call);
    }
}
