//! Elements of arrays that loops carry: what a loop reads and overwrites at one place in all iterations is read before
//! it and stored behind it.
//!
//! What a loop reads from an array that the kernel writes is recorded each time it is read. What it carries is on a
//! tape of the loop instead, which checkpoints keep short. An element is carried if it is the thread's own, as all of
//! its array are that the kernel accesses, so that nobody sees what it holds in between, and if the loop accesses no
//! element of the array by an index that changes. Short inner loops that count through an index are written out first,
//! if that is all that changes. What a loop that does not run, or a branch that is not taken, would access need not be
//! an element: only one that exists is read and stored.

use super::activity::{Counter, counters, is_never_negative, negative_indices, own_elements};
use super::constants::zero;
use super::instructions::{is_load, is_loop};
use super::request::DerivativeRequest;
use super::sums::{Values, add_results, extend_terminator};
use super::unroll::unrolled;
use crate::edit::ValueReplacements;
use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Builder, Function, Imm, Inst, InstData, Op, Region, Scalar, Type, Value, ValueDef};
use smallvec::SmallVec;

/// Most elements that a loop is made to carry.
const MAX_ELEMENTS: usize = 32;
/// Says how far back an index's computation is looked at.
const MAX_DEPTH: u32 = 8;

/// Describes what may be carried.
struct CarryCandidate {
    /// For each parameter, whether elements of the array may be.
    params: Vec<bool>,
    /// Accesses with an index that depends on the thread and may count from the end of its axis.
    below: EntitySet<Inst>,
}

/// An element, or a component of one, that a loop accesses.
struct LoopElement {
    /// The array, and the indices as the first of the accesses has them.
    place: SmallVec<[Value; 4]>,
    /// Holds what the indices are.
    sums: SmallVec<[AffineSum; 3]>,
    ty: Type,
    is_stored: bool,
}

/// The elements that a loop is made to carry.
#[derive(Default)]
struct CarriedElements {
    elements: Vec<LoopElement>,
    accesses: Vec<(Inst, ElementUse)>,
}

/// Describes what an instruction accesses.
#[derive(Clone, Copy)]
struct ElementUse {
    /// The number of the element.
    element: usize,
    /// Says which component of what is carried, if not all of it.
    component: Option<u16>,
}

/// Has the loops of a kernel in structured form carry elements of arrays that the kernel reads and writes. `is_active`
/// says by parameter whether derivatives flow through it: where they do not, none may flow through what is carried.
pub(super) fn carry(func: &mut Function, request: &DerivativeRequest, is_active: &[bool]) {
    let all = counters(func);
    let Some(mut found) = wanted(func, request, is_active, &all) else { return };
    let few = all.iter().filter(|&&(_, low, high)| high.saturating_sub(low) < MAX_ELEMENTS as i64);
    let mut counters = EntitySet::new();
    counters.extend(few.map(|&(counter, _, _)| counter));
    let mut short = EntitySet::new();
    short_loops(func, func.body, &found, &counters, &mut short);
    if !short.is_empty() {
        *func = unrolled(func, &|inst| short.contains(inst));
        match wanted(func, request, is_active, &self::counters(func)) {
            Some(again) => found = again,
            None => return,
        }
    }
    visit(func, func.body, &found);
}

/// Returns what loops may be made to carry, if anything.
fn wanted(
    func: &Function,
    request: &DerivativeRequest,
    is_active: &[bool],
    counters: &[Counter],
) -> Option<CarryCandidate> {
    let mut is_loaded = vec![false; func.params().len()];
    let mut has_loops = false;
    func.walk(func.body, &mut |_, data| {
        has_loops |= is_loop(data);
        if let (true, Some(param)) = (is_load(data), data.operands.first().and_then(|&array| func.param_index(array))) {
            is_loaded[param] = true;
        }
    });
    if !has_loops || !is_loaded.contains(&true) {
        return None;
    }
    let (own, written) = (own_elements(func, request), func.written_arrays());
    let is_wanted = |(param, &value): (usize, &Value)| {
        let flows = is_active[param] || !func.ty(value).is_float();
        own[param] && written[param] && is_loaded[param] && flows
    };
    let params: Vec<bool> = func.params().iter().enumerate().map(is_wanted).collect();
    if !params.contains(&true) {
        return None;
    }
    let mut below = EntitySet::new();
    for (inst, operand) in negative_indices(func) {
        let index = func.insts[inst].operands[usize::from(operand)];
        if is_along(&AffineSum::of(func, index)) && !is_never_negative(func, index, counters, request) {
            below.insert(inst);
        }
    }
    Some(CarryCandidate { params, below })
}

