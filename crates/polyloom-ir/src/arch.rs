//! NVIDIA GPU architectures: their names, what PTX version each needs, and how much of everything a block may use.
//!
//! The limits are those of "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide 13.0;
//! the PTX versions those of the release history in PTX ISA 9.0 §13.

use crate::diagnostic::near_names;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

/// A version of PTX.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PtxVersion {
    /// Before the point.
    pub major: u8,
    /// After it.
    pub minor: u8,
}

impl PtxVersion {
    /// The versions that LLVM 22 writes and that know an architecture of ours, in order.
    pub const ALL: [PtxVersion; 22] = [
        ptx(6, 3),
        ptx(6, 4),
        ptx(6, 5),
        ptx(7, 0),
        ptx(7, 1),
        ptx(7, 2),
        ptx(7, 3),
        ptx(7, 4),
        ptx(7, 5),
        ptx(7, 6),
        ptx(7, 7),
        ptx(7, 8),
        ptx(8, 0),
        ptx(8, 1),
        ptx(8, 2),
        ptx(8, 3),
        ptx(8, 4),
        ptx(8, 5),
        ptx(8, 6),
        ptx(8, 7),
        ptx(8, 8),
        ptx(9, 0),
    ];
}

const fn ptx(major: u8, minor: u8) -> PtxVersion {
    PtxVersion { major, minor }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for PtxVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<PtxVersion, String> {
        let version = text
            .split_once('.')
            .and_then(|(major, minor)| Some(PtxVersion { major: major.parse().ok()?, minor: minor.parse().ok()? }));
        version.ok_or_else(|| format!("`{text}` is no PTX version; they look like `8.0`"))
    }
}

/// Describes what code for an architecture may rely on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum ArchVariant {
    /// What every later architecture has too.
    #[default]
    Portable,
    /// `f`: what the later architectures of its family have too.
    Family,
    /// `a`: all that this one has; runs on no other.
    Specific,
}

impl ArchVariant {
    fn suffix(self) -> &'static str {
        match self {
            ArchVariant::Portable => "",
            ArchVariant::Family => "f",
            ArchVariant::Specific => "a",
        }
    }
}

/// Describes what a block and a multiprocessor have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArchLimits {
    /// Shared memory a block may use without asking, in bytes: also the most that static arrays may take.
    pub static_shared_bytes: u32,
    /// Shared memory a block may use when its launch asks for it, in bytes.
    pub opt_in_shared_bytes: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub multiprocessor_shared_bytes: u32,
    /// Shared memory that the system takes of each block, in bytes.
    pub reserved_shared_bytes: u32,
    /// Threads in a block.
    pub threads_per_block: u32,
    /// Threads of a block along each axis.
    pub block_dim: [u32; 3],
    /// Blocks of a grid along each axis.
    pub grid_dim: [u32; 3],
    /// Threads that are resident on a multiprocessor at once.
    pub threads_per_multiprocessor: u32,
    /// Blocks that are resident on a multiprocessor at once.
    pub blocks_per_multiprocessor: u32,
    /// 32-bit registers of a multiprocessor, and of a block.
    pub registers: u32,
    /// 32-bit registers of a thread.
    pub registers_per_thread: u32,
}

/// Threads in a warp.
pub const WARP_SIZE: u32 = 32;

/// Most threads in a block, on every architecture and on the CPU.
pub const MAX_BLOCK_SIZE: u32 = 1024;

/// Bytes of constant memory that a module can have.
pub const CONSTANT_BYTES: u32 = 64 * 1024;

/// A row of the table: number, the version of PTX that introduced it, bytes of shared memory of a multiprocessor and
/// how many of them a block cannot have, resident threads and blocks.
struct ArchRow {
    number: u16,
    ptx: PtxVersion,
    shared_kib: u32,
    reserved_kib: u32,
    threads: u32,
    blocks: u32,
}

const fn row(number: u16, version: (u8, u8), shared: (u32, u32), threads: u32, blocks: u32) -> ArchRow {
    let ptx = ptx(version.0, version.1);
    ArchRow { number, ptx, shared_kib: shared.0, reserved_kib: shared.1, threads, blocks }
}

