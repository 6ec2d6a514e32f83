//! Elaborates a parallel loop whose blocks stage tiles of arrays in shared memory, as `loom/staging.rs` has planned them.
//!
//! A block is a box of iterations, one for each thread. All its threads wait at the same barriers: those past the end of the
//! loop compute what the last iteration does, and store nothing.

use super::body::{BodyElaboration, LocalKind};
use crate::loom::python_nodes as node;
use crate::loom::staging::{ArrayTile, StagingPlan, TileAxis, TileTerm};
use crate::loom::syntax::{Expr, ExprKind, ForLoop, LoopIndex, Stmt, StmtKind, walk_expr};
use polyloom_ir::Code;
use ruff_python_ast::{self as ast, ExprContext, Operator};
use ruff_text_size::TextRange;

/// A tile that accesses of the text stand for.
#[derive(Clone)]
pub(super) struct StagedAccess {
    /// The shared array.
    tile: String,
    /// The subscript at which the tile begins, along each axis.
    first: Vec<String>,
}

/// Names of a block that its statements are made of.
struct StagedBlock<'p> {
    plan: &'p StagingPlan,
    at: TextRange,
    /// The first value of each parallel index in the block.
    first: Vec<String>,
    /// The number of the thread in its block.
    lane: String,
    n_threads: u32,
    /// The shared array of each tile.
    tiles: Vec<String>,
}

fn name(of: &str, at: TextRange) -> ast::Expr {
    node::name(of, at)
}

fn int(value: u64, at: TextRange) -> ast::Expr {
    node::int(value, at)
}

fn builtin(of: &str, arguments: Vec<ast::Expr>, at: TextRange) -> ast::Expr {
    node::call(node::member(of, at), arguments, Vec::new(), at)
}

fn add(a: ast::Expr, b: ast::Expr, at: TextRange) -> ast::Expr {
    node::binary(a, Operator::Add, b, at)
}

fn scaled(value: ast::Expr, by: u64, at: TextRange) -> ast::Expr {
    if by == 1 { value } else { node::binary(value, Operator::Mult, int(by, at), at) }
}

fn barrier(at: TextRange) -> ast::Stmt {
    node::expression(builtin("sync_threads", Vec::new(), at), at)
}

/// The value before which an index ends.
fn end_of(body: &mut BodyElaboration<'_, '_>, index: &LoopIndex) -> ast::Expr {
    let end = body.expr(&index.end);
    let range = index.end.range;
    if index.is_inclusive { add(end, int(1, range), range) } else { end }
}

/// The statements of an iteration, after extents and `let` outside.
pub(super) fn staged_iteration(
    body: &mut BodyElaboration<'_, '_>,
    parallel: &ForLoop,
    plan: &StagingPlan,
    out: &mut Vec<ast::Stmt>,
) {
    let at = parallel.header;
    let n_threads = plan.sizes.iter().product();
    let mut block = StagedBlock { plan, at, first: Vec::new(), lane: String::new(), n_threads, tiles: Vec::new() };
    let inside = block.indices(body, parallel, out);
    for tile in &plan.tiles {
        let shared = body.fresh(&format!("{}_tile", tile.array));
        let extents = tile.axes.iter().map(|axis| int(axis.extent.into(), tile.range)).collect();
        let shape = node::tuple(extents, tile.range, ExprContext::Load);
        let dtype = node::attribute(name(&tile.array, tile.range), "dtype", tile.range);
        let keyword = |of: &str, value| (ast::Identifier::new(of, tile.range), value);
        let keywords = vec![keyword("shape", shape), keyword("dtype", dtype)];
        let made = node::call(node::member("shared_array", tile.range), Vec::new(), keywords, tile.range);
        out.push(node::assign(node::target(&shared, at), made, at));
        block.tiles.push(shared);
    }
    block.stage(body, None, "", out);
    body.scoped(|body| {
        let statements = &parallel.body.statements;
        let last = plan.tiles.iter().filter_map(|tile| tile.segmented).max();
        let n_waiting = last.map_or(0, |last| last + 1);
        body.guard = Some(inside.clone());
        for (at, statement) in statements.iter().enumerate().take(n_waiting) {
            match &statement.kind {
                StmtKind::For(inner) if plan.tiles.iter().any(|tile| tile.segmented == Some(at)) => {
                    block.segments(body, at, inner, statement.range, out);
                }
                _ => body.statement(statement, out),
            }
        }
        body.guard = None;
        let mut rest = Vec::new();
        statements.iter().skip(n_waiting).for_each(|statement| body.statement(statement, &mut rest));
        if !rest.is_empty() {
            out.extend(node::branch(vec![(name(&inside, at), rest)], None, at));
        }
    });
}

