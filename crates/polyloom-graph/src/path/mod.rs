//! Paths: the ways in which a graph can be computed, the best-looking first.
//!
//! ```text
//! variants × composite ops whole or apart ──► forms ──► prefixes ──► recipes
//!                                            (form.rs)  (search.rs)  (finish.rs)
//! ```
//!
//! A [`PathGenerator`] goes over the forms of a graph: the variants that the caller gives, each with some of its composite ops whole and the others
//! taken apart. In a form, each node is given to a kernel of the registry, alone or in a group that is planned together, and values are copied to
//! where they are read. It is an iterator that works when it is asked for the next path, until all paths have been given, or the
//! [`PathLimits`] are reached; [`PathGenerator::stop_reason`] tells which.
//!
//! Design: `docs/design/paths.md`.

mod finish;
mod form;
mod prefix;
mod search;

use crate::backend::Residence;
use crate::cost::{GroupWork, MachineCosts, PredictedTime, StepTime, monolithic_time};
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef};
use crate::plan::PlanOptions;
use crate::recipe::{KernelGroup, Recipe, RecipeStep};
use crate::registry::{KernelForm, KernelRegistry};
use crate::specialise::SymbolValues;
use form::{FormQueue, PathForm};
use prefix::{PathPrefix, SearchCosts};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use search::FormSearch;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The prefixes that are continued before the first path is given, so that of a small graph's paths the best comes first.
const FIRST_PREFIXES: usize = 1000;
/// The prefixes that are continued between two paths.
const NEXT_PREFIXES: usize = 250;
/// The forms that are searched by turns. Another one is opened when one of them has no further path.
const MAX_OPEN_FORMS: usize = 4;

/// A graph that is equal to the one that is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct PathVariant {
    /// The graph, with inputs and outputs of the same types in the same order.
    pub graph: Graph,
    /// True if it computes the same bits, not the same real numbers alone.
    pub keeps_bits: bool,
}

/// The graph whose paths are asked for, and what they have to respect.
#[derive(Clone, Debug)]
pub struct PathRequest {
    /// The hash of its identity of bits, which recipes hold.
    pub hash: [u8; 32],
    /// The graph itself, and others that are equal to it.
    pub variants: Vec<PathVariant>,
    /// The numbers that its symbols stand for.
    pub symbols: SymbolValues,
    /// Says where its inputs are. NumPy's arrays are assumed for those that are missing.
    pub inputs: Vec<Residence>,
    /// Says where its outputs have to be.
    pub outputs: Residence,
    /// True if the outputs must have the bits that the graph defines.
    pub needs_bits: bool,
    /// True if the simulator is a backend like any other, as when paths are tested.
    pub allows_simulator: bool,
    /// The options of plans.
    pub plan_options: PlanOptions,
}

impl PathRequest {
    /// Asks for the paths of a graph of known extents, from NumPy's arrays to NumPy's arrays.
    pub fn new(graph: Graph, hash: [u8; 32]) -> PathRequest {
        PathRequest {
            hash,
            variants: vec![PathVariant { graph, keeps_bits: true }],
            symbols: SymbolValues::default(),
            inputs: Vec::new(),
            outputs: Residence::Numpy,
            needs_bits: false,
            allows_simulator: false,
            plan_options: PlanOptions::default(),
        }
    }
}

/// The bounds of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathLimits {
    /// The most paths.
    pub n_paths: usize,
    /// The most time that the generator itself takes.
    pub time: Duration,
    /// The most prefixes that wait to be continued, which bounds the memory.
    pub n_prefixes: usize,
}

impl Default for PathLimits {
    fn default() -> PathLimits {
        PathLimits { n_paths: 64, time: Duration::from_millis(100), n_prefixes: 200_000 }
    }
}

/// The reason why there is no further path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StopReason {
    /// All paths have been given.
    Exhausted,
    /// So many paths have been given as were asked for.
    PathLimit,
    /// The time is up.
    TimeLimit,
    /// Too many prefixes wait to be continued.
    PrefixLimit,
    /// A form of the graph could not be made.
    Failed,
}

/// A way to compute a graph, with the time that it should take.
#[derive(Clone, PartialEq, Debug)]
pub struct ComputePath {
    /// The recipe.
    pub recipe: Recipe,
    /// Its predicted time.
    pub predicted: PredictedTime,
    /// True if it computes another graph, which is equal over the real numbers alone.
    pub is_rewritten: bool,
}

/// A path that waits to be given.
struct WaitingPath {
    ns: f64,
    serial: usize,
    path: ComputePath,
}

