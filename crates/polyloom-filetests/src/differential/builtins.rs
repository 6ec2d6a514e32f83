//! Calls of builtins in random kernels.
//!
//! What there is to call and with what is read off the op table, so a new builtin is covered the day it is added.

use super::generate::{ProgramGenerator, ProgramVariable};
use super::program::ArrayUse;
use polyloom_ir::op::{
    ExtentPattern, OpEffect, OpGroup, OpInfo, OpSpelling, Signature, SignatureParam, TyPattern, TypeClass,
};
use polyloom_ir::{Composite, CompositeKind, Op, Scalar, Type};
use std::sync::LazyLock;

/// The most components of values that builtins take and give.
const MAX_COMPONENTS: usize = 36;

/// Parameters that take not every value of their type, and what makes a value one they take. `{}` is the value, `ARRAY`
/// the array before it.
const LIMITS: [(Op, &str, &str); 4] = [
    // As many turns of a loop.
    (Op::Curlnoise, "octaves", "loom.min({}, loom.uint32(3))"),
    (Op::Poisson, "lam", "loom.clamp({}, 0.0, 60.0)"),
    // The limits of a search are not checked.
    (Op::LowerBound, "arr_begin", "loom.clamp({}, 0, ARRAY.shape[0] - 1)"),
    (Op::LowerBound, "arr_end", "loom.clamp({}, 0, ARRAY.shape[0])"),
];

/// An overload that kernels can call.
#[derive(Clone, Copy)]
struct CallableOverload {
    op: Op,
    signature: &'static Signature,
}

static OVERLOADS: LazyLock<Vec<CallableOverload>> = LazyLock::new(|| {
    // Atomics depend on what other threads do, so that `arrays` has them.
    let is_callable = |info: &&OpInfo| info.is_builtin() && !matches!(info.group, OpGroup::Atomic | OpGroup::Gpu);
    let of =
        |info: &'static OpInfo| info.signatures.iter().map(|signature| CallableOverload { op: info.op, signature });
    Op::all().filter(is_callable).flat_map(of).collect()
});

impl CallableOverload {
    /// Returns true if a call can stand where a value is wanted.
    fn is_value(&self) -> bool {
        self.signature.results.len() == 1
    }

    fn changes_variables(&self) -> bool {
        self.signature.params.iter().any(|param| param.inout)
    }
}

/// Describes what the variables of a signature stand for.
#[derive(Clone, Default)]
struct BoundVariables {
    var: Option<Scalar>,
    var2: Option<Scalar>,
    composite: Option<Composite>,
    extents: Vec<(char, i128)>,
}

impl BoundVariables {
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
        if let TyPattern::VectorOf(elem, len) = pattern {
            return composite == Composite::Vector { elem, len };
        }
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

    fn bind_extent(&mut self, extent: ExtentPattern, given: i128) -> bool {
        self.extent(extent, || given) == given
    }

