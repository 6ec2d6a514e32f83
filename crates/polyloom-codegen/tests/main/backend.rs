//! What the Cranelift back end promises beside right results: objects, emitted forms, limits, errors.

use crate::conformance::prepare;
use polyloom_codegen::conformance::launch;
use polyloom_codegen::{
    ArgFacts, ArrayFacts, Backend, CodeObject, CodeVariant, CodegenError, CraneliftBackend, EmitRequest, Emitter as _,
    Form,
};
use polyloom_ir::interp::{BufferMemory, InterpArg};
use polyloom_ir::{FuncId, Module, Scalar};
use std::sync::Arc;

fn backend() -> CraneliftBackend {
    CraneliftBackend::new().expect("Cranelift knows this machine")
}

fn variant(launch_rank: u8) -> CodeVariant {
    CodeVariant::new(launch_rank, ArgFacts::default())
}

fn compile(module: &Module) -> Result<CodeObject, CodegenError> {
    backend().compile(module, launch::kernel_of(module), &variant(1))
}

const SQUARES: &str = "kernel @squares(%a a: array<i64, 1>) {
    %i: i32 = tid 0
    %x: i64 = cast %i
    %y: i64 = mul %x, %x
    array_store %a, %i, %y
    return }";

/// A kernel that calls two functions, one of which calls the other and has several results.
const CALLS: &str = "func @double(%x x: f64) -> (f64) {
    %y: f64 = add %x, %x
    return %y }
  func @many(%x x: f64, %b b: bool, %n n: u8) -> (f64, f64, f64, u8, bool) {
    %d: f64 = call @double %x
    %e: f64 = call @double %d
    %f: f64 = where %b, %d, %e
    %m: u8 = add %n, %n
    %g: bool = logical_not %b
    return %f, %e, %d, %m, %g }
  kernel @calls(%a a: array<f64, 1>, %b b: array<u8, 1>) {
    %i: i32 = tid 0
    %x: f64 = array_load %a, %i
    %one: i32 = const 1
    %r: i32 = bit_and %i, %one
    %zero: i32 = const 0
    %odd: bool = ne %r, %zero
    %n: u8 = cast %i
    %f: f64, %e: f64, %d: f64, %m: u8, %g: bool = call @many %x, %odd, %n
    %s: f64 = sub %e, %f
    %t: f64 = add %s, %d
    array_store %a, %i, %t
    %u: u8 = where %g, %m, %n
    array_store %b, %i, %u
    return }";

fn run_calls(code: &Arc<dyn polyloom_codegen::LoadedCode>, module: &Module) -> (Vec<f64>, Vec<u64>) {
    let kernel = &module.functions[launch::kernel_of(module)];
    let mut memory = BufferMemory::default();
    let input: Vec<u64> = (0..6).map(|x| f64::from(x).to_bits()).collect();
    let args =
        [launch::dense(&mut memory, Scalar::F64, &[6], &input), launch::dense(&mut memory, Scalar::U8, &[6], &[0; 6])];
    let code = launch::ReadyKernel::Machine(code.clone());
    launch::run(&code, kernel, &[6], &args, &mut memory, std::slice::from_ref(&(0..6)));
    let floats = memory.elements(Scalar::F64, args[0]).into_iter().map(f64::from_bits).collect();
    (floats, memory.elements(Scalar::U8, args[1]))
}

/// Even threads get 4x - 4x + 2x, odd ones 4x - 2x + 2x.
fn expected_calls() -> (Vec<f64>, Vec<u64>) {
    (vec![0.0, 4.0, 4.0, 12.0, 8.0, 20.0], vec![0, 1, 4, 3, 8, 5])
}

#[test]
fn functions_call_each_other_and_return_many_values() {
    let module = launch::module(CALLS);
    let object = compile(&module).expect("it compiles");
    for _ in 0..3 {
        let code = backend().load(&object).expect("it loads");
        assert_eq!(run_calls(&code, &module), expected_calls());
    }
}

