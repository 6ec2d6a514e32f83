//! Measures how long single calls take: histograms of calls, taken on one core, beside calls of a function that does nothing.
//!
//! What a machine adds to calls (interrupts, other processes, the clock itself) shows in the calls of the empty function,
//! which take turns with the others. Times are ticks of the processor's own counter, where it has one that a program can
//! read in a few nanoseconds; otherwise nanoseconds of the system's clock.

pub use crate::cpu::affinity::{AffinityGuard, allowed_cores, current_core};

use std::ffi::{CStr, CString, c_void};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// A function that is measured: it takes a block of arguments and the extents of a launch, and returns a status.
pub type MeasuredEntry = unsafe extern "C" fn(args: *const u8, extents: *const i64) -> i32;

/// Calls of one function that follow each other before another has its turn.
const TURN: u64 = 5_000;
/// Calls at the beginning of a turn that are not counted, because the other functions have taken its place in caches.
const WARM_UP: u64 = 64;
/// Times up to this many ticks have a bucket each.
const SINGLE: u64 = 4_096;
/// Buckets for each factor of two above.
const PER_OCTAVE: u64 = 64;

/// Counts of calls by the ticks they took: exact up to some thousand, to 2 % above.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    n_calls: u64,
    least: u64,
    most: u64,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        let n_buckets = SINGLE + (u64::from(u64::BITS) - u64::from(SINGLE.ilog2())) * PER_OCTAVE;
        LatencyHistogram { counts: vec![0; n_buckets as usize], n_calls: 0, least: u64::MAX, most: 0 }
    }
}

fn bucket(ticks: u64) -> usize {
    if ticks < SINGLE {
        return ticks as usize;
    }
    let octave = ticks.ilog2();
    let within = (ticks >> (octave - PER_OCTAVE.ilog2())) & (PER_OCTAVE - 1);
    (SINGLE + u64::from(octave - SINGLE.ilog2()) * PER_OCTAVE + within) as usize
}

/// The greatest number of ticks that a bucket counts.
fn bucket_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SINGLE {
        return bucket;
    }
    let (octave, within) = ((bucket - SINGLE) / PER_OCTAVE, (bucket - SINGLE) % PER_OCTAVE);
    let unit = SINGLE.ilog2() + octave as u32 - PER_OCTAVE.ilog2();
    ((PER_OCTAVE + within + 1) << unit).wrapping_sub(1)
}

impl LatencyHistogram {
    /// Counts a call.
    #[inline]
    pub fn add(&mut self, ticks: u64) {
        self.counts[bucket(ticks)] += 1;
        self.n_calls += 1;
        self.least = self.least.min(ticks);
        self.most = self.most.max(ticks);
    }

    /// The number of calls.
    pub fn n_calls(&self) -> u64 {
        self.n_calls
    }

    /// The ticks of the longest call.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The ticks of the shortest call; 0 if there are no calls.
    pub fn least(&self) -> u64 {
        if self.n_calls == 0 { 0 } else { self.least }
    }

    /// The ticks of a call on average, of this part of the calls, the shortest: where a counter goes up in steps, their
    /// average tells more than a quantile.
    pub fn mean(&self, part: f64) -> f64 {
        let wanted = ((part * self.n_calls as f64).ceil() as u64).clamp(1, self.n_calls.max(1));
        let (mut seen, mut sum) = (0, 0.0);
        for (index, &count) in self.counts.iter().enumerate() {
            let count = count.min(wanted - seen);
            sum += count as f64 * bucket_end(index).min(self.most) as f64;
            seen += count;
            if seen == wanted {
                break;
            }
        }
        sum / wanted as f64
    }

    /// The ticks that this part of the calls did not exceed: 0.999 for the 99.9th percentile.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (part * self.n_calls as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return bucket_end(index).min(self.most);
            }
        }
        self.most
    }

    /// The number of calls that took more than `above` ticks and at most `up_to`.
    pub fn count(&self, above: u64, up_to: u64) -> u64 {
        let within = self.counts.iter().enumerate().filter(|(index, _)| {
            let end = bucket_end(*index).min(self.most);
            end > above && end <= up_to
        });
        within.map(|(_, count)| count).sum()
    }
}

/// The counter that calls are measured with.
#[derive(Clone, Copy, Debug)]
pub struct TickClock {
    /// Nanoseconds of a tick.
    pub ns_per_tick: f64,
}

impl TickClock {
    /// Finds out how long a tick is, which takes some milliseconds.
    pub fn calibrated() -> TickClock {
        if !cfg!(target_arch = "x86_64") {
            return TickClock { ns_per_tick: 1.0 };
        }
        let (begin, first) = (Instant::now(), begin_ticks());
        while begin.elapsed() < Duration::from_millis(30) {}
        let (ticks, elapsed) = (end_ticks() - first, begin.elapsed());
        TickClock { ns_per_tick: elapsed.as_nanos() as f64 / ticks.max(1) as f64 }
    }

    /// Ticks in nanoseconds.
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }
}

