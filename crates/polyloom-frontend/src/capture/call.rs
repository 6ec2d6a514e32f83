//! Calls: of ops, of known functions and methods, and of code that is not known.

use super::environment::TensorOpFacts;
use super::interpreter::CaptureInterpreter;
use super::object::{
    AbstractValue, CONSTANT, ContainerKind, EXTERNAL, ObjectId, ObjectKind, ObjectSet, ValueId, normalise, union,
};
use super::timeline::{CallEvent, EventKind, OperandEvent, OperandTree};
use ruff_python_ast::{self as ast, Expr};
use ruff_text_size::{Ranged, TextRange};
use std::rc::Rc;
use std::sync::Arc;

/// The evaluated arguments of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallArguments {
    /// The positional ones, in order.
    pub(crate) positional: Vec<ValueId>,
    pub(crate) keywords: Vec<(String, ValueId)>,
    /// The values that `*` and `**` add in unknown number or under unknown names.
    pub(crate) rest: Vec<ValueId>,
    /// True if `**` is among that.
    pub(crate) has_unknown_keywords: bool,
}

impl CallArguments {
    pub(crate) fn values(&self) -> Vec<ValueId> {
        let named = self.keywords.iter().map(|(_, value)| *value);
        self.positional.iter().copied().chain(named).chain(self.rest.iter().copied()).collect()
    }

    pub(crate) fn keyword(&self, name: &str) -> Option<ValueId> {
        self.keywords.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

impl CaptureInterpreter<'_> {
    pub(crate) fn call(&mut self, call: &ast::ExprCall) -> ValueId {
        let range = call.range();
        if let Expr::Attribute(attribute) = &*call.func {
            let receiver = self.eval(&attribute.value);
            // A path, or an attribute of what is not known, is looked up before the arguments are evaluated.
            let callee = self.load_attribute_for_call(attribute, receiver);
            let arguments = self.arguments(&call.arguments);
            return match callee {
                Some(callee) => self.dispatch(range, callee, &arguments),
                None => self.call_method(range, receiver, &attribute.attr, &arguments),
            };
        }
        let callee = self.eval(&call.func);
        if let Some(value) = self.consume_generator(call, callee) {
            return value;
        }
        let arguments = self.arguments(&call.arguments);
        self.dispatch(range, callee, &arguments)
    }

    /// Loads the attribute that is called, unless it is a method of a value.
    fn load_attribute_for_call(&mut self, attribute: &ast::ExprAttribute, receiver: ValueId) -> Option<ValueId> {
        let objects = self.table.objects_of(receiver);
        let is_path = objects.iter().all(|&id| matches!(self.table.kind(id), ObjectKind::Path(_)));
        is_path.then(|| self.load_attribute(attribute.range, receiver, &attribute.attr))
    }

    pub(crate) fn arguments(&mut self, arguments: &ast::Arguments) -> CallArguments {
        let mut evaluated = CallArguments::default();
        for argument in &arguments.args {
            if let Expr::Starred(starred) = argument {
                let value = self.eval(&starred.value);
                match self.exact_elements(value) {
                    Some(elements) if evaluated.rest.is_empty() => evaluated.positional.extend(elements),
                    _ => {
                        let elements = self.iterate(starred.range, value);
                        evaluated.rest.push(elements);
                    }
                }
            } else {
                let value = self.eval(argument);
                match evaluated.rest.is_empty() {
                    true => evaluated.positional.push(value),
                    // Its position is not known.
                    false => evaluated.rest.push(value),
                }
            }
        }
        for keyword in &arguments.keywords {
            let value = self.eval(&keyword.value);
            match &keyword.arg {
                Some(name) => evaluated.keywords.push((name.to_string(), value)),
                None => match self.exact_keywords(value) {
                    Some(keywords) => evaluated.keywords.extend(keywords),
                    None => {
                        let objects = self.table.objects_of(value);
                        let elements = self.element_objects(keyword.range, &objects);
                        let elements = self.value_of(elements);
                        evaluated.rest.push(elements);
                        evaluated.has_unknown_keywords = true;
                    }
                },
            }
        }
        evaluated
    }

    /// Returns the items of a dict whose keys are all known texts.
    fn exact_keywords(&self, value: ValueId) -> Option<Vec<(String, ValueId)>> {
        let objects = self.table.objects_of(value);
        let &[only] = &objects[..] else { return None };
        let ObjectKind::Container(ContainerKind::Dict) = self.table.kind(only) else { return None };
        let exact = self.heap.get(&only)?.exact.as_ref()?;
        let item = |(key, value): &(super::object::ElementKey, ValueId)| match key {
            super::object::ElementKey::Text(text) => Some((text.clone(), *value)),
            super::object::ElementKey::Index(_) => None,
        };
        exact.iter().map(item).collect()
    }

    /// Calls a value.
    pub(crate) fn dispatch(&mut self, range: TextRange, callee: ValueId, arguments: &CallArguments) -> ValueId {
        let objects = self.table.objects_of(callee);
        let &[only] = &objects[..] else { return self.call_unknown(range, callee, arguments) };
        match self.table.kind(only).clone() {
            ObjectKind::Path(path) => match self.catalogue.op(&path) {
                Some(facts) => self.call_op(range, &path, facts, arguments),
                None if self.numpy.is_some() => match self.call_numpy_function(range, callee, &path, arguments) {
                    Some(made) => made,
                    None => self.call_library(range, callee, &path, arguments),
                },
                None => self.call_library(range, callee, &path, arguments),
            },
            ObjectKind::Builtin(name) => match self.call_numpy_builtin(range, &name, arguments) {
                Some(made) => made,
                None => self.call_builtin(range, callee, &name, arguments),
            },
            ObjectKind::Function(function) => self.call_function(range, callee, &function, arguments),
            ObjectKind::Method(name) => {
                let receiver = self.contents(only);
                let receiver = self.value_of(receiver);
                self.call_method(range, receiver, &name, arguments)
            }
            _ => self.call_unknown(range, callee, arguments),
        }
    }

    /// Calls a function of a library that is no op.
    fn call_library(&mut self, range: TextRange, callee: ValueId, path: &str, arguments: &CallArguments) -> ValueId {
        let is_pure = super::method::is_pure_function(path, arguments.positional.len())
            && arguments.keyword("out").is_none()
            && arguments.rest.is_empty();
        if !is_pure {
            return self.call_unknown(range, callee, arguments);
        }
        let values = arguments.values();
        self.read(range, &values);
        let sources = self.sources_of(&values);
        self.text(range, sources)
    }

    pub(crate) fn sources_of(&self, values: &[ValueId]) -> ObjectSet {
        let objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        self.table.sources(&self.reach(&objects))
    }

    /// Calls code that is not known: it has all that the arguments and the callee lead to.
    pub(crate) fn call_unknown(&mut self, range: TextRange, callee: ValueId, arguments: &CallArguments) -> ValueId {
        let values = arguments.values();
        let mut objects: ObjectSet = self.table.objects_of(callee).to_vec();
        objects.extend(values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()));
        normalise(&mut objects);
        self.run_unknown_code(range, EventKind::UnknownCode, &objects);
        self.unknown_result(range, &values)
    }

