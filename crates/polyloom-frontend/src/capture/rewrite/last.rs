//! Groups that run at their last call: what each place keeps until then, and which names are bound anew.

use super::edits::{EvaluatedArgument, GroupMember, GroupOperand, GroupRewriting, GroupSite, GroupSlot};
use super::own_text::{SiteParent, bytes, is_literal, may_run_code};
use super::segment::{SegmentBuilder, SlotList};
use super::unit::{SiteUnit, UnitValue, leaves};
use crate::capture::object::ValueId;
use crate::capture::result::ExecMoment;
use ruff_python_ast::Expr;
use ruff_text_size::Ranged;
use std::rc::Rc;

impl<'a> SegmentBuilder<'a, '_> {
    pub(super) fn build_last(&self, units: &[SiteUnit<'a>], live: &[usize]) -> Result<GroupRewriting, String> {
        self.check_names(units)?;
        self.check_holders(units, live)?;
        let last = self.call(self.calls.len() - 1).at;
        let mut slots = SlotList::default();
        let (mut members, mut sites) = (Vec::new(), Vec::new());
        for unit in units {
            let evaluated = self.evaluate_at_site(unit, units, last, &mut slots)?;
            for &member in &unit.members {
                // Sites leave all members before their own to the group, so that members must come unit by unit.
                if member != members.len() {
                    return Err("its helper function is called between calls of another".to_owned());
                }
                members.push(self.member(member, unit, &mut slots, None)?);
            }
            sites.push(GroupSite {
                range: bytes(&unit.range),
                members: unit.members.clone(),
                results: unit.results.clone(),
                is_tuple: unit.is_tuple,
                evaluated,
                is_method: self.is_method(unit),
                is_checked: false,
                n_slots: slots.slots.len(),
                holders: self.holders(unit),
            });
        }
        let mut rewriting = GroupRewriting {
            calls: self.calls.to_vec(),
            moment: ExecMoment::Last.name(),
            members,
            slots: slots.slots,
            outputs: live.to_vec(),
            sites,
        };
        rewriting.remove_unread_slots();
        Ok(rewriting)
    }

    /// Checks that results of members are in names alone until the group runs, which are then bound anew.
    fn check_names(&self, units: &[SiteUnit<'a>]) -> Result<(), String> {
        let last = self.call(self.calls.len() - 1).at;
        for (index, unit) in units.iter().enumerate() {
            let is_last = index + 1 == units.len();
            if unit.helper.is_some() && self.runs_unknown_code_before(unit) {
                return Err("it is in a helper function that code before it may replace".to_owned());
            }
            if unit.is_protected {
                return Err("it is inside of a `try` or `with`, and the group runs at its last call".to_owned());
            }
            let is_named = match &unit.parent {
                SiteParent::Names(names) => !unit.is_tuple && names.iter().all(|name| self.is_own_name(name)),
                SiteParent::Unpacked(names) => {
                    unit.is_tuple
                        && names.len() == unit.results.len()
                        && names.iter().all(|name| self.is_own_name(name))
                }
                SiteParent::Argument(_) => !unit.is_tuple && self.parent_unit(units, index).is_some(),
                SiteParent::Nothing => true,
                SiteParent::Other => false,
            };
            let is_read = |result: &usize| {
                let made = self.call(*result).at;
                self.outside_loads(*result, units).any(|load| load.at >= made && load.at <= last)
            };
            if !is_last && (!is_named || unit.results.iter().any(is_read)) {
                return Err("its result is used before the group runs".to_owned());
            }
        }
        Ok(())
    }

    /// Returns the arguments of a place that are evaluated and kept until the group runs.
    fn evaluate_at_site(
        &self,
        unit: &SiteUnit<'a>,
        units: &[SiteUnit<'a>],
        last: u32,
        slots: &mut SlotList,
    ) -> Result<Vec<EvaluatedArgument>, String> {
        let leaves = leaves(unit);
        let at = self.call(unit.results[0]).at;
        let runs_code = leaves.iter().any(|leaf| {
            let is_nested = units.iter().any(|other| other.range == leaf.expr.range());
            !is_nested && !is_literal(leaf.expr) && may_run_code(leaf.expr)
        });
        let mut evaluated = Vec::new();
        for leaf in leaves {
            let range = bytes(leaf.expr);
            if is_literal(leaf.expr) {
                continue;
            }
            let may_run_code = may_run_code(leaf.expr);
            if let Some(nested) = units.iter().find(|other| other.range == leaf.expr.range()) {
                let (&[result], false) = (&nested.results[..], nested.is_tuple) else {
                    return Err("it takes several results of a helper function".to_owned());
                };
                let member = Some(result);
                evaluated.push(EvaluatedArgument { range, slot: None, member, may_run_code });
                continue;
            }
            let UnitValue::One(value, _) = leaf.value else {
                return Err("it takes a list that is made elsewhere".to_owned());
            };
            if self.member_of(&leaf.value).is_some() {
                match leaf.expr {
                    Expr::Name(_) => continue,
                    _ => return Err("it takes the result of a call in an expression of its own".to_owned()),
                }
            }
            let known = Some(value).filter(|&value| !self.interpreter.table.value(value).is_constant);
            // An argument of a helper that no member takes is evaluated all the same.
            let is_taken = unit.helper.is_none() || self.is_taken(value);
            if let Expr::Name(name) = leaf.expr
                && !runs_code
                && self.is_own_name(&name.id)
                && !self.is_bound_between(&name.id, at, last)
            {
                if is_taken {
                    slots.add(GroupSlot::Name(name.id.to_string()), known, Some(range));
                }
                continue;
            }
            let slot = is_taken.then(|| slots.add(GroupSlot::Kept, known, Some(range)));
            evaluated.push(EvaluatedArgument { range, slot, member: None, may_run_code });
        }
        Ok(evaluated)
    }

    /// Checks that each name that may hold a result that is needed outside holds it for certain when the group runs: on a path
    /// on which it holds another value, it must not be bound anew, and on the others it must.
    fn check_holders(&self, units: &[SiteUnit<'a>], live: &[usize]) -> Result<(), String> {
        for (_, value) in self.own_names(units.last()) {
            let objects = self.interpreter.table.objects_of(*value);
            let may_hold = |&&member: &&usize| objects.contains(&self.call(member).results[0]);
            let is_certain = objects.len() == 1 && !self.interpreter.table.value(*value).may_be_unbound;
            if !is_certain && live.iter().any(|member| may_hold(&member)) {
                return Err("a name holds its result on some paths alone when the group runs".to_owned());
            }
        }
        Ok(())
    }

    /// Returns the function's own names and their values when a unit is evaluated.
    fn own_names(&self, unit: Option<&SiteUnit<'a>>) -> &'a [(Rc<str>, ValueId)] {
        let Some(unit) = unit else { return &[] };
        match unit.helper {
            Some(helper) => &helper.names,
            None => {
                let call = self.call(unit.results[0]);
                &call.names[..call.n_own_names]
            }
        }
    }

    /// Returns the function's own names that hold results of earlier members when a unit is evaluated.
    fn holders(&self, unit: &SiteUnit<'a>) -> Vec<(String, usize)> {
        let mut holders = Vec::new();
        for (name, value) in self.own_names(Some(unit)) {
            let objects = self.interpreter.table.objects_of(*value);
            let maker = (0..unit.members[0]).find(|&earlier| objects[..] == self.call(earlier).results[..]);
            holders.extend(maker.map(|maker| (name.to_string(), maker)));
        }
        holders
    }
}

impl GroupRewriting {
    /// Removes the slots that no member reads: a helper that binds a parameter anew reads the slot in which the argument was
    /// kept before. The arguments are evaluated all the same.
    fn remove_unread_slots(&mut self) {
        let mut is_read = vec![false; self.slots.len()];
        self.for_each_operand(&mut |slot| is_read[*slot] = true);
        // The new place of each slot, and the number of slots at the end.
        let places: Vec<usize> = [0]
            .into_iter()
            .chain(is_read.iter().scan(0, |n, &read| {
                *n += usize::from(read);
                Some(*n)
            }))
            .collect();
        self.for_each_operand(&mut |slot| *slot = places[*slot]);
        for site in &mut self.sites {
            site.n_slots = places[site.n_slots];
            for argument in &mut site.evaluated {
                argument.slot = argument.slot.filter(|&slot| is_read[slot]).map(|slot| places[slot]);
            }
        }
        let mut is_read = is_read.into_iter();
        self.slots.retain(|_| is_read.next().unwrap_or(true));
    }

    /// Visits the slots that members read.
    fn for_each_operand(&mut self, visit: &mut impl FnMut(&mut usize)) {
        fn go(operand: &mut GroupOperand, visit: &mut impl FnMut(&mut usize)) {
            match operand {
                GroupOperand::In(slot) => visit(slot),
                GroupOperand::List(operands) => operands.iter_mut().for_each(|operand| go(operand, visit)),
                GroupOperand::Call(_) | GroupOperand::Const(_) | GroupOperand::Index(_) => {}
            }
        }
        for GroupMember { arguments, keywords, .. } in &mut self.members {
            arguments.iter_mut().for_each(|operand| go(operand, visit));
            keywords.iter_mut().for_each(|(_, operand)| go(operand, visit));
        }
    }
}
