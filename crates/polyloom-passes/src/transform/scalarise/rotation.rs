//! Rotations and rigid motions by components: quaternions, transforms, spatial vectors.

use super::{Components, ScalariseRewrite};
use polyloom_ir::{Composite, Op, Scalar, Value};
use smallvec::smallvec;

/// The imaginary parts of the quaternions whose rotation's matrix has its greatest diagonal element first, second or
/// third, because the axes in cyclic order.
const AXES: [[usize; 3]; 3] = [[0, 1, 2], [1, 2, 0], [2, 0, 1]];

impl ScalariseRewrite<'_, '_> {
    /// The components of what an op on quaternions, transforms or spatial vectors gives, if it is one.
    pub(super) fn rotation(&mut self, op: Op, elem: Scalar, operands: &[Components]) -> Option<Components> {
        Some(match (op, operands) {
            (Op::QuatInverse, [q]) => self.conjugate(q),
            (Op::QuatRotate, [q, x]) => self.rotate(elem, q, x, Op::Add),
            (Op::QuatRotateInv, [q, x]) => self.rotate(elem, q, x, Op::Sub),
            (Op::QuatFromAxisAngle, [axis, angle]) => self.rotation_around(elem, axis, angle[0]),
            (Op::QuatToAxisAngle, [q]) => self.axis_and_angle(elem, q),
            (Op::QuatFromMatrix, [m]) => self.rotation_of(elem, m),
            (Op::QuatToMatrix, [q]) => self.matrix_of(elem, q),
            (Op::QuatRpy, [roll, pitch, yaw]) => self.rotation_by(elem, [roll[0], pitch[0], yaw[0]]),
            (Op::QuatSlerp, [a, b, t]) => {
                let inverse = self.conjugate(a);
                let way = self.compose(&inverse, b);
                let way = self.axis_and_angle(elem, &way);
                let angle = self.op(Op::Mul, &[t[0], way[3]]);
                let part = self.rotation_around(elem, &way[..3], angle);
                self.compose(a, &part)
            }
            (Op::TransformGetTranslation, [t]) => t[..3].into(),
            (Op::TransformGetRotation, [t]) => t[3..].into(),
            (Op::TransformSetTranslation, [t, p]) => p.iter().chain(&t[3..]).copied().collect(),
            (Op::TransformSetRotation, [t, q]) => t[..3].iter().chain(q).copied().collect(),
            (Op::TransformMultiply, [a, b]) => self.compose_transforms(elem, a, b),
            (Op::TransformInverse, [t]) => {
                let rotation = self.conjugate(&t[3..]);
                let moved = self.rotate(elem, &rotation, &t[..3], Op::Add);
                let mut inverse = self.negate(&moved);
                inverse.extend(rotation);
                inverse
            }
            (Op::TransformPoint, [t, x]) if t.len() == 7 => {
                let rotated = self.rotate(elem, &t[3..], x, Op::Add);
                self.zip(Op::Add, &t[..3], &rotated)
            }
            (Op::TransformVector, [t, x]) if t.len() == 7 => self.rotate(elem, &t[3..], x, Op::Add),
            (Op::TransformPoint | Op::TransformVector, [m, x]) => {
                let last = self.number(elem, (op == Op::TransformPoint).into());
                let extended = [x[0], x[1], x[2], last];
                m.chunks(4).take(3).map(|row| self.dot(row, &extended)).collect()
            }
            (Op::SpatialTop, [x]) => x[..3].into(),
            (Op::SpatialBottom, [x]) => x[3..].into(),
            (Op::SpatialDot, [a, b]) => smallvec![self.dot(a, b)],
            (Op::SpatialCross, [a, b]) => {
                let mut cross = self.cross(&a[..3], &b[..3]);
                let (first, second) = (self.cross(&a[3..], &b[..3]), self.cross(&a[..3], &b[3..]));
                cross.extend(self.zip(Op::Add, &first, &second));
                cross
            }
            (Op::SpatialCrossDual, [a, b]) => {
                let (first, second) = (self.cross(&a[..3], &b[..3]), self.cross(&a[3..], &b[3..]));
                let mut cross = self.zip(Op::Add, &first, &second);
                cross.extend(self.cross(&a[..3], &b[3..]));
                cross
            }
            (Op::SpatialAdjoint, [r, s]) => {
                let zero = self.number(elem, 0);
                let element = |place: usize| match (place / 6, place % 6) {
                    (row @ 0..3, col @ 0..3) => r[3 * row + col],
                    (0..3, _) => zero,
                    (row, col @ 0..3) => s[3 * (row - 3) + col],
                    (row, col) => r[3 * (row - 3) + col - 3],
                };
                (0..36).map(element).collect()
            }
            _ => return self.motion(op, elem, operands),
        })
    }

