//! States how often loops run, before they do.
//!
//! The number of a loop's iterations is stated in constants, extents of arrays, parameters and thread coordinates, and in
//! counters of loops around it that are bounded themselves. What is read from memory states nothing, unless `min`, `max`
//! or a remainder limits it.

use crate::entity::{FuncId, Inst, Region, Value};
use crate::function::{Function, Imm, InstData, Module, ValueDef};
use crate::op::{Op, OpGroup};
use crate::types::Scalar;
use std::collections::{HashMap, HashSet};

/// Bounds how far back the computation of a number is followed.
const MAX_DEPTH: u32 = 24;

/// A loop and how often it runs at most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopBound {
    /// The function that the loop is in.
    pub function: FuncId,
    /// The loop.
    pub inst: Inst,
    /// The most iterations, as an expression; none if nothing states it.
    pub most: Option<String>,
}

/// Finds how often the loops of a function and of those that it calls run, each loop once for each set of arguments that
/// are known to be bounded.
pub fn loop_bounds(module: &Module, func: FuncId) -> Vec<LoopBound> {
    let mut found = Vec::new();
    let known = vec![true; module.functions[func].params().len()];
    let mut seen = HashSet::from([(func, known.clone())]);
    let mut left = vec![(func, known)];
    while let Some((id, known)) = left.pop() {
        let mut finder =
            BoundFinder { func: &module.functions[id], known, counters: HashMap::new(), calls: Vec::new() };
        let body = finder.func.body;
        finder.region(id, body, &mut found);
        left.extend(finder.calls.into_iter().filter(|call| seen.insert(call.clone())));
    }
    found
}

/// Names the side of a number that is to be limited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BoundSide {
    Above,
    Below,
}

impl BoundSide {
    fn other(self) -> BoundSide {
        if self == BoundSide::Above { BoundSide::Below } else { BoundSide::Above }
    }
}

/// Walks one function, loops before what is in them.
struct BoundFinder<'a> {
    func: &'a Function,
    /// True for each parameter that is limited, which parameters of kernels are.
    known: Vec<bool>,
    /// The limits below and above of the counters of loops seen so far.
    counters: HashMap<Value, [Option<String>; 2]>,
    calls: Vec<(FuncId, Vec<bool>)>,
}

