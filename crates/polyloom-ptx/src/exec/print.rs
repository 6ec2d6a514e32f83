//! `vprintf`, which CUDA's `printf` becomes: a format and a buffer of arguments, both by generic address; and
//! `__assertfail`, which `assert` becomes.

use super::block::BlockState;
use super::grid::GridContext;
use super::registers::{LANES, lanes_of};
use super::warp::WarpRun;
use crate::decode::op::{CallOp, DecodedInst};
use crate::memory::window;
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;
use polyloom_ir::format::{FormatPiece, format_into, pieces};
use polyloom_ir::types::{Scalar, Type};

/// The longest string read from device memory.
const MAX_TEXT: u64 = 1 << 16;

impl WarpRun {
    pub(super) fn print(
        &mut self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        call: &CallOp,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let mut pointers = [[0u64; LANES]; 2];
        for (place, pointers) in call.arguments.iter().zip(&mut pointers) {
            *pointers = self.argument(place);
        }
        for lane in lanes_of(lanes) {
            let [format, arguments] = pointers.map(|each| each[lane]);
            let text = self.text(context, block, lane, format).and_then(|format| {
                let bytes = String::from_utf8_lossy(&format).into_owned();
                self.formatted(context, block, lane, &bytes, arguments)
            });
            match text {
                Some(text) => (context.launch.print)(&text),
                None => {
                    let mut finding =
                        context.plain_finding(FindingKind::OutOfBounds, "`printf` reads outside of memory");
                    finding.site = Some(context.site(inst));
                    finding.address = Some(format);
                    return Err(finding);
                }
            }
        }
        // Number of arguments that were printed, which nobody asks for; zero bytes went wrong.
        self.set_result(call, &[0; LANES], lanes);
        Ok(())
    }

    /// The message, file, line and function of an assertion that failed.
    pub(super) fn failed_assertion(
        &self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        call: &CallOp,
        lanes: u32,
    ) -> Box<Finding> {
        let lane = lanes.trailing_zeros() as usize;
        let argument = |index: usize| call.arguments.get(index).map_or(0, |place| self.argument(place)[lane]);
        let text = |index: usize| {
            let bytes = self.text(context, block, lane, argument(index)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let message = format!("assertion `{}` failed in {}, {}:{}", text(0), text(3), text(1), argument(2) as u32);
        self.finding(context, block, inst, FindingKind::Trap, &message, lanes)
    }

    /// A byte at a generic address, as one lane sees it: outside of memory none, or zero where that is let pass.
    fn byte(&self, context: &GridContext<'_>, block: &BlockState, lane: usize, address: u64) -> Option<u8> {
        let byte = self.byte_inside(context, block, lane, address);
        byte.or_else(|| (!context.launch.sanitize.bounds).then_some(0))
    }

    fn byte_inside(&self, context: &GridContext<'_>, block: &BlockState, lane: usize, address: u64) -> Option<u8> {
        let within = |space: StateSpace, length: usize| {
            let offset = address - window::base(space);
            (offset < length as u64).then_some(offset as usize)
        };
        Some(match window::space_of(address) {
            StateSpace::Local => {
                let bytes = self.local_bytes as usize;
                self.local.load8(lane * bytes + within(StateSpace::Local, bytes)?)
            }
            StateSpace::Shared => {
                let offset = address - window::base(StateSpace::Shared);
                match window::rank(offset).filter(|rank| *rank < context.cluster_blocks && *rank != block.rank) {
                    Some(rank) => {
                        let offset = window::without_rank(offset);
                        let is_inside = context.shared_bounds().contains(&offset);
                        is_inside.then(|| block.cluster.shared(rank).load8(offset as usize))?
                    }
                    None => context.shared_bounds().contains(&offset).then(|| block.shared.load8(offset as usize))?,
                }
            }
            StateSpace::Param => context.parameters.load8(within(StateSpace::Param, context.parameters.len())?),
            _ => {
                let allocation = &context.memory[context.allocation(address, &mut 0)?];
                let offset = address - allocation.address;
                let is_inside = allocation.bounds(1, false).contains(&offset);
                is_inside.then(|| allocation.region.load8(offset as usize))?
            }
        })
    }

    fn text(&self, context: &GridContext<'_>, block: &BlockState, lane: usize, address: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for at in 0..MAX_TEXT {
            match self.byte(context, block, lane, address.wrapping_add(at))? {
                0 => return Some(text),
                byte => text.push(byte),
            }
        }
        Some(text)
    }

    fn formatted(
        &self,
        context: &GridContext<'_>,
        block: &BlockState,
        lane: usize,
        format: &str,
        arguments: u64,
    ) -> Option<String> {
        let mut out = String::new();
        let mut at = arguments;
        let mut next = |size: u64| -> Option<u64> {
            at = at.checked_next_multiple_of(size)?;
            let bytes = (0..size).map(|index| self.byte(context, block, lane, at.wrapping_add(index)).map(u64::from));
            let value = bytes.collect::<Option<Vec<_>>>()?.iter().rev().fold(0, |value, byte| value << 8 | byte);
            at = at.wrapping_add(size);
            Some(value)
        };
        for piece in pieces(format) {
            match piece {
                FormatPiece::Text(text) => out.push_str(text),
                FormatPiece::Conversion(conversion) => {
                    let long = conversion.text.contains('l') || conversion.text.contains('z');
                    match conversion.letter {
                        's' => {
                            let text = self.text(context, block, lane, next(8)?)?;
                            conversion.write_text(&mut out, &String::from_utf8_lossy(&text));
                        }
                        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
                            let bits = next(8)?;
                            format_into(&mut out, conversion.text, &[Type::Scalar(Scalar::F64)], &[bits]);
                        }
                        'd' | 'i' => {
                            let (ty, bits) = if long { (Scalar::I64, next(8)?) } else { (Scalar::I32, next(4)?) };
                            format_into(&mut out, conversion.text, &[Type::Scalar(ty)], &[bits]);
                        }
                        _ => {
                            let (ty, bits) = if long { (Scalar::U64, next(8)?) } else { (Scalar::U32, next(4)?) };
                            format_into(&mut out, conversion.text, &[Type::Scalar(ty)], &[bits]);
                        }
                    }
                }
                FormatPiece::Malformed("%p") => out.push_str(&format!("0x{:x}", next(8)?)),
                FormatPiece::Malformed(text) => out.push_str(text),
            }
        }
        Some(out)
    }
}
