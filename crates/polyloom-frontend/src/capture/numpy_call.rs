//! NumPy's functions, operators and methods as calls of ops.
//!
//! A form is captured if one operand is certainly an array: the result of a captured call, an array that NumPy makes, or a
//! parameter or global that a guard holds to be exactly a `numpy.ndarray`. Everything else may be a number, and stays
//! Python, so that `k = n * 2` of a number `n` is an input of the group that takes `k`.

use super::call::CallArguments;
use super::environment::TensorOpFacts;
use super::interpreter::CaptureInterpreter;
use super::numpy_table::{NumpyForm, NumpySyntax, forms_of};
use super::object::{ContainerKind, EXTERNAL, ObjectId, ObjectKind, ValueId};
use super::plain::PlainUse;
use super::result::{LeftCall, LeftCause};
use ruff_python_ast::{self as ast, CmpOp, Expr, Operator, UnaryOp};
use ruff_text_size::{Ranged, TextRange};

/// Functions of NumPy that make a new array, whatever they are given.
const CREATORS: [&str; 10] =
    ["arange", "empty", "empty_like", "eye", "full", "linspace", "ones", "ones_like", "zeros", "zeros_like"];

/// Functions of NumPy that make an array of whatever they are given, which may be that itself.
const CONVERSIONS: [&str; 4] = ["array", "asarray", "ascontiguousarray", "asfortranarray"];

/// The keywords of these under which the result is exactly a `numpy.ndarray`.
const CONVERSION_KEYWORDS: [&str; 4] = ["copy", "dtype", "ndmin", "order"];

