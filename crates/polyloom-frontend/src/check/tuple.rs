//! Tuples: several values under one name, `t = (1, x, v)`, indexed with constants, unpacked, passed to functions.
//!
//! A tuple is no value of the typed AST: a name of one stands for the variables that hold its parts.

use super::component_expr::constant_index;
use super::element::count;
use super::function::{FunctionChecker, NameMeaning};
use crate::number::PythonNumber;
use crate::structure::ValueType;
use crate::typed_ast::{ExprKind, ExprType, TypedExpr, TypedStmt};
use polyloom_ir::{Code, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// `(a, b)` as a value.
    pub(super) fn tuple_value(&mut self, tuple: &'a ast::ExprTuple, span: Span) -> TypedExpr {
        let parts: Vec<TypedExpr> = tuple
            .elts
            .iter()
            .map(|part| match self.expr(part) {
                part if part.ty.is_struct() => part,
                part => self.settle(part),
            })
            .collect();
        match parts.iter().map(|part| part.ty.full()).collect() {
            Some(types) => TypedExpr::new(ExprKind::Tuple(parts), ExprType::Values(types), span),
            None => TypedExpr::error(span),
        }
    }

    /// The parts of what a name stands for, if that is a tuple.
    pub(super) fn tuple_named(&self, expr: &ast::Expr) -> Option<&Vec<TypedExpr>> {
        let Some(&NameMeaning::View(index)) = self.names.get(expr.as_name_expr()?.id.as_str()) else { return None };
        match &self.views[index] {
            TypedExpr { kind: ExprKind::Tuple(parts), ty: ExprType::Values(_), .. } => Some(parts),
            _ => None,
        }
    }

    /// The parts of a tuple, each a variable that keeps its value or an array.
    pub(super) fn kept_parts(&mut self, value: TypedExpr, span: Span, out: &mut Vec<TypedStmt>) -> TypedExpr {
        let ExprType::Values(types) = &value.ty else { return value };
        let types = types.clone();
        let mut given = self.parts_of_call(smallvec![value], span, out);
        let value = match given.len() {
            1 => given.remove(0),
            _ => TypedExpr::new(ExprKind::Tuple(given.into_vec()), ExprType::Values(types.clone()), span),
        };
        let parts = match value.kind {
            ExprKind::Tuple(parts) => parts
                .into_iter()
                .map(|part| match part.ty.full() {
                    _ if matches!(part.kind, ExprKind::View { .. }) => self.not_kept(&part),
                    Some(ty) if ty.is_array() => part,
                    Some(ValueType::Struct(_)) => self.hold_struct(part, span, out),
                    Some(ty) => match self.hold_values(smallvec![part], &[ty], span, out).pop() {
                        Some(part) => part,
                        None => TypedExpr::error(span),
                    },
                    None => part,
                })
                .collect(),
            _ => self.hold_values(smallvec![value.clone()], &types, span, out).into_vec(),
        };
        if parts.iter().any(TypedExpr::is_error) {
            return TypedExpr::error(span);
        }
        TypedExpr::new(ExprKind::Tuple(parts), ExprType::Values(types), value.span)
    }

    /// `t[1]` of a tuple.
    pub(super) fn tuple_part(&mut self, parts: Vec<TypedExpr>, index: &'a ast::Expr, span: Span) -> TypedExpr {
        let index = self.expr(index);
        let n = parts.len() as i128;
        let known = match index.number() {
            Some(PythonNumber::Int(index)) => Some(index),
            _ => constant_index(&index),
        };
        match known {
            _ if index.is_error() => index,
            Some(index) if (-n..n).contains(&index) => {
                let part = parts.into_iter().nth(index.rem_euclid(n) as usize);
                part.map_or_else(|| TypedExpr::error(span), |part| TypedExpr { span, ..part })
            }
            Some(index) => {
                let message = format!("the tuple has {}, and no part {index}", count(n as usize, "part", "parts"));
                self.reject(Code::BadRank, span, message, format!("its parts are 0 to {}", n - 1))
            }
            None => {
                let help = "write a number, or the counter of a loop over a constant range";
                self.reject(Code::Unsupported, index.span, "the index of a tuple must be a constant", help)
            }
        }
    }

    /// The parameters of a function that is given a tuple of these types.
    pub(super) fn tuple_parameter(&mut self, name: &str, types: &[ValueType], span: Span) -> NameMeaning {
        let mut parts = Vec::with_capacity(types.len());
        for (place, &ty) in types.iter().enumerate() {
            let first = self.n_locals();
            self.parameter(&format!("{name}_{place}"), ty, span);
            let leaf = |checker: &Self, local| {
                let ty: Type = checker.local_type(local);
                TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), span)
            };
            let mut leaves: Vec<TypedExpr> = self.locals_from(first).map(|local| leaf(self, local)).collect();
            match (ty, leaves.len()) {
                (ValueType::Plain(_), 1) => parts.extend(leaves.pop()),
                _ => parts.push(TypedExpr::new(ExprKind::Tuple(leaves), ty.into(), span)),
            }
        }
        let types: SmallVec<[ValueType; 2]> = types.into();
        self.named_view(TypedExpr::new(ExprKind::Tuple(parts), ExprType::Values(types), span))
    }
}
