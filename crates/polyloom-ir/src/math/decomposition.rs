//! Decompositions of small matrices: singular values, eigenvalues, orthogonal and triangular factors.
//!
//! Singular values come from one-sided Jacobi rotations (M. R. Hestenes, "Inversion of matrices by biorthogonalization
//! and related results", J. SIAM 6, 1958), each of which makes two columns orthogonal and puts the longer one first
//! (the pivoting of P. P. M. de Rijk, SIAM J. Sci. Stat. Comput. 10, 1989); eigenvalues from two-sided ones. Rotations
//! are applied as `x + s (y - tan(θ/2) x)` (H. Rutishauser, Numer. Math. 9, 1966), which rounds in proportion to the
//! angle. The number of sweeps is fixed: threads that execute together would wait for the slowest anyway.
//!
//! Matrices are scaled by a power of two first, so that fourth powers of their elements neither overflow nor, where
//! they matter, underflow.

use super::basic;
use crate::expression::{Expr, ExprBuilder};
use crate::types::Scalar;

type Vec3<'g> = [Expr<'g>; 3];
type Vec2<'g> = [Expr<'g>; 2];

/// The exponent of the largest element of a scaled matrix: the fourth power of its norm is finite. For `f32` and `f64`.
const FOURTH_POWERS: [i64; 2] = [27, 250];
/// Number of times all pairs of columns are made orthogonal. The last of these sweeps changes rounding errors only.
const SWEEPS: [i64; 2] = [4, 5];
/// Like [`FOURTH_POWERS`], where only squares of the norm are computed.
const SQUARES: [i64; 2] = [60, 500];

fn of_type<T: Copy>(like: Expr<'_>, [single, double]: [T; 2]) -> T {
    if like.is_f64() { double } else { single }
}

fn dot<'g, const N: usize>(a: [Expr<'g>; N], b: [Expr<'g>; N]) -> Expr<'g> {
    let first = a[0] * b[0];
    a.into_iter().zip(b).skip(1).fold(first, |sum, (a, b)| a.fma(b, sum))
}

fn cross<'g>(a: Vec3<'g>, b: Vec3<'g>) -> Vec3<'g> {
    [(1, 2), (2, 0), (0, 1)].map(|(i, j)| a[i].fma(b[j], -(a[j] * b[i])))
}

fn scale<'g, const N: usize>(x: [Expr<'g>; N], factor: Expr<'g>) -> [Expr<'g>; N] {
    x.map(|x| x * factor)
}

fn unit<'g, const N: usize>(like: Expr<'g>, place: usize) -> [Expr<'g>; N] {
    std::array::from_fn(|i| like.constant(if i == place { 1.0 } else { 0.0 }))
}

/// The power of two that brings the largest of some numbers to `2^exponent`, as far as there is one; and its inverse.
fn scaling<'g>(elements: &[Expr<'g>], exponent: i64) -> [Expr<'g>; 2] {
    let like = elements[0];
    let (mantissa_bits, bias) = of_type(like, [(23, 127), (52, 1023)]);
    let magnitudes = elements.iter().map(|element| element.abs());
    let largest = magnitudes.reduce(|a, b| a.max(b)).unwrap_or(like);
    let field = basic::magnitude_bits(largest) >> mantissa_bits;
    let limited = (field.constant(2 * bias + exponent) - field).max(1).min(2 * bias);
    let factor = (limited << mantissa_bits).float_from_bits();
    [factor, 1.0 / factor]
}

/// A rotation by an angle, in the form that is applied.
struct GivensRotation<'g> {
    sine: Expr<'g>,
    /// The tangent of half the angle.
    half_tangent: Expr<'g>,
}