/// The guide has no column for 8.8; it is given the least that an architecture of its generation has.
const TABLE: [ArchRow; 12] = [
    row(75, (6, 3), (64, 0), 1024, 16),
    row(80, (7, 0), (164, 1), 2048, 32),
    row(86, (7, 1), (100, 1), 1536, 16),
    row(87, (7, 4), (164, 1), 1536, 16),
    row(88, (9, 0), (100, 1), 1536, 16),
    row(89, (7, 8), (100, 1), 1536, 24),
    row(90, (7, 8), (228, 1), 2048, 32),
    row(100, (8, 6), (228, 1), 2048, 32),
    row(103, (8, 8), (228, 1), 2048, 32),
    row(110, (9, 0), (228, 1), 1536, 24),
    row(120, (8, 7), (100, 1), 1536, 24),
    row(121, (8, 8), (100, 1), 1536, 24),
];

/// A GPU architecture: `sm_75` to `sm_121`, and their variants `a` and `f`.
///
/// ```
/// use polyloom_ir::Arch;
///
/// let arch: Arch = "sm_90a".parse().unwrap();
/// assert_eq!((arch.number(), arch.to_string().as_str()), (90, "sm_90a"));
/// assert_eq!(arch.ptx_version().to_string(), "8.0");
/// assert_eq!(arch.limits().opt_in_shared_bytes, 232_448);
/// assert!("sm_91".parse::<Arch>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Arch {
    number: u16,
    variant: ArchVariant,
}

impl Arch {
    /// The least that is supported, `sm_75`.
    pub const OLDEST: Arch = Arch { number: 75, variant: ArchVariant::Portable };

    /// Holds what code is for unless another is asked for, `sm_80`.
    pub const DEFAULT: Arch = Arch { number: 80, variant: ArchVariant::Portable };

    /// The architecture of this number without a variant, if there is one.
    pub fn of_number(number: u16) -> Option<Arch> {
        Arch { number, variant: ArchVariant::Portable }.row().map(|row| Arch::portable(row.number))
    }

    const fn portable(number: u16) -> Arch {
        Arch { number, variant: ArchVariant::Portable }
    }

    /// Every architecture in every variant, oldest first.
    pub fn all() -> impl Iterator<Item = Arch> {
        TABLE.iter().flat_map(|row| {
            let has = |variant| match variant {
                ArchVariant::Portable => true,
                ArchVariant::Family => row.number >= 100,
                ArchVariant::Specific => row.number >= 90,
            };
            let variants = [ArchVariant::Portable, ArchVariant::Family, ArchVariant::Specific];
            variants.into_iter().filter(move |&v| has(v)).map(|variant| Arch { number: row.number, variant })
        })
    }

    /// Its number: 90 for `sm_90` and `sm_90a`, ten times the compute capability.
    pub fn number(self) -> u16 {
        self.number
    }

    /// Returns which variant it is.
    pub fn variant(self) -> ArchVariant {
        self.variant
    }

    /// The same architecture without its variant.
    pub fn base(self) -> Arch {
        Arch::portable(self.number)
    }

    /// Returns true if it has all that code for `least` may need: the number must not be less, the variant must fit.
    pub fn includes(self, least: Arch) -> bool {
        match least.variant {
            ArchVariant::Portable => self.number >= least.number,
            ArchVariant::Family => {
                self.variant != ArchVariant::Portable
                    && self.number / 10 == least.number / 10
                    && self.number >= least.number
            }
            ArchVariant::Specific => self == least,
        }
    }

    /// The least version of PTX that knows it.
    pub fn ptx_version(self) -> PtxVersion {
        let known = self.row().map_or(ptx(9, 0), |row| row.ptx);
        match self.variant {
            ArchVariant::Specific if self.number == 90 => ptx(8, 0),
            ArchVariant::Family => known.max(ptx(8, 8)),
            _ => known,
        }
    }

