//! Whether an adjoint is asked for: zero times an infinite derivative is nothing where no way leads from a value to
//! what is differentiated.
//!
//! The adjoint of a value that a `where` does not choose, or that an `if` or a loop which is not entered would have
//! used, is zero, and the derivatives of what computed it may be infinite or NaN. So beside an adjoint there may be
//! the condition under which it is asked for, and what it is multiplied with counts only then. An adjoint that is zero
//! by arithmetic is asked for all the same: what is infinite there is told.

use super::super::rules::is_linear;
use super::super::zero;
use super::Sweep;
use polyloom_ir::op::{Derivative, Group};
use polyloom_ir::{InstData, Op, Type, Value};
use smallvec::SmallVec;

/// When an adjoint is asked for: always, or if a condition holds.
pub(in crate::autodiff) type Asked = Option<Value>;

/// The adjoint of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seed {
    pub(super) adjoint: Value,
    pub(super) asked: Asked,
}

pub(super) type Seeds = SmallVec<[Option<Seed>; 4]>;

impl Sweep<'_> {
    /// When the adjoints of these old values are asked for, of those that have one.
    pub(in crate::autodiff) fn asked_for(&mut self, values: &[Value]) -> Asked {
        let with_adjoint = values.iter().filter(|&&value| self.adjoints[value].is_some());
        let conditions: Option<Vec<Value>> = with_adjoint.map(|&value| self.asked[value].expand()).collect();
        self.any(conditions?)
    }

    /// Whether any of these conditions holds.
    pub(in crate::autodiff) fn any(&mut self, conditions: Vec<Value>) -> Asked {
        let mut conditions = conditions.into_iter();
        let first = conditions.next()?;
        Some(conditions.fold(first, |before, condition| match before == condition {
            true => before,
            false => self.builder.op(Op::BitOr, &[before, condition]),
        }))
    }

    /// When the adjoint of one of the values of a `where` is asked for.
    pub(in crate::autodiff) fn chosen(&mut self, asked: Asked, cond: Value, if_true: bool) -> Asked {
        let is_chosen = if if_true { cond } else { self.builder.op(Op::Not, &[cond]) };
        Some(match asked {
            None => is_chosen,
            Some(asked) => self.builder.op(Op::BitAnd, &[asked, is_chosen]),
        })
    }

    /// A condition as a value.
    pub(in crate::autodiff) fn condition(&mut self, asked: Asked) -> Value {
        asked.unwrap_or_else(|| self.builder.const_bool(true))
    }

    /// A contribution if it is asked for, and else zero.
    pub(super) fn chosen_if_asked(&mut self, asked: Asked, contribution: Value) -> Value {
        let Some(asked) = asked else { return contribution };
        let ty = self.builder.func.ty(contribution);
        let nothing = zero(&mut self.builder, ty);
        self.builder.op(Op::Select, &[asked, contribution, nothing])
    }

    /// Values of these types that `write` gives, which are computed if they are asked for; else zeros.
    pub(in crate::autodiff) fn if_asked(
        &mut self,
        asked: Asked,
        types: &[Type],
        write: impl FnOnce(&mut Self) -> SmallVec<[Value; 2]>,
    ) -> SmallVec<[Value; 2]> {
        let Some(asked) = asked else { return write(self) };
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let around = self.builder.switch_to(regions[0]);
        let values = write(self);
        self.builder.yield_(&values);
        self.builder.switch_to(regions[1]);
        let nothing: SmallVec<[Value; 4]> = types.iter().map(|&ty| zero(&mut self.builder, ty)).collect();
        self.builder.yield_(&nothing);
        self.builder.switch_to(around);
        let branch = self.builder.region_inst(Op::If, &[asked], types, &regions);
        self.builder.func.insts[branch].results.clone()
    }
}

/// Whether the derivative may be infinite or NaN.
pub(super) fn is_curved(data: &InstData) -> bool {
    let info = data.op.info();
    let is_linear = is_linear(data.op) || data.op == Op::Select || info.group == Group::Core;
    !is_linear && info.derivative != Derivative::Zero
}
