//! `scalarise`: composites become their components.
//!
//! It defines what ops on composites compute: the scalar ops it puts in their place, in this order. A value of a
//! composite type becomes one value per component wherever it stands: among operands and results, carried through
//! loops, as parameter and result of functions. An array of composites becomes an array of scalars with the dimensions
//! of an element after its own.
//!
//! All functions of a module are scalarised together: calls change with the signatures of what they call.
//!
//! Library ops on composites (decompositions, noise) become calls here and not in `expand_library`: their definitions
//! take components and give components.
//!
//! Design: `docs/design/composites.md`.

mod algebra;
mod motion;
mod rotation;

use super::expand_library::{library_call, take};
use cranelift_entity::SecondaryMap;
use polyloom_ir::fragment::{FragmentAccess, LanePart, MatrixRole, place};
use polyloom_ir::function::Operands;
use polyloom_ir::op::{Convergence, Lowering};
use polyloom_ir::{
    AddressSpace, Builder, Composite, FuncId, Function, Imm, Inst, InstData, MAX_COMPONENTS, Module, Op, Region,
    Scalar, Type, Value,
};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Holds what `wrap_index` gives for an index that names no place. A row-major number is a sum of such indices, each
/// times the extents after it, whose product is at most `MAX_COMPONENTS`: with this among them it is below zero, and
/// fits an `i32`.
const NO_PLACE: i64 = -(1 << 20);
const _: () = assert!(MAX_COMPONENTS <= 1 << 10);

/// The values that stand for one value: its components, or itself.
type Components = SmallVec<[Value; 4]>;

/// Takes the composites of all functions apart.
pub fn scalarise(module: &mut Module) {
    scalarise_to(module, LengthUse::Apart, FragmentLoads::Apart);
}

/// Describes what becomes of loads of tensor-core fragments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum FragmentLoads {
    /// They are loads of elements.
    Apart,
    /// Those of matrices in shared memory stay, and give their components, where indices count from the start.
    Shared,
}

/// Describes what becomes of lengths of vectors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LengthUse {
    /// They are square roots.
    Apart,
    /// They stay, for their derivatives, because a length has one where the square root of its square has none.
    Whole,
}

/// Works like [`scalarise`].
pub(crate) fn scalarise_to(module: &mut Module, lengths: LengthUse, fragments: FragmentLoads) {
    let has_composites = |func: &Function| {
        let is_whole = |ty: Type| ty.composite_within().is_some();
        func.values.values().any(|value| is_whole(value.ty))
            || func.results.iter().any(|&ty| is_whole(ty))
            || func.insts.values().any(|data| data.op == Op::WrapIndex)
    };
    // Functions of the library, which join the module on the way, have none.
    let with_composites: Vec<FuncId> =
        module.functions.iter().filter(|(_, func)| has_composites(func)).map(|(id, _)| id).collect();
    for id in with_composites {
        let mut function = take(module, id);
        scalarise_function(module, &mut function, lengths, fragments);
        module.functions[id] = function;
    }
}

fn scalarise_function(module: &mut Module, func: &mut Function, lengths: LengthUse, fragments: FragmentLoads) {
    let params = params(func);
    let results: Vec<Type> = func.results.iter().flat_map(|&ty| flat(ty)).collect();
    let params = params.iter().map(|(name, ty)| (&**name, *ty));
    let mut scalar = Function::new(func.name.clone(), func.kind, params, &results);
    scalar.metadata = func.metadata.clone();
    scalar.constraints = func.constraints.clone();
    scalar.span = func.span;
    let body = scalar.body;
    let mut rewrite = ScalariseRewrite {
        module,
        old: func,
        builder: Builder::new(&mut scalar),
        values: SecondaryMap::new(),
        insts: SecondaryMap::new(),
        lengths,
        keeps_fragments: fragments == FragmentLoads::Shared && func.metadata.indices_from_start,
    };
    rewrite.region(func.body, body);
    *func = scalar;
}

/// The names and types of the scalarised function's parameters.
pub fn params(func: &Function) -> Vec<(Arc<str>, Type)> {
    let mut params = Vec::new();
    for (name, &param) in func.param_names.iter().zip(func.params()) {
        let types = flat(func.ty(param));
        let is_composite = func.ty(param).as_composite().is_some();
        params.extend(types.iter().enumerate().map(|(index, &ty)| match is_composite {
            true => (format!("{name}.{index}").into(), ty),
            false => (name.clone(), ty),
        }));
    }
    params
}

