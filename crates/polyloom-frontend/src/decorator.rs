//! Decorator arguments: how a kernel wants to be compiled and run.
//!
//! `@loom.kernel(kind="stencil", block_dim=256, float_mode="contract")` becomes [`KernelMetadata`] and
//! [`ExecutionConstraints`]. Arguments are read from the text, with names resolved as anywhere outside a kernel. Where
//! `kernel` is called as a plain function, its arguments come as the text of a call of their own.

use crate::constant;
use crate::dotted_path::dotted;
use crate::environment::CapturedMeaning;
use crate::options::FrontendOptions;
use crate::source::SourceUnit;
use polyloom_ir::diagnostic::near_names;
use polyloom_ir::{
    Code, CompileTarget, Diagnostic, ExecutionConstraints, FileId, FloatMode, FunctionKind, KernelKind, KernelMetadata,
    OptLevel, Span,
};
use ruff_python_ast::{self as ast, Expr};
use ruff_text_size::Ranged;

/// Every argument the decorator of a kernel takes.
const KERNEL_ARGUMENTS: [&str; 29] = [
    "block_dim",
    "check",
    "cluster_dim",
    "cpu_affinity",
    "critical_path",
    "cuda_max_registers",
    "device",
    "enable_backward",
    "enable_cuda_smem_spilling",
    "enable_mathdx_gemm",
    "fast_math",
    "float_mode",
    "grid_stride",
    "hints",
    "inline_always",
    "kind",
    "launch_bounds",
    "max_registers",
    "module",
    "module_options",
    "name",
    "no_allocation",
    "no_syscalls",
    "opt_level",
    "shared_bytes",
    "target",
    "target_latency_ns",
    "unchecked",
    "workgroup_size",
];

/// The decorator of a function takes these alone, because the others are about a launch, or hold for all that a kernel
/// runs.
const FUNCTION_ARGUMENTS: [&str; 4] = ["inline", "inline_always", "module", "name"];

/// The largest block a GPU can launch, and so the largest size that means anything.
const MAX_BLOCK: i128 = polyloom_ir::arch::MAX_BLOCK_SIZE as i128;

