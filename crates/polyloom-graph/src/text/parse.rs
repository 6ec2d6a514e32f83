//! Reads graphs from text, through the builder, so that what is read is well formed.

use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, TensorOperand, convert};
use crate::error::GraphError;
use crate::graph::{Graph, TensorId, TensorType};
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;

/// Reads a graph.
///
/// # Errors
///
/// [`GraphError::Syntax`], with the line, for what cannot be read and for what the builder refuses.
///
/// ```
/// let graph = polyloom_graph::parse_graph("%x = input \"x\" : f32[2]\n%y = add %x, 1\nreturn %y").unwrap();
/// assert!(graph.to_string().ends_with("%2 = add %0, %1 : f32[2]\nreturn %2\n"));
/// ```
pub fn parse_graph(text: &str) -> Result<Graph, GraphError> {
    let mut reader = GraphReader { builder: GraphBuilder::new(), names: FxHashMap::default() };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let at_line = |reason: String| GraphError::Syntax { line: index + 1, reason };
        if let Some(outputs) = line.strip_prefix("return") {
            let outputs = split_list(outputs).into_iter().map(|name| reader.value(name));
            let outputs: Vec<TensorId> = outputs.collect::<Result<_, _>>().map_err(at_line)?;
            return reader.builder.finish(&outputs);
        }
        reader.read_definition(line).map_err(at_line)?;
    }
    Err(GraphError::Syntax { line: text.lines().count(), reason: "there is no `return`".to_owned() })
}

struct GraphReader<'t> {
    builder: GraphBuilder,
    names: FxHashMap<&'t str, TensorId>,
}

impl<'t> GraphReader<'t> {
    fn value(&self, name: &str) -> Result<TensorId, String> {
        self.names.get(name).copied().ok_or_else(|| format!("`{name}` is not defined before its use"))
    }

    fn read_definition(&mut self, line: &'t str) -> Result<(), String> {
        let (name, definition) = line.split_once(" = ").ok_or("a line reads `%name = op … : type`")?;
        if !name.starts_with('%') || self.names.contains_key(name) {
            return Err(format!("`{name}` is no new name"));
        }
        let (definition, ty) = match definition.rsplit_once(" : ") {
            Some((definition, ty)) => (definition, Some(parse_type(ty)?)),
            None => (definition, None),
        };
        let (word, arguments) = definition.split_once(' ').unwrap_or((definition, ""));
        let id = match word {
            "input" => {
                let ty = ty.clone().ok_or("an input has a type")?;
                let name = unquote(arguments).ok_or("an input has a name in quotes")?;
                self.builder.input(name, ty.dtype, ty.shape).map_err(|error| error.to_string())?
            }
            "constant" => {
                let ty = ty.clone().ok_or("a constant has a type")?;
                let bits = parse_constant(arguments, ty.dtype).ok_or("a constant is a number")?;
                self.builder.constant(ty.dtype, bits)
            }
            "number" => {
                let ty = ty.clone().ok_or("a number has a type")?;
                let index = arguments.trim().parse().map_err(|_| "a number has a place among those that are given")?;
                self.builder.given_number(ty.dtype, index)
            }
            _ => self.read_op(word, arguments)?,
        };
        let found = self.builder.ty(id).map_err(|error| error.to_string())?;
        if let Some(ty) = ty.filter(|ty| ty != found) {
            return Err(format!("`{word}` gives {found}, not {ty}"));
        }
        self.names.insert(name, id);
        Ok(())
    }

    fn read_op(&mut self, word: &str, arguments: &str) -> Result<TensorId, String> {
        let op = TensorOp::from_name(word).map_err(|error| error.to_string())?;
        let mut operands: Vec<TensorOperand> = Vec::new();
        let mut attributes: Vec<(&str, AttributeValue)> = Vec::new();
        for argument in split_list(arguments) {
            if argument.starts_with('%') {
                operands.push(self.value(argument)?.into());
            } else if let Some((name, value)) = argument.split_once('=') {
                attributes.push((name, parse_attribute(value)?));
            } else {
                operands.push(match parse_attribute(argument)? {
                    AttributeValue::Bool(value) => value.into(),
                    AttributeValue::Int(value) => value.into(),
                    AttributeValue::Float(value) => value.into(),
                    _ => return Err(format!("`{argument}` is no operand")),
                });
            }
        }
        self.builder.op(op, &operands, &attributes).map_err(|error| error.to_string())
    }
}

/// Splits at commas that stand in no brackets and no quotes.
pub(crate) fn split_list(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start, mut is_quoted) = (0i32, 0, false);
    for (index, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn unquote(text: &str) -> Option<&str> {
    text.trim().strip_prefix('"')?.strip_suffix('"').filter(|inner| !inner.contains('"'))
}

fn parse_type(text: &str) -> Result<TensorType, String> {
    let wrong = || format!("`{text}` is no type");
    let (dtype, shape) = text.trim().split_at_checked(text.find('[').ok_or_else(wrong)?).ok_or_else(wrong)?;
    let dtype = Scalar::from_name(dtype).ok_or_else(wrong)?;
    Ok(TensorType { dtype, shape: parse_shape(shape)? })
}

fn parse_shape(text: &str) -> Result<Shape, String> {
    let wrong = || format!("`{text}` is no shape");
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(wrong)?;
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let dims = split_list(inner).into_iter().map(|part| match part.parse::<u64>() {
        Ok(extent) => Ok(Dim::Static(extent)),
        Err(_) if is_name(part) => Ok(Dim::from(part)),
        Err(_) => Err(wrong()),
    });
    dims.collect::<Result<_, _>>().map(Shape)
}

fn parse_attribute(text: &str) -> Result<AttributeValue, String> {
    let wrong = || format!("`{text}` is no value");
    Ok(match text {
        "none" => AttributeValue::None,
        "true" => AttributeValue::Bool(true),
        "false" => AttributeValue::Bool(false),
        _ if text.starts_with('[') => AttributeValue::Shape(parse_shape(text)?),
        _ if text.starts_with('"') => AttributeValue::Text(unquote(text).ok_or_else(wrong)?.into()),
        _ if text.starts_with('(') => {
            let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).ok_or_else(wrong)?;
            let ints = split_list(inner).into_iter().map(|part| part.parse::<i64>().map_err(|_| wrong()));
            AttributeValue::Ints(ints.collect::<Result<_, _>>()?)
        }
        _ => match (Scalar::from_name(text), text.parse::<i64>(), text.parse::<f64>()) {
            (Some(dtype), _, _) => AttributeValue::Dtype(dtype),
            (_, Ok(value), _) => AttributeValue::Int(value),
            (_, _, Ok(value)) => AttributeValue::Float(value),
            _ => return Err(wrong()),
        },
    })
}

fn parse_constant(text: &str, dtype: Scalar) -> Option<u64> {
    let text = text.trim();
    match dtype {
        Scalar::Bool => Some(text.parse::<bool>().ok()?.into()),
        Scalar::U64 => text.parse().ok(),
        _ if dtype.is_int() => Some(convert(Scalar::I64, text.parse::<i64>().ok()? as u64, dtype)),
        _ => Some(convert(Scalar::F64, text.parse::<f64>().ok()?.to_bits(), dtype)),
    }
}