impl StagedBlock<'_> {
    /// Begins with the indices, and gives the name of what says that the thread has an iteration.
    fn indices(&mut self, body: &mut BodyElaboration<'_, '_>, parallel: &ForLoop, out: &mut Vec<ast::Stmt>) -> String {
        let (at, n) = (self.at, parallel.indices.len());
        let assign =
            |out: &mut Vec<ast::Stmt>, to: &str, value| out.push(node::assign(node::target(to, at), value, at));
        let mut left = body.fresh("block");
        assign(out, &left, builtin("block_idx", Vec::new(), at));
        let mut ends = vec![String::new(); n];
        self.first = vec![String::new(); n];
        for (axis, index) in parallel.indices.iter().enumerate().rev() {
            let size = u64::from(self.plan.sizes[axis]);
            let word = &index.name.name;
            let (start, end) = (body.fresh(&format!("{word}_start")), body.fresh(&format!("{word}_end")));
            let (first_value, end_value) = (body.expr(&index.start), end_of(body, index));
            assign(out, &start, first_value);
            assign(out, &end, end_value);
            let mut along = name(&left, at);
            if axis > 0 {
                // The last index runs fastest, as in a launch without blocks.
                let n_blocks = body.fresh(&format!("{word}_blocks"));
                let length = node::binary(name(&end, at), Operator::Sub, name(&start, at), at);
                let up = add(length, int(size - 1, at), at);
                assign(out, &n_blocks, node::binary(up, Operator::FloorDiv, int(size, at), at));
                along = node::binary(along, Operator::Mod, name(&n_blocks, at), at);
                let rest = body.fresh("block");
                assign(out, &rest, node::binary(name(&left, at), Operator::FloorDiv, name(&n_blocks, at), at));
                left = rest;
            }
            let first = body.fresh(&format!("{word}_first"));
            assign(out, &first, add(name(&start, at), scaled(along, size, at), at));
            self.first[axis] = first;
            ends[axis] = end;
        }
        let mut lane: Option<ast::Expr> = None;
        let mut conditions = Vec::new();
        for (axis, index) in parallel.indices.iter().enumerate() {
            let word = &index.name.name;
            let thread = body.fresh(&format!("{word}_thread"));
            let of_block = builtin("thread_idx", vec![int((n - 1 - axis) as u64, at)], at);
            assign(out, &thread, of_block);
            let own = body.fresh(&format!("{word}_own"));
            assign(out, &own, add(name(&self.first[axis], at), name(&thread, at), at));
            conditions.push(node::compare(name(&own, at), vec![(ast::CmpOp::Lt, name(&ends[axis], at))], at));
            let last = node::binary(name(&ends[axis], at), Operator::Sub, int(1, at), at);
            let counter = body.declare(&index.name, LocalKind::Index);
            let value = builtin("min", vec![name(&own, at), last], at);
            out.push(node::assign(node::target(&counter, index.name.range), value, index.name.range));
            let part = name(&thread, at);
            lane = Some(match lane {
                None => part,
                Some(lane) => add(scaled(lane, u64::from(self.plan.sizes[axis]), at), part, at),
            });
        }
        self.lane = body.fresh("lane");
        assign(out, &self.lane, lane.unwrap_or_else(|| int(0, at)));
        let inside = body.fresh("has_iteration");
        let condition = match conditions.len() {
            1 => conditions.swap_remove(0),
            _ => node::logic(ast::BoolOp::And, conditions, at),
        };
        assign(out, &inside, condition);
        inside
    }

    /// A loop that runs segment by segment, each of which the block stages first.
    fn segments(
        &self,
        body: &mut BodyElaboration<'_, '_>,
        statement: usize,
        inner: &ForLoop,
        range: TextRange,
        out: &mut Vec<ast::Stmt>,
    ) {
        let at = inner.header;
        let Some(index) = inner.indices.first() else { return };
        let word = &index.name.name;
        let length = u64::from(self.plan.segment);
        let (end, first) = (body.fresh(&format!("{word}_end")), body.fresh(&format!("{word}_first")));
        let (start, end_value) = (body.expr(&index.start), end_of(body, index));
        out.push(node::assign(node::target(&end, at), end_value, at));
        let mut segment = Vec::new();
        self.stage(body, Some(statement), &first, &mut segment);
        let last = builtin("min", vec![add(name(&first, at), int(length, at), at), name(&end, at)], at);
        let iterations = builtin("range", vec![name(&first, at), last], at);
        segment.extend(body.for_loop(inner, Some(iterations), range));
        segment.push(barrier(at));
        let steps = builtin("range", vec![start, name(&end, at), int(length, at)], at);
        out.push(node::for_loop(node::target(&first, at), steps, segment, range));
    }

    /// Copies the tiles of a segment, or those of the whole loop, and waits for them.
    fn stage(
        &self,
        body: &mut BodyElaboration<'_, '_>,
        segmented: Option<usize>,
        segment: &str,
        out: &mut Vec<ast::Stmt>,
    ) {
        let at = self.at;
        let mut copies = Vec::new();
        for (tile, shared) in self.plan.tiles.iter().zip(&self.tiles) {
            if tile.segmented != segmented {
                continue;
            }
            let first: Vec<String> =
                (0..tile.axes.len()).map(|_| body.fresh(&format!("{}_first", tile.array))).collect();
            for (axis, first) in tile.axes.iter().zip(&first) {
                let value = self.first_subscript(body, axis, segment);
                out.push(node::assign(node::target(first, at), value, at));
            }
            self.copy(body, tile, shared, &first, &mut copies);
            for start in &tile.accesses {
                body.staged.insert(*start, StagedAccess { tile: shared.clone(), first: first.clone() });
            }
        }
        if !copies.is_empty() {
            out.extend(copies);
            out.push(barrier(at));
        }
    }

    fn first_subscript(&self, body: &mut BodyElaboration<'_, '_>, axis: &TileAxis, segment: &str) -> ast::Expr {
        let at = self.at;
        let mut sum: Option<ast::Expr> = None;
        let mut push = |value: ast::Expr, coefficient: i64| {
            let value = scaled(value, coefficient.unsigned_abs(), at);
            sum = Some(match (sum.take(), coefficient < 0) {
                (None, false) => value,
                (None, true) => node::unary(ast::UnaryOp::USub, value, at),
                (Some(sum), false) => add(sum, value, at),
                (Some(sum), true) => node::binary(sum, Operator::Sub, value, at),
            });
        };
        for (term, coefficient) in &axis.terms {
            match term {
                TileTerm::Index(index) => push(name(&self.first[*index], at), *coefficient),
                TileTerm::Segment => push(name(segment, at), *coefficient),
                TileTerm::Names(names) => {
                    let mut factors = names.iter().map(|of| body.name(of, at));
                    if let Some(first) = factors.next() {
                        push(factors.fold(first, |a, b| node::binary(a, Operator::Mult, b, at)), *coefficient);
                    }
                }
            }
        }
        if axis.offset != 0 || axis.terms.is_empty() {
            push(int(axis.offset.unsigned_abs(), at), if axis.offset < 0 { -1 } else { 1 });
        }
        sum.unwrap_or_else(|| int(0, at))
    }

    /// Copies a tile: each thread the elements whose numbers are its own.
    fn copy(
        &self,
        body: &mut BodyElaboration<'_, '_>,
        tile: &ArrayTile,
        shared: &str,
        first: &[String],
        out: &mut Vec<ast::Stmt>,
    ) {
        let at = self.at;
        let n: u64 = tile.axes.iter().map(|axis| u64::from(axis.extent)).product();
        let n_threads = u64::from(self.n_threads);
        let element = body.fresh("element");
        let mut made = Vec::new();
        let mut places = Vec::new();
        let mut conditions = Vec::new();
        let mut sources = Vec::new();
        let mut below = n;
        for (axis, (of, first)) in tile.axes.iter().zip(first).enumerate() {
            below /= u64::from(of.extent);
            let mut place = name(&element, at);
            if below > 1 {
                place = node::binary(place, Operator::FloorDiv, int(below, at), at);
            }
            if axis > 0 {
                place = node::binary(place, Operator::Mod, int(of.extent.into(), at), at);
            }
            let (row, source) = (body.fresh("place"), body.fresh("source"));
            made.push(node::assign(node::target(&row, at), place, at));
            made.push(node::assign(node::target(&source, at), add(name(first, at), name(&row, at), at), at));
            let shape = node::attribute(name(&tile.array, at), "shape", at);
            let extent = node::subscript(shape, int(axis as u64, at), at, ExprContext::Load);
            // An index below 0 counts from the end, as where the element is read.
            let lowest = node::unary(ast::UnaryOp::USub, extent.clone(), at);
            let upper = node::compare(name(&source, at), vec![(ast::CmpOp::Lt, extent)], at);
            conditions.push(upper);
            if may_be_negative(of) {
                conditions.push(node::compare(name(&source, at), vec![(ast::CmpOp::GtE, lowest)], at));
            }
            places.push(name(&row, at));
            sources.push(name(&source, at));
        }
        let index = |of: &str, mut parts: Vec<ast::Expr>, ctx| {
            let slice = if parts.len() == 1 { parts.swap_remove(0) } else { node::tuple(parts, at, ExprContext::Load) };
            node::subscript(name(of, at), slice, at, ctx)
        };
        let value = index(&tile.array, sources, ExprContext::Load);
        let copied = node::assign(index(shared, places, ExprContext::Store), value, at);
        let condition = match conditions.len() {
            1 => conditions.swap_remove(0),
            _ => node::logic(ast::BoolOp::And, conditions, at),
        };
        made.extend(node::branch(vec![(condition, vec![copied])], None, at));
        let set = |value| node::assign(node::target(&element, at), value, at);
        if n == n_threads {
            out.push(set(name(&self.lane, at)));
            out.extend(made);
        } else if n < n_threads {
            let is_own = node::compare(name(&self.lane, at), vec![(ast::CmpOp::Lt, int(n, at))], at);
            made.insert(0, set(name(&self.lane, at)));
            out.extend(node::branch(vec![(is_own, made)], None, at));
        } else {
            let each = builtin("range", vec![name(&self.lane, at), int(n, at), int(n_threads, at)], at);
            out.push(node::for_loop(node::target(&element, at), each, made, at));
        }
    }
}

