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
    lines: &[String],
) -> String {
    let has = |texts: &[&str]| lines.iter().any(|line| texts.iter().any(|text| line.contains(text)));
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
        Category::ControlFlow => vec![
            format!("Choose {outs} by conditions on {ins}."),
            format!("Branch on {ins} to get {outs}."),
            format!("Tell cases of {ins} apart to find {outs}."),
        ],
        Category::Loop => vec![
            format!("Compute {outs} from {ins} with loops."),
            format!("Run loops on {ins} to get {outs}."),
            format!("Find {outs} by iteration from {ins}."),
        ],
        Category::Struct => vec![
            format!("Evaluate {outs} for each of `{first}`{}.", after(&rest, "with")),
            format!("Derive {outs} from the fields of {mains}{with}."),
            format!("Combine the fields of {mains}{with} into {outs}."),
        ],
        Category::Function => vec![
            format!("Apply helper functions to {ins} to get {outs}."),
            format!("Call helper functions on {ins} and store {outs}."),
        ],
        Category::Stencil => vec![
            format!("Work out {outs} from `{first}` and its neighbours{}.", after(&rest, "with")),
            format!("Combine each element of `{first}` with its neighbours{} into {outs}.", after(&rest, "and")),
            format!("Apply a stencil to `{first}`{} and store {outs}.", after(&rest, "with")),
        ],
        Category::Reduction => vec![
            format!("Reduce each row of `{first}` to {outs}{}.", after(&rest, "with")),
            format!("Fold the rows of {mains}{with} into {outs}."),
        ],
        Category::Scan => vec![
            format!("Scan the rows of `{first}` into {outs}{}.", after(&rest, "with")),
            format!("Run along the rows of {mains}{with} and fill {outs}."),
            format!("Carry values along the rows of {mains}{with} into {outs}."),
        ],
        Category::Random if has(&["randf(", "randn(", "randi(", ".sample_"]) => vec![
            format!("Combine random numbers and {ins} into {outs}."),
            format!("Draw random numbers and combine them with {ins} into {outs}."),
            format!("Sample {outs} from random numbers and {ins}."),
        ],
        Category::Random => vec![format!("Combine noise and {ins} into {outs}.")],
        Category::Atomic if !has(&["atomic_max", "atomic_min", "atomic_or", "atomic_xor", "|="]) => vec![
            format!("Accumulate results from {ins} in {outs} with atomics."),
            format!("Scatter results from {ins} over {outs}."),
            format!("Add results from {ins} to {outs} from all threads."),
        ],
        Category::Atomic => vec![
            format!("Gather results from {ins} in {outs} over all threads."),
            format!("Merge results from {ins} into {outs} with atomics."),
        ],
        Category::SharedMemory => vec![
            format!("Share `{first}` within blocks of threads to get {outs}{}.", after(&rest, "with")),
            format!("Exchange `{first}` through shared memory to get {outs}{}.", after(&rest, "with")),
        ],
        Category::Warp => vec![
            format!("Combine `{first}` across the lanes of a warp{} into {outs}.", after(&rest, "with")),
            format!("Exchange `{first}` between lanes to get {outs}{}.", after(&rest, "with")),
        ],
        Category::TensorCore => vec![format!("Compute {outs} from {ins} on the tensor core.")],
        _ if inputs.len() == 1 => vec![
            format!("Map {ins} to {outs}, element by element."),
            format!("Turn each element of {ins} into one of {outs}."),
            format!("Transform {ins} into {outs}, element by element."),
        ],
        _ => vec![
            format!("Combine {ins} into {outs}."),
            format!("Derive {outs} from {ins}."),
            format!("Merge {ins} into {outs}, element by element."),
        ],
    };
    let start = random.below(lines.len());
    let verb = random.pick(&["Compute", "Derive", "Evaluate", "Determine", "Produce", "Obtain"]);
    let more = match inputs.len() {
        0..=2 => "one more input".to_owned(),
        n => format!("{} more inputs", n - 1),
    };
    let fallbacks = [
        format!("{verb} {outs} from {ins}."),
        format!("{verb} {outs} from `{first}` and {more}."),
        format!("{verb} {outs}."),
        format!("{verb} {} results from {} inputs.", outputs.len(), inputs.len()),
    ];
    let mut all = lines[start..].iter().chain(&lines[..start]).chain(&fallbacks);
    all.find(|line| line.len() <= LONGEST).cloned().unwrap_or_default()
}
