//! Copies and fills.

use super::entry_points;
use crate::abi::{Copy2D, Copy3D, DeviceAddress, Handle};
use crate::context::Context;
use crate::driver::Driver;
use crate::memory::CopyPlace::{self, Device, Host};
use crate::pointers::In;
use crate::status::Outcome;
use crate::stream::Stream;
use crate::work::{CopyWork, FillWork, Work};
use std::ffi::{c_uchar, c_uint, c_ushort};

/// Copies in the default stream, and waits.
pub(super) fn copy_now(driver: &Driver, context: &Context, copy: CopyWork) -> Outcome {
    let stream = Stream::of(context, 0)?;
    stream.submit(driver, Work::Copy(copy))?;
    driver.order.host_waited(&driver.order.clock(stream.id));
    driver.flush_prints();
    Ok(())
}

pub(super) fn copy_in(driver: &Driver, context: &Context, copy: CopyWork, stream: Handle) -> Outcome {
    Stream::of(context, stream)?.submit(driver, Work::Copy(copy))
}

pub(super) fn plain(to: CopyPlace, from: CopyPlace, n_bytes: usize) -> CopyWork {
    CopyWork::plain(to, from, n_bytes)
}

/// Sets elements, in rows if there are several.
fn fill(
    driver: &Driver,
    context: &Context,
    (address, pitch): (DeviceAddress, usize),
    (value, element_bytes): (u32, u32),
    (width, height): (usize, usize),
    stream: Handle,
) -> Outcome {
    let work = FillWork { address, pitch, value, element_bytes, width, height };
    Stream::of(context, stream)?.submit(driver, Work::Fill(work))
}

