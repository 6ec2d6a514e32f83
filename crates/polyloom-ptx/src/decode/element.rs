//! Elements of arrays as operands, `a[1]` and `a[%r1+1]` (PTX ISA 9.0 §6.4.2), which stand for addresses.
//!
//! The index counts elements of the array's fundamental type, is computed in the register's width, and is not negative.

use super::function::FunctionDecoder;
use super::op::{AccessAddress, AddressBase, DecodedOp, DestRegister, InstClass};
use super::operand::ResolvedOperand;
use super::symbol::RegisterFile;
use super::types::PtxType;
use super::{Decoded, InstructionLine};
use crate::exec::registers::{SourceOperand, map2};
use crate::syntax::ast::{ModuleItem, PtxOperand, PtxVariable, StateSpace};

impl FunctionDecoder<'_> {
    /// Bytes of an element of the array `name`.
    fn element_bytes(&self, name: &str) -> Option<u32> {
        if let Some(scope) = self.scopes.iter().rev().find(|scope| scope.find(name).is_some()) {
            return scope.arrays.get(name).copied();
        }
        self.ast.items.iter().find_map(|item| match item {
            ModuleItem::Variable(variable) if variable.name == name => array_element(variable),
            _ => None,
        })
    }

    /// The address of an element, and the space it is in.
    pub(super) fn element(
        &mut self,
        line: &InstructionLine<'_>,
        (array, index, offset): (&str, Option<&str>, i64),
        space: Option<StateSpace>,
    ) -> Decoded<(AccessAddress, Option<StateSpace>)> {
        let Some(size) = self.element_bytes(array) else { return line.error(format!("`{array}` is no array")) };
        let first =
            |offset| PtxOperand::Address { base: Box::new(PtxOperand::Name(array.to_owned())), offset, more: vec![] };
        let Some(index) = index else {
            return self.address(line, &first(offset.wrapping_mul(size.into())), space);
        };
        let (start, space) = self.address(line, &first(0), space)?;
        let start = self.in_register(start);
        let slot = self.fresh(RegisterFile::Double);
        let add = match self.resolve(&PtxOperand::Name(index.to_owned()), PtxType::B(32))? {
            ResolvedOperand::Register { file: RegisterFile::Word, slot: index, ty } if ty.bits() == 32 => {
                let offset = offset as u32;
                map2(Some(slot), start, SourceOperand::Register(index), move |start: u64, index: u32| {
                    start.wrapping_add(index.wrapping_add(offset).wrapping_mul(size).into())
                })
            }
            ResolvedOperand::Register { file: RegisterFile::Double, slot: index, .. } => {
                map2(Some(slot), start, SourceOperand::Register(index), move |start: u64, index: u64| {
                    start.wrapping_add(index.wrapping_add_signed(offset).wrapping_mul(size.into()))
                })
            }
            _ => return line.error(format!("`{index}` is no index: that is a register of 32 or 64 bits")),
        };
        self.emit(DecodedOp::Compute(add), InstClass::Integer);
        Ok((AccessAddress { base: AddressBase::Double(slot), offset: 0 }, space))
    }

    /// The address of an array or of one of its elements, as a value.
    pub(super) fn in_register(&mut self, address: AccessAddress) -> SourceOperand<u64> {
        match address.base {
            AddressBase::Nothing => SourceOperand::constant(address.offset as u64),
            AddressBase::Frame => {
                let slot = self.fresh(RegisterFile::Double);
                let destination = DestRegister::Double(slot);
                self.emit(DecodedOp::FrameAddress { destination, offset: address.offset }, InstClass::Move);
                SourceOperand::Register(slot)
            }
            // As `element` makes them, with no offset.
            AddressBase::Word(slot) | AddressBase::Double(slot) => SourceOperand::Register(slot),
        }
    }
}

/// Bytes of an element, if the variable is an array.
pub(super) fn array_element(variable: &PtxVariable) -> Option<u32> {
    let ty = PtxType::parse(&variable.ty)?;
    (!variable.extents.is_empty()).then(|| ty.bytes())
}
