//! The ways to run a computation, as the planner offers them: the default first, then the generator's.

use super::computation::{ExtentScale, PlannedComputation};
use polyloom_graph::cost::{MachineCosts, predict};
use polyloom_graph::equivalence::{EquivalenceLimits, best_variant};
use polyloom_graph::op::CostModel;
use polyloom_graph::path::{PathGenerator, PathLimits, PathRequest, PathVariant, StopReason};
use polyloom_graph::recipe::{KernelGroup, KernelParameters, RecipeIdentity, RecipeStep, VerifiedRecipe};
use polyloom_graph::registry::{KernelForm, PLANNED};
use polyloom_graph::{
    Backend, Dim, Graph, KernelRegistry, Recipe, RecipeError, Residence, TensorDef, TensorId, TensorOp, TensorType,
    rescale, verify,
};
use polyloom_store::{ContentHash, ImplementationRecord, PathIdentity};
use std::time::Duration;

/// Laws are not applied to larger graphs.
const MAX_VARIANT_VALUES: usize = 400;
/// The bounds of the laws. Of small graphs, nodes and rounds end before the time does, so that the same variant is found
/// each time; planning one of 200 ops may take 50 ms in all.
const VARIANT_NODES: usize = 2000;
const VARIANT_ROUNDS: usize = 8;
const VARIANT_TIME: Duration = Duration::from_millis(15);

/// A way to run a computation.
#[derive(Clone, Debug)]
pub struct PathCandidate {
    /// The recipe, which can run on a machine that has its backends.
    pub verified: VerifiedRecipe,
    /// Its record.
    pub record: ImplementationRecord,
    /// The hash of the record.
    pub hash: ContentHash,
    /// The predicted time in nanoseconds.
    pub predicted_ns: f64,
    /// True of what runs where nothing is known: one plan of all nodes.
    pub is_default: bool,
    /// True if it computes another graph, which is equal over the real numbers alone: on some numbers it may overflow where the graph does
    /// not, so that it has to be verified before it is chosen.
    pub is_rewritten: bool,
}

/// The candidates of a computation.
#[derive(Clone, Debug)]
pub struct CandidateList {
    /// The candidates: the default, those of one backend op by op, and then the best-looking.
    pub paths: Vec<PathCandidate>,
    /// The reason why there are no more.
    pub stopped: StopReason,
}

impl PathCandidate {
    /// Makes the candidate of a recipe.
    ///
    /// # Errors
    ///
    /// [`RecipeError`] if it cannot run.
    pub fn new(recipe: &Recipe, predicted_ns: f64, is_default: bool) -> Result<PathCandidate, RecipeError> {
        let verified = recipe.verify()?;
        let identity = match recipe.identity {
            RecipeIdentity::Bits => PathIdentity::Bits,
            RecipeIdentity::Mathematics => PathIdentity::Mathematics,
        };
        let record = ImplementationRecord {
            graph: ContentHash(recipe.graph),
            recipe: recipe.to_json(),
            recipe_version: recipe.version,
            identity,
            is_default,
        };
        let hash = record.hash().map_err(|error| RecipeError::Syntax(error.to_string()))?;
        Ok(PathCandidate { verified, record, hash, predicted_ns, is_default, is_rewritten: false })
    }

    /// Returns the path with code of one tier in those of its kernels on the CPU that no tier is chosen for; none if there are no such.
    pub(super) fn at_tier(&self, tier: u8) -> Option<PathCandidate> {
        let mut recipe = Recipe::clone(&self.verified.recipe);
        let mut is_other = false;
        for step in &mut recipe.steps {
            if let RecipeStep::Run(group) = step
                && group.backend == Backend::CpuNative
                && group.parameters.tier.is_none()
            {
                group.parameters.tier = Some(tier);
                is_other = true;
            }
        }
        let candidate = PathCandidate::new(&recipe, self.predicted_ns, self.is_default).ok()?;
        is_other.then_some(candidate)
    }

    /// Returns the path in a computation that is the same for smaller arrays; none if its program has no such form.
    pub(super) fn rescaled(&self, computation: &PlannedComputation, scale: &ExtentScale) -> Option<PathCandidate> {
        let program = rescale(&self.verified.program, scale)?.to_string();
        let recipe = Recipe { graph: computation.identity.bits.hash.0, program, ..self.verified.recipe.clone() };
        PathCandidate::new(&recipe, self.predicted_ns, self.is_default).ok()
    }

    /// Returns true if the path keeps the bits that the graph defines.
    pub fn keeps_bits(&self) -> bool {
        self.record.identity == PathIdentity::Bits
    }
}

