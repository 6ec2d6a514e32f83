//! `scan for` of integers in parallel: the iterations run in parts, which do not wait for each other.
//!
//! One launch combines the values of each part, one thread works out where each part begins, and another launch runs the
//! iterations of each part from there. Integers combine to the same bits however they are grouped; floats do not, and run in
//! order.

use super::reduction::{CombiningOp, combined};
use super::syntax::{
    BinaryOp, Block, CompareOp, Expr, ExprKind, ForLoop, FunctionItem, FunctionKeyword, Ident, Item, LoomFile,
    LoopIndex, Param, Stmt, StmtKind, TypeArgument, TypeExpr, blocks_of, expressions_of, same_text, walk_block,
    walk_expr,
};
use super::types;
use ruff_text_size::{TextRange, TextSize};
use rustc_hash::{FxHashMap, FxHashSet};

/// Parts of a loop.
const N_PARTS: u64 = 64;

/// Holds what is known of a function whose scans are rewritten.
pub(super) struct IntegerScan<'a> {
    /// All names of the function, none of which stands for anything new.
    names: FxHashSet<String>,
    /// Variables outside loops that are integers, with their types.
    variables: FxHashMap<String, String>,
    /// Functions whose calls may run twice, because they write nothing.
    pure: FxHashSet<String>,
    /// Names that the file gives a meaning.
    globals: &'a FxHashSet<String>,
}

/// Builtins that write nothing and whose values depend on nothing but their arguments.
const PURE_BUILTINS: [&str; 15] = [
    "abs", "ceil", "clamp", "exp", "fma", "floor", "floordiv", "len", "log", "max", "min", "pow", "round", "sqrt",
    "zeros",
];

/// Finds the functions whose calls write nothing, because they take neither arrays nor references.
pub(super) fn pure_functions(file: &LoomFile) -> FxHashSet<String> {
    let mut pure: FxHashSet<String> = PURE_BUILTINS.iter().map(|name| (*name).to_owned()).collect();
    pure.extend(types::SCALARS.iter().map(|(name, _)| (*name).to_owned()));
    let mut impure: Vec<&str> = Vec::new();
    for item in &file.items {
        match item {
            Item::Import(import) => impure.extend(import.names.iter().map(|name| name.name.as_str())),
            Item::Function(function) => {
                let Some(name) = &function.name else { continue };
                let is_number = |param: &Param| {
                    let path = param.ty.as_ref().map(|ty| &ty.path[..]);
                    let bounds = || function.generics.iter().filter(|(_, bound)| bound.is_some());
                    matches!(path, Some([only]) if types::scalar(&only.name).is_some()
                        || bounds().any(|(variable, _)| variable.name == only.name))
                };
                let mut prints = false;
                walk_block(&function.body, &mut |statement| {
                    prints |= matches!(statement.kind, StmtKind::Expr(_) | StmtKind::Assert { .. });
                });
                if function.keyword == FunctionKeyword::Fn && !prints && function.params.iter().all(is_number) {
                    pure.insert(name.name.clone());
                } else {
                    impure.push(&name.name);
                }
            }
            _ => {}
        }
    }
    impure.into_iter().for_each(|name| _ = pure.remove(name));
    pure
}

/// The name that an element, a field or a part of a part begins with.
fn root_of(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        ExprKind::Index(of, _) | ExprKind::Member(of, _) => root_of(of),
        _ => None,
    }
}

/// Returns true if an index differs in any two iterations: it is the counter, or a sum with terms that no iteration changes.
fn moves_with(index: &Expr, counter: &str, is_fixed: &dyn Fn(&Expr) -> bool) -> bool {
    match &index.kind {
        ExprKind::Name(name) => name == counter,
        ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, left, right) => {
            moves_with(left, counter, is_fixed) && is_fixed(right)
                || moves_with(right, counter, is_fixed) && is_fixed(left)
        }
        _ => false,
    }
}

/// Makes nodes at one place.
struct NodesAt(TextRange);

