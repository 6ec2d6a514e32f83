//! Steps of the random generator in definitions for text: the dozen integer operations of one become a call, so that a
//! reader sees what is made of the numbers drawn.

use crate::transform::dce;
use polyloom_ir::{
    Builder, CallEffects, FuncId, Function, FunctionKind, Imm, Inst, Module, Op, Scalar, Type, Value, ValueDef,
};

/// Holds what a step is called.
const STEP: &str = "random_step.u32";

/// The numbers of a step (`polyloom_ir::math`, `random.rs`).
const FACTOR: u64 = 747_796_405;
const SUMMAND: u64 = 2_891_336_453;
const WORD_FACTOR: u64 = 277_803_737;

/// Makes every step of the generator in a module's functions the call of one function.
pub(super) fn outline_steps(module: &mut Module) {
    let mut step: Option<FuncId> = None;
    for id in module.functions.keys().collect::<Vec<_>>() {
        let func = &module.functions[id];
        let mut found: Vec<(Inst, Value)> = Vec::new();
        func.walk(func.body, &mut |inst, _| found.extend(stepped(func, inst).map(|state| (inst, state))));
        if found.is_empty() {
            continue;
        }
        let callee = *step.get_or_insert_with(|| module.functions.push(step_function()));
        let func = &mut module.functions[id];
        let name = func.params().first().and_then(|&param| func.value_names[param].clone());
        let name = name.or_else(|| func.param_names.first().cloned()).filter(|name| &**name == "state");
        if let (Some(&param), Some(name)) = (func.params().first(), &name) {
            func.value_names[param] = Some(name.clone());
        }
        for (inst, state) in found {
            let data = &mut func.insts[inst];
            (data.op, data.imm) = (Op::Call, Imm::Func(callee));
            data.operands = [state].as_slice().into();
            let result = data.results[0];
            func.value_names[result].clone_from(&name);
        }
        let calls = CallEffects::of(module, id);
        dce::dce(&mut module.functions[id], &calls);
    }
}

/// The state of which an instruction gives the next one.
fn stepped(func: &Function, inst: Inst) -> Option<Value> {
    let data = &func.insts[inst];
    if data.op != Op::BitXor || func.ty(*data.results.first()?) != Type::Scalar(Scalar::U32) {
        return None;
    }
    let word = shifted_onto(func, &data.operands, |by| func.as_const(by) == Some(22))?;
    let mixed = with_constant(func, word, Op::Mul, WORD_FACTOR)?;
    let ValueDef::Result(inner, _) = func.values[mixed].def else { return None };
    let inner = Some(&func.insts[inner]).filter(|inner| inner.op == Op::BitXor)?;
    let linear = shifted_onto(func, &inner.operands, |by| {
        let upper = with_constant(func, by, Op::Add, 4);
        upper.and_then(|upper| with_constant(func, upper, Op::Rshift, 28)).is_some()
    })?;
    let product = with_constant(func, linear, Op::Add, SUMMAND)?;
    with_constant(func, product, Op::Mul, FACTOR)
}

/// The number `x` of `(x >> by) ^ x`.
fn shifted_onto(func: &Function, operands: &[Value], is_count: impl Fn(Value) -> bool) -> Option<Value> {
    let &[a, b] = operands else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(shifted, whole)| {
        let ValueDef::Result(inst, _) = func.values[shifted].def else { return None };
        let data = &func.insts[inst];
        (data.op == Op::Rshift && data.operands[0] == whole && is_count(data.operands[1])).then_some(whole)
    })
}

/// The other operand of an op on a value and a constant.
fn with_constant(func: &Function, value: Value, op: Op, constant: u64) -> Option<Value> {
    let ValueDef::Result(inst, _) = func.values[value].def else { return None };
    let data = &func.insts[inst];
    let &[a, b] = &data.operands[..] else { return None };
    (data.op == op && func.as_const(b) == Some(constant)).then_some(a)
}

fn step_function() -> Function {
    let u32 = Type::Scalar(Scalar::U32);
    let mut func = Function::new(STEP, FunctionKind::Func, [("state", u32)], &[u32]);
    let state = func.params()[0];
    let mut builder = Builder::new(&mut func);
    let [factor, summand, word_factor, four, upper, lower] =
        [FACTOR, SUMMAND, WORD_FACTOR, 4, 28, 22].map(|number| builder.const_bits(Scalar::U32, number));
    let product = builder.op(Op::Mul, &[state, factor]);
    let linear = builder.op(Op::Add, &[product, summand]);
    let count = builder.op(Op::Rshift, &[linear, upper]);
    let count = builder.op(Op::Add, &[count, four]);
    let shifted = builder.op(Op::Rshift, &[linear, count]);
    let mixed = builder.op(Op::BitXor, &[shifted, linear]);
    let word = builder.op(Op::Mul, &[mixed, word_factor]);
    let shifted = builder.op(Op::Rshift, &[word, lower]);
    let next = builder.op(Op::BitXor, &[shifted, word]);
    builder.return_(&[next]);
    func.value_names[linear] = Some("x".into());
    func.value_names[word] = Some("word".into());
    func
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_in_what_defines_it() {
        let step = step_function();
        let last = step.terminator(step.body).map(|last| step.insts[last].operands[0]);
        let Some(ValueDef::Result(inst, _)) = last.map(|value| step.values[value].def) else { panic!("it ends") };
        assert_eq!(stepped(&step, inst), Some(step.params()[0]));
    }

    #[test]
    fn definitions_for_text_call_steps() {
        for (op, types, n_steps) in
            [(Op::RandInit, &[Type::I32, Type::I32][..], 2), (Op::Randn, &[Type::Scalar(Scalar::U32)], 2)]
        {
            let module = super::super::definition(op, types).expect("the op is defined");
            let mut n_calls = 0;
            let func = &module.functions[FuncId::from_u32(0)];
            func.walk(func.body, &mut |_, data| {
                n_calls +=
                    usize::from(matches!(data.imm, Imm::Func(callee) if &*module.functions[callee].name == STEP));
            });
            assert_eq!(n_calls, n_steps, "{op:?}");
        }
    }
}
