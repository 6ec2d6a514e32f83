//! Requests for derivatives: with respect to which parameters, for what launches, and how memory is saved.

/// Describes what a derivative is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DerivativeRequest {
    /// For each parameter of the kernel, whether derivatives with respect to it are wanted, or flow through it.
    /// Integers have none, whatever this says.
    pub active: Vec<bool>,
    /// The rank of launches.
    pub rank: u8,
    /// True if loops keep what they carry at some iterations only, and run what is between them again, since tapes are
    /// then as long as the square root of a loop, and an iteration runs once more.
    pub checkpoints: bool,
    /// True if checkpoints of outermost loops keep, too, what rows of arrays hold that are the threads' own: what is
    /// read of these is then recorded for one segment at a time. Nothing without `checkpoints`.
    pub rows: bool,
    /// For each parameter of the kernel, whether elements of the array at different indices may be the same memory, as
    /// where a stride is zero. Of arrays beyond its end that is not so.
    pub coinciding: Vec<bool>,
    /// True if launches have more threads than [`LONG_LAUNCH`]: multiples of their coordinates may then overflow.
    pub is_long: bool,
}

/// A launch with more threads is long: see [`DerivativeRequest::is_long`].
pub const LONG_LAUNCH: u64 = 1 << 24;

impl DerivativeRequest {
    /// Derivatives with respect to these parameters, for launches of this rank, where nothing else is to be known.
    pub fn new(active: Vec<bool>, rank: u8) -> DerivativeRequest {
        DerivativeRequest { active, rank, checkpoints: false, rows: false, coinciding: Vec::new(), is_long: false }
    }
}
