//! Measures what each practice of measuring is worth, on plain loops: `docs/benchmarking.md` has its figures.
//!
//! `cargo run --release -p polyloom-graph --example measure_loops [SESSIONS]`
//!
//! Each line is a policy. It is tried in many sessions, without and with two threads in the background that stream through memory in
//! bursts. A session measures three loops: one, another that is the same, and one with a tenth less to do. The table shows how far the
//! estimates of one loop lie apart from session to session (from the tenth to the ninetieth percentile, relative to the median), in how
//! many sessions the loop with a tenth less to do came out slower, and in how many the choice fell on the equal loop, or not on
//! the shorter one.

use polyloom_graph::measure::{
    BatchTiming, CacheState, EnvironmentProbe, LinuxProbe, Measure, MeasureFailure, MeasuredCandidate, Measurement,
    MeasurementPolicy, MonotonicClock, OutputChecks, SampleOrder, WarmUpRule, measure, rank,
};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The work of a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopKind {
    /// Adds numbers, one after the other.
    Sum,
    /// Writes `2 x + y` for each element of two arrays.
    Triad,
}

/// A loop over so many numbers.
struct PlainLoop {
    kind: LoopKind,
    n: usize,
    x: Vec<f32>,
    y: Vec<f32>,
    output: Vec<f32>,
    /// The bytes that are written to flush the caches.
    flushed: Vec<u8>,
}

impl PlainLoop {
    fn new(kind: LoopKind, n: usize) -> PlainLoop {
        PlainLoop { kind, n, x: Vec::new(), y: Vec::new(), output: Vec::new(), flushed: Vec::new() }
    }
}

impl Measure for PlainLoop {
    fn prepare(&mut self) -> Result<(), MeasureFailure> {
        self.x = (0..self.n).map(|index| (index % 7) as f32).collect();
        self.y = self.x.clone();
        self.output = vec![0.0; if self.kind == LoopKind::Sum { 1 } else { self.n }];
        Ok(())
    }

    fn poison_output(&mut self) -> Result<(), MeasureFailure> {
        self.output.fill(f32::NAN);
        Ok(())
    }

    fn flush_caches(&mut self) -> Result<(), MeasureFailure> {
        self.flushed.resize(128 << 20, 0);
        self.flushed.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&self.flushed);
        Ok(())
    }

    fn run_batch(&mut self, n_runs: u32) -> Result<BatchTiming, MeasureFailure> {
        for _ in 0..n_runs {
            let (x, y) = (black_box(&self.x), black_box(&self.y));
            match self.kind {
                LoopKind::Sum => self.output[0] = x.iter().sum(),
                LoopKind::Triad => {
                    for ((output, x), y) in self.output.iter_mut().zip(x).zip(y) {
                        *output = 2.0 * x + y;
                    }
                }
            }
            black_box(&self.output);
        }
        Ok(BatchTiming::ByClock)
    }

    fn check_output(&mut self) -> Result<(), MeasureFailure> {
        let is_written = self.output.iter().all(|value| !value.is_nan());
        if is_written { Ok(()) } else { Err(MeasureFailure::wrong("an element was not written")) }
    }
}

/// Threads that stream through memory in bursts.
struct BackgroundHog {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BackgroundHog {
    fn start(n_threads: u64) -> BackgroundHog {
        let is_over = Arc::new(AtomicBool::new(false));
        let work = |seed: u64, is_over: Arc<AtomicBool>| {
            let mut state = seed;
            let mut memory = vec![0u64; 8 << 20];
            while !is_over.load(Ordering::Relaxed) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let burst = Instant::now();
                while burst.elapsed() < Duration::from_millis(2 + (state >> 33) % 30) {
                    memory.iter_mut().step_by(8).for_each(|word| *word += 1);
                    black_box(&memory);
                }
                std::thread::sleep(Duration::from_millis(2 + (state >> 40) % 30));
            }
        };
        let threads = (0..n_threads).map(|seed| {
            let is_over = is_over.clone();
            std::thread::spawn(move || work(seed, is_over))
        });
        BackgroundHog { threads: threads.collect(), is_over }
    }

    fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // A hog that panicked has stopped as well.
            let _ = thread.join();
        }
    }
}

/// A way to make one figure of samples.
type Estimator = fn(&Measurement) -> f64;

