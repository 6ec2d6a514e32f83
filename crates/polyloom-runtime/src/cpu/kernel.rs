//! A kernel on the CPU and its variants.
//!
//! A variant is the kernel compiled for one launch rank and one set of facts about the arguments. Variants are made on
//! the launch that first needs them and live as long as the kernel; a launch finds its variant without a lock. Code is
//! never freed before the kernel, so a launch may go on using an entry that has just been replaced.

use super::candidates::{self, CandidateInfo, CandidateSamples, CandidateTrial};
use super::cost::ThreadCost;
use super::device::{CpuDevice, Tier, TierPolicy};
use super::facts::{FactKey, FactPlan};
pub use super::kernel_source::{InterpretableHir, KernelSource};
use super::thread_order::TiledOrder;
use super::tiers::{self, TierPromotion};
use crate::args::{ArgBlock, KernelParams};
use crate::cache::{self, CacheLookup};
use crate::error::LaunchError;
use crate::fork::{PerProcess, without_fork};
use polyloom_codegen::abi::SiteKind;
use polyloom_codegen::{ArgFacts, CodeObject, CodeVariant, CodegenError, KernelEntry, LoadedCode, SiteTable};
use polyloom_ir::interp::Interpreter;
use polyloom_ir::{FloatMode, OptLevel};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Most variants of a kernel.
const MAX_VARIANTS: usize = 24;
/// Once there are this many, further launches run variants that assume nothing (one for each launch rank and each tier
/// that launches name).
const MAX_SPECIALISED: usize = 12;
/// Once this many have extents built in, no more do.
const MAX_WITH_EXTENTS: usize = 4;

/// Longest code that the tiers chosen automatically optimise, since beyond it that takes seconds, growing faster than
/// the code, and the end of the program waits for it.
const MAX_OPTIMIZED_INSTS: usize = 5_000;

/// A kernel on a [`CpuDevice`].
pub struct CpuKernel {
    pub(crate) inner: Arc<KernelInner>,
}

/// One variant, for people and tests to look at.
#[derive(Clone, PartialEq, Debug)]
pub struct VariantInfo {
    /// Rank of the launches it serves.
    pub launch_rank: u8,
    /// The facts about the arguments that its code relies on. The quick code of a device that picks tiers itself does not make use of it.
    pub facts: ArgFacts,
    /// The tier of its code.
    pub tier: Tier,
    /// Launches so far, roughly.
    pub launches: u64,
    /// Measured or estimated nanoseconds a thread.
    pub ns_per_thread: f32,
    /// The numbers of lanes between which measuring decides or has decided; empty if it does not.
    pub candidates: Vec<CandidateInfo>,
    /// Why it could not be recompiled: for the optimised tier, or, if it has that, for other lanes.
    pub error: Option<CodegenError>,
}

/// The measurements of a kernel's candidates, for people to look at.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasuredCandidates {
    /// The facts about the arguments of the launches that the code relies on.
    pub facts: ArgFacts,
    /// The candidates, the model's choice first.
    pub candidates: Vec<CandidateInfo>,
}

pub(crate) struct KernelInner {
    pub(crate) device: Arc<CpuDevice>,
    pub(crate) source: KernelSource,
    pub(crate) name: Arc<str>,
    pub(crate) params: KernelParams,
    /// Sites of the prepared kernel.
    pub(crate) sites: SiteTable,
    pub(crate) prints: bool,
    /// The cores that it may run on; any if there are none.
    pub(crate) cores: Box<[u32]>,
    /// True if it is launched in blocks of threads.
    pub(crate) needs_blocks: bool,
    pub(crate) cost: ThreadCost,
    /// True if it is short enough for the optimised tier: see [`MAX_OPTIMIZED_INSTS`].
    is_small: bool,
    /// True if its first launch is to be as fast as the others, so that it waits for optimised code.
    is_critical: bool,
    /// True if launches of few threads take no longer than their number says, run on any core, and print nothing.
    pub(crate) may_be_short: bool,
    /// True if all candidates give the same bits, so that chunks of one launch may run different ones.
    pub(crate) mixes_candidates: bool,
    pub(crate) plan: FactPlan,
    /// Says how its threads are ordered, if not by rows.
    pub(crate) order: Option<TiledOrder>,
    variants: [AtomicPtr<VariantState>; MAX_VARIANTS],
    pub(crate) interpreter: PerProcess<OnceLock<Interpreter>>,
    /// Held while a variant is made.
    making: PerProcess<Mutex<()>>,
    /// Keeps all code of this kernel alive.
    code: PerProcess<Mutex<Vec<Arc<dyn LoadedCode>>>>,
}

