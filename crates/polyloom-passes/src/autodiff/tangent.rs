//! Forward-mode differentiation: a kernel that computes, beside what a kernel computes, its derivative in a direction.
//!
//! Every value that depends on an active parameter has a *tangent*, its derivative in that direction. It is computed
//! where the value is, and goes the ways that the value goes: through regions, loops, exits and memory.

use super::constants::zero;
use super::instructions::{is_used, written_again};
use super::rules;
use super::updates::{active_update, mixed_extremum, used_update};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::op::{Derivative, OpGroup};
use polyloom_ir::{
    Builder, Code, Composite, CompositeKind, Diagnostic, Function, Imm, Inst, InstData, Op, Region, Type, Value,
};
use smallvec::SmallVec;

type Values = SmallVec<[Value; 8]>;
type Types = SmallVec<[Type; 8]>;

pub(super) struct TangentBuilder<'a> {
    pub(super) old: &'a Function,
    pub(super) builder: Builder<'a>,
    /// Holds what an old value is now.
    pub(super) values: SecondaryMap<Value, PackedOption<Value>>,
    /// The tangent of an old value, of an array the array of its elements' tangents; none if it is zero.
    pub(super) tangents: SecondaryMap<Value, PackedOption<Value>>,
    /// Holds what an old instruction with regions is now.
    insts: SecondaryMap<Inst, PackedOption<Inst>>,
    pub(super) active: EntitySet<Value>,
    /// True for each parameter that is an array on which only `atomic_min`, or only `atomic_max`, is done.
    is_extremum: Vec<bool>,
    /// Parameters that hold what the kernel leaves in these arrays.
    pub(super) after: Vec<(usize, Value)>,
    pub(super) errors: Vec<Diagnostic>,
}

/// Returns true if the tangent of an op is worked out from what it is made of: else it is the op of tangents, or rules
/// of the reverse sweep say.
pub(super) fn is_expanded(op: Op, types: &[Type]) -> bool {
    // `quat_slerp` is not expanded, because it is smooth where the axis that its definition goes through is not.
    if rules::is_linear(op) || is_bilinear(op, types) || matches!(op, Op::Select | Op::QuatSlerp) {
        return false;
    }
    match rules::derivative(op, types) {
        Derivative::Definition => true,
        // The last is its result's.
        Derivative::Rule => types.last().is_some_and(|ty| ty.as_composite().is_some()) && !is_decomposition(op),
        _ => false,
    }
}

/// Ops that give several composites by iterations.
fn is_decomposition(op: Op) -> bool {
    rules::values_of(op).is_some()
}

/// Ops that are linear in each of their two operands. A product of transforms is not.
fn is_bilinear(op: Op, types: &[Type]) -> bool {
    let is_transform = |ty: &Type| ty.as_composite().is_some_and(|c| c.kind() == CompositeKind::Transform);
    let composes = op == Op::Mul && types.iter().take(2).all(is_transform);
    !composes
        && matches!(
            op,
            Op::Mul
                | Op::Dot
                | Op::Ddot
                | Op::Cross
                | Op::CwMul
                | Op::Outer
                | Op::SpatialDot
                | Op::SpatialCross
                | Op::SpatialCrossDual
        )
}

