//! The bytes of a compiled kernel: position independent, self-contained, and safe to read back damaged.
//!
//! After a magic word and a checksum of the rest come the hash of the back end's fingerprint and the functions, callees
//! before callers, the kernel last. Numbers are little-endian; texts and byte strings have their length before them. A
//! checksum guards against damage, not malice: whoever can write to the code cache can run code anyway.

use super::host::HostFunction;
use super::library::{AddressPatch, CompiledFunction, Key, LibraryReference};
use crate::backend::CodegenError;
use rustc_hash::FxHashSet;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"PLOOMCL1";
const HASH_BYTES: usize = 32;

/// Writes a kernel and the functions it needs, which come callees before callers.
pub(super) fn encode(
    identity: &[u8; HASH_BYTES],
    library: &[Arc<CompiledFunction>],
    kernel: &CompiledFunction,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(kernel.code.len() + 512);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; HASH_BYTES]);
    out.extend_from_slice(identity);
    write_u32(&mut out, library.len() as u32 + 1);
    for function in library.iter().map(|f| &**f).chain([kernel]) {
        write_bytes(&mut out, function.name.as_bytes());
        out.extend_from_slice(&function.key);
        write_u32(&mut out, function.align);
        write_bytes(&mut out, &function.code);
        write_u32(&mut out, function.patches.len() as u32);
        for patch in &function.patches {
            write_u32(&mut out, patch.offset);
            out.extend_from_slice(&patch.addend.to_le_bytes());
            match patch.to {
                LibraryReference::Function(key) => {
                    out.push(0);
                    out.extend_from_slice(&key);
                }
                LibraryReference::Host(function) => {
                    out.push(1);
                    write_u32(&mut out, function as u32);
                }
            }
        }
    }
    let start = MAGIC.len() + HASH_BYTES;
    let hash = blake3::hash(&out[start..]);
    out[MAGIC.len()..start].copy_from_slice(hash.as_bytes());
    out
}

/// Reads what [`encode`] wrote: the functions, the kernel last.
pub(super) fn decode(identity: &[u8; HASH_BYTES], bytes: &[u8]) -> Result<Vec<CompiledFunction>, CodegenError> {
    let damaged = || CodegenError::new("this is no compiled kernel of the Cranelift back end, or it is damaged");
    let mut reader = ObjectReader { rest: bytes };
    if reader.take(MAGIC.len()) != Some(MAGIC) {
        return Err(damaged());
    }
    let hash = reader.take(HASH_BYTES).ok_or_else(damaged)?;
    if blake3::hash(reader.rest).as_bytes() != hash {
        return Err(damaged());
    }
    if reader.take(HASH_BYTES).ok_or_else(damaged)? != identity {
        return Err(CodegenError::new("the kernel was compiled by another version, or for another machine"));
    }
    reader.functions().filter(|_| reader.rest.is_empty()).ok_or_else(damaged)
}

fn write_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

struct ObjectReader<'a> {
    rest: &'a [u8],
}

impl<'a> ObjectReader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()?;
        self.take(n as usize)
    }

    fn functions(&mut self) -> Option<Vec<CompiledFunction>> {
        let n = self.u32()?;
        let mut known: FxHashSet<Key> = FxHashSet::default();
        let mut functions = Vec::new();
        for _ in 0..n {
            let function = self.function(&known)?;
            known.insert(function.key);
            functions.push(function);
        }
        (!functions.is_empty()).then_some(functions)
    }

    fn function(&mut self, known: &FxHashSet<Key>) -> Option<CompiledFunction> {
        let name = String::from_utf8(self.bytes()?.to_vec()).ok()?;
        let key = self.array()?;
        let align = self.u32()?;
        let code = self.bytes()?.to_vec();
        let n_patches = self.u32()?;
        let mut patches = Vec::new();
        for _ in 0..n_patches {
            let offset = self.u32()?;
            let addend = i64::from_le_bytes(self.array()?);
            let to = match self.array()? {
                [0] => LibraryReference::Function(self.array().filter(|key| known.contains(key))?),
                [1] => LibraryReference::Host(HostFunction::from_number(self.u32()?)?),
                _ => return None,
            };
            if u64::from(offset) + 8 > code.len() as u64 {
                return None;
            }
            patches.push(AddressPatch { offset, addend, to });
        }
        Some(CompiledFunction { name, key, align, code, patches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: [u8; HASH_BYTES] = [7; HASH_BYTES];

    fn sample() -> (Vec<Arc<CompiledFunction>>, CompiledFunction) {
        let callee = CompiledFunction {
            name: "sin.f32".to_owned(),
            key: [1; 16],
            align: 16,
            code: vec![0x90; 40],
            patches: vec![AddressPatch { offset: 32, addend: -4, to: LibraryReference::Host(HostFunction::FmaF32) }],
        };
        let patch = AddressPatch { offset: 3, addend: 0, to: LibraryReference::Function([1; 16]) };
        let kernel = CompiledFunction {
            name: "kernel".to_owned(),
            key: Key::default(),
            align: 1,
            code: vec![0xc3; 11],
            patches: vec![patch],
        };
        (vec![Arc::new(callee)], kernel)
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (library, kernel) = sample();
        let bytes = encode(&IDENTITY, &library, &kernel);
        assert_eq!(decode(&IDENTITY, &bytes), Ok(vec![(*library[0]).clone(), kernel]));
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_noticed() {
        let (library, kernel) = sample();
        let bytes = encode(&IDENTITY, &library, &kernel);
        for n in 0..bytes.len() {
            assert!(decode(&IDENTITY, &bytes[..n]).is_err(), "cut to {n} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(decode(&IDENTITY, &damaged).is_err(), "bit flipped in byte {at}");
        }
        assert!(decode(&[8; HASH_BYTES], &bytes).is_err(), "another machine's");
    }

    /// As [`encode`] does, after changing what it wrote, so that the checksum then says nothing.
    fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
        let start = MAGIC.len() + HASH_BYTES;
        let hash = blake3::hash(&bytes[start..]);
        bytes[MAGIC.len()..start].copy_from_slice(hash.as_bytes());
        bytes
    }

    #[test]
    fn a_right_checksum_over_wrong_content_never_panics() {
        let (library, kernel) = sample();
        let bytes = encode(&IDENTITY, &library, &kernel);
        for at in MAGIC.len() + HASH_BYTES..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = decode(&IDENTITY, &with_checksum(damaged));
            }
        }
        for n in MAGIC.len() + HASH_BYTES..bytes.len() {
            assert!(decode(&IDENTITY, &with_checksum(bytes[..n].to_vec())).is_err());
        }
    }
}
