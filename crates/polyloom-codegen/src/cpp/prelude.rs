//! The prelude: what texts rely on, written out in those that do.
//!
//! `$F` stands before functions and `$M` before member functions for what the target wants there. What `strict`
//! arithmetic computes, `polyloom_ir::eval` says; these functions follow it.

use super::unit::Target;

macro_rules! helpers {
    ($($(#[doc = $doc:literal])* $helper:ident = $name:literal, needs [$($needed:ident),*], $cpp:expr $(, cuda $cuda:expr)?;)*) => {
        /// A piece of the prelude. Pieces are written in this order.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub(super) enum Helper {
            $($(#[doc = $doc])* $helper,)*
        }

        impl Helper {
            /// What it defines.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Helper::$helper => $name,)*
                }
            }

            /// What it relies on in turn.
            pub(super) fn needs(self) -> &'static [Helper] {
                match self {
                    $(Helper::$helper => &[$(Helper::$needed),*],)*
                }
            }

            /// Its text.
            pub(super) fn text(self, target: Target) -> &'static str {
                match (self, target) {
                    $($((Helper::$helper, Target::Cuda) => $cuda,)?)*
                    $((Helper::$helper, _) => $cpp,)*
                }
            }
        }
    };
}

helpers! {
    /// How many elements types have in memory.
    Vec = "vec", needs [], r"
template <typename T, int N>
struct vec {
    T c[N];

    $Mconst T &operator[](int i) const { return c[i]; }
    $MT &operator[](int i) { return c[i]; }
};
";
    Mat = "mat", needs [], r"
template <typename T, int Rows, int Cols>
struct mat {
    T c[Rows * Cols];

    $Mconst T &operator()(int row, int col) const { return c[row * Cols + col]; }
    $MT &operator()(int row, int col) { return c[row * Cols + col]; }
};
";
    Quat = "quat_", needs [], r"
// x, y, z and the real part w.
template <typename T>
struct quat_ {
    T c[4];

    $Mconst T &operator[](int i) const { return c[i]; }
    $MT &operator[](int i) { return c[i]; }
};
";
    Transform = "transform_", needs [], r"
// A translation, then the quaternion of a rotation.
template <typename T>
struct transform_ {
    T c[7];

    $Mconst T &operator[](int i) const { return c[i]; }
    $MT &operator[](int i) { return c[i]; }
};
";
    Array = "array", needs [], r"
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
    /// Arrays of composites.
    CompositeArray = "array", needs [Array], r"
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

// An array whose last axes are the components of its elements.
template <typename C, typename T, int Axes, int Cols, int N>
struct composite_array {
    T *data;
    int64 shape[N + Axes];
    int64 strides[N + Axes];

    $Mint extent(int axis) const { return int(shape[axis]); }
    template <typename... Indices>
    $Melement<C, T, Axes, Cols> operator()(Indices... indices) const {
        const int64 index[] = {int64(indices)...};
        int64 offset = 0;
        for (int axis = 0; axis < N; ++axis) {
            offset += index[axis] * strides[axis];
        }
        return {reinterpret_cast<char *>(data) + offset, strides + N};
    }
    $Melement<C, T, Axes, Cols> operator[](int64 index) const { return (*this)(index); }
};
";
    VecArray = "array", needs [CompositeArray, Vec], r"
template <typename T, int L, int N>
struct array<vec<T, L>, N> : composite_array<vec<T, L>, T, 1, 1, N> {};
";
    MatArray = "array", needs [CompositeArray, Mat], r"
template <typename T, int Rows, int Cols, int N>
struct array<mat<T, Rows, Cols>, N> : composite_array<mat<T, Rows, Cols>, T, 2, Cols, N> {};
";
    QuatArray = "array", needs [CompositeArray, Quat], r"
template <typename T, int N>
struct array<quat_<T>, N> : composite_array<quat_<T>, T, 1, 1, N> {};
";
    TransformArray = "array", needs [CompositeArray, Transform], r"
template <typename T, int N>
struct array<transform_<T>, N> : composite_array<transform_<T>, T, 1, 1, N> {};
";
    Bool8 = "bool8", needs [], r"
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
    Fail = "fail", needs [], r"
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
    uint64 unclaimed = 0;
    if (report != nullptr &&
        __atomic_compare_exchange_n(&report->claimed, &unclaimed, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        report->site = site;
        report->index = index;
        report->extent = extent;
        report->thread = thread;
    }
}
", cuda r"
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
    if (report != nullptr && atomicCAS(&report->claimed, 0ull, 1ull) == 0) {
        report->site = site;
        report->index = index;
        report->extent = extent;
        report->thread = thread;
    }
}
";
    Bitcast = "bitcast", needs [], r"
