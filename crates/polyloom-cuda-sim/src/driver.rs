//! The state of the driver in this process: the simulated device, its contexts, and everything that handles stand for.

use crate::configuration::Configuration;
use crate::journal::Journal;
use crate::memory::Memory;
use crate::order::StreamOrder;
use crate::reservation::reserve;
use crate::status::{CudaError, Outcome};
use polyloom_ptx::Simulator;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The driver of a process.
pub(crate) struct Driver {
    pub(crate) configuration: Configuration,
    pub(crate) simulator: Simulator,
    pub(crate) journal: Journal,
    pub(crate) memory: Memory,
    /// The order of work in streams, for the check for races between them.
    pub(crate) order: StreamOrder,
    /// Held while the device does something: one thing at a time.
    pub(crate) running: Mutex<()>,
    /// Holds what kernels have printed since somebody last waited.
    printed: Mutex<String>,
    /// The error after which nothing works any more, or zero.
    lost: AtomicI32,
    /// Counts the calls made so far of those that are to fail.
    calls: Mutex<BTreeMap<String, u64>>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// The driver, once `cuInit` has been called.
pub(crate) fn driver() -> Outcome<&'static Driver> {
    DRIVER.get().ok_or(CudaError::NOT_INITIALIZED)
}

/// Starts the driver.
pub(crate) fn start() -> &'static Driver {
    DRIVER.get_or_init(|| {
        register_exit();
        let configuration = Configuration::of_environment();
        let journal = Journal::new(&configuration);
        let memory = Memory::new(reserve(), configuration.memory_bytes);
        Driver {
            simulator: Simulator::with_memory(memory.device.clone()),
            memory,
            configuration,
            journal,
            order: StreamOrder::default(),
            running: Mutex::default(),
            printed: Mutex::default(),
            lost: AtomicI32::new(0),
            calls: Mutex::default(),
        }
    })
}

#[expect(unsafe_code, reason = "the C library calls a function when the process ends")]
fn register_exit() {
    // SAFETY: the function takes nothing and does not unwind; a library with thread-local state is not unloaded before.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    if let Some(driver) = DRIVER.get() {
        driver.flush_prints();
        driver.journal.write();
    }
}

impl Driver {
    /// The error that lost the device, if one did.
    pub(crate) fn check_alive(&self) -> Outcome {
        match self.lost.load(Relaxed) {
            0 => Ok(()),
            error => Err(CudaError(error)),
        }
    }

    /// Notes an error after which nothing works.
    pub(crate) fn lose(&self, error: CudaError) {
        // The first one counts.
        let _ = self.lost.compare_exchange(0, error.0, Relaxed, Relaxed);
    }

    /// A reset of the device makes it usable again.
    pub(crate) fn revive(&self) {
        self.lost.store(0, Relaxed);
    }

    /// Fails a call that a test wants to fail.
    pub(crate) fn check_planned_failure(&self, name: &str) -> Outcome {
        if self.configuration.failures.is_empty() {
            return Ok(());
        }
        let plain = name.split_once("_v").map_or(name, |(plain, _)| plain);
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let made = calls.entry(plain.to_owned()).or_default();
        *made += 1;
        let planned = self.configuration.failures.iter().find(|each| each.call == plain && each.number == *made);
        let Some(planned) = planned else { return Ok(()) };
        let error = CudaError(planned.error);
        if error.loses_the_device() {
            self.lose(error);
        }
        Err(error)
    }

    /// Keeps what a kernel prints until somebody waits for it.
    pub(crate) fn print(&self, text: &str) {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    }

    /// Writes what kernels have printed to standard output, as the driver does when the device is waited for.
    #[expect(unsafe_code, reason = "the process's standard output, which C code buffers too")]
    pub(crate) fn flush_prints(&self) {
        let text = std::mem::take(&mut *self.printed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut left = text.as_bytes();
        while !left.is_empty() {
            // SAFETY: the pointer is to so many bytes.
            let written = unsafe { libc::write(libc::STDOUT_FILENO, left.as_ptr().cast(), left.len()) };
            match usize::try_from(written) {
                Ok(written @ 1..) => left = &left[written..],
                // Nobody reads it.
                _ => return,
            }
        }
    }
}