    fn conjugate(&mut self, q: &[Value]) -> Components {
        let mut conjugate = self.negate(&q[..3]);
        conjugate.push(q[3]);
        conjugate
    }

    /// A vector rotated.
    pub(super) fn rotated(&mut self, elem: Scalar, q: &[Value], x: &[Value]) -> Components {
        self.rotate(elem, q, x, Op::Add)
    }

    /// The matrix of a rotation.
    pub(super) fn matrix_of(&mut self, elem: Scalar, q: &[Value]) -> Components {
        let [zero, one] = [0, 1].map(|n| self.number(elem, n));
        let columns = [0, 1, 2].map(|axis| {
            let unit = [0, 1, 2].map(|place| if place == axis { one } else { zero });
            self.rotated(elem, q, &unit)
        });
        (0..9).map(|place| columns[place % 3][place / 3]).collect()
    }

    pub(super) fn halved(&mut self, elem: Scalar, x: Value) -> Value {
        let half = self.constant(elem, 0.5);
        self.op(Op::Mul, &[x, half])
    }

    fn rotation_around(&mut self, elem: Scalar, axis: &[Value], angle: Value) -> Components {
        let half = self.halved(elem, angle);
        let (sin, cos) = (self.op(Op::Sin, &[half]), self.op(Op::Cos, &[half]));
        let mut q = self.scale(axis, sin);
        q.push(cos);
        q
    }

    /// The axis, then the angle.
    fn axis_and_angle(&mut self, elem: Scalar, q: &[Value]) -> Components {
        let [zero, two] = [0, 2].map(|n| self.number(elem, n));
        let axis = self.normalize(None, elem, &q[..3]);
        let opposite = self.negate(&axis);
        let is_negative = self.op(Op::Lt, &[q[3], zero]);
        let mut found = self.choose(is_negative, &opposite, &axis);
        let (length, real) = (self.length(&q[..3]), self.op(Op::Abs, &[q[3]]));
        let half = self.op(Op::Atan2, &[length, real]);
        found.push(self.op(Op::Mul, &[two, half]));
        found
    }

    /// The one that divides by the greatest number of the four ways to compute the quaternion of a matrix.
    pub(super) fn rotation_of(&mut self, elem: Scalar, m: &[Value]) -> Components {
        let n_cols = if m.len() == 9 { 3 } else { 4 };
        let at = |row: usize, col: usize| m[row * n_cols + col];
        let (zero, one) = (self.number(elem, 0), self.number(elem, 1));
        let half = self.constant(elem, 0.5);
        let trace = self.sum(&[at(0, 0), at(1, 1), at(2, 2)]);
        // Difference and sum of the two elements off the diagonal in the plane at right angles to each axis.
        let [differences, sums] =
            [Op::Sub, Op::Add].map(|op| AXES.map(|[_, j, k]| self.builder.op(op, &[at(k, j), at(j, k)])));
        let mut found = {
            let sum = self.op(Op::Add, &[trace, one]);
            let root = self.op(Op::Sqrt, &[sum]);
            let factor = self.op(Op::Div, &[half, root]);
            let mut q = self.scale(&differences, factor);
            q.push(self.op(Op::Mul, &[half, root]));
            q
        };
        let is_small = self.op(Op::Lt, &[trace, zero]);
        let second = self.op(Op::Gt, &[at(1, 1), at(0, 0)]);
        let greater = self.op(Op::Select, &[second, at(1, 1), at(0, 0)]);
        let third = self.op(Op::Gt, &[at(2, 2), greater]);
        let mut greatest: Option<Components> = None;
        for [i, j, k] in AXES {
            let others = self.op(Op::Add, &[at(j, j), at(k, k)]);
            let excess = self.op(Op::Sub, &[at(i, i), others]);
            let sum = self.op(Op::Add, &[excess, one]);
            let root = self.op(Op::Sqrt, &[sum]);
            let factor = self.op(Op::Div, &[half, root]);
            let mut q: Components = smallvec![zero; 4];
            q[i] = self.op(Op::Mul, &[half, root]);
            for (place, term) in [(j, sums[k]), (k, sums[j]), (3, differences[i])] {
                q[place] = self.op(Op::Mul, &[term, factor]);
            }
            greatest = Some(match greatest {
                None => q,
                Some(before) => self.choose(if i == 1 { second } else { third }, &q, &before),
            });
        }
        if let Some(greatest) = greatest {
            found = self.choose(is_small, &greatest, &found);
        }
        self.normalize(Some(Composite::Quaternion { elem }), elem, &found)
    }

