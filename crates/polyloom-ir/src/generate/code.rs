//! Random code: a kernel's or a function's body.

use super::launch::{N_ROWS, N_SHARED, PADDING, ParamRole};
use super::{GenerateOptions, Random};
use crate::builder::Builder;
use crate::entity::{FuncId, Inst, Region, Value};
use crate::function::{Imm, Module};
use crate::op::{Lowering, Op, OpEffect, OpGroup, OpInfo, Signature, TyPattern};
use crate::types::{Scalar, Type};

/// An enclosing instruction that can be left.
#[derive(Clone)]
pub(super) struct LoopExit {
    inst: Inst,
    types: Vec<Type>,
    /// Loop parameters before the carried values that random code chooses: `while` counts its iterations.
    counter: Option<Value>,
    is_loop: bool,
}

pub(super) struct CodeGenerator<'a, 'f> {
    pub(super) random: &'a mut Random,
    pub(super) module: &'a Module,
    pub(super) builder: Builder<'f>,
    /// Scalars that can be used here.
    pub(super) scope: Vec<Value>,
    pub(super) arrays: Vec<(Value, ParamRole)>,
    pub(super) exits: Vec<LoopExit>,
    /// Result types; `None` in a kernel.
    pub(super) results: Option<Vec<Type>>,
    pub(super) options: GenerateOptions,
    /// Number of more instructions there may be, roughly.
    pub(super) budget: usize,
}

impl CodeGenerator<'_, '_> {
    fn ty(&self, value: Value) -> Type {
        self.builder.func.ty(value)
    }

    pub(super) fn kernel_body(&mut self) {
        let linear = self.linear_index();
        self.scope.push(linear);
        while self.budget > 0 {
            self.code(3);
        }
        for (array, role) in self.arrays.clone() {
            if role == ParamRole::Own {
                self.store(array);
            }
        }
        self.builder.return_(&[]);
    }

    fn linear_index(&mut self) -> Value {
        let inst = self.builder.inst(Op::TidLinear, &[], &[Type::I32], Imm::None);
        self.builder.func.insts[inst].results[0]
    }

    /// Instructions, no terminator.
    pub(super) fn code(&mut self, depth: usize) {
        for _ in 0..1 + self.random.below(6) {
            self.budget = self.budget.saturating_sub(1);
            let depth = if self.budget == 0 { 0 } else { depth };
            match self.random.below(20) {
                0 | 1 if depth > 0 => self.branch(depth),
                2 if depth > 0 => self.counted_loop(depth),
                3 if depth > 0 => self.while_loop(depth),
                4 if depth > 0 => self.block(depth),
                5 if depth > 0 => self.guard(),
                6 if self.results.is_none() => {
                    let tid = self.builder.tid(self.random.below(4) as u8);
                    self.scope.push(tid);
                }
                7..=9 if !self.arrays.is_empty() => self.array_access(),
                10 => self.call(),
                11 => self.conversion(),
                12 | 13 => self.comparison(),
                _ => self.table_op(),
            }
        }
    }

    /// A value of this type: one in scope, one converted, or a constant.
    fn value(&mut self, ty: Type) -> Value {
        let fitting: Vec<Value> = self.scope.iter().copied().filter(|&value| self.ty(value) == ty).collect();
        let Type::Scalar(scalar) = ty else { return self.scope[0] };
        if !fitting.is_empty() && !self.random.one_in(5) {
            // Later values are better, because they keep the earlier ones alive.
            let skip = self.random.below(fitting.len());
            return fitting[skip.max(self.random.below(fitting.len()))];
        }
        let value = if !self.scope.is_empty() && self.random.one_in(2) {
            let from = self.random.pick(&self.scope);
            self.builder.cast(from, scalar)
        } else {
            let bits = self.random.value(scalar);
            self.builder.const_bits(scalar, bits)
        };
        self.scope.push(value);
        value
    }

    pub(super) fn values(&mut self, types: &[Type]) -> Vec<Value> {
        types.iter().map(|&ty| self.value(ty)).collect()
    }

    fn some_types(&mut self) -> Vec<Type> {
        (0..self.random.below(3)).map(|_| self.random.scalar_type()).collect()
    }

