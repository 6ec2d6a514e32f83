//! Every definition of a library op survives its preparation: what the pipeline makes of a call is what the
//! interpreter makes of the op.

use polyloom_ir::interp::Interpreter;
use polyloom_ir::op::{Lowering, TyPattern};
use polyloom_ir::{Builder, FuncId, Function, FunctionKind, Module, Op, Scalar, Type, eval, math, verify_module};
use polyloom_passes::{PipelineOptions, prepared};

/// Operand types of each overload, of type variables each member.
fn overloads(op: Op) -> Vec<Vec<Type>> {
    let mut all = Vec::new();
    for signature in op.info().signatures.iter().filter(|signature| !signature.has_composites()) {
        for scalar in Scalar::ALL {
            let types: Option<Vec<Type>> = signature
                .params
                .iter()
                .map(|param| match param.ty {
                    TyPattern::Var => Some(scalar.into()),
                    TyPattern::Is(scalar) => Some(scalar.into()),
                    _ => None,
                })
                .collect();
            let Some(types) = types else { continue };
            if signature.result_types(&types).is_some() && math::library_function(op, &types).is_some() {
                all.push(types);
            }
            if signature.var.is_none() {
                break;
            }
        }
    }
    all
}

fn samples(scalar: Scalar) -> Vec<u64> {
    let numbers = [0.0, -0.0, 0.5, 1.0, -1.0, 2.5, 1e-3, -7.0, 123456.0, 1e30, f64::INFINITY, f64::NAN];
    let from = |x: f64| eval::eval(Op::Cast, &[Type::F64], &[x.to_bits()], scalar.into()).expect("numbers convert");
    numbers.into_iter().map(from).collect()
}

fn canonical(ty: Type, bits: u64) -> u64 {
    if eval::eval(Op::Ne, &[ty, ty], &[bits, bits], Type::BOOL) == Some(1) { u64::MAX } else { bits }
}

#[test]
fn prepared_library_ops_compute_what_the_ops_do() {
    let mut n_overloads = 0;
    for info in Op::all().filter(|info| info.lowering == Lowering::Library) {
        for types in overloads(info.op) {
            n_overloads += 1;
            let names = ["a", "b", "c", "d", "e"];
            let results = info.signatures.iter().find_map(|s| s.result_types(&types)).expect("the overload exists");
            let params = names.iter().copied().zip(types.iter().copied());
            let mut func = Function::new("f", FunctionKind::Func, params, &results);
            let operands = func.params().to_vec();
            let mut builder = Builder::new(&mut func);
            let values = builder.op_results(info.op, &operands);
            builder.return_(&values);
            let mut module = Module::new();
            let id: FuncId = module.functions.push(func);
            let (copy, copy_id) = prepared(&module, id, &PipelineOptions::default()).expect("a small function");
            assert!(verify_module(&copy).is_ok(), "{}\n{copy}", info.name);
            copy.functions[copy_id].walk(copy.functions[copy_id].body, &mut |_, data| {
                let types: Vec<Type> = data.operands.iter().map(|&v| copy.functions[copy_id].ty(v)).collect();
                assert!(math::library_function(data.op, &types).is_none(), "{} remains\n{copy}", data.op.name());
            });
            let before = Interpreter::new(&module, id).expect("the op is defined");
            let after = Interpreter::new(&copy, copy_id).expect("its definition is native");
            let columns: Vec<Vec<u64>> =
                types.iter().map(|ty| samples(ty.as_scalar().expect("operands are scalars"))).collect();
            for row in 0..columns[0].len() * 3 {
                let n = columns[0].len();
                let args: Vec<u64> =
                    columns.iter().enumerate().map(|(i, c)| c[(row + i * (row / n + 1)) % n]).collect();
                let run = |interpreter: &Interpreter| -> Vec<u64> {
                    let bits = interpreter.call(&args).expect("library ops are total");
                    bits.into_iter().zip(&results).map(|(bits, &ty)| canonical(ty, bits)).collect()
                };
                assert_eq!(run(&before), run(&after), "{} {types:?} {args:x?}\n{copy}", info.name);
            }
        }
    }
    assert!(n_overloads > 50, "only {n_overloads} overloads");
}
