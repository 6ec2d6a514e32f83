//! The suite every back end passes, on Cranelift with all of the machine's instructions and with none but the
//! architecture's own, and in every float mode.

use polyloom_codegen::CraneliftBackend;
use polyloom_codegen::conformance::{self, SUITES, Subject};
use polyloom_ir::{FloatMode, FuncId, Module};
use polyloom_passes::pipeline;

pub(crate) fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
    let options = pipeline::Options { checked };
    pipeline::prepared(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}\n{module}"))
}

fn run(backend: &CraneliftBackend, float_mode: FloatMode, suite: &str) {
    let (_, suite) = SUITES.iter().find(|(name, _)| *name == suite).expect("a suite of the list");
    suite(&Subject { backend, prepare: &prepare, float_mode });
}

fn host() -> CraneliftBackend {
    CraneliftBackend::new().expect("Cranelift knows this machine")
}

macro_rules! suites {
    ($($name:ident = $suite:literal;)*) => {
        #[test]
        fn every_suite_is_run() {
            let here = [$($suite),*];
            assert!(SUITES.iter().all(|(name, _)| here.contains(name)));
        }

        mod strict {
            use super::*;
            $(#[test] fn $name() { run(&host(), FloatMode::Strict, $suite); })*
        }

        mod contract {
            use super::*;
            $(#[test] fn $name() { run(&host(), FloatMode::Contract, $suite); })*
        }

        mod fast {
            use super::*;
            $(#[test] fn $name() { run(&host(), FloatMode::Fast, $suite); })*
        }

        mod baseline {
            use super::*;
            fn baseline() -> CraneliftBackend {
                CraneliftBackend::baseline().expect("Cranelift knows this machine")
            }
            $(#[test] fn $name() { run(&baseline(), FloatMode::Strict, $suite); })*
        }
    };
}

suites! {
    every_op_on_every_type = "ops::elementwise";
    every_op_with_a_constant_operand = "ops::constant_operands";
    every_conversion = "ops::casts";
    control_flow = "control::all";
    ranks_and_ranges = "memory::ranks_and_ranges";
    strides = "memory::strides";
    any_byte_is_true = "memory::bools";
    atomics = "memory::atomics";
    atomics_under_contention = "memory::contention";
    library_functions = "library::all";
    traps = "host::traps";
    checks = "host::checks";
    prints = "host::prints";
    random_programs = "random::few";
    sums_of_products = "rounding::all";
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
