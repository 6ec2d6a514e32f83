//! Checks what `@kernel(KIND)` asserts: that the loops have the form of that kind.
//!
//! An assertion changes no result. It says to readers, and to those who choose schedules, what a program is, and it is
//! an error with a reason where the loops are something else.

use super::syntax::{
    BinaryOp, Block, CompareOp, Expr, ExprKind, ForLoop, FunctionItem, Stmt, StmtKind, expressions_of, same_text,
    walk_block, walk_expr,
};
use ruff_text_size::TextRange;
use rustc_hash::FxHashSet;

/// Says why loops are not of a kind, with the place that shows it.
type Refusal = (Option<TextRange>, String);

/// The loops of a program, as far as kinds ask about them.
struct LoopForms<'a> {
    function: &'a FunctionItem,
    /// Names that the file gives a meaning: its own `fma` may compute anything.
    globals: &'a FxHashSet<&'a str>,
    parallel: Vec<&'a ForLoop>,
    /// The other loops.
    inner: Vec<&'a ForLoop>,
    statements: Vec<&'a Stmt>,
}

/// Checks that the loops of a program are of a kind. `globals` has the names that the file gives a meaning.
///
/// # Errors
///
/// Returns the reason why they are not.
pub(super) fn check(kind: &str, function: &FunctionItem, globals: &FxHashSet<&str>) -> Result<(), Refusal> {
    let mut forms = LoopForms { function, globals, parallel: Vec::new(), inner: Vec::new(), statements: Vec::new() };
    forms.collect(&function.body, true);
    match kind {
        "elementwise" => forms.elementwise(),
        "stencil" => forms.stencil(),
        "reduce" => forms.reduce(),
        "matmul" => forms.matmul(),
        "conv2d" => forms.conv2d(),
        "attention" => forms.attention(false),
        "flash_attention" => forms.attention(true),
        "scan" => forms.scan(),
        "sort" => forms.sort(),
        _ => Ok(()),
    }
}

fn refuse(range: impl Into<Option<TextRange>>, reason: impl Into<String>) -> Result<(), Refusal> {
    Err((range.into(), reason.into()))
}

fn mentions(expr: &Expr, name: &str) -> bool {
    let mut found = false;
    walk_expr(expr, &mut |part| found |= part.as_name() == Some(name));
    found
}

fn any_mentions(indices: &[Expr], name: &str) -> bool {
    indices.iter().any(|index| mentions(index, name))
}

/// The factors of `a * b`.
fn product(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::Mul, left, right) => Some((left, right)),
        _ => None,
    }
}

/// The factors of `fma(a, b, sum)`.
fn fused_product<'e>(expr: &'e Expr, sum: &Expr) -> Option<(&'e Expr, &'e Expr)> {
    let ExprKind::Call { function, arguments, .. } = &expr.kind else { return None };
    let [a, b, c] = &arguments[..] else { return None };
    (function.as_name() == Some("fma") && same_text(&c.value, sum)).then_some((&a.value, &b.value))
}

impl<'a> LoopForms<'a> {
    fn collect(&mut self, block: &'a Block, is_outermost: bool) {
        for statement in &block.statements {
            self.statements.push(statement);
            match &statement.kind {
                StmtKind::For(inner) if is_outermost && !inner.is_serial => {
                    self.parallel.push(inner);
                    self.collect(&inner.body, false);
                }
                StmtKind::For(inner) => {
                    self.inner.push(inner);
                    self.collect(&inner.body, is_outermost && inner.is_serial);
                }
                _ => super::syntax::blocks_of(statement).into_iter().for_each(|inner| self.collect(inner, false)),
            }
        }
    }

    fn is_array(&self, name: &str) -> bool {
        let is_result = self.function.results.iter().any(|result| result.name.name == name) || name == "out";
        is_result || self.function.params.iter().any(|param| param.name.name == name)
    }

    /// The elements that statements access, with whether they write them.
    fn elements(&self, block: &'a Block) -> Vec<(&'a Expr, &'a [Expr], bool)> {
        let mut found = Vec::new();
        walk_block(block, &mut |statement| {
            let targets: Vec<&Expr> = match &statement.kind {
                StmtKind::Assign { targets, .. } => targets.iter().collect(),
                StmtKind::Update { target, .. } => vec![target],
                _ => Vec::new(),
            };
            for expr in expressions_of(statement) {
                let is_target = targets.iter().any(|target| std::ptr::eq(*target, expr));
                walk_expr(expr, &mut |part| {
                    if let ExprKind::Index(of, indices) = &part.kind
                        && of.as_name().is_some_and(|name| self.is_array(name))
                    {
                        found.push((part, &indices[..], is_target && std::ptr::eq(part, expr)));
                    }
                });
            }
        });
        found
    }

