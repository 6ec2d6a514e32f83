//! Gradient noise (K. Perlin, "Improving noise", SIGGRAPH 2002) and the divergence-free fields derived from it
//! (R. Bridson, J. Hourihan and M. Nordenstam, "Curl-noise for procedural fluid flow", SIGGRAPH 2007).
//!
//! Gradients on the lattice are random vectors by a hash of the lattice point and the state; between lattice points
//! their contributions are blended by Perlin's quintic. Constants, draws and the order of operations are those of
//! NVIDIA Warp, so that fields keep their bits.

use super::random::{DrawSource, seeded};
use crate::expression::{Expr, ExprBuilder};
use crate::op::Op;
use crate::types::Scalar;

/// Holds what the coordinates of a lattice point are multiplied by in its hash.
const PRIMES: [i64; 4] = [73_856_093, 19_349_663, 53_471_161, 10_000_019];
/// Holds what makes the second and the third of three independent fields of one state.
const FIELDS: [i64; 2] = [10_019_689, 13_112_221];

/// A cell of the lattice and a place in it.
struct LatticeCell<'g> {
    /// Coordinates of the two lattice points along each axis.
    bounds: Vec<[Expr<'g>; 2]>,
    /// Distance from the first along each axis.
    offsets: Vec<Expr<'g>>,
}

