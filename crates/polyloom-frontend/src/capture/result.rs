//! The result of capture: calls, groups, and the reasons why chains end.

use super::rewrite::edits::RewritingPlan;
use polyloom_ir::{Code, Diagnostic, SourceMap, Span};
use std::sync::Arc;

/// The `ops.*` calls of a function and which of them may run as one kernel.
#[derive(Clone, Debug, Default)]
pub struct CapturedFunction {
    /// The name of the function.
    pub name: Arc<str>,
    /// The calls in evaluation order, those of inlined helper functions among them.
    pub calls: Vec<CapturedCall>,
    /// A partition of the calls, ordered by the first call of each group.
    pub groups: Vec<CapturedGroup>,
    /// The reasons why values that flow from call to call do not flow inside of a kernel.
    pub breaks: Vec<ChainBreak>,
    /// The calls of NumPy that stay Python, on what is an array or may be one.
    pub left_calls: Vec<LeftCall>,
    /// The objects that run-time guards must hold to be what analysis took them for.
    pub guards: Vec<CaptureGuard>,
    /// The edits that make the function run its groups.
    pub rewriting: RewritingPlan,
    /// True if NumPy's functions, operators and methods are captured, too.
    pub has_numpy: bool,
    /// True if analysis gave up at a limit, in which case there are no calls and the function must run as it is.
    pub is_incomplete: bool,
    /// The views that are used outside of their groups.
    pub(crate) escaping_views: Vec<Span>,
    /// The files that the spans point into.
    pub sources: SourceMap,
}

/// A call of NumPy that is not captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftCall {
    /// The call as a program writes it: `np.dot`, `.ravel`.
    pub label: String,
    /// Its place.
    pub span: Span,
    /// Why it is left.
    pub cause: LeftCause,
}

/// Why a call of NumPy stays Python.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftCause {
    /// The function or method is none of those that are captured.
    NotCaptured,
    /// It is captured with other arguments.
    Arguments,
    /// Each of its arguments may be a number as well as an array.
    MayBeNumber,
}

impl LeftCause {
    /// Returns a clause for users.
    fn reason(self) -> &'static str {
        match self {
            LeftCause::NotCaptured => "because it is none of what is captured",
            LeftCause::Arguments => "because of its arguments",
            LeftCause::MayBeNumber => {
                "because nothing says that its argument is an array: make it one by `np.asarray(…)`, or pass the array as \
                 a parameter"
            }
        }
    }
}

/// One `ops.*` call.
#[derive(Clone, Debug)]
pub struct CapturedCall {
    /// The name of the op, without its module.
    pub op: Arc<str>,
    /// The call as the program writes it: `ops.add`, `np.exp`, `+`, `.sum`.
    pub label: Arc<str>,
    /// The call expression.
    pub span: Span,
    /// The statement that evaluates it.
    pub statement: Span,
    /// The helper calls around it, outermost first; empty for a call in the function's own text.
    pub inlined_at: Vec<Span>,
    /// The straight-line block that evaluates it. Calls of one block run equally often, in order.
    pub block: u32,
    /// The operands in evaluation order, with elements of inline lists in place of the lists.
    pub operands: Vec<CapturedOperand>,
    /// True if the op may join others in a kernel at all.
    pub is_fusable: bool,
}

/// One operand of a call.
#[derive(Clone, Debug)]
pub struct CapturedOperand {
    /// The keyword, if it is passed by one.
    pub keyword: Option<Arc<str>>,
    /// The call whose unchanged result it is, if it is exactly that of one call of the same block.
    pub producer: Option<usize>,
    /// A local name that holds the operand when the first call of the group runs, by which a rewritten function can
    /// pass it early.
    pub name_at_first: Option<Arc<str>>,
    /// True if it is computed from literals alone.
    pub is_constant: bool,
}

/// Calls that may run as one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturedGroup {
    /// Indices of the calls, ascending.
    pub calls: Vec<usize>,
    /// The moments at which the kernel may run; empty for a group of one call, which runs where it stands.
    pub exec_at: Vec<ExecMoment>,
}

/// A moment at which the kernel of a group may run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExecMoment {
    /// In place of its first call.
    First,
    /// In place of its last call.
    Last,
}

impl ExecMoment {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ExecMoment::First => "first",
            ExecMoment::Last => "last",
        }
    }
}

/// A fact about an object that only a running program can confirm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CaptureGuard {
    /// The global or closure name still refers to the object that it was resolved to.
    Identity {
        /// The name as written.
        name: Arc<str>,
        /// The dotted path that it was resolved to, or the name of a helper function.
        target: Arc<str>,
    },
    /// The operators, attributes and subscripts at this place are those of tensors, numbers or plain containers, which
    /// run no code of the program.
    PlainOperation {
        /// The place.
        span: Span,
    },
}

