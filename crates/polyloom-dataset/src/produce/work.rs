//! The kernel of an index, verified and written out, by as many threads as are asked for, in order.
//!
//! Design: `docs/design/dataset-rows.md`.

use super::reject_record::RejectedKernel;
use super::row_keys::{Key, RowKeys};
use super::settings::ProduceSettings;
use super::source_settings::SourceSettings;
use crate::found::{FoundKernel, KernelExcerpt, KernelFiles, depends_on_inputs, programs};
use crate::generate::{Category, DatasetProgram, generate};
use crate::proof::{ProofLevel, Reason, RejectedProof, caught};
use crate::row::Row;
use crate::similarity::{Bands, bands};
use crate::statistics::OpCounts;
use crate::text::{GpuCode, KernelTexts, RowOrigin, hashes};
use crate::tools::ColumnTools;
use crate::verify::KernelVerifier;
use crate::{KernelHashes, effect};
use polyloom::{Kernel, Random, gpu_available};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// Number of times a kernel is drawn anew before an index is given up.
const ATTEMPTS: usize = 50;
/// Says how far ahead of the last row taken threads may work, and so how many may have something to do.
pub(super) const AHEAD: usize = 256;

/// Describes what came of an index.
pub(super) struct IndexResult {
    pub(super) index: u64,
    pub(super) outcome: IndexOutcome,
    /// The attempts that were rejected before.
    pub(super) rejects: Vec<RejectedKernel>,
}

/// Describes what the first kernel of an index that is proved right comes to.
pub(super) enum IndexOutcome {
    /// A row.
    Row(Box<MadeRow>),
    /// A row with its key was taken before.
    Known(Key),
    /// A column cannot be made. It is a duplicate all the same, if a row with its key is taken: whether that was known in
    /// time does not depend on the seed alone.
    Failed(Key, Box<RejectedKernel>),
    /// None is proved right.
    Nothing,
}

impl IndexResult {
    /// The attempt that was rejected last.
    pub(super) fn last_reject(&self) -> Option<&RejectedKernel> {
        match &self.outcome {
            IndexOutcome::Failed(_, rejected) => Some(rejected),
            _ => self.rejects.last(),
        }
    }
}

/// A row, and by what it is told from others.
pub(super) struct MadeRow {
    pub(super) row: Row,
    pub(super) keys: RowKeys,
    pub(super) op_counts: OpCounts,
}

/// Describes what threads make rows by.
pub(super) struct WorkShared<'a> {
    pub(super) settings: &'a ProduceSettings,
    pub(super) categories: Vec<Category>,
    /// The place where kernels are found that are not generated.
    pub(super) source: Option<(&'a SourceSettings, &'a KernelFiles)>,
    pub(super) texts: KernelTexts,
    pub(super) tools: ColumnTools<'a>,
    /// The keys of the rows that have been taken.
    pub(super) known: &'a RwLock<HashSet<Key>>,
    /// Structures that no row may have.
    pub(super) excluded: &'a HashSet<Key>,
}

