//! Vectors, matrices, quaternions and transforms in random kernels.
//!
//! What can be done with them is read off the op table, so a new builtin is covered the day it is added.

use super::generate::{Generator, Variable};
use super::program::Access;
use polyloom_ir::op::{Effect, Extent, OpInfo, Param, Signature, Spelling, TyPattern, TypeClass};
use polyloom_ir::{Composite, CompositeKind, Op, Scalar, Type};
use std::sync::LazyLock;

/// The most components of values that builtins take and give.
const MAX_COMPONENTS: usize = 36;

/// An overload that kernels can call for its value, and that has to do with composites.
#[derive(Clone, Copy)]
struct Overload {
    op: Op,
    signature: &'static Signature,
}

static OVERLOADS: LazyLock<Vec<Overload>> = LazyLock::new(|| {
    let of = |info: &'static OpInfo| {
        let signatures = info.signatures.iter().filter(|s| s.has_composites() && s.params.iter().all(is_value));
        signatures.map(|signature| Overload { op: info.op, signature })
    };
    let is_value = |info: &&OpInfo| info.effect == Effect::Pure && info.spelling != Spelling::Internal;
    Op::all().filter(is_value).flat_map(of).collect()
});

fn is_value(param: &Param) -> bool {
    use TyPattern::{ArrayOf, ArrayOfComponents, ArrayOfComposite, ArrayOfVar, Indices};
    !param.inout && !matches!(param.ty, Indices | ArrayOf(_) | ArrayOfVar | ArrayOfComposite | ArrayOfComponents)
}

/// What the variables of a signature stand for.
#[derive(Clone, Default)]
struct Bound {
    var: Option<Scalar>,
    var2: Option<Scalar>,
    composite: Option<Composite>,
    extents: Vec<(char, i128)>,
}

impl Bound {
    /// Makes `pattern` stand for `ty`; false if it cannot.
    fn bind(&mut self, pattern: TyPattern, ty: Type) -> bool {
        let composite = match ty {
            Type::Scalar(scalar) => {
                return match pattern {
                    TyPattern::Var => *self.var.get_or_insert(scalar) == scalar,
                    TyPattern::Var2 => *self.var2.get_or_insert(scalar) == scalar,
                    TyPattern::Is(wanted) => wanted == scalar,
                    _ => false,
                };
            }
            Type::Composite(composite) => composite,
            _ => return false,
        };
        if *self.var.get_or_insert(composite.elem()) != composite.elem() {
            return false;
        }
        match (pattern, composite) {
            (TyPattern::Composite, _) => *self.composite.get_or_insert(composite) == composite,
            (TyPattern::Vector(wanted), Composite::Vector { len, .. }) => self.bind_extent(wanted, len.into()),
            (TyPattern::Matrix(n_rows, n_cols), Composite::Matrix { rows, cols, .. }) => {
                self.bind_extent(n_rows, rows.into()) && self.bind_extent(n_cols, cols.into())
            }
            (TyPattern::Quaternion, Composite::Quaternion { .. })
            | (TyPattern::Transform, Composite::Transform { .. }) => true,
            _ => false,
        }
    }

    fn bind_extent(&mut self, extent: Extent, given: i128) -> bool {
        self.extent(extent, || given) == given
    }

    fn extent(&mut self, extent: Extent, otherwise: impl FnOnce() -> i128) -> i128 {
        match extent {
            Extent::Is(extent) => extent.into(),
            Extent::Var(name) => match self.extents.iter().find(|(known, _)| *known == name) {
                Some(&(_, extent)) => extent,
                None => {
                    let extent = otherwise();
                    self.extents.push((name, extent));
                    extent
                }
            },
        }
    }
}

impl Generator {
    /// Composites that this program draws from; often none.
    pub(super) fn draw_composites(&mut self) {
        if self.random.chance(40) {
            return;
        }
        for _ in 0..1 + self.random.below(3) {
            let elem = match self.number() {
                elem if elem.is_float() || self.random.chance(60) => elem,
                _ => Scalar::F32,
            };
            let extent = |this: &mut Generator| 2 + this.random.below(3) as i128;
            let (kind, shape) = match self.random.below(9) {
                0 if elem.is_float() => (CompositeKind::Quaternion, vec![]),
                1 if elem.is_float() => (CompositeKind::Transform, vec![]),
                2 => (CompositeKind::Vector, vec![*self.random.pick(&[1, 5, 6, 7])]),
                3 => (CompositeKind::Matrix, vec![extent(self), extent(self)]),
                4..=5 => {
                    let n = extent(self);
                    (CompositeKind::Matrix, vec![n, n])
                }
                _ => (CompositeKind::Vector, vec![extent(self)]),
            };
            if let Ok(composite) = Composite::new(kind, elem, &shape) {
                self.composites.push(composite);
            }
        }
        self.composite_budget = 6 + self.random.below(14) as i32;
    }

