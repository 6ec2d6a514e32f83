//! Atomic updates of the prelude.
//!
//! Where a CUDA text has updates at other scopes than the device's, those that are loops are templates of the scope:
//! `$S` stands among a template's parameters and `$C` behind the names of functions that are called.

use super::{Helper, HelperPart};
use polyloom_ir::Scalar;
use polyloom_ir::Scalar::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

const UPDATE: &[Helper] = &[Helper::AtomicUpdate];

pub(super) const ATOMIC_UPDATE: &str = r"
// Replaces an element by what is made of it, and gives the old one.
template <$Stypename T, typename F>
$FT atomic_update(T &element, F next_of) {
    T old;
    __atomic_load(&element, &old, __ATOMIC_SEQ_CST);
    T next = next_of(old);
    while (!__atomic_compare_exchange(&element, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        next = next_of(old);
    }
    return old;
}
";

pub(super) const ATOMIC_SCOPES: &str = r"
// Whose accesses an atomic update is one with.
enum memory_scope { block_scope, device_scope, system_scope };

template <memory_scope Scope, typename T>
$FT scoped_swap(T *place, T old, T next) {
    return Scope == block_scope    ? atomicCAS_block(place, old, next)
           : Scope == system_scope ? atomicCAS_system(place, old, next)
                                   : atomicCAS(place, old, next);
}
";

pub(super) const COMPARE_AND_SWAP_CUDA: &str = r"
template <$Stypename W, typename T>
$FT swap_words(T *place, T old, T next) {
    W bits[2];
    memcpy(&bits[0], &old, sizeof(W));
    memcpy(&bits[1], &next, sizeof(W));
    const W held = $X(reinterpret_cast<W *>(place), bits[0], bits[1]);
    memcpy(&old, &held, sizeof(W));
    return old;
}

// Stores `next` in a place that holds the bits of `old`; gives what it held.
template <$Stypename T>
$FT compare_and_swap(T *place, T old, T next) {
    if constexpr (sizeof(T) == 8) {
        return swap_words<$Uuint64>(place, old, next);
    } else if constexpr (sizeof(T) == 4) {
        return swap_words<$Uunsigned int>(place, old, next);
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
            const unsigned int seen = $X(word, held, (held & ~mask) | bits[1] << shift);
            if (seen == held) {
                break;
            }
            held = seen;
        }
        held = (held & mask) >> shift;
        memcpy(&old, &held, sizeof(T));
        return old;
    }
}
";

pub(super) const ATOMIC_UPDATE_CUDA: &str = r"
template <typename W, typename T>
$FT volatile_word(const T *place) {
    const W bits = *reinterpret_cast<const volatile W *>(place);
    T value;
    memcpy(&value, &bits, sizeof(W));
    return value;
}

// What a place holds, whoever updates it meanwhile.
template <typename T>
$FT held_now(const T *place) {
    if constexpr (sizeof(T) == 8) {
        return volatile_word<uint64>(place);
    } else if constexpr (sizeof(T) == 4) {
        return volatile_word<unsigned int>(place);
    } else if constexpr (sizeof(T) == 2) {
        return volatile_word<unsigned short>(place);
    } else {
        return volatile_word<unsigned char>(place);
    }
}

// Replaces an element by what is made of it, and gives the old one.
template <$Stypename T, typename F>
$FT atomic_update(T &element, F next_of) {
    T old = held_now(&element);
    while (true) {
        const T next = next_of(old);
        const T held = compare_and_swap$C(&element, old, next);
        uint64 bits[2] = {0, 0};
        memcpy(&bits[0], &held, sizeof(T));
        memcpy(&bits[1], &old, sizeof(T));
        if (bits[0] == bits[1]) {
            return old;
        }
        old = held;
    }
}
";

