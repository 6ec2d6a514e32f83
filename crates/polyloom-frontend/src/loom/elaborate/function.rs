//! Functions, kernels and computations.
//!
//! Each outermost `for` of a kernel becomes a function that is launched over a grid of its indices; `serial for` around
//! such loops becomes several launches in order; statements between them run in one thread.

use super::body::{BodyContext, BodyElaboration, LocalKind};
use super::{ElaboratedFunction, FileElaboration, identifier, name_of};
use crate::function_info::FunctionRole;
use crate::loom::kind;
use crate::loom::parallel::LoopSurroundings;
use crate::loom::program::{DevicePreference, Extent, ExtentOp, LoomProgram, ProgramParam, ProgramStage, ShapeSymbol};
use crate::loom::python_nodes as node;
use crate::loom::syntax::{
    Annotation, Block, Expr, ExprKind, ForLoop, FunctionItem, FunctionKeyword, Ident, Param, Stmt, StmtKind,
    TypeArgument, blocks_of, expressions_of, walk_block, walk_expr,
};
use polyloom_ir::diagnostic::near_names;
use polyloom_ir::{Code, KernelKind, MAX_DIMS};
use ruff_python_ast::{self as ast, ExprContext, Identifier};
use ruff_text_size::TextRange;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The result of a computation that names none.
const OUT: &str = "out";

/// Functions that give a thread its number, which the kernels of other languages begin with.
const THREAD_NUMBERS: [&str; 6] = ["tid", "thread_idx", "block_idx", "block_dim", "lane_id", "warp_id"];

/// A kernel or a computation, while its stages are made.
struct ProgramElaboration<'e, 'a> {
    file: &'e mut FileElaboration<'a>,
    function: &'a FunctionItem,
    name: Ident,
    /// The results in the order of the program, with that which the text does not name.
    results: Vec<ResultParam<'a>>,
    symbols: Vec<ShapeSymbol>,
    /// Names of integers among the parameters.
    integers: FxHashSet<&'a str>,
    locals: Vec<(Arc<str>, Extent)>,
    /// The `let` statements outside loops so far, which every stage begins with if it names them.
    lets: Vec<&'a Stmt>,
    /// Variables that statements outside loops declare.
    outside: FxHashMap<String, TextRange>,
    /// Counters of the serial loops around.
    counters: Vec<&'a Ident>,
    /// True if the program has one stage, which has its name.
    has_one_stage: bool,
    n_stages: usize,
}

struct ResultParam<'a> {
    name: Ident,
    declared: Option<&'a Param>,
    extents: Vec<Option<Extent>>,
}

impl<'a> FileElaboration<'a> {
    fn begin_generics(&mut self, function: &FunctionItem) {
        self.generics.clear();
        for (name, bound) in &function.generics {
            if let Some(bound) = bound
                && !matches!(bound.name.as_str(), "Float" | "Int" | "Scalar")
            {
                let help = "type variables are bound to `Float`, `Int` or `Scalar`";
                self.error(Code::BadAnnotation, bound.range, format!("`{}` is no bound", bound.name), help);
            }
            let bound = bound.as_ref().filter(|bound| matches!(bound.name.as_str(), "Float" | "Int" | "Scalar"));
            self.generics.insert(name.name.clone(), bound.map(|bound| bound.name.clone()));
        }
    }

    /// The type variables of a function, each with the parameters that say what it is.
    fn generic_params(&mut self, function: &FunctionItem) -> Vec<(Arc<str>, Vec<usize>)> {
        let mut made = Vec::new();
        for (name, _) in &function.generics {
            let says = |param: &Param| {
                let ty = param.ty.as_ref();
                ty.is_some_and(|ty| match (&ty.path[..], ty.arguments.first()) {
                    ([only], None) => only.name == name.name,
                    ([array], Some(TypeArgument::Value(value))) if array.name == "array" => {
                        value.as_name() == Some(&name.name)
                    }
                    _ => false,
                })
            };
            let params = function.params.iter().chain(&function.results).enumerate();
            let params: Vec<usize> = params.filter(|(_, param)| says(param)).map(|(index, _)| index).collect();
            if params.first().is_none_or(|first| *first >= function.params.len()) {
                let help = format!("use it as the type of a parameter: `x: {0}` or `x: array<{0}, n>`", name.name);
                let message = format!("no argument says what `{}` is", name.name);
                self.error(Code::BadAnnotation, name.range, message, help);
                continue;
            }
            made.push((name.name.as_str().into(), params));
        }
        made
    }

