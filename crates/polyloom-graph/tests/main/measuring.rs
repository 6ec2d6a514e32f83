//! The harness and the ranking, on a device with a simulated clock: no test here depends on real time.

use crate::fake_device::{FakeClock, FakeMachine, FakePath, FakeProbe, Fault, MICROSECOND, MILLISECOND, NOISES, Noise};
use polyloom_graph::measure::{
    CacheState, MeasuredCandidate, Measurement, MeasurementPolicy, MeasurementStatus, OutputChecks, PathRanking,
    RankReason, SampleOrder, WarmUpRule, measure, rank,
};

fn measure_paths(machine: &FakeMachine, paths: &mut [FakePath], policy: &MeasurementPolicy) -> Vec<Measurement> {
    let mut candidates: Vec<MeasuredCandidate<'_>> = Vec::new();
    for (index, path) in paths.iter_mut().enumerate() {
        candidates.push(MeasuredCandidate { key: format!("path {index}"), path });
    }
    measure(&mut candidates, policy, &mut FakeProbe(machine.clone()), &mut FakeClock(machine.clone()))
}

/// Measures paths of these costs in nanoseconds, and ranks them with the first as the default.
fn run(noise: Noise, seed: u64, costs: &[u64], policy: &MeasurementPolicy) -> (Vec<Measurement>, PathRanking) {
    let machine = FakeMachine::new(noise, seed);
    let mut paths: Vec<FakePath> = costs.iter().map(|cost| FakePath::new(&machine, cost * 1000)).collect();
    let measurements = measure_paths(&machine, &mut paths, policy);
    let ranking = rank(&measurements, 0, policy);
    (measurements, ranking)
}

fn measure_one(path: FakePath, policy: &MeasurementPolicy) -> (Measurement, FakePath) {
    let mut paths = [path];
    let machine = paths[0].machine.clone();
    let measurement = measure_paths(&machine, &mut paths, policy).remove(0);
    let [path] = paths;
    (measurement, path)
}

#[test]
fn a_quiet_machine_gives_the_planted_costs() {
    let policy = MeasurementPolicy::hot();
    let (measurements, ranking) = run(Noise::None, 1, &[1000, 800, 1500], &policy);
    for (measurement, cost) in measurements.iter().zip([1000, 800, 1500]) {
        let summary = measurement.summary.unwrap();
        assert_eq!((measurement.status, measurement.is_steady), (MeasurementStatus::Ok, true), "{measurement:?}");
        // Jitter is half a percent, and reading the clock 25 ns of 50 us.
        let median = summary.median as f64 / (cost * 1000) as f64;
        assert!((0.999..1.006).contains(&median), "{median}");
        assert_eq!(measurement.samples.len(), policy.min_samples as usize, "{}", measurement.stopped_because);
        assert!(u64::from(measurement.n_batch_runs) * summary.min >= policy.min_sample_time * 9 / 10);
    }
    assert_eq!(ranking.order, [1, 0, 2]);
    assert_eq!(ranking.chosen, Some(1));
    assert!(matches!(ranking.reason, RankReason::Wins { n_ties: 0, .. }), "{ranking:?}");
}

#[test]
fn noise_does_not_flip_a_difference_of_ten_percent() {
    let policy = MeasurementPolicy::hot();
    for noise in NOISES {
        for seed in 0..40 {
            let (_, ranking) = run(noise, seed, &[1100, 1000], &policy);
            assert_eq!(ranking.chosen, Some(1), "{noise:?}, seed {seed}: {ranking:?}");
            let (_, ranking) = run(noise, seed, &[1000, 1100], &policy);
            assert_eq!(ranking.chosen, Some(0), "{noise:?}, seed {seed}: {ranking:?}");
        }
    }
}

#[test]
fn where_a_median_is_in_no_mode_the_default_stays() {
    for seed in 0..20 {
        for costs in [[1000, 1100], [1100, 1000], [1000, 1000]] {
            let (measurements, ranking) = run(Noise::EvenlyBimodal, seed, &costs, &MeasurementPolicy::hot());
            let is_flip = ranking.chosen == Some(1) && costs[1] >= costs[0];
            assert!(!is_flip, "seed {seed}: {ranking:?}");
            assert!(measurements.iter().all(|measurement| measurement.samples.len() >= 30));
        }
        // What is faster by far is so in any mode.
        let (_, ranking) = run(Noise::EvenlyBimodal, seed, &[3000, 1000], &MeasurementPolicy::hot());
        assert_eq!(ranking.chosen, Some(1), "seed {seed}: {ranking:?}");
    }
}