/// The loops within others whose `counters`, few, are all that keeps these from carrying elements.
fn short_loops(
    func: &Function,
    region: Region,
    wanted: &CarryCandidate,
    counters: &EntitySet<Value>,
    found: &mut EntitySet<Inst>,
) {
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        if is_loop(data) {
            let (mut inside, accesses) = accesses(func, inst, wanted);
            let own: &[Value] = if data.op == Op::ForRange { &func.regions[data.regions[0]].params[..1] } else { &[] };
            for counter in counters.iter().filter(|counter| !own.contains(counter)) {
                inside.remove(counter);
            }
            let mut used = EntitySet::new();
            for accesses in accesses {
                let index = |&access: &Inst| {
                    let data = &func.insts[access];
                    let (_, n_axes) = func.ty(data.operands[0]).as_any_array().unzip();
                    data.operands[1..].iter().take(n_axes.map_or(0, usize::from))
                };
                let indices: Vec<Value> = accesses.iter().flat_map(index).copied().collect();
                let terms = indices.iter().flat_map(|&index| AffineSum::of(func, index).terms);
                let values: Vec<Value> = terms
                    .filter_map(|(term, _)| match term {
                        AffineTerm::Value(value) => Some(value),
                        AffineTerm::Coordinate(_) => None,
                    })
                    .collect();
                if !values.iter().any(|&value| inside.contains(value)) {
                    used.extend(values.into_iter().filter(|&value| counters.contains(value) && !own.contains(&value)));
                }
            }
            for &body in &data.regions {
                func.walk(body, &mut |inner, data| {
                    if data.op == Op::ForRange && used.contains(func.regions[data.regions[0]].params[0]) {
                        found.insert(inner);
                    }
                });
            }
        }
        for &inner in &data.regions {
            short_loops(func, inner, wanted, counters, found);
        }
    }
}

/// Returns true if an index depends on a coordinate of the thread.
fn is_along(index: &AffineSum) -> bool {
    index.terms.iter().any(|(term, _)| matches!(term, AffineTerm::Coordinate(_)))
}

/// Outer loops come first, because what they carry, those within them carry as well.
fn visit(func: &mut Function, region: Region, wanted: &CarryCandidate) {
    let mut index = 0;
    while let Some(&inst) = func.regions[region].insts.get(index) {
        if is_loop(&func.insts[inst]) {
            let carried = carried(func, inst, wanted);
            if !carried.elements.is_empty() {
                let behind = func.regions[region].insts.split_off(index + 1);
                func.regions[region].insts.pop();
                write(func, region, inst, &carried);
                let insts = &mut func.regions[region].insts;
                index = insts.len() - 1;
                insts.extend(behind);
            }
        }
        for inner in func.insts[inst].regions.clone() {
            visit(func, inner, wanted);
        }
        index += 1;
    }
}

/// The values that are defined in a loop, and by parameter its accesses of elements; none if it does something else
/// with the array, or if that may not be carried.
fn accesses(func: &Function, inst: Inst, wanted: &CarryCandidate) -> (EntitySet<Value>, Vec<Vec<Inst>>) {
    let mut inside = EntitySet::new();
    let mut is_wanted = wanted.params.clone();
    let mut accesses: Vec<Vec<Inst>> = vec![Vec::new(); is_wanted.len()];
    for &region in &func.insts[inst].regions {
        inside.extend(func.regions[region].params.iter().copied());
        func.walk(region, &mut |inner, data| {
            inside.extend(data.results.iter().copied());
            for &region in &data.regions {
                inside.extend(func.regions[region].params.iter().copied());
            }
            for (operand, &value) in data.operands.iter().enumerate() {
                let Some(param) = func.param_index(value).filter(|&param| is_wanted[param]) else { continue };
                if operand == 0 && (is_load(data) || data.op == Op::ArrayStore) && !wanted.below.contains(inner) {
                    accesses[param].push(inner);
                } else if data.op != Op::Dim {
                    is_wanted[param] = false;
                }
            }
        });
    }
    for (accesses, is_wanted) in accesses.iter_mut().zip(is_wanted) {
        if !is_wanted {
            accesses.clear();
        }
    }
    (inside, accesses)
}

