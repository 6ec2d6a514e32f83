//! The mathematics library against other implementations: a sample of `make accuracy`.
//!
//! `f32` is compared with the `f64` functions of the C library, whose errors are of no account at that precision;
//! `f64` with values of MPFR in `math_f64.txt` (`scripts/math_reference.py`). Random numbers are those of NVIDIA Warp.

use polyloom_ir::interp::Interpreter;
use polyloom_ir::{Module, Op, Type, math, op};

fn interpreter(op: Op, types: &[Type]) -> Interpreter {
    let mut module = Module::new();
    let function = math::library_function(op, types).unwrap_or_else(|| panic!("no {} of {types:?}", op.name()));
    let id = module.functions.push(function);
    Interpreter::new(&module, id).unwrap()
}

/// The error of an `f32` result in units in its last place.
fn error_in_ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if rounded.is_infinite() || got.is_infinite() || want == 0.0 {
        let same = got == rounded && got.is_sign_negative() == want.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    if got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    let exponent = (want.abs().to_bits() >> 52) as i32 - 1023;
    (f64::from(got) - want).abs() * 2f64.powi(23 - exponent.max(-126))
}

type Reference = fn(f64) -> f64;

/// The functions of one argument of which Rust's standard library has the `f64` version.
const REFERENCES: [(Op, Reference); 19] = [
    (Op::Sin, f64::sin),
    (Op::Cos, f64::cos),
    (Op::Tan, f64::tan),
    (Op::Asin, f64::asin),
    (Op::Acos, f64::acos),
    (Op::Atan, f64::atan),
    (Op::Sinh, f64::sinh),
    (Op::Cosh, f64::cosh),
    (Op::Tanh, f64::tanh),
    (Op::Exp, f64::exp),
    (Op::Exp2, f64::exp2),
    (Op::Expm1, f64::exp_m1),
    (Op::Log, f64::ln),
    (Op::Log2, f64::log2),
    (Op::Log10, f64::log10),
    (Op::Log1p, f64::ln_1p),
    (Op::Cbrt, f64::cbrt),
    (Op::Round, f64::round),
    (Op::Rsqrt, |x| 1.0 / x.sqrt()),
];

/// Functions of one argument that are compared with MPFR alone, because Rust's standard library does not have them to the
/// last place, and those that are exact or one product.
const NOT_IN_RUST: [&str; 13] = [
    "acosh", "asinh", "atanh", "degrees", "erf", "erfc", "erfcinv", "erfinv", "frac", "nonzero", "radians", "sign",
    "step",
];

#[test]
fn every_function_of_one_argument_has_a_reference() {
    let takes_one = |info: &op::OpInfo| {
        info.signatures
            .iter()
            .any(|s| s.params.len() == 1 && s.result_types(&[Type::F32]).as_deref() == Some(&[Type::F32]))
    };
    let functions = Op::all().filter(|info| {
        info.group == op::OpGroup::Math && info.lowering == op::Lowering::Library && info.is_pure() && takes_one(info)
    });
    let known = |name: &str| REFERENCES.iter().any(|(op, _)| op.name() == name) || NOT_IN_RUST.contains(&name);
    let without: Vec<&str> = functions.map(|info| info.name).filter(|name| !known(name)).collect();
    assert!(without.is_empty(), "REFERENCES and NOT_IN_RUST lack {without:?}");
}

#[test]
fn f32_functions_are_within_one_unit_in_the_last_place() {
    let edges = [0, 1, 0x007f_ffff, 0x0080_0000, 0x3f7f_ffff, 0x3f80_0000, 0x3f80_0001, 0x7f7f_ffff, 0x7f80_0000];
    let edges = edges.into_iter().chain([0x7fc0_0000]).flat_map(|bits: u32| [bits, bits | 0x8000_0000]);
    // A stride that is no power of two meets all exponents with all sorts of mantissas.
    let inputs: Vec<u32> = edges.chain((0..=u32::MAX).step_by(858_993)).collect();
    for (op, reference) in REFERENCES {
        let function = interpreter(op, &[Type::F32]);
        for &bits in &inputs {
            let x = f32::from_bits(bits);
            let got = f32::from_bits(function.call(&[bits.into()]).unwrap()[0] as u32);
            let want = reference(x.into());
            assert!(error_in_ulps(got, want) <= 1.0, "{}({x:e}) is {got:e}, should be {want:e}", op.name());
        }
    }
}

#[test]
fn f64_functions_are_within_one_and_a_half_units_of_mpfr() {
    for line in include_str!("math_f64.txt").lines() {
        let (name, values) = line.split_once(' ').unwrap();
        let mut values: Vec<u64> = values.split(' ').map(|bits| u64::from_str_radix(bits, 16).unwrap()).collect();
        let want = f64::from_bits(values.pop().unwrap());
        let function = interpreter(Op::from_name(name).unwrap(), &vec![Type::F64; values.len()]);
        let got = f64::from_bits(function.call(&values).unwrap()[0]);
        // A result 1.5 units off is at most the neighbour of the correctly rounded one.
        let neighbours = [want.next_down(), want, want.next_up()];
        let near = if want == 0.0 { got.to_bits() == want.to_bits() } else { neighbours.contains(&got) };
        let operands: Vec<f64> = values.iter().map(|&bits| f64::from_bits(bits)).collect();
        assert!(near || (got.is_nan() && want.is_nan()), "{name}{operands:?} is {got:e}, should be {want:e}");
    }
}