/// Returns the composite whose components are the last axes of each array parameter of the scalarised function.
pub fn elements(func: &Function) -> Vec<Option<Composite>> {
    let of = |&param: &Value| {
        let ty = func.ty(param);
        let element = ty.as_any_array().and_then(|(elem, _)| elem.as_composite());
        std::iter::repeat_n(element, flat(ty).len())
    };
    func.params().iter().flat_map(of).collect()
}

/// The types that stand for one type.
fn flat(ty: Type) -> SmallVec<[Type; 4]> {
    match ty {
        Type::CompositeArray { elem, ndim, space } => {
            smallvec![Type::array(elem.elem(), ndim + elem.shape().len() as u8).in_space(space)]
        }
        ty => ty.components(),
    }
}

struct ScalariseRewrite<'a, 'f> {
    /// Holds what the function was taken out of.
    module: &'a mut Module,
    old: &'a Function,
    builder: Builder<'f>,
    values: SecondaryMap<Value, Components>,
    /// Instructions with regions: what `break` and `continue` may name.
    insts: SecondaryMap<Inst, Option<Inst>>,
    lengths: LengthUse,
    keeps_fragments: bool,
}

impl ScalariseRewrite<'_, '_> {
    /// Fills `new` with what `old` is.
    fn region(&mut self, old: Region, new: Region) {
        let mut params = self.builder.func.regions[new].params.clone().into_iter();
        for &param in &self.old.regions[old].params {
            let components = params.by_ref().take(flat(self.old.ty(param)).len()).collect();
            self.define(param, components);
        }
        let outer = self.builder.switch_to(new);
        for &inst in &self.old.regions[old].insts {
            self.inst(inst);
        }
        self.builder.switch_to(outer);
    }

    fn define(&mut self, value: Value, components: Components) {
        if let Some(name) = &self.old.value_names[value] {
            for (index, &component) in components.iter().enumerate() {
                let name = if components.len() == 1 { name.clone() } else { format!("{name}.{index}").into() };
                self.builder.func.value_names[component] = Some(name);
            }
        }
        self.values[value] = components;
    }

    fn inst(&mut self, inst: Inst) {
        let data = &self.old.insts[inst];
        self.builder.set_span(data.span);
        let types: SmallVec<[Type; 4]> = data.operands.iter().map(|&v| self.old.ty(v)).collect();
        let operands: SmallVec<[Components; 4]> = data.operands.iter().map(|&v| self.values[v].clone()).collect();
        let result = data.results.first().map(|&v| self.old.ty(v));
        let on_composites = types.iter().chain(&result).any(|ty| ty.as_composite().is_some());
        if on_composites
            && data.op.info().lowering == Lowering::Library
            && let Some(callee) = library_call(self.module, data.op, &types)
        {
            self.library(inst, callee, &operands);
            return;
        }
        let is_whole = |ty: &Type| ty.as_composite().is_some();
        if let Some(Type::CompositeArray { elem, .. }) = types.first().copied()
            && (result.iter().any(is_whole) || types.last().is_some_and(is_whole))
            && data.op != Op::Call
        {
            let components = self.access(data.op, elem, &operands, &data.imm);
            if let Some(&result) = data.results.first() {
                self.define(result, components);
            }
            return;
        }
        if matches!(data.op, Op::SharedArray | Op::DynamicShared) {
            self.shared(data, &operands);
            return;
        }
        let is_shared = types.first().is_some_and(|ty| ty.space() == Some(AddressSpace::Shared));
        let is_kept = self.keeps_fragments && is_shared && matches!(data.op, Op::MmaLoadA | Op::MmaLoadB);
        if let (Imm::Fragment(fragment), false) = (&data.imm, is_kept) {
            self.fragment(data, &types, &operands, *fragment);
            return;
        }
        if on_composites && data.op.info().convergence != Convergence::None && data.op != Op::Mma && !is_kept {
            self.exchange(data, &operands);
            return;
        }
        if let Imm::Extent(of) = &data.imm {
            let index = self.wrap_index(operands[0][0], of.extent);
            self.define(data.results[0], smallvec![index]);
            return;
        }
        if on_composites && data.op.info().is_pure() {
            let mut components = self.expand(data.op, &data.imm, &types, &operands).into_iter();
            for &result in &data.results {
                let components = components.by_ref().take(flat(self.old.ty(result)).len()).collect();
                self.define(result, components);
            }
            return;
        }
        let flat_operands: Operands = operands.iter().flatten().copied().collect();
        let result_types: SmallVec<[Type; 4]> = data.results.iter().flat_map(|&v| flat(self.old.ty(v))).collect();
        let imm = match &data.imm {
            Imm::Target(target) => Imm::Target(self.insts[*target].unwrap_or(*target)),
            imm => imm.clone(),
        };
        let regions: SmallVec<[Region; 2]> = data
            .regions
            .iter()
            .map(|&region| {
                let params = self.old.regions[region].params.iter().flat_map(|&v| flat(self.old.ty(v)));
                self.builder.create_region(&params.collect::<SmallVec<[Type; 4]>>())
            })
            .collect();
        let new = self.builder.inst(data.op, &flat_operands, &result_types, imm);
        self.builder.func.insts[new].regions.clone_from(&regions);
        self.insts[inst] = Some(new);
        for (&old, &new) in data.regions.iter().zip(&regions) {
            self.region(old, new);
        }
        let mut results = self.builder.func.insts[new].results.clone().into_iter();
        for &result in &data.results {
            let components = results.by_ref().take(flat(self.old.ty(result)).len()).collect();
            self.define(result, components);
        }
    }

