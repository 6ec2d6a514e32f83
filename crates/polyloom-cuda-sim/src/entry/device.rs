//! The device: what it is called and what it has.

use super::entry_points;
use crate::abi::DeviceProperties;
use crate::array::{image_limit, texel_format};
use crate::configuration::Configuration;
use crate::driver::Driver;
use crate::pointers::{Out, Text};
use crate::status::{CudaError, Outcome};
use polyloom_ptx::MULTIPROCESSORS;
use std::ffi::{c_char, c_int, c_uint};

/// The number of the one device.
pub(super) fn checked(device: c_int) -> Outcome {
    if device == 0 { Ok(()) } else { Err(CudaError::INVALID_DEVICE) }
}

/// Numbers that a device has to have and that mean nothing in a simulation.
const CLOCK_KHZ: c_int = 1_000_000;
const BUS_BITS: c_int = 256;
const L2_BYTES: c_int = 4 << 20;
const BUS_ID: &str = "0000:01:00.0";

fn name(driver: &Driver) -> String {
    format!("Polyloom simulator, {}", driver.configuration.arch)
}

/// An attribute by its number (`CUdevice_attribute`).
fn attribute(configuration: &Configuration, number: c_uint) -> Outcome<c_int> {
    let arch = configuration.arch;
    let limits = arch.limits();
    let int = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    Ok(match number {
        1 => int(limits.threads_per_block),
        2..=4 => int(limits.block_dim[number as usize - 2]),
        5..=7 => int(limits.grid_dim[number as usize - 5]),
        8 => int(limits.static_shared_bytes),
        9 => int(polyloom_ir::arch::CONSTANT_BYTES),
        10 => int(polyloom_ir::arch::WARP_SIZE),
        11 => c_int::MAX,
        12 | 82 => int(limits.registers),
        13 | 36 => CLOCK_KHZ,
        14 | 30 => image_limit::ALIGN as c_int,
        16 => int(MULTIPROCESSORS),
        // Overlapping copies, mapped host memory, concurrent kernels, unified addressing, priorities, caches.
        15 | 19 | 31 | 41 | 78..=80 => 1,
        33 => 1,
        37 => BUS_BITS,
        38 => L2_BYTES,
        39 => int(limits.threads_per_multiprocessor),
        40 => 1,
        51 => image_limit::PITCH_ALIGN as c_int,
        // The largest textures and surfaces, by their axes; those that are missing (of cubes, of several levels) have no extent.
        21 | 22 | 56 | 70 => image_limit::AXIS as c_int,
        23 | 57 => image_limit::ROWS as c_int,
        24..=26 | 58..=60 => image_limit::AXIS_OF_3D as c_int,
        27 | 28 | 42 | 45 | 46 | 55 | 61 | 63 | 64 => image_limit::AXIS_OF_LAYER as c_int,
        29 | 43 | 62 | 65 => image_limit::LAYERS as c_int,
        44 => 1,
        47 | 48 => image_limit::AXIS_OF_3D as c_int / 2,
        49 => image_limit::AXIS_OF_3D as c_int * 2,
        69 => image_limit::LINEAR as c_int,
        71 => image_limit::PITCHED_ROWS as c_int,
        72 => image_limit::PITCH as c_int,
        75 => int((arch.number() / 10).into()),
        76 => int((arch.number() % 10).into()),
        81 => int(limits.multiprocessor_shared_bytes),
        // Managed memory, which the host accesses while kernels run, and preemption.
        83 | 89 | 90 => 1,
        87 => 2,
        // Registered memory at its own address, operations on memory in streams, cooperative launches, registration, virtual
        // memory.
        91..=94 | 95 | 99 | 101 | 102 | 122 | 123 => 1,
        97 => int(limits.opt_in_shared_bytes),
        106 => int(limits.blocks_per_multiprocessor),
        111 => int(limits.reserved_shared_bytes),
        113 | 115 => 1,
        126 => 1,
        // Launches of clusters, and tensor maps.
        120 | 127 => (arch.number() >= 90).into(),
        131 | 134 => -1,
        0 | 162.. => return Err(CudaError::INVALID_VALUE),
        // Other systems and other devices.
        _ => 0,
    })
}