/// Reads the decorators of one function.
pub(crate) struct DecoratorReader<'a> {
    pub(crate) file: FileId,
    pub(crate) lookup: &'a dyn Fn(&[&str]) -> Option<CapturedMeaning>,
    pub(crate) options: &'a FrontendOptions,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl DecoratorReader<'_> {
    /// Returns what the decorator of `def` says, and then those of the arguments in `beside`, a file of its own, that
    /// the decorator's text does not have or does not tell: `check=flag` with a local of the program around the
    /// function. The decorator is the one with the number `own`; where the text does not tell which is the package's,
    /// the one of that name. Others are the program's.
    pub(crate) fn read(
        &mut self,
        def: &ast::StmtFunctionDef,
        own: Option<usize>,
        beside: Option<(&SourceUnit, FileId)>,
        kind: FunctionKind,
    ) -> (KernelMetadata, ExecutionConstraints) {
        let mut metadata = KernelMetadata {
            float_mode: self.options.float_mode,
            check: self.options.check && kind == FunctionKind::Kernel,
            ..KernelMetadata::default()
        };
        let mut constraints = ExecutionConstraints::default();
        let mut values = beside.map_or_else(Vec::new, |(unit, _)| keywords(unit));
        let values_file = beside.map_or(self.file, |(_, file)| file);
        let is_own = |index: usize, call: &ast::ExprCall| match own {
            Some(own) => index == own,
            None => dotted(&call.func).is_some_and(|path| matches!(path.last(), Some(&("kernel" | "func")))),
        };
        let mut spans: Vec<(&str, Span)> = Vec::new();
        let calls = def.decorator_list.iter().enumerate();
        let calls = calls.filter_map(|(index, d)| d.expression.as_call_expr().filter(|call| is_own(index, call)));
        for call in calls {
            for keyword in &call.arguments.keywords {
                let Some(name) = &keyword.arg else {
                    if beside.is_none() {
                        self.wrong(&keyword.value, "`**` in a decorator".to_owned(), "write each argument by name");
                    }
                    continue;
                };
                spans.push((name.as_str(), self.span(name)));
                let known = values.iter().position(|(n, _)| n.as_str() == name.as_str()).map(|at| values.remove(at));
                let (n_errors, before) = (self.diagnostics.len(), (metadata.clone(), constraints.clone()));
                self.argument(kind, name, &keyword.value, &mut metadata, &mut constraints);
                if self.diagnostics.len() > n_errors
                    && let Some((name, value)) = known
                {
                    let errors = self.diagnostics.split_off(n_errors);
                    (metadata, constraints) = before;
                    self.argument_of(values_file, kind, (name, value), &mut metadata, &mut constraints);
                    if self.diagnostics.len() > n_errors {
                        // If it is wrong either way, the errors of the text are kept, because that is what the user
                        // wrote.
                        self.diagnostics.truncate(n_errors);
                        self.diagnostics.extend(errors);
                    }
                }
            }
            for arg in &call.arguments.args {
                // `launch_bounds` and its like are given by name; Warp's decorators take the function first.
                self.wrong(
                    arg,
                    "a decorator takes its arguments by name".to_owned(),
                    "write, for example, `block_dim=256`",
                );
            }
        }
        for argument in values {
            spans.push((argument.0.as_str(), self.span(&def.name)));
            self.argument_of(values_file, kind, argument, &mut metadata, &mut constraints);
        }
        let block = metadata.workgroup_threads();
        if let Some((most, _)) = metadata.launch_bounds.filter(|(most, _)| block > u64::from(*most)) {
            let message = format!("blocks of {block} threads, but `launch_bounds` allows {most}");
            let span = self.span(&def.name);
            let error = Diagnostic::error(Code::BadDecorator, span, message);
            self.diagnostics.push(error.help("make the blocks smaller, or the bound larger"));
        }
        self.check_together(&spans, &metadata, &constraints);
        (metadata, constraints)
    }

    /// Says which arguments contradict each other, and which are recorded and change nothing.
    fn check_together(
        &mut self,
        spans: &[(&str, Span)],
        metadata: &KernelMetadata,
        constraints: &ExecutionConstraints,
    ) {
        let span_of = |name: &str| spans.iter().find(|(known, _)| *known == name).map(|(_, span)| *span);
        let promises = [
            ("no_syscalls", constraints.no_syscalls),
            ("no_allocation", constraints.no_allocation),
            ("critical_path", constraints.critical_path),
            ("target_latency_ns", constraints.target_latency_ns.is_some()),
        ];
        if let Some((promise, _)) = promises.into_iter().find(|(_, holds)| *holds)
            && let Some(span) = span_of("check").filter(|_| metadata.check)
        {
            let message = format!("`check=True` under `{promise}`: a check that fails is reported");
            let error = Diagnostic::error(Code::BrokenPromise, span, message);
            self.diagnostics
                .push(error.help("leave one of the two out; `loom.config.check` checks the kernel for a while"));
        }
        if let (true, Some(span)) = (metadata.check && constraints.unchecked, span_of("unchecked")) {
            let message = "`unchecked=True` beside `check=True`";
            let error = Diagnostic::error(Code::BrokenPromise, span, message);
            self.diagnostics.push(error.help("leave one of the two out"));
        }
        if let (true, Some(span)) = (constraints.inline_always && constraints.inline_never, span_of("inline_always")) {
            let message = "`inline_always=True` beside `inline=False`";
            let error = Diagnostic::error(Code::BrokenPromise, span, message);
            self.diagnostics.push(error.help("leave one of the two out"));
        }
        let level = metadata.opt_level().filter(|level| constraints.critical_path && *level != OptLevel::Olatency);
        if let Some(level) = level {
            let span = span_of("opt_level").or_else(|| span_of("hints")).unwrap_or(Span::NONE);
            let message =
                format!("the level `{}` under `critical_path`, which is compiled as `Olatency`", level.name());
            let error = Diagnostic::error(Code::BrokenPromise, span, message);
            self.diagnostics.push(error.help("leave the level or `critical_path` out"));
        }
        let mut unread = |name: &str, message: String, help: &str| {
            let span = span_of(name).unwrap_or(Span::NONE);
            self.diagnostics.push(Diagnostic::warning(Code::Unenforced, span, message).help(help));
        };
        for (hint, _) in &metadata.hints {
            if KernelMetadata::HINTS.iter().all(|(known, _)| known != hint) {
                let known = KernelMetadata::HINTS.map(|(known, _)| known).join(", ");
                unread("hints", format!("nothing reads the hint `{hint}`"), &format!("there are {known}"));
            }
        }
    }

    fn argument_of(
        &mut self,
        file: FileId,
        kind: FunctionKind,
        (name, value): (&ast::Identifier, &Expr),
        metadata: &mut KernelMetadata,
        constraints: &mut ExecutionConstraints,
    ) {
        let outer = std::mem::replace(&mut self.file, file);
        self.argument(kind, name, value, metadata, constraints);
        self.file = outer;
    }

    fn argument(
        &mut self,
        kind: FunctionKind,
        name: &ast::Identifier,
        value: &Expr,
        metadata: &mut KernelMetadata,
        constraints: &mut ExecutionConstraints,
    ) {
        if kind == FunctionKind::Func && !FUNCTION_ARGUMENTS.contains(&name.as_str()) {
            return self.not_of_functions(name);
        }
        match name.as_str() {
            "kind" => {
                let names = KernelKind::ALL.map(KernelKind::name);
                metadata.kind = self.one_of(name, value, &names, KernelKind::from_name).unwrap_or_default();
            }
            "device" | "target" => {
                let names = ["auto", "cpu", "cuda", "cuda:0", "sm_80", "sim", "sim:0"];
                metadata.target = self.one_of(name, value, &names, CompileTarget::from_name);
            }
            "float_mode" => {
                let names = FloatMode::ALL.map(FloatMode::name);
                if let Some(mode) = self.one_of(name, value, &names, FloatMode::from_name) {
                    metadata.float_mode = mode;
                }
            }
            "fast_math" => {
                if self.bool(name, value) == Some(true) {
                    metadata.float_mode = FloatMode::Fast;
                }
            }
            "workgroup_size" | "block_dim" => metadata.workgroup_size = self.workgroup(name, value),
            "shared_bytes" => metadata.shared_bytes = self.integer(name, value, 0, i128::from(u32::MAX)),
            "launch_bounds" => metadata.launch_bounds = self.launch_bounds(name, value),
            "max_registers" => metadata.max_registers = self.integer(name, value, 1, 255),
            "check" => {
                if let Some(check) = self.bool(name, value) {
                    metadata.check = check;
                    constraints.unchecked |= !check;
                }
            }
            "hints" => self.hints(value, metadata),
            "opt_level" => self.opt_level(value, metadata),
            "no_allocation" => constraints.no_allocation = self.flag(name, value),
            "no_syscalls" => constraints.no_syscalls = self.flag(name, value),
            "inline_always" => constraints.inline_always = self.flag(name, value),
            "unchecked" => constraints.unchecked = self.flag(name, value),
            "critical_path" => constraints.critical_path = self.flag(name, value),
            "cpu_affinity" => {
                constraints.cpu_affinity = self.integers(name, value, 0, 4095).unwrap_or_default();
            }
            "target_latency_ns" => {
                constraints.target_latency_ns = self.integer(name, value, 1, i128::from(u32::MAX)).map(u64::from);
            }
            // Accepted for programs written for Warp; they have no meaning here.
            "enable_backward" | "grid_stride" | "enable_mathdx_gemm" => {
                self.bool(name, value);
            }
            "name" => {
                // Values known only at run time are not looked at, since kernels have their functions' names.
                let is_number = |value: &CapturedMeaning| {
                    matches!(
                        value,
                        CapturedMeaning::Bool(_)
                            | CapturedMeaning::Int(_)
                            | CapturedMeaning::Float(_)
                            | CapturedMeaning::Constant(..)
                    )
                };
                if self.value(value).as_ref().is_some_and(is_number) {
                    self.wrong(value, "`name` takes a string".to_owned(), "write `name=\"…\"`, or leave it out");
                }
            }
            // Any value of Warp's: a string, a module object, a dictionary, what only CUDA devices look at.
            "module" | "module_options" | "cluster_dim" | "cuda_max_registers" | "enable_cuda_smem_spilling" => {}
            // Warp gives a meaning of its own to values that are no constants, so that nothing is known of these here.
            "inline" if kind == FunctionKind::Func => {
                constraints.inline_never = matches!(self.value(value), Some(CapturedMeaning::Bool(false)));
            }
            _ => self.unknown(name, &KERNEL_ARGUMENTS),
        }
    }

    fn not_of_functions(&mut self, name: &ast::Identifier) {
        if !KERNEL_ARGUMENTS.contains(&name.as_str()) {
            return self.unknown(name, &FUNCTION_ARGUMENTS);
        }
        let span = self.span(name);
        let message = format!("`{}` is an argument of kernels, not of functions", name.as_str());
        let help = "write it in the decorators of the kernels that call the function";
        self.diagnostics.push(Diagnostic::error(Code::BadDecorator, span, message).help(help));
    }

    fn unknown(&mut self, name: &ast::Identifier, known: &[&str]) {
        let span = self.span(name);
        let message = format!("a decorator has no argument `{}`", name.as_str());
        let help = match near_names(name.as_str(), known.iter().copied()).first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => "the guide lists the arguments of `kernel` and `func`".to_owned(),
        };
        self.diagnostics.push(Diagnostic::error(Code::BadDecorator, span, message).help(help));
    }

    fn span(&self, node: impl Ranged) -> Span {
        let range = node.range();
        Span::new(self.file, range.start().to_u32(), range.end().to_u32())
    }

    fn wrong(&mut self, value: &Expr, message: String, help: &str) {
        let span = self.span(value);
        self.diagnostics.push(Diagnostic::error(Code::BadDecorator, span, message).help(help));
    }

    fn value(&self, value: &Expr) -> Option<CapturedMeaning> {
        constant::evaluate(value, self.lookup)
    }

    fn one_of<T>(
        &mut self,
        name: &ast::Identifier,
        value: &Expr,
        names: &[&str],
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = match self.value(value) {
            Some(CapturedMeaning::Text(text)) => text,
            _ => {
                let help = format!("write `{}=\"{}\"`", name.as_str(), names[0]);
                self.wrong(value, format!("`{}` takes a string", name.as_str()), &help);
                return None;
            }
        };
        let found = from_name(&text);
        if found.is_none() {
            let help = match near_names(&text, names.iter().copied()).first() {
                Some(near) => format!("did you mean `\"{near}\"`?"),
                None => {
                    let names: Vec<String> = names.iter().map(|n| format!("`\"{n}\"`")).collect();
                    format!("it is one of {}", names.join(", "))
                }
            };
            self.wrong(value, format!("`{}` cannot be {text:?}", name.as_str()), &help);
        }
        found
    }

    fn bool(&mut self, name: &ast::Identifier, value: &Expr) -> Option<bool> {
        match self.value(value) {
            Some(CapturedMeaning::Bool(value)) => Some(value),
            Some(CapturedMeaning::Int(value @ (0 | 1))) => Some(value == 1),
            _ => {
                let help = format!("write `{}=True` or `{0}=False`", name.as_str());
                self.wrong(value, format!("`{}` takes a bool", name.as_str()), &help);
                None
            }
        }
    }

    fn flag(&mut self, name: &ast::Identifier, value: &Expr) -> bool {
        self.bool(name, value).unwrap_or(false)
    }

    fn integer(&mut self, name: &ast::Identifier, value: &Expr, least: i128, most: i128) -> Option<u32> {
        if let Some(CapturedMeaning::Int(value)) = self.value(value)
            && (least..=most).contains(&value)
        {
            return u32::try_from(value).ok();
        }
        let message = format!("`{}` takes an integer from {least} to {most}", name.as_str());
        // The usual number of values that there must be.
        let is_usual = |example: &i128| least > 0 && *example <= most;
        let example = [256, 64].into_iter().find(is_usual).unwrap_or(least);
        self.wrong(value, message, &format!("write `{}={example}`, for example", name.as_str()));
        None
    }

    fn integers(&mut self, name: &ast::Identifier, value: &Expr, least: i128, most: i128) -> Option<Vec<u32>> {
        match value {
            Expr::Tuple(tuple) => tuple.elts.iter().map(|e| self.integer(name, e, least, most)).collect(),
            Expr::List(list) => list.elts.iter().map(|e| self.integer(name, e, least, most)).collect(),
            single => Some(vec![self.integer(name, single, least, most)?]),
        }
    }

    fn workgroup(&mut self, name: &ast::Identifier, value: &Expr) -> Option<[u32; 3]> {
        let sizes = self.integers(name, value, 1, MAX_BLOCK)?;
        let total: u64 = sizes.iter().map(|s| u64::from(*s)).product();
        if sizes.is_empty() || sizes.len() > 3 || total > MAX_BLOCK as u64 {
            let message =
                format!("`{}` takes one to three sizes of at most {MAX_BLOCK} threads together", name.as_str());
            self.wrong(value, message, "write `block_dim=256` or `workgroup_size=(16, 16)`");
            return None;
        }
        let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
        Some([size(0), size(1), size(2)])
    }

    fn launch_bounds(&mut self, name: &ast::Identifier, value: &Expr) -> Option<(u32, Option<u32>)> {
        match self.integers(name, value, 1, MAX_BLOCK)?[..] {
            [threads] => Some((threads, None)),
            [threads, blocks] => Some((threads, Some(blocks))),
            _ => {
                self.wrong(
                    value,
                    "`launch_bounds` takes one or two integers".to_owned(),
                    "write `launch_bounds=256` or `launch_bounds=(256, 2)`",
                );
                None
            }
        }
    }

    /// The level is the hint of this name, which `hints` gives as well.
    fn opt_level(&mut self, value: &Expr, metadata: &mut KernelMetadata) {
        let text = match self.value(value) {
            Some(CapturedMeaning::Text(text)) => Some(text.to_string()),
            Some(CapturedMeaning::Int(number)) => Some(number.to_string()),
            _ => None,
        };
        match text.as_deref().and_then(OptLevel::from_name) {
            Some(level) => metadata.hints.push(("opt_level".to_owned(), level.name().to_owned())),
            None => {
                let names = OptLevel::ALL.map(|level| format!("`\"{}\"`", level.name())).join(", ");
                self.wrong(value, "this is no optimisation level".to_owned(), &format!("levels are {names}"));
            }
        }
    }

    fn hints(&mut self, value: &Expr, metadata: &mut KernelMetadata) {
        let usage = "write `hints={\"unroll\": 4}`";
        let Expr::Dict(dict) = value else {
            return self.wrong(value, "`hints` takes a dictionary".to_owned(), usage);
        };
        for item in &dict.items {
            let key = item.key.as_ref().and_then(|k| self.value(k));
            let text = match self.value(&item.value) {
                Some(CapturedMeaning::Text(text)) => Some(text.to_string()),
                Some(CapturedMeaning::Bool(value)) => Some(value.to_string()),
                Some(CapturedMeaning::Int(value)) => Some(value.to_string()),
                Some(CapturedMeaning::Float(value)) => Some(format!("{value:?}")),
                _ => None,
            };
            match (key, text) {
                (Some(CapturedMeaning::Text(key)), Some(text)) => {
                    metadata.hints.push((key.to_string(), text));
                    if let Err(values) = metadata.hint(&key) {
                        let message = format!("the hint `{key}` is {values}");
                        self.wrong(&item.value, message, usage);
                    }
                }
                _ => self.wrong(&item.value, "a hint is a string and a constant".to_owned(), usage),
            }
        }
    }
}

/// The keyword arguments of the call that a unit consists of.
fn keywords(unit: &SourceUnit) -> Vec<(&ast::Identifier, &Expr)> {
    let calls = unit.body().iter().filter_map(|statement| statement.as_expr_stmt()?.value.as_call_expr());
    let keywords = calls.flat_map(|call| &call.arguments.keywords);
    keywords.filter_map(|keyword| Some((keyword.arg.as_ref()?, &keyword.value))).collect()
}
