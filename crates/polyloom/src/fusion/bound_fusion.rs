//! A plan bound to memory.

use super::{FusedKernel, FusedPlan, FusionError};
use crate::bound_launch::BoundLaunch;
use crate::scalar_bits;
use polyloom_graph::GraphError;
use polyloom_graph::plan::{BufferKind, KernelGrid, PlanArg};
use polyloom_ir::{LaunchConfig, Scalar};
use polyloom_runtime::{
    ArgBlock, CpuQueue, DeviceBuffer, DeviceId, LaunchOptions, LaunchStats, PoolBuffer, Queue, buffer_pool,
};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// A Python number that a run is given.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RunNumber {
    /// An `int`.
    Int(i64),
    /// A `float`.
    Float(f64),
}

impl RunNumber {
    /// Returns the bits of the number as one of a type.
    ///
    /// # Errors
    ///
    /// [`FusionError::NumberRange`], as NumPy refuses an integer that the type of the array beside it does not hold.
    #[inline]
    pub fn bits(self, dtype: Scalar) -> Result<u64, FusionError> {
        match self {
            RunNumber::Float(value) => Ok(scalar_bits::from_f64(dtype, value)),
            RunNumber::Int(value) => {
                scalar_bits::from_int(dtype, value.into()).ok_or(FusionError::NumberRange { value, dtype })
            }
        }
    }
}

/// An array of a launch: its parameter, the buffer that it is in, and how far it is from the buffer's beginning.
#[derive(Clone, Copy, Debug)]
struct ArrayBinding {
    launch: u32,
    param: u32,
    buffer: u32,
    byte_offset: i64,
}

/// A number that a launch is given at each run.
#[derive(Clone, Copy, Debug)]
struct NumberBinding {
    launch: u32,
    param: u32,
    number: u32,
    dtype: Scalar,
}

/// The memory of a temporary, kept until the run is over.
enum TemporaryMemory {
    Pool(#[expect(dead_code, reason = "it is only to live as long")] PoolBuffer),
    Device(#[expect(dead_code, reason = "it is only to live as long")] DeviceBuffer),
}

/// A plan with the memory of a run. It serves one run at a time, and any number one after the other.
pub struct BoundFusion {
    plan: Arc<FusedPlan>,
    queue: Arc<dyn Queue>,
    device: DeviceId,
    /// For each input, true if it is in the memory of the device rather than the host's.
    is_resident: SmallVec<[bool; 8]>,
    /// Empty until the first run.
    launches: Vec<BoundLaunch>,
    arrays: Vec<ArrayBinding>,
    numbers: Vec<NumberBinding>,
    /// The addresses of the buffers in this run.
    addresses: Vec<usize>,
    temporaries: SmallVec<[TemporaryMemory; 2]>,
}

impl fmt::Debug for BoundFusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {}", self.launches, self.device)
    }
}

impl FusedPlan {
    /// Makes a plan that runs on the CPU can be given memory.
    pub fn bind(self: &Arc<FusedPlan>) -> BoundFusion {
        self.bind_to(Arc::new(CpuQueue), &[])
    }

    /// Makes a plan that runs in a queue can be given memory. `is_resident` says which inputs are in the memory of the
    /// queue's device; those beyond it are in the host's, from where each launch that reads one copies it.
    pub fn bind_to(self: &Arc<FusedPlan>, queue: Arc<dyn Queue>, is_resident: &[bool]) -> BoundFusion {
        let (mut arrays, mut numbers) = (Vec::new(), Vec::new());
        for (launch, kernel) in (0u32..).zip(&self.kernels) {
            for (param, arg) in (0u32..).zip(&kernel.args) {
                match *arg {
                    PlanArg::Array { buffer, offset, .. } => {
                        let byte_offset = offset * i64::from(self.buffers[buffer].dtype.bytes());
                        arrays.push(ArrayBinding { launch, param, buffer: buffer as u32, byte_offset });
                    }
                    PlanArg::Number { index, dtype } => {
                        numbers.push(NumberBinding { launch, param, number: index, dtype });
                    }
                    PlanArg::Scalar { .. } => {}
                }
            }
        }
        let addresses = vec![0; self.buffers.len()];
        let (launches, temporaries) = (Vec::new(), SmallVec::new());
        BoundFusion {
            plan: self.clone(),
            device: queue.device(),
            queue,
            is_resident: SmallVec::from_slice(is_resident),
            launches,
            arrays,
            numbers,
            addresses,
            temporaries,
        }
    }
}

impl BoundFusion {
    /// The plan.
    pub fn plan(&self) -> &Arc<FusedPlan> {
        &self.plan
    }

    /// Gives the memory of the next run: the addresses of the inputs' elements with all indices 0, those of the buffers
    /// for results, in their order, and the numbers. Takes temporaries from the pool or the device.
    ///
    /// # Errors
    ///
    /// [`FusionError::Argument`] if elements are not aligned, [`FusionError::NumberRange`], [`FusionError::Memory`] and
    /// [`FusionError::Device`].
    #[inline]
    pub fn place(&mut self, inputs: &[usize], outputs: &[usize], numbers: &[RunNumber]) -> Result<(), FusionError> {
        let mut outputs = outputs.iter();
        for (address, buffer) in self.addresses.iter_mut().zip(&self.plan.buffers) {
            *address = match buffer.kind {
                BufferKind::Input(index) => inputs[index],
                BufferKind::Output => outputs.next().copied().unwrap_or_default(),
                BufferKind::Temporary => {
                    let n_bytes = buffer.n_elements * u64::from(buffer.dtype.bytes());
                    let (memory, address) = temporary(&self.queue, self.device, n_bytes)?;
                    self.temporaries.push(memory);
                    address
                }
            };
        }
        if self.launches.is_empty() {
            return self.bind_launches(numbers);
        }
        for binding in &self.arrays {
            let address = self.addresses[binding.buffer as usize].wrapping_add_signed(binding.byte_offset as isize);
            self.launches[binding.launch as usize].move_array(binding.param as usize, address as *mut u8)?;
        }
        for binding in &self.numbers {
            let bits = numbers[binding.number as usize].bits(binding.dtype)?;
            self.launches[binding.launch as usize].replace_number(binding.param as usize, binding.dtype, bits)?;
        }
        Ok(())
    }

