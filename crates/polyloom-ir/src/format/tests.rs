//! Against glibc's `printf` and Python's `print`.

use super::*;

/// Each line: a format, a value and, after a tab each, what glibc's `snprintf` makes of a `double` or an `int`.
const PRINTF_CASES: &str = include_str!("printf_cases.txt");

#[test]
fn numbers_look_as_in_c() {
    for line in PRINTF_CASES.lines() {
        let [spec, value, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let is_float = spec.contains(['f', 'e', 'E', 'g', 'G']);
        let text = match is_float {
            true => format(spec, &[Type::F64], &[value.parse::<f64>().unwrap().to_bits()]),
            false => format(spec, &[Type::I32], &[u64::from(value.parse::<i32>().unwrap() as u32)]),
        };
        assert_eq!(text, expected, "{spec} of {value}");
    }
}

#[test]
fn values_are_read_by_their_types() {
    let types = [Scalar::I8, Scalar::U8, Scalar::I64, Scalar::U64, Scalar::Bool].map(Type::Scalar);
    let text = format("%d %d %ld %llu %d", &types, &[0xff, 0xff, u64::MAX, u64::MAX, 1]);
    assert_eq!(text, "-1 255 -1 18446744073709551615 1");
    assert_eq!(format("%x %u", &[Scalar::I8.into(), Scalar::I16.into()], &[0xff, 0xfffe]), "ff 65534");
    assert_eq!(format("%d %f", &[Type::F32, Type::I32], &[(-2.75f32).to_bits().into(), 3]), "-2 3.000000");
    assert_eq!(format("%g %g", &[Scalar::F16.into(), Scalar::BF16.into()], &[0x3c01, 0x3fc0]), "1.00098 1.5");
    assert_eq!(format("%c%c", &[Type::I32, Type::I32], &[104, 105]), "hi");
}

#[test]
fn nothing_is_undefined() {
    assert_eq!(format("%d %d", &[Type::I32], &[1]), "1 %d");
    assert_eq!(format("100%", &[], &[]), "100%");
    assert_eq!(format("%", &[], &[]), "%");
    assert_eq!(format("%y %-5é|%d", &[Type::I32], &[1]), "%y %-5é|1");
    assert_eq!(format("%*d", &[Type::I32], &[1]), "%*d");
    assert_eq!(format("none", &[Type::I32], &[1]), "none");
    assert_eq!(format("%99999999999d", &[Type::I32], &[1]).len(), MAX_WIDTH);
    assert_eq!(format("%.99999999999f", &[Type::F64], &[0]).len(), MAX_WIDTH + 2);
    assert_eq!(format("%c", &[Type::I32], &[0xd800]), "\u{fffd}");
}

#[test]
fn python_text_is_what_python_prints() {
    // repr() of CPython 3.11; for the narrower types, of NumPy scalars.
    for (value, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-12.5, "-12.5"),
        (123456789.0, "123456789.0"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.5e16, "1.5e+16"),
        (0.0001, "0.0001"),
        (0.00012, "0.00012"),
        (0.00001, "1e-05"),
        (1e300, "1e+300"),
        (5e-324, "5e-324"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ] {
        assert_eq!(python_text(Scalar::F64, value.to_bits()), text);
    }
    assert_eq!(python_text(Scalar::F32, 0.1f32.to_bits().into()), "0.1");
    assert_eq!(python_text(Scalar::F32, 16777216f32.to_bits().into()), "16777216.0");
    assert_eq!(python_text(Scalar::F16, 0x2e66), "0.1");
    assert_eq!(python_text(Scalar::F16, 0x7bff), "65500.0");
    assert_eq!(python_text(Scalar::Bool, 1), "True");
    assert_eq!(python_text(Scalar::I16, 0x8000), "-32768");
    assert_eq!(
        format("%s and %5s|%-6s|%.2s", &[Type::I32, Type::BOOL, Type::BOOL, Type::F64], &[3, 1, 0, 0]),
        "3 and  True|False |0."
    );
}
