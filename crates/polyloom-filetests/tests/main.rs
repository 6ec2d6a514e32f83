//! Runs every file under `tests/filetests`, and fuzzes briefly with mutations of them.

mod differential;
mod files;
mod fuzz;
mod texts;
