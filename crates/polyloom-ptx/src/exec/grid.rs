//! A launch: its checks before it starts, and its blocks over the host's threads.
//!
//! Each host thread takes blocks in order and runs the oldest it has. A block that only waits in loops goes to the
//! back, and another is begun beside it, so blocks may wait for each other, as with locks and barriers of the whole
//! grid.

use super::block::{BlockProgress, BlockRun};
use super::cluster::MAX_CLUSTER_BLOCKS;
use super::registers::RegisterFiles;
use crate::counters::Counters;
use crate::decode::op::{DecodedInst, DecodedProgram};
use crate::memory::MemoryError;
use crate::memory::device::{Allocation, AllocationPurpose, DeviceMemory};
use crate::memory::region::MemoryRegion;
use crate::memory::window::{self, RESERVED_SHARED};
use crate::report::{AccessedMemory, CodeSite, Fault, Finding, FindingKind, Report, ThreadPlace};
use crate::sanitize::cluster::ClusterChecks;
use crate::sanitize::{BlockChecks, GlobalChecks};
use crate::texture::ImageObjects;
use crate::{LaunchProgress, LaunchRequest};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Multiprocessors that blocks are said to run on.
pub(super) const PROCESSORS: u64 = crate::occupancy::MULTIPROCESSORS as u64;

/// The most blocks that are begun and not done on one host thread.
const MAX_RESIDENT: usize = 1024;
/// The most memory of the host that the registers of a block may take; real kernels have some thousands of them.
const MAX_REGISTER_BYTES: u64 = 1 << 30;
/// The most findings a launch collects.
const MAX_FINDINGS: usize = 64;

/// Describes what all blocks of a launch share.
pub(crate) struct GridContext<'a> {
    pub(crate) program: &'a DecodedProgram,
    pub(crate) launch: &'a LaunchRequest<'a>,
    pub(crate) device: &'a DeviceMemory,
    pub(crate) memory: Vec<Arc<Allocation>>,
    /// The textures and surfaces that there are.
    pub(crate) objects: ImageObjects,
    pub(crate) parameters: MemoryRegion,
    /// Among `memory` what `malloc` gives, if the kernel calls it.
    pub(crate) heap: Option<usize>,
    /// The addresses of the program's functions, by index.
    pub(crate) functions: &'a [u64],
    /// Warps in a block.
    pub(crate) warps: u32,
    /// Blocks of a cluster along each axis, and all of them.
    pub(crate) cluster: [u32; 3],
    pub(crate) cluster_blocks: u32,
    /// The address of what the blocks of a cooperative launch synchronise by, or zero.
    pub(crate) workspace: u64,
    /// Bytes of shared memory, the system's included.
    pub(crate) shared_bytes: u32,
    pub(crate) counting: bool,
    /// Accesses are shown to checks or counters.
    pub(crate) observing: bool,
    pub(crate) started: Instant,
    pub(crate) global_checks: Option<Mutex<GlobalChecks>>,
    findings: Mutex<Vec<Finding>>,
    stop: AtomicBool,
    /// Blocks that are done, and what their threads have executed.
    done: (AtomicU64, AtomicU64),
}