    /// Returns a value from outside, of which it is known what it may have been computed from.
    pub(crate) fn unknown_result(&mut self, range: TextRange, arguments: &[ValueId]) -> ValueId {
        let sources = self.sources_of(arguments);
        if sources.iter().all(|&source| source == EXTERNAL) {
            return self.external();
        }
        let object = self.make(range, 8, ObjectKind::Computed, Some(vec![EXTERNAL]), sources);
        self.value_of(union(&[EXTERNAL], &[object]))
    }

    /// Calls an op.
    pub(crate) fn call_op(
        &mut self,
        range: TextRange,
        path: &Arc<str>,
        facts: TensorOpFacts,
        arguments: &CallArguments,
    ) -> ValueId {
        let out = arguments.keyword("out").filter(|&out| out != CONSTANT);
        let mut operands = Vec::new();
        let mut trees = Vec::new();
        for &value in &arguments.positional {
            trees.push((None, self.add_operands(None, value, &mut operands, 0)));
        }
        for (name, value) in &arguments.keywords {
            let keyword: Arc<str> = name.as_str().into();
            let tree = self.add_operands(Some(keyword.clone()), *value, &mut operands, 0);
            trees.push((Some(keyword), tree));
        }
        let is_known = arguments.rest.is_empty();
        let values = arguments.values();
        let objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        let runs_code = |id: &ObjectId| {
            matches!(
                self.table.present_kind(*id),
                ObjectKind::Function(_) | ObjectKind::Generator(_) | ObjectKind::Method(_)
            )
        };
        let runs_code = !facts.is_pure || self.reach(&objects).iter().any(runs_code);
        let call = self.timeline.calls.len();
        let kind = EventKind::Op(call);
        let reads = self.deep_roots(&values);
        let written = out.is_some() || arguments.has_unknown_keywords;
        let at = if runs_code {
            let at = self.timeline.now();
            self.run_unknown_code(range, kind, &objects);
            at
        } else {
            let writes = match (out, written) {
                (Some(out), _) => self.table.roots(&self.table.objects_of(out)),
                (None, true) => reads.clone(),
                (None, false) => Vec::new(),
            };
            self.record(range, kind, reads, writes)
        };
        let mut results = Vec::new();
        for index in 0..facts.n_results.max(1) {
            let kind = ObjectKind::OpResult { call, index };
            let tag = 32 + u32::try_from(index).unwrap_or(0);
            let result = self.make(range, tag, kind, None, Vec::new());
            if facts.aliases || written {
                let shared = self.deep_roots(&values);
                let roots = union(&[result], &shared);
                if let Some(object) = self.table.objects.get_mut(result as usize) {
                    object.roots = roots;
                }
            }
            results.push(result);
        }
        if runs_code {
            // It may have kept references to them.
            self.escape(&results.clone());
        }
        // The function's own names come first, those of inlined helpers after them.
        let names = self.names_in_reach();
        let n_own_names = self.state.frames.first().map_or(0, |frame| frame.len());
        self.timeline.calls.push(CallEvent {
            op: path.rsplit('.').next().unwrap_or(path).into(),
            label: op_label(path),
            parameters: Vec::new(),
            index: None,
            path: path.clone(),
            at,
            block: self.block,
            operands,
            arguments: trees,
            results: results.clone(),
            is_fusable: !runs_code && !written && is_known,
            span: self.span(range),
            statement: self.statement,
            inlined_at: self.inlined_at.clone(),
            names,
            n_own_names,
        });
        let values: Vec<ValueId> = results.into_iter().map(|result| self.value_of(vec![result])).collect();
        if let [only] = values[..] {
            return match out {
                // It returns the array that it was given.
                Some(out) => self.join_values(only, out),
                None => only,
            };
        }
        let tuple = self.make(range, 9, ObjectKind::Container(ContainerKind::Tuple), None, Vec::new());
        self.fill_exactly(tuple, values.into_iter());
        self.value_of(vec![tuple])
    }

