//! Running a generated kernel on every engine and comparing what it leaves in memory.

use super::program::{ArrayUse, RandomProgram};
use super::random::SeededChoices;
use polyloom::{
    Arch, ArgBlock, CodeCache, CompileError, Composite, CpuDevice, GlobalSums, Kernel, LaunchError, LaunchOptions,
    PrintSink, Scalar, Session, SessionError, SimOptions, SourceFile, SourceUnit, Tier, TierPolicy, Trap, Type,
    scalar_bits, set_print_sink, sim_queue,
};
use std::cell::RefCell;
use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Once};

/// Largest extent of an array along one axis, by rank.
const EXTENTS: [u64; 3] = [70, 9, 5];
/// The same for the few launches that are longer.
const LONG_EXTENTS: [u64; 3] = [600, 30, 11];

/// The engines that are compared.
pub struct EngineSet {
    /// The interpreter comes first.
    engines: Vec<ComparedEngine>,
    /// The interpreter as a GPU would add, which the simulator is compared with.
    flushing: Session,
}

pub(super) struct ComparedEngine {
    pub(super) name: &'static str,
    pub(super) session: Session,
    /// The architecture, if it is the simulator.
    pub(super) simulated: Option<Arch>,
}

/// Why a program failed.
#[derive(Debug)]
pub enum Disagreement {
    /// The front end rejects what the generator takes for right.
    Rejected(Box<CompileError>),
    /// An engine fails where the first does not.
    Failed {
        /// The engine.
        engine: &'static str,
        /// Holds what it says.
        error: LaunchError,
    },
    /// Two engines leave different bits.
    Bits {
        /// The engine that differs from the interpreter.
        engine: &'static str,
        /// The array parameter.
        array: usize,
        /// The element, in row-major order.
        element: usize,
        /// The interpreter's bits.
        expected: u64,
        /// The engine's bits.
        got: u64,
        /// The element type.
        elem: Scalar,
    },
    /// An engine reports a failed check that is not the first of that thread.
    Trapped {
        /// The engine.
        engine: &'static str,
        /// Holds what it reports.
        got: Box<Trap>,
        /// Holds what the interpreter makes of that thread alone.
        expected: Result<(), LaunchError>,
    },
    /// The kernel cannot be split at its barriers.
    Interpreted,
    /// There is no C++ text, it does not compile, or it reports a failed check where there is none or the reverse.
    Text(String),
    /// Derivatives are not what they should be, or not the same everywhere.
    Derivative(String),
    /// Two engines print different text.
    Printed {
        /// The engine that differs from the interpreter.
        engine: &'static str,
        /// The first line of the interpreter's that differs.
        expected: String,
        /// The engine's.
        got: String,
    },
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::Rejected(error) => write!(f, "rejected:\n{error}"),
            Disagreement::Interpreted => f.write_str("the kernel cannot be split at its barriers"),
            Disagreement::Text(message) => write!(f, "C++ text: {message}"),
            Disagreement::Derivative(message) => f.write_str(message),
            Disagreement::Failed { engine, error } => write!(f, "{engine} fails: {error}"),
            Disagreement::Trapped { engine, got, expected } => {
                write!(f, "{engine} reports `{got}` ({got:?}); that thread alone ")?;
                match expected {
                    Ok(()) => f.write_str("runs to its end"),
                    Err(LaunchError::Trap(trap)) => write!(f, "gives `{trap}` ({trap:?})"),
                    Err(error) => write!(f, "fails: {error}"),
                }
            }
            Disagreement::Printed { engine, expected, got } => {
                write!(f, "{engine} prints `{got}`, the interpreter `{expected}`")
            }
            Disagreement::Bits { engine, array, element, expected, got, elem } => {
                let value = |bits| scalar_bits::to_f64(*elem, bits);
                write!(
                    f,
                    "{engine} differs in a{array}[{element}] ({elem}): {got:#x} ({:e}), the interpreter has {expected:#x} ({:e})",
                    value(*got),
                    value(*expected),
                )
            }
        }
    }
}

