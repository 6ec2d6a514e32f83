//! Angles of rotations, motions of rigid bodies, and transforms as matrices, by components.

use super::{Components, ScalariseRewrite};
use polyloom_ir::{Composite, Op, Scalar, Value};
use smallvec::smallvec;

impl ScalariseRewrite<'_, '_> {
    /// The components of what one of these ops gives, if it is one.
    pub(super) fn motion(&mut self, op: Op, elem: Scalar, operands: &[Components]) -> Option<Components> {
        Some(match (op, operands) {
            (Op::QuatFromEuler, [angles, i, j, k]) => self.rotation_by_axes(elem, angles, [i[0], j[0], k[0]]),
            (Op::QuatToEuler, [q, i, j, k]) => self.angles_by_axes(elem, q, [i[0], j[0], k[0]]),
            (Op::QuatToRpy, [q]) => self.roll_pitch_yaw(elem, q),
            (Op::QuatTwist, [axis, q]) => {
                let along = self.dot(&q[..3], axis);
                let mut twist = self.scale(axis, along);
                twist.push(q[3]);
                self.normalize(Some(Composite::Quaternion { elem }), elem, &twist)
            }
            (Op::QuatTwistAngle | Op::QuatTwistAngleSigned, [axis, q]) => {
                let mut along = self.dot(axis, &q[..3]);
                if op == Op::QuatTwistAngle {
                    along = self.op(Op::Abs, &[along]);
                }
                smallvec![self.twice_angle(elem, along, q[3])]
            }
            (Op::QuatBetweenVectors, [a, b]) => self.rotation_between(elem, a, b),
            (Op::TransformSetTranslationCopy, [t, p]) => p.iter().chain(&t[3..]).copied().collect(),
            (Op::TransformSetRotationCopy, [t, q]) => t[..3].iter().chain(q).copied().collect(),
            (Op::TransformTwist, [t, x]) => {
                let [angular, linear] = [&x[..3], &x[3..]].map(|part| self.rotated(elem, &t[3..], part));
                let moment = self.cross(&t[..3], &angular);
                let linear = self.zip(Op::Add, &linear, &moment);
                angular.into_iter().chain(linear).collect()
            }
            (Op::TransformWrench, [t, x]) => {
                let [torque, force] = [&x[..3], &x[3..]].map(|part| self.rotated(elem, &t[3..], part));
                let moment = self.cross(&t[..3], &force);
                let torque = self.zip(Op::Add, &torque, &moment);
                torque.into_iter().chain(force).collect()
            }
            (Op::VelocityAtPoint, [motion, r]) => {
                let turning = self.cross(&motion[..3], r);
                self.zip(Op::Add, &motion[3..], &turning)
            }
            (Op::TransformFromMatrix, [m]) => {
                let rotation = self.rotation_of(elem, m);
                [m[3], m[7], m[11]].into_iter().chain(rotation).collect()
            }
            (Op::TransformToMatrix, [t]) => {
                let rotation = self.matrix_of(elem, &t[3..]);
                self.affine(elem, &rotation, &t[..3])
            }
            (Op::TransformCompose, [position, rotation, scale]) => {
                let rotation = self.matrix_of(elem, rotation);
                let scaled: Components =
                    (0..9).map(|place| self.op(Op::Mul, &[scale[place % 3], rotation[place]])).collect();
                self.affine(elem, &scaled, position)
            }
            (Op::TransformDecompose, [m]) => self.decomposed(elem, m),
            _ => return None,
        })
    }

    /// `2 atan2(sine, cosine)`.
    fn twice_angle(&mut self, elem: Scalar, sine: Value, cosine: Value) -> Value {
        let half = self.op(Op::Atan2, &[sine, cosine]);
        let two = self.number(elem, 2);
        self.op(Op::Mul, &[two, half])
    }

    /// Tells whether an axis is each of the three.
    fn is_axis(&mut self, axis: Value) -> [Value; 3] {
        [0, 1, 2].map(|n| {
            let n = self.builder.const_int(Scalar::I32, n);
            self.op(Op::Eq, &[axis, n])
        })
    }

    /// The component along an axis; along the third if there is no such axis.
    fn along(&mut self, x: &[Value], is_axis: [Value; 3]) -> Value {
        let later = self.op(Op::Select, &[is_axis[1], x[1], x[2]]);
        self.op(Op::Select, &[is_axis[0], x[0], later])
    }

