//! Rescaling: a graph at other extents, where attributes depend on extents, so that it has no form with symbols.

use crate::attribute::{AttributeValue, Attributes};
use crate::graph::{Graph, TensorDef, TensorType, TensorValue};
use crate::infer::infer;
use crate::promotion::OperandDtype;
use crate::shape::{Dim, Shape};
use crate::verify::verify;
use rustc_hash::FxHashMap;

/// A number this near to an extent is counted from the end of the axis.
const END: u64 = 4;

/// Returns the graph with other extents of its inputs: each one that `extents` names becomes another. Numbers in attributes that are an
/// extent, or near one, move with it, as the last index of an axis does. `None` if that gives no graph of the same ops, ranks and types.
///
/// The result is the same program for smaller or larger arrays. It shows faults of a path through the program, which are not looked for at
/// extents that take too long; it is no graph that stands for this one.
///
/// ```
/// use polyloom_graph::{parse_graph, rescale};
/// let graph = parse_graph("%x = input \"x\" : f32[512]\n%y = slice %x, starts=(1), sizes=(510), steps=(1)\nreturn %y")?;
/// let small = rescale(&graph, &[(512, 33)].into_iter().collect()).unwrap();
/// assert_eq!(small.value(small.outputs[0]).unwrap().ty.to_string(), "f32[31]");
/// # Ok::<(), polyloom_graph::GraphError>(())
/// ```
pub fn rescale(graph: &Graph, extents: &FxHashMap<u64, u64>) -> Option<Graph> {
    let mut scaled = Graph { values: Vec::with_capacity(graph.values.len()), outputs: graph.outputs.clone() };
    for value in &graph.values {
        let new = match &value.def {
            TensorDef::Input(_) => {
                let shape = value.ty.shape.0.iter().map(|dim| match dim {
                    Dim::Static(extent) => Dim::Static(extents.get(extent).copied().unwrap_or(*extent)),
                    Dim::Symbol(name) => Dim::Symbol(name.clone()),
                });
                let ty = TensorType { dtype: value.ty.dtype, shape: Shape(shape.collect()) };
                TensorValue { ty, def: value.def.clone() }
            }
            TensorDef::Constant(_) | TensorDef::Number(_) => value.clone(),
            TensorDef::Op { op, operands, attributes } => {
                let old = |index: &crate::graph::TensorId| Some(graph.value(*index)?.ty.clone());
                let before: Vec<TensorType> = operands.iter().map(old).collect::<Option<_>>()?;
                let after = operands.iter().map(|operand| Some(scaled.value(*operand)?.ty.clone()));
                let after: Vec<TensorType> = after.collect::<Option<_>>()?;
                let moves = ExtentMoves::new(&before, &after);
                let attributes = attributes.0.iter().map(|attribute| moves.attribute(attribute)).collect();
                let dtypes: Vec<OperandDtype> = after.iter().map(|ty| OperandDtype::Strong(ty.dtype)).collect();
                let shapes: Vec<Shape> = after.iter().map(|ty| ty.shape.clone()).collect();
                let inferred = infer(*op, &dtypes, &shapes, attributes).ok()?;
                let is_alike = inferred.ty.dtype == value.ty.dtype && inferred.ty.shape.rank() == value.ty.shape.rank();
                if !is_alike {
                    return None;
                }
                let attributes = Attributes(inferred.attributes.0);
                TensorValue { ty: inferred.ty, def: TensorDef::Op { op: *op, operands: operands.clone(), attributes } }
            }
        };
        scaled.values.push(new);
    }
    verify(&scaled).is_ok().then_some(scaled)
}

/// The extents of an op's operands, before and after.
struct ExtentMoves {
    pairs: Vec<(u64, u64)>,
    n_elements: Vec<(u64, u64)>,
}

impl ExtentMoves {
    fn new(before: &[TensorType], after: &[TensorType]) -> ExtentMoves {
        let mut pairs = Vec::new();
        let mut n_elements = Vec::new();
        for (before, after) in before.iter().zip(after) {
            for (before, after) in before.shape.0.iter().zip(&after.shape.0) {
                if let (Some(before), Some(after)) = (before.as_static(), after.as_static())
                    && before > 2 * END
                {
                    pairs.push((before, after));
                }
            }
            if let (Some(before), Some(after)) = (before.shape.n_elements(), after.shape.n_elements()) {
                n_elements.push((before, after));
            }
        }
        ExtentMoves { pairs, n_elements }
    }

    /// Returns a number that is counted from the end of an axis for the axis that is now shorter.
    fn number(&self, number: i64) -> i64 {
        let distance = |extent: u64| number.unsigned_abs().abs_diff(extent);
        let nearest = self.pairs.iter().filter(|(before, _)| distance(*before) <= END);
        match nearest.min_by_key(|(before, _)| distance(*before)) {
            Some(&(before, after)) => number + number.signum() * (after as i64 - before as i64),
            None => number,
        }
    }

    fn attribute(&self, attribute: &AttributeValue) -> AttributeValue {
        match attribute {
            AttributeValue::Int(number) => AttributeValue::Int(self.number(*number)),
            AttributeValue::Ints(numbers) => {
                AttributeValue::Ints(numbers.iter().map(|&number| self.number(number)).collect())
            }
            AttributeValue::Shape(shape) => {
                let known = self.pairs.iter().chain(&self.n_elements);
                let dim = |dim: &Dim| match dim {
                    Dim::Static(extent) => match known.clone().find(|(before, _)| before == extent) {
                        Some((_, after)) => Dim::Static(*after),
                        None => Dim::Static(u64::try_from(self.number(*extent as i64)).unwrap_or(*extent)),
                    },
                    Dim::Symbol(name) => Dim::Symbol(name.clone()),
                };
                AttributeValue::Shape(Shape(shape.0.iter().map(dim).collect()))
            }
            AttributeValue::None
            | AttributeValue::Bool(_)
            | AttributeValue::Float(_)
            | AttributeValue::Text(_)
            | AttributeValue::Dtype(_) => attribute.clone(),
        }
    }
}
