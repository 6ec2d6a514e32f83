//! Values between their representations, and masks.

use super::control_frame::MergeEdge;
use super::{ExecMask, FunctionLowering, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::analysis::uniformity::ValueShape;
use polyloom_ir::{Scalar, Type, Value};
use smallvec::SmallVec;

/// The representation a loop-carried value keeps through all iterations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum CarriedKind {
    /// Like [`ValueRep::Uniform`].
    Uniform,
    /// Like [`ValueRep::Affine`], with this stride.
    Affine(i64),
    /// Like [`ValueRep::Vector`].
    Vector,
}

impl FunctionLowering<'_, '_> {
    /// The representation of a value that has been lowered.
    pub(crate) fn rep(&self, value: Value) -> Result<ValueRep> {
        self.values[value]
            .ok_or_else(|| CodegenError::new(format!("internal error: {value} is used before it is made")))
    }

    /// The representations of several values.
    pub(crate) fn reps(&self, values: &[Value]) -> Result<Reps> {
        values.iter().map(|&v| self.rep(v)).collect()
    }

    /// A constant from its bits.
    pub(crate) fn constant(&self, ty: Scalar, bits: u64) -> Val {
        let ir = self.ir;
        match ty {
            Scalar::F32 => ir.bitcast(ir.int_const(ir.int(32), bits), ir.f32()),
            Scalar::F64 => ir.bitcast(ir.int_const(ir.int(64), bits), ir.f64()),
            _ => ir.int_const(ir.int(ty.bits()), bits),
        }
    }

    /// The scalar of a uniform value, the first lane's of an affine one.
    pub(crate) fn base(&self, rep: ValueRep) -> Result<Val> {
        match rep {
            ValueRep::Uniform(value) | ValueRep::Affine { base: value, .. } => Ok(value),
            ValueRep::Vector(_) | ValueRep::Array(_) => {
                Err(CodegenError::new("internal error: a vector where a scalar is needed"))
            }
        }
    }

    /// A signed integer scalar in 64 bits.
    pub(crate) fn widen(&self, value: Val) -> Val {
        self.wide.get(&value).copied().unwrap_or_else(|| self.ir.sext_to_64(value))
    }

    /// One element per lane.
    pub(crate) fn vector(&self, rep: ValueRep) -> Result<Val> {
        let ir = self.ir;
        match rep {
            ValueRep::Uniform(value) => Ok(ir.splat(value, self.lanes)),
            ValueRep::Affine { base, stride } => {
                let steps = ir.iota(ir.type_of(base), self.lanes, stride);
                Ok(ir.add(ir.splat(base, self.lanes), steps))
            }
            ValueRep::Vector(value) => Ok(value),
            ValueRep::Array(_) => Err(CodegenError::new("internal error: an array where a scalar is needed")),
        }
    }

    /// A value as one scalar. If it is held as a vector, all executing lanes agree on it.
    pub(crate) fn uniform(&self, rep: ValueRep) -> Result<Val> {
        match rep {
            ValueRep::Uniform(value) => Ok(value),
            rep => {
                let vector = self.vector(rep)?;
                Ok(self.ir.extract(vector, self.first_executing()))
            }
        }
    }

    /// The representation a loop keeps a value in.
    pub(crate) fn kind(&self, value: Value) -> CarriedKind {
        match self.shape(value) {
            ValueShape::Uniform => CarriedKind::Uniform,
            ValueShape::Affine { stride, .. } => CarriedKind::Affine(stride),
            ValueShape::Varying => CarriedKind::Vector,
        }
    }

    /// A value in the given representation: its scalar, first lane's scalar, or vector.
    pub(crate) fn coerce(&self, rep: ValueRep, kind: CarriedKind) -> Result<Val> {
        match (kind, rep) {
            (CarriedKind::Vector, rep) => self.vector(rep),
            (CarriedKind::Uniform, rep) => self.uniform(rep),
            (CarriedKind::Affine(stride), ValueRep::Affine { base, stride: own }) if own == stride => Ok(base),
            (CarriedKind::Affine(stride), rep) => {
                let lane = self.first_executing();
                let value = self.ir.extract(self.vector(rep)?, lane);
                let ty = self.ir.type_of(value);
                let lane = self.ir.int_cast(lane, ty);
                Ok(self.ir.sub(value, self.ir.mul(lane, self.ir.int_const(ty, stride as u64))))
            }
        }
    }