impl GridContext<'_> {
    pub(crate) fn kernel(&self) -> &str {
        &self.program.functions[self.program.kernel].name
    }

    /// Returns where an instruction is.
    pub(crate) fn site(&self, inst: &DecodedInst) -> CodeSite {
        let (file, line, column) = inst.source;
        let name = self.program.files.iter().find(|(index, _)| *index == file && line > 0);
        CodeSite { source: name.map(|(_, name)| (name.clone(), line, column)), position: inst.position }
    }

    /// The allocation that has `address`; `recent` is where the last one was found.
    #[inline]
    pub(crate) fn allocation(&self, address: u64, recent: &mut usize) -> Option<usize> {
        let holds = |allocation: &Allocation| address >= allocation.address && address < allocation.end();
        if self.memory.get(*recent).is_some_and(|allocation| holds(allocation)) {
            return Some(*recent);
        }
        let index = self.memory.partition_point(|allocation| allocation.address <= address).checked_sub(1)?;
        if !holds(&self.memory[index]) {
            return None;
        }
        *recent = index;
        Some(index)
    }

    /// The function a pointer stands for.
    pub(crate) fn function_at(&self, address: u64) -> Option<usize> {
        self.functions.iter().position(|each| *each == address).filter(|_| address >= window::FUNCTIONS)
    }

    /// A finding with no place.
    pub(crate) fn plain_finding(&self, kind: FindingKind, message: &str) -> Box<Finding> {
        Box::new(Finding {
            kind,
            kernel: self.kernel().to_owned(),
            site: None,
            other: None,
            threads: Vec::new(),
            address: None,
            message: message.to_owned(),
        })
    }

    /// In words, what is at an address of shared memory.
    pub(crate) fn describe_shared(&self, offset: u64) -> String {
        let dynamic = self.launch.dynamic_shared_bytes;
        let reserved = u64::from(RESERVED_SHARED);
        if offset < reserved {
            return format!("byte {offset} of the {reserved} bytes that shared memory begins with and the system has");
        }
        let dynamic_start = reserved + u64::from(self.program.static_shared_bytes);
        if dynamic > 0 && offset >= dynamic_start {
            let past = offset - dynamic_start;
            return format!("byte {past} of the {dynamic} bytes of dynamic shared memory");
        }
        match self.program.shared.iter().rev().find(|(start, _, _)| u64::from(*start) <= offset) {
            Some((start, size, name)) => {
                let (byte, name) = (offset - u64::from(*start), plain_name(name));
                format!("byte {byte} of `{name}` ({size} bytes)")
            }
            None => format!("byte {} of shared memory", offset - reserved),
        }
    }

    /// Returns which offsets of shared memory may be accessed.
    #[inline]
    pub(crate) fn shared_bounds(&self) -> Range<u64> {
        let start = if self.program.uses_reserved_shared { 0 } else { RESERVED_SHARED.min(self.shared_bytes) };
        start.into()..self.shared_bytes.into()
    }

    /// Bytes of shared memory that the program has, static and dynamic.
    pub(crate) fn program_shared_bytes(&self) -> u32 {
        self.program.static_shared_bytes + self.launch.dynamic_shared_bytes
    }

    /// In words, why a kernel fails that synchronises its grid and is not launched so.
    pub(crate) fn lacks_workspace(&self) -> &'static str {
        match self.program.uses_workspace && !self.launch.cooperative {
            true => {
                "; the kernel asks for the workspace of a cooperative launch, to synchronise its grid: launch it as one"
            }
            false => "",
        }
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.stop.load(Relaxed) || (self.launch.interrupt)()
    }

    /// Ends the launch if its threads have executed more than they may: those of blocks that are done, and `more`.
    pub(crate) fn check_limit(&self, more: u64) -> Result<(), Box<Finding>> {
        let Some(limit) = self.launch.max_thread_instructions else { return Ok(()) };
        let executed = self.done.1.load(Relaxed) + more;
        if executed <= limit {
            return Ok(());
        }
        let (blocks, all) = (self.done.0.load(Relaxed), self.blocks());
        let message =
            format!("its threads have executed over {limit} instructions, with {blocks} of {all} blocks done");
        Err(self.plain_finding(FindingKind::InstructionLimit, &message))
    }

    fn blocks(&self) -> u64 {
        self.launch.grid.iter().map(|extent| u64::from(*extent)).product()
    }

    /// Notes that a block is done.
    fn block_is_done(&self, thread_instructions: u64) {
        let executed = self.done.1.fetch_add(thread_instructions, Relaxed) + thread_instructions;
        let blocks_done = self.done.0.fetch_add(1, Relaxed) + 1;
        let progress = LaunchProgress { blocks_done, blocks: self.blocks(), thread_instructions: executed };
        (self.launch.progress)(progress);
    }

    /// Notes what a check found, once for each kind and line, or pair of lines whichever of them came second; of those
    /// within a block and between blocks the latter.
    pub(crate) fn report(&self, finding: Finding) {
        type Line<'a> = Option<(Option<&'a str>, u32)>;
        fn line(site: &Option<CodeSite>) -> Line<'_> {
            site.as_ref().map(|site| match &site.source {
                Some((file, line, _)) => (Some(file.as_str()), *line),
                None => (None, site.position.line),
            })
        }
        fn lines(finding: &Finding) -> (Line<'_>, Line<'_>) {
            let (here, there) = (line(&finding.site), line(&finding.other));
            if there.is_some() && there < here { (there, here) } else { (here, there) }
        }
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let known = findings.iter().position(|each| each.kind == finding.kind && lines(each) == lines(&finding));
        // A barrier of the block does not mend a race with another block, because such take the place of those within a
        // block.
        let place = match known {
            None if findings.len() < MAX_FINDINGS => return findings.push(finding),
            None => findings.iter().rposition(|each| each.kind == FindingKind::Race && !each.is_between_blocks()),
            Some(known) => Some(known).filter(|known| !findings[*known].is_between_blocks()),
        };
        if let Some(place) = place.filter(|_| finding.is_between_blocks()) {
            findings[place] = finding;
        }
    }

    pub(crate) fn new_checks(&self, ordinal: u64) -> Option<BlockChecks> {
        let sanitize = self.launch.sanitize;
        let place = (ordinal as u32, self.cluster_blocks);
        sanitize.observes().then(|| BlockChecks::new(sanitize, place, self.warps))
    }

    pub(crate) fn new_cluster_checks(&self) -> Option<ClusterChecks> {
        let observes = self.launch.sanitize.observes();
        observes.then(|| ClusterChecks::new(self.shared_bytes, self.cluster_blocks))
    }

    /// The place in the grid of a block by its number in the order of clusters, and within these of ranks.
    pub(crate) fn block_index(&self, ordinal: u64) -> [u32; 3] {
        let along = |number: u64, [x, y, _]: [u32; 3]| {
            let (x, y) = (u64::from(x), u64::from(y));
            [number % x, number / x % y, number / (x * y)].map(|axis| axis as u32)
        };
        let n_blocks = u64::from(self.cluster_blocks);
        let clusters = [0, 1, 2].map(|axis| self.launch.grid[axis] / self.cluster[axis]);
        let (cluster, block) = (along(ordinal / n_blocks, clusters), along(ordinal % n_blocks, self.cluster));
        [0, 1, 2].map(|axis| cluster[axis] * self.cluster[axis] + block[axis])
    }

    /// The thread of that number in the block of that number in the order of clusters.
    pub(crate) fn thread_at(&self, ordinal: u64, thread: usize) -> ThreadPlace {
        let ([x, y, _], thread) = (self.launch.block, thread as u32);
        ThreadPlace { block: self.block_index(ordinal), thread: [thread % x, thread / x % y, thread / (x * y)] }
    }
}