template <typename To, typename From>
$FTo bitcast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof(to));
    return to;
}
", cuda r"
template <typename To, typename From>
$FTo bitcast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}
";
    Half = "float16", needs [Bitcast], "";
    Infinity = "inf", needs [], r"
template <typename T>
$FT inf() {
    return T(__builtin_huge_val());
}
", cuda r"
template <typename T>
$FT inf() {
    return T(__longlong_as_double(0x7ff0000000000000ll));
}
";
    NotANumber = "nan", needs [], "
template <typename T>
$FT nan() {
    return T(__builtin_nan(\"\"));
}
", cuda r"
template <typename T>
$FT nan() {
    return T(__longlong_as_double(0x7ff8000000000000ll));
}
";
    Wrap = "wrap", needs [], r"
// An index counted from the start: a negative one counts from the end.
$Fint64 wrap(int64 index, int64 extent) { return index < 0 ? index + extent : index; }
";
    WrapPlace = "wrap_place", needs [], r"
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
    Component = "component", needs [], r"
// The component with this number; 0 if there is none.
template <typename C>
$Fauto component(const C &x, int number) {
    const int n = int(sizeof(x.c) / sizeof(x.c[0]));
    auto found = x.c[0];
    found = 0 <= number && number < n ? x.c[number] : decltype(found)(0);
    return found;
}
";
    SetComponent = "set_component", needs [], r"
// Sets the component with this number, if there is one.
template <typename C, typename T>
$Fvoid set_component(C &x, int number, T value) {
    if (0 <= number && number < int(sizeof(x.c) / sizeof(x.c[0]))) {
        x.c[number] = value;
    }
}
";
    Divide = "divide", needs [], r"
// A quotient, toward zero; 0 if the divisor is 0. The one that is out of range wraps.
template <typename T>
$FT divide(T a, T b) {
    if (b == 0) {
        return 0;
    }
    return b == T(-1) && T(-1) < T(0) ? T(0 - uint64(a)) : T(a / b);
}
";
    Remainder = "remainder", needs [], r"
// What a quotient toward zero leaves; the dividend if the divisor is 0.
template <typename T>
$FT remainder(T a, T b) {
    if (b == 0) {
        return a;
    }
    return b == T(-1) && T(-1) < T(0) ? T(0) : T(a % b);
}
";
    ShiftLeft = "shift_left", needs [], r"
// 0 for counts that are negative or not below the width.
template <typename T>
$FT shift_left(T x, T count) {
    return uint64(count) < 8 * sizeof(T) ? T(uint64(x) << uint64(count)) : T(0);
}
";
    ShiftRight = "shift_right", needs [], r"
// Signed numbers keep their sign; nothing else is left for counts that are negative or not below the width.
template <typename T>
$FT shift_right(T x, T count) {
    if (uint64(count) < 8 * sizeof(T)) {
        return T(x >> count);
    }
    return T(x >> (8 * sizeof(T) - 1) >> (T(-1) < T(0) ? 0 : 1));
}
";
    Truncate = "truncate", needs [], r"
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
    Min = "min", needs [Bitcast], r"
template <typename T>
$FT min(T a, T b) {
    return b < a ? b : a;
}

// A number rather than NaN, and -0 rather than 0.
$Ffloat min(float a, float b) {
    return a != a || (a == b && bitcast<int>(b) < 0) || b < a ? b : a;
}
$Fdouble min(double a, double b) {
    return a != a || (a == b && bitcast<int64>(b) < 0) || b < a ? b : a;
}
", cuda r"
template <typename T>
$FT min(T a, T b) {
    return b < a ? b : a;
}

// A number rather than NaN, and -0 rather than 0.
$Ffloat min(float a, float b) { return fminf(a, b); }
$Fdouble min(double a, double b) { return fmin(a, b); }
";
    Max = "max", needs [Bitcast], r"
template <typename T>
$FT max(T a, T b) {
    return b > a ? b : a;
}

// A number rather than NaN, and 0 rather than -0.
$Ffloat max(float a, float b) {
    return a != a || (a == b && bitcast<int>(b) >= 0) || b > a ? b : a;
}
$Fdouble max(double a, double b) {
    return a != a || (a == b && bitcast<int64>(b) >= 0) || b > a ? b : a;
}
", cuda r"
template <typename T>
$FT max(T a, T b) {
    return b > a ? b : a;
}

// A number rather than NaN, and 0 rather than -0.
$Ffloat max(float a, float b) { return fmaxf(a, b); }
$Fdouble max(double a, double b) { return fmax(a, b); }
";
    Abs = "abs", needs [], r"
// The magnitude of the least integer wraps.
template <typename T>
$FT abs(T x) {
    return x < 0 ? T(0 - uint64(x)) : x;
}
$Ffloat abs(float x) { return __builtin_fabsf(x); }
$Fdouble abs(double x) { return __builtin_fabs(x); }
", cuda r"
// The magnitude of the least integer wraps.
template <typename T>
$FT abs(T x) {
    return x < 0 ? T(0 - uint64(x)) : x;
}
$Ffloat abs(float x) { return fabsf(x); }
$Fdouble abs(double x) { return fabs(x); }
";
    Sqrt = "sqrt", needs [], r"
$Ffloat sqrt(float x) { return __builtin_sqrtf(x); }
$Fdouble sqrt(double x) { return __builtin_sqrt(x); }
", cuda r"
$Ffloat sqrt(float x) { return __fsqrt_rn(x); }
$Fdouble sqrt(double x) { return __dsqrt_rn(x); }
";
    Floor = "floor", needs [], r"
$Ffloat floor(float x) { return __builtin_floorf(x); }
$Fdouble floor(double x) { return __builtin_floor(x); }
", cuda r"
$Ffloat floor(float x) { return floorf(x); }
$Fdouble floor(double x) { return ::floor(x); }
";
    Ceil = "ceil", needs [], r"
$Ffloat ceil(float x) { return __builtin_ceilf(x); }
$Fdouble ceil(double x) { return __builtin_ceil(x); }
", cuda r"
$Ffloat ceil(float x) { return ceilf(x); }
$Fdouble ceil(double x) { return ::ceil(x); }
";
    Trunc = "trunc", needs [], r"
$Ffloat trunc(float x) { return __builtin_truncf(x); }
$Fdouble trunc(double x) { return __builtin_trunc(x); }
", cuda r"
$Ffloat trunc(float x) { return truncf(x); }
$Fdouble trunc(double x) { return ::trunc(x); }
";
    Rint = "rint", needs [], r"
// To the nearest integer, halves to even ones.
$Ffloat rint(float x) { return __builtin_rintf(x); }
$Fdouble rint(double x) { return __builtin_rint(x); }
", cuda r"
// To the nearest integer, halves to even ones.
$Ffloat rint(float x) { return rintf(x); }
$Fdouble rint(double x) { return ::rint(x); }
";
    Fma = "fma", needs [], r"
// A product and a sum, rounded once.
$Ffloat fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
$Fdouble fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
", cuda r"
// A product and a sum, rounded once.
$Ffloat fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
$Fdouble fma(double a, double b, double c) { return __fma_rn(a, b, c); }
";
    Range = "range", needs [], r"
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
    /// Compare-and-swap loops.
    AtomicUpdate = "atomic_update", needs [], r"
// Replaces an element by what is made of it, and gives the old one.
template <typename T, typename F>
$FT atomic_update(T &element, F next_of) {
    T old;
    __atomic_load(&element, &old, __ATOMIC_SEQ_CST);
    T next = next_of(old);
    while (!__atomic_compare_exchange(&element, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        next = next_of(old);
    }
    return old;
}
", cuda r"
// Stores `next` in a place that holds the bits of `old`; gives what it held.
template <typename T>
$FT compare_and_swap(T *place, T old, T next) {
    T found = old;
    if constexpr (sizeof(T) == 8) {
        uint64 bits[2];
        memcpy(&bits[0], &old, 8);
        memcpy(&bits[1], &next, 8);
        const uint64 held = atomicCAS(reinterpret_cast<uint64 *>(place), bits[0], bits[1]);
        memcpy(&found, &held, 8);
    } else if constexpr (sizeof(T) == 4) {
        unsigned int bits[2];
        memcpy(&bits[0], &old, 4);
        memcpy(&bits[1], &next, 4);
        const unsigned int held = atomicCAS(reinterpret_cast<unsigned int *>(place), bits[0], bits[1]);
        memcpy(&found, &held, 4);
    } else {
        // Part of a word, of which the rest stays.
        const uint64 address = reinterpret_cast<uint64>(place);
        unsigned int *word = reinterpret_cast<unsigned int *>(address & ~3ull);
        const unsigned int shift = 8 * (address & 3);
        const unsigned int mask = (sizeof(T) == 2 ? 0xffffu : 0xffu) << shift;
        unsigned int bits[2] = {0, 0};
        memcpy(&bits[0], &old, sizeof(T));
        memcpy(&bits[1], &next, sizeof(T));
        unsigned int held = *reinterpret_cast<volatile unsigned int *>(word);
        while ((held & mask) >> shift == bits[0]) {
            const unsigned int seen = atomicCAS(word, held, (held & ~mask) | bits[1] << shift);
            if (seen == held) {
                break;
            }
            held = seen;
        }
        held = (held & mask) >> shift;
        memcpy(&found, &held, sizeof(T));
    }
    return found;
}

// Replaces an element by what is made of it, and gives the old one.
template <typename T, typename F>
$FT atomic_update(T &element, F next_of) {
    T old;
    memcpy(&old, &element, sizeof(T));
    while (true) {
        const T next = next_of(old);
        const T held = compare_and_swap(&element, old, next);
        if (memcmp(&held, &old, sizeof(T)) == 0) {
            return old;
        }
        old = held;
    }
}
";
    AtomicAdd = "atomic_add", needs [AtomicUpdate], r"
template <typename T>
$FT atomic_add(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old + value); });
}
", cuda r"
template <typename T>
$FT atomic_add(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old + value); });
}
$Ffloat atomic_add(float &element, float value) { return atomicAdd(&element, value); }
$Fdouble atomic_add(double &element, double value) { return atomicAdd(&element, value); }
";
    AtomicSub = "atomic_sub", needs [AtomicUpdate], r"