/// Returns false where the tile is known to begin at an index that is not negative.
fn may_be_negative(axis: &TileAxis) -> bool {
    axis.offset < 0 || axis.terms.iter().any(|(_, coefficient)| *coefficient < 0)
}

/// Calls that write: one to variables of the thread, and one to what threads share.
#[derive(Default)]
struct CallWrites {
    own: Option<TextRange>,
    shared: Option<TextRange>,
}

impl BodyElaboration<'_, '_> {
    /// An element of a staged array, which the tile has; `None` for anything else.
    pub(super) fn staged_element(&mut self, expr: &Expr) -> Option<ast::Expr> {
        let access = self.staged.get(&expr.range.start()).cloned()?;
        let mut subscripts = Vec::new();
        let mut of = expr;
        while let ExprKind::Index(inner, indices) = &of.kind {
            subscripts.splice(0..0, indices.iter());
            of = inner;
        }
        if of.as_name().is_none() || subscripts.len() != access.first.len() {
            return None;
        }
        let range = expr.range;
        let mut places: Vec<ast::Expr> = Vec::new();
        for (subscript, first) in subscripts.into_iter().zip(&access.first) {
            let subscript = self.expr(subscript);
            places.push(node::binary(subscript, Operator::Sub, node::name(first, range), range));
        }
        let slice = match places.len() {
            1 => places.swap_remove(0),
            _ => node::tuple(places, range, ExprContext::Load),
        };
        Some(node::subscript(node::name(&access.tile, range), slice, range, ExprContext::Load))
    }

