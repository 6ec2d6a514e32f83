//! Tensor-core fragments: which elements of its matrices each lane of a warp holds, and what their product is.
//!
//! The matrices are 16 × 16 (`a`), 16 × n (`b`) and 16 × n (`c`, the accumulator and the result), n being 8 or 16: one
//! or two of the tensor core's instructions. The places are those of `mma.m16n8k16` for 16-bit floats and 8-bit
//! integers, and of two `mma.m16n8k8` for `tf32` (PTX ISA 9.0 §9.7.14.5); the second half of a fragment with n = 16 is
//! that of the columns from 8 on. The halves of `mma.m16n8k16`'s places in `a` and `b` are those of `mma.m16n8k8`, of
//! which `sm_75`, where that is all there is of 16-bit floats, takes two.

use crate::arch::{Arch, WARP_SIZE};
use crate::eval::{OpEvaluator, evaluator};
use crate::op::Op;
use crate::types::{Composite, Scalar, Type};

/// The bits of an `f32` that `tf32` has: sign, exponent and the upper ten bits of the mantissa. Products of `f32`
/// fragments take no others of their factors.
pub const TF32_BITS: u32 = 0xffff_e000;

/// Says which of the matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatrixRole {
    /// The left factor.
    A,
    /// The right factor.
    B,
    /// What is added, and the result.
    C,
}

/// Describes how a fragment is read from an array or written to one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FragmentAccess {
    /// True if the array holds the matrix's columns, one after another, instead of its rows, so that it is indexed by
    /// the column first.
    pub by_columns: bool,
    /// Columns of `b` and `c`: 8 or 16.
    pub n: u8,
}

/// Says where in its matrix a lane has an element: row and column, each of them a multiple of a part of the lane's
/// number, plus an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LanePlace {
    /// The row.
    pub row: LaneCoordinate,
    /// The column.
    pub column: LaneCoordinate,
}

/// `part * factor + offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneCoordinate {
    /// Says which part of the lane's number.
    pub part: LanePart,
    /// See above.
    pub factor: u8,
    /// See above.
    pub offset: u8,
}

/// A part of a lane's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LanePart {
    /// Which group of four lanes it is in: the upper three bits.
    Group,
    /// Which of the four it is: the lower two.
    Member,
}

impl LaneCoordinate {
    fn of(part: LanePart, factor: u8, offset: usize) -> LaneCoordinate {
        LaneCoordinate { part, factor, offset: offset as u8 }
    }

    /// The coordinate of a lane.
    pub fn at(self, lane: usize) -> usize {
        let part = match self.part {
            LanePart::Group => lane / 4,
            LanePart::Member => lane % 4,
        };
        part * usize::from(self.factor) + usize::from(self.offset)
    }
}

/// Returns what the elements of the accumulator are for factors of this type; `None` if there are no such products.
/// Factors of `f32` are `tf32`: of their mantissas the upper ten bits count.
pub fn accumulator(factor: Scalar) -> Option<Scalar> {
    match factor {
        Scalar::F16 | Scalar::BF16 | Scalar::F32 => Some(Scalar::F32),
        Scalar::I8 | Scalar::U8 => Some(Scalar::I32),
        _ => None,
    }
}

/// The least architecture that has products of factors of this type.
pub fn least_arch(factor: Scalar) -> Arch {
    if factor == Scalar::F16 { Arch::OLDEST } else { Arch::of_number(80).unwrap_or(Arch::OLDEST) }
}

/// The type of a lane's part of a matrix with these elements; `None` if there is none.
pub fn fragment_type(matrix: MatrixRole, elem: Scalar, n: u8) -> Option<Composite> {
    let fits = match matrix {
        MatrixRole::A | MatrixRole::B => accumulator(elem).is_some(),
        MatrixRole::C => matches!(elem, Scalar::F32 | Scalar::I32),
    };
    let columns = if matrix == MatrixRole::A { 16 } else { n };
    (fits && matches!(n, 8 | 16)).then(|| Composite::Vector { elem, len: u16::from(columns) * 16 / WARP_SIZE as u16 })
}

/// Returns where a lane has the element with this number of its fragment, for factors of this type.
pub fn place(matrix: MatrixRole, factor: Scalar, number: usize) -> LanePlace {
    // The number within the instruction that a half of a wide fragment belongs to, and where its columns begin.
    let (i, first) = if matrix == MatrixRole::A { (number, 0) } else { (number % 4, number / 4 * 8) };
    let group = |offset: usize| LaneCoordinate::of(LanePart::Group, 1, offset);
    let inner = |factor: u8, offset: usize| LaneCoordinate::of(LanePart::Member, factor, offset);
    match (matrix, factor.bytes()) {
        (MatrixRole::A, 1) => LanePlace { row: group(i / 4 * 8), column: inner(4, i % 4) },
        (MatrixRole::A, 2) => LanePlace { row: group(i / 2 % 2 * 8), column: inner(2, i % 2 + i / 4 * 8) },
        (MatrixRole::A, _) => LanePlace { row: group(i % 2 * 8), column: inner(1, i / 2 % 2 * 4 + i / 4 * 8) },
        (MatrixRole::B, 1) => LanePlace { row: inner(4, i), column: group(first) },
        (MatrixRole::B, 2) => LanePlace { row: inner(2, i % 2 + i / 2 * 8), column: group(first) },
        (MatrixRole::B, _) => LanePlace { row: inner(1, i % 2 * 4 + i / 2 * 8), column: group(first) },
        (MatrixRole::C, _) => LanePlace { row: group(i / 2 * 8), column: inner(2, i % 2 + first) },
    }
}

