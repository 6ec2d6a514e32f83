//! Functions of tensors in artifacts: their plans as kernels of the library, and a function that calls these in order.
//!
//! A graph of known extents is planned for one thread and for the vectors of each kind of processor, as a call of the fused function plans
//! it, or as a recipe says. Where callers choose an extent, the function is planned for each of its values, and values whose plans differ in
//! numbers that grow evenly with it share their steps: what runs is always a plan that has been made.

use super::{ArtifactError, ArtifactKind};
use crate::emit_options::EmitError;
use crate::executor::{ArenaBlock, CallArg, CallMemory, ExecutablePath, HostArrays, PathCall, PathCalls, place_blocks};
use crate::kernel::Kernel;
use crate::native_function::{NativeParts, describe_site};
use crate::session::Session;
use polyloom_codegen::sequence::{
    ChosenExtent, SequenceArg, SequenceAxis, SequenceChecks, SequenceNumber, SequencePlace, SequenceStep,
    SequenceVariant,
};
use polyloom_codegen::{NativeCpu, NativeParam, NativeReturn, NativeSignature, WORKSPACE_ALIGN};
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::recipe::{KernelGroup, KernelParameters, RecipeIdentity, RecipeStep, VerifiedRecipe};
use polyloom_graph::registry::{KernelForm, PLANNED};
use polyloom_graph::{Backend, Graph, Layout, Recipe, Residence, SymbolValues, TensorDef, TensorType};
use polyloom_ir::{FloatMode, MAX_AXES, Scalar, Type};
use polyloom_runtime::Processor;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Chooses a tensor among the types of a function's inputs and outputs.
type TypeOfTensor<'a> = dyn Fn(&(Vec<TensorType>, Vec<TensorType>)) -> Option<TensorType> + 'a;

/// The most ranges of an extent with steps of their own.
const MAX_VARIANTS: usize = 256;

/// A recipe that a function of tensors runs.
#[derive(Clone, Debug)]
pub struct FusedRecipe {
    /// The recipe.
    pub verified: VerifiedRecipe,
    /// The numbers that the symbols of its program stand for.
    pub symbols: SymbolValues,
    /// For each input of its program the function's input that it is.
    pub inputs: Vec<usize>,
}

/// A function of tensors for known extents.
#[derive(Clone, Debug)]
pub struct FusedVariant {
    /// The extent that callers choose, if they choose one.
    pub extent: Option<u64>,
    /// Says what it computes. It takes no Python numbers.
    pub graph: Graph,
    /// Says how it runs; in one plan of all ops unless given.
    pub recipe: Option<FusedRecipe>,
}

/// The place where callers choose an extent of a function of tensors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FusedExtent {
    /// Says what it is called.
    pub name: String,
    /// The input that tells it.
    pub input: usize,
    /// The axis of the input.
    pub axis: usize,
}

/// A function of tensors that an artifact is to have.
#[derive(Clone, Debug)]
pub struct FusedFunction {
    /// Its name.
    pub name: String,
    /// Says what it was in the source.
    pub kind: ArtifactKind,
    /// Its name and parameters in the source.
    pub source_signature: String,
    /// The names of its inputs.
    pub inputs: Vec<String>,
    /// The names of its results.
    pub outputs: Vec<String>,
    /// The extent that callers choose, if they choose one: the variants are those of all of its values, in ascending order.
    pub chosen: Option<FusedExtent>,
    /// The mode of its floating-point arithmetic.
    pub float_mode: FloatMode,
    /// It for each of the extents; one if callers choose none.
    pub variants: Vec<FusedVariant>,
}

/// A sequence for one kind of processor.
#[cfg_attr(not(feature = "_llvm"), expect(dead_code, reason = "without LLVM nothing is written"))]
pub(super) struct CpuSequence {
    pub(super) kernels: Vec<SequenceKernel>,
    pub(super) variants: Vec<SequenceVariant>,
}

/// A kernel of a sequence.
#[cfg_attr(not(feature = "_llvm"), expect(dead_code, reason = "without LLVM nothing is written"))]
pub(super) struct SequenceKernel {
    pub(super) parts: NativeParts,
    /// Says what is added to its status.
    pub(super) first_check: i32,
}

/// A function of tensors, compiled as far as the kernels that each kind of processor runs.
pub(super) struct FusedCode {
    pub(super) signature: NativeSignature,
    pub(super) demands: SequenceChecks,
    pub(super) checks: Vec<String>,
    pub(super) cpus: Vec<CpuSequence>,
}

