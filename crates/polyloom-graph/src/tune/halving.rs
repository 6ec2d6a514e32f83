//! Successive halving, and then steps to better neighbours.

use super::space::{ParameterPoint, ParameterSpace};
use crate::measure::{
    EnvironmentProbe, Measure, MeasureFailure, MeasuredCandidate, Measurement, MeasurementClock, MeasurementPolicy,
    MeasurementStatus, WarmUpRule, measure, rank,
};
use std::fmt;

/// The samples of a point in the first rung.
const FIRST_SAMPLES: u32 = 6;
/// The warm-up batches of a point at most, in rungs before the last.
const EARLY_WARM_UPS: u32 = 12;

/// A kernel that can be compiled for each point of a space.
pub trait TunedKernel<'k> {
    /// Makes the candidate of a point. Compiling may wait for [`Measure::prepare`].
    ///
    /// # Errors
    ///
    /// The failure, if there is no code for the point.
    fn candidate(&mut self, point: &ParameterPoint) -> Result<Box<dyn Measure + 'k>, MeasureFailure>;
}

impl<'k, F: FnMut(&ParameterPoint) -> Result<Box<dyn Measure + 'k>, MeasureFailure>> TunedKernel<'k> for F {
    fn candidate(&mut self, point: &ParameterPoint) -> Result<Box<dyn Measure + 'k>, MeasureFailure> {
        self(point)
    }
}

/// The bounds of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TuningLimits {
    /// The points of the first rung at most.
    pub n_first_points: usize,
    /// The points that are measured at most, the steps to neighbours included.
    pub n_points: usize,
    /// The part of a rung's points that goes on to the next: one in so many.
    pub halving: usize,
    /// The time of the search in picoseconds. A rung that has begun ends by its policy's limits, which are set to what is left of it.
    pub time: u64,
    /// The seed by which points are drawn.
    pub seed: u64,
}

impl Default for TuningLimits {
    fn default() -> TuningLimits {
        TuningLimits { n_first_points: 48, n_points: 128, halving: 3, time: 30_000_000_000_000, seed: 1 }
    }
}

/// The reason why a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TuningEnd {
    /// No neighbour of the best point beats it.
    NoBetterNeighbour,
    /// All points of the space have been measured.
    Exhausted,
    /// So many points have been measured as were allowed.
    PointLimit,
    /// The time was over.
    TimeLimit,
    /// No point runs.
    NothingRuns,
}

impl fmt::Display for TuningEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TuningEnd::NoBetterNeighbour => "no neighbour of the best point is faster",
            TuningEnd::Exhausted => "all points have been measured",
            TuningEnd::PointLimit => "as many points have been measured as were allowed",
            TuningEnd::TimeLimit => "the time was over",
            TuningEnd::NothingRuns => "no point runs",
        })
    }
}

/// A point with all that was measured of it, a measurement for each rung.
#[derive(Clone, PartialEq, Debug)]
pub struct TunedPoint {
    /// The point.
    pub point: ParameterPoint,
    /// The measurements.
    pub measurements: Vec<Measurement>,
}

/// The results of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuning {
    /// The point that is chosen; `None` if none runs.
    pub chosen: Option<ParameterPoint>,
    /// All points that were measured, in the order that they were drawn in, the default first.
    pub points: Vec<TunedPoint>,
    /// The reason why the search ended.
    pub end: TuningEnd,
}

