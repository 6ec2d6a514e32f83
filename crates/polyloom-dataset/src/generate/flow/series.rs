//! Loops that come near a number: polynomials, fixed points and series.

use crate::catalogue::OperandNeed;
use crate::generate::expr::GeneratedExpr;
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::Type;

impl KernelGenerator {
    /// A polynomial by Horner's rule, its coefficients in an array.
    pub(super) fn polynomial(&mut self) {
        let real = self.real;
        let x = self.variable(real, 1);
        let x = self.constrain(x, OperandNeed::Unit);
        let x = self.name(x);
        let count = 3 + self.random.below(5);
        let n = ProgramExtent::Is(count as u32);
        let coefs = self.array_like(&["coefs", "poly", "coefficients", "taps"], real, &[n], -1.0, 1.0);
        let zero = self.zero(real);
        let total = self.mutable_like(&["poly_sum", "horner", "value", "acc"], &zero, NumberRange::within(8.0));
        self.take_back_sentence();
        let name = self.variables[total].text.clone();
        let index = self.like(&["k", "n", "m", "term_idx"]);
        let n = String::from(n);
        let (range, from) = match self.random.below(3) {
            0 => (format!("range({n})"), "first"),
            1 => (format!("range({coefs}.shape[0])"), "first"),
            _ => (format!("range({}, -1, -1)", count - 1), "last"),
        };
        self.line(&format!("for {index} in {range}:"));
        self.nested(|g| g.line(&format!("{name} = {name} * {} + {coefs}[{index}]", x.text)));
        self.must_be_read(total);
        self.explain(format!(
            "`{name}` is the polynomial in {} with the {count} coefficients `{coefs}`, of which the {from} is that \
             of the highest power.",
            x.words
        ));
    }

    /// Newton's method and iterations like it.
    pub(super) fn fixed_point(&mut self) {
        let real = self.real;
        let a = self.variable(real, 1);
        let a = self.constrain(a, OperandNeed::Positive);
        let a = self.constrain(a, OperandNeed::Finite);
        let a = self.name(a);
        let one = self.number(1.0);
        let start = match self.variables[a.uses[0]].parts.is_moved {
            true => a.clone(),
            false => GeneratedExpr::binary("+", &a, &one, real, a.range + one.range),
        };
        let guess = self.mutable_like(&["guess", "estimate", "approx"], &start, a.range + NumberRange::new(0.0, 2.0));
        let name = self.variables[guess].text.clone();
        let n = self.random.pick(&[2, 3, 4, 5, 8]);
        let n = match self.random.one_in(3) {
            true => self.scalar_like(&["n_newton", "iterations", "n_steps"], Type::I32, 2.0, 6.0),
            false => n.to_string(),
        };
        let index = self.like(&["_", "it", "step", "k"]);
        self.line(&format!("for {index} in range({n}):"));
        let half = self.real(0.5);
        let (line, words) = match self.random.below(3) {
            0 => (format!("{name} = {half} * ({name} + {a} / {name})", a = a.text), "the square root of"),
            1 => {
                let (two, three) = (self.real(2.0), self.real(3.0));
                let line = format!("{name} = ({two} * {name} + {a} / ({name} * {name})) / {three}", a = a.text);
                (line, "the cube root of")
            }
            _ => {
                let call = self.builtin("log");
                let line = format!("{name} = {half} * ({name} + {call}({name} + {a} + {}))", one.text, a = a.text);
                (line, "the fixed point of the logarithm after adding one and")
            }
        };
        self.nested(|g| g.line(&line));
        self.must_be_read(guess);
        self.explain(
            format!("In {n} iterations `{name}` approaches {words} {}.", a.words)
                .replace(&format!("In {n}"), &in_words(&n)),
        );
    }

    /// A power series, term by term.
    pub(super) fn series(&mut self) {
        let real = self.real;
        let x = self.variable(real, 1);
        let x = self.constrain(x, OperandNeed::Unit);
        let x = self.name(x);
        let n = self.random.pick(&[3, 4, 5, 6, 8]);
        let index = self.like(&["k", "n", "m", "order"]);
        let (one, zero) = (self.number(1.0), self.zero(real));
        let term = self.mutable_like(&["term", "power", "part"], &one, NumberRange::within(8.0));
        let sum = self.mutable_like(&["series", "total", "acc"], &zero, NumberRange::within(8.0));
        self.take_back_sentence();
        self.variables[term].is_free = true;
        let total = sum;
        let (term, sum) = (self.variables[term].text.clone(), self.variables[sum].text.clone());
        let cast = self.cast_name(real);
        let kind = self.random.below(3);
        // The terms of a geometric series do not depend on their numbers.
        match kind {
            1 => self.line(&format!("for {index} in range({n}):")),
            _ => self.line(&format!("for {index} in range(1, {}):", n + 1)),
        }
        let sign = self.random.pick(&["", "-"]);
        let (line, what) = match kind {
            0 => (format!("{term} *= {sign}{} / {cast}({index})", x.text), "the exponential series"),
            1 => (format!("{term} *= {sign}{}", x.text), "the geometric series"),
            _ => {
                let line = format!("{term} = {sign}{term} * {} * {} / {cast}(2 * {index})", x.text, x.text);
                (line, "the exponential series")
            }
        };
        self.nested(|g| {
            g.line(&line);
            g.line(&format!("{sum} += {term}"));
        });
        self.must_be_read(total);
        let of = if kind == 2 { format!("half the square of {}", x.words) } else { x.words };
        let of = if sign.is_empty() { of } else { format!("minus {of}") };
        self.explain(format!(
            "`{sum}` is the sum of {n} terms of {what} of {of}, those after the first, and `{term}` the last of them."
        ));
    }
}

fn in_words(n: &str) -> String {
    if n.parse::<u32>().is_ok() { format!("In {n}") } else { format!("In `{n}`") }
}
