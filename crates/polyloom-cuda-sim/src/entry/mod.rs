//! The C entry points, by what they are about.
//!
//! Each is written as `fn name(arguments) [state] { body }`: with `[driver, context]` it needs the thread's current
//! context and a device that is not lost, with `[driver]` that `cuInit` has been called, with `[]` nothing. The body gives
//! an `Outcome`, whose error becomes the number that is returned.

#![expect(unsafe_code, reason = "entry points are exported under their own names")]

mod context;
mod copy;
mod device;
mod findings;
mod graph;
mod launch;
mod memory;
mod module;
mod stream;
mod system;
mod tensor_map;
mod unsupported;

/// The address of an entry point.
#[derive(Clone, Copy)]
pub(crate) struct EntryAddress(pub(crate) *const ());

/// Defines entry points, and a table of them.
macro_rules! entry_points {
    ($table:ident: $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) [$($state:ident),*] $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> $crate::status::CuResult {
                entry_points!(@run stringify!($name), [$($state),*] $body)
            }
        )*

        pub(super) const $table: &[(&str, super::EntryAddress)] =
            &[$((stringify!($name), super::EntryAddress($name as *const ())),)*];
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
pub(crate) fn entry_point(name: &str) -> Option<EntryAddress> {
    let tables = [
        context::CONTEXT,
        copy::COPY,
        device::DEVICE,
        findings::FINDINGS,
        graph::GRAPH,
        launch::LAUNCH,
        memory::MEMORY,
        module::MODULE,
        stream::STREAM,
        system::SYSTEM,
        tensor_map::TENSOR_MAP,
        unsupported::UNSUPPORTED,
    ];
    let mut all = tables.iter().flat_map(|table| table.iter());
    all.find(|(known, _)| *known == name).map(|(_, address)| *address)
}
