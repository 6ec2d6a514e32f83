//! A device on a simulated clock, with planted costs, noise and faults.

use polyloom_graph::measure::{
    BatchTiming, EnvironmentObservation, EnvironmentProbe, Measure, MeasureFailure, MeasurementClock,
};
use polyloom_ir::generate::Random;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) const MICROSECOND: u64 = 1_000_000;
pub(crate) const MILLISECOND: u64 = 1000 * MICROSECOND;

/// What disturbs the machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Noise {
    /// Nothing.
    None,
    /// Another thread has the processor for 3 of each 8 milliseconds, about.
    Preemption,
    /// Another thread shares the core in bursts of 5 to 40 milliseconds, and all runs take 1.7 times as long meanwhile.
    SharedCore,
    /// One batch of 12 takes 3 to 30 times as long.
    Spikes,
    /// The clock falls slowly: all takes 1.5 times as long after a second.
    Drift,
    /// One batch of three is in a mode that is 1.3 times as slow.
    Bimodal,
    /// Half of the batches are in a mode that is 1.3 times as slow, so that the median is in none of them.
    EvenlyBimodal,
}

/// The noises in which a tenth can be seen.
pub(crate) const NOISES: [Noise; 6] =
    [Noise::None, Noise::Preemption, Noise::SharedCore, Noise::Spikes, Noise::Drift, Noise::Bimodal];

#[derive(Debug)]
struct MachineState {
    now: u64,
    waited: u64,
    noise: Noise,
    random: Random,
    /// The end of the burst or pause of another thread, and true if it is a burst.
    burst: (u64, bool),
    cpu_mhz: f64,
}

/// A machine whose clock moves by what runs on it alone.
#[derive(Clone, Debug)]
pub(crate) struct FakeMachine(Rc<RefCell<MachineState>>);

impl FakeMachine {
    pub(crate) fn new(noise: Noise, seed: u64) -> FakeMachine {
        let random = Random::new(seed);
        FakeMachine(Rc::new(RefCell::new(MachineState {
            now: 0,
            waited: 0,
            noise,
            random,
            burst: (0, true),
            cpu_mhz: 3000.0,
        })))
    }

    /// Changes the clock's frequency that the probe sees.
    pub(crate) fn set_cpu_mhz(&self, mhz: f64) {
        self.0.borrow_mut().cpu_mhz = mhz;
    }

    pub(crate) fn pass_time(&self, time: u64) {
        self.0.borrow_mut().now += time;
    }

    /// Runs for a time that noise makes longer.
    fn work(&self, time: u64) {
        let machine = &mut *self.0.borrow_mut();
        // Half a percent of jitter is in every machine.
        let mut factor = 1.0 + 0.005 * uniform(&mut machine.random);
        match machine.noise {
            Noise::None | Noise::Preemption | Noise::SharedCore => {}
            Noise::Spikes if machine.random.one_in(12) => factor *= 3.0 + 27.0 * uniform(&mut machine.random),
            Noise::Spikes => {}
            Noise::Drift => factor *= 1.0 + 0.5 * (machine.now as f64 / (1000 * MILLISECOND) as f64).min(1.0),
            Noise::Bimodal if machine.random.one_in(3) => factor *= 1.3,
            Noise::EvenlyBimodal if machine.random.one_in(2) => factor *= 1.3,
            Noise::Bimodal | Noise::EvenlyBimodal => {}
        }
        let mut left = (time as f64 * factor) as u64;
        while left > 0 {
            if machine.now >= machine.burst.0 {
                machine.toggle_burst();
            }
            let until_toggle = machine.burst.0 - machine.now;
            match (machine.noise, machine.burst.1) {
                (Noise::Preemption, true) => {
                    machine.now += until_toggle;
                    machine.waited += until_toggle;
                }
                (Noise::SharedCore, true) => {
                    let slow = (left as f64 * 1.7) as u64;
                    let step = slow.min(until_toggle).max(1);
                    machine.now += step;
                    left = left.saturating_sub((step as f64 / 1.7).ceil() as u64);
                }
                _ => {
                    let step = left.min(until_toggle);
                    machine.now += step;
                    left -= step;
                }
            }
        }
    }
}

impl MachineState {
    fn toggle_burst(&mut self) {
        let is_burst = !self.burst.1;
        let share = 0.5 + uniform(&mut self.random);
        let length = match (self.noise, is_burst) {
            (Noise::Preemption, true) => 3.0 * share,
            (Noise::Preemption, false) => 5.0 * share,
            (_, true) => 5.0 + 35.0 * (share - 0.5),
            (_, false) => 5.0 + 55.0 * (share - 0.5),
        };
        self.burst = (self.now + (length * MILLISECOND as f64) as u64, is_burst);
    }
}

