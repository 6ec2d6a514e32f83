//! Appending instructions to a function.
//!
//! A [`Builder`] has a current region and a current span. It does not verify: [`crate::verify`] does. Its methods that
//! return a [`BuildError`] find what would else be a panic or an instruction without meaning, so code that a user steers
//! is built with these; [`ExprBuilder`](crate::ExprBuilder) stands above them and writes arithmetic as such.

use crate::entity::{FuncId, Inst, Region, Value};
use crate::eval::{bf16_from_f64, f16_from_f64};
use crate::function::{Function, Imm, Operands, RegionData};
use crate::op::Op;
use crate::span::Span;
use crate::types::{Scalar, Type};
use smallvec::SmallVec;

/// Values of an instruction or a region.
pub type Values = SmallVec<[Value; 2]>;

/// Why an instruction cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BuildError {
    /// The op table has no overload for the operands.
    #[error("no overload of `{op}` takes ({operands})")]
    NoOverload {
        /// Name of the op.
        op: &'static str,
        /// Types of the operands, separated by commas.
        operands: String,
    },
    /// The op gives another number of results than are asked for.
    #[error("`{op}` has {found} results, not {expected}")]
    ResultCount {
        /// Name of the op.
        op: &'static str,
        /// Number of results asked for.
        expected: usize,
        /// Number of results it has.
        found: usize,
    },
    /// A region hands on values of other types than its instruction has.
    #[error("{region} hands on ({found}), not ({expected})")]
    RegionResults {
        /// Says which region, in words.
        region: &'static str,
        /// Types it should hand on, separated by commas.
        expected: String,
        /// Types it hands on, separated by commas.
        found: String,
    },
    /// A value of another type is needed.
    #[error("{role} is {expected}, not {found}")]
    WrongType {
        /// Holds what the value is for.
        role: &'static str,
        /// The type that is needed, in words.
        expected: &'static str,
        /// Type of the value.
        found: String,
    },
}