/// A variable's name without its scopes: `tile` for `_ZZN3app4sortEPiE4tile`, in which each name follows its length
/// (Itanium C++ ABI §5.1). Other names are as they are.
fn plain_name(name: &str) -> &str {
    let Some(mut rest) = name.strip_prefix("_Z") else { return name };
    let mut last = name;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length = rest[..digits].parse::<usize>().unwrap_or(0);
        match rest.get(digits..digits + length).filter(|_| length > 0) {
            Some(part) => {
                last = part;
                rest = &rest[digits + length..];
            }
            // Numbers among the arguments of templates have a letter for their type, and end in `E`.
            None if rest.starts_with('L') => rest = rest.split_once('E').map_or("", |(_, after)| after),
            None => rest = &rest[rest.chars().next().map_or(1, char::len_utf8).max(digits)..],
        }
    }
    last
}

/// Returns true if code for `target` runs on the architecture (PTX ISA 9.0 §11.1.2): with `a` on that alone, with `f`
/// on those of its family that are no older, otherwise on all that are not.
pub(crate) fn runs_on(target: &str, arch: u32) -> bool {
    let number = target.trim_start_matches("sm_");
    let digits = number.trim_end_matches(['a', 'f']);
    let Ok(least) = digits.parse::<u32>() else { return true };
    match &number[digits.len()..] {
        "a" => arch == least,
        "f" => arch / 10 == least / 10 && arch >= least,
        _ => arch >= least,
    }
}

