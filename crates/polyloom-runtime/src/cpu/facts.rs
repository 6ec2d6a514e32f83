//! Which facts hold of the arguments of a launch.
//!
//! Variants of a kernel are keyed by [`FactKey`], a few words computed from the argument block on every launch: this is
//! on the path of the smallest launch, so there is no allocation and no hashing here, only arithmetic over what the
//! block knows of its arrays. [`FactPlan::facts`] spells a key out for the back ends when a variant is compiled.

use super::copies::SummedArrays;
use super::pool::n_cores;
use crate::args::{ArgBlock, KernelParams};
use polyloom_codegen::{ArgFacts, ArgLayout, ArrayFacts};
use polyloom_ir::block_plan::{BlockParam, BlockPlan};
use polyloom_ir::{Composite, Function, Imm, Op, Type, Value, ValueDef};
use smallvec::SmallVec;

/// Arrays that facts are kept of; the rest are known nothing of.
const MAX_ARRAYS: usize = 32;
/// Extents that may be built into code.
const MAX_EXTENTS: usize = 12;
/// Bits of an extent in a key: the extent plus one, or 0 for none.
const EXTENT_BITS: u32 = 5;
/// Largest extent worth building into code: loops of that many iterations are unrolled.
const LARGEST_EXTENT: u64 = 16;

/// Bits of a block's extent in a key, which is 1024 at most on any GPU.
const BLOCK_BITS: u32 = 11;

const CONTIGUOUS: u128 = 1;
/// Set for all arrays or for none, and only if they span [`MIN_ALIGNED_BYTES`], because small allocations are aligned
/// by chance, and compiling for every chance costs more than alignment gains.
const ALIGNED: u128 = 2;
const DISJOINT: u128 = 4;
const OFFSETS_FIT: u128 = 8;
const BITS_PER_ARRAY: usize = 4;

const MIN_ALIGNED_BYTES: u64 = 1 << 20;

/// Describes what holds of the arguments, in a form that compares in a few instructions. The default says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FactKey {
    /// Four bits an array.
    flags: u128,
    /// [`EXTENT_BITS`] bits an extent of the plan.
    extents: u64,
    /// [`BLOCK_BITS`] bits an extent of a block, if code is made for it; 0 otherwise.
    block: u64,
}

impl FactKey {
    /// All arrays are dense and overlap none.
    pub(crate) const DENSE: FactKey =
        FactKey { flags: (CONTIGUOUS | DISJOINT | OFFSETS_FIT) * (u128::MAX / 15), extents: 0, block: 0 };

    /// The key for arrays that are aligned as well.
    pub(crate) fn aligned(self) -> FactKey {
        FactKey { flags: self.flags | (ALIGNED * (u128::MAX / 15)), ..self }
    }

    /// The key without its extents.
    pub(crate) fn without_extents(self) -> FactKey {
        FactKey { extents: 0, block: 0, ..self }
    }

    /// Returns true if any extent is in the key.
    pub(crate) fn has_extents(self) -> bool {
        self.extents != 0 || self.block != 0
    }