    /// The other way round.
    pub(crate) fn rep_of(value: Val, kind: CarriedKind) -> ValueRep {
        match kind {
            CarriedKind::Uniform => ValueRep::Uniform(value),
            CarriedKind::Affine(stride) => ValueRep::Affine { base: value, stride },
            CarriedKind::Vector => ValueRep::Vector(value),
        }
    }

    /// The LLVM type of a value held as `kind`.
    pub(crate) fn kind_type(&self, value: Value, kind: CarriedKind) -> Result<Ty> {
        let scalar = self.ir.scalar(self.scalar_of(value)?);
        Ok(if kind == CarriedKind::Vector { self.ir.lanes(scalar, self.lanes) } else { scalar })
    }

    // ---- masks ----------------------------------------------------------------------------------------------------

    /// The type of masks.
    pub(crate) fn mask_type(&self) -> Ty {
        self.ir.lanes(self.ir.int(1), self.lanes)
    }

    /// The lanes executing; `None` means all.
    pub(crate) fn mask(&mut self) -> Option<Val> {
        match self.exec {
            ExecMask::Full => None,
            ExecMask::Mask(mask) => Some(mask),
            ExecMask::Slot => {
                let slot = self.exec_slot();
                Some(self.ir.get(self.mask_type(), slot))
            }
        }
    }

    /// The lanes executing, as a mask.
    pub(crate) fn full_mask(&mut self) -> Val {
        self.mask().unwrap_or_else(|| self.ir.ones(self.mask_type()))
    }

    /// The stack slot of the mask, made when first needed.
    pub(crate) fn exec_slot(&mut self) -> Val {
        match self.exec_slot {
            Some(slot) => slot,
            None => *self.exec_slot.insert(self.ir.alloca(self.mask_type())),
        }
    }

    /// Sets the lanes executing from here on, in the slot.
    pub(crate) fn execute(&mut self, mask: Val) {
        let slot = self.exec_slot();
        self.ir.set(slot, mask);
        self.exec = ExecMask::Slot;
    }

    /// All lanes executing have left.
    pub(crate) fn execute_none(&mut self) {
        let none = self.ir.zero(self.mask_type());
        self.execute(none);
        self.maybe_none = true;
    }

    /// Goes back to the lanes that were executing before a construct all of them came out of. `mask` is their mask:
    /// the slot may have been used in between.
    pub(crate) fn restore(&mut self, before: ExecMask, mask: Option<Val>) {
        self.maybe_none = false;
        match (before, mask) {
            (ExecMask::Slot, Some(mask)) => self.execute(mask),
            _ => self.exec = before,
        }
    }

    /// `mask` as an integer with one bit per lane.
    pub(crate) fn mask_bits(&self, mask: Val) -> Val {
        self.ir.bitcast(mask, self.ir.int(self.lanes))
    }

    /// Tells whether any lane of a mask is set.
    pub(crate) fn any(&self, mask: Val) -> Val {
        let bits = self.mask_bits(mask);
        self.ir.icmp(NE, bits, self.ir.zero(self.ir.type_of(bits)))
    }

    /// Tells whether any lane is executing.
    pub(crate) fn any_executing(&mut self) -> Val {
        match self.mask() {
            None => self.ir.bool_const(true),
            Some(mask) => self.any(mask),
        }
    }

    /// The number of the first lane executing, 0 if none is.
    pub(crate) fn first_executing(&self) -> Val {
        let mask = match (self.exec, self.exec_slot) {
            (ExecMask::Mask(mask), _) => mask,
            (ExecMask::Slot, Some(slot)) => self.ir.get(self.mask_type(), slot),
            _ => return self.ir.i64_const(0),
        };
        self.first_lane(mask)
    }

    /// The number of the first lane set in a mask, 0 if none is.
    pub(crate) fn first_lane(&self, mask: Val) -> Val {
        let ir = self.ir;
        let bits = self.mask_bits(mask);
        let wide = ir.int_cast(bits, ir.int(64));
        // A bit past the last lane stands for "none"; lane numbers are taken modulo the lanes, a power of two.
        let guarded = if self.lanes < 64 { ir.or(wide, ir.i64_const(1 << self.lanes)) } else { wide };
        let lane = ir.intrinsic("llvm.cttz", &[ir.int(64)], &[guarded, ir.bool_const(false)]);
        ir.and(lane, ir.i64_const(i64::from(self.lanes) - 1))
    }

