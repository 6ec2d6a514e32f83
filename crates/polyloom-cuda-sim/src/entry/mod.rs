//! The C entry points, by what they are about.
//!
//! Each is written as `fn name(arguments) [state] { body }`: with `[driver, context]` it needs the thread's current
//! context and a device that is not lost, with `[driver]` that `cuInit` has been called, with `[]` nothing. The body gives
//! an `Outcome`, whose error becomes the number that is returned. `and "_ptsz"` after the state, or `"_ptds"`, exports it under
//! that name too, for programs that are compiled with `CUDA_API_PER_THREAD_DEFAULT_STREAM`: in such a call the default stream
//! is the thread's own. `also "name"` exports it under the name of an earlier version that takes the same, for programs that
//! look names up without a version.

#![expect(unsafe_code, reason = "entry points are exported under their own names")]

mod array;
mod context;
mod copy;
mod device;
mod findings;
mod graph;
mod ipc;
mod launch;
mod memory;
mod module;
mod stream;
mod system;
mod tensor_map;
mod texture;
mod unsupported;
mod virtual_memory;

/// The address of an entry point.
#[derive(Clone, Copy)]
pub(crate) struct EntryAddress(pub(crate) *const ());

/// An entry point by name, and the one of programs whose default streams are of threads, if it has another.
#[derive(Clone, Copy)]
pub(crate) struct EntryPoint {
    pub(crate) name: &'static str,
    pub(crate) address: EntryAddress,
    pub(crate) of_thread: Option<(&'static str, EntryAddress)>,
}

/// Defines entry points, and a table of them.
macro_rules! entry_points {
    ($table:ident: $(
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) [$($state:ident),*] $(and $suffix:literal)? $(also $first:literal)? $body:block
    )*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> $crate::status::CuResult {
                entry_points!(@run stringify!($name), [$($state),*] $body)
            }

            entry_points!(@first [$($first)?] $name($($arg: $ty),*));
        )*

        pub(super) const $table: &[super::EntryPoint] = &[$(super::EntryPoint {
            name: stringify!($name),
            address: super::EntryAddress($name as *const ()),
            of_thread: entry_points!(@of_thread [$($suffix)?] $name($($arg: $ty),*)),
        },)*];
    };
    (@first [] $name:ident($($arg:ident: $ty:ty),*)) => {};
    (@first [$first:literal] $name:ident($($arg:ident: $ty:ty),*)) => {
        const _: () = {
            #[unsafe(export_name = $first)]
            extern "C" fn first($($arg: $ty),*) -> $crate::status::CuResult {
                $name($($arg),*)
            }
        };
    };
    (@of_thread [] $name:ident($($arg:ident: $ty:ty),*)) => {
        None
    };
    (@of_thread [$suffix:literal] $name:ident($($arg:ident: $ty:ty),*)) => {
        Some((concat!(stringify!($name), $suffix), {
            #[unsafe(export_name = concat!(stringify!($name), $suffix))]
            extern "C" fn of_thread($($arg: $ty),*) -> $crate::status::CuResult {
                $crate::stream::use_stream_of_thread(|| $name($($arg),*))
            }
            super::EntryAddress(of_thread as *const ())
        }))
    };
    (@run $name:expr, [] $body:block) => {
        $crate::call::guarded(|| $body)
    };
    (@run $name:expr, [$driver:ident] $body:block) => {
        $crate::call::call($name, |$driver| $body)
    };
    (@run $name:expr, [$driver:ident, $context:ident] $body:block) => {
        $crate::call::call_in_context($name, |$driver, $context| $body)
    };
}
pub(crate) use entry_points;

/// All entry points by name, those that do nothing included.
pub(crate) fn entry_point(name: &str) -> Option<EntryPoint> {
    let tables = [
        array::ARRAY,
        context::CONTEXT,
        copy::COPY,
        device::DEVICE,
        findings::FINDINGS,
        graph::GRAPH,
        ipc::IPC,
        launch::LAUNCH,
        memory::MEMORY,
        module::MODULE,
        stream::STREAM,
        system::SYSTEM,
        tensor_map::TENSOR_MAP,
        texture::TEXTURE,
        unsupported::UNSUPPORTED,
        virtual_memory::VIRTUAL_MEMORY,
    ];
    let mut all = tables.iter().flat_map(|table| table.iter());
    all.find(|entry| entry.name == name).copied()
}
