//! A module in double precision: what a kernel of `float32` would compute if its numbers had more digits.
//!
//! Differences of such a kernel's results tell its derivatives, which those of `float32` do to two or three digits. An op
//! that gives floats and takes none, such as a draw of random numbers, keeps its types, with conversions behind it; a
//! module with another op that has no form for `float64` has no form in double precision.

use super::normalize_indices::one;
use polyloom_ir::eval::eval;
use polyloom_ir::function::{InstData, ValueData, ValueDef};
use polyloom_ir::verify::verify_module;
use polyloom_ir::{Builder, Composite, Function, Imm, Inst, Module, Op, Region, Scalar, Type, Value};

/// The module with `float64` wherever it has another float.
pub fn in_double(module: &Module) -> Option<Module> {
    let mut double = module.clone();
    for function in double.functions.values_mut() {
        widen_function(function)?;
    }
    verify_module(&double).is_ok().then_some(double)
}

fn widen_function(func: &mut Function) -> Option<()> {
    let narrow: Vec<Type> = func.values.values().map(|value| value.ty).collect();
    for value in func.values.values_mut() {
        value.ty = widened(value.ty);
    }
    for ty in &mut func.results {
        *ty = widened(*ty);
    }
    let body = func.body;
    region(func, &narrow, body)
}

fn widened(ty: Type) -> Type {
    let scalar = |scalar: Scalar| if scalar.is_float() { Scalar::F64 } else { scalar };
    let composite = |composite: Composite| composite.with_elem(scalar(composite.elem()));
    match ty {
        Type::Scalar(elem) => Type::Scalar(scalar(elem)),
        Type::Composite(elem) => Type::Composite(composite(elem)),
        Type::Array { elem, ndim, space } => Type::Array { elem: scalar(elem), ndim, space },
        Type::CompositeArray { elem, ndim, space } => Type::CompositeArray { elem: composite(elem), ndim, space },
    }
}

/// `narrow` has the types that values had.
fn region(func: &mut Function, narrow: &[Type], out: Region) -> Option<()> {
    let capacity = func.regions[out].insts.len();
    let insts = std::mem::replace(&mut func.regions[out].insts, Vec::with_capacity(capacity));
    for inst in insts {
        if let (Op::Const, &Imm::Bits(bits)) = (func.insts[inst].op, &func.insts[inst].imm) {
            let ty = narrow[func.insts[inst].results[0].as_u32() as usize];
            if ty != widened(ty) {
                func.insts[inst].imm = Imm::Bits(eval(Op::Cast, &[ty], &[bits], widened(ty))?);
            }
            func.regions[out].insts.push(inst);
        } else if fits(func, inst) {
            func.regions[out].insts.push(inst);
        } else {
            keep(func, narrow, inst, out)?;
        }
        for index in 0..func.insts[inst].regions.len() {
            region(func, narrow, func.insts[inst].regions[index])?;
        }
    }
    Some(())
}

/// Returns true if the op takes and gives the types that its values have now. What has no signatures takes any.
fn fits(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let signatures = &data.op.info().signatures;
    let types = |values: &[Value]| values.iter().map(|&value| func.ty(value)).collect::<Vec<_>>();
    let (operands, results) = (types(&data.operands), types(&data.results));
    match data.op {
        // An op that looks at the bits of a number is of its own type.
        Op::Bitcast => operands == results || !operands.iter().chain(&results).any(|ty| ty.is_float()),
        Op::Cast => true,
        _ => signatures.is_empty() || signatures.iter().any(|s| s.result_types(&operands).as_ref() == Some(&results)),
    }
}

