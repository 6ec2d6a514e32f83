//! What calls do: the op table says only that a call may do anything; the callee's body says more.

use crate::entity::FuncId;
use crate::function::{Imm, InstData, Module};
use crate::op::{Effect, Op};
use cranelift_entity::SecondaryMap;

/// The effects of the functions that one function calls, directly or not.
#[derive(Clone, Debug, Default)]
pub struct CallEffects {
    known: SecondaryMap<FuncId, Option<Effect>>,
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

    /// The effect of calling `func`: [`Effect::Pure`], [`Effect::Read`] or [`Effect::ReadWrite`].
    pub fn of_function(module: &Module, func: FuncId) -> Effect {
        CallEffects::default().add(module, func)
    }

    fn add(&mut self, module: &Module, func: FuncId) -> Effect {
        if let Some(effect) = self.known[func] {
            return effect;
        }
        // A recursive call finds this entry; the verifier rejects recursion, so its pessimism costs nothing.
        self.known[func] = Some(Effect::ReadWrite);
        let function = &module.functions[func];
        for callee in function.callees() {
            self.add(module, callee);
        }
        let mut effect = Effect::Pure;
        function.walk(function.body, &mut |_, data| match self.of_inst(data) {
            Effect::Pure | Effect::Region | Effect::Terminator => {}
            Effect::Read if effect == Effect::Pure => effect = Effect::Read,
            Effect::Read => {}
            Effect::Write | Effect::ReadWrite => effect = Effect::ReadWrite,
        });
        self.known[func] = Some(effect);
        effect
    }

    /// The effect of one instruction, not counting its regions'.
    pub fn of_inst(&self, data: &InstData) -> Effect {
        match (data.op, &data.imm) {
            (Op::Call, Imm::Func(callee)) => self.known[*callee].unwrap_or(Effect::ReadWrite),
            (op, _) => op.info().effect,
        }
    }
}
