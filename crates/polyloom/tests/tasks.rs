//! Tasks on the CPU and the simulator against the same launches one after the other.

use polyloom::tasks::{Task, TaskError, TaskGraph, TaskModels, TaskTimeline};
use polyloom::{
    ArgArray, ArgBlock, ArrayLayout, DeviceId, Kernel, LaunchError, LaunchOptions, Random, Scalar, Session, SourceFile,
    SourceUnit,
};
use std::sync::Arc;

const SOURCE: &str = "
import polyloom as loom

@loom.kernel
def scale(x: loom.array(dtype=float), f: float):
    i = loom.tid()
    x[i] = x[i] * f + 0.25

@loom.kernel
def combine(x: loom.array(dtype=float), y: loom.array(dtype=float), z: loom.array(dtype=float), f: float):
    i = loom.tid()
    z[i] = x[i] + y[i] * f

@loom.kernel
def neighbours(x: loom.array(dtype=float), y: loom.array(dtype=float), f: float):
    i = loom.tid()
    j = (i + 1) % x.shape[0]
    y[i] = x[i] - x[j] * f

@loom.kernel
def sums(x: loom.array(dtype=float), y: loom.array(dtype=float), f: float):
    s = float(0.0)
    for k in range(x.shape[0]):
        s = s + x[k]
    y[loom.tid()] = s * f

@loom.kernel(device=\"auto\")
def anywhere(x: loom.array(dtype=float)):
    x[loom.tid()] = 1.0

@loom.kernel(check=True)
def checked(x: loom.array(dtype=float), at: int):
    x[at] = 1.0
";

struct Kernels {
    list: Vec<Arc<Kernel>>,
}

impl Kernels {
    fn new() -> Kernels {
        let session = Session::new().unwrap();
        let unit = SourceUnit::parse(SourceFile::new("tasks.py", SOURCE, 1)).unwrap();
        let compiled = |name| Arc::new(session.compile_file_kernel(&unit, name).unwrap());
        Kernels { list: ["scale", "combine", "neighbours", "sums", "checked", "anywhere"].map(compiled).into() }
    }

    fn get(&self, name: &str) -> &Arc<Kernel> {
        self.list.iter().find(|kernel| kernel.name() == name).unwrap()
    }
}

/// A view of memory: of numbers from the first on, every so many.
#[derive(Clone, Copy, Debug)]
struct View {
    first: usize,
    n: usize,
    step: i64,
}

impl View {
    fn of(self, memory: &mut [f32]) -> ArgArray {
        let layout = ArrayLayout {
            base: memory[self.first..].as_mut_ptr() as u64,
            elem_bytes: 4,
            extents: [self.n as u64].into_iter().collect(),
            strides: [self.step * 4].into_iter().collect(),
        };
        ArgArray { elem: Scalar::F32, layout, is_resident: false }
    }

    fn overlaps(self, other: View) -> bool {
        let ends = |view: View| {
            let last = view.first as i64 + view.step * (view.n as i64 - 1);
            (last.min(view.first as i64), last.max(view.first as i64))
        };
        let ((a, b), (c, d)) = (ends(self), ends(other));
        a <= d && c <= b
    }
}

fn task(kernel: &Arc<Kernel>, views: &[View], f: f32, memory: &mut [f32]) -> Task {
    let mut args = ArgBlock::new();
    for view in views {
        args.push_array(kernel.params(), &view.of(memory)).unwrap();
    }
    args.scalar(kernel.params(), Scalar::F32, f.to_bits().into()).unwrap();
    let shape = [views[0].n as u64].into_iter().collect();
    Task { kernel: kernel.clone(), shape, args, memory: DeviceId::Cpu, grid: None, unchecked: false, device: None }
}

fn run(
    graph: &TaskGraph,
    given: &mut dyn FnMut(usize, DeviceId) -> Option<f64>,
) -> (TaskTimeline, Result<(), TaskError>) {
    let models = TaskModels::default();
    let plan = graph.plan(&models, given).unwrap();
    // SAFETY: the memory of these tests outlives the run, and launches compare indices with extents.
    unsafe { graph.run(&plan, &models, &LaunchOptions::default()) }
}

const BOTH: [DeviceId; 2] = [DeviceId::Cpu, DeviceId::Simulator];

#[test]
fn random_tasks_give_the_bits_of_launches_one_after_the_other() {
    let kernels = Kernels::new();
    let mut random = Random::new(11);
    let mut n_on_simulator = 0;
    for round in 0..40 {
        let n = 48;
        let mut memory: Vec<f32> = (0..n).map(|i| i as f32 * 0.37 - 5.0).collect();
        let mut expected = memory.clone();
        let mut graph = TaskGraph::new(&BOTH).unwrap();
        for _ in 0..2 + random.below(8) {
            let kernel = kernels.list[random.below(4)].clone();
            let n_arrays = kernel.params().len() - 1;
            let n_elements = 1 + random.below(12);
            let view = |random: &mut Random| {
                let step = [1, 1, 1, 2, 3, -1, -2][random.below(7)];
                let reach = step * (n_elements as i64 - 1);
                let room = n as i64 - reach.abs();
                let first = random.below(room as usize) as i64 - reach.min(0);
                View { first: first as usize, n: n_elements, step }
            };
            // What a kernel writes shares no element with what it reads, because its threads run in no order.
            let views = loop {
                let views: Vec<View> = (0..n_arrays).map(|_| view(&mut random)).collect();
                let (written, read) = views.split_last().unwrap();
                if read.iter().all(|view| !view.overlaps(*written)) {
                    break views;
                }
            };
            let f = random.below(8) as f32 * 0.125;
            let direct = task(&kernel, &views, f, &mut expected);
            // SAFETY: the memory is live, and launches compare indices with extents.
            unsafe { kernel.launch(&direct.shape, &direct.args, &LaunchOptions::default()).unwrap() };
            graph.add(task(&kernel, &views, f, &mut memory)).unwrap();
        }
        let mut times = Random::new(round);
        let (timeline, done) = run(&graph, &mut |_, _| Some(1e5 + times.below(1_000_000) as f64));
        done.unwrap();
        n_on_simulator +=
            timeline.entries.iter().filter(|e| e.from.is_none() && e.device == DeviceId::Simulator).count();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&memory), bits(&expected), "round {round}: {timeline}");
    }
    assert!(n_on_simulator > 20, "{n_on_simulator} tasks ran on the simulator");
}

