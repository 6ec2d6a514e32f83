//! What integers of the text are known to be without looking at conditions: enough to see that `i + 1` of a thread's
//! coordinate does not overflow, and so to write it is.
//!
//! No extent is negative.

use polyloom_ir::range::{self, Range};
use polyloom_ir::{Function, Imm, Inst, InstData, Op, Region, Scalar, Type, Value, ValueDef};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// Says how far back a value's computation is looked at.
const MAX_DEPTH: u32 = 10;

/// Describes what the integers of a function can be.
pub(super) struct ValueIntervals<'a> {
    func: &'a Function,
    /// The loops by their bodies.
    loops: FxHashMap<Region, Inst>,
    /// Holds what has been found, by how far back was looked.
    known: RefCell<FxHashMap<(Value, u32), Range>>,
}

impl<'a> ValueIntervals<'a> {
    pub(super) fn new(func: &'a Function) -> ValueIntervals<'a> {
        let loops = func.insts.iter().filter(|(_, data)| data.op == Op::ForRange);
        let loops = loops.map(|(inst, data)| (data.regions[0], inst)).collect();
        ValueIntervals { func, loops, known: RefCell::default() }
    }

    /// The least and the greatest number that an integer can be.
    pub(super) fn of(&self, value: Value) -> Range {
        self.within(value, MAX_DEPTH)
    }

    /// Returns true if a sum, difference, product or negation has its mathematical value.
    pub(super) fn is_exact(&self, data: &InstData, ty: Scalar) -> bool {
        self.arithmetic(data, MAX_DEPTH).is_some_and(|found| fits(found, full(ty)))
    }

    /// Returns true if a loop may count until its end is passed, as C++ does, rather than for so many iterations,
    /// because its step is constant, and the counter does not overflow.
    pub(super) fn counts_plainly(&self, data: &InstData) -> bool {
        let [high, step] = [data.operands[1], data.operands[2]];
        let Some(ty) = self.func.ty(step).as_scalar() else { return false };
        let (step, end) = (self.of(step), self.of(high));
        let after_last = if step.0 > 0 { end.1 - 1 + step.0 } else { end.0 + 1 + step.0 };
        self.func.as_const(data.operands[2]).is_some_and(|step| step != 0) && fits((after_last, after_last), full(ty))
    }

    fn within(&self, value: Value, depth: u32) -> Range {
        if let Some(&known) = self.known.borrow().get(&(value, depth)) {
            return known;
        }
        let found = self.looked_up(value, depth);
        self.known.borrow_mut().insert((value, depth), found);
        found
    }

    fn looked_up(&self, value: Value, depth: u32) -> Range {
        let func = self.func;
        let Type::Scalar(ty) = func.ty(value) else { return (i64::MIN.into(), u64::MAX.into()) };
        if ty.is_float() {
            return (i64::MIN.into(), u64::MAX.into());
        }
        let found = match func.values[value].def {
            // Values that take no time to look at are looked at however far away they are.
            ValueDef::Result(inst, _) if depth > 0 || func.insts[inst].operands.is_empty() => {
                self.computed(&func.insts[inst], ty, depth)
            }
            ValueDef::Param(..) if depth > 0 => self.counter(value, depth),
            _ => None,
        };
        found.filter(|&found| fits(found, full(ty))).unwrap_or(full(ty))
    }

    fn computed(&self, data: &InstData, ty: Scalar, depth: u32) -> Option<Range> {
        let func = self.func;
        let operand = |index: usize| self.within(data.operands[index], depth - 1);
        if matches!(data.op, Op::Min | Op::Max) && data.operands.len() != 2 {
            // The least or greatest component of a composite.
            return None;
        }
        Some(match data.op {
            Op::Const => {
                let Imm::Bits(bits) = data.imm else { return None };
                let unused = 64 - ty.bits();
                let number =
                    if ty.is_signed_int() { ((bits << unused) as i64 >> unused).into() } else { i128::from(bits) };
                (number, number)
            }
            Op::Dim => (0, i32::MAX.into()),
            Op::WrapIndex => {
                let (Imm::Extent(of), found) = (&data.imm, operand(0)) else { return None };
                let extent = i128::from(of.extent);
                if !fits(found, (-extent, extent - 1)) {
                    return None;
                }
                if found.0 >= 0 { found } else { (0, extent - 1) }
            }
            Op::Cast if func.ty(data.operands[0]).as_scalar().is_some_and(|from| !from.is_float()) => {
                self.within(data.operands[0], depth)
            }
            Op::Add | Op::Sub | Op::Mul | Op::Neg => self.arithmetic(data, depth)?,
            Op::Min => {
                let (a, b) = (operand(0), operand(1));
                (a.0.min(b.0), a.1.min(b.1))
            }
            Op::Max => {
                let (a, b) = (operand(0), operand(1));
                (a.0.max(b.0), a.1.max(b.1))
            }
            Op::BitAnd => {
                let (a, b) = (operand(0), operand(1));
                match (a.0 >= 0, b.0 >= 0) {
                    (true, true) => (0, a.1.min(b.1)),
                    (true, false) => (0, a.1),
                    (false, true) => (0, b.1),
                    (false, false) => return None,
                }
            }
            Op::Rshift => {
                let (a, count) = (operand(0), operand(1));
                if a.0 < 0 || count.0 < 0 || count.1 > 63 {
                    return None;
                }
                (a.0 >> count.1, a.1 >> count.0)
            }
            Op::Mod => {
                let (a, b) = (operand(0), operand(1));
                if b.0 <= 0 {
                    return None;
                }
                (if a.0 < 0 { 1 - b.1 } else { 0 }, if a.1 < 0 { 0 } else { a.1.min(b.1 - 1) })
            }
            Op::Div | Op::FloorDiv => {
                let (a, b) = (operand(0), operand(1));
                if a.0 < 0 || b.0 <= 0 {
                    return None;
                }
                (a.0 / b.1, a.1 / b.0)
            }
            Op::Select => {
                let (a, b) = (operand(1), operand(2));
                (a.0.min(b.0), a.1.max(b.1))
            }
            Op::Component => {
                let (Imm::Component(number), ValueDef::Result(whole, _)) =
                    (&data.imm, func.values[data.operands[0]].def)
                else {
                    return None;
                };
                let whole = &func.insts[whole];
                let component = whole.operands.get(usize::from(*number)).filter(|_| whole.op == Op::Construct)?;
                self.within(*component, depth - 1)
            }
            _ => return range::of_coordinate(func, data),
        })
    }

    /// Returns what a sum, difference, product or negation comes to, before it wraps.
    fn arithmetic(&self, data: &InstData, depth: u32) -> Option<Range> {
        if depth == 0 {
            return None;
        }
        let operand = |index: usize| self.within(data.operands[index], depth - 1);
        let a = operand(0);
        Some(match data.op {
            Op::Neg => (-a.1, -a.0),
            Op::Add => (a.0 + operand(1).0, a.1 + operand(1).1),
            Op::Sub => (a.0 - operand(1).1, a.1 - operand(1).0),
            Op::Mul => {
                let b = operand(1);
                let corners =
                    [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
                (*corners.iter().min()?, *corners.iter().max()?)
            }
            _ => return None,
        })
    }

    /// The numbers that a loop counts through.
    fn counter(&self, value: Value, depth: u32) -> Option<Range> {
        let func = self.func;
        let ValueDef::Param(region, 0) = func.values[value].def else { return None };
        if region == func.body {
            return None;
        }
        let owner = &func.insts[*self.loops.get(&region)?];
        let [low, high] = [0, 1].map(|index| self.within(owner.operands[index], depth - 1));
        let step = self.within(owner.operands[2], depth - 1);
        Some(range::of_counter(low, high, step))
    }
}

fn fits(inner: Range, outer: Range) -> bool {
    outer.0 <= inner.0 && inner.1 <= outer.1
}

fn full(ty: Scalar) -> Range {
    let bits = ty.bits();
    match ty {
        Scalar::Bool => (0, 1),
        _ if ty.is_signed_int() => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}
