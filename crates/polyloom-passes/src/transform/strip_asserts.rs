//! `strip_asserts`: unchecked kernels do not check.
//!
//! The one pass that changes what a program does: a launch that an assertion would have ended goes on.

use polyloom_ir::{Function, Op, Region};

/// Removes every `assert` and `check`. What computed their conditions is left to `dce`.
pub fn strip_asserts(func: &mut Function) {
    let any = func.insts.values().any(|data| is_check(data.op));
    if any {
        strip_region(func, func.body);
    }
}

fn is_check(op: Op) -> bool {
    matches!(op, Op::Assert | Op::Check)
}

fn strip_region(func: &mut Function, region: Region) {
    let mut insts = std::mem::take(&mut func.regions[region].insts);
    insts.retain(|&inst| !is_check(func.insts[inst].op));
    for &inst in &insts {
        for index in 0..func.insts[inst].regions.len() {
            strip_region(func, func.insts[inst].regions[index]);
        }
    }
    func.regions[region].insts = insts;
}