/// Returns the recipe of what `fuse` runs by itself: all nodes in one plan for the CPU.
pub fn default_recipe(computation: &PlannedComputation) -> Recipe {
    let nodes = op_nodes(&computation.graph);
    Recipe {
        version: Recipe::VERSION,
        graph: computation.identity.bits.hash.0,
        identity: RecipeIdentity::Bits,
        inputs: vec![Residence::Numpy; computation.graph.inputs().count()],
        outputs: Residence::Numpy,
        program: computation.graph.to_string(),
        steps: vec![RecipeStep::Run(KernelGroup {
            backend: Backend::CpuNative,
            form: KernelForm::Fused,
            kernel: PLANNED.to_owned(),
            nodes,
            parameters: KernelParameters::default(),
        })],
    }
}

/// Returns the recipe by which each op is a plan of its own.
pub(super) fn op_by_op_recipe(computation: &PlannedComputation) -> Recipe {
    let mut recipe = default_recipe(computation);
    let group = |node: u32| {
        RecipeStep::Run(KernelGroup {
            backend: Backend::CpuNative,
            form: KernelForm::Fused,
            kernel: PLANNED.to_owned(),
            nodes: vec![node],
            parameters: KernelParameters::default(),
        })
    };
    recipe.steps = op_nodes(&computation.graph).into_iter().map(group).collect();
    recipe
}

/// Returns the candidates of a computation over the kernels of a registry. With `needs_bits`, paths whose results may differ by rounding
/// are left out.
///
/// # Errors
///
/// [`RecipeError`] if the default path cannot be described.
pub fn candidates(
    computation: &PlannedComputation,
    registry: &KernelRegistry,
    costs: &MachineCosts,
    limits: PathLimits,
    needs_bits: bool,
) -> Result<CandidateList, RecipeError> {
    let recipe = default_recipe(computation);
    let mut default = PathCandidate::new(&recipe, 0.0, true)?;
    let predicted = predict(&default.verified, &computation.symbols, costs, &computation.options);
    default.predicted_ns = predicted.map_or(f64::INFINITY, |time| time.total_ns());
    let mut paths = vec![default];
    let mut request = PathRequest::new(computation.graph.clone(), computation.identity.bits.hash.0);
    request.symbols.clone_from(&computation.symbols);
    request.needs_bits = needs_bits;
    request.plan_options = computation.options;
    if !needs_bits && let Some(graph) = cheaper_variant(computation) {
        request.variants.push(PathVariant { graph, keeps_bits: false });
    }
    let mut keep = |recipe: &Recipe, predicted_ns: f64, is_rewritten: bool| -> Result<(), RecipeError> {
        // The search numbers values as the form does, which may be another text of the same plan.
        if is_one_plan(recipe) || needs_bits && recipe.identity != RecipeIdentity::Bits {
            return Ok(());
        }
        let candidate = PathCandidate { is_rewritten, ..PathCandidate::new(recipe, predicted_ns, false)? };
        if paths.iter().all(|other| other.hash != candidate.hash) {
            paths.push(candidate);
        }
        Ok(())
    };
    // The path that differs most from the default comes first, because many good-looking paths that differ in one op would leave no place for it.
    if registry.has(Backend::CpuNative) {
        let recipe = op_by_op_recipe(computation);
        let predicted = recipe
            .verify()
            .ok()
            .and_then(|verified| predict(&verified, &computation.symbols, costs, &computation.options).ok());
        if let Some(predicted) = predicted {
            keep(&recipe, predicted.total_ns(), false)?;
        }
    }
    for backend in registry.backends().filter(|backend| !backend.plans_groups()) {
        let own = registry.restricted(&[backend]);
        let first = PathLimits { n_paths: request.variants.len(), ..limits };
        for path in PathGenerator::new(request.clone(), &own, costs.clone(), first) {
            keep(&path.recipe, path.predicted.total_ns(), path.is_rewritten)?;
        }
    }
    let mut generator = PathGenerator::new(request, registry, costs.clone(), limits);
    for path in generator.by_ref() {
        keep(&path.recipe, path.predicted.total_ns(), path.is_rewritten)?;
    }
    Ok(CandidateList { paths, stopped: generator.stop_reason().unwrap_or(StopReason::PathLimit) })
}

