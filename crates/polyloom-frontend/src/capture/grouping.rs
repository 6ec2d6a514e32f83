//! Groups: which calls may run as one kernel, and when.
//!
//! A group is legal if all of it can run at its first call or at its last: everything that it reads from outside is
//! there by then and has the contents that each call would have read where it stands, and nothing outside has read or
//! written a result of it that would not be there yet. Groups grow along values, call by call, as long as they are legal.

use super::object::{ObjectId, ObjectKind, ObjectSet, ObjectTable, ValueId};
use super::result::{CapturedGroup, ExecMoment};
use super::timeline::{CallEvent, CaptureEvent, EventKind, OperandEvent, Timeline};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::rc::Rc;

/// The reason why a group cannot run at a moment, or at all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MomentObstacle {
    /// An operand of a call is made after the first call.
    NotReady { call: usize, value: ValueId },
    /// The event at this index writes an operand of a call between the moment and the call.
    InputWritten { call: usize, event: usize },
    /// The event at this index reads or writes a result of a call before the moment.
    OutputSeen { call: usize, event: usize },
    /// A result of the group comes back into it through Python.
    Feedback { call: usize },
    /// The names bound in between are read where exceptions of this `try` lead to.
    Handler { region: usize },
    /// The event at this index may change how NumPy treats floating-point errors.
    ErrorState { event: usize },
    /// Another group needs a result earlier, or has one later.
    OtherGroup { call: usize },
}

/// The legal moments of a group, or the obstacles.
#[derive(Clone, Debug)]
pub(crate) struct GroupMoments {
    pub(crate) first: Result<(), MomentObstacle>,
    pub(crate) last: Result<(), MomentObstacle>,
}

impl GroupMoments {
    pub(crate) fn is_legal(&self) -> bool {
        self.first.is_ok() || self.last.is_ok()
    }

    fn list(&self) -> Vec<ExecMoment> {
        let first = self.first.is_ok().then_some(ExecMoment::First);
        first.into_iter().chain(self.last.is_ok().then_some(ExecMoment::Last)).collect()
    }
}

/// Everything that grouping looks at.
pub(crate) struct CallGrouper<'t> {
    pub(crate) timeline: &'t Timeline,
    pub(crate) table: &'t ObjectTable,
    /// The global names by which values can be had at any time since they are ready.
    pub(crate) global_values: &'t FxHashMap<ValueId, String>,
    /// The group of each call.
    pub(crate) group_of: Vec<usize>,
    /// The calls of each group, ascending; empty if it has been merged into another.
    pub(crate) groups: Vec<Vec<usize>>,
    /// The moments of each group of more than one call.
    pub(crate) moments: FxHashMap<usize, GroupMoments>,
    /// The obstacles to merging the groups of a producer and a consumer.
    pub(crate) refused: FxHashMap<(usize, usize), GroupMoments>,
    /// For each call, the producers of its operands, which each merge asks for again.
    producers: Vec<Vec<Option<usize>>>,
    /// The events that may write some roots, because each merge asks for these again.
    writers: RefCell<FxHashMap<ObjectSet, Rc<[usize]>>>,
    /// The events after each call that may see its results.
    observers: RefCell<FxHashMap<usize, Rc<[usize]>>>,
}

