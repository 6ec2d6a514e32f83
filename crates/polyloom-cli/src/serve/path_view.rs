//! A path as people see it: what its recipe says in few words, and its predicted time.

use super::units;
use polyloom::graph::cost::{MachineCosts, predict};
use polyloom::graph::plan::PlanOptions;
use polyloom::graph::recipe::{KernelGroup, VerifiedRecipe};
use polyloom::graph::registry::KernelForm;
use polyloom::graph::{Dim, Graph, Recipe, SymbolValues};
use polyloom_store::{ImplementationRecord, WorkloadArgument};
use std::time::{Duration, Instant};

/// Predictions of one page take about so long together; planning large graphs takes milliseconds for each path.
const PREDICTION_TIME: Duration = Duration::from_millis(20);
/// Groups that are named one by one.
const MAX_NAMED_GROUPS: usize = 3;

/// A recipe, as far as this program can read it.
pub(super) struct PathView {
    /// The verified recipe, or the reason why there is none.
    pub(super) recipe: Result<VerifiedRecipe, String>,
    /// The backends.
    pub(super) name: String,
    /// Kernels, copies and parameters.
    pub(super) detail: String,
}

impl PathView {
    pub(super) fn of(implementation: &ImplementationRecord) -> PathView {
        let recipe = Recipe::from_json(&implementation.recipe).and_then(|recipe| recipe.verify());
        let recipe = recipe.map_err(|error| error.to_string());
        let (name, detail) = match &recipe {
            Ok(verified) => (backends(&verified.recipe), detail(&verified.recipe)),
            Err(_) => (
                "unknown".to_owned(),
                format!("a recipe of version {} that cannot be read", implementation.recipe_version),
            ),
        };
        PathView { recipe, name, detail }
    }
}

fn backends(recipe: &Recipe) -> String {
    let names: Vec<&str> = recipe.backends().into_iter().map(|backend| backend.name()).collect();
    if names.is_empty() { "no kernel".to_owned() } else { names.join(" + ") }
}

fn detail(recipe: &Recipe) -> String {
    let groups: Vec<&KernelGroup> = recipe.groups().collect();
    let mut parts = Vec::new();
    match groups.len() {
        0 => {}
        n if n <= MAX_NAMED_GROUPS => parts.extend(groups.iter().map(|group| group_text(group))),
        n => {
            let n_fused = groups.iter().filter(|group| group.form == KernelForm::Fused).count() as u64;
            let n_single = n as u64 - n_fused;
            parts.extend((n_fused > 0).then(|| units::counted(n_fused, "fused group")));
            parts.extend((n_single > 0).then(|| units::counted(n_single, "single kernel")));
        }
    }
    let n_copies = (recipe.steps.len() - groups.len()) as u64;
    match n_copies {
        0 => {}
        1 => parts.push("1\u{a0}copy".to_owned()),
        n => parts.push(format!("{}\u{a0}copies", units::count(n))),
    }
    let mut parameters: Vec<String> = groups.iter().map(|group| parameters_text(group)).collect();
    parameters.retain(|text| !text.is_empty());
    parameters.dedup();
    parts.extend(parameters.into_iter().take(MAX_NAMED_GROUPS));
    parts.join(", ")
}

/// Says in few words what a group computes.
pub(super) fn group_text(group: &KernelGroup) -> String {
    match group.form {
        KernelForm::Monolithic => group.kernel.clone(),
        KernelForm::Fused if group.nodes.len() == 1 => "1\u{a0}op".to_owned(),
        KernelForm::Fused => format!("{}\u{a0}ops fused", group.nodes.len()),
    }
}

/// Returns the parameters that are given, such as `tier 1, tile.rows 12`.
pub(super) fn parameters_text(group: &KernelGroup) -> String {
    fn flatten(prefix: &str, value: &serde_json::Value, parts: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    flatten(&name, value, parts);
                }
            }
            serde_json::Value::Null => {}
            value => parts.push(format!("{prefix}\u{a0}{value}")),
        }
    }
    let mut parts = Vec::new();
    flatten("", &serde_json::to_value(group.parameters).unwrap_or_default(), &mut parts);
    parts.join(", ")
}

/// Returns the group of each value of the program, by the place of its step among those that run.
pub(super) fn groups_of_values(verified: &VerifiedRecipe) -> Vec<Option<usize>> {
    let mut groups = vec![None; verified.program.values.len()];
    for (index, group) in verified.recipe.groups().enumerate() {
        for &node in &group.nodes {
            if let Some(slot) = groups.get_mut(node as usize) {
                *slot = Some(index);
            }
        }
    }
    groups
}

/// Predicts times by the default rates, which no calibration of the environment stands behind, as long as its time lasts.
pub(super) struct PathPredictor {
    costs: MachineCosts,
    ends: Instant,
}

impl PathPredictor {
    pub(super) fn new() -> PathPredictor {
        PathPredictor { costs: MachineCosts::default(), ends: Instant::now() + PREDICTION_TIME }
    }

    /// Returns the picoseconds of a path on arguments. None where the recipe cannot be read or does not fit, or the time is up.
    pub(super) fn predict(&self, view: &PathView, arguments: &[WorkloadArgument]) -> Option<u64> {
        let verified = view.recipe.as_ref().ok()?;
        if Instant::now() > self.ends {
            return None;
        }
        let symbols = symbols(&verified.program, arguments)?;
        let predicted = predict(verified, &symbols, &self.costs, &PlanOptions::default()).ok()?;
        let picoseconds = 1000.0 * predicted.total_ns();
        // The limit keeps charts finite; it is about a hundred days.
        (picoseconds.is_finite() && picoseconds < 1e19).then_some(picoseconds as u64)
    }
}

/// Returns the numbers that the symbols of a program stand for; none if the arguments do not fit it.
fn symbols(program: &Graph, arguments: &[WorkloadArgument]) -> Option<SymbolValues> {
    let mut symbols = SymbolValues::default();
    if program.inputs().count() != arguments.len() {
        return None;
    }
    for ((_, ty), argument) in program.inputs().zip(arguments) {
        if ty.shape.0.len() != argument.shape.len() {
            return None;
        }
        for (dim, &extent) in ty.shape.0.iter().zip(&argument.shape) {
            let known = match dim {
                Dim::Static(known) => *known,
                Dim::Symbol(name) => *symbols.entry(name.clone()).or_insert(extent),
            };
            if known != extent {
                return None;
            }
        }
    }
    Some(symbols)
}

#[cfg(test)]
mod tests {
    use super::symbols;
    use polyloom::graph::parse_graph;
    use polyloom_store::WorkloadArgument;

    #[test]
    fn symbols_get_the_extents_of_arguments() {
        let text = "%0 = input \"x\" : f32[n, 3]\n%1 = input \"y\" : f32[n, 3]\n%2 = add %0, %1\nreturn %2";
        let program = parse_graph(text).unwrap();
        let of = |shapes: &[&[u64]]| {
            let argument = |shape: &&[u64]| WorkloadArgument {
                dtype: "float32".to_owned(),
                shape: shape.to_vec(),
                layout: "c".to_owned(),
            };
            symbols(&program, &shapes.iter().map(argument).collect::<Vec<_>>())
        };
        assert_eq!(of(&[&[5, 3], &[5, 3]]).unwrap()["n"], 5);
        // The symbol is one number, the second extent is 3, and there are two inputs of two axes.
        for wrong in [&[&[5u64, 3][..], &[6, 3]][..], &[&[5, 4], &[5, 4]], &[&[5, 3]], &[&[5, 3], &[5]]] {
            assert_eq!(of(wrong), None);
        }
    }
}
