//! A value of a kernel in the making that a statement has brought to a size.

/// A value that has been brought to a size, and the variable that has it since.
pub(super) struct BoundedValue {
    pub(super) of: String,
    pub(super) name: String,
    pub(super) index: usize,
}
