//! The text form: print → parse → print is stable, and malformed text is reported whole. Random modules are tested in
//! `polyloom-filetests`.

use polyloom_ir::text::{PrintOptions, print_module};
use polyloom_ir::*;

const FILE: u32 = 0;

fn file() -> FileId {
    FileId::from_u32(FILE)
}

fn parse(text: &str) -> Module {
    match parse_module(text, file()) {
        Ok(module) => module,
        Err(errors) => panic!("{}\n{text}", render_all(text, &errors)),
    }
}

fn render_all(text: &str, errors: &[Diagnostic]) -> String {
    let mut sources = SourceMap::new();
    sources.add(SourceFile::new("test.hir", text, 1));
    errors.iter().map(|error| diagnostic::render(error, &sources, false)).collect()
}

/// The text is what printing it after reading gives.
fn check_canonical(text: &str) {
    assert_eq!(parse(text).to_string(), text);
}

/// Reading reports these messages, each at this piece of the text.
fn check_errors(text: &str, expected: &[(&str, &str)]) {
    let Err(errors) = parse_module(text, file()) else { panic!("accepted:\n{text}") };
    let found: Vec<(&str, &str)> =
        errors.iter().map(|e| (e.message.as_str(), &text[e.span.start as usize..e.span.end as usize])).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_construct_reads_back_as_it_prints() {
    check_canonical(
        r#"func @helper(%0 x: f32, %1 n: i64) -> (f32, bool) {
  %2: bool = const true
  return %0, %2
}

kernel @all(%0 a: array<f32, 2>, %1 s: f32) {
  %2 i: i32 = tid 0
  %3: i32 = dim 1 %0
  %4: f32 = array_load %0, %2, %3
  %5: i64 = const -9223372036854775808
  %6: f32, %7 flag: bool = call @helper %4, %5
  %8: f32 = if %7 {
    yield %6
  } else {
    %9: f32 = const 1e-45
    yield %9
  }
  %10: f32 = for_range ^0 %2, %3, %2, %8 (%11 k: i32, %12: f32) {
    if %7 {
      break ^0 %12
    } else {
      continue ^0 %8
    }
    unreachable
  }
  %13: f32 = while ^1 %10 (%14: f32) {
    yield %7
  } do (%15: f32) {
    break ^1 %15
  }
  %16: f32 = block ^2 {
    if %7 {
      break ^2 %13
    } else {
      yield
    }
    yield %1
  }
  assert "a \"quoted\" \\ line\n" %7
  check bounds "a" 1 %7, %5, %5
  check bounds unsigned "a" 0 %7, %5, %5
  check division %7, %5, %5
  print "%f %d\n" %16, %2
  return
}
"#,
    );
}

#[test]
fn constants_print_as_numbers_where_that_keeps_their_bits() {
    check_canonical(
        "\
kernel @constants() {
  %0: bool = const false
  %1: i8 = const -128
  %2: u64 = const 18446744073709551615
  %3: f32 = const -0.0
  %4: f32 = const 3.4028235e38
  %5: f32 = const -inf
  %6: f32 = const 0x7fc00001
  %7: f64 = const 5e-324
  %8: f64 = const inf
  %9: f64 = const nan
  %10: f16 = const 6.1035156e-5
  %11: bf16 = const -inf
  %12: i8 = const 0x1ff
  %13: bool = const 0x2
  %14: f32 = const nan
  return
}
",
    );
}

#[test]
fn every_16_bit_float_reads_back_its_bits() {
    for ty in ["f16", "bf16"] {
        let consts: String = (0..=0xffff).map(|bits| format!("  %{bits}: {ty} = const 0x{bits:x}\n")).collect();
        let module = parse(&format!("func @f() {{\n{consts}  return\n}}\n"));
        let printed = module.to_string();
        let again = parse(&printed);
        for (bits, inst) in (0..=0xffff).zip(again.functions.values().next().unwrap().insts.values()) {
            assert_eq!(inst.imm, Imm::Bits(bits), "{ty}");
        }
        assert!(printed.contains(&format!("{ty} = const -1.0\n")));
        let beyond = format!("func @f() {{\n%0: {ty} = const 1e39\nreturn\n}}\n");
        check_errors(&beyond, &[(&*format!("`1e39` is not a constant of type {ty}"), "1e39")]);
    }
}

#[test]
fn attributes_that_differ_from_the_default_are_printed() {
    check_canonical(
        r#"kernel @all() [kind = stencil, target = "cuda:1", workgroup_size = (8, 4, 1), shared_bytes = 1024, launch_bounds = (256, 2), max_registers = 32, float_mode = fast, check, hint "unroll" = "4", hint "a b" = "", no_allocation, no_syscalls, inline_always, inline_never, unchecked, critical_path, cpu_affinity = (0, 2), target_latency_ns = 250] {
  return
}

func @one_bound() [launch_bounds = (64)] {
  return
}
"#,
    );
}

#[test]
fn names_that_are_no_words_are_quoted() {
    check_canonical(
        r#"func @"a b"(%0 "": i32, %1 größe: i32) {
  %2 "x\ty": i32 = add %0, %1
  call @"a b" %0, %2
  return
}
"#,
    );
}

