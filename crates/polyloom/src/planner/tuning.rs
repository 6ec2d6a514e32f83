//! Tuning: a path whose kernels have parameters becomes another one with better ones, by successive halving.
//!
//! One group of a path is tuned, the one that takes the most time of those with parameters. A point of the space is the path with these
//! parameters in its recipe. No parameter changes a bit of a result, so that each point has to give the bits that the path gives with
//! the parameters that its plan has chosen.

use super::candidates::PathCandidate;
use super::computation::PlannedComputation;
use super::profile::compile_candidate;
use crate::executor::{ArrayLibrary, MeasuredPathRun, OutputExpectation};
use crate::fusion::RunNumber;
use crate::session::Session;
use polyloom_graph::cost::{MachineCosts, predict};
use polyloom_graph::measure::{
    LinuxProbe, Measure, MeasureFailure, Measurement, MeasurementPolicy, MonotonicClock, WarmUpRule,
};
use polyloom_graph::plan::{PlanOptions, TileShape, TunableForm, plan};
use polyloom_graph::recipe::{KernelGroup, KernelParameters, RecipeStep};
use polyloom_graph::registry::KernelForm;
use polyloom_graph::tune::{ParameterConstraint, ParameterPoint, ParameterSpace, TunedPoint, TuningLimits, tune};
use polyloom_graph::{Backend, Layout, specialise};
use polyloom_ir::Scalar;
use polyloom_store::ContentHash;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The vectors of sums that a tile keeps in registers at most, with 32 of them and with 16.
const MAX_SUM_VECTORS: [i64; 2] = [28, 12];
/// The length of pieces that a tile without a given one has.
const PLANNED_PIECE: i64 = 256;

/// A path with the parameters of one point, as far as it was measured.
pub(super) struct TunedCandidate {
    pub(super) candidate: PathCandidate,
    /// The hash of its code.
    pub(super) code: ContentHash,
    /// The measurement of the last rung that had it.
    pub(super) measurement: Measurement,
}

/// The points of a search that were measured, and the one that is faster than the path itself, if one is.
pub(super) struct TunedPaths {
    pub(super) points: Vec<TunedCandidate>,
    pub(super) chosen: Option<usize>,
}

/// A group of a path whose kernels have parameters.
struct TunableGroup {
    /// The place of its step in the recipe.
    step: usize,
    space: ParameterSpace,
    /// The parameters that its plan has chosen, by which the path itself is known.
    planned: ParameterPoint,
}

/// Returns true if a path has a group whose kernels have parameters that are not given.
pub(super) fn is_tunable(computation: &PlannedComputation, candidate: &PathCandidate) -> bool {
    find_group(computation, candidate).is_some()
}

/// Finds the group that takes the most time of those whose kernels have parameters.
fn find_group(computation: &PlannedComputation, candidate: &PathCandidate) -> Option<TunableGroup> {
    let symbols = computation.symbols_of(&candidate.verified.program)?;
    let program = specialise(&candidate.verified.program, &symbols).ok()?;
    let costs = MachineCosts::default();
    let times = predict(&candidate.verified, &symbols, &costs, &computation.options).ok()?;
    let space_of = |group: &KernelGroup| {
        let is_own = group.backend == Backend::CpuNative && group.form == KernelForm::Fused;
        if !is_own || !group.parameters.is_default() {
            return None;
        }
        let part = group.graph(&program).ok()?.graph;
        let layouts: Option<Vec<Layout>> =
            part.inputs().map(|(_, ty)| Some(Layout::dense(&ty.shape.as_static()?))).collect();
        let planned = plan(&part, &layouts?, &computation.options).ok()?;
        let forms: Vec<TunableForm> = planned.kernels.iter().filter_map(|kernel| kernel.body.tunable_form()).collect();
        parameter_space(&forms, &computation.options)
    };
    let groups = candidate.verified.recipe.steps.iter().enumerate().filter_map(|(step, each)| match each {
        RecipeStep::Run(group) => space_of(group)
            .map(|(space, planned)| (times.steps[step].total_ns(), TunableGroup { step, space, planned })),
        RecipeStep::CopyTo { .. } => None,
    });
    groups.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, group)| group)
}

