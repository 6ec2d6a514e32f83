//! Invariants 12 to 18: immediates and types of the ops that are not control flow.

use super::function::{Checker, list};
use crate::entity::{FuncId, Inst};
use crate::function::{AxisExtent, CheckKind, Function, FunctionKind, Imm, InstData};
use crate::op::Op;
use crate::types::{MAX_DIMS, Scalar, Type};

/// Whether the instruction carries the kind of immediate that its op needs.
pub(super) fn immediate_fits(data: &InstData) -> bool {
    match data.op {
        Op::Const => matches!(data.imm, Imm::Bits(_)),
        Op::Tid | Op::Dim => matches!(data.imm, Imm::Axis(_)),
        Op::Component | Op::WithComponent => matches!(data.imm, Imm::Component(_)),
        Op::WrapIndex => matches!(data.imm, Imm::Extent(_)),
        Op::Call => matches!(data.imm, Imm::Func(_)),
        Op::Break | Op::Continue => matches!(data.imm, Imm::Target(_)),
        Op::Assert | Op::Print => matches!(data.imm, Imm::Text(_)),
        Op::Check => matches!(data.imm, Imm::Check(_)),
        _ => data.imm == Imm::None,
    }
}

/// Checks an instruction that carries the right kind of immediate and is not control flow.
pub(super) fn check(checker: &mut Checker<'_>, inst: Inst, data: &InstData) {
    let operands = checker.types(&data.operands);
    let results = checker.types(&data.results);
    match (data.op, &data.imm) {
        (Op::Const, Imm::Bits(bits)) => constant(checker, inst, &operands, &results, *bits),
        (Op::Cast, _) => {
            if !matches!((&operands[..], &results[..]), ([Type::Scalar(_)], [Type::Scalar(_)])) {
                let message =
                    format!("`cast` takes a scalar to a scalar, not {} to {}", list(&operands), list(&results));
                checker.error(inst, message);
            }
        }
        (Op::Bitcast, _) => {
            let same_size = |a: Scalar, b: Scalar| a.bits() == b.bits() && a != Scalar::Bool;
            let fits =
                matches!((&operands[..], &results[..]), ([Type::Scalar(a)], [Type::Scalar(b)]) if same_size(*a, *b));
            if !fits {
                let (from, to) = (list(&operands), list(&results));
                checker.error(inst, format!("`bitcast` takes a number to one of the same size, not {from} to {to}"));
            }
        }
        (Op::Dim, Imm::Axis(axis)) => {
            checker.gives(inst, &[Type::I32]);
            match operands[..] {
                [array] if array.as_any_array().is_some_and(|(_, ndim)| *axis < ndim) => {}
                [array] if array.as_any_array().is_some() => {
                    checker.error(inst, format!("`dim` names axis {axis} of {array}"));
                }
                _ => checker.error(inst, format!("`dim` takes an array, not {}", list(&operands))),
            }
        }
        (Op::Call, Imm::Func(callee)) => call(checker, inst, &operands, *callee),
        (Op::Construct, _) => {
            let elem = match results[..] {
                [Type::Composite(composite)] if operands.len() == composite.n_components() => Some(composite.elem()),
                _ => None,
            };
            if elem.is_none_or(|elem| operands.iter().any(|&operand| operand != Type::Scalar(elem))) {
                let (takes, gives) = (list(&operands), list(&results));
                checker.error(inst, format!("`construct` makes a composite of its components, not {gives} of {takes}"));
            }
        }
        (Op::Component | Op::WithComponent, Imm::Component(component)) => {
            overload(checker, inst, data.op, &operands, &results);
            let composite = operands.first().and_then(|ty| ty.as_composite());
            if let Some(composite) = composite.filter(|c| usize::from(*component) >= c.n_components()) {
                let message = format!("`{}` names component {component} of {composite}", data.op.name());
                checker.error(inst, message);
            }
        }
        (Op::Print, _) => {
            if operands.iter().any(|ty| ty.as_scalar().is_none()) {
                checker.error(inst, format!("`print` takes scalars, not {}", list(&operands)));
            }
            checker.gives(inst, &[]);
        }
        _ => {
            overload(checker, inst, data.op, &operands, &results);
            if let Imm::Axis(axis) | Imm::Extent(AxisExtent { axis, .. }) | Imm::Check(CheckKind::Bounds { axis, .. }) =
                data.imm
                && usize::from(axis) >= MAX_DIMS
            {
                checker.error(inst, format!("`{}` names axis {axis}; there are {MAX_DIMS}", data.op.name()));
            }
        }
    }
}

fn constant(checker: &mut Checker<'_>, inst: Inst, operands: &[Type], results: &[Type], bits: u64) {
    let ([], [Type::Scalar(ty)]) = (operands, results) else {
        let (takes, gives) = (list(operands), list(results));
        return checker
            .error(inst, format!("`const` takes nothing and gives a scalar; here it takes {takes} and gives {gives}"));
    };
    if ty.bits() < 64 && bits >> ty.bits() != 0 {
        checker.error(inst, format!("the constant 0x{bits:x} does not fit {ty}"));
    }
}

fn call(checker: &mut Checker<'_>, inst: Inst, operands: &[Type], callee: FuncId) {
    // The checks of structure have found the callee; there is nothing to compare with without a module.
    let Some(callee) = checker.module.and_then(|module| module.functions.get(callee)) else { return };
    if callee.kind == FunctionKind::Kernel {
        return checker.error(inst, format!("@{} is a kernel; kernels are launched, not called", callee.name));
    }
    // A callee too broken to have a signature is reported by itself.
    let Some(params) = param_types(callee) else { return };
    if operands != params {
        checker.error(inst, format!("@{} takes {}, not {}", callee.name, list(&params), list(operands)));
    }
    checker.gives(inst, &callee.results);
}

fn param_types(function: &Function) -> Option<Vec<Type>> {
    let body = function.regions.get(function.body)?;
    body.params.iter().map(|&param| Some(function.values.get(param)?.ty)).collect()
}

fn overload(checker: &mut Checker<'_>, inst: Inst, op: Op, operands: &[Type], results: &[Type]) {
    let signatures = &op.info().signatures;
    let given: Vec<Vec<Type>> = signatures.iter().filter_map(|signature| signature.result_types(operands)).collect();
    if given.iter().any(|types| types == results) {
        return;
    }
    match given.first() {
        Some(types) => {
            checker.error(inst, format!("`{}` gives {}, not {}", op.name(), list(types), list(results)));
        }
        None => {
            // Overloads for composites say nothing to someone without any.
            let has_composites = operands.iter().any(|ty| ty.composite_within().is_some());
            let all_take_them = signatures.iter().all(|signature| signature.has_composites());
            let told = signatures.iter().filter(|s| has_composites || all_take_them || !s.has_composites());
            let overloads: Vec<&str> = told.map(|signature| signature.text).collect();
            let (name, operands) = (op.name(), list(operands));
            checker.error(inst, format!("`{name}` does not take {operands}; it is {}", overloads.join(" or ")));
        }
    }
}
