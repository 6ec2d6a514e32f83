//! Moves, loads, stores and addresses (PTX ISA 9.0 §9.7.9).

use super::address::{OrderedAccess, class, memory_type, take_cache_hints, take_order, take_space};
use super::function::FunctionDecoder;
use super::op::{AnySource, ClusterOp, DecodedOp, DestRegister, Halves, LoadOp, MemoryOrder, StoreOp};
use super::special::special;
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{Compute, LANES, RegisterFiles, RegisterWord, SourceOperand, map1, put};
use crate::memory::window;
use crate::syntax::ast::{PtxOperand, StateSpace};

/// Vectors that loads and stores have, and `mov`.
const VECTORS: &[(&str, usize)] = &[("v2", 2), ("v4", 4), ("v8", 8)];
const MOVED_VECTORS: &[(&str, usize)] = &[("v2", 2), ("v4", 4)];

/// Describes what `ld` and `st` say alike.
struct AccessModifiers {
    order: MemoryOrder,
    space: Option<StateSpace>,
    /// Number of registers.
    count: usize,
    ty: PtxType,
    /// Bytes of each.
    size: u32,
}

/// Describes what `mov.b128` reads.
enum VectorParts {
    Halves(Halves),
    Words(Vec<SourceOperand<u32>>),
}

impl VectorParts {
    fn halves(&self, registers: &RegisterFiles) -> [[u64; LANES]; 2] {
        match self {
            VectorParts::Halves(halves) => halves.each_ref().map(|half| *half.get(registers)),
            VectorParts::Words(words) => [&words[..2], &words[2..]].map(|pair| {
                let (low, high) = (pair[0].get(registers), pair[1].get(registers));
                std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
            }),
        }
    }
}

fn access(line: &mut InstructionLine<'_>) -> Decoded<AccessModifiers> {
    let of = if line.instruction.opcode == "st" { OrderedAccess::Store } else { OrderedAccess::Load };
    let (order, space) = take_order(line, of)?;
    let policy = take_cache_hints(line, of, space)?;
    let count = line.mods.take_of(VECTORS).unwrap_or(1);
    let ty = line.mods.ty()?;
    line.check(2 + usize::from(policy), 2 + usize::from(policy))?;
    let bits = count as u32 * ty.bits();
    // The widest are of four or eight registers, in global memory.
    let wide = bits == 256 && matches!(ty.bits(), 32 | 64) && matches!(space, None | Some(StateSpace::Global));
    if bits > 128 && !wide {
        return line.error(format!("{count} registers of `.{}` are too many", ty.name()));
    }
    if count > 1 && line.instruction.modifiers.iter().any(|each| each == "mmio") {
        return line.error("`.mmio` goes with no vectors");
    }
    Ok(AccessModifiers { order, space, count, ty, size: memory_type(line, ty)? })
}

