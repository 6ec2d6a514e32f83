//! The parameters of ops as Python has them: those of the table, with the names that NumPy's users know, and a slice's
//! as Python's slices have them.

use polyloom_graph::op::{AttributeKind, TensorArity};
use polyloom_graph::{AttributeValue, TensorOp, TensorOpInfo};

/// Says what a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpParameterRole {
    /// A tensor or a number.
    Tensor {
        /// True if it may be `None`.
        is_optional: bool,
    },
    /// A list of tensors.
    Tensors,
    /// A value that the plan depends on.
    Attribute(AttributeKind),
}

/// A parameter of an op.
#[derive(Clone, PartialEq, Debug)]
pub struct OpParameter {
    /// Its name.
    pub name: &'static str,
    /// Says what it takes.
    pub role: OpParameterRole,
    /// The default as Python spells it; `None` if it must be given.
    pub default: Option<String>,
}

/// Names that stand for parameters of the table.
const ALIASES: &[(&str, &str)] = &[
    ("axis", "axes"),
    ("ddof", "correction"),
    ("eps", "epsilon"),
    ("max", "upper"),
    ("min", "lower"),
    ("reps", "repeats"),
];

/// The parameters of a slice: `stops` in place of the table's `sizes`, and limits may be left out.
const SLICE: [(&str, bool); 3] = [("starts", true), ("stops", false), ("steps", false)];

/// Returns the parameters of an op in Python's order.
pub fn parameters_of(info: &'static TensorOpInfo) -> Vec<OpParameter> {
    let tensors = info.signature.tensors.iter().map(|tensor| {
        let (role, default) = match tensor.arity {
            TensorArity::One => (OpParameterRole::Tensor { is_optional: false }, None),
            TensorArity::Optional => (OpParameterRole::Tensor { is_optional: true }, Some("None".to_owned())),
            TensorArity::Many => (OpParameterRole::Tensors, None),
        };
        OpParameter { name: tensor.name, role, default }
    });
    if info.op == TensorOp::Slice {
        let role = OpParameterRole::Attribute(AttributeKind::Ints);
        let limits = SLICE.map(|(name, is_required)| {
            let default = if is_required { None } else { Some("None".to_owned()) };
            OpParameter { name, role, default }
        });
        return tensors.chain(limits).collect();
    }
    let attributes = info.signature.attributes.iter().map(|attribute| OpParameter {
        name: attribute.name,
        role: OpParameterRole::Attribute(attribute.kind),
        default: attribute.default.as_ref().map(python_text),
    });
    // The equation comes first, as in NumPy.
    if info.op == TensorOp::Einsum { attributes.chain(tensors).collect() } else { tensors.chain(attributes).collect() }
}

fn python_text(value: &AttributeValue) -> String {
    match value {
        AttributeValue::None => "None".to_owned(),
        AttributeValue::Bool(true) => "True".to_owned(),
        AttributeValue::Bool(false) => "False".to_owned(),
        AttributeValue::Dtype(dtype) => format!("\"{}\"", dtype.python_name()),
        other => other.to_string(),
    }
}

/// An argument of a call, matched with its parameter.
#[derive(Clone, Debug)]
pub struct MatchedArgument<T> {
    /// The place of the parameter.
    pub parameter: usize,
    /// The argument.
    pub value: T,
}

