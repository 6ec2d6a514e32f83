//! Measuring: how long the ways to run a computation take, and which point of a search is the fastest.
//!
//! [`measure()`] times [`MeasuredCandidate`]s by a [`MeasurementPolicy`], which holds all practice as data; [`rank`] chooses among
//! the points of a search. A candidate is whatever implements [`Measure`]: the module knows no device, no compiler and no database. All times are whole
//! picoseconds, because a batch is divided by its count, and integers are the same on every machine.
//!
//! What a sample is: the output is poisoned, the caches are flushed or, by untimed runs, filled, a batch of runs is timed, and the
//! output is checked. Candidates take turns, so that a load that comes or a clock that falls meets all of them. Sampling goes on until
//! the interval of each median is narrow, or until more samples would not make the noise any smaller. Every sample is kept, outliers
//! too, with a flag; failures are measurements with a reason.
//!
//! Every stage has a bound: [`MeasurementPolicy::run_limit`], `candidate_limit` and `session_limit`. A run that never returns cannot be
//! ended from here, because a thread cannot be; who measures code of unknown origin does so in a process of its own.
//!
//! Design: `docs/design/measuring.md`; the practices and what each is worth: `docs/benchmarking.md`.

mod candidate;
mod clock;
mod environment;
mod measurement;
mod policy;
mod rank;
mod session;
mod statistics;

pub use candidate::{BatchTiming, Measure, MeasureFailure, MeasuredCandidate};
pub use clock::{MeasurementClock, MonotonicClock};
pub use environment::{EnvironmentObservation, EnvironmentProbe, LinuxProbe};
pub use measurement::{Measurement, MeasurementStatus, SampleFlags, TimeSample, TimeSummary};
pub use policy::{CacheState, MeasurementPolicy, OutputChecks, SampleOrder, WarmUpRule};
pub use rank::{PathRanking, RankReason, rank};
pub use session::measure;
pub use statistics::{MedianInterval, bootstrap_median, bootstrap_ratio, flag_outliers, median, median_deviation};
