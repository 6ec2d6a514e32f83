//! The prelude: what texts rely on, written out in those that do.
//!
//! `$F` stands before functions and `$M` before member functions for what the target wants there. What `strict`
//! arithmetic computes, `polyloom_ir::eval` says; these functions follow it.

mod arithmetic;
mod atomics;
mod gpu;
mod tensor;
mod types;

use super::target::TextTarget;
use polyloom_ir::Scalar;

/// The types that a helper is used with.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TypeSet(u16);

impl TypeSet {
    /// This type alone.
    pub(super) fn of(ty: Scalar) -> TypeSet {
        TypeSet(1 << ty as u16)
    }

    /// Adds those of another set.
    pub(super) fn add(&mut self, other: TypeSet) {
        self.0 |= other.0;
    }

    fn contains(self, ty: Scalar) -> bool {
        self.0 & TypeSet::of(ty).0 != 0
    }
}

/// A part of a helper's text, for some types.
pub(super) struct HelperPart {
    /// The types that a text uses the helper with for the part to be written; if there are none, it always is.
    pub types: &'static [Scalar],
    /// Holds what it relies on for these types beside what the helper does.
    pub needs: &'static [Helper],
    /// Its text.
    pub text: &'static str,
}

impl HelperPart {
    /// Returns true if it is written for a helper that is used with these types.
    pub(super) fn is_for(&self, types: TypeSet) -> bool {
        self.types.is_empty() || self.types.iter().any(|&ty| types.contains(ty))
    }
}

/// A helper's text.
#[derive(Clone, Copy)]
pub(super) enum HelperText {
    /// The same for all types.
    Whole(&'static str),
    /// By the types that it is used with.
    ByType(&'static [HelperPart]),
}

impl From<&'static str> for HelperText {
    fn from(text: &'static str) -> HelperText {
        HelperText::Whole(text)
    }
}

impl From<&'static [HelperPart]> for HelperText {
    fn from(parts: &'static [HelperPart]) -> HelperText {
        HelperText::ByType(parts)
    }
}

macro_rules! helpers {
    ($($(#[doc = $doc:literal])* $helper:ident = $name:literal, needs [$($needed:ident),*], $cpp:expr $(, cuda $cuda:expr)?;)*) => {
        /// A piece of the prelude. Pieces are written in this order.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub(super) enum Helper {
            $($(#[doc = $doc])* $helper,)*
        }

        impl Helper {
            /// Holds what all of them define.
            pub(super) const NAMES: &[&str] = &[$($name),*];

            /// Returns what it defines.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Helper::$helper => $name,)*
                }
            }

            /// Returns what it relies on in turn.
            pub(super) fn needs(self) -> &'static [Helper] {
                match self {
                    $(Helper::$helper => &[$(Helper::$needed),*],)*
                }
            }

            /// Its text.
            pub(super) fn text(self, target: TextTarget) -> HelperText {
                match (self, target) {
                    $($((Helper::$helper, TextTarget::Cuda) => HelperText::from($cuda),)?)*
                    $((Helper::$helper, _) => HelperText::from($cpp),)*
                }
            }
        }
    };
}

