//! Launches of kernels: their parameters as C callers pass them, and what becomes of what the simulator says.

use crate::driver::Driver;
use crate::module::{Function, PORTABLE_CLUSTER_BLOCKS};
use crate::order::{self, MemoryAccess};
use crate::pointers::{In, read_host};
use crate::status::{CudaError, Outcome};
use polyloom_ptx::{AccessedMemory, Fault, FindingKind, LaunchProgress, LaunchRequest, MULTIPROCESSORS, Report};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// A launch, with the bytes of its parameters.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) function: Arc<Function>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) cooperative: bool,
    /// Blocks of a cluster, if the launch or the function says how many.
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) params: Arc<Vec<Vec<u8>>>,
}

/// Marks in a launch's `extra` list (`CU_LAUNCH_PARAM_…`).
const END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// A launch that is expected to execute more instructions than this is announced.
const LONG: u64 = 1_000_000_000;

impl Launch {
    /// Reads parameters: a list of pointers to them, or a buffer that holds them as the kernel has them.
    pub(crate) fn read_params(function: &Function, pointers: usize, extra: usize) -> Outcome<Arc<Vec<Vec<u8>>>> {
        let parameters = function.kernel.parameters();
        let mut bytes = Vec::with_capacity(parameters.len());
        if pointers != 0 {
            let pointers: Vec<usize> = In::<usize>::at(pointers).list(parameters.len())?;
            for (parameter, pointer) in parameters.iter().zip(pointers) {
                if pointer == 0 && parameter.size > 0 {
                    return Err(CudaError::INVALID_VALUE);
                }
                bytes.push(read_host(pointer, parameter.size as usize));
            }
        } else if extra != 0 {
            let (buffer, length) = read_extra(extra)?;
            let whole = read_host(buffer, length);
            for parameter in parameters {
                let range = parameter.offset as usize..(parameter.offset + parameter.size) as usize;
                bytes.push(whole.get(range).ok_or(CudaError::INVALID_VALUE)?.to_vec());
            }
        } else if !parameters.is_empty() {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(Arc::new(bytes))
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, driver: &Driver) -> Outcome {
        self.check(driver)?;
        let (configuration, kernel) = (&driver.configuration, &self.function.kernel);
        let (started, told) = (Instant::now(), AtomicBool::new(false));
        let progress = |progress: LaunchProgress| self.announce(driver, progress, started, &told);
        let request = LaunchRequest {
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.shared_bytes,
            cooperative: self.cooperative,
            cluster: self.cluster.or_else(|| self.function.set_cluster()),
            params: &self.params,
            sanitize: configuration.sanitize,
            accesses: order::is_recording(),
            threads: configuration.n_threads,
            arch: configuration.arch.number().into(),
            print: &|text| driver.print(text),
            max_thread_instructions: configuration.limit,
            progress: &progress,
            ..LaunchRequest::default()
        };
        match kernel.launch(&request) {
            Ok(report) => {
                driver.journal.launched(kernel.name(), &report, started.elapsed());
                self.record_accesses(&report);
                Ok(())
            }
            Err(fault) => {
                driver.journal.launched(kernel.name(), &fault.report, started.elapsed());
                driver.journal.found(&fault.findings);
                self.record_accesses(&fault.report);
                failure(&fault).map_or(Ok(()), Err)
            }
        }
    }

    fn record_accesses(&self, report: &Report) {
        for AccessedMemory { range, writes, is_atomic, site } in &report.accesses {
            let who = order::described(self.function.kernel.name(), site);
            order::record(MemoryAccess { range: range.clone(), writes: *writes, is_atomic: *is_atomic, who });
        }
    }

    /// Fails what the driver refuses before a kernel starts.
    fn check(&self, driver: &Driver) -> Outcome {
        let arch = driver.configuration.arch;
        let limits = arch.limits();
        if self.grid.contains(&0) || self.block.contains(&0) {
            return Err(CudaError::INVALID_VALUE);
        }
        let allowed = self.function.max_dynamic_shared(limits.static_shared_bytes);
        if self.shared_bytes > allowed {
            let (name, asked) = (self.function.kernel.name(), self.shared_bytes);
            driver.journal.noted(&format!(
                "invalid launch of kernel `{name}`: it has {asked} bytes of dynamic shared memory, {allowed} are allowed; \
                 cuFuncSetAttribute with MAX_DYNAMIC_SHARED_SIZE_BYTES allows more, up to {} for {arch}",
                limits.opt_in_shared_bytes.saturating_sub(self.function.kernel.resources().static_shared_bytes),
            ));
            return Err(CudaError::INVALID_VALUE);
        }
        let cluster = self.cluster.or_else(|| self.function.set_cluster()).unwrap_or([1; 3]);
        let of_cluster = cluster.iter().fold(1u32, |all, extent| all.saturating_mul(*extent));
        if of_cluster > self.function.max_cluster_blocks() {
            driver.journal.noted(&format!(
                "invalid launch of kernel `{}`: a cluster of {of_cluster} blocks; more than {PORTABLE_CLUSTER_BLOCKS} need \
                 cuFuncSetAttribute with NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
                self.function.kernel.name()
            ));
            return Err(CudaError::INVALID_CLUSTER_SIZE);
        }
        let threads = self.block.iter().fold(1u32, |all, extent| all.saturating_mul(*extent));
        if self.cooperative && threads <= limits.threads_per_block {
            let a_processor = self.function.kernel.occupancy(arch.number().into(), threads, self.shared_bytes).blocks;
            let blocks = self.grid.iter().map(|extent| u64::from(*extent)).product::<u64>();
            if blocks > u64::from(a_processor.max(1) * MULTIPROCESSORS) {
                return Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        Ok(())
    }

    /// Says how long a long launch will take, once its first block is done.
    fn announce(&self, driver: &Driver, progress: LaunchProgress, started: Instant, told: &AtomicBool) {
        let LaunchProgress { blocks_done, blocks, thread_instructions } = progress;
        let expected = (thread_instructions / blocks_done.max(1)).saturating_mul(blocks);
        if expected < LONG || blocks_done >= blocks || told.swap(true, Relaxed) {
            return;
        }
        let seconds = started.elapsed().as_secs_f64() / blocks_done as f64 * blocks as f64;
        let name = self.function.kernel.name();
        driver.journal.tell(&format!(
            "kernel `{name}` has {blocks} blocks, of which the first took {} instructions: about {:.1e} in all, {seconds:.0} s",
            thread_instructions / blocks_done.max(1),
            expected as f64,
        ));
    }
}

/// The buffer of parameters that an `extra` list names, and its size.
fn read_extra(extra: usize) -> Outcome<(usize, usize)> {
    let (mut at, mut buffer, mut length) = (extra, None, None);
    let word = |at: usize| In::<usize>::at(at).get();
    // A list has few marks; one without an end is none.
    for _ in 0..8 {
        match word(at)? {
            END => return buffer.zip(length).ok_or(CudaError::INVALID_VALUE),
            BUFFER_POINTER => buffer = Some(word(at + size_of::<usize>())?),
            BUFFER_SIZE => length = Some(word(word(at + size_of::<usize>())?)?),
            _ => return Err(CudaError::INVALID_VALUE),
        }
        at += 2 * size_of::<usize>();
    }
    Err(CudaError::INVALID_VALUE)
}

/// The driver's error for what ended a launch; nothing if it went on to its end.
fn failure(fault: &Fault) -> Option<CudaError> {
    let last = fault.findings.last().filter(|finding| !finding.is_collected())?;
    Some(match last.kind {
        FindingKind::OutOfBounds => CudaError::ILLEGAL_ADDRESS,
        FindingKind::Misaligned => CudaError::MISALIGNED_ADDRESS,
        FindingKind::Deadlock | FindingKind::Interrupted | FindingKind::InstructionLimit => CudaError::LAUNCH_TIMEOUT,
        FindingKind::Trap if last.message.contains("assert") => CudaError::ASSERT,
        FindingKind::IllegalCall => CudaError::INVALID_PC,
        FindingKind::InvalidTensorMap => CudaError::ILLEGAL_INSTRUCTION,
        FindingKind::StackOverflow => CudaError::HARDWARE_STACK_ERROR,
        FindingKind::InvalidLaunch => CudaError::INVALID_VALUE,
        _ => CudaError::LAUNCH_FAILED,
    })
}

/// Parameters of a node as the C interface shows them: pointers to their bytes.
pub(crate) struct ShownParams {
    /// Kept, because the pointers are to it.
    _bytes: Arc<Vec<Vec<u8>>>,
    pointers: Vec<usize>,
}

impl ShownParams {
    pub(crate) fn new(params: &Arc<Vec<Vec<u8>>>) -> ShownParams {
        let pointers = params.iter().map(|bytes| bytes.as_ptr().expose_provenance()).collect();
        ShownParams { _bytes: Arc::clone(params), pointers }
    }

    /// The address of the list.
    pub(crate) fn address(&self) -> usize {
        self.pointers.as_ptr().expose_provenance()
    }
}
