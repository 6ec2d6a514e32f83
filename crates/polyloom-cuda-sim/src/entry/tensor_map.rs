//! Tensor maps.

use super::entry_points;
use crate::abi::DeviceAddress;
use crate::driver::Driver;
use crate::pointers::{In, Out};
use crate::status::{CudaError, Outcome};
use polyloom_ptx::{TENSOR_MAP_BYTES, TensorElement, TensorMap, TensorSwizzle};
use std::ffi::c_uint;

/// A value by its number, or the note that the simulator does not have it.
fn known<T>(driver: &Driver, what: &str, number: c_uint, value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| {
        driver.journal.noted(&format!("a tensor map with {what} {number}, which the simulator does not have"));
        CudaError::NOT_SUPPORTED
    })
}

/// The bytes of a map, or the note of what is wrong with it.
fn encoded(driver: &Driver, map: &TensorMap) -> Outcome<[u8; TENSOR_MAP_BYTES]> {
    match map.fault() {
        None => Ok(map.to_bytes()),
        Some(fault) => {
            driver.journal.noted(&format!("a tensor map cannot be made: {fault}"));
            Err(CudaError::INVALID_VALUE)
        }
    }
}

entry_points! { TENSOR_MAP:
    fn cuTensorMapEncodeTiled(
        map: Out<[u8; TENSOR_MAP_BYTES]>,
        element: c_uint,
        rank: c_uint,
        address: DeviceAddress,
        extents: In<u64>,
        strides: In<u64>,
        tile: In<u32>,
        steps: In<u32>,
        interleave: c_uint,
        swizzle: c_uint,
        _promotion: c_uint,
        fill: c_uint,
    ) [driver] {
        if !(1..=5).contains(&rank) {
            return Err(CudaError::INVALID_VALUE);
        }
        let rank = rank as usize;
        known(driver, "interleave", interleave, (interleave == 0).then_some(()))?;
        map.set(encoded(driver, &TensorMap {
            element: known(driver, "elements of type", element, TensorElement::of_number(element))?,
            address,
            extents: extents.list(rank)?,
            strides: strides.list(rank - 1)?,
            tile: tile.list(rank)?,
            steps: steps.list(rank)?,
            swizzle: known(driver, "swizzle", swizzle, TensorSwizzle::of_number(swizzle))?,
            fills_nan: fill != 0,
        })?)
    }

    fn cuTensorMapReplaceAddress(map: Out<[u8; TENSOR_MAP_BYTES]>, address: DeviceAddress) [driver] {
        let found = TensorMap::from_bytes(&map.get()?).ok_or(CudaError::INVALID_VALUE)?;
        map.set(encoded(driver, &TensorMap { address, ..found })?)
    }
}
