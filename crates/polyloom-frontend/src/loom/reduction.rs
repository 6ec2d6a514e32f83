//! `reduce for` and `scan for`: loops whose iterations meet in elements, which they combine by one operator.
//!
//! Such a loop gives what its iterations give in order. Here it becomes loops that need no word for that, before anything
//! else is worked out: where the elements are integers that an operator combines to the same in any order, updates become
//! atomic; otherwise the indices that choose an element stay parallel, and the others run in order inside. Where no index
//! chooses, the loop runs in one thread. A scan also stores what has been combined so far, so that nothing in it is atomic; one
//! of integers runs part by part (`scan.rs`).

use super::parse::SyntaxError;
use super::scan::{IntegerScan, pure_functions};
use super::syntax::{
    Argument, BinaryOp, Block, Expr, ExprKind, ForLoop, FunctionItem, FunctionKeyword, Item, LoomFile, LoopIndex, Stmt,
    StmtKind, TypeArgument, TypeExpr, asks_for_thread, blocks_of, expressions_of, same_text, walk_block, walk_expr,
};
use polyloom_ir::Code;
use ruff_text_size::TextRange;
use rustc_hash::{FxHashMap, FxHashSet};

/// Rewrites the reductions of a file, and reports what is none.
pub(super) fn rewrite(file: &mut LoomFile) -> Vec<SyntaxError> {
    let mut errors = Vec::new();
    let globals: FxHashSet<String> = file.names().map(str::to_owned).collect();
    let pure = pure_functions(file);
    for item in &mut file.items {
        let Item::Function(function) = item else { continue };
        let integers = integer_arrays(function);
        let scan = IntegerScan::new(function, &pure, &globals);
        let is_launched =
            function.keyword != FunctionKeyword::Fn && !asks_for_thread(&function.body, &|name| globals.contains(name));
        let mut rewriter = ReductionRewriter { integers, scan, globals: &globals, errors: &mut errors };
        rewriter.block(&mut function.body, is_launched);
    }
    errors
}

/// The arrays of a function whose elements are integers that atomic operations take.
fn integer_arrays(function: &FunctionItem) -> FxHashSet<String> {
    let is_integer = |argument: &TypeArgument| match argument {
        TypeArgument::Value(value) => matches!(value.as_name(), Some("i32" | "u32" | "i64" | "u64")),
        TypeArgument::Type(_) => false,
    };
    let is_array = |ty: &TypeExpr| {
        matches!(&ty.path[..], [only] if only.name == "array") && ty.arguments.first().is_some_and(is_integer)
    };
    let params =
        function.params.iter().chain(&function.results).filter(|param| param.ty.as_ref().is_some_and(is_array));
    let mut arrays: FxHashSet<String> = params.map(|param| param.name.name.clone()).collect();
    // Scratch arrays.
    for statement in &function.body.statements {
        if let StmtKind::Declare { targets, ty: Some(ty), .. } = &statement.kind
            && is_array(ty)
        {
            arrays.extend(targets.iter().map(|target| target.name.clone()));
        }
    }
    arrays
}

/// An operator that combines values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CombiningOp {
    Binary(BinaryOp),
    Min,
    Max,
}

impl CombiningOp {
    /// The atomic operation that gives the same whatever the order, if there is one for integers.
    fn atomic(self) -> Option<&'static str> {
        match self {
            CombiningOp::Min => Some("atomic_min"),
            CombiningOp::Max => Some("atomic_max"),
            CombiningOp::Binary(BinaryOp::Add) => Some("atomic_add"),
            CombiningOp::Binary(BinaryOp::Sub) => Some("atomic_sub"),
            CombiningOp::Binary(BinaryOp::And) => Some("atomic_and"),
            CombiningOp::Binary(BinaryOp::Or) => Some("atomic_or"),
            CombiningOp::Binary(BinaryOp::Xor) => Some("atomic_xor"),
            CombiningOp::Binary(_) => None,
        }
    }
}

/// A statement that combines a value with an element or a variable.
pub(super) struct CombinedUpdate<'a> {
    pub(super) target: &'a Expr,
    pub(super) op: CombiningOp,
    pub(super) value: &'a Expr,
}

