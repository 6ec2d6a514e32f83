//! The memory that tasks access, cut into segments: what is copied as a whole, and what dependences are found by.
//!
//! Two arrays may be views of one memory, so that identity says nothing: what counts is the addresses of their elements. The
//! beginnings and ends of all arrays cut memory into segments, each of which is accessed as a whole by every task that
//! accesses any of it. An array with gaps between its elements is not cut, because its elements in a part of it are many
//! pieces: arrays that lie between each other's elements share a segment and run one after the other.

use polyloom_runtime::{ArrayLayout, DeviceId};
use smallvec::smallvec;
use std::ops::Range;

/// An array that a task accesses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskAccess {
    /// The device whose memory it is in; the CPU stands for the host's.
    pub memory: DeviceId,
    /// The elements.
    pub layout: ArrayLayout,
    /// The addresses of the array that they are of, which lies in one region.
    pub whole: Range<u64>,
    /// True if the task may write it.
    pub is_written: bool,
}

/// Arrays that overlap, directly or through others, which stay as far apart wherever they are copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRegion {
    /// The memory that it is in before the tasks and after them.
    pub memory: DeviceId,
    /// The addresses there.
    pub span: Range<u64>,
}

/// A piece of a region that is copied as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSegment {
    /// The number of its region.
    pub region: usize,
    /// The addresses in the region's own memory.
    pub span: Range<u64>,
    /// The arrays that its elements are; none if it has no gaps.
    pub elements: Vec<ArrayLayout>,
}

/// The memory that tasks access.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskMemory {
    /// The regions.
    pub regions: Vec<TaskRegion>,
    /// The segments.
    pub segments: Vec<TaskSegment>,
    /// For each task its segments, each once, and true for those that it may write.
    pub accesses: Vec<Vec<(usize, bool)>>,
}

impl TaskSegment {
    /// Returns the number of bytes that a copy moves.
    pub fn n_bytes(&self) -> u64 {
        self.span.end - self.span.start
    }
}

impl TaskMemory {
    /// Cuts the memory of tasks, of each of which the accesses are given.
    pub fn of(tasks: &[Vec<TaskAccess>]) -> TaskMemory {
        let mut memories: Vec<DeviceId> = Vec::new();
        for access in tasks.iter().flatten() {
            if !memories.contains(&access.memory) {
                memories.push(access.memory);
            }
        }
        let mut found = TaskMemory { accesses: vec![Vec::new(); tasks.len()], ..TaskMemory::default() };
        for memory in memories {
            found.add_memory(memory, tasks);
        }
        found
    }

    /// Returns the region that an access is in; none if it is of no elements.
    pub fn region_of(&self, access: &TaskAccess) -> Option<usize> {
        let span = access.layout.span();
        let holds = |region: &TaskRegion| region.memory == access.memory && region.span.contains(&span.start);
        if span.is_empty() { None } else { self.regions.iter().position(holds) }
    }

