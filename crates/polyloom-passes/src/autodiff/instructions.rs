//! Instructions as all parts of differentiation see them: which are loops or loads, whether a value is used by any, and
//! one of them written again in another function.

use polyloom_ir::{Builder, Function, Inst, InstData, Op, Type, Value};
use smallvec::SmallVec;

pub(super) fn is_loop(data: &InstData) -> bool {
    matches!(data.op, Op::ForRange | Op::While)
}

pub(super) fn is_load(data: &InstData) -> bool {
    matches!(data.op, Op::ArrayLoad | Op::LoadReadonly)
}

pub(super) fn is_used(func: &Function, value: Value) -> bool {
    let mut used = false;
    func.walk(func.body, &mut |_, data| used |= data.operands.contains(&value));
    used
}

/// An instruction of another function, on operands of the one that is being written.
pub(super) fn written_again(builder: &mut Builder<'_>, old: &Function, data: &InstData, operands: &[Value]) -> Inst {
    let types: SmallVec<[Type; 8]> = data.results.iter().map(|&result| old.ty(result)).collect();
    builder.inst(data.op, operands, &types, data.imm.clone())
}
