//! How many threads a kernel runs at a time.

use crate::target::Host;
use polyloom_ir::uniformity::{Shape, Uniformity};
use polyloom_ir::{Function, Op, Region, Scalar};

/// The number of lanes: as many as fill a vector register with elements of the type most of the work is done in, or
/// one where vectors cannot pay: a kernel that prints in every thread, or whose threads share all their values.
pub(crate) fn choose(func: &Function, uniformity: &Uniformity, host: &Host) -> u32 {
    if prints_always(func, func.body) {
        return 1;
    }
    let mut work = [0u32; 4];
    func.walk(func.body, &mut |_, data| {
        let scalars = data.results.iter().chain(&data.operands).filter(|&&v| uniformity.shape(v) == Shape::Varying);
        let widest = scalars.filter_map(|&v| func.ty(v).as_scalar()).map(Scalar::bytes).max();
        if let Some(bytes) = widest.filter(|_| !data.op.info().is_terminator()) {
            work[bytes.trailing_zeros().min(3) as usize] += 1;
        }
    });
    let [_, two, four, eight] = work;
    let total: u32 = work.iter().sum();
    if total == 0 {
        return 1;
    }
    // A value twice as wide takes two registers: that is fine for a few.
    let bytes = match () {
        () if eight * 3 > total => 8,
        () if four + eight > 0 => 4,
        () if two > 0 => 2,
        () => 1,
    };
    (host.vector_bytes / bytes).clamp(2, 32)
}

/// Whether every thread prints, or nearly.
fn prints_always(func: &Function, region: Region) -> bool {
    func.regions[region].insts.iter().any(|&inst| func.insts[inst].op == Op::Print)
}
