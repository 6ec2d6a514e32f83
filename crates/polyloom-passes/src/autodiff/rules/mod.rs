//! What each op adds to the adjoints of its operands: the adjoint of its result times the partial derivative.
//!
//! Where an op has no derivative in the strict sense, it has the one that its entry in the op table names: at a kink
//! the value of one side, or zero between the two (`abs(0)`); zero where a function is constant in pieces (`floor`,
//! `sign`).
//!
//! Ops on composites have rules made of ops on composites, so backward kernels read as the mathematics does.

mod algebra;
mod decomposition;
mod rotation;
mod scalar;

pub(super) use decomposition::{apart, distinct, values_of};

use super::constants::zero;
use polyloom_ir::op::Derivative;
use polyloom_ir::{Builder, Composite, Function, Imm, InstData, Op, Scalar, Type, Value, ValueDef};
use smallvec::{SmallVec, smallvec};

/// Describes what is added to the adjoint of an operand.
#[derive(Clone, Copy)]
pub(super) struct AdjointContribution {
    pub(super) value: Value,
    /// The condition under which the op takes this operand, if it is one that takes one of several: where it does not
    /// hold, the contribution is zero, and nothing asks for the operand.
    pub(super) taken: Option<Value>,
}

/// Describes what is added to the adjoint of each operand; none of it where that is zero.
type Contributions = SmallVec<[Option<Value>; 4]>;

/// Returns how an op on operands of these types is differentiated: [`Derivative::ScalarRule`] is one of two.
pub(super) fn derivative(op: Op, types: &[Type]) -> Derivative {
    match op.info().derivative {
        Derivative::ScalarRule if types.iter().any(|ty| ty.as_composite().is_some()) => Derivative::Definition,
        Derivative::ScalarRule => Derivative::Rule,
        other => other,
    }
}

/// Ops that are linear in all their active operands together.
pub(super) fn is_linear(op: Op) -> bool {
    matches!(
        op,
        Op::Cast
            | Op::Construct
            | Op::Component
            | Op::WithComponent
            | Op::ComponentAt
            | Op::WithComponentAt
            | Op::Add
            | Op::Sub
            | Op::Neg
            | Op::Pos
            | Op::Transpose
            | Op::Trace
            | Op::Diag
            | Op::GetDiag
            | Op::Skew
            | Op::SpatialTop
            | Op::SpatialBottom
            | Op::TransformGetTranslation
            | Op::TransformGetRotation
    )
}

/// Returns what an instruction adds to the adjoints of its operands, of which `adjoints` are those of its results; one
/// of them is there. `None` if the op has no derivative.
pub(super) fn contributions(
    builder: &mut Builder<'_>,
    data: &InstData,
    operands: &[Value],
    results: &[Value],
    adjoints: &[Option<Value>],
) -> Option<SmallVec<[Option<AdjointContribution>; 4]>> {
    let always = |value: Option<Value>| value.map(|value| AdjointContribution { value, taken: None });
    let types: SmallVec<[Type; 4]> = operands.iter().map(|&operand| builder.func.ty(operand)).collect();
    match derivative(data.op, &types) {
        Derivative::Zero => return Some(operands.iter().map(|_| None).collect()),
        Derivative::Rule => {}
        _ => return None,
    }
    if let [adjoint] = *adjoints {
        let mut rule = DerivativeRule { b: builder, adjoint: adjoint?, taken: SmallVec::new() };
        let values = rule.of(data, operands, results[0])?;
        let taken = rule.taken.into_iter().map(Some).chain(std::iter::repeat(None));
        let contribution = |(value, taken): (Option<Value>, _)| value.map(|value| AdjointContribution { value, taken });
        return Some(match data.op {
            // The first operand decides which of the others is taken.
            Op::Select => values.into_iter().zip(std::iter::once(None).chain(taken)).map(contribution).collect(),
            _ => values.into_iter().zip(taken).map(contribution).collect(),
        });
    }
    let matrix = matrix_adjoint(builder, data.op, results, adjoints)?;
    // Other operands are variables that the results are put in.
    Some(std::iter::once(Some(matrix)).chain(operands[1..].iter().map(|_| None)).map(always).collect())
}

