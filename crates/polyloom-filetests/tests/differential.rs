//! Random kernels give the same bits on every engine: a slice of what `make fuzz` does, and every program that once
//! failed.

use polyloom_filetests::differential::{Engines, Program, generate};

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
fn programs_that_once_failed_agree() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/filetests/differential");
    let engines = Engines::new().expect("the back ends of this build work");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder is there").flatten().map(|e| e.path()).collect();
    files.sort();
    for path in files.iter().filter(|p| p.extension().is_some_and(|e| e == "py")) {
        let text = std::fs::read_to_string(path).expect("the file can be read");
        let seed = text.lines().next().and_then(|line| line.strip_prefix("# seed ")?.split(':').next()?.parse().ok());
        let seed: u64 = seed.unwrap_or_else(|| panic!("{}: the first line names no seed", path.display()));
        let program = Program::from_text(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Err(found) = engines.check(&program, seed) {
            panic!("{}: {found}", path.display());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_program() {
    for seed in 0..50 {
        assert_eq!(generate(seed).text, generate(seed).text);
    }
}