#[test]
fn a_planted_cost_decides_where_a_kernel_runs() {
    let kernels = Kernels::new();
    let mut memory = vec![1.0f32; 16];
    for fast in BOTH {
        let mut graph = TaskGraph::new(&BOTH).unwrap();
        for first in [0, 8] {
            let views = [View { first, n: 8, step: 1 }];
            graph.add(task(kernels.get("scale"), &views, 2.0, &mut memory)).unwrap();
        }
        let (timeline, done) = run(&graph, &mut |_, device| Some(if device == fast { 1e3 } else { 1e9 }));
        done.unwrap();
        let ran: Vec<DeviceId> =
            timeline.entries.iter().filter(|entry| entry.from.is_none()).map(|entry| entry.device).collect();
        assert_eq!(ran, [fast; 2]);
    }
    assert_eq!(memory, [4.75; 16]);
}

#[test]
fn elements_between_those_of_a_view_are_left_alone() {
    let kernels = Kernels::new();
    let mut memory: Vec<f32> = (0..9).map(|i| i as f32).collect();
    let mut graph = TaskGraph::new(&[DeviceId::Simulator]).unwrap();
    let views = [View { first: 0, n: 5, step: 2 }];
    graph.add(task(kernels.get("scale"), &views, 10.0, &mut memory)).unwrap();
    let plan = graph.plan(&TaskModels::default(), &mut |_, _| None).unwrap();
    // What is between is another's, and may change until the results come back.
    memory[1] = 100.0;
    // SAFETY: as above.
    let (timeline, done) = unsafe { graph.run(&plan, &TaskModels::default(), &LaunchOptions::default()) };
    done.unwrap();
    assert_eq!(memory, [0.25, 100.0, 20.25, 3.0, 40.25, 5.0, 60.25, 7.0, 80.25]);
    // There and back, 9 numbers each, because gaps are copied between.
    let copied: Vec<(DeviceId, u64)> = timeline
        .entries
        .iter()
        .filter(|entry| entry.from.is_some())
        .map(|entry| (entry.device, entry.n_bytes))
        .collect();
    assert_eq!(copied, [(DeviceId::Simulator, 36), (DeviceId::Cpu, 36)]);
}

#[test]
fn a_chain_on_one_device_is_copied_there_and_back_once() {
    let kernels = Kernels::new();
    let mut memory = vec![1.0f32; 8];
    let mut graph = TaskGraph::new(&BOTH).unwrap();
    for _ in 0..4 {
        graph.add(task(kernels.get("scale"), &[View { first: 0, n: 8, step: 1 }], 1.0, &mut memory)).unwrap();
    }
    let (timeline, done) = run(&graph, &mut |_, device| Some(if device == DeviceId::Cpu { 1e8 } else { 1e3 }));
    done.unwrap();
    assert_eq!(memory, [2.0; 8]);
    let entries: Vec<(DeviceId, bool)> =
        timeline.entries.iter().map(|entry| (entry.device, entry.from.is_some())).collect();
    let sim = DeviceId::Simulator;
    let ran = [(sim, false); 4];
    assert_eq!(entries, [&[(sim, true)][..], &ran, &[(DeviceId::Cpu, true)]].concat());
    let (text, svg) = (timeline.to_string(), timeline.svg());
    assert!(text.contains("sim:0    |") && text.contains("scale") && text.contains("predicted"), "{text}");
    assert_eq!(svg.matches("<rect").count(), 6, "{svg}");
}

