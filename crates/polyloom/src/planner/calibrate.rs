//! The rates of this machine, measured by paths of known work, and the file that keeps them.

use super::candidates::{PathCandidate, candidates, op_by_op_recipe};
use super::computation::PlannedComputation;
use super::profile::compile_candidate;
use crate::executor::{ArrayLibrary, MeasuredPathRun};
use crate::session::Session;
use polyloom_graph::cost::{
    BackendCosts, CorrectionUnits, CostSource, MachineCosts, PredictedTime, correction_units, predict,
};
use polyloom_graph::measure::{
    LinuxProbe, MeasuredCandidate, MeasurementPolicy, MonotonicClock, OutputChecks, WarmUpRule, measure,
};
use polyloom_graph::path::PathLimits;
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::{Backend, KernelRegistry, Layout, parse_graph};
use polyloom_store::{ContentHash, MachineFacts};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The ops of a long chain, whose time less that of one op is the time of launches.
const CHAIN: u32 = 17;

/// Ops of which the rates say too little, each as a graph that it is alone in. Extents are those of common uses that fit into caches.
const KNOWN_OPS: [(&str, &[&str], &str); 31] = [
    ("exp", &["f32[131072]"], ""),
    ("log", &["f32[131072]"], ""),
    ("sqrt", &["f32[131072]"], ""),
    ("erf", &["f32[131072]"], ""),
    ("sigmoid", &["f32[131072]"], ""),
    ("gelu", &["f32[131072]"], ", approximate=\"tanh\""),
    ("sin", &["f32[131072]"], ""),
    ("divide", &["f32[131072]", "f32[131072]"], ""),
    ("maximum", &["f32[131072]", "f32[131072]"], ""),
    ("sum", &["f32[256, 512]"], ", axes=(1)"),
    ("mean", &["f32[256, 512]"], ", axes=(1)"),
    ("max", &["f32[256, 512]"], ", axes=(1)"),
    ("var", &["f32[256, 512]"], ", axes=(0)"),
    ("norm", &["f32[32768, 3]"], ", axes=(1)"),
    ("logsumexp", &["f32[256, 512]"], ", axes=(1)"),
    ("softmax", &["f32[256, 512]"], ""),
    ("layer_norm", &["f32[256, 512]", "f32[512]", "f32[512]"], ""),
    ("rms_norm", &["f32[256, 512]", "f32[512]"], ""),
    ("cumsum", &["f32[256, 512]"], ", axis=1"),
    ("sort", &["f32[256, 512]"], ""),
    ("argsort", &["f32[256, 512]"], ""),
    ("sort_keys", &["f32[256, 512]"], ""),
    ("topk_indices", &["f32[256, 512]"], ", k=8"),
    ("concat", &["f32[256, 512]", "f32[256, 512]"], ", axis=0"),
    ("linear", &["f32[128, 256]", "f32[256, 256]"], ""),
    ("linear", &["f32[1, 256]", "f32[256, 256]"], ""),
    ("matmul", &["f32[128, 256]", "f32[256, 256]"], ""),
    ("matmul", &["f32[256, 256]", "f32[256]"], ""),
    ("attention", &["f32[4, 128, 64]", "f32[4, 128, 64]", "f32[4, 128, 64]"], ""),
    ("conv2d", &["f32[1, 32, 32, 32]", "f32[32, 32, 3, 3]"], ", padding=(1, 1)"),
    ("max_pool2d", &["f32[4, 16, 64, 64]"], ", size=(2, 2)"),
];
/// A time that is this near to the predicted one, relative to it, is what the rates say.
const NEAR: f64 = 0.2;

/// Returns the file that keeps the rates of an environment; none without a home directory.
pub fn costs_file(environment: &ContentHash) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local").join("share")))?;
    Some(data.join("polyloom").join(format!("costs-{}.json", environment.short())))
}

/// Returns the rates that calibration has measured in an environment, or the defaults.
pub fn machine_costs(environment: &ContentHash) -> MachineCosts {
    let text = costs_file(environment).and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| MachineCosts::from_json(&text).ok()).unwrap_or_default()
}

/// Measures the rates of the backends of a registry that run on the CPU. `report` is told what is measured.
///
/// # Errors
///
/// The reason why a path of known work does not run.
pub fn calibrate<L: ArrayLibrary>(
    session: &Session,
    library: &L,
    registry: &KernelRegistry,
    options: PlanOptions,
    report: &mut dyn FnMut(&str),
) -> Result<MachineCosts, String> {
    let mut costs = MachineCosts::default();
    let caches = MachineFacts::sniff().cpu.caches;
    let cache_bytes = caches.iter().filter(|cache| cache.kind != "Instruction").map(|cache| cache.bytes).max();
    for backend in [Backend::CpuNative, Backend::CpuNumpy, Backend::CpuTorch] {
        if !registry.has(backend) {
            continue;
        }
        report(backend.name());
        let clock = CalibrationClock { session, library, backend, options };
        let own = measure_backend(&clock, cache_bytes)?;
        if backend == Backend::CpuTorch {
            // One op with a copy of its argument and one of its result.
            let one = clock.time(&chain(64, 1))?;
            costs.zero_copy_ns = ((one - own.launch_ns) / 2.0).max(10.0);
        }
        costs.backends.insert(backend, own.clone());
        report(&format!("the ops of {}", backend.name()));
        let corrections = corrections(&clock, &costs);
        costs.backends.insert(backend, BackendCosts { corrections, ..own });
    }
    Ok(costs)
}