impl<'g> GivensRotation<'g> {
    fn new(cosine: Expr<'g>, sine: Expr<'g>) -> GivensRotation<'g> {
        GivensRotation { sine, half_tangent: sine / (1.0 + cosine) }
    }

    /// `c x + s y` and `c y - s x`.
    fn apply(&self, x: &mut Expr<'g>, y: &mut Expr<'g>) {
        let (before, half) = (*x, self.half_tangent);
        *x = self.sine.fma((-half).fma(before, *y), before);
        *y = (-self.sine).fma(half.fma(*y, before), *y);
    }

    fn apply_to_columns<const N: usize>(&self, columns: &mut [[Expr<'g>; N]], p: usize, q: usize) {
        let (mut first, mut second) = (columns[p], columns[q]);
        for (x, y) in first.iter_mut().zip(&mut second) {
            self.apply(x, y);
        }
        (columns[p], columns[q]) = (first, second);
    }
}

/// The cosine, at least √½, the sine and the tangent of half the angle with the tangent `twice / |difference|`; of no
/// angle where both vanish.
fn half_angle<'g>(difference: Expr<'g>, twice: Expr<'g>) -> Vec3<'g> {
    let square = twice * twice;
    let sum = difference.fma(difference, square).sqrt() + difference.abs();
    let hypotenuse = sum.fma(sum, square);
    let (turns, inverse) = (hypotenuse.ne(0.0), 1.0 / hypotenuse.sqrt());
    [turns.select(sum * inverse, 1.0), turns.select(twice * inverse, 0.0), turns.select(twice / sum, 0.0)]
}

/// Makes two columns of a product of a matrix and a rotation orthogonal, the longer one first, by rotating both
/// factors.
///
/// Columns are exchanged, the second then negated, before they are turned by the smaller angle, so that a short column
/// keeps its digits.
fn orthogonalise<'g, const N: usize>(
    product: &mut [[Expr<'g>; N]],
    rotation: &mut [[Expr<'g>; N]],
    p: usize,
    q: usize,
) {
    let difference = dot(product[p], product[p]) - dot(product[q], product[q]);
    let is_shorter = difference.lt(0.0);
    for columns in [&mut *product, &mut *rotation] {
        let (first, second) = (columns[p], columns[q]);
        columns[p] = std::array::from_fn(|i| is_shorter.select(second[i], first[i]));
        columns[q] = std::array::from_fn(|i| is_shorter.select(-first[i], second[i]));
    }
    let element = dot(product[p], product[q]);
    let [cosine, sine, _] = half_angle(difference, element + element);
    let turn = GivensRotation::new(cosine, sine);
    turn.apply_to_columns(product, p, q);
    turn.apply_to_columns(rotation, p, q);
}

/// Orthonormal vectors: the first two in the directions of `a` and of `b` as seen from `a`, the third at right angles.
/// `a` and `b` are not zero and not parallel.
fn orthonormal<'g>(a: Vec3<'g>, b: Vec3<'g>) -> [Vec3<'g>; 3] {
    let first = scale(a, 1.0 / dot(a, a).sqrt());
    let along = dot(first, b);
    let rest: Vec3<'g> = std::array::from_fn(|i| (-along).fma(first[i], b[i]));
    let second = scale(rest, 1.0 / dot(rest, rest).sqrt());
    [first, second, cross(first, second)]
}

/// A vector at right angles to one of length 1.
fn perpendicular<'g>(x: Vec3<'g>) -> Vec3<'g> {
    let magnitude = x.map(Expr::abs);
    let zero = x[0].constant(0.0);
    let is_first = magnitude[0].le(magnitude[1].min(magnitude[2]));
    let is_second = magnitude[1].le(magnitude[2]);
    let [by_first, by_second, by_third] = [[zero, x[2], -x[1]], [-x[2], zero, x[0]], [x[1], -x[0], zero]];
    std::array::from_fn(|i| is_first.select(by_first[i], is_second.select(by_second[i], by_third[i])))
}

fn columns<'g, const N: usize>(matrix: &[Expr<'g>], factor: Expr<'g>) -> [[Expr<'g>; N]; N] {
    std::array::from_fn(|col| std::array::from_fn(|row| matrix[row * N + col] * factor))
}

/// The elements of a matrix, row by row, from its columns.
fn by_rows<'g, const N: usize>(columns: [[Expr<'g>; N]; N]) -> impl Iterator<Item = Expr<'g>> {
    (0..N * N).map(move |place| columns[place % N][place / N])
}

fn split<'g, const N: usize>(values: &[Expr<'g>]) -> [Expr<'g>; N] {
    std::array::from_fn(|i| values[i])
}

