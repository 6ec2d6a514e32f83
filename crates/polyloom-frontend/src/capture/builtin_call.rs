//! Calls of Python's own functions.

use super::builtin_table::{BuiltinEffect, effect_of};
use super::call::CallArguments;
use super::interpreter::CaptureInterpreter;
use super::object::{CONSTANT, ContainerKind, ObjectKind, ObjectSet, PLAIN, ValueId, normalise};
use super::plain::PlainUse;
use super::timeline::EventKind;
use ruff_python_ast::{self as ast, Expr};
use ruff_text_size::{Ranged, TextRange};

impl CaptureInterpreter<'_> {
    pub(crate) fn call_builtin(
        &mut self,
        range: TextRange,
        callee: ValueId,
        name: &str,
        arguments: &CallArguments,
    ) -> ValueId {
        let effect = effect_of(name);
        if effect == BuiltinEffect::Dynamic {
            return self.run_dynamic_code(range, &arguments.values());
        }
        // A key, a file or a default is rare enough to be left to the general case.
        let allowed: &[&str] = match name {
            "print" => &["sep", "end", "flush"],
            "enumerate" => &["start"],
            "zip" => &["strict"],
            "sorted" => &["reverse"],
            "sum" => &["start"],
            _ => &[],
        };
        let has_other_keywords = arguments.keywords.iter().any(|(known, _)| !allowed.contains(&known.as_str()));
        let is_dict = name == "dict";
        if effect == BuiltinEffect::Unknown
            || has_other_keywords && !is_dict
            || arguments.has_unknown_keywords
            || self.may_run_code(arguments)
            || name == "iter" && arguments.positional.len() > 1
            || name == "type" && arguments.positional.len() > 1
        {
            return self.call_unknown(range, callee, arguments);
        }
        let values = arguments.values();
        match effect {
            // The functions of a type are called with what they may write.
            BuiltinEffect::Identity
                if matches!(name, "len" | "hasattr") && self.run_unless_plain(range, &values, PlainUse::Operator) =>
            {
                self.external()
            }
            BuiltinEffect::Identity if name == "type" => self.external(),
            BuiltinEffect::Identity => self.plain(),
            BuiltinEffect::Reads => {
                self.read(range, &values);
                let sources = self.sources_of(&values);
                if name == "print" {
                    return CONSTANT;
                }
                self.text(range, sources)
            }
            BuiltinEffect::Range => {
                self.read(range, &values);
                self.container(range, 0, ContainerKind::List, &[CONSTANT])
            }
            BuiltinEffect::Selects => {
                let mut objects = ObjectSet::new();
                for &value in &values {
                    let elements = self.iterate(range, value);
                    objects.extend(self.table.objects_of(elements).iter());
                    objects.extend(self.table.objects_of(value).iter());
                }
                self.read(range, &values);
                let sources = self.sources_of(&values);
                if matches!(name, "all" | "any") {
                    return self.text(range, sources);
                }
                objects.push(self.make(range, 1, ObjectKind::Computed, None, sources));
                objects.push(PLAIN);
                normalise(&mut objects);
                self.value_of(objects)
            }
            BuiltinEffect::Collects(kind) => self.collect(range, kind, name, arguments),
            BuiltinEffect::Dynamic | BuiltinEffect::Unknown => self.call_unknown(range, callee, arguments),
        }
    }

    fn collect(&mut self, range: TextRange, kind: ContainerKind, name: &str, arguments: &CallArguments) -> ValueId {
        if let ([only], "list" | "tuple") = (&arguments.positional[..], name)
            && let Some(elements) = self.exact_elements(*only)
        {
            let object = self.make(range, 0, ObjectKind::Container(kind), None, Vec::new());
            self.fill_exactly(object, elements.into_iter());
            return self.value_of(vec![object]);
        }
        let mut elements: Vec<ValueId> =
            arguments.positional.iter().chain(&arguments.rest).map(|&value| self.iterate(range, value)).collect();
        elements.extend(arguments.keywords.iter().map(|(_, value)| *value));
        if matches!(name, "sorted" | "set" | "frozenset") {
            // They compare their elements.
            self.read(range, &elements);
        }
        if matches!(name, "enumerate" | "zip") {
            elements.push(CONSTANT);
            let tuple = self.container(range, 1, ContainerKind::Tuple, &elements);
            return self.container(range, 0, kind, &[tuple]);
        }
        if name == "dict" {
            // The elements of pairs.
            let pairs = elements.clone();
            elements.extend(
                pairs
                    .into_iter()
                    .map(|pair| {
                        let objects = self.table.objects_of(pair);
                        let inner = self.element_objects(range, &objects);
                        self.value_of(inner)
                    })
                    .collect::<Vec<_>>(),
            );
        }
        self.container(range, 0, kind, &elements)
    }

    /// Runs code that reaches every name of the function.
    fn run_dynamic_code(&mut self, range: TextRange, arguments: &[ValueId]) -> ValueId {
        let named = self.state.frames.iter().flat_map(|names| names.values().copied().collect::<Vec<_>>());
        let values: Vec<ValueId> = named.chain(arguments.iter().copied()).collect();
        let objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        self.run_unknown_code(range, EventKind::Dynamic, &objects);
        self.forget_names(0..self.state.frames.len());
        self.external()
    }

    /// Evaluates a generator that a builtin consumes at once, `sum(f(x) for x in xs)`, as the list that it would be.
    pub(crate) fn consume_generator(&mut self, call: &ast::ExprCall, callee: ValueId) -> Option<ValueId> {
        let [Expr::Generator(generator)] = &call.arguments.args[..] else { return None };
        let objects = self.table.objects_of(callee);
        let &[only] = &objects[..] else { return None };
        let ObjectKind::Builtin(name) = self.table.kind(only).clone() else { return None };
        let consumes = matches!(effect_of(&name), BuiltinEffect::Selects)
            || matches!(&*name, "list" | "tuple" | "set" | "frozenset" | "sorted" | "dict");
        if !consumes || !call.arguments.keywords.is_empty() {
            return None;
        }
        let list = self.comprehension(generator.range, ContainerKind::List, &generator.generators, &[&generator.elt]);
        let arguments = CallArguments { positional: vec![list], ..CallArguments::default() };
        Some(self.call_builtin(call.range(), callee, &name, &arguments))
    }
}
