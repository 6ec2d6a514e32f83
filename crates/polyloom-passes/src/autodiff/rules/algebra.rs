//! Rules of linear algebra.

use super::{Contributions, DerivativeRule, one, two};
use polyloom_ir::{Composite, Op, Type, Value};
use smallvec::{SmallVec, smallvec};

/// The pairs of rows or columns of a matrix with four, and those that are left.
const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

impl DerivativeRule<'_, '_> {
    /// `*`, of numbers and composites.
    pub(super) fn product(&mut self, x: &[Value]) -> Option<Contributions> {
        let g = self.adjoint;
        let (a, b) = (x[0], x[1]);
        match [a, b].map(|x| self.b.func.ty(x).as_composite()) {
            [None, None] => two(self.mul(g, b), self.mul(g, a)),
            [Some(_), None] => two(self.mul(g, b), self.inner(g, a)),
            [None, Some(_)] => two(self.inner(g, b), self.mul(g, a)),
            [Some(Composite::Quaternion { .. }), _] => {
                let [left, right] = self.quaternion_product(a, b, g);
                two(left, right)
            }
            [Some(Composite::Transform { .. }), _] => self.transform_product(a, b),
            [Some(Composite::Matrix { .. }), Some(Composite::Matrix { .. })] => {
                let [left, right] = [a, b].map(|x| self.transpose(x));
                two(self.mul(g, right), self.mul(left, g))
            }
            [Some(Composite::Matrix { .. }), _] => two(self.b.op(Op::Outer, &[g, b]), self.mul(g, a)),
            _ => two(self.mul(b, g), self.b.op(Op::Outer, &[a, g])),
        }
    }

    /// `/`, of numbers and composites.
    pub(super) fn quotient(&mut self, x: &[Value], r: Value) -> Option<Contributions> {
        let g = self.adjoint;
        let is_composite = [x[0], x[1]].map(|x| self.b.func.ty(x).as_composite().is_some());
        if is_composite[1] {
            let by_component = self.b.op(Op::CwDiv, &[g, x[1]]);
            let terms = self.components(by_component);
            let mut sum = terms[0];
            for &term in &terms[1..] {
                sum = self.add(sum, term);
            }
            let times = self.b.op(Op::CwMul, &[by_component, r]);
            return two(sum, self.neg(times));
        }
        let a = self.div(g, x[1]);
        let times = self.inner(a, r);
        two(a, self.neg(times))
    }

    /// The ops on vectors and matrices.
    pub(super) fn algebra(&mut self, op: Op, x: &[Value], r: Value) -> Option<Contributions> {
        let g = self.adjoint;
        match op {
            Op::Dot | Op::Ddot => two(self.mul(x[1], g), self.mul(x[0], g)),
            Op::Cross => two(self.cross(x[1], g), self.cross(g, x[0])),
            Op::LengthSq => {
                let twice = self.add(g, g);
                one(self.mul(x[0], twice))
            }
            Op::Length => {
                let share = self.over_length(g, r);
                one(self.mul(x[0], share))
            }
            Op::Normalize => {
                // Part of the adjoint across the direction, over the length.
                let along = self.dot(r, g);
                let along = self.mul(r, along);
                let across = self.sub(g, along);
                let length = self.b.op(Op::Length, &[x[0]]);
                one(self.over_length(across, length))
            }
            Op::NormHuber => self.huber(x),
            Op::NormPseudoHuber => {
                // For r = δ √(1 + v²/δ²): v / r, and δ / r.
                let share = self.div(g, r);
                let vector = self.mul(x[0], share);
                Some(match x {
                    [_, delta] => smallvec![Some(vector), Some(self.mul(share, *delta))],
                    _ => smallvec![Some(vector)],
                })
            }
            Op::SmoothNormalize => {
                let norm = self.b.op(Op::NormPseudoHuber, x);
                let along = self.dot(r, g);
                let along_all = self.mul(r, along);
                let rest = self.sub(g, along_all);
                let vector = self.div(rest, norm);
                Some(match x {
                    [_, delta] => {
                        let slope = self.div(*delta, norm);
                        let share = self.div(slope, norm);
                        let times = self.mul(along, share);
                        smallvec![Some(vector), Some(self.neg(times))]
                    }
                    _ => smallvec![Some(vector)],
                })
            }
            Op::CwMul => two(self.b.op(Op::CwMul, &[g, x[1]]), self.b.op(Op::CwMul, &[g, x[0]])),
            Op::CwDiv => {
                let a = self.b.op(Op::CwDiv, &[g, x[1]]);
                let times = self.b.op(Op::CwMul, &[a, r]);
                two(a, self.neg(times))
            }
            Op::Outer => two(self.mul(g, x[1]), self.mul(x[0], g)),
            Op::Transpose => one(self.transpose(g)),
            Op::Trace => {
                let Type::Composite(Composite::Matrix { rows, .. }) = self.b.func.ty(x[0]) else { return None };
                let diagonal: SmallVec<[Value; 4]> = SmallVec::from_elem(g, rows.into());
                let diagonal = self.vector(&diagonal);
                one(self.b.op(Op::Diag, &[diagonal]))
            }
            Op::Diag => one(self.b.op(Op::GetDiag, &[g])),
            Op::GetDiag => one(self.b.op(Op::Diag, &[g])),
            Op::Skew => one(self.axial(g)),
            Op::Determinant => {
                let cofactors = self.cofactors(x[0]);
                one(self.mul(cofactors, g))
            }
            Op::Inverse => {
                // -R' G R'. It is zero where the inverse is.
                let transposed = self.transpose(r);
                let left = self.mul(transposed, g);
                let both = self.mul(left, transposed);
                one(self.neg(both))
            }
            _ => None,
        }
    }

