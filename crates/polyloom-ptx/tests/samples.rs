//! Whole kernels as compilers write them.

use crate::device::{Arg, array, launch, try_launch, value, values};
use polyloom_ptx::{FindingKind, Launch, Sanitizers};

fn text(name: &str) -> String {
    let path = format!("{}/tests/ptx/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn saxpy() {
    let n = 1000u32;
    let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.25).collect();
    let y: Vec<f32> = (0..n).map(|i| 100.0 - i as f32).collect();
    let arrays = launch(&text("llvm_tid_saxpy"), "saxpy", 4, 256, vec![array(&y), array(&x), value(3.0f32), value(n)]);
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0f32.mul_add(*x, *y)).collect();
    assert_eq!(values::<f32>(&arrays[0]), expected);
}

#[test]
fn reading_what_nobody_wrote_is_found() {
    let args = vec![Arg::Fresh(128), array(&[1.0f32; 32]), value(3.0f32), value(32u32)];
    let sanitize = Sanitizers { uninitialised: true, ..Sanitizers::default() };
    let launch = Launch { block: [32, 1, 1], sanitize, ..Launch::default() };
    let fault = try_launch(&text("llvm_tid_saxpy"), "saxpy", args, launch).expect_err("a finding");
    assert_eq!(fault.findings.len(), 1);
    let finding = &fault.findings[0];
    assert_eq!((finding.kind, finding.threads.len()), (FindingKind::Uninitialised, 32));
    assert_eq!(finding.site.as_ref().map(|site| site.position.line), Some(40));
}

#[test]
fn going_past_the_end_ends_the_launch() {
    let args = vec![array(&[0.0f32; 32]), array(&[1.0f32; 16]), value(3.0f32), value(32u32)];
    let launch = Launch { block: [32, 1, 1], ..Launch::default() };
    let fault = try_launch(&text("llvm_tid_saxpy"), "saxpy", args, launch).expect_err("a fault");
    let text = fault.to_string();
    assert!(text.starts_with("PTX line 39: out-of-bounds access in kernel `saxpy`: 4 bytes at 0x7f"), "{text}");
    assert!(text.contains("0 bytes past the end of the 64-byte allocation at 0x7f"), "{text}");
    assert!(text.ends_with("by thread (16, 0, 0) of block (0, 0, 0) and 15 more"), "{text}");
}
