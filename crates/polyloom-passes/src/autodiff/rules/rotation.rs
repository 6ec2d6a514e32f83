//! Rules of rotations and rigid motions.

use super::{Contributions, DerivativeRule, one, two};
use polyloom_ir::{Composite, Op, Value};
use smallvec::{SmallVec, smallvec};

impl DerivativeRule<'_, '_> {
    pub(super) fn rotation(&mut self, op: Op, x: &[Value]) -> Option<Contributions> {
        let g = self.adjoint;
        match op {
            Op::QuatInverse => one(self.b.op(Op::QuatInverse, &[g])),
            Op::QuatRotate | Op::QuatRotateInv => {
                let [rotation, vector] = self.rotated(op, x[0], x[1], g);
                two(rotation, vector)
            }
            Op::QuatFromAxisAngle => {
                // (axis sin φ, cos φ) for half the angle, φ.
                let (along, real) = self.parts(g);
                let half = self.times(x[1], 0.5);
                let [sin, cos] = [Op::Sin, Op::Cos].map(|op| self.b.op(op, &[half]));
                let axis = self.mul(along, sin);
                let dot = self.dot(along, x[0]);
                let [rise, fall] = [self.mul(dot, cos), self.mul(real, sin)];
                let slope = self.sub(rise, fall);
                two(axis, self.times(slope, 0.5))
            }
            Op::QuatToMatrix => one(self.rotation_matrix(x[0], g)),
            Op::QuatSlerp => self.slerp(x),
            Op::TransformMultiply => self.transform_product(x[0], x[1]),
            Op::TransformCompose => {
                // The columns of the rotation's matrix scaled, and the position beside them.
                let (linear, position) = self.affine_parts(g);
                let matrix = self.b.op(Op::QuatToMatrix, &[x[1]]);
                let scales = self.b.op(Op::Diag, &[x[2]]);
                let unscaled = self.mul(linear, scales);
                let rotation = self.rotation_matrix(x[1], unscaled);
                let transposed = self.transpose(matrix);
                let products = self.mul(transposed, linear);
                let scale = self.b.op(Op::GetDiag, &[products]);
                Some(smallvec![Some(position), Some(rotation), Some(scale)])
            }
            Op::TransformToMatrix => {
                let (linear, position) = self.affine_parts(g);
                let rotation = self.b.op(Op::TransformGetRotation, &[x[0]]);
                let rotation = self.rotation_matrix(rotation, linear);
                one(self.transform(position, rotation))
            }
            Op::TransformGetTranslation => {
                let rotation = self.constant_quaternion(g);
                one(self.transform(g, rotation))
            }
            Op::TransformGetRotation => {
                let nothing = self.constant(0.0, g);
                let position = self.vector(&[nothing; 3]);
                one(self.transform(position, g))
            }
            Op::TransformSetTranslation | Op::TransformSetTranslationCopy => {
                let nothing = self.constant(0.0, g);
                let position = self.vector(&[nothing; 3]);
                let rest = self.b.op(Op::TransformSetTranslationCopy, &[g, position]);
                two(rest, self.b.op(Op::TransformGetTranslation, &[g]))
            }
            Op::TransformSetRotation | Op::TransformSetRotationCopy => {
                let rotation = self.constant_quaternion(g);
                let rest = self.b.op(Op::TransformSetRotationCopy, &[g, rotation]);
                two(rest, self.b.op(Op::TransformGetRotation, &[g]))
            }
            Op::SpatialTop | Op::SpatialBottom => {
                let nothing = self.constant(0.0, g);
                let mut components = self.components(g);
                components.insert_many(if op == Op::SpatialTop { 3 } else { 0 }, [nothing; 3]);
                one(self.vector(&components))
            }
            _ => None,
        }
    }

    /// The adjoints of two quaternions' factors, from that of the product. Multiplying by a conjugate is the transpose
    /// of multiplying.
    pub(super) fn quaternion_product(&mut self, a: Value, b: Value, g: Value) -> [Value; 2] {
        let [left, right] = [a, b].map(|q| self.b.op(Op::QuatInverse, &[q]));
        [self.mul(g, right), self.mul(left, g)]
    }