/// Appends the instruction with the types it had, if it takes no floats, and conversions of what it gives.
fn keep(func: &mut Function, narrow: &[Type], inst: Inst, out: Region) -> Option<()> {
    let InstData { operands, results, span, .. } = func.insts[inst].clone();
    let before = |value: Value| narrow[value.as_u32() as usize];
    if operands.iter().any(|&operand| before(operand) != widened(before(operand))) {
        return None;
    }
    let mut builder = Builder::new(func);
    builder.switch_to(out);
    builder.set_span(span);
    builder.func.regions[out].insts.push(inst);
    for (index, &result) in results.iter().enumerate() {
        let ty = before(result);
        if ty == widened(ty) {
            continue;
        }
        // The instruction gives a new value, and the conversion the one that is used.
        let def = builder.func.values[result].def;
        let own = builder.func.values.push(ValueData { ty, def });
        builder.func.insts[inst].results[index] = own;
        let converted = convert(&mut builder, own, widened(ty))?;
        let ValueDef::Result(conversion, _) = builder.func.values[converted].def else { return None };
        builder.func.insts[conversion].results[0] = result;
        builder.func.values[result].def = builder.func.values[converted].def;
    }
    Some(())
}

/// A number or a composite converted to a type.
fn convert(builder: &mut Builder<'_>, value: Value, to: Type) -> Option<Value> {
    let from = builder.func.ty(value);
    if from == to {
        return Some(value);
    }
    match (from, to) {
        (Type::Scalar(_), Type::Scalar(scalar)) => Some(builder.cast(value, scalar)),
        (Type::Composite(composite), Type::Composite(other)) => {
            let elem = other.elem();
            let mut components = Vec::with_capacity(composite.n_components());
            for index in 0..composite.n_components() {
                let component = Imm::Component(u16::try_from(index).ok()?);
                let inst = builder.inst(Op::Component, &[value], &[Type::Scalar(composite.elem())], component);
                let component = builder.func.insts[inst].results[0];
                components.push(builder.cast(component, elem));
            }
            Some(one(builder, Op::Construct, &components, to))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, parse_module};

    fn check(text: &str, expect: &str) {
        let parse = |text| parse_module(text, FileId::from_u32(0)).expect("the text is HIR");
        let double = in_double(&parse(text)).expect("it has a form in double precision");
        assert_eq!(double.to_string(), parse(expect).to_string());
    }

    const PLAIN: &str = "
        func @half_of(%x x: f32) -> (f32) {
          %half: f32 = const 0.5
          %y: f32 = mul %x, %half
          return %y
        }
        kernel @k(%a a: array<f32, 1>, %v v: array<vec<f32, 3>, 1>, %n n: i32) {
          %i: i32 = tid 0
          %x: f32 = array_load %a, %i
          %m: f32 = cast %n
          %s: f32 = sin %x
          %t: f32 = add %s, %m
          %w: vec<f32, 3> = array_load %v, %i
          %l: f32 = length %w
          %u: f32 = call @half_of %l
          %y: f32 = add %t, %u
          array_store %a, %i, %y
          return
        }";

    #[test]
    fn floats_are_double() {
        check(PLAIN, &PLAIN.replace("f32", "f64"));
        check(PLAIN, &PLAIN.replace("f32", "f64"));
    }

    #[test]
    fn draws_keep_their_types() {
        check(
            "kernel @k(%a a: array<f32, 1>, %s s: u32) {
               %i: i32 = tid 0
               %x: f32, %next: u32 = randf %s
               array_store %a, %i, %x
               return
             }",
            "kernel @k(%a a: array<f64, 1>, %s s: u32) {
               %i: i32 = tid 0
               %x: f32, %next: u32 = randf %s
               %y: f64 = cast %x
               array_store %a, %i, %y
               return
             }",
        );
    }

    #[test]
    fn other_ops_without_a_double_form_have_none() {
        let text = "kernel @k(%a a: array<f32, 1>, %s s: u32) {
               %i: i32 = tid 0
               %x: f32 = array_load %a, %i
               %y: f32 = noise %s, %x
               array_store %a, %i, %y
               return
             }";
        assert!(in_double(&parse_module(text, FileId::from_u32(0)).expect("the text is HIR")).is_none());
    }
}