impl FunctionDecoder<'_> {
    pub(super) fn movement(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        match line.instruction.opcode.as_str() {
            "mov" => self.mov(line),
            "ld" | "ldu" => self.load(line),
            "st" => self.store(line),
            "cvta" => self.convert_address(line),
            "isspacep" => self.is_space(line),
            "mapa" => self.map_address(line),
            "getctarank" => self.rank_of_address(line),
            "createpolicy" => {
                line.mods.drop_known(&["fractional", "range", "cvt", "L2", "global", "b64"]);
                line.mods.drop_prefixed("L2::");
                line.check(1, 4)?;
                let d = self.slot::<u64>(&line.instruction.operands[0], PtxType::B(64))?;
                Ok((DecodedOp::Compute(crate::exec::registers::map0(d, |_| 0u64)), InstClass::Move))
            }
            // Hints.
            _ => {
                take_space(&mut line.mods);
                line.mods.drop_known(&["L1", "L2", "tensormap"]);
                line.mods.drop_prefixed("L2::");
                line.check(1, 2)?;
                Ok((DecodedOp::Nothing, InstClass::Move))
            }
        }
    }

    fn mov(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        if let Some(count) = line.mods.take_of(MOVED_VECTORS) {
            return self.move_vector(line, count);
        }
        let ty = line.mods.ty()?;
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        if ty == PtxType::Pred {
            let d = self.predicate_slot(&all[0])?;
            let a = self.test(&all[1])?;
            let compute: Compute = Box::new(move |registers, mask| {
                let value = a.mask(registers);
                if let Some(d) = d {
                    registers.set_predicate(d, value, mask);
                }
            });
            return Ok((DecodedOp::Compute(compute), InstClass::Move));
        }
        if let PtxOperand::Element { array, index, offset } = &all[1] {
            let (address, _) = self.element(line, (array, index.as_deref(), *offset), None)?;
            let address = self.in_register(address);
            let compute = match ty.bits() {
                64 => map1(self.slot::<u64>(&all[0], ty)?, address, |a: u64| a),
                32 => map1(self.slot::<u32>(&all[0], ty)?, address, |a: u64| a as u32),
                _ => return line.mods.no_type(ty),
            };
            return Ok((DecodedOp::Compute(compute), InstClass::Move));
        }
        if let Some(produced) = self.produced(&all[1])
            && produced.has(ty.bits())
            && !ty.is_float()
        {
            let slot = if ty.bits() == 64 { self.slot::<u64>(&all[0], ty)? } else { self.slot::<u32>(&all[0], ty)? };
            return Ok((produced.into_register(slot, ty.bits()), InstClass::Move));
        }
        if ty == PtxType::B(128) {
            return Ok((DecodedOp::Compute(self.move_quad(line, &all[0], &all[1])?), InstClass::Move));
        }
        let compute = match (self.elements(&all[0]), self.elements(&all[1])) {
            (to, from) if to.len() == 1 && from.len() == 1 => match ty.bits() {
                16 | 32 => {
                    let d = self.slot::<u32>(&all[0], ty)?;
                    let a = self.source::<u32>(&all[1], ty)?;
                    Box::new(move |registers: &mut RegisterFiles, mask: u32| {
                        let value = *a.get(registers);
                        put(registers, d, &value, mask);
                    }) as Compute
                }
                64 => {
                    let d = self.slot::<u64>(&all[0], ty)?;
                    let a = self.source::<u64>(&all[1], ty)?;
                    Box::new(move |registers: &mut RegisterFiles, mask: u32| {
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
        Ok((DecodedOp::Compute(compute), InstClass::Move))
    }

    /// `mov.v2` and `mov.v4`, since each element of a vector, or one value to all. Special registers have four
    /// components, of which the last is zero.
    fn move_vector(&mut self, line: &mut InstructionLine<'_>, count: usize) -> Decoded<(DecodedOp, InstClass)> {
        let ty = line.mods.ty()?;
        line.check(2, 2)?;
        if ty == PtxType::Pred || count as u32 * ty.bits() > 128 {
            return line.error(format!("`mov` has no {count} elements of `.{}`", ty.name()));
        }
        let all = &line.instruction.operands;
        let to = self.elements(&all[0]);
        let mut from = match &all[1] {
            PtxOperand::Name(name) if count == 4 && self.find(name).is_none() && special(name, Some("x")).is_some() => {
                let components = ["x", "y", "z", "w"].map(|axis| PtxOperand::Component(name.clone(), axis.to_owned()));
                components.to_vec()
            }
            other => self.elements(other),
        };
        if from.len() == 1 {
            from = vec![from[0].clone(); count];
        }
        if [to.len(), from.len()] != [count; 2] {
            return line.error(format!("`mov.v{count}` moves {count} elements, not {} to {}", from.len(), to.len()));
        }
        let compute = match ty.bits() {
            64 => self.move_elements::<u64>(ty, &to, &from)?,
            _ => self.move_elements::<u32>(ty, &to, &from)?,
        };
        Ok((DecodedOp::Compute(compute), InstClass::Move))
    }

    fn move_elements<T: RegisterWord>(
        &mut self,
        ty: PtxType,
        to: &[PtxOperand],
        from: &[PtxOperand],
    ) -> Decoded<Compute> {
        let slots = to.iter().map(|to| self.slot::<T>(to, ty)).collect::<Decoded<Vec<_>>>()?;
        let sources = from.iter().map(|from| self.source::<T>(from, ty)).collect::<Decoded<Vec<_>>>()?;
        Ok(Box::new(move |registers, mask| {
            // All are read before one is written, because the vectors may share registers.
            let mut values = [[T::default(); LANES]; 4];
            for (value, source) in values.iter_mut().zip(&sources) {
                *value = *source.get(registers);
            }
            for (slot, value) in slots.iter().zip(&values) {
                put(registers, *slot, value, mask);
            }
        }))
    }

    /// `mov.b128`: a copy, or a register from or to two of 64 bits or four of 32.
    fn move_quad(&mut self, line: &InstructionLine<'_>, to: &PtxOperand, from: &PtxOperand) -> Decoded<Compute> {
        let words = |parts: &[PtxOperand]| parts.len() == 4;
        let sources: VectorParts = match from {
            PtxOperand::Vector(parts) if parts.len() == 2 => {
                VectorParts::Halves([self.source(&parts[0], PtxType::B(64))?, self.source(&parts[1], PtxType::B(64))?])
            }
            PtxOperand::Vector(parts) if words(parts) => {
                VectorParts::Words(parts.iter().map(|each| self.source(each, PtxType::B(32))).collect::<Decoded<_>>()?)
            }
            PtxOperand::Vector(_) => return line.error("`.b128` is two parts of 64 bits or four of 32"),
            _ => VectorParts::Halves(self.halves(from)?),
        };
        Ok(match to {
            PtxOperand::Vector(parts) if parts.len() == 2 => {
                let [low, high] =
                    [self.slot::<u64>(&parts[0], PtxType::B(64))?, self.slot::<u64>(&parts[1], PtxType::B(64))?];
                Box::new(move |registers, mask| {
                    let [a, b] = sources.halves(registers);
                    put(registers, low, &a, mask);
                    put(registers, high, &b, mask);
                })
            }
            PtxOperand::Vector(parts) if words(parts) => {
                let slots =
                    parts.iter().map(|each| self.slot::<u32>(each, PtxType::B(32))).collect::<Decoded<Vec<_>>>()?;
                Box::new(move |registers, mask| {
                    let halves = sources.halves(registers);
                    for (index, slot) in slots.iter().enumerate() {
                        let word = halves[index / 2].map(|half| (half >> (32 * (index % 2))) as u32);
                        put(registers, *slot, &word, mask);
                    }
                })
            }
            PtxOperand::Vector(_) => return line.error("`.b128` is two parts of 64 bits or four of 32"),
            _ => {
                let slot = self.quad_slot(to)?;
                Box::new(move |registers, mask| {
                    let [a, b] = sources.halves(registers);
                    put(registers, slot, &a, mask);
                    put(registers, slot.map(|slot| slot + 1), &b, mask);
                })
            }
        })
    }

    /// The type of a part when `ty` is taken apart into `count`.
    fn part(line: &InstructionLine<'_>, ty: PtxType, count: usize) -> Decoded<PtxType> {
        match (ty.bits(), count) {
            (16 | 32 | 64, 2 | 4) => Ok(PtxType::B(ty.bits() / count as u32)),
            _ => line.error(format!("`.{}` has no {count} parts", ty.name())),
        }
    }

    fn pack(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        to: &PtxOperand,
        from: &[PtxOperand],
    ) -> Decoded<Compute> {
        let part = Self::part(line, ty, from.len())?;
        let sources = from.iter().map(|each| self.source::<u32>(each, part)).collect::<Decoded<Vec<_>>>()?;
        let bits = part.bits();
        let kept = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        let gather = move |registers: &RegisterFiles| {
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

    fn unpack(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        to: &[PtxOperand],
        from: &PtxOperand,
    ) -> Decoded<Compute> {
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

    fn load(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let AccessModifiers { order, space, count, ty, size } = access(line)?;
        if line.instruction.opcode == "ldu" && !matches!(space, None | Some(StateSpace::Global)) {
            return line.error("`ldu` loads from `.global`");
        }
        let all = &line.instruction.operands;
        let (address, space) = self.address(line, &all[1], space)?;
        let elements = self.elements(&all[0]);
        if elements.len() != count {
            return line.error(format!("{count} registers are loaded, not {}", elements.len()));
        }
        if ty == PtxType::B(128) {
            let parts = match self.quad_slot(&elements[0])? {
                Some(slot) => vec![DestRegister::Double(slot), DestRegister::Double(slot + 1)],
                None => vec![DestRegister::Sink, DestRegister::Sink],
            };
            let at_once = order.strong;
            let load =
                LoadOp { space, size: 8, signed: false, address, destinations: parts, order, at_once, copied: 0 };
            return Ok((DecodedOp::Load(Box::new(load)), class(space, false)));
        }
        let destinations =
            elements.iter().map(|each| self.destination(each, ty.bits())).collect::<Decoded<Vec<_>>>()?;
        let bytes = |index: usize| ((1u32 << size) - 1) << (index * size as usize);
        // Compilers copy what is behind the last field of a struct with that field.
        let parts = elements.iter().enumerate().filter(|_| size < 4);
        let copied = parts.fold(0, |set, (index, each)| set | if self.is_copied(each) { bytes(index) } else { 0 });
        let signed = ty.is_signed();
        let load = LoadOp { space, size, signed, address, destinations, order, at_once: false, copied };
        Ok((DecodedOp::Load(Box::new(load)), class(space, false)))
    }

    fn store(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let AccessModifiers { order, space, count, ty, size } = access(line)?;
        let all = &line.instruction.operands;
        let (address, space) = self.address(line, &all[0], space)?;
        if let Some(space @ (StateSpace::Const | StateSpace::Param)) = space {
            return line.error(format!("`.{}` cannot be written", space.name()));
        }
        let elements = self.elements(&all[1]);
        if elements.len() != count {
            return line.error(format!("{count} registers are stored, not {}", elements.len()));
        }
        if ty == PtxType::B(128) {
            let sources = self.halves(&elements[0])?.map(AnySource::Double).to_vec();
            let store = StoreOp { space, size: 8, address, sources, order, at_once: order.strong };
            return Ok((DecodedOp::Store(Box::new(store)), class(space, true)));
        }
        let sources = elements.iter().map(|each| self.any_source(each, ty)).collect::<Decoded<Vec<_>>>()?;
        let store = StoreOp { space, size, address, sources, order, at_once: false };
        Ok((DecodedOp::Store(Box::new(store)), class(space, true)))
    }

    /// `cvta`: between an address of a space and the generic one.
    fn convert_address(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let back = line.mods.take("to");
        let Some(space) = take_space(&mut line.mods) else { return line.error("`cvta` needs a state space") };
        let ty = line.mods.ty()?;
        if ty.bits() != 64 {
            return line.mods.no_type(ty);
        }
        let base = self.window_of(space);
        let all = &line.instruction.operands;
        if let Some(PtxOperand::Element { array, index, offset }) = all.get(1)
            && !back
        {
            line.check(2, 2)?;
            let (address, _) = self.element(line, (array, index.as_deref(), *offset), Some(space))?;
            let address = self.in_register(address);
            let d = self.slot::<u64>(&all[0], ty)?;
            return Ok((DecodedOp::Compute(map1(d, address, move |a: u64| a.wrapping_add(base))), InstClass::Move));
        }
        let compute = if back {
            self.unary::<u64>(line, ty, move |a| a.wrapping_sub(base))?
        } else {
            self.unary::<u64>(line, ty, move |a| a.wrapping_add(base))?
        };
        Ok((DecodedOp::Compute(compute), InstClass::Move))
    }

    fn is_space(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let in_cluster = line.instruction.modifiers.iter().any(|name| name == "shared::cluster");
        let Some(space) = take_space(&mut line.mods) else { return line.error("`isspacep` needs a state space") };
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        let p = self.predicate_slot(&all[0])?;
        // A generic address has 64 bits, of which a register of 32 holds the lower.
        let a = self.any_source(&all[1], PtxType::B(32))?;
        let constants = self.globals.constants.clone();
        let compute: Compute = Box::new(move |registers, mask| {
            let addresses = match &a {
                AnySource::Word(a) => a.get(registers).map(u64::from),
                AnySource::Double(a) => *a.get(registers),
            };
            let mut set = 0;
            for (lane, address) in addresses.into_iter().enumerate() {
                let found = match constants.contains(&address) {
                    true => StateSpace::Const,
                    false => window::space_of(address),
                };
                // The address that `mapa` gives is in the cluster's shared memory, which the own block's is a part of.
                let is_there = space != StateSpace::Shared || in_cluster || window::rank(address).is_none();
                set |= u32::from(found == space && is_there) << lane;
            }
            if let Some(p) = p {
                registers.set_predicate(p, set, mask);
            }
        });
        Ok((DecodedOp::Compute(compute), InstClass::Move))
    }

    /// `mapa`
    fn map_address(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let is_generic = take_space(&mut line.mods).is_none();
        let ty = line.mods.ty()?;
        line.check(3, 3)?;
        let all = &line.instruction.operands;
        let destination = self.destination(&all[0], ty.bits())?;
        let address = self.any_source(&all[1], ty)?;
        let rank = self.source(&all[2], PtxType::U(32))?;
        let op = ClusterOp::MapAddress { destination, address, rank, is_generic };
        Ok((DecodedOp::Cluster(Box::new(op)), InstClass::Move))
    }

    /// `getctarank`
    fn rank_of_address(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        take_space(&mut line.mods);
        let ty = line.mods.ty()?;
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        let destination = self.destination(&all[0], 32)?;
        let address = self.any_source(&all[1], ty)?;
        Ok((DecodedOp::Cluster(Box::new(ClusterOp::RankOf { destination, address })), InstClass::Move))
    }
}