/// The factors' type and the number of columns, if these are the components of the operands of an `mma`: 8 of `a`, 4 or
/// 8 of `b`, as many of `c`.
pub fn flat_operands(operands: &[Type]) -> Option<(Scalar, u8)> {
    let factor = operands.first()?.as_scalar()?;
    let n: usize = match operands.len() {
        16 => 4,
        24 => 8,
        _ => return None,
    };
    let sum = accumulator(factor)?;
    let fits = operands.iter().enumerate().all(|(i, &ty)| ty == if i < 8 + n { factor } else { sum }.into());
    fits.then_some((factor, n as u8 * 2))
}

/// Returns what `mma` gives each lane, given its components of `a`, `b` and `c`, in that order, by lane; lanes that are
/// not there count as zeros. An element of the result starts as that of `c`, to which the products of the row's and
/// column's elements are added from the first on, each rounded to the accumulator's type once, as by `fma`.
pub(crate) fn multiply(factor: Scalar, n: u8, lanes: &[Option<Vec<u64>>]) -> Vec<Vec<u64>> {
    let n = usize::from(n);
    let sum = accumulator(factor).unwrap_or(Scalar::F32);
    let (mut a, mut b, mut c) = ([[0; 16]; 16], [[0; 16]; 16], [[0; 16]; 16]);
    let n_half = n / 2;
    for (lane, values) in lanes.iter().enumerate() {
        let Some(values) = values else { continue };
        let parts = [
            (MatrixRole::A, &mut a, 0, 8),
            (MatrixRole::B, &mut b, 8, n_half),
            (MatrixRole::C, &mut c, 8 + n_half, n_half),
        ];
        for (matrix, to, first, len) in parts {
            for i in 0..len {
                let place = place(matrix, factor, i);
                to[place.row.at(lane)][place.column.at(lane)] = values[first + i];
            }
        }
    }
    widen(factor, sum, a.iter_mut().chain(&mut b).flatten());
    let ty = Type::Scalar(sum);
    let mut accumulate = |add_product: &dyn Fn(u64, u64, u64) -> u64| {
        for row in 0..16 {
            for column in 0..n {
                for k in 0..16 {
                    c[row][column] = add_product(a[row][k], b[k][column], c[row][column]);
                }
            }
        }
    };
    let [fma, mul, add] = [(Op::Fma, 3), (Op::Mul, 2), (Op::Add, 2)].map(|(op, n)| evaluator(op, &[ty; 3][..n], ty));
    match (fma, mul, add) {
        (Some(OpEvaluator::Ternary(fma)), ..) => accumulate(&fma),
        (_, Some(OpEvaluator::Binary(mul)), Some(OpEvaluator::Binary(add))) => accumulate(&|a, b, c| add(mul(a, b), c)),
        _ => {}
    }
    let of_lane = |lane: usize| {
        let element = |i: usize| {
            let place = place(MatrixRole::C, factor, i);
            c[place.row.at(lane)][place.column.at(lane)]
        };
        (0..n_half).map(element).collect()
    };
    (0..lanes.len()).map(of_lane).collect()
}

/// Makes factors numbers of the accumulator's type.
fn widen<'a>(factor: Scalar, sum: Scalar, all: impl Iterator<Item = &'a mut u64>) {
    match evaluator(Op::Cast, &[factor.into()], sum.into()) {
        _ if factor == Scalar::F32 => all.for_each(|bits| *bits &= u64::from(TF32_BITS)),
        Some(OpEvaluator::Unary(cast)) => all.for_each(|bits| *bits = cast(*bits)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of every matrix is in one lane, at one place.
    #[test]
    fn fragments_cover_their_matrices() {
        for factor in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::I8, Scalar::U8] {
            for n in [8u8, 16] {
                for (matrix, rows, columns) in [(MatrixRole::A, 16, 16), (MatrixRole::B, 16, n), (MatrixRole::C, 16, n)]
                {
                    let elem = if matrix == MatrixRole::C { accumulator(factor).unwrap() } else { factor };
                    let len = fragment_type(matrix, elem, n).unwrap().n_components();
                    let mut places: Vec<(usize, usize)> = (0..32)
                        .flat_map(|lane| (0..len).map(move |i| (lane, place(matrix, factor, i))))
                        .map(|(lane, place)| (place.row.at(lane), place.column.at(lane)))
                        .collect();
                    places.sort_unstable();
                    let all: Vec<(usize, usize)> =
                        (0..rows).flat_map(|row| (0..usize::from(columns)).map(move |column| (row, column))).collect();
                    assert_eq!(places, all, "{matrix:?} of {factor}, n = {n}");
                }
            }
        }
    }

    /// Against the places as the manual's figures for 16-bit factors give them.
    #[test]
    fn places_are_those_of_the_manual() {
        let at = |matrix, factor, i, lane| {
            let place = place(matrix, factor, i);
            (place.row.at(lane), place.column.at(lane))
        };
        assert_eq!(at(MatrixRole::A, Scalar::F16, 2, 5), (9, 2));
        assert_eq!(at(MatrixRole::A, Scalar::F16, 7, 31), (15, 15));
        assert_eq!(at(MatrixRole::B, Scalar::F16, 3, 6), (13, 1));
        assert_eq!(at(MatrixRole::C, Scalar::F16, 3, 6), (9, 5));
        assert_eq!(at(MatrixRole::A, Scalar::I8, 6, 6), (9, 10));
        assert_eq!(at(MatrixRole::B, Scalar::F32, 1, 6), (6, 1));
    }
}
