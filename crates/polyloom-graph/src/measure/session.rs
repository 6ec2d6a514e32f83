//! A session: candidates warm up, take turns being timed, and are checked, until enough is known or a limit is reached.

use super::candidate::{BatchTiming, MeasureFailure, MeasuredCandidate};
use super::clock::MeasurementClock;
use super::environment::{EnvironmentObservation, EnvironmentProbe};
use super::measurement::{Measurement, MeasurementStatus, SampleFlags, TimeSample, TimeSummary};
use super::policy::{CacheState, MeasurementPolicy, OutputChecks, SampleOrder};
use super::statistics::{MedianInterval, bootstrap_median, flag_outliers, median, median_deviation};
use polyloom_ir::generate::Random;

/// The samples that a measurement has at least that was ended by a limit, because the interval of fewer means nothing.
const MIN_SAMPLES_AT_LIMIT: usize = 5;
/// The part of a candidate's time that its warm-up may take.
const WARM_UP_SHARE: f64 = 0.25;
/// The factor by which a batch grows at most from one warm-up to the next, so that a first run that was lucky does not make a batch that
/// takes a thousand times as long as it should.
const MAX_BATCH_GROWTH: f64 = 16.0;

/// Measures candidates by a policy, and returns a measurement for each, in order.
///
/// Candidates are prepared, checked and warmed up one after the other, then sampled in the policy's order. A candidate whose output is wrong
/// is never timed. The result is a function of what the traits answer and of the policy's seed.
///
/// ```
/// use polyloom_graph::measure::*;
///
/// /// A loop of so many steps.
/// struct Loop(u64, u64);
///
/// impl Measure for Loop {
///     fn prepare(&mut self) -> Result<(), MeasureFailure> {
///         Ok(())
///     }
///     fn poison_output(&mut self) -> Result<(), MeasureFailure> {
///         self.1 = u64::MAX;
///         Ok(())
///     }
///     fn flush_caches(&mut self) -> Result<(), MeasureFailure> {
///         Ok(())
///     }
///     fn run_batch(&mut self, n_runs: u32) -> Result<BatchTiming, MeasureFailure> {
///         for _ in 0..n_runs {
///             self.1 = (0..self.0).fold(0, |sum, i| std::hint::black_box(sum ^ i));
///         }
///         Ok(BatchTiming::ByClock)
///     }
///     fn check_output(&mut self) -> Result<(), MeasureFailure> {
///         if self.1 == u64::MAX { Err(MeasureFailure::wrong("nothing was written")) } else { Ok(()) }
///     }
/// }
///
/// let (mut short, mut long) = (Loop(100, 0), Loop(1000, 0));
/// let mut candidates = [
///     MeasuredCandidate { key: "long".to_owned(), path: &mut long },
///     MeasuredCandidate { key: "short".to_owned(), path: &mut short },
/// ];
/// let policy = MeasurementPolicy { max_samples: 30, ..MeasurementPolicy::hot() };
/// let measurements = measure(&mut candidates, &policy, &mut LinuxProbe, &mut MonotonicClock::new());
/// assert!(measurements.iter().all(|measurement| !measurement.samples.is_empty()));
/// ```
pub fn measure(
    candidates: &mut [MeasuredCandidate<'_>],
    policy: &MeasurementPolicy,
    probe: &mut dyn EnvironmentProbe,
    clock: &mut dyn MeasurementClock,
) -> Vec<Measurement> {
    let start = clock.now();
    let mut session = MeasurementSession { policy, probe, clock, start };
    let mut runs: Vec<CandidateRun<'_, '_>> =
        candidates.iter_mut().map(|candidate| CandidateRun::new(candidate, policy)).collect();
    for run in &mut runs {
        session.attempt(run, MeasurementSession::begin);
    }
    let before = session.probe.observe();
    match policy.order {
        SampleOrder::Blocked => (0..runs.len()).for_each(|index| session.sample_rounds(&mut runs[index..=index])),
        SampleOrder::Interleaved | SampleOrder::Shuffled => session.sample_rounds(&mut runs),
    }
    if policy.checks == OutputChecks::FirstAndLast {
        for run in runs.iter_mut().filter(|run| run.failure.is_none()) {
            session.attempt(run, |session, run| session.check_run(run).map(|_| ()));
        }
    }
    let after = session.probe.observe();
    runs.into_iter().map(|run| run.finish(policy, [before, after])).collect()
}

/// A candidate on its way through a session.
struct CandidateRun<'c, 'p> {
    candidate: &'c mut MeasuredCandidate<'p>,
    failure: Option<MeasureFailure>,
    stopped_because: Option<String>,
    /// True if enough samples are there; more are taken only as long as other candidates need some, so that samples stay pairs.
    has_enough: bool,
    is_hopeless: bool,
    warm_ups: Vec<u64>,
    is_steady: bool,
    n_batch_runs: u32,
    samples: Vec<TimeSample>,
    interval: Option<MedianInterval>,
    /// The relative deviation at each check.
    noise: Vec<f64>,
    time_spent: u64,
}

impl<'c, 'p> CandidateRun<'c, 'p> {
    fn new(candidate: &'c mut MeasuredCandidate<'p>, policy: &MeasurementPolicy) -> CandidateRun<'c, 'p> {
        CandidateRun {
            candidate,
            failure: None,
            stopped_because: None,
            has_enough: policy.max_samples == 0,
            is_hopeless: false,
            warm_ups: Vec::new(),
            is_steady: false,
            n_batch_runs: 1,
            samples: Vec::new(),
            interval: None,
            noise: Vec::new(),
            time_spent: 0,
        }
    }

    fn is_active(&self) -> bool {
        self.failure.is_none() && self.stopped_because.is_none()
    }

    fn times(&self) -> Vec<u64> {
        self.samples.iter().map(|sample| sample.time).collect()
    }

    fn stop(&mut self, reason: impl Into<String>) {
        self.stopped_because.get_or_insert_with(|| reason.into());
    }

    /// Returns true if the last two windows of the warm-up agree.
    fn is_warm(&self, policy: &MeasurementPolicy) -> bool {
        let window = policy.warm_up.window.max(1) as usize;
        let n = self.warm_ups.len();
        if n < policy.warm_up.min_batches as usize || n < 2 * window {
            return false;
        }
        let [earlier, later] = [&self.warm_ups[n - 2 * window..n - window], &self.warm_ups[n - window..]];
        let figures = |times: &[u64]| Some((median(times)?, median_deviation(times)?));
        let (Some((earlier, deviation)), Some((later, later_deviation))) = (figures(earlier), figures(later)) else {
            return false;
        };
        // The deviations of a trend are half of what it moves a median by, so that no trend passes for noise.
        let noise = (deviation + later_deviation) as f64;
        earlier.abs_diff(later) as f64 <= (policy.warm_up.tolerance * earlier as f64).max(noise)
    }

    /// Looks at the samples and decides if they are enough.
    fn check(&mut self, policy: &MeasurementPolicy) {
        let times = self.times();
        self.interval = bootstrap_median(&times, policy.confidence, policy.n_resamples, policy.seed);
        let (Some(interval), Some(centre), Some(deviation)) = (self.interval, median(&times), median_deviation(&times))
        else {
            return;
        };
        self.noise.push(deviation as f64 / centre.max(1) as f64);
        if times.len() < policy.min_samples as usize {
            return;
        }
        // Noise that stays as it is can still leave the median between two modes, which more samples tell apart.
        let width = interval.half_width();
        self.has_enough |=
            width <= policy.target_half_width || (width <= policy.max_half_width && self.has_stable_noise(policy));
    }

    fn has_stable_noise(&self, policy: &MeasurementPolicy) -> bool {
        let n = policy.n_stable_checks as usize + 1;
        let Some(first) = self.noise.len().checked_sub(n) else { return false };
        let recent = &self.noise[first..];
        let most = recent.iter().copied().fold(0.0, f64::max);
        let least = recent.iter().copied().fold(f64::INFINITY, f64::min);
        most - least <= policy.stable_noise_change * most
    }

    fn describe_end(&self, policy: &MeasurementPolicy) -> String {
        let width = self.interval.map_or(f64::NAN, MedianInterval::half_width);
        let noise = self.noise.last().copied().unwrap_or(f64::NAN);
        if width <= policy.target_half_width {
            return format!("the median is known to ±{:.2} %", 100.0 * width);
        }
        format!("the noise is stable at {:.2} %, with the median known to ±{:.2} %", 100.0 * noise, 100.0 * width)
    }

    fn finish(mut self, policy: &MeasurementPolicy, observations: [EnvironmentObservation; 2]) -> Measurement {
        let times = self.times();
        self.interval = bootstrap_median(&times, policy.confidence, policy.n_resamples, policy.seed);
        for (sample, is_outlier) in self.samples.iter_mut().zip(flag_outliers(&times)) {
            sample.flags.is_outlier = is_outlier;
        }
        let stopped_because = self.stopped_because.clone().unwrap_or_else(|| self.describe_end(policy));
        let failure = self.failure.take().or_else(|| self.judge(policy, &observations, &stopped_because));
        let summary = self.interval.and_then(|interval| TimeSummary::of(&times, interval));
        let (status, reason) = match failure {
            Some(failure) => (failure.status, Some(failure.reason)),
            None => (MeasurementStatus::Ok, None),
        };
        Measurement {
            key: self.candidate.key.clone(),
            policy: policy.id(),
            status,
            stopped_because: reason.clone().unwrap_or(stopped_because),
            reason,
            warm_ups: self.warm_ups,
            is_steady: self.is_steady,
            n_batch_runs: self.n_batch_runs,
            samples: self.samples,
            summary,
            observations,
        }
    }

    /// Returns the reason why the samples may not be compared, if there is one.
    fn judge(
        &self,
        policy: &MeasurementPolicy,
        observations: &[EnvironmentObservation; 2],
        stopped_because: &str,
    ) -> Option<MeasureFailure> {
        let n = self.samples.len();
        if n < MIN_SAMPLES_AT_LIMIT.min(policy.max_samples as usize).max(1) {
            return Some(MeasureFailure::timed_out(format!("{stopped_because}, after {n} samples")));
        }
        let clocks = observations.map(|observation| [observation.cpu_mhz, observation.gpu_mhz]);
        for (before, after) in clocks[0].into_iter().zip(clocks[1]) {
            if let (Some(before), Some(after)) = (before, after)
                && after < before * (1.0 - policy.max_clock_drop)
            {
                let reason = format!("the clock fell from {before:.0} to {after:.0} MHz");
                return Some(MeasureFailure::too_noisy(reason));
            }
        }
        let width = self.interval.map_or(f64::INFINITY, MedianInterval::half_width);
        if self.is_hopeless || width <= policy.max_half_width {
            return None;
        }
        let reason = format!("the median is known to ±{:.1} % alone, after {n} samples", 100.0 * width);
        Some(MeasureFailure::too_noisy(reason))
    }
}

/// The state that all candidates of a session share.
struct MeasurementSession<'s> {
    policy: &'s MeasurementPolicy,
    probe: &'s mut dyn EnvironmentProbe,
    clock: &'s mut dyn MeasurementClock,
    start: u64,
}