fn integer_name(ty: &TypeExpr) -> Option<&str> {
    let [only] = &ty.path[..] else { return None };
    matches!(only.name.as_str(), "i32" | "u32" | "i64" | "u64").then_some(&only.name)
}

impl<'a> IntegerScan<'a> {
    pub(super) fn new(
        function: &FunctionItem,
        pure: &FxHashSet<String>,
        globals: &'a FxHashSet<String>,
    ) -> IntegerScan<'a> {
        let mut names: FxHashSet<String> = FxHashSet::default();
        let params = function.params.iter().chain(&function.results);
        names.extend(params.clone().map(|param| param.name.name.clone()));
        // The types of arrays of integers, for variables that begin as plain numbers.
        let elements: FxHashMap<&str, &str> = params
            .filter_map(|param| {
                let ty = param.ty.as_ref().filter(|ty| matches!(&ty.path[..], [only] if only.name == "array"))?;
                match ty.arguments.first()? {
                    TypeArgument::Value(value) => Some((param.name.name.as_str(), value.as_name()?)),
                    TypeArgument::Type(_) => None,
                }
            })
            .collect();
        let mut combined_with: FxHashMap<String, Option<String>> = FxHashMap::default();
        let mut n_declared: FxHashMap<String, usize> = FxHashMap::default();
        walk_block(&function.body, &mut |statement| {
            match &statement.kind {
                StmtKind::Declare { targets, .. } => {
                    names.extend(targets.iter().map(|target| target.name.clone()));
                    targets.iter().for_each(|target| *n_declared.entry(target.name.clone()).or_default() += 1);
                }
                StmtKind::For(inner) => names.extend(inner.indices.iter().map(|index| index.name.name.clone())),
                _ => {}
            }
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| names.extend(part.as_name().map(str::to_owned)));
            }
            let Some(update) = combined(statement, globals) else { return };
            if let (Some(name), ExprKind::Index(of, _)) = (update.target.as_name(), &update.value.kind) {
                let element = of.as_name().and_then(|array| elements.get(array)).map(|element| (*element).to_owned());
                combined_with.insert(name.to_owned(), element);
            }
        });
        let mut variables = FxHashMap::default();
        for statement in &function.body.statements {
            let StmtKind::Declare { is_var: true, targets, ty, value } = &statement.kind else { continue };
            let [target] = &targets[..] else { continue };
            // A name that another block declares again may be of another type there.
            if n_declared.get(&target.name) != Some(&1) {
                continue;
            }
            let ty = match (ty, value.as_ref().map(|value| &value.kind)) {
                (Some(ty), _) => integer_name(ty).map(str::to_owned),
                (None, Some(ExprKind::Int(_, Some(suffix)))) => Some(suffix.clone()),
                (None, Some(ExprKind::Int(_, None))) => combined_with.get(&target.name).cloned().flatten(),
                _ => None,
            };
            if let Some(ty) = ty.filter(|ty| matches!(ty.as_str(), "i32" | "u32" | "i64" | "u64")) {
                variables.insert(target.name.clone(), ty);
            }
        }
        IntegerScan { names, variables, pure: pure.clone(), globals }
    }

    fn fresh(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut n = 1;
        while self.names.contains(&name) {
            n += 1;
            name = format!("{wanted}_{n}");
        }
        self.names.insert(name.clone());
        name
    }

    /// The statements that a scan of one integer variable is; `None` for any other scan.
    pub(super) fn in_parts(&mut self, inner: &ForLoop) -> Option<Vec<Stmt>> {
        let [LoopIndex { name: counter, start, end, is_inclusive: false, step: None }] = &inner.indices[..] else {
            return None;
        };
        let (sum, op) = self.combined_variable(&inner.body)?;
        if !self.may_run_twice(inner, &counter.name, &sum) {
            return None;
        }
        let ty = self.variables.get(&sum)?.clone();
        let at = NodesAt(inner.header);
        let (parts, length) = (self.fresh(&format!("{sum}_parts")), self.fresh("part_length"));
        let (part, step) = (self.fresh("part"), self.fresh("of_part"));
        let neutral = match op {
            // All bits.
            CombiningOp::Binary(BinaryOp::And) => match &*ty {
                "u32" => at.int(u32::MAX.into()),
                "u64" => at.int(u64::MAX),
                _ => at.unary_invert(at.int(0)),
            },
            _ => at.int(0),
        };
        // Values are subtracted one by one as their sum is.
        let joining = match op {
            CombiningOp::Binary(BinaryOp::Sub) => BinaryOp::Add,
            CombiningOp::Binary(op) => op,
            CombiningOp::Min | CombiningOp::Max => return None,
        };
        let element = || at.index(&parts, at.name(&part));
        // The iterations of a part that there are: the last part has fewer.
        let iterations = |body: Block| {
            let first = at.binary(BinaryOp::Mul, at.name(&part), at.name(&length));
            let own = at.binary(BinaryOp::Add, at.binary(BinaryOp::Add, start.clone(), first), at.name(&step));
            let exists = Expr {
                kind: ExprKind::Compare(Box::new(at.name(&counter.name)), vec![(CompareOp::Lt, end.clone())]),
                range: inner.header,
            };
            let inside = StmtKind::If { branches: vec![(exists, body)], otherwise: None };
            let declared =
                StmtKind::Declare { is_var: false, targets: vec![counter.clone()], ty: None, value: Some(own) };
            at.for_loop(&step, at.name(&length), false, vec![at.statement(declared), at.statement(inside)])
        };
        let begin = |value: Expr| {
            let ty = at.type_of(&ty);
            let targets = vec![at.ident(&sum)];
            at.statement(StmtKind::Declare { is_var: true, targets, ty: Some(ty), value: Some(value) })
        };
        let store = |value: Expr| at.statement(StmtKind::Assign { targets: vec![element()], value });
        let n_iterations = at.binary(BinaryOp::Sub, end.clone(), start.clone());
        let up = at.binary(BinaryOp::Add, n_iterations, at.int(N_PARTS - 1));
        let memory = TypeExpr {
            path: vec![at.ident("array")],
            arguments: vec![TypeArgument::Value(at.name(&ty)), TypeArgument::Value(at.int(N_PARTS))],
            range: inner.header,
        };
        let of_part = self.fresh("value");
        let kept =
            StmtKind::Declare { is_var: false, targets: vec![at.ident(&of_part)], ty: None, value: Some(element()) };
        let joined = StmtKind::Update { target: at.name(&sum), op: joining, value: at.name(&of_part) };
        let mut first_pass = at.for_loop(
            &part,
            at.int(N_PARTS),
            false,
            vec![begin(neutral), iterations(combining_alone(&inner.body, &sum)), store(at.name(&sum))],
        );
        let mut second_pass =
            at.for_loop(&part, at.int(N_PARTS), false, vec![begin(element()), iterations(inner.body.clone())]);
        for pass in [&mut first_pass, &mut second_pass] {
            if let StmtKind::For(pass) = &mut pass.kind {
                pass.annotations.clone_from(&inner.annotations);
            }
        }
        let mut made = vec![
            at.statement(StmtKind::Declare {
                is_var: false,
                targets: vec![at.ident(&length)],
                ty: None,
                value: Some(at.binary(BinaryOp::Div, up, at.int(N_PARTS))),
            }),
            at.statement(StmtKind::Declare {
                is_var: true,
                targets: vec![at.ident(&parts)],
                ty: Some(memory),
                value: None,
            }),
            first_pass,
            at.for_loop(
                &part,
                at.int(N_PARTS),
                true,
                vec![at.statement(kept), store(at.name(&sum)), at.statement(joined)],
            ),
            second_pass,
        ];
        // Functions are known by where they begin, so that no two of these begin at one place. Loops that stage tiles become two.
        for (statement, shift) in made.iter_mut().zip((0u32..).step_by(2)) {
            let start = inner.header.start() + TextSize::new(shift);
            statement.range = TextRange::new(start.min(inner.header.end()), inner.header.end());
        }
        Some(made)
    }

    /// The variable outside that the loop combines values with, if that is all that it changes outside its own blocks, and
    /// what it combines does not depend on it.
    fn combined_variable(&self, body: &Block) -> Option<(String, CombiningOp)> {
        let mut found: Option<(String, CombiningOp)> = None;
        let mut is_simple = true;
        walk_block(body, &mut |statement| {
            if let Some(update) = combined(statement, self.globals) {
                match update.target.as_name() {
                    Some(name) if self.variables.contains_key(name) => {
                        is_simple &= found.as_ref().is_none_or(|(known, op)| known == name && *op == update.op);
                        found = Some((name.to_owned(), update.op));
                    }
                    _ => is_simple = false,
                }
            } else if let StmtKind::Assign { targets, .. } = &statement.kind {
                is_simple &= targets.iter().all(|target| matches!(target.kind, ExprKind::Index(..)));
            } else {
                is_simple &= matches!(statement.kind, StmtKind::Declare { .. } | StmtKind::If { .. });
            }
        });
        let (sum, op) = found.filter(|_| is_simple)?;
        let is_known = matches!(
            op,
            CombiningOp::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)
        );
        let mentions = |expr: &Expr| {
            let mut found = false;
            walk_expr(expr, &mut |part| found |= part.as_name() == Some(&*sum));
            found
        };
        let mut depends = false;
        let mut n_combining = 0;
        walk_block(body, &mut |statement| match &statement.kind {
            StmtKind::Declare { value, targets, .. } => {
                depends |= value.as_ref().is_some_and(mentions) || targets.iter().any(|target| target.name == sum);
            }
            StmtKind::If { branches, .. } => depends |= branches.iter().any(|(cond, _)| mentions(cond)),
            _ => {
                if let Some(update) = combined(statement, self.globals) {
                    n_combining += 1;
                    depends |= mentions(update.value);
                }
            }
        });
        (is_known && !depends && n_combining > 0).then_some((sum, op))
    }

    /// Returns true if parts may run at once, after a first pass without stores: no call writes, no two iterations store to
    /// the same element, and nothing that is stored is read, except for variables of the iteration that do not decide what it
    /// combines.
    fn may_run_twice(&self, inner: &ForLoop, counter: &str, sum: &str) -> bool {
        let mut locals: FxHashSet<&str> = FxHashSet::default();
        let mut aliases: FxHashSet<&str> = FxHashSet::default();
        // These choose what is combined, and are all that is read.
        let (mut chosen, mut read): (Vec<&Expr>, Vec<&Expr>) = (Vec::new(), Vec::new());
        let mut stores: Vec<&Expr> = Vec::new();
        walk_block(&inner.body, &mut |statement| match &statement.kind {
            StmtKind::Declare { targets, value, .. } => {
                locals.extend(targets.iter().map(|target| target.name.as_str()));
                // Anything but a number or new memory may be a part of an array.
                if value.as_ref().is_some_and(|value| !matches!(value.kind, ExprKind::Call { .. })) {
                    aliases.extend(targets.iter().map(|target| target.name.as_str()));
                }
                chosen.extend(value);
            }
            StmtKind::If { branches, .. } => chosen.extend(branches.iter().map(|(cond, _)| cond)),
            StmtKind::Assign { targets, value } => {
                for target in targets {
                    stores.push(target);
                    if let ExprKind::Index(of, indices) = &target.kind {
                        read.extend(indices);
                        read.extend(Some(&**of).filter(|of| of.as_name().is_none()));
                    }
                }
                read.push(value);
            }
            _ => chosen.extend(combined(statement, self.globals).map(|update| update.value)),
        });
        for index in &inner.indices {
            chosen.extend([&index.start, &index.end]);
        }
        read.extend(&chosen);
        let has_effect = |expr: &&Expr| {
            let mut found = false;
            walk_expr(expr, &mut |part| {
                if let ExprKind::Call { function, .. } = &part.kind {
                    found |= function.as_name().is_none_or(|name| !self.pure.contains(name));
                }
            });
            found
        };
        let names = |expr: &Expr, wanted: &str| {
            let mut found = false;
            walk_expr(expr, &mut |part| found |= part.as_name() == Some(wanted));
            found
        };
        let is_fixed = |expr: &Expr| {
            let mut is_fixed = true;
            walk_expr(expr, &mut |part| match &part.kind {
                ExprKind::Name(name) => is_fixed &= name != counter && name != sum && !locals.contains(name.as_str()),
                ExprKind::Index(..) | ExprKind::Call { .. } => is_fixed = false,
                _ => {}
            });
            is_fixed
        };
        let is_own_store = |target: &&Expr| {
            let Some(root) = root_of(target) else { return false };
            if locals.contains(root) {
                return !aliases.contains(root) && !chosen.iter().any(|expr| names(expr, root));
            }
            let ExprKind::Index(of, indices) = &target.kind else { return false };
            let same = |other: &&Expr| root_of(other) != Some(root) || same_text(other, target);
            of.as_name().is_some()
                && !read.iter().any(|expr| names(expr, root))
                && stores.iter().all(same)
                && indices.iter().any(|index| moves_with(index, counter, &is_fixed))
        };
        let bounds_are_outside = inner.indices.iter().all(|index| !names(&index.start, sum) && !names(&index.end, sum));
        bounds_are_outside && !read.iter().any(has_effect) && stores.iter().all(is_own_store)
    }
}

