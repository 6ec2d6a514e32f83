//! What the code looks like: the inner loops are packed arithmetic, and neighbouring elements are moved together.
//!
//! The kernels are compiled for AVX-512 and AVX2 whatever this machine has: nothing is run.

use polyloom_codegen::{ArgFacts, ArrayFacts, Backend, CodeVariant, EmitRequest, Emitter as _, Form};
use polyloom_ir::{FileId, FloatMode, Type, text};
use polyloom_llvm::LlvmBackend;
use polyloom_passes::pipeline;

const SAXPY: &str = "
kernel @saxpy(%0 a: f32, %1 x: array<f32, 1>, %2 y: array<f32, 1>, %3 n: i32) {
  %4: i32 = tid 0
  %5: bool = ge %4, %3
  if %5 {
    return
  } else {
    yield
  }
  %6: f32 = array_load %1, %4
  %7: f32 = array_load %2, %4
  %8: f32 = mul %0, %6
  %9: f32 = add %8, %7
  array_store %2, %4, %9
  return
}";

const STENCIL: &str = "
kernel @stencil(%0 u: array<f32, 2>, %1 out: array<f32, 2>) {
  %2: i32 = tid 0
  %3: i32 = tid 1
  %4: i32 = const 0
  %5: i32 = const 1
  %6: i32 = dim 0 %0
  %7: i32 = sub %6, %5
  %8: i32 = dim 1 %0
  %9: i32 = sub %8, %5
  %10: bool = gt %2, %4
  %11: bool = lt %2, %7
  %12: bool = gt %3, %4
  %13: bool = lt %3, %9
  %14: bool = bit_and %10, %11
  %15: bool = bit_and %12, %13
  %16: bool = bit_and %14, %15
  if %16 {
    %17: i32 = sub %2, %5
    %18: i32 = add %2, %5
    %19: i32 = sub %3, %5
    %20: i32 = add %3, %5
    %21: f32 = array_load %0, %17, %3
    %22: f32 = array_load %0, %18, %3
    %23: f32 = array_load %0, %2, %19
    %24: f32 = array_load %0, %2, %20
    %25: f32 = add %21, %22
    %26: f32 = add %25, %23
    %27: f32 = add %26, %24
    %28: f32 = const 0.25
    %29: f32 = mul %28, %27
    array_store %1, %2, %3, %29
    yield
  } else {
    yield
  }
  return
}";

const NBODY: &str = "
kernel @nbody(%0 x: array<f32, 1>, %1 mass: array<f32, 1>, %2 a: array<f32, 1>, %3 n: i32) {
  %4: i32 = tid 0
  %5: f32 = array_load %0, %4
  %6: i32 = const 0
  %7: i32 = const 1
  %8: f32 = const 0.0
  %9: f32 = const 0.01
  %10: f32 = const 1.0
  %11: f32 = for_range %6, %3, %7, %8 (%12: i32, %13: f32) {
    %14: f32 = array_load %0, %12
    %15: f32 = sub %14, %5
    %16: f32 = mul %15, %15
    %17: f32 = add %16, %9
    %18: f32 = sqrt %17
    %19: f32 = div %10, %18
    %20: f32 = array_load %1, %12
    %21: f32 = mul %20, %19
    %22: f32 = mul %15, %21
    %23: f32 = add %13, %22
    yield %23
  }
  array_store %2, %4, %11
  return
}";

/// Holds what `y[i] = a / (x[i] * sqrt(x[i]))` is, and the same with the cube of a root.
const CUBES: [&str; 2] = [
    "
kernel @cube(%0 a: f32, %1 x: array<f32, 1>, %2 y: array<f32, 1>) {
  %3: i32 = tid 0
  %4: f32 = array_load %1, %3
  %5: f32 = sqrt %4
  %6: f32 = mul %4, %5
  %7: f32 = div %0, %6
  array_store %2, %3, %7
  return
}",
    "
kernel @cube(%0 a: f32, %1 x: array<f32, 1>, %2 y: array<f32, 1>) {
  %3: i32 = tid 0
  %4: f32 = array_load %1, %3
  %5: f32 = sqrt %4
  %6: f32 = mul %5, %5
  %7: f32 = mul %6, %5
  %8: f32 = div %0, %7
  array_store %2, %3, %8
  return
}",
];

