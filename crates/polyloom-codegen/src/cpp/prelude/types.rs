//! Types of the prelude: composites, arrays, 16-bit floats, reports of failed checks.

use super::{Helper, HelperPart};
use polyloom_ir::Scalar;
use polyloom_ir::Scalar::{BF16, F16};

/// The 16-bit floats: numbers that are rounded after every operation.
pub(super) const HALF: &[HelperPart] = &[half(&[F16], FLOAT16), half(&[BF16], BFLOAT16)];

const fn half(types: &'static [Scalar], text: &'static str) -> HelperPart {
    HelperPart { types, needs: &[Helper::Bitcast], text }
}

/// An operator of the 16-bit floats, computed in `float`: of one operand, or of two.
macro_rules! half_operator {
    ($sign:literal of $($operand:ident)*) => {
        &[
            HelperPart { types: &[F16], needs: &[], text: half_operator!("float16", $sign, $($operand)*) },
            HelperPart { types: &[BF16], needs: &[], text: half_operator!("bfloat16", $sign, $($operand)*) },
        ]
    };
    ($half:literal, $sign:literal, a) => {
        concat!("\n$F", $half, " operator", $sign, "(", $half, " a) { return ", $half, "(", $sign, "float(a)); }\n")
    };
    ($half:literal, $sign:literal, a b) => {
        concat!(
            "\n$F", $half, " operator", $sign, "(", $half, " a, ", $half, " b) { return ", $half, "(float(a) ", $sign,
            " float(b)); }\n"
        )
    };
}

pub(super) const HALF_SUM: &[HelperPart] = half_operator!("+" of a b);
pub(super) const HALF_DIFFERENCE: &[HelperPart] = half_operator!("-" of a b);
pub(super) const HALF_PRODUCT: &[HelperPart] = half_operator!("*" of a b);
pub(super) const HALF_QUOTIENT: &[HelperPart] = half_operator!("/" of a b);
pub(super) const HALF_NEGATION: &[HelperPart] = half_operator!("-" of a);

const FLOAT16: &str = r"
// IEEE binary16. Computes in `float` and rounds after each operation.
struct float16 {
    unsigned short bits;

    float16() = default;
    $Mexplicit float16(double x) {
        const uint64 all = bitcast<uint64>(x);
        const unsigned int sign = (unsigned int)(all >> 48) & 0x8000u;
        const uint64 magnitude = all & 0x7fffffffffffffffull;
        if (magnitude > 0x7ff0000000000000ull) {
            bits = (unsigned short)(sign | 0x7e00u);
        } else if (magnitude >= 0x40effe0000000000ull) {
            // From halfway between the greatest number and the next power of two on.
            bits = (unsigned short)(sign | 0x7c00u);
        } else if (magnitude >= 0x3f10000000000000ull) {
            const uint64 kept = magnitude - (1008ull << 52);
            bits = (unsigned short)(sign | (unsigned int)((kept + 0x1ffffffffffull + (kept >> 42 & 1)) >> 42));
        } else {
            // A multiple of 2^-24, which adding 1.5 * 2^28 rounds to.
            const double rounded = bitcast<double>(magnitude) + 402653184.0;
            bits = (unsigned short)(sign | (unsigned int)(bitcast<uint64>(rounded) & 0xffffu));
        }
    }
    $Moperator float() const {
        const unsigned int magnitude = bits & 0x7fffu;
        const unsigned int sign = (bits & 0x8000u) << 16;
        if (magnitude >= 0x7c00u) {
            return bitcast<float>(sign | (magnitude << 13) | 0x70000000u);
        }
        const float scaled = bitcast<float>(magnitude << 13) * bitcast<float>(0x77800000u);
        return bitcast<float>(sign | bitcast<unsigned int>(scaled));
    }
};
";

const BFLOAT16: &str = r"
// The upper half of a `float`. Computes in `float` and rounds after each operation.
struct bfloat16 {
    unsigned short bits;

    bfloat16() = default;
    $Mexplicit bfloat16(float x) {
        const unsigned int all = bitcast<unsigned int>(x);
        bits = (unsigned short)(x != x ? 0x7fc0u : (all + 0x7fffu + (all >> 16 & 1)) >> 16);
    }
    $Mexplicit bfloat16(double x) {
        // Truncated to `float` with the last bit set if anything was lost, so that rounding again is right.
        float nearest = float(x);
        unsigned int all = bitcast<unsigned int>(nearest);
        const double magnitude = x < 0 ? -x : x;
        const double reached = nearest < 0 ? -double(nearest) : double(nearest);
        if (x == x && reached != magnitude) {
            all = (reached > magnitude ? all - 1 : all) | 1;
        }
        *this = bfloat16(bitcast<float>(all));
    }
    $Moperator float() const { return bitcast<float>((unsigned int)bits << 16); }
};
";

pub(super) const VEC: &str = r"
template <typename T, int N>
struct vec {
    T c[N];

    $Mconst T &operator[](int i) const { return c[i]; }
    $MT &operator[](int i) { return c[i]; }
};
";

pub(super) const MAT: &str = r"
template <typename T, int Rows, int Cols>
struct mat {
    T c[Rows * Cols];

    $Mconst T &operator()(int row, int col) const { return c[row * Cols + col]; }
    $MT &operator()(int row, int col) { return c[row * Cols + col]; }
};
";

pub(super) const QUAT: &str = r"
// x, y, z and the real part w.
template <typename T>
struct quat_ {
    T c[4];