/// An update of an element to `$next`, made of what is there, `old`, and `value`.
macro_rules! update {
    ($(#$comment:literal,)? $name:literal, $next:literal) => {
        concat!(
            "\n",
            $("// ", $comment, "\n",)?
            "template <$Stypename T>
$FT ",
            $name,
            "(T &element, T value) {
    return atomic_update$C(element, [=](T old) { return ",
            $next,
            "; });
}
"
        )
    };
}

/// An update of signed integers, computed in unsigned ones.
macro_rules! wrapping {
    ($ty:literal, $zero:literal, $name:literal, $sign:literal) => {
        concat!(
            "
$W$F",
            $ty,
            " ",
            $name,
            "(",
            $ty,
            " &element, ",
            $ty,
            " value) {
    return atomic_update$C(element, [=](",
            $ty,
            " old) { return ",
            $ty,
            "(",
            $zero,
            " + old ",
            $sign,
            " value); });
}
"
        )
    };
}

/// The types whose sums are computed as they are.
const NOT_WRAPPING: &[Scalar] = &[U8, I8, U16, I16, U32, U64, F16, BF16, F32, F64];

pub(super) const ATOMIC_ADD: &[HelperPart] = &[
    HelperPart { types: NOT_WRAPPING, needs: UPDATE, text: update!("atomic_add", "T(old + value)") },
    HelperPart { types: &[I32], needs: UPDATE, text: wrapping!("int", "0u", "atomic_add", "+") },
    HelperPart { types: &[I64], needs: UPDATE, text: wrapping!("int64", "0ull", "atomic_add", "+") },
];

pub(super) const ATOMIC_SUB: &[HelperPart] = &[
    HelperPart { types: NOT_WRAPPING, needs: UPDATE, text: update!("atomic_sub", "T(old - value)") },
    HelperPart { types: &[I32], needs: UPDATE, text: wrapping!("int", "0u", "atomic_sub", "-") },
    HelperPart { types: &[I64], needs: UPDATE, text: wrapping!("int64", "0ull", "atomic_sub", "-") },
];

/// An update that CUDA has a function for.
macro_rules! native {
    ($ty:ident, $text:literal) => {
        HelperPart { types: &[$ty], needs: &[], text: $text }
    };
}

pub(super) const ATOMIC_ADD_CUDA: &[HelperPart] = &[
    HelperPart {
        types: &[U8, I8, U16, I16, U32, U64, F16, BF16],
        needs: UPDATE,
        text: update!("atomic_add", "T(old + value)"),
    },
    native!(F32, "\n$Ffloat atomic_add(float &element, float value) { return atomicAdd(&element, value); }\n"),
    native!(F64, "\n$Fdouble atomic_add(double &element, double value) { return atomicAdd(&element, value); }\n"),
    native!(I32, "\n$Fint atomic_add(int &element, int value) { return atomicAdd(&element, value); }\n"),
    native!(
        I64,
        "
$Fint64 atomic_add(int64 &element, int64 value) {
    return int64(atomicAdd(reinterpret_cast<uint64 *>(&element), uint64(value)));
}
"
    ),
];

pub(super) const ATOMIC_SUB_CUDA: &[HelperPart] = &[
    HelperPart { types: NOT_WRAPPING, needs: UPDATE, text: update!("atomic_sub", "T(old - value)") },
    native!(I32, "\n$Fint atomic_sub(int &element, int value) { return atomicSub(&element, value); }\n"),
    native!(
        I64,
        "
$Fint64 atomic_sub(int64 &element, int64 value) {
    return int64(atomicAdd(reinterpret_cast<uint64 *>(&element), 0 - uint64(value)));
}
"
    ),
];

pub(super) const ATOMIC_MIN: &str = update!("atomic_min", "T(min(old, value))");
pub(super) const ATOMIC_MAX: &str = update!("atomic_max", "T(max(old, value))");
pub(super) const ATOMIC_AND: &str = update!("atomic_and", "T(old & value)");
pub(super) const ATOMIC_OR: &str = update!("atomic_or", "T(old | value)");
pub(super) const ATOMIC_XOR: &str = update!("atomic_xor", "T(old ^ value)");
pub(super) const ATOMIC_INC: &str =
    update!(# "Counts up to `value` and starts again at 0.", "atomic_inc", "old >= value ? T(0) : T(old + 1)");
pub(super) const ATOMIC_DEC: &str = update!(
    # "Counts down to 0 and starts again at `value`.",
    "atomic_dec",
    "old == 0 || old > value ? value : T(old - 1)"
);

pub(super) const ATOMIC_EXCH: &str = r"
template <$Stypename T>
$FT atomic_exch(T &element, T value) {
    return atomic_update$C(element, [=](T) { return value; });
}
";

pub(super) const ATOMIC_CAS: &str = r"
// Stores `value` if the element's bits are those of `compare`.
template <typename T>
$FT atomic_cas(T &element, T compare, T value) {
    T old = compare;
    __atomic_compare_exchange(&element, &old, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return old;
}
";

pub(super) const ATOMIC_CAS_CUDA: &str = r"
// Stores `value` if the element's bits are those of `compare`.
template <$Stypename T>
$FT atomic_cas(T &element, T compare, T value) {
    return compare_and_swap$C(&element, compare, value);
}
";

/// An update of an element of an array of composites, by updates of its components.
macro_rules! by_components {
    ($name:literal) => {
        concat!(
            "
// All components, one by one.
template <$Stypename C, typename T, int Axes, int Cols>
$FC ",
            $name,
            "(const element<C, T, Axes, Cols> &place, const C &value) {
    C old;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        old.c[i] = ",
            $name,
            "$C(place.at(i / Cols, i % Cols), value.c[i]);
    }
    return old;
}
"
        )
    };
}

/// The same of a shared array, whose elements are the composites themselves.
macro_rules! by_shared_components {
    ($name:literal) => {
        concat!(
            "
// All components, one by one.
template <$Stemplate <typename, int...> class C, typename T, int... Extents>
$FC<T, Extents...> ",
            $name,
            "(C<T, Extents...> &place, C<T, Extents...> value) {
    C<T, Extents...> old;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        old.c[i] = ",
            $name,
            "$C(place.c[i], value.c[i]);
    }
    return old;
}
"
        )
    };
}

pub(super) const COMPOSITE_ADD: &str = by_components!("atomic_add");
pub(super) const COMPOSITE_SUB: &str = by_components!("atomic_sub");
pub(super) const COMPOSITE_MIN: &str = by_components!("atomic_min");
pub(super) const COMPOSITE_MAX: &str = by_components!("atomic_max");
pub(super) const SHARED_COMPOSITE_ADD: &str = by_shared_components!("atomic_add");
pub(super) const SHARED_COMPOSITE_SUB: &str = by_shared_components!("atomic_sub");
pub(super) const SHARED_COMPOSITE_MIN: &str = by_shared_components!("atomic_min");
pub(super) const SHARED_COMPOSITE_MAX: &str = by_shared_components!("atomic_max");