/// Returns what is wrong with a launch before it starts.
fn invalid(program: &DecodedProgram, launch: &LaunchRequest<'_>) -> Option<String> {
    let threads = launch.block.iter().fold(1, |threads: u64, &extent| threads.saturating_mul(extent.into()));
    if !runs_on(&program.target, launch.arch) {
        return Some(format!("the module is for {}, the device is sm_{}", program.target, launch.arch));
    }
    let (arch, limits) = (crate::occupancy::limits(launch.arch), program.limits);
    let extent = |sizes: [u32; 3]| format!("({}, {}, {})", sizes[0], sizes[1], sizes[2]);
    if launch.grid.contains(&0) || launch.block.contains(&0) {
        return Some(format!("the grid {} of blocks {} is empty", extent(launch.grid), extent(launch.block)));
    }
    let exceeds = |sizes: [u32; 3], most: [u32; 3]| sizes.iter().zip(most).any(|(&size, most)| size > most);
    if threads > arch.threads_per_block.into() || exceeds(launch.block, arch.block_dim) {
        let (most, along) = (arch.threads_per_block, extent(arch.block_dim));
        return Some(format!(
            "a block has at most {most} threads, {along} along its axes, not {}",
            extent(launch.block)
        ));
    }
    if exceeds(launch.grid, arch.grid_dim) {
        let (most, given) = (extent(arch.grid_dim), extent(launch.grid));
        return Some(format!("a grid has at most {most} blocks along its axes, not {given}"));
    }
    if let Some(required) = limits.required_block
        && required != launch.block
    {
        return Some(format!("the kernel requires blocks of {}, not {}", extent(required), extent(launch.block)));
    }
    if let Some(most) = limits.max_threads
        && threads > u64::from(most)
    {
        return Some(format!("the kernel allows {most} threads a block, not {threads}"));
    }
    let most = arch.opt_in_shared_bytes;
    let bytes = u64::from(program.static_shared_bytes) + u64::from(launch.dynamic_shared_bytes);
    if bytes > u64::from(most) {
        return Some(format!("a block needs {bytes} bytes of shared memory, sm_{} allows {most}", launch.arch));
    }
    let registers = RegisterFiles::bytes(program.functions[program.kernel].size) * threads.div_ceil(32);
    if registers > MAX_REGISTER_BYTES {
        return Some(format!("a block's registers take {registers} bytes of the host, at most {MAX_REGISTER_BYTES}"));
    }
    if launch.params.len() != program.parameters.len() {
        let (has, given) = (program.parameters.len(), launch.params.len());
        return Some(format!("the kernel has {has} parameters, not {given}"));
    }
    for (index, (parameter, bytes)) in program.parameters.iter().zip(launch.params).enumerate() {
        if bytes.len() != parameter.size as usize {
            let (size, given) = (parameter.size, bytes.len());
            return Some(format!("parameter {index} (`{}`) has {size} bytes, not {given}", parameter.name));
        }
    }
    if let Some(message) = invalid_cluster(program, launch) {
        return Some(message);
    }
    if launch.cooperative { not_resident(program, launch) } else { None }
}

/// Blocks of a cluster along each axis: what the kernel requires, else what the launch asks for.
fn cluster_of(program: &DecodedProgram, launch: &LaunchRequest<'_>) -> [u32; 3] {
    program.limits.required_cluster.or(launch.cluster).unwrap_or([1; 3])
}

