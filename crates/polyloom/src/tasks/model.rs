//! How long kernels and copies take: medians of what was measured, and before that what the rates of the machine say.
//!
//! Every copy and every run of a kernel is measured, except the first run on a device, which may compile. A time is the median of the
//! last few runs of a kernel over so many threads on a device, so that a run that something else disturbed says nothing; over other
//! numbers of threads it follows a line through the two nearest medians. A kernel that a device has not run takes what the rates of the
//! cost model say of its bytes, which is about the least that it can take: a device is tried before it is given up.

use polyloom_graph::cost::{CostSource, MachineCosts, TransferCosts};
use polyloom_graph::measure::median;
use polyloom_graph::{Backend, MemorySpace};
use polyloom_runtime::DeviceId;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The runs of a kernel, or the copies, that a median is of. More would remember code of a tier that has been replaced.
const N_SAMPLES: usize = 9;
/// The numbers of threads of a kernel, or the sizes of copies, that are known at a time.
const N_SIZES: usize = 32;
/// The kernels that are known at a time; beyond, the half that has not run for longest is forgotten.
const N_KERNELS: usize = 4096;

/// Identifies the code of a kernel: [`crate::Kernel::hash`].
pub type KernelKey = [u8; 32];

/// The measured times of kernels and copies.
#[derive(Debug, Default)]
pub struct TaskModels(Mutex<MeasuredTimes>);

#[derive(Debug, Default)]
struct MeasuredTimes {
    kernels: FxHashMap<(KernelKey, DeviceId), KernelTimes>,
    /// The runs of kernels so far.
    n_runs: u64,
    /// By the bytes of the copy.
    copies: FxHashMap<(MemorySpace, MemorySpace), SizedTimes>,
    costs: MachineCosts,
}

/// Says what is known of a kernel on a device.
#[derive(Debug, Default)]
struct KernelTimes {
    /// By the number of threads.
    times: SizedTimes,
    /// The number of its last run among those of all kernels.
    last_run: u64,
}

/// Times in nanoseconds by a size, which they grow with.
#[derive(Debug, Default)]
struct SizedTimes(BTreeMap<u64, VecDeque<u64>>);

impl SizedTimes {
    fn add(&mut self, size: u64, ns: u64) {
        if self.0.len() >= N_SIZES && !self.0.contains_key(&size) {
            // The size that is nearest to another one says least.
            let sizes: Vec<u64> = self.0.keys().copied().collect();
            let nearest = sizes
                .windows(2)
                .min_by(|a, b| (a[1] as f64 / a[0].max(1) as f64).total_cmp(&(b[1] as f64 / b[0].max(1) as f64)));
            if let Some(&[size, _]) = nearest {
                self.0.remove(&size);
            }
        }
        let samples = self.0.entry(size).or_default();
        if samples.len() == N_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(ns);
    }

    fn medians(&self) -> Vec<(f64, f64)> {
        let of = |(&size, samples): (&u64, &VecDeque<u64>)| {
            let samples: Vec<u64> = samples.iter().copied().collect();
            Some((size as f64, median(&samples)? as f64))
        };
        self.0.iter().filter_map(of).collect()
    }

    /// Returns the time at a size; none if nothing was measured. `least` is the time of size 0 where one size is known.
    fn at(&self, size: u64, least: f64) -> Option<f64> {
        let medians = self.medians();
        let size = size as f64;
        let above = medians.partition_point(|&(known, _)| known < size);
        if let Some(&(_, ns)) = medians.get(above).filter(|&&(known, _)| known == size) {
            return Some(ns);
        }
        let (a, b) = match medians[..] {
            [] => return None,
            [only] => ((0.0, least.min(only.1)), only),
            // The two around it, or the last two on its side.
            _ => {
                let first = above.saturating_sub(1).min(medians.len() - 2);
                (medians[first], medians[first + 1])
            }
        };
        let slope = if b.0 > a.0 { ((b.1 - a.1) / (b.0 - a.0)).max(0.0) } else { 0.0 };
        Some((a.1 + slope * (size - a.0)).max(least.min(a.1)))
    }
}

