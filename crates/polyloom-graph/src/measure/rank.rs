//! Ranking: the choice among measured paths.
//!
//! The default path is what runs where nothing is known, and stays chosen unless another beats it beyond the noise. What is chosen is a
//! function of the measurements and the policy: it is derived when asked for, never stored.

use super::measurement::{Measurement, MeasurementStatus};
use super::policy::MeasurementPolicy;
use super::statistics::bootstrap_ratio;

/// The reason for a choice.
#[derive(Clone, PartialEq, Debug)]
pub enum RankReason {
    /// It is the default, and no other path has samples that may be compared.
    OnlyPath,
    /// The default, because none of the others beats it beyond the noise.
    DefaultIsUnbeaten,
    /// The path beats the default. The ratio of its median to the default's lies in the interval.
    Wins {
        /// The interval of the ratio.
        ratio: [f64; 2],
        /// The paths that are as fast, for all that the samples tell; the first key among them and the chosen one is chosen.
        n_ties: usize,
    },
    /// The default does not run or is wrong; the path is the fastest that is left.
    DefaultFailed,
}

/// The paths in order, and the choice.
#[derive(Clone, PartialEq, Debug)]
pub struct PathRanking {
    /// The places of the paths with comparable samples, fastest median first.
    pub order: Vec<usize>,
    /// The place of the path that is chosen; `None` if none may run.
    pub chosen: Option<usize>,
    /// The reason.
    pub reason: RankReason,
}

/// Ranks measurements of one session, of which one is the default path's.
///
/// A path beats the default if the interval of the ratio of their medians lies below 1 less [`MeasurementPolicy::min_win`], and its
/// shortest sample is not longer than the default's: noise adds time and never takes any away, so that a path whose median wins while
/// its minimum loses owes the win to noise. With several rivals each interval is wider (Bonferroni's correction), so that many paths
/// are not many chances of a false win. Winners that are not told apart from the fastest of them are ties, and of ties the first key
/// is chosen, so that repeated sessions choose alike.
///
/// ```
/// use polyloom_graph::measure::{RankReason, MeasurementPolicy, rank};
///
/// let ranking = rank(&[], 0, &MeasurementPolicy::hot());
/// assert_eq!((ranking.chosen, ranking.reason), (None, RankReason::DefaultFailed));
/// ```
pub fn rank(measurements: &[Measurement], default_idx: usize, policy: &MeasurementPolicy) -> PathRanking {
    let speed = |index: usize| {
        let measurement = &measurements[index];
        measurement.summary.map(|summary| (summary.median, summary.min, measurement.key.as_str()))
    };
    // A noisy path is compared too, because the test knows how noisy it is: what is faster by far is so in any noise.
    let has_run =
        |index: usize| matches!(measurements[index].status, MeasurementStatus::Ok | MeasurementStatus::TooNoisy);
    let mut order: Vec<usize> =
        (0..measurements.len()).filter(|&index| has_run(index) && speed(index).is_some()).collect();
    order.sort_by_key(|&index| speed(index));
    let Some(default) = measurements.get(default_idx) else {
        let chosen = order.first().copied();
        return PathRanking { order, chosen, reason: RankReason::DefaultFailed };
    };
    // A default that is wrong or does not run has to be replaced, and so has one that takes longer than it may, if there
    // is another.
    let fallback = match default.status {
        MeasurementStatus::Ok | MeasurementStatus::TooNoisy => None,
        MeasurementStatus::TimedOut => Some(order.first().copied().or(Some(default_idx))),
        MeasurementStatus::DoesNotCompile | MeasurementStatus::Wrong | MeasurementStatus::Failed => {
            Some(order.first().copied())
        }
    };
    if let Some(chosen) = fallback {
        return PathRanking { order, chosen, reason: RankReason::DefaultFailed };
    }
    let n_rivals = order.iter().filter(|&&index| index != default_idx).count();
    let test = RatioTest { policy, confidence: 1.0 - (1.0 - policy.confidence) / n_rivals.max(1) as f64 };
    let wins = |&index: &usize| {
        let ratio = test.ratio(&measurements[index], default)?;
        let (own, other) = (measurements[index].summary?, default.summary?);
        (index != default_idx && ratio[1] < 1.0 - policy.min_win && own.min <= other.min).then_some((index, ratio))
    };
    let winners: Vec<(usize, [f64; 2])> = order.iter().filter_map(wins).collect();
    let Some(&(fastest, _)) = winners.first() else {
        let reason = if n_rivals == 0 { RankReason::OnlyPath } else { RankReason::DefaultIsUnbeaten };
        return PathRanking { order, chosen: Some(default_idx), reason };
    };
    let is_tied = |&&(index, _): &&(usize, [f64; 2])| {
        index == fastest
            || test
                .ratio(&measurements[index], &measurements[fastest])
                .is_none_or(|ratio| ratio[0] <= 1.0 + policy.min_win)
    };
    let tied: Vec<&(usize, [f64; 2])> = winners.iter().filter(is_tied).collect();
    let chosen = tied.iter().min_by_key(|(index, _)| &measurements[*index].key);
    let (chosen, ratio) = chosen.map_or((default_idx, [1.0, 1.0]), |&&(index, ratio)| (index, ratio));
    PathRanking { order, chosen: Some(chosen), reason: RankReason::Wins { ratio, n_ties: tied.len() - 1 } }
}

/// A bootstrap test of ratios.
struct RatioTest<'p> {
    policy: &'p MeasurementPolicy,
    confidence: f64,
}

impl RatioTest<'_> {
    /// Returns the interval of the ratio of the median of `a` to that of `b`, by the samples of the rounds that both have.
    fn ratio(&self, a: &Measurement, b: &Measurement) -> Option<[f64; 2]> {
        let mut of_b = b.samples.iter().peekable();
        let (mut times_a, mut times_b) = (Vec::new(), Vec::new());
        for sample in &a.samples {
            while of_b.next_if(|other| other.round < sample.round).is_some() {}
            if let Some(other) = of_b.next_if(|other| other.round == sample.round) {
                times_a.push(sample.time);
                times_b.push(other.time);
            }
        }
        bootstrap_ratio(&times_a, &times_b, self.confidence, self.policy.n_resamples, self.policy.seed)
    }
}
