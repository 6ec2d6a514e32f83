//! Running a kernel on arrays, for all other tests.

use std::hash::{DefaultHasher, Hash, Hasher};

use polyloom_ptx::{Fault, LaunchRequest, Module, Report, Simulator};

/// Describes what a kernel is given.
pub(crate) enum Arg {
    /// An array that is in memory during the launch, and comes back.
    Array(Vec<u8>),
    /// As many bytes that nobody wrote.
    Fresh(usize),
    /// A value.
    Value(Vec<u8>),
}

pub(crate) fn array<T: Bytes>(values: &[T]) -> Arg {
    Arg::Array(values.iter().flat_map(|value| value.bytes()).collect())
}

pub(crate) fn value<T: Bytes>(value: T) -> Arg {
    Arg::Value(value.bytes())
}

pub(crate) trait Bytes: Copy {
    fn bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! bytes {
    ($($ty:ty),*) => {
        $(impl Bytes for $ty {
            fn bytes(self) -> Vec<u8> { self.to_le_bytes().to_vec() }
            fn from_bytes(bytes: &[u8]) -> Self { <$ty>::from_le_bytes(bytes.try_into().expect("whole values")) }
        })*
    };
}

bytes!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

pub(crate) fn values<T: Bytes>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(T::from_bytes).collect()
}

pub(crate) fn module(text: &str) -> Module {
    Module::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// Writes a text for assembling elsewhere, which shows whether the texts of tests are PTX in others' eyes as well.
pub(crate) fn dump(text: &str) {
    if let Ok(folder) = std::env::var("POLYLOOM_PTX_DUMP") {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        std::fs::write(format!("{folder}/{:016x}.ptx", hasher.finish()), text).expect("the folder is writable");
    }
}

/// Runs a kernel and gives its arrays, in order, and the report.
pub(crate) fn try_launch(
    text: &str,
    kernel: &str,
    args: Vec<Arg>,
    launch: LaunchRequest<'_>,
) -> Result<(Vec<Vec<u8>>, Report), Box<Fault>> {
    dump(text);
    // On a device that runs what the module is for.
    let target = module(text).ast().target[0].trim_matches(|c: char| !c.is_ascii_digit()).parse();
    let launch = LaunchRequest { arch: launch.arch.max(target.expect("a number")), ..launch };
    let simulator = Simulator::default();
    let loaded = simulator.load(&module(text)).unwrap_or_else(|error| panic!("{error}"));
    let kernel = loaded.kernel(kernel).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let memory = simulator.memory();
    let mut arrays = Vec::new();
    let mut params = Vec::new();
    for arg in args {
        match arg {
            Arg::Array(bytes) => {
                let address = memory.alloc(bytes.len(), 16).expect("memory");
                memory.write(address, &bytes).expect("inside");
                arrays.push((address, bytes.len()));
                params.push(address.bytes());
            }
            Arg::Fresh(length) => {
                let address = memory.alloc(length, 16).expect("memory");
                arrays.push((address, length));
                params.push(address.bytes());
            }
            Arg::Value(bytes) => params.push(bytes),
        }
    }
    let report = kernel.launch(&LaunchRequest { params: &params, ..launch })?;
    let read = |(address, length)| {
        let mut bytes = vec![0; length];
        memory.read(address, &mut bytes).expect("inside");
        bytes
    };
    Ok((arrays.into_iter().map(read).collect(), report))
}

/// `try_launch` of something right.
pub(crate) fn launch(text: &str, kernel: &str, grid: u32, block: u32, args: Vec<Arg>) -> Vec<Vec<u8>> {
    let launch = LaunchRequest { grid: [grid, 1, 1], block: [block, 1, 1], ..LaunchRequest::default() };
    match try_launch(text, kernel, args, launch) {
        Ok((arrays, _)) => arrays,
        Err(fault) => panic!("{fault}"),
    }
}