    $Mconst T &operator[](int i) const { return c[i]; }
    $MT &operator[](int i) { return c[i]; }
};
";

pub(super) const TRANSFORM: &str = r"
// A translation, then the quaternion of a rotation.
template <typename T>
struct transform_ {
    T c[7];

    $Mconst T &operator[](int i) const { return c[i]; }
    $MT &operator[](int i) { return c[i]; }
};
";

pub(super) const ARRAY: &str = r"
// A strided view of memory. Strides are in bytes.
template <typename T, int N>
struct array {
    T *data;
    int64 shape[N];
    int64 strides[N];

    $Mint extent(int axis) const { return int(shape[axis]); }
    template <typename... Indices>
    $MT &operator()(Indices... indices) const {
        const int64 index[] = {int64(indices)...};
        int64 offset = 0;
        for (int axis = 0; axis < N; ++axis) {
            offset += index[axis] * strides[axis];
        }
        return *reinterpret_cast<T *>(reinterpret_cast<char *>(data) + offset);
    }
    $MT &operator[](int64 index) const { return (*this)(index); }
};
";

pub(super) const COMPOSITE_ARRAY: &str = r"
// An element of several components, each of which has a place of its own.
template <typename C, typename T, int Axes, int Cols>
struct element {
    char *data;
    const int64 *strides;

    $MT &at(int64 row, int64 col) const {
        const int64 offset = row * strides[0] + (Axes > 1 ? col * strides[Axes - 1] : 0);
        return *reinterpret_cast<T *>(data + offset);
    }
    $MT &operator[](int64 i) const { return at(i, 0); }
    $MT &operator()(int64 row, int64 col) const { return at(row, col); }
    $Moperator C() const {
        C value;
        for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
            value.c[i] = at(i / Cols, i % Cols);
        }
        return value;
    }
    $Mconst element &operator=(const C &value) const {
        for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
            at(i / Cols, i % Cols) = value.c[i];
        }
        return *this;
    }
};

// An array whose last axes are the components of its elements, which are constant so that they are no values
// themselves.
template <typename C, typename T, int Axes, int Cols, int N>
struct composite_array {
    T *data;
    int64 shape[N + Axes];
    int64 strides[N + Axes];

    $Mint extent(int axis) const { return int(shape[axis]); }
    template <typename... Indices>
    $Mconst element<C, T, Axes, Cols> operator()(Indices... indices) const {
        const int64 index[] = {int64(indices)...};
        int64 offset = 0;
        for (int axis = 0; axis < N; ++axis) {
            offset += index[axis] * strides[axis];
        }
        return {reinterpret_cast<char *>(data) + offset, strides + N};
    }
    $Mconst element<C, T, Axes, Cols> operator[](int64 index) const { return (*this)(index); }
};
";

pub(super) const VEC_ARRAY: &str = r"
template <typename T, int L, int N>
struct array<vec<T, L>, N> : composite_array<vec<T, L>, T, 1, 1, N> {};
";

pub(super) const MAT_ARRAY: &str = r"
template <typename T, int Rows, int Cols, int N>
struct array<mat<T, Rows, Cols>, N> : composite_array<mat<T, Rows, Cols>, T, 2, Cols, N> {};
";

pub(super) const QUAT_ARRAY: &str = r"
template <typename T, int N>
struct array<quat_<T>, N> : composite_array<quat_<T>, T, 1, 1, N> {};
";

pub(super) const TRANSFORM_ARRAY: &str = r"
template <typename T, int N>
struct array<transform_<T>, N> : composite_array<transform_<T>, T, 1, 1, N> {};
";

pub(super) const BOOL8: &str = r"
// A truth value in memory: any byte but 0 is true.
struct bool8 {
    unsigned char byte;

    $Moperator bool() const { return byte != 0; }
    $Mconst bool8 &operator=(bool value) {
        byte = value;
        return *this;
    }
};
";

/// The report of a failed check, of which the first that claims it is told, by what the target has for that; where
/// there is none, the launch is stopped.
macro_rules! fail {
    ($stop:literal, $claims:literal) => {
        concat!(
            "
// What a failed check leaves at the address `launch_bounds::report`.
struct trap_report {
    uint64 claimed;
    uint64 site;
    int64 index;
    int64 extent;
    uint64 thread;
    uint64 reserved;
};

$Fvoid fail(const launch_bounds &dim, uint64 site, int64 index, int64 extent, uint64 thread) {
    trap_report *report = reinterpret_cast<trap_report *>(dim.report);
    if (report == nullptr) {
        ",
            $stop,
            "();
    }
",
            $claims,
            " {
        report->site = site;
        report->index = index;
        report->extent = extent;
        report->thread = thread;
    }
}
"
        )
    };
}

pub(super) const FAIL: &str = fail!(
    "__builtin_trap",
    "    uint64 unclaimed = 0;
    if (__atomic_compare_exchange_n(&report->claimed, &unclaimed, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))"
);
pub(super) const FAIL_CUDA: &str = fail!("__trap", "    if (atomicCAS(&report->claimed, 0ull, 1ull) == 0)");

/// Bits as another type, by what the target calls `memcpy`.
macro_rules! bitcast {
    ($copy:literal) => {
        concat!(
            "
template <typename To, typename From>
$FTo bitcast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    ",
            $copy,
            "(&to, &from, sizeof(to));
    return to;
}
"
        )
    };
}

pub(super) const BITCAST: &str = bitcast!("__builtin_memcpy");
pub(super) const BITCAST_CUDA: &str = bitcast!("memcpy");