impl PartialEq for WaitingPath {
    fn eq(&self, other: &WaitingPath) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for WaitingPath {}

impl PartialOrd for WaitingPath {
    fn partial_cmp(&self, other: &WaitingPath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The greatest is the cheapest, because that is what a heap gives first.
impl Ord for WaitingPath {
    fn cmp(&self, other: &WaitingPath) -> Ordering {
        other.ns.total_cmp(&self.ns).then(other.serial.cmp(&self.serial))
    }
}

/// Gives the paths of a graph, lazily and the best-looking first.
///
/// ```
/// use polyloom_graph::cost::MachineCosts;
/// use polyloom_graph::path::{PathGenerator, PathLimits, PathRequest};
/// use polyloom_graph::{Backend, KernelRegistry, parse_graph};
///
/// let graph = parse_graph("%x = input \"x\" : f32[1024]\n%y = exp %x\n%z = add %y, 1.0\nreturn %z")?;
/// let registry = KernelRegistry::with_backends(&[Backend::CpuNumpy, Backend::CpuNative]);
/// let request = PathRequest::new(graph, [0; 32]);
/// let mut paths = PathGenerator::new(request, &registry, MachineCosts::default(), PathLimits::default());
/// // Both ops in one kernel.
/// let first = paths.next().unwrap();
/// assert_eq!(first.recipe.groups().count(), 1);
/// assert_eq!(first.recipe.backends(), [Backend::CpuNative]);
/// // Each op on its own or both together, on either backend: five.
/// assert_eq!(1 + paths.count(), 5);
/// # Ok::<(), polyloom_graph::GraphError>(())
/// ```
pub struct PathGenerator<'r> {
    request: PathRequest,
    registry: &'r KernelRegistry,
    costs: SearchCosts,
    limits: PathLimits,
    queue: FormQueue,
    searches: Vec<FormSearch>,
    /// The search that is continued next.
    turn: usize,
    waiting: BinaryHeap<WaitingPath>,
    seen: FxHashSet<u64>,
    works: GroupWorks,
    n_found: usize,
    n_given: usize,
    elapsed: Duration,
    stop_reason: Option<StopReason>,
    error: Option<GraphError>,
}

impl<'r> PathGenerator<'r> {
    /// Begins a search.
    pub fn new(
        request: PathRequest,
        registry: &'r KernelRegistry,
        costs: MachineCosts,
        limits: PathLimits,
    ) -> PathGenerator<'r> {
        PathGenerator {
            queue: FormQueue::new(&request),
            request,
            registry,
            costs: SearchCosts::new(costs),
            limits,
            searches: Vec::new(),
            turn: 0,
            waiting: BinaryHeap::new(),
            seen: FxHashSet::default(),
            works: GroupWorks::default(),
            n_found: 0,
            n_given: 0,
            elapsed: Duration::ZERO,
            stop_reason: None,
            error: None,
        }
    }

    /// Returns the reason why there is no further path, once there is none.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason
    }

    /// Returns the error of the form that could not be made, if that was the reason.
    pub fn error(&self) -> Option<&GraphError> {
        self.error.as_ref()
    }

    /// Returns the time that the generator itself has taken.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Opens the next form, with a path for each backend.
    fn open_form(&mut self) -> Result<bool, GraphError> {
        let Some(form) = self.queue.next(&self.request, self.registry, &self.costs.machine)? else { return Ok(false) };
        let mut search = FormSearch::new(form, &self.costs);
        let mut uniform: Vec<PathPrefix> = Vec::new();
        for backend in self.registry.backends() {
            if !backend.may_be_fastest() && !self.request.allows_simulator {
                continue;
            }
            uniform.extend(search.uniform(&self.costs, backend, true));
            if backend.plans_groups() {
                uniform.extend(search.uniform(&self.costs, backend, false));
            }
        }
        for path in uniform {
            self.keep(path, &mut search.form)?;
        }
        self.searches.push(search);
        Ok(true)
    }

    /// Keeps a path to be given, unless it was found before or another one does the same.
    fn keep(&mut self, mut path: PathPrefix, form: &mut PathForm) -> Result<(), GraphError> {
        path.finish(form, &self.costs, self.request.outputs);
        let recipe = finish::recipe(&path, form, &self.request);
        let mut hasher = FxHasher::default();
        form.text.hash(&mut hasher);
        for group in recipe.groups() {
            (group.backend, group.form, &group.kernel, &group.nodes).hash(&mut hasher);
        }
        if !self.seen.insert(hasher.finish()) {
            return Ok(());
        }
        if finish::is_redundant(&recipe, form) {
            return Ok(());
        }
        let predicted = predict(&recipe, form, &mut self.works, &self.costs.machine, &self.request.plan_options)?;
        let path = ComputePath { recipe, predicted, is_rewritten: !form.keeps_bits };
        self.waiting.push(WaitingPath { ns: path.predicted.total_ns(), serial: self.n_found, path });
        self.n_found += 1;
        Ok(())
    }

