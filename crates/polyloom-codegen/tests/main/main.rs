//! The Cranelift back end against the definition of HIR.

mod backend;
mod conformance;
mod cpp;
