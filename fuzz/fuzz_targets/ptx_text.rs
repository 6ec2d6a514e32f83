//! `cargo +nightly fuzz run ptx_text fuzz/corpus/ptx_text crates/polyloom-ptx/tests/ptx`: parsing, printing and decoding
//! take any text.

#![no_main]

use polyloom_ptx::{Module, Simulator};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(module) = Module::parse(text) else { return };
    let printed = module.to_string();
    let again = Module::parse(&printed).expect("printed text parses");
    assert_eq!(again.to_string(), printed);
    let Ok(loaded) = Simulator::default().load(&module) else { return };
    for kernel in module.kernels() {
        let _ = loaded.kernel(&kernel.name);
    }
});
