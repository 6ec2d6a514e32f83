//! The mathematics library: the HIR functions that define every [`Lowering::Library`](crate::op::Lowering::Library)
//! op.
//!
//! All are written with operations every back end rounds the same way (`+ - * /`, square root, fused multiply-add,
//! integers and bits), so their results are the same bits everywhere. They use no memory and hardly ever branch:
//! sixteen threads may execute them at once. Where there is a branch, it leads to a rare slow path.
//!
//! The algorithms lean on the exact rounding of every step. Whatever the float mode of the kernel that calls them,
//! their instructions must be compiled in strict mode: reassociation would cancel their error terms.
//!
//! Polynomials were computed for this library with Sollya's `fpminimax`; each names its interval and its error.
//! `make accuracy` measures the errors of the finished functions.
//!
//! Design: `docs/design/interpreter.md`.

#![allow(clippy::approx_constant, reason = "coefficients are what the fit gave, wherever that is near a constant")]

mod angle;
mod basic;
mod decomposition;
mod error_function;
mod expectation;
mod exponential;
mod float_expr;
mod hyperbolic;
mod inverse_trigonometric;
mod logarithm;
mod noise;
mod poisson;
mod power;
mod random;
mod remainder;
mod search;
#[cfg(test)]
mod tests;
mod trigonometric;

use crate::expression::{Expr, ExprBuilder};
use crate::function::Function;
use crate::op::{Op, Signature, TyPattern};
use crate::types::{AddressSpace, Scalar, Type};

/// The function that defines `op` for these operand types; `None` where the op is native (`mod` of integers) or takes
/// no such operands.
///
/// Its parameters are the op's operands, its results the op's results, those of `inout` parameters at the end. Its
/// body holds native ops, structured control flow and other library ops. In place of a composite stand its components,
/// as parameters and as results. Its name says the overload: `sin.f32`, `randi.3`. Functions of 16-bit floats compute
/// in `f32` and round their result.
///
/// ```
/// use polyloom_ir::{Op, Type, math};
///
/// let sign = math::library_function(Op::Sign, &[Type::F32]).unwrap();
/// assert_eq!(&*sign.name, "sign.f32");
/// assert!(math::library_function(Op::Add, &[Type::F32, Type::F32]).is_none());
/// ```
pub fn library_function(op: Op, operand_types: &[Type]) -> Option<Function> {
    let info = op.info();
    let body = body(op, operand_types)?;
    let (signature, results) =
        info.signatures.iter().find_map(|signature| Some((signature, signature.result_types(operand_types)?)))?;
    let params: Vec<_> = signature
        .params
        .iter()
        .zip(operand_types)
        .flat_map(|(param, &ty)| ty.components().into_iter().map(|component| (param.name, component)))
        .collect();
    let results: Vec<Type> = results.iter().flat_map(|ty| ty.components()).collect();
    let name = function_name(op, signature, operand_types);
    let function = ExprBuilder::function(&name, &params, &results, |_, params| {
        let operands: Vec<Expr<'_>> = params.iter().copied().map(widen).collect();
        let values = body(&operands).into_iter().zip(&results);
        let narrowed = values.map(|(value, &ty)| ty.as_scalar().map_or(value, |scalar| value.cast(scalar)));
        narrowed.collect()
    });
    // The tests of the library build every function.
    Some(function.unwrap_or_else(|error| panic!("the library's `{name}`: {error}")))
}

/// A 16-bit float as `f32`, anything else as it is.
fn widen(operand: Expr<'_>) -> Expr<'_> {
    match operand.ty() {
        Type::Scalar(scalar) if scalar.is_half() => operand.cast(Scalar::F32),
        _ => operand,
    }
}

fn function_name(op: Op, signature: &Signature, operand_types: &[Type]) -> String {
    let variable = signature.params.iter().position(|param| param.ty == TyPattern::Var);
    let composite = operand_types.iter().find_map(|ty| ty.as_composite());
    let space = operand_types.iter().find_map(|ty| ty.space()).filter(|&space| space != AddressSpace::Global);
    let name = space.map_or_else(|| op.name().to_owned(), |space| format!("{}.{}", op.name(), space.name()));
    let mut others = op.info().signatures.iter().filter(|other| !other.has_composites());
    let counts_differ = others.any(|other| other.params.len() != signature.params.len());
    match (composite, variable.and_then(|index| operand_types.get(index))) {
        (Some(composite), _) => {
            format!("{name}.{}.{}.{}", composite.elem(), composite.n_components(), operand_types.len())
        }
        (None, Some(ty)) if counts_differ => format!("{name}.{ty}.{}", operand_types.len()),
        (None, Some(ty)) => format!("{name}.{ty}"),
        (None, None) => format!("{name}.{}", operand_types.len()),
    }
}

/// Returns true if a definition takes the components of composites, of an op that takes scalars as well.
fn is_defined_for_composites(op: Op) -> bool {
    matches!(op, Op::Noise | Op::Pnoise | Op::ExpectEq | Op::ExpectNeq | Op::ExpectNear)
}

type Body = for<'g> fn(&[Expr<'g>]) -> Vec<Expr<'g>>;

