//! Copies of arrays that a backward kernel only adds to, for every thread that helps with a launch.
//!
//! Sums that go to elements of other threads would each be an exclusive access if threads of the processor shared the
//! arrays. Instead the calling thread adds to the arrays themselves, each helper to copies of its own, which begin at
//! zero, and what helpers have added up is added to the arrays when all are done. That pays where the arrays are small
//! beside the work.
//!
//! Design: `docs/design/atomic-updates.md`.

use crate::args::KernelParams;
use polyloom_codegen::ArgLayout;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Function, Imm, Op, Scalar, Type};
use smallvec::SmallVec;

/// Nanoseconds that a byte of a copy takes: to be set to zero, and to be added.
const NS_PER_BYTE: f32 = 0.25;
/// The share of a launch's work that all copies may take.
const SHARE: f32 = 0.25;

/// The arrays that a kernel only adds to.
#[derive(Clone, Debug)]
pub(crate) struct SummedArrays {
    arrays: SmallVec<[SummedArray; 4]>,
}

#[derive(Clone, Copy, Debug)]
struct SummedArray {
    /// The place where the argument begins in the block.
    word: usize,
    n_dims: u8,
    elem: Scalar,
}

impl SummedArrays {
    /// `None` if some update of the kernel is no sum, or of an array that the kernel accesses in another way, or of
    /// one whose elements are not added here.
    pub(crate) fn of(kernel: &Function, params: &KernelParams) -> Option<SummedArrays> {
        let mut is_summed = vec![false; kernel.params().len()];
        let mut used = vec![false; kernel.values.len()];
        kernel.walk(kernel.body, &mut |_, data| {
            data.operands.iter().for_each(|value| used[value.as_u32() as usize] = true)
        });
        let mut all_are_sums = true;
        kernel.walk(kernel.body, &mut |_, data| {
            if data.op.info().group == OpGroup::Atomic {
                let is_sum = matches!(data.op, Op::AtomicAdd | Op::AtomicSub) && data.imm == Imm::None;
                let is_used = data.results.iter().any(|result| used[result.as_u32() as usize]);
                match kernel.param_index(data.operands[0]) {
                    Some(param) if is_sum && !is_used => is_summed[param] = true,
                    _ => all_are_sums = false,
                }
            }
        });
        kernel.walk(kernel.body, &mut |_, data| {
            let accesses = data.op.info().group == OpGroup::Array && data.op != Op::Dim;
            let param = data.operands.first().and_then(|&array| kernel.param_index(array));
            all_are_sums &= !(accesses && param.is_some_and(|param| is_summed[param]));
        });
        let arrays =
            kernel.params().iter().enumerate().filter(|&(param, _)| is_summed[param]).map(|(param, &value)| {
                match (kernel.ty(value), params.layout().offsets.get(param)) {
                    (Type::Array { elem: elem @ (Scalar::F32 | Scalar::F64), ndim, .. }, Some(&offset)) => {
                        Some(SummedArray { word: offset as usize / 8, n_dims: ndim, elem })
                    }
                    _ => None,
                }
            });
        let arrays: SmallVec<[SummedArray; 4]> = arrays.collect::<Option<_>>()?;
        all_are_sums.then_some(SummedArrays { arrays })
    }

    /// Returns the number of helpers that may have copies in a launch of so much work.
    pub(crate) fn n_helpers(&self, words: &[u64], ns: f32) -> usize {
        let Some(bytes) = self.arrays.iter().map(|array| array.bytes(words)).sum::<Option<u64>>() else { return 0 };
        (SHARE * ns / (NS_PER_BYTE * bytes as f32 + 1.0)) as usize
    }
}

impl SummedArray {
    /// Returns the number of bytes the array has, if it is dense.
    fn bytes(&self, words: &[u64]) -> Option<u64> {
        let extent = |axis: u8| words.get(self.word + ArgLayout::extent(axis) as usize / 8).copied();
        let stride = |axis: u8| words.get(self.word + ArgLayout::stride(self.n_dims, axis) as usize / 8).copied();
        let mut bytes = u64::from(self.elem.bytes());
        for axis in (0..self.n_dims).rev() {
            let extent = extent(axis)?;
            if extent > 1 && stride(axis)? != bytes {
                return None;
            }
            bytes = bytes.checked_mul(extent)?;
        }
        Some(bytes)
    }
}

/// The copies of one helper.
pub(crate) struct HelperCopies {
    /// The argument block with the copies in place of the arrays.
    pub(crate) words: Vec<u64>,
    sums: Vec<ArraySums>,
}

enum ArraySums {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl HelperCopies {
    /// Copies of zeros. `None` if there is no memory for them, or an array is not dense.
    pub(crate) fn new(arrays: &SummedArrays, words: &[u64]) -> Option<HelperCopies> {
        let mut copies = HelperCopies { words: words.to_vec(), sums: Vec::new() };
        for array in &arrays.arrays {
            let n = (array.bytes(words)? / u64::from(array.elem.bytes())) as usize;
            let (sums, address) = match array.elem {
                Scalar::F64 => {
                    let mut sums = zeros::<f64>(n)?;
                    let address = sums.as_mut_ptr() as u64;
                    (ArraySums::F64(sums), address)
                }
                _ => {
                    let mut sums = zeros::<f32>(n)?;
                    let address = sums.as_mut_ptr() as u64;
                    (ArraySums::F32(sums), address)
                }
            };
            *copies.words.get_mut(array.word)? = address;
            copies.sums.push(sums);
        }
        Some(copies)
    }

    /// Adds what is in the copies to the arrays.
    ///
    /// # Safety
    ///
    /// The arrays that `words` describes must be valid, and nobody else may access them.
    pub(crate) unsafe fn add_to(&self, arrays: &SummedArrays, words: &[u64]) {
        for (array, sums) in arrays.arrays.iter().zip(&self.sums) {
            let base = words[array.word];
            // SAFETY: dense arrays of as many elements as the copies have, which the caller vouches for.
            unsafe {
                match sums {
                    ArraySums::F32(sums) => add(base as *mut f32, sums),
                    ArraySums::F64(sums) => add(base as *mut f64, sums),
                }
            }
        }
    }
}

fn zeros<T: Copy + Default>(n: usize) -> Option<Vec<T>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(n).ok()?;
    zeros.resize(n, T::default());
    Some(zeros)
}

/// # Safety
///
/// As many elements must be valid behind `to`.
unsafe fn add<T: Copy + std::ops::Add<Output = T>>(to: *mut T, sums: &[T]) {
    for (index, &sum) in sums.iter().enumerate() {
        // SAFETY: the caller vouches for the elements; arrays from other languages need not be aligned to their type.
        unsafe {
            let element = to.add(index);
            element.write_unaligned(element.read_unaligned() + sum);
        }
    }
}
