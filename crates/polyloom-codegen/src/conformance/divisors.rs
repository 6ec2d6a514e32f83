//! Integer division by an argument of the launch, which back ends replace by a multiplication, against
//! [`polyloom_ir::eval`].

use super::launch::{dense, facts, run};
use super::values::{RandomOperands, edges};
use super::{EngineSubject, HirPreparation};
use polyloom_ir::eval::{OpEvaluator, evaluator};
use polyloom_ir::interp::{BufferMemory, InterpArg};
use polyloom_ir::{Builder, FuncId, Function, FunctionKind, Imm, Module, Op, Scalar, Type, Value, verify_module};

/// Quotients and remainders of every integer type, of threads and of the iterations of a loop.
pub fn all(subject: &EngineSubject<'_>) {
    let mut random = RandomOperands::new(5);
    for ty in Scalar::ALL.into_iter().filter(|ty| ty.is_int()) {
        let kernels = [of_threads(ty), of_iterations(ty)];
        check(subject, ty, &kernels, &mut random);
    }
}

/// A kernel of the dividends, the quotients, the remainders and the divisor.
fn kernel(ty: Scalar, body: impl FnOnce(&mut Builder<'_>, &[Value])) -> (Module, FuncId) {
    let array = Type::array(ty, 1);
    let params = [("a", array), ("quotients", array), ("remainders", array), ("divisor", ty.into())];
    let mut function = Function::new("divide", FunctionKind::Kernel, params, &[]);
    let params = function.params().to_vec();
    let mut builder = Builder::new(&mut function);
    body(&mut builder, &params);
    builder.return_(&[]);
    let mut module = Module::new();
    let id = module.functions.push(function);
    if let Err(errors) = verify_module(&module) {
        panic!("{errors:?}\n{module}");
    }
    (module, id)
}

fn divide_element(builder: &mut Builder<'_>, params: &[Value], index: Value) {
    let dividend = builder.op(Op::ArrayLoad, &[params[0], index]);
    for (op, results) in [(Op::Div, params[1]), (Op::Mod, params[2])] {
        let result = builder.op(op, &[dividend, params[3]]);
        builder.inst(Op::ArrayStore, &[results, index, result], &[], Imm::None);
    }
}

fn of_threads(ty: Scalar) -> (Module, FuncId) {
    kernel(ty, |builder, params| {
        let thread = builder.tid(0);
        divide_element(builder, params, thread);
    })
}

/// Each thread divides its element in a loop, of one iteration, which back ends cannot see.
fn of_iterations(ty: Scalar) -> (Module, FuncId) {
    kernel(ty, |builder, params| {
        let thread = builder.tid(0);
        let end = builder.dim(params[0], 0);
        let (_, body) = builder.begin_for_range([thread, end, end], &[]);
        let index = builder.func.regions[body].params[0];
        let outside = builder.switch_to(body);
        divide_element(builder, params, index);
        builder.yield_(&[]);
        builder.switch_to(outside);
    })
}

/// The divisors of a type: all of them if they are few, otherwise edges, numbers around powers of two and random ones.
fn divisors(ty: Scalar, random: &mut RandomOperands) -> Vec<u64> {
    let mask = u64::MAX >> (64 - ty.bits());
    if ty.bits() == 8 {
        return (0..=mask).collect();
    }
    let mut divisors = edges(ty);
    for power in (0..ty.bits()).map(|bit| 1u64 << bit) {
        divisors.extend([power - 1, power, power + 1, power.wrapping_neg() & mask]);
    }
    // Numbers of all lengths, because most of all numbers are long.
    divisors.extend((1..ty.bits()).map(|n_bits| random.bits() >> (64 - n_bits)));
    divisors.sort_unstable();
    divisors.dedup();
    divisors
}

/// Dividends that show a wrong reciprocal: neighbours of multiples of the divisor, the largest among them, and edges.
fn dividends(ty: Scalar, divisor: u64, random: &mut RandomOperands) -> Vec<u64> {
    let mask = u64::MAX >> (64 - ty.bits());
    if ty.bits() == 8 {
        return (0..=mask).collect();
    }
    let sign = 1 << (ty.bits() - 1);
    let mut dividends = edges(ty);
    dividends.extend(random.values(ty, 32));
    let largest = [mask, sign - 1, sign].map(|most| most.checked_div(divisor).unwrap_or_default());
    for multiple in largest.into_iter().chain((0..24).map(|n| random.bits() >> (n % ty.bits()))) {
        let product = multiple.wrapping_mul(divisor);
        dividends.extend([product.wrapping_sub(1), product, product.wrapping_add(1)].map(|value| value & mask));
    }
    dividends
}

fn check(subject: &EngineSubject<'_>, ty: Scalar, kernels: &[(Module, FuncId)], random: &mut RandomOperands) {
    let evaluators = [Op::Div, Op::Mod].map(|op| match evaluator(op, &[ty.into(), ty.into()], ty.into()) {
        Some(OpEvaluator::Binary(evaluate)) => evaluate,
        _ => panic!("`{}` of {ty} has no definition", op.name()),
    });
    for (module, id) in kernels {
        let mut code = None;
        for divisor in divisors(ty, random) {
            let dividends = dividends(ty, divisor, random);
            let extents = [dividends.len()];
            let mut memory = BufferMemory::default();
            let mut args = vec![dense(&mut memory, ty, &extents, &dividends)];
            args.extend([0, 1].map(|_| dense(&mut memory, ty, &extents, &vec![0; dividends.len()])));
            args.push(InterpArg::Scalar(divisor));
            let (prepared, id, code) = code.get_or_insert_with(|| {
                let facts = facts(&module.functions[*id], &args);
                subject.load(module, *id, HirPreparation::Unchecked, 1, facts)
            });
            let total = dividends.len() as u64;
            run(code, &prepared.functions[*id], &[total], &args, &mut memory, std::slice::from_ref(&(0..total)));
            for (position, evaluate) in evaluators.iter().enumerate() {
                let results = memory.elements(ty, args[1 + position]);
                for (&dividend, &got) in dividends.iter().zip(&results) {
                    let want = evaluate(dividend, divisor);
                    let op = ["/", "%"][position];
                    assert!(
                        got == want,
                        "{}: {dividend:#x} {op} {divisor:#x} of {ty}: {got:#x}, not {want:#x}\n{prepared}",
                        subject.name()
                    );
                }
            }
        }
    }
}