template <typename T>
$FT atomic_sub(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old - value); });
}
";
    AtomicMin = "atomic_min", needs [AtomicUpdate, Min], r"
template <typename T>
$FT atomic_min(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(min(old, value)); });
}
";
    AtomicMax = "atomic_max", needs [AtomicUpdate, Max], r"
template <typename T>
$FT atomic_max(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(max(old, value)); });
}
";
    AtomicAnd = "atomic_and", needs [AtomicUpdate], r"
template <typename T>
$FT atomic_and(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old & value); });
}
";
    AtomicOr = "atomic_or", needs [AtomicUpdate], r"
template <typename T>
$FT atomic_or(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old | value); });
}
";
    AtomicXor = "atomic_xor", needs [AtomicUpdate], r"
template <typename T>
$FT atomic_xor(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old ^ value); });
}
";
    AtomicExch = "atomic_exch", needs [AtomicUpdate], r"
template <typename T>
$FT atomic_exch(T &element, T value) {
    return atomic_update(element, [=](T) { return value; });
}
";
    AtomicCas = "atomic_cas", needs [AtomicUpdate], r"
// Stores `value` if the element's bits are those of `compare`.
template <typename T>
$FT atomic_cas(T &element, T compare, T value) {
    T old = compare;
    __atomic_compare_exchange(&element, &old, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return old;
}
", cuda r"
// Stores `value` if the element's bits are those of `compare`.
template <typename T>
$FT atomic_cas(T &element, T compare, T value) {
    return compare_and_swap(&element, compare, value);
}
";
    /// Signed sums wrap.
    WrappingAtomics = "atomic_add", needs [AtomicAdd, AtomicSub], r"
$Fint atomic_add(int &element, int value) {
    return atomic_update(element, [=](int old) { return int(0u + old + value); });
}
$Fint64 atomic_add(int64 &element, int64 value) {
    return atomic_update(element, [=](int64 old) { return int64(0ull + old + value); });
}
$Fint atomic_sub(int &element, int value) {
    return atomic_update(element, [=](int old) { return int(0u + old - value); });
}
$Fint64 atomic_sub(int64 &element, int64 value) {
    return atomic_update(element, [=](int64 old) { return int64(0ull + old - value); });
}
", cuda r"
$Fint atomic_add(int &element, int value) { return atomicAdd(&element, value); }
$Fint64 atomic_add(int64 &element, int64 value) {
    return int64(atomicAdd(reinterpret_cast<uint64 *>(&element), uint64(value)));
}
$Fint atomic_sub(int &element, int value) { return atomicSub(&element, value); }
$Fint64 atomic_sub(int64 &element, int64 value) {
    return int64(atomicAdd(reinterpret_cast<uint64 *>(&element), 0 - uint64(value)));
}
";
    CompositeAdd = "atomic_add", needs [CompositeArray, AtomicAdd], r"
// All components, one by one.
template <typename C, typename T, int Axes, int Cols>
$FC atomic_add(const element<C, T, Axes, Cols> &place, const C &value) {
    C old;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        old.c[i] = atomic_add(place.at(i / Cols, i % Cols), value.c[i]);
    }
    return old;
}
";
    CompositeSub = "atomic_sub", needs [CompositeArray, AtomicSub], r"