impl CaptureInterpreter<'_> {
    /// True if a value is certainly an array, or a number of NumPy's.
    pub(crate) fn is_array(&self, value: ValueId) -> bool {
        let objects = self.table.objects_of(value);
        self.numpy.is_some()
            && objects
                .iter()
                .all(|&id| self.is_array_object(id) || id == EXTERNAL && self.array_values.contains(&value))
    }

    fn is_array_object(&self, id: ObjectId) -> bool {
        matches!(self.table.present_kind(id), ObjectKind::OpResult { .. }) || self.array_objects.contains(&id)
    }

    /// Takes a value from outside to be an array, if nothing speaks against that.
    pub(crate) fn note_array(&mut self, value: ValueId) {
        if self.numpy.is_some() {
            self.array_values.insert(value);
        }
    }

    /// Notes that a value is an array if others are.
    pub(crate) fn note_array_like(&mut self, value: ValueId, others: &[ValueId]) {
        if self.numpy.is_some() && others.iter().all(|&other| self.is_array(other)) {
            self.array_values.insert(value);
            let objects = self.table.objects_of(value);
            let own = objects.iter().filter(|&&id| id != EXTERNAL);
            let views: Vec<ObjectId> =
                own.copied().filter(|&id| matches!(self.table.kind(id), ObjectKind::View)).collect();
            self.array_objects.extend(views);
        }
    }

    /// Holds a value to be an array at run time.
    fn require_array(&mut self, value: ValueId) {
        if !self.table.objects_of(value).contains(&EXTERNAL) {
            return;
        }
        for (index, _) in self.plain_sources.get(&value).cloned().unwrap_or_default() {
            self.plain[index].is_array = true;
        }
    }

    /// Calls a function of NumPy, if it is one that is captured.
    pub(crate) fn call_numpy_function(
        &mut self,
        range: TextRange,
        callee: ValueId,
        path: &str,
        arguments: &CallArguments,
    ) -> Option<ValueId> {
        self.numpy.as_ref()?;
        let name = path.strip_prefix("numpy.")?;
        if let ("asarray", [only], []) = (name, &arguments.positional[..], &arguments.keywords[..])
            && arguments.rest.is_empty()
            && self.is_array(*only)
            && self.table.objects_of(*only)[..] == [EXTERNAL]
        {
            // An array is what it is.
            self.require_array(*only);
            return Some(*only);
        }
        if CREATORS.contains(&name) && arguments.rest.is_empty() && arguments.keyword("out").is_none() {
            return self.create_array(range, arguments);
        }
        let is_exact = |(keyword, _): &(String, ValueId)| CONVERSION_KEYWORDS.contains(&keyword.as_str());
        if CONVERSIONS.contains(&name) && arguments.rest.is_empty() && arguments.keywords.iter().all(is_exact) {
            return Some(self.convert_to_array(range, callee, arguments));
        }
        let called = self.call_form(range, |syntax| syntax == NumpySyntax::Function, name, arguments);
        if called.is_none() {
            self.note_left_call(range, NumpySyntax::Function, name, arguments);
        }
        called
    }

    /// Calls a function that makes an array of anything: code of the program may run, and the result is an array for
    /// certain.
    fn convert_to_array(&mut self, range: TextRange, callee: ValueId, arguments: &CallArguments) -> ValueId {
        let made = self.call_unknown(range, callee, arguments);
        let objects = self.table.objects_of(made).to_vec();
        self.array_objects.extend(objects.into_iter().filter(|&id| id != EXTERNAL));
        self.array_values.insert(made);
        // Nothing has to be checked for its operators to run no code.
        self.plain_sources.insert(made, Vec::new());
        made
    }

    /// Notes a call on arrays, or on what may be arrays, that stays Python.
    fn note_left_call(&mut self, range: TextRange, syntax: NumpySyntax, name: &str, arguments: &CallArguments) {
        let span = self.span(range);
        let is_view = self.numpy.as_ref().is_some_and(|numpy| numpy.left.contains(&span));
        let is_noted = self.left_calls.iter().any(|each| each.span == span);
        let values = arguments.values();
        let has_array = values.iter().any(|&value| self.is_array(value));
        let may_have_array = values.iter().any(|&value| self.table.objects_of(value).contains(&EXTERNAL));
        let is_known = forms_of(|each| each == syntax, name).next().is_some();
        let cause = match (is_known, has_array) {
            (true, true) => LeftCause::Arguments,
            (false, true) => LeftCause::NotCaptured,
            (true, false) if may_have_array => LeftCause::MayBeNumber,
            _ => return,
        };
        if is_view || is_noted {
            return;
        }
        let label = if syntax == NumpySyntax::Method { format!(".{name}") } else { format!("np.{name}") };
        self.left_calls.push(LeftCall { label, span, cause });
    }

    /// Calls a function that makes a new array.
    fn create_array(&mut self, range: TextRange, arguments: &CallArguments) -> Option<ValueId> {
        let values = arguments.values();
        if !values.iter().all(|&value| self.hold_plain(range, value, PlainUse::Operator))
            || self.may_run_code(arguments)
        {
            return None;
        }
        self.read(range, &values);
        let sources = self.sources_of(&values);
        let object = self.make(range, 12, ObjectKind::Computed, None, sources);
        self.array_objects.insert(object);
        Some(self.value_of(vec![object]))
    }

    /// Calls a method of an array, if it is one that is captured.
    pub(crate) fn call_numpy_method(
        &mut self,
        range: TextRange,
        receiver: ValueId,
        name: &str,
        arguments: &CallArguments,
    ) -> Option<ValueId> {
        if !self.is_array(receiver) {
            return None;
        }
        let mut arguments = arguments.clone();
        arguments.positional.insert(0, receiver);
        let called = self.call_form(range, |syntax| syntax == NumpySyntax::Method, name, &arguments);
        if called.is_none() {
            self.note_left_call(range, NumpySyntax::Method, name, &arguments);
        }
        called
    }

    /// Calls `abs` of an array.
    pub(crate) fn call_numpy_builtin(
        &mut self,
        range: TextRange,
        name: &str,
        arguments: &CallArguments,
    ) -> Option<ValueId> {
        self.numpy.as_ref()?;
        self.call_form(range, |syntax| syntax == NumpySyntax::Builtin, name, arguments)
    }

    /// Loads an attribute of an array.
    pub(crate) fn load_numpy_attribute(&mut self, range: TextRange, object: ValueId, name: &str) -> Option<ValueId> {
        self.numpy.as_ref()?;
        let arguments = CallArguments { positional: vec![object], ..CallArguments::default() };
        self.call_form(range, |syntax| syntax == NumpySyntax::Attribute, name, &arguments)
    }

    /// Indexes an array with literals.
    pub(crate) fn load_numpy_element(
        &mut self,
        range: TextRange,
        container: ValueId,
        index_expr: &Expr,
    ) -> Option<ValueId> {
        if self.numpy.is_none() || !is_literal_index(index_expr) {
            return None;
        }
        let text = self
            .frames
            .last()
            .and_then(|frame| self.units.get(frame.unit))
            .map(|(unit, _)| unit.text(index_expr.range()).to_owned())?;
        let arguments = CallArguments { positional: vec![container], ..CallArguments::default() };
        let made = self.call_form(range, |syntax| syntax == NumpySyntax::Subscript, "[]", &arguments)?;
        if let Some(call) = self.timeline.calls.last_mut() {
            call.index = Some(text.into());
        }
        Some(made)
    }

    /// Applies an operator to arrays.
    pub(crate) fn numpy_operator(&mut self, range: TextRange, name: &str, operands: &[ValueId]) -> Option<ValueId> {
        self.numpy.as_ref()?;
        let arguments = CallArguments { positional: operands.to_vec(), ..CallArguments::default() };
        self.call_form(range, |syntax| matches!(syntax, NumpySyntax::Operator(_)), name, &arguments)
    }

    fn call_form(
        &mut self,
        range: TextRange,
        matches: impl Fn(NumpySyntax) -> bool,
        name: &str,
        arguments: &CallArguments,
    ) -> Option<ValueId> {
        let span = self.span(range);
        if !arguments.rest.is_empty() || self.numpy.as_ref()?.left.contains(&span) {
            return None;
        }
        let keywords: Vec<&str> = arguments.keywords.iter().map(|(name, _)| name.as_str()).collect();
        let find =
            |form: &'static NumpyForm| Some((form, form.match_arguments(arguments.positional.len(), &keywords)?));
        let (form, parameters) = forms_of(matches, name).find_map(find)?;
        let values = arguments.values();
        let is_operand = |name: &str| matches!(name, "x" | "a" | "b" | "condition" | "lower" | "upper");
        let operands: Vec<ValueId> = values
            .iter()
            .zip(&parameters)
            .filter(|(_, parameter)| is_operand(parameter))
            .map(|(&value, _)| value)
            .collect();
        let may_be_operand = |id: &ObjectId| {
            let kind = self.table.present_kind(*id);
            !matches!(
                kind,
                ObjectKind::Container(_)
                    | ObjectKind::Function(_)
                    | ObjectKind::Generator(_)
                    | ObjectKind::Method(_)
                    | ObjectKind::Builtin(_)
            )
        };
        let are_operands = operands.iter().all(|&value| self.table.objects_of(value).iter().all(may_be_operand));
        // NumPy refuses lists of axes, and takes tuples.
        let has_list = values.iter().any(|&value| {
            let objects = self.table.objects_of(value);
            objects.iter().any(|&id| {
                matches!(self.table.present_kind(id), ObjectKind::Container(kind) if *kind != ContainerKind::Tuple)
            })
        });
        let has_array = operands.iter().any(|&value| self.is_array(value));
        if !has_array || !are_operands || has_list || self.may_run_code(arguments) {
            return None;
        }
        if !values.iter().all(|&value| self.hold_plain(range, value, PlainUse::Operator)) {
            return None;
        }
        for operand in operands {
            if self.is_array(operand) {
                self.require_array(operand);
            }
        }
        let facts = if form.is_view() { TensorOpFacts::VIEW } else { TensorOpFacts::PURE };
        let made = self.call_op(range, &form.path().into(), facts, arguments);
        if let Some(call) = self.timeline.calls.last_mut() {
            call.op = form.op.into();
            call.label = form.label().into();
            call.parameters = parameters;
        }
        Some(made)
    }
}

