//! Kernels on the PTX simulator, device `sim:0`.
//!
//! What runs is the very PTX that would go to a GPU's driver, with the entry's parameters and arrays as there
//! ([`crate::device`]).

use crate::args::{ArgBlock, Params};
use crate::cpu::launch::{ASK_EVERY, LaunchOptions};
use crate::device::entry::Entry;
use crate::device::{Device, DeviceFailure, Memory};
use crate::error::LaunchError;
use crate::print;
use polyloom_codegen::CodegenError;
use polyloom_ir::Function;
use polyloom_ir::interp::Grid;
use polyloom_ptx::{DeviceMemory, Fault, FindingKind, MemoryError, Report, Sanitizers, Simulator};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The device `sim:0`.
static SIMULATOR: LazyLock<Simulator> = LazyLock::new(Simulator::default);

/// The memory of `sim:0`.
pub fn memory() -> Arc<dyn Memory> {
    Arc::new(SimMemory(SIMULATOR.memory().clone()))
}

struct SimMemory(DeviceMemory);

/// Bytes that a copy within the simulator's memory takes through the host's at once.
const COPIED_AT_ONCE: usize = 1 << 20;

fn failure(error: &MemoryError) -> DeviceFailure {
    let device = Device::Simulator;
    match *error {
        MemoryError::OutOfMemory(n_bytes) => DeviceFailure::OutOfMemory { device, n_bytes },
        MemoryError::NotAllocated(address) => DeviceFailure::OutOfBounds { device, address, n_bytes: 0 },
        MemoryError::OutOfBounds { address, length } => DeviceFailure::OutOfBounds { device, address, n_bytes: length },
    }
}

impl Memory for SimMemory {
    fn device(&self) -> Device {
        Device::Simulator
    }

    fn alloc(&self, n_bytes: usize) -> Result<u64, DeviceFailure> {
        self.0.alloc(n_bytes, 256).map_err(|error| failure(&error))
    }

    fn free(&self, address: u64) {
        // That nothing is there is no harm: who frees does not use it.
        let _ = self.0.free(address);
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure> {
        self.0.read(address, bytes).map_err(|error| failure(&error))
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceFailure> {
        self.0.write(address, bytes).map_err(|error| failure(&error))
    }

    fn fill(&self, address: u64, byte: u8, n_bytes: usize) -> Result<(), DeviceFailure> {
        self.0.fill(address, byte, n_bytes).map_err(|error| failure(&error))
    }

    fn copy(&self, to: u64, from: u64, n_bytes: usize) -> Result<(), DeviceFailure> {
        let mut bytes = vec![0; n_bytes.min(COPIED_AT_ONCE)];
        for done in (0..n_bytes).step_by(COPIED_AT_ONCE) {
            let part = &mut bytes[..COPIED_AT_ONCE.min(n_bytes - done)];
            self.read(from + done as u64, part)?;
            self.write(to + done as u64, part)?;
        }
        Ok(())
    }
}

/// How a launch on the simulator goes about it.
#[derive(Clone, Copy, Default, Debug)]
pub struct SimOptions {
    /// What is checked besides bounds and alignment.
    pub sanitize: Sanitizers,
    /// Whether instructions, memory transactions and the like are counted.
    pub counters: bool,
    /// Threads of the host, at least one.
    pub n_threads: usize,
}

/// A kernel's PTX, loaded.
pub struct SimKernel {
    entry: Entry,
    memory: SimMemory,
    kernel: polyloom_ptx::Kernel,
    arch: u32,
}

impl SimKernel {
    /// Loads a kernel into `sim:0`: its HIR as the back end got it, and the PTX made of it with its entry's name, for an
    /// architecture (80 for `sm_80`).
    ///
    /// # Errors
    ///
    /// What in the PTX the simulator cannot run.
    pub fn new(
        function: &Function,
        params: Params,
        ptx: &str,
        entry: &str,
        arch: u32,
    ) -> Result<SimKernel, CodegenError> {
        let all = |errors: Vec<polyloom_ptx::Error>| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            CodegenError::new(format!("the simulator cannot run this: {}", lines.join("; ")))
        };
        let module = polyloom_ptx::Module::parse(ptx).map_err(all)?;
        let loaded = SIMULATOR.load(&module).map_err(|error| CodegenError::new(error.to_string()))?;
        Ok(SimKernel {
            entry: Entry::new(function, params),
            memory: SimMemory(SIMULATOR.memory().clone()),
            kernel: loaded.kernel(entry).map_err(all)?,
            arch,
        })
    }

    /// Runs the kernel over a grid of threads and returns when all have run.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]. What the threads had written by then is in the arrays.
    ///
    /// # Safety
    ///
    /// As [`crate::launch`], but that indices may be out of bounds: that is an error here.
    pub unsafe fn launch(
        &self,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
        sim: &SimOptions,
    ) -> Result<Report, LaunchError> {
        // SAFETY: the caller vouches for the arrays.
        let prepared = unsafe { self.entry.prepare(&self.memory, shape, args)? };
        let Some(prepared) = prepared else { return Ok(Report::default()) };
        let grid = options.grid.unwrap_or_else(|| self.entry.metadata.grid(prepared.n_threads));
        let result = run(&self.kernel, self.arch, &prepared.params, &grid, options, sim);
        // SAFETY: as above.
        let trap = unsafe { self.entry.finish(&prepared)? };
        match (result, trap) {
            (_, Some(trap)) => Err(trap),
            (Ok(report), None) => Ok(report),
            (Err(fault), None) if fault.findings.iter().all(|f| f.kind == FindingKind::Interrupted) => {
                Err(LaunchError::Cancelled)
            }
            (Err(fault), None) => Err(LaunchError::Simulator(fault)),
        }
    }
}

/// Runs a kernel on the simulator on another thread, while this one hands on what it prints and asks whether to go on.
/// `params` are the bytes of the entry's parameters, `arch` is 80 for `sm_80`.
///
/// # Errors
///
/// What the simulator found.
pub fn run(
    kernel: &polyloom_ptx::Kernel,
    arch: u32,
    params: &[Vec<u8>],
    grid: &Grid,
    options: &LaunchOptions<'_>,
    sim: &SimOptions,
) -> Result<Report, Box<Fault>> {
    let (printed, cancelled) = (Mutex::new(String::new()), AtomicBool::new(false));
    let launch = polyloom_ptx::Launch {
        grid: grid.grid,
        block: grid.block,
        dynamic_shared_bytes: grid.shared_bytes,
        params,
        sanitize: sim.sanitize,
        counters: sim.counters,
        threads: sim.n_threads.max(1),
        arch,
        interrupt: &|| cancelled.load(Ordering::Relaxed),
        print: &|text| printed.lock().unwrap_or_else(PoisonError::into_inner).push_str(text),
    };
    let hand_on = || print::write(&std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner)));
    let (done, ended) = channel();
    let result = std::thread::scope(|scope| {
        let launch = &launch;
        let running = scope.spawn(move || {
            let result = kernel.launch(launch);
            // The other end waits for this very message.
            let _ = done.send(());
            result
        });
        while ended.recv_timeout(ASK_EVERY) == Err(RecvTimeoutError::Timeout) {
            hand_on();
            if options.is_cancelled(true) {
                cancelled.store(true, Ordering::Relaxed);
            }
        }
        running.join()
    });
    hand_on();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
