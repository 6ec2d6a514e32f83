//! Whole kernels as compilers write them.

use crate::device::{Arg, array, launch, try_launch, value, values};
use polyloom_ptx::{FindingKind, LaunchRequest, Sanitizers, Simulator, TensorElement, TensorMap, TensorSwizzle};

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
    let launch = LaunchRequest { block: [32, 1, 1], sanitize, ..LaunchRequest::default() };
    let fault = try_launch(&text("llvm_tid_saxpy"), "saxpy", args, launch).expect_err("a finding");
    assert_eq!(fault.findings.len(), 1);
    let finding = &fault.findings[0];
    assert_eq!((finding.kind, finding.threads.len()), (FindingKind::Uninitialised, 32));
    assert_eq!(finding.site.as_ref().map(|site| site.position.line), Some(40));
}

#[test]
fn going_past_the_end_ends_the_launch() {
    let args = vec![array(&[0.0f32; 32]), array(&[1.0f32; 16]), value(3.0f32), value(32u32)];
    let launch = LaunchRequest { block: [32, 1, 1], ..LaunchRequest::default() };
    let fault = try_launch(&text("llvm_tid_saxpy"), "saxpy", args, launch).expect_err("a fault");
    let text = fault.to_string();
    assert!(text.starts_with("PTX line 39: out-of-bounds access in kernel `saxpy`: 4 bytes at 0x7f"), "{text}");
    assert!(text.contains("0 bytes past the end of the 64-byte allocation at 0x7f"), "{text}");
    assert!(text.ends_with("by thread (16, 0, 0) of block (0, 0, 0) and 15 more"), "{text}");
}

