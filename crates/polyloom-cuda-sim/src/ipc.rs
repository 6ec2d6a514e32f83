//! Handles by which programs share memory and events. They are opened in the process that made them; a GPU's driver opens them
//! in others, which this one, whose device is memory of its process, cannot.

use crate::abi::IpcHandle;
use crate::driver::Driver;
use crate::status::{CudaError, Outcome};

/// Begins a handle.
const MAGIC: [u8; 8] = *b"polyloom";

/// Says what a handle is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SharedObject {
    /// Memory, by the number of its block.
    Memory { address: u64, id: u64 },
    /// An event, by its handle.
    Event { handle: u64 },
}

impl SharedObject {
    /// The handle of it.
    pub(crate) fn to_handle(self) -> IpcHandle {
        let words = match self {
            SharedObject::Memory { address, id } => [1, address, id],
            SharedObject::Event { handle } => [2, handle, 0],
        };
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
        for (index, word) in words.iter().enumerate() {
            bytes[16 + 8 * index..24 + 8 * index].copy_from_slice(&word.to_le_bytes());
        }
        IpcHandle(bytes)
    }

    /// Returns what a handle of this process is for; `call` opens it.
    pub(crate) fn of(driver: &Driver, handle: IpcHandle, call: &str) -> Outcome<SharedObject> {
        let word = |index: usize| {
            let bytes = &handle.0[8 * index..8 * index + 8];
            bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte))
        };
        if handle.0[..8] != MAGIC {
            return Err(CudaError::INVALID_VALUE);
        }
        if word(1) != u64::from(std::process::id()) {
            driver.journal.missing(&format!("{call} with a handle of another process"));
            return Err(CudaError::NOT_SUPPORTED);
        }
        match word(2) {
            1 => Ok(SharedObject::Memory { address: word(3), id: word(4) }),
            2 => Ok(SharedObject::Event { handle: word(3) }),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}
