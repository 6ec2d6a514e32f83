//! What a launch can compute of a kernel before it runs: expressions of its scalars, of extents, of a thread's
//! coordinates and of what loops count.

use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};
use polyloom_ir::analysis::affine::AffineSum;
use polyloom_ir::{MAX_DIMS, Op, Scalar, Type, eval};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Most expressions of a kernel, so that indices beyond are not looked at.
const MAX_EXPRESSIONS: usize = 1024;

/// A scalar that follows from what a launch is given and from which thread it is computed by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LaunchExpr(u32);
entity_impl!(LaunchExpr, "expr");

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum ExprKind {
    Const(u64),
    /// A word of the launch's arguments: a scalar, or the extent of an array.
    Word(u32),
    /// The thread's coordinate along an axis of the launch.
    Coordinate(u8),
    /// How far apart, in row-major order, threads are whose coordinates along an axis differ by one.
    Stride(u8),
    /// What a loop counts, by the number of the loop.
    Counter(u32),
    Op(Op, SmallVec<[LaunchExpr; 3]>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ExprData {
    pub(super) kind: ExprKind,
    pub(super) ty: Scalar,
}

/// A counted loop whose bounds are the same for all threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct CountedLoop {
    pub(super) start: LaunchExpr,
    pub(super) end: LaunchExpr,
    pub(super) step: i64,
}

/// Something that takes each number of a range: a coordinate, or which iteration of a loop it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum BoundVariable {
    Coordinate(u8),
    Iteration(u32),
}

/// Describes what is multiplied by a constant in a sum: a variable and a factor that is the same for all threads, of
/// which one may be left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LaunchTerm {
    pub(super) variable: Option<BoundVariable>,
    pub(super) uniform: Option<LaunchExpr>,
}

/// The expressions of a kernel, each after what it is made of and none twice.
#[derive(Default)]
pub(super) struct ExpressionTable {
    pub(super) data: PrimaryMap<LaunchExpr, ExprData>,
    known: FxHashMap<ExprData, LaunchExpr>,
    /// True of those with a coordinate or a counter in them.
    varies: SecondaryMap<LaunchExpr, bool>,
    pub(super) loops: Vec<CountedLoop>,
    sums: FxHashMap<LaunchExpr, Option<AffineSum<LaunchTerm>>>,
}

impl ExpressionTable {
    /// None if there are too many.
    pub(super) fn add(&mut self, kind: ExprKind, ty: Scalar) -> Option<LaunchExpr> {
        let kind = self.folded(&kind, ty).map_or(kind, ExprKind::Const);
        let data = ExprData { kind, ty };
        if let Some(&known) = self.known.get(&data) {
            return Some(known);
        }
        if self.data.len() >= MAX_EXPRESSIONS {
            return None;
        }
        let varies = match &data.kind {
            ExprKind::Coordinate(_) | ExprKind::Counter(_) => true,
            ExprKind::Op(_, operands) => operands.iter().any(|&operand| self.varies[operand]),
            _ => false,
        };
        let expr = self.data.push(data.clone());
        self.varies[expr] = varies;
        self.known.insert(data, expr);
        Some(expr)
    }

    pub(super) fn op(&mut self, op: Op, operands: &[LaunchExpr], ty: Scalar) -> Option<LaunchExpr> {
        self.add(ExprKind::Op(op, operands.into()), ty)
    }

    fn folded(&self, kind: &ExprKind, ty: Scalar) -> Option<u64> {
        let ExprKind::Op(op, operands) = kind else { return None };
        let bits: Option<SmallVec<[u64; 3]>> = operands.iter().map(|&operand| self.as_const(operand)).collect();
        eval::eval(*op, &self.types(operands), &bits?, ty.into())
    }

    pub(super) fn types(&self, operands: &[LaunchExpr]) -> SmallVec<[Type; 3]> {
        operands.iter().map(|&operand| self.data[operand].ty.into()).collect()
    }

    pub(super) fn as_const(&self, expr: LaunchExpr) -> Option<u64> {
        match self.data[expr].kind {
            ExprKind::Const(bits) => Some(bits),
            _ => None,
        }
    }

    /// True if it has the same value in all threads and iterations.
    pub(super) fn is_uniform(&self, expr: LaunchExpr) -> bool {
        !self.varies[expr]
    }

