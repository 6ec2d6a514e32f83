//! Calls to library functions: mathematics and random numbers, several results, functions that call functions.

use super::launch::{compare, dense, kernel_of, module};
use super::values::{RandomOperands, edges};
use super::{EngineSubject, HirPreparation};
use polyloom_ir::interp::{BufferMemory, InterpError, Interpreter};
use polyloom_ir::op::{Lowering, OpEffect, OpInfo, TyPattern};
use polyloom_ir::{FloatMode, Op, Scalar};

/// Every library op that programs can name, on every type (what only other library ops use may leave results open for
/// NaNs): each in a kernel with a loop around it, so that calls occur inside control flow.
///
/// Library functions are strict whatever the kernel's mode is, but for those small enough to become part of the kernel.
pub fn all(subject: &EngineSubject<'_>) {
    let mut random = RandomOperands::new(7);
    let mut n_checked = 0;
    // Kernels that print give no results to compare.
    let computes = |info: &&OpInfo| info.lowering == Lowering::Library && info.effect != OpEffect::ReadWrite;
    for info in Op::all().filter(computes).filter(|info| info.is_builtin()) {
        for signature in info.signatures.iter().filter(|signature| !signature.has_composites()) {
            let members: Vec<Option<Scalar>> = match signature.var {
                Some(class) => class.members().map(Some).collect(),
                None => vec![None],
            };
            for var in members {
                let scalar = |pattern: TyPattern| match pattern {
                    TyPattern::Var => var,
                    TyPattern::Is(scalar) => Some(scalar),
                    _ => None,
                };
                let operands: Option<Vec<Scalar>> = signature.params.iter().map(|param| scalar(param.ty)).collect();
                let mut results: Vec<Scalar> = signature.results.iter().filter_map(|&r| scalar(r)).collect();
                let Some(operands) = operands else { continue };
                results.extend(signature.params.iter().zip(&operands).filter(|(p, _)| p.inout).map(|(_, &ty)| ty));
                let types: Vec<polyloom_ir::Type> = operands.iter().map(|&s| s.into()).collect();
                let half = var.is_some_and(Scalar::is_half);
                let wide: Vec<polyloom_ir::Type> =
                    if half { vec![polyloom_ir::Type::F32; types.len()] } else { types.clone() };
                if polyloom_ir::math::library_function(info.op, &wide).is_none() {
                    continue;
                }
                n_checked += usize::from(check(subject, info.name, &operands, &results, &mut random));
            }
        }
    }
    assert!(n_checked > 60, "only {n_checked} library functions were checked");
}

/// Gives whether the op could be checked.
fn check(
    subject: &EngineSubject<'_>,
    op: &str,
    operands: &[Scalar],
    results: &[Scalar],
    random: &mut RandomOperands,
) -> bool {
    let mut params = Vec::new();
    let mut loads = String::new();
    for (index, ty) in operands.iter().enumerate() {
        params.push(format!("%a{index} a{index}: array<{}, 1>", ty.name()));
        loads += &format!("%x{index}: {} = array_load %a{index}, %i\n", ty.name());
    }
    let mut stores = String::new();
    for (index, ty) in results.iter().enumerate() {
        params.push(format!("%r{index} r{index}: array<{}, 1>", ty.name()));
        stores += &format!("array_store %r{index}, %i, %y{index}\n");
    }
    let xs: Vec<String> = (0..operands.len()).map(|index| format!("%x{index}")).collect();
    let ys: Vec<String> = results.iter().enumerate().map(|(i, ty)| format!("%y{i}: {}", ty.name())).collect();
    let text = format!(
        "kernel @k({}) {{\n%i: i32 = tid 0\n{loads}%zero: i32 = const 0\n%one: i32 = const 1\n%two: i32 = const 2\n\
         for_range %zero, %two, %one (%k: i32) {{\n{} = {op} {}\n{stores}yield }}\nreturn }}",
        params.join(", "),
        ys.join(", "),
        xs.join(", "),
    );
    // A definition may build on one that is not there.
    let parsed = module(&text);
    if let Err(InterpError::NoDefinition { .. }) = Interpreter::new(&parsed, kernel_of(&parsed)) {
        return false;
    }
    let (prepared, _) = subject.prepared(&parsed, kernel_of(&parsed), HirPreparation::Unchecked);
    let is_part_of_the_kernel = prepared.functions.len() == 1;
    if is_part_of_the_kernel && subject.float_mode != FloatMode::Strict {
        return false;
    }
    let n = 300;
    let mut memory = BufferMemory::default();
    let mut args = Vec::new();
    for (index, &ty) in operands.iter().enumerate() {
        let mut column: Vec<u64> = edges(ty).into_iter().cycle().skip(7 * index).take(n / 2).collect();
        column.extend(random.values(ty, n / 2));
        args.push(dense(&mut memory, ty, &[n], &column));
    }
    for &ty in results {
        args.push(dense(&mut memory, ty, &[n], &vec![0; n]));
    }
    compare(subject, &text, &[n as u64], &args, &memory);
    true
}