/// The inputs and outputs, with extents as they follow from the extent that callers choose.
struct Interface {
    inputs: Vec<(Scalar, Vec<SequenceNumber>)>,
    outputs: Vec<(Scalar, Vec<SequenceNumber>)>,
}

impl FusedFunction {
    /// Plans and compiles the function as far as its kernels.
    pub(super) fn code(&self, session: &Session, name: &str, cpus: &[NativeCpu]) -> Result<FusedCode, ArtifactError> {
        self.compile(session, name, cpus).map_err(|error| match error {
            FusedError::Artifact(error) => error,
            FusedError::Refused(message) => ArtifactError::Fused { name: self.name.clone(), message },
        })
    }

    fn compile(&self, session: &Session, name: &str, cpus: &[NativeCpu]) -> Result<FusedCode, FusedError> {
        let interface = self.interface()?;
        let mut signature = self.signature(name, &interface);
        let demands = self.demands(&interface);
        let mut checks = demands.texts(&signature);
        let mut sequences = Vec::new();
        for &cpu in cpus {
            let made = self.sequence(session, name, cpu, &interface, &mut checks)?;
            signature.workspace_bytes = signature.workspace_bytes.max(made.1);
            sequences.push(made.0);
        }
        Ok(FusedCode { signature, demands, checks, cpus: sequences })
    }

    /// Finds how the extents of inputs and results depend on the extent that callers choose.
    fn interface(&self) -> Result<Interface, FusedError> {
        let types = |variant: &FusedVariant| -> Result<(Vec<TensorType>, Vec<TensorType>), FusedError> {
            let outputs = variant.graph.outputs.iter().map(|&output| {
                let value = variant.graph.value(output).ok_or_else(|| refused("a result has no value"))?;
                Ok(value.ty.clone())
            });
            Ok((
                variant.graph.inputs().map(|(_, ty)| ty.clone()).collect(),
                outputs.collect::<Result<_, FusedError>>()?,
            ))
        };
        let all: Vec<_> = self.variants.iter().map(types).collect::<Result<_, FusedError>>()?;
        let Some((inputs, outputs)) = all.first() else { return Err(refused("it has no extents to be built for")) };
        if inputs.len() != self.inputs.len() || outputs.len() != self.outputs.len() {
            return Err(refused("internal error: its graph has other arguments"));
        }
        let of = |what: &TypeOfTensor, name: &str| {
            let each = all.iter().map(|types| {
                what(types).ok_or_else(|| refused("it gives another number of results for other extents"))
            });
            self.extents_of(&each.collect::<Result<Vec<_>, _>>()?, name)
        };
        let made = Interface {
            inputs: (0..inputs.len())
                .map(|n| of(&|types| types.0.get(n).cloned(), &self.inputs[n]))
                .collect::<Result<_, _>>()?,
            outputs: (0..outputs.len())
                .map(|n| of(&|types| types.1.get(n).cloned(), &self.outputs[n]))
                .collect::<Result<_, _>>()?,
        };
        if all.iter().any(|types| types.1.len() != outputs.len()) {
            return Err(refused("it gives another number of results for other extents"));
        }
        Ok(made)
    }

    fn extents_of(&self, types: &[TensorType], name: &str) -> Result<(Scalar, Vec<SequenceNumber>), FusedError> {
        let dtype = types[0].dtype;
        let known = types.iter().map(|ty| ty.shape.as_static().ok_or_else(|| refused("an extent is not known")));
        let shapes: Vec<Vec<u64>> = known.collect::<Result<_, _>>()?;
        if shapes[0].len() > MAX_AXES {
            let message =
                format!("`{name}` has {} axes, and arrays of a library have {MAX_AXES} at most", shapes[0].len());
            return Err(refused(message));
        }
        if shapes.iter().any(|shape| shape.iter().any(|&extent| extent > i32::MAX as u64)) {
            return Err(refused(format!("`{name}` has an extent of more than {}", i32::MAX)));
        }
        let is_alike = |(ty, shape): (&TensorType, &Vec<u64>)| ty.dtype == dtype && shape.len() == shapes[0].len();
        if !types.iter().zip(&shapes).all(is_alike) {
            return Err(refused(format!("`{name}` has another type or number of axes for other extents")));
        }
        let fit = |axis: usize| {
            let values: Vec<i64> = shapes.iter().map(|shape| shape[axis] as i64).collect();
            let chosen: Vec<i64> = self.chosen_values();
            let number = even_growth(&chosen, &values);
            let message = || {
                format!(
                    "the extent of axis {axis} of `{name}` does not grow evenly with the extent that callers choose"
                )
            };
            number.ok_or_else(|| refused(message()))
        };
        Ok((dtype, (0..shapes[0].len()).map(fit).collect::<Result<_, _>>()?))
    }

