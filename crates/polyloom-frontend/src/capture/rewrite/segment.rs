//! A run of calls of a group, rewritten at its first call or at its last.

use super::edits::{EvaluatedArgument, GroupRewriting, GroupSite, GroupSlot};
use super::leaf::MomentNames;
use super::own_text::{OwnText, SiteParent, bytes, is_literal, may_run_code};
use super::unit::{SiteUnit, UnitValue, leaves};
use crate::capture::grouping::CallGrouper;
use crate::capture::interpreter::CaptureInterpreter;
use crate::capture::object::ValueId;
use crate::capture::result::ExecMoment;
use crate::capture::timeline::{CallEvent, EventKind};
use ruff_python_ast::Expr;
use ruff_text_size::Ranged;

pub(super) struct SegmentBuilder<'a, 'c> {
    pub(super) interpreter: &'a CaptureInterpreter<'c>,
    pub(super) grouper: &'a CallGrouper<'a>,
    pub(super) own: &'a OwnText<'a>,
    /// The calls, ascending. A member is named by its place here.
    pub(super) calls: &'a [usize],
}

/// The slots of a group, and what is known to be in them.
#[derive(Default)]
pub(super) struct SlotList {
    pub(super) slots: Vec<GroupSlot>,
    values: Vec<(ValueId, usize)>,
    expressions: Vec<((u32, u32), usize)>,
}

impl SlotList {
    /// Adds a slot, or finds the one that is had in the same way.
    pub(super) fn add(&mut self, slot: GroupSlot, value: Option<ValueId>, expression: Option<(u32, u32)>) -> usize {
        let known = self.slots.iter().position(|each| *each == slot && slot != GroupSlot::Kept);
        let index = known.unwrap_or(self.slots.len());
        if known.is_none() {
            self.slots.push(slot);
        }
        self.values.extend(value.map(|value| (value, index)));
        self.expressions.extend(expression.map(|range| (range, index)));
        index
    }

    pub(super) fn of_value(&self, value: ValueId) -> Option<usize> {
        self.values.iter().find(|(known, _)| *known == value).map(|(_, slot)| *slot)
    }

    pub(super) fn of_expression(&self, range: (u32, u32)) -> Option<usize> {
        self.expressions.iter().find(|(known, _)| *known == range).map(|(_, slot)| *slot)
    }
}