/// Returns the graph with the least operations that is equal over the real numbers, as far as laws lead to one within their bounds.
fn cheaper_variant(computation: &PlannedComputation) -> Option<Graph> {
    if computation.graph.values.len() > MAX_VARIANT_VALUES {
        return None;
    }
    let elements = |ty: &TensorType| {
        let extent = |dim: &Dim| match dim {
            Dim::Static(extent) => *extent as f64,
            Dim::Symbol(name) => computation.symbols.get(name).map_or(1.0, |extent| *extent as f64),
        };
        ty.shape.0.iter().map(extent).product::<f64>()
    };
    let cost = |op: TensorOp, operands: &[TensorType], result: &TensorType| {
        let all = elements(result) + operands.iter().map(&elements).sum::<f64>();
        match (op.info().cost, operands) {
            // The extents of a product of matrices each appear in two of its three tensors.
            (CostModel::Contraction, [a, b, ..]) => all + (elements(a) * elements(b) * elements(result)).sqrt(),
            _ if op.info().moves_by_index() => 0.1 * all,
            _ => all,
        }
    };
    let limits = EquivalenceLimits {
        nodes: VARIANT_NODES,
        iterations: VARIANT_ROUNDS,
        time: VARIANT_TIME,
        ..EquivalenceLimits::default()
    };
    let (variant, _) = best_variant(&computation.graph, limits, &cost).ok()?;
    let types = |graph: &Graph| -> Vec<Option<TensorType>> {
        graph.outputs.iter().map(|&output| Some(graph.value(output)?.ty.clone())).collect()
    };
    let is_another = variant != computation.graph && types(&variant) == types(&computation.graph);
    (is_another && verify(&variant).is_ok()).then_some(variant)
}

fn is_one_plan(recipe: &Recipe) -> bool {
    match &recipe.steps[..] {
        [RecipeStep::Run(group)] => {
            group.backend == Backend::CpuNative
                && group.form == KernelForm::Fused
                && group.parameters == KernelParameters::default()
                && recipe.identity == RecipeIdentity::Bits
        }
        _ => false,
    }
}

fn op_nodes(graph: &Graph) -> Vec<u32> {
    graph.iter().filter(|(_, value)| matches!(value.def, TensorDef::Op { .. })).map(|(id, _)| id.0).collect()
}

/// Describes the parameters that are given, after a space; nothing if none are.
fn describe_parameters(parameters: &KernelParameters) -> String {
    let KernelParameters { tile, vector_bytes, threads, block_size, unroll, tier } = parameters;
    let tile = tile.map(|tile| {
        let packs = match (tile.packs_left, tile.packs_right) {
            (true, true) => ", both packed",
            (true, false) => ", left packed",
            (false, true) => ", right packed",
            (false, false) => "",
        };
        format!("tile {}×{}{packs}, {} grouped, pieces of {}", tile.rows, tile.columns, tile.n_grouped, tile.piece)
    });
    let number = |name: &str, value: Option<u32>| value.map(|value| format!("{name} {value}"));
    let parts = [
        tile,
        number("vector bytes", *vector_bytes),
        number("threads", *threads),
        number("block", *block_size),
        number("unroll", *unroll),
        number("tier", tier.map(u32::from)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(" [{}]", parts.join(", ")) }
}

/// Describes a path in one line: the backends in the order of steps, with the ops that each computes.
pub fn describe_path(path: &VerifiedRecipe) -> String {
    let name = |node: &u32| match path.program.value(TensorId(*node)).map(|value| &value.def) {
        Some(TensorDef::Op { op, .. }) => op.name(),
        _ => "?",
    };
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    for step in &path.recipe.steps {
        let (backend, ops) = match step {
            RecipeStep::CopyTo { .. } => continue,
            RecipeStep::Run(group) => {
                let parameters = describe_parameters(&group.parameters);
                let mut names: Vec<&str> = group.nodes.iter().map(name).collect();
                if names.len() > 6 {
                    let n_left = names.len() - 5;
                    names.truncate(5);
                    let mut text = names.join("+");
                    text.push_str(&format!("+{n_left} more{parameters}"));
                    (group.backend.name(), text)
                } else {
                    (group.backend.name(), names.join("+") + &parameters)
                }
            }
        };
        match parts.last_mut() {
            Some((last, groups)) if last.as_str() == backend => groups.push(ops),
            _ => parts.push((backend.to_owned(), vec![ops])),
        }
    }
    let part = |(backend, groups): &(String, Vec<String>)| {
        let shown = if groups.len() > 4 {
            format!("{}, … {} kernels", groups[..3].join(", "), groups.len())
        } else {
            groups.join(", ")
        };
        format!("{backend} ({shown})")
    };
    parts.iter().map(part).collect::<Vec<_>>().join(" → ")
}
