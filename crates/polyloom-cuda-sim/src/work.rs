//! Things that a stream or a graph does: launches, copies, fills, calls of the host.

use crate::abi::{Copy2D, Copy2DSide, Copy3D, Copy3DSide, DeviceAddress, memory_type};
use crate::array::ARRAYS;
use crate::driver::Driver;
use crate::event::Event;
use crate::graph::Conditional;
use crate::launch::Launch;
use crate::memory::{CopyPlace, free_pooled};
use crate::pointers::HostCall;
use crate::status::{CudaError, Outcome};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// One thing to do.
#[derive(Clone)]
pub(crate) enum Work {
    Launch(Launch),
    Copy(CopyWork),
    Fill(FillWork),
    Host(HostCall),
    Nothing,
    Record(Arc<Event>),
    /// Waiting for an event, which is over by then.
    Wait(Arc<Event>),
    /// A graph in a graph: its own work, in order.
    Child(Arc<Vec<Work>>),
    /// Memory of a graph, allocated when the node is made, and its size.
    Alloc(DeviceAddress, usize),
    Free(DeviceAddress),
    Conditional(Arc<Conditional>),
}

/// Rows of bytes that are copied, and planes of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CopyWork {
    pub(crate) to: CopySide,
    pub(crate) from: CopySide,
    /// Bytes of a row, rows of a plane, planes.
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// One side of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CopySide {
    pub(crate) place: CopyPlace,
    /// Bytes from a row to the next, and from a plane to the next.
    pub(crate) pitch: usize,
    pub(crate) plane: usize,
}

impl CopySide {
    pub(crate) fn plain(place: CopyPlace) -> CopySide {
        CopySide { place, pitch: 0, plane: 0 }
    }

    fn row(&self, row: usize, plane: usize) -> CopyPlace {
        let offset = row * self.pitch + plane * self.plane;
        match self.place {
            CopyPlace::Host(address) => CopyPlace::Host(address.wrapping_add(offset)),
            CopyPlace::Device(address) => CopyPlace::Device(address.wrapping_add(offset as u64)),
        }
    }
}

impl CopyWork {
    /// A copy of bytes that lie together.
    pub(crate) fn plain(to: CopyPlace, from: CopyPlace, n_bytes: usize) -> CopyWork {
        CopyWork { to: CopySide::plain(to), from: CopySide::plain(from), width: n_bytes, height: 1, depth: 1 }
    }

    pub(crate) fn of_2d(driver: &Driver, copy: &Copy2D) -> Outcome<CopyWork> {
        let &Copy2D { from, to, width, height } = copy;
        let side = |side: &Copy2DSide| {
            let Copy2DSide { x, y, memory_type, host, device, array, pitch } = *side;
            if memory_type == memory_type::ARRAY {
                return ARRAYS.get(array)?.copy_side([x, y, 0], [width, height, 1]);
            }
            if height > 1 && pitch < width && pitch != 0 {
                return Err(CudaError::INVALID_VALUE);
            }
            let place = placed(driver, memory_type, host, device)?.moved(x + y * pitch);
            Ok(CopySide { place, pitch: if pitch == 0 { width } else { pitch }, plane: 0 })
        };
        Ok(CopyWork { to: side(&to)?, from: side(&from)?, width, height, depth: 1 })
    }

    pub(crate) fn of_3d(driver: &Driver, copy: &Copy3D) -> Outcome<CopyWork> {
        let &Copy3D { from, to, width, height, depth } = copy;
        let side = |side: &Copy3DSide| {
            if side.memory_type == memory_type::ARRAY {
                if side.level != 0 {
                    return Err(CudaError::INVALID_VALUE);
                }
                return ARRAYS.get(side.array)?.copy_side([side.x, side.y, side.z], [width, height, depth]);
            }
            let pitch = if side.pitch == 0 { width } else { side.pitch };
            let plane = pitch * if side.height == 0 { height } else { side.height };
            let offset = side.x + side.y * pitch + side.z * plane;
            let place = placed(driver, side.memory_type, side.host, side.device)?;
            Ok(CopySide { place: place.moved(offset), pitch, plane })
        };
        Ok(CopyWork { to: side(&to)?, from: side(&from)?, width, height, depth })
    }

    fn run(&self, driver: &Driver) -> Outcome {
        let is_dense = |side: &CopySide| side.pitch == self.width && side.plane == self.width * self.height;
        if is_dense(&self.to) && is_dense(&self.from) {
            let n_bytes = self.width * self.height * self.depth;
            return driver.memory.copy(driver, self.to.place, self.from.place, n_bytes);
        }
        for plane in 0..self.depth {
            for row in 0..self.height {
                driver.memory.copy(driver, self.to.row(row, plane), self.from.row(row, plane), self.width)?;
            }
        }
        Ok(())
    }
}

fn placed(driver: &Driver, kind: u32, host: usize, device: DeviceAddress) -> Outcome<CopyPlace> {
    match kind {
        memory_type::HOST => Ok(CopyPlace::Host(host)),
        memory_type::DEVICE => Ok(CopyPlace::Device(device)),
        memory_type::UNIFIED => Ok(driver.memory.place(device)),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Rows of elements that are set to one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FillWork {
    pub(crate) address: DeviceAddress,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) element_bytes: u32,
    /// Elements of a row, and rows.
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl FillWork {
    fn run(&self, driver: &Driver) -> Outcome {
        let size = self.element_bytes as usize;
        if !matches!(size, 1 | 2 | 4) || !self.address.is_multiple_of(size as u64) {
            return Err(CudaError::INVALID_VALUE);
        }
        let (pattern, n_bytes) = (&self.value.to_le_bytes()[..size], self.width * size);
        if self.height == 1 || self.pitch == n_bytes {
            return driver.memory.fill(driver, self.address, pattern, n_bytes * self.height);
        }
        (0..self.height)
            .try_for_each(|row| driver.memory.fill(driver, self.address + (row * self.pitch) as u64, pattern, n_bytes))
    }
}

impl Work {
    /// Does it. An error after which nothing works any more is remembered.
    pub(crate) fn run(&self, driver: &Driver) -> Outcome {
        driver.check_alive()?;
        let on_device = || driver.running.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match self {
            Work::Launch(launch) => {
                let _only = on_device();
                launch.run(driver)
            }
            Work::Copy(copy) => {
                let _only = on_device();
                copy.run(driver)
            }
            Work::Fill(fill) => {
                let _only = on_device();
                fill.run(driver)
            }
            Work::Host(call) => {
                driver.flush_prints();
                call.run();
                Ok(())
            }
            Work::Nothing | Work::Alloc(..) => Ok(()),
            Work::Wait(event) => {
                // An event that is recorded is done, and one that never is orders nothing.
                debug_assert!(event.state().captured.is_none(), "captures make edges of events");
                Ok(())
            }
            Work::Record(event) => {
                event.state().recorded = Some(Instant::now());
                Ok(())
            }
            Work::Child(all) => all.iter().try_for_each(|work| work.run(driver)),
            Work::Free(address) => free_pooled(driver, *address),
            Work::Conditional(conditional) => conditional.run(driver),
        };
        if let Err(error) = done
            && error.loses_the_device()
        {
            driver.lose(error);
        }
        done
    }
}
