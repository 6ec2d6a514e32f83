//! Whether each operation of a generated kernel has an effect: rows are rejected in which terms cancel, a clamp never
//! clamps, a condition always holds, a value is computed for nothing, twice, or anew in each round of a loop.
//!
//! It is the HIR that is looked at, as the front end makes it, in one walk that follows calls. Of inputs nothing is taken
//! to be known, so that what is found is so whatever a kernel is given. Values are told apart by number, those that are
//! sums by their terms.
//!
//! Kernels that people wrote are not looked at: what is of no effect in them is theirs to know. Nor are composites, which
//! are made as people make them: a smooth minimum takes away what it has added.

mod known;
mod loops;
mod rules;
mod walk;

use crate::generate::{Category, Program};
use crate::verify::{Reason, Reject};
use polyloom::op::Group;
use polyloom::{Kernel, Op, Span};
use walk::Walk;

/// What is wrong with an operation, and where.
struct Finding {
    span: Span,
    /// The operation, or the variable it gives a value.
    subject: String,
    what: &'static str,
}

/// Whether each operation of a generated kernel has an effect, as far as can be told without running it.
///
/// # Errors
///
/// [`Reason::NoEffect`], with the first operation that has none.
pub(crate) fn check(program: &Program, kernel: &Kernel) -> Result<(), Box<Reject>> {
    match program.category == Category::Composite.name() {
        true => Ok(()),
        false => every_operation(kernel),
    }
}

fn every_operation(kernel: &Kernel) -> Result<(), Box<Reject>> {
    let (module, id) = kernel.module();
    let function = &module.functions[id];
    let found = loops::find(function).or_else(|| Walk::new(module).kernel(function));
    let Some(Finding { span, subject, what }) = found else { return Ok(()) };
    let line = kernel.sources().locate(span).map_or(0, |(_, position)| position.line);
    Err(Reject::new(Reason::NoEffect, format!("line {line}: `{subject}` {what}")))
}

/// Whether it says where a thread is, or how large something is: what a kernel begins with, whether it needs all of it
/// or not.
fn is_place(op: Op) -> bool {
    matches!(op.info().group, Group::Index | Group::Gpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::generate;
    use crate::verify::Verifier;
    use polyloom::Arch;

    /// What is found in a kernel of these lines, which may call `turn` and `guarded`.
    fn found(lines: &str) -> String {
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
        let verifier = Verifier::new(Arch::DEFAULT).expect("the back ends work here");
        let kernel = verifier.compile("kernel", &source).expect("it compiles");
        every_operation(&kernel).err().map_or(String::new(), |reject| reject.detail)
    }

    fn check(lines: &str, expected: &str) {
        let detail = found(lines);
        let what = detail.split_once(": ").map_or(detail.as_str(), |(_, what)| what);
        assert_eq!(what, expected, "{lines}");
    }

    #[test]
    fn few_kernels_are_drafted_in_vain() {
        let verifier = Verifier::new(Arch::DEFAULT).expect("the back ends work here");
        let (mut n, mut n_in_vain) = (0, 0);
        for &category in Category::ALL {
            for seed in 0..30 {
                let program = generate(category, seed);
                let kernel = verifier.compile(&program.name, &program.source).expect("it compiles");
                n += 1;
                n_in_vain += u32::from(super::check(&program, &kernel).is_err());
            }
        }
        assert!(n_in_vain * 8 <= n, "{n_in_vain} of {n}");
    }

    #[test]
    fn bounds_that_are_never_reached_are_found() {
        check("out[i] = loom.clamp(0.5 * loom.tanh(x[i]), -0.9, 0.9)", "`clamp` never reaches a bound");
        check("out[i] = loom.clamp(loom.abs(x[i]) + 2.0, -1.0, 1.5)", "`clamp` always gives a bound");
        check("a = x[i] + 0.5\nout[i] = loom.min(a, x[i])", "`min` always gives the same one of the two");
        check("out[i] = loom.abs(x[i] * x[i])", "`abs` is of a number that is not negative");
        check("out[i] = x[i] % loom.max(x[i], 0.1)", "`mod` leaves what it is given");
        check("out[i] = float((i % 7) % 128) * x[i]", "`mod` leaves what it is given");
        check("out[i] = loom.clamp(loom.tanh(x[i]), -0.9, 0.9) + loom.abs(x[i]) % 3.0", "");
    }

    #[test]
    fn terms_and_factors_that_cancel_are_found() {
        check("a = x[i] + y[i]\nb = 1.0 - (y[i] + 2.0)\nout[i] = a + b", "`add` takes away what was added");
        check("out[i] = turn(x[i], 2.0 * x[i])", "`sub` is of a value and itself");
        check("a = y[i] / x[i]\nout[i] = a * x[i]", "`mul` takes away a factor");
        check("a = x[i] * v[i]\nout[i] = loom.cross(a, v[i])[1]", "`cross` is of vectors of one direction");
        check("a = -v[i]\nout[i] = loom.length(a)", "`length` takes back a minus");
        check("out[i] = loom.normalize(2.0 * v[i])[1]", "`normalize` takes back a scale");
        check("out[i] = x[i] + (y[i] - x[i]) * loom.sin(x[i])", "");
        check("out[i] = (x[i] - y[i]) - (y[i] - v[i][0])", "");
    }

    #[test]
    fn conditions_that_always_hold_are_found() {
        check("if loom.exp(x[i]) > -0.5:\n    out[i] = y[i]", "`gt` is always the same");
        check("out[i] = guarded(loom.abs(x[i]))", "`lt` is always the same");
        check("out[i] = guarded(x[i])", "");
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
        check("a = x[i]\nx[i] = y[i]\nb = x[i]\nout[i] = a * b", "");
    }

    #[test]
    fn what_does_not_change_in_a_loop_is_found() {
        let lines = "s = float(0.0)\nfor k in range(n):\n    a = x[i] * y[i]\n    s += a * float(k)\nout[i] = s";
        check(lines, "`a` does not change in the loop that computes it");
        check("s = float(0.0)\nfor k in range(n):\n    a = s * y[i]\n    s += a * float(k)\nout[i] = s", "");
    }
}
