//! Removes the values that no output depends on.

use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId};

/// Returns the graph without values that no output depends on. Inputs stay, because those who call the graph count them.
///
/// # Errors
///
/// [`GraphError::UnknownValue`] if an operand is defined after its use, which no verified graph has.
pub fn prune(graph: &Graph) -> Result<Graph, GraphError> {
    let is_used = used_values(graph)?;
    let mut new_ids: Vec<Option<TensorId>> = Vec::with_capacity(graph.values.len());
    let mut pruned = Graph::default();
    for (id, value) in graph.iter() {
        if !is_used[id.0 as usize] {
            new_ids.push(None);
            continue;
        }
        let mut value = value.clone();
        if let TensorDef::Op { operands, .. } = &mut value.def {
            for operand in operands {
                *operand = renamed(&new_ids, *operand)?;
            }
        }
        new_ids.push(Some(TensorId(pruned.values.len() as u32)));
        pruned.values.push(value);
    }
    pruned.outputs = graph.outputs.iter().map(|&output| renamed(&new_ids, output)).collect::<Result<_, _>>()?;
    Ok(pruned)
}

/// Marks inputs and the values that outputs depend on.
///
/// # Errors
///
/// [`GraphError::UnknownValue`] for an operand that there is not.
pub(crate) fn used_values(graph: &Graph) -> Result<Vec<bool>, GraphError> {
    let mut is_used = vec![false; graph.values.len()];
    for &output in &graph.outputs {
        *is_used.get_mut(output.0 as usize).ok_or(GraphError::UnknownValue(output))? = true;
    }
    for (index, value) in graph.values.iter().enumerate().rev() {
        match &value.def {
            TensorDef::Input(_) => is_used[index] = true,
            TensorDef::Op { operands, .. } if is_used[index] => {
                for &operand in operands {
                    *is_used.get_mut(operand.0 as usize).ok_or(GraphError::UnknownValue(operand))? = true;
                }
            }
            _ => {}
        }
    }
    Ok(is_used)
}

fn renamed(new_ids: &[Option<TensorId>], id: TensorId) -> Result<TensorId, GraphError> {
    new_ids.get(id.0 as usize).copied().flatten().ok_or(GraphError::UnknownValue(id))
}
