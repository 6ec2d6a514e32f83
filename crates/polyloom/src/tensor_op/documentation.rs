//! The documentation of ops, in the sections of NumPy's style.

use super::parameters::{OpParameter, OpParameterRole, parameters_of, signature_text};
use polyloom_graph::op::{AttributeKind, DtypeClass, DtypeRule, ShapeRule};
use polyloom_graph::{TensorOp, TensorOpInfo};
use std::fmt::Write as _;

/// Returns what an op computes, where its parameters in Python are other than the table's.
fn own_summary(op: TensorOp) -> Option<&'static str> {
    Some(match op {
        TensorOp::Slice => {
            "Takes elements along the leading axes as Python's slices do: from ``starts`` to before ``stops`` in steps of \
             ``steps``. Negative limits count from the end, and None is no limit."
        }
        TensorOp::Pad => {
            "Adds elements of ``value`` before and after each axis: ``widths`` is a number for all, a pair for all axes, \
             or a pair for each."
        }
        TensorOp::Clip => {
            "The number, or the nearer of two limits if it is outside of them; the upper one if they cross. None is no \
             limit."
        }
        TensorOp::Tile => {
            "Repeats the whole along each axis; along leading axes once if ``repeats`` has fewer numbers."
        }
        _ => return None,
    })
}

/// Returns the first paragraph of an op's documentation, without links of Rust's.
pub fn summary_of(info: &TensorOpInfo) -> String {
    if let Some(summary) = own_summary(info.op) {
        return summary.to_owned();
    }
    let text = info.doc.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    text.trim().replace("[`crate::reference`]", "the design page of fusion").replace('`', "``").replace("````", "``")
}

/// Returns a sentence on the shape of an op's result.
pub fn shape_rule_text(rule: ShapeRule) -> &'static str {
    match rule {
        ShapeRule::Broadcast => "The shape that the arguments broadcast to, as in NumPy.",
        ShapeRule::First | ShapeRule::AlongAxis | ShapeRule::Scan => "The shape of the first argument.",
        ShapeRule::Reduce { nonempty: false } => {
            "The shape of `x` without `axes`, or with extents of 1 with `keepdims`."
        }
        ShapeRule::Reduce { nonempty: true } => {
            "The shape of `x` without `axes`, which may not be empty, or with extents of 1 with `keepdims`."
        }
        ShapeRule::ReduceAxis => "The shape of `x` without `axis`, which may not be empty, or with extent 1.",
        ShapeRule::Reshape => "`shape`, of as many elements.",
        ShapeRule::Permute => "The extents of `x` in the order of `axes`.",
        ShapeRule::Transpose => "The shape of `x` with two extents exchanged.",
        ShapeRule::Slice => "As many elements along each axis as the slice takes.",
        ShapeRule::Concat => "The shape of the first tensor with the sum of the extents along `axis`.",
        ShapeRule::Recurrence => "What `a` and `b` broadcast to.",
        ShapeRule::Stack => "The shape of the tensors with a new axis, as long as there are tensors.",
        ShapeRule::Pad => "The extents of `x`, each grown by two widths.",
        ShapeRule::Flip => "The shape of `x`.",
        ShapeRule::BroadcastTo | ShapeRule::Given => "`shape`.",
        ShapeRule::Tile => "The extents of `x`, each multiplied.",
        ShapeRule::Scalar => "No axes.",
        ShapeRule::Matmul => "Rows of `a` by columns of `b`; leading axes are batches, which broadcast.",
        ShapeRule::Contract => "The extents of `labels`.",
        ShapeRule::Einsum => "The extents of the letters after `->`.",
        ShapeRule::Attention => "`[batch…, queries, columns of values]`; leading axes are batches, which broadcast.",
        ShapeRule::Linear => "The shape of `x` with the number of outputs as its last extent.",
        ShapeRule::Convolution(1) => "`[batch, outputs, windows]`.",
        ShapeRule::Convolution(_) => "`[batch, outputs, rows of windows, columns of windows]`.",
        ShapeRule::Pool => "The shape of `x` with the numbers of windows as its last two extents.",
        ShapeRule::Gather => "The extent of `index` along `axis`; along the others what both broadcast to.",
        ShapeRule::Take => "The shape of `x` with the axes of `index` in place of `axis`.",
        ShapeRule::Embedding => "The shape of `index` with the extent of a row at the end.",
        ShapeRule::ScatterAdd => {
            "The shape of `x`. `updates` differ from it along `axis` alone, and `index` broadcasts to them."
        }
        ShapeRule::Topk => "The shape of `x` with `k` elements along `axis`.",
        ShapeRule::OneHot => "The shape of `index` with `classes` at the end.",
        ShapeRule::Windows => "The shape of `x` with numbers of windows along `axes`, and `sizes` at the end.",
        ShapeRule::LayerNorm => "The shape of `x`. Weight and bias have the shape of its axes from `axis` on.",
        ShapeRule::GroupNorm => {
            "The shape of `x`, whose axis 1 is split into `groups`. Weight and bias have its extent."
        }
        ShapeRule::CrossEntropy => "The shape of `target` with `reduction` `\"none\"`; otherwise no axes.",
    }
}

