//! Operands: registers of the right file and width, constants, and addresses of variables.

use super::function::FunctionDecoder;
use super::op::{AnySource, DecodedOp, DestRegister, Halves, SpecialRegister};
use super::special::{SpecialWidths, special};
use super::symbol::{PtxSymbol, RegisterFile, is_opaque};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::error::PtxError;
use crate::exec::registers::{Compute, LaneValue, PredicateTest, RegisterWord, Slot, SourceOperand, map1, map2, map3};
use crate::syntax::ast::{ModuleItem, PtxOperand};

/// An operand before its width is asked for.
pub(super) enum ResolvedOperand {
    Register { file: RegisterFile, slot: u32, ty: PtxType },
    Constant(u64),
}

/// An operand that an instruction of its own puts into a register; `mov` of it is that instruction.
pub(super) enum ProducedOperand {
    /// A special register, and of which widths it can be read.
    Special(SpecialRegister, SpecialWidths),
    /// The address of so many bytes into local memory.
    FrameAddress(i64),
}

impl ProducedOperand {
    fn is_wide(&self) -> bool {
        matches!(
            self,
            ProducedOperand::Special(_, SpecialWidths::B64 | SpecialWidths::UpTo64) | ProducedOperand::FrameAddress(_)
        )
    }

    /// Returns true if it can be read as so many bits.
    pub(super) fn has(&self, bits: u32) -> bool {
        match self {
            ProducedOperand::Special(_, SpecialWidths::B32) => bits == 32,
            ProducedOperand::Special(_, SpecialWidths::UpTo32) => matches!(bits, 16 | 32),
            ProducedOperand::Special(_, SpecialWidths::UpTo64) => matches!(bits, 16 | 32 | 64),
            ProducedOperand::Special(_, SpecialWidths::B64) => bits == 64,
            // An address of local memory, so that 32 bits hold it.
            ProducedOperand::FrameAddress(_) => matches!(bits, 32 | 64),
        }
    }

    /// The instruction that writes it to a register of `bits`.
    pub(super) fn into_register(self, slot: Slot, bits: u32) -> DecodedOp {
        let destination = match slot {
            None => DestRegister::Sink,
            Some(slot) if bits == 64 => DestRegister::Double(slot),
            Some(slot) => DestRegister::Word(slot, bits),
        };
        match self {
            ProducedOperand::Special(which, _) => DecodedOp::Special { destination, which },
            ProducedOperand::FrameAddress(offset) => DecodedOp::FrameAddress { destination, offset },
        }
    }
}

