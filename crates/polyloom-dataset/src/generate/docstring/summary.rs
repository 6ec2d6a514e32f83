//! The first line of a docstring, where a kernel has nothing better to say than its category.

use super::{Given, list};
use crate::generate::program::Category;
use polyloom::Random;

/// The longest first line, with what else is in it.
pub(super) const LONGEST: usize = 75;

/// A line that sums up what a kernel does.
pub(in crate::generate) fn summary(
    random: &mut Random,
    category: Category,
    inputs: &[Given<'_>],
    outputs: &[&str],
) -> String {
    let names: Vec<&str> = inputs.iter().map(|given| given.name).collect();
    let (ins, outs) = (list(&names), list(outputs));
    // What a kernel goes along, looks around in or has the fields of are parameters of a kind.
    let fits = |given: &&Given<'_>| match category {
        Category::Struct => given.is_struct,
        Category::Reduction | Category::Scan => given.rank == inputs[0].rank,
        _ => given.rank > 0 || given.is_struct,
    };
    let of_kind = |wanted: bool| -> Vec<&str> {
        inputs.iter().filter(|given| fits(given) == wanted).map(|given| given.name).collect()
    };
    let (main, others) = (of_kind(true), of_kind(false));
    let first = main.first().or(names.first()).copied().unwrap_or_default();
    let after = |names: &[&str], lead: &str| match names {
        [] => String::new(),
        names => format!(" {lead} {}", list(names)),
    };
    let rest: Vec<&str> = names.iter().copied().filter(|name| *name != first).collect();
    let (mains, with) = (list(&main), after(&others, "with"));
    if outputs.is_empty() {
        let lines =
            [format!("Update `{first}` in place{}.", after(&rest, "by")), format!("Update `{first}` in place.")];
        return lines.into_iter().find(|line| line.len() <= LONGEST).unwrap_or_default();
    }
    let lines: Vec<String> = match category {
        Category::ControlFlow => {
            vec![format!("Compute {outs} from {ins} by cases."), format!("Choose {outs} by conditions on {ins}.")]
        }
        Category::Loop => {
            vec![format!("Compute {outs} from {ins} by iteration."), format!("Compute {outs} from {ins} with loops.")]
        }
        Category::Struct => vec![
            format!("Compute {outs} for each of `{first}`{}.", after(&rest, "with")),
            format!("Compute {outs} from the fields of {mains}{with}."),
        ],
        Category::Function => vec![format!("Apply helper functions to {ins} to get {outs}.")],
        Category::Stencil => vec![
            format!("Compute {outs} from `{first}` and its neighbours{}.", after(&rest, "with")),
            format!("Combine each element of `{first}` with its neighbours{} into {outs}.", after(&rest, "and")),
        ],
        Category::Reduction => vec![
            format!("Reduce each row of `{first}` to {outs}{}.", after(&rest, "with")),
            format!("Compute {outs} over the rows of {mains}{with}."),
        ],
        Category::Scan => vec![
            format!("Scan the rows of `{first}` into {outs}{}.", after(&rest, "with")),
            format!("Run along the rows of {mains}{with} and fill {outs}."),
        ],
        Category::Random => vec![
            format!("Compute {outs} from random numbers and {ins}."),
            format!("Draw random numbers and combine them with {ins} into {outs}."),
        ],
        Category::Atomic => vec![
            format!("Collect what comes of {ins} in {outs} over all threads."),
            format!("Accumulate what comes of {ins} in {outs} with atomics."),
        ],
        Category::SharedMemory => vec![
            format!("Compute {outs} from {ins} in blocks of threads that share memory."),
            format!("Compute {outs} from {ins} by way of shared memory."),
        ],
        Category::Warp => vec![
            format!("Compute {outs} from {ins} across the lanes of a warp."),
            format!("Compute {outs} from {ins} with warp primitives."),
        ],
        Category::TensorCore => vec![format!("Compute {outs} from {ins} on the tensor core.")],
        _ if inputs.len() == 1 => vec![
            format!("Map {ins} to {outs}, element by element."),
            format!("Compute {outs} for each element of {ins}."),
        ],
        _ => vec![
            format!("Compute {outs} from {ins}."),
            format!("Combine {ins} into {outs}."),
            format!("Compute {outs} from {ins}, element by element."),
        ],
    };
    let start = random.below(lines.len());
    let fallbacks = [
        format!("Compute {outs} from {ins}."),
        format!("Compute {outs} from `{first}` and {} more inputs.", inputs.len().saturating_sub(1)),
        format!("Compute {outs}."),
        format!("Compute {} results from {} inputs.", outputs.len(), inputs.len()),
    ];
    let mut all = lines[start..].iter().chain(&lines[..start]).chain(&fallbacks);
    all.find(|line| line.len() <= LONGEST).cloned().unwrap_or_default()
}