/// Returns what a loop is made to carry.
fn carried(func: &Function, inst: Inst, wanted: &CarryCandidate) -> CarriedElements {
    let (inside, accesses) = accesses(func, inst, wanted);
    let mut carried = CarriedElements::default();
    for accesses in accesses {
        let (first, n_accesses) = (carried.elements.len(), carried.accesses.len());
        let is_read = accesses.iter().any(|&access| is_load(&func.insts[access]));
        let n_indices = |&access: &Inst| place_of(&func.insts[access]).len();
        // If it accesses elements as well as components of such, elements are carried.
        let is_whole = accesses.iter().map(n_indices).min() != accesses.iter().map(n_indices).max();
        let all = accesses.iter().all(|&access| add(func, &inside, &mut carried, (first, is_whole), access).is_some());
        if !all || !is_read {
            carried.elements.truncate(first);
            carried.accesses.truncate(n_accesses);
        }
    }
    carried
}

/// The array of a load or a store, and the indices.
fn place_of(data: &InstData) -> &[Value] {
    &data.operands[..data.operands.len() - usize::from(data.op == Op::ArrayStore)]
}

/// Notes an access, whose element is one of those of its array, which are from the number `first` on, or another one;
/// nothing if the loop cannot carry it.
fn add(
    func: &Function,
    inside: &EntitySet<Value>,
    carried: &mut CarriedElements,
    (first, is_whole): (usize, bool),
    access: Inst,
) -> Option<()> {
    let data = &func.insts[access];
    let place = place_of(data);
    let (elem, n_axes) = func.ty(place[0]).as_any_array()?;
    let (mut place, of_component) = place.split_at_checked(1 + usize::from(n_axes))?;
    let components: Option<SmallVec<[i64; 2]>> =
        of_component.iter().map(|&index| AffineSum::of(func, index).as_const()).collect();
    let component = component(elem, &components?)?;
    let mut ty = elem;
    if !is_whole && component.is_some() {
        place = place_of(data);
        ty = Type::Scalar(elem.as_composite()?.elem());
    }
    let is_known = |&index: &Value| is_fixed(func, inside, index, MAX_DEPTH);
    if !place[1..=usize::from(n_axes)].iter().all(is_known) {
        return None;
    }
    let sums: SmallVec<[AffineSum; 3]> = place[1..].iter().map(|&index| AffineSum::of(func, index)).collect();
    let is_same = |other: &LoopElement| other.sums == sums && are_alike(func, &other.place, place);
    let others = &carried.elements[first..];
    let known = others.iter().position(is_same);
    let may_overlap = |other: &LoopElement| !is_same(other) && !are_apart(&other.sums, &sums);
    if others.iter().any(may_overlap) || known.is_none() && carried.elements.len() == MAX_ELEMENTS {
        return None;
    }
    let element = known.map_or(carried.elements.len(), |known| first + known);
    if known.is_none() {
        carried.elements.push(LoopElement { place: place.into(), sums, ty, is_stored: false });
    }
    carried.elements[element].is_stored |= data.op == Op::ArrayStore;
    carried.accesses.push((access, ElementUse { element, component: component.filter(|_| is_whole) }));
    Some(())
}

/// The number of the component at these indices of an element, if there are any; nothing if it has no such component.
fn component(elem: Type, indices: &[i64]) -> Option<Option<u16>> {
    if indices.is_empty() {
        return Some(None);
    }
    let shape = elem.as_composite()?.shape();
    if shape.len() != indices.len() {
        return None;
    }
    let mut number = 0;
    for (&index, extent) in indices.iter().zip(shape) {
        let index = if index < 0 { index + i64::from(extent) } else { index };
        number = number * extent + u16::try_from(index).ok().filter(|&index| index < extent)?;
    }
    Some(Some(number))
}

/// Returns true if indices are of the same types, so that equal sums are equal numbers.
fn are_alike(func: &Function, one: &[Value], other: &[Value]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(&one, &other)| func.ty(one) == func.ty(other))
}

/// Returns true if these are indices of different elements, or components, of one array. Those that depend on the
/// thread are never negative.
fn are_apart(one: &[AffineSum], other: &[AffineSum]) -> bool {
    let differ = |(one, other): (&AffineSum, &AffineSum)| {
        let count_alike = is_along(one) || one.terms.is_empty() && (one.offset < 0) == (other.offset < 0);
        one.terms == other.terms && one.offset != other.offset && count_alike
    };
    one.len() == other.len() && one.iter().zip(other).any(differ)
}

