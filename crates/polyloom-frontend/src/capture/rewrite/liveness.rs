//! Finds which results of a group are needed outside of it.

use super::own_text::{SiteParent, bytes};
use super::segment::SegmentBuilder;
use super::unit::{SiteUnit, UnitValue, leaves};
use crate::capture::object::ObjectId;
use crate::capture::timeline::NameLoadEvent;
use rustc_hash::FxHashSet;

impl<'a> SegmentBuilder<'a, '_> {
    /// Returns the members whose results something outside of the group may look at, ascending.
    pub(super) fn live_members(&self, units: &[SiteUnit<'a>]) -> Vec<usize> {
        let mut live: Vec<usize> = (0..self.calls.len()).filter(|&member| self.is_live(member, units)).collect();
        if live.is_empty() {
            live.push(self.calls.len() - 1);
        }
        live
    }

    /// Returns the views of NumPy that something outside of the group looks at.
    pub(super) fn escaping_views(&self) -> Vec<polyloom_ir::Span> {
        let is_view = |member: &usize| {
            let call = self.call(*member);
            let object = call.results.first().map(|&result| self.interpreter.table.object(result));
            !call.parameters.is_empty() && call.inlined_at.is_empty() && object.is_some_and(|made| made.roots.len() > 1)
        };
        if !(0..self.calls.len()).any(|member| is_view(&member)) {
            return Vec::new();
        }
        let Ok(units) = self.units() else { return Vec::new() };
        self.live_members(&units).into_iter().filter(is_view).map(|member| self.call(member).span).collect()
    }

    fn is_live(&self, member: usize, units: &[SiteUnit<'a>]) -> bool {
        let Some(unit) = units.iter().find(|unit| unit.members.contains(&member)) else { return true };
        if unit.results.contains(&member) {
            let is_outside = match &unit.parent {
                SiteParent::Argument(range) => !units.iter().any(|other| other.range == *range),
                SiteParent::Names(names) => unit.is_tuple || names.iter().any(|name| !self.is_own_name(name)),
                SiteParent::Unpacked(names) if unit.is_tuple && names.len() == unit.results.len() => {
                    let mut own = names.iter().zip(&unit.results).filter(|&(_, &result)| result == member);
                    own.any(|(name, _)| !self.is_own_name(name))
                }
                SiteParent::Unpacked(_) => true,
                SiteParent::Nothing => false,
                SiteParent::Other => true,
            };
            if is_outside {
                return true;
            }
        } else if unit.helper.is_some() {
            // A helper's names are gone when it has returned.
            return false;
        }
        self.outside_loads(member, units).next().is_some()
    }

    /// True if a name is local to the function, and functions inside of it do not use it.
    pub(super) fn is_own_name(&self, name: &str) -> bool {
        self.interpreter.frames.first().is_some_and(|frame| frame.scope.locals.contains(name))
            && !self.own.captured.contains(name)
    }

    /// Returns the names that read the result of a member and are no argument of a member.
    pub(super) fn outside_loads(
        &self,
        member: usize,
        units: &[SiteUnit<'a>],
    ) -> impl Iterator<Item = &'a NameLoadEvent> {
        let result = self.call(member).results[0];
        let older = self.interpreter.table.older_of(result);
        let is_result = move |id: &ObjectId| *id == result || Some(*id) == older;
        let mut inside: FxHashSet<(u32, u32)> = FxHashSet::default();
        for unit in units {
            for leaf in leaves(unit) {
                let is_member = match leaf.value {
                    UnitValue::One(_, Some((of, operand))) => self.producer(of, operand) == Some(member),
                    UnitValue::One(value, None) => self.interpreter.table.objects_of(value)[..] == [result],
                    UnitValue::List(_) => false,
                };
                if leaf.expr.is_name_expr() && is_member {
                    inside.insert(bytes(leaf.expr));
                }
            }
        }
        let helpers: Vec<_> = units.iter().filter_map(|unit| Some(unit.helper?.span)).collect();
        let interpreter = self.interpreter;
        let file = self.call_file();
        interpreter.timeline.loads.iter().filter(move |load| {
            let in_helper = load.inlined_at.is_some_and(|span| helpers.contains(&span));
            let is_own = load.span.file == file && load.inlined_at.is_none();
            let is_argument = is_own && inside.contains(&(load.span.start, load.span.end));
            let is_read = || interpreter.table.objects_of(load.value).iter().any(is_result);
            !is_argument && !in_helper && is_read()
        })
    }
}
