//! The results of measuring one candidate.

use super::environment::EnvironmentObservation;
use super::statistics::{MedianInterval, median, median_deviation};
use std::fmt;

/// How a measurement ended. The names are those of the benchmark database.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MeasurementStatus {
    /// It has samples that may be compared.
    Ok,
    /// There is no code for it.
    DoesNotCompile,
    /// The result is wrong. Such code never runs for this computation.
    Wrong,
    /// It took longer than the policy allows.
    TimedOut,
    /// The interval of its median stayed wide, or the clock of the machine fell. Its samples are kept and say nothing against it.
    TooNoisy,
    /// It failed when it ran.
    Failed,
}

impl MeasurementStatus {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            MeasurementStatus::Ok => "ok",
            MeasurementStatus::DoesNotCompile => "does_not_compile",
            MeasurementStatus::Wrong => "wrong",
            MeasurementStatus::TimedOut => "timed_out",
            MeasurementStatus::TooNoisy => "too_noisy",
            MeasurementStatus::Failed => "failed",
        }
    }
}

impl fmt::Display for MeasurementStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The flags of a sample. A sample with a flag is a sample like any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleFlags {
    /// True if it is far from the median for the spread.
    pub is_outlier: bool,
    /// True if the thread waited for a processor meanwhile, where the system tells.
    pub has_waited: bool,
}

/// One timed batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeSample {
    /// The time of one run, in picoseconds.
    pub time: u64,
    /// The round in which it was taken. Samples of one round were taken one after the other.
    pub round: u32,
    /// The flags.
    pub flags: SampleFlags,
}

/// Samples in short, in picoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimeSummary {
    /// The shortest.
    pub min: u64,
    /// The median; of an even number the lower middle one, so that it is a sample.
    pub median: u64,
    /// The median distance from the median.
    pub deviation: u64,
    /// The longest.
    pub max: u64,
    /// The interval of the median.
    pub interval: MedianInterval,
}

/// The measurement of one candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// The candidate's key.
    pub key: String,
    /// The id of the policy.
    pub policy: String,
    /// How it ended.
    pub status: MeasurementStatus,
    /// The reason, unless it is `ok`.
    pub reason: Option<String>,
    /// The reason why there are no more samples, in words.
    pub stopped_because: String,
    /// The warm-up's times of one run, in picoseconds, in order.
    pub warm_ups: Vec<u64>,
    /// True if the warm-up ended because the times were steady.
    pub is_steady: bool,
    /// The runs of each batch.
    pub n_batch_runs: u32,
    /// All samples in order, outliers among them.
    pub samples: Vec<TimeSample>,
    /// The samples in short, if there are any.
    pub summary: Option<TimeSummary>,
    /// The machine after the warm-up and after the last sample.
    pub observations: [EnvironmentObservation; 2],
}

impl Measurement {
    /// Returns the times of the samples, in order.
    pub fn times(&self) -> Vec<u64> {
        self.samples.iter().map(|sample| sample.time).collect()
    }

    /// Returns the number of samples that are flagged as outliers.
    pub fn n_outliers(&self) -> usize {
        self.samples.iter().filter(|sample| sample.flags.is_outlier).count()
    }

    /// Returns true if the samples may be compared.
    pub fn is_ok(&self) -> bool {
        self.status == MeasurementStatus::Ok
    }
}

impl TimeSummary {
    /// Summarises times; `None` if there are none.
    pub(super) fn of(times: &[u64], interval: MedianInterval) -> Option<TimeSummary> {
        let (min, max) = (*times.iter().min()?, *times.iter().max()?);
        Some(TimeSummary { min, median: median(times)?, deviation: median_deviation(times)?, max, interval })
    }
}
