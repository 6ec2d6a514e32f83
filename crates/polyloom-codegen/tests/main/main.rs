//! The Cranelift back end against the definition of HIR.

mod conformance;
