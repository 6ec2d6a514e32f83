//! Launches by the interpreter: `POLYLOOM_TIER=interp`.
//!
//! The interpreter runs the kernel's verified HIR over the memory of the arguments, on the calling thread and in
//! row-major order. It is slow, and finds what compiled code must not be asked to do: an access outside its array is
//! reported here even when the kernel has no checks.

use super::device::LaunchObserver;
use super::kernel::KernelInner;
use crate::error::{LaunchError, Trap};
use crate::launch_options::{ASK_EVERY, LaunchOptions};
use crate::print;
use polyloom_codegen::abi::{CallbackSite, SiteKind};
use polyloom_ir::interp::{self, ArrayArg, InterpArg, InterpError, InterpHost, InterpMemory, Interpreter, ObservedOp};
use polyloom_ir::{CheckKind, Imm, MAX_AXES, MAX_DIMS, Op, Type};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most threads between looks at whether the launch is cancelled; fewer where each takes long.
const MAX_CHUNK: u64 = 256;
/// A chunk that takes longer than this is followed by a shorter one.
const CHUNK_TIME: Duration = Duration::from_millis(1);

/// Runs these threads, row-major indices, of a launch of this shape; of a kernel that is launched in blocks, all.
///
/// # Safety
///
/// As [`super::launch::launch`].
pub(crate) unsafe fn interpret(
    kernel: &KernelInner,
    shape: &[u64],
    words: &[u64],
    threads: Range<u64>,
    options: &LaunchOptions<'_>,
) -> Result<(), LaunchError> {
    let failed = |error: InterpError| launch_error(kernel, shape, error);
    let most_steps = kernel.device.most_interpreted_steps();
    // A limit is of each thread or block, so that how many of them make a chunk must not matter.
    let most_at_once = if most_steps.is_some() { 1 } else { MAX_CHUNK };
    let observer = kernel.device.observer();
    let cell = kernel.interpreter.get();
    let interpreter = match cell.get() {
        Some(interpreter) => interpreter,
        None => {
            let (module, id) = kernel.source.interpretable.get();
            let watched = observer.map(|observer| |op| observer.watches(op));
            let watched = watched.as_ref().map(|watched| watched as &dyn Fn(Op) -> bool);
            let options = interp::InterpOptions { sums: kernel.device.interpreted_sums(), watched };
            let made = Interpreter::with_options(module, id, options).map_err(failed)?;
            cell.get_or_init(|| made.with_max_steps(most_steps.unwrap_or(u64::MAX)))
        }
    };
    let (args, mut memory) = arguments(kernel, words);
    let mut host = ProcessHost { observer };
    let grid =
        interpreter.needs_blocks().then(|| options.grid.unwrap_or_else(|| interpreter.default_grid(threads.end)));
    let n = grid.map_or(threads.end, |grid| grid.n_blocks());
    let (mut begin, mut chunk) = (threads.start, 1);
    let mut asked = Instant::now();
    while begin < n {
        let end = (begin + chunk).min(n);
        let started = Instant::now();
        let done = match &grid {
            Some(grid) => interpreter.launch_grid(shape, grid, &args, &mut memory, &mut host, begin..end),
            None => interpreter.launch(shape, &args, &mut memory, &mut host, begin..end),
        };
        done.map_err(failed)?;
        let ask = asked.elapsed() >= ASK_EVERY;
        if ask {
            asked = Instant::now();
        }
        if options.is_cancelled(ask) {
            return Err(LaunchError::Cancelled);
        }
        begin = end;
        chunk = if started.elapsed() > CHUNK_TIME { chunk / 2 } else { chunk * 2 }.clamp(1, most_at_once);
    }
    Ok(())
}

/// The process that launches.
struct ProcessHost<'a> {
    observer: Option<&'a dyn LaunchObserver>,
}

impl InterpHost for ProcessHost<'_> {
    fn print(&mut self, format: &str, types: &[Type], values: &[u64]) {
        print::write(&polyloom_ir::format::format(format, types, values));
    }

    fn observe(&mut self, observed: &ObservedOp<'_>) {
        if let Some(observer) = self.observer {
            observer.observe(observed);
        }
    }
}

/// The memory behind the arguments: one buffer for each array.
struct RawMemory {
    buffers: Vec<RawBuffer>,
}

/// Memory from `low` up to and including `high`, an element's first byte, counted in bytes from `base`.
struct RawBuffer {
    base: *mut u8,
    low: i64,
    high: i64,
}

/// An element in memory. Every access is atomic, because other launches may be using the arrays at the same time.
trait AtomicElement {
    fn get(&self) -> u64;
    fn set(&self, bits: u64);
    /// Replaces `old` by `new`; gives what was there instead if it was not `old`.
    fn replace(&self, old: u64, new: u64) -> Result<(), u64>;
}

macro_rules! elements {
    ($($atomic:ty, $value:ty;)*) => { $(
        impl AtomicElement for $atomic {
            fn get(&self) -> u64 {
                u64::from(self.load(Ordering::Relaxed))
            }

            fn set(&self, bits: u64) {
                self.store(bits as $value, Ordering::Relaxed);
            }

            fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
                let (old, new) = (old as $value, new as $value);
                let replaced = self.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
                replaced.map(|_| ()).map_err(u64::from)
            }
        }
    )* };
}
elements! { AtomicU8, u8; AtomicU16, u16; AtomicU32, u32; AtomicU64, u64; }

impl RawMemory {
    /// Returns where an element is, if it is in its array.
    #[inline]
    fn address(&self, buffer: u32, offset: i64) -> Option<*mut u8> {
        let buffer = self.buffers.get(buffer as usize)?;
        // Inside one array, so that the address does not wrap.
        (buffer.low..=buffer.high).contains(&offset).then(|| buffer.base.wrapping_offset(offset as isize))
    }
}

