//! Measures, by chunks of ordinary launches, which of two ways to run threads is faster.
//!
//! Where the optimising back end's estimate cannot tell how many threads should run as lanes, it names candidates
//! ([`Backend::candidates`](polyloom_codegen::Backend::candidates)). A variant that stays hot in optimised code gets the
//! other candidate compiled as well, and a [`CandidateTrial`]: chunks take turns between both, each gives a sample of the
//! time that a thread takes, and the faster one is kept. Samples are atomics, because helpers record them at the same
//! time and a forked child goes on with its own copy of the trial.
//!
//! What is kept in the code cache is the samples; the winner is derived from them, so that a better rule needs no new
//! measurements. Design: `docs/design/cpu-strategies.md`.

use polyloom_codegen::KernelEntry;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Work in optimised code after which candidates are worth compiling and measuring.
pub(crate) const STAYS_HOT: Duration = Duration::from_millis(100);
/// Samples of each candidate in a complete trial, an odd number so that the median is one of them.
const MAX_SAMPLES: usize = 15;
/// Samples of each candidate from which on medians mean something: two of five may be disturbed.
const MIN_SAMPLES: usize = 5;
/// A rival that is so many times slower is given no more work.
const HOPELESS: f32 = 1.5;
/// Turns that end a trial which gets no samples, because otherwise half of the work would go to the rival for ever.
const MAX_TURNS: u32 = 4 * MAX_SAMPLES as u32;
/// Samples that one launch gives where it runs on one candidate: enough to leave a rival that is much slower, and not so
/// many that disturbances of one launch decide.
const SAMPLES_PER_LAUNCH: u32 = MIN_SAMPLES as u32;
/// Shortest chunk that is timed well enough.
const MIN_SAMPLE_NS: f32 = 2_000.0;
/// Longest chunk during a trial, which bounds what a slow rival costs.
pub(crate) const MAX_TRIAL_CHUNK_NS: f32 = 200_000.0;
/// Groups that a chunk has at least unless all of its groups are full, so that its end does not count for much.
const MIN_GROUPS: u64 = 8;

/// First bytes of stored samples: format and version.
const MAGIC: &[u8; 8] = b"PLtrial1";

/// The measurements of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CandidateSamples {
    /// Threads that run at a time.
    pub(crate) lanes: u32,
    /// Nanoseconds per thread, in the order in which they were measured.
    pub(crate) ns_per_thread: Vec<f32>,
}

/// A candidate, for people and tests to look at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CandidateInfo {
    /// Threads that run at a time.
    pub lanes: u32,
    /// The median of the samples in nanoseconds per thread; `None` if there are none.
    pub ns_per_thread: Option<f32>,
    /// Number of samples.
    pub n_samples: usize,
    /// True if it has been chosen; of candidates that are still being measured, none has.
    pub is_used: bool,
}