#[test]
fn functions_of_the_same_name_and_different_content_are_kept_apart() {
    let first = launch::module(CALLS);
    let second = launch::module(&CALLS.replace("%y: f64 = add %x, %x", "%y: f64 = sub %x, %x"));
    let codes = [&first, &second].map(|module| {
        let object = compile(module).expect("it compiles");
        backend().load(&object).expect("it loads")
    });
    assert_eq!(run_calls(&codes[0], &first), expected_calls());
    assert_eq!(run_calls(&codes[1], &second), (vec![0.0; 6], vec![0, 1, 4, 3, 8, 5]));
}

#[test]
fn a_recursive_function_is_refused() {
    let text = "func @f(%x x: i32) -> (i32) {
        %y: i32 = call @f %x
        return %y }
      kernel @k(%a a: array<i32, 1>) {
        %i: i32 = tid 0
        %y: i32 = call @f %i
        array_store %a, %i, %y
        return }";
    let mut sources = polyloom_ir::SourceMap::new();
    let file = sources.add(polyloom_ir::SourceFile::new("kernel.hir", text, 1));
    let module = polyloom_ir::parse_module(text, file).expect("the text is HIR");
    let error = compile(&module).expect_err("recursion cannot be compiled");
    assert!(error.message.contains("`f` calls itself"), "{error}");
}

#[test]
fn an_object_of_another_back_end_is_an_error() {
    let object = compile(&launch::module(SQUARES)).expect("it compiles");
    let other = CraneliftBackend::baseline().expect("Cranelift knows this machine");
    assert_ne!(backend().fingerprint(), other.fingerprint());
    assert!(other.load(&object).is_err());
    assert!(backend().load(&CodeObject { bytes: b"\x7fELF and so on".to_vec() }).is_err());
    assert!(backend().load(&CodeObject { bytes: Vec::new() }).is_err());
}

#[test]
fn compiling_twice_gives_the_same_bytes() {
    let module = launch::module(CALLS);
    assert_eq!(compile(&module), compile(&module));
}

