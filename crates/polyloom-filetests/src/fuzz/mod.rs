//! Fuzzing: what must hold for any input whatever.
//!
//! A target is a function from text to nothing that panics when the compiler breaks a promise. The seeded fuzzer here
//! ([`run`]) feeds targets with mutated copies of the file tests' inputs, in `cargo test` with a few iterations and
//! with `POLYLOOM_FUZZ_ITERATIONS` for long; `fuzz/` holds the same targets for cargo-fuzz.

mod barriers;
mod loom;
mod mutate;
mod python;
mod random_module;
mod targets;

pub use barriers::barriers;
pub use loom::{loom_examples, loom_source};
pub use mutate::mutate;
pub use python::{python_examples, python_source};
pub use random_module::random_module;
pub use targets::{Target, hir_text, program};

use polyloom_ir::generate::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An input that takes longer than this hangs the compiler, since what ends at all ends in milliseconds.
const HANG: Duration = Duration::from_secs(120);

/// The texts of all inputs with this extension.
pub fn corpus(root: &Path, extension: &str) -> Vec<String> {
    let (inputs, _) = crate::case::find_inputs(root);
    let inputs = inputs.into_iter().filter(|path| path.extension().is_some_and(|e| e == extension));
    inputs.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// Feeds `target` with every text of the corpus and with mutations of them.
///
/// # Errors
///
/// The first input that made the target panic, and its seed. An input that hangs aborts the process after printing it.
pub fn run(target: Target, corpus: &[String], seed: u64, iterations: u64) -> Result<(), String> {
    let current = Arc::new(Mutex::new((Instant::now(), String::new())));
    let watchdog = std::thread::spawn({
        let current = Arc::downgrade(&current);
        move || {
            while let Some(current) = current.upgrade() {
                if let Ok(current) = current.lock()
                    && current.0.elapsed() > HANG
                {
                    eprintln!("hangs on this input:\n{}", current.1);
                    std::process::abort();
                }
                drop(current);
                std::thread::park_timeout(Duration::from_secs(1));
            }
        }
    });
    let mut outcome = Ok(());
    for iteration in 0..corpus.len() as u64 + iterations {
        let text = match corpus.get(iteration as usize) {
            Some(text) => text.clone(),
            None => mutate(corpus, &mut Random::new(seed.wrapping_add(iteration))),
        };
        if let Ok(mut current) = current.lock() {
            *current = (Instant::now(), text.clone());
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&text))) {
            let message = crate::panic_message(&*panic);
            outcome = Err(format!("seed {seed}, iteration {iteration}: {message}\non this input:\n{text}"));
            break;
        }
    }
    drop(current);
    watchdog.thread().unpark();
    let _ = watchdog.join();
    outcome
}
