//! Running a path: one caller's launches, bound once, and the arrays of a run.

use super::PathError;
use super::compile::{DenseCopy, ExecutablePath, HostPlace, PathStep};
use super::elements::copy_dense;
use super::library::ArrayLibrary;
use crate::fusion::{BoundFusion, FusedPlan, FusionError, RunNumber};
use polyloom_graph::Layout;
use polyloom_ir::Scalar;
use polyloom_runtime::{ArrayLayout, DeviceBuffer, PoolBuffer, buffer_pool};
use smallvec::SmallVec;
use std::sync::Arc;

/// A path with its launches bound. It serves one run at a time, and any number one after the other.
pub struct BoundPath<K> {
    path: Arc<ExecutablePath<K>>,
    fusions: Vec<BoundFusion>,
}

/// The memory of a run.
struct RunMemory<'r, A> {
    inputs: &'r [usize],
    outputs: &'r [usize],
    arena: usize,
    blocks: &'r [u64],
    buffers: SmallVec<[Option<DeviceBuffer>; 4]>,
    /// Arrays with the addresses of their elements 0, where planned groups read or write them.
    arrays: SmallVec<[Option<A>; 8]>,
    addresses: SmallVec<[usize; 8]>,
}

impl<A> RunMemory<'_, A> {
    fn address(&self, place: HostPlace) -> usize {
        match place {
            HostPlace::Input(input) => self.inputs[input],
            HostPlace::Output(output) => self.outputs[output],
            HostPlace::Block(block) => self.arena + self.blocks[block] as usize,
            HostPlace::Array(array) => self.addresses[array],
            HostPlace::Device(buffer) => self.buffers[buffer].as_ref().map_or(0, |memory| memory.address() as usize),
        }
    }
}

impl<K> BoundPath<K> {
    pub(super) fn new(path: Arc<ExecutablePath<K>>) -> BoundPath<K> {
        let bind = |(plan, queue): (&Arc<FusedPlan>, &Option<usize>)| match queue {
            None => plan.bind(),
            Some(queue) => plan.bind_to(path.queues[*queue].clone(), &vec![true; plan.buffers().len()]),
        };
        let fusions = path.plans.iter().zip(&path.plan_queues).map(bind).collect();
        BoundPath { path, fusions }
    }

    /// The path.
    pub fn path(&self) -> &Arc<ExecutablePath<K>> {
        &self.path
    }

    /// Runs the path over the addresses of the inputs' elements with all indices 0 and of memory for the outputs that are
    /// [the caller's](super::OutputPlace::Caller); other addresses are not read. Returns the outputs that are arrays, in order.
    ///
    /// # Errors
    ///
    /// [`PathError`] of a step.
    ///
    /// # Safety
    ///
    /// The memory is valid, has the layouts that the path was compiled for, and nobody writes to it until the run is over.
    pub unsafe fn run<L: ArrayLibrary<Kernel = K>>(
        &mut self,
        library: &L,
        inputs: &[usize],
        outputs: &[usize],
        numbers: &[RunNumber],
    ) -> Result<SmallVec<[L::Array; 2]>, PathError<L::Error>> {
        let BoundPath { path, fusions } = self;
        let arena: Option<PoolBuffer> = match path.arena_bytes {
            0 => None,
            n_bytes => Some(buffer_pool().take(n_bytes).ok_or(FusionError::Memory { n_bytes })?),
        };
        let mut memory = RunMemory {
            inputs,
            outputs,
            arena: arena.as_ref().map_or(0, |arena| arena.address() as usize),
            blocks: &path.blocks,
            buffers: SmallVec::new(),
            arrays: SmallVec::new(),
            addresses: SmallVec::from_elem(0, path.n_arrays),
        };
        memory.arrays.resize(path.n_arrays, None);
        memory.buffers.resize_with(path.n_buffers, || None);
        for (index, step) in path.steps.iter().enumerate() {
            // SAFETY: passed on to the caller; what steps make is as large as was planned.
            unsafe { run_step(step, path, fusions, library, &mut memory, numbers)? };
            path.dead[index].iter().for_each(|&array| memory.arrays[array] = None);
            path.dead_buffers[index].iter().for_each(|&buffer| memory.buffers[buffer] = None);
        }
        Ok(path.output_arrays.iter().flatten().filter_map(|&array| memory.arrays[array].clone()).collect())
    }
}

