//! Elaborates the stages of a kernel or a computation, which are launched in order.
//!
//! Each outermost `for` of a kernel becomes a function that is launched over a grid of its indices; `serial for` around
//! such loops becomes several launches in order; statements between them run in one thread.
//!
//! The file is long because one walk over the statements decides all of it: which function a statement belongs to, what
//! that function is given, and what is launched after what.

use super::body::{BodyContext, BodyElaboration, LocalKind};
use super::carried::{ScratchMemory, ScratchType};
use super::function::ProgramElaboration;
use super::staged::staged_iteration;
use super::{ElaboratedFunction, identifier};
use crate::function_info::FunctionRole;
use crate::loom::parallel::{LoopSurroundings, collision};
use crate::loom::program::{Extent, ExtentOp, PlainLoop, ProgramStage, ShapeSymbol};
use crate::loom::python_nodes as node;
use crate::loom::staging::{self, StagedArray, StagingPlan};
use crate::loom::syntax::{
    Annotation, Block, Expr, ExprKind, ForLoop, FunctionItem, Ident, Param, Stmt, StmtKind, asks_for_thread, blocks_of,
    expressions_of, walk_block, walk_expr,
};
use polyloom_ir::{Code, Composite, KernelKind, MAX_DIMS};
use ruff_python_ast::{self as ast, ExprContext, Identifier};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

