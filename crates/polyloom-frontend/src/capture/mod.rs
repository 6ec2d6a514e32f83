//! Capture: which `ops.*` calls of a Python function may run as one kernel, and when.
//!
//! ```text
//! function ── scope, environment: names ──► interpreter: values, aliases, effects ──► timeline
//!                                                                                       │
//!                           CapturedFunction ◄── explanation ◄── grouping ◄─────────────┘
//! ```
//!
//! The interpreter walks the function in Python's evaluation order over abstract values, and records what each piece
//! reads, writes, and runs. Grouping then looks for calls that can run together at one moment with nobody noticing.
//! Where analysis is not sure, it breaks the chain.
//!
//! What is taken for granted, guards hold at run time ([`CaptureGuard`]): names refer to what they were resolved to,
//! and operators, attributes and subscripts of values from outside are those of tensors, numbers and plain containers,
//! which run no code of the program. Shapes and dtypes are checked before a kernel runs, so that a kernel does not fail;
//! where a check fails, the original code runs and raises what it raises.
//!
//! NumPy's functions, operators, methods and attributes are calls, too, if [`NumpyCapture`] is given: [`NUMPY_FORMS`] says which
//! op each is, and [`numpy_call`] when one is captured.
//!
//! Architecture invariants: nothing here knows a tensor engine; an op is a name with [`TensorOpFacts`]. Nothing in
//! grouping is about `ops.*` or NumPy.

mod builtin_call;
mod builtin_table;
mod call;
mod control;
mod element;
mod environment;
mod explanation;
mod expression;
mod frame;
mod grouping;
mod inline;
mod interpreter;
mod limits;
mod method;
mod numpy_call;
mod numpy_capture;
mod numpy_table;
mod object;
mod plain;
mod repeat;
mod result;
mod rewrite;
mod scope;
mod statement;
mod target;
mod timeline;

pub use environment::{
    CaptureEnvironment, FileCaptureEnvironment, GlobalMeaning, HelperFunction, OpCatalogue, TensorOpFacts,
};
pub use numpy_capture::NumpyCapture;
pub use numpy_table::{NUMPY_FORMS, NumpyForm, NumpySyntax, numpy_forms_text};
pub use result::{
    BreakCause, CaptureGuard, CaptureReport, CapturedCall, CapturedFunction, CapturedGroup, CapturedOperand,
    ChainBreak, ChainBreakReport, ExecMoment, LeftCall, LeftCallReport, LeftCause,
};

pub use rewrite::{
    EvaluatedArgument, GroupMember, GroupOperand, GroupRewriting, GroupSite, GroupSlot, OutsideRoot, PlainRequirement,
    RewritingPlan,
};

use crate::source::SourceUnit;
use explanation::BreakExplainer;
use frame::{CaptureFrame, FrameKind};
use grouping::CallGrouper;
use interpreter::CaptureInterpreter;
use object::FunctionSource;
use ruff_python_ast as ast;
use rustc_hash::FxHashMap;
use scope::ScopeBindings;
use std::rc::Rc;
use std::sync::Arc;

/// Captures a function of a file: finds its `ops.*` calls and what may run as one kernel. Returns nothing if there is no
/// such function.
///
/// ```
/// use polyloom_frontend::capture::{self, FileCaptureEnvironment, OpCatalogue, TensorOpFacts};
/// use polyloom_frontend::SourceUnit;
/// use polyloom_ir::SourceFile;
///
/// struct AllPure;
///
/// impl OpCatalogue for AllPure {
///     fn op(&self, path: &str) -> Option<TensorOpFacts> {
///         path.starts_with("polyloom.ops.").then_some(TensorOpFacts::PURE)
///     }
/// }
///
/// let text = "
/// from polyloom import ops
///
/// def f(a, b):
///     x = ops.add(a, b)
///     y = ops.relu(x)
///     y += 1
///     return ops.multiply(y, a)
/// ";
/// let unit = SourceUnit::parse(SourceFile::new("f.py", text, 1))?;
/// let environment = FileCaptureEnvironment::new(&unit, 0);
/// let captured = capture::capture(&unit, 0, environment, &AllPure).expect("the file has a function");
/// let groups: Vec<_> = captured.groups.iter().map(|group| &group.calls[..]).collect();
/// assert_eq!(groups, [&[0, 1][..], &[2]]);
/// assert_eq!(captured.breaks[0].reason, "`y += 1` writes the result of `ops.relu` before `ops.multiply` reads it");
/// # Ok::<(), polyloom_frontend::CompileError>(())
/// ```
pub fn capture(
    unit: &Arc<SourceUnit>,
    function: usize,
    environment: Arc<dyn CaptureEnvironment>,
    catalogue: &dyn OpCatalogue,
) -> Option<CapturedFunction> {
    capture_once(unit, function, environment, catalogue, None)
}