    /// Continues searches until so many prefixes have been continued, or all is found.
    fn work(&mut self, n_prefixes: usize, started: Instant) -> Result<(), GraphError> {
        let mut left = n_prefixes;
        loop {
            let is_late = self.elapsed + started.elapsed() >= self.limits.time;
            // The first form is opened whatever the limits, so that there is a path.
            if is_late && self.n_found > 0 || left == 0 && !self.waiting.is_empty() {
                return Ok(());
            }
            if self.turn >= self.searches.len() {
                self.turn = 0;
                let may_open = self.searches.len() < MAX_OPEN_FORMS;
                if !(may_open && self.open_form()?) && self.searches.is_empty() {
                    return Ok(());
                }
                continue;
            }
            let (path, n_continued) = self.searches[self.turn].sweep(&self.costs, self.limits.n_paths);
            left = left.saturating_sub(n_continued.max(1));
            if let Some(path) = path {
                let mut search = self.searches.swap_remove(self.turn);
                let kept = self.keep(path, &mut search.form);
                self.searches.push(search);
                let last = self.searches.len() - 1;
                self.searches.swap(self.turn, last);
                kept?;
            }
            if self.searches[self.turn].n_candidates() == 0 {
                self.searches.remove(self.turn);
            } else {
                self.turn += 1;
            }
            let n_waiting: usize = self.searches.iter().map(FormSearch::n_candidates).sum();
            if n_waiting > self.limits.n_prefixes {
                self.stop_reason = Some(StopReason::PrefixLimit);
                return Ok(());
            }
        }
    }

    fn find(&mut self) -> Option<ComputePath> {
        if matches!(self.stop_reason, Some(StopReason::PathLimit | StopReason::Failed)) {
            return None;
        }
        if self.n_given >= self.limits.n_paths {
            self.stop_reason = Some(StopReason::PathLimit);
            return None;
        }
        if self.stop_reason.is_none() {
            let started = Instant::now();
            let n_prefixes = if self.n_given == 0 { FIRST_PREFIXES } else { NEXT_PREFIXES };
            let worked = self.work(n_prefixes, started);
            self.elapsed += started.elapsed();
            if let Err(error) = worked {
                self.error = Some(error);
                self.stop_reason = Some(StopReason::Failed);
            } else if self.stop_reason.is_none() && self.elapsed >= self.limits.time {
                self.stop_reason = Some(StopReason::TimeLimit);
            }
        }
        // The best so far is returned, whatever ended the search.
        let next = self.waiting.pop().map(|waiting| waiting.path);
        match next {
            Some(_) => self.n_given += 1,
            None if self.stop_reason.is_none() => self.stop_reason = Some(StopReason::Exhausted),
            None => {}
        }
        next
    }
}

impl Iterator for PathGenerator<'_> {
    type Item = ComputePath;

    fn next(&mut self) -> Option<ComputePath> {
        self.find()
    }
}

/// The work of the groups that have been planned, each by its graph without the names of its inputs. Models repeat their layers, and forms and
/// backends share most of their groups, so that most have been planned before.
type GroupWorks = FxHashMap<Graph, GroupWork>;

/// Predicts the time of a recipe of a form, whose groups are planned once.
fn predict(
    recipe: &Recipe,
    form: &mut PathForm,
    works: &mut GroupWorks,
    costs: &MachineCosts,
    options: &PlanOptions,
) -> Result<PredictedTime, GraphError> {
    let PathForm { known, readers, values, nodes, group_times, .. } = form;
    let mut of_group = |group: &KernelGroup| -> Result<StepTime, GraphError> {
        let first = group.nodes.first().and_then(|&node| values[node as usize].node);
        if let (KernelForm::Monolithic, Some(node)) = (group.form, first) {
            return Ok(monolithic_time(group.backend, &nodes[node as usize].work, costs));
        }
        let key = (group.backend, group.nodes.clone());
        if let Some(time) = group_times.get(&key) {
            return Ok(*time);
        }
        let part = readers.extract(known, &group.nodes)?.graph;
        let unnamed = without_names(part.clone());
        let time = match works.get(&unnamed) {
            Some(work) => work.time(group.backend, costs),
            None => {
                // The groups of the search have the parameters that all kernels have before they are tuned.
                let work = GroupWork::of(&part, &group.parameters.plan_options(options))?;
                let time = work.time(group.backend, costs);
                works.insert(unnamed, work);
                time
            }
        };
        group_times.insert(key, time);
        Ok(time)
    };
    let steps = recipe.steps.iter().map(|step| match step {
        RecipeStep::CopyTo { value, from, to } => {
            let n_bytes = values[*value as usize].n_bytes;
            Ok(StepTime { n_bytes, transfer_ns: costs.transfer_ns(*from, *to, n_bytes), ..StepTime::default() })
        }
        RecipeStep::Run(group) => of_group(group),
    });
    Ok(PredictedTime { steps: steps.collect::<Result<_, _>>()? })
}

fn without_names(mut graph: Graph) -> Graph {
    let none: Arc<str> = Arc::from("");
    for value in &mut graph.values {
        if let TensorDef::Input(name) = &mut value.def {
            *name = none.clone();
        }
    }
    graph
}
