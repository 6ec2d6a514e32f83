//! Every invariant of the verifier, by number, with the exact message for breaking it.
//!
//! What HIR text cannot express (dangling handles, wrong immediates) is built by hand at the end.

use polyloom_ir::*;

fn parse(text: &str) -> Module {
    parse_module(text, FileId::from_u32(0)).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

fn messages(module: &Module) -> Vec<String> {
    verify_module(module).err().unwrap_or_default().into_iter().map(|error| error.message).collect()
}

/// The verifier says exactly this about the module.
fn check_module(text: &str, expected: &[&str]) {
    assert_eq!(messages(&parse(text)), expected, "\n{text}");
}

/// The verifier says exactly this about a function with this code, written without its closing `return`.
fn check(code: &str, expected: &[&str]) {
    let text = format!(
        "func @test(%a a: i32, %b b: i32, %c c: bool, %f f: f32, %arr arr: array<f32, 2>) {{\n{code}\nreturn\n}}\n"
    );
    check_module(&text, expected);
}

#[test]
fn errors_carry_the_span_and_the_instruction() {
    let text = "func @f(%0 x: i32, %1 y: f32) {\n  %2 sum: i32 = add %0, %1\n  return\n}\n";
    let Err(errors) = verify_module(&parse(text)) else { panic!("accepted") };
    let mut sources = SourceMap::new();
    sources.add(SourceFile::new("test.hir", text, 1));
    assert_eq!(
        diagnostic::render(&errors[0], &sources, false),
        "\
error[PL0402]: `add` does not take (i32, f32); it is [T: number](a: T, b: T) -> T
 --> test.hir:2:3
  |
2 |   %2 sum: i32 = add %0, %1
  |   ^^^^^^^^^^^^^^^^^^^^^^^^
  |
  = help: in @f: %2 sum: i32 = add %0, %1
"
    );
}

#[test]
fn all_errors_are_collected() {
    check(
        "%0: i32 = add %a, %f\n%1: i32 = neg %f\ncall @test %a",
        &[
            "`add` does not take (i32, f32); it is [T: number](a: T, b: T) -> T",
            "`neg` gives (f32), not (i32)",
            "@test takes (i32, i32, bool, f32, array<f32, 2>), not (i32)",
            "recursion: @test calls @test",
        ],
    );
}

#[test]
fn invariant_5_definitions_dominate_uses() {
    check("%0: i32 = add %a, %1\n%1: i32 = add %a, %0", &["%6 is not defined at this point"]);
    check("%0: i32 = add %0, %a", &["%5 is not defined at this point"]);
    check(
        "if %c {\n%0: i32 = neg %a\nyield\n} else {\n%1: i32 = neg %0\nyield\n}\n%2: i32 = neg %0",
        &["%5 is not defined at this point", "%5 is not defined at this point"],
    );
    check("%0: i32 = if %c {\nyield %0\n} else {\nyield %a\n}", &["%5 is not defined at this point"]);
    check(
        "while {\n%0: bool = const true\nyield %0\n} do {\nassert \"\" %0\nyield\n}",
        &["%5 is not defined at this point"],
    );
    check_module(
        "func @f(%0 x: i32) {\n  return\n}\nfunc @g() -> (i32) {\n  %0: i32 = for_range %1, %1, %1, %1 (%2: i32, %3: i32) {\n    yield %2\n  }\n  %1: i32 = neg %2\n  return %1\n}\n",
        &[
            "%3 is not defined at this point",
            "%3 is not defined at this point",
            "%3 is not defined at this point",
            "%3 is not defined at this point",
            "%1 is not defined at this point",
        ],
    );
}

#[test]
fn invariant_6_terminators_end_regions() {
    check("return", &["`return` stands before the end of its region"]);
    check_module("func @f() {\n}\n", &["the function's body is empty"]);
    check_module("func @f() {\n  %0: i32 = tid 0\n}\n", &["a region ends in `tid`, which is no terminator"]);
    check("block {\n}", &["`block` has an empty region"]);
}

#[test]
fn invariant_7_names_are_unique() {
    check_module("func @f() {\n  return\n}\nfunc @f() {\n  return\n}\n", &["two functions are called `f`"]);
    check_module("func @\"\"() {\n  return\n}\n", &["a function has an empty name"]);
}

#[test]
fn invariant_8_every_parameter_has_a_name() {
    let mut module = parse("func @f(%0 x: i32) {\n  return\n}\n");
    module.functions.values_mut().for_each(|function| function.param_names.clear());
    assert_eq!(messages(&module), ["the function has 1 parameters and 0 parameter names"]);
}

#[test]
fn invariant_9_arrays_are_parameters() {
    check_module(
        "func @f(%0 x: array<f32, 0>, %1 y: array<f32, 7>) {\n  return\n}\n",
        &[
            "a parameter is an array of 0 dimensions; arrays have 1 to 6",
            "a parameter is an array of 7 dimensions; arrays have 1 to 6",
        ],
    );
    check_module(
        "func @f(%0 x: array<f32, 1>) -> (array<f32, 1>) {\n  return %0\n}\n",
        &["the function returns an array"],
    );
    check(
        "%0: array<f32, 2> = while %arr (%1: array<f32, 2>) {\nyield %c\n} do (%2: array<f32, 2>) {\nyield %2\n}",
        &[
            "`while` gives an array; arrays are parameters or shared memory",
            "a region of `while` takes an array; arrays are parameters or shared memory",
        ],
    );
}

#[test]
fn invariant_10_kernels_have_no_results_and_no_callers() {
    check_module(
        "kernel @k() -> (i32) {\n  %0: i32 = tid 0\n  return %0\n}\n",
        &["the kernel has results (i32); kernels have none"],
    );
    check_module(
        "kernel @k() {\n  return\n}\nfunc @f() {\n  call @k\n  return\n}\n",
        &["@k is a kernel; kernels are launched, not called"],
    );
}

#[test]
fn invariant_11_nothing_recurses() {
    check_module(
        "\
func @main() {
  call @leaf
  call @a
  return
}
func @a() {
  call @leaf
  call @b
  return
}
func @b() {
  call @a
  call @b
  return
}
func @leaf() {
  return
}
",
        &["recursion: @a calls @b calls @a", "recursion: @b calls @b"],
    );
}

