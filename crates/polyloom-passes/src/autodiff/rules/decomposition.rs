//! Rules of decompositions, whose results say how they change: no iteration is differentiated.
//!
//! Orthogonal factors turn, `dU = U Ω` with Ω antisymmetric, and so does what `A` is in the frame of its factors. The
//! formulas for singular values are those of J. Townsend, "Differentiating the singular value decomposition" (2016), for
//! eigenvectors those of J. R. Magnus, "On differentiating eigenvalues and eigenvectors", Econometric Theory 1 (1985), and
//! for triangular factors those of S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions",
//! Optimization Methods and Software 32 (2017), in other forms: see the functions.
//!
//! How fast vectors turn in the plane of two of them is a quotient by the difference of their values. Where that is a
//! rounding error, the vectors are any of that plane, and the quotient counts as zero. That is right for whatever
//! depends on them only by what does not change with the choice: `U * transpose(V)`, or a function of a symmetric matrix.

use super::Rule;
use polyloom_ir::{Op, Scalar, Value};
use smallvec::SmallVec;

type Elements = SmallVec<[Value; 9]>;

impl Rule<'_, '_> {
    /// The adjoint of the matrix that an op takes apart, from its results and their adjoints.
    pub(super) fn decomposition(&mut self, op: Op, results: &[Value], adjoints: &[Value]) -> Option<Value> {
        Some(match (op, results, adjoints) {
            (Op::Svd2 | Op::Svd3, &[u, sigma, v], &[by_u, by_sigma, by_v]) => {
                self.singular_values([u, sigma, v], [by_u, by_sigma, by_v])
            }
            (Op::Qr3, &[q, r], &[by_q, by_r]) => self.orthogonal_and_triangular([q, r], [by_q, by_r]),
            (Op::Eig3, &[q, d], &[by_q, by_d]) => self.eigenvalues([q, d], [by_q, by_d]),
            _ => return None,
        })
    }

    /// `U K V'` where, for `X = U' Ū` and `Y = V' V̄` with the antisymmetric parts x and y, twice,
    /// `K_ij = ½ ((x + y)_ij / (σ_j - σ_i) + (x - y)_ij / (σ_j + σ_i))` and on the diagonal σ̄: of the usual quotients by
    /// `σ_j² - σ_i²` the partial fractions. The first vanishes for `U V'`, the nearest rotation, whatever the differences.
    fn singular_values(&mut self, [u, sigma, v]: [Value; 3], [by_u, by_sigma, by_v]: [Value; 3]) -> Value {
        let x = self.turning(u, by_u);
        let y = self.turning(v, by_v);
        let (s, diagonal) = (self.components(sigma), self.components(by_sigma));
        let smallest = self.rounding_error(&s);
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
            let terms = [(sum, apart), (difference, together)].map(|(x, by)| self.unless_tiny(x, by, smallest));
            let total = self.add(terms[0], terms[1]);
            elements.push(self.times(total, 0.5));
        }
        let core = self.square(&elements);
        let left = self.mul(u, core);
        let right = self.transpose(v);
        self.mul(left, right)
    }

    /// `Q K Q'`, where `K_ij = ½ x_ij / (d_j - d_i)`, and on the diagonal d̄, for a symmetric change; what the upper
    /// triangle says counts for both.
    fn eigenvalues(&mut self, [q, d]: [Value; 2], [by_q, by_d]: [Value; 2]) -> Value {
        let x = self.turning(q, by_q);
        let (d, diagonal) = (self.components(d), self.components(by_d));
        let smallest = self.rounding_error(&d);
        let mut elements = Elements::new();
        for place in 0..9 {
            let (i, j) = (place / 3, place % 3);
            if i == j {
                elements.push(diagonal[i]);
                continue;
            }
            let apart = self.sub(d[j], d[i]);
            let quotient = self.unless_tiny(x[place], apart, smallest);
            elements.push(self.times(quotient, 0.5));
        }
        let core = self.square(&elements);
        let left = self.mul(q, core);
        let right = self.transpose(q);
        let whole = self.mul(left, right);
        let whole = self.components(whole);
        let nothing = self.constant(0.0, q);
        let upper: Elements = (0..9)
            .map(|place| match (place / 3, place % 3) {
                (row, col) if row == col => whole[place],
                (row, col) if row < col => self.add(whole[place], whole[3 * col + row]),
                _ => nothing,
            })
            .collect();
        self.square(&upper)
    }

    /// From `B = Q' dA = Ω R + dR`: below the diagonal dR is zero, so the first two columns give Ω, and B - Ω R is dR above
    /// it. This divides by the first two elements of the diagonal alone: the third column of `Q` follows from the others,
    /// and the last element may be zero.
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
        let third = self.over_length(third, rows[4]);
        let carried = self.mul(third, rows[1]);
        let second = self.sub(second, carried);
        let [first, second] = [first, second].map(|x| self.over_length(x, rows[0]));
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

    /// What a difference of such values may be by rounding.
    fn rounding_error(&mut self, values: &[Value]) -> Value {
        let magnitudes: SmallVec<[Value; 3]> = values.iter().map(|&x| self.b.op(Op::Abs, &[x])).collect();
        let mut largest = magnitudes[0];
        for &magnitude in &magnitudes[1..] {
            largest = self.b.op(Op::Max, &[largest, magnitude]);
        }
        let precision = match self.elem(largest) {
            Scalar::F64 => f64::EPSILON,
            Scalar::F32 => f32::EPSILON.into(),
            Scalar::BF16 => 2.0_f64.powi(-7),
            _ => 2.0_f64.powi(-10),
        };
        self.times(largest, 8.0 * precision)
    }

    /// `x / by`, or 0 if the divisor is no more than rounding errors.
    fn unless_tiny(&mut self, x: Value, by: Value, smallest: Value) -> Value {
        let magnitude = self.b.op(Op::Abs, &[by]);
        let is_tiny = self.b.op(Op::Le, &[magnitude, smallest]);
        let quotient = self.div(x, by);
        let nothing = self.zero_like(x);
        self.b.op(Op::Select, &[is_tiny, nothing, quotient])
    }
}
