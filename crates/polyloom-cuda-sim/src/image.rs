//! Images of modules: PTX text, and fat binaries that hold PTX for one or several architectures.

use crate::pointers::{In, host_bytes, text_at};
use crate::status::CudaError;
use polyloom_ir::{Arch, ArchVariant};
use polyloom_ptx::syntax::ast::{ModuleItem, PtxAst, SymbolLinkage};
use polyloom_ptx::{
    FAT_HEADER_BYTES, FatCode, FatCompression, FatPart, Module, PtxError, fat_binary_size, fat_parts, is_fat_binary,
};
use std::collections::BTreeSet;

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
        _ if is_fat_binary(&magic.to_le_bytes()) => {
            let n_bytes = fat_binary_size(host_bytes(address, FAT_HEADER_BYTES));
            ptx_of_fat_binary(host_bytes(address, n_bytes), arch)
        }
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
        _ if is_fat_binary(bytes) => ptx_of_fat_binary(bytes, arch),
        _ => as_text(bytes),
    }
}

fn as_text(bytes: &[u8]) -> Result<String, ImageError> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]);
    text.map(str::to_owned).map_err(|_| refused(CudaError::INVALID_IMAGE, "the module is no text"))
}

/// The text of a part of a fat binary.
fn text_of(part: &FatPart<'_>) -> Result<String, ImageError> {
    let room = usize::try_from(part.n_plain_bytes).unwrap_or(0);
    let damaged = || refused(CudaError::INVALID_IMAGE, "the compressed PTX of the fat binary is damaged");
    match part.compression {
        Some(FatCompression::Lz4) => as_text(&decompress_lz4(part.bytes, room).ok_or_else(damaged)?),
        Some(FatCompression::Zstd) => as_text(&zstd::bulk::decompress(part.bytes, room).map_err(|_| damaged())?),
        None => as_text(part.bytes),
    }
}

/// The PTX of a fat binary that is for the latest architecture which the device runs.
fn ptx_of_fat_binary(bytes: &[u8], arch: Arch) -> Result<String, ImageError> {
    let parts = fat_parts(bytes);
    let fits = |part: &&FatPart<'_>| part.code == Some(FatCode::Ptx) && part.runs_on(arch);
    // Of code for one architecture that for it alone is better, because it may use more.
    if let Some(best) =
        parts.iter().filter(fits).max_by_key(|part| (part.number, part.variant != ArchVariant::Portable))
    {
        return text_of(best);
    }
    let described = |part: &FatPart<'_>| {
        let what = match part.code {
            Some(FatCode::Ptx) => "PTX for compute_",
            _ => "machine code for sm_",
        };
        let suffix = match part.variant {
            ArchVariant::Portable => "",
            ArchVariant::Family => "f",
            ArchVariant::Specific => "a",
        };
        format!("{what}{}{suffix}", part.number)
    };
    let names: Vec<String> = parts.iter().map(described).collect();
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
        let fat = polyloom_ptx::FatBinaryWriter::new().finish();
        assert!(ptx_of(&fat, arch).unwrap_err().reason.ends_with("it has nothing"));
        let mut writer = polyloom_ptx::FatBinaryWriter::new();
        writer.add_ptx("sm_90a".parse().unwrap(), ".version 8.0");
        writer.add_cubin(arch, b"\x7fELF");
        let error = ptx_of(&writer.finish(), arch).unwrap_err();
        assert!(error.reason.ends_with("it has PTX for compute_90a, machine code for sm_86"), "{}", error.reason);
    }
}