    /// A statement whose effects are those of threads with an iteration alone, while the others compute along.
    pub(super) fn guarded(&mut self, statement: &Stmt, inside: String, out: &mut Vec<ast::Stmt>) {
        let mut has_effect = false;
        match &statement.kind {
            StmtKind::Assign { targets, value } => {
                has_effect = self.guarded_targets(&targets.iter().collect::<Vec<_>>(), value);
            }
            StmtKind::Update { target, value, .. } => has_effect = self.guarded_targets(&[target], value),
            StmtKind::Expr(value) => {
                let calls = self.writes_of_calls(value);
                // Threads without an iteration change their own variables too, so that their loops end.
                has_effect = calls.own.is_none() || calls.shared.is_some();
                if let Some(range) = calls.own.filter(|_| has_effect) {
                    self.refuse_effect(range);
                }
            }
            StmtKind::Assert { .. } => has_effect = true,
            _ => {
                for expr in crate::loom::syntax::expressions_of(statement) {
                    if let Some(range) = self.writes_of_calls(expr).shared {
                        self.refuse_effect(range);
                    }
                }
            }
        }
        if !has_effect {
            self.guard = Some(inside);
            return self.plain_statement(statement, out);
        }
        let mut made = Vec::new();
        self.plain_statement(statement, &mut made);
        self.guard = Some(inside.clone());
        if !made.is_empty() {
            out.extend(node::branch(vec![(node::name(&inside, statement.range), made)], None, statement.range));
        }
    }

