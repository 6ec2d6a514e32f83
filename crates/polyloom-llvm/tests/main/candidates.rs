//! Which kernels have candidates that launches may measure.

use crate::conformance::host;
use polyloom_codegen::{ArgFacts, ArrayFacts, Backend, CodeVariant, EmitRequest, Emitter as _, Form};
use polyloom_ir::{FileId, text};

/// Checks whether a kernel of an array of floats and one of integers has candidates.
#[track_caller]
fn check(attributes: &str, body: &str, expect: bool) {
    let source = format!("kernel @k(%0 a: array<f32, 1>, %1 at: array<i32, 1>){attributes} {{\n{body}  return\n}}");
    let module =
        text::parse_module(&source, FileId::from_u32(0)).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"));
    let kernel = module.find("k").expect("it is named `k`");
    let dense = ArrayFacts { contiguous: true, disjoint: true, offsets_fit_i32: true, ..ArrayFacts::default() };
    let variant = CodeVariant::new(1, ArgFacts { arrays: vec![dense; 2], ..ArgFacts::default() });
    let backend = host();
    let candidates = backend.candidates(&module, kernel, &variant);
    let explained =
        backend.emit(&EmitRequest::new(&module, kernel, &variant), Form::Strategy).expect("it is explained");
    let explained = String::from_utf8(explained).expect("it is text");
    assert_eq!(!candidates.is_empty(), expect, "{explained}");
    assert_eq!(explained.contains("so close"), expect, "{explained}");
    if let [chosen, rival] = candidates[..] {
        assert!((chosen == 1) != (rival == 1), "{candidates:?}");
        let code = |lanes| backend.compile(&module, kernel, &variant.clone().with_lanes(lanes)).expect("it compiles");
        assert_eq!(code(None), code(Some(chosen)), "the first is what the back end chooses");
        assert_ne!(code(None), code(Some(rival)));
    }
}

/// Loads from anywhere, stores in a row.
const SCATTER: &str = "
  %2: i32 = tid 0
  %3: i32 = array_load %1, %2
  %4: f32 = array_load %0, %2
  array_store %0, %3, %4
";

#[test]
fn estimates_that_are_close_make_candidates() {
    check("", SCATTER, true);
}

#[test]
fn neighbours_in_rows_are_for_groups() {
    check(
        "",
        "  %2: i32 = tid 0\n  %3: f32 = array_load %0, %2\n  %4: f32 = mul %3, %3\n  array_store %0, %2, %4\n",
        false,
    );
}

#[test]
fn whoever_gives_hints_steers() {
    check(" [hint \"vector_width\" = \"8\"]", SCATTER, false);
    check(" [hint \"unroll\" = \"2\"]", SCATTER, false);
}

#[test]
fn an_order_that_shows_leaves_nothing_to_measure() {
    let update = "  %5: f32 = atomic_add %0, %3, %4\n";
    check("", &format!("{SCATTER}{update}"), false);
}
