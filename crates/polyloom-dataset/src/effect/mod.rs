//! Whether each operation of a generated kernel has an effect: rows are rejected in which terms cancel, a clamp never
//! clamps, a condition always holds, a value is computed for nothing, twice, or anew in each round of a loop.
//!
//! It is the HIR that is looked at, as the front end makes it, in one walk that follows calls. Inputs are what the program
//! says that they may be given, and intervals begin there; tests that were passed narrow them. Values are told apart by
//! number, those that are sums by their terms; of whole numbers it is known what they are multiples of, and of all values
//! whether lanes have the same.
//!
//! Kernels that people wrote are not looked at: what is of no effect in them is theirs to know. Nor are composites, which
//! are made as people make them: a smooth minimum takes away what it has added.
//!
//! Design: `docs/design/dataset-verification.md`.

mod arms;
mod finding;
mod known;
mod learn;
mod loops;
mod observed;
mod reads;
mod results;
mod rules;
mod terms;
mod walk;

use crate::generate::{DatasetProgram, ProgramInput};
use crate::proof::RejectedProof;
use finding::is_looked_at;
pub(crate) use observed::KernelObservations;
use polyloom::Kernel;
use walk::EffectWalk;

/// Tells whether each operation of a generated kernel has an effect, as far as can be told without running it.
///
/// # Errors
///
/// [`Reason::NoEffect`](crate::Reason::NoEffect), with the first operation that has none.
pub(crate) fn check(program: &DatasetProgram, kernel: &Kernel) -> Result<(), Box<RejectedProof>> {
    match is_looked_at(program) {
        true => every_operation(kernel, &program.inputs),
        false => Ok(()),
    }
}

