//! Images of modules: PTX text, and fat binaries that hold PTX for one or several architectures.

use crate::pointers::{In, host_bytes, text_at};
use crate::status::CudaError;
use polyloom_ir::Arch;
use polyloom_ptx::syntax::ast::{ModuleItem, PtxAst, SymbolLinkage};
use polyloom_ptx::{Module, PtxError};
use std::collections::BTreeSet;

/// Begins a fat binary.
const FAT_MAGIC: u32 = 0xba55_ed50;
/// Begins the struct by which programs of nvcc name a fat binary: the magic, a version and its address.
const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// Begins machine code.
const ELF_MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");

/// Says why an image cannot be loaded: the driver's error, and what it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ImageError {
    pub(crate) error: CudaError,
    pub(crate) reason: String,
}

fn refused(error: CudaError, reason: impl Into<String>) -> ImageError {
    ImageError { error, reason: reason.into() }
}

/// The message for an image of machine code, which the simulator cannot run.
const NO_PTX: &str = "the module is machine code of a GPU, and this driver runs PTX: have the compiler put PTX into it \
                      (nvcc: -gencode arch=compute_80,code=compute_80)";

/// The PTX text of an image at an address of the host's. Its kind and size are in it.
pub(crate) fn ptx_at(address: usize, arch: Arch) -> Result<String, ImageError> {
    if address == 0 {
        return Err(refused(CudaError::INVALID_VALUE, "there is no module"));
    }
    // Text has a zero byte after it, which is among the first four of an empty one.
    let first = host_bytes(address, 1)[0];
    let magic = match first {
        0x50 | 0x7f | 0xb1 => In::<u32>::at(address).get().map_err(|error| refused(error, "there is no module"))?,
        _ => 0,
    };
    match magic {
        ELF_MAGIC => Err(refused(CudaError::NO_BINARY_FOR_GPU, NO_PTX)),
        FAT_MAGIC => ptx_of_fat_binary(fat_binary_at(address), arch),
        WRAPPER_MAGIC => {
            let inner = In::<usize>::at(address + 8).get().map_err(|error| refused(error, "there is no module"))?;
            ptx_at(inner, arch)
        }
        _ => text_at(address).map_err(|_| refused(CudaError::INVALID_IMAGE, "the module is no text")),
    }
}

/// The PTX text of an image of known size.
pub(crate) fn ptx_of(bytes: &[u8], arch: Arch) -> Result<String, ImageError> {
    let magic = bytes.first_chunk().map_or(0, |first| u32::from_le_bytes(*first));
    match magic {
        ELF_MAGIC => Err(refused(CudaError::NO_BINARY_FOR_GPU, NO_PTX)),
        FAT_MAGIC => ptx_of_fat_binary(bytes, arch),
        _ => as_text(bytes),
    }
}

fn as_text(bytes: &[u8]) -> Result<String, ImageError> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]);
    text.map(str::to_owned).map_err(|_| refused(CudaError::INVALID_IMAGE, "the module is no text"))
}

/// The bytes of a fat binary, whose header says how many there are.
fn fat_binary_at<'a>(address: usize) -> &'a [u8] {
    let header = host_bytes(address, 16);
    let length = number(header, 6, 2) + number(header, 8, 8);
    host_bytes(address, usize::try_from(length).unwrap_or(16))
}

/// A little-endian number of at most eight bytes; zero past the end.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut word = [0; 8];
    let range = bytes.get(at..).and_then(|rest| rest.get(..size));
    range.inspect(|range| word[..size].copy_from_slice(range));
    u64::from_le_bytes(word)
}

/// A part of a fat binary. The layout is not documented: it is as ZLUDA and cuda-fatbin-decompression have it.
struct FatPart<'a> {
    is_ptx: bool,
    arch: u64,
    flags: u64,
    /// Bytes once decompressed, if they are compressed.
    n_bytes: u64,
    payload: &'a [u8],
}

