//! Paths as calls of kernels over memory that others lay out: what a library has of a function of tensors.

use super::compile::{ArenaBlock, ExecutablePath, HostPlace, PathStep};
use crate::fusion::FusedPlan;
use crate::kernel::Kernel;
use polyloom_graph::Layout;
use polyloom_graph::plan::{BufferKind, KernelGrid, PlanArg};
use polyloom_ir::Scalar;
use std::sync::Arc;

/// Memory that a call reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallMemory {
    /// The memory of an input.
    Input(usize),
    /// The caller's memory for an output.
    Output(usize),
    /// A block of memory between calls.
    Block(usize),
}

/// An argument of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallArg {
    /// A dense array of one axis.
    Array { memory: CallMemory, byte_offset: i64, n_elements: u64 },
    /// A number of a type, by its bits.
    Scalar { dtype: Scalar, bits: u64 },
}

/// A step of a path.
#[derive(Clone, Debug)]
pub(crate) enum PathCall {
    /// Runs a kernel.
    Kernel { kernel: Arc<Kernel>, extents: Vec<u64>, args: Vec<CallArg> },
    /// Copies elements, which lie by the layout in the memory that is read, to dense memory.
    Copy { dtype: Scalar, from: CallMemory, layout: Layout, to: CallMemory },
}

/// A path as calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathCalls {
    pub(crate) calls: Vec<PathCall>,
    /// The blocks of memory between calls, and which calls they live for.
    pub(crate) blocks: Vec<ArenaBlock>,
}

impl<K> ExecutablePath<K> {
    /// Returns the calls of a path that is native code alone.
    ///
    /// # Errors
    ///
    /// A sentence that says what is something else.
    pub(crate) fn calls(&self) -> Result<PathCalls, String> {
        let block = |n_bytes: &u64| ArenaBlock { n_bytes: *n_bytes, first: usize::MAX, last: 0 };
        let mut made = PathCalls { calls: Vec::new(), blocks: self.block_bytes.iter().map(block).collect() };
        for step in &self.steps {
            match step {
                PathStep::Fused { plan, inputs, outputs, copies } if self.plan_queues[*plan].is_none() => {
                    made.add_plan(&self.plans[*plan], inputs, outputs)?;
                    for copy in copies {
                        let (from, to) = (memory(copy.from.place)?, memory(copy.to)?);
                        made.add(PathCall::Copy { dtype: copy.dtype, from, layout: copy.from.layout.clone(), to });
                    }
                }
                PathStep::Input { .. } => {
                    return Err("one of its results is an argument as it is, which no kernel computes".to_owned());
                }
                PathStep::Fused { .. }
                | PathStep::NewBuffer { .. }
                | PathStep::Upload { .. }
                | PathStep::Download { .. } => return Err("it runs on a GPU".to_owned()),
                PathStep::Library { .. }
                | PathStep::NewArray { .. }
                | PathStep::Dense { .. }
                | PathStep::Copy { .. } => return Err("it calls NumPy or PyTorch".to_owned()),
            }
        }
        Ok(made)
    }
}

fn memory(place: HostPlace) -> Result<CallMemory, String> {
    match place {
        HostPlace::Input(input) => Ok(CallMemory::Input(input)),
        HostPlace::Output(output) => Ok(CallMemory::Output(output)),
        HostPlace::Block(block) => Ok(CallMemory::Block(block)),
        HostPlace::Array(_) | HostPlace::Device(_) => Err("it keeps values in arrays of NumPy or on a GPU".to_owned()),
    }
}

impl PathCalls {
    fn add_plan(&mut self, plan: &FusedPlan, inputs: &[(HostPlace, i64)], outputs: &[HostPlace]) -> Result<(), String> {
        let mut outputs = outputs.iter();
        let mut places: Vec<(CallMemory, i64)> = Vec::new();
        for buffer in plan.buffers() {
            places.push(match buffer.kind {
                BufferKind::Input(input) => {
                    let (place, offset) = inputs.get(input).ok_or("it has an input that is not there")?;
                    (memory(*place)?, *offset)
                }
                BufferKind::Output => (memory(*outputs.next().ok_or("it has an output that is not there")?)?, 0),
                BufferKind::Temporary => {
                    let n_bytes = buffer.n_elements * u64::from(buffer.dtype.bytes());
                    self.blocks.push(ArenaBlock { n_bytes, first: usize::MAX, last: 0 });
                    (CallMemory::Block(self.blocks.len() - 1), 0)
                }
            });
        }
        for (kernel, grid, args) in plan.launches() {
            let extents = match grid {
                KernelGrid::Threads(extents) => extents.clone(),
                KernelGrid::Blocks { n_blocks, n_threads } => vec![n_blocks * u64::from(*n_threads)],
            };
            let args = args.iter().map(|arg| match *arg {
                PlanArg::Array { buffer, offset, n_elements } => {
                    let (memory, before) = places[buffer];
                    let byte_offset = before + offset * i64::from(plan.buffers()[buffer].dtype.bytes());
                    Ok(CallArg::Array { memory, byte_offset, n_elements })
                }
                PlanArg::Scalar { dtype, bits } => Ok(CallArg::Scalar { dtype, bits }),
                PlanArg::Number { .. } => Err("it takes a Python number that is not known".to_owned()),
            });
            let args = args.collect::<Result<_, String>>()?;
            self.add(PathCall::Kernel { kernel: kernel.clone(), extents, args });
        }
        Ok(())
    }

    /// Adds a call, for which the blocks that it has live.
    fn add(&mut self, call: PathCall) {
        let now = self.calls.len();
        let mut use_memory = |memory: CallMemory| {
            if let CallMemory::Block(block) = memory {
                let block = &mut self.blocks[block];
                block.first = block.first.min(now);
                block.last = now;
            }
        };
        match &call {
            PathCall::Kernel { args, .. } => args.iter().for_each(|arg| {
                if let CallArg::Array { memory, .. } = arg {
                    use_memory(*memory);
                }
            }),
            PathCall::Copy { from, to, .. } => {
                use_memory(*from);
                use_memory(*to);
            }
        }
        self.calls.push(call);
    }
}