#[test]
fn integer_floor_division_rounds_down_and_is_total() {
    let function = interpreter(Op::FloorDiv, &[Type::I32, Type::I32]);
    let divide = |a: i32, b: i32| function.call(&[a as u32 as u64, b as u32 as u64]).unwrap()[0] as u32 as i32;
    let cases = [(7, 2, 3), (-7, 2, -4), (7, -2, -4), (-7, -2, 3), (-6, 2, -3), (5, 0, 0), (-5, 0, 0)];
    for (a, b, quotient) in cases {
        assert_eq!(divide(a, b), quotient, "{a} // {b}");
    }
    assert_eq!(divide(i32::MIN, -1), i32::MIN);
}

/// The type and bits of an operand.
type Operand = (Type, u64);
/// An op, its operands, the floats it samples and the state it leaves.
type FloatDraw<'a> = (Op, &'a [Operand], &'a [f32], u64);

/// A function of the random state: the values it samples, as bits, and the state after.
fn draw(op: Op, state: &mut u64, operands: &[Operand]) -> Vec<u64> {
    let types: Vec<Type> = [Type::U32].into_iter().chain(operands.iter().map(|operand| operand.0)).collect();
    let values: Vec<u64> = [*state].into_iter().chain(operands.iter().map(|operand| operand.1)).collect();
    let mut results = interpreter(op, &types).call(&values).unwrap();
    *state = results.pop().unwrap();
    results
}

#[test]
fn random_numbers_are_those_of_warp() {
    let init = interpreter(Op::RandInit, &[Type::I32]);
    let mut state = init.call(&[42]).unwrap()[0];
    assert_eq!(state, 1_223_963_391);
    let with_offset = interpreter(Op::RandInit, &[Type::I32, Type::I32]);
    assert_eq!(with_offset.call(&[42, 7]).unwrap(), [3_115_480_925]);

    let low = (Type::I32, (-10i32) as u32 as u64);
    let (u5, u17) = ((Type::U32, 5), (Type::U32, 17));
    let float = |value: f32| (Type::F32, u64::from(value.to_bits()));
    // Warp 1.19, `s = rand_init(42)` and these calls one after the other: the value and the state it leaves.
    let integers: [(Op, &[Operand], u64, u64); 4] = [
        (Op::Randi, &[], 2_785_308_739, 2_785_308_739),
        (Op::Randi, &[low, (Type::I32, 90)], 55, 4_004_461_565),
        (Op::Randu, &[], 2_892_551_605, 2_892_551_605),
        (Op::Randu, &[u5, u17], 11, 3_669_186_258),
    ];
    for (op, operands, value, next) in integers {
        assert_eq!(draw(op, &mut state, operands), [value], "{}", op.name());
        assert_eq!(state, next, "{}", op.name());
    }
    let range = [float(-2.0), float(3.0)];
    let floats: [FloatDraw<'_>; 3] = [
        (Op::Randf, &[], &[0.519_393_4], 2_230_777_607),
        (Op::Randf, &range, &[-1.754_068_9], 211_253_275),
        (Op::Randn, &[], &[-0.393_212_6], 1_285_533_691),
    ];
    check_floats(&mut state, &floats);
    assert_eq!(draw(Op::Poisson, &mut state, &[float(3.5)]), [0]);
    assert_eq!(state, 105_976_902);
    assert_eq!(draw(Op::Poisson, &mut state, &[float(40.0)]), [36]);
    assert_eq!(state, 2_137_158_931);
    let samples: [FloatDraw<'_>; 4] = [
        (Op::SampleUnitSphere, &[], &[-0.267_704_13, 0.605_997_15, 0.567_822_3], 2_853_060_606),
        (Op::SampleUnitDisk, &[], &[0.443_039_45, -0.688_446_64], 3_612_099_725),
        (Op::SampleTriangle, &[], &[0.686_437_6, 0.129_426_09], 1_772_791_854),
        (Op::SampleUnitHemisphereSurface, &[], &[0.231_050_04, 0.338_797_42, 0.912_048_34], 664_612_256),
    ];
    check_floats(&mut state, &samples);
}

/// Draws with the values and states they should give; values may differ by Warp's rounding errors.
fn check_floats(state: &mut u64, cases: &[FloatDraw<'_>]) {
    for &(op, operands, values, next) in cases {
        let got: Vec<f32> = draw(op, state, operands).iter().map(|&bits| f32::from_bits(bits as u32)).collect();
        let near = got.len() == values.len() && got.iter().zip(values).all(|(got, want)| (got - want).abs() < 2e-6);
        assert!(near, "{} is {got:?}, should be {values:?}", op.name());
        assert_eq!(*state, next, "{}", op.name());
    }
}

#[test]
fn an_empty_range_of_random_integers_gives_its_lower_end() {
    for (op, ty) in [(Op::Randi, Type::I32), (Op::Randu, Type::U32)] {
        for high in [3, 2, 0] {
            assert_eq!(draw(op, &mut 5, &[(ty, 3), (ty, high)])[0], 3, "{}", op.name());
        }
    }
}
