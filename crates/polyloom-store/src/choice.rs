//! The best of the measured paths is derived from traces each time, and stored nowhere.
//!
//! Times are compared within a session alone, in which candidates were measured in turn, so that what changes from day
//! to day does not decide. In each session the default path is measured too, and a path is chosen only if it beats the
//! default of its own session beyond the noise of both.

use crate::samples::DEVIATION_SCALE;
use crate::{ContentHash, PathIdentity, TraceStatus};
use std::cmp::Ordering;
use std::fmt;

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
    pub fn relative_error(&self) -> f64 {
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

/// Says how a path stands among those that are measured of a workload.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PathVerdict {
    /// It is the best path.
    Chosen(ChoiceReason),
    /// It is as fast as the chosen one within the noise, and comes after it by its hash.
    Ties,
    /// It beats the default, and the chosen one takes less beyond the noise.
    Slower,
    /// It does not beat the default beyond the noise.
    DoesNotWin,
    /// It is a default, and another path is chosen.
    Default,
    /// It works, and no session has measured it beside a default that works.
    NotCompared,
    /// It works, and its results are further from the graph's than the query allows.
    NotAllowed,
    /// Its code has given a wrong result for this workload, and never runs for it again.
    Wrong,
    /// The newest measurement that says anything ended so.
    Fails(TraceStatus),
    /// All its measurements are too noisy to say anything.
    Unsteady,
    /// Its recipe does not give the measured code any more.
    Stale,
}

impl fmt::Display for ChoiceReason {
    /// Writes what follows "it is chosen because".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChoiceReason::Wins { ratio } => {
                write!(f, "it takes {ratio:.3} of the default's time, and noise explains less")
            }
            ChoiceReason::DefaultStands => f.write_str("it is the default, and nothing beats it beyond the noise"),
            ChoiceReason::DefaultFails => f.write_str("the default fails, and this is the fastest path that works"),
        }
    }
}

impl fmt::Display for PathVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathVerdict::Chosen(reason) => return write!(f, "chosen: {reason}"),
            PathVerdict::Ties => "as fast as the chosen path within the noise; the first by hash is taken",
            PathVerdict::Slower => "beats the default, and the chosen path is faster",
            PathVerdict::DoesNotWin => "does not beat the default beyond the noise",
            PathVerdict::Default => "a default, and another path is chosen",
            PathVerdict::NotCompared => "no session has measured it beside a default that works",
            PathVerdict::NotAllowed => "its results differ from the graph's by more than is allowed",
            PathVerdict::Wrong => "its code gave a wrong result, and never runs for this workload again",
            PathVerdict::Fails(TraceStatus::DoesNotCompile) => "it does not compile",
            PathVerdict::Fails(TraceStatus::TimedOut) => "it timed out",
            PathVerdict::Fails(_) => "it fails",
            PathVerdict::Unsteady => "its measurements are too noisy",
            PathVerdict::Stale => "its recipe no longer gives the code that was measured",
        })
    }
}

/// A path with the default that it is compared with.
type PathPair<'a> = (&'a MeasuredPath, &'a MeasuredPath);

/// Measurements of one graph, workload, environment and policy, compared.
struct PathComparison<'a, 'f> {
    /// All of them, the newest first.
    measured: &'a [MeasuredPath],
    is_allowed: &'f dyn Fn(&MeasuredPath) -> bool,
    /// Those that may be chosen.
    usable: Vec<&'a MeasuredPath>,
    /// The usable code, each with a default of the same session.
    candidates: Vec<PathPair<'a>>,
    /// The fastest of those that beat their defaults.
    fastest: Option<PathPair<'a>>,
}

fn ratio((path, default): &PathPair<'_>) -> f64 {
    path.median as f64 / default.median.max(1) as f64
}

