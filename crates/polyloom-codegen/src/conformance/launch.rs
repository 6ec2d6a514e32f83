//! Running kernels over buffers, and comparing them with the interpreter.

use super::{EngineSubject, HirPreparation};
use crate::abi::{ArgLayout, LaunchContext, SiteKind, SiteTable};
use crate::backend::{ArgFacts, ArrayFacts, LoadedCode};
use polyloom_ir::interp::{
    ArrayArg, BufferMemory, InterpArg, InterpError, InterpHost, InterpTrap, Interpreter, PrintingHost,
};
use polyloom_ir::{FuncId, Function, MAX_AXES, MAX_DIMS, Module, Scalar, Type, parse_module, verify_module};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// A failed check as compiled code reports it: site, index, extent, thread.
pub type Trapped = (u32, i64, i64, u64);

/// Describes what a launch did beside changing its buffers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LaunchEvents {
    /// Failed checks.
    pub traps: Vec<Trapped>,
    /// Printed values: site and slots.
    pub prints: Vec<(u32, Vec<u64>)>,
    /// Printed text, of engines that hand over no values.
    pub text: String,
}

/// Code for a device, which has memory of its own.
pub trait DeviceCode {
    /// Runs all threads of a launch.
    fn launch(&self, kernel: &Function, shape: &[u64], args: &[InterpArg], memory: &mut BufferMemory) -> LaunchEvents;
}

/// A kernel that is ready to run.
pub enum ReadyKernel {
    /// Machine code.
    Machine(Arc<dyn LoadedCode>),
    /// Code for a device.
    Device(Box<dyn DeviceCode>),
    /// The interpreter's own form.
    Interpreted(Interpreter),
}

struct EventRecorder {
    events: RefCell<LaunchEvents>,
    /// Number of slots each site prints.
    slots: Vec<usize>,
}

extern "C" fn record_trap(context: *const LaunchContext, site: u32, index: i64, extent: i64, thread: u64) {
    // SAFETY: `run` passes a context whose data is a `EventRecorder` that outlives the call.
    let recorder = unsafe { &*(*context).data.cast::<EventRecorder>() };
    recorder.events.borrow_mut().traps.push((site, index, extent, thread));
}

extern "C" fn record_print(context: *const LaunchContext, site: u32, values: *const u64) {
    // SAFETY: as above; the site's slots lie at `values`.
    let recorder = unsafe { &*(*context).data.cast::<EventRecorder>() };
    let n = recorder.slots[site as usize];
    // SAFETY: as above.
    let values = unsafe { std::slice::from_raw_parts(values, n) };
    recorder.events.borrow_mut().prints.push((site, values.to_vec()));
}

/// Buffers at 64-byte boundaries.
struct AlignedBuffers {
    words: Vec<Vec<u64>>,
    starts: Vec<usize>,
}

impl AlignedBuffers {
    fn new(memory: &BufferMemory) -> AlignedBuffers {
        let mut aligned = AlignedBuffers { words: Vec::new(), starts: Vec::new() };
        for bytes in &memory.buffers {
            let words = vec![0u64; bytes.len() / 8 + 10];
            let start = words.as_ptr().align_offset(64) * 8;
            aligned.words.push(words);
            aligned.starts.push(start);
        }
        aligned.transfer(memory.buffers.iter().map(Vec::as_slice), |word, bytes, at| {
            let mut all = word.to_le_bytes();
            all[at] = bytes;
            *word = u64::from_le_bytes(all);
        });
        aligned
    }

    fn transfer<'a>(&mut self, buffers: impl Iterator<Item = &'a [u8]>, mut set: impl FnMut(&mut u64, u8, usize)) {
        for ((words, &start), bytes) in self.words.iter_mut().zip(&self.starts).zip(buffers) {
            for (index, &byte) in bytes.iter().enumerate() {
                let at = start + index;
                set(&mut words[at / 8], byte, at % 8);
            }
        }
    }

    fn read_back(&self, memory: &mut BufferMemory) {
        for ((words, &start), bytes) in self.words.iter().zip(&self.starts).zip(&mut memory.buffers) {
            for (index, byte) in bytes.iter_mut().enumerate() {
                let at = start + index;
                *byte = words[at / 8].to_le_bytes()[at % 8];
            }
        }
    }

    fn address(&mut self, buffer: u32, offset: i64) -> u64 {
        let start = self.starts[buffer as usize];
        let base = self.words[buffer as usize].as_mut_ptr() as usize as u64;
        (base + start as u64).wrapping_add_signed(offset)
    }
}