    /// A call of the library function that defines an op; those of 16-bit floats compute in `f32`.
    fn library(&mut self, inst: Inst, callee: FuncId, operands: &[Components]) {
        let results = &self.old.insts[inst].results;
        let types: SmallVec<[Type; 4]> = results.iter().flat_map(|&result| flat(self.old.ty(result))).collect();
        let is_half = |ty: Type| ty.as_scalar().is_some_and(Scalar::is_half);
        let operands: Operands = operands
            .iter()
            .flatten()
            .map(|&value| match is_half(self.builder.func.ty(value)) {
                true => self.builder.cast(value, Scalar::F32),
                false => value,
            })
            .collect();
        let wide: SmallVec<[Type; 4]> = types.iter().map(|&ty| if is_half(ty) { Type::F32 } else { ty }).collect();
        let values = self.builder.call(callee, &operands, &wide);
        let narrow = values.into_iter().zip(types).map(|(value, ty)| match ty {
            Type::Scalar(scalar) => self.builder.cast(value, scalar),
            _ => value,
        });
        let mut components = narrow.collect::<Components>().into_iter();
        for &result in results {
            let components = components.by_ref().take(flat(self.old.ty(result)).len()).collect();
            self.define(result, components);
        }
    }

    /// A load, a store or an atomic update of all components of an element.
    fn access(&mut self, op: Op, elem: Composite, operands: &[Components], imm: &Imm) -> Components {
        let reads = matches!(op, Op::ArrayLoad | Op::LoadReadonly);
        let (indices, value) = match operands.split_last() {
            Some((value, indices)) if !reads => (indices, Some(value)),
            _ => (operands, None),
        };
        let shape = elem.shape();
        let scalar = Type::Scalar(elem.elem());
        (0..elem.n_components())
            .filter_map(|component| {
                let mut all: Operands = indices.iter().flatten().copied().collect();
                match shape[..] {
                    [_, n_cols] => {
                        for index in [component / usize::from(n_cols), component % usize::from(n_cols)] {
                            all.push(self.builder.const_int(Scalar::I32, index as i64));
                        }
                    }
                    _ => all.push(self.builder.const_int(Scalar::I32, component as i64)),
                }
                all.extend(value.map(|value| value[component]));
                let results: &[Type] = if op == Op::ArrayStore { &[] } else { &[scalar] };
                let inst = self.builder.inst(op, &all, results, imm.clone());
                self.builder.func.insts[inst].results.first().copied()
            })
            .collect()
    }

    /// A shared array: its elements' dimensions follow its own.
    fn shared(&mut self, data: &InstData, operands: &[Components]) {
        let ty = self.old.ty(data.results[0]);
        let inner = ty.composite_within().map(Composite::shape).unwrap_or_default();
        let mut operands: Operands = operands.iter().flatten().copied().collect();
        let mut imm = data.imm.clone();
        match &mut imm {
            Imm::Shared(array) => array.extents.extend(inner.iter().map(|&extent| u32::from(extent))),
            _ => operands.extend(inner.iter().map(|&extent| self.builder.const_int(Scalar::I32, extent.into()))),
        }
        let new = self.builder.inst(data.op, &operands, &flat(ty), imm);
        let array = self.builder.func.insts[new].results[0];
        self.define(data.results[0], smallvec![array]);
    }

