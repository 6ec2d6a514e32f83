//! Loads and stores of matrices, element by element.

use super::block::BlockState;
use super::grid::Context;
use super::registers::{LANES, Word};
use super::warp::Warp;
use crate::decode::op::{Destination, Inst, MatrixAccess};
use crate::report::Finding;

impl Warp {
    pub(super) fn matrix_access(
        &mut self,
        context: &Context<'_>,
        block: &mut BlockState,
        inst: &Inst,
        access: &MatrixAccess,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let addresses = self.lane_addresses(&access.address);
        let stride = match &access.stride {
            Some(stride) => *stride.get(&self.registers),
            None => [0; LANES],
        };
        let bits = access.size * 8;
        let kept = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut values = vec![[0u64; LANES]; access.registers.len()];
        if access.store {
            for (values, register) in values.iter_mut().zip(&access.registers) {
                match register {
                    Destination::Word(slot, _) => *values = u32::lanes(&self.registers, *slot).map(u64::from),
                    Destination::Double(slot) => *values = *u64::lanes(&self.registers, *slot),
                    Destination::Sink => {}
                }
            }
        }
        for element in &access.elements {
            let (lane, from) = (usize::from(element.lane), usize::from(element.row_lane));
            if lanes >> lane & 1 == 0 {
                continue;
            }
            let elements = u64::from(element.major) * u64::from(stride[lane]) + u64::from(element.minor);
            let address = addresses[from].wrapping_add(elements * u64::from(access.size));
            let place = (access.space, address, access.size);
            let value = &mut values[usize::from(element.register)][lane];
            if access.store {
                let stored = *value >> element.bit & kept;
                self.access_one(context, block, inst, place, lane, Some(stored))?;
            } else {
                let loaded = self.access_one(context, block, inst, place, lane, None)?;
                *value |= loaded << element.bit;
            }
        }
        if !access.store {
            for (values, register) in values.iter().zip(&access.registers) {
                self.write(*register, values, lanes);
            }
        }
        Ok(())
    }
}