#[test]
fn any_word_can_name_a_value_and_comments_are_skipped() {
    let module = parse(
        "; header\nfunc @f(%x x: i32) -> (i32) { ; start\n  %sum: i32 = add %x,\n    %x ; both\n\n  return %sum\n}\n",
    );
    assert_eq!(module.to_string(), "func @f(%0 x: i32) -> (i32) {\n  %1: i32 = add %0, %0\n  return %1\n}\n");
}

#[test]
fn source_ranges_round_trip() {
    let text = "\
kernel @k() !3:0..90 {
  %0: i32 = tid 0 !3:10..13
  for_range %0, %0, %0 !4:7..20 (%1: i32) {
    yield !none
  }
  return !3:80..86
}
";
    let module = parse(text);
    assert_eq!(print_module(&module, PrintOptions { spans: true }), text);
}

#[test]
fn an_instruction_without_a_source_range_stands_for_its_own_text() {
    let text = "kernel @k() {\n  %0: i32 = tid 0\n  if %0 {\n    yield\n  }\n  return\n}\n";
    let module = parse(text);
    let func = module.functions.values().next().unwrap();
    let mut pieces = Vec::new();
    func.walk(func.body, &mut |_, data| pieces.push(&text[data.span.start as usize..data.span.end as usize]));
    assert_eq!(pieces, ["%0: i32 = tid 0", "if %0", "yield", "return"]);
}

#[test]
fn a_use_before_its_definition_is_left_to_the_verifier() {
    check_canonical("func @f() {\n  call @g %0\n  %0: i32 = tid 0\n  return\n}\n\nfunc @g(%0 x: i32) {\n  return\n}\n");
}

#[test]
fn all_errors_are_reported_each_at_its_place() {
    check_errors(
        "\
kernel @k(%0 x: f33) {
  return
}
func @f(%0 x: i8) -> (f32) {
  %1: f32 = sinn %0
  %2: i8 = const 200
  %2: i8 = const 2
  if %0 {
    yield 5
  }
  return %1 %2
}
func @g() {
  %0: i32 = add %1, %2
  break ^3
  call @h
  return
",
        &[
            ("`f33` is not a type", "f33"),
            ("there is no op `sinn`", "sinn"),
            ("`200` is not a constant of type i8", "200"),
            ("value `%2` is defined twice", "%2"),
            ("expected the end of the line, found `5`", "5"),
            ("expected the end of the line, found `%2`", "%2"),
            ("expected an instruction or `}`, found the end of the text", ""),
        ],
    );
}

#[test]
fn unresolved_names_are_reported_when_the_rest_is_well_formed() {
    check_errors(
        "func @g() {\n  %0: i32 = add %1, %0\n  break ^3\n  call @h\n  return\n}\n",
        &[("value `%1` is not defined", "%1"), ("label `^3` is not defined", "^3")],
    );
    check_errors("func @g() {\n  call @h\n  return\n}\n", &[("no function is called `h`", "@h")]);
}

#[test]
fn a_broken_header_does_not_spill_its_body() {
    check_errors(
        "func @f(%0 x: i32) {\n  for_rnge %0, %0, %0 (%1: i32) {\n    yield\n  }\n  retrn\n}\n",
        &[("there is no op `for_rnge`", "for_rnge"), ("there is no op `retrn`", "retrn")],
    );
}

#[test]
fn malformed_attributes_are_reported() {
    check_errors(
        "func @a() [chek] {\n}\nfunc @b() [workgroup_size = (1, 2)] {\n}\nfunc @c() [kind = sparse] {\n}\n\
         func @d() [target = \"tpu\"] {\n}\n",
        &[
            ("there is no attribute `chek`; did you mean `check`?", "chek"),
            ("`workgroup_size` is three numbers, `(x, y, z)`", "("),
            ("`sparse` is not a kernel kind", "sparse"),
            ("`tpu` is not a target", "\"tpu\""),
        ],
    );
}

#[test]
fn nesting_is_bounded() {
    let nested =
        |depth: usize| format!("func @f() {{\n{}{}return\n}}\n", "block {\n".repeat(depth), "}\n".repeat(depth));
    assert!(parse_module(&nested(MAX_REGION_DEPTH - 1), file()).is_ok());
    let Err(errors) = parse_module(&nested(MAX_REGION_DEPTH), file()) else { panic!("accepted") };
    assert_eq!(errors[0].message, "regions nest more than 512 deep");
    assert!(parse_module(&nested(1_000_000), file()).is_err());
}

#[test]
fn errors_render_with_caret_and_help() {
    let text = "kernel @k() {\n  %0: f32 = cnst 1.0\n}\n";
    let Err(errors) = parse_module(text, file()) else { panic!("accepted") };
    assert_eq!(
        render_all(text, &errors),
        "\
error[PL0401]: there is no op `cnst`
 --> test.hir:2:13
  |
2 |   %0: f32 = cnst 1.0
  |             ^^^^
  |
  = help: did you mean `cast` or `const`?
"
    );
}

#[test]
fn address_spaces_are_printed_unless_global() {
    let text = "func @f(%0 a: array<f32, 1>, %1 b: array<f32, 2, shared>, %2 c: array<vec<f32, 3>, 1, local>) {\n  \
                return\n}\n";
    check_canonical(text);
    assert!(parse_module(&text.replace("shared", "common"), file()).is_err());
}
