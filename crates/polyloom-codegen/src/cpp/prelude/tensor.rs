//! Functions of the prelude for the tensor core, copies in the background and read-only loads: CUDA C++ alone.

pub(super) const FRAGMENT_PLACE: &str = r#"
// Which of a matrix's elements a lane has, by the element's number in the lane's part (PTX ISA 9.0, section 9.7.14.5):
// of 16 x 16 factors a, and of 16 x n factors b and sums c, whose columns come in eights.
struct fragment_place {
    int row;
    int col;
};
"#;

pub(super) const PLACE_IN_A: &str = r#"
template <int Bytes>
$Ffragment_place place_in_a(int i) {
    const int group = lane_id() / 4;
    const int member = lane_id() % 4;
    return Bytes == 1   ? fragment_place{group + i / 4 * 8, member * 4 + i % 4}
           : Bytes == 2 ? fragment_place{group + i / 2 % 2 * 8, member * 2 + i % 2 + i / 4 * 8}
                        : fragment_place{group + i % 2 * 8, member + i / 2 % 2 * 4 + i / 4 * 8};
}
"#;

pub(super) const PLACE_IN_B: &str = r#"
template <int Bytes>
$Ffragment_place place_in_b(int i) {
    const int member = lane_id() % 4;
    const int row = Bytes == 1   ? member * 4 + i % 4
                    : Bytes == 2 ? member * 2 + i % 2 + i / 2 % 2 * 8
                                 : member + i % 2 * 4 + i / 2 % 2 * 8;
    return {row, lane_id() / 4 + i / 4 * 8};
}
"#;

pub(super) const PLACE_IN_C: &str = r#"
$Ffragment_place place_in_c(int i) {
    return {lane_id() / 4 + i / 2 % 2 * 8, lane_id() % 4 * 2 + i % 2 + i / 4 * 8};
}
"#;

pub(super) const FRAGMENT_ELEMENT: &str = r#"
// Whether an array is indexed by a matrix's row first.
enum fragment_layout { by_rows, by_columns };

template <fragment_layout L, typename T>
$FT &fragment_element(const array<T, 2> &m, int row, int col, fragment_place place) {
    const int64 first = L == by_rows ? row + place.row : col + place.col;
    const int64 second = L == by_rows ? col + place.col : row + place.row;
    return m(wrap(first, m.shape[0]), wrap(second, m.shape[1]));
}
"#;

pub(super) const MMA_LOAD_A: &str = r#"
// The lane's part of the 16 x 16 matrix that begins at this row and column.
template <fragment_layout L = by_rows, typename T>
$Fvec<T, 8> mma_load_a(const array<T, 2> &m, int row, int col) {
    vec<T, 8> part;
    for (int i = 0; i < 8; ++i) {
        part[i] = fragment_element<L>(m, row, col, place_in_a<sizeof(T)>(i));
    }
    return part;
}
"#;

pub(super) const MMA_LOAD_B: &str = r#"
// The lane's part of the 16 x N factor that begins at this row and column.
template <int N, fragment_layout L = by_rows, typename T>
$Fvec<T, N / 2> mma_load_b(const array<T, 2> &m, int row, int col) {
    vec<T, N / 2> part;
    for (int i = 0; i < N / 2; ++i) {
        part[i] = fragment_element<L>(m, row, col, place_in_b<sizeof(T)>(i));
    }
    return part;
}
"#;

pub(super) const MMA_LOAD_C: &str = r#"
// The lane's part of the 16 x N sum that begins at this row and column.
template <int N, fragment_layout L = by_rows, typename T>
$Fvec<T, N / 2> mma_load_c(const array<T, 2> &m, int row, int col) {
    vec<T, N / 2> part;
    for (int i = 0; i < N / 2; ++i) {
        part[i] = fragment_element<L>(m, row, col, place_in_c(i));
    }
    return part;
}
"#;

pub(super) const MMA_STORE: &str = r#"
// Stores the lane's part of a sum, from this row and column on.
template <fragment_layout L = by_rows, typename T, int Half>
$Fvoid mma_store(const array<T, 2> &m, int row, int col, const vec<T, Half> &part) {
    for (int i = 0; i < Half; ++i) {
        fragment_element<L>(m, row, col, place_in_c(i)) = part[i];
    }
}
"#;

pub(super) const MMA: &str = r#"
// Some elements of 8 or 16 bits in one register.
template <typename T>
$Funsigned int packed(const T *first) {
    unsigned int word;
    memcpy(&word, first, 4);
    return word;
}
"#;

pub(super) const MMA_F16: &str = r#"
// a * b + c for 8 columns of b, of which the lanes of the warp have their parts.
$Fvoid mma_8_columns(const float16 *a, const float16 *b, float *c) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    // Half of the rows of b at a time.
    for (int half = 0; half < 2; ++half) {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(packed(a + 4 * half)), "r"(packed(a + 4 * half + 2)), "r"(packed(b + 2 * half)));
    }
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(packed(a)), "r"(packed(a + 2)), "r"(packed(a + 4)), "r"(packed(a + 6)), "r"(packed(b)),
          "r"(packed(b + 2)));
#endif
}
"#;

pub(super) const MMA_BF16: &str = r#"
// a * b + c for 8 columns of b, of which the lanes of the warp have their parts.
$Fvoid mma_8_columns(const bfloat16 *a, const bfloat16 *b, float *c) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(packed(a)), "r"(packed(a + 2)), "r"(packed(a + 4)), "r"(packed(a + 6)), "r"(packed(b)),
          "r"(packed(b + 2)));
}
"#;

pub(super) const MMA_TF32: &str = r#"
// A float cut to tf32, which has 10 bits of mantissa.
$Funsigned int tf32(float x) { return __float_as_uint(x) & 0xffffe000u; }