    /// A function that others call.
    pub(super) fn function(&mut self, function: &'a FunctionItem) {
        let Some(name) = &function.name else { return };
        self.begin_generics(function);
        let generics = self.generic_params(function);
        for annotation in &function.annotations {
            match annotation.name.name.as_str() {
                "inline" => {}
                _ if super::structure::ANNOTATIONS.contains(&annotation.name.name.as_str()) => {
                    let message = format!("`@{}` is of kernels, not of functions", annotation.name.name);
                    let help = "write it at the kernels that call the function";
                    self.error(Code::BadDecorator, annotation.range, message, help);
                }
                _ => self.unknown_annotation(annotation),
            }
        }
        let is_inline = function.annotations.iter().any(|annotation| annotation.name.name == "inline");
        let keywords = match is_inline {
            true => vec![keyword("inline_always", node::boolean(true, name.range), name.range)],
            false => Vec::new(),
        };
        let params: Vec<(Identifier, Option<ast::Expr>)> = function
            .params
            .iter()
            .map(|param| (identifier(&param.name), param.ty.as_ref().map(|ty| self.type_node(ty, true))))
            .collect();
        let returns: Vec<ast::Expr> =
            function.returns.iter().map(|ty| self.return_node(ty)).collect::<Option<_>>().unwrap_or_default();
        let returns = match returns.len() {
            0 => None,
            1 => returns.into_iter().next(),
            _ => Some(node::tuple(returns, function.range, ExprContext::Load)),
        };
        let symbols = self.declared_symbols(function);
        let mut body = BodyElaboration::new(self, BodyContext::Function, FxHashMap::default());
        declare_params(&mut body, function, &[]);
        let mut statements = Vec::new();
        begin_with_extents(&mut body, &symbols, &function.body.statements, function.keyword_range, &mut statements);
        statements.extend(body.statements(&function.body.statements));
        if statements.is_empty() {
            statements.push(node::pass(function.range));
        }
        let decorator = node::call(node::member("func", name.range), Vec::new(), keywords, name.range);
        self.add_function(
            node::FunctionNode {
                name: identifier(name),
                decorator,
                params,
                returns,
                body: statements,
                range: function.range,
            },
            ElaboratedFunction {
                name: name.name.as_str().into(),
                role: FunctionRole::Func,
                start: function.range.start().to_u32(),
                generics,
                inferred: Vec::new(),
            },
        );
    }

    /// The type that a function returns; nothing for one that has a type variable in it, which the checker infers.
    fn return_node(&mut self, ty: &crate::loom::syntax::TypeExpr) -> Option<ast::Expr> {
        let mentions = |name: &str| self.generics.contains_key(name);
        let is_generic = ty.path.iter().any(|part| mentions(&part.name))
            || ty.arguments.iter().any(|argument| match argument {
                TypeArgument::Value(value) => value.as_name().is_some_and(mentions),
                TypeArgument::Type(_) => false,
            });
        let made = self.type_node(ty, false);
        (!is_generic).then_some(made)
    }

