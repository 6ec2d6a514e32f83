//! Vectors, matrices, quaternions and transforms: how they are made, and their components.

use super::call::argument_types;
use super::function::Checker;
use crate::typed_ast::{ComponentIndex, Expr, ExprKind, ExprType, Target};
use polyloom_ir::{Code, Composite, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

/// The names of a vector's first components, and of a quaternion's.
const NAMES: [&str; 4] = ["x", "y", "z", "w"];

impl<'a> Checker<'_, '_, 'a> {
    /// `vec3(x, y, z)`, `vec3(x)`, `vec3()`, and of parts: `quat(vec3, w)`, `transform(vec3, quat)`.
    pub(super) fn construction(
        &mut self,
        composite: Composite,
        call: &'a ast::ExprCall,
        path: &[&'a str],
        span: Span,
    ) -> Expr {
        let Some(arguments) = self.arguments(call) else { return Expr::error(span) };
        let (elem, n) = (composite.elem(), composite.n_components());
        let name = path.join(".");
        let given = argument_types(&arguments);
        let is_named = arguments.iter().any(|argument| argument.name.is_some());
        let mut components: Vec<Expr> = Vec::with_capacity(n);
        let mut fits = !is_named;
        for argument in arguments {
            let value = argument.value;
            if value.untyped().is_some_and(|number| number.adapts_to(elem)) {
                components.push(self.adapt(value, elem.into()));
                continue;
            }
            let value = self.settle(value);
            match value.ty.as_value() {
                Some(Type::Scalar(scalar)) if scalar == elem => components.push(value),
                Some(Type::Composite(part)) if part.elem() == elem || part.with_elem(elem) == composite => {
                    // A part is written out once for each of its components.
                    if !matches!(value.kind, ExprKind::Local(_)) && part.n_components() > 1 {
                        let message = format!("a part of `{name}` must be a variable");
                        return self.reject(Code::Unsupported, value.span, message, "assign it to a variable first");
                    }
                    for index in 0..part.n_components() as u16 {
                        let of = component(value.clone(), part, ComponentIndex::Is(index), value.span);
                        components.push(self.convert(of, elem, value.span));
                    }
                }
                Some(_) => fits = false,
                None => return Expr::error(span),
            }
        }
        match components.len() {
            0 if fits && matches!(composite, Composite::Transform { .. }) => fits = false,
            0 => components = (0..n).map(|_| Expr::constant(0, elem, span)).collect(),
            1 if n > 1 && matches!(composite, Composite::Vector { .. } | Composite::Matrix { .. }) => {
                if !matches!(components[0].kind, ExprKind::Const(_) | ExprKind::Local(_)) {
                    let help = format!("assign it to a variable first: `s = …`, then `{name}(s)`");
                    let message = format!("the one value that fills `{name}` must be a variable or a constant");
                    return self.reject(Code::Unsupported, components[0].span, message, help);
                }
                components = vec![components.remove(0); n];
            }
            given if given != n => fits = false,
            _ => {}
        }
        if components.iter().any(Expr::is_error) {
            return Expr::error(span);
        }
        if !fits {
            let message = format!("`{name}` is not made of ({given})");
            let help = format!("write its {n} components, each a {}", elem.python_name());
            return self.reject(Code::NoOverload, span, message, help);
        }
        let kind = ExprKind::Op { op: Op::Construct, args: components, updates: smallvec![] };
        Expr::new(kind, ExprType::Value(composite.into()), span)
    }

    /// The component a name means: `x` to `w` of vectors of up to four components and of quaternions.
    pub(super) fn component_named(&mut self, composite: Composite, name: &str, span: Span) -> Option<u16> {
        let n_names = match composite {
            Composite::Vector { len, .. } if len <= 4 => usize::from(len),
            Composite::Quaternion { .. } => 4,
            _ => 0,
        };
        let found = NAMES[..n_names].iter().position(|known| *known == name);
        if found.is_none() {
            let help = match n_names {
                0 => "write an index: `x[0]`".to_owned(),
                _ => format!("its components are {}", NAMES[..n_names].join(", ")),
            };
            let message = format!("{} has no member `{name}`", composite.python_name());
            self.reject(Code::UnknownName, span, message, help);
        }
        found.map(|index| index as u16)
    }

    /// The component that indices mean.
    pub(super) fn component_at(
        &mut self,
        composite: Composite,
        indices: SmallVec<[Expr; 2]>,
        span: Span,
    ) -> Option<ComponentIndex> {
        let shape = composite.shape();
        if indices.iter().any(Expr::is_error) {
            return None;
        }
        if indices.len() != shape.len() {
            let message =
                format!("{} is indexed by {} numbers, not {}", composite.python_name(), shape.len(), indices.len());
            let help = if shape.len() == 1 { "write `x[i]`" } else { "write `x[row, column]`" };
            self.reject(Code::BadRank, span, message, help);
            return None;
        }
        let known: Option<SmallVec<[i128; 2]>> = indices
            .iter()
            .map(|index| match (&index.kind, index.ty.as_value()) {
                (ExprKind::Const(bits), Some(Type::Scalar(ty))) => {
                    let unused = 128 - ty.bits();
                    let signed = (i128::from(*bits) << unused) >> unused;
                    Some(if ty.is_signed_int() { signed } else { i128::from(*bits) })
                }
                _ => None,
            })
            .collect();
        if let Some(known) = known {
            let mut place = 0;
            for (&index, &extent) in known.iter().zip(&shape) {
                let n = i128::from(extent);
                if !(-n..n).contains(&index) {
                    let message = format!("{} has no component {index}", composite.python_name());
                    let help = format!("an index here is from {} to {}", -n, n - 1);
                    self.reject(Code::BadRank, span, message, help);
                    return None;
                }
                place = place * n + index.rem_euclid(n);
            }
            return Some(ComponentIndex::Is(place as u16));
        }
        let mut place: Option<Expr> = None;
        for (index, &extent) in indices.into_iter().zip(&shape) {
            let index = self.convert(index, Scalar::I32, span);
            place = Some(match place {
                None => index,
                Some(row) => {
                    let extent = Expr::constant(extent.into(), Scalar::I32, span);
                    let row = binary(Op::Mul, row, extent, span);
                    binary(Op::Add, row, index, span)
                }
            });
        }
        place.map(ComponentIndex::At)
    }

    /// A component of a variable as the target of an assignment.
    pub(super) fn component_target(
        &mut self,
        base: &Expr,
        composite: Composite,
        index: ComponentIndex,
        value: Expr,
        span: Span,
    ) -> Option<(Target, Expr)> {
        let value = self.expect_value(value, composite.elem().into(), Code::TypeMismatch, "the component");
        let ExprKind::Local(local) = base.kind else {
            if !base.is_error() {
                let help = "assign the element to a variable, change that, and store it back";
                self.reject(Code::BadAssignment, span, "only a component of a variable can be assigned", help);
            }
            return None;
        };
        if value.is_error() {
            return None;
        }
        self.mark_assigned(local);
        Some((Target::Component(local, Box::new(index)), value))
    }
}

fn binary(op: Op, a: Expr, b: Expr, span: Span) -> Expr {
    Expr::new(ExprKind::Op { op, args: vec![a, b], updates: smallvec![] }, ExprType::scalar(Scalar::I32), span)
}

/// One component of a composite.
pub(super) fn component(base: Expr, composite: Composite, index: ComponentIndex, span: Span) -> Expr {
    Expr::new(ExprKind::Component(Box::new(base), Box::new(index)), ExprType::scalar(composite.elem()), span)
}