    /// A lane's part of a matrix: a load or a store of each of its elements.
    fn fragment(&mut self, data: &InstData, types: &[Type], operands: &[Components], fragment: FragmentAccess) {
        let matrix = match data.op {
            Op::MmaLoadA => MatrixRole::A,
            Op::MmaLoadB => MatrixRole::B,
            _ => MatrixRole::C,
        };
        let Some((elem, _)) = types[0].as_array() else { return };
        let (array, origin) = (operands[0][0], [operands[1][0], operands[2][0]]);
        let stored = operands.get(3);
        let n_elements = match (stored, data.results.first()) {
            (Some(value), _) => value.len(),
            (None, result) => result.map_or(0, |&result| flat(self.old.ty(result)).len()),
        };
        let new = self.builder.inst(Op::LaneId, &[], &[Type::I32], Imm::None);
        let lane = self.builder.func.insts[new].results[0];
        let [two, three] = [2, 3].map(|n| self.builder.const_int(Scalar::I32, n));
        let parts = [self.op(Op::Rshift, &[lane, two]), self.op(Op::BitAnd, &[lane, three])];
        let mut components = Components::new();
        for number in 0..n_elements {
            let place = place(matrix, elem, number);
            let mut indices = [(place.row, origin[0]), (place.column, origin[1])].map(|(coordinate, first)| {
                let part = parts[usize::from(coordinate.part == LanePart::Member)];
                let [factor, offset] =
                    [coordinate.factor, coordinate.offset].map(|n| self.builder.const_int(Scalar::I32, n.into()));
                let scaled = self.op(Op::Mul, &[part, factor]);
                let inside = self.op(Op::Add, &[scaled, offset]);
                self.op(Op::Add, &[first, inside])
            });
            if fragment.by_columns {
                indices.swap(0, 1);
            }
            let element = [array, indices[0], indices[1]];
            match stored {
                Some(value) => {
                    let operands = [element[0], element[1], element[2], value[number]];
                    self.builder.inst(Op::ArrayStore, &operands, &[], Imm::None);
                }
                None => components.push(self.builder.op(Op::ArrayLoad, &element)),
            }
        }
        if let Some(&result) = data.results.first() {
            self.define(result, components);
        }
    }

    /// A shuffle or a reduction of a composite: that of each component.
    fn exchange(&mut self, data: &InstData, operands: &[Components]) {
        let Some((value, others)) = operands.split_first() else { return };
        let result = flat(self.old.ty(data.results[0]));
        let components = value.iter().zip(result).map(|(&component, ty)| {
            let operands: Operands = std::iter::once(component).chain(others.iter().flatten().copied()).collect();
            let new = self.builder.inst(data.op, &operands, &[ty], data.imm.clone());
            self.builder.func.insts[new].results[0]
        });
        let components = components.collect();
        self.define(data.results[0], components);
    }

    fn op(&mut self, op: Op, operands: &[Value]) -> Value {
        self.builder.op(op, operands)
    }

    fn zip(&mut self, op: Op, a: &[Value], b: &[Value]) -> Components {
        a.iter().zip(b).map(|(&a, &b)| self.op(op, &[a, b])).collect()
    }

    /// The sum of the products, from the first on.
    fn dot(&mut self, a: &[Value], b: &[Value]) -> Value {
        let products = self.zip(Op::Mul, a, b);
        self.sum(&products)
    }

    fn sum(&mut self, terms: &[Value]) -> Value {
        self.fold(Op::Add, terms)
    }

    /// `a * b - c * d`.
    fn difference(&mut self, [a, b, c, d]: [Value; 4]) -> Value {
        let (first, second) = (self.op(Op::Mul, &[a, b]), self.op(Op::Mul, &[c, d]));
        self.op(Op::Sub, &[first, second])
    }

    fn cross(&mut self, a: &[Value], b: &[Value]) -> Components {
        [(1, 2), (2, 0), (0, 1)].into_iter().map(|(i, j)| self.difference([a[i], b[j], a[j], b[i]])).collect()
    }

    fn number(&mut self, elem: Scalar, value: i64) -> Value {
        let integer = self.builder.const_int(Scalar::I32, value);
        self.builder.cast(integer, elem)
    }

