//! Facts about a machine, as far as they matter for speed, and the fingerprint of those that do.
//!
//! Everything is read from `/proc` and `/sys`. The crate knows no CUDA and no Python: GPUs and versions of libraries are
//! facts that the caller adds.

use crate::{ContentHash, record::json};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The version of the fingerprint's rules, which is hashed with the facts.
const FINGERPRINT_VERSION: u32 = 1;

/// Instruction sets that code is compiled for. Kernels name more flags with every release, and a fingerprint that
/// changes with the kernel makes every measurement a miss.
const FEATURES: &[&str] = &[
    "sse4_1",
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "bmi1",
    "bmi2",
    "avx512f",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512vl",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "avx_vnni",
    "amx_bf16",
    "amx_int8",
    "amx_tile",
    "asimd",
    "asimdhp",
    "asimddp",
    "sve",
    "sve2",
    "i8mm",
    "bf16",
    "sme",
];

/// Describes a CPU.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuFacts {
    /// The instruction set, such as `x86_64`.
    pub architecture: String,
    /// The model's name, as the CPU gives it.
    pub model: String,
    /// Instruction sets that compilers use, in order.
    pub features: Vec<String>,
    /// Counts the sockets.
    pub n_sockets: u64,
    /// Counts the physical cores of the machine.
    pub n_cores: u64,
    /// Counts the hardware threads of the machine.
    pub n_threads: u64,
    /// Counts the threads that this process may use: affinity and the limits of a container count.
    pub n_usable_threads: u64,
    /// The caches of the first core.
    pub caches: Vec<CacheFacts>,
    /// The governor of the first core's frequency, empty where the system shows none.
    pub governor: String,
    /// The highest frequency in MHz, 0 where the system shows none.
    pub max_mhz: u64,
}

/// Describes a cache.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheFacts {
    /// Its level, from 1.
    pub level: u64,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// Counts the hardware threads that share it.
    pub n_threads: u64,
}

/// Describes a GPU. Whoever has a driver gives it, because this crate has none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFacts {
    /// The model's name.
    pub name: String,
    /// Its memory.
    pub memory_bytes: u64,
    /// The driver's version.
    pub driver: String,
    /// The version of CUDA that the driver has.
    pub cuda: String,
    /// Its compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Counts its multiprocessors.
    pub n_multiprocessors: u64,
    /// The highest clock of its multiprocessors in MHz.
    pub max_mhz: u64,
    /// The highest clock of its memory in MHz.
    pub max_memory_mhz: u64,
}

/// Describes the operating system.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemFacts {
    /// Its name, such as `linux`.
    pub name: String,
    /// The distribution with its version, as it calls itself.
    pub distribution: String,
    /// The version of the kernel.
    pub kernel: String,
    /// Says how transparent huge pages are given, empty where the system shows nothing.
    pub huge_pages: String,
}

/// Hardware and software, as far as they are known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineFacts {
    /// The CPU.
    pub cpu: CpuFacts,
    /// The memory of the machine.
    pub memory_bytes: u64,
    /// Counts the NUMA nodes.
    pub n_numa_nodes: u64,
    /// The GPUs in the driver's order.
    pub gpus: Vec<GpuFacts>,
    /// The operating system.
    pub system: SystemFacts,
    /// Versions of libraries that paths call, such as `numpy`. Polyloom's own belongs not here: a trace has the hash of
    /// its code.
    pub libraries: BTreeMap<String, String>,
}

impl MachineFacts {
    /// Reads what this machine's system shows. What it does not show is empty or 0; nothing here fails.
    ///
    /// ```
    /// let facts = polyloom_store::MachineFacts::sniff();
    /// assert_eq!(facts.cpu.architecture, std::env::consts::ARCH);
    /// assert!(facts.cpu.n_usable_threads >= 1);
    /// ```
    pub fn sniff() -> MachineFacts {
        let n_usable = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        MachineFacts::sniff_under(Path::new("/"), n_usable)
    }

