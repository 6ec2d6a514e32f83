//! Random numbers, types and values.

use crate::op::Op;
use crate::types::{Scalar, Type};

/// A generator of random numbers (SplitMix64; Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// OOPSLA 2014), so that a seed means the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of a list.
    ///
    /// # Panics
    ///
    /// If the list is empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Any scalar type, most often one of those that kernels are made of.
    pub(super) fn scalar(&mut self) -> Scalar {
        if self.one_in(2) { self.pick(&[Scalar::F32, Scalar::I32, Scalar::Bool]) } else { self.pick(&Scalar::ALL) }
    }

    pub(super) fn scalar_type(&mut self) -> Type {
        self.scalar().into()
    }

    /// The bits of a value, often one at an edge of its type.
    pub(super) fn value(&mut self, ty: Scalar) -> u64 {
        let mask = u64::MAX >> (64 - ty.bits());
        if ty == Scalar::Bool {
            return self.bits() & 1;
        }
        if ty.is_int() {
            let edge = self.pick(&[0, 1, 2, 3, u64::MAX, mask >> 1, (mask >> 1) + 1, 7, 100]);
            return mask & if self.one_in(3) { self.bits() } else { edge };
        }
        let number = match self.below(4) {
            0 => self.pick(&[0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 1e-320, 3e38, 65504.0, f64::INFINITY, f64::NAN]),
            1 => self.below(200) as f64 / 8.0 - 12.5,
            2 => (self.below(2000) as f64 - 1000.0) * 1.000_000_1,
            _ => return mask & self.bits(),
        };
        crate::eval::eval(Op::Cast, &[Type::F64], &[number.to_bits()], ty.into()).unwrap_or(0)
    }
}