    /// Returns true if a statement with these targets has effects outside the thread.
    fn guarded_targets(&mut self, targets: &[&Expr], value: &Expr) -> bool {
        let (mut shared, mut own) = (None, None);
        for target in targets {
            match self.is_of_thread(target) {
                Some(true) => own = Some(target.range),
                Some(false) => shared = Some(target.range),
                None => {
                    let message = "whether this is a part of an array is not known, in a loop whose block stages tiles";
                    let help = "write the type of the array with its extents, or leave the arrays out of `@shared`";
                    self.file.error(Code::BadDecorator, target.range, message, help);
                    shared = Some(target.range);
                }
            }
        }
        let calls: Vec<CallWrites> =
            targets.iter().copied().chain([value]).map(|expr| self.writes_of_calls(expr)).collect();
        let by_calls = calls.iter().find_map(|calls| if shared.is_some() { calls.own } else { calls.shared });
        // A thread without an iteration may not leave out what its loops depend on.
        if let Some(range) = by_calls.or(own.filter(|_| shared.is_some())) {
            self.refuse_effect(range);
        }
        shared.is_some()
    }

    /// Returns true for a variable of the thread or a part of one, false for what threads share, `None` if that is not
    /// known.
    fn is_of_thread(&self, target: &Expr) -> Option<bool> {
        let found = super::root_of(target).and_then(|root| self.find(root));
        let Some(found) = found.filter(|found| matches!(found.kind, LocalKind::Let | LocalKind::Var)) else {
            return Some(false);
        };
        if target.as_name().is_some() || !self.views.contains(&found.node) {
            return Some(true);
        }
        let mut has_index = false;
        walk_expr(target, &mut |part| has_index |= matches!(part.kind, ExprKind::Index(..)));
        match found.kind {
            // A part of what `let` names is assigned if that is a part of an array alone.
            LocalKind::Let => Some(false),
            _ if has_index => None,
            _ => Some(true),
        }
    }

    fn writes_of_calls(&self, expr: &Expr) -> CallWrites {
        let mut found = CallWrites::default();
        walk_expr(expr, &mut |part| {
            let ExprKind::Call { function, arguments, .. } = &part.kind else { return };
            for (at, argument) in arguments.iter().enumerate() {
                if !self.file.writes_argument(function, at, argument) {
                    continue;
                }
                let is_own = self.is_of_thread(&argument.value) == Some(true);
                *(if is_own { &mut found.own } else { &mut found.shared }) = Some(part.range);
            }
        });
        found
    }

    fn refuse_effect(&mut self, range: TextRange) {
        let message = "the value of a call that writes, in a loop whose block stages tiles";
        let help = "call it in a statement of its own, or leave the arrays out of `@shared`";
        self.file.error(Code::BadDecorator, range, message, help);
    }
}
