//! Choosing a path: by measurements if there are any, otherwise by the cost model.

use super::candidates::{CandidateList, PathCandidate};
use super::computation::PlannedComputation;
use polyloom_graph::{Backend, Recipe};
use polyloom_store::{
    BestPath, BestPathCache, BestPathKey, BestPathQuery, ChoiceReason, ContentHash, ImplementationRecord, MeasuredPath,
    PathChoice, PathIdentity, Store, StoreError,
};
use std::fmt;
use std::time::Duration;

/// Says how paths are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PolicyMode {
    /// By the cost model.
    Heuristic,
    /// By the measurements of the database, and by the cost model where there are none.
    Fastest,
    /// As `Fastest`; what has not been measured is, in the background.
    Explore,
}

/// A policy: how paths are chosen, and which may be.
#[derive(Clone, PartialEq, Debug)]
pub struct PathPolicy {
    /// How.
    pub mode: PolicyMode,
    /// The largest error relative to the scale of the output, in a path that may differ by rounding. Without one such paths are chosen in
    /// the mode `fast` of floats alone.
    pub tolerance: Option<f64>,
    /// The backends that may take part; all that are there if none are named.
    pub backends: Option<Vec<Backend>>,
    /// The time that measuring one computation may take in the background.
    pub budget: Duration,
}

/// A choice is a win over the default if it is predicted to take so much less: predictions are that rough.
const MIN_PREDICTED_GAIN: f64 = 0.1;

/// The reason for a choice.
#[derive(Clone, PartialEq, Debug)]
pub enum DecisionReason {
    /// It is measured for this workload.
    Measured(ChoiceReason),
    /// It is the best of the nearest workload that has been measured, at such a distance.
    Nearest(f64),
    /// It has the least predicted time, in nanoseconds; the default's is given too.
    Predicted {
        /// This is the path's.
        ns: f64,
        /// This is the default's.
        default_ns: f64,
    },
    /// Nothing is predicted to be faster than the default.
    DefaultPredicted,
    /// It is being measured in the background, and the default runs meanwhile.
    Exploring,
    /// It has been measured in the background, and nothing can be said: the measurements were too noisy, or the budget too small.
    Unsettled,
    /// The caller has named it.
    Pinned,
    /// Results of the function are views, which paths do not make.
    Views,
    /// The arguments are in the memory of a device, where paths are not chosen yet.
    Device,
    /// It cannot be planned or run.
    Failed(String),
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecisionReason::Measured(ChoiceReason::Wins { ratio }) => {
                write!(f, "measured: it takes {:.0} % of the default's time", ratio * 100.0)
            }
            DecisionReason::Measured(ChoiceReason::DefaultStands) => {
                f.write_str("measured: nothing beats the default beyond the noise")
            }
            DecisionReason::Measured(ChoiceReason::DefaultFails) => {
                f.write_str("measured: the default fails, and this is the fastest that does not")
            }
            DecisionReason::Nearest(distance) => {
                write!(f, "measured for the nearest workload, at distance {distance:.2}")
            }
            DecisionReason::Predicted { ns, default_ns } => {
                write!(f, "predicted: {:.1} µs, and {:.1} µs for the default", ns / 1e3, default_ns / 1e3)
            }
            DecisionReason::DefaultPredicted => f.write_str("nothing is predicted to be faster than the default"),
            DecisionReason::Exploring => f.write_str("it is being measured, and the default runs meanwhile"),
            DecisionReason::Unsettled => f.write_str("its measurements settle nothing"),
            DecisionReason::Pinned => f.write_str("the caller has named it"),
            DecisionReason::Views => f.write_str("a result is a view of an argument or of another result"),
            DecisionReason::Device => f.write_str("the arguments are on a device"),
            DecisionReason::Failed(reason) => f.write_str(reason),
        }
    }
}

/// A choice.
#[derive(Clone, Debug)]
pub struct PathDecision {
    /// The path; none if it is the default.
    pub path: Option<PathCandidate>,
    /// The measurement that it follows from.
    pub measured: Option<MeasuredPath>,
    /// The reason.
    pub reason: DecisionReason,
}

