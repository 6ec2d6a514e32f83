//! Kernels on the PTX simulator, device `sim:0`.
//!
//! What runs is the very PTX that would go to a GPU's driver, with the entry's parameters and arrays as there
//! ([`crate::device`]).

use crate::args::{ArgBlock, KernelParams};
use crate::device::entry::DeviceEntry;
use crate::device::layout::RowLayout;
use crate::device::queue::ImmediateEvent;
use crate::device::{
    Device, DeviceFailure, DeviceId, DeviceKernel, DeviceProgram, DeviceProperties, Event, FillWord, Queue,
    QueueOptions,
};
use crate::error::LaunchError;
use crate::fork::{PerProcess, generation};
pub use crate::launch_options::SimOptions;
use crate::launch_options::{ASK_EVERY, LaunchOptions, LaunchStats};
use crate::print;
use polyloom_ir::{Arch, Function, Imm, LaunchConfig};
use polyloom_ptx::{
    DeviceMemory, Fault, Finding, FindingKind, LoadError, LoadedModule, MemoryError, Report, Simulator,
};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// The device `sim:0`. A forked child has one of its own, because threads of its parent may have been in the midst of
/// using this one.
static SIMULATOR: PerProcess<ProcessSimulator> = PerProcess::new();

struct ProcessSimulator {
    simulator: Simulator,
    generation: u32,
}

impl Default for ProcessSimulator {
    fn default() -> ProcessSimulator {
        let generation = generation();
        // Each generation has its own window, so that addresses of the parent are none of the child's.
        ProcessSimulator { simulator: Simulator::with_memory(DeviceMemory::in_window(generation)), generation }
    }
}

/// The queue of `sim:0`.
pub fn queue() -> Arc<dyn Queue> {
    Arc::new(SimQueue::of_process())
}

/// The device `sim:0` with the properties of GPUs of an architecture.
pub struct SimDevice {
    arch: Arch,
}

impl SimDevice {
    /// Makes it.
    pub fn new(arch: Arch) -> SimDevice {
        SimDevice { arch }
    }
}

impl Device for SimDevice {
    fn id(&self) -> DeviceId {
        DeviceId::Simulator
    }

    fn properties(&self) -> DeviceProperties {
        let name = format!("simulator of a GPU, {}", self.arch);
        DeviceProperties::of_arch(DeviceId::Simulator.to_string(), name, self.arch)
    }

    fn free_bytes(&self) -> Result<Option<u64>, DeviceFailure> {
        Ok(None)
    }

    fn load(self: Arc<Self>, program: DeviceProgram<'_>) -> Result<Box<dyn DeviceKernel>, DeviceFailure> {
        match program {
            DeviceProgram::Ptx { function, params, text, entry, arch } => {
                Ok(Box::new(SimKernel::new(function, params, text, entry, arch.number().into())?))
            }
            DeviceProgram::Hir(_) => Err(unloadable("it runs PTX, not HIR".to_owned())),
        }
    }

    fn queue(self: Arc<Self>) -> Arc<dyn Queue> {
        queue()
    }

    fn new_queue(self: Arc<Self>, _options: QueueOptions) -> Result<Arc<dyn Queue>, DeviceFailure> {
        Ok(queue())
    }
}

fn unloadable(reason: String) -> DeviceFailure {
    DeviceFailure::Code { device: DeviceId::Simulator, reason: format!("the simulator cannot run this: {reason}") }
}

/// The queue of the simulator, which does everything at once, in memory of its own.
struct SimQueue {
    memory: DeviceMemory,
    generation: u32,
}

impl SimQueue {
    fn of_process() -> SimQueue {
        let device = SIMULATOR.get();
        SimQueue { memory: device.simulator.memory().clone(), generation: device.generation }
    }

    /// The memory, if it is this process's, because what was the parent's is locked for ever if another thread used it
    /// during the fork.
    fn get(&self) -> Result<&DeviceMemory, DeviceFailure> {
        match self.generation == generation() {
            true => Ok(&self.memory),
            false => Err(DeviceFailure::Absent {
                device: DeviceId::Simulator,
                reason: "this memory of it belongs to the process that this one was forked from".to_owned(),
            }),
        }
    }
}

fn failure(error: &MemoryError) -> DeviceFailure {
    let device = DeviceId::Simulator;
    match *error {
        MemoryError::OutOfMemory(n_bytes) => DeviceFailure::OutOfMemory { device, n_bytes, holders: String::new() },
        MemoryError::NotAllocated(address) => DeviceFailure::OutOfBounds { device, address, n_bytes: 0 },
        MemoryError::OutOfBounds { address, length } => DeviceFailure::OutOfBounds { device, address, n_bytes: length },
        MemoryError::AlreadyMapped(address) => DeviceFailure::OutOfBounds { device, address, n_bytes: 0 },
    }
}