/// Returns what is wrong with the clusters of a launch.
fn invalid_cluster(program: &DecodedProgram, launch: &LaunchRequest<'_>) -> Option<String> {
    let limits = program.limits;
    let shown = |sizes: [u32; 3]| format!("({}, {}, {})", sizes[0], sizes[1], sizes[2]);
    if limits.needs_cluster && limits.required_cluster.is_none() && launch.cluster.is_none() {
        return Some("the kernel needs a launch that says how large clusters are".to_owned());
    }
    if let (Some(required), Some(given)) = (limits.required_cluster, launch.cluster)
        && required != given
    {
        return Some(format!("the kernel requires clusters of {} blocks, not {}", shown(required), shown(given)));
    }
    let cluster = cluster_of(program, launch);
    let n_blocks = cluster.iter().fold(1u32, |product, extent| product.saturating_mul(*extent));
    if n_blocks == 1 {
        return None;
    }
    let most = limits.max_cluster_blocks.unwrap_or(MAX_CLUSTER_BLOCKS).min(MAX_CLUSTER_BLOCKS);
    let is_divided = launch.grid.iter().zip(cluster).all(|(blocks, of)| of != 0 && blocks.is_multiple_of(of));
    match () {
        () if launch.arch < 90 => Some(format!("sm_{} has no clusters of several blocks; sm_90 has", launch.arch)),
        () if n_blocks == 0 || n_blocks > most => {
            Some(format!("a cluster of {} blocks: there may be 1 to {most}", shown(cluster)))
        }
        () if !is_divided => {
            Some(format!("a grid of {} blocks is not made of clusters of {}", shown(launch.grid), shown(cluster)))
        }
        () => None,
    }
}

/// Describes what cooperative groups find at `%envreg1` and `%envreg2`: its size and the word of the grid's barrier.
struct GridWorkspace<'a> {
    device: &'a DeviceMemory,
    address: u64,
}

impl GridWorkspace<'_> {
    const BYTES: u32 = 8;

    fn new(device: &DeviceMemory) -> Result<GridWorkspace<'_>, MemoryError> {
        let purpose = AllocationPurpose::Variable { name: "the workspace of the grid".to_owned() };
        let address = device.alloc_for(Self::BYTES as usize, 16, purpose)?;
        device.write(address, &Self::BYTES.to_le_bytes())?;
        Ok(GridWorkspace { device, address })
    }
}

impl Drop for GridWorkspace<'_> {
    fn drop(&mut self) {
        // The result is ignored because a kernel cannot have freed the workspace.
        let _ = self.device.free(self.address);
    }
}

/// Returns what is wrong with a cooperative launch: its blocks wait for each other, so that all have to run at once.
fn not_resident(program: &DecodedProgram, launch: &LaunchRequest<'_>) -> Option<String> {
    let occupancy = crate::occupancy::occupancy(program, launch);
    // One block is allowed in any case, since the number of registers of a thread is an estimate.
    let a_processor = u64::from(occupancy.blocks).max(1);
    let blocks = launch.grid.iter().map(|extent| u64::from(*extent)).product::<u64>();
    let most = PROCESSORS * a_processor;
    let (arch, limiter) = (launch.arch, format!("{:?}", occupancy.limiter).to_lowercase());
    (blocks > most).then(|| {
        format!(
            "a cooperative launch has all its blocks at once: sm_{arch} holds {most} of these, {a_processor} on each of \
             {PROCESSORS} multiprocessors (limited by {limiter}), not {blocks}"
        )
    })
}

