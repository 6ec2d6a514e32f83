//! Random numbers: a 32-bit state advanced by the PCG hash, and what is sampled from it.
//!
//! The hash is PCG-RXS-M-XS as given by Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 9(3), 2020.
//! The sequence of states and the formulas of the samplers are those of NVIDIA Warp, so a program keeps its random
//! numbers when it moves. (Points on spheres are computed without Warp's arc cosine, which loses digits.)
//!
//! Each function takes the state first and gives the new state last.

use super::search::first_not_below;
use super::trigonometric::sin_cos_small;
use crate::expression::Expr;
use crate::op::Op;
use crate::types::Scalar;
use std::f64::consts::TAU;

/// A state and the draws made from it.
pub(super) struct DrawSource<'g> {
    pub(super) state: Expr<'g>,
}

impl<'g> DrawSource<'g> {
    fn next(&mut self) -> Expr<'g> {
        self.state = hash(self.state);
        self.state
    }

    /// Uniform on [0, 1) in steps of 2^-24.
    pub(super) fn uniform(&mut self) -> Expr<'g> {
        (self.next() >> 8).cast(Scalar::F32) * 2f64.powi(-24)
    }

    /// The sine and cosine of an angle uniform on [0, 2π).
    fn direction(&mut self) -> [Expr<'g>; 2] {
        sin_cos_small(self.uniform() * TAU)
    }

    fn finish<const N: usize>(self, values: [Expr<'g>; N]) -> Vec<Expr<'g>> {
        values.into_iter().chain([self.state]).collect()
    }
}

fn hash(state: Expr<'_>) -> Expr<'_> {
    let b = state * 747_796_405 + 2_891_336_453;
    let c = ((b >> ((b >> 28) + 4)) ^ b) * 277_803_737;
    (c >> 22) ^ c
}

/// The state of a seed and an offset.
pub(super) fn seeded<'g>(seed: Expr<'g>, offset: Expr<'g>) -> Expr<'g> {
    hash(seed + hash(offset))
}

fn library<'g>(op: Op, operand: Expr<'g>) -> Expr<'g> {
    operand.builder().op(op, &[operand])
}

/// `(seed)` or `(seed, offset)`.
pub(super) fn init<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let seed = x[0].bitcast(Scalar::U32);
    vec![match x.get(1) {
        Some(offset) => seeded(seed, offset.bitcast(Scalar::U32)),
        None => hash(seed),
    }]
}

/// `(state)` or `(state, low, high)`; as signed as the limits, which is the caller's result type. An empty range gives
/// `low`.
pub(super) fn integer<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let value = source.next();
    let value = match x {
        [_, low, high] => {
            let unsigned = |e: Expr<'g>| if e.scalar() == Scalar::U32 { e } else { e.bitcast(Scalar::U32) };
            // An empty range counts as one number, so that it gives its lower end.
            let length = high.gt(*low).select(unsigned(*high - *low), 1);
            value % length + unsigned(*low)
        }
        _ => value,
    };
    source.finish([value])
}

/// `(state)` or `(state, low, high)`.
pub(super) fn uniform<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let value = source.uniform();
    let value = if let [_, low, high] = x { (*high - *low) * value + *low } else { value };
    source.finish([value])
}

/// Box and Muller's method. The number added keeps the logarithm's operand above zero, and below one.
pub(super) fn normal<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let radius = (library(Op::Log, source.uniform() + f64::from(5.96e-8_f32)) * -2.0).sqrt();
    let [_, cosine] = source.direction();
    source.finish([radius * cosine])
}

/// The first index at which the cumulative distribution reaches a uniform sample; the last index if none does.
pub(super) fn sample_cdf<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let (sample, cdf) = (source.uniform(), x[1]);
    let builder = cdf.builder();
    let index = first_not_below(cdf, builder.int(Scalar::I32, 0), cdf.extent(0) - 1, sample);
    source.finish([index])
}

/// Barycentric coordinates.
pub(super) fn triangle<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let root = source.uniform().sqrt();
    let v = source.uniform() * root;
    source.finish([1.0 - root, v])
}

/// The circle's line.
pub(super) fn unit_ring<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let [sine, cosine] = source.direction();
    source.finish([cosine, sine])
}

/// The disk.
pub(super) fn unit_disk<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let radius = source.uniform().sqrt();
    let [sine, cosine] = source.direction();
    source.finish([radius * cosine, radius * sine])
}

/// The sphere's surface.
pub(super) fn unit_sphere_surface<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    surface(x, 2.0)
}

/// The ball.
pub(super) fn unit_sphere<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    solid(x, 2.0)
}

/// The hemisphere's surface.
pub(super) fn unit_hemisphere_surface<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    surface(x, 1.0)
}

/// The half ball.
pub(super) fn unit_hemisphere<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    solid(x, 1.0)
}

/// A point of the surface whose `z` is uniform on the `height` below 1.
fn surface_point<'g>(source: &mut DrawSource<'g>, height: f64) -> [Expr<'g>; 3] {
    let depth = source.uniform() * height;
    // z = 1 - depth, and this is the square root of 1 - z^2.
    let radius = (depth * (2.0 - depth)).sqrt();
    let [sine, cosine] = source.direction();
    [cosine * radius, sine * radius, 1.0 - depth]
}

fn surface<'g>(x: &[Expr<'g>], height: f64) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let point = surface_point(&mut source, height);
    source.finish(point)
}

fn solid<'g>(x: &[Expr<'g>], height: f64) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let point = surface_point(&mut source, height);
    let radius = library(Op::Cbrt, source.uniform());
    source.finish(point.map(|coordinate| radius * coordinate))
}

/// The square around zero.
pub(super) fn unit_square<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let point = [source.uniform() - 0.5, source.uniform() - 0.5];
    source.finish(point)
}

/// The cube around zero.
pub(super) fn unit_cube<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let mut source = DrawSource { state: x[0] };
    let point = [source.uniform() - 0.5, source.uniform() - 0.5, source.uniform() - 0.5];
    source.finish(point)
}
