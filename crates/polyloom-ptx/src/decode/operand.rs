//! Operands: registers of the right file and width, constants, and addresses of variables.

use super::function::Decoder;
use super::op::{AnySource, Destination, Halves, Op, Special};
use super::special::{Widths, special};
use super::symbol::{File, Symbol, is_opaque};
use super::types::Type;
use super::{Class, Decoded, Line};
use crate::error::Error;
use crate::exec::registers::{Compute, Slot, Source, Test, Value, Word, map1, map2, map3};
use crate::syntax::ast::{Item, Operand};

/// An operand before its width is asked for.
pub(super) enum Resolved {
    Register { file: File, slot: u32, ty: Type },
    Constant(u64),
}

/// An operand that an instruction of its own puts into a register; `mov` of it is that instruction.
pub(super) enum Produced {
    /// A special register, and of which widths it can be read.
    Special(Special, Widths),
    /// The address of so many bytes into local memory.
    FrameAddress(i64),
}

impl Produced {
    fn is_wide(&self) -> bool {
        matches!(self, Produced::Special(_, Widths::B64 | Widths::UpTo64) | Produced::FrameAddress(_))
    }

    /// Returns true if it can be read as so many bits.
    pub(super) fn has(&self, bits: u32) -> bool {
        match self {
            Produced::Special(_, Widths::B32) => bits == 32,
            Produced::Special(_, Widths::UpTo32) => matches!(bits, 16 | 32),
            Produced::Special(_, Widths::UpTo64) => matches!(bits, 16 | 32 | 64),
            Produced::Special(_, Widths::B64) => bits == 64,
            // An address of local memory, so that 32 bits hold it.
            Produced::FrameAddress(_) => matches!(bits, 32 | 64),
        }
    }

    /// The instruction that writes it to a register of `bits`.
    pub(super) fn into_register(self, slot: Slot, bits: u32) -> Op {
        let destination = match slot {
            None => Destination::Sink,
            Some(slot) if bits == 64 => Destination::Double(slot),
            Some(slot) => Destination::Word(slot, bits),
        };
        match self {
            Produced::Special(which, _) => Op::Special { destination, which },
            Produced::FrameAddress(offset) => Op::FrameAddress { destination, offset },
        }
    }
}