impl EngineSet {
    /// The engines of this build.
    ///
    /// # Errors
    ///
    /// If a back end does not work here.
    pub fn new() -> Result<EngineSet, SessionError> {
        static COLLECT: Once = Once::new();
        COLLECT.call_once(|| set_print_sink(Arc::new(CollectedPrints)));
        let mut engines = Vec::new();
        let tiers = [("interpreter", Tier::Interpreter), ("cranelift", Tier::Quick), ("llvm", Tier::Optimized)];
        for (name, tier) in tiers {
            if tier == Tier::Optimized && !polyloom::has_llvm() {
                continue;
            }
            let session = Session::on(device()?.with_policy(TierPolicy::Always(tier))?)?;
            engines.push(ComparedEngine { name, session, simulated: None });
        }
        if polyloom::has_compute() {
            let session = Session::on(device()?)?;
            engines.push(ComparedEngine { name: "simulator", session, simulated: Some(Arch::DEFAULT) });
        }
        let interpreter = device()?.with_policy(TierPolicy::Always(Tier::Interpreter))?;
        let flushing = Session::on(interpreter.with_interpreted_sums(GlobalSums::Flushed))?;
        Ok(EngineSet { engines, flushing })
    }

    /// The same engines, where the simulator is one of GPUs of this architecture.
    #[must_use]
    pub fn with_arch(mut self, arch: Arch) -> EngineSet {
        self.engines.iter_mut().filter_map(|engine| engine.simulated.as_mut()).for_each(|known| *known = arch);
        self
    }

    /// Returns what the engine leaves that others are compared with.
    pub(super) fn reference(&self, program: &RandomProgram, seed: u64) -> Result<LaunchOutcome, Box<Disagreement>> {
        run(&self.engines[0].session, program, seed, RunMode::Launch(None))
    }

    /// The engines, the interpreter first.
    pub(super) fn all(&self) -> &[ComparedEngine] {
        &self.engines
    }

    /// Names of the engines, the reference first.
    pub fn names(&self) -> Vec<&'static str> {
        self.engines.iter().map(|engine| engine.name).collect()
    }

    /// Runs a program on all engines with arguments drawn from `seed`.
    ///
    /// # Errors
    ///
    /// The first disagreement with the interpreter. Where a check fails, every engine must report one; which thread's
    /// is up to it, but that thread must be one that the interpreter stops at the same check with the same values. If
    /// there is but one thread, what it stored and printed before is compared as well.
    pub fn check(&self, program: &RandomProgram, seed: u64) -> Result<(), Box<Disagreement>> {
        let exact = self.reference(program, seed)?;
        let adds = ["atomic_add", "atomic_sub", "+=", "-="].iter().any(|sum| program.text.contains(sum));
        for ComparedEngine { name: engine, session, simulated } in &self.engines[1..] {
            let got = run(session, program, seed, RunMode::Launch(*simulated))?;
            let flushed;
            let (interpreter, expected) = match simulated {
                Some(_) if adds => {
                    flushed = run(&self.flushing, program, seed, RunMode::Launch(None))?;
                    (&self.flushing, &flushed)
                }
                _ => (&self.engines[0].session, &exact),
            };
            match (&expected.done, &got.done) {
                (Ok(()), Ok(())) => compare(engine, expected, &got)?,
                (Err(LaunchError::Trap(trap)), Err(LaunchError::Trap(other))) if got.n_threads == 1 => {
                    if trap != other {
                        let (got, expected) = (other.clone(), expected.done.clone());
                        return Err(Box::new(Disagreement::Trapped { engine, got, expected }));
                    }
                    compare(engine, expected, &got)?;
                }
                (Err(LaunchError::Trap(_)), Err(LaunchError::Trap(trap))) => {
                    // The check alone is compared, because stores and prints depend on where the other threads stop.
                    let expected = run(interpreter, program, seed, RunMode::Thread(&trap.thread))?.done;
                    if !matches!(&expected, Err(LaunchError::Trap(alone)) if alone == trap) {
                        return Err(Box::new(Disagreement::Trapped { engine, got: trap.clone(), expected }));
                    }
                }
                (_, Err(error)) => return Err(Box::new(Disagreement::Failed { engine, error: error.clone() })),
                (Err(error), Ok(())) => {
                    return Err(Box::new(Disagreement::Failed { engine: "interpreter", error: error.clone() }));
                }
            }
        }
        Ok(())
    }
}

