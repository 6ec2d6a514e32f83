//! Places of a group: calls of ops in the function's own text, and calls of helpers that do nothing but call such.

use super::own_text::{OwnCall, SiteParent, bytes, is_dotted, is_literal, site_arguments};
use super::segment::SegmentBuilder;
use crate::capture::object::{FunctionSource, ObjectKind, ValueId};
use crate::capture::timeline::{EventKind, InlinedCallEvent, OperandTree};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashMap;

/// A call expression in the function's own text that evaluates members of a group.
pub(super) struct SiteUnit<'a> {
    pub(super) range: TextRange,
    /// The members that it evaluates, ascending.
    pub(super) members: Vec<usize>,
    /// The member whose result is its value.
    pub(super) result: usize,
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
            result: member,
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
        let other = || "it is in a helper function that does something else, too".to_owned();
        let timeline = &self.interpreter.timeline;
        let mut members = Vec::new();
        for index in helper.events.clone() {
            let event = timeline.events.get(index as usize).ok_or_else(other)?;
            let EventKind::Op(call) = event.kind else { return Err(other()) };
            members.push(self.calls.iter().position(|&each| each == call).ok_or_else(other)?);
        }
        let objects = self.interpreter.table.objects_of(helper.result);
        let result = match objects[..] {
            [only] => self.grouper.source_call(only),
            _ => None,
        };
        let result = result.and_then(|call| self.calls.iter().position(|&each| each == call));
        let result = result.filter(|result| members.contains(result)).ok_or_else(other)?;
        let mut expressions = FxHashMap::default();
        let mut at = 0;
        if !self.is_pure_helper(helper, &members, &mut at, &mut expressions) || at != members.len() {
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
            result,
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

    /// True if the body of a helper assigns results of ops to names and returns one, and nothing else. `at` counts the
    /// members that have been found in its text.
    fn is_pure_helper(
        &self,
        helper: &InlinedCallEvent,
        members: &[usize],
        at: &mut usize,
        expressions: &mut FxHashMap<usize, Vec<&'a Expr>>,
    ) -> bool {
        let FunctionSource::Definition { unit, start } = helper.source else { return false };
        if !helper.is_free {
            return false;
        }
        let Some((source, _)) = self.interpreter.units.get(unit) else { return false };
        let Some(def) = source.definition_at(start) else { return false };
        let names = crate::capture::scope::ScopeBindings::of_function(&def.parameters, &def.body);
        if !names.globals.is_empty() || !names.nonlocals.is_empty() {
            return false;
        }
        let n_statements = def.body.len();
        def.body.iter().enumerate().all(|(index, stmt)| match stmt {
            Stmt::Expr(each) => each.value.is_string_literal_expr(),
            Stmt::Assign(assign) => {
                assign.targets.iter().all(Expr::is_name_expr) && self.is_pure(&assign.value, members, at, expressions)
            }
            Stmt::AnnAssign(assign) => {
                let is_pure = |value: &'a Expr| self.is_pure(value, members, at, expressions);
                assign.target.is_name_expr() && assign.value.as_deref().is_some_and(is_pure)
            }
            Stmt::Return(each) => {
                let is_last = index + 1 == n_statements;
                is_last && each.value.as_deref().is_some_and(|value| self.is_pure(value, members, at, expressions))
            }
            _ => false,
        })
    }

    fn is_pure(
        &self,
        expr: &'a Expr,
        members: &[usize],
        at: &mut usize,
        expressions: &mut FxHashMap<usize, Vec<&'a Expr>>,
    ) -> bool {
        match expr {
            Expr::Name(_) => true,
            Expr::List(ast::ExprList { elts, .. }) | Expr::Tuple(ast::ExprTuple { elts, .. }) => {
                elts.iter().all(|element| self.is_pure(element, members, at, expressions))
            }
            _ if is_literal(expr) => true,
            _ => {
                let is_here = |member: &&usize| {
                    let made = self.call(**member);
                    made.inlined_at.len() == 1 && (made.span.start, made.span.end) == bytes(expr)
                };
                let Some(&member) = members.iter().find(is_here) else { return false };
                let is_method = self.call(member).path.starts_with("ndarray.");
                if let Expr::Call(call) = expr
                    && !(is_method || call.func.is_name_expr() || is_dotted(&call.func))
                {
                    return false;
                }
                let Some(arguments) = site_arguments(expr, is_method) else { return false };
                if !arguments.iter().all(|(_, argument)| self.is_pure(argument, members, at, expressions)) {
                    return false;
                }
                // Members come in evaluation order, arguments before calls.
                if members.get(*at) != Some(&member) {
                    return false;
                }
                *at += 1;
                expressions.insert(member, arguments.into_iter().map(|(_, argument)| argument).collect());
                self.call(member).arguments.len() == expressions.get(&member).map_or(0, Vec::len)
            }
        }
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