/// Runs a launch to its end.
pub(crate) fn run(
    program: &DecodedProgram,
    functions: &[u64],
    (device, heap): (&DeviceMemory, Option<u64>),
    launch: &LaunchRequest<'_>,
) -> Result<Report, Box<Fault>> {
    let sanitizing = launch.sanitize.observes();
    if let Some(message) = invalid(program, launch) {
        return Err(refused(program, message));
    }
    let Some(parameters) = MemoryRegion::new(program.parameter_bytes as usize) else {
        return Err(refused(program, "the host has no memory for parameters".to_owned()));
    };
    for (parameter, bytes) in program.parameters.iter().zip(launch.params) {
        parameters.write(parameter.offset as usize, bytes);
    }
    let threads = launch.block.iter().product::<u32>();
    let cluster = cluster_of(program, launch);
    let workspace = match (launch.cooperative && program.uses_workspace).then(|| GridWorkspace::new(device)).transpose()
    {
        Ok(workspace) => workspace,
        Err(error) => return Err(refused(program, format!("the workspace of a cooperative launch: {error}"))),
    };
    let memory = device.snapshot();
    let context = GridContext {
        program,
        launch,
        device,
        heap: memory.iter().position(|allocation| Some(allocation.address) == heap),
        memory,
        objects: device.image_objects(),
        parameters,
        functions,
        warps: threads.div_ceil(32),
        cluster,
        cluster_blocks: cluster.iter().product(),
        workspace: workspace.as_ref().map_or(0, |workspace| workspace.address),
        shared_bytes: match program.static_shared_bytes + launch.dynamic_shared_bytes {
            0 if !program.uses_reserved_shared => 0,
            bytes => RESERVED_SHARED + bytes,
        },
        counting: launch.counters,
        observing: launch.counters || sanitizing,
        started: Instant::now(),
        global_checks: sanitizing.then(Mutex::default),
        findings: Mutex::default(),
        stop: AtomicBool::new(false),
        done: (AtomicU64::new(0), AtomicU64::new(0)),
    };
    let blocks = launch.grid.iter().map(|extent| u64::from(*extent)).product::<u64>();
    // The checks follow one order of events, so that they run on one host thread.
    let clusters = blocks / u64::from(context.cluster_blocks);
    let workers = if sanitizing { 1 } else { launch.threads.clamp(1, 256).min(clusters as usize) };
    let mut counters = work(&context, clusters, workers);
    if launch.counters {
        counters.occupancy = Some(crate::occupancy::occupancy(program, launch));
    }
    let report = Report {
        thread_instructions: counters.thread_instructions,
        warp_instructions: counters.warp_instructions,
        counters: launch.counters.then_some(counters),
        accesses: footprint(&context),
    };
    let mut findings = context.findings.into_inner().unwrap_or_else(PoisonError::into_inner);
    if findings.len() > 1 {
        findings.retain(|finding| finding.kind != FindingKind::Interrupted);
    }
    // The fault that ended the launch stays the last.
    findings.sort_by_key(|finding| match finding {
        _ if finding.is_between_blocks() => 0,
        _ if finding.is_collected() => 1,
        _ => 2,
    });
    if findings.is_empty() { Ok(report) } else { Err(Box::new(Fault { findings, report })) }
}

/// Returns which global memory was accessed, and where in the kernel, if the check for races has seen it and somebody asks.
fn footprint(context: &GridContext<'_>) -> Vec<AccessedMemory> {
    let checks = context.global_checks.as_ref().filter(|_| context.launch.accesses);
    let Some(checks) = checks else { return Vec::new() };
    let words = checks.lock().unwrap_or_else(PoisonError::into_inner).footprint();
    let code = &context.program.code;
    let accessed = words.into_iter().map(|word| AccessedMemory {
        range: word.start..word.end,
        writes: word.writes,
        is_atomic: word.strong,
        site: context.site(&code[word.inst as usize]),
    });
    accessed.collect()
}

fn refused(program: &DecodedProgram, message: String) -> Box<Fault> {
    let finding = Finding {
        kind: FindingKind::InvalidLaunch,
        kernel: program.functions[program.kernel].name.clone(),
        site: None,
        other: None,
        threads: Vec::new(),
        address: None,
        message,
    };
    Box::new(Fault { findings: vec![finding], report: Report::default() })
}

