//! What a launch can compute of a kernel before it runs: expressions of its scalars, of extents, of a thread's
//! coordinates and of what loops count.

use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};
use polyloom_ir::{MAX_DIMS, Op, Scalar, Type, eval};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Most expressions of a kernel, so that indices beyond are not looked at.
const MAX_EXPRESSIONS: usize = 1024;
/// Most terms of a sum.
const MAX_TERMS: usize = 8;
/// No factor and no offset of a sum is larger, so that what is computed with them does not overflow.
const MAX_FACTOR: i64 = 1 << 40;

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

/// Describes what is multiplied by a constant in a sum.
type Monomial = (Option<BoundVariable>, Option<LaunchExpr>);

/// A sum of multiples of variables, with factors that are the same for all threads, and of such numbers. It is a number
/// without bounds, and the integer it stands for is that modulo two to the power of its bits.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct LaunchSum {
    /// In order, none of them with a factor of 0.
    pub(super) terms: SmallVec<[(Monomial, i64); 2]>,
    pub(super) offset: i64,
}

/// The expressions of a kernel, each after what it is made of and none twice.
#[derive(Default)]
pub(super) struct ExpressionTable {
    pub(super) data: PrimaryMap<LaunchExpr, ExprData>,
    known: FxHashMap<ExprData, LaunchExpr>,
    /// True of those with a coordinate or a counter in them.
    varies: SecondaryMap<LaunchExpr, bool>,
    pub(super) loops: Vec<CountedLoop>,
    sums: FxHashMap<LaunchExpr, Option<LaunchSum>>,
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
    pub(super) fn sum(&mut self, expr: LaunchExpr) -> Option<LaunchSum> {
        if let Some(known) = self.sums.get(&expr) {
            return known.clone();
        }
        let sum = self.compute_sum(expr);
        self.sums.insert(expr, sum.clone());
        sum
    }

    fn compute_sum(&mut self, expr: LaunchExpr) -> Option<LaunchSum> {
        let ExprData { kind, ty } = self.data[expr].clone();
        if !ty.is_int() {
            return None;
        }
        if let Some(bits) = self.as_const(expr) {
            let offset = i64::try_from(as_integer(bits, ty)).ok().and_then(within)?;
            return Some(LaunchSum { offset, ..LaunchSum::default() });
        }
        if self.is_uniform(expr) {
            return Some(LaunchSum::of((None, Some(expr)), 1));
        }
        match kind {
            ExprKind::Coordinate(axis) => Some(LaunchSum::of((Some(BoundVariable::Coordinate(axis)), None), 1)),
            ExprKind::Counter(number) => {
                let CountedLoop { start, step, .. } = *self.loops.get(number as usize)?;
                let counted = LaunchSum::of((Some(BoundVariable::Iteration(number)), None), within(step)?);
                counted.plus(&self.sum(start)?, 1)
            }
            // Operations on narrower integers are not followed, since these wrap soon.
            ExprKind::Op(..) if ty.bits() < 32 => None,
            ExprKind::Op(Op::Add, operands) => self.sum(operands[0])?.plus(&self.sum(operands[1])?, 1),
            ExprKind::Op(Op::Sub, operands) => self.sum(operands[0])?.plus(&self.sum(operands[1])?, -1),
            ExprKind::Op(Op::Neg, operands) => LaunchSum::default().plus(&self.sum(operands[0])?, -1),
            ExprKind::Op(Op::Mul, operands) => {
                let uniform = operands.iter().position(|&operand| self.is_uniform(operand))?;
                let (by, sum) = (operands[uniform], self.sum(operands[1 - uniform])?);
                self.scaled(&sum, by, ty)
            }
            ExprKind::Op(Op::Lshift, operands) => {
                let by = self.as_const(operands[1]).filter(|&by| by < u64::from(ty.bits()) && by < 40)?;
                LaunchSum::default().plus(&self.sum(operands[0])?, 1 << by)
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
            _ => None,
        }
    }

    /// A sum times a number that is the same for all threads.
    fn scaled(&mut self, sum: &LaunchSum, by: LaunchExpr, ty: Scalar) -> Option<LaunchSum> {
        if let Some(bits) = self.as_const(by) {
            return LaunchSum::default().plus(sum, i64::try_from(as_integer(bits, ty)).ok()?);
        }
        let mut scaled = LaunchSum::default();
        for &((variable, uniform), factor) in &sum.terms {
            let uniform = match uniform {
                None => by,
                Some(uniform) if self.data[uniform].ty == ty => self.op(Op::Mul, &[uniform, by], ty)?,
                Some(_) => return None,
            };
            scaled = scaled.plus(&LaunchSum::of((variable, Some(uniform)), factor), 1)?;
        }
        scaled.plus(&LaunchSum::of((None, Some(by)), 1), sum.offset)
    }
}

impl LaunchSum {
    fn of(monomial: Monomial, factor: i64) -> LaunchSum {
        LaunchSum { terms: smallvec![(monomial, factor)], offset: 0 }
    }

    /// This and a multiple of another one; none if that has too many terms or too large numbers.
    pub(super) fn plus(mut self, other: &LaunchSum, times: i64) -> Option<LaunchSum> {
        for &(monomial, factor) in &other.terms {
            let more = within(factor.checked_mul(times)?)?;
            match self.terms.binary_search_by_key(&monomial, |&(monomial, _)| monomial) {
                Ok(at) => self.terms[at].1 = within(self.terms[at].1 + more)?,
                Err(at) => self.terms.insert(at, (monomial, more)),
            }
        }
        self.terms.retain(|(_, factor)| *factor != 0);
        self.offset = within(self.offset + within(other.offset.checked_mul(times)?)?)?;
        (self.terms.len() <= MAX_TERMS).then_some(self)
    }

    /// The variables in it.
    pub(super) fn variables(&self) -> impl Iterator<Item = BoundVariable> {
        self.terms.iter().filter_map(|&((variable, _), _)| variable)
    }
}

fn within(number: i64) -> Option<i64> {
    (-MAX_FACTOR..=MAX_FACTOR).contains(&number).then_some(number)
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
