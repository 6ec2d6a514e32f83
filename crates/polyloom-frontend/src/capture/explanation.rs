//! Explanations: for each value that flows from call to call outside of a kernel, which statement is the reason.

use super::grouping::{CallGrouper, GroupMoments, MomentObstacle};
use super::object::{EXTERNAL, ObjectId, ObjectKind};
use super::result::{BreakCause, ChainBreak};
use super::timeline::{CallEvent, CaptureEvent, EventKind, OperandEvent};
use polyloom_ir::{SourceMap, Span};
use ruff_python_ast::{Expr, Operator, UnaryOp};
use ruff_text_size::Ranged;

/// The longest text of the program that a sentence repeats.
const MAX_QUOTE: usize = 48;

pub(crate) struct BreakExplainer<'e, 't> {
    pub(crate) grouper: &'e CallGrouper<'t>,
    pub(crate) sources: &'e SourceMap,
}

impl BreakExplainer<'_, '_> {
    /// Explains every value that leaves the group that makes it and is read by another call.
    pub(crate) fn explain(&self) -> Vec<ChainBreak> {
        let mut breaks: Vec<ChainBreak> = Vec::new();
        for (consumer, call) in self.grouper.timeline.calls.iter().enumerate() {
            for operand in &call.operands {
                for each in self.explain_operand(consumer, call, operand) {
                    // One statement is one reason, whatever follows from it.
                    let is_known = |known: &ChainBreak| {
                        known.consumer == each.consumer
                            && (known.span == each.span || (known.producer, known.cause) == (each.producer, each.cause))
                    };
                    if !breaks.iter().any(is_known) {
                        breaks.push(each);
                    }
                }
            }
        }
        breaks
    }

    fn explain_operand(&self, consumer: usize, call: &CallEvent, operand: &OperandEvent) -> Vec<ChainBreak> {
        let grouper = self.grouper;
        let objects = grouper.table.objects_of(operand.value);
        let is_one = objects.len() == 1;
        let mut breaks: Vec<ChainBreak> = self.explain_escaped(consumer, call, operand).into_iter().collect();
        for &object in objects.iter() {
            if let Some(producer) = grouper.source_call(object) {
                if grouper.group_of[producer] != grouper.group_of[consumer] {
                    let each = if is_one {
                        self.explain_exact(producer, consumer, operand)
                    } else {
                        self.several_values(producer, consumer, Some(operand))
                    };
                    breaks.push(each);
                }
                continue;
            }
            for &source in &grouper.table.object(object).sources {
                let producer = grouper.source_call(source).filter(|_| source != EXTERNAL);
                if let Some(producer) = producer.filter(|&p| grouper.timeline.calls[p].at < call.at) {
                    breaks.push(self.python_value(producer, consumer, object));
                }
            }
        }
        breaks
    }

    /// Explains an operand from outside that may be a result which others can reach: an attribute, or an element of a
    /// list of the caller.
    fn explain_escaped(&self, consumer: usize, call: &CallEvent, operand: &OperandEvent) -> Option<ChainBreak> {
        let table = self.grouper.table;
        let value = table.value(operand.value);
        let escaped = &self.grouper.timeline.events.get(call.at as usize)?.escaped;
        if value.objects[..] != [EXTERNAL] || value.is_guarded {
            return None;
        }
        let earlier = self.grouper.timeline.calls.get(..consumer)?;
        let is_escaped = |made: &CallEvent| made.results.iter().any(|result| escaped.binary_search(result).is_ok());
        let producer = earlier.iter().rposition(|made| is_escaped(made) && made.at < value.ready)?;
        let (from, to) = (self.op(producer), self.op(consumer));
        Some(ChainBreak {
            producer,
            consumer,
            span: call.statement,
            cause: BreakCause::Escaped,
            reason: format!(
                "{to} reads a value from outside, which may be the result of {from}, since others can reach that"
            ),
            help: format!("keep the result of {from} in a local name, and pass that to {to}"),
        })
    }

    fn op(&self, call: usize) -> String {
        format!("`{}`", self.grouper.timeline.calls[call].label)
    }

    fn event(&self, index: usize) -> &CaptureEvent {
        &self.grouper.timeline.events[index]
    }

    /// Returns a piece of the program, in one line and not too long.
    fn quote(&self, span: Span) -> String {
        let text = self.text(span).split_whitespace().collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(MAX_QUOTE) {
            Some((end, _)) => format!("`{}…`", &text[..end]),
            None => format!("`{text}`"),
        }
    }

    fn text(&self, span: Span) -> &str {
        let file = self.sources.get(span.file);
        file.and_then(|file| file.text.get(span.start as usize..span.end as usize)).unwrap_or_default()
    }

