//! Random kernels through every engine, compared bit for bit.
//!
//! ```text
//! fuzz [--programs N] [--seed FIRST] [--threads N] [--out DIR]
//! fuzz --gradients yes [--programs N] [--seed FIRST] [--threads N] [--out DIR]
//! fuzz --loom yes [--programs N] [--seed FIRST] [--threads N] [--out DIR]
//! fuzz --cpp COMPILER [--programs N] [--seed FIRST] [--out DIR]
//! fuzz --show SEED
//! ```
//!
//! With `--cpp` the engine is C++ text, through this compiler, instead of those of the build.
//!
//! With `--gradients`, kernels over `float64` are differentiated: reverse mode, forward mode and central differences
//! have to agree on every engine.
//!
//! With `--loom`, each kernel is written as `.loom`, read back and compared with what it was.
//!
//! The seed a worker is at stands in DIR/running_WORKER, for when a program brings the process down. Each disagreement
//! is shrunk and written to DIR (by default `target/fuzz`) as a file that the differential tests can
//! take over. The exit status is 1 if there was one.

use polyloom_filetests::differential::{
    Disagreement, EngineSet, RandomProgram, TextEngine, generate, generate_smooth, shrink,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

fn main() -> ExitCode {
    let (mut programs, mut first, mut threads, mut out) = (100_000u64, 0u64, 2usize, PathBuf::from("target/fuzz"));
    let mut cpp = None;
    let (mut gradients, mut loom) = (false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = value.parse::<u64>();
        match (flag.as_str(), number) {
            ("--programs", Ok(n)) => programs = n,
            ("--seed", Ok(n)) => first = n,
            ("--show", Ok(seed)) => {
                let program = if gradients { generate_smooth(seed) } else { generate(seed) };
                print!("# seed {seed}:\n{}\n{}", program.header(), program.text);
                return ExitCode::SUCCESS;
            }
            ("--threads", Ok(n)) => threads = n.max(1) as usize,
            ("--gradients", _) => gradients = value != "no",
            ("--loom", _) => loom = value != "no",
            ("--cpp", _) if !value.is_empty() => cpp = Some(value),
            ("--out", _) if !value.is_empty() => out = value.into(),
            _ => {
                eprintln!(
                    "usage: fuzz [--programs N] [--seed FIRST] [--threads N] [--out DIR] [--cpp COMPILER] [--gradients yes] [--loom yes] | fuzz --show SEED"
                );
                return ExitCode::from(2);
            }
        }
    }
    let engines = match EngineSet::new() {
        Ok(engines) => engines,
        Err(error) => {
            eprintln!("fuzz: {error}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = std::fs::create_dir_all(&out) {
        eprintln!("fuzz: cannot make {}: {error}", out.display());
        return ExitCode::FAILURE;
    }
    if let Some(compiler) = cpp {
        return fuzz_text(&engines, &compiler, first, programs, &out);
    }
    let started = Instant::now();
    let (next, failures) = (AtomicU64::new(0), AtomicU64::new(0));
    let became: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let check = |program: &RandomProgram, seed: u64| match (gradients, loom) {
        (true, _) => engines.check_gradients(program, seed).map(|outcome| Some(format!("{outcome:?}"))),
        (false, true) => engines.check_loom(program, seed).map(|outcome| Some(format!("{outcome:?}"))),
        (false, false) => engines.check(program, seed).map(|()| None),
    };
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let running = out.join(format!("running_{worker}"));
            let (next, failures, became, check, out) = (&next, &failures, &became, &check, &out);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= programs {
                        return;
                    }
                    let seed = first + index;
                    let _ = std::fs::write(&running, seed.to_string());
                    let program = if gradients { generate_smooth(seed) } else { generate(seed) };
                    let done = check(&program, seed);
                    if let Ok(Some(outcome)) = &done {
                        *became.lock().unwrap_or_else(PoisonError::into_inner).entry(outcome.clone()).or_default() += 1;
                    }
                    if let Err(found) = done {
                        failures.fetch_add(1, Ordering::Relaxed);
                        let kind = std::mem::discriminant(&*found);
                        let small = shrink(&program, 400, |candidate| {
                            matches!(check(candidate, seed), Err(e) if std::mem::discriminant(&*e) == kind && !matches!(*e, Disagreement::Rejected(_)))
                        });
                        let found = found.to_string().replace('\n', "\n# ");
                        let kind = if gradients { "gradients" } else { "differential" };
                        let header = small.header();
                        let text = format!("# test {kind}\n# seed {seed}: {found}\n{header}\n{}", small.text);
                        eprintln!("{text}");
                        let _ = std::fs::write(out.join(format!("seed_{seed}.py")), text);
                    }
                    if index % 5000 == 4999 {
                        let rate = index as f64 / started.elapsed().as_secs_f64();
                        eprintln!("{} programs, {rate:.0} a second", index + 1);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner();
    for (outcome, n) in became.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{n} programs: {outcome}");
    }
    println!(
        "{programs} programs from seed {first} on {}: {failures} disagreements, {:.0} s",
        engines.names().join(", "),
        started.elapsed().as_secs_f64()
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Number of programs a C++ compiler is given at a time.
const BATCH: u64 = 64;

/// Number of times a program that fails is made smaller and compiled again.
const TEXT_TRIES: usize = 100;

fn fuzz_text(engines: &EngineSet, compiler: &str, first: u64, programs: u64, out: &Path) -> ExitCode {
    let Some(engine) = TextEngine::new(compiler, out.to_owned()) else {
        eprintln!("fuzz: there is no {compiler}");
        return ExitCode::FAILURE;
    };
    let started = Instant::now();
    let mut failures = 0;
    for begin in (first..first + programs).step_by(BATCH as usize) {
        let seeds = begin..(begin + BATCH).min(first + programs);
        let batch: Vec<(u64, RandomProgram)> = seeds.map(|seed| (seed, generate(seed))).collect();
        for (index, found) in engine.check(engines, &batch) {
            failures += 1;
            let (seed, program) = &batch[index];
            let kind = std::mem::discriminant(&*found);
            let small = shrink(program, TEXT_TRIES, |candidate| {
                let found = engine.check(engines, &[(*seed, candidate.clone())]);
                found.iter().any(|(_, found)| std::mem::discriminant(&**found) == kind)
            });
            let found = found.to_string().replace('\n', "\n# ");
            let text = format!("# test differential\n# seed {seed}: {found}\n{}\n{}", small.header(), small.text);
            eprintln!("{text}");
            let _ = std::fs::write(out.join(format!("seed_{seed}.py")), text);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{programs} programs from seed {first} as C++ text: {failures} disagreements, {seconds:.0} s");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