impl FunctionDecoder<'_> {
    pub(super) fn operand_error<T>(&self, message: impl Into<String>) -> Decoded<T> {
        Err(PtxError::new(self.position, message))
    }

    pub(super) fn resolve(&mut self, operand: &PtxOperand, ty: PtxType) -> Decoded<ResolvedOperand> {
        if let Some(produced) = self.produced(operand) {
            if matches!(produced, ProducedOperand::Special(..)) && (!self.reads_special || ty.is_float()) {
                return self.operand_error(format!("`{operand}` is read by `mov`, which puts it into a register"));
            }
            return Ok(self.read(produced, ty));
        }
        match operand {
            PtxOperand::Integer(value) => {
                if ty.is_float() {
                    return self.operand_error(format!("an operand of type `.{}` is no integer constant", ty.name()));
                }
                Ok(ResolvedOperand::Constant(*value))
            }
            PtxOperand::Float(value) => match ty.bits_of(*value) {
                Some(bits) => Ok(ResolvedOperand::Constant(bits)),
                None => self.operand_error(format!("`{value}` is no operand of type `.{}`", ty.name())),
            },
            PtxOperand::Name(name) => match self.find(name) {
                Some(symbol) => self.resolve_symbol(name, &symbol, 0),
                None => {
                    if let Some(address) = self.function_address(name) {
                        return Ok(ResolvedOperand::Constant(address));
                    }
                    let opaque = |item: &ModuleItem| matches!(item, ModuleItem::Variable(each) if each.name == *name && is_opaque(each));
                    if self.ast.items.iter().any(opaque) {
                        return self.operand_error(format!(
                            "`{name}` is a variable of a texture: the simulator has textures and surfaces by handles in registers"
                        ));
                    }
                    self.operand_error(format!("`{name}` is not declared"))
                }
            },
            PtxOperand::Component(name, component) => {
                if let Some(symbol) = self.component(name, component) {
                    return self.resolve_symbol(name, &symbol, 0);
                }
                match self.find(name) {
                    Some(_) => self.operand_error(format!("`{name}` has no part `.{component}`")),
                    None => self.operand_error(format!("`{name}.{component}` is not declared")),
                }
            }
            PtxOperand::Offset(name, offset) => match self.find(name) {
                Some(symbol @ PtxSymbol::Memory { .. }) => self.resolve_symbol(name, &symbol, *offset),
                _ => self.operand_error(format!("`{name}` is no variable")),
            },
            PtxOperand::Negative(inner) => self.operand_error(format!("`-{inner}` is no operand; negate with `neg`")),
            PtxOperand::Not(inner) => self.operand_error(format!("`!{inner}` is no operand here")),
            other => self.operand_error(format!("`{other}` is no operand here")),
        }
    }

    fn component(&self, name: &str, component: &str) -> Option<PtxSymbol> {
        let Some(PtxSymbol::Vector(all)) = self.find(name) else { return None };
        let index = ["x", "y", "z", "w"].iter().position(|each| *each == component);
        let index = index.or_else(|| ["r", "g", "b", "a"].iter().position(|each| *each == component))?;
        all.get(index).cloned()
    }

    fn resolve_symbol(&mut self, name: &str, symbol: &PtxSymbol, offset: i64) -> Decoded<ResolvedOperand> {
        match symbol {
            PtxSymbol::Register { file, slot, ty } => {
                Ok(ResolvedOperand::Register { file: *file, slot: *slot, ty: *ty })
            }
            PtxSymbol::Memory { address, .. } => Ok(ResolvedOperand::Constant(address.wrapping_add_signed(offset))),
            _ => self.operand_error(format!("`{name}` is no operand")),
        }
    }

    /// Returns what an operand stands for that is in no register.
    pub(super) fn produced(&self, operand: &PtxOperand) -> Option<ProducedOperand> {
        let of_special = |(which, widths)| ProducedOperand::Special(which, widths);
        match operand {
            PtxOperand::Name(name) => match self.find(name) {
                None => special(name, None).map(of_special),
                Some(PtxSymbol::Frame { offset, .. }) => Some(ProducedOperand::FrameAddress(offset.into())),
                Some(_) => None,
            },
            PtxOperand::Offset(name, more) => match self.find(name) {
                Some(PtxSymbol::Frame { offset, .. }) => {
                    Some(ProducedOperand::FrameAddress(more.wrapping_add(offset.into())))
                }
                _ => None,
            },
            PtxOperand::Component(name, component) if self.component(name, component).is_none() => {
                special(name, Some(component)).map(of_special)
            }
            _ => None,
        }
    }

    /// Puts what is in no register into a fresh one, of `ty`'s width if it can be read so.
    fn read(&mut self, produced: ProducedOperand, ty: PtxType) -> ResolvedOperand {
        let bits = match ty.bits() {
            bits if produced.has(bits) => bits,
            _ if produced.is_wide() => 64,
            _ => 32,
        };
        let file = if bits == 64 { RegisterFile::Double } else { RegisterFile::Word };
        let slot = self.fresh(file);
        self.emit(produced.into_register(Some(slot), bits), InstClass::Move);
        ResolvedOperand::Register { file, slot, ty: PtxType::B(bits) }
    }

    /// An operand of type `ty` in lanes of `T`.
    pub(super) fn source<T: RegisterWord>(&mut self, operand: &PtxOperand, ty: PtxType) -> Decoded<SourceOperand<T>> {
        let wide = std::mem::size_of::<T>() == 8;
        match self.resolve(operand, ty)? {
            ResolvedOperand::Constant(bits) => {
                let bits = if ty.bits() < 64 { bits & ((1 << ty.bits()) - 1) } else { bits };
                Ok(SourceOperand::constant(T::truncated(bits)))
            }
            ResolvedOperand::Register { file, slot, ty: found } => {
                let right_file = file == if wide { RegisterFile::Double } else { RegisterFile::Word };
                if right_file && found.bits() == ty.bits() {
                    self.check_type(operand, ty)?;
                    return Ok(SourceOperand::Register(slot));
                }
                self.operand_error(format!(
                    "`{operand}` has {} bits, an operand of type `.{}` has {}",
                    found.bits(),
                    ty.name(),
                    ty.bits()
                ))
            }
        }
    }

    /// Refuses a register of a type that is no operand of an instruction's.
    pub(super) fn check_type(&self, operand: &PtxOperand, ty: PtxType) -> Decoded<()> {
        if let PtxOperand::Name(name) = operand
            && let Some(PtxSymbol::Register { ty: found, .. }) = self.find(name)
            && !found.is_operand_of(ty)
        {
            let (found, ty) = (found.name(), ty.name());
            return self.operand_error(format!("`{name}` is of type `.{found}`, the operand is of `.{ty}`"));
        }
        Ok(())
    }

    /// A register of type `ty` that is written, or `_`.
    pub(super) fn slot<T: RegisterWord>(&mut self, operand: &PtxOperand, ty: PtxType) -> Decoded<Slot> {
        if matches!(operand, PtxOperand::Name(name) if name == "_") {
            return Ok(None);
        }
        match self.source::<T>(operand, ty)? {
            SourceOperand::Register(slot) => Ok(Some(slot)),
            SourceOperand::Constant(_) => self.operand_error(format!("`{operand}` is no register to write to")),
        }
    }

    /// Both halves of an operand of 128 bits.
    pub(super) fn halves(&mut self, operand: &PtxOperand) -> Decoded<Halves> {
        match self.resolve(operand, PtxType::B(128))? {
            ResolvedOperand::Constant(bits) => Ok([SourceOperand::constant(bits), SourceOperand::constant(0)]),
            ResolvedOperand::Register { file: RegisterFile::Quad, slot, .. } => {
                Ok([SourceOperand::Register(slot), SourceOperand::Register(slot + 1)])
            }
            ResolvedOperand::Register { ty, .. } => {
                self.operand_error(format!("`{operand}` has {} bits, an operand of type `.b128` has 128", ty.bits()))
            }
        }
    }

    /// The place of a register of 128 bits that is written, or `_`.
    pub(super) fn quad_slot(&mut self, operand: &PtxOperand) -> Decoded<Slot> {
        if matches!(operand, PtxOperand::Name(name) if name == "_") {
            return Ok(None);
        }
        match self.halves(operand)? {
            [SourceOperand::Register(slot), _] => Ok(Some(slot)),
            _ => self.operand_error(format!("`{operand}` is no register to write to")),
        }
    }

    /// A register of either file that is written, of at least `bits` bits.
    pub(super) fn destination(&mut self, operand: &PtxOperand, bits: u32) -> Decoded<DestRegister> {
        if matches!(operand, PtxOperand::Name(name) if name == "_") {
            return Ok(DestRegister::Sink);
        }
        let found = match self.resolve(operand, PtxType::B(bits))? {
            ResolvedOperand::Register { file: RegisterFile::Word, slot, ty } if ty.bits() >= bits => {
                DestRegister::Word(slot, ty.bits())
            }
            ResolvedOperand::Register { file: RegisterFile::Double, slot, .. } => DestRegister::Double(slot),
            ResolvedOperand::Register { ty, .. } => {
                return self.operand_error(format!("`{operand}` has {} bits, {bits} are written", ty.bits()));
            }
            ResolvedOperand::Constant(_) => {
                return self.operand_error(format!("`{operand}` is no register to write to"));
            }
        };
        Ok(found)
    }

    /// A value of at least `ty`'s width, in whichever file it is.
    pub(super) fn any_source(&mut self, operand: &PtxOperand, ty: PtxType) -> Decoded<AnySource> {
        match self.resolve(operand, ty)? {
            ResolvedOperand::Constant(bits) if ty.bits() <= 32 => {
                Ok(AnySource::Word(SourceOperand::constant(bits as u32)))
            }
            ResolvedOperand::Constant(bits) => Ok(AnySource::Double(SourceOperand::constant(bits))),
            ResolvedOperand::Register { file: RegisterFile::Word, slot, ty: found } if found.bits() >= ty.bits() => {
                Ok(AnySource::Word(SourceOperand::Register(slot)))
            }
            ResolvedOperand::Register { file: RegisterFile::Double, slot, .. } => {
                Ok(AnySource::Double(SourceOperand::Register(slot)))
            }
            ResolvedOperand::Register { ty: found, .. } => {
                self.operand_error(format!("`{operand}` has {} bits, {} are read", found.bits(), ty.bits()))
            }
        }
    }

    /// A predicate that is read, `!p` included.
    pub(super) fn test(&mut self, operand: &PtxOperand) -> Decoded<PredicateTest> {
        let (negated, inner) = match operand {
            PtxOperand::Not(inner) => (true, &**inner),
            other => (false, other),
        };
        if let PtxOperand::Integer(value) = inner {
            return Ok(PredicateTest::Constant((*value != 0) != negated));
        }
        // The one special register that is a predicate. What the kernel's directives say is what is told of its
        // launches.
        if matches!(inner, PtxOperand::Name(name) if name == "%is_explicit_cluster") {
            let asks = |name: &str| matches!(name, "explicitcluster" | "reqnctapercluster");
            let is_explicit = self.functions[0].directives.iter().any(|(name, _)| asks(name));
            return Ok(PredicateTest::Constant(is_explicit != negated));
        }
        match self.resolve(inner, PtxType::Pred)? {
            ResolvedOperand::Register { file: RegisterFile::Predicate, slot, .. } => {
                Ok(PredicateTest::Register { slot, negated })
            }
            _ => self.operand_error(format!("`{inner}` is no predicate")),
        }
    }

    /// A predicate that is written, or `_`.
    pub(super) fn predicate_slot(&mut self, operand: &PtxOperand) -> Decoded<Slot> {
        if matches!(operand, PtxOperand::Name(name) if name == "_") {
            return Ok(None);
        }
        match self.test(operand)? {
            PredicateTest::Register { slot, negated: false } => Ok(Some(slot)),
            _ => self.operand_error(format!("`{operand}` is no predicate to write to")),
        }
    }

    /// The registers of a vector operand, or the operand itself.
    pub(super) fn elements(&self, operand: &PtxOperand) -> Vec<PtxOperand> {
        match operand {
            PtxOperand::Vector(all) => all.clone(),
            PtxOperand::Name(name) => match self.find(name) {
                Some(PtxSymbol::Vector(all)) => {
                    let names = ["x", "y", "z", "w"].iter().take(all.len());
                    names.map(|each| PtxOperand::Component(name.clone(), (*each).to_owned())).collect()
                }
                _ => vec![operand.clone()],
            },
            _ => vec![operand.clone()],
        }
    }

    /// `d = f(a)`, all of one type.
    pub(super) fn unary<V: LaneValue>(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        f: impl Fn(V) -> V + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        let d = self.slot::<V::Word>(&all[0], ty)?;
        Ok(map1(d, self.source(&all[1], ty)?, f))
    }

    /// `d = f(a, b)`, all of one type.
    pub(super) fn binary<V: LaneValue>(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        f: impl Fn(V, V) -> V + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        line.check(3, 3)?;
        let all = &line.instruction.operands;
        let d = self.slot::<V::Word>(&all[0], ty)?;
        Ok(map2(d, self.source(&all[1], ty)?, self.source(&all[2], ty)?, f))
    }

    /// `d = f(a, b, c)`, all of one type.
    pub(super) fn ternary<V: LaneValue>(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        f: impl Fn(V, V, V) -> V + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        line.check(4, 4)?;
        let all = &line.instruction.operands;
        let d = self.slot::<V::Word>(&all[0], ty)?;
        Ok(map3(d, self.source(&all[1], ty)?, self.source(&all[2], ty)?, self.source(&all[3], ty)?, f))
    }
}