    fn sniff_under(root: &Path, n_usable_threads: u64) -> MachineFacts {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default().trim().to_owned();
        let number = |path: &str| read(path).parse::<u64>().unwrap_or_default();
        let processors = read("proc/cpuinfo");
        let cpu0 = "sys/devices/system/cpu/cpu0";
        let memory = read("proc/meminfo");
        let kib = field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let release = read("etc/os-release");
        let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let nodes = list(&read("sys/devices/system/node/online")).len() as u64;
        let threads = all_fields(&processors, "processor").len() as u64;
        let cores: BTreeSet<_> = processors
            .split("\n\n")
            .filter_map(|each| Some((field(each, "physical id")?, field(each, "core id")?)))
            .collect();
        let sockets: BTreeSet<_> = cores.iter().map(|(socket, _)| socket).collect();
        // In "always [madvise] never" the word in brackets is in force.
        let huge_pages = read("sys/kernel/mm/transparent_hugepage/enabled");
        let huge_pages = huge_pages.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
        MachineFacts {
            cpu: CpuFacts {
                architecture: std::env::consts::ARCH.to_owned(),
                model: model(&processors),
                features: features(&processors),
                n_sockets: sockets.len().max(1) as u64,
                n_cores: if cores.is_empty() { threads } else { cores.len() as u64 },
                n_threads: threads,
                n_usable_threads,
                caches: (0..8).filter_map(|index| cache(&read, &format!("{cpu0}/cache/index{index}"))).collect(),
                governor: read(&format!("{cpu0}/cpufreq/scaling_governor")),
                max_mhz: number(&format!("{cpu0}/cpufreq/cpuinfo_max_freq")) / 1000,
            },
            memory_bytes: kib.unwrap_or_default() * 1024,
            n_numa_nodes: nodes.max(1),
            gpus: gpus(root, &read),
            system: SystemFacts {
                name: std::env::consts::OS.to_owned(),
                distribution: pretty.unwrap_or_default().trim_matches('"').to_owned(),
                kernel: read("proc/sys/kernel/osrelease"),
                huge_pages,
            },
            libraries: BTreeMap::new(),
        }
    }

    /// Returns the hash of what matters for speed: the CPU with its features, threads, caches and governor, NUMA nodes,
    /// GPUs with driver and clocks, how huge pages are given, versions of libraries. Versions of the kernel and of the
    /// distribution are not in it, nor is the size of memory, which differs by some pages from boot to boot.
    pub fn fingerprint(&self) -> ContentHash {
        let MachineFacts { cpu, memory_bytes: _, n_numa_nodes, gpus, system, libraries } = self;
        let matters = (FINGERPRINT_VERSION, cpu, n_numa_nodes, gpus, (&system.name, &system.huge_pages), libraries);
        ContentHash::of(json(&matters).as_bytes())
    }
}

/// Returns the value of `name : value` in the lines of a file of `/proc`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    all_fields(text, name).first().copied()
}

fn all_fields<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(|(each, _)| each.trim() == name).map(|(_, value)| value.trim()).collect()
}

fn model(processors: &str) -> String {
    if let Some(name) = field(processors, "model name") {
        return name.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    // Arm's cores have numbers.
    let parts = ["CPU implementer", "CPU part", "CPU variant", "CPU revision"];
    parts.iter().filter_map(|name| field(processors, name)).collect::<Vec<_>>().join(" ")
}

/// Returns the GPUs that NVIDIA's driver shows in `/proc`, in the order of their places: their names and the driver's version. Reading it starts no
/// driver.
fn gpus(root: &Path, read: &impl Fn(&str) -> String) -> Vec<GpuFacts> {
    let folder = "proc/driver/nvidia/gpus";
    let places = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let mut places: Vec<String> = places.filter_map(|place| place.file_name().into_string().ok()).collect();
    places.sort();
    // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue ...": the version is the first word of digits and points.
    let version = read("proc/driver/nvidia/version");
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let driver = version.lines().next().unwrap_or_default().split_whitespace().find(is_version).unwrap_or_default();
    let of_place = |place: &String| {
        let name = field(&read(&format!("{folder}/{place}/information")), "Model")?.to_owned();
        Some(GpuFacts { name, driver: driver.to_owned(), ..GpuFacts::default() })
    };
    places.iter().filter_map(of_place).collect()
}

fn features(processors: &str) -> Vec<String> {
    let flags = field(processors, "flags").or_else(|| field(processors, "Features")).unwrap_or_default();
    let flags: BTreeSet<&str> = flags.split_whitespace().filter(|flag| FEATURES.contains(flag)).collect();
    flags.into_iter().map(str::to_owned).collect()
}

fn cache(read: &impl Fn(&str) -> String, folder: &str) -> Option<CacheFacts> {
    let level = read(&format!("{folder}/level")).parse().ok()?;
    let size = read(&format!("{folder}/size"));
    let (digits, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len()));
    let scale = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 1,
    };
    let n_threads = list(&read(&format!("{folder}/shared_cpu_list"))).len() as u64;
    Some(CacheFacts {
        level,
        kind: read(&format!("{folder}/type")),
        bytes: digits.parse::<u64>().ok()?.saturating_mul(scale),
        n_threads,
    })
}

