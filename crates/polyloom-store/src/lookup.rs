//! The best path for a graph, a workload and an environment, and a cache of such answers in the process.

use crate::choice::{choose, judge};
use crate::{
    ChoiceReason, ContentHash, ImplementationRecord, MeasuredPath, PathIdentity, PathVerdict, Store, StoreError,
    WorkloadRecord,
};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// Neighbours that are tried when the workload itself has not been measured.
const MAX_TRIED: usize = 8;
/// Answers that are kept in a process.
const MAX_CACHED: usize = 1 << 16;

/// Asks for the best path.
#[derive(Clone, PartialEq, Debug)]
pub struct BestPathQuery {
    /// The graph's `bits`.
    pub graph: ContentHash,
    /// The arguments.
    pub workload: WorkloadRecord,
    /// The environment's fingerprint.
    pub environment: ContentHash,
    /// The measurement policy.
    pub policy: String,
    /// Says how near the results have to be.
    pub identity: PathIdentity,
    /// The largest error against the golden reference that a path may have, where paths of the same mathematics are
    /// allowed.
    pub max_error: Option<f64>,
}

/// A path that may be run, with what its measurement says.
#[derive(Clone, PartialEq, Debug)]
pub struct PathChoice {
    /// The recipe.
    pub implementation: ImplementationRecord,
    /// Its measurement.
    pub measured: MeasuredPath,
    /// Says why it is the one.
    pub reason: ChoiceReason,
}

/// Answers a query.
#[derive(Clone, PartialEq, Debug)]
pub enum BestPath {
    /// It is measured for this workload in this environment.
    Measured(PathChoice),
    /// The workload has not been measured here. This is the best path of the nearest one that has.
    Nearest {
        /// The path.
        choice: PathChoice,
        /// The workload it is the best for.
        workload: WorkloadRecord,
        /// The distance of that from the one asked for ([`WorkloadRecord::distance`]).
        distance: f64,
    },
    /// Nothing near has been measured here. This is the best path in another environment: a candidate to begin with,
    /// and no fact about this one.
    Hint {
        /// The path.
        choice: PathChoice,
        /// The fingerprint of where it is the best.
        environment: ContentHash,
    },
    /// Nothing is known.
    Unknown,
}

/// Looks the best path up. `is_current` is asked whether a recipe still gives the code that was measured: a path for
/// which it says no is left out.
///
/// # Errors
///
/// If the database fails. Callers go on as with [`BestPath::Unknown`].
pub fn best_path(
    store: &mut dyn Store,
    query: &BestPathQuery,
    is_current: &mut dyn FnMut(&ImplementationRecord, &MeasuredPath) -> bool,
) -> Result<BestPath, StoreError> {
    if let Some(choice) = choice(store, query, &query.workload.hash(), is_current)? {
        return Ok(BestPath::Measured(choice));
    }
    let workloads = store.measured_workloads(query)?;
    let mut near: Vec<(f64, WorkloadRecord)> = workloads
        .into_iter()
        .filter_map(|workload| Some((query.workload.distance(&workload)?, workload)))
        .filter(|(_, workload)| *workload != query.workload)
        .collect();
    near.sort_by(|(a, x), (b, y)| a.total_cmp(b).then_with(|| x.hash().cmp(&y.hash())));
    for (distance, workload) in near.into_iter().take(MAX_TRIED) {
        if let Some(choice) = choice(store, query, &workload.hash(), is_current)? {
            return Ok(BestPath::Nearest { choice, workload, distance });
        }
    }
    for environment in store.measured_environments(query)?.into_iter().take(MAX_TRIED) {
        if environment == query.environment {
            continue;
        }
        let elsewhere = BestPathQuery { environment, ..query.clone() };
        // The code of another machine is not expected to be this one's.
        if let Some(choice) = choice(store, &elsewhere, &query.workload.hash(), &mut |_, _| true)? {
            return Ok(BestPath::Hint { choice, environment });
        }
    }
    Ok(BestPath::Unknown)
}

fn choice(
    store: &mut dyn Store,
    query: &BestPathQuery,
    workload: &ContentHash,
    is_current: &mut dyn FnMut(&ImplementationRecord, &MeasuredPath) -> bool,
) -> Result<Option<PathChoice>, StoreError> {
    let mut measured = store.measured(query, workload)?;
    let mut stale = Vec::new();
    choose_current(store, query, &mut measured, &mut stale, is_current)
}

impl BestPathQuery {
    /// Returns true if the results of a path are as near to the graph's as the query asks.
    fn allows(&self, path: &MeasuredPath) -> bool {
        match path.identity {
            PathIdentity::Bits => true,
            PathIdentity::Mathematics => {
                let is_near = self.max_error.is_none_or(|max| path.error.is_some_and(|error| error <= max));
                self.identity == PathIdentity::Mathematics && is_near
            }
        }
    }
}