    /// An integer from 0 to `mask`, which is one less than a power of two.
    fn small(&mut self, ty: Scalar, mask: i64) -> Value {
        let value = self.value(ty.into());
        let mask = self.builder.const_int(ty, mask);
        self.builder.op(Op::BitAnd, &[value, mask])
    }

    // ---- scalars -------------------------------------------------------------------------------------------------

    fn table_op(&mut self) {
        let wanted = |info: &&OpInfo| {
            let is_scalar = info.signatures.iter().any(|signature| !signature.has_composites());
            info.effect == OpEffect::Pure
                && info.is_builtin()
                && info.group != OpGroup::Gpu
                && is_scalar
                && (self.options.library || info.lowering == Lowering::Native)
        };
        let ops: Vec<&OpInfo> = Op::all().filter(wanted).collect();
        // Native ops are preferred, because programs are mostly made of them, but library ops outnumber them.
        let native: Vec<&OpInfo> = ops.iter().copied().filter(|info| info.lowering == Lowering::Native).collect();
        let info = if self.random.one_in(3) { self.random.pick(&ops) } else { self.random.pick(&native) };
        let signatures: Vec<&Signature> = info.signatures.iter().filter(|s| !s.has_composites()).collect();
        let signature: &Signature = self.random.pick(&signatures);
        let floats = self.options.float_arithmetic || info.lowering == Lowering::Library;
        let members = signature.var.into_iter().flat_map(|class| class.members());
        let members: Vec<Scalar> = members.filter(|ty| floats || !ty.is_float()).collect();
        if signature.var.is_some() && members.is_empty() {
            return;
        }
        let usual: Vec<Scalar> = members.iter().copied().filter(|ty| matches!(ty, Scalar::F32 | Scalar::I32)).collect();
        let var = match () {
            () if members.is_empty() => Scalar::I32,
            () if usual.is_empty() || self.random.one_in(2) => self.random.pick(&members),
            () => self.random.pick(&usual),
        };
        let types: Option<Vec<Type>> = signature
            .params
            .iter()
            .map(|param| match param.ty {
                TyPattern::Var => Some(var.into()),
                TyPattern::Is(scalar) => Some(scalar.into()),
                _ => None,
            })
            .collect();
        let Some(types) = types else { return };
        let operands = self.values(&types);
        let results = self.builder.op_results(info.op, &operands);
        self.scope.extend(results);
    }

    fn comparison(&mut self) {
        let op = self.random.pick(&[Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge]);
        let Some(&value) = self.scope.get(self.random.below(self.scope.len())) else { return };
        let ty = self.ty(value);
        if ty == Type::BOOL {
            return;
        }
        let other = self.value(ty);
        let result = self.builder.op(op, &[value, other]);
        self.scope.push(result);
    }

    fn conversion(&mut self) {
        let Some(&value) = self.scope.get(self.random.below(self.scope.len())) else { return };
        let Type::Scalar(from) = self.ty(value) else { return };
        let same_size = |to: &Scalar| *to != from && *to != Scalar::Bool && to.bits() == from.bits();
        let reinterpretable: Vec<Scalar> = Scalar::ALL.into_iter().filter(same_size).collect();
        // The bits of a NaN are not looked at, so that floats are not reinterpreted.
        let result = if from.is_int() && self.random.one_in(3) {
            let to = self.random.pick(&reinterpretable);
            self.builder.bitcast(value, to)
        } else {
            let to = self.random.pick(&Scalar::ALL);
            self.builder.cast(value, to)
        };
        self.scope.push(result);
    }

    fn call(&mut self) {
        let n_callees = self.module.functions.len();
        if n_callees == 0 {
            return;
        }
        let callee = FuncId::from_u32(self.random.below(n_callees) as u32);
        let function = &self.module.functions[callee];
        let types: Vec<Type> = function.params().iter().map(|&param| function.ty(param)).collect();
        let operands = self.values(&types);
        let results = self.builder.call(callee, &operands, &function.results);
        self.scope.extend(results);
    }

    // ---- arrays --------------------------------------------------------------------------------------------------

