//! Rules of decompositions, whose results say how they change: no iteration is differentiated.
//!
//! Orthogonal factors turn, `dU = U Ω` with Ω antisymmetric, and so does what `A` is in the frame of its factors. The
//! formulas for singular values are those of J. Townsend, "Differentiating the singular value decomposition" (2016),
//! for eigenvectors those of J. R. Magnus, "On differentiating eigenvalues and eigenvectors", Econometric Theory 1
//! (1985), and for triangular factors those of S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear
//! algebra functions", Optimization Methods and Software 32 (2017), in other forms: see the functions.
//!
//! How fast vectors turn in the plane of two of them is a quotient by the difference of their values. Where these are
//! equal the vectors are any of that plane, and have no derivative; but what does not depend on the choice has one, as
//! the nearest rotation `U V'` and whatever else is a function of the matrix: a limit of quotients whose numerators
//! vanish too. It is found at a matrix nearby, of the same vectors, whose values are [`apart`]. What depends on the
//! choice gets a derivative as large as the inverse of their distance.

use super::DerivativeRule;
use polyloom_ir::{Builder, Op, Scalar, Value};
use smallvec::SmallVec;

type Elements = SmallVec<[Value; 9]>;

/// Returns which result of a decomposition has the values that derivatives divide by, and which have what turns.
pub(in crate::autodiff) fn values_of(op: Op) -> Option<(usize, &'static [usize])> {
    Some(match op {
        Op::Svd2 | Op::Svd3 => (1, &[0, 2]),
        Op::Eig3 => (1, &[0]),
        Op::Qr3 => (1, &[0, 1]),
        _ => return None,
    })
}

/// The values of a decomposition, as the forward sweep of a backward kernel has them: changed by as little as keeps
/// half of their digits: singular values and eigenvalues of different magnitude, and nothing but positive numbers where
/// `R` divides. They stay what they are unless they are closer than that.
pub(in crate::autodiff) fn apart(builder: &mut Builder<'_>, op: Op, values: Value) -> Value {
    moved(builder, op, values, false)
}

/// The values of a decomposition as forward mode divides by them: NaN if they are so close that what turns has no
/// tangent, or one that rounding errors make.
pub(in crate::autodiff) fn distinct(builder: &mut Builder<'_>, op: Op, values: Value) -> Value {
    moved(builder, op, values, true)
}

fn moved(builder: &mut Builder<'_>, op: Op, values: Value, to_nan: bool) -> Value {
    let mut rule = DerivativeRule { adjoint: values, b: builder, taken: SmallVec::new() };
    let mut components = rule.components(values);
    let magnitudes: Elements = components.iter().map(|&x| rule.b.op(Op::Abs, &[x])).collect();
    let scale = rule.fold(Op::Max, &magnitudes);
    let [nothing, unit] = [0.0, 1.0].map(|value| rule.constant(value, scale));
    let is_zero = rule.b.op(Op::Eq, &[scale, nothing]);
    let scale = rule.b.op(Op::Select, &[is_zero, unit, scale]);
    let distance = rule.times(
        scale,
        match rule.elem(scale) {
            Scalar::F64 => 2.0_f64.powi(-26),
            Scalar::F32 => 2.0_f64.powi(-12),
            Scalar::BF16 => 2.0_f64.powi(-4),
            _ => 2.0_f64.powi(-5),
        },
    );
    let by = if to_nan { rule.constant(f64::NAN, scale) } else { distance };
    if op == Op::Qr3 {
        for place in [0, 4] {
            let is_small = rule.b.op(Op::Lt, &[components[place], distance]);
            let raise = rule.b.op(Op::Select, &[is_small, by, nothing]);
            components[place] = rule.add(components[place], raise);
        }
        return rule.square(&components);
    }
    let n = components.len();
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    // Singular values descend by magnitude, eigenvalues have no order.
    let compared = if op == Op::Eig3 { components.clone() } else { magnitudes.into_iter().collect() };
    let gaps: Elements = pairs
        .clone()
        .map(|(i, j)| {
            let difference = rule.sub(compared[i], compared[j]);
            rule.b.op(Op::Abs, &[difference])
        })
        .collect();
    let closest = rule.fold(Op::Min, &gaps);
    let are_close = rule.b.op(Op::Lt, &[closest, distance]);
    let step = rule.b.op(Op::Select, &[are_close, by, nothing]);
    // One step for each value that is less, because no two come closer.
    for (i, j) in pairs {
        if op != Op::Eig3 {
            components[i] = rule.add(components[i], step);
            continue;
        }
        let is_more = rule.b.op(Op::Gt, &[compared[i], compared[j]]);
        let [of_i, of_j] = [[is_more, step, nothing], [is_more, nothing, step]].map(|x| rule.b.op(Op::Select, &x));
        (components[i], components[j]) = (rule.add(components[i], of_i), rule.add(components[j], of_j));
    }
    rule.vector(&components)
}

