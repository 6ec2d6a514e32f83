//! Invariants 12 to 18: immediates and types of the ops that are not control flow.

use super::function::{FunctionVerifier, list};
use crate::arch::WARP_SIZE;
use crate::entity::{FuncId, Inst};
use crate::fragment::{FragmentAccess, MatrixRole, accumulator, flat_operands, fragment_type};
use crate::function::{AxisExtent, CheckKind, Function, FunctionKind, Imm, InstData, SharedArray, SharedCopy};
use crate::op::{Op, OpGroup};
use crate::types::{AddressSpace, MAX_AXES, MAX_DIMS, Scalar, Type};

/// Returns true if the instruction carries the kind of immediate that its op needs.
pub(super) fn immediate_fits(data: &InstData) -> bool {
    match data.op {
        Op::Const => matches!(data.imm, Imm::Bits(_)),
        Op::Tid | Op::Dim | Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim => {
            matches!(data.imm, Imm::Axis(_))
        }
        Op::SharedArray => matches!(data.imm, Imm::Shared(_)),
        Op::MmaLoadA | Op::MmaLoadB | Op::MmaLoadC | Op::MmaStore => matches!(data.imm, Imm::Fragment(_)),
        Op::AsyncCopy => matches!(data.imm, Imm::Copy(_)),
        Op::NamedBarrier => matches!(data.imm, Imm::Barrier(_)),
        Op::ForRange => matches!(data.imm, Imm::None | Imm::Parallel),
        Op::AsyncWait => matches!(data.imm, Imm::Pending(_)),
        Op::ThreadFence => matches!(data.imm, Imm::Memory(_)),
        Op::Shuffle | Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor => matches!(data.imm, Imm::Width(_)),
        op if op.info().group == OpGroup::Atomic => matches!(data.imm, Imm::None | Imm::Memory(_)),
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
pub(super) fn check(checker: &mut FunctionVerifier<'_>, inst: Inst, data: &InstData) {
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
        (Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim, Imm::Axis(axis)) => {
            overload(checker, inst, data.op, &operands, &results);
            if *axis > 2 {
                checker.error(inst, format!("`{}` names axis {axis}; blocks and grids have 3", data.op.name()));
            }
        }
        (_, Imm::Width(width)) => {
            overload(checker, inst, data.op, &operands, &results);
            if !width.is_power_of_two() || u32::from(*width) > WARP_SIZE {
                let message = format!("`{}` in groups of {width}, which is no power of two up to 32", data.op.name());
                checker.error(inst, message);
            }
        }
        (Op::SharedArray, Imm::Shared(array)) => shared_array(checker, inst, &operands, &results, array),
        (_, Imm::Fragment(fragment)) => fragment_access(checker, inst, data, &operands, &results, *fragment),
        (Op::Mma, _) if let Some((factor, n)) = flat_operands(&operands) => {
            let sum = accumulator(factor).unwrap_or(factor);
            checker.gives(inst, &vec![sum.into(); usize::from(n) / 2]);
        }
        (Op::AsyncCopy, Imm::Copy(copy)) => async_copy(checker, inst, &operands, *copy),
        (Op::NamedBarrier, Imm::Barrier(barrier)) => {
            if !barrier.is_valid() {
                let message =
                    "a `named_barrier` has a number from 1 to 15, and is of 32 to 1024 threads, a multiple of 32";
                checker.error(inst, message.to_owned());
            }
            overload(checker, inst, data.op, &operands, &results);
        }
        (Op::DynamicShared, _) => dynamic_shared(checker, inst, &operands, &results),
        (Op::Print, _) => {
            if operands.iter().any(|ty| ty.as_scalar().is_none()) {
                checker.error(inst, format!("`print` takes scalars, not {}", list(&operands)));
            }
            checker.gives(inst, &[]);
        }
        _ => {
            overload(checker, inst, data.op, &operands, &results);
            // An axis is one of a launch, unless it is of an array.
            let is_of_array = operands.first().is_some_and(|ty| ty.as_any_array().is_some());
            let (axis, most) = match data.imm {
                Imm::Axis(axis) if !is_of_array => (axis, MAX_DIMS),
                Imm::Axis(axis) | Imm::Extent(AxisExtent { axis, .. }) | Imm::Check(CheckKind::Bounds { axis, .. }) => {
                    (axis, MAX_AXES)
                }
                _ => (0, MAX_DIMS),
            };
            if usize::from(axis) >= most {
                checker.error(inst, format!("`{}` names axis {axis}; there are {most}", data.op.name()));
            }
        }
    }
}

/// Bytes that a static array may take and multiples that its address may be: more than any GPU has, and small enough
/// that no sum of them overflows.
const MAX_SHARED_BYTES: u64 = 1 << 28;
const MAX_ALIGN: u32 = 1 << 20;

fn shared_array(
    checker: &mut FunctionVerifier<'_>,
    inst: Inst,
    operands: &[Type],
    results: &[Type],
    array: &SharedArray,
) {
    let elem = match (operands, results) {
        ([], [ty]) if ty.space() == Some(AddressSpace::Shared) => ty.as_any_array(),
        _ => None,
    };
    let Some((elem, ndim)) = elem else {
        let (takes, gives) = (list(operands), list(results));
        let message =
            format!("`shared_array` takes nothing and gives a shared array; here it takes {takes}, gives {gives}");
        return checker.error(inst, message);
    };
    let elem = elem.components().iter().filter_map(|ty| ty.as_scalar()).map(Scalar::bytes).sum();
    if array.extents.len() != usize::from(ndim) || array.extents.contains(&0) {
        checker.error(inst, format!("`shared_array` of {ndim} dimensions has extents {:?}", array.extents));
    }
    if array.bytes(elem) > MAX_SHARED_BYTES {
        checker.error(inst, format!("`shared_array` takes {} bytes", array.bytes(elem)));
    }
    if !array.align.is_power_of_two() || array.align > MAX_ALIGN {
        checker.error(inst, format!("`shared_array` is aligned to {}, which is no power of two", array.align));
    }
}

/// `mma_load_a` and its like. A load may give the components of its vector.
fn fragment_access(
    checker: &mut FunctionVerifier<'_>,
    inst: Inst,
    data: &InstData,
    operands: &[Type],
    results: &[Type],
    fragment: FragmentAccess,
) {
    let matrix = match data.op {
        Op::MmaLoadA => MatrixRole::A,
        Op::MmaLoadB => MatrixRole::B,
        _ => MatrixRole::C,
    };
    let elem = operands.first().and_then(|ty| ty.as_array()).filter(|(_, ndim)| *ndim == 2);
    let part = elem.and_then(|(elem, _)| fragment_type(matrix, elem, fragment.n)).map(Type::Composite);
    let is_flat = part.is_some_and(|part| part.components()[..] == *results);
    let fits = match (data.op, operands, results) {
        (Op::MmaStore, [_, row, column, value], []) => [*row, *column] == [Type::I32; 2] && part == Some(*value),
        (_, [_, row, column], [result]) => [*row, *column] == [Type::I32; 2] && part == Some(*result),
        (Op::MmaLoadA | Op::MmaLoadB, [_, row, column], _) => [*row, *column] == [Type::I32; 2] && is_flat,
        _ => false,
    };
    if !fits {
        let (takes, gives, name) = (list(operands), list(results), data.op.name());
        let message =
            format!("`{name}` takes a matrix, a row and a column, not {takes}, or gives another type than {gives}");
        checker.error(inst, message);
    }
}

fn async_copy(checker: &mut FunctionVerifier<'_>, inst: Inst, operands: &[Type], copy: SharedCopy) {
    let element = |operands: &[Type]| -> Option<(Scalar, AddressSpace, usize)> {
        let (elem, ndim) = operands.first()?.as_array()?;
        let indices = operands.get(1..=usize::from(ndim))?;
        let are_indices = indices.iter().all(|ty| ty.as_scalar().is_some_and(Scalar::is_int));
        Some((elem, operands[0].space()?, 1 + indices.len())).filter(|_| are_indices)
    };
    let to = element(operands);
    let from = to.and_then(|(.., n)| element(&operands[n..]));
    let fits = match (to, from) {
        (Some((to, AddressSpace::Shared, n)), Some((from, AddressSpace::Global, m))) => {
            let bytes = to.bytes() * u32::from(copy.count);
            to == from && n + m == operands.len() && copy.cache.takes(bytes)
        }
        _ => false,
    };
    if !fits {
        let message = format!(
            "`async_copy` of {} elements copies 4, 8 or 16 bytes from global to shared memory, not {}",
            copy.count,
            list(operands)
        );
        checker.error(inst, message);
    }
    checker.gives(inst, &[]);
}

fn dynamic_shared(checker: &mut FunctionVerifier<'_>, inst: Inst, operands: &[Type], results: &[Type]) {
    let ndim = match results {
        [ty] if ty.space() == Some(AddressSpace::Shared) => ty.as_any_array().map(|(_, ndim)| usize::from(ndim)),
        _ => None,
    };
    if ndim.is_none_or(|ndim| operands.len() != 1 + ndim) || operands.iter().any(|&ty| ty != Type::I32) {
        let (takes, gives) = (list(operands), list(results));
        let message =
            format!("`dynamic_shared` makes a shared array of an offset and extents, all i32, not {gives} of {takes}");
        checker.error(inst, message);
    }
}

fn constant(checker: &mut FunctionVerifier<'_>, inst: Inst, operands: &[Type], results: &[Type], bits: u64) {
    let ([], [Type::Scalar(ty)]) = (operands, results) else {
        let (takes, gives) = (list(operands), list(results));
        return checker
            .error(inst, format!("`const` takes nothing and gives a scalar; here it takes {takes} and gives {gives}"));
    };
    if ty.bits() < 64 && bits >> ty.bits() != 0 {
        checker.error(inst, format!("the constant 0x{bits:x} does not fit {ty}"));
    }
}

fn call(checker: &mut FunctionVerifier<'_>, inst: Inst, operands: &[Type], callee: FuncId) {
    // A missing callee is no error here, because the checks of structure have found it; there is nothing to compare
    // with without a module.
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

fn overload(checker: &mut FunctionVerifier<'_>, inst: Inst, op: Op, operands: &[Type], results: &[Type]) {
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
            // Overloads for composites are left out where they can be, because they say nothing to someone without
            // any.
            let has_composites = operands.iter().any(|ty| ty.composite_within().is_some());
            let all_take_them = signatures.iter().all(|signature| signature.has_composites());
            let told = signatures.iter().filter(|s| has_composites || all_take_them || !s.has_composites());
            let overloads: Vec<&str> = told.map(|signature| signature.text).collect();
            let (name, operands) = (op.name(), list(operands));
            checker.error(inst, format!("`{name}` does not take {operands}; it is {}", overloads.join(" or ")));
        }
    }
}
