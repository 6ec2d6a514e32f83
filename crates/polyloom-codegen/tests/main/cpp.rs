//! C++ text against the interpreter: the conformance suite, through a C++ compiler.

use polyloom_codegen::conformance::text::{Compiler, check};
use polyloom_codegen::conformance::{Subject, control, host, library, memory, ops, random};
use polyloom_codegen::cpp::Semantics;
use polyloom_ir::{FuncId, Function, Inst, Module, Op, Type};
use polyloom_passes::analysis::range::possibly_negative_indices;
use polyloom_passes::pipeline::Options;
use polyloom_passes::text::{definition, for_text};
use std::sync::Arc;

struct Passes;

impl Semantics for Passes {
    fn definition(&self, op: Op, types: &[Type]) -> Option<Arc<Module>> {
        definition(op, types)
    }

    fn negative_indices(&self, func: &Function) -> Vec<(Inst, u8)> {
        possibly_negative_indices(func).into_vec()
    }
}

fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
    let options = Options { checked, ..Default::default() };
    let text = for_text(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}\n{module}"));
    (text.module.into_owned(), text.kernel)
}

/// All suites but that of printing, which goes to the standard output.
const SUITES: [fn(&Subject<'_>); 15] = [
    ops::elementwise,
    ops::constant_operands,
    ops::casts,
    control::all,
    memory::ranks_and_ranges,
    memory::strides,
    memory::bools,
    memory::short_rows,
    memory::wrapping_indices,
    memory::atomics,
    memory::contention,
    library::all,
    host::traps,
    host::checks,
    random::few,
];

fn suite(compiler: &str) {
    match Compiler::find(compiler) {
        Some(compiler) => check(&compiler, &Passes, &prepare, &SUITES),
        None => println!("skipped: no {compiler}"),
    }
}

#[test]
fn text_compiled_by_gcc_computes_the_interpreters_bits() {
    suite("g++");
}

#[test]
fn text_compiled_by_clang_computes_the_interpreters_bits() {
    suite("clang++");
}