/// The statements of a body without those that store.
fn combining_alone(body: &Block, sum: &str) -> Block {
    let statements = body.statements.iter().filter_map(|statement| {
        let kind = match &statement.kind {
            StmtKind::If { branches, otherwise } => StmtKind::If {
                branches: branches.iter().map(|(cond, body)| (cond.clone(), combining_alone(body, sum))).collect(),
                otherwise: otherwise.as_ref().map(|body| combining_alone(body, sum)),
            },
            StmtKind::Assign { targets, .. } if !targets.iter().any(|target| target.as_name() == Some(sum)) => {
                return None;
            }
            _ if blocks_of(statement).is_empty() => statement.kind.clone(),
            _ => return None,
        };
        Some(Stmt { kind, range: statement.range })
    });
    Block { statements: statements.collect() }
}

impl NodesAt {
    fn expr(&self, kind: ExprKind) -> Expr {
        Expr { kind, range: self.0 }
    }

    fn statement(&self, kind: StmtKind) -> Stmt {
        Stmt { kind, range: self.0 }
    }

    fn ident(&self, name: &str) -> Ident {
        Ident { name: name.to_owned(), range: self.0 }
    }

    fn name(&self, name: &str) -> Expr {
        self.expr(ExprKind::Name(name.to_owned()))
    }

    fn int(&self, value: u64) -> Expr {
        self.expr(ExprKind::Int(value, None))
    }

    fn unary_invert(&self, of: Expr) -> Expr {
        self.expr(ExprKind::Unary(super::syntax::UnaryOp::Invert, Box::new(of)))
    }

    fn binary(&self, op: BinaryOp, left: Expr, right: Expr) -> Expr {
        self.expr(ExprKind::Binary(op, Box::new(left), Box::new(right)))
    }

    fn index(&self, array: &str, index: Expr) -> Expr {
        self.expr(ExprKind::Index(Box::new(self.name(array)), vec![index]))
    }

    fn type_of(&self, name: &str) -> TypeExpr {
        TypeExpr { path: vec![self.ident(name)], arguments: Vec::new(), range: self.0 }
    }

    fn for_loop(&self, counter: &str, end: Expr, is_serial: bool, statements: Vec<Stmt>) -> Stmt {
        let index = LoopIndex { name: self.ident(counter), start: self.int(0), end, is_inclusive: false, step: None };
        self.statement(StmtKind::For(ForLoop {
            annotations: Vec::new(),
            is_serial,
            reduce: None,
            is_scan: false,
            indices: vec![index],
            body: Block { statements },
            header: self.0,
        }))
    }
}
