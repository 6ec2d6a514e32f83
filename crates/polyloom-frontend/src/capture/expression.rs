//! Expressions: what each reads, makes and runs, in Python's evaluation order.

use super::element::element_key;
use super::interpreter::CaptureInterpreter;
use super::object::{CONSTANT, ContainerKind, EXTERNAL, ObjectId, ObjectKind, ObjectSet, PLAIN, ValueId, normalise};
use super::plain::PlainUse;
use super::timeline::EventKind;
use ruff_python_ast::{self as ast, CmpOp, Expr, InterpolatedStringElement, Operator};
use ruff_text_size::{Ranged, TextRange};

impl CaptureInterpreter<'_> {
    /// Evaluates an expression.
    pub(crate) fn eval(&mut self, expr: &Expr) -> ValueId {
        let value = if self.enter() { self.visit_expression(expr) } else { CONSTANT };
        self.leave();
        value
    }

    fn visit_expression(&mut self, expr: &Expr) -> ValueId {
        let range = expr.range();
        match expr {
            Expr::NumberLiteral(_)
            | Expr::StringLiteral(_)
            | Expr::BytesLiteral(_)
            | Expr::BooleanLiteral(_)
            | Expr::NoneLiteral(_)
            | Expr::EllipsisLiteral(_) => CONSTANT,
            Expr::Name(name) => self.load_at(&name.id, range),
            Expr::BinOp(_) => self.binary(expr),
            Expr::UnaryOp(unary) => {
                let operand = self.eval(&unary.operand);
                if unary.op == ast::UnaryOp::Not {
                    self.read(range, &[operand]);
                    return self.plain();
                }
                if self.table.value(operand).is_constant {
                    return operand;
                }
                let applied = super::numpy_call::unary_name(unary.op)
                    .and_then(|name| self.numpy_operator(range, name, &[operand]));
                if let Some(made) = applied {
                    return made;
                }
                self.compute(range, &[operand])
            }
            Expr::BoolOp(each) => self.bool_op(each),
            Expr::Compare(compare) => self.compare(compare),
            Expr::If(each) => {
                self.test(&each.test);
                let before = self.state.clone();
                let first = self.in_block(|this| this.eval(&each.body));
                let after = std::mem::replace(&mut self.state, before);
                let second = self.in_block(|this| this.eval(&each.orelse));
                let other = std::mem::take(&mut self.state);
                self.state = self.join_states(after, other);
                self.join_values(first, second)
            }
            Expr::Named(named) => {
                let value = self.eval(&named.value);
                if let Expr::Name(name) = &*named.target {
                    // It belongs to the innermost scope that is no comprehension's.
                    self.bind(&name.id, value);
                }
                value
            }
            Expr::Lambda(lambda) => self.lambda(lambda),
            Expr::Tuple(tuple) => self.display(range, ContainerKind::Tuple, &tuple.elts),
            Expr::List(list) => self.display(range, ContainerKind::List, &list.elts),
            Expr::Set(set) => self.display(range, ContainerKind::Set, &set.elts),
            Expr::Dict(dict) => self.dict(dict),
            Expr::ListComp(each) => self.comprehension(range, ContainerKind::List, &each.generators, &[&each.elt]),
            Expr::SetComp(each) => self.comprehension(range, ContainerKind::Set, &each.generators, &[&each.elt]),
            Expr::DictComp(each) => {
                let elements: Vec<&Expr> = each.key.iter().map(|key| &**key).chain([&*each.value]).collect();
                self.comprehension(range, ContainerKind::Dict, &each.generators, &elements)
            }
            Expr::Generator(generator) => self.generator(generator),
            Expr::Call(call) => self.call(call),
            Expr::Attribute(attribute) => {
                let object = self.eval(&attribute.value);
                match self.load_numpy_attribute(range, object, &attribute.attr) {
                    Some(made) => made,
                    None => self.load_attribute(range, object, &attribute.attr),
                }
            }
            Expr::Subscript(subscript) => {
                let container = self.eval(&subscript.value);
                let index = self.eval(&subscript.slice);
                if let Some(made) = self.load_numpy_element(range, container, &subscript.slice) {
                    return made;
                }
                let element = self.load_element(range, container, &subscript.slice, index);
                if super::numpy_call::is_slicing(&subscript.slice) {
                    self.note_array_like(element, &[container]);
                }
                element
            }
            Expr::Slice(slice) => {
                let parts = [&slice.lower, &slice.upper, &slice.step];
                let values: Vec<ValueId> = parts.into_iter().flatten().map(|part| self.eval(part)).collect();
                match values.iter().all(|&value| self.table.value(value).is_constant) {
                    true => CONSTANT,
                    false => self.plain(),
                }
            }
            Expr::FString(string) => {
                let elements: Vec<&InterpolatedStringElement> = string.value.elements().collect();
                self.interpolate(range, &elements, 0)
            }
            Expr::TString(string) => {
                // A template holds the values themselves.
                let elements: Vec<&InterpolatedStringElement> = string.value.elements().collect();
                let expressions = elements.iter().filter_map(|element| element.as_interpolation());
                let values: Vec<ValueId> = expressions.map(|each| self.eval(&each.expression)).collect();
                self.container(range, 6, ContainerKind::Tuple, &values)
            }
            Expr::Await(each) => {
                let value = self.eval(&each.value);
                self.suspend(range, value)
            }
            Expr::Yield(each) => {
                let value = each.value.as_ref().map_or(CONSTANT, |value| self.eval(value));
                self.suspend(range, value)
            }
            Expr::YieldFrom(each) => {
                let value = self.eval(&each.value);
                self.suspend(range, value)
            }
            Expr::Starred(starred) => {
                let value = self.eval(&starred.value);
                self.iterate(range, value)
            }
            Expr::IpyEscapeCommand(_) => self.external(),
        }
    }

    fn suspend(&mut self, range: TextRange, value: ValueId) -> ValueId {
        let objects = self.table.objects_of(value);
        self.run_unknown_code(range, EventKind::Suspend, &objects);
        self.external()
    }

    /// Makes a container of values, whose elements are then not told apart.
    pub(crate) fn container(&mut self, range: TextRange, tag: u32, kind: ContainerKind, values: &[ValueId]) -> ValueId {
        let object = self.make(range, tag, ObjectKind::Container(kind), None, Vec::new());
        self.heap.remove(&object);
        let mut objects: ObjectSet = values.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        normalise(&mut objects);
        self.add_contents(object, &objects);
        self.value_of(vec![object])
    }

    fn display(&mut self, range: TextRange, kind: ContainerKind, elements: &[Expr]) -> ValueId {
        let mut values = Vec::new();
        let mut is_exact = kind != ContainerKind::Set;
        for element in elements {
            if let Expr::Starred(starred) = element {
                let value = self.eval(&starred.value);
                match self.exact_elements(value) {
                    Some(elements) => values.extend(elements),
                    None => {
                        values.push(self.iterate(starred.range, value));
                        is_exact = false;
                    }
                }
            } else {
                values.push(self.eval(element));
            }
        }
        let container = self.container(range, 0, kind, &values);
        if is_exact && let &[object] = &self.table.objects_of(container)[..] {
            self.fill_exactly(object, values.into_iter());
        }
        container
    }

    fn dict(&mut self, dict: &ast::ExprDict) -> ValueId {
        let mut exact = Some(Vec::new());
        let mut values = Vec::new();
        for item in &dict.items {
            match &item.key {
                Some(key) => {
                    let key_value = self.eval(key);
                    let value = self.eval(&item.value);
                    match (element_key(key), &mut exact) {
                        (Some(key), Some(exact)) if exact.iter().all(|(known, _)| *known != key) => {
                            exact.push((key, value));
                        }
                        _ => exact = None,
                    }
                    values.extend([key_value, value]);
                }
                None => {
                    let value = self.eval(&item.value);
                    values.push(self.iterate(item.value.range(), value));
                    exact = None;
                }
            }
        }
        let container = self.container(dict.range, 0, ContainerKind::Dict, &values);
        if let (Some(exact), &[object]) = (exact, &self.table.objects_of(container)[..]) {
            self.fill_with_keys(object, exact);
        }
        container
    }

    fn interpolate(&mut self, range: TextRange, elements: &[&InterpolatedStringElement], level: usize) -> ValueId {
        let mut sources = ObjectSet::new();
        for element in elements.iter().filter_map(|element| element.as_interpolation()) {
            let value = self.eval(&element.expression);
            if let Some(format) = element.format_spec.as_ref().filter(|_| level < 4) {
                let parts: Vec<&InterpolatedStringElement> = format.elements.iter().collect();
                self.interpolate(range, &parts, level + 1);
            }
            self.read(element.range, &[value]);
            sources.extend(self.table.sources(&self.table.objects_of(value)));
        }
        self.text(range, sources)
    }

    /// Returns a number or text that Python computes, of which it is known what from.
    pub(crate) fn text(&mut self, range: TextRange, sources: ObjectSet) -> ValueId {
        if sources.is_empty() {
            return self.plain();
        }
        let object = self.make(range, 7, ObjectKind::Computed, None, sources);
        self.value_of(vec![object])
    }

    /// Evaluates operators, those in a row one by one and not one inside of the other.
    fn binary(&mut self, expr: &Expr) -> ValueId {
        let mut chain: Vec<&ast::ExprBinOp> = Vec::new();
        let mut at = expr;
        while let Expr::BinOp(binary) = at {
            chain.push(binary);
            at = &binary.left;
        }
        let mut left = self.eval(at);
        for binary in chain.into_iter().rev() {
            let right = self.eval(&binary.right);
            let is_constant = self.table.value(left).is_constant && self.table.value(right).is_constant;
            let is_folded = matches!(binary.op, Operator::Add | Operator::Sub | Operator::Mult);
            let are_plain = [left, right].iter().all(|&value| self.table.objects_of(value)[..] == [PLAIN]);
            let applied = super::numpy_call::binary_name(binary.op)
                .filter(|_| !are_plain)
                .and_then(|name| self.numpy_operator(binary.range, name, &[left, right]));
            left = match (is_constant && is_folded && are_plain, are_plain) {
                (true, _) => CONSTANT,
                (_, true) => self.plain(),
                _ if applied.is_some() => applied.unwrap_or(CONSTANT),
                _ => self.compute(binary.range, &[left, right]),
            };
        }
        left
    }

    /// Applies an operator that makes a new value.
    fn compute(&mut self, range: TextRange, operands: &[ValueId]) -> ValueId {
        let objects: ObjectSet = operands.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        if objects.iter().all(|&object| object == PLAIN) {
            return self.plain();
        }
        let is_container = |id: &&ObjectId| matches!(self.table.present_kind(**id), ObjectKind::Container(_));
        let containers: ObjectSet = objects.iter().filter(is_container).copied().collect();
        let sources = self.table.sources(&objects);
        let all_containers = objects.iter().all(|id| *id == PLAIN || containers.contains(id));
        if !all_containers {
            if self.run_unless_plain(range, operands, PlainUse::Operator) {
                return self.unknown_result(range, operands);
            }
            self.read(range, operands);
        }
        if containers.is_empty() {
            let object = self.make(range, 0, ObjectKind::Computed, None, sources);
            return self.value_of(vec![object]);
        }
        // `[x] + [y]` and `[x] * 3` hold what their operands hold.
        let mut added: ObjectSet = containers.iter().flat_map(|&id| self.contents(id)).collect();
        if objects.contains(&EXTERNAL) {
            added.push(EXTERNAL);
        }
        normalise(&mut added);
        let list = self.make(range, 0, ObjectKind::Container(ContainerKind::List), None, Vec::new());
        self.heap.remove(&list);
        self.add_contents(list, &added);
        let mut made = vec![list];
        if !all_containers {
            made.push(self.make(range, 1, ObjectKind::Computed, None, sources));
            normalise(&mut made);
        }
        self.value_of(made)
    }

    fn bool_op(&mut self, each: &ast::ExprBoolOp) -> ValueId {
        let mut result = None;
        let mut ends = Vec::new();
        let outer = self.block;
        for (index, operand) in each.values.iter().enumerate() {
            if index > 0 {
                self.block = self.new_block();
            }
            let value = self.eval(operand);
            result = Some(match result {
                Some(result) => self.join_values(result, value),
                None => value,
            });
            if index + 1 < each.values.len() {
                self.read(operand.range(), &[value]);
            }
            ends.push(self.state.clone());
        }
        self.block = outer;
        for end in ends {
            let state = std::mem::take(&mut self.state);
            self.state = self.join_states(state, end);
        }
        result.unwrap_or(CONSTANT)
    }

    fn compare(&mut self, compare: &ast::ExprCompare) -> ValueId {
        let mut left = self.eval(&compare.left);
        let mut operands = vec![left];
        let outer = self.block;
        let mut ends = Vec::new();
        let mut reads_contents = false;
        for (index, (op, comparator)) in compare.ops.iter().zip(&compare.comparators).enumerate() {
            if index > 0 {
                self.block = self.new_block();
            }
            let right = self.eval(comparator);
            operands.push(right);
            if let ([_], Some(name)) = (&compare.ops[..], super::numpy_call::comparison_name(*op))
                && let Some(made) = self.numpy_operator(compare.range, name, &[left, right])
            {
                return made;
            }
            // `is` looks at the references alone.
            if !matches!(op, CmpOp::Is | CmpOp::IsNot) {
                self.read(compare.range, &[left, right]);
                reads_contents = true;
            }
            left = right;
            ends.push(self.state.clone());
        }
        self.block = outer;
        for end in ends {
            let state = std::mem::take(&mut self.state);
            self.state = self.join_states(state, end);
        }
        if !reads_contents {
            return self.plain();
        }
        let objects: ObjectSet = operands.iter().flat_map(|&value| self.table.objects_of(value).to_vec()).collect();
        let sources = self.table.sources(&objects);
        self.text(compare.range, sources)
    }

    /// Evaluates a condition.
    pub(crate) fn test(&mut self, expr: &Expr) -> ValueId {
        let value = self.eval(expr);
        if self.table.objects_of(value)[..] != [PLAIN] {
            self.read(expr.range(), &[value]);
        }
        value
    }
}