/// Matches the arguments of a call with the parameters of an op, as Python does.
///
/// # Errors
///
/// The message of a `TypeError`.
pub fn match_arguments<T>(
    info: &'static TensorOpInfo,
    parameters: &[OpParameter],
    positional: Vec<T>,
    keywords: Vec<(String, T)>,
) -> Result<Vec<MatchedArgument<T>>, String> {
    let n_given = positional.len();
    if n_given > parameters.len() {
        let n = parameters.len();
        let plural = if n == 1 { "" } else { "s" };
        return Err(format!("{}() takes {n} argument{plural}, but {n_given} were given", info.name));
    }
    let mut matched: Vec<MatchedArgument<T>> = Vec::new();
    for (parameter, value) in positional.into_iter().enumerate() {
        matched.push(MatchedArgument { parameter, value });
    }
    for (name, value) in keywords {
        let is_named = |wanted: &str| parameters.iter().position(|parameter| parameter.name == wanted);
        let alias = || ALIASES.iter().find(|(alias, _)| *alias == name).and_then(|(_, own)| is_named(own));
        let Some(parameter) = is_named(&name).or_else(alias) else {
            let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
            return Err(format!("{}() has no parameter '{name}'; it has {}", info.name, names.join(", ")));
        };
        if matched.iter().any(|other| other.parameter == parameter) {
            return Err(format!("{}() has been given '{}' twice", info.name, parameters[parameter].name));
        }
        matched.push(MatchedArgument { parameter, value });
    }
    for (index, parameter) in parameters.iter().enumerate() {
        if parameter.default.is_none() && !matched.iter().any(|argument| argument.parameter == index) {
            return Err(format!("{}() needs the argument '{}'", info.name, parameter.name));
        }
    }
    matched.sort_by_key(|argument| argument.parameter);
    Ok(matched)
}

/// Returns `(x, axes=None, keepdims=False)`. What must be given after what need not is given by name.
pub fn signature_text(parameters: &[OpParameter]) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut has_default = false;
    let mut is_by_name = false;
    for parameter in parameters {
        match &parameter.default {
            None if has_default && !is_by_name => {
                is_by_name = true;
                texts.push("*".to_owned());
                texts.push(parameter.name.to_owned());
            }
            None => texts.push(parameter.name.to_owned()),
            Some(default) => {
                has_default = true;
                texts.push(format!("{}={default}", parameter.name));
            }
        }
    }
    format!("({})", texts.join(", "))
}

/// Returns the signature as a stub has it, with types.
pub fn stub_signature(parameters: &[OpParameter]) -> String {
    let mut has_default = false;
    let mut texts: Vec<String> = Vec::new();
    for parameter in parameters {
        let ty = match parameter.role {
            OpParameterRole::Tensor { is_optional: false } => "TensorLike",
            OpParameterRole::Tensor { is_optional: true } => "TensorLike | None",
            OpParameterRole::Tensors => "Sequence[TensorLike]",
            OpParameterRole::Attribute(kind) => match kind {
                AttributeKind::Bool => "bool",
                AttributeKind::Int | AttributeKind::Axis => "int",
                AttributeKind::Float if parameter.default.as_deref() == Some("None") => "float | None",
                AttributeKind::Float => "float",
                AttributeKind::Ints if parameter.name == "widths" => "int | Sequence[int] | Sequence[Sequence[int]]",
                AttributeKind::Ints if SLICE.iter().any(|(name, _)| *name == parameter.name) => {
                    "int | Sequence[int | None] | None"
                }
                AttributeKind::Ints if parameter.default.is_some() => "int | Sequence[int] | None",
                AttributeKind::Ints | AttributeKind::Shape => "int | Sequence[int]",
                AttributeKind::OptionalAxis => "int | None",
                AttributeKind::Axes => "int | Sequence[int] | None",
                AttributeKind::Text if parameter.default.is_none() => "str",
                AttributeKind::Text => "str | None",
                AttributeKind::Dtype => "Any",
            },
        };
        match &parameter.default {
            None if has_default && !texts.iter().any(|text| text == "*") => {
                texts.push("*".to_owned());
                texts.push(format!("{}: {ty}", parameter.name));
            }
            None => texts.push(format!("{}: {ty}", parameter.name)),
            Some(default) => {
                has_default = true;
                texts.push(format!("{}: {ty} = {default}", parameter.name));
            }
        }
    }
    format!("({}) -> Any", texts.join(", "))
}