fn measure_backend<L: ArrayLibrary>(
    clock: &CalibrationClock<'_, L>,
    cache_bytes: Option<u64>,
) -> Result<BackendCosts, String> {
    let [one, many] = [clock.time(&chain(64, 1))?, clock.time(&chain(64, CHAIN))?];
    let launch_ns = ((many - one) / f64::from(CHAIN - 1)).max(1.0);
    let rate = |n_ops: u32, work: f64, ns: f64| work / (ns - f64::from(n_ops) * launch_ns).max(1.0);
    let add = |n: u64| format!("%x = input \"x\" : f32[{n}]\n%y = input \"y\" : f32[{n}]\n%z = add %x, %y\nreturn %z");
    let (small, large) = (1u64 << 17, 1u64 << 24);
    let cached_bytes_per_ns = rate(1, 12.0 * small as f64, clock.time(&add(small))?);
    let bytes_per_ns = rate(1, 12.0 * large as f64, clock.time(&add(large))?);
    let text = format!("%x = input \"x\" : f32[{small}]\n%y = tanh %x\nreturn %y");
    let flops = clock.flops(&text)?;
    let flops_per_ns = rate(1, flops as f64, clock.time(&text)?);
    let n = 512u64;
    let text =
        format!("%x = input \"x\" : f32[{n}, {n}]\n%y = input \"y\" : f32[{n}, {n}]\n%z = matmul %x, %y\nreturn %z");
    let product_flops_per_ns = rate(1, 2.0 * (n * n * n) as f64, clock.time(&text)?);
    Ok(BackendCosts {
        source: CostSource::Calibrated,
        launch_ns,
        bytes_per_ns,
        cache_bytes: cache_bytes.unwrap_or(16 << 20),
        cached_bytes_per_ns,
        flops_per_ns,
        product_flops_per_ns,
        corrections: BTreeMap::new(),
    })
}

/// Returns the corrections of the ops that a backend has: what each takes beyond what the costs say.
fn corrections<L: ArrayLibrary>(clock: &CalibrationClock<'_, L>, costs: &MachineCosts) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for (op, inputs, attributes) in KNOWN_OPS {
        let lines = inputs.iter().enumerate().map(|(n, ty)| format!("%x{n} = input \"x{n}\" : {ty}\n"));
        let operands: Vec<String> = (0..inputs.len()).map(|n| format!("%x{n}")).collect();
        let text = format!("{}%y = {op} {}{attributes}\nreturn %y", lines.collect::<String>(), operands.join(", "));
        // A library that has no kernel for an op has no path for it.
        let Ok((computation, path)) = clock.path(&text) else { continue };
        let Ok(predicted) = predict(&path.verified, &computation.symbols, costs, &computation.options) else {
            continue;
        };
        let Ok(ns) = clock.time_path(&computation, &path, Duration::from_millis(60)) else { continue };
        let Some(units) =
            computation.known.outputs.first().and_then(|&node| correction_units(&computation.known, node))
        else {
            continue;
        };
        if let Some(correction) = correction(ns, &predicted, &units) {
            found.insert(units.name.into_owned(), correction);
        }
    }
    found
}

/// Returns what an op takes beyond its predicted time for each of its units; none if the prediction is near, or bytes say all.
fn correction(ns: f64, predicted: &PredictedTime, units: &CorrectionUnits) -> Option<f64> {
    let step = predicted.steps.iter().max_by(|a, b| a.total_ns().total_cmp(&b.total_ns()))?;
    let beyond = ns - predicted.total_ns();
    if beyond.abs() <= NEAR * predicted.total_ns() || units.n == 0 {
        return None;
    }
    if units.is_product {
        return Some(beyond.max(-step.product_ns) / units.n as f64);
    }
    if beyond < 0.0 && step.memory_ns >= step.element_ns {
        return None;
    }
    let wanted = (step.memory_ns.max(step.element_ns) + beyond).max(0.0);
    Some((wanted - step.element_ns) / units.n as f64)
}

