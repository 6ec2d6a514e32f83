//! Where control can go from a region: whether its end can be reached, and which loops and blocks are left early.

use polyloom_ir::{Function, Imm, Inst, Op, Region};

/// Returns true if control can reach the end of `region` and hand values to the instruction that owns it.
pub fn completes(func: &Function, region: Region) -> bool {
    func.terminator(region).is_some_and(|inst| func.insts[inst].op == Op::Yield)
}

/// Returns true if an instruction under `region` breaks out of, or continues, `target`.
pub fn is_target_in(func: &Function, region: Region, target: Inst) -> bool {
    func.regions[region].insts.iter().any(|&inst| {
        let data = &func.insts[inst];
        data.imm == Imm::Target(target) || data.regions.iter().any(|&inner| is_target_in(func, inner, target))
    })
}

/// Returns true if control can go on after `inst`, which owns regions.
///
/// This is the verifier's notion: an `if` with no region that completes cannot be passed, nor can a block that
/// neither completes nor is broken out of. Loops always can.
pub fn falls_through(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    match data.op {
        Op::If => data.regions.iter().any(|&region| completes(func, region)),
        Op::Block => data.regions.iter().any(|&region| completes(func, region) || is_target_in(func, region, inst)),
        _ => true,
    }
}

/// Returns true if control may leave `region` other than by its end.
pub fn has_exit(func: &Function, region: Region) -> bool {
    func.regions[region].insts.iter().any(|&inst| {
        let data = &func.insts[inst];
        matches!(data.op, Op::Break | Op::Continue | Op::Return | Op::Check | Op::Assert)
            || data.regions.iter().any(|&inner| has_exit(func, inner))
    })
}