/// Compiled code with arguments of its own: a copy of what a memory holds.
pub struct SubjectLaunch {
    code: Arc<dyn LoadedCode>,
    aligned: AlignedBuffers,
    block: Vec<u64>,
    recorder: EventRecorder,
    shape: [u64; MAX_DIMS],
}

impl SubjectLaunch {
    /// A launch of code of this kernel.
    pub fn new(
        code: Arc<dyn LoadedCode>,
        kernel: &Function,
        shape: &[u64],
        args: &[InterpArg],
        memory: &BufferMemory,
    ) -> SubjectLaunch {
        let layout = ArgLayout::of(kernel);
        let mut aligned = AlignedBuffers::new(memory);
        let mut block = vec![0u64; layout.size as usize / 8];
        for ((arg, &offset), &param) in args.iter().zip(&layout.offsets).zip(kernel.params()) {
            let at = offset as usize / 8;
            match arg {
                InterpArg::Scalar(bits) => block[at] = *bits,
                InterpArg::Array(array) => {
                    let ndim = kernel.ty(param).as_array().map_or(0, |(_, ndim)| ndim);
                    block[at] = aligned.address(array.buffer, array.offset);
                    for axis in 0..ndim {
                        block[at + ArgLayout::extent(axis) as usize / 8] = array.extents[usize::from(axis)] as u64;
                        block[at + ArgLayout::stride(ndim, axis) as usize / 8] =
                            array.strides[usize::from(axis)] as u64;
                    }
                }
            }
        }
        let sites = SiteTable::of(kernel);
        let slots = sites.sites.iter().map(|site| match &site.kind {
            SiteKind::Print(_, types) => types.len(),
            _ => 0,
        });
        let recorder = EventRecorder { events: RefCell::default(), slots: slots.collect() };
        let mut extents = [1; MAX_DIMS];
        extents[..shape.len()].copy_from_slice(shape);
        SubjectLaunch { code, aligned, block, recorder, shape: extents }
    }

    /// Runs some of its threads; gives whether none of them trapped.
    pub fn run(&mut self, range: Range<u64>) -> bool {
        let context = LaunchContext {
            shape: self.shape,
            trap: record_trap,
            print: record_print,
            data: (&raw const self.recorder).cast_mut().cast::<c_void>(),
        };
        // SAFETY: the block and the context are laid out as the kernel's HIR says, and arrays lie inside their buffers
        // wherever the kernel accesses them: suites have the interpreter show it for the same launch first.
        unsafe { self.code.entry()(self.block.as_ptr().cast(), &context, range.start, range.end) };
        self.recorder.events.borrow().traps.is_empty()
    }

    /// Runs all of its threads, each time it is called.
    pub fn whole(&mut self) -> impl FnMut() + '_ {
        let n_threads = self.shape.iter().product();
        move || assert!(self.run(0..n_threads), "a thread traps")
    }

    /// Copies its arrays back; gives what else it did.
    pub fn finish(self, memory: &mut BufferMemory) -> LaunchEvents {
        self.aligned.read_back(memory);
        self.recorder.events.into_inner()
    }
}

/// Runs ranges of a launch, one after another until one traps; on a device all of it.
pub fn run(
    code: &ReadyKernel,
    kernel: &Function,
    shape: &[u64],
    args: &[InterpArg],
    memory: &mut BufferMemory,
    ranges: &[Range<u64>],
) -> LaunchEvents {
    match code {
        ReadyKernel::Machine(code) => {
            let mut launch = SubjectLaunch::new(code.clone(), kernel, shape, args, memory);
            let _ = ranges.iter().cloned().all(|range| launch.run(range));
            launch.finish(memory)
        }
        ReadyKernel::Device(code) => code.launch(kernel, shape, args, memory),
        ReadyKernel::Interpreted(interpreter) => interpret(interpreter, kernel, shape, args, memory, ranges),
    }
}