impl<'a, 'f> PathComparison<'a, 'f> {
    fn new(measured: &'a [MeasuredPath], is_allowed: &'f dyn Fn(&MeasuredPath) -> bool) -> PathComparison<'a, 'f> {
        let mut comparison =
            PathComparison { measured, is_allowed, usable: Vec::new(), candidates: Vec::new(), fastest: None };
        let is_sound =
            |path: &&MeasuredPath| path.status == TraceStatus::Ok && is_allowed(path) && comparison.works(path);
        comparison.usable = measured.iter().filter(is_sound).collect();
        // Each code is compared in its newest session that has a default, because older ones may be of a slower machine.
        for path in comparison.usable.iter().copied() {
            if comparison.candidates.iter().all(|(each, _)| each.key() != path.key()) {
                comparison.candidates.extend(comparison.default_of(&path.session).map(|default| (path, default)));
            }
        }
        let winners = comparison.candidates.iter().filter(|(path, default)| path.beats(default));
        let fastest = winners.min_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(a.0.by_time(b.0)));
        comparison.fastest = fastest.copied();
        comparison
    }

    /// Returns the newest measurement of the same code that says anything. One that is too noisy does not.
    fn newest(&self, path: &MeasuredPath) -> Option<&'a MeasuredPath> {
        self.measured.iter().find(|each| each.status != TraceStatus::TooNoisy && each.key() == path.key())
    }

    /// Returns true of code that has never been wrong and has not failed since it ran. Noise is no failure.
    fn works(&self, path: &MeasuredPath) -> bool {
        self.newest(path).is_none_or(|each| each.status == TraceStatus::Ok) && !path.is_wrong
    }

    fn default_of(&self, session: &str) -> Option<&'a MeasuredPath> {
        let defaults = self.usable.iter().copied().filter(|path| path.is_default && path.session == session);
        defaults.min_by(|a, b| a.by_time(b))
    }

    /// Returns true of a winner that the fastest one does not beat beyond the noise.
    fn ties(&self, pair: &PathPair<'a>) -> bool {
        self.fastest.is_some_and(|fastest| {
            let all = [pair.0, pair.1, fastest.0, fastest.1].map(|path| path.relative_error().powi(2));
            let noise = (MIN_STANDARD_ERRORS * all.iter().sum::<f64>().sqrt()).max(MIN_GAIN);
            pair.0.beats(pair.1) && ratio(pair) <= ratio(&fastest) * (1.0 + noise)
        })
    }

    fn choice(&self) -> Option<(&'a MeasuredPath, ChoiceReason)> {
        if self.fastest.is_some() {
            // The first of them by its hash is taken, so that measuring again takes the same one.
            let ties = self.candidates.iter().filter(|each| self.ties(each));
            let chosen = ties.min_by_key(|(path, _)| path.key())?;
            return Some((chosen.0, ChoiceReason::Wins { ratio: ratio(chosen) }));
        }
        let newest_default = self.usable.iter().copied().find(|path| path.is_default);
        if let Some(default) = newest_default.and_then(|newest| self.default_of(&newest.session)) {
            return Some((default, ChoiceReason::DefaultStands));
        }
        // A default that is merely stale or not allowed has not failed.
        let mut defaults = self.measured.iter().filter(|path| path.is_default && (self.is_allowed)(path));
        let newest = self.usable.first().filter(|_| defaults.any(|path| !self.works(path)))?;
        let session = self.usable.iter().copied().filter(|path| path.session == newest.session);
        session.min_by(|a, b| a.by_time(b)).map(|path| (path, ChoiceReason::DefaultFails))
    }

    /// Judges a path that is not the chosen one.
    fn verdict(&self, path: &MeasuredPath) -> PathVerdict {
        let Some(newest) = self.newest(path) else { return PathVerdict::Unsteady };
        if path.is_wrong || newest.status == TraceStatus::Wrong {
            return PathVerdict::Wrong;
        }
        if newest.status != TraceStatus::Ok {
            return PathVerdict::Fails(newest.status);
        }
        if !(self.is_allowed)(path) {
            return PathVerdict::NotAllowed;
        }
        match self.candidates.iter().find(|(each, _)| each.key() == path.key()) {
            Some(_) if path.is_default => PathVerdict::Default,
            Some(pair) if self.ties(pair) => PathVerdict::Ties,
            Some((each, default)) if each.beats(default) => PathVerdict::Slower,
            Some(_) => PathVerdict::DoesNotWin,
            None => PathVerdict::NotCompared,
        }
    }
}

/// Chooses among measurements of one graph, workload, environment and policy, the newest first. None if the default
/// path was never measured, or nothing is left that works.
pub(crate) fn choose<'a>(
    measured: &'a [MeasuredPath],
    is_allowed: &dyn Fn(&MeasuredPath) -> bool,
) -> Option<(&'a MeasuredPath, ChoiceReason)> {
    PathComparison::new(measured, is_allowed).choice()
}

/// A measurement of each code with its verdict and, where it was compared, its part of the default's time.
pub(crate) type JudgedPath = (MeasuredPath, PathVerdict, Option<f64>);

