//! Names of the text: identifiers of C++ that mean nothing else where they stand.

use super::prelude::Helper;
use polyloom_ir::{Composite, Op};
use rustc_hash::FxHashSet;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Words that are no names in C++ or CUDA C++, macros among them.
const WORDS: &str = "
    alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char16_t char32_t
    char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    continue decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int linux long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename typeof union unix unsigned using virtual void volatile wchar_t while xor xor_eq NULL EOF NAN
    INFINITY stdin stdout stderr errno main printf threadIdx blockIdx blockDim gridDim warpSize
";

/// Holds what preludes and every kernel define beside the helpers.
const DEFINED: &str = "
    bfloat16 block_scope by_columns by_rows clock64 compare_and_swap component constants device_scope dim
    drawn element fragment_element fragment_layout from_before from_behind from_flipped from_lane held_now
    int16 int64 int8 lane_id launch_bounds memory_scope next_thread place_in_a place_in_b place_in_c polyloom
    range_of shuffle stride swap_words system_scope tf32 thread thread_in_block trap_report uint16 uint32 uint64
    uint8 warp_id
";

/// The names taken in a scope.
#[derive(Clone, Default)]
pub(super) struct ScopeNames {
    taken: FxHashSet<String>,
}

impl ScopeNames {
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
        self.numbered(wanted, 1, |_| false, is_taken).0
    }

    /// The same with its number, 1 being the name that is wanted; those below `first` are taken. `is_used` says of a
    /// number that its name is taken, so that it need not be put together.
    pub(super) fn numbered(
        &self,
        wanted: &str,
        first: usize,
        is_used: impl Fn(usize) -> bool,
        is_taken: impl Fn(&str) -> bool,
    ) -> (String, usize) {
        let mut name = identifier(wanted);
        let (len, has_underscore) = (name.len(), name.ends_with('_'));
        let mut number = first;
        loop {
            if !is_used(number) {
                if number > 1 {
                    name.truncate(len);
                    // No second underscore is added, because two in a row belong to the compiler.
                    let _ = write!(name, "{}{number}", if has_underscore { "" } else { "_" });
                }
                if !self.taken.contains(&name) && !is_reserved(&name) && !is_taken(&name) {
                    return (name, number);
                }
            }
            number += 1;
        }
    }
}

fn is_reserved(name: &str) -> bool {
    static RESERVED: LazyLock<FxHashSet<String>> = LazyLock::new(|| {
        // A name of a builtin is taken only where it is called.
        let helpers = Helper::NAMES.iter().copied().filter(|name| Op::from_builtin_name(name).is_none());
        let words = WORDS.split_whitespace().chain(DEFINED.split_whitespace()).chain(helpers).map(str::to_owned);
        words.chain(Composite::named().map(|(name, _)| name)).collect()
    });
    // CUDA's atomic functions.
    let is_atomic = || {
        let rest = name.strip_prefix("atomic").filter(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
        rest.is_some_and(|rest| rest.bytes().all(|c| c.is_ascii_alphabetic()))
    };
    RESERVED.contains(name) || is_atomic()
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
    let mut first = text.chars();
    if text.is_empty() || first.next() == Some('_') && first.next().is_some_and(|c| c.is_ascii_uppercase()) {
        text.insert(0, 'v');
    }
    text
}