/// Returns a sentence on the element type of an op's result.
pub fn dtype_rule_text(rule: DtypeRule) -> &'static str {
    match rule {
        DtypeRule::Promoted(DtypeClass::Any) => "Promoted, as in NumPy 2: Python numbers take the type of tensors.",
        DtypeRule::Promoted(DtypeClass::Number) => "Promoted, as in NumPy 2; bool is refused.",
        DtypeRule::Promoted(DtypeClass::BoolAsInt8) => "Promoted, as in NumPy 2; bool counts as int8.",
        DtypeRule::Promoted(DtypeClass::Bits) => "Promoted, as in NumPy 2; floats are refused.",
        DtypeRule::Promoted(DtypeClass::Integer) => {
            "Promoted, as in NumPy 2; floats are refused, and bool counts as int8."
        }
        DtypeRule::Promoted(DtypeClass::SortKey) => "That of `x`.",
        DtypeRule::Float => "Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.",
        DtypeRule::Quotient => "Promoted; float64 of integers.",
        DtypeRule::Compared(_) | DtypeRule::Classified | DtypeRule::Logical => "bool.",
        DtypeRule::Selected => "Promoted of `a` and `b`.",
        DtypeRule::Summed => "That of `x`; int64 or uint64 of smaller integers.",
        DtypeRule::Scanned => "That of `x`; sums and products of smaller integers are int64 or uint64.",
        DtypeRule::Indexed => "int64.",
        DtypeRule::Given | DtypeRule::Reinterpreted => "`dtype`.",
        DtypeRule::Random => "`dtype`, a float.",
        DtypeRule::Indices => "That of `x`, promoted with the updates if there are any. Indices are integers.",
        DtypeRule::Seeded | DtypeRule::Classes => "That of the first argument; float64 of integers.",
    }
}

fn parameter_type(info: &TensorOpInfo, parameter: &OpParameter) -> &'static str {
    match parameter.role {
        OpParameterRole::Tensor { is_optional: false } => "tensor or number",
        OpParameterRole::Tensor { is_optional: true } => "tensor, optional",
        OpParameterRole::Tensors => "sequence of tensors",
        OpParameterRole::Attribute(_) if info.op == TensorOp::Slice => {
            "int or sequence of int or None, one for each leading axis"
        }
        OpParameterRole::Attribute(kind) => match kind {
            AttributeKind::Bool => "bool",
            AttributeKind::Int | AttributeKind::Axis => "int",
            AttributeKind::Float => "float",
            AttributeKind::Ints if info.op == TensorOp::Pad => "int, pair of int, or a pair for each axis",
            AttributeKind::Ints => "int or sequence of int, one for each axis",
            AttributeKind::OptionalAxis => "int, optional",
            AttributeKind::Axes => "int or sequence of int, optional",
            AttributeKind::Text => "str, optional",
            AttributeKind::Dtype => "element type of NumPy, Polyloom or PyTorch, or its name",
            AttributeKind::Shape => "int or sequence of int",
        },
    }
}

/// Returns the docstring of an op.
pub fn op_documentation(info: &'static TensorOpInfo) -> String {
    let parameters = parameters_of(info);
    let mut text = format!("{}\n\nParameters\n----------\n", summary_of(info));
    for parameter in &parameters {
        let _ = writeln!(text, "{} : {}", parameter.name, parameter_type(info, parameter));
    }
    let _ = write!(
        text,
        "\nReturns\n-------\ntensor\n    Of the package of the arguments: a NumPy array, a `polyloom.array` or a PyTorch tensor.\n    Shape: \
         {}\n    Element type: {}\n",
        shape_rule_text(info.shape_rule),
        dtype_rule_text(info.dtype_rule),
    );
    text.push_str(
        "\nRaises\n------\nValueError\n    If shapes or axes do not fit; the message names the op, the argument, and both \
         shapes.\nTypeError\n    If an argument is no tensor or number, or of an element type that the op does not \
         take.\nOverflowError\n    If a Python integer is out of range for the element type of the tensors beside it.\n",
    );
    let what = if info.is_view() || info.op == TensorOp::Transpose {
        "The result shares memory with the argument where NumPy's would; one that repeats elements is read-only."
    } else {
        "The result is new memory."
    };
    let kind = format!("{:?}", info.kind).to_lowercase();
    let _ = write!(text, "\nNotes\n-----\n{what} Kernel kind: {kind}.");
    if let Some(kinks) = info.kinks {
        let _ = write!(text, " Gradient: {}", kinks.replace('`', "``"));
    }
    if !info.aliases.is_empty() {
        let _ = write!(text, " Also called `{}`.", info.aliases.join("`, `"));
    }
    text.push('\n');
    text
}

/// Returns the docstring with the signature before it, as `inspect.signature` reads it of built-in functions.
#[must_use]
pub fn documentation_with_signature(info: &'static TensorOpInfo) -> String {
    format!("{}{}\n--\n\n{}", info.name, signature_text(&parameters_of(info)), op_documentation(info))
}
