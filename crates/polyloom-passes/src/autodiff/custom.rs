//! Functions for whose derivative the program gives others: `Function::gradient` and `Function::replay`.
//!
//! Calls of such a function stay calls until the sweeps are written. The forward sweep calls it again, or what runs in
//! its place; the reverse sweep calls what carries derivatives through it. Then all of them are inlined.
//!
//! Design: `docs/design/custom-derivatives.md`.

use super::constants::zero;
use super::instructions::is_used;
use super::request::DerivativeRequest;
use super::sweep::{Asked, BackwardBuilder};
use crate::transform::inline;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{
    CallEffects, Code, Diagnostic, FuncId, Function, Imm, Inst, InstData, Module, Op, Region, Type, Value,
};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Returns the adjoints of arrays that a function with a gradient takes, by the function's parameter.
fn adjoint_arrays(module: &Module, function: &Function) -> SmallVec<[(usize, Value); 4]> {
    let Some(gradient) = function.gradient.map(|gradient| &module.functions[gradient]) else {
        return SmallVec::new();
    };
    let (params, _) = function.gradient_signature(true);
    if gradient.params().len() != params.len() {
        return SmallVec::new();
    }
    let ty = |index: usize| function.ty(function.params()[index]);
    let moving = (0..function.params().len()).filter(|&index| ty(index).is_float());
    let adjoints = &gradient.params()[function.params().len() + function.results.len()..];
    moving.zip(adjoints.iter().copied()).filter(|&(index, _)| ty(index).as_any_array().is_some()).collect()
}

/// Arrays to whose adjoints gradients of functions add have adjoints, whether anybody asks for them or not.
pub(super) fn with_arrays(module: &Module, kernel: &Function, request: &DerivativeRequest) -> DerivativeRequest {
    let mut request = request.clone();
    request.active.resize(kernel.params().len(), false);
    kernel.walk(kernel.body, &mut |_, data| {
        let (Op::Call, Imm::Func(callee)) = (data.op, &data.imm) else { return };
        for (index, _) in adjoint_arrays(module, &module.functions[*callee]) {
            if let Some(param) = kernel.param_index(data.operands[index]) {
                request.active[param] = true;
            }
        }
    });
    request
}

