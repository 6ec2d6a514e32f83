//! Candidates, and how measuring one can fail.

use super::MeasurementStatus;

/// The time of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchTiming {
    /// The harness's clock, read before and after, tells it, because all runs ended before the call returned.
    ByClock,
    /// The device measured it, by events in its queue: so many picoseconds for all runs.
    ByDevice(u64),
}

/// A failure of a candidate: a status other than `ok`, with the reason in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasureFailure {
    /// The status that the measurement gets.
    pub status: MeasurementStatus,
    /// The reason.
    pub reason: String,
}

impl MeasureFailure {
    fn of(status: MeasurementStatus, reason: impl Into<String>) -> MeasureFailure {
        MeasureFailure { status, reason: reason.into() }
    }

    /// Makes the failure of a candidate for which there is no code.
    pub fn does_not_compile(reason: impl Into<String>) -> MeasureFailure {
        MeasureFailure::of(MeasurementStatus::DoesNotCompile, reason)
    }

    /// Makes the failure of a candidate that computes something else.
    pub fn wrong(reason: impl Into<String>) -> MeasureFailure {
        MeasureFailure::of(MeasurementStatus::Wrong, reason)
    }

    /// Makes the failure of a candidate that did not run to its end.
    pub fn failed(reason: impl Into<String>) -> MeasureFailure {
        MeasureFailure::of(MeasurementStatus::Failed, reason)
    }

    /// Makes the failure of a candidate that took too long.
    pub fn timed_out(reason: impl Into<String>) -> MeasureFailure {
        MeasureFailure::of(MeasurementStatus::TimedOut, reason)
    }

    /// Makes the failure of a candidate whose samples cannot be compared.
    pub fn too_noisy(reason: impl Into<String>) -> MeasureFailure {
        MeasureFailure::of(MeasurementStatus::TooNoisy, reason)
    }
}

/// A way to run a computation, with its inputs and outputs, as the harness sees it.
///
/// A device implements this over its queue. The inputs were made to the signature and are not all zeros
/// ([`crate::verify_accuracy::make_inputs`]). Every method may fail; the candidate is then measured no further.
pub trait Measure {
    /// Compiles the code, allocates memory and fills the inputs. It is called once, before everything else.
    ///
    /// # Errors
    ///
    /// The failure.
    fn prepare(&mut self) -> Result<(), MeasureFailure>;

    /// Fills the output with what no run would leave there, so that a run that writes nothing is found.
    ///
    /// # Errors
    ///
    /// The failure.
    fn poison_output(&mut self) -> Result<(), MeasureFailure>;

    /// Flushes the caches of the device, by writing at least twice the size of the last of them.
    ///
    /// # Errors
    ///
    /// The failure.
    fn flush_caches(&mut self) -> Result<(), MeasureFailure>;

    /// Runs the computation so many times, one after the other, and returns when all have ended.
    ///
    /// # Errors
    ///
    /// The failure.
    fn run_batch(&mut self, n_runs: u32) -> Result<BatchTiming, MeasureFailure>;

    /// Checks the output: that it is what [`crate::verify_accuracy`] allows, and nothing of the poison is left.
    ///
    /// # Errors
    ///
    /// [`MeasureFailure::wrong`] with the worst element.
    fn check_output(&mut self) -> Result<(), MeasureFailure>;
}

/// A candidate of a session.
pub struct MeasuredCandidate<'p> {
    /// The key that the candidate is known by, the same in every session: the hash of its recipe, or its text. Ties are broken by it.
    pub key: String,
    /// The path.
    pub path: &'p mut dyn Measure,
}
