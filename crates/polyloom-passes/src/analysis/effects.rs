//! What calls do: the op table says only that a call may do anything; the callee's body says more.

use cranelift_entity::SecondaryMap;
use polyloom_ir::op::Effect;
use polyloom_ir::{FuncId, Function, Imm, InstData, Module, Op};

/// The effects of the functions that one function calls, directly or not.
#[derive(Clone, Debug, Default)]
pub struct CallEffects {
    known: SecondaryMap<FuncId, Option<Effect>>,
}

impl CallEffects {
    /// The effects of everything `func` calls.
    pub fn of(module: &Module, func: FuncId) -> CallEffects {
        let mut effects = CallEffects::default();
        for callee in callees(&module.functions[func]) {
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
        for callee in callees(function) {
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

/// The functions `function` calls itself, each once.
pub fn callees(function: &Function) -> Vec<FuncId> {
    let mut callees = Vec::new();
    function.walk(function.body, &mut |_, data| {
        if let Imm::Func(callee) = data.imm
            && !callees.contains(&callee)
        {
            callees.push(callee);
        }
    });
    callees
}