impl<'g> LatticeCell<'g> {
    fn of(point: &[Expr<'g>]) -> LatticeCell<'g> {
        let floors: Vec<_> = point.iter().map(|x| x.floor()).collect();
        let bounds = floors.iter().map(|floor| floor.cast(Scalar::I32)).map(|first| [first, first + 1]).collect();
        LatticeCell { bounds, offsets: point.iter().zip(floors).map(|(x, floor)| *x - floor).collect() }
    }

    /// The same place with the lattice repeated after so many points along each axis.
    fn repeated(mut self, periods: &[Expr<'g>]) -> LatticeCell<'g> {
        for (bounds, &period) in self.bounds.iter_mut().zip(periods) {
            let wrap = |x: Expr<'g>| {
                let rest = x % period;
                rest.lt(0).select(rest + period, rest)
            };
            let first = wrap(bounds[0]);
            *bounds = [first, wrap(first + 1)];
        }
        self
    }

    fn n_dims(&self) -> usize {
        self.offsets.len()
    }

    /// The gradient at a corner, which is second along the axes of the bits of its number; and where the place is, seen
    /// from there.
    fn corner(&self, state: Expr<'g>, corner: usize) -> [Vec<Expr<'g>>; 2] {
        let side = |axis: usize| corner >> axis & 1;
        let terms = (0..self.n_dims()).map(|axis| self.bounds[axis][side(axis)].bitcast(Scalar::U32) * PRIMES[axis]);
        let mut terms: Vec<_> = terms.collect();
        if let Some(last) = terms.last_mut() {
            *last = *last + state;
        }
        let hash = terms.into_iter().reduce(|a, b| a ^ b).unwrap_or(state);
        let mut source = DrawSource { state: hash };
        let gradient = match self.n_dims() {
            1 => vec![source.uniform() * 2.0 + -1.0],
            n => {
                let direction: Vec<_> = (0..n).map(|_| source.uniform() - 0.5).collect();
                let length = dot(&direction, &direction).sqrt();
                direction.into_iter().map(|x| length.gt(0.0).select(x / length, 0.0)).collect()
            }
        };
        let from = self.offsets.iter().enumerate().map(|(axis, &x)| if side(axis) == 1 { x - 1.0 } else { x });
        [gradient, from.collect()]
    }

    /// The field's value there.
    fn value(&self, state: Expr<'g>) -> Expr<'g> {
        let corners = (0..1 << self.n_dims()).map(|corner| self.corner(state, corner));
        let mut values: Vec<_> = corners.map(|[gradient, from]| dot(&from, &gradient)).collect();
        for &t in &self.offsets {
            let blend = blend(t);
            values = values.chunks(2).map(|pair| (pair[1] - pair[0]) * blend + pair[0]).collect();
        }
        values[0]
    }

    /// The field's gradient there.
    fn gradient(&self, state: Expr<'g>) -> Vec<Expr<'g>> {
        let corners = (0..1 << self.n_dims()).map(|corner| self.corner(state, corner));
        let mut values: Vec<(Expr<'g>, Vec<Expr<'g>>)> =
            corners.map(|[gradient, from]| (dot(&from, &gradient), gradient)).collect();
        for (axis, &t) in self.offsets.iter().enumerate() {
            let (blend, slope) = (blend(t), blend_slope(t));
            let between = |pair: &[(Expr<'g>, Vec<Expr<'g>>)]| {
                let [(first, first_gradient), (second, second_gradient)] = pair else { unreachable!("pairs") };
                let rise = *second - *first;
                let gradient = first_gradient.iter().zip(second_gradient).enumerate().map(|(place, (&a, &b))| {
                    let blended = (b - a) * blend;
                    if place == axis { blended + rise * slope + a } else { blended + a }
                });
                (rise * blend + *first, gradient.collect())
            };
            values = values.chunks(2).map(between).collect();
        }
        values.swap_remove(0).1
    }
}

fn dot<'g>(a: &[Expr<'g>], b: &[Expr<'g>]) -> Expr<'g> {
    let first = a[0] * b[0];
    a.iter().zip(b).skip(1).fold(first, |sum, (&a, &b)| sum + a * b)
}

/// `6 t⁵ - 15 t⁴ + 10 t³`.
fn blend(t: Expr<'_>) -> Expr<'_> {
    t * t * t * (t * (t * 6.0 - 15.0) + 10.0)
}

/// The derivative of [`blend`].
fn blend_slope(t: Expr<'_>) -> Expr<'_> {
    t * 30.0 * t * (t * (t - 2.0) + 1.0)
}

/// `(state, x, …)`: the value of a field at a point of one to four dimensions.
pub(super) fn noise<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    vec![LatticeCell::of(&x[1..]).value(x[0])]
}

/// `(state, x, …, period_x, …)`: as [`noise`], of a field that repeats.
pub(super) fn periodic<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let (point, periods) = x[1..].split_at((x.len() - 1) / 2);
    vec![LatticeCell::of(point).repeated(periods).value(x[0])]
}

/// `(state, x, …)`: the gradient of a field.
pub(super) fn gradient<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    LatticeCell::of(&x[1..]).gradient(x[0])
}

/// `(state, x, …)`, then how many octaves, how much finer and how much weaker each is than the one before, each of
/// which may be left out. In two dimensions, the gradient turned by a right angle; else the curl of three fields.
pub(super) fn curl<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let state = x[0];
    let builder: &'g ExprBuilder = state.builder();
    let n_dims = x[1..].iter().take_while(|coordinate| coordinate.scalar() == Scalar::F32).count();
    let (point, options) = x[1..].split_at(n_dims);
    let octaves = options.first().map_or_else(|| builder.int(Scalar::I32, 1), |octaves| octaves.cast(Scalar::I32));
    let lacunarity = options.get(1).copied().unwrap_or_else(|| builder.float(Scalar::F32, 2.0));
    let gain = options.get(2).copied().unwrap_or_else(|| builder.float(Scalar::F32, 0.5));
    let [zero, one] = [0.0, 1.0].map(|number| builder.float(Scalar::F32, number));
    let gradient = |state: Expr<'g>, frequency: Expr<'g>| -> [Expr<'g>; 4] {
        let operands: Vec<_> = [state].into_iter().chain(point.iter().map(|&x| frequency * x)).collect();
        match n_dims {
            2 => pad(builder.ops::<2>(Op::NoiseGradient, &operands), zero),
            3 => pad(builder.ops::<3>(Op::NoiseGradient, &operands), zero),
            _ => builder.ops(Op::NoiseGradient, &operands),
        }
    };
    if n_dims == 2 {
        let [x, y, ..] = builder.for_range(0, octaves, 1, [zero, zero, one, one], |_, [x, y, frequency, amplitude]| {
            let slope = gradient(state, frequency);
            [x + amplitude * slope[0], y + amplitude * slope[1], frequency * lacunarity, amplitude * gain]
        });
        return vec![-y, x];
    }
    // Three fields, and the first three components of the gradient of each.
    let mut init = [zero; 12];
    [init[9], init[10], init[11]] = [state, one, one];
    let sums = builder.for_range(0, octaves, 1, init, |_, before| {
        let [mut state, frequency, amplitude] = [before[9], before[10], before[11]];
        let mut after = before;
        for field in 0..3 {
            let slope = gradient(state, frequency);
            for place in 0..3 {
                after[3 * field + place] = before[3 * field + place] + amplitude * slope[place];
            }
            if let Some(&offset) = FIELDS.get(field) {
                state = seeded(state, builder.int(Scalar::U32, offset));
            }
        }
        [after[9], after[10], after[11]] = [state, frequency * lacunarity, amplitude * gain];
        after
    });
    let [_, y_of_x, z_of_x, x_of_y, _, z_of_y, x_of_z, y_of_z, ..] = sums;
    vec![y_of_z - z_of_y, z_of_x - x_of_z, x_of_y - y_of_x]
}

fn pad<'g, const N: usize>(values: [Expr<'g>; N], zero: Expr<'g>) -> [Expr<'g>; 4] {
    std::array::from_fn(|i| values.get(i).copied().unwrap_or(zero))
}
