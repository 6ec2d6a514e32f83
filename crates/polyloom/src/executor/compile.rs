//! Compiling a recipe: which memory each value is in, and the steps over it.
//!
//! A value that a planned group computes is in the caller's memory if it is an output, in an array of a library if a library reads it,
//! and otherwise in a part of one arena, which values that do not live at the same time share. A value that a library computes is an array
//! of the library's. The steps of a run find everything by its place, which is decided here.

use super::library::{ArrayLibrary, CallOperand, LibraryCall};
use super::{BoundPath, PathError};
use crate::fusion::{FusedPlan, FusionError, plan_options};
use crate::session::Session;
use polyloom_graph::op::TensorArity;
use polyloom_graph::plan::{BufferKind, PlanOptions, PlanOutput};
use polyloom_graph::recipe::{KernelGroup, RecipeStep, VerifiedRecipe};
use polyloom_graph::registry::KernelForm;
use polyloom_graph::{Graph, Layout, Residence, SymbolValues, TensorDef, TensorId, TensorType, specialise};
use polyloom_ir::{Arch, Scalar};
use polyloom_runtime::{DeviceId, Queue, Tier};
use rustc_hash::FxHashMap;
use std::fmt::Display;
use std::sync::Arc;

/// Says where an output of a path is after a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputPlace {
    /// In the memory that the caller has given for it.
    Caller,
    /// In an array of NumPy, which the run returns.
    Array,
}

/// Memory that a planned group reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HostPlace {
    /// The memory of an input.
    Input(usize),
    /// The caller's memory for an output.
    Output(usize),
    /// A part of the arena.
    Block(usize),
    /// The memory of an array.
    Array(usize),
    /// Memory of a device.
    Device(usize),
}

/// The memory of a value for planned groups, and where its elements lie there.
#[derive(Clone, Debug)]
pub(super) struct HostValue {
    pub(super) place: HostPlace,
    pub(super) layout: Layout,
}

/// A copy of elements to a dense array, because a plan has left them in a part of a buffer.
#[derive(Clone, Debug)]
pub(super) struct DenseCopy {
    pub(super) dtype: Scalar,
    pub(super) from: HostValue,
    pub(super) to: HostPlace,
}

/// A step of a run.
pub(super) enum PathStep<K> {
    /// Runs a plan.
    Fused {
        /// The plan's place among those of the path.
        plan: usize,
        /// For each input its memory, and the byte offset of its element 0.
        inputs: Vec<(HostPlace, i64)>,
        /// For each buffer of results its memory.
        outputs: Vec<HostPlace>,
        /// Copies of results.
        copies: Vec<DenseCopy>,
    },
    /// Calls a kernel of a library.
    Library {
        /// The kernel.
        kernel: K,
        /// The arrays that are its operands.
        operands: Vec<usize>,
        /// The array that it gives.
        result: usize,
    },
    /// Takes memory of a device.
    NewBuffer {
        /// The memory's place.
        buffer: usize,
        /// The bytes.
        n_bytes: u64,
        /// The device's place among the queues of the path.
        queue: usize,
    },
    /// Copies elements to the memory of a device, where they are dense.
    Upload {
        /// The element type.
        dtype: Scalar,
        /// Says where they are.
        from: HostValue,
        /// The memory.
        buffer: usize,
    },
    /// Copies elements from the memory of a device to the host's, where they are dense.
    Download {
        /// The element type.
        dtype: Scalar,
        /// Says where they are.
        from: HostValue,
        /// The host's memory.
        to: HostPlace,
    },
    /// Makes an array of an input.
    Input {
        /// The input.
        index: usize,
        /// The array.
        array: usize,
    },
    /// Makes an array that a plan writes to.
    NewArray {
        /// The array.
        array: usize,
        /// Its element type.
        dtype: Scalar,
        /// Its layout.
        layout: Layout,
    },
    /// Makes an array dense, so that a plan can read it.
    Dense {
        /// The array.
        array: usize,
    },
    /// Takes an array to another residence.
    Copy {
        /// The array.
        from: usize,
        /// The array there.
        to: usize,
        /// The element type.
        dtype: Scalar,
        /// The residences.
        residences: (Residence, Residence),
    },
}