    /// The key for blocks of these extents, where they are of a size that code is made for.
    pub(crate) fn with_block(self, block: [u32; 3]) -> FactKey {
        let fits = block.iter().all(|&extent| extent < 1 << BLOCK_BITS);
        let bits = block.iter().rev().fold(0, |bits, &extent| (bits << BLOCK_BITS) | u64::from(extent));
        FactKey { block: if fits { bits } else { 0 }, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
struct ArrayPlan {
    param: u32,
    written: bool,
}

/// Describes what to look at in an argument block.
#[derive(Clone, Debug, Default)]
pub(crate) struct FactPlan {
    arrays: SmallVec<[ArrayPlan; 8]>,
    /// Parameter, axis, and the word of the block that holds the extent.
    extents: SmallVec<[(u32, u8, u32); 4]>,
    /// Parameter, axis and extent of the axes that are components of composites, which the launch sees to.
    components: SmallVec<[(u32, u8, u32); 4]>,
    n_params: usize,
    /// The facts of the parameters that the launch adds behind these, which hold for every launch.
    of_launch: Vec<ArrayFacts>,
    /// Parameters that are an extent of the block, with its axis.
    block_extents: SmallVec<[(usize, u8); 3]>,
    /// True if launches are run by one thread of the processor, or by several that add to copies of arrays.
    pub(crate) alone: bool,
    /// If they are, the arrays that are copied; none if there is more to be shared than sums.
    pub(crate) sums: Option<SummedArrays>,
}

/// With more cores than these, updates with exclusive access by all of them are faster than plain ones by one.
const MOST_CORES_FOR_ONE: usize = 8;

/// Returns true if no two threads of the processor share what a kernel updates: backward kernels that scatter sums,
/// which take several times as long where each is an exclusive access.
fn runs_alone(kernel: &Function) -> bool {
    let mut scatters = false;
    kernel.walk(kernel.body, &mut |_, data| {
        let adds = matches!(data.op, Op::AtomicAdd | Op::AtomicSub);
        scatters |= adds && data.operands[1..].iter().any(|&index| kernel.as_const(index).is_none());
    });
    scatters && kernel.metadata.backward && n_cores() <= MOST_CORES_FOR_ONE
}

impl FactPlan {
    /// The plan for a kernel in prepared HIR with these parameters, behind which it may have some that the launch
    /// makes.
    pub(crate) fn of(kernel: &Function, params: &KernelParams, blocks: Option<&BlockPlan>) -> FactPlan {
        let alone = runs_alone(kernel);
        let of_launch = blocks.map(super::blocks::facts).unwrap_or_default();
        let of_block = blocks.map(|plan| plan.params.as_slice()).unwrap_or_default();
        let block_extents = (params.len()..).zip(of_block).filter_map(|(param, of_block)| match of_block {
            BlockParam::BlockExtent(axis) => Some((param, *axis)),
            _ => None,
        });
        let sums = if alone { SummedArrays::of(kernel, params) } else { None };
        let block_extents = block_extents.collect();
        let mut plan = FactPlan { of_launch, block_extents, alone, sums, ..FactPlan::of_params(params) };
        let written = kernel.written_arrays();
        for array in &mut plan.arrays {
            array.written = written[array.param as usize];
        }
        for (param, (&value, word)) in kernel.params().iter().zip(&params.layout().offsets).enumerate() {
            for axis in 0..n_axes(params, param) {
                if plan.extents.len() < MAX_EXTENTS && (axis > 0 || bounds_a_loop(kernel, value)) {
                    plan.extents.push((param as u32, axis, (word + ArgLayout::extent(axis)) / 8));
                }
            }
        }
        plan
    }

    /// The plan without extents: for code in which they make no difference, since it unrolls no loops.
    pub(crate) fn without_extents(self) -> FactPlan {
        FactPlan { extents: SmallVec::new(), block_extents: SmallVec::new(), ..self }
    }

    /// The plan for a kernel that is not known but for its parameters.
    fn of_params(params: &KernelParams) -> FactPlan {
        let mut plan = FactPlan { n_params: params.len(), ..FactPlan::default() };
        for (param, ty) in params.types().iter().enumerate() {
            if !matches!(ty, Type::Array { .. }) {
                continue;
            }
            if plan.arrays.len() < MAX_ARRAYS {
                plan.arrays.push(ArrayPlan { param: param as u32, written: true });
            }
            let composite = params.element(param).map(Composite::shape).unwrap_or_default();
            for (axis, extent) in (n_axes(params, param)..).zip(composite) {
                plan.components.push((param as u32, axis, extent.into()));
            }
        }
        plan
    }

    /// Returns the key for blocks of these extents, if they make a difference.
    pub(crate) fn with_block(&self, key: FactKey, block: [u32; 3]) -> FactKey {
        if self.block_extents.is_empty() { key } else { key.with_block(block) }
    }

    /// Returns what holds of these arguments, which are complete.
    #[inline]
    pub(crate) fn key(&self, args: &ArgBlock) -> FactKey {
        let mut key = FactKey::default();
        let mut overlapping = 0;
        let (mut aligned, mut n_bytes) = (true, 0u64);
        let footprints = args.footprints();
        for (idx, (array, footprint)) in self.arrays.iter().zip(footprints).enumerate() {
            aligned &= footprint.is_aligned;
            n_bytes = n_bytes.wrapping_add(footprint.bytes());
            let flags = (CONTIGUOUS * u128::from(footprint.is_contiguous))
                | (OFFSETS_FIT * u128::from(footprint.offsets_fit_i32))
                | (DISJOINT * u128::from(!(array.written && footprint.overlaps_itself)));
            key.flags |= flags << (BITS_PER_ARRAY * idx);
            for (other, (before, footprint_before)) in self.arrays.iter().zip(footprints).enumerate().take(idx) {
                if (array.written || before.written) && footprint.overlaps(footprint_before) {
                    overlapping |= (DISJOINT << (BITS_PER_ARRAY * idx)) | (DISJOINT << (BITS_PER_ARRAY * other));
                }
            }
        }
        if aligned && n_bytes >= MIN_ALIGNED_BYTES {
            key.flags |= ALIGNED * (u128::MAX / 15);
        }
        key.flags &= !overlapping;
        for (idx, &(_, _, word)) in self.extents.iter().enumerate() {
            let extent = args.words().get(word as usize).copied().unwrap_or(u64::MAX);
            if extent <= LARGEST_EXTENT {
                key.extents |= (extent + 1) << (EXTENT_BITS as usize * idx);
            }
        }
        key
    }

    /// The key spelt out.
    pub(crate) fn facts(&self, key: FactKey) -> ArgFacts {
        let mut arrays = vec![ArrayFacts::default(); self.n_params];
        for (idx, plan) in self.arrays.iter().enumerate() {
            let flags = key.flags >> (BITS_PER_ARRAY * idx);
            let facts = &mut arrays[plan.param as usize];
            facts.contiguous = flags & CONTIGUOUS != 0;
            facts.aligned = flags & ALIGNED != 0;
            facts.offsets_fit_i32 = flags & OFFSETS_FIT != 0;
            // Arrays beyond those looked at rule this out, because a written one may overlap them.
            facts.disjoint = flags & DISJOINT != 0 && self.sees_all_arrays();
        }
        for (idx, &(param, axis, _)) in self.extents.iter().enumerate() {
            let extent = (key.extents >> (EXTENT_BITS as usize * idx)) as u32 & ((1 << EXTENT_BITS) - 1);
            arrays[param as usize].extents[usize::from(axis)] = extent.checked_sub(1);
        }
        for &(param, axis, extent) in &self.components {
            arrays[param as usize].extents[usize::from(axis)] = Some(extent);
        }
        arrays.extend_from_slice(&self.of_launch);
        let of_axis = |axis: u8| (key.block >> (BLOCK_BITS * u32::from(axis))) as u32 & ((1 << BLOCK_BITS) - 1);
        let extent = |&(param, axis): &(usize, u8)| (param, of_axis(axis));
        let scalars = if key.block == 0 { Vec::new() } else { self.block_extents.iter().map(extent).collect() };
        ArgFacts { arrays, scalars, alone: self.alone }
    }

    fn sees_all_arrays(&self) -> bool {
        self.arrays.len() < MAX_ARRAYS
    }
}

impl KernelParams {
    /// Returns what holds of arrays that are dense and overlap none.
    pub fn dense_facts(&self) -> ArgFacts {
        FactPlan::of_params(self).facts(FactKey::DENSE)
    }

    /// Returns what holds of all arrays: the extents of their elements' components.
    pub fn general_facts(&self) -> ArgFacts {
        FactPlan::of_params(self).facts(FactKey::default())
    }
}

/// The dimensions that a parameter has in its source, which are 0 for one that is no array.
fn n_axes(params: &KernelParams, param: usize) -> u8 {
    let composite = params.element(param).map(|composite| composite.shape().len()).unwrap_or_default();
    match params.types().get(param) {
        Some(Type::Array { ndim, .. }) => ndim - composite as u8,
        _ => 0,
    }
}

/// Returns true if the extent of `array` along its first axis bounds a counted loop.
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