impl PathPolicy {
    /// Returns true if paths have to keep bits, in the mode of floats of a computation.
    pub fn needs_bits(&self, computation: &PlannedComputation) -> bool {
        self.tolerance.is_none() && computation.options.float_mode != polyloom_ir::FloatMode::Fast
    }

    /// Returns true if a recipe uses no backend but those that may take part.
    pub fn allows(&self, recipe: &Recipe) -> bool {
        let Some(backends) = &self.backends else { return true };
        recipe.backends().iter().all(|backend| backends.contains(backend))
    }

    /// Returns the question to the database.
    pub fn query(
        &self,
        computation: &PlannedComputation,
        environment: ContentHash,
        measurement_policy: &str,
    ) -> BestPathQuery {
        let needs_bits = self.needs_bits(computation);
        BestPathQuery {
            graph: computation.hash(),
            workload: computation.workload(),
            environment,
            policy: measurement_policy.to_owned(),
            identity: if needs_bits { PathIdentity::Bits } else { PathIdentity::Mathematics },
            max_error: self.tolerance,
        }
    }
}

/// Chooses by the measurements of the database; none if it knows nothing that may run. `is_current` says if a recipe still gives the code that
/// was measured.
///
/// # Errors
///
/// If the database fails.
pub fn choose_measured(
    store: &mut dyn Store,
    cache: &BestPathCache,
    query: &BestPathQuery,
    policy: &PathPolicy,
    is_current: &mut dyn FnMut(&ImplementationRecord, &MeasuredPath) -> bool,
) -> Result<Option<PathDecision>, StoreError> {
    let mut is_usable = |record: &ImplementationRecord, measured: &MeasuredPath| {
        let recipe = Recipe::from_json(&record.recipe);
        let is_allowed = record.is_default || recipe.is_ok_and(|recipe| policy.allows(&recipe));
        is_allowed && is_current(record, measured)
    };
    let answer = match &policy.backends {
        // The cache knows no restrictions.
        Some(_) => std::sync::Arc::new(polyloom_store::best_path(store, query, &mut is_usable)?),
        None => cache.best_path(store, &BestPathKey::new(query), query, &mut is_usable)?,
    };
    let (choice, reason) = match &*answer {
        BestPath::Measured(choice) => (choice, DecisionReason::Measured(choice.reason)),
        BestPath::Nearest { choice, distance, .. } => (choice, DecisionReason::Nearest(*distance)),
        // Another machine's measurements are no facts about this one.
        BestPath::Hint { .. } | BestPath::Unknown => return Ok(None),
    };
    Ok(decision_of(choice, reason))
}

fn decision_of(choice: &PathChoice, reason: DecisionReason) -> Option<PathDecision> {
    let measured = Some(choice.measured.clone());
    if choice.implementation.is_default {
        return Some(PathDecision { path: None, measured, reason });
    }
    let recipe = Recipe::from_json(&choice.implementation.recipe).ok()?;
    let path = PathCandidate::new(&recipe, f64::NAN, false).ok()?;
    Some(PathDecision { path: Some(path), measured, reason })
}

/// Chooses by predicted times, among paths that `may_run` allows: it leaves out what is known to be wrong. Paths that compute another graph are
/// left out too, because nobody has verified them.
pub fn choose_by_costs(
    list: &CandidateList,
    policy: &PathPolicy,
    may_run: &dyn Fn(&PathCandidate) -> bool,
) -> PathDecision {
    let default_ns = list.paths.iter().find(|path| path.is_default).map_or(f64::INFINITY, |path| path.predicted_ns);
    let is_rival = |path: &&PathCandidate| !path.is_default && !path.is_rewritten && path.predicted_ns.is_finite();
    let rivals = list.paths.iter().filter(is_rival);
    let rivals = rivals.filter(|path| policy.allows(&path.verified.recipe) && may_run(path));
    let best = rivals.min_by(|a, b| a.predicted_ns.total_cmp(&b.predicted_ns).then(a.hash.cmp(&b.hash)));
    match best.filter(|best| best.predicted_ns < default_ns * (1.0 - MIN_PREDICTED_GAIN)) {
        Some(best) => PathDecision {
            path: Some(best.clone()),
            measured: None,
            reason: DecisionReason::Predicted { ns: best.predicted_ns, default_ns },
        },
        None => PathDecision { path: None, measured: None, reason: DecisionReason::DefaultPredicted },
    }
}
