//! Finding the recipes of a graph that a function of tensors as a whole has: a call of the fused function may count its inputs in
//! another order, in which it comes to use them, and leaves out those that it does not use.

use super::PlannedComputation;
use crate::artifact::FusedRecipe;
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::{Graph, GraphError, Layout, Recipe, RecipeError, TensorDef, TensorId};

/// Returns the computations of a graph with dense inputs, with the input of the graph that each of their inputs is: in its own order, and in
/// that of their use.
///
/// # Errors
///
/// [`GraphError`] if an extent is not known, or the graph has no canonical form.
pub fn computations_of(
    graph: &Graph,
    options: PlanOptions,
) -> Result<Vec<(PlannedComputation, Vec<usize>)>, GraphError> {
    let own: Vec<usize> = (0..graph.inputs().count()).collect();
    let mut made = vec![(computation(graph, options)?, own)];
    let (by_use, inputs) = by_use(graph);
    if inputs != made[0].1 {
        made.push((computation(&by_use, options)?, inputs));
    }
    Ok(made)
}

fn computation(graph: &Graph, options: PlanOptions) -> Result<PlannedComputation, GraphError> {
    let unknown = || GraphError::Evaluation("an extent of an input is not known".to_owned());
    let layouts = graph.inputs().map(|(_, ty)| Some(Layout::dense(&ty.shape.as_static()?)));
    let layouts: Vec<Layout> = layouts.collect::<Option<_>>().ok_or_else(unknown)?;
    PlannedComputation::new(graph, &layouts, options)
}

/// Returns the graph with its inputs in the order in which ops use them, and the places that they had.
fn by_use(graph: &Graph) -> (Graph, Vec<usize>) {
    let is_input = |id: TensorId| matches!(graph.value(id).map(|value| &value.def), Some(TensorDef::Input(_)));
    let inputs: Vec<TensorId> = graph.iter().map(|(id, _)| id).filter(|&id| is_input(id)).collect();
    let mut used: Vec<TensorId> = Vec::new();
    let operands = graph.values.iter().flat_map(|value| value.operands().iter().copied());
    for id in operands.chain(graph.outputs.iter().copied()) {
        if is_input(id) && !used.contains(&id) {
            used.push(id);
        }
    }
    let others = graph.iter().map(|(id, _)| id).filter(|&id| !is_input(id));
    let order: Vec<TensorId> = used.iter().copied().chain(others).collect();
    let mut new_ids = vec![TensorId(0); graph.values.len()];
    order.iter().enumerate().for_each(|(new, old)| new_ids[old.0 as usize] = TensorId(new as u32));
    let renamed = |id: &TensorId| new_ids[id.0 as usize];
    let values = order.iter().map(|old| {
        let mut value = graph.values[old.0 as usize].clone();
        if let TensorDef::Op { operands, .. } = &mut value.def {
            operands.iter_mut().for_each(|operand| *operand = renamed(operand));
        }
        value
    });
    let made = Graph { values: values.collect(), outputs: graph.outputs.iter().map(renamed).collect() };
    let places = used.iter().filter_map(|id| inputs.iter().position(|input| input == id)).collect();
    (made, places)
}

/// Fits a recipe to a graph of known extents and dense inputs.
///
/// # Errors
///
/// [`RecipeError`] if it cannot run, or is of another graph.
pub fn fit_recipe(graph: &Graph, recipe: &Recipe, options: PlanOptions) -> Result<FusedRecipe, RecipeError> {
    let verified = recipe.verify()?;
    let mut wrong = None;
    for (computation, inputs) in computations_of(graph, options)? {
        match verified.fits(&computation.graph, &computation.identity.bits.hash.0) {
            Ok(()) => match computation.symbols_of(&verified.program) {
                Some(symbols) => return Ok(FusedRecipe { verified, symbols, inputs }),
                None => wrong = Some(RecipeError::OtherInterface("it takes other extents".to_owned())),
            },
            Err(error) => wrong = Some(wrong.unwrap_or(error)),
        }
    }
    Err(wrong.unwrap_or_else(|| RecipeError::OtherInterface("the graph has no form".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::{computations_of, fit_recipe};
    use crate::planner::default_recipe;
    use polyloom_graph::{Recipe, parse_graph};

    #[test]
    fn a_recipe_fits_a_graph_that_counts_its_inputs_otherwise() {
        let own = "%0 = input \"b\" : f32[4]\n%1 = input \"unused\" : f32[2]\n%2 = input \"a\" : f32[3, 4]\n\
                   %3 = exp %2\n%4 = add %3, %0\nreturn %4";
        let other = "%0 = input \"x\" : f32[3, 4]\n%1 = input \"y\" : f32[4]\n%2 = exp %0\n%3 = add %2, %1\nreturn %3";
        let [own, other] = [own, other].map(|text| parse_graph(text).unwrap());
        let (computation, _) = computations_of(&other, Default::default()).unwrap().remove(0);
        let recipe = default_recipe(&computation);
        assert_eq!(fit_recipe(&own, &recipe, Default::default()).unwrap().inputs, [2, 0]);
        assert_eq!(fit_recipe(&other, &recipe, Default::default()).unwrap().inputs, [0, 1]);
        let foreign = Recipe { graph: [7; 32], ..recipe };
        assert!(fit_recipe(&own, &foreign, Default::default()).is_err());
    }
}
