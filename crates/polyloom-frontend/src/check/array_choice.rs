//! `x = a if cond else b` of arrays, and `if` statements that set names to arrays: the rest of the block is checked once for
//! each of them.
//!
//! HIR has no arrays that are values, so a name cannot stand for one of two. What follows the statement in its block is
//! written twice, in the branches of an `if`, in each of which the name stands for one array.
//!
//! Design: `docs/design/array-views.md`.

use super::flow::{FlowState, LocalSet};
use super::function::{FunctionChecker, NameMeaning};
use crate::structure::ValueType;
use crate::typed_ast::{ExprKind, LocalId, StmtKind, TypedStmt};
use polyloom_ir::Span;
use ruff_python_ast as ast;
use ruff_python_ast::visitor::{self, Visitor};
use rustc_hash::FxHashMap;

/// A statement that chooses an array by a condition.
#[derive(Clone, Copy)]
pub(super) enum ArrayChoice<'a> {
    /// An assignment.
    Assignment { target: &'a ast::Expr, chosen: &'a ast::ExprIf },
    /// Branches, some of which set a name to an array.
    Branches { test: &'a ast::Expr, body: &'a [ast::Stmt], clauses: &'a [ast::ElifElseClause], span: Span },
}

/// A snapshot of what names mean, taken before code that is checked more than once.
pub(super) struct NameSnapshot<'a> {
    names: FxHashMap<&'a str, NameMeaning>,
    leaves: Vec<Vec<Option<LocalId>>>,
}

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// The choice that a statement is, if it chooses an array by a condition that only the launch knows. `rest` follows it.
    pub(super) fn array_choice(&mut self, stmt: &'a ast::Stmt, rest: &'a [ast::Stmt]) -> Option<ArrayChoice<'a>> {
        match stmt {
            ast::Stmt::Assign(assign) => {
                let ([target @ ast::Expr::Name(_)], ast::Expr::If(chosen)) = (&assign.targets[..], &*assign.value)
                else {
                    return None;
                };
                let is_choice = self.names_array(&chosen.body) && self.names_array(&chosen.orelse);
                (is_choice && self.choice(&chosen.test).is_none()).then_some(ArrayChoice::Assignment { target, chosen })
            }
            ast::Stmt::If(branch) => {
                let span = self.span(stmt);
                self.branches_that_choose(&branch.test, &branch.body, &branch.elif_else_clauses, span, rest)
            }
            _ => None,
        }
    }

    /// The choice that branches are, if one of them sets a name that the rest of the block has to an array.
    fn branches_that_choose(
        &mut self,
        test: &'a ast::Expr,
        body: &'a [ast::Stmt],
        clauses: &'a [ast::ElifElseClause],
        span: Span,
        rest: &'a [ast::Stmt],
    ) -> Option<ArrayChoice<'a>> {
        let bodies = [body].into_iter().chain(clauses.iter().map(|clause| &clause.body[..]));
        let sets_array = bodies.flatten().any(|inner| match inner {
            ast::Stmt::Assign(assign) => match &assign.targets[..] {
                [ast::Expr::Name(name)] => self.names_array(&assign.value) && mentions(rest, name.id.as_str()),
                _ => false,
            },
            _ => false,
        });
        (sets_array && self.choice(test).is_none()).then_some(ArrayChoice::Branches { test, body, clauses, span })
    }

    /// Returns true for names of arrays, of their parts, of structs that hold arrays, and for choices among such.
    fn names_array(&self, expr: &ast::Expr) -> bool {
        match expr {
            ast::Expr::Name(name) => match self.names.get(name.id.as_str()) {
                Some(NameMeaning::Local(local)) => self.local_type(*local).as_any_array().is_some(),
                Some(NameMeaning::View(view)) => matches!(self.views[*view].kind, ExprKind::View { .. }),
                Some(NameMeaning::Struct(_)) => self.place_type(expr).is_some_and(ValueType::has_arrays),
                _ => false,
            },
            ast::Expr::Attribute(_) => self.place_type(expr).is_some_and(ValueType::has_arrays),
            ast::Expr::Subscript(subscript) => {
                let ast::Expr::Name(name) = &*subscript.value else { return false };
                let Some(NameMeaning::Local(local)) = self.names.get(name.id.as_str()) else { return false };
                let indices = crate::annotation::elements(&subscript.slice);
                let n_indices = indices.iter().filter(|index| !index.is_slice_expr()).count();
                self.local_type(*local).as_any_array().is_some_and(|(_, ndim)| usize::from(ndim) > n_indices)
            }
            ast::Expr::If(chosen) => self.names_array(&chosen.body) && self.names_array(&chosen.orelse),
            _ => false,
        }
    }

    /// The statement, and what follows it in its block.
    pub(super) fn choose_array(&mut self, choice: ArrayChoice<'a>, rest: &'a [ast::Stmt], out: &mut Vec<TypedStmt>) {
        let (test, span) = match choice {
            ArrayChoice::Assignment { target, chosen } => (&*chosen.test, self.span(target)),
            ArrayChoice::Branches { test, span, .. } => (test, span),
        };
        let cond = self.condition(test);
        let decided = self.unchanging_parameter(test);
        let before = self.flow.clone();
        let names = self.snapshot_names();
        let n_diagnostics = self.compilation.diagnostics.len();
        self.assigned.push(LocalSet::default());
        let mut branches = [Vec::new(), Vec::new()];
        let mut after: Option<FlowState> = None;
        for (taken, branch) in [true, false].into_iter().zip(&mut branches) {
            self.flow = before.clone();
            self.decided.extend(decided.map(|name| (name, taken)));
            let scope = self.open_scope();
            match choice {
                ArrayChoice::Assignment { target, chosen } => {
                    let value = if taken { &chosen.body } else { &chosen.orelse };
                    self.choose_one(target, value, span, rest, branch);
                }
                ArrayChoice::Branches { body, .. } if taken => self.block_and_rest(body, rest, branch),
                ArrayChoice::Branches { clauses, .. } => self.clauses_and_rest(clauses, rest, branch),
            }
            self.close_scope(scope);
            self.restore_names(&names);
            self.decided.truncate(self.decided.len() - usize::from(decided.is_some()));
            self.forget_assigned_constants();
            match after.take() {
                None => after = Some(self.flow.clone()),
                Some(first) => self.flow.join(&first),
            }
        }
        self.drop_repeated_diagnostics(n_diagnostics);
        let assigned = self.assigned.pop().unwrap_or_default();
        self.forget_constants(&assigned);
        if let Some(outer) = self.assigned.last_mut() {
            outer.union_with(&assigned);
        }
        if cond.is_error() {
            return;
        }
        let [then, otherwise] = branches;
        let merged = assigned.select(|local| self.flow.set.contains(local));
        out.push(TypedStmt { kind: StmtKind::If { cond, then, otherwise, merged }, span });
    }

    /// One array, and the rest of the block; of a choice within the choice, both again.
    fn choose_one(
        &mut self,
        target: &'a ast::Expr,
        value: &'a ast::Expr,
        span: Span,
        rest: &'a [ast::Stmt],
        out: &mut Vec<TypedStmt>,
    ) {
        match value {
            ast::Expr::If(chosen) if self.choice(&chosen.test).is_none() => {
                self.choose_array(ArrayChoice::Assignment { target, chosen }, rest, out);
            }
            _ => {
                self.assign_one(target, value, span, out);
                self.block(rest, out);
            }
        }
    }

    /// A block, and what follows it unless it leaves.
    fn block_and_rest(&mut self, body: &'a [ast::Stmt], rest: &'a [ast::Stmt], out: &mut Vec<TypedStmt>) {
        self.block(body, out);
        if self.flow.reachable {
            self.block(rest, out);
        }
    }

    /// Checks what `elif` and `else` make of the branch that is not taken, and what follows it.
    fn clauses_and_rest(
        &mut self,
        clauses: &'a [ast::ElifElseClause],
        rest: &'a [ast::Stmt],
        out: &mut Vec<TypedStmt>,
    ) {
        let Some((first, others)) = clauses.split_first() else { return self.block(rest, out) };
        let span = self.span(first);
        let Some(test) = &first.test else { return self.block_and_rest(&first.body, rest, out) };
        match self.branches_that_choose(test, &first.body, others, span, rest) {
            Some(choice) => self.choose_array(choice, rest, out),
            None => {
                self.branch(test, &first.body, others, span, out);
                if self.flow.reachable {
                    self.block(rest, out);
                }
            }
        }
    }

    /// The parameter that a condition is, if nothing assigns it, so that it decides every choice by it in the same way.
    fn unchanging_parameter(&self, test: &'a ast::Expr) -> Option<&'a str> {
        let ast::Expr::Name(name) = test else { return None };
        let name = name.id.as_str();
        let Some(NameMeaning::Local(local)) = self.names.get(name) else { return None };
        let def = self.unit.definition(self.function)?;
        ((local.0 as usize) < self.n_params && !assigns(&def.body, name)).then_some(name)
    }

    fn snapshot_names(&self) -> NameSnapshot<'a> {
        let leaves = self.structs.iter().map(|variable| variable.leaves.to_vec()).collect();
        NameSnapshot { names: self.names.clone(), leaves }
    }

    /// Makes names for arrays, and what else is decided when the kernel is compiled, stand for what they did before.
    /// Variables stay, because the branches share them.
    fn restore_names(&mut self, before: &NameSnapshot<'a>) {
        let stays = |checker: &Self, name: NameMeaning| match name {
            NameMeaning::Local(local) => {
                checker.local_type(local).as_any_array().is_none() && !checker.fixed.contains_key(&local)
            }
            NameMeaning::Struct(variable) => checker.structs[variable]
                .leaves
                .iter()
                .flatten()
                .all(|leaf| checker.locals[leaf.0 as usize].ty.as_any_array().is_none()),
            NameMeaning::Poisoned => true,
            NameMeaning::Later(_) | NameMeaning::Known(_) | NameMeaning::View(_) | NameMeaning::Diverged => false,
        };
        let names = std::mem::take(&mut self.names);
        let kept = names.into_iter().filter(|&(_, name)| stays(self, name)).collect();
        self.names = kept;
        for (&text, &name) in &before.names {
            self.names.entry(text).or_insert(name);
        }
        for (variable, leaves) in self.structs.iter_mut().zip(&before.leaves) {
            variable.leaves = leaves.iter().copied().collect();
        }
    }

    /// Leaves out what was reported of the second branch that was reported of the first.
    fn drop_repeated_diagnostics(&mut self, from: usize) {
        let found = self.compilation.diagnostics.split_off(from);
        for diagnostic in found {
            if !self.compilation.diagnostics[from..].contains(&diagnostic) {
                self.compilation.diagnostics.push(diagnostic);
            }
        }
    }
}