    fn extent(&mut self, extent: ExtentPattern, otherwise: impl FnOnce() -> i128) -> i128 {
        match extent {
            ExtentPattern::Is(extent) => extent.into(),
            ExtentPattern::Var(name) => match self.extents.iter().find(|(known, _)| *known == name) {
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

impl ProgramGenerator {
    /// A call of a builtin, or an operator, that gives a value of this type.
    pub(super) fn builtin(&mut self, result: Type, depth: usize) -> Option<String> {
        let smooth = self.smooth;
        let bound = |overload: &CallableOverload| {
            if smooth && is_decomposition(overload.op) {
                return None;
            }
            let mut bound = BoundVariables::default();
            let [pattern] = overload.signature.results[..] else { return None };
            let is_value = overload.is_value() && overload.op.info().effect != OpEffect::ReadWrite;
            (is_value && bound.bind(pattern, result) && fits_classes(overload.signature, &bound)).then_some(bound)
        };
        let fits: Vec<(CallableOverload, BoundVariables)> =
            OVERLOADS.iter().filter_map(|o| Some((*o, bound(o)?))).collect();
        // Few overloads give scalars, many composites, so that an op is chosen first, then one of its overloads.
        let mut ops: Vec<Op> = fits.iter().map(|(overload, _)| overload.op).collect();
        ops.dedup();
        if ops.is_empty() {
            return None;
        }
        let op = *self.random.pick(&ops);
        let of_op: Vec<(CallableOverload, BoundVariables)> =
            fits.into_iter().filter(|(overload, _)| overload.op == op).collect();
        let (overload, bound) = self.random.pick(&of_op).clone();
        self.call_builtin(overload, bound, depth, Vec::new())
    }

    /// `x, y = loom.BUILTIN(…)`, `loom.BUILTIN(x, y)`: any builtin, or one of those that give several results, change
    /// variables or print. False if none came to mind.
    pub(super) fn builtin_statement(&mut self) -> bool {
        let any = self.random.chance(40);
        let smooth = self.smooth;
        let is_statement = |o: &&CallableOverload| {
            (any || !o.is_value() || o.changes_variables()) && !(smooth && is_decomposition(o.op))
        };
        let statements: Vec<CallableOverload> = OVERLOADS.iter().filter(is_statement).copied().collect();
        let mut ops: Vec<Op> = statements.iter().map(|overload| overload.op).collect();
        ops.dedup();
        let op = *self.random.pick(&ops);
        let of_op: Vec<CallableOverload> = statements.into_iter().filter(|overload| overload.op == op).collect();
        let overload = *self.random.pick(&of_op);
        self.statement_of(overload).is_some()
    }

    /// A search in an array that a thread may read. False if there is none.
    pub(super) fn search(&mut self) -> bool {
        let searches: Vec<CallableOverload> = OVERLOADS.iter().filter(|o| o.op == Op::LowerBound).copied().collect();
        let overload = *self.random.pick(&searches);
        self.statement_of(overload).is_some()
    }

    fn statement_of(&mut self, overload: CallableOverload) -> Option<()> {
        let signature = overload.signature;
        let mut bound = BoundVariables::default();
        if signature.var.is_some() {
            bound.var = Some(self.elem_in(signature)?);
        }
        // Variables for what the call changes.
        let mut changed = Vec::new();
        for param in signature.params.iter().filter(|param| param.inout) {
            let ty = self.resolve(param.ty, &mut bound)?;
            let known: Vec<String> =
                self.assignable_of(ty).into_iter().filter(|name| !changed.contains(name)).collect();
            if !known.is_empty() && self.random.chance(60) {
                changed.push(self.random.pick(&known).clone());
                continue;
            }
            let value = match (ty, self.random.below(3)) {
                (Type::U32, 0..=1) => {
                    format!("loom.rand_init({}, {})", self.expr(Scalar::I32, 2), self.expr(Scalar::I32, 2))
                }
                _ => self.pinned_of(ty, 1),
            };
            let name = self.name("s");
            self.line(&format!("{name} = {value}"));
            self.scope.push(ProgramVariable { name: name.clone(), ty, assignable: true });
            changed.push(name);
        }
        let results: Vec<Type> =
            signature.results.iter().map(|&result| self.resolve(result, &mut bound)).collect::<Option<_>>()?;
        let call = self.call_builtin(overload, bound, 2, changed)?;
        let names: Vec<String> = results.iter().map(|_| self.name("v")).collect();
        if names.is_empty() {
            self.line(&call);
        } else {
            self.line(&format!("{} = {call}", names.join(", ")));
        }
        for (name, ty) in names.into_iter().zip(results) {
            self.scope.push(ProgramVariable { name, ty, assignable: true });
        }
        Some(())
    }

    /// A call with random arguments; `changed` are the variables for its `inout` parameters, or none if the call is to
    /// find variables in scope.
    fn call_builtin(
        &mut self,
        overload: CallableOverload,
        mut bound: BoundVariables,
        depth: usize,
        changed: Vec<String>,
    ) -> Option<String> {
        let signature = overload.signature;
        let array = match signature.params.iter().find(|param| is_array(param)) {
            Some(param) => Some(self.searched_array(param.ty, &mut bound)?),
            None => None,
        };
        if bound.var.is_none() && signature.var.is_some() {
            bound.var = Some(self.elem_in(signature)?);
        }
        let mut changed = changed.into_iter();
        let mut args = Vec::new();
        for param in &signature.params {
            if is_array(param) {
                args.push(array.clone()?);
                continue;
            }
            let ty = self.resolve(param.ty, &mut bound)?;
            if ty.as_composite().is_some_and(|composite| composite.n_components() > MAX_COMPONENTS) {
                return None;
            }
            if param.inout {
                let name = match changed.next() {
                    Some(name) => name,
                    None => {
                        let known = self.assignable_of(ty);
                        if known.is_empty() {
                            return None;
                        }
                        self.random.pick(&known).clone()
                    }
                };
                args.push(name);
                continue;
            }
            let value = self.pinned_of(ty, depth);
            let limit = LIMITS.iter().find(|(op, name, _)| *op == overload.op && *name == param.name);
            args.push(match limit {
                Some((_, _, limit)) => {
                    limit.replace("ARRAY", array.as_deref().unwrap_or_default()).replace("{}", &value)
                }
                None => value,
            });
        }
        let info = overload.op.info();
        if let OpSpelling::Operator(operator) = info.spelling
            && self.random.chance(70)
        {
            match &args[..] {
                [a] => return Some(format!("({operator} {a})")),
                [a, b] => return Some(format!("({a} {operator} {b})")),
                _ => {}
            }
        }
        let names: Vec<&str> = std::iter::once(info.name).chain(info.aliases.iter().copied()).collect();
        let name = *self.random.pick(&names);
        if self.random.chance(10)
            && overload.op != Op::Select
            && let (Some(last), Some(param)) = (args.last_mut(), signature.params.last())
        {
            *last = format!("{}={last}", param.name);
        }
        Some(format!("loom.{name}({})", args.join(", ")))
    }

    /// An array of numbers that a builtin reads.
    fn searched_array(&mut self, pattern: TyPattern, bound: &mut BoundVariables) -> Option<String> {
        let elem = |array: usize| self.arrays[array].elem.as_scalar();
        let fits = |&array: &usize| {
            let read = self.arrays[array].access == ArrayUse::Read && self.arrays[array].ndim == 1;
            read && match (pattern, elem(array)) {
                (TyPattern::ArrayOf(wanted), Some(elem)) => wanted == elem,
                (TyPattern::ListOfVar, Some(elem)) => {
                    bound.var.is_none_or(|var| var == elem) && TypeClass::Wide.contains(elem)
                }
                _ => false,
            }
        };
        let arrays: Vec<usize> = (0..self.arrays.len()).filter(fits).collect();
        if arrays.is_empty() || !self.in_kernel {
            return None;
        }
        let array = *self.random.pick(&arrays);
        if pattern == TyPattern::ListOfVar {
            bound.var = elem(array);
        }
        Some(self.array(array))
    }

    /// The builtins that give a value of this type for so many of this type: what a function that takes functions may
    /// be given.
    pub(super) fn endomorphisms(&self, ty: Type, n_params: usize) -> Vec<String> {
        let fits = |overload: &&CallableOverload| {
            let mut bound = BoundVariables::default();
            let Signature { params, results, .. } = overload.signature;
            let patterns = params.iter().map(|param| param.ty).chain(results.iter().copied());
            let plain = overload.op.info().is_pure() && !overload.changes_variables() && overload.is_value();
            plain
                && params.len() == n_params
                && patterns.into_iter().all(|pattern| bound.bind(pattern, ty))
                && fits_classes(overload.signature, &bound)
        };
        let mut names: Vec<String> =
            OVERLOADS.iter().filter(fits).map(|overload| format!("loom.{}", overload.op.name())).collect();
        names.dedup();
        names
    }

    /// An element type for a signature.
    fn elem_in(&mut self, signature: &Signature) -> Option<Scalar> {
        let class = signature.var?;
        let of_composites = self.composites.iter().map(|composite| composite.elem());
        let fits: Vec<Scalar> =
            of_composites.chain(self.palette.iter().copied()).filter(|&elem| class.contains(elem)).collect();
        if fits.is_empty() { None } else { Some(*self.random.pick(&fits)) }
    }

    /// A type that a pattern can stand for, given what is bound.
    fn resolve(&mut self, pattern: TyPattern, bound: &mut BoundVariables) -> Option<Type> {
        let elem = bound.var;
        let mut extent = |extent: ExtentPattern| bound.extent(extent, || 2 + self.random.below(3) as i128);
        let composite = match pattern {
            TyPattern::Var => return elem.map(Type::Scalar),
            TyPattern::Is(scalar) => return Some(Type::Scalar(scalar)),
            TyPattern::Vector(len) => Composite::new(CompositeKind::Vector, elem?, &[extent(len)]),
            TyPattern::VectorOf(elem, len) => Composite::new(CompositeKind::Vector, elem, &[len.into()]),
            TyPattern::Matrix(rows, cols) => {
                let shape = [extent(rows), extent(cols)];
                Composite::new(CompositeKind::Matrix, elem?, &shape)
            }
            TyPattern::Quaternion => Composite::new(CompositeKind::Quaternion, elem?, &[]),
            TyPattern::Transform => Composite::new(CompositeKind::Transform, elem?, &[]),
            TyPattern::Composite => {
                let fits: Vec<Composite> = self.composites.iter().copied().filter(|c| Some(c.elem()) == elem).collect();
                if bound.composite.is_none() {
                    let other = Composite::Vector { elem: elem?, len: 3 };
                    bound.composite = Some(if fits.is_empty() { other } else { *self.random.pick(&fits) });
                }
                return bound.composite.map(Type::Composite);
            }
            _ => return None,
        };
        composite.ok().map(Type::Composite)
    }
}

fn is_array(param: &SignatureParam) -> bool {
    matches!(param.ty, TyPattern::ListOfVar | TyPattern::ArrayOf(_))
}

fn fits_classes(signature: &Signature, bound: &BoundVariables) -> bool {
    let fits = |scalar: Option<Scalar>, class: Option<TypeClass>| {
        scalar.is_none_or(|scalar| class.is_some_and(|class| class.contains(scalar)))
    };
    fits(bound.var, signature.var) && fits(bound.var2, signature.var2)
}

/// Decompositions, whose derivatives are those of a matrix nearby where values are equal, since not the same in both
/// modes.
fn is_decomposition(op: Op) -> bool {
    matches!(op, Op::Svd2 | Op::Svd3 | Op::Qr3 | Op::Eig3)
}
