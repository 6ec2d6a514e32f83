//! Where tasks run, and in which order: list scheduling by the earliest finish (HEFT: Topcuoglu, Hariri, Wu, "Performance-effective and
//! low-complexity task scheduling for heterogeneous computing", IEEE TPDS 13(3), 2002).
//!
//! All here is arithmetic on predicted times: nothing knows kernels or devices. A device works on one task at a time, and copies what the
//! task needs before it runs it, because that is what [`super::run`] does. [`evaluate`] is the one definition of the time that
//! a placement takes; HEFT and the placements on one device are compared by it, so that the result is never worse than the best device
//! alone as far as the predictions go.

/// A task as the scheduler knows it.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduledTask {
    /// The predicted time on each device; infinite where it must not run.
    pub ns: Vec<f64>,
    /// The segments of memory that it accesses, and true for those that it may write.
    pub accesses: Vec<(usize, bool)>,
    /// A task before it that has to be done first, whatever the two access.
    pub after: Option<usize>,
}

/// A piece of memory that is copied as a whole.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScheduledSegment {
    /// The bytes that a copy moves.
    pub n_bytes: u64,
    /// The memory where it is before the tasks and has to be after them.
    pub home: usize,
}

/// Tasks in the order of the program, and what they have to run on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SchedulingProblem {
    /// The tasks.
    pub tasks: Vec<ScheduledTask>,
    /// The memory that they access.
    pub segments: Vec<ScheduledSegment>,
    /// The memory of each device.
    pub device_memories: Vec<usize>,
    /// The latency of a copy in nanoseconds, and its bytes a nanosecond, from one memory (first index) to another.
    pub copies: Vec<Vec<(f64, f64)>>,
}

/// A task at its place in a schedule. Times are nanoseconds from the beginning.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlacedTask {
    /// Its number in the program.
    pub task: usize,
    /// The number of the device.
    pub device: usize,
    /// The time when the device begins to copy what the task needs.
    pub copy_begin: f64,
    /// The time when the task begins.
    pub begin: f64,
    /// The time when it ends.
    pub end: f64,
}

/// Tasks in an order in which they may run, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskSchedule {
    /// The tasks in an order that respects every dependence; the tasks of a device run in this order.
    pub tasks: Vec<PlacedTask>,
    /// The time from the beginning until everything is back in the memory where it was.
    pub makespan: f64,
}

impl SchedulingProblem {
    /// Returns the time of a copy.
    pub fn copy_ns(&self, from: usize, to: usize, n_bytes: u64) -> f64 {
        if from == to {
            return 0.0;
        }
        let (latency, rate) = self.copies[from][to];
        latency + n_bytes as f64 / rate
    }

    /// Returns for each task the tasks before it that must be done first: those that wrote what it accesses, and those that
    /// accessed what it writes.
    pub fn dependences(&self) -> Vec<Vec<usize>> {
        let mut writers: Vec<Option<usize>> = vec![None; self.segments.len()];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.segments.len()];
        let mut all = Vec::with_capacity(self.tasks.len());
        for (number, task) in self.tasks.iter().enumerate() {
            let mut before: Vec<usize> = task.after.into_iter().collect();
            for &(segment, is_written) in &task.accesses {
                before.extend(writers[segment].filter(|&writer| writer != number));
                if is_written {
                    before.extend(readers[segment].iter().copied().filter(|&reader| reader != number));
                }
            }
            for &(segment, is_written) in &task.accesses {
                if is_written {
                    writers[segment] = Some(number);
                    readers[segment].clear();
                } else if writers[segment] != Some(number) {
                    readers[segment].push(number);
                }
            }
            before.sort_unstable();
            before.dedup();
            all.push(before);
        }
        all
    }

    fn n_devices(&self) -> usize {
        self.device_memories.len()
    }

    fn allows(&self, task: usize, device: usize) -> bool {
        self.tasks[task].ns[device].is_finite()
    }
}

/// The times at which each memory has the newest contents of each segment.
#[derive(Clone)]
struct SegmentCopies(Vec<Vec<(usize, f64)>>);

