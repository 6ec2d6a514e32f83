//! Products of matrices on vector registers: some threads of a block at a time, where the block's loop says that they may run in
//! step.
//!
//! Each thread of such a product has a column, and the innermost loop adds a factor that all have in common times one that
//! they load side by side. So that loop is lowered for [`n_lanes`](CraneliftLowering::lane_loop) threads: what differs between them is a
//! vector of 16 bytes, or two. Whatever has no vector form is lowered lane by lane, as is the end of a block's threads. Each lane
//! does the arithmetic of its thread in the same order, so that no bit changes.

use super::{CraneliftLowering, Lowered, clif_type};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::settings;
use polyloom_ir::{Imm, Inst, InstData, Op, Region, Scalar, Value};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

/// The most instructions of a loop that is lowered so, as those without a vector form are lowered for each lane.
const MAX_INSTS: usize = 1000;
/// The bytes that the lanes of a number fill: two vectors.
const LANE_BYTES: u32 = 32;
const VECTOR_BYTES: u32 = 16;

type LaneList = SmallVec<[ir::Value; 8]>;

/// Returns true if a machine has fused multiply-adds of vectors.
pub(super) fn has_vector_fma(isa: &dyn TargetIsa) -> bool {
    let is_set = |flag: &settings::Value| flag.name == "has_fma" && flag.as_bool() == Some(true);
    isa.triple().architecture.to_string() == "aarch64" || isa.isa_flags().iter().any(is_set)
}

/// Says what a value that differs between threads is in the lanes.
#[derive(Clone)]
pub(super) enum LaneValue {
    /// An integer: that of the first lane; each other lane has one more than its neighbour.
    Ascending(ir::Value),
    /// Vectors, side by side.
    Packed(LaneList),
    /// A value for each lane.
    Each(LaneList),
}

/// A loop over threads that may run as lanes: what differs between them, and their number.
pub(super) struct LaneLoop {
    varying: FxHashSet<Value>,
    n_lanes: u32,
}