#[test]
fn equal_paths_do_not_beat_the_default() {
    let policy = MeasurementPolicy::hot();
    for noise in NOISES.into_iter().chain([Noise::EvenlyBimodal]) {
        for seed in 0..40 {
            let (_, ranking) = run(noise, seed, &[1000, 1000, 1000, 1000], &policy);
            assert_eq!(ranking.chosen, Some(0), "{noise:?}, seed {seed}: {ranking:?}");
        }
    }
}

#[test]
fn ties_are_broken_by_key() {
    let policy = MeasurementPolicy::hot();
    let first_key = |noise| {
        (0..30).filter(|&seed| run(noise, seed, &[1500, 1002, 1000, 1001], &policy).1.chosen == Some(1)).count()
    };
    for noise in [Noise::None, Noise::Preemption, Noise::Spikes] {
        assert_eq!(first_key(noise), 30, "{noise:?}");
    }
}

#[test]
fn bursts_fool_candidates_that_are_measured_one_after_the_other() {
    let interleaved = MeasurementPolicy { min_samples: 200, ..MeasurementPolicy::hot() };
    let n_flips = |order: SampleOrder| {
        let policy = MeasurementPolicy { order, ..interleaved.clone() };
        let is_flipped = |seed: &u64| run(Noise::SharedCore, *seed, &[1000, 1100], &policy).1.order == [1, 0];
        (0..40).filter(is_flipped).count()
    };
    assert!(n_flips(SampleOrder::Blocked) > 0);
    assert_eq!((n_flips(SampleOrder::Interleaved), n_flips(SampleOrder::Shuffled)), (0, 0));
}

#[test]
fn wrong_and_slow_paths_are_never_chosen() {
    let policy = MeasurementPolicy::hot();
    let faults = [
        (Fault::DoesNotCompile, MeasurementStatus::DoesNotCompile, "no such intrinsic"),
        (Fault::Wrong, MeasurementStatus::Wrong, "element 0 is 43"),
        (Fault::WrongAfter(1000), MeasurementStatus::Wrong, "element 0 is 43"),
        (Fault::WritesNothing, MeasurementStatus::Wrong, "not written"),
        (Fault::FailsAfter(0), MeasurementStatus::Failed, "illegal address"),
        (Fault::FailsAfter(700), MeasurementStatus::Failed, "illegal address"),
    ];
    for (fault, status, reason) in faults {
        for noise in NOISES.into_iter().chain([Noise::EvenlyBimodal]) {
            let machine = FakeMachine::new(noise, 5);
            // The faulty path would be the fastest by far.
            let mut paths = [
                FakePath::new(&machine, 1000 * 1000),
                FakePath::new(&machine, 100 * 1000).with_fault(fault),
                FakePath::new(&machine, 9000 * 1000),
            ];
            let measurements = measure_paths(&machine, &mut paths, &policy);
            assert_eq!(measurements[1].status, status, "{fault:?}");
            assert!(measurements[1].reason.as_deref().unwrap().contains(reason), "{:?}", measurements[1].reason);
            let ranking = rank(&measurements, 0, &policy);
            assert_eq!(ranking.chosen, Some(0), "{fault:?} {noise:?}");
            assert!(!ranking.order.contains(&1), "{fault:?} {noise:?}");
        }
    }
}

#[test]
fn a_wrong_default_is_replaced() {
    let policy = MeasurementPolicy::hot();
    let machine = FakeMachine::new(Noise::None, 5);
    let mut paths = [FakePath::new(&machine, 1_000_000).with_fault(Fault::Wrong), FakePath::new(&machine, 3_000_000)];
    let measurements = measure_paths(&machine, &mut paths, &policy);
    let ranking = rank(&measurements, 0, &policy);
    assert_eq!((ranking.chosen, ranking.reason), (Some(1), RankReason::DefaultFailed));
    let none = rank(&measurements[..1], 0, &policy);
    assert_eq!((none.chosen, none.reason), (None, RankReason::DefaultFailed));
}

#[test]
fn a_wrong_path_is_not_timed() {
    let machine = FakeMachine::new(Noise::None, 1);
    let (measurement, path) =
        measure_one(FakePath::new(&machine, 1000).with_fault(Fault::Wrong), &MeasurementPolicy::hot());
    assert_eq!((path.n_runs, measurement.samples.len(), measurement.warm_ups.len()), (1, 0, 0));
}