fn uuid() -> [u8; 16] {
    *b"polyloom-sim-gpu"
}

entry_points! { DEVICE:
    fn cuDeviceGetCount(count: Out<c_int>) [_driver] {
        count.set(1)
    }

    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) [_driver] {
        checked(ordinal)?;
        device.set(0)
    }

    fn cuDeviceGetName(text: Out<c_char>, room: c_int, device: c_int) [driver] {
        checked(device)?;
        text.set_text(&name(driver), usize::try_from(room).unwrap_or(0))
    }

    fn cuDeviceGetUuid(id: Out<[u8; 16]>, device: c_int) [_driver] {
        checked(device)?;
        id.set(uuid())
    }

    fn cuDeviceGetUuid_v2(id: Out<[u8; 16]>, device: c_int) [_driver] {
        checked(device)?;
        id.set(uuid())
    }

    fn cuDeviceTotalMem_v2(n_bytes: Out<usize>, device: c_int) [driver] {
        checked(device)?;
        n_bytes.set(driver.memory.device.capacity())
    }

    fn cuDeviceGetAttribute(value: Out<c_int>, number: c_uint, device: c_int) [driver] {
        checked(device)?;
        value.set(attribute(&driver.configuration, number)?)
    }

    fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) [driver] {
        checked(device)?;
        major.set(attribute(&driver.configuration, 75)?)?;
        minor.set(attribute(&driver.configuration, 76)?)
    }

    fn cuDeviceGetProperties(properties: Out<DeviceProperties>, device: c_int) [driver] {
        checked(device)?;
        let get = |number: c_uint| attribute(&driver.configuration, number);
        properties.set(DeviceProperties {
            threads_per_block: get(1)?,
            block: [get(2)?, get(3)?, get(4)?],
            grid: [get(5)?, get(6)?, get(7)?],
            shared_bytes: get(8)?,
            constant_bytes: get(9)?,
            warp: get(10)?,
            pitch: get(11)?,
            registers: get(12)?,
            clock_khz: get(13)?,
            texture_align: get(14)?,
        })
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(
        n_texels: Out<usize>,
        format: c_uint,
        n_channels: c_uint,
        device: c_int,
    ) [driver] {
        checked(device)?;
        texel_format(driver, format, n_channels)?;
        n_texels.set(image_limit::LINEAR)
    }

    fn cuDeviceGetPCIBusId(text: Out<c_char>, room: c_int, device: c_int) [_driver] {
        checked(device)?;
        text.set_text(BUS_ID, usize::try_from(room).unwrap_or(0))
    }

    fn cuDeviceGetByPCIBusId(device: Out<c_int>, id: Text) [_driver] {
        // Domains may be left out, or have eight digits.
        let is_it = id.get()?.ends_with(&BUS_ID[5..]);
        if is_it { device.set(0) } else { Err(CudaError::INVALID_DEVICE) }
    }

    fn cuDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) [_driver] {
        checked(device)?;
        checked(peer)?;
        can.set(0)
    }

    fn cuDeviceGetP2PAttribute(_value: Out<c_int>, _number: c_uint, device: c_int, peer: c_int) [_driver] {
        checked(device)?;
        checked(peer)?;
        Err(CudaError::INVALID_DEVICE)
    }

    fn cuDeviceGetLuid(_luid: Out<c_char>, _mask: Out<c_uint>, device: c_int) [_driver] {
        checked(device)?;
        Err(CudaError::NOT_SUPPORTED)
    }

    fn cuDeviceGetExecAffinitySupport(value: Out<c_int>, _kind: c_uint, device: c_int) [_driver] {
        checked(device)?;
        value.set(0)
    }
}
