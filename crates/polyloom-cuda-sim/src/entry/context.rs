//! Contexts.

use super::device::checked;
use super::entry_points;
use crate::abi::Handle;
use crate::context::{self, Context};
use crate::driver::Driver;
use crate::pointers::Out;
use crate::status::{CudaError, Outcome};
use crate::stream::forbid_in_capture;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, PoisonError};

fn create(driver: &'static Driver, out: Out<Handle>, flags: c_uint, device: c_int) -> Outcome {
    checked(device)?;
    driver.check_alive()?;
    let context = Context::create(false, flags);
    context::push(Arc::clone(&context));
    out.set(context.handle)
}

/// Waits for everything.
pub(super) fn synchronize(driver: &Driver) -> Outcome {
    forbid_in_capture(driver, "cuCtxSynchronize")?;
    driver.order.host_waited_for_all();
    driver.flush_prints();
    Ok(())
}

/// Ends the primary context if nobody retains it, or whoever does.
fn release_primary(driver: &Driver, is_reset: bool) -> Outcome {
    let mut primary = crate::context::PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((context, retained)) = &mut *primary else {
        return if is_reset { Ok(()) } else { Err(CudaError::INVALID_CONTEXT) };
    };
    *retained = retained.saturating_sub(1);
    if *retained == 0 || is_reset {
        context.destroy(driver);
        *primary = None;
    }
    if is_reset {
        driver.revive();
    }
    Ok(())
}

/// The context of a handle, or the thread's current one.
fn given_or_current(handle: Handle) -> Outcome<Arc<Context>> {
    match handle {
        0 => context::current().ok_or(CudaError::INVALID_CONTEXT),
        _ => crate::context::CONTEXTS.get(handle).map_err(|_| CudaError::INVALID_CONTEXT),
    }
}

/// Returns a limit's value before anybody has set it (`CUlimit`).
fn default_limit(number: c_uint) -> Outcome<usize> {
    Ok(match number {
        0 => 1024,
        1 => 1 << 20,
        2 => 8 << 20,
        3 => 2,
        4 => 2048,
        5 => 128,
        6 => 0,
        _ => return Err(CudaError::UNSUPPORTED_LIMIT),
    })
}