    /// The values of the extent that callers choose; 0 where they choose none.
    fn chosen_values(&self) -> Vec<i64> {
        self.variants.iter().map(|variant| variant.extent.unwrap_or(0) as i64).collect()
    }

    fn signature(&self, name: &str, interface: &Interface) -> NativeSignature {
        let param = |name: &String, (dtype, shape): &(Scalar, Vec<SequenceNumber>), is_written| {
            let ty = if shape.is_empty() { Type::Scalar(*dtype) } else { Type::array(*dtype, shape.len() as u8) };
            NativeParam { name: name.as_str().into(), ty, is_written }
        };
        let inputs = self.inputs.iter().zip(&interface.inputs).map(|(name, of)| param(name, of, false));
        let outputs = self.outputs.iter().zip(&interface.outputs).filter(|(_, (_, shape))| !shape.is_empty());
        let results = interface.outputs.iter().filter(|(_, shape)| shape.is_empty());
        NativeSignature {
            name: name.into(),
            launch_rank: 0,
            params: inputs.chain(outputs.map(|(name, of)| param(name, of, true))).collect(),
            results: results.map(|(dtype, _)| Type::Scalar(*dtype)).collect(),
            returns: NativeReturn::Status,
            workspace_bytes: 0,
        }
    }

    fn demands(&self, interface: &Interface) -> SequenceChecks {
        let shape = |(_, shape): &(Scalar, Vec<SequenceNumber>)| (!shape.is_empty()).then(|| shape.clone());
        let outputs = interface.outputs.iter().filter(|(_, shape)| !shape.is_empty());
        let chosen = self.chosen.as_ref().map(|chosen| {
            let extent = |variant: Option<&FusedVariant>| variant.and_then(|variant| variant.extent).unwrap_or(0);
            ChosenExtent {
                name: chosen.name.as_str().into(),
                place: (chosen.input, chosen.axis),
                range: (extent(self.variants.first()), extent(self.variants.last())),
            }
        });
        SequenceChecks { shapes: interface.inputs.iter().chain(outputs).map(shape).collect(), chosen }
    }

    /// Makes the sequence for a kind of processor; gives the bytes of its workspace too, and adds the checks of its kernels.
    fn sequence(
        &self,
        session: &Session,
        name: &str,
        cpu: NativeCpu,
        interface: &Interface,
        checks: &mut Vec<String>,
    ) -> Result<(CpuSequence, u64), FusedError> {
        let options = PlanOptions {
            float_mode: self.float_mode,
            // One thread runs all of it.
            n_workers: 1,
            vector_bytes: vector_bytes(cpu),
            ..PlanOptions::default()
        };
        let paths = self.variants.iter().map(|variant| variant.calls(session, &options));
        let paths: Vec<PathCalls> = paths.collect::<Result<_, _>>()?;
        let mut kernels = KernelList::default();
        for call in paths.iter().flat_map(|path| &path.calls) {
            if let PathCall::Kernel { kernel, .. } = call {
                kernels.add(kernel, name, checks)?;
            }
        }
        let mut arenas = Arenas::default();
        paths.iter().for_each(|path| arenas.add(&path.blocks));
        let (places, arena_bytes) = arenas.place();
        let of_kernels = kernels.made.iter().map(|kernel| kernel.parts.signature.workspace_bytes).max().unwrap_or(0);
        let workspace = arena_bytes.next_multiple_of(WORKSPACE_ALIGN);
        let bytes = match (arena_bytes, of_kernels) {
            (0, 0) => 0,
            (_, 0) => arena_bytes + WORKSPACE_ALIGN - 1,
            _ => workspace + of_kernels + WORKSPACE_ALIGN - 1,
        };
        let mut folded = FoldedVariants::default();
        for (variant, path) in self.variants.iter().zip(&paths) {
            let offsets = &places[&lifetimes(&path.blocks)];
            let steps = StepWriter { interface, offsets, kernels: &kernels, workspace }.steps(path)?;
            folded.add(variant.extent.unwrap_or(0), steps);
        }
        let variants = folded.finish();
        if variants.len() > MAX_VARIANTS {
            return Err(refused(format!(
                "its plan changes {} times as the extent grows, and {MAX_VARIANTS} is the most: give a smaller range",
                variants.len()
            )));
        }
        Ok((CpuSequence { kernels: kernels.made, variants }, bytes))
    }
}