    fn scale(&mut self, x: &[Value], by: Value) -> Components {
        x.iter().map(|&x| self.op(Op::Mul, &[x, by])).collect()
    }

    fn constant(&mut self, elem: Scalar, value: f64) -> Value {
        let value = self.builder.const_bits(Scalar::F64, value.to_bits());
        self.builder.cast(value, elem)
    }

    fn negate(&mut self, x: &[Value]) -> Components {
        x.iter().map(|&x| self.op(Op::Neg, &[x])).collect()
    }

    /// One value of several, combined from the first on.
    fn fold(&mut self, op: Op, x: &[Value]) -> Value {
        let mut folded = x[0];
        for &next in &x[1..] {
            folded = self.op(op, &[folded, next]);
        }
        folded
    }

    /// Both results where a condition holds and where it does not.
    fn choose(&mut self, cond: Value, a: &[Value], b: &[Value]) -> Components {
        a.iter().zip(b).map(|(&a, &b)| self.op(Op::Select, &[cond, a, b])).collect()
    }

    /// Returns what `wrap_index` gives.
    fn wrap_index(&mut self, index: Value, extent: u16) -> Value {
        let scalar = self.builder.func.ty(index).as_scalar().unwrap_or(Scalar::I32);
        let (signed, unsigned) =
            if scalar.bits() == 64 { (Scalar::I64, Scalar::U64) } else { (Scalar::I32, Scalar::U32) };
        let mut place = index;
        if !scalar.is_unsigned_int() {
            place = self.builder.cast(index, signed);
            let zero = self.builder.const_int(signed, 0);
            let is_negative = self.op(Op::Lt, &[place, zero]);
            let extent = self.builder.const_int(signed, extent.into());
            let from_end = self.op(Op::Add, &[place, extent]);
            place = self.op(Op::Select, &[is_negative, from_end, place]);
        }
        let distance = self.builder.cast(place, unsigned);
        let extent = self.builder.const_int(unsigned, extent.into());
        let is_place = self.op(Op::Lt, &[distance, extent]);
        let place = self.builder.cast(place, Scalar::I32);
        let none = self.builder.const_int(Scalar::I32, NO_PLACE);
        self.op(Op::Select, &[is_place, place, none])
    }

    /// Tells whether this is the component that an index names.
    fn names(&mut self, index: Value, component: usize) -> Value {
        let component = self.builder.const_int(Scalar::I32, component as i64);
        self.builder.op(Op::Eq, &[index, component])
    }