/// Returns the space of the parameters that kernels of these forms have, with the point that was planned; none if there is nothing to
/// choose.
fn parameter_space(forms: &[TunableForm], options: &PlanOptions) -> Option<(ParameterSpace, ParameterPoint)> {
    let mut parameters: Vec<(&str, &[i64])> = Vec::new();
    let mut planned: Vec<(&str, i64)> = Vec::new();
    let tile = forms.iter().find_map(|form| match form {
        TunableForm::Product(tile) => Some(tile),
        _ => None,
    });
    if let Some(tile) = tile {
        parameters.extend([
            ("tile.rows", &[2, 3, 4, 6, 8, 10, 12, 14][..]),
            ("tile.columns", &[8, 16, 32, 64]),
            ("tile.packs_left", &[0, 1]),
            ("tile.packs_right", &[0, 1]),
            ("tile.n_grouped", &[1, 2, 4, 8, 16]),
            ("tile.piece", &[128, 256, 512]),
        ]);
        planned.extend([
            ("tile.rows", tile.rows.into()),
            ("tile.columns", tile.columns.into()),
            ("tile.packs_left", tile.packs_left.into()),
            ("tile.packs_right", tile.packs_right.into()),
            // These are chosen for each product, and 0 says so.
            ("tile.n_grouped", 0),
            ("tile.piece", 0),
        ]);
    }
    if forms.contains(&TunableForm::Attention) {
        parameters.push(("vector_bytes", &[16, 32, 64]));
        planned.push(("vector_bytes", options.vector_bytes.into()));
    }
    if forms.contains(&TunableForm::Rows) {
        parameters.push(("threads", &[1, 2, 4, 16, 64, 256]));
        planned.push(("threads", options.n_workers.into()));
    }
    if parameters.is_empty() {
        return None;
    }
    let n_vectors = MAX_SUM_VECTORS[usize::from(options.vector_bytes < 64)];
    let n_sums = n_vectors * i64::from(options.vector_bytes) / 4;
    let space = ParameterSpace::new(&parameters)
        .with(ParameterConstraint::ProductAtMost(vec!["tile.rows".into(), "tile.columns".into()], n_sums));
    let planned = planned.into_iter().map(|(name, value)| (name.into(), value)).collect();
    Some((space, ParameterPoint(planned)))
}

/// Returns the parameters of a point.
fn parameters_of(point: &ParameterPoint) -> KernelParameters {
    let number = |name: &str| point.get(name).and_then(|value| u32::try_from(value).ok());
    let planned = |name: &str, instead: u32| number(name).filter(|&value| value > 0).unwrap_or(instead);
    let tile = number("tile.rows").zip(number("tile.columns")).map(|(rows, columns)| TileShape {
        rows: rows as u8,
        columns: columns as u8,
        packs_left: number("tile.packs_left") == Some(1),
        packs_right: number("tile.packs_right") == Some(1),
        n_grouped: planned("tile.n_grouped", 1),
        piece: planned("tile.piece", PLANNED_PIECE as u32),
    });
    KernelParameters { tile, vector_bytes: number("vector_bytes"), threads: number("threads"), ..Default::default() }
}

/// Returns up to so many paths that differ from a path in the parameters of its kernels alone, with which it gives the same bits.
pub fn parameter_variants(
    computation: &PlannedComputation,
    base: &PathCandidate,
    n: usize,
    seed: u64,
) -> Vec<PathCandidate> {
    let Some(group) = find_group(computation, base) else { return Vec::new() };
    group.space.draw(n, seed).iter().filter_map(|point| group.candidate(base, point)).collect()
}

