//! Functions of the prelude on numbers and indices.

use super::{Helper, HelperPart};
use polyloom_ir::Scalar;
use polyloom_ir::Scalar::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

pub(super) const INFINITY: &str = r"
template <typename T>
$FT inf() {
    return T(__builtin_huge_val());
}
";

pub(super) const INFINITY_CUDA: &str = r"
template <typename T>
$FT inf() {
    return T(__longlong_as_double(0x7ff0000000000000ll));
}
";

pub(super) const NOT_A_NUMBER: &str = "
template <typename T>
$FT nan() {
    return T(__builtin_nan(\"\"));
}
";

pub(super) const NOT_A_NUMBER_CUDA: &str = r"
template <typename T>
$FT nan() {
    return T(__longlong_as_double(0x7ff8000000000000ll));
}
";

pub(super) const WRAP: &str = r"
// An index counted from the start: a negative one counts from the end.
$Fint64 wrap(int64 index, int64 extent) { return index < 0 ? index + extent : index; }
";

pub(super) const WRAP_PLACE: &str = r"
// An index of a composite counted from the start; far below zero if there is no such place.
template <typename T>
$Fint wrap_place(T index, int extent) {
    const bool is_negative = !(index >= T(0));
    if (is_negative ? int64(index) >= -extent : uint64(index) < uint64(extent)) {
        return int(index) + (is_negative ? extent : 0);
    }
    return -(1 << 20);
}
";

pub(super) const COMPONENT: &str = r"
// The component with this number; 0 if there is none.
template <typename C>
$Fauto component(const C &x, int number) {
    const int n = int(sizeof(x.c) / sizeof(x.c[0]));
    auto found = x.c[0];
    found = 0 <= number && number < n ? x.c[number] : decltype(found)(0.0f);
    return found;
}
";

pub(super) const LOOKUP: &str = r"
// The element of a table of constants with this number; 0 if there is none.
template <typename T, int N>
$FT lookup(const T (&table)[N], int number) {
    return 0 <= number && number < N ? table[number] : T(0);
}
";

pub(super) const SET_COMPONENT: &str = r"
// Sets the component with this number, if there is one.
template <typename C, typename T>
$Fvoid set_component(C &x, int number, T value) {
    if (0 <= number && number < int(sizeof(x.c) / sizeof(x.c[0]))) {
        x.c[number] = value;
    }
}
";

pub(super) const CONVERTED: &str = r"
// An integer as a floating-point number. Before the difference `0.0f - float(x)`, which g++ 12 takes for `-float(x)`.
template <typename T, typename F>
$FT converted(F x) {
    return T(x);
}
";

pub(super) const DIVIDE: &str = r"
// A quotient, toward zero; 0 if the divisor is 0. The one that is out of range wraps.
template <typename T>
$FT divide(T a, T b) {
    if (b == 0) {
        return 0;
    }
    return b == T(-1) && T(-1) < T(0) ? T(0 - uint64(a)) : T(a / b);
}
";

pub(super) const REMAINDER: &str = r"
// What a quotient toward zero leaves; the dividend if the divisor is 0.
template <typename T>
$FT remainder(T a, T b) {
    if (b == 0) {
        return a;
    }
    return b == T(-1) && T(-1) < T(0) ? T(0) : T(a % b);
}
";

pub(super) const SHIFT_LEFT: &str = r"
// 0 for counts that are negative or not below the width.
template <typename T>
$FT shift_left(T x, T count) {
    return uint64(count) < 8 * sizeof(T) ? T(uint64(x) << uint64(count)) : T(0);
}
";

pub(super) const SHIFT_RIGHT: &str = r"
// Signed numbers keep their sign; nothing else is left for counts that are negative or not below the width.
template <typename T>
$FT shift_right(T x, T count) {
    if (uint64(count) < 8 * sizeof(T)) {
        return T(x >> count);
    }
    return T(x >> (8 * sizeof(T) - 1) >> (T(-1) < T(0) ? 0 : 1));
}
";

pub(super) const TRUNCATE: &str = r"
// Toward zero; the nearest end of the range beyond it, and 0 for NaN.
template <typename T, typename F>
$FT truncate(F x) {
    constexpr bool is_signed = T(-1) < T(0);
    constexpr T low = is_signed ? T(1ull << (8 * sizeof(T) - 1)) : T(0);
    constexpr T high = T(~low);
    // One past the greatest value: a power of two, which every floating-point type has.
    constexpr F end = F(2) * F(T((1ull << (8 * sizeof(T) - 1 - is_signed))));
    if (x >= end) {
        return high;
    }
    if (is_signed ? x < -end : !(x > F(-1))) {
        return low;
    }
    return x == x ? T(x) : T(0);
}
";

const INTEGERS: &[Scalar] = &[U8, I8, U16, I16, U32, I32, U64, I64];

macro_rules! half_extremum {
    ($half:literal, $name:literal) => {
        concat!(
            "$F",
            $half,
            " ",
            $name,
            "(",
            $half,
            " a, ",
            $half,
            " b) { return ",
            $half,
            "(",
            $name,
            "(float(a), float(b))); }\n"
        )
    };
}

/// The lesser or greater of two: of integers, of floating-point numbers with a comment on them, and of 16-bit floats,
/// which are compared as `float`.
macro_rules! extremum {
    ($name:literal, $less:literal, $comment:literal, $needs:expr, $float:literal, $double:literal) => {
        &[
            HelperPart {
                types: INTEGERS,
                needs: &[],
                text: concat!(
                    "\ntemplate <typename T>\n$FT ",
                    $name,
                    "(T a, T b) {\n    return b ",
                    $less,
                    " a ? b : a;\n}\n"
                ),
            },
            HelperPart { types: &[F32, F64, F16, BF16], needs: &[], text: concat!("\n// ", $comment, "\n") },
            HelperPart {
                types: &[F32, F16, BF16],
                needs: $needs,
                text: concat!("$Ffloat ", $name, "(float a, float b) {\n    return ", $float, ";\n}\n"),
            },
            HelperPart {
                types: &[F64],
                needs: $needs,
                text: concat!("$Fdouble ", $name, "(double a, double b) {\n    return ", $double, ";\n}\n"),
            },
            HelperPart { types: &[F16], needs: &[], text: half_extremum!("float16", $name) },
            HelperPart { types: &[BF16], needs: &[], text: half_extremum!("bfloat16", $name) },
        ]
    };
}

pub(super) const MIN: &[HelperPart] = extremum!(
    "min",
    "<",
    "A number rather than NaN, and -0 rather than 0. What is equal has the same bits, or is a zero of either sign.",
    &[Helper::Bitcast],
    "a == b ? bitcast<float>(bitcast<int>(a) | bitcast<int>(b)) : a != a || b < a ? b : a",
    "a == b ? bitcast<double>(bitcast<int64>(a) | bitcast<int64>(b)) : a != a || b < a ? b : a"
);

pub(super) const MIN_CUDA: &[HelperPart] =
    extremum!("min", "<", "A number rather than NaN, and -0 rather than 0.", &[], "fminf(a, b)", "fmin(a, b)");

pub(super) const MAX: &[HelperPart] = extremum!(
    "max",
    ">",
    "A number rather than NaN, and 0 rather than -0.",
    &[Helper::Bitcast],
    "a == b ? bitcast<float>(bitcast<int>(a) & bitcast<int>(b)) : a != a || b > a ? b : a",
    "a == b ? bitcast<double>(bitcast<int64>(a) & bitcast<int64>(b)) : a != a || b > a ? b : a"
);

pub(super) const MAX_CUDA: &[HelperPart] =
    extremum!("max", ">", "A number rather than NaN, and 0 rather than -0.", &[], "fmaxf(a, b)", "fmax(a, b)");

/// The magnitude, of floating-point numbers by what the target has.
macro_rules! magnitude {
    ($float:literal, $double:literal) => {
        &[
            HelperPart {
                types: INTEGERS,
                needs: &[],
                text: "
// The magnitude of the least integer wraps.
template <typename T>
$FT abs(T x) {
    return x < 0 ? T(0 - uint64(x)) : x;
}
",
            },
            HelperPart { types: &[F32, F64], needs: &[], text: "\n" },
            HelperPart {
                types: &[F32],
                needs: &[],
                text: concat!("$Ffloat abs(float x) { return ", $float, "(x); }\n"),
            },
            HelperPart {
                types: &[F64],
                needs: &[],
                text: concat!("$Fdouble abs(double x) { return ", $double, "(x); }\n"),
            },
        ]
    };
}

pub(super) const ABS: &[HelperPart] = magnitude!("__builtin_fabsf", "__builtin_fabs");
pub(super) const ABS_CUDA: &[HelperPart] = magnitude!("fabsf", "fabs");

/// A function of `float` and `double`, by what the target has for each.
macro_rules! of_floats {
    ($(#$comment:literal,)? $name:literal, $float:literal, $double:literal) => {
        of_floats!($(#$comment,)? $name, "x", "float x", $float, "double x", $double)
    };
    ($(#$comment:literal,)? $name:literal, $given:literal, $floats:literal, $float:literal, $doubles:literal,
     $double:literal) => {
        &[
            HelperPart { types: &[], needs: &[], text: concat!("\n", $("// ", $comment, "\n")?) },
            HelperPart {
                types: &[F32],
                needs: &[],
                text: concat!("$Ffloat ", $name, "(", $floats, ") { return ", $float, "(", $given, "); }\n"),
            },
            HelperPart {
                types: &[F64],
                needs: &[],
                text: concat!("$Fdouble ", $name, "(", $doubles, ") { return ", $double, "(", $given, "); }\n"),
            },
        ]
    };
}

pub(super) const SQRT: &[HelperPart] = of_floats!("sqrt", "__builtin_sqrtf", "__builtin_sqrt");
pub(super) const SQRT_CUDA: &[HelperPart] = of_floats!("sqrt", "__fsqrt_rn", "__dsqrt_rn");

pub(super) const FLOOR: &[HelperPart] = of_floats!("floor", "__builtin_floorf", "__builtin_floor");
pub(super) const FLOOR_CUDA: &[HelperPart] = of_floats!("floor", "floorf", "::floor");

pub(super) const CEIL: &[HelperPart] = of_floats!("ceil", "__builtin_ceilf", "__builtin_ceil");
pub(super) const CEIL_CUDA: &[HelperPart] = of_floats!("ceil", "ceilf", "::ceil");

pub(super) const TRUNC: &[HelperPart] = of_floats!("trunc", "__builtin_truncf", "__builtin_trunc");
pub(super) const TRUNC_CUDA: &[HelperPart] = of_floats!("trunc", "truncf", "::trunc");

pub(super) const RINT: &[HelperPart] =
    of_floats!(# "To the nearest integer, halves to even ones.", "rint", "__builtin_rintf", "__builtin_rint");
pub(super) const RINT_CUDA: &[HelperPart] =
    of_floats!(# "To the nearest integer, halves to even ones.", "rint", "rintf", "::rint");

pub(super) const FMA: &[HelperPart] = of_floats!(
    # "A product and a sum, rounded once.",
    "fma", "a, b, c", "float a, float b, float c", "__builtin_fmaf", "double a, double b, double c", "__builtin_fma"
);
pub(super) const FMA_CUDA: &[HelperPart] = of_floats!(
    # "A product and a sum, rounded once.",
    "fma", "a, b, c", "float a, float b, float c", "__fmaf_rn", "double a, double b, double c", "__fma_rn"
);

pub(super) const RANGE: &str = r"
// The numbers from `low` on in steps until `high`, which is not one of them, as Python counts. Nothing overflows.
template <typename T>
struct range_of {
    T next;
    T step;
    uint64 left;

    $Mrange_of begin() const { return *this; }
    $Mrange_of end() const { return {next, step, 0}; }
    $MT operator*() const { return next; }
    $Mbool operator!=(const range_of &other) const { return left != other.left; }
    $Mvoid operator++() {
        next = T(uint64(next) + uint64(step));
        --left;
    }
};

template <typename T>
$Frange_of<T> range(T low, T high, T step) {
    uint64 n = 0;
    if (step > 0 && low < high) {
        n = (uint64(high) - uint64(low) - 1) / uint64(step) + 1;
    } else if (!(step >= 0) && low > high) {
        n = (uint64(low) - uint64(high) - 1) / (0 - uint64(step)) + 1;
    }
    return {low, step, n};
}
";