#[test]
fn hopeless_paths_are_sampled_a_few_times() {
    let (measurements, ranking) = run(Noise::Spikes, 2, &[1000, 9000], &MeasurementPolicy::hot());
    assert!(measurements[1].samples.len() < 30, "{}", measurements[1].samples.len());
    assert!(
        measurements[1].stopped_because.contains("more than 2 times as long"),
        "{}",
        measurements[1].stopped_because
    );
    assert_eq!((measurements[1].status, ranking.order), (MeasurementStatus::Ok, vec![0, 1]));
}

#[test]
fn limits_bound_everything() {
    let machine = FakeMachine::new(Noise::None, 1);
    let policy = MeasurementPolicy { run_limit: 2 * MILLISECOND, ..MeasurementPolicy::hot() };
    let (measurement, path) = measure_one(FakePath::new(&machine, 5 * MILLISECOND), &policy);
    assert_eq!((measurement.status, path.n_runs), (MeasurementStatus::TimedOut, 1));
    assert!(measurement.reason.unwrap().contains("a run took 0.025 s, of 0.002 s"));

    // 10 ms a run, so that 100 ms of time are over soon.
    let policy = MeasurementPolicy { candidate_limit: 200 * MILLISECOND, ..MeasurementPolicy::hot() };
    let mut path = FakePath::new(&machine, 10 * MILLISECOND);
    path.n_slow_runs = 0;
    let (measurement, path) = measure_one(path, &policy);
    assert_eq!(measurement.status, MeasurementStatus::Ok, "{measurement:?}");
    assert!(measurement.stopped_because.contains("it was run for its 0.2 s"), "{}", measurement.stopped_because);
    assert!(path.n_runs < 24, "{}", path.n_runs);

    let policy = MeasurementPolicy { session_limit: 100 * MILLISECOND, ..MeasurementPolicy::hot() };
    let machine = FakeMachine::new(Noise::None, 1);
    let mut paths: Vec<FakePath> = (0..20).map(|_| FakePath::new(&machine, 10 * MILLISECOND)).collect();
    let measurements = measure_paths(&machine, &mut paths, &policy);
    assert!(measurements.iter().all(|measurement| measurement.status == MeasurementStatus::TimedOut));
    assert!(paths[2..].iter().all(|path| path.n_runs == 0));
    let ranking = rank(&measurements, 0, &policy);
    assert_eq!(ranking.chosen, Some(0), "what was not measured is not chosen, but the default runs");
}

#[test]
fn samples_whose_median_is_unknown_are_too_noisy() {
    let policy = MeasurementPolicy { max_half_width: 0.01, max_samples: 31, ..MeasurementPolicy::hot() };
    let (measurements, _) = run(Noise::EvenlyBimodal, 4, &[1000], &policy);
    assert_eq!(measurements[0].status, MeasurementStatus::TooNoisy);
    assert!(
        measurements[0].reason.as_deref().unwrap().contains("the median is known to"),
        "{:?}",
        measurements[0].reason
    );
    assert!(measurements[0].stopped_because.contains("known to"), "{}", measurements[0].stopped_because);
    assert!(measurements[0].samples.len() >= 30, "all samples are kept");
}

#[test]
fn a_clock_that_falls_makes_samples_too_noisy() {
    struct Throttle(FakeMachine, u32);
    impl polyloom_graph::measure::EnvironmentProbe for Throttle {
        fn observe(&mut self) -> polyloom_graph::measure::EnvironmentObservation {
            self.1 += 1;
            self.0.set_cpu_mhz(if self.1 == 1 { 3000.0 } else { 2000.0 });
            FakeProbe(self.0.clone()).observe()
        }
        fn time_waited(&mut self) -> Option<u64> {
            None
        }
    }
    let machine = FakeMachine::new(Noise::None, 1);
    let mut path = FakePath::new(&machine, 1000 * 1000);
    let mut candidates = [MeasuredCandidate { key: "path".to_owned(), path: &mut path }];
    let policy = MeasurementPolicy::hot();
    let mut clock = FakeClock(machine.clone());
    let measurement = measure(&mut candidates, &policy, &mut Throttle(machine, 0), &mut clock).remove(0);
    assert_eq!(measurement.status, MeasurementStatus::TooNoisy);
    assert_eq!(measurement.reason.as_deref(), Some("the clock fell from 3000 to 2000 MHz"));
    assert_eq!(measurement.observations.map(|observation| observation.cpu_mhz), [Some(3000.0), Some(2000.0)]);
}