    fn array_access(&mut self) {
        let (array, role) = self.random.pick(&self.arrays);
        match role {
            ParamRole::Scalar => {}
            ParamRole::Input => self.load(array),
            ParamRole::Own if self.random.one_in(2) => {
                let own = self.linear_index();
                let value = self.builder.op(Op::ArrayLoad, &[array, own]);
                self.scope.push(value);
            }
            ParamRole::Own => self.store(array),
            ParamRole::Shared(op) => {
                let Some((elem, _)) = self.ty(array).as_array() else { return };
                let index = self.small(Scalar::I32, N_SHARED as i64 - 1);
                let value = self.value(elem.into());
                self.builder.op(op, &[array, index, value]);
            }
        }
    }

    fn store(&mut self, array: Value) {
        let Some((elem, _)) = self.ty(array).as_array() else { return };
        let own = self.linear_index();
        let value = self.value(elem.into());
        self.builder.inst(Op::ArrayStore, &[array, own, value], &[], Imm::None);
    }

    /// Reads an input: next to the thread's own element, anywhere, or counted from the end.
    fn load(&mut self, array: Value) {
        let Some((_, ndim)) = self.ty(array).as_array() else { return };
        let mut operands = vec![array];
        if ndim == 2 {
            let row = self.small(Scalar::I32, N_ROWS as i64 - 1);
            operands.push(if self.random.one_in(3) { self.builder.op(Op::Invert, &[row]) } else { row });
        }
        let index = match self.random.below(4) {
            0 => {
                let own = self.linear_index();
                let shift = self.random.below(PADDING) as i64;
                let shift = self.builder.const_int(Scalar::I32, shift);
                self.builder.op(Op::Add, &[own, shift])
            }
            1 => {
                let ty = self.random.pick(&[Scalar::I32, Scalar::I64, Scalar::U32, Scalar::U8, Scalar::I16]);
                self.small(ty, PADDING as i64 - 1)
            }
            2 => {
                let index = self.small(Scalar::I32, PADDING as i64 - 1);
                self.builder.op(Op::Invert, &[index])
            }
            _ => {
                let index = self.value(Type::I32);
                let extent = self.builder.dim(array, ndim - 1);
                self.builder.op(Op::Mod, &[index, extent])
            }
        };
        operands.push(index);
        let value = self.builder.op(Op::ArrayLoad, &operands);
        self.scope.push(value);
    }

    // ---- control flow --------------------------------------------------------------------------------------------

    /// Code in `region` with its parameters in scope, ended by `yield` of values of these types or, if it may, by
    /// leaving for elsewhere. Gives whether it yields.
    fn region(&mut self, region: Region, yields: &[Type], may_leave: bool, depth: usize) -> bool {
        let outer = self.builder.switch_to(region);
        let n_outer = self.scope.len();
        let params = self.builder.func.regions[region].params.clone();
        self.scope.extend(params);
        self.code(depth - 1);
        let leaves = may_leave && self.random.one_in(3) && self.leave();
        if !leaves {
            let values = self.values(yields);
            self.builder.yield_(&values);
        }
        self.scope.truncate(n_outer);
        self.builder.switch_to(outer);
        !leaves
    }

    /// Ends the region with `break`, `continue` or `return`.
    fn leave(&mut self) -> bool {
        if self.random.one_in(4) {
            let types = self.results.clone().unwrap_or_default();
            let values = self.values(&types);
            self.builder.return_(&values);
            return true;
        }
        let Some(exit) = self.exits.get(self.random.below(self.exits.len())).cloned() else { return false };
        let mut values = self.values(&exit.types);
        if exit.is_loop && self.random.one_in(2) {
            let next = exit.counter.map(|counter| self.next_count(counter));
            values.splice(0..0, next);
            self.builder.continue_(exit.inst, &values);
        } else {
            values.splice(0..0, exit.counter);
            self.builder.break_(exit.inst, &values);
        }
        true
    }

    fn next_count(&mut self, counter: Value) -> Value {
        let one = self.builder.const_int(Scalar::I32, 1);
        self.builder.op(Op::Add, &[counter, one])
    }