impl<'a> SegmentBuilder<'a, '_> {
    /// Describes the run of calls, at its first call where that can be done. `legal` are the moments of the whole group.
    pub(super) fn build(&self, legal: &[ExecMoment]) -> Result<GroupRewriting, String> {
        for member in 0..self.calls.len() {
            let call = self.call(member);
            if call.results.len() != 1 {
                return Err("it has several results".to_owned());
            }
            if !call.is_fusable {
                return Err("it is called with `*`, `**`, `out=` or a function".to_owned());
            }
        }
        let units = self.units()?;
        let live = self.live_members(&units);
        self.check_views(&live)?;
        let moments = self.grouper.moments_of(self.calls);
        let mut reason = None;
        if legal.contains(&ExecMoment::First) && moments.first.is_ok() {
            match self.build_first(&units, &live) {
                Ok(rewriting) => return Ok(rewriting),
                Err(error) => reason = Some(error),
            }
        }
        if legal.contains(&ExecMoment::Last) && moments.last.is_ok() {
            match self.build_last(&units, &live) {
                Ok(rewriting) => return Ok(rewriting),
                Err(error) => reason = Some(reason.unwrap_or(error)),
            }
        }
        Err(reason.unwrap_or_else(|| "no moment suits it and the calls beside it".to_owned()))
    }

    /// True if unknown code runs between the first call and those of a place. It may bind the names of ops anew, which the
    /// group could not know.
    pub(super) fn runs_unknown_code_before(&self, unit: &SiteUnit<'a>) -> bool {
        let first = self.call(0).at as usize;
        let last = unit.members.iter().map(|&member| self.call(member).at as usize).max().unwrap_or(first);
        let between = &self.interpreter.timeline.events[first..last.max(first)];
        between
            .iter()
            .any(|event| matches!(event.kind, EventKind::UnknownCode | EventKind::Suspend | EventKind::Dynamic))
    }

    /// True if a place is the call of a method of an array.
    pub(super) fn is_method(&self, unit: &SiteUnit<'a>) -> bool {
        unit.helper.is_none() && self.call(unit.results[0]).path.starts_with("ndarray.")
    }

    pub(super) fn call(&self, member: usize) -> &'a CallEvent {
        &self.interpreter.timeline.calls[self.calls[member]]
    }

    pub(super) fn producer(&self, member: usize, operand: usize) -> Option<usize> {
        let call = self.calls[member];
        let producer = self.grouper.producer(call, operand)?;
        self.calls.binary_search(&producer).ok()
    }

    /// The file of the function's own text.
    pub(super) fn call_file(&self) -> polyloom_ir::FileId {
        self.interpreter.units.first().map_or(polyloom_ir::Span::NONE.file, |(_, file)| *file)
    }

    /// Checks that no result that is needed outside is a view of something else that is there, too, because a kernel
    /// would make it a tensor of its own.
    fn check_views(&self, live: &[usize]) -> Result<(), String> {
        for &member in live {
            let result = self.call(member).results[0];
            for &root in &self.interpreter.table.object(result).roots {
                let maker = (0..self.calls.len()).find(|&other| self.call(other).results.contains(&root));
                if root != result && maker.is_none_or(|maker| live.contains(&maker)) {
                    return Err("its result may be a view of a value that is used beside it".to_owned());
                }
            }
        }
        Ok(())
    }

    fn build_first(&self, units: &[SiteUnit<'a>], live: &[usize]) -> Result<GroupRewriting, String> {
        // A call needs its operands where it turns out to be one of another op.
        let all: Vec<usize> = (0..self.calls.len()).collect();
        let is_checked = units.iter().any(|unit| self.runs_unknown_code_before(unit));
        let live = if is_checked { &all[..] } else { live };
        self.check_views(live)?;
        let first = &units[0];
        let moment = match first.helper {
            Some(helper) => MomentNames { at: helper.events.start, names: &helper.names },
            None => {
                let call = self.call(0);
                MomentNames { at: call.at, names: &call.names[..call.n_own_names] }
            }
        };
        let mut slots = SlotList::default();
        let evaluated = self.evaluate_first(first, &mut slots);
        let mut members = Vec::new();
        for member in 0..self.calls.len() {
            let unit = units.iter().find(|unit| unit.members.contains(&member)).ok_or("")?;
            members.push(self.member(member, unit, &mut slots, Some(&moment))?);
        }
        let root = self.climb(units, &evaluated);
        let runs_code = evaluated.iter().any(|each| each.may_run_code);
        let mut sites = Vec::new();
        for (index, unit) in units.iter().enumerate() {
            if (self.is_inside(units, index, root) && (index == 0 || !runs_code)) || index == root {
                continue;
            }
            if self.parent_unit(units, index).is_some() && self.is_skippable_tree(units, index) {
                continue;
            }
            sites.push(self.later_site(unit, units));
        }
        let at_root: Vec<usize> = (0..units.len())
            .filter(|&index| index == root || self.is_inside(units, index, root))
            .flat_map(|index| units[index].members.clone())
            .collect();
        sites.insert(
            0,
            GroupSite {
                range: bytes(&units[root].range),
                members: at_root,
                results: units[root].results.clone(),
                is_tuple: units[root].is_tuple,
                evaluated,
                is_method: self.is_method(&units[root]),
                is_checked: false,
                n_slots: slots.slots.len(),
                holders: Vec::new(),
            },
        );
        Ok(GroupRewriting {
            calls: self.calls.to_vec(),
            moment: ExecMoment::First.name(),
            members,
            slots: slots.slots,
            outputs: live.to_vec(),
            sites,
        })
    }

    /// Returns the arguments of the first place that are evaluated before the group runs, and fills their slots.
    fn evaluate_first(&self, first: &SiteUnit<'a>, slots: &mut SlotList) -> Vec<EvaluatedArgument> {
        let leaves = leaves(first);
        let runs_code = leaves.iter().any(|leaf| {
            may_run_code(leaf.expr) && !is_literal(leaf.expr) && !self.is_skippable(leaf.expr, &leaf.value)
        });
        let mut evaluated = Vec::new();
        for leaf in leaves {
            if is_literal(leaf.expr) {
                continue;
            }
            let range = bytes(leaf.expr);
            let (value, is_operand) = match leaf.value {
                UnitValue::One(value, operand) => (value, operand.is_some()),
                UnitValue::List(_) => (crate::capture::object::CONSTANT, false),
            };
            let is_constant = self.interpreter.table.value(value).is_constant;
            let value = Some(value).filter(|_| !is_constant && !matches!(leaf.value, UnitValue::List(_)));
            if let Some(path) = value.and_then(|value| self.path_of(value)).filter(|_| !runs_code) {
                slots.add(GroupSlot::Path(path), value, Some(range));
                continue;
            }
            if let Expr::Name(name) = leaf.expr
                && !runs_code
            {
                let is_free = !self.is_local(&name.id);
                let slot = if is_free { GroupSlot::Free } else { GroupSlot::Name };
                if is_operand {
                    slots.add(slot(name.id.to_string()), value, Some(range));
                }
                continue;
            }
            // An argument of a helper that no member takes is evaluated all the same.
            let is_taken = is_operand || value.is_some_and(|value| self.is_taken(value));
            let slot = is_taken.then(|| slots.add(GroupSlot::Kept, value, Some(range)));
            evaluated.push(EvaluatedArgument { range, slot, member: None, may_run_code: may_run_code(leaf.expr) });
        }
        evaluated
    }

    /// True if a member takes a value as an operand.
    pub(super) fn is_taken(&self, value: ValueId) -> bool {
        (0..self.calls.len()).any(|member| self.call(member).operands.iter().any(|operand| operand.value == value))
    }

    pub(super) fn is_local(&self, name: &str) -> bool {
        self.interpreter.frames.first().is_some_and(|frame| frame.scope.locals.contains(name))
    }

    /// Returns the unit whose argument a unit is.
    pub(super) fn parent_unit(&self, units: &[SiteUnit<'a>], index: usize) -> Option<usize> {
        let SiteParent::Argument(range) = units[index].parent else { return None };
        units.iter().position(|unit| unit.range == range)
    }

    /// True if a unit is nested in another.
    fn is_inside(&self, units: &[SiteUnit<'a>], index: usize, of: usize) -> bool {
        index != of && units[of].range.contains_range(units[index].range)
    }

    /// True if all arguments of a unit are names, literals and units of the same kind, the first unit not among them.
    fn is_skippable_tree(&self, units: &[SiteUnit<'a>], index: usize) -> bool {
        index != 0 && leaves(&units[index]).iter().all(|leaf| self.is_skippable_leaf(units, leaf.expr, &leaf.value))
    }

    fn is_skippable_leaf(&self, units: &[SiteUnit<'a>], expr: &Expr, value: &UnitValue) -> bool {
        match units.iter().position(|unit| unit.range == expr.range()) {
            Some(nested) => self.is_skippable_tree(units, nested),
            None => self.is_skippable(expr, value),
        }
    }

    /// Returns the outermost unit that can take the place of the first: around that it evaluates nothing but names.
    fn climb(&self, units: &[SiteUnit<'a>], evaluated: &[EvaluatedArgument]) -> usize {
        let mut root = 0;
        if evaluated.iter().any(|each| each.may_run_code) {
            return root;
        }
        while let Some(parent) = self.parent_unit(units, root) {
            let range = units[root].range;
            let is_plain = leaves(&units[parent])
                .iter()
                .all(|leaf| leaf.expr.range() == range || self.is_skippable_leaf(units, leaf.expr, &leaf.value));
            if !is_plain {
                break;
            }
            root = parent;
        }
        root
    }

    /// Describes a place after the group has run.
    fn later_site(&self, unit: &SiteUnit<'a>, units: &[SiteUnit<'a>]) -> GroupSite {
        let leaves = leaves(unit);
        let is_skipped = |expr: &Expr, value: &UnitValue| self.is_skippable_leaf(units, expr, value);
        let is_evaluated = leaves.iter().any(|leaf| !is_skipped(leaf.expr, &leaf.value));
        let mut evaluated = Vec::new();
        for leaf in &leaves {
            let is_kept_name = is_evaluated && leaf.expr.is_name_expr();
            if is_skipped(leaf.expr, &leaf.value) && !is_kept_name {
                continue;
            }
            let (range, may_run_code) = (bytes(leaf.expr), may_run_code(leaf.expr));
            evaluated.push(EvaluatedArgument { range, slot: None, member: None, may_run_code });
        }
        let inner = units.iter().filter(|other| unit.range.contains_range(other.range));
        GroupSite {
            range: bytes(&unit.range),
            members: inner.flat_map(|other| other.members.clone()).collect(),
            results: unit.results.clone(),
            is_tuple: unit.is_tuple,
            evaluated,
            is_method: self.is_method(unit),
            is_checked: self.runs_unknown_code_before(unit),
            n_slots: 0,
            holders: Vec::new(),
        }
    }
}
