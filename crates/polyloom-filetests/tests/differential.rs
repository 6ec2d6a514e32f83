//! Random kernels give the same bits on every engine: a slice of what `make fuzz` does. Programs that once failed are
//! file tests.

use polyloom_filetests::differential::{Engines, generate};

/// Programs run by default; `POLYLOOM_FUZZ_ITERATIONS` changes it.
const PROGRAMS: u64 = 150;

#[test]
fn random_kernels_agree_on_every_engine() {
    let engines = Engines::new().expect("the back ends of this build work");
    let programs = std::env::var("POLYLOOM_FUZZ_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    for seed in 0..programs {
        let program = generate(seed);
        if let Err(found) = engines.check(&program, seed) {
            panic!("seed {seed}: {found}\n{}", program.text);
        }
    }
    println!("{programs} programs on {}", engines.names().join(", "));
}

#[test]
fn the_same_seed_gives_the_same_program() {
    for seed in 0..50 {
        assert_eq!(generate(seed).text, generate(seed).text);
    }
}
