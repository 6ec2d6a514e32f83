//! What calls do: the op table says only that a call may do anything; the callee's body says more.
//!
//! Both answers are found once a function, since a chain of functions that each call the next one twice has
//! exponentially many paths.

use crate::entity::FuncId;
use crate::function::{Imm, InstData, Module};
use crate::op::{Op, OpEffect};
use cranelift_entity::SecondaryMap;

/// The effects of the functions that one function calls, directly or not.
#[derive(Clone, Debug, Default)]
pub struct CallEffects {
    known: SecondaryMap<FuncId, Option<OpEffect>>,
}

impl CallEffects {
    /// The effects of everything `func` calls.
    pub fn of(module: &Module, func: FuncId) -> CallEffects {
        let mut effects = CallEffects::default();
        for callee in module.functions[func].callees() {
            effects.add(module, callee);
        }
        effects
    }

    /// The effect of calling `func`: [`OpEffect::Pure`], [`OpEffect::Read`] or [`OpEffect::ReadWrite`].
    pub fn of_function(module: &Module, func: FuncId) -> OpEffect {
        CallEffects::default().add(module, func)
    }

    fn add(&mut self, module: &Module, func: FuncId) -> OpEffect {
        if let Some(effect) = self.known[func] {
            return effect;
        }
        // A recursive call finds this entry; the verifier rejects recursion, so that its pessimism costs nothing.
        self.known[func] = Some(OpEffect::ReadWrite);
        let function = &module.functions[func];
        for callee in function.callees() {
            self.add(module, callee);
        }
        let mut effect = OpEffect::Pure;
        function.walk(function.body, &mut |_, data| match self.of_inst(data) {
            OpEffect::Pure | OpEffect::Region | OpEffect::Terminator => {}
            OpEffect::Read if effect == OpEffect::Pure => effect = OpEffect::Read,
            OpEffect::Read => {}
            OpEffect::Write | OpEffect::ReadWrite => effect = OpEffect::ReadWrite,
        });
        self.known[func] = Some(effect);
        effect
    }

    /// The effect of one instruction, not counting its regions'.
    pub fn of_inst(&self, data: &InstData) -> OpEffect {
        match (data.op, &data.imm) {
            (Op::Call, Imm::Func(callee)) => self.known[*callee].unwrap_or(OpEffect::ReadWrite),
            (op, _) => op.info().effect,
        }
    }
}

/// The arrays that functions write themselves or by what they call.
#[derive(Clone, Debug, Default)]
pub struct ArrayWrites {
    known: SecondaryMap<FuncId, Option<Vec<bool>>>,
}

impl ArrayWrites {
    /// Those of `func` and of everything that it calls.
    pub fn of(module: &Module, func: FuncId) -> ArrayWrites {
        let mut writes = ArrayWrites::default();
        writes.add(module, func);
        writes
    }

    /// Those of every function of a module.
    pub fn of_module(module: &Module) -> ArrayWrites {
        let mut writes = ArrayWrites::default();
        module.functions.keys().for_each(|func| writes.add(module, func));
        writes
    }

    /// Returns true for each parameter of a function that was looked at if it is an array that the function may write.
    pub fn of_function(&self, func: FuncId) -> &[bool] {
        self.known[func].as_deref().unwrap_or_default()
    }

    fn add(&mut self, module: &Module, func: FuncId) {
        if self.known[func].is_some() {
            return;
        }
        let function = &module.functions[func];
        // A recursive call finds this entry; the verifier rejects recursion, so that its pessimism costs nothing.
        self.known[func] = Some(vec![true; function.params().len()]);
        for callee in function.callees() {
            self.add(module, callee);
        }
        let mut written = vec![false; function.params().len()];
        function.walk(function.body, &mut |_, data| {
            let by_callee = match data.imm {
                Imm::Func(callee) => self.of_function(callee),
                _ => &[],
            };
            let is_write =
                matches!(data.op.info().effect, OpEffect::Write | OpEffect::ReadWrite) && data.op != Op::Call;
            for (index, &array) in data.operands.iter().enumerate() {
                let writes = (is_write && index == 0) || by_callee.get(index) == Some(&true);
                if writes
                    && function.ty(array).as_any_array().is_some()
                    && let Some(param) = function.param_index(array)
                {
                    written[param] = true;
                }
            }
        });
        self.known[func] = Some(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, parse_module};
    use std::fmt::Write as _;

    fn writes_of(text: &str, name: &str) -> Vec<bool> {
        let module = parse_module(text, FileId::from_u32(0)).expect("the text is HIR");
        let func = module.find(name).expect("the module has the function");
        assert_eq!(ArrayWrites::of(&module, func).of_function(func), ArrayWrites::of_module(&module).of_function(func));
        ArrayWrites::of(&module, func).of_function(func).to_vec()
    }

    #[test]
    fn an_array_is_written_where_a_callee_stores_into_it() {
        let text = "func @put(%0 a: array<f32, 1>, %1 b: array<f32, 1>, %2 i: i32) {
              %3: f32 = array_load %1, %2
              array_store %0, %2, %3
              return
            }
            func @swapped(%0 a: array<f32, 1>, %1 b: array<f32, 1>, %2 i: i32) {
              call @put %1, %0, %2
              return
            }
            kernel @k(%0 x: array<f32, 1>, %1 y: array<f32, 1>, %2 z: array<f32, 1>, %3 n: i32) {
              call @swapped %0, %1, %3
              %4: f32 = const 1.0
              %5: f32 = atomic_add %2, %3, %4
              return
            }";
        assert_eq!(writes_of(text, "swapped"), [false, true, false]);
        assert_eq!(writes_of(text, "k"), [false, true, true, false]);
    }

    #[test]
    fn functions_that_call_the_next_one_twice_are_looked_at_once() {
        let mut text =
            "func @f0(%0 a: array<f32, 1>, %1 i: i32) {\n%2: f32 = array_load %0, %1\nreturn\n}\n".to_owned();
        for n in 1..60 {
            let called = n - 1;
            let _ = write!(
                text,
                "func @f{n}(%0 a: array<f32, 1>, %1 i: i32) {{\ncall @f{called} %0, %1\ncall @f{called} %0, %1\nreturn\n}}\n"
            );
        }
        text.push_str("kernel @k(%0 x: array<f32, 1>, %1 i: i32) {\ncall @f59 %0, %1\nreturn\n}\n");
        assert_eq!(writes_of(&text, "k"), [false, false]);
    }
}
