//! `TensorGraph`: a graph of tensor ops as Python reads it, value by value.

use crate::op_errors::graph_error;
use crate::result_memory::descr_of;
use polyloom::graph::op::TensorArity;
use polyloom::graph::{AttributeValue, Graph, TensorDef, parse_graph};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// A graph of tensor ops. It does not change.
///
/// Parameters
/// ----------
/// text : str
///     The graph in its text form.
///
/// Raises
/// ------
/// ValueError
///     If the text is no graph.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct TensorGraph {
    pub(crate) graph: Graph,
}

#[pymethods]
impl TensorGraph {
    #[new]
    fn new(text: &str) -> PyResult<TensorGraph> {
        let graph = parse_graph(text).map_err(|error| graph_error(&error))?;
        Ok(TensorGraph { graph })
    }

    fn __str__(&self) -> String {
        self.graph.to_string()
    }

    fn __repr__(&self) -> String {
        let n_ops = self.graph.values.iter().filter(|value| matches!(value.def, TensorDef::Op { .. })).count();
        format!("<tensor graph of {n_ops} ops>")
    }

    /// The values, each after its operands: what it is, its operands by number, its attributes in the order of the op's table
    /// entry, its element type as NumPy has it, and its extents. It is `"input"`, `"constant"` with its bits as the only attribute,
    /// `"number"` with its place among the numbers of a run, or the name of an op. An operand that is absent is None.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let values = PyList::empty(py);
        for (_, value) in self.graph.iter() {
            let (kind, operands, attributes) = match &value.def {
                TensorDef::Input(_) => ("input", Vec::new(), PyTuple::empty(py)),
                TensorDef::Constant(bits) => ("constant", Vec::new(), PyTuple::new(py, [*bits])?),
                TensorDef::Number(place) => ("number", Vec::new(), PyTuple::new(py, [*place])?),
                TensorDef::Op { op, operands, attributes } => {
                    let mut ids: Vec<Option<u32>> = operands.iter().map(|operand| Some(operand.0)).collect();
                    let tensors = &op.info().signature.tensors;
                    if !tensors.iter().any(|tensor| tensor.arity == TensorArity::Many) {
                        ids.resize(tensors.len(), None);
                    }
                    let attributes = attributes.0.iter().map(|attribute| attribute_object(py, attribute));
                    (op.name(), ids, PyTuple::new(py, attributes.collect::<PyResult<Vec<_>>>()?)?)
                }
            };
            let extents = PyTuple::new(py, value.ty.shape.as_static().unwrap_or_default())?;
            values.append((kind, operands, attributes, descr_of(py, value.ty.dtype)?, extents))?;
        }
        Ok(values)
    }

    /// The numbers of the values that are the results.
    #[getter]
    fn outputs(&self) -> Vec<u32> {
        self.graph.outputs.iter().map(|output| output.0).collect()
    }
}

/// Returns an attribute as Python writes it.
pub(crate) fn attribute_object<'py>(py: Python<'py>, attribute: &AttributeValue) -> PyResult<Bound<'py, PyAny>> {
    match attribute {
        AttributeValue::None => Ok(py.None().into_bound(py)),
        AttributeValue::Bool(value) => value.into_bound_py_any(py),
        AttributeValue::Int(value) => value.into_bound_py_any(py),
        AttributeValue::Float(value) => value.into_bound_py_any(py),
        AttributeValue::Ints(values) => Ok(PyTuple::new(py, values)?.into_any()),
        AttributeValue::Text(word) => (&**word).into_bound_py_any(py),
        AttributeValue::Dtype(dtype) => Ok(descr_of(py, *dtype)?.into_bound(py)),
        AttributeValue::Shape(shape) => Ok(PyTuple::new(py, shape.as_static().unwrap_or_default())?.into_any()),
    }
}