    /// `position(a) + rotate(a, position(b))` and `rotation(a) * rotation(b)`.
    pub(super) fn transform_product(&mut self, a: Value, b: Value) -> Option<Contributions> {
        let g = self.adjoint;
        let [_, by_b, moved] = [a, b, g].map(|t| self.b.op(Op::TransformGetTranslation, &[t]));
        let [first, second, turned] = [a, b, g].map(|t| self.b.op(Op::TransformGetRotation, &[t]));
        let [by_moving, position] = self.rotated(Op::QuatRotate, first, by_b, moved);
        let [by_turning, rotation] = self.quaternion_product(first, second, turned);
        let both = self.add(by_moving, by_turning);
        two(self.transform(moved, both), self.transform(position, rotation))
    }

    /// The adjoints of the quaternion and the vector of `x (2 w² - 1) + 2 v (v · x) ± 2 w (v × x)`, the vector rotated
    /// by the quaternion of the parts v and w, which need not have length 1.
    fn rotated(&mut self, op: Op, q: Value, x: Value, g: Value) -> [Value; 2] {
        let is_inverse = op == Op::QuatRotateInv;
        let vector = self.b.op(if is_inverse { Op::QuatRotate } else { Op::QuatRotateInv }, &[q, g]);
        let (v, w) = self.parts(q);
        let [by_x, by_g] = [x, g].map(|y| self.dot(v, y));
        let [first, second] = [self.mul(g, by_x), self.mul(x, by_g)];
        let along = self.add(first, second);
        let turned = if is_inverse { self.cross(g, x) } else { self.cross(x, g) };
        let across = self.mul(turned, w);
        let sum = self.add(along, across);
        let imaginary = self.times(sum, 2.0);
        // 4 w (x · g) ± 2 (v × x) · g, and (v × x) · g is v · (x × g).
        let [dot, volume] = [self.dot(x, g), self.dot(v, turned)];
        let weight = self.times(w, 2.0);
        let dot = self.mul(dot, weight);
        let sum = self.add(dot, volume);
        let real = self.times(sum, 2.0);
        [self.quaternion(imaginary, real), vector]
    }

    /// The adjoint of a quaternion, from that of the 3 × 3 matrix `(2 w² - 1) 1 + 2 v v' + 2 w skew(v)`.
    fn rotation_matrix(&mut self, q: Value, g: Value) -> Value {
        let (v, w) = self.parts(q);
        let transposed = self.transpose(g);
        let symmetric = self.add(g, transposed);
        let along = self.mul(symmetric, v);
        let axial = self.axial(g);
        let across = self.mul(axial, w);
        let sum = self.add(along, across);
        let imaginary = self.times(sum, 2.0);
        let trace = self.b.op(Op::Trace, &[g]);
        let weight = self.times(w, 2.0);
        let by_trace = self.mul(trace, weight);
        let by_axis = self.dot(v, axial);
        let sum = self.add(by_trace, by_axis);
        let real = self.times(sum, 2.0);
        self.quaternion(imaginary, real)
    }