#[test]
fn invariant_12_ops_own_their_regions() {
    check("if %c {\nyield\n}", &["`if` owns 1 regions instead of 2"]);
    check("%0: i32 = add %a, %a {\nyield %a\n}", &["`add` owns 1 regions instead of 0"]);
    check("block", &["`block` owns 0 regions instead of 1"]);
}

#[test]
fn invariant_13_types_follow_the_op_table() {
    check("%0: i32 = sin %a", &["`sin` does not take (i32); it is [T: float](x: T) -> T"]);
    check("%0: f32 = lt %f, %f", &["`lt` gives (bool), not (f32)"]);
    check("add %a, %a", &["`add` gives (i32), not nothing"]);
    check(
        "%0: f32 = array_load %arr, %a",
        &["`array_load` does not take (array<f32, 2>, i32); it is [T: scalar](array: array[T], index...) -> T"],
    );
    check(
        "%0: u32 = rand_init %f",
        &["`rand_init` does not take (f32); it is (seed: i32) -> u32 or (seed: i32, offset: i32) -> u32"],
    );
    check("assert \"\" %a", &["`assert` does not take (i32); it is (cond: bool)"]);
}

#[test]
fn invariant_14_constants_fit_their_type() {
    check("%0: i8 = const 0x100", &["the constant 0x100 does not fit i8"]);
    check("%0: bool = const 0x2", &["the constant 0x2 does not fit bool"]);
    check("%0: f32 = const 0x100000000", &["the constant 0x100000000 does not fit f32"]);
    check("const 0x1", &["`const` takes nothing and gives a scalar; here it takes nothing and gives nothing"]);
    check("%0: i32 = const 1 %a", &["`const` takes nothing and gives a scalar; here it takes (i32) and gives (i32)"]);
}

#[test]
fn invariant_15_conversions_are_of_scalars() {
    check("%0: i32 = cast %arr", &["`cast` takes a scalar to a scalar, not (array<f32, 2>) to (i32)"]);
    check("cast %a", &["`cast` takes a scalar to a scalar, not (i32) to nothing"]);
    check("%0: f64 = bitcast %a", &["`bitcast` takes a number to one of the same size, not (i32) to (f64)"]);
    check("%0: bool = bitcast %c", &["`bitcast` takes a number to one of the same size, not (bool) to (bool)"]);
}