impl SegmentCopies {
    fn new(problem: &SchedulingProblem) -> SegmentCopies {
        SegmentCopies(problem.segments.iter().map(|segment| vec![(segment.home, 0.0)]).collect())
    }

    /// Returns the time when a memory has the segments, if a device begins to copy what is missing at some time. Copies that it makes
    /// are noted with `note`.
    fn fetch(
        &self,
        problem: &SchedulingProblem,
        accesses: &[(usize, bool)],
        memory: usize,
        begin: f64,
        mut note: impl FnMut(usize, f64),
    ) -> f64 {
        let mut now = begin;
        for &(segment, _) in accesses {
            let holders = &self.0[segment];
            if let Some(&(_, since)) = holders.iter().find(|&&(holder, _)| holder == memory) {
                now = now.max(since);
                continue;
            }
            let n_bytes = problem.segments[segment].n_bytes;
            let arrival = |&(holder, since): &(usize, f64)| now.max(since) + problem.copy_ns(holder, memory, n_bytes);
            now = holders.iter().map(arrival).fold(f64::INFINITY, f64::min);
            note(segment, now);
        }
        now
    }

    fn hold(&mut self, segment: usize, memory: usize, since: f64) {
        self.0[segment].push((memory, since));
    }

    fn write(&mut self, accesses: &[(usize, bool)], memory: usize, since: f64) {
        for &(segment, _) in accesses.iter().filter(|(_, is_written)| *is_written) {
            self.0[segment] = vec![(memory, since)];
        }
    }

    /// Returns the time of the copies that bring everything home.
    fn return_ns(&self, problem: &SchedulingProblem) -> f64 {
        let of_segment = |(holders, segment): (&Vec<(usize, f64)>, &ScheduledSegment)| {
            let costs = holders.iter().map(|&(holder, _)| problem.copy_ns(holder, segment.home, segment.n_bytes));
            costs.fold(f64::INFINITY, f64::min)
        };
        self.0.iter().zip(&problem.segments).map(of_segment).sum()
    }
}

/// Returns the times of tasks that run in an order, each on a device. The order respects the dependences.
pub fn evaluate(problem: &SchedulingProblem, order: &[usize], devices: &[usize]) -> TaskSchedule {
    let dependences = problem.dependences();
    let mut ends = vec![0.0f64; problem.tasks.len()];
    let mut free = vec![0.0f64; problem.n_devices()];
    let mut copies = SegmentCopies::new(problem);
    let mut tasks = Vec::with_capacity(order.len());
    for &task in order {
        let device = devices[task];
        let memory = problem.device_memories[device];
        let accesses = &problem.tasks[task].accesses;
        let copy_begin = dependences[task].iter().map(|&before| ends[before]).fold(free[device], f64::max);
        let mut fetched = Vec::new();
        let begin = copies.fetch(problem, accesses, memory, copy_begin, |segment, at| fetched.push((segment, at)));
        fetched.into_iter().for_each(|(segment, at)| copies.hold(segment, memory, at));
        let end = begin + problem.tasks[task].ns[device];
        copies.write(accesses, memory, end);
        (ends[task], free[device]) = (end, end);
        tasks.push(PlacedTask { task, device, copy_begin, begin, end });
    }
    let last = ends.iter().copied().fold(0.0, f64::max);
    TaskSchedule { tasks, makespan: last + copies.return_ns(problem) }
}

/// Returns the best schedule of HEFT and of each device alone; none if there is a task that must run on no device. Of equal times a single
/// device is taken.
pub fn schedule(problem: &SchedulingProblem) -> Option<TaskSchedule> {
    let n_tasks = problem.tasks.len();
    let in_order: Vec<usize> = (0..n_tasks).collect();
    // A task that must not run on a device runs on the one where it is fastest.
    let placed_on = |device: usize| -> Option<Vec<usize>> {
        (0..n_tasks)
            .map(|task| if problem.allows(task, device) { Some(device) } else { fastest(problem, task) })
            .collect()
    };
    let alone = (0..problem.n_devices()).map(|device| Some(evaluate(problem, &in_order, &placed_on(device)?)));
    let mut best: Option<TaskSchedule> = None;
    for each in alone.chain([heft(problem)]) {
        let each = each?;
        if best.as_ref().is_none_or(|best| each.makespan < best.makespan) {
            best = Some(each);
        }
    }
    best
}