/// Describes what a launch leaves.
pub(super) struct LaunchOutcome {
    pub(super) done: Result<(), LaunchError>,
    buffers: Vec<GuardedBuffer>,
    /// `None` if it cannot be compared.
    printed: Option<String>,
    n_threads: u64,
}

impl LaunchOutcome {
    /// Returns what a launch that ran to its end left in memory. What it printed cannot be compared.
    pub(super) fn of_buffers(buffers: Vec<GuardedBuffer>, n_threads: u64) -> LaunchOutcome {
        LaunchOutcome { done: Ok(()), buffers, printed: None, n_threads }
    }
}

/// Describes what a program is launched with.
pub(super) struct ProgramArguments {
    pub(super) dim: Vec<u64>,
    pub(super) scalars: Vec<u64>,
    pub(super) buffers: Vec<GuardedBuffer>,
}

impl ProgramArguments {
    /// The same arguments for every engine: everything is drawn from the seed in the same order.
    pub(super) fn draw(program: &RandomProgram, seed: u64) -> ProgramArguments {
        let mut random = SeededChoices::new(seed ^ 0x005e_ed0f_a7f5);
        // Now and then a row long enough for compiled code to align what it stores.
        let most = match random.below(100) {
            0..12 => LONG_EXTENTS,
            // Some launches have one thread, because one alone fails at the same place everywhere.
            75.. if program.is_checked() => [1; 3],
            _ => EXTENTS,
        };
        let mut dim: Vec<u64> =
            (0..program.rank).map(|_| 1 + random.below(most[program.rank - 1] as usize) as u64).collect();
        if program.needs_whole_warps() {
            dim[0] = dim[0].next_multiple_of(32);
        }
        let scalars: Vec<u64> = program.scalars.iter().map(|&s| value(&mut random, s)).collect();
        let mut buffers: Vec<GuardedBuffer> = Vec::new();
        let mut shape = Vec::new();
        for array in &program.arrays {
            shape = match array.access {
                ArrayUse::Own => {
                    let rows =
                        (dim.len()..array.ndim).map(|_| 1 + random.below(EXTENTS[array.ndim - 1] as usize) as u64);
                    dim.iter().copied().chain(rows).collect()
                }
                _ if array.same_shape => shape,
                _ => (0..array.ndim).map(|_| 1 + random.below(EXTENTS[array.ndim - 1] as usize) as u64).collect(),
            };
            buffers.push(GuardedBuffer::new(&mut random, array.elem, &shape));
        }
        ProgramArguments { dim, scalars, buffers }
    }
}

/// Describes how a program is run.
#[derive(Clone, Copy)]
enum RunMode<'a> {
    /// As any launch, on the CPU or on a simulated GPU.
    Launch(Option<Arch>),
    /// Only the thread with these coordinates, by the interpreter.
    Thread(&'a [u64]),
}

/// The arguments of a launch, in the order of the kernel's parameters.
pub(super) fn argument_block(
    kernel: &Kernel,
    scalars: &[u64],
    buffers: &mut [GuardedBuffer],
) -> Result<ArgBlock, LaunchError> {
    let mut block = ArgBlock::new();
    let (mut scalars, mut arrays) = (scalars.iter().copied(), buffers.iter_mut());
    for &ty in kernel.params().types() {
        match ty {
            Type::Scalar(scalar) => block.scalar(kernel.params(), scalar, scalars.next().unwrap_or(0))?,
            Type::Array { elem, .. } => {
                let Some(buffer) = arrays.next() else { continue };
                block.array(kernel.params(), elem, buffer.base(), &buffer.shape, &buffer.strides)?;
            }
            // Generated kernels have scalars and arrays of scalars.
            Type::Composite(_) | Type::CompositeArray { .. } => {}
        }
    }
    Ok(block)
}

