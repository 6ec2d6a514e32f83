//! Linear algebra by components: lengths, products, determinants, inverses.

use super::{Components, LengthUse, ScalariseRewrite};
use polyloom_ir::{Composite, Imm, Op, Scalar, Type, Value};
use smallvec::{SmallVec, smallvec};

/// The pairs of columns of a matrix with four.
const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

impl ScalariseRewrite<'_, '_> {
    /// `*` of composites.
    pub(super) fn product(&mut self, types: &[Type], a: &[Value], b: &[Value]) -> Components {
        let column = |matrix: &[Value], n_cols: usize, col: usize| -> Components {
            matrix.iter().skip(col).step_by(n_cols).copied().collect()
        };
        match (types[0].as_composite(), types[1].as_composite()) {
            (None, _) => self.scale(b, a[0]),
            (_, None) => self.scale(a, b[0]),
            (Some(Composite::Quaternion { .. }), _) => self.compose(a, b),
            (Some(Composite::Transform { elem }), _) => self.compose_transforms(elem, a, b),
            (Some(Composite::Matrix { elem, cols, .. }), Some(Composite::Matrix { cols: n_cols, .. })) => {
                let (inner, n_cols) = (usize::from(cols), usize::from(n_cols));
                let rows = a.chunks(inner);
                rows.flat_map(|row| (0..n_cols).map(move |col| (row, col)))
                    .map(|(row, col)| self.fused_dot(elem, row, &column(b, n_cols, col)))
                    .collect()
            }
            (Some(Composite::Matrix { cols, .. }), _) => {
                a.chunks(usize::from(cols)).map(|row| self.dot(row, b)).collect()
            }
            (_, Some(Composite::Matrix { cols, .. })) => {
                (0..usize::from(cols)).map(|col| self.dot(a, &column(b, cols.into(), col))).collect()
            }
            _ => self.zip(Op::Mul, a, b),
        }
    }

    /// The sum of the products, from the first on, each `float32` or `float64` product added without rounding it, as
    /// Warp does in products of matrices.
    pub(super) fn fused_dot(&mut self, elem: Scalar, a: &[Value], b: &[Value]) -> Value {
        if !matches!(elem, Scalar::F32 | Scalar::F64) {
            return self.dot(a, b);
        }
        let first = self.op(Op::Mul, &[a[0], b[0]]);
        a.iter().zip(b).skip(1).fold(first, |sum, (&a, &b)| self.op(Op::Fma, &[a, b, sum]))
    }

    pub(super) fn length(&mut self, x: &[Value]) -> Value {
        if self.lengths == LengthUse::Whole
            && let Some(elem) = self.builder.func.ty(x[0]).as_scalar()
        {
            let vector = Composite::Vector { elem, len: x.len() as u16 };
            let inst = self.builder.inst(Op::Construct, x, &[vector.into()], Imm::None);
            let whole = self.builder.func.insts[inst].results[0];
            return self.op(Op::Length, &[whole]);
        }
        let square = self.dot(x, x);
        self.op(Op::Sqrt, &[square])
    }

    /// The parameter of a Huber norm, 1 unless it is given.
    fn delta(&mut self, elem: Scalar, delta: &[Components]) -> Value {
        delta.first().map_or_else(|| self.number(elem, 1), |delta| delta[0])
    }

    pub(super) fn huber(&mut self, elem: Scalar, x: &[Value], delta: &[Components]) -> Value {
        let (delta, half, square) = (self.delta(elem, delta), self.constant(elem, 0.5), self.dot(x, x));
        let limit = self.op(Op::Mul, &[delta, delta]);
        let is_near = self.op(Op::Le, &[square, limit]);
        let near = self.op(Op::Mul, &[half, square]);
        let (length, half_delta) = (self.op(Op::Sqrt, &[square]), self.op(Op::Mul, &[half, delta]));
        let rest = self.op(Op::Sub, &[length, half_delta]);
        let far = self.op(Op::Mul, &[delta, rest]);
        self.op(Op::Select, &[is_near, near, far])
    }

    pub(super) fn pseudo_huber(&mut self, elem: Scalar, x: &[Value], delta: &[Components]) -> Value {
        let (delta, one, square) = (self.delta(elem, delta), self.number(elem, 1), self.dot(x, x));
        let limit = self.op(Op::Mul, &[delta, delta]);
        let ratio = self.op(Op::Div, &[square, limit]);
        let sum = self.op(Op::Add, &[one, ratio]);
        let root = self.op(Op::Sqrt, &[sum]);
        self.op(Op::Mul, &[delta, root])
    }

    pub(super) fn normalize(&mut self, composite: Option<Composite>, elem: Scalar, x: &[Value]) -> Components {
        let (length, zero) = (self.length(x), self.number(elem, 0));
        let is_positive = self.op(Op::Gt, &[length, zero]);
        let mut otherwise: Components = SmallVec::from_elem(zero, x.len());
        let normalized: Components = match composite {
            Some(Composite::Quaternion { .. }) => {
                let one = self.number(elem, 1);
                otherwise[3] = one;
                let inverse = self.op(Op::Div, &[one, length]);
                self.scale(x, inverse)
            }
            _ => x.iter().map(|&x| self.op(Op::Div, &[x, length])).collect(),
        };
        self.choose(is_positive, &normalized, &otherwise)
    }