impl<'a> ProgramElaboration<'_, 'a> {
    /// Returns true if the body is that of a thread, which asks for its number.
    pub(super) fn asks_for_its_thread(&self) -> bool {
        asks_for_thread(&self.function.body, &|name| self.file.globals.contains(name))
    }

    /// The stage of a kernel whose body is that of a thread. As many run as the caller says.
    pub(super) fn thread_stage(&mut self, generics: &[(Arc<str>, Vec<usize>)]) -> ProgramStage {
        let function = self.function;
        let made = self.stage_function(
            StageBody {
                context: BodyContext::Thread,
                statements: function.body.statements.iter().collect(),
                parallel: None,
                staging: None,
                is_plain: false,
            },
            function.keyword_range.start().to_u32(),
            &function.annotations.iter().collect::<Vec<_>>(),
            generics,
        );
        let StageFunction { function, results, scratch } = made;
        ProgramStage::Launch { function, extents: None, results, scratch, counters: Vec::new(), plain: None }
    }

    /// The stages of statements that stand outside parallel loops.
    pub(super) fn stages(
        &mut self,
        statements: &'a [Stmt],
        generics: &[(Arc<str>, Vec<usize>)],
        stages: &mut Vec<ProgramStage>,
    ) {
        let (n_lets, n_locals, n_scratch) = (self.lets.len(), self.locals.len(), self.scratch.len());
        let mut once: Vec<&'a Stmt> = Vec::new();
        for statement in statements {
            match &statement.kind {
                StmtKind::Declare { .. } if self.scratch_array(statement) => {}
                StmtKind::Declare { is_var: false, targets, value: Some(value), .. } if self.is_uniform(value) => {
                    self.lets.push(statement);
                    if let ([target], Some(extent)) = (&targets[..], self.extent(value)) {
                        self.locals.push((target.name.as_str().into(), extent));
                    }
                }
                StmtKind::For(inner) if !inner.is_serial => {
                    self.once(&mut once, generics, stages);
                    stages.extend(self.parallel(statement, inner, generics));
                }
                StmtKind::For(inner) if has_parallel(&inner.body) => {
                    self.once(&mut once, generics, stages);
                    self.serial(inner, generics, stages);
                }
                StmtKind::If { branches, otherwise } if blocks_of(statement).into_iter().any(has_parallel) => {
                    self.once(&mut once, generics, stages);
                    self.branches(branches, otherwise.as_ref(), generics, stages);
                }
                StmtKind::While { cond, .. } if blocks_of(statement).into_iter().any(has_parallel) => {
                    let message = "a parallel loop in a `while` loop: how often it is launched is not known beforehand";
                    let help = "write `serial for` over a range around it, or `serial for` in place of the inner `for`";
                    self.error(Code::Unsupported, cond.range, message, help);
                }
                _ => {
                    if let StmtKind::Declare { targets, .. } = &statement.kind {
                        self.carry(statement);
                        self.outside.extend(targets.iter().map(|target| (target.name.clone(), target.range)));
                    }
                    once.push(statement);
                }
            }
        }
        self.once(&mut once, generics, stages);
        self.lets.truncate(n_lets);
        self.locals.truncate(n_locals);
        // Memory stays what launches take by its number, but names after the block do not mean it.
        self.scratch.iter_mut().skip(n_scratch).for_each(|memory| memory.is_visible = false);
    }

    /// The stages of branches with parallel loops: each asks the condition, which is the same wherever it is asked.
    fn branches(
        &mut self,
        branches: &'a [(Expr, Block)],
        otherwise: Option<&'a Block>,
        generics: &[(Arc<str>, Vec<usize>)],
        stages: &mut Vec<ProgramStage>,
    ) {
        let n_guards = self.guards.len();
        for (cond, block) in branches {
            if !self.is_uniform(cond) {
                let message = "parallel loops under a condition that is not known before they are launched";
                let help = "use parameters and extents alone in the condition; or move it into the loop, or write `serial for`";
                self.error(Code::Unsupported, cond.range, message, help);
            }
            self.guards.push(StageGuard { cond, holds: true });
            self.stages(&block.statements, generics, stages);
            self.guards.pop();
            self.guards.push(StageGuard { cond, holds: false });
        }
        if let Some(block) = otherwise {
            self.stages(&block.statements, generics, stages);
        }
        self.guards.truncate(n_guards);
    }

    /// The number of functions that statements become. `varying` has the names of variables outside loops.
    pub(super) fn count_stages(&self, statements: &'a [Stmt], varying: &mut FxHashSet<&'a str>) -> usize {
        let (mut n, mut is_once) = (0, false);
        for statement in statements {
            match &statement.kind {
                StmtKind::Declare { is_var: false, value: Some(value), .. }
                    if self.is_uniform(value) && !names_any(value, varying) => {}
                StmtKind::Declare { ty: Some(ty), .. } if super::FileElaboration::extents_of_type(ty).is_some() => {}
                StmtKind::For(inner) if !inner.is_serial => {
                    n += 1;
                    is_once = false;
                }
                StmtKind::For(inner) if has_parallel(&inner.body) => {
                    n += self.count_stages(&inner.body.statements, varying);
                    is_once = false;
                }
                StmtKind::If { .. } if blocks_of(statement).into_iter().any(has_parallel) => {
                    let blocks = blocks_of(statement).into_iter();
                    n += blocks.map(|block| self.count_stages(&block.statements, varying)).sum::<usize>();
                    is_once = false;
                }
                _ => {
                    if let StmtKind::Declare { targets, .. } = &statement.kind {
                        varying.extend(targets.iter().map(|target| target.name.as_str()));
                    }
                    n += usize::from(!is_once);
                    is_once = true;
                }
            }
        }
        n
    }

    /// Returns true for a value that is the same in all iterations and reads no element.
    fn is_uniform(&self, value: &Expr) -> bool {
        let mut is_uniform = true;
        // Arrays of which no more than the shape is asked.
        let mut shapes: Vec<*const Expr> = Vec::new();
        walk_expr(value, &mut |part| match &part.kind {
            ExprKind::Index(of, _) => is_uniform &= matches!(&of.kind, ExprKind::Member(_, m) if m.name == "shape"),
            ExprKind::Member(of, member) if member.name == "shape" => shapes.push(&raw const **of),
            ExprKind::Call { function, arguments, .. } if function.as_name() == Some("len") => {
                shapes.extend(arguments.iter().map(|argument| &raw const argument.value));
            }
            ExprKind::Name(name) => {
                let is_elements = self.is_array(name) && !shapes.contains(&(&raw const *part));
                is_uniform &= !self.outside.contains_key(name) && !is_elements;
            }
            _ => {}
        });
        is_uniform
    }

    /// Returns true for the name of a parameter or a result that is an array.
    fn is_array(&self, name: &str) -> bool {
        let is_array =
            |param: &Param| param.ty.as_ref().is_none_or(|ty| matches!(&ty.path[..], [only] if only.name == "array"));
        let mut params = self.function.params.iter().chain(&self.function.results);
        params.any(|param| param.name.name == name && is_array(param))
            || self
                .scratch
                .iter()
                .any(|memory| memory.is_visible && memory.variable.is_none() && memory.name.name == name)
            || self.results.iter().any(|result| result.name.name == name)
    }

    /// Makes a stage of statements that run once.
    fn once(&mut self, once: &mut Vec<&'a Stmt>, generics: &[(Arc<str>, Vec<usize>)], stages: &mut Vec<ProgramStage>) {
        let Some(first) = once.first() else { return };
        let start = first.range.start().to_u32();
        let statements = std::mem::take(once);
        let annotations: Vec<&Annotation> = self.function.annotations.iter().collect();
        let StageFunction { function, results, scratch } = self.stage_function(
            StageBody { context: BodyContext::Once, statements, parallel: None, staging: None, is_plain: false },
            start,
            &annotations,
            generics,
        );
        let counters = self.counters.iter().map(|counter| counter.name.as_str().into()).collect();
        let extents = Some(vec![Extent::Constant(1)]);
        stages.push(ProgramStage::Launch { function, extents, results, scratch, counters, plain: None });
    }

    fn serial(&mut self, inner: &'a ForLoop, generics: &[(Arc<str>, Vec<usize>)], stages: &mut Vec<ProgramStage>) {
        self.serial_indices(&inner.indices, &inner.body, generics, stages);
    }

    fn serial_indices(
        &mut self,
        indices: &'a [crate::loom::syntax::LoopIndex],
        body: &'a Block,
        generics: &[(Arc<str>, Vec<usize>)],
        stages: &mut Vec<ProgramStage>,
    ) {
        let Some((index, rest)) = indices.split_first() else {
            return self.stages(&body.statements, generics, stages);
        };
        let bound = |this: &mut Self, expr: &Expr| {
            let found = this.extent(expr);
            if found.is_none() {
                this.unknown_bound(expr);
            }
            found
        };
        let start = bound(self, &index.start);
        let end = bound(self, &index.end);
        let step = match &index.step {
            Some(step) => bound(self, step),
            None => Some(Extent::Constant(1)),
        };
        self.counters.push(&index.name);
        let mut inner = Vec::new();
        self.serial_indices(rest, body, generics, &mut inner);
        self.counters.pop();
        let (Some(start), Some(mut end), Some(step)) = (start, end, step) else { return };
        if index.is_inclusive {
            end = Extent::op(ExtentOp::Add, end, Extent::Constant(1));
        }
        let counter = index.name.name.as_str().into();
        stages.push(ProgramStage::Serial { counter, start, end, step, stages: inner });
    }

    fn unknown_bound(&mut self, expr: &Expr) {
        let message = "the bounds of this loop must be known before it is launched";
        let help = "write integers of extents, of parameters such as `n: i32`, and of `let` outside the loops; or move \
                    the loop into a parallel one";
        self.error(Code::Unsupported, expr.range, message, help);
    }

    /// Makes a stage of a parallel loop.
    fn parallel(
        &mut self,
        statement: &'a Stmt,
        inner: &'a ForLoop,
        generics: &[(Arc<str>, Vec<usize>)],
    ) -> Option<ProgramStage> {
        let indices = &inner.indices;
        if indices.len() > MAX_DIMS {
            let message = format!("a parallel loop has at most {MAX_DIMS} indices");
            self.error(Code::Limit, inner.header, message, "write the last ones as loops in it");
            return None;
        }
        let mut extents = Vec::new();
        for index in indices {
            let (start, end) = (self.extent(&index.start), self.extent(&index.end));
            let step = match &index.step {
                Some(step) => self.extent(step),
                None => Some(Extent::Constant(1)),
            };
            let (Some(start), Some(mut end), Some(step)) = (start, end, step) else {
                let wrong = [&index.start, &index.end].into_iter().chain(&index.step);
                let wrong = wrong.into_iter().find(|expr| self.extent(expr).is_none());
                if let Some(wrong) = wrong {
                    self.unknown_bound(wrong);
                }
                return None;
            };
            if index.is_inclusive {
                end = Extent::op(ExtentOp::Add, end, Extent::Constant(1));
            }
            extents.push(Extent::op(ExtentOp::Steps, Extent::op(ExtentOp::Sub, end, start), step));
        }
        self.check_parallel(inner);
        let staging = self.staging(inner);
        let plain_extents = staging.as_ref().map(|_| extents.clone());
        if let Some(plan) = &staging {
            // A launch of whole blocks, one after another: as many as cover the loop.
            let mut n_threads = Extent::Constant(plan.sizes.iter().map(|size| i64::from(*size)).product());
            for (extent, size) in extents.drain(..).zip(&plan.sizes) {
                let n_blocks = Extent::op(ExtentOp::Steps, extent, Extent::Constant((*size).into()));
                n_threads = Extent::op(ExtentOp::Mul, n_blocks, n_threads);
            }
            extents.push(n_threads);
        }
        let annotations: Vec<&Annotation> = self.function.annotations.iter().chain(&inner.annotations).collect();
        for annotation in &inner.annotations {
            if !super::structure::ANNOTATIONS.contains(&annotation.name.name.as_str()) {
                self.file.unknown_annotation(annotation);
            }
        }
        let body = |staging, is_plain| StageBody {
            context: BodyContext::Iteration,
            statements: inner.body.statements.iter().collect(),
            parallel: Some(inner),
            staging,
            is_plain,
        };
        let start = statement.range.start().to_u32();
        let n_errors = self.file.made.errors.len();
        let StageFunction { function, results, scratch } =
            self.stage_function(body(staging, false), start, &annotations, generics);
        // What is wrong with a body is said once.
        let plain = plain_extents.filter(|_| self.file.made.errors.len() == n_errors).map(|extents| {
            // Functions are known by where they begin, so that no two begin at one place.
            let made = self.stage_function(body(None, true), start + 1, &annotations, generics);
            PlainLoop { function: made.function, extents }
        });
        let counters = self.counters.iter().map(|counter| counter.name.as_str().into()).collect();
        Some(ProgramStage::Launch { function, extents: Some(extents), results, scratch, counters, plain })
    }

    /// The tiles of the arrays that `@shared` names at a loop or at the kernel; `None` if there are none, or an error.
    fn staging(&mut self, inner: &'a ForLoop) -> Option<StagingPlan> {
        let function = self.function;
        let mut arrays: Vec<StagedArray<'a>> = Vec::new();
        for (annotation, is_required) in inner
            .annotations
            .iter()
            .map(|annotation| (annotation, true))
            .chain(function.annotations.iter().map(|annotation| (annotation, false)))
            .filter(|(annotation, _)| annotation.name.name == "shared")
        {
            for argument in &annotation.arguments {
                let Some(name) = argument.value.as_name().filter(|name| self.is_array(name)) else { continue };
                if arrays.iter().all(|array| array.name != name) {
                    let (n_axes, element_bytes) = (self.axes_of(name), self.element_bytes(name));
                    arrays.push(StagedArray { name, range: argument.value.range, n_axes, element_bytes, is_required });
                }
            }
        }
        let first = arrays.first()?.range;
        let mut of_block =
            inner.annotations.iter().chain(&function.annotations).filter(|each| each.name.name == "workgroup");
        let sizes = match of_block.next() {
            None => match inner.indices.len() {
                1 => vec![256],
                2 => vec![16, 16],
                _ => vec![4, 8, 8],
            },
            Some(workgroup) => {
                let sizes = workgroup.arguments.iter().map(|argument| match self.extent(&argument.value) {
                    Some(Extent::Constant(size)) => u32::try_from(size).ok().filter(|size| *size > 0),
                    _ => None,
                });
                match sizes.collect::<Option<Vec<u32>>>() {
                    Some(sizes) if sizes.len() == inner.indices.len() => sizes,
                    _ => {
                        let n = inner.indices.len();
                        let message = format!("`@shared` stages tiles of {n} indices, and this says other sizes");
                        let sizes = if n == 1 { "256".to_owned() } else { vec!["16"; n].join(", ") };
                        let help = format!("write a positive constant for each index: `@workgroup({sizes})`");
                        self.error(Code::BadDecorator, workgroup.range, message, help);
                        return None;
                    }
                }
            }
        };
        if inner.indices.len() > 3 {
            let help = "write the last ones as loops in it, or remove `@shared`";
            self.error(Code::Limit, first, "blocks have at most three indices", help);
            return None;
        }
        if let Some(step) = inner.indices.iter().find_map(|index| index.step.as_ref()) {
            let help = "count by 1 and multiply the index, or remove `@shared`";
            self.error(Code::BadDecorator, step.range, "a step of a loop whose blocks stage tiles", help);
            return None;
        }
        let planned = self.with_surroundings(|around, _| staging::plan(inner, &arrays, sizes, around));
        planned.unwrap_or_else(|refused| {
            self.error(Code::BadDecorator, refused.range, refused.message, refused.help);
            if let Some(error) = self.file.made.errors.last_mut().filter(|_| refused.range != first) {
                error.label = Some((first, "staged by this".to_owned()));
            }
            None
        })
    }

    /// Bytes of an element of an array, where the text says of which type it is; otherwise those of a number of 4 bytes.
    fn element_bytes(&self, name: &str) -> u64 {
        let mut params = self.function.params.iter().chain(&self.function.results);
        let ty = params.find(|param| param.name.name == name).and_then(|param| param.ty.as_ref());
        let written = ty.and_then(|ty| self.element_of(ty));
        let memory = || self.scratch.iter().rev().find(|memory| memory.is_visible && memory.name.name == name);
        let scalar = |scalar: polyloom_ir::Scalar| Some(u64::from(scalar.bytes()));
        let bytes_of = |ty: &crate::loom::syntax::TypeExpr| match &ty.path[..] {
            [only] => crate::loom::types::scalar(&only.name).and_then(scalar).or_else(|| {
                let composite = Composite::from_python_name(&only.name)?;
                Some(composite.n_components() as u64 * u64::from(composite.elem().bytes()))
            }),
            _ => None,
        };
        let known = match (&written, memory().map(|memory| &memory.ty)) {
            (Some(ty), _) | (None, Some(ScratchType::Written(ty))) => bytes_of(ty),
            (None, Some(ScratchType::Scalar(of))) => scalar(*of),
            _ => None,
        };
        known.unwrap_or(4)
    }

    /// The number of axes of a parameter, if it is known.
    fn axes_of(&self, name: &str) -> Option<usize> {
        let mut params = self.function.params.iter().chain(&self.function.results);
        let param = params.find(|param| param.name.name == name)?;
        param.ty.as_ref().and_then(super::FileElaboration::extents_of_type).map(|extents| extents.len())
    }

    fn check_parallel(&mut self, inner: &'a ForLoop) {
        let found = self.with_surroundings(|around, text| collision(inner, text, around));
        if let Some(found) = found {
            self.file.report_collision(found);
        }
    }

    /// Runs what asks about names around a parallel loop, with the text of the file.
    fn with_surroundings<T>(&mut self, run: impl FnOnce(&LoopSurroundings<'_>, &str) -> T) -> T {
        let function = self.function;
        let scalars: FxHashSet<&str> = function
            .params
            .iter()
            .filter(|param| {
                let ty = param.ty.as_ref();
                ty.is_some_and(|ty| matches!(&ty.path[..], [only] if crate::loom::types::scalar(&only.name).is_some()))
            })
            .map(|param| param.name.name.as_str())
            .collect();
        let mut results: FxHashSet<String> = self.results.iter().map(|result| result.name.name.clone()).collect();
        let (variables, arrays): (Vec<&ScratchMemory>, Vec<&ScratchMemory>) =
            self.scratch.iter().filter(|memory| memory.is_visible).partition(|memory| memory.variable.is_some());
        results.extend(arrays.iter().map(|array| array.name.name.clone()));
        let is_array = |name: &str| {
            results.contains(name)
                || function.params.iter().any(|param| param.name.name == name) && !scalars.contains(name)
        };
        let mut uniform: FxHashSet<String> = self.symbols.iter().map(|symbol| symbol.name.to_string()).collect();
        uniform.extend(self.integers.iter().map(|name| (*name).to_owned()));
        uniform.extend(self.locals.iter().map(|(name, _)| name.to_string()));
        uniform.extend(self.counters.iter().map(|counter| counter.name.clone()));
        uniform.extend(self.file.constants.keys().map(|name| (*name).to_owned()));
        uniform.extend(variables.iter().map(|variable| variable.name.name.clone()));
        let writes = &self.file.made.writes;
        let around = LoopSurroundings {
            is_array: &is_array,
            is_uniform: &|name| uniform.contains(name),
            writes_of: &|name| writes.get(name).cloned(),
        };
        run(&around, self.file.text)
    }

    /// Makes the function of a stage.
    fn stage_function(
        &mut self,
        stage: StageBody<'a>,
        start: u32,
        annotations: &[&Annotation],
        generics: &[(Arc<str>, Vec<usize>)],
    ) -> StageFunction {
        self.n_stages += usize::from(!stage.is_plain);
        let function = self.function;
        let mut name = self.name.name.clone();
        if !self.has_one_stage {
            name = format!("{name}_{}", self.n_stages);
        }
        if stage.is_plain {
            name.push_str("_plain");
        }
        while (stage.is_plain || !self.has_one_stage) && self.file.globals.contains(name.as_str()) {
            name.push('_');
        }
        let range = TextRange::new(start.into(), function.range.end().max(start.into()));
        let at = self.name.range;
        let mut params: Vec<(Identifier, Option<ast::Expr>)> = Vec::new();
        for param in &function.params {
            let annotation = match &param.ty {
                Some(ty) => self.file.type_node(ty, true),
                None => node::name(super::ANY, param.name.range),
            };
            params.push((identifier(&param.name), Some(annotation)));
        }
        let mut asked = bounds_of_header(stage.parallel);
        if stage.staging.is_some() {
            asked.extend(
                stage.parallel.into_iter().flat_map(|parallel| parallel.indices.iter().map(|index| &index.end)),
            );
        }
        asked.extend(self.guards.iter().map(|guard| guard.cond));
        let needed = needed_lets(&self.lets, &stage.statements, &asked);
        let whole: Vec<&'a Stmt> = needed.iter().chain(&stage.statements).copied().collect();
        let mut names = FxHashSet::default();
        names_in(whole.iter().copied(), &mut names);
        names_in_declarations(&stage.statements, &mut names);
        names_of(&asked, &mut names);
        let scratch = match stage.context {
            BodyContext::Thread => Vec::new(),
            _ => self.needed_scratch(&names),
        };
        let (mut inferred, mut results_taken) = (Vec::new(), Vec::new());
        for (number, result) in self.results.iter().enumerate() {
            // A store there says its type, so that a stage without one takes none.
            if result.declared.is_none() && !names.contains(result.name.name.as_str()) {
                continue;
            }
            results_taken.push(number);
            let annotation = match result.declared.and_then(|declared| declared.ty.as_ref()) {
                Some(ty) => self.file.type_node(ty, true),
                None => {
                    inferred.push(params.len());
                    node::name(super::ANY, result.name.range)
                }
            };
            params.push((identifier(&result.name), Some(annotation)));
        }
        let mut generics = generics.to_vec();
        for at in &scratch {
            let memory = &self.scratch[*at];
            let index = params.len();
            let range = memory.name.range;
            let variable = match &memory.ty {
                ScratchType::Written(ty) => ty.path.first().map(|first| first.name.clone()),
                ty => ty.variable(),
            };
            match generics.iter_mut().find(|(name, _)| variable.as_deref() == Some(&**name)) {
                Some((_, params)) => params.push(index),
                None => {
                    if let (Some(variable), ScratchType::ElementsOf(param)) = (variable, &memory.ty)
                        && let Some(of) = function.params.iter().position(|known| known.name.name == *param)
                    {
                        generics.push((variable.as_str().into(), vec![of, index]));
                    }
                }
            }
            let annotation = memory.ty.array_node(self.file, memory.extents.len(), range);
            params.push((Identifier::new(&*memory.param(), range), Some(annotation)));
        }
        for counter in &self.counters {
            params.push((identifier(counter), Some(node::member("int32", counter.range))));
        }
        let mut keywords = self.decorator_keywords(annotations, stage.context);
        if let Some(plan) = &stage.staging {
            // Threads of a block follow each other along the last index. Nothing that threads do together is elementwise.
            let is_other = |text: &str| !matches!(text, "workgroup_size" | "kind");
            keywords.retain(|(keyword, _)| is_other(keyword.as_str()));
            let sizes = plan.sizes.iter().rev().map(|size| node::int((*size).into(), at)).collect();
            keywords.push(keyword("workgroup_size", node::tuple(sizes, at, ExprContext::Load), at));
        }
        let results: Vec<Ident> = results_taken.iter().map(|number| self.results[*number].name.clone()).collect();
        // Variables of statements that run once are their own.
        let outside = match stage.context {
            BodyContext::Once => FxHashMap::default(),
            _ => self.outside.clone(),
        };
        let kept: FxHashMap<TextRange, ast::Expr> = scratch
            .iter()
            .filter(|at| self.scratch[**at].variable.is_some())
            .map(|at| {
                let ScratchMemory { name, ty, .. } = &self.scratch[*at];
                let annotation = match ty.variable() {
                    Some(variable) => node::name(&variable, name.range),
                    None => ty.value_node(self.file, name.range),
                };
                (name.range, annotation)
            })
            .collect();
        let arrays = function.params.iter().map(|param| &param.name).chain(&results);
        let axes = arrays.filter_map(|array| Some((array.name.clone(), self.axes_of(&array.name)?))).collect();
        let mut body = BodyElaboration::new(self.file, stage.context, outside);
        body.kept = kept;
        body.axes = axes;
        declare_params(&mut body, function, &results);
        for at in &scratch {
            let memory = &self.scratch[*at];
            match memory.variable {
                None => _ = body.declare(&memory.name, LocalKind::Param),
                Some(_) => _ = body.fresh(&memory.param()),
            }
        }
        for counter in &self.counters {
            body.declare(counter, LocalKind::Index);
        }
        let statements = stage.statements;
        let mut made = Vec::new();
        begin_with_extents_of(&mut body, &self.symbols, &whole, &asked, at, &mut made);
        needed.iter().for_each(|statement| body.statement(statement, &mut made));
        let kept: Vec<&ScratchMemory> =
            scratch.iter().map(|at| &self.scratch[*at]).filter(|memory| memory.variable.is_some()).collect();
        let mut stored: Vec<&ScratchMemory> = Vec::new();
        for memory in kept {
            let is_declared = is_declared_in(&statements, memory.name.range);
            let is_once = stage.context == BodyContext::Once;
            if is_once && (is_declared || is_assigned_in(&statements, &memory.name.name, body.file)) {
                stored.push(memory);
            }
            if !is_declared {
                let kind = if is_once { memory.variable.unwrap_or(LocalKind::Let) } else { LocalKind::Outer };
                let target = body.declare(&memory.name, kind);
                made.push(node::assign(node::target(&target, at), memory.element(at, ExprContext::Load), at));
            }
        }
        // All threads of a block come to its barriers, or none of them.
        let conditions = stage.staging.iter().flat_map(|_| &self.guards).map(|guard| {
            let value = body.expr(guard.cond);
            if guard.holds { value } else { node::unary(ast::UnaryOp::Not, value, guard.cond.range) }
        });
        let mut conditions: Vec<ast::Expr> = conditions.collect();
        for StageGuard { cond, holds } in self.guards.iter().filter(|_| stage.staging.is_none()) {
            let value = body.expr(cond);
            let ends = if *holds { node::unary(ast::UnaryOp::Not, value, cond.range) } else { value };
            made.extend(node::branch(vec![(ends, vec![node::return_value(None, cond.range)])], None, cond.range));
        }
        if let (Some(parallel), Some(plan)) = (stage.parallel, &stage.staging) {
            let mut staged = Vec::new();
            staged_iteration(&mut body, parallel, plan, &mut staged);
            while let Some(condition) = conditions.pop() {
                let range = condition.range();
                staged = node::branch(vec![(condition, staged)], None, range).into_iter().collect();
            }
            made.extend(staged);
        } else if let Some(parallel) = stage.parallel {
            thread_indices(&mut body, parallel, &mut made);
            // The indices are in a scope around the body, so that the body may not declare them again by accident.
            made.extend(body.block(&parallel.body));
        } else {
            statements.iter().for_each(|statement| body.statement(statement, &mut made));
        }
        for memory in stored {
            let value = body.name(&memory.name.name, memory.name.range);
            made.push(node::assign(memory.element(memory.name.range, ExprContext::Store), value, memory.name.range));
        }
        if made.is_empty() {
            made.push(node::pass(range));
        }
        let decorator = node::call(node::member("kernel", at), Vec::new(), keywords, at);
        let node = node::FunctionNode {
            name: Identifier::new(name.as_str(), at),
            decorator,
            params,
            returns: None,
            body: made,
            range,
        };
        let made =
            ElaboratedFunction { name: name.as_str().into(), role: FunctionRole::Kernel, start, generics, inferred };
        StageFunction { function: self.file.add_function(node, made), results: results_taken, scratch }
    }

    /// Returns what the annotations say to the compiler, as arguments of the decorator.
    fn decorator_keywords(
        &mut self,
        annotations: &[&Annotation],
        context: BodyContext,
    ) -> Vec<(Identifier, ast::Expr)> {
        let mut keywords = Vec::new();
        let mut hints: Vec<(&str, ast::Expr)> = Vec::new();
        for annotation in annotations {
            let range = annotation.range;
            // The level of `@opt_level(O3)` is a word, no variable.
            let has_values = annotation.name.name != "opt_level";
            let values: Vec<ast::Expr> = annotation
                .arguments
                .iter()
                .filter(|_| has_values)
                .map(|argument| {
                    BodyElaboration::new(self.file, BodyContext::Function, FxHashMap::default()).expr(&argument.value)
                })
                .collect();
            match annotation.name.name.as_str() {
                "workgroup" if context != BodyContext::Once => {
                    let sizes = node::tuple(values, range, ExprContext::Load);
                    keywords.push(keyword("workgroup_size", sizes, range));
                }
                "vectorize" => hints.extend(values.into_iter().next().map(|value| ("vector_width", value))),
                "unroll" => hints.extend(values.into_iter().next().map(|value| ("unroll", value))),
                name @ ("critical_path" | "no_allocation" | "no_syscalls" | "unchecked") => {
                    keywords.push(keyword(name, node::boolean(true, range), range));
                }
                "cpu_affinity" => {
                    let cores = node::tuple(values, range, ExprContext::Load);
                    keywords.push(keyword("cpu_affinity", cores, range));
                }
                "target_latency_ns" => match values.into_iter().next() {
                    Some(value) => keywords.push(keyword("target_latency_ns", value, range)),
                    None => {
                        let help = "write `@target_latency_ns(500)`";
                        self.error(Code::BadDecorator, range, "`@target_latency_ns` takes a number", help);
                    }
                },
                "opt_level" => {
                    let level = annotation.arguments.first().map(|argument| match argument.value.as_name() {
                        Some(name) => node::text(name, argument.value.range),
                        None => BodyElaboration::new(self.file, BodyContext::Function, FxHashMap::default())
                            .expr(&argument.value),
                    });
                    match level {
                        Some(level) => keywords.push(keyword("opt_level", level, range)),
                        None => {
                            let help = "write `@opt_level(O3)`";
                            self.error(Code::BadDecorator, range, "`@opt_level` takes a level", help);
                        }
                    }
                }
                "inline" => keywords.push(keyword("inline_always", node::boolean(true, range), range)),
                // A stage alone need not be of the kind of the whole.
                "kernel" if self.has_one_stage => {
                    let kind = annotation.arguments.first().and_then(|argument| argument.value.as_name());
                    if let Some(kind) = kind.filter(|kind| KernelKind::from_name(kind).is_some()) {
                        keywords.push(keyword("kind", node::text(kind, range), range));
                    }
                }
                "shared" => {
                    for argument in &annotation.arguments {
                        let is_array = argument.value.as_name().is_some_and(|name| self.is_array(name));
                        if !is_array {
                            let help = "name arrays that the loops read: `@shared(A, B)`";
                            let at = argument.value.range;
                            self.error(Code::BadDecorator, at, "`@shared` names an array of the kernel", help);
                        }
                    }
                }
                _ => {}
            }
        }
        if !hints.is_empty() {
            let at = self.name.range;
            keywords.push(keyword("hints", node::dictionary(hints, at), at));
        }
        keywords
    }
}

