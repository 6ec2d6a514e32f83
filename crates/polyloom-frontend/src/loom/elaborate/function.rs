//! Elaborates functions, kernels and computations: parameters, results, shapes and annotations.

use super::body::{BodyContext, BodyElaboration};
use super::carried::{ScratchMemory, carried_names};
use super::stages::{StageGuard, begin_with_extents, declare_params, keyword};
use super::{ElaboratedFunction, FileElaboration, identifier, name_of};
use crate::function_info::FunctionRole;
use crate::loom::kind;
use crate::loom::product::product_of;
use crate::loom::program::{DevicePreference, Extent, ExtentOp, LoomProgram, ProgramParam, ShapeSymbol};
use crate::loom::python_nodes as node;
use crate::loom::syntax::{
    Annotation, Block, Expr, ExprKind, ForLoop, FunctionItem, FunctionKeyword, Ident, Param, Stmt, StmtKind,
    TypeArgument, blocks_of, expressions_of, walk_block, walk_expr,
};
use polyloom_ir::diagnostic::near_names;
use polyloom_ir::{Code, KernelKind};
use ruff_python_ast::{self as ast, ExprContext, Identifier};
use ruff_text_size::TextRange;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The result of a computation that names none.
const OUT: &str = "out";

/// A kernel or a computation, while its stages are made.
pub(super) struct ProgramElaboration<'e, 'a> {
    pub(super) file: &'e mut FileElaboration<'a>,
    pub(super) function: &'a FunctionItem,
    pub(super) name: Ident,
    /// The results in the order of the program, with that which the text does not name.
    pub(super) results: Vec<ResultParam<'a>>,
    pub(super) symbols: Vec<ShapeSymbol>,
    /// Names of integers among the parameters.
    pub(super) integers: FxHashSet<&'a str>,
    pub(super) locals: Vec<(Arc<str>, Extent)>,
    /// The `let` statements outside loops so far, which every stage begins with if it names them.
    pub(super) lets: Vec<&'a Stmt>,
    /// Scratch arrays, and memory of variables that several stages name.
    pub(super) scratch: Vec<ScratchMemory>,
    /// Names of variables outside loops that several stages name.
    pub(super) carried: FxHashSet<String>,
    /// Variables that statements outside loops declare.
    pub(super) outside: FxHashMap<String, TextRange>,
    /// The conditions around, on which the next stages run.
    pub(super) guards: Vec<StageGuard<'a>>,
    /// Counters of the serial loops around.
    pub(super) counters: Vec<&'a Ident>,
    /// True if the program has one stage, which has its name.
    pub(super) has_one_stage: bool,
    pub(super) n_stages: usize,
}

pub(super) struct ResultParam<'a> {
    pub(super) name: Ident,
    pub(super) declared: Option<&'a Param>,
    pub(super) extents: Vec<Option<Extent>>,
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
            scratch: Vec::new(),
            carried: carried_names(&function.body),
            outside: FxHashMap::default(),
            guards: Vec::new(),
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
                let n_stages = program.count_stages(&function.body.statements, &mut FxHashSet::default());
                program.has_one_stage = n_stages <= 1;
                let mut stages = Vec::new();
                program.stages(&function.body.statements, &generics, &mut stages);
                stages
            }
        };
        let scratch = program.scratch_params();
        let ProgramElaboration { results, symbols, .. } = program;
        let results: Vec<ProgramParam> = results
            .into_iter()
            .map(|result| ProgramParam {
                name: result.name.name.as_str().into(),
                extents: Some(result.extents),
                is_inferred: result.declared.is_none(),
            })
            .collect();
        if let Some(kind) = &kind
            && self.made.errors.len() == n_errors
            && let Err((range, reason)) = kind::check(&kind.0, function, &self.globals)
        {
            let message = format!("the loops of `{}` are no `{}`: {reason}", name.name, kind.0);
            let help = format!("remove `@kernel({})`, which changes no result, or write the loops as that", kind.0);
            self.error(Code::BrokenPromise, range.unwrap_or(kind.1), message, help);
        }
        let is_matmul = kind.as_ref().is_some_and(|(kind, _)| kind == "matmul");
        let product = if is_matmul { product_of(function, &results, &symbols, &self.globals) } else { None };
        self.made.programs.push(LoomProgram {
            name: name.name.as_str().into(),
            is_compute: function.keyword == FunctionKeyword::Compute,
            doc: function.doc.clone(),
            params,
            results,
            scratch,
            symbols,
            stages,
            device,
            kind: kind.map(|(kind, _)| kind.as_str().into()),
            product,
        });
    }

    fn program_param(&mut self, function: &FunctionItem, param: &Param) -> ProgramParam {
        let name = &param.name.name;
        let mut n_indices: Option<usize> = None;
        let mut is_array_use = false;
        walk_block(&function.body, &mut |statement| {
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| match &part.kind {
                    ExprKind::Index(of, indices) if of.as_name() == Some(name) => {
                        n_indices = Some(n_indices.unwrap_or(0).max(indices.len()));
                    }
                    ExprKind::Member(of, _) if of.as_name() == Some(name) => is_array_use = true,
                    ExprKind::Call { function, arguments, .. } => {
                        let called = function.as_name().unwrap_or_default();
                        for (index, argument) in arguments.iter().enumerate() {
                            if super::root_of(&argument.value) != Some(name) {
                                continue;
                            }
                            is_array_use |= argument.value.as_name().is_some();
                            let is_atomic = called.starts_with("atomic_") && index == 0;
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
        ProgramParam { name: name.as_str().into(), extents, is_inferred: false }
    }
}

impl<'a> ProgramElaboration<'_, 'a> {
    pub(super) fn error(&mut self, code: Code, range: TextRange, message: impl Into<String>, help: impl Into<String>) {
        self.file.error(code, range, message, help);
    }

    pub(super) fn is_param(&self, name: &str) -> bool {
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
                    let name = &result.name.name;
                    let message = format!("nothing says how large `{name}` is along axis {}", made.len());
                    let help = format!(
                        "write an integer of extents that parameters name: `-> {name}: array<f32, n>` where `x: array<f32, n>` is one"
                    );
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
    pub(super) fn extent(&self, expr: &Expr) -> Option<Extent> {
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
                "workgroup" | "shared" | "vectorize" | "unroll" | "critical_path" | "no_allocation" | "no_syscalls"
                | "unchecked" | "cpu_affinity" | "target_latency_ns" | "opt_level" | "inline" | "gpu_compute" => {}
                _ => self.file.unknown_annotation(annotation),
            }
        }
        (device, asserted)
    }
}