impl TunableGroup {
    /// Returns a path with the parameters of a point in the recipe.
    fn candidate(&self, base: &PathCandidate, point: &ParameterPoint) -> Option<PathCandidate> {
        let mut recipe = base.verified.recipe.clone();
        if let RecipeStep::Run(tuned) = &mut recipe.steps[self.step] {
            tuned.parameters = parameters_of(point);
        }
        PathCandidate::new(&recipe, f64::NAN, false).ok()
    }
}

/// Holds what a search for parameters works with.
pub(super) struct KernelSearch<'a, L: ArrayLibrary> {
    pub(super) session: &'a Session,
    pub(super) library: &'a L,
    pub(super) computation: &'a PlannedComputation,
    pub(super) inputs: &'a [(Scalar, Layout, usize)],
    pub(super) numbers: &'a [RunNumber],
    pub(super) policy: &'a MeasurementPolicy,
    pub(super) stop: Option<&'a Arc<AtomicBool>>,
}

impl<'a, L: ArrayLibrary> KernelSearch<'a, L> {
    /// Compiles a path to be measured; gives the hash of its code too.
    fn run_of(&self, candidate: &PathCandidate) -> Result<(MeasuredPathRun<'a, L>, ContentHash), MeasureFailure> {
        let (path, code) = compile_candidate(self.session, self.library, self.computation, candidate)
            .map_err(|error| MeasureFailure::does_not_compile(error.to_string()))?;
        let outputs = self.computation.output_types();
        let run = MeasuredPathRun::new(self.library, &path, self.inputs, &outputs, self.numbers);
        run.map(|run| (run, code)).map_err(|error| MeasureFailure::failed(error.to_string()))
    }

    /// Searches the parameters of a path; none if it has none.
    ///
    /// # Errors
    ///
    /// The reason why the path itself does not run.
    pub(super) fn tune(&self, base: &PathCandidate, limits: &TuningLimits) -> Result<Option<TunedPaths>, String> {
        let Some(group) = find_group(self.computation, base) else { return Ok(None) };
        let (mut first, _) = self.run_of(base).map_err(|failure| failure.reason)?;
        let expected = Arc::new(first.results()?);
        let mut codes: FxHashMap<ParameterPoint, ContentHash> = FxHashMap::default();
        let mut kernel = |point: &ParameterPoint| -> Result<Box<dyn Measure + 'a>, MeasureFailure> {
            let is_planned = *point == group.planned;
            let candidate = if is_planned { Some(base.clone()) } else { group.candidate(base, point) };
            let missing = || MeasureFailure::does_not_compile("no kernel has these parameters");
            let (mut run, code) = self.run_of(&candidate.ok_or_else(missing)?)?;
            codes.insert(point.clone(), code);
            run.heat().map_err(MeasureFailure::failed)?;
            run.expect(OutputExpectation::Bits(expected.clone()));
            if let Some(stop) = self.stop {
                run.stop_by(stop.clone());
            }
            Ok(Box::new(run))
        };
        // The code of each point is the optimised one already, so that few warm-ups do for a rung.
        let warm_up = WarmUpRule { min_time: 0, ..self.policy.warm_up };
        let policy = MeasurementPolicy { warm_up, ..self.policy.clone() };
        let (mut probe, mut clock) = (LinuxProbe, MonotonicClock::new());
        let found = tune(&group.space, &group.planned, &mut kernel, &policy, limits, &mut probe, &mut clock);
        let mut tuned = TunedPaths { points: Vec::new(), chosen: None };
        for TunedPoint { point, measurements } in found.points {
            let measured = measurements.into_iter().last().zip(codes.get(&point)).zip(group.candidate(base, &point));
            let Some(((measurement, &code), candidate)) = measured.filter(|_| point != group.planned) else { continue };
            if found.chosen.as_ref() == Some(&point) {
                tuned.chosen = Some(tuned.points.len());
            }
            tuned.points.push(TunedCandidate { candidate, code, measurement });
        }
        Ok(Some(tuned))
    }
}