fn every_operation(kernel: &Kernel, inputs: &[ProgramInput]) -> Result<(), Box<RejectedProof>> {
    let (module, id) = kernel.module();
    let function = &module.functions[id];
    let of_reads = || module.reachable(id).into_iter().find_map(|id| reads::find(&module.functions[id]));
    let found = loops::find(function).or_else(of_reads).or_else(|| EffectWalk::new(module).kernel(function, inputs));
    found.map_or(Ok(()), |finding| Err(finding.reject(kernel)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Category, InputValues, generate};
    use crate::verify::KernelVerifier;
    use polyloom::Arch;

    /// Returns what is found in a kernel of these lines, which may call `turn` and `guarded`, whatever it is given.
    fn found(lines: &str, inputs: &[ProgramInput]) -> String {
        let lines = lines.lines().map(|line| format!("    {line}\n")).collect::<String>();
        let source = format!(
            "import polyloom as loom


@loom.func
def turn(a: float, b: float):
    return a * 2.0 - b


@loom.func
def guarded(a: float):
    if a < -0.5:
        return 0.0
    return loom.sqrt(1.0 + a)


@loom.kernel
def kernel(
    x: loom.array(dtype=float),
    y: loom.array(dtype=float),
    v: loom.array(dtype=loom.vec3),
    n: int,
    out: loom.array(dtype=float),
):
    i = loom.tid()
{lines}"
        );
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        let kernel = verifier.compile("kernel", &source).expect("it compiles");
        every_operation(&kernel, inputs).err().map_or(String::new(), |reject| reject.detail)
    }

    fn check(lines: &str, expected: &str) {
        check_of(lines, &[], expected);
    }

    /// The same, where `x` is from 0.1 to 2, `y` and the components of `v` are from -3 to 3, and `n` is from 2 to 9.
    fn check_given(lines: &str, expected: &str) {
        let inputs = [(0.1, 2.0), (-3.0, 3.0), (-3.0, 3.0), (2.0, 9.0)].map(|(low, high)| ProgramInput {
            name: String::new(),
            dtype: String::new(),
            shape: Vec::new(),
            values: InputValues::Between { low, high },
        });
        check_of(lines, &inputs, expected);
    }

    fn check_of(lines: &str, inputs: &[ProgramInput], expected: &str) {
        let detail = found(lines, inputs);
        let what = detail.split_once(": ").map_or(detail.as_str(), |(_, what)| what);
        assert_eq!(what, expected, "{lines}");
    }

    #[test]
    fn few_kernels_are_drafted_in_vain() {
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        let (mut n, mut n_in_vain) = (0, 0);
        for &category in Category::ALL {
            for seed in 0..30 {
                let program = generate(category, seed);
                let kernel = verifier.compile(&program.name, &program.source).expect("it compiles");
                n += 1;
                n_in_vain += u32::from(super::check(&program, &kernel).is_err());
            }
        }
        assert!(n_in_vain * 7 <= n, "{n_in_vain} of {n}");
    }

    #[test]
    fn bounds_that_are_never_reached_are_found() {
        check("out[i] = loom.clamp(0.5 * loom.tanh(x[i]), -0.9, 0.9)", "`clamp` never reaches a bound");
        check("out[i] = loom.clamp(loom.abs(x[i]) + 2.0, -1.0, 1.5)", "`clamp` always gives a bound");
        check("a = x[i] + 0.5\nout[i] = loom.min(a, x[i])", "`min` always gives the same one of the two");
        check("out[i] = loom.abs(x[i] * x[i])", "`abs` is of a number that is not negative");
        check("out[i] = y[i] * (x[i] % (0.5 + loom.abs(x[i])))", "`mod` leaves what it is given");
        check("out[i] = x[i] % loom.max(x[i], 0.1)", "");
        check("out[i] = y[i] * loom.abs(loom.sign(x[i]))", "`abs` is of a sign");
        check("if x[i] - x[i] * x[i] > 0.3:\n    out[i] = y[i]", "`gt` is always the same");
        check("if x[i] - x[i] * x[i] > 0.2:\n    out[i] = y[i]", "");
        check("if y[i] + x[i] * x[i] - 3.0 * x[i] > 0.2:\n    out[i] = y[i]", "");
        check("a = x[i] + y[i]\nif a < x[i]:\n    out[i] = y[i]", "`lt` has one term on both sides");
        check("a = x[i] + y[i]\nif a < 0.5 * x[i]:\n    out[i] = y[i]", "");
        let lines = "s = x[i] * x[i]\nt = s * s\nif t + s + x[i] > -0.1:\n    out[i] = t - y[i]";
        check(lines, "");
        check(&lines.replace("x[i] > -0.1", "y[i] * y[i] > -0.1"), "`gt` is always the same");
        check_given("out[i] = loom.max(x[i] * x[i] + 0.5 * x[i], 0.05)", "`max` always gives the same one of the two");
        check_given("out[i] = loom.max(x[i] * x[i] - 0.5 * x[i], -0.05)", "");
        check("out[i] = x[i] % (x[i] * x[i] + 2.0)", "`mod` leaves what it is given");
        check("out[i] = x[i] % (x[i] * x[i] + 0.2)", "");
        check("out[i] = x[i] % (x[i] + 3.0)", "");
        check_given("out[i] = x[i] % (x[i] + 3.0)", "`mod` leaves what it is given");
        check("out[i] = loom.max(loom.abs(x[i]) - y[i], x[i])", "");
        check("out[i] = loom.max(loom.abs(x[i]) + y[i] * y[i], x[i])", "`max` always gives the same one of the two");
        check("out[i] = loom.frac(loom.sin(x[i]))", "");
        check("out[i] = loom.frac(0.5 * loom.sin(x[i]))", "`frac` leaves what it is given");
        check("out[i] = float((i % 7) % 128) * x[i]", "`mod` leaves what it is given");
        check("out[i] = loom.clamp(loom.tanh(x[i]), -0.9, 0.9) + loom.abs(x[i]) % 3.0", "");
        check("out[i] = loom.cosh(loom.clamp(loom.abs(x[i]), -3.0, 3.0))", "`clamp` never reaches a bound");
        check("out[i] = loom.clamp(x[i] * x[i], 0.0, 3.0)", "`clamp` never reaches a bound");
        check_given("out[i] = loom.clamp(y[i], -2.0, 3.5)", "`clamp` never reaches a bound");
        check_given("out[i] = loom.clamp(y[i], -2.0, 2.0)", "");
    }

    #[test]
    fn tests_that_were_passed_count() {
        let lines = "if x[i] < 0.5:\n    return\nout[i] = loom.clamp(x[i], -0.6, 0.8)";
        check(lines, "`clamp` never reaches a bound");
        check(&lines.replace("-0.6", "0.6"), "");
        let lines = "s = float(0.0)\nfor k in range(n):\n    a = x[i] * float(k)\n    if a < 0.5:\n        continue\n    s += loom.abs(a)\nout[i] = s";
        check(lines, "`abs` is of a number that is not negative");
        check(&lines.replace("a < 0.5", "a > 0.5"), "");
        check(
            "if x[i] > 0.5 and y[i] > 1.0:\n    out[i] = loom.max(y[i], 0.5)",
            "`max` always gives the same one of the two",
        );
        check("if x[i] > 0.5 or y[i] > 1.0:\n    out[i] = loom.max(y[i], 0.5)", "");
        check(
            "if not (x[i] > 0.5 or y[i] > 1.0):\n    out[i] = loom.min(y[i], 1.5)",
            "`min` always gives the same one of the two",
        );
        check("if 2.0 * x[i] + 1.0 > 3.0:\n    out[i] = loom.abs(x[i])", "`abs` is of a number that is not negative");
        check(
            "if loom.abs(x[i]) < 2.0:\n    out[i] = loom.min(x[i], 2.5)",
            "`min` always gives the same one of the two",
        );
        check("if i < 5:\n    out[i] = loom.max(4.0, float(i)) * x[i]", "`max` always gives the same one of the two");
        check("if i <= 5:\n    out[i] = loom.max(4.0, float(i)) * x[i]", "");
        // A consequence of a test holds no longer than the test does.
        check("if x[i] > 0.5:\n    out[i] = x[i] * x[i]\nelse:\n    out[i] = loom.abs(x[i] * 2.0)", "");
        check("if x[i] > 0.5:\n    out[i] = x[i] * 3.0 + x[i] * y[i]\nelse:\n    out[i] = loom.abs(x[i] * y[i])", "");
        check("if x[i] > 0.5:\n    out[i] = loom.sinh(x[i])\nout[i] = out[i] + loom.abs(loom.sinh(x[i]))", "");
    }

    #[test]
    fn arms_that_do_the_same_are_found() {
        let lines = "r = x[i]\nif x[i] > 0.5:\n    r = r * 2.0\nelif y[i] > 0.5:\n    r = y[i] + r\nelse:\n    r = y[i] + r\nout[i] = r";
        check(lines, "`if` does the same either way");
        check(&lines.replace("else:\n    r = y[i] + r", "else:\n    r = y[i] - r"), "");
        check("if y[i] > 0.5:\n    out[i] = x[i]\nelse:\n    out[i] = x[i]", "`if` does the same either way");
        check("if y[i] > 0.5:\n    out[i] = x[i]\nelse:\n    x[i] = y[i]", "");
        check("if y[i] > 0.5:\n    return\nout[i] = x[i]", "");
    }

    #[test]
    fn bounds_of_what_is_only_compared_are_found() {
        check("if loom.clamp(x[i], 0.15, 0.85) > 0.36:\n    out[i] = y[i]", "`clamp` bounds what is only compared");
        let lines = "a = loom.max(x[i], 0.1)\nif 0.5 * a + 1.0 < 2.0:\n    out[i] = y[i]";
        check(lines, "`a` bounds what is only compared");
        check(&lines.replace("= y[i]", "= a"), "");
        check("if loom.max(x[i], y[i]) < 2.0:\n    out[i] = y[i]", "");
        check("if loom.clamp(x[i], 0.15, 0.85) > y[i]:\n    out[i] = y[i]", "");
    }

    #[test]
    fn signs_that_nothing_reads_are_found() {
        let lines = "a = loom.copysign(loom.rint(x[i]), y[i])\nout[i] = a * a * y[i]";
        check(lines, "`a` gives a sign that nothing reads");
        check(&lines.replace("a * a", "a * a + a"), "");
        check("out[i] = loom.cos(-x[i])", "`neg` gives a sign that nothing reads");
        check("out[i] = loom.length(-v[i] * y[i]) + loom.hypot(-y[i], x[i])", "`neg` gives a sign that nothing reads");
    }

    #[test]
    fn composites_that_are_made_for_one_component_are_found() {
        let vector = "a = v[i] + loom.vec3(x[i], 0.2, 2.24)\n";
        check(&format!("{vector}out[i] = a.x * y[i]"), "`construct` is read in one component");
        check(&format!("{vector}out[i] = a.x * a.y"), "");
        check(&format!("{vector}out[i] = a.x * loom.length(a)"), "");
        check("a = v[i] + v[n]\nb = y[i] / a\nout[i] = b.x + y[i]", "`a` is read in one component");
        check(&format!("{vector}b = y[i] / a\nout[i] = b.x + a.y"), "`b` is read in one component");
        check(&format!("{vector}b = loom.cross(a, v[i])\nout[i] = b.x"), "");
        let matrix = "m = loom.outer(v[i], v[i] + loom.vec3(1.0, x[i], y[i]))\n";
        check(&format!("{matrix}g = m * m\nout[i] = g[0, 2] * x[i]"), "`g` is read in one component");
        check(&format!("{matrix}g = m * m\nout[i] = g[0, 2] * g[2, 0]"), "");
    }

    #[test]
    fn what_inputs_may_be_decides() {
        check_given("out[i] = loom.max(x[i], 0.05)", "`max` always gives the same one of the two");
        check_given("out[i] = loom.min(x[i], 3.5 + y[i] % 0.5)", "`min` always gives the same one of the two");
        check_given("out[i] = y[i] * loom.nonzero(x[i])", "`nonzero` always gives one number");
        check_given("out[i] = y[i] * loom.step(x[i])", "`step` always gives one number");
        check_given("out[i] = y[i] * loom.sign(x[i] + 0.5)", "`sign` always gives one number");
        check_given("out[i] = loom.smoothstep(-1.0, 0.05, x[i]) * y[i]", "`smoothstep` always gives one number");
        check_given("if x[i] ** x[i] > 0.56:\n    out[i] = y[i]", "`gt` is always the same");
        check_given("if x[i] ** 0.5 > 1.5:\n    out[i] = y[i]", "`gt` is always the same");
        check_given("if loom.cos(0.5 * x[i]) > 0.5:\n    out[i] = y[i]", "`gt` is always the same");
        check_given("if loom.length(v[i]) < 6.0:\n    out[i] = y[i]", "`lt` is always the same");
        check_given("for k in range(n):\n    if k < 9:\n        out[i] = out[i] + float(k)", "`lt` is always the same");
        check_given("x[i] = y[i]\nout[i] = loom.max(x[i], 0.05)", "");
        // Sums of as many products as a row is long.
        let lines = "m = loom.outer(v[i], v[i])\nr = m * v[i]\nif r[0] > 80.0 or r[1] > 80.0:\n    out[i] = x[i]";
        check_given(lines, "");
        check_given(&lines.replace("80", "81"), "`gt` is always the same");
        let lines = "q = loom.quat(y[i], y[i], y[i], 1.0)\nif (q * q)[0] > 30.0:\n    out[i] = x[i]";
        check_given(lines, "");
        check_given(&lines.replace("(q * q)[0]", "(q * q * q)[3]"), "");
        let lines = "out[i] = loom.max(loom.length(loom.vec3(x[i], 2.0, y[i])), 1.5)";
        check_given(lines, "`max` always gives the same one of the two");
        check_given(&lines.replace("1.5", "2.5"), "");
        check_given("if loom.norm_huber(v[i], 9.0) < 13.0:\n    out[i] = x[i]", "");
        check_given("if loom.norm_pseudo_huber(v[i], 9.0) > 8.5:\n    out[i] = x[i]", "`gt` is always the same");
        check_given("if loom.erfinv(0.499 * x[i]) > 2.1:\n    out[i] = y[i]", "");
        check_given("if loom.quat_rotate(loom.quat(0.0, 0.0, y[i], 3.0), v[i])[0] > 9.0:\n    out[i] = x[i]", "");
        check_given("out[i] = loom.max(x[i], 0.5) * loom.sign(y[i]) * loom.smoothstep(-1.0, 0.5, x[i])", "");
        check("out[i] = loom.max(x[i], 0.05) * loom.nonzero(x[i])", "");
    }

    #[test]
    fn multiples_of_one_value_are_found() {
        check("a = 0.02 * x[i]\nb = 0.01 * x[i]\nout[i] = a - b", "`sub` is of multiples of one value");
        check("a = x[i] + y[i]\nout[i] = (0.5 * x[i] + y[i] / 2.0) + a", "`add` is of multiples of one value");
        let lines =
            "a = loom.vec3(x[i], y[i], 1.0)\nw = a - loom.vec3(y[i], y[i], x[i])\nout[i] = (w[0] + y[i]) * w[2]";
        check(lines, "`add` takes away what was added");
        let lines = "u = v[i]\nw = loom.vec3(x[i], y[i], 1.0) - u\nout[i] = (w[0] + u[0]) * w[1]";
        check(lines, "`add` takes away what was added");
        check("a = x[i] + 3.0\nout[i] = a + (y[i] - 3.0)", "`add` takes away what was added");
        check("out[i] = loom.max(loom.abs(2.0 * x[i]), x[i])", "`max` always gives the same one of the two");
        check("out[i] = loom.min(x[i] / 4.0, loom.abs(x[i]))", "`min` always gives the same one of the two");
        check("out[i] = loom.max(loom.abs(x[i]), 2.0 * x[i]) * v[i][1]", "");
        check("out[i] = -x[i] % x[i]", "`mod` is of multiples of one value");
        check("a = 2.0 * x[i] + 2.0 * y[i]\nb = x[i] + y[i]\nout[i] = a / b", "`div` is of multiples of one value");
        check("out[i] = loom.copysign(loom.frac(x[i]), 2.0 * x[i])", "`copysign` takes the sign that is there");
        check(
            "a = loom.normalize(v[i])\nout[i] = loom.length(loom.cw_div(a, v[i]))",
            "`cw_div` is of vectors of one direction",
        );
        check("a = loom.normalize(v[i])\nout[i] = loom.dot(a, v[i])", "`dot` is of vectors of one direction");
        let lines = "a = loom.vec3(x[i], 0.02, x[i]) - loom.vec3(x[i], y[i], x[i])\nout[i] = loom.length(a)";
        check(lines, "`sub` takes away what was added");
        check("w = loom.vec3(x[i], y[i], 1.0)\nout[i] = loom.length(w) * x[i] - w[1]", "");
        let matrix = "m = loom.outer(v[i], v[i] + loom.vec3(1.0, x[i], y[i]))\n";
        check(&format!("{matrix}out[i] = loom.dot(v[i] * m, v[i])"), "");
        check(&format!("{matrix}out[i] = loom.length(loom.cw_div(v[i] * m, v[i]))"), "");
        let turns = "p = loom.quat(x[i], y[i], 1.0, 0.5)\nq = loom.quat(y[i], x[i], 0.5, x[i])\n";
        check(&format!("{turns}out[i] = loom.dot(p * q, p)"), "");
        check("out[i] = loom.dot(v[i] * x[i], v[i])", "`dot` is of vectors of one direction");
        check("a = x[i] + y[i] - 2.0 * v[i][0]\nout[i] = v[i][0] + 0.1 * a", "");
    }

    #[test]
    fn whole_numbers_are_known_by_what_they_are_multiples_of() {
        check("out[i] = float(256 * n * i % 64) + x[i]", "`mod` always gives one number");
        check("out[i] = float((8 * n + 3) & 5) + x[i]", "`bit_and` always gives one number");
        check("out[i] = float(loom.bit_count(n * 2)) * x[i]", "`bit_count` takes back a scale");
        check("out[i] = float(~n + (n + i)) * x[i]", "`add` takes away what was added");
        check("out[i] = float(int(float(n) * 16.0)) * x[i]", "`cast` is of a whole number");
        check("out[i] = loom.floor(float(n) * 3.0) * x[i]", "`floor` is of a whole number");
        check("out[i] = float((i % 8) & 7) * x[i]", "`bit_and` leaves what it is given");
        check("out[i] = float((4 * n + 3) | 2) * x[i]", "`bit_or` leaves what it is given");
        check("out[i] = float(-(8 * n + 3) & 7) * x[i]", "`bit_and` always gives one number");
        check("if (-(8 * n + 3) & 7) == 5:\n    out[i] = x[i]", "`bit_and` always gives one number");
        check("if n * 12 % 3 == 1:\n    out[i] = x[i]", "");
        check_given("if n * 12 % 3 == 1:\n    out[i] = x[i]", "`mod` always gives one number");
        check_given("out[i] = float(loom.min(n * n, 49) / 49) * x[i]", "");
        check_given("out[i] = float(loom.min(n * n, 49) // 49) * x[i]", "");
        check_given("out[i] = float(bool(0.1 * y[i])) * x[i]", "");
        check_given("if (x[i] > 1.0) == (y[i] > 1.0):\n    out[i] = x[i]", "");
        check("if n * 4 % 2 == 1:\n    out[i] = x[i]", "`mod` always gives one number");
        check("out[i] = float((12 * n + i) % 64 & 6) * loom.floor(0.5 * float(n)) + float(int(0.5 * float(n)))", "");
    }

    #[test]
    fn warps_exchange_what_differs() {
        let lanes = "`warp_reduce_add` is of what all lanes have";
        check("out[i] = x[i] * loom.warp_reduce_add(float(n))", lanes);
        check("a = loom.warp_reduce_max(x[i])\nout[i] = y[i] * loom.warp_reduce_add(2.0 * a)", lanes);
        check("a = loom.shuffle(x[i], 0)\nout[i] = y[i] * loom.warp_reduce_add(a)", lanes);
        check("if loom.warp_any(float(n) > 2.5):\n    out[i] = x[i]", "`warp_any` is of what all lanes have");
        check_given("if loom.warp_all(x[i] > 0.05):\n    out[i] = y[i]", "`gt` is always the same");
        check("out[i] = loom.warp_reduce_add(x[i] * loom.shuffle_xor(y[i], 1) + loom.warp_reduce_max(y[i]))", "");
        check("a = y[i]\nif n > 3:\n    a = float(n)\nout[i] = loom.warp_reduce_add(a)", "");
    }

    #[test]
    fn terms_and_factors_that_cancel_are_found() {
        check("a = x[i] + y[i]\nb = 1.0 - (y[i] + 2.0)\nout[i] = a + b", "`add` takes away what was added");
        check("out[i] = turn(x[i], y[i]) - turn(x[i], y[i])", "`sub` is of a value and itself");
        // A function does not know what its arguments have to do with each other.
        check("out[i] = turn(x[i], 2.0 * x[i])", "");
        check("a = y[i] / x[i]\nout[i] = a * x[i]", "`mul` takes away a factor");
        check("a = y[i] * x[i]\nout[i] = 1.2 * x[i] * y[i] - a", "`sub` is of multiples of one value");
        check("a = y[i] * (x[i] * v[i].x)\nout[i] = x[i] * v[i].x * y[i] - a", "`mul` is computed a second time");
        check("out[i] = 1.2 * x[i] * y[i] - y[i] * y[i]", "");
        check("a = v[i] * x[i]\nb = 2.0 * v[i] * x[i] + a\nout[i] = b.x * b.y", "`add` is of multiples of one value");
        let lines = "a = v[i] - v[n]\nout[i] = (a.z - v[i].z) * a.x";
        check(lines, "`sub` takes away what was added");
        check(&lines.replace("v[i].z", "v[i].y"), "");
        check("out[i] = loom.lerp(0.0, x[i], y[i])", "`lerp` is a product");
        let lines = "q = loom.quat_from_euler(v[i], 0, 1, 2)\nout[i] = loom.length(q) + q.x";
        check(lines, "`length` is of a vector of length 1");
        check("a = x[i] * v[i]\nout[i] = loom.cross(a, v[i])[1]", "`cross` is of vectors of one direction");
        check("a = -v[i]\nout[i] = loom.length(a)", "`a` gives a sign that nothing reads");
        check("out[i] = loom.normalize(2.0 * v[i])[1]", "`normalize` takes back a scale");
        check("out[i] = x[i] + (y[i] - x[i]) * loom.sin(x[i])", "");
        check("out[i] = (x[i] - y[i]) - (y[i] - v[i][0])", "");
    }

    #[test]
    fn conditions_that_always_hold_are_found() {
        check("if loom.exp(x[i]) > -0.5:\n    out[i] = y[i]", "`gt` is always the same");
        check("out[i] = guarded(loom.abs(x[i]))", "`lt` is always the same");
        check("out[i] = guarded(x[i])", "");
        // An operation that one call has no use for may be of use to another.
        check("out[i] = guarded(loom.abs(x[i])) - guarded(y[i])", "");
        check("out[i] = guarded(loom.abs(x[i])) - guarded(y[i] * y[i])", "`lt` is always the same");
        check("for k in range(4):\n    if k < 4:\n        out[i] = out[i] + float(k)", "`lt` is always the same");
        check("if i < n:\n    out[i] = x[i]", "");
    }

    #[test]
    fn what_is_computed_twice_or_for_nothing_is_found() {
        check("a = x[i] * 2.0\nout[i] = y[i]", "`a` is computed and not used");
        check("w = loom.vec3(x[i], y[i], 1.0)\nout[i] = w[1]", "`w` is read in one component");
        check("out[i] = loom.log(1.0 + x[i]) * loom.log(1.0 + x[i])", "`log` is computed a second time");
        check("a = loom.sin(x[i])\nb = loom.sin(x[i])\nout[i] = a * b", "`sin` is what another variable is");
        check("if x[i] > 0.0:\n    out[i] = loom.sin(x[i]) * 2.0\nelse:\n    out[i] = loom.sin(x[i]) * 2.0 + 1.0", "");
        check("x[i] = y[i] + 1.0\nout[i] = loom.sin(y[i]) * loom.cos(loom.sin(y[i]))", "");
        check("x[i] = loom.sin(y[i] + 1.0)\nout[i] = loom.sin(y[i] + 1.0)", "`sin` is computed a second time");
        check("a = x[i]\nx[i] = y[i]\nb = x[i]\nout[i] = a * b", "");
    }

    #[test]
    fn what_does_not_change_in_a_loop_is_found() {
        let lines = "s = float(0.0)\nfor k in range(n):\n    a = x[i] * y[i]\n    s += a * float(k)\nout[i] = s";
        check(lines, "`a` does not change in the loop that computes it");
        check("s = float(0.0)\nfor k in range(n):\n    a = s * y[i]\n    s += a * float(k)\nout[i] = s", "");
    }
}