/// Reads `0-3,8` as the kernel writes sets of processors and nodes. A set is cut after so many members.
fn list(text: &str) -> Vec<u64> {
    const MAX_MEMBERS: usize = 1 << 16;
    let ranges = text.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<u64>().ok()?..=last.trim().parse::<u64>().ok()?)
    });
    ranges.flatten().take(MAX_MEMBERS).collect()
}

#[cfg(test)]
mod tests {
    use super::{CacheFacts, GpuFacts, MachineFacts};
    use std::path::Path;

    fn machine(root: &Path) -> MachineFacts {
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mut processors = String::new();
        for thread in 0..8 {
            processors += &format!(
                "processor\t: {thread}\nmodel name\t: Fast  CPU  9000\nflags\t\t: fpu avx2 avx fma newflag\nphysical id\t: \
                 {}\ncore id\t\t: {}\n\n",
                thread / 4,
                thread % 4 / 2
            );
        }
        write("proc/cpuinfo", &processors);
        write("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 5 kB\n");
        write("proc/sys/kernel/osrelease", "6.1.0\n");
        write("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian 12\"\n");
        write("sys/devices/system/node/online", "0-1\n");
        write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        let version =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\nGCC version: gcc 12.2.0\n";
        write("proc/driver/nvidia/version", version);
        write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 5\n");
        let cpu0 = "sys/devices/system/cpu/cpu0";
        write(&format!("{cpu0}/cpufreq/scaling_governor"), "powersave\n");
        write(&format!("{cpu0}/cpufreq/cpuinfo_max_freq"), "3500000\n");
        for (file, text) in [("level", "3"), ("type", "Unified"), ("size", "32768K"), ("shared_cpu_list", "0-3")] {
            write(&format!("{cpu0}/cache/index0/{file}"), text);
        }
        MachineFacts::sniff_under(root, 6)
    }

    #[test]
    fn facts_are_those_that_the_system_shows() {
        let root = tempfile::tempdir().unwrap();
        let facts = machine(root.path());
        let cpu = &facts.cpu;
        assert_eq!((&*cpu.model, &*cpu.governor, cpu.max_mhz), ("Fast CPU 9000", "powersave", 3500));
        assert_eq!(cpu.features, ["avx", "avx2", "fma"]);
        assert_eq!((cpu.n_sockets, cpu.n_cores, cpu.n_threads, cpu.n_usable_threads), (2, 4, 8, 6));
        assert_eq!(cpu.caches, [CacheFacts { level: 3, kind: "Unified".to_owned(), bytes: 32 << 20, n_threads: 4 }]);
        assert_eq!((facts.memory_bytes, facts.n_numa_nodes), (1 << 30, 2));
        assert_eq!((&*facts.system.distribution, &*facts.system.kernel), ("Debian 12", "6.1.0"));
        assert_eq!(facts.system.huge_pages, "madvise");
        let gpu = GpuFacts { name: "NVIDIA H200".to_owned(), driver: "580.95.05".to_owned(), ..GpuFacts::default() };
        assert_eq!(facts.gpus, [gpu]);
    }

    #[test]
    fn a_system_that_shows_nothing_has_a_fingerprint() {
        let facts = MachineFacts::sniff_under(Path::new("/nowhere"), 2);
        assert_eq!((facts.cpu.n_sockets, facts.n_numa_nodes, facts.memory_bytes), (1, 1, 0));
        assert_eq!(facts.fingerprint(), MachineFacts::sniff_under(Path::new("/nowhere"), 2).fingerprint());
    }

    #[test]
    fn the_fingerprint_changes_with_what_matters_for_speed_alone() {
        let root = tempfile::tempdir().unwrap();
        let facts = machine(root.path());
        let is_same = |change: &dyn Fn(&mut MachineFacts)| {
            let mut changed = facts.clone();
            change(&mut changed);
            changed.fingerprint() == facts.fingerprint()
        };
        assert!(is_same(&|facts| facts.system.kernel = "6.2".to_owned()));
        assert!(is_same(&|facts| facts.system.distribution = "Debian 13".to_owned()));
        assert!(is_same(&|facts| facts.memory_bytes += 4096));
        assert!(!is_same(&|facts| facts.cpu.governor = "performance".to_owned()));
        assert!(!is_same(&|facts| facts.cpu.n_usable_threads = 1));
        assert!(!is_same(&|facts| facts.gpus.push(GpuFacts { name: "H200".to_owned(), ..GpuFacts::default() })));
        assert!(!is_same(&|facts| {
            facts.libraries.insert("numpy".to_owned(), "2.3".to_owned());
        }));
    }
}
