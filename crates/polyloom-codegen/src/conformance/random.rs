//! Random programs of [`polyloom_ir::generate`] against the interpreter: in all combinations of checked and unchecked,
//! with facts and without.

use super::launch::{facts, run, splits};
use super::{EngineSubject, HirPreparation};
use crate::backend::ArgFacts;
use polyloom_ir::FloatMode;
use polyloom_ir::generate::{GenerateOptions, program};
use polyloom_ir::interp::InterpError;
use std::ops::Range;

/// A few hundred programs.
pub fn few(subject: &EngineSubject<'_>) {
    programs(subject, 0..400);
}

/// The programs of these seeds.
///
/// # Panics
///
/// At the first that the back end and the interpreter disagree on, with its seed.
pub fn programs(subject: &EngineSubject<'_>, seeds: Range<u64>) {
    for seed in seeds {
        // Other modes than `strict` may round float arithmetic otherwise than the reference, also that of library
        // functions which become part of the kernel: `lerp(s, s, s)` is `s` to LLVM.
        let is_strict = subject.float_mode == FloatMode::Strict;
        let options = GenerateOptions {
            library: is_strict && seed % 4 == 0,
            float_arithmetic: is_strict,
            ..GenerateOptions::default()
        };
        let program = program(seed, options);
        // The rare program that runs for too long is left out, because it gives nothing to compare with.
        let Ok(expected) = program.interpret(&program.module, program.kernel) else { continue };
        let known = facts(&program.module.functions[program.kernel], &program.args);
        let (preparation, facts) = match seed % 3 {
            0 => (HirPreparation::Unchecked, ArgFacts::default()),
            1 => (HirPreparation::Unchecked, known),
            _ => (HirPreparation::Checked, known),
        };
        let rank = program.shape.len() as u8;
        let (prepared, kernel, code) = subject.load(&program.module, program.kernel, preparation, rank, facts);
        // In checked mode division by zero ends the launch. A back end that runs threads in groups may then report
        // another thread than the first, and has done more or less of the others.
        let traps = preparation == HirPreparation::Checked
            && matches!(program.interpret(&prepared, kernel), Err(InterpError::Trap(_)));
        let kernel = &prepared.functions[kernel];
        let ranges = &splits(program.n_threads())[seed as usize % 3];
        let mut memory = program.memory.clone();
        let events = run(&code, kernel, &program.shape, &program.args, &mut memory, ranges);
        let context = || format!("{}, seed {seed}, {preparation:?}\n{prepared}", subject.name());
        assert_eq!(!events.traps.is_empty(), traps, "traps: {:?}\n{}", events.traps, context());
        if traps {
            continue;
        }
        if let Err(difference) = program.same_memory(&expected, &memory) {
            panic!("{difference}\n{}", context());
        }
    }
}
