//! Appending instructions to the kernel that is being made.

use polyloom_ir::{Function, Imm, Inst, Op, Region, RegionData, Scalar, Span, Type, Value};
use smallvec::SmallVec;

/// The kernel that is being made, and where in it instructions go.
pub(super) struct BlockEmitter {
    pub(super) func: Function,
    pub(super) region: Region,
    pub(super) span: Span,
}

/// A loop under construction: instructions go into its body until it is ended.
pub(super) struct OpenLoop {
    pub(super) inst: Inst,
    /// The counter, then what is carried.
    pub(super) params: SmallVec<[Value; 4]>,
    outside: Region,
}

impl BlockEmitter {
    pub(super) fn inst(&mut self, op: Op, operands: &[Value], results: &[Type], imm: Imm) -> Inst {
        let operands: SmallVec<[Value; 4]> = SmallVec::from_slice(operands);
        let inst = self.func.make_inst(op, operands, results, imm, self.span);
        self.func.regions[self.region].insts.push(inst);
        inst
    }

    pub(super) fn value_with(&mut self, op: Op, operands: &[Value], ty: Type, imm: Imm) -> Value {
        let inst = self.inst(op, operands, &[ty], imm);
        self.func.insts[inst].results[0]
    }

    pub(super) fn value(&mut self, op: Op, operands: &[Value], ty: Type) -> Value {
        self.value_with(op, operands, ty, Imm::None)
    }

    /// An op on values of one type that gives one of it.
    pub(super) fn op(&mut self, op: Op, operands: &[Value]) -> Value {
        let ty = self.func.ty(operands[0]);
        self.value(op, operands, ty)
    }

    pub(super) fn compare(&mut self, op: Op, a: Value, b: Value) -> Value {
        self.value(op, &[a, b], Type::BOOL)
    }

    pub(super) fn select(&mut self, cond: Value, then: Value, otherwise: Value) -> Value {
        let ty = self.func.ty(then);
        self.value(Op::Select, &[cond, then, otherwise], ty)
    }

    pub(super) fn constant(&mut self, ty: Scalar, bits: u64) -> Value {
        self.value_with(Op::Const, &[], ty.into(), Imm::Bits(bits))
    }

    /// An `i32` that is not negative.
    pub(super) fn int(&mut self, value: u32) -> Value {
        self.constant(Scalar::I32, value.into())
    }

    pub(super) fn cast(&mut self, value: Value, to: Scalar) -> Value {
        if self.func.ty(value) == Type::Scalar(to) { value } else { self.value(Op::Cast, &[value], to.into()) }
    }

    pub(super) fn load(&mut self, array: Value, indices: &[Value]) -> Value {
        let elem = self.elem(array);
        let operands: SmallVec<[Value; 4]> = [array].iter().chain(indices).copied().collect();
        self.value(Op::ArrayLoad, &operands, elem.into())
    }

    pub(super) fn store(&mut self, array: Value, indices: &[Value], value: Value) {
        let operands: SmallVec<[Value; 4]> = [array].iter().chain(indices).chain(&[value]).copied().collect();
        self.inst(Op::ArrayStore, &operands, &[], Imm::None);
    }

    /// The type of an array's elements.
    pub(super) fn elem(&self, array: Value) -> Scalar {
        self.func.ty(array).as_array().map_or(Scalar::I32, |(elem, _)| elem)
    }

    pub(super) fn new_region(&mut self, params: &[Type]) -> Region {
        let region = self.func.regions.push(RegionData::default());
        for &ty in params {
            self.func.add_region_param(region, ty);
        }
        region
    }

    /// Makes a region current and gives the one that was.
    pub(super) fn enter(&mut self, region: Region) -> Region {
        std::mem::replace(&mut self.region, region)
    }

    pub(super) fn yield_(&mut self, values: &[Value]) {
        self.inst(Op::Yield, values, &[], Imm::None);
    }

    /// Begins a loop from one number up to, but not including, another, of any integer type.
    pub(super) fn begin_loop(&mut self, from: Value, to: Value, carried: &[Value]) -> OpenLoop {
        let ty = self.func.ty(from);
        let one = self.constant(ty.as_scalar().unwrap_or(Scalar::I32), 1);
        self.begin_loop_by(from, to, one, carried)
    }

    pub(super) fn begin_loop_by(&mut self, from: Value, to: Value, by: Value, carried: &[Value]) -> OpenLoop {
        let types: SmallVec<[Type; 4]> = [from].iter().chain(carried).map(|&value| self.func.ty(value)).collect();
        let operands: SmallVec<[Value; 8]> = [from, to, by].iter().chain(carried).copied().collect();
        let inst = self.inst(Op::ForRange, &operands, &types[1..], Imm::None);
        let body = self.new_region(&types);
        self.func.insts[inst].regions.push(body);
        let outside = self.enter(body);
        OpenLoop { inst, params: self.func.regions[body].params.clone(), outside }
    }

    /// Ends a loop and gives its results.
    pub(super) fn end_loop(&mut self, this: OpenLoop, next: &[Value]) -> SmallVec<[Value; 2]> {
        self.yield_(next);
        self.region = this.outside;
        self.func.insts[this.inst].results.clone()
    }

    /// Leaves a loop whose body has an end of its own.
    pub(super) fn leave_loop(&mut self, this: &OpenLoop) {
        self.region = this.outside;
    }

    /// `if cond { then }`, without results.
    pub(super) fn when(&mut self, cond: Value, then: impl FnOnce(&mut BlockEmitter)) {
        let regions = [self.new_region(&[]), self.new_region(&[])];
        let inst = self.inst(Op::If, &[cond], &[], Imm::None);
        self.func.insts[inst].regions.extend(regions);
        let outside = self.enter(regions[0]);
        then(self);
        self.yield_(&[]);
        self.enter(regions[1]);
        self.yield_(&[]);
        self.region = outside;
    }

    /// `if cond { return }`, or any other way out.
    pub(super) fn leave_if(&mut self, cond: Value, how: impl FnOnce(&mut BlockEmitter)) {
        let regions = [self.new_region(&[]), self.new_region(&[])];
        let inst = self.inst(Op::If, &[cond], &[], Imm::None);
        self.func.insts[inst].regions.extend(regions);
        let outside = self.enter(regions[0]);
        how(self);
        self.enter(regions[1]);
        self.yield_(&[]);
        self.region = outside;
    }

    /// `cond ? then : otherwise`, where only one of the two is computed.
    pub(super) fn choose(
        &mut self,
        cond: Value,
        ty: Type,
        then: impl FnOnce(&mut BlockEmitter) -> Value,
        otherwise: impl FnOnce(&mut BlockEmitter) -> Value,
    ) -> Value {
        let regions = [self.new_region(&[]), self.new_region(&[])];
        let inst = self.inst(Op::If, &[cond], &[ty], Imm::None);
        self.func.insts[inst].regions.extend(regions);
        let outside = self.enter(regions[0]);
        let value = then(self);
        self.yield_(&[value]);
        self.enter(regions[1]);
        let value = otherwise(self);
        self.yield_(&[value]);
        self.region = outside;
        self.func.insts[inst].results[0]
    }
}