/// A condition on which stages run.
pub(super) struct StageGuard<'a> {
    cond: &'a Expr,
    /// True if they run where it holds, otherwise where it does not.
    holds: bool,
}

/// The function of a stage, with what it takes after the parameters: results and scratch memory, by their numbers.
struct StageFunction {
    function: usize,
    results: Vec<usize>,
    scratch: Vec<usize>,
}

/// The statements of a stage.
struct StageBody<'a> {
    context: BodyContext,
    statements: Vec<&'a Stmt>,
    parallel: Option<&'a ForLoop>,
    /// The tiles that blocks stage.
    staging: Option<StagingPlan>,
    /// True of a loop without tiles beside the one of blocks that stage them.
    is_plain: bool,
}

pub(super) fn keyword(name: &str, value: ast::Expr, range: TextRange) -> (Identifier, ast::Expr) {
    (Identifier::new(name, range), value)
}

/// Declares the parameters and results of a function.
pub(super) fn declare_params(body: &mut BodyElaboration<'_, '_>, function: &FunctionItem, results: &[Ident]) {
    for param in &function.params {
        let is_reference = param.ty.as_ref().is_some_and(|ty| matches!(&ty.path[..], [only] if only.name == "ref"));
        let kind = if is_reference { LocalKind::Reference } else { LocalKind::Param };
        body.declare(&param.name, kind);
    }
    for result in results {
        body.declare(result, LocalKind::Param);
    }
}

