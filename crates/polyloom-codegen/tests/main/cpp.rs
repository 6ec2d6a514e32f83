//! C++ text against the interpreter: the conformance suite, through a C++ compiler.

use polyloom_codegen::conformance::text::{CppCompiler, check};
use polyloom_codegen::conformance::{EngineSubject, control, divisors, host, library, memory, ops, random};
use polyloom_codegen::cpp::{self, LibraryTexts, TextSemantics, TextTarget, emit};
use polyloom_ir::{FileId, FuncId, Function, Inst, Module, Op, Type, parse_module};
use polyloom_passes::analysis::range::possibly_negative_indices;
use polyloom_passes::pipeline::PipelineOptions;
use polyloom_passes::text::{definition, for_text};
use std::collections::BTreeSet;
use std::sync::Arc;

/// With texts of its own.
#[derive(Default)]
struct Passes(LibraryTexts);

impl TextSemantics for Passes {
    fn definition(&self, op: Op, types: &[Type]) -> Option<Arc<Module>> {
        definition(op, types)
    }

    fn negative_indices(&self, func: &Function) -> Vec<(Inst, u8)> {
        possibly_negative_indices(func).into_vec()
    }

    fn library_texts(&self) -> &LibraryTexts {
        &self.0
    }
}

fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
    let options = PipelineOptions { checked, ..Default::default() };
    let text = for_text(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}\n{module}"));
    (text.module.into_owned(), text.kernel)
}

/// All suites but that of printing, which goes to the standard output.
const SUITES: [fn(&EngineSubject<'_>); 16] = [
    ops::elementwise,
    ops::constant_operands,
    ops::casts,
    divisors::all,
    control::all,
    memory::ranks_and_ranges,
    memory::strides,
    memory::bools,
    memory::short_rows,
    memory::wrapping_indices,
    memory::atomics,
    memory::contention,
    library::all,
    host::traps,
    host::checks,
    random::few,
];

fn suite(compiler: &str) {
    match CppCompiler::find(compiler) {
        Some(compiler) => check(&compiler, &Passes::default(), &prepare, &SUITES),
        None => println!("skipped: no {compiler}"),
    }
}

#[test]
fn text_compiled_by_gcc_computes_the_interpreters_bits() {
    suite("g++");
}

#[test]
fn text_compiled_by_clang_computes_the_interpreters_bits() {
    suite("clang++");
}

/// A kernel that takes the sine of what a function with this name gives.
fn sine(name: &str) -> Module {
    let text = format!(
        "func @{name}(%a a: f32) -> (f32) {{
           %b: f32 = mul %a, %a
           return %b
         }}
         kernel @k(%x x: array<f32, 1>) {{
           %i: i32 = tid 0
           %y: f32 = array_load %x, %i
           %z: f32 = call @{name} %y
           %s: f32 = sin %z
           array_store %x, %i, %s
           return
         }}"
    );
    parse_module(&text, FileId::from_u32(0)).expect("the text is HIR")
}

#[test]
fn a_text_does_not_depend_on_those_before() {
    let text = |module: &Module, passes: &Passes| {
        let kernel = module.find("k").expect("it has a kernel `k`");
        emit(module, kernel, None, TextTarget::Cuda, &cpp::CppOptions::default(), passes).expect("it has a text")
    };
    let shared = Passes::default();
    let plain = text(&sine("plain"), &shared);
    let sine_of = |text: &str| {
        let definition = text.split_once(" sin(").and_then(|(_, rest)| rest.split_once("\n}"));
        definition.map(|(body, _)| body.to_owned()).expect("the sine is defined")
    };
    let definition = sine_of(&plain);
    let words: BTreeSet<&str> = definition.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase()) && Op::from_name(word).is_none();
    let mut n_renamed = 0;
    for word in words.into_iter().filter(is_name) {
        let module = sine(word);
        let apart = text(&module, &Passes::default());
        assert_eq!(text(&module, &shared), apart, "{word}");
        n_renamed += usize::from(sine_of(&apart) != definition);
    }
    assert!(n_renamed > 0, "no function has the name of a variable");
    assert_eq!(text(&sine("plain"), &shared), plain);
}