    /// Explains why the result of a call, as it is, is not passed on inside of a kernel.
    fn explain_exact(&self, producer: usize, consumer: usize, operand: &OperandEvent) -> ChainBreak {
        let grouper = self.grouper;
        let (from, to) = (&grouper.timeline.calls[producer], &grouper.timeline.calls[consumer]);
        let make = |span, cause, reason, help: &str| ChainBreak {
            producer,
            consumer,
            span,
            cause,
            reason,
            help: help.to_owned(),
        };
        for (index, call) in [(producer, from), (consumer, to)] {
            if !call.is_fusable {
                let reason = format!("{} does more here than compute a new value from its arguments", self.op(index));
                let help = "call it without `out=`, without `*` and `**` of unknown length, and with no functions";
                return make(call.span, BreakCause::Unfusable, reason, help);
            }
        }
        if let Some(event) = grouper.writer_between(from, to, operand) {
            return self.written(producer, consumer, self.event(event));
        }
        if from.block != to.block {
            let (from, to) = (self.op(producer), self.op(consumer));
            let reason =
                format!("{to} does not run exactly when {from} does: a branch, a loop or an exit is between them");
            let help = "put both calls into the same block of statements";
            return make(grouper.timeline.calls[consumer].statement, BreakCause::ControlFlow, reason, help);
        }
        match grouper.refused.get(&(producer, consumer)) {
            Some(moments) => self.no_moment(producer, consumer, moments),
            None => self.several_values(producer, consumer, None),
        }
    }

    fn several_values(&self, producer: usize, consumer: usize, operand: Option<&OperandEvent>) -> ChainBreak {
        // Code that may rebind the name is the reason, if it is the last thing that has happened to the value.
        let ready = operand.map_or(0, |operand| self.grouper.table.value(operand.value).ready as usize);
        let bound_by = ready.checked_sub(1).and_then(|index| self.grouper.timeline.events.get(index));
        if let Some(event) = bound_by.filter(|event| matches!(event.kind, EventKind::UnknownCode | EventKind::Dynamic))
        {
            return self.written(producer, consumer, event);
        }
        let (from, to) = (self.op(producer), self.op(consumer));
        ChainBreak {
            producer,
            consumer,
            span: self.grouper.timeline.calls[consumer].statement,
            cause: BreakCause::ControlFlow,
            reason: format!("{to} reads the result of {from} on some paths and another value on others"),
            help: format!("call {to} in each branch, where its operand is one value"),
        }
    }

    /// Explains a write of a result between two calls.
    fn written(&self, producer: usize, consumer: usize, event: &CaptureEvent) -> ChainBreak {
        let (from, to) = (self.op(producer), self.op(consumer));
        let what = self.quote(event.span);
        let until = format!("the result of {from} before {to} reads it");
        let (cause, reason, help) = match event.kind {
            EventKind::UnknownCode => (
                BreakCause::UnknownCall,
                format!("{what} runs code that may write {until}"),
                "run it after the last `ops.*` call that reads the value, or hand it a copy".to_owned(),
            ),
            EventKind::Suspend => (
                BreakCause::UnknownCall,
                format!("{what} suspends the function, and others may write {until}"),
                "suspend after the last `ops.*` call that reads the value".to_owned(),
            ),
            EventKind::Dynamic => (
                BreakCause::UnknownCall,
                format!("{what} reaches every name, and may write {until}"),
                "write what it does as statements of the function".to_owned(),
            ),
            EventKind::Op(_) | EventKind::Read | EventKind::View | EventKind::InPlace | EventKind::Store => (
                BreakCause::Written,
                format!("{what} writes {until}"),
                match self.suggestion(event.span) {
                    Some(op) => format!("make a new value, `{op}`, or write after the last `ops.*` call that reads it"),
                    None => "write to a copy, or after the last `ops.*` call that reads the value".to_owned(),
                },
            ),
        };
        ChainBreak { producer, consumer, span: event.span, cause, reason, help }
    }

    /// Explains an operand that Python has computed from a result.
    fn python_value(&self, producer: usize, consumer: usize, object: ObjectId) -> ChainBreak {
        let table = self.grouper.table;
        let made = table.object(object);
        let (from, to) = (self.op(producer), self.op(consumer));
        let what = self.quote(made.span);
        let is_unknown = made.roots[..] == [EXTERNAL] && matches!(made.kind, ObjectKind::Computed);
        let (cause, reason) = match made.kind {
            _ if is_unknown => (
                BreakCause::UnknownCall,
                format!("{what} is a call of unknown code between {from} and {to}, which reads its result"),
            ),
            ObjectKind::View => (
                BreakCause::PythonValue,
                format!("{what} makes a view of the result of {from} in Python, which {to} reads"),
            ),
            _ => (
                BreakCause::PythonValue,
                format!("{what} makes a new value in Python from the result of {from}, and {to} reads that"),
            ),
        };
        let help = match self.suggestion(made.span) {
            Some(op) => format!("write it as an op: `{op}`"),
            None => "compute it with `ops.*`, so that it can be part of the kernel".to_owned(),
        };
        ChainBreak { producer, consumer, span: made.span, cause, reason, help }
    }