enum FusedError {
    Artifact(ArtifactError),
    Refused(String),
}

impl From<EmitError> for FusedError {
    fn from(error: EmitError) -> FusedError {
        FusedError::Artifact(error.into())
    }
}

fn refused(message: impl Into<String>) -> FusedError {
    FusedError::Refused(message.into())
}

/// Returns the bytes of the vectors of a kind of processor, by which tiles of products are sized.
fn vector_bytes(cpu: NativeCpu) -> u32 {
    match cpu {
        NativeCpu::Baseline | NativeCpu::Neon => 16,
        NativeCpu::Avx2 => 32,
        NativeCpu::Avx512 => 64,
        NativeCpu::Native => Processor::host().vector_bytes,
    }
}

/// Returns the number that grows evenly with another, given some values of both; none if it does not.
fn even_growth(chosen: &[i64], values: &[i64]) -> Option<SequenceNumber> {
    let (&first, &value) = (chosen.first()?, values.first()?);
    let slope = match (chosen.get(1), values.get(1)) {
        (Some(&next), Some(&next_value)) => {
            let (run, rise) = (next - first, next_value - value);
            if run == 0 || rise % run != 0 {
                return None;
            }
            rise / run
        }
        _ => 0,
    };
    let number = SequenceNumber { constant: value - slope * first, slope };
    let fits = |(&chosen, &value): (&i64, &i64)| number.constant + number.slope * chosen == value;
    chosen.iter().zip(values).all(fits).then_some(number)
}

impl FusedVariant {
    fn calls(&self, session: &Session, options: &PlanOptions) -> Result<PathCalls, FusedError> {
        let whole;
        let (verified, symbols, order) = match &self.recipe {
            Some(recipe) => {
                let others: Vec<&str> = recipe
                    .verified
                    .recipe
                    .backends()
                    .into_iter()
                    .filter(|&backend| backend != Backend::CpuNative)
                    .map(Backend::name)
                    .collect();
                if !others.is_empty() {
                    return Err(refused(format!(
                        "its recipe runs on {}, and a library has native code for the CPU alone ({}): choose a path by --backend {}",
                        others.join(" and "),
                        Backend::CpuNative.name(),
                        Backend::CpuNative.name(),
                    )));
                }
                (&recipe.verified, recipe.symbols.clone(), recipe.inputs.clone())
            }
            None => {
                whole = whole_recipe(&self.graph)?;
                (&whole, SymbolValues::default(), (0..self.graph.inputs().count()).collect())
            }
        };
        let types: Vec<&TensorType> = self.graph.inputs().map(|(_, ty)| ty).collect();
        let layouts = order.iter().map(|&input| {
            let extents = types.get(input).and_then(|ty| ty.shape.as_static());
            extents.map(|extents| Layout::dense(&extents)).ok_or_else(|| refused("an extent is not known"))
        });
        let layouts: Vec<Layout> = layouts.collect::<Result<_, _>>()?;
        let library = HostArrays::default();
        let path = ExecutablePath::compile(session, verified, &symbols, &layouts, options, &library)
            .map_err(|error| refused(error.to_string()))?;
        let mut calls = path.calls().map_err(refused)?;
        // Inputs by the function's own order.
        let of_function = |memory: &mut CallMemory| {
            if let CallMemory::Input(input) = memory {
                *input = order[*input];
            }
        };
        for call in &mut calls.calls {
            match call {
                PathCall::Kernel { args, .. } => args.iter_mut().for_each(|arg| {
                    if let CallArg::Array { memory, .. } = arg {
                        of_function(memory);
                    }
                }),
                PathCall::Copy { from, .. } => of_function(from),
            }
        }
        Ok(calls)
    }
}