    /// One of the program's composites, if it has any.
    pub(super) fn any_composite(&mut self) -> Option<Composite> {
        if self.composites.is_empty() { None } else { Some(*self.random.pick(&self.composites)) }
    }

    /// The name of a type in the program's text.
    pub(super) fn type_name(&mut self, ty: Type) -> String {
        let composite = match ty {
            Type::Composite(composite) => composite,
            Type::Scalar(scalar) => return format!("loom.{}", scalar.python_name()),
            other => unreachable!("programs have no variables of type {other}"),
        };
        let name = composite.python_name();
        let Some((maker, _)) = name.split_once('(') else { return format!("loom.{name}") };
        let elem = composite.elem().python_name();
        let shape = composite.shape();
        let made = match composite {
            Composite::Vector { .. } => format!("loom.types.{maker}(length={}, dtype=loom.{elem})", shape[0]),
            _ => format!("loom.types.{maker}(shape=({}, {}), dtype=loom.{elem})", shape[0], shape[1]),
        };
        if let Some(index) = self.named_types.iter().position(|known| *known == made) {
            return format!("T{index}");
        }
        self.named_types.push(made);
        format!("T{}", self.named_types.len() - 1)
    }

    /// An expression of a composite type.
    pub(super) fn composite(&mut self, ty: Composite, depth: usize) -> String {
        if depth == 0 || self.composite_budget <= 0 || self.random.chance(20) {
            return self.composite_leaf(ty);
        }
        self.composite_budget -= 1;
        let d = depth - 1;
        match self.random.below(8) {
            0 => self.construct(ty, d),
            1 => {
                let cond = self.expr(Scalar::Bool, d);
                let (a, b) = (self.composite(ty, d), self.composite(ty, d));
                format!("({a} if {cond} else {b})")
            }
            2 => self.load(Type::Composite(ty)).unwrap_or_else(|| self.composite_leaf(ty)),
            3 => match self.function_with_result(Type::Composite(ty)) {
                Some(index) => self.call(index, d),
                None => self.construct(ty, d),
            },
            _ => self.builtin(Type::Composite(ty), d).unwrap_or_else(|| self.composite_leaf(ty)),
        }
    }

    fn composite_leaf(&mut self, ty: Composite) -> String {
        match self.variable(Type::Composite(ty)) {
            Some(name) => name,
            None => self.construct(ty, 0),
        }
    }

    fn construct(&mut self, ty: Composite, depth: usize) -> String {
        let name = self.type_name(Type::Composite(ty));
        let elem = ty.elem();
        let fills = matches!(ty, Composite::Vector { .. } | Composite::Matrix { .. });
        match self.random.below(6) {
            0 => format!("{name}()"),
            1 if fills => format!("{name}({})", self.pinned(elem, depth)),
            _ => {
                let of_components = |this: &mut Generator| {
                    let shallow = if this.random.chance(80) { 0 } else { depth };
                    this.pinned(elem, shallow)
                };
                let components: Vec<String> = (0..ty.n_components()).map(|_| of_components(self)).collect();
                format!("{name}({})", components.join(", "))
            }
        }
    }

    /// A call of a builtin, or an operator, that has to do with composites and gives a value of this type.
    pub(super) fn builtin(&mut self, result: Type, depth: usize) -> Option<String> {
        let bound = |overload: &Overload| {
            let mut bound = Bound::default();
            let [pattern] = overload.signature.results[..] else { return None };
            (bound.bind(pattern, result) && fits_classes(overload.signature, &bound)).then_some(bound)
        };
        let fits: Vec<(Overload, Bound)> = OVERLOADS.iter().filter_map(|o| Some((*o, bound(o)?))).collect();
        // Few overloads give scalars, many composites: an op each, then one of its overloads.
        let ops: Vec<Op> = fits.iter().map(|(overload, _)| overload.op).collect();
        if ops.is_empty() {
            return None;
        }
        let op = *self.random.pick(&ops);
        let of_op: Vec<(Overload, Bound)> = fits.into_iter().filter(|(overload, _)| overload.op == op).collect();
        let (overload, bound) = self.random.pick(&of_op).clone();
        self.call_builtin(overload, bound, depth)
    }