/// Returns the text of a chain of negations.
fn chain(n: u64, n_ops: u32) -> String {
    let mut text = format!("%0 = input \"x\" : f32[{n}]\n");
    for op in 1..=n_ops {
        text.push_str(&format!("%{op} = negative %{}\n", op - 1));
    }
    format!("{text}return %{n_ops}\n")
}

struct CalibrationClock<'a, L: ArrayLibrary> {
    session: &'a Session,
    library: &'a L,
    backend: Backend,
    options: PlanOptions,
}

impl<L: ArrayLibrary> CalibrationClock<'_, L> {
    /// Returns the path on which each op is a launch of its own.
    fn path(&self, text: &str) -> Result<(PlannedComputation, PathCandidate), String> {
        let graph = parse_graph(text).map_err(|error| error.to_string())?;
        let layouts = graph.inputs().map(|(_, ty)| Some(Layout::dense(&ty.shape.as_static()?)));
        let layouts: Vec<Layout> = layouts.collect::<Option<_>>().ok_or("an extent is not known")?;
        let computation = PlannedComputation::new(&graph, &layouts, self.options).map_err(|error| error.to_string())?;
        if self.backend == Backend::CpuNative {
            let path = PathCandidate::new(&op_by_op_recipe(&computation), 0.0, false);
            return path.map(|path| (computation, path)).map_err(|error| error.to_string());
        }
        let registry = KernelRegistry::with_backends(&[self.backend]);
        let list = candidates(&computation, &registry, &MachineCosts::default(), PathLimits::default(), false)
            .map_err(|error| error.to_string())?;
        let n_ops = text.lines().count() - 1 - graph.inputs().count();
        let is_apart = |path: &PathCandidate| {
            path.verified.recipe.backends() == [self.backend] && path.verified.recipe.groups().count() == n_ops
        };
        let path = list.paths.into_iter().find(is_apart).ok_or_else(|| format!("{} has no such path", self.backend))?;
        Ok((computation, path))
    }

    /// Returns the median time of a graph in nanoseconds.
    fn time(&self, text: &str) -> Result<f64, String> {
        let (computation, path) = self.path(text)?;
        self.time_path(&computation, &path, Duration::from_millis(500))
    }

    /// Returns the median time of a path in nanoseconds, after a warm-up of some length.
    fn time_path(
        &self,
        computation: &PlannedComputation,
        path: &PathCandidate,
        warm_up: Duration,
    ) -> Result<f64, String> {
        let mut places = Vec::new();
        let mut arrays = Vec::new();
        let mut random = 1u32;
        for ((_, ty), layout) in computation.known.inputs().zip(&computation.layouts) {
            let (array, address) = self.library.new_array(ty.dtype, layout).map_err(|error| error.to_string())?;
            // Numbers from 0.5 to 1, which no op takes exception to, in no order.
            let mut next = || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                u64::from(0x3f00_0000 | random >> 9)
            };
            let bits: Vec<u64> = (0..layout.n_elements()).map(|_| next()).collect();
            // SAFETY: the array is new, and has these elements.
            unsafe { crate::executor::write_elements(ty.dtype, layout, address, &bits) };
            arrays.push(array);
            places.push((ty.dtype, layout.clone(), address));
        }
        let library = self.library.with_inputs(arrays);
        let compiled = compile_candidate(self.session, &library, computation, path);
        let (compiled, _) = compiled.map_err(|error| error.to_string())?;
        let run = MeasuredPathRun::new(&library, &compiled, &places, &computation.output_types(), &[]);
        let mut run = run.map_err(|error| error.to_string())?;
        run.heat()?;
        let hot = MeasurementPolicy::hot();
        // Rates are those of code that has become hot and was compiled again, in the background.
        let min_time = warm_up.as_nanos() as u64 * 1000;
        let warm_up = WarmUpRule { min_time, max_batches: 1 << 16, ..hot.warm_up };
        let policy = MeasurementPolicy {
            warm_up,
            checks: OutputChecks::FirstAndLast,
            max_samples: 60,
            candidate_limit: 4_000_000_000_000,
            ..hot
        };
        let mut candidate = [MeasuredCandidate { key: self.backend.name().to_owned(), path: &mut run }];
        let measured = measure(&mut candidate, &policy, &mut LinuxProbe, &mut MonotonicClock::new());
        let measured = measured.into_iter().next().ok_or("nothing was measured")?;
        match measured.summary {
            Some(summary) => Ok(summary.median as f64 / 1e3),
            None => Err(measured.reason.unwrap_or_else(|| "nothing was measured".to_owned())),
        }
    }

    /// Returns the operations of a graph by the op table.
    fn flops(&self, text: &str) -> Result<u64, String> {
        let (computation, path) = self.path(text)?;
        let costs = MachineCosts::default();
        let predicted = predict(&path.verified, &computation.symbols, &costs, &computation.options);
        Ok(predicted.map_err(|error| error.to_string())?.steps.iter().map(|step| step.flops).sum())
    }
}