/// Chooses among measurements, and moves those of code that would be chosen and is not current to `stale`.
fn choose_current(
    store: &mut dyn Store,
    query: &BestPathQuery,
    measured: &mut Vec<MeasuredPath>,
    stale: &mut Vec<MeasuredPath>,
    is_current: &mut dyn FnMut(&ImplementationRecord, &MeasuredPath) -> bool,
) -> Result<Option<PathChoice>, StoreError> {
    loop {
        let Some((path, reason)) = choose(measured, &|path| query.allows(path)) else { return Ok(None) };
        let path = path.clone();
        let implementation = store.implementation(&query.graph, &path.implementation)?;
        match implementation.filter(|implementation| is_current(implementation, &path)) {
            Some(implementation) => return Ok(Some(PathChoice { implementation, measured: path, reason })),
            // Each time some measurements are fewer.
            None => {
                let is_of_it = |each: &mut MeasuredPath| {
                    (each.implementation, each.code_hash) == (path.implementation, path.code_hash)
                };
                stale.extend(measured.extract_if(.., is_of_it));
            }
        }
    }
}

/// A path that has been measured, as it stands among the others.
#[derive(Clone, PartialEq, Debug)]
pub struct RankedPath {
    /// The recipe.
    pub implementation: ImplementationRecord,
    /// The measurement by which it is judged.
    pub measured: MeasuredPath,
    /// Says how it stands, and why.
    pub verdict: PathVerdict,
    /// Its part of the default's time in one session, if one has both.
    pub ratio: Option<f64>,
}

/// Returns all code that is measured of the query's graph and workload in its environment, with how it stands: the fastest
/// first, then what was not compared with a default, then what may not run. The chosen one, if there is any, is what
/// [`best_path`] answers. Whatever shows a choice to people takes it from here.
///
/// # Errors
///
/// If the database fails.
pub fn rank_paths(
    store: &mut dyn Store,
    query: &BestPathQuery,
    is_current: &mut dyn FnMut(&ImplementationRecord, &MeasuredPath) -> bool,
) -> Result<Vec<RankedPath>, StoreError> {
    let mut measured = store.measured(query, &query.workload.hash())?;
    let mut stale = Vec::new();
    choose_current(store, query, &mut measured, &mut stale, is_current)?;
    let judged = judge(&measured, &|path| query.allows(path));
    let stale = judge(&stale, &|_| true).into_iter().map(|(path, ..)| (path, PathVerdict::Stale, None));
    let mut paths = Vec::new();
    for (measured, verdict, ratio) in judged.into_iter().chain(stale) {
        // Rows are never deleted, so that each is there.
        if let Some(implementation) = store.implementation(&query.graph, &measured.implementation)? {
            paths.push(RankedPath { implementation, measured, verdict, ratio });
        }
    }
    Ok(paths)
}

/// Identifies a query. Callers make it once for each place that asks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BestPathKey(Arc<(ContentHash, ContentHash, ContentHash, String, PathIdentity, Option<u64>)>);

impl BestPathKey {
    /// Takes what identifies a query.
    pub fn new(query: &BestPathQuery) -> BestPathKey {
        let (workload, max_error) = (query.workload.hash(), query.max_error.map(f64::to_bits));
        BestPathKey(Arc::new((
            query.graph,
            workload,
            query.environment,
            query.policy.clone(),
            query.identity,
            max_error,
        )))
    }
}

/// Answers of this process, shared by its threads. They know nothing of what other processes measure later: who wants
/// that clears them.
///
/// No lock is waited for: while another thread keeps an answer, the database is asked. So a child that was forked in
/// that moment does not wait for ever.
#[derive(Default)]
pub struct BestPathCache {
    answers: RwLock<CachedAnswers>,
    /// Grows when all answers are forgotten.
    generation: AtomicU64,
}

#[derive(Default)]
struct CachedAnswers {
    generation: u64,
    by_key: FxHashMap<BestPathKey, Arc<BestPath>>,
}

impl BestPathCache {
    /// Makes an empty cache.
    pub fn new() -> BestPathCache {
        BestPathCache::default()
    }

    /// Returns an answer that is kept.
    pub fn get(&self, key: &BestPathKey) -> Option<Arc<BestPath>> {
        let answers = self.answers.try_read().ok()?;
        let is_current = answers.generation == self.generation.load(Ordering::Acquire);
        answers.by_key.get(key).filter(|_| is_current).cloned()
    }

    /// Returns an answer that is kept, or asks the database by [`best_path`] and keeps what it says.
    ///
    /// # Errors
    ///
    /// If the database fails; that is not kept.
    pub fn best_path(
        &self,
        store: &mut dyn Store,
        key: &BestPathKey,
        query: &BestPathQuery,
        is_current: &mut dyn FnMut(&ImplementationRecord, &MeasuredPath) -> bool,
    ) -> Result<Arc<BestPath>, StoreError> {
        if let Some(answer) = self.get(key) {
            return Ok(answer);
        }
        let generation = self.generation.load(Ordering::Acquire);
        let answer = Arc::new(best_path(store, query, is_current)?);
        if let Ok(mut answers) = self.answers.try_write() {
            if answers.generation != generation || answers.by_key.len() >= MAX_CACHED {
                *answers = CachedAnswers { generation, by_key: FxHashMap::default() };
            }
            answers.by_key.insert(key.clone(), answer.clone());
        }
        Ok(answer)
    }

    /// Forgets all answers, because something has been measured. What is just being looked up is not kept either.
    pub fn clear(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}
