//! Calls of functions of the program, whose bodies are walked where they are called.

use super::call::CallArguments;
use super::frame::{CaptureFrame, FrameKind};
use super::interpreter::CaptureInterpreter;
use super::limits::CaptureLimits;
use super::object::ElementKey;
use super::object::{CONSTANT, ContainerKind, FunctionObject, FunctionSource, ObjectKind, ValueId};
use super::scope::ScopeBindings;
use super::timeline::InlinedCallEvent;
use crate::source::SourceUnit;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

impl CaptureInterpreter<'_> {
    /// Calls a function of the program: walks its body if that can be done, and takes it for unknown code if not.
    pub(crate) fn call_function(
        &mut self,
        range: TextRange,
        callee: ValueId,
        function: &Rc<FunctionObject>,
        arguments: &CallArguments,
    ) -> ValueId {
        let is_recursive = self.frames.iter().any(|frame| frame.code == Some(function.code));
        let is_too_deep =
            self.inlined_at.len() >= CaptureLimits::INLINED || self.inlined_steps > CaptureLimits::INLINED_STEPS;
        let steps = self.steps();
        // The names that it reads of a frame that has ended are not kept apart.
        let parent = function.frame.map(|id| self.frames.iter().position(|frame| frame.id == id));
        if is_recursive || is_too_deep || parent == Some(None) {
            return self.call_unknown(range, callee, arguments);
        }
        let parent = parent.flatten();
        let (FunctionSource::Definition { unit, .. } | FunctionSource::Lambda { unit, .. }) = function.code;
        let Some((source, _)) = self.units.get(unit).cloned() else {
            return self.call_unknown(range, callee, arguments);
        };
        let inlined = match function.code {
            FunctionSource::Definition { start, .. } => source.definition_at(start).and_then(|def| {
                let scope = ScopeBindings::of_function(&def.parameters, &def.body);
                let is_plain = !scope.is_generator && !def.is_async;
                is_plain.then_some(InlinedBody {
                    scope,
                    parameters: Some(&def.parameters),
                    code: BodyCode::Block(&def.body),
                })
            }),
            FunctionSource::Lambda { start, end, .. } => find_lambda(&source, start, end).and_then(|lambda| {
                let scope = ScopeBindings::of_lambda(lambda);
                let parameters = lambda.parameters.as_deref();
                let is_plain = !scope.is_generator;
                is_plain.then_some(InlinedBody { scope, parameters, code: BodyCode::Value(&lambda.body) })
            }),
        };
        let Some(inlined) = inlined else { return self.call_unknown(range, callee, arguments) };
        let id = self.frame_id(range);
        let is_free = function.frame.is_none();
        let Some(bound) = self.bind_arguments(range, inlined.parameters, is_free, function, arguments) else {
            return self.call_unknown(range, callee, arguments);
        };
        let begins = self.timeline.now();
        let names = self.names_in_reach_of_function();
        self.inlined_at.push(self.span(range));
        let (exits, block, statement) = (self.exits, self.block, self.statement);
        let loops = std::mem::take(&mut self.loops);
        self.frames.push(CaptureFrame {
            id,
            scope: inlined.scope,
            parent,
            kind: FrameKind::Function,
            environment: function.environment,
            unit,
            code: Some(function.code),
            returns: Vec::new(),
        });
        self.state.frames.push(Rc::new(bound.into_iter().collect::<FxHashMap<_, _>>()));
        let mut result = CONSTANT;
        match inlined.code {
            BodyCode::Block(body) => self.statements(body),
            BodyCode::Value(value) => result = self.eval(value),
        }
        let returns = self.frames.last_mut().map(|frame| std::mem::take(&mut frame.returns)).unwrap_or_default();
        let mut is_first = !self.state.is_reachable;
        for (state, value) in returns {
            let current = std::mem::take(&mut self.state);
            self.state = self.join_states(current, state);
            result = if is_first { value } else { self.join_values(result, value) };
            is_first = false;
        }
        self.pop_frame();
        self.loops = loops;
        self.exits = exits;
        self.block = block;
        self.statement = statement;
        self.inlined_at.pop();
        if self.inlined_at.is_empty() {
            self.inlined_steps += self.steps() - steps;
        }
        let is_tuple = match self.table.objects_of(result)[..] {
            [only] => *self.table.kind(only) == ObjectKind::Container(ContainerKind::Tuple),
            _ => false,
        };
        let elements = self.exact_elements(result).filter(|_| is_tuple);
        self.timeline.inlined.push(InlinedCallEvent {
            span: self.span(range),
            inlined_at: self.inlined_at.clone(),
            events: begins..self.timeline.now(),
            source: function.code,
            is_free,
            positional: arguments.positional.clone(),
            keywords: arguments.keywords.clone(),
            result,
            elements,
            names,
        });
        result
    }

    /// Gives each parameter its value; nothing if the arguments do not fit, or it is not known how.
    fn bind_arguments(
        &mut self,
        range: TextRange,
        parameters: Option<&ast::Parameters>,
        is_free: bool,
        function: &FunctionObject,
        arguments: &CallArguments,
    ) -> Option<Vec<(String, ValueId)>> {
        if !arguments.rest.is_empty() {
            return None;
        }
        let Some(parameters) = parameters else {
            return (arguments.positional.is_empty() && arguments.keywords.is_empty()).then(Vec::new);
        };
        let mut bound: Vec<(String, ValueId)> = Vec::new();
        let positional: Vec<&ast::ParameterWithDefault> =
            parameters.posonlyargs.iter().chain(&parameters.args).collect();
        let n_positional = positional.len().min(arguments.positional.len());
        for (parameter, &value) in positional.iter().zip(&arguments.positional) {
            bound.push((parameter.parameter.name.to_string(), value));
        }
        let extra = &arguments.positional[n_positional..];
        match &parameters.vararg {
            Some(vararg) => {
                let tuple = self.make(range, 10, ObjectKind::Container(ContainerKind::Tuple), None, Vec::new());
                self.fill_exactly(tuple, extra.iter().copied());
                let value = self.value_of(vec![tuple]);
                bound.push((vararg.name.to_string(), value));
            }
            None if !extra.is_empty() => return None,
            None => {}
        }
        let by_name: Vec<&ast::ParameterWithDefault> = parameters.args.iter().chain(&parameters.kwonlyargs).collect();
        let mut others = Vec::new();
        for (name, value) in &arguments.keywords {
            let is_parameter = by_name.iter().any(|parameter| parameter.parameter.name.as_str() == name);
            if !is_parameter {
                others.push((ElementKey::Text(name.clone()), *value));
            } else if bound.iter().any(|(known, _)| known == name) {
                return None;
            } else {
                bound.push((name.clone(), *value));
            }
        }
        match &parameters.kwarg {
            Some(kwarg) => {
                let dict = self.make(range, 11, ObjectKind::Container(ContainerKind::Dict), None, Vec::new());
                self.fill_with_keys(dict, others);
                let value = self.value_of(vec![dict]);
                bound.push((kwarg.name.to_string(), value));
            }
            None if !others.is_empty() => return None,
            None => {}
        }
        for parameter in positional.into_iter().chain(&parameters.kwonlyargs) {
            let name = parameter.parameter.name.to_string();
            if bound.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let default = parameter.default.as_ref()?;
            let value = match function.defaults.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => *value,
                None if default.is_literal_expr() => CONSTANT,
                // It was evaluated when the helper was defined, outside of the captured function.
                None if is_free => self.external(),
                None => return None,
            };
            bound.push((name, value));
        }
        Some(bound)
    }
}

struct InlinedBody<'a> {
    scope: ScopeBindings,
    parameters: Option<&'a ast::Parameters>,
    code: BodyCode<'a>,
}

enum BodyCode<'a> {
    Block(&'a [Stmt]),
    Value(&'a Expr),
}

/// Finds the `lambda` with this range.
fn find_lambda(unit: &Arc<SourceUnit>, start: u32, end: u32) -> Option<&ast::ExprLambda> {
    let mut finder = LambdaFinder { range: TextRange::new(start.into(), end.into()), found: None };
    finder.visit_body(unit.body());
    finder.found
}

struct LambdaFinder<'a> {
    range: TextRange,
    found: Option<&'a ast::ExprLambda>,
}

impl<'a> Visitor<'a> for LambdaFinder<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if stmt.range().contains_range(self.range) {
            visitor::walk_stmt(self, stmt);
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Lambda(lambda) if lambda.range == self.range => self.found = Some(lambda),
            _ if expr.range().contains_range(self.range) => visitor::walk_expr(self, expr),
            _ => {}
        }
    }
}
