//! CUDA devices.

use polyloom_runtime::cuda::{self, CudaDevice};
use polyloom_runtime::{Device, DeviceFailure, DeviceProperties};
use std::sync::Arc;

pub(crate) fn devices() -> Result<Vec<DeviceProperties>, DeviceFailure> {
    cuda::devices()
}

pub(crate) fn properties(number: u32) -> Result<DeviceProperties, DeviceFailure> {
    cuda::properties(number)
}

pub(crate) fn open(number: u32) -> Result<Arc<dyn Device>, DeviceFailure> {
    let device: Arc<dyn Device> = CudaDevice::get(number)?;
    Ok(device)
}

pub(crate) fn synchronize(number: Option<u32>) -> Result<(), DeviceFailure> {
    match number {
        Some(number) => CudaDevice::get(number)?.synchronize_all(),
        None => cuda::synchronize(),
    }
}

pub(crate) fn open_devices() -> Vec<u32> {
    cuda::open_devices()
}

pub(crate) fn can_access_peer(target: u32, peer: u32) -> Result<bool, DeviceFailure> {
    cuda::can_access_peer(target, peer)
}

pub(crate) fn set_peer_access(target: u32, peer: u32, is_wanted: bool) -> Result<(), DeviceFailure> {
    cuda::set_peer_access(target, peer, is_wanted)
}