    /// The rotations by the angles along three axes one after the other.
    fn rotation_by_axes(&mut self, elem: Scalar, angles: &[Value], axes: [Value; 3]) -> Components {
        let zero = self.number(elem, 0);
        let [first, second, third] = axes.map(|axis| {
            let is_axis = self.is_axis(axis);
            let angle = self.along(angles, is_axis);
            let half = self.halved(elem, angle);
            let (sin, cos) = (self.op(Op::Sin, &[half]), self.op(Op::Cos, &[half]));
            let imaginary = is_axis.map(|is_axis| self.op(Op::Select, &[is_axis, sin, zero]));
            imaginary.into_iter().chain([cos]).collect::<Components>()
        });
        let both = self.compose(&second, &first);
        self.compose(&third, &both)
    }

    /// The angles of a rotation for a sequence of axes: E. Bernardes and S. Viollet, "Quaternion to Euler angles
    /// conversion", PLoS ONE 17(11), 2022, with the second angle by an arc tangent, which keeps its digits everywhere.
    fn angles_by_axes(&mut self, elem: Scalar, q: &[Value], [i, j, k]: [Value; 3]) -> Components {
        let zero = self.number(elem, 0);
        let is_proper = self.op(Op::Eq, &[i, k]);
        // A proper sequence ends with its first axis; the third coordinate is the one that is left.
        let three = self.builder.const_int(Scalar::I32, 3);
        let rest = self.op(Op::Sub, &[three, i]);
        let rest = self.op(Op::Sub, &[rest, j]);
        let k = self.op(Op::Select, &[is_proper, rest, k]);
        let differences = [(i, j), (j, k), (k, i)].map(|(a, b)| self.op(Op::Sub, &[a, b]));
        let twice_sign = self.fold(Op::Mul, &differences);
        let twice_sign = self.builder.cast(twice_sign, elem);
        let sign = self.halved(elem, twice_sign);
        let [is_i, is_j, is_k] = [i, j, k].map(|axis| self.is_axis(axis));
        let [x, y, z] = [is_i, is_j, is_k].map(|is_axis| self.along(&q[..3], is_axis));
        let z = self.op(Op::Mul, &[z, sign]);
        let tilted = [(Op::Sub, q[3], y), (Op::Add, x, z), (Op::Add, y, q[3]), (Op::Sub, z, x)];
        let tilted = tilted.map(|(op, a, b)| self.op(op, &[a, b]));
        let [a, b, c, d]: [Value; 4] = {
            let proper = [q[3], x, y, z];
            std::array::from_fn(|n| self.op(Op::Select, &[is_proper, proper[n], tilted[n]]))
        };
        let (near, far) = (self.length(&[a, b]), self.length(&[c, d]));
        let second = self.twice_angle(elem, far, near);
        let (sum, difference) = (self.op(Op::Atan2, &[b, a]), self.op(Op::Atan2, &[d, c]));
        // At either end of the second angle's range only the sum or only the difference of the others is known, so that
        // the first is set to zero.
        let tolerance = self.constant(elem, if elem == Scalar::F64 { 1e-12 } else { 1e-6 });
        let pi = self.constant(elem, std::f64::consts::PI);
        let left = self.op(Op::Sub, &[pi, second]);
        let is_at_start = self.op(Op::Lt, &[second, tolerance]);
        let is_at_end = self.op(Op::Lt, &[left, tolerance]);
        let is_locked = self.op(Op::BitOr, &[is_at_start, is_at_end]);
        let first = self.op(Op::Sub, &[sum, difference]);
        let first = self.op(Op::Select, &[is_locked, zero, first]);
        let known = self.op(Op::Select, &[is_at_start, sum, difference]);
        let third_locked = self.op(Op::Add, &[known, known]);
        let third = self.op(Op::Add, &[sum, difference]);
        let third = self.op(Op::Select, &[is_locked, third_locked, third]);
        let quarter = self.constant(elem, std::f64::consts::FRAC_PI_2);
        let tilted = [self.op(Op::Sub, &[second, quarter]), self.op(Op::Mul, &[third, sign])];
        let second = self.op(Op::Select, &[is_proper, second, tilted[0]]);
        let third = self.op(Op::Select, &[is_proper, third, tilted[1]]);
        (0..3)
            .map(|n| {
                let others = self.op(Op::Select, &[is_i[n], first, third]);
                self.op(Op::Select, &[is_j[n], second, others])
            })
            .collect()
    }

