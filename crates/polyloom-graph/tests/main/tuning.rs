//! The tuner, on a device with planted costs and a simulated clock.

use crate::fake_device::{FakeClock, FakeMachine, FakePath, FakeProbe, Fault, MICROSECOND, MILLISECOND, NOISES, Noise};
use polyloom_graph::measure::{Measure, MeasureFailure, MeasurementPolicy, MeasurementStatus};
use polyloom_graph::tune::{
    ParameterConstraint, ParameterPoint, ParameterSpace, Tuning, TuningEnd, TuningLimits, tune,
};

fn space() -> ParameterSpace {
    let space = ParameterSpace::new(&[
        ("block_size", &[32, 64, 128, 256, 512]),
        ("unroll", &[1, 2, 4, 8]),
        ("vector_bytes", &[16, 32, 64]),
        ("tile.rows", &[1, 2, 4, 6, 8, 12]),
        ("threads", &[1, 2]),
    ]);
    let product = ParameterConstraint::ProductAtMost(vec!["block_size".into(), "unroll".into()], 1024);
    space.with(product).with(ParameterConstraint::AtMost("tile.rows".into(), "vector_bytes".into()))
}

fn default(space: &ParameterSpace) -> ParameterPoint {
    let values = [("block_size", 32), ("unroll", 1), ("vector_bytes", 16), ("tile.rows", 1), ("threads", 1)];
    space.point(&values).unwrap()
}

/// The planted cost of a point: a valley with its floor at block 256, unroll 4, vectors of 32 bytes, 6 rows and 2 threads.
fn cost(point: &ParameterPoint) -> u64 {
    let steps = |name: &str, best: f64| (point.get(name).unwrap() as f64 / best).log2().abs();
    let penalty = 0.12 * steps("block_size", 256.0)
        + 0.10 * steps("unroll", 4.0)
        + 0.25 * steps("vector_bytes", 32.0)
        + 0.15 * steps("tile.rows", 6.0)
        + 0.70 * steps("threads", 2.0);
    (MICROSECOND as f64 * (1.0 + penalty)) as u64
}

fn search(
    noise: Noise,
    seed: u64,
    limits: &TuningLimits,
    fault: impl Fn(&ParameterPoint) -> Fault,
    cost: impl Fn(&ParameterPoint) -> u64,
) -> Tuning {
    let machine = FakeMachine::new(noise, seed);
    let mut kernel = |point: &ParameterPoint| -> Result<Box<dyn Measure>, MeasureFailure> {
        match fault(point) {
            Fault::DoesNotCompile => Err(MeasureFailure::does_not_compile("too many registers")),
            fault => Ok(Box::new(FakePath::new(&machine, cost(point)).with_fault(fault))),
        }
    };
    let space = space();
    let (mut probe, mut clock) = (FakeProbe(machine.clone()), FakeClock(machine.clone()));
    tune(&space, &default(&space), &mut kernel, &MeasurementPolicy::hot(), limits, &mut probe, &mut clock)
}

#[test]
fn the_best_point_is_found_with_a_part_of_the_measurements() {
    for noise in NOISES {
        let found = (0..6).map(|seed| {
            let limits = TuningLimits { seed, ..TuningLimits::default() };
            let tuning = search(noise, seed, &limits, |_| Fault::None, cost);
            let chosen = tuning.chosen.unwrap();
            assert!(tuning.points.len() <= limits.n_points, "{}", tuning.points.len());
            assert_eq!(tuning.end, TuningEnd::NoBetterNeighbour, "{noise:?}");
            cost(&chosen) as f64 / MICROSECOND as f64
        });
        let found: Vec<f64> = found.collect();
        let n_best = found.iter().filter(|&&ratio| ratio < 1.2).count();
        assert!(n_best >= 5, "{noise:?}: {found:?}");
    }
}

#[test]
fn a_default_that_is_best_stays() {
    let space = space();
    let default = default(&space);
    let best_cost = |point: &ParameterPoint| if *point == default { 900_000 } else { cost(point) };
    for noise in NOISES.into_iter().chain([Noise::EvenlyBimodal]) {
        let tuning = search(noise, 3, &TuningLimits::default(), |_| Fault::None, best_cost);
        assert_eq!(tuning.chosen.as_ref(), Some(&default), "{noise:?}");
    }
}

