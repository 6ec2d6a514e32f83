//! The clock of the harness, which tests replace by a simulated one.

use std::time::Instant;

/// A clock that never goes back.
pub trait MeasurementClock {
    /// Returns the time since some moment, in picoseconds.
    fn now(&mut self) -> u64;
}

/// The monotonic clock of the system.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// Starts a clock.
    pub fn new() -> MonotonicClock {
        MonotonicClock { start: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> MonotonicClock {
        MonotonicClock::new()
    }
}

impl MeasurementClock for MonotonicClock {
    fn now(&mut self) -> u64 {
        // 64 bits of picoseconds are 213 days, which no session lasts.
        u64::try_from(self.start.elapsed().as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX)
    }
}
