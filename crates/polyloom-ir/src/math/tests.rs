//! What can be said of every library function without running it.

use super::library_function;
use crate::op::{Lowering, Op, TyPattern};
use crate::types::{Scalar, Type};

/// Every overload of every library op, by operand types.
fn overloads() -> Vec<(Op, Vec<Type>)> {
    let mut all = Vec::new();
    for info in Op::all().filter(|info| info.lowering == Lowering::Library) {
        for signature in info.signatures.iter().filter(|signature| !signature.has_composites()) {
            let scalars: Vec<Scalar> = signature.var.map_or(vec![Scalar::F32], |class| class.members().collect());
            for scalar in scalars {
                let types = signature.params.iter().map(|param| match param.ty {
                    TyPattern::Is(scalar) => scalar.into(),
                    TyPattern::ArrayOf(elem) => Type::Array { elem, ndim: 1 },
                    _ => scalar.into(),
                });
                all.push((info.op, types.collect()));
            }
        }
    }
    all
}

#[test]
fn every_overload_has_a_definition_with_its_signature() {
    for (op, types) in overloads() {
        let native = op == Op::Mod && types[0].as_scalar().is_some_and(Scalar::is_int);
        let Some(function) = library_function(op, &types) else {
            assert!(native, "{} has no definition for {types:?}", op.name());
            continue;
        };
        assert!(!native, "integer mod is native");
        let results = op.info().signatures.iter().find_map(|s| s.result_types(&types));
        assert_eq!(Some(function.results.to_vec()), results, "{}", function.name);
        let params: Vec<Type> = function.params().iter().map(|&param| function.ty(param)).collect();
        assert_eq!(params, types, "{}", function.name);
    }
}

#[test]
fn names_tell_overloads_apart() {
    let mut names: Vec<_> =
        overloads().iter().filter_map(|(op, types)| library_function(*op, types)).map(|f| f.name).collect();
    let n_functions = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), n_functions);
}

#[test]
fn other_operands_have_no_definition() {
    assert!(library_function(Op::Sin, &[Type::I32]).is_none());
    assert!(library_function(Op::Sin, &[]).is_none());
    assert!(library_function(Op::Add, &[Type::F32, Type::F32]).is_none());
    assert!(library_function(Op::Clamp, &[Type::F32, Type::F32, Type::F64]).is_none());
}