#[test]
fn invariant_16_axes_exist() {
    check("%0: i32 = tid 4", &["`tid` names axis 4; there are 4"]);
    check("%0: i32 = dim 2 %arr", &["`dim` names axis 2 of array<f32, 2>"]);
    check("%0: i32 = dim 0 %a", &["`dim` takes an array, not (i32)"]);
    check("%0: i64 = cast %a\ncheck bounds \"a\" 6 %c, %0, %0", &["`check` names axis 6; there are 6"]);
}

#[test]
fn invariant_17_calls_match_their_callee() {
    let module = |call: &str| {
        format!("func @g(%0 x: f32) -> (f32) {{\nreturn %0\n}}\nfunc @f(%0 y: i32, %1 z: f32) {{\n{call}\nreturn\n}}\n")
    };
    check_module(&module("%2: f32 = call @g %0"), &["@g takes (f32), not (i32)"]);
    check_module(&module("%2: i32 = call @g %1"), &["`call` gives (f32), not (i32)"]);
    check_module(&module("%2: f32 = call @g"), &["@g takes (f32), not nothing"]);
}

#[test]
fn invariant_18_print_takes_scalars() {
    check("print \"%f\" %arr", &["`print` takes scalars, not (array<f32, 2>)"]);
    check("%0: i32 = print \"\"", &["`print` gives nothing, not (i32)"]);
}

#[test]
fn invariant_19_if() {
    check("if %a {\nyield\n} else {\nyield\n}", &["`if` takes (bool), not (i32)"]);
    check("if %c (%0: i32) {\nyield\n} else {\nyield\n}", &["region 0 of `if` takes nothing, not (i32)"]);
    check(
        "%0: i32 = if %c {\nyield %f\n} else {\nyield\n}",
        &["a region of `if` yields (i32), not (f32)", "a region of `if` yields (i32), not nothing"],
    );
}

#[test]
fn invariant_20_for_range() {
    check("for_range %a, %a (%0: i32) {\nyield\n}", &["`for_range` takes a start, an end and a step"]);
    check(
        "for_range %f, %f, %f (%0: f32) {\nyield\n}",
        &["`for_range` takes a start, end and step of one integer type, not (f32, f32, f32)"],
    );
    check(
        "%0: i64 = cast %a\nfor_range %a, %0, %a (%1: i32) {\nyield\n}",
        &["`for_range` takes a start, end and step of one integer type, not (i32, i64, i32)"],
    );
    check(
        "%0: i32 = for_range %a, %a, %a, %f (%1: i32) {\nyield %1\n}",
        &["`for_range` gives (f32), not (i32)", "region 0 of `for_range` takes (i32, f32), not (i32)"],
    );
    check(
        "%0: f32 = for_range %a, %a, %a, %f (%1: i32, %2: f32) {\nyield\n}",
        &["a region of `for_range` yields (f32), not nothing"],
    );
}

#[test]
fn invariant_21_while() {
    check(
        "%0: i32 = while %f (%1: i32) {\nyield %c\n} do {\nyield %a\n}",
        &[
            "`while` gives (f32), not (i32)",
            "region 0 of `while` takes (f32), not (i32)",
            "region 1 of `while` takes (f32), not nothing",
        ],
    );
    check("while {\nyield %a\n} do {\nyield\n}", &["the condition of `while` yields (bool), not (i32)"]);
    check("while {\nreturn\n} do {\nyield\n}", &["the condition of `while` does not end in `yield`"]);
    check("while {\nunreachable\n} do {\nyield\n}", &[]);
    check("while {\nyield %c\n} do {\nyield %a\n}", &["a region of `while` yields nothing, not (i32)"]);
}

#[test]
fn invariant_22_block() {
    check("block %a {\nyield\n}", &["`block` takes nothing, not (i32)"]);
    check("block (%0: i32) {\nyield\n}", &["region 0 of `block` takes nothing, not (i32)"]);
    check("%0: f32 = block {\nyield %a\n}", &["a region of `block` yields (f32), not (i32)"]);
}