impl WorkShared<'_> {
    /// Returns what comes of an index. It depends on nothing else, but that a row which is known need not be written
    /// out.
    fn index(&self, verifier: &KernelVerifier, index: u64) -> IndexResult {
        let started = Instant::now();
        // Faults of a kernel are caught where they are known. The run does not rely on nothing else panicking.
        let mut done = caught(|| Ok(self.untimed(verifier, index))).unwrap_or_else(|reject| {
            let category = self.categories.get(index as usize % self.categories.len().max(1));
            let category = category.map_or(Cow::Borrowed(""), |category| category.name().into());
            let rejects = vec![RejectedKernel { category, origin: None, source: None, reject }];
            IndexResult { index, outcome: IndexOutcome::Nothing, rejects }
        });
        if self.settings.timings
            && let IndexOutcome::Row(made) = &mut done.outcome
            && let Some(metadata) = &mut made.row.metadata
        {
            metadata.generation_time_ms = Some(started.elapsed().as_secs_f64() * 1e3);
            metadata.cuda_available_at_generation = Some(gpu_available());
        }
        done
    }

    fn untimed(&self, verifier: &KernelVerifier, index: u64) -> IndexResult {
        if let Some((settings, source)) = self.source
            && let Some(found) = source.get(index)
        {
            return self.found(verifier, settings, found, index);
        }
        let mut rejects = Vec::new();
        for program in drafts(&self.categories, self.settings.seed, index) {
            let mut proved = None;
            let made = caught(|| {
                let (kernel, code, hashes) = self.verified(verifier, &program)?;
                proved = Some(self.key(&hashes));
                self.made(verifier, &program, (&kernel, code), hashes, index, None)
            });
            match (made, proved) {
                (Ok(outcome), _) => return IndexResult { index, outcome, rejects },
                (Err(reject), Some(key)) => {
                    let outcome = IndexOutcome::Failed(key, Box::new(RejectedKernel::program(program, reject)));
                    return IndexResult { index, outcome, rejects };
                }
                (Err(reject), None) => rejects.push(RejectedKernel::program(program, reject)),
            }
        }
        IndexResult { index, outcome: IndexOutcome::Nothing, rejects }
    }

    /// Returns what comes of a kernel of a file. One that is rejected is rejected once, with all inputs that were
    /// tried.
    fn found(
        &self,
        verifier: &KernelVerifier,
        settings: &SourceSettings,
        found: &FoundKernel,
        index: u64,
    ) -> IndexResult {
        let (mut text, mut proved) = (None, None);
        let made = caught(|| {
            let KernelExcerpt { name, source, kernel } = found.excerpt(verifier)?;
            text = Some(source.clone());
            let hashes = hashes(&source, &kernel);
            self.is_allowed(&hashes)?;
            let mut last = RejectedProof::new(Reason::Failed, "no inputs are known for it");
            for program in programs(&name, &source, &settings.category, &kernel) {
                match self.proved(verifier, &program, &kernel) {
                    Ok(code) => {
                        proved = Some(self.key(&hashes));
                        return self.made(verifier, &program, (&kernel, code), hashes, index, Some(found.origin()));
                    }
                    Err(reject) if depends_on_inputs(reject.reason) => last = reject,
                    Err(reject) => return Err(reject),
                }
            }
            Err(last)
        });
        let rejected = |reject| {
            let (category, origin) = (settings.category.clone().into(), Some(found.origin()));
            RejectedKernel { category, origin, source: text, reject }
        };
        match (made, proved) {
            (Ok(outcome), _) => IndexResult { index, outcome, rejects: Vec::new() },
            (Err(reject), Some(key)) => IndexResult {
                index,
                outcome: IndexOutcome::Failed(key, Box::new(rejected(reject))),
                rejects: Vec::new(),
            },
            (Err(reject), None) => {
                IndexResult { index, outcome: IndexOutcome::Nothing, rejects: vec![rejected(reject)] }
            }
        }
    }

    /// Returns what tells a kernel from others.
    fn key(&self, hashes: &KernelHashes) -> Key {
        RowKeys::of(hashes, Bands::default(), 0).key(self.settings.dedup)
    }

    fn is_allowed(&self, hashes: &KernelHashes) -> Result<(), Box<RejectedProof>> {
        match self.excluded.contains(&RowKeys::of(hashes, Bands::default(), 0).structure) {
            true => Err(RejectedProof::new(Reason::Excluded, "its structure is among those to leave out")),
            false => Ok(()),
        }
    }

    /// The program's kernel, proved right. That other rows are like it has no bearing on this, because what an index
    /// gives depends on nothing but the seed.
    fn verified(
        &self,
        verifier: &KernelVerifier,
        program: &DatasetProgram,
    ) -> Result<(Kernel, GpuCode, KernelHashes), Box<RejectedProof>> {
        let kernel = verifier.compile(&program.name, &program.source)?;
        let hashes = hashes(&program.source, &kernel);
        self.is_allowed(&hashes)?;
        if self.settings.verify >= ProofLevel::Compile {
            effect::check(program, &kernel)?;
        }
        let code = self.proved(verifier, program, &kernel)?;
        Ok((kernel, code, hashes))
    }

    /// The kernel's GPU code, once it is proved right.
    fn proved(
        &self,
        verifier: &KernelVerifier,
        program: &DatasetProgram,
        kernel: &Kernel,
    ) -> Result<GpuCode, Box<RejectedProof>> {
        let level = self.settings.verify;
        verifier.verify(program, kernel, level, || self.texts.gpu_code(kernel, level))
    }

    /// The row of a kernel that is proved right, unless it is known.
    fn made(
        &self,
        verifier: &KernelVerifier,
        program: &DatasetProgram,
        (kernel, code): (&Kernel, GpuCode),
        hashes: KernelHashes,
        index: u64,
        origin: Option<String>,
    ) -> Result<IndexOutcome, Box<RejectedProof>> {
        let keys = RowKeys::of(&hashes, bands(kernel), index);
        let key = keys.key(self.settings.dedup);
        if self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            return Ok(IndexOutcome::Known(key));
        }
        let place = RowOrigin { seed: self.settings.seed, index, source: self.settings.source.as_ref(), origin };
        let mut row = self.texts.row(program, kernel, code, hashes, self.settings.verify, place)?;
        self.tools.fill(&mut row, program, self.texts.arch)?;
        if self.settings.verify >= ProofLevel::Full {
            verifier.simulate_columns(program, kernel, &row)?;
        }
        self.tools.prove(kernel, &row, self.texts.arch)?;
        if let Some(metadata) = &mut row.metadata {
            metadata.cuda_compiler = self.tools.cuda_compiler().map(str::to_owned);
        }
        Ok(IndexOutcome::Row(Box::new(MadeRow { row, keys, op_counts: OpCounts::of(kernel) })))
    }

    /// Works on indices from `first`, and hands what comes of them to `take` in their order, until that is false or
    /// there are no more.
    ///
    /// # Errors
    ///
    /// Those of `take`.
    pub(super) fn in_order<E>(
        &self,
        first: u64,
        verifiers: Vec<KernelVerifier>,
        mut take: impl FnMut(IndexResult) -> Result<bool, E>,
    ) -> Result<(), E> {
        let indices = || self.settings.indices(first).fuse();
        let queue = WorkQueue::new(indices());
        std::thread::scope(|scope| {
            for verifier in verifiers {
                let queue = &queue;
                scope.spawn(move || {
                    while let Some(index) = queue.draw() {
                        queue.give(self.index(&verifier, index));
                    }
                });
            }
            let _stop = StopWhenDropped(&queue);
            for index in indices() {
                if !take(queue.take(index))? {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// The kernels that are tried for an index, one after the other.
pub(crate) fn drafts(categories: &[Category], seed: u64, index: u64) -> impl Iterator<Item = DatasetProgram> {
    let category = categories[(index % categories.len() as u64) as usize];
    // Otherwise streams that begin at neighbours of one another would have their numbers in common.
    let of_seed = Random::new(seed).bits();
    let mut random = Random::new(Random::new(of_seed ^ index).bits());
    (0..ATTEMPTS).map(move |_| generate(category, random.bits()))
}

/// Indices to work on and what has come of them.
struct WorkQueue<I> {
    state: Mutex<WorkState<I>>,
    /// Signals that the result that is waited for has arrived.
    arrived: Condvar,
    /// Threads may go on with further indices, or end.
    has_room: Condvar,
}

struct WorkState<I> {
    indices: I,
    done: BTreeMap<u64, IndexResult>,
    /// Says how many have been drawn and not taken yet.
    n_ahead: usize,
    /// The index that is waited for in the taking.
    wanted: Option<u64>,
    /// Threads that wait for room.
    n_waiting: usize,
    is_over: bool,
}

impl<I: Iterator<Item = u64>> WorkQueue<I> {
    fn new(indices: I) -> WorkQueue<I> {
        let state =
            WorkState { indices, done: BTreeMap::new(), n_ahead: 0, wanted: None, n_waiting: 0, is_over: false };
        WorkQueue { state: Mutex::new(state), arrived: Condvar::new(), has_room: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, WorkState<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next index to work on.
    fn draw(&self) -> Option<u64> {
        let mut state = self.lock();
        while !state.is_over && state.n_ahead >= AHEAD {
            state.n_waiting += 1;
            state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.n_waiting -= 1;
        }
        if state.is_over {
            return None;
        }
        let index = state.indices.next()?;
        state.n_ahead += 1;
        Some(index)
    }

    fn give(&self, done: IndexResult) {
        let mut state = self.lock();
        // Nobody is woken for other indices, because waking a thread costs as much as a small part of a row does, even
        // if none waits.
        let is_wanted = state.wanted == Some(done.index);
        state.done.insert(done.index, done);
        drop(state);
        if is_wanted {
            self.arrived.notify_one();
        }
    }

    /// Returns what has come of an index, once it is there, since the threads work on all of them.
    fn take(&self, index: u64) -> IndexResult {
        let mut state = self.lock();
        loop {
            if let Some(done) = state.done.remove(&index) {
                state.wanted = None;
                state.n_ahead -= 1;
                if state.n_waiting > 0 {
                    self.has_room.notify_one();
                }
                return done;
            }
            state.wanted = Some(index);
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// However the taking ends, the threads end.
struct StopWhenDropped<'a, I: Iterator<Item = u64>>(&'a WorkQueue<I>);

impl<I: Iterator<Item = u64>> Drop for StopWhenDropped<'_, I> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.has_room.notify_all();
    }
}