entry_points! { COPY:
    fn cuMemcpy(to: DeviceAddress, from: DeviceAddress, n_bytes: usize) [driver, context] and "_ptds" {
        let copy = plain(driver.memory.place(to), driver.memory.place(from), n_bytes);
        copy_now(driver, &context, copy)
    }

    fn cuMemcpyAsync(
        to: DeviceAddress,
        from: DeviceAddress,
        n_bytes: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        let copy = plain(driver.memory.place(to), driver.memory.place(from), n_bytes);
        copy_in(driver, &context, copy, stream)
    }

    fn cuMemcpyPeer(
        to: DeviceAddress,
        _to_context: Handle,
        from: DeviceAddress,
        _from_context: Handle,
        n_bytes: usize,
    ) [driver, context] and "_ptds" {
        copy_now(driver, &context, plain(Device(to), Device(from), n_bytes))
    }

    fn cuMemcpyPeerAsync(
        to: DeviceAddress,
        _to_context: Handle,
        from: DeviceAddress,
        _from_context: Handle,
        n_bytes: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        copy_in(driver, &context, plain(Device(to), Device(from), n_bytes), stream)
    }

    fn cuMemcpyHtoD_v2(to: DeviceAddress, from: usize, n_bytes: usize) [driver, context] and "_ptds" {
        copy_now(driver, &context, plain(Device(to), Host(from), n_bytes))
    }

    fn cuMemcpyHtoDAsync_v2(
        to: DeviceAddress,
        from: usize,
        n_bytes: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        copy_in(driver, &context, plain(Device(to), Host(from), n_bytes), stream)
    }

    fn cuMemcpyDtoH_v2(to: usize, from: DeviceAddress, n_bytes: usize) [driver, context] and "_ptds" {
        copy_now(driver, &context, plain(Host(to), Device(from), n_bytes))
    }

    fn cuMemcpyDtoHAsync_v2(
        to: usize,
        from: DeviceAddress,
        n_bytes: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        copy_in(driver, &context, plain(Host(to), Device(from), n_bytes), stream)
    }

    fn cuMemcpyDtoD_v2(to: DeviceAddress, from: DeviceAddress, n_bytes: usize) [driver, context] and "_ptds" {
        copy_now(driver, &context, plain(Device(to), Device(from), n_bytes))
    }

    fn cuMemcpyDtoDAsync_v2(
        to: DeviceAddress,
        from: DeviceAddress,
        n_bytes: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        copy_in(driver, &context, plain(Device(to), Device(from), n_bytes), stream)
    }

    fn cuMemcpy2D_v2(copy: In<Copy2D>) [driver, context] and "_ptds" {
        copy_now(driver, &context, CopyWork::of_2d(driver, &copy.get()?)?)
    }

    fn cuMemcpy2DUnaligned_v2(copy: In<Copy2D>) [driver, context] and "_ptds" {
        copy_now(driver, &context, CopyWork::of_2d(driver, &copy.get()?)?)
    }

    fn cuMemcpy2DAsync_v2(copy: In<Copy2D>, stream: Handle) [driver, context] and "_ptsz" {
        copy_in(driver, &context, CopyWork::of_2d(driver, &copy.get()?)?, stream)
    }

    fn cuMemcpy3D_v2(copy: In<Copy3D>) [driver, context] and "_ptds" {
        copy_now(driver, &context, CopyWork::of_3d(driver, &copy.get()?)?)
    }

    fn cuMemcpy3DAsync_v2(copy: In<Copy3D>, stream: Handle) [driver, context] and "_ptsz" {
        copy_in(driver, &context, CopyWork::of_3d(driver, &copy.get()?)?, stream)
    }

    fn cuMemsetD8_v2(to: DeviceAddress, value: c_uchar, n: usize) [driver, context] and "_ptds" {
        fill(driver, &context, (to, 0), (value.into(), 1), (n, 1), 0)
    }

    fn cuMemsetD16_v2(to: DeviceAddress, value: c_ushort, n: usize) [driver, context] and "_ptds" {
        fill(driver, &context, (to, 0), (value.into(), 2), (n, 1), 0)
    }

    fn cuMemsetD32_v2(to: DeviceAddress, value: c_uint, n: usize) [driver, context] and "_ptds" {
        fill(driver, &context, (to, 0), (value, 4), (n, 1), 0)
    }

    fn cuMemsetD8Async(to: DeviceAddress, value: c_uchar, n: usize, stream: Handle) [driver, context] and "_ptsz" {
        fill(driver, &context, (to, 0), (value.into(), 1), (n, 1), stream)
    }

    fn cuMemsetD16Async(to: DeviceAddress, value: c_ushort, n: usize, stream: Handle) [driver, context] and "_ptsz" {
        fill(driver, &context, (to, 0), (value.into(), 2), (n, 1), stream)
    }

    fn cuMemsetD32Async(to: DeviceAddress, value: c_uint, n: usize, stream: Handle) [driver, context] and "_ptsz" {
        fill(driver, &context, (to, 0), (value, 4), (n, 1), stream)
    }

    fn cuMemsetD2D8_v2(
        to: DeviceAddress,
        pitch: usize,
        value: c_uchar,
        width: usize,
        height: usize,
    ) [driver, context] and "_ptds" {
        fill(driver, &context, (to, pitch), (value.into(), 1), (width, height), 0)
    }

    fn cuMemsetD2D16_v2(
        to: DeviceAddress,
        pitch: usize,
        value: c_ushort,
        width: usize,
        height: usize,
    ) [driver, context] and "_ptds" {
        fill(driver, &context, (to, pitch), (value.into(), 2), (width, height), 0)
    }

    fn cuMemsetD2D32_v2(
        to: DeviceAddress,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
    ) [driver, context] and "_ptds" {
        fill(driver, &context, (to, pitch), (value, 4), (width, height), 0)
    }

    fn cuMemsetD2D8Async(
        to: DeviceAddress,
        pitch: usize,
        value: c_uchar,
        width: usize,
        height: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        fill(driver, &context, (to, pitch), (value.into(), 1), (width, height), stream)
    }

    fn cuMemsetD2D16Async(
        to: DeviceAddress,
        pitch: usize,
        value: c_ushort,
        width: usize,
        height: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        fill(driver, &context, (to, pitch), (value.into(), 2), (width, height), stream)
    }

    fn cuMemsetD2D32Async(
        to: DeviceAddress,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: Handle,
    ) [driver, context] and "_ptsz" {
        fill(driver, &context, (to, pitch), (value, 4), (width, height), stream)
    }
}
