//! Functions for whose derivative the program gives others: `Function::gradient` and `Function::replay`.
//!
//! Calls of such a function stay calls until the sweeps are written. The forward sweep calls it again, or what runs in
//! its place; the reverse sweep calls what carries derivatives through it. Then all of them are inlined.

use super::sweep::{Asked, Sweep};
use super::{Request, is_float, zero};
use crate::analysis::effects::CallEffects;
use crate::transform::inline;
use polyloom_ir::op::Effect;
use polyloom_ir::{Code, Diagnostic, FuncId, Function, Imm, InstData, Module, Op, Type, Value};
use smallvec::SmallVec;

/// Refuses calls that the sweeps cannot do again, or whose arrays would get no gradient. Gives the arrays whose elements
/// after the kernel count: those that the kernel writes and a replay reads.
pub(super) fn check(module: &Module, kernel: &Function, request: &Request) -> Result<Vec<bool>, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut left = vec![false; kernel.params().len()];
    let written = without_calls(module, kernel.clone())?.written_arrays();
    kernel.walk(kernel.body, &mut |_, data| {
        let (Op::Call, Imm::Func(callee)) = (data.op, &data.imm) else { return };
        let function = &module.functions[*callee];
        let run = function.replay.unwrap_or(*callee);
        let mut refuse = |message: String, help: &str| {
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        };
        let only_reads = |id| matches!(CallEffects::of_function(module, id), Effect::Pure | Effect::Read);
        if !only_reads(run) {
            let message =
                format!("`{}` writes to memory, and would do so again on the way to its derivative", function.name);
            refuse(message, "give what runs in its place there, `@func_replay`, which writes nothing");
        }
        let arrays = data.operands.iter().filter_map(|&operand| kernel.param_index(operand));
        for param in arrays.filter(|&param| kernel.ty(kernel.params()[param]).as_any_array().is_some()) {
            let is_float = is_float(kernel.ty(kernel.params()[param]));
            let is_active = request.active.get(param).copied().unwrap_or(false) && is_float;
            let name = &kernel.param_names[param];
            if is_active && (function.gradient.is_some() || !only_reads(*callee)) {
                let message = format!("the gradient of `{}` says nothing of the array `{name}`", function.name);
                refuse(message, "pass elements of the array, not the array");
            } else if written.get(param).copied().unwrap_or(false) {
                left[param] |= function.replay.is_some();
                if function.replay.is_none() {
                    let message = format!("`{}` reads the array `{name}`, which the kernel writes", function.name);
                    refuse(message, "pass elements of the array, not the array");
                }
            }
        }
    });
    kernel.walk(kernel.body, &mut |_, data| {
        for param in data.operands.iter().filter_map(|&operand| kernel.param_index(operand)) {
            if data.op != Op::Call && left[param] {
                let name = &kernel.param_names[param];
                let message =
                    format!("`{name}` is read by a replay, which sees it as the kernel has left it, and used here");
                let help = "use two arrays";
                errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
            }
        }
    });
    if errors.is_empty() { Ok(left) } else { Err(errors) }
}

/// Refuses replays of what the kernel has left in arrays where the kernel is run once more to know what it leaves.
pub(super) fn refuse_second_runs(kernel: &Function, left: &[bool]) -> Result<(), Vec<Diagnostic>> {
    if !left.contains(&true) {
        return Ok(());
    }
    let message =
        format!("`{}` has a replay, and a least or greatest element whose gradient asks for a second run", kernel.name);
    let help = "do the one and the other in two kernels";
    Err(vec![Diagnostic::error(Code::NotDifferentiable, kernel.span, message).help(help)])
}

/// A function with the bodies of what it calls in place of the calls.
pub(super) fn without_calls(module: &Module, function: Function) -> Result<Function, Vec<Diagnostic>> {
    let mut has_calls = false;
    function.walk(function.body, &mut |_, data| has_calls |= data.op == Op::Call);
    if !has_calls {
        return Ok(function);
    }
    let mut module = module.clone();
    let id = module.functions.push(function);
    inline::inline(&mut module, id, inline::Keep::NoCalls)?;
    Ok(module.functions[id].clone())
}

impl Sweep<'_> {
    /// Calls a function again, or what runs in its place.
    pub(super) fn call(&mut self, data: &InstData) {
        let Imm::Func(callee) = data.imm else { return };
        let run = self.rest.functions[callee].replay.unwrap_or(callee);
        self.copy(&InstData { imm: Imm::Func(run), ..data.clone() });
    }

    /// Calls what carries derivatives through a function.
    pub(super) fn reverse_call(&mut self, data: &InstData) {
        let Imm::Func(callee) = data.imm else { return };
        let asked = self.asked_for(&data.results);
        let adjoints: SmallVec<[Option<Value>; 2]> =
            data.results.iter().map(|&result| self.adjoints[result].take()).collect();
        if adjoints.iter().all(Option::is_none) {
            return;
        }
        let Some(gradient) = self.rest.functions[callee].gradient else {
            let name = self.rest.functions[callee].name.clone();
            let help = "give its gradient too, with `@func_grad`";
            return self.refuse(data, format!("`{name}` has a replay function and no gradient of its own"), help);
        };
        self.call_gradient(data, gradient, &adjoints, asked);
    }

    fn call_gradient(&mut self, data: &InstData, gradient: FuncId, adjoints: &[Option<Value>], asked: Asked) {
        let old = self.old;
        let mut operands = self.mapped(&data.operands);
        for (&result, &adjoint) in data.results.iter().zip(adjoints) {
            let adjoint = adjoint.unwrap_or_else(|| zero(&mut self.builder, old.ty(result)));
            operands.push(adjoint);
        }
        let is_plain = |ty: Type| is_float(ty) && ty.as_any_array().is_none();
        let moving: SmallVec<[Value; 4]> =
            data.operands.iter().copied().filter(|&operand| is_plain(old.ty(operand))).collect();
        let types: SmallVec<[Type; 4]> = moving.iter().map(|&operand| old.ty(operand)).collect();
        for &ty in &types {
            operands.push(zero(&mut self.builder, ty));
        }
        let call = self.builder.inst(Op::Call, &operands, &types, Imm::Func(gradient));
        let found = self.builder.func.insts[call].results.clone();
        for (&operand, &contribution) in moving.iter().zip(&found) {
            let contribution = self.if_asked(asked, contribution);
            self.add_if(operand, contribution, asked);
        }
    }
}