/// A recipe for known extents and layouts, ready to be run. `K` is the type of a library's kernels.
pub struct ExecutablePath<K> {
    pub(super) plans: Vec<Arc<FusedPlan>>,
    /// The queue that each plan runs in; none on the CPU.
    pub(super) plan_queues: Vec<Option<usize>>,
    /// The queues of the devices that take part.
    pub(super) queues: Vec<Arc<dyn Queue>>,
    pub(super) n_buffers: usize,
    pub(super) steps: Vec<PathStep<K>>,
    /// The arrays that are dropped after each step, because nobody reads them later.
    pub(super) dead: Vec<Vec<usize>>,
    /// The memory of devices that is given back after each step.
    pub(super) dead_buffers: Vec<Vec<usize>>,
    pub(super) n_arrays: usize,
    /// The places of the parts of the arena, in bytes.
    pub(super) blocks: Vec<u64>,
    /// The bytes of each of these parts.
    pub(super) block_bytes: Vec<u64>,
    pub(super) arena_bytes: u64,
    /// For each output the array that it is, if it is one.
    pub(super) output_arrays: Vec<Option<usize>>,
    /// Identifies the code of library kernels beyond their names.
    library_code: Vec<String>,
}

impl<K> ExecutablePath<K> {
    /// Compiles a recipe for the extents that its symbols have and the layouts of its inputs, whose offsets are 0.
    ///
    /// # Errors
    ///
    /// [`PathError`]: a group cannot be planned, a library has no kernel for a node, or a value is on a device.
    pub fn compile<L: ArrayLibrary<Kernel = K>>(
        session: &Session,
        recipe: &VerifiedRecipe,
        symbols: &SymbolValues,
        layouts: &[Layout],
        options: &PlanOptions,
        library: &L,
    ) -> Result<ExecutablePath<K>, PathError<L::Error>> {
        let program = specialise(&recipe.program, symbols)?;
        let inputs: Vec<TensorId> =
            program.iter().filter(|(_, value)| matches!(value.def, TensorDef::Input(_))).map(|(id, _)| id).collect();
        if inputs.len() != layouts.len() {
            let message = format!("the path has {} inputs, not {}", inputs.len(), layouts.len());
            return Err(PathError::Unsupported(message));
        }
        let mut compiler = PathCompiler {
            session,
            options,
            library,
            needs_array: values_of_libraries(&program, &recipe.recipe.steps),
            program,
            host: FxHashMap::default(),
            arrays: FxHashMap::default(),
            is_dense: FxHashMap::default(),
            input_of: FxHashMap::default(),
            on_device: FxHashMap::default(),
            plan_queues: Vec::new(),
            queues: Vec::new(),
            n_buffers: 0,
            plans: Vec::new(),
            steps: Vec::new(),
            blocks: Vec::new(),
            n_arrays: 0,
            library_code: Vec::new(),
        };
        for (index, (&id, layout)) in inputs.iter().zip(layouts).enumerate() {
            compiler.input_of.insert(id, index);
            compiler.host.insert(id, HostValue { place: HostPlace::Input(index), layout: layout.clone() });
        }
        for step in &recipe.recipe.steps {
            match step {
                RecipeStep::CopyTo { value, from, to } => compiler.copy(TensorId(*value), *from, *to)?,
                RecipeStep::Run(group) if group.form == KernelForm::Fused => compiler.fused(group)?,
                RecipeStep::Run(group) => compiler.call(group)?,
            }
        }
        compiler.finish()
    }