/// The names in expressions of statements.
fn names_in<'a>(statements: impl Iterator<Item = &'a Stmt>, names: &mut FxHashSet<&'a str>) {
    let mut visit = |statement: &'a Stmt| {
        for expr in expressions_of(statement) {
            walk_expr(expr, &mut |part| {
                if let ExprKind::Name(name) = &part.kind {
                    names.insert(name);
                }
            });
        }
    };
    for statement in statements {
        visit(statement);
        blocks_of(statement).into_iter().for_each(|block| walk_block(block, &mut visit));
    }
}

/// The names that statements declare, which may be kept for later stages.
fn names_in_declarations<'a>(statements: &[&'a Stmt], names: &mut FxHashSet<&'a str>) {
    for statement in statements {
        if let StmtKind::Declare { targets, .. } = &statement.kind {
            names.extend(targets.iter().map(|target| target.name.as_str()));
        }
    }
}

/// Returns true if one of the statements declares the name at this place.
fn is_declared_in(statements: &[&Stmt], range: TextRange) -> bool {
    statements.iter().any(|statement| match &statement.kind {
        StmtKind::Declare { targets, .. } => targets.iter().any(|target| target.range == range),
        _ => false,
    })
}

/// Returns true if statements assign to a variable of this name or to a part of it, themselves or by functions.
fn is_assigned_in(statements: &[&Stmt], name: &str, file: &super::FileElaboration<'_>) -> bool {
    let mut is_assigned = false;
    let is_part = |expr: &Expr| super::root_of(expr) == Some(name);
    let mut visit = |statement: &Stmt| {
        match &statement.kind {
            StmtKind::Assign { targets, .. } => is_assigned |= targets.iter().any(is_part),
            StmtKind::Update { target, .. } => is_assigned |= is_part(target),
            _ => {}
        }
        for expr in expressions_of(statement) {
            walk_expr(expr, &mut |part| {
                let ExprKind::Call { function, arguments, .. } = &part.kind else { return };
                let is_written = |(at, argument)| file.writes_argument(function, at, argument);
                let written = arguments.iter().enumerate().filter(|each| is_written(*each));
                is_assigned |= written.into_iter().any(|(_, argument)| is_part(&argument.value));
            });
        }
    };
    for statement in statements {
        visit(statement);
        blocks_of(statement).into_iter().for_each(|block| walk_block(block, &mut visit));
    }
    is_assigned
}

