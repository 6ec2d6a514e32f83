//! Rows of vectors, matrices, quaternions and transformations.

use super::facts::{DrawFrequency, OpFacts, OpKind, OpTrait, Redundancy, WarpSupport};
use super::need::OperandNeed;
use super::words;
use crate::number_range::NumberRange;
use polyloom::Op;

/// A row of what Warp has for `float32` alone.
const fn float32_in_warp(op: Op) -> OpFacts {
    OpFacts::of(op).warp(WarpSupport::Float32)
}

/// A row of a norm of another kind than the length, or by one, which few programs have.
const fn rare_norm(op: Op) -> OpFacts {
    float32_in_warp(op).frequency(DrawFrequency::OneIn(3))
}

/// A row of what turns its second operand. The range of its result is unknown, because a quaternion that is not of unit
/// length makes that longer; the generator's are turns.
const fn rotation(op: Op) -> OpFacts {
    OpFacts::of(op).words(words::ROTATION).expected(|x| NumberRange::within(2.0 * x.given(1).size()))
}

/// A row of what gives a quaternion or a matrix that is a turn if its operands are.
const fn turn(op: Op) -> OpFacts {
    OpFacts::of(op).expected(|_| NumberRange::within(1.0))
}

/// A row of what puts components in other places.
const fn rearrangement(op: Op) -> OpFacts {
    OpFacts::of(op).result(|x| x.rearranged())
}

/// Holds the rows of vectors and matrices.
pub(super) static VECTORS: &[OpFacts] = &[
    OpFacts::of(Op::Dot)
        .noun("the dot product of {} and {}")
        .words(words::PROJECTION)
        .traits(&[OpTrait::TakesOneTwice, OpTrait::Commutes])
        .result(|x| x.dot())
        .redundancies(&[Redundancy::OneDirectionOfTwo]),
    OpFacts::of(Op::Ddot)
        .noun("the double contraction of {} and {}")
        .words(words::PROJECTION)
        .traits(&[OpTrait::TakesOneTwice])
        .result(|x| x.dot_of_two())
        .expected(|x| x.dot()),
    OpFacts::of(Op::Cross)
        .noun("the cross product of {} and {}")
        .names(&["crossed", "perp"])
        .result(|x| x.cross())
        .redundancies(&[Redundancy::OneDirection]),
    OpFacts::of(Op::LengthSq)
        .noun("the squared length of {}")
        .words(words::MAGNITUDE)
        .names(&["norm_sq", "dist_sq"])
        .traits(&[OpTrait::Even])
        .result(|x| x.sum_of_squares())
        .undoes(&[Op::Normalize, Op::QuatFromEuler, Op::QuatRpy])
        .redundancies(&[Redundancy::LosesMinus, Redundancy::OfOneLength]),
    OpFacts::of(Op::Length)
        .noun("the length of {}")
        .words(words::MAGNITUDE)
        .names(&["dist", "norm", "magnitude"])
        .traits(&[OpTrait::Even])
        .result(|x| x.length())
        .undoes(&[Op::Normalize, Op::QuatFromEuler, Op::QuatRpy])
        .redundancies(&[Redundancy::LosesMinus, Redundancy::OfOneLength]),
    float32_in_warp(Op::NormL1)
        .noun("the sum of the absolute components of {}")
        .words(words::MAGNITUDE)
        .result(|x| x.norm_l1()),
    rare_norm(Op::NormHuber).result(|x| x.norm_huber()),
    rare_norm(Op::NormPseudoHuber).result(|x| x.norm_pseudo_huber()),
    rare_norm(Op::SmoothNormalize).result(|_| NumberRange::within(1.0)),
    OpFacts::of(Op::Normalize)
        .noun("the direction of {}")
        .words(words::DIRECTION)
        .traits(&[OpTrait::UnitLength])
        .needs(&[OperandNeed::NotZero])
        .result(|_| NumberRange::within(1.0))
        .undoes(&[Op::Normalize])
        .redundancies(&[Redundancy::LosesScale, Redundancy::OfOneLength]),
    OpFacts::of(Op::CwMul)
        .noun("the component-wise product of {} and {}")
        .words(words::PRODUCT)
        .warp(WarpSupport::NoRotations)
        .kind(OpKind::Product)
        .traits(&[OpTrait::TakesOneTwice, OpTrait::Commutes, OpTrait::ByComponent])
        .result(|x| x.cw_product()),
    OpFacts::of(Op::CwDiv)
        .noun("the component-wise quotient of {} and {}")
        .words(words::QUOTIENT)
        .warp(WarpSupport::NoRotations)
        .kind(OpKind::Quotient)
        .traits(&[OpTrait::ByComponent])
        .needs(&[OperandNeed::Finite, OperandNeed::NotZero])
        .result(|x| x.first() / x.second())
        .redundancies(&[Redundancy::OneDirectionOfTwo]),
    OpFacts::of(Op::Outer)
        .noun("the outer product of {} and {}")
        .names(&["outer_product"])
        .result(|x| x.first() * x.second()),
    rearrangement(Op::Transpose).noun("the transpose of {}").names(&["transposed"]).undoes(&[Op::Transpose]),
    OpFacts::of(Op::Trace).noun("the trace of {}").names(&["trace"]).result(|x| x.trace()).undoes(&[Op::Transpose]),
    OpFacts::of(Op::Determinant).noun("the determinant of {}").names(&["det"]).undoes(&[Op::Transpose]),
    OpFacts::of(Op::Inverse)
        .noun("the inverse of {}")
        .names(&["inverse"])
        .needs(&[OperandNeed::NotZero])
        .undoes(&[Op::Inverse]),
    OpFacts::of(Op::Svd2),
    OpFacts::of(Op::Svd3),
    OpFacts::of(Op::Qr3),
    OpFacts::of(Op::Eig3),
    rearrangement(Op::Diag)
        .noun("the diagonal matrix of {}")
        .traits(&[OpTrait::ZeroOffDiagonal])
        .undoes(&[Op::Diag, Op::GetDiag]),
    rearrangement(Op::GetDiag).noun("the diagonal of {}"),
    rearrangement(Op::Skew)
        .noun("the cross-product matrix of {}")
        .names(&["skewed"])
        .traits(&[OpTrait::ZeroOnDiagonal]),
    OpFacts::of(Op::Argmin).noun("the position of the smallest component of {}").result(|x| x.position()),
    OpFacts::of(Op::Argmax).noun("the position of the largest component of {}").result(|x| x.position()),
];

