//! `cargo +nightly fuzz run python_source fuzz/corpus/python_source tests/filetests/frontend`: see
//! `polyloom_filetests::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| polyloom_filetests::fuzz::python_source(text));