/// The bounds that an iteration asks: the end of a grid is that of the launch.
fn bounds_of_header(parallel: Option<&ForLoop>) -> Vec<&Expr> {
    let indices = parallel.into_iter().flat_map(|parallel| &parallel.indices);
    indices.flat_map(|index| [&index.start].into_iter().chain(&index.step)).collect()
}

fn names_of<'a>(asked: &[&'a Expr], names: &mut FxHashSet<&'a str>) {
    for expr in asked {
        walk_expr(expr, &mut |part| {
            if let ExprKind::Name(name) = &part.kind {
                names.insert(name);
            }
        });
    }
}

/// The `let` statements that statements and expressions name, themselves or by others.
fn needed_lets<'a>(lets: &[&'a Stmt], statements: &[&'a Stmt], asked: &[&'a Expr]) -> Vec<&'a Stmt> {
    let mut names = FxHashSet::default();
    names_in(statements.iter().copied(), &mut names);
    names_of(asked, &mut names);
    let mut needed: Vec<&Stmt> = Vec::new();
    for statement in lets.iter().rev() {
        let StmtKind::Declare { targets, .. } = &statement.kind else { continue };
        if targets.iter().any(|target| names.contains(target.name.as_str())) {
            names_in(std::iter::once(*statement), &mut names);
            needed.push(statement);
        }
    }
    needed.reverse();
    needed
}