    fn add_memory(&mut self, memory: DeviceId, tasks: &[Vec<TaskAccess>]) {
        let accesses = || tasks.iter().flatten().filter(|access| access.memory == memory);
        let mut spans: Vec<(Range<u64>, bool)> =
            accesses().map(|access| (access.layout.span(), access.layout.is_one_run())).collect();
        spans.retain(|(span, _)| !span.is_empty());
        spans.sort_by_key(|(span, _)| span.start);
        let mut cuts: Vec<u64> = spans.iter().flat_map(|(span, _)| [span.start, span.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        // The spans that are not cut, merged where they overlap.
        let mut whole: Vec<Range<u64>> = Vec::new();
        for (span, _) in spans.iter().filter(|(_, is_one_run)| !is_one_run) {
            match whole.last_mut() {
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => whole.push(span.clone()),
            }
        }
        cuts.retain(|&cut| {
            let at = whole.partition_point(|span| span.end <= cut);
            whole.get(at).is_none_or(|span| cut <= span.start)
        });
        let first_segment = self.segments.len();
        let mut wholes: Vec<Range<u64>> = accesses().map(|access| access.whole.clone()).collect();
        wholes.retain(|span| !span.is_empty());
        wholes.sort_by_key(|span| span.start);
        for span in wholes {
            match self.regions.last_mut() {
                Some(last) if last.memory == memory && span.start < last.span.end => {
                    last.span.end = last.span.end.max(span.end);
                }
                _ => self.regions.push(TaskRegion { memory, span }),
            }
        }
        for (region, TaskRegion { span, .. }) in self.regions.iter().enumerate() {
            if self.regions[region].memory != memory {
                continue;
            }
            let inside =
                &cuts[cuts.partition_point(|&cut| cut < span.start)..cuts.partition_point(|&cut| cut <= span.end)];
            for ends in inside.windows(2) {
                self.segments.push(TaskSegment { region, span: ends[0]..ends[1], elements: Vec::new() });
            }
        }
        let own = first_segment..self.segments.len();
        for segment in &mut self.segments[own.clone()] {
            if whole.iter().any(|span| span.start < segment.span.end && segment.span.start < span.end) {
                segment.elements = elements_of(&segment.span, accesses().map(|access| &access.layout));
            }
        }
        for (number, task) in tasks.iter().enumerate() {
            for access in task.iter().filter(|access| access.memory == memory) {
                let span = access.layout.span();
                let first =
                    own.start + self.segments[own.clone()].partition_point(|segment| segment.span.end <= span.start);
                for segment in (first..own.end).take_while(|&segment| self.segments[segment].span.start < span.end) {
                    match self.accesses[number].iter_mut().find(|(known, _)| *known == segment) {
                        Some((_, is_written)) => *is_written |= access.is_written,
                        None => self.accesses[number].push((segment, access.is_written)),
                    }
                }
            }
        }
    }
}

/// Returns the arrays whose elements are the elements of a segment; none if one of them covers all of it.
fn elements_of<'a>(segment: &Range<u64>, layouts: impl Iterator<Item = &'a ArrayLayout>) -> Vec<ArrayLayout> {
    let mut found: Vec<ArrayLayout> = Vec::new();
    for layout in layouts {
        let span = layout.span();
        let (begin, end) = (span.start.max(segment.start), span.end.min(segment.end));
        if begin >= end {
            continue;
        }
        let piece = match layout.is_one_run() {
            true if (begin, end) == (segment.start, segment.end) => return Vec::new(),
            true => ArrayLayout { base: begin, elem_bytes: 1, extents: smallvec![end - begin], strides: smallvec![1] },
            false => layout.without_repeats(),
        };
        if !found.contains(&piece) {
            found.push(piece);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(begin: u64, extents: &[u64], strides: &[i64], is_written: bool) -> TaskAccess {
        let layout = ArrayLayout { base: begin, elem_bytes: 4, extents: extents.into(), strides: strides.into() };
        TaskAccess { memory: DeviceId::Cpu, whole: layout.span(), layout, is_written }
    }

    fn spans(memory: &TaskMemory) -> Vec<Range<u64>> {
        memory.segments.iter().map(|segment| segment.span.clone()).collect()
    }

    #[test]
    fn views_cut_the_array_that_they_are_of() {
        let tasks = [
            vec![array(1000, &[10], &[4], true)],
            vec![array(1000, &[4], &[4], false), array(2000, &[2], &[4], true)],
            vec![array(1024, &[4], &[4], true)],
        ];
        let memory = TaskMemory::of(&tasks);
        assert_eq!(spans(&memory), [1000..1016, 1016..1024, 1024..1040, 2000..2008]);
        assert_eq!(
            memory.regions.iter().map(|region| region.span.clone()).collect::<Vec<_>>(),
            [1000..1040, 2000..2008]
        );
        assert_eq!(
            memory.accesses,
            [vec![(0, true), (1, true), (2, true)], vec![(0, false), (3, true)], vec![(2, true)],]
        );
        assert!(memory.segments.iter().all(|segment| segment.elements.is_empty()));
    }

    #[test]
    fn an_array_with_gaps_is_not_cut_and_says_what_its_elements_are() {
        // Every second element of ten; the first three; and a view of the last two.
        let gaps = array(1000, &[5], &[8], true);
        let tasks = [vec![gaps.clone()], vec![array(1000, &[3], &[4], false)], vec![array(1036, &[2], &[4], true)]];
        let memory = TaskMemory::of(&tasks);
        assert_eq!(spans(&memory), [1000..1036, 1036..1044]);
        let bytes = ArrayLayout { base: 1000, elem_bytes: 1, extents: smallvec![12], strides: smallvec![1] };
        assert_eq!(memory.segments[0].elements, [gaps.layout, bytes]);
        assert_eq!(memory.accesses, [vec![(0, true)], vec![(0, false)], vec![(1, true)]]);
    }

    #[test]
    fn parts_of_an_array_are_in_its_region() {
        let halves = [array(1000, &[4], &[4], true), array(1016, &[4], &[4], true)];
        let whole = 1000..1032;
        let tasks = halves.map(|half| vec![TaskAccess { whole: whole.clone(), ..half }]);
        let memory = TaskMemory::of(&tasks);
        assert_eq!(memory.regions, [TaskRegion { memory: DeviceId::Cpu, span: whole }]);
        assert_eq!(memory.accesses, [vec![(0, true)], vec![(1, true)]]);
    }

    #[test]
    fn arrays_of_no_elements_and_those_of_other_memory_are_apart() {
        let other = TaskAccess { memory: DeviceId::Simulator, ..array(1000, &[2], &[4], true) };
        let tasks = [vec![array(1000, &[0], &[4], true), array(1000, &[2], &[4], true)], vec![other.clone()]];
        let memory = TaskMemory::of(&tasks);
        assert_eq!(memory.segments.len(), 2);
        assert_eq!(memory.accesses, [vec![(0, true)], vec![(1, true)]]);
        assert_eq!(memory.region_of(&other), Some(1));
        assert_eq!(memory.region_of(&tasks[0][0]), None);
    }

    #[test]
    fn one_task_that_reads_and_writes_a_segment_writes_it() {
        let tasks = [vec![array(1000, &[4], &[4], false), array(1000, &[2], &[4], true)]];
        assert_eq!(TaskMemory::of(&tasks).accesses, [vec![(0, true), (1, false)]]);
    }
}