impl FatPart<'_> {
    const PTX: u64 = 1;
    const LZ4: u64 = 0x2000;
    const ZSTD: u64 = 0x8000;

    fn text(&self) -> Result<String, ImageError> {
        let room = usize::try_from(self.n_bytes).unwrap_or(0);
        let damaged = || refused(CudaError::INVALID_IMAGE, "the compressed PTX of the fat binary is damaged");
        match self.flags {
            flags if flags & Self::LZ4 != 0 => as_text(&decompress_lz4(self.payload, room).ok_or_else(damaged)?),
            flags if flags & Self::ZSTD != 0 => {
                as_text(&zstd::bulk::decompress(self.payload, room).map_err(|_| damaged())?)
            }
            _ => as_text(self.payload),
        }
    }
}

fn parts(bytes: &[u8]) -> Vec<FatPart<'_>> {
    let mut parts = Vec::new();
    let mut at = number(bytes, 6, 2) as usize;
    let end = bytes.len().min(at.saturating_add(number(bytes, 8, 8) as usize));
    while at + 64 <= end {
        let part = &bytes[at..end];
        let (header, size) = (number(part, 4, 4) as usize, number(part, 8, 8) as usize);
        let Some(whole) = part.get(header..).and_then(|rest| rest.get(..size)) else { break };
        let (compressed, flags) = (number(part, 16, 4) as usize, number(part, 40, 8));
        let is_compressed = flags & (FatPart::LZ4 | FatPart::ZSTD) != 0;
        parts.push(FatPart {
            is_ptx: number(part, 0, 2) == FatPart::PTX,
            arch: number(part, 28, 4),
            flags,
            n_bytes: number(part, 56, 8),
            payload: if is_compressed { whole.get(..compressed).unwrap_or(whole) } else { whole },
        });
        at = match at.checked_add(header + size) {
            Some(next) if next > at => next,
            _ => break,
        };
    }
    parts
}

/// The PTX of a fat binary that is for the latest architecture which the device runs.
fn ptx_of_fat_binary(bytes: &[u8], arch: Arch) -> Result<String, ImageError> {
    let parts = parts(bytes);
    let fits = |part: &&FatPart<'_>| part.is_ptx && part.arch <= arch.number().into();
    if let Some(best) = parts.iter().filter(fits).max_by_key(|part| part.arch) {
        return best.text();
    }
    let names: Vec<String> = parts
        .iter()
        .map(|part| format!("{}{}", if part.is_ptx { "PTX for compute_" } else { "machine code for sm_" }, part.arch))
        .collect();
    let has = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    let reason = format!("the fat binary has no PTX that {arch} runs: it has {has}");
    Err(refused(CudaError::NO_BINARY_FOR_GPU, reason))
}

/// Decompresses a block of LZ4 (LZ4 block format, version 1.6): tokens with a count of literals, the literals, how far
/// back to copy from and how much.
fn decompress_lz4(bytes: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut made = Vec::with_capacity(room.min(1 << 28));
    let mut at = 0;
    let next = |at: &mut usize| {
        let byte = bytes.get(*at).copied();
        *at += 1;
        byte
    };
    let extended = |at: &mut usize, nibble: u8| {
        let mut length = usize::from(nibble);
        if nibble == 15 {
            loop {
                let more = next(at)?;
                length += usize::from(more);
                if more != 255 {
                    break;
                }
            }
        }
        Some(length)
    };
    while at < bytes.len() && made.len() < room {
        let token = next(&mut at)?;
        let n_literals = extended(&mut at, token >> 4)?;
        made.extend_from_slice(bytes.get(at..at + n_literals)?);
        at += n_literals;
        // The last sequence has literals alone.
        if at >= bytes.len() || made.len() >= room {
            break;
        }
        let offset = usize::from(next(&mut at)?) | usize::from(next(&mut at)?) << 8;
        let length = extended(&mut at, token & 15)? + 4;
        let start = made.len().checked_sub(offset).filter(|_| offset > 0)?;
        for index in start..start + length {
            made.push(made[index]);
        }
    }
    (made.len() == room).then_some(made)
}