/// Begins a function with the extents that its statements name.
pub(super) fn begin_with_extents(
    body: &mut BodyElaboration<'_, '_>,
    symbols: &[ShapeSymbol],
    statements: &[Stmt],
    at: TextRange,
    out: &mut Vec<ast::Stmt>,
) {
    let statements: Vec<&Stmt> = statements.iter().collect();
    begin_with_extents_of(body, symbols, &statements, &[], at, out);
}

fn begin_with_extents_of(
    body: &mut BodyElaboration<'_, '_>,
    symbols: &[ShapeSymbol],
    statements: &[&Stmt],
    asked: &[&Expr],
    at: TextRange,
    out: &mut Vec<ast::Stmt>,
) {
    let mut names = FxHashSet::default();
    names_in(statements.iter().copied(), &mut names);
    names_of(asked, &mut names);
    for symbol in symbols {
        let Some((array, axis)) = symbol.axes.first().filter(|_| names.contains(&*symbol.name)) else { continue };
        let ident = Ident { name: symbol.name.to_string(), range: at };
        let target = body.declare(&ident, LocalKind::Extent);
        let shape = node::attribute(node::name(array, at), "shape", at);
        let extent = node::subscript(shape, node::int(*axis as u64, at), at, ExprContext::Load);
        out.push(node::assign(node::target(&target, at), extent, at));
    }
}

