//! The table itself: each entry is complete and its columns agree.

use polyloom_graph::op::{DtypeRule, OpDefinition, ShapeRule, TensorArity, TensorKernelKind};
use polyloom_graph::{GraphError, TensorOp};
use std::collections::BTreeSet;

/// The ops that a fused function can be written with.
const REQUIRED: &str = "add subtract multiply divide floor_divide remainder power negative absolute maximum minimum \
    equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not \
    bitwise_and bitwise_or bitwise_xor invert left_shift right_shift where clip cast sqrt exp log sin cos tan tanh erf \
    relu gelu silu sigmoid softplus leaky_relu sum mean prod max min argmax argmin all any var std logsumexp norm \
    softmax log_softmax layer_norm rms_norm group_norm cross_entropy cumsum cumprod scan reshape transpose permute slice \
    concat stack pad flip broadcast_to tile rand randn dropout matmul bitcast sort argsort topk_indices";

#[test]
fn names_are_unique_and_complete() {
    let mut names = BTreeSet::new();
    for info in TensorOp::all() {
        for name in std::iter::once(&info.name).chain(info.aliases) {
            assert!(names.insert(*name), "{name} is there twice");
            assert_eq!(TensorOp::from_name(name), Ok(info.op));
        }
    }
    let missing: Vec<&str> = REQUIRED.split_whitespace().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn entries_have_documentation_and_a_definition_that_fits_their_kind() {
    for info in TensorOp::all() {
        let doc = info.doc.trim();
        assert!(doc.ends_with('.') && doc.len() > 8, "{}: {doc}", info.name);
        let is_scalar = matches!(info.definition, OpDefinition::Scalar(_));
        let is_elementwise = info.kind == TensorKernelKind::Elementwise;
        assert!(!is_scalar || is_elementwise, "{}", info.name);
        assert!(!info.is_view() || info.kind == TensorKernelKind::View, "{}", info.name);
        let is_product =
            matches!(info.shape_rule, ShapeRule::Matmul | ShapeRule::Contract | ShapeRule::Einsum | ShapeRule::Linear);
        assert_eq!(is_product, info.kind == TensorKernelKind::Matmul, "{}", info.name);
    }
}

#[test]
fn signatures_have_what_the_rules_ask_for() {
    for info in TensorOp::all() {
        let has = |name: &str| info.signature.attribute_index(name).is_some();
        let needed: &[&str] = match info.shape_rule {
            ShapeRule::Reduce { .. } => &["axes", "keepdims"],
            ShapeRule::ReduceAxis => &["axis", "keepdims"],
            ShapeRule::AlongAxis
            | ShapeRule::Recurrence
            | ShapeRule::Concat
            | ShapeRule::Stack
            | ShapeRule::LayerNorm => &["axis"],
            ShapeRule::Scan => &["axis", "combine"],
            ShapeRule::Reshape | ShapeRule::BroadcastTo | ShapeRule::Given => &["shape"],
            ShapeRule::Permute | ShapeRule::Flip | ShapeRule::Scalar => &["axes"],
            ShapeRule::Transpose => &["axis1", "axis2"],
            ShapeRule::Slice => &["starts", "sizes", "steps"],
            ShapeRule::Pad => &["widths"],
            ShapeRule::Tile => &["repeats"],
            ShapeRule::GroupNorm => &["groups"],
            ShapeRule::CrossEntropy => &["reduction"],
            ShapeRule::Attention => &["causal", "scale"],
            ShapeRule::Contract => &["a_labels", "b_labels", "labels"],
            ShapeRule::Einsum => &["equation"],
            ShapeRule::Convolution(_) => &["stride", "padding", "dilation", "groups"],
            ShapeRule::Pool => &["size", "stride", "padding"],
            ShapeRule::Gather | ShapeRule::Take | ShapeRule::ScatterAdd => &["axis"],
            ShapeRule::OneHot => &["classes"],
            ShapeRule::Topk => &["k", "axis"],
            ShapeRule::Windows => &["axes", "sizes", "steps", "dilations"],
            ShapeRule::Broadcast | ShapeRule::First | ShapeRule::Matmul | ShapeRule::Linear | ShapeRule::Embedding => {
                &[]
            }
        };
        assert!(needed.iter().all(|name| has(name)), "{} lacks one of {needed:?}", info.name);
        let gives_dtype = matches!(info.dtype_rule, DtypeRule::Given | DtypeRule::Random | DtypeRule::Reinterpreted);
        assert_eq!(gives_dtype, has("dtype"), "{}", info.name);
        let tensors = &info.signature.tensors;
        let is_last = |index: usize| index + 1 == tensors.len();
        let many = |index: usize| tensors[index].arity == TensorArity::Many;
        assert!((0..tensors.len()).all(|index| !many(index) || is_last(index)), "{}", info.name);
    }
}

#[test]
fn an_unknown_op_gets_a_near_name() {
    let error = TensorOp::from_name("softmx").unwrap_err();
    assert_eq!(error.to_string(), "there is no op `softmx`; `softmax` is one");
    assert!(matches!(TensorOp::from_name("zzz"), Err(GraphError::UnknownOp { nearest: None, .. })));
}

#[test]
fn costs_count_bytes_and_operations() {
    use crate::support::graph;
    let text = "%0 = input \"a\" : f32[8, 16]\n%1 = input \"b\" : f32[16, 4]\n%2 = matmul %0, %1\n%3 = add %2, %2\n\
        %4 = reshape %3, shape=(32)\n%5 = sum %4\nreturn %5";
    let graph = graph(text);
    let ty = |index: usize| graph.values[index].ty.clone();
    let cost = TensorOp::MatMul.cost(&[ty(0), ty(1)], &[], &ty(2)).unwrap();
    assert_eq!((cost.bytes_read, cost.bytes_written, cost.flops), (512 + 256, 128, 2 * 8 * 16 * 4));
    let cost = TensorOp::Add.cost(&[ty(2), ty(2)], &[], &ty(3)).unwrap();
    assert_eq!((cost.bytes_read, cost.bytes_written, cost.flops), (256, 128, 32));
    assert_eq!(TensorOp::Reshape.cost(&[ty(3)], &[], &ty(4)), Some(Default::default()));
    assert_eq!(TensorOp::Sum.cost(&[ty(4)], &[], &ty(5)).unwrap().flops, 32);
}

/// A convolution sums over channels and window, attention over keys, and products over the labels that the result lacks.
#[test]
fn costs_of_contractions_count_what_is_summed() {
    use crate::support::graph;
    use polyloom_graph::{TensorDef, TensorType};
    let flops = |types: &[&str], op: &str| {
        let inputs: String =
            types.iter().enumerate().map(|(i, ty)| format!("%{i} = input \"x{i}\" : {ty}\n")).collect();
        let graph = graph(&format!("{inputs}%r = {op}\nreturn %r"));
        let result = &graph.values[graph.outputs[0].0 as usize];
        let TensorDef::Op { op, operands, attributes } = &result.def else { panic!("{graph}") };
        let types: Vec<TensorType> = operands.iter().map(|&id| graph.value(id).unwrap().ty.clone()).collect();
        op.cost(&types, &attributes.0, &result.ty).unwrap().flops
    };
    assert_eq!(flops(&["f32[2, 3, 8, 8]", "f32[5, 3, 3, 3]"], "conv2d %0, %1"), 2 * (2 * 5 * 6 * 6) * (3 * 3 * 3));
    let attention = flops(&["f32[4, 10, 16]", "f32[4, 20, 16]", "f32[4, 20, 8]"], "attention %0, %1, %2");
    assert_eq!(attention, 2 * 4 * 10 * 20 * (16 + 8));
    let contract = "contract %0, %1, a_labels=(0, 1), b_labels=(0, 2), labels=(1, 2)";
    assert_eq!(flops(&["f32[7, 3]", "f32[7, 5]"], contract), 2 * 7 * 3 * 5);
    assert_eq!(flops(&["f32[7, 3]", "f32[7, 5]"], "einsum %0, %1, equation=\"ij,ik->jk\""), 2 * 7 * 3 * 5);
    assert_eq!(flops(&["f32[4, 6]", "f32[8, 6]"], "linear %0, %1"), 2 * 4 * 8 * 6);
}