/// The counter before a call: what came before has finished, and nothing of the call has begun.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn begin_ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has both instructions (SSE2).
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// The counter after a call: the call has finished.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn end_ticks() -> u64 {
    use std::arch::x86_64::{__rdtscp, _mm_lfence};
    let mut core = 0;
    // SAFETY: processors that run this code have the instruction, as all since 2008 do.
    unsafe {
        let ticks = __rdtscp(&raw mut core);
        _mm_lfence();
        ticks
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn begin_ticks() -> u64 {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(not(target_arch = "x86_64"))]
fn end_ticks() -> u64 {
    begin_ticks()
}

/// A function with its arguments.
#[derive(Clone, Copy)]
pub struct MeasuredCall {
    /// The function.
    pub entry: MeasuredEntry,
    /// Its block of arguments.
    pub args: *const u8,
    /// The extents of its launch.
    pub extents: *const i64,
}

unsafe extern "C" fn do_nothing(_: *const u8, _: *const i64) -> i32 {
    0
}

impl MeasuredCall {
    /// A call of a function that does nothing.
    pub fn empty() -> MeasuredCall {
        MeasuredCall { entry: do_nothing, args: std::ptr::null(), extents: std::ptr::null() }
    }
}

/// Calls each function `n_calls` times, in turns, and counts how long each call takes. Calls whose status is not 0 end it.
///
/// # Errors
///
/// The number of the function that failed, and its status.
///
/// # Safety
///
/// The functions may be called with these arguments as often as that.
pub unsafe fn measure(calls: &[MeasuredCall], n_calls: u64) -> Result<Vec<LatencyHistogram>, (usize, i32)> {
    let mut measured = vec![LatencyHistogram::default(); calls.len()];
    let mut left = n_calls;
    while left > 0 {
        let turn = left.min(TURN);
        for (index, (call, histogram)) in calls.iter().zip(&mut measured).enumerate() {
            let MeasuredCall { entry, args, extents } = *call;
            let entry = black_box(entry);
            for _ in 0..WARM_UP {
                // SAFETY: the caller vouches for the call.
                let status = unsafe { entry(args, extents) };
                if status != 0 {
                    return Err((index, status));
                }
            }
            for _ in 0..turn {
                let begin = begin_ticks();
                // SAFETY: as above.
                let status = unsafe { entry(args, extents) };
                let ticks = end_ticks().wrapping_sub(begin);
                if black_box(status) != 0 {
                    return Err((index, status));
                }
                histogram.add(ticks);
            }
        }
        left -= turn;
    }
    Ok(measured)
}

/// A function of a shared library, which stays loaded until the process ends.
#[cfg(unix)]
pub fn library_function(path: &Path, name: &str) -> Result<MeasuredEntry, String> {
    let path = path.canonicalize().map_err(|error| format!("cannot find {}: {error}", path.display()))?;
    let text = |text: &str| CString::new(text).map_err(|_| format!("`{text}` is no name"));
    let library = text(&path.to_string_lossy())?;
    // SAFETY: loading runs what the library does then, which whoever names it answers for. Both strings end in a zero.
    let symbol = unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            return Err(last_error());
        }
        libc::dlsym(handle, text(name)?.as_ptr())
    };
    if symbol.is_null() {
        return Err(format!("{} has no function `{name}`", path.display()));
    }
    // SAFETY: whoever names the function says that it is of this type.
    Ok(unsafe { std::mem::transmute::<*mut c_void, MeasuredEntry>(symbol) })
}

/// Holds what the loader says.
#[cfg(unix)]
fn last_error() -> String {
    // SAFETY: the loader's text is valid until its next call on this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { "cannot load it".to_owned() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

#[cfg(not(unix))]
pub fn library_function(_: &Path, _: &str) -> Result<MeasuredEntry, String> {
    Err("shared libraries are loaded on Unix alone".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_ends_at_or_after_it() {
        for ticks in (0..10_000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX]) {
            let index = bucket(ticks);
            assert!(bucket_end(index) >= ticks, "{ticks}");
            assert!(index == 0 || bucket_end(index - 1) < ticks, "{ticks}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_calls() {
        let mut histogram = LatencyHistogram::default();
        (1..=1000).for_each(|ticks| histogram.add(ticks));
        assert_eq!([0.5, 0.9, 0.999, 1.0].map(|part| histogram.quantile(part)), [500, 900, 999, 1000]);
        assert_eq!((histogram.least(), histogram.most(), histogram.n_calls()), (1, 1000, 1000));
        assert_eq!((histogram.count(0, 10), histogram.count(990, 5000)), (10, 10));
        assert!((histogram.mean(1.0) - 500.5).abs() < 1e-9);
        assert!((histogram.mean(0.5) - 250.5).abs() < 1e-9);
    }

    #[test]
    fn a_status_ends_a_measurement() {
        unsafe extern "C" fn fail(_: *const u8, _: *const i64) -> i32 {
            3
        }
        let failing = MeasuredCall { entry: fail, ..MeasuredCall::empty() };
        // SAFETY: neither function looks at its arguments.
        let [measured, failed] =
            unsafe { [measure(&[MeasuredCall::empty()], 6000), measure(&[MeasuredCall::empty(), failing], 10)] };
        assert_eq!(measured.expect("it does nothing")[0].n_calls(), 6000);
        assert_eq!(failed.expect_err("it fails"), (1, 3));
    }
}