    /// `x, y = loom.BUILTIN(…)`.
    fn unpack_builtin(&mut self) -> Option<()> {
        let several: Vec<Overload> = OVERLOADS.iter().filter(|o| o.signature.results.len() > 1).copied().collect();
        let overload = *self.random.pick(&several);
        let mut bound = Bound { var: Some(self.elem_in(overload.signature)?), ..Bound::default() };
        let results: Vec<Type> =
            overload.signature.results.iter().map(|&result| self.resolve(result, &mut bound)).collect::<Option<_>>()?;
        let call = self.call_builtin(overload, bound, 2)?;
        let names: Vec<String> = results.iter().map(|_| self.name("v")).collect();
        self.line(&format!("{} = {call}", names.join(", ")));
        for (name, ty) in names.into_iter().zip(results) {
            self.scope.push(Variable { name, ty, assignable: true });
        }
        Some(())
    }

    fn call_builtin(&mut self, overload: Overload, mut bound: Bound, depth: usize) -> Option<String> {
        if bound.var.is_none() && overload.signature.var.is_some() {
            bound.var = Some(self.elem_in(overload.signature)?);
        }
        let patterns = overload.signature.params.iter().map(|param| param.ty);
        let types: Vec<Type> = patterns.map(|pattern| self.resolve(pattern, &mut bound)).collect::<Option<_>>()?;
        let is_small = |ty: &Type| ty.as_composite().is_none_or(|c| c.n_components() <= MAX_COMPONENTS);
        if !types.iter().all(is_small) {
            return None;
        }
        let args: Vec<String> = types.into_iter().map(|ty| self.pinned_of(ty, depth)).collect();
        let info = overload.op.info();
        Some(match (info.spelling, &args[..]) {
            (Spelling::Operator(operator), [a]) => format!("({operator}{a})"),
            (Spelling::Operator(operator), [a, b]) => format!("({a} {operator} {b})"),
            _ => format!("loom.{}({})", info.name, args.join(", ")),
        })
    }

    /// An element type for a signature.
    fn elem_in(&mut self, signature: &Signature) -> Option<Scalar> {
        let class = signature.var?;
        let fits: Vec<Scalar> = self.composites.iter().map(|c| c.elem()).filter(|&elem| class.contains(elem)).collect();
        if fits.is_empty() { None } else { Some(*self.random.pick(&fits)) }
    }

    /// A type that a pattern can stand for, given what is bound.
    fn resolve(&mut self, pattern: TyPattern, bound: &mut Bound) -> Option<Type> {
        let elem = bound.var;
        let mut extent = |extent: Extent| bound.extent(extent, || 2 + self.random.below(3) as i128);
        let composite = match pattern {
            TyPattern::Var => return elem.map(Type::Scalar),
            TyPattern::Is(scalar) => return Some(Type::Scalar(scalar)),
            TyPattern::Vector(len) => Composite::new(CompositeKind::Vector, elem?, &[extent(len)]),
            TyPattern::Matrix(rows, cols) => {
                let shape = [extent(rows), extent(cols)];
                Composite::new(CompositeKind::Matrix, elem?, &shape)
            }
            TyPattern::Quaternion => Composite::new(CompositeKind::Quaternion, elem?, &[]),
            TyPattern::Transform => Composite::new(CompositeKind::Transform, elem?, &[]),
            TyPattern::Composite => {
                let fits: Vec<Composite> = self.composites.iter().copied().filter(|c| Some(c.elem()) == elem).collect();
                if bound.composite.is_none() && !fits.is_empty() {
                    bound.composite = Some(*self.random.pick(&fits));
                }
                return bound.composite.map(Type::Composite);
            }
            _ => return None,
        };
        composite.ok().map(Type::Composite)
    }

    /// A component of a variable.
    pub(super) fn component(&mut self, elem: Scalar) -> Option<String> {
        let of_elem = |v: &&Variable| v.ty.as_composite().is_some_and(|composite| composite.elem() == elem);
        let fits: Vec<(String, Option<Composite>)> =
            self.scope.iter().filter(of_elem).map(|v| (v.name.clone(), v.ty.as_composite())).collect();
        if fits.is_empty() {
            return None;
        }
        let (name, composite) = self.random.pick(&fits).clone();
        let place = self.place(composite?);
        Some(format!("{name}{place}"))
    }