// All components, one by one.
template <typename C, typename T, int Axes, int Cols>
$FC atomic_sub(const element<C, T, Axes, Cols> &place, const C &value) {
    C old;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        old.c[i] = atomic_sub(place.at(i / Cols, i % Cols), value.c[i]);
    }
    return old;
}
";
    CompositeMin = "atomic_min", needs [CompositeArray, AtomicMin], r"
// All components, one by one.
template <typename C, typename T, int Axes, int Cols>
$FC atomic_min(const element<C, T, Axes, Cols> &place, const C &value) {
    C old;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        old.c[i] = atomic_min(place.at(i / Cols, i % Cols), value.c[i]);
    }
    return old;
}
";
    CompositeMax = "atomic_max", needs [CompositeArray, AtomicMax], r"
// All components, one by one.
template <typename C, typename T, int Axes, int Cols>
$FC atomic_max(const element<C, T, Axes, Cols> &place, const C &value) {
    C old;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        old.c[i] = atomic_max(place.at(i / Cols, i % Cols), value.c[i]);
    }
    return old;
}
";
}

/// The 16-bit floats: numbers that are rounded after every operation.
pub(super) fn half(name: &str) -> String {
    let conversions = match name {
        "float16" => FLOAT16,
        _ => BFLOAT16,
    };
    format!("{conversions}{}", HALF_OPERATORS.replace("$T", name))
}

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

const HALF_OPERATORS: &str = r"
$F$T operator+($T a, $T b) { return $T(float(a) + float(b)); }
$F$T operator-($T a, $T b) { return $T(float(a) - float(b)); }
$F$T operator*($T a, $T b) { return $T(float(a) * float(b)); }
$F$T operator/($T a, $T b) { return $T(float(a) / float(b)); }
$F$T operator-($T a) { return $T(-float(a)); }
";
