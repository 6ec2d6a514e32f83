//! Promotion against NumPy's own (`scripts/promotion_table.py`).

use crate::support::type_of;
use polyloom_graph::promotion::{OperandDtype, float_of, promote, promote_all, quotient_of, sum_of};
use polyloom_ir::Scalar;

#[test]
fn promotion_is_that_of_numpy() {
    let scalar = |name: &str| Scalar::from_python_name(name).unwrap();
    let mut n_rows = 0;
    for row in include_str!("promotion.txt").lines() {
        let [a, b, want] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let a = scalar(a);
        let got = match b {
            "int" => promote_all(&[OperandDtype::WeakInt, OperandDtype::Strong(a)]).unwrap(),
            "float" => promote_all(&[OperandDtype::Strong(a), OperandDtype::WeakFloat]).unwrap(),
            "sin" => float_of(a),
            "sum" => sum_of(a),
            "divide" => quotient_of(a),
            b => promote(a, scalar(b)),
        };
        assert_eq!(got, scalar(want), "{row}");
        n_rows += 1;
    }
    assert_eq!(n_rows, 12 * 12 + 12 * 5);
}

#[test]
fn bfloat16_is_promoted_as_float16_and_to_float32_with_it() {
    let with = |other| promote(Scalar::BF16, other);
    for (other, want) in [
        (Scalar::Bool, Scalar::BF16),
        (Scalar::U8, Scalar::BF16),
        (Scalar::I16, Scalar::F32),
        (Scalar::I32, Scalar::F64),
        (Scalar::F16, Scalar::F32),
        (Scalar::F32, Scalar::F32),
        (Scalar::F64, Scalar::F64),
    ] {
        assert_eq!(with(other), want, "{other}");
        assert_eq!(promote(other, Scalar::BF16), want, "{other}");
    }
}

#[test]
fn python_numbers_alone_are_64_bits_wide() {
    assert_eq!(promote_all(&[OperandDtype::WeakInt]), Some(Scalar::I64));
    assert_eq!(promote_all(&[OperandDtype::WeakInt, OperandDtype::WeakFloat]), Some(Scalar::F64));
    assert_eq!(promote_all(&[]), None);
}

#[test]
fn operands_of_an_op_are_promoted() {
    for (op, types, want) in [
        ("add %0, %1", &["i8[3]", "u8[3]"][..], "i16[3]"),
        ("add %0, 2.5", &["f16[3]"], "f16[3]"),
        ("add %0, 2.5", &["i32[3]"], "f64[3]"),
        ("add %0, 2", &["u8[3]"], "u8[3]"),
        ("add %0, 2", &["bool[3]"], "i64[3]"),
        ("divide %0, %0", &["i8[3]"], "f64[3]"),
        ("sin %0", &["i8[3]"], "f16[3]"),
        ("power %0, %0", &["bool[3]"], "i8[3]"),
        ("sum %0", &["i8[3]"], "i64[]"),
        ("sum %0", &["f16[3]"], "f16[]"),
        ("sum %0", &["u16[3]"], "u64[]"),
        ("mean %0", &["i32[3]"], "f64[]"),
        ("max %0", &["i8[3]"], "i8[]"),
        ("argmax %0", &["f32[3]"], "i64[]"),
        ("less %0, %1", &["f32[3]", "i8[3]"], "bool[3]"),
        ("any %0", &["f32[3]"], "bool[]"),
        ("where %0, %1, 1.0", &["i32[3]", "f32[3]"], "f32[3]"),
        ("cast %0, dtype=u8", &["f32[3]"], "u8[3]"),
        ("matmul %0, %1", &["i8[2, 3]", "i16[3, 2]"], "i16[2, 2]"),
        ("concat %0, %1", &["f32[3]", "i32[2]"], "f64[5]"),
        ("cumsum %0, axis=0", &["bool[3]"], "i64[3]"),
    ] {
        assert_eq!(type_of(op, types), want, "{op} {types:?}");
    }
}