/// Holds what `v[i] = v[i] * a + x[i]` is for arrays of vectors of three.
const VECTORS: &str = "
kernel @vectors(%0 a: f32, %1 x: array<f32, 2>, %2 v: array<f32, 2>) {
  %3: i32 = tid 0
  %4: i32 = const 0
  %5: i32 = const 1
  %6: i32 = const 2
  %10: f32 = array_load %1, %3, %4
  %11: f32 = array_load %1, %3, %5
  %12: f32 = array_load %1, %3, %6
  %13: f32 = array_load %2, %3, %4
  %14: f32 = array_load %2, %3, %5
  %15: f32 = array_load %2, %3, %6
  %16: f32 = mul %13, %0
  %17: f32 = mul %14, %0
  %18: f32 = mul %15, %0
  %19: f32 = add %16, %10
  %20: f32 = add %17, %11
  %21: f32 = add %18, %12
  array_store %2, %3, %4, %19
  array_store %2, %3, %5, %20
  array_store %2, %3, %6, %21
  return
}";

/// Returns what `m[i] = m[i] * a` is for arrays of `length` elements each.
fn long_rows(length: usize) -> String {
    let mut text = String::from("kernel @rows(%a a: f32, %m m: array<f32, 2>) {\n%i: i32 = tid 0\n");
    for place in 0..length {
        text += &format!("%c{place}: i32 = const {place}\n%x{place}: f32 = array_load %m, %i, %c{place}\n");
    }
    for place in 0..length {
        text += &format!("%y{place}: f32 = mul %x{place}, %a\n");
    }
    for place in 0..length {
        text += &format!("array_store %m, %i, %c{place}, %y{place}\n");
    }
    text + "return\n}"
}

/// `y[i] += a * x[i]`.
const UPDATE: &str = "
kernel @update(%a a: f32, %x x: array<f32, 1>, %y y: array<f32, 1>) {
  %i: i32 = tid 0
  %0: f32 = array_load %x, %i
  %1: f32 = mul %a, %0
  %2: f32 = atomic_add %y, %i, %1
  return
}";

/// `y[i] = x[i] / d * p + x[i] % d` for integers of a type.
fn divisions(ty: &str) -> String {
    format!(
        "
kernel @divisions(%d d: {ty}, %p p: {ty}, %x x: array<{ty}, 1>, %y y: array<{ty}, 1>) {{
  %i: i32 = tid 0
  %0: {ty} = array_load %x, %i
  %1: {ty} = div %0, %d
  %2: {ty} = mul %1, %p
  %3: {ty} = mod %0, %d
  %4: {ty} = add %2, %3
  array_store %y, %i, %4
  return
}}"
    )
}

/// `y[i] = max(x[i], level)` for integers of a type.
fn threshold(ty: &str) -> String {
    format!(
        "
kernel @threshold(%l level: {ty}, %x x: array<{ty}, 1>, %y y: array<{ty}, 1>) {{
  %i: i32 = tid 0
  %0: {ty} = array_load %x, %i
  %1: {ty} = max %0, %l
  array_store %y, %i, %1
  return
}}"
    )
}

/// The kernel's assembly for a processor, its arrays dense and apart. With `columns`, a launch has a dimension less
/// than the arrays, whose last extent that is.
fn assembly(source: &str, cpu: &str, columns: Option<u32>) -> String {
    let dense = ArrayFacts { contiguous: true, disjoint: true, offsets_fit_i32: true, ..ArrayFacts::default() };
    assembly_of(source, cpu, dense, columns)
}

fn assembly_of(source: &str, cpu: &str, facts_of_each: ArrayFacts, columns: Option<u32>) -> String {
    assembly_in(FloatMode::Strict, source, cpu, facts_of_each, columns)
}

fn assembly_in(
    float_mode: FloatMode,
    source: &str,
    cpu: &str,
    facts_of_each: ArrayFacts,
    columns: Option<u32>,
) -> String {
    let mut module = text::parse_module(source, FileId::from_u32(0)).expect("the kernel is well formed");
    let kernel = module.functions.keys().next().expect("one kernel");
    module.functions[kernel].metadata.float_mode = float_mode;
    let options = pipeline::PipelineOptions { checked: false, ..Default::default() };
    let (module, kernel) = pipeline::prepared(&module, kernel, &options).expect("the kernel is valid");
    let func = &module.functions[kernel];
    let of = |&param: &polyloom_ir::Value| match func.ty(param) {
        Type::Array { ndim, .. } => {
            let mut facts = facts_of_each;
            facts.extents[usize::from(ndim) - 1] = columns;
            facts
        }
        _ => ArrayFacts::default(),
    };
    let ranks = func.params().iter().filter_map(|&p| func.ty(p).as_array()).map(|(_, ndim)| ndim);
    let launch_rank = ranks.max().unwrap_or(1) - u8::from(columns.is_some());
    let facts = ArgFacts { arrays: func.params().iter().map(of).collect(), ..ArgFacts::default() };
    let variant = CodeVariant::new(launch_rank, facts);
    let backend = LlvmBackend::for_cpu(cpu).expect("LLVM knows it");
    let text = backend.emit(&EmitRequest::new(&module, kernel, &variant), Form::Asm).expect("the kernel compiles");
    String::from_utf8(text).expect("assembly is text")
}