/// Returns true if a value can be computed outside of the loop that these values are inside of.
fn is_fixed(func: &Function, inside: &EntitySet<Value>, value: Value, depth: u32) -> bool {
    if !inside.contains(value) {
        return true;
    }
    let ValueDef::Result(inst, _) = func.values[value].def else { return false };
    let data = &func.insts[inst];
    depth > 0
        && data.op.info().effect == OpEffect::Pure
        && data.operands.iter().all(|&operand| is_fixed(func, inside, operand, depth - 1))
}

/// Writes, at the end of a region, a loop that carries elements.
fn write(func: &mut Function, region: Region, inst: Inst, carried: &CarriedElements) {
    let mut inside = EntitySet::new();
    for &body in &func.insts[inst].regions {
        func.walk(body, &mut |_, data| inside.extend(data.results.iter().copied()));
    }
    let span = func.insts[inst].span;
    let mut builder = Builder::new(func);
    builder.switch_to(region);
    builder.set_span(span);
    let mut values = Values::new();
    let mut places: Vec<(SmallVec<[Value; 4]>, Value)> = Vec::new();
    for element in &carried.elements {
        let mut place: SmallVec<[Value; 4]> = element.place[..1].into();
        for &index in &element.place[1..] {
            let index = outside(&mut builder, &inside, index);
            place.push(index);
        }
        let exists = exists(&mut builder, &place, &element.sums);
        let regions = [builder.create_region(&[]), builder.create_region(&[])];
        builder.switch_to(regions[0]);
        let load = builder.inst(Op::ArrayLoad, &place, &[element.ty], Imm::None);
        let loaded = builder.func.insts[load].results[0];
        builder.yield_(&[loaded]);
        builder.switch_to(regions[1]);
        let nothing = zero(&mut builder, element.ty);
        builder.yield_(&[nothing]);
        builder.switch_to(region);
        let branch = builder.region_inst(Op::If, &[exists], &[element.ty], &regions);
        values.push(builder.func.insts[branch].results[0]);
        places.push((place, exists));
    }
    let mut accesses = SecondaryMap::new();
    for &(access, what) in &carried.accesses {
        accesses[access] = Some(what);
    }
    let mut rewriter = CarryRewriter { func, accesses, replaced: ValueReplacements::default() };
    rewriter.around(inst, &mut values);
    func.regions[region].insts.push(inst);
    let mut builder = Builder::new(func);
    builder.switch_to(region);
    builder.set_span(span);
    for ((element, &value), (place, exists)) in carried.elements.iter().zip(&values).zip(places) {
        if !element.is_stored {
            continue;
        }
        let regions = [builder.create_region(&[]), builder.create_region(&[])];
        builder.switch_to(regions[0]);
        let operands: Values = place.into_iter().chain([value]).collect();
        builder.inst(Op::ArrayStore, &operands, &[], Imm::None);
        builder.yield_(&[]);
        builder.switch_to(regions[1]);
        builder.yield_(&[]);
        builder.switch_to(region);
        builder.region_inst(Op::If, &[exists], &[], &regions);
    }
}

/// Computes again what may have been computed inside of a loop.
fn outside(builder: &mut Builder<'_>, inside: &EntitySet<Value>, value: Value) -> Value {
    let ValueDef::Result(inst, number) = builder.func.values[value].def else { return value };
    if !inside.contains(value) {
        return value;
    }
    let data = builder.func.insts[inst].clone();
    let operands: Values = data.operands.iter().map(|&operand| outside(builder, inside, operand)).collect();
    let types: SmallVec<[Type; 2]> = data.results.iter().map(|&result| builder.func.ty(result)).collect();
    let new = builder.inst(data.op, &operands, &types, data.imm);
    builder.func.insts[new].results[number as usize]
}

/// Tells whether there is an element at these indices, of which those that depend on the thread are not negative.
fn exists(builder: &mut Builder<'_>, place: &[Value], sums: &[AffineSum]) -> Value {
    let n_axes = builder.func.ty(place[0]).as_any_array().map_or(0, |(_, n_axes)| n_axes);
    let mut all: Option<Value> = None;
    for axis in 0..n_axes {
        let index = place[1 + usize::from(axis)];
        let ty = builder.func.ty(index).as_scalar().unwrap_or(Scalar::I32);
        let extent = builder.dim(place[0], axis);
        let end = builder.cast(extent, ty);
        let first = match is_along(&sums[usize::from(axis)]) || !ty.is_signed_int() {
            true => builder.const_int(ty, 0),
            false => builder.op(Op::Neg, &[end]),
        };
        for condition in [builder.op(Op::Ge, &[index, first]), builder.op(Op::Lt, &[index, end])] {
            all = Some(all.map_or(condition, |all| builder.op(Op::BitAnd, &[all, condition])));
        }
    }
    all.unwrap_or_else(|| builder.const_bool(true))
}