fn median_of(measurement: &Measurement) -> f64 {
    measurement.summary.map_or(f64::NAN, |summary| summary.median as f64)
}

fn min_of(measurement: &Measurement) -> f64 {
    measurement.summary.map_or(f64::NAN, |summary| summary.min as f64)
}

fn mean_of(measurement: &Measurement) -> f64 {
    let times = measurement.times();
    times.iter().sum::<u64>() as f64 / times.len() as f64
}

/// The results of many sessions of a policy.
#[derive(Default)]
struct SessionFigures {
    estimates: Vec<f64>,
    n_flips: usize,
    n_wrong_choices: usize,
    milliseconds: f64,
}

fn measure_loops(kind: LoopKind, lengths: &[usize], policy: &MeasurementPolicy) -> Vec<Measurement> {
    let mut loops: Vec<PlainLoop> = lengths.iter().map(|&n| PlainLoop::new(kind, n)).collect();
    let mut candidates: Vec<MeasuredCandidate<'_>> = Vec::new();
    for (index, path) in loops.iter_mut().enumerate() {
        candidates.push(MeasuredCandidate { key: format!("loop {index}"), path });
    }
    measure(&mut candidates, policy, &mut LinuxProbe, &mut MonotonicClock::new())
}

fn run_sessions(
    (kind, length): (LoopKind, usize),
    n: usize,
    policy: &MeasurementPolicy,
    estimate: Estimator,
) -> SessionFigures {
    let mut figures = SessionFigures::default();
    for session in 0..n {
        let policy = MeasurementPolicy { seed: session as u64, ..policy.clone() };
        let start = Instant::now();
        let longer = length + length / 10;
        let measurements = measure_loops(kind, &[longer, longer, length], &policy);
        figures.milliseconds += start.elapsed().as_secs_f64() * 1e3 / n as f64;
        let [first, _, shorter] = [0, 1, 2].map(|index| estimate(&measurements[index]));
        figures.n_flips += usize::from(shorter >= first);
        figures.n_wrong_choices += usize::from(rank(&measurements, 0, &policy).chosen != Some(2));
        figures.estimates.push(first);
    }
    figures.estimates.sort_unstable_by(f64::total_cmp);
    figures
}

fn print_row(work: (LoopKind, usize), name: &str, n: usize, policy: &MeasurementPolicy, estimate: Estimator) {
    let mut row = format!("| {name} |");
    for n_threads in [0, 2] {
        let hog = BackgroundHog::start(n_threads);
        let figures = run_sessions(work, n, policy, estimate);
        hog.stop();
        let at = |part: f64| figures.estimates[((n - 1) as f64 * part) as usize];
        let spread = 100.0 * (at(0.9) - at(0.1)) / at(0.5);
        let [flips, wrong] = [100 * figures.n_flips / n, 100 * figures.n_wrong_choices / n];
        let (time, session) = (at(0.5) * 1e-6, figures.milliseconds);
        row += &format!(" {time:.3} µs | {spread:.1} % | {flips} % | {wrong} % | {session:.0} ms |");
    }
    println!("{row}");
}

/// The policies of the table, from none of the practices to all of them.
fn policies() -> Vec<(&'static str, MeasurementPolicy, Estimator)> {
    let all = MeasurementPolicy { checks: OutputChecks::FirstAndLast, ..MeasurementPolicy::hot() };
    let fixed =
        |n: u32, policy: &MeasurementPolicy| MeasurementPolicy { min_samples: n, max_samples: n, ..policy.clone() };
    let no_warm_up = WarmUpRule { max_batches: 0, ..all.warm_up };
    let unbatched = MeasurementPolicy { min_sample_time: 0, ..all.clone() };
    let blocked = MeasurementPolicy { order: SampleOrder::Blocked, ..all.clone() };
    let unfilled = MeasurementPolicy { caches: CacheState::Hot { n_untimed_runs: 0 }, ..all.clone() };
    let first = MeasurementPolicy { warm_up: no_warm_up, ..fixed(1, &unfilled) };
    let shuffled = MeasurementPolicy { order: SampleOrder::Shuffled, ..all.clone() };
    vec![
        ("one run, the first", first, median_of as Estimator),
        ("3 runs, median", fixed(3, &unbatched), median_of),
        ("30 runs, mean", fixed(30, &unbatched), mean_of),
        ("30 runs, median", fixed(30, &unbatched), median_of),
        ("30 runs, minimum", fixed(30, &unbatched), min_of),
        ("30 batches of 50 µs, A then B, mean", fixed(30, &blocked), mean_of),
        ("30 batches, A then B, median", fixed(30, &blocked), median_of),
        ("30 batches, A B A B, mean", fixed(30, &all), mean_of),
        ("30 batches, A B A B, median", fixed(30, &all), median_of),
        ("30 batches, A B A B, minimum", fixed(30, &all), min_of),
        ("until the interval is narrow, A B A B, median", all, median_of),
        ("the same, shuffled", shuffled, median_of),
    ]
}

