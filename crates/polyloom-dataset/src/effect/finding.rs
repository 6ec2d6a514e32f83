//! An operation without effect as it is reported, and which kernels and operations are not looked at.

use crate::generate::{Category, DatasetProgram};
use crate::proof::{Reason, RejectedProof};
use polyloom::op::{OpEffect, OpGroup};
use polyloom::{Kernel, Op, Span};

/// Describes what is wrong with an operation, and where.
pub(super) struct EffectFinding {
    pub(super) span: Span,
    /// The operation, or the variable it gives a value.
    pub(super) subject: String,
    pub(super) what: &'static str,
}

impl EffectFinding {
    pub(super) fn reject(self, kernel: &Kernel) -> Box<RejectedProof> {
        let EffectFinding { span, subject, what } = self;
        let line = kernel.sources().locate(span).map_or(0, |(_, position)| position.line);
        RejectedProof::new(Reason::NoEffect, format!("line {line}: `{subject}` {what}"))
    }
}

/// Returns true if the kernel is one whose operations are looked at: composites are made as people make them.
pub(super) fn is_looked_at(program: &DatasetProgram) -> bool {
    program.category != Category::Composite.name()
}

/// Returns true if it says where a thread is, or how large something is: what a kernel begins with, whether it needs
/// all of it or not.
pub(super) fn is_place(op: Op) -> bool {
    matches!(op.info().group, OpGroup::Index | OpGroup::Gpu)
}

/// Returns true if it reads an element of an array.
pub(super) fn is_load(op: Op) -> bool {
    op.info().group == OpGroup::Array && op.info().effect == OpEffect::Read
}
