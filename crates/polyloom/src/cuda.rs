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