impl<'a> TangentBuilder<'a> {
    pub(super) fn new(old: &'a Function, new: &'a mut Function, active: EntitySet<Value>) -> TangentBuilder<'a> {
        TangentBuilder {
            old,
            builder: Builder::new(new),
            values: SecondaryMap::new(),
            tangents: SecondaryMap::new(),
            insts: SecondaryMap::new(),
            active,
            is_extremum: super::activity::extrema(old),
            after: Vec::new(),
            errors: Vec::new(),
        }
    }

    pub(super) fn run(&mut self) {
        self.region(self.old.body, None);
    }

    fn refuse(&mut self, data: &InstData, message: String, help: &str) {
        self.errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
    }

    fn value(&self, old: Value) -> Value {
        self.values[old].expand().unwrap_or(old)
    }

    fn mapped(&self, old: &[Value]) -> Values {
        old.iter().map(|&value| self.value(value)).collect()
    }

    /// The tangent of an old value, made if it is zero.
    fn tangent(&mut self, old: Value) -> Value {
        match self.tangents[old].expand() {
            Some(tangent) => tangent,
            None => zero(&mut self.builder, self.old.ty(old)),
        }
    }

    fn bind(&mut self, old: Value, new: Value) {
        self.values[old] = new.into();
        if let Some(name) = &self.old.value_names[old] {
            self.builder.func.value_names[new] = Some(name.clone());
        }
    }

    fn bind_tangent(&mut self, old: Value, tangent: Value) {
        self.tangents[old] = tangent.into();
        if let Some(name) = &self.old.value_names[old] {
            self.builder.func.value_names[tangent] = Some(format!("dot_{name}").into());
        }
    }

    /// Values, and the tangents of those whose place is active.
    fn with_tangents(&mut self, operands: &[Value], is_active: &[bool]) -> Values {
        let mut values = self.mapped(operands);
        for (&operand, _) in operands.iter().zip(is_active).filter(|(_, is_active)| **is_active) {
            let tangent = self.tangent(operand);
            values.push(tangent);
        }
        values
    }

    /// Returns the results of an instruction with regions that have tangents.
    fn active_results(&self, inst: Inst) -> SmallVec<[bool; 8]> {
        self.old.insts[inst].results.iter().map(|&result| self.active.contains(result)).collect()
    }

    /// Writes what a region of `owner` holds into the current one.
    fn region(&mut self, region: Region, owner: Option<Inst>) {
        let old = self.old;
        for &inst in &old.regions[region].insts {
            let data = &old.insts[inst];
            self.builder.set_span(data.span);
            match data.op {
                Op::Yield => {
                    let is_condition = owner.is_some_and(|owner| {
                        let owner = &old.insts[owner];
                        owner.op == Op::While && owner.regions[0] == region
                    });
                    let is_active = owner.filter(|_| !is_condition).map(|owner| self.active_results(owner));
                    let values = self.with_tangents(&data.operands, &is_active.unwrap_or_default());
                    self.builder.yield_(&values);
                }
                Op::Break | Op::Continue => {
                    let Imm::Target(target) = data.imm else { continue };
                    let is_active = self.active_results(target);
                    let values = self.with_tangents(&data.operands, &is_active);
                    let target = self.insts[target].expand().unwrap_or(target);
                    self.builder.inst(data.op, &values, &[], Imm::Target(target));
                }
                Op::If | Op::ForRange | Op::While | Op::Block => self.with_regions(inst, data),
                _ => self.op(data),
            }
        }
    }

    fn with_regions(&mut self, inst: Inst, data: &InstData) {
        let old = self.old;
        let is_active = self.active_results(inst);
        let mut types: Types = data.results.iter().map(|&result| old.ty(result)).collect();
        let tangent_types: Types =
            data.results.iter().zip(&is_active).filter(|(_, active)| **active).map(|(&r, _)| old.ty(r)).collect();
        types.extend(tangent_types.iter().copied());
        let carries = matches!(data.op, Op::ForRange | Op::While);
        let n_bounds = if data.op == Op::ForRange { 3 } else { 0 };
        let mut operands = self.mapped(&data.operands[..if carries { n_bounds } else { data.operands.len() }]);
        if carries {
            operands.extend(self.with_tangents(&data.operands[n_bounds..], &is_active));
        }
        let regions: SmallVec<[Region; 2]> = data
            .regions
            .iter()
            .map(|&region| {
                let params = old.regions[region].params.iter().map(|&param| old.ty(param));
                let more = tangent_types.iter().copied().filter(|_| carries);
                self.builder.create_region(&params.chain(more).collect::<Types>())
            })
            .collect();
        let new = self.builder.region_inst(data.op, &operands, &types, &regions);
        self.insts[inst] = new.into();
        let around = self.builder.region();
        for (&region, &new_region) in data.regions.iter().zip(&regions) {
            self.builder.switch_to(new_region);
            let params = self.builder.func.regions[new_region].params.clone();
            let old_params = &old.regions[region].params;
            for (&param, &value) in old_params.iter().zip(&params) {
                self.bind(param, value);
            }
            if carries {
                let carried = &old_params[old_params.len() - is_active.len()..];
                let active = carried.iter().zip(&is_active).filter(|(_, active)| **active);
                for ((&param, _), &tangent) in active.zip(&params[old_params.len()..]) {
                    self.bind_tangent(param, tangent);
                }
            }
            self.region(region, Some(inst));
        }
        self.builder.switch_to(around);
        let results = self.builder.func.insts[new].results.clone();
        for (&result, &value) in data.results.iter().zip(&results) {
            self.bind(result, value);
        }
        let active = data.results.iter().zip(&is_active).filter(|(_, active)| **active);
        for ((&result, _), &tangent) in active.zip(&results[data.results.len()..]) {
            self.bind_tangent(result, tangent);
        }
    }

    /// An instruction without regions, so that it is done as it was, and then to tangents.
    fn op(&mut self, data: &InstData) {
        let operands = self.mapped(&data.operands);
        let array = data.operands.first().and_then(|&array| self.tangents[array].expand());
        if let Some(array) = array.filter(|_| self.old.ty(data.operands[0]).as_any_array().is_some()) {
            return self.access(data, array, &operands);
        }
        let new = self.copy(data, &operands);
        let Some(&result) = data.results.first() else { return };
        let flows = data.operands.iter().any(|&operand| self.tangents[operand].is_some());
        if !flows || !data.results.iter().any(|&result| self.active.contains(result)) {
            return;
        }
        let results = self.builder.func.insts[new].results.clone();
        if is_decomposition(data.op) {
            return self.decomposed(data, &results);
        }
        match self.tangent_of(data, &operands, &results) {
            Some(Some(tangent)) => self.bind_tangent(result, tangent),
            Some(None) => {}
            None => {
                let help = "compute it in a kernel of its own, or from values that need no derivative";
                self.refuse(data, format!("`{}` has no derivative", data.op.name()), help);
            }
        }
    }

    fn copy(&mut self, data: &InstData, operands: &[Value]) -> Inst {
        let new = written_again(&mut self.builder, self.old, data, operands);
        for (index, &result) in data.results.iter().enumerate() {
            let value = self.builder.func.insts[new].results[index];
            self.bind(result, value);
        }
        new
    }

    /// An access to an array, and the same to the array of its tangents.
    fn access(&mut self, data: &InstData, tangents: Value, operands: &[Value]) {
        let mut place: Values = SmallVec::from_slice(operands);
        place[0] = tangents;
        match data.op {
            Op::ArrayLoad | Op::LoadReadonly => {
                let ty = self.old.ty(data.results[0]);
                self.copy(data, operands);
                let load = self.builder.inst(data.op, &place, &[ty], data.imm.clone());
                let tangent = self.builder.func.insts[load].results[0];
                self.bind_tangent(data.results[0], tangent);
            }
            Op::ArrayStore | Op::AtomicAdd | Op::AtomicSub => {
                self.copy(data, operands);
                if data.op != Op::ArrayStore && is_used(self.old, data.results[0]) {
                    let (message, help) = used_update(data.op);
                    self.refuse(data, message, help);
                }
                let value = data.operands[data.operands.len() - 1];
                // A store of a constant leaves a tangent of zero; a sum with one leaves the tangent as it is.
                if data.op == Op::ArrayStore || self.tangents[value].is_some() {
                    let last = place.len() - 1;
                    place[last] = self.tangent(value);
                    let types: Types = data.results.iter().map(|&result| self.old.ty(result)).collect();
                    self.builder.inst(data.op, &place, &types, data.imm.clone());
                }
            }
            Op::AtomicMin | Op::AtomicMax if self.is_extremum(data) => self.extremum(data, operands, place),
            op @ (Op::AtomicMin | Op::AtomicMax) if !is_used(self.old, data.results[0]) => {
                let (message, help) = mixed_extremum(op);
                self.refuse(data, message, help);
            }
            op if op.info().group == OpGroup::Atomic => {
                let (message, help) = active_update(op);
                self.refuse(data, message, help);
            }
            _ => _ = self.copy(data, operands),
        }
    }

    fn is_extremum(&self, data: &InstData) -> bool {
        let is_extremum = self.old.param_index(data.operands[0]).is_some_and(|param| self.is_extremum[param]);
        is_extremum && !is_used(self.old, data.results[0])
    }

    /// `atomic_min` and `atomic_max`, because the element moves as the value does that it has in the end.
    fn extremum(&mut self, data: &InstData, operands: &[Value], mut place: Values) {
        self.copy(data, operands);
        let Some(param) = self.old.param_index(data.operands[0]) else { return };
        let after = match self.after.iter().find(|(of, _)| *of == param) {
            Some(&(_, after)) => after,
            None => {
                let (name, ty) = (format!("after_{}", self.old.param_names[param]), self.old.ty(data.operands[0]));
                let after = self.builder.func.add_param(name, ty);
                self.after.push((param, after));
                after
            }
        };
        let last = operands.len() - 1;
        let ty = self.old.ty(data.results[0]);
        let mut at: Values = SmallVec::from_slice(&operands[..last]);
        at[0] = after;
        let load = self.builder.inst(Op::ArrayLoad, &at, &[ty], Imm::None);
        let after = self.builder.func.insts[load].results[0];
        let is_it = self.builder.op(Op::Eq, &[operands[last], after]);
        place[last] = self.tangent(data.operands[last]);
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let around = self.builder.switch_to(regions[0]);
        self.builder.inst(Op::AtomicExch, &place, &[ty], Imm::None);
        self.builder.yield_(&[]);
        self.builder.switch_to(regions[1]);
        self.builder.yield_(&[]);
        self.builder.switch_to(around);
        self.builder.region_inst(Op::If, &[is_it], &[], &regions);
    }

    /// The tangent of what an instruction gives; `Some(None)` if it is zero, and `None` if the op has no derivative.
    fn tangent_of(&mut self, data: &InstData, operands: &[Value], results: &[Value]) -> Option<Option<Value>> {
        let op = data.op;
        let result = *results.first()?;
        let ty = self.builder.func.ty(result);
        let types: Types = operands.iter().map(|&operand| self.builder.func.ty(operand)).collect();
        if rules::derivative(op, &types) == Derivative::Zero {
            return Some(None);
        }
        if rules::is_linear(op) {
            let active = |index: usize| match op {
                Op::ComponentAt | Op::WithComponentAt => index != 1,
                _ => true,
            };
            let tangents: Values = (0..operands.len())
                .map(|index| if active(index) { self.tangent(data.operands[index]) } else { operands[index] })
                .collect();
            let new = self.builder.inst(op, &tangents, &[ty], data.imm.clone());
            return Some(self.builder.func.insts[new].results.first().copied());
        }
        if op == Op::Select {
            let [then, otherwise] = [1, 2].map(|index| self.tangent(data.operands[index]));
            return Some(Some(self.builder.op(Op::Select, &[operands[0], then, otherwise])));
        }
        let mut sum: Option<Value> = None;
        for index in 0..operands.len() {
            let Some(tangent) = self.tangents[data.operands[index]].expand() else { continue };
            let part = if is_bilinear(op, &types) {
                let mut factors: Values = SmallVec::from_slice(operands);
                factors[index] = tangent;
                let new = self.builder.inst(op, &factors, &[ty], data.imm.clone());
                Some(self.builder.func.insts[new].results[0])
            } else {
                self.by_adjoint(data, operands, results, (index, tangent))?
            };
            sum = match (sum, part) {
                (Some(before), Some(part)) => Some(self.builder.op(Op::Add, &[before, part])),
                (before, part) => before.or(part),
            };
        }
        Some(sum)
    }

    /// Returns what the tangent of an operand adds to that of a result: the reverse sweep has the derivative, of a
    /// composite that of each component. `Some(None)` if that is zero.
    fn by_adjoint(
        &mut self,
        data: &InstData,
        operands: &[Value],
        results: &[Value],
        (index, tangent): (usize, Value),
    ) -> Option<Option<Value>> {
        let ty = self.builder.func.ty(results[0]);
        if let Some(composite) = ty.as_composite() {
            let mut components = Values::new();
            for component in 0..composite.n_components() {
                let unit = self.unit(composite, component);
                let gradient = self.contribution(data, operands, results, (index, unit))?;
                components.push(match gradient {
                    Some(gradient) if self.builder.func.ty(gradient).as_composite().is_some() => {
                        rules::inner(&mut self.builder, gradient, tangent)
                    }
                    Some(gradient) => self.builder.op(Op::Mul, &[gradient, tangent]),
                    None => zero(&mut self.builder, composite.elem().into()),
                });
            }
            let whole = self.builder.inst(Op::Construct, &components, &[ty], Imm::None);
            return Some(self.builder.func.insts[whole].results.first().copied());
        }
        let elem = ty.as_scalar()?;
        if self.builder.func.ty(tangent).as_composite().is_none() {
            // Its factor of the result's adjoint, multiplied by this tangent.
            return self.contribution(data, operands, results, (index, tangent));
        }
        let one = self.builder.const_f64(1.0);
        let one = self.builder.cast(one, elem);
        let gradient = self.contribution(data, operands, results, (index, one))?;
        Some(gradient.map(|gradient| rules::inner(&mut self.builder, gradient, tangent)))
    }

    /// Returns what an adjoint of the result adds to that of an operand; `Some(None)` if that is zero.
    fn contribution(
        &mut self,
        data: &InstData,
        operands: &[Value],
        results: &[Value],
        (index, adjoint): (usize, Value),
    ) -> Option<Option<Value>> {
        let found = rules::contributions(&mut self.builder, data, operands, results, &[Some(adjoint)])?;
        Some(found[index].map(|contribution| contribution.value))
    }

    /// A composite of zeros but for a one in this component.
    fn unit(&mut self, composite: Composite, component: usize) -> Value {
        let nothing = zero(&mut self.builder, composite.into());
        let one = self.builder.const_f64(1.0);
        let one = self.builder.cast(one, composite.elem());
        let imm = Imm::Component(component as u16);
        let unit = self.builder.inst(Op::WithComponent, &[nothing, one], &[composite.into()], imm);
        self.builder.func.insts[unit].results[0]
    }

    /// The tangents of the factors of a matrix: each component moves as the reverse sweep says that the matrix moves
    /// it. Vectors of equal values have no tangents that are numbers.
    fn decomposed(&mut self, data: &InstData, results: &[Value]) {
        let direction = self.tangent(data.operands[0]);
        let mut results: Values = results.into();
        if let Some((values, _)) = rules::values_of(data.op) {
            results[values] = rules::distinct(&mut self.builder, data.op, results[values]);
        }
        for (number, &result) in data.results.iter().enumerate() {
            let Some(composite) = self.old.ty(result).as_composite() else { continue };
            let mut components = Values::new();
            for component in 0..composite.n_components() {
                let mut adjoints: SmallVec<[Option<Value>; 4]> = SmallVec::from_elem(None, results.len());
                adjoints[number] = Some(self.unit(composite, component));
                let gradient = rules::matrix_adjoint(&mut self.builder, data.op, &results, &adjoints);
                let Some(gradient) = gradient else { continue };
                components.push(rules::inner(&mut self.builder, gradient, direction));
            }
            let whole = self.builder.inst(Op::Construct, &components, &[composite.into()], Imm::None);
            let tangent = self.builder.func.insts[whole].results[0];
            self.bind_tangent(result, tangent);
        }
    }
}
