//! The suite every back end passes, on Cranelift with all of the machine's instructions and with none but the
//! architecture's own.

use polyloom_codegen::CraneliftBackend;
use polyloom_codegen::conformance::{self, Subject};
use polyloom_ir::{FloatMode, FuncId, Module};
use polyloom_passes::pipeline;

pub(crate) fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
    let options = pipeline::Options { checked };
    pipeline::prepared(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}\n{module}"))
}

fn subject(backend: &CraneliftBackend, suite: fn(&Subject<'_>)) {
    suite(&Subject { backend, prepare: &prepare, float_mode: FloatMode::Strict });
}

macro_rules! suites {
    ($($name:ident = $suite:path;)*) => {
        $(
            #[test]
            fn $name() {
                subject(&CraneliftBackend::new().expect("Cranelift knows this machine"), $suite);
            }
        )*

        mod baseline {
            use super::*;
            $(
                #[test]
                fn $name() {
                    subject(&CraneliftBackend::baseline().expect("Cranelift knows this machine"), $suite);
                }
            )*
        }
    };
}

suites! {
    every_op_on_every_type = conformance::ops::elementwise;
    every_op_with_a_constant_operand = conformance::ops::constant_operands;
    every_conversion = conformance::ops::casts;
    control_flow = conformance::control::all;
    ranks_and_ranges = conformance::memory::ranks_and_ranges;
    strides = conformance::memory::strides;
    atomics = conformance::memory::atomics;
    atomics_under_contention = conformance::memory::contention;
    library_functions = conformance::library::all;
    traps = conformance::host::traps;
    checks = conformance::host::checks;
    prints = conformance::host::prints;
    random_programs = conformance::random::few;
}

/// For long runs: `POLYLOOM_FUZZ_SEEDS=1000000..1100000 cargo test -p polyloom-codegen -- --ignored`.
#[test]
#[ignore = "takes as long as it is told to"]
fn many_random_programs() {
    let range = std::env::var("POLYLOOM_FUZZ_SEEDS").unwrap_or_else(|_| "0..10000".to_owned());
    let (first, last) = range.split_once("..").expect("seeds as FIRST..LAST");
    let seeds = first.parse().expect("a number")..last.parse().expect("a number");
    let backend = CraneliftBackend::new().expect("Cranelift knows this machine");
    let subject = Subject { backend: &backend, prepare: &prepare, float_mode: FloatMode::Strict };
    conformance::random::programs(&subject, seeds);
}
