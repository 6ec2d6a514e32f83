//! The front end's tests, from source text to HIR and to rendered diagnostics.

mod capture;
mod error_pages;
mod limits;
mod loom;
mod names;
mod numpy_forms;
