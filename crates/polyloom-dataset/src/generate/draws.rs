//! Kernels with random numbers.

use super::elementwise::begin;
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use super::program::{Category, DatasetProgram};
use crate::catalogue::{OpTrait, OperandNeed, expected, facts};
use crate::number_range::NumberRange;
use polyloom::{Composite, Op, Random, Scalar, Type};

/// The ops that are drawn, the likelier the more often one stands here.
const DRAWS: [Op; 11] = [
    Op::Randf,
    Op::Randn,
    Op::Randf,
    Op::SampleUnitRing,
    Op::SampleUnitDisk,
    Op::SampleUnitSquare,
    Op::SampleTriangle,
    Op::SampleUnitSphereSurface,
    Op::SampleUnitSphere,
    Op::SampleUnitCube,
    Op::SampleUnitHemisphere,
];

/// Returns the type of what an op draws from a state alone.
fn drawn_type(op: Op) -> Type {
    let results = op.info().signatures.iter().find_map(|signature| signature.result_types(&[Type::U32]));
    results.and_then(|results| results.first().copied()).unwrap_or(Type::F32)
}

/// A kernel with random numbers.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Random);
    for op in DRAWS {
        if let Some(composite) = drawn_type(op).as_composite()
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
        let is_known =
            |op: &Op| drawn_type(*op).as_composite().is_none_or(|composite| self.composites.contains(&composite));
        let fits: Vec<Op> = DRAWS.into_iter().filter(is_known).collect();
        let op = self.random.pick(&fits);
        let (stated, ty) = (facts(op), drawn_type(op));
        let mut range = expected(op, &[], ty, &[], false);
        let mut args = state.to_owned();
        let mut words = stated.noun.unwrap_or_default().to_owned();
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
        if op == Op::Randf && self.random.one_in(2) {
            let (low, high) = self.random.pick(&[(-1.0, 1.0), (0.5, 2.0), (-0.5, 0.5), (0.0, 4.0)]);
            args = format!("{state}, {low:?}, {high:?}");
            words = format!("a random number from {low:?} to {high:?}");
            range = NumberRange::new(low, high);
        }
        let call = self.builtin(op.name());
        let index = self.let_like(stated.words.names, &format!("{call}({args})"), ty, range);
        if stated.is(OpTrait::UnitLength) {
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