impl<'a> BoundFinder<'a> {
    fn region(&mut self, id: FuncId, region: Region, found: &mut Vec<LoopBound>) {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            match data.op {
                Op::ForRange => {
                    let most = self.for_range(data);
                    found.push(LoopBound { function: id, inst, most });
                }
                Op::While => found.push(LoopBound { function: id, inst, most: self.counted_while(inst, data) }),
                _ => {}
            }
            if let Imm::Func(callee) = data.imm {
                let is_limited = |&value: &Value| {
                    let is_number = func.ty(value).as_scalar().is_some_and(Scalar::is_int);
                    !is_number || self.limits(value).is_some()
                };
                let known = data.operands.iter().map(is_limited).collect();
                self.calls.push((callee, known));
            }
            for &inner in &data.regions {
                self.region(id, inner, found);
            }
        }
    }

    fn for_range(&mut self, data: &InstData) -> Option<String> {
        let &[lo, hi, step, ..] = &data.operands[..] else { return None };
        let limits = match self.constant(step) {
            Some(step) if step > 0 => [self.limit(lo, BoundSide::Below), self.limit(hi, BoundSide::Above)],
            Some(step) if step < 0 => [self.limit(hi, BoundSide::Below), self.limit(lo, BoundSide::Above)],
            _ => match (self.limits(lo), self.limits(hi)) {
                (Some(lo), Some(hi)) => {
                    [Some(format!("min({}, {})", lo[0], hi[0])), Some(format!("max({}, {})", lo[1], hi[1]))]
                }
                _ => [None, None],
            },
        };
        if let Some(&counter) = self.func.regions[data.regions[0]].params.first() {
            self.counters.insert(counter, limits.clone());
        }
        let [Some(first), Some(last)] = limits else { return None };
        let distance = match &*first {
            "0" => last,
            _ => match (first.parse::<i128>(), last.parse::<i128>()) {
                (Ok(first), Ok(last)) => (last - first).max(0).to_string(),
                _ => format!("{last} - {}", in_brackets(&first)),
            },
        };
        Some(match self.constant(step).map(i128::unsigned_abs) {
            Some(step) if step > 1 => match distance.parse::<u128>() {
                Ok(distance) => distance.div_ceil(step).to_string(),
                Err(_) => format!("{} / {step}", in_brackets(&distance)),
            },
            _ => distance,
        })
    }

    /// Returns the iterations of `while i < n` whose body ends in `i += 1` on every path. Other steps, and `i <= n`, need a limit
    /// that is a constant, because a counter that passes the greatest number of its type begins again at the least.
    fn counted_while(&self, inst: Inst, data: &InstData) -> Option<String> {
        let &[cond, body] = &data.regions[..] else { return None };
        let ends = self.func.terminator(cond)?;
        let mut conditions = vec![*self.func.insts[ends].operands.first()?];
        while let Some(condition) = conditions.pop() {
            let ValueDef::Result(made, _) = self.func.values[condition].def else { continue };
            let made = &self.func.insts[made];
            let is_inclusive = matches!(made.op, Op::Le | Op::Ge);
            let (index, limit, up) = match (made.op, &made.operands[..]) {
                (Op::BitAnd, [a, b]) => {
                    conditions.extend([*a, *b]);
                    continue;
                }
                // `and` whose second part is computed only if the first holds.
                (Op::If, [first]) if self.is_false_otherwise(made) => {
                    conditions.push(*first);
                    continue;
                }
                (Op::Lt | Op::Le | Op::Gt | Op::Ge, &[a, b]) => {
                    let up = matches!(made.op, Op::Lt | Op::Le);
                    match (self.param_of(cond, a), self.param_of(cond, b)) {
                        (Some(index), None) => (index, b, up),
                        (None, Some(index)) => (index, a, !up),
                        _ => continue,
                    }
                }
                _ => continue,
            };
            let (end, start) = match up {
                true => (self.limit(limit, BoundSide::Above), self.limit(data.operands[index], BoundSide::Below)),
                false => (self.limit(limit, BoundSide::Below), self.limit(data.operands[index], BoundSide::Above)),
            };
            let (Some(end), Some(start)) = (end, start) else { continue };
            let Some(step) = self.step_of(inst, body, index, up) else { continue };
            if (step > 1 || is_inclusive) && !self.stays_in_type(limit, if up { step } else { -step }) {
                continue;
            }
            let distance = match up {
                true if start == "0" => end,
                true => format!("{end} - {}", in_brackets(&start)),
                false => format!("{start} - {}", in_brackets(&end)),
            };
            return Some(if is_inclusive { format!("{distance} + 1") } else { distance });
        }
        None
    }

    /// True if an `if` gives nothing but false where its condition does not hold.
    fn is_false_otherwise(&self, data: &InstData) -> bool {
        let end = data.regions.get(1).and_then(|&region| self.func.terminator(region));
        let values = end.map(|end| &self.func.insts[end].operands[..]).unwrap_or_default();
        !values.is_empty() && values.iter().all(|&value| self.func.as_const(value) == Some(0))
    }

    /// True if a counter that is at most `step` beyond a limit, which is a constant, is a number of the limit's type.
    fn stays_in_type(&self, limit: Value, step: i128) -> bool {
        let Some(ty) = self.func.ty(limit).as_scalar() else { return false };
        let bits = ty.bits() - u32::from(ty.is_signed_int());
        let (least, most) = (if ty.is_signed_int() { -(1i128 << bits) } else { 0 }, (1i128 << bits) - 1);
        self.constant(limit).is_some_and(|limit| (least..=most).contains(&(limit + step)))
    }

    /// Returns the greatest constant that a way back to the head of a loop adds to the carried value with this index, or
    /// subtracts if it goes down; `None` if one of them does neither.
    fn step_of(&self, inst: Inst, body: Region, index: usize, up: bool) -> Option<i128> {
        let &param = self.func.regions[body].params.get(index)?;
        let advanced_by = |value: Value| {
            let ValueDef::Result(made, _) = self.func.values[value].def else { return None };
            let made = &self.func.insts[made];
            let by = match (made.op, &made.operands[..]) {
                (Op::Add, &[a, b]) if a == param => self.constant(b),
                (Op::Add, &[a, b]) if b == param => self.constant(a),
                (Op::Sub, &[a, b]) if a == param => self.constant(b).map(|by| -by),
                _ => None,
            };
            by.map(|by| if up { by } else { -by }).filter(|&by| by > 0)
        };
        let mut greatest = Some(1);
        let mut look = |data: &InstData| {
            let by = data.operands.get(index).and_then(|&value| advanced_by(value));
            greatest = greatest.zip(by).map(|(a, b)| a.max(b));
        };
        if let Some(end) = self.func.terminator(body).map(|end| &self.func.insts[end]).filter(|end| end.op == Op::Yield)
        {
            look(end);
        }
        self.func.walk(body, &mut |_, data| {
            if data.op == Op::Continue && data.imm == Imm::Target(inst) {
                look(data);
            }
        });
        greatest
    }

    /// Returns the index of the parameter of a region that a value is.
    fn param_of(&self, region: Region, value: Value) -> Option<usize> {
        match self.func.values[value].def {
            ValueDef::Param(of, index) if of == region => Some(index as usize),
            _ => None,
        }
    }

    fn constant(&self, value: Value) -> Option<i128> {
        let bits = self.func.as_const(value)?;
        let ty = self.func.ty(value).as_scalar().filter(|ty| ty.is_int())?;
        let unused = 64 - ty.bits();
        Some(if ty.is_signed_int() { i128::from((bits as i64) << unused >> unused) } else { i128::from(bits) })
    }

    /// The limits below and above, if there are both.
    fn limits(&self, value: Value) -> Option<[String; 2]> {
        Some([self.limit(value, BoundSide::Below)?, self.limit(value, BoundSide::Above)?])
    }

    fn limit(&self, value: Value, side: BoundSide) -> Option<String> {
        self.limit_within(value, side, MAX_DEPTH)
    }

    /// Returns what a number is not above, or not below, in terms that are known before the loop runs.
    fn limit_within(&self, value: Value, side: BoundSide, depth: u32) -> Option<String> {
        let func = self.func;
        if let Some(number) = self.constant(value) {
            return Some(number.to_string());
        }
        let depth = depth.checked_sub(1)?;
        let of = |value: Value, side| self.limit_within(value, side, depth);
        let (inst, index) = match func.values[value].def {
            ValueDef::Param(region, index) if region == func.body => {
                let name = func.param_names.get(index as usize)?.to_string();
                return self.known.get(index as usize)?.then_some(name);
            }
            ValueDef::Param(..) => {
                let [below, above] = self.counters.get(&value)?;
                return if side == BoundSide::Above { above.clone() } else { below.clone() };
            }
            ValueDef::Result(inst, index) => (inst, index as usize),
        };
        let data = &func.insts[inst];
        let operand = |index: usize, side| data.operands.get(index).and_then(|&operand| of(operand, side));
        // The value does not grow with each of the operands, so that these must be known, not only limited.
        let exact = |format: &dyn Fn(&[String]) -> String| {
            let both = |&operand: &Value| {
                let below = of(operand, BoundSide::Below)?;
                (of(operand, BoundSide::Above)? == below).then_some(below)
            };
            data.operands.iter().map(both).collect::<Option<Vec<String>>>().map(|parts| format(&parts))
        };
        // By a positive constant it grows with the other operand.
        let scaled = |by: usize, symbol: &str| {
            let factor = data.operands.get(by).and_then(|&by| self.constant(by)).filter(|&by| by > 0)?;
            Some(format!("{} {symbol} {factor}", in_brackets(&operand(1 - by, side)?)))
        };
        match data.op {
            Op::Mul if scaled(0, "*").is_some() => scaled(0, "*"),
            Op::Mul if scaled(1, "*").is_some() => scaled(1, "*"),
            Op::Div | Op::FloorDiv if scaled(1, "/").is_some() => scaled(1, "/"),
            Op::Lshift if scaled(1, "<<").is_some() => scaled(1, "<<"),
            Op::Rshift if scaled(1, ">>").is_some() => scaled(1, ">>"),
            Op::Dim => {
                let array = data.operands.first().and_then(|&array| func.param_index(array));
                let name = array.and_then(|index| func.param_names.get(index)).map_or("an array", |name| name);
                let Imm::Axis(axis) = data.imm else { return None };
                Some(format!("{name}.shape[{axis}]"))
            }
            Op::Cast => {
                let [from, to] = [*data.operands.first()?, value].map(|value| func.ty(value).as_scalar());
                let is_wide = from.zip(to).is_none_or(|(from, to)| !from.is_int() || from.bits() <= to.bits());
                is_wide.then(|| operand(0, side)).flatten()
            }
            Op::Neg => Some(format!("-{}", in_brackets(&operand(0, side.other())?))),
            Op::Add => Some(format!("{} + {}", operand(0, side)?, in_brackets(&operand(1, side)?))),
            Op::Sub => Some(format!("{} - {}", operand(0, side)?, in_brackets(&operand(1, side.other())?))),
            Op::Mul => exact(&|parts| format!("{} * {}", in_brackets(&parts[0]), in_brackets(&parts[1]))),
            Op::Div | Op::FloorDiv => {
                exact(&|parts| format!("{} / {}", in_brackets(&parts[0]), in_brackets(&parts[1])))
            }
            Op::Lshift => exact(&|parts| format!("{} << {}", in_brackets(&parts[0]), in_brackets(&parts[1]))),
            Op::Rshift => exact(&|parts| format!("{} >> {}", in_brackets(&parts[0]), in_brackets(&parts[1]))),
            Op::Abs => exact(&|parts| format!("abs({})", parts[0])),
            // A remainder has the sign of its divisor and is less than it, whatever is divided.
            Op::Mod => match self.constant(*data.operands.get(1)?) {
                Some(divisor) if divisor > 0 && side == BoundSide::Below => Some("0".to_owned()),
                Some(divisor) if divisor > 0 => Some(divisor.to_string()),
                _ if side == BoundSide::Above => Some(format!("max({}, 0)", operand(1, side)?)),
                _ => Some(format!("min({}, 0)", operand(1, side)?)),
            },
            Op::BitAnd => {
                let mask =
                    data.operands.iter().find_map(|&operand| self.constant(operand)).filter(|&mask| mask >= 0)?;
                Some(if side == BoundSide::Above { mask.to_string() } else { "0".to_owned() })
            }
            Op::Min if side == BoundSide::Above => match (operand(0, side), operand(1, side)) {
                (Some(a), Some(b)) => Some(format!("min({a}, {b})")),
                (a, b) => a.or(b),
            },
            Op::Max if side == BoundSide::Below => match (operand(0, side), operand(1, side)) {
                (Some(a), Some(b)) => Some(format!("max({a}, {b})")),
                (a, b) => a.or(b),
            },
            Op::Min => Some(format!("min({}, {})", operand(0, side)?, operand(1, side)?)),
            Op::Max => Some(format!("max({}, {})", operand(0, side)?, operand(1, side)?)),
            Op::Clamp => operand(if side == BoundSide::Above { 2 } else { 1 }, side),
            Op::Select => self.either(operand(1, side)?, operand(2, side)?, side),
            Op::If => {
                let ends = data.regions.iter().map(|&region| func.terminator(region).map(|end| &func.insts[end]));
                let ends: Vec<&InstData> = ends.collect::<Option<_>>()?;
                let yields = ends.iter().filter(|end| end.op == Op::Yield);
                let limits: Option<Vec<String>> = yields.map(|end| of(*end.operands.get(index)?, side)).collect();
                limits?.into_iter().reduce(|a, b| self.either(a.clone(), b, side).unwrap_or(a))
            }
            Op::Component => operand(0, side),
            // Coordinates of threads and blocks are limited by the launch.
            op if op.info().group == OpGroup::Index || (op.info().group == OpGroup::Gpu && op.info().is_pure()) => {
                Some(if side == BoundSide::Above { op.name().to_owned() } else { "0".to_owned() })
            }
            _ => None,
        }
    }

    fn either(&self, a: String, b: String, side: BoundSide) -> Option<String> {
        Some(match (a == b, side) {
            (true, _) => a,
            (false, BoundSide::Above) => format!("max({a}, {b})"),
            (false, BoundSide::Below) => format!("min({a}, {b})"),
        })
    }
}

/// An expression as an operand of another one.
fn in_brackets(text: &str) -> String {
    let is_one = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']'));
    if is_one { text.to_owned() } else { format!("({text})") }
}