/// Holds the rows of quaternions, transformations and spatial vectors.
pub(super) static MOTIONS: &[OpFacts] = &[
    OpFacts::of(Op::QuatInverse)
        .noun("the inverse rotation of {}")
        .names(&["inverse"])
        .needs(&[OperandNeed::NotZero])
        .undoes(&[Op::QuatInverse]),
    rotation(Op::QuatRotate).noun("{1} rotated by {0}"),
    rotation(Op::QuatRotateInv).noun("{1} rotated back by {0}"),
    OpFacts::of(Op::QuatFromAxisAngle).result(|x| NumberRange::within(x.first().size().max(1.0))),
    OpFacts::of(Op::QuatToAxisAngle),
    turn(Op::QuatFromMatrix),
    turn(Op::QuatToMatrix),
    OpFacts::of(Op::QuatRpy).traits(&[OpTrait::UnitLength]).result(|_| NumberRange::within(1.0)),
    turn(Op::QuatSlerp).words(words::BLEND).needs(&[OperandNeed::Finite, OperandNeed::Finite, OperandNeed::Fraction]),
    float32_in_warp(Op::QuatFromEuler)
        .traits(&[OpTrait::UnitLength, OpTrait::TakesAxes])
        .result(|_| NumberRange::within(1.0)),
    float32_in_warp(Op::QuatToEuler).traits(&[OpTrait::TakesAxes]),
    float32_in_warp(Op::QuatToRpy),
    float32_in_warp(Op::QuatTwist),
    float32_in_warp(Op::QuatTwistAngle),
    float32_in_warp(Op::QuatTwistAngleSigned),
    float32_in_warp(Op::QuatBetweenVectors),
    OpFacts::of(Op::TransformCompose),
    OpFacts::of(Op::TransformDecompose),
    OpFacts::of(Op::TransformFromMatrix),
    OpFacts::of(Op::TransformToMatrix),
    OpFacts::of(Op::TransformSetTranslationCopy),
    OpFacts::of(Op::TransformSetRotationCopy),
    float32_in_warp(Op::TransformTwist),
    float32_in_warp(Op::TransformWrench),
    float32_in_warp(Op::VelocityAtPoint),
    OpFacts::of(Op::TransformGetTranslation),
    OpFacts::of(Op::TransformGetRotation),
    OpFacts::of(Op::TransformSetTranslation),
    OpFacts::of(Op::TransformSetRotation),
    OpFacts::of(Op::TransformMultiply),
    OpFacts::of(Op::TransformInverse),
    OpFacts::of(Op::TransformPoint),
    OpFacts::of(Op::TransformVector),
    OpFacts::of(Op::SpatialTop),
    OpFacts::of(Op::SpatialBottom),
    OpFacts::of(Op::SpatialDot)
        .names(words::PROJECTION.names)
        .traits(&[OpTrait::TakesOneTwice])
        .result(|x| x.dot_of_two()),
    OpFacts::of(Op::SpatialCross),
    OpFacts::of(Op::SpatialCrossDual),
    OpFacts::of(Op::SpatialAdjoint),
];
