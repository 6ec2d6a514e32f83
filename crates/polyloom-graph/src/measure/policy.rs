//! The measurement policy: all practice of a measurement as data.
//!
//! What was measured by one policy says nothing about what another would have found, so a policy has an [id](MeasurementPolicy::id),
//! which is part of the key that a measurement is kept by.

/// The number of picoseconds in a microsecond.
const MICROSECOND: u64 = 1_000_000;
/// The number of picoseconds in a second.
const SECOND: u64 = 1_000_000 * MICROSECOND;
/// The version of what the fields mean. It is part of every id, so that a change to the harness that moves times makes new ids.
const POLICY_VERSION: u32 = 1;

/// The state of the caches when a timed run begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CacheState {
    /// They hold what the run before left: so many runs without timing come before each batch, because another candidate ran in
    /// between.
    Hot {
        /// The runs that are not timed.
        n_untimed_runs: u32,
    },
    /// They hold nothing of the candidate's: they are flushed before each run, and a batch is one run.
    Cold,
}

/// The order in which candidates are sampled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SampleOrder {
    /// A B A B: each candidate once in each round.
    Interleaved,
    /// As `Interleaved`, in a new order each round, which the policy's seed decides. Noise with the period of a round then meets
    /// all candidates alike.
    Shuffled,
    /// All samples of A, then all of B. It is here to be compared with: whatever changes with time is taken for a difference.
    Blocked,
}

/// The rule by which a candidate is warm.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WarmUpRule {
    /// The batches that are run at least.
    pub min_batches: u32,
    /// The batches that are run at most; the candidate then counts as warm, and the measurement says that it was not steady.
    pub max_batches: u32,
    /// The time that batches take at least, in picoseconds, because clocks rise and code is compiled again in the background.
    pub min_time: u64,
    /// The batches of a window.
    pub window: u32,
    /// The candidate is steady when the medians of its last two windows differ by less than this part, or by less than the deviations
    /// within the windows explain.
    pub tolerance: f64,
}

/// The samples around which the output is poisoned and checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutputChecks {
    /// All of them.
    EverySample,
    /// A run before the first sample and one after the last.
    FirstAndLast,
}

/// The practice of a measurement. Times are in picoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasurementPolicy {
    /// The state of the caches.
    pub caches: CacheState,
    /// The rule for warm-ups.
    pub warm_up: WarmUpRule,
    /// A batch has as many runs as take this long, so that reading the clock is a small part of it.
    pub min_sample_time: u64,
    /// The runs of a batch at most.
    pub max_batch_runs: u32,
    /// The samples of a candidate at least, before its interval is looked at.
    pub min_samples: u32,
    /// The samples of a candidate at most.
    pub max_samples: u32,
    /// The probability that the interval of a median covers it, and that a win is one.
    pub confidence: f64,
    /// Sampling ends when half the interval of the median is at most this part of it.
    pub target_half_width: f64,
    /// A candidate whose interval stays wider than this is too noisy.
    pub max_half_width: f64,
    /// Sampling ends when the relative deviation of the samples changed by less than this part in `n_stable_checks` checks.
    pub stable_noise_change: f64,
    /// The checks, one each `samples_per_check` samples, that the noise has to be stable for.
    pub n_stable_checks: u32,
    /// The samples between two looks at the interval.
    pub samples_per_check: u32,
    /// A candidate that is so many times as slow as the best, by intervals that are apart, is sampled no further.
    pub hopeless_factor: f64,
    /// Another path has to be faster than the default by this part at least, whatever the noise.
    pub min_win: f64,
    /// The clock of the machine may fall by this part at most from before the samples to after them.
    pub max_clock_drop: f64,
    /// The order of samples.
    pub order: SampleOrder,
    /// The checks of the output.
    pub checks: OutputChecks,
    /// The resamples of a bootstrap.
    pub n_resamples: u32,
    /// The seed of shuffles and bootstraps.
    pub seed: u64,
    /// A candidate of which one run takes longer has timed out.
    pub run_limit: u64,
    /// A candidate is run for this long at most.
    pub candidate_limit: u64,
    /// All candidates together are run for this long at most.
    pub session_limit: u64,
}

