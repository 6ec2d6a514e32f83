//! Identities that hold bit for bit.
//!
//! Integers wrap, so their ring identities all hold. For floats, only what keeps signed zeros and NaN-ness: `x * 1`,
//! `x - 0.0` and `x + -0.0` are `x`; `x + 0.0` is not (it turns -0.0 into 0.0). Dividing by a power of two is the exact
//! multiplication by its reciprocal.

use super::signed;
use polyloom_ir::{Function, Imm, Inst, Op, Region, Scalar, Type, Value, ValueDef};
use smallvec::{SmallVec, smallvec};

/// Describes what became of an instruction.
pub(super) enum FoldOutcome {
    /// It stays.
    Keep,
    /// This value stands for its result.
    Value(Value),
    /// It does nothing.
    Drop,
}

/// Applies one identity. `None` if the instruction was rewritten in place and may simplify further; constants it then
/// needs are appended to `out`.
pub(super) fn simplify(func: &mut Function, inst: Inst, out: Region) -> Option<FoldOutcome> {
    let mut site = FoldSite { func, inst, out };
    match site.func.insts[inst].operands.len() {
        1 => site.unary(),
        2 => site.binary(),
        3 => site.ternary(),
        _ => Some(FoldOutcome::Keep),
    }
}

/// Works like [`simplify`], for what holds of two equal operands alone. Needs no constants. `None` if nothing changes.
pub(super) fn equal_operands(func: &mut Function, inst: Inst) -> Option<FoldOutcome> {
    let data = &func.insts[inst];
    let (op, &[a, b]) = (data.op, &data.operands[..]) else { return None };
    let scalar = func.ty(a).as_scalar().filter(|_| a == b && op.info().is_pure())?;
    let out = func.body;
    FoldSite { func, inst, out }.same_operands(op, scalar, a)
}

struct FoldSite<'f> {
    func: &'f mut Function,
    inst: Inst,
    out: Region,
}

const KEEP: Option<FoldOutcome> = Some(FoldOutcome::Keep);