impl MeasurementSession<'_> {
    /// Calls a stage of a candidate's way, notes what it took, and keeps its failure.
    fn attempt(
        &mut self,
        run: &mut CandidateRun<'_, '_>,
        stage: impl FnOnce(&mut Self, &mut CandidateRun<'_, '_>) -> Result<(), MeasureFailure>,
    ) {
        let start = self.clock.now();
        if let Err(failure) = stage(self, run) {
            run.failure = Some(failure);
        }
        let now = self.clock.now();
        run.time_spent += now - start;
        if run.time_spent > self.policy.candidate_limit {
            run.stop(format!("it was run for its {:.1} s", seconds(self.policy.candidate_limit)));
        }
        if now - self.start > self.policy.session_limit {
            run.stop(format!("the session was over its {:.1} s", seconds(self.policy.session_limit)));
        }
    }

    fn begin(&mut self, run: &mut CandidateRun<'_, '_>) -> Result<(), MeasureFailure> {
        if self.clock.now() - self.start > self.policy.session_limit {
            return Ok(());
        }
        run.candidate.path.prepare()?;
        self.check_run(run)?;
        self.warm_up(run)
    }

    /// Runs once and checks the output.
    fn check_run(&mut self, run: &mut CandidateRun<'_, '_>) -> Result<u64, MeasureFailure> {
        run.candidate.path.poison_output()?;
        let time = self.time_batch(run, 1)?;
        run.candidate.path.check_output()?;
        Ok(time)
    }

    /// Runs a batch and returns its time.
    fn time_batch(&mut self, run: &mut CandidateRun<'_, '_>, n_runs: u32) -> Result<u64, MeasureFailure> {
        let start = self.clock.now();
        let timing = run.candidate.path.run_batch(n_runs)?;
        let elapsed = self.clock.now() - start;
        let time = match timing {
            BatchTiming::ByClock => elapsed,
            BatchTiming::ByDevice(time) => time,
        };
        if time.max(elapsed) / u64::from(n_runs) > self.policy.run_limit {
            let (took, limit) = (seconds(time.max(elapsed) / u64::from(n_runs)), seconds(self.policy.run_limit));
            return Err(MeasureFailure::timed_out(format!("a run took {took:.3} s, of {limit:.3} s that it may take")));
        }
        Ok(time)
    }

    /// Runs batches until they are long enough and steady.
    fn warm_up(&mut self, run: &mut CandidateRun<'_, '_>) -> Result<(), MeasureFailure> {
        let policy = self.policy;
        let limit = (WARM_UP_SHARE * policy.candidate_limit as f64) as u64;
        let start = self.clock.now();
        for _ in 0..policy.warm_up.max_batches {
            if policy.caches == CacheState::Cold {
                run.candidate.path.flush_caches()?;
            }
            let time = self.time_batch(run, run.n_batch_runs)?;
            run.warm_ups.push(time / u64::from(run.n_batch_runs));
            // Code may become faster while it warms up, as that of tiers does, and batches too short again.
            let has_grown = policy.caches != CacheState::Cold && self.grow_batch(run, time);
            let elapsed = self.clock.now() - start;
            if !has_grown && elapsed >= policy.warm_up.min_time && run.is_warm(policy) {
                run.is_steady = true;
                break;
            }
            if elapsed > limit {
                break;
            }
        }
        Ok(())
    }

    fn grow_batch(&self, run: &mut CandidateRun<'_, '_>, time: u64) -> bool {
        let n = run.n_batch_runs;
        if time >= self.policy.min_sample_time || n >= self.policy.max_batch_runs {
            return false;
        }
        // A tenth more, so that noise does not make most batches grow a second time.
        let factor = 1.1 * self.policy.min_sample_time as f64 / time.max(1) as f64;
        let wanted = (f64::from(n) * factor.min(MAX_BATCH_GROWTH)).ceil() as u32;
        run.n_batch_runs = wanted.clamp(n + 1, self.policy.max_batch_runs);
        true
    }

    /// Samples candidates in rounds until all have enough or are stopped.
    fn sample_rounds(&mut self, runs: &mut [CandidateRun<'_, '_>]) {
        let mut random = Random::new(self.policy.seed);
        let mut order: Vec<usize> = (0..runs.len()).collect();
        for round in 0..self.policy.max_samples {
            if runs.iter().all(|run| run.has_enough || !run.is_active()) {
                break;
            }
            if self.policy.order == SampleOrder::Shuffled {
                (1..order.len()).for_each(|index| order.swap(index, random.below(index + 1)));
            }
            for &index in &order {
                if runs[index].is_active() {
                    self.attempt(&mut runs[index], |session, run| session.sample(run, round));
                }
            }
            let n = round + 1;
            if n % self.policy.samples_per_check.max(1) == 0 || n as usize == MIN_SAMPLES_AT_LIMIT {
                runs.iter_mut().filter(|run| run.is_active()).for_each(|run| run.check(self.policy));
                self.stop_hopeless(runs);
            }
        }
        for run in runs.iter_mut().filter(|run| run.is_active() && !run.has_enough) {
            run.stop(format!("it has its {} samples", self.policy.max_samples));
        }
    }

    fn sample(&mut self, run: &mut CandidateRun<'_, '_>, round: u32) -> Result<(), MeasureFailure> {
        let is_checked = self.policy.checks == OutputChecks::EverySample;
        if is_checked {
            run.candidate.path.poison_output()?;
        }
        // The file that tells it is read here, because reading it just before the batch would take part of the caches.
        let waited_before = self.probe.time_waited();
        match self.policy.caches {
            CacheState::Hot { n_untimed_runs: 0 } => {}
            CacheState::Hot { n_untimed_runs } => {
                self.time_batch(run, n_untimed_runs)?;
            }
            CacheState::Cold => run.candidate.path.flush_caches()?,
        }
        let time = self.time_batch(run, run.n_batch_runs)?;
        let waited_after = self.probe.time_waited();
        if is_checked {
            run.candidate.path.check_output()?;
        }
        let flags = SampleFlags { is_outlier: false, has_waited: waited_before < waited_after };
        run.samples.push(TimeSample { time: time / u64::from(run.n_batch_runs), round, flags });
        Ok(())
    }

    /// Stops candidates that cannot win any more.
    fn stop_hopeless(&self, runs: &mut [CandidateRun<'_, '_>]) {
        let best =
            runs.iter().filter(|run| run.failure.is_none()).filter_map(|run| run.interval).map(|it| it.high).min();
        let Some(best) = best else { return };
        for run in runs.iter_mut().filter(|run| run.is_active()) {
            let limit = self.policy.hopeless_factor * best as f64;
            if run.interval.is_some_and(|interval| interval.low as f64 > limit) {
                run.is_hopeless = true;
                run.stop(format!("it takes more than {} times as long as the best", self.policy.hopeless_factor));
            }
        }
    }
}

fn seconds(picoseconds: u64) -> f64 {
    picoseconds as f64 * 1e-12
}