/// Runs a program with arguments drawn from `seed`.
fn run(
    session: &Session,
    program: &RandomProgram,
    seed: u64,
    how: RunMode<'_>,
) -> Result<LaunchOutcome, Box<Disagreement>> {
    let rejected = |error| Box::new(Disagreement::Rejected(Box::new(error)));
    let file = SourceFile::new("generated.py", program.text.as_str(), 1);
    let unit = SourceUnit::parse(file).map_err(rejected)?;
    run_kernel(session, &unit, "kernel", program, seed, how)
}

/// Runs a kernel of a file in place of the program that it is.
pub(super) fn run_unit(
    session: &Session,
    unit: &Arc<SourceUnit>,
    name: &str,
    program: &RandomProgram,
    seed: u64,
) -> Result<LaunchOutcome, Box<Disagreement>> {
    run_kernel(session, unit, name, program, seed, RunMode::Launch(None))
}

fn run_kernel(
    session: &Session,
    unit: &Arc<SourceUnit>,
    name: &str,
    program: &RandomProgram,
    seed: u64,
    how: RunMode<'_>,
) -> Result<LaunchOutcome, Box<Disagreement>> {
    let rejected = |error| Box::new(Disagreement::Rejected(Box::new(error)));
    let kernel = session.compile_file_kernel(unit, name).map_err(rejected)?;

    // Otherwise the interpreter would be compared with itself.
    if kernel.is_interpreted() {
        return Err(Box::new(Disagreement::Interpreted));
    }

    let ProgramArguments { dim, scalars, mut buffers } = ProgramArguments::draw(program, seed);
    let n_threads = dim.iter().product();
    let block = match argument_block(&kernel, &scalars, &mut buffers) {
        Ok(block) => block,
        Err(error) => return Ok(LaunchOutcome { done: Err(error), buffers, printed: None, n_threads }),
    };
    PRINTED.set(Some(String::new()));
    // SAFETY: the buffers outlive the launch and reach as far as their shapes and strides say; generated kernels
    // keep their indices in bounds or have them checked.
    let done = unsafe {
        match how {
            RunMode::Launch(None) => kernel.launch(&dim, &block, &LaunchOptions::default()).map(drop),
            RunMode::Launch(Some(arch)) => {
                let sim = SimOptions { arch: Some(arch), ..SimOptions::default() };
                let options = LaunchOptions { sim, ..LaunchOptions::default() };
                kernel.launch_on(&*sim_queue(), &dim, &block, &options).map(drop)
            }
            RunMode::Thread(coordinates) => {
                let thread = dim.iter().zip(coordinates).fold(0, |index, (extent, &at)| index * extent + at);
                kernel.interpret_thread(&dim, &block, thread)
            }
        }
    };
    let mut printed = PRINTED.take().unwrap_or_default();
    if kernel.needs_blocks() {
        // Threads of a block wait for each other at more places where the block has been split.
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        printed = lines.join("\n");
    }
    // Prints are not compared there, because on a GPU threads print in any order, and floats with other digits.
    let is_simulated = matches!(how, RunMode::Launch(Some(_)));
    let printed = Some(printed).filter(|_| !is_simulated);
    Ok(LaunchOutcome { done, buffers, printed, n_threads })
}

/// A device whose code nobody keeps, because programs made at random are no use to anybody's code cache on disk.
pub(super) fn device() -> Result<CpuDevice, SessionError> {
    Ok(Session::default_device()?.with_cache(CodeCache::in_memory()))
}

