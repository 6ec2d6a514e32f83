//! `atom` and `red` (PTX ISA 9.0 §9.7.13).

use super::address::{OrderedAccess, take_order};
use super::function::FunctionDecoder;
use super::half::HalfKind;
use super::op::{AtomicOp, DecodedOp, DestRegister, MemoryOrder, Update, WideAtomic};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::number::arithmetic::{canonical, flush};
use crate::number::half::{Bf16Bits, F16Bits, HalfFormat};
use crate::syntax::ast::{PtxOperand, StateSpace};
use crate::tensor_map::TensorElement;

pub(super) const OPERATIONS: &[(&str, &str)] = &[
    ("and", "and"),
    ("or", "or"),
    ("xor", "xor"),
    ("cas", "cas"),
    ("exch", "exch"),
    ("add", "add"),
    ("inc", "inc"),
    ("dec", "dec"),
    ("min", "min"),
    ("max", "max"),
];

/// Returns what `operation` makes of memory, or `None` if the type has it not.
pub(super) fn update(operation: &str, ty: PtxType) -> Option<Update> {
    fn integer<T: Ord + Copy + 'static>(larger: bool, from: fn(u64) -> T, into: fn(T) -> u64) -> Update {
        Box::new(move |old, b, _| into(if larger { from(old).max(from(b)) } else { from(old).min(from(b)) }))
    }
    let larger = operation == "max";
    Some(match (operation, ty) {
        ("and", PtxType::B(32 | 64)) => Box::new(|old, b, _| old & b),
        ("or", PtxType::B(32 | 64)) => Box::new(|old, b, _| old | b),
        ("xor", PtxType::B(32 | 64)) => Box::new(|old, b, _| old ^ b),
        ("exch", PtxType::B(32 | 64)) => Box::new(|_, b, _| b),
        ("cas", PtxType::B(16)) => Box::new(|old, b, c| if old == b & 0xffff { c } else { old }),
        ("cas", PtxType::B(32)) => Box::new(|old, b, c| if old == b & 0xffff_ffff { c } else { old }),
        ("cas", PtxType::B(64)) => Box::new(|old, b, c| if old == b { c } else { old }),
        ("inc", PtxType::U(32)) => Box::new(|old, b, _| if old >= b & 0xffff_ffff { 0 } else { old + 1 }),
        ("dec", PtxType::U(32)) => Box::new(|old, b, _| if old == 0 || old > b & 0xffff_ffff { b } else { old - 1 }),
        ("add", PtxType::U(32 | 64) | PtxType::S(32)) => Box::new(|old, b, _| old.wrapping_add(b)),
        ("min" | "max", PtxType::U(32)) => integer(larger, |x| x as u32, u64::from),
        ("min" | "max", PtxType::S(32)) => integer(larger, |x| x as i32, |x| x as u32 as u64),
        ("min" | "max", PtxType::U(64)) => integer(larger, |x| x, |x| x),
        ("min" | "max", PtxType::S(64)) => integer(larger, |x| x as i64, |x| x as u64),
        ("add", PtxType::F32) => {
            Box::new(|old, b, _| canonical(f32::from_bits(old as u32) + f32::from_bits(b as u32)).to_bits().into())
        }
        ("add", PtxType::F64) => Box::new(|old, b, _| (f64::from_bits(old) + f64::from_bits(b)).to_bits()),
        ("add" | "min" | "max", PtxType::F16) => halves::<F16Bits>(operation, 1),
        ("add" | "min" | "max", PtxType::F16x2) => halves::<F16Bits>(operation, 2),
        ("add" | "min" | "max", PtxType::Bf16) => halves::<Bf16Bits>(operation, 1),
        ("add" | "min" | "max", PtxType::Bf16x2) => halves::<Bf16Bits>(operation, 2),
        _ => return None,
    })
}

/// Returns what a reduction makes of an element of a tensor, or `None` if such elements have it not.
pub(crate) fn tensor_update(operation: &str, element: TensorElement) -> Option<Update> {
    let bits = matches!(operation, "and" | "or" | "xor");
    let ty = match element {
        TensorElement::U32 | TensorElement::S32 if bits => PtxType::B(32),
        TensorElement::U64 | TensorElement::S64 if bits => PtxType::B(64),
        TensorElement::U32 => PtxType::U(32),
        TensorElement::S32 => PtxType::S(32),
        // A sum of two's complements is one.
        TensorElement::S64 if operation != "add" => PtxType::S(64),
        TensorElement::U64 | TensorElement::S64 => PtxType::U(64),
        TensorElement::F16 => PtxType::F16,
        TensorElement::Bf16 => PtxType::Bf16,
        TensorElement::F32 if operation == "add" => return Some(flushing_add()),
        TensorElement::F64 => PtxType::F64,
        TensorElement::F32 | TensorElement::U8 | TensorElement::U16 => return None,
    };
    update(operation, ty)
}