fn fastest(problem: &SchedulingProblem, task: usize) -> Option<usize> {
    let allowed = (0..problem.n_devices()).filter(|&device| problem.allows(task, device));
    allowed.min_by(|&a, &b| problem.tasks[task].ns[a].total_cmp(&problem.tasks[task].ns[b]))
}

/// Returns the upward rank of each task: the length of the longest way from it to the end, of mean times.
fn upward_ranks(problem: &SchedulingProblem, dependences: &[Vec<usize>]) -> Vec<f64> {
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, n) = values.fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
        if n == 0 { 0.0 } else { sum / f64::from(n) }
    };
    let n_devices = problem.n_devices();
    let mut ranks: Vec<f64> =
        problem.tasks.iter().map(|task| mean(&mut task.ns.iter().copied().filter(|ns| ns.is_finite()))).collect();
    let own = ranks.clone();
    for task in (0..problem.tasks.len()).rev() {
        for &before in &dependences[task] {
            let shared = problem.tasks[before].accesses.iter().filter(|(segment, is_written)| {
                *is_written && problem.tasks[task].accesses.iter().any(|(other, _)| other == segment)
            });
            let copied: f64 = shared
                .map(|&(segment, _)| {
                    let pairs = (0..n_devices * n_devices).map(|pair| {
                        let (from, to) =
                            (problem.device_memories[pair / n_devices], problem.device_memories[pair % n_devices]);
                        problem.copy_ns(from, to, problem.segments[segment].n_bytes)
                    });
                    mean(&mut pairs.into_iter())
                })
                .sum();
            ranks[before] = ranks[before].max(own[before] + copied + ranks[task]);
        }
    }
    ranks
}

/// A slot of a device that a task would take.
#[derive(Clone, Copy)]
struct Slot {
    device: usize,
    copy_begin: f64,
    end: f64,
    /// The end, and the copies home that the device would make necessary.
    weight: f64,
}

/// Returns the schedule of HEFT: tasks by falling upward rank, each into the earliest gap of the device that finishes it first.
fn heft(problem: &SchedulingProblem) -> Option<TaskSchedule> {
    let dependences = problem.dependences();
    let ranks = upward_ranks(problem, &dependences);
    let mut order: Vec<usize> = (0..problem.tasks.len()).collect();
    // The program's order decides between equal ranks, so that no task stands before one that it depends on.
    order.sort_by(|&a, &b| ranks[b].total_cmp(&ranks[a]).then(a.cmp(&b)));
    let mut last_writers: Vec<Option<usize>> = vec![None; problem.segments.len()];
    for (number, task) in problem.tasks.iter().enumerate() {
        task.accesses
            .iter()
            .filter(|(_, is_written)| *is_written)
            .for_each(|&(segment, _)| last_writers[segment] = Some(number));
    }
    let mut ends = vec![0.0f64; problem.tasks.len()];
    let mut devices = vec![0usize; problem.tasks.len()];
    let mut begins = vec![0.0f64; problem.tasks.len()];
    let mut busy: Vec<Vec<(f64, f64)>> = vec![Vec::new(); problem.n_devices()];
    let mut copies = SegmentCopies::new(problem);
    for &task in &order {
        let accesses = &problem.tasks[task].accesses;
        let ready = dependences[task].iter().map(|&before| ends[before]).fold(0.0, f64::max);
        let mut best: Option<Slot> = None;
        for device in (0..problem.n_devices()).filter(|&device| problem.allows(task, device)) {
            let memory = problem.device_memories[device];
            let home_ns: f64 = accesses
                .iter()
                .filter(|&&(segment, is_written)| is_written && last_writers[segment] == Some(task))
                .map(|&(segment, _)| {
                    let segment = problem.segments[segment];
                    problem.copy_ns(memory, segment.home, segment.n_bytes)
                })
                .sum();
            let (copy_begin, end) = earliest_gap(&busy[device], ready, |begin| {
                copies.fetch(problem, accesses, memory, begin, |_, _| {}) + problem.tasks[task].ns[device]
            });
            let slot = Slot { device, copy_begin, end, weight: end + home_ns };
            if best.is_none_or(|best| slot.weight < best.weight) {
                best = Some(slot);
            }
        }
        let Slot { device, copy_begin, end, .. } = best?;
        let memory = problem.device_memories[device];
        let mut fetched = Vec::new();
        copies.fetch(problem, accesses, memory, copy_begin, |segment, at| fetched.push((segment, at)));
        fetched.into_iter().for_each(|(segment, at)| copies.hold(segment, memory, at));
        copies.write(accesses, memory, end);
        (devices[task], begins[task], ends[task]) = (device, copy_begin, end);
        let at = busy[device].partition_point(|&(begin, _)| begin < copy_begin);
        busy[device].insert(at, (copy_begin, end));
    }
    // The stable sort leaves tasks that begin together in the order of their ranks, which respects the dependences.
    order.sort_by(|&a, &b| begins[a].total_cmp(&begins[b]));
    Some(evaluate(problem, &order, &devices))
}