/// Runs all clusters on so many host threads, and gives what they counted.
fn work(context: &GridContext<'_>, clusters: u64, workers: usize) -> Counters {
    let next = AtomicU64::new(0);
    let total = Mutex::new(Counters::default());
    let work = || {
        if let Err(finding) = worker(context, &next, clusters, &total) {
            context.stop.store(true, Relaxed);
            let mut findings = context.findings.lock().unwrap_or_else(PoisonError::into_inner);
            // An interruption is noted only where nothing else was found, because threads that were told to stop have
            // nothing of their own to say.
            if finding.kind != FindingKind::Interrupted || findings.is_empty() {
                findings.push(*finding);
            }
        }
    };
    if workers == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 1..workers {
                scope.spawn(work);
            }
            work();
        });
    }
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn worker(
    context: &GridContext<'_>,
    next: &AtomicU64,
    clusters: u64,
    total: &Mutex<Counters>,
) -> Result<(), Box<Finding>> {
    let mut resident: VecDeque<BlockRun> = VecDeque::new();
    let mut spare: Vec<BlockRun> = Vec::new();
    let mut counters = Counters::default();
    let mut begin = true;
    // Blocks one after the other that could do nothing but wait for the rest of their cluster.
    let mut n_waiting = 0;
    let outcome = loop {
        if begin && resident.len() < MAX_RESIDENT {
            let index = next.fetch_add(1, Relaxed);
            if index < clusters {
                let Some(blocks) = cluster_blocks(context, index, &mut spare) else {
                    break Err(context.plain_finding(FindingKind::InvalidLaunch, "the host has no memory for blocks"));
                };
                blocks.into_iter().rev().for_each(|block| resident.push_front(block));
                n_waiting = 0;
            }
        }
        let Some(mut block) = resident.pop_front() else { break Ok(()) };
        if context.interrupted() {
            break Err(context.plain_finding(FindingKind::Interrupted, "the launch was interrupted"));
        }
        let progress = block.run(context);
        n_waiting = if matches!(progress, Ok(BlockProgress::Waiting)) { n_waiting + 1 } else { 0 };
        match progress {
            Ok(BlockProgress::Waiting) if n_waiting > resident.len() => {
                let finding = block.deadlock(context);
                block.stopped();
                counters.add(&std::mem::take(&mut block.state.counters));
                break Err(finding);
            }
            Ok(BlockProgress::Waiting) => {
                resident.push_back(block);
                begin = false;
            }
            Ok(BlockProgress::Done) => {
                context.block_is_done(block.state.counters.thread_instructions);
                if let Err(finding) = context.check_limit(0) {
                    counters.add(&std::mem::take(&mut block.state.counters));
                    break Err(finding);
                }
                counters.add(&std::mem::take(&mut block.state.counters));
                spare.push(block);
                begin = resident.is_empty();
            }
            Ok(BlockProgress::Turn) => {
                resident.push_back(block);
                begin = false;
            }
            Ok(BlockProgress::Spinning) => {
                resident.push_back(block);
                begin = true;
            }
            Err(finding) => {
                block.stopped();
                counters.add(&std::mem::take(&mut block.state.counters));
                break Err(finding);
            }
        }
    };
    total.lock().unwrap_or_else(PoisonError::into_inner).add(&counters);
    outcome
}

/// The blocks of a cluster, which begin together; `None` if the host has not the memory.
fn cluster_blocks(context: &GridContext<'_>, cluster: u64, spare: &mut Vec<BlockRun>) -> Option<Vec<BlockRun>> {
    let n_blocks = u64::from(context.cluster_blocks);
    let ready = |ordinal: u64| {
        let mut block = spare.pop().or_else(|| BlockRun::new(context))?;
        block.reset(context, ordinal).then_some(block)
    };
    let mut blocks: Vec<BlockRun> = (cluster * n_blocks..(cluster + 1) * n_blocks).map(ready).collect::<Option<_>>()?;
    if n_blocks > 1 {
        BlockRun::join(&mut blocks, context);
    }
    Some(blocks)
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn names_of_variables_in_functions_lose_their_scopes() {
        // As c++filt has them: `sort(unsigned short)::t`, `app::sort(int*)::tile`, `f<6>()::s`, and a second `tile`.
        let mangled =
            ["_ZZ5msortE1t", "_ZZN3app4sortEPiE4tile", "_ZZ1fILi6EEvvE1s", "_ZZ5msortE4tile_0", "tile", "_Zero"];
        assert_eq!(mangled.map(plain_name), ["t", "tile", "s", "tile", "tile", "_Zero"]);
    }
}
