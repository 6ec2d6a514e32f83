//! The processor this process runs on, as compilers and measurements need to know it.

use polyloom_codegen::vector_bytes;
use serde::Serialize;
use std::fs;
use std::sync::OnceLock;

/// A processor: what tells the speed of code, and which code it can run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Processor {
    /// The maker's name for it; empty where the system does not say.
    pub name: String,
    /// The architecture, as Rust calls it: `x86_64`, `aarch64`.
    pub architecture: &'static str,
    /// Number of threads that it runs at once, those that this process may use.
    pub n_threads: usize,
    /// Extensions of its instruction set, by the names that LLVM's `target-features` has.
    pub features: Vec<&'static str>,
    /// Bytes in its widest vector register that code should use ([`vector_bytes`]).
    pub vector_bytes: u32,
    /// The caches of its first core, from the nearest on; empty where the system does not say.
    pub caches: Vec<ProcessorCache>,
}

/// A cache of a processor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ProcessorCache {
    /// 1 for the nearest.
    pub level: u8,
    /// `Data`, `Instruction` or `Unified`, as Linux calls it.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u32,
}

/// Lists those of these features that the processor has.
macro_rules! detected {
    ($detect:ident: $($name:tt)*) => {
        [$(($name, std::arch::$detect!($name))),*].into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    };
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    detected!(is_x86_feature_detected:
        "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "movbe"
        "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16")
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<&'static str> {
    detected!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "bf16" "i8mm" "sve" "sve2" "lse")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

impl Processor {
    /// Returns this machine's, which is looked at once in a process.
    pub fn host() -> &'static Processor {
        static HOST: OnceLock<Processor> = OnceLock::new();
        HOST.get_or_init(|| {
            let features = features();
            let vector_bytes = vector_bytes(|name| features.contains(&name));
            let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
            let architecture = std::env::consts::ARCH;
            Processor { name: name(), architecture, n_threads, features, vector_bytes, caches: caches() }
        })
    }

    /// Returns the features as LLVM's `target-features` takes them: `+avx2,+fma`.
    pub fn target_features(&self) -> String {
        self.features.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(",")
    }

    /// Returns the number of elements of so many bytes that one vector register holds.
    pub fn vector_lanes(&self, element_bytes: u32) -> u32 {
        (self.vector_bytes / element_bytes.max(1)).max(1)
    }
}

/// The maker's name, as Linux gives it.
fn name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    named.map_or_else(String::new, |(_, name)| name.trim().to_owned())
}

/// The caches of the first core, as Linux lists them.
fn caches() -> Vec<ProcessorCache> {
    let folder = "/sys/devices/system/cpu/cpu0/cache";
    let read = |index: u32, what: &str| {
        fs::read_to_string(format!("{folder}/index{index}/{what}")).ok().map(|text| text.trim().to_owned())
    };
    let cache = |index| {
        Some(ProcessorCache {
            level: read(index, "level")?.parse().ok()?,
            kind: read(index, "type")?,
            bytes: size(&read(index, "size")?)?,
            line_bytes: read(index, "coherency_line_size")?.parse().ok()?,
        })
    };
    (0..).map_while(cache).collect()
}

/// Reads a size as Linux writes it: `48K`, `2M`.
fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1 << 20)),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::{Processor, size};

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(["48K", "2M", "64", "K", "1G"].map(size), [Some(49152), Some(2 << 20), Some(64), None, None]);
    }

    #[test]
    fn a_processor_holds_what_its_widest_register_does() {
        let host = Processor::host();
        assert!(host.n_threads >= 1 && host.vector_bytes >= 16);
        assert_eq!(host.vector_lanes(4), host.vector_bytes / 4);
        let features = host.target_features();
        assert!(host.features.iter().all(|name| features.contains(&format!("+{name}"))), "{features}");
    }
}