    /// Returns what a block and a multiprocessor have.
    pub fn limits(self) -> ArchLimits {
        let row = self.row().unwrap_or(&TABLE[0]);
        ArchLimits {
            static_shared_bytes: 48 * 1024,
            opt_in_shared_bytes: (row.shared_kib - row.reserved_kib) * 1024,
            multiprocessor_shared_bytes: row.shared_kib * 1024,
            reserved_shared_bytes: row.reserved_kib * 1024,
            threads_per_block: MAX_BLOCK_SIZE,
            block_dim: [MAX_BLOCK_SIZE, MAX_BLOCK_SIZE, 64],
            grid_dim: [i32::MAX as u32, 65_535, 65_535],
            threads_per_multiprocessor: row.threads,
            blocks_per_multiprocessor: row.blocks,
            registers: 65_536,
            registers_per_thread: 255,
        }
    }

    fn row(self) -> Option<&'static ArchRow> {
        TABLE.iter().find(|row| row.number == self.number)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, self.variant.suffix())
    }
}

/// A name that is no architecture's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no architecture `{name}`; {hint}")]
pub struct UnknownArch {
    /// The name.
    pub name: String,
    /// Holds what to type instead.
    pub hint: String,
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(name: &str) -> Result<Arch, UnknownArch> {
        static NAMES: LazyLock<Vec<(String, Arch)>> =
            LazyLock::new(|| Arch::all().map(|arch| (arch.to_string(), arch)).collect());
        if let Some((_, arch)) = NAMES.iter().find(|(known, _)| known == name) {
            return Ok(*arch);
        }
        // Spellings that people type for it: the number alone, the virtual architecture, the name before CUDA 13.
        let number = name.trim_start_matches("compute_").trim_start_matches("sm").trim_start_matches('_');
        let respelled = format!(
            "sm_{}",
            if number.starts_with("101") { number.replacen("101", "110", 1) } else { number.to_owned() }
        );
        let mut near: Vec<&str> = NAMES.iter().map(|(known, _)| known.as_str()).filter(|k| *k == respelled).collect();
        if near.is_empty() {
            near = near_names(name, NAMES.iter().map(|(known, _)| known.as_str()));
        }
        let hint = match near.is_empty() {
            true => "the supported ones are sm_75 to sm_121".to_owned(),
            false => format!("did you mean `{}`?", near.join("` or `")),
        };
        Err(UnknownArch { name: name.to_owned(), hint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for arch in Arch::all() {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        assert_eq!(Arch::all().count(), 12 + 5 + 6);
    }

    #[test]
    fn misspelled_names_get_the_near_ones() {
        let hint = |name: &str| name.parse::<Arch>().unwrap_err().hint;
        assert_eq!(hint("90"), "did you mean `sm_90`?");
        assert_eq!(hint("sm90a"), "did you mean `sm_90a`?");
        assert_eq!(hint("compute_80"), "did you mean `sm_80`?");
        assert_eq!(hint("sm_101a"), "did you mean `sm_110a`?");
        assert_eq!(hint("gfx1100"), "the supported ones are sm_75 to sm_121");
    }

    #[test]
    fn code_runs_on_later_architectures_unless_it_is_of_a_variant() {
        let arch = |name: &str| name.parse::<Arch>().unwrap();
        assert!(arch("sm_90").includes(arch("sm_80")));
        assert!(!arch("sm_75").includes(arch("sm_80")));
        assert!(!arch("sm_90").includes(arch("sm_90a")));
        assert!(arch("sm_103a").includes(arch("sm_100f")));
        assert!(!arch("sm_110a").includes(arch("sm_100f")));
        assert!(!arch("sm_103a").includes(arch("sm_100a")));
    }

    /// Figures of the programming guide's table, typed in from there.
    #[test]
    fn shared_memory_is_that_of_the_programming_guide() {
        let bytes = |name: &str| name.parse::<Arch>().unwrap().limits().opt_in_shared_bytes;
        let expected = [
            ("sm_75", 65_536),
            ("sm_80", 166_912),
            ("sm_86", 101_376),
            ("sm_87", 166_912),
            ("sm_89", 101_376),
            ("sm_90", 232_448),
            ("sm_100", 232_448),
            ("sm_103", 232_448),
            ("sm_110", 232_448),
            ("sm_120", 101_376),
            ("sm_121", 101_376),
        ];
        for (name, expected) in expected {
            assert_eq!(bytes(name), expected, "{name}");
        }
    }
}