/// Returns the recipe by which a graph is one plan.
fn whole_recipe(graph: &Graph) -> Result<VerifiedRecipe, FusedError> {
    let is_op = |(id, value): (polyloom_graph::TensorId, &polyloom_graph::TensorValue)| {
        matches!(value.def, TensorDef::Op { .. }).then_some(id.0)
    };
    let nodes: Vec<u32> = graph.iter().filter_map(is_op).collect();
    if nodes.is_empty() {
        return Err(refused("it calls no op, so that there is nothing to compute"));
    }
    let group = KernelGroup {
        backend: Backend::CpuNative,
        form: KernelForm::Fused,
        kernel: PLANNED.to_owned(),
        nodes,
        parameters: KernelParameters::default(),
    };
    let recipe = Recipe {
        version: Recipe::VERSION,
        graph: [0; 32],
        identity: RecipeIdentity::Bits,
        inputs: vec![Residence::Numpy; graph.inputs().count()],
        outputs: Residence::Numpy,
        program: String::new(),
        steps: vec![RecipeStep::Run(group)],
    };
    Ok(VerifiedRecipe { recipe, program: graph.clone() })
}

/// The kernels of a sequence, each once.
#[derive(Default)]
struct KernelList {
    kernels: Vec<Arc<Kernel>>,
    made: Vec<SequenceKernel>,
}

impl KernelList {
    fn place(&self, kernel: &Arc<Kernel>) -> Option<usize> {
        self.kernels.iter().position(|known| Arc::ptr_eq(known, kernel))
    }

    fn add(&mut self, kernel: &Arc<Kernel>, name: &str, checks: &mut Vec<String>) -> Result<(), FusedError> {
        if self.place(kernel).is_some() {
            return Ok(());
        }
        let parts = NativeParts::of(kernel, &format!("{name}_k{}", self.made.len()), &[])?;
        let first_check = i32::try_from(checks.len()).unwrap_or(i32::MAX);
        checks.extend(parts.sites.iter().map(|site| describe_site(kernel, site).message));
        self.kernels.push(kernel.clone());
        self.made.push(SequenceKernel { parts, first_check });
        Ok(())
    }
}

/// The calls that each block lives for.
type Lifetimes = Vec<(usize, usize)>;

fn lifetimes(blocks: &[ArenaBlock]) -> Lifetimes {
    blocks.iter().map(|block| (block.first, block.last)).collect()
}

/// The places of blocks, by the calls that they live for.
type BlockPlaces = FxHashMap<Lifetimes, Vec<u64>>;

/// Blocks by the calls that they live for. Those of plans with the same calls have the same places, so that the plans are alike.
#[derive(Default)]
struct Arenas {
    bytes: FxHashMap<Lifetimes, Vec<u64>>,
}

impl Arenas {
    fn add(&mut self, blocks: &[ArenaBlock]) {
        let bytes = self.bytes.entry(lifetimes(blocks)).or_insert_with(|| vec![0; blocks.len()]);
        bytes.iter_mut().zip(blocks).for_each(|(bytes, block)| *bytes = (*bytes).max(block.n_bytes));
    }

    /// Gives the places, and the bytes of the largest.
    fn place(self) -> (BlockPlaces, u64) {
        let mut total = 0;
        let places = self.bytes.into_iter().map(|(lifetimes, bytes)| {
            let blocks: Vec<ArenaBlock> = lifetimes
                .iter()
                .zip(bytes)
                // Nothing is placed that no call has.
                .map(|(&(first, last), n_bytes)| ArenaBlock {
                    n_bytes: if first > last { 0 } else { n_bytes },
                    first,
                    last,
                })
                .collect();
            let (places, n_bytes) = place_blocks(&blocks);
            total = total.max(n_bytes);
            (lifetimes, places)
        });
        let places = places.collect();
        (places, total)
    }
}

/// Writes the steps of a path.
struct StepWriter<'a> {
    interface: &'a Interface,
    offsets: &'a [u64],
    kernels: &'a KernelList,
    /// The place of the kernels' own workspace.
    workspace: u64,
}

