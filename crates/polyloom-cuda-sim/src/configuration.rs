//! The settings of the simulated device, which the environment holds. `polyloom gpu run` sets these variables.

use polyloom_ir::Arch;
use polyloom_ptx::Sanitizers;
use std::path::PathBuf;

/// The device, and how kernels run on it.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// `POLYLOOM_GPU_ARCH`: `sm_86` unless it is set. Compilers emit nothing for that which the simulator lacks.
    pub(crate) arch: Arch,
    /// `POLYLOOM_GPU_SANITIZE`: checks by their names.
    pub(crate) sanitize: Sanitizers,
    /// `POLYLOOM_GPU_LIMIT`: the most instructions that the threads of one launch may execute.
    pub(crate) limit: Option<u64>,
    /// `POLYLOOM_GPU_MEMORY`: bytes that the device has.
    pub(crate) memory_bytes: usize,
    /// `POLYLOOM_GPU_THREADS`: threads of the host that run blocks.
    pub(crate) n_threads: usize,
    /// `POLYLOOM_GPU_REPORT`: a file that gets a line for each kernel and each finding.
    pub(crate) report: Option<PathBuf>,
    /// `POLYLOOM_GPU_FAIL`: calls that fail, such as `cuMemAlloc:3=2` for the third allocation with error 2.
    pub(crate) failures: Vec<PlannedFailure>,
    /// Holds the settings that could not be read.
    pub(crate) complaints: Vec<String>,
}

/// A call that fails because a test wants it to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlannedFailure {
    /// The name of the call, without its version.
    pub(crate) call: String,
    /// Counts the calls of that name, from one.
    pub(crate) number: u64,
    /// The error.
    pub(crate) error: i32,
}

const MEMORY_BYTES: usize = 16 << 30;

impl Configuration {
    pub(crate) fn of_environment() -> Configuration {
        Configuration::new(|name| std::env::var(name).ok())
    }

    fn new(variable: impl Fn(&str) -> Option<String>) -> Configuration {
        let mut complaints = Vec::new();
        let read = |name: &str| variable(name).filter(|text| !text.is_empty());
        let mut parsed = |name: &str, parse: &mut dyn FnMut(&str) -> Result<(), String>| {
            if let Some(text) = read(name)
                && let Err(why) = parse(&text)
            {
                complaints.push(format!("{name}={text}: {why}"));
            }
        };
        let mut made = Configuration {
            arch: Arch::of_number(86).unwrap_or(Arch::DEFAULT),
            sanitize: Sanitizers::default(),
            limit: None,
            memory_bytes: MEMORY_BYTES,
            n_threads: std::thread::available_parallelism().map_or(1, usize::from),
            report: None,
            failures: Vec::new(),
            complaints: Vec::new(),
        };
        parsed("POLYLOOM_GPU_ARCH", &mut |text| {
            made.arch = text.parse().map_err(|why| format!("{why}"))?;
            Ok(())
        });
        parsed("POLYLOOM_GPU_SANITIZE", &mut |text| {
            made.sanitize = text.parse().map_err(|why| format!("{why}"))?;
            Ok(())
        });
        parsed("POLYLOOM_GPU_LIMIT", &mut |text| {
            made.limit = Some(quantity(text)?);
            Ok(())
        });
        parsed("POLYLOOM_GPU_MEMORY", &mut |text| {
            made.memory_bytes = quantity(text)? as usize;
            Ok(())
        });
        parsed("POLYLOOM_GPU_THREADS", &mut |text| {
            made.n_threads = (quantity(text)? as usize).clamp(1, 256);
            Ok(())
        });
        parsed("POLYLOOM_GPU_REPORT", &mut |text| {
            made.report = Some(text.into());
            Ok(())
        });
        parsed("POLYLOOM_GPU_FAIL", &mut |text| {
            made.failures = text.split(',').map(planned).collect::<Result<_, _>>()?;
            Ok(())
        });
        made.complaints = complaints;
        made
    }
}

/// A whole number, also as `2e9`.
fn quantity(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok();
    let power = || text.parse::<f64>().ok().filter(|number| (0.0..1e18).contains(number) && number.fract() == 0.0);
    number.or_else(|| power().map(|number| number as u64)).ok_or_else(|| "a whole number is wanted".to_owned())
}

fn planned(text: &str) -> Result<PlannedFailure, String> {
    let parts = text.split_once('=').and_then(|(which, error)| {
        let (call, number) = which.split_once(':').unwrap_or((which, "1"));
        Some(PlannedFailure { call: call.to_owned(), number: number.parse().ok()?, error: error.parse().ok()? })
    });
    parts.ok_or_else(|| "a call, its number and an error are wanted, as in `cuMemAlloc:3=2`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Configuration {
        Configuration::new(|name| variables.iter().find(|(each, _)| *each == name).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn an_empty_environment_is_a_plain_device() {
        let plain = read(&[]);
        assert_eq!((plain.arch.number(), plain.limit, plain.sanitize), (86, None, Sanitizers::default()));
        assert!(plain.complaints.is_empty() && plain.n_threads >= 1);
    }

    #[test]
    fn variables_are_read_and_wrong_ones_are_named() {
        let all = read(&[
            ("POLYLOOM_GPU_ARCH", "sm_90"),
            ("POLYLOOM_GPU_SANITIZE", "all,no-async"),
            ("POLYLOOM_GPU_LIMIT", "2e9"),
            ("POLYLOOM_GPU_MEMORY", "1048576"),
            ("POLYLOOM_GPU_FAIL", "cuMemAlloc:3=2,cuLaunchKernel=719"),
        ]);
        assert_eq!((all.arch.number(), all.limit, all.memory_bytes), (90, Some(2_000_000_000), 1 << 20));
        assert!(all.sanitize.races && !all.sanitize.async_copies);
        let failure = |call: &str, number, error| PlannedFailure { call: call.to_owned(), number, error };
        assert_eq!(all.failures, [failure("cuMemAlloc", 3, 2), failure("cuLaunchKernel", 1, 719)]);
        let wrong = read(&[("POLYLOOM_GPU_ARCH", "sm_3"), ("POLYLOOM_GPU_LIMIT", "many")]);
        assert_eq!(wrong.complaints.len(), 2, "{:?}", wrong.complaints);
        assert!(wrong.complaints[1].starts_with("POLYLOOM_GPU_LIMIT=many: "), "{:?}", wrong.complaints);
    }
}