/// A launch of one block of what LLVM wrote.
fn run(name: &str, kernel: &str, threads: u32, shared: u32, args: Vec<Arg>) -> Vec<Vec<u8>> {
    let launch = LaunchRequest { block: [threads, 1, 1], dynamic_shared_bytes: shared, ..LaunchRequest::default() };
    match try_launch(&text(name), kernel, args, launch) {
        Ok((arrays, _)) => arrays,
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn reversal_through_shared_memory() {
    let x: Vec<u32> = (0..256).collect();
    let out = run("llvm_barrier_shared", "rev", 256, 1024, vec![array(&x)]);
    assert_eq!(values::<u32>(&out[0]), x.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn shuffles() {
    let x: Vec<u32> = (0..32).map(|i| i * i).collect();
    let out = run("llvm_shfl", "k", 32, 0, vec![array(&x), array(&[0u32; 32])]);
    // Down by 16, then across 8 in segments of 16.
    let down: Vec<u32> = (0..32).map(|lane| if lane < 16 { x[lane + 16] } else { x[lane] }).collect();
    let across: Vec<u32> = (0..32).map(|lane: usize| down[lane ^ 8]).collect();
    assert_eq!(values::<u32>(&out[0]), across);
    // Lane 0 after `up` by one keeps its own zero, which all get; the last lane has nobody below.
    let expected: Vec<u32> = (0..32).map(|lane| u32::from(lane < 31)).collect();
    assert_eq!(values::<u32>(&out[1]), expected);
}

#[test]
fn votes_matches_and_reductions() {
    let out = run("llvm_vote_match_redux", "k", 32, 0, vec![array(&[0u32; 32])]);
    // ballot of lanes above 7 is the same in all lanes, so all match, `match.all` gives all lanes, whose sum wraps.
    let sum = u32::MAX.wrapping_mul(32);
    let predicates = 1 + 1;
    let expected = sum.wrapping_add(u32::MAX).wrapping_add(predicates).wrapping_add(u32::MAX);
    assert_eq!(values::<u32>(&out[0]), [expected; 32]);
}

#[test]
fn copies_and_products_of_matrices() {
    let x: Vec<u32> = (0..256).collect();
    let out = run("llvm_cpasync", "k", 64, 0, vec![array(&x), array(&[0u32; 64])]);
    // The last copy has a source of no bytes, so it leaves zeros.
    assert_eq!(values::<u32>(&out[1]), [0; 64]);
    let ones = [0x3c00_3c00u32; 128];
    let out = run("llvm_wmma", "k", 32, 0, vec![array(&ones), array(&ones), array(&[0.0f32; 256])]);
    assert_eq!(values::<f32>(&out[2]), [16.0; 256]);
}

#[test]
fn atomics_and_orders() {
    let out = run("llvm_atomic_order_matrix", "rmw", 32, 0, vec![array(&[0u32])]);
    assert_eq!(values::<u32>(&out[0]), [6 * 32]);
    let out = run("llvm_atomic_order_matrix", "cas", 32, 0, vec![array(&[0u32])]);
    assert_eq!(values::<u32>(&out[0]), [1]);
    let out = run("llvm_atomic_order_matrix", "scoped", 32, 0, vec![array(&[0u32])]);
    assert_eq!(values::<u32>(&out[0]), [64]);
    let out = run("llvm_generic_ptr_infer", "k", 1, 0, vec![array(&[9u32]), array(&[0u32])]);
    assert_eq!(values::<u32>(&out[1]), [9]);
}

#[test]
fn products_of_warp_groups_and_copies_of_tiles() {
    // Both descriptors name the start of shared memory, of which the kernel has none.
    let launch = LaunchRequest { block: [128, 1, 1], ..LaunchRequest::default() };
    let args = vec![value(0u64), value(0u64), array(&[0u32])];
    let outside = try_launch(&text("llvm_wgmma_inlineasm"), "k", args, launch).expect_err("there is no shared memory");
    assert_eq!(outside.findings[0].kind, FindingKind::OutOfBounds);
    let map = TensorMap {
        element: TensorElement::F32,
        address: 0,
        extents: vec![32, 32],
        strides: vec![128],
        tile: vec![32, 32],
        steps: vec![1, 1],
        swizzle: TensorSwizzle::None,
        fills_nan: false,
    };
    let simulator = Simulator::default();
    let loaded = simulator.load(&crate::device::module(&text("llvm_tma_mbarrier"))).expect("it loads");
    let memory = simulator.memory();
    let (tensor, out) = (memory.alloc(4096, 16).expect("memory"), memory.alloc(4, 4).expect("memory"));
    memory.write(tensor, &[7.5f32.to_le_bytes(), [0; 4]].concat()).expect("inside");
    let params = [TensorMap { address: tensor, ..map }.to_bytes().to_vec(), out.to_le_bytes().to_vec()];
    let launch = LaunchRequest { params: &params, ..LaunchRequest::default() };
    loaded.kernel("k").expect("it decodes").launch(&launch).unwrap_or_else(|fault| panic!("{fault}"));
    let mut found = [0; 4];
    memory.read(out, &mut found).expect("inside");
    assert_eq!(f32::from_le_bytes(found), 7.5);
}

#[test]
fn fast_arithmetic() {
    let out = run("llvm_fastmath", "k", 1, 0, vec![array(&[0.0f32]), value(1.5f32), value(2.5f32)]);
    let (a, b) = (1.5f64, 2.5f64);
    let x = ((a * b + a) * b + a) / b / a;
    let expected = (1.0 / x.sqrt().sqrt().sin().exp2().log2().sqrt()).max(a);
    let found = f64::from(values::<f32>(&out[0])[0]);
    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
}

#[test]
fn what_the_simulator_lacks_is_named_with_its_place() {
    let refused = |name: &str| -> Vec<String> {
        let simulator = polyloom_ptx::Simulator::default();
        let loaded = simulator.load(&crate::device::module(&text(name))).expect("it loads");
        let errors = loaded.kernel("k").err().expect("it is refused");
        errors.iter().map(ToString::to_string).collect()
    };
    assert_eq!(refused("llvm_libdevice")[0], "48:2: the module does not define `__nv_expf`");
}

#[test]
fn debug_information() {
    let module = crate::device::module(&text("llvm_debug_info"));
    assert_eq!(module.kernels().len(), 1);
    let launch = LaunchRequest { block: [8, 1, 1], ..LaunchRequest::default() };
    let fault = try_launch(&text("llvm_debug_info"), "k", vec![array(&[0u32; 4])], launch).expect_err("too short");
    let source = fault.findings[0].site.clone().and_then(|site| site.source);
    assert_eq!(source, Some(("/src/kernels.py".to_owned(), 5, 5)));
}
