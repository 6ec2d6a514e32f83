//! Kernels on the simulator, device `sim:0`.

use crate::gpu::{GpuError, GpuForm, GpuTarget};
use crate::kernel::Kernel;
use polyloom_codegen::{Facts, Variant};
use polyloom_ir::{Arch, MAX_DIMS};
use polyloom_ptx::{Class, Counters, Fault, Report};
use polyloom_runtime::{ArgBlock, LaunchError, LaunchOptions, SimKernel, SimOptions};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel's code for the simulator, by rank of the launch and architecture.
pub(crate) type SimKernels = Mutex<Vec<((u8, Arch), Arc<SimKernel>)>>;

impl Kernel {
    /// Runs the kernel on the simulator, device `sim:0`, as [`Kernel::launch`] does on the CPU: its PTX for the
    /// architecture. Arrays are copied there and, those it writes, back.
    ///
    /// # Errors
    ///
    /// [`LaunchError`], and what the simulator finds.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`], but that indices may be out of bounds: that is an error here.
    pub unsafe fn launch_on_simulator(
        &self,
        arch: Arch,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
        sim: &SimOptions,
    ) -> Result<Report, LaunchError> {
        let rank = shape.len().clamp(1, MAX_DIMS) as u8;
        let kernel = self.for_simulator(rank, arch);
        let kernel = kernel.map_err(|error| self.not_compiled(error))?;
        // SAFETY: passed on to the caller.
        unsafe { kernel.launch(shape, args, options, sim) }
    }

    fn for_simulator(&self, rank: u8, arch: Arch) -> Result<Arc<SimKernel>, GpuError> {
        let mut known = self.sim_kernels().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kernel)) = known.iter().find(|(key, _)| *key == (rank, arch)) {
            return Ok(kernel.clone());
        }
        let variant = Variant { launch_rank: rank, facts: Facts::default() };
        let ptx = self.emit_gpu_variant(&variant, &GpuTarget::new(arch), GpuForm::Ptx)?;
        let (module, id) = self.for_gpus()?;
        let (function, params, entry) = (&module.functions[id], self.params().clone(), self.gpu_entry());
        let kernel = Arc::new(SimKernel::new(function, params, &ptx, &entry, arch.number().into())?);
        known.push(((rank, arch), kernel.clone()));
        Ok(kernel)
    }
}

/// What the simulator found, a line for each finding.
pub fn describe_fault(fault: &Fault) -> String {
    match fault.findings.len() {
        1 => fault.to_string(),
        n => format!("{n} findings\n{fault}"),
    }
}

/// What a launch counted, as a table, and how fast it ran.
pub fn describe_report(report: &Report, seconds: f64) -> String {
    let speed = report.thread_instructions as f64 / seconds.max(1e-9) / 1e6;
    let mut text = format!("{} thread instructions, {speed:.0} million a second\n", report.thread_instructions);
    let Some(counters) = &report.counters else { return text };
    let mut row = |name: &str, value: String| {
        // Numbers stand below each other, and what is said about one behind it.
        let (number, rest) = value.split_once(' ').unwrap_or((&value, ""));
        let _ = writeln!(text, "  {}", format!("{name:<30} {number:>14} {rest}").trim_end());
    };
    for class in Class::ALL {
        let (warps, threads) = counters.class(class);
        if warps > 0 {
            row(&class_name(class), format!("{threads} ({warps} warps)"));
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

/// The class's own name, in words.
fn class_name(class: Class) -> String {
    let name = format!("{class:?}");
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    format!("{words} instructions")
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
