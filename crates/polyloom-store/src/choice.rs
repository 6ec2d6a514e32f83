//! The best of the measured paths is derived from traces each time, and stored nowhere.
//!
//! Times are compared within a session alone, in which candidates were measured in turn, so that what changes from day
//! to day does not decide. In each session the default path is measured too, and a path is chosen only if it beats the
//! default of its own session beyond the noise of both.

use crate::samples::DEVIATION_SCALE;
use crate::{ContentHash, PathIdentity, TraceStatus};
use std::cmp::Ordering;

/// A difference counts if it is larger than so many standard errors of it.
const MIN_STANDARD_ERRORS: f64 = 3.0;
/// A path wins only if it takes at least so much less of the default's time: policies measure to about 2 %, and what
/// is gained below that is less than what a change of path may cost.
const MIN_GAIN: f64 = 0.02;
/// The standard error of a median is so much larger than that of a mean, for normal noise.
const MEDIAN_EFFICIENCY: f64 = 1.2533;

/// Holds what a look-up needs of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasuredPath {
    /// The implementation's hash.
    pub implementation: ContentHash,
    /// True of a default path.
    pub is_default: bool,
    /// Says how near its results are to the graph's.
    pub identity: PathIdentity,
    /// The hash of the code that was measured.
    pub code_hash: ContentHash,
    /// Names what was measured interleaved with it.
    pub session: String,
    /// Says how the measurement ended.
    pub status: TraceStatus,
    /// The median of the samples in picoseconds, 0 where there are none.
    pub median: u64,
    /// Their median distance from it.
    pub mad: u64,
    /// Counts them.
    pub n_samples: u64,
    /// The error against the golden reference.
    pub error: Option<f64>,
    /// When it was measured, in microseconds since 1970.
    pub measured_at: i64,
    /// True if this code has ever given a wrong result for this workload, by any policy and in any environment.
    pub is_wrong: bool,
}

/// Says why a path is chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ChoiceReason {
    /// It takes this part of the default's time, less than noise explains.
    Wins {
        /// The quotient of the medians in one session.
        ratio: f64,
    },
    /// Nothing beats the default beyond the noise.
    DefaultStands,
    /// The default fails, and this is the fastest that does not.
    DefaultFails,
}

impl MeasuredPath {
    fn key(&self) -> (ContentHash, ContentHash) {
        (self.implementation, self.code_hash)
    }

    /// Returns the standard error of the median, relative to it.
    fn relative_error(&self) -> f64 {
        let deviation = DEVIATION_SCALE * self.mad as f64;
        MEDIAN_EFFICIENCY * deviation / (self.n_samples.max(1) as f64).sqrt() / self.median.max(1) as f64
    }

    /// Returns true if this takes less time than the other beyond the noise of both. They are of one session.
    fn beats(&self, other: &MeasuredPath) -> bool {
        let gain = 1.0 - self.median as f64 / other.median.max(1) as f64;
        let noise = self.relative_error().hypot(other.relative_error());
        gain > MIN_GAIN && gain > MIN_STANDARD_ERRORS * noise
    }

    fn by_time(&self, other: &MeasuredPath) -> Ordering {
        self.median.cmp(&other.median).then(self.key().cmp(&other.key()))
    }
}

/// Chooses among measurements of one graph, workload, environment and policy, the newest first. None if the default
/// path was never measured, or nothing is left that works.
pub(crate) fn choose<'a>(
    measured: &'a [MeasuredPath],
    is_allowed: &dyn Fn(&MeasuredPath) -> bool,
) -> Option<(&'a MeasuredPath, ChoiceReason)> {
    // The newest measurement that says anything decides if code works. One that is too noisy says nothing.
    let newest = |path: &MeasuredPath| {
        measured.iter().find(|each| each.status != TraceStatus::TooNoisy && each.key() == path.key())
    };
    let works = |path: &MeasuredPath| newest(path).is_some_and(|each| each.status == TraceStatus::Ok) && !path.is_wrong;
    let is_sound = |path: &MeasuredPath| path.status == TraceStatus::Ok && is_allowed(path) && works(path);
    let usable: Vec<&MeasuredPath> = measured.iter().filter(|path| is_sound(path)).collect();
    let has_default = measured.iter().any(|path| path.is_default);
    let default_of = |session: &str| {
        let defaults = usable.iter().copied().filter(|path| path.is_default && path.session == session);
        defaults.min_by(|a, b| a.by_time(b))
    };
    // Each code is compared in its newest session that has a default, because older ones may be of a slower machine.
    let mut candidates: Vec<(&MeasuredPath, &MeasuredPath)> = Vec::new();
    for path in usable.iter().copied() {
        if candidates.iter().all(|(each, _)| each.key() != path.key()) {
            candidates.extend(default_of(&path.session).map(|default| (path, default)));
        }
    }
    let ratio = |(path, default): &(&MeasuredPath, &MeasuredPath)| path.median as f64 / default.median.max(1) as f64;
    let winners: Vec<_> = candidates.iter().filter(|(path, default)| path.beats(default)).collect();
    let fastest = winners.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(a.0.by_time(b.0)));
    if let Some(fastest) = fastest {
        // Those that the fastest does not beat beyond the noise are as fast, and the first of them by its hash is taken:
        // measuring again then takes the same one.
        let noise = |candidate: &(&MeasuredPath, &MeasuredPath)| {
            let all = [candidate.0, candidate.1, fastest.0, fastest.1].map(|path| path.relative_error().powi(2));
            (MIN_STANDARD_ERRORS * all.iter().sum::<f64>().sqrt()).max(MIN_GAIN)
        };
        let ties = winners.iter().filter(|each| ratio(each) <= ratio(fastest) * (1.0 + noise(each)));
        let chosen = ties.min_by_key(|(path, _)| path.key())?;
        return Some((chosen.0, ChoiceReason::Wins { ratio: ratio(chosen) }));
    }
    let newest_default = usable.iter().copied().find(|path| path.is_default);
    if let Some(default) = newest_default.and_then(|newest| default_of(&newest.session)) {
        return Some((default, ChoiceReason::DefaultStands));
    }
    // A default that is merely stale or not allowed has not failed.
    let fails = measured.iter().filter(|path| path.is_default && is_allowed(path)).any(|path| !works(path));
    let newest = usable.first().filter(|_| has_default && fails)?;
    let session = usable.iter().copied().filter(|path| path.session == newest.session);
    session.min_by(|a, b| a.by_time(b)).map(|path| (path, ChoiceReason::DefaultFails))
}

