//! The suite every back end passes: on this machine's processor in every float mode, one thread at a time, and on older
//! processors.

use polyloom_codegen::conformance::{ConformanceEngine, EngineSubject};
use polyloom_codegen::conformance_tests;
use polyloom_ir::{FloatMode, FuncId, Module};
use polyloom_llvm::LlvmBackend;
use polyloom_passes::pipeline;

fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
    let options = pipeline::PipelineOptions { checked, ..Default::default() };
    pipeline::prepared(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}\n{module}"))
}

pub(crate) fn subject_of(backend: &LlvmBackend) -> EngineSubject<'_> {
    EngineSubject {
        engine: ConformanceEngine::Backend(backend),
        prepare: &prepare,
        float_mode: FloatMode::Strict,
        lanes: None,
    }
}

fn run(backend: &LlvmBackend, float_mode: FloatMode, suite: fn(&EngineSubject<'_>)) {
    suite(&EngineSubject { float_mode, ..subject_of(backend) });
}

fn run_one_by_one(suite: fn(&EngineSubject<'_>)) {
    suite(&EngineSubject { lanes: Some(1), ..subject_of(&host()) });
}

pub(crate) fn host() -> LlvmBackend {
    LlvmBackend::new().expect("LLVM knows this machine")
}

#[cfg(target_arch = "x86_64")]
fn cpu(name: &str) -> LlvmBackend {
    LlvmBackend::for_cpu(name).expect("LLVM knows it")
}

#[cfg(target_arch = "x86_64")]
fn run_on_avx2(suite: fn(&EngineSubject<'_>)) {
    if std::is_x86_feature_detected!("avx2") {
        run(&cpu("x86-64-v3"), FloatMode::Strict, suite);
    } else {
        println!("skipped: this machine has no AVX2");
    }
}

conformance_tests! { mod vectors = |suite| run(&host(), FloatMode::Strict, suite) }
conformance_tests! { mod contract = |suite| run(&host(), FloatMode::Contract, suite) }
conformance_tests! { mod fast = |suite| run(&host(), FloatMode::Fast, suite) }
conformance_tests! { mod one_lane = run_one_by_one }
conformance_tests! { #[cfg(target_arch = "x86_64")] mod sse2 = |suite| run(&cpu("x86-64"), FloatMode::Strict, suite) }
conformance_tests! { #[cfg(target_arch = "x86_64")] mod avx2 = run_on_avx2 }