    fn keep_results(&mut self, inst: Inst) {
        let results = self.builder.func.insts[inst].results.clone();
        self.scope.extend(results);
    }

    fn branch(&mut self, depth: usize) {
        let cond = self.value(Type::BOOL);
        let types = self.some_types();
        let (inst, regions) = self.builder.begin_if(cond, &types);
        // One side at least yields, so that the code after it can be reached.
        let yields = self.region(regions[0], &types, true, depth);
        self.region(regions[1], &types, yields, depth);
        self.keep_results(inst);
    }

    /// `if cond { leave }`.
    fn guard(&mut self) {
        let cond = self.value(Type::BOOL);
        let (_, regions) = self.builder.begin_if(cond, &[]);
        let outer = self.builder.switch_to(regions[0]);
        let n_outer = self.scope.len();
        if !self.leave() {
            self.builder.yield_(&[]);
        }
        self.scope.truncate(n_outer);
        self.builder.switch_to(regions[1]);
        self.builder.yield_(&[]);
        self.builder.switch_to(outer);
    }

    fn counted_loop(&mut self, depth: usize) {
        let counter = self.random.pick(&[Scalar::I32, Scalar::I32, Scalar::I64, Scalar::U32, Scalar::I8, Scalar::U16]);
        let types = self.some_types();
        // Up to 7 steps from a start near 0 or at the type's end, to one or another side.
        let lo = if self.random.one_in(4) { self.value(counter.into()) } else { self.small(counter, 3) };
        let step = self.random.pick(&[1, 1, 1, 2, 3, -1, 0, i64::MAX]);
        let steps = self.small(counter, 7);
        let step = self.builder.const_int(counter, step);
        let span = self.builder.op(Op::Mul, &[steps, step]);
        let hi = self.builder.op(Op::Add, &[lo, span]);
        let carried = self.values(&types);
        let (inst, region) = self.builder.begin_for_range([lo, hi, step], &carried);
        self.exits.push(LoopExit { inst, types: types.clone(), counter: None, is_loop: true });
        self.region(region, &types, true, depth);
        self.exits.pop();
        self.keep_results(inst);
    }

    /// A loop of at most 6 iterations that random code may end sooner.
    fn while_loop(&mut self, depth: usize) {
        let types = self.some_types();
        let mut carried = vec![Type::I32];
        carried.extend(&types);
        let mut operands = vec![self.builder.const_int(Scalar::I32, 0)];
        operands.extend(self.values(&types));
        let (inst, regions) = self.builder.begin_while(&operands);
        let outer = self.builder.switch_to(regions[0]);
        let n_outer = self.scope.len();
        let params = self.builder.func.regions[regions[0]].params.to_vec();
        self.scope.extend(&params);
        let limit = self.random.below(7) as i64;
        let limit = self.builder.const_int(Scalar::I32, limit);
        let below = self.builder.op(Op::Lt, &[params[0], limit]);
        let wanted = self.value(Type::BOOL);
        let cond = if self.random.one_in(2) { self.builder.op(Op::BitAnd, &[below, wanted]) } else { below };
        self.builder.yield_(&[cond]);
        self.scope.truncate(n_outer);

        self.builder.switch_to(regions[1]);
        let params = self.builder.func.regions[regions[1]].params.to_vec();
        self.scope.extend(&params);
        self.exits.push(LoopExit { inst, types: types.clone(), counter: Some(params[0]), is_loop: true });
        self.code(depth - 1);
        self.exits.pop();
        let mut next = vec![self.next_count(params[0])];
        next.extend(self.values(&types));
        self.builder.yield_(&next);
        self.scope.truncate(n_outer);
        self.builder.switch_to(outer);
        self.keep_results(inst);
    }

    fn block(&mut self, depth: usize) {
        let types = self.some_types();
        let region = self.builder.create_region(&[]);
        let inst = self.builder.region_inst(Op::Block, &[], &types, &[region]);
        self.exits.push(LoopExit { inst, types: types.clone(), counter: None, is_loop: false });
        self.region(region, &types, false, depth);
        self.exits.pop();
        self.keep_results(inst);
    }
}
