//! Places of a group: calls of ops in the function's own text, and calls of helpers that do nothing but call such.

use super::own_text::{OwnCall, SiteParent, bytes, is_dotted, is_literal, site_arguments};
use super::segment::SegmentBuilder;
use crate::capture::object::{FunctionSource, ObjectKind, ValueId};
use crate::capture::timeline::{EventKind, InlinedCallEvent, OperandTree};
use polyloom_ir::Span;
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashMap;

/// The longest text of the program that a reason repeats, in bytes.
const MAX_QUOTE: usize = 64;

/// A call expression in the function's own text that evaluates members of a group.
pub(super) struct SiteUnit<'a> {
    pub(super) range: TextRange,
    /// The members that it evaluates, ascending.
    pub(super) members: Vec<usize>,
    /// The members whose results its value is made of.
    pub(super) results: Vec<usize>,
    /// True if its value is a tuple of the results.
    pub(super) is_tuple: bool,
    pub(super) parent: SiteParent,
    pub(super) is_protected: bool,
    pub(super) arguments: Vec<UnitArgument<'a>>,
    /// The helper call, if it is one.
    pub(super) helper: Option<&'a InlinedCallEvent>,
    /// The expressions of the members' arguments, by member; those of a helper stand in its text.
    pub(super) expressions: FxHashMap<usize, Vec<&'a Expr>>,
    /// The arguments that parameters of the helper have.
    pub(super) parameters: FxHashMap<String, ParameterValue>,
}

/// The argument of a parameter that a helper does not bind again.
pub(super) enum ParameterValue {
    /// A literal, as it is written in the call or as a default.
    Literal(String),
    /// Another expression of the call, by its bytes.
    Expression((u32, u32)),
}

pub(super) struct UnitArgument<'a> {
    pub(super) expr: &'a Expr,
    pub(super) value: UnitValue,
}

/// The value of an argument.
#[derive(Clone)]
pub(super) enum UnitValue {
    /// An argument of a helper, or an operand of a member, by its index.
    One(ValueId, Option<(usize, usize)>),
    /// The operands that a list or tuple is made of.
    List(Vec<UnitValue>),
}

