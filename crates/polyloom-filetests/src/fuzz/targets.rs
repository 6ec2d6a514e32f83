//! The promises a fuzzer checks.

use polyloom_ir::{FileId, FuncId, FunctionKind, Module, parse_module, verify_module};
use polyloom_passes::{Context, Options, PASSES, prepared};

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
                if (pass.run)(&mut copy, id, &Context { checked }).is_err() {
                    break;
                }
                assert_verified(&copy, pass.name);
            }
        }
        for (id, function) in &module.functions {
            if function.kind == FunctionKind::Kernel
                && let Ok((copy, _)) = prepared(module, id, &Options { checked })
            {
                assert_verified(&copy, "prepare");
            }
        }
    }
}

fn assert_verified(module: &Module, pass: &str) {
    if let Err(errors) = verify_module(module) {
        let messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        panic!("invalid HIR after {pass}: {}\n{module}", messages.join("; "));
    }
}