    /// Returns where each output is after a run.
    pub fn output_places(&self) -> impl Iterator<Item = OutputPlace> + '_ {
        self.output_arrays.iter().map(|array| if array.is_some() { OutputPlace::Array } else { OutputPlace::Caller })
    }

    /// Returns true if it calls no library, so that a run is launches alone.
    pub fn is_native(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, PathStep::Fused { .. })) && self.queues.is_empty()
    }

    /// Returns the plans in the order in which they run.
    pub fn plans(&self) -> &[Arc<FusedPlan>] {
        &self.plans
    }

    /// Returns texts that identify the code that runs: the hashes of the kernels of plans, and what libraries say of theirs.
    pub fn code(&self) -> Vec<String> {
        let digits = |hash: [u8; 32]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let kernels = self.plans.iter().flat_map(|plan| plan.kernels().map(|kernel| digits(kernel.hash())));
        kernels.chain(self.library_code.iter().cloned()).collect()
    }

    /// The bytes of the arena that values between planned groups share.
    pub fn arena_bytes(&self) -> u64 {
        self.arena_bytes
    }

    /// Makes the path ready to be given memory.
    pub fn bind(self: &Arc<ExecutablePath<K>>) -> BoundPath<K> {
        BoundPath::new(self.clone())
    }
}

/// A part of the arena: how large it is, and which steps it lives for.
#[derive(Clone, Debug)]
pub(crate) struct ArenaBlock {
    pub(crate) n_bytes: u64,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

struct PathCompiler<'a, L: ArrayLibrary> {
    session: &'a Session,
    options: &'a PlanOptions,
    library: &'a L,
    /// The values that a library reads as arrays of NumPy.
    needs_array: Vec<bool>,
    program: Graph,
    /// Values in memory that planned groups read.
    host: FxHashMap<TensorId, HostValue>,
    /// Values as arrays, by residence.
    arrays: FxHashMap<(TensorId, Residence), usize>,
    /// The arrays that are known to be dense.
    is_dense: FxHashMap<usize, bool>,
    input_of: FxHashMap<TensorId, usize>,
    /// Values in the memory of devices.
    on_device: FxHashMap<(TensorId, Residence), HostValue>,
    plan_queues: Vec<Option<usize>>,
    queues: Vec<Arc<dyn Queue>>,
    n_buffers: usize,
    plans: Vec<Arc<FusedPlan>>,
    steps: Vec<PathStep<L::Kernel>>,
    blocks: Vec<ArenaBlock>,
    n_arrays: usize,
    library_code: Vec<String>,
}