    /// The components of what a pure op gives.
    fn expand(&mut self, op: Op, imm: &Imm, types: &[Type], operands: &[Components]) -> Components {
        let composite = types.iter().find_map(|ty| ty.as_composite());
        let scalar = types.iter().find_map(|ty| ty.as_scalar());
        let elem = composite.map(Composite::elem).or(scalar).unwrap_or(Scalar::F32);
        match (op, operands, imm) {
            (Op::Construct, _, _) => operands.iter().flatten().copied().collect(),
            (Op::Component, [x], Imm::Component(component)) => smallvec![x[usize::from(*component)]],
            (Op::WithComponent, [x, value], Imm::Component(component)) => {
                let mut x = x.clone();
                x[usize::from(*component)] = value[0];
                x
            }
            (Op::ComponentAt, [x, index], _) => {
                let mut found = self.number(elem, 0);
                for (place, &component) in x.iter().enumerate() {
                    let hit = self.names(index[0], place);
                    found = self.op(Op::Select, &[hit, component, found]);
                }
                smallvec![found]
            }
            (Op::WithComponentAt, [x, index, value], _) => (0..x.len())
                .map(|place| {
                    let hit = self.names(index[0], place);
                    self.op(Op::Select, &[hit, value[0], x[place]])
                })
                .collect(),
            (Op::Select, [cond, a, b], _) => self.choose(cond[0], a, b),
            (
                Op::Add
                | Op::Sub
                | Op::Min
                | Op::Max
                | Op::Mod
                | Op::BitAnd
                | Op::BitOr
                | Op::BitXor
                | Op::Lshift
                | Op::Rshift,
                [a, b],
                _,
            ) => self.zip(op, a, b),
            (Op::CwMul, [a, b], _) => self.zip(Op::Mul, a, b),
            (Op::CwDiv, [a, b], _) => self.zip(Op::Div, a, b),
            (Op::Min | Op::Max, [x], _) => smallvec![self.fold(op, x)],
            (Op::Argmin | Op::Argmax, [x], _) => smallvec![self.first_extreme(op, elem, x)],
            (Op::IsNan | Op::IsInf | Op::IsFinite, [x], _) => {
                let each: Components = x.iter().map(|&x| self.op(op, &[x])).collect();
                smallvec![self.fold(if op == Op::IsFinite { Op::BitAnd } else { Op::BitOr }, &each)]
            }
            (Op::Neg | Op::Abs | Op::Sign | Op::Invert, [x], _) => x.iter().map(|&x| self.op(op, &[x])).collect(),
            (Op::Div, [a, b], _) if types[0].as_scalar().is_some() => {
                b.iter().map(|&b| self.op(Op::Div, &[a[0], b])).collect()
            }
            (Op::Div, [a, b], _) => a.iter().map(|&a| self.op(Op::Div, &[a, b[0]])).collect(),
            (Op::Eq | Op::Ne, [a, b], _) => {
                let each = self.zip(op, a, b);
                smallvec![self.fold(if op == Op::Eq { Op::BitAnd } else { Op::BitOr }, &each)]
            }
            (Op::Mul, [a, b], _) => self.product(types, a, b),
            (Op::Lerp, [a, b, t], _) => {
                let one = self.number(elem, 1);
                let rest = self.op(Op::Sub, &[one, t[0]]);
                let (a, b) = (self.scale(a, rest), self.scale(b, t[0]));
                self.zip(Op::Add, &a, &b)
            }
            (Op::Dot, [a, b], _) => smallvec![self.dot(a, b)],
            (Op::Ddot, [a, b], _) => smallvec![self.fused_dot(elem, a, b)],
            (Op::Cross, [a, b], _) => self.cross(a, b),
            (Op::LengthSq, [x], _) => smallvec![self.dot(x, x)],
            (Op::Length, [x], _) => smallvec![self.length(x)],
            (Op::Normalize, [x], _) => self.normalize(composite, elem, x),
            (Op::Pos, [x], _) => x.clone(),
            (Op::NormL1, [x], _) => {
                let magnitudes: Components = x.iter().map(|&x| self.op(Op::Abs, &[x])).collect();
                smallvec![self.sum(&magnitudes)]
            }
            (Op::NormHuber, [x, delta @ ..], _) => smallvec![self.huber(elem, x, delta)],
            (Op::NormPseudoHuber, [x, delta @ ..], _) => smallvec![self.pseudo_huber(elem, x, delta)],
            (Op::SmoothNormalize, [x, delta @ ..], _) => {
                let norm = self.pseudo_huber(elem, x, delta);
                x.iter().map(|&x| self.op(Op::Div, &[x, norm])).collect()
            }
            (Op::Outer, [a, b], _) => a.iter().flat_map(|&a| self.scale(b, a)).collect(),
            (Op::Transpose, [x], _) => match composite {
                Some(Composite::Matrix { rows, cols, .. }) => {
                    let (rows, cols) = (usize::from(rows), usize::from(cols));
                    (0..cols).flat_map(|col| (0..rows).map(move |row| x[row * cols + col])).collect()
                }
                _ => x.clone(),
            },
            (Op::Trace, [x], _) => {
                let diagonal = diagonal(x);
                smallvec![self.sum(&diagonal)]
            }
            (Op::GetDiag, [x], _) => diagonal(x),
            (Op::Diag, [x], _) => {
                let (zero, n) = (self.number(elem, 0), x.len());
                (0..n * n).map(|place| if place % (n + 1) == 0 { x[place / n] } else { zero }).collect()
            }
            (Op::Determinant, [x], _) => smallvec![self.determinant(x)],
            (Op::Inverse, [x], _) => self.inverse(elem, x),
            (Op::Skew, [x], _) => {
                let zero = self.number(elem, 0);
                let minus = self.negate(x);
                smallvec![zero, minus[2], x[1], x[2], zero, minus[0], minus[1], x[0], zero]
            }
            _ if let Some(components) = self.rotation(op, elem, operands) => components,
            // The verifier admits no other op on composites.
            _ => operands.iter().flatten().copied().collect(),
        }
    }
}

/// The diagonal of a square matrix.
fn diagonal(matrix: &[Value]) -> Components {
    let n = (1..=matrix.len()).find(|n| n * n >= matrix.len()).unwrap_or(1);
    matrix.iter().step_by(n + 1).copied().collect()
}
