//! Describes how a launch is run, whatever the device, and what it did.

use crate::cpu::device::Tier;
use polyloom_ir::{Arch, LaunchConfig};
use polyloom_ptx::{Report, Sanitizers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time after which the calling thread asks again whether it is interrupted.
pub(crate) const ASK_EVERY: Duration = Duration::from_millis(20);

/// Describes how a launch is run.
#[derive(Clone, Copy, Default)]
pub struct LaunchOptions<'a> {
    /// Stops the launch soon after it becomes true.
    pub cancel: Option<&'a AtomicBool>,
    /// Asked now and then by the calling thread; the launch stops soon after it returns true.
    pub interrupted: Option<&'a dyn Fn() -> bool>,
    /// The blocks of a kernel that is launched in blocks; unless given, as many of the size that its metadata says as
    /// the launch's threads take.
    pub grid: Option<LaunchConfig>,
    /// True if the launch goes ahead without comparing what is known of the kernel's indices with the extents of the
    /// arrays. Of a kernel that is compiled with checks these do it runs.
    pub unchecked: bool,
    /// The tier of the code that a launch on the CPU runs, compiled before it; unless given, the device's policy
    /// chooses.
    pub tier: Option<Tier>,
    /// True if the launch is to say how long it took. On a device it then waits for the kernel.
    pub timed: bool,
    /// Says how the simulator goes about a launch there.
    pub sim: SimOptions,
}

impl LaunchOptions<'_> {
    /// Returns true if the launch should stop. `ask`: whether it is time to ask the caller.
    pub(crate) fn is_cancelled(&self, ask: bool) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
            || (ask && self.interrupted.is_some_and(|interrupted| interrupted()))
    }
}

/// Describes how a launch on the simulator goes about it.
#[derive(Clone, Copy, Default, Debug)]
pub struct SimOptions {
    /// Holds what is checked.
    pub sanitize: Sanitizers,
    /// True if instructions, memory transactions and the like are counted.
    pub counters: bool,
    /// The architecture that is simulated; unless given, [`Arch::DEFAULT`].
    pub arch: Option<Arch>,
    /// Threads of the host, at least one.
    pub n_threads: usize,
    /// True if the launch is a cooperative one: all blocks at once, for kernels that synchronise the grid.
    pub cooperative: bool,
}

/// Describes what a launch did.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LaunchStats {
    /// The tier of the code that ran, at first where better code came while it did. A launch of no threads and one on a
    /// device have none.
    pub tier: Option<Tier>,
    /// The time from the call until all threads had run, if [`LaunchOptions::timed`] asked for it.
    pub elapsed: Option<Duration>,
    /// Holds what the simulator counted, if it ran the kernel.
    pub report: Option<Box<Report>>,
}
