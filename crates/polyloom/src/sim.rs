//! Kernels on the simulator, device `sim:0`.

use crate::emit_options::EmitError;
use crate::kernel::Kernel;
use polyloom_ir::Arch;
use polyloom_ptx::{Counters, Fault, InstClass, Report};
use polyloom_runtime::SimKernel;
use std::fmt::Write as _;

impl Kernel {
    /// Loads PTX of this kernel into the simulator, with an entry as [`Kernel::emit_gpu`] gives it for the architecture:
    /// that very text, or what NVRTC makes of the kernel's CUDA C++.
    ///
    /// # Errors
    ///
    /// What in it the simulator cannot run.
    pub fn load_on_simulator(&self, arch: Arch, ptx: &str) -> Result<SimKernel, EmitError> {
        let (module, id) = self.for_gpus()?;
        let (function, params) = (&module.functions[id], self.params().clone());
        Ok(SimKernel::new(function, params, ptx, &self.gpu_entry(), arch.number().into())?)
    }
}

/// Returns what the simulator found, a line for each finding.
pub fn describe_fault(fault: &Fault) -> String {
    match fault.findings.len() {
        1 => fault.to_string(),
        n => format!("{n} findings\n{fault}"),
    }
}

/// Returns what a launch counted, as a table, and how fast it ran.
pub fn describe_report(report: &Report, seconds: f64) -> String {
    let speed = report.thread_instructions as f64 / seconds.max(1e-9) / 1e6;
    let mut text = format!("{} thread instructions, {speed:.0} million a second\n", report.thread_instructions);
    let Some(counters) = &report.counters else { return text };
    let mut row = |name: &str, value: String| {
        // Numbers stand below each other, and what is said about one behind it.
        let (number, rest) = value.split_once(' ').unwrap_or((&value, ""));
        let _ = writeln!(text, "  {}", format!("{name:<30} {number:>14} {rest}").trim_end());
    };
    for class in InstClass::ALL {
        let (warps, threads) = counters.class(class);
        if warps > 0 {
            row(&format!("{} instructions", class.name()), format!("{threads} ({warps} warps)"));
        }
    }
    row("divergent branches", counters.divergent_branches.to_string());
    row("global loads, a warp each", counters.global_loads.to_string());
    row("global stores, a warp each", counters.global_stores.to_string());
    row("32-byte sectors", counters.global_sectors.to_string());
    row("bytes used of those moved", percent(counters.coalescing()));
    row("shared accesses, a warp each", counters.shared_accesses.to_string());
    row("shared bank conflicts", counters.shared_conflicts.to_string());
    occupancy(counters, &mut row);
    text
}

fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(|| "-".to_owned(), |fraction| format!("{:.0} %", 100.0 * fraction))
}

fn occupancy(counters: &Counters, row: &mut impl FnMut(&str, String)) {
    if let Some(occupancy) = &counters.occupancy {
        row("occupancy", percent(Some(occupancy.fraction)));
        row("blocks a multiprocessor", occupancy.blocks.to_string());
        row("registers a thread, estimated", occupancy.registers.to_string());
        row("limited by", format!("{:?}", occupancy.limiter).to_lowercase());
    }
}
