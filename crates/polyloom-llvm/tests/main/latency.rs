//! Code of kernels on the critical path, and of the optimisation levels.
//!
//! The kernels are compiled for processors of the x86-64 levels whatever this machine has: nothing is run.

use polyloom_codegen::{ArgFacts, ArrayFacts, Backend, CodeVariant, CodegenError, EmitRequest, Emitter as _, Form};
use polyloom_ir::{FileId, Module, Type, text};
use polyloom_llvm::LlvmBackend;
use polyloom_passes::pipeline;

/// Sums of products, row by row.
const DOT: &str = "
kernel @dot(%0 a: array<f32, 1>, %1 b: array<f32, 1>, %2 out: array<f32, 1>, %3 n: i32) ATTRIBUTES {
  %4: i32 = tid 0
  %5: i32 = const 0
  %6: i32 = const 1
  %7: f32 = const 0.0
  %8: f32 = for_range %5, %3, %6, %7 (%9: i32, %10: f32) {
    %11: f32 = array_load %0, %9
    %12: f32 = array_load %1, %9
    %13: f32 = mul %11, %12
    %14: f32 = add %10, %13
    yield %14
  }
  array_store %2, %4, %8
  return
}";

/// Copies elements one by one.
const COPY: &str = "
kernel @copy(%0 a: array<f32, 1>, %1 out: array<f32, 1>, %2 n: i32) ATTRIBUTES {
  %4: i32 = const 0
  %5: i32 = const 1
  for_range %4, %2, %5 (%9: i32) {
    %11: f32 = array_load %0, %9
    array_store %1, %9, %11
    yield
  }
  return
}";

const FUSED: &str = "
kernel @fused(%0 a: f32, %1 b: array<f32, 1>) ATTRIBUTES {
  %2: i32 = tid 0
  %3: f32 = array_load %1, %2
  %4: f32 = fma %0, %3, %0
  array_store %1, %2, %4
  return
}";

struct Prepared {
    module: Module,
    kernel: polyloom_ir::FuncId,
    variant: CodeVariant,
}

fn prepared(source: &str, attributes: &str) -> Prepared {
    let source = source.replace("ATTRIBUTES", attributes);
    let module = text::parse_module(&source, FileId::from_u32(0)).expect("the kernel is well formed");
    let kernel = module.functions.keys().next().expect("one kernel");
    let options = pipeline::PipelineOptions { checked: false, ..Default::default() };
    let (module, kernel) = pipeline::prepared(&module, kernel, &options).expect("the kernel is valid");
    let dense = ArrayFacts { contiguous: true, disjoint: true, offsets_fit_i32: true, ..ArrayFacts::default() };
    let func = &module.functions[kernel];
    let of = |&param: &polyloom_ir::Value| match func.ty(param) {
        Type::Array { .. } => dense,
        _ => ArrayFacts::default(),
    };
    let facts = ArgFacts { arrays: func.params().iter().map(of).collect(), ..ArgFacts::default() };
    let variant = CodeVariant::new(1, facts);
    Prepared { module, kernel, variant }
}

fn emitted(source: &str, attributes: &str, cpu: &str, form: Form) -> String {
    let Prepared { module, kernel, variant } = prepared(source, attributes);
    let backend = LlvmBackend::for_cpu(cpu).expect("LLVM knows it");
    let text = backend.emit(&EmitRequest::new(&module, kernel, &variant), form).expect("the kernel compiles");
    String::from_utf8(text).expect("the form is text")
}

fn compiled(source: &str, attributes: &str, cpu: &str) -> Result<(), CodegenError> {
    let Prepared { module, kernel, variant } = prepared(source, attributes);
    LlvmBackend::for_cpu(cpu)?.compile(&module, kernel, &variant).map(|_| ())
}

