//! Fat binaries, which hold a program's code for several architectures: PTX and machine code. A driver loads the part that
//! fits its GPU best.
//!
//! NVIDIA does not document the layout. It is as the tool `fatbinary` writes it and as ZLUDA and cuda-fatbin-decompression
//! read it: a header of 16 bytes, and then the parts, each with a header of 64 bytes or more and its code. This is the one
//! description of it, for those who write fat binaries and for drivers that load them.

use polyloom_ir::{Arch, ArchVariant};

/// Begins a fat binary: `0xba55ed50`, the version 1, and the bytes of the header.
const MAGIC: [u8; 8] = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
/// Bytes at the beginning of a fat binary that say how many it has.
pub const FAT_HEADER_BYTES: usize = 16;
/// Bytes of the fields that the header of a part begins with.
const PART_HEADER: usize = 64;
/// Code takes a multiple of as many bytes.
const ALIGN: usize = 8;

/// Places of fields in the header of a part.
mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const HEADER_BYTES: usize = 4;
    pub(super) const CODE_BYTES: usize = 8;
    pub(super) const COMPRESSED_BYTES: usize = 16;
    pub(super) const ARCH: usize = 28;
    pub(super) const FLAGS: usize = 40;
    pub(super) const PLAIN_BYTES: usize = 56;
}

/// Bits of the flags of a part.
mod flag {
    /// Code with addresses of 64 bits, for Linux, as all of ours is.
    pub(super) const OF_HOST: u64 = 0x11;
    pub(super) const LZ4: u64 = 0x2000;
    pub(super) const ZSTD: u64 = 0x8000;
    /// For one architecture alone, `sm_90a`.
    pub(super) const SPECIFIC: u64 = 0x10_0000;
    /// For the architectures of a family, `sm_100f`.
    pub(super) const FAMILY: u64 = 0x20_0000;
}

/// The kind of a part's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FatCode {
    /// PTX text.
    Ptx,
    /// Machine code, an ELF file.
    Cubin,
}

impl FatCode {
    fn number(self) -> u16 {
        match self {
            FatCode::Ptx => 1,
            FatCode::Cubin => 2,
        }
    }
}

/// Names how the code of a part is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FatCompression {
    /// A block of LZ4.
    Lz4,
    /// A frame of Zstandard.
    Zstd,
}

/// A part of a fat binary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FatPart<'a> {
    /// The kind of its code; absent for one that is not known here.
    pub code: Option<FatCode>,
    /// The number of the architecture that it is for, which may be older than any of [`Arch`].
    pub number: u32,
    /// Says which architectures besides run it.
    pub variant: ArchVariant,
    /// Holds how the bytes are compressed, if they are.
    pub compression: Option<FatCompression>,
    /// Counts the bytes once they are decompressed; 0 if they are not compressed.
    pub n_plain_bytes: u64,
    /// The code, with the zero bytes after it.
    pub bytes: &'a [u8],
}

impl FatPart<'_> {
    /// Returns true if GPUs of an architecture run it: machine code is for the generation that it was made for.
    pub fn runs_on(&self, arch: Arch) -> bool {
        let number = u32::from(arch.number());
        let is_same_generation = number / 10 == self.number / 10;
        match (self.variant, self.code) {
            (ArchVariant::Specific, _) => number == self.number,
            (ArchVariant::Family, _) | (ArchVariant::Portable, Some(FatCode::Cubin)) => {
                is_same_generation && number >= self.number
            }
            (ArchVariant::Portable, _) => number >= self.number,
        }
    }
}

/// A little-endian number of at most eight bytes; zero past the end.
fn number_at(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = bytes.get(at..).and_then(|rest| rest.get(..size)) {
        word[..size].copy_from_slice(found);
    }
    u64::from_le_bytes(word)
}

/// A number of bytes; more than there can be if it has no place in memory.
fn size_at(bytes: &[u8], at: usize, size: usize) -> usize {
    usize::try_from(number_at(bytes, at, size)).unwrap_or(usize::MAX)
}

/// Returns true if bytes begin as a fat binary does.
pub fn is_fat_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC[..4])
}

/// The bytes that a fat binary has, by its first [`FAT_HEADER_BYTES`].
pub fn fat_binary_size(header: &[u8]) -> usize {
    size_at(header, 6, 2).saturating_add(size_at(header, 8, 8))
}

