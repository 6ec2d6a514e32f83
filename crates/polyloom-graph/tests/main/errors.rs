//! Errors name the op, the argument, and both shapes.

use crate::support::{apply, graph, refusal, tensor};
use polyloom_graph::reference::evaluate;
use polyloom_graph::{GraphBuilder, GraphError, Shape, TensorDef, TensorId, TensorOp, verify};
use polyloom_ir::Scalar;

#[test]
fn messages_name_the_op_the_argument_and_the_shapes() {
    for (op, types, want) in [
        (
            "add %0, %1",
            &["f32[2, 3]", "f32[4]"][..],
            "`add`: `a` has shape [2, 3] and `b` has shape [4], which do not broadcast",
        ),
        ("add %0, %1", &["f32[n]", "f32[4]"], "`add`: `a` has shape [n] and `b` has shape [4], which do not broadcast"),
        ("add %0", &["f32[2]"], "`add` takes 2 tensors, not 1"),
        ("concat", &[], "`concat` takes at least 1 tensor, not 0"),
        ("layer_norm %0, %0, %0, %0", &["f32[2]"], "`layer_norm` takes 1 to 3 tensors, not 4"),
        ("subtract %0, %0", &["bool[2]"], "`subtract`: `a` is bool, which the op does not take"),
        ("invert %0", &["f32[2]"], "`invert`: `x` is float32, but the op takes integers"),
        ("add %0, 300", &["u8[2]"], "`add`: 300 is out of range for uint8"),
        ("add %0, -1", &["u8[2]"], "`add`: -1 is out of range for uint8"),
        ("sum %0, axes=(2)", &["f32[2, 3]"], "`sum`: `axes` is 2, which is no axis of a tensor of shape [2, 3]"),
        ("sum %0, axes=(0, -2)", &["f32[2, 3]"], "`sum`: `axes` names axis 0 twice"),
        ("max %0", &["f32[2, 0]"], "`max`: `x` has shape [2, 0], whose axis 1 is empty, and that has no `max`"),
        (
            "sum %0, axis=1",
            &["f32[2]"],
            "`sum`: `axis` is no attribute; the op takes (x: tensor, axes: axes = none, keepdims: bool = false)",
        ),
        ("sort %0, axis=2", &["f32[2, 3]"], "`sort`: `axis` is 2, which is no axis of a tensor of shape [2, 3]"),
        ("argsort %0", &["f32[]"], "`argsort`: `axis` is -1, which is no axis of a tensor of shape []"),
        ("topk_indices %0, k=4", &["f32[2, 3]"], "`topk_indices`: `k` is 4, but axis 1 has 3 elements to choose from"),
        (
            "topk_indices %0, k=-1",
            &["f32[2, 3]"],
            "`topk_indices`: `k` is -1, but axis 1 has 3 elements to choose from",
        ),
        ("sort_keys %0", &["i32[3]"], "`sort_keys`: `x` is int32, but keys are uint32 or uint64"),
        (
            "bitcast %0, dtype=i64",
            &["f32[3]"],
            "`bitcast`: `dtype` is int64, but must be a type of numbers with the 32 bits of float32",
        ),
        ("sum %0, keepdims=1", &["f32[2]"], "`sum`: `keepdims` is 1, not true or false"),
        ("cumsum %0", &["f32[2]"], "`cumsum`: `axis` must be given"),
        (
            "matmul %0, %1",
            &["f32[2, 3]", "f32[4, 5]"],
            "`matmul`: `a` has shape [2, 3] and `b` has shape [4, 5], whose inner extents 3 and 4 differ",
        ),
        (
            "einsum %0, %1, equation=\"ij,jk\"",
            &["f32[2, 3]", "f32[4, 5]"],
            "`einsum`: `a` has shape [2, 3] and `b` has shape [4, 5], of which axes of one label have the extents 3 and 4",
        ),
        (
            "einsum %0, equation=\"ii\"",
            &["f32[2, 2]"],
            "`einsum`: `equation` has `i` twice in one operand, and diagonals are not taken",
        ),
        (
            "conv2d %0, %1",
            &["f32[1, 3, 2, 8]", "f32[4, 3, 3, 3]"],
            "`conv2d`: `x` has shape [1, 3, 2, 8], of which axis 2 is shorter than a window, which takes 3 elements",
        ),
        (
            "conv2d %0, %1",
            &["f32[1, 3, 8, 8]", "f32[4, 2, 3, 3]"],
            "`conv2d`: `x` has shape [1, 3, 8, 8] and `weight` has shape [4, 2, 3, 3], but a weight of 1 groups has 3 channels",
        ),
        (
            "attention %0, %1, %1",
            &["f32[2, 3]", "f32[4, 5]"],
            "`attention`: `q` has shape [2, 3] and `k` has shape [4, 5], whose last extents differ",
        ),
        (
            "attention %0, %1, %1",
            &["f32[2, 3]", "f32[0, 3]"],
            "`attention`: `k` has shape [0, 3], but there must be keys to look at",
        ),
        (
            "linear %0, %1",
            &["f32[1, 3]", "f32[4, 2]"],
            "`linear`: `x` has shape [1, 3] and `weight` has shape [4, 2], whose last extents differ",
        ),
        ("matmul %0, 2", &["f32[2, 3]"], "`matmul`: `b` has shape [], but a product of matrices takes no scalar"),
        (
            "reshape %0, shape=(4)",
            &["f32[2, 3]"],
            "`reshape`: `x` has shape [2, 3], which has not as many elements as [4]",
        ),
        (
            "reshape %0, shape=(4, -1)",
            &["f32[2, 3]"],
            "`reshape`: `x` has shape [2, 3], which `shape` (4, -1) does not divide",
        ),
        ("reshape %0, shape=(-1, -1)", &["f32[2, 3]"], "`reshape`: `shape` is (-1, -1), which is no shape"),
        ("permute %0, axes=(0, 0)", &["f32[2, 3]"], "`permute`: `axes` lacks axis 1 of a tensor of shape [2, 3]"),
        (
            "broadcast_to %0, shape=(2, 4)",
            &["f32[2, 3]"],
            "`broadcast_to`: `x` has shape [2, 3], which does not broadcast to [2, 4]",
        ),
        (
            "concat %0, %1",
            &["f32[2, 3]", "f32[2, 4]"],
            "`concat`: `x[0]` has shape [2, 3] and `x[1]` has shape [2, 4], which differ in more than axis 0",
        ),
        (
            "stack %0, %1",
            &["f32[2]", "f32[3]"],
            "`stack`: `x[0]` has shape [2] and `x[1]` has shape [3], which must be the same",
        ),
        ("pad %0, widths=(1, -1)", &["f32[2]"], "`pad`: `widths` has -1, but a width is not negative"),
        (
            "slice %0, starts=(2), sizes=(2), steps=(1)",
            &["f32[3]"],
            "`slice`: `x` has shape [3], of which 2 elements of axis 0 from 2 in steps of 1 are not known to exist",
        ),
        ("rand %0, shape=(2)", &["f32[]"], "`rand`: `seed` is float32, but a seed is an integer"),
        ("rand %0, shape=(2)", &["i32[2]"], "`rand`: `seed` has shape [2], but a seed is a scalar"),
        ("dropout %0, 1, p=2", &["f32[2]"], "`dropout`: `p` is 2.0, which is no probability"),
        (
            "layer_norm %0, %1",
            &["f32[2, 3]", "f32[2]"],
            "`layer_norm`: `x` has shape [2, 3] and `weight` has shape [2], but it must have the shape of the axes from 1 on",
        ),
        (
            "group_norm %0, groups=4",
            &["f32[2, 6]"],
            "`group_norm`: `groups` is 4, which does not divide the 6 channels of shape [2, 6]",
        ),
        (
            "cross_entropy %0, %1",
            &["f32[2, 3]", "i64[3]"],
            "`cross_entropy`: `logits` has shape [2, 3] and `target` has shape [3], but the second must be [2], one class for each place",
        ),
        (
            "cross_entropy %0, %1",
            &["f32[2, 3]", "f32[2]"],
            "`cross_entropy`: `target` is float32, but classes are integers",
        ),
        (
            "pad %0, widths=(9223372036854775807, 0, 9223372036854775807, 0)",
            &["f32[2, 2]"],
            "`pad`: `x` has shape [2, 2], of which the result [9223372036854775809, 9223372036854775809] has too many elements",
        ),
        (
            "slice %0, starts=(9223372036854775807), sizes=(0), steps=(1)",
            &["f32[3]"],
            "`slice`: `x` has shape [3], of which 0 elements of axis 0 from 9223372036854775807 in steps of 1 are not known to exist",
        ),
        ("no_op %0", &["f32[2]"], "there is no op `no_op`; `norm` is one"),
        ("add %0, %9", &["f32[2]"], "`%9` is not defined before its use"),
        ("add %0, %0 : f64[2]", &["f32[2]"], "`add` gives f32[2], not f64[2]"),
    ] {
        let message = refusal(op, types);
        let (_, message) = message.split_once(": ").unwrap();
        assert_eq!(message, want, "{op}");
    }
}