/// A variant and what is known of its speed. The numbers are updated without synchronisation, because a lost update is
/// a slightly worse estimate.
pub(crate) struct VariantState {
    launch_rank: u8,
    key: FactKey,
    /// The tier that the launches it serves name.
    pinned: Option<Tier>,
    pub(crate) variant: CodeVariant,
    entry: AtomicPtr<c_void>,
    tier: AtomicU8,
    launches: AtomicU64,
    work_ns: AtomicU64,
    /// Work after which the next promotion is due.
    hot_after_ns: AtomicU64,
    ns_per_thread: AtomicU32,
    pub(crate) promotion: TierPromotion,
    choice: OnceLock<CandidateChoice>,
    error: OnceLock<CodegenError>,
}

/// Code that a variant begins with or is recompiled to.
struct BuiltCode {
    code: Arc<dyn LoadedCode>,
    tier: Tier,
    /// The earlier measurements of its candidates, if the faster one was taken for them.
    samples: Option<[CandidateSamples; 2]>,
}

/// Says how it came that a variant with candidates runs one of them.
enum CandidateChoice {
    /// It is measured, or has been.
    Trial(CandidateTrial),
    /// It was measured before, in this process or another.
    Known([CandidateSamples; 2]),
}

impl CpuKernel {
    /// A kernel on `device`. Nothing is compiled yet.
    ///
    /// # Panics
    ///
    /// If the source's prepared module does not contain its kernel.
    pub fn new(device: Arc<CpuDevice>, source: KernelSource) -> CpuKernel {
        let kernel = &source.prepared.functions[source.prepared_kernel];
        debug_assert!(source.needs_blocks || source.blocks.is_none(), "what is split into blocks is launched in them");
        let sites = SiteTable::of(kernel);
        let plan = FactPlan::of(kernel, &source.params, source.blocks.as_ref());
        let is_quick = device.policy() == TierPolicy::Always(Tier::Quick);
        let is_interpreted = device.policy() == TierPolicy::Always(Tier::Interpreter);
        let prints = sites.sites.iter().any(|site| matches!(site.kind, SiteKind::Print(..)));
        let cost = ThreadCost::of(&source.prepared, source.prepared_kernel);
        let is_confined = !kernel.constraints.cpu_affinity.is_empty();
        let may_be_tiled = !source.needs_blocks && !plan.alone;
        let order = TiledOrder::of(&source.prepared, source.prepared_kernel, &source.params).filter(|_| may_be_tiled);
        let inner = KernelInner {
            order,
            may_be_short: cost.steady && !prints && !source.needs_blocks && !is_confined && !is_interpreted,
            mixes_candidates: kernel.metadata.float_mode == FloatMode::Strict,
            name: kernel.name.clone(),
            params: source.params.clone(),
            needs_blocks: source.needs_blocks,
            prints,
            sites,
            cores: kernel.constraints.cpu_affinity.as_slice().into(),
            cost,
            is_small: source.prepared.functions.values().map(|f| f.insts.len()).sum::<usize>() <= MAX_OPTIMIZED_INSTS,
            is_critical: kernel.opt_level() == Some(OptLevel::Olatency) || kernel.constraints.inline_always,
            plan: if is_quick { plan.without_extents() } else { plan },
            variants: [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_VARIANTS],
            interpreter: PerProcess::new(),
            making: PerProcess::new(),
            code: PerProcess::new(),
            device,
            source,
        };
        CpuKernel { inner: Arc::new(inner) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its parameters, against which an [`crate::ArgBlock`] is filled.
    pub fn params(&self) -> &KernelParams {
        &self.inner.params
    }

    /// Returns true if its code is too long for the optimised tier to be chosen automatically.
    pub fn is_long(&self) -> bool {
        !self.inner.is_small
    }

    /// Returns what it was made from.
    pub fn source(&self) -> &KernelSource {
        &self.inner.source
    }

    /// Returns what holds of arrays that are dense and overlap none.
    pub fn dense_facts(&self) -> ArgFacts {
        let plan = &self.inner.plan;
        let block = self.inner.source.prepared.functions[self.inner.source.prepared_kernel].metadata.workgroup_size;
        plan.facts(block.map_or(FactKey::DENSE, |block| plan.with_block(FactKey::DENSE, block)))
    }

    /// The device it runs on.
    pub fn device(&self) -> &Arc<CpuDevice> {
        &self.inner.device
    }

    /// Returns true if it is launched in blocks of threads.
    pub fn needs_blocks(&self) -> bool {
        self.inner.needs_blocks
    }

    /// Its variants, in the order they were made.
    pub fn variants(&self) -> Vec<VariantInfo> {
        self.inner.iter_variants().map(|variant| self.inner.info(variant)).collect()
    }

    /// What has been measured of candidates: of the kernel's variants, or else, of launches of this rank over dense arrays
    /// that overlap none, by a process before that had the same cache.
    pub fn measured_candidates(&self, launch_rank: u8) -> Vec<MeasuredCandidates> {
        let of_variant = |info: VariantInfo| MeasuredCandidates { facts: info.facts, candidates: info.candidates };
        let mut found: Vec<_> = self.variants().into_iter().map(of_variant).collect();
        found.retain(|measured| !measured.candidates.is_empty());
        if found.is_empty() {
            let of_cache = |key| {
                let facts = self.inner.plan.facts(key);
                let samples = self.inner.measured(&CodeVariant::new(launch_rank, facts.clone()))?;
                let candidates = candidates::infos(&samples, Some(self.inner.chosen(&samples))).to_vec();
                Some(MeasuredCandidates { facts, candidates })
            };
            found.extend([FactKey::DENSE, FactKey::DENSE.aligned()].into_iter().filter_map(of_cache));
        }
        found
    }

    /// Returns how many threads launches run at a time over arrays with these facts, or else over dense arrays, where they
    /// have found the back end's estimate to be wrong; `None` where it was right or nothing has been measured.
    pub fn measured_lanes(&self, launch_rank: u8, facts: &ArgFacts) -> Option<u32> {
        let mut measured = self.measured_candidates(launch_rank);
        let is_dense = |facts: &ArgFacts| facts.arrays.iter().any(|array| array.contiguous);
        measured.retain(|of_variant| is_dense(&of_variant.facts));
        let is_same = |of_variant: &&MeasuredCandidates| of_variant.facts == *facts;
        let of_variant = measured.iter().find(is_same).or(measured.first())?;
        // The first is the choice of the estimate.
        of_variant.candidates.iter().skip(1).find(|candidate| candidate.is_used).map(|candidate| candidate.lanes)
    }

    /// Compiles the variant that assumes nothing but the rank, unless there is one.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Compile`].
    pub fn compile(&self, launch_rank: u8) -> Result<(), LaunchError> {
        let is_interpreted = self.inner.needs_blocks && self.inner.source.blocks.is_none();
        if is_interpreted || self.inner.device.policy() == TierPolicy::Always(Tier::Interpreter) {
            return Ok(());
        }
        let launch_rank = if self.inner.needs_blocks { 1 } else { launch_rank };
        let making = self.inner.making.get().lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.make_variant(&making, launch_rank, FactKey::default(), None).map(|_| ())
    }
}

impl KernelInner {
    fn info(&self, variant: &VariantState) -> VariantInfo {
        VariantInfo {
            launch_rank: variant.launch_rank,
            facts: variant.variant.facts.clone(),
            tier: variant.tier(),
            launches: variant.n_launches(),
            ns_per_thread: variant.ns_per_thread(),
            candidates: self.candidates_of(variant),
            error: variant.error.get().cloned(),
        }
    }

    /// The candidates of a variant and their measurements.
    fn candidates_of(&self, variant: &VariantState) -> Vec<CandidateInfo> {
        let (samples, is_over) = match variant.choice.get() {
            None => return Vec::new(),
            Some(CandidateChoice::Trial(trial)) => (trial.samples(), !trial.is_running()),
            Some(CandidateChoice::Known(samples)) => (samples.clone(), true),
        };
        let used = is_over.then(|| self.chosen(&samples));
        candidates::infos(&samples, used).to_vec()
    }

    fn iter_variants(&self) -> impl Iterator<Item = &VariantState> {
        // SAFETY: slots are filled in order with pointers from `Box::into_raw` that are freed when `self` drops.
        self.variants.iter().map_while(|slot| unsafe { slot.load(Ordering::Acquire).as_ref() })
    }

    #[inline]
    fn find(&self, launch_rank: u8, key: FactKey, pinned: Option<Tier>) -> Option<&VariantState> {
        self.iter_variants().find(|v| v.key == key && v.launch_rank == launch_rank && v.pinned == pinned)
    }

    /// The variant for a launch of this rank with these arguments that names no tier, if there is one.
    #[inline]
    pub(crate) fn known_variant(&self, launch_rank: u8, args: &ArgBlock) -> Option<&VariantState> {
        self.find(launch_rank, self.plan.key(args), None)
    }

    /// The variant in a slot, if there is one.
    #[inline]
    pub(crate) fn variant_at(&self, slot: usize) -> Option<&VariantState> {
        // SAFETY: as in `iter_variants`.
        unsafe { self.variants.get(slot)?.load(Ordering::Acquire).as_ref() }
    }

    /// The variant for a launch of this rank with these arguments, in blocks of these extents, in code of the tier that it names, if it names one.
    #[inline]
    pub(crate) fn variant(
        self: &Arc<Self>,
        launch_rank: u8,
        args: &ArgBlock,
        block: Option<[u32; 3]>,
        pinned: Option<Tier>,
    ) -> Result<&VariantState, LaunchError> {
        let key = self.plan.key(args);
        let key = block.map_or(key, |block| self.plan.with_block(key, block));
        match self.find(launch_rank, key, pinned) {
            Some(variant) => Ok(variant),
            None => self.weaker_variant(launch_rank, key, pinned),
        }
    }

    /// The variant for a key there is no exact variant for: made now, or one that assumes less.
    #[cold]
    fn weaker_variant(
        self: &Arc<Self>,
        launch_rank: u8,
        key: FactKey,
        pinned: Option<Tier>,
    ) -> Result<&VariantState, LaunchError> {
        // Held from counting to making, because threads that launch at once would each see room for one more.
        let making = self.making.get().lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = key;
        if key.has_extents() && self.iter_variants().filter(|v| v.key.has_extents()).count() >= MAX_WITH_EXTENTS {
            key = key.without_extents();
        }
        if self.find(launch_rank, key, pinned).is_none() && self.iter_variants().count() >= MAX_SPECIALISED {
            key = FactKey::default();
        }
        self.make_variant(&making, launch_rank, key, pinned)
    }

    /// The variant for a key, made now unless there is one.
    fn make_variant(
        self: &Arc<Self>,
        _making: &MutexGuard<'_, ()>,
        launch_rank: u8,
        key: FactKey,
        pinned: Option<Tier>,
    ) -> Result<&VariantState, LaunchError> {
        if let Some(variant) = self.find(launch_rank, key, pinned) {
            return Ok(variant);
        }
        let Some(slot) = self.variants.iter().find(|slot| slot.load(Ordering::Relaxed).is_null()) else {
            let message = format!(
                "the kernel has {} variants already: launch it with fewer ranks and tiers, or make another kernel of it",
                self.variants.len()
            );
            let error = CodegenError::new(message);
            return Err(LaunchError::Compile { kernel: self.name.clone(), error });
        };
        let variant = CodeVariant::new(launch_rank, self.plan.facts(key));
        let built = match pinned {
            Some(tier) => self.build(&variant, tier).map(|code| BuiltCode { code, tier, samples: None }),
            None => self.build_first(&variant),
        };
        let BuiltCode { code, tier, samples } =
            built.map_err(|error| LaunchError::Compile { kernel: self.name.clone(), error })?;
        let is_quick = tier == Tier::Quick;
        let may_improve = if is_quick { self.better_tier(key).is_some() } else { samples.is_none() };
        let promotable = pinned.is_none() && may_improve;
        let hot_after = if is_quick { tiers::HOT } else { candidates::STAYS_HOT };
        let state = VariantState {
            launch_rank,
            key,
            pinned,
            variant,
            entry: AtomicPtr::new(std::ptr::null_mut()),
            tier: AtomicU8::new(tier as u8),
            launches: AtomicU64::new(0),
            work_ns: AtomicU64::new(0),
            hot_after_ns: AtomicU64::new(hot_after.as_nanos() as u64),
            ns_per_thread: AtomicU32::new(self.cost.ns.to_bits()),
            promotion: TierPromotion::new(promotable),
            choice: samples.map(CandidateChoice::Known).map(OnceLock::from).unwrap_or_default(),
            error: OnceLock::new(),
        };
        self.install(&state, code, tier);
        let state = Box::into_raw(Box::new(state));
        slot.store(state, Ordering::Release);
        // SAFETY: just made, and freed only when `self` drops.
        let state = unsafe { &*state };
        if state.choice.get().is_some() {
            self.note_measured(state);
        }
        if promotable && is_quick && self.is_better_cached(state) {
            tiers::promote(self, state);
        }
        Ok(state)
    }

    /// The code a variant starts with. Quick code of a device that recompiles hot kernels is one and the same for all
    /// variants of a rank, so that no launch waits for a compilation, whatever its arguments.
    fn build_first(&self, variant: &CodeVariant) -> Result<BuiltCode, CodegenError> {
        match self.device.policy() {
            TierPolicy::Always(tier) => self.build_measured(variant, tier),
            TierPolicy::Automatic if self.is_critical && self.device.backend(Tier::Optimized).is_some() => {
                self.build_measured(variant, Tier::Optimized)
            }
            TierPolicy::Automatic => {
                let general = CodeVariant { facts: self.plan.facts(FactKey::default()), ..variant.clone() };
                match self.build(&general, Tier::Quick) {
                    Err(_) if self.device.backend(Tier::Optimized).is_some() => {
                        self.build_measured(variant, Tier::Optimized)
                    }
                    code => Ok(BuiltCode { code: code?, tier: Tier::Quick, samples: None }),
                }
            }
        }
    }

    /// The tier that recompiles a hot variant for what it knows of the arguments, if that makes a difference.
    fn better_tier(&self, key: FactKey) -> Option<Tier> {
        match self.device.policy() {
            TierPolicy::Automatic if self.is_small && self.device.backend(Tier::Optimized).is_some() => {
                Some(Tier::Optimized)
            }
            TierPolicy::Automatic if key != FactKey::default() => Some(Tier::Quick),
            _ => None,
        }
    }

    /// Recompiles a variant, or lets launches measure its candidates if it has optimised code; gives whether there will
    /// be more to do when it stays hot.
    pub(crate) fn improve(self: &Arc<Self>, variant: &VariantState) -> bool {
        if variant.tier() == Tier::Optimized {
            self.begin_trial(variant);
            return false;
        }
        let Some(tier) = self.better_tier(variant.key) else { return false };
        match self.build_measured(&variant.variant, tier) {
            Ok(BuiltCode { code, samples, .. }) => {
                self.install(variant, code, tier);
                if let Some(samples) = samples {
                    variant.choose(CandidateChoice::Known(samples));
                    self.note_measured(variant);
                }
            }
            // Kept for whoever asks, so that the code there is goes on doing its work. Only this one job sets it.
            Err(error) => {
                drop(variant.error.set(error));
                return false;
            }
        }
        variant.work_ns.store(0, Ordering::Relaxed);
        variant.hot_after_ns.store(candidates::STAYS_HOT.as_nanos() as u64, Ordering::Relaxed);
        tier == Tier::Optimized && variant.choice.get().is_none()
    }

    /// Code of a tier for a variant: of the candidate that was faster if that has been measured.
    fn build_measured(&self, variant: &CodeVariant, tier: Tier) -> Result<BuiltCode, CodegenError> {
        let is_open = tier == Tier::Optimized && !self.device.is_deterministic();
        let samples = is_open.then(|| self.measured(variant)).flatten();
        let winner = samples.as_ref().map_or(0, candidates::winner);
        let lanes = samples.as_ref().filter(|_| winner > 0).map(|samples| samples[winner].lanes);
        let code = self.build(&variant.clone().with_lanes(lanes), tier)?;
        Ok(BuiltCode { code, tier, samples })
    }

    /// Reads what the cache has of a variant's candidates.
    fn measured(&self, variant: &CodeVariant) -> Option<[CandidateSamples; 2]> {
        let backend = self.device.backend(Tier::Optimized)?;
        match self.device.cache().get(&cache::samples_key(&self.source.hash, &**backend, variant))? {
            CacheLookup::Object(object) => candidates::from_bytes(&object.bytes),
            CacheLookup::Loaded(_) => None,
        }
    }

    /// Compiles the other candidate of a variant, if it has one, and lets launches measure both.
    fn begin_trial(&self, variant: &VariantState) {
        // A parent may have begun it before this process was forked.
        let Some(backend) = self.device.backend(Tier::Optimized) else { return };
        if variant.choice.get().is_some() || self.device.is_deterministic() {
            return;
        }
        let (module, kernel) = (&self.source.prepared, self.source.prepared_kernel);
        let lanes = without_fork(|| backend.candidates(module, kernel, &variant.variant));
        let &[chosen, rival] = lanes.as_slice() else { return };
        let code = match self.build(&variant.variant.clone().with_lanes(Some(rival)), Tier::Optimized) {
            Ok(code) => code,
            // Without code of the rival there is nothing to choose.
            Err(error) => return drop(variant.error.set(error)),
        };
        let entries = [variant.entry(), code.entry()];
        self.keep(code);
        variant.choose(CandidateChoice::Trial(CandidateTrial::new([chosen, rival], entries)));
    }

    /// Ends a trial: the faster candidate is what the variant runs from the next chunk on, and the samples are kept.
    #[cold]
    pub(crate) fn end_trial(self: &Arc<Self>, variant: &VariantState, trial: &CandidateTrial) {
        let samples = trial.samples();
        variant.entry.store(trial.entry(candidates::winner(&samples)) as *mut c_void, Ordering::Release);
        self.note_measured(variant);
        if let Some(backend) = self.device.backend(Tier::Optimized) {
            let key = cache::samples_key(&self.source.hash, &**backend, &variant.variant);
            let object = CodeObject { bytes: candidates::to_bytes(&samples) };
            self.device.cache().put(key, Arc::new(object));
        }
    }

    /// Code of a tier for a variant, from the cache or made now.
    pub(crate) fn build(&self, variant: &CodeVariant, tier: Tier) -> Result<Arc<dyn LoadedCode>, CodegenError> {
        let Some(backend) = self.device.backend(tier) else {
            let message = format!(
                "this build has no back end for the tier {tier:?}: build with the cargo feature `llvm`, or name another tier"
            );
            return Err(CodegenError::new(message));
        };
        let cache = self.device.cache();
        let key = cache::key(&self.source.hash, &**backend, variant);
        match cache.get(&key) {
            Some(CacheLookup::Loaded(code)) => return Ok(code),
            Some(CacheLookup::Object(object)) => match without_fork(|| backend.load(&object)) {
                Ok(code) => {
                    cache.loaded(&key, &code);
                    return Ok(code);
                }
                Err(_) => cache.remove(&key),
            },
            None => {}
        }
        let (object, code) = without_fork(|| {
            let object = backend.compile(&self.source.prepared, self.source.prepared_kernel, variant)?;
            let code = backend.load(&object)?;
            Ok((Arc::new(object), code))
        })?;
        cache.put(key, object);
        cache.loaded(&key, &code);
        Ok(code)
    }

    /// The candidate that launches run after these samples.
    fn chosen(&self, samples: &[CandidateSamples; 2]) -> usize {
        if self.device.is_deterministic() { 0 } else { candidates::winner(samples) }
    }

    /// Notes that samples have decided what the variant runs, so that the device can take it back.
    fn note_measured(self: &Arc<Self>, variant: &VariantState) {
        let Some(slot) = self.slot_of(variant) else { return };
        self.device.note_measured(Arc::downgrade(self), slot);
        // Whoever made the device deterministic meanwhile may not have seen the note.
        if self.device.is_deterministic() {
            self.choose_again(slot);
        }
    }

    /// Gives a variant whose candidates have been measured the code that the device wants now: the model's choice or the
    /// winner.
    pub(crate) fn choose_again(&self, slot: usize) {
        let Some(variant) = self.variant_at(slot) else { return };
        let entry = match variant.choice.get() {
            None => return,
            Some(CandidateChoice::Trial(trial)) => trial.entry(self.chosen(&trial.samples())),
            Some(CandidateChoice::Known(samples)) => {
                let winner = self.chosen(samples);
                let lanes = (winner > 0).then_some(samples[winner].lanes);
                // What cannot be compiled any more was compiled once, and goes on running.
                let code = self.build(&variant.variant.clone().with_lanes(lanes), Tier::Optimized);
                let Ok(code) = code else { return };
                let entry = code.entry();
                self.keep(code);
                entry
            }
        };
        variant.entry.store(entry as *mut c_void, Ordering::Release);
    }

    /// Returns true if the cache has the code that the variant would be recompiled to.
    fn is_better_cached(&self, variant: &VariantState) -> bool {
        let backend = self.better_tier(variant.key).and_then(|tier| self.device.backend(tier));
        backend.is_some_and(|backend| {
            self.device.cache().contains(&cache::key(&self.source.hash, &**backend, &variant.variant))
        })
    }

    /// Makes `code` what the variant runs from the next chunk on.
    pub(crate) fn install(&self, variant: &VariantState, code: Arc<dyn LoadedCode>, tier: Tier) {
        let entry = code.entry();
        self.keep(code);
        variant.entry.store(entry as *mut c_void, Ordering::Release);
        variant.tier.store(tier as u8, Ordering::Relaxed);
    }

    /// Keeps code alive as long as the kernel.
    fn keep(&self, code: Arc<dyn LoadedCode>) {
        self.code.get().lock().unwrap_or_else(PoisonError::into_inner).push(code);
    }

    pub(crate) fn slot_of(&self, variant: &VariantState) -> Option<usize> {
        self.iter_variants().position(|other| std::ptr::eq(other, variant))
    }
}

impl Drop for KernelInner {
    fn drop(&mut self) {
        // No fork may come meanwhile, because back ends lock what they free code from.
        let code = std::mem::take(&mut *self.code.get().lock().unwrap_or_else(PoisonError::into_inner));
        without_fork(|| drop(code));
        for slot in &mut self.variants {
            let variant = *slot.get_mut();
            if !variant.is_null() {
                // SAFETY: from `Box::into_raw` in `make_variant`; `&mut self` means that no launch is left.
                drop(unsafe { Box::from_raw(variant) });
            }
        }
    }
}

impl VariantState {
    /// The code to run now.
    #[inline]
    pub(crate) fn entry(&self) -> KernelEntry {
        let entry = self.entry.load(Ordering::Acquire);
        // SAFETY: only pointers made from a `KernelEntry` are stored.
        unsafe { std::mem::transmute::<*mut c_void, KernelEntry>(entry) }
    }

    /// The tier of that code.
    #[inline]
    pub(crate) fn tier(&self) -> Tier {
        if self.tier.load(Ordering::Relaxed) == Tier::Optimized as u8 { Tier::Optimized } else { Tier::Quick }
    }

    #[inline]
    pub(crate) fn ns_per_thread(&self) -> f32 {
        f32::from_bits(self.ns_per_thread.load(Ordering::Relaxed))
    }

    pub(crate) fn set_ns_per_thread(&self, ns: f32) {
        self.ns_per_thread.store(ns.to_bits(), Ordering::Relaxed);
    }

    /// Notes a launch of estimated length; gives how many there were before, and whether there has been so much work
    /// that better code pays.
    #[inline]
    pub(crate) fn record(&self, ns: f32) -> (u64, bool) {
        let launches = self.launches.load(Ordering::Relaxed);
        self.launches.store(launches + 1, Ordering::Relaxed);
        let work = self.work_ns.load(Ordering::Relaxed).saturating_add((ns as u64).saturating_add(1));
        self.work_ns.store(work, Ordering::Relaxed);
        let hot = work > self.hot_after_ns.load(Ordering::Relaxed) && self.promotion.is_due();
        (launches, hot)
    }

    /// Nanoseconds of work after which the next promotion is due.
    pub(crate) fn hot_after_ns(&self) -> u64 {
        self.hot_after_ns.load(Ordering::Relaxed)
    }

    /// The trial of its candidates, if there is or was one in this process.
    #[inline]
    pub(crate) fn trial(&self) -> Option<&CandidateTrial> {
        match self.choice.get() {
            Some(CandidateChoice::Trial(trial)) => Some(trial),
            _ => None,
        }
    }

    /// Sets how it comes to its code, once.
    fn choose(&self, choice: CandidateChoice) {
        // A child that is forked meanwhile would find the cell half set and wait for it.
        without_fork(|| drop(self.choice.set(choice)));
    }

    /// Number of launches so far, roughly.
    #[inline]
    pub(crate) fn n_launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }
}
