//! Memory and events of other processes, as far as they are those of this one.

use super::entry_points;
use crate::abi::{DeviceAddress, Handle, IpcHandle};
use crate::event::{EVENTS, Event};
use crate::ipc::SharedObject;
use crate::memory::BlockKind;
use crate::pointers::Out;
use crate::registry::new_handle;
use crate::status::CudaError;
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts how often memory is open, by address.
static OPEN: Mutex<BTreeMap<DeviceAddress, u32>> = Mutex::new(BTreeMap::new());

fn open() -> MutexGuard<'static, BTreeMap<DeviceAddress, u32>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

entry_points! { IPC:
    fn cuIpcGetMemHandle(out: Out<IpcHandle>, address: DeviceAddress) [driver, _context] {
        let block = driver.memory.block_at(address).filter(|block| block.kind == BlockKind::Device);
        let block = block.ok_or(CudaError::INVALID_VALUE)?;
        out.set(SharedObject::Memory { address: block.address, id: block.id }.to_handle())
    }

    fn cuIpcOpenMemHandle_v2(out: Out<DeviceAddress>, handle: IpcHandle, _flags: c_uint) [driver, _context] {
        let SharedObject::Memory { address, id } = SharedObject::of(driver, handle, "cuIpcOpenMemHandle")? else {
            return Err(CudaError::INVALID_VALUE);
        };
        // Memory that has been freed is none any more, even if other memory is at its address.
        driver.memory.block_at(address).filter(|block| block.id == id).ok_or(CudaError::INVALID_VALUE)?;
        out.set(address)?;
        *open().entry(address).or_default() += 1;
        Ok(())
    }

    fn cuIpcCloseMemHandle(address: DeviceAddress) [_driver, _context] {
        let mut open = open();
        let count = open.get_mut(&address).ok_or(CudaError::INVALID_VALUE)?;
        *count -= 1;
        if *count == 0 {
            open.remove(&address);
        }
        Ok(())
    }

    fn cuIpcGetEventHandle(out: Out<IpcHandle>, event: Handle) [_driver, _context] {
        if EVENTS.get(event)?.flags & Event::INTERPROCESS == 0 {
            return Err(CudaError::INVALID_HANDLE);
        }
        out.set(SharedObject::Event { handle: event as u64 }.to_handle())
    }

    fn cuIpcOpenEventHandle(out: Out<Handle>, handle: IpcHandle) [driver, _context] {
        let SharedObject::Event { handle } = SharedObject::of(driver, handle, "cuIpcOpenEventHandle")? else {
            return Err(CudaError::INVALID_VALUE);
        };
        let (event, again) = (EVENTS.get(handle as Handle)?, new_handle());
        EVENTS.insert_shared(again, event);
        out.set(again)
    }
}
