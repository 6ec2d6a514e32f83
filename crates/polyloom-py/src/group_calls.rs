//! The calls of a group, and the graph that they are for values of certain types.

use crate::numpy_calls::{NumpyCall, NumpyOperand, check_case, read_index};
use crate::op_attributes::{attribute_of, repeats_of, slices_of, widths_of};
use crate::op_errors::{argument_error, graph_error};
use polyloom::Scalar;
use polyloom::graph::op::AttributeKind;
use polyloom::graph::{AttributeValue, Graph, GraphBuilder, Shape, TensorId, TensorOp, TensorOperand, TensorType};
use polyloom::tensor_op::{MatchedArgument, OpParameter, OpParameterRole, match_arguments, parameters_of};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

/// Says where an operand comes from.
#[derive(Debug)]
pub(crate) enum OperandSource {
    /// A value that the group is given.
    External(usize),
    /// The result of a call of the group.
    Call(usize),
    /// A literal.
    Constant(Py<PyAny>),
    /// A list of operands.
    List(Vec<OperandSource>),
}

/// A call of a group.
pub(crate) struct GroupCall {
    pub(crate) op: TensorOp,
    /// The call itself, if it is one of NumPy.
    pub(crate) numpy: Option<NumpyCall>,
    parameters: Vec<OpParameter>,
    arguments: Vec<MatchedArgument<OperandSource>>,
}

/// Says what is known of an external value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ExternalType {
    /// A tensor, the input of this number.
    Tensor(TensorType),
    /// A Python number.
    Number(TensorOperand),
    /// Anything else.
    Other,
}

/// A graph under construction with what its calls refer to.
pub(crate) struct CallBuilder<'a, 'py> {
    py: Python<'py>,
    types: &'a [ExternalType],
    /// The objects, which attributes are read of.
    objects: &'a [Bound<'py, PyAny>],
    pub(crate) builder: GraphBuilder,
    inputs: Vec<Option<TensorId>>,
    /// The results of the calls so far.
    pub(crate) results: Vec<TensorId>,
}

impl GroupCall {
    /// Matches a call with the parameters of its op.
    ///
    /// # Errors
    ///
    /// `TypeError` as Python raises it of a call that does not fit.
    pub(crate) fn new(
        op: TensorOp,
        positional: Vec<OperandSource>,
        keywords: Vec<(String, OperandSource)>,
    ) -> PyResult<GroupCall> {
        let parameters = parameters_of(op.info());
        let arguments = match_arguments(op.info(), &parameters, positional, keywords).map_err(PyTypeError::new_err)?;
        Ok(GroupCall { op, numpy: None, parameters, arguments })
    }

    /// Matches a call of NumPy with the parameters of the op that it is.
    ///
    /// # Errors
    ///
    /// As [`GroupCall::new`].
    pub(crate) fn of_numpy(
        op: TensorOp,
        positional: Vec<OperandSource>,
        keywords: Vec<(String, OperandSource)>,
        numpy: NumpyCall,
    ) -> PyResult<GroupCall> {
        if op != TensorOp::Slice {
            return Ok(GroupCall { numpy: Some(numpy), ..GroupCall::new(op, positional, keywords)? });
        }
        // Its index is read when the extents are known.
        let arguments = positional.into_iter().enumerate();
        let arguments = arguments.map(|(parameter, value)| MatchedArgument { parameter, value }).collect();
        Ok(GroupCall { op, numpy: Some(numpy), parameters: parameters_of(op.info()), arguments })
    }

    /// Visits the external values of the call in the order of its arguments, with what each is used as.
    pub(crate) fn visit_externals(&self, visit: &mut impl FnMut(usize, OpParameterRole)) {
        for argument in &self.arguments {
            let role = self.parameters[argument.parameter].role;
            argument.value.visit(&mut |source| {
                if let OperandSource::External(index) = source {
                    visit(*index, role);
                }
            });
        }
    }

    /// Visits the sources of all operands, those in lists and the lists.
    pub(crate) fn visit_sources(&self, visit: &mut impl FnMut(&OperandSource)) {
        self.arguments.iter().for_each(|argument| argument.value.visit(visit));
    }