    /// `mask & cond`, where no mask means all lanes.
    pub(crate) fn mask_and(&self, mask: Option<Val>, cond: Val) -> Val {
        mask.map_or(cond, |mask| self.ir.and(mask, cond))
    }

    // ---- meeting paths --------------------------------------------------------------------------------------------

    /// A value that reaches the current, still empty block from `last` as it is and from `skipped` as zero.
    pub(crate) fn merge_with_zero(&self, rep: ValueRep, last: BasicBlock, skipped: &[BasicBlock]) -> ValueRep {
        let (value, kind) = match rep {
            ValueRep::Uniform(value) => (value, CarriedKind::Uniform),
            ValueRep::Affine { base, stride } => (base, CarriedKind::Affine(stride)),
            ValueRep::Vector(value) => (value, CarriedKind::Vector),
            ValueRep::Array(_) => return rep,
        };
        let ty = self.ir.type_of(value);
        let phi = self.ir.phi(ty);
        self.ir.add_incoming(phi, value, last);
        for &block in skipped {
            self.ir.add_incoming(phi, self.ir.zero(ty), block);
        }
        FunctionLowering::rep_of(phi, kind)
    }

    /// Lets paths meet in a new block, which becomes current, and gives the values there. `None` if there is no path.
    pub(crate) fn join(&mut self, edges: Vec<MergeEdge>) -> Result<Option<Reps>> {
        let Some(first) = edges.first() else { return Ok(None) };
        let n_values = first.values.len();
        if let [edge] = &edges[..] {
            self.ir.switch_to(edge.block);
            self.exec = edge.exec;
            return Ok(Some(edge.values.clone()));
        }
        let kinds: SmallVec<[CarriedKind; 2]> = (0..n_values)
            .map(|i| {
                let kind = |rep: ValueRep| match rep {
                    ValueRep::Uniform(_) => CarriedKind::Uniform,
                    ValueRep::Affine { stride, .. } => CarriedKind::Affine(stride),
                    ValueRep::Vector(_) | ValueRep::Array(_) => CarriedKind::Vector,
                };
                let kinds = || edges.iter().map(|e| kind(e.values[i]));
                let first = kind(first.values[i]);
                if kinds().all(|k| k == first) { first } else { CarriedKind::Vector }
            })
            .collect();
        let same_exec = edges.iter().all(|e| e.exec == first.exec);
        let exec = if same_exec { first.exec } else { ExecMask::Slot };
        let meet = self.ir.block(c"meet");
        let mut incoming: Vec<SmallVec<[Val; 2]>> = Vec::with_capacity(edges.len());
        for edge in &edges {
            self.ir.switch_to(edge.block);
            self.exec = edge.exec;
            let values = edge.values.iter().zip(&kinds);
            incoming.push(values.map(|(&rep, &kind)| self.coerce(rep, kind)).collect::<Result<_>>()?);
            if !same_exec && edge.exec != ExecMask::Slot {
                let mask = self.full_mask();
                self.execute(mask);
            }
            self.ir.br(meet);
        }
        self.ir.switch_to(meet);
        self.exec = exec;
        let mut reps = Reps::new();
        for (i, &kind) in kinds.iter().enumerate() {
            let value = incoming[0][i];
            if incoming.iter().all(|values| values[i] == value) {
                reps.push(FunctionLowering::rep_of(value, kind));
                continue;
            }
            let phi = self.ir.phi(self.ir.type_of(value));
            for (edge, values) in edges.iter().zip(&incoming) {
                self.ir.add_incoming(phi, values[i], edge.block);
            }
            reps.push(FunctionLowering::rep_of(phi, kind));
        }
        Ok(Some(reps))
    }

    /// The LLVM type of a value's vector.
    pub(crate) fn vector_type(&self, ty: Type) -> Result<Ty> {
        match ty {
            Type::Scalar(scalar) => Ok(self.ir.lanes(self.ir.scalar(scalar), self.lanes)),
            _ => Err(CodegenError::new("internal error: an array where a scalar is needed")),
        }
    }
}
