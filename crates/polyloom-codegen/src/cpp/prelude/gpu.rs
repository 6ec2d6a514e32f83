//! What the prelude has for blocks, warps and shared memory: for CUDA C++, but for what runs a block at a time.

use super::HelperPart;
use polyloom_ir::Scalar::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

pub(super) const LAUNCH_BLOCKS: &str = r"
// How a launch is divided: blocks along each axis, threads of a block along each axis, bytes of dynamic shared memory.
struct launch_blocks {
    int grid[3];
    int block[3];
    int shared_bytes;

    int size() const { return block[0] * block[1] * block[2]; }
    // A block's coordinate along an axis.
    int index(uint64 number, int axis) const {
        for (int outer = 0; outer < axis; ++outer) {
            number /= grid[outer];
        }
        return int(axis == 2 ? number : number % grid[axis]);
    }
};
";

pub(super) const DYNAMIC_MEMORY: &str = r"
// Dynamic shared memory, zero at first, as elements of any type: by their number or by the byte they begin at.
struct dynamic_memory {
    unsigned char *bytes;

    explicit dynamic_memory(int size) : bytes(new unsigned char[size]()) {}
    dynamic_memory(const dynamic_memory &) = delete;
    ~dynamic_memory() { delete[] bytes; }
    template <typename T>
    T load_at(int64 place) const {
        T value;
        __builtin_memcpy(&value, bytes + place, sizeof(T));
        return value;
    }
    template <typename T>
    void store_at(int64 place, T value) const {
        __builtin_memcpy(bytes + place, &value, sizeof(T));
    }
    template <typename T>
    T load(int64 number) const {
        return load_at<T>(number * int64(sizeof(T)));
    }
    template <typename T>
    void store(int64 number, T value) const {
        store_at<T>(number * int64(sizeof(T)), value);
    }
};
";

pub(super) const THREAD_IN_BLOCK: &str = r"
// The thread's number in its block: threads are counted along x first.
$Funsigned int thread_in_block() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
";

pub(super) const THREAD_NUMBER: &str = r"
// The thread's number in the launch, of which each block has the next part.
$Fuint64 thread_number() {
    const uint64 block = blockIdx.x + uint64(gridDim.x) * (blockIdx.y + uint64(gridDim.y) * blockIdx.z);
    return block * (blockDim.x * blockDim.y * blockDim.z) + thread_in_block();
}
";

pub(super) const LANE_ID: &str = r"
$Fint lane_id() { return int(thread_in_block() % 32); }
";

pub(super) const WARP_ID: &str = r"
$Fint warp_id() { return int(thread_in_block() / 32); }
";

pub(super) const DYNAMIC_SHARED: &str = r"
extern __shared__ __align__(16) unsigned char dynamic_shared[];
";

pub(super) const SHARED_VIEW: &str = r"
// A dense array in shared memory, the components of its elements among the extents.
template <typename A, typename... Extents>
$FA shared_view(void *data, Extents... extents) {
    A view;
    const int64 all[] = {int64(extents)...};
    int64 stride = sizeof(*view.data);
    for (int axis = int(sizeof...(extents)) - 1; axis >= 0; --axis) {
        view.shape[axis] = all[axis];
        view.strides[axis] = stride;
        stride *= all[axis];
    }
    view.data = static_cast<decltype(view.data)>(data);
    return view;
}
";

pub(super) const COMPONENTS: &str = r"
// What is made of each component.
template <typename C, typename F>
$FC components(C x, F f) {
    for (int i = 0; i < int(sizeof(x.c) / sizeof(x.c[0])); ++i) {
        x.c[i] = f(x.c[i]);
    }
    return x;
}
";

/// Another lane's value, by the type that `shuffle` is given.
macro_rules! other_lane {
    ($name:literal, $function:literal, $which:literal) => {
        concat!(
            "
struct ",
            $name,
            " {
    static $Munsigned int get(unsigned int x, int ",
            $which,
            ", int width) {
        return ",
            $function,
            "(0xffffffffu, x, ",
            $which,
            ", width);
    }
};
"
        )
    };
}

pub(super) const FROM_LANE: &str = other_lane!("from_lane", "__shfl_sync", "lane");
pub(super) const FROM_BEFORE: &str = other_lane!("from_before", "__shfl_up_sync", "delta");
pub(super) const FROM_BEHIND: &str = other_lane!("from_behind", "__shfl_down_sync", "delta");
pub(super) const FROM_FLIPPED: &str = other_lane!("from_flipped", "__shfl_xor_sync", "mask");

