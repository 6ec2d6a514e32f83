//! The promises a fuzzer checks.

use polyloom_ir::interp::{InterpError, InterpTrap};
use polyloom_ir::{CheckKind, FileId, FuncId, FunctionKind, Imm, Module, generate, parse_module, verify_module};
use polyloom_passes::{PASSES, PassContext, PipelineOptions, prepared};

/// Takes any text; panics if the compiler breaks a promise about it.
pub type Target = fn(&str);

/// HIR text: reading, verifying and printing never panic, what is printed reads back the same, and whatever the
/// verifier accepts every pass takes and leaves verified.
pub fn hir_text(text: &str) {
    let file = FileId::from_u32(0);
    let Ok(module) = parse_module(text, file) else { return };
    let verified = verify_module(&module).is_ok();
    let printed = module.to_string();
    match parse_module(&printed, file) {
        Ok(again) => assert_eq!(again.to_string(), printed, "printing is not stable"),
        Err(errors) => panic!("what was printed cannot be read: {errors:?}\n{printed}"),
    }
    if verified {
        passes(&module);
    }
}

fn passes(module: &Module) {
    for checked in [false, true] {
        for pass in PASSES {
            let mut copy = module.clone();
            let functions: Vec<FuncId> = copy.functions.keys().collect();
            for id in functions {
                if (pass.run)(&mut copy, id, &PassContext { checked }).is_err() {
                    break;
                }
                assert_verified(&copy, pass.name);
            }
        }
        for (id, function) in &module.functions {
            if function.kind == FunctionKind::Kernel
                && let Ok((copy, _)) = prepared(module, id, &PipelineOptions { checked, ..Default::default() })
            {
                assert_verified(&copy, "prepare");
            }
        }
    }
}

pub(super) fn assert_verified(module: &Module, pass: &str) {
    if let Err(errors) = verify_module(module) {
        let messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        panic!("invalid HIR after {pass}: {}\n{module}", messages.join("; "));
    }
}

/// Runs a random program as written, after every pass, and as prepared for back ends.
///
/// # Panics
///
/// If one of them leaves other memory.
pub fn program(seed: u64) {
    let program = generate::program(seed, generate::GenerateOptions::default());
    let (module, kernel) = (&program.module, program.kernel);
    assert_verified(module, "making it");
    let expected = match program.interpret(module, kernel) {
        Ok(memory) => memory,
        // A rare program runs long; an op may not have its definition yet.
        Err(InterpError::StepLimit { .. } | InterpError::NoDefinition { .. }) => return,
        Err(error) => panic!("seed {seed}: {error}\n{module}"),
    };
    let compare = |changed: &Module, kernel: FuncId, how: &str| {
        assert_verified(changed, how);
        let found = program.interpret(changed, kernel);
        if let Err(InterpError::Trap(trap)) = &found
            && is_division(changed, trap)
        {
            // This is no difference, because dividing by zero has a result, and a checked kernel reports it.
            return;
        }
        let found = found.map_err(|error| error.to_string());
        if let Err(message) = found.and_then(|found| program.same_memory(&expected, &found)) {
            panic!("seed {seed}: {how}: {message}\nbefore:\n{module}\nafter:\n{changed}");
        }
    };
    for checked in [false, true] {
        for pass in PASSES {
            let mut copy = module.clone();
            let functions: Vec<FuncId> = copy.functions.keys().collect();
            if functions.iter().all(|&id| (pass.run)(&mut copy, id, &PassContext { checked }).is_ok()) {
                compare(&copy, kernel, pass.name);
            }
        }
        match prepared(module, kernel, &PipelineOptions { checked, ..Default::default() }) {
            Ok((copy, id)) => compare(&copy, id, "prepare"),
            Err(errors) => panic!("seed {seed}: cannot be prepared: {}\n{module}", errors[0].message),
        }
    }
}

fn is_division(module: &Module, trap: &InterpTrap) -> bool {
    let function = trap.site.func.map(|func| &module.functions[func]);
    function.is_some_and(|function| function.insts[trap.site.inst].imm == Imm::Check(CheckKind::Division))
}