impl FoldSite<'_> {
    fn operand(&self, index: usize) -> Value {
        self.func.insts[self.inst].operands[index]
    }

    /// Turns the instruction into `op` of `operands`.
    fn become_op(&mut self, op: Op, operands: &[Value]) -> Option<FoldOutcome> {
        let data = &mut self.func.insts[self.inst];
        data.op = op;
        data.operands = SmallVec::from_slice(operands);
        None
    }

    fn become_const(&mut self, bits: u64) -> Option<FoldOutcome> {
        let data = &mut self.func.insts[self.inst];
        data.op = Op::Const;
        data.operands.clear();
        data.imm = Imm::Bits(bits);
        KEEP
    }

    fn constant(&mut self, ty: Scalar, bits: u64) -> Value {
        let span = self.func.insts[self.inst].span;
        let inst = self.func.make_inst(Op::Const, smallvec![], &[ty.into()], Imm::Bits(bits & mask(ty)), span);
        self.func.regions[self.out].insts.push(inst);
        self.func.insts[inst].results[0]
    }

    /// The op and operands that `value` results from.
    fn definition(&self, value: Value) -> Option<(Op, &[Value])> {
        let ValueDef::Result(inst, 0) = self.func.values[value].def else { return None };
        let data = &self.func.insts[inst];
        Some((data.op, &data.operands))
    }

    /// The operand of the unary `op` that `value` results from.
    fn operand_of(&self, value: Value, op: Op) -> Option<Value> {
        match self.definition(value)? {
            (found, &[operand]) if found == op => Some(operand),
            _ => None,
        }
    }

    fn is_unsigned(&self, value: Value) -> bool {
        self.func.ty(value).as_scalar().is_some_and(Scalar::is_unsigned_int)
    }

    fn unary(&mut self) -> Option<FoldOutcome> {
        let x = self.operand(0);
        let op = self.func.insts[self.inst].op;
        match op {
            Op::Assert => match self.func.as_const(x) {
                Some(1) => Some(FoldOutcome::Drop),
                _ => KEEP,
            },
            // Both turn back what they did, wherever it was.
            Op::Neg | Op::Invert | Op::Not => match (self.operand_of(x, op), self.definition(x)) {
                (Some(inner), _) => Some(FoldOutcome::Value(inner)),
                (None, Some((compare, &[a, b]))) if op == Op::Not => {
                    let float = self.func.ty(a).as_scalar().is_some_and(Scalar::is_float);
                    match compare.inverse(float) {
                        Some(inverse) => self.become_op(inverse, &[a, b]),
                        None => KEEP,
                    }
                }
                _ => KEEP,
            },
            Op::Abs => match self.definition(x) {
                Some((Op::Abs, _)) => Some(FoldOutcome::Value(x)),
                // An unsigned number is its own absolute value, its negation too.
                Some((Op::Neg, &[inner])) if !self.is_unsigned(x) => self.become_op(Op::Abs, &[inner]),
                _ if self.is_unsigned(x) => Some(FoldOutcome::Value(x)),
                _ => KEEP,
            },
            Op::Cast => self.cast(x),
            Op::Bitcast => {
                let to = self.func.ty(self.func.insts[self.inst].results[0]);
                let source = self.operand_of(x, Op::Bitcast).unwrap_or(x);
                if self.func.ty(source) == to {
                    Some(FoldOutcome::Value(source))
                } else if source != x {
                    self.become_op(Op::Bitcast, &[source])
                } else {
                    KEEP
                }
            }
            Op::Floor | Op::Ceil | Op::Trunc | Op::Rint => match self.definition(x) {
                Some((Op::Floor | Op::Ceil | Op::Trunc | Op::Rint, _)) => Some(FoldOutcome::Value(x)),
                _ => KEEP,
            },
            _ => KEEP,
        }
    }

    fn cast(&mut self, x: Value) -> Option<FoldOutcome> {
        let to = self.func.ty(self.func.insts[self.inst].results[0]).as_scalar()?;
        let Some(middle) = self.func.ty(x).as_scalar() else { return KEEP };
        if middle == to {
            return Some(FoldOutcome::Value(x));
        }
        let Some(source) = self.operand_of(x, Op::Cast) else { return KEEP };
        let Some(from) = self.func.ty(source).as_scalar() else { return KEEP };
        if !casts_compose(from, middle, to) {
            return KEEP;
        }
        if from == to { Some(FoldOutcome::Value(source)) } else { self.become_op(Op::Cast, &[source]) }
    }

    fn ternary(&mut self) -> Option<FoldOutcome> {
        let data = &self.func.insts[self.inst];
        match data.op {
            Op::Check => match self.func.as_const(data.operands[0]) {
                Some(1) => Some(FoldOutcome::Drop),
                _ => KEEP,
            },
            Op::Select => self.select(),
            _ => KEEP,
        }
    }

    fn select(&mut self) -> Option<FoldOutcome> {
        let [cond, a, b] = [self.operand(0), self.operand(1), self.operand(2)];
        if let Some(bits) = self.func.as_const(cond) {
            return Some(FoldOutcome::Value(if bits != 0 { a } else { b }));
        }
        if a == b {
            return Some(FoldOutcome::Value(a));
        }
        if let Some(inner) = self.operand_of(cond, Op::Not) {
            return self.become_op(Op::Select, &[inner, b, a]);
        }
        if self.func.ty(a) == Type::BOOL {
            match (self.func.as_const(a), self.func.as_const(b)) {
                (Some(1), Some(0)) => return Some(FoldOutcome::Value(cond)),
                (Some(0), Some(1)) => return self.become_op(Op::Not, &[cond]),
                (Some(1), _) => return self.become_op(Op::BitOr, &[cond, b]),
                (_, Some(0)) => return self.become_op(Op::BitAnd, &[cond, a]),
                _ => {}
            }
        }
        KEEP
    }

    fn binary(&mut self) -> Option<FoldOutcome> {
        let (mut a, mut b) = (self.operand(0), self.operand(1));
        let op = self.func.insts[self.inst].op;
        let Some(scalar) = self.func.ty(a).as_scalar() else { return KEEP };
        if self.func.as_const(a).is_some() && self.func.as_const(b).is_none() {
            // Constants stand to the right.
            if let Some(swapped) = op.exchanged() {
                std::mem::swap(&mut a, &mut b);
                self.become_op(swapped, &[a, b]);
                return None;
            }
        }
        if a == b
            && let Some(outcome) = self.same_operands(op, scalar, a)
        {
            return Some(outcome);
        }
        if scalar.is_float() {
            self.float(op, scalar, a, b)
        } else if scalar == Scalar::Bool {
            self.boolean(op, a, b)
        } else {
            self.integer(op, scalar, a, b)
        }
    }

    fn same_operands(&mut self, op: Op, scalar: Scalar, x: Value) -> Option<FoldOutcome> {
        let exact = !scalar.is_float();
        match op {
            Op::BitAnd | Op::BitOr | Op::Min | Op::Max => Some(FoldOutcome::Value(x)),
            Op::BitXor | Op::Sub if exact => self.become_const(0),
            Op::Eq | Op::Le | Op::Ge if exact => self.become_const(1),
            Op::Ne if exact => self.become_const(0),
            // True of NaN as well.
            Op::Lt | Op::Gt => self.become_const(0),
            _ => None,
        }
    }

    fn float(&mut self, op: Op, scalar: Scalar, a: Value, b: Value) -> Option<FoldOutcome> {
        let sign_bit = 1u64 << (scalar.bits() - 1);
        let one = one(scalar);
        match (op, self.func.as_const(b)) {
            (Op::Mul | Op::Div, Some(bits)) if bits == one => return Some(FoldOutcome::Value(a)),
            (Op::Mul | Op::Div, Some(bits)) if bits == one | sign_bit => return self.become_op(Op::Neg, &[a]),
            (Op::Sub, Some(0)) => return Some(FoldOutcome::Value(a)),
            (Op::Add, Some(bits)) if bits == sign_bit => return Some(FoldOutcome::Value(a)),
            (Op::Div, Some(bits)) => {
                if let Some(reciprocal) = exact_reciprocal(scalar, bits) {
                    let reciprocal = self.constant(scalar, reciprocal);
                    return self.become_op(Op::Mul, &[a, reciprocal]);
                }
            }
            _ => {}
        }
        match op {
            Op::Add => {
                if let Some(b) = self.operand_of(b, Op::Neg) {
                    return self.become_op(Op::Sub, &[a, b]);
                }
                if let Some(a) = self.operand_of(a, Op::Neg) {
                    return self.become_op(Op::Sub, &[b, a]);
                }
            }
            Op::Sub => {
                if let Some(b) = self.operand_of(b, Op::Neg) {
                    return self.become_op(Op::Add, &[a, b]);
                }
            }
            Op::Mul | Op::Div => {
                if let (Some(a), Some(b)) = (self.operand_of(a, Op::Neg), self.operand_of(b, Op::Neg)) {
                    return self.become_op(op, &[a, b]);
                }
            }
            _ => {}
        }
        KEEP
    }

    fn boolean(&mut self, op: Op, a: Value, b: Value) -> Option<FoldOutcome> {
        match (op, self.func.as_const(b)) {
            (Op::BitAnd | Op::Eq, Some(1)) | (Op::BitOr | Op::BitXor | Op::Ne, Some(0)) => Some(FoldOutcome::Value(a)),
            (Op::BitAnd, Some(0)) => self.become_const(0),
            (Op::BitOr, Some(1)) => self.become_const(1),
            (Op::BitXor | Op::Ne, Some(1)) | (Op::Eq, Some(0)) => self.become_op(Op::Not, &[a]),
            _ => KEEP,
        }
    }

    fn integer(&mut self, op: Op, scalar: Scalar, a: Value, b: Value) -> Option<FoldOutcome> {
        let Some(bits) = self.func.as_const(b) else {
            return match op {
                Op::Add => match (self.operand_of(a, Op::Neg), self.operand_of(b, Op::Neg)) {
                    (_, Some(b)) => self.become_op(Op::Sub, &[a, b]),
                    (Some(a), None) => self.become_op(Op::Sub, &[b, a]),
                    _ => KEEP,
                },
                Op::Sub => match self.operand_of(b, Op::Neg) {
                    Some(b) => self.become_op(Op::Add, &[a, b]),
                    None => KEEP,
                },
                _ => KEEP,
            };
        };
        let value = signed(bits, scalar);
        let ones = mask(scalar);
        let log2 = (value > 0 && value & (value - 1) == 0).then(|| u64::from(value.trailing_zeros()));
        let unsigned = scalar.is_unsigned_int();
        match (op, value) {
            (Op::Add | Op::Sub | Op::BitOr | Op::BitXor | Op::Lshift | Op::Rshift, 0) => Some(FoldOutcome::Value(a)),
            (Op::Mul | Op::Div | Op::FloorDiv, 1) => Some(FoldOutcome::Value(a)),
            (Op::Mul | Op::BitAnd | Op::Div | Op::FloorDiv, 0) => self.become_const(0),
            (Op::Mod, 0) => Some(FoldOutcome::Value(a)),
            (Op::Mod, 1 | -1) => self.become_const(0),
            (Op::Mul | Op::Div | Op::FloorDiv, -1) => self.become_op(Op::Neg, &[a]),
            (Op::BitAnd, _) if bits == ones => Some(FoldOutcome::Value(a)),
            (Op::BitOr, _) if bits == ones => self.become_const(ones),
            (Op::BitXor, _) if bits == ones => self.become_op(Op::Invert, &[a]),
            (Op::Lshift, _) if bits >= u64::from(scalar.bits()) => self.become_const(0),
            (Op::Rshift, _) if unsigned && bits >= u64::from(scalar.bits()) => self.become_const(0),
            (Op::Lt, 0) if unsigned => self.become_const(0),
            (Op::Ge, 0) if unsigned => self.become_const(1),
            // `x - c` is `x + -c`, so that sums of constants meet.
            (Op::Sub, _) if !unsigned => {
                let negated = self.constant(scalar, bits.wrapping_neg());
                self.become_op(Op::Add, &[a, negated])
            }
            (Op::Add | Op::Mul | Op::BitAnd | Op::BitOr | Op::BitXor, _) => self.reassociate(op, scalar, a, bits),
            (Op::Eq | Op::Ne, _) => self.compare_cast(op, a, bits),
            (Op::Div, _) if unsigned => match log2 {
                Some(log2) => self.shift(a, scalar, log2),
                None => KEEP,
            },
            (Op::FloorDiv, _) => match log2 {
                Some(log2) => self.shift(a, scalar, log2),
                None => KEEP,
            },
            (Op::Mod, _) if unsigned && log2.is_some() => {
                let low = self.constant(scalar, bits - 1);
                self.become_op(Op::BitAnd, &[a, low])
            }
            _ => KEEP,
        }
    }

    fn shift(&mut self, a: Value, scalar: Scalar, count: u64) -> Option<FoldOutcome> {
        let count = self.constant(scalar, count);
        self.become_op(Op::Rshift, &[a, count])
    }

    /// `(x op c) op d` is `x op (c op d)`.
    fn reassociate(&mut self, op: Op, scalar: Scalar, a: Value, bits: u64) -> Option<FoldOutcome> {
        let Some((found, &[x, c])) = self.definition(a) else { return KEEP };
        let Some(inner) = self.func.as_const(c).filter(|_| found == op) else { return KEEP };
        let combined = match op {
            Op::Add => inner.wrapping_add(bits),
            Op::Mul => inner.wrapping_mul(bits),
            Op::BitAnd => inner & bits,
            Op::BitOr => inner | bits,
            _ => inner ^ bits,
        };
        let combined = self.constant(scalar, combined);
        self.become_op(op, &[x, combined])
    }

    /// A `bool` made a number and compared with 0 or 1 is the `bool`, or its opposite.
    fn compare_cast(&mut self, op: Op, a: Value, bits: u64) -> Option<FoldOutcome> {
        match self.operand_of(a, Op::Cast) {
            Some(source) if self.func.ty(source) == Type::BOOL && bits <= 1 => {
                if (op == Op::Eq) == (bits == 1) {
                    Some(FoldOutcome::Value(source))
                } else {
                    self.become_op(Op::Not, &[source])
                }
            }
            _ => KEEP,
        }
    }
}

