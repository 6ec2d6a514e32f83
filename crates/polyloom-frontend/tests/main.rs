//! The front end's tests, from source text to HIR and to rendered diagnostics.

mod lowering;
mod support;
