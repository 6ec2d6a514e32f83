//! Whether an adjoint is asked for: zero times an infinite derivative is nothing where no way leads from a value to
//! what is differentiated.
//!
//! The adjoint of a value that a `where`, `min`, `max` or `clamp` does not take, or that an `if` or a loop which is not entered would have
//! used, is zero, and the derivatives of what computed it may be infinite or NaN. So beside an adjoint there may be
//! the condition under which it is asked for, and what it is multiplied with counts only then. An adjoint that is zero
//! by arithmetic is asked for all the same: what is infinite there is told.

use super::super::constants::zero;
use super::super::rules::{derivative, is_linear};
use super::BackwardBuilder;
use polyloom_ir::op::{Derivative, OpGroup};
use polyloom_ir::{Imm, InstData, Op, Region, Type, Value};
use smallvec::SmallVec;

/// When an adjoint is asked for: always, or if a condition holds.
pub(in crate::autodiff) type Asked = Option<Value>;

/// The adjoint of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueAdjoint {
    pub(super) adjoint: Value,
    pub(super) asked: Asked,
}

pub(super) type Seeds = SmallVec<[Option<ValueAdjoint>; 4]>;

/// Conditions under which the adjoint of each component of a composite is live; none of a component that nothing leads
/// from.
pub(super) type AskedComponents = SmallVec<[Option<Asked>; 4]>;

impl BackwardBuilder<'_> {
    /// When the adjoints of these old values are asked for, of those that have one.
    pub(in crate::autodiff) fn asked_for(&mut self, values: &[Value]) -> Asked {
        let with_adjoint = values.iter().filter(|&&value| self.adjoints[value].is_some());
        let conditions: Option<Vec<Value>> = with_adjoint.map(|&value| self.asked[value].expand()).collect();
        self.any(conditions?)
    }

    /// Tells whether any of these conditions holds.
    pub(in crate::autodiff) fn any(&mut self, conditions: Vec<Value>) -> Asked {
        let mut conditions = conditions.into_iter();
        let first = conditions.next()?;
        Some(conditions.fold(first, |before, condition| match before == condition {
            true => before,
            false => self.builder.op(Op::BitOr, &[before, condition]),
        }))
    }

    /// When the adjoint of an operand is asked for, which an op takes if a condition holds.
    pub(in crate::autodiff) fn asked_if_taken(&mut self, asked: Asked, taken: Option<Value>) -> Asked {
        match (asked, taken) {
            (Some(asked), Some(taken)) => Some(self.builder.op(Op::BitAnd, &[asked, taken])),
            (asked, taken) => asked.or(taken),
        }
    }

    /// When the adjoints of the components of an instruction's result are asked for, where that is known of each.
    pub(super) fn take_components(&mut self, data: &InstData) -> Option<AskedComponents> {
        self.asked_components.remove(data.results.first()?)
    }

    /// When those of an operand are asked for, which the adjoint of the result is handed on to by component.
    pub(super) fn components_of_operand(
        &mut self,
        data: &InstData,
        operand: Value,
        asked: Asked,
        taken: Option<Value>,
        of_result: Option<&AskedComponents>,
    ) -> Option<AskedComponents> {
        let n = self.old.ty(operand).as_composite()?.n_components();
        match (data.op, &data.imm) {
            (Op::Component, &Imm::Component(component)) => {
                let mut of_operand = AskedComponents::from_elem(None, n);
                of_operand[usize::from(component)] = Some(asked);
                Some(of_operand)
            }
            (Op::WithComponent, &Imm::Component(component)) => {
                let mut of_operand = of_result.cloned().unwrap_or_else(|| AskedComponents::from_elem(Some(asked), n));
                of_operand[usize::from(component)] = None;
                Some(of_operand)
            }
            (Op::Add | Op::Sub | Op::Neg | Op::Select, _) => {
                let components = of_result?.iter().map(|&asked| Some(self.asked_if_taken(asked?, taken)));
                Some(components.collect())
            }
            _ => None,
        }
    }

    /// Adds to the adjoint of an old value that is a composite, of which it is known when each component is asked for.
    pub(super) fn add_components(&mut self, old: Value, by: Value, asked: Asked, components: AskedComponents) {
        let is_first = self.adjoints[old].is_none();
        let before = self.asked_components.remove(&old);
        self.add_if(old, by, asked);
        let sum = match before {
            _ if is_first => components,
            None => return,
            Some(before) => {
                let pairs = before.into_iter().zip(components);
                let sum = |(a, b): (Option<Asked>, Option<Asked>)| match (a, b) {
                    (Some(a), Some(b)) => Some(a.zip(b).and_then(|(a, b)| self.any(vec![a, b]))),
                    (a, b) => a.or(b),
                };
                pairs.map(sum).collect()
            }
        };
        self.asked_components.insert(old, sum);
    }

    /// True if nothing in a region uses a value but what takes it or leaves it: of what a loop carries so, an iteration
    /// decides whether its adjoint is asked for.
    pub(super) fn is_only_taken(&self, region: Region, value: Value) -> bool {
        let mut is_only = true;
        self.old.walk(region, &mut |_, data| {
            let is_exempt = takes_one(data.op) || data.op.info().is_terminator() || {
                let types: SmallVec<[Type; 4]> = data.operands.iter().map(|&operand| self.old.ty(operand)).collect();
                derivative(data.op, &types) == Derivative::Zero
            };
            is_only &= is_exempt || !data.operands.contains(&value);
        });
        is_only
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

    /// Values of these types that `write` gives, which are computed if they are asked for; otherwise zeros.
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

/// True if the derivative may be infinite or NaN.
pub(super) fn is_curved(data: &InstData) -> bool {
    let info = data.op.info();
    let is_linear = is_linear(data.op) || takes_one(data.op) || info.group == OpGroup::Core;
    !is_linear && info.derivative != Derivative::Zero
}

/// True for the ops whose result is one of their operands.
fn takes_one(op: Op) -> bool {
    matches!(op, Op::Select | Op::Min | Op::Max | Op::Clamp)
}