entry_points! { CONTEXT:
    fn cuDevicePrimaryCtxRetain(out: Out<Handle>, device: c_int) [_driver] {
        checked(device)?;
        out.set(Context::retain_primary().handle)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) [driver] also "cuDevicePrimaryCtxRelease" {
        checked(device)?;
        release_primary(driver, false)
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) [driver] also "cuDevicePrimaryCtxReset" {
        checked(device)?;
        release_primary(driver, true)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) [_driver] also "cuDevicePrimaryCtxSetFlags" {
        checked(device)?;
        if let Some((context, _)) = &*crate::context::PRIMARY.lock().unwrap_or_else(PoisonError::into_inner) {
            *context.flags.lock().unwrap_or_else(PoisonError::into_inner) = flags;
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) [_driver] {
        checked(device)?;
        let primary = crate::context::PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
        let set = primary.as_ref().map(|(context, _)| *context.flags.lock().unwrap_or_else(PoisonError::into_inner));
        flags.set_if_wanted(set.unwrap_or(0));
        active.set_if_wanted(c_int::from(primary.is_some()));
        Ok(())
    }

    fn cuCtxCreate_v2(out: Out<Handle>, flags: c_uint, device: c_int) [driver] {
        create(driver, out, flags, device)
    }

    fn cuCtxCreate_v3(out: Out<Handle>, _params: Out<c_void>, _n: c_int, flags: c_uint, device: c_int) [driver] {
        create(driver, out, flags, device)
    }

    fn cuCtxCreate_v4(out: Out<Handle>, _params: Out<c_void>, flags: c_uint, device: c_int) [driver] {
        create(driver, out, flags, device)
    }

    fn cuCtxDestroy_v2(handle: Handle) [driver] also "cuCtxDestroy" {
        let context = crate::context::CONTEXTS.get(handle).map_err(|_| CudaError::INVALID_CONTEXT)?;
        if context.is_primary {
            return Err(CudaError::INVALID_CONTEXT);
        }
        context.destroy(driver);
        Ok(())
    }

    fn cuCtxPushCurrent_v2(handle: Handle) [_driver] also "cuCtxPushCurrent" {
        context::push(crate::context::CONTEXTS.get(handle).map_err(|_| CudaError::INVALID_CONTEXT)?);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(out: Out<Handle>) [_driver] also "cuCtxPopCurrent" {
        out.set_if_wanted(context::pop()?.handle);
        Ok(())
    }

    fn cuCtxSetCurrent(handle: Handle) [_driver] {
        match handle {
            0 => context::set(None),
            _ => context::set(Some(crate::context::CONTEXTS.get(handle).map_err(|_| CudaError::INVALID_CONTEXT)?)),
        }
        Ok(())
    }

    fn cuCtxGetCurrent(out: Out<Handle>) [_driver] {
        out.set(context::current().map_or(0, |context| context.handle))
    }

    fn cuCtxGetDevice(device: Out<c_int>) [_driver] {
        context::current().ok_or(CudaError::INVALID_CONTEXT)?;
        device.set(0)
    }

    fn cuCtxGetDevice_v2(device: Out<c_int>, handle: Handle) [_driver] {
        given_or_current(handle)?;
        device.set(0)
    }

    fn cuCtxGetFlags(flags: Out<c_uint>) [_driver, context] {
        flags.set(*context.flags.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn cuCtxSetFlags(flags: c_uint) [_driver, context] {
        *context.flags.lock().unwrap_or_else(PoisonError::into_inner) = flags;
        Ok(())
    }

    fn cuCtxGetId(handle: Handle, id: Out<u64>) [_driver] {
        id.set(given_or_current(handle)?.stream.id)
    }

    fn cuCtxGetApiVersion(handle: Handle, version: Out<c_uint>) [_driver] {
        given_or_current(handle)?;
        version.set(3020)
    }

    fn cuCtxSynchronize() [driver, _context] {
        synchronize(driver)
    }

    fn cuCtxSynchronize_v2(handle: Handle) [driver] {
        given_or_current(handle)?;
        driver.check_alive()?;
        synchronize(driver)
    }

    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) [_driver, _context] {
        least.set_if_wanted(0);
        greatest.set_if_wanted(-5);
        Ok(())
    }

    fn cuCtxGetLimit(value: Out<usize>, number: c_uint) [_driver, context] {
        let default = default_limit(number)?;
        let limits = context.limits.lock().unwrap_or_else(PoisonError::into_inner);
        value.set(limits.iter().rev().find(|(known, _)| *known == number).map_or(default, |(_, value)| *value))
    }

    fn cuCtxSetLimit(number: c_uint, value: usize) [_driver, context] {
        default_limit(number)?;
        context.limits.lock().unwrap_or_else(PoisonError::into_inner).push((number, value));
        Ok(())
    }

    fn cuCtxGetCacheConfig(config: Out<c_uint>) [_driver, _context] {
        config.set(0)
    }

    fn cuCtxSetCacheConfig(_config: c_uint) [_driver, _context] {
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(config: Out<c_uint>) [_driver, _context] {
        config.set(1)
    }

    fn cuCtxSetSharedMemConfig(_config: c_uint) [_driver, _context] {
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() [_driver, _context] {
        Ok(())
    }

    fn cuCtxEnablePeerAccess(_peer: Handle, _flags: c_uint) [_driver, _context] {
        Err(CudaError::PEER_ACCESS_UNSUPPORTED)
    }

    fn cuCtxDisablePeerAccess(_peer: Handle) [_driver, _context] {
        Err(CudaError::PEER_ACCESS_NOT_ENABLED)
    }
}