impl StepWriter<'_> {
    fn steps(&self, path: &PathCalls) -> Result<Vec<SequenceStep>, FusedError> {
        let mut steps = Vec::new();
        for call in &path.calls {
            match call {
                PathCall::Kernel { extents, .. } if extents.contains(&0) => {}
                PathCall::Kernel { kernel, extents, args } => steps.push(self.call(kernel, extents, args)?),
                PathCall::Copy { dtype, from, layout, to } => {
                    let bytes = i64::from(dtype.bytes());
                    let axes = layout.extents.iter().zip(&layout.strides);
                    let axes = axes.map(|(&extent, &stride)| SequenceAxis {
                        extent: SequenceNumber::fixed(extent as i64),
                        stride: SequenceNumber::fixed(stride * bytes),
                    });
                    steps.push(SequenceStep::Copy {
                        elem_bytes: dtype.bytes(),
                        from: self.place(*from),
                        byte_offset: SequenceNumber::fixed(layout.offset * bytes),
                        axes: axes.collect(),
                        to: self.place(*to),
                    });
                }
            }
        }
        Ok(steps)
    }

    fn call(&self, kernel: &Arc<Kernel>, extents: &[u64], args: &[CallArg]) -> Result<SequenceStep, FusedError> {
        let unknown = || refused("internal error: a kernel is called that has not been compiled");
        let callee = self.kernels.place(kernel).ok_or_else(unknown)?;
        let signature = &self.kernels.made[callee].parts.signature;
        let n_threads = extents.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
        if n_threads.is_none_or(|n| n > i32::MAX as u64) {
            return Err(refused(format!("a kernel of it has more than {} threads", i32::MAX)));
        }
        // Of axes that the kernel does not ask for, one thread does the work of all.
        let launched = (0..usize::from(signature.launch_rank)).map(|axis| extents.get(axis).copied().unwrap_or(1));
        let given = args.iter().map(|arg| match *arg {
            CallArg::Array { n_elements, .. } if n_elements > i32::MAX as u64 => {
                Err(refused(format!("it has an array of more than {} elements", i32::MAX)))
            }
            CallArg::Array { memory, byte_offset, n_elements } => Ok(SequenceArg::Array {
                place: self.place(memory),
                byte_offset: SequenceNumber::fixed(byte_offset),
                n_elements: SequenceNumber::fixed(n_elements as i64),
            }),
            CallArg::Scalar { dtype, bits } if dtype.is_float() || dtype == Scalar::Bool => Ok(SequenceArg::Bits(bits)),
            CallArg::Scalar { dtype, bits } => {
                let unused = 64 - dtype.bits();
                let value = match dtype.is_signed_int() {
                    true => (bits << unused).cast_signed() >> unused,
                    false => bits.cast_signed(),
                };
                Ok(SequenceArg::Integer(SequenceNumber::fixed(value)))
            }
        });
        Ok(SequenceStep::Call {
            callee,
            extents: launched.map(|extent| SequenceNumber::fixed(extent as i64)).collect(),
            args: given.collect::<Result<_, _>>()?,
            workspace: self.workspace,
        })
    }

    /// Returns the place of memory. Arrays are given before results that are numbers.
    fn place(&self, memory: CallMemory) -> SequencePlace {
        let Interface { inputs, outputs } = self.interface;
        match memory {
            CallMemory::Input(input) => SequencePlace::Argument(input),
            CallMemory::Block(block) => SequencePlace::Workspace(self.offsets[block]),
            CallMemory::Output(output) => {
                let is_number = |(_, shape): &(Scalar, Vec<SequenceNumber>)| shape.is_empty();
                let before = &outputs[..output];
                SequencePlace::Argument(match is_number(&outputs[output]) {
                    false => inputs.len() + before.iter().filter(|each| !is_number(each)).count(),
                    true => {
                        let n_arrays = outputs.iter().filter(|each| !is_number(each)).count();
                        inputs.len() + n_arrays + before.iter().filter(|each| is_number(each)).count()
                    }
                })
            }
        }
    }
}

/// Variants whose steps are alike but for numbers that grow evenly with the extent.
#[derive(Default)]
struct FoldedVariants {
    done: Vec<SequenceVariant>,
    current: Option<FoldedVariant>,
}

struct FoldedVariant {
    /// The steps with all numbers 0.
    form: Vec<SequenceStep>,
    extents: Vec<i64>,
    /// For each extent the numbers.
    first: Vec<i64>,
    slopes: Option<Vec<i64>>,
}

fn taken_apart(mut steps: Vec<SequenceStep>) -> (Vec<SequenceStep>, Vec<i64>) {
    let mut numbers = Vec::new();
    for step in &mut steps {
        step.visit_numbers(&mut |number| numbers.push(std::mem::take(number).constant));
    }
    (steps, numbers)
}

