//! `cargo +nightly fuzz run hir_text fuzz/corpus/hir_text tests/filetests/parse`: see `polyloom_filetests::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| polyloom_filetests::fuzz::hir_text(text));