    /// Half the square up to a length of δ, `δ (length - δ/2)` from there.
    fn huber(&mut self, x: &[Value]) -> Option<Contributions> {
        let g = self.adjoint;
        let delta = match x {
            [_, delta] => *delta,
            _ => self.constant(1.0, g),
        };
        let [square, length] = [Op::LengthSq, Op::Length].map(|op| self.b.op(op, &[x[0]]));
        let limit = self.mul(delta, delta);
        let is_near = self.b.op(Op::Le, &[square, limit]);
        let [nothing, unit] = [0.0, 1.0].map(|value| self.constant(value, g));
        let far = self.over_length(delta, length);
        let slope = self.b.op(Op::Select, &[is_near, unit, far]);
        let slope = self.mul(g, slope);
        let vector = self.mul(x[0], slope);
        if x.len() == 1 {
            return one(vector);
        }
        let excess = self.sub(length, delta);
        let growth = self.b.op(Op::Select, &[is_near, nothing, excess]);
        two(vector, self.mul(g, growth))
    }

    /// The vector whose `skew` the antisymmetric part of a matrix is, twice.
    pub(super) fn axial(&mut self, m: Value) -> Value {
        let differences = [(7, 5), (2, 6), (3, 1)].map(|(a, b)| {
            let elements = [a, b].map(|place| self.component(m, place));
            self.sub(elements[0], elements[1])
        });
        self.vector(&differences)
    }

    /// The derivatives of a determinant: the minors with their signs. There is no division, so the determinant may be
    /// 0.
    fn cofactors(&mut self, matrix: Value) -> Value {
        let m = self.components(matrix);
        if let [a, b, c, d] = m[..] {
            let [b, c] = [b, c].map(|x| self.neg(x));
            return self.square(&[d, c, b, a]);
        }
        if m.len() == 9 {
            let rows = [0, 3, 6].map(|row| self.vector(&m[row..row + 3]));
            let crosses = [(1, 2), (2, 0), (0, 1)].map(|(i, j)| self.cross(rows[i], rows[j]));
            let elements: SmallVec<[Value; 16]> = crosses.into_iter().flat_map(|row| self.components(row)).collect();
            return self.square(&elements);
        }
        // From the 2 × 2 minors of the two rows far from an element's, by pair of columns.
        let minors = [8, 0].map(|row| {
            PAIRS.map(|(i, j)| {
                let products = [(i, j), (j, i)].map(|(i, j)| self.mul(m[row + i], m[row + 4 + j]));
                self.sub(products[0], products[1])
            })
        });
        let elements: SmallVec<[Value; 16]> = (0..16)
            .map(|place| {
                let (row, col) = (place / 4, place % 4);
                // The other row of the element's two, and the three columns that are left.
                let (near, minors) = (4 * (row ^ 1), &minors[row / 2]);
                let others: SmallVec<[usize; 3]> = (0..4).filter(|&other| other != col).collect();
                let terms = [0, 1, 2].map(|n| {
                    let pair: SmallVec<[usize; 2]> = others.iter().copied().filter(|&col| col != others[n]).collect();
                    let minor = PAIRS.iter().position(|&(i, j)| (i, j) == (pair[0], pair[1])).unwrap_or(0);
                    self.mul(m[near + others[n]], minors[minor])
                });
                let difference = self.sub(terms[0], terms[1]);
                let sum = self.add(difference, terms[2]);
                if (row + col) % 2 == 0 { sum } else { self.neg(sum) }
            })
            .collect();
        self.square(&elements)
    }
}
