//! `cargo +nightly fuzz run loom_source fuzz/corpus/loom_source examples/loom`: see `polyloom_filetests::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| polyloom_filetests::fuzz::loom_source(text));
