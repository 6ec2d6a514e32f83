//! Gives temporaries the memory of others that no later kernel reads.

use super::{BufferKind, FusionPlan, PlanArg};

/// Lets temporaries of one type and size share memory, and drops buffers that nothing uses.
pub(super) fn reuse_buffers(mut plan: FusionPlan) -> FusionPlan {
    let n = plan.buffers.len();
    let mut last_use = vec![None; n];
    for (index, kernel) in plan.kernels.iter().enumerate() {
        for arg in &kernel.args {
            if let PlanArg::Array { buffer, .. } = arg {
                last_use[*buffer] = Some(index);
            }
        }
    }
    let is_temporary = |plan: &FusionPlan, buffer: usize| plan.buffers[buffer].kind == BufferKind::Temporary;
    let mut memory_of: Vec<usize> = (0..n).collect();
    let mut is_placed = vec![false; n];
    let mut free: Vec<usize> = Vec::new();
    for index in 0..plan.kernels.len() {
        let used: Vec<usize> = plan.kernels[index].args.iter().filter_map(buffer_of).collect();
        for &buffer in used.iter().filter(|&&buffer| is_temporary(&plan, buffer)) {
            if std::mem::replace(&mut is_placed[buffer], true) {
                continue;
            }
            let wanted = &plan.buffers[buffer];
            if let Some(place) = free.iter().position(|&other| plan.buffers[other] == *wanted) {
                memory_of[buffer] = free.swap_remove(place);
            }
        }
        for &buffer in used.iter().filter(|&&buffer| is_temporary(&plan, buffer)) {
            if last_use[buffer] == Some(index) && !free.contains(&memory_of[buffer]) {
                free.push(memory_of[buffer]);
            }
        }
    }
    let is_output = |buffer: usize| plan.outputs.iter().any(|output| output.buffer == buffer);
    let is_input = |buffer: usize| matches!(plan.buffers[buffer].kind, BufferKind::Input(_));
    let is_kept: Vec<bool> = (0..n)
        .map(|buffer| {
            is_input(buffer) || is_output(buffer) || (last_use[buffer].is_some() && memory_of[buffer] == buffer)
        })
        .collect();
    let mut new_of = vec![0; n];
    let mut n_kept = 0;
    for buffer in 0..n {
        new_of[buffer] = n_kept;
        n_kept += usize::from(is_kept[buffer]);
    }
    for arg in plan.kernels.iter_mut().flat_map(|kernel| &mut kernel.args) {
        if let PlanArg::Array { buffer, .. } = arg {
            *buffer = new_of[memory_of[*buffer]];
        }
    }
    for output in &mut plan.outputs {
        output.buffer = new_of[output.buffer];
    }
    let mut kept = is_kept.iter();
    plan.buffers.retain(|_| kept.next().copied().unwrap_or(true));
    plan
}

fn buffer_of(arg: &PlanArg) -> Option<usize> {
    match arg {
        PlanArg::Array { buffer, .. } => Some(*buffer),
        _ => None,
    }
}