#[test]
fn assembly_names_the_kernel_and_its_callees() {
    let module = launch::module(CALLS);
    let text = backend()
        .emit(&EmitRequest::new(&module, launch::kernel_of(&module), &variant(1)), Form::Asm)
        .expect("assembly");
    let text = String::from_utf8(text).expect("assembly is text");
    for name in ["calls:", "many:", "double:"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn llvm_ir_needs_another_back_end() {
    let module = launch::module(SQUARES);
    for form in [Form::LlvmIr, Form::LlvmIrOptimized] {
        let error = backend()
            .emit(&EmitRequest::new(&module, FuncId::from_u32(0), &variant(1)), form)
            .expect_err("no LLVM here");
        assert!(error.message.contains("feature `llvm`"), "{error}");
    }
}

/// Links the object with a C program that launches it.
#[cfg(target_os = "linux")]
#[test]
fn an_object_file_links_and_runs() {
    let Ok(version) = std::process::Command::new("cc").arg("--version").output() else {
        println!("skipped: no C compiler");
        return;
    };
    assert!(version.status.success());
    let module = launch::module(CALLS);
    let object = backend()
        .emit(&EmitRequest::new(&module, launch::kernel_of(&module), &variant(1)), Form::Obj)
        .expect("an object file");
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let program = r#"
        #include <stdio.h>
        #include <stdint.h>
        struct context { uint64_t shape[4]; void *trap, *print, *data; };
        void calls(const void *, const struct context *, uint64_t, uint64_t);
        int main(void) {
            double a[6] = {0, 1, 2, 3, 4, 5};
            uint8_t b[6] = {0};
            uint64_t args[] = {(uint64_t)a, 6, 8, (uint64_t)b, 6, 1};
            struct context context = {{6, 1, 1, 1}, 0, 0, 0};
            calls(args, &context, 0, 6);
            for (int i = 0; i < 6; i++) printf("%g %d\n", a[i], b[i]);
            return 0;
        }"#;
    std::fs::write(folder.path().join("kernel.o"), object).expect("a written file");
    std::fs::write(folder.path().join("main.c"), program).expect("a written file");
    let built = std::process::Command::new("cc")
        .args(["main.c", "kernel.o", "-o", "main"])
        .current_dir(folder.path())
        .output()
        .expect("a C compiler that runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    assert_eq!(String::from_utf8_lossy(&built.stderr), "", "the linker has complaints");
    let run = std::process::Command::new(folder.path().join("main")).output().expect("a program that runs");
    assert_eq!(String::from_utf8_lossy(&run.stdout), "0 0\n4 1\n4 4\n12 3\n8 8\n20 5\n");
}

#[test]
fn regions_nested_as_deeply_as_allowed_compile_on_a_small_stack() {
    let depth = polyloom_ir::MAX_REGION_DEPTH - 1;
    let mut text = String::from(
        "kernel @deep(%a a: array<i32, 1>) {\n%i: i32 = tid 0\n%zero: i32 = const 0\n%one: i32 = const 1\n",
    );
    for level in 0..depth {
        if level % 2 == 0 {
            text += &format!("%c{level}: bool = gt %i, %zero\nif %c{level} {{\n");
        } else {
            text += &format!("for_range %zero, %one, %one (%k{level}: i32) {{\n");
        }
    }
    text += "array_store %a, %i, %one\nyield\n";
    for level in (0..depth).rev() {
        text += if level % 2 == 0 { "} else { yield }\n" } else { "}\n" };
        text += if level == 0 { "return\n" } else { "yield\n" };
    }
    text += "}\n";
    let module = launch::module(&text);
    let compiled = std::thread::Builder::new().stack_size(2 << 20).spawn(move || compile(&module));
    let compiled = compiled.expect("a thread").join().expect("no overflow of the stack");
    assert!(compiled.is_ok(), "{compiled:?}");
}

#[test]
fn threads_compile_and_load_at_the_same_time() {
    let module = launch::module(CALLS);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let object = compile(&module).expect("it compiles");
                    let code = backend().load(&object).expect("it loads");
                    assert_eq!(run_calls(&code, &module), expected_calls());
                }
            });
        }
    });
}

#[test]
fn a_kernel_of_an_unsupported_rank_is_an_error() {
    let module = launch::module(SQUARES);
    for rank in [0, 5, 255] {
        assert!(backend().compile(&module, FuncId::from_u32(0), &variant(rank)).is_err());
    }
    assert!(backend().compile(&module, FuncId::from_u32(9), &variant(1)).is_err());
}

/// HIR that was not prepared is refused with the place, or compiled if it happens to be in the right form already.
#[test]
fn unprepared_kernels_never_panic() {
    let text = "kernel @k(%a a: array<f32, 1>) {
        %i: i32 = tid 0
        %x: f32 = array_load %a, %i
        %y: f32 = exp2 %x
        array_store %a, %i, %y
        return }";
    let module = launch::module(text);
    let error = compile(&module).expect_err("`exp2` is a library op");
    assert!(error.message.contains("`exp2`") && !error.span.is_none(), "{error:?}");
    let (prepared, kernel) = prepare(&module, FuncId::from_u32(0), false);
    assert!(backend().compile(&prepared, kernel, &variant(1)).is_ok());
}