/// The reason why a value that one call makes and another reads does not stay inside of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainBreak {
    /// The call that makes the value.
    pub producer: usize,
    /// The call that reads it, or what Python made of it.
    pub consumer: usize,
    /// The statement that ends the chain.
    pub span: Span,
    /// The kind of reason.
    pub cause: BreakCause,
    /// The reason in one sentence.
    pub reason: String,
    /// The advice on how to fuse more.
    pub help: String,
}

/// The kinds of reasons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BreakCause {
    /// Python computes a new value from it.
    PythonValue,
    /// Something writes it.
    Written,
    /// A call of unknown code may write it.
    UnknownCall,
    /// The calls are in different blocks, or the value is one of several.
    ControlFlow,
    /// No moment suits all inputs and outputs.
    NoMoment,
    /// A handler reads what is bound in between.
    Handler,
    /// The value went through an attribute, a global or a container that others can reach.
    Escaped,
    /// The op itself does not fuse.
    Unfusable,
}

impl BreakCause {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            BreakCause::PythonValue => "python_value",
            BreakCause::Written => "written",
            BreakCause::UnknownCall => "unknown_call",
            BreakCause::ControlFlow => "control_flow",
            BreakCause::NoMoment => "no_moment",
            BreakCause::Handler => "handler",
            BreakCause::Escaped => "escaped",
            BreakCause::Unfusable => "unfusable",
        }
    }
}

impl ChainBreak {
    /// The break as a diagnostic, so that it renders with its source line and a caret.
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::warning(Code::ChainBreak, self.span, self.reason.clone()).help(self.help.clone())
    }
}

/// The JSON form of a captured function.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct CaptureReport {
    /// The name of the function.
    pub function: String,
    /// Names of the ops in evaluation order.
    pub calls: Vec<String>,
    /// The calls as the program writes them.
    pub labels: Vec<String>,
    /// The line of each call, from 1.
    pub lines: Vec<u32>,
    /// Indices of the calls of each group.
    pub groups: Vec<Vec<usize>>,
    /// The moments of each group, `first` or `last`; nothing for a group of one call.
    pub exec_at: Vec<Option<Vec<&'static str>>>,
    /// The reasons why chains end.
    pub breaks: Vec<ChainBreakReport>,
    /// The calls of NumPy that stay Python.
    pub left_calls: Vec<LeftCallReport>,
    /// True if analysis gave up at a limit.
    pub incomplete: bool,
}

/// The JSON form of a call that stays Python.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct LeftCallReport {
    /// The call as the program writes it.
    pub label: String,
    /// The file of the call.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// Its column, from 1.
    pub column: u32,
    /// The reason, a clause that begins with "because".
    pub reason: &'static str,
}

/// The JSON form of a break.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct ChainBreakReport {
    /// The call that makes the value.
    pub producer: usize,
    /// The call that reads it.
    pub consumer: usize,
    /// The kind of reason.
    pub cause: &'static str,
    /// The file of the statement.
    pub file: String,
    /// Its first line, from 1.
    pub line: u32,
    /// Its first column, from 1.
    pub column: u32,
    /// The reason in one sentence.
    pub reason: String,
    /// The advice on how to fuse more.
    pub help: String,
}

impl CapturedFunction {
    /// Returns the JSON form.
    pub fn report(&self) -> CaptureReport {
        let position = |span: Span| self.sources.get(span.file).map(|file| file.position(span.start));
        let line = |span| position(span).map_or(1, |position| position.line);
        let moments = |group: &CapturedGroup| {
            (group.calls.len() > 1).then(|| group.exec_at.iter().map(|moment| moment.name()).collect())
        };
        let report_break = |each: &ChainBreak| ChainBreakReport {
            producer: each.producer,
            consumer: each.consumer,
            cause: each.cause.name(),
            file: self.sources.get(each.span.file).map_or_else(String::new, |file| file.name.to_string()),
            line: line(each.span),
            column: position(each.span).map_or(1, |position| position.column),
            reason: each.reason.clone(),
            help: each.help.clone(),
        };
        let report_left = |each: &LeftCall| LeftCallReport {
            label: each.label.clone(),
            file: self.sources.get(each.span.file).map_or_else(String::new, |file| file.name.to_string()),
            line: line(each.span),
            column: position(each.span).map_or(1, |position| position.column),
            reason: each.cause.reason(),
        };
        CaptureReport {
            function: self.name.to_string(),
            calls: self.calls.iter().map(|call| call.op.to_string()).collect(),
            labels: self.calls.iter().map(|call| call.label.to_string()).collect(),
            lines: self.calls.iter().map(|call| line(call.span)).collect(),
            groups: self.groups.iter().map(|group| group.calls.clone()).collect(),
            exec_at: self.groups.iter().map(moments).collect(),
            breaks: self.breaks.iter().map(report_break).collect(),
            left_calls: self.left_calls.iter().map(report_left).collect(),
            incomplete: self.is_incomplete,
        }
    }
}