/// The lines of the innermost loop that contains `instruction`: from a label to a jump back to it.
fn innermost_loop<'a>(assembly: &'a str, instruction: &str) -> Vec<&'a str> {
    let lines: Vec<&str> = assembly.lines().map(str::trim).collect();
    let mut found: Option<&[&str]> = None;
    for (start, label) in lines.iter().enumerate().filter_map(|(i, line)| Some((i, line.strip_suffix(':')?))) {
        let jumps_back = |line: &&str| line.starts_with('j') && line.split_whitespace().last() == Some(label);
        let Some(length) = lines[start..].iter().rposition(jumps_back) else { continue };
        let body = &lines[start..start + length];
        let contains = body.iter().any(|line| line.starts_with(instruction));
        if contains && found.is_none_or(|best| body.len() < best.len()) {
            found = Some(body);
        }
    }
    found.unwrap_or_else(|| panic!("no loop has {instruction}:\n{assembly}")).to_vec()
}

#[track_caller]
fn check_inner_loop(source: &str, cpu: &str, columns: Option<u32>, register: &str, instructions: &[&str]) {
    let assembly = assembly(source, cpu, columns);
    let inner = innermost_loop(&assembly, instructions[0]);
    for instruction in instructions {
        let packed = inner.iter().any(|line| line.starts_with(instruction) && line.contains(register));
        assert!(packed, "no {instruction} on {register} in the inner loop:\n{}\nof\n{assembly}", inner.join("\n"));
    }
    let one_by_one = ["vgather", "vscatter", "vmulss", "vaddss", "vsqrtss", "vdivss", "vpextr", "vpcmp", "call"];
    for line in inner {
        assert!(!one_by_one.iter().any(|op| line.starts_with(op)), "{line} in the inner loop:\n{assembly}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn fields_of_structs_are_updated_one_by_one() {
    let field = ArrayFacts { disjoint: true, offsets_fit_i32: true, ..ArrayFacts::default() };
    let assembly = assembly_of(SAXPY, "x86-64-v4", field, None);
    assert!(assembly.contains("vmulss"), "{assembly}");
    for packed in ["vgather", "vscatter", "vmulps"] {
        assert!(!assembly.contains(packed), "{packed}:\n{assembly}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn saxpy_moves_whole_registers() {
    check_inner_loop(SAXPY, "x86-64-v4", None, "%zmm", &["vmulps", "vaddps", "vmovups"]);
    check_inner_loop(SAXPY, "x86-64-v3", None, "%ymm", &["vmulps", "vaddps", "vmovups"]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn updates_of_a_threads_own_element_are_not_atomic() {
    check_inner_loop(UPDATE, "x86-64-v4", None, "%zmm", &["vmulps", "vaddps", "vmovups"]);
    assert!(!assembly(UPDATE, "x86-64-v4", None).contains("cmpxchg"));
    // Another array may be the same memory.
    let dense = ArrayFacts { contiguous: true, offsets_fit_i32: true, ..ArrayFacts::default() };
    assert!(assembly_of(UPDATE, "x86-64-v4", dense, None).contains("cmpxchg"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn vectors_move_in_whole_registers() {
    check_inner_loop(VECTORS, "x86-64-v4", Some(3), "%zmm", &["vmulps", "vaddps", "vmovups"]);
    check_inner_loop(VECTORS, "x86-64-v3", Some(3), "%ymm", &["vmulps", "vaddps", "vmovups"]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn matrices_move_in_whole_registers() {
    for length in [7, 9, 12, 16] {
        for (cpu, register) in [("x86-64-v4", "%zmm"), ("x86-64-v3", "%ymm")] {
            let columns = u32::try_from(length).ok();
            // Moves of doubles, too, where pairs of elements were shuffled last.
            check_inner_loop(&long_rows(length), cpu, columns, register, &["vmulps", "vmovup"]);
            let code = assembly(&long_rows(length), cpu, columns);
            let inner = innermost_loop(&code, "vmulps");
            let stores = inner.iter().filter(|line| {
                let to_memory = line.ends_with(')') && !line.contains("%rsp");
                line.starts_with("vmovup") && line.contains(register) && to_memory
            });
            assert_eq!(stores.count(), length, "a register for each element of a row:\n{code}");
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn loads_of_a_row_are_transposed_once() {
    let code = assembly(&long_rows(9), "x86-64-v4", Some(9));
    let inner = innermost_loop(&code, "vmulps");
    let n_shuffles = inner.iter().filter(|line| is_shuffle(line)).count();
    // Three steps of blends and one of permutations, in and out.
    assert!(n_shuffles <= 2 * 9 * 5, "{n_shuffles} shuffles:\n{code}");
}

fn is_shuffle(line: &str) -> bool {
    ["vperm", "vblend", "vshuf", "vunpck", "vinsert", "vextract"].iter().any(|op| line.starts_with(op))
        || line.contains("{%k")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_stencil_moves_whole_registers() {
    check_inner_loop(STENCIL, "x86-64-v4", None, "%zmm", &["vmulps", "vaddps", "vmovups"]);
    check_inner_loop(STENCIL, "x86-64-v3", None, "%ymm", &["vmulps", "vaddps", "vmovups"]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn stencils_alone_ask_for_lines_ahead() {
    let stencil = assembly(STENCIL, "x86-64-v4", None);
    let inner = innermost_loop(&stencil, "vmulps");
    let asked = inner.iter().filter(|line| line.starts_with("prefetch")).count();
    assert_eq!(asked, 2, "for the last row's elements and for the result's:\n{stencil}");
    let asks = |source: &str, columns| assembly(source, "x86-64-v4", columns).contains("prefetch");
    assert!(!asks(SAXPY, None) && !asks(VECTORS, Some(3)));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn n_bodies_share_each_element() {
    check_inner_loop(NBODY, "x86-64-v4", None, "%zmm", &["vsqrtps", "vdivps", "vmulps", "vaddps", "vbroadcastss"]);
    check_inner_loop(NBODY, "x86-64-v3", None, "%ymm", &["vsqrtps", "vdivps", "vmulps", "vaddps", "vbroadcastss"]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn fast_quotients_by_cubes_of_roots_take_six_products() {
    let dense = ArrayFacts { contiguous: true, disjoint: true, offsets_fit_i32: true, ..ArrayFacts::default() };
    for source in CUBES {
        let code = assembly_in(FloatMode::Fast, source, "x86-64-v4", dense, None);
        let inner = innermost_loop(&code, "vrsqrt14ps");
        // One of them, by a number, is of the scalar and before the loop.
        let count = |op: &str| inner.iter().filter(|line| line.starts_with(op)).count();
        assert_eq!((count("vmul"), count("vfn"), count("vdiv")), (4, 1, 0), "{code}");
        let strict = assembly_in(FloatMode::Strict, source, "x86-64-v4", dense, None);
        assert!(!strict.contains("vrsqrt") && strict.contains("vdivps"), "{strict}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn division_by_an_argument_is_multiplication() {
    for (ty, product) in [("i32", "vpmuludq"), ("u32", "vpmuludq"), ("i64", "vpmuludq"), ("u16", "vpmulhuw")] {
        for (cpu, register) in [("x86-64-v4", "%zmm"), ("x86-64-v3", "%ymm")] {
            let code = assembly(&divisions(ty), cpu, None);
            let inner = innermost_loop(&code, product);
            assert!(inner.iter().any(|line| line.starts_with(product) && line.contains(register)), "{ty}:\n{code}");
            let slow = ["vdiv", "div", "idiv", "vcvt", "vpinsr", "vpextr", "mulx"];
            let found = inner.iter().find(|line| slow.iter().any(|op| line.starts_with(op)));
            assert!(found.is_none(), "{found:?} for {ty}:\n{code}");
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn narrow_integers_fill_registers() {
    check_inner_loop(&threshold("u8"), "x86-64-v3", None, "%ymm", &["vpmaxub"]);
    // 32 bytes, because more have not been found to be faster.
    check_inner_loop(&threshold("u8"), "x86-64-v4", None, "%ymm", &["vpmaxub"]);
    check_inner_loop(&threshold("i16"), "x86-64-v3", None, "%ymm", &["vpmaxsw"]);
    check_inner_loop(&threshold("i16"), "x86-64-v4", None, "%zmm", &["vpmaxsw"]);
}

#[test]
fn an_unknown_processor_is_refused() {
    assert!(LlvmBackend::for_cpu("pdp-11").is_err());
}

#[test]
fn a_damaged_object_is_refused() {
    let module = text::parse_module("kernel @nothing() {\n  return\n}\n", FileId::from_u32(0)).expect("well formed");
    let kernel = module.functions.keys().next().expect("one kernel");
    let variant = CodeVariant::new(1, ArgFacts::default());
    let backend = LlvmBackend::new().expect("LLVM knows this machine");
    let object = backend.compile(&module, kernel, &variant).expect("the kernel compiles");
    assert!(backend.load(&object).is_ok());
    for at in [0, 9, object.bytes.len() / 2, object.bytes.len() - 1] {
        let mut damaged = object.clone();
        damaged.bytes[at] ^= 1;
        assert!(backend.load(&damaged).is_err(), "damage at byte {at} goes unnoticed");
    }
    for length in [0, 7, 15, object.bytes.len() / 2] {
        let mut cut = object.clone();
        cut.bytes.truncate(length);
        assert!(backend.load(&cut).is_err(), "a cut after {length} bytes goes unnoticed");
    }
}