/// The parts of a fat binary, as far as they are whole.
pub fn fat_parts(bytes: &[u8]) -> Vec<FatPart<'_>> {
    let mut parts = Vec::new();
    let (mut at, end) = (size_at(bytes, 6, 2), bytes.len().min(fat_binary_size(bytes)));
    while let Some(part) = bytes.get(at..end).filter(|part| part.len() >= PART_HEADER) {
        let (header, size) = (size_at(part, field::HEADER_BYTES, 4), size_at(part, field::CODE_BYTES, 8));
        let Some(whole) = part.get(header..).and_then(|rest| rest.get(..size)) else { break };
        let flags = number_at(part, field::FLAGS, 8);
        let compression = match flags {
            _ if flags & flag::LZ4 != 0 => Some(FatCompression::Lz4),
            _ if flags & flag::ZSTD != 0 => Some(FatCompression::Zstd),
            _ => None,
        };
        let n_compressed = size_at(part, field::COMPRESSED_BYTES, 4);
        let kind = number_at(part, field::KIND, 2);
        parts.push(FatPart {
            code: [FatCode::Ptx, FatCode::Cubin].into_iter().find(|code| u64::from(code.number()) == kind),
            number: number_at(part, field::ARCH, 4) as u32,
            variant: match flags {
                _ if flags & flag::SPECIFIC != 0 => ArchVariant::Specific,
                _ if flags & flag::FAMILY != 0 => ArchVariant::Family,
                _ => ArchVariant::Portable,
            },
            compression,
            n_plain_bytes: number_at(part, field::PLAIN_BYTES, 8),
            bytes: compression.and_then(|_| whole.get(..n_compressed)).unwrap_or(whole),
        });
        if header + size == 0 {
            break;
        }
        at += header + size;
    }
    parts
}

/// Writes a fat binary.
#[derive(Clone, Default, Debug)]
pub struct FatBinaryWriter {
    parts: Vec<u8>,
}

impl FatBinaryWriter {
    /// Makes one without parts.
    pub fn new() -> FatBinaryWriter {
        FatBinaryWriter::default()
    }

    /// Adds PTX, for GPUs of an architecture and, unless it is a variant, of later ones.
    pub fn add_ptx(&mut self, arch: Arch, ptx: &str) {
        let (major, minor) = ptx_version(ptx);
        self.add(FatCode::Ptx, arch, (major, minor), ptx.as_bytes());
    }

    /// Adds a cubin for GPUs of an architecture.
    pub fn add_cubin(&mut self, arch: Arch, cubin: &[u8]) {
        // The version of its interface, as the ELF header has it.
        let version = |at: usize| cubin.get(at).copied().unwrap_or(0).into();
        self.add(FatCode::Cubin, arch, (version(6), version(8)), cubin);
    }

    fn add(&mut self, code: FatCode, arch: Arch, (major, minor): (u16, u16), bytes: &[u8]) {
        // PTX has a zero byte at least after it, and options of its compiler, of which there are none.
        let (options, n_bytes) = match code {
            FatCode::Ptx => (PART_HEADER as u32, (bytes.len() + 1).next_multiple_of(ALIGN)),
            FatCode::Cubin => (0, bytes.len().next_multiple_of(ALIGN)),
        };
        let header = PART_HEADER as u32 + if options == 0 { 0 } else { 16 };
        let variant = match arch.variant() {
            ArchVariant::Portable => 0,
            ArchVariant::Family => flag::FAMILY,
            ArchVariant::Specific => flag::SPECIFIC,
        };
        let part = &mut self.parts;
        let begin = part.len();
        part.extend(code.number().to_le_bytes());
        part.extend([1, 1]);
        part.extend(header.to_le_bytes());
        part.extend((n_bytes as u64).to_le_bytes());
        part.extend([0; 4]);
        part.extend(options.to_le_bytes());
        part.extend(minor.to_le_bytes());
        part.extend(major.to_le_bytes());
        part.extend(u32::from(arch.number()).to_le_bytes());
        part.extend([0; 8]);
        part.extend((flag::OF_HOST | variant).to_le_bytes());
        part.extend([0; 16]);
        if options != 0 {
            // Where their text is, and its length.
            part.extend((options + 8).to_le_bytes());
            part.extend([0; 12]);
        }
        part.extend(bytes);
        part.resize(begin + header as usize + n_bytes, 0);
    }

    /// The fat binary.
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.parts.len() as u64).to_le_bytes());
        debug_assert_eq!(bytes.len(), FAT_HEADER_BYTES, "the header has two words");
        bytes.extend(self.parts);
        bytes
    }
}

/// The version of PTX that a text says it is; 0.0 if it says none.
fn ptx_version(ptx: &str) -> (u16, u16) {
    let said = ptx.lines().find_map(|line| line.trim_start().strip_prefix(".version"));
    let (major, minor) = said.and_then(|version| version.split_once('.')).unwrap_or_default();
    let number = |text: &str| {
        let digits: String = text.trim().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    (number(major), number(minor))
}
