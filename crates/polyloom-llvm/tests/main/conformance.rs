//! The suite every back end passes: on this machine's processor in every float mode, one thread at a time, and on older
//! processors.

use polyloom_codegen::conformance::{SUITES, Subject};
use polyloom_ir::{FloatMode, FuncId, Module};
use polyloom_llvm::LlvmBackend;
use polyloom_passes::pipeline;

fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
    let options = pipeline::Options { checked };
    pipeline::prepared(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}\n{module}"))
}

pub(crate) fn subject_of(backend: &LlvmBackend) -> Subject<'_> {
    Subject { backend, prepare: &prepare, float_mode: FloatMode::Strict }
}

fn run(backend: &LlvmBackend, float_mode: FloatMode, suite: &str) {
    let (_, suite) = SUITES.iter().find(|(name, _)| *name == suite).expect("a suite of the list");
    suite(&Subject { float_mode, ..subject_of(backend) });
}

pub(crate) fn host() -> LlvmBackend {
    LlvmBackend::new().expect("LLVM knows this machine")
}

macro_rules! suites {
    ($($name:ident = $suite:literal;)*) => {
        #[test]
        fn every_suite_is_run() {
            let here = [$($suite),*];
            assert!(SUITES.iter().all(|(name, _)| here.contains(name)));
        }

        mod vectors {
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

        mod one_lane {
            use super::*;
            $(#[test] fn $name() { run(&host().with_lanes(1), FloatMode::Strict, $suite); })*
        }

        #[cfg(target_arch = "x86_64")]
        mod sse2 {
            use super::*;
            $(#[test] fn $name() { run(&LlvmBackend::for_cpu("x86-64").expect("LLVM knows it"), FloatMode::Strict, $suite); })*
        }

        #[cfg(target_arch = "x86_64")]
        mod avx2 {
            use super::*;
            $(#[test] fn $name() {
                if std::is_x86_feature_detected!("avx2") {
                    run(&LlvmBackend::for_cpu("x86-64-v3").expect("LLVM knows it"), FloatMode::Strict, $suite);
                } else {
                    println!("skipped: this machine has no AVX2");
                }
            })*
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
    random_programs = "random::few";
    sums_of_products = "rounding::all";
    checks = "host::checks";
    traps = "host::traps";
    prints = "host::prints";
}