#[test]
fn invariant_23_jumps_name_what_encloses_them() {
    check("block ^0 {\nyield\n}\nblock {\nbreak ^0\n}", &["the target of `break` does not enclose it"]);
    check("block ^0 {\ncontinue ^0\n}", &["`continue` cannot name `block`"]);
    check("if ^0 %c {\nbreak ^0\n} else {\nyield\n}", &["`break` cannot name `if`"]);
    check("%0: f32 = block ^0 {\nbreak ^0 %a\n}", &["`break` of `block` gives (f32), not (i32)"]);
    check(
        "%0: f32 = for_range ^0 %a, %a, %a, %f (%1: i32, %2: f32) {\ncontinue ^0 %1, %2\n}",
        &["`continue` of `for_range` gives (f32), not (i32, f32)"],
    );
    check("while ^0 {\nyield %c\n} do {\nblock {\nblock {\ncontinue ^0\n}\nyield\n}\nbreak ^0\n}", &[]);
}

#[test]
fn invariant_24_return_gives_the_results() {
    check_module(
        "func @f(%0 x: i32, %1 c: bool) -> (f32) {\n  if %1 {\n    return\n  } else {\n    yield\n  }\n  return %0\n}\n",
        &["`return` takes (f32), not nothing", "`return` takes (f32), not (i32)"],
    );
    check_module(
        "func @f() {\n  yield\n}\n",
        &["`yield` ends the function's body, which ends in `return` or `unreachable`"],
    );
    check_module("func @f() {\n  unreachable\n}\n", &[]);
}

#[test]
fn invariant_25_nothing_follows_an_if_that_does_not_complete() {
    check(
        "if %c {\nreturn\n} else {\nunreachable\n}",
        &["no region of the `if` before this yields, so only `unreachable` may follow"],
    );
    check_module("func @f(%0 c: bool) {\n  if %0 {\n    return\n  } else {\n    return\n  }\n  unreachable\n}\n", &[]);
}

/// The verifier says exactly this after the change.
fn check_broken(change: impl FnOnce(&mut Function), expected: &[&str]) {
    let text =
        "func @f(%0 c: bool) {\n  %1: i32 = tid 0\n  if %0 {\n    yield\n  } else {\n    yield\n  }\n  return\n}\n";
    let mut module = parse(text);
    module.functions.values_mut().for_each(|function| assert!(verify_function(function, None).is_ok()));
    change(module.functions.values_mut().next().unwrap());
    assert_eq!(messages(&module), expected);
}

const TID: fn() -> Inst = || Inst::from_u32(0);
const IF: fn() -> Inst = || Inst::from_u32(1);

#[test]
fn invariant_1_handles_exist() {
    check_broken(|f| f.body = Region::from_u32(9), &["region9 does not exist"]);
    check_broken(|f| f.regions[f.body].params[0] = Value::from_u32(9), &["v9, a parameter of region0, does not exist"]);
    check_broken(|f| f.regions[f.body].insts.insert(0, Inst::from_u32(9)), &["inst9 does not exist"]);
    check_broken(|f| f.insts[TID()].operands.push(Value::from_u32(9)), &["v9, an operand of `tid`, does not exist"]);
    check_broken(|f| f.insts[TID()].results.push(Value::from_u32(9)), &["v9, a result of `tid`, does not exist"]);
    check_broken(
        |f| f.insts[TID()].imm = Imm::Target(Inst::from_u32(9)),
        &["inst9, the target of `tid`, does not exist"],
    );
    check_broken(
        |f| f.insts[TID()].imm = Imm::Func(FuncId::from_u32(9)),
        &["func9, the callee of `tid`, does not exist"],
    );
    check_broken(|f| f.insts[IF()].regions[0] = Region::from_u32(9), &["region9 does not exist"]);
}

#[test]
fn invariant_2_regions_form_a_tree() {
    check_broken(|f| f.insts[IF()].regions[0] = f.body, &["region0 has two owners"]);
    check_broken(|f| f.insts[IF()].regions[0] = f.insts[IF()].regions[1], &["region2 has two owners"]);
    check_broken(
        |f| {
            let region = f.insts[IF()].regions[0];
            f.regions[region].insts.insert(0, IF());
        },
        &["inst1 stands in two places"],
    );
}

#[test]
fn invariant_3_nesting_is_bounded() {
    check_broken(
        |f| {
            for _ in 0..100_000 {
                let inst = f.make_inst(Op::Block, [].as_slice(), &[], Imm::None, Span::NONE);
                let region = f.regions.push(RegionData { params: Default::default(), insts: vec![inst] });
                let body = std::mem::replace(&mut f.body, region);
                f.insts[inst].regions.push(body);
            }
        },
        &["regions nest more than 512 deep"],
    );
}

