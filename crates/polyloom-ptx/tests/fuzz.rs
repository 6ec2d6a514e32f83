//! Whatever the text, nothing panics: parsing, printing, decoding, running. `POLYLOOM_FUZZ_ITERATIONS` makes it longer.

use crate::instructions::random;
use crate::syntax::files;
use polyloom_ptx::{LaunchRequest, Module, Sanitizers, Simulator};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What must hold for any text.
fn target(text: &str) {
    let Ok(module) = Module::parse(text) else { return };
    let printed = module.to_string();
    let again = Module::parse(&printed).unwrap_or_else(|errors| panic!("printed text does not parse: {errors:?}"));
    assert_eq!(again.to_string(), printed);
    let simulator = Simulator::default();
    let Ok(loaded) = simulator.load(&module) else { return };
    let memory = simulator.memory().alloc(4096, 16).expect("4 KiB");
    for info in module.kernels() {
        let Ok(kernel) = loaded.kernel(&info.name) else { continue };
        let parameter = |size: u32| {
            let bytes = memory.to_le_bytes().into_iter().chain(std::iter::repeat(0));
            bytes.take(size.min(1 << 16) as usize).collect()
        };
        let params: Vec<Vec<u8>> = kernel.parameters().iter().map(|info| parameter(info.size)).collect();
        let asked = AtomicU32::new(0);
        let interrupt = || asked.fetch_add(1, Relaxed) > 3;
        for sanitize in [Sanitizers::NONE, Sanitizers::DEFAULT, Sanitizers::ALL] {
            let launch = LaunchRequest {
                grid: [2, 1, 1],
                block: kernel.limits().required_block.unwrap_or([33, 1, 1]),
                params: &params,
                sanitize,
                counters: true,
                interrupt: &interrupt,
                ..LaunchRequest::default()
            };
            let _ = kernel.launch(&launch);
        }
    }
}

/// Pieces of lines and words, so that most results still parse in part.
fn mutated(corpus: &[Vec<String>], seed: u64) -> String {
    let choices = random(64, seed);
    let mut next = choices.iter().copied();
    let mut choose = |count: usize| (next.next().unwrap_or(0) % count.max(1) as u64) as usize;
    let mut lines = corpus[choose(corpus.len())].clone();
    for _ in 0..1 + choose(4) {
        let other = &corpus[choose(corpus.len())];
        let at = choose(lines.len());
        match choose(6) {
            0 => {
                lines.remove(at);
            }
            1 => lines.insert(at, other[choose(other.len())].clone()),
            2 => {
                let from = choose(lines.len());
                lines.swap(at, from);
            }
            3 => {
                // A number or letter becomes another.
                let mut bytes = lines[at].clone().into_bytes();
                if !bytes.is_empty() {
                    let index = choose(bytes.len());
                    bytes[index] = b"0123456789abcdfrsu.,;:{}[]()<>%@!-+\"/*"[choose(38)];
                }
                lines[at] = String::from_utf8_lossy(&bytes).into_owned();
            }
            4 => {
                // Two lines' words are exchanged.
                let theirs: Vec<String> = other[choose(other.len())].split(' ').map(str::to_owned).collect();
                let mut mine: Vec<String> = lines[at].split(' ').map(str::to_owned).collect();
                let index = choose(mine.len());
                mine[index].clone_from(&theirs[choose(theirs.len())]);
                lines[at] = mine.join(" ");
            }
            _ => lines.truncate(at + 1),
        }
        if lines.is_empty() {
            return String::new();
        }
    }
    lines.join("\n")
}

#[test]
fn nothing_panics() {
    let iterations: u64 =
        std::env::var("POLYLOOM_FUZZ_ITERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let mut corpus: Vec<Vec<String>> = Vec::new();
    for (_, text) in files() {
        // One kernel at a time keeps the texts small.
        let mut parts = text.split(".visible .entry");
        let head = parts.next().unwrap_or("").to_owned();
        for part in parts {
            let text = format!("{head}.visible .entry{part}");
            corpus.push(text.lines().map(str::to_owned).collect());
        }
    }
    for body in ["bar.sync 0;", "mbarrier.init.shared.b64 [tile], 3;", "shfl.sync.up.b32 %r1|%p0, %r0, 1, 0, -1;"] {
        corpus.push(crate::sync::kernel(body).lines().map(str::to_owned).collect());
    }
    let seed: u64 = std::env::var("POLYLOOM_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    for iteration in 0..iterations {
        let text = mutated(&corpus, seed.wrapping_add(iteration));
        let outcome = std::panic::catch_unwind(|| target(&text));
        assert!(outcome.is_ok(), "this text made something panic (seed {}):\n{text}", seed.wrapping_add(iteration));
    }
}
