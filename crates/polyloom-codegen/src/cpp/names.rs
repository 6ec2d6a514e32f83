//! Names of the text: identifiers of C++ that mean nothing else where they stand.

use polyloom_ir::Composite;
use rustc_hash::FxHashSet;
use std::sync::LazyLock;

/// Words that are no names in C++ or CUDA C++, macros among them, and what preludes and every kernel define.
const RESERVED: &str = "
    alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char16_t char32_t
    char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    continue decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int linux long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename typeof union unix unsigned using virtual void volatile wchar_t while xor xor_eq NULL EOF NAN
    INFINITY stdin stdout stderr errno main printf threadIdx blockIdx blockDim gridDim warpSize
    async_commit async_copy async_wait by_columns by_rows fragment_element fragment_layout fragment_place
    load_readonly lookup mma mma_8_columns mma_load_a mma_load_b mma_load_c mma_store packed place_in_a
    place_in_b place_in_c tf32 array atomicAdd atomic_update begin block_scope device_scope memory_scope
    scoped_swap swap_words system_scope constants converted bfloat16 bitcast bool8 clock64 compare_and_swap
    component components composite_array dim divide drawn dynamic_shared element end fail float16
    from_before from_behind from_flipped from_lane inf int16 int64 int8 lane_id launch_blocks dynamic_memory
    launch_bounds mat match_all match_any nan next_thread polyloom quat_ range range_of remainder
    set_component shared_view shift_left shift_right shuffle stride thread thread_in_block thread_number
    transform_ trap_report truncate uint16 uint32 uint64 uint8 vec warp_id warp_reduce wrap wrap_place
";

/// The names taken in a scope.
#[derive(Clone, Default)]
pub(super) struct Names {
    taken: FxHashSet<String>,
}

impl Names {
    /// Takes a name of something that is called so.
    pub(super) fn reserve(&mut self, name: &str) {
        if !self.taken.contains(name) {
            self.taken.insert(name.to_owned());
        }
    }

    /// A name like this one that is not taken.
    pub(super) fn local(&mut self, wanted: &str) -> String {
        let name = self.local_unless(wanted, |_| false);
        self.taken.insert(name.clone());
        name
    }

    /// A name like this one that is not taken here or, as `is_taken` says, elsewhere. It may be given again.
    pub(super) fn local_unless(&self, wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
        let base = identifier(wanted);
        let mut name = base.clone();
        let mut number = 1;
        while self.taken.contains(&name) || is_reserved(&name) || is_taken(&name) {
            number += 1;
            name = format!("{base}_{number}");
        }
        name
    }
}

fn is_reserved(name: &str) -> bool {
    static RESERVED_NAMES: LazyLock<FxHashSet<&str>> = LazyLock::new(|| RESERVED.split_whitespace().collect());
    RESERVED_NAMES.contains(name)
        || (name.starts_with(['v', 'm', 'q', 't', 's']) && Composite::from_python_name(name).is_some())
}

/// An identifier of C++: what is no ASCII letter or digit becomes an underscore or its number.
pub(super) fn identifier(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '_' => text.push(c),
            '0'..='9' if !text.is_empty() => text.push(c),
            _ if c.is_ascii() => text.push('_'),
            _ => text.push_str(&format!("u{:x}", u32::from(c))),
        }
    }
    // Names with two underscores, or one and a capital letter at the start, belong to the compiler.
    while text.contains("__") {
        text = text.replace("__", "_");
    }
    if text.starts_with('_') || text.is_empty() {
        text.insert(0, 'v');
    }
    text
}