impl FoldedVariant {
    /// Takes the steps for another extent in; false if they are others.
    fn takes(&mut self, extent: i64, form: &[SequenceStep], numbers: &[i64]) -> bool {
        let &[first, .., last] = &self.extents[..] else {
            let first = self.extents[0];
            if extent != first + 1 || self.form != form {
                return false;
            }
            self.slopes = Some(self.first.iter().zip(numbers).map(|(a, b)| b - a).collect());
            self.extents.push(extent);
            return true;
        };
        let Some(slopes) = &self.slopes else { return false };
        let grows = |((&begin, &slope), &number): ((&i64, &i64), &i64)| begin + slope * (extent - first) == number;
        let is_alike = extent == last + 1 && self.form == form && self.first.iter().zip(slopes).zip(numbers).all(grows);
        if is_alike {
            self.extents.push(extent);
        }
        is_alike
    }

    fn finish(self) -> SequenceVariant {
        let (first, last) = (self.extents[0], self.extents[self.extents.len() - 1]);
        let slopes = self.slopes.unwrap_or_else(|| vec![0; self.first.len()]);
        let mut numbers = self.first.iter().zip(slopes);
        let mut steps = self.form;
        for step in &mut steps {
            step.visit_numbers(&mut |number| {
                if let Some((&begin, slope)) = numbers.next() {
                    *number = SequenceNumber { constant: begin - slope * first, slope };
                }
            });
        }
        SequenceVariant { range: (first as u64, last as u64), steps }
    }
}

impl FoldedVariants {
    fn add(&mut self, extent: u64, steps: Vec<SequenceStep>) {
        let (form, numbers) = taken_apart(steps);
        let extent = extent as i64;
        if let Some(current) = &mut self.current
            && current.takes(extent, &form, &numbers)
        {
            return;
        }
        let next = FoldedVariant { form, extents: vec![extent], first: numbers, slopes: None };
        self.done.extend(self.current.replace(next).map(FoldedVariant::finish));
    }

    fn finish(mut self) -> Vec<SequenceVariant> {
        self.done.extend(self.current.take().map(FoldedVariant::finish));
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::{FoldedVariants, even_growth};
    use polyloom_codegen::sequence::{SequenceNumber, SequenceStep};

    fn steps(extent: i64, callee: usize) -> Vec<SequenceStep> {
        let extents = vec![SequenceNumber::fixed(extent), SequenceNumber::fixed(7)];
        vec![SequenceStep::Call { callee, extents, args: Vec::new(), workspace: 0 }]
    }

    #[test]
    fn numbers_that_grow_evenly_share_steps() {
        let mut folded = FoldedVariants::default();
        for extent in 3..=9 {
            folded.add(extent, steps(5 * extent as i64 + 1, 0));
        }
        folded.add(10, steps(51, 1));
        // Tiles of four rows: the number of tiles grows by steps.
        for extent in 11..=16u64 {
            folded.add(extent, steps(extent.div_ceil(4) as i64, 1));
        }
        let made = folded.finish();
        let ranges: Vec<(u64, u64)> = made.iter().map(|variant| variant.range).collect();
        assert_eq!(ranges[0], (3, 9));
        assert_eq!(ranges.iter().map(|(low, high)| high - low + 1).sum::<u64>(), 14);
        for (range, variant) in ranges.iter().zip(&made) {
            let SequenceStep::Call { callee, extents, .. } = &variant.steps[0] else { panic!("it is a call") };
            for extent in range.0..=range.1 {
                let expected = match extent {
                    3..=9 => (0, 5 * extent as i64 + 1),
                    10 => (1, 51),
                    _ => (1, extent.div_ceil(4) as i64),
                };
                let number = extents[0].constant + extents[0].slope * extent as i64;
                assert_eq!((*callee, number), expected, "at {extent}");
                assert_eq!((extents[1].constant, extents[1].slope), (7, 0));
            }
        }
    }

    #[test]
    fn what_grows_by_steps_is_no_extent() {
        assert_eq!(even_growth(&[1, 2, 3], &[3, 5, 7]), Some(SequenceNumber { constant: 1, slope: 2 }));
        assert_eq!(even_growth(&[1, 2, 3], &[1, 1, 2]), None);
        assert_eq!(even_growth(&[0], &[9]), Some(SequenceNumber::fixed(9)));
    }
}