#[test]
fn points_that_fail_or_are_wrong_are_never_chosen() {
    // The fastest points are the ones that are wrong.
    let fault = |point: &ParameterPoint| match (point.get("unroll"), point.get("vector_bytes")) {
        (Some(4), _) => Fault::Wrong,
        (_, Some(32)) => Fault::DoesNotCompile,
        _ => Fault::None,
    };
    let tuning = search(Noise::None, 1, &TuningLimits::default(), fault, cost);
    let chosen = tuning.chosen.unwrap();
    assert_eq!(fault(&chosen), Fault::None, "{chosen}");
    assert!(cost(&chosen) < 1_600_000, "{chosen}: {}", cost(&chosen));
    let status = |point: &polyloom_graph::tune::TunedPoint| point.measurements[0].status;
    let statuses: Vec<MeasurementStatus> = tuning.points.iter().map(status).collect();
    assert!(statuses.contains(&MeasurementStatus::Wrong) && statuses.contains(&MeasurementStatus::DoesNotCompile));
    let reason = tuning.points.iter().find_map(|point| point.measurements[0].reason.clone());
    assert!(reason.is_some());
}

#[test]
fn limits_end_the_search_and_say_so() {
    let few = TuningLimits { n_first_points: 10, n_points: 11, ..TuningLimits::default() };
    let tuning = search(Noise::None, 1, &few, |_| Fault::None, cost);
    assert_eq!((tuning.points.len(), tuning.end), (11, TuningEnd::PointLimit));
    let short = TuningLimits { time: 100 * MILLISECOND, ..TuningLimits::default() };
    let tuning = search(Noise::None, 1, &short, |_| Fault::None, cost);
    assert_eq!(tuning.end, TuningEnd::TimeLimit);
    assert!(tuning.chosen.is_some());
    let tuning = search(Noise::None, 1, &TuningLimits::default(), |_| Fault::Wrong, cost);
    assert_eq!((tuning.chosen, tuning.end), (None, TuningEnd::NothingRuns));
}

#[test]
fn spaces_have_the_points_that_meet_their_constraints() {
    let space = space();
    let points = space.draw(usize::MAX, 1);
    // Counted by hand: of 20 pairs of block and unroll, 512 with 4 and 8 and 256 with 8 are out; all rows are below 16.
    assert_eq!((space.n_combinations(), points.len()), (720, 17 * 3 * 6 * 2));
    assert!(points.iter().all(|point| space.allows(point)));
    assert_eq!(space.draw(20, 7), space.draw(20, 7));
    assert_ne!(space.draw(20, 7), space.draw(20, 8));
    let edge = space
        .point(&[("block_size", 256), ("unroll", 4), ("vector_bytes", 16), ("tile.rows", 12), ("threads", 2)])
        .unwrap();
    let neighbours: Vec<String> = space.neighbours(&edge).iter().map(ToString::to_string).collect();
    assert_eq!(
        neighbours,
        [
            "block_size=128, unroll=4, vector_bytes=16, tile.rows=12, threads=2",
            "block_size=256, unroll=2, vector_bytes=16, tile.rows=12, threads=2",
            "block_size=256, unroll=4, vector_bytes=32, tile.rows=12, threads=2",
            "block_size=256, unroll=4, vector_bytes=16, tile.rows=8, threads=2",
            "block_size=256, unroll=4, vector_bytes=16, tile.rows=12, threads=1",
        ]
    );
    let values: &[i64] = &[1, 2, 3, 4, 5, 6, 7, 8];
    let large = ParameterSpace::new(&["a", "b", "c", "d", "e", "f"].map(|name| (name, values)));
    let large = large.with(ParameterConstraint::MultipleOf("a".into(), "b".into()));
    assert_eq!(large.draw(50, 1).len(), 50);
    assert!(large.draw(50, 1).iter().all(|point| point.get("a").unwrap() % point.get("b").unwrap() == 0));
    assert_eq!(space.point(&[("unroll", 3)]), None);
}
