//! Inference: the type of an op's result, what its operands are converted to, and its attributes in canonical form.
//!
//! The builder infers what it builds and the verifier infers again, so that both agree on what is well formed.

mod contraction;
mod dtype;
mod indexing;
mod movement;
mod shape;

use crate::attribute::{AttributeValue, Attributes};
use crate::error::GraphError;
use crate::graph::TensorType;
use crate::op::{AttributeKind, AttributeParameter, ShapeRule, TensorOp, TensorOpInfo};
use crate::promotion::OperandDtype;
use crate::shape::{Dim, Shape};

/// The results of inference for one op.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Inference {
    /// The types that the operands are converted to.
    pub(crate) operand_dtypes: Vec<polyloom_ir::Scalar>,
    /// The attributes in canonical form.
    pub(crate) attributes: Attributes,
    /// The type of the result.
    pub(crate) ty: TensorType,
}

/// Puts named attributes in the order of the table and fills in defaults.
pub(crate) fn arrange_attributes(
    op: TensorOp,
    named: &[(&str, AttributeValue)],
) -> Result<Vec<AttributeValue>, GraphError> {
    let info = op.info();
    let error = |attribute: &str, reason: String| GraphError::Attribute {
        op: info.name,
        attribute: attribute.to_owned(),
        reason,
    };
    for (index, (name, _)) in named.iter().enumerate() {
        if info.signature.attribute_index(name).is_none() {
            return Err(error(name, format!("is no attribute; the op takes {}", info.signature.text)));
        }
        if named[..index].iter().any(|(other, _)| other == name) {
            return Err(error(name, "is given twice".to_owned()));
        }
    }
    let arrange = |parameter: &AttributeParameter| {
        let given = named.iter().find(|(name, _)| *name == parameter.name).map(|(_, value)| value.clone());
        given.or_else(|| parameter.default.clone()).ok_or_else(|| error(parameter.name, "must be given".to_owned()))
    };
    info.signature.attributes.iter().map(arrange).collect()
}

/// Infers the type of an op's result. Attributes come in the order of the table.
pub(crate) fn infer(
    op: TensorOp,
    dtypes: &[OperandDtype],
    shapes: &[Shape],
    attributes: Vec<AttributeValue>,
) -> Result<Inference, GraphError> {
    let info = op.info();
    check_tensor_count(info, shapes.len())?;
    let mut query = ShapeQuery { info, shapes, attributes };
    query.check_kinds()?;
    let shape = query.infer()?;
    query.check_size(&shape)?;
    let (operand_dtypes, dtype) = dtype::infer(info, dtypes, &query.attributes)?;
    Ok(Inference { operand_dtypes, attributes: Attributes(query.attributes), ty: TensorType { dtype, shape } })
}

fn check_tensor_count(info: &TensorOpInfo, found: usize) -> Result<(), GraphError> {
    let (least, most) = info.signature.tensor_counts();
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let plural = |n: usize| if n == 1 { "1 tensor".to_owned() } else { format!("{n} tensors") };
    let expected = match (least, most) {
        (_, usize::MAX) => format!("at least {}", plural(least)),
        (least, most) if least == most => plural(least),
        (least, most) => format!("{least} to {}", plural(most)),
    };
    Err(GraphError::TensorCount { op: info.name, expected, found })
}

/// An op whose result's shape is to be found. Rules bring its attributes into canonical form on the way.
struct ShapeQuery<'a> {
    info: &'static TensorOpInfo,
    shapes: &'a [Shape],
    attributes: Vec<AttributeValue>,
}