impl<L: ArrayLibrary> PathCompiler<'_, L> {
    fn ty(&self, id: TensorId) -> Result<TensorType, PathError<L::Error>> {
        let value = self.program.value(id).ok_or(polyloom_graph::GraphError::UnknownValue(id))?;
        Ok(value.ty.clone())
    }

    fn extents(&self, id: TensorId) -> Result<Vec<u64>, PathError<L::Error>> {
        let unknown = || PathError::Unsupported(format!("{id} has extents that are symbols"));
        self.ty(id)?.shape.as_static().ok_or_else(unknown)
    }

    fn new_array(&mut self) -> usize {
        self.n_arrays += 1;
        self.n_arrays - 1
    }

    /// Returns the array of a value at a residence, where a library reads it.
    fn array(&mut self, id: TensorId, residence: Residence) -> Result<usize, PathError<L::Error>> {
        if let Some(&array) = self.arrays.get(&(id, residence)) {
            return Ok(array);
        }
        match (self.input_of.get(&id).copied(), residence) {
            (Some(index), Residence::Numpy) => {
                let array = self.new_array();
                self.steps.push(PathStep::Input { index, array });
                self.arrays.insert((id, residence), array);
                Ok(array)
            }
            _ => Err(PathError::Unsupported(format!("{id} is not at {residence}"))),
        }
    }

    fn copy(&mut self, id: TensorId, from: Residence, to: Residence) -> Result<(), PathError<L::Error>> {
        match (from, device_of(from), to, device_of(to)) {
            (Residence::Numpy, _, _, Some(device)) => return self.upload(id, to, device),
            (_, Some(_), Residence::Numpy, _) => return self.download(id, from),
            // Both are arrays of libraries, which copy them.
            (_, None, _, None) => {}
            _ => return Err(PathError::Unsupported(format!("values are not copied from {from} to {to}"))),
        }
        let source = self.array(id, from)?;
        let target = self.new_array();
        let dtype = self.ty(id)?.dtype;
        self.steps.push(PathStep::Copy { from: source, to: target, dtype, residences: (from, to) });
        self.arrays.insert((id, to), target);
        Ok(())
    }

    /// Returns the place of a device's queue.
    fn queue(&mut self, device: DeviceId) -> Result<usize, PathError<L::Error>> {
        if let Some(place) = self.queues.iter().position(|queue| queue.device() == device) {
            return Ok(place);
        }
        self.queues.push(crate::device::queue(device).map_err(FusionError::from)?);
        Ok(self.queues.len() - 1)
    }

    fn new_buffer(&mut self, n_bytes: u64, queue: usize) -> usize {
        let buffer = self.n_buffers;
        self.n_buffers += 1;
        self.steps.push(PathStep::NewBuffer { buffer, n_bytes, queue });
        buffer
    }

    fn upload(&mut self, id: TensorId, to: Residence, device: DeviceId) -> Result<(), PathError<L::Error>> {
        let (from, dtype) = (self.readable(id)?, self.ty(id)?.dtype);
        let layout = Layout::dense(&self.extents(id)?);
        let queue = self.queue(device)?;
        let buffer = self.new_buffer(layout.n_elements() * u64::from(dtype.bytes()), queue);
        self.steps.push(PathStep::Upload { dtype, from, buffer });
        self.on_device.insert((id, to), HostValue { place: HostPlace::Device(buffer), layout });
        Ok(())
    }

    fn download(&mut self, id: TensorId, from: Residence) -> Result<(), PathError<L::Error>> {
        let source = self.on_device.get(&(id, from)).cloned();
        let source = source.ok_or_else(|| PathError::Unsupported(format!("{id} is not at {from}")))?;
        let dtype = self.ty(id)?.dtype;
        let layout = Layout::dense(&self.extents(id)?);
        let output = self.program.outputs.iter().position(|&output| output == id);
        let to = match output {
            _ if self.needs_array[id.0 as usize] => {
                let array = self.new_array();
                self.steps.push(PathStep::NewArray { array, dtype, layout: layout.clone() });
                self.arrays.insert((id, Residence::Numpy), array);
                self.is_dense.insert(array, true);
                HostPlace::Array(array)
            }
            Some(output) => HostPlace::Output(output),
            None => {
                let n_bytes = layout.n_elements() * u64::from(dtype.bytes());
                let first = self.steps.len();
                self.blocks.push(ArenaBlock { n_bytes, first, last: first });
                HostPlace::Block(self.blocks.len() - 1)
            }
        };
        self.steps.push(PathStep::Download { dtype, from: source, to });
        self.host.insert(id, HostValue { place: to, layout });
        Ok(())
    }

    /// Plans a group for a device, where all that it reads and gives is.
    fn fused_on_device(&mut self, group: &KernelGroup, device: DeviceId) -> Result<(), PathError<L::Error>> {
        let residence = group.backend.residence();
        let part = group.graph(&self.program)?;
        let (mut inputs, mut layouts, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for &id in &part.inputs {
            let missing = || -> PathError<L::Error> { PathError::Unsupported(format!("{id} is not at {residence}")) };
            let value = self.on_device.get(&(id, residence)).cloned().ok_or_else(missing)?;
            inputs.push((value.place, value.layout.offset * i64::from(self.ty(id)?.dtype.bytes())));
            layouts.push(Layout { offset: 0, ..value.layout.clone() });
            sources.push(value);
        }
        let options = plan_options(device, Arch::DEFAULT, self.options.float_mode);
        let plan = self.session.fused_plan(&part.graph, &layouts, &group.parameters.plan_options(&options))?;
        let queue = self.queue(device)?;
        let mut outputs = Vec::new();
        for buffer in plan.output_buffers() {
            let n_bytes = buffer.n_elements * u64::from(buffer.dtype.bytes());
            outputs.push(HostPlace::Device(self.new_buffer(n_bytes, queue)));
        }
        for (&id, output) in part.outputs.iter().zip(plan.outputs()) {
            let value = value_of_output(&plan, id, output, &sources, &outputs)?;
            self.on_device.insert((id, residence), value);
        }
        let place = self.plans.len();
        self.plans.push(Arc::new(plan));
        self.plan_queues.push(Some(queue));
        self.steps.push(PathStep::Fused { plan: place, inputs, outputs, copies: Vec::new() });
        Ok(())
    }

    fn call(&mut self, group: &KernelGroup) -> Result<(), PathError<L::Error>> {
        let residence = group.backend.residence();
        if group.backend.plans_groups() {
            return Err(PathError::Unsupported(format!("{} has no kernel `{}`", group.backend, group.kernel)));
        }
        let node = TensorId(group.nodes.first().copied().unwrap_or_default());
        let ty = self.ty(node)?;
        let value = self.program.value(node).ok_or(polyloom_graph::GraphError::UnknownValue(node))?.clone();
        let TensorDef::Op { op, operands, attributes } = &value.def else {
            return Err(PathError::Unsupported(format!("{node} is no op")));
        };
        let mut described = Vec::new();
        let mut arrays = Vec::new();
        for &operand in operands {
            let value = self.program.value(operand).ok_or(polyloom_graph::GraphError::UnknownValue(operand))?;
            let dtype = value.ty.dtype;
            described.push(match value.def {
                TensorDef::Constant(bits) => CallOperand::Constant { dtype, bits },
                TensorDef::Number(index) => CallOperand::Number { index, dtype },
                TensorDef::Input(_) | TensorDef::Op { .. } => {
                    arrays.push(self.array(operand, residence)?);
                    CallOperand::Array
                }
            });
        }
        let tensors = &op.info().signature.tensors;
        if !tensors.iter().any(|tensor| tensor.arity == TensorArity::Many) {
            described.resize(tensors.len(), CallOperand::Absent);
        }
        let call = LibraryCall {
            backend: group.backend,
            kernel: &group.kernel,
            op: *op,
            attributes,
            operands: described,
            result: &ty,
        };
        self.library_code.push(self.library.code(&call));
        let kernel = self.library.kernel(&call).map_err(PathError::Library)?;
        let result = self.new_array();
        self.steps.push(PathStep::Library { kernel, operands: arrays, result });
        self.arrays.insert((node, residence), result);
        Ok(())
    }

    /// Returns the memory of a value that a planned group reads.
    fn readable(&mut self, id: TensorId) -> Result<HostValue, PathError<L::Error>> {
        if let Some(value) = self.host.get(&id) {
            return Ok(value.clone());
        }
        let array = self.array(id, Residence::Numpy)?;
        if self.is_dense.insert(array, true) != Some(true) {
            self.steps.push(PathStep::Dense { array });
        }
        let value = HostValue { place: HostPlace::Array(array), layout: Layout::dense(&self.extents(id)?) };
        self.host.insert(id, value.clone());
        Ok(value)
    }

    fn fused(&mut self, group: &KernelGroup) -> Result<(), PathError<L::Error>> {
        if let Some(device) = device_of(group.backend.residence()) {
            return self.fused_on_device(group, device);
        }
        let part = group.graph(&self.program)?;
        let mut inputs = Vec::new();
        let mut layouts = Vec::new();
        let mut sources = Vec::new();
        for &id in &part.inputs {
            let value = self.readable(id)?;
            let bytes = i64::from(self.ty(id)?.dtype.bytes());
            inputs.push((value.place, value.layout.offset * bytes));
            layouts.push(Layout { offset: 0, ..value.layout.clone() });
            sources.push(value);
        }
        let plan = self.session.fused_plan(&part.graph, &layouts, &group.parameters.plan_options(self.options))?;
        let plan =
            plan.with_tier(group.parameters.tier.map(|tier| if tier == 0 { Tier::Quick } else { Tier::Optimized }));
        let step = self.steps.len();
        // Memory of results, one after the other; arrays are made before the plan runs.
        let mut outputs = Vec::new();
        let mut new_arrays = Vec::new();
        let output_buffers: Vec<usize> =
            (0..plan.buffers().len()).filter(|&buffer| plan.buffers()[buffer].kind == BufferKind::Output).collect();
        for &buffer in &output_buffers {
            let users: Vec<usize> = (0..plan.outputs().len()).filter(|&n| plan.outputs()[n].buffer == buffer).collect();
            let n_elements = plan.buffers()[buffer].n_elements;
            let whole = match users[..] {
                [only] if is_whole(&plan.outputs()[only], n_elements) => Some(part.outputs[only]),
                _ => None,
            };
            let place = match whole {
                Some(id) if self.needs_array[id.0 as usize] => {
                    let array = self.new_array();
                    let dtype = self.ty(id)?.dtype;
                    let layout = Layout::dense(&self.extents(id)?);
                    new_arrays.push(PathStep::NewArray { array, dtype, layout });
                    self.arrays.insert((id, Residence::Numpy), array);
                    self.is_dense.insert(array, true);
                    HostPlace::Array(array)
                }
                Some(id) => match self.program.outputs.iter().position(|&output| output == id) {
                    Some(output) => HostPlace::Output(output),
                    None => self.block(&plan, buffer),
                },
                None => self.block(&plan, buffer),
            };
            outputs.push(place);
        }
        let mut copies = Vec::new();
        for (&id, output) in part.outputs.iter().zip(plan.outputs()) {
            let dtype = self.ty(id)?.dtype;
            let value = value_of_output(&plan, id, output, &sources, &outputs)?;
            let position = self.program.outputs.iter().position(|&output| output == id);
            let is_there = match (value.place, position) {
                (HostPlace::Array(array), _) => self.arrays.get(&(id, Residence::Numpy)) == Some(&array),
                (HostPlace::Output(place), Some(output)) => place == output,
                _ => false,
            };
            if !is_there && self.needs_array[id.0 as usize] {
                let array = self.new_array();
                let layout = Layout::dense(&self.extents(id)?);
                new_arrays.push(PathStep::NewArray { array, dtype, layout });
                self.arrays.insert((id, Residence::Numpy), array);
                self.is_dense.insert(array, true);
                copies.push(DenseCopy { dtype, from: value.clone(), to: HostPlace::Array(array) });
            } else if !is_there && let Some(output) = position {
                copies.push(DenseCopy { dtype, from: value.clone(), to: HostPlace::Output(output) });
            }
            self.host.insert(id, value);
        }
        // Blocks begin to live with the step that writes them, which comes after the arrays.
        let shift = new_arrays.len();
        self.blocks.iter_mut().filter(|block| block.first == step).for_each(|block| block.first += shift);
        self.steps.extend(new_arrays);
        let place = self.plans.len();
        self.plans.push(Arc::new(plan));
        self.plan_queues.push(None);
        self.steps.push(PathStep::Fused { plan: place, inputs, outputs, copies });
        Ok(())
    }

    fn block(&mut self, plan: &FusedPlan, buffer: usize) -> HostPlace {
        let buffer = &plan.buffers()[buffer];
        let n_bytes = buffer.n_elements * u64::from(buffer.dtype.bytes());
        let first = self.steps.len();
        self.blocks.push(ArenaBlock { n_bytes, first, last: first });
        HostPlace::Block(self.blocks.len() - 1)
    }

    fn finish(mut self) -> Result<ExecutablePath<L::Kernel>, PathError<L::Error>> {
        let mut output_arrays = Vec::new();
        for output in self.program.outputs.clone() {
            let is_placed = match self.host.get(&output).map(|value| value.place) {
                Some(HostPlace::Output(_)) => true,
                _ => !self.arrays.contains_key(&(output, Residence::Numpy)) && self.is_copied_out(output),
            };
            output_arrays.push(if is_placed { None } else { Some(self.array(output, Residence::Numpy)?) });
        }
        let mut last_uses = vec![0; self.n_arrays];
        let mut last_buffer_uses = vec![0; self.n_buffers];
        for (index, step) in self.steps.iter().enumerate() {
            let mut use_place = |place: &HostPlace| match place {
                HostPlace::Block(block) => self.blocks[*block].last = index,
                HostPlace::Array(array) => last_uses[*array] = index,
                HostPlace::Device(buffer) => last_buffer_uses[*buffer] = index,
                HostPlace::Input(_) | HostPlace::Output(_) => {}
            };
            match step {
                PathStep::NewBuffer { buffer, .. } => use_place(&HostPlace::Device(*buffer)),
                PathStep::Upload { from, buffer, .. } => {
                    use_place(&from.place);
                    use_place(&HostPlace::Device(*buffer));
                }
                PathStep::Download { from, to, .. } => {
                    use_place(&from.place);
                    use_place(to);
                }
                PathStep::Fused { inputs, outputs, copies, .. } => {
                    inputs.iter().for_each(|(place, _)| use_place(place));
                    outputs.iter().for_each(&mut use_place);
                    for copy in copies {
                        use_place(&copy.from.place);
                        use_place(&copy.to);
                    }
                }
                PathStep::Library { operands, result, .. } => {
                    operands.iter().for_each(|&operand| last_uses[operand] = index);
                    last_uses[*result] = index;
                }
                PathStep::Input { array, .. } | PathStep::NewArray { array, .. } | PathStep::Dense { array } => {
                    last_uses[*array] = index;
                }
                PathStep::Copy { from, to, .. } => {
                    last_uses[*from] = index;
                    last_uses[*to] = index;
                }
            }
        }
        let mut dead = vec![Vec::new(); self.steps.len()];
        for (array, &last) in last_uses.iter().enumerate() {
            if !output_arrays.contains(&Some(array)) {
                dead[last].push(array);
            }
        }
        let mut dead_buffers = vec![Vec::new(); self.steps.len()];
        last_buffer_uses.iter().enumerate().for_each(|(buffer, &last)| dead_buffers[last].push(buffer));
        let (blocks, arena_bytes) = place_blocks(&self.blocks);
        Ok(ExecutablePath {
            plans: self.plans,
            plan_queues: self.plan_queues,
            queues: self.queues,
            n_buffers: self.n_buffers,
            dead_buffers,
            steps: self.steps,
            dead,
            n_arrays: self.n_arrays,
            blocks,
            block_bytes: self.blocks.iter().map(|block| block.n_bytes).collect(),
            arena_bytes,
            output_arrays,
            library_code: self.library_code,
        })
    }

    /// Returns true if a step copies an output into the caller's memory.
    fn is_copied_out(&self, output: TensorId) -> bool {
        let place = self.program.outputs.iter().position(|&each| each == output).map(HostPlace::Output);
        self.steps.iter().any(|step| match step {
            PathStep::Fused { copies, .. } => copies.iter().any(|copy| Some(copy.to) == place),
            _ => false,
        })
    }
}