impl<'a> SegmentBuilder<'a, '_> {
    /// Finds the places of all calls, in evaluation order.
    pub(super) fn units(&self) -> Result<Vec<SiteUnit<'a>>, String> {
        let mut units: Vec<SiteUnit<'a>> = Vec::new();
        for member in 0..self.calls.len() {
            if units.iter().any(|unit| unit.members.contains(&member)) {
                continue;
            }
            let call = self.call(member);
            let unit = match call.inlined_at.first() {
                None => self.op_unit(member)?,
                Some(&outermost) => {
                    let inlined = self.interpreter.timeline.inlined.iter();
                    let mut found = inlined.filter(|each| each.span == outermost && each.inlined_at.is_empty());
                    let helper = found.next().filter(|_| found.next().is_none());
                    let helper = helper.ok_or("it is in a helper function that runs several times")?;
                    self.helper_unit(helper)?
                }
            };
            units.push(unit);
        }
        Ok(units)
    }

    fn own_call(&self, range: TextRange) -> Result<&'a OwnCall<'a>, String> {
        self.own.calls.get(&range).ok_or_else(|| {
            "it is inside of a comprehension, a lambda, a class, a nested function or an f-string".to_owned()
        })
    }

    fn op_unit(&self, member: usize) -> Result<SiteUnit<'a>, String> {
        let call = self.call(member);
        let range = TextRange::new(call.span.start.into(), call.span.end.into());
        let is_again = |other: &&crate::capture::timeline::CallEvent| {
            other.span == call.span && other.inlined_at.is_empty() && other.at != call.at
        };
        if self.interpreter.timeline.calls.iter().any(|other| is_again(&other)) {
            return Err("it is evaluated on several ways through the function".to_owned());
        }
        let own = self.own_call(range)?;
        let arguments = site_arguments(own.expr, call.path.starts_with("ndarray."));
        let arguments = arguments.filter(|arguments| arguments.len() == call.arguments.len());
        let arguments = arguments.ok_or("it takes arguments by `*` or `**`")?;
        let expressions = FxHashMap::from_iter([(member, arguments.iter().map(|(_, expr)| *expr).collect())]);
        let arguments = arguments.into_iter().zip(&call.arguments);
        Ok(SiteUnit {
            range,
            members: vec![member],
            results: vec![member],
            is_tuple: false,
            parent: own.parent.clone(),
            is_protected: own.is_protected,
            arguments: arguments
                .map(|((_, expr), (_, tree))| UnitArgument { expr, value: self.unit_value(member, tree) })
                .collect(),
            helper: None,
            expressions,
            parameters: FxHashMap::default(),
        })
    }

    /// The call of a helper that calls ops of the group and does nothing else.
    fn helper_unit(&self, helper: &'a InlinedCallEvent) -> Result<SiteUnit<'a>, String> {
        let range = TextRange::new(helper.span.start.into(), helper.span.end.into());
        let own = self.own_call(range)?;
        let other = || self.mixed_helper(helper, None);
        let timeline = &self.interpreter.timeline;
        let mut members = Vec::new();
        for index in helper.events.clone() {
            let event = timeline.events.get(index as usize).ok_or_else(other)?;
            let EventKind::Op(call) = event.kind else { return Err(self.mixed_helper(helper, Some(event.span))) };
            members.push(self.calls.iter().position(|&each| each == call).ok_or_else(other)?);
        }
        let values = helper.elements.as_deref().unwrap_or(std::slice::from_ref(&helper.result));
        let results = values.iter().map(|&value| {
            let call = match self.interpreter.table.objects_of(value)[..] {
                [only] => self.grouper.source_call(only),
                _ => None,
            };
            let result = self.calls.iter().position(|&each| Some(each) == call);
            result.filter(|result| members.contains(result))
        });
        let results = results.collect::<Option<Vec<usize>>>().filter(|results| !results.is_empty());
        let results = results.ok_or_else(|| {
            format!("it is in {}, which returns something else than results of its calls", self.name_of(helper))
        })?;
        let mut expressions = FxHashMap::default();
        let mut at = 0;
        self.check_pure_helper(helper, &members, &mut at, &mut expressions).map_err(|part| {
            let unit = match helper.source {
                FunctionSource::Definition { unit, .. } | FunctionSource::Lambda { unit, .. } => unit,
            };
            let file = self.interpreter.units.get(unit).map(|(_, file)| *file);
            let span = part.zip(file).map(|(range, file)| Span {
                file,
                start: range.start().to_u32(),
                end: range.end().to_u32(),
            });
            self.mixed_helper(helper, span)
        })?;
        if at != members.len() {
            return Err(other());
        }
        let arguments = site_arguments(own.expr, false).ok_or("its helper function takes arguments by `*` or `**`")?;
        let values = helper.positional.iter().copied().chain(helper.keywords.iter().map(|(_, value)| *value));
        let values: Vec<ValueId> = values.collect();
        if values.len() != arguments.len() {
            return Err(other());
        }
        let parameters = self.parameter_values(helper, &arguments);
        let arguments = arguments.into_iter().zip(values);
        Ok(SiteUnit {
            range,
            members,
            results,
            is_tuple: helper.elements.is_some(),
            parent: own.parent.clone(),
            is_protected: own.is_protected,
            arguments: arguments
                .map(|((_, expr), value)| UnitArgument { expr, value: UnitValue::One(value, None) })
                .collect(),
            helper: Some(helper),
            expressions,
            parameters,
        })
    }

    /// Returns the arguments of the parameters that a helper does not bind again.
    fn parameter_values(
        &self,
        helper: &InlinedCallEvent,
        arguments: &[(Option<&str>, &Expr)],
    ) -> FxHashMap<String, ParameterValue> {
        let mut values = FxHashMap::default();
        let FunctionSource::Definition { unit, start } = helper.source else { return values };
        let (Some((source, _)), Some((own, _))) = (self.interpreter.units.get(unit), self.interpreter.units.first())
        else {
            return values;
        };
        let Some(def) = source.definition_at(start) else { return values };
        let bound = crate::capture::scope::ScopeBindings::of_body(&def.body).locals;
        let positional = def.parameters.posonlyargs.iter().chain(&def.parameters.args);
        let by_place: Vec<&str> = positional.map(|each| each.parameter.name.as_str()).collect();
        let all = def.parameters.posonlyargs.iter().chain(&def.parameters.args).chain(&def.parameters.kwonlyargs);
        for parameter in all {
            let name = parameter.parameter.name.as_str();
            let place = by_place.iter().position(|each| *each == name);
            let given = arguments.iter().enumerate().find(|(index, (keyword, _))| match keyword {
                Some(keyword) => *keyword == name,
                None => place == Some(*index),
            });
            let value = match (given, parameter.default.as_deref()) {
                (Some((_, (_, expr))), _) if is_literal(expr) => {
                    ParameterValue::Literal(own.text(expr.range()).to_owned())
                }
                (Some((_, (_, expr))), _) => ParameterValue::Expression(bytes(expr)),
                (None, Some(default)) if is_literal(default) => {
                    ParameterValue::Literal(source.text(default.range()).to_owned())
                }
                _ => continue,
            };
            if !bound.contains(name) {
                values.insert(name.to_owned(), value);
            }
        }
        values
    }

    /// Says that a helper does not only call ops, and what else it does if that is known.
    fn name_of(&self, helper: &InlinedCallEvent) -> String {
        let units = &self.interpreter.units;
        let name = match helper.source {
            FunctionSource::Definition { unit, start } => {
                units.get(unit).and_then(|(source, _)| source.definition_at(start)).map(|def| def.name.as_str())
            }
            FunctionSource::Lambda { .. } => None,
        };
        name.map_or_else(|| "a helper function".to_owned(), |name| format!("the helper function `{name}`"))
    }

    fn mixed_helper(&self, helper: &InlinedCallEvent, part: Option<Span>) -> String {
        let units = &self.interpreter.units;
        let part = part.and_then(|span| {
            let (source, _) = units.iter().find(|(_, file)| *file == span.file)?;
            let text = source.text(TextRange::new(span.start.into(), span.end.into()));
            let is_short = !text.is_empty() && text.len() <= MAX_QUOTE && !text.contains('\n');
            is_short.then(|| format!(": `{text}`"))
        });
        format!("it is in {}, which does something else, too{}", self.name_of(helper), part.unwrap_or_default())
    }

    /// Checks that the body of a helper assigns results of ops to names and returns one, and nothing else. The error is
    /// the part that does something else, if it is one. `at` counts the members that have been found in its text.
    fn check_pure_helper(
        &self,
        helper: &InlinedCallEvent,
        members: &[usize],
        at: &mut usize,
        expressions: &mut FxHashMap<usize, Vec<&'a Expr>>,
    ) -> Result<(), Option<TextRange>> {
        let FunctionSource::Definition { unit, start } = helper.source else { return Err(None) };
        if !helper.is_free {
            return Err(None);
        }
        let (source, _) = self.interpreter.units.get(unit).ok_or(None)?;
        let def = source.definition_at(start).ok_or(None)?;
        let names = crate::capture::scope::ScopeBindings::of_function(&def.parameters, &def.body);
        if !names.globals.is_empty() || !names.nonlocals.is_empty() {
            return Err(None);
        }
        let n_statements = def.body.len();
        for (index, stmt) in def.body.iter().enumerate() {
            let value = match stmt {
                Stmt::Expr(each) if each.value.is_string_literal_expr() => continue,
                Stmt::Assign(assign) if assign.targets.iter().all(Expr::is_name_expr) => Some(&*assign.value),
                Stmt::AnnAssign(assign) if assign.target.is_name_expr() => assign.value.as_deref(),
                Stmt::Return(each) if index + 1 == n_statements => each.value.as_deref(),
                _ => None,
            };
            let value = value.ok_or(Some(stmt.range()))?;
            self.check_pure(value, members, at, expressions).map_err(Some)?;
        }
        Ok(())
    }

    /// Checks that an expression of a helper is made of calls of members, names and literals. The error is the part that is
    /// something else.
    fn check_pure(
        &self,
        expr: &'a Expr,
        members: &[usize],
        at: &mut usize,
        expressions: &mut FxHashMap<usize, Vec<&'a Expr>>,
    ) -> Result<(), TextRange> {
        match expr {
            Expr::Name(_) => return Ok(()),
            Expr::List(ast::ExprList { elts, .. }) | Expr::Tuple(ast::ExprTuple { elts, .. }) => {
                return elts.iter().try_for_each(|element| self.check_pure(element, members, at, expressions));
            }
            _ if is_literal(expr) => return Ok(()),
            _ => {}
        }
        let other = expr.range();
        let is_here = |member: &&usize| {
            let made = self.call(**member);
            made.inlined_at.len() == 1 && (made.span.start, made.span.end) == bytes(expr)
        };
        let &member = members.iter().find(is_here).ok_or(other)?;
        let is_method = self.call(member).path.starts_with("ndarray.");
        if let Expr::Call(call) = expr
            && !(is_method || call.func.is_name_expr() || is_dotted(&call.func))
        {
            return Err(other);
        }
        let arguments = site_arguments(expr, is_method).ok_or(other)?;
        arguments.iter().try_for_each(|(_, argument)| self.check_pure(argument, members, at, expressions))?;
        // Members come in evaluation order, arguments before calls.
        if members.get(*at) != Some(&member) {
            return Err(other);
        }
        *at += 1;
        expressions.insert(member, arguments.into_iter().map(|(_, argument)| argument).collect());
        let n_arguments = expressions.get(&member).map_or(0, Vec::len);
        if self.call(member).arguments.len() == n_arguments { Ok(()) } else { Err(other) }
    }

    /// True if an argument need not be evaluated where the group has run: it is a name, a literal, or a member of a module.
    pub(super) fn is_skippable(&self, expr: &Expr, value: &UnitValue) -> bool {
        match expr {
            Expr::Name(_) => true,
            Expr::List(ast::ExprList { elts, .. }) | Expr::Tuple(ast::ExprTuple { elts, .. }) => {
                let parts = parts_of(value, elts.len());
                elts.iter().zip(parts).all(|(element, part)| part.is_some_and(|part| self.is_skippable(element, &part)))
            }
            _ if is_literal(expr) => true,
            _ if is_dotted(expr) => matches!(value, UnitValue::One(value, _) if self.is_fixed(*value)),
            _ => false,
        }
    }

    fn unit_value(&self, member: usize, tree: &OperandTree) -> UnitValue {
        match tree {
            OperandTree::One(index) => UnitValue::One(self.call(member).operands[*index].value, Some((member, *index))),
            OperandTree::List(parts) => {
                UnitValue::List(parts.iter().map(|part| self.unit_value(member, part)).collect())
            }
        }
    }

    /// True if a value is a member of a module.
    pub(super) fn is_fixed(&self, value: ValueId) -> bool {
        let table = &self.interpreter.table;
        table.objects_of(value).iter().all(|&id| matches!(table.kind(id), ObjectKind::Path(_)))
    }
}