/// An adjoint so far and what is added to it. What is added to one component leaves the others as they are.
pub(super) fn accumulated(builder: &mut Builder<'_>, before: Value, by: Value) -> Value {
    if let ValueDef::Result(inst, _) = builder.func.values[by].def
        && let data = builder.func.insts[inst].clone()
        && let Some(&value) = data.operands.last()
        && matches!(data.op, Op::WithComponent | Op::WithComponentAt)
        && is_zero(builder.func, data.operands[0])
    {
        let ty = builder.func.ty(value);
        let mut place: SmallVec<[Value; 3]> = data.operands[..data.operands.len() - 1].into();
        place[0] = before;
        let op = if data.op == Op::WithComponent { Op::Component } else { Op::ComponentAt };
        let old = builder.inst(op, &place, &[ty], data.imm.clone());
        let old = builder.func.insts[old].results[0];
        place.push(builder.op(Op::Add, &[old, value]));
        let ty = builder.func.ty(before);
        let new = builder.inst(data.op, &place, &[ty], data.imm.clone());
        return builder.func.insts[new].results[0];
    }
    builder.op(Op::Add, &[before, by])
}

/// Returns true if a value is a composite of zeros.
fn is_zero(func: &Function, value: Value) -> bool {
    let ValueDef::Result(inst, _) = func.values[value].def else { return false };
    let data = &func.insts[inst];
    data.op == Op::Construct && data.operands.iter().all(|&component| func.as_const(component) == Some(0))
}

/// The adjoint of the matrix that a decomposition takes apart, from its results, whose values are [`apart`] or
/// [`distinct`], and their adjoints.
pub(super) fn matrix_adjoint(
    builder: &mut Builder<'_>,
    op: Op,
    results: &[Value],
    adjoints: &[Option<Value>],
) -> Option<Value> {
    DerivativeRule { adjoint: results[0], b: builder, taken: SmallVec::new() }.decomposition(op, results, adjoints)
}

/// The sum of the products of corresponding components of two values of one type.
pub(super) fn inner(builder: &mut Builder<'_>, a: Value, b: Value) -> Value {
    DerivativeRule { adjoint: a, b: builder, taken: SmallVec::new() }.inner(a, b)
}

/// The rule of an instruction with one result.
struct DerivativeRule<'a, 'f> {
    b: &'a mut Builder<'f>,
    /// The result's adjoint.
    adjoint: Value,
    /// Conditions under which an op that takes one of its operands takes each.
    taken: SmallVec<[Value; 3]>,
}

fn one(value: Value) -> Option<Contributions> {
    Some(smallvec![Some(value)])
}

fn two(a: Value, b: Value) -> Option<Contributions> {
    Some(smallvec![Some(a), Some(b)])
}

impl DerivativeRule<'_, '_> {
    fn of(&mut self, data: &InstData, x: &[Value], r: Value) -> Option<Contributions> {
        let g = self.adjoint;
        match data.op {
            Op::Construct => Some((0..x.len()).map(|number| Some(self.component(g, number))).collect()),
            Op::Component => {
                let nothing = self.zero_like(x[0]);
                one(self.with(Op::WithComponent, &[nothing, g], data.imm.clone()))
            }
            Op::WithComponent => {
                let ty = self.b.func.ty(x[1]);
                let nothing = zero(self.b, ty);
                let rest = self.with(Op::WithComponent, &[g, nothing], data.imm.clone());
                let inst = self.b.inst(Op::Component, &[g], &[ty], data.imm.clone());
                two(rest, self.b.func.insts[inst].results[0])
            }
            Op::ComponentAt => {
                let nothing = self.zero_like(x[0]);
                Some(smallvec![Some(self.b.op(Op::WithComponentAt, &[nothing, x[1], g])), None])
            }
            Op::WithComponentAt => {
                let nothing = self.zero_like(x[2]);
                let rest = self.b.op(Op::WithComponentAt, &[g, x[1], nothing]);
                Some(smallvec![Some(rest), None, Some(self.b.op(Op::ComponentAt, &[g, x[1]]))])
            }
            Op::Select => {
                let nothing = self.zero_like(g);
                let then = self.b.op(Op::Select, &[x[0], g, nothing]);
                let otherwise = self.b.op(Op::Select, &[x[0], nothing, g]);
                self.taken = smallvec![x[0], self.b.op(Op::Not, &[x[0]])];
                Some(smallvec![None, Some(then), Some(otherwise)])
            }
            Op::Cast => match (self.b.func.ty(x[0]), self.b.func.ty(r)) {
                (Type::Scalar(from), Type::Scalar(to)) if from.is_float() && to.is_float() => one(self.b.cast(g, from)),
                _ => Some(smallvec![None]),
            },
            Op::Add => two(g, g),
            Op::Sub => two(g, self.neg(g)),
            Op::Neg => one(self.neg(g)),
            Op::Pos => one(g),
            Op::Mul => self.product(x),
            Op::Div => self.quotient(x, r),
            op => self.algebra(op, x, r).or_else(|| self.rotation(op, x)).or_else(|| self.scalar(op, x, r)),
        }
    }

