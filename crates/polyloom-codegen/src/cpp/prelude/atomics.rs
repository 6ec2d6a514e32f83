//! Atomic updates of the prelude.

pub(super) const ATOMIC_UPDATE: &str = r"
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
";

pub(super) const ATOMIC_UPDATE_CUDA: &str = r"
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

pub(super) const ATOMIC_ADD: &str = r"
template <typename T>
$FT atomic_add(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old + value); });
}
";

pub(super) const ATOMIC_ADD_CUDA: &str = r"
template <typename T>
$FT atomic_add(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old + value); });
}
$Ffloat atomic_add(float &element, float value) { return atomicAdd(&element, value); }
$Fdouble atomic_add(double &element, double value) { return atomicAdd(&element, value); }
";

pub(super) const ATOMIC_SUB: &str = r"
template <typename T>
$FT atomic_sub(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old - value); });
}
";

pub(super) const ATOMIC_MIN: &str = r"
template <typename T>
$FT atomic_min(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(min(old, value)); });
}
";

pub(super) const ATOMIC_MAX: &str = r"
template <typename T>
$FT atomic_max(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(max(old, value)); });
}
";

pub(super) const ATOMIC_AND: &str = r"
template <typename T>
$FT atomic_and(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old & value); });
}
";

pub(super) const ATOMIC_OR: &str = r"
template <typename T>
$FT atomic_or(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old | value); });
}
";

pub(super) const ATOMIC_XOR: &str = r"
template <typename T>
$FT atomic_xor(T &element, T value) {
    return atomic_update(element, [=](T old) { return T(old ^ value); });
}
";

pub(super) const ATOMIC_EXCH: &str = r"
template <typename T>
$FT atomic_exch(T &element, T value) {
    return atomic_update(element, [=](T) { return value; });
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
template <typename T>
$FT atomic_cas(T &element, T compare, T value) {
    return compare_and_swap(&element, compare, value);
}
";

pub(super) const WRAPPING_ATOMICS: &str = r"
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
";

pub(super) const WRAPPING_ATOMICS_CUDA: &str = r"
$Fint atomic_add(int &element, int value) { return atomicAdd(&element, value); }
$Fint64 atomic_add(int64 &element, int64 value) {
    return int64(atomicAdd(reinterpret_cast<uint64 *>(&element), uint64(value)));
}
$Fint atomic_sub(int &element, int value) { return atomicSub(&element, value); }
$Fint64 atomic_sub(int64 &element, int64 value) {
    return int64(atomicAdd(reinterpret_cast<uint64 *>(&element), 0 - uint64(value)));
}
";

/// An update of an element of an array of composites, by updates of its components.
macro_rules! by_components {
    ($name:literal) => {
        concat!(
            "
// All components, one by one.
template <typename C, typename T, int Axes, int Cols>
$FC ",
            $name,
            "(const element<C, T, Axes, Cols> &place, const C &value) {
    C old;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        old.c[i] = ",
            $name,
            "(place.at(i / Cols, i % Cols), value.c[i]);
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
template <template <typename, int...> class C, typename T, int... Extents>
$FC<T, Extents...> ",
            $name,
            "(C<T, Extents...> &place, C<T, Extents...> value) {
    C<T, Extents...> old;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        old.c[i] = ",
            $name,
            "(place.c[i], value.c[i]);
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

pub(super) const ATOMIC_INC: &str = r"
// Counts up to `value` and starts again at 0.
template <typename T>
$FT atomic_inc(T &element, T value) {
    return atomic_update(element, [=](T old) { return old >= value ? T(0) : T(old + 1); });
}
";

pub(super) const ATOMIC_DEC: &str = r"
// Counts down to 0 and starts again at `value`.
template <typename T>
$FT atomic_dec(T &element, T value) {
    return atomic_update(element, [=](T old) { return old == 0 || old > value ? value : T(old - 1); });
}
";
