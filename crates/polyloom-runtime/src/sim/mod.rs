//! Kernels on the PTX simulator, device `sim:0`.
//!
//! What runs is the very PTX that would go to a GPU's driver, with the entry's parameters as
//! [`polyloom_codegen::GpuLaunch`] and [`ArgLayout`] lay them out. Arrays are the host's: a launch copies them to the
//! simulator's memory and, if the kernel writes them, back ([`staging`]).

mod staging;

use crate::args::{ArgBlock, Params};
use crate::cpu::launch::{ASK_EVERY, LaunchOptions, checked_grid};
use crate::error::{LaunchError, Trap};
use crate::print;
use polyloom_codegen::{ArgLayout, CodegenError, GpuLaunch, GpuReport, SiteTable};
use polyloom_ir::interp::Grid;
use polyloom_ir::{Function, MAX_DIMS, Type};
use polyloom_ptx::{Fault, FindingKind, Report, Sanitizers, Simulator};
use staging::Staged;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};

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
    name: Arc<str>,
    simulator: Simulator,
    kernel: polyloom_ptx::Kernel,
    params: Params,
    written: Vec<bool>,
    sites: SiteTable,
    arch: u32,
}

impl SimKernel {
    /// Loads a kernel: its HIR as the back end got it, and the PTX made of it with its entry's name, for an architecture
    /// (80 for `sm_80`).
    ///
    /// # Errors
    ///
    /// What in the PTX the simulator cannot run.
    pub fn new(
        simulator: &Simulator,
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
        let loaded = simulator.load(&module).map_err(|error| CodegenError::new(error.to_string()))?;
        Ok(SimKernel {
            name: function.name.clone(),
            simulator: simulator.clone(),
            kernel: loaded.kernel(entry).map_err(all)?,
            params,
            written: function.written_arrays(),
            sites: SiteTable::of(function),
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
        let (extents, n_threads) = checked_grid(&self.params, shape, args)?;
        if n_threads == 0 {
            return Ok(Report::default());
        }
        let grid = options.grid.unwrap_or_else(|| Grid::of_threads(n_threads, DEFAULT_BLOCK, 0));
        let memory = self.simulator.memory();
        // SAFETY: the caller vouches for the arrays.
        let staged = unsafe { Staged::new(memory, &self.params, args.words(), &self.written) };
        let staged = staged.map_err(|error| self.out_of_memory(&error.to_string()))?;
        let report_address = memory.alloc(size_of::<GpuReport>(), 8);
        let report_address = report_address.map_err(|error| self.out_of_memory(&error.to_string()))?;
        let cleared = memory.fill(report_address, 0, size_of::<GpuReport>());
        cleared.map_err(|error| self.out_of_memory(&error.to_string()))?;
        let params = self.parameters(&extents, report_address, args.words(), &staged);
        let result = run(&self.kernel, self.arch, &params, &grid, options, sim);
        // SAFETY: as above.
        let copied = unsafe { staged.copy_back() };
        let trap = self.trap(report_address, &extents, shape.len());
        // It was allocated above, and nobody else knows the address.
        let _ = memory.free(report_address);
        copied.map_err(|error| self.out_of_memory(&error.to_string()))?;
        match (result, trap) {
            (_, Some(trap)) => Err(trap),
            (Ok(report), None) => Ok(report),
            (Err(fault), None) if fault.findings.iter().all(|f| f.kind == FindingKind::Interrupted) => {
                Err(LaunchError::Cancelled)
            }
            (Err(fault), None) => Err(LaunchError::Simulator(fault)),
        }
    }

    /// The bytes of the entry's parameters.
    fn parameters(&self, extents: &[u64; MAX_DIMS], report: u64, words: &[u64], staged: &Staged<'_>) -> Vec<Vec<u8>> {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mut first = extents.to_vec();
        first.push(report);
        debug_assert_eq!(first.len() * 8, GpuLaunch::BYTES as usize);
        let mut params = vec![bytes(&first)];
        let layout = self.params.layout();
        for (index, &ty) in self.params.types().iter().enumerate() {
            let at = layout.offsets[index] as usize / 8;
            match ty {
                Type::Scalar(scalar) => params.push(words[at].to_le_bytes()[..scalar.bytes() as usize].to_vec()),
                _ => {
                    let mut slots = words[at..at + ArgLayout::new([ty]).size as usize / 8].to_vec();
                    slots[0] = staged.address(index).unwrap_or(0);
                    params.push(bytes(&slots));
                }
            }
        }
        params
    }

    /// The check that failed first, if one did.
    fn trap(&self, report: u64, extents: &[u64; MAX_DIMS], rank: usize) -> Option<LaunchError> {
        let mut bytes = [0; size_of::<GpuReport>()];
        self.simulator.memory().read(report, &mut bytes).ok()?;
        let word = |offset: u32| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[offset as usize..offset as usize + 8]);
            u64::from_le_bytes(word)
        };
        if word(GpuReport::CLAIMED_OFFSET) == 0 {
            return None;
        }
        let site = self.sites.sites.get(word(GpuReport::SITE_OFFSET) as usize)?.clone();
        Some(LaunchError::Trap(Box::new(Trap {
            kernel: self.name.clone(),
            index: Trap::index_at(&site, word(GpuReport::INDEX_OFFSET) as i64),
            site,
            extent: word(GpuReport::EXTENT_OFFSET) as i64,
            thread: Trap::coordinates(extents, rank, word(GpuReport::THREAD_OFFSET)),
        })))
    }

    fn out_of_memory(&self, message: &str) -> LaunchError {
        LaunchError::Memory { kernel: self.name.clone(), message: message.to_owned() }
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

/// Threads of a block of a kernel that knows no blocks.
const DEFAULT_BLOCK: [u32; 3] = [256, 1, 1];
