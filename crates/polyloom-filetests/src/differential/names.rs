//! Names of what a random kernel defines.
//!
//! In most programs they are short and numbered. In some they are words that mean something in C++, CUDA or the texts
//! that kernels become, because such a name must neither hide what the text calls nor fail to compile.

use super::random::SeededChoices;
use polyloom_ir::Op;
use polyloom_ir::op::OpSpelling;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Words of C++, of CUDA and of the headers that compilers include by themselves.
const FOREIGN: &str = "
    auto char const double enum extern signed static struct switch template this throw typename union unsigned
    virtual void volatile new delete default operator private typedef case goto do asm namespace using
    NULL EOF NAN INFINITY printf main errno stdin linux unix std size_t ptrdiff_t uint8_t isnan signbit y0 y1 jn
    threadIdx blockIdx blockDim gridDim warpSize atomicAdd atomicCAS clock64 half float4 dim3 cudaError
";

/// Words of the texts themselves: helpers, types and what names are made of.
const OWN: &str = "
    polyloom constants vec mat quat_ transform_ array bitcast float16 bfloat16 inf nan wrap component lookup
    set_component converted divide remainder shift_left shift_right range scoped_swap element thread
    thread_in_block thread_number lane_id warp_id launch_bounds dim begin end block blocks dynamic x_0 r0 uint32
    int64 uint64 state result results t_2 t_3 stride size shape data index report table
";

/// Endings that make of an op's name that of one of its definitions, or what a name becomes that is taken.
const ENDINGS: [&str; 8] = ["", "_2", "_3", "_f32", "_f64", "_i32", "_2_2", "_results"];

/// Hands out names, each once.
pub(super) struct NameSource {
    next_number: u32,
    /// Picks words, in programs that have them for names.
    words: Option<SeededChoices>,
    used: HashSet<String>,
}

impl NameSource {
    /// The names of the program of a seed.
    pub(super) fn new(seed: u64) -> NameSource {
        // A source of its own, so that what else a program is does not depend on its names.
        let words = seed.is_multiple_of(4).then(|| SeededChoices::new(seed ^ 0x6e61_6d65));
        NameSource { next_number: 0, words, used: HashSet::new() }
    }

    /// A new name; `prefix` begins it if it is no word.
    pub(super) fn next(&mut self, prefix: &str) -> String {
        self.next_number += 1;
        if let Some(random) = &mut self.words
            && random.chance(70)
        {
            let (word, ending) = (*random.pick(&WORDS), *random.pick(&ENDINGS));
            let name = format!("{word}{}", if random.chance(50) { ending } else { "" });
            if self.used.insert(name.clone()) {
                return name;
            }
        }
        format!("{prefix}{}", self.next_number)
    }
}

static WORDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let builtins = Op::all().filter(|info| info.spelling != OpSpelling::Internal).map(|info| info.name);
    // `range` stays free, because programs call it as Python's.
    FOREIGN.split_whitespace().chain(OWN.split_whitespace()).chain(builtins).filter(|&word| word != "range").collect()
});
