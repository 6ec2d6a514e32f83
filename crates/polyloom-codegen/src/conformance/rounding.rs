//! Sums of products, where float modes differ: `strict` rounds the product and the sum, `contract` may leave the
//! product unrounded, `fast` may also reorder, with an error in proportion to the terms.

use super::launch::{dense, facts, kernel_of, module, run};
use super::values::{RandomOperands, edges, same, to_f64};
use super::{EngineSubject, HirPreparation};
use polyloom_ir::eval::{OpEvaluator, evaluator};
use polyloom_ir::interp::BufferMemory;
use polyloom_ir::{FloatMode, Op, Scalar, Type};

/// One way to combine `a * b` with `c`.
struct RoundingShape {
    /// HIR that gives `%r` from `%p`, which is `a * b`, and `%c`.
    sum: &'static str,
    op: Op,
    product_first: bool,
    /// Signs of the product and of `c`.
    signs: (bool, bool),
}

const SHAPES: [RoundingShape; 3] = [
    RoundingShape { sum: "add %p, %c", op: Op::Add, product_first: true, signs: (true, true) },
    RoundingShape { sum: "sub %p, %c", op: Op::Sub, product_first: true, signs: (true, false) },
    RoundingShape { sum: "sub %c, %p", op: Op::Sub, product_first: false, signs: (false, true) },
];

fn binary(op: Op, ty: Scalar, a: u64, b: u64) -> u64 {
    match evaluator(op, &[ty.into(), ty.into()], ty.into()) {
        Some(OpEvaluator::Binary(f)) => f(a, b),
        _ => panic!("`{}` takes two operands", op.name()),
    }
}

fn fma(ty: Scalar, a: u64, b: u64, c: u64) -> u64 {
    match evaluator(Op::Fma, &[Type::from(ty); 3], ty.into()) {
        Some(OpEvaluator::Ternary(f)) => f(a, b, c),
        _ => panic!("`fma` takes three operands"),
    }
}

fn negated(ty: Scalar, bits: u64) -> u64 {
    bits ^ 1 << (ty.bits() - 1)
}

/// The distance from 1 to the next number of the type.
fn epsilon(ty: Scalar) -> f64 {
    match ty {
        Scalar::F16 => 1.0 / 1024.0,
        Scalar::BF16 => 1.0 / 128.0,
        Scalar::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

fn allowed(mode: FloatMode, ty: Scalar, shape: &RoundingShape, [a, b, c]: [u64; 3], got: u64) -> bool {
    let product = binary(Op::Mul, ty, a, b);
    let (left, right) = if shape.product_first { (product, c) } else { (c, product) };
    let strict = binary(shape.op, ty, left, right);
    if mode == FloatMode::Strict {
        return same(ty, strict, got);
    }
    let with_sign = |positive: bool, bits: u64| if positive { bits } else { negated(ty, bits) };
    let fused = fma(ty, with_sign(shape.signs.0, a), b, with_sign(shape.signs.1, c));
    if same(ty, strict, got) || same(ty, fused, got) {
        return true;
    }
    let size = to_f64(ty, product).abs() + to_f64(ty, c).abs();
    let distance = (to_f64(ty, got) - to_f64(ty, strict)).abs();
    mode == FloatMode::Fast && distance <= 4.0 * epsilon(ty) * size
}

/// Every shape on every float type.
pub fn all(subject: &EngineSubject<'_>) {
    let mut random = RandomOperands::new(9);
    for ty in Scalar::ALL.into_iter().filter(|ty| ty.is_float()) {
        for shape in &SHAPES {
            check(subject, ty, shape, &mut random);
        }
    }
}

fn check(subject: &EngineSubject<'_>, ty: Scalar, shape: &RoundingShape, random: &mut RandomOperands) {
    let (name, sum) = (ty.name(), shape.sum);
    let text = format!(
        "kernel @k(%as a: array<{name}, 1>, %bs b: array<{name}, 1>, %cs c: array<{name}, 1>, %out out: array<{name}, 1>) {{
         %i: i32 = tid 0
         %a: {name} = array_load %as, %i
         %b: {name} = array_load %bs, %i
         %c: {name} = array_load %cs, %i
         %p: {name} = mul %a, %b
         %r: {name} = {sum}
         array_store %out, %i, %r
         return }}"
    );
    let module = module(&text);
    // Edges against each other, random values, and sums that cancel all but the product's rounding error.
    let mut rows: Vec<[u64; 3]> = Vec::new();
    let all = edges(ty);
    for (index, &a) in all.iter().enumerate() {
        rows.extend(all.iter().enumerate().map(|(other, &b)| [a, b, all[(3 * index + 5 * other) % all.len()]]));
    }
    for _ in 0..1000 {
        let [a, b, c] = [0; 3].map(|_| random.value(ty));
        rows.extend([[a, b, c], [a, b, binary(Op::Mul, ty, a, b)], [a, b, negated(ty, binary(Op::Mul, ty, a, b))]]);
    }
    let mut memory = BufferMemory::default();
    let column = |index: usize| rows.iter().map(|row| row[index]).collect::<Vec<u64>>();
    let args = [column(0), column(1), column(2), vec![0; rows.len()]]
        .map(|column| dense(&mut memory, ty, &[rows.len()], &column));
    let total = rows.len() as u64;
    let known = facts(&module.functions[kernel_of(&module)], &args);
    let (prepared, id, code) = subject.load(&module, kernel_of(&module), HirPreparation::Unchecked, 1, known);
    run(&code, &prepared.functions[id], &[total], &args, &mut memory, std::slice::from_ref(&(0..total)));
    for (&row, got) in rows.iter().zip(memory.elements(ty, args[3])) {
        assert!(
            allowed(subject.float_mode, ty, shape, row, got),
            "{} in mode {}: `{sum}` of {name} operands {row:#x?} gives {got:#x}",
            subject.name(),
            subject.float_mode.name(),
        );
    }
}