    #[cold]
    fn bind_launches(&mut self, numbers: &[RunNumber]) -> Result<(), FusionError> {
        let launches = self.plan.kernels.iter().map(|launch| self.bound(launch, numbers));
        self.launches = launches.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn bound(&self, launch: &FusedKernel, numbers: &[RunNumber]) -> Result<BoundLaunch, FusionError> {
        let mut args = ArgBlock::new();
        let params = launch.kernel.params();
        for arg in &launch.args {
            match *arg {
                PlanArg::Array { buffer, offset, n_elements } => {
                    let dtype = self.plan.buffers[buffer].dtype;
                    let byte_offset = offset * i64::from(dtype.bytes());
                    let address = self.addresses[buffer].wrapping_add_signed(byte_offset as isize);
                    args.array(params, dtype, address as *mut u8, &[n_elements], &[dtype.bytes().into()])?;
                    if self.is_on_device(self.plan.buffers[buffer].kind) {
                        args.set_resident();
                    }
                }
                PlanArg::Scalar { dtype, bits } => args.scalar(params, dtype, bits)?,
                PlanArg::Number { index, dtype } => args.scalar(params, dtype, numbers[index as usize].bits(dtype)?)?,
            }
        }
        let blocks = |n_blocks: u64, n_threads: u32| {
            let reason = || format!("{n_blocks} blocks of threads are more than a launch has");
            let n_blocks = u32::try_from(n_blocks).map_err(|_| GraphError::Evaluation(reason()))?;
            let block = [n_threads, 1, 1];
            let shared_bytes = launch.kernel.function().metadata.shared_bytes.unwrap_or(0);
            Ok::<_, FusionError>(LaunchConfig { grid: [n_blocks, 1, 1], block, shared_bytes })
        };
        let (shape, grid): (SmallVec<[u64; 4]>, _) = match &launch.grid {
            KernelGrid::Threads(extents) => (SmallVec::from_slice(extents), None),
            KernelGrid::Blocks { n_blocks, n_threads } => {
                (SmallVec::from_slice(&[n_blocks * u64::from(*n_threads)]), Some(blocks(*n_blocks, *n_threads)?))
            }
        };
        let options = LaunchOptions { grid, tier: self.plan.tier, ..LaunchOptions::default() };
        Ok(BoundLaunch::new(launch.kernel.clone(), self.queue.clone(), &shape, args, &options))
    }

    /// Returns true if a buffer is in the memory of a device rather than the host's.
    fn is_on_device(&self, kind: BufferKind) -> bool {
        match kind {
            BufferKind::Input(index) => self.is_resident.get(index).copied().unwrap_or(false),
            BufferKind::Output | BufferKind::Temporary => self.device != DeviceId::Cpu,
        }
    }

    /// Runs launches on this thread as long as they are known to take a few microseconds at most; gives the number of
    /// those that have run.
    ///
    /// # Errors
    ///
    /// [`FusionError::Launch`].
    ///
    /// # Safety
    ///
    /// The memory that was placed is valid and large enough, and nobody writes to it until the run is over.
    #[inline]
    pub unsafe fn run_while_short(&self) -> Result<usize, FusionError> {
        for (index, launch) in self.launches.iter().enumerate() {
            // SAFETY: passed on to the caller.
            match unsafe { launch.run_if_short() } {
                None => return Ok(index),
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(FusionError::Launch { kernel: launch.kernel().clone(), error }),
            }
        }
        Ok(self.launches.len())
    }

    /// The number of launches, once memory has been placed.
    #[inline]
    pub fn n_launches(&self) -> usize {
        self.launches.len()
    }

    /// Runs the launches from this one on; gives what the last of them did.
    ///
    /// # Errors
    ///
    /// [`FusionError::Launch`].
    ///
    /// # Safety
    ///
    /// As [`BoundFusion::run_while_short`].
    pub unsafe fn run_from(
        &self,
        first: usize,
        options: &LaunchOptions<'_>,
    ) -> Result<Option<LaunchStats>, FusionError> {
        let mut last = None;
        for launch in self.launches.iter().skip(first) {
            // SAFETY: passed on to the caller.
            let done = unsafe { launch.run(options) };
            last = Some(done.map_err(|error| FusionError::Launch { kernel: launch.kernel().clone(), error })?);
        }
        Ok(last)
    }

    /// Gives the temporaries back. A device frees memory after the launches that are in its queue.
    #[inline]
    pub fn release_temporaries(&mut self) {
        self.temporaries.clear();
    }
}

/// Takes memory of a temporary, whose address it gives too.
#[inline]
fn temporary(queue: &Arc<dyn Queue>, device: DeviceId, n_bytes: u64) -> Result<(TemporaryMemory, usize), FusionError> {
    if device == DeviceId::Cpu {
        let memory = buffer_pool().take(n_bytes).ok_or(FusionError::Memory { n_bytes })?;
        let address = memory.address() as usize;
        return Ok((TemporaryMemory::Pool(memory), address));
    }
    let memory = DeviceBuffer::new(queue.clone(), n_bytes as usize)?;
    let address = memory.address() as usize;
    Ok((TemporaryMemory::Device(memory), address))
}