// a * b + c for 8 columns of b, of which the lanes of the warp have their parts; half of the rows of b at a time.
$Fvoid mma_8_columns(const float *a, const float *b, float *c) {
    for (int half = 0; half < 2; ++half) {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(tf32(a[4 * half])), "r"(tf32(a[4 * half + 1])), "r"(tf32(a[4 * half + 2])),
              "r"(tf32(a[4 * half + 3])), "r"(tf32(b[2 * half])), "r"(tf32(b[2 * half + 1])));
    }
}
"#;

/// Products of bytes: the type in C++ and in PTX.
macro_rules! mma_of_bytes {
    ($ty:literal, $ptx:literal) => {
        concat!(
            "
// a * b + c for 8 columns of b, of which the lanes of the warp have their parts.
$Fvoid mma_8_columns(const ",
            $ty,
            " *a, const ",
            $ty,
            " *b, int *c) {
    asm volatile(
        \"mma.sync.aligned.m16n8k16.row.col.s32.",
            $ptx,
            ".",
            $ptx,
            ".s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\"
        : \"+r\"(c[0]), \"+r\"(c[1]), \"+r\"(c[2]), \"+r\"(c[3])
        : \"r\"(packed(a)), \"r\"(packed(a + 4)), \"r\"(packed(b)));
}
"
        )
    };
}

pub(super) const MMA_I8: &str = mma_of_bytes!("int8", "s8");
pub(super) const MMA_U8: &str = mma_of_bytes!("uint8", "u8");

pub(super) const MMA_PRODUCT: &str = r#"
template <typename T, typename S, int Half>
$Fvec<S, Half> mma(const vec<T, 8> &a, const vec<T, Half> &b, vec<S, Half> c) {
    for (int first = 0; first < Half; first += 4) {
        mma_8_columns(a.c, b.c + first, c.c + first);
    }
    return c;
}
"#;

/// A copy in the background: its name, what is special about it, and its assembly for elements that follow each other.
macro_rules! async_copy {
    ($name:literal, $comment:literal, $assembly:literal) => {
        concat!(
            "\n// Begins to copy elements that follow each other from global to shared memory",
            $comment,
            ". Those that are apart,\n// or not at multiples of the bytes they are, are copied at once.\n\
             template <int Count, typename T>\n$Fvoid ",
            $name,
            "(T *to, const T *from, int64 stride) {
    constexpr int bytes = Count * int(sizeof(T));
    const unsigned int target = (unsigned int)__cvta_generic_to_shared(to);
    if (Count > 1 && (stride != int64(sizeof(T)) || (target | uint64(from)) % bytes != 0)) {
        for (int i = 0; i < Count; ++i) {
            to[i] = *reinterpret_cast<const T *>(reinterpret_cast<const char *>(from) + i * stride);
        }
    } else {
        asm volatile(\"",
            $assembly,
            "\" ::\"r\"(target), \"l\"(from), \"n\"(bytes) : \"memory\");
    }
}
"
        )
    };
}

pub(super) const ASYNC_COPY: &str = async_copy!("async_copy", "", "cp.async.ca.shared.global [%0], [%1], %2;");

pub(super) const ASYNC_COPY_L2: &str = async_copy!(
    "async_copy_l2",
    ", past the\n// multiprocessor's own cache",
    "cp.async.cg.shared.global [%0], [%1], %2;"
);

/// The target's address gets bits of the source's that are zero, because ptxas does not know that they are: a target at a
/// uniform register and an offset is encoded wrongly beside a policy (CUDA 13.0 for sm_90: an illegal instruction).
pub(super) const ASYNC_COPY_STREAMING: &str = async_copy!(
    "async_copy_streaming",
    ", to be\n// the first that makes room in the caches",
    "{ .reg .b64 policy; .reg .b32 to; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; \
     cvt.u32.u64 to, %1; and.b32 to, to, 3; or.b32 to, to, %0; \
     cp.async.ca.shared.global.L2::cache_hint [to], [%1], %2, policy; }"
);

pub(super) const ASYNC_COMMIT: &str = r#"
// Makes a group of the copies begun since the last one.
$Fvoid async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
"#;

pub(super) const ASYNC_WAIT: &str = r#"
// Waits until at most so many groups of copies are under way.
template <int Pending>
$Fvoid async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
"#;

pub(super) const NAMED_BARRIER: &str = r#"
// Waits until so many threads of the block, those of whole warps, have come to a barrier of this number.
template <int Id, int Count>
$Fvoid named_barrier() {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"n"(Id), "n"(Count) : "memory");
}
"#;

pub(super) const LOAD_READONLY: &str = r#"
// Loads past the cache for what may change, of types that `__ldg` does not take.
template <typename T>
$FT load_readonly(const T &x) {
    static_assert(sizeof(T) <= 2);
    T value;
    if constexpr (sizeof(T) == 1) {
        const unsigned char byte = __ldg(reinterpret_cast<const unsigned char *>(&x));
        memcpy(&value, &byte, 1);
    } else {
        const unsigned short bits = __ldg(reinterpret_cast<const unsigned short *>(&x));
        memcpy(&value, &bits, 2);
    }
    return value;
}
"#;

pub(super) const LOAD_READONLY_COMPOSITE: &str = r#"
template <typename C, typename T, int Axes, int Cols>
$FC load_readonly(const element<C, T, Axes, Cols> &x) {
    C value;
    for (int i = 0; i < int(sizeof(value.c) / sizeof(value.c[0])); ++i) {
        if constexpr (sizeof(T) >= 4) {
            value.c[i] = __ldg(&x.at(i / Cols, i % Cols));
        } else {
            value.c[i] = load_readonly(x.at(i / Cols, i % Cols));
        }
    }
    return value;
}
"#;