impl TaskModels {
    /// Returns the models of this process, which begin with the rates that machines have by default.
    pub fn shared() -> &'static TaskModels {
        static SHARED: OnceLock<TaskModels> = OnceLock::new();
        SHARED.get_or_init(TaskModels::default)
    }

    /// Notes a run of a kernel. The first on a device does not count, because it may have compiled code or loaded it.
    pub fn add_kernel(&self, kernel: KernelKey, device: DeviceId, n_threads: u64, ns: u64) {
        let mut measured = self.locked();
        measured.n_runs += 1;
        let run = measured.n_runs;
        if measured.kernels.len() >= N_KERNELS && !measured.kernels.contains_key(&(kernel, device)) {
            let mut last_runs: Vec<u64> = measured.kernels.values().map(|known| known.last_run).collect();
            let (_, &mut middle, _) = last_runs.select_nth_unstable(N_KERNELS / 2);
            measured.kernels.retain(|_, known| known.last_run >= middle);
        }
        match measured.kernels.entry((kernel, device)) {
            Entry::Vacant(unknown) => {
                unknown.insert(KernelTimes { times: SizedTimes::default(), last_run: run });
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.times.add(n_threads, ns);
                known.last_run = run;
            }
        }
    }

    /// Notes a copy.
    pub fn add_copy(&self, from: DeviceId, to: DeviceId, n_bytes: u64, ns: u64) {
        let mut times = self.locked();
        let pair = (memory_space(from), memory_space(to));
        let copies = times.copies.entry(pair).or_default();
        copies.add(n_bytes, ns);
        let medians = copies.medians();
        let known = times.costs.transfers.iter().find(|copy| (copy.from, copy.to) == pair);
        let (latency_ns, bytes_per_ns) = match (medians.first(), medians.last()) {
            (Some(first), Some(last)) if last.0 >= 4.0 * first.0.max(1.0) && last.1 > first.1 => {
                let rate = (last.0 - first.0) / (last.1 - first.1);
                ((first.1 - first.0 / rate).max(1.0), rate)
            }
            // Copies of about one size do not tell latency from rate: the latency that was assumed is as much of it as can be.
            (_, Some(&(bytes, ns))) => {
                let latency = known.map_or(MachineCosts::SLOWEST_COPY.0, |copy| copy.latency_ns).min(ns / 2.0).max(1.0);
                (latency, bytes.max(1.0) / (ns - latency).max(1.0))
            }
            _ => return,
        };
        let (from, to) = pair;
        let copy = TransferCosts { from, to, source: CostSource::Calibrated, latency_ns, bytes_per_ns };
        times.costs.transfers.retain(|known| (known.from, known.to) != pair);
        times.costs.transfers.push(copy);
    }

    /// Predicts the time of a kernel in nanoseconds: by measurements, or without any by the bytes of its arrays.
    pub fn kernel_ns(&self, kernel: KernelKey, device: DeviceId, n_threads: u64, n_bytes: u64) -> f64 {
        let measured = self.locked();
        let rates = measured.costs.backends.get(&backend(device));
        let least = rates.map_or(0.0, |rates| rates.launch_ns);
        match measured.kernels.get(&(kernel, device)).and_then(|known| known.times.at(n_threads, least)) {
            Some(ns) => ns,
            None => least + rates.map_or(0.0, |rates| rates.memory_ns(n_bytes)),
        }
    }

    /// Returns the latency in nanoseconds and the bytes a nanosecond of copies from the memory of one device to that of another. Those
    /// between two devices go through the host.
    pub fn copy_rates(&self, from: DeviceId, to: DeviceId) -> (f64, f64) {
        let times = self.locked();
        let one = |from: DeviceId, to: DeviceId| {
            let pair = (memory_space(from), memory_space(to));
            let known = times.costs.transfers.iter().find(|copy| (copy.from, copy.to) == pair);
            known.map_or(MachineCosts::SLOWEST_COPY, |copy| (copy.latency_ns, copy.bytes_per_ns))
        };
        if from == to {
            return (0.0, f64::INFINITY);
        }
        if from == DeviceId::Cpu || to == DeviceId::Cpu {
            return one(from, to);
        }
        let (first, second) = (one(from, DeviceId::Cpu), one(DeviceId::Cpu, to));
        (first.0 + second.0, 1.0 / (1.0 / first.1 + 1.0 / second.1))
    }

    fn locked(&self) -> MutexGuard<'_, MeasuredTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn memory_space(device: DeviceId) -> MemorySpace {
    backend(device).residence().memory()
}