fn mask(scalar: Scalar) -> u64 {
    u64::MAX >> (64 - scalar.bits())
}

/// The bits of 1.0.
fn one(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::F16 => 0x3c00,
        Scalar::BF16 => 0x3f80,
        Scalar::F32 => u64::from(1.0f32.to_bits()),
        _ => 1.0f64.to_bits(),
    }
}

/// The reciprocal of a power of two, where it is one too and normal.
fn exact_reciprocal(scalar: Scalar, bits: u64) -> Option<u64> {
    let (mantissa_bits, bias) = match scalar {
        Scalar::F32 => (23, 127),
        Scalar::F64 => (52, 1023),
        _ => return None,
    };
    let sign = bits & 1 << (scalar.bits() - 1);
    let magnitude = bits ^ sign;
    let exponent = magnitude >> mantissa_bits;
    let is_power = magnitude & ((1 << mantissa_bits) - 1) == 0;
    (is_power && 0 < exponent && exponent < 2 * bias).then(|| sign | (2 * bias - exponent) << mantissa_bits)
}

/// Returns true if `from → middle → to` gives what `from → to` gives, for every value.
fn casts_compose(from: Scalar, middle: Scalar, to: Scalar) -> bool {
    if from == Scalar::Bool {
        return true;
    }
    if to == Scalar::Bool {
        // `middle` must hold every value, so that nothing but zero becomes zero.
        return holds(from, middle);
    }
    let all_int = from.is_int() && middle.is_int() && to.is_int();
    if all_int && to.bits() <= middle.bits() {
        return true;
    }
    // A float becomes an integer by saturation, an integer by wrapping, because they differ where `to` is too small.
    let same_rule = !(from.is_int() && middle.is_float() && to.is_int()) || holds(from, to);
    holds(from, middle) && same_rule
}