impl CandidateSamples {
    fn median(&self) -> Option<f32> {
        let mut sorted = self.ns_per_thread.clone();
        sorted.sort_by(f32::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

/// The candidate that the samples show to be faster; the first, which the model has chosen, where there are too few.
pub(crate) fn winner(samples: &[CandidateSamples; 2]) -> usize {
    let is_known = samples.iter().all(|of_one| of_one.ns_per_thread.len() >= MIN_SAMPLES);
    usize::from(is_known && samples[1].median() < samples[0].median())
}

/// The samples of candidates for people to look at, and which of them is used if that is decided.
pub(crate) fn infos(samples: &[CandidateSamples; 2], used: Option<usize>) -> [CandidateInfo; 2] {
    [0, 1].map(|index| CandidateInfo {
        lanes: samples[index].lanes,
        ns_per_thread: samples[index].median(),
        n_samples: samples[index].ns_per_thread.len(),
        is_used: used == Some(index),
    })
}

/// Samples as bytes, for the cache.
pub(crate) fn to_bytes(samples: &[CandidateSamples; 2]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for CandidateSamples { lanes, ns_per_thread } in samples {
        bytes.extend_from_slice(&lanes.to_le_bytes());
        bytes.extend_from_slice(&(ns_per_thread.len() as u32).to_le_bytes());
        ns_per_thread.iter().for_each(|ns| bytes.extend_from_slice(&ns.to_le_bytes()));
    }
    bytes
}

/// Reads what [`to_bytes`] has written; `None` for anything else.
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<[CandidateSamples; 2]> {
    let mut words = bytes.strip_prefix(MAGIC)?.chunks(4).map(|word| word.try_into().map(u32::from_le_bytes).ok());
    let mut next = || words.next().flatten();
    let mut read = || {
        let (lanes, n) = (next()?, next()?);
        let ns_per_thread =
            (0..n.min(MAX_SAMPLES as u32)).map(|_| next().map(f32::from_bits)).collect::<Option<_>>()?;
        Some(CandidateSamples { lanes, ns_per_thread })
    };
    let samples = [read()?, read()?];
    (words.next().is_none() && samples.iter().all(|of_one| (1..=64).contains(&of_one.lanes))).then_some(samples)
}

/// Two candidates, the model's choice first, and what is measured of them.
pub(crate) struct CandidateTrial {
    lanes: [u32; 2],
    entries: [KernelEntry; 2],
    /// Samples as the bits of an `f32`; 0 where there is none yet.
    samples: [[AtomicU32; MAX_SAMPLES]; 2],
    n_samples: [AtomicU32; 2],
    n_turns: AtomicU32,
    is_over: AtomicBool,
}

impl CandidateTrial {
    pub(crate) fn new(lanes: [u32; 2], entries: [KernelEntry; 2]) -> CandidateTrial {
        CandidateTrial {
            lanes,
            entries,
            samples: [const { [const { AtomicU32::new(0) }; MAX_SAMPLES] }; 2],
            n_samples: [const { AtomicU32::new(0) }; 2],
            n_turns: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns true until enough is known.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Returns true if so many threads, at about so many nanoseconds each, give a sample that means something for both.
    pub(crate) fn can_sample(&self, n_threads: u64, ns_per_thread: f32) -> bool {
        let lanes = u64::from(self.lanes[0].max(self.lanes[1]));
        let is_even = n_threads.is_multiple_of(lanes) || n_threads >= MIN_GROUPS * lanes;
        is_even && n_threads as f32 * ns_per_thread >= MIN_SAMPLE_NS
    }

    /// The candidate whose turn it is. The order is the Thue-Morse sequence, which has no period that chunks of a launch
    /// could be in step with. When turns are used up, it is the model's choice.
    pub(crate) fn take_turn(&self) -> usize {
        match self.n_turns.fetch_add(1, Ordering::Relaxed) {
            turn if turn < MAX_TURNS => (turn.count_ones() % 2) as usize,
            _ => 0,
        }
    }

    /// The code of a candidate.
    pub(crate) fn entry(&self, candidate: usize) -> KernelEntry {
        self.entries[candidate]
    }

    /// Notes how long a thread of a chunk took; gives whether enough is known now, once in a trial.
    pub(crate) fn record(&self, candidate: usize, ns_per_thread: f32) -> bool {
        // A chunk that was under way when the trial ended is no sample, because those in the cache are without it.
        if !self.is_running() {
            return false;
        }
        let index = self.n_samples[candidate].fetch_add(1, Ordering::Relaxed) as usize;
        if let Some(sample) = self.samples[candidate].get(index) {
            // Otherwise it would be taken for none.
            sample.store(ns_per_thread.max(f32::MIN_POSITIVE).to_bits(), Ordering::Relaxed);
        }
        let samples = self.samples();
        let is_complete = samples.iter().all(|of_one| of_one.ns_per_thread.len() == MAX_SAMPLES);
        let is_exhausted = self.n_turns.load(Ordering::Relaxed) >= MAX_TURNS;
        (is_complete || is_exhausted || is_hopeless(&samples)) && !self.is_over.swap(true, Ordering::Relaxed)
    }

    /// Returns true if the rival has been found to be much slower, so that even a launch that it runs leaves it.
    pub(crate) fn is_rejected(&self, candidate: usize) -> bool {
        candidate == 1 && !self.is_running() && is_hopeless(&self.samples())
    }

    /// Returns true if a launch that has given so many samples is to give more.
    pub(crate) fn wants_more_of_launch(n_given: u32) -> bool {
        n_given < SAMPLES_PER_LAUNCH
    }

    /// The samples so far.
    pub(crate) fn samples(&self) -> [CandidateSamples; 2] {
        [0, 1].map(|index| {
            let bits = self.samples[index].iter().map(|sample| sample.load(Ordering::Relaxed));
            let ns_per_thread = bits.filter(|&bits| bits != 0).map(f32::from_bits).collect();
            CandidateSamples { lanes: self.lanes[index], ns_per_thread }
        })
    }
}

/// Returns true if the rival is so much slower that more samples would only cost time.
fn is_hopeless(samples: &[CandidateSamples; 2]) -> bool {
    let is_known = samples.iter().all(|of_one| of_one.ns_per_thread.len() >= MIN_SAMPLES);
    let [Some(chosen), Some(rival)] = [samples[0].median(), samples[1].median()] else { return false };
    is_known && rival > HOPELESS * chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_codegen::LaunchContext;

    unsafe extern "C" fn nothing(_: *const u8, _: *const LaunchContext, _: u64, _: u64) {}

    fn trial() -> CandidateTrial {
        CandidateTrial::new([8, 1], [nothing, nothing])
    }

    /// Runs a trial in which candidates take these times, one for each turn in order, and gives the number of turns.
    fn run(trial: &CandidateTrial, mut ns: impl FnMut(usize, u32) -> f32) -> u32 {
        let is_over = |turn: &u32| {
            let candidate = trial.take_turn();
            trial.record(candidate, ns(candidate, *turn))
        };
        (0..1000).find(is_over).expect("the trial ends") + 1
    }

    #[test]
    fn the_faster_one_wins_however_many_chunks_are_disturbed_now_and_then() {
        for faster in [0, 1] {
            let trial = trial();
            let disturbance = |turn: u32| if turn.is_multiple_of(5) { 20.0 } else { 1.0 };
            let turns = run(&trial, |candidate, turn| disturbance(turn) * if candidate == faster { 3.0 } else { 4.0 });
            assert!(turns <= MAX_TURNS && !trial.is_running());
            assert_eq!(winner(&trial.samples()), faster);
        }
    }

    #[test]
    fn a_much_slower_rival_gets_few_turns_and_a_much_slower_choice_of_the_model_a_whole_trial() {
        let hopeless = trial();
        let turns = run(&hopeless, |candidate, _| [1.0, 9.0][candidate]);
        assert!(turns <= 2 * MIN_SAMPLES as u32 + 2, "{turns} turns");
        assert!(hopeless.is_rejected(1) && !hopeless.is_rejected(0));
        let reversed = trial();
        run(&reversed, |candidate, _| [9.0, 1.0][candidate]);
        assert_eq!(infos(&reversed.samples(), None).map(|info| info.n_samples), [MAX_SAMPLES; 2]);
        assert_eq!(winner(&reversed.samples()), 1);
    }

    #[test]
    fn too_few_samples_leave_the_choice_to_the_model() {
        let trial = trial();
        (0..MIN_SAMPLES - 1).for_each(|_| assert!(!trial.record(0, 5.0) && !trial.record(1, 1.0)));
        assert_eq!(winner(&trial.samples()), 0);
    }

    #[test]
    fn chunks_of_parts_of_groups_are_no_samples() {
        let trial = trial();
        assert!(trial.can_sample(64, 100.0) && trial.can_sample(1001, 100.0));
        assert!(!trial.can_sample(63, 100.0) && !trial.can_sample(1, 1e6) && !trial.can_sample(64, 1.0));
    }

    #[test]
    fn samples_are_read_as_they_were_written_and_nothing_else_is() {
        let trial = trial();
        run(&trial, |candidate, turn| candidate as f32 + turn as f32);
        let samples = trial.samples();
        let bytes = to_bytes(&samples);
        assert_eq!(from_bytes(&bytes), Some(samples));
        (0..bytes.len()).for_each(|n| assert_eq!(from_bytes(&bytes[..n]), None, "{n} bytes"));
        assert_eq!(from_bytes(&[&bytes[..], &[0; 4]].concat()), None);
    }
}