/// Begins an iteration with its indices.
fn thread_indices(body: &mut BodyElaboration<'_, '_>, parallel: &ForLoop, out: &mut Vec<ast::Stmt>) {
    let at = parallel.header;
    let mut names: Vec<ast::Expr> = Vec::new();
    let mut shifted = Vec::new();
    for index in &parallel.indices {
        let range = index.name.range;
        let step = index.step.as_ref().map(|step| body.expr(step));
        let start = Some(&index.start).filter(|start| !matches!(start.kind, ExprKind::Int(0, None)));
        let start = start.map(|start| body.expr(start));
        let counter = body.declare(&index.name, LocalKind::Index);
        names.push(node::target(&counter, range));
        if step.is_none() && start.is_none() {
            continue;
        }
        let mut value = node::name(&counter, range);
        if let Some(step) = step {
            value = node::binary(value, ast::Operator::Mult, step, range);
        }
        if let Some(start) = start {
            value = node::binary(start, ast::Operator::Add, value, range);
        }
        shifted.push(node::assign(node::target(&counter, range), value, range));
    }
    let tid = node::call(node::member("tid", at), Vec::new(), Vec::new(), at);
    let target = match names.len() {
        1 => names.swap_remove(0),
        _ => node::tuple(names, at, ExprContext::Store),
    };
    out.push(node::assign(target, tid, at));
    out.extend(shifted);
}

/// Returns true if a block has a parallel loop outside loops that are none.
pub(super) fn has_parallel(block: &Block) -> bool {
    block.statements.iter().any(|statement| match &statement.kind {
        StmtKind::For(inner) => !inner.is_serial || has_parallel(&inner.body),
        _ => blocks_of(statement).into_iter().any(has_parallel),
    })
}

/// Returns true if an expression names one of these.
fn names_any(value: &Expr, names: &FxHashSet<&str>) -> bool {
    let mut found = false;
    walk_expr(value, &mut |part| found |= part.as_name().is_some_and(|name| names.contains(name)));
    found
}
