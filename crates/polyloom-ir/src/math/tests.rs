//! What can be said of every library function without running it.

use super::library_function;
use crate::op::{ExtentPattern, Lowering, Op, TyPattern};
use crate::types::{Composite, Scalar, Type};

/// Every overload of every library op, by operand types.
fn overloads() -> Vec<(Op, Vec<Type>)> {
    let mut all = Vec::new();
    for info in Op::all().filter(|info| info.lowering == Lowering::Library) {
        for signature in info.signatures.iter().filter(|signature| !signature.has_composites()) {
            let scalars: Vec<Scalar> = signature.var.map_or(vec![Scalar::F32], |class| class.members().collect());
            for scalar in scalars {
                let types = signature.params.iter().map(|param| match param.ty {
                    TyPattern::Is(scalar) => scalar.into(),
                    TyPattern::ArrayOf(elem) => Type::array(elem, 1),
                    TyPattern::ListOfVar => Type::array(scalar, 1),
                    _ => scalar.into(),
                });
                all.push((info.op, types.collect()));
            }
        }
    }
    all
}

/// Every overload with composites of the library ops that are more than what they are on components.
fn composite_overloads() -> Vec<(Op, Vec<Type>)> {
    let mut all = Vec::new();
    for info in Op::all().filter(|info| info.lowering == Lowering::Library) {
        for signature in info.signatures.iter().filter(|signature| signature.has_composites()) {
            let elems: Vec<Scalar> = signature.var.map_or(vec![Scalar::F32], |class| class.members().collect());
            for elem in elems {
                let types = signature.params.iter().map(|param| match param.ty {
                    TyPattern::Is(scalar) => Some(scalar.into()),
                    TyPattern::Var => Some(elem.into()),
                    TyPattern::Vector(ExtentPattern::Is(len)) => Some(Composite::Vector { elem, len }.into()),
                    TyPattern::Matrix(ExtentPattern::Is(rows), ExtentPattern::Is(cols)) => {
                        Some(Composite::Matrix { elem, rows: rows as u8, cols: cols as u8 }.into())
                    }
                    TyPattern::Quaternion => Some(Composite::Quaternion { elem }.into()),
                    _ => None,
                });
                all.extend(types.collect::<Option<Vec<Type>>>().map(|types| (info.op, types)));
            }
        }
    }
    all
}

#[test]
fn definitions_of_ops_on_composites_take_and_give_components() {
    let mut names = Vec::new();
    for (op, types) in composite_overloads() {
        let Some(function) = library_function(op, &types) else { continue };
        let flat = |types: &[Type]| types.iter().flat_map(|ty| ty.components()).collect::<Vec<_>>();
        let results = op.info().signatures.iter().find_map(|s| s.result_types(&types)).unwrap();
        assert_eq!(function.results.to_vec(), flat(&results), "{}", function.name);
        let params: Vec<Type> = function.params().iter().map(|&param| function.ty(param)).collect();
        assert_eq!(params, flat(&types), "{}", function.name);
        names.push(function.name);
    }
    let n_functions = names.len();
    assert!(n_functions >= 32, "only {n_functions}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), n_functions);
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