#[cfg(test)]
mod tests {
    use super::{ChoiceReason, MeasuredPath, choose};
    use crate::{ContentHash, PathIdentity, TraceStatus};

    fn path(name: &str, session: &str, median: u64) -> MeasuredPath {
        MeasuredPath {
            implementation: ContentHash::of(name.as_bytes()),
            is_default: name == "default",
            identity: PathIdentity::Bits,
            code_hash: ContentHash::of(b"code"),
            session: session.to_owned(),
            status: TraceStatus::Ok,
            median,
            mad: median / 100,
            n_samples: 30,
            error: Some(0.0),
            measured_at: 0,
            is_wrong: false,
        }
    }

    fn failed(name: &str, status: TraceStatus) -> MeasuredPath {
        MeasuredPath { status, ..path(name, "x", 0) }
    }

    fn chosen(measured: &[MeasuredPath]) -> Option<(ContentHash, ChoiceReason)> {
        choose(measured, &|_| true).map(|(path, reason)| (path.implementation, reason))
    }

    fn name(name: &str) -> ContentHash {
        ContentHash::of(name.as_bytes())
    }

    #[test]
    fn a_path_wins_beyond_the_noise_alone() {
        let default = path("default", "x", 100_000);
        let stands = Some((name("default"), ChoiceReason::DefaultStands));
        assert_eq!(chosen(&[default.clone(), path("a", "x", 99_500)]), stands);
        assert_eq!(
            chosen(&[default.clone(), path("a", "x", 90_000)]),
            Some((name("a"), ChoiceReason::Wins { ratio: 0.9 }))
        );
        // The same times with ten times the spread.
        let noisy = MeasuredPath { mad: 25_000, ..path("a", "x", 90_000) };
        assert_eq!(chosen(&[default.clone(), noisy]), stands);
        // A planted slow path.
        assert_eq!(chosen(&[path("a", "x", 900_000), default]), stands);
    }

    #[test]
    fn without_the_default_nothing_is_chosen() {
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[path("a", "x", 1)]), None);
        // It was measured in another session: nothing says how `a` compares with it.
        let elsewhere = [path("a", "y", 50), path("default", "x", 100_000)];
        assert_eq!(chosen(&elsewhere), Some((name("default"), ChoiceReason::DefaultStands)));
    }

    #[test]
    fn sessions_are_compared_by_their_defaults() {
        // On the second day the machine was twice as slow, and `b` is still the better one.
        let measured = [
            path("b", "2", 120_000),
            path("default", "2", 200_000),
            path("a", "1", 80_000),
            path("default", "1", 100_000),
        ];
        assert_eq!(chosen(&measured), Some((name("b"), ChoiceReason::Wins { ratio: 0.6 })));
    }

    #[test]
    fn what_fails_is_never_chosen() {
        let default = path("default", "x", 100_000);
        let stands = Some((name("default"), ChoiceReason::DefaultStands));
        for status in [TraceStatus::Wrong, TraceStatus::DoesNotCompile, TraceStatus::TimedOut, TraceStatus::Failed] {
            assert_eq!(chosen(&[failed("a", status), default.clone(), path("a", "x", 10_000)]), stands);
        }
        // Once wrong is wrong; a time-out is forgotten when it works again; noise says nothing.
        let fast = path("a", "x", 10_000);
        let wins = Some((name("a"), ChoiceReason::Wins { ratio: 0.1 }));
        let wrong = MeasuredPath { is_wrong: true, ..fast.clone() };
        assert_eq!(chosen(&[wrong, default.clone(), failed("a", TraceStatus::Wrong)]), stands);
        assert_eq!(chosen(&[fast.clone(), default.clone(), failed("a", TraceStatus::TimedOut)]), wins);
        assert_eq!(chosen(&[failed("a", TraceStatus::TooNoisy), fast.clone(), default]), wins);
        // The default itself.
        let fails = Some((name("a"), ChoiceReason::DefaultFails));
        assert_eq!(chosen(&[fast, failed("default", TraceStatus::Wrong)]), fails);
    }

    #[test]
    fn ties_are_broken_the_same_way_every_time() {
        let default = path("default", "x", 100_000);
        let winner = |a, b| chosen(&[path("a", "x", a), path("b", "x", b), default.clone()]).unwrap().0;
        assert_eq!(winner(50_000, 50_100), winner(50_100, 50_000));
        assert_ne!(winner(50_000, 60_000), winner(60_000, 50_000));
    }
}