    /// A kernel or a computation.
    pub(super) fn program(&mut self, function: &'a FunctionItem) {
        self.begin_generics(function);
        let generics = self.generic_params(function);
        let name = name_of(function);
        let n_errors = self.made.errors.len();
        let params = function.params.iter().map(|param| self.program_param(function, param)).collect();
        let is_integer = |param: &&Param| {
            param.ty.as_ref().is_some_and(|ty| {
                matches!(&ty.path[..], [only] if matches!(only.name.as_str(), "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64"))
            })
        };
        let integers = function.params.iter().filter(is_integer).map(|param| param.name.name.as_str()).collect();
        let symbols = self.declared_symbols(function);
        let mut program = ProgramElaboration {
            file: self,
            function,
            name: name.clone(),
            results: Vec::new(),
            symbols,
            integers,
            locals: Vec::new(),
            lets: Vec::new(),
            outside: FxHashMap::default(),
            counters: Vec::new(),
            has_one_stage: true,
            n_stages: 0,
        };
        program.find_symbols();
        program.find_results();
        let (device, kind) = program.annotations();
        let is_thread = program.asks_for_its_thread();
        let stages = match is_thread {
            true => vec![program.thread_stage(&generics)],
            false => {
                program.has_one_stage = count_stages(&function.body.statements) <= 1;
                let mut stages = Vec::new();
                program.stages(&function.body.statements, &generics, &mut stages);
                stages
            }
        };
        let ProgramElaboration { results, symbols, .. } = program;
        let results = results
            .into_iter()
            .map(|result| ProgramParam {
                name: result.name.name.as_str().into(),
                extents: Some(result.extents),
                is_inferred: result.declared.is_none(),
                is_written: true,
            })
            .collect();
        if let Some(kind) = &kind
            && self.made.errors.len() == n_errors
            && let Err((range, reason)) = kind::check(&kind.0, function)
        {
            let message = format!("the loops of `{}` are no `{}`: {reason}", name.name, kind.0);
            let help = format!("remove `@kernel({})`, which changes no result, or write the loops as that", kind.0);
            self.error(Code::BrokenPromise, range.unwrap_or(kind.1), message, help);
        }
        self.made.programs.push(LoomProgram {
            name: name.name.as_str().into(),
            is_compute: function.keyword == FunctionKeyword::Compute,
            doc: function.doc.clone(),
            params,
            results,
            symbols,
            stages,
            device,
            kind: kind.map(|(kind, _)| kind.as_str().into()),
        });
    }

    fn program_param(&mut self, function: &FunctionItem, param: &Param) -> ProgramParam {
        let name = &param.name.name;
        let mut is_written = false;
        let mut n_indices: Option<usize> = None;
        let mut is_array_use = false;
        walk_block(&function.body, &mut |statement| {
            let targets: Vec<&Expr> = match &statement.kind {
                StmtKind::Assign { targets, .. } => targets.iter().collect(),
                StmtKind::Update { target, .. } => vec![target],
                _ => Vec::new(),
            };
            is_written |= targets.iter().any(|target| super::root_of(target) == Some(name));
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| match &part.kind {
                    ExprKind::Index(of, indices) if of.as_name() == Some(name) => {
                        n_indices = Some(n_indices.unwrap_or(0).max(indices.len()));
                    }
                    ExprKind::Member(of, _) if of.as_name() == Some(name) => is_array_use = true,
                    ExprKind::Call { function, arguments, .. } => {
                        let called = function.as_name().unwrap_or_default();
                        let writes = self.made.writes.get(called);
                        for (index, argument) in arguments.iter().enumerate() {
                            if super::root_of(&argument.value) != Some(name) {
                                continue;
                            }
                            is_array_use |= argument.value.as_name().is_some();
                            let is_atomic = called.starts_with("atomic_") && index == 0;
                            is_written |= is_atomic || writes.is_some_and(|w| w.get(index).copied().unwrap_or(false));
                            if is_atomic && argument.value.as_name().is_some() {
                                n_indices = n_indices.max(Some(arguments.len().saturating_sub(2)));
                            }
                        }
                    }
                    _ => {}
                });
            }
        });
        let extents = match &param.ty {
            Some(ty) => Self::extents_of_type(ty).map(|extents| {
                let known = |name: &str| (!self.constants.contains_key(name)).then(|| Extent::Symbol(name.into()));
                let extent = |extent: &Option<&Expr>| extent.and_then(|expr| self.extent(expr, &known));
                extents.iter().map(extent).collect::<Vec<_>>()
            }),
            None => {
                if n_indices.is_none() && !is_array_use {
                    let message = format!("`{name}` has no type and is not indexed");
                    let help = format!("parameters without types are arrays; write `{name}: f32` for a number");
                    self.error(Code::MissingAnnotation, param.name.range, message, help);
                }
                n_indices.map(|n| vec![None; n])
            }
        };
        ProgramParam { name: name.as_str().into(), extents, is_inferred: false, is_written }
    }
}

