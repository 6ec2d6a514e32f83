//! Which facts hold of the arguments of a launch.
//!
//! Variants of a kernel are keyed by [`FactKey`], a few words computed from the argument block on every launch: this is
//! on the path of the smallest launch, so there is no allocation and no hashing here, only arithmetic over the words of
//! the array descriptors. [`FactPlan::facts`] spells a key out for the back ends when a variant is compiled.

use polyloom_codegen::{ArgLayout, ArrayFacts, Facts};
use polyloom_ir::{Function, Imm, Op, Type, Value, ValueDef};
use smallvec::SmallVec;

/// Arrays that facts are kept of; the rest are known nothing of.
const MAX_ARRAYS: usize = 32;
/// Extents that may be built into code.
const MAX_EXTENTS: usize = 12;
/// Bits of an extent in a key: the extent plus one, or 0 for none.
const EXTENT_BITS: u32 = 5;
/// Largest extent worth building into code: loops of that many iterations are unrolled.
const LARGEST_EXTENT: u64 = 16;

const CONTIGUOUS: u64 = 1;
/// Set for all arrays or for none, and only if they span [`MIN_ALIGNED_BYTES`]: small allocations are aligned by
/// chance, and compiling for every chance costs more than alignment gains.
const ALIGNED: u64 = 2;
const DISJOINT: u64 = 4;
const OFFSETS_FIT: u64 = 8;
const BITS_PER_ARRAY: usize = 4;

const MIN_ALIGNED_BYTES: u64 = 1 << 20;

/// What holds of the arguments, in a form that compares in a few instructions. The default says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FactKey {
    /// Four bits an array.
    flags: [u64; 2],
    /// [`EXTENT_BITS`] bits an extent of the plan.
    extents: u64,
}

impl FactKey {
    /// The key without its extents.
    pub(crate) fn without_extents(self) -> FactKey {
        FactKey { extents: 0, ..self }
    }

    /// Whether any extent is in the key.
    pub(crate) fn has_extents(self) -> bool {
        self.extents != 0
    }
}

#[derive(Clone, Copy, Debug)]
struct ArrayPlan {
    param: u32,
    /// Word of the block where the descriptor starts.
    word: u32,
    ndim: u8,
    bytes: u8,
    written: bool,
}

/// What to look at in an argument block.
#[derive(Clone, Debug)]
pub(crate) struct FactPlan {
    arrays: SmallVec<[ArrayPlan; 8]>,
    /// Parameter, axis, and the word of the block that holds the extent.
    extents: SmallVec<[(u32, u8, u32); 4]>,
    n_params: usize,
}

impl FactPlan {
    /// The plan for a kernel in prepared HIR.
    pub(crate) fn of(kernel: &Function) -> FactPlan {
        let layout = ArgLayout::of(kernel);
        let written = kernel.written_arrays();
        let mut arrays = SmallVec::new();
        let mut extents = SmallVec::new();
        for (param, &value) in kernel.params().iter().enumerate() {
            let Type::Array { elem, ndim } = kernel.ty(value) else { continue };
            let word = layout.offsets[param] / 8;
            if arrays.len() < MAX_ARRAYS {
                let (bytes, written) = (elem.bytes() as u8, written[param]);
                arrays.push(ArrayPlan { param: param as u32, word, ndim, bytes, written });
            }
            for axis in 0..ndim {
                if extents.len() < MAX_EXTENTS && (axis > 0 || bounds_a_loop(kernel, value)) {
                    extents.push((param as u32, axis, word + ArgLayout::extent(axis) / 8));
                }
            }
        }
        FactPlan { arrays, extents, n_params: kernel.params().len() }
    }