impl CraneliftLowering<'_> {
    /// Returns how a loop runs as lanes, if it is one over the threads of a product.
    pub(super) fn lane_loop(&self, data: &InstData) -> Option<LaneLoop> {
        let func = self.func;
        let is_loop = data.imm == Imm::Parallel && data.results.is_empty() && self.is_unit_step(data);
        if !is_loop || !self.has_vector_fma || self.lanes.is_some() || !func.metadata.indices_from_start {
            return None;
        }
        let region = data.regions[0];
        let (mut n_insts, mut is_simple, mut widest) = (0, true, None);
        func.walk(region, &mut |_, data| {
            n_insts += 1;
            is_simple &= match data.op {
                Op::If | Op::Yield | Op::ArrayLoad | Op::ArrayStore | Op::Const | Op::Call => true,
                Op::ForRange => self.is_unit_step(data),
                op => data.regions.is_empty() && op.info().is_pure(),
            };
            if data.op == Op::ForRange {
                self.each_inst(data.regions[0], |inner| {
                    let scalar = inner.results.first().and_then(|&result| func.ty(result).as_scalar());
                    if inner.op == Op::Fma && matches!(scalar, Some(Scalar::F32 | Scalar::F64)) {
                        widest = widest.max(scalar.map(Scalar::bytes));
                    }
                });
            }
        });
        let n_lanes = LANE_BYTES / widest?;
        if !is_simple || n_insts > MAX_INSTS {
            return None;
        }
        let mut varying: FxHashSet<Value> = [func.regions[region].params[0]].into_iter().collect();
        loop {
            let n = varying.len();
            let mut is_uniform = true;
            func.walk(region, &mut |_, data| is_uniform &= self.note_varying(data, &mut varying));
            if !is_uniform {
                return None;
            }
            if varying.len() == n {
                return Some(LaneLoop { varying, n_lanes });
            }
        }
    }

    fn is_unit_step(&self, data: &InstData) -> bool {
        self.func.as_const(data.operands[2]) == Some(1)
    }

    fn each_inst(&self, region: Region, mut visit: impl FnMut(&InstData)) {
        self.func.regions[region].insts.iter().for_each(|&inst| visit(&self.func.insts[inst]));
    }

    /// Returns the values that a region yields.
    fn yielded(&self, region: Region) -> &[Value] {
        let last = self.func.regions[region].insts.last();
        last.map_or(&[], |&inst| &self.func.insts[inst].operands[..])
    }

    /// Notes which results of an instruction differ between lanes. Returns false if control flow does that lanes share.
    fn note_varying(&self, data: &InstData, varying: &mut FxHashSet<Value>) -> bool {
        let func = self.func;
        match data.op {
            Op::If => {
                for &region in &data.regions {
                    for (&result, &value) in data.results.iter().zip(self.yielded(region)) {
                        if varying.contains(&value) {
                            varying.insert(result);
                        }
                    }
                }
                !varying.contains(&data.operands[0]) || data.results.is_empty()
            }
            Op::ForRange => {
                let region = data.regions[0];
                let yielded = self.yielded(region);
                for (index, &result) in data.results.iter().enumerate() {
                    let param = func.regions[region].params[1 + index];
                    if [data.operands[3 + index], yielded[index], param].iter().any(|value| varying.contains(value)) {
                        varying.extend([result, param]);
                    }
                }
                !data.operands[..3].iter().any(|bound| varying.contains(bound))
            }
            _ => {
                if data.operands.iter().any(|operand| varying.contains(operand)) {
                    varying.extend(data.results.iter().copied());
                }
                true
            }
        }
    }

    /// Lowers as many iterations as fill lanes, and returns the counter of the first that is left.
    pub(super) fn lower_lanes(
        &mut self,
        data: &InstData,
        lanes: LaneLoop,
        low: ir::Value,
        high: ir::Value,
    ) -> Lowered<ir::Value> {
        let func = self.func;
        let region = data.regions[0];
        let counter = func.regions[region].params[0];
        let ty = clif_type(self.scalar(counter)?);
        let n_lanes = i64::from(lanes.n_lanes);
        let [header, body, exit] = [(); 3].map(|()| self.builder.create_block());
        let first = self.builder.append_block_param(header, ty);
        self.builder.ins().jump(header, &[low.into()]);
        self.builder.switch_to_block(header);
        let rest = self.builder.ins().isub(high, first);
        let n = self.int(ty, lanes.n_lanes.into());
        let leaves = self.builder.ins().icmp(IntCC::SignedLessThan, rest, n);
        // What leaves a loop comes last, as in `branch_away`.
        self.builder.ins().brif(leaves, exit, &[], body, &[]);
        self.builder.switch_to_block(body);
        let n_known = self.addresses.len();
        self.lanes = Some(lanes);
        self.lane_values.insert(counter, LaneValue::Ascending(first));
        self.lane_region(region)?;
        self.lanes = None;
        self.lane_values.clear();
        self.addresses.truncate(n_known);
        let next = self.builder.ins().iadd_imm_u(first, n_lanes);
        self.builder.ins().jump(header, &[next.into()]);
        self.builder.switch_to_block(exit);
        Ok(first)
    }

    fn n_lanes(&self) -> usize {
        self.lanes.as_ref().map_or(1, |lanes| lanes.n_lanes as usize)
    }

    fn is_varying(&self, value: Value) -> bool {
        self.lanes.as_ref().is_some_and(|lanes| lanes.varying.contains(&value))
    }

    /// Returns the vector type for values of a type; none of types without one.
    fn vector_type(&self, value: Value) -> Option<ir::Type> {
        match self.func.ty(value).as_scalar()? {
            Scalar::F32 => Some(types::F32X4),
            Scalar::F64 => Some(types::F64X2),
            _ => None,
        }
    }

    /// Lowers the instructions of a region but for its end.
    fn lane_region(&mut self, region: Region) -> Lowered<()> {
        let func = self.func;
        let n_known = self.addresses.len();
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            let varies = data.operands.iter().any(|&operand| self.is_varying(operand));
            match data.op {
                Op::Yield => {}
                Op::If if varies && data.results.is_empty() && self.is_varying(data.operands[0]) => {
                    self.branch_of_each(data)?;
                }
                Op::If => self.branch_of_lanes(data)?,
                Op::ForRange => self.for_range_of_lanes(data)?,
                _ if varies => self.lane_inst(inst, data)?,
                _ => self.simple_inst(inst, data)?,
            }
        }
        self.addresses.truncate(n_known);
        Ok(())
    }

    fn lane_inst(&mut self, inst: Inst, data: &InstData) -> Lowered<()> {
        match data.op {
            Op::Fma | Op::Add | Op::Sub | Op::Mul if self.vector_type(data.results[0]).is_some() => {
                let operands: Lowered<SmallVec<[LaneList; 3]>> =
                    data.operands.iter().map(|&operand| self.packed(operand)).collect();
                let operands = operands?;
                let vector = |index: usize| {
                    let of = |operand: usize| operands[operand][index];
                    match data.op {
                        Op::Fma => self.builder.ins().fma(of(0), of(1), of(2)),
                        Op::Add => self.builder.ins().fadd(of(0), of(1)),
                        Op::Sub => self.builder.ins().fsub(of(0), of(1)),
                        _ => self.builder.ins().fmul(of(0), of(1)),
                    }
                };
                let result = (0..operands[0].len()).map(vector).collect();
                self.lane_values.insert(data.results[0], LaneValue::Packed(result));
                Ok(())
            }
            Op::Add | Op::Sub | Op::Cast => match self.ascending(data)? {
                Some(first) => {
                    self.lane_values.insert(data.results[0], LaneValue::Ascending(first));
                    Ok(())
                }
                None => self.inst_of_each(inst, data),
            },
            Op::ArrayLoad => match self.side_by_side(data, data.results[0])? {
                Some((address, ty)) => {
                    let flags = MemFlagsData::new().with_notrap();
                    let load = |index: u32| self.builder.ins().load(ty, flags, address, (index * VECTOR_BYTES) as i32);
                    let loaded = (0..LANE_BYTES / VECTOR_BYTES).map(load).collect();
                    self.lane_values.insert(data.results[0], LaneValue::Packed(loaded));
                    Ok(())
                }
                None => self.inst_of_each(inst, data),
            },
            Op::ArrayStore => {
                let value = data.operands[data.operands.len() - 1];
                match self.side_by_side(data, value)? {
                    Some((address, _)) => {
                        let flags = MemFlagsData::new().with_notrap();
                        for (index, vector) in (0..).zip(self.packed(value)?) {
                            self.builder.ins().store(flags, vector, address, index * VECTOR_BYTES as i32);
                        }
                        Ok(())
                    }
                    None => self.inst_of_each(inst, data),
                }
            }
            _ => self.inst_of_each(inst, data),
        }
    }

    /// Returns the first lane's result if each other lane's is one more. Integers of this kind are indices, which do not
    /// wrap.
    fn ascending(&mut self, data: &InstData) -> Lowered<Option<ir::Value>> {
        let first = |lowering: &Self, operand: Value| match lowering.lane_values.get(&operand) {
            Some(&LaneValue::Ascending(first)) => Some(first),
            _ => None,
        };
        let ty = self.scalar(data.operands[0])?;
        if data.op == Op::Cast {
            let to = self.scalar(data.results[0])?;
            let widens = ty == Scalar::I32 && to == Scalar::I64;
            return Ok(first(self, data.operands[0]).filter(|_| widens).map(|x| self.cast(x, ty, to)));
        }
        let [a, b] = data.operands[..] else { return Ok(None) };
        Ok(match (first(self, a), first(self, b), data.op) {
            (Some(x), None, _) if !self.is_varying(b) => {
                let y = self.value(b)?;
                let ins = self.builder.ins();
                Some(if data.op == Op::Add { ins.iadd(x, y) } else { ins.isub(x, y) })
            }
            (None, Some(y), Op::Add) if !self.is_varying(a) => {
                let x = self.value(a)?;
                Some(self.builder.ins().iadd(x, y))
            }
            _ => None,
        })
    }

    /// Returns the address of the first lane's element and the vector type, if an access is to neighbours of a type that fills the
    /// vectors.
    fn side_by_side(&mut self, data: &InstData, value: Value) -> Lowered<Option<(ir::Value, ir::Type)>> {
        let (array, index) = (data.operands[0], data.operands[1]);
        let is_flat = self.func.ty(array).as_array().is_some_and(|(_, ndim)| ndim == 1);
        let is_dense = self.func.param_index(array).is_some_and(|param| self.has_dense_elements(param));
        let (Some(ty), Some(&LaneValue::Ascending(first))) = (self.vector_type(value), self.lane_values.get(&index))
        else {
            return Ok(None);
        };
        if !is_flat || !is_dense || ty.lane_bits() / 8 * self.n_lanes() as u32 != LANE_BYTES {
            return Ok(None);
        }
        let n_known = self.addresses.len();
        self.values[index] = first;
        let (address, _) = self.element(data)?;
        self.addresses.truncate(n_known);
        Ok(Some((address, ty)))
    }

    /// Lowers an instruction for each lane.
    fn inst_of_each(&mut self, inst: Inst, data: &InstData) -> Lowered<()> {
        let operands: SmallVec<[Value; 4]> =
            data.operands.iter().copied().filter(|&operand| self.is_varying(operand)).collect();
        let of_lanes: Lowered<SmallVec<[LaneList; 4]>> = operands.iter().map(|&operand| self.each(operand)).collect();
        let of_lanes = of_lanes?;
        let mut results: SmallVec<[LaneList; 1]> = data.results.iter().map(|_| LaneList::new()).collect();
        for lane in 0..self.n_lanes() {
            let n_known = self.addresses.len();
            for (&operand, of_lanes) in operands.iter().zip(&of_lanes) {
                self.values[operand] = of_lanes[lane];
            }
            self.simple_inst(inst, data)?;
            self.addresses.truncate(n_known);
            for (result, &value) in results.iter_mut().zip(&data.results) {
                result.push(self.values[value]);
            }
        }
        for (result, &value) in results.into_iter().zip(&data.results) {
            self.lane_values.insert(value, LaneValue::Each(result));
        }
        Ok(())
    }

    /// Lowers a branch that lanes take or not, each by itself, as for single threads.
    fn branch_of_each(&mut self, data: &InstData) -> Lowered<()> {
        let mut used: Vec<Value> = data.operands.to_vec();
        for &region in &data.regions {
            self.func.walk(region, &mut |_, data| used.extend(data.operands.iter().copied()));
        }
        used.sort_unstable();
        used.dedup();
        used.retain(|value| self.lane_values.contains_key(value));
        let of_lanes: Lowered<Vec<LaneList>> = used.iter().map(|&value| self.each(value)).collect();
        let of_lanes = of_lanes?;
        for lane in 0..self.n_lanes() {
            let n_known = self.addresses.len();
            for (&value, of_lanes) in used.iter().zip(&of_lanes) {
                self.values[value] = of_lanes[lane];
            }
            self.branch(data)?;
            self.addresses.truncate(n_known);
        }
        Ok(())
    }

    /// Lowers a branch that all lanes take.
    fn branch_of_lanes(&mut self, data: &InstData) -> Lowered<()> {
        let cond = self.value(data.operands[0])?;
        let [then, otherwise, merge] = [(); 3].map(|()| self.builder.create_block());
        let results = self.lane_params(merge, &data.results)?;
        self.builder.ins().brif(cond, then, &[], otherwise, &[]);
        for (block, &region) in [then, otherwise].into_iter().zip(&data.regions) {
            self.builder.switch_to_block(block);
            self.lane_region(region)?;
            let args = self.lane_args(self.yielded(region).to_vec(), &data.results)?;
            self.builder.ins().jump(merge, &args);
        }
        self.builder.switch_to_block(merge);
        self.set_lanes(results);
        Ok(())
    }

    fn for_range_of_lanes(&mut self, data: &InstData) -> Lowered<()> {
        let func = self.func;
        let region = data.regions[0];
        let params = &func.regions[region].params;
        let counter = self.scalar(params[0])?;
        let (low, high) = (self.value(data.operands[0])?, self.value(data.operands[1])?);
        let less = if counter.is_signed_int() { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
        let [body, exit] = [(); 2].map(|()| self.builder.create_block());
        let index = self.builder.append_block_param(body, clif_type(counter));
        let carried = self.lane_params(body, &params[1..])?;
        let results = self.lane_params(exit, &data.results)?;
        let init = self.lane_args(data.operands[3..].to_vec(), &data.results)?;
        let enter = self.builder.ins().icmp(less, low, high);
        let into_body: Vec<ir::BlockArg> = std::iter::once(low.into()).chain(init.iter().copied()).collect();
        self.builder.ins().brif(enter, body, &into_body, exit, &init);
        self.builder.switch_to_block(body);
        self.values[params[0]] = index;
        self.set_lanes(carried);
        self.lane_region(region)?;
        let next = self.builder.ins().iadd_imm_u(index, 1);
        let again = self.builder.ins().icmp(less, next, high);
        let yielded = self.lane_args(self.yielded(region).to_vec(), &data.results)?;
        let into_body: Vec<ir::BlockArg> = std::iter::once(next.into()).chain(yielded.iter().copied()).collect();
        self.builder.ins().brif(again, body, &into_body, exit, &yielded);
        self.builder.switch_to_block(exit);
        self.set_lanes(results);
        Ok(())
    }

    /// Appends block parameters for values, vectors where lanes differ in numbers that have them.
    fn lane_params(
        &mut self,
        block: ir::Block,
        values: &[Value],
    ) -> Lowered<Vec<(Value, Option<LaneValue>, ir::Value)>> {
        let mut params = Vec::new();
        for &value in values {
            let scalar = clif_type(self.scalar(value)?);
            let (ty, n) = match self.vector_type(value) {
                _ if !self.is_varying(value) => (scalar, 1),
                Some(ty) => (ty, self.n_vectors(ty)),
                None => (scalar, self.n_lanes()),
            };
            let all: LaneList = (0..n).map(|_| self.builder.append_block_param(block, ty)).collect();
            let first = all[0];
            let lanes = self.is_varying(value).then(|| match ty.is_vector() {
                true => LaneValue::Packed(all),
                false => LaneValue::Each(all),
            });
            params.push((value, lanes, first));
        }
        Ok(params)
    }

    fn set_lanes(&mut self, params: Vec<(Value, Option<LaneValue>, ir::Value)>) {
        for (value, lanes, first) in params {
            match lanes {
                Some(lanes) => {
                    self.lane_values.insert(value, lanes);
                }
                None => self.values[value] = first,
            }
        }
    }

    /// Returns values as the parameters of `forms` take them.
    fn lane_args(&mut self, values: Vec<Value>, forms: &[Value]) -> Lowered<Vec<ir::BlockArg>> {
        let mut args = Vec::new();
        for (value, &form) in values.into_iter().zip(forms) {
            let all = match self.vector_type(form) {
                _ if !self.is_varying(form) => smallvec![self.value(value)?],
                Some(_) => self.packed(value)?,
                None => self.each(value)?,
            };
            args.extend(all.into_iter().map(ir::BlockArg::Value));
        }
        Ok(args)
    }

    fn n_vectors(&self, ty: ir::Type) -> usize {
        self.n_lanes() * ty.lane_bits() as usize / 8 / VECTOR_BYTES as usize
    }

    /// Returns a float of all lanes as vectors.
    fn packed(&mut self, value: Value) -> Lowered<LaneList> {
        let Some(ty) = self.vector_type(value) else { return self.error(self.func.span, "a value has no vector form") };
        let n = self.n_vectors(ty);
        match self.lane_values.get(&value).cloned() {
            Some(LaneValue::Packed(vectors)) => Ok(vectors),
            Some(LaneValue::Each(all)) => {
                let width = all.len() / n;
                let vector = |part: &[ir::Value]| {
                    let mut vector = self.builder.ins().splat(ty, part[0]);
                    for (lane, &x) in part.iter().enumerate().skip(1) {
                        vector = self.builder.ins().insertlane(vector, x, lane as u8);
                    }
                    vector
                };
                Ok(all.chunks(width).map(vector).collect())
            }
            _ => {
                let x = self.value(value)?;
                let vector = self.builder.ins().splat(ty, x);
                Ok(smallvec![vector; n])
            }
        }
    }

    /// Returns what a value is in each lane.
    fn each(&mut self, value: Value) -> Lowered<LaneList> {
        let n = self.n_lanes();
        match self.lane_values.get(&value).cloned() {
            Some(LaneValue::Each(all)) => Ok(all),
            Some(LaneValue::Packed(vectors)) => {
                let width = n / vectors.len();
                let lane = |lane: usize| self.builder.ins().extractlane(vectors[lane / width], (lane % width) as u8);
                Ok((0..n).map(lane).collect())
            }
            Some(LaneValue::Ascending(first)) => {
                Ok((0..n).map(|lane| self.builder.ins().iadd_imm_u(first, lane as i64)).collect())
            }
            None => {
                let x = self.value(value)?;
                Ok(smallvec![x; n])
            }
        }
    }
}