/// Searches a space for the fastest point.
///
/// `default` is chosen unless another point beats it beyond the noise in the last rung. A point that fails or is wrong is out, with its
/// failure kept as a measurement.
pub fn tune<'k>(
    space: &ParameterSpace,
    default: &ParameterPoint,
    kernel: &mut dyn TunedKernel<'k>,
    policy: &MeasurementPolicy,
    limits: &TuningLimits,
    probe: &mut dyn EnvironmentProbe,
    clock: &mut dyn MeasurementClock,
) -> Tuning {
    let start = clock.now();
    let mut search =
        TuningSearch { kernel, policy, limits, probe, clock, start, points: Vec::new(), candidates: Vec::new() };
    let drawn = space.draw(limits.n_first_points.min(limits.n_points), limits.seed);
    for point in std::iter::once(default.clone()).chain(drawn) {
        search.add(point);
    }
    let first_best = search.halve();
    let mut best = first_best;
    let end = loop {
        let Some(current) = best else { break TuningEnd::NothingRuns };
        if search.is_out_of_time() {
            break TuningEnd::TimeLimit;
        }
        if search.points.len() >= space.n_combinations() {
            break TuningEnd::Exhausted;
        }
        if search.points.len() >= limits.n_points {
            break TuningEnd::PointLimit;
        }
        let neighbours = space.neighbours(&search.points[current].point);
        let n_known = search.points.len();
        neighbours.into_iter().take(limits.n_points - n_known).for_each(|point| search.add(point));
        let mut rung: Vec<usize> = (n_known..search.points.len()).collect();
        if rung.is_empty() {
            break TuningEnd::NoBetterNeighbour;
        }
        rung.insert(0, current);
        let chosen = search.choose(&rung, current);
        if chosen == Some(current) {
            break if search.is_out_of_time() { TuningEnd::TimeLimit } else { TuningEnd::NoBetterNeighbour };
        }
        best = chosen.or(best);
    };
    // A step beats the point before it; at the end, the point is measured against the default itself.
    let chosen = best.and_then(|best| {
        let is_settled = best == 0 || Some(best) == first_best || search.is_out_of_time();
        if is_settled { Some(best) } else { search.choose(&[0, best], 0) }
    });
    let chosen = chosen.map(|chosen| search.points[chosen].point.clone());
    Tuning { chosen, points: search.points, end }
}

struct TuningSearch<'s, 'k> {
    kernel: &'s mut dyn TunedKernel<'k>,
    policy: &'s MeasurementPolicy,
    limits: &'s TuningLimits,
    probe: &'s mut dyn EnvironmentProbe,
    clock: &'s mut dyn MeasurementClock,
    start: u64,
    points: Vec<TunedPoint>,
    /// The candidates of the points, kept because compiling them may have cost more than measuring them does.
    candidates: Vec<Box<dyn Measure + 'k>>,
}

/// A point for which there is no code.
struct FailedCandidate(MeasureFailure);

impl Measure for FailedCandidate {
    fn prepare(&mut self) -> Result<(), MeasureFailure> {
        Err(self.0.clone())
    }

    fn poison_output(&mut self) -> Result<(), MeasureFailure> {
        Err(self.0.clone())
    }

    fn flush_caches(&mut self) -> Result<(), MeasureFailure> {
        Err(self.0.clone())
    }

    fn run_batch(&mut self, _: u32) -> Result<crate::measure::BatchTiming, MeasureFailure> {
        Err(self.0.clone())
    }

    fn check_output(&mut self) -> Result<(), MeasureFailure> {
        Err(self.0.clone())
    }
}

impl TuningSearch<'_, '_> {
    fn is_out_of_time(&mut self) -> bool {
        self.time_left() == 0
    }

    fn time_left(&mut self) -> u64 {
        self.limits.time.saturating_sub(self.clock.now() - self.start)
    }

    /// Adds a point, unless it is there.
    fn add(&mut self, point: ParameterPoint) {
        if self.points.iter().any(|known| known.point == point) {
            return;
        }
        let candidate = self.kernel.candidate(&point);
        self.candidates.push(candidate.unwrap_or_else(|failure| Box::new(FailedCandidate(failure))));
        self.points.push(TunedPoint { point, measurements: Vec::new() });
    }

