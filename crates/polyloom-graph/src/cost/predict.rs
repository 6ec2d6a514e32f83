//! The predicted time of a recipe, with its parts, so that it can be explained.

use super::machine::MachineCosts;
use super::work::{NodeWork, bytes_of};
use crate::backend::Backend;
use crate::decompose::decompose;
use crate::error::GraphError;
use crate::graph::{Graph, TensorId};
use crate::layout::Layout;
use crate::plan::{PlanOptions, plan};
use crate::recipe::{KernelGroup, RecipeStep, VerifiedRecipe};
use crate::registry::KernelForm;
use crate::specialise::{SymbolValues, specialise};
use serde::Serialize;

/// The predicted time of a step, with its parts.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct StepTime {
    /// The number of launches, or calls.
    pub n_launches: u32,
    /// The bytes that kernels read and write, or that are copied.
    pub n_bytes: u64,
    /// The elementwise operations.
    pub flops: u64,
    /// The operations of products of matrices.
    pub product_flops: u64,
    /// The time of launches that do nothing.
    pub launch_ns: f64,
    /// The time of moving bytes.
    pub memory_ns: f64,
    /// The time of elementwise operations.
    pub element_ns: f64,
    /// The time of products of matrices.
    pub product_ns: f64,
    /// The time of copies between memories, or of taking an array as another library's.
    pub transfer_ns: f64,
}

impl StepTime {
    /// Returns the time of the whole: elementwise arithmetic is done while bytes move.
    pub fn total_ns(&self) -> f64 {
        self.launch_ns + self.memory_ns.max(self.element_ns) + self.product_ns + self.transfer_ns
    }
}

/// The predicted time of a recipe.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct PredictedTime {
    /// The times of the steps, in their order.
    pub steps: Vec<StepTime>,
}

impl PredictedTime {
    /// Returns the sum over the steps.
    pub fn total_ns(&self) -> f64 {
        self.steps.iter().map(StepTime::total_ns).sum()
    }

    /// Returns the sum of the copies between memories.
    pub fn transfer_ns(&self) -> f64 {
        self.steps.iter().map(|step| step.transfer_ns).sum()
    }
}

/// Predicts the time of a recipe for given extents. Groups are planned as they would be to run.
///
/// # Errors
///
/// [`GraphError`] if an extent stays a symbol, or a group cannot be planned.
pub fn predict(
    recipe: &VerifiedRecipe,
    symbols: &SymbolValues,
    costs: &MachineCosts,
    options: &PlanOptions,
) -> Result<PredictedTime, GraphError> {
    let program = specialise(&recipe.program, symbols)?;
    let steps = recipe.recipe.steps.iter().map(|step| match step {
        RecipeStep::CopyTo { value, from, to } => {
            let n_bytes = program.value(TensorId(*value)).and_then(|value| bytes_of(&value.ty));
            let n_bytes = n_bytes.ok_or_else(|| unknown_extents(TensorId(*value)))?;
            Ok(StepTime { n_bytes, transfer_ns: costs.transfer_ns(*from, *to, n_bytes), ..StepTime::default() })
        }
        RecipeStep::Run(group) if group.form == KernelForm::Monolithic => {
            let node = TensorId(group.nodes.first().copied().unwrap_or(0));
            let work = NodeWork::of(&program, node).ok_or_else(|| unknown_extents(node))?;
            Ok(monolithic_time(group.backend, &work, costs))
        }
        RecipeStep::Run(group) => group_time(&program, group, costs, options),
    });
    Ok(PredictedTime { steps: steps.collect::<Result<_, GraphError>>()? })
}

/// Predicts the time of one op as a kernel of its own.
pub(crate) fn monolithic_time(backend: Backend, work: &NodeWork, costs: &MachineCosts) -> StepTime {
    let rates = costs.backend(backend);
    let n_bytes = work.cost.bytes_read.saturating_add(work.cost.bytes_written);
    let (element_ns, product_ns) = rates.node_ns(work);
    StepTime {
        n_launches: 1,
        n_bytes,
        flops: work.flops,
        product_flops: work.product_flops,
        launch_ns: rates.launch_ns,
        memory_ns: rates.memory_ns(n_bytes),
        element_ns,
        product_ns,
        transfer_ns: 0.0,
    }
}

/// Predicts the time of a group that is planned: its kernels and their bytes are those of the plan.
pub(crate) fn group_time(
    program: &Graph,
    group: &KernelGroup,
    costs: &MachineCosts,
    options: &PlanOptions,
) -> Result<StepTime, GraphError> {
    let part = group.graph(program)?.graph;
    let layouts = part.inputs().map(|(_, ty)| Some(Layout::dense(&ty.shape.as_static()?)));
    let layouts: Vec<Layout> = layouts.collect::<Option<_>>().ok_or_else(|| unknown_extents(TensorId(0)))?;
    let planned = plan(&part, &layouts, &group.parameters.plan_options(options))?;
    let rates = costs.backend(group.backend);
    let mut time = StepTime { n_launches: planned.kernels.len() as u32, ..StepTime::default() };
    time.launch_ns = rates.launch_ns * f64::from(time.n_launches);
    for kernel in &planned.kernels {
        time.n_bytes += kernel.n_bytes;
        time.memory_ns += rates.memory_ns(kernel.n_bytes);
    }
    let simple = decompose(&part)?;
    for (id, _) in simple.iter() {
        let work = NodeWork::of(&simple, id).ok_or_else(|| unknown_extents(id))?;
        time.flops = time.flops.saturating_add(work.flops);
        time.product_flops = time.product_flops.saturating_add(work.product_flops);
        time.element_ns += rates.element_ns(work.flops, work.dtype);
        time.product_ns += rates.product_ns(work.product_flops, work.dtype);
    }
    // What is known of ops is known of composite ones as they are in the program, by their parts together.
    for (id, _) in part.iter() {
        let work = NodeWork::of(&part, id).ok_or_else(|| unknown_extents(id))?;
        let correction_ns = rates.correction_ns(&work);
        if work.product_flops > 0 {
            time.product_ns += correction_ns;
        } else {
            time.element_ns += correction_ns;
        }
    }
    (time.element_ns, time.product_ns) = (time.element_ns.max(0.0), time.product_ns.max(0.0));
    Ok(time)
}

fn unknown_extents(value: TensorId) -> GraphError {
    GraphError::Invalid { value, reason: "has no known extents, so that its time cannot be predicted".to_owned() }
}
