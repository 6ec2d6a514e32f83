//! Appending instructions to a function.
//!
//! A [`Builder`] has a current region and a current span. It does not verify: [`crate::verify`] does.

use crate::entity::{FuncId, Inst, Region, Value};
use crate::function::{Function, Imm, Operands, RegionData};
use crate::op::Op;
use crate::span::Span;
use crate::types::{Scalar, Type};
use smallvec::SmallVec;

/// Appends instructions to a region of a function.
pub struct Builder<'f> {
    /// The function being built.
    pub func: &'f mut Function,
    region: Region,
    span: Span,
}

impl<'f> Builder<'f> {
    /// A builder at the end of the function's body.
    pub fn new(func: &'f mut Function) -> Builder<'f> {
        let region = func.body;
        Builder { func, region, span: Span::NONE }
    }

    /// The region instructions go to.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Makes `region` current and returns the one that was.
    pub fn switch_to(&mut self, region: Region) -> Region {
        std::mem::replace(&mut self.region, region)
    }

    /// Sets the span of the instructions to come and returns the one that was.
    pub fn set_span(&mut self, span: Span) -> Span {
        std::mem::replace(&mut self.span, span)
    }

    /// A new region with these parameter types, not yet owned by an instruction.
    pub fn create_region(&mut self, params: &[Type]) -> Region {
        let region = self.func.regions.push(RegionData::default());
        for &ty in params {
            self.func.add_region_param(region, ty);
        }
        region
    }

    /// Appends any instruction without regions.
    pub fn inst(&mut self, op: Op, operands: &[Value], results: &[Type], imm: Imm) -> Inst {
        let inst = self.func.make_inst(op, Operands::from_slice(operands), results, imm, self.span);
        self.func.regions[self.region].insts.push(inst);
        inst
    }

    /// Appends an instruction whose result types follow from the op table, and gives its results.
    ///
    /// # Panics
    ///
    /// If no overload of the op takes these operands, or its result type does not follow from them (`cast`, `dim`).
    pub fn op_results(&mut self, op: Op, operands: &[Value]) -> SmallVec<[Value; 2]> {
        let types: SmallVec<[Type; 4]> = operands.iter().map(|&v| self.func.ty(v)).collect();
        let results = op.info().signatures.iter().find_map(|s| s.result_types(&types));
        let Some(results) = results else { panic!("no overload of `{}` takes {types:?}", op.name()) };
        let inst = self.inst(op, operands, &results, Imm::None);
        self.func.insts[inst].results.clone()
    }

    /// As [`Builder::op_results`], for an op with one result.
    ///
    /// # Panics
    ///
    /// As [`Builder::op_results`], and if the op has no result.
    pub fn op(&mut self, op: Op, operands: &[Value]) -> Value {
        self.op_results(op, operands)[0]
    }

    fn one(&mut self, op: Op, operands: &[Value], ty: Type, imm: Imm) -> Value {
        let inst = self.inst(op, operands, &[ty], imm);
        self.func.insts[inst].results[0]
    }

    /// A constant from its bits, zero-extended.
    pub fn const_bits(&mut self, ty: Scalar, bits: u64) -> Value {
        self.one(Op::Const, &[], ty.into(), Imm::Bits(bits))
    }

    /// An `f32` constant.
    pub fn const_f32(&mut self, value: f32) -> Value {
        self.const_bits(Scalar::F32, value.to_bits().into())
    }

    /// An `f64` constant.
    pub fn const_f64(&mut self, value: f64) -> Value {
        self.const_bits(Scalar::F64, value.to_bits())
    }

    /// An integer constant of any integer type, wrapped to its width.
    pub fn const_int(&mut self, ty: Scalar, value: i64) -> Value {
        let bits = value as u64 & (u64::MAX >> (64 - ty.bits()));
        self.const_bits(ty, bits)
    }

    /// A `bool` constant.
    pub fn const_bool(&mut self, value: bool) -> Value {
        self.const_bits(Scalar::Bool, value.into())
    }

    /// A numeric conversion; the value itself if it has that type already.
    pub fn cast(&mut self, value: Value, to: Scalar) -> Value {
        if self.func.ty(value) == Type::Scalar(to) {
            return value;
        }
        self.one(Op::Cast, &[value], to.into(), Imm::None)
    }

    /// A reinterpretation of bits.
    pub fn bitcast(&mut self, value: Value, to: Scalar) -> Value {
        self.one(Op::Bitcast, &[value], to.into(), Imm::None)
    }

    /// The thread's coordinate along `axis`.
    pub fn tid(&mut self, axis: u8) -> Value {
        self.one(Op::Tid, &[], Type::I32, Imm::Axis(axis))
    }

    /// The array's extent along `axis`.
    pub fn dim(&mut self, array: Value, axis: u8) -> Value {
        self.one(Op::Dim, &[array], Type::I32, Imm::Axis(axis))
    }

    /// A call.
    pub fn call(&mut self, callee: FuncId, operands: &[Value], results: &[Type]) -> SmallVec<[Value; 2]> {
        let inst = self.inst(Op::Call, operands, results, Imm::Func(callee));
        self.func.insts[inst].results.clone()
    }

    /// Appends an instruction that owns `regions`.
    pub fn region_inst(&mut self, op: Op, operands: &[Value], results: &[Type], regions: &[Region]) -> Inst {
        let inst = self.inst(op, operands, results, Imm::None);
        self.func.insts[inst].regions = SmallVec::from_slice(regions);
        inst
    }

    /// `if cond { then } else { otherwise }` with the values the two branches yield.
    pub fn if_else(
        &mut self,
        cond: Value,
        results: &[Type],
        then: impl FnOnce(&mut Builder<'_>) -> SmallVec<[Value; 2]>,
        otherwise: impl FnOnce(&mut Builder<'_>) -> SmallVec<[Value; 2]>,
    ) -> SmallVec<[Value; 2]> {
        let regions = [self.create_region(&[]), self.create_region(&[])];
        let inst = self.region_inst(Op::If, &[cond], results, &regions);
        let outer = self.switch_to(regions[0]);
        let values = then(self);
        self.yield_(&values);
        self.switch_to(regions[1]);
        let values = otherwise(self);
        self.yield_(&values);
        self.switch_to(outer);
        self.func.insts[inst].results.clone()
    }

    /// Ends the region with `yield`.
    pub fn yield_(&mut self, values: &[Value]) {
        self.inst(Op::Yield, values, &[], Imm::None);
    }

    /// Ends the region with `break` out of `target`.
    pub fn break_(&mut self, target: Inst, values: &[Value]) {
        self.inst(Op::Break, values, &[], Imm::Target(target));
    }

    /// Ends the region with `continue` of `target`.
    pub fn continue_(&mut self, target: Inst, values: &[Value]) {
        self.inst(Op::Continue, values, &[], Imm::Target(target));
    }

    /// Ends the region with `return`.
    pub fn return_(&mut self, values: &[Value]) {
        self.inst(Op::Return, values, &[], Imm::None);
    }
}