    /// Returns the local names that hold values, the function's own first.
    pub(crate) fn names_in_reach(&self) -> Vec<(Rc<str>, ValueId)> {
        let mut names: Vec<(Rc<str>, ValueId)> = Vec::new();
        for frame in &self.state.frames {
            let start = names.len();
            names.extend(frame.iter().map(|(name, &value)| (Rc::from(name.as_str()), value)));
            names[start..].sort_unstable();
        }
        names
    }

    /// Returns the names of the function itself that hold values.
    pub(crate) fn names_in_reach_of_function(&self) -> Vec<(Rc<str>, ValueId)> {
        let own = self.state.frames.first();
        let mut names: Vec<(Rc<str>, ValueId)> = own
            .into_iter()
            .flat_map(|frame| frame.iter())
            .map(|(name, &value)| (name.as_str().into(), value))
            .collect();
        names.sort_unstable();
        names
    }

    /// Adds a value to the operands of an op, or the elements of a list or tuple of which each is known.
    fn add_operands(
        &self,
        keyword: Option<Arc<str>>,
        value: ValueId,
        operands: &mut Vec<OperandEvent>,
        level: usize,
    ) -> OperandTree {
        let elements = self.exact_elements(value).filter(|_| level < 4);
        let roots = self.deep_roots(&[value]);
        match elements {
            Some(elements) if elements.len() <= super::limits::CaptureLimits::LIST_OPERANDS => {
                let add = |element| self.add_operands(keyword.clone(), element, operands, level + 1);
                OperandTree::List(elements.into_iter().map(add).collect())
            }
            _ => {
                operands.push(OperandEvent { keyword, value, roots });
                OperandTree::One(operands.len() - 1)
            }
        }
    }

    /// Makes a value that a parameter has.
    pub(crate) fn parameter_value(&mut self) -> ValueId {
        let objects = Rc::new(vec![EXTERNAL]);
        self.table.add_value(AbstractValue {
            objects,
            ready: 0,
            is_constant: false,
            is_guarded: true,
            may_be_unbound: false,
        })
    }
}

/// Returns the call of an op as a program writes it, most often; a kernel of the program has its own name.
fn op_label(path: &str) -> Arc<str> {
    let name = path.rsplit('.').next().unwrap_or(path);
    if path.starts_with('<') { name.into() } else { format!("ops.{name}").into() }
}