fn interpret(
    interpreter: &Interpreter,
    kernel: &Function,
    shape: &[u64],
    args: &[InterpArg],
    memory: &mut BufferMemory,
    ranges: &[Range<u64>],
) -> LaunchEvents {
    let sites = SiteTable::of(kernel);
    let mut host = PrintRecorder { sites: &sites, prints: Vec::new() };
    let launch = |range: &Range<u64>| interpreter.launch(shape, args, memory, &mut host, range.clone());
    let traps = match ranges.iter().try_for_each(launch) {
        Ok(()) => Vec::new(),
        Err(InterpError::Trap(trap)) => vec![trapped(&sites, &trap)],
        Err(error) => panic!("the interpreter fails: {error}"),
    };
    LaunchEvents { traps, prints: host.prints, text: String::new() }
}

/// A failed check of the interpreter as compiled code reports it.
pub fn trapped(sites: &SiteTable, trap: &InterpTrap) -> Trapped {
    (sites.number(trap.site.inst).unwrap_or(u32::MAX), trap.index, trap.extent, trap.thread)
}

struct PrintRecorder<'a> {
    sites: &'a SiteTable,
    prints: Vec<(u32, Vec<u64>)>,
}

impl InterpHost for PrintRecorder<'_> {
    fn print(&mut self, format: &str, types: &[Type], values: &[u64]) {
        let is_here = |kind: &SiteKind| matches!(kind, SiteKind::Print(f, t) if **f == *format && t == types);
        let site = self.sites.sites.iter().position(|site| is_here(&site.kind)).map_or(u32::MAX, |site| site as u32);
        self.prints.push((site, values.to_vec()));
    }
}

/// Returns what is true of these arguments.
pub fn facts(kernel: &Function, args: &[InterpArg]) -> ArgFacts {
    let view = |index: usize| match args[index] {
        InterpArg::Array(array) => Some(array),
        InterpArg::Scalar(_) => None,
    };
    let arrays = kernel.params().iter().enumerate().map(|(index, &param)| {
        let (Type::Array { elem, ndim, .. }, Some(array)) = (kernel.ty(param), view(index)) else {
            return ArrayFacts::default();
        };
        let mut dense = i64::from(elem.bytes());
        let mut contiguous = true;
        for axis in (0..usize::from(ndim)).rev() {
            contiguous &= array.strides[axis] == dense;
            dense *= array.extents[axis];
        }
        let others = (0..args.len()).filter(|&other| other != index).filter_map(view);
        let mut extents = [None; MAX_AXES];
        for (axis, extent) in extents.iter_mut().enumerate().take(usize::from(ndim)) {
            *extent = u32::try_from(array.extents[axis]).ok().filter(|&n| n <= 16);
        }
        ArrayFacts {
            contiguous,
            aligned: array.offset % 64 == 0,
            disjoint: others.into_iter().all(|other| other.buffer != array.buffer),
            offsets_fit_i32: true,
            extents,
        }
    });
    ArgFacts { arrays: arrays.collect(), ..ArgFacts::default() }
}

/// Ways to cut a launch into ranges, each covering all of it.
pub fn splits(total: u64) -> Vec<Vec<Range<u64>>> {
    let cut = |points: &[u64]| -> Vec<Range<u64>> {
        let mut points: Vec<u64> = points.iter().copied().filter(|&p| p <= total).collect();
        points.extend([0, total]);
        points.sort_unstable();
        points.windows(2).map(|w| w[0]..w[1]).collect()
    };
    vec![cut(&[]), cut(&[1, 2, 7, 8, 13, 31, 64, 65, 100]), cut(&[total / 2, total / 2 + 1, total.saturating_sub(1)])]
}

/// A dense array filled with these bits, as an argument.
pub fn dense(memory: &mut BufferMemory, elem: Scalar, extents: &[usize], bits: &[u64]) -> InterpArg {
    memory.add_array(elem, extents, bits)
}