/// Returns how an array lies in memory that begins at an address.
fn array_layout(dtype: Scalar, layout: &Layout, address: u64) -> ArrayLayout {
    let bytes = i64::from(dtype.bytes());
    ArrayLayout {
        base: address.wrapping_add_signed(layout.offset * bytes),
        elem_bytes: bytes as u64,
        extents: layout.extents.iter().copied().collect(),
        strides: layout.strides.iter().map(|stride| stride * bytes).collect(),
    }
}

/// Runs one step.
///
/// # Safety
///
/// As [`BoundPath::run`].
#[inline]
unsafe fn run_step<K, L: ArrayLibrary<Kernel = K>>(
    step: &PathStep<K>,
    path: &ExecutablePath<K>,
    fusions: &mut [BoundFusion],
    library: &L,
    memory: &mut RunMemory<'_, L::Array>,
    numbers: &[RunNumber],
) -> Result<(), PathError<L::Error>> {
    let missing = || -> PathError<L::Error> { PathError::Unsupported("an array is not there".to_owned()) };
    match step {
        PathStep::Fused { plan, inputs, outputs, copies } => {
            let bound = &mut fusions[*plan];
            let in_addresses: SmallVec<[usize; 8]> = inputs
                .iter()
                .map(|&(place, offset)| memory.address(place).wrapping_add_signed(offset as isize))
                .collect();
            let out_addresses: SmallVec<[usize; 4]> = outputs.iter().map(|&place| memory.address(place)).collect();
            bound.place(&in_addresses, &out_addresses, numbers)?;
            // SAFETY: passed on to the caller.
            let launched = unsafe { library.launch(bound) };
            bound.release_temporaries();
            launched.map_err(PathError::Library)??;
            for DenseCopy { dtype, from, to } in copies {
                // SAFETY: the copy is to memory of its own.
                unsafe { copy_dense(*dtype, &from.layout, memory.address(from.place), memory.address(*to)) };
            }
        }
        PathStep::Library { kernel, operands, result } => {
            let arrays = operands.iter().map(|&operand| memory.arrays[operand].clone());
            let arrays: SmallVec<[L::Array; 4]> = arrays.collect::<Option<_>>().ok_or_else(missing)?;
            memory.arrays[*result] = Some(library.call(kernel, &arrays, numbers).map_err(PathError::Library)?);
        }
        PathStep::NewBuffer { buffer, n_bytes, queue } => {
            let made = DeviceBuffer::new(path.queues[*queue].clone(), *n_bytes as usize).map_err(FusionError::from)?;
            memory.buffers[*buffer] = Some(made);
        }
        PathStep::Upload { dtype, from, buffer } => {
            let mut bytes = vec![0u8; from.layout.n_elements() as usize * dtype.bytes() as usize];
            // SAFETY: the elements are valid, and the bytes are as many.
            unsafe { copy_dense(*dtype, &from.layout, memory.address(from.place), bytes.as_mut_ptr() as usize) };
            let to = memory.buffers[*buffer].as_ref().ok_or_else(missing)?;
            let layout = array_layout(*dtype, &Layout::dense(&from.layout.extents), to.address());
            to.write(&layout, &bytes).map_err(FusionError::from)?;
        }
        PathStep::Download { dtype, from, to } => {
            let HostPlace::Device(buffer) = from.place else { return Err(missing()) };
            let source = memory.buffers[buffer].as_ref().ok_or_else(missing)?;
            let n_bytes = from.layout.n_elements() as usize * dtype.bytes() as usize;
            // SAFETY: the memory is as large as was planned, and nobody else has it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.address(*to) as *mut u8, n_bytes) };
            source.read(&array_layout(*dtype, &from.layout, source.address()), bytes).map_err(FusionError::from)?;
        }
        PathStep::Input { index, array } => {
            memory.arrays[*array] = Some(library.input(*index).map_err(PathError::Library)?);
        }
        PathStep::NewArray { array, dtype, layout } => {
            let (made, address) = library.new_array(*dtype, layout).map_err(PathError::Library)?;
            memory.arrays[*array] = Some(made);
            memory.addresses[*array] = address;
        }
        PathStep::Dense { array } => {
            let source = memory.arrays[*array].take().ok_or_else(missing)?;
            let (dense, address) = library.dense(&source).map_err(PathError::Library)?;
            memory.arrays[*array] = Some(dense);
            memory.addresses[*array] = address;
        }
        PathStep::Copy { from, to, dtype, residences } => {
            let source = memory.arrays[*from].as_ref().ok_or_else(missing)?;
            let copied = library.copy_to(source, *dtype, residences.0, residences.1).map_err(PathError::Library)?;
            memory.arrays[*to] = Some(copied);
        }
    }
    Ok(())
}
