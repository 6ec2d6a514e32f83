use super::*;
use crate::produce::drafts;
use crate::proof::Reason;
use crate::verify::KernelVerifier;
use polyloom::op::OpSpelling;
use polyloom::{Arch, Kernel, Op, Session, SourceFile, SourceUnit};
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn compile(session: &Session, program: &DatasetProgram) -> Kernel {
    let file = SourceFile::new("generated.py", program.source.as_str(), 1);
    let compiled = SourceUnit::parse(file).and_then(|unit| session.compile_file_kernel(&unit, &program.name));
    compiled.unwrap_or_else(|error| panic!("{}\n{error}", program.source))
}

#[test]
fn a_seed_is_one_kernel() {
    for &category in Category::ALL {
        for seed in 0..50 {
            assert_eq!(generate(category, seed), generate(category, seed), "{category} {seed}");
        }
    }
}

/// Of streams that begin near each other, the one has the other's kernels.
#[test]
fn indices_have_their_own_kernels() {
    for seed in [0, 1, 2, 77] {
        let drafts = |index| drafts(&[Category::Math], seed, index).take(4);
        let sources: Vec<String> = (0..50).flat_map(drafts).map(|program| program.source).collect();
        let different: HashSet<&String> = sources.iter().collect();
        assert!(sources.len() - different.len() <= 2, "{seed}: {} of {}", different.len(), sources.len());
    }
}

#[test]
fn lines_are_those_that_a_formatter_leaves() {
    for &category in Category::ALL {
        for seed in 0..100 {
            let source = generate(category, seed).source;
            for line in source.lines() {
                assert!(line.len() <= 88 && line.trim_end() == line, "{category} {seed}: `{line}`");
            }
            assert!(source.ends_with('\n') && !source.ends_with("\n\n"), "{category} {seed}");
            assert!(!source.contains("\n\n\n\n"), "{category} {seed}");
        }
    }
}

#[test]
fn kernels_are_of_all_lengths() {
    let mut lengths = BTreeMap::<usize, usize>::new();
    for &category in Category::ALL {
        for seed in 0..100 {
            *lengths.entry(generate(category, seed).source.lines().count() / 20).or_default() += 1;
        }
    }
    assert!((0..4).all(|length| lengths.get(&length).is_some_and(|&n| n > 10)), "{lengths:?}");
}

#[test]
fn kernels_compile_and_differ_in_structure() {
    let session = Session::new().expect("there is a back end");
    for &category in Category::ALL {
        let n = 250;
        let structures: HashSet<[u8; 32]> =
            (0..n).map(|seed| compile(&session, &generate(category, 1000 + seed)).structure_hash()).collect();
        let n_equal = n as usize - structures.len();
        assert!(n_equal * 50 <= n as usize, "{n_equal} of {n} kernels of {category} have the structure of another");
    }
}

#[test]
fn most_kernels_pass_and_none_finds_a_fault() {
    let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
    for &category in Category::ALL {
        let n = 60;
        let (mut n_rejected, mut n_idle) = (0, 0);
        for seed in 0..n {
            let program = generate(category, 5000 + seed);
            let done =
                verifier.compile(&program.name, &program.source).and_then(|kernel| verifier.run(&program, &kernel));
            let Err(reject) = done else { continue };
            *if reject.reason == Reason::NoEffect { &mut n_idle } else { &mut n_rejected } += 1;
            let is_fault =
                matches!(reject.reason, Reason::Rejected | Reason::Failed | Reason::Disagreement | Reason::Panic);
            assert!(!is_fault, "{category} {seed}: {}\n{}", reject.detail, program.source);
        }
        assert!(n_rejected * 4 <= n, "{n_rejected} of {n} kernels of {category} are rejected");
        assert!(n_idle * 5 <= 2 * n, "{n_idle} of {n} kernels of {category} have operations that do nothing in runs");
    }
}

/// Builtins that no kernel calls, and why.
const NEVER: [(Op, &str); 0] = [];

#[test]
fn every_builtin_occurs() {
    let mut missing: BTreeSet<Op> = overloads::OVERLOADS.iter().map(|overload| overload.op).collect();
    for (op, _) in NEVER {
        assert!(missing.remove(&op), "{} is no builtin of values", op.name());
    }
    let categories = [Category::Arithmetic, Category::Math, Category::Vector, Category::Matrix, Category::Function];
    for seed in 0..20_000 {
        let source = generate(categories[seed % categories.len()], seed as u64).source;
        missing.retain(|&op| {
            let called = source.contains(&format!(".{}(", op.name()));
            let written = match op.info().spelling {
                OpSpelling::Operator(operator) => source.contains(&format!("{operator} ")) || source.contains(operator),
                _ => false,
            };
            !called && !written
        });
        if missing.is_empty() {
            return;
        }
    }
    let names: Vec<&str> = missing.iter().map(|op| op.name()).collect();
    panic!("no kernel calls {}", names.join(", "));
}