fn instructions(assembly: &str) -> Vec<&str> {
    assembly.lines().filter(|line| line.starts_with('\t') && !line.starts_with("\t.")).map(str::trim).collect()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_call_that_the_processor_needs_breaks_the_promise_at_its_place() {
    for promise in ["critical_path", "critical_path, no_syscalls"] {
        let error = compiled(FUSED, &format!("[{promise}]"), "x86-64").expect_err("`fma` is a call there");
        assert_eq!(error.message, "the machine code calls `fmaf` in a kernel under `critical_path`");
        let source = FUSED.replace("ATTRIBUTES", &format!("[{promise}]"));
        let place = &source[error.span.start as usize..error.span.end as usize];
        assert!(place.contains("fma"), "{place}");
        compiled(FUSED, &format!("[{promise}]"), "x86-64-v3").expect("`fma` is an instruction there");
    }
    // The library's function allocates nothing and calls no system.
    compiled(FUSED, "[no_allocation, no_syscalls]", "x86-64").expect("the promises hold");
    assert!(emitted(FUSED, "[no_syscalls]", "x86-64", Form::Strategy).contains("the machine code calls fmaf"));
}

#[test]
fn a_function_that_stays_one_breaks_inline_always_beside_an_assertion_too() {
    let source = |assertion: &str| {
        format!(
            "func @half(%0 x: f32) -> (f32) [inline_never] {{
  %1: f32 = const 0.5
  %2: f32 = mul %0, %1
  return %2
}}
kernel @halves(%0 a: array<f32, 1>) [inline_always, check] {{
  %1: i32 = tid 0
  %2: f32 = array_load %0, %1
  {assertion}
  %4: f32 = call @half %2
  array_store %0, %1, %4
  return
}}"
        )
    };
    // The pipeline would inline the function, so that back ends get the module as it is here.
    let compiled = |source: &str| {
        let module = text::parse_module(source, FileId::from_u32(0)).expect("the kernel is well formed");
        let kernel = module.functions.keys().next_back().expect("a function and a kernel");
        LlvmBackend::for_cpu("x86-64-v3")?.compile(&module, kernel, &CodeVariant::new(1, ArgFacts::default()))
    };
    for assertion in ["", "%9: f32 = const 0.0\n  %3: bool = gt %2, %9\n  assert \"it is positive\" %3"] {
        let source = source(assertion);
        let error = compiled(&source).expect_err("the function is called");
        assert!(error.message.ends_with("in a kernel under `inline_always`"), "{}", error.message);
        assert_eq!(&source[error.span.start as usize..error.span.end as usize], "%4: f32 = call @half %2");
        compiled(&source.replace("[inline_never] ", "")).expect("the function is inlined");
    }
}

#[test]
fn copies_of_memory_are_allowed() {
    compiled(COPY, "[critical_path]", "x86-64-v3").expect("`memcpy` is on the list");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn loops_on_the_critical_path_are_aligned_and_their_arrays_asked_for() {
    for (cpu, shift) in [("x86-64-v3", 5), ("x86-64-v4", 6)] {
        let text = emitted(DOT, "[critical_path]", cpu, Form::Asm);
        assert!(text.matches(&format!("\t.p2align\t{shift}")).count() >= 2, "the function and a loop:\n{text}");
        assert_eq!(text.matches("prefetch").count(), 4, "two lines of two arrays:\n{text}");
        let plain = emitted(DOT, "", cpu, Form::Asm);
        assert!(!plain.contains("prefetch"), "{plain}");
    }
    let ir = emitted(DOT, "[critical_path]", "x86-64-v3", Form::LlvmIr);
    assert!(ir.contains(" hot ") && !ir.contains("ssp"), "{ir}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn levels_reach_the_code() {
    let code = |level: &str| emitted(COPY, &format!("[hint \"opt_level\" = \"{level}\"]"), "x86-64-v3", Form::Asm);
    let [none, most] = ["O0", "O3"].map(code);
    assert!(!none.contains("ymm"), "O0 looks for no vectors:\n{none}");
    assert!(most.contains("memcpy") || most.contains("ymm"), "O3 copies many elements at a time:\n{most}");
    let sums = |level: &str| emitted(DOT, &format!("[hint \"opt_level\" = \"{level}\"]"), "x86-64-v3", Form::Asm);
    let [n_small, n_most] = ["Os", "O3"].map(|level| instructions(&sums(level)).len());
    assert!(n_small < n_most, "a loop that is not unrolled is shorter: {n_small}, {n_most}");
}