impl Queue for SimQueue {
    fn device(&self) -> DeviceId {
        DeviceId::Simulator
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn make_current(self: Arc<Self>) -> Arc<dyn Queue> {
        self
    }

    fn alloc(&self, n_bytes: usize, skew: u8) -> Result<u64, DeviceFailure> {
        self.get()?.alloc_skewed(n_bytes, skew).map_err(|error| failure(&error))
    }

    unsafe fn free(&self, address: u64) {
        // That nothing is there is no harm, because who frees does not use it.
        let _ = self.get().map(|memory| memory.free(address));
    }

    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure> {
        self.get()?.read(address, bytes).map_err(|error| failure(&error))
    }

    unsafe fn write(&self, to: RowLayout, bytes: &[u8]) -> Result<(), DeviceFailure> {
        let memory = self.get()?;
        let mut rows = to.addresses().zip(bytes.chunks_exact(to.length as usize));
        rows.try_for_each(|(address, bytes)| memory.write(address, bytes)).map_err(|error| failure(&error))
    }

    unsafe fn fill(&self, to: RowLayout, word: FillWord) -> Result<(), DeviceFailure> {
        let memory = self.get()?;
        let bytes: SmallVec<[u8; 4]> = match word {
            FillWord::U8(word) => [word].as_slice().into(),
            FillWord::U16(word) => word.to_le_bytes().as_slice().into(),
            FillWord::U32(word) => word.to_le_bytes().as_slice().into(),
        };
        let fill = |address| memory.fill(address, &bytes, to.length as usize);
        to.addresses().try_for_each(fill).map_err(|error| failure(&error))
    }

    unsafe fn copy(&self, to: RowLayout, from: RowLayout) -> Result<(), DeviceFailure> {
        let memory = self.get()?;
        let mut rows = to.addresses().zip(from.addresses());
        rows.try_for_each(|(to_row, from_row)| memory.copy(to_row, from_row, to.length as usize))
            .map_err(|error| failure(&error))
    }

    fn record(&self, _is_timed: bool) -> Result<Arc<dyn Event>, DeviceFailure> {
        Ok(ImmediateEvent::now(DeviceId::Simulator))
    }

    fn wait(&self, event: &dyn Event) -> Result<(), DeviceFailure> {
        event.synchronize()
    }

    fn synchronize(&self) -> Result<(), DeviceFailure> {
        Ok(())
    }
}

/// PTX by whatever compiler, loaded into `sim:0`. A forked child, whose device is another, loads it anew.
pub struct SimModule {
    module: polyloom_ptx::Module,
    loaded: PerProcess<OnceLock<Result<LoadedModule, LoadError>>>,
}

impl SimModule {
    /// Makes a module that is loaded when it is asked for.
    pub fn new(module: polyloom_ptx::Module) -> SimModule {
        SimModule { module, loaded: PerProcess::new() }
    }

    /// The module.
    pub fn module(&self) -> &polyloom_ptx::Module {
        &self.module
    }

    /// The module on this process's `sim:0`.
    ///
    /// # Errors
    ///
    /// When it has no meaning, or there is no memory for its variables.
    pub fn loaded(&self) -> Result<&LoadedModule, LoadError> {
        let loaded = self.loaded.get().get_or_init(|| SIMULATOR.get().simulator.load(&self.module));
        loaded.as_ref().map_err(LoadError::clone)
    }
}

/// A kernel's PTX, loaded.
pub struct SimKernel {
    entry: DeviceEntry,
    kernel: polyloom_ptx::Kernel,
    arch: u32,
    /// Name of each parameter that is an array.
    param_names: Vec<Option<Arc<str>>>,
    /// Names of its shared arrays in PTX and in the source.
    shared_arrays: Vec<(String, Arc<str>)>,
}

impl SimKernel {
    /// Loads a kernel into `sim:0`: its HIR as the back end got it, and the PTX made of it with its entry's name, for
    /// an architecture (80 for `sm_80`).
    ///
    /// # Errors
    ///
    /// What in the PTX the simulator cannot run.
    pub fn new(
        function: &Function,
        params: KernelParams,
        ptx: &str,
        entry: &str,
        arch: u32,
    ) -> Result<SimKernel, DeviceFailure> {
        let all = |errors: Vec<polyloom_ptx::PtxError>| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            unloadable(lines.join("; "))
        };
        let device = DeviceId::Simulator;
        let module = polyloom_ptx::Module::parse(ptx).map_err(all)?;
        let loaded = SIMULATOR.get().simulator.load(&module);
        let loaded = loaded.map_err(|error| DeviceFailure::Code { device, reason: error.to_string() })?;
        let names = function.params().iter().zip(&function.param_names);
        let names = names.map(|(&param, name)| function.ty(param).as_array().map(|_| name.clone())).collect();
        Ok(SimKernel {
            entry: DeviceEntry::new(function, params),
            param_names: names,
            kernel: loaded.kernel(entry).map_err(all)?,
            arch,
            shared_arrays: shared_arrays(function),
        })
    }
}