/// Prints what the first run takes, what comes after it, and what caches that are flushed add.
fn print_states() {
    println!("\n| numbers | first run | warm, hot caches | flushed caches |\n|---:|---:|---:|---:|");
    for n in [1 << 10, 1 << 14, 1 << 18, 1 << 21] {
        let hot = MeasurementPolicy { checks: OutputChecks::FirstAndLast, ..MeasurementPolicy::hot() };
        let cold = MeasurementPolicy { min_samples: 10, max_samples: 20, caches: CacheState::Cold, ..hot.clone() };
        let no_warm_up = WarmUpRule { max_batches: 0, ..hot.warm_up };
        let first = MeasurementPolicy {
            warm_up: no_warm_up,
            min_samples: 1,
            max_samples: 1,
            caches: CacheState::Hot { n_untimed_runs: 0 },
            ..hot.clone()
        };
        let times =
            [first, hot, cold].map(|policy| median_of(&measure_loops(LoopKind::Triad, &[n], &policy)[0]) * 1e-6);
        println!("| {n} | {:.2} µs | {:.2} µs | {:.2} µs |", times[0], times[1], times[2]);
    }
}

/// Prints how many samples waited for a processor, and how much longer they are.
fn print_waits() {
    let policy = MeasurementPolicy {
        min_samples: 2000,
        max_samples: 2000,
        checks: OutputChecks::FirstAndLast,
        ..MeasurementPolicy::hot()
    };
    for n_threads in [0, 2] {
        let hog = BackgroundHog::start(n_threads);
        let measurement = measure_loops(LoopKind::Sum, &[4400], &policy).remove(0);
        hog.stop();
        let median = median_of(&measurement);
        let share = |count: usize| 100.0 * count as f64 / measurement.samples.len() as f64;
        let waited: Vec<_> = measurement.samples.iter().filter(|sample| sample.flags.has_waited).collect();
        let n_both = waited.iter().filter(|sample| sample.flags.is_outlier).count();
        let longest = measurement.samples.iter().map(|sample| sample.time).max().unwrap_or(0) as f64 / median;
        println!(
            "{n_threads} hogs: {:.1} % of samples are outliers and {:.1} % waited for a processor, {:.1} % are both; the longest is {longest:.1} medians",
            share(measurement.n_outliers()),
            share(waited.len()),
            share(n_both),
        );
    }
}

fn main() {
    let n = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(40).max(2);
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field =
        |name: &str| cpuinfo.lines().find(|line| line.starts_with(name)).and_then(|line| line.split(": ").nth(1));
    println!(
        "{}, family {}, model {}; {} processors; {:?}; {n} sessions\n",
        field("model name").unwrap_or("unknown processor"),
        field("cpu family").unwrap_or("?"),
        field("model\t").unwrap_or("?"),
        std::thread::available_parallelism().map_or(0, usize::from),
        LinuxProbe.observe(),
    );
    let works = [
        ("A sum of 110 numbers", (LoopKind::Sum, 100)),
        ("A sum of 4,400 numbers", (LoopKind::Sum, 4000)),
        ("2 x + y of 288,358 numbers, 3.3 MiB", (LoopKind::Triad, 1 << 18)),
    ];
    for (title, work) in works {
        println!("{title}\n");
        println!(
            "| practice | time | spread | flips | wrong choices | session | with hogs: time | spread | flips | wrong choices | session |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
        for (name, policy, estimate) in policies() {
            print_row(work, name, n, &policy, estimate);
        }
        println!();
    }
    print_states();
    println!();
    print_waits();
}