    /// `a * p` for the part p at `t` of the way `conjugate(a) * b`. The way is smooth where its axis is not: for its
    /// parts u and c ≥ 0, the length l of u and the angle φ = atan2(l, c), p is (u sin(t φ) / l, cos(t φ)).
    fn slerp(&mut self, x: &[Value]) -> Option<Contributions> {
        let g = self.adjoint;
        let [a, b, t] = [x[0], x[1], x[2]];
        let inverse = self.b.op(Op::QuatInverse, &[a]);
        let way = self.mul(inverse, b);
        let (v, w) = self.parts(way);
        let [nothing, unit] = [0.0, 1.0].map(|value| self.constant(value, t));
        // The quaternion of the same rotation with a real part that is not negative.
        let is_negative = self.b.op(Op::Lt, &[w, nothing]);
        let opposite = self.neg(unit);
        let sign = self.b.op(Op::Select, &[is_negative, opposite, unit]);
        // A zero with a sign would give the angle to the other side.
        let (u, c) = (self.mul(v, sign), self.b.op(Op::Abs, &[w]));
        let length = self.b.op(Op::Length, &[u]);
        let angle = self.b.op(Op::Atan2, &[length, c]);
        let turned = self.mul(t, angle);
        let [sin, cos] = [Op::Sin, Op::Cos].map(|op| self.b.op(op, &[turned]));
        let is_same = self.b.op(Op::Eq, &[length, nothing]);
        let [per_c, t_per_c] = [unit, t].map(|x| self.over_length(x, c));
        let [sin_per_length, angle_per_length] = [(sin, t_per_c), (angle, per_c)].map(|(x, limit)| {
            let quotient = self.div(x, length);
            self.b.op(Op::Select, &[is_same, limit, quotient])
        });
        let part_imaginary = self.mul(u, sin_per_length);
        let part = self.quaternion(part_imaginary, cos);

        let [by_a, by_part] = self.quaternion_product(a, part, g);
        let (along, real) = self.parts(by_part);
        let dot = self.dot(u, along);
        // Adjoint of φ: that of sin(t φ) is the dot product over l.
        let rise = self.mul(dot, cos);
        let rise = self.over_length(rise, length);
        let fall = self.mul(real, sin);
        let slope = self.sub(rise, fall);
        let by_angle = self.mul(slope, t);
        let rise = self.mul(dot, cos);
        let rise = self.mul(rise, angle_per_length);
        let fall = self.mul(fall, angle);
        let by_t = self.sub(rise, fall);
        let [share_c, share_length] = [c, length].map(|side| {
            let square = self.b.op(Op::LengthSq, &[way]);
            self.over_length(side, square)
        });
        // Adjoint of l: through φ, and as the divisor.
        let through = self.mul(by_angle, share_c);
        let divided = self.mul(dot, sin_per_length);
        let divided = self.over_length(divided, length);
        let by_length = self.sub(through, divided);
        let per_length = self.over_length(by_length, length);
        let [first, second] = [self.mul(along, sin_per_length), self.mul(u, per_length)];
        let by_u = self.add(first, second);
        let by_c = self.mul(by_angle, share_length);
        let by_c = self.neg(by_c);
        let (by_v, by_w) = (self.mul(by_u, sign), self.mul(by_c, sign));
        let by_way = self.quaternion(by_v, by_w);

        let [by_inverse, by_b] = self.quaternion_product(inverse, b, by_way);
        let other = self.b.op(Op::QuatInverse, &[by_inverse]);
        Some(smallvec![Some(self.add(by_a, other)), Some(by_b), Some(by_t)])
    }

    /// The imaginary and the real part of a quaternion.
    fn parts(&mut self, q: Value) -> (Value, Value) {
        let components = self.components(q);
        (self.vector(&components[..3]), components[3])
    }

    fn quaternion(&mut self, imaginary: Value, real: Value) -> Value {
        let mut components = self.components(imaginary);
        components.push(real);
        self.construct(Composite::Quaternion { elem: self.elem(real) }, &components)
    }

    /// A quaternion of zeros.
    fn constant_quaternion(&mut self, like: Value) -> Value {
        let nothing = self.constant(0.0, like);
        self.construct(Composite::Quaternion { elem: self.elem(like) }, &[nothing; 4])
    }

    fn transform(&mut self, position: Value, rotation: Value) -> Value {
        let mut components = self.components(position);
        components.extend(self.components(rotation));
        self.construct(Composite::Transform { elem: self.elem(position) }, &components)
    }

    /// The upper left 3 × 3 elements of a 4 × 4 matrix, and its last column.
    fn affine_parts(&mut self, m: Value) -> (Value, Value) {
        let elements = self.components(m);
        let linear: SmallVec<[Value; 9]> = (0..9).map(|place| elements[4 * (place / 3) + place % 3]).collect();
        (self.square(&linear), self.vector(&[elements[3], elements[7], elements[11]]))
    }
}