    /// Returns the name of the first parameter that an external value is given for.
    pub(crate) fn argument_name(&self, external: usize) -> Option<&'static str> {
        let mut uses = self.arguments.iter().filter(|argument| {
            let mut found = false;
            argument.value.visit(&mut |source| found |= matches!(source, OperandSource::External(i) if *i == external));
            found
        });
        uses.next().map(|argument| self.parameters[argument.parameter].name)
    }

    /// Appends the op with its arguments in the order of its parameters.
    pub(crate) fn write_canonical(&self, py: Python<'_>, text: &mut String) -> PyResult<()> {
        text.push_str(self.op.name());
        let mut arguments: Vec<_> = self.arguments.iter().collect();
        arguments.sort_by_key(|argument| argument.parameter);
        for argument in arguments {
            text.push(' ');
            text.push_str(self.parameters[argument.parameter].name);
            text.push('=');
            argument.value.write_canonical(py, text)?;
        }
        text.push('\n');
        Ok(())
    }

    fn argument(&self, name: &str) -> Option<&OperandSource> {
        let parameter = self.parameters.iter().position(|parameter| parameter.name == name)?;
        self.arguments.iter().find(|argument| argument.parameter == parameter).map(|argument| &argument.value)
    }
}

impl OperandSource {
    fn write_canonical(&self, py: Python<'_>, text: &mut String) -> PyResult<()> {
        match self {
            OperandSource::External(index) => text.push_str(&format!("value {index}")),
            OperandSource::Call(index) => text.push_str(&format!("call {index}")),
            OperandSource::Constant(object) => text.push_str(&object.bind(py).repr()?.to_string()),
            OperandSource::List(items) => {
                text.push('[');
                for item in items {
                    item.write_canonical(py, text)?;
                    text.push(',');
                }
                text.push(']');
            }
        }
        Ok(())
    }

    pub(crate) fn visit(&self, visit: &mut impl FnMut(&OperandSource)) {
        visit(self);
        if let OperandSource::List(items) = self {
            items.iter().for_each(|item| item.visit(visit));
        }
    }
}