    /// Measures points in turns, and returns the measurements in order.
    fn measure_rung(&mut self, rung: &[usize], policy: &MeasurementPolicy) -> Vec<Measurement> {
        let policy = MeasurementPolicy { session_limit: policy.session_limit.min(self.time_left()), ..policy.clone() };
        let mut by_rung: Vec<(usize, MeasuredCandidate<'_>)> = Vec::new();
        for (index, path) in self.candidates.iter_mut().enumerate() {
            if let Some(place) = rung.iter().position(|&other| other == index) {
                let key = self.points[index].point.to_string();
                by_rung.push((place, MeasuredCandidate { key, path: path.as_mut() }));
            }
        }
        by_rung.sort_by_key(|(place, _)| *place);
        let mut candidates: Vec<MeasuredCandidate<'_>> = by_rung.into_iter().map(|(_, candidate)| candidate).collect();
        let measurements = measure(&mut candidates, &policy, self.probe, self.clock);
        for (&index, measurement) in rung.iter().zip(&measurements) {
            self.points[index].measurements.push(measurement.clone());
        }
        measurements
    }

    /// Measures a rung by the whole policy and returns the point that is chosen.
    fn choose(&mut self, rung: &[usize], default: usize) -> Option<usize> {
        let measurements = self.measure_rung(rung, self.policy);
        let place = rung.iter().position(|&index| index == default)?;
        rank(&measurements, place, self.policy).chosen.map(|chosen| rung[chosen])
    }

    /// Measures all points a little and the better ones more, down to a last rung by the whole policy, and returns the point that is
    /// chosen there.
    fn halve(&mut self) -> Option<usize> {
        let halving = self.limits.halving.max(2);
        let mut rung: Vec<usize> = (0..self.points.len()).collect();
        let mut n_samples = FIRST_SAMPLES;
        // The last rung has the default and as many others as a rung is cut to at once.
        while rung.len() > halving + 1 && !self.is_out_of_time() {
            let early = MeasurementPolicy {
                min_samples: n_samples,
                max_samples: n_samples.min(self.policy.max_samples),
                samples_per_check: n_samples,
                // Too few samples to call anything noisy; what counts is who is ahead.
                max_half_width: f64::INFINITY,
                warm_up: WarmUpRule {
                    max_batches: self.policy.warm_up.max_batches.min(EARLY_WARM_UPS),
                    min_time: 0,
                    ..self.policy.warm_up
                },
                ..self.policy.clone()
            };
            let measurements = self.measure_rung(&rung, &early);
            let mut runs: Vec<(u64, usize)> = rung
                .iter()
                .zip(&measurements)
                .filter(|(_, measurement)| measurement.is_ok())
                .filter_map(|(&index, measurement)| Some((measurement.summary?.median, index)))
                .collect();
            runs.sort_unstable();
            let n_kept = rung.len().div_ceil(halving).max(2);
            let default_may_run = self.may_run(0);
            let kept = runs.into_iter().take(n_kept).map(|(_, index)| index).filter(|&index| index != 0);
            rung = (if default_may_run { Some(0) } else { None }).into_iter().chain(kept).collect();
            n_samples = n_samples.saturating_mul(halving as u32).min(self.policy.min_samples);
        }
        if rung.is_empty() {
            return None;
        }
        if self.is_out_of_time() {
            return self.best_so_far(&rung);
        }
        let default = rung[0];
        self.choose(&rung, default)
    }

    /// Returns true if no measurement says that a point does not run or is wrong.
    fn may_run(&self, index: usize) -> bool {
        let is_fine = |measurement: &Measurement| {
            use MeasurementStatus::{Ok, TimedOut, TooNoisy};
            matches!(measurement.status, Ok | TimedOut | TooNoisy)
        };
        self.points[index].measurements.iter().all(is_fine)
    }

    /// Returns the default, or else the best of a rung by its last medians, when there is no time for a last rung.
    fn best_so_far(&self, rung: &[usize]) -> Option<usize> {
        if self.may_run(0) {
            return Some(0);
        }
        let median = |&index: &usize| {
            let last = self.points[index].measurements.last().filter(|measurement| measurement.is_ok())?;
            Some((last.summary?.median, index))
        };
        rung.iter().filter_map(median).min().map(|(_, index)| index)
    }
}
