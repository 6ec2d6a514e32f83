//! What is not set on every path: variables that one branch sets, and results of functions that end without `return`.
//!
//! As in Warp, such a value is zero where no path has set it, and a warning says so, because programs rely on conditions
//! that the checker cannot relate to each other: `if a or b: x = …` before `if a: … x`. Arrays have no such value.

use super::component_expr::construct;
use super::function::{FunctionChecker, NameMeaning};
use super::zeroed_variable::ZeroedVariable;
use crate::structure::ValueType;
use crate::typed_ast::{AssignTarget, ExprKind, ExprType, LocalId, StmtKind, Targets, TypedExpr, TypedStmt};
use polyloom_ir::{Code, Diagnostic, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Notes that a variable is read before every path has set it. False if there is no value that it could have.
    pub(super) fn is_zero_where_unset(&mut self, id: LocalId, span: Span) -> bool {
        let local = &self.locals[id.0 as usize];
        // The variable it is in of a leaf.
        let root = local.name.split('.').next().unwrap_or_default();
        let (ty, first) = match self.names.get(root) {
            Some(NameMeaning::Local(known)) if *known == id => (ValueType::Plain(local.ty), local.span),
            Some(NameMeaning::Struct(variable)) => (self.structs[*variable].ty, self.structs[*variable].span),
            _ => return false,
        };
        if self.fixed.contains_key(&id) || zero_of(ty, span).is_none() {
            return false;
        }
        let name: Arc<str> = root.into();
        let warning =
            Diagnostic::warning(Code::MaybeUnset, span, format!("`{name}` is not set on every path to this use"))
                .label(first, "it is set here")
                .help(format!(
                    "it is zero where nothing has set it; give `{name}` a value before the branch or loop to say so"
                ));
        if self.zeroed.iter().all(|known| known.name != name) {
            self.report(warning.clone());
            self.zeroed.push(ZeroedVariable { name, ty, span: first, warning });
        }
        // One message for each variable.
        for leaf in self.locals_from(0) {
            if self.locals[leaf.0 as usize].name.split('.').next() == self.locals[id.0 as usize].name.split('.').next()
            {
                self.flow.set.insert(leaf);
            }
        }
        true
    }

    /// Makes a variable that is zero from the start.
    pub(super) fn begin_with(&mut self, variable: &ZeroedVariable, body: &mut Vec<TypedStmt>) {
        let ZeroedVariable { name, ty, span, .. } = variable;
        let Some(text) = self.names.keys().copied().find(|text| **text == **name) else { return };
        let Some(value) = zero_of(*ty, *span) else { return };
        let first = self.n_locals();
        let binding = match *ty {
            ValueType::Plain(ty) => NameMeaning::Local(self.new_local(text, ty, *span)),
            _ => self.new_struct(text, *ty, *span, false),
        };
        let mut targets = Targets::new();
        for local in self.locals_from(first) {
            self.mark_assigned(local);
            targets.push(AssignTarget::Local(local));
        }
        self.names.insert(text, binding);
        body.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![value] }, span: *span });
    }

    /// Ends a function of which some paths return values with zeros on the others; an error if it has no `return` at
    /// all, returns arrays, or is of a `.loom` file.
    pub(super) fn return_zeros(&mut self, def: &ast::StmtFunctionDef, types: &[ValueType], body: &mut Vec<TypedStmt>) {
        let span = self.span(def.name.range);
        let message = format!("not every path through `{}` returns a value", def.name.as_str());
        let zeros: Option<SmallVec<[TypedExpr; 1]>> = types.iter().map(|&ty| zero_of(ty, span)).collect();
        match zeros.filter(|_| has_return(body) && !self.unit.is_loom()) {
            Some(zeros) => {
                let help = "it returns zero where no path does; end the function with `return` to say so";
                self.report(Diagnostic::warning(Code::ReturnMismatch, span, message).help(help));
                body.push(TypedStmt { kind: StmtKind::Return(zeros), span });
            }
            None => {
                self.reject(Code::ReturnMismatch, span, message, "end the function with `return`");
            }
        }
    }
}

/// Returns the zero of a type, of a struct without its arrays, which functions do not hand back; `None` of arrays.
fn zero_of(ty: ValueType, span: Span) -> Option<TypedExpr> {
    let plain = |ty: Type| -> Option<TypedExpr> {
        match ty {
            Type::Scalar(scalar) => Some(TypedExpr::constant(0, scalar, span)),
            Type::Composite(composite) => {
                let zeros = vec![TypedExpr::constant(0, composite.elem(), span); composite.n_components()];
                Some(construct(composite, zeros, span))
            }
            Type::Array { .. } | Type::CompositeArray { .. } => None,
        }
    };
    match ty {
        ValueType::Plain(ty) => plain(ty),
        ValueType::Struct(_) => {
            let leaves: Vec<TypedExpr> = ty.leaf_types().into_iter().filter_map(plain).collect();
            let types = leaves.iter().filter_map(|leaf| leaf.ty.full()).collect();
            let whole = if ty.has_arrays() { ExprType::Values(types) } else { ExprType::from(ty) };
            Some(TypedExpr::new(ExprKind::Tuple(leaves), whole, span))
        }
        _ => None,
    }
}

/// True if a `return` with a value stands in these statements.
fn has_return(body: &[TypedStmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Return(values) => !values.is_empty(),
        StmtKind::If { then, otherwise, .. } => has_return(then) || has_return(otherwise),
        StmtKind::For { body, .. } | StmtKind::While { body, .. } => {
            has_return(&body.body) || has_return(&body.otherwise)
        }
        _ => false,
    })
}