#[test]
fn a_failed_call_leaves_the_graph_as_it_was() {
    let mut b = GraphBuilder::new();
    let x = b.input("x", Scalar::F32, Shape::of(&[2])).unwrap();
    assert!(b.op(TensorOp::Add, &[x.into(), TensorId(7).into()], &[]).is_err());
    assert!(b.input("x", Scalar::F32, Shape::of(&[2])).is_err());
    assert!(b.call("softplus", &[x.into(), x.into()], &[]).is_err());
    assert_eq!(b.finish(&[x]).unwrap().values.len(), 1);
}

#[test]
fn the_verifier_finds_what_the_builder_does_not_make() {
    let good = graph("%0 = input \"x\" : f32[2]\n%1 = sum %0, axes=(-1)\nreturn %1");
    let check = |change: &dyn Fn(&mut polyloom_graph::Graph)| {
        let mut graph = good.clone();
        change(&mut graph);
        verify(&graph).unwrap_err().to_string()
    };
    assert_eq!(check(&|graph| graph.values[1].ty.dtype = Scalar::F64), "%1: `sum` gives f32[], not f64[]");
    assert_eq!(check(&|graph| graph.outputs[0] = TensorId(5)), "%5 is not defined before its use");
    assert_eq!(check(&|graph| graph.values.reverse()), "%0 is not defined before its use");
    let not_canonical = check(&|graph| {
        if let TensorDef::Op { attributes, .. } = &mut graph.values[1].def {
            attributes.0[0] = vec![-1].into();
        }
    });
    assert_eq!(not_canonical, "%1: an attribute of `sum` is not in canonical form");
    assert!(check(&|graph| graph.values[0].ty.dtype = Scalar::I8).contains("`x` is i8, not i64"));
}

#[test]
fn inputs_must_fit_the_graph() {
    let graph = graph("%0 = input \"x\" : f32[n]\n%1 = input \"y\" : f32[n]\n%2 = add %0, %1\nreturn %2");
    let x = |n: u64| tensor(Scalar::F32, &[n], &vec![1.0; n as usize]);
    let error = evaluate(&graph, &[x(2), x(3)]).unwrap_err();
    assert_eq!(error, GraphError::Evaluation("input `y` is f32[3], not f32[n]".to_owned()));
    assert!(evaluate(&graph, &[x(2)]).is_err());
    assert_eq!(evaluate(&graph, &[x(2), x(2)]).unwrap()[0].numbers(), [2.0, 2.0]);
}

#[test]
fn a_symbol_that_turns_out_as_zero_has_no_maximum() {
    let graph = graph("%0 = input \"x\" : f32[n]\n%1 = max %0\nreturn %1");
    let error = evaluate(&graph, &[tensor(Scalar::F32, &[0], &[])]).unwrap_err();
    assert_eq!(error.to_string(), "`max`: `x` has shape [0], whose axis 0 is empty, and that has no `max`");
    assert_eq!(apply("sum %0", &[tensor(Scalar::F32, &[0], &[])]).bits, [0]);
}
