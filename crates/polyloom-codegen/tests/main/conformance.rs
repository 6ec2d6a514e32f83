//! The suite every engine passes: Cranelift with all of the machine's instructions and with none but the architecture's
//! own, Cranelift in haste, and the interpreter, in every float mode.

use polyloom_codegen::CraneliftBackend;
use polyloom_codegen::conformance::{ConformanceEngine, EngineSubject, random};
use polyloom_codegen::conformance_tests;
use polyloom_ir::{FloatMode, FuncId, Module};
use polyloom_passes::pipeline;

pub(crate) fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
    let options = pipeline::PipelineOptions { checked, ..Default::default() };
    pipeline::prepared(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}\n{module}"))
}

fn run(backend: &CraneliftBackend, float_mode: FloatMode, suite: fn(&EngineSubject<'_>)) {
    suite(&EngineSubject { engine: ConformanceEngine::Backend(backend), prepare: &prepare, float_mode, lanes: None });
}

fn interpret(float_mode: FloatMode, suite: fn(&EngineSubject<'_>)) {
    suite(&EngineSubject { engine: ConformanceEngine::Interpreter, prepare: &prepare, float_mode, lanes: None });
}

fn host() -> CraneliftBackend {
    CraneliftBackend::new().expect("Cranelift knows this machine")
}

fn baseline() -> CraneliftBackend {
    CraneliftBackend::baseline().expect("Cranelift knows this machine")
}

fn hasty() -> CraneliftBackend {
    host().hasty().expect("Cranelift knows this machine")
}

conformance_tests! { mod strict = |suite| run(&host(), FloatMode::Strict, suite) }
conformance_tests! { mod contract = |suite| run(&host(), FloatMode::Contract, suite) }
conformance_tests! { mod fast = |suite| run(&host(), FloatMode::Fast, suite) }
conformance_tests! { mod baseline = |suite| run(&baseline(), FloatMode::Strict, suite) }
conformance_tests! { mod hasty_strict = |suite| run(&hasty(), FloatMode::Strict, suite) }
conformance_tests! { mod interpreter_strict = |suite| interpret(FloatMode::Strict, suite) }
conformance_tests! { mod interpreter_contract = |suite| interpret(FloatMode::Contract, suite) }
conformance_tests! { mod interpreter_fast = |suite| interpret(FloatMode::Fast, suite) }

/// For long runs: `POLYLOOM_FUZZ_SEEDS=1000000..1100000 cargo test -p polyloom-codegen -- --ignored`.
#[test]
#[ignore = "takes as long as it is told to"]
fn many_random_programs() {
    let range = std::env::var("POLYLOOM_FUZZ_SEEDS").unwrap_or_else(|_| "0..10000".to_owned());
    let (first, last) = range.split_once("..").expect("seeds as FIRST..LAST");
    let seeds = first.parse().expect("a number")..last.parse().expect("a number");
    let backend = CraneliftBackend::new().expect("Cranelift knows this machine");
    let subject = EngineSubject {
        engine: ConformanceEngine::Backend(&backend),
        prepare: &prepare,
        float_mode: FloatMode::Strict,
        lanes: None,
    };
    random::programs(&subject, seeds);
}