    /// What selects a component: `[1]`, `[-1, 0]`, `.x`, an index computed at run time.
    fn place(&mut self, ty: Composite) -> String {
        let letters = ["x", "y", "z", "w"];
        if let Composite::Vector { len: len @ 1..=4, .. } = ty
            && self.random.chance(30)
        {
            return format!(".{}", self.random.pick(&letters[..len.into()]));
        }
        let indices: Vec<String> = ty.shape().iter().map(|&extent| self.component_index(extent)).collect();
        format!("[{}]", indices.join(", "))
    }

    fn component_index(&mut self, extent: u16) -> String {
        match self.random.below(3) {
            0 => format!("loom.clamp({}, -{extent}, {extent} - 1)", self.pinned(Scalar::I32, 1)),
            _ => (self.random.below(2 * usize::from(extent)) as i32 - i32::from(extent)).to_string(),
        }
    }

    /// A statement about composites. False if none came to mind.
    pub(super) fn composite_statement(&mut self) -> bool {
        let Some(ty) = self.any_composite() else { return false };
        match self.random.below(6) {
            0 => return self.unpack_builtin().is_some(),
            1..=2 => {
                let value = self.composite(ty, 3);
                let name = self.name("v");
                self.line(&format!("{name} = {value}"));
                self.scope.push(Variable { name, ty: Type::Composite(ty), assignable: true });
            }
            3 => return self.store_component(),
            _ => {
                let targets: Vec<Variable> =
                    self.scope.iter().filter(|v| v.assignable && v.ty.as_composite().is_some()).cloned().collect();
                if targets.is_empty() {
                    return false;
                }
                let Variable { name, ty, .. } = self.random.pick(&targets).clone();
                let Some(ty) = ty.as_composite() else { return false };
                self.assign_composite(&name, ty);
            }
        }
        true
    }

    /// Assigns a variable, or a part of it.
    pub(super) fn assign_composite(&mut self, name: &str, ty: Composite) {
        let elem = ty.elem();
        match self.random.below(6) {
            0..=1 => {
                let value = self.composite(ty, 3);
                self.line(&format!("{name} = {value}"));
            }
            2 => {
                let operator = *self.random.pick(&["+=", "-="]);
                let value = self.composite(ty, 2);
                self.line(&format!("{name} {operator} {value}"));
            }
            3 if matches!(ty, Composite::Matrix { .. }) => {
                let shape = ty.shape();
                let Ok(row) = Composite::new(CompositeKind::Vector, elem, &[shape[1].into()]) else { return };
                let index = self.component_index(shape[0]);
                let value = self.composite(row, 2);
                self.line(&format!("{name}[{index}] = {value}"));
            }
            _ => {
                let place = self.place(ty);
                let operator = if self.random.chance(30) { "+=" } else { "=" };
                let value = self.pinned(elem, 2);
                self.line(&format!("{name}{place} {operator} {value}"));
            }
        }
    }

    /// `a[i][1] = x`: a component of the thread's own element.
    fn store_component(&mut self) -> bool {
        let own = |&a: &usize| {
            let array = &self.arrays[a];
            self.in_kernel && array.access == Access::Own && array.elem.as_composite().is_some()
        };
        let arrays: Vec<usize> = (0..self.arrays.len()).filter(own).collect();
        if arrays.is_empty() {
            return false;
        }
        let array = *self.random.pick(&arrays);
        let Some(ty) = self.arrays[array].elem.as_composite() else { return false };
        let (index, place) = (self.own_index(), self.place(ty));
        let operator = if self.random.chance(30) { "+=" } else { "=" };
        let value = self.pinned(ty.elem(), 2);
        let name = self.array(array);
        self.line(&format!("{name}[{index}]{place} {operator} {value}"));
        true
    }
}

fn fits_classes(signature: &Signature, bound: &Bound) -> bool {
    let fits = |scalar: Option<Scalar>, class: Option<TypeClass>| {
        scalar.is_none_or(|scalar| class.is_some_and(|class| class.contains(scalar)))
    };
    fits(bound.var, signature.var) && fits(bound.var2, signature.var2)
}