/// Returns the device in whose memory Polyloom's arrays at a residence are.
fn device_of(residence: Residence) -> Option<DeviceId> {
    match residence {
        Residence::LoomSim => Some(DeviceId::Simulator),
        Residence::LoomCuda => Some(DeviceId::Cuda(0)),
        Residence::Numpy | Residence::TorchCpu | Residence::TorchCuda => None,
    }
}

/// Finds the values that planned groups compute and libraries read, or that go elsewhere: they have to be arrays.
fn values_of_libraries(program: &Graph, steps: &[RecipeStep]) -> Vec<bool> {
    let mut needs_array = vec![false; program.values.len()];
    for step in steps {
        match step {
            RecipeStep::CopyTo { value, to: Residence::TorchCpu | Residence::TorchCuda, .. } => {
                if let Some(needs) = needs_array.get_mut(*value as usize) {
                    *needs = true;
                }
            }
            RecipeStep::Run(group) if group.form == KernelForm::Monolithic => {
                for &node in &group.nodes {
                    if let Some(TensorDef::Op { operands, .. }) = program.value(TensorId(node)).map(|value| &value.def)
                    {
                        operands.iter().for_each(|operand| needs_array[operand.0 as usize] = true);
                    }
                }
            }
            RecipeStep::Run(_) | RecipeStep::CopyTo { .. } => {}
        }
    }
    needs_array
}

