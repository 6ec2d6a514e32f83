//! The canonical form of functions: bytes that are the same just when the code is.
//!
//! What counts is ops, operands, types, constants, structure, and the metadata and constraints that decide how the code
//! is compiled. Names, spans, and entities that are no longer part of the code do not count: values and labels are
//! numbered in order of definition, and what a trap or a print says is looked up in the HIR, not in the code. Ops
//! are numbers, which mean nothing to a compiler with another op table.

use crate::entity::{FuncId, Inst, Region, Value};
use crate::function::{AxisExtent, CheckKind, Function, Imm, MemoryOrder};
use crate::metadata::{ExecutionConstraints, KernelMetadata};
use crate::op::Op;
use crate::types::{Scalar, Type};
use cranelift_entity::SecondaryMap;

/// The canonical form of the functions added so far, one after another.
#[derive(Debug, Default)]
pub struct CanonicalForm {
    /// The form.
    pub bytes: Vec<u8>,
    /// Holds what is called, in order of the first call. The form names callees by their places here, so that it says
    /// all there is to say only together with the forms of these.
    pub functions: Vec<FuncId>,
    /// True if constants are but their types: where they stand, and that two are equal, does not count then.
    abstracts_constants: bool,
    values: SecondaryMap<Value, u32>,
    labels: SecondaryMap<Inst, u32>,
    n_values: u32,
    n_labels: u32,
}

/// In place of the number of a value, that it is a constant; the type is in the last byte.
const CONSTANT: u32 = 0xffff_ff00;

impl CanonicalForm {
    /// A form of what functions are apart from the values of their constants.
    pub fn without_constants() -> CanonicalForm {
        CanonicalForm { abstracts_constants: true, ..CanonicalForm::default() }
    }

    fn number(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn ty(&mut self, ty: Type) {
        let code = |scalar: Scalar| scalar as u8;
        match ty {
            Type::Scalar(scalar) => self.bytes.push(code(scalar)),
            Type::Array { elem, ndim, space } => {
                self.bytes.extend_from_slice(&[0x80 | code(elem), ndim, space as u8]);
            }
            Type::Composite(composite) => {
                self.bytes.push(0x40);
                self.text(&composite.to_string());
            }
            Type::CompositeArray { elem, ndim, space } => {
                self.bytes.extend_from_slice(&[0x41, ndim, space as u8]);
                self.text(&elem.to_string());
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Adds a function.
    pub fn add(&mut self, func: &Function) {
        self.values.clear();
        self.labels.clear();
        self.n_values = 0;
        self.n_labels = 0;
        self.bytes.push(func.kind as u8);
        let attributes = (&func.metadata, &func.constraints);
        // Most functions have none.
        let none = attributes == (&KernelMetadata::default(), &ExecutionConstraints::default());
        self.text(&if none { String::new() } else { format!("{attributes:?}") });
        self.number(func.results.len() as u32);
        for &ty in &func.results {
            self.ty(ty);
        }
        self.region(func, func.body);
    }

    fn define(&mut self, func: &Function, values: &[Value]) {
        self.number(values.len() as u32);
        for &value in values {
            self.values[value] = self.n_values;
            self.n_values += 1;
            self.ty(func.ty(value));
        }
    }

    fn region(&mut self, func: &Function, region: Region) {
        let data = &func.regions[region];
        self.define(func, &data.params);
        let abstracts_constants = self.abstracts_constants;
        let is_left_out = |inst: &Inst| abstracts_constants && func.insts[*inst].op == Op::Const;
        self.number(data.insts.iter().filter(|inst| !is_left_out(inst)).count() as u32);
        for &inst in &data.insts {
            match (is_left_out(&inst), &func.insts[inst].results[..]) {
                (true, &[constant]) => {
                    let ty = func.ty(constant).as_scalar().map_or(u32::from(u8::MAX), |scalar| scalar as u32);
                    self.values[constant] = CONSTANT | ty;
                }
                _ => self.inst(func, inst),
            }
        }
    }

    fn inst(&mut self, func: &Function, inst: Inst) {
        let data = &func.insts[inst];
        self.bytes.extend_from_slice(&(data.op as u16).to_le_bytes());
        match &data.imm {
            Imm::None => self.bytes.push(0),
            Imm::Bits(bits) => {
                self.bytes.push(1);
                self.bytes.extend_from_slice(&bits.to_le_bytes());
            }
            Imm::Axis(axis) => self.bytes.extend_from_slice(&[2, *axis]),
            Imm::Component(component) => {
                self.bytes.push(8);
                self.number(u32::from(*component));
            }
            Imm::Extent(AxisExtent { axis, extent, .. }) => {
                self.bytes.extend_from_slice(&[9, *axis]);
                self.number(u32::from(*extent));
            }
            Imm::Func(callee) => {
                let known = self.functions.iter().position(|f| f == callee);
                let number = known.unwrap_or_else(|| {
                    self.functions.push(*callee);
                    self.functions.len() - 1
                });
                self.bytes.push(3);
                self.number(number as u32);
            }
            Imm::Target(target) => {
                self.bytes.push(4);
                self.number(self.labels[*target]);
            }
            // The text of a site is not part of the code; its existence and its operands are.
            Imm::Text(_) => self.bytes.push(5),
            Imm::Check(CheckKind::Bounds { .. }) => self.bytes.push(6),
            Imm::Check(CheckKind::Division) => self.bytes.push(7),
            Imm::Shared(array) => {
                self.bytes.push(10);
                self.number(array.id);
                self.number(array.align);
                self.number(array.extents.len() as u32);
                for &extent in &array.extents {
                    self.number(extent);
                }
            }
            Imm::Memory(MemoryOrder { scope, ordering }) => {
                self.bytes.extend_from_slice(&[11, *scope as u8, *ordering as u8]);
            }
            Imm::Width(width) => self.bytes.extend_from_slice(&[12, *width]),
            Imm::Fragment(fragment) => self.bytes.extend_from_slice(&[13, fragment.by_columns.into(), fragment.n]),
            Imm::Copy(copy) => {
                self.bytes.extend_from_slice(&[14, copy.count, copy.cache as u8, copy.is_in_step.into()])
            }
            Imm::Barrier(barrier) => {
                let [low, high] = barrier.count.to_le_bytes();
                self.bytes.extend_from_slice(&[16, barrier.id, low, high]);
            }
            Imm::Pending(n) => self.bytes.extend_from_slice(&[15, *n]),
            Imm::Parallel => self.bytes.push(17),
        }
        self.number(data.operands.len() as u32);
        for &operand in &data.operands {
            self.number(self.values[operand]);
        }
        if !data.regions.is_empty() {
            self.labels[inst] = self.n_labels;
            self.n_labels += 1;
        }
        for &region in &data.regions {
            self.region(func, region);
        }
        self.define(func, &data.results);
    }
}