/// Joins PTX modules to one, as a linker does: what one declares another defines, and of weak and common definitions the
/// first counts. A single module stays as it is, so that its lines are those of the program.
pub(crate) fn joined(texts: &[String]) -> Result<String, ImageError> {
    let [first, others @ ..] = texts else { return Err(refused(CudaError::INVALID_VALUE, "nothing is linked")) };
    if others.is_empty() {
        return Ok(first.clone());
    }
    let invalid = |errors: Vec<PtxError>| {
        let lines: Vec<String> = errors.iter().map(PtxError::to_string).collect();
        refused(CudaError::INVALID_PTX, lines.join("\n"))
    };
    let modules = texts.iter().map(|text| Module::parse(text).map_err(invalid)).collect::<Result<Vec<_>, _>>()?;
    let asts = || modules.iter().map(Module::ast);
    let latest = asts().max_by_key(|ast| ast.version).map_or((0, 0), |ast| ast.version);
    let mut whole = PtxAst { version: latest, items: Vec::new(), ..modules[0].ast().clone() };
    let is_declaration = |item: &ModuleItem| match item {
        ModuleItem::Variable(variable) => variable.linkage == Some(SymbolLinkage::Extern),
        ModuleItem::Function(function) => function.body.is_none(),
        _ => false,
    };
    let may_repeat = |linkage| matches!(linkage, Some(SymbolLinkage::Weak | SymbolLinkage::Common));
    // Declarations come before definitions, and each symbol is defined once.
    let (mut declared, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for wants_declarations in [true, false] {
        for item in asts().flat_map(|ast| &ast.items).filter(|item| is_declaration(item) == wants_declarations) {
            let (name, is_weak) = match item {
                ModuleItem::Variable(variable) => (Some(&variable.name), may_repeat(variable.linkage)),
                ModuleItem::Function(function) => (Some(&function.name), may_repeat(function.linkage)),
                _ => (None, false),
            };
            let is_new = name.is_none_or(|name| match wants_declarations {
                true => declared.insert(name.clone()),
                false => defined.insert(name.clone()) || !is_weak,
            });
            if is_new {
                whole.items.push(item.clone());
            }
        }
    }
    Ok(whole.to_string())
}

/// True of an archive of objects, such as NVIDIA's device run time, whose functions the simulator has or lacks itself.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"!<arch>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_lz4_are_decompressed() {
        // Three literals, nine bytes from three back, two literals at the end.
        let block = [0x35, b'a', b'b', b'c', 3, 0, 0x20, b'x', b'y'];
        assert_eq!(decompress_lz4(&block, 14).as_deref(), Some(b"abcabcabcabcxy".as_slice()));
        assert_eq!(decompress_lz4(&block[..4], 14), None);
        assert_eq!(decompress_lz4(&[0x35, b'a', b'b', b'c', 9, 0], 14), None);
        // A long run of literals has its count in further bytes.
        let long: Vec<u8> = [0xf0, 255, 3].into_iter().chain([b'z'; 273]).collect();
        assert_eq!(decompress_lz4(&long, 273), Some(vec![b'z'; 273]));
    }

    #[test]
    fn what_is_no_ptx_is_refused_with_a_reason() {
        let arch: Arch = "sm_86".parse().unwrap();
        let elf = ptx_of(b"\x7fELF\x02\x01", arch).unwrap_err();
        assert!(elf.error == CudaError::NO_BINARY_FOR_GPU && elf.reason.contains("code=compute_80"), "{}", elf.reason);
        assert_eq!(ptx_of(b".version 8.0\n\0rest", arch).unwrap(), ".version 8.0\n");
        // A header with no parts.
        let mut fat = FAT_MAGIC.to_le_bytes().to_vec();
        fat.extend([1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(ptx_of(&fat, arch).unwrap_err().reason.ends_with("it has nothing"));
    }
}
