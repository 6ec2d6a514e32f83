//! Functions of the prelude on numbers and indices.

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

pub(super) const MIN: &str = r"
template <typename T>
$FT min(T a, T b) {
    return b < a ? b : a;
}

// A number rather than NaN, and -0 rather than 0. What is equal has the same bits, or is a zero of either sign.
$Ffloat min(float a, float b) {
    return a == b ? bitcast<float>(bitcast<int>(a) | bitcast<int>(b)) : a != a || b < a ? b : a;
}
$Fdouble min(double a, double b) {
    return a == b ? bitcast<double>(bitcast<int64>(a) | bitcast<int64>(b)) : a != a || b < a ? b : a;
}
";

pub(super) const MIN_CUDA: &str = r"
template <typename T>
$FT min(T a, T b) {
    return b < a ? b : a;
}

// A number rather than NaN, and -0 rather than 0.
$Ffloat min(float a, float b) { return fminf(a, b); }
$Fdouble min(double a, double b) { return fmin(a, b); }
";

pub(super) const MAX: &str = r"
template <typename T>
$FT max(T a, T b) {
    return b > a ? b : a;
}

// A number rather than NaN, and 0 rather than -0.
$Ffloat max(float a, float b) {
    return a == b ? bitcast<float>(bitcast<int>(a) & bitcast<int>(b)) : a != a || b > a ? b : a;
}
$Fdouble max(double a, double b) {
    return a == b ? bitcast<double>(bitcast<int64>(a) & bitcast<int64>(b)) : a != a || b > a ? b : a;
}
";

pub(super) const MAX_CUDA: &str = r"
template <typename T>
$FT max(T a, T b) {
    return b > a ? b : a;
}

// A number rather than NaN, and 0 rather than -0.
$Ffloat max(float a, float b) { return fmaxf(a, b); }
$Fdouble max(double a, double b) { return fmax(a, b); }
";

/// The magnitude, of floating-point numbers by what the target has.
macro_rules! magnitude {
    ($float:literal, $double:literal) => {
        concat!(
            "
// The magnitude of the least integer wraps.
template <typename T>
$FT abs(T x) {
    return x < 0 ? T(0 - uint64(x)) : x;
}
$Ffloat abs(float x) { return ",
            $float,
            "(x); }\n$Fdouble abs(double x) { return ",
            $double,
            "(x); }\n"
        )
    };
}

pub(super) const ABS: &str = magnitude!("__builtin_fabsf", "__builtin_fabs");
pub(super) const ABS_CUDA: &str = magnitude!("fabsf", "fabs");

/// A function of `float` and `double`, by what the target has for each.
macro_rules! of_floats {
    ($(#$comment:literal,)? $name:literal, $float:literal, $double:literal) => {
        concat!(
            "\n",
            $("// ", $comment, "\n",)?
            "$Ffloat ",
            $name,
            "(float x) { return ",
            $float,
            "(x); }\n$Fdouble ",
            $name,
            "(double x) { return ",
            $double,
            "(x); }\n"
        )
    };
}

pub(super) const SQRT: &str = of_floats!("sqrt", "__builtin_sqrtf", "__builtin_sqrt");
pub(super) const SQRT_CUDA: &str = of_floats!("sqrt", "__fsqrt_rn", "__dsqrt_rn");

pub(super) const FLOOR: &str = of_floats!("floor", "__builtin_floorf", "__builtin_floor");
pub(super) const FLOOR_CUDA: &str = of_floats!("floor", "floorf", "::floor");

pub(super) const CEIL: &str = of_floats!("ceil", "__builtin_ceilf", "__builtin_ceil");
pub(super) const CEIL_CUDA: &str = of_floats!("ceil", "ceilf", "::ceil");

pub(super) const TRUNC: &str = of_floats!("trunc", "__builtin_truncf", "__builtin_trunc");
pub(super) const TRUNC_CUDA: &str = of_floats!("trunc", "truncf", "::trunc");

pub(super) const RINT: &str =
    of_floats!(# "To the nearest integer, halves to even ones.", "rint", "__builtin_rintf", "__builtin_rint");
pub(super) const RINT_CUDA: &str =
    of_floats!(# "To the nearest integer, halves to even ones.", "rint", "rintf", "::rint");

pub(super) const FMA: &str = r"
// A product and a sum, rounded once.
$Ffloat fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
$Fdouble fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
";

pub(super) const FMA_CUDA: &str = r"
// A product and a sum, rounded once.
$Ffloat fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
$Fdouble fma(double a, double b, double c) { return __fma_rn(a, b, c); }
";

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