pub(super) const SHUFFLE: &str = r"
// Values of other lanes, of types that CUDA has no shuffle for: 32 bits at a time.
template <typename From, typename T>
$FT shuffle(T x, int lane, int width = 32) {
    unsigned int words[(sizeof(T) + 3) / 4] = {};
    memcpy(words, &x, sizeof(T));
    for (unsigned int &word : words) {
        word = From::get(word, lane, width);
    }
    memcpy(&x, words, sizeof(T));
    return x;
}
";

pub(super) const MATCH_ANY: &str = r"
// The lanes that have the bits of this one's value.
template <typename T>
$Funsigned int match_any(T x) {
    uint64 bits = 0;
    memcpy(&bits, &x, sizeof(T));
    return __match_any_sync(0xffffffffu, bits);
}
";

pub(super) const MATCH_ALL: &str = r"
// The lanes there are, if the bits of all their values are the same; else 0.
template <typename T>
$Funsigned int match_all(T x) {
    uint64 bits = 0;
    memcpy(&bits, &x, sizeof(T));
    int all = 0;
    const unsigned int lanes = __ballot_sync(0xffffffffu, 1);
    __match_all_sync(lanes, bits, &all);
    return all != 0 ? lanes : 0;
}
";

pub(super) const WARP_REDUCE: &str = r"
// Combines the values of all lanes there are, as a tree: each lane with that 16 behind, then 8, 4, 2 and 1. Where some
// have ended that others follow, one after the other.
template <typename T, typename F>
$FT warp_reduce(T x, F combine) {
    const unsigned int lanes = __ballot_sync(0xffffffffu, 1);
    if ((lanes & (lanes + 1)) != 0) {
        T all = shuffle<from_lane>(x, __ffs(lanes) - 1);
        for (unsigned int rest = lanes & (lanes - 1); rest != 0; rest &= rest - 1) {
            all = combine(all, shuffle<from_lane>(x, __ffs(rest) - 1));
        }
        return all;
    }
    const int lane = int(thread_in_block() % 32);
    for (int delta = 16; delta > 0; delta /= 2) {
        const T other = shuffle<from_behind>(x, delta);
        if (lane + delta < 32 && (lanes >> (lane + delta) & 1) != 0) {
            x = combine(x, other);
        }
    }
    return shuffle<from_lane>(x, 0);
}
";

/// A reduction over a warp by what is made of two values, `a` and `b`.
macro_rules! warp_reduction {
    ($name:literal, $combined:literal) => {
        concat!(
            "
template <typename T>
$FT ",
            $name,
            "(T x) {
    return warp_reduce(x, [](T a, T b) { return ",
            $combined,
            "; });
}
"
        )
    };
}

// Sums of integers wrap.
pub(super) const WARP_REDUCE_ADD: &[HelperPart] = &[
    HelperPart {
        types: &[U8, I8, U16, I16, U32, U64, F16, BF16, F32, F64],
        needs: &[],
        text: warp_reduction!("warp_reduce_add", "T(a + b)"),
    },
    HelperPart {
        types: &[I32],
        needs: &[],
        text: "
$Fint warp_reduce_add(int x) {
    return warp_reduce(x, [](int a, int b) { return int(0u + a + b); });
}
",
    },
    HelperPart {
        types: &[I64],
        needs: &[],
        text: "
$Fint64 warp_reduce_add(int64 x) {
    return warp_reduce(x, [](int64 a, int64 b) { return int64(0ull + a + b); });
}
",
    },
];
pub(super) const WARP_REDUCE_MIN: &str = warp_reduction!("warp_reduce_min", "min(a, b)");
pub(super) const WARP_REDUCE_MAX: &str = warp_reduction!("warp_reduce_max", "max(a, b)");
pub(super) const WARP_REDUCE_AND: &str = warp_reduction!("warp_reduce_and", "T(a & b)");
pub(super) const WARP_REDUCE_OR: &str = warp_reduction!("warp_reduce_or", "T(a | b)");
pub(super) const WARP_REDUCE_XOR: &str = warp_reduction!("warp_reduce_xor", "T(a ^ b)");