    fn one_parallel(&self) -> Result<&'a ForLoop, Refusal> {
        match self.parallel.first() {
            Some(first) => Ok(first),
            None => Err((None, "it has no parallel loop".to_owned())),
        }
    }

    fn elementwise(&self) -> Result<(), Refusal> {
        self.one_parallel()?;
        for parallel in &self.parallel {
            let names: Vec<&str> = parallel.indices.iter().map(|index| index.name.name.as_str()).collect();
            for (element, indices, _) in self.elements(&parallel.body) {
                let own: Vec<Option<&str>> = indices.iter().map(Expr::as_name).collect();
                let wanted: Vec<Option<&str>> = names.iter().map(|name| Some(*name)).collect();
                if own != wanted {
                    let message = format!("this element is not that of the iteration, `[{}]`", names.join(", "));
                    return refuse(element.range, message);
                }
            }
        }
        Ok(())
    }

    fn stencil(&self) -> Result<(), Refusal> {
        let mut reads_beside = false;
        for parallel in [self.one_parallel()?].into_iter().chain(self.parallel.iter().skip(1).copied()) {
            for (_, indices, is_written) in self.elements(&parallel.body) {
                let beside = |index: &Expr| {
                    matches!(index.kind, ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, ..))
                        && parallel.indices.iter().any(|own| mentions(index, &own.name.name))
                };
                reads_beside |= !is_written && indices.iter().any(beside);
            }
        }
        if reads_beside {
            Ok(())
        } else {
            refuse(None, "no iteration reads an element beside its own, such as `x[i - 1]`")
        }
    }

    /// The updates of variables in inner loops, with their values.
    fn accumulations(&self) -> Vec<(&'a Expr, BinaryOp, &'a Expr)> {
        let inner = self.inner.iter().flat_map(|inner| inner.body.statements.iter());
        inner
            .filter_map(|statement| match &statement.kind {
                StmtKind::Update { target, op, value } => Some((target, *op, value)),
                StmtKind::Assign { targets, value } => match (&targets[..], &value.kind) {
                    // `m = max(m, x[j])` and `s = s + x[j]`.
                    ([target], ExprKind::Call { .. } | ExprKind::Binary(..) | ExprKind::Select(_))
                        if target.as_name().is_some_and(|name| mentions(value, name)) =>
                    {
                        Some((target, BinaryOp::Add, value))
                    }
                    _ => None,
                },
                _ => None,
            })
            .collect()
    }

    fn reduce(&self) -> Result<(), Refusal> {
        let mut has_atomic = false;
        for statement in &self.statements {
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| {
                    if let ExprKind::Call { function, .. } = &part.kind {
                        has_atomic |= function
                            .as_name()
                            .is_some_and(|name| name.starts_with("atomic_") && !self.globals.contains(name));
                    }
                });
            }
        }
        match has_atomic || !self.accumulations().is_empty() {
            true => Ok(()),
            false => refuse(None, "no loop combines values into one, as `sum += x[j]` does"),
        }
    }

    fn matmul(&self) -> Result<(), Refusal> {
        let parallel = self.one_parallel()?;
        let [.., row, column] = &parallel.indices[..] else {
            return refuse(parallel.header, "the parallel loop needs an index for rows and one for columns");
        };
        let (row, column) = (&row.name.name, &column.name.name);
        let Some(inner) = self.inner.iter().find(|inner| inner.indices.len() == 1) else {
            return refuse(parallel.header, "there is no inner loop over the extent that rows and columns share");
        };
        let depth = &inner.indices[0].name.name;
        let update = inner.body.statements.iter().find_map(|statement| match &statement.kind {
            StmtKind::Update { target, op: BinaryOp::Add, value } => Some((target, value, product(value))),
            StmtKind::Assign { targets, value } => {
                let [target] = &targets[..] else { return None };
                Some((target, value, Some(fused_product(value, target).filter(|_| !self.globals.contains("fma"))?)))
            }
            _ => None,
        });
        let Some((sum, value, factors)) = update else {
            let message = format!("the loop over `{depth}` adds up nothing with `+=`, or by `sum = fma(a, b, sum)`");
            return refuse(inner.header, message);
        };
        let factors = factors.and_then(|(left, right)| match (&left.kind, &right.kind) {
            (ExprKind::Index(_, left), ExprKind::Index(_, right)) => Some((left, right)),
            _ => None,
        });
        let Some((left, right)) = factors else {
            return refuse(value.range, "the terms are no products of two elements, such as `A[i, k] * B[k, j]`");
        };
        let is_left = |indices: &[Expr]| {
            any_mentions(indices, row) && any_mentions(indices, depth) && !any_mentions(indices, column)
        };
        let is_right = |indices: &[Expr]| {
            any_mentions(indices, column) && any_mentions(indices, depth) && !any_mentions(indices, row)
        };
        if !(is_left(left) && is_right(right) || is_left(right) && is_right(left)) {
            let message =
                format!("one factor must be chosen by `{row}` and `{depth}`, the other by `{depth}` and `{column}`");
            return refuse(value.range, message);
        }
        let stores = self
            .elements(&parallel.body)
            .into_iter()
            .any(|(_, indices, is_written)| is_written && any_mentions(indices, row) && any_mentions(indices, column));
        match stores {
            true => Ok(()),
            false => refuse(sum.range, format!("the sum is stored in no element of `{row}` and `{column}`")),
        }
    }

    fn conv2d(&self) -> Result<(), Refusal> {
        let parallel = self.one_parallel()?;
        let own: FxHashSet<&str> = parallel.indices.iter().map(|index| index.name.name.as_str()).collect();
        let inner: FxHashSet<&str> =
            self.inner.iter().flat_map(|inner| &inner.indices).map(|index| index.name.name.as_str()).collect();
        if inner.len() < 2 {
            return refuse(parallel.header, "the window needs an inner loop over its rows and one over its columns");
        }
        let is_moved = |index: &Expr| {
            own.iter().any(|name| mentions(index, name)) && inner.iter().any(|name| mentions(index, name))
        };
        let n_moved = |indices: &[Expr]| indices.iter().filter(|index| is_moved(index)).count();
        let reads_window =
            self.elements(&parallel.body).iter().any(|(_, indices, is_written)| !is_written && n_moved(indices) >= 2);
        if !reads_window {
            return refuse(parallel.header, "no element is read at a place of the window, such as `x[i + r, j + s]`");
        }
        let adds_products =
            self.accumulations().iter().any(|(_, op, value)| *op == BinaryOp::Add && product(value).is_some());
        if adds_products {
            Ok(())
        } else {
            refuse(parallel.header, "no inner loop adds up products of elements and weights")
        }
    }

    fn attention(&self, is_flash: bool) -> Result<(), Refusal> {
        let (mut has_exp, mut has_max) = (false, false);
        for statement in &self.statements {
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| {
                    if let ExprKind::Call { function, .. } = &part.kind {
                        let builtin = function.as_name().filter(|name| !self.globals.contains(name));
                        has_exp |= builtin == Some("exp");
                        has_max |= builtin == Some("max");
                    }
                });
            }
        }
        let n_products = self
            .accumulations()
            .iter()
            .filter(|(_, op, value)| {
                *op == BinaryOp::Add && {
                    let mut has_product = false;
                    walk_expr(value, &mut |part| has_product |= product(part).is_some());
                    has_product
                }
            })
            .count();
        if !has_exp {
            return refuse(None, "no weights are made by `exp`");
        }
        if is_flash && !has_max {
            return refuse(None, "it keeps no running maximum by `max`");
        }
        match n_products >= 2 {
            true => Ok(()),
            false => refuse(None, "it needs two sums of products: of queries and keys, and of weights and values"),
        }
    }

    fn scan(&self) -> Result<(), Refusal> {
        let carries = self.inner.iter().any(|inner| {
            let mut changed: Vec<&str> = Vec::new();
            let (mut stores, mut stores_before) = (false, false);
            walk_block(&inner.body, &mut |statement| match &statement.kind {
                StmtKind::Update { target, .. } => match target.as_name() {
                    Some(name) => changed.push(name),
                    None => stores_before = true,
                },
                StmtKind::Assign { targets, value } => {
                    for target in targets {
                        match (&target.kind, target.as_name()) {
                            (_, Some(name)) if mentions(value, name) => changed.push(name),
                            (ExprKind::Index(of, _), _) => {
                                stores = true;
                                stores_before |= of.as_name().is_some_and(|array| mentions(value, array));
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            });
            stores_before || stores && !changed.is_empty()
        });
        match carries || self.inner.iter().any(|inner| inner.is_serial) {
            true => Ok(()),
            false => refuse(None, "no loop carries a value from one iteration to the next and stores it in each"),
        }
    }

    fn sort(&self) -> Result<(), Refusal> {
        let mut compares = false;
        let mut stores = false;
        for statement in &self.statements {
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| {
                    if let ExprKind::Compare(_, rest) = &part.kind {
                        compares |= rest.iter().any(|(op, _)| !matches!(op, CompareOp::Eq | CompareOp::Ne));
                    }
                });
            }
            if let StmtKind::Assign { targets, .. } = &statement.kind {
                stores |= targets.iter().any(|target| matches!(target.kind, ExprKind::Index(..)));
            }
        }
        match (compares, stores) {
            (false, _) => refuse(None, "it compares no elements by `<` or `>`"),
            (_, false) => refuse(None, "it stores no elements in their order"),
            _ => Ok(()),
        }
    }
}