impl CombinedUpdate<'_> {
    /// The array, and the subscripts of the element; `None` for a variable or a part of an element.
    fn element(&self) -> Option<(&str, &[Expr])> {
        match &self.target.kind {
            ExprKind::Index(of, subscripts) => Some((of.as_name()?, subscripts)),
            _ => None,
        }
    }
}

/// Reads `t += v` and its like, and `t = min(t, v)` or `t = max(v, t)`. `globals` has the names that the file gives a meaning,
/// because its own `min` may compute anything.
pub(super) fn combined<'s>(statement: &'s Stmt, globals: &FxHashSet<String>) -> Option<CombinedUpdate<'s>> {
    match &statement.kind {
        StmtKind::Update { target, op, value } => Some(CombinedUpdate { target, op: CombiningOp::Binary(*op), value }),
        StmtKind::Assign { targets, value } => {
            let [target] = &targets[..] else { return None };
            let ExprKind::Call { function, arguments, .. } = &value.kind else { return None };
            let op = match function.as_name().filter(|name| !globals.contains(*name))? {
                "min" => CombiningOp::Min,
                "max" => CombiningOp::Max,
                _ => return None,
            };
            let [first, second] = &arguments[..] else { return None };
            let value = match (same_text(&first.value, target), same_text(&second.value, target)) {
                (true, false) => &second.value,
                (false, true) => &first.value,
                _ => return None,
            };
            Some(CombinedUpdate { target, op, value })
        }
        _ => None,
    }
}

struct ReductionRewriter<'e> {
    integers: FxHashSet<String>,
    scan: IntegerScan<'e>,
    globals: &'e FxHashSet<String>,
    errors: &'e mut Vec<SyntaxError>,
}