/// A column of a product for each thread of a block: the sums of `a[k] * b[width * k + t]`, of which the thread of number 5 stores
/// the negative.
const PRODUCT: &str =
    "kernel @product(%a a: array<T, 1>, %b b: array<T, 1>, %c c: array<T, 1>, %n n: i64, %width w: i32) {
    %zero: i32 = const 0
    %one: i32 = const 1
    %zero_2: i64 = const 0
    %one_2: i64 = const 1
    %five: i64 = const 5
    %nothing: T = const 0.0
    %wide: i64 = cast %width
    for_range parallel %zero, %width, %one (%t: i32) {
      %column: i64 = cast %t
      %sum: T = for_range %zero_2, %n, %one_2, %nothing (%k: i64, %s: T) {
        %x: T = array_load %a, %k
        %row: i64 = mul %k, %wide
        %place: i64 = add %row, %column
        %y: T = array_load %b, %place
        %next: T = fma %x, %y, %s
        yield %next
      }
      %is_other: bool = eq %column, %five
      if %is_other {
        %negative: T = neg %sum
        array_store %c, %column, %negative
        yield
      } else {
        array_store %c, %column, %sum
        yield
      }
      yield
    }
    return }";

/// Threads that may run in step do so on vectors, and those that are left over one by one, with the bits of a chain.
#[test]
fn products_of_a_block_run_on_vectors() {
    for (scalar, name) in [(Scalar::F32, "f32"), (Scalar::F64, "f64")] {
        let mut module =
            launch::module(&PRODUCT.replace("T,", &format!("{name},")).replace(": T", &format!(": {name}")));
        let kernel = launch::kernel_of(&module);
        module.functions[kernel].metadata.indices_from_start = true;
        let dense = ArrayFacts { contiguous: true, disjoint: true, ..ArrayFacts::default() };
        let variant = CodeVariant::new(1, ArgFacts { arrays: vec![dense; 3], ..ArgFacts::default() });
        let text = backend().emit(&EmitRequest::new(&module, kernel, &variant), Form::Asm).expect("assembly");
        let text = String::from_utf8(text).expect("assembly is text");
        if cfg!(target_arch = "x86_64") && std::arch::is_x86_feature_detected!("fma") {
            let packed = if scalar == Scalar::F32 { "ps" } else { "pd" };
            let is_packed = |line: &str| line.contains("vfm") && line.contains(packed);
            assert!(text.lines().any(is_packed), "{text}");
        }
        let object = backend().compile(&module, kernel, &variant).expect("it compiles");
        let code = launch::ReadyKernel::Machine(backend().load(&object).expect("it loads"));
        for (length, width) in [(7_u64, 21_u64), (1, 8), (3, 3), (0, 9), (5, 16)] {
            let number = |index: u64| ((index * 37 % 101) as f64 - 50.0) / 7.0;
            let bits = |x: f64| if scalar == Scalar::F32 { u64::from((x as f32).to_bits()) } else { x.to_bits() };
            let rounded = |x: f64| if scalar == Scalar::F32 { f64::from(x as f32) } else { x };
            let list = |first: u64, n: u64| -> Vec<f64> { (first..first + n).map(|i| rounded(number(i))).collect() };
            let (a, b) = (list(0, length), list(9, length * width));
            let mut memory = BufferMemory::default();
            let mut array = |values: &[f64]| {
                let values: Vec<u64> = values.iter().map(|&x| bits(x)).collect();
                launch::dense(&mut memory, scalar, &[values.len()], &values)
            };
            let args = [array(&a), array(&b), array(&vec![0.0; width as usize])];
            let result = args[2];
            let args = [&args[..], &[InterpArg::Scalar(length), InterpArg::Scalar(width)]].concat();
            let function = &module.functions[kernel];
            launch::run(&code, function, &[1], &args, &mut memory, std::slice::from_ref(&(0..1)));
            let chain = |t: u64| {
                let step = |sum: f64, k: u64| {
                    let (x, y) = (a[k as usize], b[(k * width + t) as usize]);
                    match scalar {
                        Scalar::F32 => f64::from((x as f32).mul_add(y as f32, sum as f32)),
                        _ => x.mul_add(y, sum),
                    }
                };
                let sum = (0..length).fold(0.0, step);
                bits(if t == 5 { -sum } else { sum })
            };
            let expected: Vec<u64> = (0..width).map(chain).collect();
            assert_eq!(memory.elements(scalar, result), expected, "{name}, {length} by {width}");
        }
    }
}
