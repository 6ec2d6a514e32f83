//! Arrays, and copies of bytes of arrays of one row.

use super::copy::{copy_in, copy_now, plain};
use super::entry_points;
use crate::abi::{Array3dDescription, ArrayDescription, DeviceAddress, Handle};
use crate::array::{ARRAYS, DeviceArray};
use crate::memory::CopyPlace::{Device, Host};
use crate::pointers::{In, Out};
use crate::stream::forbid_in_capture;

entry_points! { ARRAY:
    fn cuArrayCreate_v2(out: Out<Handle>, description: In<ArrayDescription>) [driver, context] {
        forbid_in_capture(driver, "cuArrayCreate")?;
        let ArrayDescription { width, height, format, n_channels } = description.get()?;
        let description = Array3dDescription { width, height, depth: 0, format, n_channels, flags: 0 };
        out.set(DeviceArray::create(driver, context.handle, description)?)
    }

    fn cuArray3DCreate_v2(out: Out<Handle>, description: In<Array3dDescription>) [driver, context] {
        forbid_in_capture(driver, "cuArray3DCreate")?;
        out.set(DeviceArray::create(driver, context.handle, description.get()?)?)
    }

    fn cuArrayGetDescriptor_v2(out: Out<ArrayDescription>, array: Handle) [_driver, _context] {
        let Array3dDescription { width, height, format, n_channels, .. } = ARRAYS.get(array)?.description;
        out.set(ArrayDescription { width, height, format, n_channels })
    }

    fn cuArray3DGetDescriptor_v2(out: Out<Array3dDescription>, array: Handle) [_driver, _context] {
        out.set(ARRAYS.get(array)?.description)
    }

    fn cuArrayDestroy(array: Handle) [driver, _context] {
        forbid_in_capture(driver, "cuArrayDestroy")?;
        DeviceArray::destroy(driver, array)
    }

    fn cuMemcpyHtoA_v2(to: Handle, offset: usize, from: usize, n_bytes: usize) [driver, context] and "_ptds" {
        let to = DeviceArray::bytes_of_row(to, offset, n_bytes)?;
        copy_now(driver, &context, plain(to, Host(from), n_bytes))
    }

    fn cuMemcpyHtoAAsync_v2(
        to: Handle,
        offset: usize,
        from: usize,
        n_bytes: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        let to = DeviceArray::bytes_of_row(to, offset, n_bytes)?;
        copy_in(driver, &context, plain(to, Host(from), n_bytes), stream)
    }

    fn cuMemcpyAtoH_v2(to: usize, from: Handle, offset: usize, n_bytes: usize) [driver, context] and "_ptds" {
        let from = DeviceArray::bytes_of_row(from, offset, n_bytes)?;
        copy_now(driver, &context, plain(Host(to), from, n_bytes))
    }

    fn cuMemcpyAtoHAsync_v2(
        to: usize,
        from: Handle,
        offset: usize,
        n_bytes: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        let from = DeviceArray::bytes_of_row(from, offset, n_bytes)?;
        copy_in(driver, &context, plain(Host(to), from, n_bytes), stream)
    }

    fn cuMemcpyDtoA_v2(
        to: Handle,
        offset: usize,
        from: DeviceAddress,
        n_bytes: usize,
    ) [driver, context] and "_ptds" {
        let to = DeviceArray::bytes_of_row(to, offset, n_bytes)?;
        copy_now(driver, &context, plain(to, Device(from), n_bytes))
    }

    fn cuMemcpyAtoD_v2(
        to: DeviceAddress,
        from: Handle,
        offset: usize,
        n_bytes: usize,
    ) [driver, context] and "_ptds" {
        let from = DeviceArray::bytes_of_row(from, offset, n_bytes)?;
        copy_now(driver, &context, plain(Device(to), from, n_bytes))
    }

    fn cuMemcpyAtoA_v2(
        to: Handle,
        to_offset: usize,
        from: Handle,
        from_offset: usize,
        n_bytes: usize,
    ) [driver, context] and "_ptds" {
        let to = DeviceArray::bytes_of_row(to, to_offset, n_bytes)?;
        let from = DeviceArray::bytes_of_row(from, from_offset, n_bytes)?;
        copy_now(driver, &context, plain(to, from, n_bytes))
    }
}