/// Puts carried values in the place of accesses.
struct CarryRewriter<'a> {
    func: &'a mut Function,
    accesses: SecondaryMap<Inst, Option<ElementUse>>,
    replaced: ValueReplacements,
}

impl CarryRewriter<'_> {
    /// Has a loop carry the elements that it stores. `values` are what the elements hold before it, and then behind it.
    fn around(&mut self, inst: Inst, values: &mut Values) {
        let regions = self.func.insts[inst].regions.clone();
        let mut is_stored = vec![false; values.len()];
        for &region in &regions {
            self.func.walk(region, &mut |inner, data| {
                if let (Op::ArrayStore, Some(access)) = (data.op, self.accesses[inner]) {
                    is_stored[access.element] = true;
                }
            });
        }
        let slots: SmallVec<[usize; 8]> = (0..values.len()).filter(|&slot| is_stored[slot]).collect();
        let types: Vec<Type> = slots.iter().map(|&slot| self.func.ty(values[slot])).collect();
        let initial: Values = slots.iter().map(|&slot| values[slot]).collect();
        self.func.insts[inst].operands.extend(initial);
        for (number, &region) in regions.iter().enumerate() {
            let mut inner = values.clone();
            for (&slot, &ty) in slots.iter().zip(&types) {
                inner[slot] = self.func.add_region_param(region, ty);
            }
            self.region(region, &mut inner);
            // A `while` yields its condition alone before its body.
            if number + 1 == regions.len() {
                let next: Values = slots.iter().map(|&slot| inner[slot]).collect();
                extend_terminator(self.func, region, &next);
            }
        }
        for (&slot, result) in slots.iter().zip(add_results(self.func, inst, &types)) {
            values[slot] = result;
        }
    }

    /// Takes the accesses out of a region. `values` are what the elements hold at its beginning, and then at its end.
    fn region(&mut self, region: Region, values: &mut Values) {
        for inst in std::mem::take(&mut self.func.regions[region].insts) {
            self.replaced.apply(&mut self.func.insts[inst].operands);
            if let Some(access) = self.accesses[inst] {
                self.access(region, inst, access, values);
                continue;
            }
            match self.func.insts[inst].op {
                Op::ForRange | Op::While => self.around(inst, values),
                Op::If => self.sides(inst, values),
                _ => {}
            }
            self.func.regions[region].insts.push(inst);
        }
    }

    /// Writes what does at the end of a region what an access did.
    fn access(&mut self, region: Region, inst: Inst, access: ElementUse, values: &mut Values) {
        let data = self.func.insts[inst].clone();
        let whole = values[access.element];
        let stored = if data.op == Op::ArrayStore { data.operands.last().copied() } else { None };
        let new = access.component.map_or(stored.unwrap_or(whole), |component| {
            let mut builder = Builder::new(self.func);
            builder.switch_to(region);
            builder.set_span(data.span);
            let (op, ty) = match stored {
                Some(_) => (Op::WithComponent, builder.func.ty(whole)),
                None => (Op::Component, builder.func.ty(data.results[0])),
            };
            let operands: SmallVec<[Value; 2]> = std::iter::once(whole).chain(stored).collect();
            let new = builder.inst(op, &operands, &[ty], Imm::Component(component));
            builder.func.insts[new].results[0]
        });
        match stored {
            Some(_) => values[access.element] = new,
            None => self.replaced.set(data.results[0], new),
        }
    }

    /// Has an `if` hand out the elements that one of its sides stores.
    fn sides(&mut self, inst: Inst, values: &mut Values) {
        let regions = self.func.insts[inst].regions.clone();
        let mut ends: SmallVec<[Values; 2]> = SmallVec::new();
        for &side in &regions {
            let mut end = values.clone();
            self.region(side, &mut end);
            ends.push(end);
        }
        let changed: SmallVec<[usize; 8]> =
            (0..values.len()).filter(|&slot| ends.iter().any(|end| end[slot] != values[slot])).collect();
        for (&side, end) in regions.iter().zip(&ends) {
            let more: Values = changed.iter().map(|&slot| end[slot]).collect();
            extend_terminator(self.func, side, &more);
        }
        let types: Vec<Type> = changed.iter().map(|&slot| self.func.ty(values[slot])).collect();
        for (&slot, result) in changed.iter().zip(add_results(self.func, inst, &types)) {
            values[slot] = result;
        }
    }
}