helpers! {
    /// How many elements types have in memory.
    Vec = "vec", needs [], types::VEC;
    Mat = "mat", needs [], types::MAT;
    Quat = "quat_", needs [], types::QUAT;
    Transform = "transform_", needs [], types::TRANSFORM;
    Array = "array", needs [], types::ARRAY;
    /// Arrays of composites.
    CompositeArray = "array", needs [Array], types::COMPOSITE_ARRAY;
    VecArray = "array", needs [CompositeArray, Vec], types::VEC_ARRAY;
    MatArray = "array", needs [CompositeArray, Mat], types::MAT_ARRAY;
    QuatArray = "array", needs [CompositeArray, Quat], types::QUAT_ARRAY;
    TransformArray = "array", needs [CompositeArray, Transform], types::TRANSFORM_ARRAY;
    Bool8 = "bool8", needs [], types::BOOL8;
    Fail = "fail", needs [], types::FAIL, cuda types::FAIL_CUDA;
    Bitcast = "bitcast", needs [], types::BITCAST, cuda types::BITCAST_CUDA;
    Half = "float16", needs [], types::HALF;
    HalfSum = "operator+", needs [Half], types::HALF_SUM;
    HalfDifference = "operator-", needs [Half], types::HALF_DIFFERENCE;
    HalfProduct = "operator*", needs [Half], types::HALF_PRODUCT;
    HalfQuotient = "operator/", needs [Half], types::HALF_QUOTIENT;
    HalfNegation = "operator-", needs [Half], types::HALF_NEGATION;
    Infinity = "inf", needs [], arithmetic::INFINITY, cuda arithmetic::INFINITY_CUDA;
    NotANumber = "nan", needs [], arithmetic::NOT_A_NUMBER, cuda arithmetic::NOT_A_NUMBER_CUDA;
    Wrap = "wrap", needs [], arithmetic::WRAP;
    WrapPlace = "wrap_place", needs [], arithmetic::WRAP_PLACE;
    Component = "component", needs [], arithmetic::COMPONENT;
    Lookup = "lookup", needs [], arithmetic::LOOKUP;
    SetComponent = "set_component", needs [], arithmetic::SET_COMPONENT;
    Converted = "converted", needs [], arithmetic::CONVERTED;
    Divide = "divide", needs [], arithmetic::DIVIDE;
    Remainder = "remainder", needs [], arithmetic::REMAINDER;
    ShiftLeft = "shift_left", needs [], arithmetic::SHIFT_LEFT;
    ShiftRight = "shift_right", needs [], arithmetic::SHIFT_RIGHT;
    Truncate = "truncate", needs [], arithmetic::TRUNCATE;
    Min = "min", needs [], arithmetic::MIN, cuda arithmetic::MIN_CUDA;
    Max = "max", needs [], arithmetic::MAX, cuda arithmetic::MAX_CUDA;
    Abs = "abs", needs [], arithmetic::ABS, cuda arithmetic::ABS_CUDA;
    Sqrt = "sqrt", needs [], arithmetic::SQRT, cuda arithmetic::SQRT_CUDA;
    Floor = "floor", needs [], arithmetic::FLOOR, cuda arithmetic::FLOOR_CUDA;
    Ceil = "ceil", needs [], arithmetic::CEIL, cuda arithmetic::CEIL_CUDA;
    Trunc = "trunc", needs [], arithmetic::TRUNC, cuda arithmetic::TRUNC_CUDA;
    Rint = "rint", needs [], arithmetic::RINT, cuda arithmetic::RINT_CUDA;
    Fma = "fma", needs [], arithmetic::FMA, cuda arithmetic::FMA_CUDA;
    Range = "range", needs [], arithmetic::RANGE;
    /// Scopes of atomic updates in CUDA that are not the device's.
    AtomicScopes = "scoped_swap", needs [], "", cuda atomics::ATOMIC_SCOPES;
    CompareAndSwap = "compare_and_swap", needs [], "", cuda atomics::COMPARE_AND_SWAP_CUDA;
    /// Compare-and-swap loops.
    AtomicUpdate = "atomic_update", needs [CompareAndSwap], atomics::ATOMIC_UPDATE, cuda atomics::ATOMIC_UPDATE_CUDA;
    AtomicAdd = "atomic_add", needs [HalfSum], atomics::ATOMIC_ADD, cuda atomics::ATOMIC_ADD_CUDA;
    AtomicSub = "atomic_sub", needs [HalfDifference], atomics::ATOMIC_SUB, cuda atomics::ATOMIC_SUB_CUDA;
    AtomicMin = "atomic_min", needs [AtomicUpdate, Min], atomics::ATOMIC_MIN;
    AtomicMax = "atomic_max", needs [AtomicUpdate, Max], atomics::ATOMIC_MAX;
    AtomicAnd = "atomic_and", needs [AtomicUpdate], atomics::ATOMIC_AND;
    AtomicOr = "atomic_or", needs [AtomicUpdate], atomics::ATOMIC_OR;
    AtomicXor = "atomic_xor", needs [AtomicUpdate], atomics::ATOMIC_XOR;
    AtomicExch = "atomic_exch", needs [AtomicUpdate], atomics::ATOMIC_EXCH;
    AtomicCas = "atomic_cas", needs [CompareAndSwap], atomics::ATOMIC_CAS, cuda atomics::ATOMIC_CAS_CUDA;
    CompositeAdd = "atomic_add", needs [CompositeArray, AtomicAdd], atomics::COMPOSITE_ADD;
    CompositeSub = "atomic_sub", needs [CompositeArray, AtomicSub], atomics::COMPOSITE_SUB;
    CompositeMin = "atomic_min", needs [CompositeArray, AtomicMin], atomics::COMPOSITE_MIN;
    CompositeMax = "atomic_max", needs [CompositeArray, AtomicMax], atomics::COMPOSITE_MAX;
    SharedCompositeAdd = "atomic_add", needs [AtomicAdd], atomics::SHARED_COMPOSITE_ADD;
    SharedCompositeSub = "atomic_sub", needs [AtomicSub], atomics::SHARED_COMPOSITE_SUB;
    SharedCompositeMin = "atomic_min", needs [AtomicMin], atomics::SHARED_COMPOSITE_MIN;
    SharedCompositeMax = "atomic_max", needs [AtomicMax], atomics::SHARED_COMPOSITE_MAX;
    /// How a launch is divided, where a text runs a block at a time.
    LaunchBlocks = "launch_blocks", needs [], gpu::LAUNCH_BLOCKS;
    DynamicMemory = "dynamic_memory", needs [], gpu::DYNAMIC_MEMORY;
    ThreadInBlock = "thread_in_block", needs [], gpu::THREAD_IN_BLOCK;
    ThreadNumber = "thread_number", needs [ThreadInBlock], gpu::THREAD_NUMBER;
    LaneId = "lane_id", needs [ThreadInBlock], gpu::LANE_ID;
    WarpId = "warp_id", needs [ThreadInBlock], gpu::WARP_ID;
    DynamicShared = "dynamic_shared", needs [], gpu::DYNAMIC_SHARED;
    SharedView = "shared_view", needs [Array], gpu::SHARED_VIEW;
    Components = "components", needs [], gpu::COMPONENTS;
    FromLane = "from_lane", needs [], gpu::FROM_LANE;
    FromBefore = "from_before", needs [], gpu::FROM_BEFORE;
    FromBehind = "from_behind", needs [], gpu::FROM_BEHIND;
    FromFlipped = "from_flipped", needs [], gpu::FROM_FLIPPED;
    Shuffle = "shuffle", needs [], gpu::SHUFFLE;
    MatchAny = "match_any", needs [], gpu::MATCH_ANY;
    MatchAll = "match_all", needs [], gpu::MATCH_ALL;
    WarpReduce = "warp_reduce", needs [ThreadInBlock, FromLane, FromBehind, Shuffle], gpu::WARP_REDUCE;
    WarpReduceAdd = "warp_reduce_add", needs [WarpReduce, HalfSum], gpu::WARP_REDUCE_ADD;
    WarpReduceMin = "warp_reduce_min", needs [WarpReduce, Min], gpu::WARP_REDUCE_MIN;
    WarpReduceMax = "warp_reduce_max", needs [WarpReduce, Max], gpu::WARP_REDUCE_MAX;
    WarpReduceAnd = "warp_reduce_and", needs [WarpReduce], gpu::WARP_REDUCE_AND;
    WarpReduceOr = "warp_reduce_or", needs [WarpReduce], gpu::WARP_REDUCE_OR;
    WarpReduceXor = "warp_reduce_xor", needs [WarpReduce], gpu::WARP_REDUCE_XOR;
    /// Which elements of its matrices a lane has.
    FragmentPlace = "fragment_place", needs [LaneId], tensor::FRAGMENT_PLACE;
    PlaceInA = "place_in_a", needs [FragmentPlace], tensor::PLACE_IN_A;
    PlaceInB = "place_in_b", needs [FragmentPlace], tensor::PLACE_IN_B;
    PlaceInC = "place_in_c", needs [FragmentPlace], tensor::PLACE_IN_C;
    FragmentElement = "fragment_element", needs [Array, Vec, Wrap], tensor::FRAGMENT_ELEMENT;
    MmaLoadA = "mma_load_a", needs [PlaceInA, FragmentElement], tensor::MMA_LOAD_A;
    MmaLoadB = "mma_load_b", needs [PlaceInB, FragmentElement], tensor::MMA_LOAD_B;
    MmaLoadC = "mma_load_c", needs [PlaceInC, FragmentElement], tensor::MMA_LOAD_C;
    MmaStore = "mma_store", needs [PlaceInC, FragmentElement], tensor::MMA_STORE;
    Mma = "packed", needs [Vec], tensor::MMA;
    MmaF16 = "mma_8_columns", needs [Mma], tensor::MMA_F16;
    MmaBF16 = "mma_8_columns", needs [Mma], tensor::MMA_BF16;
    MmaTF32 = "mma_8_columns", needs [Vec], tensor::MMA_TF32;
    MmaI8 = "mma_8_columns", needs [Mma], tensor::MMA_I8;
    MmaU8 = "mma_8_columns", needs [Mma], tensor::MMA_U8;
    MmaProduct = "mma", needs [Vec], tensor::MMA_PRODUCT;
    AsyncCopy = "async_copy", needs [], tensor::ASYNC_COPY;
    AsyncCopyL2 = "async_copy_l2", needs [], tensor::ASYNC_COPY_L2;
    AsyncCopyStreaming = "async_copy_streaming", needs [], tensor::ASYNC_COPY_STREAMING;
    AsyncCommit = "async_commit", needs [], tensor::ASYNC_COMMIT;
    AsyncWait = "async_wait", needs [], tensor::ASYNC_WAIT;
    NamedBarrier = "named_barrier", needs [], tensor::NAMED_BARRIER;
    LoadReadonly = "load_readonly", needs [], tensor::LOAD_READONLY;
    LoadReadonlyComposite = "load_readonly", needs [CompositeArray, LoadReadonly], tensor::LOAD_READONLY_COMPOSITE;
    AtomicInc = "atomic_inc", needs [AtomicUpdate], atomics::ATOMIC_INC;
    AtomicDec = "atomic_dec", needs [AtomicUpdate], atomics::ATOMIC_DEC;
}