/// An array argument over an existing buffer.
pub fn view(buffer: u32, offset: i64, extents: &[i64], strides: &[i64]) -> InterpArg {
    let mut array = ArrayArg { buffer, offset, ..ArrayArg::default() };
    array.extents[..extents.len()].copy_from_slice(extents);
    array.strides[..strides.len()].copy_from_slice(strides);
    InterpArg::Array(array)
}

/// Reads and verifies a module.
///
/// # Panics
///
/// When the text is not a valid module.
pub fn module(text: &str) -> Module {
    let (sources, file) = sources(text);
    let module = parse_module(text, file).unwrap_or_else(|errors| panic!("{}", rendered(&errors, &sources)));
    if let Err(errors) = verify_module(&module) {
        panic!("{}", rendered(&errors, &sources));
    }
    module
}

fn sources(text: &str) -> (polyloom_ir::SourceMap, polyloom_ir::FileId) {
    let mut sources = polyloom_ir::SourceMap::new();
    let file = sources.add(polyloom_ir::SourceFile::new("kernel.hir", text, 1));
    (sources, file)
}

fn rendered(errors: &[polyloom_ir::Diagnostic], sources: &polyloom_ir::SourceMap) -> String {
    errors.iter().map(|error| polyloom_ir::diagnostic::render(error, sources, false)).collect()
}

/// Checks that a kernel does to its buffers what the interpreter says, whole and cut into ranges, with all facts that
/// hold and with none.
///
/// # Panics
///
/// With the kernel and the first element that differs.
pub fn compare(subject: &EngineSubject<'_>, text: &str, shape: &[u64], args: &[InterpArg], memory: &BufferMemory) {
    let module = module(text);
    let kernel = kernel_of(&module);
    let mut expected = memory.clone();
    let interpreter = Interpreter::new(&module, kernel).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let total = shape.iter().product::<u64>();
    let outcome: Result<(), InterpError> =
        interpreter.launch(shape, args, &mut expected, &mut PrintingHost::default(), 0..total);
    if let Err(error) = outcome {
        panic!("the reference fails: {error}\n{text}");
    }
    let known = facts(&module.functions[kernel], args);
    for facts in [ArgFacts::default(), known] {
        let (prepared, id, code) =
            subject.load(&module, kernel, HirPreparation::Unchecked, shape.len() as u8, facts.clone());
        let n_splits = if subject.is_device() { 1 } else { usize::MAX };
        for ranges in splits(total).into_iter().take(n_splits) {
            let mut actual = memory.clone();
            let kernel = &prepared.functions[id];
            let events = run(&code, kernel, shape, args, &mut actual, &ranges);
            assert_eq!(events, LaunchEvents::default(), "{text}");
            let at = || format!("{} with {facts:?}, ranges {ranges:?}", subject.name());
            assert_same(subject, kernel, args, &expected, &actual, || {
                format!("{}\n{text}\nprepared:\n{prepared}", at())
            });
        }
    }
}

/// The one kernel of a module.
///
/// # Panics
///
/// When there is none.
pub fn kernel_of(module: &Module) -> FuncId {
    let found = module.functions.iter().find(|(_, f)| f.kind == polyloom_ir::FunctionKind::Kernel);
    found.map(|(id, _)| id).unwrap_or_else(|| panic!("no kernel in\n{module}"))
}

/// Compares all buffers, element by element of the type of the arrays that view them.
///
/// # Panics
///
/// At the first difference.
pub fn assert_same(
    subject: &EngineSubject<'_>,
    kernel: &Function,
    args: &[InterpArg],
    expected: &BufferMemory,
    actual: &BufferMemory,
    context: impl Fn() -> String,
) {
    for (arg, &param) in args.iter().zip(kernel.params()) {
        let (InterpArg::Array(array), Some((elem, _))) = (arg, kernel.ty(param).as_array()) else { continue };
        let (want, got) = (expected.elements(elem, *arg), actual.elements(elem, *arg));
        for (index, (&want, &got)) in want.iter().zip(&got).enumerate() {
            assert!(
                subject.agrees(elem, want, got),
                "buffer {} differs at element {index}: expected {want:#x}, got {got:#x} ({elem})\n{}",
                array.buffer,
                context()
            );
        }
    }
}