impl ShapeQuery<'_> {
    /// Converts attributes to the kind that the table says: an integer is a number too, and integers are a shape.
    fn check_kinds(&mut self) -> Result<(), GraphError> {
        for (parameter, value) in self.info.signature.attributes.iter().zip(&mut self.attributes) {
            let may_be_none = parameter.default == Some(AttributeValue::None);
            let fits = match (parameter.kind, &*value) {
                (AttributeKind::Bool, AttributeValue::Bool(_))
                | (AttributeKind::Int | AttributeKind::Axis | AttributeKind::OptionalAxis, AttributeValue::Int(_))
                | (AttributeKind::Float, AttributeValue::Float(_))
                | (AttributeKind::Ints | AttributeKind::Axes, AttributeValue::Ints(_))
                | (AttributeKind::Axes | AttributeKind::OptionalAxis, AttributeValue::None)
                | (AttributeKind::Text, AttributeValue::Text(_))
                | (AttributeKind::Dtype, AttributeValue::Dtype(_))
                | (AttributeKind::Shape, AttributeValue::Shape(_) | AttributeValue::Ints(_)) => true,
                (AttributeKind::Text | AttributeKind::Ints | AttributeKind::Float, AttributeValue::None) => may_be_none,
                (AttributeKind::Float, &AttributeValue::Int(number)) => {
                    let float = number as f64;
                    if float as i128 != i128::from(number) {
                        let reason = format!("is {number}, which is no float");
                        let attribute = parameter.name.to_owned();
                        return Err(GraphError::Attribute { op: self.info.name, attribute, reason });
                    }
                    *value = AttributeValue::Float(float);
                    true
                }
                (AttributeKind::Axes | AttributeKind::Ints, &AttributeValue::Int(axis)) => {
                    *value = AttributeValue::Ints(vec![axis]);
                    true
                }
                _ => false,
            };
            if !fits {
                let reason = format!("is {value}, not {}", parameter.kind.describe());
                return Err(GraphError::Attribute { op: self.info.name, attribute: parameter.name.to_owned(), reason });
            }
        }
        Ok(())
    }

    fn infer(&mut self) -> Result<Shape, GraphError> {
        match self.info.shape_rule {
            ShapeRule::Broadcast => self.broadcast(),
            ShapeRule::First => self.first(),
            ShapeRule::AlongAxis => self.along_axis(),
            ShapeRule::Scan => self.scan(),
            ShapeRule::Recurrence => self.recurrence(),
            ShapeRule::Reduce { nonempty } => self.reduce(nonempty),
            ShapeRule::ReduceAxis => self.reduce_axis(),
            ShapeRule::Reshape => self.reshape(),
            ShapeRule::Permute => self.permute(),
            ShapeRule::Transpose => self.transpose(),
            ShapeRule::Slice => self.slice(),
            ShapeRule::Concat => self.concat(),
            ShapeRule::Stack => self.stack(),
            ShapeRule::Pad => self.pad(),
            ShapeRule::Flip => self.flip(),
            ShapeRule::BroadcastTo => self.broadcast_to(),
            ShapeRule::Tile => self.tile(),
            ShapeRule::Given => self.given(),
            ShapeRule::Scalar => self.scalar(),
            ShapeRule::Matmul => self.matmul(),
            ShapeRule::Contract => self.contract(),
            ShapeRule::Einsum => self.einsum(),
            ShapeRule::Linear => self.linear(),
            ShapeRule::Attention => self.attention(),
            ShapeRule::Convolution(n) => self.convolution(n),
            ShapeRule::Pool => self.pool(),
            ShapeRule::Windows => self.windows(),
            ShapeRule::Gather => self.gather(),
            ShapeRule::Take => self.take(),
            ShapeRule::Embedding => self.embedding(),
            ShapeRule::ScatterAdd => self.scatter_add(),
            ShapeRule::OneHot => self.one_hot(),
            ShapeRule::LayerNorm => self.layer_norm(),
            ShapeRule::GroupNorm => self.group_norm(),
            ShapeRule::CrossEntropy => self.cross_entropy(),
            ShapeRule::Topk => self.topk(),
        }
    }

    fn attribute_error(&self, attribute: &str, reason: impl Into<String>) -> GraphError {
        GraphError::Attribute { op: self.info.name, attribute: attribute.to_owned(), reason: reason.into() }
    }

    fn shape_error(&self, operand: usize, reason: impl Into<String>) -> GraphError {
        GraphError::Shape {
            op: self.info.name,
            argument: self.info.signature.tensor_name(operand),
            shape: self.shapes[operand].clone(),
            reason: reason.into(),
        }
    }

    fn shapes_error(&self, a: usize, b: usize, reason: impl Into<String>) -> GraphError {
        let named = |operand: usize| (self.info.signature.tensor_name(operand), self.shapes[operand].clone());
        GraphError::Shapes { op: self.info.name, pair: Box::new([named(a), named(b)]), reason: reason.into() }
    }

    /// Returns the place of an attribute. The rules ask for attributes that the ops of the table with that rule have.
    fn attribute(&mut self, name: &str) -> Result<&mut AttributeValue, GraphError> {
        match self.info.signature.attribute_index(name) {
            Some(index) => Ok(&mut self.attributes[index]),
            None => Err(self.attribute_error(name, "is missing from the table entry")),
        }
    }

    fn ints(&mut self, name: &str, expected: usize) -> Result<Vec<i64>, GraphError> {
        match self.attribute(name)?.clone() {
            AttributeValue::Ints(values) if values.len() == expected => Ok(values),
            other => Err(self.attribute_error(name, format!("is {other}, not {expected} integers"))),
        }
    }

    fn int(&mut self, name: &str) -> Result<i64, GraphError> {
        match self.attribute(name)?.clone() {
            AttributeValue::Int(value) => Ok(value),
            other => Err(self.attribute_error(name, format!("is {other}, not an integer"))),
        }
    }

    /// Returns a bool attribute.
    fn flag(&mut self, name: &str) -> Result<bool, GraphError> {
        Ok(*self.attribute(name)? == AttributeValue::Bool(true))
    }

    /// Returns an axis of a tensor of this rank, counted from the first, and writes it so into the attribute.
    fn axis(&mut self, name: &str, rank: usize) -> Result<usize, GraphError> {
        let axis = self.int(name)?;
        let axis = self.normalise(name, axis, rank)?;
        *self.attribute(name)? = AttributeValue::Int(axis as i64);
        Ok(axis)
    }

    fn normalise(&self, name: &str, axis: i64, rank: usize) -> Result<usize, GraphError> {
        let counted = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
        let counted = counted.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
        counted.ok_or_else(|| {
            let shape = self.shapes.first().map_or(String::new(), |shape| format!(" of a tensor of shape {shape}"));
            self.attribute_error(name, format!("is {axis}, which is no axis{shape}"))
        })
    }

    /// Returns the axes of the first operand that `axes` names, all if it is none, and writes them ascending.
    fn axes(&mut self) -> Result<Vec<usize>, GraphError> {
        let rank = self.shapes[0].rank();
        let mut axes: Vec<usize> = match self.attribute("axes")?.clone() {
            AttributeValue::Ints(axes) => {
                axes.iter().map(|&axis| self.normalise("axes", axis, rank)).collect::<Result<_, _>>()?
            }
            _ => (0..rank).collect(),
        };
        axes.sort_unstable();
        if let Some(pair) = axes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.attribute_error("axes", format!("names axis {} twice", pair[0])));
        }
        *self.attribute("axes")? = AttributeValue::Ints(axes.iter().map(|&axis| axis as i64).collect());
        Ok(axes)
    }

    /// Returns the attribute `shape` or another one; a `-1` in it becomes the extent that is missing from `total`.
    fn target_shape(&mut self, name: &str, total: Option<&Shape>) -> Result<Shape, GraphError> {
        let shape = match self.attribute(name)?.clone() {
            AttributeValue::Shape(shape) => shape,
            AttributeValue::Ints(extents) => self.shape_of_ints(name, &extents, total)?,
            other => return Err(self.attribute_error(name, format!("is {other}, not a shape"))),
        };
        if shape.as_static().is_some() && shape.n_elements().is_none() {
            return Err(self.attribute_error(name, format!("{shape} has too many elements")));
        }
        *self.attribute(name)? = AttributeValue::Shape(shape.clone());
        Ok(shape)
    }

    fn shape_of_ints(&self, name: &str, extents: &[i64], total: Option<&Shape>) -> Result<Shape, GraphError> {
        let list = || AttributeValue::Ints(extents.to_vec());
        let n_inferred = extents.iter().filter(|&&extent| extent == -1).count();
        let is_negative = extents.iter().any(|&extent| extent < -1);
        let (Some(total), 1) = (total, n_inferred) else {
            if is_negative || n_inferred > 0 {
                return Err(self.attribute_error(name, format!("is {}, which is no shape", list())));
            }
            return Ok(Shape(extents.iter().map(|&extent| Dim::Static(extent as u64)).collect()));
        };
        if is_negative {
            return Err(self.attribute_error(name, format!("is {}, which is no shape", list())));
        }
        let others = extents.iter().filter(|&&extent| extent != -1).map(|&extent| extent as u64);
        let others = others.into_iter().try_fold(1u64, u64::checked_mul).unwrap_or(0);
        // With one symbol, the missing extent is that symbol if all the rest agrees.
        let symbols: Vec<&Dim> = total.0.iter().filter(|dim| dim.as_static().is_none()).collect();
        let known = total.0.iter().filter_map(Dim::as_static).try_fold(1u64, u64::checked_mul);
        let missing = match (&symbols[..], known) {
            ([], Some(known)) if others > 0 && known % others == 0 => Some(Dim::Static(known / others)),
            ([symbol], Some(known)) if known == others && known > 0 => Some((*symbol).clone()),
            _ => None,
        };
        let Some(missing) = missing else {
            return Err(self.shape_error(0, format!("which `{name}` {} does not divide", list())));
        };
        let dims = extents.iter().map(|&extent| match extent {
            -1 => missing.clone(),
            extent => Dim::Static(extent as u64),
        });
        Ok(Shape(dims.collect()))
    }
}
