//! Moves, loads, stores and addresses (PTX ISA 9.0 §9.7.9).

use super::address::{class, drop_cache_hints, memory_type, take_order, take_space};
use super::function::Decoder;
use super::op::{AnySource, Load, Op, Order, Store};
use super::types::Type;
use super::{Class, Decoded, Line};
use crate::exec::registers::{Compute, LANES, Registers, map1, put};
use crate::memory::window;
use crate::syntax::ast::{Operand, Space};

const VECTORS: &[(&str, usize)] = &[("v2", 2), ("v4", 4), ("v8", 8)];

/// What `ld` and `st` say alike.
struct Access {
    order: Order,
    space: Option<Space>,
    /// How many registers.
    count: usize,
    ty: Type,
    /// Bytes of each.
    size: u32,
}

fn access(line: &mut Line<'_>) -> Decoded<Access> {
    let order = take_order(&mut line.mods, false);
    let space = take_space(&mut line.mods);
    let policy = drop_cache_hints(&mut line.mods);
    let count = line.mods.take_of(VECTORS).unwrap_or(1);
    let ty = line.mods.ty()?;
    line.check(2, 2 + usize::from(policy))?;
    Ok(Access { order, space, count, ty, size: memory_type(line, ty)? })
}

impl Decoder<'_> {
    pub(super) fn movement(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        match line.instruction.opcode.as_str() {
            "mov" => self.mov(line),
            "ld" | "ldu" => self.load(line),
            "st" => self.store(line),
            "cvta" => self.convert_address(line),
            "isspacep" => self.is_space(line),
            "mapa" => self.map_address(line),
            "getctarank" => {
                take_space(&mut line.mods);
                line.mods.ty()?;
                line.check(2, 2)?;
                let d = self.slot::<u32>(&line.instruction.operands[0], Type::U(32))?;
                Ok((Op::Compute(crate::exec::registers::map0(d, |_| 0u32)), Class::Move))
            }
            "createpolicy" => {
                line.mods.drop_known(&["fractional", "range", "cvt", "L2", "global", "b64"]);
                line.mods.drop_prefixed("L2::");
                line.check(1, 4)?;
                let d = self.slot::<u64>(&line.instruction.operands[0], Type::B(64))?;
                Ok((Op::Compute(crate::exec::registers::map0(d, |_| 0u64)), Class::Move))
            }
            // Hints.
            _ => {
                take_space(&mut line.mods);
                line.mods.drop_known(&["L1", "L2", "tensormap"]);
                line.mods.drop_prefixed("L2::");
                line.check(1, 2)?;
                Ok((Op::Nothing, Class::Move))
            }
        }
    }

    fn mov(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        let ty = line.mods.ty()?;
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        if ty == Type::Pred {
            let d = self.predicate_slot(&all[0])?;
            let a = self.test(&all[1])?;
            let compute: Compute = Box::new(move |registers, mask| {
                let value = a.mask(registers);
                if let Some(d) = d {
                    registers.set_predicate(d, value, mask);
                }
            });
            return Ok((Op::Compute(compute), Class::Move));
        }
        if let Some(produced) = self.produced(&all[1])
            && ty.bits() == if produced.is_wide() { 64 } else { 32 }
        {
            let slot = if produced.is_wide() { self.slot::<u64>(&all[0], ty)? } else { self.slot::<u32>(&all[0], ty)? };
            return Ok((produced.into_register(slot), Class::Move));
        }
        let compute = match (self.elements(&all[0]), self.elements(&all[1])) {
            (to, from) if to.len() == 1 && from.len() == 1 => match ty.bits() {
                16 | 32 => {
                    let d = self.slot::<u32>(&all[0], ty)?;
                    let a = self.source::<u32>(&all[1], ty)?;
                    Box::new(move |registers: &mut Registers, mask: u32| {
                        let value = *a.get(registers);
                        put(registers, d, &value, mask);
                    }) as Compute
                }
                64 => {
                    let d = self.slot::<u64>(&all[0], ty)?;
                    let a = self.source::<u64>(&all[1], ty)?;
                    Box::new(move |registers: &mut Registers, mask: u32| {
                        let value = *a.get(registers);
                        put(registers, d, &value, mask);
                    }) as Compute
                }
                _ => return line.mods.no_type(ty),
            },
            (to, from) if to.len() == 1 => self.pack(line, ty, &to[0], &from)?,
            (to, from) if from.len() == 1 => self.unpack(line, ty, &to, &from[0])?,
            _ => return line.error("`mov` packs or unpacks one vector"),
        };
        Ok((Op::Compute(compute), Class::Move))
    }

    /// The type of a part when `ty` is taken apart into `count`.
    fn part(line: &Line<'_>, ty: Type, count: usize) -> Decoded<Type> {
        match (ty.bits(), count) {
            (16 | 32 | 64, 2 | 4) => Ok(Type::B(ty.bits() / count as u32)),
            _ => line.error(format!("`.{}` has no {count} parts", ty.name())),
        }
    }

    fn pack(&mut self, line: &Line<'_>, ty: Type, to: &Operand, from: &[Operand]) -> Decoded<Compute> {
        let part = Self::part(line, ty, from.len())?;
        let sources = from.iter().map(|each| self.source::<u32>(each, part)).collect::<Decoded<Vec<_>>>()?;
        let bits = part.bits();
        let kept = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        let gather = move |registers: &Registers| {
            let mut out = [0u64; LANES];
            for (index, source) in sources.iter().enumerate() {
                for (out, lane) in out.iter_mut().zip(source.get(registers)) {
                    *out |= u64::from(lane & kept) << (bits * index as u32);
                }
            }
            out
        };
        if ty.bits() == 64 {
            let d = self.slot::<u64>(to, ty)?;
            return Ok(Box::new(move |registers, mask| {
                let out = gather(registers);
                put(registers, d, &out, mask);
            }));
        }
        let d = self.slot::<u32>(to, ty)?;
        Ok(Box::new(move |registers, mask| {
            let out = gather(registers).map(|value| value as u32);
            put(registers, d, &out, mask);
        }))
    }

    fn unpack(&mut self, line: &Line<'_>, ty: Type, to: &[Operand], from: &Operand) -> Decoded<Compute> {
        let part = Self::part(line, ty, to.len())?;
        let slots = to.iter().map(|each| self.slot::<u32>(each, part)).collect::<Decoded<Vec<_>>>()?;
        let source = match ty.bits() {
            64 => AnySource::Double(self.source(from, ty)?),
            _ => AnySource::Word(self.source(from, ty)?),
        };
        let bits = part.bits();
        let kept = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        Ok(Box::new(move |registers, mask| {
            let value = match &source {
                AnySource::Word(a) => a.get(registers).map(u64::from),
                AnySource::Double(a) => *a.get(registers),
            };
            for (index, slot) in slots.iter().enumerate() {
                let out = value.map(|value| (value >> (bits * index as u32)) as u32 & kept);
                put(registers, *slot, &out, mask);
            }
        }))
    }

    fn load(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        let Access { order, space, count, ty, size } = access(line)?;
        let all = &line.instruction.operands;
        let (address, space) = self.address(line, &all[1], space)?;
        let elements = self.elements(&all[0]);
        if elements.len() != count {
            return line.error(format!("{count} registers are loaded, not {}", elements.len()));
        }
        let destinations =
            elements.iter().map(|each| self.destination(each, ty.bits())).collect::<Decoded<Vec<_>>>()?;
        let load = Load { space, size, signed: ty.is_signed(), address, destinations, order };
        Ok((Op::Load(Box::new(load)), class(space, false)))
    }

    fn store(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        let Access { order, space, count, ty, size } = access(line)?;
        let all = &line.instruction.operands;
        let (address, space) = self.address(line, &all[0], space)?;
        if let Some(space @ (Space::Const | Space::Param)) = space {
            return line.error(format!("`.{}` cannot be written", space.name()));
        }
        let elements = self.elements(&all[1]);
        if elements.len() != count {
            return line.error(format!("{count} registers are stored, not {}", elements.len()));
        }
        let sources = elements.iter().map(|each| self.any_source(each, ty)).collect::<Decoded<Vec<_>>>()?;
        Ok((Op::Store(Box::new(Store { space, size, address, sources, order })), class(space, true)))
    }

    /// `cvta`: between an address of a space and the generic one.
    fn convert_address(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        let back = line.mods.take("to");
        let Some(space) = take_space(&mut line.mods) else { return line.error("`cvta` needs a state space") };
        let ty = line.mods.ty()?;
        if ty.bits() != 64 {
            return line.mods.no_type(ty);
        }
        let base = self.window_of(space);
        let compute = if back {
            self.unary::<u64>(line, ty, move |a| a.wrapping_sub(base))?
        } else {
            self.unary::<u64>(line, ty, move |a| a.wrapping_add(base))?
        };
        Ok((Op::Compute(compute), Class::Move))
    }

    fn is_space(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        let Some(space) = take_space(&mut line.mods) else { return line.error("`isspacep` needs a state space") };
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        let p = self.predicate_slot(&all[0])?;
        let a = self.source::<u64>(&all[1], Type::U(64))?;
        let compute: Compute = Box::new(move |registers, mask| {
            let mut set = 0;
            for (lane, address) in a.get(registers).iter().enumerate() {
                set |= u32::from(window::space_of(*address) == space) << lane;
            }
            if let Some(p) = p {
                registers.set_predicate(p, set, mask);
            }
        });
        Ok((Op::Compute(compute), Class::Move))
    }

    /// `mapa`: the same address, since a cluster has one block.
    fn map_address(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        take_space(&mut line.mods);
        let ty = line.mods.ty()?;
        line.check(3, 3)?;
        let all = &line.instruction.operands;
        let compute = match ty.bits() {
            32 => map1(self.slot::<u32>(&all[0], ty)?, self.source(&all[1], ty)?, |a: u32| a),
            _ => map1(self.slot::<u64>(&all[0], ty)?, self.source(&all[1], ty)?, |a: u64| a),
        };
        Ok((Op::Compute(compute), Class::Move))
    }
}