/// What is to be done with the element of so many bytes at an address.
macro_rules! with_element {
    ($address:expr, $bytes:expr, $element:ident => $work:expr) => {{
        let address = $address;
        // SAFETY: the element lies in an array that the launch's caller vouches for, and `ArgBlock::array` has seen to
        // its alignment. The interpreter asks for as many bytes as the array's elements have.
        unsafe {
            match $bytes {
                1 => Some({
                    let $element = AtomicU8::from_ptr(address);
                    $work
                }),
                2 => Some({
                    let $element = AtomicU16::from_ptr(address.cast());
                    $work
                }),
                4 => Some({
                    let $element = AtomicU32::from_ptr(address.cast());
                    $work
                }),
                8 => Some({
                    let $element = AtomicU64::from_ptr(address.cast());
                    $work
                }),
                _ => None,
            }
        }
    }};
}

impl InterpMemory for RawMemory {
    fn load(&self, buffer: u32, offset: i64, bytes: u32) -> Option<u64> {
        with_element!(self.address(buffer, offset)?, bytes, element => element.get())
    }

    fn store(&mut self, buffer: u32, offset: i64, bytes: u32, bits: u64) -> Option<()> {
        with_element!(self.address(buffer, offset)?, bytes, element => element.set(bits))
    }

    fn update(&mut self, buffer: u32, offset: i64, bytes: u32, f: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
        with_element!(self.address(buffer, offset)?, bytes, element => {
            let mut old = element.get();
            while let Err(other) = element.replace(old, f(old)) {
                old = other;
            }
            old
        })
    }
}

/// The packed block as the interpreter wants it.
fn arguments(kernel: &KernelInner, words: &[u64]) -> (SmallVec<[InterpArg; 8]>, RawMemory) {
    let mut memory = RawMemory { buffers: Vec::new() };
    let mut args = SmallVec::new();
    let mut words = words.iter().copied();
    let mut next = || words.next().unwrap_or(0);
    for ty in kernel.params.types() {
        match ty.as_array() {
            None => args.push(InterpArg::Scalar(next())),
            Some((_, ndim)) => {
                let base = next() as *mut u8;
                let mut array = ArrayArg { buffer: memory.buffers.len() as u32, ..ArrayArg::default() };
                let axes = 0..usize::from(ndim).min(MAX_AXES);
                axes.clone().for_each(|axis| array.extents[axis] = next() as i64);
                axes.clone().for_each(|axis| array.strides[axis] = next() as i64);
                // Overflows only if the array is empty, and then no index is in range.
                let farthest = axes.map(|axis| (array.extents[axis] - 1).max(0).wrapping_mul(array.strides[axis]));
                let (low, high) = farthest
                    .fold((0i64, 0i64), |(low, high), f| (low.wrapping_add(f.min(0)), high.wrapping_add(f.max(0))));
                memory.buffers.push(RawBuffer { base, low, high });
                args.push(InterpArg::Array(array));
            }
        }
    }
    (args, memory)
}

fn launch_error(kernel: &KernelInner, shape: &[u64], error: InterpError) -> LaunchError {
    let trap = |site: CallbackSite, index: i128, extent: i64, thread: u64| {
        let mut grid = [1; MAX_DIMS];
        grid.iter_mut().zip(shape).for_each(|(extent, &given)| *extent = given);
        let thread = Trap::coordinates(&grid, shape.len(), thread);
        LaunchError::Trap(Box::new(Trap { kernel: kernel.name.clone(), site, index, extent, thread }))
    };
    match error {
        InterpError::Trap(failed) => {
            let site = checked_site(kernel, failed.site);
            let index = Trap::index_at(&site, failed.index);
            trap(site, index, failed.extent, failed.thread)
        }
        InterpError::OutOfBounds { site, axis, index, extent, thread } => {
            let unsigned = index > i64::MAX.into();
            let kind = SiteKind::Check(CheckKind::Bounds { array: array_name(kernel, site), axis, unsigned });
            trap(CallbackSite { span: site.span, kind }, index, extent, thread)
        }
        InterpError::StepLimit { .. } => {
            let most_steps = kernel.device.most_interpreted_steps().unwrap_or(u64::MAX);
            LaunchError::StepLimit { kernel: kernel.name.clone(), most_steps }
        }
        other => LaunchError::Interpreter { kernel: kernel.name.clone(), message: other.to_string() },
    }
}

/// Returns what the failed instruction says it checks.
fn checked_site(kernel: &KernelInner, site: interp::TrapSite) -> CallbackSite {
    let function = site.func.and_then(|func| kernel.source.interpretable.get().0.functions.get(func));
    let kind = match function.and_then(|function| function.insts.get(site.inst)).map(|data| &data.imm) {
        Some(Imm::Check(kind)) => SiteKind::Check(kind.clone()),
        Some(Imm::Text(message)) => SiteKind::Assert(message.clone()),
        _ => SiteKind::Assert("".into()),
    };
    CallbackSite { span: site.span, kind }
}

/// Returns what the source calls the array accessed at `site`.
fn array_name(kernel: &KernelInner, site: interp::TrapSite) -> Arc<str> {
    let name = || {
        let function = kernel.source.interpretable.get().0.functions.get(site.func?)?;
        let array = *function.insts.get(site.inst)?.operands.first()?;
        match function.param_index(array) {
            Some(index) => function.param_names.get(index).cloned(),
            None => function.value_names[array].clone(),
        }
    };
    name().unwrap_or_else(|| "array".into())
}