/// Judges each code that is measured, the fastest first, then those that were not compared, then those that may not run.
/// A code that was compared has the measurement of that session, any other the newest.
pub(crate) fn judge(measured: &[MeasuredPath], is_allowed: &dyn Fn(&MeasuredPath) -> bool) -> Vec<JudgedPath> {
    let comparison = PathComparison::new(measured, is_allowed);
    let choice = comparison.choice();
    let mut judged: Vec<JudgedPath> = Vec::new();
    for path in measured {
        if judged.iter().any(|(each, ..)| each.key() == path.key()) {
            continue;
        }
        let pair = comparison.candidates.iter().find(|(each, _)| each.key() == path.key());
        let chosen = choice.filter(|(each, _)| each.key() == path.key());
        let verdict = chosen.map_or_else(|| comparison.verdict(path), |(_, reason)| PathVerdict::Chosen(reason));
        let shown = chosen.map(|(each, _)| each).or(pair.map(|(each, _)| *each));
        let shown = shown.or_else(|| comparison.newest(path)).unwrap_or(path);
        judged.push((shown.clone(), verdict, pair.map(ratio)));
    }
    let group = |verdict: &PathVerdict, ratio: Option<f64>| match verdict {
        _ if ratio.is_some() => 0,
        PathVerdict::Chosen(_) => 1,
        PathVerdict::NotCompared => 2,
        PathVerdict::NotAllowed => 3,
        _ => 4,
    };
    judged.sort_by(|(a, a_verdict, a_ratio), (b, b_verdict, b_ratio)| {
        let groups = group(a_verdict, *a_ratio).cmp(&group(b_verdict, *b_ratio));
        groups.then(a_ratio.partial_cmp(b_ratio).unwrap_or(Ordering::Equal)).then(a.by_time(b))
    });
    judged
}

#[cfg(test)]
mod tests {
    use super::{ChoiceReason, MeasuredPath, PathVerdict, choose, judge};
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
    fn noise_is_no_failure() {
        // A default that is too noisy to be compared gives way to nothing, least of all to what takes longer.
        let noisy = MeasuredPath { status: TraceStatus::TooNoisy, ..path("default", "x", 100_000) };
        assert_eq!(chosen(&[noisy.clone(), path("a", "x", 120_000)]), None);
        assert_eq!(chosen(&[noisy.clone(), path("a", "x", 50_000)]), None);
        // One that failed before does.
        let fails = Some((name("a"), ChoiceReason::DefaultFails));
        assert_eq!(chosen(&[noisy, failed("default", TraceStatus::Failed), path("a", "x", 50_000)]), fails);
    }

    #[test]
    fn ties_are_broken_the_same_way_every_time() {
        let default = path("default", "x", 100_000);
        let winner = |a, b| chosen(&[path("a", "x", a), path("b", "x", b), default.clone()]).unwrap().0;
        assert_eq!(winner(50_000, 50_100), winner(50_100, 50_000));
        assert_ne!(winner(50_000, 60_000), winner(60_000, 50_000));
    }

    #[test]
    fn each_path_has_a_verdict_and_the_fastest_comes_first() {
        let wrong = MeasuredPath { is_wrong: true, ..path("w", "x", 10_000) };
        let rounds = MeasuredPath { identity: PathIdentity::Mathematics, ..path("m", "x", 20_000) };
        let measured = [
            failed("c", TraceStatus::DoesNotCompile),
            path("slow", "x", 200_000),
            path("slower", "x", 60_000),
            path("tie", "x", 50_100),
            path("best", "x", 50_000),
            failed("n", TraceStatus::TooNoisy),
            path("alone", "y", 1_000),
            rounds,
            wrong,
            path("default", "x", 100_000),
        ];
        let judged = judge(&measured, &|path| path.identity == PathIdentity::Bits);
        let verdict_of = |each: &str| {
            let found = judged.iter().find(|(path, ..)| path.implementation == name(each)).unwrap();
            (found.1, found.2)
        };
        // The first of two that tie is chosen by its hash, whichever that is.
        let (chosen, reason) =
            chosen(&measured[..7].iter().chain(&measured[9..]).cloned().collect::<Vec<_>>()).unwrap();
        assert!([name("best"), name("tie")].contains(&chosen));
        let verdicts = ["best", "tie"].map(|each| verdict_of(each).0);
        assert!(
            verdicts.contains(&PathVerdict::Chosen(reason)) && verdicts.contains(&PathVerdict::Ties),
            "{verdicts:?}"
        );
        assert_eq!(verdict_of("slower"), (PathVerdict::Slower, Some(0.6)));
        assert_eq!(verdict_of("default"), (PathVerdict::Default, Some(1.0)));
        assert_eq!(verdict_of("slow"), (PathVerdict::DoesNotWin, Some(2.0)));
        assert_eq!(verdict_of("alone"), (PathVerdict::NotCompared, None));
        assert_eq!(verdict_of("m"), (PathVerdict::NotAllowed, None));
        assert_eq!(verdict_of("w"), (PathVerdict::Wrong, None));
        assert_eq!(verdict_of("n"), (PathVerdict::Unsteady, None));
        assert_eq!(verdict_of("c"), (PathVerdict::Fails(TraceStatus::DoesNotCompile), None));
        let order: Vec<_> = judged.iter().map(|(path, ..)| path.implementation).collect();
        assert_eq!(order[..6], ["best", "tie", "slower", "default", "slow", "alone"].map(name));
    }
}
