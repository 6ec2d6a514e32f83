//! The reverse sweep, but for loops: adjoints go from what an instruction gives to what it takes.

use super::super::constants::zero;
use super::super::rules::{self, AdjointContribution};
use super::super::updates::{active_update, mixed_extremum};
use super::asked::{Asked, Seeds, ValueAdjoint, is_curved};
use super::{BackwardBuilder, KnownAdjoint, Types, Values};
use cranelift_entity::EntitySet;
use polyloom_ir::op::{OpEffect, OpGroup};
use polyloom_ir::{Imm, Inst, InstData, Op, Region, Scalar, Span, Type, Value};
use smallvec::{SmallVec, smallvec};

impl BackwardBuilder<'_> {
    /// Adds to the adjoint of an old value.
    pub(in crate::autodiff) fn add(&mut self, old: Value, by: Value) {
        self.add_if(old, by, None);
    }

    /// Adds to the adjoint of an old value what may be asked for on a condition only.
    pub(in crate::autodiff) fn add_if(&mut self, old: Value, by: Value, asked: Asked) {
        if !self.active.contains(old) {
            return;
        }
        self.asked_components.remove(&old);
        let (sum, asked) = match self.adjoints[old].expand() {
            None => (by, asked),
            Some(before) => {
                let conditions = self.asked[old].expand().zip(asked);
                let asked = conditions.and_then(|(before, asked)| self.any(vec![before, asked]));
                (rules::accumulated(&mut self.builder, before, by), asked)
            }
        };
        self.asked[old] = asked.into();
        if let Some(name) = &self.old.value_names[old] {
            self.builder.func.value_names[sum] = Some(format!("adj_{name}").into());
        }
        self.adjoints[old] = sum.into();
    }

    /// Writes the reverse of a region, whose values and the adjoints of what it hands out are known.
    pub(super) fn reverse(&mut self, region: Region) {
        let old = self.old;
        for &inst in old.regions[region].insts.iter().rev() {
            let data = &old.insts[inst];
            self.builder.set_span(data.span);
            match data.op {
                Op::If => self.reverse_if(inst, data),
                Op::ForRange | Op::While => self.reverse_loop(inst, data),
                Op::ArrayLoad | Op::LoadReadonly => self.reverse_load(data),
                Op::ArrayStore => self.reverse_store(inst, data),
                Op::Call => self.reverse_call(data),
                Op::AtomicAdd | Op::AtomicSub => self.reverse_sum(data),
                Op::AtomicMin | Op::AtomicMax => self.reverse_extremum(data),
                _ if data.op.info().group == OpGroup::Atomic => self.reverse_update(data),
                _ => self.reverse_op(data),
            }
        }
    }

    fn reverse_op(&mut self, data: &InstData) {
        let asked = self.asked_for(&data.results);
        let components = self.take_components(data);
        let adjoints: SmallVec<[Option<Value>; 2]> =
            data.results.iter().map(|&result| self.adjoints[result].take()).collect();
        if adjoints.iter().all(Option::is_none) {
            return;
        }
        let operands = self.mapped(&data.operands);
        let results = self.mapped(&data.results);
        match rules::contributions(&mut self.builder, data, &operands, &results, &adjoints) {
            Some(contributions) => {
                for (index, (&operand, contribution)) in data.operands.iter().zip(contributions).enumerate() {
                    let Some(AdjointContribution { value, taken }) = contribution else { continue };
                    let value = if is_curved(data) { self.chosen_if_asked(asked, value) } else { value };
                    let of_component = match (data.op, &data.imm, &components) {
                        (Op::Construct, _, Some(components)) => Some(components[index]),
                        (Op::WithComponent, &Imm::Component(component), Some(components)) if index == 1 => {
                            Some(components[usize::from(component)])
                        }
                        _ => None,
                    };
                    match of_component {
                        Some(None) => continue,
                        Some(Some(asked)) => {
                            self.add_if(operand, value, asked);
                            continue;
                        }
                        None => {}
                    }
                    let of_operand = self.components_of_operand(data, operand, asked, taken, components.as_ref());
                    let asked = self.asked_if_taken(asked, taken);
                    match of_operand {
                        Some(of_operand) => self.add_components(operand, value, asked, of_operand),
                        None => self.add_if(operand, value, asked),
                    }
                }
            }
            None => {
                let help = "compute it in a kernel of its own, or from values that need no gradient";
                self.refuse(data, format!("`{}` has no derivative", data.op.name()), help);
            }
        }
    }

    /// The adjoint array of an array and the indices of an access.
    fn adjoint_of(&mut self, data: &InstData, n_indices: usize) -> Option<(usize, Values)> {
        let param = self.array_of(data.operands[0])?;
        let adjoint = self.arrays[param].adjoint?;
        let mut place: Values = smallvec![adjoint];
        place.extend(self.mapped(&data.operands[1..1 + n_indices]));
        Some((param, place))
    }

    fn reverse_load(&mut self, data: &InstData) {
        let Some(adjoint) = self.adjoints[data.results[0]].take() else { return };
        let Some((param, mut place)) = self.adjoint_of(data, data.operands.len() - 1) else { return };
        let ty = self.old.ty(data.results[0]);
        // A sum in a loop may leave it.
        let is_whole = self.old.ty(data.operands[0]).as_any_array().is_some_and(|(elem, _)| elem == ty);
        let stays = self.n_loops == 0 || self.arrays[param].is_replayed || !is_whole;
        if self.arrays[param].is_private && stays {
            let is_zero = self.known(param, &place).is_some_and(|known| known.is_zero);
            let sum = match is_zero {
                true => adjoint,
                false => {
                    let before = self.load_adjoint(param, &place, ty);
                    self.builder.op(Op::Add, &[before, adjoint])
                }
            };
            self.store_adjoint(param, place, sum, false);
        } else {
            self.known[param] = None;
            place.push(adjoint);
            self.builder.inst(Op::AtomicAdd, &place, &[ty], Imm::None);
        }
    }

    fn reverse_store(&mut self, inst: Inst, data: &InstData) {
        let Some((param, place)) = self.adjoint_of(data, data.operands.len() - 2) else { return };
        let value = data.operands[data.operands.len() - 1];
        let ty = self.old.ty(value);
        if !self.arrays[param].is_private && !self.apart.contains(inst) {
            self.known[param] = None;
            let taken = self.take(&place, ty);
            return self.add(value, taken);
        }
        let adjoint = self.load_adjoint(param, &place, ty);
        let nothing = zero(&mut self.builder, ty);
        self.store_adjoint(param, place, nothing, true);
        self.add(value, adjoint);
    }

    /// Takes an adjoint and leaves zero: of several threads that stored the same, one takes it, and of a composite one
    /// takes each component.
    fn take(&mut self, place: &Values, ty: Type) -> Value {
        let Type::Composite(composite) = ty else {
            let nothing = zero(&mut self.builder, ty);
            let operands: Values = place.iter().copied().chain([nothing]).collect();
            let taken = self.builder.inst(Op::AtomicExch, &operands, &[ty], Imm::None);
            return self.builder.func.insts[taken].results[0];
        };
        let shape = composite.shape();
        let mut components = Values::new();
        for component in 0..composite.n_components() {
            let mut place = place.clone();
            let n_columns = usize::from(shape[shape.len() - 1]);
            let indices = [component / n_columns, component % n_columns];
            for &index in &indices[2 - shape.len()..] {
                place.push(self.builder.const_int(Scalar::I32, index as i64));
            }
            components.push(self.take(&place, Type::Scalar(composite.elem())));
        }
        let whole = self.builder.inst(Op::Construct, &components, &[ty], Imm::None);
        self.builder.func.insts[whole].results[0]
    }

    /// Returns what is known of the adjoint of an element, if it is the one that was accessed last.
    fn known(&self, param: usize, place: &Values) -> Option<&KnownAdjoint> {
        let known = self.known[param].as_ref()?;
        (known.region == self.builder.region() && known.place == *place).then_some(known)
    }

    fn load_adjoint(&mut self, param: usize, place: &Values, ty: Type) -> Value {
        if let Some(known) = self.known(param, place) {
            return known.value;
        }
        let load = self.builder.inst(Op::ArrayLoad, place, &[ty], Imm::None);
        let value = self.builder.func.insts[load].results[0];
        let (region, place) = (self.builder.region(), place.clone());
        let known = KnownAdjoint { region, place, value, is_zero: false, store: None, loaded: Some(value) };
        self.known[param] = self.arrays[param].is_private.then_some(known);
        value
    }

    /// Stores an adjoint. A store to the same place before it is for nothing, and so is one of what is there.
    fn store_adjoint(&mut self, param: usize, place: Values, value: Value, is_zero: bool) {
        let region = self.builder.region();
        let before = self.known(param, &place).cloned();
        if let Some(store) = before.as_ref().and_then(|known| known.store) {
            self.builder.func.regions[region].insts.retain(|&inst| inst != store);
        }
        let loaded = before.and_then(|known| known.loaded);
        let store = (loaded != Some(value)).then(|| {
            let operands: Values = place.iter().copied().chain([value]).collect();
            self.builder.inst(Op::ArrayStore, &operands, &[], Imm::None)
        });
        let known = KnownAdjoint { region, place, value, is_zero, store, loaded };
        self.known[param] = self.arrays[param].is_private.then_some(known);
    }

    /// `atomic_add` and `atomic_sub`, so that the element's adjoint stays.
    fn reverse_sum(&mut self, data: &InstData) {
        let Some((param, place)) = self.adjoint_of(data, data.operands.len() - 2) else { return };
        let value = data.operands[data.operands.len() - 1];
        if !self.active.contains(value) {
            return;
        }
        let ty = self.old.ty(value);
        let mut adjoint = self.load_adjoint(param, &place, ty);
        if data.op == Op::AtomicSub {
            adjoint = self.builder.op(Op::Neg, &[adjoint]);
        }
        self.add(value, adjoint);
    }

    /// `atomic_min` and `atomic_max`: the element's adjoint goes to the thread whose value the element has in the end. Of
    /// several such threads the first to come takes it; if there is none, it stays with what the element held before.
    fn reverse_extremum(&mut self, data: &InstData) {
        let value = data.operands[data.operands.len() - 1];
        let ty = self.old.ty(value);
        let Some((param, place)) = self.adjoint_of(data, data.operands.len() - 2) else { return };
        if !self.arrays[param].is_extremum {
            let (message, help) = mixed_extremum(data.op);
            return self.refuse(data, message, help);
        }
        // Though the value need not be active, because if the element has it in the end, what was there before counts
        // no more.
        let mut at = place.clone();
        at[0] = self.after(param);
        let load = self.builder.inst(Op::ArrayLoad, &at, &[ty], Imm::None);
        let after = self.builder.func.insts[load].results[0];
        let own = self.value(value);
        let is_it = self.builder.op(Op::Eq, &[own, after]);
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let around = self.builder.switch_to(regions[0]);
        let taken = self.take(&place, ty);
        self.builder.yield_(&[taken]);
        self.builder.switch_to(regions[1]);
        let nothing = zero(&mut self.builder, ty);
        self.builder.yield_(&[nothing]);
        self.builder.switch_to(around);
        let branch = self.builder.region_inst(Op::If, &[is_it], &[ty], &regions);
        let adjoint = self.builder.func.insts[branch].results[0];
        self.add_if(value, adjoint, Some(is_it));
    }

    fn reverse_update(&mut self, data: &InstData) {
        if self.adjoint_of(data, 0).is_none() {
            return;
        }
        match self.extremum_behind(data) {
            Some(op) => {
                let message = format!("the derivative of `{}` in a direction has no derivative of its own", op.name());
                self.refuse(data, message, "record the launch itself, not its `jvp`");
            }
            None => {
                let (message, help) = active_update(data.op);
                self.refuse(data, message, help);
            }
        }
    }

    /// The `atomic_min` or `atomic_max` of whose derivative in a direction this exchange is a part, since it stands
    /// where the program has that.
    fn extremum_behind(&self, data: &InstData) -> Option<Op> {
        let mut found = None;
        self.old.walk(self.old.body, &mut |_, other| {
            let is_extremum = matches!(other.op, Op::AtomicMin | Op::AtomicMax);
            if data.op == Op::AtomicExch && is_extremum && other.span == data.span && data.span != Span::NONE {
                found = Some(other.op);
            }
        });
        found
    }

    /// Active values from outside that the regions of an instruction use.
    pub(super) fn captured(&self, inst: Inst) -> Values {
        let mut inside = EntitySet::new();
        let mut used = Values::new();
        let mut pending: Vec<Region> = self.old.insts[inst].regions.to_vec();
        let mut next = 0;
        while let Some(&region) = pending.get(next) {
            next += 1;
            let params = self.old.regions[region].params.iter();
            params.for_each(|&param| _ = inside.insert(param));
            for &inner in &self.old.regions[region].insts {
                let data = &self.old.insts[inner];
                data.results.iter().for_each(|&result| _ = inside.insert(result));
                used.extend(data.operands.iter().copied());
                pending.extend(&data.regions);
            }
        }
        let is_array = |value: Value| self.old.ty(value).as_any_array().is_some();
        used.retain(|value| self.active.contains(*value) && !inside.contains(*value) && !is_array(*value));
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Returns true if the reverse of something under an instruction may not be left out though the adjoints of its
    /// results are zero.
    pub(super) fn touches_adjoints(&self, inst: Inst) -> bool {
        let mut pending: Vec<Region> = self.old.insts[inst].regions.to_vec();
        while let Some(region) = pending.pop() {
            for &inner in &self.old.regions[region].insts {
                let data = &self.old.insts[inner];
                let writes = matches!(data.op.info().effect, OpEffect::Write | OpEffect::ReadWrite);
                if writes && !data.operands.is_empty() {
                    let param = self.array_of(data.operands[0]);
                    if param.is_some_and(|param| self.arrays[param].adjoint.is_some()) {
                        return true;
                    }
                }
                pending.extend(&data.regions);
            }
        }
        false
    }

    fn reverse_if(&mut self, inst: Inst, data: &InstData) {
        let seeds = self.seeds(data);
        if seeds.iter().all(Option::is_none) && !self.touches_adjoints(inst) {
            return;
        }
        let cond = self.value(data.operands[0]);
        let captured = self.captured(inst);
        let before: SmallVec<[Option<ValueAdjoint>; 8]> = captured.iter().map(|&value| self.seed_of(value)).collect();
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let around = self.builder.region();
        let mut after: [SmallVec<[Option<ValueAdjoint>; 8]>; 2] = [SmallVec::new(), SmallVec::new()];
        for side in 0..2 {
            self.builder.switch_to(regions[side]);
            for (&value, &seed) in captured.iter().zip(&before) {
                self.set(value, seed);
            }
            self.seed(data.regions[side], &seeds);
            self.reverse(data.regions[side]);
            after[side] = captured.iter().map(|&value| self.seed_of(value)).collect();
        }
        let changed: SmallVec<[usize; 8]> =
            (0..captured.len()).filter(|&index| after.iter().any(|after| after[index] != before[index])).collect();
        // The side taken may decide whether the adjoint of a result is live.
        let conditional: SmallVec<[usize; 8]> = changed
            .iter()
            .copied()
            .filter(|&index| after.iter().any(|after| after[index].is_none_or(|seed| seed.asked.is_some())))
            .collect();
        let mut types: Types = changed.iter().map(|&index| self.old.ty(captured[index])).collect();
        for side in 0..2 {
            self.builder.switch_to(regions[side]);
            let mut values = Values::new();
            for (&index, &ty) in changed.iter().zip(&types) {
                let adjoint = after[side][index].map(|seed| seed.adjoint);
                values.push(adjoint.unwrap_or_else(|| zero(&mut self.builder, ty)));
            }
            for &index in &conditional {
                values.push(match after[side][index] {
                    Some(seed) => self.condition(seed.asked),
                    None => self.builder.const_bool(false),
                });
            }
            self.builder.yield_(&values);
        }
        self.builder.switch_to(around);
        types.extend(conditional.iter().map(|_| Type::BOOL));
        let new = self.builder.region_inst(Op::If, &[cond], &types, &regions);
        let results = self.builder.func.insts[new].results.clone();
        for (&value, &seed) in captured.iter().zip(&before) {
            self.set(value, seed);
        }
        for (&index, &adjoint) in changed.iter().zip(&results) {
            self.set(captured[index], Some(ValueAdjoint { adjoint, asked: None }));
        }
        for (&index, &asked) in conditional.iter().zip(&results[changed.len()..]) {
            self.asked[captured[index]] = asked.into();
        }
    }

    /// The adjoint of an old value.
    pub(super) fn seed_of(&self, value: Value) -> Option<ValueAdjoint> {
        self.adjoints[value].expand().map(|adjoint| ValueAdjoint { adjoint, asked: self.asked[value].expand() })
    }

    pub(super) fn set(&mut self, value: Value, seed: Option<ValueAdjoint>) {
        self.adjoints[value] = seed.map(|seed| seed.adjoint).into();
        self.asked[value] = seed.and_then(|seed| seed.asked).into();
        self.asked_components.remove(&value);
    }

    /// Takes the adjoints of an instruction's results.
    pub(super) fn seeds(&mut self, data: &InstData) -> Seeds {
        let seeds: Seeds = data.results.iter().map(|&result| self.seed_of(result)).collect();
        data.results.iter().for_each(|&result| self.adjoints[result] = None.into());
        seeds
    }

    /// Adds the adjoints of what a region hands out.
    pub(super) fn seed(&mut self, region: Region, seeds: &[Option<ValueAdjoint>]) {
        let Some(last) = self.old.terminator(region) else { return };
        let operands = self.old.insts[last].operands.clone();
        for (&operand, seed) in operands.iter().zip(seeds) {
            if let Some(seed) = seed {
                self.add_if(operand, seed.adjoint, seed.asked);
            }
        }
    }
}
