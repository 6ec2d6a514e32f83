//! The external values of a group: how each is had at the moment at which the group runs.

use super::edits::{GroupMember, GroupOperand, GroupSlot};
use super::own_text::{bytes, is_literal};
use super::segment::{SegmentBuilder, SlotList};
use super::unit::{ParameterValue, SiteUnit, UnitValue};
use crate::capture::object::{ObjectKind, ValueId};
use crate::capture::timeline::OperandTree;
use ruff_python_ast::{self as ast, Expr};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The names and the time at which a group runs.
pub(super) struct MomentNames<'a> {
    pub(super) at: u32,
    pub(super) names: &'a [(Rc<str>, ValueId)],
}

impl<'a> SegmentBuilder<'a, '_> {
    /// Describes a member. Its external values are in slots of sites, or are had by other means at `moment`.
    pub(super) fn member(
        &self,
        member: usize,
        unit: &SiteUnit<'a>,
        slots: &mut SlotList,
        moment: Option<&MomentNames<'_>>,
    ) -> Result<GroupMember, String> {
        let call = self.call(member);
        let expressions = unit.expressions.get(&member).map_or(&[][..], |each| each);
        let is_numpy = !call.parameters.is_empty();
        let mut described = GroupMember {
            path: call.path.to_string(),
            op: is_numpy.then(|| call.op.to_string()),
            parameters: call.parameters.clone(),
            arguments: Vec::new(),
            keywords: Vec::new(),
        };
        for ((keyword, tree), expr) in call.arguments.iter().zip(expressions) {
            let operand = self.operand(member, tree, Some(expr), &unit.parameters, slots, moment)?;
            match keyword {
                Some(keyword) => described.keywords.push((keyword.to_string(), operand)),
                None => described.arguments.push(operand),
            }
        }
        if let Some(index) = &call.index {
            described.arguments.push(GroupOperand::Index(index.to_string()));
            described.parameters.push("index");
        }
        Ok(described)
    }

    fn operand(
        &self,
        member: usize,
        tree: &OperandTree,
        expr: Option<&'a Expr>,
        parameters: &FxHashMap<String, ParameterValue>,
        slots: &mut SlotList,
        moment: Option<&MomentNames<'_>>,
    ) -> Result<GroupOperand, String> {
        let index = match tree {
            OperandTree::One(index) => *index,
            OperandTree::List(parts) => {
                let elements: Vec<Option<&Expr>> = match expr {
                    Some(Expr::List(ast::ExprList { elts, .. }) | Expr::Tuple(ast::ExprTuple { elts, .. }))
                        if elts.len() == parts.len() =>
                    {
                        elts.iter().map(Some).collect()
                    }
                    _ => vec![None; parts.len()],
                };
                let parts = parts.iter().zip(elements);
                let operands = parts.map(|(part, expr)| self.operand(member, part, expr, parameters, slots, moment));
                return operands.collect::<Result<_, _>>().map(GroupOperand::List);
            }
        };
        if let Some(producer) = self.producer(member, index) {
            return Ok(GroupOperand::Call(producer));
        }
        let file = self.call(member).span.file;
        if let Some(expr) = expr {
            if is_literal(expr) {
                let text = self.interpreter.sources.get(file).and_then(|source| {
                    let (start, end) = bytes(expr);
                    source.text.get(start as usize..end as usize)
                });
                return Ok(GroupOperand::Const(text.unwrap_or_default().to_owned()));
            }
            let is_own = self.call(member).inlined_at.is_empty();
            match expr.as_name_expr().and_then(|name| parameters.get(name.id.as_str())) {
                Some(ParameterValue::Literal(text)) => return Ok(GroupOperand::Const(text.clone())),
                Some(ParameterValue::Expression(range)) => {
                    if let Some(slot) = slots.of_expression(*range) {
                        return Ok(GroupOperand::In(slot));
                    }
                }
                None => {}
            }
            if let Some(slot) = slots.of_expression(bytes(expr)).filter(|_| is_own) {
                return Ok(GroupOperand::In(slot));
            }
        }
        let value = self.call(member).operands[index].value;
        let slot = match moment {
            Some(moment) => self.slot_at(member, value, expr, slots, moment)?,
            // The arguments of a helper were evaluated at its call.
            None => self.given_slot(value, slots).ok_or("an operand of it has no expression of its own")?,
        };
        Ok(GroupOperand::In(slot))
    }

    /// Returns the slot that holds a value, or one for a member of a module.
    fn given_slot(&self, value: ValueId, slots: &mut SlotList) -> Option<usize> {
        let is_constant = self.interpreter.table.value(value).is_constant;
        let known = slots.of_value(value).filter(|_| !is_constant);
        known.or_else(|| Some(slots.add(GroupSlot::Path(self.path_of(value)?), None, None)))
    }

    /// Returns the slot of a value that can be had when the group runs.
    pub(super) fn slot_at(
        &self,
        member: usize,
        value: ValueId,
        expr: Option<&Expr>,
        slots: &mut SlotList,
        moment: &MomentNames<'_>,
    ) -> Result<usize, String> {
        let known = self.interpreter.table.value(value);
        if let Some(slot) = self.given_slot(value, slots) {
            return Ok(slot);
        }
        if known.is_constant {
            // All literals are one value, so that the name alone tells which it is.
            let name = expr.and_then(|expr| Some(expr.as_name_expr()?.id.to_string()));
            let is_own = self.call(member).inlined_at.is_empty();
            let name = name.filter(|name| {
                is_own
                    && moment.names.iter().any(|(held, of)| **held == **name && *of == value)
                    && !self.is_bound_between(name, moment.at, self.call(member).at)
            });
            let name = name.ok_or("an operand of it is computed from literals")?;
            return Ok(slots.add(GroupSlot::Name(name), None, None));
        }
        if known.ready <= moment.at {
            let name = moment.names.iter().find(|(_, held)| *held == value).filter(|_| !known.may_be_unbound);
            if let Some((name, _)) = name {
                return Ok(slots.add(GroupSlot::Name(name.to_string()), Some(value), None));
            }
            if let Some(name) = self.interpreter.global_values.get(&value) {
                return Ok(slots.add(GroupSlot::Free(name.clone()), Some(value), None));
            }
        }
        Err("an operand of it has no name when the group would run".to_owned())
    }

    /// Returns the dotted path of a member of a module, or of one of Python's own functions.
    pub(super) fn path_of(&self, value: ValueId) -> Option<String> {
        let table = &self.interpreter.table;
        match table.objects_of(value)[..] {
            [only] => match table.kind(only) {
                ObjectKind::Path(path) => Some(path.to_string()),
                ObjectKind::Builtin(name) => Some(format!("builtins.{name}")),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the member whose unchanged result an argument is.
    pub(super) fn member_of(&self, value: &UnitValue) -> Option<usize> {
        match value {
            UnitValue::One(_, Some((member, operand))) => self.producer(*member, *operand),
            UnitValue::One(value, None) => {
                let objects = self.interpreter.table.objects_of(*value);
                (0..self.calls.len()).find(|&member| objects[..] == self.call(member).results[..])
            }
            UnitValue::List(_) => None,
        }
    }

    /// True if the function binds a name of its own between two events.
    pub(super) fn is_bound_between(&self, name: &str, from: u32, to: u32) -> bool {
        let own = self.interpreter.frames.first().map(|frame| frame.id);
        let bindings = &self.interpreter.timeline.bindings;
        bindings.iter().any(|each| each.frame == own && *each.name == *name && each.at > from && each.at <= to)
    }
}
