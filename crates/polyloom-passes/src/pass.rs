//! What a pass is, and the one list of them.

use crate::transform::*;
use polyloom_ir::{CallEffects, Diagnostic, FuncId, Function, Module};

/// Describes what passes are told beside the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PassContext {
    /// True if functions are compiled with checks unless they refuse them (constraint `unchecked`).
    pub checked: bool,
}

impl PassContext {
    /// Returns true if `func` is compiled with checks.
    pub fn checks(&self, func: &Function) -> bool {
        self.checked && !func.constraints.unchecked
    }
}

/// A transformation of one function of a module; `scalarise` is one of all.
///
/// It takes verified HIR and leaves verified HIR. Function handles stay valid; functions may be added.
#[derive(Clone, Copy)]
pub struct FunctionPass {
    /// Its name, as `; test pass NAME` and the documentation spell it.
    pub name: &'static str,
    /// Holds what it does, in one sentence.
    pub doc: &'static str,
    /// Runs it.
    pub run: fn(&mut Module, FuncId, &PassContext) -> Result<(), Vec<Diagnostic>>,
}

/// Every pass, in the order of the pipeline.
pub const PASSES: &[FunctionPass] = &[
    FunctionPass {
        name: "scalarise",
        doc: "Takes vectors, matrices and other composites apart into their components.",
        run: |module, _, _| {
            scalarise::scalarise(module);
            Ok(())
        },
    },
    FunctionPass {
        name: "insert_checks",
        doc: "In checked mode, checks array indices and integer divisors.",
        run: |module, func, context| {
            let func = &mut module.functions[func];
            if context.checks(func) {
                insert_checks::insert_checks(func);
            }
            Ok(())
        },
    },
    FunctionPass {
        name: "strip_asserts",
        doc: "In unchecked mode, removes assertions and checks.",
        run: |module, func, context| {
            let func = &mut module.functions[func];
            if !context.checks(func) {
                strip_asserts::strip_asserts(func);
            }
            Ok(())
        },
    },
    FunctionPass {
        name: "expand_library",
        doc: "Replaces library ops by calls of the functions that define them.",
        run: |module, func, _| {
            expand_library::expand_library(module, func);
            Ok(())
        },
    },
    FunctionPass {
        name: "inline",
        doc: "Replaces calls by the bodies of the functions called, big library functions excepted.",
        run: |module, func, _| inline::inline(module, func, inline::KeptCalls::Nothing),
    },
    FunctionPass {
        name: "early_exits",
        doc: "Turns breaks out of blocks, which inlined early returns are, into branches.",
        run: |module, func, _| {
            early_exits::early_exits(&mut module.functions[func]);
            Ok(())
        },
    },
    FunctionPass {
        name: "legalize_half",
        doc: "Replaces arithmetic on 16-bit floats by arithmetic on f32.",
        run: |module, func, _| {
            legalize_half::legalize_half(&mut module.functions[func]);
            Ok(())
        },
    },
    FunctionPass {
        name: "fold",
        doc: "Folds constants, applies exact identities and splices decided control flow.",
        run: |module, func, _| {
            fold::fold(&mut module.functions[func]);
            Ok(())
        },
    },
    FunctionPass {
        name: "if_convert",
        doc: "Turns small pure branches into selections.",
        run: |module, func, _| {
            if_convert::if_convert(&mut module.functions[func]);
            Ok(())
        },
    },
    FunctionPass {
        name: "known_conditions",
        doc: "Decides choices in branches on the same condition.",
        run: |module, func, _| {
            known_conditions::known_conditions(&mut module.functions[func]);
            Ok(())
        },
    },
    FunctionPass {
        name: "cse",
        doc: "Merges equal computations, and loads that no write separates.",
        run: |module, func, _| {
            let calls = CallEffects::of(module, func);
            cse::cse(&mut module.functions[func], &calls);
            Ok(())
        },
    },
    FunctionPass {
        name: "normalize_indices",
        doc: "Makes the wrap of negative array indices explicit where an index may be negative.",
        run: |module, func, _| {
            normalize_indices::normalize_indices(&mut module.functions[func]);
            Ok(())
        },
    },
    FunctionPass {
        name: "licm",
        doc: "Moves what does not change in a loop before it.",
        run: |module, func, _| {
            let calls = CallEffects::of(module, func);
            licm::licm(&mut module.functions[func], &calls);
            Ok(())
        },
    },
    FunctionPass {
        name: "dce",
        doc: "Removes instructions, region results and loop-carried values that nothing observable depends on.",
        run: |module, func, _| {
            let calls = CallEffects::of(module, func);
            dce::dce(&mut module.functions[func], &calls);
            Ok(())
        },
    },
    FunctionPass {
        name: "split_blocks",
        doc: "For CPUs: turns a kernel that is launched in blocks into one whose threads are the blocks.",
        run: |module, func, _| {
            if module.functions[func].needs_blocks() {
                blocks::split_blocks(module, func);
            }
            Ok(())
        },
    },
];

impl FunctionPass {
    /// The pass with this name.
    pub fn find(name: &str) -> Option<&'static FunctionPass> {
        PASSES.iter().find(|pass| pass.name == name)
    }
}