#[test]
fn outliers_are_flagged_and_kept() {
    let (measurements, _) = run(Noise::Spikes, 6, &[1000], &MeasurementPolicy::hot());
    let measurement = &measurements[0];
    let n_spikes = measurement.samples.iter().filter(|sample| sample.time > 2_000_000).count();
    assert!(n_spikes > 0);
    assert_eq!(measurement.n_outliers(), n_spikes);
    assert!(measurement.summary.unwrap().max > 3_000_000);
}

#[test]
fn samples_that_waited_for_a_processor_are_flagged() {
    let (measurements, _) =
        run(Noise::Preemption, 6, &[1000], &MeasurementPolicy { min_samples: 400, ..MeasurementPolicy::hot() });
    let samples = &measurements[0].samples;
    let n_waited = samples.iter().filter(|sample| sample.flags.has_waited).count();
    assert!((1..samples.len() / 5).contains(&n_waited), "{n_waited} of {}", samples.len());
    assert!(samples.iter().all(|sample| sample.flags.has_waited || sample.time < 1_020_000));
}

#[test]
fn cold_runs_are_flushed_and_single() {
    let machine = FakeMachine::new(Noise::None, 1);
    let (measurement, path) = measure_one(FakePath::new(&machine, 1000), &MeasurementPolicy::cold());
    assert_eq!(measurement.n_batch_runs, 1);
    let n_timed = measurement.samples.len() + measurement.warm_ups.len();
    assert_eq!(path.n_flushes as usize, n_timed);
    assert_eq!(path.n_runs as usize, n_timed + 1, "the first run, which is checked, is not timed");
    assert_eq!(MeasurementPolicy::cold().caches, CacheState::Cold);
}

#[test]
fn warm_ups_last_until_times_are_steady() {
    let machine = FakeMachine::new(Noise::None, 1);
    let mut path = FakePath::new(&machine, 10 * MICROSECOND);
    path.n_slow_runs = 80;
    let (measurement, _) = measure_one(path, &MeasurementPolicy::hot());
    assert!(measurement.is_steady && measurement.warm_ups.len() > 8, "{:?}", measurement.warm_ups);
    assert!(measurement.samples.iter().all(|sample| sample.time < 11 * MICROSECOND), "no sample is of slow code");

    let rule = WarmUpRule { max_batches: 10, ..MeasurementPolicy::hot().warm_up };
    let mut path = FakePath::new(&machine, 10 * MICROSECOND);
    path.n_slow_runs = 1 << 20;
    path.machine = FakeMachine::new(Noise::Drift, 1);
    let (measurement, _) = measure_one(path, &MeasurementPolicy { warm_up: rule, ..MeasurementPolicy::hot() });
    assert_eq!(measurement.warm_ups.len(), 10);
}

#[test]
fn times_of_the_device_are_preferred() {
    let machine = FakeMachine::new(Noise::None, 1);
    let mut path = FakePath::new(&machine, 1000 * 1000);
    path.has_events = true;
    let policy = MeasurementPolicy { checks: OutputChecks::FirstAndLast, ..MeasurementPolicy::hot() };
    let (measurement, _) = measure_one(path, &policy);
    let median = measurement.summary.unwrap().median as f64;
    // The host's clock would say 20 % more.
    assert!((1.0e6..1.006e6).contains(&median), "{median}");
}

#[test]
fn the_last_run_is_checked_too() {
    let machine = FakeMachine::new(Noise::None, 1);
    let policy = MeasurementPolicy { checks: OutputChecks::FirstAndLast, ..MeasurementPolicy::hot() };
    let (measurement, _) =
        measure_one(FakePath::new(&machine, 1000 * 1000).with_fault(Fault::WrongAfter(1500)), &policy);
    assert_eq!((measurement.status, measurement.samples.len()), (MeasurementStatus::Wrong, 30));
}

#[test]
fn sessions_repeat_exactly() {
    let of = |seed| run(Noise::SharedCore, seed, &[1000, 1100], &MeasurementPolicy::hot());
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
}

#[test]
fn ids_of_policies_are_those_of_other_versions() {
    // Measurements are kept by these. A change here orphans them: raise POLICY_VERSION if the meaning of a field changed.
    let ids = [MeasurementPolicy::hot().id(), MeasurementPolicy::cold().id()];
    assert_eq!(ids, ["hot-e2d910b1bd292b12", "cold-8b25394734594679"]);
}