/// True if an index is made of literals: numbers, slices of numbers, `None`, `...`, and tuples of these.
fn is_literal_index(index: &Expr) -> bool {
    let is_bound = |bound: &Option<Box<Expr>>| bound.as_deref().is_none_or(is_integer);
    match index {
        Expr::Slice(slice) => [&slice.lower, &slice.upper, &slice.step].into_iter().all(is_bound),
        Expr::Tuple(tuple) => !tuple.is_empty() && tuple.elts.iter().all(is_literal_index),
        Expr::NoneLiteral(_) | Expr::EllipsisLiteral(_) => true,
        _ => is_integer(index),
    }
}

fn is_integer(expr: &Expr) -> bool {
    match expr {
        Expr::NumberLiteral(number) => matches!(number.value, ast::Number::Int(_)),
        Expr::UnaryOp(unary) => unary.op == UnaryOp::USub && is_integer(&unary.operand),
        _ => false,
    }
}

/// True if an index takes parts of an array that are arrays.
pub(crate) fn is_slicing(index: &Expr) -> bool {
    match index {
        Expr::Slice(_) | Expr::EllipsisLiteral(_) => true,
        Expr::Tuple(tuple) => {
            tuple.elts.iter().all(|each| is_slicing(each) || each.is_none_literal_expr())
                && tuple.elts.iter().any(is_slicing)
        }
        _ => false,
    }
}

/// Returns the name in the module `operator`.
pub(crate) fn binary_name(op: Operator) -> Option<&'static str> {
    Some(match op {
        Operator::Add => "add",
        Operator::Sub => "sub",
        Operator::Mult => "mul",
        Operator::Div => "truediv",
        Operator::FloorDiv => "floordiv",
        Operator::Mod => "mod",
        Operator::Pow => "pow",
        Operator::MatMult => "matmul",
        Operator::BitAnd => "and_",
        Operator::BitOr => "or_",
        Operator::BitXor => "xor",
        _ => return None,
    })
}

/// Returns the name in the module `operator`.
pub(crate) fn unary_name(op: UnaryOp) -> Option<&'static str> {
    match op {
        UnaryOp::USub => Some("neg"),
        UnaryOp::Invert => Some("invert"),
        _ => None,
    }
}

/// Returns the name in the module `operator`.
pub(crate) fn comparison_name(op: CmpOp) -> Option<&'static str> {
    Some(match op {
        CmpOp::Eq => "eq",
        CmpOp::NotEq => "ne",
        CmpOp::Lt => "lt",
        CmpOp::LtE => "le",
        CmpOp::Gt => "gt",
        CmpOp::GtE => "ge",
        _ => return None,
    })
}