/// Captures a function as [`capture`] does, with calls of NumPy among the calls.
pub fn capture_numpy(
    unit: &Arc<SourceUnit>,
    function: usize,
    environment: Arc<dyn CaptureEnvironment>,
    catalogue: &dyn OpCatalogue,
    numpy: &NumpyCapture,
) -> Option<CapturedFunction> {
    let mut numpy = numpy.clone();
    for _ in 0..limits::CaptureLimits::VIEW_PASSES {
        let captured = capture_once(unit, function, environment.clone(), catalogue, Some(&numpy))?;
        if captured.escaping_views.is_empty() {
            return Some(captured);
        }
        // A view that is used outside of its group is made by Python, because a kernel would make a copy.
        numpy.left.extend(&captured.escaping_views);
    }
    capture_once(unit, function, environment, catalogue, Some(&numpy))
}

fn capture_once(
    unit: &Arc<SourceUnit>,
    function: usize,
    environment: Arc<dyn CaptureEnvironment>,
    catalogue: &dyn OpCatalogue,
    numpy: Option<&NumpyCapture>,
) -> Option<CapturedFunction> {
    let def = unit.definition(function)?;
    let mut interpreter = CaptureInterpreter::new(catalogue, numpy.cloned());
    let index = interpreter.unit_index(unit);
    interpreter.environments.push(environment);
    interpreter.frames.push(CaptureFrame {
        id: u32::MAX,
        scope: ScopeBindings::of_function(&def.parameters, &def.body),
        parent: None,
        kind: FrameKind::Function,
        environment: 0,
        unit: index,
        code: Some(FunctionSource::Definition { unit: index, start: unit.functions().get(function)?.start }),
        returns: Vec::new(),
    });
    let mut names = FxHashMap::default();
    for parameter in def.parameters.iter() {
        let (name, value) = (parameter.name().to_string(), interpreter.parameter_value());
        interpreter.note_outside(value, OutsideRoot::Parameter(name.clone()), Vec::new());
        let is_collection = [&def.parameters.vararg, &def.parameters.kwarg]
            .into_iter()
            .flatten()
            .any(|collection| collection.name.as_str() == name);
        if numpy.is_some_and(|numpy| !numpy.others.contains(&name)) && !is_collection {
            interpreter.note_array(value);
        }
        names.insert(name, value);
    }
    interpreter.state.frames.push(Rc::new(names));
    interpreter.block = interpreter.new_block();
    interpreter.statements(&def.body);

    let mut captured = CapturedFunction {
        name: def.name.as_str().into(),
        is_incomplete: interpreter.has_given_up,
        ..CapturedFunction::default()
    };
    if !interpreter.has_given_up {
        fill(&mut captured, &interpreter, def);
    }
    captured.sources = interpreter.sources;
    Some(captured)
}

fn fill(captured: &mut CapturedFunction, interpreter: &CaptureInterpreter<'_>, def: &ast::StmtFunctionDef) {
    let mut grouper = CallGrouper::new(&interpreter.timeline, &interpreter.table, &interpreter.global_values);
    grouper.merge_all();
    captured.groups = grouper.captured_groups();
    captured.breaks = BreakExplainer { grouper: &grouper, sources: &interpreter.sources }.explain();
    (captured.rewriting, captured.escaping_views) = rewrite::plan(interpreter, &grouper, def);
    captured.left_calls = interpreter.left_calls.clone();
    captured.has_numpy = interpreter.numpy.is_some();
    captured.guards = interpreter.guards.clone();
    for (index, call) in interpreter.timeline.calls.iter().enumerate() {
        let group = &grouper.groups[grouper.group_of[index]];
        let first = group.first().and_then(|&first| interpreter.timeline.calls.get(first)).unwrap_or(call);
        let operand = |(place, operand): (usize, &timeline::OperandEvent)| CapturedOperand {
            keyword: operand.keyword.clone(),
            producer: grouper.producer(index, place),
            name_at_first: first
                .names
                .iter()
                .find(|(_, value)| *value == operand.value)
                .map(|(name, _)| (**name).into())
                .or_else(|| interpreter.global_values.get(&operand.value).map(|name| name.as_str().into())),
            is_constant: interpreter.table.value(operand.value).is_constant,
        };
        captured.calls.push(CapturedCall {
            op: call.op.clone(),
            label: call.label.clone(),
            span: call.span,
            statement: call.statement,
            inlined_at: call.inlined_at.clone(),
            block: call.block,
            operands: call.operands.iter().enumerate().map(operand).collect(),
            is_fusable: call.is_fusable,
        });
    }
}
