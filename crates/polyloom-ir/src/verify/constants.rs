//! Constants that no launch could do anything with: a rule of the kernel language, since passes may make constants of
//! what never runs.

use crate::diagnostic::{Code, Diagnostic};
use crate::entity::Value;
use crate::function::{Function, Imm, InstData, Module, ValueDef};
use crate::op::{Op, OpGroup};

/// Rows of the matrices of tensor-core fragments, and columns of a left factor.
const FRAGMENT_ROWS: i64 = 16;

/// Constant indices past a static shared array, masks that name no lane, and fragments that begin within the last rows
/// or columns, counted from the end, and so would go on with the first.
pub fn check_constants(module: &Module) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    for function in module.functions.values() {
        function.walk(function.body, &mut |_, data| match data.op {
            Op::SyncWarp => errors.extend(mask(function, data)),
            Op::MmaLoadA | Op::MmaLoadB | Op::MmaLoadC | Op::MmaStore => fragment(function, data, &mut errors),
            Op::AsyncCopy => shared_indices(function, data, &mut errors),
            op if matches!(op.info().group, OpGroup::Array | OpGroup::Atomic) => {
                shared_indices(function, data, &mut errors);
            }
            _ => {}
        });
    }
    errors
}

fn mask(function: &Function, data: &InstData) -> Option<Diagnostic> {
    let mask = function.as_const(*data.operands.first()?)?;
    let error = Diagnostic::error(Code::ConstantRange, data.span, "the mask of `sync_warp` names no lane");
    (mask == 0).then(|| error.help("write `sync_warp()` for all lanes"))
}

fn fragment(function: &Function, data: &InstData, errors: &mut Vec<Diagnostic>) {
    let (Imm::Fragment(fragment), &[_, row, column, ..]) = (&data.imm, &data.operands[..]) else { return };
    let name = data.op.name();
    let n_columns = if data.op == Op::MmaLoadA { FRAGMENT_ROWS } else { fragment.n.into() };
    for (first, extent, what) in [(row, FRAGMENT_ROWS, "row"), (column, n_columns, "column")] {
        if let Some(first) = signed_const(function, first).filter(|first| (1 - extent..0).contains(first)) {
            let message =
                format!("the {extent} {what}s of `{name}` begin at {what} {first}, {} before the end", -first);
            let help = format!("the last {extent} begin at {}, the first at 0", -extent);
            errors.push(Diagnostic::error(Code::ConstantRange, data.span, message).help(help));
        }
    }
}

/// The indices behind an operand that is a static shared array.
fn shared_indices(function: &Function, data: &InstData, errors: &mut Vec<Diagnostic>) {
    for (place, &array) in data.operands.iter().enumerate() {
        let ValueDef::Result(inst, _) = function.values[array].def else { continue };
        let Imm::Shared(shared) = &function.insts[inst].imm else { continue };
        for (&index, &extent) in data.operands[place + 1..].iter().zip(&shared.extents) {
            let extent = i64::from(extent);
            if let Some(index) = signed_const(function, index).filter(|index| !(-extent..extent).contains(index)) {
                let message = format!("the shared array has no element {index} along an axis of {extent}");
                let help = format!("an index here is from {} to {}", -extent, extent - 1);
                errors.push(Diagnostic::error(Code::ConstantRange, data.span, message).help(help));
            }
        }
    }
}

/// A constant integer as a number, which is `i64::MAX` if it is greater.
fn signed_const(function: &Function, value: Value) -> Option<i64> {
    let bits = function.as_const(value)?;
    let ty = function.ty(value).as_scalar().filter(|ty| ty.is_int())?;
    Some(match ty.is_signed_int() {
        true => (bits << (64 - ty.bits())) as i64 >> (64 - ty.bits()),
        false => i64::try_from(bits).unwrap_or(i64::MAX),
    })
}