/// Returns true if every value of `from` is one of `to`.
fn holds(from: Scalar, to: Scalar) -> bool {
    let (digits, max_exponent) = match to {
        Scalar::F16 => (11, 15),
        Scalar::BF16 => (8, 127),
        Scalar::F32 => (24, 127),
        Scalar::F64 => (53, 1023),
        _ => (to.bits() - u32::from(to.is_signed_int()), to.bits()),
    };
    let integer_digits = from.bits() - u32::from(from.is_signed_int());
    match (from, to) {
        _ if from == to || from == Scalar::Bool => true,
        (_, Scalar::Bool) => false,
        _ if from.is_int() && to.is_int() => integer_digits <= digits && (from.is_unsigned_int() || to.is_signed_int()),
        // -2^n needs one digit like any power of two, and the exponent n.
        _ if from.is_int() => integer_digits <= digits && from.bits() <= max_exponent,
        (Scalar::F16 | Scalar::BF16, Scalar::F32 | Scalar::F64) | (Scalar::F32, Scalar::F64) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_entity::SecondaryMap;
    use polyloom_ir::eval::eval;
    use polyloom_ir::{Builder, FunctionKind};

    /// Values at the edges of every type's range and precision.
    fn edges(scalar: Scalar) -> Vec<u64> {
        let mut bits: Vec<u64> = (0..scalar.bits()).flat_map(|n| [1u64 << n, (1 << n) - 1, (1 << n) + 1]).collect();
        bits.extend(bits.clone().iter().map(|b| !b));
        for b in &mut bits {
            *b &= mask(scalar);
        }
        bits.sort_unstable();
        bits.dedup();
        bits
    }

    #[test]
    fn composed_casts_give_the_same_bits() {
        let cast = |bits, from: Scalar, to: Scalar| eval(Op::Cast, &[from.into()], &[bits], to.into()).expect("casts");
        let mut composed = 0;
        for from in Scalar::ALL {
            for middle in Scalar::ALL {
                for to in Scalar::ALL.into_iter().filter(|&to| casts_compose(from, middle, to)) {
                    composed += 1;
                    for bits in edges(from) {
                        let twice = cast(cast(bits, from, middle), middle, to);
                        let is_nan = |b| eval(Op::Ne, &[to.into(); 2], &[b, b], Type::BOOL) == Some(1);
                        let once = cast(bits, from, to);
                        let same = once == twice || (is_nan(once) && is_nan(twice));
                        assert!(same, "{bits:#x}: {from} to {middle} to {to}");
                    }
                }
            }
        }
        assert!(composed > 400, "only {composed} triples compose");
    }

    /// A function of up to two 8-bit numbers: `second` of `first` of the parameters, or of one of them and a constant.
    fn chain(ty: Scalar, first: Op, second: Op, constant: Option<u64>) -> Option<Function> {
        let arity = |op: Op| op.info().signatures.first().map_or(0, |signature| signature.params.len());
        let takes = |op: Op, types: &[Type]| polyloom_ir::eval::evaluator(op, types, ty.into()).is_some();
        if !takes(first, &[ty.into(), ty.into()][..arity(first)])
            || !takes(second, &[ty.into(), ty.into()][..arity(second)])
        {
            return None;
        }
        let params = [("x", ty.into()), ("y", ty.into())];
        let mut func = Function::new("chain", FunctionKind::Func, params, &[ty.into()]);
        let [x, y] = func.params().to_vec()[..] else { return None };
        let mut builder = Builder::new(&mut func);
        let other = match constant {
            Some(bits) => builder.const_bits(ty, bits),
            None => y,
        };
        let inner = builder.op(first, &[x, other][..arity(first)]);
        let outer = builder.op(second, &[inner, other][..arity(second)]);
        builder.return_(&[outer]);
        Some(func)
    }

    /// Returns what a function of one region computes, instruction by instruction.
    fn run(func: &Function, arguments: [u64; 2]) -> u64 {
        let mut bits: SecondaryMap<Value, u64> = SecondaryMap::new();
        for (&param, argument) in func.params().iter().zip(arguments) {
            bits[param] = argument;
        }
        for &inst in &func.regions[func.body].insts {
            let data = &func.insts[inst];
            let operands: Vec<u64> = data.operands.iter().map(|&value| bits[value]).collect();
            let types: Vec<Type> = data.operands.iter().map(|&value| func.ty(value)).collect();
            match (data.op, &data.imm) {
                (Op::Return, _) => return operands[0],
                (Op::Const, &Imm::Bits(constant)) => bits[data.results[0]] = constant,
                (op, _) => {
                    let result = eval(op, &types, &operands, func.ty(data.results[0]));
                    bits[data.results[0]] = result.unwrap_or_else(|| panic!("`{}` evaluates", op.name()));
                }
            }
        }
        panic!("no return in\n{func:?}")
    }

    #[test]
    fn identities_hold_for_every_8_bit_number() {
        let takes_numbers = |info: &&polyloom_ir::op::OpInfo| {
            let n_params = info.signatures.first().map_or(0, |signature| signature.params.len());
            info.is_pure() && (1..=2).contains(&n_params) && info.op != Op::Cast && info.op != Op::Bitcast
        };
        let ops: Vec<Op> = Op::all().filter(takes_numbers).map(|info| info.op).collect();
        let constants = [0u64, 1, 2, 3, 4, 7, 8, 9, 0x7f, 0x80, 0x81, 0xfe, 0xff];
        let mut n_changed = 0;
        for ty in [Scalar::I8, Scalar::U8] {
            for (&first, &second) in ops.iter().flat_map(|first| ops.iter().map(move |second| (first, second))) {
                for constant in constants.map(Some).into_iter().chain([None]) {
                    let Some(before) = chain(ty, first, second, constant) else { break };
                    let mut after = before.clone();
                    super::super::fold(&mut after);
                    n_changed +=
                        usize::from(after.regions[after.body].insts.len() != before.regions[before.body].insts.len());
                    let ys: &[u64] = if constant.is_some() { &[0] } else { &constants };
                    for (x, &y) in (0..256).flat_map(|x| ys.iter().map(move |y| (x, y))) {
                        let (expected, got) = (run(&before, [x, y]), run(&after, [x, y]));
                        let (first, second) = (first.name(), second.name());
                        assert_eq!(got, expected, "{second} of {first} of {ty} {x:#x}, {y:#x}, constant {constant:?}");
                    }
                }
            }
        }
        assert!(n_changed > 500, "only {n_changed} chains were folded");
    }

    #[test]
    fn multiplying_by_a_reciprocal_divides() {
        for scalar in [Scalar::F32, Scalar::F64] {
            let types = [scalar.into(); 2];
            let result = scalar.into();
            let powers: Vec<_> =
                edges(scalar).into_iter().filter_map(|b| Some((b, exact_reciprocal(scalar, b)?))).collect();
            assert!(powers.len() > 10);
            for (power, reciprocal) in powers {
                for x in edges(scalar) {
                    let product = eval(Op::Mul, &types, &[x, reciprocal], result);
                    let quotient = eval(Op::Div, &types, &[x, power], result);
                    assert_eq!(product, quotient, "{x:#x} / {power:#x}");
                }
            }
        }
    }
}