    /// The number of the row-major index of a thread.
    pub(super) fn linear_index(&mut self) -> Option<LaunchExpr> {
        let mut sum = None;
        for axis in 0..MAX_DIMS as u8 {
            let coordinate = self.add(ExprKind::Coordinate(axis), Scalar::I32)?;
            let stride = self.add(ExprKind::Stride(axis), Scalar::I32)?;
            let part = self.op(Op::Mul, &[coordinate, stride], Scalar::I32)?;
            sum = match sum {
                None => Some(part),
                Some(sum) => Some(self.op(Op::Add, &[sum, part], Scalar::I32)?),
            };
        }
        sum
    }

    /// An integer as a sum; none if it is not known to be one.
    pub(super) fn sum(&mut self, expr: LaunchExpr) -> Option<AffineSum<LaunchTerm>> {
        if let Some(known) = self.sums.get(&expr) {
            return known.clone();
        }
        let sum = self.compute_sum(expr);
        self.sums.insert(expr, sum.clone());
        sum
    }

    fn compute_sum(&mut self, expr: LaunchExpr) -> Option<AffineSum<LaunchTerm>> {
        let ExprData { kind, ty } = self.data[expr].clone();
        if !ty.is_int() {
            return None;
        }
        if let Some(bits) = self.as_const(expr) {
            return AffineSum::constant(as_integer(bits, ty));
        }
        if self.is_uniform(expr) {
            return Some(AffineSum::one(LaunchTerm { variable: None, uniform: Some(expr) }));
        }
        let of_variable = |variable| AffineSum::one(LaunchTerm { variable: Some(variable), uniform: None });
        match kind {
            ExprKind::Coordinate(axis) => Some(of_variable(BoundVariable::Coordinate(axis))),
            ExprKind::Counter(number) => {
                let CountedLoop { start, step, .. } = *self.loops.get(number as usize)?;
                self.sum(start)?.plus(&of_variable(BoundVariable::Iteration(number)), step)
            }
            // Operations on narrower integers are not followed, since these wrap soon.
            ExprKind::Op(..) if ty.bits() < 32 => None,
            ExprKind::Op(Op::Mul, operands) => {
                let uniform = operands.iter().position(|&operand| self.is_uniform(operand))?;
                let (by, sum) = (operands[uniform], self.sum(operands[1 - uniform])?);
                self.scaled(&sum, by, ty)
            }
            ExprKind::Op(Op::Cast, operands) => {
                let from = &self.data[operands[0]];
                let is_kept = match from.kind {
                    // A coordinate is never negative, and no wider type changes it.
                    ExprKind::Coordinate(_) => true,
                    ExprKind::Counter(_) if from.ty.is_signed_int() => {
                        ty.is_signed_int() && ty.bits() >= from.ty.bits()
                    }
                    ExprKind::Counter(_) => ty.bits() > from.ty.bits() || ty == from.ty,
                    _ => false,
                };
                if is_kept { self.sum(operands[0]) } else { None }
            }
            ExprKind::Op(op, operands) => AffineSum::of_op(op, ty.bits(), |number| self.sum(operands[number])),
            _ => None,
        }
    }

    /// A sum times a number that is the same for all threads.
    fn scaled(&mut self, sum: &AffineSum<LaunchTerm>, by: LaunchExpr, ty: Scalar) -> Option<AffineSum<LaunchTerm>> {
        if let Some(bits) = self.as_const(by) {
            return AffineSum::default().plus(sum, i64::try_from(as_integer(bits, ty)).ok()?);
        }
        let mut scaled = AffineSum::default();
        for &(LaunchTerm { variable, uniform }, factor) in &sum.terms {
            let uniform = match uniform {
                None => by,
                Some(uniform) if self.data[uniform].ty == ty => self.op(Op::Mul, &[uniform, by], ty)?,
                Some(_) => return None,
            };
            scaled = scaled.plus(&AffineSum::one(LaunchTerm { variable, uniform: Some(uniform) }), factor)?;
        }
        scaled.plus(&AffineSum::one(LaunchTerm { variable: None, uniform: Some(by) }), sum.offset)
    }
}

/// The integer that bits of a type are.
#[inline]
pub(super) fn as_integer(bits: u64, ty: Scalar) -> i128 {
    if !ty.is_signed_int() {
        return bits.into();
    }
    let shift = 64 - ty.bits();
    (((bits << shift) as i64) >> shift).into()
}