/// Returns the first begin and end of work that fits between what a device does already. `end_of` gives the end by the begin.
fn earliest_gap(busy: &[(f64, f64)], ready: f64, end_of: impl Fn(f64) -> f64) -> (f64, f64) {
    let mut begin = ready;
    for &(busy_begin, busy_end) in busy {
        let end = end_of(begin);
        if begin <= busy_begin && end <= busy_begin {
            return (begin, end);
        }
        begin = begin.max(busy_end);
    }
    (begin, end_of(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::generate::Random;

    /// Two devices, each with a memory of its own; the first one's is where everything is at home.
    fn problem(tasks: Vec<ScheduledTask>, n_segments: usize, latency: f64) -> SchedulingProblem {
        SchedulingProblem {
            tasks,
            segments: vec![ScheduledSegment { n_bytes: 1000, home: 0 }; n_segments],
            device_memories: vec![0, 1],
            copies: vec![vec![(latency, 1.0); 2]; 2],
        }
    }

    fn task(ns: [f64; 2], accesses: &[(usize, bool)]) -> ScheduledTask {
        ScheduledTask { ns: ns.into(), accesses: accesses.into(), after: None }
    }

    fn devices(schedule: &TaskSchedule) -> Vec<usize> {
        let mut placed: Vec<(usize, usize)> = schedule.tasks.iter().map(|each| (each.task, each.device)).collect();
        placed.sort_unstable();
        placed.into_iter().map(|(_, device)| device).collect()
    }

    #[test]
    fn dependences_are_of_reads_after_writes_and_writes_after_reads_and_writes() {
        let tasks = vec![
            task([1.0; 2], &[(0, true)]),
            task([1.0; 2], &[(0, false), (1, true)]),
            task([1.0; 2], &[(0, false)]),
            task([1.0; 2], &[(0, true)]),
            task([1.0; 2], &[(2, true)]),
        ];
        let found = problem(tasks, 3, 0.0).dependences();
        assert_eq!(found, [vec![], vec![0], vec![0], vec![0, 1, 2], vec![]]);
    }

    #[test]
    fn independent_tasks_run_on_both_devices() {
        let tasks = vec![task([1e6, 1e6], &[(0, true)]), task([1e6, 1e6], &[(1, true)])];
        let found = schedule(&problem(tasks, 2, 10.0)).expect("all tasks may run");
        // 10 + 1000 for the copy there, as much for the copy back.
        assert_eq!(found.makespan, 1e6 + 2.0 * 1010.0);
        let mut placed = devices(&found);
        placed.sort_unstable();
        assert_eq!(placed, [0, 1]);
    }

    #[test]
    fn a_task_stays_where_its_data_is_if_the_copies_take_longer() {
        let tasks = vec![task([2000.0, 100.0], &[(0, true)])];
        assert_eq!(devices(&schedule(&problem(tasks.clone(), 1, 10.0)).expect("it may run")), [0]);
        assert_eq!(
            devices(&schedule(&problem(vec![task([3000.0, 100.0], &[(0, true)])], 1, 10.0)).expect("it may run")),
            [1]
        );
    }

    #[test]
    fn a_chain_is_copied_once_in_each_direction() {
        let chain = vec![task([1e4, 1e3], &[(0, true)]); 5];
        let found = schedule(&problem(chain, 1, 10.0)).expect("all tasks may run");
        assert_eq!(devices(&found), [1; 5]);
        assert_eq!(found.makespan, 5e3 + 2.0 * 1010.0);
    }

    #[test]
    fn a_task_runs_only_where_it_may() {
        let tasks = vec![task([f64::INFINITY, 9e9], &[(0, true)]), task([1.0, f64::INFINITY], &[(0, true)])];
        assert_eq!(devices(&schedule(&problem(tasks, 1, 10.0)).expect("all tasks may run")), [1, 0]);
        let nowhere = vec![task([f64::INFINITY; 2], &[])];
        assert!(schedule(&problem(nowhere, 0, 0.0)).is_none());
    }

    #[test]
    fn the_two_halves_of_a_diamond_run_at_once() {
        let tasks = vec![
            task([10.0, 10.0], &[(0, true), (1, true)]),
            task([1e5, 1e5], &[(0, true)]),
            task([1e5, 1e5], &[(1, true)]),
            task([10.0, 10.0], &[(0, false), (1, false), (2, true)]),
        ];
        let found = schedule(&problem(tasks, 3, 10.0)).expect("all tasks may run");
        assert_ne!(devices(&found)[1], devices(&found)[2]);
        assert!(found.makespan < 1.1e5, "{found:?}");
    }

    #[test]
    fn random_schedules_respect_dependences_and_are_no_worse_than_one_device() {
        let mut random = Random::new(7);
        for _ in 0..500 {
            let n_segments = 1 + random.below(6);
            let n_devices = 1 + random.below(3);
            let n_memories = n_devices + 1;
            let tasks = (0..random.below(12))
                .map(|number| {
                    let mut accesses: Vec<(usize, bool)> = Vec::new();
                    for segment in 0..n_segments {
                        if random.below(3) == 0 {
                            accesses.push((segment, random.below(2) == 0));
                        }
                    }
                    let mut ns: Vec<f64> = (0..n_devices).map(|_| 1.0 + random.below(10_000) as f64).collect();
                    if n_devices > 1 && random.below(8) == 0 {
                        ns[random.below(n_devices)] = f64::INFINITY;
                    }
                    let after = (number > 0 && random.below(6) == 0).then(|| random.below(number));
                    ScheduledTask { ns, accesses, after }
                })
                .collect();
            let mut copies =
                || (0..n_memories).map(|_| (random.below(2000) as f64, 0.5 + random.below(10) as f64)).collect();
            let copies: Vec<Vec<(f64, f64)>> = (0..n_memories).map(|_| copies()).collect();
            let segment = |random: &mut Random| ScheduledSegment {
                n_bytes: random.below(5000) as u64,
                home: random.below(n_memories),
            };
            let segments = (0..n_segments).map(|_| segment(&mut random)).collect();
            let problem = SchedulingProblem { tasks, segments, device_memories: (1..n_memories).collect(), copies };
            check(&problem);
        }
    }

    fn check(problem: &SchedulingProblem) {
        let found = schedule(problem).expect("each task may run somewhere");
        assert_eq!(found.tasks.len(), problem.tasks.len());
        let mut by_number = vec![None; problem.tasks.len()];
        let mut free = vec![0.0f64; problem.device_memories.len()];
        for each in &found.tasks {
            assert!(by_number[each.task].replace(*each).is_none(), "a task runs once");
            assert!(problem.tasks[each.task].ns[each.device].is_finite());
            assert!(each.copy_begin >= free[each.device] && each.begin >= each.copy_begin);
            free[each.device] = each.end;
            for before in &problem.dependences()[each.task] {
                let before = by_number[*before].expect("what it depends on stands before it");
                assert!(before.end <= each.copy_begin);
            }
        }
        let order: Vec<usize> = (0..problem.tasks.len()).collect();
        for device in 0..problem.device_memories.len() {
            if order.iter().all(|&task| problem.allows(task, device)) {
                let alone = evaluate(problem, &order, &vec![device; order.len()]);
                assert!(found.makespan <= alone.makespan, "{} > {}", found.makespan, alone.makespan);
            }
        }
    }
}