/// Refuses calls that the sweeps cannot do again, or whose arrays would get no gradient. Gives the arrays whose
/// elements after the kernel count: those that the kernel writes and a replay reads.
pub(super) fn check(
    module: &Module,
    kernel: &Function,
    request: &DerivativeRequest,
) -> Result<Vec<bool>, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut left = vec![false; kernel.params().len()];
    if !has_calls(kernel) {
        return Ok(left);
    }
    let written = without_calls(module, Cow::Borrowed(kernel))?.written_arrays();
    kernel.walk(kernel.body, &mut |_, data| {
        let (Op::Call, Imm::Func(callee)) = (data.op, &data.imm) else { return };
        let function = &module.functions[*callee];
        let run = function.replay.unwrap_or(*callee);
        let mut refuse = |message: String, help: &str| {
            errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
        };
        let only_reads = |id| matches!(CallEffects::of_function(module, id), OpEffect::Pure | OpEffect::Read);
        if !only_reads(run) {
            if let Some(replay) = function.replay {
                let (replay, name) = (&module.functions[replay].name, &function.name);
                let message = format!("`{replay}`, which runs in place of `{name}` on the way back, writes to memory");
                refuse(message, "let it give what the other gave, and write nothing");
            } else {
                let message =
                    format!("`{}` writes to memory, and would do so again on the way to its derivative", function.name);
                refuse(message, "give what runs in its place there, `@func_replay`, which writes nothing");
            }
        }
        let adjoints = adjoint_arrays(module, function);
        for (operand, &array) in data.operands.iter().enumerate() {
            let ty = kernel.ty(array);
            let Some(param) = kernel.param_index(array).filter(|_| ty.as_any_array().is_some()) else { continue };
            let is_active = request.active.get(param).copied().unwrap_or(false) && ty.is_float();
            let name = &kernel.param_names[param];
            let adjoint = adjoints.iter().find(|(index, _)| *index == operand).map(|&(_, adjoint)| adjoint);
            let gradient = function.gradient.map(|gradient| &module.functions[gradient]);
            let is_told = adjoint.zip(gradient).is_some_and(|(adjoint, gradient)| is_used(gradient, adjoint));
            if is_active && (gradient.is_some() && !is_told || !only_reads(*callee)) {
                let message = format!("the gradient of `{}` says nothing of the array `{name}`", function.name);
                let own = &function.param_names[operand];
                let help = format!("add to `adjoint[{own}][i]` there, or pass elements of the array");
                refuse(message, &help);
            } else if let Some((adjoint, gradient)) = adjoint.zip(gradient)
                && !is_only_added_to(gradient, adjoint)
            {
                let message =
                    format!("`{}` does something else with the adjoint of an array than to add", gradient.name);
                refuse(message, "add to its elements: `adjoint[x][i] += a`");
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
    let mut calls = Vec::new();
    find_calls(kernel, kernel.body, false, &mut calls);
    let mut replayed = vec![false; left.len()];
    for (inst, in_loop) in calls {
        let data = &kernel.insts[inst];
        for param in data.operands.iter().filter_map(|&operand| kernel.param_index(operand)) {
            if left[param] && (in_loop || replayed[param]) {
                let name = &kernel.param_names[param];
                let message = format!("a replay reads what the kernel has left in `{name}`, and runs more than once");
                let help = "keep what each call gives, in arrays or elements of their own, and call it once a thread";
                errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
            }
            replayed[param] |= left[param];
        }
    }
    if errors.is_empty() { Ok(left) } else { Err(errors) }
}

/// The calls of a region, and whether each is in a loop.
fn find_calls(kernel: &Function, region: Region, in_loop: bool, found: &mut Vec<(Inst, bool)>) {
    for &inst in &kernel.regions[region].insts {
        let data = &kernel.insts[inst];
        if data.op == Op::Call {
            found.push((inst, in_loop));
        }
        for &inner in &data.regions {
            find_calls(kernel, inner, in_loop || matches!(data.op, Op::ForRange | Op::While), found);
        }
    }
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
pub(super) fn without_calls<'a>(
    module: &Module,
    function: Cow<'a, Function>,
) -> Result<Cow<'a, Function>, Vec<Diagnostic>> {
    if !has_calls(&function) {
        return Ok(function);
    }
    let mut module = module.clone();
    let id = module.functions.push(function.into_owned());
    inline::inline(&mut module, id, inline::KeptCalls::NoCalls)?;
    Ok(Cow::Owned(module.functions[id].clone()))
}

fn has_calls(function: &Function) -> bool {
    let mut has_calls = false;
    function.walk(function.body, &mut |_, data| has_calls |= data.op == Op::Call);
    has_calls
}

impl BackwardBuilder<'_> {
    /// Calls a function again, or what runs in its place.
    pub(super) fn call(&mut self, data: &InstData) {
        let Imm::Func(callee) = data.imm else { return };
        let run = self.rest.functions[callee].replay.unwrap_or(callee);
        self.copy(&InstData { imm: Imm::Func(run), ..data.clone() });
    }

    /// Calls what carries derivatives through a function, if that is asked for.
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
        let (old, Imm::Func(callee)) = (self.old, &data.imm) else { return };
        let function = &self.rest.functions[*callee];
        let takes_arrays = !adjoint_arrays(self.rest, function).is_empty();
        let mut operands = self.mapped(&data.operands);
        for (&result, &adjoint) in data.results.iter().zip(adjoints) {
            let adjoint = adjoint.unwrap_or_else(|| zero(&mut self.builder, old.ty(result)));
            operands.push(adjoint);
        }
        let mut moving: SmallVec<[Value; 4]> = SmallVec::new();
        for &operand in data.operands.iter().filter(|&&operand| old.ty(operand).is_float()) {
            let ty = old.ty(operand);
            if ty.as_any_array().is_none() {
                moving.push(operand);
                operands.push(zero(&mut self.builder, ty));
            } else if takes_arrays {
                let adjoint = self.array_of(operand).and_then(|param| self.arrays[param].adjoint);
                operands.extend(adjoint);
            }
        }
        let types: SmallVec<[Type; 8]> = moving.iter().map(|&operand| old.ty(operand)).collect();
        let found = self.if_asked(asked, &types, |this| {
            let call = this.builder.inst(Op::Call, &operands, &types, Imm::Func(gradient));
            this.builder.func.insts[call].results.clone()
        });
        for (&operand, &contribution) in moving.iter().zip(&found) {
            self.add_if(operand, contribution, asked);
        }
    }
}

/// Returns true if nothing is done with an array but to add to its elements.
fn is_only_added_to(func: &Function, array: Value) -> bool {
    let mut is_only = true;
    func.walk(func.body, &mut |_, data| {
        let adds = matches!(data.op, Op::AtomicAdd | Op::AtomicSub);
        let is_result_used = || data.results.iter().any(|&result| is_used(func, result));
        if data.operands.contains(&array) && data.op != Op::Dim {
            is_only &= adds && data.operands[0] == array && !is_result_used();
        }
    });
    is_only
}
