//! Elements of arrays as operands, `a[1]` and `a[%r1+1]` (PTX ISA 9.0 §6.4.2), which stand for addresses.
//!
//! The index counts elements of the array's fundamental type, is computed in the register's width, and is not negative.

use super::function::Decoder;
use super::op::{Address, AddressBase, Class, Destination, Op};
use super::operand::Resolved;
use super::symbol::File;
use super::types::Type;
use super::{Decoded, Line};
use crate::exec::registers::{Source, map2};
use crate::syntax::ast::{Item, Operand, Space, Variable};

impl Decoder<'_> {
    /// Bytes of an element of the array `name`.
    fn element_bytes(&self, name: &str) -> Option<u32> {
        if let Some(scope) = self.scopes.iter().rev().find(|scope| scope.find(name).is_some()) {
            return scope.arrays.get(name).copied();
        }
        self.ast.items.iter().find_map(|item| match item {
            Item::Variable(variable) if variable.name == name => array_element(variable),
            _ => None,
        })
    }

    /// The address of an element, and the space it is in.
    pub(super) fn element(
        &mut self,
        line: &Line<'_>,
        (array, index, offset): (&str, Option<&str>, i64),
        space: Option<Space>,
    ) -> Decoded<(Address, Option<Space>)> {
        let Some(size) = self.element_bytes(array) else { return line.error(format!("`{array}` is no array")) };
        let first = |offset| Operand::Address { base: Box::new(Operand::Name(array.to_owned())), offset, more: vec![] };
        let Some(index) = index else {
            return self.address(line, &first(offset.wrapping_mul(size.into())), space);
        };
        let (start, space) = self.address(line, &first(0), space)?;
        let start = self.in_register(start);
        let slot = self.fresh(File::Double);
        let add = match self.resolve(&Operand::Name(index.to_owned()), Type::B(32))? {
            Resolved::Register { file: File::Word, slot: index, ty } if ty.bits() == 32 => {
                let offset = offset as u32;
                map2(Some(slot), start, Source::Register(index), move |start: u64, index: u32| {
                    start.wrapping_add(index.wrapping_add(offset).wrapping_mul(size).into())
                })
            }
            Resolved::Register { file: File::Double, slot: index, .. } => {
                map2(Some(slot), start, Source::Register(index), move |start: u64, index: u64| {
                    start.wrapping_add(index.wrapping_add_signed(offset).wrapping_mul(size.into()))
                })
            }
            _ => return line.error(format!("`{index}` is no index: that is a register of 32 or 64 bits")),
        };
        self.emit(Op::Compute(add), Class::Integer);
        Ok((Address { base: AddressBase::Double(slot), offset: 0 }, space))
    }

    /// The address of an array or of one of its elements, as a value.
    pub(super) fn in_register(&mut self, address: Address) -> Source<u64> {
        match address.base {
            AddressBase::Nothing => Source::constant(address.offset as u64),
            AddressBase::Frame => {
                let slot = self.fresh(File::Double);
                let destination = Destination::Double(slot);
                self.emit(Op::FrameAddress { destination, offset: address.offset }, Class::Move);
                Source::Register(slot)
            }
            // As `element` makes them, with no offset.
            AddressBase::Word(slot) | AddressBase::Double(slot) => Source::Register(slot),
        }
    }
}

/// Bytes of an element, if the variable is an array.
pub(super) fn array_element(variable: &Variable) -> Option<u32> {
    let ty = Type::parse(&variable.ty)?;
    (!variable.extents.is_empty()).then(|| ty.bytes())
}