impl Decoder<'_> {
    pub(super) fn operand_error<T>(&self, message: impl Into<String>) -> Decoded<T> {
        Err(Error::new(self.position, message))
    }

    pub(super) fn resolve(&mut self, operand: &Operand, ty: Type) -> Decoded<Resolved> {
        if let Some(produced) = self.produced(operand) {
            if matches!(produced, Produced::Special(..)) && (!self.reads_special || ty.is_float()) {
                return self.operand_error(format!("`{operand}` is read by `mov`, which puts it into a register"));
            }
            return Ok(self.read(produced, ty));
        }
        match operand {
            Operand::Integer(value) => {
                if ty.is_float() {
                    return self.operand_error(format!("an operand of type `.{}` is no integer constant", ty.name()));
                }
                Ok(Resolved::Constant(*value))
            }
            Operand::Float(value) => match ty.bits_of(*value) {
                Some(bits) => Ok(Resolved::Constant(bits)),
                None => self.operand_error(format!("`{value}` is no operand of type `.{}`", ty.name())),
            },
            Operand::Name(name) => match self.find(name) {
                Some(symbol) => self.resolve_symbol(name, &symbol, 0),
                None => {
                    if let Some(address) = self.function_address(name) {
                        return Ok(Resolved::Constant(address));
                    }
                    let opaque =
                        |item: &Item| matches!(item, Item::Variable(each) if each.name == *name && is_opaque(each));
                    if self.ast.items.iter().any(opaque) {
                        return self.operand_error(format!("`{name}` is of a texture, which the simulator has not"));
                    }
                    self.operand_error(format!("`{name}` is not declared"))
                }
            },
            Operand::Component(name, component) => {
                if let Some(symbol) = self.component(name, component) {
                    return self.resolve_symbol(name, &symbol, 0);
                }
                match self.find(name) {
                    Some(_) => self.operand_error(format!("`{name}` has no part `.{component}`")),
                    None => self.operand_error(format!("`{name}.{component}` is not declared")),
                }
            }
            Operand::Offset(name, offset) => match self.find(name) {
                Some(symbol @ Symbol::Memory { .. }) => self.resolve_symbol(name, &symbol, *offset),
                _ => self.operand_error(format!("`{name}` is no variable")),
            },
            Operand::Negative(inner) => self.operand_error(format!("`-{inner}` is no operand; negate with `neg`")),
            Operand::Not(inner) => self.operand_error(format!("`!{inner}` is no operand here")),
            other => self.operand_error(format!("`{other}` is no operand here")),
        }
    }

    fn component(&self, name: &str, component: &str) -> Option<Symbol> {
        let Some(Symbol::Vector(all)) = self.find(name) else { return None };
        let index = ["x", "y", "z", "w"].iter().position(|each| *each == component);
        let index = index.or_else(|| ["r", "g", "b", "a"].iter().position(|each| *each == component))?;
        all.get(index).cloned()
    }

    fn resolve_symbol(&mut self, name: &str, symbol: &Symbol, offset: i64) -> Decoded<Resolved> {
        match symbol {
            Symbol::Register { file, slot, ty } => Ok(Resolved::Register { file: *file, slot: *slot, ty: *ty }),
            Symbol::Memory { address, .. } => Ok(Resolved::Constant(address.wrapping_add_signed(offset))),
            _ => self.operand_error(format!("`{name}` is no operand")),
        }
    }

    /// Returns what an operand stands for that is in no register.
    pub(super) fn produced(&self, operand: &Operand) -> Option<Produced> {
        let of_special = |(which, widths)| Produced::Special(which, widths);
        match operand {
            Operand::Name(name) => match self.find(name) {
                None => special(name, None).map(of_special),
                Some(Symbol::Frame { offset, .. }) => Some(Produced::FrameAddress(offset.into())),
                Some(_) => None,
            },
            Operand::Offset(name, more) => match self.find(name) {
                Some(Symbol::Frame { offset, .. }) => Some(Produced::FrameAddress(more.wrapping_add(offset.into()))),
                _ => None,
            },
            Operand::Component(name, component) if self.component(name, component).is_none() => {
                special(name, Some(component)).map(of_special)
            }
            _ => None,
        }
    }

    /// Puts what is in no register into a fresh one, of `ty`'s width if it can be read so.
    fn read(&mut self, produced: Produced, ty: Type) -> Resolved {
        let bits = match ty.bits() {
            bits if produced.has(bits) => bits,
            _ if produced.is_wide() => 64,
            _ => 32,
        };
        let file = if bits == 64 { File::Double } else { File::Word };
        let slot = self.fresh(file);
        self.emit(produced.into_register(Some(slot), bits), Class::Move);
        Resolved::Register { file, slot, ty: Type::B(bits) }
    }

    /// An operand of type `ty` in lanes of `T`.
    pub(super) fn source<T: Word>(&mut self, operand: &Operand, ty: Type) -> Decoded<Source<T>> {
        let wide = std::mem::size_of::<T>() == 8;
        match self.resolve(operand, ty)? {
            Resolved::Constant(bits) => {
                let bits = if ty.bits() < 64 { bits & ((1 << ty.bits()) - 1) } else { bits };
                Ok(Source::constant(T::truncated(bits)))
            }
            Resolved::Register { file, slot, ty: found } => {
                let right_file = file == if wide { File::Double } else { File::Word };
                if right_file && found.bits() == ty.bits() {
                    self.check_type(operand, ty)?;
                    return Ok(Source::Register(slot));
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
    pub(super) fn check_type(&self, operand: &Operand, ty: Type) -> Decoded<()> {
        if let Operand::Name(name) = operand
            && let Some(Symbol::Register { ty: found, .. }) = self.find(name)
            && !found.is_operand_of(ty)
        {
            let (found, ty) = (found.name(), ty.name());
            return self.operand_error(format!("`{name}` is of type `.{found}`, the operand is of `.{ty}`"));
        }
        Ok(())
    }

    /// A register of type `ty` that is written, or `_`.
    pub(super) fn slot<T: Word>(&mut self, operand: &Operand, ty: Type) -> Decoded<Slot> {
        if matches!(operand, Operand::Name(name) if name == "_") {
            return Ok(None);
        }
        match self.source::<T>(operand, ty)? {
            Source::Register(slot) => Ok(Some(slot)),
            Source::Constant(_) => self.operand_error(format!("`{operand}` is no register to write to")),
        }
    }

    /// Both halves of an operand of 128 bits.
    pub(super) fn halves(&mut self, operand: &Operand) -> Decoded<Halves> {
        match self.resolve(operand, Type::B(128))? {
            Resolved::Constant(bits) => Ok([Source::constant(bits), Source::constant(0)]),
            Resolved::Register { file: File::Quad, slot, .. } => {
                Ok([Source::Register(slot), Source::Register(slot + 1)])
            }
            Resolved::Register { ty, .. } => {
                self.operand_error(format!("`{operand}` has {} bits, an operand of type `.b128` has 128", ty.bits()))
            }
        }
    }

    /// The place of a register of 128 bits that is written, or `_`.
    pub(super) fn quad_slot(&mut self, operand: &Operand) -> Decoded<Slot> {
        if matches!(operand, Operand::Name(name) if name == "_") {
            return Ok(None);
        }
        match self.halves(operand)? {
            [Source::Register(slot), _] => Ok(Some(slot)),
            _ => self.operand_error(format!("`{operand}` is no register to write to")),
        }
    }

    /// A register of either file that is written, of at least `bits` bits.
    pub(super) fn destination(&mut self, operand: &Operand, bits: u32) -> Decoded<Destination> {
        if matches!(operand, Operand::Name(name) if name == "_") {
            return Ok(Destination::Sink);
        }
        let found = match self.resolve(operand, Type::B(bits))? {
            Resolved::Register { file: File::Word, slot, ty } if ty.bits() >= bits => {
                Destination::Word(slot, ty.bits())
            }
            Resolved::Register { file: File::Double, slot, .. } => Destination::Double(slot),
            Resolved::Register { ty, .. } => {
                return self.operand_error(format!("`{operand}` has {} bits, {bits} are written", ty.bits()));
            }
            Resolved::Constant(_) => return self.operand_error(format!("`{operand}` is no register to write to")),
        };
        Ok(found)
    }

    /// A value of at least `ty`'s width, in whichever file it is.
    pub(super) fn any_source(&mut self, operand: &Operand, ty: Type) -> Decoded<AnySource> {
        match self.resolve(operand, ty)? {
            Resolved::Constant(bits) if ty.bits() <= 32 => Ok(AnySource::Word(Source::constant(bits as u32))),
            Resolved::Constant(bits) => Ok(AnySource::Double(Source::constant(bits))),
            Resolved::Register { file: File::Word, slot, ty: found } if found.bits() >= ty.bits() => {
                Ok(AnySource::Word(Source::Register(slot)))
            }
            Resolved::Register { file: File::Double, slot, .. } => Ok(AnySource::Double(Source::Register(slot))),
            Resolved::Register { ty: found, .. } => {
                self.operand_error(format!("`{operand}` has {} bits, {} are read", found.bits(), ty.bits()))
            }
        }
    }

    /// A predicate that is read, `!p` included.
    pub(super) fn test(&mut self, operand: &Operand) -> Decoded<Test> {
        let (negated, inner) = match operand {
            Operand::Not(inner) => (true, &**inner),
            other => (false, other),
        };
        if let Operand::Integer(value) = inner {
            return Ok(Test::Constant((*value != 0) != negated));
        }
        // The one special register that is a predicate, because clusters come of no launch, but kernels may ask for
        // them.
        if matches!(inner, Operand::Name(name) if name == "%is_explicit_cluster") {
            let is_explicit = self.functions[0].directives.iter().any(|(name, _)| name == "explicitcluster");
            return Ok(Test::Constant(is_explicit != negated));
        }
        match self.resolve(inner, Type::Pred)? {
            Resolved::Register { file: File::Predicate, slot, .. } => Ok(Test::Register { slot, negated }),
            _ => self.operand_error(format!("`{inner}` is no predicate")),
        }
    }

    /// A predicate that is written, or `_`.
    pub(super) fn predicate_slot(&mut self, operand: &Operand) -> Decoded<Slot> {
        if matches!(operand, Operand::Name(name) if name == "_") {
            return Ok(None);
        }
        match self.test(operand)? {
            Test::Register { slot, negated: false } => Ok(Some(slot)),
            _ => self.operand_error(format!("`{operand}` is no predicate to write to")),
        }
    }

    /// The registers of a vector operand, or the operand itself.
    pub(super) fn elements(&self, operand: &Operand) -> Vec<Operand> {
        match operand {
            Operand::Vector(all) => all.clone(),
            Operand::Name(name) => match self.find(name) {
                Some(Symbol::Vector(all)) => {
                    let names = ["x", "y", "z", "w"].iter().take(all.len());
                    names.map(|each| Operand::Component(name.clone(), (*each).to_owned())).collect()
                }
                _ => vec![operand.clone()],
            },
            _ => vec![operand.clone()],
        }
    }

    /// `d = f(a)`, all of one type.
    pub(super) fn unary<V: Value>(
        &mut self,
        line: &Line<'_>,
        ty: Type,
        f: impl Fn(V) -> V + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        let d = self.slot::<V::Word>(&all[0], ty)?;
        Ok(map1(d, self.source(&all[1], ty)?, f))
    }

    /// `d = f(a, b)`, all of one type.
    pub(super) fn binary<V: Value>(
        &mut self,
        line: &Line<'_>,
        ty: Type,
        f: impl Fn(V, V) -> V + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        line.check(3, 3)?;
        let all = &line.instruction.operands;
        let d = self.slot::<V::Word>(&all[0], ty)?;
        Ok(map2(d, self.source(&all[1], ty)?, self.source(&all[2], ty)?, f))
    }

    /// `d = f(a, b, c)`, all of one type.
    pub(super) fn ternary<V: Value>(
        &mut self,
        line: &Line<'_>,
        ty: Type,
        f: impl Fn(V, V, V) -> V + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        line.check(4, 4)?;
        let all = &line.instruction.operands;
        let d = self.slot::<V::Word>(&all[0], ty)?;
        Ok(map3(d, self.source(&all[1], ty)?, self.source(&all[2], ty)?, self.source(&all[3], ty)?, f))
    }
}