#[test]
fn invariant_4_values_are_defined_where_they_say() {
    check_broken(
        |f| f.regions[f.body].params.push(Value::from_u32(0)),
        &["v0 is not defined as parameter 1 of region0, where it stands"],
    );
    check_broken(
        |f| f.insts[TID()].results[0] = Value::from_u32(0),
        &["v0 is not defined as result 0 of inst0, where it stands"],
    );
}

#[test]
fn invariant_12_immediates_are_of_the_kind_the_op_needs() {
    check_broken(|f| f.insts[TID()].imm = Imm::None, &["`tid` carries an immediate of another kind"]);
    check_broken(|f| f.insts[IF()].imm = Imm::Axis(0), &["`if` carries an immediate of another kind"]);
}

/// Returns what an architecture has to say about the first kernel of a module.
fn beyond(text: &str, arch: &str) -> Vec<String> {
    let module = parse_module(text, FileId::from_u32(0)).expect("it can be read");
    assert_eq!(verify_module(&module), Ok(()));
    let arch: Arch = arch.parse().expect("it is an architecture");
    check_arch(&module, FuncId::from_u32(0), arch).into_iter().map(|error| error.message).collect()
}

#[test]
fn shared_memory_beyond_the_architecture_is_an_error() {
    let of = |n: u32, dynamic: u32| {
        format!(
            "kernel @k() [shared_bytes = {dynamic}] {{\n  %0: array<f32, 1, shared> = shared_array 0 ({n}) align 16\n  \
             %1: array<f32, 1, shared> = shared_array 0 ({n}) align 16\n  return\n}}\n"
        )
    };
    assert_eq!(beyond(&of(12_288, 0), "sm_75"), [""; 0]);
    assert_eq!(
        beyond(&of(32_768, 0), "sm_90"),
        [
            "the kernel's static shared arrays are too large: it needs 131072 B, sm_90 allows 232448 B opt-in / 49152 B static"
        ]
    );
    assert_eq!(beyond(&of(1024, 100_000), "sm_80"), [""; 0]);
    assert_eq!(
        beyond(&of(1024, 100_000), "sm_86"),
        ["the kernel's blocks share too much memory: it needs 104096 B, sm_86 allows 101376 B opt-in / 49152 B static"]
    );
}

#[test]
fn blocks_registers_and_ops_beyond_the_architecture_are_errors() {
    let text = "kernel @k() [workgroup_size = (64, 32, 1), max_registers = 300] {\n  call @f\n  return\n}\n\
                func @f() {\n  async_commit\n  return\n}\n";
    assert_eq!(
        beyond(text, "sm_75"),
        [
            "`async_commit` needs sm_80 or later, not sm_75",
            "a block of 2048 threads: sm_75 allows 1024, at most 1024 × 1024 × 64",
            "300 registers for each thread: sm_75 allows 255",
        ]
    );
    let product = |factor: &str| {
        format!(
            "kernel @k() [workgroup_size = (32, 1, 1)] {{\n  %0: {factor} = const 0\n  %1: vec<{factor}, 8> = construct %0, %0, %0, %0, \
             %0, %0, %0, %0\n  %2: vec<{factor}, 4> = construct %0, %0, %0, %0\n  %3: f32 = const 0.0\n  %4: vec<f32, 4> = construct \
             %3, %3, %3, %3\n  %5: vec<f32, 4> = mma %1, %2, %4\n  return\n}}\n"
        )
    };
    assert_eq!(beyond(&product("f16"), "sm_75"), [""; 0]);
    assert_eq!(beyond(&product("bf16"), "sm_75"), ["`mma` of `bfloat16` needs sm_80 or later, not sm_75"]);
    assert_eq!(beyond(&product("bf16"), "sm_80"), [""; 0]);
    let text = "kernel @k() [workgroup_size = (1, 1, 128), launch_bounds = (512)] {\n  return\n}\n";
    assert_eq!(
        beyond(text, "sm_120a"),
        ["a block of [1, 1, 128] threads: sm_120a allows 1024, at most 1024 × 1024 × 64"]
    );
}
