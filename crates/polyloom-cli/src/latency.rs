//! `polyloom latency`: how long single calls of a kernel take, as a histogram, beside calls of an empty function.
//!
//! Design: `docs/design/promises.md`.

mod drawing;

use crate::kernel_file::KernelFile;
use crate::run::{argument_values, shape};
use crate::{CommandFailure, Outcome, named, print, print_json, session};
use polyloom::latency::{
    AffinityGuard, LatencyHistogram, MeasuredCall, MeasuredEntry, TickClock, allowed_cores, library_function, measure,
};
use polyloom::{ArgBlock, EmitError, Kernel, NativeFunction};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct LatencyArguments {
    /// A .py file, a .loom file or a .hir file
    file: PathBuf,
    /// The kernel, if the file has several
    #[arg(long)]
    kernel: Option<String>,
    /// Number of threads of a call: N, or NxM for two dimensions, up to four; of kernels that ask for their thread
    #[arg(long, value_parser = shape)]
    dim: Option<crate::run::LaunchShape>,
    /// An argument, NAME=VALUE, as `polyloom run` takes it; the same arrays serve all calls
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    args: Vec<String>,
    /// The type of a parameter of a generic kernel
    #[arg(long = "type", value_name = "NAME=TYPE")]
    types: Vec<String>,
    /// Number of calls
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,
    /// The core that runs them; unless given, the first of the kernel's `cpu_affinity`, or else the last that may be used
    #[arg(long)]
    core: Option<u32>,
    /// A shared library whose function NAME_block is called with the same block of arguments, in turns
    #[arg(long, value_name = "LIBRARY")]
    against: Option<PathBuf>,
    /// Draw the histogram into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the percentiles as JSON
    #[arg(long)]
    json: bool,
}

/// The parts of calls whose times are shown.
const QUANTILES: [(&str, f64); 4] = [("50 %", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("99.9 %", 0.999)];

/// The part of the calls whose average is shown: the longest are interrupts.
const MEAN_OF: f64 = 0.99;

/// One function's calls.
pub(super) struct MeasuredFunction {
    pub(super) name: String,
    pub(super) histogram: LatencyHistogram,
}

/// All that was measured, and on what.
pub(super) struct LatencyReport {
    pub(super) clock: TickClock,
    /// The kernel's own calls, those of an empty function, and those of a library.
    pub(super) functions: Vec<MeasuredFunction>,
    core: Option<u32>,
    target_ns: Option<u64>,
}

pub(crate) fn run(arguments: &LatencyArguments) -> Outcome {
    let session = session(false)?;
    let file = KernelFile::read(&arguments.file)?;
    let (mut given, types) = (named(&arguments.args, "--arg")?, named(&arguments.types, "--type")?);
    let kernel = Arc::new(file.compile(&session, arguments.kernel.as_deref(), &types, &given)?);
    let function = kernel.native_function().map_err(failed_emit)?;
    let mut values = argument_values(&kernel, &mut given)?;
    if let Some(name) = given.keys().next() {
        return Err(CommandFailure::Usage(format!("kernel `{}` has no parameter `{name}`", kernel.name())));
    }
    let mut block = ArgBlock::new();
    for value in &mut values {
        value.push(kernel.params(), &mut block).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    }
    let extents = extents(arguments, &function)?;
    let against = match &arguments.against {
        Some(path) => {
            Some(library_function(path, &format!("{}_block", kernel.name())).map_err(CommandFailure::Failed)?)
        }
        None => None,
    };
    let core = chosen_core(arguments, &kernel);
    let guard = core.map(|core| AffinityGuard::to(&[core]).map_err(|error| (core, error))).transpose();
    let _guard =
        guard.map_err(|(core, error)| CommandFailure::Failed(format!("cannot run on core {core}: {error}")))?;
    function.check_cores().map_err(|error| CommandFailure::Failed(error.to_string()))?;
    function.prepare();
    let mut workspace = vec![0; function.workspace_size()];
    // SAFETY: the arrays are owned by `values`, which outlives all calls, and nothing else touches them.
    let first = unsafe { function.call_with(&extents, &block, &mut workspace) };
    first.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let clock = TickClock::calibrated();
    let words = function.words(&block, &mut workspace).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let args = words.as_ptr().cast();
    let call = |entry: MeasuredEntry| MeasuredCall { entry, args, extents: extents.as_ptr() };
    let mut names = vec![kernel.name().to_owned(), "an empty function".to_owned()];
    let mut calls = vec![call(function.block_entry()), MeasuredCall::empty()];
    if let (Some(entry), Some(path)) = (against, &arguments.against) {
        names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        calls.push(call(entry));
    }
    // SAFETY: as for the first call, whose accesses were verified with the same arguments; whoever names a library says
    // that its function takes this block.
    let measured = unsafe { measure(&calls, arguments.calls) };
    let measured = measured.map_err(|(index, status)| {
        let site = function.site(status).filter(|_| index == 0).map(|report| report.message);
        CommandFailure::Failed(site.unwrap_or_else(|| format!("`{}` returned {status}", names[index])))
    })?;
    let functions =
        names.into_iter().zip(measured).map(|(name, histogram)| MeasuredFunction { name, histogram }).collect();
    let target_ns = kernel.function().constraints.target_latency_ns;
    let report = LatencyReport { clock, functions, core, target_ns };
    if let Some(path) = &arguments.svg {
        let written = std::fs::write(path, drawing::svg(&report));
        written.map_err(|error| CommandFailure::Failed(format!("cannot write {}: {error}", path.display())))?;
    }
    match arguments.json {
        true => print_json(&report.json())?,
        false => print(report.text().as_bytes())?,
    }
    match report.exceeded() {
        None => Ok(()),
        Some((target, took)) => Err(CommandFailure::Failed(format!(
            "`{}` promises {target} ns (`target_latency_ns`), and 99.9 % of its calls took up to {took:.0} ns",
            kernel.name()
        ))),
    }
}

fn failed_emit(error: EmitError) -> CommandFailure {
    match error {
        EmitError::Rejected(error) => error.into(),
        other => CommandFailure::Failed(other.to_string()),
    }
}

/// The extents of each call.
fn extents(arguments: &LatencyArguments, function: &NativeFunction) -> Result<Vec<i64>, CommandFailure> {
    let rank = usize::from(function.signature().launch_rank);
    let given = arguments.dim.as_ref().map_or(&[][..], |dim| dim.extents());
    if given.len() != rank {
        let name = &function.signature().name;
        let message = match rank {
            0 => format!("`{name}` does not ask for its thread: leave --dim out"),
            _ => format!("`{name}` asks for its thread along {rank} axes: say how many threads a call has by --dim"),
        };
        return Err(CommandFailure::Usage(message));
    }
    Ok(given.iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX)).collect())
}

