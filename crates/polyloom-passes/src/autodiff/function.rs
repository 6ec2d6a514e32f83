//! Derivatives of functions, as programs ask for by `grad(f)`: functions like any other.
//!
//! They are what a backward kernel is to a kernel, the adjoint of the one number that `f` gives being 1 and those of
//! its parameters being results. There is no memory to put down what loops have carried: where that is asked for, loops
//! over constants are written out.

use super::constants::{one, zero};
use super::request::DerivativeRequest;
use super::sweep::BackwardBuilder;
use super::{activity, custom, flat, has_definition, plan, refuse_bits, structure, unroll};
use crate::pipeline::reachable_with_derivatives;
use crate::transform::inline;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{
    Builder, CallEffects, Code, Diagnostic, FuncId, Function, FunctionKind, Imm, Module, Op, Span, Type, Value,
};
use smallvec::SmallVec;

/// Writes functions that are declared only: each gives the derivatives of another with respect to its parameters that
/// are floating-point numbers or composites of such. Those that others call come first.
///
/// # Errors
///
/// Where a function has no derivative, or none that could be told: what to write instead.
pub fn write_gradients(module: &mut Module, gradients: &[(FuncId, FuncId)]) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    for &(gradient, of) in gradients {
        let written = match module.functions[of].gradient {
            Some(custom) => by_custom(module, of, custom),
            None => by_sweeps(module, of),
        };
        match written {
            Ok(written) => {
                let declared = &module.functions[gradient];
                let (name, span) = (declared.name.clone(), declared.span);
                module.functions[gradient] = Function { name, span, ..written };
            }
            Err(found) => errors.extend(found),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// An empty function with the parameters of another.
fn begun(function: &Function) -> Function {
    let params = function.param_names.iter().zip(function.params());
    let params = params.map(|(name, &param)| (&**name, function.ty(param)));
    let (_, results) = function.gradient_signature(false);
    Function::new(function.name.clone(), FunctionKind::Func, params, &results)
}

/// Returns what calls the derivative that the program gives.
fn by_custom(module: &Module, of: FuncId, custom: FuncId) -> Result<Function, Vec<Diagnostic>> {
    let function = &module.functions[of];
    let mut new = begun(function);
    let (params, results) = function.gradient_signature(false);
    if module.functions[custom].params().len() != params.len() {
        let message = format!("`grad` cannot add to adjoints of arrays, as the gradient of `{}` does", function.name);
        let help = "give a function of the array's elements a gradient";
        return Err(vec![Diagnostic::error(Code::NotDifferentiable, function.span, message).help(help)]);
    }
    let mut operands: SmallVec<[Value; 8]> = new.params().into();
    let mut builder = Builder::new(&mut new);
    builder.set_span(function.span);
    operands.push(one(&mut builder, function.results[0]));
    operands.extend(results.iter().map(|&ty| zero(&mut builder, ty)).collect::<Vec<_>>());
    let call = builder.inst(Op::Call, &operands, &results, Imm::Func(custom));
    let given = builder.func.insts[call].results.clone();
    builder.return_(&given);
    Ok(new)
}

/// Returns what goes through the function forward and then backward.
fn by_sweeps(module: &Module, of: FuncId) -> Result<Function, Vec<Diagnostic>> {
    let name = &module.functions[of].name;
    let refused = |span, message: String, help: &str| {
        Err(vec![Diagnostic::error(Code::NotDifferentiable, span, message).help(help)])
    };
    if !matches!(CallEffects::of_function(module, of), OpEffect::Pure | OpEffect::Read) {
        let message = format!("`{name}` writes to memory, so that `grad` of it is no function of its arguments");
        return refused(module.functions[of].span, message, "take `grad` of a function that only reads");
    }
    let function = &module.functions[of];
    let active = function.params().iter().map(|&param| moves(function.ty(param))).collect();
    let request = DerivativeRequest::new(active, 1);
    let (rest, forward) = flat(module, of, &request, has_definition, inline::KeptCalls::Custom)?;
    custom::check(&rest, &forward, &request)?;
    let forward = structure::structured(&forward);
    let known = reachable_with_derivatives(module, of);
    if let Some(new) = swept(&forward, function, &rest, &request, &known)? {
        return Ok(new);
    }
    let unrolled = unroll::unrolled(&forward, &|_| true);
    if let Some(new) = swept(&unrolled, function, &rest, &request, &known)? {
        return Ok(new);
    }
    let message = format!("the derivative of `{name}` needs what its loops have carried, which `grad` does not keep");
    let help = "let the loop run as often as a constant says, not too often and without `break` and `return` in it, or \
                give the derivative with `@func_grad`";
    refused(first_loop(&unrolled).unwrap_or(function.span), message, help)
}

/// Returns where the first loop is, if that is known.
fn first_loop(func: &Function) -> Option<Span> {
    let mut found = None;
    func.walk(func.body, &mut |_, data| {
        if matches!(data.op, Op::ForRange | Op::While) && data.span != Span::NONE {
            found = found.or(Some(data.span));
        }
    });
    found
}

/// Both sweeps, unless loops would need tapes. `rest` is what the function calls, and `known` what each of that is in
/// the module of the function.
fn swept(
    forward: &Function,
    function: &Function,
    rest: &Module,
    request: &DerivativeRequest,
    known: &[FuncId],
) -> Result<Option<Function>, Vec<Diagnostic>> {
    let values = activity::active_values(forward, &request.active);
    refuse_bits(forward, &values)?;
    let arrays = activity::arrays(forward, request);
    let mut new = begun(function);
    let params: Vec<Value> = new.params().to_vec();
    let mut sweep = BackwardBuilder::new(forward, rest, &mut new, values, arrays, false);
    for (&old, &param) in forward.params().iter().zip(&params) {
        sweep.values[old] = param.into();
    }
    let adjoint = one(&mut sweep.builder, forward.results[0]);
    sweep.run_from(adjoint);
    let mut results: SmallVec<[Value; 4]> = SmallVec::new();
    for &param in forward.params().iter().filter(|&&param| moves(forward.ty(param))) {
        let found = sweep.adjoints[param].take();
        results.push(found.unwrap_or_else(|| zero(&mut sweep.builder, forward.ty(param))));
    }
    sweep.builder.return_(&results);
    let errors = std::mem::take(&mut sweep.errors);
    let tapes: Vec<Value> = sweep.tapes.iter().map(|tape| tape.param).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    // Calls of functions whose derivatives the program gives stay calls, so that a second derivative goes by these.
    for data in new.insts.values_mut() {
        let Imm::Func(callee) = &mut data.imm else { continue };
        let replayed = rest.functions.keys().find(|&id| rest.functions[id].replay == Some(*callee));
        let number = replayed.unwrap_or(*callee).as_u32() as usize;
        *callee = known.get(number).copied().unwrap_or(*callee);
    }
    let is_complete = plan::without_tapes(&mut new, params.len(), &tapes);
    Ok(is_complete.then_some(new))
}

/// Returns true if there are derivatives with respect to a parameter of this type.
fn moves(ty: Type) -> bool {
    ty.is_float() && ty.as_any_array().is_none()
}