impl<'t> CallGrouper<'t> {
    pub(crate) fn new(
        timeline: &'t Timeline,
        table: &'t ObjectTable,
        global_values: &'t FxHashMap<ValueId, String>,
    ) -> CallGrouper<'t> {
        let n = timeline.calls.len();
        let mut grouper = CallGrouper {
            timeline,
            table,
            global_values,
            group_of: (0..n).collect(),
            groups: (0..n).map(|call| vec![call]).collect(),
            moments: FxHashMap::default(),
            refused: FxHashMap::default(),
            producers: Vec::new(),
            writers: RefCell::default(),
            observers: RefCell::default(),
        };
        let producers = timeline.calls.iter().enumerate();
        let producers = producers
            .map(|(call, made)| made.operands.iter().map(|operand| grouper.find_producer(call, operand)).collect());
        grouper.producers = producers.collect();
        grouper
    }

    /// Merges the groups of producers and consumers as long as that is legal.
    pub(crate) fn merge_all(&mut self) {
        for consumer in 0..self.timeline.calls.len() {
            for operand in 0..self.timeline.calls[consumer].operands.len() {
                let Some(producer) = self.producer(consumer, operand) else { continue };
                let (a, b) = (self.group_of[producer], self.group_of[consumer]);
                if a == b {
                    continue;
                }
                let mut merged = [&self.groups[a][..], &self.groups[b][..]].concat();
                merged.sort_unstable();
                let moments = self.moments_of(&merged);
                if !moments.is_legal() {
                    self.refused.insert((producer, consumer), moments);
                    continue;
                }
                for &call in &merged {
                    self.group_of[call] = a;
                }
                self.groups[b].clear();
                self.moments.remove(&b);
                self.groups[a] = merged;
                self.moments.insert(a, moments);
            }
        }
        self.settle();
    }

    /// Returns the calls of each group with its moments, ordered by first call.
    pub(crate) fn captured_groups(&self) -> Vec<CapturedGroup> {
        let groups = self.groups.iter().enumerate().filter(|(_, calls)| !calls.is_empty());
        let mut groups: Vec<CapturedGroup> = groups
            .map(|(index, calls)| CapturedGroup {
                calls: calls.clone(),
                exec_at: match calls.len() {
                    1 => Vec::new(),
                    _ => self.moments.get(&index).map(GroupMoments::list).unwrap_or_default(),
                },
            })
            .collect();
        groups.sort_by_key(|group| group.calls[0]);
        groups
    }

    fn call(&self, index: usize) -> &'t CallEvent {
        &self.timeline.calls[index]
    }

    /// Returns the call whose result an operand is, whatever has happened to the result since.
    pub(crate) fn exact_source(&self, operand: &OperandEvent) -> Option<usize> {
        let objects = self.table.objects_of(operand.value);
        let &[only] = &objects[..] else { return None };
        self.source_call(only)
    }

    /// Returns the call that an object is a result of.
    pub(crate) fn source_call(&self, object: ObjectId) -> Option<usize> {
        let ObjectKind::OpResult { call, .. } = *self.table.kind(object) else { return None };
        // Calls of earlier walks of a loop have other indices.
        let made = self.timeline.calls.get(call)?;
        made.results.contains(&object).then_some(call)
    }

    /// Returns the call whose result an operand is, if a kernel with both can pass it on: both fuse, run equally often,
    /// and nothing has written it.
    pub(crate) fn producer(&self, consumer: usize, operand: usize) -> Option<usize> {
        self.producers[consumer][operand]
    }

    fn find_producer(&self, consumer: usize, operand: &OperandEvent) -> Option<usize> {
        let producer = self.exact_source(operand)?;
        let (from, to) = (self.call(producer), self.call(consumer));
        let may_join = from.is_fusable && to.is_fusable && from.block == to.block && from.at < to.at;
        (may_join && self.writer_between(from, to, operand).is_none()).then_some(producer)
    }

    /// Returns the first event between two calls that may write an operand.
    pub(crate) fn writer_between(&self, from: &CallEvent, to: &CallEvent, operand: &OperandEvent) -> Option<usize> {
        let known = self.writers.borrow().get(&operand.roots).cloned();
        let writers = known.unwrap_or_else(|| {
            let events = self.timeline.events.iter().enumerate();
            let writers = events.filter(|(_, event)| event.writes_any(&operand.roots)).map(|(index, _)| index);
            let writers: Rc<[usize]> = writers.collect();
            self.writers.borrow_mut().insert(operand.roots.clone(), writers.clone());
            writers
        });
        self.between(&writers, from.at, to.at).next()
    }

    /// Returns the events after a call that may see its results, with exceptions on which what has escaped is seen by
    /// whoever catches them.
    fn observers(&self, index: usize) -> Rc<[usize]> {
        let known = self.observers.borrow().get(&index).cloned();
        known.unwrap_or_else(|| {
            let call = self.call(index);
            let sees = |event: &CaptureEvent, result: ObjectId| {
                let is_thrown = || event.raises && event.escaped.binary_search(&result).is_ok();
                event.reads(result) || event.writes(result) || is_thrown()
            };
            let events = self.timeline.events.iter().enumerate().skip(call.at as usize + 1);
            let observers = events.filter(|(_, event)| call.results.iter().any(|&result| sees(event, result)));
            let observers: Rc<[usize]> = observers.map(|(index, _)| index).collect();
            self.observers.borrow_mut().insert(index, observers.clone());
            observers
        })
    }

    /// Returns those of some events that are between two others, on the timeline of the first.
    fn between<'s>(&'s self, events: &'s [usize], from: u32, to: u32) -> impl Iterator<Item = usize> + 's {
        let timeline = |index: usize| self.timeline.events.get(index).map_or(0, |event| event.timeline);
        let of = timeline(from as usize);
        let start = events.partition_point(|&index| index <= from as usize);
        let between = events[start..].iter().copied().take_while(move |&index| index < to as usize);
        between.filter(move |&index| timeline(index) == of)
    }

    /// Returns the moments at which some calls can run together.
    pub(crate) fn moments_of(&self, calls: &[usize]) -> GroupMoments {
        if let Err(obstacle) = self
            .check_handlers(calls)
            .and_then(|()| self.check_feedback(calls))
            .and_then(|()| self.check_error_state(calls))
        {
            return GroupMoments { first: Err(obstacle.clone()), last: Err(obstacle) };
        }
        GroupMoments { first: self.check_first(calls), last: self.check_last(calls) }
    }

    /// Checks that no unknown code runs between calls of NumPy, because it may call `np.seterr`.
    fn check_error_state(&self, calls: &[usize]) -> Result<(), MomentObstacle> {
        let (Some(&first), Some(&last)) = (calls.first(), calls.last()) else { return Ok(()) };
        if !calls.iter().any(|&call| !self.call(call).parameters.is_empty()) {
            return Ok(());
        }
        let between = self.call(first).at as usize..self.call(last).at as usize;
        let is_unknown = |index: &usize| {
            let event = &self.timeline.events[*index];
            matches!(event.kind, EventKind::UnknownCode | EventKind::Suspend | EventKind::Dynamic)
        };
        between.into_iter().find(is_unknown).map_or(Ok(()), |event| Err(MomentObstacle::ErrorState { event }))
    }

    /// The operands that come from outside of a group.
    fn outer_operands<'s>(&'s self, calls: &'s [usize], call: usize) -> impl Iterator<Item = &'t OperandEvent> + 's {
        let operands = self.call(call).operands.iter().zip(&self.producers[call]);
        operands
            .filter(|(_, producer)| producer.is_none_or(|producer| calls.binary_search(&producer).is_err()))
            .map(|(operand, _)| operand)
    }

    /// Checks that the whole group may run in place of its first call.
    fn check_first(&self, calls: &[usize]) -> Result<(), MomentObstacle> {
        let Some((&first, others)) = calls.split_first() else { return Ok(()) };
        let start = self.call(first);
        for &call in others {
            for operand in self.outer_operands(calls, call) {
                if !self.is_available(operand.value, start) {
                    return Err(MomentObstacle::NotReady { call, value: operand.value });
                }
                if let Some(event) = self.writer_between(start, self.call(call), operand) {
                    return Err(MomentObstacle::InputWritten { call, event });
                }
            }
        }
        Ok(())
    }

    /// True if a value can be had when a call runs: a name holds it, or it is the same always.
    pub(crate) fn is_available(&self, value: ValueId, at: &CallEvent) -> bool {
        let known = self.table.value(value);
        let is_fixed = |&id: &ObjectId| matches!(self.table.kind(id), ObjectKind::Path(_) | ObjectKind::Builtin(_));
        if known.is_constant || known.objects.iter().all(is_fixed) {
            return true;
        }
        let has_name = at.names.iter().any(|(_, named)| *named == value) || self.global_values.contains_key(&value);
        let is_operand = at.operands.iter().any(|operand| operand.value == value);
        known.ready <= at.at && (has_name || is_operand)
    }

    /// Checks that the whole group may run in place of its last call.
    fn check_last(&self, calls: &[usize]) -> Result<(), MomentObstacle> {
        let Some((&last, others)) = calls.split_last() else { return Ok(()) };
        let end = self.call(last);
        for &call in others {
            let start = self.call(call);
            for operand in self.outer_operands(calls, call) {
                if let Some(event) = self.writer_between(start, end, operand) {
                    return Err(MomentObstacle::InputWritten { call, event });
                }
            }
            let observers = self.observers(call);
            for index in self.between(&observers, start.at, end.at) {
                let kind = self.timeline.events.get(index).map(|event| event.kind);
                let is_member = matches!(kind, Some(EventKind::Op(other)) if calls.binary_search(&other).is_ok());
                if !is_member {
                    return Err(MomentObstacle::OutputSeen { call, event: index });
                }
            }
        }
        Ok(())
    }

    /// Checks that nothing that a group makes comes back into it but from call to call.
    fn check_feedback(&self, calls: &[usize]) -> Result<(), MomentObstacle> {
        let results: FxHashSet<ObjectId> = calls.iter().flat_map(|&call| &self.call(call).results).copied().collect();
        for &call in calls {
            for operand in self.outer_operands(calls, call) {
                if operand.roots.iter().any(|root| results.contains(root)) {
                    return Err(MomentObstacle::Feedback { call });
                }
            }
        }
        Ok(())
    }

    /// Checks that no exception leads to where a name is read that is bound between the calls of a group.
    fn check_handlers(&self, calls: &[usize]) -> Result<(), MomentObstacle> {
        let (Some(&first), Some(&last)) = (calls.first(), calls.last()) else { return Ok(()) };
        let (start, end) = (self.call(first), self.call(last));
        let Some(block) = self.timeline.blocks.get(start.block as usize) else { return Ok(()) };
        for &region in block.tries.iter() {
            let Some(known) = self.timeline.tries.get(region) else { continue };
            let from = self.timeline.bindings.partition_point(|binding| binding.at <= start.at);
            let bound = self.timeline.bindings[from..].iter().take_while(|binding| binding.at <= end.at);
            let is_read = bound.into_iter().any(|binding| match binding.frame {
                Some(frame) => frame == known.frame && known.read_after.contains(&*binding.name),
                None => true,
            });
            if is_read {
                return Err(MomentObstacle::Handler { region });
            }
        }
        Ok(())
    }

    /// Drops moments until every choice of moments is consistent: a group that reads what another makes runs after it.
    fn settle(&mut self) {
        loop {
            let Some((maker, reader, call)) = self.find_conflict() else { return };
            let obstacle = || Err(MomentObstacle::OtherGroup { call });
            let has_both = |moments: Option<&GroupMoments>| moments.is_some_and(|m| m.first.is_ok() && m.last.is_ok());
            if has_both(self.moments.get(&maker)) {
                self.moments.entry(maker).and_modify(|moments| moments.last = obstacle());
            } else if has_both(self.moments.get(&reader)) {
                self.moments.entry(reader).and_modify(|moments| moments.first = obstacle());
            } else {
                let group = if self.groups[reader].len() > 1 { reader } else { maker };
                self.dissolve(group, call);
            }
        }
    }

    fn dissolve(&mut self, group: usize, call: usize) {
        let calls = std::mem::take(&mut self.groups[group]);
        self.moments.remove(&group);
        let refused = MomentObstacle::OtherGroup { call };
        for &member in &calls {
            for operand in 0..self.call(member).operands.len() {
                if let Some(producer) = self.producer(member, operand) {
                    let moments = GroupMoments { first: Err(refused.clone()), last: Err(refused.clone()) };
                    self.refused.insert((producer, member), moments);
                }
            }
        }
        let free: Vec<usize> =
            (0..self.groups.len()).filter(|&index| self.groups[index].is_empty()).take(calls.len()).collect();
        for (call, index) in calls.into_iter().zip(free) {
            self.groups[index] = vec![call];
            self.group_of[call] = index;
        }
    }

    /// Finds a group that may run at a moment before another has made what it reads: maker, reader and the reading call.
    fn find_conflict(&self) -> Option<(usize, usize, usize)> {
        for (reader, calls) in self.groups.iter().enumerate() {
            for &call in calls {
                for operand in self.outer_operands(calls, call) {
                    let makers: ObjectSet = operand.roots.clone();
                    for made_by in makers.into_iter().filter_map(|root| self.source_call(root)) {
                        let maker = self.group_of[made_by];
                        if maker == reader || self.call(made_by).at > self.call(call).at {
                            continue;
                        }
                        let latest = self.latest(maker, made_by);
                        let earliest = self.earliest(reader, call);
                        if latest >= earliest {
                            return Some((maker, reader, call));
                        }
                    }
                }
            }
        }
        None
    }

    /// The last event at which a call may run as part of its group.
    fn latest(&self, group: usize, call: usize) -> u32 {
        match (self.moments.get(&group), self.groups[group].last()) {
            (Some(moments), Some(&last)) if moments.last.is_ok() => self.call(last).at,
            (Some(_), _) => self.groups[group].first().map_or(0, |&first| self.call(first).at),
            (None, _) => self.call(call).at,
        }
    }

    /// The first event at which a call may run as part of its group.
    fn earliest(&self, group: usize, call: usize) -> u32 {
        match (self.moments.get(&group), self.groups[group].first()) {
            (Some(moments), Some(&first)) if moments.first.is_ok() => self.call(first).at,
            (Some(_), _) => self.groups[group].last().map_or(0, |&last| self.call(last).at),
            (None, _) => self.call(call).at,
        }
    }
}