/// Returns where an output of a plan is: in the memory of one of its inputs, or in one of its buffers.
fn value_of_output<E: Display>(
    plan: &FusedPlan,
    id: TensorId,
    output: &PlanOutput,
    sources: &[HostValue],
    outputs: &[HostPlace],
) -> Result<HostValue, PathError<E>> {
    match plan.buffers()[output.buffer].kind {
        BufferKind::Input(input) => {
            let source = &sources[input];
            let offset = output.layout.offset + source.layout.offset;
            Ok(HostValue { place: source.place, layout: Layout { offset, ..output.layout.clone() } })
        }
        BufferKind::Output => {
            let place = outputs[plan.output_number(output.buffer)];
            Ok(HostValue { place, layout: output.layout.clone() })
        }
        BufferKind::Temporary => Err(PathError::Unsupported(format!("{id} is in a temporary buffer"))),
    }
}

fn is_whole(output: &PlanOutput, n_elements: u64) -> bool {
    output.layout.is_dense() && output.layout.offset == 0 && output.layout.n_elements() == n_elements
}

/// Gives each block the first place that no other one has meanwhile, the largest first. Returns the places, and the bytes of all.
pub(crate) fn place_blocks(blocks: &[ArenaBlock]) -> (Vec<u64>, u64) {
    const ALIGNMENT: u64 = 64;
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&block| (std::cmp::Reverse(blocks[block].n_bytes), block));
    let mut places = vec![0; blocks.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for block in order {
        let ArenaBlock { n_bytes, first, last } = blocks[block];
        let mut taken: Vec<(u64, u64)> = placed
            .iter()
            .filter(|&&other| blocks[other].first <= last && first <= blocks[other].last)
            .map(|&other| (places[other], places[other] + blocks[other].n_bytes))
            .collect();
        taken.sort_unstable();
        let mut place = 0;
        for (begin, end) in taken {
            if place + n_bytes <= begin {
                break;
            }
            place = place.max(end.next_multiple_of(ALIGNMENT));
        }
        places[block] = place;
        total = total.max(place + n_bytes);
        placed.push(block);
    }
    (places, total)
}

#[cfg(test)]
mod tests {
    use super::{ArenaBlock, place_blocks};

    #[test]
    fn blocks_that_do_not_live_together_share_memory() {
        let block = |n_bytes, first, last| ArenaBlock { n_bytes, first, last };
        let (places, total) = place_blocks(&[block(64, 0, 1), block(64, 1, 2), block(64, 2, 3)]);
        assert_eq!((places, total), (vec![0, 64, 0], 128));
        let (places, total) = place_blocks(&[block(10, 0, 3), block(100, 1, 2)]);
        assert_eq!((places, total), (vec![128, 0], 138));
    }
}