    fn no_moment(&self, producer: usize, consumer: usize, moments: &GroupMoments) -> ChainBreak {
        let (from, to) = (self.op(producer), self.op(consumer));
        let first = moments.first.as_ref().err();
        let last = moments.last.as_ref().err();
        if let Some(MomentObstacle::Handler { region }) = first {
            let region = self.grouper.timeline.tries.get(*region);
            return ChainBreak {
                producer,
                consumer,
                span: region.map_or(Span::NONE, |region| region.span),
                cause: BreakCause::Handler,
                reason: format!(
                    "an exception of this `try` leads to code that reads what is bound between {from} and {to}"
                ),
                help: "move the calls out of the `try`, or bind names after the last of them".to_owned(),
            };
        }
        let phrases: Vec<String> = [first, last].into_iter().flatten().map(|each| self.obstacle(each)).collect();
        let span = last.and_then(|each| self.obstacle_span(each)).or(first.and_then(|each| self.obstacle_span(each)));
        let reason = match &phrases[..] {
            [one, other] if one != other => format!("no moment suits both {from} and {to}: {one}, and {other}"),
            _ => format!("no moment suits both {from} and {to}: {}", phrases.first().cloned().unwrap_or_default()),
        };
        ChainBreak {
            producer,
            consumer,
            span: span.unwrap_or(self.grouper.timeline.calls[consumer].statement),
            cause: BreakCause::NoMoment,
            reason,
            help: "move the statement before the first of the calls or after the last, if that means the same"
                .to_owned(),
        }
    }

    fn obstacle_span(&self, obstacle: &MomentObstacle) -> Option<Span> {
        match obstacle {
            MomentObstacle::InputWritten { event, .. }
            | MomentObstacle::OutputSeen { event, .. }
            | MomentObstacle::ErrorState { event } => Some(self.event(*event).span),
            MomentObstacle::NotReady { value, .. } => {
                let objects = self.grouper.table.objects_of(*value);
                let mut spans = objects.iter().map(|&object| self.grouper.table.object(object).span);
                spans.rfind(|span| !span.is_none())
            }
            _ => None,
        }
    }

    fn obstacle(&self, obstacle: &MomentObstacle) -> String {
        match obstacle {
            MomentObstacle::NotReady { call, .. } => {
                format!("an operand of {} is made after the first of them", self.op(*call))
            }
            MomentObstacle::InputWritten { call, event } => {
                format!("{} may write an operand of {}", self.quote(self.event(*event).span), self.op(*call))
            }
            MomentObstacle::OutputSeen { call, event } => {
                format!(
                    "{} reads the result of {} before the last",
                    self.quote(self.event(*event).span),
                    self.op(*call)
                )
            }
            MomentObstacle::Feedback { call } => {
                format!("an operand of {} holds a result of the group itself", self.op(*call))
            }
            MomentObstacle::ErrorState { event } => {
                format!("{} may change how NumPy treats floating-point errors", self.quote(self.event(*event).span))
            }
            MomentObstacle::Handler { .. } => "a handler reads what is bound in between".to_owned(),
            MomentObstacle::OtherGroup { call } => format!("{} of another group is between them", self.op(*call)),
        }
    }

    /// Returns the op call that does what an expression or a statement in place does, if there is an obvious one.
    fn suggestion(&self, span: Span) -> Option<String> {
        let text = self.text(span);
        if let Ok(parsed) = ruff_python_parser::parse_expression(text) {
            let part = |expr: &Expr| text.get(expr.range().start().to_usize()..expr.range().end().to_usize());
            return match parsed.expr() {
                Expr::BinOp(binary) => {
                    let name = operator_op(binary.op)?;
                    Some(format!("ops.{name}({}, {})", part(&binary.left)?, part(&binary.right)?))
                }
                Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => {
                    Some(format!("ops.negative({})", part(&unary.operand)?))
                }
                Expr::Call(call) => match &*call.func {
                    Expr::Attribute(method) if REDUCTIONS.contains(&method.attr.as_str()) => {
                        Some(format!("ops.{}({})", method.attr, part(&method.value)?))
                    }
                    _ => None,
                },
                _ => None,
            };
        }
        let parsed = ruff_python_parser::parse_module(text).ok()?;
        match &parsed.suite()[..] {
            [ruff_python_ast::Stmt::AugAssign(assign)] if assign.target.is_name_expr() => {
                let part = |expr: &Expr| text.get(expr.range().start().to_usize()..expr.range().end().to_usize());
                let (target, value) = (part(&assign.target)?, part(&assign.value)?);
                Some(format!("{target} = ops.{}({target}, {value})", operator_op(assign.op)?))
            }
            _ => None,
        }
    }
}

/// Methods of tensors that are ops of the same name.
const REDUCTIONS: [&str; 8] = ["sum", "mean", "prod", "max", "min", "all", "any", "std"];

fn operator_op(operator: Operator) -> Option<&'static str> {
    Some(match operator {
        Operator::Add => "add",
        Operator::Sub => "subtract",
        Operator::Mult => "multiply",
        Operator::Div => "divide",
        Operator::MatMult => "matmul",
        Operator::Pow => "power",
        _ => return None,
    })
}