    pub(super) fn determinant(&mut self, m: &[Value]) -> Value {
        match m.len() {
            4 => self.difference([m[0], m[3], m[1], m[2]]),
            9 => {
                let minors = self.cross(&m[3..6], &m[6..9]);
                self.dot(&m[..3], &minors)
            }
            _ => {
                let [upper, lower] = self.minors(m);
                self.determinant_by_minors(&upper, &lower)
            }
        }
    }

    /// The 2 × 2 minors of the upper and of the lower two rows of a 4 × 4 matrix, by [`PAIRS`] of columns.
    fn minors(&mut self, m: &[Value]) -> [[Value; 6]; 2] {
        [0, 8].map(|row| PAIRS.map(|(i, j)| self.difference([m[row + i], m[row + 4 + j], m[row + j], m[row + 4 + i]])))
    }

    fn determinant_by_minors(&mut self, upper: &[Value; 6], lower: &[Value; 6]) -> Value {
        let products: Components = (0..6).map(|n| self.op(Op::Mul, &[upper[n], lower[5 - n]])).collect();
        let mut sum = products[0];
        for (op, n) in [(Op::Sub, 1), (Op::Add, 2), (Op::Add, 3), (Op::Sub, 4), (Op::Add, 5)] {
            sum = self.op(op, &[sum, products[n]]);
        }
        sum
    }

    /// The adjugate of a 4 × 4 matrix: each element from three of a row and the minors of the two rows far from it.
    fn adjugate(&mut self, m: &[Value], upper: &[Value; 6], lower: &[Value; 6]) -> Components {
        // Columns of the elements, and of the minors that they are multiplied by, for each row of the result.
        const TERMS: [[(usize, usize); 3]; 4] =
            [[(1, 5), (2, 4), (3, 3)], [(0, 5), (2, 2), (3, 1)], [(0, 4), (1, 2), (3, 0)], [(0, 3), (1, 1), (2, 0)]];
        let mut adjugate = Components::new();
        for (row, terms) in TERMS.iter().enumerate() {
            for col in 0..4 {
                let (from, minors) = (4 * (col ^ 1), if col < 2 { lower } else { upper });
                let [a, b, c] = terms.map(|(place, minor)| self.op(Op::Mul, &[m[from + place], minors[minor]]));
                let difference = self.op(Op::Sub, &[a, b]);
                let cofactor = self.op(Op::Add, &[difference, c]);
                adjugate.push(if (row + col) % 2 == 0 { cofactor } else { self.op(Op::Neg, &[cofactor]) });
            }
        }
        adjugate
    }

    /// The number of the first component that is the smallest or the largest.
    pub(super) fn first_extreme(&mut self, op: Op, elem: Scalar, x: &[Value]) -> Value {
        let better = if op == Op::Argmin { Op::Lt } else { Op::Gt };
        let (mut best, mut place) = (x[0], self.builder.const_int(Scalar::U32, 0));
        for (number, &component) in x.iter().enumerate().skip(1) {
            let mut wins = self.op(better, &[component, best]);
            if elem.is_float() {
                // NaN loses to anything.
                let (is_nan, is_number) = (self.op(Op::Ne, &[best, best]), self.op(Op::Eq, &[component, component]));
                let replaces_nan = self.op(Op::BitAnd, &[is_nan, is_number]);
                wins = self.op(Op::BitOr, &[wins, replaces_nan]);
            }
            let number = self.builder.const_int(Scalar::U32, number as i64);
            best = self.op(Op::Select, &[wins, component, best]);
            place = self.op(Op::Select, &[wins, number, place]);
        }
        place
    }

    pub(super) fn inverse(&mut self, elem: Scalar, m: &[Value]) -> Components {
        if m.len() == 16 && elem != Scalar::F64 {
            let wide: Components = m.iter().map(|&x| self.builder.cast(x, Scalar::F64)).collect();
            let inverse = self.inverse(Scalar::F64, &wide);
            return inverse.into_iter().map(|x| self.builder.cast(x, elem)).collect();
        }
        let mut determinant = None;
        let adjugate: Components = match m.len() {
            16 => {
                let [upper, lower] = self.minors(m);
                determinant = Some(self.determinant_by_minors(&upper, &lower));
                self.adjugate(m, &upper, &lower)
            }
            4 => {
                let minus = [1, 2].map(|place| self.builder.op(Op::Neg, &[m[place]]));
                smallvec![m[3], minus[0], minus[1], m[0]]
            }
            _ => {
                let rows: SmallVec<[&[Value]; 3]> = m.chunks(3).collect();
                let columns = [(1, 2), (2, 0), (0, 1)].map(|(i, j)| self.cross(rows[i], rows[j]));
                (0..3).flat_map(|row| columns.iter().map(move |column| column[row]).collect::<Components>()).collect()
            }
        };
        let determinant = match determinant {
            Some(determinant) => determinant,
            None => self.determinant(m),
        };
        let [zero, one] = [0, 1].map(|n| self.number(elem, n));
        let is_regular = self.op(Op::Ne, &[determinant, zero]);
        let factor = self.op(Op::Div, &[one, determinant]);
        let inverse = self.scale(&adjugate, factor);
        let zeros: Components = SmallVec::from_elem(zero, m.len());
        self.choose(is_regular, &inverse, &zeros)
    }
}
