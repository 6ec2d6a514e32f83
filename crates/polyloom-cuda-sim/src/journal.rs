//! Records what ran, what was found and what was missing: told on standard error as it happens, and to a file at the end.
//!
//! The file has a line for each kernel, finding and missing entry point, its fields separated by tabs; `polyloom gpu run`
//! reads it. Processes that the program starts append theirs.

use crate::configuration::Configuration;
use polyloom_ptx::{Finding, Report};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts what a kernel did in all its launches.
#[derive(Clone, Default, Debug)]
struct KernelTotals {
    launches: u64,
    thread_instructions: u64,
    warp_instructions: u64,
    seconds: f64,
}

#[derive(Default)]
struct JournalState {
    kernels: BTreeMap<String, KernelTotals>,
    findings: Vec<String>,
    missing: BTreeMap<String, u64>,
    told: Vec<String>,
}

/// The journal of a process.
pub(crate) struct Journal {
    report: Option<PathBuf>,
    state: Mutex<JournalState>,
}

/// The most findings that are kept and told.
const MOST_FINDINGS: usize = 256;

impl Journal {
    pub(crate) fn new(configuration: &Configuration) -> Journal {
        let journal = Journal { report: configuration.report.clone(), state: Mutex::default() };
        configuration.complaints.iter().for_each(|complaint| journal.tell(complaint));
        journal
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the user something, once.
    pub(crate) fn tell(&self, message: &str) {
        let mut state = self.state();
        if !state.told.iter().any(|told| told == message) {
            state.told.push(message.to_owned());
            // A program without standard error has nobody who reads it.
            let _ = std::io::stderr().write_all(format!("polyloom gpu: {message}\n").as_bytes());
        }
    }

    /// Notes that the program calls what the driver lacks.
    pub(crate) fn missing(&self, name: &str) {
        *self.state().missing.entry(name.to_owned()).or_default() += 1;
        self.tell(&format!(
            "the program calls {name}, which this driver does not have: it returns CUDA_ERROR_NOT_SUPPORTED"
        ));
    }

    /// Notes a launch.
    pub(crate) fn launched(&self, kernel: &str, report: &Report, elapsed: Duration) {
        let mut state = self.state();
        let totals = match state.kernels.get_mut(kernel) {
            Some(totals) => totals,
            None => state.kernels.entry(kernel.to_owned()).or_default(),
        };
        totals.launches += 1;
        totals.thread_instructions += report.thread_instructions;
        totals.warp_instructions += report.warp_instructions;
        totals.seconds += elapsed.as_secs_f64();
    }

    /// Notes what the checks of a launch found. Findings of the same kind at the same lines are told once.
    pub(crate) fn found(&self, findings: &[Finding]) {
        for finding in findings {
            let message = finding.to_string();
            let mut state = self.state();
            if state.findings.len() < MOST_FINDINGS && !state.findings.contains(&message) {
                state.findings.push(message.clone());
                drop(state);
                self.tell(&message);
            }
        }
    }

    /// Notes something else that is wrong with the program.
    pub(crate) fn noted(&self, message: &str) {
        let mut state = self.state();
        if !state.findings.iter().any(|known| known == message) {
            state.findings.push(message.to_owned());
            drop(state);
            self.tell(message);
        }
    }

    /// Returns what the checks have found, in the order of time.
    pub(crate) fn findings(&self) -> Vec<String> {
        self.state().findings.clone()
    }

    /// Writes the report, where one is wanted.
    pub(crate) fn write(&self) {
        let Some(path) = &self.report else { return };
        let state = self.state();
        let mut text = String::new();
        for (name, totals) in &state.kernels {
            let KernelTotals { launches, thread_instructions, warp_instructions, seconds } = totals;
            let name = escaped(name);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "kernel\t{name}\t{launches}\t{thread_instructions}\t{warp_instructions}\t{seconds}");
        }
        for finding in &state.findings {
            let _ = writeln!(text, "finding\t{}", escaped(finding));
        }
        for (name, calls) in &state.missing {
            let _ = writeln!(text, "missing\t{name}\t{calls}");
        }
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
            drop(state);
            self.tell(&format!("the report {} cannot be written: {error}", path.display()));
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}