/// Returns the values of the elements of a list or tuple of `n` elements.
fn parts_of(value: &UnitValue, n: usize) -> Vec<Option<UnitValue>> {
    match value {
        UnitValue::List(parts) if parts.len() == n => parts.iter().cloned().map(Some).collect(),
        _ => vec![None; n],
    }
}

/// Returns the arguments of a unit, elements of lists and tuples one by one where their values are known.
pub(super) fn leaves<'a>(unit: &SiteUnit<'a>) -> Vec<UnitArgument<'a>> {
    let mut leaves = Vec::new();
    unit.arguments.iter().for_each(|argument| add_leaves(argument.expr, &argument.value, &mut leaves));
    leaves
}

fn add_leaves<'a>(expr: &'a Expr, value: &UnitValue, leaves: &mut Vec<UnitArgument<'a>>) {
    match (expr, value) {
        (Expr::List(ast::ExprList { elts, .. }) | Expr::Tuple(ast::ExprTuple { elts, .. }), UnitValue::List(parts))
            if elts.len() == parts.len() && !elts.iter().any(Expr::is_starred_expr) =>
        {
            elts.iter().zip(parts).for_each(|(element, part)| add_leaves(element, part, leaves));
        }
        _ => leaves.push(UnitArgument { expr, value: value.clone() }),
    }
}