pub(crate) fn type_list(types: &[Type]) -> String {
    types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ")
}

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

    /// Appends an instruction whose result types follow from the op table, and returns its results.
    ///
    /// # Errors
    ///
    /// [`BuildError::NoOverload`], also if the result type does not follow from the operands (`cast`, `dim`).
    pub fn try_op_results(&mut self, op: Op, operands: &[Value]) -> Result<Values, BuildError> {
        let types = self.types(operands);
        let results = op.info().signatures.iter().find_map(|s| s.result_types(&types));
        let Some(results) = results else {
            return Err(BuildError::NoOverload { op: op.name(), operands: type_list(&types) });
        };
        let inst = self.inst(op, operands, &results, Imm::None);
        Ok(self.func.insts[inst].results.clone())
    }

    /// Works like [`Builder::try_op_results`], for an op with one result.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::try_op_results`], and [`BuildError::ResultCount`].
    pub fn try_op(&mut self, op: Op, operands: &[Value]) -> Result<Value, BuildError> {
        match self.try_op_results(op, operands)?[..] {
            [result] => Ok(result),
            ref results => Err(BuildError::ResultCount { op: op.name(), expected: 1, found: results.len() }),
        }
    }

    /// Works like [`Builder::try_op_results`], for operands whose types the caller has made sure of.
    ///
    /// # Panics
    ///
    /// If that gives an error.
    pub fn op_results(&mut self, op: Op, operands: &[Value]) -> Values {
        self.try_op_results(op, operands).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Works like [`Builder::try_op`], for operands whose types the caller has made sure of.
    ///
    /// # Panics
    ///
    /// If that gives an error.
    pub fn op(&mut self, op: Op, operands: &[Value]) -> Value {
        self.try_op(op, operands).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads an element of an array. There is an index for each dimension, an integer of 32 or 64 bits; one that is
    /// negative or not below the extent is undefined behaviour unless the kernel is checked.
    ///
    /// # Errors
    ///
    /// [`BuildError::NoOverload`].
    pub fn load(&mut self, array: Value, indices: &[Value]) -> Result<Value, BuildError> {
        let element: Operands = std::iter::once(array).chain(indices.iter().copied()).collect();
        self.try_op(Op::ArrayLoad, &element)
    }

    /// Writes an element of an array; indices as of [`Builder::load`].
    ///
    /// # Errors
    ///
    /// [`BuildError::NoOverload`].
    pub fn store(&mut self, array: Value, indices: &[Value], value: Value) -> Result<(), BuildError> {
        let operands: Operands = std::iter::once(array).chain(indices.iter().copied()).chain([value]).collect();
        self.try_op_results(Op::ArrayStore, &operands).map(|_| ())
    }

    /// Returns the types of values.
    pub fn types(&self, values: &[Value]) -> SmallVec<[Type; 4]> {
        values.iter().map(|&value| self.func.ty(value)).collect()
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

    /// A constant of any float type: `value` rounded to it.
    pub fn const_float(&mut self, ty: Scalar, value: f64) -> Value {
        match ty {
            Scalar::F16 => self.const_bits(ty, f16_from_f64(value).into()),
            Scalar::BF16 => self.const_bits(ty, bf16_from_f64(value).into()),
            Scalar::F32 => self.const_f32(value as f32),
            _ => self.const_f64(value),
        }
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

    /// Appends `if cond { then } else { otherwise }` and returns the values that the branch taken yields.
    ///
    /// # Errors
    ///
    /// Errors of the branches, [`BuildError::WrongType`] of the condition, and [`BuildError::RegionResults`].
    pub fn if_else(
        &mut self,
        cond: Value,
        results: &[Type],
        then: impl FnOnce(&mut Builder<'_>) -> Result<Values, BuildError>,
        otherwise: impl FnOnce(&mut Builder<'_>) -> Result<Values, BuildError>,
    ) -> Result<Values, BuildError> {
        self.expect_bool(cond)?;
        let (inst, regions) = self.begin_if(cond, results);
        self.fill(regions[0], "the first branch", results, then)?;
        self.fill(regions[1], "the second branch", results, otherwise)?;
        Ok(self.func.insts[inst].results.clone())
    }

    /// Appends a loop over `start`, `start + step` and so on up to but not including `end`, as Python's `range`, and
    /// returns the carried values after it. `body` is given the counter and the carried values.
    ///
    /// # Errors
    ///
    /// Errors of the body, [`BuildError::WrongType`] of bounds that are not of one integer type, and
    /// [`BuildError::RegionResults`].
    pub fn for_range(
        &mut self,
        bounds: [Value; 3],
        carried: &[Value],
        body: impl FnOnce(&mut Builder<'_>, Value, &[Value]) -> Result<Values, BuildError>,
    ) -> Result<Values, BuildError> {
        let counter = self.func.ty(bounds[0]);
        if !counter.as_scalar().is_some_and(Scalar::is_int) {
            let found = counter.to_string();
            return Err(BuildError::WrongType { role: "the start of a range", expected: "an integer", found });
        }
        if let Some(&other) = bounds.iter().find(|&&bound| self.func.ty(bound) != counter) {
            let found = self.func.ty(other).to_string();
            return Err(BuildError::WrongType { role: "a bound of a range", expected: "of the start's type", found });
        }
        let types = self.types(carried);
        let (inst, region) = self.begin_for_range(bounds, carried);
        let params = self.func.regions[region].params.clone();
        self.fill(region, "the body of a loop", &types, |b| body(b, params[0], &params[1..]))?;
        Ok(self.func.insts[inst].results.clone())
    }

    /// Appends a loop that repeats `body` while `cond` holds, both of the carried values, and returns these after it.
    ///
    /// # Errors
    ///
    /// Errors of `cond` and `body`, [`BuildError::WrongType`] of the condition, and [`BuildError::RegionResults`].
    pub fn while_loop(
        &mut self,
        carried: &[Value],
        cond: impl FnOnce(&mut Builder<'_>, &[Value]) -> Result<Value, BuildError>,
        body: impl FnOnce(&mut Builder<'_>, &[Value]) -> Result<Values, BuildError>,
    ) -> Result<Values, BuildError> {
        let types = self.types(carried);
        let (inst, regions) = self.begin_while(carried);
        let params = regions.map(|region| self.func.regions[region].params.clone());
        self.fill(regions[0], "the condition of a loop", &[Scalar::Bool.into()], |b| {
            cond(b, &params[0]).map(|value| SmallVec::from_slice(&[value]))
        })?;
        self.fill(regions[1], "the body of a loop", &types, |b| body(b, &params[1]))?;
        Ok(self.func.insts[inst].results.clone())
    }

    /// Appends an `if` whose two regions the caller fills.
    pub fn begin_if(&mut self, cond: Value, results: &[Type]) -> (Inst, [Region; 2]) {
        let regions = [self.create_region(&[]), self.create_region(&[])];
        (self.region_inst(Op::If, &[cond], results, &regions), regions)
    }

    /// Appends a `for_range` whose region, of the counter and the carried values, the caller fills.
    pub fn begin_for_range(&mut self, bounds: [Value; 3], carried: &[Value]) -> (Inst, Region) {
        let types = self.types(carried);
        let params: SmallVec<[Type; 4]> =
            std::iter::once(self.func.ty(bounds[0])).chain(types.iter().copied()).collect();
        let region = self.create_region(&params);
        let operands: Operands = bounds.iter().chain(carried).copied().collect();
        (self.region_inst(Op::ForRange, &operands, &types, &[region]), region)
    }

    /// Appends a `while` whose regions, the condition and the body, the caller fills.
    pub fn begin_while(&mut self, carried: &[Value]) -> (Inst, [Region; 2]) {
        let types = self.types(carried);
        let regions = [self.create_region(&types), self.create_region(&types)];
        (self.region_inst(Op::While, carried, &types, &regions), regions)
    }

    /// Fills a region and ends it with the values it hands on.
    fn fill(
        &mut self,
        region: Region,
        name: &'static str,
        results: &[Type],
        write: impl FnOnce(&mut Builder<'_>) -> Result<Values, BuildError>,
    ) -> Result<(), BuildError> {
        let outer = self.switch_to(region);
        let written = write(self);
        if let Ok(values) = &written {
            self.yield_(values);
        }
        self.switch_to(outer);
        let found = self.types(&written?);
        if found[..] == *results {
            return Ok(());
        }
        Err(BuildError::RegionResults { region: name, expected: type_list(results), found: type_list(&found) })
    }

    pub(crate) fn expect_bool(&self, cond: Value) -> Result<(), BuildError> {
        match self.func.ty(cond) {
            Type::Scalar(Scalar::Bool) => Ok(()),
            other => {
                let found = other.to_string();
                Err(BuildError::WrongType { role: "a condition", expected: "a bool", found })
            }
        }
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
