//! CUDA devices of a build that has none.

use polyloom_runtime::{Device, DeviceFailure, DeviceId, DeviceProperties};
use std::sync::Arc;

fn absent<T>(number: Option<u32>) -> Result<T, DeviceFailure> {
    let reason = "this build has no GPU code: it takes the cargo feature `compute`, or the Python package".to_owned();
    Err(DeviceFailure::Absent { device: DeviceId::Cuda(number.unwrap_or(0)), reason })
}

pub(crate) fn devices() -> Result<Vec<DeviceProperties>, DeviceFailure> {
    absent(None)
}

pub(crate) fn properties(number: u32) -> Result<DeviceProperties, DeviceFailure> {
    absent(Some(number))
}

pub(crate) fn open(number: u32) -> Result<Arc<dyn Device>, DeviceFailure> {
    absent(Some(number))
}

pub(crate) fn synchronize(number: Option<u32>) -> Result<(), DeviceFailure> {
    number.map_or(Ok(()), |number| absent(Some(number)))
}

pub(crate) fn open_devices() -> Vec<u32> {
    Vec::new()
}

pub(crate) fn can_access_peer(target: u32, _peer: u32) -> Result<bool, DeviceFailure> {
    absent(Some(target))
}

pub(crate) fn set_peer_access(target: u32, _peer: u32, _is_wanted: bool) -> Result<(), DeviceFailure> {
    absent(Some(target))
}