impl MeasurementPolicy {
    /// Returns the policy for code that runs again and again on data that it has just had.
    pub fn hot() -> MeasurementPolicy {
        MeasurementPolicy {
            caches: CacheState::Hot { n_untimed_runs: 1 },
            warm_up: WarmUpRule {
                min_batches: 8,
                max_batches: 256,
                min_time: 5000 * MICROSECOND,
                window: 4,
                tolerance: 0.02,
            },
            min_sample_time: 50 * MICROSECOND,
            max_batch_runs: 1 << 20,
            min_samples: 30,
            max_samples: 1000,
            confidence: 0.95,
            target_half_width: 0.02,
            max_half_width: 0.1,
            stable_noise_change: 0.05,
            n_stable_checks: 4,
            samples_per_check: 10,
            hopeless_factor: 2.0,
            min_win: 0.01,
            max_clock_drop: 0.1,
            order: SampleOrder::Interleaved,
            checks: OutputChecks::EverySample,
            n_resamples: 500,
            seed: 0x706f_6c79_6c6f_6f6d,
            run_limit: 10 * SECOND,
            candidate_limit: 10 * SECOND,
            session_limit: 60 * SECOND,
        }
    }

    /// Returns the policy for code that runs now and then, on data that is not in any cache.
    pub fn cold() -> MeasurementPolicy {
        MeasurementPolicy { caches: CacheState::Cold, ..MeasurementPolicy::hot() }
    }

    /// Returns a name that no policy of other fields has: a word and 16 hexadecimal digits, the same in every process and on every
    /// machine.
    ///
    /// ```
    /// use polyloom_graph::measure::MeasurementPolicy;
    ///
    /// let hot = MeasurementPolicy::hot();
    /// assert!(hot.id().starts_with("hot-") && MeasurementPolicy::cold().id().starts_with("cold-"));
    /// assert_ne!(hot.id(), MeasurementPolicy { seed: 1, ..hot.clone() }.id());
    /// ```
    pub fn id(&self) -> String {
        let word = match self.caches {
            CacheState::Hot { .. } => "hot",
            CacheState::Cold => "cold",
        };
        let hash = blake3::hash(&self.bytes());
        let digits: String = hash.as_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{word}-{digits}")
    }

    /// Returns the fields in order, eight bytes each. Numbers are written by their bits, because digits are not the same everywhere.
    fn bytes(&self) -> Vec<u8> {
        // A field that is added is named here, or this does not compile.
        let MeasurementPolicy {
            caches,
            warm_up: WarmUpRule { min_batches, max_batches, min_time, window, tolerance },
            min_sample_time,
            max_batch_runs,
            min_samples,
            max_samples,
            confidence,
            target_half_width,
            max_half_width,
            stable_noise_change,
            n_stable_checks,
            samples_per_check,
            hopeless_factor,
            min_win,
            max_clock_drop,
            order,
            checks,
            n_resamples,
            seed,
            run_limit,
            candidate_limit,
            session_limit,
        } = self.clone();
        let [caches, n_untimed_runs] = match caches {
            CacheState::Hot { n_untimed_runs } => [0, n_untimed_runs.into()],
            CacheState::Cold => [1, 0],
        };
        let order = match order {
            SampleOrder::Interleaved => 0,
            SampleOrder::Shuffled => 1,
            SampleOrder::Blocked => 2,
        };
        let checks = match checks {
            OutputChecks::EverySample => 0,
            OutputChecks::FirstAndLast => 1,
        };
        let fields = [
            POLICY_VERSION.into(),
            caches,
            n_untimed_runs,
            min_batches.into(),
            max_batches.into(),
            min_time,
            window.into(),
            tolerance.to_bits(),
            min_sample_time,
            max_batch_runs.into(),
            min_samples.into(),
            max_samples.into(),
            confidence.to_bits(),
            target_half_width.to_bits(),
            max_half_width.to_bits(),
            stable_noise_change.to_bits(),
            n_stable_checks.into(),
            samples_per_check.into(),
            hopeless_factor.to_bits(),
            min_win.to_bits(),
            max_clock_drop.to_bits(),
            order,
            checks,
            n_resamples.into(),
            seed,
            run_limit,
            candidate_limit,
            session_limit,
        ];
        fields.iter().flat_map(|field: &u64| field.to_le_bytes()).collect()
    }
}