impl DerivativeRule<'_, '_> {
    /// The adjoint of the matrix that an op takes apart, from its results and their adjoints.
    pub(super) fn decomposition(&mut self, op: Op, results: &[Value], adjoints: &[Option<Value>]) -> Option<Value> {
        let (values, turning) = values_of(op)?;
        if turning.iter().all(|&result| adjoints[result].is_none()) {
            // Nothing that turns is asked for, so that the values alone are on the diagonal.
            let diagonal = self.b.op(Op::Diag, &[adjoints[values]?]);
            let (left, right) = (results[0], if op == Op::Eig3 { results[0] } else { results[2] });
            let (left, right) = (self.mul(left, diagonal), self.transpose(right));
            let whole = self.mul(left, right);
            return Some(if op == Op::Eig3 { self.symmetric_part(whole) } else { whole });
        }
        let adjoints: SmallVec<[Value; 3]> = results
            .iter()
            .zip(adjoints)
            .map(|(&result, adjoint)| adjoint.unwrap_or_else(|| self.zero_like(result)))
            .collect();
        Some(match (op, results, &adjoints[..]) {
            (Op::Svd2 | Op::Svd3, &[u, sigma, v], &[by_u, by_sigma, by_v]) => {
                self.singular_values([u, sigma, v], [by_u, by_sigma, by_v])
            }
            (Op::Qr3, &[q, r], &[by_q, by_r]) => self.orthogonal_and_triangular([q, r], [by_q, by_r]),
            (Op::Eig3, &[q, d], &[by_q, by_d]) => self.eigenvalues([q, d], [by_q, by_d]),
            _ => return None,
        })
    }

    /// `U K V'` where, for `X = U' Ū` and `Y = V' V̄` with the antisymmetric parts x and y, twice, `K_ij = ½ ((x +
    /// y)_ij / (σ_j - σ_i) + (x - y)_ij / (σ_j + σ_i))` and on the diagonal σ̄: of the usual quotients by `σ_j² - σ_i²`
    /// the partial fractions. The first vanishes for `U V'`, the nearest rotation, whatever the differences.
    fn singular_values(&mut self, [u, sigma, v]: [Value; 3], [by_u, by_sigma, by_v]: [Value; 3]) -> Value {
        let x = self.turning(u, by_u);
        let y = self.turning(v, by_v);
        let (s, diagonal) = (self.components(sigma), self.components(by_sigma));
        let n = s.len();
        let mut elements = Elements::new();
        for place in 0..n * n {
            let (i, j) = (place / n, place % n);
            if i == j {
                elements.push(diagonal[i]);
                continue;
            }
            let (sum, difference) = (self.add(x[place], y[place]), self.sub(x[place], y[place]));
            let (apart, together) = (self.sub(s[j], s[i]), self.add(s[j], s[i]));
            let terms = [(sum, apart), (difference, together)].map(|(x, by)| self.div(x, by));
            let total = self.add(terms[0], terms[1]);
            elements.push(self.times(total, 0.5));
        }
        let core = self.square(&elements);
        let left = self.mul(u, core);
        let right = self.transpose(v);
        self.mul(left, right)
    }

    /// `Q K Q'`, where `K_ij = ½ x_ij / (d_j - d_i)`, and on the diagonal d̄, for a symmetric change, which is all that the
    /// op sees of one.
    fn eigenvalues(&mut self, [q, d]: [Value; 2], [by_q, by_d]: [Value; 2]) -> Value {
        let x = self.turning(q, by_q);
        let (d, diagonal) = (self.components(d), self.components(by_d));
        let mut elements = Elements::new();
        for place in 0..9 {
            let (i, j) = (place / 3, place % 3);
            if i == j {
                elements.push(diagonal[i]);
                continue;
            }
            let apart = self.sub(d[j], d[i]);
            let quotient = self.div(x[place], apart);
            elements.push(self.times(quotient, 0.5));
        }
        let core = self.square(&elements);
        let left = self.mul(q, core);
        let right = self.transpose(q);
        let whole = self.mul(left, right);
        self.symmetric_part(whole)
    }

    fn symmetric_part(&mut self, whole: Value) -> Value {
        let transposed = self.transpose(whole);
        let sum = self.add(whole, transposed);
        self.times(sum, 0.5)
    }

    /// From `B = Q' dA = Ω R + dR`, so that below the diagonal dR is zero, so the first two columns give Ω, and B - Ω R
    /// is dR above it. This divides by the first two elements of the diagonal alone: the third column of `Q` follows
    /// from the others, and the last element may be zero.
    fn orthogonal_and_triangular(&mut self, [q, r]: [Value; 2], [by_q, by_r]: [Value; 2]) -> Value {
        let nothing = self.constant(0.0, q);
        let rows = self.components(r);
        let given = self.components(by_r);
        let upper: Elements = (0..9).map(|place| if place / 3 <= place % 3 { given[place] } else { nothing }).collect();
        let by_r = self.square(&upper);
        let [q_transposed, r_transposed] = [q, r].map(|x| self.transpose(x));
        let turned = self.mul(q_transposed, by_q);
        let stretched = self.mul(by_r, r_transposed);
        let both = self.sub(turned, stretched);
        let both = self.components(both);
        // By Ω_10, Ω_20, Ω_21.
        let [first, second, third] = [(1, 0), (2, 0), (2, 1)].map(|(i, j)| self.sub(both[3 * i + j], both[3 * j + i]));
        let third = self.div(third, rows[4]);
        let carried = self.mul(third, rows[1]);
        let second = self.sub(second, carried);
        let [first, second] = [first, second].map(|x| self.div(x, rows[0]));
        let mut elements = upper;
        (elements[3], elements[6], elements[7]) = (first, second, third);
        let core = self.square(&elements);
        self.mul(q, core)
    }

    /// The elements of `Q' Q̄` less its transpose.
    fn turning(&mut self, q: Value, by_q: Value) -> SmallVec<[Value; 16]> {
        let transposed = self.transpose(q);
        let product = self.mul(transposed, by_q);
        let other = self.transpose(product);
        let antisymmetric = self.sub(product, other);
        self.components(antisymmetric)
    }

    /// One value of several, combined from the first on.
    fn fold(&mut self, op: Op, x: &[Value]) -> Value {
        let mut folded = x[0];
        for &next in &x[1..] {
            folded = self.b.op(op, &[folded, next]);
        }
        folded
    }
}