fn backend(device: DeviceId) -> Backend {
    match device {
        DeviceId::Cpu => Backend::CpuNative,
        DeviceId::Simulator => Backend::Sim,
        DeviceId::Cuda(_) => Backend::GpuCuda,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: KernelKey = [1; 32];

    fn measured(runs: &[(u64, u64)]) -> TaskModels {
        let models = TaskModels::default();
        models.add_kernel(KERNEL, DeviceId::Cpu, 100, 1_000_000_000);
        runs.iter().for_each(|&(n, ns)| models.add_kernel(KERNEL, DeviceId::Cpu, n, ns));
        models
    }

    fn at(models: &TaskModels, n: u64) -> f64 {
        models.kernel_ns(KERNEL, DeviceId::Cpu, n, 0)
    }

    #[test]
    fn the_median_of_the_last_runs_counts() {
        let models = measured(&[(100, 50), (100, 52), (100, 9_000), (100, 51), (100, 49)]);
        assert_eq!(at(&models, 100), 51.0, "one run that was disturbed says nothing");
        (0..N_SAMPLES).for_each(|_| models.add_kernel(KERNEL, DeviceId::Cpu, 100, 20));
        assert_eq!(at(&models, 100), 20.0, "faster code came");
    }

    #[test]
    fn other_sizes_are_on_a_line_through_the_nearest() {
        let models = measured(&[(1000, 2000), (3000, 4000), (100_000, 50_000)]);
        assert_eq!(at(&models, 2000), 3000.0);
        assert_eq!(at(&models, 197_000), 50_000.0 + 46_000.0);
        let one = measured(&[(1_000_000, 1_000_440)]);
        let launch_ns = MachineCosts::default().backends[&Backend::CpuNative].launch_ns;
        assert_eq!(launch_ns, 440.0);
        assert_eq!(at(&one, 2_000_000), 2_000_440.0, "the launch itself does not grow");
        assert_eq!(at(&one, 0), 440.0);
    }

    #[test]
    fn a_kernel_that_nobody_has_run_takes_what_its_bytes_take() {
        let models = TaskModels::default();
        let ns = models.kernel_ns(KERNEL, DeviceId::Cuda(0), 1, 3_400_000_000);
        assert_eq!(ns, 3900.0 + 1e6);
    }

    #[test]
    fn copies_of_two_sizes_give_latency_and_rate() {
        let models = TaskModels::default();
        for _ in 0..3 {
            models.add_copy(DeviceId::Cpu, DeviceId::Cuda(0), 1000, 5_100);
            models.add_copy(DeviceId::Cpu, DeviceId::Cuda(0), 1_000_000, 105_000);
        }
        models.add_copy(DeviceId::Cpu, DeviceId::Cuda(0), 1_000_000, 9_000_000);
        let (latency, rate) = models.copy_rates(DeviceId::Cpu, DeviceId::Cuda(0));
        assert!((latency - 5000.0).abs() < 1e-6 && (rate - 10.0).abs() < 1e-9, "{latency} {rate}");
        // The way there is what was measured, the way from one GPU what is assumed.
        let assumed = models.copy_rates(DeviceId::Cuda(1), DeviceId::Cpu);
        assert_eq!(assumed, (9000.0, 3.6));
        let through_the_host = models.copy_rates(DeviceId::Cuda(1), DeviceId::Cuda(0));
        assert_eq!(through_the_host.0, latency + 9000.0);
    }

    #[test]
    fn as_many_sizes_are_kept_as_there_is_room_for() {
        let runs: Vec<(u64, u64)> = (0..100).map(|n| (1 << (n / 4) | n, 1000 + n)).collect();
        let times = measured(&runs);
        let n_sizes = times.locked().kernels[&(KERNEL, DeviceId::Cpu)].times.0.len();
        assert_eq!(n_sizes, N_SIZES);
    }

    #[test]
    fn kernels_that_have_not_run_for_long_are_forgotten() {
        let key = |number: usize| {
            let mut key = KERNEL;
            key[..8].copy_from_slice(&number.to_le_bytes());
            key
        };
        let models = TaskModels::default();
        for number in 0..3 * N_KERNELS {
            for ns in [1_000_000, 50] {
                models.add_kernel(key(number), DeviceId::Cpu, 100, ns);
                models.add_kernel(key(0), DeviceId::Cpu, 100, 70);
            }
        }
        assert!(models.locked().kernels.len() <= N_KERNELS);
        let at = |number| models.kernel_ns(key(number), DeviceId::Cpu, 100, 0);
        assert_eq!((at(0), at(3 * N_KERNELS - 1)), (70.0, 50.0), "one that runs and a new one");
        assert_ne!(at(1), 50.0, "one that ran once, long ago");
    }
}