impl ReductionRewriter<'_> {
    fn error(&mut self, range: TextRange, message: &str, help: &str) {
        let (message, help) = (message.to_owned(), help.to_owned());
        self.errors.push(SyntaxError { code: Code::Unsupported, range, message, help, label: None });
    }

    /// Rewrites the reductions of a block. `is_outermost` says that its loops are launched.
    fn block(&mut self, block: &mut Block, is_outermost: bool) {
        let mut at = 0;
        while at < block.statements.len() {
            let n_made = self.statement(block, at, is_outermost);
            at += n_made;
        }
    }

    /// Rewrites a statement, and gives the number of statements that stand for it.
    fn statement(&mut self, block: &mut Block, at: usize, is_outermost: bool) -> usize {
        let statement = &mut block.statements[at];
        {
            match &mut statement.kind {
                StmtKind::For(inner) => {
                    let reduces = inner.reduce.take();
                    self.block(&mut inner.body, is_outermost && inner.is_serial);
                    let Some(word) = reduces else { return 1 };
                    if !self.check(inner, word) || !is_outermost {
                        return 1;
                    }
                    if inner.is_scan
                        && let Some(parts) = self.scan.in_parts(inner)
                    {
                        let n_parts = parts.len();
                        block.statements.splice(at..=at, parts);
                        return n_parts;
                    }
                    self.rewrite(inner);
                }
                StmtKind::If { branches, otherwise } => {
                    branches.iter_mut().for_each(|(_, inner)| self.block(inner, is_outermost));
                    otherwise.iter_mut().for_each(|inner| self.block(inner, is_outermost));
                }
                StmtKind::While { body, .. } => self.block(body, false),
                _ => {}
            }
        }
        1
    }

    /// Reports what keeps a loop from being a reduction.
    fn check(&mut self, inner: &ForLoop, word: TextRange) -> bool {
        let mut n_combined = 0;
        walk_block(&inner.body, &mut |statement| {
            n_combined += usize::from(combined(statement, self.globals).is_some())
        });
        if inner.is_scan {
            let mut stores = false;
            walk_block(&inner.body, &mut |statement| {
                if let StmtKind::Assign { targets, .. } = &statement.kind {
                    stores |= targets.iter().any(|target| !matches!(target.kind, ExprKind::Name(_)));
                }
            });
            if n_combined == 0 || !stores {
                let help = "combine values and store what they are so far: `s += x[i]` and `y[i] = s`";
                self.error(word, "this loop is no scan", help);
                return false;
            }
        }
        let own = ["min", "max"].into_iter().find(|name| self.globals.contains(*name) && calls(&inner.body, name));
        if let Some(name) = own.filter(|_| n_combined == 0) {
            let message = format!("this loop combines nothing that is known: `{name}` is a function of the file");
            let help = "a reduction is by an operator or by the builtins `min` and `max`; for any other function write \
                        `serial for`";
            self.error(word, &message, help);
            return false;
        }
        if n_combined == 0 {
            let help =
                "combine values: `s[i] += x`, or `s[i] = max(s[i], x)`; a loop that only assigns is a plain `for`";
            self.error(word, "this loop combines nothing", help);
            return false;
        }
        if let Some(range) = exit_of(&inner.body) {
            let help = "leave the iteration with `continue`, or write `serial for`";
            self.error(range, "a reduction takes all its iterations", help);
            return false;
        }
        true
    }

    fn rewrite(&mut self, inner: &mut ForLoop) {
        let atomic = if inner.is_scan { FxHashSet::default() } else { self.atomic_arrays(&inner.body) };
        let choosing = choosing_indices(inner, &atomic, self.globals);
        let (parallel, in_order): (Vec<LoopIndex>, Vec<LoopIndex>) =
            std::mem::take(&mut inner.indices).into_iter().partition(|index| choosing.contains(&index.name.name));
        if parallel.is_empty() {
            inner.indices = in_order;
            inner.is_serial = true;
            run_in_order(&mut inner.body);
            return;
        }
        make_atomic(&mut inner.body, &atomic, self.globals);
        inner.indices = parallel;
        if in_order.is_empty() {
            return;
        }
        let body = std::mem::take(&mut inner.body);
        let header = inner.header;
        let ordered = ForLoop {
            annotations: Vec::new(),
            is_serial: false,
            reduce: None,
            is_scan: false,
            indices: in_order,
            body,
            header,
        };
        inner.body.statements.push(Stmt { kind: StmtKind::For(ordered), range: header });
    }

    /// The arrays of integers to which a body does nothing but combine by one operator, whose order does not matter.
    fn atomic_arrays(&self, body: &Block) -> FxHashSet<String> {
        let mut ops: FxHashMap<String, Option<CombiningOp>> = FxHashMap::default();
        let mut n_updates: FxHashMap<String, usize> = FxHashMap::default();
        let mut n_mentions: FxHashMap<String, usize> = FxHashMap::default();
        walk_block(body, &mut |statement| {
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| {
                    if let Some(name) = part.as_name() {
                        *n_mentions.entry(name.to_owned()).or_default() += 1;
                    }
                });
            }
            let Some(update) = combined(statement, self.globals) else { return };
            let Some((array, _)) = update.element() else { return };
            // `s = min(s, x)` names the element twice.
            let n = if matches!(update.op, CombiningOp::Binary(_)) { 1 } else { 2 };
            *n_updates.entry(array.to_owned()).or_default() += n;
            let known = ops.entry(array.to_owned()).or_insert(Some(update.op));
            if *known != Some(update.op) {
                *known = None;
            }
        });
        let is_atomic = |array: &String| {
            let has_op = ops.get(array).copied().flatten().is_some_and(|op| op.atomic().is_some());
            self.integers.contains(array) && has_op && n_updates.get(array) == n_mentions.get(array)
        };
        ops.keys().filter(|array| is_atomic(array)).cloned().collect()
    }
}

/// Returns true if a body calls a function by its name.
fn calls(body: &Block, name: &str) -> bool {
    let mut calls = false;
    walk_block(body, &mut |statement| {
        for expr in expressions_of(statement) {
            walk_expr(expr, &mut |part| {
                if let ExprKind::Call { function, .. } = &part.kind {
                    calls |= function.as_name() == Some(name);
                }
            });
        }
    });
    calls
}

