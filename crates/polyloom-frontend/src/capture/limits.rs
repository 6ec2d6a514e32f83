//! Bounds the work that analysis does before it gives a function up.

/// Bounds that analysis gives up at. A function beyond them is not fused.
pub(super) struct CaptureLimits;

impl CaptureLimits {
    /// Statements and expressions that are walked, each as often as it is, and other work in proportion.
    pub(super) const STEPS: usize = 150_000;
    /// The part of these in helpers, beyond which further ones are unknown code.
    pub(super) const INLINED_STEPS: usize = 20_000;
    /// Expressions, statements and helpers inside of one another.
    pub(super) const DEPTH: usize = 160;
    /// Events, and values and objects in proportion.
    pub(super) const EVENTS: usize = 40_000;
    /// Walks of a loop until nothing changes.
    pub(super) const PASSES: usize = 8;
    /// Analyses until no view that is captured is used outside of its group.
    pub(super) const VIEW_PASSES: usize = 6;
    /// Helpers inside of one another.
    pub(super) const INLINED: usize = 5;
    /// Elements of a list that are operands one by one.
    pub(super) const LIST_OPERANDS: usize = 64;
    pub(super) const GUARDS: usize = 4096;
}