/// The definition of an op, which may still look at the types of its operands.
fn body(op: Op, operand_types: &[Type]) -> Option<Body> {
    let is_composite = operand_types.iter().any(|ty| ty.as_composite().is_some());
    if is_composite && op.info().signatures.iter().any(|s| !s.has_composites()) && !is_defined_for_composites(op) {
        // There is no definition for composites, because `scalarise` makes them of the op on scalars.
        return None;
    }
    let first_is_float = operand_types.first()?.as_scalar().is_some_and(Scalar::is_float);
    Some(match op {
        Op::Mod if first_is_float => |x| vec![remainder::remainder(x[0], x[1])],
        Op::FloorDiv if first_is_float => |x| vec![(x[0] / x[1]).floor()],
        Op::FloorDiv => |x| vec![basic::floor_divide(x[0], x[1])],
        Op::Copysign => |x| vec![basic::copysign(x[0], x[1])],
        Op::Round => |x| vec![basic::round(x[0])],
        Op::Frac => |x| vec![x[0] - x[0].trunc()],
        Op::Sign => |x| vec![basic::sign(x[0])],
        Op::Step => |x| vec![basic::step(x[0])],
        Op::Clamp => |x| vec![x[1].max(x[0]).min(x[2])],
        Op::Lerp => |x| vec![x[0] * (1.0 - x[2]) + x[1] * x[2]],
        Op::Smoothstep => |x| vec![basic::smoothstep(x[0], x[1], x[2])],
        Op::Degrees => |x| vec![x[0] * (180.0 / std::f64::consts::PI)],
        Op::Radians => |x| vec![x[0] * (std::f64::consts::PI / 180.0)],
        Op::IsNan => |x| vec![basic::magnitude_bits(x[0]).gt(basic::infinity_bits(x[0]))],
        Op::IsInf => |x| vec![basic::magnitude_bits(x[0]).eq(basic::infinity_bits(x[0]))],
        Op::IsFinite => |x| vec![basic::magnitude_bits(x[0]).lt(basic::infinity_bits(x[0]))],
        Op::Sin => |x| vec![trigonometric::sin(x[0])],
        Op::Cos => |x| vec![trigonometric::cos(x[0])],
        Op::Tan => |x| vec![trigonometric::tan(x[0])],
        Op::Asin => |x| vec![inverse_trigonometric::asin(x[0])],
        Op::Acos => |x| vec![inverse_trigonometric::acos(x[0])],
        Op::Atan => |x| vec![inverse_trigonometric::atan(x[0])],
        Op::Atan2 => |x| vec![inverse_trigonometric::atan2(x[0], x[1])],
        Op::ReduceAngle => angle::reduce_far,
        Op::Sinh => |x| vec![hyperbolic::sinh(x[0])],
        Op::Cosh => |x| vec![hyperbolic::cosh(x[0])],
        Op::Tanh => |x| vec![hyperbolic::tanh(x[0])],
        Op::Asinh => |x| vec![hyperbolic::asinh(x[0])],
        Op::Acosh => |x| vec![hyperbolic::acosh(x[0])],
        Op::Atanh => |x| vec![hyperbolic::atanh(x[0])],
        Op::Exp => |x| vec![exponential::exp(x[0])],
        Op::Exp2 => |x| vec![exponential::exp2(x[0])],
        Op::Expm1 => |x| vec![exponential::expm1(x[0])],
        Op::Log => |x| vec![logarithm::log(x[0])],
        Op::Log2 => |x| vec![logarithm::log2(x[0])],
        Op::Log10 => |x| vec![logarithm::log10(x[0])],
        Op::Log1p => |x| vec![logarithm::log1p(x[0])],
        Op::Pow => |x| vec![power::pow(x[0], x[1])],
        Op::Rsqrt => |x| vec![power::rsqrt(x[0])],
        Op::Cbrt => |x| vec![power::cbrt(x[0])],
        Op::Hypot => |x| vec![power::hypot(x[0], x[1])],
        Op::Erf => |x| vec![error_function::erf(x[0])],
        Op::Erfc => |x| vec![error_function::erfc(x[0])],
        Op::Erfinv => |x| vec![error_function::erfinv(x[0])],
        Op::Erfcinv => |x| vec![error_function::erfcinv(x[0])],
        Op::Pos => |x| vec![x[0]],
        Op::Unot => |x| vec![x[0].eq(x[0].constant(0))],
        Op::BitCount => |x| vec![basic::bit_count(x[0])],
        Op::Nonzero => |x| vec![x[0].ne(0).select(x[0].constant(1), 0)],
        Op::LowerBound => search::lower_bound,
        Op::ExpectEq => expectation::equal,
        Op::ExpectNeq => expectation::different,
        Op::ExpectNear => expectation::near,
        Op::Svd2 => decomposition::svd2,
        Op::Svd3 => decomposition::svd3,
        Op::Qr3 => decomposition::qr3,
        Op::Eig3 => decomposition::eig3,
        Op::Noise => noise::noise,
        Op::Pnoise => noise::periodic,
        Op::NoiseGradient => noise::gradient,
        Op::Curlnoise => noise::curl,
        Op::RandInit => random::init,
        Op::Randi | Op::Randu => random::integer,
        Op::Randf => random::uniform,
        Op::Randn => random::normal,
        Op::Poisson => poisson::poisson,
        Op::SampleCdf => random::sample_cdf,
        Op::SampleTriangle => random::triangle,
        Op::SampleUnitRing => random::unit_ring,
        Op::SampleUnitDisk => random::unit_disk,
        Op::SampleUnitSphereSurface => random::unit_sphere_surface,
        Op::SampleUnitSphere => random::unit_sphere,
        Op::SampleUnitHemisphereSurface => random::unit_hemisphere_surface,
        Op::SampleUnitHemisphere => random::unit_hemisphere,
        Op::SampleUnitSquare => random::unit_square,
        Op::SampleUnitCube => random::unit_cube,
        _ => return None,
    })
}