/// An array's memory with room around it, so that a stray store shows.
#[derive(Clone)]
pub(super) struct GuardedBuffer {
    elem: Scalar,
    words: Vec<u64>,
    offset: usize,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<i64>,
}

impl GuardedBuffer {
    fn new(random: &mut SeededChoices, elem: Type, outer_shape: &[u64]) -> GuardedBuffer {
        let mut shape = outer_shape.to_vec();
        let components = elem.as_composite().map(Composite::shape).unwrap_or_default();
        shape.extend(components.iter().map(|&extent| u64::from(extent)));
        let ndim = shape.len();
        let elem = elem.as_composite().map_or_else(|| elem.as_scalar(), |c| Some(c.elem())).unwrap_or(Scalar::I8);
        let bytes = i64::from(elem.bytes());
        // Dense most of the time; otherwise gaps, and sometimes an axis that runs backwards.
        let gap = if random.chance(70) { 1 } else { 1 + random.below(3) as i64 };
        let mut strides = vec![0i64; ndim];
        let mut stride = bytes * gap;
        for axis in (0..ndim).rev() {
            strides[axis] = stride;
            stride *= shape[axis] as i64;
        }
        let span = stride;
        let margin = 64 + bytes * random.below(8) as i64;
        let mut offset = margin;
        if gap > 1 && random.chance(50) {
            offset += strides[0] * (shape[0] as i64 - 1);
            strides[0] = -strides[0];
        }
        let n_words = ((span + 2 * margin) as usize).div_ceil(8) + 8;
        let mut buffer = GuardedBuffer { elem, words: vec![0; n_words], offset: offset as usize, shape, strides };
        let n = n_words * 8 / elem.bytes() as usize;
        for index in 0..n {
            let bits = value(random, elem);
            // Any byte but zero is true.
            let bits = if elem == Scalar::Bool && random.chance(10) { bits * 0x82 } else { bits };
            buffer.set(index, bits);
        }
        buffer
    }

    /// A dense array of zeros.
    pub(super) fn dense(elem: Scalar, shape: &[u64]) -> GuardedBuffer {
        let mut strides = vec![0i64; shape.len()];
        let mut stride = i64::from(elem.bytes());
        for (axis, &extent) in shape.iter().enumerate().rev() {
            strides[axis] = stride;
            stride *= extent as i64;
        }
        GuardedBuffer { elem, words: vec![0; (stride as usize).div_ceil(8)], offset: 0, shape: shape.to_vec(), strides }
    }

    pub(super) fn elem(&self) -> Scalar {
        self.elem
    }

    /// Returns where elements are, in row-major order, counted in elements from the beginning of the memory.
    fn places(&self) -> Vec<usize> {
        let mut places = vec![self.offset as i64];
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            places = places.iter().flat_map(|&at| (0..extent as i64).map(move |index| at + index * stride)).collect();
        }
        places.into_iter().map(|at| at as usize / self.elem.bytes() as usize).collect()
    }

    /// The elements in row-major order if they are `float64`, or none.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let places = if self.elem == Scalar::F64 { self.places() } else { Vec::new() };
        places.into_iter().map(|place| f64::from_bits(self.get(place))).collect()
    }

    /// Sets the elements that [`GuardedBuffer::numbers`] gives.
    pub(super) fn set_numbers(&mut self, numbers: &[f64]) {
        let places = if self.elem == Scalar::F64 { self.places() } else { Vec::new() };
        for (place, number) in places.into_iter().zip(numbers) {
            self.set(place, number.to_bits());
        }
    }

    pub(super) fn base(&mut self) -> *mut u8 {
        // Within the allocation by construction.
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.offset)
    }

    fn set(&mut self, index: usize, bits: u64) {
        let (at, width) = self.place(index);
        let mask = (u64::MAX >> (64 - width)) << (at % 64);
        let word = &mut self.words[at / 64];
        *word = *word & !mask | (bits << (at % 64)) & mask;
    }

    pub(super) fn get(&self, index: usize) -> u64 {
        let (at, width) = self.place(index);
        (self.words[at / 64] >> (at % 64)) & (u64::MAX >> (64 - width))
    }

    fn place(&self, index: usize) -> (usize, usize) {
        let width = self.elem.bytes() as usize * 8;
        (index * width, width)
    }
}