/// The core that runs the calls; none where the system has no cores to choose.
fn chosen_core(arguments: &LatencyArguments, kernel: &Kernel) -> Option<u32> {
    let own = kernel.function().constraints.cpu_affinity.first().copied();
    arguments.core.or(own).or_else(|| allowed_cores().last().copied())
}

impl LatencyReport {
    pub(super) fn kernel(&self) -> &LatencyHistogram {
        &self.functions[0].histogram
    }

    /// The time that the kernel promises and the time that 99.9 % of its calls kept, if that is more.
    fn exceeded(&self) -> Option<(u64, f64)> {
        let took = self.clock.ns(self.kernel().quantile(0.999));
        self.target_ns.filter(|&target| took > target as f64).map(|target| (target, took))
    }

    fn text(&self) -> String {
        let core = self.core.map_or_else(String::new, |core| format!(" on core {core}"));
        let mut text = format!("{} calls of each{core}, nanoseconds with the clock's own\n\n", self.kernel().n_calls());
        let width = self.functions.iter().map(|function| function.name.len()).max().unwrap_or(0);
        text += &format!("{:width$}{:>9}{:>9}", "", "mean", "least");
        for (name, _) in QUANTILES {
            text += &format!("{name:>9}");
        }
        text += &format!("{:>11}\n", "most");
        for MeasuredFunction { name, histogram } in &self.functions {
            let mean = histogram.mean(MEAN_OF) * self.clock.ns_per_tick;
            text += &format!("{name:width$}{mean:>9.1}{:>9.1}", self.clock.ns(histogram.least()));
            for (_, part) in QUANTILES {
                text += &format!("{:>9.1}", self.clock.ns(histogram.quantile(part)));
            }
            text += &format!("{:>11.1}\n", self.clock.ns(histogram.most()));
        }
        text += &drawing::bars(self);
        if let Some(target) = self.target_ns.filter(|_| self.exceeded().is_none()) {
            text += &format!("\n`target_latency_ns={target}` holds for 99.9 % of the calls\n");
        }
        text
    }

    fn json(&self) -> Value {
        let of = |MeasuredFunction { name, histogram }: &MeasuredFunction| {
            let quantiles: serde_json::Map<String, Value> = QUANTILES
                .iter()
                .map(|(name, part)| {
                    (format!("p{}", name.trim_end_matches(" %")), json!(self.clock.ns(histogram.quantile(*part))))
                })
                .collect();
            json!({
                "name": name,
                "n_calls": histogram.n_calls(),
                "least_ns": self.clock.ns(histogram.least()),
                "mean_ns": histogram.mean(MEAN_OF) * self.clock.ns_per_tick,
                "most_ns": self.clock.ns(histogram.most()),
                "quantiles_ns": quantiles,
            })
        };
        let functions: Vec<Value> = self.functions.iter().map(of).collect();
        json!({ "core": self.core, "target_latency_ns": self.target_ns, "functions": functions })
    }
}