fn uniform(random: &mut Random) -> f64 {
    random.below(1 << 20) as f64 / f64::from(1 << 20)
}

/// The machine as the harness's clock.
pub(crate) struct FakeClock(pub(crate) FakeMachine);

impl MeasurementClock for FakeClock {
    fn now(&mut self) -> u64 {
        let machine = &mut *self.0.0.borrow_mut();
        // Reading a clock takes a while.
        machine.now += 25_000;
        machine.now
    }
}

/// The machine as the harness's probe.
pub(crate) struct FakeProbe(pub(crate) FakeMachine);

impl EnvironmentProbe for FakeProbe {
    fn observe(&mut self) -> EnvironmentObservation {
        let cpu_mhz = Some(self.0.0.borrow().cpu_mhz);
        EnvironmentObservation { cpu_mhz, load: Some(2.0), ..EnvironmentObservation::default() }
    }

    fn time_waited(&mut self) -> Option<u64> {
        Some(self.0.0.borrow().waited)
    }
}

/// A planted fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// None.
    None,
    /// There is no code.
    DoesNotCompile,
    /// The result is wrong.
    Wrong,
    /// The result is wrong after so many runs.
    WrongAfter(u32),
    /// Nothing is written.
    WritesNothing,
    /// It fails after so many runs.
    FailsAfter(u32),
}

const RIGHT: u64 = 42;
const POISON: u64 = 0xdead;

/// A path with a planted cost and fault.
pub(crate) struct FakePath {
    pub(crate) machine: FakeMachine,
    /// What one run takes, in picoseconds.
    pub(crate) cost: u64,
    /// The runs that take five times as long, because the code is not yet compiled well.
    pub(crate) n_slow_runs: u32,
    pub(crate) fault: Fault,
    /// True if the path reports times by events.
    pub(crate) has_events: bool,
    pub(crate) n_runs: u32,
    pub(crate) n_flushes: u32,
    output: u64,
}

impl FakePath {
    pub(crate) fn new(machine: &FakeMachine, cost: u64) -> FakePath {
        FakePath {
            machine: machine.clone(),
            cost,
            n_slow_runs: 40,
            fault: Fault::None,
            has_events: false,
            n_runs: 0,
            n_flushes: 0,
            output: 0,
        }
    }

    pub(crate) fn with_fault(mut self, fault: Fault) -> FakePath {
        self.fault = fault;
        self
    }
}

impl Measure for FakePath {
    fn prepare(&mut self) -> Result<(), MeasureFailure> {
        self.machine.pass_time(MILLISECOND);
        match self.fault {
            Fault::DoesNotCompile => Err(MeasureFailure::does_not_compile("`fast` has no such intrinsic")),
            _ => Ok(()),
        }
    }

    fn poison_output(&mut self) -> Result<(), MeasureFailure> {
        self.output = POISON;
        Ok(())
    }

    fn flush_caches(&mut self) -> Result<(), MeasureFailure> {
        self.n_flushes += 1;
        self.machine.pass_time(MILLISECOND);
        Ok(())
    }

    fn run_batch(&mut self, n_runs: u32) -> Result<BatchTiming, MeasureFailure> {
        let n_slow = self.n_slow_runs.saturating_sub(self.n_runs).min(n_runs);
        self.n_runs += n_runs;
        let work = self.cost * u64::from(n_runs + 4 * n_slow);
        // The clock of the host sees a launch too, that of the device does not.
        self.machine.pass_time(if self.has_events { 10 * MICROSECOND } else { 0 });
        let start = self.machine.0.borrow().now;
        self.machine.work(work);
        let elapsed = self.machine.0.borrow().now - start;
        match self.fault {
            Fault::FailsAfter(n) if self.n_runs > n => return Err(MeasureFailure::failed("an illegal address")),
            Fault::WritesNothing => {}
            Fault::Wrong => self.output = RIGHT + 1,
            Fault::WrongAfter(n) if self.n_runs > n => self.output = RIGHT + 1,
            _ => self.output = RIGHT,
        }
        Ok(if self.has_events { BatchTiming::ByDevice(elapsed) } else { BatchTiming::ByClock })
    }

    fn check_output(&mut self) -> Result<(), MeasureFailure> {
        match self.output {
            RIGHT => Ok(()),
            POISON => Err(MeasureFailure::wrong("element 0 was not written")),
            other => Err(MeasureFailure::wrong(format!("element 0 is {other}, should be {RIGHT}"))),
        }
    }
}