/// A statement that leaves the loop, outside loops in it.
fn exit_of(body: &Block) -> Option<TextRange> {
    body.statements.iter().find_map(|statement| match &statement.kind {
        StmtKind::Break | StmtKind::Return(_) => Some(statement.range),
        StmtKind::For(_) | StmtKind::While { .. } => None,
        _ => blocks_of(statement).into_iter().find_map(exit_of),
    })
}

/// The indices that stand alone among the subscripts of every element that is not combined by atomic operations: other
/// values of theirs are other elements.
fn choosing_indices(inner: &ForLoop, atomic: &FxHashSet<String>, globals: &FxHashSet<String>) -> FxHashSet<String> {
    let own: FxHashSet<&str> = inner.indices.iter().map(|index| index.name.name.as_str()).collect();
    let mut choosing: FxHashSet<&str> = own.clone();
    let mut locals: FxHashSet<&str> = FxHashSet::default();
    walk_block(&inner.body, &mut |statement| {
        if let StmtKind::Declare { targets, .. } = &statement.kind {
            locals.extend(targets.iter().map(|target| target.name.as_str()));
        }
    });
    walk_block(&inner.body, &mut |statement| {
        let Some(update) = combined(statement, globals) else { return };
        match update.element() {
            Some((array, _)) if atomic.contains(array) => {}
            Some((_, subscripts)) => choosing.retain(|name| subscripts.iter().any(|part| part.as_name() == Some(name))),
            // A variable of the iteration meets no other.
            None if update.target.as_name().is_some_and(|name| locals.contains(name)) => {}
            None => choosing.clear(),
        }
    });
    let depends = |index: &LoopIndex| {
        let mut depends = false;
        for bound in [&index.start, &index.end].into_iter().chain(&index.step) {
            walk_expr(bound, &mut |part| depends |= part.as_name().is_some_and(|name| own.contains(name)));
        }
        depends
    };
    let has_fixed_bounds =
        inner.indices.iter().all(|index| !choosing.contains(index.name.name.as_str()) || !depends(index));
    if !has_fixed_bounds {
        choosing.clear();
    }
    choosing.into_iter().map(str::to_owned).collect()
}

/// Makes the loops of a block run in order where they stand.
fn run_in_order(block: &mut Block) {
    for statement in &mut block.statements {
        match &mut statement.kind {
            StmtKind::For(inner) => {
                inner.is_serial = true;
                run_in_order(&mut inner.body);
            }
            StmtKind::If { branches, otherwise } => {
                branches.iter_mut().map(|(_, inner)| inner).chain(otherwise).for_each(run_in_order);
            }
            StmtKind::While { body, .. } => run_in_order(body),
            _ => {}
        }
    }
}

/// Makes the updates of some arrays atomic.
fn make_atomic(block: &mut Block, arrays: &FxHashSet<String>, globals: &FxHashSet<String>) {
    for statement in &mut block.statements {
        let range = statement.range;
        let call = combined(statement, globals).and_then(|update| {
            let (array, subscripts) = update.element()?;
            let name = update.op.atomic().filter(|_| arrays.contains(array))?;
            let argument = |value: Expr| Argument { name: None, value };
            let array = Expr { kind: ExprKind::Name(array.to_owned()), range: update.target.range };
            let arguments = [array].into_iter().chain(subscripts.iter().cloned()).chain([update.value.clone()]);
            let function = Box::new(Expr { kind: ExprKind::Name(name.to_owned()), range });
            let arguments = arguments.map(argument).collect();
            Some(Expr { kind: ExprKind::Call { function, arguments, parentheses: range }, range })
        });
        match call {
            Some(call) => statement.kind = StmtKind::Expr(call),
            None => match &mut statement.kind {
                StmtKind::For(inner) => make_atomic(&mut inner.body, arrays, globals),
                StmtKind::If { branches, otherwise } => {
                    let blocks = branches.iter_mut().map(|(_, inner)| inner).chain(otherwise);
                    blocks.for_each(|inner| make_atomic(inner, arrays, globals));
                }
                StmtKind::While { body, .. } => make_atomic(body, arrays, globals),
                _ => {}
            },
        }
    }
}