/// `A = U diag(σ) Vᵀ` of a 3 × 3 matrix, `U` and `V` rotations: U, σ, V.
///
/// The rotations make the columns of `A V` orthogonal; `U` is their directions.
pub(super) fn svd3<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let matrix = &x[..9];
    let builder: &'g ExprBuilder = matrix[0].builder();
    let [factor, inverse] = scaling(matrix, of_type(matrix[0], FOURTH_POWERS));
    let scaled: [Vec3<'g>; 3] = columns(matrix, factor);
    let identity: [Vec3<'g>; 3] = std::array::from_fn(|col| unit(factor, col));
    let init: [Expr<'g>; 18] =
        std::array::from_fn(|i| if i < 9 { scaled[i / 3][i % 3] } else { identity[i / 3 - 3][i % 3] });
    let turned = builder.for_range(0, builder.int(Scalar::I32, of_type(factor, SWEEPS)), 1, init, |_, values| {
        let mut products: [Vec3<'g>; 3] = std::array::from_fn(|col| split(&values[3 * col..]));
        let mut rotations: [Vec3<'g>; 3] = std::array::from_fn(|col| split(&values[9 + 3 * col..]));
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            orthogonalise(&mut products, &mut rotations, p, q);
        }
        std::array::from_fn(|i| if i < 9 { products[i / 3][i % 3] } else { rotations[i / 3 - 3][i % 3] })
    });
    let b: [Vec3<'g>; 3] = std::array::from_fn(|col| split(&turned[3 * col..]));
    let v = orthonormal(split(&turned[9..]), split(&turned[12..]));
    // The longest column is zero only if all are. The second may be no more than rounding errors, since then any
    // direction at right angles to the first is as good.
    let (length, axis): (_, Vec3<'g>) = (dot(b[0], b[0]).sqrt(), unit(factor, 0));
    let has_first = length.ne(0.0);
    let direction = scale(b[0], 1.0 / length);
    let first: Vec3<'g> = std::array::from_fn(|i| has_first.select(direction[i], axis[i]));
    let along = dot(first, b[1]);
    let rest: Vec3<'g> = std::array::from_fn(|i| (-along).fma(first[i], b[1][i]));
    let is_lost = dot(rest, rest).le(dot(b[1], b[1]) * 0.25);
    let other = perpendicular(first);
    let second: Vec3<'g> = std::array::from_fn(|i| is_lost.select(other[i], rest[i]));
    let second = scale(second, 1.0 / dot(second, second).sqrt());
    let third = cross(first, second);
    let middle = is_lost.select(factor.constant(0.0), dot(second, b[1]));
    // Rounding may exchange equal ones.
    let (largest, middle) = (length.max(middle), length.min(middle));
    let last = dot(third, b[2]);
    let limited = last.abs().min(middle);
    let last = last.lt(0.0).select(-limited, limited);
    let sigma = [largest, middle, last].map(|value| value * inverse);
    by_rows([first, second, third]).chain(sigma).chain(by_rows(v)).collect()
}

/// `A = U diag(σ) Vᵀ` of a 2 × 2 matrix, `V` a rotation and no singular value negative: U, σ, V.
pub(super) fn svd2<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let matrix = &x[..4];
    let [factor, inverse] = scaling(matrix, of_type(matrix[0], FOURTH_POWERS));
    let mut products: [Vec2<'g>; 2] = columns(matrix, factor);
    let mut rotations: [Vec2<'g>; 2] = [unit(factor, 0), unit(factor, 1)];
    // It is done twice, because rounding leaves something the first time.
    for _ in 0..2 {
        orthogonalise(&mut products, &mut rotations, 0, 1);
    }
    let perpendicular = |[x, y]: Vec2<'g>| [-y, x];
    let v = scale(rotations[0], 1.0 / dot(rotations[0], rotations[0]).sqrt());
    let (length, axis): (_, Vec2<'g>) = (dot(products[0], products[0]).sqrt(), unit(factor, 0));
    let has_direction = length.ne(0.0);
    let direction = scale(products[0], 1.0 / length);
    let first: Vec2<'g> = std::array::from_fn(|i| has_direction.select(direction[i], axis[i]));
    let second = perpendicular(first);
    let along = dot(second, products[1]);
    let is_reflected = along.lt(0.0);
    let second = second.map(|x| is_reflected.select(-x, x));
    let sigma = [length.max(along.abs()), length.min(along.abs())].map(|value| value * inverse);
    by_rows([first, second]).chain(sigma).chain(by_rows([v, perpendicular(v)])).collect()
}

/// `A = Q R` of a 3 × 3 matrix, `Q` a rotation and `R` upper triangular, of its diagonal only the last element
/// negative: by rotations of pairs of rows (W. Givens).
pub(super) fn qr3<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let matrix = &x[..9];
    let [factor, inverse] = scaling(matrix, of_type(matrix[0], SQUARES));
    let mut rows: [Vec3<'g>; 3] = std::array::from_fn(|row| scale(split(&matrix[3 * row..]), factor));
    let mut q: [Vec3<'g>; 3] = std::array::from_fn(|col| unit(factor, col));
    for (upper, lower, col) in [(0, 1, 0), (0, 2, 0), (1, 2, 1)] {
        let (x, y) = (rows[upper][col], rows[lower][col]);
        let square = x.fma(x, y * y);
        let (turns, length) = (square.ne(0.0), square.sqrt());
        let per_length = 1.0 / length;
        let (cosine, sine) = (turns.select(x * per_length, 1.0), turns.select(y * per_length, 0.0));
        let turn = |a: &mut Vec3<'g>, b: &mut Vec3<'g>, from: usize| {
            for i in from..3 {
                let (x, y) = (a[i], b[i]);
                a[i] = cosine.fma(x, sine * y);
                b[i] = cosine.fma(y, -(sine * x));
            }
        };
        let [mut a, mut b] = [rows[upper], rows[lower]];
        turn(&mut a, &mut b, col + 1);
        (a[col], b[col]) = (length, length.constant(0.0));
        [rows[upper], rows[lower]] = [a, b];
        let [mut a, mut b] = [q[upper], q[lower]];
        turn(&mut a, &mut b, 0);
        [q[upper], q[lower]] = [a, b];
    }
    let r = rows.into_iter().flatten().map(|element| element * inverse);
    by_rows(q).chain(r).collect()
}

/// `A = Q diag(d) Qᵀ` of a symmetric 3 × 3 matrix, or of the symmetric part of another, `Q` a rotation: Q, d.
pub(super) fn eig3<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let builder: &'g ExprBuilder = x[0].builder();
    let half = x[0].constant(0.5);
    let mean = |place: usize| half * x[place] + half * x[place % 3 * 3 + place / 3];
    let triangle = [x[0], x[4], x[8], mean(1), mean(2), mean(5)];
    let [factor, inverse] = scaling(&triangle, of_type(x[0], FOURTH_POWERS));
    let scaled = scale(triangle, factor);
    let identity: [Vec3<'g>; 3] = std::array::from_fn(|col| unit(factor, col));
    let init: [Expr<'g>; 15] = std::array::from_fn(|i| if i < 6 { scaled[i] } else { identity[i / 3 - 2][i % 3] });
    let turned = builder.for_range(0, builder.int(Scalar::I32, of_type(factor, SWEEPS)), 1, init, |_, values| {
        let mut diagonal: Vec3<'g> = split(&values);
        // By pair of axes, 3 less their sum.
        let mut others: Vec3<'g> = [values[5], values[4], values[3]];
        let mut vectors: [Vec3<'g>; 3] = std::array::from_fn(|col| split(&values[6 + 3 * col..]));
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            let rest = 3 - p - q;
            let element = others[rest];
            let difference = diagonal[p] - diagonal[q];
            let [cosine, sine, tangent] = half_angle(difference, element + element);
            let is_opposite = difference.lt(0.0);
            let [sine, tangent] = [sine, tangent].map(|x| is_opposite.select(-x, x));
            diagonal[p] = tangent.fma(element, diagonal[p]);
            diagonal[q] = (-tangent).fma(element, diagonal[q]);
            others[rest] = element.constant(0.0);
            let rotation = GivensRotation::new(cosine, sine);
            let (mut x, mut y) = (others[q], others[p]);
            rotation.apply(&mut x, &mut y);
            (others[q], others[p]) = (x, y);
            rotation.apply_to_columns(&mut vectors, p, q);
        }
        std::array::from_fn(|i| match i {
            0..3 => diagonal[i],
            3..6 => others[5 - i],
            _ => vectors[i / 3 - 2][i % 3],
        })
    });
    let vectors = orthonormal(split(&turned[6..]), split(&turned[9..]));
    by_rows(vectors).chain(turned.into_iter().take(3).map(|value| value * inverse)).collect()
}