impl DeviceKernel for SimKernel {
    fn device(&self) -> DeviceId {
        DeviceId::Simulator
    }

    unsafe fn launch(
        &self,
        queue: &dyn Queue,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        let started = options.timed.then(Instant::now);
        let stats = |report: Report| LaunchStats {
            tier: None,
            elapsed: started.map(|started| started.elapsed()),
            report: Some(Box::new(report)),
        };
        // SAFETY: the caller vouches for the arrays.
        let prepared = unsafe { self.entry.prepare(DeviceId::Simulator, queue, shape, args)? };
        let Some(prepared) = prepared else { return Ok(stats(Report::default())) };
        let grid = self.entry.grid(prepared.n_threads, options)?;
        let names = self.array_names(&prepared.params);
        let result = run(&self.kernel, self.arch, &prepared.params, &names, &grid, options);
        // SAFETY: as above.
        let trap = unsafe { self.entry.finish(&prepared)? };
        match (result, trap) {
            (_, Some(trap)) => Err(trap),
            (Ok(report), None) => Ok(stats(report)),
            (Err(fault), None) if fault.findings.iter().all(|f| f.kind == FindingKind::Interrupted) => {
                Err(LaunchError::Cancelled)
            }
            (Err(mut fault), None) => {
                fault.findings.iter_mut().for_each(|finding| self.in_terms_of_the_source(finding));
                Err(LaunchError::Simulator(fault))
            }
        }
    }
}

impl SimKernel {
    /// Returns where the arguments that are arrays begin on the device, and what the kernel calls them.
    fn array_names(&self, params: &[Vec<u8>]) -> Vec<(u64, Arc<str>)> {
        // Before those of the kernel there is one that says what is launched.
        let arrays = self.param_names.iter().zip(params.iter().skip(1));
        let named = arrays.filter_map(|(name, bytes)| Some((bytes.first_chunk()?, name.as_ref()?)));
        named.map(|(address, name)| (u64::from_le_bytes(*address), name.clone())).collect()
    }

    /// Gives the kernel and its shared arrays the names they have in the source: the simulator knows those in the PTX.
    fn in_terms_of_the_source(&self, finding: &mut Finding) {
        finding.kernel = self.entry.name.to_string();
        for (symbol, name) in &self.shared_arrays {
            finding.message = finding.message.replace(&format!("`{symbol}`"), &format!("`{name}`"));
        }
    }
}

/// The shared arrays of a kernel that have a name in the source: what PTX calls them, and that name.
fn shared_arrays(function: &Function) -> Vec<(String, Arc<str>)> {
    let mut found = Vec::new();
    function.walk(function.body, &mut |_, data| {
        let name = data.results.first().and_then(|&result| function.value_names[result].clone());
        if let (Imm::Shared(array), Some(name)) = (&data.imm, name) {
            found.push((array.symbol(Some(&name)), name));
        }
    });
    found
}

/// Runs a kernel on the simulator on another thread, while this one hands on what it prints and asks whether to go on.
/// `params` are the bytes of the entry's parameters, `names` what reports call the memory at these addresses, and
/// `arch` is 80 for `sm_80`.
///
/// # Errors
///
/// What the simulator found.
pub fn run(
    kernel: &polyloom_ptx::Kernel,
    arch: u32,
    params: &[Vec<u8>],
    names: &[(u64, Arc<str>)],
    grid: &LaunchConfig,
    options: &LaunchOptions<'_>,
) -> Result<Report, Box<Fault>> {
    let sim = &options.sim;
    let (printed, cancelled) = (Mutex::new(String::new()), AtomicBool::new(false));
    let launch = polyloom_ptx::LaunchRequest {
        grid: grid.grid,
        block: grid.block,
        dynamic_shared_bytes: grid.shared_bytes,
        cooperative: sim.cooperative,
        params,
        names,
        sanitize: sim.sanitize,
        counters: sim.counters,
        threads: sim.n_threads.max(1),
        arch,
        interrupt: &|| cancelled.load(Ordering::Relaxed),
        print: &|text| printed.lock().unwrap_or_else(PoisonError::into_inner).push_str(text),
        ..polyloom_ptx::LaunchRequest::default()
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
