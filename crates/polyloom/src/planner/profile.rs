//! Profiling: the candidates of a computation are verified, timed in one session, and become traces.

use super::candidates::PathCandidate;
use super::computation::{ExtentScale, PlannedComputation};
use super::tuning::{KernelSearch, is_tunable};
use crate::executor::{ArrayLibrary, ExecutablePath, MeasuredPathRun, OutputExpectation, PathError};
use crate::fusion::RunNumber;
use crate::session::Session;
use polyloom_graph::measure::{
    LinuxProbe, MeasureFailure, MeasuredCandidate, Measurement, MeasurementPolicy, MeasurementStatus, MonotonicClock,
    OutputChecks, WarmUpRule, measure,
};
use polyloom_graph::reference::DenseTensor;
use polyloom_graph::tune::TuningLimits;
use polyloom_graph::verify_accuracy::{
    AccuracyPolicy, AccuracyRequirement, AccuracyVerdict, GoldenReference, InputDistribution, InputDomain, make_inputs,
};
use polyloom_graph::{Graph, GraphError, Layout, Recipe, TensorDef, decompose};
use polyloom_ir::{FloatMode, Scalar};
use polyloom_runtime::{Tier, TierPolicy};
use polyloom_store::{ContentHash, TraceObservations, TraceRecord, TraceStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

/// The number that a run is given for each of its numbers, while it is verified and timed.
const SAMPLE_NUMBER: f64 = 1.5;

/// The arithmetic operations of a computation that is evaluated at extents that cannot be made smaller.
const MAX_FIXED_OPERATIONS: u64 = 1 << 20;

/// Says how a computation is profiled.
#[derive(Clone, Debug)]
pub struct ProfileSettings {
    /// The policy of measurements.
    pub policy: MeasurementPolicy,
    /// The arithmetic operations of a computation that is evaluated, to verify its paths; larger extents are verified at smaller ones.
    pub max_operations: u64,
    /// The time for all candidates. Those that are left when it is up are not measured.
    pub budget: Duration,
    /// The candidates of one session, the default among them.
    pub session_size: usize,
    /// The bounds of the search for better parameters of kernels; none is made if they allow no points. The time is half of what is left
    /// of the budget at most.
    pub tuning: TuningLimits,
    /// Ends the profile as soon as it is true. What was measured until then is not complete, and not to be kept.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for ProfileSettings {
    fn default() -> ProfileSettings {
        let second = 1_000_000_000_000;
        let hot = MeasurementPolicy::hot();
        // Hot kernels are compiled again in the background, which takes some tens of milliseconds.
        let warm_up = WarmUpRule { min_time: second / 25, max_batches: 4096, ..hot.warm_up };
        let policy = MeasurementPolicy {
            warm_up,
            checks: OutputChecks::FirstAndLast,
            max_samples: 200,
            run_limit: 5 * second,
            candidate_limit: 3 * second,
            session_limit: 60 * second,
            ..hot
        };
        ProfileSettings {
            policy,
            max_operations: 1 << 18,
            budget: Duration::from_secs(30),
            session_size: 8,
            tuning: TuningLimits { n_first_points: 24, n_points: 64, time: 20 * second, ..TuningLimits::default() },
            stop: None,
        }
    }
}

/// A candidate that has been profiled.
#[derive(Clone, Debug)]
pub struct ProfiledPath {
    /// The place of the candidate in the list.
    pub candidate: usize,
    /// The hash of the code that ran, or would have.
    pub code: ContentHash,
    /// Names what was measured interleaved.
    pub session: String,
    /// True of a point of a search for parameters. Its samples are few, and compared with those of the search alone.
    pub is_of_search: bool,
    /// Says how it ended.
    pub status: TraceStatus,
    /// The reason, unless it is `ok`.
    pub reason: Option<String>,
    /// The error that was found when it was verified.
    pub error: Option<f64>,
    /// The measurement, if it came to that.
    pub measurement: Option<Measurement>,
}

/// A compiled path, with the hash of its code.
pub type CompiledCandidate<K> = (Arc<ExecutablePath<K>>, ContentHash);

/// A path that is verified and waits to be timed, with its place among the candidates.
type ReadyPath<K> = (usize, Arc<ExecutablePath<K>>, ProfiledPath);

/// Compiles a candidate for a computation; gives the hash of its code too.
///
/// # Errors
///
/// [`PathError`]; a recipe of another workload may not fit.
pub fn compile_candidate<L: ArrayLibrary>(
    session: &Session,
    library: &L,
    computation: &PlannedComputation,
    candidate: &PathCandidate,
) -> Result<CompiledCandidate<L::Kernel>, PathError<L::Error>> {
    let verified = &candidate.verified;
    verified.fits(&computation.graph, &computation.identity.bits.hash.0)?;
    let misfit = || -> PathError<L::Error> { PathError::Unsupported("the recipe takes other inputs".to_owned()) };
    let symbols = computation.symbols_of(&verified.program).ok_or_else(misfit)?;
    let path =
        ExecutablePath::compile(session, verified, &symbols, &computation.layouts, &computation.options, library)?;
    let mut code = format!("{} {}\n", env!("CARGO_PKG_VERSION"), computation.options.float_mode.name());
    for part in path.code() {
        code.push_str(&part);
        code.push('\n');
    }
    code.push_str(&candidate.hash.to_string());
    Ok((Arc::new(path), ContentHash::of(code.as_bytes())))
}

/// Inputs of a computation as arrays of a library, in its layouts.
struct InputArrays<L: ArrayLibrary> {
    library: L,
    places: Vec<(Scalar, Layout, usize)>,
}

fn input_arrays<L: ArrayLibrary>(library: &L, computation: &PlannedComputation) -> Result<InputArrays<L>, L::Error> {
    let mut arrays = Vec::new();
    let mut places = Vec::new();
    for ((_, ty), layout) in computation.known.inputs().zip(&computation.layouts) {
        let (array, address) = library.new_array(ty.dtype, layout)?;
        arrays.push(array);
        places.push((ty.dtype, layout.clone(), address));
    }
    Ok(InputArrays { library: library.with_inputs(arrays), places })
}

/// Returns the graph with constants in the place of the numbers that a run is given.
fn with_sample_numbers(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for value in &mut graph.values {
        if matches!(value.def, TensorDef::Number(_)) {
            value.def = TensorDef::Constant(crate::scalar_bits::from_f64(value.ty.dtype, SAMPLE_NUMBER));
        }
    }
    graph
}

fn sample_numbers(computation: &PlannedComputation) -> Vec<RunNumber> {
    vec![RunNumber::Float(SAMPLE_NUMBER); computation.n_numbers()]
}

/// Returns true if the evaluator computes a graph within so many operations.
fn is_evaluable(graph: &Graph, max_operations: u64) -> bool {
    let Ok(simple) = decompose(graph) else { return false };
    let n_operations = |id| {
        let value = simple.value(id)?;
        let TensorDef::Op { op, operands, attributes } = &value.def else { return Some(0) };
        let types: Vec<_> = operands.iter().filter_map(|&id| Some(simple.value(id)?.ty.clone())).collect();
        let cost = op.cost(&types, &attributes.0, &value.ty)?;
        Some(cost.flops.saturating_add(value.ty.shape.n_elements()?))
    };
    let total = simple.iter().try_fold(0u64, |sum, (id, _)| Some(sum.saturating_add(n_operations(id)?)));
    total.is_some_and(|total| total <= max_operations)
}

/// The references of a computation at extents at which it can be evaluated, made when they are needed.
struct ExtentVerifier {
    computation: PlannedComputation,
    /// Holds what fixed extents have become, if these are others.
    scale: Option<ExtentScale>,
    bits: Option<Arc<GoldenReference>>,
    mathematics: Option<Arc<GoldenReference>>,
}

impl ExtentVerifier {
    fn new(computation: PlannedComputation, scale: Option<ExtentScale>) -> ExtentVerifier {
        ExtentVerifier { computation, scale, bits: None, mathematics: None }
    }

    fn reference<L: ArrayLibrary>(
        &mut self,
        library: &L,
        requirement: AccuracyRequirement,
    ) -> Result<Arc<GoldenReference>, GraphError> {
        let kept = match requirement {
            AccuracyRequirement::Bits => &mut self.bits,
            AccuracyRequirement::Mathematics => &mut self.mathematics,
        };
        if let Some(reference) = kept {
            return Ok(reference.clone());
        }
        let policy = AccuracyPolicy::of(requirement);
        let graph = with_sample_numbers(&self.computation.known);
        let reference = Arc::new(library.detached(|| GoldenReference::prepare(&graph, &policy))?);
        *kept = Some(reference.clone());
        Ok(reference)
    }

    /// Verifies a path by the code of each tier that may run it: in the mode `fast` they round differently, and one may overflow where the other
    /// does not. In other modes they give the same bits.
    fn verify<L: ArrayLibrary>(
        &mut self,
        session: &Session,
        library: &L,
        candidate: &PathCandidate,
        requirement: AccuracyRequirement,
    ) -> Result<AccuracyVerdict, String> {
        let device = session.device();
        let chooses_tiers = device.policy() == TierPolicy::Automatic && device.backend(Tier::Optimized).is_some();
        let mut verdict: Option<AccuracyVerdict> = None;
        if chooses_tiers && self.computation.options.float_mode == FloatMode::Fast {
            for candidate in [0, 1].into_iter().filter_map(|tier| candidate.at_tier(tier)) {
                let found = self.verify_code(session, library, &candidate, requirement)?;
                if found.status != MeasurementStatus::Ok {
                    return Ok(found);
                }
                let n_before = verdict.as_ref().map_or(0, |before| before.n_compared);
                let max_error =
                    verdict.as_ref().map_or(found.max_error, |before| before.max_error.max(found.max_error));
                verdict = Some(AccuracyVerdict { max_error, n_compared: n_before + found.n_compared, ..found });
            }
        }
        match verdict {
            Some(verdict) => Ok(verdict),
            None => self.verify_code(session, library, candidate, requirement),
        }
    }

    fn verify_code<L: ArrayLibrary>(
        &mut self,
        session: &Session,
        library: &L,
        candidate: &PathCandidate,
        requirement: AccuracyRequirement,
    ) -> Result<AccuracyVerdict, String> {
        let reference = self.reference(library, requirement).map_err(|error| error.to_string())?;
        let inputs = input_arrays(library, &self.computation).map_err(|error| error.to_string())?;
        let (path, _) = compile_candidate(session, &inputs.library, &self.computation, candidate)
            .map_err(|error| error.to_string())?;
        let (outputs, numbers) = (self.computation.output_types(), sample_numbers(&self.computation));
        let run = MeasuredPathRun::new(&inputs.library, &path, &inputs.places, &outputs, &numbers);
        let mut run = run.map_err(|error| error.to_string())?;
        Ok(reference.verify(&mut run))
    }
}

/// The ways to verify the paths of a computation, the cheapest first.
struct PathVerifier {
    ways: Vec<ExtentVerifier>,
}

impl PathVerifier {
    /// Verifies at smaller extents if the graph is the same for others. If its extents are fixed, the program for smaller arrays stands for it, and the graph
    /// itself for paths whose programs have no such form, as far as its operations allow.
    fn new(computation: &PlannedComputation, max_operations: u64) -> PathVerifier {
        let fits = |graph: &Graph| is_evaluable(graph, max_operations);
        if let Some(smaller) = computation.shrunk(&fits) {
            return PathVerifier { ways: vec![ExtentVerifier::new(smaller, None)] };
        }
        let rescaled = computation.rescaled(&fits);
        let mut ways: Vec<ExtentVerifier> =
            rescaled.into_iter().map(|(smaller, scale)| ExtentVerifier::new(smaller, Some(scale))).collect();
        if is_evaluable(&computation.known, MAX_FIXED_OPERATIONS) {
            ways.push(ExtentVerifier::new(computation.clone(), None));
        }
        PathVerifier { ways }
    }

    /// Verifies a path; gives none if there is no way to.
    fn verify<L: ArrayLibrary>(
        &mut self,
        session: &Session,
        library: &L,
        candidate: &PathCandidate,
        requirement: AccuracyRequirement,
    ) -> Result<Option<AccuracyVerdict>, String> {
        for way in &mut self.ways {
            let candidate = match &way.scale {
                None => Some(candidate.clone()),
                Some(scale) => candidate.rescaled(&way.computation, scale),
            };
            if let Some(candidate) = candidate {
                return way.verify(session, library, &candidate, requirement).map(Some);
            }
        }
        Ok(None)
    }
}

/// Profiles candidates, of which one is the default: each is compiled, verified, and timed with the default beside it. A candidate that is
/// wrong or does not run is never timed. The budget is looked at between candidates, and so is whether work `goes_on`. At last the kernels
/// of the fastest path that has some of Polyloom's are tuned, which adds candidates that differ from it in parameters.
///
/// # Errors
///
/// If inputs cannot be made.
pub fn profile<L: ArrayLibrary>(
    session: &Session,
    library: &L,
    computation: &PlannedComputation,
    candidates: &mut Vec<PathCandidate>,
    settings: &ProfileSettings,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<ProfiledPath>, String> {
    let started = Instant::now();
    let Some(default) = candidates.iter().position(|candidate| candidate.is_default) else {
        return Err("there is no default path to compare with".to_owned());
    };
    let mut verifier = PathVerifier::new(computation, settings.max_operations);
    let inputs = input_arrays(library, computation).map_err(|error| error.to_string())?;
    let graph = with_sample_numbers(&computation.known);
    let values = library.detached(|| make_inputs(&graph, InputDistribution::Uniform, InputDomain::Reals, 7));
    for ((dtype, layout, address), tensor) in inputs.places.iter().zip(values.map_err(|error| error.to_string())?) {
        // SAFETY: the array is new, and has the layout.
        unsafe { crate::executor::write_elements(*dtype, layout, *address, &tensor.bits) };
    }
    let mut done: Vec<ProfiledPath> = Vec::new();
    let mut expected: Option<Arc<Vec<DenseTensor>>> = None;
    let order: Vec<usize> =
        std::iter::once(default).chain((0..candidates.len()).filter(|&index| index != default)).collect();
    let mut ready: Vec<ReadyPath<L::Kernel>> = Vec::new();
    let name = |n: usize| format!("{:x}-{:x}-{n}", now(), std::process::id());
    let mut n_sessions = 0;
    for &index in &order {
        let is_late = started.elapsed() > settings.budget;
        if index != default && (is_late || !goes_on()) {
            break;
        }
        let candidate = &candidates[index];
        let mut profiled = ProfiledPath {
            candidate: index,
            code: candidate.hash,
            session: name(n_sessions),
            is_of_search: false,
            status: TraceStatus::Ok,
            reason: None,
            error: None,
            measurement: None,
        };
        let prepared = prepare(session, &inputs, computation, candidate, &mut verifier, &mut profiled, &expected);
        match prepared {
            Ok((path, results)) => {
                if index == default {
                    expected = Some(Arc::new(results));
                }
                ready.push((index, path, profiled));
            }
            Err(failure) => {
                profiled.status = status_of(failure.status);
                profiled.reason = Some(failure.reason);
                done.push(profiled);
            }
        }
        if ready.len() >= settings.session_size.max(2) {
            n_sessions += 1;
            time(&inputs, computation, candidates, settings, &expected, &mut ready, &mut done, &name(n_sessions));
        }
    }
    if ready.len() > 1 || ready.first().is_some_and(|first| done.iter().all(|each| each.candidate != first.0)) {
        time(&inputs, computation, candidates, settings, &expected, &mut ready, &mut done, &name(n_sessions + 1));
    }
    let time_left = settings.budget.saturating_sub(started.elapsed()) / 2;
    if settings.tuning.n_points > 0 && !time_left.is_zero() && goes_on() {
        let tuned = tune_kernels(session, &inputs, computation, candidates, settings, &mut done, time_left);
        // The default is there already, to be timed beside it.
        if let Some((base, tuned)) = tuned
            && let Ok((path, code)) = compile_candidate(session, &inputs.library, computation, &candidates[tuned])
        {
            let profiled = ProfiledPath {
                candidate: tuned,
                code,
                session: String::new(),
                is_of_search: false,
                status: TraceStatus::Ok,
                reason: None,
                error: done.iter().find(|each| each.candidate == base).and_then(|each| each.error),
                measurement: None,
            };
            ready.push((tuned, path, profiled));
            n_sessions += 2;
            time(&inputs, computation, candidates, settings, &expected, &mut ready, &mut done, &name(n_sessions));
        }
    }
    Ok(done)
}

/// Tunes the kernels of the fastest path that has some, and adds the points that were measured to the candidates. Returns the places of the path and of a
/// point that is faster, if one is.
fn tune_kernels<L: ArrayLibrary>(
    session: &Session,
    inputs: &InputArrays<L>,
    computation: &PlannedComputation,
    candidates: &mut Vec<PathCandidate>,
    settings: &ProfileSettings,
    done: &mut Vec<ProfiledPath>,
    time_left: Duration,
) -> Option<(usize, usize)> {
    let median = |each: &ProfiledPath| {
        let is_measured = matches!(each.status, TraceStatus::Ok | TraceStatus::TooNoisy);
        let summary = each.measurement.as_ref().filter(|_| is_measured)?.summary?;
        is_tunable(computation, &candidates[each.candidate]).then_some((summary.median, each.candidate))
    };
    let (_, base) = done.iter().filter_map(median).min()?;
    let picoseconds = u64::try_from(time_left.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000);
    let limits = TuningLimits { time: settings.tuning.time.min(picoseconds), ..settings.tuning };
    let search = KernelSearch {
        session,
        library: &inputs.library,
        computation,
        inputs: &inputs.places,
        numbers: &sample_numbers(computation),
        policy: &settings.policy,
        stop: settings.stop.as_ref(),
    };
    // All that has been measured is kept, whatever becomes of the search.
    let found = search.tune(&candidates[base], &limits).ok().flatten()?;
    let first = candidates.len();
    let session_name = format!("{:x}-{:x}-tuning", now(), std::process::id());
    for (place, point) in found.points.into_iter().enumerate() {
        done.push(ProfiledPath {
            candidate: first + place,
            code: point.code,
            session: session_name.clone(),
            is_of_search: true,
            status: status_of(point.measurement.status),
            reason: point.measurement.reason.clone(),
            error: None,
            measurement: Some(point.measurement),
        });
        candidates.push(point.candidate);
    }
    found.chosen.map(|place| (base, first + place))
}

type PreparedPath<K> = (Arc<ExecutablePath<K>>, Vec<DenseTensor>);

/// Compiles and verifies a candidate, and compares its results at full extents with the default's.
fn prepare<L: ArrayLibrary>(
    session: &Session,
    inputs: &InputArrays<L>,
    computation: &PlannedComputation,
    candidate: &PathCandidate,
    verifier: &mut PathVerifier,
    profiled: &mut ProfiledPath,
    expected: &Option<Arc<Vec<DenseTensor>>>,
) -> Result<PreparedPath<L::Kernel>, MeasureFailure> {
    let library = &inputs.library;
    let (path, code) = compile_candidate(session, library, computation, candidate)
        .map_err(|error| MeasureFailure::does_not_compile(error.to_string()))?;
    profiled.code = code;
    let keeps_bits = candidate.keeps_bits() && computation.is_strict();
    let requirement = if keeps_bits { AccuracyRequirement::Bits } else { AccuracyRequirement::Mathematics };
    match verifier.verify(session, library, candidate, requirement).map_err(MeasureFailure::failed)? {
        Some(verdict) => {
            profiled.error = verdict.max_error.is_finite().then_some(verdict.max_error);
            if let Some(failure) = verdict.failure() {
                return Err(failure);
            }
        }
        // Plans of Polyloom have the bits of their definition at all extents, and the default runs anyway; what else runs has to be shown right.
        None if candidate.is_default || keeps_bits && path.is_native() => {}
        None => {
            return Err(MeasureFailure::failed(format!(
                "it cannot be verified: it is for these extents alone, and takes more than {MAX_FIXED_OPERATIONS} operations"
            )));
        }
    }
    let (outputs, numbers) = (computation.output_types(), sample_numbers(computation));
    let run = MeasuredPathRun::new(library, &path, &inputs.places, &outputs, &numbers);
    let mut run = run.map_err(|error| MeasureFailure::failed(error.to_string()))?;
    let results = run.results().map_err(MeasureFailure::failed)?;
    if let Some(expected) = expected {
        run.expect(expectation(keeps_bits, expected));
        polyloom_graph::measure::Measure::check_output(&mut run)?;
    }
    run.heat().map_err(MeasureFailure::failed)?;
    Ok((path, results))
}

fn expectation(keeps_bits: bool, expected: &Arc<Vec<DenseTensor>>) -> OutputExpectation {
    match keeps_bits {
        true => OutputExpectation::Bits(expected.clone()),
        false => OutputExpectation::Near(expected.clone()),
    }
}

/// Times what is ready in one session, and leaves the default for the next one.
#[expect(clippy::too_many_arguments, reason = "they are the state of one profile, taken apart so that borrows end")]
fn time<L: ArrayLibrary>(
    inputs: &InputArrays<L>,
    computation: &PlannedComputation,
    candidates: &[PathCandidate],
    settings: &ProfileSettings,
    expected: &Option<Arc<Vec<DenseTensor>>>,
    ready: &mut Vec<ReadyPath<L::Kernel>>,
    done: &mut Vec<ProfiledPath>,
    session_name: &str,
) {
    let (outputs, numbers) = (computation.output_types(), sample_numbers(computation));
    let mut runs = Vec::new();
    let mut timed: Vec<ProfiledPath> = Vec::new();
    for (index, path, profiled) in ready.iter() {
        let mut profiled = profiled.clone();
        profiled.session = session_name.to_owned();
        match MeasuredPathRun::new(&inputs.library, path, &inputs.places, &outputs, &numbers) {
            Ok(mut run) => {
                if let Some(expected) = expected {
                    let keeps_bits = candidates[*index].keeps_bits() && computation.is_strict();
                    run.expect(expectation(keeps_bits, expected));
                }
                if let Some(stop) = &settings.stop {
                    run.stop_by(stop.clone());
                }
                runs.push((candidates[*index].hash.to_string(), run));
                timed.push(profiled);
            }
            Err(error) => {
                profiled.status = TraceStatus::Failed;
                profiled.reason = Some(error.to_string());
                done.push(profiled);
            }
        }
    }
    let mut measured: Vec<MeasuredCandidate<'_>> =
        runs.iter_mut().map(|(key, run)| MeasuredCandidate { key: key.clone(), path: run }).collect();
    let measurements = measure(&mut measured, &settings.policy, &mut LinuxProbe, &mut MonotonicClock::new());
    for (mut profiled, measurement) in timed.into_iter().zip(measurements) {
        profiled.status = status_of(measurement.status);
        profiled.reason.clone_from(&measurement.reason);
        profiled.measurement = Some(measurement);
        done.push(profiled);
    }
    ready.retain(|(index, _, _)| candidates[*index].is_default);
}

fn status_of(status: MeasurementStatus) -> TraceStatus {
    match status {
        MeasurementStatus::Ok => TraceStatus::Ok,
        MeasurementStatus::DoesNotCompile => TraceStatus::DoesNotCompile,
        MeasurementStatus::Wrong => TraceStatus::Wrong,
        MeasurementStatus::TimedOut => TraceStatus::TimedOut,
        MeasurementStatus::TooNoisy => TraceStatus::TooNoisy,
        MeasurementStatus::Failed => TraceStatus::Failed,
    }
}

/// Returns microseconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_micros() as i64)
}

/// Makes the records of what was profiled.
pub fn traces_of(
    computation: &PlannedComputation,
    candidates: &[PathCandidate],
    profiled: &[ProfiledPath],
    environment: ContentHash,
    policy: &str,
    runner: &str,
) -> Vec<TraceRecord> {
    let workload = computation.workload().hash();
    let trace = |each: &ProfiledPath| {
        let measurement = each.measurement.as_ref();
        let observed = |of: fn(&polyloom_graph::measure::EnvironmentObservation) -> Option<f64>| {
            let [before, after] = measurement?.observations.map(|observation| of(&observation));
            Some([before?, after?]).filter(|pair| pair.iter().all(|number| number.is_finite()))
        };
        let samples = measurement.map_or_else(Vec::new, Measurement::times);
        let reason = (each.status != TraceStatus::Ok)
            .then(|| each.reason.clone().unwrap_or_else(|| each.status.name().to_owned()).replace('\0', ""));
        TraceRecord {
            graph: computation.hash(),
            implementation: candidates[each.candidate].hash,
            workload,
            environment,
            policy: if each.is_of_search { format!("{policy}-search") } else { policy.to_owned() },
            code_hash: each.code,
            session: each.session.clone(),
            status: each.status,
            reason,
            warm_ups: measurement.map_or_else(Vec::new, |measurement| measurement.warm_ups.clone()),
            samples,
            error: each.error,
            observations: TraceObservations {
                cpu_mhz: observed(|seen| seen.cpu_mhz),
                gpu_mhz: observed(|seen| seen.gpu_mhz),
                load: observed(|seen| seen.load),
                temperature: observed(|seen| seen.temperature),
            },
            measured_at: now(),
            runner: runner.to_owned(),
        }
    };
    profiled.iter().map(trace).collect()
}

/// Returns the recipe of a record, if this program reads it.
pub(super) fn recipe_of(text: &str) -> Option<Recipe> {
    Recipe::from_json(text).ok()
}