/// Returns true if a name stands in statements.
fn mentions(statements: &[ast::Stmt], name: &str) -> bool {
    struct NameFinder<'n>(&'n str, bool);
    impl<'b> Visitor<'b> for NameFinder<'_> {
        fn visit_expr(&mut self, expr: &'b ast::Expr) {
            self.1 |= matches!(expr, ast::Expr::Name(name) if name.id.as_str() == self.0);
            visitor::walk_expr(self, expr);
        }
    }
    let mut finder = NameFinder(name, false);
    statements.iter().for_each(|stmt| finder.visit_stmt(stmt));
    finder.1
}

/// Returns true if one of these statements, or one within them, assigns a name.
fn assigns(body: &[ast::Stmt], name: &str) -> bool {
    body.iter().any(|stmt| {
        let is_target = match stmt {
            ast::Stmt::Assign(assign) => assign.targets.iter().any(|target| has_name(target, name)),
            ast::Stmt::AugAssign(assign) => has_name(&assign.target, name),
            ast::Stmt::AnnAssign(assign) => has_name(&assign.target, name),
            ast::Stmt::For(for_) => has_name(&for_.target, name),
            _ => false,
        };
        is_target || crate::source::blocks_of(stmt).into_iter().any(|block| assigns(block, name))
    })
}

fn has_name(target: &ast::Expr, name: &str) -> bool {
    match target {
        ast::Expr::Name(target) => target.id.as_str() == name,
        ast::Expr::Tuple(tuple) => tuple.elts.iter().any(|target| has_name(target, name)),
        ast::Expr::List(list) => list.elts.iter().any(|target| has_name(target, name)),
        ast::Expr::Starred(starred) => has_name(&starred.value, name),
        _ => false,
    }
}