    /// What holds of these arguments. `words` is a complete block.
    #[inline]
    pub(crate) fn key(&self, words: &[u64]) -> FactKey {
        let mut key = FactKey::default();
        let mut ranges = [(0u64, 0u64); MAX_ARRAYS];
        let (mut aligned, mut n_bytes) = (true, 0u64);
        for (idx, array) in self.arrays.iter().enumerate() {
            let ndim = usize::from(array.ndim);
            let Some(descriptor) = words.get(array.word as usize..array.word as usize + 1 + 2 * ndim) else {
                return FactKey::default();
            };
            let (base, extents, strides) = (descriptor[0], &descriptor[1..=ndim], &descriptor[1 + ndim..]);
            let mut dense = u64::from(array.bytes);
            let (mut contiguous, mut empty) = (true, false);
            // `ArgBlock::array` has seen to it that none of this overflows unless the array is empty.
            let (mut low, mut high) = (0i64, 0i64);
            for (&extent, &stride) in extents.iter().zip(strides).rev() {
                contiguous &= stride == dense || extent == 1;
                empty |= extent == 0;
                dense = dense.wrapping_mul(extent);
                let farthest = (extent as i64).wrapping_sub(1).wrapping_mul(stride as i64);
                low = low.wrapping_add(farthest.min(0));
                high = high.wrapping_add(farthest.max(0));
            }
            aligned &= base.is_multiple_of(64);
            n_bytes = n_bytes.wrapping_add(high.wrapping_sub(low) as u64);
            let fits = empty || (low >= i32::MIN.into() && high <= i32::MAX.into());
            let flags = (CONTIGUOUS * u64::from(contiguous || empty)) | (OFFSETS_FIT * u64::from(fits)) | DISJOINT;
            key.flags[idx / 16] |= flags << (BITS_PER_ARRAY * (idx % 16));
            if !empty {
                let end = base.wrapping_add(high as u64).wrapping_add(array.bytes.into());
                ranges[idx] = (base.wrapping_add(low as u64), end);
            }
        }
        if aligned && n_bytes >= MIN_ALIGNED_BYTES {
            const ALL: u64 = ALIGNED * (u64::MAX / 15);
            key.flags = [key.flags[0] | ALL, key.flags[1] | ALL];
        }
        for (i, array) in self.arrays.iter().enumerate() {
            for (j, other) in self.arrays.iter().enumerate().skip(i + 1) {
                if (array.written || other.written) && ranges[i].0 < ranges[j].1 && ranges[j].0 < ranges[i].1 {
                    key.flags[i / 16] &= !(DISJOINT << (BITS_PER_ARRAY * (i % 16)));
                    key.flags[j / 16] &= !(DISJOINT << (BITS_PER_ARRAY * (j % 16)));
                }
            }
        }
        for (idx, &(_, _, word)) in self.extents.iter().enumerate() {
            let extent = words.get(word as usize).copied().unwrap_or(u64::MAX);
            if extent <= LARGEST_EXTENT {
                key.extents |= (extent + 1) << (EXTENT_BITS as usize * idx);
            }
        }
        key
    }

    /// The key spelt out.
    pub(crate) fn facts(&self, key: FactKey) -> Facts {
        let mut arrays = vec![ArrayFacts::default(); self.n_params];
        for (idx, plan) in self.arrays.iter().enumerate() {
            let flags = key.flags[idx / 16] >> (BITS_PER_ARRAY * (idx % 16));
            let facts = &mut arrays[plan.param as usize];
            facts.contiguous = flags & CONTIGUOUS != 0;
            facts.aligned = flags & ALIGNED != 0;
            facts.offsets_fit_i32 = flags & OFFSETS_FIT != 0;
            // With arrays beyond those looked at, nothing is known of what a written one overlaps.
            facts.disjoint = flags & DISJOINT != 0 && self.sees_all_arrays();
        }
        for (idx, &(param, axis, _)) in self.extents.iter().enumerate() {
            let extent = (key.extents >> (EXTENT_BITS as usize * idx)) as u32 & ((1 << EXTENT_BITS) - 1);
            arrays[param as usize].extents[usize::from(axis)] = extent.checked_sub(1);
        }
        Facts { arrays }
    }

    fn sees_all_arrays(&self) -> bool {
        self.arrays.len() < MAX_ARRAYS
    }
}

/// Whether the extent of `array` along its first axis bounds a counted loop.
fn bounds_a_loop(kernel: &Function, array: Value) -> bool {
    let mut found = false;
    kernel.walk(kernel.body, &mut |_, data| {
        if data.op == Op::ForRange {
            found |= data.operands.iter().take(3).any(|&bound| is_extent_of(kernel, bound, array));
        }
    });
    found
}

fn is_extent_of(kernel: &Function, mut value: Value, array: Value) -> bool {
    while let ValueDef::Result(inst, _) = kernel.values[value].def {
        let data = &kernel.insts[inst];
        match (data.op, data.operands.first()) {
            (Op::Dim, Some(&of)) => return of == array && data.imm == Imm::Axis(0),
            (Op::Cast, Some(&of)) => value = of,
            _ => return false,
        }
    }
    false
}