    fn rotation_by(&mut self, elem: Scalar, angles: [Value; 3]) -> Components {
        let halves = angles.map(|angle| self.halved(elem, angle));
        let [cr, cp, cy] = halves.map(|half| self.builder.op(Op::Cos, &[half]));
        let [sr, sp, sy] = halves.map(|half| self.builder.op(Op::Sin, &[half]));
        let terms = [
            ([cy, sr, cp], Op::Sub, [sy, cr, sp]),
            ([cy, cr, sp], Op::Add, [sy, sr, cp]),
            ([sy, cr, cp], Op::Sub, [cy, sr, sp]),
            ([cy, cr, cp], Op::Add, [sy, sr, sp]),
        ];
        terms
            .map(|(a, op, b)| {
                let (a, b) = (self.fold(Op::Mul, &a), self.fold(Op::Mul, &b));
                self.op(op, &[a, b])
            })
            .into_iter()
            .collect()
    }

    /// The transform `b`, then `a`.
    pub(super) fn compose_transforms(&mut self, elem: Scalar, a: &[Value], b: &[Value]) -> Components {
        let rotated = self.rotate(elem, &a[3..], &b[..3], Op::Add);
        let mut composed = self.zip(Op::Add, &rotated, &a[..3]);
        composed.extend(self.compose(&a[3..], &b[3..]));
        composed
    }

    /// The rotation `a` after the rotation `b`.
    pub(super) fn compose(&mut self, a: &[Value], b: &[Value]) -> Components {
        let mut product: Components = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
            .into_iter()
            .map(|(x, y, z)| {
                let terms = [(a[3], b[x]), (b[3], a[x]), (a[y], b[z]), (b[y], a[z])];
                let terms = terms.map(|(a, b)| self.builder.op(Op::Mul, &[a, b]));
                let sum = self.sum(&terms[..3]);
                self.op(Op::Sub, &[sum, terms[3]])
            })
            .collect();
        let terms = [3, 0, 1, 2].map(|place| self.builder.op(Op::Mul, &[a[place], b[place]]));
        let mut real = terms[0];
        for &term in &terms[1..] {
            real = self.op(Op::Sub, &[real, term]);
        }
        product.push(real);
        product
    }

    /// `x (2 w² - 1) + v 2 (v · x) ± (v × x) 2 w` for the quaternion `q` of imaginary part `v` and real part `w`.
    fn rotate(&mut self, elem: Scalar, q: &[Value], x: &[Value], sign: Op) -> Components {
        let [one, two] = [1, 2].map(|n| self.number(elem, n));
        let (v, w) = (&q[..3], q[3]);
        let twice_w = self.op(Op::Mul, &[two, w]);
        let squared = self.op(Op::Mul, &[twice_w, w]);
        let along = self.op(Op::Sub, &[squared, one]);
        let dot = self.dot(v, x);
        let twice_dot = self.op(Op::Mul, &[two, dot]);
        let turned = self.cross(v, x);
        (0..3)
            .map(|i| {
                let first = self.op(Op::Mul, &[x[i], along]);
                let second = self.op(Op::Mul, &[v[i], twice_dot]);
                let sum = self.op(Op::Add, &[first, second]);
                let third = self.op(Op::Mul, &[turned[i], w]);
                let third = self.op(Op::Mul, &[third, two]);
                self.op(sign, &[sum, third])
            })
            .collect()
    }
}