impl<'a> ProgramElaboration<'_, 'a> {
    fn error(&mut self, code: Code, range: TextRange, message: impl Into<String>, help: impl Into<String>) {
        self.file.error(code, range, message, help);
    }

    fn is_param(&self, name: &str) -> bool {
        self.function.params.iter().chain(&self.function.results).any(|param| param.name.name == name)
    }

    /// Finds what free extents are, and reports those that nothing says.
    fn find_symbols(&mut self) {
        let function = self.function;
        let mut declared: FxHashSet<&str> = FxHashSet::default();
        walk_block(&function.body, &mut |statement| match &statement.kind {
            StmtKind::Declare { targets, .. } => declared.extend(targets.iter().map(|target| target.name.as_str())),
            StmtKind::For(inner) => declared.extend(inner.indices.iter().map(|index| index.name.name.as_str())),
            _ => {}
        });
        let is_free = |name: &str| {
            !declared.contains(name)
                && !self.is_param(name)
                && !self.file.globals.contains(name)
                && !self.symbols.iter().any(|symbol| *symbol.name == *name)
                && !self.generics_have(name)
        };
        let mut symbols = self.symbols.clone();
        self.file.inferred_symbols(function, &is_free, &mut symbols);
        // A builtin's name may be an extent only if an array says so: `n`, `M` and `e` alike.
        let mut unknown: Vec<(String, TextRange)> = Vec::new();
        walk_block(&function.body, &mut |statement| {
            let StmtKind::For(inner) = &statement.kind else { return };
            for index in &inner.indices {
                for bound in [&index.start, &index.end].into_iter().chain(&index.step) {
                    walk_expr(bound, &mut |part| {
                        let ExprKind::Name(name) = &part.kind else { return };
                        let is_known = symbols.iter().any(|symbol| *symbol.name == **name);
                        if is_free(name) && !is_known && !FileElaboration::is_builtin(name) {
                            unknown.push((name.clone(), part.range));
                        }
                    });
                }
            }
        });
        self.symbols = symbols;
        let mut reported: FxHashSet<String> = FxHashSet::default();
        for (name, range) in unknown {
            if reported.insert(name.clone()) {
                let message = format!("nothing says how large `{name}` is");
                let help = format!(
                    "name it in the type of an array, `x: array<f32, {name}>`, or index an array without a type by a loop from 0 to `{name}`"
                );
                self.error(Code::UnknownName, range, message, help);
                self.symbols.push(ShapeSymbol { name: name.as_str().into(), axes: Vec::new() });
            }
        }
    }

    fn generics_have(&self, name: &str) -> bool {
        self.file.generics.contains_key(name)
    }

    /// Finds the results and their shapes.
    fn find_results(&mut self) {
        let function = self.function;
        for result in &function.results {
            let extents = result.ty.as_ref().and_then(FileElaboration::extents_of_type);
            let Some(extents) = extents else {
                let message = format!("the result `{}` is no array", result.name.name);
                let help = format!("write `-> {}: array<f32, n>`", result.name.name);
                self.error(Code::BadAnnotation, result.name.range, message, help);
                continue;
            };
            let mut made = Vec::new();
            for extent in extents {
                let known = extent.and_then(|expr| self.extent(expr));
                if known.is_none() {
                    let range = extent.map_or(result.name.range, |expr| expr.range);
                    let message = format!("nothing says how large `{}` is along axis {}", result.name.name, made.len());
                    let help = "write integers of extents that parameters name: `-> y: array<f32, n + 1>`";
                    self.error(Code::BadAnnotation, range, message, help);
                }
                made.push(known.or(Some(Extent::Constant(0))));
            }
            self.results.push(ResultParam { name: result.name.clone(), declared: Some(result), extents: made });
        }
        let is_declared = self.is_param(OUT);
        if function.keyword == FunctionKeyword::Compute && function.results.is_empty() && !is_declared {
            self.implicit_result();
        }
    }

    /// The result `out`, whose shape is that of the loops.
    fn implicit_result(&mut self) {
        let function = self.function;
        let mut stored: Option<(&Expr, Vec<&ForLoop>)> = None;
        fn find<'a>(block: &'a Block, loops: &mut Vec<&'a ForLoop>, stored: &mut Option<(&'a Expr, Vec<&'a ForLoop>)>) {
            for statement in &block.statements {
                let targets: Vec<&Expr> = match &statement.kind {
                    StmtKind::Assign { targets, .. } => targets.iter().collect(),
                    StmtKind::Update { target, .. } => vec![target],
                    _ => Vec::new(),
                };
                let element = targets.into_iter().find(|target| super::root_of(target) == Some(OUT));
                if let (Some(element), None) = (element, &stored) {
                    *stored = Some((element, loops.clone()));
                }
                if let StmtKind::For(inner) = &statement.kind {
                    loops.push(inner);
                }
                blocks_of(statement).into_iter().for_each(|inner| find(inner, loops, stored));
                if let StmtKind::For(_) = &statement.kind {
                    loops.pop();
                }
            }
        }
        find(&function.body, &mut Vec::new(), &mut stored);
        let Some((element, loops)) = stored else {
            let message = format!("`{}` stores nothing in `out`, its result", self.name.name);
            let help = "store the result: `out[i] = …`, or name another: `-> y: array<f32, n>`";
            return self.error(Code::ReturnMismatch, self.name.range, message, help);
        };
        let ExprKind::Index(_, subscripts) = &element.kind else {
            let help = "store its elements: `out[i] = …`";
            return self.error(Code::BadAssignment, element.range, "`out` is an array and no variable", help);
        };
        let mut extents = Vec::new();
        for subscript in subscripts {
            let index = subscript.as_name().and_then(|name| {
                loops.iter().rev().flat_map(|inner| &inner.indices).find(|index| index.name.name == name)
            });
            let extent = index.and_then(|index| {
                let end = self.extent(&index.end)?;
                Some(if index.is_inclusive { Extent::op(ExtentOp::Add, end, Extent::Constant(1)) } else { end })
            });
            let Some(extent) = extent else {
                let message = "the shape of `out` is that of the loops, and this index is none of theirs";
                let help = "index it by the loops' indices, or say its shape: `compute f(x) -> out: array<f32, n>`";
                return self.error(Code::BadAnnotation, subscript.range, message, help);
            };
            extents.push(Some(extent));
        }
        let name = Ident { name: OUT.to_owned(), range: element.range };
        self.results.push(ResultParam { name, declared: None, extents });
    }

    /// An integer that is known before a launch.
    fn extent(&self, expr: &Expr) -> Option<Extent> {
        let known = |name: &str| {
            let local = self.locals.iter().rev().find(|(local, _)| **local == *name);
            local.map(|(_, extent)| extent.clone()).or_else(|| {
                let is_known = self.symbols.iter().any(|symbol| *symbol.name == *name)
                    || self.integers.contains(name)
                    || self.counters.iter().any(|counter| counter.name == name);
                is_known.then(|| Extent::Symbol(name.into()))
            })
        };
        self.file.extent(expr, &known)
    }

    /// Reads what is written at the program: the device, and the kind with its place.
    fn annotations(&mut self) -> (Option<DevicePreference>, Option<(String, TextRange)>) {
        let (mut device, mut asserted) = (None, None);
        let function = self.function;
        let mut loops: Vec<&Annotation> = Vec::new();
        walk_block(&function.body, &mut |statement| {
            if let StmtKind::For(inner) = &statement.kind {
                loops.extend(inner.annotations.iter().filter(|a| matches!(a.name.name.as_str(), "device" | "kernel")));
            }
        });
        for annotation in function.annotations.iter().chain(loops) {
            let range = annotation.range;
            match annotation.name.name.as_str() {
                "device" => {
                    let mut text = None;
                    let mut is_required = false;
                    for argument in &annotation.arguments {
                        match (&argument.name, &argument.value.kind) {
                            (None, ExprKind::Text(name)) => text = Some(name.clone()),
                            (None, ExprKind::Name(word)) if word == "require" => is_required = true,
                            (Some(name), ExprKind::Bool(value)) if name.name == "require" => is_required = *value,
                            _ => {}
                        }
                    }
                    let is_device = |text: &String| {
                        let number = text.strip_prefix("cuda:").or_else(|| text.strip_prefix("sim:"));
                        text == "cpu" || number.is_some_and(|number| number.parse::<u32>().is_ok())
                    };
                    match text.filter(is_device) {
                        Some(name) => device = Some(DevicePreference { name: name.as_str().into(), is_required }),
                        None => {
                            let help = "write `@device(\"cuda:0\")`, `@device(\"sim:0\")` or `@device(\"cpu\")`, with \
                                        `require` after it if it may run nowhere else";
                            self.error(Code::BadDecorator, range, "`@device` names no device", help);
                        }
                    }
                }
                "kernel" => {
                    let name = annotation.arguments.first().and_then(|argument| match &argument.value.kind {
                        ExprKind::Name(name) | ExprKind::Text(name) => Some(name.clone()),
                        _ => None,
                    });
                    match name.as_deref().and_then(KernelKind::from_name) {
                        Some(kind) => asserted = Some((kind.name().to_owned(), range)),
                        None => {
                            let names = KernelKind::ALL.map(KernelKind::name);
                            let given = name.unwrap_or_default();
                            let help = match near_names(&given, names).first() {
                                Some(near) => format!("did you mean `@kernel({near})`?"),
                                None => format!("kinds are {}", names.join(", ")),
                            };
                            self.error(Code::BadDecorator, range, "`@kernel` names no kind", help);
                        }
                    }
                }
                "workgroup" | "shared" | "vectorize" | "unroll" | "critical_path" | "no_allocation" | "inline"
                | "gpu_compute" => {}
                _ => self.file.unknown_annotation(annotation),
            }
        }
        (device, asserted)
    }

    /// Returns true if the body is that of a thread, which asks for its number.
    fn asks_for_its_thread(&self) -> bool {
        let mut asks = false;
        walk_block(&self.function.body, &mut |statement| {
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| {
                    if let ExprKind::Call { function, .. } = &part.kind {
                        let name = function.as_name().unwrap_or_default();
                        asks |= THREAD_NUMBERS.contains(&name) && !self.file.globals.contains(name);
                    }
                });
            }
        });
        asks
    }

    /// The stage of a kernel whose body is that of a thread. As many run as the caller says.
    fn thread_stage(&mut self, generics: &[(Arc<str>, Vec<usize>)]) -> ProgramStage {
        let function = self.function;
        let made = self.stage_function(
            StageBody {
                context: BodyContext::Thread,
                statements: function.body.statements.iter().collect(),
                parallel: None,
            },
            function.keyword_range.start().to_u32(),
            &function.annotations.iter().collect::<Vec<_>>(),
            generics,
        );
        ProgramStage::Launch { function: made, extents: None, counters: Vec::new() }
    }

    /// The stages of statements that stand outside parallel loops.
    fn stages(&mut self, statements: &'a [Stmt], generics: &[(Arc<str>, Vec<usize>)], stages: &mut Vec<ProgramStage>) {
        let (n_lets, n_locals) = (self.lets.len(), self.locals.len());
        let mut once: Vec<&'a Stmt> = Vec::new();
        for statement in statements {
            match &statement.kind {
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
                StmtKind::If { .. } | StmtKind::While { .. } if blocks_of(statement).into_iter().any(has_parallel) => {
                    let message = "a parallel loop under a condition, which is not known before the launch";
                    let help = "move the condition into the loop, or write `serial for` there";
                    self.error(Code::Unsupported, statement.range, message, help);
                }
                _ => {
                    if let StmtKind::Declare { targets, .. } = &statement.kind {
                        self.outside.extend(targets.iter().map(|target| (target.name.clone(), target.range)));
                    }
                    once.push(statement);
                }
            }
        }
        self.once(&mut once, generics, stages);
        self.lets.truncate(n_lets);
        self.locals.truncate(n_locals);
    }

    /// Returns true for a value that is the same in all iterations and reads no element.
    fn is_uniform(&self, value: &Expr) -> bool {
        let mut is_uniform = true;
        walk_expr(value, &mut |part| match &part.kind {
            ExprKind::Index(of, _) => is_uniform &= matches!(&of.kind, ExprKind::Member(_, m) if m.name == "shape"),
            ExprKind::Name(name) => is_uniform &= !self.outside.contains_key(name),
            _ => {}
        });
        is_uniform
    }

    /// Makes a stage of statements that run once.
    fn once(&mut self, once: &mut Vec<&'a Stmt>, generics: &[(Arc<str>, Vec<usize>)], stages: &mut Vec<ProgramStage>) {
        let Some(first) = once.first() else { return };
        let start = first.range.start().to_u32();
        let statements = std::mem::take(once);
        let annotations: Vec<&Annotation> = self.function.annotations.iter().collect();
        let made = self.stage_function(
            StageBody { context: BodyContext::Once, statements, parallel: None },
            start,
            &annotations,
            generics,
        );
        let counters = self.counters.iter().map(|counter| counter.name.as_str().into()).collect();
        stages.push(ProgramStage::Launch { function: made, extents: Some(vec![Extent::Constant(1)]), counters });
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
        let annotations: Vec<&Annotation> = self.function.annotations.iter().chain(&inner.annotations).collect();
        for annotation in &inner.annotations {
            if !super::structure::ANNOTATIONS.contains(&annotation.name.name.as_str()) {
                self.file.unknown_annotation(annotation);
            }
        }
        let made = self.stage_function(
            StageBody {
                context: BodyContext::Iteration,
                statements: inner.body.statements.iter().collect(),
                parallel: Some(inner),
            },
            statement.range.start().to_u32(),
            &annotations,
            generics,
        );
        let counters = self.counters.iter().map(|counter| counter.name.as_str().into()).collect();
        Some(ProgramStage::Launch { function: made, extents: Some(extents), counters })
    }

    fn check_parallel(&mut self, inner: &'a ForLoop) {
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
        let results: FxHashSet<String> = self.results.iter().map(|result| result.name.name.clone()).collect();
        let is_array = |name: &str| {
            results.contains(name)
                || function.params.iter().any(|param| param.name.name == name) && !scalars.contains(name)
        };
        let mut uniform: FxHashSet<String> = self.symbols.iter().map(|symbol| symbol.name.to_string()).collect();
        uniform.extend(self.integers.iter().map(|name| (*name).to_owned()));
        uniform.extend(self.locals.iter().map(|(name, _)| name.to_string()));
        uniform.extend(self.counters.iter().map(|counter| counter.name.clone()));
        uniform.extend(self.file.constants.keys().map(|name| (*name).to_owned()));
        let writes = self.file.made.writes.clone();
        self.file.check_iterations(
            inner,
            &LoopSurroundings {
                is_array: &is_array,
                is_uniform: &|name| uniform.contains(name),
                writes_of: &|name| writes.get(name).cloned(),
            },
        );
    }

    /// Makes the function of a stage, and gives its index.
    fn stage_function(
        &mut self,
        stage: StageBody<'a>,
        start: u32,
        annotations: &[&Annotation],
        generics: &[(Arc<str>, Vec<usize>)],
    ) -> usize {
        self.n_stages += 1;
        let function = self.function;
        let mut name = self.name.name.clone();
        if !self.has_one_stage {
            name = format!("{name}_{}", self.n_stages);
            while self.file.globals.contains(name.as_str()) {
                name.push('_');
            }
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
        let mut inferred = Vec::new();
        for result in &self.results {
            let annotation = match result.declared.and_then(|declared| declared.ty.as_ref()) {
                Some(ty) => self.file.type_node(ty, true),
                None => {
                    inferred.push(params.len());
                    node::name(super::ANY, result.name.range)
                }
            };
            params.push((identifier(&result.name), Some(annotation)));
        }
        for counter in &self.counters {
            params.push((identifier(counter), Some(node::member("int32", counter.range))));
        }
        let keywords = self.decorator_keywords(annotations, stage.context);
        let results: Vec<Ident> = self.results.iter().map(|result| result.name.clone()).collect();
        // Variables of statements that run once are their own.
        let outside = match stage.context {
            BodyContext::Once => FxHashMap::default(),
            _ => self.outside.clone(),
        };
        let mut body = BodyElaboration::new(self.file, stage.context, outside);
        declare_params(&mut body, function, &results);
        for counter in &self.counters {
            body.declare(counter, LocalKind::Index);
        }
        let statements = stage.statements;
        let mut made = Vec::new();
        let needed = needed_lets(&self.lets, &statements, stage.parallel);
        let whole: Vec<&Stmt> = needed.iter().chain(&statements).copied().collect();
        begin_with_extents_of(&mut body, &self.symbols, &whole, stage.parallel, at, &mut made);
        needed.iter().for_each(|statement| body.statement(statement, &mut made));
        if let Some(parallel) = stage.parallel {
            thread_indices(&mut body, parallel, &mut made);
            // The indices are in a scope around the body, so that the body may not declare them again by accident.
            made.extend(body.block(&parallel.body));
        } else {
            statements.iter().for_each(|statement| body.statement(statement, &mut made));
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
        self.file.add_function(
            node,
            ElaboratedFunction {
                name: name.as_str().into(),
                role: FunctionRole::Kernel,
                start,
                generics: generics.to_vec(),
                inferred,
            },
        )
    }

    /// What the annotations say to the compiler, as arguments of the decorator.
    fn decorator_keywords(
        &mut self,
        annotations: &[&Annotation],
        context: BodyContext,
    ) -> Vec<(Identifier, ast::Expr)> {
        let mut keywords = Vec::new();
        let mut hints: Vec<(&str, ast::Expr)> = Vec::new();
        for annotation in annotations {
            let range = annotation.range;
            let values: Vec<ast::Expr> = annotation
                .arguments
                .iter()
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
                "critical_path" => keywords.push(keyword("critical_path", node::boolean(true, range), range)),
                "no_allocation" => keywords.push(keyword("no_allocation", node::boolean(true, range), range)),
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
                        let is_array = argument.value.as_name().is_some_and(|name| self.is_param(name));
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

/// The statements of a stage.
struct StageBody<'a> {
    context: BodyContext,
    statements: Vec<&'a Stmt>,
    parallel: Option<&'a ForLoop>,
}

fn keyword(name: &str, value: ast::Expr, range: TextRange) -> (Identifier, ast::Expr) {
    (Identifier::new(name, range), value)
}

/// Declares the parameters and results of a function.
fn declare_params(body: &mut BodyElaboration<'_, '_>, function: &FunctionItem, results: &[Ident]) {
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

fn names_of_header<'a>(parallel: Option<&'a ForLoop>, names: &mut FxHashSet<&'a str>) {
    for index in parallel.into_iter().flat_map(|parallel| &parallel.indices) {
        // The end of a grid is that of the launch.
        for bound in [&index.start].into_iter().chain(&index.step) {
            walk_expr(bound, &mut |part| {
                if let ExprKind::Name(name) = &part.kind {
                    names.insert(name);
                }
            });
        }
    }
}

/// The `let` statements that statements name, themselves or by others.
fn needed_lets<'a>(lets: &[&'a Stmt], statements: &[&'a Stmt], parallel: Option<&'a ForLoop>) -> Vec<&'a Stmt> {
    let mut names = FxHashSet::default();
    names_in(statements.iter().copied(), &mut names);
    names_of_header(parallel, &mut names);
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
fn begin_with_extents(
    body: &mut BodyElaboration<'_, '_>,
    symbols: &[ShapeSymbol],
    statements: &[Stmt],
    at: TextRange,
    out: &mut Vec<ast::Stmt>,
) {
    let statements: Vec<&Stmt> = statements.iter().collect();
    begin_with_extents_of(body, symbols, &statements, None, at, out);
}

fn begin_with_extents_of(
    body: &mut BodyElaboration<'_, '_>,
    symbols: &[ShapeSymbol],
    statements: &[&Stmt],
    parallel: Option<&ForLoop>,
    at: TextRange,
    out: &mut Vec<ast::Stmt>,
) {
    let mut names = FxHashSet::default();
    names_in(statements.iter().copied(), &mut names);
    names_of_header(parallel, &mut names);
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
fn has_parallel(block: &Block) -> bool {
    block.statements.iter().any(|statement| match &statement.kind {
        StmtKind::For(inner) => !inner.is_serial || has_parallel(&inner.body),
        _ => blocks_of(statement).into_iter().any(has_parallel),
    })
}

/// The number of functions that statements become.
fn count_stages(statements: &[Stmt]) -> usize {
    let (mut n, mut is_once) = (0, false);
    for statement in statements {
        match &statement.kind {
            StmtKind::Declare { is_var: false, .. } => {}
            StmtKind::For(inner) if !inner.is_serial => {
                n += 1;
                is_once = false;
            }
            StmtKind::For(inner) if has_parallel(&inner.body) => {
                n += count_stages(&inner.body.statements);
                is_once = false;
            }
            _ => {
                n += usize::from(!is_once);
                is_once = true;
            }
        }
    }
    n
}
