//! What integers of the text are known to be without looking at conditions: enough to see that `i + 1` of a thread's
//! coordinate does not overflow, and so to write it is.
//!
//! No extent is negative.

use polyloom_ir::analysis::interval::{self, Interval};
use polyloom_ir::analysis::range;
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
    known: RefCell<FxHashMap<(Value, u32), Interval>>,
}

impl<'a> ValueIntervals<'a> {
    pub(super) fn new(func: &'a Function) -> ValueIntervals<'a> {
        let loops = func.insts.iter().filter(|(_, data)| data.op == Op::ForRange);
        let loops = loops.map(|(inst, data)| (data.regions[0], inst)).collect();
        ValueIntervals { func, loops, known: RefCell::default() }
    }

    /// The least and the greatest number that an integer can be.
    pub(super) fn of(&self, value: Value) -> Interval {
        self.within(value, MAX_DEPTH)
    }

    /// Returns true if a sum, difference, product or negation has its mathematical value.
    pub(super) fn is_exact(&self, data: &InstData, ty: Scalar) -> bool {
        self.arithmetic(data, MAX_DEPTH).is_some_and(|found| Interval::full(ty).contains(found))
    }

    /// Returns true if a loop may count until its end is passed, as C++ does, rather than for so many iterations,
    /// because its step is constant, and the counter does not overflow.
    pub(super) fn counts_plainly(&self, data: &InstData) -> bool {
        let [high, step] = [data.operands[1], data.operands[2]];
        let Some(ty) = self.func.ty(step).as_scalar() else { return false };
        let (step, end) = (self.of(step), self.of(high));
        let after_last = if step.low > 0 { end.high - 1 + step.low } else { end.low + 1 + step.low };
        self.func.as_const(data.operands[2]).is_some_and(|step| step != 0)
            && Interval::full(ty).contains(Interval::one(after_last))
    }

    fn within(&self, value: Value, depth: u32) -> Interval {
        if let Some(&known) = self.known.borrow().get(&(value, depth)) {
            return known;
        }
        let found = self.looked_up(value, depth);
        self.known.borrow_mut().insert((value, depth), found);
        found
    }

    fn looked_up(&self, value: Value, depth: u32) -> Interval {
        let func = self.func;
        let any = Interval::new(i64::MIN.into(), u64::MAX.into());
        let Type::Scalar(ty) = func.ty(value) else { return any };
        if ty.is_float() {
            return any;
        }
        let found = match func.values[value].def {
            // Values that take no time to look at are looked at however far away they are.
            ValueDef::Result(inst, _) if depth > 0 || func.insts[inst].operands.is_empty() => {
                self.computed(&func.insts[inst], ty, depth)
            }
            ValueDef::Param(..) if depth > 0 => self.counter(value, depth),
            _ => None,
        };
        found.filter(|&found| Interval::full(ty).contains(found)).unwrap_or(Interval::full(ty))
    }

    fn computed(&self, data: &InstData, ty: Scalar, depth: u32) -> Option<Interval> {
        let func = self.func;
        let operand = |index: usize| self.within(data.operands[index], depth - 1);
        Some(match data.op {
            Op::Const => {
                let Imm::Bits(bits) = data.imm else { return None };
                let unused = 64 - ty.bits();
                let number =
                    if ty.is_signed_int() { ((bits << unused) as i64 >> unused).into() } else { i128::from(bits) };
                Interval::one(number)
            }
            Op::Dim => Interval::new(0, i32::MAX.into()),
            Op::WrapIndex => {
                let (Imm::Extent(of), found) = (&data.imm, operand(0)) else { return None };
                let extent = i128::from(of.extent);
                if !Interval::new(-extent, extent - 1).contains(found) {
                    return None;
                }
                if found.low >= 0 { found } else { Interval::new(0, extent - 1) }
            }
            Op::Select => operand(1).union(operand(2)),
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
            Op::Add | Op::Sub | Op::Mul | Op::Neg | Op::Div | Op::FloorDiv | Op::Mod | Op::Min | Op::Max => {
                return self.applied(data, ty, depth);
            }
            Op::BitAnd | Op::Rshift | Op::Cast => return self.applied(data, ty, depth),
            _ => return range::of_coordinate(func, data),
        })
    }

    /// Returns what an op gives of integers alone.
    fn applied(&self, data: &InstData, ty: Scalar, depth: u32) -> Option<Interval> {
        let from = self.func.ty(*data.operands.first()?).as_scalar().filter(|from| !from.is_float())?;
        // A cast takes no step back.
        let depth = if data.op == Op::Cast { depth } else { depth.checked_sub(1)? };
        match data.operands[..] {
            [x] => Some(interval::unary(data.op, self.within(x, depth), from, ty)),
            [x, y] => {
                let (x, y) = (self.within(x, depth), self.within(y, depth));
                let is_followed = match data.op {
                    Op::Div | Op::FloorDiv => x.low >= 0 && y.low > 0,
                    Op::Mod => y.low > 0,
                    Op::Rshift => x.low >= 0,
                    _ => true,
                };
                is_followed.then(|| interval::binary(data.op, x, y, from))
            }
            _ => None,
        }
    }

    /// Returns what a sum, difference, product or negation comes to, before it wraps.
    fn arithmetic(&self, data: &InstData, depth: u32) -> Option<Interval> {
        if depth == 0 {
            return None;
        }
        let operand = |index: usize| self.within(data.operands[index], depth - 1);
        let a = operand(0);
        Some(match data.op {
            Op::Neg => a.negated(),
            Op::Add => a.plus(operand(1)),
            Op::Sub => a.minus(operand(1)),
            Op::Mul => a.times(operand(1)),
            _ => return None,
        })
    }

    /// The numbers that a loop counts through.
    fn counter(&self, value: Value, depth: u32) -> Option<Interval> {
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
