//! Names for extents: what says how large they are, and integers that shapes say.

use super::FileElaboration;
use crate::loom::program::{Extent, ExtentOp, ShapeSymbol};
use crate::loom::syntax::{
    BinaryOp, Block, Expr, ExprKind, FunctionItem, StmtKind, TypeArgument, TypeExpr, UnaryOp, blocks_of,
    expressions_of, walk_expr,
};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Constants that name constants, one after another, beyond this are not followed.
const MAX_CONSTANTS: u32 = 32;

impl FileElaboration<'_> {
    /// An expression as an integer that is known before a launch; `known` says which names are such. `None` for
    /// anything else.
    pub(super) fn extent(&self, expr: &Expr, known: &dyn Fn(&str) -> Option<Extent>) -> Option<Extent> {
        self.extent_within(expr, known, MAX_CONSTANTS)
    }

    fn extent_within(&self, expr: &Expr, known: &dyn Fn(&str) -> Option<Extent>, depth: u32) -> Option<Extent> {
        match &expr.kind {
            ExprKind::Int(value, _) => i64::try_from(*value).ok().map(Extent::Constant),
            ExprKind::Name(name) => known(name).or_else(|| {
                let value = self.constants.get(name.as_str())?;
                self.extent_within(value, &|_| None, depth.checked_sub(1)?)
            }),
            ExprKind::Unary(UnaryOp::Plus, operand) => self.extent_within(operand, known, depth),
            ExprKind::Unary(UnaryOp::Negate, operand) => {
                Some(Extent::op(ExtentOp::Sub, Extent::Constant(0), self.extent_within(operand, known, depth)?))
            }
            ExprKind::Binary(op, left, right) => {
                let op = match op {
                    BinaryOp::Add => ExtentOp::Add,
                    BinaryOp::Sub => ExtentOp::Sub,
                    BinaryOp::Mul => ExtentOp::Mul,
                    BinaryOp::Div => ExtentOp::Div,
                    BinaryOp::Mod => ExtentOp::Mod,
                    BinaryOp::Lshift => ExtentOp::Lshift,
                    BinaryOp::Rshift => ExtentOp::Rshift,
                    BinaryOp::Pow => ExtentOp::Pow,
                    BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => return None,
                };
                let (left, right) = (self.extent_within(left, known, depth)?, self.extent_within(right, known, depth)?);
                Some(Extent::op(op, left, right))
            }
            ExprKind::Call { function, arguments, .. } => {
                let mut values = arguments.iter().map(|argument| &argument.value);
                match (function.as_name()?, values.next()?, values.next(), values.next()) {
                    ("len", array, None, None) => Some(Extent::Axis(array.as_name()?.into(), 0)),
                    ("i32" | "i64", value, None, None) => self.extent_within(value, known, depth),
                    (name @ ("min" | "max"), first, Some(second), None) => {
                        let op = if name == "min" { ExtentOp::Min } else { ExtentOp::Max };
                        let first = self.extent_within(first, known, depth)?;
                        Some(Extent::op(op, first, self.extent_within(second, known, depth)?))
                    }
                    _ => None,
                }
            }
            // `x.shape[0]`
            ExprKind::Index(of, indices) => match (&of.kind, &indices[..]) {
                (ExprKind::Member(array, member), [Expr { kind: ExprKind::Int(axis, None), .. }])
                    if member.name == "shape" =>
                {
                    Some(Extent::Axis(array.as_name()?.into(), usize::try_from(*axis).ok()?))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The expressions for the extents of an array's type; `None` for no array.
    pub(super) fn extents_of_type(ty: &TypeExpr) -> Option<Vec<Option<&Expr>>> {
        let [name] = &ty.path[..] else { return None };
        if name.name != "array" {
            return None;
        }
        let extents: Vec<Option<&Expr>> = ty
            .arguments
            .iter()
            .skip(1)
            .map(|argument| match argument {
                TypeArgument::Value(value) => Some(value).filter(|value| value.as_name() != Some("_")),
                TypeArgument::Type(_) => None,
            })
            .collect();
        Some(if extents.is_empty() { vec![None] } else { extents })
    }

    /// The names that the extents of the parameters' types introduce, each with the axes that are so large.
    pub(super) fn declared_symbols(&self, function: &FunctionItem) -> Vec<ShapeSymbol> {
        let mut symbols: Vec<ShapeSymbol> = Vec::new();
        let scalars: FxHashSet<&str> = function
            .params
            .iter()
            .filter(|param| param.ty.as_ref().is_some_and(|ty| Self::extents_of_type(ty).is_none()))
            .map(|param| param.name.name.as_str())
            .collect();
        for param in &function.params {
            let Some(extents) = param.ty.as_ref().and_then(Self::extents_of_type) else { continue };
            for (axis, extent) in extents.iter().enumerate() {
                let Some(name) = extent.and_then(Expr::as_name) else { continue };
                if self.constants.contains_key(name) || scalars.contains(name) {
                    continue;
                }
                add_axis(&mut symbols, name, &param.name.name, axis);
            }
        }
        symbols
    }

    /// Finds what says how large the free extents of loops are: arrays without types of extents that are indexed by an
    /// index from 0 to the extent alone.
    pub(super) fn inferred_symbols(
        &self,
        function: &FunctionItem,
        is_free: &dyn Fn(&str) -> bool,
        symbols: &mut Vec<ShapeSymbol>,
    ) {
        let mut found: Vec<(String, String, usize)> = Vec::new();
        let is_open = |array: &str, axis: usize| {
            let param = function.params.iter().find(|param| param.name.name == array);
            param.is_some_and(|param| match &param.ty {
                None => true,
                Some(ty) => Self::extents_of_type(ty).is_some_and(|extents| matches!(extents.get(axis), Some(None))),
            })
        };
        find_axes(&function.body, &mut Vec::new(), &mut |array, axis, end| {
            if is_open(array, axis) && (is_free(end) || symbols.iter().any(|symbol| *symbol.name == *end)) {
                found.push((end.to_owned(), array.to_owned(), axis));
            }
        });
        for (end, array, axis) in found {
            add_axis(symbols, &end, &array, axis);
        }
    }
}

fn add_axis(symbols: &mut Vec<ShapeSymbol>, name: &str, array: &str, axis: usize) {
    let array: Arc<str> = array.into();
    match symbols.iter_mut().find(|symbol| *symbol.name == *name) {
        Some(symbol) if symbol.axes.contains(&(array.clone(), axis)) => {}
        Some(symbol) => symbol.axes.push((array, axis)),
        None => symbols.push(ShapeSymbol { name: name.into(), axes: vec![(array, axis)] }),
    }
}

/// Visits the axes that are indexed by an index alone which runs from 0 to a name: array, axis and name.
fn find_axes<'a>(
    block: &'a Block,
    indices: &mut Vec<(&'a str, Option<&'a str>)>,
    visit: &mut dyn FnMut(&str, usize, &str),
) {
    let n_outside = indices.len();
    for statement in &block.statements {
        for expr in expressions_of(statement) {
            walk_expr(expr, &mut |part| {
                let ExprKind::Index(of, subscripts) = &part.kind else { return };
                let Some(array) = of.as_name() else { return };
                for (axis, subscript) in subscripts.iter().enumerate() {
                    let Some(name) = subscript.as_name() else { continue };
                    if let Some((_, Some(end))) = indices.iter().rev().find(|(known, _)| *known == name) {
                        visit(array, axis, end);
                    }
                }
            });
        }
        let n_before = indices.len();
        if let StmtKind::For(inner) = &statement.kind {
            for index in &inner.indices {
                let is_whole =
                    matches!(index.start.kind, ExprKind::Int(0, None)) && index.step.is_none() && !index.is_inclusive;
                indices.push((&index.name.name, index.end.as_name().filter(|_| is_whole)));
            }
        }
        for inner in blocks_of(statement) {
            find_axes(inner, indices, visit);
        }
        indices.truncate(n_before);
        if let StmtKind::Declare { targets, .. } = &statement.kind {
            indices.extend(targets.iter().map(|target| (target.name.as_str(), None)));
        }
    }
    indices.truncate(n_outside);
}