#[test]
fn what_was_done_before_a_task_fails_is_kept() {
    let kernels = Kernels::new();
    let mut memory = vec![1.0f32; 8];
    let mut graph = TaskGraph::new(&BOTH).unwrap();
    let whole = View { first: 0, n: 8, step: 1 };
    graph.add(task(kernels.get("scale"), &[whole], 2.0, &mut memory)).unwrap();
    let kernel = kernels.get("checked");
    let mut args = ArgBlock::new();
    args.push_array(kernel.params(), &whole.of(&mut memory)).unwrap();
    args.scalar(kernel.params(), Scalar::I32, 20).unwrap();
    let shape = [1].into_iter().collect();
    let memory_of = DeviceId::Cpu;
    let outside =
        Task { kernel: kernel.clone(), shape, args, memory: memory_of, grid: None, unchecked: true, device: None };
    graph.add(outside).unwrap();
    graph.add(task(kernels.get("scale"), &[whole], 2.0, &mut memory)).unwrap();
    for device in BOTH {
        memory.fill(1.0);
        let given = &mut |_: usize, id: DeviceId| Some(if id == device { 1e3 } else { 1e12 });
        let (timeline, done) = run(&graph, given);
        let error = done.unwrap_err();
        assert_eq!(error.task, 1);
        assert!(matches!(error.error, LaunchError::Trap(_)), "{error}");
        assert_eq!(memory, [2.25; 8], "on {device}: {timeline}");
    }
}

#[test]
fn indices_are_compared_with_extents_when_a_task_is_added() {
    let kernels = Kernels::new();
    let mut memory = vec![1.0f32; 8];
    let mut graph = TaskGraph::new(&BOTH).unwrap();
    let mut outside = task(kernels.get("scale"), &[View { first: 0, n: 8, step: 1 }], 2.0, &mut memory);
    outside.shape[0] = 9;
    assert!(matches!(graph.add(outside), Err(LaunchError::Outside(_))));
    assert!(graph.is_empty());
}

#[test]
fn a_task_that_names_a_device_runs_there_or_not_at_all() {
    let kernels = Kernels::new();
    let mut memory = vec![1.0f32; 8];
    let mut graph = TaskGraph::new(&BOTH).unwrap();
    let mut named = task(kernels.get("scale"), &[View { first: 0, n: 8, step: 1 }], 2.0, &mut memory);
    named.device = Some(DeviceId::Simulator);
    graph.add(named.clone()).unwrap();
    let (timeline, done) = run(&graph, &mut |_, _| None);
    done.unwrap();
    assert!(timeline.entries.iter().any(|entry| entry.device == DeviceId::Simulator && entry.from.is_none()));
    let mut other = TaskGraph::new(&[DeviceId::Cpu]).unwrap();
    other.add(named).unwrap();
    let error = other.plan(&TaskModels::default(), &mut |_, _| None).unwrap_err();
    assert!(
        error.to_string().contains("sim:0") && error.to_string().contains("not among those of the tasks"),
        "{error}"
    );
}

#[test]
fn a_kernel_for_any_device_says_so() {
    let kernels = Kernels::new();
    let kernel = kernels.get("anywhere");
    assert!(kernel.is_heterogeneous() && !kernels.get("scale").is_heterogeneous());
    assert_eq!(kernel.device(), None);
    assert_eq!(kernel.metadata(), ["target = \"auto\""]);
}

#[test]
fn a_large_launch_runs_in_two_parts_of_one_result() {
    let kernels = Kernels::new();
    let mut memory: Vec<f32> = (0..400).map(|i| i as f32).collect();
    let mut expected = memory.clone();
    let views = [View { first: 0, n: 100, step: 2 }, View { first: 399, n: 100, step: -1 }];
    let kernel = kernels.get("neighbours");
    let direct = task(kernel, &views, 0.5, &mut expected);
    // SAFETY: the memory is live, and launches compare indices with extents.
    unsafe { kernel.launch(&direct.shape, &direct.args, &LaunchOptions::default()).unwrap() };
    let mut graph = TaskGraph::new(&BOTH).unwrap();
    graph.add(task(kernel, &views, 0.5, &mut memory)).unwrap();
    let given = &mut |_, device| Some(if device == DeviceId::Cpu { 1e9 } else { 4e9 });
    let plan = graph.plan(&TaskModels::default(), given).unwrap();
    assert_eq!(plan.sources, [0, 0]);
    assert!((plan.schedule.makespan - 0.8e9).abs() < 1e7, "{}", plan.schedule.makespan);
    // SAFETY: as above.
    let (timeline, done) = unsafe { graph.run(&plan, &TaskModels::default(), &LaunchOptions::default()) };
    done.unwrap();
    assert_eq!(memory, expected, "{timeline}");
}