impl<'a, 'py> CallBuilder<'a, 'py> {
    /// Begins a graph whose inputs are the tensors among the external values.
    pub(crate) fn new(
        py: Python<'py>,
        types: &'a [ExternalType],
        objects: &'a [Bound<'py, PyAny>],
    ) -> PyResult<CallBuilder<'a, 'py>> {
        let mut builder = GraphBuilder::new();
        let mut inputs = Vec::with_capacity(types.len());
        for (index, ty) in types.iter().enumerate() {
            inputs.push(match ty {
                ExternalType::Tensor(ty) => {
                    let input = builder.input(&format!("x{index}"), ty.dtype, ty.shape.clone());
                    Some(input.map_err(|error| graph_error(&error))?)
                }
                _ => None,
            });
        }
        Ok(CallBuilder { py, types, objects, builder, inputs, results: Vec::new() })
    }

    /// Continues a graph, given its values that are the external tensors.
    pub(crate) fn continue_graph(
        py: Python<'py>,
        builder: GraphBuilder,
        types: &'a [ExternalType],
        objects: &'a [Bound<'py, PyAny>],
        inputs: Vec<Option<TensorId>>,
    ) -> CallBuilder<'a, 'py> {
        CallBuilder { py, types, objects, builder, inputs, results: Vec::new() }
    }

    /// Appends a call.
    ///
    /// # Errors
    ///
    /// Those that the op raises of its arguments.
    pub(crate) fn push(&mut self, call: &GroupCall) -> PyResult<()> {
        let result = self.call(call)?;
        self.results.push(result);
        Ok(())
    }

    /// Ends the graph.
    pub(crate) fn finish(self, outputs: &[usize]) -> PyResult<Graph> {
        let outputs: Vec<TensorId> = outputs.iter().map(|&output| self.results[output]).collect();
        self.builder.finish(&outputs).map_err(|error| graph_error(&error))
    }

    fn call(&mut self, call: &GroupCall) -> PyResult<TensorId> {
        let mut operands: Vec<Option<TensorOperand>> = Vec::new();
        let mut attributes: Vec<(&str, AttributeValue)> = Vec::new();
        for argument in &call.arguments {
            let parameter = &call.parameters[argument.parameter];
            match parameter.role {
                OpParameterRole::Tensors => {
                    for (index, item) in self.list(call, parameter, &argument.value)?.iter().enumerate() {
                        let name = || format!("{}[{index}]", parameter.name);
                        operands
                            .push(Some(self.operand(call, &name(), item)?.ok_or_else(|| {
                                argument_error(call.op, &name(), "is None, not a tensor or a number")
                            })?));
                    }
                }
                OpParameterRole::Tensor { .. } => operands.push(self.operand(call, parameter.name, &argument.value)?),
                OpParameterRole::Attribute(_) if call.op == TensorOp::Slice => {}
                OpParameterRole::Attribute(kind) => {
                    let value = self.object(call, parameter.name, &argument.value)?;
                    let rank = self.rank(operands.first().copied().flatten());
                    let value = match (call.op, kind) {
                        (TensorOp::Pad, AttributeKind::Ints) => widths_of(&value, rank),
                        (TensorOp::Tile, AttributeKind::Ints) => repeats_of(&value, rank),
                        _ => attribute_of(kind, &value),
                    };
                    attributes.push((parameter.name, value.map_err(|error| self.named(call, parameter.name, error))?));
                }
            }
        }
        if let Some(numpy) = &call.numpy
            && call.op == TensorOp::Slice
        {
            return self.index(call, numpy, &operands);
        }
        let (op, operands) = self.present(call, operands)?;
        if let Some(numpy) = &call.numpy {
            return self.numpy_call(numpy, op, &operands, &attributes);
        }
        let built = match op {
            TensorOp::Slice => {
                let limits = ["starts", "stops", "steps"].map(|name| call.argument(name));
                let mut objects = Vec::new();
                for limit in limits {
                    objects.push(limit.map(|limit| self.object(call, "starts", limit)).transpose()?);
                }
                let slices = slices_of([objects[0].as_ref(), objects[1].as_ref(), objects[2].as_ref()]);
                let slices = slices.map_err(|error| self.named(call, "starts", error))?;
                let TensorOperand::Value(x) = operands[0] else {
                    return Err(argument_error(op, "x", "is a number, which has no axes"));
                };
                self.builder.slice(x, &slices)
            }
            _ => self.builder.op(op, &operands, &attributes),
        };
        built.map_err(|error| graph_error(&error))
    }

    /// Builds a call of NumPy, of which NumPy says what its result is.
    fn numpy_call(
        &mut self,
        numpy: &NumpyCall,
        op: TensorOp,
        operands: &[TensorOperand],
        attributes: &[(&str, AttributeValue)],
    ) -> PyResult<TensorId> {
        let rank = self.rank(operands.first().copied());
        if op == TensorOp::Transpose && attributes.is_empty() && rank != 2 {
            return Err(argument_error(op, "x", "has not two axes"));
        }
        if !operands.iter().any(|operand| matches!(operand, TensorOperand::Value(_))) {
            return Err(argument_error(op, "x", "is a number"));
        }
        let result = self.builder.op(op, operands, attributes).map_err(|error| graph_error(&error))?;
        let ty = self.builder.ty(result).map_err(|error| graph_error(&error))?.clone();
        let types: Vec<Option<TensorType>> = operands
            .iter()
            .map(|operand| match operand {
                TensorOperand::Value(id) => self.builder.ty(*id).ok().cloned(),
                _ => None,
            })
            .collect();
        check_case(op, operands, &types, ty.dtype)?;
        self.check_numpy(numpy, &ty)?;
        Ok(result)
    }

    fn check_numpy(&self, numpy: &NumpyCall, result: &TensorType) -> PyResult<()> {
        let args = numpy.args.iter().map(|source| self.numpy_operand(source)).collect::<PyResult<Vec<_>>>()?;
        let named = numpy.keywords.iter();
        let named = named.map(|(name, source)| Ok((name.clone(), self.numpy_operand(source)?)));
        numpy.check(self.py, result, &args, &named.collect::<PyResult<Vec<_>>>()?)
    }

    fn numpy_operand(&self, source: &OperandSource) -> PyResult<NumpyOperand<'py>> {
        Ok(match source {
            OperandSource::External(index) => match (&self.types[*index], self.inputs[*index]) {
                (ExternalType::Tensor(ty), Some(_)) => NumpyOperand::Tensor(ty.clone(), false),
                _ => NumpyOperand::Object(self.objects[*index].clone()),
            },
            OperandSource::Call(index) => {
                let ty = self.builder.ty(self.results[*index]).map_err(|error| graph_error(&error))?;
                NumpyOperand::Tensor(ty.clone(), true)
            }
            OperandSource::Constant(object) => NumpyOperand::Object(object.bind(self.py).clone()),
            OperandSource::List(items) => {
                let items = items.iter().map(|item| self.numpy_operand(item));
                NumpyOperand::List(items.collect::<PyResult<_>>()?)
            }
        })
    }

    /// Builds an index of literals: a slice, and the axes that it leaves or adds.
    fn index(&mut self, call: &GroupCall, numpy: &NumpyCall, operands: &[Option<TensorOperand>]) -> PyResult<TensorId> {
        let Some(Some(TensorOperand::Value(x))) = operands.first().copied() else {
            return Err(argument_error(call.op, "x", "is a number, which has no axes"));
        };
        let Some(OperandSource::Constant(index)) = numpy.args.get(1) else {
            return Err(argument_error(call.op, "index", "is not known"));
        };
        let failed = |error: polyloom::graph::GraphError| graph_error(&error);
        let extents = self.builder.ty(x).map_err(failed)?.shape.as_static();
        let extents = extents.ok_or_else(|| argument_error(call.op, "x", "has an unknown shape"))?;
        let (slices, axes) = read_index(index.bind(self.py), &extents)?;
        let sliced = self.builder.slice(x, &slices).map_err(failed)?;
        let extents = self.builder.ty(sliced).map_err(failed)?.shape.as_static().unwrap_or_default();
        let wanted: Vec<u64> = axes.iter().map(|axis| axis.map_or(1, |axis| extents[axis])).collect();
        let result = match wanted == extents {
            true => sliced,
            false => {
                let shape = [("shape", AttributeValue::Shape(Shape::of(&wanted)))];
                self.builder.op(TensorOp::Reshape, &[sliced.into()], &shape).map_err(failed)?
            }
        };
        let ty = self.builder.ty(result).map_err(failed)?.clone();
        self.check_numpy(numpy, &ty)?;
        Ok(result)
    }

    /// Returns the op and the operands that are there. A limit of `clip` that is not there is none.
    fn present(
        &self,
        call: &GroupCall,
        operands: Vec<Option<TensorOperand>>,
    ) -> PyResult<(TensorOp, Vec<TensorOperand>)> {
        if call.op == TensorOp::Clip {
            return match operands[..] {
                [Some(x), Some(lower), None] => Ok((TensorOp::Maximum, vec![x, lower])),
                [Some(x), None, Some(upper)] => Ok((TensorOp::Minimum, vec![x, upper])),
                [Some(x), Some(lower), Some(upper)] => Ok((TensorOp::Clip, vec![x, lower, upper])),
                _ => Err(PyValueError::new_err("`clip`: `lower` and `upper` are both None, and one must be given")),
            };
        }
        let n_present = operands.iter().take_while(|operand| operand.is_some()).count();
        if operands[n_present..].iter().any(Option::is_some) {
            let name = call.op.info().signature.tensor_name(n_present);
            return Err(argument_error(call.op, &name, "is None, and a tensor after it is given"));
        }
        let (least, _) = call.op.info().signature.tensor_counts();
        if n_present < least && n_present < operands.len() {
            let name = call.op.info().signature.tensor_name(n_present);
            return Err(argument_error(call.op, &name, "is None, not a tensor or a number"));
        }
        Ok((call.op, operands.into_iter().flatten().collect()))
    }

    fn rank(&self, operand: Option<TensorOperand>) -> usize {
        match operand {
            Some(TensorOperand::Value(id)) => self.builder.ty(id).map_or(0, |ty| ty.shape.rank()),
            _ => 0,
        }
    }

    fn named(&self, call: &GroupCall, name: &str, error: PyErr) -> PyErr {
        let message = format!("`{}`: `{name}` {}", call.op.name(), error.value(self.py));
        let is_type_error = error.is_instance_of::<PyTypeError>(self.py);
        match is_type_error {
            true => PyTypeError::new_err(message),
            false if error.is_instance_of::<PyValueError>(self.py) => PyValueError::new_err(message),
            false => error,
        }
    }

    fn list<'s>(
        &self,
        call: &GroupCall,
        parameter: &OpParameter,
        source: &'s OperandSource,
    ) -> PyResult<&'s [OperandSource]> {
        match source {
            OperandSource::List(items) => Ok(items),
            _ => Err(argument_error(call.op, parameter.name, "is a list or tuple of tensors")),
        }
    }

    /// Returns a tensor or number; nothing for `None`.
    fn operand(&self, call: &GroupCall, name: &str, source: &OperandSource) -> PyResult<Option<TensorOperand>> {
        let object = match source {
            OperandSource::Call(index) => return Ok(Some(TensorOperand::Value(self.results[*index]))),
            OperandSource::External(index) => match (&self.types[*index], self.inputs[*index]) {
                (ExternalType::Tensor(_), Some(input)) => return Ok(Some(TensorOperand::Value(input))),
                (ExternalType::Number(number), _) => return Ok(Some(*number)),
                _ => &self.objects[*index],
            },
            OperandSource::Constant(object) => object.bind(self.py),
            OperandSource::List(_) => return Err(argument_error(call.op, name, "is a list, not a tensor or a number")),
        };
        if object.is_none() {
            return Ok(None);
        }
        match literal(object) {
            Some(number) => Ok(Some(number)),
            None => {
                let given = object.get_type().name()?;
                let reason = match object.cast_exact::<PyInt>() {
                    Ok(_) => "is an integer that 64 bits do not hold: pass a float, or np.uint64(x)".to_owned(),
                    Err(_) => format!("is {given}, not a tensor or a number: pass np.asarray(x) of it"),
                };
                Err(argument_error(call.op, name, &reason))
            }
        }
    }

    /// Returns an object that an attribute is read of.
    fn object(&self, call: &GroupCall, name: &str, source: &OperandSource) -> PyResult<Bound<'py, PyAny>> {
        match source {
            OperandSource::External(index) => Ok(self.objects[*index].clone()),
            OperandSource::Constant(object) => Ok(object.bind(self.py).clone()),
            OperandSource::List(items) => {
                let items: Vec<Bound<'py, PyAny>> =
                    items.iter().map(|item| self.object(call, name, item)).collect::<PyResult<_>>()?;
                Ok(pyo3::types::PyTuple::new(self.py, items)?.into_any())
            }
            OperandSource::Call(_) => Err(argument_error(call.op, name, "is a tensor, whose value is not known")),
        }
    }
}

/// Returns a Python number as an operand.
pub(crate) fn literal(object: &Bound<'_, PyAny>) -> Option<TensorOperand> {
    if let Ok(flag) = object.cast::<PyBool>() {
        return Some(TensorOperand::Bool(flag.is_true()));
    }
    // SAFETY: `object` is a live object.
    unsafe {
        if pyo3::ffi::PyLong_CheckExact(object.as_ptr()) != 0 {
            return object.extract::<i64>().ok().map(TensorOperand::Int);
        }
        if pyo3::ffi::PyFloat_CheckExact(object.as_ptr()) != 0 {
            return object.extract::<f64>().ok().map(TensorOperand::Float);
        }
    }
    None
}

/// The type of a tensor of known extents.
pub(crate) fn tensor_type(dtype: Scalar, extents: &[i64]) -> TensorType {
    let extents: Vec<u64> = extents.iter().map(|&extent| extent as u64).collect();
    TensorType { dtype, shape: Shape::of(&extents) }
}