fn halves<H: HalfFormat>(operation: &str, count: u32) -> Update {
    let f: fn(f32, f32) -> f32 = match operation {
        "add" => |a, b| a + b,
        "min" => |a, b| crate::number::arithmetic::extremum(false, false, a, b),
        _ => |a, b| crate::number::arithmetic::extremum(true, false, a, b),
    };
    Box::new(move |old, b, _| {
        let part = |shift: u32| {
            let [x, y] = [old, b].map(|word| H::from_bits((word >> shift) as u16).to_f32());
            let result = f(x, y);
            u64::from(if result.is_nan() { 0x7fff } else { H::from_f32(result).bits() }) << shift
        };
        (0..count).map(|index| part(16 * index)).fold(0, |word, part| word | part)
    })
}

/// `add.f32` on global memory takes and leaves no subnormals, unlike on shared memory (PTX ISA 9.0 §9.7.13.5).
fn flushing_add() -> Update {
    Box::new(|old, b, _| {
        let [x, y] = [old, b].map(|bits| flush(f32::from_bits(bits as u32)));
        flush(canonical(x + y)).to_bits().into()
    })
}

impl FunctionDecoder<'_> {
    pub(super) fn atomic(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let returns = line.instruction.opcode == "atom";
        let (order, space) = take_order(line, if returns { OrderedAccess::Atomic } else { OrderedAccess::Reduction })?;
        let policy = line.mods.take("L2::cache_hint");
        if policy && !matches!(space, None | Some(StateSpace::Global)) {
            return line.error("hints to caches are for global memory");
        }
        let unflushed = line.mods.take("noftz");
        let count = line.mods.take_of(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1usize);
        let operation = line.mods.need_of(OPERATIONS)?;
        let ty = line.mods.ty()?;
        let half = HalfKind::of(ty).is_some();
        if unflushed != half {
            let what = if half { "needs" } else { "has no" };
            return line.error(format!("`{operation}` of `.{}` {what} `.noftz`", ty.name()));
        }
        // Floats, up to 16 bytes of them, are added in vectors, in global memory; halves have extrema there as well.
        let known = match ty {
            PtxType::F32 => operation == "add" && count <= 4,
            PtxType::F16 | PtxType::Bf16 => true,
            PtxType::F16x2 | PtxType::Bf16x2 => count <= 4,
            _ => false,
        };
        if count > 1 && !(known && matches!(space, None | Some(StateSpace::Global))) {
            return line.error(format!("`{operation}` of `.{}` has no vectors of {count} here", ty.name()));
        }
        // Halves have `.min` and `.max` several at a time; what returns nothing does not exchange.
        let single = half && operation != "add" && count == 1;
        if single || !returns && matches!(operation, "cas" | "exch") {
            return line.error(format!("`{}.{operation}` has no type `.{}`", line.instruction.opcode, ty.name()));
        }
        if let ("cas" | "exch", PtxType::B(128), true) = (operation, ty, returns && count == 1) {
            return self.wide_atomic(line, operation == "cas", (space, order), policy);
        }
        let Some(update) = update(operation, ty) else {
            return line.error(format!("`{operation}` has no type `.{}`", ty.name()));
        };
        let all = &line.instruction.operands;
        let first = usize::from(returns);
        let takes = first + 2 + usize::from(operation == "cas");
        line.check(takes + usize::from(policy), takes + usize::from(policy))?;
        let (address, space) = self.address(line, &all[first], space)?;
        let operands = self.elements(&all[first + 1]);
        let destinations = if returns { self.elements(&all[0]) } else { Vec::new() };
        let unused = matches!(destinations.as_slice(), [PtxOperand::Name(name)] if name == "_");
        if operands.len() != count || returns && destinations.len() != count && !unused {
            return line.error(format!("{count} operands are wanted, not {}", operands.len()));
        }
        for each in operands.iter().chain(&destinations) {
            self.check_type(each, ty)?;
        }
        let operands = operands.iter().map(|each| self.any_source(each, ty)).collect::<Decoded<Vec<_>>>()?;
        let destinations: Vec<DestRegister> =
            destinations.iter().map(|each| self.destination(each, ty.bits())).collect::<Decoded<_>>()?;
        let second = if operation == "cas" { Some(self.any_source(&all[first + 2], ty)?) } else { None };
        let flushes = operation == "add" && ty == PtxType::F32 && space != Some(StateSpace::Shared);
        let atomic = AtomicOp {
            space,
            size: ty.bytes(),
            update,
            global_update: flushes.then(flushing_add),
            address,
            destinations,
            operands,
            second,
            order,
            spins: matches!(operation, "cas" | "exch"),
        };
        Ok((DecodedOp::Atomic(Box::new(atomic)), InstClass::Atomic))
    }

    /// `atom.cas.b128` and `atom.exch.b128`
    fn wide_atomic(
        &mut self,
        line: &InstructionLine<'_>,
        compares: bool,
        (space, order): (Option<StateSpace>, MemoryOrder),
        policy: bool,
    ) -> Decoded<(DecodedOp, InstClass)> {
        let count = if compares { 4 } else { 3 };
        line.check(count + usize::from(policy), count + usize::from(policy))?;
        let all = &line.instruction.operands;
        let destination = self.quad_slot(&all[0])?;
        let (address, space) = self.address(line, &all[1], space)?;
        let expected = compares.then(|| self.halves(&all[2])).transpose()?;
        let new = self.halves(&all[count - 1])?;
        let atomic = WideAtomic { space, address, destination, expected, new, order };
        Ok((DecodedOp::WideAtomic(Box::new(atomic)), InstClass::Atomic))
    }
}