    /// The angles that `quat_rpy` takes. Where the pitch is a right angle, the yaw is 0.
    fn roll_pitch_yaw(&mut self, elem: Scalar, q: &[Value]) -> Components {
        let [zero, one, two] = [0, 1, 2].map(|n| self.number(elem, n));
        let [x, y, z, w] = [q[0], q[1], q[2], q[3]];
        let mut twice = |op: Op, [a, b, c, d]: [Value; 4]| {
            let (first, second) = (self.op(Op::Mul, &[a, b]), self.op(Op::Mul, &[c, d]));
            let sum = self.op(op, &[first, second]);
            self.op(Op::Mul, &[two, sum])
        };
        let [roll_sine, pitch_sine, yaw_sine] =
            [twice(Op::Add, [w, x, y, z]), twice(Op::Sub, [w, y, z, x]), twice(Op::Add, [w, z, x, y])];
        let [roll_rest, yaw_rest] = [twice(Op::Add, [x, x, y, y]), twice(Op::Add, [y, y, z, z])];
        let [roll_cosine, yaw_cosine] = [roll_rest, yaw_rest].map(|rest| self.op(Op::Sub, &[one, rest]));
        let pitch_cosine = self.length(&[roll_sine, roll_cosine]);
        let pitch = self.op(Op::Atan2, &[pitch_sine, pitch_cosine]);
        let tolerance = self.constant(elem, if elem == Scalar::F64 { 1e-12 } else { 1e-6 });
        let is_locked = self.op(Op::Lt, &[pitch_cosine, tolerance]);
        let (roll, all) = (self.op(Op::Atan2, &[roll_sine, roll_cosine]), self.twice_angle(elem, x, w));
        let yaw = self.op(Op::Atan2, &[yaw_sine, yaw_cosine]);
        let roll = self.op(Op::Select, &[is_locked, all, roll]);
        smallvec![roll, pitch, self.op(Op::Select, &[is_locked, zero, yaw])]
    }

    /// The shortest rotation from one direction to another; of opposite ones, around an axis at right angles.
    fn rotation_between(&mut self, elem: Scalar, a: &[Value], b: &[Value]) -> Components {
        let (a, b) = (self.normalize(None, elem, a), self.normalize(None, elem, b));
        let [zero, one] = [0, 1].map(|n| self.number(elem, n));
        let mut q = self.cross(&a, &b);
        let cosine = self.dot(&a, &b);
        // 1 + cos is taken from the sine where the angle is obtuse, because the sum cancels there.
        let (sum, rest) = (self.op(Op::Add, &[one, cosine]), self.op(Op::Sub, &[one, cosine]));
        let sine_squared = self.dot(&q, &q);
        let quotient = self.op(Op::Div, &[sine_squared, rest]);
        let is_obtuse = self.op(Op::Lt, &[cosine, zero]);
        let real = self.op(Op::Select, &[is_obtuse, quotient, sum]);
        q.push(real);
        let magnitude = [0, 1, 2].map(|n| self.op(Op::Abs, &[a[n]]));
        let minus = self.negate(&a);
        // The rotation is around the cross product with that of the first two axes that lies the farther from it, so
        // that the product does not vanish.
        let is_first_less = self.op(Op::Lt, &[magnitude[0], magnitude[1]]);
        let (by_x, by_y) = ([zero, a[2], minus[1], zero], [minus[2], zero, a[0], zero]);
        let around = self.choose(is_first_less, &by_x, &by_y);
        let smallest = self.constant(
            elem,
            match elem {
                Scalar::F64 => 1e-30,
                Scalar::F32 => 1e-12,
                _ => 1e-3,
            },
        );
        let is_opposite = self.op(Op::Lt, &[real, smallest]);
        let q = self.choose(is_opposite, &around, &q);
        self.normalize(Some(Composite::Quaternion { elem }), elem, &q)
    }

    /// The 4 × 4 matrix of a 3 × 3 matrix and a translation.
    fn affine(&mut self, elem: Scalar, linear: &[Value], translation: &[Value]) -> Components {
        let [zero, one] = [0, 1].map(|n| self.number(elem, n));
        let rows = linear.chunks(3).zip(translation);
        rows.flat_map(|(row, &p)| [row[0], row[1], row[2], p]).chain([zero, zero, zero, one]).collect()
    }

    /// Translation, rotation and scale of a 4 × 4 matrix.
    fn decomposed(&mut self, elem: Scalar, m: &[Value]) -> Components {
        let zero = self.number(elem, 0);
        let columns = [0, 1, 2].map(|col| [m[col], m[4 + col], m[8 + col]]);
        let scale = columns.map(|column| self.length(&column));
        let directions = [0, 1, 2].map(|col| {
            let has_direction = self.op(Op::Ne, &[scale[col], zero]);
            columns[col].map(|x| {
                let quotient = self.op(Op::Div, &[x, scale[col]]);
                self.op(Op::Select, &[has_direction, quotient, x])
            })
        });
        let rotation: Components = (0..9).map(|place| directions[place % 3][place / 3]).collect();
        let rotation = self.rotation_of(elem, &rotation);
        [m[3], m[7], m[11]].into_iter().chain(rotation).chain(scale).collect()
    }
}
