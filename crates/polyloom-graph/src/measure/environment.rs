//! Observations of the machine around a measurement: clocks and background load.

use std::fs::read_to_string;

/// An observation of the machine at one moment. Fields that the system does not tell are absent.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct EnvironmentObservation {
    /// The clock of the fastest processor in MHz. A busy one is the fastest, and it is the one that measures.
    pub cpu_mhz: Option<f64>,
    /// The clock of the GPU's multiprocessors in MHz.
    pub gpu_mhz: Option<f64>,
    /// The runnable threads of the whole machine, the measuring one among them.
    pub load: Option<f64>,
    /// The temperature of the device in degrees Celsius.
    pub temperature: Option<f64>,
}

/// A source of observations.
pub trait EnvironmentProbe {
    /// Looks at the machine.
    fn observe(&mut self) -> EnvironmentObservation;

    /// Returns how long this thread has waited for a processor since it began, in picoseconds, where the system tells. It is asked
    /// before and after each sample, outside of the timed part.
    fn time_waited(&mut self) -> Option<u64>;
}

/// Linux's `/proc` and `/sys`. On other systems everything is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxProbe;

impl EnvironmentProbe for LinuxProbe {
    fn observe(&mut self) -> EnvironmentObservation {
        EnvironmentObservation {
            cpu_mhz: read_cpu_mhz(),
            gpu_mhz: None,
            load: read_to_string("/proc/loadavg").ok().and_then(|text| parse_load(&text)),
            temperature: read_number("/sys/class/thermal/thermal_zone0/temp").map(|millidegrees| millidegrees / 1000.0),
        }
    }

    fn time_waited(&mut self) -> Option<u64> {
        parse_time_waited(&read_to_string("/proc/thread-self/schedstat").ok()?)
    }
}

fn read_number(path: &str) -> Option<f64> {
    read_to_string(path).ok()?.trim().parse().ok()
}

/// Reads the frequency driver's figures, in kHz, or, without such a driver, what `/proc/cpuinfo` says.
fn read_cpu_mhz() -> Option<f64> {
    let by_driver = (0..1024).map_while(|cpu| {
        read_number(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")).map(|khz| khz / 1000.0)
    });
    let fastest = by_driver.reduce(f64::max);
    fastest.or_else(|| parse_cpu_mhz(&read_to_string("/proc/cpuinfo").ok()?))
}

fn parse_cpu_mhz(cpuinfo: &str) -> Option<f64> {
    let clocks = cpuinfo.lines().filter(|line| line.starts_with("cpu MHz"));
    clocks.filter_map(|line| line.split(':').nth(1)?.trim().parse().ok()).reduce(f64::max)
}

/// Parses the fourth field of `/proc/loadavg`, `runnable/all`.
fn parse_load(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// Parses the second field of `schedstat`, the nanoseconds spent on a run queue.
fn parse_time_waited(schedstat: &str) -> Option<u64> {
    let nanoseconds: u64 = schedstat.split_whitespace().nth(1)?.parse().ok()?;
    nanoseconds.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::{parse_cpu_mhz, parse_load, parse_time_waited};

    #[test]
    fn files_of_the_system_are_read() {
        assert_eq!(parse_load("0.20 0.18 0.12 3/80 11206\n"), Some(3.0));
        assert_eq!(
            parse_cpu_mhz("processor\t: 0\ncpu MHz\t\t: 2596.141\nprocessor\t: 1\ncpu MHz\t\t: 3100.5\n"),
            Some(3100.5)
        );
        assert_eq!(parse_time_waited("1204 55051 17\n"), Some(55_051_000));
        assert_eq!((parse_load(""), parse_cpu_mhz("flags: fpu"), parse_time_waited("x y")), (None, None, None));
    }
}