    /// `x / length`, and 0 for a length of 0, between all directions.
    fn over_length(&mut self, x: Value, length: Value) -> Value {
        let nothing = self.constant(0.0, length);
        let is_zero = self.b.op(Op::Eq, &[length, nothing]);
        let share = self.div(x, length);
        let nothing = self.zero_like(x);
        self.b.op(Op::Select, &[is_zero, nothing, share])
    }

    /// The sum of the products of corresponding components: what a factor's adjoint is that all of them have in common.
    fn inner(&mut self, a: Value, b: Value) -> Value {
        match self.b.func.ty(a) {
            Type::Composite(Composite::Matrix { .. }) => self.b.op(Op::Ddot, &[a, b]),
            Type::Composite(Composite::Transform { .. }) => {
                let [p, q] = [Op::TransformGetTranslation, Op::TransformGetRotation].map(|part| {
                    let parts = [a, b].map(|x| self.b.op(part, &[x]));
                    self.dot(parts[0], parts[1])
                });
                self.add(p, q)
            }
            Type::Composite(_) => self.dot(a, b),
            _ => self.mul(a, b),
        }
    }

    fn component(&mut self, x: Value, number: usize) -> Value {
        let elem = self.elem(x);
        let inst = self.b.inst(Op::Component, &[x], &[elem.into()], Imm::Component(number as u16));
        self.b.func.insts[inst].results[0]
    }

    fn components(&mut self, x: Value) -> SmallVec<[Value; 16]> {
        let n = self.b.func.ty(x).as_composite().map_or(1, Composite::n_components);
        (0..n).map(|number| self.component(x, number)).collect()
    }

    fn construct(&mut self, composite: Composite, components: &[Value]) -> Value {
        let inst = self.b.inst(Op::Construct, components, &[composite.into()], Imm::None);
        self.b.func.insts[inst].results[0]
    }

    /// A vector of these components.
    fn vector(&mut self, components: &[Value]) -> Value {
        let composite = Composite::Vector { elem: self.elem(components[0]), len: components.len() as u16 };
        self.construct(composite, components)
    }

    /// A square matrix of these elements, row by row.
    fn square(&mut self, elements: &[Value]) -> Value {
        let n = elements.len().isqrt() as u8;
        let composite = Composite::Matrix { elem: self.elem(elements[0]), rows: n, cols: n };
        self.construct(composite, elements)
    }

    fn with(&mut self, op: Op, operands: &[Value], imm: Imm) -> Value {
        let ty = self.b.func.ty(operands[0]);
        let inst = self.b.inst(op, operands, &[ty], imm);
        self.b.func.insts[inst].results[0]
    }

    /// The type of a value's components, or its own.
    fn elem(&self, x: Value) -> Scalar {
        match self.b.func.ty(x) {
            Type::Scalar(scalar) => scalar,
            ty => ty.as_composite().map_or(Scalar::F64, Composite::elem),
        }
    }

    /// A constant of the type of `like`, or of its components.
    fn constant(&mut self, value: f64, like: Value) -> Value {
        let scalar = self.elem(like);
        let exact = self.b.const_f64(value);
        match scalar {
            Scalar::F64 => exact,
            scalar => self.b.cast(exact, scalar),
        }
    }

    fn zero_like(&mut self, x: Value) -> Value {
        let ty = self.b.func.ty(x);
        zero(self.b, ty)
    }

    fn times(&mut self, x: Value, factor: f64) -> Value {
        let factor = self.constant(factor, x);
        self.mul(x, factor)
    }

    fn neg(&mut self, x: Value) -> Value {
        self.b.op(Op::Neg, &[x])
    }

    fn add(&mut self, a: Value, b: Value) -> Value {
        self.b.op(Op::Add, &[a, b])
    }

    fn sub(&mut self, a: Value, b: Value) -> Value {
        self.b.op(Op::Sub, &[a, b])
    }

    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.b.op(Op::Mul, &[a, b])
    }

    fn div(&mut self, a: Value, b: Value) -> Value {
        self.b.op(Op::Div, &[a, b])
    }

    fn dot(&mut self, a: Value, b: Value) -> Value {
        self.b.op(Op::Dot, &[a, b])
    }

    fn cross(&mut self, a: Value, b: Value) -> Value {
        self.b.op(Op::Cross, &[a, b])
    }

    fn transpose(&mut self, x: Value) -> Value {
        self.b.op(Op::Transpose, &[x])
    }
}