/// All of memory is compared, what lies between and around the elements too. Any NaN equals any NaN.
pub(super) fn compare(
    engine: &'static str,
    expected: &LaunchOutcome,
    got: &LaunchOutcome,
) -> Result<(), Box<Disagreement>> {
    for (array, (expected, buffer)) in expected.buffers.iter().zip(&got.buffers).enumerate() {
        let elem = expected.elem;
        for element in 0..expected.words.len() * 8 / elem.bytes() as usize {
            let (want, have) = (expected.get(element), buffer.get(element));
            let both_nan = || {
                elem.is_float() && scalar_bits::to_f64(elem, want).is_nan() && scalar_bits::to_f64(elem, have).is_nan()
            };
            if want != have && !both_nan() {
                return Err(Box::new(Disagreement::Bits { engine, array, element, expected: want, got: have, elem }));
            }
        }
    }
    match (&expected.printed, &got.printed) {
        (Some(expected), Some(got)) => compare_text(engine, expected, got),
        _ => Ok(()),
    }
}

fn compare_text(engine: &'static str, expected: &str, got: &str) -> Result<(), Box<Disagreement>> {
    if expected == got {
        return Ok(());
    }
    let (mut expected, mut got) = (expected.lines(), got.lines());
    loop {
        let (want, have) = (expected.next().unwrap_or("nothing"), got.next().unwrap_or("nothing"));
        if want != have || want == "nothing" {
            return Err(Box::new(Disagreement::Printed { engine, expected: want.to_owned(), got: have.to_owned() }));
        }
    }
}

/// Runs kernels whose prints nobody looks at.
pub(super) fn silently<T>(work: impl FnOnce() -> T) -> T {
    PRINTED.set(Some(String::new()));
    let done = work();
    PRINTED.set(None);
    done
}

thread_local! {
    /// Holds what the launches of this thread print, while a program runs.
    static PRINTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what generated kernels print; a launch prints on the thread that called it.
struct CollectedPrints;

impl PrintSink for CollectedPrints {
    fn write(&self, text: &str) {
        let kept = PRINTED.with_borrow_mut(|printed| printed.as_mut().map(|printed| printed.push_str(text)).is_some());
        if !kept {
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
        }
    }
}

/// A value of a type: often small, sometimes at an edge.
fn value(random: &mut SeededChoices, scalar: Scalar) -> u64 {
    if scalar == Scalar::Bool {
        return random.next() & 1;
    }
    let mask = u64::MAX >> (64 - scalar.bits());
    if scalar.is_float() {
        const EDGES: [f64; 14] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1e-40,
            -1e-310,
            3e38,
            -1e300,
            65504.0,
            0.5,
            1e-8,
        ];
        return match random.below(8) {
            0 => scalar_bits::from_f64(scalar, *random.pick(&EDGES)),
            1 => random.next() & mask,
            _ => scalar_bits::from_f64(scalar, (random.next() >> 11) as f64 / (1u64 << 53) as f64 * 20.0 - 10.0),
        };
    }
    match random.below(6) {
        0 => *random.pick(&[0, 1, mask, mask >> 1, (mask >> 1) + 1, mask - 1]),
        1 => random.next() & mask,
        _ => {
            (random.below(40) as u64).wrapping_sub(20)
                & if scalar.is_signed_int() { mask } else { mask >> (scalar.bits() - 5).min(63) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_programs_stay_out_of_the_users_code_cache() {
        let engines = EngineSet::new().expect("the back ends work here");
        for ComparedEngine { name, session, .. } in &engines.engines {
            assert_eq!(session.device().cache().directory(), None, "{name}");
        }
    }
}
